//! Counts the packets that a host sends, by purpose and by whether they are retransmissions.

use std::collections::BTreeMap;

use braidftp_base::Datagram;
use braidftp_ftp::mapping::{CONTROL_PORT, CONTROL_STREAM, DATA_PORT};

use super::bundle;

/// Packets and their bytes, including IP headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// The traffic of one side by purpose. A packet with several purposes counts for the first of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets with bytes of files or listings.
    pub data: Count,
    /// Packets with commands or replies.
    pub control: Count,
    /// Packets that open or close a connection.
    pub setup: Count,
    /// Pure acknowledgements.
    pub acks: Count,
    /// HEARTBEATs and other packets.
    pub other: Count,
    /// Retransmitted bytes of user data, of data and control.
    pub resent_bytes: u64,
    /// Retransmitted packets that open or close a connection.
    pub resent_setup: u64,
}

/// The purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Bytes of files or listings.
    Data,
    /// Commands or replies.
    Control,
    /// Opens or closes a connection.
    Setup,
    /// Acknowledgements.
    Ack,
    /// Anything else.
    Other,
}

impl Traffic {
    /// The total.
    pub fn total(&self) -> Count {
        let parts = [self.data, self.control, self.setup, self.acks, self.other];
        parts.iter().fold(Count::default(), |sum, part| Count {
            packets: sum.packets + part.packets,
            bytes: sum.bytes + part.bytes,
        })
    }

    fn of(&mut self, purpose: Purpose) -> &mut Count {
        match purpose {
            Purpose::Data => &mut self.data,
            Purpose::Control => &mut self.control,
            Purpose::Setup => &mut self.setup,
            Purpose::Ack => &mut self.acks,
            Purpose::Other => &mut self.other,
        }
    }
}

/// Whether commands and files share a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    /// They use separate connections.
    No,
    /// They do: packets of the server count as data, those of the client as control.
    Yes,
}

/// Inspects the packets that a host sends.
#[derive(Debug)]
pub(super) struct Tap {
    shared: Shared,
    traffic: Traffic,
    /// By the ports of a connection.
    flows: BTreeMap<(u16, u16), Flow>,
}

#[derive(Debug, Default)]
struct Flow {
    /// The peer's tag, which distinguishes an association from an earlier one with the same ports.
    tag: u32,
    /// The highest TSN sent.
    highest: Option<u32>,
    /// Chunks sent to open or close it, by type.
    setup: u32,
}

impl Tap {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared, traffic: Traffic::default(), flows: BTreeMap::new() }
    }

    /// Returns the traffic since the last start.
    pub(super) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Starts counting.
    pub(super) fn start(&mut self) {
        self.traffic = Traffic::default();
    }

    /// A packet is sent. Returns its purpose.
    pub(super) fn see(&mut self, datagram: &Datagram, overhead: usize) -> Purpose {
        let bytes = (datagram.payload.len() + overhead) as u64;
        let is_tcp = datagram.from.port() != 0;
        let purpose = if is_tcp { self.tcp(&datagram.payload) } else { self.sctp(&datagram.payload) };
        let count = self.traffic.of(purpose);
        count.packets += 1;
        count.bytes += bytes;
        purpose
    }

    fn tcp(&mut self, segment: &[u8]) -> Purpose {
        if segment.len() < tcp::HEADER {
            return Purpose::Other;
        }
        let ports = (word16(segment, 0), word16(segment, 2));
        let (seq, bytes) = (word32(segment, 4), tcp::user_bytes(segment));
        let flags = segment[tcp::FLAGS];
        let flow = self.flows.entry(ports).or_default();
        if flags & tcp::SYN != 0 && flow.setup & u32::from(tcp::FIN) != 0 {
            *flow = Flow::default(); // the ports were used before
        }
        let setup = u32::from(flags & (tcp::SYN | tcp::FIN));
        self.traffic.resent_setup += u64::from(setup != 0 && flow.setup & setup != 0);
        flow.setup |= setup;
        if bytes == 0 {
            let ends = flags & (tcp::SYN | tcp::FIN | tcp::RST) != 0;
            return if ends { Purpose::Setup } else { Purpose::Ack };
        }
        let end = seq.wrapping_add(bytes as u32);
        let new = flow.highest.map_or(bytes as u32, |highest| {
            let ahead = end.wrapping_sub(highest);
            if (ahead as i32) < 0 { 0 } else { ahead.min(bytes as u32) }
        });
        self.traffic.resent_bytes += bytes as u64 - u64::from(new);
        if new > 0 {
            flow.highest = Some(end);
        }
        tcp::purpose(ports, self.shared)
    }

    fn sctp(&mut self, packet: &[u8]) -> Purpose {
        let mut purpose = Purpose::Other;
        if packet.len() < sctp::HEADER {
            return purpose;
        }
        let ports = (word16(packet, 0), word16(packet, 2));
        let tag = word32(packet, 4);
        let flow = self.flows.entry(ports).or_default();
        if tag != 0 && flow.tag != tag {
            *flow = Flow { tag, setup: if flow.tag == 0 { flow.setup } else { 0 }, highest: None };
        }
        for chunk in sctp::chunks(packet) {
            let here = sctp::purpose(ports, &chunk);
            match here {
                Purpose::Data | Purpose::Control => {
                    let before =
                        flow.highest.is_some_and(|highest| highest.wrapping_sub(chunk.tsn()) as i32 >= 0);
                    if before {
                        self.traffic.resent_bytes += chunk.user_bytes() as u64;
                    } else {
                        flow.highest = Some(chunk.tsn());
                    }
                }
                Purpose::Setup => {
                    let bit = 1 << (chunk.kind & 31);
                    if flow.setup & bit != 0 {
                        self.traffic.resent_setup += 1;
                    }
                    flow.setup |= bit;
                }
                Purpose::Ack | Purpose::Other => {}
            }
            purpose = purpose.min(here);
        }
        purpose
    }
}

