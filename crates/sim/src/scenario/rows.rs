//! The table of what scenarios draw, one row per feature.
//!
//! To make the soak cover a new feature, add a row: a function that changes the scenario made so far by its
//! own draws, which do not affect those of other rows. A value of `Config` is set at random, on both sides,
//! one or none. Actions of users are an `Act`. The invariants are checked in `apps::messages` and, between
//! drains, in the core's `Association::check`. The test `scenarios_cover_every_feature` checks that a feature
//! is really drawn.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_cc as cc;
use braidftp_cc::coupled::Coupling;
use braidftp_sctp::{
    Announce, AuthConfig, BurstRule, Config, ErrorDetection, Fragments, LossDetection, LossRecovery,
    MeasureEach, MtuDiscovery, Multipath, MultipathWith, Order, PathScheduler, PathUse, PeerMay, Profile,
    Reliability, Remedy, RetransmitBy, RetransmitTo, Scheduler, SharedKey, StreamId, StreamReset, Streams,
    WindowUpdates,
};

use bytes::Bytes;

use super::draw::Draw;
use super::network::{Crossing, Family, Fault, Impairment, address};
use super::{Act, AddressRequest, Reconfiguration, Scenario};
use crate::apps::messages::{Ending, Plan, Planned, ReadPolicy, Side, numbered};
use crate::link::{
    Bandwidth, CoDel, Down, GilbertElliott, LinkConfig, Loss, Management, Measure, Queue, Red, Reorder,
    Signal, Slope, Steps, Trace,
};
use crate::random::Probability;

/// This many messages of any size do not fill a small receive buffer by their overhead.
const SMALL_BUFFER_MESSAGES: usize = 20;

/// A drawn feature.
pub(super) struct Row {
    /// The name of its draws.
    pub(super) name: &'static str,
    pub(super) draw: fn(&mut Draw, &mut Scenario),
}

/// All rows, in order: a row sees the changes of those above.
pub(super) const ROWS: &[Row] = &[
    Row { name: "profiles", draw: profiles },
    Row { name: "sizes", draw: sizes },
    Row { name: "sending", draw: sending },
    Row { name: "answering", draw: answering },
    Row { name: "buffers", draw: buffers },
    Row { name: "growth", draw: growth },
    Row { name: "scheduler", draw: scheduler },
    Row { name: "interleaving", draw: interleaving },
    Row { name: "nr_sack", draw: nr_sack },
    Row { name: "compact_sack", draw: compact_sack },
    Row { name: "reconfiguration", draw: reconfiguration },
    Row { name: "addresses", draw: addresses },
    Row { name: "auth", draw: auth },
    Row { name: "address changes", draw: address_changes },
    Row { name: "links", draw: links },
    Row { name: "marks", draw: marks },
    Row { name: "queues", draw: queues },
    Row { name: "checksums", draw: checksums },
    Row { name: "outages", draw: outages },
    Row { name: "narrows", draw: narrows },
    Row { name: "traffic", draw: traffic },
    Row { name: "partial", draw: partial },
    Row { name: "primary", draw: primary },
    Row { name: "use of paths", draw: use_of_paths },
    Row { name: "restarts", draw: restarts },
    Row { name: "eras", draw: eras },
    Row { name: "multipath", draw: multipath },
    Row { name: "agreement", draw: agreement },
    Row { name: "meetings", draw: meetings },
    Row { name: "controllers", draw: controllers },
    Row { name: "early repair", draw: early_repair },
    Row { name: "lossy handshakes", draw: lossy_handshakes },
    Row { name: "lost first packets", draw: lost_first_packets },
    Row { name: "dead first address", draw: dead_first_address },
    Row { name: "early data", draw: early_data },
    Row { name: "early ends", draw: early_ends },
    Row { name: "stale cookies", draw: stale_cookies },
    Row { name: "restarts in the handshake", draw: restarts_in_the_handshake },
];

/// Applies a change to both configurations, with separate draws.
fn each(draw: &mut Draw, scenario: &mut Scenario, change: impl Fn(&mut Draw, &mut Config)) {
    for config in &mut scenario.configs {
        change(draw, config);
    }
}

fn profiles(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        *config = draw.pick(Profile::ALL).config().with(|c| {
            // The scenario has a time limit, so peers never give up.
            c.handshake.max_init_retransmits = 100_000;
            c.failover.association_max_retrans = 100_000;
            c.failover.path_max_retrans = 100_000;
            c.handshake.valid_cookie_life = Duration::from_secs(36_000);
            c.timers.shutdown_guard = Duration::from_secs(36_000);
        });
    });
}

