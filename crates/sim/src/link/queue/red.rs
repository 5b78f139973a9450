//! Random early detection: S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance",
//! IEEE/ACM Transactions on Networking 1(4), 1993; with the "gentle" slope of Floyd (2000) where asked.
//!
//! The mean queue is updated when a packet arrives. Below `min` no packet is selected. Between `min` and
//! `max` a packet is selected with a probability that rises with the mean and with the packets since the last
//! selected one. Above `max` every packet is dropped, or, in gentle mode, with a probability that rises to 1
//! at twice `max`. Packet sizes do not affect the probability, even where the queue is measured in bytes.
//! Only addition, multiplication and division are used, so that results are the same on every machine.

use std::fmt;
use std::time::Duration;

use braidftp_base::Time;

use super::super::config_error::ConfigError;
use super::super::text::parsed;
use super::{Level, Signal};
use crate::random::{Probability, Random};

/// The parameters of RED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Red {
    /// The unit of the queue length.
    pub measure: Measure,
    /// `min_th`: below this mean no packet is selected.
    pub min: usize,
    /// `max_th`: above this mean all packets are dropped, or many if `slope` is gentle.
    pub max: usize,
    /// `max_p`: the probability of selection as the mean reaches `max`. Default: 0.1.
    pub max_probability: Probability,
    /// `w_q`: the weight of the current queue in the mean. Default: 0.002.
    pub weight: Probability,
    /// The behaviour above `max`.
    pub slope: Slope,
    /// What is done with selected packets. Those above `max` are always dropped.
    pub signal: Signal,
}

/// The unit of a queue length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
}

/// The behaviour of RED above `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slope {
    /// A step: every packet is dropped.
    Step,
    /// From `max_p` at `max` to 1 at twice `max`.
    Gentle,
}

/// The mean queue and the state of the selection.
#[derive(Debug, Clone)]
pub(in super::super) struct Mean {
    /// `avg`, in the unit of the configuration.
    avg: f64,
    /// Packets since the last selected one, while the mean is above `min`; -1 below.
    count: i64,
    /// Since when the queue is empty, if it is.
    idle_since: Option<Time>,
}

/// The verdict on an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Verdict {
    Pass,
    /// Selected early: marked or dropped.
    Picked,
    /// The mean is too high: dropped.
    Forced,
}

impl Mean {
    pub(in super::super) fn new() -> Self {
        Self { avg: 0.0, count: -1, idle_since: Some(Time::ZERO) }
    }

    /// The mean queue.
    pub(in super::super) fn value(&self) -> f64 {
        self.avg
    }

    /// Nothing is queued or on the wire any more.
    pub(in super::super) fn falls_idle(&mut self, at: Time) {
        self.idle_since = Some(at);
    }

    /// Decides on an arriving packet that finds `level` queued. `small` is the transmission time of a small
    /// packet: it determines how many packets could have left during idle time.
    pub(in super::super) fn verdict(
        &mut self,
        red: &Red,
        now: Time,
        level: Level,
        small: Duration,
        random: &mut Random,
    ) -> Verdict {
        let queue = match red.measure {
            Measure::Packets => level.packets,
            Measure::Bytes => level.bytes,
        };
        let keep = red.weight.complement().as_f64();
        if let Some(since) = self.idle_since.take() {
            let missed = now.since(since).as_nanos() / small.as_nanos().max(1);
            self.avg *= power(keep, missed);
        } else {
            self.avg = keep * self.avg + red.weight.as_f64() * queue as f64;
        }
        // One draw per packet, whatever the verdict.
        let chance = random.unit();
        let (min, max, max_p) = (red.min as f64, red.max as f64, red.max_probability.as_f64());
        let p_b = if self.avg < min {
            self.count = -1;
            return Verdict::Pass;
        } else if self.avg < max {
            max_p * (self.avg - min) / (max - min)
        } else if red.slope == Slope::Gentle && self.avg < 2.0 * max {
            max_p + (1.0 - max_p) * (self.avg - max) / max
        } else {
            self.count = 0;
            return Verdict::Forced;
        };
        self.count += 1;
        let spread = 1.0 - self.count as f64 * p_b;
        let p_a = if spread > 0.0 { p_b / spread } else { 1.0 };
        if chance < p_a {
            self.count = 0;
            if self.avg < max { Verdict::Picked } else { Verdict::Forced }
        } else {
            Verdict::Pass
        }
    }
}

