//! Figure 4 again, with one change: the initial slow-start threshold of ns-2's module, 65,536 bytes (P4-C09).
//!
//! The paper does not give the threshold. Its Figure 2 has a slow start that overflows the queue (P4-C01), which asks for a high
//! threshold; its Figure 4 has one that stops far from congestion, which asks for a low one.
//!
//! Published: nothing. Ours: `braidlab check P4-C09`.

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
