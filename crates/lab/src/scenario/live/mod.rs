//! Live runs of a scenario: real programs and the kernel's TCP between network namespaces, over the simulator's links
//! run by the wall clock ([`braidftp_emu::mesh`]). Links have the same numbers and seeds as in `run.rs`, so that they draw
//! the same losses.
//!
//! Time 0 is when the servers listen and the clients are started. The start of programs is no part of `seconds`, which
//! counts from the client's first packet, as in the simulator.

mod bulk;
mod check;
mod commands;
mod late;
mod requests;
mod sctp;

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use braidftp_emu::mesh::{self, Change, Mesh, MeshConfig, Moving, Passed, Path};
use braidftp_emu::tun::Running;
use braidftp_sim::apps::bulk::Protocol;
use braidftp_sim::apps::ftp::{Asks, Dialog, Variant};
use braidftp_sim::apps::transfers::Fate;
use braidftp_sim::link::LinkConfig;

use self::bulk::{Bulk, Span, Transport};
use self::check::{LASTS_MAX, MTU};
pub(super) use self::check::{check, check_measure, kernel_controller};
use self::commands::{IP_BYTES, Job, TCP_PORT};
pub use self::late::Late;
use self::requests::Requests;
use super::measure::{Measure, Of, What};
use super::network;
use super::plan::Plan;
use super::run::{Sums, of_fates, of_link};
use super::workloads::{Does, Workload, between, random};
use crate::compare::live::{self as programs, IsUp, Scratch};
use crate::figure::Row;
use crate::papers::live::{self as kernel, Room};
use crate::stats;

/// The least part of the machine that a run takes, in Mbit/s of the links that run at once.
const MEGABITS_MIN: u64 = 20;
/// The most by which hosts delay what arrives: over an idle path of `braidlab net` (72.9 Mbit/s, 14.41 ms) 400 pings (`ping -i 0.01`) returned
/// .35 ms later than over the simulated one in the median, 80 % of them within .3 ms, on a machine of two cores.
pub(super) const HOSTS_TAKE: Duration = Duration::from_micros(300);
/// How often a run is looked at.
const TICK: Duration = Duration::from_millis(2);
/// After this time the counters of a moment are published.
const PUBLISHED: Duration = Duration::from_millis(15);

/// What live runs share.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The program braidftp; empty if no run needs it.
    pub braidftp: PathBuf,
    /// The folder for files. Its owner is the caller, who removes it: figures are never dropped.
    pub scratch: Weak<Scratch>,
    /// How late the runs were.
    pub late: Late,
}

/// Changes a plan as both worlds need it, so that they run the same: braidftp asks for files with its login and by commands
/// of its own, and packets are as long as Ethernet permits. Requests over TCP are sent without Nagle's algorithm: the kernel has Minshall's variant.
pub(super) fn align(plan: &mut Plan) {
    let ways = plan.network.links.iter_mut().flat_map(|link| &mut link.ways);
    let changed = plan.network.events.iter_mut().flat_map(|event| event.ways.iter_mut().flatten());
    for way in ways.chain(changed) {
        way.mtu = Some(way.mtu.unwrap_or(MTU).min(MTU));
    }
    for workload in &mut plan.workloads {
        match &mut workload.does {
            Does::Ftp { session, .. } => {
                session.asks = Asks::AtOnce;
                session.dialog = Dialog::Braidftp;
                session.tcp.send_buffer_first_bytes = Some(kernel::SEND_BUFFER_BYTES);
            }
            Does::Transfers { protocol: Protocol::Tcp(config), .. } => Arc::make_mut(config).nagle = false,
            Does::Transfers { .. } | Does::Bulk { .. } => {}
        }
    }
}

/// Gives a plan that is simulated beside live runs hosts that take time, as real ones do: where a path ends, packets are delayed by as much as
/// wake-ups of processes take. Simulated hosts process a packet when it arrives, so that acknowledgements are spaced exactly as the path
/// spaces packets.
pub(super) fn with_hosts(plan: &mut Plan) {
    let network = &mut plan.network;
    let ends = |path: &network::Path| [(path.via[path.via.len() - 1], 0), (path.via[0], 1)];
    for (link, way) in network.paths.iter().flat_map(ends) {
        let changed = network.events.iter_mut().filter(|event| event.link == link);
        let changed = changed.filter_map(|event| event.ways[way].as_mut());
        for config in changed.chain([&mut network.links[link].ways[way]]) {
            config.jitter = config.jitter.max(HOSTS_TAKE);
        }
    }
}

