//! SCTP congestion control: RFC 9260 §7.2.1 to §7.2.3, byte for byte.
//!
//! The transport detects losses and ensures "at most one reduction per recovery" (§7.2.4). "MTU" is the RFC's
//! PMDCS: the bytes of DATA chunks that fit a packet of the path.

use crate::hystart::{Advice, CSS_GROWTH_DIVISOR, HyStart};
use crate::{Ack, Cause, Congestion, Controller, GrowsOn, Idle, IdleRule, Options, PartialBytes, SlowStart};

/// "Arbitrarily high" (RFC 9260 §7.2.1): the largest window a peer can advertise.
const SSTHRESH_INITIAL: usize = u32::MAX as usize;
/// Above any bandwidth-delay product that 32-bit windows allow.
const WINDOW_MAX: usize = u32::MAX as usize;

/// The controller of RFC 9260 §7.2.
//= specs/rfc9260.txt#section-7.2
//# The slow-start and congestion avoidance algorithms MUST be used by an
//# endpoint to control the amount of data being injected into the
//# network.
//= specs/rfc9260.txt#section-7.2
//# In some situations, it might be beneficial for an SCTP sender to be
//# more conservative than the algorithms allow; however, an SCTP sender
//# MUST NOT be more aggressive than the following algorithms allow.
#[derive(Debug, Clone)]
pub struct Sctp {
    mtu: usize,
    byte_counting_limit: usize,
    floor_mtus: usize,
    grows_on: GrowsOn,
    partial_bytes: PartialBytes,
    idle_rule: IdleRule,
    cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    hystart: Option<HyStart>,
}

impl Sctp {
    /// Creates a controller for a path on which nothing was sent yet.
    pub fn new(options: Options, mtu: usize) -> Self {
        //= specs/rfc9260.txt#section-7.2.1
        //# The initial cwnd before data transmission MUST be set to min(4 *
        //# PMDCS, max(2 * PMDCS, 4404)) bytes if the peer address is an IPv4
        //# address and to min(4 * PMDCS, max(2 * PMDCS, 4344)) bytes if the
        //# peer address is an IPv6 address.
        let cwnd = options.initial_window.bytes(mtu);
        Self {
            mtu,
            byte_counting_limit: usize::from(options.byte_counting_limit.get()),
            floor_mtus: usize::from(options.floor_mtus.get()),
            grows_on: options.grows_on,
            partial_bytes: options.partial_bytes,
            idle_rule: options.idle_rule,
            cwnd,
            //= specs/rfc9260.txt#section-7.2.1
            //# The initial value of ssthresh SHOULD be arbitrarily high (e.g.,
            //# the size of the largest-possible advertised window).
            ssthresh: options.initial_ssthresh.map_or(SSTHRESH_INITIAL, |bytes| bytes as usize),
            partial_bytes_acked: 0,
            hystart: (options.slow_start == SlowStart::HyStart).then(HyStart::default),
        }
    }

    fn halved(&self) -> usize {
        (self.cwnd / 2).max(self.floor())
    }

    fn floor(&self) -> usize {
        self.floor_mtus * self.mtu
    }

    fn grow(&mut self, by: usize) {
        self.cwnd = self.cwnd.saturating_add(by).min(WINDOW_MAX);
    }
}

