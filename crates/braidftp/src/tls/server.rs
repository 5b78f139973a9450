//! Server side of TLS over TCP: a configuration for each control connection, so that only its own data connections can resume
//! its sessions.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls::{AlertDescription, Connection, HandshakeKind, InvalidMessage, ServerConfig, ServerConnection};

use super::{ALPN_CONTROL, ALPN_DATA, Wire, tls_error};
use crate::exit::Result;
use crate::identity::{ServerIdentity, provider};

/// Tickets that a client gets at a time: one for each data connection, if it uses each once (RFC 8446 §C.4).
const TICKETS: usize = 6;
/// The number of unused tickets below which a client gets more.
const TICKETS_LOW: usize = 3;
/// Bytes of a ticket.
const TICKET_BYTES: usize = 32;
/// Maximum number of resumable sessions of a control connection. The first ones stay; of the others, the oldest are removed.
pub(crate) const SESSIONS_MAX: usize = 32;
/// Maximum memory of these sessions, in bytes. One holds the client's certificate and some hundred bytes more.
pub(crate) const SESSIONS_BYTES: usize = 64 << 10;

/// Whether a data connection must resume a TLS session of its control connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resumption {
    /// Required: proves that both connections belong to the same client, so that nobody can steal a file by connecting first.
    #[default]
    Required,
    /// Optional, for clients that cannot resume sessions: only the client's address is compared.
    Optional,
}

/// The TLS configuration of a server's control connections.
#[derive(Debug)]
pub(crate) struct Offer {
    config: ServerConfig,
}

/// Which side sends the file on a data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The server.
    Server,
    /// The client; it may never read from the connection.
    Client,
}

/// TLS of one control connection and its data connections.
#[derive(Debug)]
pub(crate) struct Binding {
    control: Arc<ServerConfig>,
    data: Arc<ServerConfig>,
    data_without_tickets: Arc<ServerConfig>,
    sessions: Arc<Sessions>,
    resumption: Resumption,
}

impl Offer {
    /// Builds the configuration for the key of `identity`.
    ///
    /// # Errors
    /// The cryptography library lacks something that TLS needs.
    pub(crate) fn new(identity: &Arc<ServerIdentity>) -> Result<Self> {
        let mut config = identity.config(&[ALPN_CONTROL])?;
        config.send_tls13_tickets = TICKETS;
        // The server may send before the client's Finished (a greeting, a file): a resumed session has authenticated the
        // client.
        config.send_half_rtt_data = true;
        Ok(Self { config })
    }

    /// Returns the TLS state of one control connection.
    pub(crate) fn bind(&self, resumption: Resumption) -> Binding {
        let mut control = self.config.clone();
        // A session in this cache was begun by this control connection or one of its data connections.
        let sessions = Arc::new(Sessions::default());
        control.session_storage = sessions.clone();
        control.ticketer = sessions.clone();
        let mut data = control.clone();
        data.alpn_protocols.push(ALPN_DATA.to_vec());
        let mut without = data.clone();
        without.send_tls13_tickets = 0;
        let (control, data, data_without_tickets) = (Arc::new(control), Arc::new(data), Arc::new(without));
        Binding { control, data, data_without_tickets, sessions, resumption }
    }
}

impl Binding {
    /// Starts TLS on the control connection.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn begin(&self, control: &Wire) -> io::Result<()> {
        control.begin(connection(&self.control)?)
    }

    /// Starts TLS on a data connection and waits until its owner is verified.
    ///
    /// # Errors
    /// The handshake failed, or the session does not belong to the control connection.
    //= specs/rfc4217.txt#section-10.2
    //# Should the server not like the TLS negotiation, then it will close the data port immediately and follow the '150'
    //# command with a '522' reply
    pub(crate) async fn accept(&self, data: &Wire, sender: Sender) -> io::Result<()> {
        let config = match sender {
            Sender::Server => &self.data,
            // A client that uses several tickets also reads them. Others (rclone) may close an upload with tickets unread,
            // which resets the connection and loses data in flight.
            Sender::Client if (1..=TICKETS_LOW).contains(&self.sessions.spare()) => &self.data,
            Sender::Client => &self.data_without_tickets,
        };
        data.begin(connection(config)?)?;
        let kind = data.known().await?;
        if self.resumption == Resumption::Required && kind != HandshakeKind::Resumed {
            return Err(io::Error::other(NotResumed));
        }
        // In TLS 1.2, knowing a session ID resumes a session, and only the Finished proves knowledge of its secret. In a full
        // handshake the client is asked for a certificate, and before its Finished only a small buffer can be written.
        let version = data.with_tls(|tls| tls.protocol_version()).flatten();
        if kind != HandshakeKind::Resumed || version != Some(rustls::ProtocolVersion::TLSv1_3) {
            data.secured().await?;
        }
        Ok(())
    }
}