/// The numbers of the links of a plan in a mesh, as in the simulator: by their first use.
struct Layout {
    /// For each link of the plan, the numbers of its directions.
    numbers: Vec<Option<[usize; 2]>>,
    links: Vec<LinkConfig>,
    pairs: Vec<Vec<Path>>,
    /// The workload of each pair of hosts.
    flows: Vec<usize>,
}

impl Layout {
    fn new(plan: &Plan) -> Self {
        let numbers = vec![None; plan.network.links.len()];
        let mut layout = Self { numbers, links: Vec::new(), pairs: Vec::new(), flows: Vec::new() };
        let is_ftp = |workload: &Workload| matches!(workload.does, Does::Ftp { .. });
        let (first, others): (Vec<usize>, Vec<usize>) =
            (0..plan.workloads.len()).partition(|at| is_ftp(&plan.workloads[*at]));
        for workload in first.into_iter().chain(others) {
            let its = &plan.workloads[workload];
            for _ in 0..its.flows() {
                let paths = its.paths.iter().map(|path| layout.path(plan, *path, its.is_reversed)).collect();
                layout.flows.push(workload);
                layout.pairs.push(paths);
            }
        }
        layout
    }

    fn path(&mut self, plan: &Plan, path: usize, is_reversed: bool) -> Path {
        let path = &plan.network.paths[path];
        let mut number = |link: usize| {
            *self.numbers[link].get_or_insert_with(|| {
                self.links.extend(plan.network.links[link].ways.iter().map(with_headers));
                [self.links.len() - 2, self.links.len() - 1]
            })
        };
        let pairs: Vec<[usize; 2]> = path.via.iter().map(|link| number(*link)).collect();
        let there = pairs.iter().map(|[there, _]| *there).collect();
        let back = pairs.iter().rev().map(|[_, back]| *back).collect();
        if path.is_reversed == is_reversed { Path { there, back } } else { Path { there: back, back: there } }
    }

    fn config(&self, plan: &Plan, seed: u64) -> MeshConfig {
        let changes = plan.network.events.iter().flat_map(|event| {
            let change = move |(way, config): (usize, &LinkConfig)| {
                let link = self.numbers[event.link]?[way];
                Some(Change { at: event.at, link, config: with_headers(config) })
            };
            event.ways.iter().enumerate().filter_map(move |(way, it)| change((way, it.as_ref()?)))
        });
        let changes = changes.collect();
        MeshConfig { links: self.links.clone(), pairs: self.pairs.clone(), changes, seed, mtu: MTU as u16 }
    }
}

/// A link for packets that include their IP and UDP headers, which the link's overhead counts in the simulator.
fn with_headers(link: &LinkConfig) -> LinkConfig {
    let included = if commands::is_over_udp(link.overhead_bytes) { link.overhead_bytes } else { IP_BYTES };
    LinkConfig { overhead_bytes: link.overhead_bytes.saturating_sub(included), ..link.clone() }
}

/// A flow between the hosts of a pair.
#[derive(Debug)]
enum Flow {
    /// Over sockets of this process, without a size limit.
    Bulk(Box<Bulk>),
    /// Over sockets of this process, requests and answers.
    Requests(Box<Requests>),
    /// By programs.
    Programs,
}

/// The counters at one time.
#[derive(Default)]
struct Mark {
    at: Duration,
    passed: Passed,
    /// The bytes of user data that each flow's second host has read.
    read: Vec<u64>,
}

/// What a run has measured.
struct Ended {
    /// The counters where the measurement begins and ends.
    marks: [Mark; 2],
    /// The duration of its ftp workload.
    seconds: Option<f64>,
    /// The transfers of each flow.
    fates: Vec<Vec<Fate>>,
}

/// How an ftp workload's client ended: when its last file ended, of braidftp, and its output.
type Fetched = (Option<Instant>, Vec<String>);

/// A server or a client that runs until this is dropped.
struct Serving {
    stop: Option<Sender<()>>,
    running: Option<Running<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(running) = self.running.take() {
            running.join();
        }
    }
}

/// A run of a plan.
struct Run<'a> {
    plan: &'a Plan,
    tools: &'a Tools,
    scratch: &'a Scratch,
    mesh: Mesh,
    layout: Layout,
    folder: PathBuf,
    seed: u64,
    lasts: Duration,
    /// The flow of each pair.
    flows: Vec<Flow>,
    /// Whether windows and round trips are sampled.
    samples: bool,
    serving: Vec<Serving>,
    /// Readers and writers of flows.
    sockets: Vec<Running<Result<(), String>>>,
}

