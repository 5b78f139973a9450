//! COOKIE ECHOs of peers that want a protected association, which wait for their turn
//! ([`Limits::handshakes`](super::Limits::handshakes)).
//!
//! A TLS handshake costs this side a hundred times what a cookie costs. A COOKIE ECHO is where it can be limited: the
//! cookie proves the peer's address, which an INIT does not, and there is no association yet. A COOKIE ECHO without
//! room is treated as lost: the peer retransmits it (RFC 9260 §5.1).

use std::collections::BTreeSet;
use std::net::IpAddr;

use braidftp_base::{Ecn, Time};

use super::turns::Turns;
use crate::route::Route;
use crate::wire::Packet;

/// The maximum length of a packet that waits: a cookie and a ClientHello. Longer ones are treated as lost.
pub(super) const WAITING_BYTES_MAX: usize = 4_096;

/// A packet that begins with a COOKIE ECHO.
#[derive(Debug)]
pub(super) struct Echo {
    pub(super) route: Route,
    pub(super) ecn: Ecn,
    pub(super) packet: Packet,
}

/// The packets that wait.
#[derive(Debug)]
pub(super) struct Waiting {
    turns: Turns<Echo>,
    /// The local tags of their cookies: a retransmission waits with the first one.
    tags: BTreeSet<u32>,
}

/// Whether a COOKIE ECHO may begin the handshake of a protected association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandshakeTurn {
    /// Once it has a turn: it has just arrived.
    Needed,
    /// Yes: it has waited for its turn.
    Taken,
}

/// What a COOKIE ECHO has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A turn now.
    Turn,
    /// A place among those who wait, or another one of its association has.
    Place,
    /// Neither, or it took the place of another.
    Crowded,
}

impl Waiting {
    pub(super) fn new(a_second: u32, waiting_max: usize) -> Self {
        Self { turns: Turns::new(a_second, waiting_max), tags: BTreeSet::new() }
    }

    /// Takes a turn for a peer at this address, or a place.
    pub(super) fn enter(&mut self, now: Time, from: IpAddr, echo: Echo) -> Entry {
        if self.turns.take(now, from) {
            return Entry::Turn;
        }
        let Echo { route, ecn, packet } = echo;
        if packet.len() > WAITING_BYTES_MAX {
            return Entry::Crowded;
        }
        let tag = packet.header.tag.0;
        if !self.tags.insert(tag) {
            return Entry::Place;
        }
        let echo = Echo { route, ecn, packet: packet.copied() };
        match self.turns.wait(from, echo) {
            None => Entry::Place,
            Some(removed) => {
                self.tags.remove(&removed.packet.header.tag.0);
                Entry::Crowded
            }
        }
    }

    /// Returns the packet whose turn it is, if there is one now.
    pub(super) fn next(&mut self, now: Time) -> Option<Echo> {
        let echo = self.turns.next(now, |_| true)?;
        self.tags.remove(&echo.packet.header.tag.0);
        Some(echo)
    }

    /// Returns when the next turn is due, if a packet waits for it.
    pub(super) fn due(&self) -> Option<Time> {
        self.turns.due()
    }

    /// The number of packets that wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }
}
