//! Losses in the handshake, in the first flight, after time-outs and in the shutdown, with profile
//! `modern`.

use super::*;
use crate::association::state::State;
use crate::config::{AuthConfig, SharedKey};
use crate::wire::Init;

const ROUND_TRIP: Duration = Duration::from_millis(20);
/// `Config.handshake.copy_after` of `modern`.
const COPY_AFTER: Duration = Duration::from_millis(10);

/// Loses the first `times` packets of `side` that contain a chunk of this type.
fn losing(side: Side, kind: u8, times: usize) -> Option<Drop> {
    let mut left = times;
    Some(Box::new(move |by, _, packet| {
        let lost = by == side && has(packet, kind) && left > 0;
        left -= usize::from(lost);
        lost
    }))
}

fn up_at(pair: &mut Pair, side: Side) -> Duration {
    let is_up =
        |pair: &mut Pair| (side == Client || pair.server_id.is_some()) && pair.association(side).is_up();
    assert!(pair.run_until(is_up));
    pair.now.since(Time::ZERO)
}

fn srtt(pair: &mut Pair, side: Side) -> Option<Duration> {
    pair.association(side).paths[0].rtt.srtt()
}

fn rto(pair: &mut Pair, side: Side) -> Duration {
    pair.association(side).paths[0].rtt.rto()
}

fn count(pair: &Pair, side: Side, kind: u8) -> usize {
    pair.packets(side).iter().flatten().filter(|chunk| chunk.kind() == kind).count()
}

fn echoes_cookie(pair: &mut Pair) -> bool {
    matches!(pair.association(Client).state, State::CookieEchoed { .. })
}

/// The time of the INIT with this number: a copy after 10 ms, then every 250 ms, then after a quarter of the time since the first,
/// and up to the twentieth at least once a second.
fn init_at(number: usize) -> Duration {
    if number == 1 {
        return COPY_AFTER;
    }
    let interval = Duration::from_millis(250);
    (1..number).fold(Duration::ZERO, |at, number| {
        let wait = interval.max(at / 4);
        at + if number <= 20 { wait.min(Duration::from_secs(1)) } else { wait }
    })
}

#[test]
fn an_init_is_retransmitted_every_quarter_second_and_then_with_back_off() {
    for kind in [Init::KIND, Init::ACK_KIND] {
        for lost in [1, 2, 10, 15, 22] {
            let mut pair = Pair::new(modern());
            let side = if kind == Init::KIND { Client } else { Server };
            pair.drop = losing(side, kind, lost);
            let took = up_at(&mut pair, Client);
            let expected = init_at(lost) + 2 * ROUND_TRIP;
            assert!(took.abs_diff(expected) < Duration::from_millis(1), "{lost} lost: {took:?} {expected:?}");
        }
    }
}

#[test]
fn a_repeated_init_measures_the_round_trip_exactly_if_the_peer_reports_its_number() {
    for kind in [Init::KIND, Init::ACK_KIND] {
        for lost in 1..=7 {
            let mut pair = Pair::new(modern());
            let side = if kind == Init::KIND { Client } else { Server };
            pair.drop = losing(side, kind, lost);
            assert!(pair.run_until(echoes_cookie));
            assert_eq!(srtt(&mut pair, Client), Some(ROUND_TRIP), "{lost} lost");
        }
    }
}

#[test]
fn an_init_without_a_number_gives_an_upper_bound_that_the_first_measurement_replaces() {
    let mut pair = Pair::new(modern());
    // The eighth repetition carries no number, and no limit exceeds RTO.Initial.
    pair.drop = losing(Client, Init::KIND, 8);
    assert!(pair.run_until(echoes_cookie));
    let bound = Duration::from_secs(1);
    assert_eq!((srtt(&mut pair, Client), rto(&mut pair, Client)), (Some(bound), bound));
    up_at(&mut pair, Client);
    assert_eq!(srtt(&mut pair, Client), Some(ROUND_TRIP), "COOKIE ECHO to COOKIE ACK");
}

