//! Opening and closing of connections.

use super::*;
use crate::connection::State;
use crate::endpoint::HALF_OPEN_MAX;
use crate::{ConnectError, Flags, ListenError, Seq};

fn at_ms(pair: &Pair, side: Side, flags: Flags) -> Vec<u64> {
    let of = |(_, from, segment): &&(Time, Side, Segment)| *from == side && segment.flags == flags;
    pair.log.iter().filter(of).map(|(at, ..)| at.as_nanos() / 1_000_000).collect()
}

const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

#[test]
fn three_segments_open_a_connection_and_four_close_it() {
    let mut pair = Pair::new(Config::default());
    pair.closes = [true, false];
    pair.finish(Duration::from_secs(5));
    let flags: Vec<_> =
        pair.log.iter().map(|(_, side, segment)| format!("{side:?} {}", segment.flags)).collect();
    let expected = ["Client S", "Server S.", "Client F.", "Server .", "Server F.", "Client ."];
    // The FIN is sent with the last acknowledgement of the handshake.
    assert_eq!(flags, expected);
    assert_eq!(pair.events[0], [Event::Up, Event::PeerClosed, Event::Closed(Reason::Finished)]);
    let events =
        [Event::Accepted { port: PORT }, Event::Up, Event::PeerClosed, Event::Closed(Reason::Finished)];
    assert_eq!(pair.events[1], events);
}

#[test]
fn a_syn_is_retransmitted_by_the_timer_of_its_profile() {
    for (profile, times) in [
        (Profile::NewrenoBsd46, vec![0, 3_000, 6_000, 9_000, 12_000, 15_000, 21_000]),
        (Profile::Opnet11, vec![0, 3_000, 9_000, 21_000]),
        (Profile::Modern, vec![0, 1_000, 3_000, 7_000, 15_000]),
        // On the timer wheel a second is counted in steps of 32 ms, four seconds in steps of 256 ms.
        (Profile::Linux, vec![0, 1_024, 3_040, 7_168, 15_360]),
    ] {
        let mut pair = Pair::new(profile.config());
        pair.loss = 1_000;
        pair.run(Duration::from_secs(25));
        assert_eq!(at_ms(&pair, Client, Flags::SYN), times, "{profile}");
    }
}

#[test]
fn a_lost_syn_ack_backs_off_and_a_repeated_syn_is_answered_at_once() {
    let mut pair = Pair::new(Profile::NewrenoBsd46.config());
    pair.drop = Some(Box::new(|from, _, _| from == Server));
    pair.run(Duration::from_secs(10));
    // At 10 ms, on its timer after 3 s, and for the SYNs received at 3.01, 6.01 and 9.01 s.
    let answers = at_ms(&pair, Server, SYN_ACK);
    assert_eq!(answers[0], 10);
    assert!(answers.contains(&3_010) && answers.contains(&6_010), "{answers:?}");
}

#[test]
fn an_unanswered_syn_times_out() {
    let mut pair = Pair::new(Config { syn_retries: 2, ..Config::default() });
    pair.loss = 1_000;
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.closed(Client), Some(Reason::TimedOut));
    assert_eq!(at_ms(&pair, Client, Flags::SYN), [0, 1_000, 3_000]);
    assert_eq!(pair.endpoints[0].control_blocks(), 0);
}

#[test]
fn a_syn_to_a_closed_port_is_refused() {
    let mut pair = Pair::new(Config::default());
    pair.endpoints[1].unlisten(PORT);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.closed(Client), Some(Reason::Reset));
    assert_eq!(pair.endpoints.each_ref().map(Endpoint::control_blocks), [0, 0]);
}

#[test]
fn an_abort_resets_the_peer() {
    let mut pair = Pair::up(Config::default());
    pair.connection(Client).abort();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.closed(Client), Some(Reason::Aborted));
    assert_eq!(pair.closed(Server), Some(Reason::Reset));
    assert_eq!(pair.endpoints.each_ref().map(Endpoint::control_blocks), [0, 0]);
}

