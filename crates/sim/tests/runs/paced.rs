//! Pacing controllers over simulated paths, by SCTP and by TCP: they send evenly, fill a path that loses a
//! tenth, and follow a changing rate. Tests per round trip are in `cc/tests`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::Choice;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Bulk, Protocol};
use braidftp_sim::topology::{self, ClientRouterServer};
use braidftp_sim::{Host, HostId, LinkConfig, LinkId, World};
use braidftp_tcp as tcp;

/// Larger than any of these paths.
const BUFFER: usize = 16 << 20;

fn link(text: &str) -> LinkConfig {
    format!("overhead=20,{text}").parse().unwrap()
}

fn by_sctp(choice: &str) -> Protocol {
    let mut config = sctp::Profile::Modern.config();
    choice.parse::<Choice>().unwrap().apply(&mut config.congestion.control, &mut config.congestion.options);
    config.memory.send_buffer_bytes = BUFFER;
    config.memory.receive_buffer_bytes = BUFFER;
    Protocol::Sctp(Arc::new(config))
}

fn by_tcp(choice: &str) -> Protocol {
    let mut config = tcp::Profile::Modern.config();
    choice.parse::<Choice>().unwrap().apply(&mut config.congestion_control, &mut config.congestion_options);
    config.send_buffer_bytes = BUFFER;
    config.receive_buffer_bytes = BUFFER;
    Protocol::Tcp(Arc::new(config))
}

struct Flow {
    world: World<Host<Bulk>>,
    reader: HostId,
    links: ClientRouterServer<LinkId>,
}

/// A fast access link, and a far link in each direction.
fn flow(protocol: &Protocol, there: &str, back: &str) -> Flow {
    let mut world = World::new(7);
    let ends = [0, 1].map(|network| SocketAddr::new(topology::address(network, 1), 0));
    let near = || link("rate=1gbit,delay=10us");
    let links = ClientRouterServer { near: [near(), near()], far: [link(there), link(back)] };
    let links = topology::client_router_server(&mut world, ends[0].ip(), ends[1].ip(), &links);
    let [sender, reader] = bulk::flow(protocol, ends[0], ends[1], 1);
    world.add_host(sender, [ends[0].ip()]);
    let reader = world.add_host(reader, [ends[1].ip()]);
    Flow { world, reader, links }
}

impl Flow {
    /// The bits per second that the reader got between two seconds.
    fn goodput(&mut self, from: u64, to: u64) -> f64 {
        let mut read = |second| {
            self.world.run_until(Time::ZERO + Duration::from_secs(second));
            self.world.host(self.reader).app().bytes_read()
        };
        let (before, after) = (read(from), read(to));
        (after - before) as f64 * 8.0 / (to - from) as f64
    }
}

#[test]
fn bbr_version_1_fills_a_path_that_loses_a_tenth() {
    // About 1,436 of a packet's 1,500 bytes are data; at 300 ms ProbeRTT takes a twentieth of the time.
    for (rate, there, from, least) in [
        (1e6, "rate=1mbit,delay=35ms,queue=64kB,loss=0.1", 5, 0.95),
        (50e6, "rate=50mbit,delay=150ms,queue=4MB,loss=0.1", 10, 0.88),
    ] {
        let back = there.split(",loss").next().unwrap();
        for protocol in [by_sctp("bbr:version=1"), by_tcp("bbr:version=1")] {
            let goodput = flow(&protocol, there, back).goodput(from, from + 10);
            let share = goodput / (rate * 0.9 * 1_436.0 / 1_500.0);
            assert!(share > least, "{there}: {share}");
        }
    }
}

#[test]
fn a_paced_flow_keeps_a_short_queue_where_cubic_fills_it() {
    for protocol in [by_sctp, by_tcp] {
        let queue = |choice: &str| {
            let mut flow =
                flow(&protocol(choice), "rate=8mbit,delay=20ms,queue=160kB", "rate=8mbit,delay=20ms");
            let goodput = flow.goodput(5, 15);
            let counters = flow.world.link(flow.links.far[0]).counters();
            (goodput, counters.dropped())
        };
        let (cubic, cubic_drops) = queue("cubic");
        assert!(cubic_drops > 0);
        for choice in ["bbr", "bbr:version=1"] {
            let (goodput, drops) = queue(choice);
            assert!(
                goodput > cubic * 0.93 && drops == 0,
                "{choice}: {goodput} b/s, {drops} drops; {cubic} b/s"
            );
        }
    }
}

#[test]
fn a_paced_flow_follows_a_rate_that_falls_and_rises() {
    for protocol in [by_sctp("bbr"), by_tcp("bbr"), by_sctp("bbr:version=1"), by_tcp("bbr:version=1")] {
        let there = "rate=8mbit:1mbit@10s:8mbit@30s,delay=20ms,queue=60kB";
        let mut flow = flow(&protocol, there, "rate=8mbit,delay=20ms");
        let shares = [(3, 10, 8e6), (20, 30, 1e6), (40, 50, 8e6)]
            .map(|(from, to, rate)| flow.goodput(from, to) / (rate * 1_436.0 / 1_500.0));
        assert!(shares.iter().all(|share| *share > 0.85), "{shares:?}");
    }
}
