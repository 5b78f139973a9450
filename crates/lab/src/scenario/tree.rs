//! The contents of a scenario file with the position of each key and value, and errors with positions.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A value and its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its bytes in the file.
    pub span: Range<usize>,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number, whole or not.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its bytes in the file.
    pub span: Range<usize>,
    /// The value.
    pub node: Node,
}

/// An error at a position in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The bytes with the error.
    pub span: Range<usize>,
    /// The error, and the right form.
    pub what: String,
}

impl Wrong {
    /// An error about a value.
    pub fn at(node: &Node, what: impl Into<String>) -> Self {
        Self { span: node.span.clone(), what: what.into() }
    }
}

/// The maximum number of characters of a line that are shown with an error, and of those before it.
const SHOWN_MAX: usize = 160;
const SHOWN_BEFORE: usize = 100;

/// An error with its line, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The error, and the right form.
    pub what: String,
    /// The line of the file.
    source: String,
    /// The number of characters with the error.
    width: usize,
}

impl ScenarioError {
    /// Finds the line of an error.
    pub fn new(file: &str, text: &str, wrong: Wrong) -> Self {
        let start =
            (0..=wrong.span.start.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let begins = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let source = text[begins..].lines().next().unwrap_or("");
        let column = text[begins..start].chars().count() + 1;
        let end = (start..=text.len()).find(|at| *at >= wrong.span.end && text.is_char_boundary(*at));
        let end = end.unwrap_or(text.len()).min(begins + source.len()).max(start);
        Self {
            file: file.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column,
            what: wrong.what,
            source: source.to_owned(),
            width: text[start..end].chars().count().max(1),
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, what, source, width } = self;
        writeln!(f, "{file}:{line}:{column}: {what}")?;
        let number = line.to_string();
        // Of a long line only the part around the error is shown.
        let hidden = (column - 1).saturating_sub(SHOWN_BEFORE);
        let shown: String = source
            .chars()
            .skip(hidden)
            .take(SHOWN_MAX)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        writeln!(f, "  {number} | {shown}")?;
        let (place, width) = (column - 1 - hidden, (*width).min(SHOWN_MAX));
        let width = width.min(SHOWN_MAX - place);
        write!(f, "  {:1$} | {2:3$}{4}", "", number.len(), "", place, "^".repeat(width))
    }
}

impl std::error::Error for ScenarioError {}

/// Parses a file.
///
/// # Errors
///
/// The text is not TOML, or has a date.
pub fn parse(text: &str) -> Result<Node, Wrong> {
    let table = DeTable::parse(text).map_err(|error| Wrong {
        span: error.span().unwrap_or(0..0),
        // The parser takes a word without quotes for the beginning of `true` or `false`.
        what: match error.message().contains("invalid boolean") {
            true => {
                "this is not TOML: a text is in quotes, and other words are `true` and `false`".to_owned()
            }
            false => format!("this is not TOML: {}", error.message()),
        },
    })?;
    let span = table.span();
    Ok(Node { value: Value::Table(entries(table.get_ref())?), span })
}

fn entries(table: &DeTable<'_>) -> Result<Vec<Entry>, Wrong> {
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        Ok(Entry { key: key.get_ref().clone().into_owned(), span: key.span(), node: node(value)? })
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect::<Result<_, Wrong>>()?;
    entries.sort_by_key(|entry| entry.span.start);
    Ok(entries)
}

fn node(value: &Spanned<DeValue<'_>>) -> Result<Node, Wrong> {
    let span = value.span();
    let wrong = |what: String| Wrong { span: span.clone(), what };
    let list = |array: &DeArray<'_>| array.iter().map(node).collect::<Result<Vec<_>, _>>();
    let value = match value.get_ref() {
        DeValue::String(text) => match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            // Pictures and reports cannot contain them.
            Some(control) => {
                return Err(wrong(format!(
                    "a text has no control characters, such as {}",
                    control.escape_unicode()
                )));
            }
            None => Value::Text(text.clone().into_owned()),
        },
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            Value::Number(parsed.map_err(|_| wrong(format!("{number} is too large")))? as f64)
        }
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Number(number),
            _ => return Err(wrong(format!("{number} is not a number that can be used here"))),
        },
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => {
            return Err(wrong("a scenario has no dates; write a text in quotes".to_owned()));
        }
        DeValue::Array(array) => Value::List(list(array)?),
        DeValue::Table(table) => Value::Table(entries(table)?),
    };
    Ok(Node { value, span })
}

