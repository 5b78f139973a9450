//! The queue of a link: its limit ([`Queue`]) and its active management ([`Management`]).
//!
//! A queue is first in, first out, with a drop-tail limit. In addition RED decides when a packet arrives,
//! CoDel when one leaves. Both see the queued packets without the packet on the wire.

pub(super) mod codel;
pub(super) mod red;

use std::fmt;
use std::str::FromStr;

pub use codel::CoDel;
pub use red::Red;

use super::config_error::ConfigError;

/// A drop-tail limit. An idle wire takes a packet of any size at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// A limit in bytes, the packet on the wire included. `500kB`
    Bytes(usize),
    /// A limit in packets, the packet on the wire included. `50p`
    Packets(usize),
    /// A limit in packets, the packet on the wire not included. `49w`
    ///
    /// ns-2 drops when `waiting + 1 >= limit`: its limit of 50 allows 49 waiting packets ([`Queue::ns2`]).
    Waiting(usize),
}

impl Queue {
    /// The queue that ns-2 calls `limit` packets long.
    pub const fn ns2(limit: usize) -> Self {
        Self::Waiting(limit.saturating_sub(1))
    }
}

/// Active queue management.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Management {
    /// Nothing.
    #[default]
    None,
    /// Random early detection.
    Red(Red),
    /// Controlled delay.
    CoDel(CoDel),
}

/// What is done with a packet that the management selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It is dropped.
    Drop,
    /// Marked if it is ECN-capable (RFC 3168), else dropped.
    Mark,
}

/// The current queue length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) if bytes.is_multiple_of(1_000) => write!(f, "{}kB", bytes / 1_000),
            Self::Bytes(bytes) => write!(f, "{bytes}B"),
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Waiting(packets) => write!(f, "{packets}w"),
        }
    }
}

impl FromStr for Queue {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || {
            ConfigError::new(format!(
                "`{}` is not a queue: write a number above 0 and p (packets, the one on the wire included), w (packets \
                 that wait), B, kB or MB, as in 500kB or 100p",
                text.escape_debug()
            ))
        };
        let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(split);
        let number: usize = number.trim().parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
        let bytes = |scale: usize| number.checked_mul(scale).map(Self::Bytes).ok_or_else(wrong);
        match unit {
            "p" => Ok(Self::Packets(number)),
            "w" => Ok(Self::Waiting(number)),
            "B" => bytes(1),
            "kB" => bytes(1_000),
            "MB" => bytes(1_000_000),
            _ => Err(wrong()),
        }
    }
}
