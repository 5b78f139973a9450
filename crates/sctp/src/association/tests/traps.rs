//! Known bugs of other stacks, one test each.

use super::*;
use crate::association::timers::Timer;
use crate::ids::PathId;
use crate::stats::Stall;
use crate::wire::Interleaved;

/// Loses the first transmission of the DATA chunks with these numbers, counted from 0 in the order of sending.
fn lose_data(numbers: &'static [u32]) -> Option<Drop> {
    let mut first = None;
    let mut lost = std::collections::BTreeSet::new();
    Some(Box::new(move |side, _, packet| {
        side == Client
            && chunks(packet).iter().any(|chunk| match chunk {
                Chunk::Data(data) => {
                    let number = data.tsn.distance_from(*first.get_or_insert(data.tsn));
                    numbers.contains(&number) && lost.insert(number)
                }
                _ => false,
            })
    }))
}

#[test]
fn a_sack_that_acks_nothing_earliest_leaves_t3_running() {
    // sctp-proto PR 7: every SACK re-armed T3, so that a hole under steady traffic was never repaired.
    let mut pair = Pair::up(rfc());
    // The first chunk is lost twice: its transmission and its fast retransmission.
    let mut copies = 0;
    let mut first = None;
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Client
            && chunks(packet).iter().any(|chunk| match chunk {
                Chunk::Data(data) if data.tsn == *first.get_or_insert(data.tsn) => {
                    copies += 1;
                    copies <= 2
                }
                _ => false,
            })
    }));
    let start = pair.now;
    for _ in 0..400 {
        pair.send(Client, 0, pattern(1_000));
        pair.run(Duration::from_millis(5));
    }
    let stats = pair.association(Client).stats();
    assert_eq!(stats.paths[0].timeouts, 1, "{stats:?}");
    let third: Vec<_> = pair.data(Client).into_iter().filter(|d| d.tsn == pair.data(Client)[0].tsn).collect();
    assert_eq!(third.len(), 3);
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 400));
    assert!(pair.now.since(start) < Duration::from_secs(10));
}

#[test]
fn t3_stops_with_the_last_chunk_of_its_path_only() {
    // usrsctp #750: data in flight and no timer, so that the sender stopped for good.
    let at = |address: &str| address.parse::<SocketAddr>().unwrap();
    let addresses =
        [vec![at("10.0.1.1:9001"), at("10.0.2.1:9001")], vec![at("10.0.1.2:9002"), at("10.0.2.2:9002")]];
    let mut pair = Pair::between(addresses, rfc(), rfc());
    pair.run(Duration::from_secs(3));
    let armed = |pair: &mut Pair| {
        [0, 1].map(|path| pair.association(Client).timers.is_armed(Timer::T3Rtx(PathId(path))))
    };
    assert_eq!(armed(&mut pair), [false, false]);
    // Chunks are lost on the first path, and their retransmissions on the second.
    pair.cut.insert(at("10.0.1.1:0").ip());
    pair.send(Client, 0, "by the first");
    pair.run(Duration::from_millis(500));
    assert_eq!(armed(&mut pair), [true, false]);
    pair.cut.insert(at("10.0.2.1:0").ip());
    assert!(pair.run_until_within(Duration::from_secs(2), |pair| armed(pair) == [false, true]));
    // New data uses the first path again, where acknowledgements arrive; the second waits for its own.
    pair.cut.clear();
    pair.send(Client, 0, "by the first again");
    pair.run(Duration::from_millis(10));
    assert_eq!(armed(&mut pair), [true, true]);
    assert!(pair.run_until_within(Duration::from_secs(1), |pair| armed(pair) == [false, true]));
    assert!(pair.run_until_within(Duration::from_secs(5), |pair| armed(pair) == [false, false]));
    assert_eq!(pair.read(Server, 0).len(), 2);
}

