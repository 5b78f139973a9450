//! The claims of P3, and how they are decided: claims about its figures (section 5) and about ADaLR itself
//! (sections 4 to 6), and claims of the abstracts of its author's other papers about errors, congestion,
//! fairness and latency (ADaLR-X1 to X5).
//!
//! ADaLR is a reconstruction here. A claim about ADaLR that holds shows that a controller of this kind does
//! what the paper says. Runs without loss are deterministic, so their numbers have no interval.

mod conclusions;
mod extension;
mod results;

use crate::claim::Claim;
use crate::papers::judge::Compared;
use crate::stats::{Estimate, short};
use crate::table::Table;

/// All claims, in order.
pub const ALL: &[&[Claim]] = &[results::CLAIMS, conclusions::CLAIMS, extension::CLAIMS];

/// The paper's sizes.
const SIZES: [&str; 7] =
    ["500000", "50000000", "100000000", "200000000", "300000000", "400000000", "500000000"];
/// The paper's delay, as the round trip of Figure 3.
const SATELLITE_RTT: &str = "520";

/// The ratios of a column of two variants, at values of an axis.
fn ratios(table: &Table, axis: &str, values: &[&str], column: &str, of: &str, to: &str) -> Vec<Compared> {
    let one = |value: &&str| {
        let at = |variant: &str| table.at(&format!("{axis}={value} variant={variant}"));
        Compared { place: place(axis, value), ratio: at(of).ratio(&at(to), column) }
    };
    values.iter().map(one).collect()
}

/// A value of an axis as text.
fn place(axis: &str, value: &str) -> String {
    match (axis, value.parse::<f64>()) {
        ("size", Ok(bytes)) if bytes >= 1e6 => format!("{} MB", bytes / 1e6),
        ("size", Ok(bytes)) => format!("{} kB", bytes / 1e3),
        ("rtt", _) => format!("{value} ms"),
        ("ber", Ok(rate)) => format!("1e{}", rate.log10().round()),
        _ => value.to_owned(),
    }
}

/// The means of a column of a variant, at values of an axis.
fn means(table: &Table, axis: &str, values: &[&str], column: &str, variant: &str) -> Vec<Estimate> {
    values.iter().map(|value| table.at(&format!("{axis}={value} variant={variant}")).mean(column)).collect()
}

/// Ratios as increases in per cent: `16, 74, 75`.
fn percents(compared: &[Compared]) -> String {
    let percent = |compared: &Compared| short(100.0 * (compared.ratio.mean - 1.0));
    compared.iter().map(percent).collect::<Vec<_>>().join(", ")
}

/// Ratios as decreases in per cent.
fn less(compared: &[Compared]) -> String {
    let percent = |compared: &Compared| short(100.0 * (1.0 - compared.ratio.mean));
    compared.iter().map(percent).collect::<Vec<_>>().join(", ")
}

/// The largest ratio.
fn largest(compared: Vec<Compared>) -> Compared {
    let largest = compared.into_iter().max_by(|a, b| a.ratio.mean.total_cmp(&b.ratio.mean));
    largest.expect("there are some")
}
