//! `cargo xtask map`: the map in ARCHITECTURE.md, made from what the crates and files say of themselves.
//!
//! A crate is told by the description in its `Cargo.toml`, a file by the first sentence of its `//!`. `cargo xtask tidy`
//! checks that the map is the one that this would make.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::tidy::tracked_files;

const PAGE: &str = "ARCHITECTURE.md";

/// The map stands between these.
const BEGIN: &str = "<!-- map: made by `cargo xtask map` -->\n";
const END: &str = "<!-- end of the map -->\n";

/// The order in which to read; crates that are not named here follow.
const ORDER: &[&str] = &["base", "cc", "sctp", "tcp", "ftp", "sim", "pcap", "net", "emu", "braidftp", "lab"];

/// Write the map anew.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("map takes no arguments, and got `{arg}`");
    }
    let (page, fresh) = pages()?;
    if page != fresh {
        std::fs::write(PAGE, fresh).context("cannot write ARCHITECTURE.md")?;
    }
    Ok(())
}

/// Whether the map is as it would be made now.
pub(crate) fn is_fresh() -> Result<bool> {
    let (page, fresh) = pages()?;
    Ok(page == fresh)
}

/// The page as it is, and as it should be.
fn pages() -> Result<(String, String)> {
    let page = std::fs::read_to_string(PAGE).context("cannot read ARCHITECTURE.md")?;
    let (before, rest) = page.split_once(BEGIN).context("ARCHITECTURE.md has no place for the map")?;
    let (_, after) = rest.split_once(END).context("the map in ARCHITECTURE.md has no end")?;
    let fresh = format!("{before}{BEGIN}\n{}{END}{after}", map(&tracked_files()?)?);
    Ok((page, fresh))
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
            [("tests", "Its tests from outside."), ("examples", "Examples."), ("benches", "Benchmarks.")]
        {
            section(&mut map, &folder.join(part), &sources, says)?;
        }
    }
    section(&mut map, Path::new("fuzz/fuzz_targets"), &sources, "Fuzz targets: `cargo xtask fuzz TARGET`.")?;
    section(&mut map, Path::new("xtask/src"), &sources, "The chores of this repository.")?;
    Ok(map)
}

/// A heading and a line for each file of a folder, if there are any.
fn section(map: &mut String, folder: &Path, sources: &[&PathBuf], says: &str) -> Result<()> {
    let mut files: Vec<&Path> = sources.iter().filter_map(|file| file.strip_prefix(folder).ok()).collect();
    if files.is_empty() {
        return Ok(());
    }
    // What a folder is about comes first in it.
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

/// The first sentence of a file's `//!`, with links made plain.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let mut end = paragraph.len();
    for (place, _) in paragraph.match_indices(". ") {
        // "e.g. this" goes on; a sentence begins with a capital or with code.
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
    fn a_file_is_told_by_its_first_sentence() {
        let text = "//! The [`Link`] of [`sim`](crate::sim), e.g. a wire\n//! (RFC 1 §2.3). More.\n//!\n//! Else.\nfn x() {}\n";
        assert_eq!(first_sentence(text), "The `Link` of `sim`, e.g. a wire (RFC 1 §2.3)");
        assert_eq!(first_sentence("//! One thing: `a`. `b` is another.\n"), "One thing: `a`");
        assert_eq!(first_sentence("fn x() {}\n"), "");
    }
}
