//! NLST: a name a line (RFC 959 §4.1.3).

use super::ListingError;
use crate::path::{SafeName, SafePath};

/// A line of NLST, with its end.
pub fn encode_name(name: &SafePath) -> Vec<u8> {
    [if name.is_root() { b"." } else { name.as_bytes() }, b"\r\n"].concat()
}

/// Reads a line of NLST, its end taken off. Servers give names bare or with the path that was asked for in front
/// (`asked`, as it was in the command): the last component is the name. `None` for an empty line, `.` and `..`.
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
