//! Addresses that come and go while an association lives (RFC 5061): what this side asks for, and what the peer does.
//!
//! A change is asked for in an ASCONF chunk, one at a time, until the peer answers it; then the next leaves with all that
//! was asked for meanwhile. Both sides pair addresses anew as `pairing` does at the beginning. An address of which nothing
//! is known yet carries nothing but what asks after it. What is not here: this side never sends an unspecified address,
//! nor a Set Primary in INIT; it takes no advice from one in INIT either.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use braidftp_base::Time;

use crate::association::pairing::{PATHS_MAX, best_partner, reaches};
use crate::association::path::{Path, Purpose, choose};
use crate::association::state::{Shutdown, State};
use crate::association::timers::Timer;
use crate::association::{Association, Event, Transmit, Violation};
use crate::endpoint::{Route, is_unicast};
use crate::ids::{PathId, Tsn};
use crate::stats::PathState;
use crate::wire::{Asconf, AsconfAck, Cause, Change, Chunk, Outcome, Request, Response, Unrecognized};

/// The most changes in one ASCONF chunk, which then fits every packet.
const REQUESTS_MAX: usize = 16;
/// The most changes that wait to be asked for.
const WAITING_MAX: usize = 32;
/// The most answers that are kept to be sent again: a peer has one ASCONF under way, and may repeat it with those that
/// it held back.
const CACHED_MAX: usize = 8;
/// The longest answer, in bytes: with an AUTH chunk it fits the packets that every path carries.
const ACK_LEN_MAX: usize = 1_100;

/// What became of an address of either side (SCTP_PEER_ADDR_CHANGE, RFC 6458 §6.1.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressChange {
    /// It belongs to the association; whether it can be used its path says.
    Added,
    /// It belongs to it no more.
    Removed,
    /// The other side sends there first from now on.
    MadePrimary,
    /// The peer did not do what was asked of it for this address, for this cause if it named one.
    Refused(Option<Cause>),
}

/// Why a change of addresses is not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressError {
    /// The association is not up, or is shutting down.
    NotUp,
    /// The two sides did not agree on ASCONF with authentication, or the peer turned out not to know it.
    NotSupported,
    /// The association has this address already.
    InUse,
    /// The association has no such local address.
    NoSuchAddress,
    /// It is the last one from which the peer can be reached: add another before.
    Last,
    /// The peer has no address that goes with it.
    NoPath,
    /// The association has as many addresses, or changes of them under way, as it can.
    TooMany,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUp => "the association is not up; wait until it is",
            Self::NotSupported => "the peer takes no change of addresses; set Config::asconf on both sides",
            Self::InUse => "the association has this address already",
            Self::NoSuchAddress => "the association has no such local address; ask for those it has",
            Self::Last => "this is the last address of the association; add another before",
            Self::NoPath => "the peer has no address that this one could reach",
            Self::TooMany => "the association has no room for more addresses; remove one before",
        })
    }
}

impl std::error::Error for AddressError {}

/// A change of this side's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Add(SocketAddr),
    Remove(SocketAddr),
    Prefer(SocketAddr),
}

impl Wish {
    fn address(self) -> SocketAddr {
        match self {
            Self::Add(address) | Self::Remove(address) | Self::Prefer(address) => address,
        }
    }
}

/// What is under way of changes of addresses.
#[derive(Debug)]
pub(super) struct Addresses {
    /// The serial number that the next ASCONF gets.
    next_serial: Tsn,
    next_correlation: u32,
    waiting: VecDeque<Wish>,
    outstanding: Option<Outstanding>,
    /// Whether the peer does not know how to add and delete (§5.3 F3a), or ASCONF at all.
    deaf_to_addresses: bool,
    /// Whether the peer does not know how to set a primary address (§5.3 F3b).
    deaf_to_primary: bool,
    /// The serial number of the peer's last ASCONF.
    peer_serial: Tsn,
    cached: VecDeque<AsconfAck>,
    /// Answers to leave, each by the route on which its ASCONF came.
    acks: VecDeque<(Route, AsconfAck)>,
    /// Whether the packet that is read has had an ASCONF before.
    seen_in_packet: bool,
    /// The address of the peer that becomes the primary one once it is confirmed.
    primary_wanted: Option<IpAddr>,
}

/// The ASCONF that is not answered yet.
#[derive(Debug)]
struct Outstanding {
    chunk: Asconf,
    wishes: Vec<Wish>,
    /// Whether it is to leave.
    due: bool,
    /// The path by which it left last.
    path: PathId,
    retries: u32,
}

impl Addresses {
    //= specs/rfc5061.txt#section-5.1
    //# The Sequence Number MUST be
    //# initialized at the start of the association to the same value as
    //# the Initial Transmission Sequence Number (TSN)
    pub(super) fn new(initial_tsn: Tsn, peer_initial_tsn: Tsn) -> Self {
        Self {
            next_serial: initial_tsn,
            next_correlation: 0,
            waiting: VecDeque::new(),
            outstanding: None,
            deaf_to_addresses: false,
            deaf_to_primary: false,
            peer_serial: peer_initial_tsn.minus(1),
            cached: VecDeque::new(),
            acks: VecDeque::new(),
            seen_in_packet: false,
            primary_wanted: None,
        }
    }

    fn wishes(&self) -> impl Iterator<Item = Wish> {
        let under_way = self.outstanding.iter().flat_map(|it| it.wishes.iter().copied());
        under_way.chain(self.waiting.iter().copied())
    }

