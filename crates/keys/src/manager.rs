//! Runs TLS handshakes and installs their keys (draft-porfiri-tsvwg-sctp-dtls-handshake §6, §7): the first
//! handshake, later ones for new keys, and the removal of old keys once everything protected with them has
//! arrived.
//!
//! rustls verifies the peer's certificate. `session` runs a single TLS connection.

mod session;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Output, Time};
use braidftp_sctp::dtls::{Agreement, FIRST_EPOCH, KEY_MANAGEMENT_PPID, Keys, KeysId, Purpose, Role};
use braidftp_sctp::{Association, DtlsError, DtlsEvent, Ppid, StreamId};
use bytes::Bytes;
use rustls::pki_types::CertificateDer;

use self::session::{Progress, Session};
use crate::exporter::{Exporter, Sender};
use crate::message::{Body, MESSAGE_MAX, Message};
use crate::{MessageError, Method, Resumption, Settings};

/// The interval at which protected bytes are counted.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// The number of consecutive failed handshakes for new keys after which the association ends.
const FAILURES_MAX: u32 = 3;

/// The time from a failed handshake to the next one.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The maximum number of handshakes per minute started by the peer, besides the first: each takes CPU
/// time.
const PEER_HANDSHAKES_A_MINUTE: u32 = 30;

/// What the caller must do for a [`KeyManager`], in this order.
#[derive(Debug)]
pub enum Action {
    /// Send this message: ordered, on stream 0, with payload protocol identifier 4242.
    Send(Bytes),
    /// [`Association::add_receive_keys`].
    Receive(KeysId, Keys),
    /// [`Association::set_send_keys`].
    Protect(KeysId, Keys),
    /// [`Association::delete_receive_keys`].
    Forget(KeysId),
    /// [`Association::require_protection`].
    Require,
}

/// Events of an association's keys.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyEvent {
    /// The peer is authenticated, and sent packets are protected.
    Protected,
    /// New keys with this epoch are in use.
    Rekeyed(u64),
    /// A handshake for new keys failed and will be repeated.
    Retried(KeyError),
    /// There are no keys, or none in time: the association must be aborted with this reason.
    Failed(KeyError),
}

/// Why there are no keys.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyError {
    /// The negotiated key management method is unknown.
    Method(u8),
    /// TLS failed: the peer's certificate is not trusted, this side's is not trusted by the peer, or
    /// there is no common suite.
    Tls(rustls::Error),
    /// A message is malformed.
    Message(MessageError),
    /// The peer uses a version of TLS before 1.3.
    Version,
    /// A handshake exceeded the limit of messages or bytes.
    TooMuch,
    /// A handshake took too long.
    Timeout,
    /// The peer does not confirm that it has the keys: it may have derived others because an offer was
    /// modified in transit.
    Unconfirmed,
    /// The peer presented another certificate than before.
    AnotherPeer,
    /// The peer started too many handshakes.
    TooMany,
    /// The association rejected the keys.
    Refused(DtlsError),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(method) => write!(f, "method {method} of key management is not known here"),
            Self::Tls(error) => write!(f, "the TLS handshake failed: {error}"),
            Self::Message(error) => error.fmt(f),
            Self::Version => f.write_str("the peer speaks no TLS 1.3"),
            Self::TooMuch => f.write_str("the peer's TLS handshake does not end"),
            Self::Timeout => f.write_str("the TLS handshake took too long"),
            Self::Unconfirmed => f.write_str(
                "the peer does not confirm the keys; what either side offered may have been changed on the way",
            ),
            Self::AnotherPeer => f.write_str("the peer shows another certificate than it did before"),
            Self::TooMany => f.write_str("the peer asks for new keys too often"),
            Self::Refused(error) => write!(f, "keys cannot be set: {error}"),
        }
    }
}

impl std::error::Error for KeyError {}

/// The result of [`KeyManager::drive`].
#[derive(Debug, Default)]
pub struct Driven {
    /// The events. After [`KeyEvent::Failed`] the association has already been aborted.
    pub events: Vec<KeyEvent>,
    /// The latest time of the next call.
    pub wait: Option<Time>,
}

/// A handshake in progress.
#[derive(Debug)]
struct Handshake {
    session: Session,
    /// The epoch of its keys.
    epoch: u64,
    /// Its time limit.
    until: Time,
    exporter: Option<Exporter>,
    /// On the client: whether the server's part is complete except for Protection Established.
    is_done: bool,
    /// Whether sent packets are protected with its keys.
    is_protecting: bool,
}

