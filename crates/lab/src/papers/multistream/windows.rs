//! Beyond the paper: the congestion window at the beginning of each file (P2-C06, C15, C48), without loss, so
//! that only an idle gap or a new connection reduces the window.
//!
//! Published: 4 MTU for MS, none for CP (equation 1), a sawtooth from the beginning for TCP (Figure 1). Ours,
//! packets: tcp 3.97; tcp-two 926; tcp-two-cp 913; naive 2.01; ms 4.02; ms-cp 29.2; braid 66.5. Divided by
//! the mean during the previous file: tcp 0.09; tcp-two 1.13; tcp-two-cp 1.12; naive 0.10; ms 0.18; ms-cp
//! 0.94; braid 0.95. A persistent TCP connection keeps its window over gaps of two round trips, which are
//! shorter than an RTO; BSD's window grows without limit if nothing is lost, even if little of it is used.

use braidftp_sim::apps::ftp::{FileOutcome, Outcome};
use braidftp_sim::link::Loss;

use super::{QUEUE, VARIANTS};
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::papers::ftp::{self, WAN};
use crate::plot::Plot;

/// The number of files in a run.
const FILES: usize = 20;
/// The approximate payload of a packet of the paper's stacks, in bytes.
const PACKET: f64 = 1_460.0;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/windows",
    shows: "The congestion window with which a file begins",
    caption: "20 files of 200 KB coast to coast, without loss: the server's window in packets, the least from a file's 150 on until \
              something of it was acknowledged, or the first of a new connection; the mean over all files but the first.",
    settings: &|| super::settings(WAN),
    kind: Kind::Sweep(Sweep {
        axes: &[Axis {
            values: &[
                Value::Name("tcp"),
                Value::Name("tcp-two"),
                Value::Name("tcp-two-cp"),
                Value::Name("naive"),
                Value::Name("ms"),
                Value::Name("ms-cp"),
                Value::Name("braid"),
            ],
            show: &|value| match value {
                Value::Name("tcp-two") => "two TCP".to_owned(),
                Value::Name("tcp-two-cp") => "two TCP, pipelined".to_owned(),
                other => super::variant(other),
            },
            ..VARIANTS
        }],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|_| true,
        paired: &["variant"],
        columns: &[
            Column {
                name: "begins_mtus",
                unit: "packets, window when a file begins, mean of all but the first",
            },
            Column { name: "largest_mtus", unit: "packets, largest window" },
            Column {
                name: "kept",
                unit: "window when a file begins, through its mean while the file before it came, mean of all but the first",
            },
        ],
        runs: Runs { max: 10, ..Runs::PAPER },
        run: &|point, seed| {
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
    // On a persistent connection: the minimum window of the server from its 150 on, until something of the
    // file was acknowledged. A new connection has its own initial window; the first connection carries the
    // names.
    let connections = windows.iter().map(|point| point.connection).max().map_or(0, |last| last + 1);
    let first = |number: usize| windows.iter().find(|point| point.connection == number);
    let files: Vec<_> = outcome.files.windows(2).enumerate().collect();
    let begin = |(index, pair): &(usize, &[FileOutcome])| {
        if connections > FILES {
            return first(index + 2).map(|point| point.cwnd_bytes);
        }
        let opened = pair[1].opened?;
        let (from, to) = (opened - WAN.delay, opened + WAN.delay);
        let before = windows.iter().rev().find(|point| point.at <= from);
        let within = windows.iter().filter(|point| point.at > from && point.at <= to);
        before.into_iter().chain(within).map(|point| point.cwnd_bytes).min()
    };
    let begins: Vec<f64> =
        files.iter().map(|file| begin(file).expect("each file has a window") as f64).collect();
    // The window of the connection of the file, from its 150 on.
    let mean_before = |(index, pair): &(usize, &[FileOutcome])| {
        let connection = if connections > FILES { index + 1 } else { 0 };
        let its: Vec<_> = windows.iter().filter(|point| point.connection == connection).collect();
        let (from, to) = (pair[0].opened.expect("it came"), pair[0].done.expect("it came"));
        let ends = its.iter().skip(1).map(|point| point.at).chain([to]);
        let spans = its.iter().zip(ends).map(|(point, end)| {
            let (begin, end) = (point.at.max(from), end.min(to));
            (point.cwnd_bytes as f64, if end > begin { end.since(begin).as_secs_f64() } else { 0.0 })
        });
        let (area, seconds) =
            spans.fold((0.0, 0.0), |(area, all), (bytes, seconds)| (area + bytes * seconds, all + seconds));
        area / seconds
    };
    let kept: Vec<f64> = files.iter().zip(&begins).map(|(file, begin)| begin / mean_before(file)).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let largest = windows.iter().map(|point| point.cwnd_bytes).max().unwrap_or(0) as f64 / PACKET;
    Row(vec![mean(&begins) / PACKET, largest, mean(&kept)])
}
