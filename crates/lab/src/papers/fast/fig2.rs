//! Figure 2: SCTP, two flows that begin and end together.
//!
//! Published: slow start overflows the queue, and the flows oscillate between low and full utilisation. Ours
//! agree. Windows grow by half in each round trip until packets are dropped, thousands of them. One flow or
//! both time out, and from about half of the link on they grow by a packet per round trip.
//!
//! With a round trip of 100 ms the first packet is dropped before 2.2 s, at a window of 12,714 packets, where
//! the path holds 6667 and the queue 3000; 5115 packets are dropped in total. The link is fully used for 55.5
//! % of the time after 10 s, and used to 70 % or less for a tenth of it.
//!
//! With 100 ms in each direction the first drop is before 4.4 s, at 14,043 packets, where the path holds
//! 13,333; 3002 are dropped in total, and the numbers are 34.3 % and 58 %. There both flows send bursts at 1
//! Gbit/s each in slow start, and the queue overflows for less than 0.2 s before the path is full.
//!
//! Links lose nothing, and the number of retransmissions equals that of drops, except for 440 chunks that the
//! receiver already had after a time-out (P4-C02).

use super::Protocol;
use super::film::Film;
use crate::figure::{Figure, Kind};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/fig2",
    shows: "SCTP, two flows that begin together",
    caption: "Figure 2: two SCTP flows that begin together. Nothing tells slow start how much the link carries: it ends when the queue overflows, with thousands of packets lost and a time-out, and what follows is a long climb by a packet a round trip.",
    settings: &|| super::settings(Protocol::Sctp),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FIGURE, protocol: Protocol::Sctp, flows: || super::together(2) };
        film.scene(seed, quick)
    }),
};
