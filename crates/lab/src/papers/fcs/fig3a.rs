//! Figure 3(a): the time that ten files of 200 KB take, against loss, over 3 Mbit/s and 1 ms, as to an
//! unmanned aircraft.
//!
//! Published: close at low loss, SCTP ahead as loss rises. The text has no numbers but these; its picture
//! is not at hand. Ours, seconds at 0, 1, 3, 6, 10 %: tcp 5.61 8.02 20.5 69.0 237; sctp 5.66 8.58 16.2 38.9
//! 135; sctp-clean 5.66 8.18
//! 13.4 28.7 67.6; braid 5.53 5.53 5.57 5.64 5.78. Where they differ: at 1 % SCTP is level with TCP, or a
//! little behind: it pays for a handshake of four legs with an RTO of 3 s.

use super::{SMALL, run, settings, sweep};
use crate::figure::{Figure, Kind};
use crate::papers::ftp::LAN;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/fig3a",
    shows: "10 files of 200 KB by FTP, 3 Mbit/s, 1 ms",
    caption: "P1, Figure 3(a): transfer time of 10 files of 200 KB against the loss ratio of each direction; drop-tail queue of 50 \
              packets. TCP is New-Reno of FreeBSD 4.6, SCTP that of KAME; the clean second path and braid, on today's SCTP, are \
              not in the paper.",
    settings: &|| settings(LAN, "10 files of 200 KB"),
    kind: Kind::Sweep(sweep(&|point, seed| run(LAN, SMALL, point, seed))),
};