    /// A packet begins.
    pub(super) fn begin_packet(&mut self) {
        self.seen_in_packet = false;
    }

    /// What must hold between drains.
    pub(super) fn check(&self) {
        assert!(self.waiting.len() <= WAITING_MAX && self.cached.len() <= CACHED_MAX);
        assert!(self.acks.is_empty(), "an ASCONF-ACK leaves when it is due");
    }

    /// Whether an ASCONF waits for its answer.
    pub(super) fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }
}

impl Association {
    /// The local addresses of the association, those that are being removed among them.
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.local
    }

    /// Asks the peer to take `local` as an address of this side as well (RFC 5061 §4.2.1). It is used once the peer agreed
    /// and a HEARTBEAT came back over it; [`Event::LocalAddress`] and [`Event::Path`] tell.
    pub fn add_address(&mut self, local: SocketAddr) -> Result<(), AddressError> {
        let pending = self.can_change()?;
        let going = pending.contains(&Wish::Remove(local));
        let coming = pending.contains(&Wish::Add(local));
        if coming || (self.local.contains(&local) && !going) || !is_unicast(local.ip()) {
            return Err(AddressError::InUse);
        }
        let adds = pending.iter().filter(|wish| matches!(wish, Wish::Add(_))).count();
        if self.local.len() + adds >= PATHS_MAX {
            return Err(AddressError::TooMany);
        }
        if best_partner(local, &self.peers(), |peer| self.config.allows(local.ip(), peer.ip())).is_none() {
            return Err(AddressError::NoPath);
        }
        self.wish(Wish::Add(local))
    }

    /// Asks the peer to forget `local`, by which nothing leaves from now on (RFC 5061 §4.2.2).
    pub fn remove_address(&mut self, local: SocketAddr) -> Result<(), AddressError> {
        let pending = self.can_change()?;
        let there = self.local.contains(&local) || pending.contains(&Wish::Add(local));
        if !there || pending.contains(&Wish::Remove(local)) {
            return Err(AddressError::NoSuchAddress);
        }
        //= specs/rfc5061.txt#section-5.3
        //# F5)  An endpoint MUST NOT delete its last remaining IP address from
        //# an association.
        let mut left = self.local.clone();
        for wish in &pending {
            match wish {
                Wish::Add(address) => left.push(*address),
                Wish::Remove(address) => left.retain(|it| it != address),
                Wish::Prefer(_) => {}
            }
        }
        let peers = self.peers();
        let reaches = |own: &SocketAddr| {
            best_partner(*own, &peers, |peer| self.config.allows(own.ip(), peer.ip())).is_some()
        };
        left.retain(|it| *it != local && reaches(it));
        if left.is_empty() {
            return Err(AddressError::Last);
        }
        self.wish(Wish::Remove(local))
    }

    /// Asks the peer to send to `local` first (SCTP_SET_PEER_PRIMARY_ADDR, RFC 6458 §8.3.1).
    pub fn set_peer_primary(&mut self, local: SocketAddr) -> Result<(), AddressError> {
        let pending = self.can_change()?;
        //= specs/rfc5061.txt#section-5.4
        //# A sender MUST only send a set
        //# primary request to an address that is already considered part of the
        //# association.
        if !self.local.contains(&local) && !pending.contains(&Wish::Add(local)) {
            return Err(AddressError::NoSuchAddress);
        }
        self.wish(Wish::Prefer(local))
    }

    /// What was asked for already, if more may be.
    fn can_change(&self) -> Result<Vec<Wish>, AddressError> {
        let State::Up(up) = &self.state else { return Err(AddressError::NotUp) };
        if !matches!(self.shutdown, Shutdown::No | Shutdown::Pending | Shutdown::Received) {
            return Err(AddressError::NotUp);
        }
        if !self.has_asconf() || up.addresses.deaf_to_addresses && up.addresses.deaf_to_primary {
            return Err(AddressError::NotSupported);
        }
        if up.addresses.waiting.len() >= WAITING_MAX {
            return Err(AddressError::TooMany);
        }
        Ok(up.addresses.wishes().collect())
    }

    fn wish(&mut self, wish: Wish) -> Result<(), AddressError> {
        let State::Up(up) = &mut self.state else { return Err(AddressError::NotUp) };
        let deaf = match wish {
            Wish::Prefer(_) => up.addresses.deaf_to_primary,
            Wish::Add(_) | Wish::Remove(_) => up.addresses.deaf_to_addresses,
        };
        if deaf {
            return Err(AddressError::NotSupported);
        }
        up.addresses.waiting.push_back(wish);
        self.stirred = true;
        Ok(())
    }

    /// Whether both sides take ASCONF, which they do only if both authenticate.
    fn has_asconf(&self) -> bool {
        self.state.up().is_some_and(|up| up.extensions.asconf) && self.auth.is_agreed()
    }

    /// Whether an ASCONF of the peer's is looked at at all.
    pub(crate) fn takes_asconf(&self) -> bool {
        matches!(self.state, State::Up(_)) && self.has_asconf()
    }

    /// The peer's addresses.
    pub(super) fn peers(&self) -> Vec<SocketAddr> {
        let mut peers: Vec<SocketAddr> = Vec::new();
        for path in self.paths.iter().filter(|path| path.state != PathState::Removed) {
            if peers.iter().all(|peer| peer.ip() != path.peer.ip()) {
                peers.push(path.peer);
            }
        }
        peers
    }

    /// The local addresses that are not being removed.
    fn staying(&self) -> Vec<SocketAddr> {
        self.local.iter().copied().filter(|local| !self.is_leaving(*local)).collect()
    }

    /// Whether an ASCONF that deletes this local address is under way.
    pub(super) fn is_leaving(&self, local: SocketAddr) -> bool {
        let outstanding = self.state.up().and_then(|up| up.addresses.outstanding.as_ref());
        outstanding.is_some_and(|it| it.wishes.contains(&Wish::Remove(local)))
    }

    /// Makes a path of these addresses, of which nothing is known; `None` if there are as many as can be.
    fn add_path(&mut self, route: Route) -> Option<PathId> {
        let auth_len = self.paths[0].auth_len;
        let free = self.paths.iter().position(|path| path.state == PathState::Removed);
        let index = free.unwrap_or(self.paths.len());
        if index >= PATHS_MAX {
            return None;
        }
        let mut path = Path::new(route, PathState::Unconfirmed, &self.config);
        path.auth_len = auth_len;
        if index < self.paths.len() {
            self.paths[index] = path;
        } else {
            self.paths.push(path);
            self.timers.grow(self.paths.len());
            if let State::Up(up) = &mut self.state {
                up.sent.grow(self.paths.len());
            }
        }
        self.moved = true;
        Some(PathId(index as u8))
    }

    /// Whether paths came or went since this was asked last.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Asks after a path whose state is not known, at once.
    fn begin_verification(&mut self, now: Time, id: PathId) {
        //= specs/rfc5061.txt#section-5.3
        //# F14) All addresses added by the reception of an ASCONF Chunk MUST be
        //# put into the UNCONFIRMED state and MUST have path verification
        //# performed on them before the address can be used as described in
        //# [RFC4960], Section 5.4.
        self.timers.arm(Timer::Heartbeat(id), now);
    }

    /// Ends the paths that `doomed` names; what is outstanding on them goes on by others, of which there is at least one.
    fn remove_paths(&mut self, doomed: impl Fn(&Path) -> bool) {
        let State::Up(up) = &mut self.state else { return };
        let ids: Vec<_> = (0..self.paths.len())
            .map(|index| PathId(index as u8))
            .filter(|id| {
                let path = &self.paths[usize::from(id.0)];
                path.state != PathState::Removed && doomed(path)
            })
            .collect();
        for id in &ids {
            self.paths[usize::from(id.0)].state = PathState::Removed;
        }
        let chosen = choose(&self.paths, up.primary, Purpose::New);
        let there = |state: PathState| self.paths.iter().position(|path| path.state == state);
        let home = if self.paths[usize::from(chosen.0)].state == PathState::Removed {
            PathId(there(PathState::Unconfirmed).expect("another address is left, and it has a path") as u8)
        } else {
            chosen
        };
        for id in ids {
            let path = &mut self.paths[usize::from(id.0)];
            path.flight_bytes -= up.sent.rehome(id, home);
            debug_assert_eq!(path.flight_bytes, 0, "nothing is in flight by a path that is gone");
            path.retire();
            self.timers.stop_path(id);
            up.control.heartbeat_acks.retain(|(by, _)| *by != id);
            up.forward.rehome(id, home);
            if let Some(reconfiguration) = &mut up.reconfiguration {
                reconfiguration.rehome(id, home);
            }
            up.sack_avoids = up.sack_avoids.filter(|by| *by != id);
            for by in [&mut up.primary, &mut up.sack_path].into_iter().chain(&mut up.control.cookie_ack) {
                if *by == id {
                    *by = home;
                }
            }
            self.events.push_back(Event::Path(id, PathState::Removed));
        }
        self.stirred = true;
        self.moved = true;
    }

    /// Gives each address of either side that has no path the best there is.
    fn pair_leftovers(&mut self, now: Time) {
        let (locals, peers) = (self.staying(), self.peers());
        let has = |association: &Self, is: &dyn Fn(&Path) -> bool| {
            association.paths.iter().any(|path| path.state != PathState::Removed && is(path))
        };
        for local in &locals {
            if !has(self, &|path| path.local == *local)
                && let Some(peer) =
                    best_partner(*local, &peers, |peer| self.config.allows(local.ip(), peer.ip()))
                && let Some(id) = self.add_path(Route { local: *local, peer })
            {
                self.begin_verification(now, id);
            }
        }
    }

    /// Ends the paths of local addresses that go, unless there are no others; the peer's addresses keep a path each.
    fn end_paths_of(&mut self, now: Time, going: &[SocketAddr]) {
        let locals: Vec<_> = self.staying().into_iter().filter(|local| !going.contains(local)).collect();
        let peers = self.peers();
        // Where there is room only once they are gone, the second time does it.
        for _ in 0..2 {
            for &peer in &peers {
                let stays = |path: &Path| {
                    path.state != PathState::Removed && path.peer == peer && !going.contains(&path.local)
                };
                if !self.paths.iter().any(stays)
                    && let Some(local) =
                        best_partner(peer, &locals, |local| self.config.allows(local.ip(), peer.ip()))
                    && let Some(id) = self.add_path(Route { local, peer })
                {
                    self.begin_verification(now, id);
                }
            }
            let leaves = |path: &Path| going.contains(&path.local);
            if self.paths.iter().any(|path| path.state != PathState::Removed && !leaves(path)) {
                self.remove_paths(leaves);
            }
        }
    }

    /// The next ASCONF, if there is something to ask for and nothing is under way.
    fn open_asconf(&mut self, now: Time) {
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc5061.txt#section-5.1.1
        //# C4)  Both ASCONF and ASCONF-ACK Chunks MUST NOT be sent in any SCTP
        //# state except ESTABLISHED, SHUTDOWN-PENDING, SHUTDOWN-RECEIVED,
        //# and SHUTDOWN-SENT.
        if !matches!(self.shutdown, Shutdown::No | Shutdown::Pending | Shutdown::Received) {
            return;
        }
        //= specs/rfc5061.txt#section-5.1.1
        //# If a sender, after
        //# sending an ASCONF chunk, decides it needs to transfer another
        //# ASCONF Chunk, it MUST wait until the ASCONF-ACK Chunk returns
        //# from the previous ASCONF Chunk before sending a subsequent
        //# ASCONF.
        let addresses = &mut up.addresses;
        if addresses.outstanding.is_some() || addresses.waiting.is_empty() {
            return;
        }
        let count = addresses.waiting.len().min(REQUESTS_MAX);
        let wishes: Vec<_> = addresses.waiting.drain(..count).collect();
        //= specs/rfc5061.txt#section-5.1
        //# A1)  Create an ASCONF Chunk as defined in Section 4.1.1.  The chunk
        //# MUST contain all of the TLV(s) of information necessary to be
        //# sent to the remote endpoint, and unique correlation identities
        //# for each request.
        let mut requests = Vec::new();
        for wish in &wishes {
            let change = match wish {
                Wish::Add(address) => Change::Add(address.ip().to_canonical()),
                Wish::Remove(address) => Change::Delete(address.ip().to_canonical()),
                Wish::Prefer(address) => Change::SetPrimary(address.ip().to_canonical()),
            };
            requests.push(Request { correlation: addresses.next_correlation, change });
            addresses.next_correlation = addresses.next_correlation.wrapping_add(1);
        }
        //= specs/rfc5061.txt#section-5.1
        //# A2)  A Sequence Number MUST be assigned to the Chunk.  The Sequence
        //# Number MUST be larger by one.
        let serial = addresses.next_serial;
        addresses.next_serial = serial.next();
        let chunk = Asconf { serial, address: None, requests };
        let removal = |wish: &&Wish| matches!(wish, Wish::Remove(_));
        let going: Vec<_> = wishes.iter().filter(removal).map(|wish| wish.address()).collect();
        addresses.outstanding =
            Some(Outstanding { chunk, wishes: wishes.clone(), due: true, path: up.primary, retries: 0 });
        //= specs/rfc5061.txt#section-5.3
        //# This means that until such time as the ASCONF
        //# containing the add is acknowledged, the sender MUST NOT use the
        //# new IP address as a source for ANY SCTP packet except on
        //# carrying an ASCONF Chunk.
        for wish in &wishes {
            if let Wish::Add(local) = *wish
                && !going.contains(&local)
                && let Some(peer) =
                    best_partner(local, &self.peers(), |peer| self.config.allows(local.ip(), peer.ip()))
                && let Some(id) = self.add_path(Route { local, peer })
            {
                self.paths[usize::from(id.0)].awaits_ack = true;
            }
        }
        //= specs/rfc5061.txt#section-5.3
        //# F4)  When deleting an IP address from an association, the IP address
        //# MUST be considered a valid destination address for the reception
        //# of SCTP packets until the ASCONF-ACK arrives and MUST NOT be
        //# used as a source address for any subsequent packets.
        if !going.is_empty() {
            self.end_paths_of(now, &going);
        }
        let State::Up(up) = &self.state else { return };
        let known = self.staying().first().or(self.local.first()).map(SocketAddr::ip);
        let path = self.asconf_path(up.primary, 0);
        let source = self.paths[usize::from(path.0)].local;
        //= specs/rfc5061.txt#section-4.1.1
        //# The address is an address of the sender of the ASCONF
        //# Chunk; the address MUST be considered part of the association by the
        //# peer endpoint (the receiver of the ASCONF Chunk).
        let address = if self.local.contains(&source) { Some(source.ip()) } else { known };
        if let State::Up(up) = &mut self.state
            && let Some(outstanding) = &mut up.addresses.outstanding
        {
            outstanding.chunk.address = address.map(|ip| ip.to_canonical());
            outstanding.path = path;
        }
    }

    /// By which path an ASCONF leaves that was repeated so often: never one whose address it deletes.
    fn asconf_path(&self, primary: PathId, retries: u32) -> PathId {
        let of = |wanted: &dyn Fn(&Path) -> bool| {
            let ids = (0..self.paths.len()).map(|index| PathId(index as u8));
            ids.filter(|id| wanted(&self.paths[usize::from(id.0)])).collect::<Vec<_>>()
        };
        let current = choose(&self.paths, primary, Purpose::New);
        let mut candidates: Vec<_> = of(&|path| path.is_usable());
        candidates.sort_by_key(|id| (*id != current, *id));
        // An address that is being added may be the only one from which anything still gets through (§5.3.2).
        candidates.extend(of(&|path| path.awaits_ack));
        if candidates.is_empty() {
            candidates = of(&|path| path.state != PathState::Removed);
        }
        candidates.get(retries as usize % candidates.len().max(1)).copied().unwrap_or(primary)
    }

    /// ASCONF-ACKs and ASCONF that are to leave, each in packets of their own.
    pub(super) fn transmit_asconf(&mut self, now: Time) -> Option<Transmit> {
        if let Some(transmit) = self.transmit_asconf_acks() {
            return Some(transmit);
        }
        self.open_asconf(now);
        let State::Up(up) = &mut self.state else { return None };
        let (tag, primary) = (up.peer_tag, up.primary);
        let outstanding = up.addresses.outstanding.as_mut().filter(|it| it.due)?;
        outstanding.due = false;
        let (chunk, retries) = (Chunk::Asconf(outstanding.chunk.clone()), outstanding.retries);
        let path = self.asconf_path(primary, retries);
        if let State::Up(up) = &mut self.state
            && let Some(outstanding) = &mut up.addresses.outstanding
        {
            outstanding.path = path;
        }
        self.begin(path, tag);
        self.builder.push(&chunk);
        //= specs/rfc5061.txt#section-5.1
        //# A4)  The sender MUST Start a T-4 Retransmission Timeout (RTO) timer,
        //# using the RTO value of the selected destination address
        self.timers.arm(Timer::T4Asconf, now + self.paths[usize::from(path.0)].rtt.rto());
        Some(self.finish(path))
    }

    fn transmit_asconf_acks(&mut self) -> Option<Transmit> {
        let State::Up(up) = &mut self.state else { return None };
        let (route, tag) = (up.addresses.acks.front()?.0, up.peer_tag);
        let acks = std::mem::take(&mut up.addresses.acks);
        let (acks, others): (VecDeque<_>, VecDeque<_>) = acks.into_iter().partition(|(by, _)| *by == route);
        up.addresses.acks = others;
        // The route need not be one of the paths: it is where the answer is waited for.
        let is = |path: &Path| path.state != PathState::Removed && path.peer == route.peer;
        let path = self.paths.iter().position(is).map_or(up.primary, |index| PathId(index as u8));
        self.begin(path, tag);
        for (_, ack) in acks {
            let ack = Chunk::AsconfAck(ack);
            //= specs/rfc5061.txt#section-5.2
            //# E7)  While processing the ASCONF Chunks in the SCTP packet, if the
            //# response packet will exceed the PMTU of the return path, the
            //# receiver MUST stop adding additional ASCONF-ACKs into the
            //# response packet but MUST continue to process all of the ASCONF
            //# Chunks, saving ASCONF-ACK Chunk responses in its cached copy.
            if ack.padded_len() > self.builder.room_for(ack.kind()) {
                break;
            }
            self.builder.push(&ack);
        }
        if self.builder.is_empty() {
            self.builder.cancel();
            return None;
        }
        let transmit = self.finish(path);
        //= specs/rfc5061.txt#section-5.2
        //# The destination address of the SCTP packet
        //# containing the ASCONF-ACK Chunks MUST be the source address of
        //# the SCTP packet that held the ASCONF Chunks.
        let from = if self.is_leaving(route.local) { transmit.from } else { route.local };
        Some(Transmit { from, to: route.peer, ..transmit })
    }

    /// T4 ran out (RFC 5061 §5.1 B1 to B5).
    pub(super) fn on_t4(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let Some(outstanding) = &mut up.addresses.outstanding else { return };
        //= specs/rfc5061.txt#section-5.1
        //# B4)  Re-transmit the ASCONF Chunk last sent and if possible choose an
        //# alternate destination address (please refer to [RFC4960],
        //# Section 6.4.1).
        outstanding.due = true;
        outstanding.retries += 1;
        let path = outstanding.path;
        //= specs/rfc5061.txt#section-5.1
        //# B3)  Backoff the destination address RTO value to which the ASCONF
        //# chunk was sent by doubling the RTO timer value.
        self.paths[usize::from(path.0)].rtt.back_off();
        //= specs/rfc5061.txt#section-5.1
        //# B2)  Increment the association error counters and perform endpoint
        //# failure detection on the association as defined in [RFC4960],
        //# Sections 8.1 and 8.2.
        self.count_asconf_error(path);
    }

    /// An ASCONF-ACK came, and it was authentic.
    pub(super) fn on_asconf_ack(&mut self, now: Time, ack: &AsconfAck) {
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        let answers = addresses.outstanding.as_ref().is_some_and(|it| it.chunk.serial == ack.serial);
        if !answers {
            //= specs/rfc5061.txt#section-5.3
            //# F0)  If an endpoint receives an ASCONF-ACK that is greater than or
            //# equal to the next Sequence Number to be used but no ASCONF Chunk
            //# is outstanding, the endpoint MUST ABORT the association.
            //= specs/rfc5061.txt#section-4.3.4
            //# Sequence Numbers smaller than the last
            //# acked Sequence Number are silently ignored.
            let ahead = ack.serial.distance_from(addresses.next_serial);
            if ahead < 1 << 31 {
                self.on_violation(Violation::AsconfAckOfNothing);
            }
            return;
        }
        let Some(Outstanding { chunk, wishes, path, .. }) = addresses.outstanding.take() else { return };
        //= specs/rfc5061.txt#section-5.1
        //# A5)  When the ASCONF-ACK that acknowledges the Sequence Number last
        //# sent arrives, the sender MUST stop the T-4 RTO timer, and clear
        //# the appropriate association and destination error counters as
        //# defined in [RFC4960], Sections 8.1 and 8.2.
        self.timers.stop(Timer::T4Asconf);
        up.errors = 0;
        self.paths[usize::from(path.0)].errors = 0;
        //= specs/rfc5061.txt#section-5.1
        //# A7)  If an error response is received for a TLV parameter, all TLVs
        //# with no response before the failed TLV are considered successful
        //# if not reported.  All TLVs after the failed response are
        //# considered unsuccessful unless a specific success indication is
        //# present for the parameter.
        let mut failed = false;
        let mut outcomes = Vec::new();
        for (request, wish) in chunk.requests.iter().zip(wishes) {
            let said = ack.responses.iter().find(|response| response.correlation == request.correlation);
            let refused = match said.map(|response| &response.outcome) {
                Some(Outcome::Success) => None,
                Some(Outcome::Error(causes)) => {
                    failed = true;
                    Some(causes.first().cloned())
                }
                Some(Outcome::Other { .. }) | None => failed.then_some(None),
            };
            outcomes.push((wish, refused));
        }
        for (wish, refused) in outcomes {
            self.settle_wish(now, wish, refused);
        }
        self.pair_leftovers(now);
        self.stirred = true;
    }

    /// What this side asked for came about, or was refused.
    fn settle_wish(&mut self, now: Time, wish: Wish, refused: Option<Option<Cause>>) {
        let done = match (wish, &refused) {
            (Wish::Add(local), None) => {
                //= specs/rfc5061.txt#section-5.3
                //# F2)  After the ASCONF-ACK of an IP address Add arrives, the endpoint
                //# MAY begin using the added IP address as a source address for any
                //# type of SCTP chunk.
                if !self.local.contains(&local) {
                    self.local.push(local);
                }
                for index in 0..self.paths.len() {
                    let path = &mut self.paths[index];
                    if path.local == local && std::mem::take(&mut path.awaits_ack) {
                        self.begin_verification(now, PathId(index as u8));
                    }
                }
                Some(AddressChange::Added)
            }
            (Wish::Add(local), Some(_)) => {
                //= specs/rfc5061.txt#section-5.3
                //# In other words,
                //# if the endpoint does not ABORT
                //# the association, it must consider the add attempt failed and NOT
                //# use this address since its peer will treat SCTP packets destined
                //# to the address as Out Of The Blue packets.
                // What was to go in its place stays.
                self.pair_leftovers(now);
                self.end_paths_of(now, &[local]);
                None
            }
            (Wish::Remove(local), None) => {
                self.local.retain(|it| *it != local);
                self.end_paths_of(now, &[local]);
                Some(AddressChange::Removed)
            }
            (Wish::Prefer(_), None) => Some(AddressChange::MadePrimary),
            // One that was to go stays, and gets a path again.
            (Wish::Remove(_) | Wish::Prefer(_), Some(_)) => None,
        };
        let change = match (done, &refused) {
            (Some(done), _) => done,
            (None, cause) => AddressChange::Refused(cause.clone().flatten()),
        };
        self.events.push_back(Event::LocalAddress(wish.address(), change));
        if let (Some(Some(Cause::UnrecognizedParameters(_))), State::Up(up)) = (&refused, &mut self.state) {
            match wish {
                //= specs/rfc5061.txt#section-5.3
                //# F3a) If an endpoint receives an Error Cause TLV indicating that the
                //# IP address Add or IP address Deletion parameters was not
                //# understood, the endpoint MUST consider the operation failed and
                //# MUST NOT attempt to send any subsequent Add or Delete requests
                //# to the peer.
                Wish::Add(_) | Wish::Remove(_) => up.addresses.deaf_to_addresses = true,
                //= specs/rfc5061.txt#section-5.3
                //# F3b) If an endpoint receives an Error Cause TLV indicating that the
                //# IP address Set Primary IP Address parameter was not understood,
                //# the endpoint MUST consider the operation failed and MUST NOT
                //# attempt to send any subsequent Set Primary IP Address requests
                //# to the peer.
                Wish::Prefer(_) => up.addresses.deaf_to_primary = true,
            }
        }
        self.drop_wishes();
    }

    /// Gives up what the peer turned out not to know.
    fn drop_wishes(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        let (deaf_to_addresses, deaf_to_primary) = (addresses.deaf_to_addresses, addresses.deaf_to_primary);
        let hopeless = |wish: &Wish| match wish {
            Wish::Prefer(_) => deaf_to_primary,
            Wish::Add(_) | Wish::Remove(_) => deaf_to_addresses,
        };
        for wish in addresses.waiting.iter().filter(|wish| hopeless(wish)) {
            self.events.push_back(Event::LocalAddress(wish.address(), AddressChange::Refused(None)));
        }
        addresses.waiting.retain(|wish| !hopeless(wish));
    }

    /// The peer said that it does not know ASCONF (RFC 5061 §5.1 A9).
    //= specs/rfc5061.txt#section-5.1
    //# A9)  If the peer responds to an ASCONF with an ERROR Chunk reporting
    //# that it did not recognize the ASCONF Chunk Type, the sender of
    //# the ASCONF MUST NOT send any further ASCONF Chunks and MUST stop
    //# its T-4 timer.
    pub(super) fn on_asconf_unknown(&mut self, now: Time) {
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        (addresses.deaf_to_addresses, addresses.deaf_to_primary) = (true, true);
        self.timers.stop(Timer::T4Asconf);
        let outstanding = addresses.outstanding.take();
        for wish in outstanding.into_iter().flat_map(|it| it.wishes) {
            self.settle_wish(now, wish, Some(None));
        }
        self.drop_wishes();
        self.pair_leftovers(now);
    }

    /// An ASCONF came by `route`, and it was authentic.
    pub(super) fn on_asconf(&mut self, now: Time, route: Route, asconf: &Asconf) {
        let acks_allowed = !matches!(self.shutdown, Shutdown::AckSent { .. });
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        let first = !std::mem::replace(&mut addresses.seen_in_packet, true);
        if !acks_allowed {
            return;
        }
        if asconf.serial == addresses.peer_serial.next() {
            //= specs/rfc5061.txt#section-5.2
            //# V5)  Update the 'Peer-Sequence-Number' to the value found in the
            //# Sequence Number field.
            addresses.peer_serial = asconf.serial;
            if first {
                addresses.cached.clear();
            }
            let ack = AsconfAck { serial: asconf.serial, responses: self.process(now, route, asconf) };
            let State::Up(up) = &mut self.state else { return };
            let addresses = &mut up.addresses;
            if addresses.cached.len() >= CACHED_MAX {
                addresses.cached.pop_front();
            }
            addresses.cached.push_back(ack.clone());
            addresses.acks.push_back((route, ack));
        } else if !asconf.serial.after(addresses.peer_serial) {
            //= specs/rfc5061.txt#section-5.2
            //# E2)  If the value found in the Sequence Number is less than the
            //# ('Peer- Sequence-Number' + 1), simply skip to the next ASCONF,
            //# and include in the outbound response packet any previously
            //# cached ASCONF-ACK response that was sent and saved that matches
            //# the Sequence Number of the ASCONF.
            if let Some(ack) = addresses.cached.iter().find(|ack| ack.serial == asconf.serial)
                && addresses.acks.len() < CACHED_MAX
            {
                addresses.acks.push_back((route, ack.clone()));
            }
        }
        //= specs/rfc5061.txt#section-5.2
        //# E5)  Otherwise, the ASCONF Chunk is discarded since it must be either
        //# a stale packet or from an attacker.
        self.stirred = true;
    }

    /// Does what the peer asks for, one after the other; what it is told of it.
    fn process(&mut self, now: Time, route: Route, asconf: &Asconf) -> Vec<Response> {
        let mut responses: Vec<Response> = Vec::new();
        let (mut len, mut failing) = (0, false);
        //= specs/rfc5061.txt#section-5.2
        //# V1)  Process the TLVs contained within the Chunk performing the
        //# appropriate actions as indicated by each TLV type.  The
        //# TLVs MUST be processed in order within the Chunk.
        for request in &asconf.requests {
            let quote = || request.quoted();
            let result = match request.change {
                //= specs/rfc5061.txt#section-5.3
                //# The
                //# receiver MUST NOT reject an ADD and then accept a subsequent
                //# DELETE of an IP address in the same ASCONF Chunk.
                Change::Add(_) | Change::Delete(_) if failing => Err(Cause::ResourceShortage(quote())),
                Change::Add(ip) => self.on_add(now, route, ip, quote),
                Change::Delete(ip) => self.on_delete(now, route, ip, quote),
                Change::SetPrimary(ip) => self.on_set_primary(route, ip, quote),
                Change::Other { kind: Change::ADD | Change::DELETE | Change::SET_PRIMARY, .. } => {
                    Err(Cause::InvalidMandatoryParameter)
                }
                Change::Other { kind, .. } => {
                    let unrecognized = Unrecognized::of_parameter(kind);
                    //= specs/rfc5061.txt#section-5.2
                    //# To indicate an
                    //# unrecognized parameter, Cause Type 8 should be used as
                    //# defined in the ERROR in Section 3.3.10.8, [RFC4960].
                    let report = unrecognized.reports().then(|| Cause::UnrecognizedParameters(quote()));
                    push(&mut responses, &mut len, request.correlation, report);
                    if unrecognized.stops() {
                        break;
                    }
                    continue;
                }
            };
            failing |= result.is_err() && !matches!(request.change, Change::SetPrimary(_));
            push(&mut responses, &mut len, request.correlation, result.err());
        }
        responses
    }

    fn on_add(
        &mut self,
        now: Time,
        route: Route,
        ip: IpAddr,
        quote: impl Fn() -> bytes::Bytes,
    ) -> Result<(), Cause> {
        //= specs/rfc5061.txt#section-4.2.1
        //# If the address 0.0.0.0 or
        //# ::0 is provided, the source address of the packet MUST be added.
        let peer = if ip.is_unspecified() { route.peer } else { SocketAddr::new(ip, route.peer.port()) };
        let peers = self.peers();
        if peers.iter().any(|known| known.ip() == peer.ip()) {
            return Ok(());
        }
        //= specs/rfc5061.txt#section-4.2.1
        //# This parameter MUST NOT
        //# contain a broadcast or multicast address.
        if !is_unicast(peer.ip()) || !reaches(peer.ip(), route.peer.ip()) {
            return Err(Cause::NoAuthorization(quote()));
        }
        let mut locals = self.staying();
        if !locals.contains(&route.local) && !self.is_leaving(route.local) {
            locals.push(route.local);
        }
        if best_partner(peer, &locals, |_| true).is_some()
            && best_partner(peer, &locals, |local| self.config.allows(local.ip(), peer.ip())).is_none()
        {
            return Err(Cause::NoAuthorization(quote()));
        }
        //= specs/rfc5061.txt#section-5.3
        //# F9)  If an endpoint receives an ADD IP Address request and does not
        //# have the local resources to add this new address to the
        //# association, it MUST return an Error Cause TLV set to the new
        //# error code 'Operation Refused Due to Resource Shortage'.
        let shortage = || Cause::ResourceShortage(quote());
        let local = best_partner(peer, &locals, |local| self.config.allows(local.ip(), peer.ip()))
            .ok_or_else(shortage)?;
        let id = self.add_path(Route { local, peer }).ok_or_else(shortage)?;
        self.begin_verification(now, id);
        self.events.push_back(Event::PeerAddress(peer, AddressChange::Added));
        Ok(())
    }

    fn on_delete(
        &mut self,
        now: Time,
        route: Route,
        ip: IpAddr,
        quote: impl Fn() -> bytes::Bytes,
    ) -> Result<(), Cause> {
        let peers = self.peers();
        let source = route.peer.ip();
        let going: Vec<_> = peers
            .iter()
            .copied()
            //= specs/rfc5061.txt#section-4.2.2
            //# If the address 0.0.0.0
            //# or ::0 is provided, all addresses of the peer except the source
            //# address of the packet MUST be deleted.
            .filter(|peer| if ip.is_unspecified() { peer.ip() != source } else { peer.ip() == ip })
            .collect();
        if going.is_empty() {
            return Ok(());
        }
        //= specs/rfc5061.txt#section-5.3
        //# F7)  If a request is received to delete the last remaining IP address
        //# of a peer endpoint, the receiver MUST send an Error Cause TLV
        //# with the Error Cause set to the new error code 'Request to
        //# Delete Last Remaining IP Address'.  The requested delete MUST
        //# NOT be performed or acted upon, other than to send the ASCONF-
        //# ACK.
        if going.len() == peers.len() {
            return Err(Cause::DeleteLastAddress(quote()));
        }
        //= specs/rfc5061.txt#section-5.3
        //# F8)  If a request is received to delete an IP address that is also
        //# the source address of the IP packet that contained the ASCONF
        //# chunk, the receiver MUST reject this request.
        if ip == source {
            return Err(Cause::DeleteSourceAddress(quote()));
        }
        //= specs/rfc5061.txt#section-5.3
        //# F13) When an endpoint receives a valid request to DELETE an IP
        //# address, the endpoint MUST consider the address no longer part
        //# of the association.  It MUST NOT send SCTP packets for the
        //# association to that address and it MUST treat subsequent packets
        //# received from that address as Out Of The Blue.
        self.remove_paths(|path| going.iter().any(|peer| peer.ip() == path.peer.ip()));
        self.pair_leftovers(now);
        for peer in going {
            self.events.push_back(Event::PeerAddress(peer, AddressChange::Removed));
        }
        Ok(())
    }

    fn on_set_primary(
        &mut self,
        route: Route,
        ip: IpAddr,
        quote: impl Fn() -> bytes::Bytes,
    ) -> Result<(), Cause> {
        let ip = if ip.is_unspecified() { route.peer.ip() } else { ip };
        let to_it = |path: &Path| path.state != PathState::Removed && path.peer.ip() == ip;
        //= specs/rfc5061.txt#section-5.4
        //# If a request arrives that asks the receiver to
        //# set an address as primary that does not exist, the receiver SHOULD
        //# NOT honor the request, leaving its existing primary address
        //# unchanged.
        if !self.paths.iter().any(to_it) {
            return Err(Cause::UnresolvableAddress(quote()));
        }
        let State::Up(up) = &mut self.state else { return Ok(()) };
        match self.paths.iter().position(|path| to_it(path) && path.is_usable()) {
            Some(index) => {
                up.primary = PathId(index as u8);
                up.addresses.primary_wanted = None;
                let peer = self.paths[index].peer;
                self.events.push_back(Event::PeerAddress(peer, AddressChange::MadePrimary));
            }
            // Once it is known to be there.
            None => up.addresses.primary_wanted = Some(ip),
        }
        Ok(())
    }

    /// A path was confirmed, which the peer may have asked for as its primary one.
    pub(super) fn on_confirmed(&mut self, id: PathId) {
        let State::Up(up) = &mut self.state else { return };
        let peer = self.paths[usize::from(id.0)].peer;
        if up.addresses.primary_wanted.take_if(|ip| *ip == peer.ip()).is_some() {
            up.primary = id;
            self.events.push_back(Event::PeerAddress(peer, AddressChange::MadePrimary));
        }
        // The primary path is gone and another stood in for it, or none did.
        let usable = |id: PathId, paths: &[Path]| paths[usize::from(id.0)].is_usable();
        if self.paths[usize::from(up.primary.0)].state == PathState::Unconfirmed && usable(id, &self.paths) {
            up.primary = id;
        }
        if !usable(up.sack_path, &self.paths) {
            up.sack_path = id;
        }
    }
}

/// Puts what became of a request into the answer, if it has to be said.
//= specs/rfc5061.txt#section-5.2
//# V3)  All responses MUST copy the ASCONF-Request Correlation ID
//# field received in the ASCONF parameter from the TLV being
//# responded to, into the ASCONF-Request Correlation ID field
//# in the response parameter.
fn push(responses: &mut Vec<Response>, len: &mut usize, correlation: u32, refused: Option<Cause>) {
    let outcome = match refused {
        // Behind a refusal what was done has to be named (§5.1 A7).
        None if responses.iter().all(|it| it.outcome == Outcome::Success) => return,
        None => Outcome::Success,
        Some(cause) => Outcome::Error(vec![cause]),
    };
    let mut response = Response { correlation, outcome };
    if *len + response.encoded_len() > ACK_LEN_MAX && response.outcome != Outcome::Success {
        // What does not fit is refused without a quotation: no request is shorter than that.
        response.outcome = Outcome::Error(Vec::new());
    }
    *len += response.encoded_len().next_multiple_of(4);
    responses.push(response);
}
