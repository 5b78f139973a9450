//! Retransmission during the handshake: T1-init and T1-cookie (RFC 9260 §5.1, §6.3), the TSNs and tags of
//! retransmitted INITs, and the first flight of the passive side.

use std::time::Duration;

use braidftp_base::Time;
use bytes::Bytes;

use crate::association::path::{RANDOM_LOSSES_MAX, backed_off};
use crate::association::state::State;
use crate::association::timers::Timer;
use crate::association::{Association, Reason};
use crate::ids::PathId;
use crate::wire::{Init, Parameter};

/// The type of the parameter that numbers a retransmitted INIT. IANA has not assigned it. Its two high
/// bits make a receiver that does not support it skip and report it (RFC 9260 §3.2.1), so the INIT ACK
/// identifies the INIT that it answers.
const INIT_NUMBER: u16 = 0xFFA5;
/// The number of times that COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK is sent with the interval of a tail
/// loss probe before T1-cookie or T2 follows the RTO.
const CONTROL_PROBES: u32 = 4;
/// One INIT in this many is not numbered, for peers that discard an INIT with an unknown parameter.
const PLAIN_INIT_EVERY: u32 = 8;
/// The minimum time between two retransmissions of the first flight, if the RTT is shorter.
const FIRST_FLIGHT_INTERVAL_MIN: Duration = Duration::from_millis(10);

impl Association {
    /// Arms T1 for the `retry`-th retransmission of INIT or COOKIE ECHO. Addresses are tried one after
    /// the other with a single timer, each with the RTO of its path.
    //= specs/rfc9260.txt#section-5.1
    //# If the
    //# application provided multiple IP addresses of the peer, there
    //# SHOULD be a T1-init and T1-cookie timer for each address of the
    //# peer.
    // Addresses are tried in sequence: one timer runs at a time, with the RTO of its address.
    pub(super) fn arm_t1(&mut self, now: Time, retry: u32) {
        let path = self.handshake_path(retry);
        let wait = match (&self.state, retry.checked_sub(self.copies())) {
            (_, None) => self.config.handshake.copy_after.unwrap_or_default(),
            (State::CookieWait { sent_at, .. }, Some(retry)) => {
                let elapsed = sent_at.first().map_or(Duration::ZERO, |first| now.since(*first));
                self.init_wait(path, elapsed, retry)
            }
            // The RTT of the path of the INIT ACK was measured.
            (_, Some(retry)) if retry < self.control_probes() => self.control_wait(PathId(0), retry),
            (_, Some(retry)) => self.control_wait(path, retry),
        };
        // A copy does not put off what follows it.
        let is_after_copy = retry > 0 && retry == self.copies();
        let passed = self.config.handshake.copy_after.filter(|_| is_after_copy).unwrap_or_default();
        self.timers.arm(Timer::T1, now + wait.saturating_sub(passed));
    }

    /// The number of copies that follow the first INIT or COOKIE ECHO before T1 decides (`Config.handshake.copy_after`). The
    /// retransmissions are counted with them.
    pub(in crate::association) fn copies(&self) -> u32 {
        let is_one_packet = match self.state {
            State::CookieWait { .. } => true,
            // Messages of key management take several packets, whose copies would delay what follows on a slow link.
            _ => self.dtls_agreement().is_none(),
        };
        u32::from(self.config.handshake.copy_after.is_some() && is_one_packet)
    }

    /// The wait for an INIT ACK of `path` after `retry` retransmissions, `elapsed` after the first INIT: the RTO
    /// of the destination, or as `Config.handshake.init_interval` says.
    fn init_wait(&self, path: PathId, elapsed: Duration, retry: u32) -> Duration {
        let Some(interval) = self.config.handshake.init_interval else {
            return self.paths[usize::from(path.0)].rtt.rto();
        };
        let wait = interval.max(elapsed / 4);
        if retry < RANDOM_LOSSES_MAX { wait.min(self.config.timers.rto.initial) } else { wait }
    }

