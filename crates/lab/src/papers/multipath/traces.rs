//! LTE and Wi-Fi: two paths whose rates follow traces, in Mahimahi's format.
//!
//! The traces are synthetic, generated from a seed, because published ones may not be copied. The rate is a
//! random walk in steps of 100 ms that returns to its mean, like those of measured radio links: LTE between 2
//! and 30 Mbit/s around 12, with a queue of 300 ms; Wi-Fi between 1 and 50 around 20, with interruptions of
//! 0.2 to 0.6 s about every 8 s and 1 % loss.
//!
//! Published: nothing with these traces. Ours, mean of sixteen traces: 28.9 Mbit/s, 0.967 of the capacity of
//! both, with self-tuning buffers; with 64 KB 16.9 Mbit/s, where Wi-Fi alone reaches 16.5.

use std::sync::Arc;
use std::time::Duration;

use braidftp_sim::Random;
use braidftp_sim::link::{Bandwidth, LinkConfig, OPPORTUNITY_BYTES, Queue, Trace};

use super::{COLUMNS, LATER, PATHS, RUNS, WHOLE, modern, numbers, paths, settings};
use crate::figure::{Axis, Figure, Kind, Row, Sweep, Value};
use crate::papers::bottleneck::SCTP_SHARE;
use crate::papers::ftp;
use crate::papers::paths::{Look, Network};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/traces",
    shows: "LTE and Wi-Fi, whose rates change all the time",
    caption: "User data over both, and over each alone, through what the two traces could carry, by the receive buffer. Path 1 is LTE, path 2 is Wi-Fi.",
    settings: &|| {
        settings(&[
            "path 1: LTE, a walk from 2 to 30 Mbit/s around 12, 25 ms each way, 300 packets of queue",
            "path 2: Wi-Fi, a walk from 1 to 50 Mbit/s around 20 with pauses of 0.2 to 0.6 s, 5 ms each way, 100 packets, 1 % lost",
            "the traces are made from the run's seed",
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                values: &[Value::Name("64"), Value::Name("256"), Value::Name("1024"), Value::Name("auto")],
                ..super::BUFFER
            },
            PATHS,
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.name("buffer") == "auto",
        paired: &["paths", "buffer"],
        columns: COLUMNS,
        // The same traces for both paths and for each alone: capacities differ more between traces than
        // results between variants.
        runs: crate::figure::Runs { min: 16, max: 16, ..RUNS },
        run: &|point, seed| {
            let radios = [&LTE, &WIFI].map(|radio| radio.rates(seed));
            let links = [0, 1].map(|path| {
                let radio = [&LTE, &WIFI][path];
                LinkConfig {
                    rate: Bandwidth::Trace(Arc::new(trace(radio.name, &radios[path]))),
                    delay: Duration::from_millis(radio.delay_ms),
                    queue: Queue::Packets(radio.queue_packets),
                    loss: ftp::bernoulli(radio.loss),
                    overhead_bytes: 20,
                    ..LinkConfig::default()
                }
            });
            // The return direction has its own rates; it carries little.
            let mut network = Network::paths(&links);
            for link in [1, 3] {
                network.links[link].rate = Bandwidth::Unlimited;
            }
            let limit: f64 = [0, 1]
                .map(|path| {
                    let later = &radios[path][(LATER.as_millis() / 100) as usize..];
                    let mean = later.iter().sum::<f64>() / later.len() as f64;
                    mean * 1e6 * SCTP_SHARE * (1.0 - [&LTE, &WIFI][path].loss)
                })
                .iter()
                .sum();
            let config = modern("default", point.name("buffer"));
            let seen = network.with(config, paths(point.name("paths"))).watch(WHOLE, Look::Numbers, seed);
            Row(numbers(&seen, limit))
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data").by("paths").beside("share"),
    }),
};

/// A radio link.
struct Radio {
    name: &'static str,
    mean: f64,
    least: f64,
    most: f64,
    delay_ms: u64,
    queue_packets: usize,
    loss: f64,
    /// The mean number of steps between interruptions, in hundreds.
    stops: u64,
}

const LTE: Radio = Radio {
    name: "lte",
    mean: 12.0,
    least: 2.0,
    most: 30.0,
    delay_ms: 25,
    queue_packets: 300,
    loss: 0.0,
    stops: 0,
};

const WIFI: Radio = Radio {
    name: "wifi",
    mean: 20.0,
    least: 1.0,
    most: 50.0,
    delay_ms: 5,
    queue_packets: 100,
    loss: 0.01,
    stops: 1,
};

impl Radio {
    /// The rate in Mbit/s in each tenth of a second.
    fn rates(&self, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed, 1 << 50 | self.mean as u64);
        let (mut rate, mut stopped) = (self.mean, 0);
        (0..WHOLE.as_millis() / 100)
            .map(|_| {
                // Uniform steps of up to a third of the mean, and a return of a tenth of the distance to it.
                let step = (random.below(2_001) as f64 / 1_000.0 - 1.0) * self.mean / 3.0;
                rate = (rate + step + (self.mean - rate) / 10.0).clamp(self.least, self.most);
                let stops = random.below(100) < self.stops;
                let lasts = 2 + random.below(5);
                stopped = if stops { lasts } else { u64::saturating_sub(stopped, 1) };
                if stopped > 0 { 0.0 } else { rate }
            })
            .collect()
    }
}

/// The sending opportunities at these rates.
fn trace(name: &str, rates: &[f64]) -> Trace {
    let (mut text, mut bits) = (String::new(), 0.0);
    for ms in 0..rates.len() * 100 {
        bits += rates[ms / 100] * 1e3;
        while bits >= (OPPORTUNITY_BYTES * 8) as f64 {
            bits -= (OPPORTUNITY_BYTES * 8) as f64;
            text.push_str(&format!("{}\n", ms + 1));
        }
    }
    Trace::parse(name, &text).expect("its times rise")
}
