//! Two paths through the same bottleneck, which another flow uses too: the share of the association compared
//! with that over one path.
//!
//! ```text
//! sender ==two addresses==+                                         +==two addresses== reader
//!                         +-- 20 Mbit/s, 20 ms each way, one BDP ---+
//! other ------------------+                                         +----------------- reader
//! ```
//! Published: RFC 6356 and its successors: no more than one flow on the best path. Target of the default: at
//! most 1.2 times as much. Ours, at least three runs per point, beside another association, Reno and CUBIC:
//! with the default two paths take 1.11 times as much as one path beside each; uncoupled 1.52, 1.29 and 1.39;
//! with LIA on all paths 1.21, 1.14 and 1.17. Until the common bottleneck is detected they take two shares.
//!
//! At 5 and 10 Mbit/s ([`SLOW`]) the common bottleneck is detected too. Where each overflow drops packets of
//! both paths, the detection needs one of them to reduce its rate deliberately: without that, two paths took
//! 1.21 at 10 Mbit/s, 50 ms, 5 ms of jitter. Without jitter two paths take up to 1.65 times the share of path
//! 1 alone, and so does path 2 alone (1.00 to 1.78 times). The RTT of path 2 is 2 ms longer, and in a
//! deterministic network a packet that arrives just after a departure finds room in the queue, always for the
//! same flow (Floyd, Jacobson: "Traffic Phase Effects in Packet-Switched Gateways", CCR 21(2), 1991, who add
//! random delays at the hosts). Compared with the better path alone two paths take 0.66 to 1.16. With 5 ms of
//! jitter it is 0.80 to 1.03, and 0.87 to 1.10 against path 1.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::Span;
use braidftp_sim::link::LinkConfig;

