//! One run of a scenario: the world of a plan, its workloads, and the measured numbers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::PathStats;
use braidftp_sim::apps::bulk::{self, Bulk, Span};
use braidftp_sim::apps::ftp::{DuringRun, Holds, Outcome, Session};
use braidftp_sim::apps::transfers;
use braidftp_sim::link::{Counters, Sighting};
use braidftp_sim::record::HostEvent;
use braidftp_sim::windows::SendWindows;
use braidftp_sim::{Host, HostId, LinkId, World};

use super::measure::{Measure, Of, OfLink, What};
use super::plan::{LASTS_MAX, Plan};
use super::resident::{Kind, Resident};
use super::traced::{Traced, TracedEnd};
use super::workloads::{Clock, Does, Workload, between, random};
use crate::figure::{Row, RunFailed};
use crate::papers::ftp;
use crate::stats;

/// The minimum sampling interval of a watcher.
const EVERY_MIN: Duration = Duration::from_micros(10);

/// Observes a running simulation. Observation does not change the run.
pub trait Watcher {
    /// The sampling interval, in simulated time.
    fn every(&self) -> Duration;

    /// Receives a sample. It may call [`RunFailed::end`](crate::figure::RunFailed::end) to end the run.
    fn look(&mut self, look: &Look);

    /// Whether it receives [`Shot`]s instead of samples. Then the packets of all links are recorded.
    fn is_filming(&self) -> bool {
        false
    }

    /// Receives a shot, the last one when the run has ended.
    fn shoot(&mut self, _shot: Shot) {}

    /// The host whose events it receives, if any.
    fn traces(&self) -> Option<Traced> {
        None
    }

    /// Receives the events at that host since the last call, the last ones when the run has ended.
    fn trace(&mut self, _events: Vec<HostEvent>) {}
}

/// The state of a run at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The simulated time.
    pub now: Duration,
    /// For each flow other than FTP, the workload and the received bytes of user data.
    pub flows: Vec<(String, u64)>,
    /// For each link in use, the queued bytes in the forward and the return direction.
    pub queues: Vec<(String, [u64; 2])>,
}

/// The state of a run at one time with its windows and packets, for a film.
#[derive(Debug, Clone)]
pub struct Shot {
    /// The simulated time.
    pub now: Duration,
    /// For each workload that sends: its name, and its windows by path, all its flows together.
    pub senders: Vec<(String, Vec<SendWindows>)>,
    /// The links in use, each direction by itself.
    pub links: Vec<ShotOfLink>,
}

/// One direction of a link in a shot.
#[derive(Debug, Clone)]
pub struct ShotOfLink {
    /// The name of the link.
    pub name: String,
    /// Whether it is the return direction.
    pub is_return: bool,
    /// The queued bytes.
    pub queue_bytes: u64,
    /// What happened to its packets since the last shot.
    pub packets: Vec<Sighting>,
}

/// A flow other than the FTP session: its workload and its hosts.
#[derive(Debug, Clone, Copy)]
struct Flow {
    workload: usize,
    ends: [HostId; 2],
}

/// The links of a world by their indices in the plan; unused ones are absent.
struct Links(Vec<Option<[LinkId; 2]>>);

impl Links {
    /// The links that packets pass on a path from the workload's first host, and back. Missing ones are
    /// created.
    fn of(
        &mut self,
        world: &mut World<Resident>,
        plan: &Plan,
        path: usize,
        workload: &Workload,
    ) -> [Vec<LinkId>; 2] {
        let path = &plan.network.paths[path];
        let pairs: Vec<[LinkId; 2]> = path
            .via
            .iter()
            .map(|link| {
                *self.0[*link].get_or_insert_with(|| {
                    plan.network.links[*link].ways.clone().map(|way| world.add_link(way))
                })
            })
            .collect();
        let forward = pairs.iter().map(|[there, _]| *there).collect();
        let backward = pairs.iter().rev().map(|[_, back]| *back).collect();
        if path.is_reversed == workload.is_reversed { [forward, backward] } else { [backward, forward] }
    }

