//! Captured packets, decoded and encoded, and the filling of packets.

mod dtls;
mod malformed;
mod properties;

use bytes::{Bytes, BytesMut};

use super::*;
use crate::ids::{Ppid, RequestNumber, Ssn, StreamId, VerificationTag};
use crate::packet_builder::PacketBuilder;

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

/// A packet of these bytes after a common header, with the right checksum.
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
fn captured_usrsctp_packets_round_trip() {
    //= specs/rfc9260.txt#section-3
    //= type=test
    //# All integer fields in an SCTP packet MUST be transmitted in network
    //# byte order, unless otherwise stated.
    // Packets captured from usrsctp 0.9.5, each with its text below it.
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
        (Chunk::Pad(5), "84000009 00000000 00000000", "PAD[flgs=0, len=9, val=...]"),
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
                flags: 0,
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
        // RFC 8260 §2.1: the first fragment contains the PPID, the others their number.
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
            Chunk::NrSack(NrSack {
                flags: 0,
                cum_tsn_ack: Tsn(1),
                a_rwnd: 1_500,
                gaps: vec![(2, 3)],
                nr_gaps: vec![(5, 6), (9, 9)],
                dups: vec![Tsn(1)],
            }),
            "10000024 00000001 000005dc 0001 0002 0001 0000 00020003 00050006 00090009 00000001",
            "NR_SACK[flgs=0, cum_tsn=1, a_rwnd=1500, gaps=[2:3], nr_gaps=[5:6, 9:9], dups=[1]]",
        ),
        (
            // 1 missing, 2 arrived; 1, 1; 300, 1: 1 010, 1 1, 00000000100101100 1.
            Chunk::CompactSack(CompactSack {
                is_cut: true,
                cum_tsn_ack: Tsn(1),
                a_rwnd: 1_500,
                gaps: vec![(2, 3), (5, 5), (306, 306)],
                dups: vec![Tsn(1)],
            }),
            "90010017 00000001 000005dc 0003 0001 00000001 ac0259 00",
            "COMPACT_SACK[flgs=C, cum_tsn=1, a_rwnd=1500, gaps=[2:3, 5:5, 306:306], dups=[1]]",
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
        // RFC 6525 Appendix A: all streams in both directions, one of them needs two.
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
fn kinds_match_the_decoded_chunks() {
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
    builder.begin(HEADER, 2_000);
    builder.push(&data(72));
    assert_eq!(builder.seal(), 100);
    assert!(builder.is_full() && builder.is_carrying(), "a longer one is not part of the batch");
    let batch = builder.finish().unwrap();
    assert_eq!((batch.payload.len(), batch.segment_size), (32, None));
    builder.resume();
    assert!(!builder.is_carrying());
    builder.begin(HEADER, 100);
    builder.push(&data(1));
    builder.seal();
    let batch = builder.finish().unwrap();
    assert_eq!((batch.payload.len(), batch.segment_size), (132, Some(100)), "it begins the next one");

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
fn pushing_a_chunk_that_does_not_fit_panics() {
    //= specs/rfc9260.txt#section-6.10
    //= type=test
    //# Partial chunks MUST NOT be placed in an SCTP packet.
    let mut builder = PacketBuilder::new();
    builder.begin(HEADER, 19);
    builder.push(&Chunk::Shutdown { cum_tsn_ack: Tsn(1) });
}
