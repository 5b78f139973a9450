//! Two paths, unprotected and protected by the DTLS chunk: the same goodput, minus 25 of 1,480 bytes per
//! packet.
//!
//! Published: nothing. Target: 98 % of the unprotected goodput. The bytes allow 98.2 %: 25 bytes a packet,
//! and 1.17 chunk headers a packet instead of 1.11. Ours, protected through clear in the last 20 s, mean of
//! ten pairs of runs (seeds 11 to 15) and its 90 % interval: equal .9811 ± .0021, lossy .9816 ± .0013,
//! near-far .9845 ± .0001, sat .9815 ± .0015, fibre-adsl .9818 ± .0009, leo-geo .9817 ± .0013.

use std::time::Duration;

use braidftp_sctp as sctp;
use braidftp_sim::several::{Flow, Trial};

use super::{LATER, PAIR, RUNS, WHOLE, modern, pair_settings, settings, wires};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/protected",
    shows: "Two paths, in the clear and protected",
    caption: "User data over both paths of a pair through what the two wires could bring together, in the clear and protected (AES-128-GCM); buffers \
              tune themselves.",
    settings: &|| {
        let mut lines = settings(&["messages of 8,192 bytes instead", "losses in both directions"]);
        lines.extend(pair_settings());
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            PAIR,
            Axis {
                name: "protection",
                label: "packets",
                values: &[Value::Name("plain"), Value::Name("protected")],
                show: &|value| {
                    if *value == Value::Name("plain") { "in the clear".to_owned() } else { value.to_string() }
                },
            },
        ],
        only: &|_| true,
        fixed: &|point| wires(point).iter().all(|wire| wire.loss == 0.0),
        quick: &|point| point.name("pair") == "equal",
        paired: &["protection"],
        columns: &[
            Column { name: "mbps", unit: "Mbit/s of user data, last 20 of 30 s" },
            Column { name: "share", unit: "of what the wires could bring together, last 20 s" },
            Column { name: "whole", unit: "of what the wires could bring together, from the first INIT on" },
        ],
        runs: RUNS,
        run: &|point, seed| {
            let wires = wires(point);
            let dtls = (point.name("protection") == "protected").then(sctp::DtlsConfig::default);
            let config = modern("default", "auto").with(|c| c.security.dtls = dtls);
            let links = wires.iter().map(|wire| [wire.link(), wire.link()]).collect();
            let flows = vec![Flow { config, over: vec![0, 1] }];
            let outcome = Trial { seed, links, flows, changes: Vec::new(), end: WHOLE }.run().remove(0);
            let limit: f64 = wires.iter().map(|wire| wire.limit()).sum();
            let (later, whole) = (outcome.goodput(LATER, WHOLE), outcome.goodput(Duration::ZERO, WHOLE));
            Row(vec![later / 1e6, later / limit, whole / limit])
        },
        plot: Plot::bars("pair", "share", "of the sum of the paths").by("protection").beside("whole"),
    }),
};
