//! Captured bytes, both ways, and properties of the whole of `wire`.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ids::{Ppid, RequestNumber, Ssn, StreamId, VerificationTag};

const HEADER: Header = Header { source_port: 21, destination_port: 40_000, tag: VerificationTag(7) };

fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|c| char::from(c).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// One packet of these chunks.
fn packet(header: Header, chunks: &[Chunk]) -> Bytes {
    let mut builder = PacketBuilder::new();
    builder.begin(header, PacketBuilder::MAX_BYTES);
    chunks.iter().for_each(|chunk| builder.push(chunk));
    builder.seal();
    builder.finish().unwrap().payload
}

/// A packet of these very bytes behind a common header, with the right checksum.
fn sealed(body: &[u8]) -> Packet {
    let mut datagram = BytesMut::from(&[0, 21, 0x9c, 0x40, 0, 0, 0, 7, 0, 0, 0, 0][..]);
    datagram.extend_from_slice(body);
    let checksum = crc32c::of_zeroed(&datagram);
    datagram[crc32c::AT].copy_from_slice(&checksum.to_le_bytes());
    Packet::decode(datagram.freeze()).unwrap()
}

fn chunks_of(body: &[u8]) -> Vec<Result<Chunk, WireError>> {
    sealed(body).chunks().collect()
}

fn only(body: &[u8]) -> Result<Chunk, WireError> {
    let mut chunks = chunks_of(body);
    assert_eq!(chunks.len(), 1, "{chunks:?}");
    chunks.remove(0)
}

#[test]
fn what_usrsctp_sent_reads_and_writes_back_the_same() {
    //= specs/rfc9260.txt#section-3
    //= type=test
    //# All integer fields in an SCTP packet MUST be transmitted in network
    //# byte order, unless otherwise stated.
    // Packets of usrsctp 0.9.5 as they left it, each with what it says below it.
    let captured = include_str!("tests/usrsctp.txt");
    let mut lines = captured.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    while let (Some(bytes), Some(text)) = (lines.next(), lines.next()) {
        let datagram = hex(bytes);
        let read = Packet::decode(datagram.clone()).unwrap();
        assert_eq!(read.to_string(), text);
        let chunks: Vec<_> = read.chunks().map(Result::unwrap).collect();
        assert_eq!(packet(read.header, &chunks), datagram, "{text}");
        count += 1;
    }
    assert_eq!(count, 11);
}

