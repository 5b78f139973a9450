//! Probes of path MTU discovery: a HEARTBEAT and a PAD chunk in a packet of the probed size (RFC 8899 §6.2).

use std::time::Duration;

use braidftp_base::Time;
use bytes::Bytes;
use rand_core::Rng;

use crate::association::expiry::HEARTBEAT_INFO_LEN;
use crate::association::pmtu::{Pmtu, WaitFor};
use crate::association::state::{Shutdown, Window};
use crate::association::timers::Timer;
use crate::association::{Association, Transmit};
use crate::ids::{PathId, VerificationTag};
use crate::route::Route;
use crate::stats::PathState;
use crate::wire::Chunk;

/// The minimum of PROBE_TIMER (RFC 8899 §5.1.1), which is otherwise the RTO.
//= specs/rfc8899.txt#section-5.1.1
//# This value MUST NOT be smaller than 1 second and
//# SHOULD be larger than 15 seconds.
const PROBE_TIMER_MIN: Duration = Duration::from_secs(1);

impl Association {
    /// The peer responded on this path: starts discovery.
    pub(super) fn begin_pmtu(&mut self, now: Time, id: PathId) {
        if let Some(pmtu) = &mut self.paths[usize::from(id.0)].pmtu {
            pmtu.on_connected();
            self.settle_pmtu(now, id);
        }
    }

    /// Applies the results of discovery: a new packet size and the timer.
    pub(super) fn settle_pmtu(&mut self, now: Time, id: PathId) {
        let path = &mut self.paths[usize::from(id.0)];
        let Some(size) = path.pmtu.as_ref().map(Pmtu::size) else { return };
        if path.mtu != size {
            path.mtu = size;
            //= specs/rfc8899.txt#section-3
            //# An update to the
            //# PLPMTU (or MPS) MUST NOT increase the congestion window measured
            //# in bytes [RFC4821].
            path.controller.on_mtu(path.pmdcs());
        }
        let Some(pmtu) = &mut path.pmtu else { return };
        let (timer, wait_for) = (Timer::Pmtu(id), pmtu.wait_for());
        if std::mem::replace(&mut pmtu.armed, wait_for) != wait_for {
            match wait_for {
                WaitFor::None => self.timers.stop(timer),
                WaitFor::Answer => self.timers.arm(timer, now + path.rtt.rto().max(PROBE_TIMER_MIN)),
                WaitFor::Raise(after) => self.timers.arm(timer, now + after),
            }
        }
    }

    pub(super) fn on_pmtu_timer(&mut self, now: Time, id: PathId) {
        if let Some(pmtu) = &mut self.paths[usize::from(id.0)].pmtu {
            //= specs/rfc8899.txt#section-3
            //# Loss of a probe packet SHOULD NOT be treated as an
            //# indication of congestion and SHOULD NOT trigger a congestion
            //# control reaction [RFC4821]
            pmtu.armed = WaitFor::None;
            pmtu.on_timeout();
            self.settle_pmtu(now, id);
        }
    }

    /// Processes a HEARTBEAT ACK that matches no HEARTBEAT of the path; it may acknowledge a probe.
    pub(super) fn on_probe_answer(&mut self, now: Time, id: PathId, nonce: u64) {
        let path = &mut self.paths[usize::from(id.0)];
        if path.pmtu.as_mut().is_some_and(|pmtu| pmtu.on_answer(nonce)) {
            //= specs/rfc8899.txt#section-6.2.1.2
            //# A
            //# successful probe updates the association and path counters, but an
            //# unsuccessful probe is discounted (assumed to be a result of choosing
            //# too large a PLPMTU).
            path.errors = 0;
            if self.config.recovery.early_repair
                && let Some(sent_at) = path.pmtu.as_ref().map(|pmtu| pmtu.probe_sent_at)
            {
                path.measure(now, now.since(sent_at));
                path.rtt.end_back_off();
                path.timeouts_unanswered = 0;
            }
            self.settle_pmtu(now, id);
        }
    }

    /// Returns the probe to send on this path.
    pub(super) fn transmit_probe(&mut self, now: Time, id: PathId, tag: VerificationTag) -> Option<Transmit> {
        let path = &self.paths[usize::from(id.0)];
        let closing = matches!(self.shutdown, Shutdown::Sent { .. } | Shutdown::AckSent { .. });
        // Probes of the peer's closed window end in time-outs that say nothing about the path.
        let window_is_open = self.state.up().is_some_and(|up| up.window == Window::Open);
        let is_struggling = self.config.recovery.early_repair && window_is_open && path.is_struggling();
        if path.state != PathState::Active || closing || is_struggling {
            return None;
        }
        let size = path.pmtu.as_ref()?.due()?;
        let nonce = self.rng.next_u64();
        let mut info = [id.0; HEARTBEAT_INFO_LEN];
        info[1..].copy_from_slice(&nonce.to_be_bytes());
        //= specs/rfc8899.txt#section-6.2.1.2
        //# Probe packets consist of an SCTP common header followed by a
        //# HEARTBEAT chunk and a PAD chunk.
        //= specs/rfc8899.txt#section-6.2
        //# The PAD chunk defined in [RFC4820] SHOULD be attached
        //# to a minimum-length HEARTBEAT (HB) chunk to build a probe packet.
        //= specs/rfc8899.txt#section-6.2
        //# The RECOMMENDED method for generating probes is to add a chunk
        //# consisting only of padding to an SCTP message.
        //= specs/rfc8899.txt#section-3
        //# Probe loss recovery: It is RECOMMENDED to use probe packets that do not
        //# carry any user data that would require retransmission if lost.
        //= specs/rfc8899.txt#section-3
        //# Flow control SHOULD NOT apply to DPLPMTU when probe packets use a design
        //# that does not carry user data to the remote application.
        self.begin_sized(tag, size);
        self.builder.push(&Chunk::Heartbeat(Bytes::copy_from_slice(&info)));
        let room = self.builder.room_for(Chunk::PAD).saturating_sub(Chunk::HEADER_LEN);
        self.builder.push(&Chunk::Pad(u16::try_from(room).unwrap_or(!3)));
        let path = &mut self.paths[usize::from(id.0)];
        let pmtu = path.pmtu.as_mut()?;
        pmtu.on_sent(nonce);
        pmtu.probe_sent_at = now;
        self.settle_pmtu(now, id);
        Some(self.finish(id))
    }

    /// A router reports that it forwards SCTP packets of at most this size on the route; the caller has
    /// verified that the quoted packet is ours.
    pub(crate) fn on_packet_too_big(&mut self, now: Time, route: Route, size: usize) {
        let index = self.paths.iter().position(|path| path.route() == route);
        if let Some(index) = index
            && let Some(pmtu) = &mut self.paths[index].pmtu
        {
            pmtu.on_too_big(size);
            self.has_input = true;
            self.settle_pmtu(now, PathId(index as u8));
        }
    }
}
