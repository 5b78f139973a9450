//! Data transfer without faults.

use super::*;
use crate::association::{Order, SendError, Transmit};
use crate::config::{Fragments, Scheduler};

#[test]
fn a_message_crosses_in_both_directions() {
    for config in [rfc(), modern()] {
        let mut pair = Pair::up(config);
        pair.send(Client, 0, "to the server");
        pair.send(Server, 3, "to the client");
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.read(Server, 0), [b"to the server"]);
        assert_eq!(pair.read(Client, 3), [b"to the client"]);
    }
}

#[test]
fn a_large_message_is_fragmented_to_the_mtu_and_reassembled() {
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# The size of each DATA chunk SHOULD be smaller than or equal to the
    //# Association Maximum DATA Chunk Size (AMDCS).
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# If its peer is multi-homed, the endpoint SHOULD choose a DATA chunk
    //# size smaller than or equal to the AMDCS.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# The sender SHOULD choose a size of DATA chunks that is smaller than or
    //# equal to the AMDCS.
    //= specs/rfc9260.txt#section-6.10
    //= type=test
    //# If its peer endpoint is multi-homed, the sending endpoint SHOULD
    //# choose a size no larger than the PMTU of the current primary path.
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# When converting user messages into DATA chunks, an endpoint MUST
    //# fragment large user messages into multiple DATA chunks.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# If an endpoint supports fragmentation, it MUST fragment a user message
    //# if the size of the user message to be sent causes the outbound SCTP
    //# packet size to exceed the current PMTU.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# When determining when to fragment, the SCTP implementation MUST take
    //# into account the SCTP packet header as well as the DATA chunk
    //# header(s).
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# The data sender MUST break the user message into a series of DATA
    //# chunks.
    //= specs/rfc9260.txt#section-6.10
    //= type=test
    //# The total size of the resultant SCTP packet MUST be less that or equal
    //# to the current PMTU.
    for config in [rfc(), modern()] {
        let mut pair = Pair::up(config);
        pair.send(Client, 1, pattern(300_000));
        assert!(pair.run_until(|pair| !pair.read(Server, 1).is_empty()));
        assert_eq!(pair.read(Server, 1), [pattern(300_000)]);
        assert!(pair.log.iter().all(|entry| entry.2.len() <= 1_452));
        let data = pair.data(Client);
        assert_eq!(data.len(), 300_000_usize.div_ceil(1_424));
        assert!(data[0].begin && !data[0].end && data.last().unwrap().end);
    }
}

#[test]
fn received_tsns_in_order_take_no_memory() {
    for config in [rfc(), modern()] {
        let mut pair = Pair::up(config);
        let [first, .., last] = [1, 2, 3, 4].map(|messages| {
            pair.send(Client, 1, pattern(300_000));
            assert!(pair.run_until(|pair| pair.read(Server, 1).len() == messages));
            pair.run(Duration::from_secs(1));
            [Client, Server].map(|side| pair.association(side).memory_bytes())
        });
        assert_eq!(first, last);
    }
}

#[test]
fn the_fragments_of_a_message_agree() {
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# If an unordered user message is fragmented, each fragment of the
    //# message MUST have its U bit set to 1.
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# When a user message is fragmented by SCTP for transport, the same
    //# Stream Sequence Number MUST be carried in each of the fragments of the
    //# message.
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# This field MUST be sent even in fragmented DATA chunks (to make sure
    //# it is available for agents in the middle of the network).
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# An unfragmented user message MUST have both the B and E bits set to 1.
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# This means that the TSNs for each fragment of a fragmented user
    //# message MUST be strictly sequential.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# The transmitter MUST then assign, in sequence, a separate TSN to each
    //# of the DATA chunks in the series.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# If the user indicates that the user message is to be delivered using
    //# unordered delivery, then the U flag of each DATA chunk of the user
    //# message MUST be set to 1.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# The transmitter MUST also set the B/E bits of the first DATA chunk in
    //# the series to 10, the B/E bits of the last DATA chunk in the series to
    //# 01, and the B/E bits of all other DATA chunks in the series to 00.
    for order in [Order::Ordered, Order::Unordered] {
        let mut pair = Pair::up(rfc());
        pair.send(Client, 2, "first, and whole");
        let message = Message { order, ..Message::new(Ppid(9), pattern(5_000)) };
        pair.association(Client).send(StreamId(2), message).unwrap();
        pair.run(Duration::from_secs(1));
        let data = pair.data(Client);
        assert!(data[0].begin && data[0].end);
        let fragments = &data[1..];
        let marks: Vec<_> = fragments.iter().map(|data| (data.begin, data.end)).collect();
        assert_eq!(marks, [(true, false), (false, false), (false, false), (false, true)]);
        for (index, fragment) in fragments.iter().enumerate() {
            assert_eq!(fragment.tsn, data[0].tsn.plus(1 + index as u32), "strictly sequential");
            assert_eq!((fragment.unordered, fragment.ppid), (order == Order::Unordered, Ppid(9)));
            assert_eq!((fragment.stream, fragment.ssn), (StreamId(2), fragments[0].ssn));
        }
        assert_eq!(data[0].ssn.0, 0);
        assert!(order == Order::Unordered || fragments[0].ssn.0 == 1);
    }
}

