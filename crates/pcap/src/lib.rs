//! Writes packets as a pcapng file that Wireshark opens.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use braidftp_base::{Ecn, Time};

/// Raw IP, version 4 or 6 by its first nibble.
const LINKTYPE_RAW: u16 = 101;
/// What an IP length field can say.
const IP_LENGTH_MAX: usize = 65_535;
/// A comment longer than this is cut.
const COMMENT_MAX: usize = 1_000;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_SCTP: u8 = 132;
const HOP_LIMIT: u8 = 64;

/// Writes packets as they come.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// [`Time::ZERO`] on the file's clock, since 1970.
    epoch: Duration,
    /// The block under construction; kept for its room.
    block: Vec<u8>,
}

/// What was seen where, and when.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// When.
    pub at: Time,
    /// As seen from where the file is written.
    pub direction: Direction,
    /// What carries the payload.
    pub carrier: Carrier,
    /// The sender, with its UDP port if the carrier is UDP.
    pub from: SocketAddr,
    /// The receiver, likewise.
    pub to: SocketAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// What the carrier carries: one packet, or several of `segment_size` back to back.
    pub payload: &'a [u8],
    /// If the payload is several packets: the size of each but the last, in bytes.
    pub segment_size: Option<usize>,
    /// A remark that Wireshark shows beside the packet; empty for none.
    pub comment: &'a str,
}

/// Which way a packet went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It came in.
    In,
    /// It went out.
    Out,
    /// It neither came nor went: it passed by, or was dropped.
    Unknown,
}

/// What carries a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// UDP.
    Udp,
    /// IP itself, as protocol 132: the payload is an SCTP packet.
    Sctp,
    /// IP itself, as protocol 6: the payload is a TCP segment. Its checksum is written anew if it is 0, for a network
    /// that needs none.
    Tcp,
}

impl<W: Write> Writer<W> {
    /// Begins a file. `epoch` is what [`Time::ZERO`] is since 1970; zero for a virtual clock.
    pub fn new(out: W, epoch: Duration) -> io::Result<Self> {
        let mut writer = Self { out, epoch, block: Vec::new() };
        writer.section_header()?;
        writer.interface_description()?;
        Ok(writer)
    }

    /// Writes one packet, or each of several back to back.
    pub fn write(&mut self, packet: Packet<'_>) -> io::Result<()> {
        match packet.segment_size {
            Some(size) if size > 0 && size < packet.payload.len() => {
                packet.payload.chunks(size).try_for_each(|payload| self.write_one(&packet, payload))
            }
            _ => self.write_one(&packet, packet.payload),
        }
    }

    /// Writes a packet that has its IP header already.
    pub fn write_ip(
        &mut self,
        at: Time,
        direction: Direction,
        packet: &[u8],
        comment: &str,
    ) -> io::Result<()> {
        self.begin(6);
        self.packet_head(at, packet.len(), packet.len());
        self.block.extend_from_slice(packet);
        self.packet_tail(direction, comment);
        self.end()
    }

    /// Hands everything written so far to the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The file.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn write_one(&mut self, packet: &Packet<'_>, payload: &[u8]) -> io::Result<()> {
        let (from, to) = same_family(packet.from.ip().to_canonical(), packet.to.ip().to_canonical());
        let ip_header = if from.is_ipv4() { 20 } else { 40 };
        let udp_header = if packet.carrier == Carrier::Udp { 8 } else { 0 };
        let kept = &payload[..payload.len().min(IP_LENGTH_MAX - ip_header - udp_header)];
        let headers = ip_header + udp_header;