/// The parts of TCP segments that determine their purpose (RFC 9293 §3.1).
pub(super) mod tcp {
    use super::*;

    pub(crate) const HEADER: usize = 20;
    pub(crate) const FLAGS: usize = 13;
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const ACK: u8 = 16;

    /// Bytes of data in a segment.
    pub(crate) fn user_bytes(segment: &[u8]) -> usize {
        segment.len().saturating_sub(usize::from(segment[12] >> 4) * 4)
    }

    /// The purpose of its data.
    pub(crate) fn purpose((from, to): (u16, u16), shared: Shared) -> Purpose {
        let is = |port| from == port || to == port;
        let lines = is(CONTROL_PORT) || (is(bundle::PORT) && (shared == Shared::No || to == bundle::PORT));
        if lines { Purpose::Control } else { Purpose::Data }
    }
}

/// The parts of SCTP packets that determine their purpose (RFC 9260 §3).
pub(super) mod sctp {
    use super::*;

    pub(crate) const HEADER: usize = 12;

    /// A chunk including its header.
    pub(crate) struct Chunk<'a> {
        pub(crate) kind: u8,
        pub(crate) bytes: &'a [u8],
    }

    impl Chunk<'_> {
        pub(crate) fn is_data(&self) -> bool {
            matches!(self.kind, 0 | 64) && self.bytes.len() > self.head()
        }

        /// Whether a message begins with this chunk of data.
        pub(crate) fn begins(&self) -> bool {
            self.bytes[1] & 2 != 0
        }

        /// Whether a message ends with this chunk of data.
        pub(crate) fn ends(&self) -> bool {
            self.bytes[1] & 1 != 0
        }

        fn head(&self) -> usize {
            if self.kind == 64 { 20 } else { 16 }
        }

        pub(crate) fn tsn(&self) -> u32 {
            word32(self.bytes, 4)
        }

        pub(crate) fn stream(&self) -> u16 {
            word16(self.bytes, 8)
        }

        pub(crate) fn user_bytes(&self) -> usize {
            self.bytes.len() - self.head()
        }

        pub(crate) fn user_data(&self) -> &[u8] {
            &self.bytes[self.head()..]
        }
    }

    /// The complete chunks of a packet.
    pub(crate) fn chunks(packet: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
        let mut rest = packet.get(HEADER..).unwrap_or_default();
        std::iter::from_fn(move || {
            let length = usize::from(word16(rest.get(..4)?, 2));
            let bytes = rest.get(..length).filter(|bytes| bytes.len() >= 4)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some(Chunk { kind: bytes[0], bytes })
        })
    }

    /// The purpose of a chunk. Stream 0 of an association carries lines, except on the data port.
    pub(crate) fn purpose((from, to): (u16, u16), chunk: &Chunk<'_>) -> Purpose {
        match chunk.kind {
            _ if chunk.is_data() => {
                let lines = chunk.stream() == CONTROL_STREAM && from != DATA_PORT && to != DATA_PORT;
                if lines { Purpose::Control } else { Purpose::Data }
            }
            // INIT, INIT ACK, ABORT, SHUTDOWN, SHUTDOWN ACK, COOKIE ECHO, COOKIE ACK, SHUTDOWN COMPLETE
            1 | 2 | 6 | 7 | 8 | 10 | 11 | 14 => Purpose::Setup,
            // SACK, NR-SACK
            3 | 16 => Purpose::Ack,
            _ => Purpose::Other,
        }
    }
}

pub(super) fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
