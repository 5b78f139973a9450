//! The meaning of names in claims and conditions: axes, their values, columns and statistics.

use std::ops::Range;

use super::axes::{Axis, Place};
use super::expression::{
    Claim, Compares, Condition, ExpressionError, Literal, Operand, Operator, Sum, Term, Word,
};
use super::quantity::Dimension;
use super::tree::nearest;
use crate::figure::{Column, Point, Value};

/// The statistics of a column over the runs of a point.
const STATISTICS: &[(&str, Statistic)] = &[
    ("mean", Statistic::Mean),
    ("median", Statistic::Quantile(50)),
    ("p50", Statistic::Quantile(50)),
    ("p75", Statistic::Quantile(75)),
    ("p90", Statistic::Quantile(90)),
    ("p95", Statistic::Quantile(95)),
    ("p99", Statistic::Quantile(99)),
    ("worst", Statistic::Quantile(100)),
];

/// A statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statistic {
    /// The mean.
    Mean,
    /// A quantile in per cent.
    Quantile(u8),
}

/// The meaning of a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meaning<'a> {
    /// The statistic.
    pub statistic: Statistic,
    /// The column; `None`: the first.
    pub column: Option<&'a str>,
    /// The selected values: axis and name.
    pub picks: Vec<(&'a str, &'a str)>,
}

fn wrong(word: &Word, what: String) -> ExpressionError {
    ExpressionError { span: word.span.clone(), what }
}

/// The axis that has a name as a value.
fn axis_of<'a>(axes: &'a [Axis], word: &Word) -> Result<Option<(&'a str, &'a str)>, ExpressionError> {
    let mut found = axes
        .iter()
        .flat_map(|axis| axis.choices.iter().map(move |choice| (axis, &choice.place)))
        .filter_map(|(axis, place)| match place {
            Place::Name(name) if *name == word.text => Some((axis.name.as_str(), name.as_str())),
            _ => None,
        });
    match (found.next(), found.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(wrong(word, format!("`{}` is a value of both `{first}` and `{second}`", word.text)))
        }
        (found, _) => Ok(found),
    }
}

/// The meaning of a term.
///
/// # Errors
///
/// A name is unknown, or not permitted in its place.
pub(super) fn meaning<'a>(
    term: &'a Term,
    axes: &'a [Axis],
    columns: &[&'a str],
) -> Result<Meaning<'a>, ExpressionError> {
    let mut meaning = Meaning { statistic: Statistic::Mean, column: None, picks: Vec::new() };
    let column = |word: &Word| columns.iter().find(|column| **column == word.text).copied();
    let unknown = |word: &Word| {
        let values = axes.iter().flat_map(|axis| &axis.choices).filter_map(|choice| match &choice.place {
            Place::Name(name) => Some(name.as_str()),
            Place::Number(_) => None,
        });
        let known = values.chain(columns.iter().copied()).chain(STATISTICS.iter().map(|(name, _)| *name));
        wrong(
            word,
            format!("nothing is called `{}`; {}", word.text.escape_debug(), nearest(&word.text, known)),
        )
    };
    if term.of.is_empty() {
        match axis_of(axes, &term.name)? {
            Some(pick) => meaning.picks.push(pick),
            None => meaning.column = Some(column(&term.name).ok_or_else(|| unknown(&term.name))?),
        }
        return Ok(meaning);
    }
    match STATISTICS.iter().find(|(name, _)| *name == term.name.text) {
        // A column may have the name of a statistic, as in `p95` of completion times.
        Some((_, statistic)) if column(&term.name).is_none() => meaning.statistic = *statistic,
        _ => meaning.column = Some(column(&term.name).ok_or_else(|| unknown(&term.name))?),
    }
    for word in &term.of {
        match axis_of(axes, word)? {
            Some(pick) if meaning.picks.iter().any(|(axis, _)| *axis == pick.0) => {
                return Err(wrong(word, format!("two values of axis `{}`", pick.0)));
            }
            Some(pick) => meaning.picks.push(pick),
            None if meaning.column.is_none() => {
                meaning.column = Some(column(word).ok_or_else(|| unknown(word))?)
            }
            None => return Err(unknown(word)),
        }
    }
    Ok(meaning)
}

/// The terms of an expression.
pub(super) fn terms(sum: &Sum) -> Vec<&Term> {
    match sum {
        Sum::Number(_) => Vec::new(),
        Sum::Term(term) => vec![term],
        Sum::Minus(sum) => terms(sum),
        Sum::Both(left, _, right) => [terms(left), terms(right)].concat(),
    }
}

