//! Closed formulas for the cost of losses, compared with the simulator: the mean time of a handshake, and the end of a
//! transfer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_sctp as sctp;
use braidftp_sim::{Actor, App, Endpoints, Host, LinkConfig, World, topology};
use braidftp_tcp as tcp;

const PORT: u16 = 20;

/// Opens a connection and records when it is open.
#[derive(Debug, Default)]
struct Opener {
    up: Option<Time>,
}

impl App for Opener {
    fn on_event(&mut self, now: Time, _: &mut Endpoints, _: sctp::AssociationId, event: sctp::Event) {
        if let sctp::Event::Up { .. } = event {
            self.up.get_or_insert(now);
        }
    }

    fn on_tcp_event(&mut self, now: Time, _: &mut Endpoints, _: tcp::ConnectionId, event: tcp::Event) {
        if event == tcp::Event::Up {
            self.up.get_or_insert(now);
        }
    }

    fn wake(&mut self, _: Time, _: &mut Endpoints) -> Option<Time> {
        None
    }
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Tcp,
    Sctp,
}

/// Seconds until the active side is established, over links without delay and with this loss.
fn opening(protocol: Protocol, loss: &str, seed: u64) -> f64 {
    let link: LinkConfig = format!("delay=0ms,loss={loss}").parse().unwrap();
    let mut world = World::new(seed);
    let [from, to] = [1, 2].map(|host| topology::address(0, host));
    let mut hosts = [1_u8, 2].map(|host| {
        let mut key = [host; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Endpoints { sctp: sctp::Endpoint::new(key), tcp: tcp::Endpoint::new(seed ^ u64::from(host)) }
    });
    match protocol {
        Protocol::Tcp => {
            let rto = tcp::RtoBounds {
                initial: Duration::from_secs(3),
                max: Duration::from_secs(1 << 20),
                ..tcp::Config::default().rto
            };
            let config = Arc::new(tcp::Config { rto, syn_retries: 30, ..tcp::Config::default() });
            hosts[1].tcp.listen(PORT, config.clone()).unwrap();
            hosts[0].tcp.connect(Time::ZERO, (from, 0).into(), (to, PORT).into(), config).unwrap();
        }
        Protocol::Sctp => {
            let kame = sctp::Profile::Rfc2960Kame.config();
            let mut rto = kame.timers.rto;
            rto.max = Duration::from_secs(1 << 20);
            // The cookie lives longer than any back-off.
            let config = Arc::new(kame.with(|c| {
                c.timers.rto = rto;
                c.handshake.max_init_retransmits = 30;
                c.handshake.valid_cookie_life = Duration::from_secs(1 << 20);
            }));
            hosts[1].sctp.listen(PORT, config.clone()).unwrap();
            let connect = sctp::Connect {
                local: vec![SocketAddr::new(from, 0)],
                peer: vec![SocketAddr::new(to, 0)],
                source_port: None,
                destination_port: PORT,
                config,
            };
            hosts[0].sctp.connect(Time::ZERO, connect).unwrap();
        }
    }
    let [client, server] = hosts;
    let client = world.add_host(Host::new(client, Opener::default()), [from]);
    world.add_host(Host::new(server, Opener::default()), [to]);
    topology::path(&mut world, from, to, &[link.clone(), link]);
    world.run_while(Duration::from_secs(1 << 30), |world| world.host(client).app().up.is_none());
    world.host(client).app().up.expect("nobody gives up so early").since(Time::ZERO).as_secs_f64()
}

/// `E = RTO f / (1 - 2f)`, `f = 1 - (1-p)^2`, for each exposed round trip: the active side has two with SCTP (INIT and COOKIE
/// ECHO), and one with TCP. A passive TCP repeats its SYN ACK with its own timer, so TCP takes less; a passive SCTP has no
/// state and no timer.
#[test]
fn a_handshake_costs_its_expected_round_trips() {
    // Time-outs double, so the mean of some thousand handshakes is accurate to some percent only.
    const RUNS: u64 = 6_000;
    for (loss, p) in [("0.03", 0.03_f64), ("0.06", 0.06)] {
        let f = 1.0 - (1.0 - p).powi(2);
        let one = 3.0 * f / (1.0 - 2.0 * f);
        let cases = [(Protocol::Tcp, 1.0, 0.75..1.05), (Protocol::Sctp, 2.0, 0.88..1.12)];
        for (protocol, exposed, within) in cases {
            let sum: f64 = (0..RUNS).map(|seed| opening(protocol, loss, seed)).sum();
            let (mean, expected) = (sum / RUNS as f64, exposed * one);
            println!("{protocol:?} {loss}: {mean:.4} s, expected {expected:.4}");
            let ratio = mean / expected;
            assert!(within.contains(&ratio), "{protocol:?} {loss}: {mean} s, expected {expected}");
        }
    }
}

/// A transport that detects each loss at once: sends numbered packets, and retransmits unacknowledged ones a round trip later.
#[derive(Debug)]
enum Instant {
    Sender { ends: (SocketAddr, SocketAddr), missing: Vec<u8>, due: Vec<u8>, next: Time, done: Option<Time> },
    Answers { due: Vec<Datagram> },
}

const ROUND_TRIP: Duration = Duration::from_millis(100);

impl Actor for Instant {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        match self {
            Self::Sender { missing, done, .. } => {
                missing.retain(|number| *number != datagram.payload[0]);
                if missing.is_empty() {
                    done.get_or_insert(now);
                }
            }
            Self::Answers { due } => {
                due.push(Datagram { from: datagram.to, to: datagram.from, ..datagram });
            }
        }
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        match self {
            Self::Sender { ends: (from, to), missing, due, next, .. } => {
                if now >= *next && !missing.is_empty() {
                    due.clone_from(missing);
                    // Just after the acknowledgements of this round.
                    *next = now + ROUND_TRIP + Duration::from_nanos(1);
                }
                match due.pop() {
                    Some(number) => Output::Send(Datagram {
                        from: *from,
                        to: *to,
                        ecn: Ecn::NotEct,
                        payload: vec![number].into(),
                    }),
                    None => Output::Wait((!missing.is_empty()).then_some(*next)),
                }
            }
            Self::Answers { due } => due.pop().map_or(Output::Wait(None), Output::Send),
        }
    }
}