#[test]
fn every_other_form_has_its_bytes() {
    //= specs/rfc9260.txt#section-3.2
    //= type=test
    //# The total length of a chunk (including Type, Length, and Value fields)
    //# MUST be a multiple of 4 bytes.
    //= specs/rfc9260.txt#section-3.2
    //= type=test
    //# If the length of the chunk is not a multiple of 4 bytes, the sender
    //# MUST pad the chunk with all zero bytes, and this padding is not
    //# included in the Chunk Length field.
    //= specs/rfc9260.txt#section-3.2
    //= type=test
    //# The sender MUST NOT pad with more than 3 bytes.
    //= specs/rfc9260.txt#section-3.2.1
    //= type=test
    //# The total length of a parameter (including Parameter Type, Parameter
    //# Length, and Parameter Value fields) MUST be a multiple of 4 bytes.
    //= specs/rfc9260.txt#section-3.2.1
    //= type=test
    //# A sender MUST NOT pad with more than 3 bytes.
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# The following format MUST be used for the DATA chunk:
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# The implementation MUST pad the end of the data to a 4-byte boundary
    //# with all zero bytes.
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# Any padding MUST NOT be included in the Length field.
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# A sender MUST never add more than 3 bytes of padding.
    //= specs/rfc9260.txt#section-3.3.2.1
    //= type=test
    //# Any Type-Length-Value fields MUST be placed after the fixed-length
    //# fields.
    //= specs/rfc9260.txt#section-3.3.3.1
    //= type=test
    //# Any Type-Length-Value fields MUST be placed after the fixed-length
    //# fields.
    //= specs/rfc9260.txt#section-3.3.4
    //= type=test
    //# The SACK chunk MUST contain the Cumulative TSN Ack, Advertised
    //# Receiver Window Credit (a_rwnd), Number of Gap Ack Blocks, and Number
    //# of Duplicate TSNs fields.
    let bytes = |text: &str| hex(text);
    for (chunk, encoded, text) in [
        (
            Chunk::Auth(Auth { key_id: 7, hmac_id: 1, hmac: Bytes::from_static(b"abcde") }),
            "0f00000d 0007 0001 6162636465 000000",
            "AUTH[flgs=0, len=13, shk_id=7, hmac_id=1, hmac=...]",
        ),
        // The examples of RFC 5061 §4.2.1, §4.2.2, §4.2.4 and §4.3.1.
        (
            Chunk::Asconf(Asconf {
                serial: Tsn(7),
                address: Some("192.0.2.9".parse().unwrap()),
                requests: vec![
                    Request { correlation: 0x0102_3474, change: Change::Add("192.0.2.1".parse().unwrap()) },
                    Request {
                        correlation: 0x0102_3476,
                        change: Change::Delete("192.0.2.1".parse().unwrap()),
                    },
                    Request {
                        correlation: 0x0102_3479,
                        change: Change::SetPrimary("192.0.2.1".parse().unwrap()),
                    },
                ],
            }),
            "c1000040 00000007 00050008 c0000209 c0010010 01023474 00050008 c0000201 \
             c0020010 01023476 00050008 c0000201 c0040010 01023479 00050008 c0000201",
            "ASCONF[flgs=0, serial=7, IPV4_ADDRESS[addr=192.0.2.9], \
             ADD_IP_ADDRESS[correlation_id=16921716, IPV4_ADDRESS[addr=192.0.2.1]], \
             DELETE_IP_ADDRESS[correlation_id=16921718, IPV4_ADDRESS[addr=192.0.2.1]], \
             SET_PRIMARY_ADDRESS[correlation_id=16921721, IPV4_ADDRESS[addr=192.0.2.1]]]",
        ),
        (
            Chunk::AsconfAck(AsconfAck {
                serial: Tsn(7),
                responses: vec![
                    Response {
                        correlation: 0x0102_3476,
                        outcome: Outcome::Error(vec![Cause::DeleteLastAddress(hex(
                            "c0020010 01023476 00050008 c0000201",
                        ))]),
                    },
                    Response { correlation: 1, outcome: Outcome::Success },
                ],
            }),
            "8000002c 00000007 c003001c 01023476 00a00014 c0020010 01023476 00050008 c0000201 c0050008 00000001",
            "ASCONF_ACK[flgs=0, serial=7, \
             ERROR_CAUSE_INDICATION[correlation_id=16921718, DELETE_LAST_ADDRESS[len=20]], \
             SUCCESS_INDICATION[correlation_id=1]]",
        ),
        (
            Chunk::Error(vec![Cause::UnsupportedHmac(2)]),
            "0900000a 0105 0006 0002 0000",
            "ERROR[flgs=0, UNSUPPORTED_HMAC_ID[hmac_id=2]]",
        ),
        (
            Chunk::Heartbeat(Bytes::from_static(b"abcde")),
            "0400000d 00010009 6162636465 000000",
            "HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[len=9, val=...]]",
        ),
        (
            Chunk::HeartbeatAck(Bytes::from_static(b"abcd")),
            "0500000c 00010008 61626364",
            "HEARTBEAT_ACK[flgs=0, HEARTBEAT_INFORMATION[len=8, val=...]]",
        ),
        (
            Chunk::Abort {
                reflected: true,
                causes: vec![Cause::ProtocolViolation(Bytes::from_static(b"a\r\n"))],
            },
            "0601000b 000d0007 610d0a 00",
            r#"ABORT[flgs=T, PROTOCOL_VIOLATION[info="a\r\n"]]"#,
        ),
        (
            Chunk::Error(vec![
                Cause::StaleCookie(1_000_000),
                Cause::UnrecognizedChunkType(bytes("fe000005aa")),
                Cause::InvalidStreamIdentifier(StreamId(9)),
            ]),
            "09000020 00030008000f4240 00060009fe000005aa000000 0001000800090000",
            "ERROR[flgs=0, STALE_COOKIE_ERROR[staleness=1000000], \
             UNRECOGNIZED_CHUNK_TYPE[chk=CHUNK[type=0xfe, len=5]], INVALID_STREAM_IDENTIFIER[sid=9]]",
        ),
        (
            Chunk::Error(vec![
                Cause::MissingMandatoryParameter(vec![7, 0x8003]),
                Cause::OutOfResource,
                Cause::InvalidMandatoryParameter,
                Cause::NoUserData(Tsn(3)),
                Cause::CookieReceivedWhileShuttingDown,
            ]),
            "09000024 0002000c0000000200078003 00040004 00070004 0009000800000003 000a0004",
            "ERROR[flgs=0, MISSING_MANDATORY_PARAMETER[types=[STATE_COOKIE, 0x8003]], OUT_OF_RESOURCE[], \
             INVALID_MANDATORY_PARAMETER[], NO_USER_DATA[tsn=3], COOKIE_RECEIVED_WHILE_SHUTDOWN[]]",
        ),
        (
            Chunk::Abort {
                reflected: false,
                causes: vec![
                    Cause::RestartWithNewAddresses(bytes("000500080a000001")),
                    Cause::UnresolvableAddress(bytes("000b000661620000")),
                    Cause::UnrecognizedParameters(bytes("c0000004")),
                    Cause::Unknown { code: 0x00b0, info: bytes("01") },
                ],
            },
            "06000029 000b000c000500080a000001 0005000c000b000661620000 00080008c0000004 00b0000501000000",
            "ABORT[flgs=0, RESTART_WITH_NEW_ADDRESSES[IPV4_ADDRESS[addr=10.0.0.1]], \
             UNRESOLVABLE_ADDRESS[param=HOSTNAME_ADDRESS[addr=\"ab\"]], \
             UNRECOGNIZED_PARAMETERS[FORWARD_TSN_SUPPORTED[]], CAUSE[code=0x00b0, len=5]]",
        ),
        (
            Chunk::Sack(Sack {
                cum_tsn_ack: Tsn(12),
                a_rwnd: 4_660,
                gaps: vec![(2, 3), (5, 5)],
                dups: vec![Tsn(11), Tsn(11)],
            }),
            "03000020 0000000c 00001234 00020002 00020003 00050005 0000000b 0000000b",
            "SACK[flgs=0, cum_tsn=12, a_rwnd=4660, gaps=[2:3, 5:5], dups=[11, 11]]",
        ),
        (Chunk::ShutdownComplete { reflected: true }, "0e010004", "SHUTDOWN_COMPLETE[flgs=T]"),
        (
            Chunk::Data(Data {
                begin: false,
                end: true,
                unordered: true,
                immediate: true,
                tsn: Tsn(1),
                stream: StreamId(2),
                ssn: Ssn(3),
                interleaved: None,
                ppid: Ppid(4),
                payload: Bytes::from_static(b"abc"),
            }),
            "000d0013 00000001 0002 0003 00000004 616263 00",
            "DATA[flgs=IUE, len=19, tsn=1, sid=2, ssn=3, ppid=4]",
        ),
        // RFC 8260 §2.1: the first fragment brings the PPID, the others their number.
        (
            Chunk::Data(Data {
                begin: true,
                end: false,
                unordered: true,
                immediate: false,
                tsn: Tsn(1),
                stream: StreamId(2),
                ssn: Ssn(0),
                interleaved: Some(Interleaved { mid: 3, fsn: 0 }),
                ppid: Ppid(4),
                payload: Bytes::from_static(b"abc"),
            }),
            "40060017 00000001 0002 0000 00000003 00000004 616263 00",
            "I_DATA[flgs=UB, len=23, tsn=1, sid=2, mid=3, ppid=4]",
        ),
        (
            Chunk::Data(Data {
                begin: false,
                end: true,
                unordered: false,
                immediate: true,
                tsn: Tsn(2),
                stream: StreamId(2),
                ssn: Ssn(0),
                interleaved: Some(Interleaved { mid: 3, fsn: 5 }),
                ppid: Ppid(0),
                payload: Bytes::from_static(b"abcd"),
            }),
            "40090018 00000002 0002 0000 00000003 00000005 61626364",
            "I_DATA[flgs=IE, len=24, tsn=2, sid=2, mid=3, fsn=5]",
        ),
        (
            Chunk::ForwardTsn(ForwardTsn {
                new_cum_tsn: Tsn(9),
                streams: vec![(StreamId(1), Ssn(2)), (StreamId(3), Ssn(0))],
            }),
            "c0000010 00000009 00010002 00030000",
            "FORWARD_TSN[cum_tsn=9, ids=[{1,2}, {3,0}]]",
        ),
        (
            Chunk::IForwardTsn(IForwardTsn {
                new_cum_tsn: Tsn(9),
                streams: vec![
                    SkippedMid { stream: StreamId(1), unordered: true, mid: 2 },
                    SkippedMid { stream: StreamId(3), unordered: false, mid: 65_536 },
                ],
            }),
            "c2000018 00000009 00010001 00000002 00030000 00010000",
            "I_FORWARD_TSN[cum_tsn=9, ids=[{1,1,2}, {3,0,65536}]]",
        ),
        (
            Chunk::Init(Init {
                initiate_tag: VerificationTag(1),
                a_rwnd: 1_500,
                outbound_streams: 2,
                inbound_streams: 3,
                initial_tsn: Tsn(4),
                parameters: vec![Parameter::ForwardTsnSupported],
            }),
            "01000018 00000001 000005dc 0002 0003 00000004 c000 0004",
            "INIT[flgs=0, tag=1, a_rwnd=1500, os=2, is=3, tsn=4, FORWARD_TSN_SUPPORTED[]]",
        ),
        (
            Chunk::Init(Init {
                initiate_tag: VerificationTag(1),
                a_rwnd: 1_500,
                outbound_streams: 2,
                inbound_streams: 3,
                initial_tsn: Tsn(4),
                parameters: vec![Parameter::SupportedExtensions(Bytes::from_static(&[64, 0xc1]))],
            }),
            "0100001a 00000001 000005dc 0002 0003 00000004 8008 0006 40 c1 0000",
            "INIT[flgs=0, tag=1, a_rwnd=1500, os=2, is=3, tsn=4, SUPPORTED_EXTENSIONS[types=[I_DATA, 0xc1]]]",
        ),
        (
            Chunk::Init(Init {
                initiate_tag: VerificationTag(1),
                a_rwnd: 1_500,
                outbound_streams: 2,
                inbound_streams: 3,
                initial_tsn: Tsn(4),
                parameters: vec![
                    Parameter::Address("10.0.0.1".parse().unwrap()),
                    Parameter::Address("2001:db8::1".parse().unwrap()),
                    Parameter::CookiePreservative(1_000),
                    Parameter::SupportedAddressTypes(vec![5, 6, 11]),
                ],
            }),
            "01000042 00000001 000005dc 00020003 00000004 000500080a000001 \
             0006001420010db8000000000000000000000001 00090008000003e8 000c000a00050006000b 0000",
            "INIT[flgs=0, tag=1, a_rwnd=1500, os=2, is=3, tsn=4, IPV4_ADDRESS[addr=10.0.0.1], \
             IPV6_ADDRESS[addr=2001:db8::1], COOKIE_PRESERVATIVE[incr=1000], \
             SUPPORTED_ADDRESS_TYPES[types=[IPv4, IPv6, HOSTNAME]]]",
        ),
        // RFC 4960 Appendix A.
        (Chunk::Ecne { lowest_tsn: Tsn(7) }, "0c000008 00000007", "ECNE[flgs=0, tsn=7]"),
        (Chunk::Cwr { lowest_tsn: Tsn(7) }, "0d000008 00000007", "CWR[flgs=0, tsn=7]"),
        (
            Chunk::Init(Init {
                initiate_tag: VerificationTag(1),
                a_rwnd: 1_500,
                outbound_streams: 2,
                inbound_streams: 3,
                initial_tsn: Tsn(4),
                parameters: vec![Parameter::EcnCapable, Parameter::ZeroChecksum(1)],
            }),
            "01000020 00000001 000005dc 0002 0003 00000004 80000004 80010008 00000001",
            "INIT[flgs=0, tag=1, a_rwnd=1500, os=2, is=3, tsn=4, ECN_CAPABLE[], \
             ZERO_CHECKSUM_ACCEPTABLE[edmid=1]]",
        ),
        // RFC 6525 Appendix A: all streams in both directions, of which the one wants two.
        (
            Chunk::Reconfig(vec![
                Reconfig::OutgoingReset {
                    request: RequestNumber(5),
                    response: RequestNumber(6),
                    last_tsn: Tsn(7),
                    streams: vec![StreamId(1), StreamId(2), StreamId(3)],
                },
                Reconfig::IncomingReset { request: RequestNumber(6), streams: vec![] },
            ]),
            "82000024 000d0016 00000005 00000006 00000007 0001 0002 0003 0000 000e0008 00000006",
            "RECONFIG[flgs=0, OUTGOING_SSN_RESET[req_sn=5, resp_sn=6, last_tsn=7, sids=[1, 2, 3]], \
             INCOMING_SSN_RESET[req_sn=6, sids=[]]]",
        ),
        (
            Chunk::Reconfig(vec![Reconfig::AssociationReset { request: RequestNumber(5) }]),
            "8200000c 000f0008 00000005",
            "RECONFIG[flgs=0, SSN_TSN_RESET[req_sn=5]]",
        ),
        (
            Chunk::Reconfig(vec![
                Reconfig::Response {
                    response: RequestNumber(1),
                    result: ReconfigResult::Performed,
                    next_tsns: None,
                },
                Reconfig::Response {
                    response: RequestNumber(2),
                    result: ReconfigResult::Denied,
                    next_tsns: Some(NextTsns { sender: Tsn(3), receiver: Tsn(4) }),
                },
            ]),
            "82000024 0010000c 00000001 00000001 00100014 00000002 00000002 00000003 00000004",
            "RECONFIG[flgs=0, RECONFIG_RESPONSE[resp_sn=1, result=1], \
             RECONFIG_RESPONSE[resp_sn=2, result=2, sender_next_tsn=3, receiver_next_tsn=4]]",
        ),
        (
            Chunk::Reconfig(vec![
                Reconfig::AddOutgoing { request: RequestNumber(1), count: 3 },
                Reconfig::AddIncoming { request: RequestNumber(2), count: 65_535 },
            ]),
            "8200001c 0011000c 00000001 00030000 0012000c 00000002 ffff0000",
            "RECONFIG[flgs=0, ADD_OUTGOING_STREAMS[req_sn=1, number_of_new_streams=3], \
             ADD_INCOMING_STREAMS[req_sn=2, number_of_new_streams=65535]]",
        ),
        (
            Chunk::Unknown { kind: 0xfe, raw: bytes("fe0500051100").slice(..5) },
            "fe050005 11 000000",
            "CHUNK[type=0xfe, flgs=0x05, len=5]",
        ),
    ] {
        let mut written = BytesMut::new();
        chunk.encode(&mut written);
        assert_eq!(written.freeze(), hex(encoded), "{text}");
        assert_eq!(only(&hex(encoded)).unwrap(), chunk);
        assert_eq!(chunk.to_string(), text);
        assert_eq!(chunk.padded_len(), hex(encoded).len());
    }
}

