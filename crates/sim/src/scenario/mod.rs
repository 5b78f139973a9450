//! A whole run from one number: how two hosts are configured, what lies between them and how it fails, and what they
//! send each other. The soak runs thousands of them.
//!
//! Every scenario can be won: after a while the links heal, and then everything must arrive, in order, once, and
//! both sides must close. It covers the messages of [`apps::messages`](crate::apps::messages), no files. What there is to
//! draw is a table, in `rows`.

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
use crate::apps::messages::{Appetite, Ending, Loose, Messages, Plan, Planned, Restarts, Side, Tally};
use crate::host::Host;
use crate::world::{HostId, LinkId, Seen, World};

/// The SCTP port of the server.
const PORT: u16 = 21;
/// The client's first port; those of further associations follow.
const FIRST_CLIENT_PORT: u16 = 10_000;
/// No cookie that lives so long is found too old before the links are whole.
const LONG_COOKIE_LIFE: Duration = Duration::from_secs(3_600);
/// More steps than that without time passing are a livelock.
const STEPS_AT_ONCE_MAX: u64 = 1_000_000;

/// What one seed stands for.
#[derive(Debug, Clone)]
pub struct Scenario {
    seed: u64,
    /// Of client and server.
    configs: [Config; 2],
    network: Network,
    /// To whom the server lists its addresses.
    announce: Announce,
    /// How many of the server's addresses the client knows beforehand.
    known_addresses: usize,
    /// How many of its own addresses the client begins with.
    first_addresses: usize,
    /// When each association is opened, and what passes over it.
    plans: Vec<(Duration, Plan)>,
    /// What users do and hosts suffer, and when.
    acts: Vec<(Duration, Act)>,
}

/// Something that users do or hosts suffer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    /// The client opens the association with this number.
    Open(usize),
    /// The server opens it too.
    Meet(usize),
    /// Some link is to change.
    Links,
    /// A host loses its memory.
    Restart(Side),
    /// The client opens again all that it had opened.
    Reopen,
    /// In all of its associations a side makes this path the primary one, if there is such.
    Primary { side: Side, path: u8 },
    /// In all of its associations a side takes this path out of use or puts it back, if there is such.
    Use { side: Side, path: u8, path_use: PathUse },
    /// In all of its associations a side asks for other streams.
    Reconfigure { side: Side, what: Reconfiguration },
    /// In all of its associations a side changes something about one of its addresses.
    Address { side: Side, nth: usize, what: AddressWish },
}

/// What a side wants of an address of its own (RFC 5061).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressWish {
    Add,
    Remove,
    /// That the peer sends to it first.
    Prefer,
}

/// What a side asks for (RFC 6525).
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reconfiguration {
    Reset(StreamReset),
    ResetAssociation,
    Add { outgoing: u16, incoming: u16 },
}

/// How a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The run as a number: the same seed gives the same.
    pub fingerprint: u64,
    /// The virtual time it took.
    pub took: Duration,
    /// Packets that reached a host.
    pub packets: u64,
}

/// A world and who is who in it.
struct Stage {
    world: World<Host<Messages>>,
    /// Client and server.
    hosts: [HostId; 2],
    /// By network: forward and back.
    links: Vec<[LinkId; 2]>,
    /// For the endpoints: fresh ones are unlike those before.
    seeds: Draw,
    /// Clients' associations opened so far.
    opened: Vec<usize>,
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

    /// Both sides ask after idle paths.
    fn beat(&mut self) {
        for config in &mut self.configs {
            config.heartbeat_interval.get_or_insert(Duration::from_secs(10));
        }
    }

    /// Runs it. Tells what was still missing when patience ended; panics where a side sees something wrong.
    pub fn run(&self) -> Result<Outcome, String> {
        self.run_in(self.stage(), &mut |_| {})
    }

    /// As [`Scenario::run`], and shows every datagram that leaves or reaches a host.
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

