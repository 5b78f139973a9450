//! Chunks of a script as bytes and compared with bytes; errors of the grammar.

use proptest::prelude::*;

use super::*;
use crate::script::{Content, Kind, What};

/// The chunk in `text`.
fn chunk(text: &str, direction: Direction) -> Result<Pattern> {
    let sign = if direction == Direction::In { '<' } else { '>' };
    let script = crate::parser::parse(&format!("0 {sign} sctp: {text}"), &Default::default())?;
    let What::Packet(packet) = &script.events[0].what else { panic!("a packet") };
    let Content::Chunks(items) = &packet.content else { panic!("chunks") };
    Pattern::new(&items[0], direction)
}

fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    chunk(text, Direction::In).unwrap().encode(&Prepared::default(), &mut bytes);
    bytes
}

/// The difference between the pattern `expected` and the chunk `sent`.
fn differs(expected: &str, sent: &str) -> Option<String> {
    differs_in(Exactness::Exact, expected, sent)
}

fn differs_in(exactness: Exactness, expected: &str, sent: &str) -> Option<String> {
    let bytes = bytes(sent);
    chunk(expected, Direction::Out).unwrap().differs(chunks(&bytes).next().unwrap(), exactness)
}

#[test]
fn chunks_are_encoded_as_in_the_rfc() {
    let data = bytes("DATA[flgs=IBE, len=18, tsn=1, sid=2, ssn=3, ppid=0x0405]");
    assert_eq!(data, [0, 0b1011, 0, 18, 0, 0, 0, 1, 0, 2, 0, 3, 0, 0, 4, 5, 0, 0, 0, 0]);
    let sack = bytes("SACK[flgs=0, cum_tsn=7, a_rwnd=8, gaps=[2:3], dups=[9]]");
    assert_eq!(sack, [3, 0, 0, 24, 0, 0, 0, 7, 0, 0, 0, 8, 0, 1, 0, 1, 0, 2, 0, 3, 0, 0, 0, 9]);
    let init = bytes(
        "INIT[flgs=0, tag=1, a_rwnd=2, os=3, is=4, tsn=5, PARAMETER[type=0xc00c, len=5, val=[255]], IPV4_ADDRESS[addr=1.2.3.4]]",
    );
    assert_eq!(init[..20], [1, 0, 0, 36, 0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 4, 0, 0, 0, 5]);
    assert_eq!(init[20..], [0xc0, 0x0c, 0, 5, 255, 0, 0, 0, 0, 5, 0, 8, 1, 2, 3, 4]);
    assert_eq!(bytes("SHUTDOWN_COMPLETE[flgs=T]"), [14, 1, 0, 4]);
    let error = bytes("ERROR[flgs=0, INVALID_STREAM_IDENTIFIER[sid=3]]");
    assert_eq!(error, [9, 0, 0, 12, 0, 1, 0, 8, 0, 3, 0, 0]);
    // The padding of the last parameter does not count in the chunk's length.
    assert_eq!(
        bytes("ABORT[flgs=0, USER_INITIATED_ABORT[info=\"a\"]]"),
        [6, 0, 0, 9, 0, 12, 0, 5, b'a', 0, 0, 0]
    );
}

#[test]
fn a_chunk_may_lie_about_its_length() {
    assert_eq!(bytes("CHUNK[type=SACK, flgs=0, len=8, val=[0, 1]]"), [3, 0, 0, 8, 0, 1, 0, 0]);
    assert_eq!(bytes("DATA[flgs=BE, len=16, tsn=1, sid=0, ssn=0, ppid=0]").len(), 16);
}

#[test]
fn received_values_are_returned() {
    let prepared = Prepared { cookie: Some(vec![1, 2, 3]), heartbeat: Some(vec![0, 1, 0, 6, 7, 8]) };
    let encode = |text: &str| {
        let mut bytes = Vec::new();
        chunk(text, Direction::In).unwrap().encode(&prepared, &mut bytes);
        bytes
    };
    assert_eq!(encode("COOKIE_ECHO[flgs=0, len=..., val=...]"), [10, 0, 0, 7, 1, 2, 3, 0]);
    assert_eq!(encode("COOKIE_ECHO[flgs=0, len=5, val=[9]]"), [10, 0, 0, 5, 9, 0, 0, 0]);
    let ack = "HEARTBEAT_ACK[flgs=0, HEARTBEAT_INFORMATION[len=..., val=...]]";
    assert_eq!(encode(ack), [5, 0, 0, 10, 0, 1, 0, 6, 7, 8, 0, 0]);
}

