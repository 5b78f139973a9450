//! The effect of each constant of multipath transfer, moved alone by -30 % and +30 %, over drawn pairs of paths that no claim
//! uses.
//!
//! The pairs are drawn from a fixed seed: rates, delays, queues and losses over the ranges of [`drawn`]. The result of a run
//! is user data against what both links could carry, at most 1; with a fixed receive buffer against what the better path could
//! carry alone, a window each round trip at most; over a shared bottleneck, 1 less the distance from half of it. Runs that
//! differ only in a constant have the same losses. `docs/multipath.md` describes the constants.

use std::sync::LazyLock;
use std::time::Duration;

use braidftp_sctp::{Config, MultipathConstants};
use braidftp_sim::random::Random;

use super::shared::Bench;
use super::{RUNS, WHOLE, Wire, modern, numbers, settings};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Sweep, Value};
use crate::papers::paths::{Look, Network};
use crate::papers::sensitivity::{self, Moved, UNMOVED};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/sensitivity",
    shows: "The effect of each constant of multipath transfer",
    caption: "Each constant alone at 70 % and at 130 % of its value, over drawn pairs of paths. 1 is the best: all that both links \
              carry, all that the better one carries with a small receive buffer, or half of a shared bottleneck.",
    settings: &|| {
        let mut lines = settings(&[]);
        lines.extend(SCENES.iter().map(Scene::describe));
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
        only: &|point| {
            let constant = point.name("constant");
            (constant == UNMOVED) == (point.number("move") == 100.0)
                && (constant == UNMOVED || is_of_bottlenecks(constant) == is_shared(point.name("scene")))
        },
        fixed: &|_| false,
        quick: &|point| matches!(point.name("scene"), "drawn-1" | "shared-1"),
        paired: &["constant", "move"],
        columns: &[
            Column { name: "result", unit: "1 is the best: a share of what the links carry" },
            Column { name: "share", unit: "of what the links could carry together, or of the bottleneck" },
            Column { name: "resent", unit: "chunks sent again" },
        ],
        runs: crate::figure::Runs { min: 6, max: 6, ..RUNS },
        run: &run,
        plot: Plot::lines("constant", "result", "result").by("move").facet("scene"),
    }),
};

const CONSTANTS: [Value; MultipathConstants::NAMES.len() + 1] =
    sensitivity::constants(MultipathConstants::NAMES);

const NAMES: [Value; 12] = [
    Value::Name("drawn-1"),
    Value::Name("drawn-2"),
    Value::Name("drawn-3"),
    Value::Name("drawn-4"),
    Value::Name("drawn-5"),
    Value::Name("small-buffer-1"),
    Value::Name("small-buffer-2"),
    Value::Name("small-buffer-3"),
    Value::Name("small-buffer-4"),
    Value::Name("shared-1"),
    Value::Name("shared-2"),
    Value::Name("shared-3"),
];

/// Whether a scene is a shared bottleneck.
fn is_shared(scene: &str) -> bool {
    scene.starts_with("shared")
}

/// Whether a constant is one of the detection of shared bottlenecks. These are moved where there is one, and the others where
/// there is none.
fn is_of_bottlenecks(constant: &str) -> bool {
    matches!(constant, "shared_score" | "delay_change_part" | "simultaneous_max" | "quiet_spans")
}

/// What a scene measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// User data against what both links could carry; the buffer grows.
    Sum,
    /// User data against what the better link could carry with a receive buffer of this many KB.
    Better(u32),
    /// The share of a bottleneck that both paths have in common.
    Shared,
}

struct Scene {
    name: String,
    wires: [Wire; 2],
    measure: Measure,
}

/// The seed of the drawn pairs.
const PAIRS_SEED: u64 = 20_261;

/// A pair: rates of 2 to 60 Mbit/s and delays of 5 to 200 ms, each order of magnitude equally likely; queues of half to twice
/// the bandwidth-delay product, at least 20 ms; losses of 0 to 4 % on every second path.
fn drawn(number: u64) -> [Wire; 2] {
    let mut random = Random::new(PAIRS_SEED, number);
    let scale = |least: f64, most: f64, random: &mut Random| least * (most / least).powf(random.unit());
    [0, 1].map(|_| {
        let megabits = scale(2.0, 60.0, &mut random).round() as u64;
        let delay_ms = scale(5.0, 200.0, &mut random).round() as u64;
        let queue_ms = (scale(0.5, 2.0, &mut random) * (2 * delay_ms) as f64).max(20.0).round() as u64;
        let loss = if random.unit() < 0.5 { 0.0 } else { (random.unit() * 40.0).round() / 1_000.0 };
        Wire { queue_ms: Some(queue_ms), ..Wire::new(megabits, delay_ms, loss) }
    })
}

