//! This side's RE-CONFIG requests: sending, and processing of responses (RFC 6525 §5.1, §5.2.7).

use braidftp_base::Time;

use super::answers::next_tsns;
use super::outcome_of;
use super::state::{Direction, InFlight, Operation, Outcome, Reconfiguration, Stage, StreamReset, Streams};
use crate::association::path::{Purpose, choose};
use crate::association::state::State;
use crate::association::timers::Timer;
use crate::association::{Association, Event, Violation};
use crate::ids::{PathId, RequestNumber};
use crate::wire::{Chunk, NextTsns, Reconfig, ReconfigResult};

impl Association {
    /// All data that must be acknowledged first is: the request can be sent.
    pub(super) fn request(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        let Stage::Draining(operation) = std::mem::replace(&mut reset.stage, Stage::Idle) else { return };
        let mut chunk = Vec::new();
        let mut results = Vec::new();
        let mut number = |reset: &mut Reconfiguration| {
            //= specs/rfc6525.txt#section-5.1.2
            //# The sender MUST assign the next re-configuration request
            //# sequence number and MUST put it into the Re-configuration
            //# Request Sequence Number field of the Outgoing SSN Reset Request
            //# Parameter.  The next re-configuration request sequence number
            //# MUST then be incremented by 1.
            //= specs/rfc6525.txt#section-5.1.3
            //# The sender MUST assign the next re-configuration request
            //# sequence number and MUST put it into the Re-configuration
            //# Request Sequence Number field of the Incoming SSN Reset Request
            //# Parameter.  After assigning it, the next re-configuration
            //# request sequence number MUST be incremented by 1.
            //= specs/rfc6525.txt#section-5.1.4
            //# The sender MUST assign the next re-configuration request
            //# sequence number and put it into the Re-configuration Request
            //# Sequence Number field of the SSN/TSN Reset Request Parameter.
            //# After assigning it, the next re-configuration request sequence
            //# number MUST be incremented by 1.
            let number = reset.take_number();
            results.push((number, None));
            number
        };
        match &operation {
            Operation::Reset { streams, answers } => {
                if let Some(outgoing) = &streams.outgoing {
                    //= specs/rfc6525.txt#section-5.1.2
                    //# The Outgoing SSN Reset Request Parameter MUST be put into a
                    //# RE-CONFIG Chunk.  The Outgoing SSN Reset Request Parameter MAY
                    //# be put together with either an Incoming SSN Reset Request
                    //# Parameter or a Re-configuration Response Parameter, but not with
                    //# both.  It MUST NOT be put together with any other parameter, as
                    //# described in Section 3.1.
                    chunk.push(Reconfig::OutgoingReset {
                        request: number(reset),
                        //= specs/rfc6525.txt#section-5.1.2
                        //# The Re-configuration
                        //# Response Sequence Number of the Outgoing SSN Reset Request
                        //# Parameter MUST be the Re-configuration Request Sequence Number
                        //# of the Incoming SSN Reset Request Parameter.
                        response: answers.unwrap_or(reset.expected.minus(1)),
                        //= specs/rfc6525.txt#section-5.1.2
                        //# The Sender's Last Assigned TSN MUST be set to the next TSN the
                        //# sender assigns minus 1.
                        last_tsn: up.sent.next_tsn().minus(1),
                        //= specs/rfc6525.txt#section-5.1.2
                        //# If this Outgoing
                        //# SSN Reset Request Parameter is sent at the request of the upper
                        //# layer and the sender requests that all outgoing streams be
                        //# reset, stream numbers SHOULD NOT be put into the Outgoing SSN
                        //# Reset Request Parameter.  If the sender requests that only some
                        //# outgoing streams be reset, these stream numbers MUST be placed
                        //# in the Outgoing SSN Reset Request Parameter.
                        streams: outgoing.list().to_vec(),
                    });
                }
                if let Some(incoming) = &streams.incoming {
                    //= specs/rfc6525.txt#section-5.1.3
                    //# If the sender wants all incoming streams to be reset, stream
                    //# numbers SHOULD NOT be put into the Incoming SSN Reset Request
                    //# Parameter.  If the sender wants only some incoming streams to be
                    //# reset, these stream numbers MUST be filled in the Incoming SSN
                    //# Reset Request Parameter.
                    let streams = incoming.list().to_vec();
                    //= specs/rfc6525.txt#section-5.1.3
                    //# The Incoming SSN Reset Request Parameter MUST be put into a
                    //# RE-CONFIG Chunk.  It MAY be put together with an Outgoing SSN
                    //# Reset Request Parameter but MUST NOT be put together with any
                    //# other parameter.
                    chunk.push(Reconfig::IncomingReset { request: number(reset), streams });
                }
            }
            //= specs/rfc6525.txt#section-5.1.4
            //# The SSN/TSN Reset Request Parameter MUST be put into a RE-CONFIG
            //# chunk.  There MUST NOT be any other parameter in this chunk.
            Operation::Association => {
                chunk.push(Reconfig::AssociationReset { request: number(reset) });
                // Received data that is not acknowledged yet is acknowledged before the request. After
                // the request the peer resets its TSNs, and usrsctp considers the new cumulative TSN one
                // that was never sent while it waits for the old one.
                if up.received.may_bundle_sack() {
                    up.received.sack_now();
                }
            }
            Operation::Add { outgoing, incoming } => {
                if *outgoing > 0 {
                    chunk.push(Reconfig::AddOutgoing { request: number(reset), count: *outgoing });
                }
                if *incoming > 0 {
                    chunk.push(Reconfig::AddIncoming { request: number(reset), count: *incoming });
                }
            }
        }
        // The request is the response, and is repeated as such if the peer repeats its request.
        if let Operation::Reset { answers: Some(answered), .. } = operation {
            reset.answer(answered, chunk[0].clone());
        }
        reset.stage =
            Stage::InFlight(InFlight { operation, chunk, results, retry: 0, due: true, in_progress: false });
    }

