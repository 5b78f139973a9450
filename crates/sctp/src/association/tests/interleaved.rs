//! Reassembly of I-DATA chunks for every order of arrival, with valid and invalid numbers.

use proptest::prelude::*;

use super::*;
use crate::association::reassembly::Reassembly;
use crate::ids::Tsn;

struct Bench {
    reassembly: Reassembly,
    next: Tsn,
}

impl Bench {
    fn new(receive_buffer_bytes: usize) -> Self {
        let mut reassembly = Reassembly::new(Tsn(1), receive_buffer_bytes);
        reassembly.interleave(receive_buffer_bytes);
        Self { reassembly, next: Tsn(1) }
    }

    /// The TSN is irrelevant here.
    fn push(&mut self, chunk: Data) -> Result<(), Violation> {
        self.next = self.next.next();
        self.reassembly.push(chunk, self.next)
    }

    fn recv(&mut self, stream: u16) -> Option<(Vec<u8>, bool, bool)> {
        let piece = self.reassembly.recv(StreamId(stream))?;
        Some((piece.payload.concat(), piece.begin, piece.end))
    }
}

/// A fragment: `B`, `E`, both, or neither.
fn chunk(flags: &str, stream: u16, mid: u32, fsn: u32, payload: &[u8]) -> Data {
    Data {
        begin: flags.contains('B'),
        end: flags.contains('E'),
        unordered: flags.contains('U'),
        stream: StreamId(stream),
        interleaved: Some(Interleaved { mid, fsn }),
        ppid: Ppid(if flags.contains('B') { 7 } else { 0 }),
        payload: Bytes::copy_from_slice(payload),
        ..Data::whole(Tsn(0), b"")
    }
}

#[test]
fn messages_of_two_streams_mix() {
    //= specs/rfc8260.txt#section-2.2.3
    //= type=test
    //# Upon reception of an SCTP packet containing an I-DATA chunk whose user
    //# message needs to be reassembled, the receiver MUST first use the SID
    //# to identify the stream, consider the U bit to determine if it is part
    //# of an ordered or unordered message,
    //= specs/rfc8260.txt#section-2.2.3
    //= type=test
    //# The receiver MUST NOT make any assumption about the TSN assignments of
    //# the sender.
    let mut bench = Bench::new(1 << 20);
    bench.push(chunk("B", 0, 0, 0, b"lo")).unwrap();
    bench.push(chunk("BE", 1, 0, 0, b"short")).unwrap();
    assert_eq!(bench.recv(1), Some((b"short".to_vec(), true, true)));
    assert_eq!(bench.recv(0), None);
    bench.push(chunk("E", 0, 0, 1, b"ng")).unwrap();
    assert_eq!(bench.reassembly.recv(StreamId(0)).unwrap().ppid, Ppid(7));
}

#[test]
fn ordered_and_unordered_messages_of_one_number_are_two() {
    let mut bench = Bench::new(1 << 20);
    bench.push(chunk("B", 0, 0, 0, b"or")).unwrap();
    bench.push(chunk("UB", 0, 0, 0, b"un")).unwrap();
    bench.push(chunk("UE", 0, 0, 1, b"ordered")).unwrap();
    bench.push(chunk("E", 0, 0, 1, b"dered")).unwrap();
    assert_eq!(bench.recv(0).unwrap().0, b"unordered");
    assert_eq!(bench.recv(0).unwrap().0, b"ordered");
    assert_eq!(bench.reassembly.charged_bytes(), 0);
}

