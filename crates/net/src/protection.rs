//! Protected associations: drives the key management of each association, with its timers.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use braidftp_base::Time;
use braidftp_keys::rustls::pki_types::CertificateDer;
use braidftp_keys::{KeyError, KeyEvent, KeyManager, Settings};
use braidftp_sctp::{Admission, Association, AssociationId, DtlsEvent};
use bytes::Bytes;
use tracing::debug;

use crate::core::{Core, Up};

/// What protects one association.
#[derive(Debug)]
pub(crate) struct Protection {
    settings: Arc<Settings>,
    /// Once both sides agreed that there are to be keys.
    manager: Option<KeyManager>,
    /// When it is to be driven again.
    wake: Option<Time>,
    /// What the association came up with: its users hear of it once it is protected.
    pub(crate) up: Option<Up>,
    failed: Option<KeyError>,
}

impl Protection {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, manager: None, wake: None, up: None, failed: None }
    }

    /// Whether what is sent is protected, and the peer authentic.
    pub(crate) fn is_up(&self) -> bool {
        self.manager.as_ref().is_some_and(KeyManager::is_protected)
    }

    /// The epoch of the keys in use.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.manager.as_ref()?.epoch()
    }

    /// The certificates that the peer showed.
    pub(crate) fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.manager.as_ref()?.peer_certificates()
    }

    /// Why there are no keys, if there could be none.
    pub(crate) fn failed(&self) -> Option<&KeyError> {
        self.failed.as_ref()
    }
}

/// When which associations' keys want to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Wakes(BTreeSet<(Time, AssociationId)>);

impl Wakes {
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    fn take_due(&mut self, now: Time) -> Option<AssociationId> {
        let (at, id) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.remove(&(at, id));
            id
        })
    }

    fn set(&mut self, id: AssociationId, before: Option<Time>, wake: Option<Time>) {
        if let Some(before) = before {
            self.0.remove(&(before, id));
        }
        self.0.extend(wake.map(|wake| (wake, id)));
    }
}

/// Handshakes a second that peers may begin at an endpoint, half of them from any one network (an IPv4 /24, an IPv6 /56); where
/// others use up all, one and a half for each group of networks, and twelve after a pause ([`Admission`]). Each
/// takes about half a millisecond of the endpoint's task.
pub const HANDSHAKES_A_SECOND: u32 = 400;

/// How many handshakes peers may begin, and how many may not.
#[derive(Debug)]
pub(crate) struct Handshakes {
    admission: Admission,
    pub(crate) refused: u64,
}

impl Default for Handshakes {
    fn default() -> Self {
        let secret = std::hash::RandomState::new().build_hasher().finish().to_be_bytes();
        Self { admission: Admission::new(HANDSHAKES_A_SECOND, secret), refused: 0 }
    }
}

impl Handshakes {
    /// Whether this association may have one now.
    fn admits(&mut self, now: Time, association: &Association) -> bool {
        let peer = association.paths().next().map(|path| path.peer.ip());
        let may = peer.is_none_or(|peer| self.admission.admits(now, peer));
        self.refused += u64::from(!may);
        may
    }
}

impl Core {
    /// Something about the keys of an association.
    pub(crate) fn on_keys(&mut self, now: Time, id: AssociationId, event: Option<DtlsEvent>) {
        let Self { machine, seats, wakes, handshakes, .. } = self;
        let Some(association) = machine.association_mut(id) else { return };
        let Some(seat) = seats.get_mut(&id) else { return };
        let Some(protection) = &mut seat.protection else { return };
        let manager = match (&mut protection.manager, association.dtls_agreement()) {
            (Some(manager), _) => manager,
            (None, Some(_)) if seat.is_of_peer && !handshakes.admits(now, association) => {
                return association
                    .abort(Bytes::from_static(b"too many handshakes at once; try again later"));
            }
            (manager, Some(agreement)) => {
                manager.insert(KeyManager::new(now, protection.settings.clone(), agreement.clone()))
            }
            (None, None) => return,
        };
        let driven = manager.drive(now, event, association);
        wakes.set(id, protection.wake, driven.wait);
        protection.wake = driven.wait;
        for event in driven.events {
            debug!(association = id.0, ?event, "keys");
            match event {
                KeyEvent::Protected => {
                    seat.up = seat.up.or(protection.up);
                    seat.signals.state.notify_waiters();
                    seat.signals.writable.notify_waiters();
                    if let Some(backlog) = self.backlogs.get(&association.ports().0) {
                        backlog.arrived.notify_waiters();
                    }
                }
                KeyEvent::Failed(error) => protection.failed = Some(error),
                KeyEvent::Rekeyed(_) | KeyEvent::Retried(_) => {}
            }
        }
    }

    /// Looks after the keys whose time has come.
    pub(crate) fn drive_keys(&mut self, now: Time) {
        while let Some(id) = self.wakes.take_due(now) {
            if let Some(protection) = self.seats.get_mut(&id).and_then(|seat| seat.protection.as_mut()) {
                protection.wake = None;
            }
            self.on_keys(now, id, None);
        }
    }

    /// The keys of an association that is over want nothing any more.
    pub(crate) fn rest_keys(&mut self, id: AssociationId) {
        if let Some(protection) = self.seats.get_mut(&id).and_then(|seat| seat.protection.as_mut()) {
            self.wakes.set(id, protection.wake.take(), None);
        }
    }
}
