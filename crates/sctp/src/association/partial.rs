//! Partial reliability (RFC 3758, and RFC 8260 §2.3.1 with interleaving): abandoned messages on either
//! side.
//!
//! The sender abandons complete messages: those whose lifetime has expired when they would be sent, those
//! with a lost chunk that may not be retransmitted, and those whose send buffer space is needed for a
//! message of higher priority. Their chunks are then neither outstanding nor retransmitted, and FORWARD TSN
//! or I-FORWARD-TSN makes the peer skip them. There is no timer for lifetimes: they are checked when a
//! message would be sent or retransmitted.
//!
//! The receiver of FORWARD TSN treats the skipped TSNs as received. It knows no policy, which is the
//! sender's own.

pub(super) mod forward;
pub(super) mod policy;

use braidftp_base::Time;

use self::forward::{Cum, Forward, SentForward};
pub use self::policy::{Abandoned, Reliability};
use crate::association::path::{Path, Purpose, choose};
use crate::association::receive::{Then, sack_by};
use crate::association::received::SPAN_MAX;
use crate::association::send_queue::{self, Fragment, Stale};
use crate::association::sent::{self, Found};
use crate::association::state::{Shutdown, State, Up};
use crate::association::timers::{Timer, Timers};
use crate::association::{Association, Event, Order, Violation};
use crate::extensions::Extensions;
use crate::ids::{PathId, StreamId, Tsn};
use crate::wire::Chunk;

/// A message that may be abandoned to free send buffer.
enum Victim {
    Queued(send_queue::Prioritized),
    Sent(sent::Prioritized),
}

impl Victim {
    fn priority(&self) -> u32 {
        match self {
            Self::Queued(message) => message.priority,
            Self::Sent(message) => message.priority,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Queued(message) => message.bytes,
            Self::Sent(message) => message.bytes,
        }
    }
}

/// The sender's side.
impl Association {
    /// Abandons the message that would be sent next, if its reliability forbids that.
    //= specs/rfc3758.txt#section-3.4
    //# At some point, a sending PR-SCTP implementation MAY determine that a
    //# particular data chunk SHOULD NOT be transmitted or retransmitted
    //# further, in accordance with the rules governing some particular PR-
    //# SCTP service definition (such as the definition of "timed
    //# reliability" in Section 4.1.)
    //= specs/rfc3758.txt#section-3.5
    //# A2) From time to time, as governed by the rules of a particular PR-
    //# SCTP service definition (see Section 4), the SCTP data sender may
    //# make a determination that a particular data chunk that has
    //# already been assigned a TSN SHOULD be "abandoned".
    pub(super) fn give_up(&mut self, now: Time) {
        let mut any = false;
        loop {
            let partial = self.abandons_sent();
            let several = self.config.paths.multipath.is_some();
            let lost = match &mut self.state {
                // With several paths, lost chunks need not be retransmitted in order: any of them may be
                // over its limit.
                State::Up(up) if partial && several => up.sent.next_over(now),
                State::Up(up) if partial => up.sent.next_lost(),
                _ => None,
            };
            //= specs/rfc3758.txt#section-4.1
            //# TR4) Before transmitting or retransmitting a message for which a TSN
            //# is already assigned, the SCTP sender MUST evaluate the lifetime
            //# of the message.  If the lifetime of the message is expired, the
            //# SCTP sender MUST "abandon" the message, as per the rules
            //# specified in Section 3.5 marking that TSN as eligible for
            //# forward TSN.
            let over = |tsn: &Tsn| {
                let up = self.state.up();
                up.and_then(|up| up.sent.get(*tsn)).is_some_and(|slot| slot.is_over(now))
            };
            if let Some(tsn) = lost.filter(over) {
                self.abandon_sent(tsn);
            } else {
                match self.queue.stale(now) {
                    //= specs/rfc3758.txt#section-4.1
                    //# TR3) Before assigning a TSN to any message, the SCTP sender MUST
                    //# evaluate the lifetime of that message.  If it is expired, the
                    //# SCTP sender MUST NOT assign a TSN to that message, but instead,
                    //# SHOULD issue a notification to the upper layer and abandon the
                    //# message.
                    Some(Stale::Whole(stream)) => {
                        let fragment = self.queue.give_up(stream);
                        self.report_abandoned(&fragment);
                    }
                    Some(Stale::Rest(stream)) if partial => {
                        let rest = self.queue.give_up(stream);
                        self.abandon_begun(rest);
                    }
                    //= specs/rfc3758.txt#section-4.1
                    //# However, in the base
                    //# protocol, if SCTP has sent the first transmission before the lifetime
                    //# expires, then the message MUST be sent as a normal reliable message.
                    Some(Stale::Rest(_)) | None => break,
                }
            }
            any = true;
        }
        if any {
            self.settle_given_up();
            self.report_writable();
            self.advance_shutdown(now);
        }
    }

