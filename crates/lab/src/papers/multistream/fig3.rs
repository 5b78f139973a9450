//! Figure 3: the packets of FTP over SCTP-naive (P2 §4.1).
//!
//! Published: a diagram of the order, without times. Ours is a run, with the same order. In addition, a
//! server that uses the usual socket calls sends its 226 as soon as the transport has accepted the last byte,
//! so the 226 may arrive before the file.

use braidftp_sim::apps::ftp::Variant;

use super::sequence::{Around, Sequence};
use crate::figure::Figure;

/// The figure.
pub(super) const FIGURE: Figure = SEQUENCE.figure(|seed| SEQUENCE.scene(seed));

const SEQUENCE: Sequence = Sequence {
    id: "multistream/fig3",
    shows: "FTP over SCTP-naive, packet by packet",
    caption: "Figure 3: an association for each transfer, as TCP is used. For each file the client tells where it listens and waits for the 200, asks for the file and waits for the 150; the server opens an association (four packets before the first data may leave), sends, and closes it (three more).",
    variant: Variant::Naive,
    boxed: "repeated for each file",
    around: Around::First,
};
