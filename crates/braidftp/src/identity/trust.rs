//! Trust decisions of a client: by fingerprints of the command line, `known_hosts`, and the system's
//! authorities, in this order.
//!
//! The first that applies decides. With `--pin` only the pins count. A server in `known_hosts` must have the
//! key recorded there, and an authority may vouch for the others. On this machine the user's own server needs
//! no entry: it proves possession of the key in a file that only this user can read ([`Trust::own_server`]).
//! Any other server is new: the user is asked about it at a terminal ([`ask`](super::ask)), it is accepted with
//! [`OnUnknown::Accept`], or it is refused. A certificate that is expired or for another name is never
//! accepted as that of a new server.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, version,
};

use super::certificate_error::in_words;
use super::known_hosts::Known;
use super::stranger::{Peer, Stranger};
use super::{CHAIN_BYTES_MAX, ClientIdentity, Files, Fingerprint, KnownHosts, provider};
use crate::exit::{Error, Exit, Result};

/// The trust settings of a client.
#[derive(Debug)]
pub struct Trust {
    /// `--pin`: the server must have one of these keys; nothing else is checked.
    pub pins: Vec<Fingerprint>,
    /// Servers that were accepted before.
    pub known_hosts: KnownHosts,
    /// The authorities that may vouch for a server.
    pub authorities: Authorities,
    /// What to do with an unknown server.
    pub on_unknown: OnUnknown,
    /// The key file of this user's own server, if there is one: a server with that key on the loopback
    /// interface is trusted without a question. Nobody else can have the key, because nobody else can read
    /// the file.
    pub own_server: Option<Files>,
    /// The key that this side presents to servers that request one.
    pub key: Option<Arc<ClientIdentity>>,
}

/// What to do with an unknown server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnUnknown {
    /// Refuse it.
    #[default]
    Refuse,
    /// Refuse it, with an error that names it ([`Error::stranger`]): the caller may [`ask`](super::ask) the user and
    /// retry.
    Ask,
    /// Accept it and add it to `known_hosts` (`--accept-new`), unless `known_hosts` has another key for
    /// another port of the host: both may be the same server, whose key has changed.
    Accept,
}

/// Authorities that sign certificates of servers.
#[derive(Debug)]
pub struct Authorities(OnceLock<Arc<RootCertStore>>);

impl Authorities {
    /// The authorities of the system (`SSL_CERT_FILE` and `SSL_CERT_DIR` override them), read on first use.
    pub const fn system() -> Self {
        Self(OnceLock::new())
    }

    /// Only these authorities.
    pub fn these(roots: RootCertStore) -> Self {
        Self(OnceLock::from(Arc::new(roots)))
    }

    /// Only the authorities of a PEM file (`--ca`).
    ///
    /// # Errors
    ///
    /// It cannot be read, or contains no certificate.
    pub fn of_file(path: &Path) -> Result<Self> {
        let chain = super::files::read_certificates(path)?;
        let mut roots = RootCertStore::empty();
        for certificate in chain {
            roots.add(certificate).map_err(|error| {
                Error::usage(format_args!("use the authorities of {}", path.display()), error)
            })?;
        }
        Ok(Self::these(roots))
    }

    fn roots(&self) -> &Arc<RootCertStore> {
        self.0.get_or_init(|| {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::debug!(%error, "certificates of the system");
            }
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(found.certs);
            Arc::new(roots)
        })
    }
}

/// The source of trust in a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vouched {
    /// The command line: `--pin`.
    Pin,
    /// `known_hosts`.
    KnownHost,
    /// An authority.
    Authority,
    /// The key file of this user's own server.
    OwnServer,
    /// None: the server was seen for the first time, and accepted.
    FirstUse,
    /// An earlier session, which was resumed.
    Resumed,
}

/// The verified identity of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its key.
    pub fingerprint: Fingerprint,
    /// The source of trust.
    pub vouched: Vouched,
}

