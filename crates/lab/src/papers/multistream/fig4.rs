//! Figure 4: the packets of FTP over SCTP with multistreaming (P2 §4.2).
//!
//! Published: a diagram of the order, without times. Ours is a run, with the same order.

use braidftp_sim::apps::ftp::Variant;

use super::sequence::{Around, Sequence};
use crate::figure::Figure;

/// The figure.
pub(super) const FIGURE: Figure = SEQUENCE.figure(|seed| SEQUENCE.scene(seed));

const SEQUENCE: Sequence = Sequence {
    id: "multistream/fig4",
    shows: "FTP over SCTP-MS, packet by packet",
    caption: "Figure 4: one association of two streams. No association is opened and no PORT is sent: SIZE and its 213, RETR and its 150, then data on stream 1. Between two files nothing is in flight: there the paper's stack lets its congestion window fall to Max.Burst packets.",
    variant: Variant::Ms,
    boxed: "repeated for each file",
    around: Around::First,
};