#[test]
fn fragments_with_bad_numbers_are_refused() {
    for (chunks, wrong) in [
        // A second fragment with the number of the first: Linux 6.1 sends that.
        (vec![chunk("B", 0, 0, 0, b"a"), chunk("E", 0, 0, 0, b"b")], Violation::FragmentOutOfPlace),
        (vec![chunk("", 0, 0, 1, b"a"), chunk("", 0, 0, 1, b"b")], Violation::FragmentOutOfPlace),
        (vec![chunk("B", 0, 0, 0, b"a"), chunk("B", 0, 0, 0, b"b")], Violation::FragmentOutOfPlace),
        (vec![chunk("E", 0, 0, 1, b"a"), chunk("", 0, 0, 2, b"b")], Violation::FragmentOutOfPlace),
        (vec![chunk("", 0, 0, 2, b"a"), chunk("E", 0, 0, 1, b"b")], Violation::FragmentOutOfPlace),
        (vec![chunk("E", 0, 0, 2, b"a"), chunk("E", 0, 0, 3, b"b")], Violation::FragmentOutOfPlace),
        (vec![chunk("", 0, 0, u32::MAX, b"a")], Violation::FragmentOutOfPlace),
        (vec![chunk("BE", 0, 0, 0, b"a"), chunk("BE", 0, 0, 0, b"b")], Violation::MidOutOfStep),
        (vec![chunk("BE", 0, 1 << 31, 0, b"a")], Violation::MidOutOfStep),
        (vec![Data { interleaved: None, ..chunk("BE", 0, 0, 0, b"a") }], Violation::WrongDataChunk),
    ] {
        let mut bench = Bench::new(1 << 20);
        let (last, before) = chunks.split_last().unwrap();
        for chunk in before {
            bench.push(chunk.clone()).unwrap();
        }
        assert_eq!(bench.push(last.clone()), Err(wrong), "{last} after {before:?}");
    }
}

#[test]
fn message_identifiers_wrap() {
    let mut bench = Bench::new(1 << 20);
    let Some(messages) = bench.reassembly.messages() else { panic!() };
    messages.streams.push(Stream { next_mid: u32::MAX, ..Stream::default() });
    bench.push(chunk("BE", 0, 0, 0, b"second")).unwrap();
    assert_eq!(bench.recv(0), None);
    bench.push(chunk("BE", 0, u32::MAX, 0, b"first")).unwrap();
    assert_eq!(bench.recv(0).unwrap().0, b"first");
    assert_eq!(bench.recv(0).unwrap().0, b"second");
}

#[test]
fn a_buffer_full_of_incomplete_messages_is_delivered_partially() {
    let mut bench = Bench::new(10_200);
    for stream in 0..4 {
        bench.push(chunk("B", stream, 0, 0, &[stream as u8; 1_200])).unwrap();
    }
    // 5,100 bytes are half of the buffer; overhead counts.
    assert_eq!(bench.reassembly.readable(), None);
    bench.push(chunk("BE", 3, 1, 0, b"next")).unwrap();
    for stream in 0..4 {
        assert_eq!(bench.recv(stream), Some((vec![stream as u8; 1_200], true, false)));
    }
    bench.push(chunk("", 3, 0, 1, b"more")).unwrap();
    assert_eq!(bench.recv(3), Some((b"more".to_vec(), false, false)));
    bench.push(chunk("UBE", 3, 0, 0, b"unordered")).unwrap();
    bench.push(chunk("E", 3, 0, 2, b"last")).unwrap();
    // No other message interrupts the pieces of a message.
    let rest: Vec<_> = std::iter::from_fn(|| bench.recv(3)).map(|piece| piece.0).collect();
    assert_eq!(rest, [&b"last"[..], b"unordered", b"next"]);
}

#[test]
fn messages_that_wait_for_a_missing_one_are_limited() {
    let mut bench = Bench::new(10_000);
    // Each costs 1,064 bytes, and message 0 does not arrive.
    let taken = (1..).take_while(|mid| bench.push(chunk("BE", 0, *mid, 0, &[0; 1_000])).is_ok()).count();
    assert_eq!(taken, 19, "the first for which 20,000 bytes were in use already is refused");
    assert_eq!(bench.push(chunk("BE", 0, 99, 0, b"another")), Err(Violation::NoProgress));
}

