//! Figures, claims and emulated links: the library behind the program `braidlab`.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod bench;
pub mod claim;
pub mod compare;
pub mod data;
pub mod figure;
pub mod film;
pub mod golden;
pub mod papers;
pub mod plot;
pub mod report;
pub mod scenario;
pub mod stats;
pub mod store;
pub mod sweep;
pub mod table;
pub mod text;
pub mod times;

use std::path::PathBuf;
use std::sync::LazyLock;

/// Identifies this build: the first digits of the BLAKE3 digest of the file that holds this code, an executable or a Python
/// module. Rows of the same build may be combined.
pub fn build() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let file = file_of_code().map_or_else(std::env::current_exe, Ok);
        let bytes = file.and_then(std::fs::read);
        bytes.map_or_else(|_| "unknown".to_owned(), |bytes| blake3::hash(&bytes).to_hex()[..16].to_owned())
    });
    &BUILD
}

/// The file that is mapped where this function is.
fn file_of_code() -> Option<PathBuf> {
    let here = file_of_code as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16));
        let path = &rest[rest.find('/')?..];
        (from.ok()?..to.ok()?).contains(&here).then(|| PathBuf::from(path))
    })
}
