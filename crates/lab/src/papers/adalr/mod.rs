//! P3, one file by FTP over a geostationary satellite, with windows of 64 KB: M. Omueti, Lj. Trajković,
//! "Effect of Transfer File Size on TCP-ADaLR Performance: A Simulation Study".
//!
//! ```text
//! server --10 Mbit/s-- gateway --2 Mbit/s, 260 ms-- client
//!                              <--256 kbit/s-----
//! ```
//! All delay is on the satellite link, because the paper gives only the sum. The paper says that the return
//! direction is slower, without a number. Each file is a connection: request, file, close. Its duration is
//! measured at the client, from the SYN to the end of the connection (`download`). The comparator is the
//! profile `opnet11`, Tables 1 and 2.
//!
//! **ADaLR is a reconstruction here** (`cc::adalr`), because the authors' formulas are not public: variant
//! `adalr` has ρ = RTT / 300 ms and goes beyond the peer's window by ρ segments a round trip (k = 1),
//! `adalr-slow` has ρ = RTT / 200 ms and k = 0.05. Both need a receiver that accepts data beyond its window.
//! This may explain differences between our numbers and the paper's.

mod both;
pub mod claims;
mod congestion;
mod download;
mod errors;
mod fair;
mod fig1;
mod fig3;
mod fig4;
mod fig5;
mod fig6;
mod fig7;
mod growth;
mod intervals;
mod latency;
mod printed;
mod sctp;

use std::time::Duration;

use braidftp_base::Rate;
use braidftp_cc as cc;
use braidftp_sim::apps::bulk::Protocol;
use braidftp_sim::link::{Bandwidth, LinkConfig, Loss, Queue};
use braidftp_sim::topology::ClientRouterServer;
use braidftp_tcp as tcp;

use self::download::Download;
use super::ftp;
use crate::claim::Paper;
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Run, Runs, Settings, Sweep, Value};
use crate::plot::Plot;

/// The paper.
pub static PAPER: Paper = Paper {
    name: "adalr",
    key: "P3",
    citation: "M. Omueti, Lj. Trajković: Effect of Transfer File Size on TCP-ADaLR Performance: A Simulation Study",
    figures: || FIGURES,
    claims: claims::ALL,
    printed: printed::PRINTED,
    threats: printed::THREATS,
};

static FIGURES: &[Figure] = &[
    fig1::FIGURE,
    fig3::FIGURE,
    fig4::FIGURE,
    fig5::FIGURE,
    fig6::FIGURE,
    fig7::FIGURE,
    growth::FIGURE,
    intervals::FIGURE,
    errors::FIGURE,
    congestion::FIGURE,
    both::FIGURE,
    fair::FIGURE,
    latency::FIGURE,
    sctp::FIGURE,
];

/// The rate of the satellite link to the client, in bits per second.
const SATELLITE: u64 = 2_000_000;
/// The paper's one-way delay, in its second scenario.
const DELAY_MS: u64 = 260;
/// A queue larger than any window of these figures: no packet is dropped where the paper has no loss.
const ENDLESS: Queue = Queue::Bytes(16 << 20);
/// The gateway's queue with congestion: 25 packets of 1500 bytes.
const MEMORY: Queue = Queue::Bytes(37_500);
/// The gateway's forwarding rate in the author's congestion scenario, in bits per second.
const FORWARDING: u64 = 360_000;
/// How far beyond its window the modelled receiver accepts data: as far as the largest ρ permits.
const BEYOND: usize = 7 * 65_535;

/// The paper's file sizes.
const SIZES: Axis = Axis {
    name: "size",
    label: "file, MB",
    values: &[
        Value::Number(500e3),
        Value::Number(50e6),
        Value::Number(100e6),
        Value::Number(200e6),
        Value::Number(300e6),
        Value::Number(400e6),
        Value::Number(500e6),
    ],
    show: &|value| match value {
        Value::Number(bytes) => (bytes / 1e6).to_string(),
        other => other.to_string(),
    },
};

/// The paper's four variants, the slow curve of the reconstruction, and the comparators that the paper names.
/// Without loss most variants behave alike, and the later ones cover the earlier ones in pictures.
const VARIANTS: Axis = Axis {
    name: "variant",
    label: "variant",
    values: &[
        Value::Name("scalable"),
        Value::Name("highspeed"),
        Value::Name("sack"),
        Value::Name("newreno"),
        Value::Name("adalr-slow"),
        Value::Name("adalr-sack"),
        Value::Name("adalr"),
    ],
    show: &variant,
};