#[test]
fn an_rtt_sample_is_taken_per_round_trip() {
    //= specs/rfc9260.txt#section-6.3.1
    //= type=test
    //# C4) When data is in flight and when allowed by rule C5 below, a new
    //# RTT measurement MUST be made each round trip.
    let mut pair = Pair::up(rfc());
    for latency in [10, 50, 20].map(Duration::from_millis) {
        pair.latency = latency;
        for _ in 0..60 {
            // Two packets, which are answered at once.
            pair.send(Client, 0, pattern(2_000));
            pair.run(3 * latency);
        }
        let srtt = pair.association(Client).stats().paths[0].srtt.unwrap();
        assert!(srtt.abs_diff(2 * latency) < Duration::from_millis(1), "{srtt:?}");
    }
}

#[test]
fn flight_bytes_include_headers_and_padding_and_the_peers_window_does_not() {
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# During the life of the association, this buffer space SHOULD NOT be
    //# reduced (i.e., dedicated buffers ought not to be taken away from this
    //# association); however, an endpoint MAY change the value of a_rwnd it
    //# sends in SACK chunks.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# During the life of the association, this buffer space SHOULD NOT be
    //# reduced (i.e., dedicated buffers ought not to be taken away from this
    //# association); however, an endpoint MAY change the value of a_rwnd it
    //# sends in SACK chunks.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# The data receiver SHOULD NOT increment a_rwnd unless it has released
    //# bytes from its receive buffer.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# When sending a SACK chunk, the data receiver SHOULD place the current
    //# value of a_rwnd into the a_rwnd field.
    //= specs/rfc9260.txt#section-6.2.1
    //= type=test
    //# An endpoint SHOULD use the following rules to calculate the rwnd,
    //# using the a_rwnd value, the Cumulative TSN Ack, and Gap Ack Blocks in
    //# a received SACK chunk.
    //= specs/rfc9260.txt#section-7.2
    //= type=test
    //# When calculating one of these variables, the length of the DATA chunk,
    //# including the padding, SHOULD be used.
    let mut pair = Pair::up(rfc());
    pair.reads = false;
    pair.send(Client, 0, pattern(1_001));
    pair.drain(Client);
    let stats = pair.association(Client).stats();
    assert_eq!(stats.paths[0].flight_bytes, 16 + 1_001 + 3);
    assert_eq!(stats.peer_rwnd, (1 << 20) - stats.paths[0].flight_bytes);
    pair.run(Duration::from_secs(1));
    let held = 1_001 + 64;
    assert_eq!(pair.association(Server).stats().a_rwnd, (1 << 20) - held);
    assert_eq!(pair.association(Client).stats().peer_rwnd, (1 << 20) - held);
    pair.read_all(Server);
    assert_eq!(pair.association(Server).stats().a_rwnd, 1 << 20);
}

#[test]
fn small_messages_share_packets() {
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# The TSNs of DATA chunks sent SHOULD be strictly sequential.
    //= specs/rfc9260.txt#section-6.10
    //= type=test
    //# The transmitter MUST transmit DATA chunks within an SCTP packet in
    //# increasing order of TSN.
    let mut pair = Pair::up(modern());
    for number in 0..20u8 {
        pair.send(Client, u16::from(number % 3), vec![number; 50]);
    }
    pair.run(Duration::from_secs(1));
    let packets: Vec<_> = pair.packets(Client).into_iter().filter(|p| !p.is_empty()).collect();
    assert_eq!(packets[0].len(), 20, "fifty bytes and a header, twenty times, fit one packet");
    assert!(pair.data(Client).windows(2).all(|two| two[1].tsn == two[0].tsn.next()), "in the order of TSNs");
    assert_eq!(pair.read(Server, 0).len(), 7);
}

