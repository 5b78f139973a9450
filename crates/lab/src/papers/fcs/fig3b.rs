//! Figure 3(b): the time that ten files of 200 KB take, against loss, over a satellite: 256 kbit/s and 125
//! ms.
//!
//! Published: close at low loss, SCTP ahead as loss rises. The text has no numbers but these; its picture
//! is not at hand. Ours, seconds at 0, 1, 3, 6, 10 %: tcp 75.0 85.2 123 201 383; sctp 83.5 90.0 113 158
//! 290; sctp-clean 83.5 86.1 103 137 209; braid 65.2 65.3 65.9 68.3 69.6. Where they differ: without loss
//! SCTP takes a tenth more. Another round trip of handshake and a first window of two packets, where BSD's
//! TCP has four, explain most of it.

use crate::figure::Figure;
use crate::scenario;

/// The figure: `fig3b.toml` describes it.
pub(super) fn figure() -> Figure {
    scenario::built_in("fcs/fig3b", include_str!("fig3b.toml"))
}
