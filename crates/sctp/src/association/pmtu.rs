//! Datagram Packetization Layer Path MTU Discovery (RFC 8899) for one path: the state machine, which handles
//! sizes and counts. `mtu_probes` provides nonces and time, and sends the probes.
//!
//! All sizes are of SCTP packets. A path begins with the configured size, which needs no probe if
//! packets of that size arrive. If packets are lost while smaller ones arrive, the path falls back to the
//! base size and searches again.

use std::time::Duration;

use braidftp_base::Time;

use crate::config::MtuDiscovery;

/// MAX_PROBES (RFC 8899 §5.1.2).
const MAX_PROBES: u32 = 3;
/// This many consecutive losses of large packets, while none arrives, indicate a black hole.
const BLACK_HOLE_LOSSES: u32 = 2;
/// Below BASE_PLPMTU the search ends when the size is so close to one that is too large, in bytes.
const CLOSE_BYTES: usize = 32;
/// The minimum link MTU of IPv6 (RFC 8200).
const IPV6_MTU_MIN: usize = 1_280;

/// The phases of discovery (RFC 8899 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Connectivity is not confirmed.
    Disabled,
    /// BASE_PLPMTU is being confirmed.
    Base,
    /// Larger sizes are probed.
    Searching,
    /// No larger size is probed for now.
    SearchComplete,
    /// Not even BASE_PLPMTU is confirmed: MIN_PLPMTU is used, and being confirmed.
    Error,
}

/// The timer that discovery needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// None.
    None,
    /// PROBE_TIMER, for the acknowledgement of a probe.
    Answer,
    /// PMTU_RAISE_TIMER, for the next search.
    Raise(Duration),
}

/// The state of discovery on one path.
//= specs/rfc6951.txt#section-5.6
//# When performing Path MTU discovery as described in [RFC4820] and
//# [RFC4821], it MUST be taken into account that one cannot rely on the
//# feedback provided by ICMP or ICMPv6 due to the limitation laid out in
//# Section 5.5.
#[derive(Debug)]
pub(super) struct Pmtu {
    min: usize,
    base: usize,
    max: usize,
    raise_after: Duration,
    link_mtus: &'static [usize],
    /// Bytes of the IP and UDP headers.
    overhead: usize,
    phase: Phase,
    /// The PLPMTU.
    size: usize,
    /// PROBED_SIZE.
    probed: usize,
    /// The least size of this search that was probed in vain, at most BASE_PLPMTU.
    too_large: Option<usize>,
    /// A size below BASE_PLPMTU that a router reported, to be probed first.
    reported: Option<usize>,
    /// PROBE_COUNT.
    count: u32,
    /// The nonce of the outstanding probe.
    probe: Option<u64>,
    /// When the last probe was sent.
    pub(super) probe_sent_at: Time,
    due: bool,
    large_losses: u32,
    /// When the large packet that was last lost had been sent.
    lost_sent_at: Time,
    /// When the last large packet that arrived was sent; large means above the fallback size.
    arrived_sent_at: Time,
    /// The purpose for which the association's timer runs.
    pub(super) armed: WaitFor,
}

impl Pmtu {
    /// Starts with packets of `size`.
    pub(super) fn new(settings: &MtuDiscovery, size: usize, family: Family) -> Self {
        let (overhead, least) = match family {
            Family::V4 => (28, 0),
            Family::V6 => (48, IPV6_MTU_MIN - 48),
        };
        let size = size & !3;
        let max = settings.max.max(size) & !3;
        let min = settings.min.max(least).min(size) & !3;
        let base = settings.base.clamp(min, max) & !3;
        Self {
            min,
            base,
            max,
            raise_after: settings.raise_after,
            link_mtus: settings.link_mtus,
            overhead,
            phase: Phase::Disabled,
            size,
            probed: size,
            too_large: None,
            reported: None,
            count: 0,
            probe: None,
            probe_sent_at: Time::ZERO,
            due: false,
            large_losses: 0,
            lost_sent_at: Time::ZERO,
            arrived_sent_at: Time::ZERO,
            armed: WaitFor::None,
        }
    }

    /// The current PLPMTU.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    #[cfg(test)]
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// The size of the probe to send, if one is due.
    pub(super) fn due(&self) -> Option<usize> {
        self.due.then_some(self.probed)
    }

