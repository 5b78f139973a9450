//! A TLS connection that only performs its handshake, with rustls, between received and sent messages.

use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::{
    ClientConfig, ClientConnection, Connection, Error, HandshakeKind, ServerConfig, ServerConnection, client,
};

use super::KeyError;
use crate::Resumption;
use crate::exporter::{Exporter, Secret};

/// The maximum length of a peer's part of a handshake in bytes.
const BYTES_MAX: usize = 1 << 17;
/// The maximum number of messages.
const MESSAGES_MAX: usize = 32;

/// A record with a fatal handshake_failure alert (RFC 8446 §6).
pub(super) const HANDSHAKE_FAILURE: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];

/// Whether records begin with a ClientHello (RFC 8446 §4, §5.1).
pub(super) fn is_client_hello(records: &[u8]) -> bool {
    const HANDSHAKE: u8 = 22;
    const CLIENT_HELLO: u8 = 1;
    records.first() == Some(&HANDSHAKE) && records.get(5) == Some(&CLIENT_HELLO)
}

/// The progress of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    UnderWay,
    /// The peer's part is verified.
    Done,
}

#[derive(Debug)]
pub(super) struct Session {
    tls: Connection,
    secret: Arc<Secret>,
    messages: usize,
    bytes: usize,
    keys_taken: bool,
}

/// Makes no tickets and accepts none.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

impl Session {
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
    //# The PSK key exchange mode psk_ke MUST NOT be used as it does not
    //# provide ephemeral key exchange.
    // rustls has psk_dhe_ke alone.
    pub(super) fn client(
        config: &ClientConfig,
        name: &ServerName<'static>,
        resumption: Resumption,
    ) -> Result<Self, Error> {
        let secret = Arc::new(Secret::default());
        let mut config = config.clone();
        config.key_log = secret.clone();
        config.enable_early_data = false;
        if resumption == Resumption::Never {
            config.resumption = client::Resumption::disabled();
        }
        let tls = ClientConnection::new(Arc::new(config), name.clone())?;
        Ok(Self::new(tls.into(), secret))
    }

    pub(super) fn server(config: &ServerConfig, resumption: Resumption) -> Result<Self, Error> {
        let secret = Arc::new(Secret::default());
        let mut config = config.clone();
        config.key_log = secret.clone();
        config.max_early_data_size = 0;
        match resumption {
            Resumption::FirstHandshake => config.send_tls13_tickets = 1,
            Resumption::Never => {
                config.send_tls13_tickets = 0;
                config.ticketer = Arc::new(NoTickets);
                config.session_storage = Arc::new(NoServerSessionStorage {});
            }
        }
        let tls = ServerConnection::new(Arc::new(config))?;
        Ok(Self::new(tls.into(), secret))
    }

    fn new(mut tls: Connection, secret: Arc<Secret>) -> Self {
        tls.set_buffer_limit(Some(BYTES_MAX));
        Self { tls, secret, messages: 0, bytes: 0, keys_taken: false }
    }

    pub(super) fn is_client(&self) -> bool {
        matches!(self.tls, Connection::Client(_))
    }

    /// Whether nothing was received from the peer.
    pub(super) fn awaits_first(&self) -> bool {
        self.messages == 0
    }

    /// Whether the peer's keys were returned.
    pub(super) fn keys_taken(&self) -> bool {
        self.keys_taken
    }

    /// Whether the handshake resumed an earlier session: the peer showed no certificate in it.
    pub(super) fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns true once, when the peer's keys may be taken.
    pub(super) fn take_keys(&mut self) -> bool {
        !std::mem::replace(&mut self.keys_taken, true)
    }

    /// Processes records of the peer, if there are any.
    pub(super) fn handle(&mut self, records: &[u8]) -> Result<Progress, KeyError> {
        if !records.is_empty() {
            self.messages += 1;
            self.bytes += records.len();
            if self.messages > MESSAGES_MAX || self.bytes > BYTES_MAX {
                return Err(KeyError::TooMuch);
            }
        }
        let mut records = Cursor::new(records);
        while (records.position() as usize) < records.get_ref().len() {
            // rustls has no room for what it does not read.
            match self.tls.read_tls(&mut records) {
                Ok(0) | Err(_) => return Err(KeyError::TooMuch),
                Ok(_) => {}
            }
            self.tls.process_new_packets().map_err(KeyError::Tls)?;
        }
        Ok(if self.tls.is_handshaking() { Progress::UnderWay } else { Progress::Done })
    }

    /// Returns the records to send.
    pub(super) fn take_flight(&mut self) -> Bytes {
        let mut flight = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut flight).expect("a vector takes whatever it is given");
        }
        flight.into()
    }

    /// Returns the exporter, once the server has sent its Finished.
    pub(super) fn exporter(&self) -> Option<Exporter> {
        Exporter::of(&self.secret, self.tls.negotiated_cipher_suite()?)
    }

    pub(super) fn peer_certificates(&self) -> Vec<CertificateDer<'static>> {
        let chain = self.tls.peer_certificates().unwrap_or_default();
        chain.iter().map(|certificate| certificate.clone().into_owned()).collect()
    }
}
