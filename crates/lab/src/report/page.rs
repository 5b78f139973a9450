//! The page around figures and claims: head, table of contents, summary of each paper.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::claim::{self, KINDS};
use super::figure;
use super::html::{command, count, text};
use super::kept::{Judged, PaperPart, Report};
use crate::plot::COLOURS;
use crate::store::csv::{COMMIT, COMPILER, VERSION};

const STYLE: &str = include_str!("page.css");
const CHART: &str = include_str!("chart.js");
const SCRIPT: &str = include_str!("page.js");
const HEAD: &str = include_str!("head.js");

/// The complete page.
pub fn page(report: &Report) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>braidlab report: FTP over SCTP, claim by claim</title>\n\
         <script>\n{HEAD}</script>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n",
        dark_scenes()
    );
    html.push_str("<a class=\"skip\" href=\"#summary\">To the summary</a>\n");
    html.push_str(&contents(report));
    html.push_str("<main>\n");
    html.push_str(&summary(report));
    for part in &report.papers {
        html.push_str(&paper(part, report));
    }
    html.push_str(
        "<p class=\"end\">Made by <code>braidlab report</code> from what is kept of the figures, and from nothing else.</p>\n\
         </main>\n<div id=\"tip\" hidden=\"hidden\"></div>\n<div id=\"said\" class=\"unseen\" aria-live=\"polite\"></div>\n",
    );
    let _ = write!(html, "<script>\n'use strict';\n{CHART}{SCRIPT}</script>\n</body>\n</html>\n");
    html
}

/// The colours of pictures on a dark page.
fn dark_scenes() -> String {
    let mut css = String::from("@media screen {\n");
    for (white, black) in COLOURS {
        for paint in ["fill", "stroke"] {
            let _ = writeln!(
                css,
                ":root[data-theme=\"dark\"] svg.scene [{paint}=\"{white}\"] {{ {paint}: {black}; }}"
            );
        }
    }
    css.push_str("}\n");
    css
}

fn contents(report: &Report) -> String {
    let mut html = String::from(
        "<nav id=\"contents\" aria-label=\"Contents\">\n<details open=\"open\"><summary>Contents</summary>\n<ul>\n<li><a href=\"#summary\">Summary</a></li>\n",
    );
    for part in &report.papers {
        let paper = part.paper;
        let _ = writeln!(
            html,
            "<li><a href=\"#{0}\">{1}: {2}</a>\n<ul>",
            text(paper.name),
            text(paper.key),
            text(title(paper.citation))
        );
        for kept in &part.figures {
            let missing = if kept.found.is_ok() { "" } else { " class=\"absent\"" };
            let _ = writeln!(
                html,
                "<li{missing}><a href=\"#{0}\"><span class=\"id\">{1}</span> {2}</a></li>",
                text(kept.figure.id),
                text(kept.figure.id.split_once('/').map_or(kept.figure.id, |(_, name)| name)),
                text(kept.figure.shows)
            );
        }
        let _ = writeln!(
            html,
            "<li><a href=\"#{0}.claims\">{1}</a></li>\n</ul></li>",
            text(paper.name),
            count(part.claims.len(), "claim")
        );
    }
    html.push_str("</ul>\n</details>\n</nav>\n");
    html
}

/// The title of a cited work: the part after the authors.
fn title(citation: &str) -> &str {
    citation.split_once(": ").map_or(citation, |(_, title)| title)
}

fn summary(report: &Report) -> String {
    let mut html = String::from(
        "<header id=\"summary\">\n<p class=\"kicker\">braidlab report</p>\n<h1>FTP over SCTP, claim by claim</h1>\n\
         <p class=\"lead\">What the papers say, and what comes of it here. Every number is from the protocol code that moves real files, \
         run over simulated links; every interval is one of 90 %. A claim that does not hold is a result, and says why.</p>\n\
         <div class=\"tools\"><button type=\"button\" id=\"theme\" aria-label=\"Light or dark\">Light or dark</button></div>\n\
         <noscript><p class=\"notice\">Pictures are drawn by the page's own script. Without it there are the numbers, the claims and the verdicts; \
         the pictures are also beside the results, as SVG and PNG.</p></noscript>\n",
    );
    let all: Vec<&Judged> = report.papers.iter().flat_map(|part| &part.claims).collect();
    html.push_str("<div class=\"totals\">\n");
    for (index, kind) in KINDS.iter().enumerate() {
        let found = all.iter().filter(|judged| claim::kind(judged) == index).count();
        if found > 0 {
            let _ = writeln!(
                html,
                "<div class=\"total {}\"><b>{found}</b> <span><span aria-hidden=\"true\">{}</span> {}</span></div>",
                kind.name, kind.mark, kind.says
            );
        }
    }
    html.push_str("</div>\n<div class=\"papers\">\n");
    for part in &report.papers {
        let run = part.figures.iter().filter(|kept| kept.found.is_ok()).count();
        let in_part = is_in_part(part);
        let _ = writeln!(
            html,
            "<a class=\"paper\" href=\"#{}\"><b>{}</b> <span class=\"title\">{}</span> <span class=\"figures\">{run} of {}{}</span>{}</a>",
            text(part.paper.name),
            text(part.paper.key),
            text(title(part.paper.citation)),
            count(part.figures.len(), "figure"),
            if in_part { ", some incomplete" } else { "" },
            bar(&part.claims)
        );
    }
    html.push_str("</div>\n");
    html.push_str(&threats("Every number of this report", THREATS));
    html.push_str(&origin(report));
    html.push_str("</header>\n");
    html
}

