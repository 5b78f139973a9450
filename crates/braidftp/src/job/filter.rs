//! Selection of the paths of a job: `--include`, `--exclude`, `--exclude-from`, `--filter` and `--files-from`.
//!
//! A glob without a slash is matched against the last name, one with a slash against the whole path from the top of
//! the tree. `*` does not cross a slash, `**` does. Bytes that are not UTF-8 are matched as they are.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use braidftp_ftp::SafePath;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::filter_rules::{Rules, as_path, ends};
use crate::exit::Error;

/// The selection of paths of a tree.
#[derive(Debug, Clone)]
pub struct Filter {
    include: Option<Globs>,
    exclude: Option<Globs>,
    /// Patterns of files in gitignore's notation.
    ignored: Option<Arc<Gitignore>>,
    /// Rules in rsync's notation.
    rules: Option<Arc<Rules>>,
    listed: Option<Arc<Listed>>,
}

/// The paths of `--files-from`.
#[derive(Debug, Default)]
struct Listed {
    /// The listed paths, and whether each was found in the source; a folder includes everything below it.
    paths: HashMap<Vec<u8>, AtomicBool>,
    /// Their parent folders.
    above: HashSet<Vec<u8>>,
}

impl Listed {
    fn holds(&self, path: &[u8]) -> bool {
        ends(path).any(|end| self.paths.contains_key(&path[..end]))
    }
}

#[derive(Debug, Clone)]
struct Globs {
    names: GlobSet,
    paths: GlobSet,
}

impl Filter {
    /// Selects what matches `include` (everything if it is empty) and not `exclude`.
    ///
    /// # Errors
    ///
    /// An invalid glob.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, Error> {
        let (include, exclude) = (Globs::new("--include", include)?, Globs::new("--exclude", exclude)?);
        Ok(Self { include, exclude, ignored: None, rules: None, listed: None })
    }

    /// Excludes the patterns of these files in gitignore's notation; paths are relative to the top of the
    /// tree.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or an invalid line.
    pub fn without(mut self, files: &[PathBuf]) -> Result<Self, Error> {
        if files.is_empty() {
            return Ok(self);
        }
        let mut builder = GitignoreBuilder::new("");
        for file in files {
            if let Some(error) = builder.add(file) {
                return Err(Error::usage(format_args!("use --exclude-from {}", file.display()), error)
                    .hint("one pattern per line, as in .gitignore: `*.o`, `/build/`, `!keep.o`"));
            }
        }
        let ignored = builder.build().map_err(|error| Error::usage("use --exclude-from", error))?;
        self.ignored = Some(Arc::new(ignored));
        Ok(self)
    }

    /// Applies rules in rsync's notation.
    ///
    /// # Errors
    ///
    /// An invalid rule, or a file of rules that cannot be read.
    pub fn ruled(mut self, rules: &[String]) -> Result<Self, Error> {
        self.rules = Rules::new(rules)?.map(Arc::new);
        Ok(self)
    }

    /// Selects the paths that `file` lists, one per line; a folder includes everything below it.
    ///
    /// # Errors
    ///
    /// It cannot be read, or a line is not a path within a tree.
    pub fn only(mut self, file: Option<&Path>) -> Result<Self, Error> {
        let Some(file) = file else { return Ok(self) };
        let text = std::fs::read(file)
            .map_err(|error| Error::local(format_args!("read --files-from {}", file.display()), &error))?;
        let mut listed = Listed::default();
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_prefix(b"./").unwrap_or(line).trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            let path = SafePath::strict(line.strip_suffix(b"/").unwrap_or(line)).map_err(|error| {
                let place = format_args!("use line {} of {}", at + 1, file.display());
                Error::usage(place, error)
                    .hint("a path a line, from the top of the tree, without .. and a leading slash")
            })?;
            let path = path.as_bytes();
            listed.above.extend(ends(path).filter(|end| *end < path.len()).map(|end| path[..end].to_vec()));
            listed.paths.insert(path.to_vec(), AtomicBool::new(false));
        }
        self.listed = Some(Arc::new(listed));
        Ok(self)
    }

    fn ignores(&self, path: &[u8], is_folder: bool) -> bool {
        let matched = |ignored: &Arc<Gitignore>| {
            ignored.matched_path_or_any_parents(as_path(path), is_folder).is_ignore()
        };
        !path.is_empty()
            && (self.ignored.as_ref().is_some_and(matched)
                || self.rules.as_ref().is_some_and(|rules| rules.exclude(path, is_folder)))
    }

    fn excludes(&self, path: &[u8]) -> bool {
        self.exclude.as_ref().is_some_and(|globs| globs.match_any_level(path))
    }

    /// Whether every path is selected.
    pub fn takes_everything(&self) -> bool {
        let Self { include, exclude, ignored, rules, listed } = self;
        include.is_none() && exclude.is_none() && ignored.is_none() && rules.is_none() && listed.is_none()
    }

    /// Whether a file is selected.
    pub fn takes_file(&self, path: &[u8]) -> bool {
        !self.excludes(path)
            && !self.ignores(path, false)
            && self.include.as_ref().is_none_or(|globs| globs.match_any_level(path))
            && self.listed.as_ref().is_none_or(|listed| listed.holds(path))
    }

    /// Whether a folder is entered. An include may match something below the folder, so only excludes count.
    pub fn takes_folder(&self, path: &[u8]) -> bool {
        !self.excludes(path)
            && !self.ignores(path, true)
            && self
                .listed
                .as_ref()
                .is_none_or(|listed| path.is_empty() || listed.above.contains(path) || listed.holds(path))
    }

    /// Records that the source has this path.
    pub(super) fn found(&self, path: &[u8]) {
        if let Some(is_found) = self.listed.as_ref().and_then(|listed| listed.paths.get(path)) {
            is_found.store(true, Ordering::Relaxed);
        }
    }

    /// The paths of `--files-from` that were not found in the source, sorted.
    pub(super) fn missing(&self) -> Vec<&[u8]> {
        let paths = self.listed.iter().flat_map(|listed| &listed.paths);
        let missing = paths.filter(|(_, is_found)| !is_found.load(Ordering::Relaxed));
        let mut missing: Vec<&[u8]> = missing.map(|(path, _)| &path[..]).collect();
        missing.sort_unstable();
        missing
    }

    /// Whether there is an include: folders are then created only for selected files in them.
    pub fn is_selective(&self) -> bool {
        self.include.is_some() || self.listed.is_some()
    }
}

