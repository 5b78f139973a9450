//! Associations that are protected with keys of real TLS handshakes, over a network that loses and reorders.

mod common;

use std::time::Duration;

use braidftp_base::Time;
use braidftp_keys::{KeyEvent, Settings};
use common::{CLIENT, Identity, Pair, SERVER, config, pattern};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn both_sides_protect_all_that_they_send() {
    let identity = Identity::new();
    let mut pair = Pair::protected(&identity);
    pair.send(CLIENT, 0, "a secret of the client");
    pair.send(CLIENT, 1, pattern(1, 100_000));
    pair.send(SERVER, 0, "a secret of the server");
    pair.run(SECOND);
    assert_eq!(pair.read(SERVER, 0), [b"a secret of the client"]);
    assert_eq!(pair.read(SERVER, 1), [pattern(1, 100_000)]);
    assert_eq!(pair.read(CLIENT, 0), [b"a secret of the server"]);
    for node in &mut pair.nodes {
        assert!(node.protected_at().is_some());
        assert!(node.association().requires_protection());
        assert_eq!(node.association().dtls_stats().forged, 0);
        assert!(node.key_events.len() == 1, "{:?}", node.key_events);
    }
    assert!(pair.nodes[CLIENT].keys.as_ref().unwrap().peer_certificates().is_some());
    for (_, _, packet) in &pair.log {
        for secret in [&b"a secret"[..], &pattern(1, 100)] {
            assert!(!packet.windows(secret.len()).any(|window| window == secret));
        }
    }
    let is_protected = |packet: &[u8]| packet[12] == 0x41;
    let last = pair.nodes.each_ref().map(|node| node.protected_at().unwrap()).into_iter().max().unwrap();
    let after = pair.log.iter().filter(|(at, ..)| *at > last);
    assert!(after.clone().count() > 50 && after.clone().all(|(_, _, packet)| is_protected(packet)));
}

/// When the first message of the client reached the server, and the server's the client.
fn first_messages(pair: &mut Pair) -> [Time; 2] {
    pair.send(CLIENT, 0, "USER anonymous");
    pair.send(SERVER, 0, "220 ready");
    pair.run(SECOND);
    [SERVER, CLIENT].map(|node| pair.nodes[node].read[&0][0].0)
}

/// With a full handshake, and with one that resumes the previous association's session.
#[test]
fn the_first_byte_is_one_round_trip_later_than_without_protection() {
    let identity = Identity::new();
    let settings = identity.resuming();
    let plain = first_messages(&mut Pair::new([None, None], &config(), 1));
    let round_trip = Duration::from_millis(20);
    let mut handshakes = Vec::new();
    for resumed in [false, true] {
        let mut pair = Pair::new(settings.clone().map(Some), &config(), 1);
        let protected = first_messages(&mut pair);
        let trips = |at: Time| at.as_nanos() as f64 / round_trip.as_nanos() as f64;
        let until = pair.nodes[CLIENT].protected_at().unwrap();
        let before = pair.log.iter().filter(|(at, ..)| *at < until);
        let (packets, bytes) =
            before.fold((0, 0), |(packets, bytes), (_, _, packet)| (packets + 1, bytes + packet.len()));
        println!(
            "{}: first byte at the server after {:.1} round trips, at the client after {:.1} (plain {:.1}, {:.1}); \
             {packets} packets of {bytes} bytes before the client has keys",
            if resumed { "resumed" } else { "cold" },
            trips(protected[0]),
            trips(protected[1]),
            trips(plain[0]),
            trips(plain[1]),
        );
        assert_eq!(protected.map(Time::as_nanos), plain.map(|at| (at + round_trip).as_nanos()));
        for node in &pair.nodes {
            assert_eq!(node.keys.as_ref().unwrap().is_resumed(), resumed);
        }
        handshakes.push(bytes);
    }
    assert!(handshakes[1] < handshakes[0], "certificate and signature are left out: {handshakes:?}");
}

