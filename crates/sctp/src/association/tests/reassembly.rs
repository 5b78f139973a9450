//! Reassembly of messages for every order of arrival.

use proptest::prelude::*;

use super::*;
use crate::association::received::{Received, Seen};

const BUFFER: usize = 64 << 10;

/// A receiver of chunks that numbers them by itself.
struct Bench {
    received: Received,
    reassembly: Reassembly,
}

impl Bench {
    fn new(initial_tsn: u32) -> Self {
        Self {
            received: Received::new(Tsn(initial_tsn)),
            reassembly: Reassembly::new(Tsn(initial_tsn), BUFFER),
        }
    }

    fn push(&mut self, data: &Data) -> Result<(), Violation> {
        assert_eq!(self.received.classify(data.tsn), Seen::New);
        self.received.accept(data.tsn);
        self.reassembly.push(data.clone(), self.received.cum_tsn())
    }

    fn read(&mut self) -> Vec<(u16, Vec<u8>)> {
        let mut read = Vec::new();
        while let Some(stream) = self.reassembly.readable() {
            let piece = self.reassembly.recv(stream).unwrap();
            assert!(piece.begin && piece.end);
            read.push((stream.0, piece.payload.concat()));
        }
        read
    }
}

fn chunk(tsn: u32, flags: &str, stream: u16, ssn: u16, payload: &[u8]) -> Data {
    Data {
        begin: flags.contains('B'),
        end: flags.contains('E'),
        unordered: flags.contains('U'),
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        payload: Bytes::copy_from_slice(payload),
        ..Data::whole(Tsn(tsn), b"")
    }
}

#[test]
fn an_unfragmented_message_is_delivered_unchanged() {
    let mut bench = Bench::new(1);
    bench.push(&chunk(1, "BE", 4, 0, b"one")).unwrap();
    assert_eq!(bench.reassembly.charged_bytes(), 3 + CHUNK_OVERHEAD_BYTES);
    assert_eq!(bench.read(), [(4, b"one".to_vec())]);
    assert_eq!((bench.reassembly.charged_bytes(), bench.reassembly.unread_bytes()), (0, 0));
}

#[test]
fn fragments_are_reassembled_in_any_order() {
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# The fragmentation and bundling mechanisms, as detailed in Sections 6.9
    //# and 6.10, are OPTIONAL to implement by the data sender, but they MUST
    //# be implemented by the data receiver, i.e., an endpoint MUST properly
    //# receive and process bundled or fragmented data.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# An endpoint MAY support fragmentation when sending DATA chunks, but it
    //# MUST support reassembly when receiving DATA chunks.
    //= specs/rfc9260.txt#section-6.9
    //= type=test
    //# An endpoint MUST recognize fragmented DATA chunks by examining the B/
    //# E bits in each of the received DATA chunks and queue the fragmented
    //# DATA chunks for reassembly.
    let fragments = [chunk(1, "B", 0, 0, b"a"), chunk(2, "", 0, 0, b"b"), chunk(3, "E", 0, 0, b"c")];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut bench = Bench::new(1);
        for index in order {
            assert_eq!(bench.read(), []);
            bench.push(&fragments[index]).unwrap();
        }
        assert_eq!(bench.read(), [(0, b"abc".to_vec())], "{order:?}");
    }
}

#[test]
fn a_gap_on_one_stream_blocks_no_other_stream() {
    //= specs/rfc9260.txt#section-6.6
    //= type=test
    //# Within a stream, an endpoint MUST deliver DATA chunks received with
    //# the U flag set to 0 to the upper layer according to the order of their
    //# Stream Sequence Number.
    //= specs/rfc9260.txt#section-6.6
    //= type=test
    //# If DATA chunks arrive out of order of their Stream Sequence Number,
    //# the endpoint MUST hold the received DATA chunks from delivery to the
    //# ULP until they are reordered.
    let mut bench = Bench::new(1);
    bench.push(&chunk(2, "BE", 1, 0, b"other stream")).unwrap();
    bench.push(&chunk(3, "BE", 0, 1, b"second")).unwrap();
    bench.push(&chunk(4, "BEU", 0, 9, b"unordered")).unwrap();
    assert_eq!(bench.read(), [(1, b"other stream".to_vec()), (0, b"unordered".to_vec())]);
    bench.push(&chunk(1, "BE", 0, 0, b"first")).unwrap();
    assert_eq!(bench.read(), [(0, b"first".to_vec()), (0, b"second".to_vec())]);
}

