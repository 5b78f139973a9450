//! Stream schedulers (RFC 8260 §3): select the stream that sends next.
//!
//! Every stream with messages has a position in one queue, and the first one is next; schedulers differ
//! only in the position. With DATA, a message that has begun is sent to its end, since fragments of two
//! messages cannot be mixed; with I-DATA, the turn passes after each chunk. Only new chunks are scheduled;
//! lost ones are retransmitted in the order of their TSNs (RFC 9260 §6.1 C).

use std::collections::BTreeSet;
use std::fmt;

use crate::config::Scheduler;
use crate::ids::StreamId;

/// The association has no such outbound stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchStream(
    /// The stream that was named.
    pub StreamId,
);

impl fmt::Display for NoSuchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the association has no outbound stream {}; use one that was negotiated", self.0.0)
    }
}

impl std::error::Error for NoSuchStream {}

/// A message's position in the order of `send`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrival(u64);

impl Arrival {
    /// Before all messages.
    pub(super) const NONE: Self = Self(0);
}

/// What remains on a stream after a chunk was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The rest of the same message.
    Rest,
    /// Another message.
    Message(Arrival),
    /// Nothing.
    Nothing,
}

/// Which part of a message was abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// All of it: no part was sent.
    Whole,
    /// Its rest, which was next to be sent.
    Rest,
}

/// The account of one byte with weight 1: large, so that division by a weight loses little.
const SCALE: u128 = 1 << 16;

/// A stream's position in the queue. The order of the fields is the order of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The scheduler's criterion.
    rank: u128,
    /// The order in which positions were taken.
    taken: u64,
    stream: StreamId,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    place: Option<Place>,
    value: u16,
    /// The bytes sent, times [`SCALE`] over the weight. An idle stream accumulates no credit.
    account: u128,
}

/// The streams with messages, in the order in which they may send.
#[derive(Debug)]
pub(super) struct Turns {
    scheduler: Scheduler,
    /// The first position. Not in `queue`: a stream that is alone changes its position with each message.
    first: Option<Place>,
    /// The positions after the first one.
    queue: BTreeSet<Place>,
    /// By stream number, up to the highest one used.
    streams: Vec<Stream>,
    arrivals: u64,
    places: u64,
    /// The account of the stream that was served last, before it was: where a returning stream starts.
    reached: u128,
    /// Whether chunks of different messages may be interleaved (RFC 8260 §2).
    interleaving: bool,
    /// The stream with a partly sent message, if no other stream may be served before its end.
    begun: Option<StreamId>,
    /// The only stream whose chunks the open packet may contain, if there is such a limit.
    packet: Option<StreamId>,
}

