//! Applications for simulated hosts.

pub mod bulk;
pub mod ftp;
pub mod messages;
pub(crate) mod numbered;
pub mod transfers;
