//! Stream re-configuration (RFC 6525): reset and addition of streams, and reset of TSNs, requested by
//! either side.
//!
//! One request of each side is outstanding at a time. Streams to be reset are first drained: data sent on
//! them is acknowledged before the request is sent, and later data waits for the response. A request of the
//! peer to reset or add streams of this side becomes such a request, in turn.

mod answers;
mod requests;

use std::fmt;

use braidftp_base::Time;

use crate::association::Association;
use crate::association::send_queue::Hold;
use crate::association::state::{Shutdown, State, Window};
use crate::config::PeerMay;
use crate::ids::{PathId, RequestNumber, StreamId, Tsn};
use crate::wire::{Chunk, Data, Header, Reconfig, ReconfigResult};

/// How long an association reset follows on another at the least: the maximum segment lifetime (RFC 6525 §5.1.4).
const ASSOCIATION_RESET_INTERVAL: std::time::Duration = std::time::Duration::from_secs(30);

/// How many chunks with answers wait to leave at most: a peer has one request under way.
const REPLIES_MAX: usize = 4;

/// How many chunks that came before their turn are kept, unacknowledged, while the peer may have renumbered.
const EARLY_MAX: usize = 32;

/// How far the TSNs of the side that performs an association reset go on, and those of its peer: whatever is still under
/// way from before is then told from what is new.
const TSN_LEAP: u32 = 1 << 31;

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
    fn of_list(list: Vec<StreamId>) -> Self {
        if list.is_empty() { Self::All } else { Self::These(list) }
    }

    fn list(&self) -> &[StreamId] {
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
    pub(super) fn up_to(&self, count: usize) -> impl Iterator<Item = StreamId> {
        let all = if matches!(self, Self::All) { count } else { 0 };
        let listed = self.list().iter().copied().filter(move |id| usize::from(id.0) < count);
        (0..all).map(|index| StreamId(index as u16)).chain(listed)
    }

    /// The first one that does not exist.
    fn beyond(&self, count: u16) -> Option<StreamId> {
        self.list().iter().copied().find(|stream| stream.0 >= count)
    }

    /// Whether all of `others` are among these.
    fn covers(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::All, _) => true,
            (Self::These(_), Self::All) => false,
            (Self::These(_), Self::These(list)) => list.iter().all(|stream| self.contains(*stream)),
        }
    }
}

/// Which streams are to begin anew, for [`Association::reset_streams`].
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
enum Operation {
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
enum Stage {
    Idle,
    /// What was sent before is to be acknowledged first.
    Draining(Operation),
    InFlight(InFlight),
}

/// A request under way.
#[derive(Debug)]
struct InFlight {
    operation: Operation,
    /// What is sent, again and again.
    chunk: Vec<Reconfig>,
    /// Of each request in it, once it is known, what came of it.
    results: Vec<(RequestNumber, Option<ReconfigResult>)>,
    /// How often it was repeated without any answer.
    retry: u32,
    /// Whether it is to leave.
    due: bool,
    /// Whether the peer said that it is at it.
    in_progress: bool,
}

/// What was said to a request of the peer's last RE-CONFIG chunk with any.
#[derive(Debug)]
struct Answer {
    request: RequestNumber,
    /// `None`: not answered yet.
    said: Option<Reconfig>,
    /// What is said meanwhile to one that comes again.
    meanwhile: Option<ReconfigResult>,
}

/// Re-configuration, once both sides have agreed that there is any.
#[derive(Debug)]
pub(super) struct Reconfiguration {
    may: PeerMay,
    /// The number of this side's next request.
    next_request: RequestNumber,
    /// The number of the peer's next request.
    expected: RequestNumber,
    stage: Stage,
    /// What the peer asked this side to ask for.
    owed: Option<Operation>,
    /// To the requests of the peer's last chunk with any.
    answers: Vec<Answer>,
    /// Answers that are to leave, and by which path.
    replies: Vec<(PathId, Vec<Reconfig>)>,
    /// The peer's request to reset its outgoing streams that waits for their data.
    deferred: Option<(RequestNumber, PathId)>,
    /// The peer's request to reset the association that waits for our data.
    yielding: Option<(RequestNumber, PathId)>,
    /// When this side asked to reset the association last.
    association_reset_at: Option<Time>,
    /// What came before its turn while the peer may have renumbered, ascending: as if it were under way still. Without
    /// it two paths of which one is slower could bring one chunk in a retransmission timeout, and no more.
    early: Vec<Data>,
}

impl Reconfiguration {
    pub(super) fn new(may: PeerMay, own_initial_tsn: Tsn, peer_initial_tsn: Tsn) -> Self {
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
    pub(super) fn hold_early(&mut self, data: Data) {
        let at = self.early.partition_point(|early| early.tsn.before(data.tsn));
        if self.early.get(at).is_none_or(|early| early.tsn != data.tsn) {
            self.early.insert(at, data);
            self.early.truncate(EARLY_MAX);
        }
    }

    /// The chunk whose turn it is, if it came early. What is before it has come since.
    pub(super) fn take_early(&mut self, tsn: Tsn) -> Option<Data> {
        self.early.retain(|early| !early.tsn.before(tsn));
        (self.early.first()?.tsn == tsn).then(|| self.early.remove(0))
    }

    /// Whether the user has to wait before it can ask for anything.
    fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle) || self.owed.is_some() || self.yielding.is_some()
    }

