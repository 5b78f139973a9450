//! A complete run from one number: the configuration of two hosts, the network between them with its
//! failures, and the messages they exchange. The soak runs thousands of scenarios.
//!
//! Every scenario can succeed: after some time the links heal. Then everything must arrive, in order and
//! once, and both sides must close. Scenarios exchange the messages of
//! [`apps::messages`](crate::apps::messages), no files. The table in `rows` defines what is drawn.

mod draw;
#[cfg(test)]
mod handshakes;
mod network;
mod rows;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{Announce, Association, Config, Connect, Endpoint, PathId, PathUse, Phase, StreamReset};

use self::draw::Draw;
use self::network::Network;
use self::rows::ROWS;
use crate::apps::messages::{Ending, Messages, Plan, Planned, ReadPolicy, Restarts, Side, Tally, Unreliable};
use crate::host::Host;
use crate::world::{HostId, LinkId, Seen, World};

/// The SCTP port of the server.
const PORT: u16 = 21;
/// The client's first port; those of further associations follow.
const FIRST_CLIENT_PORT: u16 = 10_000;
/// A cookie with this lifetime does not become stale before the links heal.
const LONG_COOKIE_LIFE: Duration = Duration::from_secs(3_600);
/// More steps at one instant are a livelock.
const STEPS_AT_ONCE_MAX: u64 = 1_000_000;

/// The scenario of a seed.
#[derive(Debug, Clone)]
pub struct Scenario {
    seed: u64,
    /// The configurations of client and server.
    configs: [Config; 2],
    network: Network,
    /// How the server announces its addresses.
    announce: Announce,
    /// The number of the server's addresses that the client knows beforehand.
    known_addresses: usize,
    /// The number of its own addresses that the client begins with.
    first_addresses: usize,
    /// When each association is opened, and its plan.
    plans: Vec<(Duration, Plan)>,
    /// The actions of users and the failures of hosts, by time.
    acts: Vec<(Duration, Act)>,
}

/// An action of a user or a failure of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    /// The client opens the association with this number.
    Open(usize),
    /// The server opens the association too.
    Meet(usize),
    /// A link changes.
    Links,
    /// A host loses its memory.
    Restart(Side),
    /// The client reopens all associations it had opened.
    Reopen,
    /// A side makes this path the primary path of all its associations, where it exists.
    Primary { side: Side, path: u8 },
    /// A side changes the use of this path in all its associations, where it exists.
    Use { side: Side, path: u8, path_use: PathUse },
    /// A side requests a change of streams in all its associations.
    Reconfigure { side: Side, what: Reconfiguration },
    /// A side changes one of its addresses in all its associations.
    Address { side: Side, nth: usize, what: AddressRequest },
}

/// A change that a side requests for one of its addresses (RFC 5061).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressRequest {
    Add,
    Remove,
    /// The peer sends to it first.
    Prefer,
}

/// A request for a change of streams (RFC 6525).
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reconfiguration {
    Reset(StreamReset),
    ResetAssociation,
    Add { outgoing: u16, incoming: u16 },
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The fingerprint of the run, equal for equal seeds.
    pub fingerprint: u64,
    /// The virtual time it took.
    pub took: Duration,
    /// Packets that reached a host.
    pub packets: u64,
}

/// A world and the roles of its hosts.
struct Stage {
    world: World<Host<Messages>>,
    /// Client and server.
    hosts: [HostId; 2],
    /// By network: forward and back.
    links: Vec<[LinkId; 2]>,
    /// Seeds of endpoints: new endpoints differ from earlier ones.
    seeds: Draw,
    /// The associations that clients opened so far.
    opened: Vec<usize>,
}

impl Stage {
    /// Applies a change to each association of a side's user.
    fn for_each_association(&mut self, side: Side, mut change: impl FnMut(&mut Association)) {
        let (endpoints, app) = self.world.host_mut(self.hosts[side as usize]).parts_mut();
        for id in app.tallies().values().map(|tally| tally.id) {
            if let Some(association) = endpoints.sctp.association_mut(id) {
                change(association);
            }
        }
    }
}