use super::{RUNS, Wire, modern, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::papers::bottleneck::{self, SCTP_SHARE};
use crate::papers::paths::{Flow, Look, Network, PATHS, Route, paths};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/shared",
    shows: "Two paths through one bottleneck, and another flow beside them",
    caption: "What an association with two paths through one bottleneck takes of it, through half: with one path alone, with two that know nothing of \
              each other, with each coupling, and with the default.",
    settings: &|| {
        settings(&[
            &format!("bottleneck, each way: {}", WIRE.link()),
            "own: a single-path association of the same profile; reno, cubic: TCP of the profile modern",
            &format!("watched from {} s to {} s", FROM.as_secs(), TO.as_secs()),
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[BESIDE, COUPLING],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| {
            matches!(point.name("coupling"), "single" | "default") && point.name("beside") == "own"
        },
        paired: &["coupling"],
        columns: COLUMNS,
        runs: crate::figure::Runs { min: 3, max: 6, ..RUNS },
        run: &|point, seed| {
            let (multipath, over) = match point.name("coupling") {
                "single" => ("default".to_owned(), &[0][..]),
                "default" => ("default".to_owned(), &[0, 1][..]),
                coupling => (format!("default,coupling={coupling}"), &[0, 1][..]),
            };
            let bench = Bench { wire: WIRE, jitter: Duration::ZERO, beside: point.name("beside") };
            bench.run(&multipath, over, seed)
        },
        plot: Plot::bars("beside", "taken", "taken, of half of the bottleneck")
            .by("coupling")
            .beside("other"),
    }),
};

/// The same with a small bottleneck queue, with synchronised and with unsynchronised hosts.
pub(super) const SLOW: Figure = Figure {
    id: "multipath/shared-slow",
    shows: "Two paths through one slow bottleneck, in step and not, and another flow beside them",
    caption: "What an association takes of a bottleneck of 5 and 10 Mbit/s, through half: over either of two paths alone, and over both by default. Without \
              jitter the bench is a clock, and which packet finds the queue full is a matter of its phase.",
    settings: &|| {
        settings(&[
            "bottleneck: a queue of one BDP, 16 packets at least",
            "jitter: of what each flow and each path sends, before the bottleneck",
            &format!("watched from {} s to {} s", FROM.as_secs(), TO.as_secs()),
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[RATE, DELAY, JITTER, BESIDE, PATHS],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("delay") == 20.0 && point.name("beside") == "own",
        paired: &["paths"],
        columns: COLUMNS,
        runs: crate::figure::Runs { min: 3, max: 6, ..RUNS },
        run: &|point, seed| {
            let wire = Wire::new(point.number("rate") as u64, point.number("delay") as u64, 0.0);
            let jitter = Duration::from_millis(point.number("jitter") as u64);
            let bench = Bench { wire, jitter, beside: point.name("beside") };
            bench.run("default", paths(point.name("paths")), seed)
        },
        plot: Plot::bars("delay", "taken", "taken, of half of the bottleneck").by("paths").beside("other"),
    }),
};

const COLUMNS: &[Column] = &[
    Column { name: "taken", unit: "of half of the bottleneck, user data" },
    Column { name: "other", unit: "of half of the bottleneck, user data" },
    Column { name: "utilisation", unit: "of the bottleneck, user data of both" },
    Column { name: "resent", unit: "chunks sent again" },
];

/// A bottleneck, and the competing flow.
pub(super) struct Bench {
    pub(super) wire: Wire,
    /// The maximum additional delay of packets before the bottleneck.
    pub(super) jitter: Duration,
    pub(super) beside: &'static str,
}

impl Bench {
    fn run(&self, multipath: &str, over: &[usize], seed: u64) -> Row {
        self.run_with(modern(multipath, "auto"), over, seed)
    }

    /// Runs the association with this configuration over these paths.
    pub(super) fn run_with(&self, config: sctp::Config, over: &[usize], seed: u64) -> Row {
        let other = match self.beside {
            "own" => bottleneck::over_sctp(config.clone().with(|c| c.paths.multipath = None)),
            "reno" => bottleneck::over_tcp(bottleneck::tcp(cc::Kind::Reno, 0)),
            _ => bottleneck::over_tcp(bottleneck::tcp(cc::Kind::Cubic, 0)),
        };
        // An additional millisecond after the bottleneck, so that the paths are not synchronised.
        let near = |ms, jitter| LinkConfig {
            delay: Duration::from_millis(ms),
            jitter,
            overhead_bytes: 20,
            ..LinkConfig::default()
        };
        let [there, back] =
            [self.jitter, Duration::ZERO].map(|jitter| [near(0, jitter), near(1, jitter), near(0, jitter)]);
        let links = [[self.wire.link(), self.wire.link()].as_slice(), &there, &back].concat();
        let route = |own: usize| Route { there: vec![2 + own, 0], back: vec![1, 5 + own] };
        let begins = |micros: u64| Span { begins: Time::from_micros(micros), ends: None };
        let flows = vec![
            Flow {
                protocol: bottleneck::over_sctp(config),
                span: begins(seed % 900_000),
                routes: over.iter().map(|path| route(*path)).collect(),
            },
            Flow { protocol: other, span: begins(seed / 7 % 900_000), routes: vec![route(2)] },
        ];
        let seen = Network { links, flows }.watch(TO, Look::Numbers, seed);
        let whole = self.wire.megabits as f64 * 1e6 * SCTP_SHARE;
        let [taken, other] = [0, 1].map(|flow| seen.rate(flow, FROM, TO) / (whole / 2.0));
        Row(vec![taken, other, (taken + other) / 2.0, seen.resent().pieces as f64])
    }
}

const WIRE: Wire = Wire::new(20, 20, 0.0);
const FROM: Duration = Duration::from_secs(20);
const TO: Duration = Duration::from_secs(80);

const RATE: Axis = Axis {
    name: "rate",
    label: "bottleneck, Mbit/s",
    values: &[Value::Number(5.0), Value::Number(10.0)],
    show: &Value::to_string,
};

const DELAY: Axis = Axis {
    name: "delay",
    label: "delay, ms each way",
    values: &[Value::Number(10.0), Value::Number(20.0), Value::Number(50.0)],
    show: &Value::to_string,
};

const JITTER: Axis = Axis {
    name: "jitter",
    label: "jitter, ms",
    values: &[Value::Number(0.0), Value::Number(5.0)],
    show: &Value::to_string,
};

const BESIDE: Axis = Axis {
    name: "beside",
    label: "beside it",
    values: &[Value::Name("own"), Value::Name("reno"), Value::Name("cubic")],
    show: &|value| match value {
        Value::Name("own") => "its own kind".to_owned(),
        other => format!("TCP {other}"),
    },
};

const COUPLING: Axis = Axis {
    name: "coupling",
    label: "paths",
    values: &[
        Value::Name("single"),
        Value::Name("none"),
        Value::Name("lia"),
        Value::Name("olia"),
        Value::Name("balia"),
        Value::Name("rpv1"),
        Value::Name("rpv2"),
        Value::Name("default"),
    ],
    show: &|value| match value {
        Value::Name("single") => "one path".to_owned(),
        Value::Name("none") => "two, uncoupled".to_owned(),
        Value::Name("default") => "two, as they come".to_owned(),
        other => format!("two, {other}"),
    },
};
