//! Beyond the paper: flows that begin together, and what their start does to the queue (P4-C05).
//!
//! While queueing delay is below a threshold, FAST opens its window by a packet for each that is acknowledged: twofold in a round
//! trip. It sees a queue a round trip after it has begun, and by then may have put a whole way's packets into it; so it is the
//! threshold, and how many sources there are, that decides whether 3000 packets are enough.
//!
//! Published: no loss. Ours: none with the module's threshold, whatever the reading of the delay and the number of flows; with 3 ms
//! a single flow overflows 3000 packets.

use std::time::Duration;

use braidftp_cc::fast::Params;

use super::run::{Setup, Stack, Trace};
use super::{ALPHA, Protocol, setup, together};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Runs, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/start",
    shows: "The most that waits when FAST flows begin together",
    caption: "800 Mbit/s, a queue of 3000 packets, α = 200; senders reach it at 1 Gbit/s. Below the threshold of queueing delay a \
              source doubles its window in a round trip; 0.75 ms is the module's.",
    settings: || {
        let mut settings = super::settings(Protocol::Fast);
        settings[3] = "packets of 1500 bytes; 20 s, the last 4 of them for what has settled".to_owned();
        settings.truncate(4);
        settings
    },
    kind: Kind::Sweep(Sweep {
        axes: &[super::DELAY, FLOWS, THRESHOLD],
        only: |_| true,
        fixed: |_| true,
        quick: |point| point.name("delay") == "round-trip" && point.number("flows") == 2.0,
        paired: &["flows", "threshold"],
        columns: &[
            Column { name: "queue_peak", unit: "packets that waited at most" },
            Column { name: "drops", unit: "packets dropped" },
            Column { name: "queue_settled", unit: "packets that wait in the end, mean" },
            Column { name: "jain", unit: "Jain's index of what flows brought in the end" },
            Column { name: "full_after", unit: "s until 95 % of the bottleneck are used; none: not in 20 s" },
        ],
        runs: Runs { min: 1, max: 1, within: 0.05 },
        run,
        plot: Plot::lines("threshold", "queue_peak", "packets waiting, at most")
            .by("flows")
            .facet("delay")
            .log_x(),
    }),
};

const FLOWS: Axis = Axis {
    name: "flows",
    label: "flows",
    values: &[Value::Number(1.0), Value::Number(2.0), Value::Number(4.0)],
    show: |value| match value {
        Value::Number(1.0) => "1 flow".to_owned(),
        other => format!("{other} flows"),
    },
};

const THRESHOLD: Axis = Axis {
    name: "threshold",
    label: "threshold of the multiplicative start, ms",
    values: &[Value::Number(0.75), Value::Number(1.5), Value::Number(3.0), Value::Number(6.0)],
    show: |value| value.to_string(),
};

const LASTS: Duration = Duration::from_secs(20);
/// From when on it is taken for settled.
const SETTLED: f64 = 16.0;

fn run(point: &Point, seed: u64) -> Row {
    let one_way = super::one_way(point);
    let params = Params {
        alpha_packets: ALPHA,
        mi_threshold: Duration::from_secs_f64(point.number("threshold") / 1e3),
        ..Params::p4()
    };
    let papers = setup(Protocol::Fast, together(point.number("flows") as usize), one_way);
    let trace = Setup { stack: Stack::Fast(params), lasts: LASTS, ..papers }.run(seed);
    let full = trace.samples.iter().find(|sample| sample.throughput > 0.95 * super::RATE as f64);
    Row(vec![
        trace.queue_peak,
        trace.drops() as f64,
        trace.queue(SETTLED..20.0),
        jain(&trace),
        full.map_or(f64::NAN, |sample| sample.at),
    ])
}

fn jain(trace: &Trace) -> f64 {
    super::jain(&trace.goodputs(SETTLED..20.0))
}