/// A different or restarted server has other ticket keys.
#[test]
fn a_ticket_of_another_server_process_costs_nothing_but_a_full_handshake() {
    let identity = Identity::new();
    let [client, server] = identity.resuming();
    let [_, after] = identity.resuming();
    for (server, resumed) in [(server.clone(), false), (server, true), (after.clone(), false), (after, true)]
    {
        let mut pair = Pair::new([Some(client.clone()), Some(server)], &config(), 1);
        first_messages(&mut pair);
        for node in &pair.nodes {
            assert_eq!(node.keys.as_ref().unwrap().is_resumed(), resumed);
        }
    }
}

#[test]
fn losses_and_reordering_are_repaired() {
    let identity = Identity::new();
    for seed in 0..40 {
        let mut pair = Pair::new(identity.settings().map(Some), &config(), seed);
        (pair.loss, pair.reordering) = (100, 200);
        pair.send(CLIENT, 1, pattern(seed, 30_000));
        pair.send(SERVER, 1, pattern(seed + 1, 30_000));
        pair.run(30 * SECOND);
        assert_eq!(pair.read(SERVER, 1), [pattern(seed, 30_000)], "seed {seed}");
        assert_eq!(pair.read(CLIENT, 1), [pattern(seed + 1, 30_000)], "seed {seed}");
    }
}

/// Any one packet of the handshake is lost, or delayed behind later ones.
#[test]
fn each_packet_of_the_handshake_may_be_lost_or_late() {
    let identity = Identity::new();
    for (from, number) in (0..12).flat_map(|number| [(CLIENT, number), (SERVER, number)]) {
        let mut pair = Pair::protected(&identity);
        pair.edit = Some(Box::new(move |sender, before, packet| {
            ((sender, before) != (from, number)).then_some(packet)
        }));
        pair.send(CLIENT, 1, pattern(1, 10_000));
        pair.send(SERVER, 1, pattern(2, 10_000));
        pair.run(10 * SECOND);
        assert_eq!(pair.read(SERVER, 1), [pattern(1, 10_000)], "{from} {number}");
        assert_eq!(pair.read(CLIENT, 1), [pattern(2, 10_000)], "{from} {number}");
    }
}

/// The time at which a job is complete that opens an association: the client sends a request, and the server sends 30 kB.
fn job(identity: &Identity, latency: Duration, lost: Option<(usize, usize)>) -> Option<Time> {
    let mut pair = Pair::protected(identity);
    pair.latency = latency;
    if let Some(lost) = lost {
        pair.edit =
            Some(Box::new(move |sender, before, packet| ((sender, before) != lost).then_some(packet)));
    }
    pair.send(CLIENT, 1, pattern(1, 3_000));
    pair.send(SERVER, 1, pattern(2, 30_000));
    pair.run(20 * SECOND);
    let arrived = [CLIENT, SERVER].map(|node| Some(pair.nodes[node].read.get(&1)?.last()?.0));
    Some(arrived[0]?.max(arrived[1]?))
}

/// As without protection, any early packet may be lost: that costs at most two round trips and 100 ms. INIT is retransmitted
/// after 250 ms, because the RTT is unknown.
#[test]
fn one_lost_packet_costs_two_round_trips_and_100_ms_at_most() {
    let identity = Identity::new();
    for latency in [Duration::from_millis(2), Duration::from_millis(10), Duration::from_millis(100)] {
        let clean = job(&identity, latency, None).unwrap();
        for (from, number) in (0..30).flat_map(|number| [(CLIENT, number), (SERVER, number)]) {
            let until_repeated = Duration::from_millis(if number == 0 { 250 } else { 100 });
            let allowed = latency * 4 + until_repeated;
            let took = job(&identity, latency, Some((from, number))).expect("all arrives");
            assert!(took <= clean + allowed, "{latency:?}: {from} {number}: {took} instead of {clean}");
        }
    }
}

