//! Figure 3(a): the transfer time of ten files of 200 KB, against loss, over 3 Mbit/s and 1 ms, as to an
//! unmanned aircraft.
//!
//! Published: close at low loss, SCTP ahead as loss rises. The text has no other numbers, and the picture was
//! not available. Ours, seconds at 0, 1, 3, 6, 10 %: tcp 5.61 8.02 20.5 69.0 237; sctp 5.66 8.58 16.2 38.9
//! 135; sctp-clean 5.66 8.18 13.4 28.7 67.6; braid 5.53 5.53 5.57 5.64 5.78. Difference: at 1 % SCTP equals
//! TCP, or is slightly slower, because its handshake has four packets and an RTO of 3 s.

use crate::figure::Figure;
use crate::scenario;

/// The figure: `fig3a.toml` describes it.
pub(super) fn figure() -> Figure {
    scenario::built_in("fcs/fig3a", include_str!("fig3a.toml"))
}
