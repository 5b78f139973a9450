//! Decides a scenario's claims from its runs.

use super::axes::Axis;
use super::expression::{Claim, Compares, Operator, Sum};
use super::figure::SCENARIO;
use super::names::{self, Meaning, Statistic};
use super::quantity::Dimension;
use crate::claim::{Finding, Holds, Measured};
use crate::figure::{Point, Value};
use crate::stats::{self, Estimate, short};
use crate::table::{Cell, Table};

/// Decides a claim: it holds if, at every point that the claim covers, the 90 % interval of the difference of
/// its sides is on the claimed side of 0.
pub(super) fn decide(claim: &Claim, axes: &[Axis], table: &Table) -> Finding {
    let columns: Vec<&str> = table.sweep().columns.iter().map(|column| column.name).collect();
    let picked = names::picked(claim, axes, &columns).unwrap_or_default();
    let mut groups: Vec<Vec<(&str, Value)>> = Vec::new();
    for (number, point) in table.points().iter().enumerate() {
        let is_about = claim.at.as_ref().is_none_or(|at| names::holds(at, axes, point));
        let group = free(point, &picked);
        if is_about && table.cell(number).runs() > 0 && !groups.contains(&group) {
            groups.push(group);
        }
    }
    let dimension = names::dimension(claim, axes, table.sweep().columns).ok().flatten();
    let tries: Vec<Option<Tried>> =
        groups.iter().map(|group| Tried::new(claim, axes, &columns, table, group)).collect();
    let tried: Vec<&Tried> = tries.iter().flatten().collect();
    let missing = tries.len() - tried.len();
    let Some(worst) = tried.iter().min_by(|a, b| a.margin(claim).total_cmp(&b.margin(claim))) else {
        let why = "no point that it is about was run on all its sides".to_owned();
        let nothing = Measured { what: "nothing".to_owned(), unit: "", value: Estimate::exact(f64::NAN, 0) };
        return Finding::decided(Holds::No, nothing, why);
    };
    let holding = tried.iter().filter(|it| it.holds(claim)).count();
    let place = if worst.place.is_empty() { String::new() } else { format!(" at {}", worst.place) };
    let [left, right] = worst.sides.map(|side| shown(side, dimension));
    let mut why = format!(
        "it holds at {holding} of {}; the closest sides{place}: {left} and {right}",
        stats::count(tried.len(), "point")
    );
    if missing > 0 {
        let lack = if missing == 1 { "lacks" } else { "lack" };
        why.push_str(&format!("; {} {lack} a side", stats::count(missing, "point")));
    }
    if !worst.holds(claim) && worst.is_open() {
        why.push_str(match worst.difference.runs {
            1 => "; one run of what is random has no interval: more runs would tell",
            _ => "; the interval includes 0: more runs would tell",
        });
    }
    let unit = dimension.map_or("", Dimension::base);
    let measured = Measured { what: format!("left - right{place}"), unit, value: worst.difference };
    Finding::decided(Holds::from(holding == tried.len()), measured, why)
}

/// A side of a claim, with its unit.
fn shown(side: f64, dimension: Option<Dimension>) -> String {
    let Some(dimension) = dimension else { return short(side) };
    let (unit, size) = dimension.readable(side);
    format!("{} {unit}", short(side / size))
}

/// The values of a point on the axes on which a claim selects none.
fn free<'a>(point: &'a Point, picked: &[&str]) -> Vec<(&'a str, Value)> {
    point
        .places()
        .iter()
        .filter(|(axis, _)| !picked.contains(axis))
        .map(|(axis, value)| (*axis, *value))
        .collect()
}

/// A claim at a point.
struct Tried {
    place: String,
    /// The left side minus the right side.
    difference: Estimate,
    sides: [f64; 2],
}

