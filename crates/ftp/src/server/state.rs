//! The state of a session that commands set for later commands.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Carrier;
use super::first_files::FirstFiles;
use crate::command::Type;
use crate::hash::HashName;
use crate::listing::FactSet;
use crate::mapping::{DataPath, REPORTED_SIZES_MAX};
use crate::path::SafePath;

/// The protection of a control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Clear,
    /// The association is protected, and there is no TLS above it.
    Below,
    /// The reply 234 was sent: no further reply before [`Input::Secured`](super::Input::Secured).
    Handshake,
    Tls,
}

/// State set by commands for later commands.
#[derive(Debug)]
pub(super) struct State {
    pub(super) login: Login,
    pub(super) failed_logins: u32,
    pub(super) cwd: SafePath,
    pub(super) representation: Type,
    /// Whether transfers are framed: braid.
    pub(super) is_framed: bool,
    /// From REST, for the next transfer.
    pub(super) restart: u64,
    /// From RNFR, for an immediately following RNTO.
    pub(super) rename_from: Option<SafePath>,
    /// From ALLO, for the next upload of ms or over TCP.
    pub(super) allocated: Option<u64>,
    /// From PASV, EPSV, PORT or EPRT, for the next transfer.
    pub(super) data: Option<DataPath>,
    pub(super) epsv_all: EpsvAll,
    pub(super) data_channel: DataChannel,
    pub(super) told: ReportedSizes,
    /// From XTREE, for RETRs without a path (braid).
    pub(super) first_files: Option<FirstFiles>,
    /// From OPTS MLST.
    pub(super) facts: FactSet,
    /// From OPTS HASH.
    pub(super) hash: HashName,
}

/// The protection of data connections when the control connection is protected.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataChannel {
    /// The initial state: unprotected.
    //= specs/rfc4217.txt#section-9
    //# The initial state of the data connection MUST be 'Clear' (this is the behaviour as indicated by [RFC-2228]).
    #[default]
    Clear,
    /// PBSZ was received; PROT is permitted.
    Sized,
    /// PROT P was received.
    Private,
}

#[derive(Debug, Default)]
pub(super) enum Login {
    #[default]
    Nobody,
    /// USER was received, and PASS was not, or its check is pending.
    Named(Bytes),
    /// USER was received from a client that has proved possession of a key of this user; the answer is
    /// pending.
    Shown(Bytes),
    In(Bytes),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum EpsvAll {
    No,
    Yes,
}

/// The sizes reported by SIZE, for RETRs of ms (specs/ftp-over-sctp.md §4.2).
#[derive(Debug, Default)]
pub(super) struct ReportedSizes {
    /// The maximum number of paths: 0 outside ms.
    max: usize,
    sizes: BTreeMap<SafePath, (u64, u64)>,
    /// Paths by age, to remove the oldest.
    order: BTreeMap<u64, SafePath>,
    next: u64,
}

impl ReportedSizes {
    pub(super) fn tell(&mut self, path: SafePath, size: u64) {
        if self.max == 0 {
            return;
        }
        if let Some((at, _)) = self.sizes.insert(path.clone(), (self.next, size)) {
            self.order.remove(&at);
        }
        self.order.insert(self.next, path);
        self.next += 1;
        if self.order.len() > self.max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.sizes.remove(&oldest);
        }
    }

    pub(super) fn told(&self, path: &SafePath) -> Option<u64> {
        self.sizes.get(path).map(|(_, size)| *size)
    }
}

impl State {
    pub(super) fn new(carrier: Carrier) -> Self {
        // The default TYPE (RFC 959 §5.1; specs/ftp-over-sctp.md §6.1 for braid).
        let representation = match carrier {
            Carrier::Braid { .. } => Type::Image,
            Carrier::Tcp { .. } | Carrier::Naive | Carrier::Ms => Type::Ascii,
        };
        let max = if matches!(carrier, Carrier::Ms) { REPORTED_SIZES_MAX } else { 0 };
        Self {
            login: Login::Nobody,
            failed_logins: 0,
            cwd: SafePath::ROOT,
            representation,
            is_framed: matches!(carrier, Carrier::Braid { .. }),
            restart: 0,
            rename_from: None,
            allocated: None,
            data: None,
            epsv_all: EpsvAll::No,
            data_channel: DataChannel::Clear,
            told: ReportedSizes { max, ..ReportedSizes::default() },
            first_files: None,
            facts: FactSet::ALL,
            // The function that most clients know.
            hash: HashName::Sha256,
        }
    }

    /// Resets everything except the count of wrong passwords.
    pub(super) fn reset(&mut self, carrier: Carrier) {
        *self = Self { failed_logins: self.failed_logins, ..Self::new(carrier) };
    }
}

/// The action after a command's final reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    StartTls,
    Close,
}