#[test]
fn the_checksum_is_that_of_rfc_9260_and_any_other_is_refused() {
    //= specs/rfc6951.txt#section-5.3
    //= type=test
    //# The SCTP checksum MUST be computed for IPv4 and IPv6, and the UDP
    //# checksum SHOULD be computed for IPv4 and IPv6.
    //= specs/rfc9260.txt#section-6.8
    //= type=test
    //# When sending an SCTP packet, the endpoint MUST strengthen the data
    //# integrity of the transmission by including the CRC32c checksum value
    //# calculated on the packet, as described below.
    //= specs/rfc9260.txt#section-6.8
    //= type=test
    //# After the packet is constructed (containing the SCTP common header and
    //# one or more control or DATA chunks), the transmitter MUST:
    // The check value of CRC32c, in the byte order of Appendix A.
    assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xe306_9283);
    let good = packet(HEADER, &[Chunk::CookieAck]);
    assert!(Packet::decode(good.clone()).is_ok());
    for bit in 0..good.len() * 8 {
        let mut bad = good.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(Packet::decode(bad.into()), Err(WireError::Checksum { .. })), "bit {bit}");
    }
    let mut zero = good.to_vec();
    zero[crc32c::AT].fill(0);
    assert!(matches!(Packet::decode(zero.into()), Err(WireError::Checksum { found: 0, .. })));
}

