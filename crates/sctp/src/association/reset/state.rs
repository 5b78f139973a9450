//! The state of stream re-configuration (RFC 6525): what the user asks for, this side's request, and the answers to the
//! peer's.

use std::fmt;

use braidftp_base::Time;

use crate::config::PeerMay;
use crate::ids::{PathId, RequestNumber, StreamId, Tsn};
use crate::wire::{Data, Reconfig, ReconfigResult};

/// How many chunks that came before their turn are kept, unacknowledged, while the peer may have renumbered.
const EARLY_MAX: usize = 32;

/// How many chunks with answers wait to leave at most: a peer has one request under way.
const REPLIES_MAX: usize = 4;

/// Streams of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Streams {
    /// All there are.
    All,
    /// These.
    These(Vec<StreamId>),
}

impl Streams {
    /// As a list on the wire, where nothing listed stands for all.
    pub(super) fn of_list(list: Vec<StreamId>) -> Self {
        if list.is_empty() { Self::All } else { Self::These(list) }
    }

    pub(super) fn list(&self) -> &[StreamId] {
        match self {
            Self::All => &[],
            Self::These(list) => list,
        }
    }

    /// Whether it is one of them.
    pub fn contains(&self, stream: StreamId) -> bool {
        match self {
            Self::All => true,
            Self::These(list) => list.contains(&stream),
        }
    }

    /// Those of them that are below `count`; all are, if it is the number of streams.
    pub(in crate::association) fn up_to(&self, count: usize) -> impl Iterator<Item = StreamId> {
        let all = if matches!(self, Self::All) { count } else { 0 };
        let listed = self.list().iter().copied().filter(move |id| usize::from(id.0) < count);
        (0..all).map(|index| StreamId(index as u16)).chain(listed)
    }

    /// The first one that does not exist.
    pub(super) fn beyond(&self, count: u16) -> Option<StreamId> {
        self.list().iter().copied().find(|stream| stream.0 >= count)
    }

    /// Whether all of `others` are among these.
    pub(super) fn covers(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::All, _) => true,
            (Self::These(_), Self::All) => false,
            (Self::These(_), Self::These(list)) => list.iter().all(|stream| self.contains(*stream)),
        }
    }
}

/// Which streams are to begin anew, for [`Association::reset_streams`](crate::Association::reset_streams).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReset {
    /// Those on which this side sends.
    pub outgoing: Option<Streams>,
    /// Those on which the peer sends.
    pub incoming: Option<Streams>,
}

/// On which streams something happened, seen from this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Those on which the peer sends.
    Incoming,
    /// Those on which this side sends.
    Outgoing,
}

/// What came of a request (RFC 6525 §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was done.
    Done,
    /// The peer does not allow it.
    Denied,
    /// The peer could not do it, or did not understand it.
    Failed,
}

/// Why a re-configuration was not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconfigError {
    /// The handshake is not done, or the association is over or shuts down.
    NotUp,
    /// The peer does not support it, or this side is not configured to.
    NotSupported,
    /// One is under way: wait for its event.
    InProgress,
    /// There is no such stream.
    NoSuchStream(StreamId),
    /// There would be more than 65,535 streams, or more are listed than fit a packet.
    TooManyStreams,
    /// The last association reset was asked for within the last 30 seconds.
    TooSoon,
    /// Nothing is asked for.
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

/// What this side asks the peer for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Reset {
        streams: StreamReset,
        /// If the peer asked for it: by which request.
        answers: Option<RequestNumber>,
    },
    Association,
    Add {
        outgoing: u16,
        incoming: u16,
    },
}

/// Where this side's own re-configuration is.
//= specs/rfc6525.txt#section-5.1.1
//# At any given time, there MUST NOT be more than one request in flight.
//# So, if the Re-configuration Timer is running and the RE-CONFIG chunk
//# contains at least one request parameter, the chunk MUST be buffered.
#[derive(Debug)]
pub(super) enum Stage {
    Idle,
    /// What was sent before is to be acknowledged first.
    Draining(Operation),
    InFlight(InFlight),
}

/// A request under way.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) operation: Operation,
    /// What is sent, again and again.
    pub(super) chunk: Vec<Reconfig>,
    /// Of each request in it, once it is known, what came of it.
    pub(super) results: Vec<(RequestNumber, Option<ReconfigResult>)>,
    /// How often it was repeated without any answer.
    pub(super) retry: u32,
    /// Whether it is to leave.
    pub(super) due: bool,
    /// Whether the peer said that it is at it.
    pub(super) in_progress: bool,
}

