//! The reference as a JSON Schema (draft 2020-12), for editors, and as the tables of `docs/scenarios.md`.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use super::measure;
use super::quantity::Dimension;
use super::shape::{FILE, Field, Shape, Takes};

/// The JSON Schema of scenario files.
pub fn json() -> String {
    let mut shapes = Vec::new();
    collect(&FILE, &mut shapes);
    let definitions: serde_json::Map<String, Value> =
        shapes.iter().skip(1).map(|shape| (anchor(shape), of_shape(shape))).collect();
    let mut schema = of_shape(&FILE);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("braidlab scenario");
    schema["$defs"] = Value::Object(definitions);
    serde_json::to_string_pretty(&schema).expect("a schema is texts") + "\n"
}

/// The tables of the reference, as Markdown.
pub fn reference() -> String {
    let mut shapes = Vec::new();
    collect(&FILE, &mut shapes);
    let mut text = String::new();
    for shape in shapes {
        let _ = writeln!(text, "### {}\n\n{}\n", heading(shape), shape.says);
        text.push_str("| key | takes | default | meaning |\n|---|---|---|---|\n");
        for field in shape.fields {
            let default = field.default.unwrap_or("**needed**");
            let default = if default.starts_with(['"', '[', '{']) {
                format!("`{default}`")
            } else {
                default.to_owned()
            };
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                field.key,
                spoken(&field.takes),
                default,
                field.says
            );
        }
        text.push('\n');
    }
    let names =
        ["Of an ftp workload", "Of a workload", "Of a link: `link.NAME.queue`, `link.NAME.back.queue`"];
    let _ = writeln!(text, "### Columns\n");
    let _ = writeln!(
        text,
        "Names for `measure`. Of several workloads with the same, write the name of one before it: `web.p95`. \
                            `fairness` is Jain's index of the goodputs of all bulk flows.\n"
    );
    for (name, columns) in names.into_iter().zip(measure::listed()) {
        let _ = writeln!(text, "{name}:\n\n| column | unit |\n|---|---|");
        for (column, unit) in columns {
            let _ = writeln!(text, "| `{column}` | {unit} |");
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// All tables, each once, in the order of their first use.
fn collect(shape: &'static Shape, found: &mut Vec<&'static Shape>) {
    if found.iter().any(|its| its.name == shape.name) {
        return;
    }
    found.push(shape);
    let mut names = BTreeSet::new();
    for field in shape.fields {
        inside(&field.takes, &mut |shape| {
            if names.insert(shape.name) {
                collect(shape, found);
            }
        });
    }
}

fn inside(takes: &'static Takes, each: &mut dyn FnMut(&'static Shape)) {
    match takes {
        Takes::Table(shape) => each(shape),
        Takes::List(takes) | Takes::Tuple(takes, _) | Takes::Map(takes) => inside(takes, each),
        Takes::Tagged(_, shapes) => shapes.iter().for_each(|(_, shape)| each(shape)),
        Takes::Either(several) => several.iter().for_each(|takes| inside(takes, each)),
        _ => {}
    }
}

fn anchor(shape: &Shape) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = shape.name.chars().map(word).collect();
    text.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

fn heading(shape: &Shape) -> String {
    let name = shape.name;
    match name {
        "the file" => "The file".to_owned(),
        _ if name.starts_with("a ") || name.starts_with("an ") => {
            let (article, rest) = name.split_once(' ').unwrap_or(("", name));
            format!("{}{} {rest}", article[..1].to_uppercase(), &article[1..])
        }
        _ => format!("`{name}`"),
    }
}

fn of_shape(shape: &Shape) -> Value {
    let properties: serde_json::Map<String, Value> =
        shape.fields.iter().map(|field| (field.key.to_owned(), of_field(field))).collect();
    let needed: Vec<&str> =
        shape.fields.iter().filter(|field| field.default.is_none()).map(|field| field.key).collect();
    json!({
        "type": "object",
        "description": shape.says,
        "properties": properties,
        "required": needed,
        "additionalProperties": false,
    })
}

fn of_field(field: &Field) -> Value {
    let mut schema = of_takes(&field.takes);
    let default = field.default.map_or(String::new(), |default| format!(" Default: {default}."));
    schema["description"] = json!(format!("{}{default}", field.says));
    schema
}

/// The pattern of a reference to an axis.
const REFERENCE: &str = "^\\$[A-Za-z][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)?$";

fn or_reference(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "string", "pattern": REFERENCE }] })
}

