//! P1: S. Ladha, P. D. Amer, A. L. Caro Jr., J. R. Iyengar, "Improving File Transfer in FCS Networks": ten files by FTP
//! over SCTP, and over TCP New-Reno.

use crate::figure::{Figure, Paper};

/// The paper.
pub static PAPER: Paper = Paper {
    name: "fcs",
    key: "P1",
    citation: "S. Ladha, P. D. Amer, A. L. Caro Jr., J. R. Iyengar: Improving File Transfer in FCS Networks",
    figures: FIGURES,
    claims: &[],
};

static FIGURES: &[Figure] = &[];
