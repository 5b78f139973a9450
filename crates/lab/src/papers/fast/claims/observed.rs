//! The run of a figure of P4 as its claims see it.

use super::super::{ALPHA, LASTS, QUEUE, RATE, READINGS, SHORTER, SMALLER, STAGGERED, run};
use crate::data::Data;

/// The run of a figure with one reading of the delay. Arguments are times of the 1000 s; a shortened run
/// converts them.
pub(super) struct Film {
    pub(super) at: Vec<f64>,
    pub(super) throughput: Vec<f64>,
    pub(super) queue: Vec<f64>,
    pub(super) drops: Vec<f64>,
    pub(super) timeouts: Vec<f64>,
    pub(super) resent: Vec<f64>,
    pub(super) twice: Vec<f64>,
    pub(super) cwnd: Vec<Vec<f64>>,
    pub(super) goodput: Vec<Vec<f64>>,
    pub(super) reading: String,
}

impl Film {
    pub(super) fn of(data: &Data, figure: &str, reading: &str) -> Self {
        let rows = data.scene(figure);
        let its: Vec<bool> = rows.texts("delay").iter().map(|delay| *delay == reading).collect();
        let column = |name: &str| {
            let all = rows.numbers(name);
            all.into_iter().zip(&its).filter(|(_, its)| **its).map(|(number, _)| number).collect::<Vec<f64>>()
        };
        let flows = |name: &str| {
            let there = |flow: &usize| rows.columns.iter().any(|column| *column == format!("{name}_{flow}"));
            (1..=STAGGERED.len()).filter(there).map(|flow| column(&format!("{name}_{flow}"))).collect()
        };
        Self {
            at: column("seconds"),
            throughput: column("throughput_mbps"),
            queue: column("queue_packets"),
            drops: column("drops"),
            timeouts: column("timeouts"),
            resent: column("resent"),
            twice: column("twice"),
            cwnd: flows("cwnd"),
            goodput: flows("goodput"),
            reading: reading.to_owned(),
        }
    }

    pub(super) fn is_small(&self) -> bool {
        self.last(&self.at) < LASTS.as_secs_f64() / 2.0
    }

    /// The factor by which time is shortened.
    pub(super) fn shorter(&self) -> f64 {
        if self.is_small() { 1.0 / f64::from(SHORTER) } else { 1.0 }
    }

    pub(super) fn smaller(&self) -> f64 {
        if self.is_small() { SMALLER as f64 } else { 1.0 }
    }

    /// The rate of the bottleneck in Mbit/s.
    pub(super) fn capacity(&self) -> f64 {
        RATE as f64 / 1e6 / self.smaller()
    }

    pub(super) fn queue_max(&self) -> f64 {
        QUEUE as f64 / self.smaller()
    }

    pub(super) fn alpha(&self) -> f64 {
        f64::from(ALPHA) / self.smaller()
    }

    /// The RTT without queue, in seconds.
    pub(super) fn round_trip(&self) -> f64 {
        let reading = READINGS.iter().find(|(name, ..)| *name == self.reading);
        reading.map_or(f64::NAN, |(_, one_way, _)| 2.0 * one_way.as_secs_f64())
    }

    /// The bandwidth-delay product without queue, in packets.
    pub(super) fn way(&self) -> f64 {
        self.capacity() * 1e6 * self.round_trip() / 8.0 / f64::from(run::PACKET)
    }

    pub(super) fn last(&self, values: &[f64]) -> f64 {
        values.last().copied().unwrap_or(f64::NAN)
    }

    pub(super) fn highest(&self, values: &[f64]) -> f64 {
        values.iter().copied().fold(0.0, f64::max)
    }

    /// The first sample with drops; the last sample if there are none.
    pub(super) fn first_drop(&self) -> usize {
        let first = self.drops.iter().position(|drops| *drops > 0.0);
        first.unwrap_or_else(|| self.drops.len().saturating_sub(1))
    }

    /// The last sample that is not later than this second.
    pub(super) fn place(&self, second: f64) -> usize {
        let second = second * self.shorter() + 1e-6;
        self.at.partition_point(|at| *at <= second).saturating_sub(1)
    }

    pub(super) fn value(&self, values: &[f64], second: f64) -> f64 {
        values.get(self.place(second)).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn within(&self, values: &[f64], between: std::ops::Range<f64>) -> Vec<f64> {
        let (from, to) = (between.start * self.shorter(), between.end * self.shorter() + 1e-6);
        let seen = self.at.iter().zip(values).filter(|(at, _)| **at > from && **at <= to);
        seen.map(|(_, value)| *value).collect()
    }

    pub(super) fn mean(&self, values: &[f64], between: std::ops::Range<f64>) -> f64 {
        let within = self.within(values, between);
        within.iter().sum::<f64>() / within.len() as f64
    }

    /// The standard deviation as a fraction of the mean.
    pub(super) fn spread(&self, values: &[f64], between: std::ops::Range<f64>) -> f64 {
        let mean = self.mean(values, between.clone());
        let within = self.within(values, between);
        let squares: f64 = within.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / within.len() as f64).sqrt() / mean
    }

