//! Figures 2 and 4 again, with one change: a time-out ends fast recovery (P4-C03, P4-C08, P4-C11).
//!
//! In ns-2's module, as in RFC 4960 §7.2.1, no window grows until the exit point of a fast recovery is acknowledged. A
//! time-out within it leaves one packet a round trip for thousands of lost packets (`fast/fig4`). In RFC 9260 §7.2.4
//! a time-out ends the recovery, and slow start follows. What then differs from Figures 2 and 4 has this rule as its cause.
//!
//! Published: nothing. Ours: with this rule P4-C03 and P4-C08 hold with both readings of the delay; without it neither does. P4-C11's cut
//! at about 800 s is at 797 s with 100 ms there and back, and that at about 200 s stays at 152 s (`braidlab check P4-C03 P4-C08 P4-C11`).

use super::Protocol;
use super::film::Film;
use crate::figure::{Figure, Kind};

/// Two flows that begin and end together.
pub(super) const TWO: Figure = Figure {
    id: "fast/recovered2",
    shows: "SCTP, two flows, a time-out ends fast recovery",
    caption: "Figure 2 with one change: a time-out ends fast recovery (RFC 9260).",
    settings: &|| super::settings(Protocol::SctpRecovered),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &TWO, protocol: Protocol::SctpRecovered, flows: || super::together(2) };
        film.scene(seed, quick)
    }),
};

/// Four flows that come and go.
pub(super) const FOUR: Figure = Figure {
    id: "fast/recovered4",
    shows: "SCTP, four flows, a time-out ends fast recovery",
    caption: "Figure 4 with one change: a time-out ends fast recovery (RFC 9260).",
    settings: &|| super::settings(Protocol::SctpRecovered),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FOUR, protocol: Protocol::SctpRecovered, flows: || super::staggered() };
        film.scene(seed, quick)
    }),
};
