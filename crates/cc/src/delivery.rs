//! At which rate data arrives: delivery-rate samples and round trips counted, as in §4.1 of draft-ietf-ccwg-bbr (before:
//! draft-cheng-iccrg-delivery-rate-estimation).
//!
//! The draft stamps each packet with how much had been delivered when it left. Here the stamps are kept by time, and that
//! of a packet is looked up by when it left, which is a round trip before its acknowledgement: so a transport tells no more
//! than others need. Stamps closer than a part of the round trip are one; the sample then begins a little earlier.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::{Rate, Time};

/// Into how many parts a round trip is divided to remember it by.
const SLOTS: u32 = 256;
/// Stamps remembered at most. If there are more, every second one is forgotten.
const STAMPS_MAX: usize = 4 * SLOTS as usize;
/// What left so many round trips ago is not asked for.
const ROUNDS_KEPT: u32 = 4;

/// What an acknowledgement tells of the rate of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSample {
    /// `delivered_bytes` over `interval`.
    pub rate: Rate,
    /// Bytes delivered from when the packet left until now, it among them.
    pub delivered_bytes: u64,
    /// Bytes found lost meanwhile.
    pub lost_bytes: u64,
    /// How long they took, to leave or to be acknowledged, whichever is longer. No less than `rtt`.
    pub interval: Duration,
    /// The packet's round trip.
    pub rtt: Duration,
    /// The stamp of the packet.
    pub stamp: Stamp,
    /// Whether this acknowledgement begins a round trip: the packet left after the last one had begun.
    pub round_begins: bool,
}

impl RateSample {
    /// Whether the application had too little to send when the packet left, so that the rate is its and not the path's.
    pub const fn app_limited(&self) -> bool {
        self.stamp.app_limited
    }
}

/// What was known when a packet left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// From when on.
    at: Time,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// When the last of them were acknowledged.
    delivered_at: Time,
    /// When the packet left of which was heard last.
    first_sent_at: Time,
    /// Bytes found lost.
    pub lost_bytes: u64,
    /// Bytes in flight, with the packet.
    pub flight_bytes: u64,
    /// Whether the application had too little to send.
    pub app_limited: bool,
}