/// The axes on which the terms of a claim select values.
pub(super) fn picked<'a>(
    claim: &'a Claim,
    axes: &'a [Axis],
    columns: &[&'a str],
) -> Result<Vec<&'a str>, ExpressionError> {
    let mut picked: Option<Vec<&str>> = None;
    for term in [terms(&claim.left), terms(&claim.right)].concat() {
        let mut its: Vec<&str> = meaning(term, axes, columns)?.picks.iter().map(|(axis, _)| *axis).collect();
        its.sort_unstable();
        match &picked {
            Some(others) if *others != its => {
                let what = "each part of a claim names a value of the same axes: write column(value)";
                return Err(wrong(&term.name, what.to_owned()));
            }
            _ => picked = Some(its),
        }
    }
    Ok(picked.unwrap_or_default())
}

/// Checks the names of a claim.
///
/// # Errors
///
/// A name is unknown, or the claim compares no measured value.
pub(super) fn check_claim(claim: &Claim, axes: &[Axis], measured: &[Column]) -> Result<(), ExpressionError> {
    let names: Vec<&str> = measured.iter().map(|column| column.name).collect();
    if terms(&claim.left).is_empty() && terms(&claim.right).is_empty() {
        return Err(ExpressionError { span: 0..1, what: "a claim is about something measured".to_owned() });
    }
    let picked = picked(claim, axes, &names)?;
    dimension(claim, axes, measured)?;
    let Some(at) = &claim.at else { return Ok(()) };
    check_condition(at, axes)?;
    match tested(at).into_iter().find(|word| picked.contains(&word.text.as_str())) {
        Some(word) => Err(wrong(word, format!("the claim itself names values of `{}`", word.text))),
        None => Ok(()),
    }
}

/// What a side of a claim is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A number without a unit: a count, a fraction or a ratio.
    Plain,
    /// The number 0, which every kind has.
    Zero,
    /// A quantity.
    Of(Dimension),
    /// A product or a quotient for which there are no units.
    Unknown,
}

/// Returns the dimension of the sides of a claim; `None`: they are numbers without a unit.
///
/// # Errors
///
/// Quantities of different dimensions are compared or added.
pub(super) fn dimension(
    claim: &Claim,
    axes: &[Axis],
    columns: &[Column],
) -> Result<Option<Dimension>, ExpressionError> {
    let (left, right) = (kind(&claim.left, axes, columns)?, kind(&claim.right, axes, columns)?);
    Ok(match alike(&left, &right)? {
        Kind::Of(dimension) => Some(dimension),
        Kind::Plain | Kind::Zero | Kind::Unknown => None,
    })
}

/// The kind of a sum, and the place of its last number or name.
fn kind(sum: &Sum, axes: &[Axis], columns: &[Column]) -> Result<(Kind, Range<usize>), ExpressionError> {
    Ok(match sum {
        Sum::Number(Literal { number, dimension, span }) => {
            let kind = match dimension {
                None if *number == 0.0 => Kind::Zero,
                None | Some(Dimension::Fraction | Dimension::Packets) => Kind::Plain,
                Some(dimension) => Kind::Of(*dimension),
            };
            (kind, span.clone())
        }
        Sum::Term(term) => {
            let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
            let named = meaning(term, axes, &names)?.column;
            let column = columns.iter().find(|column| named.is_none_or(|name| name == column.name));
            let dimension = column.and_then(|column| Dimension::of_column(column.unit));
            (dimension.map_or(Kind::Plain, Kind::Of), term.name.span.clone())
        }
        Sum::Minus(sum) => kind(sum, axes, columns)?,
        Sum::Both(left, operator, right) => {
            let (left, right) = (kind(left, axes, columns)?, kind(right, axes, columns)?);
            let kind = match (operator, left.0, right.0) {
                (Operator::Over, _, Kind::Zero) => {
                    let what = "a number cannot be divided by 0".to_owned();
                    return Err(ExpressionError { span: right.1, what });
                }
                (Operator::Plus | Operator::Minus, ..) => alike(&left, &right)?,
                (_, kind, Kind::Plain) | (Operator::Times, Kind::Plain, kind) => kind,
                (Operator::Over, one, other) if one == other => Kind::Plain,
                _ => Kind::Unknown,
            };
            (kind, right.1)
        }
    })
}