impl Turns {
    /// Creates an empty queue.
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Self {
            scheduler,
            first: None,
            queue: BTreeSet::new(),
            streams: Vec::new(),
            arrivals: 0,
            places: 0,
            reached: 0,
            interleaving: false,
            begun: None,
            packet: None,
        }
    }

    /// Returns an empty queue with the same values of streams.
    pub(super) fn emptied(&self) -> Self {
        let streams = self.streams.iter().map(|stream| Stream { value: stream.value, ..Stream::default() });
        Self { streams: streams.collect(), ..Self::new(self.scheduler) }
    }

    /// Messages may be interleaved from now on; none has begun.
    pub(super) fn interleave(&mut self) {
        self.interleaving = true;
    }

    /// Another message was queued.
    pub(super) fn arrival(&mut self) -> Arrival {
        self.arrivals += 1;
        Arrival(self.arrivals)
    }

    /// A stream without messages gets this one.
    pub(super) fn join(&mut self, id: StreamId, message: Arrival) {
        let reached = self.reached;
        let stream = self.stream(id);
        // An idle stream accumulates no credit.
        stream.account = stream.account.max(reached);
        self.take_place(id, message);
    }

    /// Returns the stream that sends next.
    pub(super) fn turn(&self) -> Option<StreamId> {
        match (self.begun, self.packet) {
            (Some(begun), _) => Some(begun),
            (None, Some(only)) => self.streams[usize::from(only.0)].place.map(|_| only),
            (None, None) => self.first.map(|place| place.stream),
        }
    }

    /// A chunk with this many bytes of user data was taken from the next stream.
    pub(super) fn cut(&mut self, id: StreamId, bytes: usize, left: Left) {
        let weight = match self.scheduler {
            Scheduler::WeightedFairQueueing => self.stream(id).value.max(1),
            _ => 1,
        };
        let stream = self.stream(id);
        let place = stream.place.expect("a stream that sends has a place");
        stream.account += bytes as u128 * SCALE / u128::from(weight);
        if self.scheduler == Scheduler::RoundRobinByPacket {
            self.packet = Some(id);
        }
        let rest = left == Left::Rest;
        self.begun = (rest && !self.interleaving).then_some(id);
        if self.begun.is_some() {
            return;
        }
        if matches!(self.scheduler, Scheduler::FairCapacity | Scheduler::WeightedFairQueueing) {
            self.reached = self.reached.max(place.rank);
        }
        match left {
            // The stream stays first until the packet is full.
            Left::Message(_) | Left::Rest if self.scheduler == Scheduler::RoundRobinByPacket => {}
            //= specs/rfc8260.txt#section-3.1
            //# The usage of user message interleaving does not
            //# affect the sending of the chunks, except that I-DATA chunks are used
            //# instead of DATA chunks.
            Left::Rest if self.scheduler == Scheduler::FirstComeFirstServed => {}
            //= specs/rfc8260.txt#section-3.2
            //# When interleaving user messages, this
            //# scheduler provides a fair scheduling based on the number of I-DATA
            //# chunks by cycling around non-empty stream queues.
            Left::Rest => {
                self.leave(place);
                self.take_place(id, Arrival(0));
            }
            Left::Message(next) => {
                self.leave(place);
                self.take_place(id, next);
            }
            Left::Nothing => self.leave(place),
        }
    }

    /// A stream may not send for now, although it has messages.
    pub(super) fn withdraw(&mut self, id: StreamId) {
        if let Some(place) = self.stream(id).place {
            self.leave(place);
        }
    }

    /// The first message of a stream was abandoned, and `next` is the first now.
    pub(super) fn give_up(&mut self, id: StreamId, given_up: GivenUp, next: Option<Arrival>) {
        let had_begun = given_up == GivenUp::Rest;
        if had_begun && self.begun == Some(id) {
            self.begun = None;
        }
        let Some(place) = self.stream(id).place else { return };
        match next {
            None => self.leave(place),
            Some(next) if had_begun || self.scheduler == Scheduler::FirstComeFirstServed => {
                self.leave(place);
                self.take_place(id, next);
            }
            Some(_) => {}
        }
    }

    /// A packet begins. The previous one may have got no chunk.
    pub(super) fn begin_packet(&mut self) {
        //= specs/rfc8260.txt#section-3.3
        //# This is a round-robin scheduler, which only switches streams when
        //# starting to fill a new packet.  It bundles only DATA or I-DATA chunks
        //# referring to the same stream in a packet.
        let Some(id) = self.packet.take() else { return };
        if let Some(place) = self.stream(id).place {
            self.leave(place);
            self.take_place(id, Arrival(0));
        }
    }

    /// Sets the scheduling value of a stream, from its next chunk on.
    pub(super) fn set_value(&mut self, id: StreamId, value: u16) {
        let stream = self.stream(id);
        stream.value = value;
        if self.scheduler == Scheduler::Priority
            && let Some(place) = self.stream(id).place
        {
            self.leave(place);
            self.settle(Place { rank: u128::from(value), ..place });
        }
    }

    /// The highest stream with messages.
    pub(super) fn highest(&self) -> Option<StreamId> {
        let index = self.streams.iter().rposition(|stream| stream.place.is_some())?;
        Some(StreamId(index as u16))
    }

    /// The number of streams with messages.
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.queue.len()
    }

    /// Whether no stream has messages.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn take_place(&mut self, id: StreamId, message: Arrival) {
        let stream = *self.stream(id);
        let rank = match self.scheduler {
            //= specs/rfc8260.txt#section-3.1
            //# It just passes through the messages in the order in which they
            //# have been delivered by the application.
            Scheduler::FirstComeFirstServed => u128::from(message.0),
            //= specs/rfc8260.txt#section-3.2
            //# When not interleaving user messages, this scheduler provides a fair
            //# scheduling based on the number of user messages by cycling around
            //# non-empty stream queues.
            Scheduler::RoundRobin | Scheduler::RoundRobinByPacket => 0,
            //= specs/rfc8260.txt#section-3.4
            //# The
            //# priority is configurable per outgoing SCTP stream.
            // RFC 8260 leaves the sense of the number open; other stacks serve the lowest first.
            Scheduler::Priority => u128::from(stream.value),
            //= specs/rfc8260.txt#section-3.6
            //# If the weight of stream S1 is n times the weight of stream
            //# S2, the scheduler should assign to stream S1 n times the capacity it
            //# assigns to stream S2.
            Scheduler::FairCapacity | Scheduler::WeightedFairQueueing => stream.account,
        };
        self.places += 1;
        self.settle(Place { rank, taken: self.places, stream: id });
    }

    fn settle(&mut self, place: Place) {
        self.stream(place.stream).place = Some(place);
        match self.first {
            None => self.first = Some(place),
            Some(first) => {
                self.first = Some(first.min(place));
                self.queue.insert(first.max(place));
            }
        }
    }

    fn leave(&mut self, place: Place) {
        self.stream(place.stream).place = None;
        if self.first == Some(place) {
            self.first = self.queue.pop_first();
        } else {
            self.queue.remove(&place);
        }
    }

    fn stream(&mut self, id: StreamId) -> &mut Stream {
        let index = usize::from(id.0);
        if self.streams.len() <= index {
            self.streams.resize(index + 1, Stream::default());
        }
        &mut self.streams[index]
    }
}

#[cfg(test)]
#[path = "tests/scheduler.rs"]
pub(super) mod tests;