#[test]
fn a_sack_with_more_gaps_than_fit_is_one_packet() {
    // usrsctp #443, pion #480: unlimited gap blocks made packets larger than any MTU.
    let mut pair = Pair::up(rfc());
    pair.send(Client, 0, "first");
    pair.run(Duration::from_secs(1));
    let first = pair.data(Client)[0].clone();
    pair.drop = Some(Box::new(|_, _, _| true));
    for gap in 1..1_000 {
        pair.clear_log();
        pair.forge(&[Chunk::Data(Data { tsn: first.tsn.plus(2 * gap), unordered: true, ..first.clone() })]);
    }
    let [(_, _, packet)] = &pair.log[..] else { panic!("{:?}", pair.log) };
    let [Chunk::Sack(sack)] = &chunks(packet)[..] else { panic!("{packet:?}") };
    assert_eq!((packet.len(), sack.gaps.len()), (1_452, (1_452 - 12 - 16) / 4));
    assert_eq!(sack.gaps[0], (2, 2), "the lowest");
}

#[test]
fn tiny_fragments_of_i_data_cost_more_than_their_bytes() {
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# For example, if the receiver is holding fragmented DATA chunks in a
    //# reassembly queue, it SHOULD NOT increment a_rwnd.
    // pion #471: a fragment was charged with its one byte only, so memory was unlimited.
    let config = rfc().with(|c| {
        c.messages.interleaving = true;
        c.memory.receive_buffer_bytes = 10_000;
    });
    let mut pair = Pair::with(config.clone(), config);
    pair.reads = false;
    pair.run(Duration::from_millis(100));
    pair.send(Client, 0, "x");
    pair.run(Duration::from_secs(1));
    let first = pair.data(Client)[0].clone();
    pair.drop = Some(Box::new(|_, _, _| true));
    let window = |pair: &mut Pair| pair.association(Server).stats().a_rwnd;
    for index in 1..=5_000u32 {
        let before = window(&mut pair);
        let place = Some(Interleaved { mid: 1 + index / 100, fsn: 2 + index % 100 });
        let fragment = Data {
            begin: false,
            end: false,
            tsn: first.tsn.plus(index),
            interleaved: place,
            ..first.clone()
        };
        pair.forge(&[Chunk::Data(fragment)]);
        if !pair.association(Server).is_up() {
            break;
        }
        let after = window(&mut pair);
        // A charge of half of a fragment's memory, which is more than its payload.
        let cost = 128;
        assert!(after + cost <= before || before <= cost, "{before} {after}");
    }
    assert!(pair.association(Server).stats().unread_bytes <= 2 * 10_000 / 64);
}

#[test]
fn a_tail_dropped_by_a_full_receiver_is_recovered() {
    // webrtc-rs #822, rtc #201: the dropped chunk is the last of a burst, so no later chunk triggers its retransmission.
    for config in [rfc(), modern()] {
        let mut pair = Pair::with(config.clone(), config.with(|c| c.memory.receive_buffer_bytes = 6_000));
        pair.reads = false;
        pair.run(Duration::from_millis(100));
        for _ in 0..40 {
            pair.send(Client, 0, pattern(500));
        }
        pair.run(Duration::from_secs(30));
        assert!(pair.read(Server, 0).is_empty());
        pair.reads = true;
        let start = pair.now;
        pair.read_all(Server);
        assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 40));
        assert!(pair.now.since(start) < Duration::from_secs(3), "{:?}", pair.now.since(start));
    }
}

/// A server with a buffer of 6,000 bytes that has read one message, and the chunk of that message.
fn nearly_full() -> (Pair, Data) {
    let mut pair = Pair::with(rfc(), rfc().with(|c| c.memory.receive_buffer_bytes = 6_000));
    pair.run(Duration::from_millis(100));
    pair.send(Client, 0, "first");
    pair.run(Duration::from_secs(1));
    let first = pair.data(Client)[0].clone();
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.reads = false;
    (pair, first)
}