    /// The timer that is needed now.
    pub(super) fn wait_for(&self) -> WaitFor {
        match self.phase {
            _ if self.probe.is_some() => WaitFor::Answer,
            //= specs/rfc8899.txt#section-6.2.1.3
            //# Since SCTP provides an acknowledged PL, a sender MUST NOT implement
            //# the CONFIRMATION_TIMER while in the SEARCH_COMPLETE state.
            //= specs/rfc8899.txt#section-5.1.1
            //# When an acknowledged PL is used, this timer MUST NOT be used.
            //= specs/rfc8899.txt#section-5.2
            //# When used with an acknowledged PL (e.g., SCTP), DPLPMTUD SHOULD NOT
            //# continue to generate PLPMTU probes in this state.
            Phase::SearchComplete if self.size < self.max => WaitFor::Raise(self.raise_after),
            _ => WaitFor::None,
        }
    }

    /// The peer responded on this path for the first time.
    pub(super) fn on_connected(&mut self) {
        if self.phase == Phase::Disabled {
            if self.size < self.base {
                self.enter(Phase::Base, self.base);
            } else {
                self.search();
            }
        }
    }

    /// A probe was sent.
    //= specs/rfc8899.txt#section-3
    //# When the transmission of probe packets is not controlled by the
    //# congestion controller, the interval between probe packets MUST be at
    //# least one RTT.
    //= specs/rfc8899.txt#section-8
    //# To avoid excessive load, the interval between individual probe packets
    //# MUST be at least one RTT, and the interval between rounds of probing is
    //# determined by the PMTU_RAISE_TIMER.
    pub(super) fn on_sent(&mut self, nonce: u64) {
        self.due = false;
        self.probe = Some(nonce);
    }

    /// A HEARTBEAT ACK arrived; returns whether it acknowledges the outstanding probe.
    //= specs/rfc8899.txt#section-4.1
    //# Probe messages sent by a PL MUST contain enough information to
    //# uniquely identify the probe within the Maximum Segment Lifetime
    //# (e.g., including a unique identifier from the PL or the DPLPMTUD
    //# implementation), while being robust to reordering and replay of probe
    //# response and PTB messages.
    //= specs/rfc8899.txt#section-3
    //# Datagram delay and duplication: The feedback mechanism is REQUIRED to be
    //# robust to the possibility that packets could be significantly delayed or
    //# duplicated along a network path.
    //= specs/rfc8899.txt#section-3
    //# Datagram reordering: A method is REQUIRED to be robust to the
    //# possibility that a flow encounters reordering or that the traffic
    //# (including probe packets) is divided over more than one network path.
    pub(super) fn on_answer(&mut self, nonce: u64) -> bool {
        if self.probe != Some(nonce) {
            return false;
        }
        self.probe = None;
        self.count = 0;
        self.large_losses = 0;
        self.arrived_sent_at = Time::ZERO;
        self.size = self.probed;
        self.search();
        true
    }

    /// The timer expired.
    //= specs/rfc8899.txt#section-3
    //# The PL is REQUIRED to be robust in the case where probe packets are lost
    //# due to other reasons (including link transmission error, congestion).
    pub(super) fn on_timeout(&mut self) {
        if self.probe.take().is_some() {
            self.count += 1;
            if self.count < MAX_PROBES {
                self.due = true;
                return;
            }
            match self.phase {
                Phase::Base => {
                    self.size = self.min;
                    self.enter(Phase::Error, self.min);
                }
                Phase::Error => self.phase = Phase::Disabled,
                _ if self.probed <= self.base => {
                    // A router's report may be false, so that it limits nothing.
                    match self.reported == Some(self.probed) {
                        true => self.reported = None,
                        false => self.too_large = Some(self.probed),
                    }
                    self.search();
                }
                _ => self.phase = Phase::SearchComplete,
            }
        } else if self.phase == Phase::SearchComplete {
            self.too_large = None;
            self.search();
        }
    }

    //= specs/rfc8899.txt#section-4.3
    //# A DPLPMTUD method MUST NOT rely solely on this method.
    /// A packet of this size was lost repeatedly or in a time-out. This says nothing about the size if
    /// another packet as large was sent later and arrived: the path then loses packets of any size.
    /// Packets sent at the same time count once, since one burst of losses affects all of them.
    pub(super) fn on_large_lost(&mut self, size: usize, sent_at: Time) {
        let same_burst = self.large_losses > 0 && sent_at <= self.lost_sent_at;
        if size <= self.size && size > self.floor() && sent_at > self.arrived_sent_at && !same_burst {
            self.lost_sent_at = sent_at;
            self.large_losses += 1;
            if self.large_losses >= BLACK_HOLE_LOSSES {
                self.fall();
            }
        }
    }

