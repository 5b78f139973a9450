//! The network of `cmt/complex` with one change: the packets that FAST keeps in the queue (P4-C25).
//!
//! TCP with Reno fills the queue of each hop that it crosses, and a source of FAST keeps α packets in it: FAST's part of the
//! queue, and so of the rate, is α of what the queue holds. With the α of `cmt/congested` that is little. α here grows from
//! there to about the queues' lengths; all else is the same.
//!
//! Published: nothing. Ours: `braidlab check P4-C25`.

use braidftp_cc as cc;

use super::complex::{self, FROM, TO};
use super::congested::{Units, columns, controlled, row};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/alpha",
    shows: "FAST's α over a network that TCP crosses",
    caption: "User data of one association over two paths of two hops that TCP (Reno) crosses, by its receive buffer: FAST that keeps 10 to 200 packets \
              in the queue of each path, and windows steered by losses.",
    settings: &|| {
        vec![
            "network, cross traffic and association: as in cmt/complex, TCP across each hop".to_owned(),
            "the hops' queues: 208, 125, 166 and 250 packets".to_owned(),
        ]
    },
    kind: Kind::Sweep(Sweep {
        axes: &[BUFFER, CONTROL],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("buffer") == 512.0,
        paired: &["buffer", "control"],
        columns: &columns(Units {
            dropped: "packets that the queues dropped",
            others: "Mbit/s of user data of those that cross, all together",
        }),
        runs: Runs { min: 2, max: 4, within: 0.05 },
        run: &|point, seed| {
            let buffer = point.number("buffer");
            let config = match point.name("control").parse() {
                Ok(alpha_packets) => {
                    let mut config = controlled("fast", buffer);
                    let fast = config.congestion.options.fast;
                    config.congestion.options.fast = cc::fast::Params { alpha_packets, ..fast };
                    config
                }
                Err(_) => controlled("loss", buffer),
            };
            row(&complex::crossed(config, seed), FROM..TO, seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data").by("control").beside("others").log_x(),
    }),
};

const BUFFER: Axis = Axis {
    values: &[Value::Number(512.0), Value::Number(1_024.0), Value::Number(super::AMPLE_KB)],
    ..super::BUFFER
};

/// Windows steered by losses, or FAST with so many packets.
const CONTROL: Axis = Axis {
    name: "control",
    label: "congestion control",
    values: &[
        Value::Name("loss"),
        Value::Name("10"),
        Value::Name("25"),
        Value::Name("50"),
        Value::Name("100"),
        Value::Name("200"),
    ],
    show: &|value| match value {
        Value::Name("loss") => "SCTP (losses)".to_owned(),
        other => format!("FAST, α = {other}"),
    },
};
