//! The schedulers side by side: the choice of a path for new data.
//!
//! Published: over heterogeneous paths BLEST and ECF reach a higher goodput than lowest RTT first, with fewer
//! useless packets. Ours, near-far with 64 KB: BLEST reaches 19.3 Mbit/s. ECF reaches 1.89, as much as lowest
//! RTT first: with unlimited data, waiting for the faster path never pays by ECF's estimate.

use super::{BUFFER, COLUMNS, PAIR, RUNS, modern, run, settings, wires};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/schedulers",
    shows: "Which path new data takes",
    caption: "User data over both paths of three pairs with each scheduler and no remedy, and with the default of this project, by the receive buffer.",
    settings: &|| settings(&["schedulers: remedy=none, retransmit=cwnd"]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                values: &[Value::Name("lossy"), Value::Name("near-far"), Value::Name("fibre-adsl")],
                ..PAIR
            },
            Axis { values: &[Value::Name("64"), Value::Name("256"), Value::Name("auto")], ..BUFFER },
            SCHEDULER,
        ],
        only: &|_| true,
        fixed: &|point| wires(point).iter().all(|wire| wire.loss == 0.0),
        quick: &|point| point.name("pair") == "near-far" && point.name("buffer") == "64",
        paired: &["scheduler", "buffer"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let multipath = match point.name("scheduler") {
                "default" => "default".to_owned(),
                scheduler => format!("plain,scheduler={scheduler}"),
            };
            run(&wires(point), modern(&multipath, point.name("buffer")), &[0, 1], seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data")
            .by("scheduler")
            .facet("pair")
            .beside("blocked"),
    }),
};

const SCHEDULER: Axis = Axis {
    name: "scheduler",
    label: "scheduler",
    values: &[
        Value::Name("round-robin"),
        Value::Name("lrtf"),
        Value::Name("blest"),
        Value::Name("ecf"),
        Value::Name("default"),
    ],
    show: &Value::to_string,
};
