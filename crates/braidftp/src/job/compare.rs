//! How a mirror compares files.

/// Which files are taken for the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compare {
    /// Whether times count, beside sizes.
    pub times: bool,
    /// Whether a file that is newer at the destination stays.
    pub newer: bool,
    /// Whether contents are compared, by digest, and times count for nothing.
    pub contents: bool,
}

impl Default for Compare {
    fn default() -> Self {
        Self { times: true, newer: false, contents: false }
    }
}