#[test]
fn an_unordered_message_may_have_any_stream_sequence_number() {
    //= specs/rfc9260.txt#section-3.3.1
    //= type=test
    //# Therefore, the receiver MUST ignore the Stream Sequence Number field.
    //= specs/rfc9260.txt#section-6.6
    //= type=test
    //# The sender can fill the 'Stream Sequence Number' with arbitrary value,
    //# but the receiver MUST ignore the field.
    let mut bench = Bench::new(1);
    let fragments = [chunk(1, "BU", 0, 7, b"a"), chunk(2, "U", 0, 65_535, b"b"), chunk(3, "EU", 0, 1, b"c")];
    for (after, order) in [(0, [0, 1, 2]), (3, [2, 1, 0])] {
        for index in order {
            let tsn = fragments[index].tsn.plus(after);
            bench.push(&Data { tsn, ..fragments[index].clone() }).unwrap();
        }
        assert_eq!(bench.read(), [(0, b"abc".to_vec())]);
    }
    bench.push(&chunk(7, "BE", 0, 0, b"ordered")).unwrap();
    assert_eq!(bench.read(), [(0, b"ordered".to_vec())], "and it was not counted");
}

#[test]
fn a_large_message_is_delivered_in_consecutive_pieces() {
    let mut bench = Bench::new(1);
    let part = vec![7; BUFFER / 4];
    bench.push(&chunk(1, "B", 0, 0, &part)).unwrap();
    assert_eq!(bench.reassembly.readable(), None);
    bench.push(&chunk(2, "", 0, 0, &part)).unwrap();
    let first = bench.reassembly.recv(StreamId(0)).unwrap();
    assert_eq!((first.begin, first.end, first.len()), (true, false, BUFFER / 2));
    bench.push(&chunk(4, "E", 0, 0, b"end")).unwrap();
    bench.push(&chunk(5, "BEU", 0, 0, b"unordered")).unwrap();
    bench.push(&chunk(6, "BE", 0, 1, b"next")).unwrap();
    assert_eq!(bench.reassembly.recv(StreamId(0)), None);
    bench.push(&chunk(3, "", 0, 0, &part)).unwrap();
    let rest = bench.reassembly.recv(StreamId(0)).unwrap();
    assert_eq!((rest.begin, rest.end, rest.len()), (false, true, BUFFER / 4 + 3));
    assert_eq!(bench.read(), [(0, b"unordered".to_vec()), (0, b"next".to_vec())]);
    assert_eq!(bench.reassembly.charged_bytes(), 0);
}

#[test]
fn an_ordered_message_behind_the_pieces_of_an_unordered_one_follows_it() {
    let mut bench = Bench::new(1);
    bench.push(&chunk(1, "BU", 0, 0, b"begun")).unwrap();
    bench.reassembly.deliver_partially();
    assert!(!bench.reassembly.recv(StreamId(0)).unwrap().end);
    bench.push(&chunk(3, "BE", 0, 0, b"ordered")).unwrap();
    bench.push(&chunk(2, "EU", 0, 0, b"end")).unwrap();
    assert!(bench.reassembly.recv(StreamId(0)).unwrap().end);
    assert_eq!(bench.read(), [(0, b"ordered".to_vec())]);
}

#[test]
fn a_full_buffer_with_nothing_to_read_makes_the_front_message_readable() {
    let mut bench = Bench::new(1);
    bench.push(&chunk(1, "B", 0, 0, b"begun")).unwrap();
    bench.reassembly.deliver_partially();
    let piece = bench.reassembly.recv(StreamId(0)).unwrap();
    assert_eq!((piece.begin, piece.end, piece.len()), (true, false, 5));
}

