//! The state of stream re-configuration (RFC 6525): the user's operations, this side's request, and
//! responses to the peer's.

use std::fmt;

use braidftp_base::Time;

use crate::config::PeerMay;
use crate::ids::{PathId, RequestNumber, StreamId, Tsn};
use crate::wire::{Data, Reconfig, ReconfigResult};

/// The maximum number of chunks kept unacknowledged because their numbering is ambiguous while the peer
/// may have reset its TSNs.
const EARLY_MAX: usize = 32;

/// The maximum number of queued response chunks: a peer has one request outstanding.
const REPLIES_MAX: usize = 4;

/// Streams of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Streams {
    /// All streams.
    All,
    /// These streams.
    These(Vec<StreamId>),
}

impl Streams {
    /// Converts a list on the wire, where an empty list means all streams.
    pub(super) fn of_list(list: Vec<StreamId>) -> Self {
        if list.is_empty() { Self::All } else { Self::These(list) }
    }

    pub(super) fn list(&self) -> &[StreamId] {
        match self {
            Self::All => &[],
            Self::These(list) => list,
        }
    }

    /// Whether the stream is included.
    pub fn contains(&self, stream: StreamId) -> bool {
        match self {
            Self::All => true,
            Self::These(list) => list.contains(&stream),
        }
    }

    /// Returns the streams below `count`; all of them, if that is the number of streams.
    pub(in crate::association) fn up_to(&self, count: usize) -> impl Iterator<Item = StreamId> {
        let all = if matches!(self, Self::All) { count } else { 0 };
        let listed = self.list().iter().copied().filter(move |id| usize::from(id.0) < count);
        (0..all).map(|index| StreamId(index as u16)).chain(listed)
    }

    /// Returns the first stream that does not exist.
    pub(super) fn beyond(&self, count: u16) -> Option<StreamId> {
        self.list().iter().copied().find(|stream| stream.0 >= count)
    }

    /// Whether all of `others` are included.
    pub(super) fn covers(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::All, _) => true,
            (Self::These(_), Self::All) => false,
            (Self::These(_), Self::These(list)) => list.iter().all(|stream| self.contains(*stream)),
        }
    }
}

/// The streams to reset, for [`Association::reset_streams`](crate::Association::reset_streams).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReset {
    /// Streams on which this side sends.
    pub outgoing: Option<Streams>,
    /// Streams on which the peer sends.
    pub incoming: Option<Streams>,
}

/// The direction of streams, as seen from this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Streams on which the peer sends.
    Incoming,
    /// Streams on which this side sends.
    Outgoing,
}

/// The result of a request (RFC 6525 §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Performed.
    Done,
    /// The peer does not permit it.
    Denied,
    /// The peer could not perform it, or did not support it.
    Failed,
}

/// Why a re-configuration was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconfigError {
    /// The association is not established, or is shutting down.
    NotUp,
    /// The peer does not support it, or it is not configured.
    NotSupported,
    /// A re-configuration is in progress: wait for its event.
    InProgress,
    /// The stream does not exist.
    NoSuchStream(StreamId),
    /// There would be more than 65,535 streams, or the list does not fit a packet.
    TooManyStreams,
    /// The last association reset was requested less than 30 seconds ago.
    TooSoon,
    /// The request is empty.
    Nothing,
}

impl fmt::Display for ReconfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUp => f.write_str("the association is not up; wait for it, or open a new one"),
            Self::NotSupported => f.write_str(
                "re-configuration is not agreed on; switch it on in the configurations of both sides",
            ),
            Self::InProgress => f.write_str("another re-configuration is under way; wait for its end"),
            Self::NoSuchStream(stream) => write!(f, "the association has no stream {}", stream.0),
            Self::TooManyStreams => {
                f.write_str("these are more streams than an association or a packet holds; ask for fewer")
            }
            Self::TooSoon => f.write_str("an association can be reset once in 30 seconds; wait"),
            Self::Nothing => f.write_str("no stream is named; name one, or all"),
        }
    }
}

impl std::error::Error for ReconfigError {}

/// An operation that this side requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Reset {
        streams: StreamReset,
        /// The peer's request that it answers, if any.
        answers: Option<RequestNumber>,
    },
    Association,
    Add {
        outgoing: u16,
        incoming: u16,
    },
}

/// The stage of this side's re-configuration.
//= specs/rfc6525.txt#section-5.1.1
//# At any given time, there MUST NOT be more than one request in flight.
//# So, if the Re-configuration Timer is running and the RE-CONFIG chunk
//# contains at least one request parameter, the chunk MUST be buffered.
#[derive(Debug)]
pub(super) enum Stage {
    Idle,
    /// Data sent before must be acknowledged first.
    Draining(Operation),
    InFlight(InFlight),
}

/// An outstanding request.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) operation: Operation,
    /// The chunk that is sent and retransmitted.
    pub(super) chunk: Vec<Reconfig>,
    /// The result of each request in it, once known.
    pub(super) results: Vec<(RequestNumber, Option<ReconfigResult>)>,
    /// The number of retransmissions without any response.
    pub(super) retry: u32,
    /// Whether it must be sent.
    pub(super) due: bool,
    /// Whether the peer responded "In progress".
    pub(super) in_progress: bool,
}

/// The response to a request in the peer's last RE-CONFIG chunk with requests.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) request: RequestNumber,
    /// `None`: no response yet.
    pub(super) response: Option<Reconfig>,
    /// The response to a repetition meanwhile.
    pub(super) meanwhile: Option<ReconfigResult>,
}

