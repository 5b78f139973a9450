//! Client side of TLS over TCP: verification of the server on the control connection; data connections to the same server.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, NamedGroup};
use tokio::sync::Notify;

use super::{ALPN_CONTROL, Wire, tls_error};
use crate::exit::{Error, Exit, Result};
use crate::identity::{Fingerprint, Peer, Trust, Verifier};
use crate::url::Url;

/// Maximum number of TLS 1.3 tickets kept for one control connection: what two connections of a generous server issue.
const TICKETS_MAX: usize = 12;
/// How long a data connection waits for a ticket if all are in use.
const TICKET_WAIT: Duration = Duration::from_secs(1);

/// TLS of one control connection and its data connections.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    verifier: Verifier,
    config: Arc<ClientConfig>,
    sessions: Arc<Sessions>,
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
        let sessions = Arc::new(Sessions::default());
        config.resumption = Resumption::store(sessions.clone());
        Ok(Self { verifier, config: Arc::new(config), sessions })
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

    /// The same on a data connection. If all tickets are in use, waits for the next ones, which another data connection brings
    /// at its end: without one, servers refuse the connection.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn begin_data(&self, wire: &Wire) -> io::Result<()> {
        self.sessions.tickets.wait().await;
        self.begin(wire)
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
            self.begin_data(data).await.map_err(|error| self.explain(&error))?;
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

/// The sessions of one control connection and its data connections.
#[derive(Debug, Default)]
struct Sessions {
    kept: Mutex<Kept>,
    tickets: Tickets<Tls13ClientSessionValue>,
}

#[derive(Debug, Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.tickets.insert(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tickets.take()
    }
}

/// Tickets of TLS 1.3, each of which is used once (RFC 8446 §C.4). The oldest is used first, which tells a server that this client
/// keeps several.
#[derive(Debug)]
struct Tickets<T> {
    held: Mutex<Held<T>>,
    arrived: Notify,
}

#[derive(Debug)]
struct Held<T> {
    tickets: VecDeque<T>,
    /// Whether more are expected when all are used: some came, and no wait for more was in vain.
    may_come: bool,
}

impl<T> Held<T> {
    /// Whether there is a ticket, or none will come.
    fn ends_wait(&self) -> bool {
        !self.tickets.is_empty() || !self.may_come
    }
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        let held = Held { tickets: VecDeque::new(), may_come: false };
        Self { held: Mutex::new(held), arrived: Notify::new() }
    }
}

impl<T> Tickets<T> {
    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, ticket: T) {
        let mut held = self.lock();
        if held.tickets.len() >= TICKETS_MAX {
            held.tickets.pop_front();
        }
        held.tickets.push_back(ticket);
        held.may_come = true;
        self.arrived.notify_waiters();
    }

    fn take(&self) -> Option<T> {
        self.lock().tickets.pop_front()
    }

    /// Waits until there is a ticket, if one may come.
    async fn wait(&self) {
        let arrived = async {
            loop {
                let arrived = self.arrived.notified();
                if self.lock().ends_wait() {
                    return;
                }
                arrived.await;
            }
        };
        if tokio::time::timeout(TICKET_WAIT, arrived).await.is_err() {
            self.lock().may_come = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_data_connection_waits_for_a_ticket_if_one_may_come() {
        let tickets = Arc::new(Tickets::default());
        let start = tokio::time::Instant::now();
        // A server without tickets.
        tickets.wait().await;
        assert_eq!((start.elapsed(), tickets.take()), (Duration::ZERO, None));
        tickets.insert(1);
        tickets.wait().await;
        assert_eq!((start.elapsed(), tickets.take()), (Duration::ZERO, Some(1)));
        // All are in use, and the next one arrives.
        let waits = tokio::spawn({
            let tickets = tickets.clone();
            async move { tickets.wait().await }
        });
        tokio::time::sleep(TICKET_WAIT / 2).await;
        assert!(!waits.is_finished());
        tickets.insert(2);
        waits.await.unwrap();
        assert_eq!((start.elapsed(), tickets.take()), (TICKET_WAIT / 2, Some(2)));
        // A server that gives no more costs one wait.
        tickets.wait().await;
        tickets.wait().await;
        assert_eq!(start.elapsed(), TICKET_WAIT / 2 + TICKET_WAIT);
        tickets.insert(3);
        assert_eq!(tickets.take(), Some(3));
    }

    #[test]
    fn the_oldest_ticket_is_used_first_and_the_latest_are_kept() {
        let tickets = Tickets::default();
        (0..TICKETS_MAX + 3).for_each(|ticket| tickets.insert(ticket));
        let taken: Vec<_> = std::iter::from_fn(|| tickets.take()).collect();
        assert_eq!(taken, (3..TICKETS_MAX + 3).collect::<Vec<_>>());
    }
}
