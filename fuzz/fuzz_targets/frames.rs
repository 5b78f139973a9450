//! The frames of braid (specs/ftp-over-sctp.md §6): messages of any bytes to a receiver, whole and in pieces, and transfers from
//! a sender to a receiver.
//!
//! No panic. The result of a receiver does not depend on how messages are cut into pieces. The content passed on never exceeds
//! the credit. A decoded header, encoded again, decodes to the same header. A receiver decodes what a sender frames: the same
//! headers, content, digests and aborts.
#![no_main]

use arbitrary::Arbitrary;
use braidftp_ftp::mapping::frame::{
    BYTES_MAX, Credit, DIGEST_LENGTH, Digest, FrameError, Header, INITIAL_CREDIT,
};
use braidftp_ftp::mapping::pool::CreditPool;
use braidftp_ftp::mapping::receiver::{End, Incoming, Piece, Receiver};
use braidftp_ftp::mapping::sender::{Frame, Sender, Then};
use braidftp_ftp::mapping::{TransferNumber, ppid};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

const STREAM: u16 = 1;
/// Size of the receive buffer that two streams share, in bytes.
const POOL_BYTES: u64 = 1 << 20;

#[derive(Debug, Arbitrary)]
enum Input {
    /// Messages of a peer.
    Messages { messages: Vec<Message>, cuts: Vec<u16>, is_consumed: bool },
    /// Transfers of a sender of this crate.
    Transfers { transfers: Vec<Transfer>, cuts: Vec<u16> },
}

#[derive(Debug, Arbitrary)]
struct Message {
    kind: u8,
    payload: Vec<u8>,
    /// Bytes of one value after the payload, so that short inputs reach the limits of credit.
    padding: u32,
}

#[derive(Debug, Arbitrary)]
struct Transfer {
    number: u32,
    offset: u64,
    size: Option<u64>,
    /// Lengths of the messages.
    lengths: Vec<u16>,
    digest: Digest,
    /// A reply code that aborts the transfer.
    broken: Option<u16>,
}

/// The output of a stream, content joined.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<Incoming>,
    content: Vec<u8>,
}

impl Seen {
    fn take(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Bytes(bytes) => {
                assert!(!bytes.is_empty(), "no content is passed on in vain");
                self.content.extend_from_slice(&bytes);
            }
            event => {
                let content = std::mem::take(&mut self.content);
                if !content.is_empty() {
                    self.events.push(Incoming::Bytes(content.into()));
                }
                self.events.push(event);
            }
        }
    }
}

/// A receiving stream.
struct Receiving {
    receiver: Receiver,
    pool: CreditPool,
    is_consumed: bool,
    seen: Seen,
    limit: u64,
    received: u64,
}

impl Receiving {
    fn new(is_consumed: bool) -> Self {
        Self {
            receiver: Receiver::new(STREAM),
            pool: CreditPool::new(2, POOL_BYTES),
            is_consumed,
            seen: Seen::default(),
            limit: INITIAL_CREDIT,
            received: 0,
        }
    }

    /// Takes a message in pieces of these lengths, then the rest. Credit is granted at the end of a message, so that it does
    /// not depend on the pieces.
    fn take(
        &mut self,
        ppid: u32,
        mut payload: Bytes,
        cuts: &mut impl Iterator<Item = u16>,
    ) -> Result<Option<Credit>, FrameError> {
        let mut consumed = 0;
        loop {
            let cut = cuts.next().map_or(payload.len(), |cut| usize::from(cut).min(payload.len()));
            let piece = payload.split_to(cut);
            let end = if payload.is_empty() { End::Last } else { End::More };
            self.receiver.handle(Piece { ppid, payload: piece, end })?;
            while let Some(incoming) = self.receiver.poll()? {
                if let Incoming::Bytes(bytes) = &incoming {
                    consumed += bytes.len() as u64;
                    self.received += bytes.len() as u64;
                    assert!(self.received <= self.limit, "content beyond the credit");
                }
                if let Incoming::Header(header) = &incoming {
                    check_header(header);
                }
                self.seen.take(incoming);
            }
            if end == End::Last {
                break;
            }
        }
        if !self.is_consumed {
            return Ok(None);
        }
        self.receiver.consume(consumed);
        let credit = self.pool.grant(&mut self.receiver);
        if let Some(credit) = credit {
            assert!(credit.limit > self.limit && credit.limit - self.received <= POOL_BYTES, "{credit:?}");
            assert_eq!(Credit::decode(&credit.encode()), Ok(credit));
            self.limit = credit.limit;
        }
        Ok(credit)
    }
}

