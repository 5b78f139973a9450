//! Tests of keys, certificates and trust, in one binary: it is linked once.

mod bad_identities;
mod command;
mod first_use;
mod identities;
#[path = "../protection_support/mod.rs"]
mod protection_support;
