//! The attacker's treatment of each packet. It has no keys; it can compute checksums, and reads
//! everything unprotected.

use std::time::Duration;

use braidftp_base::Datagram;
use braidftp_sctp::VerificationTag;
use bytes::Bytes;

use crate::random::Random;

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
/// The Initiate Tag of forged INITs, which no association of the hosts has.
pub(super) const TAG: VerificationTag = VerificationTag(1);
/// Bytes of the common header.
const HEADER: usize = 12;
/// The type of the DTLS Key Management parameter.
const KEY_MANAGEMENT: [u8; 2] = [0x80, 0x06];
/// The number of packets kept for replays.
const REMEMBERED: usize = 200;

/// An attacker that sees and can change all packets between two hosts.
#[derive(Debug)]
pub(super) struct Attacker {
    random: Random,
    /// Whether it does more than observe.
    pub(super) is_here: bool,
    edits_offers: bool,
    /// Observed packets by sender.
    seen: [Vec<Bytes>; 2],
    attacks: u64,
    fault: Option<String>,
}

impl Attacker {
    pub(super) fn new(random: Random, edits_offers: bool) -> Self {
        let seen = [Vec::new(), Vec::new()];
        Self { random, is_here: false, edits_offers, seen, attacks: 0, fault: None }
    }

    /// The number of attacks.
    pub(super) fn attacks(&self) -> u64 {
        self.attacks
    }

    /// The first packet that should not have been sent.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.clone()
    }

    /// A packet was observed that should not have been sent.
    pub(super) fn find(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    fn falls(&mut self, percent: u64) -> bool {
        let falls = self.random.below(100) < percent;
        self.attacks += u64::from(falls);
        falls
    }

    fn pick(&mut self, from: usize) -> Option<Bytes> {
        let packets = &self.seen[from];
        (!packets.is_empty()).then(|| packets[self.random.below(packets.len() as u64) as usize].clone())
    }

    /// Returns the packets to forward in place of this one, with their delays.
    pub(super) fn pass(&mut self, from: usize, datagram: Datagram) -> Vec<(Duration, Datagram)> {
        let packet = datagram.payload.clone();
        if !self.is_here || packet.len() <= HEADER {
            self.remember(from, packet);
            return vec![(Duration::ZERO, datagram)];
        }
        let said = self.injected(from, &packet);
        self.remember(from, packet.clone());
        let mut passed = Vec::new();
        for payload in said {
            let late = Duration::from_micros(self.random.below(30_000));
            let payload = with_checksum(self.with_edited_offer(payload));
            passed.push((late, Datagram { payload, ..datagram.clone() }));
        }
        if self.falls(5) {
            // It is lost.
            return passed;
        }
        let late = if self.falls(10) { self.random.below(60_000) } else { 0 };
        let payload = self.edited(packet);
        passed.push((Duration::from_micros(late), Datagram { payload, ..datagram }));
        passed
    }

    fn remember(&mut self, from: usize, packet: Bytes) {
        let seen = &mut self.seen[from];
        match seen.len() < REMEMBERED {
            true => seen.push(packet),
            false => seen[self.random.below(REMEMBERED as u64) as usize] = packet,
        }
    }

    /// Forged packets of the host that just sent one.
    fn injected(&mut self, from: usize, packet: &[u8]) -> Vec<Vec<u8>> {
        let mut said = Vec::new();
        if self.falls(10) {
            said.push([&packet[..HEADER], &self.forged_chunk()].concat());
        }
        if self.falls(2) {
            // The tag of the other direction, as in an ABORT with the T bit (RFC 9260 §8.5.1).
            if let Some(other) = self.pick(1 - from) {
                let chunk: [u8; 4] = [6, 1, 0, 4];
                said.push([&packet[..4], &other[4..8], &[0; 4], &chunk].concat());
            }
        }
        if self.falls(3) {
            said.push(forged_init(packet));
        }
        if self.falls(10)
            && let Some(again) = self.pick(from)
        {
            said.push(again.to_vec());
        }
        if self.falls(5)
            && let Some(other) = self.pick(from)
        {
            // Chunks of any association, with this one's ports and tag.
            said.push([&packet[..HEADER], &other[HEADER..]].concat());
        }
        if self.falls(3)
            && let Some(other) = self.pick(1 - from)
        {
            // A packet of the other side is reflected to it.
            said.push([&packet[..HEADER], &other[HEADER..]].concat());
        }
        if self.falls(10) {
            said.push(self.flipped(packet));
        }
        if self.falls(3) {
            said.push([packet, &self.forged_chunk()].concat());
        }
        if self.falls(3) {
            let length = HEADER + self.random.below((packet.len() - HEADER) as u64) as usize;
            said.push(packet[..length].to_vec());
        }
        said
    }

    fn flipped(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut flipped = packet.to_vec();
        let bit = self.random.below((flipped.len() - HEADER) as u64 * 8) as usize;
        flipped[HEADER + bit / 8] ^= 1 << (bit % 8);
        flipped
    }

    /// Returns the changed packet.
    fn edited(&mut self, packet: Bytes) -> Bytes {
        if self.edits_offers && is_offer(&packet) {
            return with_checksum(self.with_edited_offer(packet.to_vec()));
        }
        if self.falls(3) {
            return with_checksum(self.flipped(&packet));
        }
        packet
    }

    /// Returns the packet with a modified offer, if offers are modified and it contains one: no copy of
    /// an offer passes unmodified.
    fn with_edited_offer(&mut self, mut packet: Vec<u8>) -> Vec<u8> {
        if self.edits_offers
            && is_offer(&packet)
            && let Some(at) = offer_in(&packet)
        {
            self.attacks += 1;
            self.edit_offer(&mut packet, at);
        }
        packet
    }

    /// Removes a parameter, changes it, or changes its type to an unknown one that is skipped.
    fn edit_offer(&mut self, packet: &mut Vec<u8>, at: usize) {
        let length = usize::from(u16::from_be_bytes([packet[at + 2], packet[at + 3]]));
        match self.random.below(3) {
            0 => {
                packet.drain(at..(at + length.next_multiple_of(4)).min(packet.len()));
                let length = (packet.len() - HEADER) as u16;
                packet[HEADER + 2..HEADER + 4].copy_from_slice(&length.to_be_bytes());
            }
            1 => {
                let bit = self.random.below((length as u64 - 4) * 8) as usize;
                packet[at + 4 + bit / 8] ^= 1 << (bit % 8);
            }
            _ => packet[at + 1] = 0x07,
        }
    }

    /// Returns a chunk with an effect.
    fn forged_chunk(&mut self) -> Vec<u8> {
        let tsn = (self.random.below(1 << 32) as u32).to_be_bytes();
        let with_tsn = |head: &[u8], tail: &[u8]| [head, &tsn, tail].concat();
        match self.random.below(12) {
            0 => b"\x06\x00\x00\x04".to_vec(),                     // ABORT
            1 => b"\x06\x00\x00\x0c\x00\x0c\x00\x08bye!".to_vec(), // ABORT, with a cause
            2 => with_tsn(b"\x07\x00\x00\x08", b""),               // SHUTDOWN
            3 => b"\x08\x00\x00\x04".to_vec(),                     // SHUTDOWN ACK
            4 => b"\x0e\x00\x00\x04".to_vec(),                     // SHUTDOWN COMPLETE
            5 => with_tsn(b"\x03\x00\x00\x10", b"\xff\xff\xff\xff\x00\x00\x00\x00"), // SACK
            6 => b"\x09\x00\x00\x0c\x00\x03\x00\x08\x00\x00\x00\x01".to_vec(), // ERROR, stale cookie
            7 => b"\x0a\x00\x00\x08cook".to_vec(),                 // COOKIE ECHO
            8 => b"\x04\x00\x00\x0c\x00\x01\x00\x08beat".to_vec(), // HEARTBEAT
            9 => with_tsn(b"\xc0\x00\x00\x08", b""),               // FORWARD TSN
            10 => with_tsn(b"\xc1\x00\x00\x10", b"\x00\x05\x00\x08\x0a\x00\x00\x63"), // ASCONF
            _ => with_tsn(b"\x00\x03\x00\x14", b"\x00\x01\x00\x00\x00\x00\x00\x00evil"), // DATA
        }
    }
}