    /// The wait for the response to COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK after `retry` retransmissions:
    /// first that of a tail loss probe, and then the RTO, within `Path::bounded_wait`.
    pub(in crate::association) fn control_wait(&self, path: PathId, retry: u32) -> Duration {
        let path = &self.paths[usize::from(path.0)];
        // An upper bound of the RTT may be many RTTs long, and is not doubled.
        let growth = if path.rtt.is_bound() { 1 } else { backed_off(retry) };
        let as_probe = path.two_round_trips().filter(|_| retry < self.control_probes());
        as_probe.map_or_else(|| path.bounded_wait(&self.config, retry), |wait| wait * growth)
    }

    /// The number of times that COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK is sent before its timer follows
    /// the RTO.
    pub(in crate::association) fn control_probes(&self) -> u32 {
        if self.config.recovery.tail_loss_probe { CONTROL_PROBES } else { 0 }
    }

    /// T1 expired.
    pub(in crate::association) fn on_t1(&mut self, now: Time) {
        let (copies, probes) = (self.copies(), self.control_probes());
        // Copies and probes do not count towards Max.Init.Retransmits.
        let mut max = self.config.handshake.max_init_retransmits + copies;
        let retry = match &mut self.state {
            //= specs/rfc9260.txt#section-4
            //# 2)  If the T1-init timer expires, the endpoint MUST retransmit the
            //# INIT chunk and restart the T1-init timer.
            State::CookieWait { retry, init_due, .. } => {
                *retry += 1;
                *init_due = true;
                *retry
            }
            //= specs/rfc9260.txt#section-4
            //# 3)  If the T1-cookie timer expires, the endpoint MUST retransmit
            //# COOKIE ECHO chunk and restart the T1-cookie timer.
            //= specs/rfc9260.txt#section-5.1.4
            //# If the timer expires, the endpoint MUST retransmit the COOKIE ECHO
            //# chunk and restart the T1-cookie timer.
            State::CookieEchoed { retry, cookie_due, up, .. } => {
                *retry += 1;
                *cookie_due = true;
                for (index, path) in self.paths.iter_mut().enumerate() {
                    path.flight_bytes -= up.sent.mark_path_lost(PathId(index as u8));
                }
                max += probes;
                *retry
            }
            State::Up(_) | State::Closed(_) => return,
        };
        if retry <= max || self.is_cookie_ack_under_way(now) {
            //= specs/rfc9260.txt#section-5.1
            //# The T1-init timer and T1-cookie timer SHOULD follow the same rules
            //# given in Section 6.3.
            //= specs/rfc9260.txt#section-5.1.6
            //# When retransmitting the INIT chunk, the endpoint MUST follow the rules
            //# defined in Section 6.3 to determine the proper timer value.
            let follows_rto = match &self.state {
                State::CookieWait { .. } => self.config.handshake.init_interval.is_none(),
                _ => retry >= probes + copies,
            };
            if follows_rto && retry > copies {
                let path = self.handshake_path(retry - 1);
                self.paths[usize::from(path.0)].rtt.back_off();
            }
            self.arm_t1(now, retry);
        } else {
            //= specs/rfc9260.txt#section-4
            //# This MUST be
            //# repeated up to 'Max.Init.Retransmits' times.  After that, the
            //# endpoint MUST abort the initialization process and report the
            //# error to the SCTP user.
            self.close(Reason::NoAnswer);
        }
    }

    /// Whether a COOKIE ACK may still arrive: less than two round trips have passed since the first COOKIE ECHO. On a path with a queue
    /// of many seconds, retransmissions that follow no RTO reach their number sooner.
    fn is_cookie_ack_under_way(&self, now: Time) -> bool {
        let round_trip = self.paths[0].rtt.measured_srtt().unwrap_or(self.renewal.init_took);
        let since = self.renewal.cookie_sent_at.map(|sent_at| now.since(sent_at));
        matches!(self.state, State::CookieEchoed { .. })
            && self.config.recovery.early_repair
            && since.is_some_and(|since| since < round_trip * 2)
    }

