//! braidftp: FTP carried by SCTP, with tokio, sockets and files. The program `braidftp` is a thin shell around it.
//!
//! The protocols live in the pure crates (`braidftp-sctp`, `braidftp-ftp`); this one executes what their machines
//! ask for: it opens files, pumps bytes and waits for sockets.

pub mod budget;
pub mod cli;
pub mod client;
pub mod demo;
pub mod exit;
pub mod identity;
pub mod job;
pub mod progress;
pub mod report;
pub mod server;
pub mod store;
pub mod url;
pub mod users;
