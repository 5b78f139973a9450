//! Two and three equal paths, by their loss ratio: the goodput compared with the sum.
//!
//! Published: nothing. Target: 95 % of the sum over two, 93 % over three, from 0 to 3 % loss. Ours: 1.00 to
//! 1.02 over two and over three, two runs per point; from the first INIT on at least 0.957 and 0.963.

use super::{COLUMNS, RUNS, Wire, modern, run, settings};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/equal",
    shows: "Two and three equal paths",
    caption: "User data over one, two and three paths of 20 Mbit/s, 20 ms each way, through what their wires could bring together, by what each of \
              them loses; buffers tune themselves.",
    settings: &|| settings(&[&format!("path, each way: {}", WIRE.link())]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "count",
                label: "paths",
                values: &[Value::Number(1.0), Value::Number(2.0), Value::Number(3.0)],
                show: &|value| match value {
                    Value::Number(1.0) => "one path".to_owned(),
                    Value::Number(2.0) => "two paths".to_owned(),
                    _ => "three paths".to_owned(),
                },
            },
            Axis {
                name: "loss",
                label: "packets lost on each path",
                values: &[
                    Value::Number(0.0),
                    Value::Number(0.005),
                    Value::Number(0.01),
                    Value::Number(0.02),
                    Value::Number(0.03),
                ],
                show: &ftp::percent,
            },
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("loss") == 0.01,
        paired: &["count"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let count = point.number("count") as usize;
            let wires = vec![Wire { loss: point.number("loss"), ..WIRE }; count];
            let paths: Vec<usize> = (0..count).collect();
            run(&wires, modern("default", "auto"), &paths, seed)
        },
        plot: Plot::lines("loss", "share", "of the sum of the paths").by("count").beside("whole"),
    }),
};

const WIRE: Wire = Wire::new(20, 20, 0.0);