    /// A packet of this size arrived unfragmented.
    pub(super) fn on_large_arrived(&mut self, size: usize, sent_at: Time) {
        if size <= self.size && size > self.floor() {
            self.large_losses = 0;
            self.arrived_sent_at = self.arrived_sent_at.max(sent_at);
        }
    }

    /// A router reported the maximum size of an SCTP packet; its report was validated.
    //= specs/rfc8899.txt#section-3
    //# Any received PTB message MUST be validated before it is used to update
    //# the PLPMTU discovery information [RFC8201].
    //= specs/rfc8899.txt#section-6.2.1.4
    //# When a PTB message has been validated, the PL_PTB_SIZE calculated from
    //# the PTB_SIZE reported in the PTB message SHOULD be used with the
    //# DPLPMTUD algorithm, provided that the reported PL_PTB_SIZE is less than
    //# the current probe size (see Section 4.6).
    //= specs/rfc8899.txt#section-6.2.2.4
    //# When the validation is completed, the PL_PTB_SIZE calculated from the
    //# PTB_SIZE in the PTB message SHOULD be used with the DPLPMTUD providing
    //# that the reported PL_PTB_SIZE is less than the current probe size.
    pub(super) fn on_too_big(&mut self, size: usize) {
        let size = size & !3;
        //= specs/rfc8899.txt#section-3
        //# A
        //# PTB message MUST NOT be used to increase the PLPMTU [RFC8201] but
        //# could trigger a probe to test for a larger PLPMTU.
        //= specs/rfc8899.txt#section-3
        //# A PL_PTB_SIZE that is greater than
        //# that currently probed SHOULD be ignored.
        let probed = if self.probe.is_some() { self.probed } else { self.size };
        if self.phase == Phase::Disabled || size < self.min || size >= probed.max(self.size) {
            return;
        }
        if size < self.base {
            self.size = self.min;
            self.too_large = None;
            self.reported = Some(size);
            self.enter(Phase::Error, self.min);
        } else if size < self.size {
            //= specs/rfc8899.txt#section-4.6.2
            //# The PLPMTU SHOULD
            //# be set to BASE_PLPMTU (the PLPMTU is reduced to the BASE_PLPMTU
            //# to avoid unnecessary packet loss when a black hole is
            //# encountered).
            self.size = self.base;
            self.try_next(size);
        } else if size == self.size {
            self.give_up_probe();
            self.phase = Phase::SearchComplete;
        } else {
            self.try_next(size);
        }
    }

    /// The size that is used after a black hole was detected.
    fn floor(&self) -> usize {
        if self.size > self.base { self.base } else { self.min }
    }

    fn fall(&mut self) {
        self.size = self.floor();
        self.too_large = None;
        self.reported = None;
        if self.size < self.base {
            self.enter(Phase::Error, self.min);
        } else {
            self.enter(Phase::Base, self.base);
        }
    }

    /// Continues with the next size. Below BASE_PLPMTU these are a reported size, BASE_PLPMTU, and if that is too large the
    /// middle between the size and what is too large, again and again.
    fn search(&mut self) {
        let reported = self.reported.filter(|reported| *reported > self.size);
        let too_large = self.too_large.filter(|too_large| *too_large > self.size);
        if self.size >= self.max || too_large.is_some_and(|it| it - self.size <= CLOSE_BYTES) {
            self.give_up_probe();
            self.phase = Phase::SearchComplete;
        } else if let Some(size) = reported.or(too_large.map(|it| self.size.midpoint(it) & !3)) {
            self.enter(Phase::Searching, size);
        } else {
            let steps = self.link_mtus.iter().map(|mtu| mtu.saturating_sub(self.overhead) & !3);
            let next = steps.chain([self.base]).filter(|step| *step > self.size && *step < self.max).min();
            self.try_next(next.unwrap_or(self.max));
        }
    }

    fn try_next(&mut self, size: usize) {
        if size > self.size {
            self.enter(Phase::Searching, size.min(self.max));
        } else {
            self.search();
        }
    }

    fn enter(&mut self, phase: Phase, probed: usize) {
        self.give_up_probe();
        self.phase = phase;
        self.probed = probed;
        self.due = true;
    }

    fn give_up_probe(&mut self) {
        self.probe = None;
        self.due = false;
        self.count = 0;
        self.large_losses = 0;
    }
}

/// The IP version of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

#[cfg(test)]
#[path = "tests/pmtu_machine.rs"]
mod tests;
