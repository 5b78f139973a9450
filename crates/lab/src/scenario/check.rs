//! Checks a file against the reference: unknown keys, missing keys, and invalid values.

use super::axes::{Reference, Scope, Uses};
use super::expression;
use super::quantity;
use super::shape::{FILE, Field, Names, Shape, Takes};
use super::tree::{Entry, Node, Value, Wrong, nearest};

/// The names in a file.
#[derive(Debug)]
pub(super) struct Known<'a> {
    scope: &'a Scope,
    uses: Uses,
    hosts: Vec<&'a str>,
    links: Vec<&'a str>,
    paths: Vec<&'a str>,
    transports: Vec<&'a str>,
}

/// Checks a file.
///
/// # Errors
///
/// The first problem.
pub(super) fn check(root: &Node, scope: &Scope) -> Result<(), Wrong> {
    let keys = |key: &str| {
        root.get(key).map_or(&[][..], Node::entries).iter().map(|entry| entry.key.as_str()).collect()
    };
    let hosts = root
        .get("hosts")
        .map_or_else(|| vec!["client", "server"], |node| node.list().iter().filter_map(Node::text).collect());
    let paths = root.get("path").map_or(&[][..], Node::list);
    let first = |path: &'_ Node| {
        path.get("via").and_then(|via| via.list().first()).and_then(Node::text).map(str::to_owned)
    };
    let named: Vec<String> = paths
        .iter()
        .filter_map(|path| path.get("name").and_then(Node::text).map(str::to_owned).or_else(|| first(path)))
        .collect();
    let uses = Uses::default();
    let mut known =
        Known { scope, uses, hosts, links: keys("links"), paths: Vec::new(), transports: keys("transports") };
    known.paths =
        if paths.is_empty() { known.links.clone() } else { named.iter().map(String::as_str).collect() };
    table(root, &FILE, &known)?;
    scope.check_use(&known.uses)
}

fn table(node: &Node, shape: &Shape, known: &Known<'_>) -> Result<(), Wrong> {
    let Value::Table(entries) = &node.value else {
        return Err(Wrong::at(node, format!("{} is a table, not {}", shape.name, node.shown())));
    };
    for entry in entries {
        let field = shape.fields.iter().find(|field| field.key == entry.key);
        let field = field.ok_or_else(|| unknown(entry, shape))?;
        value(&entry.node, &field.takes, field, known)?;
    }
    if let Some(field) =
        shape.fields.iter().find(|field| field.default.is_none() && node.get(field.key).is_none())
    {
        return Err(Wrong::at(node, format!("{} needs `{}`: {}", shape.name, field.key, field.says)));
    }
    Ok(())
}

fn unknown(entry: &Entry, shape: &Shape) -> Wrong {
    if let Some(inner) = shape.fields.iter().find(|field| field.takes.has_key(&entry.key)) {
        let (key, inner) = (&entry.key, inner.key);
        let what =
            format!("{} has no key `{key}`, but `{inner}` has: {inner} = {{ {key} = .. }}", shape.name);
        return Wrong { span: entry.span.clone(), what };
    }
    let keys = shape.fields.iter().map(|field| field.key);
    let what =
        format!("{} has no key `{}`; {}", shape.name, entry.key.escape_debug(), nearest(&entry.key, keys));
    Wrong { span: entry.span.clone(), what }
}

