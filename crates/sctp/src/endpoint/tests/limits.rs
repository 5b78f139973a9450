//! Limits on what peers can make grow.

use super::*;
use crate::dtls::{DtlsConfig, offer};

fn from_port(port: u16) -> Header {
    Header { source_port: port, ..to_bench(VerificationTag(0)) }
}

#[test]
fn a_hundred_thousand_inits_leave_nothing_behind_and_a_real_client_is_served() {
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# After sending an INIT ACK chunk with the State Cookie parameter, "Z"
    //# MUST NOT allocate any resources or keep any states for the new
    //# association.
    let mut bench = Bench::new();
    let mut answered = 0;
    for flood in 0..100_000u32 {
        // All ports of two hosts.
        let port = 1 + (flood % 65_535) as u16;
        let from = SocketAddr::from(([198, 51, 100, (flood / 65_535) as u8], 5_000));
        let init = Init { initiate_tag: VerificationTag(flood + 1), ..init() };
        bench.endpoint.handle(bench.now, datagram(from, from_port(port), &[Chunk::Init(init)]));
        if flood % 64 == 63 {
            answered += bench.drain().len();
        }
        bench.pass(Duration::from_micros(10));
    }
    answered += bench.drain().len();
    // All from one network: its share of the past second, and the saved share of the second before.
    let given = Limits::default().init_acks as usize;
    assert!((given - 1..=given + 1).contains(&answered), "{answered}");
    assert_eq!(bench.endpoint.counters().answers_dropped, 100_000 - answered as u64);
    assert_eq!(bench.endpoint.footprint(), Bench::new().endpoint.footprint());
    bench.establish();
}

#[test]
fn a_flood_between_two_drains_waits_in_a_bounded_queue() {
    let mut bench = Bench::new();
    for port in 1..=10_000 {
        bench.endpoint.handle(bench.now, datagram(peer(), from_port(port), &[Chunk::Init(init())]));
    }
    assert_eq!(bench.drain().len(), Limits::default().answers);
    assert_eq!(bench.endpoint.counters().answers_dropped, 10_000 - Limits::default().answers as u64);
}

#[test]
fn a_flood_does_not_delay_the_packets_of_an_association() {
    let mut bench = Bench::new();
    let ack = bench.establish();
    for port in 1..=200 {
        let flooder = SocketAddr::from(([198, 51, 100, 1], 5_000));
        bench.endpoint.handle(bench.now, datagram(flooder, from_port(port), &[Chunk::Init(init())]));
    }
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"there?"));
    bench.endpoint.handle(bench.now, datagram(peer(), to_bench(ack.initiate_tag), &[heartbeat]));
    let sent = bench.drain();
    assert_eq!(sent.len(), 201);
    let at = sent.iter().position(|sent| sent.text().starts_with("HEARTBEAT_ACK"));
    assert!(at.is_some_and(|at| at <= 1), "{at:?}");
}

#[test]
fn an_oversized_init_gets_a_small_answer() {
    //= specs/rfc9260.txt#section-12.4
    //= type=test
    //# An SCTP implementation SHOULD attempt to make the INIT ACK chunk as
    //# small as possible to reduce the possibility of byte amplification
    //# attacks.
    let mut bench = Bench::new();
    let parameters =
        (0..8_000u32).map(|host| Parameter::Address(std::net::Ipv4Addr::from_bits(host + 1).into()));
    let ack = bench.shake(Init { parameters: parameters.collect(), ..init() });
    assert!(Chunk::InitAck(ack.clone()).padded_len() < 300);
    assert_eq!(bench.ask(ack.initiate_tag, &[echo(&ack)]).text(), "COOKIE_ACK[flgs=0]");
    // All addresses of a restarted peer are new.
    let parameters =
        (0..8_000u32).map(|host| Parameter::Address(std::net::Ipv4Addr::from_bits(host + 1).into()));
    let initiate_tag = VerificationTag(PEER_TAG.0 ^ 1);
    let again = Init { parameters: parameters.collect(), initiate_tag, ..init() };
    let answer = bench.ask(VerificationTag(0), &[Chunk::Init(again)]);
    assert!(answer.text().starts_with("ABORT[flgs=0, RESTART_WITH_NEW_ADDRESSES["));
    assert!(answer.chunks[0].padded_len() < 300);
}