    /// Whether messages that were partly sent may be abandoned: both sides support it, and the
    /// association is established.
    //= specs/rfc3758.txt#section-3.3.2
    //# o  SHOULD record the fact that the peer does not support the FORWARD
    //# TSN chunk,
    //= specs/rfc3758.txt#section-3.3.2
    //# o  MUST NOT send a FORWARD TSN chunk at any time during the
    //# associations life,
    //= specs/rfc3758.txt#section-3.3.3
    //# 2) continue the initiation process (in cases where the initiation
    //# process has already completed, the endpoint MUST just mark the
    //# association as not supporting partial reliability), but with the
    //# understanding that partially reliable data transmission is not
    //# supported.  In this case, the endpoint receiving the operational
    //# error SHOULD note that the FORWARD TSN chunk is not supported, and
    //# MUST NOT transmit a FORWARD TSN chunk at any time during the life
    //# of the association.
    pub(super) fn abandons_sent(&self) -> bool {
        matches!(&self.state, State::Up(up) if up.extensions.partial_reliability())
    }

    /// Frees send buffer for a message by abandoning less important ones. Returns whether there is
    /// enough now; if not, nothing was abandoned.
    pub(super) fn make_room(&mut self, len: usize, reliability: Reliability) -> bool {
        if !self.abandons_sent() {
            return false;
        }
        let least = if let Reliability::Priority(priority) = reliability { priority } else { 0 };
        let State::Up(up) = &self.state else { return false };
        let queued = self.queue.prioritized(least).into_iter().map(Victim::Queued);
        let mut victims: Vec<_> =
            queued.chain(up.sent.prioritized(least).into_iter().map(Victim::Sent)).collect();
        victims.sort_by_key(|victim| std::cmp::Reverse(victim.priority()));
        let missing = len.saturating_sub(self.send_room());
        let mut freed = 0;
        let enough = victims.iter().position(|victim| {
            freed += victim.bytes();
            freed >= missing
        });
        let Some(last) = enough else { return false };
        for victim in victims.into_iter().take(last + 1) {
            match victim {
                Victim::Queued(message) => {
                    // A partly sent message may have been abandoned with its sent part.
                    if let Some(rest) = self.queue.give_up_prioritized(message) {
                        if rest.begin { self.report_abandoned(&rest) } else { self.abandon_begun(rest) }
                    }
                }
                Victim::Sent(message) => {
                    let State::Up(up) = &self.state else { return false };
                    if up.sent.terms(message.tsn).is_prioritized() {
                        self.abandon_sent(message.tsn);
                    }
                }
            }
        }
        self.settle_given_up();
        len <= self.send_room()
    }

    /// A message was abandoned: pending actions that waited for it may continue.
    fn settle_given_up(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        if up.sent.next_lost().is_none() {
            self.paths.iter_mut().for_each(|path| path.fast_retransmit_due = false);
            if up.sent.flight_bytes() == 0 {
                // Chunks that no SACK reported are retransmitted, since nothing else would be sent.
                for index in 0..self.paths.len() {
                    up.sent.mark_path_lost(PathId(index as u8));
                }
            }
        }
    }

