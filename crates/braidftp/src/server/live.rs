//! Settings of a running server, which a reload replaces as a whole.

use std::sync::{Arc, PoisonError, RwLock};

use super::Settings;

/// The current settings. A session keeps those of its start.
#[derive(Debug)]
pub(super) struct Live(RwLock<Arc<Settings>>);

impl Live {
    pub(super) fn new(settings: Settings) -> Self {
        Self(RwLock::new(Arc::new(settings)))
    }

    /// Returns the current settings.
    pub(super) fn now(&self) -> Arc<Settings> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the settings, except those that are fixed once sockets are open and the process is confined.
    pub(super) fn replace(&self, mut new: Settings) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let session = Arc::make_mut(&mut new.session);
        session.unprotected = now.session.unprotected;
        session.active = now.session.active;
        session.tls = now.session.tls;
        session.hosts.clone_from(&now.session.hosts);
        let Settings {
            passive_ports,
            sctp,
            protection,
            audit,
            xferlog,
            hooks,
            tcp_connections,
            pcap,
            packet_log,
            qlog,
            ..
        } = &**now;
        (new.passive_ports, new.sctp, new.protection) =
            (passive_ports.clone(), sctp.clone(), protection.clone());
        new.hooks.clone_from(hooks);
        (new.audit, new.xferlog, new.tcp_connections) = (audit.clone(), xferlog.clone(), *tcp_connections);
        (new.pcap, new.packet_log, new.qlog) = (pcap.clone(), packet_log.clone(), qlog.clone());
        *now = Arc::new(new);
    }
}