impl Controller for Sctp {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        self.mtu = ack.mtu;
        let fully_used = ack.flight_before >= self.cwnd;
        let may_grow = self.grows_on == GrowsOn::AnyAck || ack.cum_advanced;
        if !may_grow {
            // RFC 4960 does not count these bytes at all, not even towards partial_bytes_acked.
        } else if self.cwnd <= self.ssthresh {
            //= specs/rfc9260.txt#section-7.2.1
            //# When cwnd is less than or equal to ssthresh, an SCTP endpoint MUST
            //# use the slow-start algorithm to increase cwnd only if the current
            //# congestion window is being fully utilized and the data sender is
            //# not in Fast Recovery.
            let advice = match &mut self.hystart {
                Some(hystart) if !ack.in_recovery => hystart.on_ack(ack.bytes, ack.flight_before, ack.rtt),
                _ => Advice::Grow,
            };
            if fully_used && !ack.in_recovery {
                //= specs/rfc9260.txt#section-7.2.1
                //# Only when these two conditions are met can the cwnd be increased;
                //# otherwise, the cwnd MUST NOT be increased.
                //= specs/rfc9260.txt#section-7.2.1
                //# If these conditions are met, then cwnd MUST be increased by, at most,
                //# the lesser of
                let growth = ack.bytes.min(self.byte_counting_limit * self.mtu);
                self.grow(if advice == Advice::Slowly { growth / CSS_GROWTH_DIVISOR } else { growth });
            }
            if advice == Advice::Leave {
                self.ssthresh = self.cwnd;
            }
        } else {
            // §7.2.2: the items in the order of the RFC.
            let of_all = self.partial_bytes == PartialBytes::All;
            let counted = if of_all || fully_used {
                ack.bytes.saturating_sub(ack.regained_bytes)
            } else {
                ack.gap_bytes
            };
            self.partial_bytes_acked = self.partial_bytes_acked.saturating_add(counted);
            if of_all && self.partial_bytes_acked > self.cwnd && !fully_used {
                self.partial_bytes_acked = self.cwnd;
            }
            //= specs/rfc9260.txt#section-7.2.2
            //# When cwnd is greater than ssthresh, cwnd SHOULD be incremented by
            //# PMDCS per RTT if the sender has cwnd or more bytes of data outstanding
            //# for the corresponding transport address.
            //= specs/rfc9260.txt#section-7.2.2
            //# SCTP SHOULD increment cwnd by PMDCS once per RTT when the sender has
            //# cwnd or more bytes of data outstanding for the corresponding transport
            //# address.
            //= specs/rfc9260.txt#section-7.2.2
            //# SCTP MUST NOT increment cwnd by more than PMDCS per RTT.
            if self.partial_bytes_acked >= self.cwnd && fully_used {
                self.partial_bytes_acked -= self.cwnd;
                self.grow(self.mtu);
            }
        }
        //= specs/rfc9260.txt#section-7.2.2
        //# When all of the data transmitted by the sender has been
        //# acknowledged by the receiver, partial_bytes_acked is initialized
        //# to 0.
        if ack.bytes >= ack.flight_before {
            self.partial_bytes_acked = 0;
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.mtu = congestion.mtu;
        //= specs/rfc9260.txt#section-7.2.3
        //# ssthresh = max(cwnd / 2, 4 * PMDCS)
        //# cwnd = ssthresh
        //# partial_bytes_acked = 0
        //= specs/rfc9260.txt#section-7.2.3
        //# Upon detection of packet losses from SACK chunks (see Section 7.2.4),
        //# an endpoint SHOULD do the following:
        //= specs/rfc9260.txt#section-7.2.3
        //# When the T3-rtx timer expires on an address, SCTP SHOULD perform slow
        //# start by:
        self.ssthresh = self.halved();
        self.partial_bytes_acked = 0;
        self.hystart.iter_mut().for_each(HyStart::reset);
        self.cwnd = match congestion.cause {
            // By this formula a window below four MTUs grows on a loss.
            Cause::Loss | Cause::Ecn => self.ssthresh,
            //= specs/rfc9260.txt#section-7.2.1
            //# The initial cwnd after a retransmission timeout MUST be no more
            //# than PMDCS
            Cause::Timeout => self.mtu,
        };
    }

