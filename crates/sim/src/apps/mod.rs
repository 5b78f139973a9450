//! What simulated hosts do.

pub mod ftp;
pub mod messages;