impl Scenario {
    /// The scenario that this seed stands for.
    pub fn from_seed(seed: u64) -> Self {
        let mut scenario = Self {
            seed,
            configs: [Config::default(), Config::default()],
            network: Network::plain(),
            announce: Announce::Always,
            known_addresses: 1,
            first_addresses: usize::MAX,
            plans: Vec::new(),
            acts: Vec::new(),
        };
        for row in ROWS {
            (row.draw)(&mut Draw::new(seed, row.name), &mut scenario);
        }
        scenario
    }

    /// Enables HEARTBEATs on both sides.
    fn beat(&mut self) {
        for config in &mut self.configs {
            config.timers.heartbeat_interval.get_or_insert(Duration::from_secs(10));
        }
    }

    /// Runs the scenario. The error says what was missing when the time limit passed; panics if a side
    /// detects a violation.
    pub fn run(&self) -> Result<Outcome, String> {
        self.run_in(self.stage(), &mut |_| {})
    }

    /// As [`Scenario::run`], and reports every datagram that leaves or reaches a host.
    pub fn watch(&self, mut see: impl FnMut(Seen)) -> Result<Outcome, String> {
        let mut stage = self.stage();
        stage.world.record();
        self.run_in(stage, &mut see)
    }

    fn run_in(&self, mut stage: Stage, see: &mut dyn FnMut(Seen)) -> Result<Outcome, String> {
        let mut acts = self.acts.clone();
        acts.extend(self.plans.iter().enumerate().map(|(index, (start, _))| (*start, Act::Open(index))));
        acts.extend(self.network.changes().into_iter().map(|at| (at, Act::Links)));
        acts.sort_by_key(|(at, _)| *at);
        let end = acts.last().map_or(Duration::ZERO, |(at, _)| *at) + self.patience();
        for (at, act) in acts {
            self.pass(&mut stage.world, Time::ZERO + at, see)?;
            self.perform(&mut stage, at, &act);
        }
        self.pass(&mut stage.world, Time::ZERO + end, see)?;
        self.judge(&stage)
    }

    /// Advances the time until `until`, or until everything is done.
    fn pass(
        &self,
        world: &mut World<Host<Messages>>,
        until: Time,
        see: &mut dyn FnMut(Seen),
    ) -> Result<(), String> {
        let (mut now, mut steps) = (world.now(), 0);
        while world.step(until) {
            steps = if world.now() == now { steps + 1 } else { 0 };
            now = world.now();
            if steps > STEPS_AT_ONCE_MAX {
                return Err(format!("at {now} the hosts exchange packets endlessly without time passing"));
            }
            world.take_record().into_iter().for_each(&mut *see);
        }
        world.take_record().into_iter().for_each(see);
        Ok(())
    }

    fn perform(&self, stage: &mut Stage, at: Duration, act: &Act) {
        match *act {
            Act::Reconfigure { side, ref what } => {
                let now = stage.world.now();
                // The extension may not be negotiated, or another request may be in progress.
                stage.for_each_association(side, |association| {
                    let _ = match what {
                        Reconfiguration::Reset(streams) => association.reset_streams(streams.clone()),
                        Reconfiguration::ResetAssociation => association.reset_association(now),
                        Reconfiguration::Add { outgoing, incoming } => {
                            association.add_streams(*outgoing, *incoming)
                        }
                    };
                });
            }
            Act::Address { side, nth, what } => {
                let addresses = &self.network.addresses[side as usize];
                let local = addresses[nth % addresses.len()];
                // The address may already be in use, or removed.
                stage.for_each_association(side, |association| {
                    let _ = match what {
                        AddressRequest::Add => association.add_address(local),
                        AddressRequest::Remove => association.remove_address(local),
                        AddressRequest::Prefer => association.set_peer_primary(local),
                    };
                });
            }
            Act::Open(index) => {
                stage.opened.push(index);
                self.open(stage, &[index]);
            }
            Act::Meet(index) => {
                let [here, there] = &self.network.addresses;
                let connect = Connect {
                    local: there.clone(),
                    peer: here.clone(),
                    source_port: Some(PORT),
                    destination_port: client_port(index),
                    config: Arc::new(self.configs[1].clone()),
                };
                let now = stage.world.now();
                let (endpoints, app) = stage.world.host_mut(stage.hosts[Side::Server as usize]).parts_mut();
                app.collide(now, &mut endpoints.sctp, connect);
            }
            Act::Links => {
                for (net, links) in stage.links.iter().enumerate() {
                    for (way, link) in links.iter().enumerate() {
                        let config = self.network.link_at(at, net, way);
                        if *stage.world.link(*link).config() != config {
                            stage.world.set_link(*link, config);
                        }
                    }
                }
            }
            Act::Restart(side) => {
                let fresh = self.endpoint(side, &mut stage.seeds);
                let (endpoints, app) = stage.world.host_mut(stage.hosts[side as usize]).parts_mut();
                endpoints.sctp = fresh;
                app.forget();
            }
            Act::Reopen => {
                let indices = stage.opened.clone();
                self.open(stage, &indices);
            }
            Act::Use { side, path, path_use } => {
                let now = stage.world.now();
                // The path may not exist, or be the only one.
                stage.for_each_association(side, |association| {
                    let _ = association.set_path_use(now, PathId(path), path_use);
                });
            }
            Act::Primary { side, path } => {
                // The path may not exist, or not yet.
                stage.for_each_association(side, |association| {
                    let _ = association.set_primary(PathId(path));
                });
            }
        }
    }

