//! A segment on the wire: the header of RFC 9293 §3.1, the supported options (maximum segment size, window
//! scale, SACK permitted, SACK, timestamps), and the data.
//!
//! Encoding computes the checksum of RFC 9293 §3.1, so that a capture looks like one of a real network.
//! Decoding rejects a segment with a wrong checksum, length or data offset. Unknown options are skipped, as
//! the RFC requires. Urgent data is not supported.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};

/// The length of a header without options, in bytes.
pub const HEADER_BYTES: usize = 20;
/// The position of the checksum.
const CHECKSUM_AT: std::ops::Range<usize> = 16..18;
/// The maximum length of the options: the data offset counts at most 15 words.
pub const OPTIONS_BYTES_MAX: usize = 40;
/// SACK blocks that fit a SACK option without timestamps (RFC 2018 §3).
pub const SACK_BLOCKS_MAX: usize = 4;
/// The largest shift of a window scale (RFC 7323 §2.3).
pub const WINDOW_SHIFT_MAX: u8 = 14;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// A sequence number. Sequence numbers wrap, so there is no `<`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// The sequence number `bytes` later.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes as u32))
    }

    /// The distance from `other`: negative if `self` is before `other`.
    pub const fn since(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether this comes before `other`.
    pub const fn before(self, other: Self) -> bool {
        self.since(other) < 0
    }

    /// Whether this comes after `other`.
    pub const fn after(self, other: Self) -> bool {
        self.since(other) > 0
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The control bits (RFC 9293 §3.1), as they stand in the header's 14th byte.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(2);
    /// Reset the connection.
    pub const RST: Self = Self(4);
    /// Push: deliver the buffered data to the user.
    pub const PSH: Self = Self(8);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(16);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(32);
    /// ECN echo (RFC 3168 §6.1).
    pub const ECE: Self = Self(64);
    /// Congestion window reduced (RFC 3168 §6.1).
    pub const CWR: Self = Self(128);

    /// Whether all of `others` are set.
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::FIN, "F"),
            (Self::SYN, "S"),
            (Self::RST, "R"),
            (Self::PSH, "P"),
            (Self::ACK, "."),
            (Self::URG, "U"),
            (Self::ECE, "E"),
            (Self::CWR, "W"),
        ];
        if self.0 == 0 {
            return f.write_str("-");
        }
        letters.iter().filter(|(flag, _)| self.has(*flag)).try_for_each(|(_, letter)| f.write_str(letter))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The timestamps option (RFC 7323 §3.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the latest TSval received from the other side.
    pub echo: u32,
}

/// The blocks of a SACK option (RFC 2018 §3), without an allocation.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); SACK_BLOCKS_MAX],
    count: u8,
}

impl SackBlocks {
    /// Appends a block, from its first number to the one after its last. Returns false if there is no room.
    pub fn push(&mut self, left: Seq, right: Seq) -> bool {
        let Some(free) = self.blocks.get_mut(usize::from(self.count)) else { return false };
        *free = (left, right);
        self.count += 1;
        true
    }

    /// The blocks, the latest first.
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keeps the first `count` blocks.
    pub fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count as u8);
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// The supported options of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size (RFC 9293 §3.7.1), in bytes.
    pub mss: Option<u16>,
    /// Window scale (RFC 7323 §2): the shift.
    pub window_scale: Option<u8>,
    /// Whether SACK is permitted (RFC 2018 §2).
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323 §3).
    pub timestamps: Option<Timestamps>,
    /// SACK (RFC 2018 §3).
    pub sack: SackBlocks,
}

impl Options {
    /// The encoded length in bytes, padding included.
    pub fn wire_bytes(&self) -> usize {
        // The layout of common stacks: in a SYN the options share their padding; later ones are aligned by
        // NOPs.
        let mut bytes = 0;
        bytes += if self.mss.is_some() { 4 } else { 0 };
        bytes += match (self.sack_permitted, self.timestamps.is_some()) {
            (true, true) => 12,
            (true, false) => 4,
            (false, true) => 12,
            (false, false) => 0,
        };
        bytes += if self.window_scale.is_some() { 4 } else { 0 };
        bytes += match self.sack.as_slice().len() {
            0 => 0,
            count => 4 + 8 * count,
        };
        bytes
    }