/// The Mbit/s of a plan's links, as a part of what the machine can carry.
fn megabits(plan: &Plan) -> u64 {
    let rates = plan.network.links.iter().flat_map(|link| &link.ways).filter_map(|way| way.rate.slowest());
    let megabits = rates.map(|rate| rate.bits_per_second()).sum::<u64>() / 1_000_000;
    megabits.max(MEGABITS_MIN)
}

/// How many live runs of a plan have room on the machine at once.
pub(super) fn at_once(plan: &Plan) -> usize {
    Room::at_once(megabits(plan))
}

/// Runs a plan live.
///
/// # Errors
///
/// A program or the network fails, with the reason.
pub(super) fn run(plan: &Plan, measures: &[Measure], seed: u64, tools: &Tools) -> Result<Row, String> {
    let _room = Room::of(megabits(plan));
    let scratch = tools.scratch.upgrade().ok_or("the folder for files was removed")?;
    let folder = scratch.run().map_err(|error| format!("cannot make a folder: {error}"))?;
    let layout = Layout::new(plan);
    let mesh = Mesh::up(layout.config(plan, seed)).map_err(|error| error.to_string())?;
    let mut run = Run {
        plan,
        tools,
        scratch: &scratch,
        mesh,
        flows: Vec::new(),
        samples: measures.iter().any(|measure| matches!(measure.what, What::Of(_, Of::Cwnd | Of::Rtt))),
        layout,
        folder: folder.0.clone(),
        seed,
        lasts: plan.lasts.unwrap_or(LASTS_MAX),
        serving: Vec::new(),
        sockets: Vec::new(),
    };
    run.go(measures)
}

