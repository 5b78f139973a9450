//! Figure 2(b): the time that ten files of 1 MB take, against loss, over a satellite: 256 kbit/s and 125 ms.
//!
//! Published: follows the pattern of 2(a): near-equal at small loss, TCP significantly slower at higher
//! loss. The text has no numbers but these; its picture is not at hand. Ours, seconds at 0, 1, 3, 6, 10 %:
//! tcp 334 380 594 1026 2052; sctp 342 356 436 655 1210; sctp-clean 342 347 409 558 857; braid 324 324 325
//! 328 335. No difference: near-equal up to 1 %, and 1.7 times SCTP's time for TCP at 10 %.

use super::{MEGABYTE, run, settings, sweep};
use crate::figure::{Figure, Kind};
use crate::papers::ftp::SATELLITE;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/fig2b",
    shows: "10 files of 1 MB by FTP, satellite: 256 kbit/s, 125 ms",
    caption: "P1, Figure 2(b): transfer time of 10 files of 1 MB against the loss ratio of each direction; drop-tail queue of 50 \
              packets. TCP is New-Reno of FreeBSD 4.6, SCTP that of KAME; the clean second path and braid, on today's SCTP, are \
              not in the paper.",
    settings: &|| settings(SATELLITE, "10 files of 1 MB"),
    kind: Kind::Sweep(sweep(&|point, seed| run(SATELLITE, MEGABYTE, point, seed))),
};
