//! Two SCTP endpoints with real TLS, and a network between them that can lose, reorder and edit.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Output, Time};
use braidftp_keys::rustls::crypto::aws_lc_rs;
use braidftp_keys::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use braidftp_keys::rustls::server::WebPkiClientVerifier;
use braidftp_keys::rustls::{ClientConfig, RootCertStore, ServerConfig};
use braidftp_keys::{KeyEvent, KeyManager, Resumption, Settings};
use braidftp_sctp::{
    Announce, Association, AssociationId, Config, Connect, Endpoint, Event, Message, Ppid, Profile, Reason,
    SendError, StreamId,
};
use bytes::Bytes;

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
const PORT: u16 = 5_000;

/// A self-signed certificate, and clients and servers that trust it.
pub(crate) struct Identity {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["server.example".into()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.clone_key())
            .unwrap();
        Self { server: Arc::new(server), client: Arc::new(client), certificate, key }
    }

    /// What a side is set to that can be either, and shows its certificate as both; who else has to show one of `peer`.
    pub(crate) fn either(&self, peer: &Self) -> Settings {
        self.either_trusting(&[peer])
    }

    /// The same, with peers of several certificates.
    pub(crate) fn either_trusting(&self, peers: &[&Self]) -> Settings {
        let mut roots = RootCertStore::empty();
        for peer in peers {
            roots.add(peer.certificate.clone()).unwrap();
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap();
        let name = ServerName::try_from("server.example").unwrap();
        Settings { server: Some(Arc::new(server)), ..Settings::client(Arc::new(client), name) }
    }

    /// What the client and the server are set to.
    pub(crate) fn settings(&self) -> [Settings; 2] {
        let name = ServerName::try_from("server.example").unwrap();
        [Settings::client(self.client.clone(), name), Settings::server(self.server.clone())]
    }

    /// The same, of sides that resume the session of an earlier association.
    pub(crate) fn resuming(&self) -> [Settings; 2] {
        let mut tls = ServerConfig::clone(&self.server);
        tls.ticketer = aws_lc_rs::Ticketer::new().unwrap();
        let [client, server] =
            self.settings().map(|settings| Settings { resumption: Resumption::FirstHandshake, ..settings });
        [client, Settings { server: Some(Arc::new(tls)), ..server }]
    }
}

pub(crate) fn config() -> Config {
    Profile::Modern.config()
}

/// Decides what happens to a packet, given its sender and the sender's number of earlier packets: `None` drops it.
pub(crate) type Edit = Box<dyn FnMut(usize, usize, Vec<u8>) -> Option<Vec<u8>>>;

/// Returns packets that the attacker sends in the name of the sender of a packet.
pub(crate) type Inject = Box<dyn FnMut(usize, &[u8]) -> Vec<Vec<u8>>>;

pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) settings: Option<Arc<Settings>>,
    pub(crate) keys: Option<KeyManager>,
    pub(crate) id: Option<AssociationId>,
    wake: Option<Time>,
    pub(crate) key_events: Vec<(Time, KeyEvent)>,
    pub(crate) events: Vec<Event>,
    /// Received messages, by stream, with the time.
    pub(crate) read: BTreeMap<u16, Vec<(Time, Vec<u8>)>>,
    partial: BTreeMap<u16, Vec<u8>>,
    /// Messages to send.
    pub(crate) outbox: VecDeque<(u16, Bytes)>,
    sent: usize,
}

impl Node {
    fn new(seed: u8, settings: Option<Settings>) -> Self {
        Self {
            endpoint: Endpoint::new([seed; 32]),
            settings: settings.map(Arc::new),
            keys: None,
            id: None,
            wake: None,
            key_events: Vec::new(),
            events: Vec::new(),
            read: BTreeMap::new(),
            partial: BTreeMap::new(),
            outbox: VecDeque::new(),
            sent: 0,
        }
    }

    fn config(&self, config: &Config) -> Arc<Config> {
        Arc::new(
            config.clone().with(|c| c.security.dtls = self.settings.as_ref().map(|settings| settings.dtls())),
        )
    }

