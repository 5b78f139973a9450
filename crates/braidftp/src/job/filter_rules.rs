//! Filter rules in rsync's notation: `--filter '- *.o'`, `+ /src/***`, `merge FILE`.
//!
//! Rules have the meaning of rsync(1), FILTER RULES: the first matching rule decides. An excluded folder is
//! not entered, so the folders above a path are checked first. Not supported, and refused with an error:
//! per-folder rules (`:`), `hide`, `show`, `protect`, `risk` and modifiers. `**` must stand alone between
//! slashes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::exit::Error;

/// The maximum depth of nested `merge` files.
const MERGE_DEPTH: usize = 8;

/// Rules in order.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    globs: GlobSet,
    /// The rule of each glob in the set.
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    verdict: Verdict,
    applies: Applies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Include,
    Exclude,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applies {
    /// Applies to files and folders.
    ToAll,
    /// Applies to folders: the pattern ends in a slash.
    ToFolders,
}

/// Rules that are being read.
#[derive(Debug, Default)]
struct Reading {
    patterns: Vec<(Rule, String)>,
}

impl Rules {
    /// Parses rules, each as for rsync's `--filter`.
    ///
    /// # Errors
    ///
    /// An invalid rule, or a file that cannot be read; the error names the rule and the line.
    pub(super) fn new(texts: &[String]) -> Result<Option<Self>, Error> {
        if texts.is_empty() {
            return Ok(None);
        }
        let mut reading = Reading::default();
        for text in texts {
            reading.rule(text, &format!("use --filter '{text}'"), 0)?;
        }
        let (mut globs, mut rules) = (GlobSetBuilder::new(), Vec::new());
        for (rule, pattern) in &reading.patterns {
            let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
            globs.add(glob.map_err(|error| {
                Error::usage(format_args!("use the pattern `{pattern}` of --filter"), error.kind())
            })?);
            rules.push(*rule);
        }
        let globs = globs.build().map_err(|error| Error::usage("use --filter", error))?;
        Ok(Some(Self { globs, rules }))
    }

    /// Whether a path, or a folder above it, is excluded.
    pub(super) fn exclude(&self, path: &[u8], is_folder: bool) -> bool {
        ends(path).any(|end| {
            let is_folder = is_folder || end < path.len();
            let matches = self.globs.matches(as_path(&path[..end]));
            let first =
                matches.into_iter().filter(|at| is_folder || self.rules[*at].applies == Applies::ToAll).min();
            first.is_some_and(|at| self.rules[at].verdict == Verdict::Exclude)
        })
    }
}

impl Reading {
    fn rule(&mut self, text: &str, what: &str, depth: usize) -> Result<(), Error> {
        const HINT: &str = "rules are `- PATTERN`, `+ PATTERN`, `merge FILE` and `clear`; braidftp help filter explains them";
        let wrong = |why: &str| Error::usage(what, why).hint(HINT);
        let text = text.trim_start();
        if matches!(text.trim_end(), "!" | "clear") {
            self.patterns.clear();
            return Ok(());
        }
        // rsync accepts `_` in place of the space.
        let Some((verb, rest)) = text.split_once([' ', '_']) else {
            return Err(wrong("a rule is a word, a space, and a pattern"));
        };
        match verb {
            "-" | "exclude" => self.pattern(rest, Verdict::Exclude, &wrong),
            "+" | "include" => self.pattern(rest, Verdict::Include, &wrong),
            "." | "merge" if depth == MERGE_DEPTH => Err(wrong("files of rules name each other too deep")),
            "." | "merge" => self.merge(Path::new(rest), what, depth + 1),
            ":" | "dir-merge" => Err(wrong("files of rules in each folder are not built")),
            "hide" | "H" | "show" | "S" | "protect" | "P" | "risk" | "R" => {
                Err(wrong("rules for one side alone are not built"))
            }
            verb => Err(wrong(&format!("`{verb}` is no kind of rule"))),
        }
    }

