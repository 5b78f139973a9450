//! The state of address changes (RFC 5061): what this side wants, its outstanding ASCONF, and the answers to the peer's.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use crate::endpoint::Route;
use crate::ids::{PathId, Tsn};
use crate::wire::{Asconf, AsconfAck};

/// The most changes that wait to be asked for.
pub(super) const WAITING_MAX: usize = 32;
/// The most answers that are kept to be sent again: a peer has one ASCONF under way, and may repeat it with those that
/// it held back.
pub(super) const CACHED_MAX: usize = 8;

/// A change of this side's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingChange {
    Add(SocketAddr),
    Remove(SocketAddr),
    Prefer(SocketAddr),
}

impl PendingChange {
    pub(super) fn address(self) -> SocketAddr {
        match self {
            Self::Add(address) | Self::Remove(address) | Self::Prefer(address) => address,
        }
    }
}

/// What is under way of changes of addresses.
#[derive(Debug)]
pub(in crate::association) struct Addresses {
    /// The serial number that the next ASCONF gets.
    pub(super) next_serial: Tsn,
    pub(super) next_correlation: u32,
    pub(super) waiting: VecDeque<PendingChange>,
    pub(super) outstanding: Option<Outstanding>,
    /// Whether the peer does not know how to add and delete (§5.3 F3a), or ASCONF at all.
    pub(super) lacks_add_and_delete: bool,
    /// Whether the peer does not know how to set a primary address (§5.3 F3b).
    pub(super) lacks_set_primary: bool,
    /// The serial number of the peer's last ASCONF.
    pub(super) peer_serial: Tsn,
    pub(super) cached: VecDeque<AsconfAck>,
    /// Answers to leave, each by the route on which its ASCONF came.
    pub(super) acks: VecDeque<(Route, AsconfAck)>,
    /// Whether the packet that is read has had an ASCONF before.
    pub(super) seen_in_packet: bool,
    /// The address of the peer that becomes the primary one once it is confirmed.
    pub(super) primary_wanted: Option<IpAddr>,
}

/// The ASCONF that is not answered yet.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) chunk: Asconf,
    pub(super) pending_changes: Vec<PendingChange>,
    /// Whether it is to leave.
    pub(super) due: bool,
    /// The path by which it left last.
    pub(super) path: PathId,
    pub(super) retries: u32,
}

impl Addresses {
    //= specs/rfc5061.txt#section-5.1
    //# The Sequence Number MUST be
    //# initialized at the start of the association to the same value as
    //# the Initial Transmission Sequence Number (TSN)
    pub(in crate::association) fn new(initial_tsn: Tsn, peer_initial_tsn: Tsn) -> Self {
        Self {
            next_serial: initial_tsn,
            next_correlation: 0,
            waiting: VecDeque::new(),
            outstanding: None,
            lacks_add_and_delete: false,
            lacks_set_primary: false,
            peer_serial: peer_initial_tsn.minus(1),
            cached: VecDeque::new(),
            acks: VecDeque::new(),
            seen_in_packet: false,
            primary_wanted: None,
        }
    }

    pub(super) fn pending_changes(&self) -> impl Iterator<Item = PendingChange> {
        let under_way = self.outstanding.iter().flat_map(|it| it.pending_changes.iter().copied());
        under_way.chain(self.waiting.iter().copied())
    }

    /// A packet begins.
    pub(in crate::association) fn begin_packet(&mut self) {
        self.seen_in_packet = false;
    }

    /// What must hold between drains.
    pub(in crate::association) fn check(&self) {
        assert!(self.waiting.len() <= WAITING_MAX && self.cached.len() <= CACHED_MAX);
        assert!(self.acks.is_empty(), "an ASCONF-ACK leaves when it is due");
    }

    /// Whether an ASCONF waits for its answer.
    pub(in crate::association) fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }
}