#[test]
fn a_full_endpoint_rejects_inits() {
    let limits = Limits { associations: 1, ..Limits::default() };
    let mut bench = Bench::with_limits(limits);
    let others = |bench: &mut Bench, chunks: &[Chunk], tag| {
        let header = Header { source_port: PEER_PORT + 1, ..to_bench(tag) };
        bench.tell_raw(datagram(peer(), header, chunks)).remove(0)
    };
    let Some(Chunk::InitAck(ack)) =
        others(&mut bench, &[Chunk::Init(init())], VerificationTag(0)).chunks.pop()
    else {
        panic!("not answered")
    };
    bench.establish();
    let full = "ABORT[flgs=0, OUT_OF_RESOURCE[]]";
    assert_eq!(others(&mut bench, &[echo(&ack)], ack.initiate_tag).text(), full, "a cookie from before");
    assert_eq!(others(&mut bench, &[Chunk::Init(init())], VerificationTag(0)).text(), full);
    let connect = Connect {
        local: vec![local()],
        peer: vec![stranger()],
        source_port: None,
        destination_port: 21,
        config: Arc::new(config()),
    };
    assert_eq!(bench.endpoint.connect(bench.now, connect.clone()), Err(ConnectError::TooMany));
    let id = bench.id();
    bench.endpoint.remove(id);
    bench.drain();
    assert!(bench.endpoint.connect(bench.now, connect).is_ok());
}

#[test]
fn ended_associations_leave_no_state() {
    //= specs/rfc9260.txt#section-9
    //= type=test
    //# An endpoint SHOULD terminate its association when it exits from
    //# service.
    //= specs/rfc9260.txt#section-14.2
    //= type=test
    //# Note: No "CLOSED" state is illustrated, since, if an association is
    //# "CLOSED", its TCB SHOULD be removed.
    let mut bench = Bench::new();
    let mut ids = std::collections::BTreeSet::new();
    for round in 0..200 {
        let ack = bench.shake(init());
        bench.tell(ack.initiate_tag, &[echo(&ack)]);
        let id = bench.events.last().expect("accepted").0;
        assert!(ids.insert(id), "an id is never used twice");
        bench.endpoint.remove(id);
        let last = bench.drain();
        assert_eq!(last.len(), 1, "round {round}");
        assert!(last[0].text().starts_with("ABORT["), "{last:?}");
        assert!(bench.endpoint.association(id).is_none());
        assert_eq!(bench.events.iter().filter(|(_, event)| matches!(event, Event::Closed(_))).count(), 0);
        bench.events.clear();
        bench.pass(Duration::from_secs(1));
    }
    let footprint = bench.endpoint.footprint();
    assert!(bench.endpoint.is_empty());
    assert!(footprint.spent <= 61, "tags are remembered while their cookies live: {footprint:?}");
    assert_eq!(Footprint { spent: 0, slots: 0, ..footprint }, Bench::new().endpoint.footprint());
}

#[test]
fn ports_are_listened_on_once_and_never_0() {
    //= specs/rfc9260.txt#section-1.3
    //= type=test
    //# A transport address used by an SCTP endpoint MUST NOT be used by
    //# another SCTP endpoint.
    let mut bench = Bench::new();
    assert_eq!(bench.endpoint.listen(0, Arc::new(config())), Err(ListenError::PortZero));
    assert_eq!(bench.endpoint.listen(LOCAL_PORT, Arc::new(config())), Err(ListenError::InUse));
    bench.endpoint.unlisten(LOCAL_PORT);
    assert_eq!(bench.endpoint.listen(LOCAL_PORT, Arc::new(config())), Ok(()));
}

