//! Beyond the paper: whether the first data of a new association rides with COOKIE ECHO, of which the paper says nothing,
//! and on which half a round trip of each file hangs (P2-C16).
//!
//! Published: naive 10 % slower than TCP by satellite, and alike elsewhere.
//! Ours, seconds on LAN, coast to coast, by satellite: tcp 3.55 34.6 126; naive 4.01 55.9 197; naive-with-data 4.21 57.0
//! 206.
//! Why they differ: see Figure 7. That data beside COOKIE ECHO does not help, but costs, was not traced to its cause.

use braidftp_sim::apps::ftp::Handshake;

use super::session;
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/handshake",
    shows: "What a four-way handshake costs 100 files of 10 KB, without loss",
    caption: "TCP; SCTP-naive with its first data after COOKIE ACK, as after a connect that blocks; and with its first data \
              beside COOKIE ECHO (RFC 2960 section 5.1).",
    settings: || {
        ["lan", "wan", "sat"]
            .iter()
            .flat_map(|name| super::settings(ftp::path(name)).into_iter().take(1))
            .collect()
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            ftp::PATHS,
            Axis { values: &[Value::Number(10_000.0)], ..super::SIZES },
            Axis { values: &[Value::Number(0.0)], ..ftp::LOSS },
            Axis {
                name: "variant",
                label: "variant",
                values: &[Value::Name("tcp"), Value::Name("naive"), Value::Name("naive-with-data")],
                show: |value| match value {
                    Value::Name("naive-with-data") => "SCTP-naive, data with COOKIE ECHO".to_owned(),
                    other => super::variant(other),
                },
            },
        ],
        only: |_| true,
        fixed: |point| point.number("loss") == 0.0,
        quick: |_| true,
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: Runs::PAPER,
        run: |point, seed| {
            let name = point.name("variant");
            let plain = crate::figure::Point::new(
                point
                    .places()
                    .iter()
                    .map(|(axis, value)| match (*axis, name) {
                        ("variant", "naive-with-data") => (*axis, Value::Name("naive")),
                        _ => (*axis, *value),
                    })
                    .collect(),
            );
            let mut session = session(ftp::path(point.name("path")), &plain, seed);
            if name == "naive-with-data" {
                session.handshake = Handshake::WithData;
            }
            ftp::run(&session, Clock::Opened)
        },
        plot: Plot::bars("path", "seconds", "seconds, transfer of 100 files"),
    }),
};
