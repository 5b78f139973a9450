//! `braidlab run`: runs figures and stores their data and pictures.

use std::time::Instant;

use braidftp_lab::bench::{Bench, Made, Options};
use braidftp_lab::claim::{Claim, Paper};
use braidftp_lab::data::Data;
use braidftp_lab::figure::{Figure, Kind};
use braidftp_lab::store::Variety;
use braidftp_lab::sweep::Shard;
use braidftp_lab::{papers, text};
use clap::Args as ClapArgs;

use super::{Progress, Running, check, is_scenario, load, print};
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
/// A scenario file describes an experiment of your own: `braidlab new` writes one, docs/scenarios.md explains them.
///
/// Example: braidlab run multistream/fig6 --quick; braidlab run fcs multistream; braidlab run my.toml
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Figures, as in multistream/fig6, papers for all their figures (see `braidlab list`), or scenario files, as in
    /// my.toml
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Run only shard I of N, to distribute a sweep over machines; `braidlab merge` combines the parts
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut figures = Vec::new();
    for id in &args.ids {
        let found = match is_scenario(id) {
            true => vec![load(id)?.figure],
            false => papers::find_figures(std::slice::from_ref(id))
                .map_err(|unknown| Failure::Usage(unknown.to_string()))?,
        };
        for figure in found {
            if !figures.iter().any(|its: &&Figure| its.id == figure.id) {
                figures.push(figure);
            }
        }
    }
    let bench = args.running.bench();
    let bench = Bench { options: Options { shard: args.shard, ..bench.options.clone() }, ..bench };
    let mut progress = Progress::new();
    let mut data = Data::default();
    for figure in figures {
        let is_named = args.ids.iter().any(|id| id == figure.id);
        if matches!(figure.kind, Kind::Live(_)) && args.running.quick && !is_named {
            print(&format!(
                "{}: LEFT OUT: live runs take minutes; `braidlab run {0} --quick` runs a few\n",
                figure.id
            ))?;
            continue;
        }
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
        let variety = Variety { quick: args.running.quick, shard: args.shard };
        let path = bench.store.path(figure, variety, "csv");
        print(&format!(
            "{}: {runs} runs in {:.1} s: {}\n",
            figure.id,
            began.elapsed().as_secs_f64(),
            path.display()
        ))?;
        match made {
            Made::Sweep(table) => {
                print(&text::table(&table))?;
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

/// Topics without a published paper, whose claims are checked immediately on the cells that were run.
const JUDGED_AT_ONCE: [&str; 4] = ["utilisation", "fairness", "multipath", "early"];
