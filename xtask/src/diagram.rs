//! `cargo xtask diagram`: draws `docs/crates.svg`, which crate may import which, from the rules that `tidy`
//! checks.
//!
//! An arrow points from a crate to one that it may import. An arrow is left out if the import is also
//! permitted to another imported crate; each box lists all imports. Rows follow from the rules; `COLUMNS` has
//! the horizontal positions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

use crate::rules::{IMPORTS, is_pure};

/// The file of the picture.
pub(crate) const PICTURE: &str = "docs/crates.svg";

/// Each crate of the picture: the centre of its box, in columns, and its description.
const COLUMNS: &[(&str, f64, &str)] = &[
    ("base", 1.35, "time, rate, datagram"),
    ("cc", 0.5, "congestion control"),
    ("pcap", 2.2, "pcapng writer"),
    ("ftp", 3.25, "FTP sessions"),
    ("sctp", 1.0, "SCTP (RFC 9260)"),
    ("tcp", 0.0, "TCP, simulated alone"),
    ("qlog", 1.95, "qlog writer"),
    ("sim", 1.2, "links, hosts, worlds"),
    ("keys", 0.3, "TLS for the DTLS chunk"),
    ("pkt", 1.3, "packet scripts"),
    ("net", 0.3, "SCTP on tokio"),
    ("emu", 2.3, "links by the wall clock"),
    ("braidftp", 2.9, "client, server, files"),
    ("lab", 1.2, "figures and claims"),
    ("capi", 0.2, "SCTP for C programs"),
    ("python", 2.05, "lab and client for Python"),
];

const BOX_WIDTH: f64 = 206.0;
const BOX_HEIGHT: f64 = 62.0;
const COLUMN: f64 = 236.0;
/// The left edge of the labels beside the border, in columns.
const LABEL_COLUMN: f64 = 2.35;
const ROW: f64 = 108.0;
const MARGIN: f64 = 24.0;

/// Draws the picture and writes it.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("diagram takes no arguments, and got `{arg}`");
    }
    std::fs::write(PICTURE, draw()?).with_context(|| format!("cannot write {PICTURE}"))
}

/// Whether the picture agrees with the rules.
pub(crate) fn is_fresh() -> Result<bool> {
    let kept = std::fs::read_to_string(PICTURE).unwrap_or_default();
    Ok(kept == draw()?)
}

/// A crate of the picture.
struct Node {
    name: &'static str,
    says: &'static str,
    imports: &'static [&'static str],
    /// Counted from the bottom.
    row: usize,
    x: f64,
}

fn nodes() -> Result<Vec<Node>> {
    let rules: BTreeMap<&str, &'static [&'static str]> =
        IMPORTS.iter().copied().filter(|(name, _)| *name != "xtask").collect();
    if let Some(name) = rules.keys().find(|name| !COLUMNS.iter().any(|(other, ..)| other == *name)) {
        bail!("crate {name} has no place in the picture: give it one in COLUMNS (xtask/src/diagram.rs)");
    }
    let pure_rows =
        1 + rules.keys().filter(|name| is_pure(name)).map(|name| row(name, &rules, 0)).max().unwrap_or(0);
    let node = |&(name, column, says): &(&'static str, f64, &'static str)| {
        let imports = rules.get(name).with_context(|| format!("there is no rule for crate {name}"))?;
        let x = MARGIN + BOX_WIDTH / 2.0 + column * COLUMN;
        Ok(Node { name, says, imports, row: row(name, &rules, pure_rows), x })
    };
    COLUMNS.iter().map(node).collect()
}

/// The row of a crate: above all crates that it may import; crates with sockets or files are above all
/// others. Imports of such crates by a pure crate do not count.
fn row(name: &str, rules: &BTreeMap<&str, &'static [&'static str]>, pure_rows: usize) -> usize {
    let below = rules.get(name).copied().unwrap_or_default().iter();
    let below = below.filter(|to| is_pure(to) || !is_pure(name));
    let above = below.map(|to| row(to, rules, pure_rows) + 1);
    above.max().unwrap_or(0).max(if is_pure(name) { 0 } else { pure_rows })
}

/// The imports that are drawn as arrows.
fn arrows<'a>(node: &Node, nodes: &'a [Node]) -> Vec<&'a Node> {
    let by_another =
        |to: &str| nodes.iter().any(|via| node.imports.contains(&via.name) && via.imports.contains(&to));
    nodes.iter().filter(|to| node.imports.contains(&to.name) && !by_another(to.name)).collect()
}

