//! `cargo xtask tidy`: the rules of the repository that a program can check. The rules themselves are in
//! `crate::rules`.
//!
//! The checks search for words and do not parse syntax: a pure crate is checked by its imports, its
//! `forbid(unsafe_code)`, its `clippy.toml` and a search for forbidden words.

mod circles;
mod functions;
mod prose;
mod rooms;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::diagram;
use crate::rules::{IMPORTS, IMPORTS_OF_TESTS, IMPURE, LONG_FILE_LINES, PURE};
use crate::shell::{capture, cargo};

/// Checks every rule; prints violations, and files that are long.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("tidy takes no arguments, and got `{arg}`");
    }
    let mut problems = Vec::new();
    imports(&mut problems)?;
    pure_crates(&mut problems)?;
    circles::check(&mut problems)?;
    rooms::check(&mut problems)?;
    let files = tracked_files()?;
    let (mut words, mut pages) = (BTreeSet::new(), Vec::new());
    for path in &files {
        let Ok(bytes) = std::fs::read(path) else { continue };
        let name = path.display().to_string();
        let text = String::from_utf8_lossy(&bytes);
        if name.ends_with(".rs") || name.ends_with("Cargo.toml") {
            words.extend(words_of(&text));
        }
        if PAGES_WITH_NAMES.contains(&name.as_str()) {
            pages.push((name.clone(), text.to_string()));
        }
        if name.ends_with(".rs") {
            if !text.starts_with("//!") && !text.starts_with("#!") {
                problems
                    .push(format!("{name}: a source file opens with `//!`: what it is, and what it is not"));
            }
            problems.extend(functions::find(&name, &text).iter().map(functions::complaint));
            let lines = text.lines().count();
            if lines > LONG_FILE_LINES {
                println!("tidy: note: {name} has {lines} lines: consider splitting it");
            }
        }
        problems.extend(machine_paths(&name, &text));
        problems.extend(prose::complaints(&name, &text));
        if name.ends_with(".md") {
            problems.extend(dead_links(path, &text));
            problems.extend(lost_files(path, &text, &files));
        }
    }
    problems.extend(pages.iter().flat_map(|(page, text)| lost_names(page, text, &words)));
    if !diagram::is_fresh()? {
        problems.push(format!("{}: not the picture of the rules; run cargo xtask diagram", diagram::PICTURE));
    }
    println!("tidy: {} files, {} problems", files.len(), problems.len());
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// The files that git tracks or would add; without git, every file outside `target`.
pub(crate) fn tracked_files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<PathBuf> = if Path::new(".git").exists() {
        let names = capture(&mut git)?;
        let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect()
    } else {
        let mut files = Vec::new();
        walk(Path::new(""), &mut files)?;
        files
    };
    // A file that was deleted and not yet committed is still listed.
    files.retain(|file| file.is_file());
    files.sort();
    Ok(files)
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let here = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    for entry in std::fs::read_dir(here).with_context(|| format!("cannot read {}", here.display()))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                walk(&path, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Compares the dependencies between the workspace's crates, as cargo reports them, with the list of allowed imports.
fn imports(problems: &mut Vec<String>) -> Result<()> {
    let metadata = capture(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    for package in packages {
        let name = short(package["name"].as_str().unwrap_or_default());
        let Some(allowed) = of(IMPORTS, name) else {
            problems.push(format!("crate {name} is not in the list of imports (xtask/src/rules.rs)"));
            continue;
        };
        let in_tests = of(IMPORTS_OF_TESTS, name).unwrap_or_default();
        let sources = sources_of(package)?;
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let crate_name =
                dependency["rename"].as_str().or(dependency["name"].as_str()).unwrap_or_default();
            if !holds_word(&sources, &crate_name.replace('-', "_")) {
                problems.push(format!("{name} depends on {crate_name} and does not use it"));
            }
            let Some(full) = dependency["name"].as_str().filter(|full| ours.contains(full)) else { continue };
            let to = short(full);
            let is_dev = dependency["kind"] == "dev";
            if !(allowed.contains(&to) || (is_dev && (in_tests.contains(&to) || to == name))) {
                let whose = if is_dev { "the tests of " } else { "" };
                problems.push(format!("{whose}{name} must not import {to}"));
            }
        }
    }
    Ok(())
}

/// The concatenated sources of a package.
fn sources_of(package: &serde_json::Value) -> Result<String> {
    let manifest = package["manifest_path"].as_str().context("a package has no manifest")?;
    let mut files = Vec::new();
    walk(Path::new(manifest).parent().unwrap_or(Path::new("")), &mut files)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    let texts = files.iter().map(std::fs::read_to_string).collect::<std::io::Result<Vec<_>>>();
    Ok(texts.context("cannot read a source file")?.concat())
}

/// The short name of a crate, as in ARCHITECTURE.md.
fn short(package: &str) -> &str {
    package.strip_prefix("braidftp-").unwrap_or(package)
}

fn of(list: &[(&str, &'static [&'static str])], name: &str) -> Option<&'static [&'static str]> {
    list.iter().find(|(from, _)| *from == name).map(|(_, to)| *to)
}

