//! What means of whole intervals make of NewReno's utilisation (P3-C14).
//!
//! OPNET reports one value for 5 s (3,600 in 18,000 s). The same downloads as in Figure 7 are seen in such intervals: all of
//! them, the first and the last with what they have; or only those that lie within the download after its start, as one
//! reads the level of a curve. The first interval begins up to 5 s before the download. Nothing changes in the network.
//!
//! Published: nothing. Ours: `braidlab check P3-C14`.

use std::time::Duration;

use braidftp_sim::apps::bulk::Protocol;

use super::download::{Download, Progress};
use super::{DELAY_MS, Network, SATELLITE, settings, stack};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Runs, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/intervals",
    shows: "Utilisation in intervals of 5 s",
    caption: "NewReno's utilisation of the satellite's link (P3, Figure 7) as a mean of intervals of 5 s, by the time from the beginning of the first \
              interval to that of the download: all intervals, or those after the start and before the end.",
    settings: &|| {
        let how = format!("the start: the first {} s of a download", START.as_secs());
        settings(&["workload: one file", "intervals: 5 s", &how])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[SIZES, SEEN, PHASE],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|point| point.number("size") <= 50e6,
        paired: &["size"],
        columns: &[Column { name: "utilisation", unit: "% of 2 Mbit/s, mean of the intervals" }],
        runs: Runs::PAPER,
        run: &run,
        plot: Plot::lines("phase", "utilisation", "% of 2 Mbit/s").by("size").facet("seen"),
    }),
};

/// OPNET's interval.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often the link is read.
const STEP: Duration = Duration::from_millis(100);
/// The duration of slow start and of the first full windows.
const START: Duration = Duration::from_secs(10);

const SIZES: Axis =
    Axis { values: &[Value::Number(50e6), Value::Number(200e6), Value::Number(500e6)], ..super::SIZES };

const SEEN: Axis = Axis {
    name: "seen",
    label: "intervals",
    values: &[Value::Name("all"), Value::Name("within")],
    show: &|value| match value {
        Value::Name("all") => "all intervals".to_owned(),
        _ => "those within, after the start".to_owned(),
    },
};

const PHASE: Axis = Axis {
    name: "phase",
    label: "s from the first interval's beginning",
    values: &[
        Value::Number(0.0),
        Value::Number(0.5),
        Value::Number(1.0),
        Value::Number(1.5),
        Value::Number(2.0),
        Value::Number(2.5),
        Value::Number(3.0),
        Value::Number(3.5),
        Value::Number(4.0),
        Value::Number(4.5),
    ],
    show: &|value| value.to_string(),
};

fn run(point: &Point, _: u64) -> Row {
    let bytes = point.number("size") as u64;
    let progress = Progress::once(format!("newreno intervals {bytes}"), STEP, || Download {
        protocol: Protocol::Tcp(stack("newreno").into()),
        bytes,
        links: Network::lossless(DELAY_MS).links(),
        seed: 1,
    });
    let phase = Duration::from_secs_f64(point.number("phase"));
    Row(vec![utilisation(&progress, phase, point.name("seen") == "all")])
}

/// The mean utilisation in intervals of which the first begins `phase` before the download.
fn utilisation(progress: &Progress, phase: Duration, all: bool) -> f64 {
    let full = SATELLITE as f64 * INTERVAL.as_secs_f64() / 8.0;
    let mut parts = Vec::new();
    let mut ends = INTERVAL;
    loop {
        // Both in the time of the download.
        let (from, to) = ((ends - INTERVAL).saturating_sub(phase), ends - phase);
        if from >= progress.seconds {
            break;
        }
        let is_within = ends - INTERVAL >= phase + START && to <= progress.seconds;
        if all || is_within {
            parts.push((progress.bytes(to) - progress.bytes(from)) / full);
        }
        ends += INTERVAL;
    }
    100.0 * parts.iter().sum::<f64>() / parts.len() as f64
}
