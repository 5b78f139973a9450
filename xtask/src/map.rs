//! `cargo xtask map`: prints every crate and file with one line of explanation.
//!
//! A crate is described by the description in its `Cargo.toml`, a file by the first sentence of its `//!`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::tidy::tracked_files;

/// The order of the crates; others follow.
const ORDER: &[&str] =
    &["base", "cc", "sctp", "pkt", "tcp", "ftp", "sim", "pcap", "keys", "net", "emu", "braidftp", "lab"];

/// Print the list on standard output.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("map takes no arguments, and got `{arg}`");
    }
    let list = map(&tracked_files()?)?;
    match std::io::stdout().write_all(list.as_bytes()) {
        // `cargo xtask map | head` closes the pipe early.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write the list to standard output"),
    }
}

fn map(files: &[PathBuf]) -> Result<String> {
    let sources: Vec<&PathBuf> =
        files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")).collect();
    let crates: BTreeSet<&str> = sources
        .iter()
        .filter_map(|file| file.strip_prefix("crates").ok()?.components().next()?.as_os_str().to_str())
        .collect();
    let mut crates: Vec<&str> = crates.into_iter().collect();
    crates.sort_by_key(|name| ORDER.iter().position(|other| other == name).unwrap_or(ORDER.len()));
    let mut map = String::new();
    for name in crates {
        let folder = Path::new("crates").join(name);
        section(&mut map, &folder.join("src"), &sources, &description(&folder)?)?;
        for (part, says) in
            [("tests", "Integration tests."), ("examples", "Examples."), ("benches", "Benchmarks.")]
        {
            section(&mut map, &folder.join(part), &sources, says)?;
        }
    }
    section(&mut map, Path::new("fuzz/fuzz_targets"), &sources, "Fuzz targets: `cargo xtask fuzz TARGET`.")?;
    section(&mut map, Path::new("xtask/src"), &sources, "Checks and measurements of this repository.")?;
    Ok(map)
}

/// A heading and a line for each file of a folder, if it has files.
fn section(map: &mut String, folder: &Path, sources: &[&PathBuf], says: &str) -> Result<()> {
    let mut files: Vec<&Path> = sources.iter().filter_map(|file| file.strip_prefix(folder).ok()).collect();
    if files.is_empty() {
        return Ok(());
    }
    // The file that describes the folder comes first.
    files.sort_by_key(|file| {
        let is_root = ["lib.rs", "main.rs"].iter().any(|root| file.as_os_str() == *root);
        (!is_root, file.with_extension("").to_string_lossy().replace("/mod", "/"))
    });
    writeln!(map, "### `{}/`\n\n{says}\n", folder.display())?;
    for file in files {
        let path = folder.join(file);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        writeln!(map, "- `{}`: {}", file.display(), first_sentence(&text))?;
    }
    writeln!(map)?;
    Ok(())
}

/// The description in a crate's manifest.
fn description(folder: &Path) -> Result<String> {
    let path = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: toml::Table = text.parse().with_context(|| format!("cannot read {}", path.display()))?;
    let description = manifest["package"].get("description").and_then(toml::Value::as_str);
    let description = description.with_context(|| format!("{} has no description", path.display()))?;
    Ok(format!("{}.", description.trim_end_matches('.')))
}

/// The first sentence of a file's `//!`, with links as plain text.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let mut end = paragraph.len();
    for (place, _) in paragraph.match_indices(". ") {
        // "e.g. this" continues a sentence; a sentence begins with a capital letter or with code.
        if paragraph[place + 2..].starts_with(|c: char| !c.is_lowercase()) {
            end = place;
            break;
        }
    }
    let sentence = paragraph[..end].trim_end_matches('.');
    plain(sentence)
}

/// `` [`Name`] `` and `` [`Name`](place) `` become `` `Name` ``.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("[`") {
        let Some(length) = rest[start..].find("`]") else { break };
        out.push_str(&rest[..start]);
        out.push_str(&rest[start + 1..start + length + 1]);
        rest = &rest[start + length + 2..];
        if let Some(after) = rest.strip_prefix('(').and_then(|link| link.split_once(')')) {
            rest = after.1;
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_described_by_its_first_sentence() {
        let text = "//! The [`Link`] of [`sim`](crate::sim), e.g. a wire\n//! (RFC 1 §2.3). More.\n//!\n//! Else.\nfn x() {}\n";
        assert_eq!(first_sentence(text), "The `Link` of `sim`, e.g. a wire (RFC 1 §2.3)");
        assert_eq!(first_sentence("//! One thing: `a`. `b` is another.\n"), "One thing: `a`");
        assert_eq!(first_sentence("fn x() {}\n"), "");
    }
}