impl Run<'_> {
    fn go(&mut self, measures: &[Measure]) -> Result<Row, String> {
        let plan = self.plan;
        let (mut clients, mut jobs) = (Vec::new(), Vec::new());
        for (pair, flow) in self.layout.flows.clone().into_iter().enumerate() {
            let workload = &plan.workloads[flow];
            if workload.is_tcp() {
                self.use_controller(pair, workload)?;
            }
            let own = self.listen(pair, workload)?;
            let is_own = own.is_some();
            self.flows.push(own.unwrap_or(Flow::Programs));
            if is_own {
                continue;
            }
            let job = self.job(pair, workload)?;
            let ([server, client], is_up) = match &workload.given.program {
                Some(program) => (job.named(program, self.lasts), IsUp::Listens(TCP_PORT)),
                None => (job.braidftp(), IsUp::Says),
            };
            self.serve(pair, 1, server, is_up)?;
            clients.push((pair, workload, job.count, client));
            jobs.push((pair, job));
        }
        let moving = self.mesh.start().map_err(|error| error.to_string())?;
        let (ended, has_ended) = channel::<Result<Fetched, String>>();
        let mut fetches = None;
        for (pair, workload, count, client) in clients {
            if matches!(workload.does, Does::Bulk { .. }) {
                self.serve(pair, 0, client, IsUp::AtOnce)?;
                continue;
            }
            let (ended, patience) = (ended.clone(), self.lasts.min(LASTS_MAX));
            let is_timed = workload.given.program.is_none();
            fetches = Some((pair, workload));
            drop(self.mesh.host(pair, 0).spawn(move || {
                let fetched = programs::fetch(client, count, patience);
                // The receiver is gone if the run failed.
                let _ = ended.send(fetched.map(|(watch, said)| (watch.ended().filter(|_| is_timed), said)));
            }));
        }
        self.begin(moving.started());
        let (marks, fetched) = self.follow(&moving, fetches.map(|_| &has_ended))?;
        // Transfers that the end of the run interrupts have not failed.
        let fates = self.flows.iter().map(|flow| match flow {
            Flow::Requests(requests) => requests.fates(),
            Flow::Bulk(_) | Flow::Programs => Vec::new(),
        });
        let fates = fates.collect();
        let seconds = match (fetches, fetched) {
            (Some((pair, workload)), Some(fetched)) => {
                Some(self.seconds(pair, workload, fetched, moving.started(), &marks[1].passed)?)
            }
            _ => None,
        };
        for (_, job) in jobs.iter().filter(|(pair, _)| fetches.is_some_and(|(its, _)| its == *pair)) {
            programs::same_files(job.count, &job.files, &job.received())?;
        }
        let ended = Ended { marks, seconds, fates };
        let row = measures.iter().map(|measure| self.number(measure.what, &ended)).collect();
        self.end()?;
        Ok(Row(row))
    }

    /// Chooses the controller of the kernel's TCP on both hosts of a pair.
    fn use_controller(&self, pair: usize, workload: &Workload) -> Result<(), String> {
        let controller = kernel_controller(workload).unwrap_or("cubic");
        let paths = 0..workload.paths.len();
        for (host, path) in [0, 1].into_iter().flat_map(|host| paths.clone().map(move |path| (host, path))) {
            let address = mesh::address(pair, path, host);
            let (network, device) = (mesh::network(pair, path), mesh::device(path));
            kernel::tune(self.mesh.host(pair, host), controller, &network, &device, address)?;
        }
        match workload.given.program {
            Some(_) if workload.paths.len() > 1 => self.use_mptcp(pair, workload.paths.len()),
            _ => Ok(()),
        }
    }

    /// Lets programs that open sockets of MPTCP (RFC 8684) use all paths of a pair: the second host announces its addresses.
    fn use_mptcp(&self, pair: usize, paths: usize) -> Result<(), String> {
        if !std::path::Path::new("/proc/sys/net/mptcp").exists() {
            return Err("the kernel has no MPTCP (CONFIG_MPTCP), by which programs over TCP use several paths: give the \
                        workload one of the `paths`"
                .to_owned());
        }
        let limits = || {
            let mut limits = Command::new("ip");
            limits.args(["mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8"]);
            limits
        };
        for host in [0, 1] {
            self.mesh.host(pair, host).run(move || kernel::run(limits()))?;
        }
        for path in 1..paths {
            let mut announce = Command::new("ip");
            announce.args(["mptcp", "endpoint", "add", &mesh::address(pair, path, 1).to_string()]);
            announce.args(["dev", &mesh::device(path), "signal"]);
            self.mesh.host(pair, 1).run(move || kernel::run(announce))?;
        }
        Ok(())
    }

    /// What the programs of a pair need.
    fn job<'a>(&self, pair: usize, workload: &'a Workload) -> Result<Job<'a>, String> {
        let (mode, sizes) = match &workload.does {
            Does::Ftp { session, files, .. } => {
                (session.variant.name(), files.draw(&mut random(self.seed, self.layout.flows[pair])))
            }
            _ => (Variant::Tcp.name(), Vec::new()),
        };
        let cannot = |error: std::io::Error| format!("cannot write the files: {error}");
        let files = self.scratch.files(&sizes).map_err(cannot)?;
        let folder = self.folder.join(pair.to_string());
        std::fs::create_dir_all(folder.join("received")).map_err(cannot)?;
        let address = |path: usize| [0, 1].map(|host| mesh::address(pair, path, host));
        Ok(Job {
            braidftp: self.tools.braidftp.clone(),
            given: &workload.given,
            mode,
            paths: (0..workload.paths.len()).map(address).collect(),
            overhead_bytes: self.overhead_bytes(workload),
            files,
            count: sizes.len(),
            folder,
        })
    }

    /// Starts a program on a host of a pair, and waits until it is up.
    fn serve(&mut self, pair: usize, host: usize, command: Command, is_up: IsUp) -> Result<(), String> {
        let (ready, is_ready) = channel();
        let (stop, stopped) = channel::<()>();
        let running =
            self.mesh.host(pair, host).spawn(move || programs::serve(command, is_up, &ready, &stopped));
        self.serving.push(Serving { stop: Some(stop), running: Some(running) });
        is_ready.recv().unwrap_or_else(|_| Err("the server's thread ended unexpectedly".to_owned()))
    }

    /// Starts the second host's side of a flow over sockets of this process; `None` if its workload is run by programs.
    fn listen(&mut self, pair: usize, workload: &Workload) -> Result<Option<Flow>, String> {
        if workload.given.program.is_some() {
            return Ok(None);
        }
        let host = self.mesh.host(pair, 1);
        let mut random = random(self.seed, self.layout.flows[pair]);
        let (flow, server) = match &workload.does {
            Does::Ftp { .. } => return Ok(None),
            Does::Bulk { protocol, starts, ends, write_bytes, .. } => {
                // The flows of a workload draw their starts one after another, as in the simulator.
                let before =
                    self.layout.flows[..pair].iter().filter(|its| **its == self.layout.flows[pair]).count();
                let starts = (0..=before).map(|_| between(*starts, &mut random)).last().unwrap_or_default();
                let span = Span { starts, ends: *ends, write_bytes: *write_bytes };
                let (bulk, reader) = Bulk::listen(host, self.transport(pair, workload, protocol), span)?;
                (Flow::Bulk(Box::new(bulk)), reader)
            }
            Does::Transfers { protocol, source, starts, connections } => {
                let plan = source.plan(between(*starts, &mut random), &mut random);
                let transport = self.transport(pair, workload, protocol);
                let (requests, server) = Requests::listen(host, transport, plan, *connections)?;
                (Flow::Requests(Box::new(requests)), server)
            }
        };
        self.sockets.push(server);
        Ok(Some(flow))
    }

    fn transport(&self, pair: usize, workload: &Workload, protocol: &Protocol) -> Transport {
        match protocol {
            Protocol::Tcp(_) => Transport::Tcp(mesh::address(pair, 0, 1)),
            Protocol::Sctp(config) => {
                let address = |path: usize| [0, 1].map(|host| mesh::address(pair, path, host));
                let paths = (0..workload.paths.len()).map(address).collect();
                Transport::Sctp(sctp::Ends::new(self.overhead_bytes(workload), paths, config.clone()))
            }
        }
    }

    /// The bytes of headers around the packets of a workload.
    fn overhead_bytes(&self, workload: &Workload) -> usize {
        let first = self.plan.network.paths[workload.paths[0]].via[0];
        self.plan.network.links[first].ways[0].overhead_bytes
    }

    /// Starts the first host's side of flows over sockets of this process.
    fn begin(&mut self, began: Instant) {
        for (pair, flow) in self.flows.iter_mut().enumerate() {
            let host = self.mesh.host(pair, 0);
            match flow {
                Flow::Bulk(bulk) => self.sockets.push(bulk.write(host, began)),
                Flow::Requests(requests) => self.sockets.push(requests.ask(host, began)),
                Flow::Programs => {}
            }
        }
    }

    /// Waits for the end of the run. Returns the counters where the measurement begins and ends, and how the ftp client
    /// ended.
    fn follow(
        &mut self,
        moving: &Moving,
        fetched: Option<&Receiver<Result<Fetched, String>>>,
    ) -> Result<([Mark; 2], Option<Fetched>), String> {
        let (mut from, mut sampled) = (None, self.plan.from);
        let mut overslept = Duration::ZERO;
        loop {
            let now = moving.started().elapsed();
            if from.is_none() && now >= self.plan.from {
                from = Some(self.mark(moving));
            }
            let samples = self.samples && now >= sampled;
            for flow in &mut self.flows {
                let Flow::Bulk(bulk) = flow else { continue };
                bulk.end_at(now);
                if samples {
                    bulk.sample();
                }
            }
            while samples && sampled <= now {
                sampled += self.plan.every;
            }
            let ended = fetched.and_then(|fetched| fetched.try_recv().ok()).transpose()?;
            let is_answered = fetched.is_none() && self.plan.lasts.is_none() && self.is_answered();
            if ended.is_some() || is_answered || now >= self.lasts {
                if ended.is_none() && fetched.is_some() {
                    return Err(format!("the files did not arrive within {} s", self.lasts.as_secs_f64()));
                }
                if !is_answered && fetched.is_none() && self.plan.lasts.is_none() {
                    return Err(format!("requests are not answered after {} s", self.lasts.as_secs_f64()));
                }
                self.tools.late.add(overslept, moving.started().elapsed());
                // The counters are published every 10 ms.
                sleep(PUBLISHED);
                let to = self.mark(moving);
                return Ok(([from.unwrap_or_else(|| self.nothing()), to], ended));
            }
            let slept = Instant::now();
            sleep(TICK);
            overslept += late::beyond(slept.elapsed(), TICK);
        }
    }

    /// Whether all requests are answered or have failed.
    fn is_answered(&self) -> bool {
        self.flows.iter().all(|flow| match flow {
            Flow::Requests(requests) => requests.is_over(),
            Flow::Bulk(_) | Flow::Programs => true,
        })
    }

    fn nothing(&self) -> Mark {
        Mark { read: vec![0; self.flows.len()], ..Mark::default() }
    }

    fn mark(&self, moving: &Moving) -> Mark {
        let (at, passed) = (moving.started().elapsed(), moving.passed());
        let read = |(pair, flow): (usize, &Flow)| match flow {
            Flow::Bulk(bulk) => bulk.read_bytes(),
            Flow::Requests(requests) => requests.read_bytes(),
            Flow::Programs => {
                let paths = 0..self.plan.workloads[self.layout.flows[pair]].paths.len();
                let device = |path| passed.devices.get(self.mesh.device(pair, path, 1));
                paths.filter_map(device).map(|device| device.data_bytes).sum()
            }
        };
        let read = self.flows.iter().enumerate().map(read).collect();
        Mark { at, passed, read }
    }

    /// The duration of an ftp workload: from its client's first packet to the end of its last file. Of other programs it
    /// ends with the last segment that has data.
    fn seconds(
        &self,
        pair: usize,
        workload: &Workload,
        (ended, said): Fetched,
        started: Instant,
        passed: &Passed,
    ) -> Result<f64, String> {
        let devices = (0..workload.paths.len()).map(|path| &passed.devices[self.mesh.device(pair, path, 0)]);
        let (first, last): (Vec<_>, Vec<_>) =
            devices.map(|device| (device.first_sent, device.last_data)).unzip();
        let ended = match workload.given.program {
            None => ended.map(|at| at.saturating_duration_since(started)),
            Some(_) => last.into_iter().flatten().max(),
        };
        let failed = || format!("the client did not fetch all files: {}", programs::last(&said));
        let began = first.into_iter().flatten().min().ok_or_else(failed)?;
        Ok(ended.ok_or_else(failed)?.saturating_sub(began).as_secs_f64())
    }

    /// Ends all programs and flows.
    fn end(&mut self) -> Result<(), String> {
        for flow in self.flows.drain(..) {
            if let Flow::Bulk(bulk) = flow {
                bulk.stop();
            }
        }
        self.serving.clear();
        self.sockets.drain(..).map(Running::join).collect::<Result<Vec<()>, String>>().map(drop)
    }

    fn number(&self, what: What, ended: &Ended) -> f64 {
        let [from, to] = &ended.marks;
        let lasted = (to.at - from.at).as_secs_f64();
        let goodput = |pair: usize| (to.read[pair] - from.read[pair]) as f64 * 8.0 / lasted;
        let pairs = |is: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (0..self.layout.flows.len()).filter(|pair| is(self.layout.flows[*pair])).collect()
        };
        match what {
            What::Ftp(_) => ended.seconds.unwrap_or(f64::NAN),
            What::Of(workload, of) => match &self.plan.workloads[workload].does {
                Does::Ftp { files, .. } => {
                    let files = files.draw(&mut random(self.seed, workload));
                    match of {
                        Of::Goodput => {
                            files.iter().sum::<u64>() as f64 * 8.0 / ended.seconds.unwrap_or(f64::NAN)
                        }
                        _ => files.len() as f64,
                    }
                }
                Does::Bulk { .. } | Does::Transfers { .. } => {
                    let its = pairs(&|its| its == workload);
                    match of {
                        Of::Goodput => its.into_iter().map(goodput).sum(),
                        _ => self.of_flows(of, &its, ended),
                    }
                }
            },
            What::Fairness => {
                let is_bulk = |its: usize| matches!(self.plan.workloads[its].does, Does::Bulk { .. });
                stats::jain(&pairs(&is_bulk).into_iter().map(goodput).collect::<Vec<_>>())
            }
            What::Link(link, way, of) => {
                let Some(number) = self.layout.numbers[link].map(|numbers| numbers[way]) else { return 0.0 };
                let counters = |mark: &Mark| mark.passed.links.get(number).copied().unwrap_or_default();
                of_link(of, &[counters(from), counters(to)], lasted, &[])
            }
        }
    }

    /// A value of the flows of a workload, other than its goodput.
    fn of_flows(&self, of: Of, pairs: &[usize], ended: &Ended) -> f64 {
        let bulk = || {
            pairs.iter().filter_map(|pair| match &self.flows[*pair] {
                Flow::Bulk(bulk) => Some(bulk),
                Flow::Requests(_) | Flow::Programs => None,
            })
        };
        match of {
            Of::Cwnd => Sums::window(bulk().map(|bulk| &bulk.samples)),
            Of::Rtt => Sums::trip(bulk().map(|bulk| &bulk.samples)),
            Of::Retransmissions => bulk().map(|bulk| bulk.state().retransmissions as f64).sum(),
            Of::Timeouts => bulk().map(|bulk| bulk.state().timeouts as f64).sum(),
            _ => of_fates(of, pairs.iter().flat_map(|pair| &ended.fates[*pair])),
        }
    }
}
