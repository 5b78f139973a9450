//! Figure 5: the packets of FTP over SCTP with multistreaming and command pipelining (P2 §4.3).
//!
//! Published: a diagram of the order, without times. Ours is a run, with the same order.

use braidftp_sim::apps::ftp::Variant;

use super::sequence::{Around, Sequence};
use crate::figure::Figure;

/// The figure.
pub(super) const FIGURE: Figure = SEQUENCE.figure(|seed| SEQUENCE.scene(seed));

const SEQUENCE: Sequence = Sequence {
    id: "multistream/fig5",
    shows: "FTP over SCTP-MS-CP, packet by packet",
    caption: "Figure 5: command pipelining. All SIZEs leave at once, bundled; each RETR leaves when its 213 is here, and the server never waits: the second file follows on the heels of the first, and the congestion window is kept.",
    variant: Variant::MsCp,
    boxed: "once, for all files",
    around: Around::All,
};
