//! The end of an association (RFC 9260 §9): shutdown, once all data has arrived on both sides, or abort.

use braidftp_base::Time;
use bytes::Bytes;

use crate::association::path::{Purpose, choose};
use crate::association::reset::state::Reconfiguration;
use crate::association::state::{Shutdown, State};
use crate::association::timers::Timer;
use crate::association::violation::Answer;
use crate::association::{Association, Event, Reason, Transmit, Violation};
use crate::ids::{PathId, Tsn, VerificationTag};
use crate::wire::{Cause, Chunk};

/// The maximum length of an abort reason sent to the peer, in bytes: the ABORT must fit a packet.
const ABORT_REASON_MAX: usize = 1_024;

/// The reason in the ABORT of [`Association::leave`].
pub const GOODBYE: &[u8] = b"goodbye";

/// The last packet of an association.
#[derive(Debug)]
pub(super) struct FinalPacket {
    pub(super) path: PathId,
    pub(super) tag: VerificationTag,
    /// ABORT or SHUTDOWN COMPLETE, once determined.
    pub(super) chunk: Option<Chunk>,
}

impl Association {
    /// Ends the association once all data is acknowledged (RFC 9260 §9.2). No more messages can be sent.
    pub fn shutdown(&mut self) {
        //= specs/rfc9260.txt#section-9.2
        //# Once an endpoint has reached the SHUTDOWN-RECEIVED state, it MUST
        //# ignore ULP shutdown requests but MUST continue responding to SHUTDOWN
        //# chunks from its peer.
        if self.shutdown == Shutdown::No && !matches!(self.state, State::Closed(_)) {
            self.shutdown = Shutdown::Pending;
            self.has_input = true;
        }
    }

    /// Ends the association at once, with a reason for the peer (RFC 9260 §9.1) of at most 1,024 bytes.
    pub fn abort(&mut self, words: Bytes) {
        if !matches!(self.state, State::Closed(_)) {
            let said = words.slice(..words.len().min(ABORT_REASON_MAX));
            //= specs/rfc9260.txt#section-9.1
            //# If the association is aborted on request of the upper layer, a
            //# "User-Initiated Abort" error cause (see Section 3.3.10.12) SHOULD be
            //# present in the ABORT chunk.
            self.abort_with(Cause::UserInitiatedAbort(said), Reason::Aborted(words));
        }
    }

    /// Ends the association without waiting for the peer, for a process that is about to exit. One
    /// packet acknowledges received data, contains SHUTDOWN if all sent data is acknowledged, and
    /// aborts, since nobody would answer SHUTDOWN ACK. Another packet repeats the ABORT alone, since
    /// nobody will retransmit a lost one.
    pub fn leave(&mut self) {
        match (&self.state, self.shutdown) {
            (State::Closed(_), _) => {}
            (State::Up(_), Shutdown::No | Shutdown::Pending | Shutdown::Sent { .. }) => {
                self.leaving = true;
                self.has_input = true;
            }
            _ => self.abort(Bytes::from_static(GOODBYE)),
        }
    }

    /// Builds the packet of [`Self::leave`].
    pub(super) fn transmit_leave(&mut self) -> Transmit {
        self.leaving = false;
        let path = self.closing_path();
        let State::Up(up) = &mut self.state else { unreachable!("the caller has looked") };
        let tag = up.peer_tag;
        let drained = up.sent.is_empty() && self.queue.is_empty();
        up.received.sack_now();
        up.sack_path = path;
        self.begin(path, tag);
        self.fill_sack(path, None);
        if drained {
            self.shutdown = Shutdown::Sent { retry: 0, repeats: 0, due: true };
            self.fill_shutdown(path);
        }
        let cause = Cause::UserInitiatedAbort(Bytes::from_static(GOODBYE));
        let abort = Chunk::Abort { reflected: false, causes: vec![cause.clone()] };
        //= specs/rfc9260.txt#section-3.3.7
        //# Control chunks (except for INIT, INIT ACK, and SHUTDOWN COMPLETE) MAY
        //# be bundled with an ABORT chunk, but they MUST be placed before the
        //# ABORT chunk in the SCTP packet; otherwise, they will be ignored by the
        //# receiver.
        self.builder.push(&abort);
        let transmit = self.finish(path);
        let reason = if drained { Reason::Shutdown } else { Reason::Aborted(Bytes::from_static(GOODBYE)) };
        self.abort_with(cause, reason);
        transmit
    }

