//! Beyond the paper: the shares of flows at a common gateway (scenario C of the author's OPNET project;
//! ADaLR-X4).
//!
//! ```text
//! servers --10 Mbit/s-- gateway --2 Mbit/s, 260 ms, 37,500 bytes-- clients
//! ```
//! All flows are unlimited, begin within the first 10 s, and are measured from 200 s to 800 s. In `mixed`
//! every other flow is NewReno. Two flows alone would not fill the path: they send at most 88 segments, and
//! it holds 113.
//!
//! Published, in an abstract: better fairness than NewReno's, and friendly. Ours, 4 and 8 flows, Jain's
//! index: NewReno 0.764 0.605; SACK 0.761 0.723; ADaLR-R 0.999 0.998; with SACK 1.000 0.998; mixed 0.819
//! 0.736; NewReno's part of its fair share in mixed: 0.807 0.408; packets dropped: NewReno 298 1155; SACK 296
//! 1135; ADaLR-R 1488 4268; with SACK 1671 5042; mixed 879 2471. Flows of ADaLR-R are fair to each other,
//! since each window is at rwnd times ρ or soon returns to it. In a mix of eight flows they are unfair to
//! NewReno (X4): a clock of 0.5 s does not detect a queue of 150 ms, so losses by congestion are taken for
//! bit errors, and the window is reduced by less than half. If ADaLR-R times each segment by a fine clock
//! (mixed-timed), NewReno has 1.07 and 0.715 of its fair share. The paper's Table 1 has the coarse clock, and
//! so has X4 here.

use std::net::SocketAddr;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sim::World;
use braidftp_sim::apps::bulk::{self, Bulk, Protocol, Span};
use braidftp_sim::host::Host;
use braidftp_sim::link::{Bandwidth, LinkConfig};
use braidftp_sim::random::Random;
use braidftp_sim::topology::{self, Dumbbell};

use super::{DELAY_MS, MEMORY, Network, SATELLITE, settings, stack, variant};
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::plot::Plot;

/// The latest time at which a flow begins, in ms.
const BEGIN_MS: u64 = 10_000;
/// The beginning of the measurement.
const FROM: Duration = Duration::from_secs(200);
const TO: Duration = Duration::from_secs(800);
/// The random stream for the times at which flows begin.
const RANDOM_STREAM: u64 = 1 << 52;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/fair",
    shows: "Flows that share a satellite",
    caption: "Four or eight flows through a gateway of 37,500 bytes to 2 Mbit/s and 260 ms one way: Jain's index of what they get from \
              200 s to 800 s (ADaLR-X4). Mixed: every other one is NewReno; timed: and ADaLR-R times each segment, by a fine clock. ADaLR-R is a \
              reconstruction.",
    settings: &|| {
        settings(&["gateway: memory 37,500 bytes", "workload: flows without end, begun within 10 s"])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "flows",
                label: "flows",
                values: &[Value::Number(4.0), Value::Number(8.0)],
                show: &|value| format!("{value} flows"),
            },
            Axis {
                name: "variant",
                label: "",
                values: &[
                    Value::Name("newreno"),
                    Value::Name("sack"),
                    Value::Name("adalr"),
                    Value::Name("adalr-sack"),
                    Value::Name("mixed"),
                    Value::Name("mixed-timed"),
                ],
                show: &|value| match value {
                    Value::Name("mixed-timed") => "mixed, timed".to_owned(),
                    other => variant(other),
                },
            },
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|_| true,
        paired: &["variant"],
        columns: &[
            Column { name: "jain", unit: "index, 1 if all get the same" },
            Column {
                name: "share",
                unit: "what flows 1, 3, 5, … get, of the fair share; NewReno's in both mixed",
            },
            Column { name: "utilisation", unit: "% of 2 Mbit/s, data alone" },
            Column { name: "dropped", unit: "packets, by the gateway, in all" },
        ],
        runs: Runs { min: 20, ..super::RUNS },
        run: &|point, seed| run(point.number("flows") as usize, point.name("variant"), seed),
        plot: Plot::bars("variant", "jain", "Jain's index").by("variant").facet("flows"),
    }),
};

fn run(flows: usize, mix: &'static str, seed: u64) -> Row {
    let mut world = World::new(seed);
    let mut random = Random::new(seed, RANDOM_STREAM);
    let [left, right] = topology::dumbbell_addresses(flows);
    let mut readers = Vec::new();
    for (number, (from, to)) in left.iter().zip(&right).enumerate() {
        let variant = match mix {
            "mixed" | "mixed-timed" if number % 2 == 0 => "newreno",
            "mixed" => "adalr",
            "mixed-timed" => "adalr-timed",
            other => other,
        };
        let span = Span { begins: Time::from_millis(random.below(BEGIN_MS)), ends: None };
        let protocol = Protocol::Tcp(stack(variant).into());
        let [from_end, to_end] = [from, to].map(|ip| SocketAddr::new(*ip, 0));
        let [sender, reader] = bulk::flow_during(span, &protocol, from_end, to_end, seed);
        world.add_host(sender, [*from]);
        readers.push(world.add_host(reader, [*to]));
    }
    let [back, there] = Network { memory: MEMORY, ..Network::lossless(DELAY_MS) }.links().near;
    let ethernet = LinkConfig {
        rate: Bandwidth::Fixed(Rate::from_bits_per_second(10_000_000)),
        delay: Duration::ZERO,
        ..back.clone()
    };
    let links = Dumbbell { bottleneck: [there.clone(), back], ..Dumbbell::of(flows, &ethernet, &there) };
    let ids = topology::dumbbell(&mut world, &left, &right, &links);
    world.run_until(Time::ZERO + FROM);
    let read = |world: &World<Host<Bulk>>| -> Vec<u64> {
        readers.iter().map(|host| world.host(*host).app().bytes_read()).collect()
    };
    let before = read(&world);
    world.run_until(Time::ZERO + TO);
    let got: Vec<f64> = read(&world).iter().zip(before).map(|(now, before)| (now - before) as f64).collect();
    let all: f64 = got.iter().sum();
    let squares: f64 = got.iter().map(|bytes| bytes * bytes).sum();
    let odd: f64 = got.iter().step_by(2).sum();
    Row(vec![
        all * all / (flows as f64 * squares),
        odd / (all / 2.0),
        100.0 * all * 8.0 / (SATELLITE as f64 * (TO - FROM).as_secs_f64()),
        world.link(ids.bottleneck[0]).counters().dropped_queue as f64,
    ])
}
