//! `braidlab run`: runs figures and stores their data and pictures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use braidftp_emu::tun::enter_user_namespace;
use braidftp_lab::bench::{Bench, Made, Options};
use braidftp_lab::claim::{Claim, Paper};
use braidftp_lab::compare::live::Scratch;
use braidftp_lab::compare::programs;
use braidftp_lab::data::Data;
use braidftp_lab::figure::{Figure, Kind};
use braidftp_lab::papers::live;
use braidftp_lab::scenario::Scenario;
use braidftp_lab::scenario::live::{Late, Tools};
use braidftp_lab::scenario::worlds::{CLOSE, Compared, Worlds, compare};
use braidftp_lab::store::Variety;
use braidftp_lab::sweep::Shard;
use braidftp_lab::table::Table;
use braidftp_lab::times::{Stopwatch, Times};
use braidftp_lab::{papers, stats, text};
use clap::Args as ClapArgs;

use super::compare::end_on_signal;
use super::{
    Chosen, JUDGED_AT_ONCE, Progress, Running, announce, announce_worlds, check, chosen, is_scenario, load,
    print, refused, unended,
};
use crate::Failure;

/// Run figures and store their data (CSV, Parquet) and pictures (SVG, PNG) in a folder.
///
/// A point is run until the 90 % confidence interval of its mean is within 5 %, or up to a maximum, which
/// is reported. An interrupted sweep is continued. The same seed gives the same numbers, whatever the
/// number of threads.
///
/// The drawn data is also printed as a table; for `utilisation`, `fairness`, `multipath` and `early` with
/// the verdicts of their claims.
///
/// A scenario file describes an experiment of your own: `braidlab new` writes one, docs/scenarios.md explains them. With
/// --live it is also run with real programs between network namespaces, over the simulator's links in real time, and both
/// are compared.
///
/// Example: braidlab run multistream/fig6 --quick; braidlab run fcs multistream; braidlab run my.toml --live
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Figures, as in multistream/fig6, papers for all their figures (see `braidlab list`), all for those of all papers,
    /// or scenario files, as in my.toml
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Run only shard I of N, to distribute a sweep over machines; `braidlab merge` combines the parts
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Run scenario files in both worlds, simulated and live, as NAME-live.csv with a column `world` (root, Linux)
    #[arg(long, conflicts_with = "shard")]
    live: bool,
    /// With --live: the program braidftp [default: the one beside this program, or on the PATH]
    #[arg(long, value_name = "FILE", requires = "live")]
    braidftp: Option<PathBuf>,
    /// Record in this file how long each figure took, for estimates
    #[arg(long, value_name = "FILE", conflicts_with_all = ["live", "shard"])]
    times: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.live {
        return run_live(args);
    }
    let chosen = chosen(&args.ids)?;
    let bench = args.running.bench();
    let bench = Bench { options: Options { shard: args.shard, ..bench.options.clone() }, ..bench };
    let mut progress = Progress::new();
    estimate(args, &bench, &chosen, &progress)?;
    let mut data = Data::default();
    for figure in chosen.figures.iter().copied() {
        let is_named = args.ids.iter().any(|id| id == figure.id);
        if matches!(figure.kind, Kind::Live(_)) && args.running.quick && !is_named {
            print(&format!(
                "{}: LEFT OUT: live runs take minutes; `braidlab run {0} --quick` runs a few\n",
                figure.id
            ))?;
            continue;
        }
        let is_whole = args.times.is_some() && !bench.is_begun(figure);
        let stopwatch = Stopwatch::default();
        let began = Instant::now();
        let made = bench.make(figure, &mut progress)?;
        let runs = match &made {
            Made::Sweep(table) => table.records().len(),
            Made::Scene(_) => 1,
            Made::LeftOut(why) => {
                print(&format!("{}: LEFT OUT: {why}\n", figure.id))?;
                continue;
            }
        };
        if let Some(file) = args.times.as_ref().filter(|_| is_whole) {
            record(file, &bench, figure, runs as u64, &stopwatch)?;
        }
        let variety = Variety { quick: args.running.quick, shard: args.shard };
        let path = bench.store.path(figure, variety, "csv");
        print(&format!(
            "{}: {} in {:.1} s: {}\n",
            figure.id,
            stats::count(runs, "run"),
            began.elapsed().as_secs_f64(),
            path.display()
        ))?;
        match made {
            Made::Sweep(table) => {
                print(&text::table(&table))?;
                if let Some(scenario) = chosen.scenario(figure) {
                    print(&others(&table))?;
                    print(&unended(scenario, &table))?;
                }
                data.add_table(figure, table);
            }
            Made::Scene(rows) => data.add_scene(figure, rows),
            Made::LeftOut(_) => {}
        }
    }
    drop(progress);
    let is_judged = |paper: &&&Paper| JUDGED_AT_ONCE.contains(&paper.name) && args.shard.is_none();
    let is_known = |claim: &&Claim| claim.needs.iter().all(|needed| data.has(needed));
    for claim in papers::ALL.iter().filter(is_judged).flat_map(|paper| paper.claims()).filter(is_known) {
        print(&check::block(claim, &(claim.check)(&data)))?;
    }
    Ok(())
}

/// How many columns are named that a table does not show.
const NAMED: usize = 6;

