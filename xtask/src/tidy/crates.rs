//! Third-party crates: each comes from crates.io, under licences that let programs with it be passed on.
//!
//! This is what `cargo deny check licenses sources` checks, without a program that takes minutes to install. Advisories need a
//! database that is no registry's (see xtask/README.md).

use anyhow::{Context, Result};

use crate::shell::{capture, cargo};

/// The platform whose crates are looked at; those of others would have to be downloaded.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The only source of crates.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences, by their SPDX names, that ask for no more than that they are passed on with the program. Those of fonts are of
/// the pictures' one.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "OFL-1.1",
    "Ubuntu-font-1.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Adds a line to `problems` for each crate that comes from elsewhere, or under another licence.
pub(super) fn check(problems: &mut Vec<String>) -> Result<()> {
    let args = ["metadata", "--locked", "--format-version", "1", "--filter-platform", PLATFORM];
    let metadata: serde_json::Value =
        serde_json::from_slice(&capture(cargo().args(args))?).context("cargo metadata is not JSON")?;
    for package in metadata["packages"].as_array().context("cargo metadata has no packages")? {
        let name = package["name"].as_str().unwrap_or_default();
        // Those of the workspace have none.
        if let Some(source) = package["source"].as_str().filter(|source| *source != SOURCE) {
            problems.push(format!("{name} comes from {source}; only crates.io is a source of crates"));
        }
        match package["license"].as_str() {
            Some(licence) if may_be_used(licence) => {}
            licence => problems.push(format!(
                "{name} has the licence {}; xtask/src/tidy/crates.rs lists those that are taken",
                licence.unwrap_or("of a file, or none")
            )),
        }
    }
    Ok(())
}

/// Whether an SPDX expression can be met with [`LICENCES`] alone. Exceptions (`WITH`) only permit more.
fn may_be_used(expression: &str) -> bool {
    // `/` is an older way to write OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any_of(&mut rest) == Some(true) && rest.is_empty()
}

fn any_of(words: &mut &[&str]) -> Option<bool> {
    let mut may = all_of(words)?;
    while next_is("OR", words) {
        may |= all_of(words)?;
    }
    Some(may)
}

fn all_of(words: &mut &[&str]) -> Option<bool> {
    let mut may = one(words)?;
    while next_is("AND", words) {
        may &= one(words)?;
    }
    Some(may)
}

fn one(words: &mut &[&str]) -> Option<bool> {
    if next_is("(", words) {
        let may = any_of(words)?;
        return next_is(")", words).then_some(may);
    }
    let (name, rest) = words.split_first()?;
    *words = rest;
    if next_is("WITH", words) {
        *words = words.split_first()?.1;
    }
    Some(LICENCES.contains(name))
}

/// Whether the next word is this; it is then taken.
fn next_is(word: &str, words: &mut &[&str]) -> bool {
    match words.split_first() {
        Some((next, rest)) if *next == word => {
            *words = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_taken_if_one_of_its_alternatives_is_and_all_of_its_parts_are() {
        for (expression, taken) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT/Apache-2.0", true),
            ("GPL-2.0-only OR MIT", true),
            ("GPL-2.0-only AND MIT", false),
            ("MIT OR GPL-2.0-only AND ISC", true),
            ("(MIT OR GPL-2.0-only) AND ISC", true),
            ("(MIT OR Apache-2.0) AND GPL-2.0-only", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", true),
            ("MIT AND", false),
            ("(MIT", false),
            ("MIT ISC", false),
            ("", false),
        ] {
            assert_eq!(may_be_used(expression), taken, "{expression}");
        }
    }
}
