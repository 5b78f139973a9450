//! Delivery-rate samples and round-trip counting, as in §4.1 of draft-ietf-ccwg-bbr (formerly
//! draft-cheng-iccrg-delivery-rate-estimation).
//!
//! The draft stamps each packet with the bytes delivered when it was sent. Here the stamps are kept by time,
//! and a packet's stamp is looked up by its send time, one RTT before its acknowledgement; so the transport
//! need not store anything per packet. Stamps closer together than a fraction of the RTT are merged; a sample
//! then begins slightly earlier.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::{Rate, Time};

/// The number of slots per round trip in which stamps are kept.
const SLOTS: u32 = 256;
/// The maximum number of stamps. Beyond it every second stamp is dropped.
const STAMPS_MAX: usize = 4 * SLOTS as usize;
/// Stamps older than this many round trips are dropped.
const ROUNDS_KEPT: u32 = 4;

/// The delivery-rate sample of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSample {
    /// `delivered_bytes` over `interval`.
    pub rate: Rate,
    /// Bytes delivered since the packet was sent, the packet included.
    pub delivered_bytes: u64,
    /// Bytes found lost in that time.
    pub lost_bytes: u64,
    /// The time in which they were sent or acknowledged, whichever is longer. At least `rtt`.
    pub interval: Duration,
    /// The RTT of the packet.
    pub rtt: Duration,
    /// The stamp of the packet.
    pub stamp: Stamp,
    /// Whether this acknowledgement begins a round trip: the packet was sent after the last one began.
    pub round_begins: bool,
}

impl RateSample {
    /// Whether the application had too little to send when the packet was sent, so that the rate is the
    /// application's and not the path's.
    pub const fn app_limited(&self) -> bool {
        self.stamp.app_limited
    }
}

/// The state of delivery when a packet was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The time of the stamp.
    at: Time,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// When the last of them were acknowledged.
    delivered_at: Time,
    /// The send time of the most recently acknowledged packet.
    first_sent_at: Time,
    /// Bytes found lost so far.
    pub lost_bytes: u64,
    /// Bytes in flight, this packet included.
    pub flight_bytes: u64,
    /// Whether the application had too little to send.
    pub app_limited: bool,
}

/// The delivery state of a path, by time.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// The stamp of the next packet.
    current: Stamp,
    stamps: VecDeque<Stamp>,
    /// The delivered bytes at which the application-limited phase ends.
    limited_until: Option<u64>,
    /// The round trip ends when a packet sent after this many bytes were delivered is acknowledged.
    round_ends: u64,
    rounds: u64,
    /// The minimum distance of stamps.
    slot: Duration,
}

impl Delivery {
    /// Bytes delivered so far.
    pub const fn delivered_bytes(&self) -> u64 {
        self.current.delivered_bytes
    }

    /// Bytes found lost so far.
    pub const fn lost_bytes(&self) -> u64 {
        self.current.lost_bytes
    }

    /// Round trips so far.
    pub const fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Whether packets sent now belong to an application-limited phase.
    pub const fn is_app_limited(&self) -> bool {
        self.limited_until.is_some()
    }

    /// Restarts the current round trip: it ends when a packet sent from now on is acknowledged.
    pub fn begin_round(&mut self, now: Time) {
        self.round_ends = self.current.delivered_bytes;
        self.keep(now, Duration::ZERO);
    }

    /// Takes a sent packet.
    pub fn on_sent(&mut self, now: Time, bytes: usize, flight_before: usize) {
        if flight_before == 0 {
            // Nothing was in flight: the elapsed time says nothing about the path.
            self.current.delivered_at = now;
            self.current.first_sent_at = now;
        }
        self.current.flight_bytes = (flight_before as u64).saturating_add(bytes as u64);
        let slot = if flight_before == 0 { Duration::ZERO } else { self.slot };
        self.keep(now, slot);
    }

    /// Takes an acknowledgement of `bytes` new bytes, with the RTT of the one of them sent last, if known.
    pub fn on_ack(&mut self, now: Time, bytes: usize, rtt: Option<Duration>) -> Option<RateSample> {
        if bytes == 0 {
            return None;
        }
        self.current.delivered_bytes = self.current.delivered_bytes.saturating_add(bytes as u64);
        self.current.delivered_at = now;
        self.limited_until = self.limited_until.filter(|until| self.current.delivered_bytes <= *until);
        self.current.app_limited = self.limited_until.is_some();
        let sample = rtt.and_then(|rtt| self.sample(now, rtt));
        let begins = sample.is_some_and(|sample| sample.round_begins);
        if begins {
            self.round_ends = self.current.delivered_bytes;
            self.rounds += 1;
        }
        self.keep(now, if begins { Duration::ZERO } else { self.slot });
        sample
    }

