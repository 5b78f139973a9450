//! Frames and credit: every field, every limit, both sides against each other.

use proptest::prelude::*;

use super::frame::*;
use super::pool::CreditPool;
use super::receiver::*;
use super::sender::{Sender, freest};
use super::*;
use crate::stamp::Timestamp;

fn piece(ppid: u32, payload: &[u8]) -> Piece<'_> {
    Piece { ppid, payload, end: End::Last }
}

fn header(transfer: u32) -> Header {
    Header { transfer: TransferNumber(transfer), offset: 0, size: None, modified: None }
}

#[test]
fn frames_are_encoded_as_specified() {
    let header = Header {
        transfer: TransferNumber(0x0102_0304),
        offset: 0x1112_1314_1516_1718,
        size: Some(0x2122_2324_2526_2728),
        modified: Some(Timestamp { seconds: -2, nanos: 500_000_000 }),
    };
    let wire = [
        1, 2, 3, 4, 0x1d, 0xcd, 0x65, 0x00, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23,
        0x24, 0x25, 0x26, 0x27, 0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
    ];
    assert_eq!(&header.encode()[..], wire);
    assert_eq!(Header::decode(&wire), Ok(header));

    let trailer = Trailer { transfer: TransferNumber(5), status: 226, length: 7, digest: [0xab; 32] };
    let wire = [&[0, 0, 0, 5, 0, 226, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7][..], &[0xab; 32]].concat();
    assert_eq!(&trailer.encode()[..], wire);
    assert_eq!(Trailer::decode(&wire), Ok(trailer));

    let credit = Credit { stream: 3, limit: 0x0010_0000 };
    let wire = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];
    assert_eq!(&credit.encode()[..], wire);
    assert_eq!(Credit::decode(&wire), Ok(credit));
}

#[test]
fn frames_with_invalid_fields_are_rejected() {
    let zero = header(1).encode();
    let mut wire = zero.to_vec();
    wire[3] = 0;
    assert_eq!(Header::decode(&wire), Err(FrameError::Field), "transfers count from 1");
    let mut wire = zero.to_vec();
    wire[4..8].copy_from_slice(&1_000_000_000_u32.to_be_bytes());
    assert_eq!(Header::decode(&wire), Err(FrameError::Field));
    assert_eq!(Header::decode(&zero[1..]), Err(FrameError::Length));
    for status in [0_u16, 199, 600] {
        let trailer = Trailer { transfer: TransferNumber(1), status, length: 0, digest: [0; 32] };
        assert_eq!(Trailer::decode(&trailer.encode()), Err(FrameError::Field), "{status}");
    }
    assert_eq!(Credit::decode(&Credit { stream: 0, limit: 1 }.encode()), Err(FrameError::Field));
}

