//! Frames and credit: every field, every limit, and sender against receiver.

use bytes::Bytes;
use proptest::prelude::*;

use super::frame::*;
use super::pool::CreditPool;
use super::receiver::*;
use super::sender::{Frame, Free, Sender, Then, freest};
use super::*;
use crate::stamp::Timestamp;

fn piece(ppid: u32, payload: &[u8]) -> Piece {
    Piece { ppid, payload: Bytes::copy_from_slice(payload), end: End::Last }
}

fn header(transfer: u32) -> Header {
    Header { transfer: TransferNumber(transfer), offset: 0, size: None, modified: None }
}

/// Passes a piece to a receiver; returns everything that it yields.
fn take(receiver: &mut Receiver, piece: Piece) -> Result<Vec<Incoming>, FrameError> {
    receiver.handle(piece)?;
    let mut all = Vec::new();
    while let Some(incoming) = receiver.poll()? {
        all.push(incoming);
    }
    Ok(all)
}

/// The same for a frame.
fn take_frame(receiver: &mut Receiver, frame: &Frame) -> Result<Vec<Incoming>, FrameError> {
    take(receiver, piece(frame.ppid, &frame.payload))
}

fn content(bytes: &'static [u8]) -> Incoming {
    Incoming::Bytes(bytes.into())
}

#[test]
fn headers_are_encoded_as_specified() {
    let number = TransferNumber;
    let time = |seconds, nanos| Some(Timestamp { seconds, nanos });
    let cases: [(Header, &[u8]); 5] = [
        (header(1), &[0, 1]),
        // The example of specs/ftp-over-sctp.md §12.
        (
            Header { transfer: number(1), offset: 0, size: Some(10_000), modified: time(1_795_172_700, 0) },
            &[6, 1, 0x67, 0x10, 0x3a, 0xc0, 0x0a, 0x57, 0, 0, 0, 0],
        ),
        (
            Header {
                transfer: number(64),
                offset: 3,
                size: None,
                modified: time(-2_147_483_648, 999_999_999),
            },
            &[5, 0x40, 64, 3, 0, 0, 0, 0, 0x3b, 0x9a, 0xc9, 0xff],
        ),
        (
            Header { transfer: number(16_384), offset: 0, size: Some(0), modified: time(-2_147_483_649, 1) },
            &[10, 0x80, 0, 0x40, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1],
        ),
        (
            Header { transfer: number(u32::MAX), offset: NUMBER_MAX, size: Some(1 << 30), modified: None },
            &[
                3, 0xc0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                0xc0, 0, 0, 0, 0x40, 0, 0, 0,
            ],
        ),
    ];
    for (header, wire) in cases {
        assert_eq!(&header.encode()[..], wire, "{header:?}");
        assert_eq!(Header::decode(wire), Ok(Some((header, wire.len()))));
        for end in 0..wire.len() {
            assert_eq!(Header::decode(&wire[..end]), Ok(None), "{header:?} cut at {end}");
        }
        assert_eq!(Header::decode(&[wire, b"content"].concat()), Ok(Some((header, wire.len()))));
    }
}

//= specs/ftp-over-sctp.md#section-6.2
//= type=test
//# A size of 2^62 or more MUST be sent as unknown.
#[test]
fn a_size_beyond_the_field_is_encoded_as_unknown() {
    let huge = Header { size: Some(NUMBER_MAX + 1), ..header(1) };
    assert_eq!(Header::decode(&huge.encode()), Ok(Some((header(1), 2))));
}

#[test]
fn credit_is_encoded_as_specified() {
    let credit = Credit { stream: 3, limit: 0x0010_0000 };
    let wire = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];
    assert_eq!(&credit.encode()[..], wire);
    assert_eq!(Credit::decode(&wire), Ok(credit));
}

#[test]
fn frames_with_invalid_fields_are_rejected() {
    let invalid: [(&[u8], &str); 6] = [
        (&[0, 0], "transfers count from 1"),
        (&[0, 0xc0, 0, 0, 1, 0, 0, 0, 0], "a transfer number has 32 bits"),
        (&[16, 1], "an unknown flag"),
        (&[12, 1], "two forms of a time"),
        (&[4, 1, 0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0], "nanoseconds of the short form"),
        (&[8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0], "nanoseconds of the long form"),
    ];
    for (wire, why) in invalid {
        assert_eq!(Header::decode(wire), Err(FrameError::Field), "{why}");
    }
    for status in [0_u16, 226, 399, 600] {
        let result = take(&mut open(), piece(ppid::BREAK, &status.to_be_bytes()));
        assert_eq!(result, Err(FrameError::Field), "{status}");
    }
    assert_eq!(Credit::decode(&Credit { stream: 0, limit: 1 }.encode()), Err(FrameError::Field));
    assert_eq!(Credit::decode(&[0; 11]), Err(FrameError::Length));
}