#[test]
fn invalid_connects_return_errors() {
    //= specs/rfc9260.txt#section-3.1
    //= type=test
    //# The Source Port Number 0 MUST NOT be used.
    //= specs/rfc9260.txt#section-3.1
    //= type=test
    //# The Destination Port Number 0 MUST NOT be used.
    let mut endpoint = Endpoint::new([1; 32]);
    let good = Connect {
        local: vec![local()],
        peer: vec![peer()],
        source_port: Some(PEER_PORT),
        destination_port: 21,
        config: Arc::new(config()),
    };
    let bad = |change: fn(&mut Connect)| {
        let mut connect = good.clone();
        change(&mut connect);
        connect
    };
    for (connect, error) in [
        (bad(|c| c.local.clear()), ConnectError::NoAddress),
        (bad(|c| c.peer.clear()), ConnectError::NoAddress),
        (bad(|c| c.peer.push("224.0.0.1:1".parse().unwrap())), ConnectError::NotUnicast),
        (bad(|c| c.destination_port = 0), ConnectError::PortZero),
        (bad(|c| c.source_port = Some(0)), ConnectError::PortZero),
    ] {
        assert_eq!(endpoint.connect(Time::ZERO, connect), Err(error));
    }
    endpoint.connect(Time::ZERO, good.clone()).unwrap();
    assert_eq!(endpoint.connect(Time::ZERO, good.clone()), Err(ConnectError::InUse));
    assert!(endpoint.connect(Time::ZERO, bad(|c| c.source_port = None)).is_ok());
    assert!(endpoint.connect(Time::ZERO, bad(|c| c.destination_port = 22)).is_ok());
}

/// A bench that listens with protection alone.
fn protected(limits: Limits) -> Bench {
    let mut endpoint = Endpoint::with_limits([1; 32], limits);
    let config = config().with(|c| c.security.dtls = Some(DtlsConfig::default()));
    endpoint.listen(LOCAL_PORT, Arc::new(config)).unwrap();
    Bench { now: Time::from_millis(5_000), endpoint, events: Vec::new() }
}

/// The COOKIE ECHO of a peer that wants protection, at this host and SCTP port, after its INIT.
fn wants_protection(bench: &mut Bench, host: [u8; 4], port: u16, more: &[Chunk]) -> Datagram {
    let from = SocketAddr::from((host, 5_000));
    let parameters = vec![Parameter::KeyManagement(offer(&DtlsConfig::default(), 7))];
    let init = Init { parameters, ..init() };
    let sent = bench.tell_raw(datagram(from, from_port(port), &[Chunk::Init(init)]));
    let [Sent { chunks, .. }] = &sent[..] else { panic!("{sent:?}") };
    let [Chunk::InitAck(ack)] = &chunks[..] else { panic!("{sent:?}") };
    let header = Header { tag: ack.initiate_tag, ..from_port(port) };
    datagram(from, header, &[&[echo(ack)], more].concat())
}

fn is_accepted(sent: &[Sent]) -> bool {
    sent.iter().any(|sent| sent.text().starts_with("COOKIE_ACK"))
}

