//! Beyond the paper: without its two weaknesses. TCP with SACK (P1-C25), and with Limited Transmit, byte
//! counting and Early Retransmit (P1-C26), against the same SCTP.
//!
//! Published: nothing; the paper asks for it. Ours, LAN, seconds at 0, 1, 3, 6, 10 %: newreno-bsd46 27.7 33.9
//! 103 355 1293; sack 27.7 31.1 76.3 286 1208; sack+lt+abc 27.7 30.2 41.4 100 352; sack+lt+abc+er 27.7 30.0
//! 41.2 96.3 352; cubic 27.7 29.8 40.7 99.2 332; modern 27.7 28.0 29.0 32.0 50.0; sctp 27.7 32.1 46.0 106
//! 472; braid 27.6 27.7 27.8 28.0 28.4. Satellite: newreno-bsd46 334 380 587 1028 1962; sack 334 365 548 938
//! 1825; sack+lt+abc 334 351 443 667 1112; sack+lt+abc+er 334 351 443 666 1106; cubic 334 351 419 669 1097;
//! modern 332 345 359 475 706; sctp 342 355 433 659 1216; braid 324 324 324 330 334. So the comparison was
//! unfair: SACK alone has little effect, because windows are too small for three duplicate acknowledgements;
//! with Limited Transmit and byte counting TCP is at least as fast as SCTP. CUBIC changes nothing: windows of
//! a few packets grow as Reno's do (RFC 9438 section 4.3).

use super::{FILES, MEGABYTE, QUEUE, RUNS};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::ftp::{self, Clock};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/sack",
    shows: "10 files of 1 MB: SCTP against TCP with what it lacked",
    caption: "Figures 2(a) and 2(b) again, with TCP of FreeBSD 4.6; with SACK; with Limited Transmit (RFC 3042) and appropriate \
              byte counting (RFC 3465); with Early Retransmit (RFC 5827); with CUBIC (RFC 9438) on top; with all that today's \
              TCP has; SCTP; and braid.",
    settings: &|| super::settings(ftp::LAN, "10 files of 1 MB"),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis { values: &[Value::Name("lan"), Value::Name("sat")], ..ftp::PATHS },
            ftp::LOSS,
            ftp::STACKS,
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.name("path") == "lan",
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let loss = ftp::bernoulli(point.number("loss"));
            let path = ftp::path(point.name("path")).both(QUEUE, loss);
            let files = vec![MEGABYTE; FILES];
            let session = ftp::by_stack(point.name("variant"), files, vec![path], seed);
            ftp::run(&session, Clock::Asked)
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of 10 files").facet("path"),
    }),
};