    /// Adds the routes of a workload between these addresses, one per path.
    fn route(&mut self, world: &mut World<Resident>, plan: &Plan, workload: &Workload, ends: [&[IpAddr]; 2]) {
        for (at, path) in workload.paths.iter().enumerate() {
            let [there, back] = self.of(world, plan, *path, workload);
            world.route_via(ends[0][at], ends[1][at], &there);
            world.route_via(ends[1][at], ends[0][at], &back);
        }
    }
}

/// Runs a plan.
///
/// It ends with [`RunFailed`] if its FTP session fails, or if its requests are not answered within 30 days.
pub(super) fn run(plan: &Plan, measures: &[Measure], seed: u64, watcher: Option<&mut dyn Watcher>) -> Row {
    let mut world: World<Resident> = World::new(seed);
    let mut links = Links(vec![None; plan.network.links.len()]);
    let until = plan.lasts.unwrap_or(LASTS_MAX);
    let ftp = plan.workloads.iter().enumerate().find_map(|(at, workload)| match &workload.does {
        Does::Ftp { session, files, clock } => {
            let mut session = (**session).clone();
            session.files = files.draw(&mut random(seed, at));
            session.seed = seed;
            session.at_most = until;
            // Only the number of links and the overhead of the first are used.
            session.paths = workload
                .paths
                .iter()
                .map(|path| plan.network.links[plan.network.paths[*path].via[0]].ways.clone())
                .collect();
            let ends = session.join(&mut world, |world, clients, servers| {
                links.route(world, plan, workload, [clients, servers]);
            });
            Some((at, session, *clock, ends))
        }
        _ => None,
    });
    let mut flows = Vec::new();
    for (at, workload) in plan.workloads.iter().enumerate() {
        add(&mut world, &mut links, &mut flows, plan, (at, workload), seed);
    }
    let mut seen = Seen::new(plan, &links, &flows, measures);
    if let Some(watcher) = watcher {
        seen.next_look = Some(Time::ZERO + watcher.every());
        seen.server = ftp.as_ref().map(|(at, .., [_, server])| (*at, *server));
        if let Some(traced) = watcher.traces() {
            let its = ftp.as_ref().filter(|(at, ..)| *at == traced.workload).map(|(.., ends)| *ends);
            let flow = || flows.iter().filter(|flow| flow.workload == traced.workload).nth(traced.flow);
            let ends = its.or_else(|| flow().map(|flow| flow.ends)).expect("the flow exists");
            let host = ends[usize::from(traced.end == TracedEnd::Server)];
            world.host(host).trace();
            seen.traced = Some(host);
        }
        if watcher.is_filming() {
            links.0.iter().flatten().flatten().for_each(|id| world.record_link(*id));
        }
        seen.watcher = Some(watcher);
    }
    let outcome = match ftp {
        Some((at, session, clock, ends)) => {
            let (outcome, after) = session.run_in(world, ends, &mut seen);
            world = after;
            Some(Done { workload: at, outcome, session, clock })
        }
        None => {
            alone(&mut world, plan, &flows, &mut seen);
            None
        }
    };
    world.check();
    if let Some(why) = outcome.as_ref().and_then(|done| done.outcome.failed.as_deref()) {
        if plan.lasts.is_some_and(|lasts| world.now() >= Time::ZERO + lasts) {
            RunFailed::end(format!(
                "the FTP session was not over when the run ended, at {} s: give a longer `lasts`, or fewer or smaller files",
                until.as_secs_f64()
            ));
        }
        RunFailed::end(format!("the FTP session failed: {why}"));
    }
    Row(measures.iter().map(|measure| seen.number(measure.what, outcome.as_ref(), plan, &world)).collect())
}

