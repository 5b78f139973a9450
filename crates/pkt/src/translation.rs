//! Translation between the numbers of a script and those that the stack chose: verification tags, TSNs and
//! ports.
//!
//! As in packetdrill, the script's numbers in the stack's INIT or INIT ACK stand for the actual ones. The
//! stack's TSNs are translated from there on, and so are the serial numbers of its requests, which begin
//! with its first TSN (RFC 6525 §4.1, RFC 5061 §4.1.1). The peer's numbers are used as the script writes
//! them.

use crate::auth::Authenticator;
use crate::pattern::{self, Pattern, Prepared};
use crate::script::{Content, Crc, PacketSpec};

/// The length of the common header in bytes.
const HEADER_LEN: usize = 12;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
/// Offsets of the tag and the first TSN in INIT and INIT ACK.
const TAG_AT: usize = 4;
const TSN_AT: usize = 16;
const INIT_LEN: usize = 20;

/// The numbers of one handshake: ours as they are and as the script writes them, and the peer's.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    live_tag: u32,
    script_tag: u32,
    live_tsn: u32,
    script_tsn: u32,
}

/// The translation for one association.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    local: Numbers,
    /// Those of an INIT ACK whose cookie has not been echoed yet. If it is, the association restarts.
    offered: Option<(Numbers, u32)>,
    remote_tag: u32,
    /// The tag in the most recent INIT.
    init_tag: u32,
    pub(crate) prepared: Prepared,
    pub(crate) auth: Authenticator,
    /// The SCTP ports, the stack's and the peer's.
    pub(crate) ports: (u16, u16),
}

impl Translation {
    /// A new socket opens an association: the numbers it will choose are unknown.
    pub(crate) fn reset(&mut self, ports: (u16, u16)) {
        *self = Self { ports, ..Self::default() };
    }

