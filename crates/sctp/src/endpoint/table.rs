//! The associations of an endpoint: lookup by tag or address, polling in turn, wake-up times.
//!
//! The index of an association's slot is part of its id, so lookup by id needs no search. Nothing depends
//! on hash order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;

use crate::association::Association;
use crate::config::Config;
use crate::cookie::TieTags;
use crate::ids::{AssociationId, Tsn, VerificationTag};
use crate::wire::Header;

/// The maximum number of tags of closed associations, kept while a cookie with the tag is still valid.
/// Beyond it the oldest are forgotten; a replay of their cookie then creates an association that its
/// peer aborts.
const MAX_SPENT: usize = 16_384;

/// How long a local port counts as in use after its last association ended: as long as a peer may
/// retransmit its SHUTDOWN ACK (5 RTO.Max, RFC 9260 §9.2), which needs a response.
const PORT_LINGERS: Duration = Duration::from_secs(300);

/// The maximum number of such ports. Beyond it the earliest to expire is forgotten, and a retransmitted
/// SHUTDOWN ACK is out of the blue.
const MAX_LEFT: usize = 1_024;

/// What an endpoint knows of an association to map packets to it and to respond to its peer's INIT.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) config: Arc<Config>,
    pub(super) local_port: u16,
    pub(super) peer_port: u16,
    /// The tag in the peer's packets.
    pub(super) tag: VerificationTag,
    /// The initial TSN of this side's INIT, or of the INIT ACK.
    pub(super) initial_tsn: Tsn,
    pub(super) tie_tags: TieTags,
    /// When all cookies with its tag have expired, if there are any: its own, and those of responses to
    /// INITs that collided with its INIT.
    pub(super) cookie_until: Option<Time>,
}

/// An association and its entries in the table.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: AssociationId,
    pub(super) association: Association,
    pub(super) known: Known,
    /// The peer's addresses that are mapped to it; none once it is closed.
    peers: Vec<SocketAddr>,
    /// Whether the user removed it, and only its final packet remains to be sent.
    forgotten: bool,
    /// Whether it is in the queue for polling.
    ready: bool,
    /// The latest time of its next poll.
    wake: Option<Time>,
    /// The address or network from which the peer opened it, if a peer did.
    opened_from: Option<IpAddr>,
    /// Its memory when last counted.
    pub(super) memory_bytes: usize,
    /// When its memory last decreased.
    pub(super) progress_at: Time,
    /// When a packet of its peer last arrived.
    pub(super) heard_at: Time,
}

impl Slot {
    /// Whether a peer opened it and the user has not admitted the peer.
    fn is_half_open(&self) -> bool {
        !self.association.is_admitted() && !self.is_over()
    }

    /// Whether the association has ended.
    pub(super) fn is_over(&self) -> bool {
        self.association.closed().is_some()
    }

    /// Whether this address of the peer is mapped to it.
    pub(super) fn is_mapped_from(&self, peer: SocketAddr) -> bool {
        self.peers.contains(&peer)
    }

    /// Whether the peer has this address, with any encapsulation port: a NAT may change the port (RFC
    /// 6951 §5.4).
    pub(super) fn knows(&self, ip: IpAddr) -> bool {
        self.peers.iter().any(|peer| peer.ip() == ip)
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    pub(super) fn forget(&mut self) {
        self.forgotten = true;
    }
}

/// The number of entries of each kind in a table.
#[cfg(test)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Footprint {
    pub(super) answers: usize,
    pub(super) slots: usize,
    pub(super) tags: usize,
    pub(super) places: usize,
    pub(super) queued: usize,
    pub(super) wakes: usize,
    pub(super) spent: usize,
}

/// Local port, peer's port, peer's address.
//= specs/rfc9260.txt#section-1.3
//# All transport addresses used by an SCTP endpoint MUST use the same
//# port number but can use multiple IP addresses.
type Place = (u16, u16, SocketAddr);