#[test]
fn chunks_that_contradict_each_other_are_violations() {
    let wrong = |chunks: &[Data]| {
        let mut bench = Bench::new(1);
        chunks.iter().try_for_each(|chunk| bench.push(chunk)).unwrap_err()
    };
    let begun = chunk(1, "B", 0, 0, b"a");
    assert_eq!(wrong(&[chunk(1, "E", 0, 0, b"a")]), Violation::FragmentWithoutBegin);
    assert_eq!(wrong(&[begun.clone(), chunk(2, "BE", 0, 1, b"b")]), Violation::MessageInterrupted);
    assert_eq!(wrong(&[begun.clone(), chunk(2, "E", 1, 0, b"b")]), Violation::MessageInterrupted);
    assert_eq!(wrong(&[begun.clone(), chunk(2, "E", 0, 1, b"b")]), Violation::MessageInterrupted);
    assert_eq!(wrong(&[begun.clone(), chunk(2, "EU", 0, 0, b"b")]), Violation::MessageInterrupted);
    assert_eq!(wrong(&[chunk(2, "BE", 0, 1, b"b"), begun.clone()]), Violation::MessageInterrupted);
    assert_eq!(wrong(&[chunk(2, "B", 0, 1, b"b"), chunk(3, "B", 0, 2, b"")]), Violation::MessageInterrupted);
    assert_eq!(
        wrong(&[chunk(3, "E", 0, 1, b"b"), chunk(2, "BE", 0, 1, b"")]),
        Violation::FragmentWithoutBegin
    );
    assert_eq!(wrong(&[chunk(1, "BE", 0, 1, b"a")]), Violation::SsnOutOfStep);
}

#[test]
fn two_messages_of_one_number_are_charged_once() {
    let mut bench = Bench::new(1);
    bench.push(&chunk(3, "BE", 0, 5, b"a")).unwrap();
    bench.push(&chunk(5, "BE", 0, 5, b"b")).unwrap();
    assert_eq!(bench.reassembly.charged_bytes(), 1 + CHUNK_OVERHEAD_BYTES);
}

#[test]
fn streams_are_readable_in_turn_and_announced_when_they_were_empty() {
    let mut bench = Bench::new(1);
    for (tsn, stream, ssn) in [(1, 0, 0), (2, 0, 1), (3, 5, 0)] {
        bench.push(&chunk(tsn, "BE", stream, ssn, b"x")).unwrap();
    }
    let fresh: Vec<_> = std::iter::from_fn(|| bench.reassembly.take_fresh()).collect();
    assert_eq!(fresh, [StreamId(0), StreamId(5)]);
    let streams: Vec<_> = bench.read().iter().map(|read| read.0).collect();
    assert_eq!(streams, [0, 5, 0]);
}

#[derive(Debug, Clone)]
struct Planned {
    stream: u16,
    unordered: bool,
    fragments: usize,
}

fn planned() -> impl Strategy<Value = Planned> {
    (0u16..4, prop::bool::weighted(0.3), 1usize..5).prop_map(|(stream, unordered, fragments)| Planned {
        stream,
        unordered,
        fragments,
    })
}

