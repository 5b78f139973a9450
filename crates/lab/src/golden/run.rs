//! Runs a golden scenario: the profile `ns2` with the scenario's parameters, and those behaviours of the
//! module that belong to the application.
//!
//! The application requests a HEARTBEAT on every path once the association is up (SPP_HB_DEMAND, RFC 6458
//! §8.1.12), and sends its first data when all have been answered (README §4.2, H2). The scenario's events
//! keep their distance to the first DATA, since the handshake of a real stack takes longer.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{
    AllowedPath, Announce, Config, Connect, Event, Message, Multipath, Order, PathId, PathState, Ppid,
    Profile, Reliability, RetransmitBy, RetransmitTo, StreamId,
};

use super::Trace;
use super::net::{Net, Side, address};
use super::scenario::{Class, Happening, Outcome, Scenario, What};

/// The length of a DATA chunk's header.
const DATA_HEADER: usize = 16;
const COMMON_HEADER: usize = 12;
const PORT: u16 = 7;
/// The amount that an unlimited source keeps buffered, in bytes: practically everything, because each
/// refill permits a burst.
const BACKLOG: usize = 32 << 20;

/// The parameters of a side: the module's names over its defaults.
struct Params<'a> {
    own: &'a BTreeMap<String, f64>,
    defaults: &'a BTreeMap<String, f64>,
}

impl Params<'_> {
    fn get(&self, name: &str) -> f64 {
        self.own.get(name).or_else(|| self.defaults.get(name)).copied().unwrap_or(0.0)
    }

    fn number(&self, name: &str) -> usize {
        self.get(name) as usize
    }

    fn on(&self, name: &str) -> bool {
        self.get(name) != 0.0
    }

    fn duration(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.get(name))
    }

    fn config(&self, class: Class) -> Config {
        let mut config = Profile::Ns2.config();
        let small = |name| NonZeroU8::new(self.number(name) as u8).unwrap_or(NonZeroU8::MIN);
        config.path_mtu.packet_bytes = self.number("mtu") - 20;
        config.timers.rto.initial = self.duration("initialRto");
        config.timers.rto.min = self.duration("minRto");
        config.timers.rto.max = self.duration("maxRto");
        config.legacy.missing_reports = small("fastRtxTrigger");
        config.congestion.max_burst = self.on("useMaxBurst").then_some(4);
        config.congestion.options.initial_ssthresh = Some(self.number("initialSsthresh") as u32);
        config.legacy.retransmit_to = match self.number("rtxToAlt") {
            0 => RetransmitTo::Same,
            1 => RetransmitTo::Another,
            _ => RetransmitTo::ByCause,
        };
        config.failover.path_max_retrans = self.number("pathMaxRetrans") as u32;
        config.failover.primary_switchover_max_retrans = Some(config.failover.path_max_retrans);
        config.failover.association_max_retrans = self.number("associationMaxRetrans") as u32;
        config.handshake.max_init_retransmits = self.number("maxInitRetransmits") as u32;
        config.timers.heartbeat_interval =
            self.on("heartbeatInterval").then(|| self.duration("heartbeatInterval"));
        config.sack.delay = self.duration("sackDelay");
        config.sack.frequency = if self.on("useDelayedSacks") { 2 } else { 1 };
        config.memory.receive_buffer_bytes = self.number("initialRwnd");
        config.memory.send_buffer_bytes = 64 << 20;
        config.streams.outbound = self.number("numOutStreams") as u16;
        config.sack.nr_sack = self.on("useNonRenegSacks");
        config.messages.partial_reliability = self.on("numUnrelStreams");
        if class == Class::Cmt {
            config.congestion.options.floor_mtus = small("initialCwnd");
            // The policies, in the order of the papers and of the module.
            let policies =
                [RetransmitBy::Same, RetransmitBy::Asap, RetransmitBy::Ssthresh, RetransmitBy::LossRate];
            let retransmit_by =
                policies.get(self.number("eCmtRtxPolicy")).copied().unwrap_or(RetransmitBy::Cwnd);
            let window_after_failure = small("cmtPFCwnd");
            config.paths.multipath =
                Some(Multipath { retransmit_by, window_after_failure, ..Multipath::plain() });
            config.failover.potentially_failed_max_retrans = self.on("useCmtPF").then_some(0);
        }
        config
    }
}

/// The data source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Nothing,
    Unlimited,
    Bytes(usize),
}

struct App {
    source: Source,
    chunk_bytes: usize,
    chunks_a_packet: usize,
    send_buffer_bytes: usize,
    streams: u16,
    unreliable_streams: u16,
    retransmissions: u32,
    order: Order,
    next_stream: u16,
    /// Whether all paths have answered.
    begun: bool,
    asked_at: Option<Time>,
    /// The number of chunks of a transfer.
    transfer: Option<u64>,
}

