//! Figures, claims and emulated links: the library behind the program `braidlab`.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod bench;
pub mod claim;
pub mod compare;
pub mod data;
pub mod figure;
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

use std::sync::LazyLock;

/// Identifies this build: the first digits of the executable's BLAKE3 digest. Rows of the same build may be
/// combined.
pub fn build() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let bytes = std::env::current_exe().and_then(std::fs::read);
        bytes.map_or_else(|_| "unknown".to_owned(), |bytes| blake3::hash(&bytes).to_hex()[..16].to_owned())
    });
    &BUILD
}
