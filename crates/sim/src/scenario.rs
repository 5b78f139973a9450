//! A whole run from one number: how two hosts are configured, what lies between them and how it fails, and what they
//! send each other. The soak runs thousands of them.
//!
//! Every scenario can be won: after a while the links heal, and then everything must arrive, in order, once, and
//! both sides must close. It covers one path and the messages of [`apps::messages`](crate::apps::messages), no files.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_cc as cc;
use braidftp_sctp::{Association, Config, Connect, Endpoint, LossDetection, Order, Phase, Profile, StreamId};

use crate::apps::messages::{Appetite, Ending, Messages, Plan, Planned, Side, Tally, numbered};
use crate::dice::{Dice, Probability};
use crate::host::Host;
use crate::link::{Bandwidth, GilbertElliott, LinkConfig, Loss, Queue, Reorder};
use crate::world::{HostId, LinkId, Seen, World};

/// The stream of draws that makes scenarios; those of links are numbered from 0.
const DICE: u64 = 1 << 48;
/// The SCTP port of the server.
const PORT: u16 = 21;
/// The client's first port; those of further associations follow.
const FIRST_CLIENT_PORT: u16 = 10_000;
/// More steps than that without time passing are a livelock.
const STEPS_AT_ONCE_MAX: u64 = 1_000_000;
/// What a run that can be won may take beyond its transfer, once the links are whole: a backed-off time-out or two, and
/// the shutdown.
const PATIENCE: Duration = Duration::from_secs(600);

/// What one seed stands for.
#[derive(Debug, Clone)]
pub struct Scenario {
    seed: u64,
    client: Config,
    server: Config,
    /// From client to server, and back, while they fail.
    links: [LinkConfig; 2],
    /// When, for how long, and which links lose everything.
    outages: Vec<Outage>,
    /// When the links are whole again, for good.
    heal: Duration,
    /// When each association is opened, and what passes over it.
    plans: Vec<(Duration, Plan)>,
}

#[derive(Debug, Clone, Copy)]
struct Outage {
    from: Duration,
    lasts: Duration,
    hits: [bool; 2],
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

/// What happens to a world at a set time.
enum Change {
    Open(usize),
    Link(LinkId, LinkConfig),
}

impl Scenario {
    /// The scenario that this seed stands for.
    pub fn from_seed(seed: u64) -> Self {
        let mut draw = Draw(Dice::new(seed, DICE));
        let (mut client, mut server) = (draw.config(), draw.config());
        let links = [draw.link(), draw.link()];
        let heal = draw.duration(0, 60_000);
        let outages = (0..draw.up_to(3))
            .map(|_| Outage {
                from: Duration::from_millis(draw.scale(1, 20_000)),
                lasts: Duration::from_millis(draw.scale(1, 20_000)),
                hits: draw.pick(&[[true, false], [false, true], [true, true]]),
            })
            .collect();
        let plans: Vec<(Duration, Plan)> = (0..draw.between(1, 3))
            .map(|index| {
                let start = if index == 0 { Duration::ZERO } else { draw.duration(0, 5_000) };
                (start, draw.plan(&client, &server))
            })
            .collect();
        if plans.iter().any(|(_, plan)| matches!(plan.ending, Ending::Abort(..))) {
            // An ABORT may get lost: who then has nothing to send learns of it by a HEARTBEAT alone.
            for config in [&mut client, &mut server] {
                config.heartbeat_interval.get_or_insert(Duration::from_secs(10));
            }
        }
        Self { seed, client, server, links, outages, heal, plans }
    }

    /// Runs it. Tells what was still missing when patience ended; panics where a side sees something wrong.
    pub fn run(&self) -> Result<Outcome, String> {
        self.run_in(self.world(), &mut |_| {})
    }

    /// As [`Scenario::run`], and shows every datagram that leaves or reaches a host.
    pub fn watch(&self, mut see: impl FnMut(Seen)) -> Result<Outcome, String> {
        let mut world = self.world();
        world.0.record();
        self.run_in(world, &mut see)
    }