#[test]
fn a_datagram_without_room_for_a_chunk_is_no_packet() {
    for len in 0..16 {
        assert_eq!(Packet::decode(vec![0; len].into()), Err(WireError::PacketTooShort { len }));
    }
}

#[test]
fn a_chunk_shorter_than_its_header_ends_its_packet() {
    for len in 0..4 {
        let body = [0x0b, 0, 0, len, 0x0b, 0, 0, 4];
        let expected = Err(WireError::ChunkLength { kind: 0x0b, len: len.into() });
        assert_eq!(chunks_of(&body), [expected], "no endless loop, and nothing behind it");
    }
}

#[test]
fn a_chunk_longer_than_its_packet_ends_it() {
    let body = hex("0b000004 0b000005");
    assert_eq!(chunks_of(&body), [Ok(Chunk::CookieAck), Err(WireError::Truncated { left: 4 })]);
    assert_eq!(chunks_of(&hex("0300ffff00000000")), [Err(WireError::Truncated { left: 8 })]);
}

#[test]
fn bytes_behind_the_last_chunk_that_are_none_are_no_chunk() {
    let body = hex("0b000004 0000");
    assert_eq!(chunks_of(&body), [Ok(Chunk::CookieAck), Err(WireError::Truncated { left: 2 })]);
}

#[test]
fn the_last_chunk_may_lack_its_padding_and_no_other() {
    assert_eq!(only(&hex("0a000005 aa")), Ok(Chunk::CookieEcho(hex("aa"))));
    let body = hex("0a000005 aa 0b000004");
    assert_eq!(chunks_of(&body)[0], Ok(Chunk::CookieEcho(hex("aa"))));
    assert!(matches!(chunks_of(&body)[1], Err(WireError::Truncated { .. })));
}

#[test]
fn padding_is_ignored_whatever_it_holds() {
    //= specs/rfc9260.txt#section-3.2
    //= type=test
    //# The receiver MUST ignore the padding bytes.
    let body = hex("0a000005 aaffffff 0b000004");
    assert_eq!(chunks_of(&body), [Ok(Chunk::CookieEcho(hex("aa"))), Ok(Chunk::CookieAck)]);
}

#[test]
fn flags_without_meaning_are_ignored() {
    //= specs/rfc8260.txt#section-2.1
    //= type=test
    //# They MUST be set to 0 by the sender and MUST be ignored by the
    //# receiver.
    //= specs/rfc8260.txt#section-2.1
    //= type=test
    //# It MUST be set to 0 by the sender and MUST be ignored by the receiver.
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# The Chunk Flags field in INIT chunks is reserved, and all bits in it
    //# SHOULD be set to 0 by the sender and ignored by the receiver.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# The Chunk Flags field in INIT ACK chunks is reserved, and all bits in
    //# it SHOULD be set to 0 by the sender and ignored by the receiver.
    assert_eq!(only(&hex("0bff0004")), Ok(Chunk::CookieAck));
    assert_eq!(only(&hex("06fe0004")), Ok(Chunk::Abort { reflected: false, causes: vec![] }));
    let Ok(Chunk::Data(data)) = only(&hex("00f00011 00000001 00000000 00000000 61000000")) else { panic!() };
    assert_eq!(data.flags(), 0);
    let i_data = hex("40f00015 00000001 0000ffff 00000003 00000005 61000000");
    let Ok(Chunk::Data(data)) = only(&i_data) else { panic!() };
    assert_eq!((data.flags(), data.ssn.0), (0, 0), "nor has the reserved field a meaning");
}

#[test]
fn the_last_parameters_padding_may_count_in_the_chunk_or_not() {
    //= specs/rfc9260.txt#section-3.2.1
    //= type=test
    //# The receiver MUST ignore the padding bytes.
    let fixed = "00000001 000005dc 00010001 00000004";
    for body in
        [format!("0100001a {fixed} 80030006 80c1 0000"), format!("0100001c {fixed} 80030006 80c1 ffff")]
    {
        let Ok(Chunk::Init(init)) = only(&hex(&body)) else { panic!("{body}") };
        assert_eq!(init.parameters, [Parameter::ChunkList(hex("80c1"))]);
    }
}

#[test]
fn a_data_chunk_without_data_is_told_apart() {
    assert_eq!(only(&hex("00030010 00000009 00000000 00000000")), Err(WireError::NoUserData(Tsn(9))));
    let i_data = "40030014 00000009 00000000 00000000 00000000";
    assert_eq!(only(&hex(i_data)), Err(WireError::NoUserData(Tsn(9))));
    let short = hex("40030013 00000009 00000000 00000000 000000 00");
    assert_eq!(only(&short), Err(WireError::ChunkLength { kind: 64, len: 19 }));
    let short = hex("0003000f 00000009 00000000 00000000");
    assert_eq!(only(&short), Err(WireError::ChunkLength { kind: 0, len: 15 }));
}

#[test]
fn a_sacks_counts_must_account_for_its_length() {
    for (gaps, dups, len) in [(1, 0, 16), (0, 1, 16), (0, 0, 20), (65_535, 65_535, 24), (65_535, 1, 16)] {
        let mut body = hex("03000000 00000001 00001000 00000000");
        let mut bytes = body.to_vec();
        bytes[2..4].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
        bytes[12..14].copy_from_slice(&u16::try_from(gaps).unwrap().to_be_bytes());
        bytes[14..16].copy_from_slice(&u16::try_from(dups).unwrap().to_be_bytes());
        bytes.resize(len, 0);
        body = bytes.into();
        assert_eq!(only(&body), Err(WireError::ChunkLength { kind: 3, len }), "{gaps} gaps, {dups} dups");
    }
}

#[test]
fn a_sack_of_a_full_packet_is_read_whole() {
    let gaps: Vec<_> = (0..Sack::blocks_in(65_000) as u16).map(|i| (2 * i + 2, 2 * i + 2)).collect();
    let sack = Chunk::Sack(Sack { gaps, ..Sack::default() });
    let read = Packet::decode(packet(HEADER, std::slice::from_ref(&sack))).unwrap();
    assert_eq!(read.chunks().next(), Some(Ok(sack)));
}