impl App {
    /// The application of a sender with these parameters.
    fn of(sender: &Params<'_>) -> Self {
        let chunk_bytes = sender.number("dataChunkSize");
        Self {
            source: Source::Nothing,
            chunk_bytes,
            chunks_a_packet: ((sender.number("mtu") - 20 - COMMON_HEADER) / chunk_bytes.next_multiple_of(4))
                .max(1),
            send_buffer_bytes: sender.number("initialSwnd"),
            streams: sender.number("numOutStreams") as u16,
            unreliable_streams: sender.number("numUnrelStreams") as u16,
            retransmissions: sender.number("reliability") as u32,
            order: if sender.on("unordered") { Order::Unordered } else { Order::Ordered },
            next_stream: 0,
            begun: false,
            asked_at: None,
            transfer: None,
        }
    }
}

/// Runs the scenario.
pub(crate) fn run(
    scenario: &Scenario,
    defaults: &BTreeMap<String, f64>,
    trace: Trace,
) -> Result<(Outcome, Vec<String>), String> {
    let mut net = Net::new(scenario)?;
    net.seen.trace = (trace == Trace::Yes).then(Vec::new);
    let sender = Params { own: &scenario.sender.params, defaults };
    let receiver = Params { own: &scenario.receiver.params, defaults };
    let paths = paths(scenario);
    let back =
        |(own, its): &(u8, u8)| AllowedPath { local: address(*its).ip(), peer: Some(address(*own).ip()) };
    let receiver_config = receiver.config(scenario.class).with(|c| {
        c.streams.inbound = 2_048;
        c.paths.allowed = paths.iter().map(back).collect();
    });
    let host = net.host(Side::Receiver);
    host.endpoint.listen(PORT, Arc::new(receiver_config)).map_err(|error| error.to_string())?;
    host.endpoint
        .set_addresses(scenario.receiver.interfaces.iter().copied().map(address).collect(), Announce::Always);
    let mut app = App::of(&sender);
    let golden_first = scenario.golden.first_data_us as f64 / 1e6;
    let window = Duration::from_secs_f64(scenario.end_time - golden_first);
    let mut events: Vec<Happening> = scenario.events.clone();
    events.sort_by(|a, b| a.time.total_cmp(&b.time));
    events.reverse();
    loop {
        while let Some(event) = events.last().copied() {
            let at = when(event, net.seen.first_data, golden_first);
            if at.is_none_or(|at| at > net.now) {
                break;
            }
            events.pop();
            happen(event.what, &mut net, &mut app, scenario, &sender)?;
        }
        settle(&mut net, &mut app);
        while net.arrive().is_some() {
            settle(&mut net, &mut app);
        }
        let end = net.seen.first_data.map(|first| first + window);
        let event = events.last().and_then(|event| when(*event, net.seen.first_data, golden_first));
        let next = net.next().into_iter().chain(event).min();
        let horizon = Time::from_nanos(((scenario.end_time + 60.0) * 1e9) as u64);
        match next {
            Some(at) if end.is_none_or(|end| at < end) && at < horizon => {
                let at = at.max(net.now);
                net.advance(at);
            }
            _ => break,
        }
    }
    Ok((outcome(&net, &app), net.seen.trace.unwrap_or_default()))
}

/// Applies an event of the scenario.
fn happen(
    what: What,
    net: &mut Net,
    app: &mut App,
    scenario: &Scenario,
    sender: &Params<'_>,
) -> Result<(), String> {
    match what {
        What::Start => {
            app.source = Source::Unlimited;
            connect(net, &paths(scenario), sender.config(scenario.class))?;
        }
        What::Send { bytes } => {
            app.chunk_bytes = sender.number("mtu") - 20 - COMMON_HEADER;
            app.source = Source::Bytes(bytes);
            connect(net, &paths(scenario), sender.config(scenario.class))?;
        }
        What::Stop => net.host(Side::Sender).is_dead = true,
        What::SetPrimary { node } => set_primary(net, node),
        What::LinkDown { a, b } => net.link_down(a, b),
    }
    Ok(())
}

/// The outcome of a finished run.
fn outcome(net: &Net, app: &App) -> Outcome {
    let Some(first) = net.seen.first_data else {
        return Outcome { chunks: 0, retransmissions: 0, elapsed: None };
    };
    let chunks = net.seen.arrivals.len() as u64;
    let whole = app.transfer.filter(|transfer| *transfer == chunks).and(net.seen.arrivals.last());
    Outcome {
        chunks,
        retransmissions: net.seen.retransmissions.len() as u64,
        elapsed: whole.map(|at| at.since(first).as_secs_f64()),
    }
}

/// The time of an event: at the same distance from the first DATA as in the suite's run.
fn when(event: Happening, first_data: Option<Time>, golden_first: f64) -> Option<Time> {
    let nanos = |seconds: f64| Duration::from_nanos((seconds * 1e9).round() as u64);
    match (event.what, first_data) {
        (What::Start | What::Send { .. }, _) => Some(Time::ZERO + nanos(event.time)),
        (_, first) => Some(first? + nanos((event.time - golden_first).max(0.0))),
    }
}

