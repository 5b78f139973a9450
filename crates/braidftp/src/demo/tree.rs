//! The tree of the demo: real files, reduced to a size that a slow link carries in reasonable time; and the
//! comparison of two trees, byte for byte.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::exit::{Error, Exit, Result, escape};

/// The maximum size of the copy.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The maximum number of files.
    pub files: usize,
    /// The maximum total of bytes.
    pub bytes: u64,
}

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Files.
    pub files: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// The number of files before the reduction.
    pub of_files: usize,
    /// Symbolic links.
    pub links: usize,
}

/// Names that are not sources.
const SKIPPED: [&str; 3] = [".git", "target", "node_modules"];
/// The maximum depth of folders.
const MAX_DEPTH: usize = 64;
/// The maximum number of examined files.
const MAX_LOOKED_AT: usize = 100_000;

/// Copies a part of `from` to the empty folder `to`: files spread evenly over the whole tree, so that the
/// part is representative, and links with relative targets.
///
/// # Errors
///
/// Something cannot be read or written, or there is no file at all.
pub fn cut(from: &Path, to: &Path, cut: Cut) -> Result<Taken> {
    let mut files = Vec::new();
    let mut links = Vec::new();
    walk(from, Path::new(""), 0, &mut files, &mut links)?;
    files.sort();
    links.sort();
    if files.is_empty() {
        return Err(Error::new(
            Exit::Usage,
            format_args!("use {}", from.display()),
            "there is no file in it",
        )
        .hint("name a folder with files: braidftp demo DIR"));
    }
    let mut taken = Taken { of_files: files.len(), ..Taken::default() };
    // As many evenly spread files as fit: counts are tried from the largest down.
    let mut count = files.len().min(cut.files);
    let chosen = loop {
        let chosen: Vec<_> = (0..count).map(|n| &files[n * files.len() / count]).collect();
        if count == 1 || chosen.iter().map(|(_, size)| size).sum::<u64>() <= cut.bytes {
            break chosen;
        }
        count -= 1;
    };
    for (path, _) in chosen {
        let target = to.join(path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)
                .map_err(|e| Error::local(format_args!("make {}", folder.display()), &e))?;
        }
        let copied = fs::copy(from.join(path), &target)
            .map_err(|e| Error::local(format_args!("copy {}", from.join(path).display()), &e))?;
        taken.files += 1;
        taken.bytes += copied;
    }
    for (path, target) in links.into_iter().take(cut.files / 10) {
        let link = to.join(&path);
        // A link is kept even if its target was left out; a link in a folder that was left out is not.
        if link.parent().is_some_and(Path::is_dir) && crate::store::fs::link_stays_inside(&path, &target) {
            std::os::unix::fs::symlink(&target, &link)
                .map_err(|e| Error::local(format_args!("make {}", link.display()), &e))?;
            taken.links += 1;
        }
    }
    Ok(taken)
}

