//! A figure on the page: its picture, its caption, the claims that it decides, its numbers as a table, and
//! their provenance.

use std::fmt::Write;

use super::chart::{Chart, cells};
use super::html::{command, count, json, number, text};
use super::kept::{Found, Judged, Kept, Results};
use super::{claim, scene};
use crate::figure::{Figure, Kind};
use crate::plot::{self, Marks};
use crate::store::csv::{BUILD, CAPPED, COMMIT, COMPILER, Head, VERSION};
use crate::table::{Rows, Table};

/// The maximum number of table rows of a scene; longer ones are thinned.
const ROWS: usize = 200;

/// A figure with all details and an anchor.
pub(super) fn section(kept: &Kept, claims: &[&Judged]) -> String {
    let figure = kept.figure;
    let id = text(figure.id);
    let kind = match figure.kind {
        Kind::Sweep(_) | Kind::Live(_) if !is_distribution(figure) => "sweep",
        _ => "scene",
    };
    let mut html = format!(
        "<figure id=\"{id}\" data-kind=\"{kind}\" aria-labelledby=\"{id}.title\">\n\
         <header><h3 id=\"{id}.title\">{} <a class=\"anchor\" href=\"#{id}\">{id}</a></h3></header>\n",
        text(figure.shows)
    );
    match &kept.found {
        Ok(found) => {
            if !found.is_whole() {
                let what = if found.quick {
                    "A quick run with few points and runs; it decides no claim."
                } else {
                    "Incomplete; it decides no claim."
                };
                let _ = writeln!(
                    html,
                    "<p class=\"notice\">{what} To complete it: {}</p>",
                    command(&format!("braidlab run {}", figure.id))
                );
            }
            html.push_str(&picture(kept, found));
        }
        Err(why) => {
            let _ = writeln!(
                html,
                "<p class=\"missing\">{} To make it: {}</p>",
                text(why),
                command(&format!("braidlab run {}", figure.id))
            );
        }
    }
    let _ = writeln!(html, "<figcaption>{}</figcaption>", text(figure.caption));
    html.push_str(&claim::printed(claims));
    if !claims.is_empty() {
        let _ = write!(
            html,
            "<details class=\"decides\" open=\"open\"><summary>{} that it decides</summary>\n<ul>\n",
            count(claims.len(), "claim")
        );
        for judged in claims {
            html.push_str(&claim::line(judged));
        }
        html.push_str("</ul>\n</details>\n");
    }
    if let Ok(found) = &kept.found {
        let table = match &found.results {
            Results::Sweep(table) if is_distribution(kept.figure) => tail_table(table),
            Results::Sweep(table) => sweep_table(table),
            Results::Scene { rows, .. } => scene_table(rows),
        };
        let _ = writeln!(
            html,
            "<details class=\"numbers\"><summary>The numbers</summary>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" \
             aria-label=\"The numbers of {id}\">\n{table}</div>\n</details>"
        );
    }
    html.push_str(&provenance(kept));
    html.push_str("</figure>\n");
    html
}

/// Whether a figure draws distributions: its stored picture is embedded, since the page's script draws
/// means.
fn is_distribution(figure: &Figure) -> bool {
    figure.sweep().is_some_and(|sweep| sweep.plot.marks == Marks::Tail)
}

fn picture(kept: &Kept, found: &Found) -> String {
    match &found.results {
        Results::Sweep(table) if is_distribution(kept.figure) => {
            match scene::embed(&plot::draw(kept.figure, table), kept.figure.shows) {
                Ok(svg) => format!("<div class=\"chart\"><div class=\"wide\">{svg}</div></div>\n"),
                Err(why) => format!("<p class=\"missing\">No picture: {}.</p>\n", text(&why)),
            }
        }
        Results::Sweep(table) => format!(
            "<div class=\"chart\" data-label=\"{}\"></div>\n<script type=\"application/json\">{}</script>\n",
            text(kept.figure.shows),
            json(&Chart::new(table))
        ),
        Results::Scene { svg, .. } => {
            let embedded = match svg {
                Some(svg) => scene::embed(svg, kept.figure.shows),
                None => Err("its picture is not stored".to_owned()),
            };
            match embedded {
                Ok(svg) => format!("<div class=\"chart\"><div class=\"wide\">{svg}</div></div>\n"),
                Err(why) => format!(
                    "<p class=\"missing\">No picture: {}. To make it: {}</p>\n",
                    text(&why),
                    command(&format!("braidlab run {} --fresh", kept.figure.id))
                ),
            }
        }
    }
}