#[test]
fn the_next_chunk_in_sequence_is_accepted_although_the_buffer_is_full() {
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# The data receiver SHOULD take into account that the data sender will
    //# not retransmit DATA chunks that are acked via the Cumulative TSN Ack
    //# (i.e., will drop from its retransmit queue).
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# An endpoint SHOULD NOT revoke a SACK chunk and discard data.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# The data receiver SHOULD take into account that dropping data that has
    //# been acked in Gap Ack Blocks can result in suboptimal retransmission
    //# strategies in the data sender and thus in suboptimal performance.
    // rtc #217, #218: nothing is readable before this chunk arrives, so the buffer would stay full for ever.
    let (mut pair, first) = nearly_full();
    let chunk = |ahead: u32| {
        let (tsn, ssn) = (first.tsn.plus(ahead), first.ssn.plus(ahead as u16));
        Chunk::Data(Data { tsn, ssn, payload: pattern(1_400).into(), ..first.clone() })
    };
    for ahead in 2..=5 {
        pair.forge(&[chunk(ahead)]);
    }
    pair.forge(&[chunk(6)]);
    assert_eq!(pair.association(Server).stats().overruns, 1, "that one finds no room");
    pair.forge(&[chunk(1)]);
    pair.read_all(Server);
    assert_eq!(pair.read(Server, 0).len(), 1 + 5);
}

#[test]
fn a_buffer_full_of_one_message_with_a_gap_is_read_up_to_the_gap() {
    let (mut pair, first) = nearly_full();
    let fragment = |ahead: u32| {
        let (tsn, ssn, begin) = (first.tsn.plus(ahead), first.ssn.next(), ahead == 1);
        Chunk::Data(Data { tsn, ssn, begin, end: false, payload: pattern(540).into(), ..first.clone() })
    };
    pair.forge(&[fragment(1)]);
    for ahead in 3..=11 {
        assert_eq!(pair.association(Server).readable(), None);
        pair.forge(&[fragment(ahead)]);
    }
    assert_eq!(pair.association(Server).recv(StreamId(0)).unwrap().len(), 540);
}

#[test]
fn a_message_that_fills_the_whole_window_unfinished_becomes_readable() {
    let config = rfc().with(|c| c.memory.receive_buffer_bytes = 6_000);
    let mut pair = Pair::up(config);
    pair.send(Client, 0, pattern(50_000));
    assert!(pair.run_until_within(Duration::from_secs(60), |pair| !pair.read(Server, 0).is_empty()));
}

#[test]
fn a_closed_window_is_probed_indefinitely_without_ending_the_association() {
    //= specs/rfc9260.txt#section-6.1
    //= type=test
    //# Senders MUST support zero window probing.
    //= specs/rfc9260.txt#section-6.1
    //= type=test
    //# If the sender continues to receive SACK chunks from the peer
    //# while doing zero window probing, the unacknowledged window probes
    //# SHOULD NOT increment the error counter for the association or any
    //# destination transport address.
    let mut pair = Pair::with(rfc(), rfc().with(|c| c.memory.receive_buffer_bytes = 6_000));
    pair.reads = false;
    pair.run(Duration::from_millis(100));
    for _ in 0..11 {
        pair.send(Client, 0, pattern(1_424));
    }
    pair.run(Duration::from_secs(1_000));
    assert!(pair.association(Client).is_up());
    pair.log.clear();
    pair.run(Duration::from_secs(120));
    assert!((1..=3).contains(&pair.data(Client).len()), "{}", pair.data(Client).len());
    assert!(pair.association(Client).stats().paths[0].cwnd >= 4_404, "probes are no congestion");
    pair.reads = true;
    pair.read_all(Server);
    assert!(pair.run_until_within(Duration::from_secs(2), |pair| pair.read(Server, 0).len() == 11));
}

#[test]
fn a_peer_that_answers_every_third_probe_of_its_closed_window_is_not_given_up() {
    for config in [rfc(), modern()] {
        let mut pair = Pair::with(config.clone(), config.with(|c| c.memory.receive_buffer_bytes = 6_000));
        pair.reads = false;
        pair.run(Duration::from_millis(100));
        for _ in 0..11 {
            pair.send(Client, 0, pattern(1_424));
        }
        pair.run(Duration::from_secs(10));
        // Its other answers are lost, or so late that more probes were sent meanwhile.
        let mut answers = 0;
        pair.drop = Some(Box::new(move |side, _, _| {
            answers += u32::from(side == Server);
            side == Server && answers % 3 != 0
        }));
        let before = pair.association(Client).stats().paths[0].timeouts;
        pair.run(Duration::from_secs(5_000));
        let stats = pair.association(Client).stats();
        assert!(pair.association(Client).is_up(), "{stats:?}");
        assert!(stats.paths[0].timeouts > before + 30, "{stats:?}");
        // One that answers nothing is.
        pair.drop = Some(Box::new(|side, _, _| side == Server));
        pair.run(Duration::from_secs(5_000));
        assert_eq!(pair.association(Client).closed(), Some(&Reason::PeerUnreachable));
    }
}