    /// The share of each flow in the total goodput.
    pub(super) fn shares(&self, between: std::ops::Range<f64>) -> Vec<f64> {
        let means: Vec<f64> = self.goodput.iter().map(|flow| self.mean(flow, between.clone())).collect();
        let all: f64 = means.iter().sum();
        means.iter().map(|mean| mean / all).collect()
    }

    /// The first repair of the first flow with a window of one packet, before others begin: the packets that it had still to send
    /// again as the repair began, and the duration in seconds.
    pub(super) fn repair(&self) -> Option<(f64, f64)> {
        let window = self.cwnd.first()?;
        let is_one = |place: &usize| (0.5..1.5).contains(&window[*place]);
        let from = (0..self.place(49.0)).find(is_one)?;
        let to = (from..window.len()).find(|place| !is_one(place)).unwrap_or(window.len() - 1);
        let left = self.value(&self.drops, 49.0) - self.resent[from];
        Some((left, self.at[to] - self.at[from])).filter(|(left, _)| *left > 0.0)
    }

    /// The number of flows whose windows fall by a third or more from a second before to three seconds after this second.
    pub(super) fn halved(&self, at: f64) -> usize {
        let falls = |window: &&Vec<f64>| self.value(window, at + 3.0) < 0.67 * self.value(window, at - 1.0);
        self.cwnd.iter().filter(falls).count()
    }

    /// The times when the queue overflowed, in seconds of 1000: the first drop of each episode. Five seconds
    /// without a drop end an episode.
    pub(super) fn cuts(&self, between: std::ops::Range<f64>) -> Vec<f64> {
        let mut cuts = Vec::new();
        let mut last = f64::NEG_INFINITY;
        for (place, pair) in self.drops.windows(2).enumerate() {
            let at = self.at[place + 1] / self.shorter();
            if pair[1] > pair[0] {
                if at - last > 5.0 {
                    cuts.push(at);
                }
                last = at;
            }
        }
        cuts.retain(|at| between.contains(at));
        cuts
    }

    pub(super) fn cuts_told(&self, between: std::ops::Range<f64>) -> String {
        let cuts = self.cuts(between);
        let told: Vec<String> = cuts.iter().take(12).map(|at| format!("{at:.0}")).collect();
        match (cuts.len(), told.len()) {
            (0, _) => "no".to_owned(),
            (all, told_of) if all > told_of => {
                format!("{} and {} times more", told.join(", "), all - told_of)
            }
            _ => told.join(", "),
        }
    }

    /// The samples in which the queue fills: between a tenth and nine tenths of it are used, and for two
    /// seconds there was no drop, no repair, and no flow that began or ended.
    pub(super) fn filling(&self) -> Vec<usize> {
        let back = 10;
        let quiet = |place: &usize| {
            let before = place.saturating_sub(back);
            let part = self.queue[*place] / self.queue_max();
            let steady = self.cwnd.iter().all(|flow| {
                let (now, then) = (flow[*place], flow[before]);
                now >= then && now < then * 1.1 + 1.0
            });
            *place >= back && (0.1..0.9).contains(&part) && self.drops[*place] == self.drops[before] && steady
        };
        (0..self.at.len()).filter(quiet).collect()
    }

    /// For each flow that joins or leaves: which one, and the time until all flows have the rates of the
    /// following interval, within a tenth of the link, in seconds of 1000.
    pub(super) fn adapts(&self) -> Vec<(String, f64)> {
        let joins =
            STAGGERED.iter().enumerate().map(|(flow, (at, _))| (*at, format!("after {} begins", flow + 1)));
        let leaves =
            STAGGERED.iter().enumerate().map(|(flow, (_, at))| (*at, format!("after {} ends", flow + 1)));
        let mut changes: Vec<(u64, String)> = joins.chain(leaves).collect();
        changes.sort();
        let pairs = changes.windows(2);
        pairs
            .map(|pair| {
                let (from, to) = (pair[0].0 as f64, pair[1].0 as f64);
                let settled: Vec<f64> =
                    self.goodput.iter().map(|flow| self.mean(flow, to - 10.0..to - 1.0)).collect();
                let near = |place: usize| {
                    // Single samples see bursts of packets, so a second is averaged.
                    let second = place.saturating_sub(4)..=place;
                    self.goodput.iter().zip(&settled).all(|(flow, settled)| {
                        let mean = flow[second.clone()].iter().sum::<f64>() / second.clone().count() as f64;
                        (mean - settled).abs() < 0.1 * self.capacity()
                    })
                };
                let far = (self.place(from)..self.place(to - 1.0)).rev().find(|place| !near(*place));
                let seconds = far.map_or(0.0, |place| self.at[place] / self.shorter() - from);
                (pair[0].1.clone(), seconds.max(0.0))
            })
            .collect()
    }
}
