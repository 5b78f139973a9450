//! `braidlab check`: checks the claims of the papers.

use std::fmt::Write;
use std::path::PathBuf;

use braidftp_lab::bench::Made;
use braidftp_lab::claim::{Claim, Finding, Paper, Verdict};
use braidftp_lab::stats::{self, Estimate};
use braidftp_lab::store::Variety;
use braidftp_lab::{golden, papers, plot, scenario};
use clap::Args as ClapArgs;
use serde::Serialize;

use super::{JUDGED_AT_ONCE, Progress, Running, announce, is_scenario, load, print, unended};
use crate::Failure;

/// Check the claims of the papers: prints each claim with its verdict, our number with its 90 % interval,
/// and the explanation.
///
/// Stored figures are loaded from the folder of results; missing ones are run. `--quick` is for scenario files: it decides no
/// claim of a paper.
///
/// `golden` checks the scenarios of ns-2's SCTP validation suite and some of our own against ns-2's packet
/// traces.
///
/// If a claim of a scenario file does not hold, the exit code is 1.
///
/// Example: braidlab check P1 P2; braidlab check P2-C38; braidlab check multistream/fig6; braidlab check
/// golden
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Claims (P2-C38), papers (P1), figures (the claims that they decide), or scenario files (my.toml, the
    /// claims in them); default: all claims of papers
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// With `golden`: a file with other scenarios of the same form
    #[arg(long, value_name = "FILE")]
    scenarios: Option<PathBuf>,
    /// With `golden`: only scenarios whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// With `golden`: also print each packet that enters a link
    #[arg(long)]
    trace: bool,
    /// Print a line of JSON for each claim
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    running: Running,
}

/// A claim as JSON.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    says: &'a str,
    verdict: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    figure: Option<Number<'a>>,
    why: &'a str,
    from: &'a [&'a str],
}

#[derive(Serialize)]
struct Number<'a> {
    what: &'a str,
    unit: &'a str,
    mean: f64,
    low: f64,
    high: f64,
    runs: usize,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.ids.iter().any(|id| id == "golden") {
        return run_golden(args);
    }
    if args.ids.iter().any(|id| is_scenario(id)) {
        return run_scenarios(args);
    }
    let claims = papers::find_claims(&args.ids).map_err(|unknown| Failure::Usage(unknown.to_string()))?;
    if args.running.quick {
        refuse_quick(&claims)?;
    }
    let bench = args.running.bench();
    let data = {
        let mut progress = Progress::new();
        bench.gather(&papers::needed(&claims), &mut progress)?
    };
    let findings: Vec<(&Claim, Finding)> =
        claims.iter().map(|claim| (*claim, (claim.check)(&data))).collect();
    let mut text = String::new();
    for (claim, finding) in &findings {
        text.push_str(&if args.json { json(claim, finding) } else { block(claim, finding) });
    }
    if !args.json {
        text.push_str(&totals(&findings));
    }
    print(&text)
}

/// Refuses `--quick` for claims that need whole figures.
fn refuse_quick(claims: &[&Claim]) -> Result<(), Failure> {
    let needs_all = |claim: &&&Claim| {
        let its = |paper: &&&Paper| paper.claims().any(|its| its.id == claim.id);
        papers::ALL.iter().find(its).is_some_and(|paper| !JUDGED_AT_ONCE.contains(&paper.name))
    };
    match claims.iter().find(needs_all) {
        None => Ok(()),
        Some(claim) => Err(Failure::Usage(format!(
            "--quick decides no claim of a paper, such as {}: it leaves out points and runs that the claim is about; leave out --quick",
            claim.id
        ))),
    }
}

/// Decides the claims of scenario files.
fn run_scenarios(args: &Args) -> Result<(), Failure> {
    if let Some(id) = args.ids.iter().find(|id| !is_scenario(id)) {
        return Err(Failure::Usage(format!(
            "`{}` cannot be combined with scenario files",
            id.escape_debug()
        )));
    }
    let bench = args.running.bench();
    let (mut text, mut fail, mut all) = (String::new(), 0, 0);
    for id in &args.ids {
        let scenario = load(id)?;
        if scenario.expects.is_empty() {
            return Err(Failure::Usage(format!(
                "{id} states no claims: add some, as in expect = [\"braid < 0.5 * tcp at loss >= 0.03\"]"
            )));
        }
        let mut progress = Progress::new();
        let variety = Variety { quick: args.running.quick, shard: None };
        if args.running.fresh || !bench.store.path(scenario.figure, variety, "csv").exists() {
            announce(&bench, &scenario, &progress)?;
        }
        let made = bench.take(scenario.figure, &mut progress)?;
        drop(progress);
        let Made::Sweep(table) = made else { continue };
        if !args.json {
            text.push_str(&unended(&scenario, &table));
        }
        for (number, expectation) in scenario.expects.iter().enumerate() {
            let finding = expectation.decide(&table);
            all += 1;
            fail += usize::from(finding.verdict != Verdict::Holds);
            let name = format!("{}-{}", scenario.figure.id, number + 1);
            text.push_str(&match args.json {
                true => json_line(&name, &expectation.text, &[scenario.figure.id], &finding),
                false => as_text(&name, &expectation.text, &readable(finding)),
            });
        }
    }
    print(&text)?;
    match fail {
        0 => Ok(()),
        _ => Err(Failure::Usage(format!("{fail} of {all} claims do not hold"))),
    }
}