    fn write(&self, out: &mut BytesMut) {
        if let Some(mss) = self.mss {
            out.put_slice(&[MSS, 4]);
            out.put_u16(mss);
        }
        match (self.sack_permitted, self.timestamps) {
            (true, Some(_)) => out.put_slice(&[SACK_PERMITTED, 2]),
            (true, None) => out.put_slice(&[NOP, NOP, SACK_PERMITTED, 2]),
            (false, Some(_)) => out.put_slice(&[NOP, NOP]),
            (false, None) => {}
        }
        if let Some(timestamps) = self.timestamps {
            out.put_slice(&[TIMESTAMPS, 10]);
            out.put_u32(timestamps.value);
            out.put_u32(timestamps.echo);
        }
        if let Some(shift) = self.window_scale {
            out.put_slice(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            out.put_slice(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
            for (left, right) in blocks {
                out.put_u32(left.0);
                out.put_u32(right.0);
            }
        }
    }

    fn read(mut bytes: &[u8]) -> Result<Self, BadSegment> {
        let mut options = Self::default();
        while let [kind, rest @ ..] = bytes {
            match *kind {
                END => break,
                NOP => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let length = usize::from(*rest.first().ok_or(BadSegment::OptionCut)?);
            if length < 2 || length > bytes.len() {
                return Err(BadSegment::OptionLength);
            }
            let (option, after) = bytes.split_at(length);
            let value = &option[2..];
            bytes = after;
            match (*kind, value) {
                (MSS, [a, b]) => options.mss = Some(u16::from_be_bytes([*a, *b])),
                (WINDOW_SCALE, [shift]) => options.window_scale = Some(*shift),
                (SACK_PERMITTED, []) => options.sack_permitted = true,
                (TIMESTAMPS, value) if value.len() == 8 => {
                    options.timestamps =
                        Some(Timestamps { value: be32(&value[..4]), echo: be32(&value[4..]) });
                }
                (SACK, value) if !value.is_empty() && value.len() % 8 == 0 => {
                    for block in value.chunks_exact(8) {
                        options.sack.push(Seq(be32(&block[..4])), Seq(be32(&block[4..])));
                    }
                }
                (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS | SACK, _) => {
                    return Err(BadSegment::OptionLength);
                }
                // Unknown options are skipped.
                _ => {}
            }
        }
        Ok(options)
    }
}

/// A whole segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The sequence number of the first byte of data, or of the SYN.
    pub seq: Seq,
    /// The next sequence number the sender expects, if [`Flags::ACK`] is set.
    pub ack: Seq,
    /// The control bits.
    pub flags: Flags,
    /// The window field of the header, before scaling.
    pub window: u16,
    /// The options.
    pub options: Options,
    /// The data.
    pub payload: Bytes,
}

impl Segment {
    /// The length in sequence space: the data, and one each for SYN and FIN.
    pub fn seq_length(&self) -> u32 {
        let control = u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN));
        self.payload.len() as u32 + control
    }

    /// Encodes the segment; the addresses enter the checksum.
    ///
    /// # Panics
    ///
    /// If the options do not fit a header.
    pub fn encode(&self, from: IpAddr, to: IpAddr) -> Bytes {
        let mut out = self.encode_header();
        out.put_slice(&self.payload);
        seal(out, from, to)
    }

    /// Encodes the header and reserves room for the payload; [`seal`] completes the segment.
    pub(crate) fn encode_header(&self) -> BytesMut {
        self.encode_header_for(self.payload.len())
    }