#[test]
fn a_reader_that_takes_little_at_a_time_does_not_offer_little_at_a_time() {
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# The receiver MUST also
    //# have an algorithm for advertising its receive window to avoid
    //# receiver silly window syndrome (SWS), as described in [RFC1122].
    let mut pair = Pair::with(rfc(), rfc().with(|c| c.memory.receive_buffer_bytes = 20_000));
    pair.reads = false;
    pair.run(Duration::from_millis(100));
    let offered = |pair: &mut Pair| {
        pair.send(Client, 0, pattern(500));
        pair.run(Duration::from_millis(300));
        pair.sacks(Server).last().unwrap().1.a_rwnd
    };
    let first = offered(&mut pair);
    assert_eq!(first, 20_000 - 564);
    // Less than a full chunk was read: the right edge stays, and the window shrinks by the received bytes.
    pair.association(Server).recv(StreamId(0)).unwrap();
    assert_eq!(offered(&mut pair), first - 500);
    pair.association(Server).recv(StreamId(0)).unwrap();
    assert_eq!(offered(&mut pair), first - 1_000);
    pair.association(Server).recv(StreamId(0)).unwrap();
    assert_eq!(offered(&mut pair), first, "a full chunk has become free");
}

#[test]
fn a_window_that_opens_slowly_is_not_advertised_at_every_step() {
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# When the window opens up, an SCTP receiver SHOULD send additional SACK
    //# chunks to update the window even if no new data is received.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# The data receiver SHOULD notify the data sender in a timely manner of
    //# changes in its ability to receive data.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# The receiver MUST avoid sending a large number of window updates --
    //# in particular, large bursts of them.
    let mut pair = Pair::with(rfc(), rfc().with(|c| c.memory.receive_buffer_bytes = 20_000));
    pair.reads = false;
    pair.run(Duration::from_millis(100));
    for _ in 0..100 {
        pair.send(Client, 0, pattern(100));
    }
    pair.run(Duration::from_secs(1));
    pair.clear_log();
    for _ in 0..100 {
        pair.association(Server).recv(StreamId(0)).unwrap();
        pair.drain(Server);
    }
    let updates = pair.sacks(Server).len();
    assert!((1..=4).contains(&updates), "{updates}");
}

#[test]
fn a_lost_window_update_is_repaired_by_a_window_probe() {
    let mut pair = Pair::with(rfc(), rfc().with(|c| c.memory.receive_buffer_bytes = 6_000));
    pair.reads = false;
    pair.run(Duration::from_millis(100));
    for _ in 0..10 {
        pair.send(Client, 0, pattern(1_424));
    }
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.association(Client).stats().stall, Some(Stall::PeerWindow));
    assert_eq!(pair.association(Server).stats().stall, Some(Stall::Unread));
    let closed = pair.events(Client).iter().filter(|event| **event == Event::PeerWindowClosed);
    assert_eq!(closed.count(), 1);
    // The window update, lost once.
    let mut lost = false;
    pair.drop = Some(Box::new(move |side, _, _| side == Server && !std::mem::replace(&mut lost, true)));
    pair.reads = true;
    pair.read_all(Server);
    assert!(pair.run_until_within(Duration::from_secs(20), |pair| pair.read(Server, 0).len() == 10));
    assert_eq!([Client, Server].map(|side| pair.association(side).stats().stall), [None; 2]);
}

