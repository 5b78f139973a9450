//! Round trips of encoding and decoding.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

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
            // A value that is not on the wire is 0.
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
            | Parameter::KEY_MANAGEMENT
    )
}

fn is_unknown_chunk(kind: &u8) -> bool {
    !matches!(
        *kind,
        Auth::KIND
            | Asconf::KIND
            | AsconfAck::KIND
            | Data::INTERLEAVED_KIND
            | Dtls::KIND
            | Chunk::PAD
            | Chunk::RECONFIG
            | NrSack::KIND
            | CompactSack::KIND
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
        (any::<u32>(), any::<u8>(), bytes(1..9)).prop_map(|(tie_breaker, flags, methods)| {
            Parameter::KeyManagement(KeyManagement { tie_breaker, flags, methods })
        }),
        Just(Parameter::EcnCapable),
        any::<u32>().prop_map(Parameter::ZeroChecksum),
        // Types that stop the processing would hide the following parameters.
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
        Just(Cause::MissingDtlsSupport),
        Just(Cause::NoCommonKeyManagement),
        Just(Cause::TieBreakerCollision),
        Just(Cause::IncompatibleKeyManagementRoles),
        bytes(0..32).prop_map(Cause::NoAuthorization),
        (
            (14u16..).prop_filter("unknown", |code| !matches!(code, 100..=103 | 0xa0..=0xa4 | 0x105)),
            bytes(0..32)
        )
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
                flags: 0,
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
        (any::<bool>(), bytes(1..99))
            .prop_map(|(is_restart, record)| Chunk::Dtls(Dtls { is_restart, record })),
        asconf_ack().prop_map(Chunk::AsconfAck),
        (0..2_000_u16).prop_map(Chunk::Pad),
        (any::<(u16, u16)>(), bytes(0..40)).prop_map(|((key_id, hmac_id), hmac)| Chunk::Auth(Auth {
            key_id,
            hmac_id,
            hmac
        })),
        (any::<[u32; 2]>(), [(); 2].map(|()| vec(any::<(u16, u16)>(), 0..9)), vec(any::<u32>(), 0..9))
            .prop_map(|([cum, a_rwnd], [gaps, nr_gaps], dups)| {
                let dups = dups.into_iter().map(Tsn).collect();
                Chunk::NrSack(NrSack { flags: 0, cum_tsn_ack: Tsn(cum), a_rwnd, gaps, nr_gaps, dups })
            }),
        (any::<bool>(), any::<[u32; 2]>(), vec((1..900_u16, 1..900_u16), 0..30), vec(any::<u32>(), 0..9))
            .prop_map(|(is_cut, [cum, a_rwnd], lengths, dups)| {
                let mut last = 0;
                let block = |(missing, arrived)| {
                    let first = last + missing + 1;
                    last += missing + arrived;
                    (first, last)
                };
                let gaps = lengths.into_iter().map(block).collect();
                let dups = dups.into_iter().map(Tsn).collect();
                Chunk::CompactSack(CompactSack { is_cut, cum_tsn_ack: Tsn(cum), a_rwnd, gaps, dups })
            }),
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
    fn messages_round_trip(chunks in vec(chunk(), 1..6), tag: u32, ports: (u16, u16)) {
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
            // A decoded packet can be encoded, and decodes to the same.
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