/// Why a server is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It has none of the keys of `--pin`.
    OtherThanPinned {
        /// The permitted keys.
        pinned: Vec<Fingerprint>,
        /// The key of the server.
        shown: Fingerprint,
    },
    /// Its key is not the one of `known_hosts`.
    Changed {
        /// The key in `known_hosts`.
        known: Fingerprint,
        /// The line of that key.
        line: usize,
        /// The key of the server.
        shown: Fingerprint,
    },
    /// It is unknown, and no authority vouches for it.
    Unknown {
        /// The key of the server.
        shown: Fingerprint,
        /// The key of a server at another port of the host, and its line in `known_hosts`.
        neighbour: Option<(Fingerprint, usize)>,
    },
    /// Its certificate is invalid; the reason, as in `has expired on 2024-05-01`.
    Certificate {
        /// The reason.
        why: String,
        /// The key in the certificate, if it can be read.
        shown: Option<Fingerprint>,
    },
    /// `known_hosts` cannot be read.
    Local(Error),
}

impl Trust {
    /// Trusts the servers of this file and the system's authorities; refuses all others.
    pub fn new(known_hosts: KnownHosts) -> Self {
        Self {
            pins: Vec::new(),
            known_hosts,
            authorities: Authorities::system(),
            on_unknown: OnUnknown::Refuse,
            own_server: None,
            key: None,
        }
    }