        self.begin(6);
        self.packet_head(packet.at, headers + kept.len(), headers + payload.len());
        let start = self.block.len();
        let (protocol, body) = match packet.carrier {
            Carrier::Udp => (PROTOCOL_UDP, 8 + kept.len()),
            Carrier::Sctp => (PROTOCOL_SCTP, kept.len()),
            Carrier::Tcp => (PROTOCOL_TCP, kept.len()),
        };
        self.ip_header(from, to, packet.ecn, protocol, body);
        let body_start = self.block.len();
        if packet.carrier == Carrier::Udp {
            self.block.extend_from_slice(&packet.from.port().to_be_bytes());
            self.block.extend_from_slice(&packet.to.port().to_be_bytes());
            self.block.extend_from_slice(&(body as u16).to_be_bytes());
            self.block.extend_from_slice(&[0, 0]);
        }
        self.block.extend_from_slice(kept);
        if packet.carrier == Carrier::Udp {
            // 0 would mean that there is none.
            let checksum = match transport_checksum(from, to, PROTOCOL_UDP, &self.block[body_start..]) {
                0 => 0xffff,
                checksum => checksum,
            };
            self.block[body_start + 6..body_start + 8].copy_from_slice(&checksum.to_be_bytes());
        }
        if packet.carrier == Carrier::Tcp && kept.get(16..18) == Some(&[0, 0]) && kept.len() == payload.len()
        {
            let checksum = transport_checksum(from, to, PROTOCOL_TCP, &self.block[body_start..]);
            self.block[body_start + 16..body_start + 18].copy_from_slice(&checksum.to_be_bytes());
        }
        debug_assert_eq!(self.block.len() - start, headers + kept.len());
        self.packet_tail(packet.direction, packet.comment);
        self.end()
    }

    fn ip_header(&mut self, from: IpAddr, to: IpAddr, ecn: Ecn, protocol: u8, body: usize) {
        let ecn = match ecn {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        };
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let start = self.block.len();
                self.block.extend_from_slice(&[0x45, ecn]);
                self.block.extend_from_slice(&((20 + body) as u16).to_be_bytes());
                self.block.extend_from_slice(&[0, 0, 0x40, 0, HOP_LIMIT, protocol, 0, 0]);
                self.block.extend_from_slice(&from.octets());
                self.block.extend_from_slice(&to.octets());
                let checksum = fold(sum(0, &self.block[start..]));
                self.block[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            (from, to) => {
                self.block.extend_from_slice(&[0x60, ecn << 4, 0, 0]);
                self.block.extend_from_slice(&(body as u16).to_be_bytes());
                self.block.extend_from_slice(&[protocol, HOP_LIMIT]);
                self.block.extend_from_slice(&as_v6(from).octets());
                self.block.extend_from_slice(&as_v6(to).octets());
            }
        }
    }

    fn section_header(&mut self) -> io::Result<()> {
        self.begin(0x0a0d_0d0a);
        self.u32(0x1a2b_3c4d); // byte order
        self.block.extend_from_slice(&[1, 0, 0, 0]); // version 1.0
        self.block.extend_from_slice(&[0xff; 8]); // length not known
        self.option(4, b"braidftp");
        self.option(0, &[]);
        self.end()
    }

    fn interface_description(&mut self) -> io::Result<()> {
        self.begin(1);
        self.block.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        self.block.extend_from_slice(&[0, 0]);
        self.u32(0); // no snap length
        self.option(9, &[9]); // if_tsresol: nanoseconds
        self.option(0, &[]);
        self.end()
    }

    fn packet_head(&mut self, at: Time, kept: usize, original: usize) {
        let nanos = self.epoch.as_nanos() as u64 + at.as_nanos();
        self.u32(0); // the interface
        self.u32((nanos >> 32) as u32);
        self.u32(nanos as u32);
        self.u32(kept as u32);
        self.u32(original as u32);
    }

    fn packet_tail(&mut self, direction: Direction, comment: &str) {
        self.pad();
        let flags: u32 = match direction {
            Direction::Unknown => 0,
            Direction::In => 1,
            Direction::Out => 2,
        };
        self.option(2, &flags.to_le_bytes());
        if !comment.is_empty() {
            self.option(1, &comment.as_bytes()[..comment.floor_char_boundary(COMMENT_MAX)]);
        }
        self.option(0, &[]);
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0);
    }

    fn end(&mut self) -> io::Result<()> {
        let length = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.u32(length);
        self.out.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }
}

