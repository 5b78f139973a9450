//! P1: S. Ladha, P. D. Amer, A. L. Caro Jr., J. R. Iyengar, "Improving File Transfer in FCS Networks": ten
//! files by FTP over SCTP, and over TCP New-Reno.
//!
//! ```text
//! FTP client (C) ---- router (R; Dummynet: drop-tail, 50 packets; rate, delay and loss each way) ---- FTP server (S)
//!     unmanned aircraft 3 Mbit/s, 1 ms      satellite 256 kbit/s, 125 ms
//! ```
//! The time is measured from the client's first packet after `mget` to the 226 after the last file (§3). SCTP
//! is used like TCP: an association for control and one for each transfer, eleven in a run. The paper's
//! stacks are the profiles `newreno-bsd46` and `rfc2960-kame`. The third curve is SCTP with a loss-free
//! second path, because the same group later reported that retransmissions had been sent over the testbed's
//! control network (P2 §5.1). The fourth curve is this project's `braid`.

mod burst;
pub(super) mod changes;
pub mod claims;
mod count;
pub(super) mod fewer;
mod fig2a;
mod fig2b;
mod fig3a;
mod fig3b;
mod loss;
mod printed;
mod reverse;
mod sack;
mod size;

use std::sync::LazyLock;

use braidftp_sim::apps::ftp::Session;
use braidftp_sim::link::{Loss, Queue};

use super::ftp::{self, Path};
use crate::claim::Paper;
use crate::figure::{Axis, Figure, Runs, Value};

/// The paper.
pub static PAPER: Paper = Paper {
    name: "fcs",
    key: "P1",
    citation: "S. Ladha, P. D. Amer, A. L. Caro Jr., J. R. Iyengar: Improving File Transfer in FCS Networks",
    figures: || &FIGURES,
    claims: claims::ALL,
    printed: printed::PRINTED,
    threats: printed::THREATS,
};

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    vec![
        fig2a::figure(),
        fig2b::figure(),
        fig3a::figure(),
        fig3b::figure(),
        changes::FIGURE,
        fewer::figure(),
        sack::FIGURE,
        burst::FIGURE,
        reverse::FIGURE,
        count::FIGURE,
        size::FIGURE,
        loss::FIGURE,
    ]
});

/// The number of files in a run.
const FILES: usize = 10;
/// The router's queue.
const QUEUE: Queue = Queue::Packets(50);
/// The size of the files in Figure 2.
const MEGABYTE: u64 = 1_000_000;
/// The size of the files in Figure 3.
const SMALL: u64 = 200_000;

/// The paper's two protocols, SCTP with the testbed's bias, and ours.
const VARIANTS: Axis = Axis {
    name: "variant",
    label: "variant",
    values: &[Value::Name("tcp"), Value::Name("sctp"), Value::Name("sctp-clean"), Value::Name("braid")],
    show: &variant,
};

/// The paper's two protocols, and ours.
const THREE: Axis =
    Axis { values: &[Value::Name("tcp"), Value::Name("sctp"), Value::Name("braid")], ..VARIANTS };

fn variant(value: &Value) -> String {
    match value {
        Value::Name("tcp") => "FTP over TCP New-Reno".to_owned(),
        Value::Name("sctp") => "FTP over SCTP".to_owned(),
        Value::Name("sctp-clean") => "SCTP, clean second path".to_owned(),
        Value::Name("braid") => "braid".to_owned(),
        other => other.to_string(),
    }
}

/// The number of runs of a point: times of ten files vary more than those of a hundred.
const RUNS: Runs = Runs { max: 1_000, ..Runs::PAPER };

/// Files transferred by a variant, with separate losses towards the server and the client.
fn session(path: Path, files: Vec<u64>, variant: &str, losses: [Loss; 2], seed: u64) -> Session {
    let variant_name = match variant {
        "sctp" | "sctp-clean" => "naive",
        other => other,
    };
    let links = losses.map(|loss| path.link(QUEUE, loss));
    let mut session = ftp::session(variant_name, files, vec![links], seed);
    if variant == "sctp-clean" {
        session.paths.push(ftp::control_network());
    }
    session
}

/// The fixed settings, as in Figures 2 and 3, which are scenarios next to their modules.
fn settings(path: Path, workload: &str) -> Vec<String> {
    vec![
        format!("path, each way: {}", path.link(QUEUE, Loss::None)),
        format!("workload: {workload}, from the first packet after mget to the last 226 (P1 section 3)"),
        "tcp: profile newreno-bsd46, active mode, a connection a file".to_owned(),
        "sctp: profile rfc2960-kame with a receive buffer of 57344 bytes, active mode, an association a file"
            .to_owned(),
        format!("sctp-clean: the same, with a second path, each way: {}", ftp::control_network()[0]),
        "braid: profile modern with an MTU of 1480, 4 data streams".to_owned(),
    ]
}