    /// Returns the RE-CONFIG chunk to send on a path in this many bytes.
    pub(in crate::association) fn take_reconfig(
        &mut self,
        now: Time,
        id: PathId,
        room: usize,
    ) -> Option<Chunk> {
        let State::Up(up) = &mut self.state else { return None };
        let reset = up.reconfiguration.as_mut()?;
        let fits = |parameters: &[Reconfig]| Chunk::Reconfig(parameters.to_vec()).padded_len() <= room;
        let retry = match &reset.stage {
            Stage::InFlight(flight) => flight.retry,
            Stage::Idle | Stage::Draining(_) => 0,
        };
        let request_path = choose(&self.paths, up.primary, Purpose::Closing(retry));
        //= specs/rfc6525.txt#section-5.1.2
        //# The RE-CONFIG chunk MUST be sent following the rules given in
        //# Section 5.1.1.
        //= specs/rfc6525.txt#section-5.1.3
        //# The RE-CONFIG chunk MUST be sent following the rules given in
        //# Section 5.1.1.
        //= specs/rfc6525.txt#section-5.1.4
        //# The RE-CONFIG chunk MUST be sent following the rules given in
        //# Section 5.1.1.
        if let Stage::InFlight(flight) = &mut reset.stage
            && flight.due
            && request_path == id
        {
            // A response is bundled with the Outgoing SSN Reset Request that follows from it.
            let bundled = match &flight.chunk[..] {
                [Reconfig::OutgoingReset { .. }] => reset.replies.iter().position(|(path, parameters)| {
                    *path == id && matches!(&parameters[..], [Reconfig::Response { .. }])
                }),
                _ => None,
            };
            let mut chunk = flight.chunk.clone();
            if let Some(index) = bundled {
                chunk.insert(0, reset.replies[index].1[0].clone());
                if !fits(&chunk) {
                    chunk.remove(0);
                } else {
                    reset.replies.remove(index);
                }
            }
            if fits(&chunk) {
                flight.due = false;
                //= specs/rfc6525.txt#section-5.1.1
                //# After packaging the RE-CONFIG chunk and sending it to the peer, the
                //# sender MUST start the Re-configuration Timer if the RE-CONFIG chunk
                //# contains at least one request parameter.
                //= specs/rfc6525.txt#section-5.1.1
                //# This
                //# timer MUST use the same value as SCTP's data transmission timer
                //# (i.e., the retransmission timeout (RTO) timer) and MUST use
                //# exponential backoff, doubling the value at every expiration.
                let rto = self.paths[usize::from(id.0)].rtt.rto();
                self.timers.arm(Timer::Reconfig, now + rto);
                return Some(Chunk::Reconfig(chunk));
            }
        }
        // The primary path itself may not be confirmed yet.
        let current = choose(&self.paths, up.primary, Purpose::New);
        let paths = &self.paths;
        let by = |path: PathId| match paths.get(usize::from(path.0)) {
            Some(way) if way.is_usable() => path,
            _ => current,
        };
        //= specs/rfc6525.txt#section-5.1.1
        //# If it contains no request
        //# parameters, the Re-configuration Timer MUST NOT be started.
        //= specs/rfc6525.txt#section-5.2.2
        //# The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG
        //# chunk is processed completely.
        //= specs/rfc6525.txt#section-5.2.3
        //# The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG
        //# chunk is processed completely.
        //= specs/rfc6525.txt#section-5.2.4
        //# The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG
        //# chunk is processed completely.
        let index =
            reset.replies.iter().position(|(path, parameters)| by(*path) == id && fits(parameters))?;
        Some(Chunk::Reconfig(reset.replies.remove(index).1))
    }

