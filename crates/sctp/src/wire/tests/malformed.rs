//! Malformed packets (RFC 9260 §3.2): wrong lengths, unknown values and missing parts, rejected or accepted
//! as specified.

use super::*;

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
fn trailing_bytes_after_the_last_chunk_are_an_error() {
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
fn a_data_chunk_without_user_data_is_a_distinct_error() {
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
fn a_sack_that_fills_a_packet_is_decoded() {
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
fn a_parameter_or_cause_that_exceeds_its_chunk_is_rejected() {
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
//# This parameter MUST NOT appear in any other chunk type.
//= specs/rfc6525.txt#section-4.2
//= type=test
//# This parameter MUST NOT appear in any other chunk type.
//= specs/rfc6525.txt#section-4.3
//= type=test
//# This parameter MUST NOT appear in any other chunk type.
//= specs/rfc6525.txt#section-4.4
//= type=test
//# This parameter MUST NOT appear in any other chunk type.
//= specs/rfc6525.txt#section-4.5
//= type=test
//# This parameter MUST NOT appear in any other chunk type.
//= specs/rfc6525.txt#section-4.6
//= type=test
//# This parameter MUST NOT appear in any other chunk type.
#[test]
fn reconfig_parameters_are_unknown_in_an_init() {
    let values =
        ["00000001 00000002 00000003", "00000001", "00000001", "00000001 00000001", "00000001 00010000"];
    for (kind, value) in (13..=18u16).zip(values.iter().chain(values.last())) {
        let raw = hex(&format!("{kind:04x} {:04x} {value}", 4 + hex(value).len()));
        let reconfig = [&[0x82, 0, 0, 4 + raw.len() as u8][..], &raw].concat();
        let Ok(Chunk::Reconfig(parameters)) = only(&reconfig) else { panic!("{reconfig:?}") };
        assert_eq!((parameters[0].kind(), parameters[0].unrecognized()), (kind, None));
        for init in [1, 2] {
            let fixed = hex("00000001 000005dc 0002 0003 00000004");
            let body = [&[init, 0, 0, 20 + raw.len() as u8][..], &fixed, &raw].concat();
            let Ok(Chunk::Init(read) | Chunk::InitAck(read)) = only(&body) else { panic!("{body:?}") };
            assert_eq!(read.parameters, [Parameter::Unknown { kind, raw: raw.clone() }]);
        }
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
fn reserved_bytes_of_add_streams_are_ignored() {
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
fn a_malformed_abort_is_ignored() {
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
fn i_forward_tsn_ignores_reserved_bits_and_needs_complete_entries() {
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
fn parameters_after_an_unknown_stop_parameter_are_ignored() {
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

//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# This parameter MUST be present in every ASCONF message, i.e.  it is
//# a mandatory TLV parameter.
#[test]
fn an_asconf_with_a_wrong_length_is_rejected() {
    // CVE-2022-46871: a length that was believed led out of the chunk.
    for (body, expected) in [
        ("c1000004", WireError::ChunkLength { kind: 0xc1, len: 4 }),
        ("c1000008 00000001", WireError::ChunkLength { kind: 0xc1, len: 8 }),
        ("c100000c 00000001 00050003", WireError::ParameterLength { kind: 5, len: 3 }),
        ("c1000010 00000001 00050009 0a000001", WireError::ParameterLength { kind: 5, len: 9 }),
        ("c1000014 00000001 000500080a000001 c0010007", WireError::ParameterLength { kind: 0xc001, len: 7 }),
        (
            "c1000018 00000001 000500080a000001 c001000c 00000001",
            WireError::ParameterLength { kind: 0xc001, len: 12 },
        ),
    ] {
        assert_eq!(only(&hex(body)), Err(expected), "{body}");
    }
    // An address that leaves its request is none.
    let inner = hex("c1000020 00000001 000500080a000001 c0010010 00000001 0006000c0a000002");
    let Ok(Chunk::Asconf(asconf)) = only(&inner) else { panic!("{:?}", only(&inner)) };
    assert!(matches!(asconf.requests[..], [Request { change: Change::Other { .. }, .. }]), "{asconf:?}");
}

#[test]
fn an_nr_sack_with_inconsistent_counts_is_malformed() {
    for bytes in [
        "10000018 00000001 000005dc 0001 0001 0000 0000 00020003",
        "10000018 00000001 000005dc 0000 0000 ffff 0000 00020003",
        "10000014 00000001 000005dc 0001 0000 0000 0000",
        "10000010 00000001 000005dc 0000 0000",
    ] {
        let raw = hex(bytes);
        assert_eq!(only(&raw), Err(WireError::ChunkLength { kind: 16, len: raw.len() }), "{bytes}");
    }
}
