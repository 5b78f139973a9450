//! Figure 2: SCTP, two flows that begin and end together.
//!
//! Published: slow start overflows the queue, and the flows swing between under- and full utilisation.
//! Ours: so it is. Windows grow half as large again in each round trip until packets are dropped, thousands
//! of them; one flow or both time out, and from about half of the link on they climb by a packet a round
//! trip. With 100 ms there and back the first packet is dropped before 2.2 s, with 12,714 packets of window
//! where the way holds 6667 and the queue 3000 more, and 5115 in all; the link is full for 55.5 % of the
//! time after 10 s, and used to 70 % or less for a tenth of it. With 100 ms each way before 4.4 s, 14,043
//! packets where the way holds 13,333, and 3002 in all; 34.3 % and 58 %. There what slow start sends comes
//! in bursts, by both flows at 1 Gbit/s each, and the queue overflows for less than 0.2 s while the way is
//! not yet full. Links lose nothing, and no more is sent again than the queue dropped, but for 440 chunks
//! after a time-out that the reader had already (P4-C02).

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
