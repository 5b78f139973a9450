//! Pictures of sweeps: a panel for each value of one axis, a line for each value of another, with the 90 %
//! interval of each mean as a band; or bars, where x is not a quantity.

pub mod svg;
pub mod tail;

use crate::figure::{Axis, Figure, Value};
pub use crate::figure::{Marks, Plot, Scale};
use crate::stats::Estimate;
use crate::table::{Cell, Table};
use svg::{Anchor, GRID, INK, MARGIN, SOFT, Svg, Text};

/// The room left of a panel, for its numbers.
const LEFT: f64 = 58.0;
/// The room above a panel, for its name.
const ABOVE: f64 = 34.0;
/// The room below a panel, for its numbers and label.
const BELOW: f64 = 46.0;
const GAP: f64 = 14.0;

/// Colours that colour-blind readers can distinguish: for recurring names, then for others.
const NAMED: &[(&str, &str)] = &[
    ("tcp", "#3b4252"),
    ("naive", "#e08a1e"),
    ("ms", "#4aa3df"),
    ("ms-cp", "#1f5fa8"),
    ("braid", "#c8324a"),
    ("sctp", "#1f5fa8"),
];
const OTHERS: &[&str] = &[
    "#2a9d8f", "#8e5bb5", "#a6761d", "#d081b4", "#7a8b2f", "#5b6ee1", "#b0483a", "#4d9078", "#12769c",
    "#d4a017", "#6b4a3a", "#9aa0ac",
];

/// The colour of an axis value: the same in all figures for recurring names.
pub fn colour(axis: &Axis, value: &Value) -> &'static str {
    let named = |value: &Value| {
        let name = value.to_string();
        NAMED.iter().find(|(its, _)| *its == name).map(|(_, colour)| *colour)
    };
    named(value).unwrap_or_else(|| {
        let unnamed = axis.values.iter().filter(|other| named(other).is_none());
        let place = unnamed.take_while(|other| *other != value).count();
        OTHERS[place % OTHERS.len()]
    })
}

/// The colours of pictures on white, with their counterparts on black.
pub const COLOURS: &[(&str, &str)] = &[
    ("#ffffff", "#151a23"),
    (INK, "#e7ebf3"),
    (SOFT, "#98a2b6"),
    (GRID, "#2a3242"),
    ("#c9cfda", "#48536a"),
    ("#f4f7fc", "#1b2330"),
    ("#f7e6cf", "#3b3020"),
    ("#3b4252", "#b9c2d3"),
    ("#e08a1e", "#f2a541"),
    ("#4aa3df", "#6cbcf0"),
    ("#1f5fa8", "#5b93e0"),
    ("#c8324a", "#f0647b"),
    ("#2a9d8f", "#4cc3b4"),
    ("#8e5bb5", "#b98be0"),
    ("#a6761d", "#cf9d45"),
    ("#d081b4", "#e3a2cb"),
    ("#7a8b2f", "#a9bc57"),
    ("#5b6ee1", "#8c9bf5"),
    ("#b0483a", "#dd7d70"),
    ("#4d9078", "#74bb9f"),
    ("#12769c", "#4fb0d6"),
    ("#d4a017", "#e8c04d"),
    ("#6b4a3a", "#b08d7b"),
    ("#9aa0ac", "#7d8594"),
];