fn sizes(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        config.path_mtu.packet_bytes = draw.pick(&[512, 1_200, 1_452, 1_452, 1_452, 8_952]);
        let discovery = MtuDiscovery {
            max: draw.pick(&[1_452, 1_472, 8_952]),
            raise_after: draw.duration(1_000, 60_000),
            ..MtuDiscovery::default()
        };
        config.path_mtu.discovery = draw.pick(&[None, Some(MtuDiscovery::default()), Some(discovery)]);
        config.streams.outbound = draw.between(1, 20) as u16;
        config.streams.inbound = draw.between(1, 20) as u16;
    });
}

fn sending(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        if draw.one_in(2) {
            return;
        }
        config.congestion.max_burst = (!draw.one_in(3)).then(|| draw.between(1, 8) as u32);
        config.recovery.loss_detection =
            draw.pick(&[LossDetection::MissingReports, LossDetection::SendOrder]);
        config.recovery.tail_loss_probe = draw.one_in(2);
        config.timers.rto.min = draw.duration(10, 1_000);
        config.timers.rto.max = draw.duration(5_000, 60_000);
        config.timers.heartbeat_interval = (!draw.one_in(3)).then(|| draw.duration(500, 30_000));
        let window = NonZeroU8::new(draw.between(1, 30) as u8).expect("1 at least");
        config.congestion.options.initial_window =
            draw.pick(&[cc::InitialWindow::Ipv4, cc::InitialWindow::Mtus(window)]);
    });
}

/// Multipath transfer; sometimes by one side although the other does not expect it.
fn multipath(draw: &mut Draw, scenario: &mut Scenario) {
    let both = draw.one_in(4);
    each(draw, scenario, |draw, config| {
        let multipath = Multipath {
            scheduler: draw.pick(PathScheduler::ALL),
            retransmit_by: draw.pick(RetransmitBy::ALL),
            remedy: draw.pick(Remedy::ALL),
            coupling: draw.pick(Coupling::ALL),
            window_after_failure: NonZeroU8::new(draw.between(1, 4) as u8).expect("1 at least"),
            ..Multipath::plain()
        };
        config.paths.multipath = (both || draw.one_in(8)).then_some(multipath);
    });
}

/// Any congestion controller, pacing ones included.
fn controllers(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        if draw.one_in(2) {
            config.congestion.control = draw.pick(cc::Kind::ALL);
            config.congestion.options.bbr.version = draw.pick(&[cc::bbr::Version::V1, cc::bbr::Version::V3]);
        }
    });
}

/// Values that differ between the standards of several years.
fn eras(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        if !draw.one_in(3) {
            return;
        }
        let small = |draw: &mut Draw| NonZeroU8::new(draw.between(1, 5) as u8).expect("1 at least");
        config.legacy.missing_reports = small(draw);
        config.legacy.retransmit_to =
            draw.pick(&[RetransmitTo::ByCause, RetransmitTo::Same, RetransmitTo::Another]);
        config.legacy.loss_recovery = draw.pick(&[LossRecovery::Rfc9260, LossRecovery::Rfc4960]);
        config.legacy.burst_rule = draw.pick(&[BurstRule::Packets, BurstRule::LowerWindow]);
        config.legacy.measure_handshake = draw.one_in(2);
        config.legacy.measure_each = draw.pick(&[MeasureEach::SmoothedRoundTrip, MeasureEach::RoundTrip]);
        config.legacy.sack_at_once_when_filled = draw.one_in(2);
        config.legacy.chunk_overhead_bytes = draw.pick(&[16, 40, 64]);
        config.legacy.window_updates = draw.pick(&[WindowUpdates::AvoidSilly, WindowUpdates::AsItIs]);
        config.congestion.options.initial_ssthresh =
            draw.one_in(2).then(|| draw.scale(1_000, 1 << 20) as u32);
        config.congestion.options.floor_mtus = small(draw);
        config.congestion.options.grows_on = draw.pick(&[cc::GrowsOn::AnyAck, cc::GrowsOn::CumAdvance]);
    });
}

fn answering(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        if draw.one_in(2) {
            config.sack.immediate_at_end = draw.one_in(2);
            config.messages.fragments = draw.pick(&[Fragments::Full, Fragments::Even, Fragments::Filling]);
            config.sack.delay = draw.duration(0, 500);
            config.sack.frequency = draw.between(1, 4) as u32;
        }
    });
}