#[test]
fn every_field_is_compared_unless_it_is_a_wildcard() {
    let sent = "SACK[flgs=0, cum_tsn=7, a_rwnd=8, gaps=[2:3], dups=[9]]";
    assert_eq!(differs(sent, sent), None);
    assert_eq!(differs("SACK[flgs=..., cum_tsn=..., a_rwnd=..., gaps=..., dups=[...]]", sent), None);
    for (expected, difference) in [
        ("SACK[flgs=1, cum_tsn=7, a_rwnd=8, gaps=[2:3], dups=[9]]", "flgs: expected 1, got 0"),
        ("SACK[flgs=0, cum_tsn=6, a_rwnd=8, gaps=[2:3], dups=[9]]", "cum_tsn: expected 6, got 7"),
        ("SACK[flgs=0, cum_tsn=7, a_rwnd=8, gaps=[2:4], dups=[9]]", "gaps: expected [2:4], got [2:3]"),
        ("SACK[flgs=0, cum_tsn=7, a_rwnd=8, gaps=[2:3], dups=[]]", "dups: expected [], got [9]"),
        ("COOKIE_ACK[flgs=0]", "chunk: expected COOKIE_ACK, got SACK"),
    ] {
        assert_eq!(differs(expected, sent).as_deref(), Some(difference));
    }
}

#[test]
fn parameters_and_causes_are_compared_one_by_one() {
    let init = |parameters: &str| format!("INIT[flgs=0, tag=1, a_rwnd=2, os=3, is=4, tsn=5{parameters}]");
    let sent = init(", ECN_CAPABLE[], SUPPORTED_ADDRESS_TYPES[types=[IPv4, IPv6]]");
    assert_eq!(differs(&sent, &sent), None);
    assert_eq!(differs(&init(", ..."), &sent), None);
    assert_eq!(differs(&init(""), &sent).unwrap(), "parameter: expected the end of the chunk, got 0x8000");
    assert!(
        differs(&init(", ECN_CAPABLE[]"), &sent)
            .unwrap()
            .contains("expected the end of the chunk, got 0x000c")
    );
    assert!(differs(&init(", PAD[...]"), &sent).unwrap().contains("expected PAD"));
    let abort = |causes: &str| format!("ABORT[flgs=0{causes}]");
    let sent =
        abort(", UNRECOGNIZED_CHUNK_TYPE[chk=CHUNK[type=0x7e, flgs=0, len=4, val=[]]], NO_USER_DATA[tsn=3]");
    assert_eq!(differs(&sent, &sent), None);
    assert_eq!(differs(&abort(", UNRECOGNIZED_CHUNK_TYPE[chk=...], NO_USER_DATA[tsn=...]"), &sent), None);
    let other =
        abort(", UNRECOGNIZED_CHUNK_TYPE[chk=CHUNK[type=0x7f, flgs=0, len=4, val=[]]], NO_USER_DATA[tsn=3]");
    assert!(differs(&other, &sent).unwrap().starts_with("UNRECOGNIZED_CHUNK_TYPE: chunk: expected"));
}

#[test]
fn injected_packets_must_be_complete() {
    for text in [
        "DATA[flgs=BE, len=..., tsn=1, sid=0, ssn=0, ppid=0]",
        "INIT[flgs=0, tag=..., a_rwnd=1, os=1, is=1, tsn=1]",
        "INIT[flgs=0, tag=1, a_rwnd=1, os=1, is=1, tsn=1, ...]",
        "INIT[flgs=0, tag=1, a_rwnd=1, os=1, is=1, tsn=1, PARAMETER[type=1, len=8, val=...]]",
        "SACK[flgs=0, cum_tsn=1, a_rwnd=1, gaps=..., dups=[]]",
        "ABORT[flgs=0, ...]",
        "CHUNK[type=..., flgs=0, len=4, val=[]]",
    ] {
        assert!(chunk(text, Direction::In).unwrap_err().what.contains("must be given"), "{text}");
        assert!(chunk(text, Direction::Out).is_ok(), "{text}");
    }
}

#[test]
fn grammar_errors_are_reported() {
    for (text, what) in [
        ("DATA[flgs=BB, len=20, tsn=1, sid=0, ssn=0, ppid=0]", "letters of EBUI, each at most once"),
        ("DATA[len=20, flgs=0, tsn=1, sid=0, ssn=0, ppid=0]", "expected flgs=, got len="),
        ("DATA[flgs=0, len=15, tsn=1, sid=0, ssn=0, ppid=0]", "a number from 16 to 65535"),
        ("COOKIE_ACK[flgs=256]", "a byte"),
        ("COOKIE_ACK[flgs=0, tsn=1]", "unexpected field tsn"),
        ("COOKIE_ECHO[flgs=0, len=9, val=[1]]", "len=9 does not match"),
        ("CHUNK[type=1, flgs=0, len=4, val=[1]]", "len=4 is too small"),
        ("INIT[flgs=0, tag=1, a_rwnd=1, os=65536, is=1, tsn=1]", "from 0 to 65535"),
        ("SACKS[flgs=0]", "unknown chunk `SACKS`"),
        ("ABORT[flgs=0, NO_CAUSE[]]", "unknown cause `NO_CAUSE`"),
    ] {
        let error = chunk(text, Direction::Out).unwrap_err();
        assert_eq!(error.kind, Kind::Invalid);
        assert!(error.what.contains(what), "{text}: {}", error.what);
    }
}