/// Whether this is an INIT or INIT ACK.
fn is_offer(packet: &[u8]) -> bool {
    packet.get(HEADER).is_some_and(|kind| [INIT, INIT_ACK].contains(kind))
}

/// The offset of the DTLS Key Management parameter in an INIT or INIT ACK, if there is one.
fn offer_in(packet: &[u8]) -> Option<usize> {
    // Parameters follow the fixed fields of the chunk (RFC 9260 §3.3.2).
    let mut at = HEADER + 20;
    while at + 4 < packet.len() {
        let length = usize::from(u16::from_be_bytes([packet[at + 2], packet[at + 3]]));
        if packet[at..at + 2] == KEY_MANAGEMENT && length > 4 && at + length <= packet.len() {
            return Some(at);
        }
        at += length.next_multiple_of(4).max(4);
    }
    None
}

/// An INIT with the source of this packet.
fn forged_init(packet: &[u8]) -> Vec<u8> {
    let rest = b"\x00\x01\x00\x00\x00\x0a\x00\x0a\x00\x00\x00\x01";
    [&packet[..4], &[0; 8], b"\x01\x00\x00\x14", &TAG.0.to_be_bytes(), rest].concat()
}

/// Sets the checksum of a packet.
fn with_checksum(mut packet: Vec<u8>) -> Bytes {
    packet[8..12].fill(0);
    let checksum = crc_fast::crc32_iscsi(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet.into()
}