#[test]
fn the_passive_side_knows_the_peers_window_and_starts_slowly() {
    // sctp-proto #28, rtc #111: it started with a window or a threshold of 0 and stalled for 200 ms.
    let mut pair = Pair::up(rfc());
    let stats = pair.association(Server).stats();
    assert_eq!(stats.peer_rwnd, 1 << 20);
    assert!(stats.paths[0].ssthresh > 1 << 20);
    pair.send(Server, 0, pattern(1_424 * 100));
    let start = pair.now;
    assert!(pair.run_until(|pair| !pair.read(Client, 0).is_empty()));
    assert!(pair.now.since(start) < Duration::from_millis(200), "{:?}", pair.now.since(start));
}

#[test]
fn three_missing_reports_bring_a_fast_retransmission_and_one_reduction() {
    //= specs/rfc9260.txt#section-7.2.4
    //= type=test
    //# While in Fast Recovery, the ssthresh and cwnd SHOULD NOT change for
    //# any destinations due to a subsequent Fast Recovery event (i.e., one
    //# SHOULD NOT reduce the cwnd further due to a subsequent Fast
    //# Retransmit).
    let mut pair = Pair::up(rfc());
    pair.send(Client, 0, pattern(1_424 * 60));
    pair.drop = lose_data(&[20, 22, 24]);
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    let path = pair.association(Client).stats().paths[0].clone();
    assert_eq!((path.timeouts, path.fast_retransmits, path.retransmitted_chunks), (0, 1, 3));
}

#[test]
fn retransmitted_chunks_give_no_rtt_sample() {
    //= specs/rfc9260.txt#section-6.3.1
    //= type=test
    //# RTT measurements SHOULD only be made using a DATA chunk with TSN r if
    //# no DATA chunk with TSN less than or equal to r was retransmitted since
    //# the DATA chunk with TSN r was sent first.
    //= specs/rfc9260.txt#section-6.3.1
    //= type=test
    //# C5) Karn's algorithm: RTT measurements MUST NOT be made using chunks
    //# that were retransmitted (and thus for which it is ambiguous whether
    //# the reply was for the first instance of the chunk or for a later
    //# instance).
    // Karn's algorithm; in the dcSCTP changelog too.
    let mut pair = Pair::up(rfc());
    pair.drop = lose_data(&[0]);
    pair.send(Client, 0, "lost once");
    pair.run(Duration::from_secs(5));
    let path = pair.association(Client).stats().paths[0].clone();
    assert_eq!(path.timeouts, 1);
    assert_eq!(path.srtt, Some(2 * LATENCY), "as the handshake measured it");
    assert_eq!(path.rto, Duration::from_secs(2), "the back-off stays until there is a measurement");
}

#[test]
fn a_wait_for_a_timeout_gives_no_rtt_sample() {
    // A chunk that a gap block acknowledges for the first time after a time-out may have arrived long before, if its SACK was
    // lost. Measured as round trips, such delays would make each time-out longer than the one before, up to RTO.Max.
    let longest = (0..8).map(|seed| {
        let mut pair = Pair::up(rfc()).seeded(seed);
        pair.loss = 100;
        (0..20).for_each(|_| pair.send(Client, 0, pattern(50_000)));
        assert!(pair.run_until_within(Duration::from_secs(100_000), |pair| pair.read(Server, 0).len() == 20));
        pair.association(Client).stats().paths[0].srtt.unwrap()
    });
    let longest = longest.max().unwrap();
    assert!(longest < 2 * LATENCY + Duration::from_millis(200), "{longest:?}");
}

#[test]
fn chunks_lost_and_reported_later_stay_tracked() {
    // aiortc #1438, pion #104: retransmissions leaked flight until nothing could be sent. The sums are checked after every
    // drain.
    for (seed, config) in (0..8).flat_map(|seed| [(seed, rfc()), (seed, modern())]) {
        let mut pair = Pair::up(config).seeded(seed);
        pair.loss = 100;
        pair.send(Client, 0, pattern(200_000));
        assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
        pair.loss = 0;
        pair.run(Duration::from_secs(100));
        let stats = pair.association(Client).stats();
        assert_eq!((stats.outstanding_bytes, stats.paths[0].flight_bytes), (0, 0));
    }
}