static SCENES: LazyLock<Vec<Scene>> = LazyLock::new(|| {
    let scene = |name: &str| match name.rsplit_once('-') {
        Some(("drawn", number)) => (drawn(number.parse().expect("a number")), Measure::Sum),
        Some(("shared", "1")) => ([Wire::new(14, 32, 0.0); 2], Measure::Shared),
        Some(("shared", "2")) => ([Wire::new(40, 11, 0.0); 2], Measure::Shared),
        Some(("shared", _)) => ([Wire::new(5, 85, 0.0); 2], Measure::Shared),
        _ => {
            let number: u64 = name.trim_start_matches("small-buffer-").parse().expect("a number");
            (drawn(10 + number), Measure::Better(64 << (number % 3)))
        }
    };
    NAMES
        .iter()
        .map(|value| {
            let name = value.to_string();
            let (wires, measure) = scene(&name);
            Scene { name, wires, measure }
        })
        .collect()
});

impl Scene {
    fn describe(&self) -> String {
        let [one, other] = self.wires.map(|wire| wire.link().to_string());
        match self.measure {
            Measure::Sum => format!("{}: {one} and {other}", self.name),
            Measure::Better(kb) => format!("{}: {one} and {other}, receive buffer {kb} KB", self.name),
            Measure::Shared => format!("{}: a bottleneck of {one}, beside a flow of its own kind", self.name),
        }
    }

    fn run(&self, config: impl Fn(&str) -> Config, seed: u64) -> Row {
        match self.measure {
            Measure::Sum | Measure::Better(_) => {
                let buffer =
                    if let Measure::Better(kb) = self.measure { kb.to_string() } else { "auto".to_owned() };
                let links: Vec<_> = self.wires.iter().map(|wire| wire.link()).collect();
                let sum = self.wires.iter().map(|wire| wire.limit()).sum();
                let seen =
                    Network::paths(&links).with(config(&buffer), &[0, 1]).watch(WHOLE, Look::Numbers, seed);
                let numbers = numbers(&seen, sum);
                let (later, whole, resent) = (numbers[0] * 1e6, numbers[2], numbers[5]);
                let result = match self.measure {
                    Measure::Better(kb) => {
                        // A window each round trip at most.
                        let reach = |wire: &Wire| {
                            let window = f64::from(kb) * 1024.0 * 8.0;
                            wire.limit().min(window / (2.0 * wire.delay_ms as f64 / 1e3))
                        };
                        later / self.wires.iter().map(reach).fold(0.0, f64::max)
                    }
                    _ => whole,
                };
                Row(vec![result.min(1.0), whole, resent])
            }
            Measure::Shared => {
                let bench = Bench { wire: self.wires[0], jitter: Duration::from_millis(5), beside: "own" };
                let Row(values) = bench.run_with(config("auto"), &[0, 1], seed);
                Row(vec![1.0 - (values[0] - 1.0).abs(), values[0] / 2.0, values[3]])
            }
        }
    }
}

static MOVED: LazyLock<Moved<MultipathConstants>> = LazyLock::new(|| {
    Moved::new(MultipathConstants::DEFAULT, MultipathConstants::NAMES, MultipathConstants::moved)
});

fn run(point: &Point, seed: u64) -> Row {
    let name = point.name("scene");
    let scene = SCENES.iter().find(|scene| scene.name == name).unwrap_or_else(|| panic!("no scene `{name}`"));
    let config = |buffer: &str| {
        modern("default", buffer).with(|c| {
            if let Some(multipath) = &mut c.paths.multipath {
                multipath.constants = MOVED.at(point);
            }
        })
    };
    scene.run(config, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_is_moved_both_ways_and_the_reference_is_not() {
        assert!(MOVED.is_complete(MultipathConstants::NAMES));
    }

    #[test]
    fn drawn_pairs_are_within_their_ranges_and_differ() {
        for wire in (0..20).flat_map(drawn) {
            assert!((2..=60).contains(&wire.megabits) && (5..=200).contains(&wire.delay_ms), "{wire:?}");
            assert!((0.0..=0.04).contains(&wire.loss), "{wire:?}");
        }
        assert_ne!(format!("{:?}", drawn(1)), format!("{:?}", drawn(2)));
    }
}
