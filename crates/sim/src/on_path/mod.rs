//! An attacker on the path between two hosts with protected associations: one run from a seed, and what must hold.
//!
//! The attacker has no keys. It loses, delays, replays, splices and changes packets, edits what INIT and INIT ACK offer, and
//! sends INIT, ABORT, SHUTDOWN, SACK, ERROR, COOKIE ECHO and DATA with the right verification tags (`attacker.rs`). It is
//! present from the first packet, or starts when both associations are protected. Then it leaves. In every run:
//!
//! - No user data is ever sent in the clear, and an association that is protected sends nothing but DTLS chunks.
//! - Delivered messages were sent, and arrive in order and once.
//! - An attacker that starts when the associations are protected causes loss and delay at most: after it has left, all data
//!   arrives, and both associations shut down.
//! - An attacker that is present from the start can prevent an association, and can end it before it is protected. If it edited
//!   an offer, nothing is delivered.

mod attacker;
mod exchange;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Output, Time};
use braidftp_keys::{Method, Settings};
use braidftp_sctp::{Announce, Config, Connect, Endpoint, Profile, Reason, wire};

use self::attacker::Attacker;
use self::exchange::{Exchange, Side};
use crate::host::Host;
use crate::link::{Bandwidth, LinkConfig, Loss};
use crate::protection::Identity;
use crate::random::{Probability, Random};
use crate::topology;
use crate::world::{Actor, HostId, Seen, World};

/// The stream of draws of a run's parameters; the attacker's follow.
const RANDOM_STREAM: u64 = 1 << 53;
/// The SCTP port of the server.
const PORT: u16 = 21;
/// The client's ports. There are two associations, so that packets of one can be spliced into the other.
const CLIENT_PORTS: [u16; 2] = [10_000, 10_001];
const UDP_PORT: u16 = 9_899;
/// How long the attacker stays.
const ATTACK: Duration = Duration::from_secs(20);
/// The time limit for associations to be protected without an attacker, and to end when it has left.
const PATIENCE: Duration = Duration::from_secs(600);
/// More events at one instant are a livelock.
const STEPS_AT_ONCE_MAX: u64 = 1_000_000;

/// When the attacker starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Before the first packet.
    Start,
    /// Before the first packet; it edits every INIT and INIT ACK that offers protection.
    StartAndEditOffers,
    /// When both associations are protected.
    Protected,
}

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct Trial {
    seed: u64,
    arrival: Arrival,
    /// The two links of each path.
    links: Vec<[LinkConfig; 2]>,
    /// Which key management method both sides offer.
    method: Method,
    /// How long keys are used.
    rekey_after: Duration,
    /// Messages of each side in each association.
    messages: u64,
    mtu: usize,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The virtual time it took.
    pub took: Duration,
    /// Packets that reached a host.
    pub packets: u64,
    /// The number of packets that the attacker changed or sent.
    pub attacks: u64,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, the attacker comes: {:?}", self.seed, self.arrival)?;
        writeln!(f, "  {:?}, keys are used for {:?}, MTU {}", self.method, self.rekey_after, self.mtu)?;
        for (path, [forward, back]) in self.links.iter().enumerate() {
            writeln!(f, "  path {path} forward {forward}, back {back}")?;
        }
        writeln!(f, "  {} messages each way in each association", self.messages)
    }
}

