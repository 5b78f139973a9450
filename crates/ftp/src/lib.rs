//! FTP client and server sessions (RFC 959 and its extensions) as sans-IO state machines.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod client;
pub mod command;
pub mod hash;
pub mod line;
pub mod listing;
pub mod mapping;
pub mod path;
pub mod reply;
pub mod server;
pub mod stamp;
pub mod store;

pub use braidftp_base::{Output, Time};
pub use command::{Command, PathArg};
pub use hash::HashName;
pub use mapping::Mode;
pub use path::{SafeName, SafePath};
pub use reply::{Code, Reply};
