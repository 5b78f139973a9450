//! Client side of TLS over TCP: verification of the server on the control connection; data connections to the same server.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, NamedGroup};

use super::{ALPN_CONTROL, Wire, tls_error};
use crate::exit::{Error, Exit, Result};
use crate::identity::{Fingerprint, Peer, Trust, Verifier};
use crate::url::Url;

/// Maximum number of TLS 1.3 tickets kept for one control connection: what two connections of a generous server issue.
const TICKETS_MAX: usize = 12;

/// TLS of one control connection and its data connections.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    verifier: Verifier,
    config: Arc<ClientConfig>,
}

impl Binding {
    /// Returns the TLS state for a session with the server of `url`.
    ///
    /// # Errors
    /// The host of `url` is no valid TLS server name.
    pub(crate) fn towards(url: &Url, trust: &Arc<Trust>) -> Result<Self> {
        let verifier = trust.verifier(Peer::new(&url.host.to_string(), url.port), &[ALPN_CONTROL])?;
        let mut config = verifier.config();
        // A cache of its own: data connections resume the session of this control connection, and never another's.
        config.resumption = Resumption::store(Arc::new(Sessions::default()));
        Ok(Self { verifier, config: Arc::new(config) })
    }

    /// Starts TLS on a connection, whichever side opened it, by sending the ClientHello.
    ///
    /// # Errors
    /// The connection is broken.
    //= specs/rfc4217.txt#section-7
    //# For i) and ii), the FTP client MUST be the TLS client and the FTP server MUST be the TLS server.
    pub(crate) fn begin(&self, wire: &Wire) -> io::Result<()> {
        let connection = ClientConnection::new(self.config.clone(), self.verifier.name());
        wire.begin(Connection::Client(connection.map_err(io::Error::other)?))
    }

    /// Returns the server's key after the handshake of the control connection. The key of a server that was accepted for the
    /// first time is written to `known_hosts`.
    ///
    /// # Errors
    /// `known_hosts` cannot be written: the connection must not be used.
    pub(crate) fn settle(&self, control: &Wire) -> Result<Fingerprint> {
        let settled = control.with_tls(|tls| self.verifier.settle(tls.peer_certificates()));
        settled
            .unwrap_or_else(|| Err(Error::new(Exit::Trust, "set up TLS", "it was not begun")))
            .map(|it| it.fingerprint)
    }

    /// Starts TLS on a data connection if it has not started, waits for the handshake, and verifies that the server has the key
    /// of the control connection.
    ///
    /// # Errors
    /// The server has another key, or the handshake failed.
    //= specs/rfc4217.txt#section-15.1.1
    //# It is strongly recommended that the certificate used for server authentication of Data connections be the same
    //# certificate as that used for the corresponding Control connection.
    pub(crate) async fn secure(&self, data: &Wire, key: Fingerprint) -> Result<()> {
        if !data.has_tls() {
            self.begin(data).map_err(|error| self.explain(&error))?;
        }
        data.secured().await.map_err(|error| self.explain(&error))?;
        let shown = data.with_tls(|tls| {
            tls.peer_certificates().and_then(<[_]>::first).and_then(|first| Fingerprint::of(first).ok())
        });
        match shown.flatten() {
            Some(shown) if shown == key => Ok(()),
            shown => {
                let shown = shown.map_or("none".to_owned(), |shown| shown.to_string());
                let why = format!("its key is {shown}, and that of the control connection is {key}");
                Err(Error::new(Exit::Trust, "trust the data connection", why).hint(
                    "somebody intercepts the connection, or the server sends data from another machine",
                ))
            }
        }
    }

    /// Returns the error of a connection whose TLS failed.
    pub(crate) fn explain(&self, error: &io::Error) -> Error {
        match tls_error(error) {
            Some(tls) => self.verifier.explain(tls),
            None => {
                let what = format!("set up TLS with {}", self.verifier.peer());
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => Error::new(Exit::Connect, what, "the server closed the connection"),
                    _ => Error::new(Exit::Connect, what, error),
                }
                .hint("see the server's log; ftps:// is for servers that begin with TLS at once, ftpes:// for others")
            }
        }
    }
}

/// The sessions of one control connection and its data connections. The oldest ticket is used first, which tells a server that
/// this client keeps several tickets.
#[derive(Debug, Default)]
struct Sessions(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.lock().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.lock().tls12 = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.lock().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.lock().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut kept = self.lock();
        if kept.tickets.len() >= TICKETS_MAX {
            kept.tickets.pop_front();
        }
        kept.tickets.push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().tickets.pop_front()
    }
}