/// All associations.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Box<Slot>>>,
    free: Vec<u32>,
    /// The number of associations created; part of the next id.
    made: u32,
    by_tag: BTreeMap<u32, AssociationId>,
    by_place: BTreeMap<Place, AssociationId>,
    /// Local ports of closed associations, and until when they count as in use.
    left: BTreeMap<u16, Time>,
    /// Associations to poll, in turn.
    queue: VecDeque<AssociationId>,
    /// The number of associations opened from each address or network.
    opened_from: BTreeMap<IpAddr, usize>,
    /// Half-open associations, and some that were admitted since.
    half_open: BTreeSet<AssociationId>,
    /// Wake-up times of the other associations.
    wakes: BTreeSet<(Time, AssociationId)>,
    spent: BTreeSet<u32>,
    /// The entries of `spent` in order of insertion, each with its expiry.
    spent_until: VecDeque<(Time, u32)>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The memory of the associations.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.iter().flatten().map(|slot| slot.association.memory_bytes()).sum()
    }

    /// Inserts an association, which will be polled.
    pub(super) fn insert(
        &mut self,
        known: Known,
        association: impl FnOnce(AssociationId) -> Association,
    ) -> AssociationId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer associations than fit in memory")
        });
        self.made += 1;
        let id = AssociationId(u64::from(self.made) << 32 | u64::from(index));
        self.by_tag.insert(known.tag.0, id);
        let slot = Slot {
            id,
            association: association(id),
            known,
            peers: Vec::new(),
            forgotten: false,
            ready: false,
            wake: None,
            opened_from: None,
            memory_bytes: 0,
            progress_at: Time::ZERO,
            heard_at: Time::ZERO,
        };
        self.slots[index as usize] = Some(Box::new(slot));
        self.ready(id);
        id
    }

    /// A peer opened this association at `now` from this address.
    pub(super) fn opened(&mut self, now: Time, id: AssociationId, from: IpAddr) {
        let Some(slot) = self.get_mut(id) else { return };
        let network = network_of(from);
        slot.opened_from = Some(network);
        (slot.progress_at, slot.heard_at) = (now, now);
        let half_open = slot.is_half_open();
        *self.opened_from.entry(network).or_default() += 1;
        if half_open {
            self.half_open.insert(id);
        }
    }

    /// The number of associations opened from an address or its network.
    pub(super) fn opened_from(&self, from: IpAddr) -> usize {
        self.opened_from.get(&network_of(from)).copied().unwrap_or(0)
    }

    /// Iterates over all slots in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten().map(Box::as_ref)
    }

    /// Iterates over associations that a peer opened and the user has not admitted.
    pub(super) fn half_open(&self) -> impl Iterator<Item = &Slot> {
        self.half_open.iter().filter_map(|id| self.get(*id)).filter(|slot| slot.is_half_open())
    }

    /// Whether there are this many half-open associations. Drops those that were admitted meanwhile.
    pub(super) fn has_half_open(&mut self, count: usize) -> bool {
        if self.half_open.len() < count {
            return false;
        }
        let Self { half_open, slots, .. } = self;
        half_open.retain(|id| slots[index(*id)].as_deref().is_some_and(Slot::is_half_open));
        half_open.len() >= count
    }

    /// Returns the half-open association, of this address or any, to abort for another one: that with
    /// the largest product of its peer's silence and the number of half-open ones from its network. So
    /// associations from few networks never exclude a peer of another network, whose handshake takes an
    /// RTT.
    pub(super) fn eviction_candidate(&self, now: Time, of: Option<IpAddr>) -> Option<AssociationId> {
        let of = of.map(network_of);
        let mut crowd: BTreeMap<Option<IpAddr>, u32> = BTreeMap::new();
        self.half_open().for_each(|slot| *crowd.entry(slot.opened_from).or_default() += 1);
        let weight = |slot: &Slot| {
            let silence = now.since(slot.heard_at).saturating_add(Duration::from_nanos(1));
            silence.saturating_mul(crowd[&slot.opened_from])
        };
        let counts = |slot: &&Slot| of.is_none() || slot.opened_from == of;
        let first = self.half_open().filter(counts).max_by_key(|slot| (weight(slot), Reverse(slot.id)));
        first.map(|slot| slot.id)
    }

    pub(super) fn get(&self, id: AssociationId) -> Option<&Slot> {
        self.slots.get(index(id))?.as_deref().filter(|slot| slot.id == id)
    }

    pub(super) fn get_mut(&mut self, id: AssociationId) -> Option<&mut Slot> {
        self.slots.get_mut(index(id))?.as_deref_mut().filter(|slot| slot.id == id)
    }

    /// Returns the association with the tag and ports of a packet.
    pub(super) fn by_tag(&self, header: &Header) -> Option<&Slot> {
        let slot = self.get(*self.by_tag.get(&header.tag.0)?)?;
        let ports = (header.destination_port, header.source_port);
        (ports == (slot.known.local_port, slot.known.peer_port)).then_some(slot)
    }

    /// Returns the association between these ports with this address of the peer.
    pub(super) fn by_address(&self, local_port: u16, peer_port: u16, peer: SocketAddr) -> Option<&Slot> {
        self.get(*self.by_place.get(&(local_port, peer_port, peer))?)
    }

    /// Whether an association uses this local port, or did recently.
    pub(super) fn has_port(&self, now: Time, port: u16) -> bool {
        let least = (port, 0, SocketAddr::new(IpAddr::from([0; 4]), 0));
        self.by_place.range(least..).next().is_some_and(|((first, ..), _)| *first == port)
            || self.left.get(&port).is_some_and(|until| now < *until)
    }

    /// Maps exactly these addresses of the peer to an association. Addresses that are mapped to another
    /// one stay so.
    pub(super) fn map(&mut self, id: AssociationId, peers: &[SocketAddr]) {
        let Some(slot) = self.slots.get_mut(index(id)).and_then(Option::as_deref_mut) else { return };
        if slot.peers == peers {
            return;
        }
        let (local_port, peer_port) = (slot.known.local_port, slot.known.peer_port);
        for peer in slot.peers.drain(..) {
            self.by_place.remove(&(local_port, peer_port, peer));
        }
        slot.peers.reserve_exact(peers.len());
        for &peer in peers {
            let holder = *self.by_place.entry((local_port, peer_port, peer)).or_insert(id);
            if holder == id {
                slot.peers.push(peer);
            }
        }
    }

    /// A cookie with this tag was sent, valid until then. If an association has the tag, no cookie with
    /// it may create another one after its end: this cookie may be in flight until then.
    pub(super) fn note_cookie(&mut self, tag: VerificationTag, until: Time) {
        let Some(&id) = self.by_tag.get(&tag.0) else { return };
        if let Some(slot) = self.get_mut(id) {
            slot.known.cookie_until = slot.known.cookie_until.max(Some(until));
        }
    }

    /// Changes the tag of an association: its peer restarted, and the tag is from a cookie that is valid
    /// until `until`; or this side begins its handshake anew.
    pub(super) fn retag(&mut self, now: Time, id: AssociationId, tag: VerificationTag, until: Option<Time>) {
        let Some(slot) = self.slots.get_mut(index(id)).and_then(Option::as_deref_mut) else { return };
        let old = std::mem::replace(&mut slot.known.tag, tag);
        let old_until = std::mem::replace(&mut slot.known.cookie_until, until);
        self.by_tag.remove(&old.0);
        self.by_tag.insert(tag.0, id);
        self.spend(now, old, old_until);
    }

    /// Removes all mappings to an association.
    pub(super) fn unmap(&mut self, now: Time, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(index(id)).and_then(Option::as_deref_mut) else { return };
        if self.by_tag.get(&slot.known.tag.0) == Some(&id) {
            self.by_tag.remove(&slot.known.tag.0);
        }
        for peer in slot.peers.drain(..) {
            self.by_place.remove(&(slot.known.local_port, slot.known.peer_port, peer));
        }
        let port = slot.known.local_port;
        if self.left.len() >= MAX_LEFT && !self.left.contains_key(&port) {
            let nearest =
                self.left.iter().min_by_key(|&(port, until)| (*until, *port)).map(|(port, _)| *port);
            nearest.map(|port| self.left.remove(&port));
        }
        self.left.insert(port, now + PORT_LINGERS);
        let (tag, until) = (slot.known.tag, slot.known.cookie_until.take());
        self.spend(now, tag, until);
    }

    /// Remembers the tag of a closed association until its cookie has expired.
    fn spend(&mut self, now: Time, tag: VerificationTag, until: Option<Time>) {
        let Some(until) = until.filter(|&until| until >= now) else { return };
        let VerificationTag(tag) = tag;
        while let Some(&(oldest, tag)) = self.spent_until.front()
            && (oldest < now || self.spent_until.len() >= MAX_SPENT)
        {
            self.spent_until.pop_front();
            self.spent.remove(&tag);
        }
        if self.spent.insert(tag) {
            self.spent_until.push_back((until, tag));
        }
    }

    /// Whether this is the tag of a closed association whose cookie has not expired.
    pub(super) fn is_spent(&self, tag: VerificationTag) -> bool {
        self.spent.contains(&tag.0)
    }

    /// Whether a tag is in use, or was recently.
    pub(super) fn is_taken(&self, tag: VerificationTag) -> bool {
        self.by_tag.contains_key(&tag.0) || self.is_spent(tag)
    }

    /// Appends an association to the polling queue, if it is not in it.
    pub(super) fn ready(&mut self, id: AssociationId) {
        if let Some(slot) = self.get_mut(id)
            && !std::mem::replace(&mut slot.ready, true)
        {
            self.queue.push_back(id);
        }
    }

    /// Takes the next association from the polling queue.
    pub(super) fn next_ready(&mut self) -> Option<&mut Slot> {
        let id = self.queue.pop_front()?;
        let slot = self.slots[index(id)]
            .as_deref_mut()
            .expect("a slot is removed from the queue before it is freed");
        debug_assert_eq!(slot.id, id, "a slot is removed from the queue before it is freed");
        slot.ready = false;
        Some(slot)
    }

    /// Appends the associations that are due.
    pub(super) fn wake(&mut self, now: Time) {
        while let Some(&(when, id)) = self.wakes.first()
            && when <= now
        {
            self.wakes.pop_first();
            if let Some(slot) = self.get_mut(id) {
                slot.wake = None;
            }
            self.ready(id);
        }
    }

    /// An association has nothing to do until `when`. One that was removed by the user is deleted and
    /// returned.
    pub(super) fn wait(&mut self, now: Time, id: AssociationId, when: Option<Time>) -> Option<Slot> {
        let slot = self.slots.get_mut(index(id)).and_then(Option::as_deref_mut)?;
        let when = when.filter(|_| !slot.forgotten);
        if slot.wake != when {
            if let Some(before) = std::mem::replace(&mut slot.wake, when) {
                self.wakes.remove(&(before, id));
            }
            if let Some(when) = when {
                self.wakes.insert((when, id));
            }
        }
        if slot.forgotten && !slot.ready {
            self.unmap(now, id);
            let slot = self.slots[index(id)].take();
            self.free.push(index(id) as u32);
            self.half_open.remove(&id);
            let slot = *slot?;
            if let Some(network) = slot.opened_from
                && let Some(count) = self.opened_from.get_mut(&network)
            {
                *count -= 1;
                if *count == 0 {
                    self.opened_from.remove(&network);
                }
            }
            return Some(slot);
        }
        None
    }

    #[cfg(test)]
    pub(super) fn footprint(&self) -> Footprint {
        assert_eq!(self.spent.len(), self.spent_until.len());
        Footprint {
            answers: 0,
            slots: self.slots.len(),
            tags: self.by_tag.len(),
            places: self.by_place.len(),
            queued: self.queue.len(),
            wakes: self.wakes.len(),
            spent: self.spent.len(),
        }
    }

    /// The earliest wake-up time.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|&(when, _)| when)
    }
}