/// A receiver whose transfer 1 has begun.
fn open() -> Receiver {
    let mut receiver = Receiver::new(1);
    take(&mut receiver, piece(ppid::FIRST, &header(1).encode())).unwrap();
    receiver
}

//= specs/ftp-over-sctp.md#section-2.2
//= type=test
//# The server MUST take the mode from the number of streams inbound to it
#[test]
fn the_number_of_streams_identifies_the_mode() {
    for mode in [Mode::Naive, Mode::Ms, Mode::Braid] {
        for data_streams in [DATA_STREAMS_MIN, DATA_STREAMS_DEFAULT, DATA_STREAMS_MAX] {
            assert_eq!(Mode::of_streams(mode.streams(data_streams).unwrap()), mode);
        }
    }
    for mode in Mode::ALL {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert!("MS".parse::<Mode>().is_err());
}

//= specs/ftp-over-sctp.md#section-6.7
//= type=test
//# An endpoint MUST abort the association on: a frame or CREDIT that is shorter or longer than its fields, or with a
//# field out of its range; content beyond the credit; WHOLE or FIRST while a transfer is open on the stream; BYTES,
//# LAST or BREAK while none is; a PPID that is not permitted on its stream;
#[test]
fn frames_out_of_order_are_an_error() {
    let fresh = || Receiver::new(1);
    for kind in [ppid::WHOLE, ppid::FIRST] {
        assert_eq!(take(&mut open(), piece(kind, &header(2).encode())), Err(FrameError::Order));
        assert_eq!(
            take(&mut fresh(), piece(kind, &[7])),
            Err(FrameError::Length),
            "a header that ends early"
        );
    }
    for kind in [ppid::BYTES, ppid::LAST, ppid::BREAK] {
        assert_eq!(take(&mut fresh(), piece(kind, &[1, 0xaa])), Err(FrameError::Order));
    }
    assert_eq!(take(&mut open(), piece(ppid::LAST, &[0; 15])), Err(FrameError::Length));
    assert_eq!(take(&mut open(), piece(ppid::BREAK, &[1])), Err(FrameError::Length));
    assert_eq!(take(&mut open(), piece(ppid::BREAK, &[1, 0xaa, 0])), Err(FrameError::Length));
    // Including HEADER and TRAILER of version 1.
    for kind in [ppid::PLAIN, ppid::LINES, ppid::CREDIT, ppid::LINES + 1, ppid::LINES + 3, ppid::BREAK + 1] {
        assert_eq!(take(&mut open(), piece(kind, b"x")), Err(FrameError::Kind));
    }
    let mut receiver = open();
    let begun = Piece { end: End::More, ..piece(ppid::BYTES, b"x") };
    assert_eq!(take(&mut receiver, begun), Ok(vec![content(b"x")]));
    assert_eq!(
        take(&mut receiver, piece(ppid::LAST, b"x")),
        Err(FrameError::Kind),
        "in the middle of a message"
    );
}

#[test]
fn content_beyond_the_credit_is_an_error_in_every_frame() {
    let most = vec![0; usize::try_from(INITIAL_CREDIT).unwrap()];
    for (kind, tail) in [(ppid::BYTES, 0), (ppid::LAST, DIGEST_LENGTH)] {
        let mut receiver = open();
        assert_eq!(take(&mut receiver, piece(ppid::BYTES, &most)).unwrap().len(), 1);
        assert_eq!(take(&mut receiver, piece(kind, &vec![0; tail + 1])), Err(FrameError::Credit));
    }
    let begun = |kind, tail| piece(kind, &[&header(1).encode()[..], &most, &vec![0; tail + 1]].concat());
    assert_eq!(take(&mut Receiver::new(1), begun(ppid::FIRST, 0)), Err(FrameError::Credit));
    assert_eq!(take(&mut Receiver::new(1), begun(ppid::WHOLE, DIGEST_LENGTH)), Err(FrameError::Credit));
}

#[test]
fn a_transfer_is_one_frame_or_several() {
    let begin = || {
        let mut sender = Sender::new(1);
        sender.begin(header(1));
        sender
    };
    let mut receiver = Receiver::new(1);
    let frame = begin().frame("abc".into(), Then::Complete([9; 16])).unwrap();
    assert_eq!(frame.payload, [&[0, 1][..], b"abc", &[9; 16]].concat());
    let whole = vec![Incoming::Header(header(1)), content(b"abc"), Incoming::Complete([9; 16])];
    assert_eq!(take_frame(&mut receiver, &frame), Ok(whole));
    assert_eq!(receiver.transfer(), None);

    let mut sender = begin();
    for (bytes, ending, kind, incoming) in [
        (&b"ab"[..], Then::More, ppid::FIRST, vec![Incoming::Header(header(1)), content(b"ab")]),
        (b"cd", Then::More, ppid::BYTES, vec![content(b"cd")]),
        (b"e", Then::Complete([8; 16]), ppid::LAST, vec![content(b"e"), Incoming::Complete([8; 16])]),
    ] {
        let frame = sender.frame(bytes.into(), ending).unwrap();
        sender.on_sent(&frame);
        assert_eq!(frame.ppid, kind);
        assert_eq!(take_frame(&mut receiver, &frame), Ok(incoming));
    }
    assert_eq!((sender.transfer(), receiver.transfer()), (None, None));
    assert_eq!(sender.room(), INITIAL_CREDIT - 5);

    // An empty file; and an empty frame, which is not sent.
    let frame = begin().frame(Bytes::new(), Then::Complete([0; 16])).unwrap();
    let empty = vec![Incoming::Header(header(1)), Incoming::Complete([0; 16])];
    assert_eq!(take_frame(&mut receiver, &frame), Ok(empty));
    let mut sender = begin();
    let first = sender.frame(Bytes::new(), Then::More).unwrap();
    sender.on_sent(&first);
    assert_eq!(sender.frame(Bytes::new(), Then::More), None);
}

#[test]
fn an_aborted_transfer_sends_a_break_only_if_it_has_begun() {
    let (mut sender, mut receiver) = (Sender::new(1), Receiver::new(1));
    sender.begin(header(1));
    assert_eq!(sender.break_off(426), None);
    sender.begin(header(2));
    let mut seen = Vec::new();
    for bytes in ["", "ab"] {
        let frame = sender.frame(bytes.into(), Then::More).unwrap();
        sender.on_sent(&frame);
        seen.extend(take_frame(&mut receiver, &frame).unwrap());
    }
    let frame = sender.break_off(426).unwrap();
    assert_eq!((frame.ppid, &frame.payload[..]), (ppid::BREAK, &[1, 0xaa][..]));
    sender.on_sent(&frame);
    seen.extend(take_frame(&mut receiver, &frame).unwrap());
    assert_eq!(seen, [Incoming::Header(header(2)), content(b"ab"), Incoming::Broken(426)]);
    assert_eq!((sender.transfer(), receiver.transfer()), (None, None));
}

/// A stream on which transfer `number` is received, with `bytes` bytes that have arrived and are not
/// consumed.
fn receiving(receiver: &mut Receiver, number: u32, bytes: usize) {
    take(receiver, piece(ppid::FIRST, &header(number).encode())).unwrap();
    take(receiver, piece(ppid::BYTES, &vec![0; bytes])).unwrap();
}

//= specs/ftp-over-sctp.md#section-6.6
//= type=test
//# A receiver SHOULD NOT send CREDIT for less than a quarter of the bytes that it may leave unread on that stream.
#[test]
fn credit_is_granted_per_quarter_of_the_window() {
    let mut pool = CreditPool::new(2, 2 * INITIAL_CREDIT);
    let mut receiver = Receiver::new(2);
    receiving(&mut receiver, 1, 100_000);
    receiver.consume(65_535);
    assert_eq!(pool.grant(&mut receiver), None);
    receiver.consume(1);
    assert_eq!(pool.grant(&mut receiver), Some(Credit { stream: 2, limit: INITIAL_CREDIT + 65_536 }));
    // A larger window, the equal share, is granted at once.
    pool.set_bytes(2 << 20);
    assert_eq!(pool.grant(&mut receiver), Some(Credit { stream: 2, limit: (1 << 20) + 65_536 }));
    // A smaller one revokes nothing.
    pool.set_bytes(0);
    receiver.consume(34_464);
    assert_eq!(pool.grant(&mut receiver), None);
}

#[test]
fn a_large_transfer_gets_the_credit_that_other_streams_do_not_use() {
    let total = 8 << 20;
    let mut pool = CreditPool::new(4, total);
    let [mut one, mut two] = [1, 2].map(Receiver::new);
    receiving(&mut one, 1, 1);
    one.consume(1);
    assert_eq!(pool.grant(&mut one).unwrap().limit, 1 + total / 4, "a short one has its equal part");
    take(&mut one, piece(ppid::BYTES, &vec![0; INITIAL_CREDIT as usize])).unwrap();
    one.consume(INITIAL_CREDIT);
    pool.grant(&mut one);
    assert_eq!(one.granted(), total - 3 * INITIAL_CREDIT, "the others keep their initial credit");
    // Another transfer begins: the first gets no credit until it is down to its equal share, and the second
    // gets the credit that the first has consumed.
    receiving(&mut two, 2, 1);
    two.consume(1);
    assert_eq!(pool.grant(&mut two), None);
    let mut used = 0;
    while one.granted() > total / 4 {
        take(&mut one, piece(ppid::BYTES, &[0; 65_536])).unwrap();
        one.consume(65_536);
        used += 65_536;
        if let Some(credit) = pool.grant(&mut one) {
            assert!(one.granted() <= total - 2 * INITIAL_CREDIT - total / 4, "{credit:?} after {used}");
        }
        pool.grant(&mut two);
        if used > total {
            break;
        }
    }
    assert!(two.granted() > total / 5, "{}", two.granted());
    // After the end of its transfer a stream keeps only the credit that was granted.
    take(&mut two, piece(ppid::LAST, &[0; DIGEST_LENGTH])).unwrap();
    pool.grant(&mut two);
    assert!(!pool.is_transferring(2) && pool.is_transferring(1));
}

//= specs/ftp-over-sctp.md#section-6.6
//= type=test
//# a sender MUST ignore a limit that is lower than one it has.
#[test]
fn reordered_credit_is_ignored() {
    let mut sender = Sender::new(1);
    sender.on_credit(Credit { stream: 1, limit: 500_000 }).unwrap();
    sender.on_credit(Credit { stream: 1, limit: 400_000 }).unwrap();
    assert_eq!(sender.room(), 500_000);
    assert_eq!(sender.on_credit(Credit { stream: 2, limit: 600_000 }), Err(FrameError::Field));
}

//= specs/ftp-over-sctp.md#section-6.6
//= type=test
//# A sender SHOULD begin a transfer on a free stream whose credit covers all of it, and alternate among such streams
#[test]
fn a_transfer_begins_on_the_least_used_free_stream_with_enough_credit() {
    let free = |stream, room, sent| Free { stream, room, sent };
    let streams = [free(1, 900, 5), free(2, 50, 0), free(3, 80, 4), free(4, 80, 4)];
    assert_eq!(freest(streams, Some(10)), Some(2));
    assert_eq!(freest(streams, Some(80)), Some(3));
    assert_eq!(freest(streams, Some(1000)), Some(1));
    assert_eq!(freest(streams, None), Some(1));
    assert_eq!(freest([], None), None);
}

proptest! {
    /// For any sizes and times of consumption: the receiver accepts everything that the sender may send, at
    /// most a window is unconsumed, and all bytes are transferred.
    #[test]
    fn sender_and_receiver_agree_on_credit(
        bytes in 0_u64..2_000_000,
        files in proptest::collection::vec(0_u64..900_000, 1..6),
        greed in 1_u64..300_000,
    ) {
        let mut sender = Sender::new(1);
        let mut receiver = Receiver::new(1);
        let mut pool = CreditPool::new(2, bytes);
        let window = bytes.saturating_sub(INITIAL_CREDIT).max(INITIAL_CREDIT);
        for (at, length) in files.into_iter().enumerate() {
            let header = header(at as u32 + 1);
            sender.begin(header);
            let (mut left, mut lying, mut seen) = (length, 0, Vec::new());
            while sender.transfer().is_some() {
                let part = left.min(greed).min(sender.room()).min(BYTES_MAX as u64);
                let ending = if part == left { Then::Complete([7; 16]) } else { Then::More };
                if let Some(frame) = sender.frame(vec![0; part as usize].into(), ending) {
                    sender.on_sent(&frame);
                    for incoming in take_frame(&mut receiver, &frame).unwrap() {
                        match incoming {
                            Incoming::Bytes(bytes) => lying += bytes.len() as u64,
                            other => seen.push(other),
                        }
                    }
                    left -= part;
                    prop_assert!(lying <= window);
                } else {
                    prop_assert!(lying > 0, "stuck: no room and nothing to consume");
                    receiver.consume(lying);
                    if let Some(credit) = pool.grant(&mut receiver) {
                        sender.on_credit(Credit::decode(&credit.encode()).unwrap()).unwrap();
                    }
                    lying = 0;
                }
            }
            prop_assert_eq!(seen, [Incoming::Header(header), Incoming::Complete([7; 16])]);
            receiver.consume(lying);
            if let Some(credit) = pool.grant(&mut receiver) {
                sender.on_credit(credit).unwrap();
            }
        }
    }

    /// The result does not depend on how partial delivery divides the messages of a transfer.
    #[test]
    fn partial_delivery_does_not_change_the_result(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        message in 1_usize..100,
        cuts in proptest::collection::vec(1_usize..40, 1..20),
        offset in 0..=NUMBER_MAX,
        seconds: i64,
    ) {
        let header = Header { offset, modified: Some(Timestamp { seconds, nanos: 5 }), ..header(7) };
        let (mut sender, mut receiver) = (Sender::new(1), Receiver::new(1));
        sender.begin(header);
        let (mut rest, mut cuts) = (Bytes::from(bytes.clone()), cuts.into_iter().cycle());
        let (mut got, mut seen) = (Vec::new(), Vec::new());
        while sender.transfer().is_some() {
            let part = rest.split_to(rest.len().min(message));
            let ending = if rest.is_empty() { Then::Complete([0xd1; 16]) } else { Then::More };
            let mut frame = sender.frame(part, ending).unwrap();
            sender.on_sent(&frame);
            while !frame.payload.is_empty() {
                let payload = frame.payload.split_to(frame.payload.len().min(cuts.next().unwrap()));
                let end = if frame.payload.is_empty() { End::Last } else { End::More };
                for incoming in take(&mut receiver, Piece { ppid: frame.ppid, payload, end }).unwrap() {
                    match incoming {
                        Incoming::Bytes(bytes) => got.extend_from_slice(&bytes),
                        other => seen.push(other),
                    }
                }
            }
        }
        prop_assert_eq!(got, bytes);
        prop_assert_eq!(seen, [Incoming::Header(header), Incoming::Complete([0xd1; 16])]);
    }

    /// For any use of the streams: the credit granted and not consumed is at most the buffer, and each stream
    /// has at least three quarters of its initial credit once it has consumed everything received.
    #[test]
    fn the_pool_never_exceeds_the_buffer_and_no_stream_starves(
        bytes in 4 * INITIAL_CREDIT..(16 << 20),
        steps in proptest::collection::vec((0_usize..4, 0_u8..4, 1_u64..400_000), 1..200),
    ) {
        let mut pool = CreditPool::new(4, bytes);
        let mut streams = [1, 2, 3, 4].map(Receiver::new);
        let mut lying = [0_u64; 4];
        for (nth, (at, what, amount)) in steps.into_iter().enumerate() {
            let stream = &mut streams[at];
            let transfer = TransferNumber(nth as u32 + 1);
            match (what, stream.transfer()) {
                (0, None) => drop(take(stream, piece(ppid::FIRST, &header(transfer.0).encode())).unwrap()),
                (0, Some(_)) => drop(take(stream, piece(ppid::LAST, &[0; DIGEST_LENGTH])).unwrap()),
                (1 | 2, Some(_)) => {
                    let part = amount.min(stream.granted() - lying[at]);
                    take(stream, piece(ppid::BYTES, &vec![0; usize::try_from(part).unwrap()])).unwrap();
                    lying[at] += part;
                }
                _ => {
                    stream.consume(lying[at]);
                    lying[at] = 0;
                }
            }
            pool.grant(stream);
            if lying[at] == 0 {
                prop_assert!(stream.granted() > INITIAL_CREDIT * 3 / 4, "{}", stream.granted());
            }
            prop_assert!(streams.iter().map(|stream| stream.granted().max(INITIAL_CREDIT)).sum::<u64>() <= bytes);
        }
    }

    #[test]
    fn headers_come_back(
        transfer in 1_u32..,
        offset in 0..=NUMBER_MAX,
        size in 0..=NUMBER_MAX,
        seconds: i64,
        nanos in 0_u32..1_000_000_000,
    ) {
        let header = Header {
            transfer: TransferNumber(transfer),
            offset,
            size: Some(size),
            modified: Some(Timestamp { seconds, nanos }),
        };
        let wire = header.encode();
        prop_assert!(wire.len() <= HEADER_LENGTH_MAX);
        prop_assert_eq!(Header::decode(&wire), Ok(Some((header, wire.len()))));
    }

    #[test]
    fn no_pieces_panic(pieces in proptest::collection::vec((0_u32..10, proptest::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..20)) {
        let mut receiver = Receiver::new(1);
        for (kind, payload, end) in pieces {
            let end = if end { End::Last } else { End::More };
            let piece = Piece { ppid: ppid::LINES + kind, payload: payload.into(), end };
            if take(&mut receiver, piece).is_err() {
                break;
            }
        }
    }
}