    /// Encodes the header and reserves room for `data_bytes` of data.
    pub(crate) fn encode_header_for(&self, data_bytes: usize) -> BytesMut {
        let options = self.options.wire_bytes();
        assert!(options <= OPTIONS_BYTES_MAX, "{options} bytes of options do not fit a header");
        let mut out = BytesMut::with_capacity(HEADER_BYTES + options + data_bytes);
        out.put_u16(self.source_port);
        out.put_u16(self.destination_port);
        out.put_u32(self.seq.0);
        out.put_u32(self.ack.0);
        out.put_u8((((HEADER_BYTES + options) / 4) << 4) as u8);
        out.put_u8(self.flags.0);
        out.put_u16(self.window);
        out.put_u32(0); // the checksum, and no urgent pointer
        self.options.write(&mut out);
        debug_assert_eq!(out.len(), HEADER_BYTES + options);
        out
    }

    /// Decodes a segment; the addresses enter the checksum. The payload is a slice of `bytes`.
    pub fn decode(bytes: &Bytes, from: IpAddr, to: IpAddr) -> Result<Self, BadSegment> {
        let header_bytes = header_bytes(bytes)?;
        if checksum(bytes, from, to) != 0 {
            return Err(BadSegment::Checksum);
        }
        Self::read(bytes, header_bytes)
    }

    /// Decodes a segment without verifying the checksum.
    pub(crate) fn decode_unchecked(bytes: &Bytes) -> Result<Self, BadSegment> {
        Self::read(bytes, header_bytes(bytes)?)
    }

    fn read(bytes: &Bytes, header_bytes: usize) -> Result<Self, BadSegment> {
        let be16 = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Ok(Self {
            source_port: be16(0),
            destination_port: be16(2),
            seq: Seq(be32(&bytes[4..8])),
            ack: Seq(be32(&bytes[8..12])),
            flags: Flags(bytes[13]),
            window: be16(14),
            options: Options::read(&bytes[HEADER_BYTES..header_bytes])?,
            payload: bytes.slice(header_bytes..),
        })
    }
}

/// The header length by the data offset field.
fn header_bytes(segment: &[u8]) -> Result<usize, BadSegment> {
    if segment.len() < HEADER_BYTES {
        return Err(BadSegment::Short);
    }
    let header_bytes = usize::from(segment[12] >> 4) * 4;
    match (HEADER_BYTES..=segment.len()).contains(&header_bytes) {
        true => Ok(header_bytes),
        false => Err(BadSegment::DataOffset),
    }
}

/// Whether the checksum field is zero, as with checksum offload.
pub(crate) fn has_zero_checksum(segment: &[u8]) -> bool {
    segment.get(CHECKSUM_AT) == Some(&[0, 0])
}

/// Writes the checksum of an otherwise complete segment.
pub(crate) fn seal(mut segment: BytesMut, from: IpAddr, to: IpAddr) -> Bytes {
    let sum = checksum(&segment, from, to);
    segment[CHECKSUM_AT].copy_from_slice(&sum.to_be_bytes());
    segment.freeze()
}

/// The checksum of RFC 9293 §3.1 over the pseudo-header and a segment: 0 if the segment's checksum is right.
fn checksum(segment: &[u8], from: IpAddr, to: IpAddr) -> u16 {
    let mut sum = ones_sum(segment) + 6 + segment.len() as u64;
    for address in [from, to] {
        sum += match address {
            IpAddr::V4(v4) => ones_sum(&v4.octets()),
            IpAddr::V6(v6) => ones_sum(&v6.octets()),
        };
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// The sum of the big-endian 16-bit words, carries not yet folded. The words are added in native byte order,
/// four bytes at a time, so that the compiler vectorizes the loop; the result is swapped at the end, which
/// ones' complement sums allow (RFC 1071).
fn ones_sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    let mut sum = u64::from(u32::from_ne_bytes(last));
    sum += words.map(|word| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))).sum::<u64>();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    u64::from(u16::from_be(sum as u16))
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("the caller cut four bytes"))
}