    /// The Re-configuration Timer expired.
    pub(in crate::association) fn on_reconfig_timer(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let Some(Reconfiguration { stage: Stage::InFlight(flight), .. }) = &mut up.reconfiguration else {
            return;
        };
        //= specs/rfc6525.txt#section-5.1.1
        //# If the
        //# timer expires, besides doubling the value, the sender MUST retransmit
        //# the RE-CONFIG chunk, increment the appropriate error counts (for both
        //# the association and the destination), and perform threshold
        //# management, possibly destroying the association if SCTP
        //# retransmission thresholds are exceeded.
        flight.due = true;
        //= specs/rfc6525.txt#section-5.2.7
        //# If
        //# the timer runs out, the RE-CONFIG chunk MUST be retransmitted
        //# but the corresponding error counters MUST NOT be incremented.
        if !flight.in_progress {
            let path = choose(&self.paths, up.primary, Purpose::Closing(flight.retry));
            flight.retry += 1;
            self.paths[usize::from(path.0)].rtt.back_off();
            self.count_request_error(path);
        }
    }

    /// An Outgoing SSN Reset Request contains the number of the request that it answers.
    pub(super) fn on_implicit_response(&mut self, number: RequestNumber) {
        let State::Up(up) = &self.state else { return };
        let Some(Reconfiguration { stage: Stage::InFlight(flight), .. }) = &up.reconfiguration else {
            return;
        };
        //= specs/rfc6525.txt#section-5.2.2
        //# If the Re-configuration Timer is running for the
        //# Re-configuration Request Sequence Number indicated in the
        //# Re-configuration Response Sequence Number field, the
        //# Re-configuration Request Sequence Number MUST be marked as
        //# acknowledged.
        //= specs/rfc6525.txt#section-5.2.2
        //# If all Re-configuration Request Sequence Numbers
        //# for which the Re-configuration Timer is running are
        //# acknowledged, the Re-configuration Timer MUST be stopped.
        // It is a response to an Incoming SSN Reset Request only (§4.1); for others it proves that they
        // arrived, but not their result.
        let asks = |parameter: &Reconfig| matches!(parameter, Reconfig::IncomingReset { request, .. } if *request == number);
        if flight.chunk.iter().any(asks) {
            self.on_response(number, ReconfigResult::Performed, None);
        }
    }

