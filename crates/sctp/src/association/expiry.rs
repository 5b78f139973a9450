//! Timer expiry (RFC 9260 §6.1 A, §6.3.3, §8.1 to §8.3), except for the timers of handshake and shutdown,
//! which are handled there.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;
use bytes::Bytes;
use rand_core::Rng;

use crate::association::multipath::uses_cmt_rules;
use crate::association::path::{PROBES_MAX, Path, PendingHeartbeat, Purpose, Recovery, choose};
use crate::association::refused::Refusal;
use crate::association::state::{Shutdown, State, Window};
use crate::association::timers::Timer;
use crate::association::{Association, Event};
use crate::config::LossRecovery;
use crate::ids::PathId;
use crate::stats::PathState;

/// The length in bytes of the Heartbeat Info that this side sends: the path and a nonce.
pub(super) const HEARTBEAT_INFO_LEN: usize = 9;

/// With concurrent multipath transfer, the maximum wait for a HEARTBEAT ACK: this value or the RTO
/// without back-off, whichever is longer.
pub(super) const HEARTBEAT_WAIT_MAX: Duration = Duration::from_secs(1);
/// The first interval after which the RTT of an active but unused path is measured again; doubled each
/// time.
const MEASURED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The number of consecutive time-outs, without an acknowledged chunk in between, for which a HEARTBEAT
/// accompanies the retransmissions. Each HEARTBEAT ACK ends the back-off of RTO. If HEARTBEATs are
/// acknowledged and data never is, RTO must back off nevertheless: Association.Max.Retrans time-outs
/// without back-off would end the association within a second.
const HEARTBEATS_WITH_DATA: u32 = 4;

/// What was not acknowledged in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    /// DATA: T3-rtx expired.
    Data,
    Heartbeat,
    /// A HEARTBEAT, while other packets of the peer arrived.
    HeartbeatOfReachablePeer,
}

