//! A transcript of the packets between two hosts in readable form: the second paper's Figures 3 to 5 are
//! such sequences.

use std::collections::BTreeMap;
use std::fmt;

use braidftp_base::{Datagram, Time};
use braidftp_ftp::mapping::frame::CREDIT_LENGTH;
use braidftp_ftp::mapping::{DATA_PORT, ppid};

use super::bundle;
use super::tap::{Purpose, sctp, tcp, word16, word32};
use crate::topology::host_of;
use crate::world::{Seen, Sight};

/// The offset of the payload protocol identifier in a DATA chunk (RFC 9260 §3.3.1).
const PPID_AT: usize = 12;

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pdu {
    /// When it was sent.
    pub sent: Time,
    /// When it arrived; `None` if it was lost.
    pub arrived: Option<Time>,
    /// Its sender.
    pub from: End,
    /// Its connection.
    pub over: Over,
    /// Its purpose.
    pub purpose: Purpose,
    /// The number of its first byte or chunk with data, and the number of bytes of data.
    pub data: Option<(u32, usize)>,
    /// Its contents in words.
    pub says: String,
}

/// A side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// The connection of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The connection or association of the whole session.
    Session,
    /// One that was opened for a transfer.
    Transfer,
}

impl fmt::Display for Pdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.from {
            End::Client => "C>",
            End::Server => "  <S",
        };
        let over = match self.over {
            Over::Session => "",
            Over::Transfer => "(data) ",
        };
        let lost = if self.arrived.is_none() { " LOST" } else { "" };
        write!(f, "{who:<4} {over}{}{lost}", self.says)
    }
}

/// The packets of a record, in the order of sending; `server` is the number of the server's host in each network.
pub(super) fn transcript(record: &[Seen], server: u8) -> Vec<Pdu> {
    let mut pdus: Vec<Pdu> = Vec::new();
    // Packets in transit, by the address of their bytes: links pass bytes on without copying.
    let mut under_way: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for Seen { at, what, datagram } in record {
        let key = (datagram.payload.as_ptr() as usize, datagram.payload.len());
        match what {
            Sight::Sent => {
                under_way.entry(key).or_default().push(pdus.len());
                pdus.push(read(*at, datagram, server));
            }
            Sight::Arrived => {
                let first = under_way.get_mut(&key).filter(|waiting| !waiting.is_empty());
                if let Some(waiting) = first {
                    pdus[waiting.remove(0)].arrived = Some(*at);
                }
            }
        }
    }
    pdus
}

fn read(sent: Time, datagram: &Datagram, server: u8) -> Pdu {
    let from = if host_of(datagram.from.ip()) == Some(server) { End::Server } else { End::Client };
    let packet = &datagram.payload[..];
    let mut pdu = Pdu {
        sent,
        arrived: None,
        from,
        over: Over::Session,
        purpose: Purpose::Other,
        data: None,
        says: "?".into(),
    };
    if packet.len() < sctp::HEADER {
        return pdu;
    }
    let ports = (word16(packet, 0), word16(packet, 2));
    if ports.0 == DATA_PORT || ports.1 == DATA_PORT {
        pdu.over = Over::Transfer;
    }
    if datagram.from.port() == 0 {
        read_sctp(&mut pdu, packet, ports)
    } else {
        read_tcp(&mut pdu, packet, ports)
    }
    pdu
}

fn read_sctp(pdu: &mut Pdu, packet: &[u8], ports: (u16, u16)) {
    let mut parts = Vec::new();
    for chunk in sctp::chunks(packet) {
        pdu.purpose = pdu.purpose.min(sctp::purpose(ports, &chunk));
        parts.push(match chunk.kind {
            _ if chunk.is_data() => {
                let bytes = chunk.user_bytes();
                let (first, so_far) = pdu.data.unwrap_or((chunk.tsn(), 0));
                pdu.data = Some((first, so_far + bytes));
                let kind = word32(chunk.bytes, PPID_AT);
                let what = match (kind, bytes) {
                    (ppid::CREDIT, CREDIT_LENGTH) => "CREDIT".to_owned(),
                    (ppid::WHOLE | ppid::FIRST, _) if chunk.begins() => format!("header, {bytes} bytes"),
                    (ppid::WHOLE | ppid::LAST, _) if chunk.ends() => format!("{bytes} bytes, digest"),
                    _ => match sctp::purpose(ports, &chunk) {
                        Purpose::Control => lines(chunk.user_data()),
                        _ => format!("{bytes} bytes"),
                    },
                };
                format!("DATA {}: {what}", chunk.stream())
            }
            1 => "INIT".into(),
            2 => "INIT ACK".into(),
            3 => "SACK".into(),
            4 => "HEARTBEAT".into(),
            5 => "HEARTBEAT ACK".into(),
            6 => "ABORT".into(),
            7 => "SHUTDOWN".into(),
            8 => "SHUTDOWN ACK".into(),
            9 => "ERROR".into(),
            10 => "COOKIE ECHO".into(),
            11 => "COOKIE ACK".into(),
            14 => "SHUTDOWN COMPLETE".into(),
            other => format!("chunk {other}"),
        });
    }
    pdu.says = parts.join(" + ");
}

fn read_tcp(pdu: &mut Pdu, segment: &[u8], ports: (u16, u16)) {
    if segment.len() < tcp::HEADER {
        return;
    }
    let bytes = tcp::user_bytes(segment);
    let flags = segment[tcp::FLAGS];
    let mut parts: Vec<String> = Vec::new();
    let names = [(tcp::SYN, "SYN"), (tcp::FIN, "FIN"), (tcp::RST, "RST")];
    let opens_or_closes = names.iter().any(|(flag, _)| flags & flag != 0);
    parts.extend(names.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| (*name).to_owned()));
    pdu.purpose = match (bytes, opens_or_closes) {
        (0, true) => Purpose::Setup,
        (0, false) => Purpose::Ack,
        _ => tcp::purpose(ports, super::tap::Shared::No),
    };
    if flags & tcp::ACK != 0 && bytes == 0 {
        parts.push("ACK".into());
    }
    if bytes > 0 {
        pdu.data = Some((word32(segment, 4), bytes));
        let is_bundle = ports.0 >= bundle::PORT && ports.1 >= bundle::PORT;
        parts.push(match pdu.purpose {
            Purpose::Control if !is_bundle => lines(&segment[segment.len() - bytes..]),
            _ => format!("{bytes} bytes"),
        });
    }
    pdu.says = parts.join(" ");
}

/// Lines, joined.
fn lines(bytes: &[u8]) -> String {
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines: Vec<_> =
        lines.filter(|line| !line.is_empty()).map(|line| line.escape_ascii().to_string()).collect();
    lines.join(" / ")
}