impl Tried {
    /// `None` if a side was not run there.
    fn new(
        claim: &Claim,
        axes: &[Axis],
        columns: &[&str],
        table: &Table,
        group: &[(&str, Value)],
    ) -> Option<Self> {
        let terms = [names::terms(&claim.left), names::terms(&claim.right)].concat();
        let (mut samples, mut is_random): (Vec<Vec<f64>>, bool) = (Vec::new(), false);
        let mut statistics = Vec::new();
        for term in terms {
            let meaning = names::meaning(term, axes, columns).ok()?;
            let cell = cell(table, group, &meaning)?;
            is_random |= !(table.sweep().fixed)(cell.point());
            samples.push(cell.values(meaning.column.unwrap_or(table.sweep().columns[0].name)));
            statistics.push(meaning.statistic);
        }
        let sides = |samples: &[Vec<f64>]| {
            let numbers: Vec<f64> =
                samples.iter().zip(&statistics).map(|(sample, statistic)| of(sample, *statistic)).collect();
            let mut numbers = numbers.into_iter();
            [&claim.left, &claim.right].map(|side| value(side, &mut numbers))
        };
        let difference = |samples: &[Vec<f64>]| {
            let [left, right] = sides(samples);
            left - right
        };
        let by_means = statistics.iter().all(|statistic| *statistic == Statistic::Mean);
        let mut difference = if by_means {
            stats::jackknife(&samples, difference)
        } else {
            stats::bootstrap(&samples, difference)
        };
        if is_random && difference.runs == 1 {
            (difference.low, difference.high) = (f64::NEG_INFINITY, f64::INFINITY);
        }
        Some(Self { place: place(group, axes), difference, sides: sides(&samples) })
    }

    fn holds(&self, claim: &Claim) -> bool {
        match claim.compares {
            Compares::Less => self.difference.high < 0.0,
            Compares::LessOrEqual => self.difference.high <= 0.0,
            Compares::Greater => self.difference.low > 0.0,
            _ => self.difference.low >= 0.0,
        }
    }

    /// How far the interval is on the claimed side, as a fraction of the sides.
    fn margin(&self, claim: &Claim) -> f64 {
        let margin = match claim.compares {
            Compares::Less | Compares::LessOrEqual => -self.difference.high,
            _ => self.difference.low,
        };
        let scale = self.sides[0].abs().max(self.sides[1].abs()).max(f64::MIN_POSITIVE);
        if margin.is_nan() { f64::NEG_INFINITY } else { margin / scale }
    }

    fn is_open(&self) -> bool {
        self.difference.low < 0.0 && self.difference.high > 0.0
    }
}

/// The values of a point on these axes, with their units; empty if there is one point.
pub(super) fn place(values: &[(&str, Value)], axes: &[Axis]) -> String {
    let places: Vec<String> = values
        .iter()
        .filter(|(axis, _)| *axis != SCENARIO)
        .map(|(axis, value)| format!("{axis}={value}{}", unit(axis, axes)))
        .collect();
    places.join(" ")
}

/// The unit of the values of an axis, after a space; empty if these have none.
fn unit(axis: &str, axes: &[Axis]) -> String {
    let unit = axes.iter().find(|its| its.name == axis).and_then(|its| its.unit);
    let unit = unit.map_or("", |(dimension, size)| dimension.unit_of(size));
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

/// The runs of the point of a group that a term selects.
fn cell<'a>(table: &'a Table, group: &[(&str, Value)], meaning: &Meaning<'_>) -> Option<Cell<'a>> {
    let has = |point: &Point| {
        group.iter().all(|(axis, value)| point.value(axis) == *value)
            && meaning.picks.iter().all(|(axis, name)| point.value(axis).to_string() == *name)
    };
    let at = table.points().iter().position(has)?;
    Some(table.cell(at)).filter(|cell| cell.runs() > 0)
}

fn of(sample: &[f64], statistic: Statistic) -> f64 {
    match statistic {
        Statistic::Mean => sample.iter().sum::<f64>() / sample.len() as f64,
        Statistic::Quantile(part) => stats::quantile(sample, f64::from(part) / 100.0),
    }
}

/// The value of a side; `numbers` are those of its terms, in order.
fn value(sum: &Sum, numbers: &mut impl Iterator<Item = f64>) -> f64 {
    match sum {
        Sum::Number(literal) => literal.number,
        Sum::Term(_) => numbers.next().unwrap_or(f64::NAN),
        Sum::Minus(sum) => -value(sum, numbers),
        Sum::Both(left, operator, right) => {
            let (left, right) = (value(left, numbers), value(right, numbers));
            match operator {
                Operator::Plus => left + right,
                Operator::Minus => left - right,
                Operator::Times => left * right,
                Operator::Over => left / right,
            }
        }
    }
}
