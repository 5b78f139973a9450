//! The papers: a folder for each paper, a file for each figure.

pub mod adalr;
pub mod bottleneck;
pub mod cmt;
pub mod early;
pub mod fairness;
pub mod fast;
pub mod fcs;
pub mod ftp;
pub mod judge;
pub mod live;
pub mod multipath;
pub mod multistream;
pub mod paths;
pub mod sensitivity;
pub mod utilisation;

use std::fmt;

use crate::claim::{Claim, Paper};
use crate::figure::Figure;
use crate::scenario::{self, Scenario};

/// All papers.
pub static ALL: &[&Paper] = &[
    &fcs::PAPER,
    &multistream::PAPER,
    &adalr::PAPER,
    &fast::PAPER,
    &cmt::PAPER,
    &utilisation::PAPER,
    &fairness::PAPER,
    &multipath::PAPER,
    &early::PAPER,
];

/// An unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    what: &'static str,
    name: String,
    known: Vec<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, known } = self;
        write!(f, "no {what} `{}`; there are {}", name.escape_debug(), known.join(", "))
    }
}

impl std::error::Error for Unknown {}

/// All figures, by paper.
pub fn figures() -> impl Iterator<Item = &'static Figure> {
    ALL.iter().flat_map(|paper| (paper.figures)())
}

/// All claims, by paper.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    ALL.iter().flat_map(|paper| paper.claims())
}

/// The value that a paper's text prints for a claim, if it prints one.
pub fn printed(claim: &str) -> Option<&'static str> {
    let all = ALL.iter().flat_map(|paper| paper.printed);
    all.into_iter().find(|(id, _)| *id == claim).map(|(_, value)| *value)
}

/// The figure with this id.
pub fn figure(id: &str) -> Option<&'static Figure> {
    figures().find(|figure| figure.id == id)
}

/// The scenario that describes a figure, if one does.
///
/// # Panics
///
/// If a scenario of the program is invalid.
pub fn scenario(id: &str) -> Option<Scenario> {
    let text = match id {
        "fcs/fig2a" => include_str!("fcs/fig2a.toml"),
        "fcs/fig2b" => include_str!("fcs/fig2b.toml"),
        "fcs/fig3a" => include_str!("fcs/fig3a.toml"),
        "fcs/fig3b" => include_str!("fcs/fig3b.toml"),
        "multistream/fig6" => include_str!("multistream/fig6.toml"),
        "multistream/fig7" => include_str!("multistream/fig7.toml"),
        "multistream/fig8" => include_str!("multistream/fig8.toml"),
        _ => return None,
    };
    Some(scenario::parse(id, text).unwrap_or_else(|error| panic!("{error}")))
}

/// The figures that scenarios describe.
pub const SCENARIOS: [&str; 7] = [
    "fcs/fig2a",
    "fcs/fig2b",
    "fcs/fig3a",
    "fcs/fig3b",
    "multistream/fig6",
    "multistream/fig7",
    "multistream/fig8",
];

fn is_called(paper: &Paper, name: &str) -> bool {
    paper.name == name || paper.key.eq_ignore_ascii_case(name)
}

/// Returns the named papers in their own order; no names: all.
pub fn find_papers(names: &[String]) -> Result<Vec<&'static Paper>, Unknown> {
    let papers = || ALL.iter().copied();
    if let Some(name) = names.iter().find(|name| !papers().any(|paper| is_called(paper, name))) {
        let known = papers().map(|paper| format!("{} ({})", paper.key, paper.name)).collect();
        return Err(Unknown { what: "paper", name: name.clone(), known });
    }
    let is_asked = |paper: &&Paper| names.is_empty() || names.iter().any(|name| is_called(paper, name));
    Ok(papers().filter(is_asked).collect())
}

/// The name of all figures.
pub const EVERY: &str = "all";

/// Returns the named figures: ids, papers for all their figures, and [`EVERY`]. Each once, in the order of the names.
pub fn find_figures(names: &[String]) -> Result<Vec<&'static Figure>, Unknown> {
    let mut found: Vec<&'static Figure> = Vec::new();
    for name in names {
        let its: Vec<_> = ALL
            .iter()
            .flat_map(|paper| {
                (paper.figures)()
                    .iter()
                    .filter(|figure| is_called(paper, name) || figure.id == name.as_str() || name == EVERY)
            })
            .collect();
        if its.is_empty() {
            let papers = ALL.iter().map(|paper| paper.name.to_owned());
            let known = papers.chain(figures().map(|figure| figure.id.to_owned())).collect();
            return Err(Unknown { what: "figure or paper", name: name.clone(), known });
        }
        let new: Vec<_> =
            its.into_iter().filter(|figure| !found.iter().any(|its| its.id == figure.id)).collect();
        found.extend(new);
    }
    Ok(found)
}

/// Returns the named claims: ids, papers, and figures for the claims that they decide, in the order of ids.
/// No names: all.
pub fn find_claims(names: &[String]) -> Result<Vec<&'static Claim>, Unknown> {
    let mut found: Vec<&'static Claim> = if names.is_empty() { claims().collect() } else { Vec::new() };
    for name in names {
        let is_asked = |paper: &Paper, claim: &Claim| {
            is_called(paper, name)
                || claim.id.eq_ignore_ascii_case(name)
                || claim.needs.contains(&name.as_str())
        };
        let its: Vec<_> =
            ALL.iter().flat_map(|paper| paper.claims().filter(|claim| is_asked(paper, claim))).collect();
        if its.is_empty() && figure(name).is_none() {
            let keys = ALL.iter().map(|paper| {
                let ids: Vec<_> = paper.claims().map(|claim| claim.id).collect();
                let range = ids.first().zip(ids.last()).map(|(first, last)| format!(" ({first} to {last})"));
                format!("{}{}", paper.key, range.unwrap_or_default())
            });
            let known = keys.chain(figures().map(|figure| figure.id.to_owned())).collect();
            return Err(Unknown { what: "claim, paper or figure", name: name.clone(), known });
        }
        let new: Vec<_> =
            its.into_iter().filter(|claim| !found.iter().any(|its| its.id == claim.id)).collect();
        found.extend(new);
    }
    found.sort_by_key(|claim| claim.id);
    Ok(found)
}

/// The figures that claims need, each once, in the order of the papers.
pub fn needed(claims: &[&'static Claim]) -> Vec<&'static Figure> {
    figures().filter(|figure| claims.iter().any(|claim| claim.needs.contains(&figure.id))).collect()
}
