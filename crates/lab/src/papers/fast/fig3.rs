//! Figure 3: FAST TCP, two flows that begin and end together.
//!
//! Published: stable, no loss, the link full, equal shares. Ours: so it is, once the windows have opened,
//! with 401 packets in the queue and a standard deviation of 0.2 % of that; 474 at most, while they opened.
//! The link is used to
//! 99.8 % over the 1000 s with 100 ms there and back, to 99.4 % with 100 ms each way, and each flow has
//! .500 of it.

use super::Protocol;
use super::film::Film;
use crate::figure::{Figure, Kind};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/fig3",
    shows: "FAST, two flows that begin together",
    caption: "Figure 3: two FAST flows that begin together. Each keeps 200 packets in the queue, no more; nothing is lost, and both have the same.",
    settings: &|| super::settings(Protocol::Fast),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FIGURE, protocol: Protocol::Fast, flows: || super::together(2) };
        film.scene(seed, quick)
    }),
};