/// Both as they are, or both as IPv6: a packet has one IP version.
fn same_family(from: IpAddr, to: IpAddr) -> (IpAddr, IpAddr) {
    if from.is_ipv4() == to.is_ipv4() { (from, to) } else { (as_v6(from).into(), as_v6(to).into()) }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// RFC 768, RFC 9293 §3.1 and RFC 8200 §8.1: over a pseudo header and the datagram or segment, whose own checksum is
/// still zero.
fn transport_checksum(from: IpAddr, to: IpAddr, protocol: u8, body: &[u8]) -> u16 {
    let mut total = sum(0, body) + u64::from(protocol) + body.len() as u64;
    for address in [from, to] {
        total = match address {
            IpAddr::V4(v4) => sum(total, &v4.octets()),
            IpAddr::V6(v6) => sum(total, &v6.octets()),
        };
    }
    fold(total)
}

/// RFC 1071: the sum of 16-bit words.
fn sum(start: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let total = words.iter().fold(start, |total, word| total + u64::from(u16::from_be_bytes(*word)));
    total + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet<'a>(from: &str, to: &str, payload: &'a [u8]) -> Packet<'a> {
        Packet {
            at: Time::from_micros(1_500_001),
            direction: Direction::Out,
            carrier: Carrier::Udp,
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            ecn: Ecn::Ect0,
            payload,
            segment_size: None,
            comment: "",
        }
    }

    /// The packets in a file: timestamp, bytes kept, original length. Panics unless every block is sound.
    fn packets(file: &[u8]) -> Vec<(u64, Vec<u8>, u32)> {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let mut out = Vec::new();
        let mut at = 0;
        while at < file.len() {
            let length = word(at + 4) as usize;
            assert!(length.is_multiple_of(4) && word(at + length - 4) as usize == length, "block at {at}");
            if word(at) == 6 {
                let kept = word(at + 20) as usize;
                let time = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
                out.push((time, file[at + 28..at + 28 + kept].to_vec(), word(at + 24)));
            }
            at += length;
        }
        out
    }

    fn written(packet: Packet<'_>) -> Vec<(u64, Vec<u8>, u32)> {
        let mut writer = Writer::new(Vec::new(), Duration::from_secs(10)).unwrap();
        writer.write(packet).unwrap();
        packets(&writer.into_inner())
    }

    #[test]
    fn an_ipv4_datagram_has_the_headers_that_a_wire_would_show() {
        let file = written(packet("10.0.0.1:9899", "10.0.0.2:40000", b"abc"));
        let expected: &[u8] = &[
            0x45, 0x02, 0, 31, 0, 0, 0x40, 0, 64, 17, 0x26, 0xca, 10, 0, 0, 1, 10, 0, 0, 2, // IP
            0x26, 0xab, 0x9c, 0x40, 0, 11, 0x64, 0x87, // UDP
            b'a', b'b', b'c',
        ];
        assert_eq!(file, [(11_500_001_000, expected.to_vec(), 31)]);
    }

    #[test]
    fn several_packets_back_to_back_are_shown_one_by_one() {
        let file = written(Packet { segment_size: Some(4), ..packet("[::1]:1", "[::1]:2", b"abcdefghij") });
        let payloads: Vec<_> = file.iter().map(|(_, bytes, _)| &bytes[48..]).collect();
        assert_eq!(payloads, [&b"abcd"[..], b"efgh", b"ij"]);
    }

    #[test]
    fn over_ip_there_is_no_udp_header() {
        let file = written(Packet { carrier: Carrier::Sctp, ..packet("10.0.0.1:0", "10.0.0.2:0", b"abcd") });
        assert_eq!(file[0].1[9], PROTOCOL_SCTP);
        assert_eq!(&file[0].1[20..], b"abcd");
    }

    #[test]
    fn a_tcp_segment_keeps_its_checksum_and_gets_one_if_it_has_none() {
        let mut segment = [7; 24];
        let written = |segment: &[u8]| {
            let tcp = Packet { carrier: Carrier::Tcp, ..packet("10.0.0.1:21", "10.0.0.2:40000", segment) };
            written(tcp)[0].1.clone()
        };
        assert_eq!(written(&segment)[20..], segment);
        segment[16..18].fill(0);
        let file = written(&segment);
        assert_eq!(file[9], PROTOCOL_TCP);
        assert_eq!(fold(sum(0, &file[12..]) + u64::from(PROTOCOL_TCP) + 24), 0);
    }

    #[test]
    fn mixed_families_become_ipv6() {
        let file = written(packet("[::ffff:10.0.0.1]:1", "[2001:db8::1]:2", b"x"));
        assert_eq!(file[0].1[0], 0x60);
        let file = written(packet("[::ffff:10.0.0.1]:1", "10.0.0.2:2", b"x"));
        assert_eq!(file[0].1[0], 0x45, "a mapped address is an IPv4 address");
    }

    #[test]
    fn what_ip_cannot_carry_is_cut_and_said_to_be() {
        let file = written(packet("10.0.0.1:1", "10.0.0.2:2", &[0; 70_000]));
        assert_eq!((file[0].1.len(), file[0].2), (65_535, 70_028));
    }

    #[test]
    fn a_udp_checksum_of_zero_is_written_as_all_ones() {
        let checksum = |payload: u16| {
            let file = written(packet("10.0.0.1:9899", "10.0.0.2:40000", &payload.to_be_bytes()));
            u16::from_be_bytes([file[0].1[26], file[0].1[27]])
        };
        // Counting the payload up counts the checksum down, around the end and past zero.
        let first = checksum(0);
        assert_eq!((checksum(first - 1), checksum(first), checksum(first + 1)), (1, 0xffff, 0xfffe));
    }

    proptest! {
        #[test]
        fn any_packet_makes_sound_blocks_and_checksums(
            v6 in any::<bool>(),
            payload in prop::collection::vec(any::<u8>(), 0..200),
            ports in any::<(u16, u16)>(),
            comment in ".{0,40}",
        ) {
            let host = if v6 { "[2001:db8::7]" } else { "192.0.2.7" };
            let (from, to) = (format!("{host}:{}", ports.0), format!("{host}:{}", ports.1));
            let file = written(Packet { comment: &comment, ..packet(&from, &to, &payload) });
            let bytes = &file[0].1;
            let header = if v6 { 40 } else { 20 };
            prop_assert_eq!(&bytes[header + 8..], &payload[..]);
            // A checksum over what includes the checksum comes out as zero.
            let ends = if v6 { sum(0, &bytes[8..40]) } else { sum(0, &bytes[12..20]) };
            let udp = &bytes[header..];
            prop_assert_eq!(fold(ends + sum(0, udp) + 17 + udp.len() as u64), 0);
            prop_assert!(v6 || fold(sum(0, &bytes[..20])) == 0);
        }
    }
}