    pub(crate) fn association(&mut self) -> &mut Association {
        self.endpoint.association_mut(self.id.expect("there is an association")).unwrap()
    }

    pub(crate) fn closed(&self) -> Option<&Reason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    }

    pub(crate) fn protected_at(&self) -> Option<Time> {
        self.key_events.iter().find(|(_, event)| *event == KeyEvent::Protected).map(|(at, _)| *at)
    }

    fn on_event(&mut self, now: Time, id: AssociationId, event: Event) {
        self.id = self.id.or(Some(id));
        if let Event::Dtls(dtls) = event {
            let association = self.endpoint.association_mut(id).unwrap();
            if self.keys.is_none() {
                let agreement = association.dtls_agreement().unwrap().clone();
                self.keys = Some(KeyManager::new(now, self.settings.clone().unwrap(), agreement));
            }
            self.drive(now, Some(dtls));
        }
        self.events.push(event);
    }

    /// Replaces the identity, without informing the association.
    pub(crate) fn change_identity(&mut self, settings: Settings) {
        self.keys.as_mut().unwrap().set_settings(Arc::new(settings));
    }

    /// The keys in use are to be replaced.
    pub(crate) fn want_keys(&mut self, now: Time) {
        let keys = self.keys.as_mut().unwrap();
        keys.want_keys(now, keys.epoch().unwrap());
        self.drive(now, None);
    }

    fn drive(&mut self, now: Time, event: Option<braidftp_sctp::DtlsEvent>) {
        let (Some(keys), Some(id)) = (&mut self.keys, self.id) else { return };
        let Some(association) = self.endpoint.association_mut(id) else { return };
        let driven = keys.drive(now, event, association);
        self.wake = driven.wait;
        self.key_events.extend(driven.events.into_iter().map(|event| (now, event)));
    }

    fn work(&mut self, now: Time) {
        if self.wake.is_some_and(|wake| wake <= now) {
            self.drive(now, None);
        }
        let Some(id) = self.id else { return };
        let Some(association) = self.endpoint.association_mut(id) else { return };
        while let Some((stream, message)) = self.outbox.front() {
            let message = Message::new(Ppid(0), message.clone());
            match association.send(StreamId(*stream), message) {
                Ok(()) => drop(self.outbox.pop_front()),
                Err(SendError::Full | SendError::NotProtected | SendError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        // A side that requires protection accepts no messages before.
        if self.settings.is_some() && !self.keys.as_ref().is_some_and(KeyManager::is_protected) {
            return;
        }
        while let Some(stream) = association.readable() {
            let piece = association.recv(stream).unwrap();
            assert_eq!(piece.ppid, Ppid(0));
            let partial = self.partial.entry(stream.0).or_default();
            partial.extend(piece.payload.concat());
            if piece.end {
                self.read.entry(stream.0).or_default().push((now, std::mem::take(partial)));
            }
        }
    }
}

pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) nodes: [Node; 2],
    flying: BTreeMap<(Time, u64), Datagram>,
    count: u64,
    pub(crate) latency: Duration,
    /// Of a thousand packets.
    pub(crate) loss: u64,
    pub(crate) reordering: u64,
    pub(crate) edit: Option<Edit>,
    pub(crate) inject: Option<Inject>,
    /// All sent packets: time, sender, bytes.
    pub(crate) log: Vec<(Time, usize, Vec<u8>)>,
    dice: u64,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node as u8 + 1], 9_899))
}

