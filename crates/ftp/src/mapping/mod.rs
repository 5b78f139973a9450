//! What a data connection is in each mode, and the frames that braid puts on a data stream.
//!
//! The rules are specs/ftp-over-sctp.md; here they are types. File bytes pass by: [`frame`] encodes and decodes the heads
//! and tails, [`sender`] and [`receiver`] count bytes and credit. Nothing here hashes: the caller brings the digest.

pub mod frame;
pub mod receiver;
pub mod sender;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The SCTP port of servers, for every mode (IANA: ftp 21/sctp).
pub const CONTROL_PORT: u16 = 21;
/// The SCTP port a naive server's data associations come from (IANA: ftp-data 20/sctp).
pub const DATA_PORT: u16 = 20;
/// The UDP port that carries SCTP (RFC 6951 §5.1).
pub const UDP_PORT: u16 = 9899;
/// The stream of commands and replies.
pub const CONTROL_STREAM: u16 = 0;
/// The only data stream of ms and ms-cp.
pub const DATA_STREAM: u16 = 1;
/// Data streams of a braid association unless told otherwise.
pub const DATA_STREAMS_DEFAULT: u16 = 4;
/// Data streams of a braid association at least: two streams in all would be ms.
pub const DATA_STREAMS_MIN: u16 = 2;
/// Data streams of a braid association at most.
pub const DATA_STREAMS_MAX: u16 = 64;
/// Bytes of the longest listing that is sent as one message (ms, ms-cp).
pub const LISTING_MESSAGE_MAX: usize = 16 << 20;
/// Sizes told by SIZE and not yet used by RETR that a server remembers at most (ms, ms-cp).
pub const TOLD_SIZES_MAX: usize = 4096;

/// Payload protocol identifiers of SCTP messages, in host order.
pub mod ppid {
    /// Everything in naive, ms and ms-cp: unspecified (RFC 9260 §3.3.1).
    pub const PLAIN: u32 = 0;
    /// braid: FTP lines, on stream 0.
    pub const LINES: u32 = 0x6272_6400;
    /// braid: a transfer begins.
    pub const HEADER: u32 = 0x6272_6401;
    /// braid: its bytes.
    pub const BYTES: u32 = 0x6272_6402;
    /// braid: a transfer ends.
    pub const TRAILER: u32 = 0x6272_6403;
    /// braid: how far the other side may send on a stream.
    pub const CREDIT: u32 = 0x6272_6404;
}

/// The five ways of carrying FTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// RFC 959: a TCP connection for control, one for each transfer.
    Tcp,
    /// An SCTP association for control, one for each transfer.
    Naive,
    /// One association of two streams.
    Ms,
    /// The same, commands pipelined.
    MsCp,
    /// One association, framed transfers on several streams.
    #[default]
    Braid,
}

impl Mode {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] = [Self::Tcp, Self::Naive, Self::Ms, Self::MsCp, Self::Braid];

    /// The mode a server sees in an association that offers it so many inbound streams; ms-cp looks like ms.
    pub const fn of_streams(inbound_streams: u16) -> Self {
        //= specs/ftp-over-sctp.md#section-2.2
        //# The server MUST take the mode from the number of streams inbound to it
        match inbound_streams {
            0 | 1 => Self::Naive,
            2 => Self::Ms,
            _ => Self::Braid,
        }
    }

    /// Streams each way that a client asks for; `None` for TCP. `data_streams` counts in braid alone.
    pub const fn streams(self, data_streams: u16) -> Option<u16> {
        match self {
            Self::Tcp => None,
            Self::Naive => Some(1),
            Self::Ms | Self::MsCp => Some(2),
            Self::Braid => Some(1 + data_streams),
        }
    }

    /// Whether it runs over SCTP.
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

/// A mode that nobody knows.
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

/// Where the bytes of one transfer go, as a server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPath {
    /// TCP: accept one connection, from the control peer's address only, on the socket that
    /// [`Do::Listen`](crate::server::Do::Listen) opened.
    TcpPassive,
    /// TCP: connect to this address, which is the control peer's.
    TcpActive(SocketAddr),
    /// naive: a new association, from SCTP port 20 to this SCTP port of the control peer, at the addresses and over the UDP
    /// flow of the control association. Bytes go on stream 0; the end is the graceful shutdown of the association by the
    /// side that sends.
    Association {
        /// The SCTP port that the client listens on.
        port: u16,
    },
    /// ms, ms-cp: stream 1 of the control association. A file ends by count, a listing with its message.
    Stream1,
    /// braid: frames of this number, on any data stream.
    Framed {
        /// Its number.
        transfer: TransferNumber,
    },
}
