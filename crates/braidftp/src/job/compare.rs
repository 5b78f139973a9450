//! How a mirror compares files.

/// Which files are treated as equal on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compare {
    /// Whether times are compared, in addition to sizes.
    pub times: bool,
    /// Whether a file that is newer at the destination is kept.
    pub newer: bool,
    /// Whether contents are compared by digest, and times are ignored.
    pub contents: bool,
}

impl Default for Compare {
    fn default() -> Self {
        Self { times: true, newer: false, contents: false }
    }
}
