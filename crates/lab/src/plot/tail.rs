//! Empirical distributions: the fraction of runs above a value, with both axes logarithmic, so that one run
//! in ten thousand has as much room as one in ten.

use super::svg::{Anchor, GRID, INK, SOFT, Svg, Text, text_width};
use super::{log_ticks, tick_text};

/// The runs of one curve.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub colour: &'static str,
    /// A value for each run. Infinite for a failed run; the curve then ends above the bottom.
    pub values: Vec<f64>,
}

/// The position and labels of a panel.
#[derive(Debug, Clone, Copy)]
pub struct Panel<'a> {
    /// The upper left corner of the plot area.
    pub place: (f64, f64),
    /// Width and height.
    pub size: (f64, f64),
    /// The label below.
    pub x_label: &'a str,
    /// Smaller values are drawn as this one.
    pub floor: f64,
    /// A limit to draw, if there is one.
    pub limit: Option<f64>,
}

/// The label of a fraction on the axis.
fn part_text(part: f64) -> String {
    match part {
        part if part >= 0.001 => format!("{} %", tick_text(part * 100.0)),
        part => format!("1 in {}", tick_text((1.0 / part).round())),
    }
}

/// The curve of values: from the smallest value on, the fraction of larger values.
fn steps(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let mut points = Vec::new();
    // The number of larger values. The last ones are drawn individually, the others in steps of a fiftieth.
    let mut larger = count;
    while larger > 0 {
        let value = sorted[count - larger];
        if !value.is_finite() {
            break;
        }
        points.push((value, larger as f64 / count as f64));
        larger -= (larger / 50).max(1);
    }
    let failed = sorted.iter().filter(|value| !value.is_finite()).count();
    if let Some(worst) = sorted.iter().rev().find(|value| value.is_finite()) {
        points.push((*worst, failed.max(1) as f64 / count as f64));
    }
    points
}

impl Panel<'_> {
    /// Draws the distributions of several curves.
    pub fn draw(&self, svg: &mut Svg, curves: &[Curve]) {
        let ((left, top), (width, height)) = (self.place, self.size);
        let bottom = top + height;
        let text = |x, y, size, colour, anchor| Text { x, y, size, colour, anchor, turned: 0.0 };
        let finite =
            || curves.iter().flat_map(|curve| &curve.values).copied().filter(|value| value.is_finite());
        let smallest = finite().fold(f64::INFINITY, f64::min).max(self.floor);
        let largest = finite().chain(self.limit).fold(smallest, f64::max);
        if !smallest.is_finite() {
            svg.text(text(left + 10.0, top + 20.0, 12.0, SOFT, Anchor::Start), "no run ended");
            return;
        }
        let (low, high, ticks) = log_ticks(smallest, largest);
        let low = low.max(smallest * 0.97);
        let along =
            |value: f64| left + ((value.max(low) / low).ln() / (high / low).ln()).clamp(0.0, 1.0) * width;
        let most = curves.iter().map(|curve| curve.values.len()).max().unwrap_or(1).max(10);
        let decades = (most as f64).log10().ceil();
        let up = |part: f64| top + (-part.log10() / decades).clamp(0.0, 1.0) * height;
        for decade in 0..=decades as i32 {
            let part = 10f64.powi(-decade);
            svg.line((left, up(part)), (left + width, up(part)), GRID, 1.0, "");
            svg.text(text(left - 6.0, up(part) + 4.0, 10.5, SOFT, Anchor::End), &part_text(part));
        }
        let mut last = f64::NEG_INFINITY;
        for tick in ticks.iter().filter(|tick| **tick >= low) {
            let (x, shown) = (along(*tick), tick_text(*tick));
            svg.line((x, bottom), (x, bottom + 4.0), SOFT, 1.0, "");
            let half = text_width(&shown, 11.5) / 2.0;
            if x - half > last + 3.0 {
                svg.text(text(x, bottom + 18.0, 11.5, SOFT, Anchor::Middle), &shown);
                last = x + half;
            }
        }
        if let Some(limit) = self.limit {
            svg.line((along(limit), top), (along(limit), bottom), INK, 1.0, "4 3");
        }
        svg.line((left, bottom), (left + width, bottom), SOFT, 1.2, "");
        svg.text(text(left + width / 2.0, bottom + 35.0, 12.0, SOFT, Anchor::Middle), self.x_label);
        for curve in curves {
            let steps = steps(&curve.values);
            // Vertical at each value, horizontal to the next one.
            let corners = steps.windows(2).flat_map(|pair| [pair[0], (pair[0].0, pair[1].1)]);
            let points: Vec<(f64, f64)> =
                corners.chain(steps.last().copied()).map(|(value, part)| (along(value), up(part))).collect();
            svg.open(&curve.name, &curve.name);
            svg.polyline(&points, curve.colour, 1.8, "");
            // Failed runs: the curve never falls below their fraction.
            let failed = curve.values.iter().any(|value| !value.is_finite());
            if let (true, Some((_, y))) = (failed, points.last()) {
                svg.line((points[points.len() - 1].0, *y), (left + width, *y), curve.colour, 1.4, "2 4");
            }
            svg.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_falls_from_all_runs_to_the_last() {
        let values: Vec<f64> = (1..=1_000).map(f64::from).collect();
        let steps = steps(&values);
        assert_eq!(steps[0], (1.0, 1.0));
        assert_eq!(steps[steps.len() - 2..], [(1_000.0, 0.001), (1_000.0, 0.001)]);
        assert!(steps.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 >= pair[1].1));
        assert!(steps.contains(&(991.0, 0.01)), "the last ones are drawn individually");
        assert!(steps.len() < 300);
    }

    #[test]
    fn a_curve_with_failed_runs_stays_at_their_fraction() {
        let steps = steps(&[1.0, 2.0, f64::INFINITY, 3.0]);
        assert_eq!(steps, [(1.0, 1.0), (2.0, 0.75), (3.0, 0.5), (3.0, 0.25)]);
    }

    #[test]
    fn parts_have_names() {
        assert_eq!([1.0, 0.01, 0.001, 0.0001].map(part_text), ["100 %", "1 %", "0.1 %", "1 in 10 000"]);
    }
}