#[test]
fn with_an_rtt_above_the_init_interval_the_first_init_ack_counts() {
    for latency in [150, 400] {
        let mut pair = Pair::new(modern());
        pair.latency = Duration::from_millis(latency);
        assert!(pair.run_until(echoes_cookie));
        assert_eq!(srtt(&mut pair, Client), Some(2 * pair.latency));
        assert_eq!(up_at(&mut pair, Client), 4 * pair.latency);
        pair.send(Client, 0, "hello");
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.read(Server, 0), [b"hello"]);
        assert!(count(&pair, Client, Init::KIND) > 1, "INITs were repeated");
        assert_eq!(count(&pair, Server, Init::ACK_KIND), count(&pair, Client, Init::KIND));
        let is_echo = |chunk: &&Chunk| chunk.kind() == Chunk::COOKIE_ECHO;
        let echoes = pair.packets(Client).concat();
        let mut echoes: Vec<&Chunk> = echoes.iter().filter(is_echo).collect();
        assert_eq!(echoes.len(), 2, "the second is a copy");
        echoes.dedup();
        assert_eq!(echoes.len(), 1, "one INIT ACK was taken");
        assert_eq!(count(&pair, Client, Chunk::ABORT), 0);
        assert_eq!(srtt(&mut pair, Server), Some(2 * pair.latency));
    }
}

#[test]
fn an_unreachable_host_is_given_up_after_66_seconds() {
    let mut pair = Pair::new(modern());
    pair.drop = Some(Box::new(|_, _, _| true));
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    let took = pair.now.since(Time::ZERO).as_secs_f64();
    assert!((65.0..67.0).contains(&took), "{took}");
    assert_eq!(count(&pair, Client, Init::KIND), 28, "the first, its copy and 26 retransmissions");
}

#[test]
fn a_lost_packet_of_the_handshake_costs_as_long_as_its_copy_waits() {
    let of_server = [(Server, Init::ACK_KIND), (Server, Chunk::COOKIE_ACK)];
    for (side, kind) in of_server.into_iter().chain([(Client, Init::KIND), (Client, Chunk::COOKIE_ECHO)]) {
        for lost in [0, 1] {
            let mut pair = Pair::new(modern());
            pair.drop = losing(side, kind, lost);
            pair.send(Client, 0, "hello");
            let took = up_at(&mut pair, Client);
            assert_eq!(took, 2 * ROUND_TRIP + COPY_AFTER * lost as u32, "{side:?} {kind}");
            assert_eq!(srtt(&mut pair, Client), Some(ROUND_TRIP), "{side:?} {kind}");
            pair.run(Duration::from_secs(1));
            assert_eq!(pair.read(Server, 0), [b"hello"]);
        }
    }
}

#[test]
fn nothing_is_copied_where_the_answer_comes_sooner_and_nothing_else_is_repeated_for_it() {
    for (latency, copies) in [(4, 0), (6, 1), (60, 1)] {
        let mut pair = Pair::new(modern());
        pair.latency = Duration::from_millis(latency);
        pair.send(Client, 0, "hello");
        assert!(pair.run_until(|pair| pair.server_id.is_some()));
        pair.send(Server, 0, pattern(10_000));
        pair.run(Duration::from_secs(2));
        for (side, kind) in [(Client, Init::KIND), (Client, Chunk::COOKIE_ECHO), (Server, Chunk::COOKIE_ACK)]
        {
            assert_eq!(count(&pair, side, kind), 1 + copies, "{latency} ms: {kind}");
        }
        assert_eq!(pair.association(Server).stats().paths[0].retransmitted_chunks, 0, "{latency} ms");
    }
}

#[test]
fn a_copy_goes_to_the_same_address() {
    let addresses = super::multihoming::addresses();
    let first = addresses[1][0].ip();
    let mut pair = Pair::between(addresses, modern(), modern());
    pair.cut.insert(first);
    assert_eq!(
        up_at(&mut pair, Client),
        init_at(2) + 2 * ROUND_TRIP,
        "the retransmission goes to the other address"
    );
    assert_eq!(count(&pair, Client, Init::KIND), 3);
}

#[test]
fn a_lost_cookie_echo_or_cookie_ack_costs_about_two_round_trips() {
    for (side, kind) in [(Client, Chunk::COOKIE_ECHO), (Server, Chunk::COOKIE_ACK)] {
        for (lost, most) in [(1, 50), (2, 85), (3, 170)] {
            let mut pair = Pair::new(modern());
            pair.drop = losing(side, kind, lost);
            let took = up_at(&mut pair, Client);
            assert!(took <= Duration::from_millis(most), "{side:?} {lost}: {took:?}");
        }
    }
}