    /// Whether this side has asked, or will have, for what the peer has to ask for in turn.
    fn waits_for_a_request(&self) -> bool {
        let (Stage::Draining(operation) | Stage::InFlight(InFlight { operation, .. })) = &self.stage else {
            return false;
        };
        matches!(operation, Operation::Reset { streams: StreamReset { incoming: Some(_), .. }, .. })
    }

    /// Whether this side has asked to reset the association and does not know yet.
    pub(super) fn awaits_restart(&self) -> bool {
        matches!(&self.stage, Stage::InFlight(flight) if flight.operation == Operation::Association)
    }

    /// Panics if something does not hold that must hold between drains; whether messages may be held back.
    pub(super) fn check(&self, timer_is_armed: bool) -> bool {
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

    fn take_number(&mut self) -> RequestNumber {
        let number = self.next_request;
        self.next_request = number.next();
        number
    }

    /// Says something to a request of the peer's last chunk.
    fn answer(&mut self, request: RequestNumber, said: Reconfig) {
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.request == request) {
            answer.said = Some(said);
        }
    }

    /// Answers that would leave by a path that `is_shut` leave by this one.
    pub(super) fn leave_by(&mut self, id: PathId, is_shut: impl Fn(PathId) -> bool) {
        self.replies.iter_mut().filter(|(by, _)| is_shut(*by)).for_each(|(by, _)| *by = id);
    }

    /// A path is gone: what was to leave by it leaves by `home`.
    pub(super) fn rehome(&mut self, from: PathId, home: PathId) {
        let replies = self.replies.iter_mut().map(|(by, _)| by);
        let waiting = self.deferred.iter_mut().chain(&mut self.yielding).map(|(_, by)| by);
        replies.chain(waiting).filter(|by| **by == from).for_each(|by| *by = home);
    }

    fn reply(&mut self, path: PathId, parameters: Vec<Reconfig>) {
        if !parameters.is_empty() && self.replies.len() < REPLIES_MAX {
            self.replies.push((path, parameters));
        }
    }
}

fn response(response: RequestNumber, result: ReconfigResult) -> Reconfig {
    //= specs/rfc6525.txt#section-5.1.7
    //# For other requests, the Sender's Next TSN field, which is
    //# optional, MUST NOT be used.
    //= specs/rfc6525.txt#section-5.1.7
    //# For other requests, the
    //# Receiver's Next TSN field, which is optional, MUST NOT be used.
    Reconfig::Response { response, result, next_tsns: None }
}

fn outcome_of(result: ReconfigResult) -> Outcome {
    match result {
        ReconfigResult::NothingToDo | ReconfigResult::Performed => Outcome::Done,
        ReconfigResult::Denied => Outcome::Denied,
        _ => Outcome::Failed,
    }
}

/// Whether these parameters may stand in one chunk (RFC 6525 §3.1).
fn is_allowed(parameters: &[Reconfig]) -> bool {
    use Reconfig::{
        AddIncoming, AddOutgoing, AssociationReset, IncomingReset, OutgoingReset, Response, Unknown,
    };
    match parameters {
        [Unknown { .. }] => true,
        [known @ .., Unknown { .. }] => is_allowed(known),
        [_] => true,
        [OutgoingReset { .. }, IncomingReset { .. }]
        | [AddOutgoing { .. }, AddIncoming { .. }]
        | [Response { .. }, OutgoingReset { .. } | Response { .. }] => true,
        [AssociationReset { .. }, ..] => false,
        _ => false,
    }
}

