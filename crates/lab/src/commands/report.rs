//! `braidlab report`: writes one page with every figure and claim.

use std::path::{Path, PathBuf};

use braidftp_lab::papers;
use braidftp_lab::report::{Kept, Outcome, Report, commands, page, viewer};
use braidftp_lab::store::{Store, Variety};
use clap::Args as ClapArgs;

use super::print;
use crate::Failure;

/// Write one self-contained HTML page with every figure, every claim and its verdict.
///
/// The page shows stored results and runs nothing. For a missing figure it names the command that makes it.
/// The same results give the same page.
///
/// The folder can be archived: beside the page it has the rows and pictures of the figures (results), and the
/// commands that made them (commands.txt). Its page qlog.html draws qlog files that are dropped on it.
///
/// Example: braidlab run fcs multistream; braidlab report -o site; open site/index.html
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Papers, as in P1 or fcs; default: all
    #[arg(value_name = "PAPER")]
    papers: Vec<String>,
    /// The folder for index.html
    #[arg(short, long, value_name = "DIR", default_value = "site")]
    output: PathBuf,
    /// The folder of results, as in `braidlab run --out`
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let papers = papers::find_papers(&args.papers).map_err(|unknown| Failure::Usage(unknown.to_string()))?;
    let report = Report::gather(&papers, &Store::new(&args.results));
    let path = args.output.join("index.html");
    let html = page(&report);
    keep(&path, &html)?;
    keep(&args.output.join("commands.txt"), &(commands(&report).join("\n") + "\n"))?;
    let viewer = viewer(None).map_err(Failure::Usage)?;
    keep(&args.output.join("qlog.html"), &viewer)?;
    for kept in report.papers.iter().flat_map(|part| &part.figures) {
        archive(kept, &Store::new(&args.results), &Store::new(args.output.join("results")))?;
    }
    let figures = || report.papers.iter().flat_map(|part| &part.figures);
    let claims = || report.papers.iter().flat_map(|part| &part.claims);
    let missing = figures().filter(|kept| kept.found.is_err()).count();
    let checked = claims().filter(|judged| matches!(judged.outcome, Outcome::Found(_))).count();
    print(&format!(
        "{}: {} of {} figures, {checked} of {} claims, {} kB\n",
        path.display(),
        figures().count() - missing,
        figures().count(),
        claims().count(),
        html.len().div_ceil(1_000)
    ))?;
    if missing > 0 {
        print(&format!("not run yet: braidlab run {}\n", not_run(&report).join(" ")))?;
    }
    Ok(())
}

/// What was not run, as `braidlab run` takes it: a paper of which nothing was run, else the figures.
fn not_run(report: &Report) -> Vec<&'static str> {
    let mut names = Vec::new();
    for part in &report.papers {
        let missing = part.figures.iter().filter(|kept| kept.found.is_err());
        let missing: Vec<&str> = missing.map(|kept| kept.figure.id).collect();
        match missing.len() == part.figures.len() && missing.len() > 1 {
            true => names.push(part.paper.name),
            false => names.extend(missing),
        }
    }
    names
}

pub(super) fn keep(path: &Path, html: &str) -> Result<(), Failure> {
    let failed = |error| Failure::File(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, html).and_then(|()| std::fs::rename(&temporary, path)).map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        failed(error)
    })
}

/// Copies the stored files of a figure to the folder of the report, unless it is the folder of results itself.
fn archive(kept: &Kept, from: &Store, to: &Store) -> Result<(), Failure> {
    let Ok(found) = &kept.found else { return Ok(()) };
    let variety = Variety { quick: found.quick, shard: None };
    for ending in ["csv", "parquet", "svg", "png"] {
        let [source, target] = [from, to].map(|store| store.path(kept.figure, variety, ending));
        let is_same = || source.canonicalize().ok() == target.canonicalize().ok();
        if !source.exists() || (target.exists() && is_same()) {
            continue;
        }
        let folder = target.parent().map_or(Ok(()), std::fs::create_dir_all);
        folder.and_then(|()| std::fs::copy(&source, &target)).map_err(|error| {
            Failure::File(format!("cannot copy {} to {}: {error}", source.display(), target.display()))
        })?;
    }
    Ok(())
}