/// The variants without the comparators.
const FIVE: Axis = Axis {
    values: &[
        Value::Name("sack"),
        Value::Name("newreno"),
        Value::Name("adalr-slow"),
        Value::Name("adalr-sack"),
        Value::Name("adalr"),
    ],
    ..VARIANTS
};

/// The variants that differ without loss.
const THREE: Axis =
    Axis { values: &[Value::Name("newreno"), Value::Name("adalr-slow"), Value::Name("adalr")], ..VARIANTS };

fn variant(value: &Value) -> String {
    match value {
        Value::Name("newreno") => "NewReno".to_owned(),
        Value::Name("sack") => "SACK".to_owned(),
        Value::Name("adalr") => "ADaLR-R".to_owned(),
        Value::Name("adalr-sack") => "ADaLR-R, SACK".to_owned(),
        Value::Name("adalr-slow") => "ADaLR-R, slow".to_owned(),
        Value::Name("highspeed") => "HighSpeed".to_owned(),
        Value::Name("scalable") => "Scalable".to_owned(),
        other => other.to_string(),
    }
}

/// The TCP configuration of a variant.
///
/// # Panics
///
/// If there is no variant of this name.
fn stack(variant: &str) -> tcp::Config {
    let paper = tcp::Profile::Opnet11.config();
    let with = |congestion_control| tcp::Config { congestion_control, ..paper.clone() };
    let adalr =
        || tcp::Config { limited_transmit: true, beyond_window_bytes: BEYOND, ..with(cc::Kind::Adalr) };
    match variant {
        "newreno" => paper,
        "sack" => tcp::Config { sack: true, ..paper },
        "adalr" => adalr(),
        "adalr-sack" => tcp::Config { sack: true, ..adalr() },
        "adalr-timed" => tcp::Config { timing: tcp::Timing::EverySegment, ..adalr() },
        "adalr-slow" => {
            let mut config = adalr();
            config.congestion_options.adalr.rtt_ref = Duration::from_millis(200);
            config.congestion_options.adalr.k_thousandths = 50;
            config
        }
        "highspeed" => with(cc::Kind::HighSpeed),
        "scalable" => with(cc::Kind::Scalable),
        other => panic!("no variant `{other}`"),
    }
}

/// The network between server and client.
#[derive(Debug, Clone, Copy)]
struct Network {
    /// The rate of the satellite link to the client, or the gateway's forwarding rate if that is lower; in
    /// bits per second.
    bits_per_second: u64,
    /// The one-way delay.
    delay: Duration,
    /// The gateway's queue.
    memory: Queue,
    /// The bit error rate of the satellite link, in both directions.
    bit_error_rate: f64,
}

impl Network {
    /// The paper's network, without loss.
    fn lossless(delay_ms: u64) -> Self {
        let delay = Duration::from_millis(delay_ms);
        Self { bits_per_second: SATELLITE, delay, memory: ENDLESS, bit_error_rate: 0.0 }
    }

    /// The author's network with congestion: a lower forwarding rate and a short queue.
    fn congested() -> Self {
        Self { bits_per_second: FORWARDING, memory: MEMORY, ..Self::lossless(DELAY_MS) }
    }

    fn links(self) -> ClientRouterServer<LinkConfig> {
        let link = |bits_per_second, delay, queue, bytes: i32| LinkConfig {
            rate: Bandwidth::Fixed(Rate::from_bits_per_second(bits_per_second)),
            delay,
            queue,
            loss: bit_errors(self.bit_error_rate, bytes),
            overhead_bytes: 20,
            ..LinkConfig::default()
        };
        let ethernet = LinkConfig { loss: Loss::None, ..link(10_000_000, Duration::ZERO, ENDLESS, 0) };
        ClientRouterServer {
            near: [
                link(256_000, self.delay, ENDLESS, 40),
                link(self.bits_per_second, self.delay, self.memory, 1_500),
            ],
            far: [ethernet.clone(), ethernet],
        }
    }
}

/// The loss of packets of this length at this bit error rate. Packets in one direction have approximately the
/// same length.
fn bit_errors(rate: f64, bytes: i32) -> Loss {
    ftp::bernoulli(-f64::exp_m1(f64::ln_1p(-rate) * f64::from(8 * bytes)))
}