fn draw() -> Result<String> {
    let nodes = nodes()?;
    let rows = 1 + nodes.iter().map(|node| node.row).max().unwrap_or(0);
    let real_from =
        nodes.iter().filter(|node| !is_pure(node.name)).map(|node| node.row).min().unwrap_or(rows);
    let y = |row: usize| MARGIN + BOX_HEIGHT / 2.0 + (rows - 1 - row) as f64 * ROW;
    let right = nodes.iter().map(|node| node.x).fold(0.0, f64::max);
    let (width, height) = (right + BOX_WIDTH / 2.0 + MARGIN, y(0) + BOX_HEIGHT / 2.0 + MARGIN);
    let mut svg = String::new();
    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" role="img" aria-label="Which crate may import which">
<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 10 5 0 10z" fill="#555"/></marker></defs>
<rect width="{width}" height="{height}" fill="#fff"/>"##
    )?;
    let border = (y(real_from) + y(real_from - 1)) / 2.0;
    for (label, at) in [
        ("real: tokio, sockets, files", border - 8.0),
        ("pure: no clock, socket, thread or file", border + 18.0),
    ] {
        writeln!(
            svg,
            r##"<text x="{}" y="{at}" font-size="13" fill="#777">{label}</text>"##,
            MARGIN + LABEL_COLUMN * COLUMN
        )?;
    }
    writeln!(
        svg,
        r##"<path d="M{MARGIN} {border}H{}" stroke="#bbb" stroke-dasharray="5 5" fill="none"/>"##,
        width - MARGIN
    )?;
    for from in &nodes {
        for to in arrows(from, &nodes) {
            // A pure crate is below those that import it.
            let side = if from.row < to.row { -BOX_HEIGHT / 2.0 } else { BOX_HEIGHT / 2.0 };
            let (top, bottom) = (y(from.row) + side, y(to.row) - side);
            let middle = (top + bottom) / 2.0;
            writeln!(
                svg,
                r##"<path d="M{} {top}C{} {middle} {} {middle} {} {bottom}" stroke="#555" fill="none" marker-end="url(#tip)"/>"##,
                from.x, from.x, to.x, to.x
            )?;
        }
    }
    for node in &nodes {
        let (fill, stroke) = if is_pure(node.name) { ("#e8f1fa", "#3b75af") } else { ("#fdf0e1", "#c77a1e") };
        let imports = if node.imports.is_empty() {
            "→ nothing".to_owned()
        } else {
            format!("→ {}", node.imports.join(" "))
        };
        let y = y(node.row);
        writeln!(
            svg,
            r##"<rect x="{}" y="{}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="{fill}" stroke="{stroke}"/>"##,
            node.x - BOX_WIDTH / 2.0,
            y - BOX_HEIGHT / 2.0
        )?;
        for (text, dy, style) in [
            (node.name, -12.0, r##"font-size="15" font-weight="bold""##),
            (node.says, 5.0, r##"font-size="12""##),
            (&*imports, 21.0, r##"font-size="10" fill="#555""##),
        ] {
            writeln!(
                svg,
                r##"<text x="{}" y="{}" text-anchor="middle" {style}>{text}</text>"##,
                node.x,
                y + dy
            )?;
        }
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_is_drawn_above_its_imports() {
        let nodes = nodes().unwrap();
        for node in &nodes {
            let lifts = |to: &&Node| is_pure(to.name) || !is_pure(node.name);
            for to in nodes.iter().filter(|to| node.imports.contains(&to.name)).filter(lifts) {
                assert!(to.row < node.row, "{} imports {}", node.name, to.name);
            }
        }
    }

    #[test]
    fn an_import_without_an_arrow_is_reached_by_two() {
        let nodes = nodes().unwrap();
        for node in &nodes {
            let direct: Vec<&str> = arrows(node, &nodes).iter().map(|to| to.name).collect();
            for to in node.imports.iter().filter(|to| !direct.contains(to)) {
                let via = nodes.iter().filter(|via| node.imports.contains(&via.name));
                assert!(via.into_iter().any(|via| via.imports.contains(to)), "{} to {to}", node.name);
            }
        }
    }
}
