//! Targets of fairness, and whether they are reached: half to twice the fair share beside Reno and CUBIC,
//! Jain's index of 0.95.

use crate::claim::{Claim, Finding, Holds, Measured};
use crate::data::Data;
use crate::papers::bottleneck::default_controller;
use crate::stats::short;
use crate::table::Cell;

/// All claims, in order.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "F-C01",
        says: "Jain's index is 0.95 or more among 2 to 16 flows of the default",
        needs: &["fairness/own"],
        check: |data| judge(data, "fairness/own", "jain", JAIN),
    },
    Claim {
        id: "F-C02",
        says: "Beside TCP Reno each side has between 0.5 and 2 times its fair share (0.5, 1, 4 BDP; 10 to 300 ms; 1 to 100 Mbit/s)",
        needs: &["fairness/reno"],
        check: |data| judge(data, "fairness/reno", "share", SHARE),
    },
    Claim {
        id: "F-C03",
        says: "Beside TCP CUBIC each side has between 0.5 and 2 times its fair share (0.5, 1, 4 BDP; 10 to 300 ms; 1 to 100 Mbit/s)",
        needs: &["fairness/cubic"],
        check: |data| judge(data, "fairness/cubic", "share", SHARE),
    },
    Claim {
        id: "F-C04",
        says: "Beside every other controller of its own each side has between 0.5 and 2 times its fair share",
        needs: &["fairness/each"],
        check: |data| judge(data, "fairness/each", "share", SHARE),
    },
    Claim {
        id: "F-C05",
        says: "A round trip 8 times as long leaves a flow of the default a fifth of the other's rate or more",
        needs: &["fairness/rtt"],
        check: |data| judge(data, "fairness/rtt", "ratio", Within { low: 0.2, high: 5.0 }),
    },
    Claim {
        id: "F-C06",
        says: "A newcomer has its half within 30 s, and what it leaves is used within 10 s",
        needs: &["fairness/join"],
        check: |data| {
            let join = judge(data, "fairness/join", "join", Within { low: 0.0, high: 30.0 });
            let leave = judge(data, "fairness/join", "leave", Within { low: 0.0, high: 10.0 });
            super::super::judge::and(join, leave)
        },
    },
    Claim {
        id: "F-C07",
        says: "A rate that fell to a tenth is used within 10 s of its return, and was used meanwhile to 80 %",
        needs: &["fairness/rate"],
        check: |data| {
            let back = judge(data, "fairness/rate", "back", Within { low: 0.0, high: 10.0 });
            let low = judge(data, "fairness/rate", "low", Within { low: 0.8, high: f64::INFINITY });
            super::super::judge::and(back, low)
        },
    },
    Claim {
        id: "F-C08",
        says: "With CoDel and with ECN, Jain's index among four flows of the default is 0.95 or more",
        needs: &["fairness/marks"],
        check: |data| judge(data, "fairness/marks", "jain", JAIN),
    },
    Claim {
        id: "F-C09",
        says: "With losses at random, in bursts and on the way back, Jain's index between two flows of the default is 0.95 or more",
        needs: &["fairness/loss"],
        check: |data| judge(data, "fairness/loss", "jain", JAIN),
    },
];

/// Bounds of a mean.
#[derive(Debug, Clone, Copy)]
struct Within {
    low: f64,
    high: f64,
}

const JAIN: Within = Within { low: 0.95, high: f64::INFINITY };
/// If neither of two shares, which add up to 2, is below 0.5, then neither is above 1.5.
const SHARE: Within = Within { low: 0.5, high: 1.5 };

impl Within {
    fn has(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The distance from the bounds; positive if the value is outside.
    fn beyond(self, value: f64) -> f64 {
        (self.low - value).max(value - self.high)
    }
}

impl std::fmt::Display for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.low, self.high) {
            (low, f64::INFINITY) => write!(f, "{low} or more"),
            (0.0, high) => write!(f, "{high} or less"),
            (low, high) => write!(f, "from {low} to {high}"),
        }
    }
}

/// Decides whether the mean of a column is within bounds in every cell of the default controller that was
/// run; the explanation names all cells outside.
///
/// # Panics
///
/// If no such cell was run.
fn judge(data: &Data, figure: &str, column: &'static str, bounds: Within) -> Finding {
    let cells = data.table(figure).all(&format!("controller={}", default_controller()));
    let mean = |cell: &Cell<'_>| cell.mean(column).mean;
    let worst = cells
        .iter()
        .max_by(|a, b| bounds.beyond(mean(a)).total_cmp(&bounds.beyond(mean(b))))
        .unwrap_or_else(|| panic!("{figure}: no cell of the default was run"));
    let out: Vec<String> = cells
        .iter()
        .filter(|cell| !bounds.has(mean(cell)))
        .map(|cell| format!("{} {}", place(cell), short(mean(cell))))
        .collect();
    let mut why = format!(
        "{column} of {} is {bounds} in {} of {} cells",
        default_controller(),
        cells.len() - out.len(),
        cells.len()
    );
    if !out.is_empty() {
        why.push_str(&format!("; not: {}", out.join("; ")));
    }
    let measured =
        Measured { what: format!("{column}, {}", place(worst)), unit: "", value: worst.mean(column) };
    Finding::decided(Holds::from(out.is_empty()), measured, why)
}

/// A cell as text, without its controller.
fn place(cell: &Cell<'_>) -> String {
    let places = cell.point().places().iter().filter(|(axis, _)| *axis != "controller");
    places.map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}
