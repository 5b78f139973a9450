//! File names and paths that cannot leave their folder.
//!
//! Every name from the peer becomes a [`SafeName`] or [`SafePath`]: paths in commands on the server (RFC
//! 3659 §2.2, TVFS: `/` separates, `..` is the parent), names in listings on the client. Names are bytes
//! and need not be UTF-8. The store handles symbolic links.

use std::fmt;

use bytes::Bytes;

/// The maximum length of a file name in bytes.
pub const NAME_MAX: usize = 255;
/// The maximum length of a path in bytes, including separators.
pub const PATH_MAX: usize = 4096;

/// Why a name or a path was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// The name is empty.
    Empty,
    /// The name is `.` or `..`, or a strict path contains such a component.
    Dots,
    /// A byte that no name may contain: NUL, CR, LF, or `/` inside a name.
    Forbidden(u8),
    /// A relative path begins with `/`.
    Absolute,
    /// More than [`NAME_MAX`] or [`PATH_MAX`] bytes.
    TooLong,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "empty name"),
            Self::Dots => write!(f, "name is . or .."),
            Self::Forbidden(byte) => write!(f, "name has the byte 0x{byte:02x}"),
            Self::Absolute => write!(f, "path is absolute"),
            Self::TooLong => write!(f, "name of more than {NAME_MAX} or path of more than {PATH_MAX} bytes"),
        }
    }
}

impl std::error::Error for PathError {}

/// The name of a file in its folder: not empty, without `/`, NUL, CR and LF, not `.` or `..`, at most
/// [`NAME_MAX`] bytes.
///
/// Other control characters are valid and kept. [`fmt::Display`] escapes them, so that a name cannot send
/// control sequences to a terminal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SafeName(Bytes);

impl SafeName {
    /// Validates a name.
    pub fn new(name: impl Into<Bytes>) -> Result<Self, PathError> {
        let name = name.into();
        check_name(&name)?;
        Ok(Self(name))
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.0, f)
    }
}

impl fmt::Debug for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A path below a root: names joined by `/`, without a leading one. The empty path is the root.
///
/// Every component is a [`SafeName`], so a path never leads above the root.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SafePath(Bytes);

impl SafePath {
    /// The root.
    pub const ROOT: Self = Self(Bytes::new());

    /// Validates a relative path of the peer: `.`, `..`, empty components and a leading `/` are errors.
    /// Clients use it for paths in listings. `.` alone is the root.
    pub fn strict(path: &[u8]) -> Result<Self, PathError> {
        if path == b"." {
            return Ok(Self::ROOT);
        }
        if path.first() == Some(&b'/') {
            return Err(PathError::Absolute);
        }
        if path.len() > PATH_MAX {
            return Err(PathError::TooLong);
        }
        for name in path.split(|byte| *byte == b'/') {
            check_name(name)?;
        }
        Ok(Self(Bytes::copy_from_slice(path)))
    }

    /// Resolves the argument of a command against `self`, the current folder. A leading `/` makes it
    /// absolute; empty components and `.` are skipped; `..` removes the last name and stops at the root
    /// (RFC 3659 §6.2.1).
    pub fn resolve(&self, argument: &[u8]) -> Result<Self, PathError> {
        let mut names: Vec<&[u8]> =
            if argument.first() == Some(&b'/') { Vec::new() } else { self.components_raw().collect() };
        for name in argument.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => {
                    names.pop();
                }
                name => {
                    check_name(name)?;
                    names.push(name);
                }
            }
        }
        let joined = names.join(&b'/');
        if joined.len() > PATH_MAX { Err(PathError::TooLong) } else { Ok(Self(joined.into())) }
    }

    /// Appends a name to the path.
    pub fn join(&self, name: &SafeName) -> Result<Self, PathError> {
        let mut joined = Vec::with_capacity(self.0.len() + 1 + name.0.len());
        joined.extend_from_slice(&self.0);
        if !self.0.is_empty() {
            joined.push(b'/');
        }
        joined.extend_from_slice(&name.0);
        if joined.len() > PATH_MAX { Err(PathError::TooLong) } else { Ok(Self(joined.into())) }
    }

    /// Returns the parent folder; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.0.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        Some(Self(self.0.slice(..end)))
    }

    /// Returns the last name; `None` for the root.
    pub fn name(&self) -> Option<SafeName> {
        let start = self.0.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        (!self.is_root()).then(|| SafeName(self.0.slice(start..)))
    }

    /// Iterates over the names from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = SafeName> + '_ {
        self.components_raw().map(|name| SafeName(self.0.slice_ref(name)))
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `self` equals `other` or is an ancestor of it.
    pub fn contains(&self, other: &Self) -> bool {
        self.is_root()
            || (matches!(other.0.get(self.0.len()), None | Some(b'/')) && other.0.starts_with(&self.0))
    }

    /// Returns the relative path: `a/b`, empty for the root.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the relative path; it shares the memory of this one.
    pub(crate) fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Returns the absolute virtual path of commands and replies: `/a/b`, `/` for the root.
    pub fn to_absolute(&self) -> Vec<u8> {
        let mut absolute = Vec::with_capacity(self.0.len() + 1);
        absolute.push(b'/');
        absolute.extend_from_slice(&self.0);
        absolute
    }

    fn components_raw(&self) -> impl DoubleEndedIterator<Item = &[u8]> + '_ {
        self.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }
}

