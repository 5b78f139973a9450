//! Limits on what is sent to an unverified address with the early retransmission of profile `modern`:
//! forged and replayed INITs and COOKIE ECHOs, from that address or in its name.

use super::*;
use crate::{Message, Profile};

/// The parameter with which profile `modern` numbers a repeated INIT.
const INIT_NUMBER: u16 = 0xFFA5;

fn modern() -> Config {
    let config = Profile::Modern.config();
    assert!(config.recovery.early_repair && config.handshake.init_interval.is_some());
    config.with(|c| c.timers.heartbeat_interval = None)
}

fn bench() -> Bench {
    let mut endpoint = Endpoint::new([1; 32]);
    endpoint.listen(LOCAL_PORT, Arc::new(modern())).unwrap();
    Bench { now: Time::from_millis(1_800_000), endpoint, events: Vec::new() }
}

fn number(raw: &[u8]) -> Parameter {
    let len = (4 + raw.len()) as u16;
    let raw = [&INIT_NUMBER.to_be_bytes()[..], &len.to_be_bytes(), raw].concat();
    Parameter::Unknown { kind: INIT_NUMBER, raw: raw.into() }
}

fn with(parameters: Vec<Parameter>) -> Init {
    Init { parameters, ..init() }
}

fn len(sent: &Sent) -> usize {
    Header::LEN + sent.chunks.iter().map(Chunk::padded_len).sum::<usize>()
}

/// Queues more than the first flight.
fn send_much(bench: &mut Bench, id: AssociationId) {
    let association = bench.endpoint.association_mut(id).unwrap();
    association.send(StreamId(0), Message::new(Ppid(0), vec![0; 9_000])).unwrap();
}

#[test]
fn the_answer_to_an_init_is_one_init_ack_that_exceeds_it_by_the_cookie_and_by_what_must_be_reported() {
    let mut bench = bench();
    let plain = Header::LEN + Chunk::InitAck(bench.shake(init())).padded_len();
    let asked = Header::LEN + Chunk::Init(init()).padded_len();
    assert!(plain - asked < 128, "a cookie: {plain} bytes for {asked}");
    let good = number(&7_u32.to_be_bytes());
    for (parameters, reported) in [
        (vec![good.clone()], 12),
        (vec![good; 3], 36),
        (vec![number(&[]), number(&[1; 2]), number(&[2; 200])], 8 + 12 + 208),
        // More numbers than can be reported.
        (vec![number(&[3; 200]); 60], usize::MAX),
        (vec![number(&[4; 60_000])], usize::MAX),
        (vec![number(&[]); 10_000], usize::MAX),
    ] {
        let sent = bench.ask(VerificationTag(0), &[Chunk::Init(with(parameters))]);
        assert!(matches!(sent.chunks[..], [Chunk::InitAck(_)]), "{}", sent.text());
        assert!(len(&sent) <= plain.saturating_add(reported).min(answers::MAX_ANSWER_LEN), "{}", len(&sent));
    }
}

#[test]
fn forged_and_replayed_inits_and_cookie_echos_cost_no_state_and_forged_ones_get_no_answer() {
    let mut bench = bench();
    let empty = bench.endpoint.footprint();
    let mut acks = Vec::new();
    for nth in 0..40_u32 {
        let init = Init { initiate_tag: VerificationTag(1 + nth), ..with(vec![number(&nth.to_be_bytes())]) };
        // Twice: the second is a replay.
        for _ in 0..2 {
            acks.push(bench.shake(init.clone()));
        }
    }
    for ack in &acks {
        let mut cookie = ack.state_cookie().unwrap().to_vec();
        // The time of sealing follows the number of the key.
        for at in [4, 11, cookie.len() - 1] {
            cookie[at] ^= 1;
            let echo = Chunk::CookieEcho(cookie.clone().into());
            assert!(bench.tell(ack.initiate_tag, &[echo, data(PEER_TSN)]).is_empty());
        }
        let elsewhere = datagram(stranger(), to_bench(ack.initiate_tag), &[echo(ack), data(PEER_TSN)]);
        assert!(bench.tell_raw(elsewhere).is_empty(), "no address that its INIT named");
    }
    assert_eq!((bench.endpoint.footprint(), bench.endpoint.memory_bytes()), (empty, 0));
}