fn buffers(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        if draw.one_in(2) {
            config.memory.receive_buffer_bytes = draw.scale(4_000, 1 << 20) as usize;
            config.memory.send_buffer_bytes = draw.scale(2_000, 1 << 20) as usize;
        }
    });
}

/// Automatically growing receive buffers.
fn growth(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        let more =
            |draw: &mut Draw, bytes: usize| draw.one_in(2).then(|| bytes + draw.scale(1, 4 << 20) as usize);
        config.memory.receive_buffer_max_bytes = more(draw, config.memory.receive_buffer_bytes);
        config.memory.send_buffer_max_bytes = more(draw, config.memory.send_buffer_bytes);
    });
}

fn scheduler(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        config.messages.scheduler = draw.pick(&[
            Scheduler::RoundRobin,
            Scheduler::RoundRobin,
            Scheduler::FirstComeFirstServed,
            Scheduler::RoundRobinByPacket,
            Scheduler::Priority,
            Scheduler::FairCapacity,
            Scheduler::WeightedFairQueueing,
        ]);
    });
}

fn interleaving(draw: &mut Draw, scenario: &mut Scenario) {
    let both = draw.one_in(3);
    each(draw, scenario, |draw, config| config.messages.interleaving = both || draw.one_in(4));
}

/// Receivers that promise not to renege. The check is that everything arrives.
fn nr_sack(draw: &mut Draw, scenario: &mut Scenario) {
    let both = draw.one_in(3);
    each(draw, scenario, |draw, config| config.sack.nr_sack = both || draw.one_in(4));
}

/// Gaps encoded as a bit map.
fn compact_sack(draw: &mut Draw, scenario: &mut Scenario) {
    let both = draw.one_in(3);
    each(draw, scenario, |draw, config| config.sack.compact_sack = both || draw.one_in(4));
}

/// Users reset and add streams while messages are in flight, with and without permission.
fn reconfiguration(draw: &mut Draw, scenario: &mut Scenario) {
    let both = draw.one_in(3);
    each(draw, scenario, |draw, config| {
        config.streams.reconfiguration = both || draw.one_in(4);
        let allowed = draw.one_in(2);
        config.streams.peer_may = PeerMay {
            reset_streams: allowed || draw.one_in(2),
            reset_association: allowed || draw.one_in(2),
            add_streams: allowed || draw.one_in(2),
        };
    });
    if !both {
        return;
    }
    for _ in 0..draw.up_to(8) {
        let at = Duration::from_millis(draw.scale(1, 60_000));
        let side = draw.pick(&[Side::Client, Side::Server]);
        let mut streams = || match draw.up_to(2) {
            0 => None,
            1 => Some(Streams::All),
            _ => Some(Streams::These(vec![StreamId(draw.up_to(3) as u16), StreamId(0)])),
        };
        let reset = StreamReset { outgoing: streams(), incoming: streams() };
        let add = Reconfiguration::Add { outgoing: draw.up_to(2) as u16, incoming: draw.up_to(2) as u16 };
        let reset = Reconfiguration::Reset(reset);
        let what = draw.pick(&[reset.clone(), reset, Reconfiguration::ResetAssociation, add]);
        scenario.acts.push((at, Act::Reconfigure { side, what }));
    }
}

/// Messages of partial reliability, with and without agreement on abandoning sent ones.
fn partial(draw: &mut Draw, scenario: &mut Scenario) {
    let both = draw.one_in(3);
    each(draw, scenario, |draw, config| config.messages.partial_reliability = both || draw.one_in(4));
    if !both && !draw.one_in(4) {
        return;
    }
    for (_, plan) in &mut scenario.plans {
        for planned in plan.client_sends.iter_mut().chain(&mut plan.server_sends) {
            planned.reliability = match draw.up_to(5) {
                0 => Reliability::Lifetime(Duration::from_millis(draw.scale(1, 8_000))),
                1 => Reliability::Retransmissions(draw.up_to(3) as u32),
                2 => Reliability::Priority(draw.up_to(3) as u32),
                _ => Reliability::Full,
            };
        }
    }
}