#[test]
fn chunks_of_a_fixed_length_have_no_other() {
    for kind in [8, 11, 14] {
        let body = [kind, 0, 0, 8, 0, 0, 0, 0];
        assert_eq!(only(&body), Err(WireError::ChunkLength { kind, len: 8 }));
    }
    assert_eq!(only(&hex("07000004")), Err(WireError::ChunkLength { kind: 7, len: 4 }));
    assert_eq!(only(&hex("0700000c0000000000000000")), Err(WireError::ChunkLength { kind: 7, len: 12 }));
    for kind in [1, 2] {
        let body = [&[kind, 0, 0, 19][..], &[0; 16]].concat();
        assert_eq!(only(&body), Err(WireError::ChunkLength { kind, len: 19 }));
    }
}

#[test]
fn a_heartbeat_holds_its_info_and_seldom_more() {
    assert_eq!(only(&hex("04000004")), Err(WireError::ChunkLength { kind: 4, len: 4 }));
    assert_eq!(only(&hex("04000008 00020004")), Err(WireError::ChunkLength { kind: 4, len: 8 }));
    for kind in [Chunk::HEARTBEAT, Chunk::HEARTBEAT_ACK] {
        let raw = Bytes::from([&[kind], &hex("00000c 00010004 00020004")[..]].concat());
        assert_eq!(only(&raw), Ok(Chunk::Unknown { kind, raw: raw.clone() }), "kept as it stands");
    }
    assert_eq!(only(&hex("0400000c 00010004 00020005")), Err(WireError::ParameterLength { kind: 2, len: 5 }));
    assert_eq!(only(&hex("04000008 00010005")), Err(WireError::ParameterLength { kind: 1, len: 5 }));
    assert_eq!(only(&hex("04000008 00010004")), Ok(Chunk::Heartbeat(Bytes::new())));
}

#[test]
fn a_parameter_or_cause_that_leaves_its_chunk_is_refused_and_not_read() {
    let fixed = "00000001 000005dc 00010001 00000004";
    for (tail, kind, len) in [
        ("00050009 0a000001", 5, 9),
        ("00050007 0a0000", 5, 7),
        ("00050003 0a000001", 5, 3),
        ("00050000 0a000001", 5, 0),
        ("0006000c 0a0000010a000001", 6, 12),
        ("00090005 00000000", 9, 5),
        ("000c0007 0005000000", 12, 7),
        ("ff", 0, 1),
    ] {
        let bytes = hex(tail);
        let body = format!("0100{:04x} {fixed} {tail}", 20 + bytes.len());
        let expected = WireError::ParameterLength { kind, len };
        // What follows the chunk would complete the parameter, had it any business there.
        let body =
            [hex(&body).to_vec(), vec![0; padding(20 + bytes.len())], hex("0b000004").to_vec()].concat();
        assert_eq!(chunks_of(&body), [Err(expected)], "{tail}");
    }
    for (tail, code, len) in
        [("0001000c 00000000", 1, 12), ("000c0007 6869", 12, 7), ("00040003", 4, 3), ("00000000", 0, 0)]
    {
        let bytes = hex(tail);
        let body = format!("0900{:04x} {tail}", 4 + bytes.len());
        let body = [hex(&body).to_vec(), vec![0; padding(bytes.len())], hex("0b000004").to_vec()].concat();
        assert_eq!(chunks_of(&body), [Err(WireError::CauseLength { code, len })], "{tail}");
    }
}

//= specs/rfc6525.txt#section-4.1
//= type=test
//# the value
//# MUST be 16 + 2 * N, where N is the number of stream numbers
//# listed.
//= specs/rfc6525.txt#section-4.2
//= type=test
//# the value
//# MUST be 8 + 2 * N.
//= specs/rfc6525.txt#section-4.3
//= type=test
//# the value
//# MUST be 8.
//= specs/rfc6525.txt#section-4.4
//= type=test
//# the value
//# MUST be 12 if the optional fields are not present and 20
//# otherwise.
//= specs/rfc6525.txt#section-4.4
//= type=test
//# Either both optional fields (Sender's Next TSN and Receiver's Next
//# TSN) MUST be present, or no field.
//= specs/rfc6525.txt#section-4.5
//= type=test
//# the value
//# MUST be 12.
//= specs/rfc6525.txt#section-4.6
//= type=test
//# the value
//# MUST be 12.
#[test]
fn parameters_of_a_reconfig_have_their_lengths() {
    for (kind, good) in [
        (13, &[16, 18, 20][..]),
        (14, &[8, 10, 12, 14, 16, 18, 20]),
        (15, &[8]),
        (16, &[12, 20]),
        (17, &[12]),
        (18, &[12]),
    ] {
        for len in 4..=20u16 {
            let chunk_len = (4 + len).to_be_bytes();
            let mut body = vec![130, 0, chunk_len[0], chunk_len[1], 0, kind, 0, len as u8];
            body.resize(4 + padded(usize::from(len)), 0);
            match only(&Bytes::from(body)).unwrap() {
                Chunk::Reconfig(parameters) => {
                    assert!(good.contains(&len), "{kind}, {len}");
                    assert_eq!(parameters[0].encoded_len(), usize::from(len));
                }
                // What cannot be read is skipped, as RFC 9260 §3.2 has it of the type: the chunks behind it are read.
                other => {
                    assert!(!good.contains(&len), "{kind}, {len}");
                    assert!(matches!(other, Chunk::Unknown { kind: 130, .. }));
                }
            }
        }
    }
}

//= specs/rfc6525.txt#section-4.5
//= type=test
//# It SHOULD be set to 0 by the sender and
//# ignored by the receiver.
//= specs/rfc6525.txt#section-4.6
//= type=test
//# It SHOULD be set to 0 by the sender and
//# ignored by the receiver.
#[test]
fn what_is_reserved_behind_the_number_of_new_streams_is_ignored() {
    for kind in ["0011", "0012"] {
        let parse =
            |reserved: &str| only(&hex(&format!("82000010 {kind}000c 00000001 0003{reserved}"))).unwrap();
        assert_eq!(parse("ffff"), parse("0000"));
    }
}

#[test]
fn a_cause_whose_length_is_not_that_of_its_code_is_unknown() {
    for tail in [
        "00010007 000000",
        "0002000c 00000003 00070007",
        "0002000c ffffffff 00070007",
        "0002000c 00000001 00070007",
        "00030004",
        "00040008 00000000",
        "00070006 6869",
    ] {
        let bytes = hex(tail);
        let unknown = Cause::Unknown { code: u16::from(bytes[1]), info: bytes.slice(4..) };
        let [error, abort] = ["09", "06"].map(|kind| {
            let body = hex(&format!("{kind}00{:04x} {tail}", 4 + bytes.len()));
            only(&[&body[..], &vec![0; padding(bytes.len())]].concat())
        });
        assert_eq!(error, Ok(Chunk::Error(vec![unknown.clone()])), "{tail}");
        assert_eq!(abort, Ok(Chunk::Abort { reflected: false, causes: vec![unknown] }), "{tail}");
    }
}