/// Adds the hosts of a workload other than FTP.
fn add(
    world: &mut World<Resident>,
    links: &mut Links,
    flows: &mut Vec<Flow>,
    plan: &Plan,
    (at, workload): (usize, &Workload),
    seed: u64,
) {
    let mut random = random(seed, at);
    for _ in 0..workload.flows() {
        let number = flows.len();
        let addresses = [1, 2].map(|host| {
            let path = |path| IpAddr::V4(Ipv4Addr::new(10, number as u8 + 1, path as u8, host));
            (0..workload.paths.len()).map(path).collect::<Vec<_>>()
        });
        let [from, to] = &addresses;
        let hosts = match &workload.does {
            Does::Ftp { .. } => return,
            Does::Bulk { protocol, starts, ends, write_bytes, .. } => {
                let begins = Time::ZERO + between(*starts, &mut random);
                let span = Span { begins, ends: ends.map(|ends| Time::ZERO + ends) };
                let [mut sender, reader] = bulk::flow_between(span, protocol, from, to, seed ^ number as u64);
                sender.parts_mut().1.write_at_a_time(*write_bytes);
                [sender, reader].map(Resident::bulk_host)
            }
            Does::Transfers { protocol, source, starts, connections } => {
                let starts = between(*starts, &mut random);
                let asked = source.plan(starts, &mut random);
                transfers::hosts(protocol, asked, *connections, from, to, seed ^ number as u64)
                    .map(Resident::transfers_host)
            }
        };
        let [first, second] = hosts;
        let ends = [world.add_host(first, from.clone()), world.add_host(second, to.clone())];
        links.route(world, plan, workload, [from, to]);
        flows.push(Flow { workload: at, ends });
    }
}

/// Runs a world without an FTP session until its end time or its last answer.
fn alone(world: &mut World<Resident>, plan: &Plan, flows: &[Flow], seen: &mut Seen<'_>) {
    let asks: Vec<HostId> = flows
        .iter()
        .filter(|flow| matches!(plan.workloads[flow.workload].does, Does::Transfers { .. }))
        .map(|flow| flow.ends[0])
        .collect();
    let until = Time::ZERO + plan.lasts.unwrap_or(LASTS_MAX);
    let is_timed = plan.lasts.is_some();
    loop {
        let stop = seen.next().unwrap_or(until).min(until);
        let at_most = stop.since(world.now());
        let waits = |world: &World<Resident>| {
            is_timed || asks.iter().any(|host| !world.host(*host).transfers().is_over())
        };
        if world.run_while(at_most, waits) {
            break;
        }
        if stop >= until {
            if !is_timed {
                let seconds = until.as_nanos() / 1_000_000_000;
                RunFailed::end(format!("requests are not answered after {seconds} s of simulated time"));
            }
            break;
        }
        seen.happen(world);
    }
    seen.ended(world);
}

/// A finished FTP session.
struct Done {
    workload: usize,
    outcome: Outcome,
    session: Session,
    clock: Clock,
}

impl Done {
    fn seconds(&self) -> f64 {
        let time = match self.clock {
            Clock::Started => self.outcome.since_started,
            Clock::Asked => self.outcome.since_asked,
            Clock::Opened => self.outcome.since_opened,
        };
        time.as_secs_f64()
    }

    fn column(&self, at: usize) -> f64 {
        if at == 0 { self.seconds() } else { ftp::row(&self.outcome, ftp::Clock::Asked).0[at] }
    }

    fn number(&self, of: Of) -> f64 {
        let times = || {
            let whole = self.outcome.files.iter().filter(|file| file.whole);
            whole.filter_map(|file| Some(file.done?.since(file.asked?).as_secs_f64())).collect::<Vec<_>>()
        };
        match of {
            Of::Goodput => self.session.files.iter().sum::<u64>() as f64 * 8.0 / self.seconds(),
            Of::Completed => self.outcome.files.iter().filter(|file| file.whole).count() as f64,
            _ => of_times(of, times()),
        }
    }
}

/// A mean or a quantile of completion times; failures are infinite.
fn of_times(of: Of, mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    match of {
        _ if times.is_empty() => f64::INFINITY,
        Of::Quantile(part) => stats::reached_by(&times, f64::from(part) / 100.0),
        _ => times.iter().sum::<f64>() / times.len() as f64,
    }
}

