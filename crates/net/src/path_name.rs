//! The name of a path.

use std::net::SocketAddr;

use braidftp_sctp::{PathStats, PathView};

/// The name of a path: its addresses. It stays the same as long as the path exists, and no other path of the
/// association has it. A request about a path that does not exist fails with [`NoSuchPath`](braidftp_sctp::NoSuchPath).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathName {
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
}

impl PathName {
    /// The path of these statistics.
    pub fn of(stats: &PathStats) -> Self {
        Self { local: stats.local, peer: stats.peer }
    }

    pub(crate) fn of_view(path: &PathView) -> Self {
        Self { local: path.local, peer: path.peer }
    }
}