#[test]
fn chunks_of_extensions_are_encoded_as_in_their_rfcs() {
    for (text, expected) in [
        (
            "I_DATA[flgs=UBE, len=22, tsn=1, sid=2, mid=3, ppid=4]",
            &[64, 7, 0, 22, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0][..],
        ),
        (
            "I_DATA[flgs=0, len=20, tsn=1, sid=2, mid=3, fsn=4]",
            &[64, 0, 0, 20, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4],
        ),
        (
            "NR_SACK[flgs=0, cum_tsn=1, a_rwnd=2, gaps=[2:3], nr_gaps=[4:5], dups=[6]]",
            &[
                16, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 1, 0, 1, 0, 0, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0,
                0, 6,
            ],
        ),
        ("ECNE[flgs=0, tsn=7]", &[12, 0, 0, 8, 0, 0, 0, 7]),
        ("CWR[flgs=0, tsn=7]", &[13, 0, 0, 8, 0, 0, 0, 7]),
        ("PAD[flgs=0, len=6, val=...]", &[132, 0, 0, 6, 0, 0, 0, 0]),
        ("FORWARD_TSN[cum_tsn=2, ids=[{1,3},{4,5}]]", &[192, 0, 0, 16, 0, 0, 0, 2, 0, 1, 0, 3, 0, 4, 0, 5]),
        ("I_FORWARD_TSN[cum_tsn=2, ids=[{1,1,3}]]", &[194, 0, 0, 16, 0, 0, 0, 2, 0, 1, 0, 1, 0, 0, 0, 3]),
        ("AUTH[flgs=0, len=10, shk_id=1, hmac_id=3, hmac=[9, 8]]", &[15, 0, 0, 10, 0, 1, 0, 3, 9, 8, 0, 0]),
        (
            "RECONFIG[flgs=0, OUTGOING_SSN_RESET[req_sn=1, resp_sn=2, last_tsn=3, sids=[4]]]",
            &[130, 0, 0, 22, 0, 13, 0, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 4, 0, 0],
        ),
        (
            "RECONFIG[flgs=0, RECONFIG_RESPONSE[resp_sn=1, result=2]]",
            &[130, 0, 0, 16, 0, 16, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2],
        ),
        (
            "RECONFIG[flgs=0, ADD_INCOMING_STREAMS[req_sn=1, number_of_new_streams=2]]",
            &[130, 0, 0, 16, 0, 18, 0, 12, 0, 0, 0, 1, 0, 2, 0, 0],
        ),
        (
            "ASCONF[flgs=0, serial=1, ADD_IP_ADDRESS[correlation_id=2, IPV4_ADDRESS[addr=1.2.3.4]]]",
            &[0xc1, 0, 0, 24, 0, 0, 0, 1, 0xc0, 1, 0, 16, 0, 0, 0, 2, 0, 5, 0, 8, 1, 2, 3, 4],
        ),
    ] {
        assert_eq!(bytes(text), expected, "{text}");
        assert_eq!(differs(text, text), None, "{text}");
        // A difference in the last number before the padding is detected.
        let mut other = bytes(text);
        let last = usize::from(u16::from_be_bytes([other[2], other[3]])) - 1;
        other[last] ^= 1;
        let difference =
            chunk(text, Direction::Out).unwrap().differs(chunks(&other).next().unwrap(), Exactness::Exact);
        assert!(
            difference.is_some() || text.starts_with("PAD") || text.starts_with("I_DATA[flgs=UBE"),
            "{text}"
        );
    }
}