#[derive(Debug, Clone)]
struct Sent {
    stream: u16,
    unordered: bool,
    fragments: usize,
}

proptest! {
    #[test]
    fn messages_are_complete_and_in_order_for_any_order_of_chunks(
        messages in prop::collection::vec(
            (0u16..3, any::<bool>(), 1usize..6).prop_map(|(stream, unordered, fragments)| Sent { stream, unordered, fragments }),
            1..30,
        ),
        order in prop::collection::vec(any::<prop::sample::Index>(), 200),
        // Without a window that limits chunks here, the memory must stay within the hard limit.
        receive_buffer_bytes in prop_oneof![Just(1usize << 20), 5_000usize..10_000],
    ) {
        let mut mids = [[0; 2]; 3];
        let mut chunks = Vec::new();
        for (number, sent) in messages.iter().enumerate() {
            let mid = &mut mids[usize::from(sent.stream)][usize::from(sent.unordered)];
            for fsn in 0..sent.fragments {
                let mut flags = String::from(if sent.unordered { "U" } else { "" });
                flags += if fsn == 0 { "B" } else { "" };
                flags += if fsn + 1 == sent.fragments { "E" } else { "" };
                chunks.push(chunk(&flags, sent.stream, *mid, fsn as u32, &[number as u8, fsn as u8]));
            }
            *mid += 1;
        }
        for (at, other) in order.iter().enumerate().take(chunks.len()) {
            let other = other.index(chunks.len());
            chunks.swap(at, other);
        }
        let mut bench = Bench::new(receive_buffer_bytes);
        let mut open: [Vec<u8>; 3] = Default::default();
        let mut seen = vec![false; messages.len()];
        let mut last = [None; 3];
        for chunk in chunks {
            bench.push(chunk).unwrap();
            while let Some(stream) = bench.reassembly.readable() {
                let (payload, begin, end) = bench.recv(stream.0).unwrap();
                let open = &mut open[usize::from(stream.0)];
                prop_assert_eq!(begin, open.is_empty());
                open.extend(payload);
                if end {
                    let number = usize::from(open[0]);
                    let fragments = messages[number].fragments;
                    let expected: Vec<_> = (0..fragments).flat_map(|fsn| [number as u8, fsn as u8]).collect();
                    prop_assert_eq!(std::mem::take(open), expected);
                    prop_assert!(!std::mem::replace(&mut seen[number], true));
                    if !messages[number].unordered {
                        prop_assert!(last[usize::from(stream.0)].replace(number).is_none_or(|last| last < number));
                    }
                }
            }
        }
        prop_assert!(seen.into_iter().all(|seen| seen));
        prop_assert_eq!((bench.reassembly.charged_bytes(), bench.reassembly.unread_bytes()), (0, 0));
    }
}

impl Bench {
    fn skip(&mut self, stream: u16, order: Order, mid: u32) {
        let unordered = order == Order::Unordered;
        let skipped = SkippedMid { stream: StreamId(stream), unordered, mid };
        self.reassembly.forward_interleaved(std::iter::once(skipped));
    }
}

//= specs/rfc8260.txt#section-2.3.1
//= type=test
//# Therefore, the principle applied to
//# ordered messages when using FORWARD-TSN chunks is applied to ordered
//# and unordered messages when using I-FORWARD-TSN chunks.
#[test]
fn abandoned_messages_are_skipped_and_later_ones_delivered() {
    let mut bench = Bench::new(1 << 20);
    bench.push(chunk("B", 0, 0, 0, b"half")).unwrap();
    bench.push(chunk("BE", 0, 1, 0, b"one")).unwrap();
    bench.push(chunk("BE", 0, 3, 0, b"three")).unwrap();
    bench.push(chunk("UE", 0, 4, 1, b"half")).unwrap();
    bench.push(chunk("UB", 0, 6, 0, b"si")).unwrap();
    bench.skip(0, Order::Ordered, 2);
    assert_eq!(bench.recv(0).unwrap().0, b"one");
    assert_eq!(bench.recv(0).unwrap().0, b"three");
    bench.skip(0, Order::Unordered, 5);
    bench.push(chunk("UE", 0, 6, 1, b"x")).unwrap();
    assert_eq!(bench.recv(0).unwrap().0, b"six");
    assert_eq!((bench.recv(0), bench.reassembly.charged_bytes()), (None, 0));
}

