//! Losses after the link: lost packets have used transmission time, and `C·(1−p)` is a hard limit.
//!
//! Published: nothing. Ours, the default at 0, 1, 3, 6 and 10 %: 3 Mbit/s, 1 ms .990 or more; 1 Mbit/s, 35 ms
//! .997 .991 .926 .909 .919; 256 kbit/s, 125 ms .989 .988 .964 .938 .922; 50 Mbit/s, 300 ms .956 .943 .925
//! .901 .777: one of its ten runs lost a COOKIE ECHO or its answer five times, and began at 57 s; without
//! this run .863.

use std::time::Duration;

use braidftp_sim::link::{Bandwidth, LinkConfig, Queue};

use super::{COLUMNS, Path, RUNS, run};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::bottleneck::{self as shared, Ways};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "utilisation/behind",
    shows: "Losses behind the wire, where C·(1−p) is a limit",
    caption: "As the other figures, with the default congestion control alone: with losses before the queue, where what is lost takes no time \
              on the wire, and behind the wire, where it does.",
    settings: &|| {
        let mut lines: Vec<String> =
            PATHS.iter().map(|name| format!("{name}, each way: {}", Path::named(name).link(0.0))).collect();
        lines.push(format!("default: {}", shared::default_controller()));
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "path",
                label: "path",
                values: &[Value::Name("lan"), Value::Name("wan"), Value::Name("sat"), Value::Name("geo")],
                show: &|value| match value {
                    Value::Name("lan") => "3 Mbit/s, 1 ms".to_owned(),
                    Value::Name("wan") => "1 Mbit/s, 35 ms".to_owned(),
                    Value::Name("sat") => "256 kbit/s, 125 ms".to_owned(),
                    _ => "50 Mbit/s, 300 ms".to_owned(),
                },
            },
            Axis {
                name: "place",
                label: "loss",
                values: &[Value::Name("before"), Value::Name("behind")],
                show: &|value| match value {
                    Value::Name("before") => "before the queue".to_owned(),
                    _ => "behind the wire".to_owned(),
                },
            },
            ftp::LOSS,
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.name("path") != "geo",
        paired: &["place"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let (path, loss) = (Path::named(point.name("path")), point.number("loss"));
            let ways = match point.name("place") {
                "before" => Ways::of(path.link(loss), path.link(loss)),
                _ => {
                    let ether = LinkConfig {
                        rate: Bandwidth::Unlimited,
                        delay: Duration::ZERO,
                        queue: Queue::Bytes(usize::MAX),
                        ..path.link(loss)
                    };
                    let links = vec![path.link(0.0), ether];
                    Ways { there: links.clone(), back: links }
                }
            };
            let config = shared::sctp(shared::default_controller(), path.buffer_bytes());
            run(path, config, &ways, loss, seed)
        },
        plot: Plot::lines("loss", "utilisation", "utilisation of C·(1−p)")
            .beside("later")
            .by("place")
            .facet("path"),
    }),
};

const PATHS: [&str; 4] = ["lan", "wan", "sat", "geo"];
