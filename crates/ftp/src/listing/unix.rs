//! LIST: what `ls -l` prints.

use super::{ListingError, Parsed};
use crate::path::SafePath;
use crate::stamp::Timestamp;
use crate::store::Metadata;

/// A line as `ls -l` prints it, with its end. `now` decides whether the time of day or the year is shown.
pub fn encode_unix(metadata: &Metadata, name: &SafePath, now: Timestamp) -> Vec<u8> {
    let _ = (metadata, now);
    super::encode_name(name)
}

/// Reads a line of LIST, its end taken off: Unix in its many forms, DOS, EPLF. `now` places dates without a year.
pub fn parse_list(line: &[u8], now: Timestamp) -> Result<Parsed, ListingError> {
    let _ = (line, now);
    Err(ListingError::Form)
}
