//! The effect of each constant of `auto`, changed separately by -30 % and +30 %, over paths that no claim
//! uses.
//!
//! The result of a run is at most 1. For a single flow it is the goodput divided by C·(1−p) without headers;
//! beside a TCP connection 1 minus the distance of the share from the fair one; among four flows of the same
//! kind Jain's index. Runs that differ only in a constant have the same losses. A constant without effect on
//! any path is a candidate for removal; a large effect means that the value is critical. `docs/auto.md`
//! contains the results.

use std::sync::LazyLock;
use std::time::Duration;

use braidftp_cc::auto::Constants;
use braidftp_sim::link::{LinkConfig, Queue};

use super::shared;
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Runs, Sweep, Value};
use crate::papers::bottleneck::{PACKET, Ways};
use crate::papers::ftp;
use crate::papers::sensitivity::{self, Moved, UNMOVED};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "utilisation/sensitivity",
    shows: "What a constant of auto is worth",
    caption: "Each constant of auto alone at 70 % and at 130 % of its value, over paths that no claim uses. 1 is the best: all of \
              C·(1−p) alone, the fair share beside TCP, equal shares among four.",
    settings: &|| {
        let mut lines: Vec<String> = SCENES.iter().map(Scene::says).collect();
        lines.push("tcp: the simulator's profile modern, with the same buffers".to_owned());
        lines.push("seeds: those of a scene, whatever the constant".to_owned());
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis { name: "constant", label: "constant", values: &CONSTANTS, show: &Value::to_string },
            Axis {
                name: "move",
                label: "value",
                values: &[Value::Number(70.0), Value::Number(100.0), Value::Number(130.0)],
                show: &|value| format!("{value} %"),
            },
            Axis { name: "scene", label: "scene", values: &NAMES, show: &Value::to_string },
        ],
        only: &|point| (point.name("constant") == UNMOVED) == (point.number("move") == 100.0),
        fixed: &|_| false,
        quick: &|point| matches!(point.name("scene"), "lossy" | "cubic"),
        paired: &["constant", "move"],
        columns: &[
            Column {
                name: "result",
                unit: "1 is the best: part of C(1-p), nearness to the fair share, or Jain's index",
            },
            Column { name: "utilisation", unit: "of C(1-p) less headers, all flows" },
            Column { name: "queue_ms", unit: "ms that the queue adds, mean" },
        ],
        runs: Runs { min: 6, max: 6, within: 0.05 },
        run: &run,
        plot: Plot::lines("constant", "result", "result").by("move").facet("scene"),
    }),
};

const CONSTANTS: [Value; Constants::NAMES.len() + 1] = sensitivity::constants(Constants::NAMES);

/// The other flows of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nobody,
    Reno,
    Cubic,
    /// CUBIC, which begins after a third of the run.
    CubicLater,
    ThreeOfItsKind,
}

/// A path with its flows.
struct Scene {
    name: &'static str,
    bits_per_second: u64,
    round_trip: Duration,
    /// The queue in bandwidth-delay products.
    queue: f64,
    /// The random loss ratio in each direction.
    loss: f64,
    beside: Beside,
    lasts: Duration,
}

const fn scene(name: &'static str, kilobits: u64, round_trip_ms: u64, queue: f64, loss: f64) -> Scene {
    Scene {
        name,
        bits_per_second: kilobits * 1_000,
        round_trip: Duration::from_millis(round_trip_ms),
        queue,
        loss,
        beside: Beside::Nobody,
        lasts: Duration::from_secs(40),
    }
}

/// Rates, RTTs, queues and losses that neither a claim nor another figure uses.
const SCENES: [Scene; 13] = [
    scene("clean", 37_000, 46, 0.7, 0.0),
    scene("lossy", 14_000, 130, 0.9, 0.025),
    scene("very-lossy", 4_200, 38, 1.3, 0.17),
    scene("far", 23_000, 420, 1.2, 0.004),
    Scene { beside: Beside::Cubic, ..scene("cubic", 17_000, 74, 1.4, 0.0) },
    Scene {
        beside: Beside::Reno,
        lasts: Duration::from_secs(100),
        ..scene("reno-far", 22_000, 260, 0.8, 0.0)
    },
    Scene { beside: Beside::Cubic, ..scene("cubic-lossy", 6_500, 90, 2.5, 0.006) },
    Scene { beside: Beside::ThreeOfItsKind, ..scene("own", 19_000, 58, 1.1, 0.0) },
    // A few round trips of a short path are a few milliseconds.
    scene("short", 60_000, 5, 3.0, 0.01),
    // The first 250 packets decide.
    Scene { lasts: Duration::from_secs(10), ..scene("beginning", 2_500, 90, 1.0, 0.28) },
    // The first flight is a four-hundredth of what the path carries.
    Scene { lasts: Duration::from_secs(5), ..scene("fat", 400_000, 120, 0.5, 0.0) },
    Scene { beside: Beside::Cubic, ..scene("bloated", 3_000, 60, 40.0, 0.0) },
    Scene {
        beside: Beside::CubicLater,
        lasts: Duration::from_secs(60),
        ..scene("joined", 12_000, 64, 1.2, 0.01)
    },
];

