//! One run of the paper's dumbbell: flows with given start and end times, and observations over time.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Bulk, Protocol, Span};
use braidftp_sim::link::{Bandwidth, LinkConfig, Queue};
use braidftp_sim::{Host, HostId, LinkId, World, topology};
use braidftp_tcp as tcp;

/// The length of a packet with headers in bytes (P4 §2.1).
pub(super) const PACKET: u32 = 1_500;
/// The setup of a run.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// The protocol stack of the flows.
    pub(super) stack: Stack,
    /// The rate of the bottleneck in each direction, in bits per second.
    pub(super) rate: u64,
    /// The access rate of each sender.
    pub(super) access: Bandwidth,
    /// The one-way delay.
    pub(super) one_way: Duration,
    /// The length of the drop-tail queue in packets.
    pub(super) queue: usize,
    /// The start and end times of each flow.
    pub(super) flows: Vec<Span>,
    /// The duration of the run.
    pub(super) lasts: Duration,
    /// The sampling interval.
    pub(super) every: Duration,
}

/// A protocol stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stack {
    /// TCP with FAST, as in its ns-2 module: SACK, a sink that acknowledges each segment, and every segment
    /// timed.
    Fast(cc::fast::Params),
    /// SCTP as in the ns-2 module of the University of Delaware (profile `ns2`), with a receive window that
    /// limits nothing. `ssthresh`: the initial slow-start threshold in bytes, if there is one. `recovery`: what
    /// ends a fast recovery; the module's is that of RFC 4960.
    Sctp { ssthresh: Option<u32>, recovery: sctp::LossRecovery },
}

/// Observations over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Trace {
    /// One sample at the end of each interval.
    pub(super) samples: Vec<Sample>,
    /// The maximum queue, in packets.
    pub(super) queue_peak: f64,
}

impl Trace {
    /// The total number of dropped packets.
    pub(super) fn drops(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.drops)
    }

    /// The mean queue between two times in seconds, in packets.
    pub(super) fn queue(&self, between: Range<f64>) -> f64 {
        self.mean(between, |sample| sample.queue)
    }

    /// The throughput of the bottleneck between two times, in bits per second.
    pub(super) fn throughput(&self, between: Range<f64>) -> f64 {
        self.mean(between, |sample| sample.throughput)
    }

    /// The goodput of each flow between two times, in bits per second.
    pub(super) fn goodputs(&self, between: Range<f64>) -> Vec<f64> {
        let flows = self.samples.first().map_or(0, |sample| sample.flows.len());
        (0..flows).map(|flow| self.mean(between.clone(), |sample| sample.flows[flow].goodput)).collect()
    }

    /// The mean of a value; samples are equidistant.
    fn mean(&self, between: Range<f64>, value: impl Fn(&Sample) -> f64) -> f64 {
        let within = |sample: &&Sample| sample.at > between.start && sample.at <= between.end + 1e-9;
        let values: Vec<f64> = self.samples.iter().filter(within).map(value).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    }
}

/// The observations at a time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    /// The time in seconds.
    pub(super) at: f64,
    /// The throughput of the bottleneck since the previous sample, including headers, in bits per second.
    pub(super) throughput: f64,
    /// The queue, in packets.
    pub(super) queue: f64,
    /// Packets dropped since the beginning.
    pub(super) drops: u64,
    /// The observations of each flow.
    pub(super) flows: Vec<Seen>,
}

/// The observations of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Seen {
    /// The congestion window in packets; 0 before and after the flow.
    pub(super) cwnd: f64,
    /// The goodput at the reader since the previous sample, in bits per second.
    pub(super) goodput: f64,
    /// Retransmission time-outs so far.
    pub(super) timeouts: u64,
    /// Packets, or DATA chunks, retransmitted so far.
    pub(super) resent: u64,
    /// Duplicate DATA chunks so far; 0 for TCP, which does not count them.
    pub(super) twice: u64,
}

impl Stack {
    /// The protocol with both buffers of this many bytes, and without checksums over data: ns-2 has none, and
    /// these links damage nothing.
    fn protocol(self, buffer: usize) -> Protocol {
        match self {
            Self::Fast(params) => {
                let mut config = tcp::Config {
                    mss: PACKET as u16 - 40,
                    timestamps: false,
                    checksum: tcp::Checksum::Below,
                    timing: tcp::Timing::EverySegment,
                    ack_every: std::num::NonZeroU8::MIN,
                    congestion_control: cc::Kind::Fast,
                    receive_buffer_bytes: buffer,
                    send_buffer_bytes: buffer,
                    ..tcp::Profile::Sack.config()
                };
                config.congestion_options.fast = params;
                Protocol::Tcp(Arc::new(config))
            }
            Self::Sctp { ssthresh, recovery } => {
                let mut config = sctp::Profile::Ns2.config().with(|c| {
                    c.legacy.loss_recovery = recovery;
                    c.security.zero_checksum = Some(sctp::ErrorDetection::Dtls);
                    c.memory.receive_buffer_bytes = buffer;
                    c.memory.send_buffer_bytes = buffer;
                });
                config.congestion.options.initial_ssthresh = ssthresh;
                Protocol::Sctp(Arc::new(config))
            }
        }
    }
}