    /// The client opens associations, unless they are open.
    fn open(&self, stage: &mut Stage, indices: &[usize]) {
        let now = stage.world.now();
        let (endpoints, app) = stage.world.host_mut(stage.hosts[Side::Client as usize]).parts_mut();
        let known = app.tallies();
        for index in indices {
            let port = client_port(*index);
            if !known.contains_key(&port) {
                app.open(now, &mut endpoints.sctp, port);
            }
        }
    }

    fn judge(&self, stage: &Stage) -> Result<Outcome, String> {
        let world = &stage.world;
        let mut packets = 0;
        world.check();
        for link in world.links() {
            packets += link.counters().packets_out;
        }
        let forgot = |side: Side| self.acts.iter().any(|(_, act)| *act == Act::Restart(side));
        let mut missing = String::new();
        for (index, (_, plan)) in self.plans.iter().enumerate() {
            let [client, server] =
                stage.hosts.map(|id| world.host(id).app().tallies().remove(&client_port(index)));
            for (id, tally) in stage.hosts.into_iter().zip([client, server]) {
                // A server that lost its memory when the other side was done is not notified any more.
                let forgotten = id == stage.hosts[1] && tally.is_none() && forgot(Side::Server);
                if !forgotten && !has_ended(world.host(id).endpoint(), plan.ending, tally) {
                    let association = tally.and_then(|tally| world.host(id).endpoint().association(tally.id));
                    let stats = association.map(Association::stats);
                    missing += &format!("\n  association {index}, {id:?}: {tally:?}\n    {stats:?}");
                }
            }
            if self.restarts() == Restarts::Never && !matches!(plan.ending, Ending::Abort(..)) {
                let unreliable =
                    |id| world.host(id).app().unreliable().remove(&client_port(index)).unwrap_or_default();
                let [client, server] = stage.hosts.map(unreliable);
                check_unreliable(&client, &server);
                check_unreliable(&server, &client);
            }
            if let (Ending::Early(_), Some(client), Some(server)) = (plan.ending, client, server) {
                let delivered = client.accepted == server.received && server.accepted == client.received;
                assert!(delivered, "association {index}: accepted and not delivered: {client:?}, {server:?}");
            }
        }
        if !missing.is_empty() {
            return Err(format!(
                "at {} the scenario has not ended although the links have healed{missing}",
                world.now()
            ));
        }
        Ok(Outcome { fingerprint: world.fingerprint(), took: world.last_event().since(Time::ZERO), packets })
    }