//= specs/ftp-over-sctp.md#section-2.2
//= type=test
//# The server MUST take the mode from the number of streams inbound to it
#[test]
fn streams_tell_the_mode() {
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
//# An endpoint MUST abort the association on: a HEADER, TRAILER or CREDIT of another length than its own or with a field out of
//# its range; BYTES beyond the credit; HEADER while a transfer is open on the stream; BYTES or TRAILER while none is; TRAILER of
//# another transfer than the open one; a PPID that has no place on its stream;
#[test]
fn frames_out_of_order_are_an_error() {
    let trailer =
        |transfer| Trailer { transfer: TransferNumber(transfer), status: 226, length: 0, digest: [0; 32] };
    let open = || {
        let mut receiver = Receiver::new(1);
        receiver.on_piece(piece(ppid::HEADER, &header(1).encode())).unwrap();
        receiver
    };
    let fresh = || Receiver::new(1);
    assert_eq!(open().on_piece(piece(ppid::HEADER, &header(2).encode())), Err(FrameError::Order));
    assert_eq!(fresh().on_piece(piece(ppid::BYTES, b"x")), Err(FrameError::Order));
    assert_eq!(fresh().on_piece(piece(ppid::TRAILER, &trailer(1).encode())), Err(FrameError::Order));
    assert_eq!(open().on_piece(piece(ppid::TRAILER, &trailer(2).encode())), Err(FrameError::WrongTransfer));
    assert_eq!(open().on_piece(piece(ppid::TRAILER, &[0; 49])), Err(FrameError::Length));
    assert_eq!(open().on_piece(piece(ppid::TRAILER, &[0; 47])), Err(FrameError::Length));
    for kind in [ppid::PLAIN, ppid::LINES, ppid::CREDIT] {
        assert_eq!(open().on_piece(piece(kind, b"x")), Err(FrameError::Kind));
    }
    let mut receiver = open();
    let most = vec![0; usize::try_from(INITIAL_CREDIT).unwrap()];
    assert_eq!(receiver.on_piece(piece(ppid::BYTES, &most)), Ok(Incoming::Bytes));
    assert_eq!(receiver.on_piece(piece(ppid::BYTES, b"x")), Err(FrameError::Credit));
}

#[test]
fn a_frame_in_pieces_is_reassembled() {
    let mut receiver = Receiver::new(1);
    let wire = header(9).encode();
    let first = Piece { ppid: ppid::HEADER, payload: &wire[..5], end: End::More };
    assert_eq!(receiver.on_piece(first), Ok(Incoming::Nothing));
    assert_eq!(receiver.on_piece(piece(ppid::HEADER, &wire[5..])), Ok(Incoming::Header(header(9))));
    assert_eq!(receiver.transfer(), Some(TransferNumber(9)));
}

#[test]
fn a_trailer_with_a_wrong_length_is_reported() {
    for (length, lengths) in [(3, Lengths::Agree), (4, Lengths::Differ)] {
        let mut receiver = Receiver::new(1);
        receiver.on_piece(piece(ppid::HEADER, &header(1).encode())).unwrap();
        receiver.on_piece(piece(ppid::BYTES, b"abc")).unwrap();
        let trailer = Trailer { transfer: TransferNumber(1), status: 226, length, digest: [1; 32] };
        let incoming = receiver.on_piece(piece(ppid::TRAILER, &trailer.encode()));
        assert_eq!(incoming, Ok(Incoming::Trailer(trailer, lengths)));
        assert_eq!(receiver.transfer(), None);
    }
}

/// A stream that receives transfer `number`, of which `bytes` have arrived and are not consumed.
fn receiving(receiver: &mut Receiver, number: u32, bytes: usize) {
    receiver.on_piece(piece(ppid::HEADER, &header(number).encode())).unwrap();
    receiver.on_piece(piece(ppid::BYTES, &vec![0; bytes])).unwrap();
}

//= specs/ftp-over-sctp.md#section-6.6
//= type=test
//# A receiver SHOULD NOT send
//# CREDIT for less than a quarter of what it lets lie unread on that stream.
#[test]
fn credit_is_granted_per_quarter_of_the_window() {
    let mut pool = CreditPool::new(2, 2 * INITIAL_CREDIT);
    let mut receiver = Receiver::new(2);
    receiving(&mut receiver, 1, 100_000);
    receiver.consume(65_535);
    assert_eq!(pool.grant(&mut receiver), None);
    receiver.consume(1);
    assert_eq!(pool.grant(&mut receiver), Some(Credit { stream: 2, limit: INITIAL_CREDIT + 65_536 }));
    // A larger window is granted at once: the equal part.
    pool.set_bytes(2 << 20);
    assert_eq!(pool.grant(&mut receiver), Some(Credit { stream: 2, limit: (1 << 20) + 65_536 }));
    // A smaller one revokes nothing.
    pool.set_bytes(0);
    receiver.consume(34_464);
    assert_eq!(pool.grant(&mut receiver), None);
}

#[test]
fn a_large_transfer_is_granted_what_the_other_streams_do_not_use() {
    let total = 8 << 20;
    let mut pool = CreditPool::new(4, total);
    let [mut one, mut two] = [1, 2].map(Receiver::new);
    receiving(&mut one, 1, 1);
    one.consume(1);
    assert_eq!(pool.grant(&mut one).unwrap().limit, 1 + total / 4, "a short one has its equal part");
    one.on_piece(piece(ppid::BYTES, &vec![0; INITIAL_CREDIT as usize])).unwrap();
    one.consume(INITIAL_CREDIT);
    pool.grant(&mut one);
    assert_eq!(one.granted(), total - 3 * INITIAL_CREDIT, "the others keep their initial credit");
    // Another begins: the first gets no more until it has its equal part alone, and the second gets what the first has used.
    receiving(&mut two, 2, 1);
    two.consume(1);
    assert_eq!(pool.grant(&mut two), None);
    let mut used = 0;
    while one.granted() > total / 4 {
        one.on_piece(piece(ppid::BYTES, &[0; 65_536])).unwrap();
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
    // At the end of its transfer a stream keeps nothing for itself but what it was granted.
    let trailer = Trailer { transfer: TransferNumber(2), status: 226, length: 1, digest: [0; 32] };
    two.on_piece(piece(ppid::TRAILER, &trailer.encode())).unwrap();
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
//# A sender SHOULD begin a transfer on the free stream with the most credit left.
#[test]
fn a_transfer_begins_on_the_free_stream_with_the_most_credit() {
    assert_eq!(freest([(1, 5), (2, 9), (3, 9), (4, 8)]), Some(2));
    assert_eq!(freest([]), None);
}

proptest! {
    /// For any sizes and times of consumption: the receiver accepts what the sender may send, at most a
    /// window is unconsumed, and everything is transferred.
    #[test]
    fn sender_and_receiver_keep_step(
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
            let wire = sender.begin(&header);
            prop_assert_eq!(receiver.on_piece(piece(ppid::HEADER, &wire)), Ok(Incoming::Header(header)));
            let (mut left, mut lying) = (length, 0);
            while left > 0 || lying > 0 {
                let part = left.min(greed).min(sender.room()).min(BYTES_MAX as u64);
                if part > 0 {
                    sender.on_sent(part);
                    let bytes = vec![0; usize::try_from(part).unwrap()];
                    prop_assert_eq!(receiver.on_piece(piece(ppid::BYTES, &bytes)), Ok(Incoming::Bytes));
                    (left, lying) = (left - part, lying + part);
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
            let wire = sender.finish(226, [7; 32]);
            let trailer = Trailer { transfer: header.transfer, status: 226, length, digest: [7; 32] };
            prop_assert_eq!(receiver.on_piece(piece(ppid::TRAILER, &wire)), Ok(Incoming::Trailer(trailer, Lengths::Agree)));
        }
    }

    /// Whatever streams do: the credit granted and not consumed is at most the buffer, and each stream has its initial credit
    /// again, but for a quarter, once it has consumed what it received.
    #[test]
    fn the_pool_is_never_overdrawn_and_no_stream_starves(
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
                (0, None) => {
                    stream.on_piece(piece(ppid::HEADER, &header(transfer.0).encode())).unwrap();
                }
                (0, Some(transfer)) => {
                    let trailer = Trailer { transfer, status: 226, length: 0, digest: [0; 32] };
                    stream.on_piece(piece(ppid::TRAILER, &trailer.encode())).unwrap();
                }
                (1 | 2, Some(_)) => {
                    let part = amount.min(stream.granted() - lying[at]);
                    stream.on_piece(piece(ppid::BYTES, &vec![0; usize::try_from(part).unwrap()])).unwrap();
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
    fn headers_come_back(transfer in 1_u32.., offset: u64, size in 0..u64::MAX, seconds in i64::MIN + 1.., nanos in 0_u32..1_000_000_000) {
        let header = Header {
            transfer: TransferNumber(transfer),
            offset,
            size: Some(size),
            modified: Some(Timestamp { seconds, nanos }),
        };
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn no_pieces_panic(pieces in proptest::collection::vec((0_u32..6, proptest::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..20)) {
        let mut receiver = Receiver::new(1);
        for (kind, payload, end) in pieces {
            let end = if end { End::Last } else { End::More };
            if receiver.on_piece(Piece { ppid: ppid::LINES + kind, payload: &payload, end }).is_err() {
                break;
            }
        }
    }
}
