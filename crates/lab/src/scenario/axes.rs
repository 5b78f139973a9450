//! The axes of a scenario: their values, and the meaning of `$NAME` in other values at a point.

use std::cell::RefCell;
use std::collections::BTreeSet;

use braidftp_cc as cc;

use super::quantity::{self, Dimension, Quantity};
use super::tree::{Entry, Node, Value, Wrong, nearest};
use crate::stats;

/// The maximum number of values of an axis.
const VALUES_MAX: usize = 10_000;
/// The keys of a table value that are not parameters.
const OWN_KEYS: [&str; 2] = ["name", "label"];

/// A varied parameter.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// Its name.
    pub name: String,
    /// Its label in pictures.
    pub label: String,
    /// Its values.
    pub choices: Vec<Choice>,
    /// Whether runs that differ only in this axis have the same seeds.
    pub paired: bool,
    /// For quantities: the dimension, and the size of the unit in tables.
    pub unit: Option<(Dimension, f64)>,
    /// The position of its name in the file.
    span: std::ops::Range<usize>,
}

/// A value of an axis.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    /// The value in tables.
    pub place: Place,
    /// The label in pictures.
    pub label: String,
    /// The value in the file.
    node: Node,
}

/// A value as in tables.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Place {
    /// A number.
    Number(f64),
    /// A name.
    Name(String),
}

/// Reads all axes.
///
/// # Errors
///
/// An error with its position in the file.
pub(super) fn read(root: &Node) -> Result<Vec<Axis>, Wrong> {
    let mut axes: Vec<Axis> = Vec::new();
    for node in root.get("axis").map_or(&[][..], Node::list) {
        let axis = one(node)?;
        if ["run", "seed"].contains(&axis.name.as_str()) || axes.iter().any(|other| other.name == axis.name) {
            let what = format!("there is another axis or column `{}`", axis.name);
            return Err(Wrong { span: axis.span, what });
        }
        axes.push(axis);
    }
    Ok(axes)
}

fn one(node: &Node) -> Result<Axis, Wrong> {
    let needs = |key: &str| node.get(key).ok_or_else(|| Wrong::at(node, format!("[[axis]] needs `{key}`")));
    let name_node = needs("name")?;
    let name = name_node.text().filter(|name| is_name(name)).ok_or_else(|| {
        Wrong::at(name_node, format!("{} is not a name: letters, digits, `_` and `-`", name_node.shown()))
    })?;
    let values = needs("values")?;
    let list = values.list();
    if list.is_empty() || list.len() > VALUES_MAX {
        return Err(Wrong::at(values, format!("an axis has a list of 1 to {VALUES_MAX} values")));
    }
    if let Some(inner) = list.iter().find_map(referring) {
        let what = format!("{} stands for a value of an axis, and cannot be one itself", inner.shown());
        return Err(Wrong::at(inner, what));
    }
    let unit = unit(node, list)?;
    let labels = node.get("labels").map(Node::list);
    if let (Some(labels), Some(at)) = (labels, node.get("labels"))
        && labels.len() != list.len()
    {
        return Err(Wrong::at(at, format!("there are {} labels for {} values", labels.len(), list.len())));
    }
    let mut choices: Vec<Choice> = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let label = labels.and_then(|labels| labels[at].text());
        let choice = choice(value, label, unit)?;
        if choices.iter().any(|other| other.place == choice.place) {
            return Err(Wrong::at(value, format!("axis `{name}` has the value {} twice", value.shown())));
        }
        choices.push(choice);
    }
    let is_number = |choice: &Choice| matches!(choice.place, Place::Number(_));
    if !choices.iter().all(|choice| is_number(choice) == is_number(&choices[0])) {
        return Err(Wrong::at(values, "an axis has numbers or names, not both"));
    }
    Ok(Axis {
        name: name.to_owned(),
        label: node.get("label").and_then(Node::text).unwrap_or(name).to_owned(),
        choices,
        paired: node.get("paired").is_some_and(|node| node.value == Value::Flag(true)),
        unit,
        span: name_node.span.clone(),
    })
}

/// The first part of a value that refers to an axis.
fn referring(value: &Node) -> Option<&Node> {
    if Reference::of(value).is_some() {
        return Some(value);
    }
    value.list().iter().chain(value.entries().iter().map(|entry| &entry.node)).find_map(referring)
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_letter)
}