impl Association {
    /// Makes streams begin anew: their next messages have the numbers of a stream's first (RFC 6525 §6.3.2). What was
    /// sent on outgoing ones arrives before; what is sent on them from now on waits until the peer has answered.
    /// [`Event::StreamReset`](crate::association::Event::StreamReset) tells the end. The peer must allow it.
    pub fn reset_streams(&mut self, streams: StreamReset) -> Result<(), ReconfigError> {
        self.can_reconfigure()?;
        for (direction, count) in
            [(&streams.outgoing, self.outbound_streams), (&streams.incoming, self.inbound_streams)]
        {
            match direction {
                Some(Streams::These(list)) if list.is_empty() => return Err(ReconfigError::Nothing),
                Some(streams) => {
                    if let Some(beyond) = streams.beyond(count) {
                        return Err(ReconfigError::NoSuchStream(beyond));
                    }
                }
                None => {}
            }
        }
        let listed: usize = [&streams.outgoing, &streams.incoming]
            .into_iter()
            .flatten()
            .map(|streams| streams.list().len())
            .sum();
        if streams.outgoing.is_none() && streams.incoming.is_none() {
            return Err(ReconfigError::Nothing);
        }
        if listed > self.listable_streams() {
            return Err(ReconfigError::TooManyStreams);
        }
        self.begin_operation(Operation::Reset { streams, answers: None });
        Ok(())
    }

    /// Makes all streams of both directions and all TSNs begin anew (RFC 6525 §6.3.3). What was sent before arrives
    /// before; what is sent from now on waits until the peer has answered. [`Event::AssociationReset`](crate::association::Event::AssociationReset) tells the end.
    /// The peer must allow it.
    pub fn reset_association(&mut self, now: Time) -> Result<(), ReconfigError> {
        let reset = self.can_reconfigure()?;
        //= specs/rfc6525.txt#section-5.1.4
        //# Only one SSN/TSN Reset Request SHOULD be sent within 30 seconds,
        //# which is considered a maximum segment lifetime (the IP MSL).
        if reset.association_reset_at.is_some_and(|at| now.since(at) < ASSOCIATION_RESET_INTERVAL) {
            return Err(ReconfigError::TooSoon);
        }
        reset.association_reset_at = Some(now);
        self.begin_operation(Operation::Association);
        // After it no SACK can tell of what the peer sent before: usrsctp holds on to its last TSN then, and aborts for
        // the next that is acknowledged.
        if let State::Up(up) = &mut self.state
            && up.received.sack_may_ride()
        {
            up.received.sack_now();
        }
        Ok(())
    }

    /// Adds so many streams to those on which this side sends and to those on which the peer does (RFC 6525 §6.3.4). An
    /// [`Event::StreamChange`](crate::association::Event::StreamChange) tells each. The peer must allow it.
    pub fn add_streams(&mut self, outgoing: u16, incoming: u16) -> Result<(), ReconfigError> {
        self.can_reconfigure()?;
        if outgoing == 0 && incoming == 0 {
            return Err(ReconfigError::Nothing);
        }
        let fits = |count: u16, more: u16| count.checked_add(more).is_some();
        if !fits(self.outbound_streams, outgoing) || !fits(self.inbound_streams, incoming) {
            return Err(ReconfigError::TooManyStreams);
        }
        self.begin_operation(Operation::Add { outgoing, incoming });
        Ok(())
    }

    /// What the peer may ask for from now on (RFC 6525 §6.3.1), instead of [`streams.peer_may`](crate::Config::streams).
    pub fn set_peer_may(&mut self, may: PeerMay) -> Result<(), ReconfigError> {
        match &mut self.state {
            State::Up(up) | State::CookieEchoed { up, .. } => match &mut up.reconfiguration {
                Some(reset) => {
                    reset.may = may;
                    Ok(())
                }
                None => Err(ReconfigError::NotSupported),
            },
            State::CookieWait { .. } | State::Closed(_) => Err(ReconfigError::NotUp),
        }
    }