/// Checks that pure crates have no unsafe code, clock, socket, thread or hash order.
fn pure_crates(problems: &mut Vec<String>) -> Result<()> {
    for name in PURE {
        let root = Path::new("crates").join(name);
        if !root.exists() {
            continue;
        }
        if !root.join("clippy.toml").exists() {
            problems.push(format!("{}: a pure crate has a clippy.toml that forbids clocks", root.display()));
        }
        let mut sources = Vec::new();
        walk(&root.join("src"), &mut sources)?;
        for path in sources {
            // A binary of the crate is a driver and may read the clock.
            if path.starts_with(root.join("src/bin")) || path.extension().is_none_or(|ext| ext != "rs") {
                continue;
            }
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if path.ends_with("src/lib.rs") && !text.contains("#![forbid(unsafe_code)]") {
                problems.push(format!("{}: a pure crate has #![forbid(unsafe_code)]", path.display()));
            }
            for (line, word, why) in impure_words(&text) {
                problems.push(format!("{}:{line}: `{word}` in a pure crate: {why}", path.display()));
            }
        }
    }
    Ok(())
}

/// The forbidden words in a pure crate's source: line, word, reason.
fn impure_words(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for &(word, why) in IMPURE {
            if holds_word(code, word) {
                found.push((number + 1, word, why));
            }
        }
    }
    found
}

/// Whether a line contains a word as a whole word.
fn holds_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Finds paths that exist on one machine only.
fn machine_paths(name: &str, text: &str) -> Vec<String> {
    // Concatenated here, so that this file does not report itself.
    let paths = [concat!("/wo", "rk/"), concat!("/fa", "rm/"), concat!("/ro", "ot/")];
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(path) = paths.iter().find(|path| line.contains(**path)) {
            problems.push(format!("{name}:{}: `{path}` is a path of one machine", number + 1));
        }
    }
    problems
}

/// Finds links of a page to files that do not exist.
fn dead_links(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for rest in line.split("](").skip(1) {
            let Some(target) = rest.split([')', '#', ' ']).next() else { continue };
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !folder.join(target).exists() {
                problems.push(format!(
                    "{}:{}: dead link: {target} does not exist",
                    page.display(),
                    number + 1
                ));
            }
        }
    }
    problems
}

/// Source files that a page names in code font, as in `sent/sack.rs`, and that no path of the repository ends
/// with. `src` may be left out.
fn lost_files(page: &Path, text: &str, files: &[PathBuf]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        // Every second part is between backticks.
        for name in line.split('`').skip(1).step_by(2).filter(|_| !in_block) {
            if !name.ends_with(".rs") || name.contains([' ', '<', '*', '{']) {
                continue;
            }
            let is_it = |file: &PathBuf| {
                let without_src: PathBuf = file.iter().filter(|part| *part != "src").collect();
                file.ends_with(name) || without_src.ends_with(name)
            };
            if !files.iter().any(is_it) {
                problems.push(format!("{}:{}: no file is called {name}", page.display(), number + 1));
            }
        }
    }
    problems
}

/// The pages whose names in code font are checked, because they are references to the code.
const PAGES_WITH_NAMES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md"];

/// Names of functions, types and fields that a page has in code font, as in `apply_blocks` or `cc::Options`,
/// and that no source contains.
fn lost_names(page: &str, text: &str, words: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        for name in line.split('`').skip(1).step_by(2).filter(|_| !in_block) {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
            let is_file =
                [".rs", ".md", ".toml", ".svg", ".txt", ".snap"].iter().any(|end| name.ends_with(end));
            let is_prose = name.contains("..") || !name.contains(|c: char| c.is_ascii_alphabetic());
            if is_file || is_prose || !name.chars().all(is_name) {
                continue;
            }
            let parts = name.split([':', '.']).filter(|part| !part.is_empty());
            if let Some(part) = parts.into_iter().find(|part| !words.contains(*part)) {
                problems.push(format!("{page}:{}: no source names {part} (of `{name}`)", number + 1));
            }
        }
    }
    problems
}

/// The words of a source without comments.
fn words_of(text: &str) -> impl Iterator<Item = String> + '_ {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let words = code.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_a_pure_crate_is_found_and_a_comment_is_not() {
        let text = "//! No Instant here.\nuse std::time::Instant; // why not\nstruct InstantNoodles;\n";
        assert_eq!(
            impure_words(text).iter().map(|found| (found.0, found.1)).collect::<Vec<_>>(),
            [(2, "Instant")]
        );
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let text = format!("fine\nsee {}shared\n", concat!("/wo", "rk/"));
        assert_eq!(machine_paths("a.md", &text).len(), 1);
        assert!(machine_paths("a.md", "net/work and network/").is_empty());
    }

    #[test]
    fn a_file_that_was_renamed_is_found_in_pages_that_name_it() {
        let files = [PathBuf::from("crates/sctp/src/association/sent/sack.rs")];
        let text = "see `sack.rs`, `sctp/association/sent/sack.rs`, `<figure>.rs`\n```\n`none.rs`\n```\n`ack.rs`, `a` and `b/sack.rs`\n";
        assert_eq!(
            lost_files(Path::new("a.md"), text, &files),
            ["a.md:5: no file is called ack.rs", "a.md:5: no file is called b/sack.rs"]
        );
    }

    #[test]
    fn a_function_that_was_renamed_is_found_in_pages_that_name_it() {
        let words = words_of("fn apply_blocks() { cc::Options } // gone").collect();
        let text = "`apply_blocks`, `cc::Options`, `a b`, `x.rs`, `gone`\n```\n`none`\n```\n`cc::Absent`\n";
        assert_eq!(
            lost_names("A.md", text, &words),
            ["A.md:1: no source names gone (of `gone`)", "A.md:5: no source names Absent (of `cc::Absent`)"]
        );
    }

    #[test]
    fn a_dead_link_is_found() {
        let page = Path::new("README.md");
        assert_eq!(dead_links(page, "see [it](no-such-file.md) and [that](https://example.org/x)").len(), 1);
    }
}