#[test]
fn handshakes_beyond_the_rate_wait_and_networks_are_served_in_turn() {
    let limits = Limits { handshakes: 10, waiting_handshakes: 4, ..Limits::default() };
    let mut bench = protected(limits);
    let crowd = [198, 51, 100, 1];
    let first = wants_protection(&mut bench, crowd, 1, &[]);
    assert!(is_accepted(&bench.tell_raw(first.clone())));
    for port in 2..=10 {
        let echo = wants_protection(&mut bench, crowd, port, &[]);
        assert!(is_accepted(&bench.tell_raw(echo)), "{port}");
    }
    for port in 11..=14 {
        let echo = wants_protection(&mut bench, crowd, port, &[]);
        assert!(bench.tell_raw(echo.clone()).is_empty(), "{port}");
        assert!(bench.tell_raw(echo).is_empty(), "a retransmission waits with the first one");
    }
    assert_eq!((bench.endpoint.len(), bench.endpoint.waiting.len()), (10, 4));
    assert_eq!(bench.endpoint.counters().handshakes_dropped, 0);
    let no_room = wants_protection(&mut bench, crowd, 15, &[]);
    assert!(bench.tell_raw(no_room.clone()).is_empty());
    assert_eq!((bench.endpoint.waiting.len(), bench.endpoint.counters().handshakes_dropped), (4, 1));
    assert!(is_accepted(&bench.tell_raw(first)), "it has an association");
    // Clients of two other networks take turns of the reserve, which puts off those who wait.
    for (network, port) in [(113, 75), (114, 76)] {
        let newcomer = wants_protection(&mut bench, [203, 0, network, 1], port, &[]);
        assert!(is_accepted(&bench.tell_raw(newcomer)));
    }
    assert_eq!((bench.endpoint.len(), bench.endpoint.waiting.len()), (12, 4));
    // A client of a third network displaces one of the crowd, which has had no turn since it began to wait: the client has the
    // third at the latest.
    let other = wants_protection(&mut bench, [203, 0, 115, 1], 77, &[]);
    assert!(bench.tell_raw(other).is_empty());
    assert_eq!((bench.endpoint.waiting.len(), bench.endpoint.counters().handshakes_dropped), (4, 2));
    let mut served = Vec::new();
    for until_due in [300, 100, 100, 100] {
        let Output::Wait(Some(due)) = bench.endpoint.poll(bench.now) else { panic!("a turn is due") };
        assert_eq!(due, bench.now + Duration::from_millis(until_due));
        bench.now = due;
        let sent = bench.drain();
        assert!(is_accepted(&sent));
        served.extend(sent.iter().map(|sent| sent.header.destination_port));
    }
    assert!(served[..3].contains(&77) && served.len() == 4, "{served:?}");
    assert_eq!((bench.endpoint.len(), bench.endpoint.waiting.len()), (16, 0));
    // The one that was dropped sends its cookie again.
    bench.pass(Duration::from_millis(100));
    assert!(is_accepted(&bench.tell_raw(no_room)));
}

#[test]
fn what_waits_for_a_handshake_is_no_longer_than_a_cookie_and_a_client_hello() {
    let mut bench = protected(Limits { handshakes: 1, ..Limits::default() });
    let first = wants_protection(&mut bench, [198, 51, 100, 1], 1, &[]);
    assert!(is_accepted(&bench.tell_raw(first)));
    let pad = |len| Chunk::Heartbeat(Bytes::from(vec![0; len]));
    let short = wants_protection(&mut bench, [198, 51, 100, 1], 2, &[pad(3_000)]);
    let long = wants_protection(&mut bench, [198, 51, 100, 2], 3, &[pad(super::waiting::WAITING_BYTES_MAX)]);
    assert!(bench.tell_raw(long).is_empty() && bench.endpoint.waiting.len() == 0);
    assert!(bench.tell_raw(short).is_empty() && bench.endpoint.waiting.len() == 1);
    assert_eq!(bench.endpoint.counters().handshakes_dropped, 1);
}

#[test]
fn inits_from_addresses_that_do_not_answer_take_no_turns_of_handshakes() {
    let mut bench = protected(Limits { handshakes: 2, waiting_handshakes: 2, ..Limits::default() });
    for forged in 0..=255 {
        wants_protection(&mut bench, [10, 0, forged, 1], 1, &[]);
    }
    let real = wants_protection(&mut bench, [203, 0, 113, 1], 2, &[]);
    assert!(is_accepted(&bench.tell_raw(real)));
}