proptest! {
    #[test]
    fn messages_are_delivered_once_and_in_order_for_any_order_of_arrival(
        plan in prop::collection::vec(planned(), 1..30),
        initial_tsn in prop::sample::select(vec![1, u32::MAX - 5]),
        shuffle in any::<prop::sample::Index>(),
        swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..60),
    ) {
        let mut chunks = Vec::new();
        let mut ssns = [0u16; 4];
        for (number, message) in plan.iter().enumerate() {
            let ssn = ssns[usize::from(message.stream)];
            for fragment in 0..message.fragments {
                let mut flags = String::new();
                if fragment == 0 { flags.push('B') }
                if fragment + 1 == message.fragments { flags.push('E') }
                if message.unordered { flags.push('U') }
                let tsn = initial_tsn.wrapping_add(chunks.len() as u32);
                chunks.push(chunk(tsn, &flags, message.stream, ssn, &[number as u8, fragment as u8]));
            }
            if !message.unordered { ssns[usize::from(message.stream)] += 1 }
        }
        let count = chunks.len();
        chunks.rotate_left(shuffle.index(count));
        for (a, b) in swaps {
            chunks.swap(a.index(count), b.index(count));
        }
        let mut bench = Bench::new(initial_tsn);
        let mut read = Vec::new();
        for chunk in &chunks {
            bench.push(chunk).unwrap();
            read.extend(bench.read());
        }
        prop_assert_eq!(bench.reassembly.charged_bytes(), 0);
        let mut seen = vec![false; plan.len()];
        let mut last_ordered = [None; 4];
        for (stream, payload) in read {
            let number = usize::from(payload[0]);
            let expected: Vec<u8> =
                (0..plan[number].fragments).flat_map(|fragment| [number as u8, fragment as u8]).collect();
            prop_assert_eq!(payload, expected);
            prop_assert_eq!(stream, plan[number].stream);
            prop_assert!(!std::mem::replace(&mut seen[number], true));
            if !plan[number].unordered {
                let last = &mut last_ordered[usize::from(stream)];
                prop_assert!(*last < Some(number));
                *last = Some(number);
            }
        }
        prop_assert!(seen.iter().all(|seen| *seen));
    }
}

impl Bench {
    /// FORWARD TSN with these streams.
    fn forward(&mut self, new_cum_tsn: u32, streams: &[(u16, u16)]) -> Result<(), Violation> {
        assert!(self.received.forward(Tsn(new_cum_tsn)));
        let streams = streams.iter().map(|(stream, ssn)| (StreamId(*stream), Ssn(*ssn)));
        self.reassembly.forward(Tsn(new_cum_tsn), self.received.cum_tsn(), streams)
    }

    fn charged_and_unread(&self) -> (usize, usize) {
        (self.reassembly.charged_bytes(), self.reassembly.unread_bytes())
    }
}

//= specs/rfc3758.txt#section-3.6
//= type=test
//# In particular, during processing of a FORWARD TSN, the receiver MUST
//# use the stream sequence information to examine all of the listed
//# stream reordering queues, and immediately make available for delivery
//# stream sequence numbers earlier than or equal to the stream sequence
//# number listed inside the FORWARD TSN.  Any such stranded data SHOULD
//# be made immediately available to the upper layer application.
#[test]
fn messages_behind_a_skipped_one_are_delivered_at_once() {
    let mut bench = Bench::new(1);
    bench.push(&chunk(2, "BE", 5, 1, b"b")).unwrap();
    bench.push(&chunk(4, "BE", 5, 3, b"d")).unwrap();
    bench.push(&chunk(6, "BE", 5, 5, b"f")).unwrap();
    bench.push(&chunk(7, "BE", 6, 1, b"other")).unwrap();
    assert_eq!(bench.read(), []);
    bench.forward(3, &[(5, 2)]).unwrap();
    assert_eq!(bench.read(), [(5, b"b".to_vec()), (5, b"d".to_vec())], "4 follows on what was skipped");
    bench.push(&chunk(5, "BE", 5, 4, b"e")).unwrap();
    assert_eq!(bench.read(), [(5, b"e".to_vec()), (5, b"f".to_vec())]);
    assert_eq!(bench.received.cum_tsn(), Tsn(7), "the other stream still waits for its first message");
    bench.push(&chunk(8, "BE", 5, 6, b"g")).unwrap();
    assert_eq!(bench.read(), [(5, b"g".to_vec())]);
}