    /// Abandons the message of a sent chunk, including its unsent rest.
    //= specs/rfc3758.txt#section-4.3
    //# (G1) When the sender side implementation gives up on transmitting a
    //# message that has been assigned a TSN (i.e., when that message is
    //# "abandoned", as defined in Section 3.4), the sender side MUST
    //# mark that TSN as eligible for forward TSN, and the rules in
    //# Section 3.4 regarding the sending of FORWARD TSN chunks MUST be
    //# followed.
    fn abandon_sent(&mut self, tsn: Tsn) {
        let State::Up(up) = &mut self.state else { return };
        let Some(slot) = up.sent.get(tsn) else { return };
        let (stream, ppid, unordered) = (slot.data.stream, slot.data.ppid, slot.data.unordered);
        let context = up.sent.terms(tsn).context;
        if !abandon(up, &mut self.paths, &mut self.timers, tsn) {
            let rest = self.queue.give_up(stream);
            debug_assert_eq!(
                (rest.begin, rest.unordered),
                (false, unordered),
                "it is the rest of this message"
            );
            up.sent.insert_abandoned_end(rest);
        }
        let order = if unordered { Order::Unordered } else { Order::Ordered };
        self.abandoned_sent += 1;
        self.events.push_back(Event::Abandoned(Abandoned { stream, ppid, order, context, was_sent: true }));
    }

    /// Abandons the sent part of a message whose unsent rest was removed from the queue.
    fn abandon_begun(&mut self, rest: Fragment) {
        self.report_abandoned(&rest);
        let State::Up(up) = &mut self.state else { return };
        if let Some(tsn) = up.sent.last_of(&rest) {
            abandon(up, &mut self.paths, &mut self.timers, tsn);
        }
        up.sent.insert_abandoned_end(rest);
    }

    /// Reports an abandoned message that was removed from the queue.
    pub(super) fn report_abandoned(&mut self, rest: &Fragment) {
        let Fragment { stream, ppid, terms, begin, .. } = *rest;
        let order = if rest.unordered { Order::Unordered } else { Order::Ordered };
        let counter = if begin { &mut self.abandoned_unsent } else { &mut self.abandoned_sent };
        *counter += 1;
        let abandoned = Abandoned { stream, ppid, order, context: terms.context, was_sent: !begin };
        self.events.push_back(Event::Abandoned(abandoned));
    }

    /// The association ends: reports each message that was not delivered (RFC 6458 §6.1.4).
    pub(super) fn report_undelivered(&mut self) {
        if let Some(up) = self.state.up() {
            for tsn in up.sent.undelivered() {
                let Some(slot) = up.sent.get(tsn) else { continue };
                let order = if slot.data.unordered { Order::Unordered } else { Order::Ordered };
                let (stream, ppid) = (slot.data.stream, slot.data.ppid);
                let context = up.sent.terms(tsn).context;
                let abandoned = Abandoned { stream, ppid, order, context, was_sent: true };
                self.events.push_back(Event::Abandoned(abandoned));
            }
        }
        self.events.extend(self.queue.waiting().map(Event::Abandoned));
    }

    /// Whether FORWARD TSN must be sent on this path.
    pub(super) fn forward_is_due(&mut self, id: PathId) -> bool {
        let State::Up(up) = &mut self.state else { return false };
        let point = up.sent.advanced_peer_ack_point();
        up.forward.due &= point.is_some();
        // A new point is reported immediately, since the peer's streams wait for it.
        //= specs/rfc3758.txt#section-3.5
        //# F3) Any delay applied to the sending of FORWARD TSN chunk SHOULD NOT
        //# exceed 200ms and MUST NOT exceed 500ms.  In other words, an
        //# implementation MAY lower this value below 500ms but MUST NOT
        //# raise it above 500ms.
        up.forward.due |= point.is_some() && point != up.forward.last_sent.map(|last_sent| last_sent.point);
        //= specs/rfc3758.txt#section-3.5
        //# IMPLEMENTATION NOTE: It is an implementation decision as to
        //# which destination address it is to be sent to, the only
        //# restriction being that the address MUST be one that is
        //# CONFIRMED.
        let again = |path| Purpose::Retransmission(Found::TimedOut(path), self.config.legacy.retransmit_to);
        let purpose = up.forward.timed_out.map_or(Purpose::New, again);
        up.forward.due && choose(&self.paths, up.primary, purpose) == id
    }

