//! `braidlab new`: prints a commented scenario as a starting point.

use braidftp_lab::scenario::templates;
use clap::Args as ClapArgs;

use super::print;
use crate::Failure;

/// Print a commented scenario as a starting point
///
/// Example: braidlab new two-paths > my.toml; braidlab run my.toml; braidlab check my.toml
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The template; --list prints all
    #[arg(value_name = "KIND", default_value = "one-path", value_parser = clap::builder::PossibleValuesParser::new(templates::names()))]
    kind: String,
    /// List the templates
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        let line = |name| format!("{name:<16} {}\n", templates::says(name).unwrap_or_default());
        return print(&templates::names().map(line).collect::<String>());
    }
    print(templates::text(&args.kind).unwrap_or_default())
}
