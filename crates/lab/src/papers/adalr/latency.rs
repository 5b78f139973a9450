//! Beyond the paper: the latency of pages and small files (ADaLR-X5), with immediate and with delayed
//! acknowledgements.
//!
//! Published, in abstracts: ADaLR's latency is the lowest for HTTP and for FTP, with and without delayed
//! acknowledgements. Ours, seconds for 10, 100, 500 kB and 5 MB, each segment acknowledged: NewReno 2.65 4.26
//! 7.50 44.5; ADaLR-R 2.14 3.24 5.91 26.8; slow 2.14 3.22 6.40 38.7; delayed: NewReno 2.66 4.94 8.33 46.0;
//! ADaLR-R 2.15 3.26 5.96 26.8; slow 2.15 3.24 6.46 39.1. The gain of pages is not due to ρ of the path, but
//! to the initial value of SRTT: 1.5 s in this TCP, so ρ begins at 5.

use std::num::NonZeroU8;
use std::time::Duration;

use braidftp_sim::apps::bulk::Protocol;
use braidftp_tcp as tcp;

use super::{COLUMNS, DELAY_MS, Download, Network, THREE, settings, stack};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/latency",
    shows: "Pages and small files over a satellite",
    caption: "Response time of pages of 10 and 100 kB and files of 500 kB and 5 MB over 2 Mbit/s and 260 ms one way without loss, with an \
              acknowledgement for each segment, and for every other, or after 200 ms (ADaLR-X5). ADaLR-R is a reconstruction.",
    settings: &|| {
        settings(&[
            "delayed: an acknowledgement for every second segment, or after 200 ms",
            "workload: one page or file",
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "acks",
                label: "",
                values: &[Value::Name("each"), Value::Name("delayed")],
                show: &|value| match value {
                    Value::Name("each") => "each segment acknowledged".to_owned(),
                    _ => "delayed acknowledgements".to_owned(),
                },
            },
            Axis {
                name: "size",
                label: "page or file, bytes",
                values: &[
                    Value::Number(10e3),
                    Value::Number(100e3),
                    Value::Number(500e3),
                    Value::Number(5e6),
                ],
                show: &ftp::size,
            },
            THREE,
        ],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|_| true,
        paired: &["variant"],
        columns: COLUMNS,
        runs: Runs::PAPER,
        run: &|point, seed| {
            let protocol =
                Protocol::Tcp(acknowledging(point.name("acks"), stack(point.name("variant"))).into());
            let links = Network::lossless(DELAY_MS).links();
            Download { protocol, bytes: point.number("size") as u64, links, seed }.run()
        },
        plot: Plot::bars("size", "seconds", "seconds").facet("acks").log_y(),
    }),
};

fn acknowledging(acks: &str, config: tcp::Config) -> tcp::Config {
    match acks {
        "each" => config,
        _ => tcp::Config {
            ack_every: NonZeroU8::new(2).expect("2 is not 0"),
            ack_delay: Duration::from_millis(200),
            ..config
        },
    }
}
