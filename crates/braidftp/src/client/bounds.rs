//! Limits on what a client accepts from a server: file sizes, listings, depth of folders.
//!
//! A size that the server reported is always a limit, whatever the options say. Each error names the limit
//! and the option that changes it.

use crate::exit::{Error, Exit};
use crate::store::fs::MAX_DEPTH;

/// The maximum size of a file whose size the server does not report, without `--max-size`: 64 GiB.
pub const UNKNOWN_SIZE_MAX: u64 = 64 << 30;
/// The bytes of a listing per permitted entry; most entries have 100.
const ENTRY_BYTES: u64 = 512;
/// The minimum limit of a listing in bytes.
const LISTING_BYTES_MIN: u64 = 1 << 20;
/// The maximum number of entries of a tree and of one listing, without `--max-entries`. A finished path takes
/// 16 bytes of a hash table.
pub const ENTRIES_MAX: u64 = 10_000_000;
/// The maximum memory of paths of a tree in bytes, each counted with [`HELD_PATH_BYTES`]: folders to be
/// listed, files to be requested later, folders whose times are set at the end. 256 MiB.
pub const HELD_BYTES_MAX: usize = 256 << 20;
/// The memory of a held path besides its bytes.
pub const HELD_PATH_BYTES: usize = 96;
/// The maximum number of bytes discarded after the limit of a file that is too long, when the next file
/// follows on the same stream. Beyond that, the session ends. 64 MiB: the size of a receive window.
pub const DISCARDED_BYTES_MAX: u64 = 64 << 20;

/// The values of `--max-size`, `--max-depth` and `--max-entries`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum size of a file. `None`: the size that the server reports, or [`UNKNOWN_SIZE_MAX`] if it
    /// reports none.
    pub max_size: Option<u64>,
    /// The maximum depth of folders below the given one. Default: [`MAX_DEPTH`], the limit of our server.
    pub max_depth: usize,
    /// The maximum number of entries of a tree and of one listing. Default: [`ENTRIES_MAX`].
    pub max_entries: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { max_size: None, max_depth: MAX_DEPTH, max_entries: ENTRIES_MAX }
    }
}

impl Bounds {
    /// Checks that a file may have this size.
    ///
    /// # Errors
    ///
    /// It may not; `what` is the operation that fails.
    pub(crate) fn check_size(&self, what: impl FnOnce() -> String, bytes: u64) -> Result<(), Error> {
        match self.max_size {
            Some(max) if bytes > max => Err(Error::new(
                Exit::Local,
                what(),
                format_args!("it has {bytes} bytes, more than --max-size, {max}"),
            )
            .hint("--max-size takes more, as in --max-size 2GB")),
            _ => Ok(()),
        }
    }

    /// The maximum size of one listing in bytes.
    pub fn listing_bytes(&self) -> u64 {
        self.max_entries.saturating_mul(ENTRY_BYTES).max(LISTING_BYTES_MIN)
    }

    /// The maximum number of bytes of a file whose size the server may have reported.
    pub(crate) fn most(&self, told: Option<u64>) -> u64 {
        told.unwrap_or(u64::MAX).min(self.max_size.unwrap_or(if told.is_some() {
            u64::MAX
        } else {
            UNKNOWN_SIZE_MAX
        }))
    }

    /// The error of a file that is longer than [`Self::most`].
    pub(crate) fn beyond(&self, what: &str, told: Option<u64>) -> Error {
        let error = match (told, self.max_size) {
            (Some(told), max) if max.is_none_or(|max| told <= max) => {
                let why = format_args!("the server sends more than the {told} bytes that it reported");
                return Error::new(Exit::Verify, what, why).hint(
                    "the same command again, if the file was growing meanwhile; otherwise the server is at fault",
                );
            }
            (Some(told), Some(max)) => Error::new(
                Exit::Local,
                what,
                format_args!("it has {told} bytes, more than --max-size, {max}"),
            ),
            (_, Some(max)) => {
                Error::new(Exit::Local, what, format_args!("it is longer than --max-size, {max} bytes"))
            }
            (_, None) => Error::new(
                Exit::Local,
                what,
                format_args!(
                    "it is longer than {UNKNOWN_SIZE_MAX} bytes, and the server does not report its size"
                ),
            ),
        };
        error.hint("--max-size takes more, as in --max-size 2TB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_reported_size_or_a_lower_max_size() {
        let bounds = Bounds::default();
        assert_eq!((bounds.most(Some(4)), bounds.most(None)), (4, UNKNOWN_SIZE_MAX));
        assert_eq!(bounds.beyond("x", Some(4)).exit, Exit::Verify);
        let bounds = Bounds { max_size: Some(2), ..bounds };
        assert_eq!((bounds.most(Some(4)), bounds.most(Some(1)), bounds.most(None)), (2, 1, 2));
        assert_eq!(bounds.beyond("x", Some(1)).exit, Exit::Verify);
        assert!(bounds.check_size(|| "x".into(), 2).is_ok() && bounds.check_size(|| "x".into(), 3).is_err());
    }

    #[test]
    fn a_file_beyond_its_limit_is_reported_with_the_limit() {
        let none = Bounds::default();
        let two = Bounds { max_size: Some(2), ..none };
        for (bounds, told, exit, why) in [
            (two, Some(2), Exit::Verify, "more than the 2 bytes that it reported"),
            (two, Some(4), Exit::Local, "it has 4 bytes, more than --max-size, 2"),
            (two, None, Exit::Local, "it is longer than --max-size, 2 bytes"),
            (none, Some(4), Exit::Verify, "more than the 4 bytes that it reported"),
            (
                none,
                None,
                Exit::Local,
                "longer than 68719476736 bytes, and the server does not report its size",
            ),
        ] {
            let error = bounds.beyond("x", told);
            assert!(error.exit == exit && error.to_string().contains(why), "{told:?}: {error}");
        }
    }
}