impl Pair {
    /// The client connects; nothing was sent yet.
    pub(crate) fn new(settings: [Option<Settings>; 2], config: &Config, seed: u64) -> Self {
        let [client, server] = settings;
        let mut nodes = [Node::new(seed as u8 | 1, client), Node::new(seed as u8 & !1, server)];
        let listening = nodes[SERVER].config(config);
        nodes[SERVER].endpoint.set_addresses(vec![address(SERVER)], Announce::Always);
        nodes[SERVER].endpoint.listen(PORT, listening).unwrap();
        let connect = Connect {
            local: vec![address(CLIENT)],
            config: nodes[CLIENT].config(config),
            ..Connect::to([address(SERVER)], PORT)
        };
        nodes[CLIENT].id = Some(nodes[CLIENT].endpoint.connect(Time::ZERO, connect).unwrap());
        Self {
            now: Time::ZERO,
            nodes,
            flying: BTreeMap::new(),
            count: 0,
            latency: Duration::from_millis(10),
            loss: 0,
            reordering: 0,
            edit: None,
            inject: None,
            log: Vec::new(),
            dice: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    pub(crate) fn protected(identity: &Identity) -> Self {
        Self::new(identity.settings().map(Some), &config(), 1)
    }

    pub(crate) fn send(&mut self, node: usize, stream: u16, message: impl Into<Bytes>) {
        self.nodes[node].outbox.push_back((stream, message.into()));
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % sides
    }

    fn carry(&mut self, from: usize, mut datagram: Datagram) {
        self.log.push((self.now, from, datagram.payload.to_vec()));
        let before = self.nodes[from].sent;
        self.nodes[from].sent += 1;
        if let Some(inject) = &mut self.inject {
            for payload in inject(from, &datagram.payload) {
                let late = Duration::from_micros(self.roll(30_000));
                self.inject(late, Datagram { payload: payload.into(), ..datagram.clone() });
            }
        }
        if let Some(edit) = &mut self.edit {
            let Some(edited) = edit(from, before, datagram.payload.to_vec()) else { return };
            datagram.payload = edited.into();
        }
        if self.roll(1_000) < self.loss {
            return;
        }
        let late = if self.roll(1_000) < self.reordering { self.latency } else { Duration::ZERO };
        self.inject(late, datagram);
    }

    fn inject(&mut self, late: Duration, datagram: Datagram) {
        self.count += 1;
        self.flying.insert((self.now + self.latency + late, self.count), datagram);
    }

    /// Runs for this time.
    pub(crate) fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        loop {
            let mut next = until;
            for from in [CLIENT, SERVER] {
                loop {
                    self.nodes[from].work(self.now);
                    match self.nodes[from].endpoint.poll(self.now) {
                        Output::Send(transmit) => {
                            let size = transmit.segment_size.unwrap_or(transmit.payload.len());
                            for packet in transmit.payload.chunks(size) {
                                let payload = Bytes::copy_from_slice(packet);
                                let (from_address, to) = (transmit.from, transmit.to);
                                let datagram =
                                    Datagram { from: from_address, to, ecn: transmit.ecn, payload };
                                self.carry(from, datagram);
                            }
                        }
                        Output::Event((id, event)) => self.nodes[from].on_event(self.now, id, event),
                        Output::Wait(wait) => {
                            let wake = self.nodes[from].wake;
                            next = [wait, wake].into_iter().flatten().fold(next, Time::min);
                            break;
                        }
                    }
                }
            }
            next = self.flying.first_key_value().map_or(next, |((at, _), _)| next.min(*at));
            if next >= until {
                self.now = until;
                return;
            }
            self.now = next;
            while let Some(entry) = self.flying.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let datagram = entry.remove();
                let to = if datagram.to == address(SERVER) { SERVER } else { CLIENT };
                self.nodes[to].endpoint.handle(self.now, datagram);
            }
        }
    }

    pub(crate) fn read(&self, node: usize, stream: u16) -> Vec<Vec<u8>> {
        let read = self.nodes[node].read.get(&stream);
        read.into_iter().flatten().map(|(_, message)| message.clone()).collect()
    }
}

/// Bytes by which messages can be distinguished.
pub(crate) fn pattern(seed: u64, len: usize) -> Bytes {
    (0..len as u64).map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(77) ^ (at >> 8)) as u8).collect()
}

/// The packet with the checksum that it has to have.
pub(crate) fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[8..12].fill(0);
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &packet) as u32;
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}
