//! Figure 2(a): the time that ten files of 1 MB take, against loss, over 3 Mbit/s and 1 ms, as to an
//! unmanned aircraft.
//!
//! Published: at low loss SCTP takes marginally more time; at 10 % TCP takes about 350 s more. The text has
//! no numbers but these; its picture is not at hand. Ours, seconds at 0, 1, 3, 6, 10 %: tcp 27.7 33.2 101
//! 358 1292; sctp 27.7 31.2 44.3 114 458; sctp-clean 27.7 29.5 35.5
//! 63.5 185; braid 27.6 27.7 27.8 28.0 28.5. Why they differ: the paper gives neither buffers nor segment
//! sizes, and its run may have had retransmissions leave by the testbed's clean control network
//! (`sctp-clean` here; P2 section 5.1). At 10 % a New-Reno without SACK or Limited Transmit lives from
//! time-out to time-out of a second or more, and how long its back-off gets decides: 845 s more here.
//! Beside SACK, Limited Transmit and byte counting (`fcs/sack`) no lead is left at 10 %.

use super::{MEGABYTE, run, settings, sweep};
use crate::figure::{Figure, Kind};
use crate::papers::ftp::LAN;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/fig2a",
    shows: "10 files of 1 MB by FTP, 3 Mbit/s, 1 ms",
    caption: "P1, Figure 2(a): transfer time of 10 files of 1 MB against the loss ratio of each direction; drop-tail queue of 50 \
              packets. TCP is New-Reno of FreeBSD 4.6, SCTP that of KAME; the clean second path and braid, on today's SCTP, are \
              not in the paper.",
    settings: &|| settings(LAN, "10 files of 1 MB"),
    kind: Kind::Sweep(sweep(&|point, seed| run(LAN, MEGABYTE, point, seed))),
};