/// The paths, each from an interface of the sender to one of the receiver, the primary first. Without a
/// router, interface n of one host is linked to interface n of the other.
fn paths(scenario: &Scenario) -> Vec<(u8, u8)> {
    let own = &scenario.sender.interfaces;
    let own_of = |index: usize| own[if scenario.router.is_some() { 0 } else { index.min(own.len() - 1) }];
    let peer = scenario.receiver.interfaces.iter().enumerate();
    let mut paths: Vec<_> = peer.map(|(index, node)| (own_of(index), *node)).collect();
    let primary = scenario.sender.primary.or_else(|| scenario.receiver.interfaces.last().copied());
    paths.sort_by_key(|(_, node)| Some(*node) != primary);
    paths
}

fn connect(net: &mut Net, paths: &[(u8, u8)], mut config: Config) -> Result<(), String> {
    let there =
        |(own, its): &(u8, u8)| AllowedPath { local: address(*own).ip(), peer: Some(address(*its).ip()) };
    config.paths.allowed = paths.iter().map(there).collect();
    let mut local: Vec<_> = paths.iter().map(|(own, _)| address(*own)).collect();
    local.dedup();
    let connect = Connect {
        local,
        peer: paths.iter().map(|(_, its)| address(*its)).collect(),
        source_port: Some(PORT),
        destination_port: PORT,
        config: Arc::new(config),
    };
    let now = net.now;
    let host = net.host(Side::Sender);
    host.id = Some(host.endpoint.connect(now, connect).map_err(|error| error.to_string())?);
    Ok(())
}

fn set_primary(net: &mut Net, node: u8) {
    let host = net.host(Side::Sender);
    let Some(association) = host.id.and_then(|id| host.endpoint.association_mut(id)) else { return };
    let path = association.paths().find(|path| path.peer == address(node)).map(|path| path.id);
    if let Some(path) = path {
        let _ = association.set_primary(path);
    }
}

/// Lets both sides act until nothing is left to do at this time.
fn settle(net: &mut Net, app: &mut App) {
    loop {
        let mut quiet = true;
        while let Some(event) = net.drain(Side::Receiver) {
            quiet = false;
            if let Event::Readable(_) = event {
                read(net);
            }
        }
        while net.drain(Side::Sender).is_some() {}
        quiet &= !app.work(net);
        if quiet {
            return;
        }
    }
}

fn read(net: &mut Net) {
    let host = net.host(Side::Receiver);
    let Some(association) = host.id.and_then(|id| host.endpoint.association_mut(id)) else { return };
    while let Some(stream) = association.readable() {
        while association.recv(stream).is_some() {}
    }
}

impl App {
    /// Acts once; returns whether anything happened.
    fn work(&mut self, net: &mut Net) -> bool {
        let now = net.now;
        let host = net.host(Side::Sender);
        let is_dead = host.is_dead;
        let Some(association) = host.id.and_then(|id| host.endpoint.association_mut(id)) else {
            return false;
        };
        if is_dead || !association.is_up() {
            return false;
        }
        if !self.begun {
            let stats = association.stats();
            let answered =
                |path: &braidftp_sctp::PathStats| path.state == PathState::Active && path.srtt.is_some();
            if !stats.paths.iter().all(answered) {
                // At most once at a time; an outstanding HEARTBEAT is not repeated.
                if self.asked_at.replace(now) == Some(now) {
                    return false;
                }
                for (index, path) in stats.paths.iter().enumerate() {
                    if path.state == PathState::Active && path.srtt.is_none() {
                        let _ = association.demand_heartbeat(PathId(index as u8));
                    }
                }
                return true;
            }
            self.begun = true;
        }
        match self.source {
            Source::Nothing => false,
            Source::Bytes(bytes) => {
                self.source = Source::Bytes(0);
                let payload = self.chunk_bytes - DATA_HEADER;
                let mut left = bytes;
                while left > 0 {
                    let len = left.min(payload);
                    let _ = association.send(StreamId(0), self.message(len, 0));
                    left -= len;
                }
                if bytes > 0 {
                    self.transfer = Some(bytes.div_ceil(payload) as u64);
                }
                bytes > 0
            }
            Source::Unlimited => {
                let mut sent = false;
                loop {
                    let stats = association.stats();
                    let goes = if self.send_buffer_bytes > 0 {
                        // Buffered data counts with chunk headers, and is checked once per packet.
                        let payload = self.chunk_bytes - DATA_HEADER;
                        let buffered = stats.buffered_bytes / payload * self.chunk_bytes;
                        buffered + self.chunk_bytes <= self.send_buffer_bytes
                    } else {
                        stats.queued_bytes < BACKLOG && (sent || stats.queued_bytes < BACKLOG / 2)
                    };
                    if !goes {
                        return sent;
                    }
                    for _ in 0..self.chunks_a_packet {
                        let stream = self.next_stream;
                        self.next_stream = (stream + 1) % self.streams.max(1);
                        let message = self.message(self.chunk_bytes - DATA_HEADER, stream);
                        if association.send(StreamId(stream), message).is_err() {
                            return sent;
                        }
                        sent = true;
                    }
                }
            }
        }
    }

    fn message(&self, len: usize, stream: u16) -> Message {
        let mut message = Message::new(Ppid(0), vec![0; len]);
        message.order = self.order;
        if stream < self.unreliable_streams {
            message.reliability = Reliability::Retransmissions(self.retransmissions);
        }
        message
    }
}
