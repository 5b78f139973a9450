//! The hosts of a scenario's world, and a record of what happens at one of them.

use std::cell::RefCell;
use std::convert::Infallible;

use braidftp_base::{Datagram, Output, Time};
use braidftp_sctp::{AssociationId, Stats};
use braidftp_sim::apps::bulk::Bulk;
use braidftp_sim::apps::ftp::{Holds, Node, StatsPoint};
use braidftp_sim::apps::transfers::Transfers;
use braidftp_sim::record::HostEvent;
use braidftp_sim::world::{Seen, Sight};
use braidftp_sim::{Actor, Host};

/// A host of a scenario's world.
#[derive(Debug)]
pub(super) struct Resident {
    /// The host.
    pub kind: Kind,
    /// The events since they were last taken, if they are recorded. A shared reference suffices to take them: a host
    /// that is borrowed mutably is polled, which would change the run.
    trace: RefCell<Option<Trace>>,
}

/// A host by its application.
#[derive(Debug)]
pub(super) enum Kind {
    Ftp(Box<Node>),
    Bulk(Box<Host<Bulk>>),
    Transfers(Box<Host<Transfers>>),
}

/// The recorded events of a host.
#[derive(Debug, Default)]
struct Trace {
    events: Vec<HostEvent>,
    /// The last statistics of each association.
    last: Vec<(AssociationId, Stats)>,
}

impl Resident {
    /// A host of a bulk flow.
    pub(super) fn bulk_host(host: Host<Bulk>) -> Self {
        Self { kind: Kind::Bulk(Box::new(host)), trace: RefCell::default() }
    }

    /// A host of requests and answers.
    pub(super) fn transfers_host(host: Host<Transfers>) -> Self {
        Self { kind: Kind::Transfers(Box::new(host)), trace: RefCell::default() }
    }

    /// The host of a bulk flow.
    pub(super) fn bulk(&self) -> &Host<Bulk> {
        match &self.kind {
            Kind::Bulk(host) => host,
            _ => panic!("this host is not one of a bulk flow"),
        }
    }

    /// The application of a host that asks or answers.
    pub(super) fn transfers(&self) -> &Transfers {
        match &self.kind {
            Kind::Transfers(host) => host.app(),
            _ => panic!("this host asks for nothing"),
        }
    }

    /// Records the events from now on.
    pub(super) fn trace(&self) {
        self.trace.borrow_mut().get_or_insert_default();
    }

    /// The recorded events since the last call.
    pub(super) fn take_trace(&self) -> Vec<HostEvent> {
        self.trace.borrow_mut().as_mut().map(|trace| std::mem::take(&mut trace.events)).unwrap_or_default()
    }

    fn record(&mut self, packet: Option<Seen>, now: Time) {
        let Some(trace) = self.trace.get_mut() else { return };
        trace.events.extend(packet.map(HostEvent::Packet));
        for (association, stats) in self.kind.stats() {
            let last = trace.last.iter_mut().find(|(id, _)| *id == association);
            match last {
                Some((_, last)) if *last == stats => continue,
                Some((_, last)) => *last = stats.clone(),
                None => trace.last.push((association, stats.clone())),
            }
            trace.events.push(HostEvent::Stats(StatsPoint { at: now, association, stats }));
        }
    }
}

impl Kind {
    /// The statistics of its associations.
    fn stats(&self) -> Vec<(AssociationId, Stats)> {
        match self {
            Self::Ftp(node) => node.association_stats().collect(),
            Self::Bulk(host) => {
                let id = host.app().association();
                id.and_then(|id| Some((id, host.endpoint().association(id)?.stats()))).into_iter().collect()
            }
            Self::Transfers(host) => {
                let its = host.app().associations();
                its.filter_map(|id| Some((id, host.endpoint().association(id)?.stats()))).collect()
            }
        }
    }
}

/// Hosts that are not recorded, which is most of them, only pass everything on. Not inlined, these functions cost a simulation 1 to 2 % of
/// its speed.
impl Actor for Resident {
    #[inline]
    fn handle(&mut self, now: Time, datagram: Datagram) {
        if self.trace.get_mut().is_none() {
            return self.kind.handle(now, datagram);
        }
        let packet = Seen { at: now, what: Sight::Arrived, datagram: datagram.clone() };
        self.kind.handle(now, datagram);
        self.record(Some(packet), now);
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        if self.trace.get_mut().is_none() {
            return self.kind.poll(now);
        }
        let output = self.kind.poll(now);
        let packet = match &output {
            Output::Send(datagram) => Some(Seen { at: now, what: Sight::Sent, datagram: datagram.clone() }),
            _ => None,
        };
        self.record(packet, now);
        output
    }

    #[inline]
    fn may_be_fragmented(&self) -> bool {
        self.kind.may_be_fragmented()
    }
}

impl Actor for Kind {
    #[inline]
    fn handle(&mut self, now: Time, datagram: Datagram) {
        match self {
            Self::Ftp(host) => host.handle(now, datagram),
            Self::Bulk(host) => host.handle(now, datagram),
            Self::Transfers(host) => host.handle(now, datagram),
        }
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        match self {
            Self::Ftp(host) => host.poll(now),
            Self::Bulk(host) => host.poll(now),
            Self::Transfers(host) => host.poll(now),
        }
    }

    #[inline]
    fn may_be_fragmented(&self) -> bool {
        match self {
            Self::Ftp(host) => host.may_be_fragmented(),
            Self::Bulk(host) => host.may_be_fragmented(),
            Self::Transfers(host) => host.may_be_fragmented(),
        }
    }
}

impl From<Node> for Resident {
    fn from(node: Node) -> Self {
        Self { kind: Kind::Ftp(Box::new(node)), trace: RefCell::default() }
    }
}

impl Holds for Resident {
    fn ftp(&self) -> &Node {
        match &self.kind {
            Kind::Ftp(node) => node,
            _ => panic!("this host is not one of the ftp session"),
        }
    }

    fn ftp_mut(&mut self) -> &mut Node {
        match &mut self.kind {
            Kind::Ftp(node) => node,
            _ => panic!("this host is not one of the ftp session"),
        }
    }
}