    fn stage(&self) -> Stage {
        let mut seeds = Draw::new(self.seed, "endpoints");
        let mut world = World::new(self.seed);
        let plans: BTreeMap<u16, Plan> = self
            .plans
            .iter()
            .enumerate()
            .map(|(index, (_, plan))| (client_port(index), plan.clone()))
            .collect();
        let [here, there] = &self.network.addresses;
        let restarts = self.restarts();
        let dial = Connect {
            local: here[..self.first_addresses.min(here.len())].to_vec(),
            peer: there[..self.known_addresses].to_vec(),
            source_port: None,
            destination_port: PORT,
            config: Arc::new(self.configs[0].clone()),
        };
        let client = Messages::client(plans.clone(), dial, restarts);
        let server = Messages::server(plans, restarts);
        let hosts = [
            world.add_host(Host::new(self.endpoint(Side::Client, &mut seeds), client), ips(here)),
            world.add_host(Host::new(self.endpoint(Side::Server, &mut seeds), server), ips(there)),
        ];
        let link_at_start = |net, way| self.network.link_at(Duration::ZERO, net, way);
        let links: Vec<_> = (0..self.network.links.len())
            .map(|net| [0, 1].map(|way| world.add_link(link_at_start(net, way))))
            .collect();
        for (here, there, net) in self.network.routes() {
            world.route(here, there, links[net][0]);
            world.route(there, here, links[net][1]);
        }
        Stage { world, hosts, links, seeds, opened: Vec::new() }
    }

    /// Whether associations may break and be reopened: a host loses its memory, or cookies have a short
    /// lifetime.
    fn restarts(&self) -> Restarts {
        let forgets = self.acts.iter().any(|(_, act)| matches!(act, Act::Restart(_)));
        let is_short = |config: &Config| config.handshake.valid_cookie_life < LONG_COOKIE_LIFE;
        if forgets || self.configs.iter().any(is_short) { Restarts::Perhaps } else { Restarts::Never }
    }

    /// A new endpoint.
    fn endpoint(&self, side: Side, seeds: &mut Draw) -> Endpoint {
        let mut endpoint = Endpoint::new(seeds.seed());
        if side == Side::Server {
            endpoint.set_addresses(self.network.addresses[1].clone(), self.announce);
            let config = Arc::new(self.configs[1].clone());
            endpoint.listen(PORT, config).expect("a fresh endpoint listens nowhere");
        }
        endpoint
    }

    /// The time limit for the end, from when the links are healed and the last action is done.
    fn patience(&self) -> Duration {
        let max = |value: fn(&Config) -> Duration| self.configs.iter().map(value).max().unwrap_or_default();
        // A backed-off time-out on each path, another to detect that, the same for the shutdown; and a side
        // that detects an end only by a HEARTBEAT waits for it.
        let paths = self.network.routes().len() as u32;
        let rto_max = max(|config| config.timers.rto.max);
        let mut patience =
            rto_max * (6 + 4 * paths) + max(|config| config.timers.heartbeat_interval.unwrap_or_default());
        let links = self.network.links.iter();
        let slowest = |way: usize| links.clone().filter_map(|link| link[way].rate.slowest()).min();
        let delay: Duration =
            links.clone().map(|[forward, back]| forward.delay + back.delay).max().unwrap_or_default();
        for (_, plan) in &self.plans {
            for (messages, way) in [(&plan.client_sends, 0), (&plan.server_sends, 1)] {
                let bytes: usize = messages.iter().map(|message| message.bytes).sum();
                if let Some(rate) = slowest(way) {
                    // Small queues and windows use a link poorly.
                    patience += rate.transmit_time(bytes) * 50;
                }
                if let ReadPolicy::Paced { bytes: paced_bytes, every } = plan.read_policy {
                    patience += every * (2 * bytes / paced_bytes + 2 * messages.len() + 2) as u32;
                }
                // Small windows may need one round trip per packet.
                let round_trip = delay + Duration::from_millis(500);
                patience += round_trip * (bytes / 400 + messages.len()) as u32;
            }
        }
        patience
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for (name, config) in ["client", "server"].into_iter().zip(&self.configs) {
            writeln!(f, "  {name} {config:?}")?;
        }
        writeln!(f, "  client at {:?}", self.network.addresses[0])?;
        writeln!(
            f,
            "  server at {:?}, {} known, {:?}",
            self.network.addresses[1], self.known_addresses, self.announce
        )?;
        for (net, [forward, back]) in self.network.links.iter().enumerate() {
            writeln!(f, "  network {net} forward {forward}")?;
            writeln!(f, "  network {net} back {back}")?;
        }
        writeln!(f, "  crossing {:?}", self.network.crossing)?;
        for fault in &self.network.faults {
            writeln!(f, "  {fault:?}")?;
        }
        writeln!(f, "  whole after {:?}", self.network.heal)?;
        for (at, act) in &self.acts {
            writeln!(f, "  at {at:?}: {act:?}")?;
        }
        for (start, plan) in &self.plans {
            let bytes = |sends: &[Planned]| -> usize { sends.iter().map(|m| m.bytes).sum() };
            writeln!(
                f,
                "  at {start:?}: client sends {} messages, {} bytes; server {} messages, {} bytes; {:?}; {:?}",
                plan.client_sends.len(),
                bytes(&plan.client_sends),
                plan.server_sends.len(),
                bytes(&plan.server_sends),
                plan.read_policy,
                plan.ending
            )?;
        }
        writeln!(f, "  patience {:?}", self.patience())
    }
}