#[test]
fn the_tail_of_one_message_and_the_head_of_the_next_share_a_packet() {
    let mut pair = Pair::up(modern());
    pair.send(Client, 0, pattern(2_000));
    pair.send(Client, 1, pattern(2_000));
    pair.run(Duration::from_secs(1));
    let sizes: Vec<_> = pair.data(Client).iter().map(|data| data.payload.len()).collect();
    assert_eq!(sizes, [1_424, 576, 832, 1_168]);
}

#[test]
fn unordered_messages_arrive_too() {
    let mut pair = Pair::up(rfc());
    let message = Message { order: Order::Unordered, ..Message::new(Ppid(9), "unordered") };
    pair.association(Client).send(StreamId(0), message).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 0), [b"unordered"]);
    assert!(pair.data(Client)[0].unordered);
}

#[test]
fn every_second_packet_is_answered_and_a_single_one_after_200_ms() {
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# Subsequent acknowledgements SHOULD be done as described in Section
    //# 6.2.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# The SCTP endpoint MUST always acknowledge the reception of each valid
    //# DATA chunk when the DATA chunk received is inside its receive window.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# However, an SCTP transmitter MUST NOT be more aggressive in sending
    //# SACK chunks than the following algorithms allow.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# An SCTP receiver MUST NOT generate more than one SACK chunk for every
    //# incoming packet, other than to update the offered window as the
    //# receiving application consumes new data.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# After the reception of the first DATA chunk in an association, the
    //# endpoint MUST immediately respond with a SACK chunk to acknowledge the
    //# DATA chunk.
    let mut pair = Pair::up(rfc());
    pair.send(Client, 0, "the first of all");
    let start = pair.now;
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.sacks(Server)[0].0, start + LATENCY, "at once (RFC 9260 §5.1)");
    pair.log.clear();
    pair.send(Client, 0, "one");
    let start = pair.now;
    pair.run(Duration::from_secs(1));
    let sacks = pair.sacks(Server);
    assert_eq!(sacks.len(), 1);
    assert_eq!(sacks[0].0, start + LATENCY + Duration::from_millis(200));
    pair.log.clear();
    pair.send(Client, 0, pattern(1_424 * 2));
    let start = pair.now;
    pair.run(Duration::from_secs(1));
    let sacks = pair.sacks(Server);
    assert_eq!((sacks.len(), sacks[0].0), (1, start + LATENCY));
}

#[test]
fn a_sack_is_bundled_with_data_in_the_other_direction() {
    //= specs/rfc9260.txt#section-6.1
    //= type=test
    //# if any received DATA chunks have not been acknowledged (e.g., due to
    //# delayed ack), the sender SHOULD create a SACK chunk and bundle it with
    //# the outbound DATA chunk, as long as the size of the final SCTP packet
    //# does not exceed the current PMTU.
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# Control chunks MUST come before DATA chunks in the packet.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# The implementation MUST also take into account the space required for
    //# a SACK chunk if bundling a SACK chunk with the DATA chunk.
    //= specs/rfc9260.txt#section-6.10
    //= type=test
    //# When bundling control chunks with DATA chunks, an endpoint MUST place
    //# control chunks first in the outbound SCTP packet.
    let mut pair = Pair::up(rfc());
    pair.send(Client, 0, "the first of all is answered at once");
    pair.run(Duration::from_secs(1));
    pair.log.clear();
    pair.send(Client, 0, "question");
    pair.run(LATENCY + Duration::from_millis(1));
    pair.send(Server, 0, pattern(2_000));
    pair.run(Duration::from_millis(1));
    let packets = pair.packets(Server);
    assert!(matches!(packets[0][..], [Chunk::Sack(_), Chunk::Data(_)]), "{packets:?}");
    assert!(pair.log.iter().all(|entry| entry.2.len() <= 1_452), "the SACK has its room");
}

#[test]
fn the_modern_profile_requests_a_sack_at_the_end() {
    let mut pair = Pair::up(modern());
    pair.send(Client, 0, "one");
    let start = pair.now;
    pair.run(Duration::from_secs(1));
    assert!(pair.data(Client)[0].immediate);
    assert_eq!(pair.sacks(Server)[0].0, start + LATENCY);
}

