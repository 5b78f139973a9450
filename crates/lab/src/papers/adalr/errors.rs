//! Beyond the paper: errors of the satellite's link (scenario D of the author's OPNET project; ADaLR-X1).
//!
//! Published, in abstracts: up to 61 % more throughput and up to 76 % more utilisation than NewReno and SACK.
//! Ours, kB/s at 1e-9 to 1e-5: NewReno 120 115 80.8 28.7 4.93; SACK 120 117 84.9 29.1 5.00; ADaLR-R 210 198 126 53.6 9.87; with
//! SACK 211 205 154 58.3 14.1; slow 191 155 107 64.5 12.0. More than published, and most where most is lost: an error takes
//! less than half of a window here, and Limited Transmit finds losses that NewReno waits for.

use std::time::Duration;

use super::{BIT_ERRORS, COLUMNS, DELAY_MS, ENDLESS, FIVE, Network, RUNS, SATELLITE, lossy, settings};
use crate::figure::{Figure, Kind, Sweep};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/errors",
    shows: "50 MB over a satellite with bit errors",
    caption: "A file of 50 MB over 2 Mbit/s and 260 ms one way, against the rate of bit errors of the satellite's link in both directions (ADaLR-X1); what has not arrived after five hours counts as far as it came. ADaLR-R is a reconstruction.",
    settings: || {
        settings(&[
            "workload: 50 MB, for five hours at most",
            "bit errors: independent, as a loss of packets of 1500 bytes to the client and of 40 back",
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[BIT_ERRORS, FIVE],
        only: |_| true,
        fixed: |_| false,
        quick: |point| point.number("ber") >= 1e-7,
        paired: &["variant"],
        columns: COLUMNS,
        runs: RUNS,
        run: |point, seed| {
            let network = Network {
                bits_per_second: SATELLITE,
                delay: Duration::from_millis(DELAY_MS),
                memory: ENDLESS,
                bit_error_rate: point.number("ber"),
            };
            lossy(network, point.name("variant"), seed)
        },
        plot: Plot::lines("ber", "throughput", "kB/s, 50 MB").log_x(),
    }),
};
