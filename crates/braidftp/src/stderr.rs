//! Lines on standard error.
//!
//! `eprintln!` panics if the reader is gone (`braidftp … 2>&1 | head`), and writes a line in pieces, between which another process may
//! write.

use std::fmt::Display;
use std::io::Write;

/// Writes a line, in one piece. If nobody reads it, nothing is lost that matters: the exit code tells the result.
pub(crate) fn line(text: impl Display) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
