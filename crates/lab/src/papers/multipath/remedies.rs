//! The remedies against blocking side by side, over pairs that block.
//!
//! Published: Dreibholz et al.: buffer splitting, NR-SACK and chunk rescheduling restore the sum over
//! dissimilar paths; Raiciu et al. (NSDI 2012): opportunistic retransmission and penalisation for MPTCP.
//! Ours, near-far with 32 KB: 0.831 Mbit/s with none and with split buffers, 5.52 with rescheduling, 12.0
//! with opportunistic retransmission, 9.51 with preventive admission, all with round-robin scheduling; 12.0
//! with the default, as with the near path alone.

use super::{BUFFER, COLUMNS, PAIR, RUNS, modern, run, settings, wires};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/remedies",
    shows: "What keeps the worse path from blocking the buffer",
    caption: "User data over both paths of three pairs with each remedy, paths in turn, by the receive buffer; and with the default of this project.",
    settings: &|| {
        settings(&[
            "remedies: scheduler=round-robin, retransmit=cwnd; split-both and reschedule with NR-SACK",
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                values: &[Value::Name("lossy"), Value::Name("near-far"), Value::Name("fibre-adsl")],
                ..PAIR
            },
            Axis { values: &[Value::Name("32"), Value::Name("128"), Value::Name("256")], ..BUFFER },
            REMEDY,
        ],
        only: &|_| true,
        fixed: &|point| wires(point).iter().all(|wire| wire.loss == 0.0),
        quick: &|point| point.name("pair") == "near-far" && point.name("buffer") == "128",
        paired: &["remedy", "buffer"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let remedy = point.name("remedy");
            let multipath = match remedy {
                "default" => "default".to_owned(),
                remedy => format!("plain,remedy={remedy}"),
            };
            let mut config = modern(&multipath, point.name("buffer"));
            config.sack.nr_sack = matches!(remedy, "split-both" | "reschedule");
            run(&wires(point), config, &[0, 1], seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data")
            .by("remedy")
            .facet("pair")
            .beside("blocked"),
    }),
};

const REMEDY: Axis = Axis {
    name: "remedy",
    label: "remedy",
    values: &[
        Value::Name("none"),
        Value::Name("split-sender"),
        Value::Name("split-receiver"),
        Value::Name("split-both"),
        Value::Name("reschedule"),
        Value::Name("opportunistic"),
        Value::Name("preventive"),
        Value::Name("default"),
    ],
    show: &Value::to_string,
};