    /// Returns the INIT after `retry` retransmissions. Retransmissions carry [`INIT_NUMBER`], except for
    /// one in [`PLAIN_INIT_EVERY`].
    pub(in crate::association) fn init_to_send(&self, retry: u32) -> Init {
        let mut init = self.init();
        if self.config.handshake.init_interval.is_some() && !retry.is_multiple_of(PLAIN_INIT_EVERY) {
            init.parameters.push(Parameter::Unknown { kind: INIT_NUMBER, raw: init_number_parameter(retry) });
        }
        init
    }

    /// Measures the RTT from INIT to INIT ACK, which arrived on `path`.
    pub(super) fn measure_init(&mut self, now: Time, path: PathId, init_ack: &Init) {
        let State::CookieWait { retry, sent_at, .. } = &self.state else { return };
        if !self.config.legacy.measure_handshake {
            return;
        }
        let reports = |number: &u32| {
            let raw = init_number_parameter(*number);
            init_ack.parameters.iter().any(|p| matches!(p, Parameter::Unrecognized(report) if *report == raw))
        };
        let number = (1..=*retry).find(reports);
        let Some(first) = sent_at.first() else { return };
        let (takes_bound, copies) = (self.config.handshake.init_interval.is_some(), self.copies());
        // Only retransmitted INITs are sent to other addresses than the first.
        let path = if takes_bound { path } else { PathId(0) };
        let path = &mut self.paths[usize::from(path.0)];
        match number.and_then(|number| sent_at.get(number as usize)) {
            Some(sent_at) => path.measure(now, now.since(*sent_at)),
            // An INIT that was sent once gives an RTT sample like a DATA chunk (§6.3.1). If its copy was answered by a peer that does
            // not report the number, the sample is too long by `copy_after`.
            None if *retry <= copies => path.measure(now, now.since(*first)),
            // Karn's algorithm (§6.3.1 C5): only an upper bound. It is exact if the peer reports
            // parameters and answered the first INIT.
            None if takes_bound => {
                path.rtt.on_upper_bound(now.since(*first).min(self.config.timers.rto.initial))
            }
            None => {}
        }
    }

    /// Responds to a retransmitted COOKIE ECHO. The peer has received neither COOKIE ACK nor any DATA
    /// since, so all DATA in flight is retransmitted; only until the peer has acknowledged a chunk.
    /// Back-off of RTO ends.
    ///
    /// Anyone who has the cookie can repeat it endlessly, so the retransmissions are at least an RTT
    /// apart, and further apart the more there were, up to RTO.Initial.
    pub(super) fn repair_first_flight(&mut self, now: Time) {
        let State::Up(up) = &mut self.state else { return };
        let heard = up.sent.has_been_acknowledged();
        let round_trip = self.paths[0].rtt.srtt().unwrap_or(self.config.timers.rto.initial);
        let interval = round_trip.max(FIRST_FLIGHT_INTERVAL_MIN);
        let interval = (interval * backed_off(up.first_flight_repairs))
            .min(interval.max(self.config.timers.rto.initial));
        let early = up.first_flight_sent_at.is_none_or(|at| now.since(at) < interval);
        if !self.config.recovery.early_repair || heard || early {
            return;
        }
        up.first_flight_sent_at = Some(now);
        up.first_flight_repairs += 1;
        for (index, path) in self.paths.iter_mut().enumerate() {
            let id = PathId(index as u8);
            path.flight_bytes -= up.sent.mark_path_lost(id);
            path.rtt.end_back_off();
            (path.timeouts_unanswered, path.probes_unanswered, path.packets_unanswered) = (0, 0, 0);
            for timer in [Timer::T3Rtx(id), Timer::TailProbe(id), Timer::Overdue(id)] {
                self.timers.stop(timer);
            }
        }
    }
}

/// The parameter that numbers a repeated INIT, as bytes.
fn init_number_parameter(number: u32) -> Bytes {
    let mut raw = [0; 8];
    raw[..2].copy_from_slice(&INIT_NUMBER.to_be_bytes());
    raw[2..4].copy_from_slice(&8_u16.to_be_bytes());
    raw[4..].copy_from_slice(&number.to_be_bytes());
    Bytes::copy_from_slice(&raw)
}
