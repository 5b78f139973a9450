//! Beyond the paper: with which congestion window each file begins (P2-C06, C15, C48), without loss, so that nothing but an
//! idle gap or a new connection lets a window fall.
//!
//! Published: 4 MTU for MS, none for CP (equation 1), a sawtooth from the beginning for TCP (Figure 1).
//! Ours, packets: tcp 3.97; naive 2.01; ms 4.02; ms-cp 29.2; braid 45.5; largest: tcp 96.2; naive 32.8; ms 32.8; ms-cp
//! 34.2; braid 74.4.

use braidftp_base::Time;
use braidftp_sim::apps::ftp::Outcome;
use braidftp_sim::link::Loss;

use super::{QUEUE, VARIANTS};
use crate::figure::{Column, Figure, Kind, Row, Runs, Sweep};
use crate::papers::ftp::{self, WAN};
use crate::plot::Plot;

/// Files of a run.
const FILES: usize = 20;
/// What a packet of the paper's stacks carries, in bytes, about.
const PACKET: f64 = 1_460.0;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/windows",
    shows: "The congestion window with which a file begins",
    caption: "20 files of 200 KB coast to coast, without loss: the server's window in packets, the least from a file's 150 on until \
              something of it was acknowledged, or the first of a new connection; the mean over all files but the first.",
    settings: || super::settings(WAN),
    kind: Kind::Sweep(Sweep {
        axes: &[VARIANTS],
        only: |_| true,
        fixed: |_| true,
        quick: |_| true,
        paired: &["variant"],
        columns: &[
            Column {
                name: "begins_mtus",
                unit: "packets, window when a file begins, mean of all but the first",
            },
            Column { name: "largest_mtus", unit: "packets, largest window" },
            Column { name: "falls", unit: "times that the window of a connection fell" },
            Column { name: "opening", unit: "s from a file's 150 to its first byte, mean" },
        ],
        runs: Runs { max: 10, ..Runs::PAPER },
        run: |point, seed| {
            let path = WAN.both(QUEUE, Loss::None);
            let mut session = ftp::session(point.name("variant"), vec![200_000; FILES], vec![path], seed);
            session.watch.windows = true;
            row(&session.run())
        },
        plot: Plot::bars("variant", "begins_mtus", "packets"),
    }),
};

fn row(outcome: &Outcome) -> Row {
    assert!(outcome.failed.is_none(), "{}", outcome.failed.as_deref().unwrap_or_default());
    let windows = &outcome.windows;
    let falls = windows.iter().enumerate().filter(|(index, point)| {
        let before = windows[..*index].iter().rev().find(|before| before.connection == point.connection);
        before.is_some_and(|before| before.cwnd_bytes > point.cwnd_bytes)
    });
    // Where a connection stays: the least that the server had from its 150 on, until something of the file was acknowledged.
    // A new one has its own beginning; the first is that of the names.
    let connections = windows.iter().map(|point| point.connection).max().map_or(0, |last| last + 1);
    let begins: Vec<f64> = if connections > FILES {
        let first = |number: usize| windows.iter().find(|point| point.connection == number);
        (2..connections).filter_map(first).map(|point| point.cwnd_bytes as f64 / PACKET).collect()
    } else {
        let begin = |opened: Time| {
            let (from, to) = (opened - WAN.delay, opened + WAN.delay);
            let before = windows.iter().rev().find(|point| point.at <= from);
            let within = windows.iter().filter(|point| point.at > from && point.at <= to);
            before.into_iter().chain(within).map(|point| point.cwnd_bytes).min()
        };
        let files = outcome.files.iter().skip(1).filter_map(|file| begin(file.opened?));
        files.map(|bytes| bytes as f64 / PACKET).collect()
    };
    let largest = windows.iter().map(|point| point.cwnd_bytes).max().unwrap_or(0) as f64 / PACKET;
    let openings =
        outcome.files.iter().filter_map(|file| Some(file.first_byte?.since(file.opened?).as_secs_f64()));
    let openings: Vec<f64> = openings.collect();
    let opening = openings.iter().sum::<f64>() / openings.len().max(1) as f64;
    Row(vec![begins.iter().sum::<f64>() / begins.len().max(1) as f64, largest, falls.count() as f64, opening])
}