/// The dimension of the values of an axis, and their unit in tables.
fn unit(node: &Node, values: &[Node]) -> Result<Option<(Dimension, f64)>, Wrong> {
    let quantities: Vec<Option<Quantity>> =
        values.iter().map(|value| value.text().and_then(quantity::parse)).collect();
    let first = quantities.iter().flatten().next();
    let chosen = match node.get("in") {
        None => None,
        Some(at) => {
            let unit = at.text().and_then(quantity::unit);
            Some(unit.ok_or_else(|| {
                // Of the dimension of the values, if these have one.
                let all = [Dimension::Rate, Dimension::Time, Dimension::Bytes, Dimension::Packets];
                let of = first.map_or(&all[..], |first| std::slice::from_ref(&first.dimension));
                let known = of.iter().flat_map(|dimension| dimension.units());
                Wrong::at(
                    at,
                    format!("{} is no unit; {}", at.shown(), nearest(at.text().unwrap_or(""), known)),
                )
            })?)
        }
    };
    let Some(Quantity { dimension, .. }) = first else {
        return match node.get("in") {
            Some(at) if values.iter().any(|value| value.number().is_none()) => {
                Err(Wrong::at(at, "the values of this axis are no quantities"))
            }
            _ => Ok(None),
        };
    };
    if let Some(at) = quantities.iter().position(|it| it.is_none_or(|it| it.dimension != *dimension)) {
        return Err(Wrong::at(&values[at], format!("the other values of this axis are each {dimension}")));
    }
    match chosen {
        Some((its, _)) if its != *dimension => {
            let at = node.get("in").unwrap_or(node);
            Err(Wrong::at(
                at,
                format!("this is a unit of {its}, and the values of this axis are each {dimension}"),
            ))
        }
        Some(unit) => Ok(Some(unit)),
        None => Ok(Some((*dimension, 1.0))),
    }
}

fn choice(node: &Node, label: Option<&str>, unit: Option<(Dimension, f64)>) -> Result<Choice, Wrong> {
    let (place, written) = match &node.value {
        Value::Number(number) => (Place::Number(*number), stats_text(*number)),
        Value::Text(text) => match (quantity::parse(text), unit) {
            (Some(quantity), Some((_, scale))) => {
                let number = quantity.number / scale;
                // A whole number in its unit stays one.
                let whole = number.round();
                let is_whole = (number - whole).abs() < 1e-9 * whole.abs();
                (Place::Number(if is_whole { whole } else { number }), text.clone())
            }
            _ => (Place::Name(text.clone()), text.clone()),
        },
        Value::Flag(flag) => (Place::Name(flag.to_string()), flag.to_string()),
        Value::Table(_) => {
            let name = node.get("name").and_then(Node::text);
            let name = name.ok_or_else(|| Wrong::at(node, "a value that is a table needs a `name`"))?;
            let label = node.get("label").and_then(Node::text).unwrap_or(name);
            (Place::Name(name.to_owned()), label.to_owned())
        }
        Value::List(_) => {
            return Err(Wrong::at(
                node,
                "a list is no value: write a table, { name = \"..\", key = [..] }, and \"$axis.key\"",
            ));
        }
    };
    if let Place::Name(name) = &place
        && name.is_empty()
    {
        return Err(Wrong::at(node, "a value has a name that is not empty"));
    }
    Ok(Choice { place, label: label.map_or(written, str::to_owned), node: node.clone() })
}

fn stats_text(number: f64) -> String {
    if number == number.trunc() { number.to_string() } else { stats::short(number) }
}

impl Axis {
    /// Checks that a value has a key, if values are tables.
    fn check_key(&self, node: &Node, key: &str) -> Result<(), Wrong> {
        let entries = || self.choices.iter().flat_map(|choice| choice.node.entries());
        if entries().next().is_none() || entries().any(|entry| entry.key == key) {
            return Ok(());
        }
        let mut known: Vec<&str> = entries().map(|entry| entry.key.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let what = format!(
            "no value of axis `{}` has a `{}`; {}",
            self.name,
            key.escape_debug(),
            nearest(key, known)
        );
        Err(Wrong::at(node, what))
    }
}

/// A reference to an axis, as in `$size` or `$variant.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    /// The axis.
    pub axis: &'a str,
    /// The key of a value that is a table.
    pub key: Option<&'a str>,
}

impl<'a> Reference<'a> {
    /// The reference of a value, if the value is one.
    pub(super) fn of(node: &'a Node) -> Option<Self> {
        let name = node.text()?.strip_prefix('$')?;
        Some(match name.split_once('.') {
            Some((axis, key)) => Self { axis, key: Some(key) },
            None => Self { axis: name, key: None },
        })
    }
}

/// The axes, and the controllers that the program adds to the built-in ones.
#[derive(Debug)]
pub(super) struct Scope {
    /// The axes.
    pub axes: Vec<Axis>,
    /// The additional controllers.
    pub controllers: Vec<cc::External>,
}

/// The axes, and the keys of their values, that are used so far.
#[derive(Debug, Default)]
pub(super) struct Uses(RefCell<BTreeSet<(usize, Option<String>)>>);