    /// Processes a Re-configuration Response.
    pub(super) fn on_response(
        &mut self,
        number: RequestNumber,
        result: ReconfigResult,
        next_tsns: Option<NextTsns>,
    ) {
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc6525.txt#section-5.2.7
        //# If
        //# the timer was not running for the Re-configuration Request
        //# Sequence Number, the processing of the Re-configuration Response
        //# Parameter is complete.
        let Some(Reconfiguration { stage: Stage::InFlight(flight), .. }) = &mut up.reconfiguration else {
            return;
        };
        let Some((_, known)) =
            flight.results.iter_mut().find(|(asked, known)| *asked == number && known.is_none())
        else {
            return;
        };
        // The peer responded: only silence counts as an error.
        flight.retry = 0;
        if result == ReconfigResult::InProgress {
            //= specs/rfc6525.txt#section-5.2.7
            //# If the Result field indicates "In progress", the timer for the
            //# Re-configuration Request Sequence Number is started again.
            flight.in_progress = true;
            return;
        }
        let renumbers = flight.operation == Operation::Association && result == ReconfigResult::Performed;
        if renumbers && next_tsns.is_none() {
            return self.on_violation(Violation::ReconfigResponse);
        }
        //= specs/rfc6525.txt#section-5.2.7
        //# If the Re-configuration Timer is running for the Re-
        //# configuration Request Sequence Number indicated in the Re-
        //# configuration Response Sequence Number field, the
        //# Re-configuration Request Sequence Number MUST be marked as
        //# acknowledged.
        *known = Some(result);
        //= specs/rfc6525.txt#section-5.2.7
        //# If all Re-configuration Request Sequence Numbers
        //# for which the Re-configuration Timer is running are
        //# acknowledged, the Re-configuration Timer MUST be stopped.
        if flight.results.iter().all(|(_, result)| result.is_some()) {
            self.timers.stop(Timer::Reconfig);
            self.finish_operation(next_tsns);
        }
        self.has_input = true;
    }

