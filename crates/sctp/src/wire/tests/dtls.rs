//! The DTLS chunk, its parameter and its error causes, byte by byte (draft-ietf-tsvwg-sctp-dtls-chunk §4).

use super::*;

fn parameters(body: &str) -> Vec<Parameter> {
    // An INIT of 20 bytes before them.
    let body = hex(body);
    let head = hex("00000001 0000ffff 00010001 00000007");
    let init = [&[1, 0][..], &(20 + body.len() as u16).to_be_bytes(), &head, &body].concat();
    match only(&init) {
        Ok(Chunk::Init(init)) => init.parameters,
        other => panic!("{other:?}"),
    }
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
//= type=test
//# This value MUST be set to 0x8006.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
//= type=test
//# The padding MUST be set to 0 by the sender and MUST be ignored by the receiver.
#[test]
fn the_key_management_parameter_has_the_bytes_of_the_draft() {
    let keys = KeyManagement {
        tie_breaker: 0x0102_0304,
        flags: KeyManagement::RESTART | KeyManagement::CLIENT,
        methods: Bytes::from_static(&[192, 0]),
    };
    let mut written = BytesMut::new();
    Parameter::KeyManagement(keys.clone()).encode(&mut written);
    assert_eq!(written, hex("8006 000b 01020304 05 c0 00 00"));
    let expected = Parameter::KeyManagement(keys);
    assert_eq!(parameters("8006 000b 01020304 05 c0 00 00"), std::slice::from_ref(&expected));
    // What the padding is.
    assert_eq!(parameters("8006 000b 01020304 05 c0 00 ff"), std::slice::from_ref(&expected));
    assert_eq!(expected.to_string(), "DTLS_KEY_MANAGEMENT[flgs=RC, tie_breaker=16909060, ids=[192, 0]]");
    // Who does not know it skips it without a word.
    assert_eq!(Unrecognized::of_parameter(0x8006), Unrecognized::Skip);
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
//= type=test
//# The parameter MUST include at least one DTLS Key Management Identifier.
#[test]
fn a_key_management_parameter_without_a_method_is_none() {
    for body in ["8006 0009 01020304 03 000000", "8006 0008 01020304", "8006 0004"] {
        assert!(
            matches!(parameters(body)[..], [Parameter::Unknown { kind: Parameter::KEY_MANAGEMENT, .. }]),
            "{body}"
        );
    }
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
//= type=test
//# This value MUST be set to 0x41.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
//= type=test
//# These bits MUST be set to 0 by
//# the sender and MUST be ignored by the receiver.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
//= type=test
//# The sender MUST pad with one zero byte and the receiver MUST ignore the
//# padding bytes.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
//= type=test
//# The Padding MUST NOT be longer than 3 bytes and it MUST
//# be ignored by the receiver.
#[test]
fn the_dtls_chunk_has_the_bytes_of_the_draft() {
    let chunk = Chunk::Dtls(Dtls { is_restart: true, record: hex("2b 0102 aabb") });
    let mut written = BytesMut::new();
    chunk.encode(&mut written);
    assert_eq!(written, hex("41 01 000a 00 2b 0102 aabb 0000"));
    assert_eq!(only(&written), Ok(chunk.clone()));
    // Reserved bits and both paddings.
    assert_eq!(only(&hex("41 ff 000a 99 2b 0102 aabb 77 66")), Ok(chunk.clone()));
    assert_eq!(chunk.to_string(), "DTLS[flgs=R, len=10, val=...]");
    assert_eq!(Unrecognized::of_chunk(Dtls::KIND), Unrecognized::StopAndReport);
    // Without a record there is nothing to open.
    for raw in ["41 00 0004", "41 00 0005 00 000000"] {
        assert!(matches!(only(&hex(raw)), Ok(Chunk::Unknown { kind: Dtls::KIND, .. })), "{raw}");
    }
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.1
//= type=test
//# This value MUST be set to 100 (TBC).
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.1
//= type=test
//# This value MUST be set to 4.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.2
//= type=test
//# This value MUST be set to 101 (TBC).
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.2
//= type=test
//# This value MUST be set to 4.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.3
//= type=test
//# This value MUST be set to 102 (TBC).
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.3
//= type=test
//# This value MUST be set to 4.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.4
//= type=test
//# This value MUST be set to 103 (TBC).
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.4
//= type=test
//# This value MUST be set to 4.
#[test]
fn the_error_causes_have_the_numbers_of_the_draft() {
    let causes = [
        Cause::MissingDtlsSupport,
        Cause::NoCommonKeyManagement,
        Cause::TieBreakerCollision,
        Cause::IncompatibleKeyManagementRoles,
    ];
    let chunk = Chunk::Abort { reflected: false, causes: causes.to_vec() };
    let mut written = BytesMut::new();
    chunk.encode(&mut written);
    assert_eq!(written, hex("06 00 0014 0064 0004 0065 0004 0066 0004 0067 0004"));
    assert_eq!(only(&written), Ok(chunk));
}
