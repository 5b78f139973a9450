//! A claim on the page: the paper's statement, the verdict, our number with its interval, and the
//! explanation.

use std::fmt::Write;

use super::html::{command, count, estimate, text};
use super::kept::{Judged, Outcome};
use crate::claim::{Finding, Measured, Verdict};
use crate::papers;
use crate::stats::Estimate;

/// The verdicts: the name for styles and filters, the text, and the mark.
pub(super) const KINDS: [Kind; 5] = [
    Kind { name: "holds", says: "holds", mark: "✓" },
    Kind { name: "fails", says: "does not hold", mark: "✗" },
    Kind { name: "contradicts", says: "contradicts another claim", mark: "⇄" },
    Kind { name: "unmeasured", says: "not a measurement", mark: "◇" },
    Kind { name: "open", says: "not run yet", mark: "…" },
];

/// How a verdict is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) mark: &'static str,
}

/// The index of a claim's verdict in [`KINDS`].
pub(super) fn kind(judged: &Judged) -> usize {
    match &judged.outcome {
        Outcome::Found(finding) => match finding.verdict {
            Verdict::Holds => 0,
            Verdict::DoesNotHold => 1,
            Verdict::Contradicts(_) => 2,
            Verdict::NotAMeasurement => 3,
        },
        Outcome::NotRun(_) | Outcome::Undecided(_) => 4,
    }
}

/// The verdict in a coloured box.
fn badge(judged: &Judged) -> String {
    let kind = KINDS[kind(judged)];
    let says = match &judged.outcome {
        Outcome::Found(Finding { verdict: Verdict::Contradicts(other), .. }) => {
            format!("contradicts <a href=\"#{0}\">{0}</a>", text(other))
        }
        _ => kind.says.to_owned(),
    };
    format!(
        "<span class=\"badge {}\"><span aria-hidden=\"true\">{}</span> {says}</span>",
        kind.name, kind.mark
    )
}

/// Our number.
fn ours(judged: &Judged) -> Option<String> {
    let Outcome::Found(Finding { figure: Some(measured), .. }) = &judged.outcome else {
        return None;
    };
    let Measured { what, unit, value } = measured;
    let runs = if value.runs > 0 { format!(" · {}", count(value.runs, "run")) } else { String::new() };
    Some(format!(
        "{}{} <span class=\"what\">{}{runs}</span>",
        if *unit == "x" { strip(value) } else { String::new() },
        estimate(value, unit),
        text(what)
    ))
}

/// The interval of a ratio on a logarithmic scale from 1/8 to 8, with 1 in the middle.
fn strip(value: &Estimate) -> String {
    const WIDTH: f64 = 96.0;
    if value.mean <= 0.0 || !value.mean.is_finite() {
        return String::new();
    }
    let across =
        |ratio: f64| WIDTH / 2.0 + (ratio.max(1e-9).log2() / 3.0).clamp(-1.0, 1.0) * (WIDTH / 2.0 - 6.0);
    let (low, mean, high) = (across(value.low), across(value.mean), across(value.high));
    let mut html = format!(
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} 16\" aria-hidden=\"true\"><path class=\"scale\" d=\"M6 8H{}\"></path>",
        WIDTH - 6.0
    );
    for ratio in [0.125, 0.25, 0.5, 2.0, 4.0, 8.0] {
        let _ = write!(html, "<path class=\"scale\" d=\"M{:.1} 6V10\"></path>", across(ratio));
    }
    let _ = write!(
        html,
        "<path class=\"one\" d=\"M{0} 2V14\"></path><path class=\"range\" d=\"M{low:.1} 8H{high:.1}\"></path>\
         <circle cx=\"{mean:.1}\" cy=\"8\" r=\"3.4\"></circle></svg> ",
        WIDTH / 2.0
    );
    html
}