const NAMES: [Value; SCENES.len()] = {
    let mut values = [Value::Number(0.0); SCENES.len()];
    let mut index = 0;
    while index < SCENES.len() {
        values[index] = Value::Name(SCENES[index].name);
        index += 1;
    }
    values
};

impl Scene {
    fn link(&self) -> LinkConfig {
        let packets = self.bdp_bytes() * self.queue / PACKET as f64;
        let queue = Queue::Packets((packets.round() as usize).max(8));
        let link = shared::link(self.bits_per_second, self.round_trip / 2, queue);
        LinkConfig { loss: ftp::bernoulli(self.loss), ..link }
    }

    fn bdp_bytes(&self) -> f64 {
        shared::bdp_bytes(self.bits_per_second, self.round_trip)
    }

    /// Buffers that limit no flow.
    fn buffer_bytes(&self) -> usize {
        (8.0 * self.bdp_bytes() * (1.0 + self.queue)) as usize
    }

    fn says(&self) -> String {
        let beside = match self.beside {
            Beside::Nobody => "alone",
            Beside::Reno => "beside a TCP connection with Reno",
            Beside::Cubic => "beside a TCP connection with CUBIC",
            Beside::CubicLater => {
                "beside a TCP connection with CUBIC, which begins after a third of the time"
            }
            Beside::ThreeOfItsKind => "beside three of its own kind",
        };
        format!("{}: {}, {beside}, {} s", self.name, self.link(), self.lasts.as_secs())
    }
}

static MOVED: LazyLock<Moved<Constants>> =
    LazyLock::new(|| Moved::new(Constants::DEFAULT, Constants::NAMES, Constants::moved));

fn run(point: &Point, seed: u64) -> Row {
    let name = point.name("scene");
    let scene = SCENES.iter().find(|scene| scene.name == name).unwrap_or_else(|| panic!("no scene `{name}`"));
    let bytes = scene.buffer_bytes();
    let auto = shared::sctp(braidftp_cc::Kind::Auto, bytes);
    let own = || shared::over_sctp(auto.clone().with(|c| c.congestion.options.auto = MOVED.at(point)));
    let tcp = |kind| shared::over_tcp(shared::tcp(kind, bytes));
    let protocols = match scene.beside {
        Beside::Nobody => vec![own()],
        Beside::Reno => vec![own(), tcp(braidftp_cc::Kind::Reno)],
        Beside::Cubic | Beside::CubicLater => vec![own(), tcp(braidftp_cc::Kind::Cubic)],
        Beside::ThreeOfItsKind => vec![own(), own(), own(), own()],
    };
    let ways = Ways::of(scene.link(), scene.link());
    let mut flows = shared::flows(protocols, seed);
    if scene.beside == Beside::CubicLater {
        flows[1].span.begins += scene.lasts / 3;
    }
    let seen = shared::watch(&flows, &ways, scene.lasts, seed);
    // For a single flow the beginning counts; with other flows the measurement begins when all have had time
    // to find their rates.
    let from = match scene.beside {
        Beside::Nobody => Duration::ZERO,
        Beside::CubicLater => scene.lasts / 2,
        Beside::Reno | Beside::Cubic | Beside::ThreeOfItsKind => scene.lasts / 4,
    };
    let rates = seen.rates(from, scene.lasts);
    let limit = scene.bits_per_second as f64 * (1.0 - scene.loss) * shared::SCTP_SHARE;
    let sum: f64 = rates.iter().sum();
    let result = match scene.beside {
        Beside::Nobody => (sum / limit).min(1.0),
        Beside::Reno | Beside::Cubic | Beside::CubicLater => 1.0 - (2.0 * rates[0] / sum - 1.0).abs(),
        Beside::ThreeOfItsKind => {
            sum.powi(2) / (rates.len() as f64 * rates.iter().map(|rate| rate.powi(2)).sum::<f64>())
        }
    };
    Row(vec![result, sum / limit, seen.queue_seconds(from, scene.lasts) * 1e3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_is_moved_both_ways_and_the_reference_is_not() {
        assert!(MOVED.is_complete(Constants::NAMES));
    }
}