#[test]
fn with_exactness_meaning_parameters_may_have_any_order() {
    let init = |parameters: &str| format!("INIT[flgs=0, tag=1, a_rwnd=2, os=3, is=4, tsn=5{parameters}]");
    let kernel = init(
        ", FORWARD_TSN_SUPPORTED[], SUPPORTED_EXTENSIONS[types=[FORWARD_TSN, I_FORWARD_TSN, I_DATA]], SUPPORTED_ADDRESS_TYPES[types=[IPv4]]",
    );
    let ours =
        init(", SUPPORTED_EXTENSIONS[types=[FORWARD_TSN, I_DATA, I_FORWARD_TSN]], FORWARD_TSN_SUPPORTED[]");
    assert!(differs(&kernel, &ours).is_some());
    assert_eq!(differs_in(Exactness::Meaning, &kernel, &ours), None);
    assert_eq!(differs_in(Exactness::Meaning, &ours, &kernel), None);
    let less = init(", SUPPORTED_EXTENSIONS[types=[FORWARD_TSN, I_DATA, I_FORWARD_TSN]]");
    let difference = |expected: &str, sent: &str| differs_in(Exactness::Meaning, expected, sent).unwrap();
    assert_eq!(difference(&ours, &less), "parameter: expected FORWARD_TSN_SUPPORTED, got none");
    assert_eq!(difference(&less, &ours), "parameter: expected the end of the chunk, got 0xc000");
    let others = init(", SUPPORTED_EXTENSIONS[types=[FORWARD_TSN, I_DATA, ASCONF]], FORWARD_TSN_SUPPORTED[]");
    assert!(difference(&ours, &others).starts_with("value of SUPPORTED_EXTENSIONS"));
    // A parameter that occurs twice differs from one that occurs once.
    assert!(
        difference(&init(", PAD[len=4, val=...]"), &init(", PAD[len=4, val=...], PAD[len=4, val=...]"))
            .contains("the end of the chunk")
    );
    let forward = |ids: &str| format!("FORWARD_TSN[cum_tsn=2, ids=[{ids}]]");
    assert_eq!(differs_in(Exactness::Meaning, &forward("{1,0},{2,0},{1,0}"), &forward("{2,0},{1,0}")), None);
    assert!(differs(&forward("{1,0},{2,0}"), &forward("{2,0},{1,0}")).is_some());
    assert_eq!(difference(&forward("{1,1}"), &forward("{1,0}")), "ids: expected [{1,1}], got [{1,0}]");
}

#[test]
fn a_sack_may_have_any_position_among_control_chunks() {
    let order = |kinds: &[u8]| {
        let mut kinds: Vec<_> = kinds.iter().map(|kind| Some(*kind)).collect();
        sacks_first(&mut kinds, |kind| *kind);
        kinds.into_iter().flatten().collect::<Vec<_>>()
    };
    // SHUTDOWN, ERROR and SACK in any order.
    assert_eq!(order(&[7, 9, 3]), [3, 7, 9]);
    assert_eq!(order(&[7, 9, 3]), order(&[7, 3, 9]));
    assert_ne!(order(&[7, 9, 3]), order(&[9, 7, 3]));
    // COOKIE ACK is first, AUTH precedes what it authenticates, DATA is last.
    assert_eq!(order(&[11, 9, 3, 0]), [11, 3, 9, 0]);
    assert_eq!(order(&[3, 11]), [3, 11]);
    assert_eq!(order(&[9, 15, 3]), [9, 15, 3]);
    assert_eq!(order(&[9, 0, 3]), [9, 0, 3]);
}

proptest! {
    #[test]
    fn no_bytes_make_the_comparison_panic(mut sent in prop::collection::vec(any::<u8>(), 4..64), kind in 0u8..16) {
        let len = sent.len() as u16;
        sent[2..4].copy_from_slice(&len.to_be_bytes());
        sent[0] = kind;
        for text in [
            "SACK[flgs=..., cum_tsn=..., a_rwnd=..., gaps=[], dups=[]]",
            "ERROR[flgs=..., CAUSE[code=..., len=..., info=...], UNRECOGNIZED_CHUNK_TYPE[chk=COOKIE_ACK[flgs=0]]]",
            "INIT[flgs=..., tag=..., a_rwnd=..., os=..., is=..., tsn=..., UNRECOGNIZED_PARAMETER[params=[ECN_CAPABLE[]]]]",
            "DATA[flgs=..., len=..., tsn=..., sid=..., ssn=..., ppid=...]",
            "NR_SACK[flgs=..., cum_tsn=..., a_rwnd=..., gaps=[], nr_gaps=..., dups=[]]",
            "I_FORWARD_TSN[cum_tsn=..., ids=[{1,0,0}]]",
            "RECONFIG[flgs=..., OUTGOING_SSN_RESET[req_sn=..., resp_sn=..., last_tsn=..., sids=[1]]]",
            "ASCONF[flgs=..., serial=..., ADD_IP_ADDRESS[correlation_id=..., IPV4_ADDRESS[addr=...]]]",
        ] {
            let mut pattern = chunk(text, Direction::Out).unwrap();
            pattern.kind = None;
            let _ = pattern.differs(&sent, Exactness::Meaning);
        }
    }
}