fn ips(addresses: &[SocketAddr]) -> Vec<std::net::IpAddr> {
    addresses.iter().map(SocketAddr::ip).collect()
}

fn client_port(index: usize) -> u16 {
    FIRST_CLIENT_PORT + index as u16
}

/// Checks messages of partial reliability: each accepted one arrived or was reported as abandoned; one
/// reported as never sent did not arrive.
fn check_unreliable(sender: &Unreliable, receiver: &Unreliable) {
    for key in &sender.accepted {
        let abandoned = sender.abandoned.get(key);
        let came = receiver.received.contains(key);
        assert!(came || abandoned.is_some(), "{key:?} did not arrive and was not reported as abandoned");
        assert!(!came || abandoned != Some(&false), "{key:?} arrived although it was reported as never sent");
    }
    let unasked = receiver.received.difference(&sender.accepted).next();
    assert_eq!(unasked, None, "received but never accepted");
}

/// Whether this side is done. After an abort during a handshake the other side may not be notified: only a
/// limit on retransmissions would end its attempts, and scenarios have none.
fn has_ended(endpoint: &Endpoint, ending: Ending, tally: Option<Tally>) -> bool {
    match (ending, tally) {
        (Ending::Abort(..), None) => true,
        (Ending::Abort(..), Some(tally)) => {
            let phase = endpoint.association(tally.id).map(|association| association.phase());
            tally.is_over || matches!(phase, Some(Phase::CookieWait | Phase::CookieEchoed))
        }
        (_, tally) => tally.is_some_and(|tally| tally.is_over),
    }
}

#[cfg(test)]
mod tests {
    use braidftp_sctp::{Reliability, Scheduler};

    use super::network::{Crossing, Impairment};
    use super::*;
    use crate::link::{Bandwidth, Down, Loss, Management};
    use crate::random::Probability;

    #[test]
    fn scenarios_succeed_and_repeat_identically() {
        for seed in 0..15 {
            let outcome =
                Scenario::from_seed(seed).run().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(Scenario::from_seed(seed).watch(|_| {}), Ok(outcome), "seed {seed}");
        }
    }

