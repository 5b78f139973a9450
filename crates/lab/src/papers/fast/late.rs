//! Beyond the paper: sources that begin late have more than their share, and a remedy (P4-C06).
//!
//! A source that begins while others have packets in the queue takes their queueing delay for propagation
//! delay: its baseRTT is too long by eᵢ, and it keeps α packets in addition. With the queue q in packets the
//! shares are α/(q − eᵢ), and they add up to one: of two sources .38 and .62 with 524 packets in the queue,
//! of three .22, .28 and .51 with 920, of four .15, .17, .24 and .45 with 1368. All shares should be equal,
//! with 400, 600 and 800 packets. `refresh` measures baseRTT again, at the same time for all sources
//! (`cc::fast`).
//!
//! Published: "each source aims to keep the equal number of packets inside the queue". Ours agree with the
//! prediction if each source found a stable queue: .381 .619 with 525 packets; .217 .278 .504 with 922; .146
//! .171 .236 .446 with 1371. With new measurements of baseRTT .504 .496 with 387; .338 .324 .338 with 626;
//! .250 .250 .249 .250 with 749, at utilisations of .987, .998 and .987, because each measurement empties the
//! queue.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::fast::Params;
use braidftp_sim::apps::bulk::Span;

use super::{ALPHA, ONCE, Protocol, READINGS, fast, flows, settings_for};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/late",
    shows: "What FAST flows that begin late have of the link",
    caption: "800 Mbit/s, 100 ms there and back, α = 200: two, three and four flows, each 20 s after the one before. The last one \
              takes the others' queue for a part of the way. Predicted: the fixed point with such bases. Refreshed: each base \
              is measured anew every 10 s, by all at one time.",
    settings: &|| {
        settings_for(
            Protocol::Fast,
            format!(
                "packets of 1500 bytes; flows begin {BETWEEN} s after one another, and are looked at for {MEASURED} s, {AFTER} s after \
                 the last"
            ),
        )
    },
    kind: Kind::Sweep(Sweep {
        axes: &[FLOWS, BASES],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|point| point.number("flows") == 2.0,
        paired: &["flows", "bases"],
        columns: &[
            Column { name: "last_of_fair", unit: "what the last flow has, in fair shares" },
            Column { name: "share_1", unit: "part of what all bring that the first flow has" },
            Column { name: "share_2", unit: "of the second" },
            Column { name: "share_3", unit: "of the third; 0: there is none" },
            Column { name: "share_4", unit: "of the fourth" },
            Column { name: "queue", unit: "packets waiting, mean" },
            Column { name: "jain", unit: "Jain's index" },
            Column { name: "utilisation", unit: "of the bottleneck" },
            Column { name: "drops", unit: "packets dropped" },
        ],
        runs: ONCE,
        run: &run,
        plot: Plot::bars("flows", "last_of_fair", "share of the last, in fair shares").by("bases"),
    }),
};

const FLOWS: Axis = flows(&[Value::Number(2.0), Value::Number(3.0), Value::Number(4.0)]);

const BASES: Axis = Axis {
    name: "bases",
    label: "baseRTT",
    values: &[Value::Name("predicted"), Value::Name("least"), Value::Name("refreshed")],
    show: &|value| match value {
        Value::Name("predicted") => "predicted".to_owned(),
        Value::Name("least") => "as in the module".to_owned(),
        _ => "refreshed every 10 s".to_owned(),
    },
};

/// The time between two starts, in seconds.
const BETWEEN: u64 = 20;
/// The time from the last start to the measurement, in seconds.
const AFTER: u64 = 30;
/// The duration of the measurement, in seconds.
const MEASURED: u64 = 20;
/// The interval between measurements of baseRTT.
const REFRESH: Duration = Duration::from_secs(10);

fn run(point: &Point, seed: u64) -> Row {
    let flows = point.number("flows") as usize;
    let (mut shares, queue, utilisation, drops) = match point.name("bases") {
        "predicted" => {
            let (shares, queue) = predicted(flows, f64::from(ALPHA));
            (shares, queue, 1.0, 0.0)
        }
        bases => {
            let begins = |flow| Time::ZERO + Duration::from_secs(BETWEEN * flow as u64);
            let spans = (0..flows).map(|flow| Span { begins: begins(flow), ends: None }).collect();
            let refresh = (bases == "refreshed").then_some(REFRESH);
            let params = Params { alpha_packets: ALPHA, refresh, ..Params::p4() };
            let from = BETWEEN * (flows as u64 - 1) + AFTER;
            let lasts = Duration::from_secs(from + MEASURED);
            let trace = fast(params, spans, READINGS[0].1, lasts).run(seed);
            let measured = from as f64..(from + MEASURED) as f64;
            let goodputs = trace.goodputs(measured.clone());
            let all: f64 = goodputs.iter().sum();
            (
                goodputs.iter().map(|goodput| goodput / all).collect(),
                trace.queue(measured.clone()),
                trace.throughput(measured) / super::RATE as f64,
                trace.drops() as f64,
            )
        }
    };
    let (last, jain) = (shares[flows - 1] * flows as f64, super::jain(&shares));
    shares.resize(4, 0.0);
    Row([vec![last], shares, vec![queue, jain, utilisation, drops]].concat())
}

/// Predicts the shares of sources that begin one after the other, each with a stable queue, and that queue in
/// packets: q for which Σ α/(q − eᵢ) = 1, where eᵢ is the queue that source i found.
pub(super) fn predicted(flows: usize, alpha: f64) -> (Vec<f64>, f64) {
    let (mut bias, mut queue) = (Vec::new(), 0.0);
    for _ in 0..flows {
        bias.push(queue);
        let wanted = |queue: f64| bias.iter().map(|bias| alpha / (queue - bias)).sum::<f64>();
        // The sum decreases with q, so bisection finds q. Above the last bias all terms are positive.
        let (mut low, mut high) = (queue + alpha, queue + alpha * flows as f64);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if wanted(middle) > 1.0 { low = middle } else { high = middle }
        }
        queue = high;
    }
    (bias.iter().map(|bias| alpha / (queue - bias)).collect(), queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicted_shares_equal_values_computed_by_hand() {
        let papers: [(&[f64], f64); 4] = [
            (&[1.0], 200.0),
            (&[0.38, 0.62], 524.0),
            (&[0.22, 0.28, 0.505], 920.0),
            (&[0.15, 0.17, 0.24, 0.45], 1_368.0),
        ];
        for (expected, waiting) in papers {
            let (shares, queue) = predicted(expected.len(), 200.0);
            let near = shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 0.005);
            assert!(near && (queue - waiting).abs() < 1.0, "{shares:?}, {queue}");
        }
    }
}
