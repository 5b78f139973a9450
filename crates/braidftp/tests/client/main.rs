//! Tests of the client as a program and as a library, in one binary: it is linked once.

mod bounds;
#[path = "../client_support/mod.rs"]
mod client_support;
mod digests;
mod drain;
#[path = "../endless/mod.rs"]
mod endless;
mod hard_links;
mod journal;
mod lies;
mod modes;
mod naive;
mod parallel;
mod plans;
mod protected_sctp;
mod reading;
mod round_trips;
mod settings;
mod shell;
mod trees;