    /// All requests of the operation have a result.
    fn finish_operation(&mut self, next_tsns: Option<NextTsns>) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        let Stage::InFlight(flight) = std::mem::replace(&mut reset.stage, Stage::Idle) else { return };
        reset.early.clear();
        let mut results = flight.results.into_iter().map(|(_, result)| result.expect("all are answered"));
        let mut next = || results.next().unwrap_or(ReconfigResult::Performed);
        match flight.operation {
            Operation::Reset { streams: StreamReset { outgoing, incoming }, .. } => {
                if let Some(streams) = outgoing {
                    let outcome = outcome_of(next());
                    //= specs/rfc6525.txt#section-5.2.7
                    //# If the request was an Outgoing SSN Reset Request, the affected
                    //# streams MUST now be reset and all queued data should now be
                    //# processed.
                    if outcome == Outcome::Done {
                        self.queue.reset(&streams);
                    }
                    self.queue.release(&streams);
                    self.events.push_back(Event::StreamReset {
                        direction: Direction::Outgoing,
                        streams,
                        outcome,
                    });
                }
                if let Some(streams) = incoming {
                    let result = next();
                    // A performed reset is reported when the peer performs it.
                    if result != ReconfigResult::Performed {
                        let outcome = outcome_of(result);
                        let direction = Direction::Incoming;
                        self.events.push_back(Event::StreamReset { direction, streams, outcome });
                    }
                }
            }
            Operation::Association => {
                let result = next();
                if let (ReconfigResult::Performed, Some(NextTsns { sender, receiver })) = (result, next_tsns)
                {
                    //= specs/rfc6525.txt#section-5.2.7
                    //# If the request was an SSN/TSN Reset Request, new data MUST be
                    //# sent from the Receiver's Next TSN, beginning with SSN 0 for all
                    //# outgoing streams.  All incoming streams MUST be reset to 0 as
                    //# the next expected SSN.
                    self.renumber(receiver, sender);
                } else {
                    self.queue.release(&Streams::All);
                }
                let State::Up(up) = &self.state else { return };
                self.events.push_back(Event::AssociationReset {
                    outcome: outcome_of(result),
                    local_tsn: up.sent.next_tsn(),
                    peer_tsn: up.received.cum_tsn().next(),
                });
                self.report_readable();
            }
            Operation::Add { outgoing, incoming } => {
                let mut tell = |result: ReconfigResult, more: u16| {
                    //= specs/rfc6525.txt#section-5.2.7
                    //# If the request was to add outgoing streams, the endpoint MUST
                    //# add the additional streams to the association.
                    //= specs/rfc6525.txt#section-5.1.5
                    //# Upon sending the request,
                    //# the sender MUST await a positive acknowledgment (Success) before
                    //# using any additional stream added by this request.
                    if outcome_of(result) == Outcome::Done {
                        self.outbound_streams = self.outbound_streams.saturating_add(more);
                    }
                    self.events.push_back(Event::StreamChange {
                        outbound_streams: self.outbound_streams,
                        inbound_streams: self.inbound_streams,
                        outcome: outcome_of(result),
                    });
                };
                if outgoing > 0 {
                    tell(next(), outgoing);
                }
                if incoming > 0 {
                    let result = next();
                    // A performed addition is reported when the peer adds the streams.
                    if result != ReconfigResult::Performed {
                        tell(result, 0);
                    }
                }
            }
        }
    }

    /// A shutdown cancels re-configuration.
    pub(in crate::association) fn give_up_reconfiguration(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reset) = &mut up.reconfiguration else { return };
        // A peer that received "In progress", or no response yet, repeats its request until it gets the
        // result, and holds back data meanwhile: it would never answer the SHUTDOWN.
        //= specs/rfc6525.txt#section-5.2.1
        //# If for whatever reason the endpoint does not wish to process
        //# a received request parameter, it MUST send a corresponding response
        //# parameter as described in Section 5.1.7, with an appropriate Result
        //# field.
        let owed = reset.owed.take();
        let draining = if let Stage::Draining(operation) = &reset.stage { Some(operation) } else { None };
        let asked_by_peer = owed.iter().chain(draining).find_map(|operation| match operation {
            Operation::Reset { answers, .. } => *answers,
            Operation::Association | Operation::Add { .. } => None,
        });
        let asked_by_peer = asked_by_peer.map(|request| (request, up.primary, None));
        let yielding = reset.yielding.take();
        let next_tsns = next_tsns(&up.sent, &up.received);
        let renumbering = yielding.map(|(request, path)| (request, path, Some(next_tsns)));
        for (request, path, next_tsns) in asked_by_peer.into_iter().chain(renumbering) {
            let denied = Reconfig::Response { response: request, result: ReconfigResult::Denied, next_tsns };
            reset.answer(request, denied.clone());
            reset.reply(path, vec![denied]);
        }
        if yielding.is_some() {
            self.queue.release(&Streams::All);
        }
        let stage = std::mem::replace(&mut reset.stage, Stage::Idle);
        let (operation, mut results) = match stage {
            Stage::Idle => return,
            Stage::Draining(operation) => (operation, vec![(reset.next_request, None); 2]),
            Stage::InFlight(flight) => (flight.operation, flight.results),
        };
        for (_, result) in &mut results {
            result.get_or_insert(ReconfigResult::BadSequenceNumber);
        }
        let (chunk, retry, due, in_progress) = (Vec::new(), 0, false, false);
        reset.stage = Stage::InFlight(InFlight { operation, chunk, results, retry, due, in_progress });
        self.timers.stop(Timer::Reconfig);
        self.finish_operation(None);
    }
}