    fn run_in(
        &self,
        (mut world, client, links): (World<Host<Messages>>, HostId, [LinkId; 2]),
        see: &mut dyn FnMut(Seen),
    ) -> Result<Outcome, String> {
        let mut changes = self.changes(links);
        changes.sort_by_key(|(at, _)| *at);
        let end = changes.last().map_or(Time::ZERO, |(at, _)| *at) + self.patience();
        for (at, change) in changes {
            self.pass(&mut world, at, see)?;
            match change {
                Change::Link(link, config) => world.set_link(link, config),
                Change::Open(index) => self.open(&mut world, client, index),
            }
        }
        self.pass(&mut world, end, see)?;
        self.judge(&world)
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

    fn judge(&self, world: &World<Host<Messages>>) -> Result<Outcome, String> {
        let mut packets = 0;
        for (index, link) in world.links().enumerate() {
            let counters = link.counters();
            assert!(counters.is_conserved(), "link {index}: {counters:?}");
            packets += counters.packets_out;
        }
        let mut missing = String::new();
        for (index, (_, plan)) in self.plans.iter().enumerate() {
            let ends: Vec<_> = world
                .hosts()
                .map(|id| (id, world.host(id).app().tallies().remove(&client_port(index))))
                .collect();
            for (id, tally) in &ends {
                if !has_ended(world.host(*id).endpoint(), plan.ending, *tally) {
                    let association =
                        tally.and_then(|tally| world.host(*id).endpoint().association(tally.id));
                    let stats = association.map(Association::stats);
                    missing += &format!("\n  association {index}, {id:?}: {tally:?}\n    {stats:?}");
                }
            }
            if let (Ending::Early(_), [(_, Some(client)), (_, Some(server))]) = (plan.ending, &ends[..]) {
                let delivered = client.accepted == server.received && server.accepted == client.received;
                assert!(delivered, "association {index}: taken and not delivered: {client:?}, {server:?}");
            }
        }
        if !missing.is_empty() {
            return Err(format!("at {} it has not ended, and the links are whole{missing}", world.now()));
        }
        Ok(Outcome { fingerprint: world.fingerprint(), took: world.last_event().since(Time::ZERO), packets })
    }

    fn world(&self) -> (World<Host<Messages>>, HostId, [LinkId; 2]) {
        let mut dice = Dice::new(self.seed, DICE + 1);
        let mut endpoint = || {
            let mut seed = [0; 32];
            dice.fill(&mut seed);
            Endpoint::new(seed)
        };
        let mut world = World::new(self.seed);
        let [here, there] = addresses().map(|address| address.ip());
        let client = world.add_host(Host::new(endpoint(), Messages::client()), [here]);
        let expected: BTreeMap<_, _> = self
            .plans
            .iter()
            .enumerate()
            .map(|(index, (_, plan))| (client_port(index), plan.clone()))
            .collect();
        let mut server = endpoint();
        server.listen(PORT, Arc::new(self.server.clone())).expect("a fresh endpoint listens nowhere");
        world.add_host(Host::new(server, Messages::server(expected)), [there]);
        let links = self.links.clone().map(|config| world.add_link(config));
        world.route(here, there, links[0]);
        world.route(there, here, links[1]);
        (world, client, links)
    }

    fn open(&self, world: &mut World<Host<Messages>>, client: HostId, index: usize) {
        let [here, there] = addresses();
        let now = world.now();
        let (endpoint, app) = world.host_mut(client).parts_mut();
        let connect = Connect {
            local: vec![here],
            peer: vec![there],
            source_port: Some(client_port(index)),
            destination_port: PORT,
            config: Arc::new(self.client.clone()),
        };
        let id = endpoint.connect(now, connect).expect("the port is free");
        app.opened(id, client_port(index), self.plans[index].1.clone());
    }

    fn changes(&self, links: [LinkId; 2]) -> Vec<(Time, Change)> {
        let mut changes: Vec<_> = self
            .plans
            .iter()
            .enumerate()
            .map(|(index, (start, _))| (Time::ZERO + *start, Change::Open(index)))
            .collect();
        for (index, (link, config)) in links.into_iter().zip(&self.links).enumerate() {
            for outage in self.outages.iter().filter(|outage| outage.hits[index] && outage.from < self.heal) {
                let down = LinkConfig { loss: Loss::Bernoulli(Probability::ALWAYS), ..config.clone() };
                changes.push((Time::ZERO + outage.from, Change::Link(link, down)));
                let over = outage.from + outage.lasts;
                if over < self.heal {
                    changes.push((Time::ZERO + over, Change::Link(link, config.clone())));
                }
            }
            changes.push((Time::ZERO + self.heal, Change::Link(link, whole(config))));
        }
        changes
    }

    /// How long the end may take once the links are whole.
    fn patience(&self) -> Duration {
        let mut patience = PATIENCE;
        for (_, plan) in &self.plans {
            for (messages, link) in
                [(&plan.client_sends, &self.links[0]), (&plan.server_sends, &self.links[1])]
            {
                let bytes: usize = messages.iter().map(|message| message.bytes).sum();
                if let Bandwidth::Fixed(rate) = link.rate {
                    // Small queues and windows make bad use of a link.
                    patience += rate.transmit_time(bytes) * 50;
                }
                if let Appetite::Sips { bytes: sip, every } = plan.appetite {
                    patience += every * (2 * bytes / sip + 2 * messages.len() + 2) as u32;
                }
                // And small windows make one round trip for every packet or so.
                let round_trip = self.links[0].delay + self.links[1].delay + Duration::from_millis(500);
                patience += round_trip * (bytes / 400 + messages.len()) as u32;
            }
        }
        patience
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "  client {:?}", self.client)?;
        writeln!(f, "  server {:?}", self.server)?;
        writeln!(f, "  forward {}", self.links[0])?;
        writeln!(f, "  back {}", self.links[1])?;
        for outage in &self.outages {
            writeln!(f, "  outage {outage:?}")?;
        }
        writeln!(f, "  whole after {:?}", self.heal)?;
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
        Ok(())
    }
}

fn addresses() -> [SocketAddr; 2] {
    [1, 2].map(|host| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 9_899))
}

