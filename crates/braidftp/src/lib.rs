//! The FTP client and server with sockets and files, and the library behind the program `braidftp`.
//!
#![doc = include_str!("../README.md")]

pub mod budget;
pub mod cli;
pub mod client;
mod dashboard;
pub mod demo;
pub mod exit;
mod http;
pub mod identity;
pub mod job;
pub mod limiter;
mod mistakes;
pub mod packed;
pub mod progress;
pub mod report;
pub mod server;
pub mod size;
mod stderr;
pub mod store;
mod tls;
pub mod url;
pub mod user_limits;
pub mod users;
mod users_file;