    /// Ends the association with an ABORT with this cause.
    pub(super) fn abort_with(&mut self, cause: Cause, reason: Reason) {
        //= specs/rfc9260.txt#section-9.1
        //# When an endpoint decides to abort an existing association, it MUST
        //# send an ABORT chunk to its peer endpoint.  The sender MUST fill in
        //# the peer's Verification Tag in the outbound packet and MUST NOT
        //# bundle any DATA chunk with the ABORT chunk.
        //= specs/rfc9260.txt#section-8.5.1
        //# Rules for packets carrying an ABORT chunk: * The endpoint MUST always
        //# fill in the Verification Tag field of the outbound packet with the
        //# destination endpoint's tag value if it is known.
        self.send_final_packet(Chunk::Abort { reflected: false, causes: vec![cause] });
        self.close(reason);
    }

    /// The peer has not responded for too long. An ABORT is sent nevertheless: the peer may receive
    /// packets that it cannot answer.
    pub(super) fn give_up_peer(&mut self) {
        self.send_final_packet(Chunk::Abort { reflected: false, causes: Vec::new() });
        self.close(Reason::PeerUnreachable);
    }

    fn send_final_packet(&mut self, chunk: Chunk) {
        let path = self.closing_path();
        let known = self.state.up().map(|up| Box::new(FinalPacket { path, tag: up.peer_tag, chunk: None }));
        // Without the peer's tag no ABORT can be sent; the peer will time out.
        self.final_packet = self.final_packet.take().or(known);
        if let Some(final_packet) = &mut self.final_packet {
            final_packet.chunk = Some(chunk);
        }
    }

    /// Whether the association has ended and its ABORT or SHUTDOWN COMPLETE, if any, was sent.
    pub(crate) fn has_sent_final_packet(&self) -> bool {
        matches!(self.state, State::Closed(_))
            && self.final_packet.as_ref().is_none_or(|last| last.chunk.is_none())
    }

    /// Ends the association. Received data can still be read.
    pub(super) fn close(&mut self, reason: Reason) {
        self.timers.stop_all();
        self.report_undelivered();
        self.queue.clear();
        for path in &mut self.paths {
            path.flight_bytes = 0;
        }
        self.events.push_back(Event::Closed(reason.clone()));
        self.state = State::Closed(reason);
        self.has_input = true;
    }

    /// Reacts to a protocol violation by the peer.
    pub(super) fn on_violation(&mut self, violation: Violation) {
        match violation.answer() {
            Answer::Abort(cause) => self.abort_with(cause, Reason::PeerViolation(violation)),
            Answer::Error(cause) => {
                if let State::Up(up) = &mut self.state {
                    up.control.add_error(cause);
                }
            }
            Answer::Silence => {}
        }
    }

    /// ICMP reports that the peer's host has no SCTP; the quoted tag proves that the packet was ours.
    pub(crate) fn on_protocol_unreachable(&mut self) {
        // It counts as an ABORT (RFC 9260 §10 ICMP8), and an unprotected one is discarded.
        if self.requires_protection() {
            return;
        }
        self.on_abort(Vec::new());
    }

    pub(super) fn on_abort(&mut self, causes: Vec<Cause>) {
        //= specs/rfc9260.txt#section-9.1
        //# An endpoint MUST NOT respond to any received packet that contains an
        //# ABORT chunk (also see Section 8.4).
        //= specs/rfc9260.txt#section-3.3.7
        //# Moreover, under any circumstances, an endpoint that receives an ABORT
        //# chunk MUST NOT respond to that ABORT chunk by sending an ABORT chunk
        //# of its own.
        self.final_packet = None;
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        // After SHUTDOWN ACK all data has arrived on both sides. If the peer then has no association any
        // more (§8.4), it ended gracefully and its SHUTDOWN COMPLETE was lost, or it does not wait for
        // SHUTDOWN ACK.
        let in_good_order = matches!(self.shutdown, Shutdown::AckSent { .. });
        //= specs/rfc9260.txt#section-9.1
        //# After checking the Verification Tag, the receiving endpoint MUST
        //# remove the association from its record and SHOULD report the
        //# termination to its upper layer.
        self.close(if in_good_order { Reason::Shutdown } else { Reason::PeerAborted(causes) });
    }