/// Samples the running world, and applies the changes of its links.
struct Seen<'a> {
    plan: &'a Plan,
    links: &'a Links,
    flows: &'a [Flow],
    /// Whether queues, windows or round trips are sampled.
    samples: bool,
    next_sample: Option<Time>,
    /// The watcher of the run, and the time of its next sample.
    watcher: Option<&'a mut dyn Watcher>,
    next_look: Option<Time>,
    /// With a watcher: the workload and the server of the FTP session.
    server: Option<(usize, HostId)>,
    /// With a watcher: the host whose events it receives.
    traced: Option<HostId>,
    /// The next event.
    event: usize,
    /// The queue samples of each link and direction, in bytes.
    queues: Vec<[Vec<f64>; 2]>,
    /// The sampled windows and round trips of each flow.
    sums: Vec<Sums>,
    /// The counters at the beginning and at the end of the measurement.
    marks: [Option<Mark>; 2],
}

/// The counters at one time.
#[derive(Debug, Clone)]
struct Mark {
    at: Time,
    read: Vec<u64>,
    links: Vec<[Counters; 2]>,
}

impl<'a> Seen<'a> {
    fn new(plan: &'a Plan, links: &'a Links, flows: &'a [Flow], measures: &[Measure]) -> Self {
        let samples = measures.iter().any(|measure| {
            matches!(
                measure.what,
                What::Link(_, _, OfLink::Queue | OfLink::QueueTail) | What::Of(_, Of::Cwnd | Of::Rtt)
            )
        });
        let counts = measures.iter().any(|measure| !matches!(measure.what, What::Ftp(_)));
        Self {
            plan,
            links,
            flows,
            samples,
            next_sample: counts.then_some(Time::ZERO + plan.from),
            watcher: None,
            next_look: None,
            server: None,
            traced: None,
            event: 0,
            queues: vec![[Vec::new(), Vec::new()]; plan.network.links.len()],
            sums: vec![Sums::default(); flows.len()],
            marks: [None, None],
        }
    }

    fn mark(&self, world: &mut World<Resident>) -> Mark {
        world.settle();
        let read = |flow: &Flow| match &world.host(flow.ends[1]).kind {
            Kind::Bulk(host) => host.app().bytes_arrived(host.endpoint()),
            _ => world.host(flow.ends[0]).transfers().bytes_read(),
        };
        let counters = |ids: &Option<[LinkId; 2]>| match ids {
            Some(ids) => ids.map(|id| world.link(id).counters()),
            None => [Counters::default(); 2],
        };
        Mark {
            at: world.now(),
            read: self.flows.iter().map(read).collect(),
            links: self.links.0.iter().map(counters).collect(),
        }
    }

    fn look(&self, world: &World<Resident>) -> Look {
        let flows = self.flows.iter().map(|flow| {
            let read = match &world.host(flow.ends[1]).kind {
                Kind::Bulk(host) => host.app().bytes_arrived(host.endpoint()),
                _ => world.host(flow.ends[0]).transfers().bytes_read(),
            };
            (self.plan.workloads[flow.workload].name.clone(), read)
        });
        let queues = self.plan.network.links.iter().zip(&self.links.0).filter_map(|(link, ids)| {
            let waiting = (*ids)?.map(|id| world.link(id).waiting_bytes() as u64);
            Some((link.name.clone(), waiting))
        });
        let now = world.now().since(Time::ZERO);
        Look { now, flows: flows.collect(), queues: queues.collect() }
    }

    /// Passes a sample or a shot to the watcher.
    fn watch(&mut self, world: &mut World<Resident>) {
        world.settle();
        if let Some(host) = self.traced {
            let events = world.host(host).take_trace();
            if let Some(watcher) = &mut self.watcher {
                watcher.trace(events);
            }
        }
        if self.watcher.as_ref().is_some_and(|watcher| watcher.is_filming()) {
            let shot = self.shot(world);
            if let Some(watcher) = &mut self.watcher {
                watcher.shoot(shot);
            }
        } else {
            let look = self.look(world);
            if let Some(watcher) = &mut self.watcher {
                watcher.look(&look);
            }
        }
    }