#[test]
fn a_full_send_buffer_refuses_and_says_when_there_is_room() {
    let config = rfc().with(|c| c.memory.send_buffer_bytes = 10_000);
    let mut pair = Pair::up(config);
    let mut accepted = 0;
    let refused = loop {
        match pair.association(Client).send(StreamId(0), Message::new(Ppid(0), pattern(3_000))) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((accepted, refused), (3, SendError::Full));
    assert!(pair.association(Client).send_room() < 3_000);
    pair.run(Duration::from_secs(2));
    assert!(pair.events(Client).contains(&Event::Writable));
    assert_eq!(pair.association(Client).send_room(), 10_000 - 64);
    assert_eq!(pair.read(Server, 0).len(), 3);
}

#[test]
fn a_message_longer_than_the_send_buffer_is_accepted_by_an_empty_buffer() {
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# A DATA chunk with a User Data field of length L will have the Length
    //# field set to (16 + L) (indicating 16 + L bytes) where L MUST be
    //# greater than 0.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# An endpoint SHOULD NOT send a DATA chunk with no user data part.
    let config = rfc().with(|c| {
        c.memory.send_buffer_bytes = 10_000;
        c.messages.max_bytes = 100_000;
    });
    let mut pair = Pair::up(config);
    let send = |pair: &mut Pair, len| {
        pair.association(Client).send(StreamId(0), Message::new(Ppid(0), pattern(len)))
    };
    assert_eq!(send(&mut pair, 100_001), Err(SendError::TooLong));
    assert_eq!(send(&mut pair, 100_000), Ok(()));
    assert_eq!(send(&mut pair, 1), Err(SendError::Full));
    assert_eq!(send(&mut pair, 0), Err(SendError::Empty));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    assert_eq!(pair.read(Server, 0), [pattern(100_000)]);
    pair.run(Duration::from_secs(1));
    assert_eq!(send(&mut pair, 1), Ok(()));
}

#[test]
fn a_message_longer_than_the_receive_buffer_is_read_in_pieces() {
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# If the data receiver runs out of buffer space while still waiting for
    //# more fragments to complete the reassembly of the message, it SHOULD
    //# dispatch part of its inbound message through a partial delivery API
    //# (see Section 11),
    let server = rfc().with(|c| c.memory.receive_buffer_bytes = 20_000);
    let mut pair = Pair::with(rfc(), server);
    pair.run(Duration::from_millis(100));
    pair.send(Client, 0, pattern(200_000));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    assert_eq!(pair.read(Server, 0), [pattern(200_000)]);
}

#[test]
fn the_bytes_of_a_message_whose_end_is_on_its_way_are_counted_as_they_arrive_in_order() {
    for interleaves in [false, true] {
        let config = || rfc().with(|c| c.messages.interleaving = interleaves);
        let mut pair = Pair::with(config(), config());
        pair.run(Duration::from_millis(100));
        pair.send(Client, 0, pattern(30_000));
        let stats = |pair: &mut Pair| pair.association(Server).stats();
        assert!(pair.run_until(|pair| stats(pair).partial_bytes > 0), "{interleaves}");
        let mut seen = vec![stats(&mut pair).partial_bytes];
        assert!(pair.run_until(|pair| {
            let stats = stats(pair);
            assert!(stats.partial_bytes <= stats.unread_bytes);
            seen.push(stats.partial_bytes);
            stats.partial_bytes == 0
        }));
        assert!(
            seen.iter().any(|bytes| *bytes > 10_000) && seen.iter().all(|bytes| *bytes < 30_000),
            "{seen:?}"
        );
        assert_eq!(pair.read(Server, 0), [pattern(30_000)]);
    }
}

#[test]
fn streams_beyond_those_negotiated_do_not_exist() {
    //= specs/rfc9260.txt#section-6.5
    //= type=test
    //# Every DATA chunk MUST carry a valid stream identifier.
    //= specs/rfc9260.txt#section-5.1.1
    //= type=test
    //# After the association is initialized, the valid outbound stream
    //# identifier range for either endpoint MUST be 0 to min(local OS, remote
    //# MIS) - 1.
    let server = rfc().with(|c| {
        c.streams.inbound = 4;
        c.streams.outbound = 3;
    });
    let mut pair = Pair::with(
        rfc().with(|c| {
            c.streams.outbound = 10;
            c.streams.inbound = 2;
        }),
        server,
    );
    pair.run(Duration::from_millis(100));
    let up = |pair: &Pair, side| pair.events(side).iter().find(|e| matches!(e, Event::Up { .. })).cloned();
    assert_eq!(
        up(&pair, Client),
        Some(Event::Up { outbound_streams: 4, inbound_streams: 2, adaptation: None })
    );
    assert_eq!(
        up(&pair, Server),
        Some(Event::Up { outbound_streams: 2, inbound_streams: 4, adaptation: None })
    );
    let refused = pair.association(Client).send(StreamId(4), Message::new(Ppid(0), "x"));
    assert_eq!(refused, Err(SendError::NoSuchStream));
    pair.send(Client, 3, "x");
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 3), [b"x"]);
}