fn addresses(draw: &mut Draw, scenario: &mut Scenario) {
    let counts = [(); 2].map(|()| draw.pick(&[1, 1, 1, 2, 2, 3]));
    let families = [(); 3].map(|()| draw.pick(&[Family::V4, Family::V4, Family::V6]));
    for (side, count) in [Side::Client, Side::Server].into_iter().zip(counts) {
        scenario.network.addresses[side as usize] =
            (0..count).map(|nth| address(side, nth, families[nth])).collect();
    }
    scenario.network.crossing = draw.pick(&[Crossing::None, Crossing::Full]);
    scenario.announce = draw.pick(&[Announce::Always, Announce::ToMultihomed]);
    scenario.known_addresses = draw.between(1, counts[1] as u64) as usize;
    each(draw, scenario, |draw, config| {
        if draw.one_in(2) {
            config.failover.path_max_retrans = draw.up_to(5) as u32;
            config.failover.potentially_failed_max_retrans = draw.one_in(2).then(|| draw.up_to(3) as u32);
            config.failover.primary_switchover_max_retrans = draw.one_in(3).then(|| draw.up_to(5) as u32);
        }
    });
}

/// Authenticated chunks, with the null key or with a shared one.
fn auth(draw: &mut Draw, scenario: &mut Scenario) {
    // A side that requires authentication rejects a peer without support: enable it on both sides, or require
    // nothing.
    let both = draw.one_in(4);
    let alone = draw.one_in(4);
    let keyed = draw.one_in(2);
    each(draw, scenario, |draw, config| {
        // DATA, SACK, HEARTBEAT, SHUTDOWN, COOKIE ECHO, COOKIE ACK, I-DATA, RE-CONFIG, FORWARD-TSN. An ABORT
        // often comes from a side without an association to authenticate it.
        let some = [0, 3, 4, 7, 10, 11, 64, 130, 192];
        let chunks = some.into_iter().filter(|_| both && draw.one_in(3)).collect();
        let keys = if both && keyed {
            vec![SharedKey { id: 7, secret: Bytes::from_static(b"shared") }]
        } else {
            vec![]
        };
        let active_key = keys.first().map_or(0, |key| key.id);
        let auth = AuthConfig { chunks, keys, active_key, ..AuthConfig::default() };
        config.security.auth = (both || (alone && draw.one_in(2))).then_some(auth);
    });
}

/// The addresses of one side are added and removed.
fn address_changes(draw: &mut Draw, scenario: &mut Scenario) {
    let both = draw.one_in(4);
    each(draw, scenario, |draw, config| config.paths.asconf = both || draw.one_in(6));
    if !both {
        return;
    }
    let side = draw.pick(&[Side::Client, Side::Server]);
    // All its possible addresses reach the other host.
    scenario.network.crossing = Crossing::Full;
    for (list, count) in scenario.network.addresses.iter_mut().zip([3, 2]) {
        let which = if count == 3 { Side::Client } else { Side::Server };
        *list = (0..count).map(|nth| address(which, nth, Family::V4)).collect();
    }
    scenario.known_addresses = draw.between(1, 2) as usize;
    scenario.first_addresses = draw.between(1, 3) as usize;
    for _ in 0..draw.between(1, 6) {
        let at = Duration::from_millis(draw.scale(10, 40_000));
        let what = draw.pick(&[
            AddressRequest::Add,
            AddressRequest::Add,
            AddressRequest::Remove,
            AddressRequest::Prefer,
        ]);
        scenario.acts.push((at, Act::Address { side, nth: draw.up_to(2) as usize, what }));
    }
}

fn link(draw: &mut Draw) -> LinkConfig {
    let rate = Rate::from_bits_per_second(draw.scale(64_000, 1_000_000_000));
    let model = GilbertElliott {
        to_bad: draw.percent(5),
        to_good: Probability::new(draw.between(5, 100) as f64 / 100.0).expect("at most 1"),
        pass_good: Probability::ALWAYS,
        pass_bad: draw.percent(50),
    };
    let bernoulli = Loss::Bernoulli(draw.percent(30));
    let reorder = Reorder { probability: draw.percent(30), extra_delay: draw.duration(1, 200) };
    LinkConfig {
        loss: draw.pick(&[Loss::None, bernoulli, Loss::GilbertElliott(model)]),
        queue: draw.pick(&[
            Queue::Bytes(500_000),
            Queue::Packets(5),
            Queue::Packets(100),
            Queue::Bytes(20_000),
        ]),
        rate: if draw.one_in(5) { Bandwidth::Unlimited } else { Bandwidth::Fixed(rate) },
        delay: Duration::from_micros(draw.scale(10, 500_000)),
        reorder: draw.one_in(3).then_some(reorder),
        duplicate: if draw.one_in(3) { draw.percent(20) } else { Probability::NEVER },
        corrupt: if draw.one_in(3) { draw.percent(20) } else { Probability::NEVER },
        overhead_bytes: 28,
        ..LinkConfig::default()
    }
}