    /// Continues a shutdown if possible: called whenever data was acknowledged or a shutdown was
    /// requested.
    pub(super) fn advance_shutdown(&mut self, now: Time) {
        let State::Up(up) = &self.state else { return };
        let drained = up.sent.is_empty() && self.queue.is_empty();
        //= specs/rfc9260.txt#section-9.2
        //# An endpoint SHOULD ensure that all its outstanding DATA chunks have
        //# been acknowledged before initiating the shutdown procedure.
        if !drained {
            return self.guard_draining(now);
        }
        match self.shutdown {
            //= specs/rfc9260.txt#section-9.2
            //# Once all its outstanding data has been acknowledged, the endpoint
            //# sends a SHUTDOWN chunk to its peer, including in the Cumulative TSN
            //# Ack field the last sequential TSN it has received from the peer.  It
            //# SHOULD then start the T2-shutdown timer and enter the SHUTDOWN-SENT
            //# state.
            // First it must be known whether the peer has reset its TSNs: otherwise its later data could
            // not be processed.
            Shutdown::Pending if up.reconfiguration.as_ref().is_some_and(Reconfiguration::awaits_restart) => {
                self.guard_draining(now);
            }
            Shutdown::Pending => {
                //= specs/rfc9260.txt#section-3.3.8
                //# An endpoint in an association MUST use this chunk to initiate a
                //# graceful close of the association with its peer.
                self.shutdown = Shutdown::Sent { retry: 0, repeats: 0, due: true };
                self.timers.arm(Timer::T5Guard, now + self.config.timers.shutdown_guard);
                self.begin_t2(now);
            }
            //= specs/rfc9260.txt#section-9.2
            //# If the receiver of the SHUTDOWN chunk has no more outstanding DATA
            //# chunks, the SHUTDOWN chunk receiver MUST send a SHUTDOWN ACK chunk
            //# and start a T2-shutdown timer of its own, entering the SHUTDOWN-ACK-
            //# SENT state.
            Shutdown::Received => {
                // From here on, retransmissions of SHUTDOWN ACK are limited.
                self.timers.stop(Timer::T5Guard);
                self.shutdown = Shutdown::AckSent { retry: 0, due: true };
                self.begin_t2(now);
            }
            Shutdown::No | Shutdown::Sent { .. } | Shutdown::AckSent { .. } => {}
        }
    }

    /// Data that must be acknowledged before SHUTDOWN or SHUTDOWN ACK has a deadline too: a peer that
    /// acknowledges window probes and never opens its window would otherwise keep the association and
    /// its send buffer forever. In each `shutdown_guard`, half of the data must be acknowledged, so that
    /// a slow peer still gets all of it.
    fn guard_draining(&mut self, now: Time) {
        if matches!(self.shutdown, Shutdown::Pending | Shutdown::Received)
            && !self.timers.is_armed(Timer::T5Guard)
        {
            self.draining_bytes = self.buffered_to_send();
            self.timers.arm(Timer::T5Guard, now + self.config.timers.shutdown_guard);
        }
    }

    /// A SHUTDOWN is about to be sent, for the first time or again. With an unreported duplicate, a SACK
    /// is due anyway (§6.2).
    //= specs/rfc9260.txt#section-9.2
    //# If a SHUTDOWN chunk by itself cannot
    //# acknowledge all of the received DATA chunks (i.e., there are TSNs
    //# that can be acknowledged that are larger than the cumulative TSN and
    //# thus gaps exist in the TSN sequence) or if duplicate TSNs have been
    //# received, then a SACK chunk MUST also be sent.
    // With an unreported duplicate a SACK is due anyway (§6.2).
    fn sack_with_shutdown(&mut self) {
        if let State::Up(up) = &mut self.state
            && matches!(self.shutdown, Shutdown::Sent { .. })
            && up.received.has_gap()
        {
            //= specs/rfc9260.txt#section-6.2
            //# Therefore, the endpoint SHOULD use a SACK chunk instead of the
            //# SHUTDOWN chunk to acknowledge DATA chunks received out of order.
            up.received.sack_now();
        }
    }

    fn begin_t2(&mut self, now: Time) {
        self.give_up_reconfiguration();
        self.sack_with_shutdown();
        self.restart_t2(now);
        // If no path is usable, HEARTBEATs continue.
        if !self.has_usable_path() {
            return;
        }
        for index in 0..self.paths.len() {
            //= specs/rfc9260.txt#section-8.3
            //# The
            //# sending of HEARTBEAT chunks MAY begin upon reaching
            //# the ESTABLISHED state and is discontinued after sending either a
            //# SHUTDOWN chunk or SHUTDOWN ACK chunk.
            self.timers.stop(Timer::Heartbeat(PathId(index as u8)));
            self.paths[index].heartbeat_due = false;
        }
    }

    fn restart_t2(&mut self, now: Time) {
        let path = self.closing_path();
        let retry = match self.shutdown {
            Shutdown::Sent { retry, .. } | Shutdown::AckSent { retry, .. } => retry,
            Shutdown::No | Shutdown::Pending | Shutdown::Received => 0,
        };
        let wait = self.control_wait(path, retry);
        self.timers.arm(Timer::T2Shutdown, now + wait);
    }

