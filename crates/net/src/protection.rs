//! The state of protected associations: key managers, their timers, and the rate of handshakes.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use braidftp_base::Time;
use braidftp_keys::rustls::pki_types::CertificateDer;
use braidftp_keys::{KeyError, KeyManager, Settings};
use braidftp_sctp::{Admission, Association, AssociationId};

use crate::up::Up;

/// The protection of one association.
#[derive(Debug)]
pub(crate) struct Protection {
    pub(crate) settings: Arc<Settings>,
    /// The key manager, once both sides agreed on key management.
    pub(crate) manager: Option<KeyManager>,
    /// When to drive it next.
    pub(crate) wake: Option<Time>,
    /// The parameters of the established association, reported to its users once it is protected.
    pub(crate) up: Option<Up>,
    pub(crate) failed: Option<KeyError>,
}

impl Protection {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, manager: None, wake: None, up: None, failed: None }
    }

    /// Whether sent packets are protected and the peer is authenticated.
    pub(crate) fn is_up(&self) -> bool {
        self.manager.as_ref().is_some_and(KeyManager::is_protected)
    }

    /// The epoch of the keys in use.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.manager.as_ref()?.epoch()
    }

    /// Returns the certificates that the peer presented.
    pub(crate) fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.manager.as_ref()?.peer_certificates()
    }

    /// Returns why there are no keys, if key management failed.
    pub(crate) fn failed(&self) -> Option<&KeyError> {
        self.failed.as_ref()
    }
}

/// When to drive which association's keys.
#[derive(Debug, Default)]
pub(crate) struct Wakes(BTreeSet<(Time, AssociationId)>);

impl Wakes {
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(crate) fn take_due(&mut self, now: Time) -> Option<AssociationId> {
        let (at, id) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.remove(&(at, id));
            id
        })
    }

    pub(crate) fn set(&mut self, id: AssociationId, before: Option<Time>, wake: Option<Time>) {
        if let Some(before) = before {
            self.0.remove(&(before, id));
        }
        self.0.extend(wake.map(|wake| (wake, id)));
    }
}

/// The maximum number of handshakes per second that peers may start at an endpoint; half of them from
/// any single network (an IPv4 /24, an IPv6 /56). If others use up all of them, one and a half per
/// second for each group of networks, and twelve after a pause ([`Admission`]). Each takes about half a
/// millisecond of the endpoint's task.
pub const HANDSHAKES_A_SECOND: u32 = 400;

/// The rate limit of handshakes, and the number of rejected ones.
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
    /// Whether this association may start a handshake now.
    pub(crate) fn admits(&mut self, now: Time, association: &Association) -> bool {
        let peer = association.paths().next().map(|path| path.peer.ip());
        let may = peer.is_none_or(|peer| self.admission.admits(now, peer));
        self.refused += u64::from(!may);
        may
    }
}
