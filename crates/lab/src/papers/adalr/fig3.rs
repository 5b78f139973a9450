//! Figure 3: the response time of a file of 50 MB, against the RTT.
//!
//! Published: comparable below 200 ms, a noticeable rise beyond, where ADaLR takes 5.5 to 75 % less. The text
//! has no other numbers, and the picture was not available. Ours, seconds at 50, 100, 150, 200, 300, 400,
//! 520, 800, 1200, 1600 ms: NewReno 206 206 206 207 242 320 415 634 948 1303; ADaLR-R 206 206 206 206 238 254
//! 237 252 255 277; slow 206 206 206 206 208 222 250 328 431 528. SACK equals NewReno. Reason for the
//! difference: ADaLR is a reconstruction. RTTs are measured in ticks of 0.5 s, so SRTT oscillates, and the
//! part of the window beyond rwnd follows the minima of SRTT; it is smallest where the RTT is far from a
//! multiple of a tick (400 ms). At 1600 ms the first windows of all variants time out before they are
//! acknowledged.

use super::{COLUMNS, VARIANTS, lossless, settings};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/fig3",
    shows: "50 MB over a satellite, against the round trip",
    caption: "P3, Figure 3: response time of a file of 50 MB over 2 Mbit/s without loss, against the round trip of the links. ADaLR-R is a \
              reconstruction, with k = 1 and with k = 0.05 (slow). SACK, HighSpeed and Scalable, which the paper names, lie under NewReno.",
    settings: &|| settings(&["delay one way: half of rtt", "workload: 50 MB"]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "rtt",
                label: "round trip of the links, ms",
                values: &[
                    Value::Number(50.0),
                    Value::Number(100.0),
                    Value::Number(150.0),
                    Value::Number(200.0),
                    Value::Number(300.0),
                    Value::Number(400.0),
                    Value::Number(520.0),
                    Value::Number(800.0),
                    Value::Number(1_200.0),
                    Value::Number(1_600.0),
                ],
                show: &Value::to_string,
            },
            VARIANTS,
        ],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|point| point.number("rtt") >= 300.0,
        paired: &["variant"],
        columns: COLUMNS,
        runs: Runs::PAPER,
        run: &|point, _| lossless(50_000_000, point.number("rtt") as u64 / 2, point.name("variant")),
        plot: Plot::lines("rtt", "seconds", "seconds, 50 MB"),
    }),
};
