//! Tests of associations over UDP on loopback, in one binary: it is linked once.

mod api;
mod both_worlds;
#[path = "../common/mod.rs"]
mod common;
mod loopback;
mod multihomed;
mod protected;
mod strangers;
