//! Beyond the paper: SCTP-naive compared with TCP with the features that the paper says TCP lacked: SACK,
//! Limited Transmit, byte counting, then Early Retransmit, then today's TCP (P2-C25).
//!
//! Published: the expectation that both then "perform similarly at different loss rates". Ours, seconds at 0,
//! 1, 3, 6, 10 %: 10 KB: newreno-bsd46 3.55 17.7 48.7 104 190; sack 3.55 17.5 47.1 95.4 181; sack+lt+abc 3.55
//! 16.9 47.0 89.9 173; sack+lt+abc+er 3.55 14.7 38.9 83.7 154; modern 3.68 6.03 12.5 22.5 40.8; naive 4.01
//! 29.3 95.5 220 489. 200 KB: newreno-bsd46 56.1 78.9 197 647 2506; sack 56.1 72.8 158 533 2041; sack+lt+abc
//! 56.1 74.4 116 246 691; sack+lt+abc+er 56.1 70.1 114 238 740; modern 56.1 59.0 65.5 78.0 110; naive 56.5
//! 89.0 164 376 1164. 1 MB: newreno-bsd46 277 330 983 3644 12801; sack 277 308 750 2884 11345; sack+lt+abc
//! 277 302 414 995 3418; sack+lt+abc+er 277 299 413 976 3384; modern 277 280 289 325 500; naive 277 314 452
//! 1125 4409.

use super::{FILES, QUEUE};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/tcp",
    shows: "SCTP-naive against TCP with what it lacked, LAN",
    caption: "The LAN of Figure 6. TCP of FreeBSD 4.6; with SACK; with Limited Transmit (RFC 3042) and appropriate byte \
              counting (RFC 3465); with Early Retransmit (RFC 5827); with CUBIC (RFC 9438) on top; with all that today's \
              TCP has; SCTP-naive; and braid.",
    settings: &|| super::settings(LAN),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                values: &[Value::Number(10_000.0), Value::Number(200_000.0), Value::Number(1_000_000.0)],
                ..super::SIZES
            },
            ftp::LOSS,
            ftp::STACKS,
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("size") < 200_000.0,
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: Runs::PAPER,
        run: &|point, seed| {
            let path = LAN.both(QUEUE, ftp::bernoulli(point.number("loss")));
            let files = vec![point.number("size") as u64; FILES];
            let session = ftp::by_stack(point.name("variant"), files, vec![path], seed);
            ftp::run(&session, Clock::Opened)
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of 100 files").facet("size").log_y(),
    }),
};