#[test]
fn a_handshake_is_not_given_up_while_its_cookie_ack_is_under_way() {
    let mut pair = Pair::new(modern().with(|c| {
        c.handshake.init_interval = None;
        c.handshake.max_init_retransmits = 5;
    }));
    pair.latency = Duration::from_secs(6);
    let took = up_at(&mut pair, Client);
    assert_eq!(took, 4 * pair.latency);
    // It is, once no answer can come any more.
    let mut pair = Pair::new(modern().with(|c| c.handshake.max_init_retransmits = 5));
    pair.drop = losing(Server, Chunk::COOKIE_ACK, 100);
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::NoAnswer));
}

#[test]
fn a_cookie_that_is_lost_many_times_is_echoed_at_least_about_once_a_second() {
    for (lost, after_a_bound) in [(12, false), (5, true)] {
        let mut pair = Pair::new(modern());
        // The eighth repetition of INIT carries no number, and its answer gives a limit of one second only.
        pair.drop = losing(Client, Init::KIND, if after_a_bound { 8 } else { 0 });
        assert!(pair.run_until(echoes_cookie));
        // The first one is sent.
        pair.under_way.clear();
        pair.drop = losing(Client, Chunk::COOKIE_ECHO, lost);
        for _ in 0..=lost {
            let (echoed, start) = (count(&pair, Client, Chunk::COOKIE_ECHO), pair.now);
            pair.run_until(|pair| {
                count(pair, Client, Chunk::COOKIE_ECHO) > echoed || pair.association(Client).is_up()
            });
            let waited = pair.now.since(start);
            assert!(waited <= Duration::from_secs(1) + 4 * ROUND_TRIP, "{waited:?}");
        }
        up_at(&mut pair, Client);
    }
}

#[test]
fn data_implies_a_lost_cookie_ack() {
    let mut pair = Pair::new(modern());
    pair.drop = losing(Server, Chunk::COOKIE_ACK, usize::MAX);
    assert!(pair.run_until(|pair| pair.server_id.is_some()));
    pair.send(Server, 0, "welcome");
    let start = pair.now;
    assert!(pair.run_until(|pair| !pair.read(Client, 0).is_empty()));
    assert_eq!(pair.now.since(start), ROUND_TRIP / 2);
    assert!(pair.association(Client).is_up());
    pair.send(Client, 0, "hello");
    assert!(pair.run_until_within(ROUND_TRIP, |pair| !pair.read(Server, 0).is_empty()));
}

#[test]
fn no_chunk_with_a_wrong_tag_implies_a_cookie_ack() {
    for (wrong, is_up) in [(1, false), (0, true)] {
        let mut pair = Pair::new(modern());
        pair.drop = losing(Server, Chunk::COOKIE_ACK, usize::MAX);
        assert!(pair.run_until(|pair| pair.server_id.is_some()));
        let to = pair.last_header.unwrap().source_port;
        let tag = pair.association(Client).tag;
        let header = Header {
            source_port: PORT,
            destination_port: to,
            tag: crate::ids::VerificationTag(tag.0 ^ wrong),
        };
        let mut builder = PacketBuilder::new();
        builder.begin(header, 1_452);
        builder.push(&Chunk::Data(Data::whole(crate::ids::Tsn(1), b"x")));
        builder.seal();
        let payload = builder.finish().unwrap().payload;
        let datagram = Datagram { from: server_address(), to: client_address(), ecn: Ecn::NotEct, payload };
        pair.client.handle(pair.now, datagram);
        assert_eq!(pair.association(Client).is_up(), is_up);
    }
}

#[test]
fn a_repeated_cookie_echo_makes_the_server_retransmit_its_first_flight_at_once() {
    let mut pair = Pair::new(modern());
    assert!(pair.run_until(|pair| pair.server_id.is_some()));
    // COOKIE ACK is sent and lost, too: all packets of the server are lost until the client repeats COOKIE ECHO.
    pair.under_way.clear();
    let mut echoed = false;
    pair.drop = Some(Box::new(move |side, _, packet| {
        echoed |= side == Client && has(packet, Chunk::COOKIE_ECHO);
        side == Server && !echoed
    }));
    pair.send(Server, 0, pattern(5_000));
    assert!(pair.run_until(|pair| !pair.read(Client, 0).is_empty()));
    let took = pair.now.since(Time::ZERO);
    assert!(took <= 2 * ROUND_TRIP + Duration::from_millis(45), "{took:?}");
}

