//! The duration of a job with random loss: the distribution of 10,000 runs per cell, divided by the limit.

use super::{Files, Job, PATHS, losses, rounded, seconds, settings, silent, spoken_path};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Runs, Sweep, Value};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "early/tails",
    shows: "How long a job takes where packets are lost: the tail",
    caption: "100 files of 10 KB by braid, from INIT to the last 226, through the limit payload · 1480/1424 / (rate·(1−loss)) + 1 RTT. A line a \
              loss ratio, of either way: which part of all runs took longer than that. Bursts are of 3 packets in the mean, with the same \
              mean loss; two paths are two such paths at once, each with that loss.",
    settings: &settings,
    kind: Kind::Sweep(Sweep {
        axes: &[PATH, KIND, LOSS],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.name("losses") == "independent",
        paired: &[],
        columns: COLUMNS,
        runs: Runs::counted(10_000),
        run: &|point, seed| run(&job(point, seed), point.number("loss")),
        plot: Plot::tail("loss", "of_limit", "time through the limit").facet("path").rows("losses"),
    }),
};

/// The results of a run.
const COLUMNS: &[Column] = &[
    Column { name: "of_limit", unit: "time through the limit; inf: given up" },
    Column { name: "seconds", unit: "s from INIT to the last 226" },
    Column { name: "silent", unit: "s of the longest silence of either side" },
    Column { name: "timeouts", unit: "retransmission time-outs, both sides" },
    Column { name: "packets", unit: "packets that arrived, both ways" },
];

const PATH: Axis = Axis {
    name: "path",
    label: "path",
    values: &[Value::Name(PATHS[0]), Value::Name(PATHS[1]), Value::Name(PATHS[2]), Value::Name(PATHS[3])],
    show: &|value| match value {
        Value::Name(name) => spoken_path(name).to_owned(),
        other => other.to_string(),
    },
};

const KIND: Axis = Axis {
    name: "losses",
    label: "losses",
    values: &[Value::Name("independent"), Value::Name("bursts"), Value::Name("two-paths")],
    show: &|value| match value {
        Value::Name("bursts") => "bursts of 3".to_owned(),
        Value::Name("two-paths") => "two such paths".to_owned(),
        other => other.to_string(),
    },
};

const LOSS: Axis = Axis {
    name: "loss",
    label: "packets lost, each way",
    values: &[Value::Number(0.03), Value::Number(0.1), Value::Number(0.2), Value::Number(0.3)],
    show: &ftp::percent,
};

/// The job at a point.
pub(super) fn job(point: &Point, seed: u64) -> Job {
    let kind = point.name("losses");
    let paths = if kind == "two-paths" { 2 } else { 1 };
    Job {
        path: point.name("path"),
        paths,
        files: Files::Hundred,
        losses: losses(kind, point.number("loss")),
        seed,
    }
}

fn run(job: &Job, loss: f64) -> Row {
    let outcome = job.run();
    let seconds = seconds(&outcome);
    Row(vec![
        rounded(seconds / job.limit(loss), 4),
        rounded(seconds, 4),
        rounded(silent(&outcome), 4),
        outcome.timeouts as f64,
        outcome.packets_carried as f64,
    ])
}