//= specs/rfc9260.txt#section-3.3.7
//= type=test
//# If an endpoint receives an ABORT chunk with a format error or no
//# TCB is found, it MUST silently discard it.
#[test]
fn an_abort_with_a_format_error_is_none() {
    let user = Cause::UserInitiatedAbort(Bytes::from_static(b"hi"));
    let good = hex("0600000a 000c0006 6869 0000");
    assert_eq!(only(&good), Ok(Chunk::Abort { reflected: false, causes: vec![user] }));
    let bad = hex("0600000f 000c0006 6869 0000 000000 00");
    assert_eq!(only(&bad), Err(WireError::CauseLength { code: 0, len: 3 }));
}

#[test]
fn the_high_bits_of_unknown_types_say_what_to_do() {
    use Unrecognized::{Skip, SkipAndReport, Stop, StopAndReport};
    for (kind, expected) in
        [(15, Stop), (0x3f, Stop), (0x40, StopAndReport), (0x80, Skip), (0xc0, SkipAndReport)]
    {
        assert_eq!(Unrecognized::of_chunk(kind), expected);
        assert_eq!(Unrecognized::of_parameter(u16::from(kind) << 8 | 1), expected);
    }
    assert_eq!(
        [Stop, StopAndReport, Skip, SkipAndReport].map(|action| (action.stops(), action.reports())),
        [(true, false), (true, true), (false, false), (false, true)]
    );
}

//= specs/rfc8260.txt#section-2.3.1
//= type=test
//# These bits are reserved.  They MUST be set to 0 by the sender and
//# MUST be ignored by the receiver.
//= specs/rfc8260.txt#section-2.3.1
//= type=test
//# This field is reserved.  It MUST be set to 0 by the sender and
//# MUST be ignored by the receiver.
#[test]
fn i_forward_tsn_has_bits_that_mean_nothing_and_whole_entries() {
    let plain = only(&hex("c2000010 00000009 00010001 00000002")).unwrap();
    assert_eq!(only(&hex("c2ff0010 00000009 0001ffff 00000002")), Ok(plain));
    for (kind, bytes) in [(0xc2, "c200000c 00000009 00010001"), (0xc0, "c000000a 00000009 0001 0000")] {
        let len = if kind == 0xc2 { 12 } else { 10 };
        assert_eq!(only(&hex(bytes)), Err(WireError::ChunkLength { kind, len }));
    }
    assert_eq!(only(&hex("c0000004")), Err(WireError::ChunkLength { kind: 0xc0, len: 4 }));
}

//= specs/rfc9260.txt#section-3.2.1
//= type=test
//# In the 00 or 01 case, the processing of the parameters
//# after the unknown parameter is canceled, but no processing already
//# done is rolled back.
#[test]
fn nothing_is_read_behind_an_unknown_parameter_that_says_so() {
    let fixed = "00000001 000005dc 00010001 00000004";
    let address = "000500080a000001";
    let parse = |kind: &str| match only(&hex(&format!("01000028 {fixed} {address} {kind}0004 {address}"))) {
        Ok(Chunk::Init(init)) => init,
        other => panic!("{other:?}"),
    };
    for (kind, read, reported) in [("0300", 2, 0), ("4300", 2, 1), ("8300", 3, 0), ("c300", 3, 1)] {
        let init = parse(kind);
        assert_eq!(init.parameters.len(), read, "{kind}");
        let reports = init.parameters.iter().filter_map(Parameter::to_report);
        assert_eq!(reports.count(), reported, "{kind}");
    }
}

#[test]
fn kinds_see_what_the_chunks_are() {
    let kinds = |body: &str| sealed(&hex(body)).kinds();
    let echo = kinds("0a000004 00030011000000010000000000000000 61000000");
    assert!(echo.begins_with(Chunk::COOKIE_ECHO) && echo.contains(Data::KIND) && !echo.reflected());
    assert!(kinds("0b000004").is_only(Chunk::COOKIE_ACK));
    assert!(!kinds("0b000004 0b000004").is_only(Chunk::COOKIE_ACK));
    assert!(kinds("06010004").reflected() && kinds("0e010004").reflected() && !kinds("0b010004").reflected());
    let init = "01000014 00000001 000005dc 00010001 00000004";
    assert!(kinds(&format!("{init} 0b000004")).bundles_init() && !kinds(init).bundles_init());
    assert!(!kinds("ff000004").contains(0x0f), "a type of 16 or more is in no bit");
    assert!(!kinds("0b000004 06010000").contains(Chunk::ABORT), "what is malformed is not there");
}

#[test]
fn packets_of_a_batch_are_of_one_size_but_the_last() {
    let data = |len: usize| {
        Chunk::Data(Data {
            begin: true,
            end: true,
            unordered: false,
            immediate: false,
            tsn: Tsn(1),
            stream: StreamId(0),
            ssn: Ssn(0),
            interleaved: None,
            ppid: Ppid(0),
            payload: vec![b'x'; len].into(),
        })
    };
    let mut builder = PacketBuilder::new();
    builder.begin(HEADER, 103);
    assert_eq!(builder.room(), 88, "a multiple of four, behind the header");
    assert!(builder.is_empty());
    builder.push(&data(72));
    assert_eq!((builder.room(), builder.len(), builder.seal()), (0, 100, 100));
    builder.begin(HEADER, 2_000);
    assert_eq!(builder.room(), 88, "no larger than the first");
    builder.push(&data(72));
    builder.seal();
    assert!(!builder.is_full());
    builder.begin(HEADER, 100);
    builder.push(&data(1));
    assert_eq!(builder.seal(), 32);
    assert!(builder.is_full(), "nothing follows a shorter one");
    assert_eq!(builder.packets(), 3);
    let batch = builder.finish().unwrap();
    assert_eq!(batch.segment_size, Some(100));
    for packet in batch.payload.chunks(100) {
        assert!(Packet::decode(batch.payload.slice_ref(packet)).is_ok());
    }
    assert_eq!(builder.finish(), None);

    builder.begin(HEADER, 100);
    builder.push(&data(1));
    builder.seal();
    builder.begin(HEADER, 100);
    builder.cancel();
    let alone = builder.finish().unwrap();
    assert_eq!((alone.payload.len(), alone.segment_size), (32, None), "a packet taken back leaves no trace");
}

#[test]
fn a_batch_ends_where_the_kernel_takes_no_more() {
    let mut builder = PacketBuilder::new();
    while !builder.is_full() {
        builder.begin(HEADER, 1_452);
        builder.push(&Chunk::CookieEcho(vec![0; 1_432].into()));
        builder.seal();
    }
    assert_eq!(builder.packets(), 45, "1,448 bytes each into 65,507");
    builder.finish();
    while !builder.is_full() {
        builder.begin(HEADER, 100);
        builder.push(&Chunk::CookieAck);
        builder.seal();
    }
    assert_eq!(builder.packets(), PacketBuilder::MAX_PACKETS);
}

