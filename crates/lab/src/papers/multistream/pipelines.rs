//! Beyond the paper: the alternatives for FTP over TCP of its section 2.2, which it discusses without runs
//! (P2-C08 to C11, C43).
//!
//! ```text
//! tcp                a connection for control and one for each file, as FTP is
//! tcp-one-cp         A: one connection for all, pipelined
//! tcp-two            B: two that stay, no pipelining
//! tcp-two-cp         C: two that stay, pipelined
//! tcp-parallel       D: one for control and 4 for files, pipelined
//! ```
//! Published: arguments. Ours, LAN, 10 KB, seconds at 0, 1, 3, 6, 10 %: tcp 3.55 18.4 48.1 103 193;
//! tcp-one-cp 2.81 3.12 9.71 35.9 129; tcp-two 14.0 23.2 42.4 99.6 302; tcp-two-cp 2.82 3.62 11.1 37.1 146;
//! tcp-parallel 2.91 3.09 4.90 11.9 49.1; ms-cp 2.80 2.91 3.76 9.42 37.6. Satellite, 10 KB: tcp 126 141 172
//! 228 328; tcp-one-cp 33.7 36.8 58.5 107 195; tcp-two 109 120 157 232 448; tcp-two-cp 33.9 36.8 55.4 109
//! 243; tcp-parallel 33.3 34.6 35.5 42.2 66.8; ms-cp 33.6 34.4 39.4 62.7 109. LAN, 200 KB: tcp 56.1 78.4 194
//! 677 2422; tcp-one-cp 55.4 61.9 198 732 2536; tcp-two 67.0 78.4 230 776 2892; tcp-two-cp 55.3 62.6 199 741
//! 2737; tcp-parallel 55.3 55.7 67.5 192 725; ms-cp 55.3 56.5 72.9 197 778. Without loss B takes 0.1 s per
//! file more than C: Nagle's algorithm (RFC 9293 section 3.7.4) holds the last segment of a file, which is
//! short and has no FIN, until all earlier data is acknowledged, and that acknowledgement is delayed by 100
//! ms. In the packets of a run: 1,448 bytes at 31.8 ms, their ACK at 137.9, the last 1,322 bytes at 139.1.

use super::{QUEUE, SIZES};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/pipelines",
    shows: "What FTP over TCP could do without SCTP",
    caption: "100 files by TCP New-Reno of FreeBSD 4.6 as FTP is; over one connection, pipelined; over two that stay; the same, pipelined; \
              over 4 parallel ones; by SCTP-MS-CP; and by braid (P2, section 2.2).",
    settings: &|| super::settings(ftp::LAN),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis { values: &[Value::Name("lan"), Value::Name("sat")], ..ftp::PATHS },
            Axis { values: &[Value::Number(10_000.0), Value::Number(200_000.0)], ..SIZES },
            ftp::LOSS,
            Axis {
                name: "variant",
                label: "variant",
                values: &[
                    Value::Name("tcp"),
                    Value::Name("tcp-one-cp"),
                    Value::Name("tcp-two"),
                    Value::Name("tcp-two-cp"),
                    Value::Name("tcp-parallel"),
                    Value::Name("ms-cp"),
                    Value::Name("braid"),
                ],
                show: &|value| match value {
                    Value::Name("tcp-one-cp") => "A: one TCP, pipelined".to_owned(),
                    Value::Name("tcp-two") => "B: two TCP".to_owned(),
                    Value::Name("tcp-two-cp") => "C: two TCP, pipelined".to_owned(),
                    Value::Name("tcp-parallel") => "D: 4 parallel TCP".to_owned(),
                    other => super::variant(other),
                },
            },
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("size") < 200_000.0 && point.name("path") == "lan",
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: Runs::PAPER,
        run: &|point, seed| {
            let loss = ftp::bernoulli(point.number("loss"));
            let files = vec![point.number("size") as u64; super::FILES];
            let path = ftp::path(point.name("path"));
            ftp::run(
                &ftp::session(point.name("variant"), files, vec![path.both(QUEUE, loss)], seed),
                Clock::Opened,
            )
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of 100 files")
            .facet("size")
            .rows("path")
            .log_y(),
    }),
};
