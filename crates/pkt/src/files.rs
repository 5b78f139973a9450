//! Finds the scripts that a command-line argument names: a file, a folder, or a pattern with `*`, `**` and
//! `?` that the shell has not expanded.

use std::io;
use std::path::{Component, Path, PathBuf};

/// The maximum depth of folders that are searched.
const DEPTH_MAX: usize = 32;

/// Returns the scripts that `name` stands for, sorted.
pub(crate) fn scripts(name: &Path) -> io::Result<Vec<PathBuf>> {
    if name.is_dir() {
        let mut found = Vec::new();
        walk(name, DEPTH_MAX, &mut found)?;
        found.retain(|path| path.extension().is_some_and(|extension| extension == "pkt"));
        return some(found, "no *.pkt file in this folder");
    }
    let is_pattern = |part: &str| part.contains(['*', '?']);
    if name.exists() || !is_pattern(&name.to_string_lossy()) {
        return Ok(vec![name.to_owned()]);
    }
    let parts: Vec<Component<'_>> = name.components().collect();
    let first = parts.iter().position(|part| is_pattern(&part.as_os_str().to_string_lossy())).unwrap_or(0);
    let root: PathBuf = parts[..first].iter().collect();
    let pattern: Vec<_> = parts[first..].iter().map(|part| part.as_os_str().to_string_lossy()).collect();
    let pattern: Vec<&str> = pattern.iter().map(AsRef::as_ref).collect();
    let start = if root.as_os_str().is_empty() { Path::new(".") } else { &root };
    let mut found = Vec::new();
    walk(start, DEPTH_MAX, &mut found)?;
    found.retain(|path| {
        let rest = path.strip_prefix(start).unwrap_or(path);
        let parts: Vec<_> = rest.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        path_matches(&pattern, &parts)
    });
    some(found, "no file matches this pattern")
}

fn some(mut found: Vec<PathBuf>, none: &str) -> io::Result<Vec<PathBuf>> {
    found.sort();
    if found.is_empty() { Err(io::Error::new(io::ErrorKind::NotFound, none)) } else { Ok(found) }
}

/// All files beneath `folder`.
fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            found.push(entry.path());
        } else if depth > 0 {
            walk(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}

/// Whether the components of a path match a pattern, in which `**` matches any number of components.
fn path_matches(pattern: &[&str], parts: &[&str]) -> bool {
    match (pattern.split_first(), parts.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            path_matches(rest, parts)
                || parts.split_first().is_some_and(|(_, left)| path_matches(pattern, left))
        }
        (Some((first, rest)), Some((part, left))) => {
            part_matches(first.as_bytes(), part.as_bytes()) && path_matches(rest, left)
        }
        _ => false,
    }
}

/// Whether one component matches a pattern, in which `*` matches any text and `?` any character.
fn part_matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            part_matches(rest, text)
                || text.split_first().is_some_and(|(_, left)| part_matches(pattern, left))
        }
        (Some((b'?', rest)), Some((_, left))) => part_matches(rest, left),
        (Some((sign, rest)), Some((found, left))) => sign == found && part_matches(rest, left),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_components_and_text() {
        let is = |pattern: &str, path: &str| {
            let split = |text| str::split(text, '/').collect::<Vec<_>>();
            path_matches(&split(pattern), &split(path))
        };
        assert!(is("**/*.pkt", "a/b/c.pkt") && is("**/*.pkt", "c.pkt"));
        assert!(is("a/**/c.pkt", "a/c.pkt") && is("a/**", "a/b/c"));
        assert!(is("*/6.?-*.pkt", "rfc9260/6.1-data.pkt"));
        assert!(!is("*.pkt", "a/c.pkt") && !is("**/*.pkt", "a/c.txt") && !is("a?c", "ac"));
    }

    #[test]
    fn a_folder_names_all_its_scripts() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
        let all = scripts(&here).unwrap();
        assert!(all.len() > 30 && all.iter().all(|path| path.extension().is_some()));
        assert_eq!(scripts(&here.join("**/*.pkt")).unwrap(), all);
        assert!(scripts(&here.join("*.nothing")).is_err());
        assert!(scripts(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/calls").as_path()).is_err());
    }
}
