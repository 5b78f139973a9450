//! Writes packets as a pcapng file that Wireshark opens.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use braidftp_base::{Ecn, Time};

/// The largest value of an IP length field.
const LINKTYPE_RAW: u16 = 101;
/// The longest comment in bytes; a longer one is cut.
const IP_LENGTH_MAX: usize = 65_535;
/// A comment longer than this is cut.
const COMMENT_MAX: usize = 1_000;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_SCTP: u8 = 132;
const HOP_LIMIT: u8 = 64;

/// Writes packets to a pcapng file, one block per packet.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The time since 1970 at [`Time::ZERO`].
    epoch: Duration,
    /// The block under construction; kept to reuse its allocation.
    block: Vec<u8>,
}

/// A packet, or several back to back, and when and where it was captured.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The capture time.
    pub at: Time,
    /// The direction, as seen from the capturing side.
    pub direction: Direction,
    /// The protocol below the payload.
    pub carrier: Carrier,
    /// The source address, with the UDP port if the carrier is UDP.
    pub from: SocketAddr,
    /// The destination address, with the UDP port if the carrier is UDP.
    pub to: SocketAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The payload of the carrier: one packet, or several packets of `segment_size` back to back.
    pub payload: &'a [u8],
    /// If the payload holds several packets: the size of each but the last, in bytes.
    pub segment_size: Option<usize>,
    /// A comment that Wireshark shows beside the packet; empty for none.
    pub comment: &'a str,
}

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
    /// Neither received nor sent here: forwarded, or dropped.
    Unknown,
}

/// The protocol below the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// UDP.
    Udp,
    /// IP protocol 132: the payload is an SCTP packet.
    Sctp,
    /// IP protocol 6: the payload is a TCP segment. A checksum of 0 is replaced by the right one, for
    /// simulated networks that need none.
    Tcp,
}

impl<W: Write> Writer<W> {
    /// Begins a file. `epoch` is the time since 1970 at [`Time::ZERO`]; zero for a virtual clock.
    pub fn new(out: W, epoch: Duration) -> io::Result<Self> {
        let mut writer = Self { out, epoch, block: Vec::new() };
        writer.section_header()?;
        writer.interface_description()?;
        Ok(writer)
    }

    /// Writes one packet, or each of several packets back to back.
    pub fn write(&mut self, packet: Packet<'_>) -> io::Result<()> {
        match packet.segment_size {
            Some(size) if size > 0 && size < packet.payload.len() => {
                packet.payload.chunks(size).try_for_each(|payload| self.write_one(&packet, payload))
            }
            _ => self.write_one(&packet, packet.payload),
        }
    }

    /// Writes a packet that already has its IP header.
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

    /// Flushes the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns the underlying writer.
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
            // A UDP checksum of 0 means "no checksum".
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

/// Returns both addresses unchanged if they are of one family, else both as IPv6: a packet has one IP version.
fn same_family(from: IpAddr, to: IpAddr) -> (IpAddr, IpAddr) {
    if from.is_ipv4() == to.is_ipv4() { (from, to) } else { (as_v6(from).into(), as_v6(to).into()) }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The checksum over a pseudo header and the datagram or segment, whose checksum field is still zero (RFC 768,
/// RFC 9293 §3.1, RFC 8200 §8.1).
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

    /// The packets in a file: timestamp, bytes kept, original length. Panics if a block is malformed.
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
    fn an_ipv4_datagram_gets_ip_and_udp_headers() {
        let file = written(packet("10.0.0.1:9899", "10.0.0.2:40000", b"abc"));
        let expected: &[u8] = &[
            0x45, 0x02, 0, 31, 0, 0, 0x40, 0, 64, 17, 0x26, 0xca, 10, 0, 0, 1, 10, 0, 0, 2, // IP
            0x26, 0xab, 0x9c, 0x40, 0, 11, 0x64, 0x87, // UDP
            b'a', b'b', b'c',
        ];
        assert_eq!(file, [(11_500_001_000, expected.to_vec(), 31)]);
    }

    #[test]
    fn a_segmented_payload_is_written_as_separate_packets() {
        let file = written(Packet { segment_size: Some(4), ..packet("[::1]:1", "[::1]:2", b"abcdefghij") });
        let payloads: Vec<_> = file.iter().map(|(_, bytes, _)| &bytes[48..]).collect();
        assert_eq!(payloads, [&b"abcd"[..], b"efgh", b"ij"]);
    }

    #[test]
    fn sctp_over_ip_gets_no_udp_header() {
        let file = written(Packet { carrier: Carrier::Sctp, ..packet("10.0.0.1:0", "10.0.0.2:0", b"abcd") });
        assert_eq!(file[0].1[9], PROTOCOL_SCTP);
        assert_eq!(&file[0].1[20..], b"abcd");
    }

    #[test]
    fn a_tcp_segment_keeps_its_checksum_and_a_missing_one_is_computed() {
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
    fn addresses_of_mixed_families_are_written_as_ipv6() {
        let file = written(packet("[::ffff:10.0.0.1]:1", "[2001:db8::1]:2", b"x"));
        assert_eq!(file[0].1[0], 0x60);
        let file = written(packet("[::ffff:10.0.0.1]:1", "10.0.0.2:2", b"x"));
        assert_eq!(file[0].1[0], 0x45, "a mapped address is an IPv4 address");
    }

    #[test]
    fn a_payload_larger_than_ip_allows_is_truncated_and_its_original_length_recorded() {
        let file = written(packet("10.0.0.1:1", "10.0.0.2:2", &[0; 70_000]));
        assert_eq!((file[0].1.len(), file[0].2), (65_535, 70_028));
    }

    #[test]
    fn a_udp_checksum_of_zero_is_written_as_all_ones() {
        let checksum = |payload: u16| {
            let file = written(packet("10.0.0.1:9899", "10.0.0.2:40000", &payload.to_be_bytes()));
            u16::from_be_bytes([file[0].1[26], file[0].1[27]])
        };
        // Each increment of the payload decrements the checksum, modulo 0xffff.
        let first = checksum(0);
        assert_eq!((checksum(first - 1), checksum(first), checksum(first + 1)), (1, 0xffff, 0xfffe));
    }

    proptest! {
        #[test]
        fn any_packet_yields_valid_blocks_and_checksums(
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
            // The checksum over data that includes its own checksum is zero.
            let ends = if v6 { sum(0, &bytes[8..40]) } else { sum(0, &bytes[12..20]) };
            let udp = &bytes[header..];
            prop_assert_eq!(fold(ends + sum(0, udp) + 17 + udp.len() as u64), 0);
            prop_assert!(v6 || fold(sum(0, &bytes[..20])) == 0);
        }
    }
}
