//! P2: S. Ladha, P. D. Amer, "Improving Multiple File Transfers Using SCTP Multistreaming": a hundred files
//! by FTP over TCP, over SCTP used like TCP, over the streams of one association, and with pipelined
//! commands.
//!
//! ```text
//! FTP client ---- router (Dummynet: drop-tail, 500 kB; rate, delay and loss each way) ---- FTP server
//!     LAN 3 Mbit/s, 1 ms      coast to coast 1 Mbit/s, 35 ms      satellite 256 kbit/s, 125 ms
//! ```
//! The time is measured from the client's receipt of the 150 to NLST to that of the last 226 (§5.1). K is
//! 1000 and M a million, which the paper does not specify. Its stacks are the profiles `newreno-bsd46` of TCP
//! and `rfc2960-kame` of SCTP; `braid` beside them is this project's own mode, over the profile `modern`.

mod braid;
mod burst;
pub mod claims;
mod clean;
mod counts;
mod fair;
mod fig1;
mod fig3;
mod fig4;
mod fig5;
mod fig6;
mod fig7;
mod fig8;
mod handshake;
mod lost;
mod nat;
mod pipelines;
mod printed;
mod protected;
mod reports;
mod reverse;
mod sequence;
mod single;
mod tcp;
mod windows;

use std::sync::LazyLock;

use braidftp_sim::apps::ftp::Session;
use braidftp_sim::link::Queue;

use super::ftp::{self, Path};
use crate::claim::Paper;
use crate::figure::{Axis, Figure, Point, Value};

/// The paper.
pub static PAPER: Paper = Paper {
    name: "multistream",
    key: "P2",
    citation: "S. Ladha, P. D. Amer: Improving Multiple File Transfers Using SCTP Multistreaming",
    figures: || &FIGURES,
    claims: claims::ALL,
    printed: printed::PRINTED,
    threats: printed::THREATS,
};

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    vec![
        fig1::FIGURE,
        fig3::FIGURE,
        fig4::FIGURE,
        fig5::FIGURE,
        fig6::figure(),
        fig7::figure(),
        fig8::figure(),
        braid::FIGURE,
        clean::FIGURE,
        burst::FIGURE,
        reverse::FIGURE,
        lost::FIGURE,
        counts::FIGURE,
        handshake::FIGURE,
        tcp::FIGURE,
        reports::FIGURE,
        windows::FIGURE,
        single::FIGURE,
        nat::FIGURE,
        pipelines::FIGURE,
        fair::FIGURE,
        protected::FIGURE,
    ]
});

/// The number of files in a run.
const FILES: usize = 100;
/// The router's queue.
const QUEUE: Queue = Queue::Bytes(500_000);

/// The paper's file sizes.
const SIZES: Axis = Axis {
    name: "size",
    label: "size of each file",
    values: &[
        Value::Number(10_000.0),
        Value::Number(50_000.0),
        Value::Number(200_000.0),
        Value::Number(500_000.0),
        Value::Number(1_000_000.0),
    ],
    show: &|value| format!("100 files of {}", ftp::size(value)),
};

/// The paper's four variants, and ours.
const VARIANTS: Axis = Axis {
    name: "variant",
    label: "variant",
    values: &[
        Value::Name("tcp"),
        Value::Name("naive"),
        Value::Name("ms"),
        Value::Name("ms-cp"),
        Value::Name("braid"),
    ],
    show: &variant,
};

/// The paper's name of a variant.
fn variant(value: &Value) -> String {
    match value {
        Value::Name("tcp") => "TCP New-Reno".to_owned(),
        Value::Name("naive") => "SCTP-naive".to_owned(),
        Value::Name("ms") => "SCTP-MS".to_owned(),
        Value::Name("ms-cp") => "SCTP-MS-CP".to_owned(),
        Value::Name("braid") => "braid".to_owned(),
        other => other.to_string(),
    }
}

/// A hundred files of a size, with a loss ratio, by a variant.
fn session(path: Path, point: &Point, seed: u64) -> Session {
    let loss = ftp::bernoulli(point.number("loss"));
    let files = vec![point.number("size") as u64; FILES];
    ftp::session(point.name("variant"), files, vec![path.both(QUEUE, loss)], seed)
}

/// The fixed settings, as in Figures 6, 7 and 8, which are scenarios.
fn settings(path: Path) -> Vec<String> {
    vec![
        format!("path, each way: {}", path.link(QUEUE, ftp::bernoulli(0.0))),
        "workload: 100 files of one size, from the 150 to NLST to the last 226 (P2 section 5.1)".to_owned(),
        "tcp: profile newreno-bsd46, active mode, a connection a file".to_owned(),
        "naive, ms, ms-cp: profile rfc2960-kame with a receive buffer of 57344 bytes".to_owned(),
        "braid: profile modern with an MTU of 1480, 4 data streams".to_owned(),
    ]
}