/// A claim with all details and an anchor.
pub(super) fn card(judged: &Judged) -> String {
    let claim = judged.claim;
    let id = text(claim.id);
    let kind = KINDS[kind(judged)];
    let mut html = format!(
        "<article class=\"claim {name}\" id=\"{id}\" data-verdict=\"{name}\">\n<header><h4><a class=\"anchor\" href=\"#{id}\">{id}</a></h4> {}</header>\n\
         <p class=\"says\"><q>{}</q></p>\n",
        badge(judged),
        text(claim.says),
        name = kind.name
    );
    if let Some(ours) = ours(judged) {
        let _ = writeln!(html, "<p class=\"ours\"><span class=\"label\">Ours</span> {ours}</p>");
    }
    match &judged.outcome {
        Outcome::Found(finding) => {
            let _ = writeln!(html, "<p class=\"why\">{}</p>", linked(&sentence(&finding.why), claim.id));
        }
        Outcome::NotRun(missing) => {
            let _ = writeln!(
                html,
                "<p class=\"why\">The figures that decide it were not run, or are incomplete: {}</p>",
                command(&format!("braidlab run {}", missing.join(" ")))
            );
        }
        Outcome::Undecided(needed) => {
            let _ = writeln!(
                html,
                "<p class=\"why\">The stored results do not contain the required data: {}</p>",
                command(&format!("braidlab run {}", needed.join(" ")))
            );
        }
    }
    let _ = write!(html, "<footer>{}", command(&format!("braidlab check {}", claim.id)));
    if !claim.needs.is_empty() {
        let links = claim.needs.iter().map(|id| format!("<a href=\"#{0}\">{0}</a>", text(id)));
        let _ = write!(html, " <span>by {}</span>", links.collect::<Vec<_>>().join(", "));
    }
    html.push_str("</footer>\n</article>\n");
    html
}

/// A claim in a line or two, beside a figure that decides it.
pub(super) fn line(judged: &Judged) -> String {
    let claim = judged.claim;
    let mut html = format!(
        "<li class=\"{}\"><a class=\"id\" href=\"#{id}\">{id}</a> {} <span class=\"says\"><q>{}</q></span>",
        KINDS[kind(judged)].name,
        badge(judged),
        text(claim.says),
        id = text(claim.id),
    );
    if let Some(ours) = ours(judged) {
        let _ = write!(html, " <span class=\"ours\">{ours}</span>");
    }
    html.push_str("</li>\n");
    html
}

/// The values that the paper's text prints for these claims beside ours, as a table; empty if it prints none.
pub(super) fn printed(claims: &[&Judged]) -> String {
    let mut rows = String::new();
    for judged in claims {
        let Some(value) = papers::printed(judged.claim.id) else { continue };
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\"><a href=\"#{id}\">{id}</a></th><td>{}</td><td>{}</td><td>{}</td></tr>",
            text(value),
            ours(judged).unwrap_or_else(|| "none".to_owned()),
            badge(judged),
            id = text(judged.claim.id),
        );
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<div class=\"wide\"><table class=\"printed\">\n<thead><tr><th scope=\"col\">Claim</th><th scope=\"col\">Printed in the paper</th>\
         <th scope=\"col\">Ours</th><th scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// A text in which ids of other claims of the same paper are links.
fn linked(says: &str, of: &str) -> String {
    let paper = of.split_once('-').map_or(of, |(paper, _)| paper);
    let is_other = |word: &str| {
        word != of
            && word.split_once('-').is_some_and(|(its, _)| its == paper)
            && papers::claims().any(|claim| claim.id == word)
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut html = String::new();
    let mut rest = says;
    while !rest.is_empty() {
        let end = rest.find(|c| is_part(c) != rest.starts_with(is_part)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let _ = match is_other(word) {
            true => write!(html, "<a href=\"#{0}\">{0}</a>", text(word)),
            false => write!(html, "{}", text(word)),
        };
        rest = after;
    }
    html
}

/// With a capital letter and a full stop.
fn sentence(says: &str) -> String {
    let says = says.trim();
    let mut chars = says.chars();
    let Some(first) = chars.next() else { return String::new() };
    let mut text: String = first.to_uppercase().chain(chars).collect();
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_ids_are_links_except_to_the_claim_itself_or_another_paper() {
        let html = linked("see P1-C05, P1-C01 & P2-C01 (P1-C14). P1-C99", "P1-C01");
        assert_eq!(
            html,
            "see <a href=\"#P1-C05\">P1-C05</a>, P1-C01 &amp; P2-C01 (<a href=\"#P1-C14\">P1-C14</a>). P1-C99"
        );
        assert_eq!(sentence(" it is so "), "It is so.");
    }
}
