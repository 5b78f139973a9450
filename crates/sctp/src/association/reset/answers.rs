//! Processing of the peer's RE-CONFIG requests, and their results (RFC 6525 §5.2.1 to §5.2.6).

use super::state::{Answer, Direction, InFlight, Operation, Outcome, Stage, StreamReset, Streams};
use super::{TSN_LEAP, is_allowed, response};
use crate::association::received::Received;
use crate::association::send_queue::Hold;
use crate::association::sent::Sent;
use crate::association::state::{Shutdown, State};
use crate::association::{Association, Event, Violation};
use crate::ids::{PathId, RequestNumber, StreamId, Tsn};
use crate::wire::ReconfigResult::{Denied, InProgress, NothingToDo, Performed, RequestInProgress, WrongSsn};
use crate::wire::{Cause, NextTsns, Reconfig, ReconfigResult};

/// The next TSNs in the response to a TSN reset that is not performed.
pub(super) fn next_tsns(sent: &Sent, received: &Received) -> NextTsns {
    //= specs/rfc6525.txt#section-5.1.7
    //# If the incoming request is an SSN/TSN reset request, the
    //# Sender's Next TSN field MUST be filled with the next TSN the
    //# sender of this Re-configuration Response Parameter will assign.
    NextTsns { sender: sent.next_tsn(), receiver: received.cum_tsn().next() }
}

impl Association {
    /// Processes a RE-CONFIG chunk.
    pub(in crate::association) fn on_reconfig(&mut self, path: PathId, parameters: Vec<Reconfig>) {
        let State::Up(up) = &mut self.state else { return };
        // If re-configuration was not negotiated, the chunk is skipped as unknown: the high bits of its
        // type say so (RFC 9260 §3.2).
        if up.reconfiguration.is_none() {
            return;
        }
        //= specs/rfc6525.txt#section-3.1
        //# If a sender transmits an unsupported combination, the receiver SHOULD
        //# send an ERROR chunk with a Protocol Violation cause, as defined in
        //# Section 3.3.10.13 of [RFC4960]).
        if !is_allowed(&parameters) {
            return self.on_violation(Violation::ReconfigCombination);
        }
        let mut to_return = Vec::new();
        let mut first = true;
        //= specs/rfc6525.txt#section-5.2.1
        //# Upon reception of a RE-CONFIG chunk, each parameter within it SHOULD
        //# be processed.
        for parameter in parameters {
            let request = match &parameter {
                Reconfig::OutgoingReset { request, response, .. } => {
                    self.on_implicit_response(*response);
                    *request
                }
                Reconfig::IncomingReset { request, .. }
                | Reconfig::AssociationReset { request }
                | Reconfig::AddOutgoing { request, .. }
                | Reconfig::AddIncoming { request, .. } => *request,
                Reconfig::Response { response, result, next_tsns } => {
                    self.on_response(*response, *result, *next_tsns);
                    continue;
                }
                Reconfig::Unknown { raw, .. } => {
                    let reports = parameter.unrecognized().is_some_and(crate::wire::Unrecognized::reports);
                    if reports
                        && let (State::Up(up), Some(quote)) =
                            (&mut self.state, crate::association::state::quotable(raw))
                    {
                        up.control.add_error(Cause::UnrecognizedParameters(quote));
                    }
                    continue;
                }
            };
            let State::Up(up) = &mut self.state else { return };
            let Some(reset) = &mut up.reconfiguration else { return };
            //= specs/rfc6525.txt#section-5.2.1
            //# If the received RE-CONFIG chunk
            //# contains at least one request parameter, a selective acknowledgment
            //# (SACK) chunk SHOULD be sent back and MAY be bundled with the
            //# RE-CONFIG chunk.
            up.received.sack_now();
            if request == reset.expected {
                if std::mem::take(&mut first) {
                    reset.answers.clear();
                }
                reset.expected = request.next();
                reset.answers.push(Answer { request, response: None, meanwhile: None });
                self.on_request(path, parameter);
                if self.closed().is_some() {
                    return;
                }
                let State::Up(up) = &mut self.state else { return };
                let Some(reset) = &mut up.reconfiguration else { return };
                to_return.extend(reset.answers.last().and_then(|answer| answer.response.clone()));
            } else if let Some(answer) = reset.answers.iter().find(|answer| answer.request == request) {
                //= specs/rfc6525.txt#section-5.2.1
                //# If the received RE-CONFIG chunk contains at least
                //# one request and based on the analysis of the Re-configuration Request
                //# Sequence Numbers this is the last received RE-CONFIG chunk (i.e., a
                //# retransmission), the same RE-CONFIG chunk MUST to be sent back in
                //# response, as it was earlier.
                first = false;
                let meanwhile = answer.meanwhile.map(|result| response(request, result));
                to_return.extend(answer.response.clone().or(meanwhile));
            } else {
                let result = ReconfigResult::BadSequenceNumber;
                let renumbers = matches!(parameter, Reconfig::AssociationReset { .. });
                let next_tsns = renumbers.then(|| next_tsns(&up.sent, &up.received));
                to_return.push(Reconfig::Response { response: request, result, next_tsns });
            }
        }
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        //= specs/rfc6525.txt#section-5.2.1
        //# If multiple parameters have to be returned, they MUST
        //# be put into one RE_CONFIG chunk.
        if is_allowed(&to_return) {
            reset.reply(path, to_return);
        } else {
            // Two responses, one of which is itself a request.
            for parameter in to_return {
                reset.reply(path, vec![parameter]);
            }
        }
    }