    fn shot(&self, world: &mut World<Resident>) -> Shot {
        let mut senders: Vec<(usize, Vec<SendWindows>)> = Vec::new();
        if let Some((workload, server)) = self.server {
            senders.push((workload, world.host(server).ftp().send_windows()));
        }
        for flow in self.flows {
            let Kind::Bulk(host) = &world.host(flow.ends[0]).kind else { continue };
            if senders.last().is_none_or(|(workload, _)| *workload != flow.workload) {
                senders.push((flow.workload, Vec::new()));
            }
            if let Some((_, sum)) = senders.last_mut() {
                SendWindows::add(sum, &send_windows(host));
            }
        }
        let name = |(workload, windows): (usize, _)| (self.plan.workloads[workload].name.clone(), windows);
        let senders = senders.into_iter().map(name).collect();
        let mut links = Vec::new();
        for (link, ids) in self.plan.network.links.iter().zip(&self.links.0) {
            for (id, is_return) in ids.iter().flatten().zip([false, true]) {
                let queue_bytes = world.link(*id).waiting_bytes() as u64;
                let packets = world.take_link_record(*id);
                links.push(ShotOfLink { name: link.name.clone(), is_return, queue_bytes, packets });
            }
        }
        Shot { now: world.now().since(Time::ZERO), senders, links }
    }

    fn sample(&mut self, world: &mut World<Resident>) {
        world.settle();
        for (queues, ids) in self.queues.iter_mut().zip(&self.links.0) {
            let Some(ids) = ids else { continue };
            for (queue, id) in queues.iter_mut().zip(ids) {
                queue.push(world.link(*id).waiting_bytes() as f64);
            }
        }
        for (at, flow) in self.flows.iter().enumerate() {
            if !matches!(self.plan.workloads[flow.workload].does, Does::Bulk { .. }) {
                continue;
            }
            let (window, trip) = window_and_trip(world.host(flow.ends[0]).bulk());
            self.sums[at].add(window, trip);
        }
    }

    /// The counters at the beginning and at the end of the measurement.
    fn counted(&self) -> (&Mark, &Mark) {
        let [from, to] =
            self.marks.each_ref().map(|mark| mark.as_ref().expect("both are marked when a run has ended"));
        (from, to)
    }

    fn number(&self, what: What, ftp: Option<&Done>, plan: &Plan, world: &World<Resident>) -> f64 {
        match what {
            What::Ftp(column) => ftp.map_or(f64::NAN, |done| done.column(column)),
            What::Of(workload, of) => match ftp.filter(|done| done.workload == workload) {
                Some(done) => done.number(of),
                None => self.of_flows(workload, of, world),
            },
            What::Fairness => {
                let is_bulk = |flow: &Flow| matches!(plan.workloads[flow.workload].does, Does::Bulk { .. });
                let bulk = (0..self.flows.len()).filter(|at| is_bulk(&self.flows[*at]));
                stats::jain(&bulk.map(|at| self.goodput(at)).collect::<Vec<_>>())
            }
            What::Link(link, way, of) => self.of_link(link, way, of),
        }
    }

    /// The goodput of a flow in bits per second.
    fn goodput(&self, flow: usize) -> f64 {
        let (from, to) = self.counted();
        let seconds = to.at.since(from.at).as_secs_f64();
        (to.read[flow] - from.read[flow]) as f64 * 8.0 / seconds
    }

