//! Compares the simulator with closed forms: rates, round trips, windows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Bulk, Protocol};
use braidftp_sim::record::Probes;
use braidftp_sim::topology::{self, ClientRouterServer};
use braidftp_sim::{Host, HostId, LinkConfig, LinkId, World};
use braidftp_tcp as tcp;

fn link(text: &str) -> LinkConfig {
    format!("overhead=20,{text}").parse().unwrap()
}

struct Flow {
    world: World<Host<Bulk>>,
    sender: HostId,
    reader: HostId,
    links: ClientRouterServer<LinkId>,
}

/// One flow over a router: a fast near link, and a far one.
fn flow(protocol: Protocol, near: &str, far: &str) -> Flow {
    let mut world = World::new(1);
    let ends = [0, 1].map(|network| SocketAddr::new(topology::address(network, 1), 0));
    let links = ClientRouterServer { near: [link(near), link(near)], far: [link(far), link(far)] };
    let links = topology::client_router_server(&mut world, ends[0].ip(), ends[1].ip(), &links);
    let [sender, reader] = bulk::flow(&protocol, ends[0], ends[1], 1);
    let sender = world.add_host(sender, [ends[0].ip()]);
    let reader = world.add_host(reader, [ends[1].ip()]);
    Flow { world, sender, reader, links }
}

impl Flow {
    /// Bytes a second that the reader got between two seconds.
    fn goodput(&mut self, from: u64, to: u64) -> f64 {
        let mut read = |second| {
            self.world.run_until(Time::ZERO + Duration::from_secs(second));
            self.world.host(self.reader).app().bytes_read()
        };
        let (before, after) = (read(from), read(to));
        (after - before) as f64 / (to - from) as f64
    }
}

fn tcp_config(window: usize) -> tcp::Config {
    tcp::Config { receive_buffer_bytes: window, send_buffer_bytes: 1 << 20, ..tcp::Profile::Sack.config() }
}

#[test]
fn a_full_link_carries_its_rate_less_the_headers() {
    // The queue is larger than any window, so nothing is lost and the wire is never idle. 3 Mbit/s are 375,000 B/s.
    let far = "rate=3mbit,delay=10ms,queue=10MB";
    let sctp = sctp::Profile::Rfc9260.config().with(|c| c.memory.receive_buffer_bytes = 200_000);
    let flow_of = |protocol, data: f64, packet: f64| {
        let mut flow = flow(protocol, "rate=100mbit,delay=1ms", far);
        let goodput = flow.goodput(10, 60);
        let expected = 375_000.0 * data / packet;
        assert!((goodput / expected - 1.0).abs() < 0.005, "{goodput} B/s, expected {expected}");
        let counters = flow.world.link(flow.links.far[0]).counters();
        assert_eq!(counters.dropped(), 0);
        assert!((counters.bytes_out as f64 / 60.0 / 375_000.0 - 1.0).abs() < 0.02, "{counters:?}");
    };
    let config = tcp_config(60_000);
    let payload = f64::from(config.mss) - if config.timestamps { 12.0 } else { 0.0 };
    let headers = 40.0 + if config.timestamps { 12.0 } else { 0.0 };
    flow_of(Protocol::Tcp(Arc::new(config)), payload, payload + headers);
    // IP 20, common header 12, DATA 16; a chunk is filled to a multiple of 4 bytes.
    flow_of(Protocol::Sctp(Arc::new(sctp)), 1_452.0, 1_500.0);
}

#[test]
fn a_window_below_the_bandwidth_delay_product_is_delivered_once_per_rtt() {
    // 100 ms there and back, and 64 kB at 1 Gbit/s are only half a millisecond: the window is what limits (RFC 7323 §1.1).
    // An odd segment would wait for the next one to be acknowledged.
    for segments in [12, 24, 44] {
        let config = tcp_config(0);
        let payload = usize::from(config.mss) - if config.timestamps { 12 } else { 0 };
        let window = segments * payload;
        let protocol = Protocol::Tcp(Arc::new(tcp::Config { receive_buffer_bytes: window, ..config }));
        let mut flow = flow(protocol, "rate=1gbit,delay=1ms", "rate=1gbit,delay=49ms");
        let goodput = flow.goodput(20, 60);
        let expected = window as f64 / 0.1;
        // Two wires take 12 us for each of the two segments that are acknowledged together.
        let ratio = goodput / expected;
        assert!((0.995..1.001).contains(&ratio), "{segments} segments: {goodput} B/s, expected {expected}");
    }
}