/// How much was delivered, by time.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// What the next packet would be stamped with.
    current: Stamp,
    stamps: VecDeque<Stamp>,
    /// What is delivered beyond this is not of a time in which the application had too little to send.
    limited_until: Option<u64>,
    /// The round trip ends when a packet is acknowledged that left when this much was delivered.
    round_ends: u64,
    rounds: u64,
    /// How far apart stamps are.
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

    /// Whether what leaves now is of a time in which the application has too little to send.
    pub const fn is_app_limited(&self) -> bool {
        self.limited_until.is_some()
    }

    /// The round trip that is under way ends when what leaves from now on is acknowledged.
    pub fn begin_round(&mut self, now: Time) {
        self.round_ends = self.current.delivered_bytes;
        self.keep(now, Duration::ZERO);
    }

    /// A packet leaves.
    pub fn on_sent(&mut self, now: Time, bytes: usize, flight_before: usize) {
        if flight_before == 0 {
            // Nothing was under way: no time that has passed says anything of the path.
            self.current.delivered_at = now;
            self.current.first_sent_at = now;
        }
        self.current.flight_bytes = (flight_before as u64).saturating_add(bytes as u64);
        let slot = if flight_before == 0 { Duration::ZERO } else { self.slot };
        self.keep(now, slot);
    }

    /// So many bytes are newly acknowledged, with the round trip of the one of them that left last, if that is known.
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

    /// So many bytes are found lost.
    pub fn on_lost(&mut self, bytes: usize) {
        self.current.lost_bytes = self.current.lost_bytes.saturating_add(bytes as u64);
    }

    /// There was room to send and nothing to send, with so many bytes in flight: what is measured until they are
    /// delivered is the application's rate.
    pub fn on_app_limited(&mut self, now: Time, flight_bytes: usize) {
        let until = self.current.delivered_bytes.saturating_add(flight_bytes as u64).max(1);
        self.limited_until = Some(until);
        if !self.current.app_limited {
            self.current.app_limited = true;
            self.keep(now, Duration::ZERO);
        }
    }

    /// What was known when a packet left; `None` if that is too long ago.
    pub fn stamp(&self, sent_at: Time) -> Option<Stamp> {
        let after = self.stamps.partition_point(|stamp| stamp.at <= sent_at);
        after.checked_sub(1).map(|at| self.stamps[at])
    }

    /// The current stamp is that of all packets from now on; if there is one as of less than `slot` ago, it goes on.
    fn keep(&mut self, now: Time, slot: Duration) {
        let now = now.max(self.current.at);
        self.current.at = now;
        match self.stamps.back_mut() {
            Some(last) if last.at == now => *last = self.current,
            // It differs by no more than the flight, of which the largest is kept.
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

    /// Forgets what packets were stamped with that left before.
    fn forget(&mut self, before: Time) {
        while self.stamps.get(1).is_some_and(|second| second.at <= before) {
            self.stamps.pop_front();
        }
    }
}

/// So many bytes in such a time; `None` if there is no time.
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

    /// Packets that leave every millisecond: 8 Mb/s.
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
    fn an_even_flow_has_its_rate_and_a_round_each_round_trip() {
        let mut delivery = Delivery::default();
        let sample = even(&mut delivery, 0..1_000).unwrap();
        assert_eq!((sample.rate.to_string(), sample.delivered_bytes), ("8mbit".to_owned(), 100 * 1_000));
        assert_eq!((sample.interval, sample.rtt, sample.app_limited()), (RTT, RTT, false));
        assert_eq!((sample.stamp.flight_bytes, sample.lost_bytes), (100 * 1_000, 0));
        assert_eq!(delivery.rounds(), 9);
    }

    #[test]
    fn acknowledgements_that_come_together_count_by_when_their_data_left() {
        let mut delivery = Delivery::default();
        even(&mut delivery, 0..500);
        // Nothing for 20 ms, then all of it within one.
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
    fn what_the_application_held_back_is_marked_until_it_is_delivered() {
        let mut delivery = Delivery::default();
        even(&mut delivery, 0..500);
        delivery.on_app_limited(ms(499), 100 * MTU);
        assert!(delivery.is_app_limited());
        // Those in flight left before; what leaves before they are delivered is marked.
        assert!(!delivery.on_ack(ms(500), MTU, Some(RTT)).unwrap().app_limited());
        delivery.on_sent(ms(500), MTU, 99 * MTU);
        let sample = delivery.on_ack(ms(600), 99 * MTU, Some(RTT)).unwrap();
        assert!(sample.app_limited() && delivery.is_app_limited());
        delivery.on_sent(ms(600), MTU, MTU);
        delivery.on_ack(ms(650), MTU, None);
        assert!(!delivery.is_app_limited());
        delivery.on_sent(ms(650), MTU, MTU);
        assert!(delivery.on_ack(ms(700), MTU, Some(RTT)).unwrap().app_limited(), "it left at 600");
        assert!(!delivery.on_ack(ms(750), MTU, Some(RTT)).unwrap().app_limited());
    }

    #[test]
    fn time_in_which_nothing_was_under_way_does_not_count() {
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
    fn what_was_lost_since_the_packet_left_is_told() {
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
    fn an_acknowledgement_without_a_round_trip_or_of_nothing_is_no_sample() {
        let mut delivery = Delivery::default();
        even(&mut delivery, 0..1_000);
        assert_eq!(delivery.on_ack(ms(1_000), MTU, None), None);
        assert_eq!(delivery.on_ack(ms(1_000), 0, Some(RTT)), None);
        let long = Duration::from_millis(900);
        assert_eq!(delivery.on_ack(ms(1_001), MTU, Some(long)), None, "that is forgotten");
        assert_eq!(Delivery::default().on_ack(ms(1), MTU, Some(RTT)), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A wire of 1 µs a byte, whatever is put on it and when; acknowledgements come one by one, or are held up.
        #[test]
        fn no_sample_exceeds_the_wire_and_little_is_remembered(
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