    fn merge(&mut self, file: &Path, what: &str, depth: usize) -> Result<(), Error> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Error::local(format_args!("{what}: read {}", file.display()), &error))?;
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            self.rule(line, &format!("use line {} of {}", at + 1, file.display()), depth)?;
        }
        Ok(())
    }

    fn pattern(&mut self, text: &str, verdict: Verdict, wrong: &impl Fn(&str) -> Error) -> Result<(), Error> {
        let (text, applies) = match text.strip_suffix('/') {
            Some(text) => (text, Applies::ToFolders),
            None => (text, Applies::ToAll),
        };
        let (text, below) = match text.strip_suffix("/***") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (text, start) = match text.strip_prefix('/') {
            Some(text) => (text, ""),
            None => (text, "**/"),
        };
        if text.is_empty() {
            return Err(wrong("the pattern is empty"));
        }
        if text.split('/').any(|name| name.contains("**") && name != "**") {
            return Err(wrong(
                "`**` stands alone between slashes here, and `***` only at the end, as in dir/***",
            ));
        }
        let applies = if below { Applies::ToFolders } else { applies };
        self.patterns.push((Rule { verdict, applies }, format!("{start}{text}")));
        if below {
            self.patterns.push((Rule { verdict, applies: Applies::ToAll }, format!("{start}{text}/**")));
        }
        Ok(())
    }
}

/// The ends of the components of a path.
pub(super) fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()])
}

/// Bytes as a path.
pub(super) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        Rules::new(&texts).unwrap().unwrap()
    }

    fn file(rules: &Rules, path: &str) -> bool {
        !rules.exclude(path.as_bytes(), false)
    }

    /// The expected results are those of rsync 3.5.0 with the same rules over a tree of these files.
    #[test]
    fn the_first_matching_rule_decides() {
        let all = rules(&["+ keep.o", "- *.o", "- /build/", "+ build/", "- tmp"]);
        assert!(file(&all, "keep.o") && file(&all, "src/keep.o"));
        assert!(!file(&all, "a.o") && !file(&all, "src/deep/a.o"));
        assert!(!file(&all, "build/a.c"), "the folder above is left out");
        assert!(file(&all, "src/build/a.c") && file(&all, "build"), "a file of that name is no folder");
        assert!(!file(&all, "x/tmp/y") && !file(&all, "tmp") && file(&all, "tmp2"));
    }

    #[test]
    fn only_included_files_with_included_parent_folders_are_selected() {
        let all = rules(&["+ /src/***", "- *"]);
        assert!(file(&all, "src/a") && file(&all, "src/b/c") && !all.exclude(b"src", true));
        assert!(!file(&all, "a") && !file(&all, "doc/src/a"));
        let names = rules(&["include */", "exclude_a/*.c", "+ **/x/*.c", "- *.c"]);
        assert!(file(&names, "x/1.c") && !file(&names, "b/a/1.c") && !file(&names, "y/1.c"));
        assert!(file(&rules(&["- *", "!", "- b"]), "a"), "`!` forgets what stands before it");
    }

    #[test]
    fn invalid_rules_are_reported_with_their_line_and_the_right_form() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        std::fs::write(&path, "# comment\n\n; another\n- *.tmp\n").unwrap();
        let merged = rules(&[&format!("merge {}", path.display())]);
        assert!(!file(&merged, "a.tmp") && file(&merged, "a"));
        std::fs::write(&path, "- a\nfoo b\n").unwrap();
        let error = |text: String| Rules::new(&[text]).unwrap_err().to_string();
        let told = error(format!(". {}", path.display()));
        assert!(told.contains("line 2") && told.contains("`foo` is no kind"), "{told}");
        std::fs::write(&path, format!("merge {}\n", path.display())).unwrap();
        assert!(error(format!(". {}", path.display())).contains("too deep"));
        for (text, says) in [
            ("-", "a space"),
            ("- /", "empty"),
            (": .rsync-filter", "not built"),
            ("P x", "not built"),
            ("- a**b", "stands alone"),
            ("merge /no/such/file", "/no/such/file"),
        ] {
            assert!(error(text.into()).contains(says), "{text}: {}", error(text.into()));
        }
    }
}