#[test]
#[should_panic(expected = "bytes into")]
fn a_chunk_that_does_not_fit_is_ours_to_find() {
    //= specs/rfc9260.txt#section-6.10
    //= type=test
    //# Partial chunks MUST NOT be placed in an SCTP packet.
    let mut builder = PacketBuilder::new();
    builder.begin(HEADER, 19);
    builder.push(&Chunk::Shutdown { cum_tsn_ack: Tsn(1) });
}

fn bytes(range: std::ops::Range<usize>) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), range).prop_map(Bytes::from)
}

/// The stream sequence number, or an I-DATA chunk's numbers.
fn place() -> impl Strategy<Value = (u16, Option<(u32, u32)>)> {
    prop_oneof![
        any::<u16>().prop_map(|ssn| (ssn, None)),
        any::<(u32, u32)>().prop_map(|numbers| (0, Some(numbers))),
    ]
}

fn data() -> impl Strategy<Value = Data> {
    (any::<[bool; 4]>(), any::<u32>(), any::<u16>(), place(), any::<u32>(), bytes(1..200)).prop_map(
        |([begin, end, unordered, immediate], tsn, stream, (ssn, interleaved), ppid, payload)| Data {
            begin,
            end,
            unordered,
            immediate,
            tsn: Tsn(tsn),
            stream: StreamId(stream),
            ssn: Ssn(ssn),
            // What is not on the wire is 0.
            interleaved: interleaved.map(|(mid, fsn)| Interleaved { mid, fsn: if begin { 0 } else { fsn } }),
            ppid: Ppid(if interleaved.is_some() && !begin { 0 } else { ppid }),
            payload,
        },
    )
}

fn tlv(kind: u16, value: &[u8]) -> Bytes {
    let mut raw = BytesMut::new();
    put_tlv_header(&mut raw, kind, 4 + value.len());
    raw.extend_from_slice(value);
    raw.freeze()
}

fn is_unknown_parameter(kind: &u16) -> bool {
    !matches!(
        *kind,
        Parameter::RANDOM
            | Parameter::CHUNK_LIST
            | Parameter::HMAC_ALGO
            | Parameter::SUPPORTED_EXTENSIONS
            | Parameter::FORWARD_TSN_SUPPORTED
            | Parameter::ADAPTATION
            | Parameter::ECN_CAPABLE
            | Parameter::ZERO_CHECKSUM
    )
}

fn is_unknown_chunk(kind: &u8) -> bool {
    !matches!(
        *kind,
        Auth::KIND
            | Asconf::KIND
            | AsconfAck::KIND
            | Data::INTERLEAVED_KIND
            | Chunk::RECONFIG
            | ForwardTsn::KIND
            | IForwardTsn::KIND
    )
}

fn parameter() -> impl Strategy<Value = Parameter> {
    prop_oneof![
        any::<std::net::IpAddr>().prop_map(Parameter::Address),
        bytes(0..64).prop_map(Parameter::StateCookie),
        bytes(0..64).prop_map(Parameter::Unrecognized),
        any::<u32>().prop_map(Parameter::CookiePreservative),
        bytes(0..64).prop_map(Parameter::HostName),
        vec(any::<u16>(), 0..5).prop_map(Parameter::SupportedAddressTypes),
        bytes(0..9).prop_map(Parameter::SupportedExtensions),
        bytes(0..40).prop_map(Parameter::Random),
        bytes(0..9).prop_map(Parameter::ChunkList),
        vec(any::<u16>(), 0..5).prop_map(Parameter::HmacAlgo),
        any::<u32>().prop_map(Parameter::Adaptation),
        Just(Parameter::ForwardTsnSupported),
        Just(Parameter::EcnCapable),
        any::<u32>().prop_map(Parameter::ZeroChecksum),
        // Those that end the processing would hide what follows.
        ((0x8000u16..).prop_filter("unknown", is_unknown_parameter), bytes(0..64))
            .prop_map(|(kind, value)| Parameter::Unknown { kind, raw: tlv(kind, &value) }),
    ]
}

fn init() -> impl Strategy<Value = Init> {
    (any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>(), any::<u32>(), vec(parameter(), 0..6)).prop_map(
        |(tag, a_rwnd, outbound_streams, inbound_streams, tsn, parameters)| Init {
            initiate_tag: VerificationTag(tag),
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn: Tsn(tsn),
            parameters,
        },
    )
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        any::<u16>().prop_map(|stream| Cause::InvalidStreamIdentifier(StreamId(stream))),
        vec(any::<u16>(), 0..5).prop_map(Cause::MissingMandatoryParameter),
        any::<u32>().prop_map(Cause::StaleCookie),
        Just(Cause::OutOfResource),
        bytes(0..32).prop_map(Cause::UnresolvableAddress),
        bytes(0..32).prop_map(Cause::UnrecognizedChunkType),
        Just(Cause::InvalidMandatoryParameter),
        bytes(0..32).prop_map(Cause::UnrecognizedParameters),
        any::<u32>().prop_map(|tsn| Cause::NoUserData(Tsn(tsn))),
        Just(Cause::CookieReceivedWhileShuttingDown),
        bytes(0..32).prop_map(Cause::RestartWithNewAddresses),
        bytes(0..32).prop_map(Cause::UserInitiatedAbort),
        bytes(0..32).prop_map(Cause::ProtocolViolation),
        any::<u16>().prop_map(Cause::UnsupportedHmac),
        bytes(0..32).prop_map(Cause::DeleteLastAddress),
        bytes(0..32).prop_map(Cause::ResourceShortage),
        bytes(0..32).prop_map(Cause::DeleteSourceAddress),
        Just(Cause::IllegalAsconfAck),
        bytes(0..32).prop_map(Cause::NoAuthorization),
        ((14u16..).prop_filter("unknown", |code| !matches!(code, 0xa0..=0xa4 | 0x105)), bytes(0..32))
            .prop_map(|(code, info)| Cause::Unknown { code, info }),
    ]
}

fn reconfig() -> impl Strategy<Value = Reconfig> {
    let request = || any::<u32>().prop_map(RequestNumber);
    let streams = || vec(any::<u16>().prop_map(StreamId), 0..9);
    let next_tsns = proptest::option::of(any::<(u32, u32)>());
    prop_oneof![
        (request(), request(), any::<u32>(), streams()).prop_map(|(request, response, last_tsn, streams)| {
            Reconfig::OutgoingReset { request, response, last_tsn: Tsn(last_tsn), streams }
        }),
        (request(), streams()).prop_map(|(request, streams)| Reconfig::IncomingReset { request, streams }),
        request().prop_map(|request| Reconfig::AssociationReset { request }),
        (request(), 0u32..9, next_tsns).prop_map(|(response, code, tsns)| Reconfig::Response {
            response,
            result: ReconfigResult::from_code(code),
            next_tsns: tsns
                .map(|(sender, receiver)| NextTsns { sender: Tsn(sender), receiver: Tsn(receiver) }),
        }),
        (request(), any::<u16>()).prop_map(|(request, count)| Reconfig::AddOutgoing { request, count }),
        (request(), any::<u16>()).prop_map(|(request, count)| Reconfig::AddIncoming { request, count }),
        (0x8000u16.., bytes(0..32))
            .prop_map(|(kind, value)| Reconfig::Unknown { kind, raw: tlv(kind, &value) }),
    ]
}

