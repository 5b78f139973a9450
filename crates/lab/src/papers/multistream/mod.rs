//! P2: S. Ladha, P. D. Amer, "Improving Multiple File Transfers Using SCTP Multistreaming": a hundred files by FTP over
//! TCP, over SCTP as TCP is used, over the streams of one association, and with pipelined commands.

use crate::figure::{Figure, Paper};

/// The paper.
pub static PAPER: Paper = Paper {
    name: "multistream",
    key: "P2",
    citation: "S. Ladha, P. D. Amer: Improving Multiple File Transfers Using SCTP Multistreaming",
    figures: FIGURES,
    claims: &[],
};

static FIGURES: &[Figure] = &[];
