//! Tests of the server, in one binary: it is linked once.

mod bucket;
mod command;
mod confined;
mod hooks;
mod hosts;
#[path = "../server_support/mod.rs"]
mod server_support;
mod service;
mod tcp;
mod tls;
mod transcripts;
