//! The five retransmission policies side by side, by the loss of the worse path and the size of the buffer
//! (P4-C21).
//!
//! Published: Iyengar et al. (ICON 2004, GLOBECOM 2005): RTX-CWND, RTX-SSTHRESH and RTX-LOSSRATE are better
//! than RTX-ASAP, which is better than RTX-SAME; none of them prevents blocking. Ours, 64 KB, 10 % loss: 1.02
//! Mbit/s with SAME, 1.41 with ASAP, 1.54 with CWND, 1.56 with SSTHRESH and 1.58 with LOSSRATE, blocked for
//! 0.457 to 0.227 of the time.

use braidftp_sctp::Multipath;

use super::{BETTER_LOSS, COLUMNS, DELAY, FINITE, LOSS, RUNS, classical, link, run, settings};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/policies",
    shows: "By which path a lost packet leaves again",
    caption: "User data over both paths with each retransmission policy, by what path 2 loses (path 1: 1 %), for receive buffers of 16 to 256 KB.",
    settings: &|| settings(&[]),
    kind: Kind::Sweep(Sweep {
        axes: &[Axis { values: FINITE, ..super::BUFFER }, POLICY, LOSS],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("buffer") == 64.0 && point.number("loss") == 0.06,
        paired: &["buffer", "policy"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let ways = [link(DELAY, BETTER_LOSS), link(DELAY, point.number("loss"))];
            let mut config = classical(point.number("buffer"));
            let retransmit_by = point.name("policy").parse().unwrap_or_else(|error| panic!("{error}"));
            config.paths.multipath = Some(Multipath { retransmit_by, ..Multipath::plain() });
            run(&ways, config, &[0, 1], seed)
        },
        plot: Plot::lines("loss", "mbps", "Mbit/s of user data")
            .by("policy")
            .facet("buffer")
            .beside("blocked"),
    }),
};

const POLICY: Axis = Axis {
    name: "policy",
    label: "policy",
    values: &[
        Value::Name("same"),
        Value::Name("asap"),
        Value::Name("cwnd"),
        Value::Name("ssthresh"),
        Value::Name("lossrate"),
    ],
    show: &|value| format!("RTX-{}", value.to_string().to_uppercase()),
};
