//! Two paths that turn out to be one: both go through the same bottleneck, which another flow uses too. How much more the
//! association takes than it would with one path.
//!
//! ```text
//! sender ==two addresses==+                                         +==two addresses== reader
//!                         +-- 20 Mbit/s, 20 ms each way, one BDP ---+
//! other ------------------+                                         +----------------- reader
//! ```
//! Published: RFC 6356 and those after it: no more than one flow. To be reached by the default: 1.2 times as much. Ours, three runs a
//! point, beside their own kind, Reno and CUBIC: paths as they come take 1.10, 1.14 and 1.18 times as much as one path
//! does; uncoupled 1.49, 1.32 and 1.34; with LIA on all paths 1.07, 1.13 and 1.11. Until the bottleneck is found they take two shares.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::Span;
use braidftp_sim::link::LinkConfig;

use super::{RUNS, Wire, modern, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::papers::bottleneck::{self, SCTP_SHARE};
use crate::papers::paths::{Flow, Look, Network, Route};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/shared",
    shows: "Two paths through one bottleneck, and another flow beside them",
    caption: "What an association with two paths through one bottleneck takes of it, through half: with one path alone, with two that know nothing of \
              each other, with each coupling, and with the default.",
    settings: || {
        settings(&[
            &format!("bottleneck, each way: {}", WIRE.link()),
            "own: a single-path association of the same profile; reno, cubic: TCP of the profile modern",
            &format!("watched from {} s to {} s", FROM.as_secs(), TO.as_secs()),
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[BESIDE, COUPLING],
        only: |_| true,
        fixed: |_| false,
        quick: |point| {
            matches!(point.name("coupling"), "single" | "default") && point.name("beside") == "own"
        },
        paired: &["coupling"],
        columns: &[
            Column { name: "taken", unit: "of half of the bottleneck, user data" },
            Column { name: "other", unit: "of half of the bottleneck, user data" },
            Column { name: "utilisation", unit: "of the bottleneck, user data of both" },
            Column { name: "resent", unit: "chunks sent again" },
        ],
        runs: crate::figure::Runs { min: 3, max: 6, ..RUNS },
        run: |point, seed| {
            let (multipath, routes) = match point.name("coupling") {
                "single" => ("default".to_owned(), 1),
                "default" => ("default".to_owned(), 2),
                coupling => (format!("default,coupling={coupling}"), 2),
            };
            let config = modern(&multipath, "auto");
            let other = match point.name("beside") {
                "own" => bottleneck::over_sctp(sctp::Config { multipath: None, ..config.clone() }),
                "reno" => bottleneck::over_tcp(bottleneck::tcp(cc::Kind::Reno, 0)),
                _ => bottleneck::over_tcp(bottleneck::tcp(cc::Kind::Cubic, 0)),
            };
            // A millisecond apart behind the bottleneck, so that the paths are not in step.
            let near = |ms| LinkConfig {
                delay: Duration::from_millis(ms),
                overhead_bytes: 20,
                ..LinkConfig::default()
            };
            let links = vec![WIRE.link(), WIRE.link(), near(0), near(1), near(0)];
            let route = |own: usize| Route { there: vec![own, 0], back: vec![1, own] };
            let begins = |micros: u64| Span { begins: Time::from_micros(micros), ends: None };
            let flows = vec![
                Flow {
                    protocol: bottleneck::over_sctp(config),
                    span: begins(seed % 900_000),
                    routes: (0..routes).map(|path| route(2 + path)).collect(),
                },
                Flow { protocol: other, span: begins(seed / 7 % 900_000), routes: vec![route(4)] },
            ];
            let seen = Network { links, flows }.watch(TO, Look::Numbers, seed);
            let whole = WIRE.megabits as f64 * 1e6 * SCTP_SHARE;
            let [taken, other] = [0, 1].map(|flow| seen.rate(flow, FROM, TO) / (whole / 2.0));
            Row(vec![taken, other, (taken + other) / 2.0, seen.resent().pieces as f64])
        },
        plot: Plot::bars("beside", "taken", "taken, of half of the bottleneck")
            .by("coupling")
            .beside("other"),
    }),
};

const WIRE: Wire = Wire::new(20, 20, 0.0);
const FROM: Duration = Duration::from_secs(20);
const TO: Duration = Duration::from_secs(80);

const BESIDE: Axis = Axis {
    name: "beside",
    label: "beside it",
    values: &[Value::Name("own"), Value::Name("reno"), Value::Name("cubic")],
    show: |value| match value {
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
    show: |value| match value {
        Value::Name("single") => "one path".to_owned(),
        Value::Name("none") => "two, uncoupled".to_owned(),
        Value::Name("default") => "two, as they come".to_owned(),
        other => format!("two, {other}"),
    },
};
