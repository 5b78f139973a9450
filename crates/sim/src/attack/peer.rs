//! One raw association of an attacker, with valid tags and checksums.
//!
//! It keeps the state that makes its packets valid (tags, TSNs, the cookie), and retransmits only
//! packets of the handshake and its commands.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_ftp::mapping::{TransferNumber, frame, ppid};
use braidftp_keys::Method;
use braidftp_sctp::dtls::{FIRST_EPOCH, KEY_MANAGEMENT_PPID};
use braidftp_sctp::packet_builder::PacketBuilder;
use braidftp_sctp::wire::{Chunk, Data, Header, Init, KeyManagement, Packet, Parameter, Sack};
use braidftp_sctp::{Ppid, Ssn, StreamId, Tsn, VerificationTag};
use bytes::Bytes;

use super::hello::client_hello;
use super::{Answers, Attack, Behaviour, PORT_MIN, UPLOAD_PACKET_BYTES};

/// The retransmission interval of handshake packets and commands.
const REPEATED_AFTER: Duration = Duration::from_millis(500);
/// The receive window of a peer that accepts data.
const WINDOW: u32 = 1 << 20;
/// The receive window of a peer that accepts a packet at a time.
const NARROW: u32 = 1_500;
/// The interval at which such a peer accepts a packet.
const TAKES_EVERY: Duration = Duration::from_secs(1);
/// One-byte messages per packet.
const LINES_IN_PACKET: u32 = 60;
/// The maximum number of them sent beyond the acknowledged ones.
const LINES_AHEAD: u32 = 600;
/// The maximum number of upload packets sent beyond the acknowledged ones.
const UPLOADS_AHEAD: u32 = 16;
/// The stream that the server does not read.
const UNREAD: StreamId = StreamId(1);

/// Its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Asks,
    Echoes(Bytes),
    Up,
    Over,
}

/// One association of an attacker.
#[derive(Debug)]
pub(super) struct Peer {
    ports: (u16, u16),
    /// The number of associations at a time, each with its own port.
    crowd: u16,
    own_tag: VerificationTag,
    tag: VerificationTag,
    stage: Stage,
    /// When it last sent a packet that may have to be retransmitted.
    said_at: Option<Time>,
    first_tsn: Tsn,
    next_tsn: Tsn,
    /// The number of packets sent.
    said: u32,
    /// Its commands, each a message on stream 0; this many are acknowledged.
    commands: Vec<Bytes>,
    acked: Tsn,
    /// The cumulative TSN of the victim's DATA.
    cum_tsn: Tsn,
    answers: Answers,
    persists: bool,
    streams: u16,
    took_at: Time,
    /// Bytes of DATA accepted.
    taken: u64,
    builder: PacketBuilder,
}

impl Peer {
    /// Creates an association from `port` that begins with `commands`.
    pub(super) fn new(
        port: u16,
        victim: u16,
        (tag, tsn): (u32, u32),
        commands: Vec<Bytes>,
        attack: &Attack,
    ) -> Self {
        Self {
            ports: (port, victim),
            crowd: attack.associations,
            own_tag: VerificationTag(tag.max(1)),
            tag: VerificationTag(0),
            stage: Stage::Asks,
            said_at: None,
            first_tsn: Tsn(tsn),
            next_tsn: Tsn(tsn),
            said: 0,
            commands,
            acked: Tsn(tsn).minus(1),
            cum_tsn: Tsn(0),
            answers: attack.answers,
            persists: attack.persists,
            streams: attack.streams,
            took_at: Time::ZERO,
            taken: 0,
            builder: PacketBuilder::new(),
        }
    }

    /// Returns the ports, which identify it.
    pub(super) fn port(&self) -> u16 {
        self.ports.0
    }

    /// Whether the victim has ended the association.
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether it is established and its commands are acknowledged.
    pub(super) fn is_active(&self) -> bool {
        self.stage == Stage::Up && !self.last_command().after(self.acked)
    }