/// The bit error rates of the satellite link.
const BIT_ERRORS: Axis = Axis {
    name: "ber",
    label: "bit error rate",
    values: &[
        Value::Number(1e-9),
        Value::Number(1e-8),
        Value::Number(1e-7),
        Value::Number(1e-6),
        Value::Number(1e-5),
    ],
    show: &|value| match value {
        Value::Number(rate) => format!("1e{}", rate.log10().round()),
        other => other.to_string(),
    },
};

/// The number of runs of points with loss.
const RUNS: Runs = Runs { max: 60, ..Runs::PAPER };

/// The results of a download.
const COLUMNS: &[Column] = &[
    Column { name: "throughput", unit: "kB/s of the file, at the client" },
    Column { name: "seconds", unit: "s, from the first packet to the end of the connection" },
    Column { name: "link_throughput", unit: "kbit/s over the satellite's link to the client" },
    Column { name: "utilisation", unit: "% of 2 Mbit/s" },
    Column { name: "megabytes", unit: "MB of the file that arrived" },
    Column { name: "retransmissions", unit: "segments or chunks" },
    Column { name: "timeouts", unit: "of the server" },
    Column { name: "fast_retransmits", unit: "of the server" },
    Column { name: "dropped", unit: "packets, by the gateway" },
];

/// A file over TCP without loss.
fn lossless(bytes: u64, delay_ms: u64, variant: &str) -> Row {
    let download = || Download {
        protocol: Protocol::Tcp(stack(variant).into()),
        bytes,
        links: Network::lossless(delay_ms).links(),
        seed: 1,
    };
    download::once(format!("{variant} {delay_ms} ms {bytes}"), download)
}

/// Figures 4 to 7: the same runs, with a different column each.
const fn sized(
    id: &'static str,
    shows: &'static str,
    caption: &'static str,
    y: &'static str,
    y_label: &'static str,
) -> Figure {
    Figure {
        id,
        shows,
        caption,
        settings: &|| settings(&["workload: one file"]),
        kind: Kind::Sweep(Sweep {
            axes: &[SIZES, VARIANTS],
            only: &|_| true,
            fixed: &|_| true,
            quick: &|point| point.number("size") <= 50e6,
            paired: &["variant"],
            columns: COLUMNS,
            runs: Runs::PAPER,
            run: &|point, _| lossless(point.number("size") as u64, DELAY_MS, point.name("variant")),
            plot: Plot::lines("size", y, y_label),
        }),
    }
}

/// A file of 50 MB with loss: by bit errors of the satellite link, or by a congested gateway.
fn lossy(network: Network, variant: &str, seed: u64) -> Row {
    let protocol = Protocol::Tcp(stack(variant).into());
    Download { protocol, bytes: 50_000_000, links: network.links(), seed }.run()
}

/// A file of 50 MB against the bit error rate of the satellite link, over the paper's network or the
/// congested one.
const fn by_bit_errors(
    id: &'static str,
    shows: &'static str,
    caption: &'static str,
    settings: Settings,
    run: Run,
) -> Figure {
    Figure {
        id,
        shows,
        caption,
        settings,
        kind: Kind::Sweep(Sweep {
            axes: &[BIT_ERRORS, FIVE],
            only: &|_| true,
            fixed: &|_| false,
            quick: &|point| point.number("ber") >= 1e-7,
            paired: &["variant"],
            columns: COLUMNS,
            runs: RUNS,
            run,
            plot: Plot::lines("ber", "throughput", "kB/s, 50 MB").log_x(),
        }),
    }
}

/// The run at a point of [`by_bit_errors`].
fn with_bit_errors(network: Network, point: &Point, seed: u64) -> Row {
    let network = Network { bit_error_rate: point.number("ber"), ..network };
    lossy(network, point.name("variant"), seed)
}

/// The fixed settings.
fn settings(lines: &[&str]) -> Vec<String> {
    let links = Network::lossless(DELAY_MS).links();
    let mut all = vec![
        format!("server to gateway, each way: {}", links.far[0]),
        format!("gateway to client: {}", links.near[1]),
        format!("client to gateway: {}", links.near[0]),
        "newreno: profile opnet11; sack: with SACK; highspeed, scalable: with that controller".to_owned(),
        format!(
            "adalr, adalr-sack: a reconstruction, not the authors' formulas: controller adalr (rtt-ref 300 ms, k 1, rho-max 8), \
             Limited Transmit, and up to {BEYOND} bytes beyond the peer's window, which the receiver takes; adalr-slow: rtt-ref \
             200 ms, k 0.05"
        ),
    ];
    all.extend(lines.iter().map(|line| (*line).to_owned()));
    all
}
