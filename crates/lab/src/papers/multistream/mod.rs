//! P2: S. Ladha, P. D. Amer, "Improving Multiple File Transfers Using SCTP Multistreaming": a hundred files by FTP over
//! TCP, over SCTP as TCP is used, over the streams of one association, and with pipelined commands.

mod fig1;
mod fig3;
mod fig4;
mod fig5;
mod sequence;

use crate::figure::{Figure, Paper};

/// The paper.
pub static PAPER: Paper = Paper {
    name: "multistream",
    key: "P2",
    citation: "S. Ladha, P. D. Amer: Improving Multiple File Transfers Using SCTP Multistreaming",
    figures: FIGURES,
    claims: &[],
};

static FIGURES: &[Figure] = &[fig1::FIGURE, fig3::FIGURE, fig4::FIGURE, fig5::FIGURE];
