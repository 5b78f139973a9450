//! `braidlab schema`: the form of scenario files, for editors and for people.

use braidftp_lab::scenario;
use clap::Args as ClapArgs;

use super::print;
use crate::Failure;

/// Print the JSON Schema of scenario files
///
/// An editor that knows it completes and checks keys: put `#:schema scenario.schema.json` at the head of a scenario.
///
/// Example: braidlab schema > scenario.schema.json
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Print the reference as Markdown instead, as in docs/scenarios.md
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    print(&if args.markdown { scenario::schema::reference() } else { scenario::schema::json() })
}