    /// Adds a server to `known_hosts`, after the user has confirmed its key.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn remember(&self, stranger: &Stranger) -> Result<()> {
        self.known_hosts.add(&stranger.peer, stranger.key)
    }

    /// Whether this is the key of this user's own server, and the server is on this machine.
    fn is_own_server(&self, peer: &Peer, shown: Fingerprint) -> bool {
        peer.is_here() && self.own_server.as_ref().is_some_and(|files| files.own_key() == Some(shown))
    }

    /// A verifier for handshakes with the server `peer`, for TLS 1.3 and 1.2 and the protocols of `alpn`.
    ///
    /// # Errors
    ///
    /// The host is neither a name nor an address.
    pub fn verifier(self: &Arc<Self>, peer: Peer, alpn: &[&[u8]]) -> Result<Verifier> {
        self.verifier_for(peer, alpn, &[&version::TLS13, &version::TLS12])
    }

    /// The same for TLS 1.2 alone.
    ///
    /// # Errors
    /// The host is neither a name nor an address.
    pub fn verifier_tls12(self: &Arc<Self>, peer: Peer, alpn: &[&[u8]]) -> Result<Verifier> {
        self.verifier_for(peer, alpn, &[&version::TLS12])
    }

    /// The same for TLS 1.3 alone.
    ///
    /// # Errors
    /// The host is neither a name nor an address.
    pub fn verifier_tls13(self: &Arc<Self>, peer: Peer, alpn: &[&[u8]]) -> Result<Verifier> {
        self.verifier_for(peer, alpn, &[&version::TLS13])
    }

    fn verifier_for(
        self: &Arc<Self>,
        peer: Peer,
        alpn: &[&[u8]],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Result<Verifier> {
        let bare = peer.host().trim_matches(['[', ']']);
        let name = ServerName::try_from(bare).map_err(|_| {
            Error::usage(format_args!("connect to {peer}"), "TLS has no such names of servers")
                .hint("write a name of letters, digits, dots and hyphens, or an IP address")
        })?;
        let name = name.to_owned();
        let check = Arc::new(Check { trust: self.clone(), peer, seen: Mutex::default() });
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .map_err(|error| Error::new(Exit::Trust, "set up TLS", error))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(check.clone());
        let mut config = match &self.key {
            Some(key) => builder.with_client_cert_resolver(key.clone()),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Ok(Verifier { check, config, name })
    }
}

/// Verifies one server, in any number of handshakes.
#[derive(Debug, Clone)]
pub struct Verifier {
    pub(super) check: Arc<Check>,
    config: ClientConfig,
    name: ServerName<'static>,
}

#[derive(Debug)]
pub(super) struct Check {
    trust: Arc<Trust>,
    peer: Peer,
    /// The decision about the last presented certificate.
    seen: Mutex<Option<Result<PeerIdentity, Refusal>>>,
}

impl Verifier {
    /// The configuration of a handshake with this server.
    pub fn config(&self) -> ClientConfig {
        self.config.clone()
    }

    /// The server's name, for the handshake.
    pub fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    /// The server.
    pub fn peer(&self) -> &Peer {
        &self.check.peer
    }

    /// Must be called after a successful handshake with the certificates of the connection; returns the
    /// identity of the server. A new server is added to `known_hosts` now that it has proved possession of
    /// the key.
    ///
    /// # Errors
    ///
    /// `known_hosts` cannot be written: do not use the connection.
    pub fn settle(&self, certificates: Option<&[CertificateDer<'_>]>) -> Result<PeerIdentity> {
        let seen = self.check.lock().clone();
        let identity = match seen {
            Some(Ok(identity)) => identity,
            // rustls verifies no certificate in a resumed session.
            _ => {
                let shown = certificates.and_then(<[_]>::first).and_then(|first| Fingerprint::of(first).ok());
                let fingerprint = shown.ok_or_else(|| {
                    Error::new(
                        Exit::Trust,
                        format_args!("trust {}", self.check.peer),
                        "it showed no certificate",
                    )
                })?;
                PeerIdentity { fingerprint, vouched: Vouched::Resumed }
            }
        };
        if identity.vouched == Vouched::FirstUse {
            self.check.trust.known_hosts.add(&self.check.peer, identity.fingerprint)?;
        }
        Ok(identity)
    }

    /// After a failed handshake: the reason why the server is not trusted, if that was the cause.
    pub fn refusal(&self) -> Option<Refusal> {
        match &*self.check.lock() {
            Some(Err(refusal)) => Some(refusal.clone()),
            _ => None,
        }
    }

    /// The error of a handshake that failed with `error`.
    pub fn explain(&self, error: &rustls::Error) -> Error {
        match self.refusal() {
            Some(refusal) => {
                let stranger = match (&refusal, self.check.trust.on_unknown) {
                    (Refusal::Unknown { shown, neighbour }, OnUnknown::Ask) => {
                        let note = neighbour_in_words(*neighbour, &self.check.trust.known_hosts);
                        Some(Box::new(Stranger { peer: self.check.peer.clone(), key: *shown, note }))
                    }
                    _ => None,
                };
                Error { stranger, ..refusal.in_words(&self.check.peer, &self.check.trust.known_hosts) }
            }
            None => failed(&self.check.peer, error),
        }
    }

    /// A verifier for other connections with the same server, which must have this key: the data connections
    /// of FTP.
    pub fn pinned_to(&self, key: Fingerprint) -> Self {
        let trust = Arc::new(Trust {
            pins: vec![key],
            authorities: Authorities::these(RootCertStore::empty()),
            ..Trust::new(self.check.trust.known_hosts.clone())
        });
        let check = Arc::new(Check { trust, peer: self.check.peer.clone(), seen: Mutex::default() });
        let mut config = self.config.clone();
        config.dangerous().set_certificate_verifier(check.clone());
        Self { check, config, name: self.name.clone() }
    }
}

impl Check {
    fn lock(&self) -> MutexGuard<'_, Option<Result<PeerIdentity, Refusal>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn judge(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<PeerIdentity, Refusal> {
        let trust = &self.trust;
        let bytes = end.len() + others.iter().map(|other| other.len()).sum::<usize>();
        if bytes > CHAIN_BYTES_MAX {
            let why = format!("and those behind it have {bytes} bytes, more than {CHAIN_BYTES_MAX}");
            return Err(Refusal::Certificate { why, shown: None });
        }
        let shown = Fingerprint::of(end).map_err(|_| {
            let why = "is not an X.509 certificate of version 3".into();
            Refusal::Certificate { why, shown: None }
        })?;
        let vouched = |vouched| Ok(PeerIdentity { fingerprint: shown, vouched });
        if !trust.pins.is_empty() {
            return match trust.pins.contains(&shown) {
                true => vouched(Vouched::Pin),
                false => Err(Refusal::OtherThanPinned { pinned: trust.pins.clone(), shown }),
            };
        }
        let neighbour = match trust.known_hosts.look_up(&self.peer, shown).map_err(Refusal::Local)? {
            Known::Yes => return vouched(Vouched::KnownHost),
            Known::Other { key, line } => return Err(Refusal::Changed { known: key, line, shown }),
            _ if trust.is_own_server(&self.peer, shown) => return vouched(Vouched::OwnServer),
            Known::Neighbour { key, line } => Some((key, line)),
            Known::No => None,
        };
        match verify_by(trust.authorities.roots(), end, others, name, now) {
            Ok(()) => vouched(Vouched::Authority),
            Err(rustls::Error::InvalidCertificate(error)) => match in_words(&error) {
                Some(why) => Err(Refusal::Certificate { why, shown: Some(shown) }),
                None if trust.on_unknown == OnUnknown::Accept && neighbour.is_none() => {
                    vouched(Vouched::FirstUse)
                }
                None => Err(Refusal::Unknown { shown, neighbour }),
            },
            Err(error) => {
                Err(Refusal::Certificate { why: format!("is no good: {error}"), shown: Some(shown) })
            }
        }
    }
}

fn verify_by(
    roots: &RootCertStore,
    end: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    let parsed = ParsedCertificate::try_from(end)?;
    let algorithms = provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&parsed, roots, others, now, algorithms)?;
    verify_server_name(&parsed, name)
}