#[test]
fn replayed_cookie_echos_cause_at_most_one_flight_per_rtt_and_none_after_an_acknowledgement() {
    let mut pair = Pair::new(modern());
    assert!(pair.run_until(|pair| pair.server_id.is_some()));
    let cookie = |chunk: Chunk| if let Chunk::CookieEcho(cookie) = chunk { Some(cookie) } else { None };
    let cookie = pair.packets(Client).into_iter().flatten().find_map(cookie).unwrap();
    pair.under_way.clear();
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.clear_log();
    pair.send(Server, 0, "welcome");
    for _ in 0..100 {
        pair.forge(&[Chunk::CookieEcho(cookie.clone())]);
        pair.run(Duration::from_millis(1));
    }
    // Once at first; five more flights; tail loss probes besides.
    let sent = pair.data(Server).len();
    assert!((4..=10).contains(&sent), "{sent}");
    pair.drop = None;
    assert!(pair.run_until(|pair| !pair.read(Client, 0).is_empty()));
    pair.run(Duration::from_millis(100));
    pair.send(Server, 0, "lost");
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.run(Duration::from_millis(1));
    pair.clear_log();
    for _ in 0..20 {
        pair.forge(&[Chunk::CookieEcho(cookie.clone())]);
        pair.run(Duration::from_millis(1));
    }
    assert_eq!(pair.data(Server).len(), 0, "the client has acknowledged a chunk");
}

#[test]
fn the_server_knows_a_round_trip_before_it_sends_data_and_its_rto_is_at_most_the_initial_one() {
    let mut pair = Pair::new(modern());
    up_at(&mut pair, Server);
    assert_eq!(srtt(&mut pair, Server), Some(ROUND_TRIP));
    let mut pair = Pair::new(patient(modern()));
    pair.drop = losing(Client, Chunk::COOKIE_ECHO, 8);
    assert!(up_at(&mut pair, Server) > Duration::from_secs(1));
    assert_eq!(
        (srtt(&mut pair, Server), rto(&mut pair, Server)),
        (Some(Duration::from_secs(1)), Duration::from_secs(1))
    );
    pair.send(Server, 0, "welcome");
    pair.run(Duration::from_secs(1));
    assert!(
        srtt(&mut pair, Server).unwrap() < Duration::from_millis(50),
        "the first measurement replaces it"
    );
}

#[test]
fn a_shutdown_survives_the_loss_of_each_of_its_packets_within_a_few_round_trips() {
    for (side, kind) in
        [(Client, Chunk::SHUTDOWN), (Server, Chunk::SHUTDOWN_ACK), (Client, Chunk::SHUTDOWN_COMPLETE)]
    {
        for (lost, most) in [(1, 85), (2, 130)] {
            let mut pair = Pair::up(modern());
            let start = pair.now;
            pair.drop = losing(side, kind, lost);
            pair.association(Client).shutdown();
            let over = |pair: &mut Pair| [Client, Server].iter().all(|side| pair.closed(*side).is_some());
            assert!(pair.run_until(over));
            let took = pair.now.since(start);
            assert!(took <= Duration::from_millis(most), "{kind} {lost}: {took:?}");
            assert_eq!(
                [Client, Server].map(|side| pair.closed(side).cloned()),
                [const { Some(Reason::Shutdown) }; 2]
            );
        }
    }
}

#[test]
fn a_tail_loss_probe_retransmits_all_small_chunks_of_a_lost_packet() {
    let mut pair = Pair::up(modern());
    for nth in 0..5_u8 {
        pair.send(Client, 0, vec![nth; 20]);
    }
    pair.drop = losing(Client, Data::KIND, 1);
    let start = pair.now;
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 5));
    let took = pair.now.since(start);
    assert!(took < Duration::from_millis(50), "a round trip and a margin, and half of one: {took:?}");
    let with_data: Vec<_> =
        pair.packets(Client).into_iter().filter(|it| it.iter().any(|c| c.kind() == Data::KIND)).collect();
    assert_eq!(with_data.len(), 2, "{with_data:?}");
}