/// Managed queues, changing rates, flapping links.
fn queues(draw: &mut Draw, scenario: &mut Scenario) {
    for link in scenario.network.links.iter_mut().flatten() {
        let signal = draw.pick(&[Signal::Drop, Signal::Mark]);
        let red = Red {
            measure: Measure::Packets,
            min: draw.between(1, 10) as usize,
            max: draw.between(11, 50) as usize,
            max_probability: draw.percent(30),
            weight: draw.percent(20),
            slope: draw.pick(&[Slope::Step, Slope::Gentle]),
            signal,
        };
        let codel = CoDel { target: draw.duration(1, 20), interval: draw.duration(10, 200), signal };
        let managed = [Management::None, Management::None, Management::Red(red), Management::CoDel(codel)];
        link.management = draw.pick(&managed);
        let steps = (1..=draw.between(1, 5))
            .map(|second| {
                let rate = Rate::from_bits_per_second(draw.scale(64_000, 100_000_000));
                (Time::from_millis(second * draw.between(900, 1_100)), rate)
            })
            .collect();
        // Some draws are no valid schedule: the times must rise.
        let steps = Steps::new(Rate::from_bits_per_second(draw.scale(64_000, 100_000_000)), steps);
        let lines: Vec<_> = (0..draw.between(2, 40)).map(|_| draw.between(0, 300)).collect();
        let changing = match steps {
            Ok(steps) if draw.one_in(2) => Bandwidth::Steps(Arc::new(steps)),
            _ => Bandwidth::Trace(Arc::new(trace(lines))),
        };
        if draw.one_in(4) {
            link.rate = changing;
        }
        let period = draw.duration(500, 10_000);
        let down = Duration::from_millis(draw.between(1, period.as_millis() as u64 / 3));
        if draw.one_in(6) {
            link.down = Down::Flapping { period, down };
        }
    }
}

fn trace(mut lines: Vec<u64>) -> Trace {
    lines.sort_unstable();
    lines.push(301);
    let lines: Vec<_> = lines.iter().map(u64::to_string).collect();
    Trace::parse("drawn", &lines.join("\n")).expect("the times rise")
}

fn links(draw: &mut Draw, scenario: &mut Scenario) {
    let nets = scenario.network.addresses.iter().map(Vec::len).max().expect("two hosts");
    scenario.network.links = (0..nets).map(|_| [link(draw), link(draw)]).collect();
    scenario.network.heal = draw.duration(0, 60_000);
}

/// ECN-capable hosts, and links that mark.
fn marks(draw: &mut Draw, scenario: &mut Scenario) {
    let both = draw.one_in(3);
    each(draw, scenario, |draw, config| config.congestion.ecn = both || draw.one_in(4));
    for link in scenario.network.links.iter_mut().flatten() {
        let threshold = Queue::Bytes(draw.scale(1_500, 50_000) as usize);
        link.ecn = draw.pick(&[None, Some(Queue::Packets(1)), Some(threshold)]);
    }
}

/// Without corruption on any link, hosts may disable checksums.
fn checksums(draw: &mut Draw, scenario: &mut Scenario) {
    if scenario.network.links.iter().flatten().all(|link| link.corrupt == Probability::NEVER) {
        let both = draw.one_in(3);
        each(draw, scenario, |draw, config| {
            config.security.zero_checksum = (both || draw.one_in(3)).then_some(ErrorDetection::Dtls);
        });
    }
}

/// Links that fail together: all of some networks, or one direction of one.
fn hits(draw: &mut Draw, scenario: &Scenario) -> Vec<(usize, usize)> {
    let nets = scenario.network.links.len();
    let one = draw.up_to(nets as u64 - 1) as usize;
    let all = draw.one_in(2);
    let ways = draw.pick(&[&[0][..], &[1], &[0, 1], &[0, 1]]);
    let of = |net: usize| ways.iter().map(move |way| (net, *way));
    if all { (0..nets).flat_map(of).collect() } else { of(one).collect() }
}

fn outages(draw: &mut Draw, scenario: &mut Scenario) {
    for _ in 0..draw.up_to(3) {
        let hits = hits(draw, scenario);
        scenario.network.faults.push(Fault {
            from: Duration::from_millis(draw.scale(1, 20_000)),
            lasts: Duration::from_millis(draw.scale(1, 20_000)),
            hits,
            what: Impairment::Outage,
        });
    }
}

