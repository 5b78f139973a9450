//! FAST over a network, with its sources in a closed loop: late flows mistake the queue for propagation
//! delay, and a refresh of the base corrects this, because all sources reduce together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::{Kind, fast::Params};
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Protocol, Span};
use braidftp_sim::topology::{self, Dumbbell};
use braidftp_sim::{LinkConfig, World};
use braidftp_tcp as tcp;

/// Packets that each source keeps in the queue.
const ALPHA: u32 = 8;
/// When flows begin, in seconds.
const BEGIN: [u64; 4] = [0, 3, 8, 15];
/// The measured interval, in seconds.
const WATCHED: std::ops::Range<u64> = 40..50;

/// The result: each flow's share, the mean queue, and dropped packets.
struct Came {
    shares: Vec<f64>,
    queue: f64,
    drops: u64,
    utilisation: f64,
}

fn run(protocol: &Protocol) -> Came {
    let link = |text: &str| -> LinkConfig { format!("overhead=20,{text}").parse().unwrap() };
    let mut world = World::new(1);
    let [left, right] = topology::dumbbell_addresses(BEGIN.len());
    let access = link("rate=100mbit,queue=10000p");
    let links = Dumbbell::of(BEGIN.len(), &access, &link("rate=16mbit,delay=25ms,queue=1000p"));
    let links = topology::dumbbell(&mut world, &left, &right, &links);
    let at = |second| Time::ZERO + Duration::from_secs(second);
    let mut readers = Vec::new();
    for (number, (left, right)) in left.into_iter().zip(right).enumerate() {
        let span = Span { begins: at(BEGIN[number]), ends: None };
        let ends = [left, right].map(|ip| SocketAddr::new(ip, 0));
        let [sender, reader] = bulk::flow_during(span, protocol, ends[0], ends[1], number as u64);
        world.add_host(sender, [left]);
        readers.push(world.add_host(reader, [right]));
    }
    let read = |world: &World<_>| -> Vec<u64> {
        readers
            .iter()
            .map(|reader| {
                let host: &braidftp_sim::Host<bulk::Bulk> = world.host(*reader);
                host.app().bytes_read()
            })
            .collect()
    };
    world.run_until(at(WATCHED.start));
    let before = read(&world);
    let (mut waited, mut looked) = (0, 0);
    while world.now() < at(WATCHED.end) {
        world.run_until(world.now() + Duration::from_millis(10));
        world.settle();
        waited += world.link(links.bottleneck[0]).waiting_packets();
        looked += 1;
    }
    let brought: Vec<f64> =
        read(&world).iter().zip(before).map(|(after, before)| (after - before) as f64).collect();
    let all: f64 = brought.iter().sum();
    Came {
        shares: brought.iter().map(|bytes| bytes / all).collect(),
        queue: waited as f64 / f64::from(looked),
        drops: world.link(links.bottleneck[0]).counters().dropped(),
        utilisation: all * 8.0 / 16e6 / (WATCHED.end - WATCHED.start) as f64,
    }
}

fn over_tcp(params: Params) -> Protocol {
    let mut config = tcp::Config {
        timestamps: false,
        timing: tcp::Timing::EverySegment,
        congestion_control: Kind::Fast,
        receive_buffer_bytes: 4 << 20,
        send_buffer_bytes: 4 << 20,
        ..tcp::Profile::Sack.config()
    };
    config.congestion_options.fast = params;
    Protocol::Tcp(Arc::new(config))
}

fn over_sctp(params: Params) -> Protocol {
    let mut config = sctp::Profile::Modern.config().with(|c| c.congestion.control = Kind::Fast);
    config.congestion.options.fast = params;
    Protocol::Sctp(Arc::new(config))
}

fn params(refresh: Option<u64>) -> Params {
    Params { alpha_packets: ALPHA, refresh: refresh.map(Duration::from_secs), ..Params::p4() }
}

#[test]
fn sources_that_begin_late_have_more_than_their_share() {
    let Came { shares, queue, drops, .. } = run(&over_tcp(params(None)));
    // The fixed point of four flows that start one after the other: .15, .17, .24 and .45 with 6.84 α in the
    // queue.
    for (share, predicted) in shares.iter().zip([0.146, 0.171, 0.236, 0.447]) {
        assert!((share - predicted).abs() < 0.06, "{shares:?}");
    }
    assert!(shares[3] > 1.5 / 4.0 && drops == 0, "{shares:?}, {drops} drops");
    assert!(queue > 5.5 * f64::from(ALPHA), "{queue} packets");
}

#[test]
fn refreshing_the_base_gives_late_sources_an_equal_share() {
    for (name, protocol) in [("tcp", over_tcp(params(Some(10)))), ("sctp", over_sctp(params(Some(10))))] {
        let Came { shares, queue, drops, utilisation } = run(&protocol);
        for share in &shares {
            assert!((share * 4.0 - 1.0).abs() < 0.1, "{name}: {shares:?}");
        }
        let alphas = queue / f64::from(4 * ALPHA);
        assert!((0.7..1.3).contains(&alphas) && drops == 0, "{name}: {queue} packets, {drops} drops");
        assert!(utilisation > 0.9, "{name}: {utilisation}");
    }
}
