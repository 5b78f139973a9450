//! Generated traces of links whose rate changes, in Mahimahi's form: the milliseconds at which 1,504 bytes can be sent.
//!
//! They are not measurements. A seeded process imitates what published traces show: a rate that wanders over an order of
//! magnitude within seconds, pauses, and packets that are sent in groups. The same seed gives the same trace.

use std::fmt::Write as _;

use crate::tree::Rng;

/// The bytes of an opportunity, as in Mahimahi and `braidlab`.
const OPPORTUNITY_BYTES: f64 = 1_504.0;
/// The length of a trace; `braidlab` repeats it.
const TRACE_MS: u32 = 120_000;
/// The period of changes of the rate.
const STEP_MS: u32 = 100;

/// The kind of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One device in a cell of LTE: each millisecond it is scheduled or not; handovers pause it for 100 to 400 ms about twice
    /// a minute.
    Lte,
    /// A shared channel of Wi-Fi: groups of packets after waiting for the channel; interference pauses it for 20 to
    /// 60 ms about every second.
    Wifi,
}

/// The parameters of a kind.
struct Shape {
    /// The rate that the rate returns to, in Mbit/s, and its least and most.
    mbit: f64,
    range: (f64, f64),
    /// The standard deviation of the logarithm of the rate between steps.
    wander: f64,
    /// The probability that a pause begins in a step, its least length, and the range above it, in ms.
    pause: (f64, u64, u64),
    /// The mean time between two groups of packets, in ms.
    group_ms: u64,
}

impl Kind {
    fn shape(self) -> Shape {
        match self {
            Self::Lte => Shape {
                mbit: 26.0,
                range: (2.0, 70.0),
                wander: 0.18,
                pause: (1.0 / 300.0, 100, 300),
                group_ms: 2,
            },
            Self::Wifi => Shape {
                mbit: 60.0,
                range: (10.0, 130.0),
                wander: 0.15,
                pause: (1.0 / 10.0, 20, 40),
                group_ms: 4,
            },
        }
    }

    /// The rate in the long run of many traces, pauses included, in Mbit/s.
    pub(super) fn mean_mbit(self) -> f64 {
        match self {
            Self::Lte => 29.0,
            Self::Wifi => 63.0,
        }
    }
}

/// The text of a trace.
pub(super) fn text(kind: Kind, seed: u64) -> String {
    opportunities(kind, seed).iter().fold(String::new(), |mut text, ms| {
        let _ = writeln!(text, "{ms}");
        text
    })
}

/// The milliseconds of all opportunities, in order.
fn opportunities(kind: Kind, seed: u64) -> Vec<u32> {
    let shape = kind.shape();
    let mut rng = Rng(seed ^ 0x7261_6365);
    let (mut all, mut logarithm, mut credit, mut paused_until) = (Vec::new(), 0.0, 0.0, 0);
    for ms in 1..=TRACE_MS {
        if ms % STEP_MS == 1 {
            logarithm = 0.95 * logarithm + shape.wander * normal(&mut rng);
            if part(&mut rng) < shape.pause.0 {
                paused_until = ms + (shape.pause.1 + rng.below(shape.pause.2)) as u32;
            }
        }
        if ms < paused_until {
            continue;
        }
        let rate = (shape.mbit * f64::exp(logarithm)).clamp(shape.range.0, shape.range.1);
        credit += rate * 1e3 / 8.0 / OPPORTUNITY_BYTES;
        if rng.below(shape.group_ms) == 0 {
            all.extend(std::iter::repeat_n(ms, credit as usize));
            credit -= credit.floor();
        }
    }
    // The last millisecond is the period.
    all.push(TRACE_MS);
    all
}

/// A number from 0 to 1.
fn part(rng: &mut Rng) -> f64 {
    (rng.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number of a normal distribution of variance 1, nearly: the sum of twelve uniform ones.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| part(rng)).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(opportunities: usize, ms: u32) -> f64 {
        opportunities as f64 * OPPORTUNITY_BYTES * 8.0 / 1e3 / f64::from(ms)
    }

    #[test]
    fn traces_rise_last_two_minutes_and_follow_from_their_seed() {
        for kind in [Kind::Lte, Kind::Wifi] {
            let trace = opportunities(kind, 7);
            assert!(trace.is_sorted() && trace[0] > 0 && trace.last() == Some(&TRACE_MS));
            assert_eq!(trace, opportunities(kind, 7));
            assert_ne!(trace, opportunities(kind, 8));
            let lines: Vec<u32> = text(kind, 7).lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!(lines, trace);
        }
    }

    #[test]
    fn the_mean_rate_of_many_traces_is_the_stated_one() {
        for kind in [Kind::Lte, Kind::Wifi] {
            let total: f64 = (1..=40).map(|seed| mbit(opportunities(kind, seed).len(), TRACE_MS)).sum();
            let mean = total / 40.0;
            assert!((mean / kind.mean_mbit() - 1.0).abs() < 0.05, "{kind:?}: {mean}");
        }
    }

    #[test]
    fn the_rate_changes_within_a_trace_by_more_than_twofold_and_pauses() {
        for (kind, pause_ms) in [(Kind::Lte, 100), (Kind::Wifi, 20)] {
            let trace = opportunities(kind, 3);
            let seconds: Vec<_> = (0..120)
                .map(|second| trace.iter().filter(|ms| **ms / 1000 == second).count())
                .map(|count| mbit(count, 1_000))
                .collect();
            let (least, most) =
                seconds.iter().fold((f64::MAX, 0.0_f64), |(a, b), it| (a.min(*it), b.max(*it)));
            assert!(most > 2.0 * least, "{kind:?}: {least} {most}");
            assert!(trace.windows(2).any(|two| two[1] - two[0] >= pause_ms), "{kind:?}");
        }
    }
}