fn of_takes(takes: &Takes) -> Value {
    match takes {
        Takes::Text => json!({ "type": "string" }),
        Takes::Flag => or_reference(json!({ "type": "boolean" })),
        Takes::Count(least, most) => {
            or_reference(json!({ "type": "integer", "minimum": least, "maximum": most }))
        }
        Takes::Number => or_reference(json!({ "type": "number", "exclusiveMinimum": 0 })),
        Takes::Quantity(dimensions) => or_reference(of_quantity(dimensions)),
        Takes::Word(words) => or_reference(json!({ "enum": words() })),
        Takes::Name(_) | Takes::Parsed(..) | Takes::Controller => json!({ "type": "string" }),
        Takes::List(each) => or_reference(json!({ "type": "array", "items": of_takes(each) })),
        Takes::Tuple(each, count) => or_reference(
            json!({ "type": "array", "items": of_takes(each), "minItems": count, "maxItems": count }),
        ),
        Takes::Table(shape) => json!({ "$ref": format!("#/$defs/{}", anchor(shape)) }),
        Takes::Map(each) => json!({ "type": "object", "additionalProperties": of_takes(each) }),
        Takes::Tagged(tag, shapes) => {
            let one = |(kind, shape): &(&str, &'static Shape)| json!({ "$ref": format!("#/$defs/{}", anchor(shape)), "properties": { *tag: { "const": kind } } });
            json!({ "oneOf": shapes.iter().map(one).collect::<Vec<_>>() })
        }
        Takes::Either(several) => json!({ "anyOf": several.iter().map(of_takes).collect::<Vec<_>>() }),
        Takes::Values => json!({
            "type": "array",
            "minItems": 1,
            "items": { "anyOf": [
                { "type": ["number", "string", "boolean"] },
                {
                    "type": "object",
                    "required": ["name"],
                    "properties": { "name": { "type": "string" }, "label": { "type": "string" } },
                },
            ] },
        }),
    }
}

fn of_quantity(dimensions: &[Dimension]) -> Value {
    let units: Vec<&str> = dimensions.iter().flat_map(|dimension| dimension.units()).collect();
    let pattern = format!("^[0-9][0-9._]*([eE]-?[0-9]+)? *({})$", units.join("|"));
    let text = json!({ "type": "string", "pattern": pattern });
    match dimensions.contains(&Dimension::Fraction) {
        true => json!({ "anyOf": [text, { "type": "number", "minimum": 0, "maximum": 1 }] }),
        false => text,
    }
}

fn spoken(takes: &Takes) -> String {
    match takes {
        Takes::Text => "text".to_owned(),
        Takes::Flag => "`true` or `false`".to_owned(),
        Takes::Count(least, most) if *most > 1 << 40 => format!("whole number from {least}"),
        Takes::Count(least, most) => format!("{least} to {most}"),
        Takes::Number => "number above 0".to_owned(),
        Takes::Quantity(dimensions) => {
            let examples: Vec<_> = dimensions.iter().map(|it| format!("`\"{}\"`", it.example())).collect();
            examples.join(" or ")
        }
        Takes::Word(words) => words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Takes::Name(names) => format!("name of a {}", names.what()).replace("a axis", "an axis"),
        Takes::Parsed(what, _) => (*what).to_owned(),
        Takes::Controller => "congestion controller".to_owned(),
        Takes::List(each) => format!("list: {}", spoken(each)),
        Takes::Tuple(each, count) => format!("{count} of {}", spoken(each)),
        Takes::Table(shape) => format!("table {}", heading(shape)),
        Takes::Map(each) => format!("by name: {}", spoken(each)),
        Takes::Tagged(tag, shapes) => {
            let kinds: Vec<_> = shapes.iter().map(|(kind, _)| format!("`{kind}`")).collect();
            format!("table by its `{tag}`: {}", kinds.join(", "))
        }
        Takes::Either(several) => several.iter().map(spoken).collect::<Vec<_>>().join(", or "),
        Takes::Values => "list of values".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_that_a_key_takes_is_defined() {
        let schema: Value = serde_json::from_str(&json()).unwrap();
        let text = schema.to_string();
        let definitions = schema["$defs"].as_object().unwrap();
        for part in text.split("#/$defs/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(definitions.contains_key(name), "{name}");
        }
        assert!(definitions.contains_key("links-name") && definitions.len() > 15);
        assert_eq!(schema["properties"]["title"]["type"], "string");
        assert_eq!(schema["additionalProperties"], false);
    }
}
