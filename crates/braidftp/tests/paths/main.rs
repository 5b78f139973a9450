//! Tests of several paths, in one binary: it is linked once.

mod control;
mod cut;
#[path = "../path_support/mod.rs"]
mod path_support;
