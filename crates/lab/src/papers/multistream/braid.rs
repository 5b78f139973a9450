//! Beyond the paper: the packets of `braid`, in the form of Figures 3 to 5.
//!
//! Published: nothing. Ours is a run: there is no SIZE, and no RETR waits for any reply but that with the
//! names. The files are sent concurrently on their own streams, each with a header before and a digest after
//! its content.

use braidftp_sim::apps::ftp::Variant;

use super::sequence::{Around, Sequence};
use crate::figure::Figure;

/// The figure.
pub(super) const FIGURE: Figure = SEQUENCE.figure(|seed| SEQUENCE.scene(seed));

const SEQUENCE: Sequence = Sequence {
    id: "multistream/braid",
    shows: "braid, packet by packet",
    caption: "As Figures 3 to 5, by braid: when the names are here all RETRs leave at once, and the files come side by side on streams of their own, framed by headers and digests; no file waits for an answer about another.",
    variant: Variant::Braid,
    boxed: "once, for all files",
    around: Around::All,
};