impl fmt::Display for SafePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.0, f)
    }
}

impl fmt::Debug for SafePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"/{self}\"")
    }
}

impl From<SafeName> for SafePath {
    fn from(name: SafeName) -> Self {
        Self(name.0)
    }
}

/// Writes bytes for a terminal: valid UTF-8 without control characters unchanged, everything else as
/// `\xNN`.
pub fn escape(bytes: &[u8], f: &mut impl fmt::Write) -> fmt::Result {
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return f.write_str(&String::from_utf8_lossy(bytes));
    }
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || is_bidi_control(c) {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    write!(f, "\\x{byte:02x}")?;
                }
            } else {
                f.write_char(c)?;
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Characters that reorder displayed text (Unicode TR 36 §2.1), which could make a name look like another.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn check_name(name: &[u8]) -> Result<(), PathError> {
    match name {
        b"" => return Err(PathError::Empty),
        b"." | b".." => return Err(PathError::Dots),
        _ if name.len() > NAME_MAX => return Err(PathError::TooLong),
        _ => {}
    }
    match name.iter().find(|byte| matches!(byte, 0 | b'\r' | b'\n' | b'/')) {
        Some(byte) => Err(PathError::Forbidden(*byte)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> SafePath {
        SafePath::strict(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_strict_path_cannot_leave_its_root() {
        for (text, why) in [
            ("..", PathError::Dots),
            ("a/../b", PathError::Dots),
            ("./a", PathError::Dots),
            ("/etc/passwd", PathError::Absolute),
            ("", PathError::Empty),
            ("a//b", PathError::Empty),
            ("a/", PathError::Empty),
            ("a\0b", PathError::Forbidden(0)),
            ("a\rb", PathError::Forbidden(b'\r')),
            ("a\nb", PathError::Forbidden(b'\n')),
        ] {
            assert_eq!(SafePath::strict(text.as_bytes()), Err(why), "{text:?}");
        }
        assert_eq!(SafePath::strict(b"."), Ok(SafePath::ROOT));
    }

    #[test]
    fn resolving_stops_at_the_root() {
        let cwd = path("a/b");
        for (argument, resolved) in [
            ("c", "/a/b/c"),
            ("../c", "/a/c"),
            ("../../../../c", "/c"),
            ("/..", "/"),
            ("/x//y/./z/", "/x/y/z"),
            ("", "/a/b"),
        ] {
            let found = cwd.resolve(argument.as_bytes()).unwrap().to_absolute();
            assert_eq!(String::from_utf8(found).unwrap(), resolved, "{argument}");
        }
    }

    #[test]
    fn limits_hold_at_their_edges() {
        assert!(SafeName::new(vec![b'a'; NAME_MAX]).is_ok());
        assert_eq!(SafeName::new(vec![b'a'; NAME_MAX + 1]), Err(PathError::TooLong));
        let long = [vec![b'a'; 200], vec![b'b'; 200]].join(&b'/').repeat(10);
        let mut fits = b"x/".repeat(PATH_MAX / 2);
        fits.pop();
        assert!(SafePath::strict(&fits).is_ok());
        assert!(SafePath::ROOT.resolve(&fits).unwrap().join(&SafeName::new("yy").unwrap()).is_err());
        assert!(SafePath::strict(&[long, fits].concat()).is_err());
    }

    #[test]
    fn contains_compares_complete_names() {
        assert!(SafePath::ROOT.contains(&path("a")));
        assert!(path("a").contains(&path("a/b")));
        assert!(path("a").contains(&path("a")));
        assert!(!path("a").contains(&path("ab")));
        assert!(!path("a/b").contains(&path("a")));
    }

    #[test]
    fn displayed_names_contain_no_control_sequences() {
        let name = SafeName::new(&b"a\x1b[2J\xff\xc3\xa9\xe2\x80\xae"[..]).unwrap();
        assert_eq!(name.to_string(), "a\\x1b[2J\\xffé\\xe2\\x80\\xae");
    }

    proptest! {
        #[test]
        fn resolved_paths_are_strict_ones(cwd in "[a-z./]{0,20}", argument in proptest::collection::vec(any::<u8>(), 0..40)) {
            let cwd = SafePath::ROOT.resolve(cwd.as_bytes()).unwrap();
            if let Ok(resolved) = cwd.resolve(&argument) {
                if !resolved.is_root() {
                    prop_assert_eq!(SafePath::strict(resolved.as_bytes()), Ok(resolved.clone()));
                }
                prop_assert_eq!(SafePath::ROOT.resolve(&resolved.to_absolute()), Ok(resolved.clone()));
                if let (Some(parent), Some(name)) = (resolved.parent(), resolved.name()) {
                    prop_assert_eq!(parent.join(&name), Ok(resolved));
                }
            }
        }
    }
}
