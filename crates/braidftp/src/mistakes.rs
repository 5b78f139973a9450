//! Error messages for TOML files written by people: a sentence for each mistake, with line and column, and
//! the nearest known word for a misspelt one.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::Error;

/// The maximum number of reported mistakes; further ones are counted.
const TOLD_MAX: usize = 20;

/// The mistakes of a file.
#[derive(Debug)]
pub(crate) struct Mistakes<'a> {
    path: &'a Path,
    text: &'a str,
    /// The offsets of its lines.
    lines: Vec<usize>,
    is_toml: bool,
    found: Vec<(usize, String)>,
}

impl<'a> Mistakes<'a> {
    /// Parses a file, as far as it is valid TOML.
    pub(crate) fn parse(path: &'a Path, text: &'a str) -> (Spanned<DeTable<'a>>, Self) {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = [0].into_iter().chain(ends).collect();
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut mistakes = Self { path, text, lines, is_toml: errors.is_empty(), found: Vec::new() };
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            mistakes.add(at, error.message().replace('\n', "; "));
        }
        (table, mistakes)
    }

    /// Adds a mistake at this offset of the file.
    pub(crate) fn add(&mut self, at: usize, what: impl ToString) {
        self.found.push((at, what.to_string()));
    }

    /// Adds an unknown key.
    pub(crate) fn unknown(&mut self, at: usize, key: &str, keys: &[&str]) {
        let meant = match nearest(key, keys) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", keys.join(", ")),
        };
        self.add(at, format_args!("there is no key `{}` here; {meant}", key.escape_debug()));
    }

    /// Adds a value of the wrong type.
    pub(crate) fn mismatch(&mut self, value: &Spanned<DeValue<'_>>, key: &str, wanted: &str) {
        let is = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.add(value.span().start, format_args!("{key} is {wanted}, not {is}"));
    }

    /// The number of mistakes.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// The line of an offset, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// The mistakes in the order of the file, one sentence each: `FILE:LINE:COLUMN: what is wrong`. Beyond
    /// [`TOLD_MAX`] they are counted.
    pub(crate) fn sentences(mut self) -> Vec<String> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(at, _)| *at);
        if !self.is_toml {
            // Follow-up errors of an invalid line are not mistakes.
            found.dedup_by_key(|(at, _)| self.line(*at));
        }
        let mut sentences: Vec<String> = Vec::new();
        for (at, what) in found.iter().take(TOLD_MAX) {
            let line = self.line(*at);
            let column = self.text[self.lines[line - 1]..*at].chars().count() + 1;
            sentences.push(format!("{}:{line}:{column}: {what}", self.path.display()));
        }
        if found.len() > TOLD_MAX {
            sentences.push(format!("and {} more", found.len() - TOLD_MAX));
        }
        sentences
    }

    /// Returns all mistakes as one error.
    ///
    /// # Errors
    ///
    /// There is a mistake.
    pub(crate) fn check(self, hint: &str) -> Result<(), Error> {
        if self.found.is_empty() {
            return Ok(());
        }
        let what = format!("use {}", self.path.display());
        Err(Error::usage(what, "these lines are wrong").list(self.sentences()).hint(hint))
    }
}

/// The word most similar to `text`, if any is similar.
pub(crate) fn nearest<'a>(text: &str, words: &[&'a str]) -> Option<&'a str> {
    let far = |word: &str| strsim::damerau_levenshtein(text, word);
    let near = words.iter().min_by_key(|word| far(word))?;
    (far(near) <= 1 + text.chars().count().max(near.len()) / 3).then_some(*near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_in_characters_and_an_invalid_line_is_reported_once() {
        let text = "s = ['ö', 1]\nt = 2\n";
        let (_, mut mistakes) = Mistakes::parse(Path::new("f.toml"), text);
        mistakes.add(text.find('2').unwrap(), "b");
        mistakes.add(text.find('1').unwrap(), "a");
        assert_eq!(mistakes.sentences(), ["f.toml:1:11: a", "f.toml:2:5: b"]);
        let (_, mut mistakes) = Mistakes::parse(Path::new("f.toml"), "s = = 1\n");
        mistakes.add(6, "what is left of it");
        assert_eq!(mistakes.sentences().len(), 1);
    }
}