impl Node {
    /// The value of a key, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// A key with its value.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The keys and values of a table; of other values none.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The values of a list; of other values none.
    pub fn list(&self) -> &[Self] {
        match &self.value {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The value as it is shown in errors.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("\"{}\"", text.escape_debug()),
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

/// ` did you mean ...?` if one of the known words is near, else the known words.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let lower = word.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    // Of equally near words the one whose letter is single or doubled by mistake (`los` is rather loss than lose), then
    // the one of the same length (`TB` is rather GB than B).
    let single = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.dedup();
        letters
    };
    let differs = |candidate: &str| single(&candidate.to_lowercase()) != single(&lower);
    let length = |candidate: &str| candidate.chars().count().abs_diff(word.chars().count());
    let near = known
        .iter()
        .map(|&candidate| (distance(candidate), differs(candidate), length(candidate), candidate))
        .min();
    match near {
        Some((distance, .., candidate)) if distance <= 1 + word.chars().count() / 3 => {
            format!("did you mean `{candidate}`?")
        }
        Some(_) => format!("there are {}", known.join(", ")),
        None => "there are none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        ScenarioError::new("my.toml", text, parse(text).unwrap_err()).to_string()
    }

    #[test]
    fn of_a_long_line_the_part_around_the_error_is_shown() {
        let text = format!(
            "a = [{}, 99999999999999999999, {}]",
            vec!["1"; 9_000].join(", "),
            vec!["2"; 9_000].join(", ")
        );
        let said = error(&text);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("my.toml:1:27006: ") && lines.len() == 3, "{}", lines[0]);
        assert!(lines.iter().all(|line| line.len() < 200), "{said}");
        let under = lines[2].find('^').unwrap();
        assert_eq!(&lines[1][under..under + 20], "99999999999999999999");
    }

    #[test]
    fn an_error_shows_its_line_and_column() {
        assert!(error("a = 1\nb = \n").starts_with("my.toml:2:"), "{}", error("a = 1\nb = \n"));
        assert!(error("day = 2026-01-01").contains("a scenario has no dates"));
        assert!(error("title = \"a\\u0007b\"").contains("my.toml:1:9: a text has no control characters"));
        assert!(error("n = 99999999999999999999").contains("is too large"));
        let text = "\"ü\" = \"x\"\n";
        let node = parse(text).unwrap();
        let wrong = Wrong::at(&node.entries()[0].node, "no");
        let shown = ScenarioError::new("my.toml", text, wrong).to_string();
        assert_eq!(shown, "my.toml:1:7: no\n  1 | \"ü\" = \"x\"\n    |       ^^^");
    }

    #[test]
    fn keys_keep_the_order_of_the_file() {
        let node = parse("z = 1\na = 2\n[m]\n").unwrap();
        assert_eq!(
            node.entries().iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(),
            ["z", "a", "m"]
        );
    }

    #[test]
    fn a_misspelt_word_is_answered_with_the_nearest_and_a_strange_one_with_all() {
        assert_eq!(nearest("ratee", ["rate", "delay"]), "did you mean `rate`?");
        assert_eq!(nearest("los", ["lose", "loss"]), "did you mean `loss`?");
        assert_eq!(nearest("xyzzy", ["rate", "delay"]), "there are rate, delay");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_with_a_place(text in "(?s).{0,60}") {
            if let Err(wrong) = parse(&text) {
                let _ = ScenarioError::new("x", &text, wrong).to_string();
            }
        }
    }
}
