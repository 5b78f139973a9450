//! NLST: one name per line (RFC 959 §4.1.3).

use super::ListingError;
use crate::path::{SafeName, SafePath};

/// Encodes a line of NLST with its end.
pub fn encode_name(name: &SafePath) -> Vec<u8> {
    [if name.is_root() { b"." } else { name.as_bytes() }, b"\r\n"].concat()
}

/// Parses a line of NLST without its end. Servers send bare names, or names prefixed by the requested path
/// `asked`: the last component is the name. `None` for an empty line, `.` and `..`.
pub fn parse_name(line: &[u8], asked: &[u8]) -> Result<Option<SafeName>, ListingError> {
    let name = match line.strip_prefix(asked) {
        Some(rest) if !asked.is_empty() && (asked.ends_with(b"/") || rest.starts_with(b"/")) => {
            rest.strip_prefix(b"/").unwrap_or(rest)
        }
        _ => line.strip_prefix(b"./").unwrap_or(line),
    };
    match name {
        b"" | b"." | b".." => Ok(None),
        name => Ok(Some(SafeName::new(name.to_vec())?)),
    }
}
