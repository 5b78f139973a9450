//! FAST on both paths compared with loss-based windows, over paths that lose packets by congestion only
//! (P4-C23), in the paper's proportions: a twentieth of its 800 Mbit/s on each path, and of its queue and its
//! α.
//!
//! ```text
//!          +-- 40 Mbit/s, 50 ms each way, 150 packets --+     and on each path, if any, one competing flow:
//! sender --+                                             +-- reader       of the same congestion control, or TCP's Reno
//!          +-- 40 Mbit/s, 50 ms each way, 150 packets --+
//! ```
//! Published: an argument. "FAST TCP will perform much better than SCTP in high-speed multihomed networks
//! under the same finite receive-buffer size". Ours: `braidlab check P4-C23`.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{Protocol, Span};
use braidftp_sim::link::{LinkConfig, Queue};

use super::classical;
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::papers::bottleneck as shared;
use crate::papers::paths::{Flow, Look, Network};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/congested",
    shows: "FAST against windows steered by losses, over two congested paths",
    caption: "User data over two paths of 40 Mbit/s, by the receive buffer: with nobody else there, with one more flow of the same congestion control \
              on each path, and with a TCP connection (Reno) on each.",
    settings: &|| {
        vec![
            format!("path, each way: {}", link()),
            format!("fast: {}", fast().congestion.options.fast),
            "loss: SCTP's own windows, floor of two packets; cubic: the same association with RFC 9438".to_owned(),
            "sctp: profile ns2, multipath with RTX-CWND, no ssthresh at first; the flows beside it have one path each and ample buffers"
                .to_owned(),
            format!("user data from {} s to {} s", FROM.as_secs(), TO.as_secs()),
        ]
    },
    kind: Kind::Sweep(Sweep {
        axes: &[BESIDE, BUFFER, CONTROLLER],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("buffer") == 512.0,
        paired: &["buffer", "controller"],
        columns: &columns(Units {
            dropped: "packets that the two queues dropped",
            others: "Mbit/s of user data of the flows beside it",
        }),
        runs: Runs { min: 3, max: 5, within: 0.05 },
        run: &|point, seed| {
            let config = controlled(point.name("controller"), point.number("buffer"));
            let beside = match point.name("beside") {
                "nobody" => None,
                "own" => Some(Protocol::Sctp(Arc::new(own(point.name("controller"))))),
                _ => Some(shared::over_tcp(shared::tcp(cc::Kind::Reno, 16 << 20))),
            };
            let network = network(config, beside.as_ref(), seed);
            row(&network, FROM..TO, seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data")
            .by("controller")
            .facet("beside")
            .beside("held")
            .log_x(),
    }),
};

/// The association over both paths, and one more flow on each, if any.
pub(super) fn network(config: sctp::Config, beside: Option<&Protocol>, seed: u64) -> Network {
    let mut network = Network::paths(&[link(), link()]).with(config, &[0, 1]);
    for (path, protocol) in beside.iter().flat_map(|protocol| [(0, protocol), (1, protocol)]) {
        let begins = braidftp_base::Time::from_millis(500 + 300 * path as u64 + seed % 1_000);
        let span = Span { begins, ends: None };
        let protocol = Protocol::clone(protocol);
        network.flows.push(Flow { protocol, span, routes: vec![Network::route(path)] });
    }
    network
}

/// The configuration of a flow of the same congestion control on one path.
pub(super) fn own(controller: &str) -> sctp::Config {
    controlled(controller, super::AMPLE_KB).with(|c| c.paths.multipath = None)
}

/// The rate of a path in bits per second.
pub(super) const RATE: u64 = 40_000_000;
pub(super) const FROM: Duration = Duration::from_secs(10);
pub(super) const TO: Duration = Duration::from_secs(35);

/// The units of the two columns that describe the queues and the other flows.
pub(super) struct Units {
    /// The unit of drops by the queues.
    pub(super) dropped: &'static str,
    /// The unit of the goodput of competing flows.
    pub(super) others: &'static str,
}

/// The columns of [`row`].
pub(super) const fn columns(units: Units) -> [Column; 6] {
    [
        Column { name: "mbps", unit: "Mbit/s of user data" },
        Column { name: "blocked", unit: "part of the time in which only the receive buffer holds data back" },
        Column { name: "held", unit: "KB that wait for what is missing, mean" },
        Column { name: "dropped", unit: units.dropped },
        Column { name: "others", unit: units.others },
        Column { name: "timeouts", unit: "retransmission time-outs" },
    ]
}

/// The measurements of an association between two times, and of its competing flows.
pub(super) fn row(network: &Network, between: Range<Duration>, seed: u64) -> Row {
    let Range { start: from, end: to } = between;
    let seen = network.watch(to, Look::Numbers, seed);
    let others: f64 = (1..network.flows.len()).map(|flow| seen.rate(flow, from, to)).sum();
    Row(vec![
        seen.rate(0, from, to) / 1e6,
        seen.blocked(from, to),
        seen.held(from, to) / 1024.0,
        seen.counters.iter().map(|link| link.dropped_queue).sum::<u64>() as f64,
        others / 1e6,
        seen.resent().timeouts as f64,
    ])
}

/// A path in one direction.
pub(super) fn link() -> LinkConfig {
    shared::link(RATE, Duration::from_millis(50), Queue::Packets(150))
}

const BUFFER: Axis = Axis {
    values: &[
        Value::Number(128.0),
        Value::Number(256.0),
        Value::Number(512.0),
        Value::Number(1_024.0),
        Value::Number(2_048.0),
        Value::Number(super::AMPLE_KB),
    ],
    ..super::BUFFER
};

const BESIDE: Axis = Axis {
    name: "beside",
    label: "beside it",
    values: &[Value::Name("nobody"), Value::Name("own"), Value::Name("tcp")],
    show: &|value| match value {
        Value::Name("nobody") => "nobody else".to_owned(),
        Value::Name("own") => "one of its own kind on each path".to_owned(),
        _ => "TCP (Reno) on each path".to_owned(),
    },
};

/// The congestion controllers.
pub(super) const CONTROLLER: Axis = Axis {
    name: "controller",
    label: "congestion control",
    values: &[Value::Name("fast"), Value::Name("loss"), Value::Name("cubic")],
    show: &|value| match value {
        Value::Name("fast") => "FAST".to_owned(),
        Value::Name("loss") => "SCTP (losses)".to_owned(),
        _ => "CUBIC".to_owned(),
    },
};

/// The association with one of these controllers.
pub(super) fn controlled(name: &str, buffer_kb: f64) -> sctp::Config {
    let mut config = match name {
        "fast" => fast(),
        "cubic" => classical(buffer_kb).with(|c| c.congestion.control = cc::Kind::Cubic),
        _ => classical(buffer_kb),
    };
    config.memory.receive_buffer_bytes = (buffer_kb * 1024.0) as usize;
    config.congestion.options.initial_ssthresh = None;
    config
}

/// FAST with a twentieth of the paper's α, because the path has a twentieth of the rate.
fn fast() -> sctp::Config {
    let mut config = classical(super::AMPLE_KB).with(|c| c.congestion.control = cc::Kind::Fast);
    config.congestion.options.fast = cc::fast::Params { alpha_packets: 10, ..cc::fast::Params::p4() };
    config
}