    /// Bytes of uploads that the victim has acknowledged.
    pub(super) fn uploaded(&self) -> u64 {
        let packets = self.is_active().then(|| self.acked.distance_from(self.last_command()));
        u64::from(packets.unwrap_or(0)) * UPLOAD_PACKET_BYTES as u64
    }

    /// Bytes of the victim's data that were accepted.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    fn last_command(&self) -> Tsn {
        self.first_tsn.plus(self.commands.len() as u32).minus(1)
    }

    fn packet(&mut self, tag: VerificationTag, chunks: &[Chunk]) -> Bytes {
        let header = Header { source_port: self.ports.0, destination_port: self.ports.1, tag };
        self.builder.begin(header, PacketBuilder::MAX_BYTES);
        chunks.iter().for_each(|chunk| self.builder.push(chunk));
        self.builder.seal();
        self.builder.finish().expect("a packet was sealed").payload
    }

    fn window(&self) -> u32 {
        match self.answers {
            Answers::All | Answers::Nothing => WINDOW,
            Answers::ZeroWindow => 0,
            Answers::Slowly => NARROW,
            Answers::Until(bytes) if self.taken >= bytes => 0,
            Answers::Until(_) => WINDOW,
        }
    }

    /// Starts another association from the same port.
    fn begin_anew(&mut self) {
        self.own_tag = VerificationTag(self.own_tag.0.wrapping_add(0x9e37_79b9).max(1));
        self.acked = self.first_tsn.minus(1);
        (self.stage, self.said, self.said_at) = (Stage::Asks, 0, None);
    }

    /// Starts another association from the next of its ports, without an end of the one before.
    fn fall_silent(&mut self) {
        let ports = (u16::MAX - PORT_MIN) / self.crowd * self.crowd;
        self.ports.0 = PORT_MIN + (self.ports.0 - PORT_MIN + self.crowd) % ports;
        self.begin_anew();
    }

    /// Processes a packet from the victim; returns the response.
    pub(super) fn handle(&mut self, now: Time, packet: &Packet) -> Option<Bytes> {
        if packet.header.tag != self.own_tag {
            return None;
        }
        let mut answers = Vec::new();
        let mut has_data = false;
        for chunk in packet.chunks().map_while(Result::ok) {
            match chunk {
                Chunk::InitAck(ack) if self.stage == Stage::Asks => {
                    self.tag = ack.initiate_tag;
                    self.cum_tsn = ack.initial_tsn.minus(1);
                    self.stage = Stage::Echoes(ack.state_cookie().cloned().unwrap_or_default());
                    self.said_at = None;
                }
                Chunk::CookieAck if matches!(self.stage, Stage::Echoes(_)) => {
                    self.stage = Stage::Up;
                    self.said_at = None;
                }
                Chunk::Sack(sack) if sack.cum_tsn_ack.after(self.acked) => self.acked = sack.cum_tsn_ack,
                Chunk::Heartbeat(info) => answers.push(Chunk::HeartbeatAck(info)),
                Chunk::Data(data) => {
                    has_data = true;
                    let takes = match self.answers {
                        Answers::All => true,
                        Answers::Nothing | Answers::ZeroWindow => false,
                        Answers::Slowly => now.since(self.took_at) >= TAKES_EVERY,
                        Answers::Until(bytes) => self.taken < bytes,
                    };
                    if takes && data.tsn == self.cum_tsn.next() {
                        self.cum_tsn = data.tsn;
                        self.taken += data.payload.len() as u64;
                        self.took_at = now;
                    }
                }
                Chunk::Abort { .. } | Chunk::ShutdownComplete { .. } => self.stage = Stage::Over,
                _ => {}
            }
        }
        if has_data && self.answers != Answers::Nothing {
            answers.push(Chunk::Sack(Sack {
                cum_tsn_ack: self.cum_tsn,
                a_rwnd: self.window(),
                ..Sack::default()
            }));
        }
        (!answers.is_empty() && !self.is_over()).then(|| self.packet(self.tag, &answers))
    }

    /// Returns its next packet, if it has one.
    pub(super) fn speak(&mut self, now: Time, says: Behaviour) -> Option<Bytes> {
        let repeats = self.said_at.is_none_or(|at| now.since(at) >= REPEATED_AFTER);
        match self.stage.clone() {
            Stage::Over if self.persists && (repeats || says == Behaviour::Hellos) => {
                self.begin_anew();
                None
            }
            Stage::Over if says == Behaviour::SilentHellos => {
                self.fall_silent();
                None
            }
            Stage::Over => None,
            Stage::Asks | Stage::Echoes(_) if !repeats => None,
            Stage::Asks => {
                self.said_at = Some(now);
                let init = Init {
                    initiate_tag: self.own_tag,
                    a_rwnd: WINDOW.min(self.window().max(NARROW)),
                    outbound_streams: self.streams,
                    inbound_streams: self.streams,
                    initial_tsn: self.first_tsn,
                    parameters: if says.is_hellos() { vec![offer()] } else { Vec::new() },
                };
                Some(self.packet(VerificationTag(0), &[Chunk::Init(init)]))
            }
            Stage::Echoes(cookie) => {
                self.said_at = Some(now);
                Some(self.packet(self.tag, &[Chunk::CookieEcho(cookie)]))
            }
            Stage::Up if !self.is_active() => repeats.then(|| self.command(now)),
            Stage::Up => match says {
                Behaviour::Uploads { packets } => self.upload(now, packets),
                Behaviour::SilentHellos if self.said > 0 => {
                    self.fall_silent();
                    None
                }
                Behaviour::Hellos | Behaviour::SilentHellos => Some(self.hello()),
                says => self.attack(says),
            },
        }
    }

    /// The first command that is not acknowledged, so that each takes effect before the next.
    fn command(&mut self, now: Time) -> Bytes {
        self.said_at = Some(now);
        let nth = self.acked.next().distance_from(self.first_tsn);
        let mut chunks: Vec<Chunk> = Vec::new();
        for (at, line) in self.commands.iter().enumerate().skip(nth as usize) {
            let ssn = Ssn(at as u16);
            chunks.push(Chunk::Data(self.line(self.first_tsn.plus(at as u32), ssn, line.clone())));
        }
        self.next_tsn = self.first_tsn.plus(self.commands.len() as u32);
        self.packet(self.tag, &chunks)
    }

    /// Command lines as a message.
    fn line(&self, tsn: Tsn, ssn: Ssn, payload: Bytes) -> Data {
        let ppid = Ppid(if self.streams > 2 { ppid::LINES } else { ppid::PLAIN });
        Data { ssn, ppid, ..whole(tsn, StreamId(0), payload) }
    }

    /// The next packet of empty lines; lost ones are sent again.
    fn empty_lines(&mut self) -> Bytes {
        let before = self.commands.len() as u32;
        let acked = self.acked.next().distance_from(self.first_tsn.plus(before));
        if self.said >= acked + LINES_AHEAD {
            self.said = acked;
        }
        let nths = before + self.said..before + self.said + LINES_IN_PACKET;
        self.said += LINES_IN_PACKET;
        let line = |nth: u32| {
            Chunk::Data(self.line(self.first_tsn.plus(nth), Ssn(nth as u16), Bytes::from_static(b"\n")))
        };
        let chunks: Vec<Chunk> = nths.map(line).collect();
        self.packet(self.tag, &chunks)
    }

    /// The next packet of its uploads, `packets` on each data stream. Unacknowledged ones are sent
    /// again.
    fn upload(&mut self, now: Time, packets: u32) -> Option<Bytes> {
        let acked = self.acked.distance_from(self.last_command());
        if self.said >= acked + UPLOADS_AHEAD {
            if now.since(self.said_at.unwrap_or(now)) < REPEATED_AFTER {
                return None;
            }
            self.said = acked;
        }
        self.said = self.said.max(acked);
        let streams = u32::from(self.streams - 1);
        let (turn, stream) = (self.said / streams, (self.said % streams + 1) as u16);
        if turn > packets {
            return None;
        }
        let tsn = self.last_command().plus(self.said + 1);
        let header = frame::Header {
            transfer: TransferNumber(u32::from(stream)),
            offset: 0,
            size: None,
            modified: None,
        };
        let (kind, payload) = match turn {
            0 => (ppid::FIRST, header.encode()),
            _ => (ppid::BYTES, Bytes::from_static(&[0x5a; UPLOAD_PACKET_BYTES])),
        };
        let ssn = Ssn(turn as u16);
        let data = Data { ssn, ppid: Ppid(kind), ..whole(tsn, StreamId(stream), payload) };
        (self.said, self.said_at) = (self.said + 1, Some(now));
        Some(self.packet(self.tag, &[Chunk::Data(data)]))
    }

    /// A ClientHello; then the end of the association, and the next one.
    fn hello(&mut self) -> Bytes {
        if self.said > 0 {
            let tag = self.tag;
            self.begin_anew();
            return self.packet(tag, &[Chunk::Abort { reflected: false, causes: Vec::new() }]);
        }
        self.said = 1;
        let message = [&[FIRST_EPOCH as u8][..], &client_hello()].concat();
        let data = whole(self.first_tsn, StreamId(0), message.into());
        self.packet(self.tag, &[Chunk::Data(Data { ppid: Ppid(KEY_MANAGEMENT_PPID), ..data })])
    }

    fn attack(&mut self, says: Behaviour) -> Option<Bytes> {
        if says == Behaviour::Lines {
            return Some(self.empty_lines());
        }
        let nth = self.said;
        self.said += 1;
        let mut tsn = self.first_tsn.plus(self.commands.len() as u32).plus(nth);
        let ssn = Ssn(nth as u16);
        let payload = |bytes: usize| Bytes::from(vec![0x5a; bytes]);
        let (data, datagram_bytes) = match says {
            Behaviour::Nothing
            | Behaviour::Lines
            | Behaviour::Hellos
            | Behaviour::SilentHellos
            | Behaviour::Uploads { .. } => {
                return None;
            }
            Behaviour::Unread { payload_bytes, datagram_bytes } => {
                (Data { ssn, ..whole(tsn, UNREAD, payload(payload_bytes)) }, datagram_bytes)
            }
            // One TSN is missing forever. The TSNs in the range of gap blocks are sent again and again.
            Behaviour::Gap { payload_bytes, datagram_bytes } => {
                tsn = self.first_tsn.plus(self.commands.len() as u32 + 1 + nth % 60_000);
                (Data { ssn, ..whole(tsn, UNREAD, payload(payload_bytes)) }, datagram_bytes)
            }
            Behaviour::Holes => {
                tsn = self.first_tsn.plus(self.commands.len() as u32 + 1 + 2 * (nth % 30_000));
                (Data { ssn, ..whole(tsn, UNREAD, payload(1)) }, 0)
            }
            Behaviour::Fragments { payload_bytes } => {
                let (begin, end, ssn) = (nth == 0, false, Ssn(0));
                (Data { begin, end, ssn, ..whole(tsn, UNREAD, payload(payload_bytes)) }, 0)
            }
        };
        let mut chunks = vec![Chunk::Data(data)];
        let bytes = Header::LEN + chunks[0].padded_len();
        if let Some(pad) = datagram_bytes.checked_sub(bytes + Chunk::HEADER_LEN) {
            chunks.push(Chunk::Pad(pad as u16));
        }
        Some(self.packet(self.tag, &chunks))
    }
}

/// The key management parameter of a client of protected associations.
fn offer() -> Parameter {
    let methods = Bytes::from(Method::ALL.map(Method::identifier).to_vec());
    Parameter::KeyManagement(KeyManagement { tie_breaker: 1, flags: KeyManagement::CLIENT, methods })
}

/// A complete message.
pub(super) fn whole(tsn: Tsn, stream: StreamId, payload: Bytes) -> Data {
    Data {
        begin: true,
        end: true,
        unordered: false,
        immediate: false,
        tsn,
        stream,
        ssn: Ssn(0),
        interleaved: None,
        ppid: Ppid(0),
        payload,
    }
}