/// The kind that two sides share.
fn alike(
    (left, _): &(Kind, Range<usize>),
    (right, span): &(Kind, Range<usize>),
) -> Result<Kind, ExpressionError> {
    let named = |kind: Kind| match kind {
        Kind::Of(dimension) => dimension.to_string(),
        _ => "a number without a unit".to_owned(),
    };
    match (*left, *right) {
        (Kind::Unknown, _) | (_, Kind::Unknown) => Ok(Kind::Unknown),
        (one, Kind::Zero) => Ok(one),
        (Kind::Zero, other) => Ok(other),
        (one, other) if one == other => Ok(one),
        (one, other) => {
            let example = match (one, other) {
                (Kind::Of(dimension), _) | (_, Kind::Of(dimension)) => dimension.example(),
                _ => "",
            };
            let (one, other) = (named(one), named(other));
            let what = format!(
                "this is {other}, and what stands before it is {one}; a quantity is written as in {example}"
            );
            Err(ExpressionError { span: span.clone(), what })
        }
    }
}

fn tested(condition: &Condition) -> Vec<&Word> {
    match condition {
        Condition::Test(axis, ..) => vec![axis],
        Condition::All(parts) | Condition::Any(parts) => parts.iter().flat_map(tested).collect(),
    }
}

/// Checks the names of a condition.
///
/// # Errors
///
/// An axis or a value is unknown, or is compared with a value of another kind.
pub(super) fn check_condition(condition: &Condition, axes: &[Axis]) -> Result<(), ExpressionError> {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => {
            parts.iter().try_for_each(|part| check_condition(part, axes))
        }
        Condition::Test(word, compares, operand) => {
            let known = axes.iter().map(|axis| axis.name.as_str());
            let axis = axes.iter().find(|axis| axis.name == word.text);
            let axis = axis.ok_or_else(|| {
                wrong(word, format!("no axis `{}`; {}", word.text.escape_debug(), nearest(&word.text, known)))
            })?;
            check_test(axis, *compares, operand)
        }
    }
}

fn check_test(axis: &Axis, compares: Compares, operand: &Operand) -> Result<(), ExpressionError> {
    let names: Vec<&str> = axis
        .choices
        .iter()
        .filter_map(|choice| match &choice.place {
            Place::Name(name) => Some(name.as_str()),
            Place::Number(_) => None,
        })
        .collect();
    match operand {
        Operand::Name(word) if names.is_empty() => {
            Err(wrong(word, format!("axis `{}` has numbers, not names", axis.name)))
        }
        Operand::Name(word) if !matches!(compares, Compares::Equal | Compares::NotEqual) => {
            Err(wrong(word, "names are equal or not: compare with = or !=".to_owned()))
        }
        Operand::Name(word) if !names.contains(&word.text.as_str()) => {
            let what = format!(
                "axis `{}` has no value `{}`; {}",
                axis.name,
                word.text.escape_debug(),
                nearest(&word.text, names)
            );
            Err(wrong(word, what))
        }
        Operand::Name(_) => Ok(()),
        Operand::Number(literal) => {
            let error = |what: String| Err(ExpressionError { span: literal.span.clone(), what });
            if !names.is_empty() {
                return error(format!("axis `{}` has names, not numbers", axis.name));
            }
            match (literal.dimension, axis.unit) {
                (Some(its), Some((dimension, _))) if its != dimension => {
                    error(format!("axis `{}` is {dimension}, as in {}", axis.name, dimension.example()))
                }
                (None, Some((dimension, _)))
                    if literal.number != 0.0 && dimension != super::quantity::Dimension::Fraction =>
                {
                    error(format!("axis `{}` is {dimension}, as in {}", axis.name, dimension.example()))
                }
                (Some(its), None) if its != super::quantity::Dimension::Fraction => {
                    error(format!("axis `{}` has numbers without a unit", axis.name))
                }
                _ => Ok(()),
            }
        }
    }
}

/// A number in the unit of an axis.
fn scaled(literal: &Literal, axis: &Axis) -> f64 {
    match (literal.dimension, axis.unit) {
        (Some(_), Some((_, scale))) => literal.number / scale,
        _ => literal.number,
    }
}

/// Whether a point satisfies a checked condition.
pub(super) fn holds(condition: &Condition, axes: &[Axis], point: &Point) -> bool {
    match condition {
        Condition::All(parts) => parts.iter().all(|part| holds(part, axes, point)),
        Condition::Any(parts) => parts.iter().any(|part| holds(part, axes, point)),
        Condition::Test(word, compares, operand) => {
            let Some(axis) = axes.iter().find(|axis| axis.name == word.text) else { return false };
            match (point.value(&axis.name), operand) {
                (Value::Number(number), Operand::Number(literal)) => {
                    let other = scaled(literal, axis);
                    // Equal texts denote equal values in any unit.
                    let other = if (number - other).abs() <= 1e-12 * number.abs() { number } else { other };
                    compares.holds(number, other)
                }
                (Value::Name(name), Operand::Name(word)) => {
                    (*compares == Compares::Equal) == (name == word.text)
                }
                _ => false,
            }
        }
    }
}