fn run_golden(args: &Args) -> Result<(), Failure> {
    if args.ids.len() > 1 {
        return Err(Failure::Usage("`golden` cannot be combined with other ids".to_owned()));
    }
    let text = match &args.scenarios {
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            Failure::File(format!("cannot read the scenarios in {}: {error}", path.display()))
        })?,
        None => golden::scenarios(),
    };
    let trace = if args.trace { golden::Trace::Yes } else { golden::Trace::No };
    let report = golden::check(&text, &args.only, trace).map_err(Failure::Usage)?;
    print(&report.text)?;
    match report.differ {
        0 => Ok(()),
        differ => Err(Failure::Usage(format!("{differ} golden scenarios differ unexpectedly"))),
    }
}

fn json(claim: &Claim, finding: &Finding) -> String {
    json_line(claim.id, claim.says, claim.needs, finding)
}

fn json_line(id: &str, says: &str, from: &[&str], finding: &Finding) -> String {
    let figure = finding.figure.as_ref().map(|measured| Number {
        what: &measured.what,
        unit: measured.unit,
        mean: measured.value.mean,
        low: measured.value.low,
        high: measured.value.high,
        runs: measured.value.runs,
    });
    let line = Line { id, says, verdict: finding.verdict.to_string(), figure, why: &finding.why, from };
    serde_json::to_string(&line).expect("a claim is texts and numbers") + "\n"
}

/// A claim as text.
pub(super) fn block(claim: &Claim, finding: &Finding) -> String {
    as_text(claim.id, claim.says, finding)
}

/// A finding of a scenario with its number in the unit in which it is best read.
fn readable(mut finding: Finding) -> Finding {
    if let Some(measured) = &mut finding.figure {
        let (unit, size) = scenario::readable(measured.unit, measured.value.mean);
        measured.unit = unit;
        let Estimate { mean, low, high, .. } = &mut measured.value;
        [mean, low, high].into_iter().for_each(|number| *number /= size);
    }
    finding
}

fn as_text(id: &str, says: &str, finding: &Finding) -> String {
    let mut text = format!("{id:<8} {:<20}", finding.verdict.to_string());
    if let Some(measured) = &finding.figure {
        let runs = match measured.value.runs {
            0 => String::new(),
            runs => format!(", {}", stats::count(runs, "run")),
        };
        let unit = if measured.unit.is_empty() { String::new() } else { format!(" {}", measured.unit) };
        let _ = write!(text, " {}{unit}{runs} ({})", measured.value, measured.what);
    }
    text.push('\n');
    for (name, says) in [("says", says), ("here", finding.why.as_str())] {
        for (index, line) in plot::wrapped(says, 98.0, 1.0 / 0.53).iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let _ = writeln!(text, "         {name:<5}{line}");
        }
    }
    text
}

fn totals(findings: &[(&Claim, Finding)]) -> String {
    let count =
        |is: fn(&Verdict) -> bool| findings.iter().filter(|(_, finding)| is(&finding.verdict)).count();
    let said = |count: usize, [one, several]: [&str; 2]| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {several}") }
    };
    format!(
        "\n{}: {}, {}, {}, {}\n",
        stats::count(findings.len(), "claim"),
        said(count(|verdict| *verdict == Verdict::Holds), ["holds", "hold"]),
        said(count(|verdict| *verdict == Verdict::DoesNotHold), ["does not hold", "do not hold"]),
        said(
            count(|verdict| matches!(verdict, Verdict::Contradicts(_))),
            ["contradicts another of its paper", "contradict another of their paper"]
        ),
        said(
            count(|verdict| *verdict == Verdict::NotAMeasurement),
            ["is no measurement", "are no measurement"]
        ),
    )
}
