//! A message to send, with its ancillary data (RFC 6458 §5.3).

use std::net::IpAddr;
use std::time::Duration;

use braidftp_sctp::Reliability;

use super::Result;
use super::values::{self, member_int, number, structure};
use crate::script::{Expr, ScriptError};

/// The PR-SCTP policy of a message (RFC 6458 §5.3.7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Policy {
    #[default]
    Reliable,
    /// Lifetime in milliseconds.
    Ttl(u32),
    /// Discarded when a message of higher priority needs the room.
    Priority(u32),
    /// Maximum number of retransmissions.
    Retransmissions(u32),
}

impl From<Policy> for Reliability {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Reliable => Self::Full,
            Policy::Ttl(millis) => Self::Lifetime(Duration::from_millis(millis.into())),
            Policy::Priority(priority) => Self::Priority(priority),
            Policy::Retransmissions(max) => Self::Retransmissions(max),
        }
    }
}

/// A message to send, with its ancillary data.
#[derive(Debug, Clone, Default)]
pub(super) struct Outgoing {
    pub(super) len: i64,
    pub(super) sid: u16,
    pub(super) ppid: u32,
    pub(super) flags: i64,
    pub(super) context: u32,
    pub(super) policy: Policy,
    /// The key to authenticate it with (RFC 6458 §5.3.8).
    pub(super) key: Option<u16>,
    pub(super) member: Option<i64>,
    pub(super) to: Vec<(IpAddr, u16)>,
    /// SCTP_INIT: the parameters of an association that the message opens.
    pub(super) init: Option<Expr>,
}

impl Outgoing {
    /// Takes the stream, the PPID and the flags from a structure whose members begin with `prefix`.
    pub(super) fn info(&mut self, info: &Expr, stream: &str, prefix: &str, line: usize) -> Result<()> {
        if values::is_null(info) || matches!(info, Expr::Any) {
            return Ok(());
        }
        let number = |key: &str| Ok(member_int(info, &format!("{prefix}_{key}"), line)?.unwrap_or(0));
        self.sid = member_int(info, stream, line)?.unwrap_or(0) as u16;
        self.ppid = number("ppid")? as u32;
        self.flags = number("flags")?;
        self.context = number("context")? as u32;
        self.member = member_int(info, &format!("{prefix}_assoc_id"), line)?;
        match number("timetolive")? {
            0 => {}
            millis => self.policy = Policy::Ttl(millis as u32),
        }
        Ok(())
    }

    /// Forgets the association, for what applies to every message.
    pub(super) fn forget_association(&mut self) {
        self.member = None;
    }

    /// Takes a PR-SCTP policy.
    pub(super) fn reliability(&mut self, info: &Expr, line: usize) -> Result<()> {
        let value = member_int(info, "pr_value", line)?.unwrap_or(0) as u32;
        self.policy = match member_int(info, "pr_policy", line)?.unwrap_or(0) & 0xf {
            0 => Policy::Reliable,
            1 => Policy::Ttl(value),
            2 => Policy::Priority(value),
            3 => Policy::Retransmissions(value),
            other => {
                return Err(ScriptError::unsupported(line, format!("the policy {other} of a message")));
            }
        };
        Ok(())
    }

    pub(super) fn keyed(&mut self, info: &Expr, line: usize) -> Result<()> {
        self.key = member_int(info, "auth_keynumber", line)?.map(|key| key as u16);
        Ok(())
    }

    pub(super) fn sndinfo(&self, member: i64) -> Expr {
        structure(&[
            ("snd_sid", number(self.sid)),
            // B and E: the message was complete.
            ("snd_flags", Expr::Int(self.flags | 3)),
            ("snd_ppid", number(self.ppid)),
            ("snd_context", number(self.context)),
            ("snd_assoc_id", Expr::Int(member)),
        ])
    }

    pub(super) fn sndrcvinfo(&self, member: i64) -> Expr {
        structure(&[
            ("sinfo_stream", number(self.sid)),
            ("sinfo_ssn", Expr::Int(0)),
            ("sinfo_flags", Expr::Int(self.flags | 3)),
            ("sinfo_ppid", number(self.ppid)),
            ("sinfo_context", number(self.context)),
            ("sinfo_timetolive", Expr::Int(0)),
            ("sinfo_tsn", Expr::Int(0)),
            ("sinfo_cumtsn", Expr::Int(0)),
            ("sinfo_assoc_id", Expr::Int(member)),
        ])
    }
}