impl Globs {
    fn new(option: &str, globs: &[String]) -> Result<Option<Self>, Error> {
        if globs.is_empty() {
            return Ok(None);
        }
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for text in globs {
            let (set, text) = match text.trim_end_matches('/') {
                whole if whole.contains('/') => (&mut paths, whole.trim_start_matches('/')),
                name => (&mut names, name),
            };
            set.add(glob(option, text)?);
        }
        let build =
            |set: GlobSetBuilder| set.build().map_err(|e| Error::usage(format_args!("use {option}"), e));
        Ok(Some(Self { names: build(names)?, paths: build(paths)? }))
    }

    /// Whether the path, or a folder above it, matches.
    fn match_any_level(&self, path: &[u8]) -> bool {
        let mut start = 0;
        for end in ends(path) {
            if self.names.is_match(as_path(&path[start..end])) || self.paths.is_match(as_path(&path[..end])) {
                return true;
            }
            start = end + 1;
        }
        false
    }
}

/// One glob for the names in one folder, as in `get ftp://h/dir/*.txt`.
///
/// # Errors
///
/// It is invalid.
pub(super) fn name_glob(text: &str) -> Result<impl Fn(&[u8]) -> bool, Error> {
    let matcher = glob("the URL", text)?.compile_matcher();
    Ok(move |name: &[u8]| matcher.is_match(as_path(name)))
}

