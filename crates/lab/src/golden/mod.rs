//! `braidlab check golden`: runs the scenarios of the ns-2 validation suite, and some of our own that were
//! run in ns-2, with the real SCTP endpoint, and compares them with ns-2's traces, at level C of
//! `golden/ns2/README.md` §6.4.
//!
//! A scenario holds if the number of retransmissions equals that of the suite's run or of the plain run,
//! and the chunks received, or the time of the transfer, are within 1 % of one of them. If these two runs
//! differ by more than 2 %, non-standard behaviour of the ns-2 module decides the scenario, and a
//! difference is reported but not counted.

mod net;
mod run;
mod scenario;

use std::fmt::Write as _;

use scenario::{Outcome, Scenario, Scenarios};

/// The tolerance of a scenario.
const TOLERANCE: f64 = 0.01;
/// The maximum difference between the suite's run and the plain run for a scenario to be compared.
const COMPARABLE: f64 = 0.02;
/// Non-standard behaviours of the module, which the plain run does not have.
const HABITS: [&str; 7] = ["H2", "F1", "B5", "B9", "F7", "M8", "M11"];

/// The scenarios of the suite.
const SUITE: &str = include_str!("../../golden/ns2/scenarios.toml");
/// Our scenarios.
const OWN: &str = include_str!("../../golden/own/scenarios.toml");

/// The built-in scenarios.
pub fn scenarios() -> String {
    [SUITE, OWN].join("\n")
}

/// Whether each packet that enters a link is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Not printed.
    No,
    /// Printed below its scenario.
    Yes,
}

/// The result of a check.
#[derive(Debug)]
pub struct Report {
    /// The report as text.
    pub text: String,
    /// The number of unexpected differences.
    pub differ: usize,
}

/// The verdict on a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    /// The scenario should hold, but does not.
    Differs,
    /// The scenario need not hold.
    Apart,
}

/// Runs all scenarios of a file whose names contain `only`.
pub fn check(text: &str, only: &str, trace: Trace) -> Result<Report, String> {
    let Scenarios { defaults, scenarios } =
        toml::from_str(text).map_err(|error| format!("invalid scenario file: {error}"))?;
    let mut report = Report { text: String::new(), differ: 0 };
    let mut lines = String::new();
    let (mut held, mut count) = (0, 0);
    for scenario in scenarios.iter().filter(|scenario| scenario.name.contains(only)) {
        let (ours, packets) = run::run(scenario, &defaults, trace)?;
        let columns = scenario.columns();
        let verdict = judge(&ours, &columns);
        count += 1;
        held += usize::from(verdict == Verdict::Holds);
        report.differ += usize::from(verdict == Verdict::Differs);
        let [golden, plain] = columns;
        let ratio = amount(&ours) / amount(if is_near(&ours, &plain) { &plain } else { &golden });
        let verdict_text = match verdict {
            Verdict::Holds => "holds".to_owned(),
            Verdict::Differs => "DIFFERS".to_owned(),
            Verdict::Apart => format!("not comparable: decided by the module's {}", habits(scenario)),
        };
        let rtx = format!("{}/{}", golden.retransmissions, plain.retransmissions);
        let _ = writeln!(
            lines,
            "{:<44} {:>13} {:>13} {:>13} {:>7} {:>4} {:>8.4}  {verdict_text}",
            scenario.name,
            golden.to_string(),
            plain.to_string(),
            ours.to_string(),
            rtx,
            ours.retransmissions,
            ratio,
        );
        for packet in packets {
            let _ = writeln!(lines, "  {packet}");
        }
    }
    let _ = writeln!(
        report.text,
        "{:<44} {:>13} {:>13} {:>13} {:>7} {:>4} {:>8}  verdict",
        "scenario", "suite", "plain", "ours", "rtx", "ours", "ratio"
    );
    report.text += &lines;
    let apart = count - held - report.differ;
    let _ = writeln!(
        report.text,
        "{held} of {count} hold; {} differ; {apart} are decided by non-standard behaviour",
        report.differ
    );
    Ok(report)
}

fn judge(ours: &Outcome, columns: &[Outcome; 2]) -> Verdict {
    let [golden, plain] = columns;
    let resent = columns.iter().any(|column| column.retransmissions == ours.retransmissions);
    let near = columns.iter().any(|column| is_near(ours, column));
    if resent && near {
        Verdict::Holds
    } else if off(golden, plain) > COMPARABLE || golden.retransmissions != plain.retransmissions {
        Verdict::Apart
    } else {
        Verdict::Differs
    }
}

/// The compared value: the time of a transfer, or the chunks received in a time.
fn amount(outcome: &Outcome) -> f64 {
    outcome.elapsed.unwrap_or(outcome.chunks as f64)
}

/// The relative difference of two outcomes.
fn off(one: &Outcome, other: &Outcome) -> f64 {
    if one.elapsed.is_some() != other.elapsed.is_some() {
        return f64::INFINITY;
    }
    (amount(one) / amount(other) - 1.0).abs()
}

fn is_near(ours: &Outcome, column: &Outcome) -> bool {
    off(ours, column) <= TOLERANCE + 1e-9
}

/// The module's behaviours that this scenario's trace needs.
fn habits(scenario: &Scenario) -> String {
    let names = scenario.rules.iter().filter_map(|rule| rule.split('@').next());
    let mut names: Vec<_> = names.filter(|name| HABITS.contains(name)).collect();
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_holds_or_is_decided_by_non_standard_behaviour() {
        let report = check(&scenarios(), "", Trace::No).unwrap();
        assert_eq!(report.differ, 0, "{}", report.text);
        assert!(report.text.contains("41 of 44 hold"), "{}", report.text);
    }

    #[test]
    fn retransmissions_must_equal_a_column_and_chunks_be_within_one_per_cent() {
        let outcome = |chunks, retransmissions| Outcome { chunks, retransmissions, elapsed: None };
        let columns = [outcome(200, 3), outcome(203, 3)];
        assert_eq!(judge(&outcome(198, 3), &columns), Verdict::Holds);
        assert_eq!(judge(&outcome(197, 3), &columns), Verdict::Differs);
        assert_eq!(judge(&outcome(200, 2), &columns), Verdict::Differs);
        assert_eq!(judge(&outcome(100, 3), &[outcome(200, 3), outcome(205, 3)]), Verdict::Apart);
        let timed = Outcome { elapsed: Some(2.0), ..outcome(200, 3) };
        assert_eq!(judge(&timed, &columns), Verdict::Differs, "a time is not compared with a count");
    }

    #[test]
    fn an_invalid_scenario_file_is_reported() {
        assert!(check("x = 1", "", Trace::No).unwrap_err().starts_with("invalid scenario file"));
    }
}
