//! Beyond the paper: its files over SCTP, with each controller, and over TCP with today's windows. ADaLR
//! compensates a window of 64 KB; with window scaling (RFC 7323), and with SCTP, there is nothing to
//! compensate.
//!
//! The gateway's queue holds one bandwidth-delay product here, because nothing else limits these windows.
//! Published: nothing. Ours, kB/s for 500 kB and 50 MB, TCP: 64k 66.7 121; reno 102 238; cubic 102 238;
//! highspeed 102 238; scalable 102 238; hybla 107 201; fast 99.9 238; adalr 94.6 238; bbr 101 217; auto 114
//! 239. SCTP: 64k 70.8 107; reno 93.6 238; cubic 93.6 238; highspeed 93.6 238; scalable 93.6 238; hybla 96.9
//! 130; fast 93.4 238; adalr 88.7 237; bbr 91.2 217; auto 102 238; sctp 93.6
//! 238. The link carries 243. Hybla's slow start overshoots the bandwidth-delay product and the queue, so that most of it is
//!      retransmitted. With 64 KB SCTP gets less than TCP, because incomplete messages occupy its buffer too; with messages of
//!      64 KiB even less, with 8 KiB not.

use braidftp_cc as cc;
use braidftp_sim::apps::bulk::Protocol;
use braidftp_sim::link::Queue;
use braidftp_tcp as tcp;

use super::{COLUMNS, DELAY_MS, Download, Network, SIZES, download};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp;
use crate::plot::Plot;

/// The bytes that 2 Mbit/s carry in 520 ms and the time of two packets.
const ROUND_TRIP: Queue = Queue::Bytes(133_000);

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/sctp",
    shows: "The same files with windows of today, over TCP and over SCTP",
    caption: "Files of P3 over its satellite (2 Mbit/s, 260 ms one way, no errors; a gateway with memory for one round trip), with the paper's \
              window of 64 KB, and with the windows of today and each congestion control.",
    settings: &|| {
        vec![
            format!("gateway to client: {}", network().links().near[1]),
            "64k: TCP profile opnet11; SCTP profile modern with an MTU of 1480 and a receive buffer of 65535 bytes that stays so".to_owned(),
            "the others: TCP and SCTP profile modern, that with window scaling, this with an MTU of 1480, with the congestion control of \
             the name"
                .to_owned(),
            "workload: one file".to_owned(),
        ]
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "transport",
                label: "",
                values: &[Value::Name("tcp"), Value::Name("sctp")],
                show: &|value| value.to_string().to_uppercase(),
            },
            SIZES,
            Axis {
                name: "variant",
                label: "variant",
                values: &[
                    Value::Name("64k"),
                    Value::Name("reno"),
                    Value::Name("cubic"),
                    Value::Name("highspeed"),
                    Value::Name("scalable"),
                    Value::Name("hybla"),
                    Value::Name("fast"),
                    Value::Name("adalr"),
                    Value::Name("bbr"),
                    Value::Name("auto"),
                    Value::Name("sctp"),
                ],
                show: &|value| match value {
                    Value::Name("64k") => "64 KB".to_owned(),
                    other => other.to_string(),
                },
            },
        ],
        only: &|point| point.name("transport") == "sctp" || point.name("variant") != "sctp",
        fixed: &|_| true,
        quick: &|point| point.number("size") <= 50e6,
        paired: &["transport", "variant"],
        columns: COLUMNS,
        runs: Runs::PAPER,
        run: &|point, _| {
            let download = || Download {
                protocol: protocol(point.name("transport"), point.name("variant")),
                bytes: point.number("size") as u64,
                links: network().links(),
                seed: 1,
            };
            download::once(point.to_string(), download)
        },
        plot: Plot::lines("size", "throughput", "kB/s of the file").facet("transport"),
    }),
};

fn network() -> Network {
    Network { memory: ROUND_TRIP, ..Network::lossless(DELAY_MS) }
}

/// The protocol that carries the file.
///
/// # Panics
///
/// If there is no such congestion control.
fn protocol(transport: &str, variant: &str) -> Protocol {
    let congestion_control = || -> cc::Kind { variant.parse().unwrap_or_else(|error| panic!("{error}")) };
    let sctp = ftp::modern_sctp();
    match (transport, variant) {
        ("tcp", "64k") => Protocol::Tcp(tcp::Profile::Opnet11.config().into()),
        ("tcp", _) => {
            let modern = tcp::Profile::Modern.config();
            Protocol::Tcp(tcp::Config { congestion_control: congestion_control(), ..modern }.into())
        }
        (_, "64k") => {
            let as_it_is = sctp.with(|c| {
                c.memory.receive_buffer_bytes = 65_535;
                c.memory.receive_buffer_max_bytes = None;
            });
            Protocol::Sctp(as_it_is.into())
        }
        _ => Protocol::Sctp(sctp.with(|c| c.congestion.control = congestion_control()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_64_kb_stays_one() {
        for transport in ["tcp", "sctp"] {
            let protocol = protocol(transport, "64k");
            let download = Download { protocol, bytes: 5_000_000, links: network().links(), seed: 1 };
            let kilobytes_a_second = download.run().0[0];
            assert!(kilobytes_a_second < 65.535 / 0.52, "{transport}: {kilobytes_a_second}");
        }
    }
}