#[test]
fn data_after_shutdown_is_answered_at_once() {
    //= specs/rfc9260.txt#section-4
    //= type=test
    //# In the SHUTDOWN-SENT state, the endpoint MUST acknowledge any received
    //# DATA chunks without delay.
    // pion association.go:1709.
    let mut pair = Pair::up(rfc());
    pair.send(Server, 0, pattern(1_424 * 30));
    pair.run(Duration::from_millis(1));
    pair.association(Client).shutdown();
    pair.run(Duration::from_millis(1));
    pair.log.clear();
    pair.run(LATENCY);
    let shutdowns =
        pair.packets(Client).iter().flatten().filter(|c| matches!(c, Chunk::Shutdown { .. })).count();
    assert!(shutdowns >= 1);
    assert!(pair.run_until(|pair| pair.closed(Client).is_some() && pair.closed(Server).is_some()));
    assert_eq!(pair.read(Client, 0), [pattern(1_424 * 30)]);
}

#[test]
fn data_received_before_a_tsn_reset_request_is_acknowledged_before_it() {
    // usrsctp: `Cum ack greater or equal than TSN`, if it still waits for the old acknowledgement when TSNs are reset.
    let mut pair = Pair::up(rfc().with(|c| c.streams.reconfiguration = true));
    for number in 1..=2 {
        pair.send(Server, 0, "a first message is acknowledged at once, a second one later");
        assert!(pair.run_until(|pair| pair.read(Client, 0).len() == number));
        pair.run(LATENCY);
    }
    pair.clear_log();
    let now = pair.now;
    pair.association(Client).reset_association(now).unwrap();
    pair.drain(Client);
    let [packet] = &pair.packets(Client)[..] else { panic!("{:?}", pair.packets(Client)) };
    assert!(matches!(packet[..], [Chunk::Sack(_), Chunk::Reconfig(_)]), "{packet:?}");
}

#[test]
fn a_duplicate_shutdown_is_harmless() {
    let mut pair = Pair::up(rfc());
    pair.duplication = 1_000;
    pair.send(Client, 0, "once");
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(5));
    assert_eq!(
        (pair.closed(Client), pair.closed(Server)),
        (Some(&Reason::Shutdown), Some(&Reason::Shutdown))
    );
    assert_eq!(pair.read(Server, 0), [b"once"]);
}

#[test]
fn tiny_messages_cost_more_than_their_bytes() {
    // pion #471: chunks with little payload hardly reduced a_rwnd, so memory was unlimited.
    let mut pair = Pair::with(rfc(), rfc().with(|c| c.memory.receive_buffer_bytes = 10_000));
    pair.reads = false;
    pair.run(Duration::from_millis(100));
    for _ in 0..2_000 {
        pair.send(Client, 0, "x");
    }
    pair.run(Duration::from_secs(60));
    let held = pair.association(Server).stats().unread_bytes;
    assert!(held <= 2 * 10_000 / 64, "{held}");
    pair.reads = true;
    pair.read_all(Server);
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 2_000));
}

#[test]
fn a_lost_tail_is_detected_by_a_probe_before_t3() {
    let mut pair = Pair::up(modern());
    pair.send(Client, 0, pattern(1_424 * 5));
    pair.drop = lose_data(&[3, 4]);
    let start = pair.now;
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    let path = pair.association(Client).stats().paths[0].clone();
    assert_eq!((path.timeouts, path.probes), (0, 1), "{path:?}");
    assert!(pair.now.since(start) < Duration::from_millis(120), "{:?}", pair.now.since(start));
}

#[test]
fn a_lost_retransmission_is_detected_by_later_chunks() {
    let mut pair = Pair::up(modern());
    let mut copies = 0;
    let mut first = None;
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Client
            && chunks(packet).iter().any(|chunk| match chunk {
                Chunk::Data(data) if data.tsn == first.get_or_insert(data.tsn).plus(4) => {
                    copies += 1;
                    copies <= 3
                }
                Chunk::Data(data) => {
                    first.get_or_insert(data.tsn);
                    false
                }
                _ => false,
            })
    }));
    pair.send(Client, 0, pattern(1_424 * 100));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    let path = pair.association(Client).stats().paths[0].clone();
    assert_eq!((path.timeouts, path.retransmitted_chunks), (0, 3), "{path:?}");
}