/// Large packets are lost for some time, and small ones are not.
fn narrows(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.one_in(4) {
        return;
    }
    for _ in 0..draw.between(1, 2) {
        let hits = hits(draw, scenario);
        scenario.network.faults.push(Fault {
            from: Duration::from_millis(draw.scale(1, 20_000)),
            lasts: Duration::from_millis(draw.scale(10, 30_000)),
            hits,
            what: Impairment::Narrow(draw.between(300, 1_500) as usize),
        });
    }
}

fn traffic(draw: &mut Draw, scenario: &mut Scenario) {
    scenario.plans = (0..draw.between(1, 3))
        .map(|index| {
            let start = if index == 0 { Duration::ZERO } else { draw.duration(0, 5_000) };
            (start, plan(draw, &scenario.configs))
        })
        .collect();
    if scenario.plans.iter().any(|(_, plan)| matches!(plan.ending, Ending::Abort(..))) {
        // An ABORT may be lost: a side with nothing to send detects that only by a HEARTBEAT.
        scenario.beat();
    }
}

fn plan(draw: &mut Draw, [client, server]: &[Config; 2]) -> Plan {
    let client_sends = messages(draw, client.streams.outbound.min(server.streams.inbound));
    let server_sends = messages(draw, server.streams.outbound.min(client.streams.inbound));
    let sips = ReadPolicy::Paced {
        bytes: draw.scale(1_000, 100_000) as usize,
        every: Duration::from_millis(draw.scale(1, 2_000)),
    };
    let read_policy = if draw.one_in(3) { sips } else { ReadPolicy::Eager };
    let side = draw.pick(&[Side::Client, Side::Server]);
    let complete = complete(draw);
    let abort = Ending::Abort(side, draw.up_to(50) as usize);
    let ending = draw.pick(&[complete, complete, complete, Ending::Early(side), abort]);
    let receive_buffers = [client, server].map(receive_buffer_max);
    Plan { client_sends, server_sends, read_policy, ending, receive_buffers }
}

fn receive_buffer_max(config: &Config) -> usize {
    config.memory.receive_buffer_bytes.max(config.memory.receive_buffer_max_bytes.unwrap_or_default())
}

fn complete(draw: &mut Draw) -> Ending {
    Ending::Complete(draw.pick(&[&[Side::Client][..], &[Side::Server], &[Side::Client, Side::Server]]))
}

fn messages(draw: &mut Draw, streams: u16) -> Vec<Planned> {
    let count = if draw.one_in(5) { 0 } else { draw.scale(1, 300) };
    let longest = draw.scale(10, 300_000);
    let mut budget = if draw.one_in(10) { 4_000_000 } else { 400_000 };
    let mut messages = Vec::new();
    for _ in 0..count {
        let bytes = draw.scale(1, longest).min(budget);
        if bytes == 0 {
            break;
        }
        budget -= bytes;
        let order = if draw.one_in(4) { Order::Unordered } else { Order::Ordered };
        messages.push((StreamId(draw.up_to(u64::from(streams) - 1) as u16), bytes as usize, order));
    }
    numbered(messages)
}

/// Users sometimes prefer another path.
fn primary(draw: &mut Draw, scenario: &mut Scenario) {
    if scenario.network.links.len() == 1 || !draw.one_in(3) {
        return;
    }
    for _ in 0..draw.between(1, 4) {
        let at = Duration::from_millis(draw.scale(10, 30_000));
        let side = draw.pick(&[Side::Client, Side::Server]);
        scenario.acts.push((at, Act::Primary { side, path: draw.up_to(2) as u8 }));
    }
}

/// Users take paths out of use, and soon put them back.
fn use_of_paths(draw: &mut Draw, scenario: &mut Scenario) {
    if scenario.network.links.len() == 1 || !draw.one_in(4) {
        return;
    }
    for _ in 0..draw.between(1, 4) {
        let at = Duration::from_millis(draw.scale(10, 30_000));
        let side = draw.pick(&[Side::Client, Side::Server]);
        let path = draw.up_to(2) as u8;
        scenario.acts.push((at, Act::Use { side, path, path_use: PathUse::SetAside }));
        let later = at + Duration::from_millis(draw.scale(10, 30_000));
        scenario.acts.push((later, Act::Use { side, path, path_use: PathUse::InUse }));
    }
}

/// Whether multipath transfer is negotiated.
fn agreement(draw: &mut Draw, scenario: &mut Scenario) {
    each(draw, scenario, |draw, config| {
        config.paths.multipath_with = draw.pick(&[MultipathWith::Anyone, MultipathWith::WhereAgreed]);
    });
}