type Net = World<Host<Bulk>>;

impl Setup {
    /// One direction of the bottleneck.
    pub(super) fn link(&self) -> LinkConfig {
        LinkConfig {
            rate: Bandwidth::Fixed(Rate::from_bits_per_second(self.rate)),
            delay: self.one_way,
            queue: Queue::Packets(self.queue),
            overhead_bytes: 20,
            ..LinkConfig::default()
        }
    }

    /// The size of a flow's buffers: 1.5 times what the path and its queue hold, so that the buffers limit
    /// nothing.
    fn buffer(&self) -> usize {
        let way = self.rate as f64 / 8.0 * 2.0 * self.one_way.as_secs_f64();
        let queue = (self.queue * PACKET as usize) as f64;
        (1.5 * (way + queue)) as usize + (256 << 10)
    }

    /// Runs the setup. Only the numbers that stacks choose for themselves are random.
    pub(super) fn run(&self, seed: u64) -> Trace {
        let mut world: Net = World::new(seed);
        let [left, right] = topology::dumbbell_addresses(self.flows.len());
        let [there, back] = [self.link(), self.link()].map(|link| world.add_link(link));
        // The access link spaces packets and drops none.
        let unqueued =
            LinkConfig { queue: Queue::Packets(1 << 20), overhead_bytes: 20, ..LinkConfig::default() };
        let protocol = self.stack.protocol(self.buffer());
        let ends = left.into_iter().zip(right);
        let hosts: Vec<[HostId; 2]> = self
            .flows
            .iter()
            .zip(ends)
            .enumerate()
            .map(|(number, (span, (left, right)))| {
                let own = LinkConfig { rate: self.access.clone(), ..unqueued.clone() };
                let own = world.add_link(own);
                world.route_via(left, right, &[own, there]);
                world.route(right, left, back);
                let [from, to] = [left, right].map(|ip: IpAddr| SocketAddr::new(ip, 0));
                let flow = bulk::flow_during(*span, &protocol, from, to, seed << 8 | number as u64);
                let [sender, reader] = flow;
                [world.add_host(sender, [left]), world.add_host(reader, [right])]
            })
            .collect();
        let mut trace = Trace::default();
        let mut before = Counted::default();
        let mut now = Duration::ZERO;
        while now < self.lasts {
            now = (now + self.every).min(self.lasts);
            world.run_until(Time::ZERO + now);
            world.settle();
            trace.samples.push(before.sample(&world, there, &hosts));
        }
        world.check();
        let peak = world.link(there).counters().queue_peak_bytes;
        trace.queue_peak = peak as f64 / f64::from(PACKET);
        trace
    }
}

/// The counters at the previous sample.
#[derive(Debug, Default)]
struct Counted {
    at: f64,
    carried: u64,
    read: Vec<u64>,
}

impl Counted {
    fn sample(&mut self, world: &Net, bottleneck: LinkId, hosts: &[[HostId; 2]]) -> Sample {
        let at = world.now().as_secs_f64();
        let lasted = at - self.at;
        let link = world.link(bottleneck);
        let counters = link.counters();
        let carried = counters.bytes_out;
        let read: Vec<u64> = hosts.iter().map(|[_, reader]| world.host(*reader).app().bytes_read()).collect();
        self.read.resize(read.len(), 0);
        let flows =
            hosts.iter().zip(read.iter().zip(&self.read)).map(|([sender, reader], (read, before))| Seen {
                goodput: (read - before) as f64 * 8.0 / lasted,
                twice: twice(world.host(*reader)),
                ..seen(world.host(*sender))
            });
        let sample = Sample {
            at,
            throughput: (carried - self.carried) as f64 * 8.0 / lasted,
            queue: link.waiting_packets() as f64,
            drops: counters.dropped(),
            flows: flows.collect(),
        };
        *self = Self { at, carried, read };
        sample
    }
}

fn seen(host: &Host<Bulk>) -> Seen {
    if let Some(connection) = host.app().connection().and_then(|id| host.tcp().connection(id)) {
        let stats = connection.stats();
        let there = connection.is_up() && !connection.is_closing();
        let packets = |bytes: usize| if there { bytes as f64 / f64::from(PACKET - 40) } else { 0.0 };
        return Seen {
            cwnd: packets(stats.cwnd),
            timeouts: stats.counters.timeouts,
            resent: stats.counters.retransmissions,
            ..Seen::default()
        };
    }
    let association = host.app().association().and_then(|id| host.endpoint().association(id));
    let there = association.is_some_and(|association| association.phase() == sctp::Phase::Established);
    let path = association.and_then(|association| association.stats().paths.into_iter().next());
    path.map_or(Seen::default(), |path| Seen {
        // The window of SCTP counts bytes of data: 1,452 per packet.
        cwnd: if there { path.cwnd as f64 / f64::from(PACKET - 48) } else { 0.0 },
        timeouts: path.timeouts,
        resent: path.retransmitted_chunks,
        ..Seen::default()
    })
}

fn twice(reader: &Host<Bulk>) -> u64 {
    let association = reader.app().association().and_then(|id| reader.endpoint().association(id));
    association.map_or(0, |association| association.stats().duplicates)
}