fn walk(
    root: &Path,
    below: &Path,
    depth: usize,
    files: &mut Vec<(PathBuf, u64)>,
    links: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<()> {
    let folder = root.join(below);
    let failed = |e: &io::Error| Error::local(format_args!("read {}", folder.display()), e);
    for entry in fs::read_dir(&folder).map_err(|e| failed(&e))? {
        let entry = entry.map_err(|e| failed(&e))?;
        let path = below.join(entry.file_name());
        let kind = entry.file_type().map_err(|e| failed(&e))?;
        if files.len() >= MAX_LOOKED_AT {
            return Ok(());
        }
        if kind.is_dir() {
            let skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
            if !skipped && depth < MAX_DEPTH {
                walk(root, &path, depth + 1, files, links)?;
            }
        } else if kind.is_symlink() {
            links.push((path, fs::read_link(entry.path()).map_err(|e| failed(&e))?));
        } else if kind.is_file() {
            files.push((path, entry.metadata().map_err(|e| failed(&e))?.len()));
        }
    }
    Ok(())
}

/// Creates a synthetic tree: file sizes as in source trees, with text that names its position.
///
/// # Errors
///
/// It cannot be written.
pub fn synthesize(to: &Path, files: usize) -> Result<()> {
    for n in 0..files {
        let folder = to.join(format!("part-{}", n % 7)).join(format!("section {}", n % 3));
        fs::create_dir_all(&folder)
            .map_err(|e| Error::local(format_args!("make {}", folder.display()), &e))?;
        let path = folder.join(format!("file-{n:03}.txt"));
        let lines = [4, 40, 120, 300, 900][n % 5] + n;
        let content: String = (0..lines).map(|line| format!("file {n}, line {line}\n")).collect();
        fs::write(&path, content).map_err(|e| Error::local(format_args!("write {}", path.display()), &e))?;
    }
    Ok(())
}

/// The differences of two trees, one per line, at most `limit`. Names, kinds, link targets, bytes and times
/// (to the second) are compared.
///
/// # Errors
///
/// One of them cannot be read.
pub fn differences(left: &Path, right: &Path, limit: usize) -> io::Result<Vec<String>> {
    let mut out = Vec::new();
    compare(left, right, Path::new(""), limit, &mut out)?;
    Ok(out)
}

fn compare(left: &Path, right: &Path, below: &Path, limit: usize, out: &mut Vec<String>) -> io::Result<()> {
    let names = |root: &Path| -> io::Result<Vec<_>> {
        let mut names =
            fs::read_dir(root.join(below))?.map(|e| Ok(e?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let (ours, theirs) = (names(left)?, names(right)?);
    let shown = |path: &Path| escape(path.as_os_str().as_bytes());
    for name in theirs.iter().filter(|name| ours.binary_search(name).is_err()) {
        out.push(format!("{} is only in the second", shown(&below.join(name))));
    }
    for name in &ours {
        if out.len() >= limit {
            return Ok(());
        }
        let path = below.join(name);
        if theirs.binary_search(name).is_err() {
            out.push(format!("{} is only in the first", shown(&path)));
            continue;
        }
        let (a, b) = (left.join(&path), right.join(&path));
        let (meta_a, meta_b) = (a.symlink_metadata()?, b.symlink_metadata()?);
        if meta_a.file_type() != meta_b.file_type() {
            out.push(format!("{} is not of the same kind", shown(&path)));
        } else if meta_a.is_dir() {
            compare(left, right, &path, limit, out)?;
        } else if meta_a.is_symlink() {
            if fs::read_link(&a)? != fs::read_link(&b)? {
                out.push(format!("{} leads elsewhere", shown(&path)));
            }
        } else if meta_a.is_file() {
            if !same_bytes(&a, &b)? {
                out.push(format!("{} has other bytes", shown(&path)));
            } else if seconds(&meta_a) != seconds(&meta_b) {
                out.push(format!("{} has another time", shown(&path)));
            }
        }
    }
    Ok(())
}

fn seconds(metadata: &fs::Metadata) -> i64 {
    std::os::unix::fs::MetadataExt::mtime(metadata)
}

fn same_bytes(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (fs::File::open(a)?, fs::File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let read = a.read(&mut left)?;
        if read == 0 {
            return Ok(b.read(&mut right)? == 0);
        }
        match b.read_exact(&mut right[..read]) {
            Ok(()) if left[..read] == right[..read] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_of_synthetic() -> (tempfile::TempDir, tempfile::TempDir) {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        synthesize(a.path(), 20).unwrap();
        std::os::unix::fs::symlink("part-0", a.path().join("link")).unwrap();
        let all = cut(a.path(), b.path(), Cut { files: 100, bytes: u64::MAX }).unwrap();
        assert_eq!((all.files, all.links), (20, 1));
        // Copies have other times: use the first's.
        for n in 0..20 {
            let path = format!("part-{}/section {}/file-{n:03}.txt", n % 7, n % 3);
            let time = fs::metadata(a.path().join(&path)).unwrap().modified().unwrap();
            fs::File::options().write(true).open(b.path().join(&path)).unwrap().set_modified(time).unwrap();
        }
        (a, b)
    }

    #[test]
    fn equal_trees_have_no_differences() {
        let (a, b) = copy_of_synthetic();
        assert_eq!(differences(a.path(), b.path(), 10).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_found() {
        let says = |change: &dyn Fn(&Path)| {
            let (a, b) = copy_of_synthetic();
            change(b.path());
            differences(a.path(), b.path(), 10).unwrap().join("; ")
        };
        let file = "part-0/section 0/file-000.txt";
        assert!(says(&|b| fs::remove_file(b.join(file)).unwrap()).contains("only in the first"));
        assert!(says(&|b| fs::write(b.join("new"), "").unwrap()).contains("only in the second"));
        assert!(says(&|b| fs::write(b.join(file), "x").unwrap()).contains("other bytes"));
        let one_bit = |b: &Path| {
            let mut bytes = fs::read(b.join(file)).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(b.join(file), bytes).unwrap();
        };
        assert!(says(&one_bit).contains("other bytes"));
        let relink = |b: &Path| {
            fs::remove_file(b.join("link")).unwrap();
            std::os::unix::fs::symlink("part-1", b.join("link")).unwrap();
        };
        assert!(says(&relink).contains("elsewhere"));
        let retime = |b: &Path| {
            let file = fs::File::options().write(true).open(b.join(file)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        };
        assert!(says(&retime).contains("another time"));
    }

    #[test]
    fn a_reduced_tree_keeps_its_limits_and_is_spread_evenly() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        synthesize(a.path(), 70).unwrap();
        let taken = cut(a.path(), b.path(), Cut { files: 30, bytes: 100_000 }).unwrap();
        assert!(taken.files <= 30 && taken.files > 5 && taken.bytes <= 100_000, "{taken:?}");
        assert_eq!(taken.of_files, 70);
        assert!(fs::read_dir(b.path()).unwrap().count() >= 5);
        let empty = tempfile::tempdir().unwrap();
        assert!(cut(empty.path(), b.path(), Cut { files: 1, bytes: 1 }).is_err());
    }
}
