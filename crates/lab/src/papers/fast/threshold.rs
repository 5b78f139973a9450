//! Figure 4 again, with one change: the initial slow-start threshold of ns-2's module, 65,536 bytes (P4-C09).
//!
//! The paper does not give the threshold. Its Figure 2 has a slow start that overflows the queue (P4-C01), which asks for a high
//! threshold; its Figure 4 has one that stops far from congestion, which asks for a low one.
//!
//! Published: nothing. Ours: P4-C09 holds with it and with both readings of the delay: the first flow climbs by 1.01 packets a round trip
//! from 186 and 110 packets at 15 s. No packet is then dropped in the first 102.8 s (P4-C10).

use super::Protocol;
use super::film::Film;
use crate::figure::{Figure, Kind};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/threshold",
    shows: "SCTP, four flows, ns-2's initial threshold",
    caption: "Figure 4 with one change: slow start ends at ns-2's default threshold of 65,536 bytes.",
    settings: &|| super::settings(Protocol::SctpThreshold),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FIGURE, protocol: Protocol::SctpThreshold, flows: || super::staggered() };
        film.scene(seed, quick)
    }),
};