    //= specs/rfc9260.txt#section-7.1
    //# The parameters SHOULD decay if the address is not used for a long
    //# enough time period.
    fn on_idle(&mut self, idle: Idle) {
        self.mtu = idle.mtu;
        let in_time = u128::from(self.idle_rule == IdleRule::Rfc4960);
        let idle_for = idle.idle_for.as_nanos().saturating_sub(in_time);
        let Some(rtos) = idle_for.checked_div(idle.rto.as_nanos()) else { return };
        if rtos == 0 || self.cwnd <= self.floor() {
            // The formula would raise a window that a time-out reduced; idle time must not raise it.
            return;
        }
        //= specs/rfc9260.txt#section-7.2.1
        //# While the endpoint does not transmit data on a given transport
        //# address, the cwnd of the transport address SHOULD be adjusted to
        //# max(cwnd / 2, 4 * PMDCS) once per RTO.  Before the first cwnd
        //# adjustment, the ssthresh of the transport address SHOULD be set to
        //# the cwnd.
        if self.idle_rule == IdleRule::Rfc9260 {
            self.ssthresh = self.cwnd.max(idle.ssthresh_min);
        }
        self.partial_bytes_acked = 0;
        self.hystart.iter_mut().for_each(HyStart::reset);
        //= specs/rfc9260.txt#section-7.2.2
        //# Same as in the slow start, when the sender does not transmit DATA
        //# chunks on a given transport address, the cwnd of the transport address
        //# SHOULD be adjusted to max(cwnd / 2, 4 * PMDCS) per RTO.
        for _ in 0..rtos.min(u128::from(usize::BITS)) {
            self.cwnd = self.halved();
        }
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    fn limit_window(&mut self, at_most: usize) {
        self.cwnd = self.cwnd.min(at_most);
    }

    fn restart_window(&mut self, window: usize) {
        self.cwnd = window;
        self.partial_bytes_acked = 0;
        self.hystart.iter_mut().for_each(HyStart::reset);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;
    use std::time::Duration;

    use braidftp_base::Time;
    use proptest::prelude::*;

    use super::*;
    use crate::InitialWindow;

    const MTU: usize = 1_452;

    fn sctp() -> Sctp {
        Sctp::new(Options::default(), MTU)
    }

    fn ack(bytes: usize, flight_before: usize) -> Ack<'static> {
        Ack {
            now: Time::ZERO,
            bytes,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before,
            mtu: MTU,
            rtt: None,
            cross_path_age: None,
            srtt: None,
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        }
    }

    fn congestion(cause: Cause) -> Congestion {
        Congestion { cause, now: Time::ZERO, flight_bytes: 0, mtu: MTU }
    }

    fn idle(rtos: u32) -> Idle {
        let rto = Duration::from_secs(1);
        Idle { now: Time::ZERO, idle_for: rto * rtos, rto, mtu: MTU, ssthresh_min: 0 }
    }

    #[test]
    fn a_backup_path_keeps_its_slow_start() {
        let mut cc = sctp();
        let never = cc.ssthresh();
        cc.cwnd = 10 * MTU;
        cc.on_idle(Idle { ssthresh_min: never, ..idle(1) });
        assert_eq!((cc.window(), cc.ssthresh()), (5 * MTU, never));
        cc.on_idle(idle(1));
        assert_eq!(cc.ssthresh(), 5 * MTU, "by the RFC's rule: the former window");
    }

    #[test]
    fn with_rfc_4960_idle_time_reduces_only_the_window() {
        let idle_rule = IdleRule::Rfc4960;
        let mut cc =
            Sctp::new(Options { idle_rule, initial_ssthresh: Some(16_000), ..Options::default() }, MTU);
        cc.cwnd = 20 * MTU;
        cc.on_idle(idle(1));
        assert_eq!((cc.window(), cc.ssthresh()), (20 * MTU, 16_000), "sent in time");
        cc.on_idle(Idle { idle_for: Duration::from_nanos(1_000_000_001), ..idle(1) });
        assert_eq!((cc.window(), cc.ssthresh()), (10 * MTU, 16_000), "continues in congestion avoidance");
    }

    #[test]
    fn the_initial_window_follows_7_2_1() {
        //= specs/rfc9260.txt#section-7.2.1
        //= type=test
        //# The initial cwnd before data transmission MUST be set to min(4 *
        //# PMDCS, max(2 * PMDCS, 4404)) bytes if the peer address is an IPv4
        //# address and to min(4 * PMDCS, max(2 * PMDCS, 4344)) bytes if the
        //# peer address is an IPv6 address.
        let window =
            |initial_window, mtu| Sctp::new(Options { initial_window, ..Options::default() }, mtu).window();
        for (mtu, v4, v6) in [(500, 2_000, 2_000), (1_452, 4_404, 4_344), (8_952, 17_904, 17_904)] {
            assert_eq!(window(InitialWindow::Ipv4, mtu), v4);
            assert_eq!(window(InitialWindow::Ipv6, mtu), v6);
        }
        assert_eq!(window(InitialWindow::Mtus(NonZeroU8::new(10).unwrap()), MTU), 14_520);
    }

    #[test]
    fn slow_start_grows_by_at_most_the_limit_for_each_acknowledgement() {
        //= specs/rfc9260.txt#section-7.2.1
        //= type=test
        //# The positive integer L SHOULD be 1 and MAY be larger than 1.
        //= specs/rfc9260.txt#section-7.2.1
        //= type=test
        //# If these conditions are met, then cwnd MUST be increased by, at most,
        //# the lesser of
        let mut cc = sctp();
        cc.on_ack(ack(100, 4_404));
        assert_eq!(cc.window(), 4_504, "less than one MTU was acknowledged");
        cc.on_ack(ack(2_904, 4_504));
        assert_eq!(cc.window(), 5_956, "more than one MTU was acknowledged, L is 1");
        let byte_counting_limit = NonZeroU8::new(2).unwrap();
        let mut cc = Sctp::new(Options { byte_counting_limit, ..Options::default() }, MTU);
        cc.on_ack(ack(4_000, 4_404));
        assert_eq!(cc.window(), 4_404 + 2 * MTU);
    }

    #[test]
    fn slow_start_grows_only_with_a_full_window_outside_of_recovery() {
        //= specs/rfc9260.txt#section-7.2.1
        //= type=test
        //# When cwnd is less than or equal to ssthresh, an SCTP endpoint MUST use
        //# the slow-start algorithm to increase cwnd only if the current
        //# congestion window is being fully utilized and the data sender is not
        //# in Fast Recovery.
        //= specs/rfc9260.txt#section-7.2.1
        //= type=test
        //# Only when these two conditions are met can
        //# the cwnd be increased; otherwise, the cwnd MUST NOT be increased.
        let mut cc = sctp();
        cc.on_ack(ack(1_452, 4_403));
        cc.on_ack(Ack { in_recovery: true, ..ack(1_452, 9_000) });
        assert_eq!(cc.window(), 4_404);
    }

    #[test]
    fn with_while_used_a_window_that_is_not_full_counts_only_gap_bytes() {
        let partial_bytes = PartialBytes::WhileUsed;
        let mut cc =
            Sctp::new(Options { partial_bytes, initial_ssthresh: Some(1_000), ..Options::default() }, MTU);
        let window = cc.window();
        let gaps = |bytes, flight_before| Ack { gap_bytes: MTU, ..ack(bytes, flight_before) };
        cc.on_ack(gaps(3 * MTU, window - 1));
        assert_eq!(cc.partial_bytes_acked, MTU, "gap bytes only");
        cc.on_ack(gaps(2 * MTU, window));
        assert_eq!(cc.partial_bytes_acked, 3 * MTU, "all bytes");
        cc.on_ack(gaps(3 * MTU, window - 1));
        assert_eq!((cc.partial_bytes_acked, cc.window()), (4 * MTU, window), "not limited to a window");
        cc.on_ack(ack(MTU, window));
        assert_eq!((cc.partial_bytes_acked, cc.window()), (5 * MTU - window, window + MTU));
    }

    #[test]
    fn congestion_avoidance_grows_by_one_mtu_per_window() {
        //= specs/rfc9260.txt#section-7.2.2
        //= type=test
        //# When cwnd is greater than ssthresh, cwnd SHOULD be incremented by
        //# PMDCS per RTT if the sender has cwnd or more bytes of data outstanding
        //# for the corresponding transport address.
        //= specs/rfc9260.txt#section-7.2.2
        //= type=test
        //# SCTP SHOULD increment cwnd by PMDCS once per RTT when the sender has
        //# cwnd or more bytes of data outstanding for the corresponding transport
        //# address.
        //= specs/rfc9260.txt#section-7.2.2
        //= type=test
        //# SCTP MUST NOT increment cwnd by more than PMDCS per RTT.
        let mut cc = sctp();
        cc.on_congestion(congestion(Cause::Loss));
        cc.on_ack(ack(1_452, 5_808));
        let start = cc.window();
        assert_eq!(start, 7_260, "cwnd == ssthresh is still slow start");
        for _ in 0..4 {
            cc.on_ack(ack(1_452, start + MTU));
            assert_eq!(cc.window(), start);
        }
        cc.on_ack(ack(1_552, start + MTU));
        assert_eq!(cc.window(), start + MTU);
        assert_eq!(cc.partial_bytes_acked, 5 * 1_452 + 100 - start, "the excess over the window is kept");
    }

    #[test]
    fn partial_bytes_acked_is_limited_to_a_window_while_the_window_is_not_full() {
        let mut cc = sctp();
        cc.on_congestion(congestion(Cause::Loss));
        cc.on_ack(ack(1_452, 5_808));
        for _ in 0..20 {
            cc.on_ack(ack(1_452, 3_000));
        }
        assert_eq!(cc.partial_bytes_acked, 7_260);
        cc.on_ack(ack(1_452, 3_000 + 7_260));
        assert_eq!(cc.window(), 7_260 + MTU, "one step, not fourteen");
        cc.on_ack(ack(1_452, 1_452));
        assert_eq!(cc.partial_bytes_acked, 0, "all is acknowledged");
    }

    #[test]
    fn a_loss_halves_the_window_and_a_timeout_leaves_one_mtu() {
        //= specs/rfc9260.txt#section-7.2.3
        //= type=test
        //# Upon detection of packet losses from SACK chunks (see Section 7.2.4),
        //# an endpoint SHOULD do the following:
        //= specs/rfc9260.txt#section-7.2.3
        //= type=test
        //# When the T3-rtx timer expires on an address, SCTP SHOULD perform slow
        //# start by:
        //= specs/rfc9260.txt#section-7.2
        //= type=test
        //# The slow-start and congestion avoidance algorithms MUST be used by an
        //# endpoint to control the amount of data being injected into the
        //# network.
        //= specs/rfc9260.txt#section-7.2
        //= type=test
        //# In some situations, it might be beneficial for an SCTP sender to be
        //# more conservative than the algorithms allow; however, an SCTP sender
        //# MUST NOT be more aggressive than the following algorithms allow.
        let mut cc = sctp();
        cc.cwnd = 100_000;
        cc.on_congestion(congestion(Cause::Loss));
        assert_eq!((cc.window(), cc.ssthresh()), (50_000, 50_000));
        cc.on_congestion(congestion(Cause::Timeout));
        assert_eq!((cc.window(), cc.ssthresh()), (MTU, 25_000));
        cc.on_congestion(congestion(Cause::Timeout));
        assert_eq!((cc.window(), cc.ssthresh()), (MTU, 4 * MTU));
    }

    #[test]
    fn idle_time_halves_the_window_per_rto_down_to_four_mtus() {
        //= specs/rfc9260.txt#section-6.1
        //= type=test
        //# Also note that the cwnd SHOULD be adjusted according to Section 7.2.1.
        //= specs/rfc9260.txt#section-7.1
        //= type=test
        //# The parameters SHOULD decay if the address is not used for a long
        //# enough time period.
        //= specs/rfc9260.txt#section-7.2.2
        //= type=test
        //# Same as in the slow start, when the sender does not transmit DATA
        //# chunks on a given transport address, the cwnd of the transport address
        //# SHOULD be adjusted to max(cwnd / 2, 4 * PMDCS) per RTO.
        //= specs/rfc9260.txt#section-7.2.1
        //= type=test
        //# The initial value of ssthresh SHOULD be arbitrarily high (e.g., the
        //# size of the largest-possible advertised window).
        //= specs/rfc9260.txt#section-7.2.1
        //= type=test
        //# While the endpoint does not transmit data on a given transport
        //# address, the cwnd of the transport address SHOULD be adjusted to
        //# max(cwnd / 2, 4 * PMDCS) once per RTO.
        //= specs/rfc9260.txt#section-7.2.1
        //= type=test
        //# Before the first cwnd adjustment, the ssthresh of the transport
        //# address SHOULD be set to the cwnd.
        let mut cc = sctp();
        cc.cwnd = 100_000;
        cc.on_idle(idle(0));
        assert_eq!((cc.window(), cc.ssthresh()), (100_000, SSTHRESH_INITIAL));
        cc.on_idle(idle(2));
        assert_eq!((cc.window(), cc.ssthresh()), (25_000, 100_000));
        cc.on_idle(idle(u32::MAX));
        assert_eq!(cc.window(), 4 * MTU);
        cc.on_congestion(congestion(Cause::Timeout));
        cc.on_idle(idle(9));
        assert_eq!((cc.window(), cc.ssthresh()), (MTU, 4 * MTU), "idle time does not raise a window");
    }

    proptest! {
        #[test]
        fn the_window_always_allows_one_packet(
            events in prop::collection::vec((0..5_u8, any::<u32>(), any::<u32>(), 1..70_000_usize), 0..200),
        ) {
            let mut cc = sctp();
            for (what, a, b, mtu) in events {
                let before = cc.window();
                match what {
                    0 => cc.on_ack(Ack { mtu, ..ack(a as usize, b as usize) }),
                    1 => cc.on_ack(Ack { mtu, ..ack(a as usize, usize::MAX) }),
                    2 => cc.on_congestion(Congestion { mtu, ..congestion(Cause::Loss) }),
                    3 => cc.on_congestion(Congestion { mtu, ..congestion(Cause::Timeout) }),
                    _ => cc.on_idle(Idle { mtu, ..idle(a) }),
                }
                prop_assert!(cc.window() > 0 && cc.window() <= WINDOW_MAX);
                prop_assert!(what > 1 || cc.window() <= before + mtu, "no ack opens more than an MTU");
            }
        }
    }
}