/// What was said to a request of the peer's last RE-CONFIG chunk with any.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) request: RequestNumber,
    /// `None`: not answered yet.
    pub(super) response: Option<Reconfig>,
    /// What is said meanwhile to one that comes again.
    pub(super) meanwhile: Option<ReconfigResult>,
}

/// Re-configuration, once both sides have agreed that there is any.
#[derive(Debug)]
pub(in crate::association) struct Reconfiguration {
    pub(super) may: PeerMay,
    /// The number of this side's next request.
    pub(super) next_request: RequestNumber,
    /// The number of the peer's next request.
    pub(super) expected: RequestNumber,
    pub(super) stage: Stage,
    /// What the peer asked this side to ask for.
    pub(super) owed: Option<Operation>,
    /// To the requests of the peer's last chunk with any.
    pub(super) answers: Vec<Answer>,
    /// Answers that are to leave, and by which path.
    pub(super) replies: Vec<(PathId, Vec<Reconfig>)>,
    /// The peer's request to reset its outgoing streams that waits for their data.
    pub(super) deferred: Option<(RequestNumber, PathId)>,
    /// The peer's request to reset the association that waits for our data.
    pub(super) yielding: Option<(RequestNumber, PathId)>,
    /// When this side asked to reset the association last.
    pub(super) association_reset_at: Option<Time>,
    /// What came before its turn while the peer may have renumbered, ascending: as if it were under way still. Without
    /// it two paths of which one is slower could bring one chunk in a retransmission timeout, and no more.
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

    /// Keeps what comes before its turn; the earliest, if there are too many.
    pub(in crate::association) fn hold_early(&mut self, data: Data) {
        let at = self.early.partition_point(|early| early.tsn.before(data.tsn));
        if self.early.get(at).is_none_or(|early| early.tsn != data.tsn) {
            self.early.insert(at, data);
            self.early.truncate(EARLY_MAX);
        }
    }

    /// The chunk whose turn it is, if it came early. What is before it has come since.
    pub(in crate::association) fn take_early(&mut self, tsn: Tsn) -> Option<Data> {
        self.early.retain(|early| !early.tsn.before(tsn));
        (self.early.first()?.tsn == tsn).then(|| self.early.remove(0))
    }

    /// Whether the user has to wait before it can ask for anything.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle) || self.owed.is_some() || self.yielding.is_some()
    }

    /// Whether this side has asked, or will have, for what the peer has to ask for in turn.
    pub(super) fn waits_for_a_request(&self) -> bool {
        let (Stage::Draining(operation) | Stage::InFlight(InFlight { operation, .. })) = &self.stage else {
            return false;
        };
        matches!(operation, Operation::Reset { streams: StreamReset { incoming: Some(_), .. }, .. })
    }

    /// Whether this side has asked to reset the association and does not know yet.
    pub(in crate::association) fn awaits_restart(&self) -> bool {
        matches!(&self.stage, Stage::InFlight(flight) if flight.operation == Operation::Association)
    }

    /// Panics if something does not hold that must hold between drains; whether messages may be held back.
    pub(in crate::association) fn check(&self, timer_is_armed: bool) -> bool {
        let in_flight = match &self.stage {
            Stage::Idle => false,
            Stage::Draining(_) => return true,
            Stage::InFlight(flight) => {
                assert!(!flight.due, "a request leaves when it is due");
                true
            }
        };
        assert_eq!(in_flight, timer_is_armed, "a request under way has a timer, and nothing else has it");
        assert!(self.replies.is_empty(), "an answer leaves when it is due");
        assert!(self.early.len() <= EARLY_MAX && (self.awaits_restart() || self.early.is_empty()));
        assert!(self.answers.len() <= 2 && (in_flight || self.owed.is_none()));
        in_flight || self.yielding.is_some()
    }

    pub(super) fn take_number(&mut self) -> RequestNumber {
        let number = self.next_request;
        self.next_request = number.next();
        number
    }

    /// Says something to a request of the peer's last chunk.
    pub(super) fn answer(&mut self, request: RequestNumber, response: Reconfig) {
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.request == request) {
            answer.response = Some(response);
        }
    }

    /// Answers that would leave by a path that `is_shut` leave by this one.
    pub(in crate::association) fn leave_by(&mut self, id: PathId, is_shut: impl Fn(PathId) -> bool) {
        self.replies.iter_mut().filter(|(by, _)| is_shut(*by)).for_each(|(by, _)| *by = id);
    }

    /// A path is gone: what was to leave by it leaves by `new_path`.
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