    fn can_reconfigure(&mut self) -> Result<&mut Reconfiguration, ReconfigError> {
        let State::Up(up) = &mut self.state else { return Err(ReconfigError::NotUp) };
        if self.shutdown != Shutdown::No {
            return Err(ReconfigError::NotUp);
        }
        //= specs/rfc6525.txt#section-5.1.1
        //# If the chunk type of the RE-CONFIG chunk
        //# does not appear in the supported extension's list of chunks, then the
        //# sender MUST NOT send any re-configuration request to the peer, and
        //# any request by the application for such service SHOULD be responded
        //# to with an appropriate error indicating that the peer SCTP stack does
        //# not support the re-configuration extension.
        match &mut up.reconfiguration {
            None => Err(ReconfigError::NotSupported),
            Some(reset) if reset.is_busy() => Err(ReconfigError::InProgress),
            Some(reset) => Ok(reset),
        }
    }

    /// How many streams a request can list and still fit a packet.
    fn listable_streams(&self) -> usize {
        const BEHIND_THE_LISTS: usize = Header::LEN + Chunk::HEADER_LEN + 12 + 16 + 8 + 3 * 4;
        let mtu = self.paths.iter().map(|path| path.mtu).min().unwrap_or(0);
        mtu.saturating_sub(BEHIND_THE_LISTS) / 2
    }

    fn begin_operation(&mut self, operation: Operation) {
        let hold = match &operation {
            //= specs/rfc6525.txt#section-5.1.2
            //# The sender MUST stop assigning new SSNs to new user data
            //# provided by the upper layer for the affected streams and queue
            //# it.
            Operation::Reset { streams, .. } => streams.outgoing.as_ref(),
            //= specs/rfc6525.txt#section-5.1.4
            //# The sender MUST queue any user
            //# data, suspending any new transmissions and TSN assignment until
            //# the reset procedure is finished by the peer either acknowledging
            //# or denying the request.
            Operation::Association => Some(&Streams::All),
            Operation::Add { .. } => None,
        };
        if let Some(streams) = hold {
            self.queue.hold(streams, Hold::BehindTheQueued);
        }
        if let State::Up(up) = &mut self.state
            && let Some(reset) = &mut up.reconfiguration
        {
            reset.stage = Stage::Draining(operation);
        }
        self.stirred = true;
    }

    /// Takes the next step of a re-configuration, if its turn has come: called before packets are filled, whenever
    /// something was told.
    pub(super) fn advance_reconfiguration(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        match &reset.stage {
            Stage::Idle => {
                if let Some(owed) = reset.owed.take() {
                    self.begin_operation(owed);
                    return self.advance_reconfiguration();
                }
                if let Some((request, path)) = reset.yielding
                    && up.sent.is_empty()
                    && self.queue.has_let_out(&Streams::All)
                {
                    self.yield_to(request, path);
                }
            }
            Stage::Draining(operation) => {
                let drained = match operation {
                    Operation::Reset { streams: StreamReset { outgoing: Some(streams), .. }, .. } => {
                        self.queue.has_let_out(streams) && !up.sent.has_outstanding(streams)
                    }
                    //= specs/rfc6525.txt#section-5.1.4
                    //# The sender has either no outstanding TSNs or considers all
                    //# outstanding TSNs abandoned.
                    Operation::Association => self.queue.has_let_out(&Streams::All) && up.sent.is_empty(),
                    Operation::Reset { .. } | Operation::Add { .. } => true,
                };
                if drained {
                    self.request();
                }
            }
            Stage::InFlight(_) => {}
        }
    }

    /// All numbers begin anew. Nothing of ours is outstanding, so that there is nothing to take as acknowledged (RFC 6525
    /// §5.2.4 G3).
    fn renumber(&mut self, own_next: Tsn, peer_next: Tsn) {
        let State::Up(up) = &mut self.state else { return };
        if own_next != up.sent.next_tsn() {
            up.sent.restart(own_next);
        }
        if peer_next != up.received.cum_tsn().next() {
            up.received.restart(peer_next);
        }
        if !matches!(up.window, Window::Open) {
            up.window = Window::Open;
        }
        for path in &mut self.paths {
            path.begin_anew();
        }
        //= specs/rfc6525.txt#section-5.2.4
        //# The next expected and outgoing SSNs MUST be reset to 0 for all
        //# incoming and outgoing streams.
        self.inbound.restart(peer_next);
        self.queue.reset(&Streams::All);
        self.queue.release(&Streams::All);
    }
}