/// Formats the segment in packetdrill's notation: `S 0:0(0) win 65535 <mss 1460,nop,wscale 0>`.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.seq.plus(self.payload.len() as u64);
        write!(f, "{} {}:{}({})", self.flags, self.seq, end, self.payload.len())?;
        if self.flags.has(Flags::ACK) {
            write!(f, " ack {}", self.ack)?;
        }
        write!(f, " win {}", self.window)?;
        let Options { mss, window_scale, sack_permitted, timestamps, sack } = self.options;
        let mut before = " <";
        let mut item = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            write!(f, "{before}{text}")?;
            before = ",";
            Ok::<_, fmt::Error>(())
        };
        if let Some(mss) = mss {
            item(f, format_args!("mss {mss}"))?;
        }
        match (sack_permitted, timestamps) {
            (true, Some(_)) => item(f, format_args!("sackOK"))?,
            (true, None) => item(f, format_args!("nop,nop,sackOK"))?,
            (false, Some(_)) => item(f, format_args!("nop,nop"))?,
            (false, None) => {}
        }
        if let Some(Timestamps { value, echo }) = timestamps {
            item(f, format_args!("TS val {value} ecr {echo}"))?;
        }
        if let Some(shift) = window_scale {
            item(f, format_args!("nop,wscale {shift}"))?;
        }
        if !sack.is_empty() {
            item(f, format_args!("nop,nop,sack"))?;
            for (left, right) in sack.as_slice() {
                write!(f, " {left}:{right}")?;
            }
        }
        if before == "," { f.write_str(">") } else { Ok(()) }
    }
}

/// Why bytes cannot be decoded as a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadSegment {
    /// Shorter than a header.
    Short,
    /// The data offset is smaller than a header or larger than the segment.
    DataOffset,
    /// The checksum is wrong.
    Checksum,
    /// An option extends beyond the header.
    OptionCut,
    /// An option has an invalid length.
    OptionLength,
}

impl fmt::Display for BadSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "shorter than a TCP header",
            Self::DataOffset => "the data offset points out of the segment or into its header",
            Self::Checksum => "the checksum is wrong",
            Self::OptionCut => "an option extends beyond the header",
            Self::OptionLength => "an option has an invalid length",
        })
    }
}

impl std::error::Error for BadSegment {}