#[test]
fn full_packets_leave_in_batches_of_one_size() {
    let mut pair = Pair::up(modern());
    pair.send(Client, 0, pattern(1_424 * 8));
    let output = pair.client.poll(pair.now);
    let Output::Send(transmit) = output else { panic!("{output:?}") };
    assert_eq!((transmit.segment_size, transmit.payload.len()), (Some(1_452), 8 * 1_452));
}

#[test]
fn a_batch_splits_into_its_packets() {
    let payloads = |payload: &'static [u8], segment_size| {
        let transmit = Transmit {
            from: client_address(),
            to: server_address(),
            ecn: Ecn::Ect0,
            payload: Bytes::from_static(payload),
            segment_size,
            split: Split::Unspecified,
        };
        transmit.into_datagrams().map(|datagram| datagram.payload.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(payloads(b"abcdefgh", Some(3)), [&b"abc"[..], b"def", b"gh"]);
    assert_eq!(payloads(b"abc", None), [b"abc"]);
}

/// Sends messages of these lengths, and returns the length of each packet by batch.
fn batches_of(messages: &[usize]) -> Vec<Vec<usize>> {
    batches_with(modern(), messages)
}

fn batches_with(config: Config, messages: &[usize]) -> Vec<Vec<usize>> {
    let mut pair = Pair::up(config);
    messages.iter().for_each(|len| pair.send(Client, 0, pattern(*len)));
    let mut batches = Vec::new();
    while let Output::Send(transmit) = pair.client.poll(pair.now) {
        let split = transmit.split;
        let datagrams: Vec<_> = transmit.into_datagrams().collect();
        batches.push(datagrams.iter().map(|datagram| datagram.payload.len()).collect());
        datagrams.into_iter().for_each(|datagram| pair.carry(Client, datagram, split));
    }
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == messages.len()));
    let received: Vec<_> = pair.read(Server, 0).iter().map(Vec::len).collect();
    assert_eq!(received, messages);
    batches
}

#[test]
fn packets_of_one_short_size_leave_in_one_batch() {
    assert_eq!(batches_of(&[1_200; 8]), [[1_228; 8]]);
    // Four messages to a packet.
    assert_eq!(batches_of(&[300; 32]), [[1_276; 8]]);
}

#[test]
fn a_packet_that_would_end_its_batch_is_filled_with_a_short_fragment() {
    // After the end of the first message, the third packet has room for 160 bytes.
    assert_eq!(batches_of(&[4_096; 3]), [[vec![1_452; 8], vec![956]].concat()]);
    // No packet before it: the first packet is not filled with 100 bytes, and begins no batch of short ones.
    assert_eq!(batches_of(&[1_308, 1_424, 1_424]), [vec![1_336], vec![1_452, 1_452]]);
}

#[test]
fn a_packet_that_would_end_its_batch_is_padded_if_no_fragment_fits() {
    assert_eq!(batches_of(&[1_424, 1_412, 1_424]), [[1_452; 3]]);
    // Nothing follows.
    assert_eq!(batches_of(&[1_424, 1_412]), [[1_452, 1_440]]);
    // A chunk with 8 bytes of data has as many bytes as the longest padding and a word.
    assert_eq!(batches_of(&[1_424, 1_404, 1_424]), [[1_452; 3]]);
    assert_eq!(batches_of(&[1_424, 1_400, 1_424]), [[1_452, 1_452, 1_444]]);
    let whole = modern().with(|c| c.messages.fragments = Fragments::Full);
    let of_another_stack = modern().with(|c| c.sack.compact_sack = false);
    for config in [whole, of_another_stack] {
        assert_eq!(batches_with(config, &[1_424, 1_412, 1_424]), [vec![1_452, 1_440], vec![1_452]]);
    }
}