    /// Lets time pass, up to then or until all is done.
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
                return Err(format!("at {now} the hosts talk without end and no time passes"));
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
                let (endpoints, app) = stage.world.host_mut(stage.hosts[side as usize]).parts_mut();
                for id in app.tallies().values().map(|tally| tally.id) {
                    if let Some(association) = endpoints.sctp.association_mut(id) {
                        // It may not be agreed on, or another be under way.
                        let _ = match what {
                            Reconfiguration::Reset(streams) => association.reset_streams(streams.clone()),
                            Reconfiguration::ResetAssociation => association.reset_association(now),
                            Reconfiguration::Add { outgoing, incoming } => {
                                association.add_streams(*outgoing, *incoming)
                            }
                        };
                    }
                }
            }
            Act::Address { side, nth, what } => {
                let addresses = &self.network.addresses[side as usize];
                let local = addresses[nth % addresses.len()];
                let (endpoints, app) = stage.world.host_mut(stage.hosts[side as usize]).parts_mut();
                for id in app.tallies().values().map(|tally| tally.id) {
                    if let Some(association) = endpoints.sctp.association_mut(id) {
                        // It may have it already, or have lost it.
                        let _ = match what {
                            AddressWish::Add => association.add_address(local),
                            AddressWish::Remove => association.remove_address(local),
                            AddressWish::Prefer => association.set_peer_primary(local),
                        };
                    }
                }
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
                app.meet(now, &mut endpoints.sctp, connect);
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
                let (endpoints, app) = stage.world.host_mut(stage.hosts[side as usize]).parts_mut();
                for id in app.tallies().values().map(|tally| tally.id) {
                    if let Some(association) = endpoints.sctp.association_mut(id) {
                        // There may be no such path, or no other.
                        let _ = association.set_path_use(now, PathId(path), path_use);
                    }
                }
            }
            Act::Primary { side, path } => {
                let (endpoints, app) = stage.world.host_mut(stage.hosts[side as usize]).parts_mut();
                for id in app.tallies().values().map(|tally| tally.id) {
                    if let Some(association) = endpoints.sctp.association_mut(id) {
                        // There may be no such path, or not yet.
                        let _ = association.set_primary(PathId(path));
                    }
                }
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
                // A server that lost its memory when all was done on the other side hears of it no more.
                let forgotten = id == stage.hosts[1] && tally.is_none() && forgot(Side::Server);
                if !forgotten && !has_ended(world.host(id).endpoint(), plan.ending, tally) {
                    let association = tally.and_then(|tally| world.host(id).endpoint().association(tally.id));
                    let stats = association.map(Association::stats);
                    missing += &format!("\n  association {index}, {id:?}: {tally:?}\n    {stats:?}");
                }
            }
            if self.restarts() == Restarts::Never && !matches!(plan.ending, Ending::Abort(..)) {
                let loose = |id| world.host(id).app().loose().remove(&client_port(index)).unwrap_or_default();
                let [client, server] = stage.hosts.map(loose);
                check_loose(&client, &server);
                check_loose(&server, &client);
            }
            if let (Ending::Early(_), Some(client), Some(server)) = (plan.ending, client, server) {
                let delivered = client.accepted == server.received && server.accepted == client.received;
                assert!(delivered, "association {index}: taken and not delivered: {client:?}, {server:?}");
            }
        }
        if !missing.is_empty() {
            return Err(format!("at {} it has not ended, and the links are whole{missing}", world.now()));
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

    /// Whether associations may break off and be opened again: a host loses its memory, or cookies are soon too old.
    fn restarts(&self) -> Restarts {
        let forgets = self.acts.iter().any(|(_, act)| matches!(act, Act::Restart(_)));
        let is_short = |config: &Config| config.valid_cookie_life < LONG_COOKIE_LIFE;
        if forgets || self.configs.iter().any(is_short) { Restarts::Perhaps } else { Restarts::Never }
    }

    /// A fresh endpoint.
    fn endpoint(&self, side: Side, seeds: &mut Draw) -> Endpoint {
        let mut endpoint = Endpoint::new(seeds.seed());
        if side == Side::Server {
            endpoint.set_addresses(self.network.addresses[1].clone(), self.announce);
            let config = Arc::new(self.configs[1].clone());
            endpoint.listen(PORT, config).expect("a fresh endpoint listens nowhere");
        }
        endpoint
    }

    /// How long the end may take once the links are whole and the last act is done.
    fn patience(&self) -> Duration {
        let max = |value: fn(&Config) -> Duration| self.configs.iter().map(value).max().unwrap_or_default();
        // A time-out that has backed off on each path, another to find that out, the same for the shutdown; and who
        // hears of an end by a HEARTBEAT alone waits for that.
        let paths = self.network.routes().len() as u32;
        let rto_max = max(|config| config.rto.max);
        let mut patience =
            rto_max * (6 + 4 * paths) + max(|config| config.heartbeat_interval.unwrap_or_default());
        let links = self.network.links.iter();
        let slowest = |way: usize| links.clone().filter_map(|link| link[way].rate.slowest()).min();
        let delay: Duration =
            links.clone().map(|[forward, back]| forward.delay + back.delay).max().unwrap_or_default();
        for (_, plan) in &self.plans {
            for (messages, way) in [(&plan.client_sends, 0), (&plan.server_sends, 1)] {
                let bytes: usize = messages.iter().map(|message| message.bytes).sum();
                if let Some(rate) = slowest(way) {
                    // Small queues and windows make bad use of a link.
                    patience += rate.transmit_time(bytes) * 50;
                }
                if let Appetite::Sips { bytes: sip, every } = plan.appetite {
                    patience += every * (2 * bytes / sip + 2 * messages.len() + 2) as u32;
                }
                // And small windows make one round trip for every packet or so.
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
                plan.appetite,
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

/// What was taken and may be given up has come, or was said to be given up; what was said never to have left has not come.
fn check_loose(sender: &Loose, receiver: &Loose) {
    for key in &sender.accepted {
        let abandoned = sender.abandoned.get(key);
        let came = receiver.received.contains(key);
        assert!(came || abandoned.is_some(), "{key:?} did not come, and nobody said that it was given up");
        assert!(!came || abandoned != Some(&false), "{key:?} came, and is said never to have left");
    }
    let unasked = receiver.received.difference(&sender.accepted).next();
    assert_eq!(unasked, None, "it came, and was never taken");
}

/// Whether this side is done. An abort may hit a handshake in which the other side cannot learn of it: nothing more than
/// a limit on repetitions ends that, and scenarios have none.
fn has_ended(endpoint: &Endpoint, ending: Ending, tally: Option<Tally>) -> bool {
    match (ending, tally) {
        (Ending::Abort(..), None) => true,
        (Ending::Abort(..), Some(tally)) => {
            let phase = endpoint.association(tally.id).map(|association| association.stats().phase);
            tally.is_over || matches!(phase, Some(Phase::CookieWait | Phase::CookieEchoed))
        }
        (_, tally) => tally.is_some_and(|tally| tally.is_over),
    }
}

#[cfg(test)]
mod tests {
    use braidftp_sctp::{Reliability, Scheduler};

    use super::network::{Crossing, Trouble};
    use super::*;
    use crate::dice::Probability;
    use crate::link::{Bandwidth, Down, Loss, Management};

    #[test]
    fn some_scenarios_end_well_and_the_same_when_run_again() {
        for seed in 0..15 {
            let outcome =
                Scenario::from_seed(seed).run().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(Scenario::from_seed(seed).watch(|_| {}), Ok(outcome), "seed {seed}");
        }
    }

    #[test]
    fn scenarios_cover_what_there_is_to_cover() {
        let scenarios: Vec<_> = (0..200).map(Scenario::from_seed).collect();
        let plans = || scenarios.iter().flat_map(|scenario| &scenario.plans).map(|(_, plan)| plan);
        let links = || scenarios.iter().flat_map(|scenario| scenario.network.links.iter().flatten());
        assert!(plans().any(|plan| matches!(plan.ending, Ending::Early(_))));
        assert!(plans().any(|plan| matches!(plan.ending, Ending::Abort(..))));
        assert!(plans().any(|plan| matches!(plan.appetite, Appetite::Sips { .. })));
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
        let troubles = |scenario: &Scenario, what: fn(&Trouble) -> bool| {
            scenario.network.faults.iter().filter(|fault| what(&fault.what)).count()
        };
        assert!(scenarios.iter().any(|s| troubles(s, |what| *what == Trouble::Outage) > 1));
        assert!(scenarios.iter().any(|s| troubles(s, |what| matches!(what, Trouble::Narrow(_))) > 1));
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
                s.configs.iter().all(|c| c.partial_reliability) && s.plans.iter().any(|(_, plan)| sends(plan))
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
        // On both sides, one, the other and none.
        assert!(configs(|config| config.interleaving));
        assert!(configs(|config| config.zero_checksum.is_some()));
        assert!(configs(|config| config.ecn));
        assert!(links().any(|link| link.ecn.is_some()));
        assert!(configs(|config| config.reconfiguration));
        let asked = |what: fn(&Reconfiguration) -> bool| {
            let mut acts = scenarios.iter().flat_map(|s| &s.acts);
            acts.any(|(_, act)| matches!(act, Act::Reconfigure { what: asked, .. } if what(asked)))
        };
        assert!(asked(|what| matches!(what, Reconfiguration::Reset(_))));
        assert!(asked(|what| *what == Reconfiguration::ResetAssociation));
        assert!(asked(|what| matches!(what, Reconfiguration::Add { .. })));
        assert!(configs(|config| config.partial_reliability));
        assert!(configs(|config| config.nr_sack));
        assert!(configs(|config| config.compact_sack));
        assert!(configs(|config| config.tail_loss_probe));
        assert!(configs(|config| config.scheduler == Scheduler::Priority));
    }
}