    /// Processes a new request of the peer.
    fn on_request(&mut self, path: PathId, parameter: Reconfig) {
        match parameter {
            Reconfig::OutgoingReset { request, last_tsn, streams, .. } => {
                self.on_outgoing_reset(path, request, last_tsn, Streams::of_list(streams));
            }
            Reconfig::IncomingReset { request, streams } => self.on_incoming_reset(request, streams),
            Reconfig::AssociationReset { request } => self.on_association_reset(path, request),
            Reconfig::AddOutgoing { request, count } => self.on_add_outgoing(request, count),
            Reconfig::AddIncoming { request, count } => self.on_add_incoming(request, count),
            Reconfig::Response { .. } | Reconfig::Unknown { .. } => {}
        }
    }

    /// The peer resets its outgoing streams once everything up to `last_tsn` has arrived.
    fn on_outgoing_reset(&mut self, path: PathId, request: RequestNumber, last_tsn: Tsn, streams: Streams) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        let result = if !reset.may.reset_streams {
            //= specs/rfc6525.txt#section-5.2.1
            //# If for whatever reason the endpoint does not wish to process
            //# a received request parameter, it MUST send a corresponding response
            //# parameter as described in Section 5.1.7, with an appropriate Result
            //# field.
            Denied
        } else if streams.beyond(self.inbound_streams).is_some() {
            WrongSsn
        } else if reset.deferred.is_some() {
            RequestInProgress
        } else if last_tsn.after(up.received.cum_tsn()) {
            //= specs/rfc6525.txt#section-5.2.2
            //# If the Sender's Last Assigned TSN is greater than the cumulative
            //# acknowledgment point, then the endpoint MUST enter "deferred
            //# reset processing".
            self.inbound.reset_behind(last_tsn, streams);
            reset.deferred = Some((request, path));
            //= specs/rfc6525.txt#section-5.2.2
            //# If the endpoint
            //# enters "deferred reset processing", it MUST put a Re-
            //# configuration Response Parameter into a RE-CONFIG chunk
            //# indicating "In progress" and MUST send the RE-CONFIG chunk.
            InProgress
        } else {
            //= specs/rfc6525.txt#section-5.2.2
            //# If no stream numbers are listed in the parameter, then all
            //# incoming streams MUST be reset to 0 as the next expected SSN.
            //# If specific stream numbers are listed, then only these specific
            //# streams MUST be reset to 0, and all other non-listed SSNs remain
            //# unchanged.
            if let Err(violation) = self.inbound.reset(&streams) {
                return self.on_violation(violation);
            }
            self.events.push_back(Event::StreamReset {
                direction: Direction::Incoming,
                streams,
                outcome: Outcome::Done,
            });
            Performed
        };
        //= specs/rfc6525.txt#section-5.1.7
        //# The Re-configuration Request Sequence number of the incoming
        //# request MUST be copied to the Re-configuration Response Sequence
        //# Number field of the Re-configuration Response Parameter.
        //= specs/rfc6525.txt#section-5.1.7
        //# The result of the processing of the incoming request according
        //# to Table 3 MUST be placed in the Result field of the
        //# Re-configuration Response Parameter.
        //= specs/rfc6525.txt#section-5.2.2
        //# A Re-configuration Response Parameter MUST be put into a
        //# RE-CONFIG chunk indicating successful processing.
        reset.answer(request, response(request, result));
    }

    /// The peer asks this side to reset outgoing streams, which takes a request of this side.
    //= specs/rfc6525.txt#section-5.2.3
    //# When a peer endpoint requests an Incoming SSN Reset Request, it is
    //# possible that the local endpoint has just sent an Outgoing SSN Reset
    //# Request on the same association and has not yet received a response.
    //# In such a case, the local endpoint MUST do the following:
    fn on_incoming_reset(&mut self, request: RequestNumber, streams: Vec<StreamId>) {
        let fits = streams.len() <= self.listable_streams();
        let streams = Streams::of_list(streams);
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        let just_sent = match &reset.stage {
            Stage::InFlight(InFlight { operation: Operation::Reset { streams: asked, .. }, .. }) => {
                asked.outgoing.as_ref().is_some_and(|outgoing| outgoing.covers(&streams))
            }
            _ => false,
        };
        let result = if !reset.may.reset_streams || self.shutdown != Shutdown::No || !fits {
            Some(Denied)
        } else if streams.beyond(self.outbound_streams).is_some() {
            Some(WrongSsn)
        } else if just_sent || self.queue.is_fresh(&streams) {
            //= specs/rfc6525.txt#section-5.2.3
            //# If the Outgoing SSN Reset Request Parameter that was just sent
            //# completely overlaps the received Incoming SSN Reset Request
            //# Parameter, respond to the peer with an acknowledgment indicating
            //# that there was "Nothing to do".
            //= specs/rfc6525.txt#section-5.2.3
            //# In such a case, all of
            //# the streams being requested will be already set to 0.  If so, the
            //# local endpoint SHOULD send back a Re-configuration Response with the
            //# success code "Nothing to do".
            Some(NothingToDo)
        } else if reset.owed.is_some() || reset.yielding.is_some() || reset.waits_for_a_request() {
            //= specs/rfc6525.txt#section-5.2.3
            //# Even in such a situation, the Incoming SSN Reset MUST
            //# be processed normally, even though this means that (if the
            //# endpoint elects to do the stream reset) streams that are already
            //# at SSN 0 will be reset a subsequent time.
            // With an Outgoing SSN Reset Request in progress the response is "in progress". But two
            // sides that each wait for the other's request would wait forever.
            Some(RequestInProgress)
        } else {
            None
        };
        match result {
            Some(result) => reset.answer(request, response(request, result)),
            None => {
                //= specs/rfc6525.txt#section-5.2.3
                //# An Outgoing SSN Reset Request Parameter MUST be put into a
                //# RE-CONFIG chunk according to Section 5.1.2.
                //= specs/rfc6525.txt#section-5.1.2
                //# If this Outgoing SSN Reset Request Parameter is sent in response
                //# to an Incoming SSN Reset Request Parameter, the stream numbers
                //# MUST be copied from the Incoming SSN Reset Request Parameter to
                //# the Outgoing SSN Reset Request Parameter.
                let streams = StreamReset { outgoing: Some(streams), incoming: None };
                reset.owed = Some(Operation::Reset { streams, answers: Some(request) });
                if let Some(answer) = reset.answers.last_mut() {
                    answer.meanwhile = Some(InProgress);
                }
            }
        }
    }

    /// The peer resets all streams and the TSNs of both sides.
    fn on_association_reset(&mut self, path: PathId, request: RequestNumber) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        let allowed = reset.may.reset_association && self.shutdown == Shutdown::No;
        let refused = if !allowed || self.inbound.is_mid_message() {
            Some(Denied)
        } else if reset.is_busy() || reset.deferred.is_some() {
            // If both sides requested this, it would be unclear whose numbers are valid.
            Some(RequestInProgress)
        } else {
            None
        };
        match refused {
            Some(result) => {
                let next_tsns = Some(next_tsns(&up.sent, &up.received));
                let response = Reconfig::Response { response: request, result, next_tsns };
                reset.answer(request, response);
            }
            // Data in flight to the peer is acknowledged first: nothing is abandoned for a reset.
            None => {
                reset.yielding = Some((request, path));
                self.queue.hold(&Streams::All, Hold::BehindTheBegun);
            }
        }
    }

    /// The peer adds `count` outgoing streams.
    fn on_add_outgoing(&mut self, request: RequestNumber, count: u16) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        //= specs/rfc6525.txt#section-5.2.5
        //# The SCTP
        //# endpoint SHOULD deny the request if the number of streams exceeds a
        //# limit that should be configurable by the application.
        let more = self.inbound_streams.checked_add(count);
        let more = more.filter(|more| reset.may.add_streams && *more <= self.config.streams.inbound);
        let result = match more {
            None => Denied,
            Some(_) if count == 0 => NothingToDo,
            //= specs/rfc6525.txt#section-5.2.5
            //# If the response is successful,
            //# the receiver MUST add the requested number of inbound streams to the
            //# association, initializing the next expected SSN to 0.
            Some(more) => {
                self.inbound_streams = more;
                self.events.push_back(Event::StreamChange {
                    outbound_streams: self.outbound_streams,
                    inbound_streams: self.inbound_streams,
                    outcome: Outcome::Done,
                });
                Performed
            }
        };
        //= specs/rfc6525.txt#section-5.2.5
        //# When an SCTP endpoint receives a re-configuration request adding
        //# additional streams, it MUST send a response parameter either
        //# acknowledging or denying the request.
        reset.answer(request, response(request, result));
    }

    /// The peer asks this side to add `count` outgoing streams, which takes a request of this side.
    fn on_add_incoming(&mut self, request: RequestNumber, count: u16) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        //= specs/rfc6525.txt#section-5.2.6
        //# The
        //# SCTP endpoint SHOULD deny the request if the number of streams
        //# exceeds a limit that should be configurable by the application.
        let more = self.outbound_streams.checked_add(count);
        let allowed = reset.may.add_streams && self.shutdown == Shutdown::No;
        let more = more.filter(|more| allowed && *more <= self.config.streams.outbound_max);
        let result = match more {
            None => Denied,
            Some(_) if count == 0 => NothingToDo,
            Some(_) if reset.owed.is_some() || reset.yielding.is_some() => RequestInProgress,
            //= specs/rfc6525.txt#section-5.2.6
            //# When an SCTP endpoint receives a re-configuration request adding
            //# additional incoming streams, it MUST either send a response parameter
            //# denying the request or send a corresponding Add Outgoing Streams
            //# Request Parameter, following the rules given in Section 5.1.5.
            // The parameter has no field for the number of the request that it answers, and some stacks
            // wait for a response: they get one as well.
            Some(_) => {
                reset.owed = Some(Operation::Add { outgoing: count, incoming: 0 });
                Performed
            }
        };
        reset.answer(request, response(request, result));
    }

    /// After a packet: performs deferred requests if the missing data has arrived.
    pub(in crate::association) fn settle_deferred_reset(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        let Some((request, path)) = reset.deferred else { return };
        //= specs/rfc6525.txt#section-5.2.2
        //# When the cumulative acknowledgment point reaches the last
        //# assigned TSN, then proceed to the next step.
        match self.inbound.settle_reset(up.received.cum_tsn()) {
            Ok(None) => {}
            Ok(Some(streams)) => {
                reset.deferred = None;
                let done = response(request, Performed);
                reset.answer(request, done.clone());
                reset.reply(path, vec![done]);
                self.events.push_back(Event::StreamReset {
                    direction: Direction::Incoming,
                    streams,
                    outcome: Outcome::Done,
                });
                self.report_readable();
            }
            Err(violation) => self.on_violation(violation),
        }
    }

    /// Nothing is outstanding on this side any more: performs the peer's association reset.
    pub(super) fn yield_to(&mut self, request: RequestNumber, path: PathId) {
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc6525.txt#section-5.2.4
        //# Compute an appropriate value for the Receiver's Next TSN -- the
        //# TSN that the peer should use to send the next DATA chunk.  The
        //# value SHOULD be the smallest TSN not acknowledged by the
        //# receiver of the request plus 2^31.
        //= specs/rfc6525.txt#section-5.1.7
        //# If the incoming request is an SSN/TSN reset request, the
        //# Receiver's Next TSN field MUST be filled with a TSN such that
        //# the sender of the Re-configuration Response Parameter can be
        //# sure it can discard received DATA chunks with smaller TSNs.  The
        //# value SHOULD be the smallest TSN not acknowledged by the
        //# receiver of the request plus 2^31.
        let receiver = up.received.cum_tsn().next().plus(TSN_LEAP);
        // RFC 6525 §5.2.4 G2 continues this side's TSNs. But its data may overtake the response, and
        // would then be processed with the old numbers.
        let sender = up.sent.next_tsn().plus(TSN_LEAP);
        self.renumber(sender, receiver);
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        reset.yielding = None;
        //= specs/rfc6525.txt#section-5.2.4
        //# A Re-configuration Response Parameter MUST be put into a
        //# RE-CONFIG chunk indicating successful processing.
        let next_tsns = Some(NextTsns { sender, receiver });
        let response = Reconfig::Response { response: request, result: Performed, next_tsns };
        reset.answer(request, response.clone());
        reset.reply(path, vec![response]);
        self.events.push_back(Event::AssociationReset {
            outcome: Outcome::Done,
            local_tsn: sender,
            peer_tsn: receiver,
        });
        self.report_readable();
    }
}
