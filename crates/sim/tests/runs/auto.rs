//! Tests of `auto` over simulated paths: it fills a lossy path, keeps no queue of seconds, and shares fairly
//! with Reno, CUBIC and itself. Tests of its rules are in `cc/src/auto/tests.rs`; the tables over all paths
//! come from `braidlab run utilisation fairness`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::Kind;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Bulk, Protocol, Span};
use braidftp_sim::{Host, HostId, LinkConfig, LinkId, World, topology};
use braidftp_tcp as tcp;

/// Larger than any of these paths.
const BUFFER: usize = 4 << 20;

fn auto() -> Protocol {
    let config = sctp::Profile::Modern.config().with(|c| {
        c.path_mtu.packet_bytes = 1_480;
        c.path_mtu.discovery = None;
        c.congestion.control = Kind::Auto;
        c.memory.send_buffer_bytes = BUFFER;
        c.memory.receive_buffer_bytes = BUFFER;
    });
    Protocol::Sctp(Arc::new(config))
}

fn by_tcp(congestion_control: Kind) -> Protocol {
    let config = tcp::Config {
        congestion_control,
        send_buffer_bytes: BUFFER,
        receive_buffer_bytes: BUFFER,
        ..tcp::Profile::Modern.config()
    };
    Protocol::Tcp(Arc::new(config))
}

/// Flows over one link, equal in both directions.
struct Dumbbell {
    world: World<Host<Bulk>>,
    there: LinkId,
    readers: Vec<HostId>,
}

impl Dumbbell {
    /// Each flow begins at the given time in milliseconds.
    fn new(link: &str, flows: &[(Protocol, u64)]) -> Self {
        let link: LinkConfig = format!("overhead=20,{link}").parse().unwrap();
        let mut world = World::new(7);
        let [there, back] = [(); 2].map(|()| world.add_link(link.clone()));
        let [left, right] = topology::dumbbell_addresses(flows.len());
        let mut readers = Vec::new();
        for (number, (protocol, begins_ms)) in flows.iter().enumerate() {
            let (here, beyond) = (left[number], right[number]);
            world.route_via(here, beyond, &[there]);
            world.route_via(beyond, here, &[back]);
            let span = Span { begins: Time::from_millis(*begins_ms), ends: None };
            let [from, to] = [here, beyond].map(|ip| SocketAddr::new(ip, 0));
            let [mut sender, reader] = bulk::flow_during(span, protocol, from, to, number as u64);
            sender.parts_mut().1.write_at_a_time(1_448);
            world.add_host(sender, [here]);
            readers.push(world.add_host(reader, [beyond]));
        }
        Self { world, there, readers }
    }

    /// The bits per second that each reader got between two seconds.
    fn rates(&mut self, from: u64, to: u64) -> Vec<f64> {
        let mut read = |second| {
            self.world.run_until(Time::ZERO + Duration::from_secs(second));
            let bytes = self.readers.iter().map(|reader| self.world.host(*reader).app().bytes_read());
            bytes.collect::<Vec<u64>>()
        };
        let (before, after) = (read(from), read(to));
        let rate = |(before, after)| (after - before) as f64 * 8.0 / (to - from) as f64;
        before.into_iter().zip(after).map(rate).collect()
    }

    /// The first flow's rate relative to an equal share.
    fn share(&mut self, from: u64, to: u64) -> f64 {
        let rates = self.rates(from, to);
        2.0 * rates[0] / (rates[0] + rates[1])
    }
}

#[test]
fn a_small_lossy_path_is_filled() {
    for (link, limit) in [
        ("rate=1mbit,delay=35ms,queue=500kB,loss=0.03", 1e6 * 0.97),
        ("rate=256kbit,delay=125ms,queue=500kB,loss=0.1", 256e3 * 0.9),
    ] {
        let goodput = Dumbbell::new(link, &[(auto(), 0)]).rates(0, 60)[0];
        let utilisation = goodput / (limit * 1_448.0 / 1_500.0);
        assert!(utilisation >= 0.95, "{link}: {utilisation}");
    }
}

#[test]
fn a_queue_of_sixteen_seconds_is_left_empty_for_the_most_part() {
    let mut flow = Dumbbell::new("rate=256kbit,delay=125ms,queue=500kB", &[(auto(), 0)]);
    let utilisation = flow.rates(0, 60)[0] / (256e3 * 1_448.0 / 1_500.0);
    assert!(utilisation >= 0.95, "{utilisation}");
    let link = flow.world.link(flow.there);
    let seconds = link.waiting_bytes() as f64 * 8.0 / 256e3;
    assert!(seconds < 3.0 && link.counters().dropped() == 0, "{seconds} s");
}

#[test]
fn beside_reno_and_cubic_each_has_its_share() {
    for (link, from, to) in [
        ("rate=2mbit,delay=25ms,queue=12kB", 20, 60),
        // At an RTT of 300 ms CUBIC takes three quarters and more beside Reno.
        ("rate=2mbit,delay=150ms,queue=75kB", 60, 240),
    ] {
        for kind in [Kind::Reno, Kind::Cubic] {
            // One start alone may give a tenth more: which packet of a short queue is lost decides.
            let starts = [300, 400, 500, 600];
            let shares = starts
                .map(|start| Dumbbell::new(link, &[(auto(), start), (by_tcp(kind), 0)]).share(from, to));
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            assert!((0.5..=1.5).contains(&mean), "{link}, beside {kind}: {shares:?}");
        }
    }
}

#[test]
fn a_late_flow_gets_its_share_and_two_flows_fill_a_lossy_path() {
    // CUBIC's windows fill a quarter of the second.
    for (link, rate, fair, least) in [
        ("rate=4mbit,delay=25ms,queue=25kB", 4e6, 0.25, 0.95),
        ("rate=8mbit,delay=50ms,queue=100kB,loss=0.03", 8e6, 0.25, 0.95),
    ] {
        let rates = Dumbbell::new(link, &[(auto(), 0), (auto(), 20_000)]).rates(30, 50);
        let all = rates[0] + rates[1];
        let (share, part) = (2.0 * rates[0] / all, all / (rate * 1_448.0 / 1_500.0));
        assert!((share - 1.0).abs() <= fair && part >= least, "{link}: {share} of {part}");
    }
}

#[test]
fn two_flows_share_a_randomly_lossy_path_equally() {
    for link in [
        "rate=10mbit,delay=25ms,queue=62500B,loss=0.01",
        "rate=10mbit,delay=25ms,queue=62500B,burst-loss=0.0034:0.1667:1:0.5",
    ] {
        let mut both = Dumbbell::new(link, &[(auto(), 0), (auto(), 700)]);
        let rates = both.rates(20, 60);
        let all = rates[0] + rates[1];
        let (share, part) = (2.0 * rates[0] / all, all / (10e6 * 1_448.0 / 1_500.0));
        assert!((share - 1.0).abs() < 0.3 && part > 0.98, "{link}: {share} of {part}");
    }
}
