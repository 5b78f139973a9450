//! What P3 claims, and how it is decided here: of its figures (section 5), of ADaLR itself (sections 4 to
//! 6), and what the abstracts of its author's other papers say of errors, congestion, fairness and latency
//! (ADaLR-X1 to X5).
//!
//! ADaLR is a reconstruction here; a claim about it that holds shows that something of the kind does what
//! the paper says. Nothing is random where nothing is lost, and numbers have no interval there.

mod conclusions;
mod extension;
mod results;

use crate::claim::Claim;
use crate::papers::judge::Compared;
use crate::stats::{Estimate, short};
use crate::table::Table;

/// All of them, in order.
pub const ALL: &[&[Claim]] = &[results::CLAIMS, conclusions::CLAIMS, extension::CLAIMS];

/// The paper's sizes.
const SIZES: [&str; 7] =
    ["500000", "50000000", "100000000", "200000000", "300000000", "400000000", "500000000"];
/// The paper's delay, as the round trip of Figure 3.
const SATELLITE_RTT: &str = "520";

/// How many times as much of a column one variant has as another, at values of an axis.
fn ratios(table: &Table, axis: &str, values: &[&str], column: &str, of: &str, to: &str) -> Vec<Compared> {
    let one = |value: &&str| {
        let at = |variant: &str| table.at(&format!("{axis}={value} variant={variant}"));
        Compared { place: place(axis, value), ratio: at(of).ratio(&at(to), column) }
    };
    values.iter().map(one).collect()
}

/// A value of an axis as a person says it.
fn place(axis: &str, value: &str) -> String {
    match (axis, value.parse::<f64>()) {
        ("size", Ok(bytes)) if bytes >= 1e6 => format!("{} MB", bytes / 1e6),
        ("size", Ok(bytes)) => format!("{} kB", bytes / 1e3),
        ("rtt", _) => format!("{value} ms"),
        ("ber", Ok(rate)) => format!("1e{}", rate.log10().round()),
        _ => value.to_owned(),
    }
}

/// A column of a variant at values of an axis.
fn means(table: &Table, axis: &str, values: &[&str], column: &str, variant: &str) -> Vec<Estimate> {
    values.iter().map(|value| table.at(&format!("{axis}={value} variant={variant}")).mean(column)).collect()
}

/// Ratios as how much more, in percent: `16, 74, 75`.
fn percents(compared: &[Compared]) -> String {
    let percent = |compared: &Compared| short(100.0 * (compared.ratio.mean - 1.0));
    compared.iter().map(percent).collect::<Vec<_>>().join(", ")
}

/// How much less, in percent.
fn less(compared: &[Compared]) -> String {
    let percent = |compared: &Compared| short(100.0 * (1.0 - compared.ratio.mean));
    compared.iter().map(percent).collect::<Vec<_>>().join(", ")
}

/// The largest of them.
fn largest(compared: Vec<Compared>) -> Compared {
    let largest = compared.into_iter().max_by(|a, b| a.ratio.mean.total_cmp(&b.ratio.mean));
    largest.expect("there are some")
}