impl Trial {
    /// The run of this seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut random = Random::new(seed, RANDOM_STREAM);
        let arrival = match random.below(10) {
            0 | 1 => Arrival::Start,
            2 => Arrival::StartAndEditOffers,
            _ => Arrival::Protected,
        };
        let paths = if random.below(3) == 0 { 2 } else { 1 };
        let mut link = || LinkConfig {
            loss: Loss::Bernoulli(
                Probability::new(random.below(50) as f64 / 1_000.0).expect("it is less than 1"),
            ),
            rate: Bandwidth::Fixed("5mbit".parse().expect("it is a rate")),
            delay: Duration::from_millis(1 + random.below(40)),
            ..LinkConfig::default()
        };
        let links = (0..paths).map(|_| [link(), link()]).collect();
        Self {
            seed,
            arrival,
            links,
            method: if random.below(5) == 0 { Method::Draft } else { Method::AtOnce },
            rekey_after: match random.below(2) {
                // A peer may begin 30 handshakes a minute.
                0 => Duration::from_millis(2_500 + random.below(4_000)),
                _ => Duration::from_secs(3_600),
            },
            messages: 2 + random.below(5),
            mtu: random.below(800) as usize + 652,
        }
    }

    /// Runs the trial. The error says which requirement was violated.
    pub fn run(&self, identity: &Identity) -> Result<Outcome, String> {
        self.run_in(self.stage(identity), &mut |_| {})
    }

    /// The same, and reports every datagram at its arrival at a host, and when it leaves the attacker.
    pub fn watch(&self, identity: &Identity, mut see: impl FnMut(Seen)) -> Result<Outcome, String> {
        let mut stage = self.stage(identity);
        stage.world.record();
        self.run_in(stage, &mut see)
    }

    fn stage(&self, identity: &Identity) -> Stage {
        let mut random = Random::new(self.seed, RANDOM_STREAM + 1);
        let edits = self.arrival == Arrival::StartAndEditOffers;
        let attacker = Rc::new(RefCell::new(Attacker::new(Random::new(self.seed, RANDOM_STREAM + 2), edits)));
        let mut world = World::new(self.seed);
        let addresses: [Vec<SocketAddr>; 2] = [1, 2].map(|host| {
            let address = |path| SocketAddr::new(topology::address(path as u8, host), UDP_PORT);
            (0..self.links.len()).map(address).collect()
        });
        let [here, there] = &addresses;
        let [client, server] = [identity.client(), identity.server()]
            .map(|settings| Settings { rekey_after: self.rekey_after, ..settings });
        let mut endpoints = [random.seed(), random.seed()].map(Endpoint::new);
        endpoints[1].set_addresses(there.clone(), Announce::Always);
        let config = Arc::new(self.config(&server));
        endpoints[1].listen(PORT, config).expect("a fresh endpoint listens nowhere");
        for port in CLIENT_PORTS {
            let connect = Connect {
                local: here.clone(),
                source_port: Some(port),
                config: Arc::new(self.config(&client)),
                ..Connect::to(there.iter().copied(), PORT)
            };
            endpoints[0].connect(Time::ZERO, connect).expect("the port is free");
        }
        let hosts = [Side::Client, Side::Server];
        let hosts = hosts.into_iter().zip(endpoints).zip([client, server]);
        let hosts: Vec<HostId> = hosts
            .map(|((side, endpoint), settings)| {
                let app = Exchange::new(side, self.messages, self.arrival != Arrival::Protected);
                let host = Host::new(endpoint, app).protected(settings);
                let actor =
                    OnPath { side, host, attacker: attacker.clone(), sent: BTreeMap::new(), count: 0 };
                world.add_host(actor, addresses[side as usize].iter().map(SocketAddr::ip))
            })
            .collect();
        let ips = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
        topology::paths(&mut world, &ips(here), &ips(there), &self.links);
        attacker.borrow_mut().is_here = self.arrival != Arrival::Protected;
        Stage { world, hosts: [hosts[0], hosts[1]], attacker }
    }

    fn config(&self, settings: &Settings) -> Config {
        let mut dtls = settings.dtls();
        dtls.methods.retain(|method| self.method == Method::AtOnce || *method == self.method.identifier());
        Profile::Modern.config().with(|c| {
            c.security.dtls = Some(dtls);
            c.path_mtu.packet_bytes = self.mtu;
        })
    }

    fn run_in(&self, mut stage: Stage, see: &mut dyn FnMut(Seen)) -> Result<Outcome, String> {
        if self.arrival == Arrival::Protected {
            let all_up = |stage: &Stage| stage.exchanges(|exchange| exchange.all_up());
            stage.pass_until(PATIENCE, see, all_up, "both associations are protected on both sides")?;
            stage.attacker.borrow_mut().is_here = true;
            for host in stage.hosts {
                stage.world.host_mut(host).host.parts_mut().1.begin();
            }
        }
        stage.pass_until(ATTACK, see, |_| false, "").ok();
        stage.attacker.borrow_mut().is_here = false;
        match self.arrival {
            Arrival::Protected => {
                let done = |stage: &Stage| stage.exchanges(Exchange::has_all);
                stage.pass_until(PATIENCE, see, done, "all messages arrive")?;
                let (endpoints, app) = stage.world.host_mut(stage.hosts[0]).host.parts_mut();
                app.shut_down(&mut endpoints.sctp);
                let over = |stage: &Stage| stage.exchanges(Exchange::is_over);
                stage.pass_until(PATIENCE, see, over, "both associations shut down")?;
                stage.exchanges_try(|exchange| {
                    match exchange.ends().find(|end| **end != Reason::Shutdown) {
                        None => Ok(()),
                        Some(reason) => Err(format!("an association ended: {reason}")),
                    }
                })?;
            }
            Arrival::Start => drop(stage.pass_until(ATTACK, see, |_| false, "")),
            Arrival::StartAndEditOffers => {
                drop(stage.pass_until(ATTACK, see, |_| false, ""));
                stage.exchanges_try(|exchange| match exchange.received() {
                    0 => Ok(()),
                    count => Err(format!("an offer was changed, and {count} messages arrived")),
                })?;
            }
        }
        stage.exchanges_try(|exchange| exchange.fault().map_or(Ok(()), |fault| Err(fault.to_owned())))?;
        stage.attacker.borrow().fault().map_or(Ok(()), Err)?;
        let world = &stage.world;
        world.check();
        let attacks = stage.attacker.borrow().attacks();
        let packets = world.links().map(|link| link.counters().packets_out).sum();
        Ok(Outcome { took: world.last_event().since(Time::ZERO), packets, attacks })
    }
}

