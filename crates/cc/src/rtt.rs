//! The RTT estimate and the retransmission time-out of one path: RFC 9260 §6.3.1 (rules C1 to C7 and G1) and
//! the back-off of §6.3.3 E2.
//!
//! The transport decides which packets may be measured (C4, C5), because that depends on what was
//! retransmitted.

use std::time::Duration;

/// RTO.Alpha is 1/8 (RFC 9260 §16).
const ALPHA_DIVISOR: u32 = 8;
/// RTO.Beta is 1/4 (RFC 9260 §16).
const BETA_DIVISOR: u32 = 4;

/// The bounds of the RTO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// RTO.Initial (RFC 9260 §16): the RTO before the first measurement. Default: 1 s.
    pub initial: Duration,
    /// RTO.Min (RFC 9260 §16). Default: 1 s. Below the peer's delay of acknowledgements every pause looks
    /// like a loss.
    pub min: Duration,
    /// RTO.Max (RFC 9260 §16). Default: 60 s.
    pub max: Duration,
    /// The clock granularity G of §6.3.1 G1: RTTVAR is never 0. Default: 1 ms.
    pub granularity: Duration,
}

//= specs/rfc9260.txt#section-16
//# 'RTO.Min' SHOULD be set as described above in this section.
impl Default for Bounds {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            granularity: Duration::from_millis(1),
        }
    }
}

/// Smoothed round-trip time and retransmission time-out of one path.
#[derive(Debug, Clone)]
pub struct Rtt {
    bounds: Bounds,
    srtt: Option<Duration>,
    rttvar: Duration,
    rto: Duration,
    /// Whether only an upper bound is known, which the first measurement replaces.
    is_bound: bool,
}

impl Rtt {
    /// Creates an estimator without measurements: the RTO is RTO.Initial (C1).
    pub fn new(bounds: Bounds) -> Self {
        //= specs/rfc9260.txt#section-6.3.1
        //# C1)  Until an RTT measurement has been made for a packet sent to the
        //# given destination transport address, set RTO to the protocol
        //# parameter 'RTO.Initial'.
        Self { bounds, srtt: None, rttvar: Duration::ZERO, rto: bounds.initial, is_bound: false }
    }

    /// Takes an RTT sample. The RTO is computed anew, which also ends a back-off.
    pub fn on_sample(&mut self, sample: Duration) {
        let (srtt, rttvar) = match self.srtt.filter(|_| !self.is_bound) {
            //= specs/rfc9260.txt#section-6.3.1
            //# C2)  When the first RTT measurement R is made, perform:
            //# SRTT = R
            //# RTTVAR = R/2
            //# RTO = SRTT + 4 * RTTVAR
            None => (sample, sample / 2),
            //= specs/rfc9260.txt#section-6.3.1
            //# RTTVAR = (1 - RTO.Beta) * RTTVAR + RTO.Beta * |SRTT - R'|
            //# SRTT = (1 - RTO.Alpha) * SRTT + RTO.Alpha * R'
            Some(srtt) => {
                let error = srtt.abs_diff(sample);
                let rttvar = (self.rttvar - self.rttvar / BETA_DIVISOR).saturating_add(error / BETA_DIVISOR);
                ((srtt - srtt / ALPHA_DIVISOR).saturating_add(sample / ALPHA_DIVISOR), rttvar)
            }
        };
        //= specs/rfc9260.txt#section-6.3.1
        //# G1)  Whenever RTTVAR is computed, if RTTVAR == 0, then adjust RTTVAR
        //# = G.
        self.rttvar = if rttvar.is_zero() { self.bounds.granularity } else { rttvar };
        self.srtt = Some(srtt);
        self.is_bound = false;
        self.rto = self.without_back_off();
    }

    /// Takes an upper bound of the RTT, such as one that spans a retransmission, if nothing was measured yet.
    /// Until the first measurement replaces the bound (C2), the RTO is at most the larger of the bound and
    /// RTO.Initial.
    pub fn on_upper_bound(&mut self, round_trip: Duration) {
        if self.srtt.is_none() {
            self.on_sample(round_trip);
            self.is_bound = true;
            self.rto = self.without_back_off();
        }
    }

