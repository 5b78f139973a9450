//! Circles between the modules of a crate: sets of modules that import each other, directly or through others.
//!
//! Imports are read from the source text: `use crate::…`, `use super::…` and paths that begin with `crate`, `super`,
//! `self` or a child module. A module may use its ancestors, of which it is a part; such imports do not count, and
//! neither do those of tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use super::walk;

/// The path of a module in its crate; empty for the root.
pub(super) type Module = Vec<String>;

/// Reports every circle.
pub(super) fn check(problems: &mut Vec<String>) -> Result<()> {
    let mut crates: Vec<_> = std::fs::read_dir("crates")
        .context("cannot read crates")?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()
        .context("cannot read crates")?;
    crates.push("xtask".into());
    crates.sort();
    for folder in crates {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sources = sources(&folder.join("src"))?;
        problems.extend(circles(&graph(&sources)).iter().map(|circle| complaint(&name, circle)));
    }
    Ok(())
}

fn complaint(name: &str, circle: &BTreeSet<Module>) -> String {
    let modules = circle.iter().map(show).collect::<Vec<_>>().join(", ");
    format!(
        "{name}: these modules import each other in a circle: {modules}; move what they share into a module of its own \
         (ARCHITECTURE.md)"
    )
}

fn show(module: &Module) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("::") }
}

/// The modules of a crate's library or program, with their text.
pub(super) fn sources(src: &Path) -> Result<BTreeMap<Module, String>> {
    let mut files = Vec::new();
    walk(src, &mut files)?;
    let mut sources = BTreeMap::new();
    for path in files {
        let Ok(relative) = path.strip_prefix(src) else { continue };
        let mut module: Module =
            relative.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let is_test = module.iter().any(|part| part == "tests" || part.starts_with("tests_"));
        if !is_source || is_test || module[0] == "bin" {
            continue;
        }
        if module.last().is_some_and(|last| last == "mod") || module == ["lib"] || module == ["main"] {
            module.pop();
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        // A crate with a library and a program has two roots.
        sources.entry(module).or_insert_with(String::new).push_str(&code(&text));
    }
    Ok(sources)
}

/// A source text without comments and without its test module, if that is in the same file.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Which module imports which, without ancestors.
pub(super) fn graph(sources: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut graph = BTreeMap::new();
    for (module, text) in sources {
        let mut to = BTreeSet::new();
        for path in paths(text) {
            if let Some(target) = resolve(module, &path, sources)
                && !module.starts_with(&target)
            {
                to.insert(target);
            }
        }
        graph.insert(module.clone(), to);
    }
    graph
}

/// Every path in a text that may name a module: those of `use`, unfolded, and those that begin with a keyword.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for part in text.split("use ").skip(1) {
        if let Some((tree, _)) = part.split_once(';') {
            unfold(&[], tree, &mut found);
        }
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for word in text.split(|c| !is_part(c)) {
        if ["crate::", "super::", "self::"].iter().any(|root| word.starts_with(root)) {
            found.push(word.split("::").map(str::to_owned).collect());
        }
    }
    found
}

/// The paths of a tree of imports: `a::{b, c::{d, e}}` holds `a::b`, `a::c::d` and `a::c::e`.
fn unfold(prefix: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let (head, inner) = match tree.split_once('{') {
        Some((head, inner)) => (head, Some(inner.trim_end().trim_end_matches('}'))),
        None => (tree, None),
    };
    let mut path = prefix.to_vec();
    path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(inner) = inner else {
        found.push(path);
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 || at == inner.len() => {
                if !inner[start..at].trim().is_empty() {
                    unfold(&path, &inner[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module that a path in `from` leads to; `None` if it leads out of the crate.
fn resolve(from: &Module, path: &[String], sources: &BTreeMap<Module, String>) -> Option<Module> {
    let mut path = path.iter().map(String::as_str).peekable();
    let mut module = match *path.peek()? {
        "crate" => {
            path.next();
            Module::new()
        }
        "self" | "super" => from.clone(),
        child => {
            let is_child = sources.contains_key(&[&from[..], &[child.to_owned()]].concat());
            is_child.then(|| from.clone())?
        }
    };
    for part in path {
        match part {
            "self" => {}
            "super" => {
                module.pop();
            }
            part => {
                module.push(part.to_owned());
                if !sources.contains_key(&module) {
                    module.pop();
                    break;
                }
            }
        }
    }
    Some(module)
}

/// The sets of more than one module in which each leads to all others.
fn circles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reachable: BTreeMap<&Module, BTreeSet<&Module>> = graph
        .keys()
        .map(|from| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(module) = next.pop() {
                next.extend(graph.get(module).into_iter().flatten().filter(|to| seen.insert(*to)));
            }
            (from, seen)
        })
        .collect();
    let mut circles = BTreeSet::new();
    for (from, to) in &reachable {
        if to.contains(from) {
            let back = to.iter().filter(|other| reachable.get(**other).is_some_and(|to| to.contains(from)));
            circles.insert(back.map(|module| (*module).clone()).collect::<BTreeSet<_>>());
        }
    }
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<BTreeSet<String>> {
        let module = |path: &str| path.split("::").filter(|p| !p.is_empty()).map(str::to_owned).collect();
        let sources = files.iter().map(|(path, text)| (module(path), code(text))).collect();
        circles(&graph(&sources)).iter().map(|circle| circle.iter().map(show).collect()).collect()
    }

    #[test]
    fn a_circle_through_a_nested_import_is_found() {
        let files = [
            ("", "mod a;"),
            ("a", "use crate::{b::{self, C}, c};\n"),
            ("b", "fn f() { crate::c::d::g() }"),
            ("c", "mod d;"),
            ("c::d", "use super::super::a::X;"),
        ];
        assert_eq!(found(&files), [BTreeSet::from(["a", "b", "c::d"].map(str::to_owned))]);
    }

    #[test]
    fn imports_of_ancestors_tests_and_comments_do_not_count() {
        let files = [
            ("", "use self::a::X;"),
            ("a", "use crate::Y; mod b; use b::Z; // use crate::c::C;"),
            ("a::b", "use super::W;\n#[cfg(test)]\nmod tests { use crate::c::C; }"),
            ("c", "use crate::a::b::Z;"),
        ];
        assert_eq!(found(&files), Vec::<BTreeSet<String>>::new());
    }

    #[test]
    fn imports_below_the_declaration_of_a_test_module_count() {
        let files =
            [("", ""), ("a", "#[cfg(test)]\nmod tests;\nuse crate::b::B;"), ("b", "use crate::a::A;")];
        assert_eq!(found(&files), [BTreeSet::from(["a", "b"].map(str::to_owned))]);
    }

    #[test]
    fn a_circle_is_reported_with_its_crate_and_modules() {
        let circle = BTreeSet::from([vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()]]);
        assert!(
            complaint("x", &circle).starts_with("x: these modules import each other in a circle: a, b::c;")
        );
    }
}