impl Binding {
    /// Whether the client needs new tickets. The end of a data connection then waits for the client's Finished, because tickets
    /// are sent after it.
    pub(crate) fn is_short_of_tickets(&self) -> bool {
        self.sessions.spare() < TICKETS_LOW
    }
}

//= specs/rfc4217.txt#section-7
//# For i) and ii), the FTP client MUST be the TLS client and the FTP server MUST be the TLS server.
fn connection(config: &Arc<ServerConfig>) -> io::Result<Connection> {
    ServerConnection::new(config.clone()).map(Connection::Server).map_err(io::Error::other)
}

/// The error of a data connection that did not resume a session.
#[derive(Debug)]
struct NotResumed;

impl fmt::Display for NotResumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the data connection does not resume the TLS session of its control connection")
    }
}

impl std::error::Error for NotResumed {}

/// Describes a failed handshake with a client, for the log.
pub(crate) fn failed(error: &io::Error) -> String {
    use rustls::Error as E;
    let Some(tls) = tls_error(error) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                "the client closed the connection during the TLS handshake".into()
            }
            _ => error.to_string(),
        };
    };
    match tls {
        E::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the client's first bytes are not TLS".into()
        }
        E::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge | InvalidMessage::MessageTooLarge) => {
            "the client sent a TLS message that is too large".into()
        }
        E::InvalidMessage(_) | E::InappropriateMessage { .. } | E::InappropriateHandshakeMessage { .. } => {
            format!("the client broke TLS: {tls}")
        }
        E::NoApplicationProtocol => {
            "the client requests another protocol than FTP: its ALPN lacks `ftp`".into()
        }
        E::PeerIncompatible(why) => format!("no version or cipher of TLS in common with the client: {why:?}"),
        E::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired,
        ) => {
            format!("the client does not trust this server: {tls}")
        }
        _ => format!("TLS failed: {tls}"),
    }
}

/// The sessions of one control connection. TLS 1.3 and 1.2 find them by tickets, which are random numbers, and TLS 1.2 also by
/// session IDs. A session may be resumed any number of times, because some clients always use the first one they got.
#[derive(Debug, Default)]
struct Sessions(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    all: VecDeque<Session>,
    next: u64,
    /// The number of the session that was resumed last.
    last_used: Option<u64>,
}

#[derive(Debug)]
struct Session {
    number: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    was_used: bool,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of unused tickets that the client keeps: those before the last used one do not count, because some
    /// clients keep only the newest.
    fn spare(&self) -> usize {
        let kept = self.lock();
        let is_spare = |session: &&Session| !session.was_used && Some(session.number) > kept.last_used;
        kept.all.iter().filter(is_spare).count()
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) {
        let mut kept = self.lock();
        let bytes = |session: &Session| session.key.len() + session.value.len();
        let mut held = kept.all.iter().map(bytes).sum::<usize>() + key.len() + value.len();
        while kept.all.len() >= SESSIONS_MAX || held > SESSIONS_BYTES {
            let oldest = TICKETS.min(kept.all.len().saturating_sub(1));
            let Some(forgotten) = kept.all.remove(oldest) else { return };
            held -= bytes(&forgotten);
        }
        let number = kept.next;
        kept.next += 1;
        kept.all.push_back(Session { number, key, value, was_used: false });
    }

    fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut kept = self.lock();
        let session = kept.all.iter_mut().find(|session| session.key == key)?;
        session.was_used = true;
        let (number, value) = (session.number, session.value.clone());
        kept.last_used = Some(number);
        Some(value)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.put(key, value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.find(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.find(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl ProducesTickets for Sessions {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // As long as the control connection: one day, the maximum for a TLS 1.3 ticket here.
        86_400
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut ticket = vec![0; TICKET_BYTES];
        provider().secure_random.fill(&mut ticket).ok()?;
        self.put(ticket.clone(), plain.to_vec());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.find(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_handshake_is_described() {
        use rustls::Error as E;
        let tls = |error: E| io::Error::other(error);
        let message = |error| tls(E::InvalidMessage(error));
        for (error, words) in [
            (message(InvalidMessage::InvalidContentType), "the client's first bytes are not TLS"),
            (message(InvalidMessage::HandshakePayloadTooLarge), "sent a TLS message that is too large"),
            (message(InvalidMessage::MessageTooLarge), "sent a TLS message that is too large"),
            (message(InvalidMessage::MessageTooShort), "the client broke TLS"),
            (io::ErrorKind::UnexpectedEof.into(), "closed the connection during the TLS handshake"),
            (tls(E::AlertReceived(AlertDescription::UnknownCA)), "does not trust this server"),
            (tls(E::NoApplicationProtocol), "its ALPN lacks `ftp`"),
        ] {
            assert!(failed(&error).contains(words), "{error:?}: {}", failed(&error));
        }
    }

    #[test]
    fn the_first_sessions_and_the_latest_stay() {
        let sessions = Sessions::default();
        for number in 0..SESSIONS_MAX + 5 {
            sessions.put(vec![number as u8], vec![number as u8, 1]);
        }
        assert_eq!(sessions.lock().all.len(), SESSIONS_MAX);
        for number in [0, TICKETS - 1, TICKETS + 5, SESSIONS_MAX + 4] {
            let key = [number as u8];
            assert_eq!(sessions.take(&key), Some(vec![number as u8, 1]), "{number}");
            assert!(sessions.get(&key).is_some(), "it is there again: {number}");
        }
        assert_eq!(sessions.get(&[TICKETS as u8]), None);
        assert_eq!(sessions.get(&[TICKETS as u8 + 4]), None);
    }

    #[test]
    fn sessions_of_many_bytes_are_fewer() {
        let sessions = Sessions::default();
        for number in 0..SESSIONS_MAX {
            sessions.put(vec![number as u8], vec![0; SESSIONS_BYTES / 8]);
        }
        let held = |sessions: &Sessions| sessions.lock().all.iter().map(|it| it.value.len()).sum::<usize>();
        assert_eq!(held(&sessions), SESSIONS_BYTES / 8 * 7, "the key of an eighth has no room");
        assert!(sessions.get(&[0]).is_some() && sessions.get(&[SESSIONS_MAX as u8 - 1]).is_some());
        // One that is larger than all may be is not kept, and costs no other its place for nothing.
        sessions.put(vec![77], vec![0; SESSIONS_BYTES]);
        assert_eq!(sessions.get(&[77]), None);
    }

    #[test]
    fn a_client_that_uses_the_newest_ticket_may_have_no_other() {
        let tickets = |sessions: &Sessions| -> Vec<_> {
            (0..TICKETS).map(|_| sessions.encrypt(b"secret").unwrap()).collect()
        };
        let sessions = Sessions::default();
        let first = tickets(&sessions);
        for (used, ticket) in first.iter().enumerate() {
            assert_eq!(sessions.decrypt(ticket).as_deref(), Some(&b"secret"[..]));
            assert_eq!(sessions.spare(), TICKETS - 1 - used);
        }
        let second = tickets(&sessions);
        assert_eq!(sessions.spare(), TICKETS);
        sessions.decrypt(&second[TICKETS - 1]);
        assert_eq!(sessions.spare(), 0);
        assert_eq!(sessions.decrypt(b"no such ticket"), None);
    }
}