#[test]
fn the_side_that_closes_first_stays_in_time_wait_for_two_msl() {
    let mut pair = Pair::new(Config { time_wait: Duration::from_secs(60), ..Config::default() });
    pair.write_and_close(Client, 1_000);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.connection(Client).state(), State::TimeWait);
    assert_eq!(pair.closed(Client), Some(Reason::Finished), "the user is notified at once");
    assert_eq!(pair.endpoints.each_ref().map(Endpoint::control_blocks), [1, 0]);
    // The connection stays in TIME-WAIT after its user removed it.
    let id = pair.ids[0].take().unwrap();
    pair.endpoints[0].remove(id);
    assert!(pair.endpoints[0].connection(id).is_none());
    pair.run(Duration::from_secs(58));
    assert_eq!(pair.endpoints[0].control_blocks(), 1);
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.endpoints[0].control_blocks(), 0);
}

#[test]
fn one_direction_may_close_before_the_other() {
    let mut pair = Pair::up(Config::default());
    pair.follows = false;
    pair.write_and_close(Client, 1_000);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.connection(Client).state(), State::FinWait2);
    assert_eq!(pair.connection(Server).state(), State::CloseWait);
    pair.write_and_close(Server, 50_000);
    pair.finish(Duration::from_secs(5));
    assert_eq!(pair.read[0].len(), 50_000);
    assert_eq!(pair.closed(Server), Some(Reason::Finished));
}

#[test]
fn a_simultaneous_close_leaves_both_in_time_wait() {
    let mut pair = Pair::up(Config::default());
    pair.connection(Client).close();
    pair.connection(Server).close();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.endpoints.each_ref().map(Endpoint::control_blocks), [1, 1]);
    assert_eq!([Client, Server].map(|side| pair.closed(side)), [Some(Reason::Finished); 2]);
}

#[test]
fn a_lost_last_acknowledgement_is_sent_again_from_time_wait() {
    let mut pair = Pair::up(Config::default());
    let mut fins = 0;
    pair.drop = Some(Box::new(move |from, _, segment| {
        // The acknowledgement of the server's FIN.
        fins += usize::from(from == Server && segment.flags.has(Flags::FIN));
        from == Client && fins == 1
    }));
    pair.connection(Client).close();
    pair.finish(Duration::from_secs(10));
    assert_eq!(pair.closed(Server), Some(Reason::Finished));
    assert_eq!(pair.connection(Server).stats().counters.timeouts, 1);
}

#[test]
fn removing_a_closed_connection_lets_it_finish_and_removing_an_open_one_aborts_it() {
    let mut pair = Pair::up(Config::default());
    let _ = pair.connection(Client).send(numbered(10_000));
    pair.connection(Client).close();
    let id = pair.ids[0].take().unwrap();
    pair.endpoints[0].remove(id);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read[1].len(), 10_000);
    assert_eq!(pair.closed(Server), Some(Reason::Finished));
    let mut pair = Pair::up(Config::default());
    let id = pair.ids[0].take().unwrap();
    pair.endpoints[0].remove(id);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.closed(Server), Some(Reason::Reset));
}

#[test]
fn half_open_connections_are_limited_and_time_out() {
    let mut endpoint = Endpoint::new(1);
    endpoint.listen(PORT, Arc::new(Config { syn_retries: 1, ..Config::default() })).unwrap();
    let to = address(Server);
    for index in 0..HALF_OPEN_MAX + 10 {
        let from = SocketAddr::new("10.0.9.9".parse().unwrap(), 2_000 + index as u16);
        let (source_port, destination_port) = (from.port(), to.port());
        let syn =
            Segment { source_port, destination_port, flags: Flags::SYN, seq: Seq(7), ..Segment::default() };
        let payload = syn.encode(from.ip(), to.ip());
        endpoint.handle(Time::ZERO, Datagram { from, to, ecn: braidftp_base::Ecn::NotEct, payload });
    }
    assert_eq!(endpoint.control_blocks(), HALF_OPEN_MAX);
    let mut now = Time::ZERO;
    loop {
        match endpoint.poll(now) {
            Output::Send(_) => {}
            Output::Event((_, event)) => panic!("half-open connections emit no events: {event:?}"),
            Output::Wait(Some(at)) => now = at,
            Output::Wait(None) => break,
        }
    }
    assert_eq!(endpoint.control_blocks(), 0);
}