    /// Returns the FORWARD TSN to send on this path now, with as many streams as fit.
    //= specs/rfc3758.txt#section-3.5
    //# F1) An endpoint MUST NOT use the FORWARD TSN for any purposes other
    //# than circumstances described in this document.
    //= specs/rfc3758.txt#section-3.2
    //# This chunk shall be used by the data sender to inform the data
    //# receiver to adjust its cumulative received TSN point forward because
    //# some missing TSNs are associated with data chunks that SHOULD NOT be
    //# transmitted or retransmitted by the sender.
    pub(super) fn take_forward(&mut self, now: Time, id: PathId) -> Option<Chunk> {
        let room = self.builder.room();
        let State::Up(up) = &mut self.state else { return None };
        let (chunk, last_sent) = up.sent.forward_chunk(room)?;
        let point = up.sent.advanced_peer_ack_point()?;
        let last_sent = SentForward { point, lowered: last_sent != point, path: id, at: now };
        up.forward = Forward { due: false, last_sent: Some(last_sent), timed_out: None };
        //= specs/rfc3758.txt#section-3.5
        //# C5) If a FORWARD TSN is sent, the sender MUST assure that at
        //# least one T3-rtx timer is running.
        let wait = self.paths[usize::from(id.0)].t3_wait(&self.config);
        self.timers.arm_if_idle(Timer::T3Rtx(id), now + wait);
        Some(chunk)
    }

    /// A SACK or SHUTDOWN was processed.
    //= specs/rfc3758.txt#section-3.5
    //# C3) If, after step C1 and C2, the "Advanced.Peer.Ack.Point" is
    //# greater than the Cumulative TSN ACK carried in the received
    //# SACK, the data sender MUST send the data receiver a FORWARD
    //# TSN chunk containing the latest value of the
    //# "Advanced.Peer.Ack.Point".  Note that the sender MAY delay
    //# the sending of a FORWARD TSN as defined in rule F2 below.
    pub(super) fn forward_on_sack(&mut self, now: Time, cum: Cum) {
        let State::Up(up) = &mut self.state else { return };
        let Some(last_sent) = up.forward.last_sent else { return };
        let path = &mut self.paths[usize::from(last_sent.path.0)];
        if cum == Cum::Forwarded {
            // The FORWARD TSN was acknowledged.
            up.errors = 0;
            path.errors = 0;
            path.timeouts_unanswered = 0;
        }
        // The same FORWARD TSN is repeated after an RTT at the earliest, unless there is more to report.
        let patience = path.rtt.srtt().unwrap_or(path.rtt.rto());
        up.forward.due |= (cum != Cum::Same && last_sent.lowered) || now.since(last_sent.at) >= patience;
    }

    /// T3-rtx of a path expired.
    //= specs/rfc3758.txt#section-3.5
    //# A5) Any time the T3-rtx timer expires, on any destination, the sender
    //# SHOULD try to advance the "Advanced.Peer.Ack.Point" by following
    //# the procedures outlined in C2 - C5.
    pub(super) fn forward_on_timeout(&mut self, id: PathId) {
        let State::Up(up) = &mut self.state else { return };
        up.forward.due = true;
        up.forward.timed_out = up.forward.last_sent.is_some().then_some(id);
    }

    /// At the end of a drain: T3-rtx runs until the peer has acknowledged the abandoned chunks.
    pub(super) fn guard_forward(&mut self, now: Time) {
        // If no path is usable, the timer would have no effect.
        if !self.has_usable_path() {
            return;
        }
        let State::Up(up) = &mut self.state else { return };
        if up.sent.advanced_peer_ack_point().is_none() {
            up.forward = Forward::default();
            return;
        }
        let runs = |index: usize| self.timers.is_armed(Timer::T3Rtx(PathId(index as u8)));
        if let Some(last_sent) = up.forward.last_sent
            && !(0..self.paths.len()).any(runs)
        {
            let deadline = last_sent.at + self.paths[usize::from(last_sent.path.0)].rtt.rto();
            self.timers.arm(Timer::T3Rtx(last_sent.path), deadline.max(now));
        }
    }
}

/// Abandons the sent part of a message; returns whether the whole message was sent.
fn abandon(up: &mut Up, paths: &mut [Path], timers: &mut Timers, tsn: Tsn) -> bool {
    up.sent.abandon(tsn, |id, bytes| {
        let path = &mut paths[usize::from(id.0)];
        path.flight_bytes -= bytes;
        if path.flight_bytes == 0 {
            timers.stop(Timer::T3Rtx(id));
            timers.stop(Timer::TailProbe(id));
            timers.stop(Timer::Overdue(id));
        }
    })
}

