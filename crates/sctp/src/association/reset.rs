//! Stream re-configuration (RFC 6525): reset and addition of streams, and reset of TSNs, requested by
//! either side.
//!
//! One request of each side is outstanding at a time. Streams to be reset are first drained: data sent on
//! them is acknowledged before the request is sent, and later data waits for the response. A request of the
//! peer to reset or add streams of this side becomes such a request, in turn.

mod answers;
mod requests;
pub(super) mod state;

use braidftp_base::Time;

pub use self::state::{Direction, Outcome, ReconfigError, StreamReset, Streams};
use self::state::{Operation, Reconfiguration, Stage};
use crate::association::Association;
use crate::association::send_queue::Hold;
use crate::association::state::{Shutdown, State, Window};
use crate::config::PeerMay;
use crate::ids::{RequestNumber, Tsn};
use crate::wire::{Chunk, Header, Reconfig, ReconfigResult};

/// The minimum interval of association resets: the maximum segment lifetime (RFC 6525 §5.1.4).
const ASSOCIATION_RESET_INTERVAL: std::time::Duration = std::time::Duration::from_secs(30);

/// The advance of the TSNs of both sides in an association reset, which distinguishes old chunks in
/// flight from new ones.
const TSN_LEAP: u32 = 1 << 31;

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

/// Whether these parameters may be in one chunk (RFC 6525 §3.1).
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
    /// Resets streams: their message numbers start from the beginning (RFC 6525 §6.3.2). Messages sent
    /// before on outgoing streams arrive before; messages sent from now on wait for the peer's response.
    /// [`Event::StreamReset`](crate::association::Event::StreamReset) reports the result. The peer must
    /// permit it.
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

    /// Resets all streams of both directions and all TSNs (RFC 6525 §6.3.3). Messages sent before arrive
    /// before; messages sent from now on wait for the peer's response.
    /// [`Event::AssociationReset`](crate::association::Event::AssociationReset) reports the result. The
    /// peer must permit it.
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
        // After the reset no SACK can acknowledge older data: usrsctp keeps its last TSN, and aborts
        // when the next one is acknowledged.
        if let State::Up(up) = &mut self.state
            && up.received.may_bundle_sack()
        {
            up.received.sack_now();
        }
        Ok(())
    }

    /// Adds this many outbound and inbound streams (RFC 6525 §6.3.4).
    /// [`Event::StreamChange`](crate::association::Event::StreamChange) reports each result. The peer
    /// must permit it.
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

    /// Sets the requests that the peer may make from now on (RFC 6525 §6.3.1), instead of
    /// [`streams.peer_may`](crate::Config::streams).
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

    /// The maximum number of streams that a request can list and still fit a packet.
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
        self.has_input = true;
    }

    /// Continues a re-configuration if possible: called before packets are filled, after each input.
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
                    && self.queue.has_only_held(&Streams::All)
                {
                    self.yield_to(request, path);
                }
            }
            Stage::Draining(operation) => {
                let drained = match operation {
                    Operation::Reset { streams: StreamReset { outgoing: Some(streams), .. }, .. } => {
                        self.queue.has_only_held(streams) && !up.sent.has_outstanding(streams)
                    }
                    //= specs/rfc6525.txt#section-5.1.4
                    //# The sender has either no outstanding TSNs or considers all
                    //# outstanding TSNs abandoned.
                    Operation::Association => self.queue.has_only_held(&Streams::All) && up.sent.is_empty(),
                    Operation::Reset { .. } | Operation::Add { .. } => true,
                };
                if drained {
                    self.request();
                }
            }
            Stage::InFlight(_) => {}
        }
    }

    /// Resets all numbers. Nothing is outstanding on this side, so nothing needs to be treated as
    /// acknowledged (RFC 6525 §5.2.4 G3).
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
            path.reset_tsns();
        }
        //= specs/rfc6525.txt#section-5.2.4
        //# The next expected and outgoing SSNs MUST be reset to 0 for all
        //# incoming and outgoing streams.
        self.inbound.restart(peer_next);
        self.queue.reset(&Streams::All);
        self.queue.release(&Streams::All);
    }
}
