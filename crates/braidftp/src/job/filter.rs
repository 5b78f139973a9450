//! Which paths of a tree belong to the job: `--include` and `--exclude`.
//!
//! A glob without a slash is matched against the last name, one with a slash against the whole path from the top of
//! the tree. `*` does not cross a slash, `**` does. Bytes that are not UTF-8 are matched as they are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::exit::Error;

/// What of a tree belongs to a job.
#[derive(Debug, Clone)]
pub struct Filter {
    include: Option<Globs>,
    exclude: Option<Globs>,
}

#[derive(Debug, Clone)]
struct Globs {
    names: GlobSet,
    paths: GlobSet,
}

impl Filter {
    /// What matches `include` (all, if it is empty) and not `exclude`.
    ///
    /// # Errors
    /// A glob that is none.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, Error> {
        Ok(Self { include: Globs::new("--include", include)?, exclude: Globs::new("--exclude", exclude)? })
    }

    /// Whether a file belongs.
    pub fn takes_file(&self, path: &[u8]) -> bool {
        self.takes_folder(path) && self.include.as_ref().is_none_or(|globs| globs.match_any_level(path))
    }

    /// Whether a folder is entered: an include may name something below it, so that only excludes count.
    pub fn takes_folder(&self, path: &[u8]) -> bool {
        self.exclude.as_ref().is_none_or(|globs| !globs.match_any_level(path))
    }

    /// Whether there is an include: folders are then made only for what is in them.
    pub fn is_selective(&self) -> bool {
        self.include.is_some()
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
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).chain([path.len()]);
        let mut start = 0;
        for end in ends {
            if self.names.is_match(as_path(&path[start..end])) || self.paths.is_match(as_path(&path[..end])) {
                return true;
            }
            start = end + 1;
        }
        false
    }
}

/// One glob, for the names in one folder: what `get ftp://h/dir/*.txt` means.
///
/// # Errors
/// It is none.
pub(super) fn name_glob(text: &str) -> Result<impl Fn(&[u8]) -> bool, Error> {
    let matcher = glob("the URL", text)?.compile_matcher();
    Ok(move |name: &[u8]| matcher.is_match(as_path(name)))
}

/// Whether a name in a URL is a glob.
pub(super) fn is_glob(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

fn glob(option: &str, text: &str) -> Result<Glob, Error> {
    GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build().map_err(|error| {
        Error::usage(format_args!("use the glob `{text}` of {option}"), error.kind()).hint(
            "`*`, `?` and `[a-z]` match in one name, `**` over folders; `\\` makes the next character plain",
        )
    })
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Filter {
        let owned = |globs: &[&str]| globs.iter().map(|&g| g.to_owned()).collect::<Vec<_>>();
        Filter::new(&owned(include), &owned(exclude)).unwrap()
    }

    #[test]
    fn without_globs_all_belongs() {
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
    fn exclude_wins_over_include_and_folders_are_entered_for_what_may_be_below() {
        let filter = filter(&["*.rs"], &["target"]);
        assert!(filter.takes_file(b"src/main.rs"));
        assert!(!filter.takes_file(b"src/main.py"));
        assert!(!filter.takes_file(b"target/x.rs"));
        assert!(filter.takes_folder(b"src"));
        assert!(filter.is_selective());
    }

    #[test]
    fn a_glob_that_is_none_is_a_usage_error() {
        let error = Filter::new(&["[".into()], &[]).unwrap_err();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
        assert!(name_glob("a[").is_err());
        assert!(name_glob("*.t?t").unwrap()(b"x.txt"));
        assert!(is_glob(b"*.txt") && !is_glob(b"x.txt"));
    }
}
