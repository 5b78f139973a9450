//! Figure 2: SCTP, two flows that begin and end together.
//!
//! Published: slow start overflows the queue, and the flows swing between under- and full utilisation. Ours: so it is. Slow start ends with
//! thousands of packets dropped and a time-out of each flow, and from half of the link on they climb by a packet a round trip.

use super::Protocol;
use super::film::Film;
use crate::figure::{Figure, Kind};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/fig2",
    shows: "SCTP, two flows that begin together",
    caption: "Figure 2: two SCTP flows that begin together. Nothing tells slow start how much the link carries: it ends when the queue overflows, with thousands of packets lost and a time-out, and what follows is a long climb by a packet a round trip.",
    settings: || super::settings(Protocol::Sctp),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FIGURE, protocol: Protocol::Sctp, flows: || super::together(2) };
        film.scene(seed, quick)
    }),
};