fn check_header(header: &Header) {
    let wire = header.encode();
    assert_eq!(Header::decode(&wire), Ok(Some((*header, wire.len()))), "{header:?}");
}

/// The identifier of a kind of frame; for some values one that is not valid.
fn identifier(kind: u8) -> u32 {
    match kind {
        0..64 => ppid::FIRST,
        64..128 => ppid::BYTES,
        128..176 => ppid::LAST,
        176..224 => ppid::WHOLE,
        224..248 => ppid::BREAK,
        other => ppid::LINES + u32::from(other - 248),
    }
}

fn messages(messages: Vec<Message>, cuts: Vec<u16>, is_consumed: bool) {
    let [mut whole, mut pieces] = [(); 2].map(|()| Receiving::new(is_consumed));
    let mut cuts = cuts.into_iter();
    for Message { kind, mut payload, padding } in messages {
        let length = payload.len() + padding as usize % (2 * BYTES_MAX);
        payload.resize(length, b'x');
        let (kind, payload) = (identifier(kind), Bytes::from(payload));
        let results = [
            whole.take(kind, payload.clone(), &mut std::iter::empty()),
            pieces.take(kind, payload, &mut cuts),
        ];
        assert_eq!(results[0], results[1], "the pieces of a message make no difference");
        if results[0].is_err() {
            return;
        }
        assert_eq!(whole.seen, pieces.seen);
        assert_eq!(whole.receiver.transfer(), pieces.receiver.transfer());
        assert_eq!(whole.receiver.transferred(), pieces.receiver.transferred());
    }
}

fn transfers(transfers: Vec<Transfer>, cuts: Vec<u16>) {
    let (mut sender, mut receiving) = (Sender::new(STREAM), Receiving::new(true));
    let (mut expected, mut cuts) = (Seen::default(), cuts.into_iter());
    for Transfer { number, offset, size, lengths, digest, broken } in transfers {
        let header = Header {
            transfer: TransferNumber(number.max(1)),
            offset: offset >> 2,
            size: size.map(|size| size >> 2),
            modified: None,
        };
        sender.begin(header);
        let mut pass = |sender: &mut Sender, frame: Frame| {
            sender.on_sent(&frame);
            let credit = receiving.take(frame.ppid, frame.payload, &mut cuts).expect("our own frame");
            credit.into_iter().for_each(|credit| sender.on_credit(credit).expect("of this stream"));
        };
        expected.take(Incoming::Header(header));
        let mut has_begun = false;
        for (nth, length) in lengths.into_iter().enumerate() {
            let length = u64::from(length).min(sender.room());
            let content = Bytes::from(vec![nth as u8; length as usize]);
            if let Some(frame) = sender.frame(content.clone(), Then::More) {
                has_begun = true;
                pass(&mut sender, frame);
            }
            if !content.is_empty() {
                expected.take(Incoming::Bytes(content));
            }
        }
        match broken {
            Some(status) => {
                let status = 400 + status % 200;
                match sender.break_off(status) {
                    Some(frame) => {
                        pass(&mut sender, frame);
                        expected.take(Incoming::Broken(status));
                    }
                    None => {
                        assert!(!has_begun);
                        assert_eq!(expected.events.pop(), Some(Incoming::Header(header)));
                    }
                }
            }
            None => {
                let frame = sender.frame(Bytes::new(), Then::Complete(digest)).expect("it has a digest");
                assert!(frame.payload.len() >= DIGEST_LENGTH);
                pass(&mut sender, frame);
                expected.take(Incoming::Complete(digest));
            }
        }
        assert_eq!((sender.transfer(), receiving.receiver.transfer()), (None, None));
    }
    assert_eq!(receiving.seen, expected);
}

fuzz_target!(|input: Input| {
    match input {
        Input::Messages { messages: all, cuts, is_consumed } => messages(all, cuts, is_consumed),
        Input::Transfers { transfers: all, cuts } => transfers(all, cuts),
    }
});