/// A row for each point: the axis values, the drawn column with interval and median, and the means of the
/// other columns.
fn sweep_table(table: &Table) -> String {
    let sweep = table.sweep();
    let drawn = sweep.plot.y;
    let unit = |name: &str| {
        let column = sweep.columns.iter().find(|column| column.name == name);
        column.map_or("", |column| column.unit)
    };
    let others: Vec<&str> =
        sweep.columns.iter().map(|column| column.name).filter(|name| *name != drawn).collect();
    let mut html = String::from("<table>\n<thead><tr>");
    for axis in sweep.axes {
        let _ = write!(html, "<th scope=\"col\">{}</th>", text(axis.label));
    }
    let head = |name: &str| {
        format!("<th scope=\"col\" class=\"number\" title=\"{}\">{}</th>", text(unit(name)), spoken(name))
    };
    let _ = write!(
        html,
        "{}<th scope=\"col\" class=\"number\">90 % interval</th><th scope=\"col\" class=\"number\">median</th>\
         <th scope=\"col\" class=\"number\">runs</th><th scope=\"col\" class=\"number\">first seed</th>",
        head(drawn)
    );
    for name in &others {
        html.push_str(&head(name));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for cell in cells(table) {
        html.push_str("<tr>");
        for axis in sweep.axes {
            let value = cell.point().value(axis.name);
            let _ = write!(html, "<td>{}</td>", text(&(axis.show)(&value)));
        }
        let mean = cell.mean(drawn);
        let interval = if mean.low == mean.high {
            "exact".to_owned()
        } else {
            format!("{} to {}", number(mean.low), number(mean.high))
        };
        for shown in [
            number(mean.mean),
            interval,
            number(cell.quantile(drawn, 0.5)),
            cell.runs().to_string(),
            cell.first_seed().to_string(),
        ] {
            let _ = write!(html, "<td class=\"number\">{shown}</td>");
        }
        for name in &others {
            let _ = write!(html, "<td class=\"number\">{}</td>", number(cell.mean(name).mean));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n");
    html
}

/// A row for each point of a distribution: its quantiles and its worst run.
fn tail_table(table: &Table) -> String {
    let sweep = table.sweep();
    let mut html = String::from("<table>\n<thead><tr>");
    for axis in sweep.axes {
        let _ = write!(html, "<th scope=\"col\">{}</th>", text(axis.label));
    }
    for name in ["runs", "median", "75 %", "90 %", "95 %", "99 %", "worst", "failed", "worst seed"] {
        let _ = write!(html, "<th scope=\"col\" class=\"number\">{name}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for cell in cells(table) {
        html.push_str("<tr>");
        for axis in sweep.axes {
            let value = cell.point().value(axis.name);
            let _ = write!(html, "<td>{}</td>", text(&(axis.show)(&value)));
        }
        let tail = cell.tail(sweep.plot.y);
        let parts = [tail.p50, tail.p75, tail.p90, tail.p95, tail.p99, tail.worst].map(number);
        let counted = [tail.failures.to_string(), tail.worst_seed.to_string()];
        for shown in [tail.runs.to_string()].into_iter().chain(parts).chain(counted) {
            let _ = write!(html, "<td class=\"number\">{shown}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n");
    html
}

fn scene_table(rows: &Rows) -> String {
    let every = rows.rows.len().div_ceil(ROWS).max(1);
    let mut html = String::new();
    if every > 1 {
        let _ = writeln!(html, "<p>Every {every}th of {} rows.</p>", rows.rows.len());
    }
    html.push_str("<table>\n<thead><tr>");
    for column in &rows.columns {
        let _ = write!(html, "<th scope=\"col\">{}</th>", spoken(column));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows.rows.iter().step_by(every) {
        html.push_str("<tr>");
        for field in row {
            match field.parse::<f64>() {
                Ok(_) => {
                    let _ = write!(html, "<td class=\"number\">{}</td>", text(field));
                }
                Err(_) => {
                    let _ = write!(html, "<td>{}</td>", text(field));
                }
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n");
    html
}

/// A column's name as text.
fn spoken(name: &str) -> String {
    text(&name.replace('_', " ")).to_string()
}

/// The command, the build, the seeds, and what did not vary.
fn provenance(kept: &Kept) -> String {
    let figure = kept.figure;
    let mut html = String::from("<details class=\"origin\"><summary>How it was made</summary>\n<dl>\n");
    let mut row = |name: &str, says: &str| {
        let _ = writeln!(html, "<dt>{}</dt><dd>{says}</dd>", text(name));
    };
    row("again", &command(&format!("braidlab run {}", figure.id)));
    if let Ok(Found { head, results, .. }) = &kept.found {
        let shown = |name: &str| head.get(name).filter(|says| !says.is_empty());
        if let Some(made) = shown("command") {
            row("made by", &command(made));
        }
        for name in [VERSION, COMPILER, COMMIT, BUILD, "seeds", "runs"] {
            if let Some(says) = shown(name) {
                row(name, &text(says).to_string());
            }
        }
        if let Results::Sweep(table) = results {
            let points = cells(table).len();
            let all = table.points().len();
            row("points", &format!("{points} of {all}, {} in all", count(table.records().len(), "run")));
        }
        list(&mut row, head, "setting", "settings");
        list(&mut row, head, CAPPED, "not known within 5 %");
    } else {
        let settings: Vec<String> = (figure.settings)();
        let items: String = settings.iter().map(|line| format!("<li>{}</li>", text(line))).collect();
        row("settings", &format!("<ul>{items}</ul>"));
    }
    html.push_str("</dl>\n</details>\n");
    html
}

fn list(row: &mut impl FnMut(&str, &str), head: &Head, line: &str, name: &str) {
    let items: String = head
        .lines
        .iter()
        .filter(|(its, _)| its == line)
        .map(|(_, says)| format!("<li>{}</li>", text(says)))
        .collect();
    if !items.is_empty() {
        row(name, &format!("<ul>{items}</ul>"));
    }
}
