//! Figure 3(b): the time that ten files of 200 KB take, against loss, over a satellite: 256 kbit/s and 125
//! ms.
//!
//! Published: close at low loss, SCTP ahead as loss rises. The text has no numbers but these; its picture
//! is not at hand. Ours, seconds at 0, 1, 3, 6, 10 %: tcp 75.0 85.2 123 201 383; sctp 83.5 90.0 113 158
//! 290; sctp-clean 83.5 86.1 103 137 209; braid 65.2 65.3 65.9 68.3 69.6. Where they differ: without loss
//! SCTP takes a tenth more. Another round trip of handshake and a first window of two packets, where BSD's
//! TCP has four, explain most of it.

use super::{SMALL, run, settings, sweep};
use crate::figure::{Figure, Kind};
use crate::papers::ftp::SATELLITE;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/fig3b",
    shows: "10 files of 200 KB by FTP, satellite: 256 kbit/s, 125 ms",
    caption: "P1, Figure 3(b): transfer time of 10 files of 200 KB against the loss ratio of each direction; drop-tail queue of 50 \
              packets. TCP is New-Reno of FreeBSD 4.6, SCTP that of KAME; the clean second path and braid, on today's SCTP, are \
              not in the paper.",
    settings: &|| settings(SATELLITE, "10 files of 200 KB"),
    kind: Kind::Sweep(sweep(&|point, seed| run(SATELLITE, SMALL, point, seed))),
};
