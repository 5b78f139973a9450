//! What comes of runs in both worlds: medians with intervals, their ratio, and the table of it all.
//!
//! Times of runs with losses have long tails (a time-out doubles, and doubles again), so medians are compared and not
//! means. The interval of a median is between two of the runs themselves, those that bound it with 90 %, whatever the
//! distribution; with fewer than five runs that is not to be had, and the interval is all of the runs.

use std::fmt::Write as _;

use super::rows::{Row, World};
use super::{Cell, Way};
use crate::stats::{CONFIDENCE, quantile, short};

/// Where the median of the ratios of SCTP's cells is to be.
pub const TARGET: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// A median, and where it lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Of how many.
    pub runs: usize,
}

impl Median {
    /// The median of these.
    ///
    /// # Panics
    /// If there are none.
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

    /// How many times as large as another that is independent of it: the interval is as wide as both together make it.
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

/// How many of so many runs can be left out at either end, so that the median is between those that are left with
/// [`CONFIDENCE`]: as many heads or fewer come of so many throws of a coin with half of what is left.
fn outside(runs: usize) -> usize {
    let half = (1.0 - CONFIDENCE) / 2.0;
    let mut chance = 0.5_f64.powi(runs as i32);
    let mut sum = chance;
    let mut outside = 0;
    while sum <= half && outside < runs / 2 {
        // So many may be left out: one less than would make it likelier.
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
    /// Which.
    pub cell: Cell,
    /// Seconds in the simulator.
    pub simulated: Median,
    /// Seconds live.
    pub live: Median,
    /// Live over simulated.
    pub ratio: Median,
}

/// The cells that were run in both worlds, in the order of the figures.
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

/// The median of the cells' ratios.
pub fn overall(judged: &[Judged], which: impl Fn(Way) -> bool) -> Option<Median> {
    let chosen = judged.iter().filter(|it| which(it.cell.way));
    let ratios: Vec<f64> = chosen.map(|it| it.ratio.value).collect();
    (!ratios.is_empty()).then(|| Median::of(&ratios))
}

/// What a person reads.
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

/// The medians of the ratios, a line for each kind of transport.
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

    /// The ranks of tables of the sign test: of so many, the interval of 90 % begins with this one.
    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        for (runs, rank) in
            [(1, 1), (2, 1), (4, 1), (5, 1), (7, 1), (8, 2), (10, 2), (11, 3), (13, 4), (20, 6), (40, 15)]
        {
            assert_eq!(outside(runs) + 1, rank, "{runs}");
        }
    }

    #[test]
    fn a_ratio_is_as_sure_as_both_its_sides() {
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
