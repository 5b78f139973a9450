//! The state of protected associations: key managers and their timers.

use std::collections::BTreeSet;
use std::sync::Arc;

use braidftp_base::Time;
use braidftp_keys::rustls::pki_types::CertificateDer;
use braidftp_keys::{KeyError, KeyManager, Settings};
use braidftp_sctp::AssociationId;

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