/// The receiver's side.
impl Association {
    /// Processes FORWARD TSN or I-FORWARD-TSN.
    pub(super) fn on_forward(&mut self, path: PathId, chunk: Chunk) -> Then {
        let State::Up(up) = &self.state else { return Then::Next };
        let extensions = up.extensions;
        // With I-DATA configured both forms are known; otherwise I-FORWARD-TSN is unknown.
        let knows = matches!(chunk, Chunk::ForwardTsn(_)) || Extensions::of(&self.config).i_forward_tsn;
        //= specs/rfc3758.txt#section-3.3.1
        //# Note that if the endpoint chooses NOT to include the parameter, then
        //# at no time during the life of the association can it send or process
        //# a FORWARD TSN.  It MUST instead act as if it does NOT support the
        //# FORWARD TSN chunk, returning an ERROR to the peer upon receipt of any
        //# FORWARD TSN.
        //= specs/rfc3758.txt#section-3.3.2
        //# Note that if the endpoint chooses NOT to include the parameter, then
        //# at no time during the life of the association can it send or process
        //# a FORWARD TSN.  It MUST instead act as if it does NOT support the
        //# FORWARD TSN chunk, returning an ERROR to the peer upon receipt of any
        //# FORWARD TSN.
        // A peer that did not list the chunk does not send it; but Linux 6.1 lists I-DATA and FORWARD
        // TSN, and sends I-FORWARD-TSN without listing it. Skipping those would never acknowledge them.
        let is_unlisted =
            extensions.interleaving && extensions.forward_tsn && matches!(chunk, Chunk::IForwardTsn(_));
        if !(extensions.partial_reliability() || is_unlisted) || !knows {
            return self.on_unknown(chunk.kind(), &chunk.to_bytes());
        }
        //= specs/rfc8260.txt#section-2.3.1
        //# The FORWARD-TSN chunk MUST be used in combination with the DATA chunk
        //# and MUST NOT be used in combination with the I-DATA chunk.  The
        //# I-FORWARD-TSN chunk MUST be used in combination with the I-DATA chunk
        //# and MUST NOT be used in combination with the DATA chunk.
        if extensions.interleaving != matches!(chunk, Chunk::IForwardTsn(_)) {
            self.on_violation(Violation::WrongForwardTsn);
            return Then::Stop;
        }
        // As for DATA (RFC 9260 §6).
        if matches!(self.shutdown, Shutdown::Received | Shutdown::AckSent { .. }) {
            return Then::Next;
        }
        self.skip(path, chunk);
        Then::Next
    }

    fn skip(&mut self, path: PathId, chunk: Chunk) {
        let ahead_max = self.forward_max();
        let State::Up(up) = &mut self.state else { return };
        let new_cum_tsn = match &chunk {
            Chunk::ForwardTsn(forward) => forward.new_cum_tsn,
            Chunk::IForwardTsn(forward) => forward.new_cum_tsn,
            _ => return,
        };
        let before = up.received.cum_tsn();
        // Sent before the TSN reset.
        if up.received.is_from_before_restart(new_cum_tsn) {
            return;
        }
        if new_cum_tsn.after(before) && new_cum_tsn.distance_from(before) > ahead_max {
            return self.on_violation(Violation::ForwardTsnTooFar(new_cum_tsn));
        }
        sack_by(up, &self.paths, path);
        if !up.received.forward(new_cum_tsn) {
            return;
        }
        let cum_tsn = up.received.cum_tsn();
        // Streams that do not exist have no messages to skip.
        let exists = |stream: StreamId| stream.0 < self.inbound_streams;
        let forwarded = match chunk {
            Chunk::ForwardTsn(forward) => {
                let streams = forward.streams.into_iter().filter(|(stream, _)| exists(*stream));
                self.inbound.forward(new_cum_tsn, cum_tsn, streams)
            }
            Chunk::IForwardTsn(forward) => {
                let streams = forward.streams.into_iter().filter(|skipped| exists(skipped.stream));
                self.inbound.forward_interleaved(streams);
                Ok(())
            }
            _ => Ok(()),
        };
        match forwarded {
            Ok(()) => {
                self.report_readable();
                self.take_all_early();
            }
            Err(violation) => self.on_violation(violation),
        }
    }

    /// The maximum advance of a FORWARD TSN: every TSN takes at least one byte of the advertised window.
    fn forward_max(&self) -> u32 {
        let window = u32::try_from(self.buffer.bytes()).unwrap_or(u32::MAX);
        window.clamp(SPAN_MAX, i32::MAX as u32)
    }
}