/// Hosts lose their memory and restart.
fn restarts(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.one_in(5) || !may_reopen(scenario) {
        return;
    }
    for _ in 0..draw.between(1, 2) {
        let at = Duration::from_millis(draw.scale(1, 30_000));
        restart(draw, scenario, at);
    }
    after_restarts(draw, scenario);
}

/// Whether associations may break and be reopened. Only plans that must complete survive that.
fn may_reopen(scenario: &Scenario) -> bool {
    // A side that lists an address removed before is refused (RFC 9260 §5.2.2).
    let moved = scenario.acts.iter().any(|(_, act)| matches!(act, Act::Address { .. }));
    // A COOKIE ECHO that must be authenticated is not accepted in a restart.
    let sealed =
        |config: &Config| config.security.auth.as_ref().is_some_and(|auth| auth.chunks.contains(&10));
    !moved && !scenario.configs.iter().any(sealed)
}

fn restart(draw: &mut Draw, scenario: &mut Scenario, at: Duration) {
    let side = draw.pick(&[Side::Client, Side::Server]);
    scenario.acts.push((at, Act::Restart(side)));
    if side == Side::Client {
        let down = if draw.one_in(2) { Duration::ZERO } else { draw.duration(1, 5_000) };
        scenario.acts.push((at + down, Act::Reopen));
    }
}

fn after_restarts(draw: &mut Draw, scenario: &mut Scenario) {
    for (_, plan) in &mut scenario.plans {
        plan.ending = complete(draw);
    }
    // A side that only waits for the other detects the loss of its memory by a HEARTBEAT.
    scenario.beat();
    // A cookie that arrives at a server which lost its key, or which a late cookie of an earlier life made an
    // association with (X X 0 0 in RFC 9260 §5.2.4), is not answered; the client restarts.
    let client = &mut scenario.configs[Side::Client as usize];
    client.handshake.max_init_retransmits = draw.between(4, 8) as u32;
    // A few INITs a quarter of a second apart would end before a long path returns an answer.
    client.handshake.init_interval = None;
}

/// Both sides open an association at the same time.
fn meetings(draw: &mut Draw, scenario: &mut Scenario) {
    let other = |act: &Act| matches!(act, Act::Address { .. } | Act::Restart(_));
    // A side that answers an INIT and then sends its own has two sets of keys, and accepts an authenticated
    // COOKIE ECHO only by those of its own INIT (RFC 4895 §6.3).
    let sealed =
        |config: &Config| config.security.auth.as_ref().is_some_and(|auth| auth.chunks.contains(&10));
    let open = !scenario.acts.iter().any(|(_, act)| other(act)) && !scenario.configs.iter().any(sealed);
    if !draw.one_in(6) || !open {
        return;
    }
    // An INIT with an address that the INIT ACK did not list is refused (RFC 9260 §5.2.1).
    scenario.known_addresses = scenario.network.addresses[1].len();
    scenario.announce = Announce::Always;
    for (index, (start, plan)) in scenario.plans.iter_mut().enumerate() {
        plan.ending = complete(draw);
        // Not later: a server has no state of an INIT that it answered before it sends its own, and that
        // cookie would create an association even after everything is done.
        scenario.acts.push((*start, Act::Meet(index)));
    }
}

/// Early repair of handshake losses, by both sides, one or none.
fn early_repair(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.one_in(2) {
        return;
    }
    let restarts = has(scenario, |act| matches!(act, Act::Restart(_)));
    each(draw, scenario, |draw, config| {
        config.recovery.early_repair = !draw.one_in(4);
        config.recovery.tail_loss_probe |= draw.one_in(2);
        config.legacy.measure_handshake = !draw.one_in(4);
        let interval = Duration::from_millis(draw.scale(20, 1_000));
        if !restarts {
            config.handshake.init_interval =
                draw.pick(&[None, Some(Duration::from_millis(250)), Some(interval)]);
        }
    });
}

/// During a handshake most packets are lost, or duplicated and delayed, INIT ACK and COOKIE ECHO included.
fn lossy_handshakes(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.one_in(3) {
        return;
    }
    for _ in 0..draw.between(1, 2) {
        let (from, _) = draw.pick(&scenario.plans);
        let lasts = Duration::from_millis(draw.scale(20, 8_000));
        let probability = Probability::new(draw.between(20, 90) as f64 / 100.0).expect("at most 1");
        let extra_delay = Duration::from_millis(draw.scale(10, 5_000));
        let what = draw.pick(&[
            Impairment::Lossy(probability),
            Impairment::Replays(Reorder { probability, extra_delay }),
        ]);
        let hits = hits(draw, scenario);
        let network = &mut scenario.network;
        network.heal = network.heal.max(from + lasts);
        network.faults.push(Fault { from, lasts, hits, what });
    }
}

