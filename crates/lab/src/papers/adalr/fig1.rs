//! Figure 1: the throughput of a window of 64 KB over a link of 100 Mbit/s, against the RTT.
//!
//! Published: throughput is rwnd / RTT, "for example, only ~ 1.3 Mb/s" at 500 ms, where the paper's own
//! formula gives 1.05. Ours, Mbit/s at 10, 20, 50, 100, 200, 300, 400, 500, 600 ms: 50.8 25.5 10.3 5.12 2.57
//! 1.71 1.28 1.03 0.857. So the 1.3 is an error: 44 segments per RTT are 1.03 Mbit/s.

use std::net::SocketAddr;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sim::World;
use braidftp_sim::apps::bulk::{self, Protocol};
use braidftp_sim::link::{Bandwidth, LinkConfig};
use braidftp_sim::topology;

use super::{ENDLESS, stack};
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::plot::Plot;

/// The rate of the link in bits per second.
const RATE: u64 = 100_000_000;
/// The beginning of the measurement: every slow start ends earlier.
const FROM: Duration = Duration::from_secs(15);
const TO: Duration = Duration::from_secs(45);

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/fig1",
    shows: "What 64 KB of window let through 100 Mbit/s",
    caption: "P3, Figure 1: throughput of one TCP connection with a window of 65,535 bytes over 100 Mbit/s without loss, against the round \
              trip; and rwnd / RTT.",
    settings: &|| {
        vec![
            format!("link, each way: {}", link(0.0)),
            "measured: profile opnet11, the mean from 15 s to 45 s; formula: 65535 bytes a round trip"
                .to_owned(),
        ]
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "rtt",
                label: "round trip, ms",
                values: &[
                    Value::Number(10.0),
                    Value::Number(20.0),
                    Value::Number(50.0),
                    Value::Number(100.0),
                    Value::Number(200.0),
                    Value::Number(300.0),
                    Value::Number(400.0),
                    Value::Number(500.0),
                    Value::Number(600.0),
                ],
                show: &Value::to_string,
            },
            Axis {
                name: "variant",
                label: "",
                values: &[Value::Name("measured"), Value::Name("formula")],
                show: &|value| match value {
                    Value::Name("formula") => "rwnd / RTT".to_owned(),
                    _ => "measured".to_owned(),
                },
            },
        ],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|_| true,
        paired: &["variant"],
        columns: &[Column { name: "throughput", unit: "Mbit/s of data" }],
        runs: Runs::PAPER,
        run: &|point, _| {
            let rtt_ms = point.number("rtt");
            Row(vec![match point.name("variant") {
                "formula" => 65_535.0 * 8.0 / 1e3 / rtt_ms,
                _ => measured(rtt_ms),
            }])
        },
        plot: Plot::lines("rtt", "throughput", "Mbit/s").log_y(),
    }),
};

fn link(rtt_ms: f64) -> LinkConfig {
    LinkConfig {
        rate: Bandwidth::Fixed(Rate::from_bits_per_second(RATE)),
        delay: Duration::from_secs_f64(rtt_ms / 2e3),
        queue: ENDLESS,
        overhead_bytes: 20,
        ..LinkConfig::default()
    }
}

/// The throughput in Mbit/s.
fn measured(rtt_ms: f64) -> f64 {
    let [from, to] = [topology::address(0, 1), topology::address(0, 2)];
    let protocol = Protocol::Tcp(stack("newreno").into());
    let [sender, reader] = bulk::flow(&protocol, SocketAddr::new(from, 0), SocketAddr::new(to, 0), 1);
    let mut world = World::new(1);
    world.add_host(sender, [from]);
    let reader = world.add_host(reader, [to]);
    topology::path(&mut world, from, to, &[link(rtt_ms), link(rtt_ms)]);
    world.run_until(Time::ZERO + FROM);
    let before = world.host(reader).app().bytes_read();
    world.run_until(Time::ZERO + TO);
    let bytes = world.host(reader).app().bytes_read() - before;
    bytes as f64 * 8.0 / 1e6 / (TO - FROM).as_secs_f64()
}
