//! The default buffers of the profile `modern`, compared with buffers that limit nothing: the paths for which
//! the defaults are too small.
//!
//! Published: nothing. Ours, at 0 and 1 %, with the default buffers and with large ones: 50 Mbit/s, 300 ms
//! .956 .945 and .956 .953; 200 Mbit/s, 25 ms .996 1.00 with both; 1 Gbit/s, 50 ms .992 .994 and .992 1.00.

use super::{COLUMNS, PATHS, Path, RUNS, run};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::bottleneck::{self as shared, Ways};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "utilisation/buffers",
    shows: "The default's buffers, and buffers that hold nothing back",
    caption: "As the other figures, with the default congestion control, over the paths on which a round trip holds a megabyte or more: with \
              the buffers of the profile modern as they come, and with buffers of four times what path and queue hold.",
    settings: &|| {
        let mut lines: Vec<String> =
            FAT.iter().map(|path| format!("{}, each way: {}", path.name, path.link(0.0))).collect();
        let modern = ftp::modern_sctp();
        lines.push(format!(
            "own: {} bytes to send, {} to receive",
            modern.memory.send_buffer_bytes, modern.memory.receive_buffer_bytes
        ));
        lines.extend(FAT.iter().map(|path| format!("{}: {} bytes", path.name, path.buffer_bytes())));
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "path",
                label: "path",
                values: &[Value::Name("geo"), Value::Name("leo"), Value::Name("fat")],
                show: &|value| match value {
                    Value::Name(name) => {
                        let path = Path::named(name);
                        let rate = path.bits_per_second / 1_000_000;
                        format!("{rate} Mbit/s, {} ms", path.delay.as_millis())
                    }
                    Value::Number(number) => number.to_string(),
                },
            },
            Axis {
                name: "buffers",
                label: "buffers",
                values: &[Value::Name("own"), Value::Name("roomy")],
                show: &|value| match value {
                    Value::Name("own") => "as they come".to_owned(),
                    _ => "that hold nothing back".to_owned(),
                },
            },
            Axis { values: &[Value::Number(0.0), Value::Number(0.01)], ..ftp::LOSS },
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.name("path") == "geo" && point.number("loss") > 0.0,
        paired: &["buffers"],
        columns: COLUMNS,
        runs: crate::figure::Runs { min: 1, max: 1, ..RUNS },
        run: &|point, seed| {
            let (path, loss) = (Path::named(point.name("path")), point.number("loss"));
            let bytes = if point.name("buffers") == "own" { 0 } else { path.buffer_bytes() };
            let config = shared::sctp(shared::default_controller(), bytes);
            run(path, config, &Ways::of(path.link(loss), path.link(loss)), loss, seed)
        },
        plot: Plot::bars("path", "utilisation", "utilisation of C·(1−p)").by("buffers").facet("loss"),
    }),
};

const FAT: [&Path; 3] = [&PATHS[3], &PATHS[4], &PATHS[5]];
