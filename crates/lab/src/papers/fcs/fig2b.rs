//! Figure 2(b): the transfer time of ten files of 1 MB, against loss, over a satellite: 256 kbit/s and 125
//! ms.
//!
//! Published: follows the pattern of 2(a): near-equal at small loss, TCP significantly slower at higher loss.
//! The text has no other numbers, and the picture was not available. Ours, seconds at 0, 1, 3, 6, 10 %: tcp
//! 334 380 594 1026 2052; sctp 342 356 436 655 1210; sctp-clean 342 347 409 558 857; braid 324 324 325 328
//! 335. Ours agree: near-equal up to 1 %, and TCP takes 1.7 times SCTP's time at 10 %.

use crate::figure::Figure;
use crate::scenario;

/// The figure: `fig2b.toml` describes it.
pub(super) fn figure() -> Figure {
    scenario::built_in("fcs/fig2b", include_str!("fig2b.toml"))
}