//= specs/rfc3758.txt#section-3.6
//= type=test
//# After receiving and processing a FORWARD TSN, the data receiver MUST
//# take cautions in updating its re-assembly queue.  The receiver MUST
//# remove any partially reassembled message, which is still missing one
//# or more TSNs earlier than or equal to the new cumulative TSN point.
#[test]
fn an_abandoned_partly_received_message_leaves_no_fragments() {
    // In sequence, and beyond a gap without its begin or without its end.
    for came in [vec![1, 2], vec![2], vec![2, 3], vec![1, 3]] {
        let mut bench = Bench::new(1);
        let flags = ["B", "", "E"];
        for tsn in &came {
            bench.push(&chunk(*tsn, flags[*tsn as usize - 1], 0, 0, b"half")).unwrap();
        }
        bench.push(&chunk(5, "", 0, 1, b"next")).unwrap();
        bench.forward(3, &[(0, 0)]).unwrap();
        assert_eq!(bench.charged_and_unread(), (4 + CHUNK_OVERHEAD_BYTES, 4), "{came:?}");
        bench.push(&chunk(4, "B", 0, 1, b"a")).unwrap();
        bench.push(&chunk(6, "E", 0, 1, b"z")).unwrap();
        assert_eq!(bench.read(), [(0, b"anextz".to_vec())], "{came:?}");
        assert_eq!(bench.charged_and_unread(), (0, 0), "{came:?}");
    }
}

#[test]
fn the_rest_of_an_abandoned_message_is_dropped() {
    let mut bench = Bench::new(1);
    bench.push(&chunk(1, "B", 0, 0, b"a")).unwrap();
    bench.push(&chunk(4, "", 0, 0, b"d")).unwrap();
    bench.forward(2, &[(0, 0)]).unwrap();
    bench.push(&chunk(3, "", 0, 0, b"c")).unwrap();
    bench.push(&chunk(5, "E", 0, 0, b"e")).unwrap();
    assert_eq!((bench.read(), bench.charged_and_unread()), (vec![], (0, 0)));
    assert_eq!(bench.push(&chunk(6, "", 0, 1, b"f")), Err(Violation::FragmentWithoutBegin));
}

//= specs/rfc3758.txt#section-3.6
//= type=test
//# In the event that the receiver has invoked the partial delivery API,
//# a notification SHOULD also be generated to inform the upper layer API
//# that the message being partially delivered will NOT be completed.
#[test]
fn a_partially_delivered_message_is_aborted() {
    for (read_before, unordered) in [(true, false), (false, false), (true, true)] {
        let flags = |fragment: &str| format!("{fragment}{}", if unordered { "U" } else { "" });
        let mut bench = Bench::new(1);
        bench.push(&chunk(1, &flags("B"), 3, 0, &[1; BUFFER / 2])).unwrap();
        bench.push(&chunk(2, &flags(""), 3, 0, b"more")).unwrap();
        bench.push(&chunk(4, "BE", 3, u16::from(!unordered), b"whole")).unwrap();
        if read_before {
            let piece = bench.reassembly.recv(StreamId(3)).unwrap();
            assert_eq!((piece.begin, piece.end, piece.aborted), (true, false, false));
        }
        let streams: &[_] = if unordered { &[] } else { &[(3, 0)] };
        bench.forward(3, streams).unwrap();
        if read_before {
            let piece = bench.reassembly.recv(StreamId(3)).unwrap();
            assert_eq!((piece.begin, piece.end, piece.aborted, piece.len()), (false, true, true, 0));
        }
        assert_eq!(bench.read(), [(3, b"whole".to_vec())], "nobody hears of what nobody saw");
        assert_eq!((bench.charged_and_unread(), bench.reassembly.readable()), ((0, 0), None));
    }
}

#[test]
fn a_delivered_message_number_is_not_skipped_again() {
    let mut bench = Bench::new(1);
    bench.push(&chunk(1, "BE", 0, 0, b"a")).unwrap();
    bench.push(&chunk(2, "BE", 0, 1, b"b")).unwrap();
    bench.forward(4, &[(0, 1), (0, 65_535)]).unwrap();
    bench.push(&chunk(5, "BE", 0, 2, b"c")).unwrap();
    assert_eq!(bench.read().len(), 3);
    // And across the end of the numbers.
    bench.forward(6, &[(0, 65_534 / 2 + 2)]).unwrap();
    bench.forward(7, &[(0, 65_535)]).unwrap();
    bench.push(&chunk(8, "BE", 0, 0, b"d")).unwrap();
    assert_eq!(bench.read(), [(0, b"d".to_vec())]);
}

