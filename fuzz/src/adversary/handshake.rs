//! Attacks on the handshake: chunks that reach the client before COOKIE ACK, reported numbers of INITs that were never sent,
//! clock errors between INIT ACK and COOKIE ECHO, and floods of one COOKIE ECHO.

use std::time::Duration;

use arbitrary::Arbitrary;
use braidftp_base::{Datagram, Time};
use braidftp_sctp::{Association, AssociationId, PathStats};

use super::{Client, PORTS, Server, Side, Table, Tampering, chunks};
use crate::{HEADER_LEN, datagram, fix_checksum, sealed};

/// Chunk types.
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const COOKIE_ECHO: u8 = 10;
/// The type of the parameter that reports an unrecognized parameter.
const UNRECOGNIZED: u16 = 8;
/// The type of the parameter that numbers a repeated INIT.
const INIT_NUMBER: u16 = 0xFFA5;
/// Minimum time before the first flight is retransmitted.
const REPAIR_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Packets that time-outs and probes may add to those that a flood causes.
const PACKETS_BESIDE: usize = 32;

/// An attack.
#[derive(Debug, Arbitrary)]
pub(super) enum Trick {
    /// The client receives a chunk with the right tag.
    Early(Early),
    /// A delayed INIT ACK is delivered. It reports these numbers of INITs, each with this many excess bytes.
    Report { numbers: Vec<u32>, excess: u8, at_top: bool },
    /// A delayed INIT is delivered to the server while the server's clock is wrong by this many milliseconds.
    Skew(i32),
    /// A recorded COOKIE ECHO is delivered `count` times, at this interval in milliseconds.
    Flood { which: u16, count: u8, gap_ms: u8 },
}

/// A chunk that a server sends once it is up, or in answer to a COOKIE ECHO.
#[derive(Debug, Arbitrary)]
pub(super) enum Early {
    /// DATA with a TSN this far beyond the first.
    Data {
        beyond: u8,
        flags: u8,
        bytes: u16,
    },
    /// SACK with a cumulative TSN ack this far beyond the last TSN before the first.
    Sack {
        beyond: u8,
        a_rwnd: u32,
    },
    StaleCookie(u32),
    Abort {
        reflected: bool,
    },
    CookieAck,
    Shutdown,
}

impl Table {
    pub(super) fn play_trick(&mut self, trick: &Trick) {
        match *trick {
            Trick::Early(ref early) => self.send_early(early),
            Trick::Report { ref numbers, excess, at_top } => {
                let Some((from, packet)) = self.take_first(Server, INIT_ACK) else { return };
                let numbers = numbers.iter().take(64);
                let more = numbers.flat_map(|number| report(*number, excess.into(), at_top)).collect();
                // The numbers only affect RTT samples, and must not prevent delivery.
                self.deliver(from, Datagram { payload: lengthened(&packet.payload, more).into(), ..packet });
            }
            Trick::Skew(ms) => {
                let Some((_, packet)) = self.take_first(Client, INIT) else { return };
                let off = Duration::from_millis(u64::from(ms.unsigned_abs()) % 8_000_000);
                let back = Time::from_nanos(self.now.since(Time::ZERO).saturating_sub(off).as_nanos() as u64);
                let now = if ms < 0 { back } else { self.now + off };
                self.delivered += 1;
                self.hosts[Server as usize].endpoint.handle(now, packet);
            }
            Trick::Flood { which, count, gap_ms } => {
                let echoes = self.seen.iter().filter(|(from, it)| *from == Client && kind(it) == Some(COOKIE_ECHO));
                let count_seen = echoes.clone().count().max(1);
                let Some((from, echo)) = echoes.clone().nth(usize::from(which) % count_seen).cloned() else {
                    return;
                };
                self.flood(from, &echo, count % 64, Duration::from_millis((gap_ms % 32).into()));
            }
        }
    }

    /// Takes the first delayed packet of a side that begins with a chunk of this type.
    fn take_first(&mut self, by: Side, first: u8) -> Option<(Side, Datagram)> {
        let index = self.held.iter().position(|(from, it)| *from == by && kind(it) == Some(first))?;
        self.held.remove(index)
    }