/// Exponentiation by squaring: the same on every machine.
fn power(base: f64, mut exponent: u128) -> f64 {
    let (mut square, mut product) = (base, 1.0);
    while exponent > 0 && product > 0.0 {
        if exponent & 1 == 1 {
            product *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    product
}

/// In the notation of `Red::parse`.
impl fmt::Display for Red {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.measure {
            Measure::Packets => "p",
            Measure::Bytes => "B",
        };
        write!(f, "{}{unit}:{}{unit}:{}:{}", self.min, self.max, self.max_probability, self.weight)?;
        if self.slope == Slope::Gentle {
            write!(f, ":gentle")?;
        }
        if self.signal == Signal::Mark {
            write!(f, ":mark")?;
        }
        Ok(())
    }
}

impl Red {
    /// Parses `min:max[:max_p[:weight]][:gentle][:mark]`, as in `5p:15p:0.1:0.002:gentle:mark` or
    /// `30kB:90kB`.
    pub(in super::super) fn parse(parts: &[&str]) -> Result<Self, ConfigError> {
        let text = parts.join(":");
        let wrong = || {
            ConfigError::new(format!(
                "`{}` is not RED: write min:max, then max_p (0.1) and weight (0.002) if they are others, then gentle and \
                 mark if wanted, with 0 < min < max, as in 5p:15p:0.1:0.002:gentle:mark or 30kB:90kB",
                text.escape_debug()
            ))
        };
        let (mut parts, mut slope, mut signal) = (parts, Slope::Step, Signal::Drop);
        while let Some((last, rest)) = parts.split_last() {
            match *last {
                "gentle" => slope = Slope::Gentle,
                "mark" => signal = Signal::Mark,
                _ => break,
            }
            parts = rest;
        }
        let [min, max, numbers @ ..] = parts else { return Err(wrong()) };
        if numbers.len() > 2 {
            return Err(wrong());
        }
        let number = |at: usize, default: f64| match numbers.get(at) {
            Some(text) => parsed::<Probability>(text),
            None => Ok(Probability::new(default).expect("defaults are probabilities")),
        };
        let (max_probability, weight) = (number(0, 0.1)?, number(1, 0.002)?);
        let limits = [min, max].map(|text| parsed::<super::Queue>(text));
        let [Ok(min), Ok(max)] = limits else { return Err(wrong()) };
        let (measure, min, max) = match (min, max) {
            (super::Queue::Packets(min), super::Queue::Packets(max)) => (Measure::Packets, min, max),
            (super::Queue::Bytes(min), super::Queue::Bytes(max)) => (Measure::Bytes, min, max),
            _ => return Err(wrong()),
        };
        if min >= max {
            return Err(wrong());
        }
        Ok(Self { measure, min, max, max_probability, weight, slope, signal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Duration = Duration::from_millis(4);

    fn red(text: &str) -> Red {
        Red::parse(&text.split(':').collect::<Vec<_>>()).unwrap()
    }

    fn level(packets: usize) -> Level {
        Level { packets, bytes: packets * 1_500 }
    }

    #[test]
    fn the_mean_follows_the_queue_by_its_weight_and_decays_while_idle() {
        let red = red("5p:15p:0.1:0.25");
        let (mut mean, mut random) = (Mean::new(), Random::new(1, 1));
        let mut tell = |mean: &mut Mean, at, queue| {
            mean.verdict(&red, Time::from_millis(at), level(queue), SMALL, &mut random)
        };
        tell(&mut mean, 0, 0);
        tell(&mut mean, 1, 8);
        assert_eq!(mean.value(), 2.0); // a quarter of 8
        tell(&mut mean, 2, 8);
        assert_eq!(mean.value(), 3.5); // 3/4 of 2, and 2
        mean.falls_idle(Time::from_millis(10));
        // Three packets of 4 ms could have left in 13 ms: 3.5 * (3/4)^3.
        tell(&mut mean, 23, 0);
        assert_eq!(mean.value(), 3.5 * 27.0 / 64.0);
    }

    #[test]
    fn packets_are_selected_between_the_thresholds_and_all_dropped_above() {
        let red = red("5p:15p:0.1:1");
        let verdicts = |queue: usize| {
            let (mut mean, mut random) = (Mean::new(), Random::new(3, 0));
            mean.idle_since = None;
            (0..10_000)
                .map(|_| mean.verdict(&red, Time::ZERO, level(queue), SMALL, &mut random))
                .collect::<Vec<_>>()
        };
        assert!(verdicts(4).iter().all(|verdict| *verdict == Verdict::Pass));
        assert!(verdicts(15).iter().all(|verdict| *verdict == Verdict::Forced));
        // Half way p_b is 1/20. By the counting of the paper's code, the gaps between selected packets are
        // uniform over 1 to 19: one in 10 is selected.
        let half_way = verdicts(10);
        let picked: Vec<_> =
            half_way.iter().enumerate().filter(|(_, v)| **v == Verdict::Picked).map(|(at, _)| at).collect();
        assert!((960..1_040).contains(&picked.len()), "{}", picked.len());
        let gaps: Vec<_> = picked.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1..=19).contains(gap)), "{gaps:?}");
        assert!((1..=19).all(|gap| gaps.contains(&gap)));
    }

    #[test]
    fn a_gentle_slope_drops_all_at_twice_the_maximum() {
        let red = red("5p:15p:0.1:1:gentle");
        let dropped = |queue: usize| {
            let (mut mean, mut random) = (Mean::new(), Random::new(3, 0));
            mean.idle_since = None;
            let verdict = |_| mean.verdict(&red, Time::ZERO, level(queue), SMALL, &mut random);
            (0..10_000).map(verdict).filter(|verdict| *verdict == Verdict::Forced).count()
        };
        assert_eq!(dropped(30), 10_000);
        // At max p_b is 1/10: gaps of 1 to 9, one in 5.
        assert!((1_930..2_070).contains(&dropped(15)), "{}", dropped(15));
        assert!(dropped(22) > dropped(15) && dropped(22) < 10_000);
    }

    #[test]
    fn power_equals_repeated_multiplication() {
        assert_eq!(power(0.5, 0), 1.0);
        assert_eq!(power(0.5, 10), 1.0 / 1024.0);
        assert_eq!(power(0.998, u128::MAX), 0.0);
    }
}