fn client_port(index: usize) -> u16 {
    FIRST_CLIENT_PORT + index as u16
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

/// The same link without its faults.
fn whole(config: &LinkConfig) -> LinkConfig {
    let LinkConfig { queue, rate, delay, overhead_bytes, .. } = config.clone();
    LinkConfig { queue, rate, delay, overhead_bytes, ..LinkConfig::default() }
}

/// Draws what a scenario is made of.
struct Draw(Dice);

impl Draw {
    fn up_to(&mut self, most: u64) -> u64 {
        self.0.below(most + 1)
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.up_to(most - least)
    }

    /// Each order of magnitude is as likely as another.
    fn scale(&mut self, least: u64, most: u64) -> u64 {
        let doublings = (most / least).ilog2();
        let low = least << self.up_to(doublings.into());
        self.between(low, (low * 2).min(most))
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.0.below(count) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.0.below(from.len() as u64) as usize].clone()
    }

    fn duration(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(self.between(least_ms, most_ms))
    }

    fn percent(&mut self, most: u64) -> Probability {
        Probability::new(self.up_to(most * 10) as f64 / 1_000.0).expect("at most 100 %")
    }

    fn config(&mut self) -> Config {
        let base = self.pick(Profile::ALL).config();
        let mut config = Config {
            // Patience is the scenario's: no peer gives up before.
            max_init_retransmits: 100_000,
            association_max_retrans: 100_000,
            path_max_retrans: 100_000,
            valid_cookie_life: Duration::from_secs(36_000),
            shutdown_guard: Duration::from_secs(36_000),
            mtu: self.pick(&[512, 1_200, 1_452, 1_452, 1_452, 8_952]),
            outbound_streams: self.between(1, 20) as u16,
            inbound_streams: self.between(1, 20) as u16,
            ..base
        };
        if self.one_in(2) {
            config.max_burst = (!self.one_in(3)).then(|| self.between(1, 8) as u32);
            config.loss_detection = self.pick(&[LossDetection::MissingReports, LossDetection::SendOrder]);
            config.tail_loss_probe = self.one_in(2);
            config.immediate_at_end = self.one_in(2);
            config.sack_delay = self.duration(0, 500);
            config.sack_frequency = self.between(1, 4) as u32;
            config.rto.min = self.duration(10, 1_000);
            config.rto.max = self.duration(5_000, 60_000);
            config.heartbeat_interval = (!self.one_in(3)).then(|| self.duration(500, 30_000));
            config.receive_buffer_bytes = self.scale(4_000, 1 << 20) as usize;
            config.send_buffer_bytes = self.scale(2_000, 1 << 20) as usize;
            let window = NonZeroU8::new(self.between(1, 30) as u8).expect("1 at least");
            config.congestion_options.initial_window =
                self.pick(&[cc::InitialWindow::Ipv4, cc::InitialWindow::Mtus(window)]);
        }
        config
    }

    fn link(&mut self) -> LinkConfig {
        let rate = Rate::from_bits_per_second(self.scale(64_000, 1_000_000_000));
        let model = GilbertElliott {
            to_bad: self.percent(5),
            to_good: Probability::new(self.between(5, 100) as f64 / 100.0).expect("at most 1"),
            pass_good: Probability::ALWAYS,
            pass_bad: self.percent(50),
        };
        let bernoulli = Loss::Bernoulli(self.percent(30));
        let reorder = Reorder { probability: self.percent(30), extra_delay: self.duration(1, 200) };
        LinkConfig {
            loss: self.pick(&[Loss::None, bernoulli, Loss::GilbertElliott(model)]),
            queue: self.pick(&[
                Queue::Bytes(500_000),
                Queue::Packets(5),
                Queue::Packets(100),
                Queue::Bytes(20_000),
            ]),
            rate: if self.one_in(5) { Bandwidth::Unlimited } else { Bandwidth::Fixed(rate) },
            delay: Duration::from_micros(self.scale(10, 500_000)),
            reorder: self.one_in(3).then_some(reorder),
            duplicate: if self.one_in(3) { self.percent(20) } else { Probability::NEVER },
            corrupt: if self.one_in(3) { self.percent(20) } else { Probability::NEVER },
            overhead_bytes: 28,
        }
    }

    fn plan(&mut self, client: &Config, server: &Config) -> Plan {
        let client_sends = self.messages(client.outbound_streams.min(server.inbound_streams));
        let server_sends = self.messages(server.outbound_streams.min(client.inbound_streams));
        let sips = Appetite::Sips {
            bytes: self.scale(1_000, 100_000) as usize,
            every: Duration::from_millis(self.scale(1, 2_000)),
        };
        let appetite = if self.one_in(3) { sips } else { Appetite::Eager };
        let side = self.pick(&[Side::Client, Side::Server]);
        let complete = Ending::Complete(self.pick(&[
            &[Side::Client][..],
            &[Side::Server],
            &[Side::Client, Side::Server],
        ]));
        let abort = Ending::Abort(side, self.up_to(50) as usize);
        let ending = self.pick(&[complete, complete, complete, Ending::Early(side), abort]);
        let receive_buffers = [client.receive_buffer_bytes, server.receive_buffer_bytes];
        Plan { client_sends, server_sends, appetite, ending, receive_buffers }
    }

    fn messages(&mut self, streams: u16) -> Vec<Planned> {
        let count = if self.one_in(5) { 0 } else { self.scale(1, 300) };
        let longest = self.scale(10, 300_000);
        let mut budget = if self.one_in(10) { 4_000_000 } else { 400_000 };
        let mut messages = Vec::new();
        for _ in 0..count {
            let bytes = self.scale(1, longest).min(budget);
            if bytes == 0 {
                break;
            }
            budget -= bytes;
            let order = if self.one_in(4) { Order::Unordered } else { Order::Ordered };
            messages.push((StreamId(self.up_to(u64::from(streams) - 1) as u16), bytes as usize, order));
        }
        numbered(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_scenarios_end_well_and_the_same_when_run_again() {
        for seed in 0..30 {
            let outcome =
                Scenario::from_seed(seed).run().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(Scenario::from_seed(seed).watch(|_| {}), Ok(outcome), "seed {seed}");
        }
    }

    #[test]
    fn scenarios_cover_what_there_is_to_cover() {
        let scenarios: Vec<_> = (0..200).map(Scenario::from_seed).collect();
        let plans = || scenarios.iter().flat_map(|scenario| &scenario.plans).map(|(_, plan)| plan);
        let links = || scenarios.iter().flat_map(|scenario| &scenario.links);
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
        assert!(scenarios.iter().any(|scenario| scenario.outages.len() > 1));
    }
}