/// Keys that were replaced.
#[derive(Debug)]
struct Draining {
    epoch: u64,
    until: Time,
}

/// Agrees on the keys of one association.
#[derive(Debug)]
pub struct KeyManager {
    settings: Arc<Settings>,
    agreement: Agreement,
    method: Method,
    /// The epoch of the keys in use; `None` before the first keys.
    epoch: Option<u64>,
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
    //# The endpoints MUST limit the number of simultaneous TLS connections
    //# to one.
    handshake: Option<Handshake>,
    draining: Option<Draining>,
    /// The peer's certificates, if it presented any; known after the first handshake.
    peer: Option<Vec<CertificateDer<'static>>>,
    /// Whether the first handshake resumed an earlier session.
    is_resumed: bool,
    /// When the keys in use were set.
    since: Time,
    /// When to count the protected bytes next, and their number when the keys were set.
    count_at: Time,
    bytes_before: u64,
    bytes_now: u64,
    /// When new keys are needed, and whether the peer was asked for a handshake.
    wanted_at: Option<Time>,
    has_asked: bool,
    failures: u32,
    /// The start of the current minute, and the number of handshakes that the peer started in it.
    peer_began: (Time, u32),
    /// The received part of a message.
    partial: Vec<u8>,
    outputs: VecDeque<Output<Action, KeyEvent>>,
    is_over: bool,
}

impl KeyManager {
    /// Creates the key manager of an association whose sides agreed on key management
    /// ([`Association::dtls_agreement`]). The client's first message is ready at once.
    pub fn new(now: Time, settings: Arc<Settings>, agreement: Agreement) -> Self {
        let method = Method::from_identifier(agreement.method);
        let mut manager = Self {
            method: method.unwrap_or(Method::Draft),
            settings,
            agreement,
            epoch: None,
            handshake: None,
            draining: None,
            peer: None,
            is_resumed: false,
            since: now,
            count_at: now + COUNTED_EVERY,
            bytes_before: 0,
            bytes_now: 0,
            wanted_at: None,
            has_asked: false,
            failures: 0,
            peer_began: (now, 0),
            partial: Vec::new(),
            outputs: VecDeque::new(),
            is_over: false,
        };
        match (method, manager.agreement.role) {
            (None, _) => manager.end(KeyError::Method(manager.agreement.method)),
            (Some(_), Role::Client) => manager.begin(now),
            // The wait for the first message has a time limit too.
            (Some(_), Role::Server) => manager.wanted_at = Some(now + manager.settings.handshake_timeout),
        }
        manager
    }

