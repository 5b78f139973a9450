//! Explains completion times that are infinite: the workload, the point, the number of runs, and what to try.

use super::figure::Document;
use super::measure::{Of, What};
use super::plan::Plan;
use super::workloads::Does;
use super::{Scenario, decide};
use crate::figure::Point;
use crate::stats;
use crate::table::{Record, Table};

/// The maximum number of lines; the other points are counted.
const LINES_MAX: usize = 10;

impl Scenario {
    /// Explains the infinite completion times of the runs of this scenario, in one world or in both, and the failed runs: a
    /// line for each workload at each point, and a line with what to try for each kind.
    pub fn unended(&self, table: &Table) -> Vec<String> {
        let mut lines = Vec::new();
        let mut remedies: Vec<&str> = Vec::new();
        for (at, point) in table.points().iter().enumerate() {
            let from = table.records().partition_point(|record| record.point < at);
            let to = table.records().partition_point(|record| record.point <= at);
            let records = &table.records()[from..to];
            let plan = if records.iter().any(is_odd) { self.document.plan(point) } else { continue };
            for (line, remedy) in at_point(self.document, table, &plan, point, records) {
                lines.push(line);
                if !remedies.contains(&remedy) {
                    remedies.push(remedy);
                }
            }
        }
        if lines.len() > LINES_MAX {
            let more = lines.len() - LINES_MAX;
            lines.truncate(LINES_MAX);
            lines.push(format!("and the same in {more} more places"));
        }
        lines.extend(remedies.into_iter().map(|remedy| format!("try {remedy}")));
        lines
    }
}

/// Whether a run failed, or has infinite numbers.
fn is_odd(record: &Record) -> bool {
    is_failed(record) || record.numbers.iter().any(|number| number.is_infinite())
}

/// Whether a run failed: its numbers are all NaN.
fn is_failed(record: &Record) -> bool {
    record.numbers.iter().all(|number| number.is_nan())
}

/// The lines of a point, each with what to try.
fn at_point(
    document: &Document,
    table: &Table,
    plan: &Plan,
    point: &Point,
    records: &[Record],
) -> Vec<(String, &'static str)> {
    let columns = table.sweep().columns;
    let runs = stats::count(records.len(), "run");
    let place = match decide::place(point.places(), &document.scope.axes) {
        place if place.is_empty() => place,
        place => format!(" at {place}"),
    };
    let mut lines = Vec::new();
    for (number, workload) in plan.workloads.iter().enumerate() {
        let times: Vec<usize> = document
            .measures
            .iter()
            .filter(
                |measure| matches!(measure.what, What::Of(its, Of::Mean | Of::Quantile(_)) if its == number),
            )
            .filter_map(|measure| columns.iter().position(|column| column.name == measure.name))
            .collect();
        let is_infinite = |column: &usize, record: &Record| record.numbers[*column].is_infinite();
        let count = |column: &usize| records.iter().filter(|record| is_infinite(column, record)).count();
        let infinite: Vec<&usize> = times.iter().filter(|column| count(column) > 0).collect();
        if infinite.is_empty() {
            continue;
        }
        let its = records.iter().filter(|record| infinite.iter().any(|column| is_infinite(column, record)));
        let names: Vec<String> =
            infinite.iter().map(|column| format!("`{}`", columns[**column].name)).collect();
        let (names, its, name) = (names.join(", "), its.count(), &workload.name);
        let what = if matches!(workload.does, Does::Ftp { .. }) { "file" } else { "answer" };
        lines.push(match plan.lasts {
            Some(lasts) => (
                format!(
                    "inf{place}: in {its} of {runs} no {what} of workload `{name}` arrived before the run ended, at {} s, \
                     or the connection of one failed: {names}",
                    lasts.as_secs_f64()
                ),
                "a longer `lasts`, fewer or smaller transfers, or a higher `rate`; the columns `completed` and `failed` \
                 count transfers",
            ),
            None => (
                format!("inf{place}: in {its} of {runs} a connection of workload `{name}` failed: {names}"),
                "less `loss`, shorter cuts, or more retransmissions in the transport; the column `failed` counts transfers",
            ),
        });
    }
    let failed = records.iter().filter(|record| is_failed(record)).count();
    if failed > 0 {
        let line = format!("NaN{place}: {failed} of {runs} failed, or measured nothing");
        lines.push((line, "what the lines `failed:` above say; --fresh repeats stored runs"));
    }
    lines
}
