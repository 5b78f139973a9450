//! FTP sessions, client and server, as machines without input or output of their own.
#![forbid(unsafe_code)]

pub mod client;
pub mod command;
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
pub use mapping::Mode;
pub use path::{SafeName, SafePath};
pub use reply::{Code, Reply};