/// A world, its hosts, and the attacker between them.
struct Stage {
    world: World<OnPath>,
    /// Client and server.
    hosts: [HostId; 2],
    attacker: Rc<RefCell<Attacker>>,
}

impl Stage {
    /// Advances the time until a condition holds.
    fn pass_until(
        &mut self,
        at_most: Duration,
        see: &mut dyn FnMut(Seen),
        holds: impl Fn(&Self) -> bool,
        what: &str,
    ) -> Result<(), String> {
        let until = self.world.now() + at_most;
        let (mut now, mut steps) = (self.world.now(), 0);
        while !holds(self) {
            if !self.world.step(until) {
                return Err(format!("at {}: it was to be that {what}: {}", self.world.now(), self.tell()));
            }
            self.world.take_record().into_iter().for_each(&mut *see);
            steps = if self.world.now() == now { steps + 1 } else { 0 };
            now = self.world.now();
            if steps > STEPS_AT_ONCE_MAX {
                return Err(format!("at {now} the hosts exchange packets endlessly without time passing"));
            }
        }
        Ok(())
    }

    fn exchanges(&self, holds: impl Fn(&Exchange) -> bool) -> bool {
        self.hosts.iter().all(|host| holds(self.world.host(*host).host.app()))
    }

    fn exchanges_try(&self, check: impl Fn(&Exchange) -> Result<(), String>) -> Result<(), String> {
        self.hosts.iter().try_for_each(|host| check(self.world.host(*host).host.app()))
    }

    fn tell(&self) -> String {
        let tell = |host: &HostId| format!("{:?}", self.world.host(*host).host.app());
        self.hosts.iter().map(tell).collect::<Vec<_>>().join("\n  ")
    }
}

/// A host, and the attacker at its link.
struct OnPath {
    side: Side,
    host: Host<Exchange>,
    attacker: Rc<RefCell<Attacker>>,
    /// Packets on their way, by time and order.
    sent: BTreeMap<(Time, u64), Datagram>,
    count: u64,
}

impl OnPath {
    fn check(&self, now: Time, datagram: &Datagram) -> Result<(), String> {
        let packet = wire::Packet::decode_observed(datagram.payload.clone())
            .map_err(|error| format!("at {now} {:?} sends an invalid packet: {error}", self.side))?;
        let client_port = packet.header.source_port.max(packet.header.destination_port);
        // A forged or repeated INIT is answered with INIT ACK or ABORT, without state.
        let is_init_ack = packet.chunks().flatten().all(|chunk| matches!(chunk, wire::Chunk::InitAck(_)));
        let answers_forger = is_init_ack || packet.header.tag == attacker::TAG;
        let is_protected = packet.kinds().is_dtls_alone();
        if self.host.app().is_protected(client_port) && !is_protected && !answers_forger {
            return Err(format!("at {now} {:?} sends in the clear: {packet:?}", self.side));
        }
        for chunk in packet.chunks().flatten() {
            if let wire::Chunk::Data(data) = chunk
                && data.ppid.0 != braidftp_sctp::dtls::KEY_MANAGEMENT_PPID
            {
                return Err(format!("at {now} {:?} sends user data in the clear", self.side));
            }
        }
        Ok(())
    }
}

impl Actor for OnPath {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        self.host.handle(now, datagram);
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        let wait = loop {
            match self.host.poll(now) {
                Output::Send(datagram) => {
                    let checked = self.check(now, &datagram);
                    let mut attacker = self.attacker.borrow_mut();
                    if let Err(fault) = checked {
                        attacker.find(fault);
                    }
                    for (late, datagram) in attacker.pass(self.side as usize, datagram) {
                        self.count += 1;
                        self.sent.insert((now + late, self.count), datagram);
                    }
                }
                Output::Wait(wait) => break wait,
                Output::Event(never) => match never {},
            }
        };
        match self.sent.first_entry() {
            Some(first) if first.key().0 <= now => Output::Send(first.remove()),
            first => Output::Wait(wait.into_iter().chain(first.map(|first| first.key().0)).min()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attacker_on_the_path_causes_loss_at_most() {
        let identity = Identity::new();
        // The last four: a forged ABORT and a forged SACK reach a protected client while the server's confirmation of
        // protection is in flight; an ABORT follows the client's last handshake message in one packet; an INIT without an offer
        // has the tag of a protected association.
        let seeds = (0..60).chain([22_187, 27_528, 38_571, 99_775]);
        let trials: Vec<_> = seeds.map(Trial::from_seed).collect();
        for arrival in [Arrival::Start, Arrival::StartAndEditOffers, Arrival::Protected] {
            assert!(trials.iter().any(|trial| trial.arrival == arrival));
        }
        let mut attacks = 0;
        for trial in trials {
            attacks += trial.run(&identity).unwrap_or_else(|error| panic!("{error}\n{trial}")).attacks;
        }
        assert!(attacks > 1_000, "{attacks}");
    }
}