    fn sample(&mut self, now: Time, rtt: Duration) -> Option<RateSample> {
        let sent_at = now - rtt;
        self.slot = rtt / SLOTS;
        self.forget(now - rtt.saturating_mul(ROUNDS_KEPT));
        let stamp = self.stamp(sent_at)?;
        self.current.first_sent_at = sent_at.max(self.current.first_sent_at);
        let interval = sent_at.since(stamp.first_sent_at).max(now.since(stamp.delivered_at));
        let delivered_bytes = self.current.delivered_bytes - stamp.delivered_bytes;
        Some(RateSample {
            rate: rate(delivered_bytes, interval)?,
            delivered_bytes,
            lost_bytes: self.current.lost_bytes - stamp.lost_bytes,
            interval,
            rtt,
            stamp,
            round_begins: stamp.delivered_bytes >= self.round_ends,
        })
    }

    /// Takes `bytes` found lost.
    pub fn on_lost(&mut self, bytes: usize) {
        self.current.lost_bytes = self.current.lost_bytes.saturating_add(bytes as u64);
    }

    /// Begins an application-limited phase: there was room in the window but nothing to send. The phase ends
    /// when the `flight_bytes` now in flight are delivered.
    pub fn on_app_limited(&mut self, now: Time, flight_bytes: usize) {
        let until = self.current.delivered_bytes.saturating_add(flight_bytes as u64).max(1);
        self.limited_until = Some(until);
        if !self.current.app_limited {
            self.current.app_limited = true;
            // The first packet makes its own stamp.
            if !self.stamps.is_empty() {
                self.keep(now, Duration::ZERO);
            }
        }
    }

    /// The stamp of a packet; `None` if it was sent too long ago.
    pub fn stamp(&self, sent_at: Time) -> Option<Stamp> {
        let after = self.stamps.partition_point(|stamp| stamp.at <= sent_at);
        after.checked_sub(1).map(|at| self.stamps[at])
    }

    /// Stores the current stamp for packets sent from now on; merges it with a stamp less than `slot` old.
    fn keep(&mut self, now: Time, slot: Duration) {
        let now = now.max(self.current.at);
        self.current.at = now;
        match self.stamps.back_mut() {
            Some(last) if last.at == now => *last = self.current,
            // The stamps differ by at most the flight; the larger flight is kept.
            Some(last) if now.since(last.at) < slot => {
                last.flight_bytes = last.flight_bytes.max(self.current.flight_bytes);
            }
            _ => self.stamps.push_back(self.current),
        }
        if self.stamps.len() > STAMPS_MAX {
            let mut odd = false;
            self.stamps.retain(|_| {
                odd = !odd;
                odd
            });
        }
    }

    /// Nothing is in flight: drops the stamps of all packets sent.
    pub fn trim(&mut self) {
        self.stamps.drain(..self.stamps.len().saturating_sub(1));
        self.stamps.shrink_to_fit();
    }

    /// Drops the stamps of packets sent before `before`.
    fn forget(&mut self, before: Time) {
        while self.stamps.get(1).is_some_and(|second| second.at <= before) {
            self.stamps.pop_front();
        }
    }
}