/// Whether a name in a URL is a glob.
pub(crate) fn is_glob(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

fn glob(option: &str, text: &str) -> Result<Glob, Error> {
    GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build().map_err(|error| {
        Error::usage(format_args!("use the glob `{text}` of {option}"), error.kind()).hint(
            "`*`, `?` and `[a-z]` match in one name, `**` over folders; `\\` makes the next character plain",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Filter {
        let owned = |globs: &[&str]| globs.iter().map(|&g| g.to_owned()).collect::<Vec<_>>();
        Filter::new(&owned(include), &owned(exclude)).unwrap()
    }

    #[test]
    fn without_globs_everything_is_selected() {
        assert!(filter(&[], &[]).takes_file(b"a/\xff"));
        assert!(filter(&[], &[]).takes_folder(b"a"));
    }

    #[test]
    fn a_name_is_matched_at_every_level() {
        let no_git = filter(&[], &[".git", "*.o"]);
        assert!(!no_git.takes_folder(b"sub/.git"));
        assert!(!no_git.takes_file(b"sub/.git/config"));
        assert!(!no_git.takes_file(b"a/b.o"));
        assert!(no_git.takes_file(b"a/b.oo"));
        assert!(!no_git.takes_file(b"a/\xff.o"));
    }

    #[test]
    fn a_path_is_matched_from_the_top() {
        let filter = filter(&[], &["/docs/*.tmp", "build/**"]);
        assert!(!filter.takes_file(b"docs/x.tmp"));
        assert!(filter.takes_file(b"old/docs/x.tmp"));
        assert!(filter.takes_file(b"docs/deep/x.tmp"));
        assert!(!filter.takes_file(b"build/a/b"));
    }

    #[test]
    fn exclude_precedes_include_and_folders_are_entered_for_possible_matches() {
        let filter = filter(&["*.rs"], &["target"]);
        assert!(filter.takes_file(b"src/main.rs"));
        assert!(!filter.takes_file(b"src/main.py"));
        assert!(!filter.takes_file(b"target/x.rs"));
        assert!(filter.takes_folder(b"src"));
        assert!(filter.is_selective());
    }

    #[test]
    fn a_file_of_patterns_has_the_meaning_of_gitignore() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("patterns");
        std::fs::write(&file, "# objects\n*.o\n!keep.o\n/build/\ndocs/**/draft\n").unwrap();
        let filter = filter(&[], &["*.tmp"]).without(std::slice::from_ref(&file)).unwrap();
        for taken in ["a", "keep.o", "src/build/x", "docs/a", "build2"] {
            assert!(filter.takes_file(taken.as_bytes()), "{taken}");
        }
        for left in ["a.o", "src/b.o", "build/x", "docs/a/b/draft", "x.tmp"] {
            assert!(!filter.takes_file(left.as_bytes()), "{left}");
        }
        assert!(!filter.takes_folder(b"build") && filter.takes_folder(b"") && filter.takes_file(b"build"));
        std::fs::write(&file, "a[z-a]").unwrap();
        let error = super::Filter::new(&[], &[]).unwrap().without(&[file]).unwrap_err();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
    }

    #[test]
    fn files_from_selects_listed_files_and_the_contents_of_listed_folders() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("list");
        std::fs::write(&file, "a\n./b/c\nfolder/\n\n").unwrap();
        let filter = filter(&[], &["*.o"]).only(Some(&file)).unwrap();
        for taken in ["a", "b/c", "folder/x/y"] {
            assert!(filter.takes_file(taken.as_bytes()), "{taken}");
        }
        for left in ["b", "b/d", "c", "folder2/x", "folder/x.o"] {
            assert!(!filter.takes_file(left.as_bytes()), "{left}");
        }
        assert!(
            filter.takes_folder(b"b") && filter.takes_folder(b"folder/x") && !filter.takes_folder(b"other")
        );
        for bad in ["/etc/passwd", "a/../b"] {
            std::fs::write(&file, bad).unwrap();
            let error = super::Filter::new(&[], &[]).unwrap().only(Some(&file)).unwrap_err();
            assert!(error.what.contains("line 1"), "{error}");
        }
    }

    #[test]
    fn an_invalid_glob_is_a_usage_error() {
        let error = Filter::new(&["[".into()], &[]).unwrap_err();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
        assert!(name_glob("a[").is_err());
        assert!(name_glob("*.t?t").unwrap()(b"x.txt"));
        assert!(is_glob(b"*.txt") && !is_glob(b"x.txt"));
    }
}
