//! The tables of `cargo xtask bench links`, and the comparisons with the peers.

use std::fmt::Write as _;

use super::{Contestant, Run};
use crate::bench::quantiles::{Tail, nearest_rank};
use crate::bench::servers::Program;

/// The ratio to the best peer's time from which braid is behind.
const BEHIND: f64 = 1.02;
/// The difference of median queueing delays that counts, in milliseconds: the resolution of the measurement.
const DELAY_MS: f64 = 1.0;

/// The results of a program in a cell.
pub(super) struct Row {
    contestant: Contestant,
    /// In seconds: what 1 of the times is.
    limit: f64,
    times: Tail,
    /// The queueing delays of all runs in milliseconds, in ascending order.
    delays: Vec<f64>,
}

impl Row {
    pub(super) fn new<'a>(
        contestant: Contestant,
        limit: f64,
        runs: impl Iterator<Item = (u64, &'a Run)> + Clone,
    ) -> Self {
        let mut delays: Vec<f64> = runs.clone().flat_map(|(_, run)| run.1.iter().copied()).collect();
        delays.sort_by(f64::total_cmp);
        Self { contestant, limit, times: Tail::of(runs.map(|(seed, run)| (seed, &run.0))), delays }
    }

    /// A queueing delay, NaN if no ping was answered.
    fn delay(&self, percent: usize) -> f64 {
        nearest_rank(&self.delays, percent).copied().unwrap_or(f64::NAN)
    }
}

/// The table of a cell.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text =
        "| program | median, of the limit | p95 | median, s | failures | queueing delay median, ms | p95 |\n\
        |---|---:|---:|---:|---|---:|---:|\n"
            .to_owned();
    for row in rows {
        let (median, p95) = (row.times.at(50), row.times.at(95));
        let _ = writeln!(
            text,
            "| {} | {median:.3} | {p95:.3} | {:.2} | {} | {:.1} | {:.1} |",
            row.contestant.name(),
            median * row.limit,
            row.times.failures(),
            row.delay(50),
            row.delay(95),
        );
    }
    text
}

/// Where braid is behind the best peer: protected behind those that are protected, plain behind the others.
pub(super) fn behind(rows: &[Row]) -> Vec<String> {
    let mut behind = Vec::new();
    for ours in rows.iter().filter(|row| row.contestant.is_braid()) {
        let is_alike = |row: &&Row| {
            !row.contestant.is_braid()
                && row.contestant.program.is_protected() == ours.contestant.program.is_protected()
        };
        for (what, percent) in [("median", 50), ("p95", 95)] {
            let peers = rows.iter().filter(is_alike);
            let best = peers.min_by(|a, b| a.times.at(percent).total_cmp(&b.times.at(percent)));
            let Some(best) = best else { continue };
            let (mine, theirs) = (ours.times.at(percent), best.times.at(percent));
            if mine > BEHIND * theirs {
                behind.push(format!(
                    "{}, {what} {mine:.3}, {} {theirs:.3} (+{:.0} %)",
                    ours.contestant.name(),
                    best.contestant.name(),
                    (mine / theirs - 1.0) * 100.0
                ));
            }
        }
    }
    behind
}

/// Whether braid's median queueing delay is above that of HTTP/2 over the kernel's BBR.
pub(super) fn more_queueing(rows: &[Row]) -> Option<String> {
    let delay = |program| rows.iter().find(|row| row.contestant.program == program).map(|row| row.delay(50));
    // Of the two rows of HTTP/2, that on BBR comes first.
    let (ours, theirs) = (delay(Program::Braid)?, delay(Program::Http2)?);
    (ours > theirs + DELAY_MS).then(|| format!("median {ours:.1} ms, {theirs:.1} ms"))
}

/// A list with a heading; `none` stands for an empty one.
pub(super) fn list(heading: &str, entries: &[String]) -> String {
    let none = ["none".to_owned()];
    let entries = if entries.is_empty() { &none } else { entries };
    entries.iter().fold(format!("\n{heading}:\n"), |text, entry| text + "- " + entry + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(program: Program, controller: Option<&'static str>, times: &[f64], delays: &[f64]) -> Row {
        let runs: Vec<Run> = times.iter().map(|time| (Ok(*time), delays.to_vec())).collect();
        Row::new(Contestant { program, controller }, 2.0, (1..).zip(&runs))
    }

    #[test]
    fn a_table_has_times_failures_and_queueing_delays() {
        let mut rows = vec![row(Program::Braid, None, &[1.5, 1.25], &[7.0, 3.0])];
        let failed: Run = (Err("exit code 8".to_owned()), Vec::new());
        let rsync = Contestant { program: Program::Rsync, controller: Some("bbr") };
        rows.push(Row::new(rsync, 2.0, std::iter::once((1, &failed))));
        let table = table(&rows);
        assert!(table.contains("\n| braid | 1.250 | 1.500 | 2.50 | 0 | 3.0 | 7.0 |\n"), "{table}");
        assert!(
            table.contains("\n| rsync BBR | inf | inf | inf | 1 × exit code 8 | NaN | NaN |\n"),
            "{table}"
        );
    }

    #[test]
    fn protected_is_compared_with_protected_and_plain_with_plain() {
        let rows = [
            row(Program::Braid, None, &[1.10], &[]),
            row(Program::BraidPlain, None, &[1.10], &[]),
            row(Program::Http2, Some("bbr"), &[1.09], &[]),
            row(Program::Rsync, Some("bbr"), &[1.0], &[]),
            row(Program::Rsync, Some("cubic"), &[3.0], &[]),
        ];
        let behind = behind(&rows);
        assert_eq!(behind.len(), 2, "{behind:?}");
        assert_eq!(behind[0], "braid --plain, median 1.100, rsync BBR 1.000 (+10 %)");
        assert!(behind[1].starts_with("braid --plain, p95"));
        assert_eq!(super::behind(&rows[..2]), Vec::<String>::new(), "without peers there is no comparison");
    }

    #[test]
    fn braid_is_behind_beyond_two_percent() {
        let theirs = || row(Program::Http3, Some("bbr"), &[1.0], &[]);
        assert!(behind(&[row(Program::Braid, None, &[1.019], &[]), theirs()]).is_empty());
        assert_eq!(behind(&[row(Program::Braid, None, &[1.021], &[]), theirs()]).len(), 2);
        assert_eq!(behind(&[row(Program::Braid, None, &[f64::INFINITY], &[]), theirs()]).len(), 2);
    }

    #[test]
    fn queueing_delay_is_compared_with_http2_on_bbr() {
        let rows = |ours| {
            [
                row(Program::Braid, None, &[1.0], &[ours]),
                row(Program::Http2, Some("bbr"), &[1.0], &[20.0]),
                row(Program::Http2, Some("cubic"), &[1.0], &[90.0]),
            ]
        };
        assert_eq!(more_queueing(&rows(20.9)), None);
        assert_eq!(more_queueing(&rows(30.0)).as_deref(), Some("median 30.0 ms, 20.0 ms"));
    }

    #[test]
    fn an_empty_list_says_so() {
        assert_eq!(list("behind", &[]), "\nbehind:\n- none\n");
        assert_eq!(list("behind", &["geo".to_owned()]), "\nbehind:\n- geo\n");
    }
}
