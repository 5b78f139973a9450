//! Protected associations of a [`Host`](crate::Host): the DTLS chunk, with keys that TLS agrees on.
//!
//! The key management is that of real transfers ([`KeyManager`]), with an identity that is made for simulations: its private
//! key is public. TLS draws random numbers, so the bytes of packets differ from run to run; their sizes and times do not, nor
//! does what is delivered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_keys::rustls::crypto::aws_lc_rs::Ticketer;
use braidftp_keys::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
};
use braidftp_keys::rustls::time_provider::TimeProvider;
use braidftp_keys::rustls::{ClientConfig, RootCertStore, ServerConfig};
use braidftp_keys::{KeyManager, Resumption, Settings, provider};
use braidftp_sctp::{AssociationId, Endpoint, Event};

/// A self-signed certificate with an Ed25519 key, whose signatures all have one length.
const CERTIFICATE: &[u8] = include_bytes!("protection/certificate.der");
/// Its private key.
const KEY: &[u8] = include_bytes!("protection/key.der");
const NAME: &str = "server.example";
/// The time of day for TLS, within the certificate's validity: January 2027.
const TIME_OF_DAY: Duration = Duration::from_secs(1_800_000_000);

#[derive(Debug)]
struct FixedTime;

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(TIME_OF_DAY))
    }
}

/// The settings of both sides: a server with the identity of simulations, and a client that trusts it.
#[derive(Debug, Clone)]
pub struct Identity {
    client: Settings,
    server: Settings,
}

impl Default for Identity {
    fn default() -> Self {
        Self::new()
    }
}

impl Identity {
    /// Makes both configurations of TLS. One identity may serve any number of hosts.
    pub fn new() -> Self {
        let certificate = CertificateDer::from(CERTIFICATE);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("the certificate is a certificate");
        let provider = Arc::new(provider());
        let client = ClientConfig::builder_with_details(provider.clone(), Arc::new(FixedTime))
            .with_safe_default_protocol_versions()
            .expect("the provider has TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerConfig::builder_with_details(provider, Arc::new(FixedTime))
            .with_safe_default_protocol_versions()
            .expect("the provider has TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("the key is the certificate's");
        let name = ServerName::try_from(NAME).expect("the name is a name");
        Self { client: Settings::client(Arc::new(client), name), server: Settings::server(Arc::new(server)) }
    }

    /// The same for sides that resume TLS sessions: the first association of an identity runs a full
    /// handshake, the next one resumes its session.
    pub fn resuming() -> Self {
        let Self { client, server } = Self::new();
        let mut tls = server.server.as_deref().expect("it is a server's").clone();
        tls.ticketer = Ticketer::new().expect("the system has random numbers");
        let resumption = Resumption::FirstHandshake;
        Self {
            client: Settings { resumption, ..client },
            server: Settings { server: Some(Arc::new(tls)), resumption, ..server },
        }
    }

    /// The settings of the side that opens associations; `Settings::dtls` is for its [`security.dtls`](braidftp_sctp::Config::security).
    pub fn client(&self) -> Settings {
        self.client.clone()
    }

    /// The settings of the side that accepts them.
    pub fn server(&self) -> Settings {
        self.server.clone()
    }
}

/// The keys of all associations of a host.
#[derive(Debug)]
pub(crate) struct Protection {
    settings: Arc<Settings>,
    associations: BTreeMap<AssociationId, Keys>,
}

/// The keys of one association.
#[derive(Debug, Default)]
struct Keys {
    manager: Option<KeyManager>,
    /// When to drive the manager again.
    wake: Option<Time>,
    /// Events that the application has not seen, because the association is not protected yet.
    held: VecDeque<Event>,
    /// Whether the application has seen that the association is up.
    is_shown: bool,
}

impl Protection {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), associations: BTreeMap::new() }
    }

    /// Handles an event of an association. Returns the events that its application may see: none before the association is
    /// protected, unless it ends or is one without protection.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: Event,
    ) -> VecDeque<Event> {
        let keys = self.associations.entry(id).or_default();
        let is_over = matches!(event, Event::Closed(_));
        match event {
            Event::Dtls(dtls) => keys.drive(now, endpoint, id, &self.settings, Some(dtls)),
            event => keys.held.push_back(event),
        }
        if is_over {
            keys.wake = None;
            // Of an association that never was protected, its application learns that it began and ended.
            keys.held.retain(|event| matches!(event, Event::Accepted | Event::Closed(_)));
        } else if !keys.is_up(endpoint, id) {
            return VecDeque::new();
        }
        std::mem::take(&mut keys.held)
    }

    /// Drives the keys that are due. Returns whether any was.
    pub(crate) fn wake(&mut self, now: Time, endpoint: &mut Endpoint) -> bool {
        let mut woke = false;
        for (id, keys) in &mut self.associations {
            if keys.wake.is_some_and(|wake| wake <= now) {
                keys.drive(now, endpoint, *id, &self.settings, None);
                woke = true;
            }
        }
        woke
    }

    /// When to wake it next.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.associations.values().filter_map(|keys| keys.wake).min()
    }

    /// The key management of an association.
    pub(crate) fn manager(&self, id: AssociationId) -> Option<&KeyManager> {
        self.associations.get(&id)?.manager.as_ref()
    }
}

impl Keys {
    /// Whether the application sees events: the association was up and protected, or was up and never will be protected.
    fn is_up(&mut self, endpoint: &Endpoint, id: AssociationId) -> bool {
        // The packet that completes the handshake may hold an unprotected ABORT behind it: then the association never was up.
        self.is_shown |= endpoint.association(id).is_some_and(|association| {
            association.is_up()
                && match &self.manager {
                    Some(manager) => manager.is_protected(),
                    None => association.dtls_agreement().is_none(),
                }
        });
        self.is_shown
    }

    fn drive(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        settings: &Arc<Settings>,
        event: Option<braidftp_sctp::DtlsEvent>,
    ) {
        let Some(association) = endpoint.association_mut(id) else {
            self.wake = None;
            return;
        };
        let Some(agreement) = association.dtls_agreement() else { return };
        let manager =
            self.manager.get_or_insert_with(|| KeyManager::new(now, settings.clone(), agreement.clone()));
        let driven = manager.drive(now, event, association);
        self.wake = driven.wait;
    }
}