    fn of_flows(&self, workload: usize, of: Of, world: &World<Resident>) -> f64 {
        let its: Vec<usize> =
            (0..self.flows.len()).filter(|at| self.flows[*at].workload == workload).collect();
        let sums = || its.iter().map(|at| &self.sums[*at]);
        let resent = |of: fn(&Resent) -> u64| -> f64 {
            its.iter().map(|at| of(&resent(world.host(self.flows[*at].ends[0]).bulk())) as f64).sum()
        };
        match of {
            Of::Goodput => its.iter().map(|at| self.goodput(*at)).sum(),
            Of::Cwnd => Sums::window(sums()),
            Of::Rtt => Sums::trip(sums()),
            Of::Retransmissions => resent(|it| it.pieces),
            Of::Timeouts => resent(|it| it.timeouts),
            Of::Completed | Of::Failed | Of::Mean | Of::Quantile(_) => {
                let fates = its.iter().flat_map(|at| world.host(self.flows[*at].ends[0]).transfers().fates());
                of_fates(of, fates)
            }
        }
    }

    fn of_link(&self, link: usize, way: usize, of: OfLink) -> f64 {
        let (from, to) = self.counted();
        let counters = [from, to].map(|mark| mark.links[link][way]);
        of_link(of, &counters, to.at.since(from.at).as_secs_f64(), &self.queues[link][way])
    }
}

/// A count of transfers, or their mean time or a quantile of it.
pub(super) fn of_fates<'a>(of: Of, fates: impl Iterator<Item = &'a transfers::Fate>) -> f64 {
    let took = |fate: &transfers::Fate| Some(fate.done?.since(fate.due?).as_secs_f64());
    let begun = fates.filter(|fate| fate.due.is_some());
    match of {
        Of::Completed => begun.filter_map(took).count() as f64,
        Of::Failed => begun.filter(|fate| fate.failed).count() as f64,
        // A transfer in progress at the end of the run is not a failure and has no duration.
        _ => {
            let over = begun.filter(|fate| fate.failed || fate.done.is_some());
            of_times(of, over.map(|fate| took(fate).unwrap_or(f64::INFINITY)).collect())
        }
    }
}

/// A value of a link between two times, so many seconds apart, with samples of its queue.
pub(super) fn of_link(of: OfLink, [from, to]: &[Counters; 2], seconds: f64, queue: &[f64]) -> f64 {
    let since = |of: fn(&Counters) -> u64| (of(to) - of(from)) as f64;
    match of {
        OfLink::Queue => queue.iter().sum::<f64>() / queue.len() as f64,
        OfLink::QueueTail if queue.is_empty() => f64::NAN,
        OfLink::QueueTail => stats::quantile(queue, 0.99),
        OfLink::QueuePeak => to.queue_peak_bytes as f64,
        OfLink::Dropped => since(|it| it.dropped_queue + it.dropped_early + it.dropped_mtu),
        OfLink::Lost => since(|it| it.dropped_loss + it.dropped_down),
        OfLink::Marked => since(|it| it.marked),
        OfLink::Throughput => since(|it| it.bytes_out) * 8.0 / seconds,
    }
}

impl DuringRun<Resident> for Seen<'_> {
    fn next(&self) -> Option<Time> {
        let event = self.plan.network.events.get(self.event).map(|event| Time::ZERO + event.at);
        event.into_iter().chain(self.next_sample).chain(self.next_look).min()
    }

    fn happen(&mut self, world: &mut World<Resident>) {
        let now = world.now();
        while let Some(event) = self.plan.network.events.get(self.event)
            && Time::ZERO + event.at <= now
        {
            for (way, config) in event.ways.iter().enumerate() {
                if let (Some(config), Some(ids)) = (config, self.links.0[event.link]) {
                    world.set_link(ids[way], config.clone());
                }
            }
            self.event += 1;
        }
        if self.next_sample.is_some_and(|at| at <= now) {
            if self.marks[0].is_none() {
                self.marks[0] = Some(self.mark(world));
            }
            if self.samples {
                self.sample(world);
            }
            self.next_sample = self.samples.then(|| now + self.plan.every);
        }
        if self.next_look.is_some_and(|at| at <= now) {
            self.watch(world);
            let every = self.watcher.as_ref().map(|watcher| watcher.every().max(EVERY_MIN));
            self.next_look = every.map(|every| now + every);
        }
    }

    fn ended(&mut self, world: &mut World<Resident>) {
        let mark = self.mark(world);
        // In a run that ends before the measurement begins, the measurement covers the whole run.
        let empty = Mark {
            at: Time::ZERO,
            read: vec![0; self.flows.len()],
            links: vec![[Counters::default(); 2]; self.links.0.len()],
        };
        self.marks[0].get_or_insert(empty);
        self.marks[1] = Some(mark);
        if self.traced.is_some() || self.watcher.as_ref().is_some_and(|watcher| watcher.is_filming()) {
            self.watch(world);
        }
    }
}