/// `bytes` per `interval`; `None` if the interval is zero.
fn rate(bytes: u64, interval: Duration) -> Option<Rate> {
    let bits = (u128::from(bytes) * 8_000_000_000).checked_div(interval.as_nanos())?;
    Some(Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MTU: usize = 1_000;
    const RTT: Duration = Duration::from_millis(100);

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// Packets sent every millisecond: 8 Mb/s.
    fn even(delivery: &mut Delivery, millis: std::ops::Range<u64>) -> Option<RateSample> {
        let mut last = None;
        for now in millis {
            if now >= 100 {
                last = delivery.on_ack(ms(now), MTU, Some(RTT));
            }
            delivery.on_sent(ms(now), MTU, now.min(99) as usize * MTU);
        }
        last
    }

    #[test]
    fn an_even_flow_yields_its_rate_and_one_round_per_rtt() {
        let mut delivery = Delivery::default();
        let sample = even(&mut delivery, 0..1_000).unwrap();
        assert_eq!((sample.rate.to_string(), sample.delivered_bytes), ("8mbit".to_owned(), 100 * 1_000));
        assert_eq!((sample.interval, sample.rtt, sample.app_limited()), (RTT, RTT, false));
        assert_eq!((sample.stamp.flight_bytes, sample.lost_bytes), (100 * 1_000, 0));
        assert_eq!(delivery.rounds(), 9);
    }

    #[test]
    fn bunched_acknowledgements_are_measured_by_send_times() {
        let mut delivery = Delivery::default();
        even(&mut delivery, 0..500);
        // Nothing for 20 ms, then all acknowledgements within one.
        for late in 0..20 {
            delivery.on_sent(ms(500 + late), MTU, 100 * MTU);
        }
        let rates = (0..20).map(|late: u64| {
            let now = Time::from_micros(520_000 + 50 * late);
            let rtt = now.since(ms(400 + late));
            delivery.on_ack(now, MTU, Some(rtt)).unwrap().rate.bits_per_second()
        });
        assert!(rates.max() <= Some(8_000_000));
    }

    #[test]
    fn app_limited_samples_are_marked_until_delivered() {
        let mut delivery = Delivery::default();
        even(&mut delivery, 0..500);
        delivery.on_app_limited(ms(499), 100 * MTU);
        assert!(delivery.is_app_limited());
        // Data in flight was sent before; data sent until it is delivered is marked.
        assert!(!delivery.on_ack(ms(500), MTU, Some(RTT)).unwrap().app_limited());
        delivery.on_sent(ms(500), MTU, 99 * MTU);
        let sample = delivery.on_ack(ms(600), 99 * MTU, Some(RTT)).unwrap();
        assert!(sample.app_limited() && delivery.is_app_limited());
        delivery.on_sent(ms(600), MTU, MTU);
        delivery.on_ack(ms(650), MTU, None);
        assert!(!delivery.is_app_limited());
        delivery.on_sent(ms(650), MTU, MTU);
        assert!(delivery.on_ack(ms(700), MTU, Some(RTT)).unwrap().app_limited(), "sent at 600");
        assert!(!delivery.on_ack(ms(750), MTU, Some(RTT)).unwrap().app_limited());
    }

    #[test]
    fn idle_time_does_not_count() {
        let mut delivery = Delivery::default();
        even(&mut delivery, 0..200);
        for now in 200..300 {
            delivery.on_ack(ms(now), MTU, Some(RTT));
        }
        for packet in 0..10 {
            delivery.on_sent(ms(5_000), MTU, packet * MTU);
        }
        let sample = delivery.on_ack(ms(5_100), 10 * MTU, Some(RTT)).unwrap();
        assert_eq!((sample.delivered_bytes, sample.interval), (10_000, RTT));
    }

    #[test]
    fn a_sample_reports_the_bytes_lost_since_the_packet_was_sent() {
        let mut delivery = Delivery::default();
        even(&mut delivery, 0..500);
        delivery.on_lost(7 * MTU);
        assert_eq!(delivery.on_ack(ms(500), MTU, Some(RTT)).unwrap().lost_bytes, 7_000);
        delivery.on_sent(ms(500), MTU, 90 * MTU);
        delivery.on_lost(MTU);
        assert_eq!(delivery.on_ack(ms(600), MTU, Some(RTT)).unwrap().lost_bytes, 1_000);
        assert_eq!(delivery.lost_bytes(), 8_000);
    }

    #[test]
    fn an_acknowledgement_without_an_rtt_or_of_no_bytes_yields_no_sample() {
        let mut delivery = Delivery::default();
        even(&mut delivery, 0..1_000);
        assert_eq!(delivery.on_ack(ms(1_000), MTU, None), None);
        assert_eq!(delivery.on_ack(ms(1_000), 0, Some(RTT)), None);
        let long = Duration::from_millis(900);
        assert_eq!(delivery.on_ack(ms(1_001), MTU, Some(long)), None, "the stamp was dropped");
        assert_eq!(Delivery::default().on_ack(ms(1), MTU, Some(RTT)), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A link of 1 µs per byte with arbitrary traffic; acknowledgements are delayed or not.
        #[test]
        fn no_sample_exceeds_the_link_rate_and_memory_is_bounded(
            packets in prop::collection::vec((0_u64..20_000, 1_usize..1_500), 1..400),
            hold in prop_oneof![Just(1), 1_u64..50_000],
        ) {
            let mut delivery = Delivery::default();
            let mut arrivals: VecDeque<(u64, u64, usize)> = VecDeque::new();
            let (mut now, mut free_at, mut flight) = (0_u64, 0_u64, 0);
            for (gap, bytes) in packets.into_iter().chain([(u64::MAX / 2_000, 1)]) {
                now += gap;
                while let Some((at, sent_at, bytes)) = arrivals.pop_front_if(|(at, ..)| *at <= now) {
                    flight -= bytes;
                    let rtt = Duration::from_micros(at - sent_at);
                    let sample = delivery.on_ack(Time::from_micros(at), bytes, Some(rtt)).unwrap();
                    prop_assert!(sample.interval >= rtt && sample.delivered_bytes >= bytes as u64);
                    if hold == 1 {
                        prop_assert!(sample.rate.bits_per_second() <= 8_000_000, "{sample:?}");
                    }
                }
                free_at = free_at.max(now) + bytes as u64;
                delivery.on_sent(Time::from_micros(now), bytes, flight);
                flight += bytes;
                arrivals.push_back(((free_at + 10_000).next_multiple_of(hold), now, bytes));
                prop_assert!(delivery.stamps.len() <= STAMPS_MAX);
                prop_assert!(delivery.stamps.iter().is_sorted_by(|one, next| one.at < next.at));
            }
        }
    }
}