#[test]
fn a_replayed_init_does_not_change_the_association_and_is_answered_to_its_source() {
    let mut bench = bench();
    let numbered = with(vec![number(&1_u32.to_be_bytes())]);
    let ack = bench.shake(numbered.clone());
    bench.ask(ack.initiate_tag, &[echo(&ack)]);
    let id = bench.id();
    send_much(&mut bench, id);
    bench.drain();
    let before = format!("{:?}", bench.endpoint.association(id).unwrap().stats());
    let footprint = bench.endpoint.footprint();
    for _ in 0..100 {
        for from in [peer(), stranger()] {
            let sent = bench.tell_raw(datagram(
                from,
                to_bench(VerificationTag(0)),
                &[Chunk::Init(numbered.clone())],
            ));
            let [Sent { to, chunks, .. }] = &sent[..] else { panic!("{sent:?}") };
            assert!(*to == from && matches!(chunks[..], [Chunk::InitAck(_)]), "{}", sent[0].text());
        }
    }
    assert_eq!(format!("{:?}", bench.endpoint.association(id).unwrap().stats()), before);
    assert_eq!(bench.endpoint.footprint(), footprint);
}

#[test]
fn cookie_echos_with_a_forged_listed_source_are_not_amplified_and_carry_no_data() {
    let [own, victim]: [SocketAddr; 2] =
        ["127.0.0.2:5000", "127.0.0.3:5000"].map(|address| address.parse().unwrap());
    let mut bench = bench();
    let init = Chunk::Init(with(vec![Parameter::Address(victim.ip())]));
    let sent = bench.tell_raw(datagram(own, to_bench(VerificationTag(0)), &[init]));
    let [Chunk::InitAck(ack)] = &sent[0].chunks[..] else { panic!("{sent:?}") };
    bench.tell_raw(datagram(own, to_bench(ack.initiate_tag), &[echo(ack)]));
    let id = bench.id();
    send_much(&mut bench, id);
    let first_flight: usize = bench.drain().iter().map(len).sum();
    let from_victim = datagram(victim, to_bench(ack.initiate_tag), &[echo(ack)]);
    let (mut to_victim, mut to_peer, mut spent) = (0, 0, 0);
    let start = bench.now;
    while bench.now.since(start) < Duration::from_secs(10) {
        spent += from_victim.payload.len();
        for sent in bench.tell_raw(from_victim.clone()) {
            if sent.to == victim {
                let allowed = |chunk: &Chunk| matches!(chunk, Chunk::CookieAck | Chunk::Heartbeat(_));
                assert!(sent.chunks.iter().all(allowed), "{}", sent.text());
                to_victim += len(&sent);
            } else {
                to_peer += len(&sent);
            }
        }
        bench.pass(Duration::from_millis(5));
    }
    assert!(to_victim > 0 && to_victim <= spent, "{to_victim} for {spent}");
    // The intervals double with every second retransmission, up to a second: 10 s contain 21 of them if the RTT was 0.
    assert!(to_peer > 4 * first_flight, "repaired: {to_peer} of {first_flight}");
    assert!(to_peer < 40 * first_flight, "{to_peer} of {first_flight}");
}

#[test]
fn a_cookie_from_the_future_gives_no_rtt_and_one_of_another_hour_is_forged() {
    let second = Duration::from_secs(1);
    let hour = Duration::from_secs(3_600);
    // The sealed values, and the RTT that the server gets from them; `None`: the cookie does not open.
    type Expected = Option<Option<Duration>>;
    let cases: [(&dyn Fn(Time) -> Time, Expected); 5] = [
        (&|now| now, Some(Some(Duration::ZERO))),
        (&|now| now + second / 1_000, Some(None)),
        (&|now| now + 600 * second, Some(None)),
        (&|now| now + hour, None),
        (
            &|now| Time::from_nanos((now.since(Time::ZERO) - 59 * second).as_nanos() as u64),
            Some(Some(second)),
        ),
    ];
    for (nth, (created, expected)) in cases.into_iter().enumerate() {
        let mut bench = bench();
        let ack = bench.shake(init());
        let header = to_bench(ack.initiate_tag);
        let opened = bench.endpoint.keys.open(bench.now, &header, ack.state_cookie().unwrap()).unwrap();
        let contents = crate::cookie::Contents { created: created(bench.now), ..(*opened).clone() };
        let cookie = Chunk::CookieEcho(bench.endpoint.keys.seal(&contents));
        let sent = bench.tell(ack.initiate_tag, &[cookie]);
        assert_eq!(!sent.is_empty(), expected.is_some(), "{nth}");
        if let Some(srtt) = expected {
            let stats = bench.endpoint.association(bench.id()).unwrap().stats();
            assert_eq!(stats.paths[0].srtt, srtt, "{nth}");
            assert!(
                (modern().timers.rto.min..=modern().timers.rto.initial).contains(&stats.paths[0].rto),
                "{nth}: {stats:?}"
            );
        }
    }
}