/// The end of a transfer with W packets in flight takes `RTT sum over k of [1 - (1 - p^k)^W]` longer, even if every loss is
/// detected at once.
#[test]
fn the_tail_of_a_transfer_is_as_long_as_the_formula_says() {
    const RUNS: u64 = 20_000;
    for (window, loss, p) in [(2, "0.03", 0.03_f64), (7, "0.1", 0.1), (6, "0.01", 0.01)] {
        let there: LinkConfig = format!("delay=50ms,loss={loss}").parse().unwrap();
        let back: LinkConfig = "delay=50ms".parse().unwrap();
        let tail = |seed: u64| {
            let mut world = World::new(seed);
            let ends = [1, 2].map(|host| SocketAddr::new(topology::address(0, host), 0));
            let missing: Vec<u8> = (0..window).collect();
            let sender = Instant::Sender {
                ends: (ends[0], ends[1]),
                missing,
                due: Vec::new(),
                next: Time::ZERO,
                done: None,
            };
            let sender = world.add_host(sender, [ends[0].ip()]);
            world.add_host(Instant::Answers { due: Vec::new() }, [ends[1].ip()]);
            topology::path(&mut world, ends[0].ip(), ends[1].ip(), &[there.clone(), back.clone()]);
            world.run_until(Time::from_millis(20_000));
            let Instant::Sender { done: Some(done), .. } = world.host(sender) else { panic!("not done") };
            done.since(Time::ZERO).as_secs_f64() / ROUND_TRIP.as_secs_f64() - 1.0
        };
        let mean = (0..RUNS).map(tail).sum::<f64>() / RUNS as f64;
        let expected: f64 = (1..40).map(|k| 1.0 - (1.0 - p.powi(k)).powi(i32::from(window))).sum();
        println!("{window} packets, {loss}: {mean:.4} round trips, expected {expected:.4}");
        assert!((mean / expected - 1.0).abs() < 0.06, "{window}, {loss}: {mean}, expected {expected}");
    }
}