/// The addresses and ports of a connection, as seen by one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ends {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const TO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn options() -> impl Strategy<Value = Options> {
        let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=3);
        let stamps = prop::option::of(any::<(u32, u32)>());
        let syn = (prop::option::of(any::<u16>()), prop::option::of(any::<u8>()), any::<bool>());
        (blocks, stamps, syn, any::<bool>()).prop_map(
            |(blocks, stamps, (mss, window_scale, sack_permitted), is_syn)| {
                let timestamps = stamps.map(|(value, echo)| Timestamps { value, echo });
                if is_syn {
                    // Stacks put no SACK blocks into a SYN, and they would not fit.
                    return Options { mss, window_scale, sack_permitted, timestamps, ..Options::default() };
                }
                let mut options = Options { timestamps, ..Options::default() };
                for (left, right) in blocks {
                    options.sack.push(Seq(left), Seq(right));
                }
                options
            },
        )
    }

    fn segments() -> impl Strategy<Value = Segment> {
        let header = (any::<(u16, u16)>(), any::<(u32, u32)>(), any::<u8>(), any::<u16>());
        let payload = prop::collection::vec(any::<u8>(), 0..100);
        (header, options(), payload).prop_map(|((ports, numbers, flags, window), options, payload)| Segment {
            source_port: ports.0,
            destination_port: ports.1,
            seq: Seq(numbers.0),
            ack: Seq(numbers.1),
            flags: Flags(flags),
            window,
            options,
            payload: payload.into(),
        })
    }

    /// Segments that Linux 6 sent on a TUN device between 198.51.100.1 and .2, and their text.
    const CAPTURED: [(&str, &str); 4] = [
        (
            "dbec0007dfc67b4500000000a002faf06a4c0000020405b40402080a9328c42c000000000103030a",
            "S 3754326853:3754326853(0) win 64240 <mss 1460,sackOK,TS val 2468922412 ecr 0,nop,wscale 10>",
        ),
        (
            "dbec0007dfc67b46000003e98010003f7c4c00000101080a9328c42c00001388",
            ". 3754326854:3754326854(0) ack 1001 win 63 <nop,nop,TS val 2468922412 ecr 5000>",
        ),
        (
            "dbec0007dfc67b46000003e9d018003fcf1d00000101080a9328c42c000013880101051200000515000005470000044d0000047f\
             68656c6c6f",
            "P. 3754326854:3754326859(5) ack 1001 win 63 \
             <nop,nop,TS val 2468922412 ecr 5000,nop,nop,sack 1301:1351 1101:1151>",
        ),
        (
            "dbec0007dfc67b4b000003e9d011003f12f700000101080a9328c42c000013880101051200000515000005470000044d0000047f",
            "F. 3754326859:3754326859(0) ack 1001 win 63 \
             <nop,nop,TS val 2468922412 ecr 5000,nop,nop,sack 1301:1351 1101:1151>",
        ),
    ];

    #[test]
    fn captured_segments_decode_and_encode_to_the_same_bytes() {
        let [from, to] = ["198.51.100.1", "198.51.100.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        for (hex, text) in CAPTURED {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let bytes: Bytes = (0..hex.len()).step_by(2).map(byte).collect::<Vec<_>>().into();
            let segment = Segment::decode(&bytes, from, to).unwrap();
            assert_eq!(segment.to_string(), text);
            assert_eq!(segment.encode(from, to), bytes);
            // Another destination address makes the checksum wrong.
            assert_eq!(Segment::decode(&bytes, from, from), Err(BadSegment::Checksum));
        }
    }

    #[test]
    fn malformed_segments_are_rejected_with_the_reason() {
        let decode = |mut bytes: Vec<u8>| {
            if bytes.len() >= 18 {
                bytes[16..18].fill(0);
                let sum = checksum(&bytes, FROM, TO);
                bytes[16..18].copy_from_slice(&sum.to_be_bytes());
            }
            Segment::decode(&bytes.into(), FROM, TO)
        };
        let with_options = |options: &[u8]| {
            let mut bytes = vec![0; 20 + options.len()];
            bytes[12] = (bytes.len() as u8 / 4) << 4;
            bytes[20..].copy_from_slice(options);
            bytes
        };
        assert_eq!(decode(vec![0; 19]), Err(BadSegment::Short));
        assert_eq!(decode(vec![0; 20]), Err(BadSegment::DataOffset));
        let mut beyond = with_options(&[]);
        beyond[12] = 6 << 4;
        assert_eq!(decode(beyond), Err(BadSegment::DataOffset));
        assert_eq!(decode(with_options(&[1, 1, 1, 8])), Err(BadSegment::OptionCut));
        assert_eq!(decode(with_options(&[8, 10, 0, 0])), Err(BadSegment::OptionLength));
        assert_eq!(decode(with_options(&[2, 3, 0, 0])), Err(BadSegment::OptionLength));
        assert_eq!(decode(with_options(&[99, 1, 0, 0])), Err(BadSegment::OptionLength));
        // Bytes after the end of options and unknown options are skipped.
        assert_eq!(decode(with_options(&[0, 2, 77, 3])).unwrap().options, Options::default());
        let known = decode(with_options(&[99, 4, 0, 0, 2, 4, 1, 0])).unwrap();
        assert_eq!(known.options.mss, Some(256));
    }

    proptest! {
        #[test]
        fn encoded_segments_decode_to_the_same_segment(segment in segments()) {
            let bytes = segment.encode(FROM, TO);
            prop_assert_eq!(Segment::decode(&bytes, FROM, TO).unwrap(), segment);
        }

        #[test]
        fn a_flipped_bit_is_detected(segment in segments(), bit in any::<prop::sample::Index>()) {
            let mut bytes = segment.encode(FROM, TO).to_vec();
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Segment::decode(&bytes.into(), FROM, TO).is_err());
        }

        #[test]
        fn decoding_any_bytes_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = Segment::decode(&bytes.clone().into(), FROM, TO);
            // Also with a right checksum, so that the options are parsed.
            if bytes.len() >= HEADER_BYTES {
                bytes[16..18].fill(0);
                let sum = checksum(&bytes, FROM, TO);
                bytes[16..18].copy_from_slice(&sum.to_be_bytes());
                if let Ok(segment) = Segment::decode(&bytes.into(), FROM, TO) {
                    let _ = segment.to_string();
                }
            }
        }
    }
}