    /// Returns the path of SHUTDOWN, SHUTDOWN ACK and the last packet.
    pub(super) fn closing_path(&self) -> PathId {
        let repeated = match self.shutdown {
            Shutdown::Sent { repeats, .. } => repeats,
            Shutdown::AckSent { retry, .. } => retry,
            Shutdown::No | Shutdown::Pending | Shutdown::Received => 0,
        };
        let primary = self.state.up().map_or(PathId(0), |up| up.primary);
        choose(&self.paths, primary, Purpose::Closing(repeated))
    }

    /// T2 expired: retransmits SHUTDOWN or SHUTDOWN ACK.
    pub(super) fn on_t2(&mut self, now: Time) {
        let path = usize::from(self.closing_path().0);
        let (retry, due) = match &mut self.shutdown {
            Shutdown::Sent { retry, repeats, due } => {
                *repeats += 1;
                (retry, due)
            }
            Shutdown::AckSent { retry, due } => (retry, due),
            Shutdown::No | Shutdown::Pending | Shutdown::Received => return,
        };
        //= specs/rfc9260.txt#section-9.2
        //# An endpoint SHOULD limit the number of retransmissions of the
        //# SHUTDOWN chunk to the protocol parameter 'Association.Max.Retrans'.
        *retry += 1;
        //= specs/rfc9260.txt#section-9.2
        //# If the timer expires, the endpoint MUST resend the SHUTDOWN ACK chunk.
        *due = true;
        //= specs/rfc9260.txt#section-9.2
        //# If this threshold is exceeded, the endpoint SHOULD destroy the TCB and
        //# SHOULD report the peer endpoint unreachable to the upper layer (and
        //# thus the association enters the CLOSED state).
        //= specs/rfc9260.txt#section-9.2
        //# The sender of the SHUTDOWN ACK chunk SHOULD limit the number of
        //# retransmissions of the SHUTDOWN ACK chunk to the protocol parameter
        //# 'Association.Max.Retrans'.
        //= specs/rfc9260.txt#section-9.2
        //# If this threshold is exceeded, the endpoint SHOULD destroy the TCB and
        //# SHOULD report the peer endpoint unreachable to the upper layer (and
        //# thus the association enters the CLOSED state).
        let retry = *retry;
        if retry > self.config.failover.association_max_retrans + self.control_probes() {
            return self.give_up_peer();
        }
        //= specs/rfc9260.txt#section-9.2
        //# If the timer expires, the endpoint MUST resend the SHUTDOWN
        //# chunk with the updated last sequential TSN received from its peer.
        //= specs/rfc9260.txt#section-9.2
        //# The rules in Section 6.3 MUST be followed to determine the proper
        //# timer value for T2-shutdown.
        if retry > self.control_probes() {
            self.paths[path].rtt.back_off();
        }
        self.sack_with_shutdown();
        self.restart_t2(now);
    }

    /// T5 expired.
    pub(super) fn on_t5(&mut self, now: Time) {
        let drains = matches!(self.shutdown, Shutdown::Pending | Shutdown::Received);
        if drains && self.buffered_to_send() <= self.draining_bytes / 2 {
            return self.guard_draining(now);
        }
        //= specs/rfc9260.txt#section-9.2
        //# At the expiration of this timer, the sender SHOULD abort
        //# the association by sending an ABORT chunk.
        self.abort_with(
            Cause::UserInitiatedAbort(Bytes::from_static(b"shutdown timed out")),
            Reason::ShutdownTimeout,
        );
    }

    pub(super) fn on_shutdown(&mut self, now: Time, received_on: PathId, cum_tsn_ack: Tsn) {
        if !self.on_cum_tsn(now, received_on, cum_tsn_ack) {
            return;
        }
        match &mut self.shutdown {
            //= specs/rfc9260.txt#section-9.2
            //# If there are still outstanding DATA chunks left, the SHUTDOWN chunk
            //# receiver MUST continue to follow normal data transmission procedures
            //# defined in Section 6, until all outstanding DATA chunks are
            //# acknowledged; however, the SHUTDOWN chunk receiver MUST NOT accept
            //# new data from its SCTP user.
            Shutdown::No | Shutdown::Pending => {
                self.shutdown = Shutdown::Received;
                self.events.push_back(Event::PeerShutdown);
            }
            //= specs/rfc9260.txt#section-9.2
            //# If an endpoint is in the SHUTDOWN-SENT state and receives a SHUTDOWN
            //# chunk from its peer, the endpoint SHOULD respond immediately with a
            //# SHUTDOWN ACK chunk to its peer and move into the SHUTDOWN-ACK-SENT
            //# state, restarting its T2-shutdown timer.
            Shutdown::Sent { .. } => {
                self.shutdown = Shutdown::AckSent { retry: 0, due: true };
                self.restart_t2(now);
            }
            Shutdown::Received => {}
            // The SHUTDOWN was sent before our SHUTDOWN ACK arrived; T2 retransmits that if it was lost.
            Shutdown::AckSent { .. } => {}
        }
        self.advance_shutdown(now);
    }