fn value(node: &Node, takes: &Takes, field: &Field, known: &Known<'_>) -> Result<(), Wrong> {
    let is_text = matches!(takes, Takes::Text) && !matches!(field.key, "trace" | "file");
    if let Some(reference) = Reference::of(node)
        && !is_text
    {
        for choice in known.scope.all(node, reference, &known.uses)? {
            value(choice, takes, field, known)?;
        }
        return Ok(());
    }
    let is_not = |what: &str| Wrong::at(node, format!("`{}` is {what}, not {}", field.key, node.shown()));
    match takes {
        Takes::Text => node.text().map(drop).ok_or_else(|| is_not("a text in quotes")),
        Takes::Flag => match node.value {
            Value::Flag(_) => Ok(()),
            _ => Err(is_not("true or false")),
        },
        Takes::Count(least, most) => {
            let number = node.number().filter(|number| number.fract() == 0.0);
            let fits = number.is_some_and(|number| (*least as f64..=*most as f64).contains(&number));
            if fits { Ok(()) } else { Err(is_not(&format!("a whole number from {least} to {most}"))) }
        }
        Takes::Number => match node.number() {
            Some(number) if number > 0.0 => Ok(()),
            _ => Err(is_not("a number above 0")),
        },
        Takes::Quantity(dimensions) => quantity_of(node, dimensions, field),
        Takes::Word(words) => {
            let words = words();
            match node.text() {
                Some(text) if words.contains(&text) => Ok(()),
                Some(text) => {
                    let what =
                        format!("`{}` cannot be {}; {}", field.key, node.shown(), nearest(text, words));
                    Err(Wrong::at(node, what))
                }
                None => Err(is_not(&format!("one of {}", words.join(", ")))),
            }
        }
        Takes::Name(names) => name(node, *names, field, known),
        Takes::Parsed(what, check) => parsed(node, what, *check, field),
        Takes::Controller => {
            let text = node.text().ok_or_else(|| is_not("a congestion controller in quotes"))?;
            let choice = known.scope.controller(text);
            choice.map(drop).map_err(|error| Wrong::at(node, format!("`{}`: {error}", field.key)))
        }
        Takes::List(each) => list(node, each, field, known),
        Takes::Tuple(each, count) => match &node.value {
            Value::List(list) if list.len() == *count => {
                list.iter().try_for_each(|item| value(item, each, field, known))
            }
            _ => Err(is_not(&format!("a list of {count} values"))),
        },
        Takes::Table(shape) => table(node, shape, known),
        Takes::Map(each) => map(node, each, field, known),
        Takes::Tagged(tag, shapes) => tagged(node, tag, shapes, field, known),
        Takes::Either(several) => either(node, several, field, known),
        Takes::Values => Ok(()),
    }
}

fn list(node: &Node, each: &Takes, field: &Field, known: &Known<'_>) -> Result<(), Wrong> {
    let key = field.key;
    let Value::List(list) = &node.value else {
        return Err(Wrong::at(
            node,
            match (&node.value, each) {
                (Value::Table(_), Takes::Table(_) | Takes::Tagged(..)) => {
                    format!("`{key}` may be there several times: write [[{key}]]")
                }
                _ => format!("`{key}` is a list in brackets, not {}", node.shown()),
            },
        ));
    };
    let is_scalar = |item: &&Node| item.list().is_empty() && Reference::of(item).is_none();
    if let (Takes::Tuple(_, count), Some(item)) = (each, list.iter().find(is_scalar)) {
        let what = format!("`{key}` is a list of lists of {count} values, and this is {}", item.shown());
        return Err(Wrong::at(item, what));
    }
    list.iter().try_for_each(|item| value(item, each, field, known))
}

fn map(node: &Node, each: &Takes, field: &Field, known: &Known<'_>) -> Result<(), Wrong> {
    let map = field.key;
    let Value::Table(entries) = &node.value else {
        let what = format!("`{map}` is a table of tables, as in [{map}.NAME], not {}", node.shown());
        return Err(Wrong::at(node, what));
    };
    if let Some(entry) = entries.iter().find(|entry| !matches!(entry.node.value, Value::Table(_))) {
        let key = entry.key.escape_debug();
        let what = format!("`{map}` has a table for each name, as in [{map}.NAME], and `{key}` is none");
        return Err(Wrong { span: entry.span.clone(), what });
    }
    entries.iter().try_for_each(|entry| value(&entry.node, each, field, known))
}

fn quantity_of(node: &Node, dimensions: &[quantity::Dimension], field: &Field) -> Result<(), Wrong> {
    let failed = |what: String| Wrong::at(node, format!("`{}`: {what}", field.key));
    let shown = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => {
            return Err(failed(format!(
                "{} is not {}, as in \"{}\"",
                node.shown(),
                dimensions[0],
                dimensions[0].example()
            )));
        }
    };
    quantity::of_any(dimensions, &shown).map(drop).map_err(failed)
}

