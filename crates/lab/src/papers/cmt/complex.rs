//! A larger network: paths of two hops each with different rates and delays, and cross traffic on each hop
//! that starts and stops (P4-C25).
//!
//! ```text
//!            50 Mbit/s, 10 ms     30 Mbit/s, 15 ms
//!          +------ hop a ------ r ------ hop b ------+
//! sender --+    A >>>>>>>>>>>>     B >>>>>>>>>>>>    +-- reader         A..D: TCP on one hop, on and off
//!          +------ hop c ------ r ------ hop d ------+
//!            40 Mbit/s, 20 ms     60 Mbit/s, 30 ms
//!               C >>>>>>>>>>>>     D >>>>>>>>>>>>
//! ```
//! Published: future work. Ours: `braidlab check P4-C25`.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;
use braidftp_sim::Random;
use braidftp_sim::apps::bulk::Span;
use braidftp_sim::link::{LinkConfig, Queue};

use super::congested::{CONTROLLER, Units, columns, controlled, row};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::bottleneck::{self as shared, PACKET};
use crate::papers::paths::{Flow, Network, Route};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/complex",
    shows: "Multipath by FAST and by losses over a network that others use",
    caption: "User data of one association over two paths of two hops each (30 and 40 Mbit/s at their narrowest), by its receive buffer: without \
              others, and with TCP flows that cross each hop and come and go.",
    settings: &|| {
        let mut lines: Vec<String> =
            HOPS.iter().map(|hop| format!("hop {}, each way: {}", hop.name, hop.link())).collect();
        lines.push(
            "cross: TCP (Reno) over each hop, on for 4 to 12 s and off for 4 to 12 s, at random".to_owned(),
        );
        lines.push("sctp: as in cmt/congested".to_owned());
        lines.push(format!("user data from {} s to {} s", FROM.as_secs(), TO.as_secs()));
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[CROSS, BUFFER, CONTROLLER],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("buffer") == 512.0,
        paired: &["buffer", "controller"],
        columns: &columns(Units {
            dropped: "packets that the queues dropped",
            others: "Mbit/s of user data of those that cross, all together",
        }),
        runs: Runs { min: 2, max: 4, within: 0.05 },
        run: &|point, seed| {
            let config = controlled(point.name("controller"), point.number("buffer"));
            let network = match point.name("cross") {
                "tcp" => crossed(config, seed),
                _ => network(config),
            };
            row(&network, FROM..TO, seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data")
            .by("controller")
            .facet("cross")
            .beside("blocked")
            .log_x(),
    }),
};

/// The beginning of the measurement.
pub(super) const FROM: Duration = Duration::from_secs(5);
/// Its end.
pub(super) const TO: Duration = Duration::from_secs(65);

/// A hop, equal in both directions.
struct Hop {
    name: &'static str,
    megabits: u64,
    delay_ms: u64,
}

const HOPS: [Hop; 4] = [
    Hop { name: "a", megabits: 50, delay_ms: 10 },
    Hop { name: "b", megabits: 30, delay_ms: 15 },
    Hop { name: "c", megabits: 40, delay_ms: 20 },
    Hop { name: "d", megabits: 60, delay_ms: 30 },
];

impl Hop {
    /// The link of this hop, with a queue of 50 ms.
    fn link(&self) -> LinkConfig {
        let packets = self.megabits as usize * 1_000_000 / 8 / 20 / PACKET;
        shared::link(self.megabits * 1_000_000, Duration::from_millis(self.delay_ms), Queue::Packets(packets))
    }
}

/// The hops in both directions, and the association over both paths.
fn network(config: braidftp_sctp::Config) -> Network {
    let links = HOPS.iter().flat_map(|hop| [hop.link(), hop.link()]).collect();
    let path = |first: usize| Route {
        there: vec![2 * first, 2 * first + 2],
        back: vec![2 * first + 3, 2 * first + 1],
    };
    let association =
        Flow { protocol: shared::over_sctp(config), span: Span::ALWAYS, routes: vec![path(0), path(2)] };
    Network { links, flows: vec![association] }
}

/// The association, and TCP across each hop.
pub(super) fn crossed(config: braidftp_sctp::Config, seed: u64) -> Network {
    let mut network = network(config);
    (0..HOPS.len()).for_each(|hop| cross(&mut network, hop, seed));
    network
}

/// Adds successive connections that cross a hop.
fn cross(network: &mut Network, hop: usize, seed: u64) {
    let mut random = Random::new(seed, 1 << 50 | hop as u64);
    let mut pause = || Duration::from_millis(4_000 + random.below(8_000));
    let mut begins = pause() / 3;
    while begins < TO {
        let ends = begins + pause();
        let span = Span { begins: Time::ZERO + begins, ends: Some(Time::ZERO + ends) };
        let protocol = shared::over_tcp(shared::tcp(cc::Kind::Reno, 0));
        network.flows.push(Flow { protocol, span, routes: vec![Network::route(hop)] });
        begins = ends + pause();
    }
}

const CROSS: Axis = Axis {
    name: "cross",
    label: "others",
    values: &[Value::Name("none"), Value::Name("tcp")],
    show: &|value| match value {
        Value::Name("none") => "nobody else".to_owned(),
        _ => "TCP across each hop".to_owned(),
    },
};

const BUFFER: Axis = Axis {
    values: &[
        Value::Number(128.0),
        Value::Number(256.0),
        Value::Number(512.0),
        Value::Number(1_024.0),
        Value::Number(super::AMPLE_KB),
    ],
    ..super::BUFFER
};