/// The samples of a flow: the sums and the numbers of its windows and of its round trips.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    windows: (f64, f64),
    trips: (f64, f64),
}

impl Sums {
    /// Adds a sample: a window in bytes and a round trip in seconds, as far as they are known.
    pub(super) fn add(&mut self, window: Option<f64>, trip: Option<f64>) {
        for (sum, number) in [(&mut self.windows, window), (&mut self.trips, trip)] {
            if let Some(number) = number {
                *sum = (sum.0 + number, sum.1 + 1.0);
            }
        }
    }

    /// The mean window over time and flows.
    pub(super) fn window<'a>(flows: impl Iterator<Item = &'a Self>) -> f64 {
        mean(flows.map(|its| its.windows))
    }

    /// The mean round trip over time and flows.
    pub(super) fn trip<'a>(flows: impl Iterator<Item = &'a Self>) -> f64 {
        mean(flows.map(|its| its.trips))
    }
}

fn mean(sums: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, number) = sums.fold((0.0, 0.0), |all, its| (all.0 + its.0, all.1 + its.1));
    sum / number
}

/// The total window of an association's paths in bytes, and the RTT of the first path in seconds.
pub(super) fn of_paths(paths: &[PathStats]) -> (Option<f64>, Option<f64>) {
    let trip = paths.first().and_then(|path| path.srtt).map(|srtt| srtt.as_secs_f64());
    (Some(paths.iter().map(|path| path.cwnd as f64).sum()), trip)
}

/// The total window over all paths of a flow's sender, and the RTT of its first path in seconds.
fn window_and_trip(host: &Host<Bulk>) -> (Option<f64>, Option<f64>) {
    if let Some(association) = host.app().association().and_then(|id| host.endpoint().association(id)) {
        return of_paths(&association.stats().paths);
    }
    let connection = host.app().connection().and_then(|id| host.tcp().connection(id));
    let stats = connection.map(|connection| connection.stats());
    let trip = stats.as_ref().and_then(|stats| stats.srtt).map(|srtt| srtt.as_secs_f64());
    (stats.map(|stats| stats.cwnd as f64), trip)
}

/// The windows of a flow's sender, by path.
fn send_windows(host: &Host<Bulk>) -> Vec<SendWindows> {
    if let Some(association) = host.app().association().and_then(|id| host.endpoint().association(id)) {
        return SendWindows::of_association(&association.stats());
    }
    let connection = host.app().connection().and_then(|id| host.tcp().connection(id));
    connection.map(|connection| SendWindows::of_connection(&connection.stats())).unwrap_or_default()
}

/// The retransmissions of a sender.
#[derive(Debug, Clone, Copy, Default)]
struct Resent {
    pieces: u64,
    timeouts: u64,
}

fn resent(host: &Host<Bulk>) -> Resent {
    if let Some(association) = host.app().association().and_then(|id| host.endpoint().association(id)) {
        return association.stats().paths.iter().fold(Resent::default(), |all, path| Resent {
            pieces: all.pieces + path.retransmitted_chunks,
            timeouts: all.timeouts + path.timeouts,
        });
    }
    let connection = host.app().connection().and_then(|id| host.tcp().connection(id));
    connection.map_or_else(Resent::default, |connection| {
        let counters = connection.stats().counters;
        Resent { pieces: counters.retransmissions, timeouts: counters.timeouts }
    })
}
