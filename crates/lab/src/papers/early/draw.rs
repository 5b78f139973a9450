//! Shared by the pictures of lost packets: the sheet, and a panel with a mark for each packet.

use super::cost::{Cost, Kind};
use crate::figure::Figure;
use crate::plot::svg::{Anchor, GRID, INK, MARGIN, SOFT, Svg, Text, text_width};
use crate::plot::{linear_ticks, tick_text, wrapped};

/// The space to the left of a panel, for its numbers.
pub(super) const LEFT: f64 = 64.0;
const TOP: f64 = 140.0;
const BELOW: f64 = 84.0;
const HEIGHT: f64 = 170.0;

/// A sheet with rows of panels.
pub(super) struct Sheet {
    pub(super) svg: Svg,
    caption: Vec<String>,
    rows: usize,
}

/// A text at a position.
pub(super) fn text<'a>(x: f64, y: f64, size: f64, colour: &'a str, anchor: Anchor) -> Text<'a> {
    Text { x, y, size, colour, anchor, turned: 0.0 }
}

impl Sheet {
    /// Creates a sheet for this number of rows of panels, of this total width.
    pub(super) fn new(figure: &Figure, rows: usize, wide: f64) -> Self {
        let caption = wrapped(figure.caption, wide, 12.5);
        let height = TOP + rows as f64 * (HEIGHT + BELOW) + 10.0 + caption.len() as f64 * 17.0;
        let mut svg = Svg::new(2.0 * MARGIN + wide, height);
        svg.heading(figure.shows, figure.id, 80.0);
        Self { svg, caption, rows }
    }

    /// Draws a legend above the panels.
    pub(super) fn legend<'a>(&mut self, entries: impl IntoIterator<Item = (&'a str, &'a str, usize)>) {
        let mut x = MARGIN;
        for (name, colour, shape) in entries {
            self.svg.mark(shape, (x + 6.0, 94.0), 4.0, colour);
            self.svg.text(text(x + 18.0, 98.5, 13.0, INK, Anchor::Start), name);
            x += 44.0 + text_width(name, 13.0);
        }
    }

    /// The upper left corner and the height of a panel, by its row and its left edge.
    pub(super) fn place(&self, row: usize, left: f64) -> ((f64, f64), f64) {
        ((MARGIN + LEFT + left, TOP + row as f64 * (HEIGHT + BELOW)), HEIGHT)
    }

    /// Draws a panel's name above it.
    pub(super) fn name(&mut self, (x, y): (f64, f64), name: &str) {
        self.svg.text(text(x, y - 10.0, 14.0, INK, Anchor::Start), name);
    }

    /// Returns the picture.
    pub(super) fn finish(mut self) -> String {
        let top = TOP + self.rows as f64 * (HEIGHT + BELOW);
        self.svg.caption(&self.caption, top);
        self.svg.finish()
    }
}

/// Draws a panel with a mark for each packet that was lost alone. Horizontal: its number on its side.
/// Vertical: its cost divided by its limit.
pub(super) fn marks(sheet: &mut Sheet, place: (f64, f64), (width, height): (f64, f64), costs: &[&Cost]) {
    let (left, top) = place;
    let bottom = top + height;
    let svg = &mut sheet.svg;
    let (_, high, levels) = linear_ticks(costs.iter().map(|cost| cost.of_allowed()).fold(1.0, f64::max));
    let longest = costs.iter().map(|cost| cost.lost[0].number + 1).max().unwrap_or(1) as f64;
    let (_, last, ticks) = linear_ticks(longest);
    let up = |value: f64| bottom - value.clamp(0.0, high) / high * height;
    for level in &levels {
        svg.line((left, up(*level)), (left + width, up(*level)), GRID, 1.0, "");
        svg.text(text(left - 8.0, up(*level) + 4.0, 11.5, SOFT, Anchor::End), &tick_text(*level));
    }
    svg.line((left, up(1.0)), (left + width, up(1.0)), INK, 1.0, "4 3");
    for tick in ticks {
        let x = left + tick / last * width;
        svg.text(text(x, bottom + 18.0, 11.5, SOFT, Anchor::Middle), &tick_text(tick));
    }
    svg.text(
        text(left + width / 2.0, bottom + 35.0, 12.0, SOFT, Anchor::Middle),
        "number of the packet on its side",
    );
    let turned =
        Text { turned: -90.0, ..text(left - LEFT + 14.0, top + height / 2.0, 12.0, SOFT, Anchor::Middle) };
    svg.text(turned, "cost / limit");
    for cost in costs {
        let lost = &cost.lost[0];
        let x = left + (lost.number as f64 + 0.5) / last * width;
        svg.mark(lost.shape(), (x, up(cost.of_allowed())), 3.4, lost.kind().colour());
    }
}

/// The colours of the kinds, as a legend.
pub(super) fn kinds() -> impl Iterator<Item = (&'static str, &'static str, usize)> {
    Kind::ALL.iter().map(|kind| (kind.spoken(), kind.colour(), 0))
}
