//! Kernel TCP over the same links, emulated in real time: CUBIC and BBR, with default parameters except for
//! their buffers.
//!
//! Published: nothing. Ours, one run per cell, at 0 and 1 %: CUBIC .995 1.01 over 3 Mbit/s, 1 ms, .915 .012
//! over 50 Mbit/s, 300 ms, .994 .014 over 200 Mbit/s, 25 ms; BBR 1.00 1.01, .826 .753 and .974 .965. Needs
//! minutes and root; `--quick` runs this figure only if it is named.

use super::{LATER, PATHS, Path, WHOLE};
use crate::figure::{Axis, Column, Figure, Kind, LiveSweep, Row, Runs, Sweep, Value};
use crate::papers::bottleneck::TCP_SHARE;
use crate::papers::ftp;
use crate::papers::live::{Beside, Live, possible};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "utilisation/live",
    shows: "What one TCP connection of the kernel makes of the same paths, live",
    caption: "User data that one TCP connection of this machine's kernel brought in 60 s over emulated links with the same rates, delays, queues \
              and losses, through C·(1−p)·1448/1500: CUBIC and BBR.",
    settings: &|| {
        let mut lines: Vec<String> =
            PATHS[..LIVE].iter().map(|path| format!("{}, each way: {}", path.name, path.link(0.0))).collect();
        lines.push(
            "tcp: the kernel's, with buffers of up to 64 MB; nothing is kept of earlier connections"
                .to_owned(),
        );
        lines
    },
    kind: Kind::Live(LiveSweep {
        possible: || possible(&["cubic", "bbr"], Beside::Nothing),
        sweep: Sweep {
            axes: &[
                Axis {
                    name: "path",
                    label: "path",
                    values: &[
                        Value::Name("lan"),
                        Value::Name("wan"),
                        Value::Name("sat"),
                        Value::Name("geo"),
                        Value::Name("leo"),
                    ],
                    show: &|value| match value {
                        Value::Name("lan") => "3 Mbit/s, 1 ms".to_owned(),
                        Value::Name("wan") => "1 Mbit/s, 35 ms".to_owned(),
                        Value::Name("sat") => "256 kbit/s, 125 ms".to_owned(),
                        Value::Name("geo") => "50 Mbit/s, 300 ms".to_owned(),
                        _ => "200 Mbit/s, 25 ms".to_owned(),
                    },
                },
                Axis {
                    name: "controller",
                    label: "congestion control",
                    values: &[Value::Name("cubic"), Value::Name("bbr")],
                    show: &|value| format!("kernel TCP, {value}"),
                },
                ftp::LOSS,
            ],
            only: &|_| true,
            fixed: &|_| false,
            quick: &|point| point.number("loss") == 0.01 && point.name("path") != "leo",
            paired: &["controller"],
            columns: &[
                Column { name: "utilisation", unit: "of C(1-p) less headers, whole 60 s" },
                Column { name: "later", unit: "of C(1-p) less headers, last 50 s" },
            ],
            runs: Runs { min: 1, max: 1, within: 0.05 },
            run: &|point, seed| {
                let (path, loss) = (Path::named(point.name("path")), point.number("loss"));
                let controller = point.name("controller");
                // Flows that are slowed by losses need little of the machine.
                let is_slow = controller == "cubic" && loss > 0.0;
                let megabits = if is_slow { 10 } else { path.bits_per_second.div_ceil(1_000_000) };
                let live = Live {
                    links: [path.link(loss), path.link(loss)],
                    tcp: controller,
                    beside: Beside::Nothing,
                    megabits,
                    times: vec![LATER, WHOLE],
                    seed,
                };
                let brought = live.run().tcp;
                let limit = path.bits_per_second as f64 * (1.0 - loss) * TCP_SHARE / 8.0;
                let part = |bytes: u64, seconds: f64| bytes as f64 / seconds / limit;
                let later = (WHOLE - LATER).as_secs_f64();
                Row(vec![part(brought[1], WHOLE.as_secs_f64()), part(brought[1] - brought[0], later)])
            },
            plot: Plot::lines("loss", "utilisation", "utilisation of C·(1−p), whole 60 s")
                .by("controller")
                .facet("path")
                .beside("later"),
        },
    }),
};

/// The number of paths that are run live, from the first: up to 200 Mbit/s.
const LIVE: usize = 5;
