//! Tests of the loop with actors that only count: order, time and determinism; no protocol.

use std::net::SocketAddr;

use braidftp_base::Ecn;

use super::*;

/// Sends a numbered packet every millisecond, and answers each received one with half of it.
#[derive(Debug)]
struct Pinger {
    here: SocketAddr,
    there: SocketAddr,
    left: u8,
    next: Time,
    answers: VecDeque<Datagram>,
    got: Vec<(Time, usize)>,
    was_not_drained: bool,
    drained: bool,
}

impl Actor for Pinger {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        self.was_not_drained |= !self.drained;
        self.drained = false;
        self.got.push((now, datagram.payload.len()));
        let half = datagram.payload.len() / 2;
        if half > 0 {
            let payload = datagram.payload.slice(..half);
            self.answers.push_back(Datagram {
                from: self.here,
                to: datagram.from,
                ecn: Ecn::NotEct,
                payload,
            });
        }
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        if let Some(answer) = self.answers.pop_front() {
            return Output::Send(answer);
        }
        if self.left > 0 && now >= self.next {
            self.left -= 1;
            self.next = now + Duration::from_millis(1);
            let payload = vec![self.left; 100].into();
            return Output::Send(Datagram { from: self.here, to: self.there, ecn: Ecn::NotEct, payload });
        }
        self.drained = true;
        Output::Wait((self.left > 0).then_some(self.next))
    }
}

fn world(seed: u64, link: &str) -> (World<Pinger>, [HostId; 2]) {
    let mut world = World::new(seed);
    let addresses: [SocketAddr; 2] = ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap()];
    let hosts = [(0, 1), (1, 0)].map(|(here, there)| {
        let (here, there) = (addresses[here], addresses[there]);
        let chatter = Pinger {
            here,
            there,
            left: 50,
            next: Time::ZERO,
            answers: VecDeque::new(),
            got: Vec::new(),
            was_not_drained: false,
            drained: false,
        };
        let link = world.add_link(link.parse().unwrap());
        world.route(here.ip(), there.ip(), link);
        world.add_host(chatter, [here.ip()])
    });
    (world, hosts)
}

#[test]
fn packets_take_the_time_of_their_link() {
    let (mut world, hosts) = world(1, "delay=5ms");
    world.run_until(Time::from_millis(5));
    assert_eq!(world.host(hosts[1]).got, [(Time::from_millis(5), 100)]);
    assert_eq!(world.now(), Time::from_millis(5));
    assert!(world.run_while(Duration::from_secs(1), |world| world.host(hosts[0]).left > 0));
    assert_eq!(world.now(), Time::from_millis(49));
}

#[test]
fn a_host_is_drained_before_its_next_input() {
    let (mut world, hosts) = world(1, "duplicate=1");
    world.run_until(Time::from_millis(100));
    for host in hosts {
        assert!(!world.host(host).was_not_drained);
        assert!(world.host(host).got.len() > 100);
    }
}

#[test]
fn equal_seeds_give_equal_runs_and_other_seeds_others() {
    let run = |seed| {
        let (mut world, hosts) =
            world(seed, "rate=1mbit,delay=3ms,loss=0.2,reorder=0.1:4ms,duplicate=0.1,corrupt=0.1");
        world.run_until(Time::from_millis(1_000));
        assert!(world.links().all(|link| link.counters().queued == 0));
        (world.fingerprint(), world.host(hosts[0]).got.clone())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn packets_without_a_route_are_counted() {
    let (mut world, _) = world(1, "");
    world.routes.clear();
    world.run_until(Time::from_millis(100));
    assert_eq!(world.unroutable(), 100);
}

#[test]
fn a_record_holds_sent_and_received_packets() {
    let (mut world, _) = world(1, "lose=0");
    world.record();
    world.run_until(Time::ZERO);
    let sights: Vec<_> = world.take_record().iter().map(|seen| seen.what).collect();
    assert_eq!(sights, [Sight::Sent, Sight::Sent]);
    assert!(world.take_record().is_empty());
}

#[test]
#[should_panic(expected = "packets sent and duplicated are those that arrived")]
fn a_missing_packet_is_detected() {
    let (mut world, _) = world(1, "delay=1ms");
    world.run_until(Time::from_millis(10));
    world.traffic.sent += 1;
    world.check();
}

proptest::proptest! {
    #[test]
    fn on_any_links_every_packet_is_accounted_for(
        seed in 0..1_000_u64,
        picks in proptest::collection::vec(0..LINKS.len(), 2..6),
        until_ms in 0..120_u64,
    ) {
        let (mut world, hosts) = world(seed, "delay=1ms");
        let ends = hosts.map(|host| world.host(host).here.ip());
        let links: Vec<_> = picks.iter().map(|pick| world.add_link(LINKS[*pick].parse().unwrap())).collect();
        let (there, back) = links.split_at(links.len() / 2);
        world.route_via(ends[0], ends[1], there);
        world.route_via(ends[1], ends[0], back);
        // During the run, and at its end.
        world.run_until(Time::from_millis(until_ms));
        world.run_until(Time::from_millis(60_000));
        let held: u64 = world.links().map(|link| link.counters().queued).sum();
        proptest::prop_assert_eq!(held, 0);
    }
}

const LINKS: &[&str] = &[
    "rate=1mbit,delay=3ms,queue=3p",
    "rate=256kbit:10mbit@20ms,loss=0.1,duplicate=0.2",
    "delay=5ms,reorder=0.3:7ms,corrupt=0.2",
    "rate=500kbit,queue=20p,red=2p:6p:0.2:0.3:gentle,burst-loss=0.1:0.5",
    "rate=500kbit,queue=20p,codel=1ms:5ms",
    "flap=20ms:5ms,mtu=100",
    "down=5ms-30ms",
];
