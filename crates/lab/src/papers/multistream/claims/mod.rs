//! What P2 claims, and how it is decided here: of FTP's design and its alternatives (sections 2 to 4), of
//! Figures 6 to 8 (section 5.2), and what follows (abstract, sections 5 and 6).

mod conclusions;
mod control_blocks;
mod design;
mod results;

use crate::claim::Claim;
use crate::data::Data;
use crate::papers::judge::{Compared, places, ratios};

/// All of them, in order.
pub const ALL: &[&[Claim]] = &[design::CLAIMS, results::CLAIMS, conclusions::CLAIMS];

/// The paper's three pictures, with what they are called.
const FIGURES: [(&str, &str); 3] =
    [("multistream/fig6", "LAN"), ("multistream/fig7", "WAN"), ("multistream/fig8", "satellite")];
/// What they need.
const THREE: &[&str] = &["multistream/fig6", "multistream/fig7", "multistream/fig8"];
/// The paper's sizes.
const SIZES: [&str; 5] = ["10000", "50000", "200000", "500000", "1000000"];

/// Two variants compared in all three pictures.
fn everywhere(data: &Data, sizes: &[&str], losses: &[&str], of: &str, to: &str) -> Vec<Compared> {
    FIGURES
        .iter()
        .flat_map(|(id, name)| ratios(data.table(id), name, &places(sizes, losses), of, to))
        .collect()
}

/// Two variants compared in one picture.
fn within(data: &Data, figure: usize, sizes: &[&str], losses: &[&str], of: &str, to: &str) -> Vec<Compared> {
    let (id, name) = FIGURES[figure];
    ratios(data.table(id), name, &places(sizes, losses), of, to)
}
