//! SCTP for C programs: the calls of RFC 6458 under the names of usrsctp.
//!
#![doc = include_str!("../README.md")]

pub mod abi;
mod address;
mod callbacks;
pub mod calls;
mod checksum;
mod connect;
mod dump;
mod errno;
mod memory;
mod notices;
mod options;
mod pump;
mod socket;
mod stack;
mod sync;
pub mod sysctl;
pub mod transfer;

pub use socket::{ReceiveCallback, Upcall};
pub use stack::{ConnOutput, DebugPrintf};