impl Association {
    pub(super) fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::T1 => self.on_t1(now),
            Timer::T2Shutdown => self.on_t2(now),
            Timer::T5Guard => self.on_t5(now),
            Timer::DelayedSack => {
                if let State::Up(up) = &mut self.state
                    && up.received.may_bundle_sack()
                {
                    up.received.sack_now();
                }
            }
            Timer::Reconfig => self.on_reconfig_timer(),
            Timer::ZeroWindow => self.on_zero_window(),
            Timer::T4Asconf => self.on_t4(),
            Timer::T3Rtx(path) => self.on_t3(now, path),
            Timer::Overdue(path) => {
                let flight = self.paths[usize::from(path.0)].flight_bytes;
                self.detect_losses(now, path, flight);
                self.stop_idle_t3(path);
            }
            Timer::TailProbe(path) => self.on_tail_probe(path),
            Timer::Heartbeat(path) => self.on_heartbeat(now, path),
            Timer::Pmtu(path) => self.on_pmtu_timer(now, path),
            // The next poll sends data.
            Timer::Pacing(_) => {}
        }
    }

    fn on_t3(&mut self, now: Time, id: PathId) {
        let several = self.has_several_paths();
        let State::Up(up) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(id.0)];
        path.counters.timeouts += 1;
        path.timeouts_unanswered += 1;
        path.packets_unanswered += 1;
        path.timed_out_at = Some(now);
        // With failover after a single time-out, the path must be acknowledged on itself before it is
        // used again.
        path.t3_unanswered = several
            && self.config.failover.potentially_failed_max_retrans.is_some()
            && path.params.heartbeat_interval.is_some();
        let probing = match &mut up.window {
            Window::Probing { answered, .. } => Some(std::mem::replace(answered, false)),
            Window::Open | Window::ProbeDue => None,
        };
        let flight_bytes = path.flight_bytes;
        let sent_at = up.sent.last_sent_at(id);
        path.flight_bytes -= up.sent.time_out(id);
        debug_assert_eq!(path.flight_bytes, 0, "all that was in flight is lost");
        //= specs/rfc9260.txt#section-6.1
        //# Zero window probing does not affect the
        //# calculation of cwnd.
        if probing.is_some() {
            path.lost_bytes += flight_bytes as u64;
        } else {
            path.on_lost(now, flight_bytes, sent_at);
            //= specs/rfc9260.txt#section-6.3.3
            //# E1)  For the destination address for which the timer expires, adjust
            //# its ssthresh with rules defined in Section 7.2.3 and set cwnd =
            //# PMDCS.
            path.on_congestion(now, cc::Cause::Timeout, flight_bytes);
            if self.config.recovery.undo_spurious {
                path.spurious_loss.begin();
            }
        }
        path.reduction = None;
        path.delivery_rate.forget();
        //= specs/rfc9260.txt#section-6.3.3
        //# E2)  For the destination address for which the timer expires, set RTO
        //# = RTO * 2 ("back off the timer").
        path.rtt.back_off();
        // E3: all chunks outstanding on the path are lost; a window of one PMDCS permits one packet at
        // once.
        //= specs/rfc9260.txt#section-6.3.3
        //# that were sent to the address for which the T3-rtx timer expired but
        //# did not fit in an SCTP packet of size smaller than or equal to the
        //# PMTU (rule E3 above) SHOULD be marked for retransmission and sent as
        //# soon as cwnd allows (normally, when a SACK chunk arrives).
        if let (Some(pmtu), Some(tsn)) = (&mut path.pmtu, up.sent.earliest(id))
            && probing.is_none()
        {
            let slot = up.sent.get(tsn).expect("outstanding chunks are kept");
            pmtu.on_large_lost(slot.packet_bytes.into(), slot.sent_at);
        }
        if self.config.paths.multipath.is_some() {
            up.tie_break = self.rng.next_u32();
        }
        if self.config.legacy.loss_recovery == LossRecovery::Rfc4960 && self.config.paths.multipath.is_none()
        {
            up.retransmissions_left = Some(1);
        } else {
            path.recovery = Recovery::AfterTimeout(up.sent.next_tsn().minus(1));
        }
        path.fast_retransmit_due = false;
        path.probe_due = false;
        path.probes_unanswered = 0;
        // Retransmitted chunks give no RTT sample (§6.3.1 C5); a HEARTBEAT in the same packet does.
        let is_measured = path.rtt.measured_srtt().is_some();
        let mut is_refused = false;
        if self.config.recovery.early_repair
            && path.params.heartbeat_interval.is_some()
            && (!is_measured || up.errors < HEARTBEATS_WITH_DATA)
        {
            if path.heartbeat.is_some_and(|heartbeat| heartbeat.with_data) {
                path.expire_heartbeat();
                // T3-rtx expires before the HEARTBEAT's own timer, which then never counts the refusal.
                is_refused = path.refused.on_unanswered_heartbeat() == Refusal::Final;
            }
            path.heartbeat_due |= path.heartbeat.is_none();
        }
        if is_refused {
            path.errors = path.errors.max(path.params.path_max_retrans);
        }
        self.timers.stop(Timer::TailProbe(id));
        self.timers.stop(Timer::Overdue(id));
        self.forward_on_timeout(id);
        //= specs/rfc9260.txt#section-6.1
        //# If the sender continues to receive SACK chunks from the peer
        //# while doing zero window probing, the unacknowledged window probes
        //# SHOULD NOT increment the error counter for the association or any
        //# destination transport address.
        if probing != Some(true) || is_refused {
            self.count_error(id, Unanswered::Data);
        }
        if is_refused && self.is_up() && self.has_no_path_left() {
            return self.give_up_peer();
        }
        self.settle_pmtu(now, id);
    }

    /// A request sent on a path was not acknowledged in time, which counts like DATA.
    pub(super) fn count_request_error(&mut self, id: PathId) {
        self.count_error(id, Unanswered::Data);
    }

    /// Counts an error of a path (RFC 9260 §8.1, §8.2; RFC 7829 §3.2).
    fn count_error(&mut self, id: PathId, unanswered: Unanswered) {
        let several = self.has_several_paths();
        let usable = self.has_usable_path();
        let State::Up(up) = &mut self.state else { return };
        let current = choose(&self.paths, up.primary, Purpose::New);
        let path = &mut self.paths[usize::from(id.0)];
        //= specs/rfc9260.txt#section-8.3
        //# After this, the endpoint SHOULD continue
        //# sending HEARTBEAT chunks on this destination address but SHOULD stop
        //# increasing the counter.
        if unanswered == Unanswered::Data || path.state != PathState::Inactive {
            path.errors = path.errors.saturating_add(1);
        }
        //= specs/rfc9260.txt#section-8.1
        //# Unacknowledged HEARTBEAT chunks observed on paths different from the
        //# path currently used for data transfer SHOULD NOT increment the
        //# association error counter
        //= specs/rfc9260.txt#section-5.4
        //# When probing UNCONFIRMED addresses, however, the
        //# association overall error count is not incremented.
        // Otherwise an association without any confirmed path (RFC 5061 §5.3 F14) would never end.
        let counts = path.state != PathState::Unconfirmed || !usable;
        // With `early_repair`, a peer whose packets arrive is reachable, whichever HEARTBEATs are lost.
        let silent = unanswered == Unanswered::Heartbeat && id == current && counts;
        if unanswered == Unanswered::Data || silent {
            up.errors += 1;
        }
        let potentially_failed = self.config.failover.potentially_failed_max_retrans.filter(|_| several);
        let state = match path.state {
            PathState::Unconfirmed => PathState::Unconfirmed,
            PathState::SetAside => PathState::SetAside,
            PathState::Removed => PathState::Removed,
            //= specs/rfc9260.txt#section-8.2
            //# When the value in the error counter exceeds the protocol parameter
            //# 'Path.Max.Retrans' of that destination address, the endpoint SHOULD
            //# mark the destination transport address as inactive, and a notification
            //# SHOULD be sent to the upper layer.
            //= specs/rfc9260.txt#section-8.3
            //# When the value of this counter exceeds the protocol parameter
            //# 'Path.Max.Retrans', the endpoint SHOULD mark the corresponding
            //# destination address as inactive if it is not so marked and SHOULD also
            //# report to the upper layer the change in reachability of this
            _ if path.errors > path.params.path_max_retrans => PathState::Inactive,
            //= specs/rfc7829.txt#section-3.2
            //# When the value in
            //# the destination address error counter exceeds PFMR, the endpoint
            //# MUST mark the destination address as in the PF state.
            PathState::Active if potentially_failed.is_some_and(|max| path.errors > max) => {
                PathState::PotentiallyFailed
            }
            unchanged => unchanged,
        };
        if std::mem::replace(&mut path.state, state) != state {
            up.sack_may_be_lost = true;
            //= specs/rfc7829.txt#section-3.2
            //# As described in [RFC4960], the sender SHOULD (i) notify the Upper
            //# Layer Protocol (ULP) about this state transition,
            //= specs/rfc7829.txt#section-3.2
            //# The SCTP stack SHOULD expose the PF state of its destination addresses
            //# to the ULP as well as provide the means to notify the ULP of state
            //# transitions of its destination addresses from active to PF, and vice
            //# versa.
            self.events.push_back(Event::Path(id, state));
        }
        if unanswered == Unanswered::Data {
            self.send_heartbeat(id);
        }
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc7829.txt#section-5
        //# When the path error counter on a set primary path exceeds PSMR,
        //# the SCTP implementation MUST autonomously select and set a new
        //# primary path.
        let errors = self.paths[usize::from(id.0)].errors;
        if id == up.primary
            && self.config.failover.primary_switchover_max_retrans.is_some_and(|max| errors > max)
        {
            //= specs/rfc7829.txt#section-5
            //# The primary path selected by the SCTP implementation MUST be the
            //# path that, at the given time, would be chosen for data transfer.
            up.primary = choose(&self.paths, up.primary, Purpose::New);
        }
        //= specs/rfc9260.txt#section-8.1
        //# If the value of this counter exceeds the limit
        //# indicated in the protocol parameter 'Association.Max.Retrans', the
        //# endpoint SHOULD consider the peer endpoint unreachable and SHALL stop
        //# transmitting any more data to it (and thus the association enters the
        //# CLOSED state).
        if up.errors > self.config.failover.association_max_retrans {
            //= specs/rfc9260.txt#section-8.1
            //# In addition, the endpoint SHOULD report the failure to the upper layer
            //# and optionally report back all outstanding user data remaining in its
            //# outbound queue.
            self.give_up_peer();
        }
    }

    /// Whether packets other than path probes can be sent on any path.
    pub(super) fn has_usable_path(&self) -> bool {
        self.paths.iter().any(Path::is_usable)
    }

    pub(super) fn has_several_paths(&self) -> bool {
        self.paths.iter().filter(|path| path.is_present()).count() > 1
    }

    /// An ASCONF sent on a path was not acknowledged in time.
    pub(super) fn count_asconf_error(&mut self, id: PathId) {
        //= specs/rfc5061.txt#section-5.1
        //# B1)  Increment the error counters and perform path failure detection
        //# on the appropriate destination address as defined in [RFC4960],
        //# Sections 8.1 and 8.2.
        self.count_error(id, Unanswered::Data);
    }

    /// Whether a HEARTBEAT is sent on this path every RTO, and not only after HB.interval.
    fn is_probed(&self, id: PathId) -> bool {
        let path = &self.paths[usize::from(id.0)];
        let avoided = self.state.up().is_some_and(|up| up.sack_avoids == Some(id));
        match path.state {
            //= specs/rfc9260.txt#section-5.4
            //# If during this probing
            //# the path becomes inactive, this rate is lowered to the normal
            //# HEARTBEAT rate.
            // If there is no other path, the association depends on this one.
            PathState::Unconfirmed => path.errors <= path.params.path_max_retrans || !self.has_usable_path(),
            //= specs/rfc7829.txt#section-3.2
            //# The HB.Interval of the Path Heartbeat function of [RFC4960] MUST
            //# be ignored for destination addresses in PF state.  Instead,
            //# HEARTBEAT chunks are sent to destination addresses in PF state
            //# once per RTO.
            //= specs/rfc7829.txt#section-3.2
            //# HEARTBEAT chunks SHOULD be sent to destination addresses in PF state,
            //# but the sending of HEARTBEATs MUST honor whether or not the Path
            //# Heartbeat function (Section 8.3 of [RFC4960]) is enabled for the
            //# destination address.
            //= specs/rfc7829.txt#section-3.2
            //# That is, if the Path Heartbeat function is disabled for the
            //# destination address in question, HEARTBEATs MUST NOT be sent.
            PathState::PotentiallyFailed => path.params.heartbeat_interval.is_some(),
            PathState::Active => path.t3_unanswered || avoided,
            PathState::Inactive => {
                let several = self.config.paths.multipath.is_some() && !uses_cmt_rules(&self.config);
                several && path.params.heartbeat_interval.is_some()
            }
            PathState::SetAside | PathState::Removed => false,
        }
    }

    /// Sends a HEARTBEAT on a path that is being probed, unless one is outstanding.
    pub(super) fn send_heartbeat(&mut self, id: PathId) {
        // After SHUTDOWN no HEARTBEAT is sent (§8.3), unless no path is usable before one is
        // acknowledged.
        let closing = matches!(self.shutdown, Shutdown::Sent { .. } | Shutdown::AckSent { .. })
            && self.has_usable_path();
        if self.is_probed(id) && !closing {
            let path = &mut self.paths[usize::from(id.0)];
            path.heartbeat_due |= path.heartbeat.is_none();
        }
    }

    /// Sends a HEARTBEAT at once on the path of SACKs, unless one is outstanding: RFC 9260 §8.3 permits
    /// it on demand. This detects an unreachable peer sooner than HB.interval would.
    pub fn probe_peer(&mut self) {
        let State::Up(up) = &self.state else { return };
        let path = &mut self.paths[usize::from(up.sack_path.0)];
        if self.shutdown == Shutdown::No && path.heartbeat.is_none() {
            path.heartbeat_due = true;
            self.has_input = true;
        }
    }

    /// The association is established: verifies paths other than that of the handshake (RFC 9260 §5.4).
    pub(super) fn begin_heartbeats(&mut self, now: Time) {
        let rto = self.paths[0].rtt.rto();
        let mut later = Duration::ZERO;
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            if self.paths[index].state != PathState::Unconfirmed {
                self.arm_heartbeat(now, id);
                self.begin_pmtu(now, id);
            } else if self.paths[index].heartbeat.is_none() {
                //= specs/rfc9260.txt#section-5.4
                //# The number of packets containing HEARTBEAT chunks sent at each RTO
                //# SHOULD be limited by the 'HB.Max.Burst' parameter.
                // HB.Max.Burst is 1 (§16).
                self.timers.arm(Timer::Heartbeat(id), now + later);
                later += rto;
            }
        }
    }

    /// Repeats the HEARTBEATs of unconfirmed paths that were sent before packets were protected. A peer
    /// that only accepts protected packets acknowledged none of them, and would otherwise receive the
    /// next one after an RTO.
    pub(super) fn probe_unconfirmed_again(&mut self) {
        for path in &mut self.paths {
            path.heartbeat_due |= path.state == PathState::Unconfirmed && path.heartbeat.is_some();
        }
    }

    /// All chunks in flight on the path were marked lost and are retransmitted in this drain, which
    /// restarts T3-rtx.
    pub(super) fn stop_idle_t3(&mut self, id: PathId) {
        let path = &mut self.paths[usize::from(id.0)];
        if path.flight_bytes == 0 {
            path.probes_unanswered = 0;
            self.timers.stop(Timer::T3Rtx(id));
            self.timers.stop(Timer::TailProbe(id));
        }
    }

    /// At the end of a drain: if only the peer's closed window prevents sending, a window probe is due
    /// after an RTO.
    pub(super) fn arm_window_probe(&mut self, now: Time) {
        let State::Up(up) = &self.state else { return };
        let path = &self.paths[usize::from(choose(&self.paths, up.primary, Purpose::New).0)];
        let blocked = up.sent.is_empty()
            && up.window == Window::Open
            && self
                .queue
                .peek_len()
                .is_some_and(|len| len.min(path.payload_max(self.queue.header_len())) > up.peer_a_rwnd);
        if blocked {
            //= specs/rfc9260.txt#section-6.1
            //# The sender SHOULD send the first zero window probe after 1 RTO
            //# when it detects that the receiver has closed its window and
            //# SHOULD increase the probe interval exponentially afterwards.
            self.timers.arm_if_idle(Timer::ZeroWindow, now + path.rtt.rto());
        }
    }

    fn on_zero_window(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc9260.txt#section-6.1
        //# A zero window probe SHOULD only be sent when all outstanding DATA
        //# chunks have been cumulatively acknowledged and no DATA chunks are in
        //# flight.
        //= specs/rfc9260.txt#section-6.1
        //# Senders MUST support zero window probing.
        if up.sent.is_empty() && up.window == Window::Open {
            up.window = Window::ProbeDue;
            self.events.push_back(Event::PeerWindowClosed);
        }
    }

    /// Arms the tail loss probe, if configured.
    pub(super) fn arm_tail_probe(&mut self, now: Time, id: PathId) {
        let path = &self.paths[usize::from(id.0)];
        let timer = Timer::TailProbe(id);
        if !self.config.recovery.tail_loss_probe || path.flight_bytes == 0 {
            return self.timers.stop(timer);
        }
        // After PROBES_MAX probes only T3-rtx remains, unless it is so long that the path would be
        // silent meanwhile.
        let at = if path.probes_unanswered < PROBES_MAX {
            path.probe_at(now, &self.config)
        } else {
            path.silence_max(&self.config).map(|most| now + most)
        };
        match at {
            Some(at) => self.timers.arm(timer, at),
            None if path.probes_unanswered < PROBES_MAX => {}
            None => self.timers.stop(timer),
        }
    }

    fn on_tail_probe(&mut self, id: PathId) {
        let path = &mut self.paths[usize::from(id.0)];
        if path.flight_bytes > 0 {
            path.probe_due = true;
            path.probes_unanswered += 1;
            path.packets_unanswered += 1;
            path.counters.probes += 1;
            // A probe may consist of retransmitted chunks, which give no RTT sample.
            let is_measured = path.rtt.measured_srtt().is_some();
            if self.config.recovery.early_repair && !is_measured && path.params.heartbeat_interval.is_some() {
                path.heartbeat_due |= path.heartbeat.is_none();
            }
        }
    }

    /// Arms the heartbeat timer of an idle path: RTO with a jitter of ±50 %, plus HB.interval (RFC 9260
    /// §8.3).
    pub(super) fn arm_heartbeat(&mut self, now: Time, id: PathId) {
        self.arm_heartbeat_since(now, now, id);
    }

    /// Arms the heartbeat timer, counted from the time when the last one was sent.
    fn arm_heartbeat_since(&mut self, left_at: Time, now: Time, id: PathId) {
        let path = &self.paths[usize::from(id.0)];
        // The running timer was that of a HEARTBEAT sent for another reason.
        let Some(interval) = path.params.heartbeat_interval else {
            return self.timers.stop(Timer::Heartbeat(id));
        };
        let rto = path.rtt.rto();
        // A single RTT sample may be exceptionally long, and a path that is unused because of it gets no
        // other sample.
        let interval = if self.is_unused_for_rtt(path) {
            interval.min(MEASURED_AGAIN_AFTER * (1 << path.heartbeats_answered.min(15)))
        } else {
            interval
        };
        //= specs/rfc9260.txt#section-8.3
        //# On an idle destination address that is allowed to heartbeat, it is
        //# RECOMMENDED that a HEARTBEAT chunk is sent once per RTO of that
        //# destination address plus the protocol parameter 'HB.interval',
        let jitter = rto.mul_f64(f64::from(self.rng.next_u32()) / f64::from(u32::MAX));
        self.timers.arm(Timer::Heartbeat(id), (left_at + interval + rto / 2 + jitter).max(now));
    }

    /// Whether a path has carried no data although data was available, because of its RTT estimate.
    fn is_unused_for_rtt(&self, path: &Path) -> bool {
        self.config.paths.multipath.is_some()
            && !uses_cmt_rules(&self.config)
            && path.data_sent_at.is_none()
            && self.queue.peek_len().is_some()
    }

    fn on_heartbeat(&mut self, now: Time, id: PathId) {
        let heard = self.packets_received();
        let path = &mut self.paths[usize::from(id.0)];
        if let Some(heartbeat) = path.expire_heartbeat() {
            //= specs/rfc9260.txt#section-8.3
            //# The endpoint SHOULD increment the respective error counter of the
            //# destination transport address each time a HEARTBEAT chunk is sent to
            //# that address and not acknowledged within one RTO.
            if !heartbeat.with_data {
                path.rtt.back_off();
            }
            let refusal = path.refused.on_unanswered_heartbeat();
            if refusal == Refusal::Final {
                path.errors = path.errors.max(path.params.path_max_retrans);
            }
            if !heartbeat.with_data || refusal == Refusal::Final {
                let is_heard = self.config.recovery.early_repair && heard > heartbeat.received_before;
                let unanswered =
                    if is_heard { Unanswered::HeartbeatOfReachablePeer } else { Unanswered::Heartbeat };
                self.count_error(id, unanswered);
            }
            if refusal == Refusal::Final && self.is_up() && self.has_no_path_left() {
                return self.give_up_peer();
            }
            if self.is_up() {
                self.paths[usize::from(id.0)].heartbeat_due |= refusal == Refusal::Again;
                self.send_heartbeat(id);
                if !self.paths[usize::from(id.0)].heartbeat_due {
                    self.arm_heartbeat_since(heartbeat.sent_at, now, id);
                }
            }
            return;
        }
        let idle_for =
            |at: Time| path.params.heartbeat_interval.is_some_and(|interval| now.since(at) >= interval);
        // A path with data in flight has T3-rtx running, and is never considered idle.
        //= specs/rfc9260.txt#section-3.3.5
        //# An endpoint SHOULD send a HEARTBEAT (HB) chunk to its peer endpoint to
        //# probe the reachability of a particular destination transport address
        //# defined in the present association.
        //= specs/rfc9260.txt#section-8.3
        //# By default, an SCTP endpoint SHOULD monitor the reachability of the
        //# idle destination transport address(es) of its peer by sending a
        //# HEARTBEAT chunk periodically to the destination transport address(es).
        let is_idle = path.flight_bytes == 0 && path.data_sent_at.is_none_or(idle_for);
        if is_idle {
            self.trim();
        }
        if is_idle || self.is_probed(id) {
            //= specs/rfc9260.txt#section-8.3
            //# Only one heartbeat SHOULD be sent each time the heartbeat timer
            //# expires (if multiple destinations are idle).
            self.paths[usize::from(id.0)].heartbeat_due = true;
        } else {
            self.arm_heartbeat(now, id);
        }
    }

    /// The number of packets received from the peer on all paths.
    fn packets_received(&self) -> u64 {
        self.paths.iter().map(|path| path.counters.packets_received).sum()
    }

    /// Returns the Heartbeat Info of a HEARTBEAT sent now on a path.
    pub(super) fn new_heartbeat(&mut self, now: Time, id: PathId) -> Bytes {
        //= specs/rfc9260.txt#section-3.3.5
        //# When a HEARTBEAT chunk is being used for path verification purposes,
        //# it MUST include a random nonce of length 64 bits or longer ([RFC4086]
        //# provides some information on randomness guidelines).
        let nonce = self.rng.next_u64();
        let has_data = self.state.up().is_some_and(|up| !up.sent.is_empty());
        let is_bundled = self.config.recovery.early_repair && has_data && !self.is_probed(id);
        let received_before = self.packets_received();
        let path = &mut self.paths[usize::from(id.0)];
        path.heartbeat_due = false;
        let with_data = is_bundled && path.packets_unanswered > 0;
        path.heartbeat = Some(PendingHeartbeat { nonce, sent_at: now, with_data, received_before });
        // If all paths are used at once, a failed path is probed more often.
        let patience = path.rtt.rto();
        let missed = self.config.paths.multipath.is_some() && !uses_cmt_rules(&self.config);
        let most = HEARTBEAT_WAIT_MAX.max(path.rtt.without_back_off());
        let patience = if missed { patience.min(most) } else { patience };
        self.timers.arm(Timer::Heartbeat(id), now + patience);
        let mut info = [id.0; HEARTBEAT_INFO_LEN];
        info[1..].copy_from_slice(&nonce.to_be_bytes());
        Bytes::copy_from_slice(&info)
    }

    pub(super) fn on_heartbeat_ack(&mut self, now: Time, info: &Bytes) {
        let State::Up(up) = &mut self.state else { return };
        let Ok(info) = <[u8; HEARTBEAT_INFO_LEN]>::try_from(&info[..]) else { return };
        let id = PathId(info[0]);
        let Some(path) = self.paths.get_mut(usize::from(id.0)) else { return };
        // The nonce proves that the peer received this HEARTBEAT, also if it is acknowledged after its
        // RTO. If a queue is longer than the RTO, every acknowledgement is late, and only these give the
        // RTT.
        let nonce = u64::from_be_bytes(info[1..].try_into().expect("nine bytes less one"));
        let Some(heartbeat) = path.take_heartbeat(nonce, self.config.recovery.early_repair) else {
            return self.on_probe_answer(now, id, nonce);
        };
        //= specs/rfc9260.txt#section-8.3
        //# Whenever a HEARTBEAT ACK chunk arrives, the sender SHOULD clear the
        //# error counter of the destination that the HEARTBEAT chunk was sent to.
        //= specs/rfc9260.txt#section-8.3
        //# The receiver of the HEARTBEAT ACK chunk SHOULD also perform an RTT
        //# measurement for that destination transport address using the time
        //# value carried in the HEARTBEAT ACK chunk.
        path.measure(now, now.since(heartbeat.sent_at));
        if self.config.recovery.early_repair {
            path.rtt.end_back_off();
        }
        path.heartbeats_answered = path.heartbeats_answered.saturating_add(1);
        path.t3_unanswered = false;
        let mut confirmed = false;
        if up.sack_avoids == Some(id) {
            up.sack_avoids = None;
        }
        //= specs/rfc9260.txt#section-8.3
        //# Upon the receipt of the HEARTBEAT ACK chunk, the sender of the
        //# HEARTBEAT chunk SHOULD clear the error counter of the destination
        //# transport address to which the HEARTBEAT chunk was sent and mark the
        //# destination transport address as active if it is not so marked.
        path.errors = 0;
        if path.flight_bytes == 0 || self.config.recovery.early_repair {
            path.timeouts_unanswered = 0;
        }
        //= specs/rfc9260.txt#section-5.4
        //# When this
        //# match occurs, the address that the original HEARTBEAT was sent to is
        //# now considered CONFIRMED and available for normal data transfer.
        //= specs/rfc7829.txt#section-3.2
        //# When the sender receives a HEARTBEAT ACK from a HEARTBEAT sent to a
        //# destination address in PF state, the sender SHOULD clear the error
        //# counter of the destination address and transition the destination
        //# address back to active state.
        if path.state != PathState::Active {
            confirmed = path.state == PathState::Unconfirmed;
            up.sack_may_be_lost |= !confirmed;
            // A path that has carried no data and lost only HEARTBEATs keeps its initial window (RFC
            // 9260 §7.2.1).
            if let Some(multipath) = self.config.paths.multipath
                && path.state == PathState::PotentiallyFailed
                && path.data_sent_at.is_some()
            {
                path.controller
                    .restart_window(usize::from(multipath.window_after_failure.get()) * path.pmdcs());
            }
            path.state = PathState::Active;
            //= specs/rfc9260.txt#section-8.3
            //# The endpoint SHOULD report to the upper layer when an inactive
            //# destination address is marked as active due to the reception of the
            //# latest HEARTBEAT ACK chunk.
            self.events.push_back(Event::Path(id, PathState::Active));
        }
        // While data is outstanding, the error counter is controlled by data (§8.1).
        //= specs/rfc9260.txt#section-8.1
        //# When a HEARTBEAT ACK chunk is received from the peer endpoint, the
        //# counter SHOULD also be reset.
        //= specs/rfc9260.txt#section-8.3
        //# The receiver of the HEARTBEAT ACK chunk SHOULD also clear the
        //# association overall error count (as defined in Section 8.1).
        if up.sent.is_empty() {
            up.errors = 0;
        }
        if confirmed {
            self.on_confirmed(id);
        }
        if !matches!(self.shutdown, Shutdown::Sent { .. } | Shutdown::AckSent { .. }) {
            // The timer belongs to the outstanding HEARTBEAT; this acknowledged an earlier one.
            if self.paths[usize::from(id.0)].heartbeat.is_none() {
                self.arm_heartbeat(now, id);
            }
            self.begin_pmtu(now, id);
        }
    }

    /// Returns how long a path has sent no data, if longer than its RTO.
    pub(super) fn idle_for(&self, now: Time, id: PathId) -> Option<Duration> {
        let path = &self.paths[usize::from(id.0)];
        let idle_for = now.since(path.data_sent_at?);
        (path.flight_bytes == 0 && idle_for >= path.rtt.rto()).then_some(idle_for)
    }
}