#[test]
fn late_fragments_of_an_abandoned_message_are_dropped() {
    let mut bench = Bench::new(1 << 20);
    bench.push(chunk("B", 0, 0, 0, b"half")).unwrap();
    bench.skip(0, Order::Ordered, 1);
    bench.push(chunk("E", 0, 0, 1, b"rest")).unwrap();
    bench.push(chunk("", 0, 1, 1, b"rest")).unwrap();
    bench.push(chunk("UB", 0, 7, 0, b"half")).unwrap();
    bench.skip(0, Order::Unordered, 7);
    bench.push(chunk("UE", 0, 7, 1, b"rest")).unwrap();
    assert_eq!((bench.recv(0), bench.reassembly.charged_bytes()), (None, 0));
    bench.push(chunk("BE", 0, 2, 0, b"two")).unwrap();
    assert_eq!(bench.recv(0).unwrap().0, b"two");
    assert_eq!(bench.push(chunk("BE", 0, 2, 0, b"two")), Err(Violation::MidOutOfStep));
}

#[test]
fn a_message_read_in_pieces_is_aborted() {
    for order in [Order::Ordered, Order::Unordered] {
        let flags =
            |flags: &str| if order == Order::Ordered { flags.to_owned() } else { format!("U{flags}") };
        let mut bench = Bench::new(1_000);
        bench.push(chunk(&flags("B"), 2, 0, 0, &[1; 600])).unwrap();
        bench.push(chunk(&flags("BE"), 2, 1, 0, b"behind")).unwrap();
        let piece = bench.reassembly.recv(StreamId(2)).unwrap();
        assert_eq!((piece.begin, piece.end, piece.aborted), (true, false, false));
        bench.skip(2, order, 0);
        let piece = bench.reassembly.recv(StreamId(2)).unwrap();
        assert_eq!((piece.begin, piece.end, piece.aborted, piece.len()), (false, true, true, 0));
        assert_eq!(bench.recv(2).unwrap().0, b"behind", "{order:?}");
        assert_eq!((bench.recv(2), bench.reassembly.charged_bytes()), (None, 0));
    }
}

#[test]
fn messages_abandoned_with_a_partial_delivery_end_before_later_ones_are_delivered() {
    let mut bench = Bench::new(1_000);
    bench.push(chunk("B", 2, 0, 0, &[1; 600])).unwrap();
    bench.push(chunk("BE", 2, 1, 0, b"given up, but whole")).unwrap();
    bench.push(chunk("BE", 2, 2, 0, b"behind")).unwrap();
    assert_eq!(bench.recv(2), Some((vec![1; 600], true, false)));
    bench.skip(2, Order::Ordered, 1);
    let read: Vec<_> = std::iter::from_fn(|| bench.recv(2)).map(|piece| piece.0).collect();
    assert_eq!(read, [&b""[..], b"given up, but whole", b"behind"]);
}

#[test]
fn skipping_goes_by_serial_numbers() {
    let mut bench = Bench::new(1 << 20);
    bench.skip(0, Order::Ordered, i32::MAX as u32);
    bench.skip(0, Order::Ordered, u32::MAX);
    bench.push(chunk("BE", 0, 1, 0, b"one")).unwrap();
    bench.skip(0, Order::Ordered, u32::MAX - 5);
    bench.push(chunk("BE", 0, 0, 0, b"zero")).unwrap();
    assert_eq!(bench.recv(0).unwrap().0, b"zero");
    assert_eq!(bench.recv(0).unwrap().0, b"one");
}
