//! A run with lost packets, and the cost of the loss.

use std::time::Duration;

use braidftp_sim::apps::ftp::End;

use super::Job;

/// A run in which these packets were lost, and the cost.
#[derive(Debug, Clone)]
pub(super) struct Cost {
    pub(super) job: Job,
    /// The lost packets.
    pub(super) lost: Vec<Lost>,
    /// The additional duration compared with the run without loss.
    pub(super) seconds: f64,
    /// The longest silence of either side.
    pub(super) silent: f64,
    pub(super) timeouts: u64,
}

/// A lost packet.
#[derive(Debug, Clone)]
pub(super) struct Lost {
    pub(super) from: End,
    /// Its number on its side, from 0.
    pub(super) number: u64,
    /// Whether it is one of the first packets of its side; otherwise it is one of the last.
    pub(super) is_early: bool,
    /// Its contents in the run without loss.
    pub(super) says: String,
    /// Its transit time in that run, including queues.
    pub(super) took: Duration,
}

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Init,
    Cookie,
    Control,
    Data,
    Sack,
    Other,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Init, Self::Cookie, Self::Control, Self::Data, Self::Sack, Self::Other];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Cookie => "cookie",
            Self::Control => "control",
            Self::Data => "data",
            Self::Sack => "sack",
            Self::Other => "other",
        }
    }

    pub(super) fn spoken(self) -> &'static str {
        match self {
            Self::Init => "INIT, INIT ACK",
            Self::Cookie => "COOKIE ECHO, COOKIE ACK",
            Self::Control => "commands, replies",
            Self::Data => "file data",
            Self::Sack => "SACK alone",
            Self::Other => "others",
        }
    }

    pub(super) fn colour(self) -> &'static str {
        match self {
            Self::Init => "#c8324a",
            Self::Cookie => "#e08a1e",
            Self::Control => "#3b4252",
            Self::Data => "#1f5fa8",
            Self::Sack => "#9aa0ac",
            Self::Other => "#2a9d8f",
        }
    }
}

impl Lost {
    pub(super) fn kind(&self) -> Kind {
        let says = self.says.as_str();
        match says {
            "INIT" | "INIT ACK" => Kind::Init,
            _ if says.contains("COOKIE") => Kind::Cookie,
            "SACK" => Kind::Sack,
            // FTP lines use stream 0.
            _ if says.contains("DATA 0") => Kind::Control,
            _ if says.contains("DATA") => Kind::Data,
            _ => Kind::Other,
        }
    }

    pub(super) fn shape(&self) -> usize {
        usize::from(self.from == End::Server)
    }

    /// The name of the sending side.
    pub(super) fn side(&self) -> &'static str {
        match self.from {
            End::Client => "client",
            End::Server => "server",
        }
    }
}