#[test]
fn segments_are_demultiplexed_by_port() {
    let mut endpoint = Endpoint::new(1);
    let config = Arc::new(Config::default());
    assert_eq!(endpoint.listen(0, config.clone()), Err(ListenError::PortZero));
    endpoint.listen(80, config.clone()).unwrap();
    assert_eq!(endpoint.listen(80, config.clone()), Err(ListenError::InUse(80)));
    let (from, to) = (address(Client), address(Server));
    let any = SocketAddr::new(from.ip(), 0);
    let first = endpoint.connect(Time::ZERO, any, to, config.clone()).unwrap();
    let second = endpoint.connect(Time::ZERO, any, to, config.clone()).unwrap();
    let ports = [first, second].map(|id| endpoint.connection(id).unwrap().local().port());
    assert_eq!(ports, [49_152, 49_153]);
    endpoint.connect(Time::ZERO, from, to, config.clone()).unwrap();
    assert_eq!(endpoint.connect(Time::ZERO, from, to, config.clone()), Err(ConnectError::InUse));
    let v6 = "[::1]:80".parse().unwrap();
    assert_eq!(endpoint.connect(Time::ZERO, from, v6, config.clone()), Err(ConnectError::Family));
    let nowhere = SocketAddr::new(to.ip(), 0);
    assert_eq!(endpoint.connect(Time::ZERO, from, nowhere, config), Err(ConnectError::PortZero));
}

#[test]
fn a_simultaneous_open_succeeds() {
    let config = Arc::new(Config::default());
    let (from, to) = (address(Client), address(Server));
    let mut endpoints = [Endpoint::new(1), Endpoint::new(2)];
    let ids = [
        endpoints[0].connect(Time::ZERO, from, to, config.clone()).unwrap(),
        endpoints[1].connect(Time::ZERO, to, from, config).unwrap(),
    ];
    let mut on_the_way: Vec<Vec<Datagram>> = vec![Vec::new(), Vec::new()];
    for _ in 0..6 {
        for side in [0, 1] {
            loop {
                match endpoints[side].poll(Time::ZERO) {
                    Output::Send(datagram) => on_the_way[1 - side].push(datagram),
                    Output::Event(_) => {}
                    Output::Wait(_) => break,
                }
            }
        }
        for side in [0, 1] {
            for datagram in on_the_way[side].drain(..) {
                endpoints[side].handle(Time::ZERO, datagram);
            }
        }
    }
    for side in [0, 1] {
        assert_eq!(endpoints[side].connection(ids[side]).unwrap().state(), State::Established);
    }
}

#[test]
fn a_new_connection_may_replace_one_in_time_wait() {
    let mut pair = Pair::up(Config::default());
    // The server closes first and enters TIME-WAIT.
    pair.closes = [false, true];
    pair.finish(Duration::from_secs(5));
    assert_eq!(pair.endpoints.each_ref().map(Endpoint::control_blocks), [0, 1]);
    let old = pair.connection(Server).stats();
    assert_eq!(old.state, State::TimeWait);
    let id = pair.ids[0].unwrap();
    pair.endpoints[0].remove(id);
    let config = Arc::new(Config::default());
    pair.events = [Vec::new(), Vec::new()];
    let now = pair.now;
    let id = pair.endpoints[0].connect(now, address(Client), address(Server), config).unwrap();
    pair.ids = [Some(id), None];
    pair.closes = [false; 2];
    pair.run(Duration::from_millis(100));
    assert!(pair.events[0].contains(&Event::Up), "{:?}", pair.events);
}

#[test]
fn a_reset_with_the_wrong_sequence_number_gets_a_challenge_ack() {
    let mut pair = Pair::up(Config::default());
    pair.write(Server, numbered(100));
    pair.run(Duration::from_secs(1));
    let mut forged = pair.data_of(Server)[0].2.clone();
    (forged.flags, forged.payload) = (Flags::RST, Bytes::new());
    let now = pair.now;
    for (seq, closed) in [(forged.seq.plus(50_000), None), (forged.seq.plus(100), Some(Reason::Reset))] {
        forged.seq = seq;
        let payload = forged.encode(address(Server).ip(), address(Client).ip());
        let (from, to) = (address(Server), address(Client));
        pair.endpoints[0].handle(now, Datagram { from, to, ecn: braidftp_base::Ecn::NotEct, payload });
        pair.drain(Client);
        assert_eq!(pair.closed(Client), closed);
    }
}
