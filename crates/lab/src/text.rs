//! Prints the means of a sweep as a table, the data of its picture as text; and times.

use std::fmt::Write;
use std::time::Duration;

use crate::figure::{Axis, Value};
use crate::plot::{Marks, Plot};
use crate::stats::short;
use crate::table::{Cell, Table};

/// Returns a table for each panel of the picture: a row for each line of the panel, a column for each x
/// value.
pub fn table(table: &Table) -> String {
    let sweep = table.sweep();
    let plot = sweep.plot;
    let cells: Vec<Cell<'_>> =
        (0..table.points().len()).map(|point| table.cell(point)).filter(|cell| cell.runs() > 0).collect();
    let axis = |name: &str| sweep.axis(name).expect("a picture's axes are those of its sweep");
    let panels: Vec<&Axis> = [plot.over, plot.rows, plot.facet].into_iter().flatten().map(axis).collect();
    let (along, by) = (axis(plot.x), axis(plot.by));
    let beside = plot.beside.map(|column| format!("; beside it `{column}`"));
    let is_named = along.name != by.name && !along.label.is_empty();
    let columns = is_named.then(|| format!("; columns: {}", along.label));
    let mut text =
        format!("  {}{}{}\n", plot.y_label, beside.unwrap_or_default(), columns.unwrap_or_default());
    let mut done: Vec<Vec<Value>> = Vec::new();
    for cell in &cells {
        let place = |cell: &Cell<'_>| -> Vec<Value> {
            panels.iter().map(|axis| cell.point().value(axis.name)).collect()
        };
        let panel = place(cell);
        if done.contains(&panel) {
            continue;
        }
        let inside: Vec<&Cell<'_>> = cells.iter().filter(|cell| place(cell) == panel).collect();
        let names: Vec<String> = panels.iter().zip(&panel).map(|(axis, value)| (axis.show)(value)).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "  {}", names.join(", "));
        }
        text.push_str(&grid(&inside, along, by, plot));
        done.push(panel);
    }
    text
}

/// One panel.
fn grid(cells: &[&Cell<'_>], along: &Axis, by: &Axis, plot: Plot) -> String {
    // If x values and lines come from the same axis, there is one column.
    let columns: Vec<Option<&Value>> = if along.name == by.name {
        vec![None]
    } else {
        let has = |value: &&Value| cells.iter().any(|cell| cell.point().value(along.name) == **value);
        along.values.iter().filter(has).map(Some).collect()
    };
    let mut rows = Vec::new();
    if along.name != by.name {
        let places = columns.iter().flatten().map(|value| (along.show)(value));
        rows.push([String::new()].into_iter().chain(places).collect());
    }
    for line in by.values {
        let its: Vec<&&Cell<'_>> = cells.iter().filter(|cell| cell.point().value(by.name) == *line).collect();
        if its.is_empty() {
            continue;
        }
        let mut row = vec![(by.show)(line)];
        for value in &columns {
            let is_there =
                |cell: &&&&Cell<'_>| value.is_none_or(|value| cell.point().value(along.name) == *value);
            let mean = |cell: &&&Cell<'_>| match plot.beside {
                _ if plot.marks == Marks::Tail => cell.tail(plot.y).to_string(),
                None => short(cell.mean(plot.y).mean),
                Some(beside) => {
                    format!("{} | {}", short(cell.mean(plot.y).mean), short(cell.mean(beside).mean))
                }
            };
            row.push(its.iter().find(is_there).map_or_else(|| "-".to_owned(), mean));
        }
        rows.push(row);
    }
    aligned(&rows)
}

/// Aligns rows of cells in columns: the first column to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from("   ");
        for (column, cell) in row.iter().enumerate() {
            let _ = match column {
                0 => write!(line, " {cell:<width$}", width = widths[0]),
                _ => write!(line, "  {cell:>width$}", width = widths[column]),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A time of seconds to days, as it is read best.
pub fn time(time: Duration) -> String {
    let minutes = time.as_secs_f64() / 60.0;
    match minutes {
        minutes if minutes < 1.5 => format!("{:.0} s", time.as_secs_f64().max(1.0)),
        minutes if minutes < 90.0 => format!("{minutes:.0} min"),
        minutes if minutes < 48.0 * 60.0 => format!("{:.1} h", minutes / 60.0),
        minutes => format!("{:.0} days", minutes / 1_440.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers;
    use crate::table::Record;

    #[test]
    fn a_table_has_a_row_for_each_line_and_a_column_for_each_x_value() {
        let figure = papers::figure("fcs/fig2a").unwrap();
        let sweep = figure.sweep().unwrap();
        let points = sweep.points();
        let numbers = |value: f64| vec![value; sweep.columns.len()];
        let records = points.iter().enumerate().filter(|(_, point)| point.number("loss") < 0.03);
        let records = records.map(|(point, its)| {
            let value = if its.name("variant") == "tcp" { 12.345 } else { 7.0 };
            Record { point, run: 0, seed: 0, numbers: numbers(value) }
        });
        let table = super::table(&Table::new(figure, sweep, records.collect()));
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(table.contains("; columns: packets lost, each way\n"), "{table}");
        assert_eq!(lines[1], ["0", "%", "1", "%"]);
        assert_eq!(lines[2], ["FTP", "over", "TCP", "New-Reno", "12.3", "12.3"]);
        assert_eq!(lines.len(), 2 + 4, "{table}");
        let widths: Vec<usize> = table.lines().skip(1).map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
    }

    #[test]
    fn times_have_the_unit_in_which_they_are_best_read() {
        for (seconds, shown) in [
            (0, "1 s"),
            (89, "89 s"),
            (90, "2 min"),
            (5_399, "90 min"),
            (5_400, "1.5 h"),
            (3 * 86_400, "3 days"),
        ] {
            assert_eq!(time(Duration::from_secs(seconds)), shown);
        }
    }
}
