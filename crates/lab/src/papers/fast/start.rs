//! Beyond the paper: the effect of flows that begin together on the queue (P4-C05).
//!
//! While the queueing delay is below a threshold, FAST opens its window by a packet per acknowledged packet,
//! which doubles the window in each round trip. FAST detects a queue one round trip after it has begun to
//! form, and by then may have put a whole bandwidth-delay product into it. So the threshold and the number of
//! sources decide whether 3000 packets are enough.
//!
//! Published: no loss. Ours, maximum queue in packets with 1, 2 and 4 flows, with a round trip of 100 ms and
//! with 100 ms in each direction: with the module's threshold of 0.75 ms 1109 478 921 and 1044 517 972,
//! without drops; 1.5 ms 1532 1450 908 and 1716 3000 940; 3 ms 3000 2933 2284 and 1932 3000 2290; 6 ms 3000
//! 3000 3000 and 2822 3000 3000. Where the queue reaches 3000, packets are dropped: 83 to 1260 up to 3 ms,
//! 1128 to 56,367 with 6 ms.

use std::time::Duration;

use braidftp_cc::fast::Params;

use super::run::Trace;
use super::{ALPHA, ONCE, Protocol, fast, flows, settings_for, together};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/start",
    shows: "The most that waits when FAST flows begin together",
    caption: "800 Mbit/s, a queue of 3000 packets, α = 200; senders reach it at 1 Gbit/s. Below the threshold of queueing delay a \
              source doubles its window in a round trip; 0.75 ms is the module's.",
    settings: &|| {
        let how = "packets of 1500 bytes; 20 s, the last 4 of them for what has settled";
        settings_for(Protocol::Fast, how.to_owned())
    },
    kind: Kind::Sweep(Sweep {
        axes: &[super::DELAY, FLOWS, THRESHOLD],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|point| point.name("delay") == "round-trip" && point.number("flows") == 2.0,
        paired: &["flows", "threshold"],
        columns: &[
            Column { name: "queue_peak", unit: "packets that waited at most" },
            Column { name: "drops", unit: "packets dropped" },
            Column { name: "queue_settled", unit: "packets that wait in the end, mean" },
            Column { name: "jain", unit: "Jain's index of what flows brought in the end" },
            Column { name: "full_after", unit: "s until 95 % of the bottleneck are used; none: not in 20 s" },
        ],
        runs: ONCE,
        run: &run,
        plot: Plot::lines("threshold", "queue_peak", "packets waiting, at most")
            .by("flows")
            .facet("delay")
            .log_x(),
    }),
};

const FLOWS: Axis = flows(&[Value::Number(1.0), Value::Number(2.0), Value::Number(4.0)]);

const THRESHOLD: Axis = Axis {
    name: "threshold",
    label: "threshold of the multiplicative start, ms",
    values: &[Value::Number(0.75), Value::Number(1.5), Value::Number(3.0), Value::Number(6.0)],
    show: &|value| value.to_string(),
};

const LASTS: Duration = Duration::from_secs(20);
/// The beginning of the settled state, in seconds.
const SETTLED: f64 = 16.0;

fn run(point: &Point, seed: u64) -> Row {
    let one_way = super::one_way(point);
    let params = Params {
        alpha_packets: ALPHA,
        mi_threshold: Duration::from_secs_f64(point.number("threshold") / 1e3),
        ..Params::p4()
    };
    let trace = fast(params, together(point.number("flows") as usize), one_way, LASTS).run(seed);
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