fn asconf() -> impl Strategy<Value = Asconf> {
    let change = prop_oneof![
        any::<std::net::IpAddr>().prop_map(Change::Add),
        any::<std::net::IpAddr>().prop_map(Change::Delete),
        any::<std::net::IpAddr>().prop_map(Change::SetPrimary),
        (0xc005u16.., bytes(0..40)).prop_map(|(kind, value)| Change::Other { kind, value }),
    ];
    let request = (any::<u32>(), change).prop_map(|(correlation, change)| Request { correlation, change });
    (any::<u32>(), any::<Option<std::net::IpAddr>>(), vec(request, 0..5))
        .prop_map(|(serial, address, requests)| Asconf { serial: Tsn(serial), address, requests })
}

fn asconf_ack() -> impl Strategy<Value = AsconfAck> {
    let outcome = prop_oneof![
        Just(Outcome::Success),
        vec(cause(), 0..3).prop_map(Outcome::Error),
        (0xc006u16.., bytes(0..40)).prop_map(|(kind, value)| Outcome::Other { kind, value }),
    ];
    let response =
        (any::<u32>(), outcome).prop_map(|(correlation, outcome)| Response { correlation, outcome });
    (any::<u32>(), vec(response, 0..5))
        .prop_map(|(serial, responses)| AsconfAck { serial: Tsn(serial), responses })
}

fn chunk() -> impl Strategy<Value = Chunk> {
    prop_oneof![
        vec(reconfig(), 0..4).prop_map(Chunk::Reconfig),
        any::<u32>().prop_map(|tsn| Chunk::Ecne { lowest_tsn: Tsn(tsn) }),
        any::<u32>().prop_map(|tsn| Chunk::Cwr { lowest_tsn: Tsn(tsn) }),
        data().prop_map(Chunk::Data),
        init().prop_map(Chunk::Init),
        init().prop_map(Chunk::InitAck),
        (any::<u32>(), any::<u32>(), vec(any::<(u16, u16)>(), 0..20), vec(any::<u32>(), 0..9)).prop_map(
            |(cum, a_rwnd, gaps, dups)| Chunk::Sack(Sack {
                cum_tsn_ack: Tsn(cum),
                a_rwnd,
                gaps,
                dups: dups.into_iter().map(Tsn).collect(),
            })
        ),
        bytes(0..64).prop_map(Chunk::Heartbeat),
        bytes(0..64).prop_map(Chunk::HeartbeatAck),
        (any::<bool>(), vec(cause(), 0..4))
            .prop_map(|(reflected, causes)| Chunk::Abort { reflected, causes }),
        any::<u32>().prop_map(|tsn| Chunk::Shutdown { cum_tsn_ack: Tsn(tsn) }),
        Just(Chunk::ShutdownAck),
        vec(cause(), 0..4).prop_map(Chunk::Error),
        bytes(0..200).prop_map(Chunk::CookieEcho),
        Just(Chunk::CookieAck),
        any::<bool>().prop_map(|reflected| Chunk::ShutdownComplete { reflected }),
        asconf().prop_map(Chunk::Asconf),
        asconf_ack().prop_map(Chunk::AsconfAck),
        (any::<(u16, u16)>(), bytes(0..40)).prop_map(|((key_id, hmac_id), hmac)| Chunk::Auth(Auth {
            key_id,
            hmac_id,
            hmac
        })),
        (any::<u32>(), vec(any::<(u16, u16)>(), 0..9)).prop_map(|(cum, streams)| {
            let streams = streams.into_iter().map(|(stream, ssn)| (StreamId(stream), Ssn(ssn))).collect();
            Chunk::ForwardTsn(ForwardTsn { new_cum_tsn: Tsn(cum), streams })
        }),
        (any::<u32>(), vec(any::<(u16, bool, u32)>(), 0..9)).prop_map(|(cum, streams)| {
            let skipped = |(stream, unordered, mid)| SkippedMid { stream: StreamId(stream), unordered, mid };
            let streams = streams.into_iter().map(skipped).collect();
            Chunk::IForwardTsn(IForwardTsn { new_cum_tsn: Tsn(cum), streams })
        }),
        ((15u8..).prop_filter("unknown", is_unknown_chunk), bytes(0..64)).prop_map(|(kind, value)| {
            let len = (4 + value.len()) as u16;
            let raw = [&[kind, 0][..], &len.to_be_bytes(), &value].concat();
            Chunk::Unknown { kind, raw: raw.into() }
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_reads_back(chunks in vec(chunk(), 1..6), tag: u32, ports: (u16, u16)) {
        let header = Header { source_port: ports.0, destination_port: ports.1, tag: VerificationTag(tag) };
        let read = Packet::decode(packet(header, &chunks)).unwrap();
        prop_assert_eq!(read.header, header);
        prop_assert_eq!(read.len(), Header::LEN + chunks.iter().map(Chunk::padded_len).sum::<usize>());
        let back: Vec<_> = read.chunks().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&back, &chunks);
        for kind in 0..=255 {
            prop_assert_eq!(read.kinds().contains(kind), kind < 16 && chunks.iter().any(|c| c.kind() == kind));
        }
        let _ = read.to_string();
    }

    #[test]
    fn no_cut_and_no_flipped_bit_makes_it_panic(chunks in vec(chunk(), 1..4), cut: usize, flips in vec(any::<usize>(), 0..4)) {
        let whole = packet(HEADER, &chunks);
        let mut body = whole[Header::LEN..].to_vec();
        body.truncate(4 + cut % body.len());
        for flip in flips {
            let bit = flip % (body.len() * 8);
            body[bit / 8] ^= 1 << (bit % 8);
        }
        body.resize(body.len().max(4), 0);
        let read = sealed(&body);
        for chunk in read.chunks().flatten() {
            // What was read can be written, and is then the same.
            let mut written = BytesMut::new();
            chunk.encode(&mut written);
            let again = chunks_of(&written);
            prop_assert_eq!(again, [Ok(chunk)]);
        }
        let _ = (read.kinds(), read.to_string());
    }

    #[test]
    fn no_bytes_make_it_panic(body in vec(any::<u8>(), 4..300)) {
        let read = sealed(&body);
        prop_assert!(read.chunks().count() <= body.len().div_ceil(4));
        let _ = (read.kinds(), read.to_string());
    }
}
