//! Compares a copy with its tree: names as bytes, kinds, contents, modification times, targets of links.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::tree::OUTSIDE;

/// The number of differences after which the comparison stops.
const MAX_DIFFERENCES: usize = 20;

/// Whether to compare modification times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// Modification times of files, to the second.
    Compared,
    /// The times are ignored, because the copying program does not keep them.
    Ignored,
}

/// The differences between a tree and its copy; links that lead out of the tree must not be in the copy.
pub(crate) fn differences(tree: &Path, copy: &Path, times: Times) -> Result<Vec<String>> {
    let mut comparison = Comparison { times, found: Vec::new() };
    comparison.folder(tree, copy)?;
    Ok(comparison.found)
}

struct Comparison {
    times: Times,
    found: Vec<String>,
}

impl Comparison {
    fn folder(&mut self, tree: &Path, copy: &Path) -> Result<()> {
        let mut theirs = names(copy)?;
        for name in names(tree)? {
            if self.found.len() >= MAX_DIFFERENCES {
                return Ok(());
            }
            let (here, there) = (tree.join(&name), copy.join(&name));
            let found = theirs.iter().position(|other| *other == name).map(|place| theirs.remove(place));
            let must_be_there = !name.as_bytes().starts_with(OUTSIDE.as_bytes());
            match (found.is_some(), must_be_there) {
                (true, true) => self.entry(&here, &there)?,
                (false, true) => self.differs(&there, "is missing"),
                (true, false) => self.differs(&there, "leads out of the tree, and was created"),
                (false, false) => {}
            }
        }
        for name in theirs {
            self.differs(&copy.join(name), "is not in the tree");
        }
        Ok(())
    }

    fn entry(&mut self, here: &Path, there: &Path) -> Result<()> {
        let (wanted, got) = (fs::symlink_metadata(here)?, fs::symlink_metadata(there)?);
        if wanted.file_type() != got.file_type() {
            self.differs(there, "is of another kind");
        } else if wanted.is_dir() {
            self.folder(here, there)?;
        } else if wanted.is_symlink() {
            if fs::read_link(here)? != fs::read_link(there)? {
                self.differs(there, "leads elsewhere");
            }
        } else if wanted.len() != got.len() {
            self.differs(there, &format!("has {} bytes, not {}", got.len(), wanted.len()));
        } else if !same_bytes(here, there)? {
            self.differs(there, "has other bytes");
        } else if self.times == Times::Compared && wanted.mtime() != got.mtime() {
            self.differs(there, &format!("was changed at {}, not {}", got.mtime(), wanted.mtime()));
        }
        Ok(())
    }

    fn differs(&mut self, path: &Path, how: &str) {
        self.found.push(format!("{path:?} {how}"));
    }
}

fn names(folder: &Path) -> Result<Vec<OsString>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut one_block, mut other_block) = (vec![0; 1 << 18], vec![0; 1 << 18]);
    loop {
        let count = one.read(&mut one_block)?;
        if count == 0 {
            return Ok(true);
        }
        other.read_exact(&mut other_block[..count])?;
        if one_block[..count] != other_block[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Kind, Shape, make};

    fn with_two_trees(name: &str, change: impl Fn(&Path)) -> Vec<String> {
        let root = std::env::temp_dir().join(format!("xtask-compare-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let shape = Shape { files: 120, seed: 7, big: 100_000, kind: Kind::Nasty };
        make(&root.join("tree"), &shape).unwrap();
        make(&root.join("copy"), &shape).unwrap();
        for link in ["outside-absolute", "outside-up", "level 1/outside-far up"] {
            fs::remove_file(root.join("copy").join(link)).unwrap();
        }
        change(&root.join("copy"));
        let found = differences(&root.join("tree"), &root.join("copy"), Times::Compared).unwrap();
        fs::remove_dir_all(&root).unwrap();
        found
    }

    #[test]
    fn equal_trees_have_no_differences() {
        assert_eq!(with_two_trees("same", |_| ()), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 7] = [
            ("missing", |copy| fs::remove_file(copy.join("names/*")).unwrap()),
            ("more", |copy| fs::write(copy.join("names/more"), "").unwrap()),
            ("bytes", |copy| {
                let big = copy.join("big");
                let times = fs::metadata(&big).unwrap().modified().unwrap();
                let mut bytes = fs::read(&big).unwrap();
                bytes[70_000] ^= 1;
                fs::write(&big, bytes).unwrap();
                File::options().write(true).open(&big).unwrap().set_modified(times).unwrap();
            }),
            ("length", |copy| {
                File::options().write(true).open(copy.join("big")).unwrap().set_len(5).unwrap()
            }),
            ("time", |copy| {
                File::open(copy.join("big")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap()
            }),
            ("link", |copy| {
                fs::remove_file(copy.join("a dangling link")).unwrap();
                std::os::unix::fs::symlink("elsewhere", copy.join("a dangling link")).unwrap();
            }),
            ("outside", |copy| {
                std::os::unix::fs::symlink("/etc/passwd", copy.join("outside-absolute")).unwrap()
            }),
        ];
        for (name, change) in changes {
            assert_eq!(with_two_trees(name, change).len(), 1, "{name}");
        }
    }
}
