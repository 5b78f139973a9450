//! The data of a sweep for the page's script: axes, columns, and statistics of each column at each point.

use serde::Serialize;

use super::html::rounded;
use crate::figure::{Axis, Value};
use crate::plot::{self, Marks, Scale};
use crate::stats;
use crate::table::{Cell, Table};

/// All data needed to draw a sweep.
#[derive(Debug, Serialize)]
pub(super) struct Chart {
    x: Side,
    by: Side,
    #[serde(skip_serializing_if = "Option::is_none")]
    facet: Option<Side>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Side>,
    columns: Vec<Named>,
    /// The column drawn initially.
    y: usize,
    #[serde(rename = "yLabel")]
    y_label: &'static str,
    #[serde(rename = "logX")]
    log_x: bool,
    #[serde(rename = "logY")]
    log_y: bool,
    bars: bool,
    cells: Vec<Place>,
}

/// An axis, with the values that were run.
#[derive(Debug, Serialize)]
struct Side {
    name: &'static str,
    label: &'static str,
    values: Vec<Shown>,
}

/// A value of an axis.
#[derive(Debug, Serialize)]
struct Shown {
    /// Its text.
    t: String,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<f64>,
    /// The colours on white and on black, and the shape, of a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<(&'static str, &'static str, usize)>,
}

#[derive(Debug, Serialize)]
struct Named {
    name: &'static str,
    unit: &'static str,
}

/// A point.
#[derive(Debug, Serialize)]
struct Place {
    /// Its indices on x, by, facet and rows.
    p: [usize; 4],
    /// The number of runs.
    n: usize,
    /// The seed of the first run.
    s: String,
    /// For each column: mean, low, high, median, 10 % and 90 % quantile.
    v: Vec<[f64; 6]>,
}

impl Chart {
    /// Creates the chart of a table.
    pub(super) fn new(table: &Table) -> Self {
        let sweep = table.sweep();
        let plot = sweep.plot;
        let cells = cells(table);
        let axis =
            |name: &str| sweep.axis(name).unwrap_or_else(|| panic!("the picture has an axis `{name}`"));
        let there = |axis: &Axis| -> Vec<Value> {
            let has = |value: &&Value| cells.iter().any(|cell| cell.point().value(axis.name) == **value);
            axis.values.iter().filter(has).copied().collect()
        };
        let side = |axis: &'static Axis, coloured: bool| {
            let shown = |value: Value| Shown {
                t: (axis.show)(&value),
                n: match value {
                    Value::Number(number) => Some(number),
                    Value::Name(_) => None,
                },
                c: coloured.then(|| {
                    let colour = plot::colour(axis, &value);
                    (colour, plot::on_black(colour), plot::shape(axis, &value))
                }),
            };
            Side { name: axis.name, label: axis.label, values: there(axis).into_iter().map(shown).collect() }
        };
        let (x, by) = (axis(plot.x), axis(plot.by));
        let (facet, rows) = (plot.facet.map(axis), plot.rows.map(axis));
        let place = |cell: &Cell<'_>| {
            let on = |axis: Option<&Axis>| {
                let Some(axis) = axis else { return 0 };
                let value = cell.point().value(axis.name);
                there(axis).iter().position(|other| *other == value).unwrap_or(0)
            };
            Place {
                p: [on(Some(x)), on(Some(by)), on(facet), on(rows)],
                n: cell.runs(),
                s: cell.first_seed().to_string(),
                v: sweep.columns.iter().map(|column| numbers(&cell.values(column.name))).collect(),
            }
        };
        Self {
            x: side(x, false),
            by: side(by, true),
            facet: facet.map(|axis| side(axis, false)),
            rows: rows.map(|axis| side(axis, false)),
            columns: sweep
                .columns
                .iter()
                .map(|column| Named { name: column.name, unit: column.unit })
                .collect(),
            y: sweep.columns.iter().position(|column| column.name == plot.y).unwrap_or(0),
            y_label: plot.y_label,
            log_x: plot.x_scale == Scale::Log,
            log_y: plot.y_scale == Scale::Log,
            bars: plot.marks == Marks::Bars,
            cells: cells.iter().map(place).collect(),
        }
    }
}

/// The points that were run.
pub(super) fn cells(table: &Table) -> Vec<Cell<'_>> {
    (0..table.points().len()).map(|index| table.cell(index)).filter(|cell| cell.runs() > 0).collect()
}

fn numbers(values: &[f64]) -> [f64; 6] {
    let mean = stats::mean(values);
    let quantile = |part| stats::quantile(values, part);
    [mean.mean, mean.low, mean.high, quantile(0.5), quantile(0.1), quantile(0.9)].map(rounded)
}
