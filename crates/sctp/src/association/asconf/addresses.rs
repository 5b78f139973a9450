//! The state of address changes (RFC 5061): changes requested by the user, the outstanding ASCONF, and
//! responses to the peer's ASCONFs.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use crate::ids::{PathId, Tsn};
use crate::route::Route;
use crate::wire::{Asconf, AsconfAck};

/// The maximum number of changes waiting to be sent.
pub(super) const WAITING_MAX: usize = 32;
/// The maximum number of cached ASCONF-ACKs: a peer has one ASCONF outstanding, and may retransmit it
/// together with held-back ones.
pub(super) const CACHED_MAX: usize = 8;

/// A change of addresses that this side's user requested.
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

/// The state of address changes.
#[derive(Debug)]
pub(in crate::association) struct Addresses {
    /// The serial number of the next ASCONF.
    pub(super) next_serial: Tsn,
    pub(super) next_correlation: u32,
    pub(super) waiting: VecDeque<PendingChange>,
    pub(super) outstanding: Option<Box<Outstanding>>,
    /// Whether the peer does not support adding and deleting (§5.3 F3a), or ASCONF at all.
    pub(super) lacks_add_and_delete: bool,
    /// Whether the peer does not support setting the primary address (§5.3 F3b).
    pub(super) lacks_set_primary: bool,
    /// The serial number of the peer's last ASCONF.
    pub(super) peer_serial: Tsn,
    pub(super) cached: VecDeque<AsconfAck>,
    /// ASCONF-ACKs to send, each on the route on which its ASCONF arrived.
    pub(super) acks: VecDeque<(Route, AsconfAck)>,
    /// Whether the packet being processed contained an ASCONF before.
    pub(super) seen_in_packet: bool,
    /// The peer's address that becomes the primary destination once it is confirmed.
    pub(super) primary_wanted: Option<IpAddr>,
}

/// The ASCONF that is not acknowledged yet.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) chunk: Asconf,
    pub(super) pending_changes: Vec<PendingChange>,
    /// Whether the ASCONF must be sent.
    pub(super) due: bool,
    /// The path on which the ASCONF was last sent.
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

    /// A packet begins: none of its chunks was processed.
    pub(in crate::association) fn begin_packet(&mut self) {
        self.seen_in_packet = false;
    }

    /// Checks the invariants.
    pub(in crate::association) fn check(&self) {
        assert!(self.waiting.len() <= WAITING_MAX && self.cached.len() <= CACHED_MAX);
        assert!(self.acks.is_empty(), "an ASCONF-ACK is sent when it is due");
    }

    /// Whether an ASCONF is outstanding.
    pub(in crate::association) fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }
}