#[test]
fn even_fragments_of_equal_messages_leave_in_one_batch() {
    let even = || modern().with(|c| c.messages.fragments = Fragments::Even);
    // 1,368, 1,364 and 1,364 bytes, of which the shorter ones are padded.
    assert_eq!(batches_with(even(), &[4_096; 3]), [[vec![1_396; 8], vec![1_392]].concat()]);
    // A longer packet than those before it begins a batch.
    assert_eq!(batches_with(even(), &[1_426, 1_424]), [vec![744, 744], vec![1_452]]);
    // Half of it would be shorter than any fragment.
    let mut small = even();
    small.path_mtu.packet_bytes = 512;
    small.path_mtu.discovery = None;
    assert_eq!(batches_with(small, &[488]), [[284, 260]]);
}

#[test]
fn a_packet_longer_than_its_batch_begins_the_next_one() {
    assert_eq!(
        batches_of(&[1_200, 1_300, 1_300, 1_200, 1_400]),
        [vec![1_228], vec![1_328, 1_328, 1_328], vec![1_344]]
    );
}

#[test]
fn a_short_packet_does_not_shorten_later_ones() {
    let mut pair = Pair::up(modern());
    pair.send(Client, 0, pattern(1_300));
    pair.send(Client, 0, pattern(1_424 * 4));
    pair.run(Duration::from_secs(1));
    let sizes: Vec<_> = pair.data(Client).iter().map(|data| data.payload.len()).collect();
    assert_eq!(sizes, [1_300, 1_424, 1_424, 1_424, 1_424]);
}

#[test]
fn max_burst_limits_the_packets_per_event() {
    //= specs/rfc9260.txt#section-6.1
    //= type=test
    //# When calculating the number of packets to transmit, and particularly
    //# when using the formula above, cwnd SHOULD NOT be changed permanently.
    //= specs/rfc9260.txt#section-6.1
    //= type=test
    //# When the time comes for the sender to transmit new DATA chunks, the
    //# protocol parameter 'Max.Burst' SHOULD be used to limit the number of
    //# packets sent.
    let mut options = rfc().congestion.options;
    options.initial_window = braidftp_cc::InitialWindow::Mtus(20.try_into().unwrap());
    let mut pair = Pair::up(rfc().with(|c| c.congestion.options = options));
    pair.send(Client, 0, pattern(1_424 * 20));
    let window = pair.association(Client).stats().paths[0].cwnd;
    pair.run(Duration::from_millis(1));
    assert_eq!(pair.data(Client).len(), 4);
    assert_eq!(pair.association(Client).stats().paths[0].cwnd, window);
}

#[test]
fn by_packet_no_packet_brings_new_chunks_of_two_streams() {
    let mut pair = Pair::up(modern().with(|c| c.messages.scheduler = Scheduler::RoundRobinByPacket));
    for number in 0..60_u16 {
        pair.send(Client, number % 3, pattern(200 + usize::from(number)));
    }
    pair.run(Duration::from_secs(1));
    let packets: Vec<Vec<_>> = pair
        .packets(Client)
        .iter()
        .map(|chunks| {
            chunks.iter().filter_map(|c| if let Chunk::Data(data) = c { Some(data.stream) } else { None })
        })
        .map(Iterator::collect)
        .collect();
    assert!(packets.iter().all(|streams| streams.windows(2).all(|two| two[0] == two[1])), "{packets:?}");
    assert!(packets.iter().any(|streams| streams.len() > 2), "packets are filled, though");
    assert_eq!((0..3).map(|stream| pair.read(Server, stream).len()).sum::<usize>(), 60);
}

#[test]
fn a_high_priority_message_overtakes_queued_messages() {
    let mut pair = Pair::up(modern().with(|c| c.messages.scheduler = Scheduler::Priority));
    pair.association(Client).set_stream_value(StreamId(0), 1).unwrap();
    for _ in 0..50 {
        pair.send(Client, 0, pattern(1_000));
    }
    pair.send(Client, 1, pattern(1_000));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.data(Client)[0].stream, StreamId(1));
    assert_eq!(pair.read(Server, 0).len(), 50);
}

#[test]
fn a_stream_that_does_not_exist_has_no_value() {
    let mut pair = Pair::up(rfc());
    let streams = pair.association(Client).stats().outbound_streams;
    let association = pair.association(Client);
    assert_eq!(association.set_stream_value(StreamId(streams - 1), 3), Ok(()));
    let error = association.set_stream_value(StreamId(streams), 3).unwrap_err();
    assert_eq!(error.to_string(), "the association has no outbound stream 10; use one that was negotiated");
}
