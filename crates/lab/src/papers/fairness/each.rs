//! Each controller beside each other, both over SCTP.
//!
//! Published: nothing. Ours, the default's share beside sctp 1.20, reno 1.21, cubic 1.09, highspeed 1.24,
//! scalable .840, hybla .528, fast .192, bbr .724, adalr 1.27, another of its kind 1.01. FAST takes nine
//! tenths beside every other: its α is 100 packets and the queue holds 42, so FAST never reaches its target
//! (F-C04).

use std::time::Duration;

use super::{FROM, Path, RUNS, TO, is_ours, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep};
use crate::papers::bottleneck::CONTROLLER;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fairness/each",
    shows: "What each congestion control takes beside each other",
    caption: "Two associations at 10 Mbit/s with a round trip of 50 ms and a queue of one BDP: what the one brings through half of what both \
              bring. 1 is fair.",
    settings: &|| settings(&["path: 10 Mbit/s, 25 ms each way, queue of 1 BDP"]),
    kind: Kind::Sweep(Sweep {
        axes: &[CONTROLLER, Axis { name: "beside", label: "beside", ..CONTROLLER }],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| is_ours(point.name("controller")),
        paired: &["controller", "beside"],
        columns: &[
            Column { name: "share", unit: "what the first brings through half of what both bring" },
            Column { name: "utilisation", unit: "of the wire less headers" },
            Column { name: "queue_ms", unit: "ms that the queue adds, mean" },
            Column { name: "dropped", unit: "part of the packets that the queue dropped" },
        ],
        runs: RUNS,
        run: &|point, seed| {
            let path = Path { megabits: 10.0, round_trip: Duration::from_millis(50), queue: 1.0 };
            let protocols = ["controller", "beside"].map(|axis| path.sctp(point.name(axis)));
            let seen = path.watch(path.link(), protocols.to_vec(), TO, seed);
            let rates = seen.rates(FROM, TO);
            let all: f64 = rates.iter().sum();
            Row(vec![
                rates[0] / (all / 2.0),
                all / path.carries(),
                seen.queue_seconds(FROM, TO) * 1e3,
                seen.dropped(FROM, TO),
            ])
        },
        plot: Plot::lines("beside", "share", "share of the first through its fair share").by("controller"),
    }),
};