    #[test]
    fn scenarios_cover_every_feature() {
        let scenarios: Vec<_> = (0..200).map(Scenario::from_seed).collect();
        let plans = || scenarios.iter().flat_map(|scenario| &scenario.plans).map(|(_, plan)| plan);
        let links = || scenarios.iter().flat_map(|scenario| scenario.network.links.iter().flatten());
        assert!(plans().any(|plan| matches!(plan.ending, Ending::Early(_))));
        assert!(plans().any(|plan| matches!(plan.ending, Ending::Abort(..))));
        assert!(plans().any(|plan| matches!(plan.read_policy, ReadPolicy::Paced { .. })));
        let longer_than_the_buffer = |plan: &Plan| {
            plan.server_sends
                .iter()
                .any(|message| message.bytes > plan.receive_buffers[Side::Client as usize])
        };
        assert!(plans().any(longer_than_the_buffer));
        assert!(links().any(|link| matches!(link.loss, Loss::GilbertElliott(_))));
        assert!(links().any(|link| link.reorder.is_some() && link.corrupt > Probability::NEVER));
        assert!(links().any(|link| matches!(link.loss, Loss::Bernoulli(_))));
        assert!(links().any(|link| matches!(link.management, Management::Red(_))));
        assert!(links().any(|link| matches!(link.management, Management::CoDel(_))));
        assert!(links().any(|link| matches!(link.rate, Bandwidth::Steps(_))));
        assert!(links().any(|link| matches!(link.rate, Bandwidth::Trace(_))));
        assert!(links().any(|link| link.down != Down::Never));
        let any = |what: fn(&Scenario) -> bool| scenarios.iter().any(what);
        let troubles = |scenario: &Scenario, what: fn(&Impairment) -> bool| {
            scenario.network.faults.iter().filter(|fault| what(&fault.what)).count()
        };
        assert!(scenarios.iter().any(|s| troubles(s, |what| *what == Impairment::Outage) > 1));
        assert!(scenarios.iter().any(|s| troubles(s, |what| matches!(what, Impairment::Narrow(_))) > 1));
        for paths in 1..=3 {
            assert!(scenarios.iter().any(|s| s.network.addresses.iter().all(|list| list.len() == paths)));
        }
        assert!(any(|s| s.network.crossing == Crossing::Full && s.known_addresses > 1));
        assert!(any(|s| s.network.addresses[0].iter().any(|a| a.is_ipv4())
            && s.network.addresses[0].iter().any(|a| a.is_ipv6())));
        let act = |what: fn(&Act) -> bool| scenarios.iter().any(|s| s.acts.iter().any(|(_, act)| what(act)));
        assert!(
            act(|act| *act == Act::Restart(Side::Client)) && act(|act| *act == Act::Restart(Side::Server))
        );
        assert!(act(|act| matches!(act, Act::Primary { .. })));
        assert!(act(|act| matches!(act, Act::Use { .. })));
        assert!(act(|act| matches!(act, Act::Meet(_))));
        let policies = |what: fn(&Reliability) -> bool| {
            let sends = |plan: &Plan| plan.client_sends.iter().any(|message| what(&message.reliability));
            scenarios.iter().any(|s| {
                s.configs.iter().all(|c| c.messages.partial_reliability)
                    && s.plans.iter().any(|(_, plan)| sends(plan))
            })
        };
        assert!(policies(|reliability| matches!(reliability, Reliability::Lifetime(_))));
        assert!(policies(|reliability| matches!(reliability, Reliability::Retransmissions(0))));
        assert!(policies(|reliability| matches!(reliability, Reliability::Priority(_))));
        let configs = |what: fn(&Config) -> bool| {
            let sides = |s: &Scenario| s.configs.each_ref().map(what);
            [[true, true], [true, false], [false, true], [false, false]]
                .iter()
                .all(|both| scenarios.iter().any(|s| sides(s) == *both))
        };
        // On both sides, on either one, and on none.
        assert!(configs(|config| config.messages.interleaving));
        assert!(configs(|config| config.security.zero_checksum.is_some()));
        assert!(configs(|config| config.congestion.ecn));
        assert!(links().any(|link| link.ecn.is_some()));
        assert!(configs(|config| config.streams.reconfiguration));
        let asked = |what: fn(&Reconfiguration) -> bool| {
            let mut acts = scenarios.iter().flat_map(|s| &s.acts);
            acts.any(|(_, act)| matches!(act, Act::Reconfigure { what: asked, .. } if what(asked)))
        };
        assert!(asked(|what| matches!(what, Reconfiguration::Reset(_))));
        assert!(asked(|what| *what == Reconfiguration::ResetAssociation));
        assert!(asked(|what| matches!(what, Reconfiguration::Add { .. })));
        assert!(configs(|config| config.messages.partial_reliability));
        assert!(configs(|config| config.sack.nr_sack));
        assert!(configs(|config| config.sack.compact_sack));
        assert!(configs(|config| config.recovery.tail_loss_probe));
        assert!(configs(|config| config.messages.scheduler == Scheduler::Priority));
    }
}