fn name(node: &Node, names: Names, field: &Field, known: &Known<'_>) -> Result<(), Wrong> {
    let axes: Vec<&str>;
    let known: &[&str] = match names {
        Names::Host => &known.hosts,
        Names::Link => &known.links,
        Names::Path => &known.paths,
        Names::Transport => &known.transports,
        Names::Axis => {
            axes = known.scope.axes.iter().map(|axis| axis.name.as_str()).collect();
            &axes
        }
    };
    match node.text() {
        Some(text) if known.contains(&text) => Ok(()),
        Some(text) => {
            let what = format!(
                "no {} `{}`; {}",
                names.what(),
                text.escape_debug(),
                nearest(text, known.iter().copied())
            );
            Err(Wrong::at(node, what))
        }
        None => Err(Wrong::at(
            node,
            format!("`{}` is the name of a {}, not {}", field.key, names.what(), node.shown()),
        )),
    }
}

fn parsed(
    node: &Node,
    what: &str,
    check: fn(&str) -> Result<(), String>,
    field: &Field,
) -> Result<(), Wrong> {
    let text = node.text().ok_or_else(|| {
        Wrong::at(node, format!("`{}` is a {what} in quotes, not {}", field.key, node.shown()))
    })?;
    let error = match what {
        "claim" => expression::claim(text).err(),
        "condition" => expression::condition(text).err(),
        _ => return check(text).map_err(|error| Wrong::at(node, format!("`{}`: {error}", field.key))),
    };
    error.map_or(Ok(()), |error| Err(within(node, error.span, format!("this is no {what}: {}", error.what))))
}

/// An error about a part of a text; with escapes in the text the position is approximate.
pub(super) fn within(node: &Node, part: std::ops::Range<usize>, what: String) -> Wrong {
    let start = (node.span.start + 1 + part.start).min(node.span.end.saturating_sub(1));
    let end = (node.span.start + 1 + part.end).clamp(start, node.span.end);
    Wrong { span: start..end, what }
}

fn tagged(
    node: &Node,
    tag: &str,
    shapes: &[(&str, &'static Shape)],
    field: &Field,
    known: &Known<'_>,
) -> Result<(), Wrong> {
    let kinds = || shapes.iter().map(|(kind, _)| *kind);
    let Some(kind) = node.get(tag) else {
        let kinds: Vec<&str> = kinds().collect();
        return Err(Wrong::at(
            node,
            format!("each of `{}` needs `{tag}`: one of {}", field.key, kinds.join(", ")),
        ));
    };
    if Reference::of(kind).is_some() {
        let (names, key) = (kinds().collect::<Vec<_>>().join(", "), field.key);
        let what = format!(
            "`{tag}` is one of {names}, and an axis does not vary it: write a table for each in `{key}`, and vary what names them"
        );
        return Err(Wrong::at(kind, what));
    }
    match kind.text().and_then(|kind| shapes.iter().find(|(its, _)| *its == kind)) {
        Some((_, shape)) => table(node, shape, known),
        None => {
            let what = format!(
                "`{tag}` cannot be {}; {}",
                kind.shown(),
                nearest(kind.text().unwrap_or(""), kinds())
            );
            Err(Wrong::at(kind, what))
        }
    }
}

/// Checks a value against the alternative of the same form, whose error is the helpful one.
fn either(node: &Node, several: &[Takes], field: &Field, known: &Known<'_>) -> Result<(), Wrong> {
    let is_of_form = |takes: &&Takes| match node.value {
        Value::Table(_) => matches!(takes, Takes::Table(_)),
        Value::List(_) => matches!(takes, Takes::List(_) | Takes::Tuple(..)),
        _ => !matches!(takes, Takes::Table(_) | Takes::List(_) | Takes::Tuple(..)),
    };
    value(node, several.iter().find(is_of_form).unwrap_or(&several[0]), field, known)?;
    match several {
        [Takes::Quantity(dimensions), Takes::Table(shape)] => drawn(node, dimensions, shape, known),
        _ => Ok(()),
    }
}

/// Checks that the quantities of a distribution are of the dimension of what is drawn.
fn drawn(
    node: &Node,
    dimensions: &'static [quantity::Dimension],
    shape: &'static Shape,
    known: &Known<'_>,
) -> Result<(), Wrong> {
    for entry in node.entries() {
        let field = shape.fields.iter().find(|field| field.key == entry.key);
        if let Some(field) = field.filter(|field| matches!(field.takes, Takes::Quantity(_))) {
            value(&entry.node, &Takes::Quantity(dimensions), field, known)?;
        }
    }
    Ok(())
}
