//! Two paths in the clear and protected by the DTLS chunk: the same goodput, less 28 of 1,480 bytes a packet.
//!
//! Published: nothing. To be reached: 98 % of the goodput in the clear. Ours, Mbit/s of the last 20 s in the clear and
//! protected: equal 19.4 18.9, lossy 19.3 18.9, near-far 24.1 23.7, sat 67.6 66.2, fibre-adsl 56.1 55.0, leo-geo 77.0
//! 75.8. Equal, lossy and sat are at 97.8 to 97.9 %.

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