impl ServerCertVerifier for Check {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.judge(end, others, name, now);
        let verdict = match &judged {
            Ok(_) => Ok(ServerCertVerified::assertion()),
            // Nobody reads which alert the server receives.
            Err(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
        };
        *self.lock() = Some(judged);
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

impl Refusal {
    /// The error text about a server.
    pub fn in_words(self, peer: &Peer, known_hosts: &KnownHosts) -> Error {
        let what = format!("trust {peer}");
        let error = |why: String| Error::new(Exit::Trust, &what, why);
        match self {
            Self::OtherThanPinned { pinned, shown } => {
                let pinned: Vec<String> = pinned.iter().map(ToString::to_string).collect();
                error(format!("its key is {shown}, but --pin is {}", pinned.join(" or "))).hint(
                    "ask the server's operator for its fingerprint; if the server has a new key, use it with --pin",
                )
            }
            Self::Changed { known, line, shown } => error(format!(
                "its key is {shown}, but {} line {line} has {known}: the server has a new key, or there is an attacker on the network",
                known_hosts.path().display()
            ))
            .hint("ask the server's operator; if the new key is right, delete that line and connect again"),
            Self::Unknown { shown, neighbour: neighbour @ Some(_) } => error(format!(
                "its key {shown} was never seen here. {}",
                neighbour_in_words(neighbour, known_hosts)
            ))
            .hint(format_args!(
                "ask the server's operator; if the key is right, give --pin {shown}, or write the line `{peer} {shown}`"
            )),
            Self::Unknown { shown, neighbour: None } => error(format!(
                "its key {shown} was never seen here, and no authority that this system trusts vouches for it"
            ))
            .hint(format_args!(
                "compare the key with the one that the server printed; then give --pin {shown}, or --accept-new to take it \
                 for good"
            )),
            Self::Certificate { why, shown } => {
                let hint = match shown {
                    Some(shown) => format!("correct the server's certificate, or use --pin {shown} if that is its key"),
                    None => "mend the server's certificate".into(),
                };
                error(format!("its certificate {why}")).hint(hint)
            }
            Self::Local(error) => Error { exit: Exit::Trust, ..error },
        }
    }
}

/// Describes the entry of `known_hosts` for another port of the same host.
fn neighbour_in_words(neighbour: Option<(Fingerprint, usize)>, known_hosts: &KnownHosts) -> String {
    neighbour.map_or(String::new(), |(key, line)| {
        format!(
            "{} line {line} knows this host at another port by the key {key}: it has another server there, a new key, or \
             somebody stands between",
            known_hosts.path().display()
        )
    })
}

/// The error of a handshake that failed for another reason.
fn failed(peer: &Peer, error: &rustls::Error) -> Error {
    use rustls::Error as E;
    let (why, hint) = match error {
        E::InvalidMessage(rustls::InvalidMessage::HandshakePayloadTooLarge) => (
            "it sent a TLS message of more than 64 KiB, which its certificates may be".to_owned(),
            "see to it that the server sends no more certificates than lead to its authority",
        ),
        E::InvalidMessage(_) => (
            format!("its data is not TLS: {error}"),
            "check the port: ftps:// is for servers that begin with TLS at once (port 990), ftpes:// for others",
        ),
        E::PeerIncompatible(_) => {
            (format!("no version or cipher of TLS in common: {error}"), "the server must know TLS 1.2 or 1.3")
        }
        E::NoApplicationProtocol | E::AlertReceived(rustls::AlertDescription::NoApplicationProtocol) => {
            ("it does not speak FTP over TLS there (ALPN)".to_owned(), "check the port")
        }
        E::AlertReceived(_) => {
            (format!("it broke the handshake off: {error}"), "see the server's log for the reason")
        }
        other => (other.to_string(), "try again, and see the server's log"),
    };
    Error::new(Exit::Trust, format_args!("set up TLS with {peer}"), why).hint(hint)
}
