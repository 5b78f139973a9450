//! Reads the values of a checked table at a point, with references replaced by their values.

use std::time::Duration;

use super::axes::{Reference, Scope};
use super::quantity::{self, Dimension, Quantity};
use super::tree::{Node, Value, Wrong};

/// A table at a point.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// The table.
    pub node: &'a Node,
    scope: &'a Scope,
    picks: &'a [usize],
}

impl<'a> View<'a> {
    /// The table at the point with these choices.
    pub(super) fn new(node: &'a Node, scope: &'a Scope, picks: &'a [usize]) -> Self {
        Self { node, scope, picks }
    }

    /// The scope of references.
    pub(super) fn scope(self) -> &'a Scope {
        self.scope
    }

    /// Another table at the same point.
    #[must_use]
    pub(super) fn of(self, node: &'a Node) -> Self {
        Self { node, ..self }
    }

    /// Resolves a value that may be a reference.
    pub(super) fn resolve(self, node: &'a Node) -> &'a Node {
        match Reference::of(node) {
            Some(reference) => self.scope.at(node, reference, self.picks).unwrap_or(node),
            None => node,
        }
    }

    /// The value of a key.
    pub(super) fn get(self, key: &str) -> Option<&'a Node> {
        self.node.get(key).map(|node| self.resolve(node))
    }

    /// The table of a key.
    pub(super) fn table(self, key: &str) -> Option<Self> {
        self.get(key).map(|node| self.of(node))
    }

    /// The values of a list.
    pub(super) fn list(self, key: &str) -> Vec<&'a Node> {
        self.get(key).map_or(&[][..], Node::list).iter().map(|node| self.resolve(node)).collect()
    }

    /// A text.
    pub(super) fn text(self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(Node::text)
    }

    /// A list of texts.
    pub(super) fn texts(self, key: &str) -> Vec<&'a str> {
        self.list(key).into_iter().filter_map(Node::text).collect()
    }

    /// Whether a key is `true`.
    pub(super) fn flag(self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// A number.
    pub(super) fn number(self, key: &str) -> Option<f64> {
        self.get(key).and_then(Node::number)
    }

    /// A whole number.
    pub(super) fn count(self, key: &str) -> Option<u64> {
        self.number(key).map(|number| number as u64)
    }

    /// A rate in bits per second.
    pub(super) fn rate(self, key: &str) -> Option<f64> {
        of(self.get(key)?, Dimension::Rate)
    }

    /// A time.
    pub(super) fn time(self, key: &str) -> Option<Duration> {
        time(self.get(key)?)
    }

    /// A number of bytes.
    pub(super) fn bytes(self, key: &str) -> Option<u64> {
        of(self.get(key)?, Dimension::Bytes).map(|bytes| bytes.round() as u64)
    }

    /// A fraction.
    pub(super) fn fraction(self, key: &str) -> Option<f64> {
        of(self.get(key)?, Dimension::Fraction)
    }

    /// An error about a key, or about the table if it lacks the key.
    pub(super) fn wrong(self, key: &str, what: impl Into<String>) -> Wrong {
        Wrong::at(self.get(key).unwrap_or(self.node), what)
    }
}

/// A quantity in its base unit.
pub(super) fn of(node: &Node, dimension: Dimension) -> Option<f64> {
    match &node.value {
        Value::Text(text) => quantity::of(dimension, text).ok(),
        Value::Number(number) if dimension == Dimension::Fraction => Some(*number),
        _ => None,
    }
}

/// A quantity of any dimension.
pub(super) fn any(node: &Node) -> Option<Quantity> {
    node.text().and_then(quantity::parse)
}

/// A time, at most a century.
pub(super) fn time(node: &Node) -> Option<Duration> {
    let seconds = of(node, Dimension::Time)?.min(3_155_760_000.0);
    Some(Duration::from_nanos((seconds * 1e9).round() as u64))
}