#[test]
fn a_heartbeat_accompanies_retransmissions_after_t3_counts_no_error_and_its_ack_ends_back_off() {
    let mut pair = Pair::up(modern());
    pair.send(Client, 0, "hello");
    pair.run(Duration::from_micros(1));
    pair.under_way.clear();
    pair.clear_log();
    pair.cut.insert(client_address().ip());
    assert!(pair.run_until(|pair| pair.association(Client).stats().paths[0].timeouts == 4));
    let heartbeats = pair.packets(Client).into_iter().filter(|packet| {
        let has = |kind| packet.iter().any(|chunk| chunk.kind() == kind);
        has(Chunk::HEARTBEAT) && has(Data::KIND)
    });
    assert!(heartbeats.count() >= 2);
    assert_eq!(pair.association(Client).paths[0].errors, 4, "T3's alone");
    assert!(rto(&mut pair, Client) >= Duration::from_millis(800), "backed off");
    pair.cut.clear();
    // Data continues to be lost; the HEARTBEAT is acknowledged.
    pair.drop = losing(Server, Sack::KIND, usize::MAX);
    let answered = |pair: &mut Pair| pair.association(Client).paths[0].timeouts_unanswered == 0;
    if pair.run_until_within(Duration::from_millis(900), answered) {
        assert_eq!(rto(&mut pair, Client), Duration::from_millis(100));
    }
    pair.drop = None;
    assert!(pair.run_until(|pair| pair.association(Client).stats().outstanding_bytes == 0));
    assert_eq!(rto(&mut pair, Client), Duration::from_millis(100), "an acknowledgement ends it as well");
    assert_eq!(pair.read(Server, 0), [b"hello"]);
}

#[test]
fn the_first_five_time_outs_take_little_more_than_a_second_and_later_ones_the_rto() {
    let mut pair = Pair::up(modern().with(|c| {
        c.timers.rto = braidftp_cc::rtt::Bounds { min: Duration::from_secs(1), ..modern().timers.rto }
    }));
    pair.send(Client, 0, "hello");
    pair.run(Duration::from_micros(1));
    pair.cut.insert(client_address().ip());
    let mut timed_out_at = vec![pair.now];
    for timeouts in 1..=8 {
        assert!(pair.run_until(|pair| pair.association(Client).stats().paths[0].timeouts == timeouts));
        timed_out_at.push(pair.now);
    }
    let waits: Vec<Duration> = timed_out_at.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    let most = Duration::from_secs(1) + 8 * ROUND_TRIP;
    assert!(waits[..5].iter().all(|wait| *wait <= most), "{waits:?}");
    assert!(waits[6..].iter().all(|wait| *wait >= Duration::from_secs(60)), "{waits:?}");
}