/// The counterpart on black of a colour on white.
pub fn on_black(colour: &'static str) -> &'static str {
    COLOURS.iter().find(|(white, _)| *white == colour).map_or(colour, |(_, black)| black)
}

/// Draws a sweep's runs.
pub fn draw(figure: &Figure, table: &Table) -> String {
    let sweep = table.sweep();
    let plot = sweep.plot;
    let axis = |name: &str| {
        sweep.axis(name).unwrap_or_else(|| panic!("{}: the picture has an axis `{name}`", figure.id))
    };
    let by = axis(plot.by);
    let cells = cells_with_runs(table);
    let has = |axis: &Axis, value: &Value| has_value(&cells, axis, value);
    let (panels, across) = panels(plot, &cells, axis);
    let down = panels.len().div_ceil(across.max(1));
    // A single panel has the whole sheet.
    let (panel_width, panel_height) = match across {
        1 => (620.0, 340.0),
        2 => (420.0, 270.0),
        _ => (300.0, 216.0),
    };
    // Bars labelled by their group need no legend.
    let is_named = plot.marks == Marks::Bars && plot.by == plot.x;
    let legend: Vec<&Value> = by.values.iter().filter(|value| !is_named && has(by, value)).collect();
    // The legend goes to an empty place of the grid, or above it.
    let is_inset = panels.len() < across * down;
    let sheet = across as f64 * (LEFT + panel_width + GAP);
    let title = wrapped(figure.shows, sheet, 22.0);
    let below_title = 44.0 + (title.len() as f64 - 1.0) * 27.0;
    let (places, row) = places_above(by, &legend, sheet, below_title + 48.0);
    let heading = below_title + if is_inset || legend.is_empty() { 34.0 } else { 64.0 + row * 22.0 };
    let caption = wrapped(figure.caption, sheet, 12.5);
    let width = MARGIN * 2.0 + across as f64 * (LEFT + panel_width) + (across as f64 - 1.0) * GAP;
    let height = heading
        + down as f64 * (ABOVE + panel_height + BELOW)
        + 18.0
        + caption.len() as f64 * 17.0
        + MARGIN / 2.0;
    let mut svg = Svg::new(width, height);
    let text = |x, y, size, colour| Text { x, y, size, colour, anchor: Anchor::Start, turned: 0.0 };
    for (index, line) in title.iter().enumerate() {
        svg.text(text(MARGIN, 44.0 + index as f64 * 27.0, 22.0, INK), line);
    }
    let what = match plot.marks {
        Marks::Lines | Marks::Bars if plot.over.is_some() => {
            "mean and 90 % confidence interval: simulated, and live as marks with a dark edge"
        }
        Marks::Lines | Marks::Bars => "mean and 90 % confidence interval",
        Marks::Tail => "part of all runs that took longer; dotted: runs that never ended",
    };
    svg.text(text(MARGIN, below_title + 21.0, 12.5, SOFT), &format!("{} · {what}", figure.id));
    let places = match is_inset {
        true => {
            let x = MARGIN + (panels.len() % across) as f64 * (LEFT + panel_width + GAP) + LEFT + 20.0;
            let y = heading + (down - 1) as f64 * (ABOVE + panel_height + BELOW) + ABOVE + 26.0;
            (0..legend.len()).map(|index| (x, y + index as f64 * 28.0)).collect()
        }
        false => places,
    };
    for (value, place) in legend.iter().zip(places) {
        legend_entry(&mut svg, plot, by, value, place, if is_inset { 15.0 } else { 13.5 });
    }
    for (index, (name, cells)) in panels.iter().enumerate() {
        let place = (
            MARGIN + (index % across) as f64 * (LEFT + panel_width + GAP) + LEFT,
            heading + (index / across) as f64 * (ABOVE + panel_height + BELOW) + ABOVE,
        );
        Panel {
            figure,
            plot,
            by,
            x_axis: axis(plot.x),
            place,
            width: panel_width,
            height: panel_height,
            is_leftmost: index % across == 0,
        }
        .draw(&mut svg, name, cells);
    }
    for (index, line) in caption.iter().enumerate() {
        let y = heading + down as f64 * (ABOVE + panel_height + BELOW) + 18.0 + index as f64 * 17.0;
        svg.text(text(MARGIN, y, 12.5, SOFT), line);
    }
    svg.finish()
}

/// The cells of a table that have runs.
fn cells_with_runs(table: &Table) -> Vec<Cell<'_>> {
    (0..table.points().len()).map(|index| table.cell(index)).filter(|cell| cell.runs() > 0).collect()
}

fn has_value(cells: &[Cell<'_>], axis: &Axis, value: &Value) -> bool {
    cells.iter().any(|cell| cell.point().value(axis.name) == *value)
}

/// The name and the cells of a panel.
type NamedCells<'a> = (String, Vec<Cell<'a>>);

/// The panels, row by row, and how many stand side by side.
fn panels<'a>(
    plot: Plot,
    cells: &[Cell<'a>],
    axis: impl Fn(&str) -> &'static Axis,
) -> (Vec<NamedCells<'a>>, usize) {
    let values = |name: Option<&'static str>| match name {
        None => vec![None],
        Some(name) => {
            let axis = axis(name);
            let present = axis.values.iter().filter(|value| has_value(cells, axis, value));
            present.map(|value| Some((axis, *value))).collect()
        }
    };
    let (facets, rows) = (values(plot.facet), values(plot.rows));
    let mut panels = Vec::new();
    for row in &rows {
        for facet in &facets {
            let places: Vec<_> = facet.iter().chain(row).collect();
            let inside =
                |cell: &&Cell<'_>| places.iter().all(|(axis, value)| cell.point().value(axis.name) == *value);
            let name: Vec<String> = row.iter().chain(facet).map(|(axis, value)| (axis.show)(value)).collect();
            panels.push((name.join(" · "), cells.iter().filter(inside).copied().collect::<Vec<_>>()));
        }
    }
    let across = if rows.len() > 1 { facets.len() } else { facets.len().min(3) };
    (panels, across)
}