impl Scope {
    /// The controller with this name, with its parameters if any.
    ///
    /// # Errors
    ///
    /// There is none; the error lists the known ones.
    pub(super) fn controller(&self, text: &str) -> Result<cc::Choice, String> {
        match self.controllers.iter().find(|external| external.name == text) {
            Some(external) => Ok(cc::Choice::from(cc::Kind::External(*external))),
            None => text.parse().map_err(|error: cc::ChoiceError| {
                let own = self.controllers.iter().map(|external| format!(", {}", external.name));
                let name = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or("");
                let known: Vec<&str> = cc::Kind::ALL
                    .iter()
                    .map(|kind| kind.name())
                    .chain(self.controllers.iter().map(|external| external.name))
                    .collect();
                let meant = match nearest(name, known.iter().copied()) {
                    meant if meant.starts_with("did you mean") && !known.contains(&name) => {
                        format!("; {meant}")
                    }
                    _ => String::new(),
                };
                format!("{error}{}{meant}", own.collect::<String>())
            }),
        }
    }

    /// All nodes that a reference may refer to; its use is recorded.
    ///
    /// # Errors
    ///
    /// There is no such axis, or a value lacks the key.
    pub(super) fn all(
        &self,
        node: &Node,
        reference: Reference<'_>,
        uses: &Uses,
    ) -> Result<Vec<&Node>, Wrong> {
        let at = self.axis(node, reference)?;
        if let Some(key) = reference.key {
            self.axes[at].check_key(node, key)?;
        }
        uses.0.borrow_mut().insert((at, reference.key.map(str::to_owned)));
        self.axes[at].choices.iter().map(|choice| value(&self.axes[at], choice, node, reference)).collect()
    }

    /// The node that a reference refers to at a point, which has a choice on each axis.
    ///
    /// # Errors
    ///
    /// As [`Scope::all`].
    pub(super) fn at(&self, node: &Node, reference: Reference<'_>, picks: &[usize]) -> Result<&Node, Wrong> {
        let at = self.axis(node, reference)?;
        value(&self.axes[at], &self.axes[at].choices[picks[at]], node, reference)
    }

    fn axis(&self, node: &Node, reference: Reference<'_>) -> Result<usize, Wrong> {
        self.axes.iter().position(|axis| axis.name == reference.axis).ok_or_else(|| {
            let known = self.axes.iter().map(|axis| axis.name.as_str());
            Wrong::at(
                node,
                format!("no axis `{}`; {}", reference.axis.escape_debug(), nearest(reference.axis, known)),
            )
        })
    }

    /// Checks that every axis and every key of its values is used.
    ///
    /// # Errors
    ///
    /// The first unused one.
    pub(super) fn check_use(&self, uses: &Uses) -> Result<(), Wrong> {
        let used = uses.0.borrow();
        for (at, axis) in self.axes.iter().enumerate() {
            if !used.iter().any(|(its, _)| *its == at) {
                let what =
                    format!("axis `{}` changes nothing: write \"${0}\" where its value belongs", axis.name);
                return Err(Wrong { span: axis.span.clone(), what });
            }
            let entries = axis.choices.iter().flat_map(|choice| choice.node.entries());
            let is_used = |entry: &&Entry| {
                OWN_KEYS.contains(&entry.key.as_str()) || used.contains(&(at, Some(entry.key.clone())))
            };
            if let Some(entry) = entries.into_iter().find(|entry| !is_used(entry)) {
                let keys: Vec<&str> =
                    used.iter().filter(|(its, _)| *its == at).filter_map(|(_, key)| key.as_deref()).collect();
                let hint =
                    if keys.is_empty() { String::new() } else { format!("; {}", nearest(&entry.key, keys)) };
                let what =
                    format!("`{}` changes nothing: \"${}.{0}\" is nowhere{hint}", entry.key, axis.name);
                return Err(Wrong { span: entry.span.clone(), what });
            }
        }
        Ok(())
    }
}

fn value<'a>(
    axis: &Axis,
    choice: &'a Choice,
    node: &Node,
    reference: Reference<'_>,
) -> Result<&'a Node, Wrong> {
    match reference.key {
        None => match choice.node.value {
            Value::Table(_) => Ok(choice.node.get("name").expect("a value that is a table has a name")),
            _ => Ok(&choice.node),
        },
        Some(key) => choice.node.get(key).ok_or_else(|| match choice.node.value {
            Value::Table(_) => Wrong::at(
                &choice.node,
                format!("this value lacks `{key}`, which \"${}.{key}\" needs", axis.name),
            ),
            _ => Wrong::at(node, format!("the values of axis `{}` are no tables with keys", axis.name)),
        }),
    }
}