    fn send_early(&mut self, early: &Early) {
        let [own, its] = [Client, Server].map(|side| self.initial_tsn(side));
        let (Some(own), Some(its)) = (own, its) else { return };
        let chunk = match *early {
            Early::Data { beyond, flags, bytes } => {
                let mut rest = its.wrapping_add(beyond.into()).to_be_bytes().to_vec();
                rest.extend([0; 8]);
                rest.resize(rest.len() + usize::from(bytes % 9_000), 0xda);
                chunk(0, flags, &rest)
            }
            Early::Sack { beyond, a_rwnd } => {
                let cum = own.wrapping_sub(1).wrapping_add(beyond.into());
                chunk(3, 0, &[&cum.to_be_bytes()[..], &a_rwnd.to_be_bytes(), &[0; 4]].concat())
            }
            Early::StaleCookie(by) => chunk(9, 0, &[&[0, 3, 0, 8][..], &by.to_be_bytes()].concat()),
            Early::Abort { reflected } => chunk(6, reflected.into(), &[]),
            Early::CookieAck => chunk(11, 0, &[]),
            Early::Shutdown => chunk(7, 0, &its.wrapping_sub(1).to_be_bytes()),
        };
        let bytes = sealed([PORTS[1], PORTS[0]], self.tags[Server as usize], &chunk);
        self.tampered(Server, &bytes, &[]);
        let (source, target) = (self.connect.peer[0], self.connect.local[0]);
        self.deliver(Server, datagram(source, target, bytes));
    }

    /// The initial TSN in the last INIT or INIT ACK of this side.
    fn initial_tsn(&self, side: Side) -> Option<u32> {
        let first = if side == Client { INIT } else { INIT_ACK };
        let mut packets = self.seen.iter().rev().filter(|(from, it)| *from == side && kind(it) == Some(first));
        let (_, packet) = packets.next()?;
        Some(u32::from_be_bytes(packet.payload.get(HEADER_LEN + 16..HEADER_LEN + 20)?.try_into().ok()?))
    }

    /// Delivers the same COOKIE ECHO repeatedly: in each interval, the server retransmits at most one window.
    fn flood(&mut self, from: Side, echo: &Datagram, count: u8, gap: Duration) {
        self.settle();
        let window = |table: &Self| -> Option<(AssociationId, usize, usize)> {
            let host = &table.hosts[Server as usize];
            let id = host.id?;
            let stats = host.endpoint.association(id).map(Association::stats)?;
            let sum = |of: fn(&PathStats) -> usize| stats.paths.iter().map(of).sum::<usize>();
            Some((id, sum(|path| path.cwnd as usize + path.mtu), sum(|path| path.mtu)))
        };
        let before = window(self);
        let (start, sent) = (self.now, self.data_bytes[Server as usize]);
        for _ in 0..count {
            self.deliver(from, echo.clone());
            self.settle();
            self.now += gap;
        }
        let (Some((id, bytes, mtu)), Some((still, ..))) = (before, window(self)) else { return };
        let sent = self.data_bytes[Server as usize] - sent;
        let intervals = 2 + self.now.since(start).as_nanos() / REPAIR_INTERVAL_MIN.as_nanos();
        let most = intervals as usize * bytes + PACKETS_BESIDE * mtu;
        assert!(id != still || sent <= most, "{count} COOKIE ECHOs brought {sent} bytes of {most}");
    }

    /// Checks the limit for an address that is not verified: one packet for each received one, and none of full length.
    pub(super) fn check_unverified(&mut self, outputs: usize, bytes: usize) {
        const ANSWER_MAX: usize = 1_232;
        let delivered = std::mem::take(&mut self.delivered);
        let server = &mut self.hosts[Server as usize];
        let was_empty = std::mem::replace(&mut server.was_empty, server.endpoint.is_empty());
        // An association that ends sends a last packet.
        if was_empty && server.was_empty && self.tampering == Tampering::No {
            assert!(outputs <= delivered, "{outputs} answers to {delivered} packets");
            assert!(bytes <= delivered * ANSWER_MAX, "{bytes} bytes to {delivered} packets");
        }
    }
}

/// The type of a packet's first chunk.
fn kind(packet: &Datagram) -> Option<u8> {
    chunks(&packet.payload).next().map(|chunk| chunk[0])
}

/// A chunk as bytes, padded.
fn chunk(kind: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
    let length = (4 + rest.len()) as u16;
    let mut bytes = [&[kind, flags][..], &length.to_be_bytes(), rest].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn parameter(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut bytes = [&kind.to_be_bytes()[..], &length.to_be_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The parameter of an INIT ACK that reports the number of an INIT, or the number itself.
fn report(number: u32, excess: usize, at_top: bool) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(4 + excess, 0);
    let own = parameter(INIT_NUMBER, &value);
    if at_top { own } else { parameter(UNRECOGNIZED, &own) }
}

/// A packet of one chunk with additional parameters.
fn lengthened(packet: &[u8], more: Vec<u8>) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(more);
    let length = (bytes.len() - HEADER_LEN) as u16;
    bytes[HEADER_LEN + 2..HEADER_LEN + 4].copy_from_slice(&length.to_be_bytes());
    fix_checksum(&mut bytes);
    bytes
}