/// Names the columns of a scenario that its picture and its table do not show.
fn others(table: &Table) -> String {
    let sweep = table.sweep();
    let names = sweep.columns.iter().map(|column| column.name).filter(|name| *name != sweep.plot.y);
    let names: Vec<&str> = names.collect();
    let what = match names.len() {
        0 => return String::new(),
        1..=NAMED => names.join(", "),
        many => format!("{many} other columns"),
    };
    format!("  the file has also {what}; `y` of [plot] draws and prints another column\n")
}

/// Says how long the figures take that are not stored: those of papers by recorded times, scenarios by their packets.
fn estimate(args: &Args, bench: &Bench, chosen: &Chosen, progress: &Progress) -> Result<(), Failure> {
    let of_papers: Vec<&'static Figure> =
        chosen.figures.iter().copied().filter(|figure| chosen.scenario(figure).is_none()).collect();
    if of_papers.len() > 1 && args.shard.is_none() {
        progress.say(&Times::recorded().estimate(bench, &of_papers).to_string());
    }
    let mut scenarios = chosen.scenarios.iter().filter(|scenario| !bench.is_stored(scenario.figure));
    scenarios.try_for_each(|scenario| announce(bench, scenario, progress))
}

/// Records how long a figure took.
fn record(
    file: &Path,
    bench: &Bench,
    figure: &Figure,
    runs: u64,
    stopwatch: &Stopwatch,
) -> Result<(), Failure> {
    let mut times = Times::load(file).map_err(Failure::File)?;
    times.add(bench, figure, runs, stopwatch);
    times.store(file).map_err(Failure::File)
}

/// Runs scenario files in both worlds.
fn run_live(args: &Args) -> Result<(), Failure> {
    if let Some(id) = args.ids.iter().find(|id| !is_scenario(id)) {
        return Err(Failure::Usage(format!(
            "--live runs scenario files, as in my.toml, and `{}` is none",
            id.escape_debug()
        )));
    }
    let scenarios = args.ids.iter().map(|id| load(id)).collect::<Result<Vec<_>, _>>()?;
    // Must happen before a second thread exists.
    let namespace = enter_user_namespace();
    let failed =
        |error: std::io::Error| Failure::File(format!("cannot make a folder for live runs: {error}"));
    let scratch = Arc::new(Scratch::new().map_err(failed)?);
    let braidftp = programs::braidftp(args.braidftp.as_deref());
    let tools = Tools {
        braidftp: braidftp.clone().unwrap_or_default(),
        scratch: Arc::downgrade(&scratch),
        late: Late::default(),
    };
    let both = |scenario: &Scenario| scenario.in_both_worlds(&tools).map_err(refused);
    let all = scenarios.iter().map(both).collect::<Result<Vec<Worlds>, _>>()?;
    for worlds in &all {
        is_possible(worlds, &braidftp).map_err(Failure::Usage)?;
    }
    namespace.map_err(|error| Failure::Usage(error.to_string()))?;
    end_on_signal(scratch.folder().to_owned())?;
    let bench = args.running.bench();
    for (scenario, worlds) in scenarios.iter().zip(all) {
        make_live(&bench, scenario, &worlds, args.running.quick)?;
        if let Some(said) = tools.late.said() {
            print(&said)?;
        }
    }
    Ok(())
}

/// Whether live runs are possible here; if not, what is missing.
fn is_possible(worlds: &Worlds, braidftp: &Result<PathBuf, String>) -> Result<(), String> {
    if worlds.needs_braidftp {
        braidftp.as_ref().map_err(String::clone)?;
    }
    if let Some(missing) = worlds.programs.iter().find(|program| programs::find(program).is_none()) {
        return Err(format!(
            "the program `{missing}` of a transport is not installed, or not on the PATH: install it, or name its file"
        ));
    }
    live::possible(&worlds.controllers, live::Beside::Nothing).map_err(|why| {
        format!("live runs are not possible here: {why}; without --live the scenario is only simulated")
    })
}

/// Makes the figure of both worlds and prints its means and where its medians differ.
fn make_live(bench: &Bench, scenario: &Scenario, worlds: &Worlds, quick: bool) -> Result<(), Failure> {
    for note in &worlds.notes {
        print(&format!("{}: {note}\n", worlds.figure.id))?;
    }
    let mut progress = Progress::new();
    if !bench.is_stored(worlds.figure) {
        announce_worlds(bench, scenario, worlds, &progress)?;
    }
    let began = Instant::now();
    let table = bench.make_worlds(worlds.figure, &mut progress)?;
    drop(progress);
    let path = bench.store.path(worlds.figure, Variety { quick, shard: None }, "csv");
    print(&format!(
        "{}: {} in {:.1} s: {}\n{}",
        worlds.figure.id,
        stats::count(table.records().len(), "run"),
        began.elapsed().as_secs_f64(),
        path.display(),
        text::table(&table)
    ))?;
    print(&unended(scenario, &table))?;
    print(&differences(&compare(&table)))
}

/// Where the medians of both worlds differ.
fn differences(compared: &[Compared]) -> String {
    let apart: Vec<&Compared> = compared.iter().filter(|it| !it.is_close()).collect();
    let mut text: String = apart.iter().map(|it| format!("differs: {it}\n")).collect();
    let (close, most) = (compared.len() - apart.len(), CLOSE * 100.0);
    text.push_str(&format!(
        "{close} of {} medians of simulated and live runs are within {most} % of each other\n",
        compared.len()
    ));
    text
}