/// The addresses that one peer controls at least: an IPv4 address, or an IPv6 /64.
pub(super) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

fn index(id: AssociationId) -> usize {
    id.0 as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::association::Setup;

    fn insert(table: &mut Table, tag: u32) -> AssociationId {
        insert_with(table, tag, 21)
    }

    fn insert_at(table: &mut Table, port: u16) -> AssociationId {
        insert_with(table, port.into(), port)
    }

    fn insert_with(table: &mut Table, tag: u32, local_port: u16) -> AssociationId {
        let (config, tag, initial_tsn) = (Arc::<Config>::default(), VerificationTag(tag), Tsn(0));
        let known = Known {
            config: Arc::clone(&config),
            local_port,
            peer_port: 22,
            tag,
            initial_tsn,
            tie_tags: TieTags { local: 1, peer: 1 },
            cookie_until: None,
        };
        let at = |port| vec![SocketAddr::from(([192, 0, 2, 1], port))];
        let (local, peer) = (at(1), at(2));
        let setup = Setup { config, local_port, peer_port: 22, local, peer, tag, initial_tsn, seed: [0; 32] };
        table.insert(known, |id| Association::connect(Time::ZERO, id, setup))
    }

    #[test]
    fn a_limited_number_of_recent_ports_is_remembered() {
        let mut table = Table::default();
        for port in 1..=MAX_LEFT as u16 + 1 {
            let id = insert_at(&mut table, port);
            table.unmap(Time::ZERO + Duration::from_secs(port.into()), id);
        }
        assert_eq!(table.left.len(), MAX_LEFT);
        let now = Time::ZERO + Duration::from_secs(MAX_LEFT as u64 + 1);
        assert!(!table.has_port(now, 1) && table.has_port(now, MAX_LEFT as u16 + 1));
        assert!(!table.has_port(now, MAX_LEFT as u16 - 299), "its time is over");
    }

    #[test]
    fn an_address_maps_to_its_first_association_until_that_removes_it() {
        let mut table = Table::default();
        let ids = [insert(&mut table, 1), insert(&mut table, 2)];
        let addresses: Vec<SocketAddr> = (1..4).map(|host| ([192, 0, 2, host], 9_899).into()).collect();
        let holders = |table: &Table| {
            [0, 1, 2].map(|host| table.by_address(21, 22, addresses[host]).map(|slot| slot.known.tag.0))
        };
        table.map(ids[0], &addresses[..2]);
        table.map(ids[1], &addresses[1..]);
        assert_eq!(holders(&table), [Some(1), Some(1), Some(2)]);
        assert!(
            table.get(ids[1]).is_some_and(|slot| !slot.knows(addresses[1].ip())),
            "not what it did not get"
        );
        table.map(ids[1], &[]);
        assert_eq!(holders(&table), [Some(1), Some(1), None], "it took nothing with it");
        table.map(ids[0], &addresses[1..]);
        assert_eq!(holders(&table), [None, Some(1), Some(1)]);
        table.unmap(Time::ZERO, ids[0]);
        assert_eq!(holders(&table), [None, None, None]);
    }

    #[test]
    fn tags_of_closed_associations_are_remembered_within_limits() {
        let mut table = Table::default();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        table.spend(at(0), VerificationTag(1), Some(at(60)));
        table.spend(at(0), VerificationTag(2), None);
        table.spend(at(61), VerificationTag(3), Some(at(60)));
        assert_eq!([1, 2, 3].map(|tag| table.is_spent(VerificationTag(tag))), [true, false, false]);
        table.spend(at(61), VerificationTag(4), Some(at(70)));
        assert!(!table.is_spent(VerificationTag(1)), "its cookie is stale by now");
        for tag in 0..2 * MAX_SPENT as u32 {
            table.spend(at(61), VerificationTag(100 + tag), Some(at(70)));
        }
        assert_eq!(table.footprint().spent, MAX_SPENT);
        assert!(table.is_spent(VerificationTag(99 + 2 * MAX_SPENT as u32)), "the latest is among them");
    }
}
