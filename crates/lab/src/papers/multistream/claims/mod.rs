//! The claims of P2, and how they are decided: about FTP's design and its alternatives (sections 2 to 4),
//! about Figures 6 to 8 (section 5.2), and its conclusions (abstract, sections 5 and 6).

mod conclusions;
mod control_blocks;
mod design;
mod results;

use crate::claim::Claim;
use crate::data::Data;
use crate::papers::judge::{Compared, places, ratios};

/// All claims, in order.
pub const ALL: &[&[Claim]] = &[design::CLAIMS, results::CLAIMS, conclusions::CLAIMS];

/// The paper's three figures, with their names.
const FIGURES: [(&str, &str); 3] =
    [("multistream/fig6", "LAN"), ("multistream/fig7", "WAN"), ("multistream/fig8", "satellite")];
/// The three figures.
const THREE: &[&str] = &["multistream/fig6", "multistream/fig7", "multistream/fig8"];
/// The paper's sizes.
const SIZES: [&str; 5] = ["10000", "50000", "200000", "500000", "1000000"];

/// Compares two variants in all three figures.
fn everywhere(data: &Data, sizes: &[&str], losses: &[&str], of: &str, to: &str) -> Vec<Compared> {
    FIGURES
        .iter()
        .flat_map(|(id, name)| ratios(data.table(id), name, &places(sizes, losses), of, to))
        .collect()
}

/// Compares two variants in one figure.
fn within(data: &Data, figure: usize, sizes: &[&str], losses: &[&str], of: &str, to: &str) -> Vec<Compared> {
    let (id, name) = FIGURES[figure];
    ratios(data.table(id), name, &places(sizes, losses), of, to)
}
