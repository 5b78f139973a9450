//! Beyond the paper: the shares of competing flows (P2-C11, C53). The paper says that parallel TCP
//! connections are unfair and that FTP over SCTP "remains TCP-friendly", without measurements.
//!
//! ```text
//! server a (one TCP connection) --------+                                    +-- client a
//!                                       +-- router -- 3 Mbit/s -- router ----+
//! server b (the competing variant) -----+   20 ms, drop-tail, 50 packets     +-- client b
//! ```
//! Both servers send continuously for two minutes, and are measured in the last 100 s. SCTP sends what MS-CP
//! sends while it has files: one stream of one association without a pause.
//!
//! Published: arguments. Ours, share of the TCP connection beside tcp, tcp-parallel, ms-cp and braid: SACK
//! .500 .202 .438 .237; with Limited Transmit and bytes counted .500 .199 .438 .354; Reno of today .513 .198
//! .604 .324; CUBIC of today .507 .192 .701 .447. So beside braid the paper's TCP has a little less than half
//! of its fair share, and every other TCP more. A TCP that counts acknowledgements, of which there is one per
//! two segments, opens its window by half a segment per round trip, and has less beside a sender that counts
//! bytes. Its send buffer of 32,768 bytes is not the reason (.233 with 256 KiB), but explains why it has .438
//! beside ms-cp and not .554.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_sim::World;
use braidftp_sim::host::{App, Endpoints, Host};
use braidftp_sim::link::{Bandwidth, LinkConfig, Queue};
use braidftp_sim::topology::{self, Dumbbell};
use braidftp_tcp as tcp;

use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/fair",
    shows: "What one TCP connection keeps of a link that it shares",
    caption: "3 Mbit/s, 20 ms each way, drop-tail queue of 50 packets, no other loss. Beside one TCP connection of the paper's time (SACK), the \
              same with Limited Transmit and bytes counted, and one of today with Reno or CUBIC: another one; four of them; one SCTP association of \
              the paper's; one of today's as braid uses it. Half is fair.",
    settings: &|| {
        vec![
            format!("bottleneck, each way: {}", bottleneck()),
            "beside the connection that is watched: tcp: another like it; tcp-parallel: four; ms-cp: profile rfc2960-kame; braid: profile modern"
                .to_owned(),
            "watched: sack and sack+lt+abc: those profiles; reno and cubic: profile modern with that congestion control".to_owned(),
        ]
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "watched",
                label: "the connection that is watched",
                values: &[
                    Value::Name("sack"),
                    Value::Name("sack+lt+abc"),
                    Value::Name("reno"),
                    Value::Name("cubic"),
                ],
                show: &|value| match value {
                    Value::Name("sack") => "SACK".to_owned(),
                    Value::Name("sack+lt+abc") => "SACK, LT, ABC".to_owned(),
                    Value::Name("reno") => "Reno of today".to_owned(),
                    _ => "CUBIC of today".to_owned(),
                },
            },
            Axis {
                name: "against",
                label: "",
                values: &[
                    Value::Name("tcp"),
                    Value::Name("tcp-parallel"),
                    Value::Name("ms-cp"),
                    Value::Name("braid"),
                ],
                show: &|value| match value {
                    Value::Name("tcp") => "one TCP".to_owned(),
                    Value::Name("tcp-parallel") => "four TCP".to_owned(),
                    Value::Name("ms-cp") => "SCTP".to_owned(),
                    other => other.to_string(),
                },
            },
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|_| true,
        paired: &["watched", "against"],
        columns: &[
            Column {
                name: "share_of_tcp",
                unit: "part of all bytes delivered that the watched connection has",
            },
            Column { name: "utilisation", unit: "bytes delivered through what the link carries" },
        ],
        runs: Runs { max: 30, ..Runs::PAPER },
        run: &|point, seed| run(point.name("watched"), point.name("against"), seed),
        plot: Plot::bars("watched", "share_of_tcp", "share of one TCP connection").by("against"),
    }),
};

/// The rate of the shared link in bits per second.
const RATE: u64 = 3_000_000;
/// The beginning of the measurement.
const FROM: Duration = Duration::from_secs(20);
/// The end of the measurement.
const TO: Duration = Duration::from_secs(120);
/// The port of the receivers.
const PORT: u16 = 5_000;
/// The bytes of one write.
const PIECE: usize = 16 << 10;

fn bottleneck() -> LinkConfig {
    LinkConfig {
        rate: Bandwidth::Fixed(Rate::from_bits_per_second(RATE)),
        delay: Duration::from_millis(18),
        queue: Queue::Packets(50),
        overhead_bytes: 20,
        ..LinkConfig::default()
    }
}

/// The observed connection.
fn watched(name: &str) -> tcp::Config {
    let modern = |congestion_control| tcp::Config { congestion_control, ..tcp::Profile::Modern.config() };
    match name {
        "reno" => modern(cc::Kind::Reno),
        "cubic" => modern(cc::Kind::Cubic),
        profile => profile.parse::<tcp::Profile>().unwrap_or_else(|error| panic!("{error}")).config(),
    }
}

