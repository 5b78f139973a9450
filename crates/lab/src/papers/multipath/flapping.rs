//! A path that is alternately up for two seconds and down for one, and a stable path: both are never slower
//! than the stable one alone.
//!
//! Published: nothing. Target: 0.95 of the stable path alone. Ours: 0.978 of it if the other path is equal
//! and the buffer has 64 KB, more everywhere else, up to 2.38 with self-tuning buffers.

use std::time::Duration;

use braidftp_sim::link::{Down, LinkConfig};

use super::{COLUMNS, RUNS, WHOLE, Wire, modern, numbers, settings};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::paths::{Look, Network};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/flapping",
    shows: "A path that comes and goes beside a steady one",
    caption: "User data over a steady path and one that is down for the last of every three seconds, and over the steady one alone, by the receive \
              buffer. The steady path: 10 Mbit/s, 30 ms each way; the other is faster, as fast, or slower.",
    settings: &|| {
        let mut lines = settings(&[&format!("steady, each way: {}", STEADY.link())]);
        lines.extend(
            OTHERS.iter().map(|(name, wire)| format!("{name}, each way: {},flap=3s:1s", wire.link())),
        );
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "other",
                label: "the path that flaps",
                values: &[Value::Name("faster"), Value::Name("alike"), Value::Name("slower")],
                show: &|value| match value {
                    Value::Name("faster") => "flapping: 30 Mbit/s, 10 ms".to_owned(),
                    Value::Name("alike") => "flapping: 10 Mbit/s, 30 ms".to_owned(),
                    _ => "flapping: 4 Mbit/s, 100 ms".to_owned(),
                },
            },
            Axis {
                values: &[Value::Name("32"), Value::Name("64"), Value::Name("256"), Value::Name("auto")],
                ..super::BUFFER
            },
            Axis {
                values: &[Value::Name("both"), Value::Name("first")],
                show: &|value| match value {
                    Value::Name("both") => "both".to_owned(),
                    _ => "the steady one alone".to_owned(),
                },
                ..super::PATHS
            },
        ],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|point| point.name("buffer") == "auto",
        paired: &["paths", "buffer"],
        columns: COLUMNS,
        // With 32 KB a run depends on the position of a few dozen packets when the path went down.
        runs: Runs { min: 8, max: 12, ..RUNS },
        run: &|point, seed| {
            let (_, other) = OTHERS.iter().find(|(name, _)| *name == point.name("other")).expect("it is one");
            let down = Down::Flapping { period: Duration::from_secs(3), down: Duration::from_secs(1) };
            let mut network = Network::paths(&[STEADY.link(), other.link()]);
            for link in [2, 3] {
                network.links[link] = LinkConfig { down: down.clone(), ..network.links[link].clone() };
            }
            let config = modern("default", point.name("buffer"));
            let seen =
                network.with(config, super::paths(point.name("paths"))).watch(WHOLE, Look::Numbers, seed);
            crate::figure::Row(numbers(&seen, STEADY.limit() + other.limit() * 2.0 / 3.0))
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data").by("paths").facet("other").beside("whole"),
    }),
};

const STEADY: Wire = Wire::new(10, 30, 0.0);
const OTHERS: [(&str, Wire); 3] = [
    ("faster", Wire::new(30, 10, 0.0)),
    ("alike", Wire::new(10, 30, 0.0)),
    ("slower", Wire::new(4, 100, 0.0)),
];
