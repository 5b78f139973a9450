//! Beyond the paper: loads that it discusses without measurements: packets, connections, existing control
//! blocks, server memory per client (P2-C03, C14, C46, C49, C51).
//!
//! Published: expectations only: two control blocks per session with TCP, more with TIME-WAIT, half as many
//! with MS and CP. Ours, mean control blocks without loss, LAN, coast to coast, satellite: 10 KB tcp 52.3
//! 51.9 38.2; naive 1.93 1.87 1.87; ms 1.00 1.00 1.00; ms-cp 1.00 1.00 1.00; braid 1.00 1.00 1.00; 200 KB tcp
//! 52.5 28.2 9.75; naive 2.00 1.97 1.97; ms 1.00 1.00 1.00; ms-cp 1.00 1.00 1.00; braid 1.00 1.00 1.00.

use super::{VARIANTS, session};
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/counts",
    shows: "Memory that a server's transports take for one client, in the mean",
    caption: "100 files by each variant. Memory is what the stacks of this program account for at the server, over the transfer: control \
              blocks, those in TIME-WAIT too, and what their buffers hold. Its table has control blocks, packets, bytes and \
              connections.",
    settings: &|| {
        let paths = ["lan", "wan", "sat"].map(ftp::path);
        let links = paths.iter().flat_map(|path| super::settings(*path).into_iter().take(1));
        let buffers =
            "send buffers of naive, ms and ms-cp: 32768 bytes, as TCP's; braid: those of its profile, 4 MB";
        links.chain([buffers.to_owned()]).collect()
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            ftp::PATHS,
            Axis { values: &[Value::Number(10_000.0), Value::Number(200_000.0)], ..super::SIZES },
            Axis { values: &[Value::Number(0.0), Value::Number(0.03)], ..ftp::LOSS },
            VARIANTS,
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("size") < 200_000.0,
        paired: &["variant"],
        columns: &COLUMNS,
        runs: Runs::PAPER,
        run: &|point, seed| {
            let mut session = session(ftp::path(point.name("path")), point, seed);
            session.watch.memory = true;
            // The contents of larger buffers say nothing about a variant.
            if point.name("variant") != "braid" {
                session.sctp.memory.send_buffer_bytes = session.tcp.send_buffer_bytes;
            }
            let outcome = session.run();
            let Row(mut numbers) = ftp::row(&outcome, Clock::Opened);
            numbers.extend([outcome.memory_bytes_max as f64 / 1e3, outcome.memory_bytes_mean / 1e3]);
            Row(numbers)
        },
        plot: Plot::bars("path", "memory_mean", "kB at the server, mean").facet("loss").rows("size"),
    }),
};

const BASE: usize = ftp::COLUMNS.len();

const COLUMNS: [Column; BASE + 2] = {
    let mut columns = [Column { name: "memory_max", unit: "kB at the server, at most" }; BASE + 2];
    let mut at = 0;
    while at < BASE {
        columns[at] = ftp::COLUMNS[at];
        at += 1;
    }
    columns[BASE + 1] = Column { name: "memory_mean", unit: "kB at the server, in the mean" };
    columns
};
