//! A message that is being read.

use braidftp_sctp::Order;

/// The message being read, or the next one.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) member: i64,
    pub(super) stream: u16,
    pub(super) ppid: u32,
    pub(super) tsn: u32,
    pub(super) sequence: u32,
    pub(super) order: Order,
    pub(super) left: i64,
    /// Whether the rest is the end of the message.
    pub(super) end: bool,
}