/// The places of the legend's entries above the panels, in lines as wide as the sheet, and the last line's number.
fn places_above(by: &Axis, legend: &[&Value], sheet: f64, top: f64) -> (Vec<(f64, f64)>, f64) {
    let mut places = Vec::new();
    let (mut x, mut row) = (0.0, 0.0);
    for value in legend {
        let wide = 52.0 + svg::text_width(&(by.show)(value), 13.5);
        if x > 0.0 && x + wide > sheet {
            (x, row) = (0.0, row + 1.0);
        }
        places.push((MARGIN + x, top + row * 22.0));
        x += wide;
    }
    (places, row)
}

fn legend_entry(svg: &mut Svg, plot: Plot, by: &Axis, value: &Value, (x, y): (f64, f64), size: f64) {
    let colour = colour(by, value);
    match plot.marks {
        Marks::Tail => svg.line((x, y - size * 0.33), (x + 28.0, y - size * 0.33), colour, 2.4, ""),
        Marks::Lines => {
            svg.line((x, y - size * 0.33), (x + 28.0, y - size * 0.33), colour, 2.4, "");
            svg.mark(shape(by, value), (x + 14.0, y - size * 0.33), 4.6, colour);
        }
        Marks::Bars => svg.rect([x + 14.0, y - size * 0.8, 14.0, size * 0.9], colour, 2.0),
    }
    let how = Text { x: x + 36.0, y, size, colour: INK, anchor: Anchor::Start, turned: 0.0 };
    svg.text(how, &(by.show)(value));
}

/// The shape of the marks of an axis value.
pub(crate) fn shape(by: &Axis, value: &Value) -> usize {
    by.values.iter().position(|other| other == value).unwrap_or(0)
}

/// A panel; its position is the upper left corner of the plot area.
struct Panel<'a> {
    figure: &'a Figure,
    plot: Plot,
    by: &'a Axis,
    x_axis: &'a Axis,
    place: (f64, f64),
    width: f64,
    height: f64,
    is_leftmost: bool,
}