    /// Changes the bounds. An RTO that is not backed off is computed anew.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        let backed_off = self.rto != self.without_back_off();
        self.bounds = bounds;
        self.rto = if backed_off { self.bounded(self.rto) } else { self.without_back_off() };
    }

    /// The RTO without back-off.
    pub fn without_back_off(&self) -> Duration {
        match self.srtt {
            None => self.bounds.initial,
            Some(srtt) => {
                let rto = srtt.saturating_add(self.rttvar.saturating_mul(4));
                let most = if self.is_bound { self.bounds.initial.max(srtt) } else { Duration::MAX };
                self.bounded(rto.min(most))
            }
        }
    }

    /// Doubles the RTO after the retransmission timer expired (RFC 9260 §6.3.3 E2).
    pub fn back_off(&mut self) {
        self.rto = self.bounded(self.rto.saturating_mul(2));
    }

    /// Ends a back-off: the path was shown to work, although no RTT was measured (RFC 9002 §6.2.1).
    pub fn end_back_off(&mut self) {
        self.rto = self.without_back_off();
    }

    /// The smoothed RTT, if measured or bounded.
    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// Whether only an upper bound of the RTT is known.
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }

    /// The smoothed RTT, if measured.
    #[inline]
    pub fn measured_srtt(&self) -> Option<Duration> {
        self.srtt.filter(|_| !self.is_bound)
    }

    /// The RTT variation; zero before the first measurement.
    pub fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// The RTO, back-off included.
    pub fn rto(&self) -> Duration {
        self.rto
    }

    fn bounded(&self, rto: Duration) -> Duration {
        //= specs/rfc9260.txt#section-6.3.1
        //# C6)  Whenever RTO is computed, if it is less than 'RTO.Min' seconds,
        //# then it is rounded up to 'RTO.Min' seconds.
        rto.max(self.bounds.min).min(self.bounds.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn rtt() -> Rtt {
        Rtt::new(Bounds { min: ms(10), ..Bounds::default() })
    }

    #[test]
    fn before_any_measurement_the_rto_is_the_initial_one() {
        assert_eq!(rtt().rto(), ms(1000));
        assert_eq!(rtt().srtt(), None);
    }

    #[test]
    fn the_first_measurement_counts_in_full() {
        let mut rtt = rtt();
        rtt.on_sample(ms(100));
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(100)), ms(50), ms(300)));
    }

    #[test]
    fn new_bounds_apply_at_once() {
        let mut rtt = rtt();
        rtt.set_bounds(Bounds { initial: ms(400), min: ms(50), ..Bounds::default() });
        assert_eq!(rtt.rto(), ms(400), "before any measurement: RTO.Initial");
        rtt.on_sample(ms(5));
        assert_eq!(rtt.rto(), ms(50));
        rtt.set_bounds(Bounds { min: ms(5), ..Bounds::default() });
        assert_eq!(rtt.rto(), ms(15), "computed from the measurement");
        rtt.back_off();
        rtt.set_bounds(Bounds { min: ms(5), max: ms(20), ..Bounds::default() });
        assert_eq!(rtt.rto(), ms(20), "a back-off is kept within the bounds");
    }

    #[test]
    fn later_measurements_use_the_old_srtt_for_the_variation() {
        let mut rtt = rtt();
        rtt.on_sample(ms(100));
        rtt.on_sample(ms(180));
        // rttvar = 3/4 · 50 + 1/4 · |100 − 180| = 57.5; srtt = 7/8 · 100 + 1/8 · 180 = 110
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(ms(110)), Duration::from_micros(57_500)));
        assert_eq!(rtt.rto(), ms(340));
        rtt.on_sample(ms(30));
        // 3/4 · 57.5 + 1/4 · |110 − 30| = 63.125; 7/8 · 110 + 1/8 · 30 = 100
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(ms(100)), Duration::from_micros(63_125)));
    }

    #[test]
    fn a_variation_of_zero_becomes_the_granularity() {
        let mut rtt = rtt();
        rtt.on_sample(Duration::ZERO);
        assert_eq!(rtt.rttvar(), ms(1));
        assert_eq!(rtt.rto(), ms(10), "RTO.Min applies");
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum_and_a_sample_ends_it() {
        let mut rtt = rtt();
        rtt.on_sample(ms(100));
        for expected in [600, 1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 60_000, 60_000] {
            rtt.back_off();
            assert_eq!(rtt.rto(), ms(expected));
        }
        rtt.on_sample(ms(100));
        assert!(rtt.rto() < ms(300));
    }

    #[test]
    fn an_upper_bound_is_used_until_the_first_measurement_and_never_raises_the_rto_above_rto_initial() {
        let mut rtt = rtt();
        rtt.on_upper_bound(ms(600));
        assert_eq!((rtt.srtt(), rtt.rto(), rtt.is_bound()), (Some(ms(600)), ms(1_000), true));
        rtt.back_off();
        assert_eq!(rtt.rto(), ms(2_000));
        rtt.end_back_off();
        assert_eq!(rtt.rto(), ms(1_000));
        rtt.on_sample(ms(100));
        assert_eq!(
            (rtt.srtt(), rtt.rttvar(), rtt.rto(), rtt.is_bound()),
            (Some(ms(100)), ms(50), ms(300), false)
        );
        rtt.on_upper_bound(ms(600));
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(100)), ms(300)), "the measurement replaces the bound");
    }

    /// An input of an [`Rtt`].
    #[derive(Debug, Clone, Copy)]
    enum Input {
        Sample(Duration),
        UpperBound(Duration),
        BackOff,
        EndBackOff,
    }

    fn input() -> impl Strategy<Value = Input> {
        let duration = || (0..20_000_u64).prop_map(Duration::from_millis);
        prop_oneof![
            duration().prop_map(Input::Sample),
            duration().prop_map(Input::UpperBound),
            Just(Input::BackOff),
            Just(Input::EndBackOff),
        ]
    }

    proptest! {
        #[test]
        fn upper_bounds_and_ends_of_back_off_never_change_a_measurement(all in prop::collection::vec(input(), 0..50)) {
            let (mut rtt, mut measured_alone) = (rtt(), rtt());
            let mut bound = None;
            for input in all {
                match input {
                    Input::Sample(sample) => [&mut rtt, &mut measured_alone].map(|it| it.on_sample(sample)),
                    Input::UpperBound(most) => {
                        bound = bound.or(Some(most));
                        [rtt.on_upper_bound(most), ()]
                    }
                    Input::BackOff => [&mut rtt, &mut measured_alone].map(Rtt::back_off),
                    Input::EndBackOff => [&mut rtt, &mut measured_alone].map(Rtt::end_back_off),
                };
                prop_assert!(rtt.rto() >= ms(10) && rtt.rto() <= Duration::from_secs(60));
                if measured_alone.srtt().is_some() {
                    prop_assert!(!rtt.is_bound());
                    prop_assert_eq!((rtt.srtt(), rtt.rttvar()), (measured_alone.srtt(), measured_alone.rttvar()));
                } else {
                    prop_assert_eq!((rtt.srtt(), rtt.is_bound()), (bound, bound.is_some()));
                }
                if matches!(input, Input::EndBackOff) && rtt.is_bound() {
                    prop_assert!(rtt.rto() <= ms(1_000).max(bound.unwrap()));
                }
            }
        }

        #[test]
        fn the_rto_stays_within_the_bounds(samples in prop::collection::vec(any::<(u64, bool)>(), 0..50)) {
            let mut rtt = rtt();
            let mut extremes: Option<(Duration, Duration)> = None;
            for (nanos, lost) in samples {
                let sample = Duration::from_nanos(nanos);
                rtt.on_sample(sample);
                if lost {
                    rtt.back_off();
                }
                prop_assert!(rtt.rto() >= ms(10) && rtt.rto() <= Duration::from_secs(60));
                let (low, high) = extremes.map_or((sample, sample), |(low, high)| (low.min(sample), high.max(sample)));
                extremes = Some((low, high));
                let srtt = rtt.srtt().unwrap();
                // Integer division may round a few nanoseconds below the smallest sample.
                prop_assert!(srtt + Duration::from_nanos(100) >= low && srtt <= high + Duration::from_nanos(100));
            }
        }
    }
}
