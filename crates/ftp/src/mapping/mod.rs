//! The data paths of each mode, and the frames on braid's data streams (specs/ftp-over-sctp.md).
//!
//! [`frame`] encodes and decodes headers and other fields, [`sender`] and [`receiver`] assemble and parse
//! messages and count bytes, and [`pool`] divides the receive buffer among streams as credit. The caller
//! computes digests.

pub mod frame;
pub mod pool;
pub mod receiver;
pub mod sender;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The SCTP port of servers in every mode (IANA: ftp 21/sctp).
pub const CONTROL_PORT: u16 = 21;
/// The source port of a naive server's data associations (IANA: ftp-data 20/sctp).
pub const DATA_PORT: u16 = 20;
/// The UDP port of encapsulated SCTP (RFC 6951 §5.1).
pub const UDP_PORT: u16 = 9899;
/// The stream of commands and replies.
pub const CONTROL_STREAM: u16 = 0;
/// The only data stream of ms and ms-cp.
pub const DATA_STREAM: u16 = 1;
/// The default number of data streams of a braid association.
pub const DATA_STREAMS_DEFAULT: u16 = 4;
/// The priority of the data streams of braid (RFC 8260 §3.4): what stream 0 has, whose priority is 0, is sent first. The lines and
/// credit there are short, and would otherwise wait for a file of each data stream.
pub const DATA_PRIORITY: u16 = 1;
/// The minimum number of data streams of a braid association: one would be ms.
pub const DATA_STREAMS_MIN: u16 = 2;
/// The maximum number of data streams of a braid association.
pub const DATA_STREAMS_MAX: u16 = 64;
/// The maximum length in bytes of a listing that is sent as one message (ms, ms-cp).
pub const LISTING_MESSAGE_MAX: usize = 16 << 20;
/// The maximum number of sizes that a server remembers between SIZE and RETR (ms, ms-cp).
pub const REPORTED_SIZES_MAX: usize = 4096;
/// The number of files of a tree that can be retrieved without their paths (braid).
pub const FIRST_FILES: usize = 16;

/// Payload protocol identifiers of SCTP messages, in host order.
pub mod ppid {
    /// All data in naive, ms and ms-cp: unspecified (RFC 9260 §3.3.1).
    pub const PLAIN: u32 = 0;
    /// braid: FTP lines, on stream 0.
    pub const LINES: u32 = 0x6272_6400;
    /// braid: content of a transfer.
    pub const BYTES: u32 = 0x6272_6402;
    /// braid: the limit up to which the peer may send on a stream.
    pub const CREDIT: u32 = 0x6272_6404;
    /// braid: a whole transfer: header, content, digest.
    pub const WHOLE: u32 = 0x6272_6405;
    /// braid: the beginning of a transfer: header, content.
    pub const FIRST: u32 = 0x6272_6406;
    /// braid: the end of a transfer: content, digest.
    pub const LAST: u32 = 0x6272_6407;
    /// braid: aborts a transfer.
    pub const BREAK: u32 = 0x6272_6408;
}

/// The five mappings of FTP to transports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// RFC 959: a TCP connection for control, and one for each transfer.
    Tcp,
    /// An SCTP association for control, and one for each transfer.
    Naive,
    /// One association with two streams.
    Ms,
    /// The same with pipelined commands.
    MsCp,
    /// One association with framed transfers on several streams.
    #[default]
    Braid,
}

impl Mode {
    /// All modes, in the order of tables.
    pub const ALL: [Self; 5] = [Self::Tcp, Self::Naive, Self::Ms, Self::MsCp, Self::Braid];

    /// The mode of an association with this number of inbound streams, from the server's view; ms-cp looks
    /// like ms.
    pub const fn of_streams(inbound_streams: u16) -> Self {
        //= specs/ftp-over-sctp.md#section-2.2
        //# The server MUST take the mode from the number of streams inbound to it
        match inbound_streams {
            0 | 1 => Self::Naive,
            2 => Self::Ms,
            _ => Self::Braid,
        }
    }

    /// The number of streams in each direction that a client requests; `None` for TCP. `data_streams` is
    /// used by braid only.
    pub const fn streams(self, data_streams: u16) -> Option<u16> {
        match self {
            Self::Tcp => None,
            Self::Naive => Some(1),
            Self::Ms | Self::MsCp => Some(2),
            Self::Braid => Some(1 + data_streams),
        }
    }

    /// Whether the mode uses SCTP.
    pub const fn is_sctp(self) -> bool {
        !matches!(self, Self::Tcp)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Naive => "naive",
            Self::Ms => "ms",
            Self::MsCp => "ms-cp",
            Self::Braid => "braid",
        })
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.to_string() == text).ok_or_else(|| UnknownMode(text.into()))
    }
}

/// An unknown mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMode(pub String);

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown mode \"{}\"; there are tcp, naive, ms, ms-cp, braid", self.0)
    }
}

impl std::error::Error for UnknownMode {}

/// The number of a transfer in its association, from 1 (specs/ftp-over-sctp.md §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferNumber(pub u32);

/// The data path of a transfer, from the server's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPath {
    /// TCP: accept one connection, only from the control peer's address, on the socket that
    /// [`Do::Listen`](crate::server::Do::Listen) opened.
    TcpPassive,
    /// TCP: connect to this address of the control peer.
    TcpActive(SocketAddr),
    /// naive: a new association from SCTP port 20 to this SCTP port of the control peer, at the addresses
    /// and over the UDP flow of the control association. Bytes use stream 0; the sender ends the transfer
    /// with a graceful shutdown.
    Association {
        /// The client's SCTP port.
        port: u16,
    },
    /// ms, ms-cp: stream 1 of the control association. A file ends by its count, a listing with its
    /// message.
    Stream1,
    /// braid: frames of this number, on any data stream.
    Framed {
        /// The number of the transfer.
        transfer: TransferNumber,
    },
}
