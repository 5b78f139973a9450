//! Figure 3: FAST TCP, two flows that begin and end together.
//!
//! Published: stable, no loss, the link full, equal shares. Ours agree once the windows have opened: 401
//! packets are in the queue, with a standard deviation of 0.2 %, and at most 474 while the windows open. Over
//! the 1000 s the link is used to 99.8 % with a round trip of 100 ms, and to 99.4 % with 100 ms in each
//! direction; each flow has .500 of it.

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