impl Panel<'_> {
    fn draw(&self, svg: &mut Svg, name: &str, cells: &[Cell<'_>]) {
        let (left, top) = self.place;
        let bottom = top + self.height;
        let text = |x, y, size, colour, anchor| Text { x, y, size, colour, anchor, turned: 0.0 };
        if !name.is_empty() {
            svg.text(text(left, top - 12.0, 14.5, INK, Anchor::Start), name);
        }
        if self.plot.marks == Marks::Tail {
            let curve = |cell: &Cell<'_>| {
                let value = cell.point().value(self.by.name);
                let colour = colour(self.by, &value);
                let (name, values) = ((self.by.show)(&value), cell.values(self.plot.y));
                match self.is_over(cell) {
                    true => tail::Curve { name: format!("{name}, live"), colour: INK, values },
                    false => tail::Curve { name, colour, values },
                }
            };
            let curves: Vec<tail::Curve> = cells.iter().map(curve).collect();
            let size = (self.width, self.height);
            let panel =
                tail::Panel { place: self.place, size, x_label: self.plot.y_label, floor: 1e-9, limit: None };
            return panel.draw(svg, &curves);
        }
        let estimates: Vec<Estimate> = cells.iter().map(|cell| cell.mean(self.plot.y)).collect();
        let largest = estimates.iter().map(|estimate| estimate.high).fold(0.0, f64::max);
        let positive = estimates.iter().map(|estimate| estimate.mean).filter(|mean| *mean > 0.0);
        let smallest = positive.fold(f64::INFINITY, f64::min);
        let (low, high, ticks) = match self.plot.y_scale {
            Scale::Log if smallest.is_finite() => log_ticks(smallest, largest),
            _ => linear_ticks(largest),
        };
        let up = |value: f64| {
            let part = match self.plot.y_scale {
                Scale::Log if smallest.is_finite() => (value.max(low) / low).ln() / (high / low).ln(),
                _ => value / high,
            };
            bottom - part.clamp(0.0, 1.02) * self.height
        };
        for tick in &ticks {
            svg.line((left, up(*tick)), (left + self.width, up(*tick)), GRID, 1.0, "");
            svg.text(text(left - 8.0, up(*tick) + 4.0, 11.5, SOFT, Anchor::End), &tick_text(*tick));
        }
        let places: Vec<&Value> = self
            .x_axis
            .values
            .iter()
            .filter(|value| cells.iter().any(|cell| cell.point().value(self.x_axis.name) == **value))
            .collect();
        let along = |value: &Value| left + self.along(&places, value) * self.width;
        let mut last = f64::NEG_INFINITY;
        for value in &places {
            let (x, shown) = (along(value), (self.x_axis.show)(value));
            let half = svg::text_width(&shown, 11.5) / 2.0;
            svg.line((x, bottom), (x, bottom + 4.0), SOFT, 1.0, "");
            if x - half > last + 3.0 {
                svg.text(text(x, bottom + 18.0, 11.5, SOFT, Anchor::Middle), &shown);
                last = x + half;
            }
        }
        svg.line((left, bottom), (left + self.width, bottom), SOFT, 1.2, "");
        svg.text(text(left + self.width / 2.0, bottom + 35.0, 12.0, SOFT, Anchor::Middle), self.x_axis.label);
        if self.is_leftmost {
            let x = left - LEFT + 10.0;
            let how = Text { turned: -90.0, ..text(x, top + self.height / 2.0, 12.0, SOFT, Anchor::Middle) };
            svg.text(how, self.plot.y_label);
        }
        match self.plot.marks {
            Marks::Lines => self.lines(svg, cells, &along, &up),
            Marks::Bars => self.bars(svg, cells, &places, &up),
            Marks::Tail => {}
        }
    }

    fn lines(
        &self,
        svg: &mut Svg,
        cells: &[Cell<'_>],
        along: &dyn Fn(&Value) -> f64,
        up: &dyn Fn(f64) -> f64,
    ) {
        let (over, cells): (Vec<&Cell<'_>>, Vec<&Cell<'_>>) =
            cells.iter().partition(|cell| self.is_over(cell));
        let series: Vec<(&Value, Vec<(f64, Estimate)>)> = self
            .by
            .values
            .iter()
            .map(|value| {
                let its = cells.iter().filter(|cell| cell.point().value(self.by.name) == *value);
                let mut places: Vec<_> = its
                    .map(|cell| (along(&cell.point().value(self.x_axis.name)), cell.mean(self.plot.y)))
                    .collect();
                places.sort_by(|a, b| a.0.total_cmp(&b.0));
                assert!(
                    places.windows(2).all(|pair| pair[0].0 < pair[1].0),
                    "{}: two points of `{value}` coincide: the picture omits an axis",
                    self.figure.id
                );
                (value, places)
            })
            .filter(|(_, places)| !places.is_empty())
            .collect();
        for (value, places) in &series {
            let above = places.iter().map(|(x, estimate)| (*x, up(estimate.high)));
            let below = places.iter().rev().map(|(x, estimate)| (*x, up(estimate.low)));
            svg.polygon(&above.chain(below).collect::<Vec<_>>(), colour(self.by, value), 0.16);
        }
        for (value, places) in &series {
            let points: Vec<_> = places.iter().map(|(x, estimate)| (*x, up(estimate.mean))).collect();
            svg.polyline(&points, colour(self.by, value), 2.0, "");
        }
        for (value, places) in &series {
            for (x, estimate) in places {
                let place = (*x, up(estimate.mean));
                svg.mark(shape(self.by, value), place, 3.9, colour(self.by, value));
            }
        }
        for cell in over {
            let x = along(&cell.point().value(self.x_axis.name));
            self.mark_over(svg, cell, x, up);
        }
    }

    /// Whether a cell is a mark over others.
    fn is_over(&self, cell: &Cell<'_>) -> bool {
        self.plot.over.is_some_and(|axis| {
            let first = cell.sweep().axis(axis).and_then(|axis| axis.values.first());
            first.is_some_and(|first| cell.point().value(axis) != *first)
        })
    }

    /// Draws the mean of a cell over the picture of others, with its interval.
    fn mark_over(&self, svg: &mut Svg, cell: &Cell<'_>, x: f64, up: &dyn Fn(f64) -> f64) {
        let (estimate, value) = (cell.mean(self.plot.y), cell.point().value(self.by.name));
        if !estimate.mean.is_finite() {
            return;
        }
        if estimate.low < estimate.high {
            svg.line((x, up(estimate.low)), (x, up(estimate.high)), INK, 1.2, "");
        }
        let place = (x, up(estimate.mean));
        svg.mark(shape(self.by, &value), place, 6.4, INK);
        svg.mark(shape(self.by, &value), place, 4.4, colour(self.by, &value));
    }

    fn bars(&self, svg: &mut Svg, cells: &[Cell<'_>], places: &[&Value], up: &dyn Fn(f64) -> f64) {
        let (left, top) = self.place;
        let bottom = top + self.height;
        let slot = self.width / places.len().max(1) as f64;
        for (group, place) in places.iter().enumerate() {
            let (over, its): (Vec<&Cell<'_>>, Vec<&Cell<'_>>) = cells
                .iter()
                .filter(|cell| cell.point().value(self.x_axis.name) == **place)
                .partition(|cell| self.is_over(cell));
            let wide = (slot * 0.8 / its.len().max(1) as f64).min(46.0);
            for (index, cell) in its.iter().enumerate() {
                let estimate = cell.mean(self.plot.y);
                let middle = left
                    + slot * (group as f64 + 0.5)
                    + (index as f64 - (its.len() as f64 - 1.0) / 2.0) * wide;
                let y = up(estimate.mean);
                let fill = colour(self.by, &cell.point().value(self.by.name));
                svg.rect([middle - wide * 0.44, y, wide * 0.88, bottom - y], fill, 1.5);
                if estimate.low < estimate.high {
                    svg.line((middle, up(estimate.low)), (middle, up(estimate.high)), INK, 1.4, "");
                }
                let how = Text {
                    x: middle,
                    y: up(estimate.high) - 5.0,
                    size: 10.5,
                    colour: INK,
                    anchor: Anchor::Middle,
                    turned: 0.0,
                };
                svg.text(how, &crate::stats::short(estimate.mean));
                let by = cell.point().value(self.by.name);
                for cell in over.iter().filter(|over| over.point().value(self.by.name) == by) {
                    self.mark_over(svg, cell, middle, up);
                }
            }
        }
    }

    /// The position of a value on the horizontal axis, from 0 to 1.
    fn along(&self, places: &[&Value], value: &Value) -> f64 {
        let number = |value: &Value| match (value, self.plot.marks) {
            (Value::Number(number), Marks::Lines) => Some(match self.plot.x_scale {
                Scale::Log => number.ln(),
                Scale::Linear => *number,
            }),
            _ => None,
        };
        let numbers: Option<Vec<f64>> = places.iter().map(|place| number(place)).collect();
        match (numbers, number(value)) {
            (Some(numbers), Some(number)) => {
                let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
                let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                if high > low { 0.03 + 0.94 * (number - low) / (high - low) } else { 0.5 }
            }
            _ => {
                let place = places.iter().position(|other| *other == value).unwrap_or(0);
                (place as f64 + 0.5) / places.len() as f64
            }
        }
    }
}

/// Ticks from 0 to a round number above the largest value.
pub fn linear_ticks(largest: f64) -> (f64, f64, Vec<f64>) {
    let largest = if largest > 0.0 { largest * 1.04 } else { 1.0 };
    let rough = largest / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|step| step * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let count = (largest / step).ceil();
    (0.0, count * step, (0..=count as usize).map(|index| index as f64 * step).collect())
}

/// Ticks from below the smallest to above the largest value: 1, 2, 5, 10, or only powers of ten.
pub fn log_ticks(smallest: f64, largest: f64) -> (f64, f64, Vec<f64>) {
    let (low, high) = (smallest * 0.85, largest.max(smallest * 1.5) * 1.15);
    let decades = (high / low).log10();
    let steps: &[f64] = if decades > 3.0 {
        &[1.0]
    } else if decades > 1.6 {
        &[1.0, 3.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    (low, high, ticks.filter(|tick| (low..=high).contains(tick)).collect())
}

/// Formats a tick.
pub fn tick_text(value: f64) -> String {
    let text = if value.abs() >= 10_000.0 && value % 1_000.0 == 0.0 {
        format!("{} 000", value / 1_000.0)
    } else {
        format!("{:.6}", value)
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Breaks a text into lines of about this width.
pub fn wrapped(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if svg::text_width(line, size) + svg::text_width(word, size) < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        let (low, high, ticks) = linear_ticks(437.0);
        assert_eq!((low, high), (0.0, 500.0));
        assert_eq!(ticks, [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        let (low, high, ticks) = log_ticks(3.0, 700.0);
        assert!(low < 3.0 && high > 700.0);
        assert_eq!(ticks, [3.0, 10.0, 30.0, 100.0, 300.0]);
        let (_, high, _) = linear_ticks(0.0);
        assert!(high > 0.0);
    }

    #[test]
    fn ticks_have_no_trailing_zeros() {
        for (value, text) in
            [(0.0, "0"), (0.25, "0.25"), (400.0, "400"), (1500.0, "1500"), (20_000.0, "20 000")]
        {
            assert_eq!(tick_text(value), text);
        }
    }
}