/// What threatens the validity of all figures.
const THREATS: &[&str] = &[
    "All numbers come from one simulator and from one set of protocol code. A common error would not show as a difference between \
     figures. Independent are ns-2's packet traces (`braidlab check golden`), and the same transfers between network namespaces with \
     kernel TCP (`sudo braidlab compare`, `braidlab run FILE --live`).",
    "Simulated hosts take no time for their work, and simulated applications read at once.",
    "A mean is run until its 90 % interval is within 5 %, or up to a reported cap. Of a hundred claims several are decided by chance.",
    "Claims are decided by bounds chosen here where a paper says \"about\" or \"significantly\". Each verdict names its bounds.",
];

/// A list of threats to validity, folded; nothing if there are none.
fn threats(of: &str, threats: &[&str]) -> String {
    if threats.is_empty() {
        return String::new();
    }
    let items: String = threats.iter().map(|threat| format!("<li>{}</li>\n", text(threat))).collect();
    format!(
        "<details class=\"made threats\"><summary>Threats to validity</summary>\n<p>{} may differ from the original for these reasons.</p>\n\
         <ul>\n{items}</ul>\n</details>\n",
        text(of)
    )
}

/// The versions that made the results, and the commands that make them again.
fn origin(report: &Report) -> String {
    let found =
        || report.papers.iter().flat_map(|part| &part.figures).filter_map(|kept| kept.found.as_ref().ok());
    let values = |name: &str| -> Vec<String> {
        let values: BTreeSet<&str> = found().filter_map(|found| found.head.get(name)).collect();
        values.into_iter().map(|value| text(value).to_string()).collect()
    };
    let mut versions: Vec<String> = Vec::new();
    for (what, name) in [("commit", COMMIT), ("braidlab", VERSION), ("rustc", COMPILER)] {
        let its = values(name);
        if !its.is_empty() {
            versions.push(format!("{what} {}", its.join(", ")));
        }
    }
    if versions.is_empty() {
        return String::new();
    }
    let commands: String =
        commands(report).iter().map(|line| format!("<li>{}</li>\n", command(line))).collect();
    format!(
        "<p class=\"made\">Results of {}. Seeds and settings are with each figure, under <i>How it was made</i>.</p>\n\
         <details id=\"origin\" class=\"made\"><summary>The commands that made this report</summary>\n<ol>\n{commands}</ol>\n\
         <p>The rows and pictures of the figures are beside this page, in the folder results; \
         the file commands.txt lists these commands.</p>\n</details>\n",
        versions.join(" · ")
    )
}

/// The commands that made the results of a report, each once, in the order of the figures; the last one makes the report.
pub fn commands(report: &Report) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for kept in report.papers.iter().flat_map(|part| &part.figures) {
        let made = kept.found.as_ref().ok().and_then(|found| found.head.get("command"));
        if let Some(made) = made.filter(|made| !made.is_empty() && !commands.iter().any(|its| its == made)) {
            commands.push(made.to_owned());
        }
    }
    let keys = report.papers.iter().map(|part| part.paper.key);
    commands.push(format!("braidlab report {}", keys.collect::<Vec<_>>().join(" ")));
    commands
}

/// Whether some of its figures are incomplete.
fn is_in_part(part: &PaperPart) -> bool {
    part.figures.iter().any(|kept| kept.found.as_ref().is_ok_and(|found| !found.is_whole()))
}

/// The number of claims with each verdict, as a bar.
fn bar(claims: &[Judged]) -> String {
    let counts: Vec<usize> = (0..KINDS.len())
        .map(|index| claims.iter().filter(|judged| claim::kind(judged) == index).count())
        .collect();
    let said: Vec<String> = KINDS
        .iter()
        .zip(&counts)
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{count} {}", kind.says))
        .collect();
    let mut html = format!(
        "<span class=\"tally\" role=\"img\" aria-label=\"{0}\" title=\"{0}\">",
        text(&said.join(", "))
    );
    for (kind, count) in KINDS.iter().zip(&counts).filter(|(_, count)| **count > 0) {
        let _ = write!(html, "<i class=\"{}\" style=\"flex-grow:{count}\">{count}</i>", kind.name);
    }
    html.push_str("</span>");
    html
}

fn paper(part: &PaperPart, report: &Report) -> String {
    let (name, key) = (text(part.paper.name), text(part.paper.key));
    let mut html = format!(
        "<section id=\"{name}\" aria-labelledby=\"{name}.title\">\n<header class=\"paperhead\"><p class=\"kicker\">{key}</p>\n\
         <h2 id=\"{name}.title\">{}</h2>\n<p class=\"authors\">{}</p>\n{}\n<p>{} {}</p></header>\n",
        text(title(part.paper.citation)),
        text(part.paper.citation.split_once(": ").map_or("", |(authors, _)| authors)),
        bar(&part.claims),
        command(&format!("braidlab run {}", part.paper.name)),
        command(&format!("braidlab check {}", part.paper.key)),
    );
    html.push_str(&threats("The reproduction of this paper", part.paper.threats));
    for kept in &part.figures {
        let claims: Vec<&Judged> = report
            .papers
            .iter()
            .flat_map(|part| &part.claims)
            .filter(|judged| judged.claim.needs.contains(&kept.figure.id))
            .collect();
        html.push_str(&figure::section(kept, &claims));
    }
    let _ = writeln!(
        html,
        "<section class=\"claims\" id=\"{name}.claims\" aria-labelledby=\"{name}.claims.title\">\n<h2 id=\"{name}.claims.title\">The claims of {key}</h2>\n\
         <div class=\"filter\" hidden=\"hidden\"></div>"
    );
    for judged in &part.claims {
        html.push_str(&claim::card(judged));
    }
    html.push_str("</section>\n</section>\n");
    html
}