    /// Uses other certificates or trust anchors from the next handshake on, for renewed certificates.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
    //# Implementations MUST set up a new TLS connection using a full
    //# handshake with new certificates before any last used certificates
    //# expire.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
    }

    /// Whether sent packets are protected.
    pub fn is_protected(&self) -> bool {
        self.epoch.is_some() && !self.is_over
    }

    /// The epoch of the keys in use.
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Returns the certificates that the peer presented, its own first; `None` if it presented none or
    /// the first handshake is in progress.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.peer.as_deref().filter(|chain| !chain.is_empty())
    }

    /// Whether the first handshake resumed an earlier session, whose certificates
    /// [`peer_certificates`](Self::peer_certificates) returns: nothing has verified them in this one. False
    /// while it is in progress.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Performs all pending work for an association: reads key management messages, sends messages, and
    /// sets keys. Call it after each [`Event::Dtls`](braidftp_sctp::Event::Dtls), with the event, and at
    /// the time returned last.
    pub fn drive(&mut self, now: Time, event: Option<DtlsEvent>, association: &mut Association) -> Driven {
        match event {
            Some(DtlsEvent::KeysWanted { epoch }) => self.want_keys(now, epoch),
            Some(DtlsEvent::PeerUses(id)) => self.on_peer_uses(now, id),
            Some(DtlsEvent::Agreed | DtlsEvent::Message) | None => {}
        }
        while let Some(piece) = association.recv_key_management() {
            self.handle_piece(now, &piece.payload, piece.end);
        }
        if now >= self.count_at {
            let paths = association.stats().paths;
            self.handle_bytes(now, paths.iter().map(|path| path.bytes_sent + path.bytes_received).sum());
        }
        let mut driven = Driven::default();
        loop {
            match self.poll(now) {
                Output::Send(action) => {
                    if let Err(error) = apply(action, association) {
                        self.end(KeyError::Refused(error));
                    }
                }
                Output::Event(event) => {
                    if let KeyEvent::Failed(error) = &event {
                        association.abort(error.to_string().into_bytes().into());
                    }
                    driven.events.push(event);
                }
                Output::Wait(wait) => {
                    driven.wait = wait;
                    return driven;
                }
            }
        }
    }

    /// Processes a piece of a key management message; `is_end`: the message ends with it.
    fn handle_piece(&mut self, now: Time, payload: &[Bytes], is_end: bool) {
        for bytes in payload {
            let room = (MESSAGE_MAX + 1).saturating_sub(self.partial.len());
            self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if is_end {
            let message = std::mem::take(&mut self.partial);
            self.handle(now, &message);
        }
    }

    /// Processes a key management message.
    pub fn handle(&mut self, now: Time, message: &[u8]) {
        if self.is_over {
            return;
        }
        let message = match Message::parse(message) {
            Ok(message) => message,
            Err(error) => return self.end(KeyError::Message(error)),
        };
        match message.body {
            Body::Records(records) => self.on_records(now, &message, records),
            Body::ProtectionEstablished => self.on_established(now, &message),
            Body::KeysWanted if self.method == Method::AtOnce => {
                if let Some(epoch) = self.epoch.filter(|epoch| message.is_of(*epoch)) {
                    self.want_keys(now, epoch);
                }
            }
            Body::KeysWanted | Body::Unknown => {}
        }
    }

    /// Reports the number of bytes of packets sent and received since the association began.
    pub fn handle_bytes(&mut self, now: Time, bytes: u64) {
        self.bytes_now = bytes;
        self.count_at = now + COUNTED_EVERY;
        if let Some(epoch) = self.epoch
            && bytes - self.bytes_before.min(bytes) >= self.settings.rekey_bytes
        {
            self.want_keys(now, epoch);
        }
    }

    /// The keys of this epoch are nearly used up.
    pub fn want_keys(&mut self, now: Time, epoch: u64) {
        if self.epoch == Some(epoch) && self.failures == 0 {
            self.wanted_at = Some(self.wanted_at.map_or(now, |at| at.min(now)));
        }
    }

    /// The peer sends with these keys.
    fn on_peer_uses(&mut self, now: Time, id: KeysId) {
        if let Some(draining) = &mut self.draining
            && id.purpose == Purpose::Primary
            && id.epoch > draining.epoch
        {
            //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.3
            //# A value of 120 seconds (one Maximum Segment Lifetime) is
            //# RECOMMENDED in this case.
            draining.until = draining.until.min(now + self.settings.drain);
        }
        // The client has the keys and accepts nothing else any more. Sent packets are protected, but no
        // event is reported before the client's Finished is verified.
        if self.epoch.is_none() && self.agreement.role == Role::Server {
            self.send_with(Sender::Server);
        }
    }

    /// Returns the next action or event.
    pub fn poll(&mut self, now: Time) -> Output<Action, KeyEvent> {
        if self.outputs.is_empty() && !self.is_over {
            self.on_time(now);
        }
        self.outputs.pop_front().unwrap_or_else(|| Output::Wait(self.deadline()))
    }

    fn deadline(&self) -> Option<Time> {
        if self.is_over {
            return None;
        }
        let handshake = self.handshake.as_ref().map(|handshake| handshake.until);
        // New keys wanted during a handshake come from that handshake.
        let wanted = self.wanted_at.filter(|_| handshake.is_none());
        let draining = self.draining.as_ref().map(|draining| draining.until);
        let counting = self.epoch.map(|_| self.count_at);
        [handshake, wanted, draining, counting].into_iter().flatten().min()
    }

    fn on_time(&mut self, now: Time) {
        if let Some(draining) = self.draining.take_if(|draining| draining.until <= now) {
            self.forget(draining.epoch);
        }
        if let Some(handshake) = self.handshake.as_ref().filter(|handshake| handshake.until <= now) {
            let error = if handshake.is_done { KeyError::Unconfirmed } else { KeyError::Timeout };
            self.fail(now, error);
        }
        if self.handshake.is_some() || self.is_over || self.wanted_at.is_none_or(|at| now < at) {
            return;
        }
        match self.epoch {
            None => self.end(KeyError::Timeout),
            Some(_) if self.settings.client.is_some() => self.begin(now),
            Some(epoch) => {
                // A side that cannot start a handshake asks for one, once; otherwise the association
                // ends by the limits of its keys.
                if !std::mem::replace(&mut self.has_asked, true) && self.method == Method::AtOnce {
                    self.say(epoch, Body::KeysWanted);
                }
                self.wanted_at = None;
            }
        }
    }

    /// The epoch of the next keys.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-5.4
    //# The first DKC established for any SCTP association MUST use DTLS
    //# epoch 3.
    fn next_epoch(&self) -> u64 {
        self.epoch.map_or(FIRST_EPOCH, |epoch| epoch + 1)
    }

    /// Whether the next handshake may resume a session. One for new keys is a full handshake: each side
    /// shows again that it has its private key.
    fn resumption(&self) -> Resumption {
        if self.epoch.is_none() { self.settings.resumption } else { Resumption::Never }
    }

    /// Starts a handshake as its client.
    fn begin(&mut self, now: Time) {
        let Some((config, name)) = &self.settings.client else {
            // An association configured with `Settings::dtls` never becomes the client without a client
            // configuration.
            return self.end(KeyError::Tls(rustls::Error::General("no TLS client is configured".into())));
        };
        match Session::client(config, name, self.resumption()) {
            Ok(session) => self.take_up(now, session, Bytes::new()),
            Err(error) => self.fail(now, KeyError::Tls(error)),
        }
    }

    /// A handshake is in progress from now on.
    fn take_up(&mut self, now: Time, session: Session, records: Bytes) {
        let epoch = self.next_epoch();
        // A handshake for new keys has the association's time limits: a side that gave up alone might
        // miss that the peer has the keys.
        let patience = match self.epoch {
            None => self.settings.handshake_timeout,
            Some(_) => self.settings.drain_unconfirmed,
        };
        let until = now + patience;
        self.wanted_at = None;
        self.handshake =
            Some(Handshake { session, epoch, until, exporter: None, is_done: false, is_protecting: false });
        self.advance(now, &records);
    }

    fn on_records(&mut self, now: Time, message: &Message<'_>, records: &[u8]) {
        // Behind the server's Finished, its tickets or an alert may follow: the client has the keys then.
        let epoch = self.handshake.as_ref().map_or_else(|| self.next_epoch(), |it| it.epoch);
        if !message.is_of(epoch) {
            // The rest of a handshake that has completed or was abandoned.
            return;
        }
        //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.4
        //# In this case, the ClientHello from the endpoint with the
        //# keymanager client role SHALL be processed, and the other SHALL be
        //# dropped.
        let is_begun_twice = self.handshake.as_ref().is_some_and(|it| it.session.awaits_first())
            && session::is_client_hello(records);
        match (is_begun_twice, self.agreement.role) {
            (true, Role::Client) => return,
            (true, Role::Server) => self.handshake = None,
            (false, _) => {}
        }
        if self.handshake.is_some() {
            return self.advance(now, records);
        }
        // Remaining messages of a failed handshake do not start another one.
        if session::is_client_hello(records) {
            self.answer(now, records);
        }
    }

    /// The peer starts a handshake.
    fn answer(&mut self, now: Time, records: &[u8]) {
        if self.epoch.is_some() {
            if now.since(self.peer_began.0) >= Duration::from_secs(60) {
                self.peer_began = (now, 0);
            }
            self.peer_began.1 += 1;
            if self.peer_began.1 > PEER_HANDSHAKES_A_MINUTE {
                return self.end(KeyError::TooMany);
            }
        }
        let Some(config) = &self.settings.server else {
            let epoch = self.next_epoch();
            return self.say(epoch, Body::Records(&session::HANDSHAKE_FAILURE));
        };
        match Session::server(config, self.resumption()) {
            Ok(session) => self.take_up(now, session, Bytes::copy_from_slice(records)),
            Err(error) => self.fail(now, KeyError::Tls(error)),
        }
    }

    /// Passes received records to the TLS connection and applies the results.
    fn advance(&mut self, now: Time, records: &[u8]) {
        let Some(handshake) = &mut self.handshake else { return };
        if handshake.is_done {
            // An alert of the server matters most: its Finished was the last message of its handshake.
            if let Err(error) = handshake.session.handle(records) {
                self.fail(now, error);
            }
            return;
        }
        let epoch = handshake.epoch;
        let progress = handshake.session.handle(records);
        let flight = handshake.session.take_flight();
        if handshake.exporter.is_none() {
            handshake.exporter = handshake.session.exporter();
        }
        if !flight.is_empty() {
            self.say(epoch, Body::Records(&flight));
        }
        match progress {
            Err(error) => self.fail(now, error),
            Ok(progress) => self.on_progress(now, progress),
        }
    }

    fn on_progress(&mut self, now: Time, progress: Progress) {
        let Some(handshake) = &mut self.handshake else { return };
        let (is_client, epoch) = (handshake.session.is_client(), handshake.epoch);
        let is_first = self.epoch.is_none();
        let at_once = self.method == Method::AtOnce && is_first;
        match progress {
            // The server may send its first protected record only when it knows that the client has the
            // keys. But it accepts the client's records, which has them as soon as it receives this
            // flight.
            Progress::UnderWay if !is_client && at_once && handshake.exporter.is_some() => {
                self.receive(epoch, Sender::Client);
            }
            Progress::UnderWay => {}
            Progress::Done => {
                if handshake.exporter.is_none() {
                    return self.fail(now, KeyError::Version);
                }
                let chain = handshake.session.peer_certificates();
                self.is_resumed |= handshake.session.is_resumed();
                if self.peer.as_ref().is_some_and(|peer| !is_client && *peer != chain) {
                    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.3
                    //# Clients and servers MUST NOT accept a change of identity during the
                    //# setup of a new TLS connection, but MAY accept negotiation of stronger
                    //# algorithms and security parameters.
                    // A client accepts any server that is valid for the name: certificates are renewed.
                    self.say(epoch, Body::Records(&session::HANDSHAKE_FAILURE));
                    return self.fail(now, KeyError::AnotherPeer);
                }
                self.peer = Some(chain);
                if is_client {
                    self.on_server_done(now, epoch, at_once)
                } else {
                    self.on_client_done(now, epoch)
                }
            }
        }
    }

    /// This side is the client, and the server's part is verified.
    fn on_server_done(&mut self, now: Time, epoch: u64, at_once: bool) {
        self.receive(epoch, Sender::Server);
        if let Some(handshake) = &mut self.handshake {
            handshake.is_done = true;
        }
        if at_once {
            self.protect(now, epoch, Sender::Client);
            // The server protects everything once the first record has arrived. Unprotected packets that
            // it sent before are retransmitted if necessary; forged packets are discarded from now on.
            self.outputs.push_back(Output::Send(Action::Require));
            self.outputs.push_back(Output::Event(KeyEvent::Protected));
        }
    }

    /// This side is the server, and the client's part is verified.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.1
    //# After key installation, the TLS connection SHOULD be closed promptly.
    fn on_client_done(&mut self, now: Time, epoch: u64) {
        let is_first = self.epoch.is_none();
        self.receive(epoch, Sender::Client);
        self.protect(now, epoch, Sender::Server);
        if is_first {
            self.outputs.push_back(Output::Send(Action::Require));
        }
        self.say(epoch, Body::ProtectionEstablished);
        self.handshake = None;
        let event = if is_first { KeyEvent::Protected } else { KeyEvent::Rekeyed(epoch) };
        self.outputs.push_back(Output::Event(event));
    }

    fn on_established(&mut self, now: Time, message: &Message<'_>) {
        let is_done = |handshake: &&mut Handshake| handshake.is_done && message.is_of(handshake.epoch);
        let Some(epoch) = self.handshake.as_mut().filter(is_done).map(|handshake| handshake.epoch) else {
            return;
        };
        let (is_first, is_pending) = (epoch == FIRST_EPOCH, self.epoch != Some(epoch));
        if is_pending {
            self.protect(now, epoch, Sender::Client);
        }
        if is_first && is_pending {
            self.outputs.push_back(Output::Send(Action::Require));
        }
        self.handshake = None;
        if is_pending {
            let event = if is_first { KeyEvent::Protected } else { KeyEvent::Rekeyed(epoch) };
            self.outputs.push_back(Output::Event(event));
        }
    }

    /// Accepts what the peer protects with the keys of this epoch.
    fn receive(&mut self, epoch: u64, sender: Sender) {
        // At most two epochs exist at a time.
        if let Some(draining) = self.draining.take() {
            self.forget(draining.epoch);
        }
        let Some(handshake) = &mut self.handshake else { return };
        if handshake.session.take_keys() {
            let exporter = handshake.exporter.as_ref().expect("the caller has looked");
            let keys = exporter.keys(sender, Purpose::Primary, &self.agreement);
            self.outputs.push_back(Output::Send(Action::Receive(primary(epoch), keys)));
        }
    }

    /// Protects sent packets with the keys of this epoch.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.3
    //# * If delivery has not been confirmed, the drain timer MUST be set to
    //# at least the SCTP association failure time (T_fail).
    fn protect(&mut self, now: Time, epoch: u64, sender: Sender) {
        self.send_with(sender);
        if let Some(old) = self.epoch.replace(epoch) {
            self.draining = Some(Draining { epoch: old, until: now + self.settings.drain_unconfirmed });
        }
        (self.since, self.bytes_before, self.failures, self.has_asked) = (now, self.bytes_now, 0, false);
        self.wanted_at = Some(self.aged_at());
    }

    /// Returns the sending keys of the handshake, once.
    fn send_with(&mut self, sender: Sender) {
        let Some(handshake) = &mut self.handshake else { return };
        let Some(exporter) = &handshake.exporter else { return };
        if !std::mem::replace(&mut handshake.is_protecting, true) {
            let keys = exporter.keys(sender, Purpose::Primary, &self.agreement);
            self.outputs.push_back(Output::Send(Action::Protect(primary(handshake.epoch), keys)));
        }
    }

    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
    //# Implementations MUST have policies for how often to set up new TLS
    //# connections with ephemeral key exchange.
    /// When the keys in use become too old. The server of the key management waits slightly longer, so
    /// that the two rarely start at the same time.
    fn aged_at(&self) -> Time {
        let after = self.settings.rekey_after;
        self.since
            + match self.agreement.role {
                Role::Client => after,
                Role::Server => after + after / 16,
            }
    }

    fn forget(&mut self, epoch: u64) {
        self.outputs.push_back(Output::Send(Action::Forget(primary(epoch))));
    }

    fn say(&mut self, epoch: u64, body: Body<'_>) {
        self.outputs.push_back(Output::Send(Action::Send(Message::encode(epoch, body))));
    }

    /// A handshake failed. Keys in use stay in use.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-7
    //# If a TLS handshake fails during rekeying, and the current DKC has not
    //# yet reached its usage limits, the implementation SHOULD retry the
    //# handshake.
    fn fail(&mut self, now: Time, error: KeyError) {
        let handshake = self.handshake.take();
        self.failures += 1;
        if self.epoch.is_none()
            || self.epoch == handshake.as_ref().map(|it| it.epoch)
            || self.failures > FAILURES_MAX
        {
            //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.1
            //# If the TLS handshake fails, the SCTP association MUST be aborted.
            //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-7
            //# If a TLS handshake fails during initial establishment, the SCTP
            //# association MUST be aborted.
            //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-7
            //# If retry is not possible or the current DKC is aged
            //# beyond policy limits, the association MUST be aborted.
            return self.end(error);
        }
        if let Some(handshake) = handshake.filter(|it| it.session.keys_taken()) {
            self.forget(handshake.epoch);
        }
        self.wanted_at = Some(now + RETRY_AFTER);
        self.outputs.push_back(Output::Event(KeyEvent::Retried(error)));
    }

    fn end(&mut self, error: KeyError) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.handshake = None;
            self.outputs.push_back(Output::Event(KeyEvent::Failed(error)));
        }
    }
}

fn primary(epoch: u64) -> KeysId {
    KeysId { purpose: Purpose::Primary, epoch }
}

fn apply(action: Action, association: &mut Association) -> Result<(), DtlsError> {
    match action {
        Action::Send(message) => {
            // A closed association accepts no message and needs no keys.
            let message = braidftp_sctp::Message::new(Ppid(KEY_MANAGEMENT_PPID), message);
            let _ = association.send(StreamId(0), message);
            Ok(())
        }
        Action::Receive(id, keys) => not_over(association.add_receive_keys(id, keys)),
        Action::Protect(id, keys) => not_over(association.set_send_keys(id, keys)),
        Action::Forget(id) => {
            // The association deletes keys by itself after too many forged records.
            let _ = association.delete_receive_keys(id);
            Ok(())
        }
        Action::Require => not_over(association.require_protection()),
    }
}

/// A closed association needs no keys.
fn not_over(set: Result<(), DtlsError>) -> Result<(), DtlsError> {
    if set == Err(DtlsError::NotUp) { Ok(()) } else { set }
}