#[test]
fn keys_are_replaced_under_load_and_nothing_is_lost() {
    let identity = Identity::new();
    let mut settings = identity.settings();
    for settings in &mut settings {
        settings.rekey_after = Duration::from_millis(500);
        settings.drain = Duration::from_millis(200);
    }
    let mut pair = Pair::new(settings.map(Some), &config(), 3);
    (pair.loss, pair.reordering) = (20, 100);
    let messages: Vec<_> = (0..400).map(|seed| pattern(seed, 20_000)).collect();
    for message in &messages {
        pair.send(CLIENT, 1, message.clone());
        pair.send(SERVER, 1, message.clone());
    }
    pair.run(60 * SECOND);
    assert_eq!(pair.read(SERVER, 1), messages);
    assert_eq!(pair.read(CLIENT, 1), messages);
    for node in &pair.nodes {
        let epoch = node.keys.as_ref().unwrap().epoch().unwrap();
        assert!(epoch > 20, "{epoch}: {:?}", node.key_events);
        assert!(node.key_events.iter().all(|(_, event)| !matches!(event, KeyEvent::Retried(_))));
    }
}

/// Messages that both sides send at any time arrive, with the keys of this epoch.
fn assert_works(pair: &mut Pair, epoch: u64) {
    for node in [CLIENT, SERVER] {
        assert_eq!(pair.nodes[node].keys.as_ref().unwrap().epoch(), Some(epoch));
        pair.send(node, 3, pattern(epoch, 5_000));
    }
    pair.run(SECOND);
    for node in [CLIENT, SERVER] {
        assert_eq!(pair.read(node, 3).last().unwrap()[..], pattern(epoch, 5_000));
        let stats = pair.nodes[node].association().dtls_stats();
        assert_eq!((stats.forged, stats.unreadable), (0, 0));
    }
}

/// Two sides that can be client or server, and trust each other.
fn either() -> [Settings; 2] {
    let (one, other) = (Identity::new(), Identity::new());
    [one.either(&other), other.either(&one)]
}

#[test]
fn either_side_may_replace_the_keys() {
    let mut pair = Pair::new(either().map(Some), &config(), 1);
    pair.run(SECOND);
    for (epoch, node) in [(4, CLIENT), (5, SERVER), (6, SERVER), (7, CLIENT)] {
        let now = pair.now;
        pair.nodes[node].want_keys(now);
        pair.run(SECOND);
        assert_works(&mut pair, epoch);
    }
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.4
//= type=test
//# In this case, the ClientHello from the endpoint with the
//# keymanager client role SHALL be processed, and the other SHALL be
//# dropped.
#[test]
fn both_sides_may_begin_at_once() {
    let settings = either();
    for seed in 0..20 {
        let mut pair = Pair::new(settings.clone().map(Some), &config(), seed);
        pair.run(SECOND);
        for epoch in 4..8 {
            let now = pair.now;
            pair.nodes[CLIENT].want_keys(now);
            // At the same time, or while the other's request is in flight, or when it has just arrived.
            pair.run(Duration::from_millis(seed));
            let now = pair.now;
            if pair.nodes[SERVER].keys.as_ref().unwrap().epoch() != Some(epoch) {
                pair.nodes[SERVER].want_keys(now);
            }
            pair.run(SECOND);
            assert_works(&mut pair, epoch);
        }
    }
}

#[test]
fn a_server_that_cannot_start_the_key_exchange_asks_for_it() {
    let identity = Identity::new();
    let mut pair = Pair::protected(&identity);
    pair.run(SECOND);
    let now = pair.now;
    pair.nodes[SERVER].want_keys(now);
    pair.run(SECOND);
    assert_works(&mut pair, 4);
}

#[test]
fn keys_are_replaced_after_a_number_of_bytes() {
    let identity = Identity::new();
    let settings = identity.settings().map(|settings| Settings { rekey_bytes: 3_000_000, ..settings });
    let mut pair = Pair::new(settings.map(Some), &config(), 1);
    pair.run(SECOND);
    for _ in 0..40 {
        pair.send(CLIENT, 1, pattern(1, 50_000));
    }
    pair.run(20 * SECOND);
    assert_works(&mut pair, 3);
    for _ in 0..40 {
        pair.send(SERVER, 1, pattern(1, 50_000));
    }
    pair.run(20 * SECOND);
    assert_works(&mut pair, 4);
}
