//! Figure 3(b): the transfer time of ten files of 200 KB, against loss, over a satellite: 256 kbit/s and 125
//! ms.
//!
//! Published: close at low loss, SCTP ahead as loss rises. The text has no other numbers, and the picture was
//! not available. Ours, seconds at 0, 1, 3, 6, 10 %: tcp 75.0 85.2 123 201 383; sctp 83.5 90.0 113 158 290;
//! sctp-clean 83.5 86.1 103 137 209; braid 65.2 65.3 65.9 68.3 69.6. Difference: without loss SCTP takes a
//! tenth more. Most of it is due to the additional round trip of the handshake and to the initial window of
//! two packets, where BSD's TCP has four.

use crate::figure::Figure;
use crate::scenario;

/// The figure: `fig3b.toml` describes it.
pub(super) fn figure() -> Figure {
    scenario::built_in("fcs/fig3b", include_str!("fig3b.toml"))
}