    /// A packet arrived, possibly while SHUTDOWN is outstanding.
    pub(super) fn on_packet_during_shutdown(&mut self) {
        //= specs/rfc9260.txt#section-9.2
        //# The reception of
        //# any packet from its peer (i.e., as the peer sends all of its queued
        //# DATA chunks) SHOULD clear the endpoint's retransmission count and
        //# restart the T2-shutdown timer, giving its peer ample opportunity to
        //# transmit all of its queued DATA chunks that have not yet been sent.
        // Only DATA restarts the timer: HEARTBEATs at intervals shorter than T2 would delay the
        // retransmission of a lost SHUTDOWN forever, and a peer with DATA to send sends it.
        if let Shutdown::Sent { retry, .. } = &mut self.shutdown {
            *retry = 0;
        }
    }

    /// A packet with DATA arrived.
    pub(super) fn on_data_while_shutting_down(&mut self, now: Time) {
        //= specs/rfc9260.txt#section-9.2
        //# While in the SHUTDOWN-SENT state, the SHUTDOWN chunk sender MUST
        //# immediately respond to each received packet containing one or more
        //# DATA chunks with a SHUTDOWN chunk and restart the T2-shutdown timer.
        //= specs/rfc9260.txt#section-4
        //# In the SHUTDOWN-SENT state, the endpoint MUST acknowledge any received
        //# DATA chunks without delay.
        if let Shutdown::Sent { repeats, due, .. } = &mut self.shutdown {
            (*repeats, *due) = (0, true);
            self.restart_t2(now);
            // A SHUTDOWN carries no window, and the peer still needs one to send its data.
            if let State::Up(up) = &mut self.state {
                up.received.sack_now();
            }
        }
    }

    pub(super) fn on_shutdown_ack(&mut self) {
        //= specs/rfc9260.txt#section-9.2
        //# Upon the receipt of the SHUTDOWN ACK chunk, the sender of the
        //# SHUTDOWN chunk MUST stop the T2-shutdown timer, send a SHUTDOWN
        //# COMPLETE chunk to its peer, and remove all record of the association.
        //= specs/rfc9260.txt#section-9.2
        //# If an endpoint is in the SHUTDOWN-ACK-SENT state and receives a
        //# SHUTDOWN ACK, it MUST stop the T2-shutdown timer, send a SHUTDOWN
        //# COMPLETE chunk to its peer, and remove all record of the association.
        if matches!(self.shutdown, Shutdown::Sent { .. } | Shutdown::AckSent { .. }) {
            //= specs/rfc9260.txt#section-8.5.1
            //# When sending a SHUTDOWN COMPLETE chunk, if the receiver of the
            //# SHUTDOWN ACK chunk has a TCB, then the destination endpoint's
            //# tag MUST be used and the T bit MUST NOT be set.
            //= specs/rfc9260.txt#section-3.3.13
            //# This chunk MUST be used to acknowledge the receipt of the SHUTDOWN ACK
            //# chunk at the completion of the shutdown process; see Section 9.2 for
            //# details.
            self.send_final_packet(Chunk::ShutdownComplete { reflected: false });
            self.close(Reason::Shutdown);
        }
    }

    pub(super) fn on_shutdown_complete(&mut self) {
        //= specs/rfc9260.txt#section-8.5.1
        //# An endpoint MUST ignore the SHUTDOWN COMPLETE chunk if it is
        //# not in the SHUTDOWN-ACK-SENT state.
        //= specs/rfc9260.txt#section-9.2
        //# Upon reception of the SHUTDOWN COMPLETE chunk, the endpoint verifies
        //# that it is in the SHUTDOWN-ACK-SENT state; if it is not, the chunk
        //# SHOULD be discarded.
        //= specs/rfc9260.txt#section-9.2
        //# If the endpoint is in the SHUTDOWN-ACK-SENT state, the endpoint SHOULD
        //# stop the T2-shutdown timer and remove all knowledge of the association
        //# (and thus the association enters the CLOSED state).
        if matches!(self.shutdown, Shutdown::AckSent { .. }) {
            self.close(Reason::Shutdown);
        }
    }
}
