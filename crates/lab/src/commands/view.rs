//! `braidlab view`: a page that draws a qlog file.

use std::path::PathBuf;

use braidftp_lab::report::{VIEW_BYTES_MAX, viewer};
use clap::Args as ClapArgs;

use super::print;
use super::report::keep;
use crate::Failure;

/// Write a self-contained page that draws a qlog file: time-sequence diagram, windows, round trips, losses, blocking.
///
/// Without a file the page is empty; a browser draws the files that are dropped on it.
///
/// Example: braidlab replay --path lan --loss 0.1 --qlog run.qlog; braidlab view run.qlog -o page.html
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A file of `braidlab qlog`, `braidlab replay --qlog` or `braidftp --qlog`
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The page
    #[arg(short, long, value_name = "FILE", default_value = "qlog.html")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let qlog = match &args.file {
        None => None,
        Some(file) => {
            let failed = |what: String| Failure::File(format!("cannot read {}: {what}", file.display()));
            let length = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
            if length > VIEW_BYTES_MAX {
                return Err(failed(format!(
                    "it is longer than {} MiB; an empty page of `braidlab view` draws it when it is dropped there",
                    VIEW_BYTES_MAX >> 20
                )));
            }
            Some(std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?)
        }
    };
    let html = viewer(qlog.as_deref()).map_err(Failure::Usage)?;
    keep(&args.output, &html)?;
    print(&format!("{}: {} kB\n", args.output.display(), html.len().div_ceil(1_000)))
}
