//! Compares runs of both worlds: medians with confidence intervals, their ratio, and the table.
//!
//! Times of runs with losses have long tails, since time-outs back off exponentially, so medians are
//! compared and not means. The interval of a median is given by two order statistics that enclose it with
//! 90 % confidence for any distribution. With fewer than five runs there is no such interval, and the range
//! of all runs is used.

use std::fmt::Write as _;

use super::rows::{Row, World};
use super::{Cell, Way};
use crate::stats::{CONFIDENCE, quantile, short};

/// The target range of the median of the SCTP cells' ratios.
pub const TARGET: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The number of runs.
    pub runs: usize,
}

impl Median {
    /// Returns the median of values.
    ///
    /// # Panics
    /// If there are no values.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let outside = outside(sorted.len());
        Self {
            value: quantile(&sorted, 0.5),
            low: sorted[outside],
            high: sorted[sorted.len() - 1 - outside],
            runs: sorted.len(),
        }
    }

    /// The ratio of two independent medians; the interval combines both.
    fn over(self, other: Self) -> Self {
        Self {
            value: self.value / other.value,
            low: self.low / other.high,
            high: self.high / other.low,
            runs: self.runs,
        }
    }
}

impl std::fmt::Display for Median {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.low == self.high {
            return f.pad(&short(self.value));
        }
        f.pad(&format!("{} [{}, {}]", short(self.value), short(self.low), short(self.high)))
    }
}

/// How many of `runs` values can be excluded at either end so that the rest encloses the median with
/// [`CONFIDENCE`] (sign test): at most this many of `runs` coin tosses are heads with half the remaining
/// probability.
fn outside(runs: usize) -> usize {
    let half = (1.0 - CONFIDENCE) / 2.0;
    let mut chance = 0.5_f64.powi(runs as i32);
    let mut sum = chance;
    let mut outside = 0;
    while sum <= half && outside < runs / 2 {
        // Exclude one more as long as the probability permits.
        let next = chance * (runs - outside) as f64 / (outside + 1) as f64;
        if sum + next > half {
            break;
        }
        outside += 1;
        chance = next;
        sum += next;
    }
    outside
}

/// A cell in both worlds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The cell.
    pub cell: Cell,
    /// Seconds in the simulator.
    pub simulated: Median,
    /// Seconds live.
    pub live: Median,
    /// Live over simulated.
    pub ratio: Median,
}

/// Returns the cells that were run in both worlds, in the order of the figures.
pub fn judge(rows: &[Row]) -> Vec<Judged> {
    let seconds = |cell: &Cell, world| -> Vec<f64> {
        rows.iter().filter(|row| row.cell == *cell && row.world == world).map(|row| row.seconds).collect()
    };
    let judged = |cell: Cell| {
        let (simulated, live) = (seconds(&cell, World::Simulated), seconds(&cell, World::Live));
        if simulated.is_empty() || live.is_empty() {
            return None;
        }
        let (simulated, live) = (Median::of(&simulated), Median::of(&live));
        Some(Judged { cell, simulated, live, ratio: live.over(simulated) })
    };
    Cell::all().into_iter().filter_map(judged).collect()
}

/// Returns the median of the cells' ratios.
pub fn overall(judged: &[Judged], which: impl Fn(Way) -> bool) -> Option<Median> {
    let chosen = judged.iter().filter(|it| which(it.cell.way));
    let ratios: Vec<f64> = chosen.map(|it| it.ratio.value).collect();
    (!ratios.is_empty()).then(|| Median::of(&ratios))
}

/// The comparison as text.
pub fn table(judged: &[Judged]) -> String {
    let mut text = format!(
        "{:<20} {:>26} {:>26} {:>22} {:>9}\n",
        "cell", "simulated, s", "live, s", "live : simulated", "runs"
    );
    for Judged { cell, simulated, live, ratio } in judged {
        let _ = writeln!(
            text,
            "{:<20} {simulated:>26} {live:>26} {ratio:>22} {:>9}",
            cell.to_string(),
            format!("{}, {}", simulated.runs, live.runs)
        );
    }
    text + &medians(judged)
}

/// The medians of the ratios, one line for each transport.
pub fn medians(judged: &[Judged]) -> String {
    let mut text = String::new();
    for (what, which) in [
        ("SCTP", (|way| way.is_sctp()) as fn(Way) -> bool),
        ("kernel TCP without SACK", |way| way == Way::Tcp),
        ("kernel TCP with SACK", |way| way == Way::TcpSack),
    ] {
        if let Some(median) = overall(judged, which) {
            let _ = writeln!(
                text,
                "{what}: median of the ratios of {} cells {median}, from {} to {}",
                median.runs,
                short(extreme(judged, which, f64::min)),
                short(extreme(judged, which, f64::max)),
            );
        }
    }
    text
}

fn extreme(judged: &[Judged], which: fn(Way) -> bool, of: fn(f64, f64) -> f64) -> f64 {
    judged.iter().filter(|it| which(it.cell.way)).map(|it| it.ratio.value).reduce(of).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::ftp::LAN;

    /// From tables of the sign test: for n values, the rank at which the 90 % interval begins.
    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        for (runs, rank) in
            [(1, 1), (2, 1), (4, 1), (5, 1), (7, 1), (8, 2), (10, 2), (11, 3), (13, 4), (20, 6), (40, 15)]
        {
            assert_eq!(outside(runs) + 1, rank, "{runs}");
        }
    }

    #[test]
    fn the_interval_of_a_ratio_combines_both_sides() {
        let cell = |way| Cell { path: LAN, size: 10_000, loss: 1, way };
        let row = |way, world, run, seconds| Row { cell: cell(way), world, run, seed: 0, seconds };
        let mut rows = Vec::new();
        for (run, seconds) in [8.0, 10.0, 12.0].into_iter().enumerate() {
            rows.push(row(Way::Ms, World::Simulated, run as u32, seconds));
            rows.push(row(Way::Ms, World::Live, run as u32, seconds * 1.1));
        }
        rows.push(row(Way::Tcp, World::Live, 0, 1.0));
        let judged = judge(&rows);
        assert_eq!(judged.len(), 1, "a cell without a simulated run is not compared");
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        close(judged[0].ratio.value, 1.1);
        close(judged[0].ratio.low, 8.8 / 12.0);
        close(judged[0].ratio.high, 13.2 / 8.0);
        close(overall(&judged, Way::is_sctp).unwrap().value, 1.1);
        assert_eq!(overall(&judged, |way| way == Way::Tcp), None);
        let table = table(&judged);
        assert!(
            table.contains("lan/10k/1/ms") && table.contains("SCTP: median of the ratios of 1 cells 1.10")
        );
    }
}