/// The state of re-configuration, if both sides support it.
#[derive(Debug)]
pub(in crate::association) struct Reconfiguration {
    pub(super) may: PeerMay,
    /// The number of this side's next request.
    pub(super) next_request: RequestNumber,
    /// The number of the peer's next request.
    pub(super) expected: RequestNumber,
    pub(super) stage: Stage,
    /// An operation that the peer asked this side to request.
    pub(super) owed: Option<Operation>,
    /// The responses to the requests of the peer's last chunk with requests.
    pub(super) answers: Vec<Answer>,
    /// Responses to send, each with its path.
    pub(super) replies: Vec<(PathId, Vec<Reconfig>)>,
    /// The peer's request to reset its outgoing streams, waiting for their data.
    pub(super) deferred: Option<(RequestNumber, PathId)>,
    /// The peer's request to reset the association, waiting for this side's data.
    pub(super) yielding: Option<(RequestNumber, PathId)>,
    /// When this side last requested an association reset.
    pub(super) association_reset_at: Option<Time>,
    /// Chunks whose numbering is ambiguous while the peer may have reset its TSNs, ascending; they are
    /// processed later, as if still in flight. Without this, two paths with different delays could
    /// deliver one chunk per retransmission time-out.
    pub(super) early: Vec<Data>,
}

impl Reconfiguration {
    pub(in crate::association) fn new(may: PeerMay, own_initial_tsn: Tsn, peer_initial_tsn: Tsn) -> Self {
        Self {
            may,
            // RFC 6525 §4.1: "initialized to the same value as the initial TSN".
            next_request: RequestNumber(own_initial_tsn.0),
            expected: RequestNumber(peer_initial_tsn.0),
            stage: Stage::Idle,
            owed: None,
            answers: Vec::new(),
            replies: Vec::new(),
            deferred: None,
            yielding: None,
            association_reset_at: None,
            early: Vec::new(),
        }
    }

    /// Keeps a chunk whose numbering is ambiguous; the lowest ones, if there are too many.
    pub(in crate::association) fn hold_early(&mut self, data: Data) {
        let at = self.early.partition_point(|early| early.tsn.before(data.tsn));
        if self.early.get(at).is_none_or(|early| early.tsn != data.tsn) {
            self.early.insert(at, data);
            self.early.truncate(EARLY_MAX);
        }
    }

    /// Returns the kept chunk with this TSN; those before it have arrived since.
    pub(in crate::association) fn take_early(&mut self, tsn: Tsn) -> Option<Data> {
        self.early.retain(|early| !early.tsn.before(tsn));
        (self.early.first()?.tsn == tsn).then(|| self.early.remove(0))
    }

    /// Whether the user must wait before the next operation.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle) || self.owed.is_some() || self.yielding.is_some()
    }

    /// Whether this side waits for a request by which the peer must respond.
    pub(super) fn waits_for_a_request(&self) -> bool {
        let (Stage::Draining(operation) | Stage::InFlight(InFlight { operation, .. })) = &self.stage else {
            return false;
        };
        matches!(operation, Operation::Reset { streams: StreamReset { incoming: Some(_), .. }, .. })
    }

    /// Whether this side has requested an association reset whose result is unknown.
    pub(in crate::association) fn awaits_restart(&self) -> bool {
        matches!(&self.stage, Stage::InFlight(flight) if flight.operation == Operation::Association)
    }

    /// Panics if an invariant is violated. Returns whether messages may be held back.
    pub(in crate::association) fn check(&self, timer_is_armed: bool) -> bool {
        let in_flight = match &self.stage {
            Stage::Idle => false,
            Stage::Draining(_) => return true,
            Stage::InFlight(flight) => {
                assert!(!flight.due, "a request is sent when it is due");
                true
            }
        };
        assert_eq!(in_flight, timer_is_armed, "a request under way has a timer, and nothing else has it");
        assert!(self.replies.is_empty(), "an answer is sent when it is due");
        assert!(self.early.len() <= EARLY_MAX && (self.awaits_restart() || self.early.is_empty()));
        assert!(self.answers.len() <= 2 && (in_flight || self.owed.is_none()));
        in_flight || self.yielding.is_some()
    }

    pub(super) fn take_number(&mut self) -> RequestNumber {
        let number = self.next_request;
        self.next_request = number.next();
        number
    }

    /// Sets the response to a request of the peer's last chunk.
    pub(super) fn answer(&mut self, request: RequestNumber, response: Reconfig) {
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.request == request) {
            answer.response = Some(response);
        }
    }

    /// Moves responses from paths for which `is_shut` holds to this path.
    pub(in crate::association) fn leave_by(&mut self, id: PathId, is_shut: impl Fn(PathId) -> bool) {
        self.replies.iter_mut().filter(|(by, _)| is_shut(*by)).for_each(|(by, _)| *by = id);
    }

    /// A path was removed: its responses are sent on `new_path`.
    pub(in crate::association) fn move_to_path(&mut self, from: PathId, new_path: PathId) {
        let replies = self.replies.iter_mut().map(|(by, _)| by);
        let waiting = self.deferred.iter_mut().chain(&mut self.yielding).map(|(_, by)| by);
        replies.chain(waiting).filter(|by| **by == from).for_each(|by| *by = new_path);
    }

    pub(super) fn reply(&mut self, path: PathId, parameters: Vec<Reconfig>) {
        if !parameters.is_empty() && self.replies.len() < REPLIES_MAX {
            self.replies.push((path, parameters));
        }
    }
}
