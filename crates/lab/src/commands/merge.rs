//! `braidlab merge`: combines the parts of sweeps made by several machines.

use braidftp_lab::stats;
use clap::Args as ClapArgs;

use super::{Progress, Running, chosen, print};
use crate::Failure;

/// Combine the parts that `braidlab run --shard` made, as far as they are in the folder of results.
///
/// Example: braidlab merge multistream/fig6; braidlab merge my.toml
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Figures or papers, see `braidlab list`, or scenario files
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let figures = chosen(&args.ids)?.figures;
    let bench = args.running.bench();
    let mut progress = Progress::new();
    let mut merged = 0;
    for figure in figures {
        if let Some(table) = bench.merge(figure, &mut progress)? {
            merged += 1;
            print(&format!("{}: {}\n", figure.id, stats::count(table.records().len(), "run")))?;
        }
    }
    if merged == 0 {
        return Err(Failure::Usage(format!(
            "{} has no parts of these figures: copy there what `braidlab run --shard` made, as FIGURE-I-of-N.csv",
            bench.store.folder().display()
        )));
    }
    Ok(())
}