fn run(watching: &str, against: &str, seed: u64) -> Row {
    let access = LinkConfig {
        rate: Bandwidth::Fixed(Rate::from_bits_per_second(100_000_000)),
        delay: Duration::from_millis(1),
        ..bottleneck()
    };
    let mut world = World::new(seed);
    let [left, right] = topology::dumbbell_addresses(2);
    let flows = |number: usize| match (number, against) {
        (0, _) | (_, "tcp") => Flows::Tcp(1),
        (_, "tcp-parallel") => Flows::Tcp(4),
        (_, "braid") => Flows::Sctp(Arc::new(ftp::modern_sctp())),
        _ => Flows::Sctp(Arc::new(ftp::papers_sctp())),
    };
    let tcp_config = Arc::new(watched(watching));
    let mut receivers = Vec::new();
    for number in 0..2 {
        let flows = flows(number);
        // The flows begin at different times, which depend on the seed.
        let begin = Time::ZERO + Duration::from_micros((seed >> (8 * number)) % 500_000);
        let endpoints = || Endpoints {
            sctp: sctp::Endpoint::new(
                blake3::hash(&[seed.to_le_bytes(), (number as u64).to_le_bytes()].concat()).into(),
            ),
            tcp: tcp::Endpoint::new(seed ^ number as u64),
        };
        let (here, there) = (SocketAddr::new(left[number], 0), SocketAddr::new(right[number], 0));
        let sender = Bulk { begins: Some((begin, flows.clone(), here, there, tcp_config.clone())), got: 0 };
        world.add_host(Host::new(endpoints(), sender), [left[number]]);
        let mut listening = endpoints();
        listening.tcp.listen(PORT, tcp_config.clone()).expect("a fresh endpoint listens nowhere");
        if let Flows::Sctp(config) = flows {
            listening.sctp.listen(PORT, config).expect("a fresh endpoint listens nowhere");
        }
        receivers.push(world.add_host(Host::new(listening, Bulk { begins: None, got: 0 }), [right[number]]));
    }
    topology::dumbbell(&mut world, &left, &right, &Dumbbell::of(2, &access, &bottleneck()));
    world.run_until(Time::ZERO + FROM);
    let before: Vec<u64> = receivers.iter().map(|host| world.host(*host).app().got).collect();
    world.run_until(Time::ZERO + TO);
    world.check();
    let got: Vec<f64> = receivers
        .iter()
        .zip(before)
        .map(|(host, before)| (world.host(*host).app().got - before) as f64)
        .collect();
    let all = got[0] + got[1];
    Row(vec![got[0] / all, all * 8.0 / (RATE as f64 * (TO - FROM).as_secs_f64())])
}

/// The flows that a host sends.
#[derive(Debug, Clone)]
enum Flows {
    /// This number of TCP connections.
    Tcp(usize),
    /// One association.
    Sctp(Arc<sctp::Config>),
}

/// Sends without end, or reads and counts.
#[derive(Debug)]
struct Bulk {
    /// When it begins, the flows, and their addresses: from and to.
    begins: Option<(Time, Flows, SocketAddr, SocketAddr, Arc<tcp::Config>)>,
    got: u64,
}

impl App for Bulk {
    fn on_event(
        &mut self,
        _now: Time,
        endpoints: &mut Endpoints,
        id: sctp::AssociationId,
        event: sctp::Event,
    ) {
        let Some(association) = endpoints.sctp.association_mut(id) else { return };
        match event {
            sctp::Event::Readable(_) => {
                while let Some(piece) = association.recv(sctp::StreamId(0)) {
                    self.got += piece.len() as u64;
                }
            }
            sctp::Event::Up { .. } | sctp::Event::Writable if self.begins.is_some() => {
                let message = || sctp::Message::new(sctp::Ppid(0), vec![0; PIECE]);
                while association.send(sctp::StreamId(0), message()).is_ok() {}
            }
            _ => {}
        }
    }

    fn on_tcp_event(
        &mut self,
        _now: Time,
        endpoints: &mut Endpoints,
        id: tcp::ConnectionId,
        event: tcp::Event,
    ) {
        let Some(connection) = endpoints.tcp.connection_mut(id) else { return };
        match event {
            tcp::Event::Readable => {
                while let Some(bytes) = connection.recv() {
                    self.got += bytes.len() as u64;
                }
            }
            tcp::Event::Up | tcp::Event::Writable if self.begins.is_some() => {
                while connection.send(vec![0; PIECE].into()) == PIECE {}
            }
            _ => {}
        }
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        let (begin, flows, from, to, tcp_config) = self.begins.as_mut()?;
        if now < *begin {
            return Some(*begin);
        }
        let to_port = SocketAddr::new(to.ip(), PORT);
        match std::mem::replace(flows, Flows::Tcp(0)) {
            Flows::Tcp(count) => {
                for _ in 0..count {
                    let connected = endpoints.tcp.connect(now, *from, to_port, tcp_config.clone());
                    connected.expect("there are free ports");
                }
            }
            Flows::Sctp(config) => {
                let connect = sctp::Connect {
                    local: vec![*from],
                    peer: vec![*to],
                    source_port: None,
                    destination_port: PORT,
                    config,
                };
                endpoints.sctp.connect(now, connect).expect("there are free ports");
            }
        }
        None
    }
}
