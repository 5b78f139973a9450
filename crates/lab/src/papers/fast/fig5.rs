//! Figure 5: FAST TCP, four flows that begin one after the other.
//!
//! Published: stable, no loss, the link fully used, each source with as many packets in the queue as any
//! other. Ours: stable and without loss, 798 Mbit/s over the 1000 s with a round trip of 100 ms, 787 with 100
//! ms in each direction. With neither reading are the shares equal: a flow that begins late takes the packets
//! of others in the queue for a part of the propagation delay (`fast/late`), so the four have .15, .17, .24
//! and .45 with 1371 packets in the queue. When one of them ends, the queue is empty for a moment, all
//! baseRTTs become correct, and the remaining flows have equal shares, with 601 and 401 packets.

use super::Protocol;
use super::film::Film;
use crate::figure::{Figure, Kind};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/fig5",
    shows: "FAST, four flows that come and go",
    caption: "Figure 5: four FAST flows that begin at 0, 50, 100 and 150 s and end at 1000, 950, 900 and 850 s. Who comes late finds a queue and takes it for a part of the way: its window is the larger, and more than α a flow waits.",
    settings: &|| super::settings(Protocol::Fast),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FIGURE, protocol: Protocol::Fast, flows: || super::staggered() };
        film.scene(seed, quick)
    }),
};