#[test]
fn a_flood_of_forward_tsn_costs_what_it_removes() {
    let mut bench = Bench::new(1);
    for step in 0..1_000 {
        bench.forward(60_000 * (step + 1), &[(0, step as u16)]).unwrap();
    }
    assert_eq!(bench.received.cum_tsn(), Tsn(60_000_000));
}

proptest! {
    /// Messages of one to three fragments on two streams, some given up whole, of which some chunks come, in any order,
    /// then FORWARD TSN for one after the other: the others are delivered, each once and in order; nothing is charged for
    /// in the end.
    #[test]
    fn messages_that_are_not_abandoned_are_delivered(
        messages in prop::collection::vec((1u32..4, 0u16..2, any::<bool>(), any::<bool>()), 1..12),
        order in prop::collection::vec(any::<u32>(), 36),
        at in 0usize..36,
    ) {
        let mut chunks = Vec::new();
        let mut ssns = [0u16; 2];
        let (mut tsn, mut kept, mut abandoned) = (1, Vec::new(), Vec::new());
        for (number, &(fragments, stream, unordered, gone)) in messages.iter().enumerate() {
            let ssn = ssns[usize::from(stream)];
            ssns[usize::from(stream)] += u16::from(!unordered);
            for fragment in 0..fragments {
                let flags = [
                    if fragment == 0 { "B" } else { "" },
                    if fragment + 1 == fragments { "E" } else { "" },
                    if unordered { "U" } else { "" },
                ]
                .concat();
                chunks.push((chunk(tsn, &flags, stream, ssn, &[number as u8]), gone));
                tsn += 1;
            }
            if gone {
                abandoned.push((tsn - 1, (!unordered).then_some((stream, ssn))));
            } else {
                kept.push((stream, vec![number as u8; fragments as usize], unordered));
            }
        }
        // Of what is given up only some arrives before, and nothing after.
        let mut arrivals: Vec<_> = chunks.iter().zip(&order).collect();
        arrivals.sort_by_key(|(_, key)| **key);
        let mut bench = Bench::new(1);
        let mut read = Vec::new();
        for (index, ((chunk, gone), _)) in arrivals.into_iter().enumerate() {
            if index < at || (!*gone && bench.received.classify(chunk.tsn) == Seen::New) {
                bench.push(chunk).unwrap();
            }
            read.extend(bench.read());
        }
        // One FORWARD TSN after the other, as a sender's point advances.
        let mut skipped = [None; 2];
        for (end, listed) in abandoned {
            if let Some((stream, ssn)) = listed {
                skipped[usize::from(stream)] = Some((stream, ssn));
            }
            let listed: Vec<_> = skipped.into_iter().flatten().collect();
            if Tsn(end).after(bench.received.cum_tsn()) {
                bench.forward(end, &listed).unwrap();
            }
            read.extend(bench.read());
        }
        for stream in 0..2 {
            let of = |unordered: bool| -> Vec<Vec<u8>> {
                kept.iter().filter(|m| m.0 == stream && m.2 == unordered).map(|m| m.1.clone()).collect()
            };
            let (ordered, unordered) = (of(false), of(true));
            let got: Vec<_> = read.iter().filter(|m| m.0 == stream).map(|m| m.1.clone()).collect();
            let in_order: Vec<_> = got.iter().filter(|m| ordered.contains(m)).cloned().collect();
            prop_assert_eq!(in_order, ordered);
            for message in unordered {
                prop_assert_eq!(got.iter().filter(|m| **m == message).count(), 1);
            }
        }
        prop_assert_eq!(bench.charged_and_unread(), (0, 0));
    }
}
