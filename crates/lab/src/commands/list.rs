//! `braidlab list`: lists figures and papers.

use std::fmt::Write;

use braidftp_lab::papers;
use clap::Args as ClapArgs;

use super::print;
use crate::Failure;

/// List the figures that can be run, and their papers
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    let mut text = String::new();
    for paper in papers::ALL {
        let _ = writeln!(text, "{} ({}) {}\n", paper.key, paper.name, paper.citation);
        for figure in (paper.figures)() {
            let points = figure.sweep().map(|sweep| format!("{} points", sweep.points().len()));
            let points = points.unwrap_or_else(|| "one run".into());
            let _ = writeln!(text, "  {:<28} {:>10}  {}", figure.id, points, figure.shows);
        }
        let _ = writeln!(text, "  {} claims: braidlab check {}\n", paper.claims().count(), paper.key);
    }
    text.push_str(
        "Run figures or whole papers: braidlab run multistream/fig6; braidlab run fcs multistream\n",
    );
    print(&text)
}