#[test]
fn acknowledged_heartbeats_do_not_shorten_the_detection_of_a_peer_that_acknowledges_no_data() {
    // The server discards DATA, which is authenticated with another key, and nothing else.
    let keyed = |secret: &'static str| {
        let key = SharedKey { id: 5, secret: Bytes::from_static(secret.as_bytes()) };
        let auth =
            AuthConfig { chunks: vec![Data::KIND], keys: vec![key], active_key: 5, ..AuthConfig::default() };
        modern().with(|c| c.security.auth = Some(auth))
    };
    let mut pair = Pair::with(keyed("a guess"), keyed("the key"));
    pair.run(Duration::from_millis(100));
    let start = pair.now;
    pair.send(Client, 0, "hello");
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    let took = pair.now.since(start);
    assert!((10..300).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn a_late_heartbeat_ack_gives_an_rtt_sample_and_counts_no_error() {
    let mut pair = Pair::up(modern());
    // A queue of more than a second: no HEARTBEAT is acknowledged within the RTO of 100 ms.
    pair.latency = Duration::from_millis(700);
    pair.association(Client).probe_peer();
    pair.run(Duration::from_secs(1));
    assert!(pair.association(Client).paths[0].errors > 0, "not answered in time");
    pair.run(Duration::from_millis(500));
    let path = &pair.association(Client).paths[0];
    assert_eq!((path.errors, path.latest_rtt), (0, Duration::from_millis(1_400)));
    assert!(path.rtt.rto() > Duration::from_millis(700), "{:?}", path.rtt.rto());
}

#[test]
fn lost_heartbeats_do_not_end_an_association_whose_peer_sends_packets() {
    for is_heard in [true, false] {
        let mut pair =
            Pair::up(modern().with(|c| c.timers.heartbeat_interval = Some(Duration::from_millis(10))));
        pair.drop = Some(Box::new(
            move |side, _, packet| {
                if side == Client { has(packet, Chunk::HEARTBEAT) } else { !is_heard }
            },
        ));
        for _ in 0..600 {
            if is_heard {
                pair.send(Server, 0, "data");
            }
            pair.run(Duration::from_secs(1));
        }
        assert_eq!(pair.closed(Client).is_none(), is_heard);
    }
}

#[test]
fn while_only_an_upper_bound_is_known_a_probe_with_a_heartbeat_precedes_t3() {
    let mut pair = Pair::new(patient(modern()));
    // The server's limit is then RTO.Initial.
    pair.drop = losing(Client, Chunk::COOKIE_ECHO, 8);
    up_at(&mut pair, Server);
    pair.clear_log();
    pair.drop = losing(Server, Data::KIND, 1);
    pair.send(Server, 0, "welcome");
    let start = pair.now;
    assert!(pair.run_until(|pair| !pair.read(Client, 0).is_empty()));
    assert!(pair.now.since(start) <= Duration::from_millis(750) + ROUND_TRIP);
    assert_eq!(pair.association(Server).stats().paths[0].timeouts, 0);
    let carries = |packet: &Vec<Chunk>, kind| packet.iter().any(|chunk| chunk.kind() == kind);
    let probe = pair.packets(Server).into_iter().rfind(|packet| carries(packet, Data::KIND)).unwrap();
    assert!(carries(&probe, Chunk::HEARTBEAT), "{probe:?}");
    pair.run(ROUND_TRIP);
    assert_eq!(srtt(&mut pair, Server), Some(ROUND_TRIP), "the HEARTBEAT has measured it");
}

#[test]
fn a_sender_with_data_is_silent_for_at_most_a_second_whatever_its_rtt_estimate_is() {
    // SRTT is that of a queue of seconds, which has drained when the tail is sent; or all round trips so far were long.
    for (at_first, then) in [(LATENCY, Duration::from_secs(3)), (40 * LATENCY, 40 * LATENCY)] {
        let mut pair = Pair::new(modern());
        pair.latency = at_first;
        up_at(&mut pair, Server);
        pair.latency = then;
        for _ in 0..12 {
            pair.association(Client).probe_peer();
            pair.run(Duration::from_secs(10));
        }
        assert!(srtt(&mut pair, Client).unwrap() > Duration::from_millis(700));
        pair.latency = LATENCY;
        pair.run(Duration::from_secs(10));
        pair.clear_log();
        let lost = 30;
        pair.drop = losing(Client, Data::KIND, lost);
        pair.send(Client, 0, "tail");
        assert!(pair.run_until(|pair| pair.data(Client).len() > lost));
        let sent: Vec<Time> = pair
            .log
            .iter()
            .filter(|(_, side, packet)| *side == Client && has(packet, Data::KIND))
            .map(|(at, ..)| *at)
            .collect();
        let longest = sent.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
        assert!(longest <= Duration::from_secs(1), "{longest:?}");
    }
}

#[test]
fn a_backed_off_t3_waits_little_more_than_a_second_although_srtt_includes_a_queue() {
    let mut pair = Pair::up(modern());
    // Nearly constant round trips of half a second; the shortest one was measured before.
    pair.latency = Duration::from_millis(250);
    for _ in 0..60 {
        pair.association(Client).probe_peer();
        pair.run(Duration::from_secs(2));
    }
    let unbounded = rto(&mut pair, Client);
    assert!((500..600).contains(&unbounded.as_millis()), "{unbounded:?}");
    pair.send(Client, 0, "hello");
    pair.run(Duration::from_micros(1));
    pair.cut.insert(client_address().ip());
    let mut timed_out_at = Vec::new();
    for timeouts in 1..=6 {
        assert!(pair.run_until(|pair| pair.association(Client).stats().paths[0].timeouts == timeouts));
        timed_out_at.push(pair.now);
    }
    // Two probes, the second of which restarts T3, and then T3: 2^n times 540 ms without the bound.
    let waits: Vec<Duration> = timed_out_at.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(waits[..4].iter().all(|wait| *wait <= Duration::from_millis(2_600)), "{waits:?}");
}

#[test]
fn the_probe_count_restarts_once_nothing_is_in_flight() {
    let mut pair = Pair::up(modern());
    let association = pair.association(Client);
    association.paths[0].probes_unanswered = 2;
    association.stop_idle_t3(crate::ids::PathId(0));
    assert_eq!(association.paths[0].probes_unanswered, 0, "a timer found all of it lost");
    pair.send(Client, 0, "hello");
    pair.run(Duration::from_micros(1));
    let association = pair.association(Client);
    association.paths[0].probes_unanswered = 2;
    association.stop_idle_t3(crate::ids::PathId(0));
    assert_eq!(association.paths[0].probes_unanswered, 2, "one is in flight");
    // A SACK arrives while nothing is in flight.
    let mut pair = Pair::up(modern());
    pair.association(Server).paths[0].probes_unanswered = 2;
    let cum_tsn_ack = pair.association(Server).state.up().unwrap().sent.cum_tsn_ack_point();
    pair.forge(&[Chunk::Sack(Sack { cum_tsn_ack, a_rwnd: 1 << 20, ..Sack::default() })]);
    assert_eq!(pair.association(Server).paths[0].probes_unanswered, 0);
}

#[test]
fn a_chunk_in_flight_that_is_larger_than_the_path_s_packets_is_probed() {
    let mut pair = Pair::up(modern());
    pair.latency = Duration::from_millis(50);
    pair.association(Client).probe_peer();
    pair.run(Duration::from_secs(1));
    let room = pair.association(Client).paths[0].payload_max(16);
    pair.send(Client, 0, vec![b'x'; room]);
    pair.cut.insert(client_address().ip());
    pair.run(Duration::from_micros(1));
    let sent_at = pair.now;
    let path = &mut pair.association(Client).paths[0];
    assert!(path.flight_bytes > 576, "the chunk was sent");
    // As after packets of this size that were lost several times: path MTU discovery restarts (RFC 8899 §4.3).
    path.mtu = 576;
    let packets = path.counters.packets_sent;
    let sent = |pair: &mut Pair| pair.association(Client).stats().paths[0].packets_sent > packets;
    assert!(pair.run_until(|pair| sent(pair)));
    let path = &pair.association(Client).paths[0];
    assert_eq!((path.counters.timeouts, path.counters.retransmitted_chunks), (0, 1), "it was a probe");
    assert!(pair.now.since(sent_at) < Duration::from_millis(400), "{:?}", pair.now.since(sent_at));
    pair.cut.clear();
    assert!(pair.run_until(|pair| pair.association(Client).paths[0].flight_bytes == 0));
    assert_eq!(pair.association(Client).stats().paths[0].timeouts, 0);
}

#[test]
fn a_sack_that_a_later_retransmission_may_have_triggered_measures_no_rtt_of_a_first_transmission() {
    use crate::association::sent::{AckedBy, Arrival};
    use crate::ids::{PathId, Tsn};
    let (tsn, at) = (Tsn(7), Time::from_millis);
    let arrival = |sent_at, transmissions| {
        let acked_by = AckedBy::GapBlock;
        Some(Arrival { tsn: Tsn(3), order: 9, sent_at, transmissions, packet_bytes: 1_000, acked_by })
    };
    let measured = |newest| {
        let mut pair = Pair::up(modern());
        let association = pair.association(Client);
        association.paths[0].on_newest_acked(newest);
        association.measure_on_own_path(at(9_000), PathId(0), Some((tsn, at(5_000))));
        association.paths[0].latest_rtt == Duration::from_secs(4)
    };
    assert!(measured(None));
    assert!(measured(arrival(at(8_400), 1)), "a first transmission");
    assert!(measured(arrival(at(4_900), 2)), "retransmitted before the chunk was sent");
    assert!(!measured(arrival(at(8_400), 2)), "the retransmission triggered the SACK");
}