#[test]
fn forty_four_segments_on_a_satellite_use_half_of_two_megabits() {
    // claims P3-C15: a window of 65,535 bytes is 44 segments of 1,460; over 2 Mbit/s with 260 ms one way.
    let config = tcp::Config { send_buffer_bytes: 1 << 20, ..tcp::Profile::Opnet11.config() };
    assert_eq!(config.receive_buffer_bytes, 65_535);
    let protocol = Protocol::Tcp(Arc::new(config));
    let mut flow = flow(protocol, "rate=10mbit,delay=0ms", "rate=2mbit,delay=260ms,queue=10MB");
    flow.world.run_until(Time::ZERO + Duration::from_secs(20));
    let before = flow.world.link(flow.links.far[0]).counters().bytes_out;
    flow.world.run_until(Time::ZERO + Duration::from_secs(120));
    let bytes = flow.world.link(flow.links.far[0]).counters().bytes_out - before;
    let utilisation = bytes as f64 * 8.0 / 100.0 / 2e6;
    assert!((0.480..0.510).contains(&utilisation), "{utilisation}");
}

#[test]
fn an_empty_network_takes_its_delays_and_its_wires_times() {
    let protocol = Protocol::Sctp(Arc::new(sctp::Profile::Rfc9260.config()));
    let mut flow = flow(protocol, "rate=10mbit,delay=2ms", "rate=1mbit,delay=30ms");
    flow.world.record();
    flow.world.run_until(Time::from_millis(200));
    let seen = flow.world.take_record();
    let (first, second) = (&seen[0], &seen[1]);
    let bits = (first.datagram.payload.len() + 20) as f64 * 8.0;
    let expected = 0.032 + bits / 10e6 + bits / 1e6;
    let took = second.at.since(first.at).as_secs_f64();
    assert!((took - expected).abs() < 2e-9, "INIT took {took}, expected {expected}");
}

#[test]
fn a_flow_that_fills_a_queue_has_the_round_trip_of_the_full_queue() {
    // The window is 60,000 bytes; the way holds 3 Mbit/s times 22 ms, 8,250 bytes, and the rest waits.
    let protocol = Protocol::Tcp(Arc::new(tcp_config(58_400)));
    let mut flow = flow(protocol, "rate=100mbit,delay=1ms", "rate=3mbit,delay=10ms,queue=10MB");
    let (sender, far) = (flow.sender, flow.links.far[0]);
    let mut probes = Probes::new().queue_bytes("queue", far).throughput("rate", far).tcp_connection(
        "",
        |world: &World<Host<Bulk>>| {
            let host = world.host(sender);
            Some((host.tcp(), host.app().connection()?))
        },
    );
    probes.run(&mut flow.world, Duration::from_secs(30), Duration::from_millis(100));
    let mean = |name: &str| {
        let column: Vec<_> = probes.series().column(name).into_iter().filter(|(at, _)| *at > 10.0).collect();
        column.iter().map(|(_, value)| value).sum::<f64>() / column.len() as f64
    };
    assert!((mean("rate") / 3e6 - 1.0).abs() < 0.005, "{}", mean("rate"));
    // 40 segments of 1,500 bytes are under way, less those on the other links and the acknowledgements that are delayed.
    let (queue, srtt) = (mean("queue"), mean("srtt"));
    assert!((49_000.0..58_000.0).contains(&queue), "{queue}");
    // Little's law: what waits is the rate times the wait.
    let waits = queue * 8.0 / 3e6;
    assert!((srtt - (waits + 0.022)).abs() < 0.015, "srtt {srtt}, queue {waits}");
    // The peer's window is the limit, so that is in flight, however far slow start has opened the other.
    let (flight, cwnd) = (mean("flight"), mean("cwnd"));
    assert!((55_000.0..=58_400.0).contains(&flight) && cwnd > flight, "{flight} of {cwnd}");
    assert!(mean("ssthresh") >= cwnd, "nothing was lost");
}
