//! File names: permitted bytes, resolution of a peer's path below a root, display of names.
//!
//! A name from the peer never leaves its folder. Names are bytes (RFC 2640 §2.2 permits names that are not
//! UTF-8), so that a file keeps its name through any number of transfers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::{Error, Why};

/// The maximum length of a peer's path in bytes: Linux's PATH_MAX.
pub const MAX_PATH_BYTES: usize = 4096;

/// The suffix of temporary names of uploads and downloads. Such names are reserved: no listing contains them,
/// and no peer may use them.
const UNFINISHED: &[u8] = b".braidftp-part";

/// Resolves a peer's `path` to a path below a root: `/a//./b/` is `a/b`, and `/` is the empty path.
///
/// # Errors
///
/// `..`, NUL, CR, LF, a path longer than [`MAX_PATH_BYTES`], and temporary names.
pub fn relative(path: &[u8]) -> Result<PathBuf, Error> {
    let refuse = |why| Error::new("use", Path::new(OsStr::from_bytes(path)), Why::BadName(why));
    if path.len() > MAX_PATH_BYTES {
        return Err(Error::new("use", Path::new("…"), Why::BadName("a path longer than 4096 bytes")));
    }
    let mut out = PathBuf::new();
    for part in path.split(|b| *b == b'/') {
        if part.is_empty() || part == b"." {
            continue;
        }
        check(part).map_err(refuse)?;
        out.push(OsStr::from_bytes(part));
    }
    Ok(out)
}

/// Whether `part` may be one component of a path.
fn check(part: &[u8]) -> Result<(), &'static str> {
    match part {
        b"" => return Err("it is empty"),
        b"." | b".." => return Err("it leads out of its folder"),
        _ => {}
    }
    for byte in part {
        match byte {
            b'/' => return Err("it holds a slash"),
            0 => return Err("it holds a NUL byte"),
            b'\r' | b'\n' => return Err("it holds a line end, which FTP cannot carry"),
            _ => {}
        }
    }
    if is_unfinished(OsStr::from_bytes(part)) {
        return Err("names of unfinished transfers are reserved");
    }
    Ok(())
}

/// Whether `name` is a component that may exist on both sides: the check of a client for each name in a
/// listing.
///
/// # Errors
///
/// Empty, `.`, `..`, a slash, NUL, CR, LF, and temporary names.
pub fn component(name: &[u8]) -> Result<&Path, Error> {
    let path = Path::new(OsStr::from_bytes(name));
    match check(name) {
        Ok(()) => Ok(path),
        Err(why) => Err(Error::new("use", path, Why::BadName(why))),
    }
}

/// Whether an FTP line can contain this name: whether it has no line end.
pub fn fits_a_line(name: &[u8]) -> bool {
    !name.iter().any(|byte| matches!(byte, b'\r' | b'\n'))
}

/// Whether this is a temporary name.
pub fn is_unfinished(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".") && name.ends_with(UNFINISHED)
}

/// The temporary name for the file `name`. Each name has one, so that an interrupted transfer finds its own
/// bytes again.
pub(super) fn unfinished(name: &OsStr) -> PathBuf {
    const NAME_MAX: usize = 255;
    let mut out = Vec::with_capacity(name.len() + 16);
    out.push(b'.');
    if name.len() + 1 + UNFINISHED.len() <= NAME_MAX {
        out.extend_from_slice(name.as_bytes());
    } else {
        out.extend_from_slice(&blake3::hash(name.as_bytes()).to_hex().as_bytes()[..32]);
    }
    out.extend_from_slice(UNFINISHED);
    PathBuf::from(OsStr::from_bytes(&out))
}

/// The temporary name under which the file `identity` waits to be renamed to `name`. No transfer opens this name: it
/// would write into a file that has other names.
pub(super) fn link(name: &OsStr, identity: (u64, u64)) -> PathBuf {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"link\0").update(&identity.0.to_le_bytes()).update(&identity.1.to_le_bytes());
    let hash = hasher.update(name.as_bytes()).finalize().to_hex();
    let out = [b".", &hash.as_bytes()[..32], UNFINISHED].concat();
    PathBuf::from(OsStr::from_bytes(&out))
}

/// The final name for this temporary name; `None` if the final name was too long to be included.
pub(super) fn finished(name: &OsStr) -> Option<&OsStr> {
    let inner = name.as_bytes().strip_prefix(b".")?.strip_suffix(UNFINISHED)?;
    let is_hash = inner.len() == 32 && inner.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    (!inner.is_empty() && !is_hash).then(|| OsStr::from_bytes(inner))
}

/// Whether a symbolic link at `link` (relative to the root) with this `target` stays within the root, judged
/// by the text alone: an absolute target does not, nor one that climbs above the root. When a link is opened,
/// the system checks it again.
pub fn link_stays_inside(link: &Path, target: &Path) -> bool {
    use std::path::Component;
    let mut depth = link.parent().map_or(0, |parent| parent.components().count());
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    !target.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_path_is_resolved_from_the_root() {
        for (given, meant) in
            [("/", ""), ("", ""), ("a/b", "a/b"), ("//a/./b/", "a/b"), ("/a b/ c", "a b/ c")]
        {
            assert_eq!(relative(given.as_bytes()).unwrap(), Path::new(meant), "{given}");
        }
        assert_eq!(relative(b"/\xff\xfe").unwrap().as_os_str().as_bytes(), b"\xff\xfe");
    }

    #[test]
    fn names_that_leave_their_folder_or_contain_a_line_end_are_refused() {
        let long = vec![b'a'; MAX_PATH_BYTES + 1];
        for bad in [&b".."[..], b"a/../b", b"/..", b"a\0b", b"a\rb", b"a\nb", b".x.braidftp-part", &long] {
            assert!(relative(bad).is_err(), "{bad:?}");
        }
        assert!(relative(&long[1..]).is_ok(), "the limit itself is allowed");
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", b"a\n"] {
            assert!(component(bad).is_err(), "{bad:?}");
        }
        assert!(component(b"...").is_ok());
    }

    #[test]
    fn the_temporary_name_is_within_the_limit_and_hidden() {
        for length in [1, 239, 240, 241, 255] {
            let name = "n".repeat(length);
            let part = unfinished(OsStr::new(&name));
            assert!(part.as_os_str().len() <= 255, "{length}");
            assert!(is_unfinished(part.as_os_str()));
        }
        assert_ne!(unfinished(OsStr::new(&"n".repeat(254))), unfinished(OsStr::new(&"n".repeat(255))));
    }

    #[test]
    fn link_targets_are_resolved_from_the_links_folder() {
        for (link, target, inside) in [
            ("l", "x", true),
            ("l", "..", false),
            ("a/l", "..", true),
            ("a/l", "../..", false),
            ("a/l", "../b/../../c", false),
            ("l", "/etc/passwd", false),
            ("l", "", false),
        ] {
            assert_eq!(link_stays_inside(Path::new(link), Path::new(target)), inside, "{link} -> {target}");
        }
    }
}