/// Some of the first packets of a link are lost and no others: COOKIE ACK alone, or all but that.
fn lost_first_packets(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.one_in(4) {
        return;
    }
    scenario.network.heal = scenario.network.heal.max(Duration::from_secs(10));
    for link in scenario.network.links.iter_mut().flatten() {
        let one_in = draw.between(2, 4);
        link.loss = Loss::Script((0..12).filter(|_| draw.one_in(one_in)).collect());
    }
}

/// The server's first address is unreachable for some time, and the client knows others.
fn dead_first_address(draw: &mut Draw, scenario: &mut Scenario) {
    let known = scenario.network.addresses[Side::Server as usize].len();
    if known == 1 || !draw.one_in(3) {
        return;
    }
    scenario.known_addresses = known;
    let lasts = Duration::from_millis(draw.scale(500, 20_000));
    let hits = draw.pick(&[vec![(0, 0), (0, 1)], vec![(0, 1)]]);
    scenario.network.heal = scenario.network.heal.max(lasts);
    let what = Impairment::Outage;
    scenario.network.faults.push(Fault { from: Duration::ZERO, lasts, hits, what });
}

/// The server sends at once, into a buffer for a few packets. Many tiny messages behind a gap fill a small
/// buffer by their overhead, and then a few are accepted per time-out: no scenario's time limit allows that.
fn early_data(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.one_in(4) {
        return;
    }
    each(draw, scenario, |draw, config| {
        config.memory.receive_buffer_bytes = draw.between(4_000, 6_000) as usize;
        config.memory.receive_buffer_max_bytes = draw.one_in(2).then_some(20_000);
    });
    let receive_buffers = scenario.configs.each_ref().map(receive_buffer_max);
    for (_, plan) in &mut scenario.plans {
        plan.receive_buffers = receive_buffers;
        plan.client_sends.truncate(SMALL_BUFFER_MESSAGES);
        plan.server_sends.truncate(SMALL_BUFFER_MESSAGES);
    }
}

/// An association is shut down during its handshake.
fn early_ends(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.one_in(4) || has(scenario, |act| matches!(act, Act::Restart(_) | Act::Meet(_))) {
        return;
    }
    for (_, plan) in &mut scenario.plans {
        let Plan { client_sends, server_sends, ending, .. } = plan;
        if !matches!(ending, Ending::Abort(..)) {
            *ending = Ending::Early(draw.pick(&[Side::Client, Side::Server]));
            client_sends.truncate(draw.up_to(3) as usize);
            server_sends.truncate(draw.up_to(3) as usize);
        }
    }
}

/// Cookies live hardly longer than a round trip. A cookie that is stale twice ends the association, and the
/// client opens a new one.
fn stale_cookies(draw: &mut Draw, scenario: &mut Scenario) {
    let met = has(scenario, |act| matches!(act, Act::Meet(_)));
    if !draw.one_in(6) || met || !may_reopen(scenario) {
        return;
    }
    for (_, plan) in &mut scenario.plans {
        plan.ending = complete(draw);
    }
    scenario.beat();
    let lives = Duration::from_millis(draw.scale(50, 2_000));
    scenario.configs[Side::Server as usize].handshake.valid_cookie_life = lives;
    // The minimum lifetime extension of a renewed cookie, which suffices for a client that restarts with
    // each.
    scenario.network.heal = scenario.network.heal.min(Duration::from_secs(10));
}

/// A host loses its memory after one or two round trips.
fn restarts_in_the_handshake(draw: &mut Draw, scenario: &mut Scenario) {
    let met = has(scenario, |act| matches!(act, Act::Meet(_)));
    if !draw.one_in(6) || met || !may_reopen(scenario) {
        return;
    }
    let [forward, back] = &scenario.network.links[0];
    let round_trip = forward.delay + back.delay;
    let (start, _) = draw.pick(&scenario.plans);
    let at = start + round_trip * draw.between(50, 250) as u32 / 100;
    restart(draw, scenario, at);
    after_restarts(draw, scenario);
}

fn has(scenario: &Scenario, what: fn(&Act) -> bool) -> bool {
    scenario.acts.iter().any(|(_, act)| what(act))
}
