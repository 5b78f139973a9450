//! What the endpoint calls on an association, with nothing behind it. Goes when `association` has its handshake: the
//! one that lands these verbs for real removes this file and its line in `endpoint.rs`.
use std::sync::Arc;

use braidftp_base::{Ecn, Output, Time};

use super::{Route, Setup};
use crate::association::{Association, Event, Transmit};
use crate::config::Config;
use crate::cookie::Opened;
use crate::ids::{AssociationId, VerificationTag};
use crate::stats::Phase;
use crate::wire::Packet;

impl Association {
    /// Begins the handshake: INIT comes out of `poll`.
    pub(crate) fn connect(_now: Time, _id: AssociationId, _setup: Setup) -> Self {
        Self {}
    }

    /// A COOKIE ECHO came: up. `handle` then sees its whole packet.
    pub(crate) fn accept(
        _now: Time,
        _id: AssociationId,
        _opened: &Opened,
        _config: Arc<Config>,
        _seed: [u8; 32],
    ) -> Self {
        Self {}
    }

    /// A packet came; its tag is right, or its T bit with the peer's tag (§8.5). COOKIE ECHO in it was dealt with.
    pub(crate) fn handle(&mut self, _now: Time, _route: Route, _ecn: Ecn, _packet: Packet) {}

    /// §5.2.4 A.
    pub(crate) fn restart(&mut self, _now: Time, _opened: &Opened) {}

    /// §5.2.4 B and D.
    pub(crate) fn confirm(&mut self, _now: Time, _opened: &Opened) {}

    /// Drain.
    pub(crate) fn poll(&mut self, _now: Time) -> Output<Transmit, Event> {
        Output::Wait(None)
    }

    /// Where in its life it is.
    pub fn phase(&self) -> Phase {
        Phase::Closed
    }

    /// The tag that the peer gave, once it did.
    pub(crate) fn peer_tag(&self) -> Option<VerificationTag> {
        None
    }
}