    /// Returns the packet to inject, with common header and checksum.
    pub(crate) fn encode(&mut self, packet: &PacketSpec, patterns: &[Pattern]) -> Vec<u8> {
        let gives_cookie_back = patterns.iter().any(|pattern| pattern.kind() == Some(10));
        if gives_cookie_back && let Some((numbers, remote_tag)) = self.offered.take() {
            (self.local, self.remote_tag) = (numbers, remote_tag);
        }
        let (source, destination) = packet.ports.unwrap_or((self.ports.1, self.ports.0));
        let (source, destination) = (source.to_be_bytes(), destination.to_be_bytes());
        let mut bytes = [source, destination].concat();
        bytes.resize(HEADER_LEN, 0);
        let mut auth_at = None;
        match &packet.content {
            Content::Bytes(given) => bytes.extend_from_slice(given),
            // An ICMP message is not an SCTP packet.
            Content::Icmp(_) => {}
            Content::Chunks(_) => {
                for pattern in patterns {
                    if pattern.is_open_auth() {
                        auth_at = Some(bytes.len());
                    }
                    pattern.encode(&self.prepared, &mut bytes);
                }
            }
        }
        let (mut reflected, mut opens) = (false, false);
        let shift = self.local.live_tsn.wrapping_sub(self.local.script_tsn);
        let mut at = HEADER_LEN;
        while let Some(len) = chunk_len(&bytes[at..]) {
            let end = at + len;
            let chunk = &mut bytes[at..end];
            if matches!((chunk[0], chunk.len()), (INIT | INIT_ACK, INIT_LEN..)) {
                self.auth.on_peer_parameters(&chunk[INIT_LEN..]);
            }
            match (chunk[0], chunk.len()) {
                (INIT, INIT_LEN..) => {
                    opens = true;
                    self.init_tag = u32_at(chunk, TAG_AT);
                    if self.remote_tag == 0 {
                        self.remote_tag = self.init_tag;
                    }
                }
                (INIT_ACK, INIT_LEN..) if self.remote_tag == 0 => self.remote_tag = u32_at(chunk, TAG_AT),
                // SACK and NR-SACK acknowledge TSNs of the stack, and so do their duplicate TSNs.
                (kind @ (3 | 16), 16..) => {
                    add(chunk, 4, shift);
                    let count = |index: usize| usize::from(u16_at(chunk, 12 + 2 * index));
                    let (blocks, dups) = match kind {
                        3 => (16 + 4 * count(0), count(1)),
                        _ if chunk.len() < 20 => (0, 0),
                        _ => (20 + 4 * (count(0) + count(1)), count(2)),
                    };
                    if chunk.len() == blocks + 4 * dups {
                        (0..dups).for_each(|dup| add(chunk, blocks + 4 * dup, shift));
                    }
                }
                // SHUTDOWN, ECNE, ASCONF ACK.
                (7 | 12 | 0x80, 8..) => add(chunk, 4, shift),
                (130, _) => shift_requests(&mut chunk[4..], shift, Origin::Peer),
                (6 | 14, _) => reflected |= chunk[1] & 1 != 0,
                _ => {}
            }
            at = end.next_multiple_of(4).min(bytes.len());
        }
        if let Some(at) = auth_at {
            self.auth.sign(&mut bytes, at);
        }
        let tag = match packet.tag {
            Some(0) => 0,
            // As far from the correct tag as the script says.
            Some(tag) if reflected => self.remote_tag.wrapping_add(tag.wrapping_sub(self.remote_tag)).max(1),
            Some(tag) => self.local.live_tag.wrapping_add(tag.wrapping_sub(self.local.script_tag)).max(1),
            None if opens => 0,
            None if reflected => self.remote_tag,
            None => self.local.live_tag,
        };
        bytes[4..8].copy_from_slice(&tag.to_be_bytes());
        let crc = crc_fast::crc32_iscsi(&bytes);
        let crc = match packet.crc {
            Crc::Right => crc,
            Crc::Wrong => !crc,
            Crc::Zero => 0,
        };
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Translates a packet that the stack sent into the script's numbers; `patterns` is what the script
    /// expects.
    pub(crate) fn translate(&mut self, sent: &[u8], patterns: &[Pattern]) -> Vec<u8> {
        let mut bytes = sent.to_vec();
        let mut at = HEADER_LEN;
        let mut patterns = patterns.iter();
        while let Some(len) = chunk_len(&bytes[at..]) {
            let pattern = patterns.next();
            let chunk = &mut bytes[at..at + len];
            match (chunk[0], chunk.len()) {
                (kind @ (INIT | INIT_ACK), INIT_LEN..) => {
                    self.auth.on_stack_parameters(&chunk[INIT_LEN..]);
                    let (live_tag, live_tsn) = (u32_at(chunk, TAG_AT), u32_at(chunk, TSN_AT));
                    let said = |name: &str| match pattern {
                        Some(pattern) if pattern.kind() == Some(kind) => {
                            pattern.number(name).map(|said| said as u32)
                        }
                        _ => None,
                    };
                    let numbers = Numbers {
                        live_tag,
                        script_tag: said("tag").unwrap_or(live_tag),
                        live_tsn,
                        script_tsn: said("tsn").unwrap_or(live_tsn),
                    };
                    let mut told = self.local;
                    if self.local.live_tag == 0 || (kind == INIT && self.local.live_tag != live_tag) {
                        self.local = numbers;
                        self.ports = (u16_at(sent, 0), u16_at(sent, 2));
                        told = numbers;
                    } else if kind == INIT_ACK && self.local.live_tag != live_tag {
                        self.offered = Some((numbers, self.init_tag));
                        told = numbers;
                    }
                    if told.live_tag == live_tag {
                        chunk[TAG_AT..TAG_AT + 4].copy_from_slice(&told.script_tag.to_be_bytes());
                        add(chunk, TSN_AT, told.script_tsn.wrapping_sub(told.live_tsn));
                    }
                    if kind == INIT_ACK {
                        self.prepared.cookie = cookie(&bytes[at + INIT_LEN..at + len]);
                    }
                }
                // DATA, I-DATA, FORWARD TSN, I-FORWARD-TSN, CWR, ASCONF.
                (0 | 64 | 192 | 194 | 13 | 0xc1, 8..) => add(chunk, 4, self.to_script()),
                (130, _) => {
                    let shift = self.to_script();
                    shift_requests(&mut chunk[4..], shift, Origin::Stack);
                }
                (4, _) => self.prepared.heartbeat = Some(chunk[4..].to_vec()),
                _ => {}
            }
            at = (at + len).next_multiple_of(4).min(bytes.len());
        }
        bytes[8..12].fill(0);
        let crc = crc_fast::crc32_iscsi(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The offset from the stack's TSNs to the script's.
    fn to_script(&self) -> u32 {
        self.local.script_tsn.wrapping_sub(self.local.live_tsn)
    }

    /// The tag that a packet of the stack must carry, if it is known: the peer's, or the stack's own if it is
    /// reflected.
    pub(crate) fn remote_tag(&self) -> u32 {
        self.remote_tag
    }
}

/// The sender of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Stack,
    Peer,
}

/// Shifts the stack's serial numbers in the parameters of a RE-CONFIG chunk (RFC 6525 §4).
fn shift_requests(mut rest: &mut [u8], shift: u32, origin: Origin) {
    while rest.len() >= 4 {
        let (kind, len) = (u16_at(rest, 0), usize::from(u16_at(rest, 2)));
        if len < 4 || len > rest.len() {
            return;
        }
        // The offsets of the sender's numbers, and of the receiver's.
        let (own, other): (&[usize], &[usize]) = match kind {
            13 => (&[4, 12], &[8]),
            14 | 15 | 17 | 18 => (&[4], &[]),
            16 => (&[12], &[4, 16]),
            _ => (&[], &[]),
        };
        let places = if origin == Origin::Stack { own } else { other };
        for place in places.iter().filter(|place| **place + 4 <= len) {
            add(&mut rest[..len], *place, shift);
        }
        let end = len.next_multiple_of(4).min(rest.len());
        rest = &mut rest[end..];
    }
}

/// The length of the first chunk in `bytes`, if there is one.
fn chunk_len(bytes: &[u8]) -> Option<usize> {
    pattern::chunks(bytes).next().map(<[u8]>::len)
}

/// The state cookie among parameters.
fn cookie(mut rest: &[u8]) -> Option<Vec<u8>> {
    while rest.len() >= 4 {
        let (kind, len) = (u16_at(rest, 0), usize::from(u16_at(rest, 2)));
        if len < 4 || len > rest.len() {
            return None;
        }
        if kind == 7 {
            return Some(rest[4..len].to_vec());
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn add(bytes: &mut [u8], at: usize, shift: u32) {
    let sum = u32_at(bytes, at).wrapping_add(shift);
    bytes[at..at + 4].copy_from_slice(&sum.to_be_bytes());
}
