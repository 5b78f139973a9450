//! A host of such a run: what sends, a tap, and perhaps a NAT in front of it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;

use braidftp_base::{Datagram, Output, Time};
use braidftp_sctp::{AssociationId, Endpoint, Event};

use super::client::Client;
use super::net::{Conn, Ledger, Net, happened};
use super::server::Server;
use super::tap::{Tap, word16};
use super::{Nat, WindowPoint};
use crate::host::{App, Endpoints, Host};
use crate::world::Actor;

/// A host with a tap.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) host: Host<Party>,
    pub(super) tap: Tap,
    overhead: usize,
    nat: Option<Translator>,
}

/// The user of a host.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) side: Side,
    pub(super) ledger: Ledger,
    /// Whether something happened that was not acted upon.
    stirred: bool,
    pub(super) blocks: Blocks,
    pub(super) windows: Option<Windows>,
}

/// What it does.
#[derive(Debug)]
pub(super) enum Side {
    Client(Box<Client>),
    Server(Server),
}

/// How many connections a host held, over time.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    most: usize,
    now: usize,
    since: Time,
    /// Connections times seconds.
    area: f64,
    begun: Time,
}

impl Blocks {
    /// Counts from here on.
    pub(super) fn start(&mut self, now: Time) {
        *self = Self { most: self.now, now: self.now, since: now, area: 0.0, begun: now };
    }

    fn note(&mut self, now: Time, blocks: usize) {
        if blocks != self.now {
            self.area += self.now as f64 * now.since(self.since).as_secs_f64();
            self.since = now;
            self.now = blocks;
            self.most = self.most.max(blocks);
        }
    }

    /// The most, and the mean over the time.
    pub(super) fn most_and_mean(&self, now: Time) -> (usize, f64) {
        let area = self.area + self.now as f64 * now.since(self.since).as_secs_f64();
        let seconds = now.since(self.begun).as_secs_f64();
        (self.most, if seconds > 0.0 { area / seconds } else { self.now as f64 })
    }
}

/// What the congestion windows of the server's data were, over time.
#[derive(Debug, Default)]
pub(super) struct Windows {
    conns: Vec<Conn>,
    pub(super) points: Vec<WindowPoint>,
}

impl Windows {
    fn look(&mut self, now: Time, endpoint: &Endpoint, server: &Server) {
        for conn in server.data_conns() {
            let Conn::Sctp(id) = conn;
            let Some(association) = endpoint.association(id) else { continue };
            if !association.is_up() {
                continue;
            }
            let known = self.conns.iter().position(|known| *known == conn);
            let connection = known.unwrap_or_else(|| {
                self.conns.push(conn);
                self.conns.len() - 1
            });
            let stats = association.stats();
            let Some(path) = stats.paths.first() else { continue };
            let point = WindowPoint {
                at: now,
                connection,
                cwnd_bytes: path.cwnd,
                ssthresh_bytes: path.ssthresh,
                flight_bytes: path.flight_bytes,
            };
            let last = self.points.iter().rev().find(|last| last.connection == connection);
            if last.is_none_or(|last| WindowPoint { at: now, ..*last } != point) {
                self.points.push(point);
            }
        }
    }
}

impl Party {
    pub(super) fn new(side: Side, windows: Option<Windows>) -> Self {
        Self { side, ledger: Ledger::default(), stirred: false, blocks: Blocks::default(), windows }
    }

    pub(super) fn client(&self) -> &Client {
        match &self.side {
            Side::Client(client) => client,
            Side::Server(_) => panic!("the first host is the client"),
        }
    }
}

impl App for Party {
    fn on_event(&mut self, now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        self.stirred = true;
        let happened = happened(&endpoints.sctp, id, &event);
        let mut net = Net { now, sctp: &mut endpoints.sctp, ledger: &mut self.ledger };
        match &mut self.side {
            Side::Client(client) => client.on(&mut net, Conn::Sctp(id), happened),
            Side::Server(server) => server.on(&mut net, Conn::Sctp(id), happened),
        }
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        let mut net = Net { now, sctp: &mut endpoints.sctp, ledger: &mut self.ledger };
        match &mut self.side {
            Side::Client(client) if self.stirred => client.pump(&mut net),
            Side::Client(_) => {}
            Side::Server(server) => {
                // That the last reply has left is no event.
                if self.stirred || server.waits_for_replies() {
                    server.pump(&mut net);
                }
                if let Some(windows) = &mut self.windows {
                    windows.look(now, net.sctp, server);
                }
            }
        }
        self.stirred = false;
        self.blocks.note(now, endpoints.sctp.len() + endpoints.tcp.control_blocks());
        None
    }
}

impl Node {
    pub(super) fn new(host: Host<Party>, overhead: usize, nat: Option<Nat>) -> Self {
        Self { host, tap: Tap::default(), overhead, nat: nat.map(Translator::new) }
    }

    /// Packets that came to the NAT and belonged to no flow that began inside.
    pub(super) fn turned_away(&self) -> u64 {
        self.nat.as_ref().map_or(0, |nat| nat.turned_away)
    }
}

impl Actor for Node {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        let inside = match &mut self.nat {
            Some(nat) => nat.inward(datagram),
            None => Some(datagram),
        };
        if let Some(datagram) = inside {
            self.host.handle(now, datagram);
        }
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        let output = self.host.poll(now);
        let Output::Send(mut datagram) = output else { return output };
        self.tap.see(&datagram, self.overhead);
        if let Some(nat) = &mut self.nat {
            nat.outward(&mut datagram);
        }
        Output::Send(datagram)
    }
}

/// Rewrites addresses, and neither ports nor anything that a packet says of addresses inside.
#[derive(Debug)]
struct Translator {
    nat: Nat,
    /// The flows that began inside: the port inside, the other side, and its port.
    flows: BTreeSet<(u16, IpAddr, u16)>,
    turned_away: u64,
}

impl Translator {
    fn new(nat: Nat) -> Self {
        Self { nat, flows: BTreeSet::new(), turned_away: 0 }
    }

    fn outward(&mut self, datagram: &mut Datagram) {
        if let Some((from, to)) = ports(datagram) {
            self.flows.insert((from, datagram.to.ip(), to));
        }
        datagram.from.set_ip(self.nat.outside);
    }

    fn inward(&mut self, mut datagram: Datagram) -> Option<Datagram> {
        let known =
            ports(&datagram).is_some_and(|(from, to)| self.flows.contains(&(to, datagram.from.ip(), from)));
        if !known {
            self.turned_away += 1;
            return None;
        }
        datagram.to.set_ip(self.nat.inside);
        Some(datagram)
    }
}

/// The ports of a packet, which are where they are in TCP and SCTP alike.
fn ports(datagram: &Datagram) -> Option<(u16, u16)> {
    let payload = &datagram.payload;
    (payload.len() >= 4).then(|| (word16(payload, 0), word16(payload, 2)))
}
