//! Figure 2: SCTP, two flows that begin and end together.
//!
//! Published: slow start overflows the queue, and the flows swing between under- and full utilisation. Ours: so it is. Slow start ends with
//! thousands of packets dropped and a time-out of each flow, and from half of the link on they climb by a packet a round trip. With 100 ms
//! there and back the first packet is dropped at 2.2 s, with windows of 12,714 packets where way and queue hold 9667, and 5115 in all; the
//! link is full for 55.5 % of the time after 10 s, and used to 70 % or less for a tenth of it. With 100 ms each way at 4.4 s, 14,043
//! packets of 16,333, 3002 in all; 34.3 % and 58 %. There the queue overflows while the way is not yet
//! full, since what slow start sends comes in bursts, by both flows at 1 Gbit/s each (P4-C01); and 440 more chunks are sent again than
//! were dropped (P4-C02).

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
