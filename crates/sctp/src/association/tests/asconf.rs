//! Dynamic addresses between two endpoints, and forging or unusual peers (RFC 5061).

mod answers;
mod requests;

use super::*;
use crate::association::asconf::addresses::Addresses;
use crate::association::state::State;
use crate::association::{AddressChange, AddressError, Violation};
use crate::config::{AllowedPath, AuthConfig};
use crate::ids::{PathId, Tsn};
use crate::stats::{PathState, Phase};
use crate::wire::{
    Asconf, AsconfAck, Auth, Authentic, Cause, Change, HmacId, Init, Outcome, Parameter, Request, Response,
};

fn at(text: &str) -> SocketAddr {
    format!("{text}:9899").parse().unwrap()
}

fn config() -> Config {
    modern().with(|c| c.paths.asconf = true)
}

/// An association with one address on each side; the hosts have further ones.
fn pair() -> Pair {
    pair_of(config(), config())
}

fn pair_of(client: Config, server: Config) -> Pair {
    let mut pair = Pair::between([vec![at("10.1.1.2")], vec![at("10.1.1.1")]], client, server);
    pair.client_addresses.extend([at("10.1.2.2"), at("10.1.3.2")]);
    pair.server_addresses.extend([at("10.1.2.1"), at("10.1.3.1")]);
    pair.run(Duration::from_millis(200));
    assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
    pair.clear_log();
    pair
}

fn ways(pair: &mut Pair, side: Side) -> Vec<(String, String, PathState)> {
    let paths = pair.association(side).paths();
    paths.map(|path| (path.local.ip().to_string(), path.peer.ip().to_string(), path.state)).collect()
}

fn way(local: &str, peer: &str, state: PathState) -> (String, String, PathState) {
    (local.to_owned(), peer.to_owned(), state)
}

fn local_events(pair: &Pair, side: Side) -> Vec<(String, AddressChange)> {
    let events = pair.events(side).iter();
    let local = events.filter_map(|event| match event {
        Event::LocalAddress(address, change) => Some((address.ip().to_string(), change.clone())),
        _ => None,
    });
    local.collect()
}

fn peer_events(pair: &Pair, side: Side) -> Vec<(String, AddressChange)> {
    let events = pair.events(side).iter();
    let peer = events.filter_map(|event| match event {
        Event::PeerAddress(address, change) => Some((address.ip().to_string(), change.clone())),
        _ => None,
    });
    peer.collect()
}

/// Delivers a packet of the client from `from` to the server, signed with the client's key.
fn tell_signed(pair: &mut Pair, from: SocketAddr, chunks: &[Chunk]) {
    let signer = pair.association(Client).auth.signer(0, HmacId::Sha256).unwrap().clone();
    let mut builder = PacketBuilder::new();
    builder.authenticate(Authentic { signer, chunks: chunks.iter().map(Chunk::kind).collect() });
    tell(pair, from, builder, chunks);
}

fn tell(pair: &mut Pair, from: SocketAddr, mut builder: PacketBuilder, chunks: &[Chunk]) {
    builder.begin(pair.last_header.unwrap(), 1_452);
    chunks.iter().for_each(|chunk| builder.push(chunk));
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    let datagram = Datagram { from, to: pair.server_addresses[0], ecn: Ecn::NotEct, payload };
    pair.server.handle(pair.now, datagram);
    pair.drain(Server);
}

/// The serial number that the server expects next.
fn next_serial(pair: &mut Pair) -> Tsn {
    // The client has made no request yet.
    pair.association(Client).initial_tsn
}

fn asking(serial: Tsn, address: &str, changes: Vec<Change>) -> Chunk {
    let requests = changes.into_iter().enumerate();
    let requests =
        requests.map(|(index, change)| Request { correlation: 100 + index as u32, change }).collect();
    Chunk::Asconf(Asconf { serial, address: Some(address.parse().unwrap()), requests })
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The server's ASCONF-ACKs and their destinations.
fn answers(pair: &mut Pair) -> Vec<(SocketAddr, AsconfAck)> {
    let mut answers = Vec::new();
    for ((_, side, packet), route) in pair.log.iter().zip(&pair.routes) {
        for chunk in chunks(packet) {
            if let (Server, Chunk::AsconfAck(ack)) = (*side, chunk) {
                answers.push((route.1, ack));
            }
        }
    }
    pair.clear_log();
    answers
}

fn refusal(pair: &mut Pair) -> Cause {
    let answers = answers(pair);
    assert_eq!(answers.len(), 1, "{answers:?}");
    match &answers[0].1.responses[..] {
        [Response { correlation: 100, outcome: Outcome::Error(causes) }] => causes[0].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_address_that_is_added_takes_over_when_the_first_one_dies() {
    let mut pair = pair();
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_secs(1));
    let active = PathState::Active;
    assert_eq!(
        ways(&mut pair, Client),
        [way("10.1.1.2", "10.1.1.1", active), way("10.1.2.2", "10.1.1.1", active)]
    );
    assert_eq!(
        ways(&mut pair, Server),
        [way("10.1.1.1", "10.1.1.2", active), way("10.1.1.1", "10.1.2.2", active)]
    );
    assert_eq!(local_events(&pair, Client), [("10.1.2.2".to_owned(), AddressChange::Added)]);
    assert_eq!(peer_events(&pair, Server), [("10.1.2.2".to_owned(), AddressChange::Added)]);
    pair.send(Client, 0, pattern(400_000));
    pair.run(Duration::from_millis(15));
    pair.cut.insert(ip("10.1.1.2"));
    assert!(pair.run_until_within(Duration::from_secs(10), |pair| !pair.read(Server, 0).is_empty()));
    assert_eq!(pair.read(Server, 0), [pattern(400_000)]);
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# The receiver
//# MUST use the path-verification procedure for the added
//# address before using that address.  The receiver MUST NOT send
//# packets to the new address except for the corresponding ASCONF-
//# ACK Chunk or HEARTBEAT Chunks for path verification before the
//# new path is verified.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# This means that until such time as the ASCONF
//# containing the add is acknowledged, the sender MUST NOT use the
//# new IP address as a source for ANY SCTP packet except on
//# carrying an ASCONF Chunk.
//= specs/rfc5061.txt#section-5.4
//= type=test
//# The request to set an address as the primary path is an option the
//# receiver SHOULD perform.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# F14) All addresses added by the reception of an ASCONF Chunk MUST be
//# put into the UNCONFIRMED state and MUST have path verification
//# performed on them before the address can be used as described in
//# [RFC4960], Section 5.4.
#[test]
fn only_heartbeats_are_sent_on_an_unconfirmed_path() {
    let mut pair = pair();
    pair.send(Client, 0, pattern(500_000));
    pair.send(Server, 0, pattern(500_000));
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.association(Client).set_peer_primary(at("10.1.2.2")).unwrap();
    assert!(pair.run_until(|p| !p.read(Client, 0).is_empty() && !p.read(Server, 0).is_empty()));
    let position = |wanted: &dyn Fn(Side, &Packet) -> bool| {
        pair.log.iter().position(|(_, side, packet)| wanted(*side, packet)).expect("it left")
    };
    let acked = position(&|side, packet| side == Server && has(packet, AsconfAck::KIND));
    let used = position(&|side, packet| side == Client && has(packet, Chunk::HEARTBEAT_ACK));
    let (mut quiet, mut busy) = (0, 0);
    for (index, ((_, side, packet), route)) in pair.log.iter().zip(&pair.routes).enumerate() {
        let kinds: Vec<_> = chunks(packet).iter().map(Chunk::kind).collect();
        if *side == Client && route.0 == at("10.1.2.2") && index <= acked {
            assert!(kinds.contains(&Asconf::KIND), "{packet}");
        }
        if *side == Server && route.1 == at("10.1.2.2") {
            let asks = |kind: &u8| [Chunk::HEARTBEAT, AsconfAck::KIND, Auth::KIND].contains(kind);
            if index <= used {
                assert!(kinds.iter().all(asks), "{packet}");
                quiet += 1;
            } else {
                busy += u32::from(kinds.contains(&Data::KIND));
            }
        }
    }
    assert!(quiet > 0 && busy > 10, "{quiet}, {busy}");
    let primary = ("10.1.2.2".to_owned(), AddressChange::MadePrimary);
    assert!(peer_events(&pair, Server).contains(&primary) && local_events(&pair, Client).contains(&primary));
    assert_eq!(pair.association(Server).primary(), Some(PathId(1)));
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# F4)  When deleting an IP address from an association, the IP address
//# MUST be considered a valid destination address for the reception
//# of SCTP packets until the ASCONF-ACK arrives and MUST NOT be
//# used as a source address for any subsequent packets.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# F13) When an endpoint receives a valid request to DELETE an IP
//# address, the endpoint MUST consider the address no longer part
//# of the association.  It MUST NOT send SCTP packets for the
//# association to that address and it MUST treat subsequent packets
//# received from that address as Out Of The Blue.
#[test]
fn an_address_is_removed_while_it_carries_data_and_nothing_is_lost_or_doubled() {
    let mut pair = pair();
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_secs(1));
    pair.send(Client, 0, pattern(600_000));
    pair.send(Server, 0, pattern(600_000));
    pair.run(Duration::from_millis(45));
    assert!(pair.association(Client).stats().paths[0].flight_bytes > 0);
    pair.clear_log();
    pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
    assert!(pair.run_until(|p| !p.read(Client, 0).is_empty() && !p.read(Server, 0).is_empty()));
    assert_eq!(pair.read(Server, 0), [pattern(600_000)]);
    assert_eq!(pair.read(Client, 0), [pattern(600_000)]);
    let asked = pair.log.iter().position(|(_, side, packet)| *side == Client && has(packet, Asconf::KIND));
    let acked = pair.log.iter().position(|(_, side, packet)| *side == Server && has(packet, AsconfAck::KIND));
    for (index, ((_, side, packet), route)) in pair.log.iter().zip(&pair.routes).enumerate() {
        let gone = at("10.1.1.2");
        assert!(*side == Server || Some(index) < asked || route.0 != gone, "from it: {packet}");
        assert!(*side == Client || Some(index) < acked || route.1 != gone, "to it: {packet}");
    }
    assert_eq!(ways(&mut pair, Client), [way("10.1.2.2", "10.1.1.1", PathState::Active)]);
    assert_eq!(ways(&mut pair, Server), [way("10.1.1.1", "10.1.2.2", PathState::Active)]);
    assert_eq!(pair.association(Client).local_addresses(), [at("10.1.2.2")]);
    assert_eq!(peer_events(&pair, Server).last(), Some(&("10.1.1.2".to_owned(), AddressChange::Removed)));
    // A number is reused.
    pair.association(Client).add_address(at("10.1.3.2")).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(ways(&mut pair, Client)[0], way("10.1.3.2", "10.1.1.1", PathState::Active));
}

#[test]
fn a_late_copy_of_the_init_is_accepted_after_an_address_was_deleted() {
    let both = ["10.1.1.2", "10.1.2.2"];
    let mut pair = Pair::between([both.map(at).to_vec(), vec![at("10.1.1.1")]], config(), config());
    pair.run(Duration::from_secs(1));
    let init = pair.log.iter().find(|(_, _, packet)| has(packet, Init::KIND)).expect("it was sent").2.clone();
    pair.association(Client).remove_address(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(ways(&mut pair, Server).len(), 1, "it is gone");
    let mut builder = PacketBuilder::new();
    builder.begin(init.header, 1_452);
    chunks(&init).iter().for_each(|chunk| builder.push(chunk));
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    for from in both.map(at) {
        let datagram = Datagram { from, to: at("10.1.1.1"), ecn: Ecn::NotEct, payload: payload.clone() };
        pair.server.handle(pair.now, datagram);
        pair.run(Duration::from_secs(1));
    }
    assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
    assert_eq!(ways(&mut pair, Server).len(), 1);
}

//= specs/rfc5061.txt#section-5.3.2
//= type=test
//# For this
//# reason, the sender MUST fill in the Address Parameter field with an
//# address that is part of the association (in this case, the one being
//# deleted).
//= specs/rfc5061.txt#section-5.3.2
//= type=test
//# The receiver MUST reply to the source address of the packet
//# in this case, which is the new address that was added by the ASCONF
//= specs/rfc5061.txt#section-5.3
//= type=test
//# F6)  An endpoint MUST NOT set an IP header source address for an SCTP
//# packet holding the ASCONF Chunk to be the same as an address
//# being deleted by the ASCONF Chunk.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# To properly find the association, the following procedures SHOULD be
//# followed:
//= specs/rfc5061.txt#section-5.3
//= type=test
//# When building TLV parameters for the ASCONF Chunk that will add or
//# delete IP addresses, the following rules MUST be applied:
//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# The address is an address of the sender of the ASCONF Chunk; the
//# address MUST be considered part of the association by the peer
//# endpoint (the receiver of the ASCONF Chunk).
//= specs/rfc4895.txt#section-6.3
//= type=test
//# If an association is found, it MUST process the AUTH chunk using the
//# STCB from the existing association as described earlier.
#[test]
fn a_host_moves_from_its_only_address_to_another_and_the_transfer_goes_on() {
    for dead in [false, true] {
        let mut pair = pair();
        pair.send(Client, 0, pattern(300_000));
        pair.send(Server, 0, pattern(300_000));
        pair.run(Duration::from_millis(30));
        if dead {
            pair.cut.insert(ip("10.1.1.2"));
        }
        pair.association(Client).add_address(at("10.1.2.2")).unwrap();
        pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
        assert_eq!(pair.association(Client).remove_address(at("10.1.2.2")), Err(AddressError::Last));
        assert!(pair.run_until_within(Duration::from_secs(20), |p| {
            !p.read(Client, 0).is_empty() && !p.read(Server, 0).is_empty()
        }));
        assert_eq!(pair.read(Server, 0), [pattern(300_000)]);
        assert_eq!(pair.read(Client, 0), [pattern(300_000)]);
        assert_eq!(ways(&mut pair, Client), [way("10.1.2.2", "10.1.1.1", PathState::Active)]);
        assert_eq!(ways(&mut pair, Server), [way("10.1.1.1", "10.1.2.2", PathState::Active)]);
        let sent = pair.log.iter().zip(&pair.routes);
        let asconf = |packet: &Packet| match &chunks(packet)[..] {
            [Chunk::Auth(_), Chunk::Asconf(asconf)] => Some(asconf.clone()),
            _ => None,
        };
        let asked: Vec<_> =
            sent.filter_map(|((_, _, packet), route)| Some((asconf(packet)?, route.0))).collect();
        assert!(asked.iter().all(|(it, from)| {
            (it.address, *from) == (Some(ip("10.1.1.2")), at("10.1.2.2")) && it.requests.len() == 2
        }));
    }
}

/// Each host sends its request from its new address, and the answer goes to an address that the other learns at the same
/// moment.
#[test]
fn two_hosts_move_from_their_only_addresses_at_the_same_time() {
    let mut pair = pair();
    pair.send(Client, 0, pattern(300_000));
    pair.send(Server, 0, pattern(300_000));
    pair.run(Duration::from_millis(30));
    for (side, from, to) in [(Client, "10.1.1.2", "10.1.2.2"), (Server, "10.1.1.1", "10.1.2.1")] {
        pair.association(side).add_address(at(to)).unwrap();
        pair.association(side).remove_address(at(from)).unwrap();
    }
    assert!(pair.run_until_within(Duration::from_secs(20), |p| {
        !p.read(Client, 0).is_empty() && !p.read(Server, 0).is_empty()
    }));
    assert_eq!(pair.read(Server, 0), [pattern(300_000)]);
    assert_eq!(pair.read(Client, 0), [pattern(300_000)]);
    for (side, local, peer) in [(Client, "10.1.2.2", "10.1.2.1"), (Server, "10.1.2.1", "10.1.2.2")] {
        let mut there = ways(&mut pair, side);
        there.retain(|(_, _, state)| *state != PathState::Removed);
        assert_eq!(there, [way(local, peer, PathState::Active)]);
    }
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# In other words,
//# if the endpoint does not ABORT
//# the association, it must consider the add attempt failed and NOT
//# use this address since its peer will treat SCTP packets destined
//# to the address as Out Of The Blue packets.
#[test]
fn a_host_that_moves_keeps_all_addresses_of_the_peer() {
    for refused in [false, true] {
        let servers = ["10.1.1.1", "10.1.2.1"];
        let rules = servers.map(|local| AllowedPath { local: ip(local), peer: Some(ip("10.1.1.2")) });
        let allowed_paths = if refused { rules.to_vec() } else { Vec::new() };
        let server = config().with(|c| c.paths.allowed = allowed_paths);
        let mut pair = Pair::between([vec![at("10.1.1.2")], servers.map(at).to_vec()], config(), server);
        pair.client_addresses.push(at("10.1.2.2"));
        pair.run(Duration::from_millis(500));
        // Deletion and addition are in one ASCONF: until it is acknowledged the association has neither address.
        pair.association(Client).add_address(at("10.1.2.2")).unwrap();
        pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
        pair.run(Duration::from_secs(5));
        let local = if refused { "10.1.1.2" } else { "10.1.2.2" };
        let mut there = ways(&mut pair, Client);
        there.retain(|(_, _, state)| *state != PathState::Removed);
        there.sort_by(|one, other| one.1.cmp(&other.1));
        assert_eq!(there, servers.map(|peer| way(local, peer, PathState::Active)));
        // The address that the packet used is deleted by the server.
        pair.association(Server).remove_address(at("10.1.1.1")).unwrap();
        pair.run(Duration::from_secs(5));
        pair.send(Client, 0, pattern(10_000));
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.read(Server, 0), [pattern(10_000)]);
    }
}

/// With all faults of links and any moves of addresses, everything is delivered once and in order.
#[test]
fn addresses_come_and_go_on_both_sides_over_bad_links() {
    for seed in 0..40_u64 {
        let mut pair = pair().seeded(seed);
        (pair.loss, pair.duplication, pair.reordering) = (50, 30, 100);
        let names = ["10.1.1.", "10.1.2.", "10.1.3."];
        let mut dice = Dice(seed * 77 + 5);
        for round in 0..12_u32 {
            for side in [Client, Server] {
                pair.send(side, 0, pattern(20_000 + round as usize));
                let host = if side == Client { "2" } else { "1" };
                let address = at(&format!("{}{host}", names[dice.roll(3) as usize]));
                let association = pair.association(side);
                // Some of these requests are invalid at the time, and are refused.
                let _ = match dice.roll(3) {
                    0 => association.add_address(address),
                    1 => association.remove_address(address),
                    _ => association.set_peer_primary(address),
                };
            }
            pair.run(Duration::from_millis(dice.roll(400)));
        }
        (pair.loss, pair.duplication, pair.reordering) = (0, 0, 0);
        let done = |pair: &mut Pair| pair.read(Client, 0).len() == 12 && pair.read(Server, 0).len() == 12;
        assert!(pair.run_until_within(Duration::from_secs(600), done), "seed {seed}");
        for side in [Client, Server] {
            let read = pair.read(side, 0);
            assert!((0..12).all(|round| read[round] == pattern(20_000 + round)), "seed {seed}");
        }
        pair.run(Duration::from_secs(200));
        let ips = |paths: Vec<(String, String, PathState)>| -> BTreeSet<String> {
            paths.into_iter().map(|path| path.0).collect()
        };
        let peers = |paths: Vec<(String, String, PathState)>| -> BTreeSet<String> {
            paths.into_iter().map(|path| path.1).collect()
        };
        let (client, server) = (ways(&mut pair, Client), ways(&mut pair, Server));
        assert_eq!(
            ips(client.clone()),
            peers(server.clone()),
            "seed {seed}: both know the client's addresses"
        );
        assert_eq!(peers(client), ips(server), "seed {seed}: both know the server's addresses");
        pair.association(Client).shutdown();
        assert!(pair.run_until_within(Duration::from_secs(600), |pair| pair.closed(Server).is_some()));
        assert_eq!(pair.closed(Client), Some(&Reason::Shutdown), "seed {seed}");
    }
}

//= specs/rfc5061.txt#section-4.2.2
//= type=test
//# This parameter MUST NOT contain a broadcast or multicast address.
#[test]
fn impossible_changes_are_rejected_at_once() {
    let mut pair = pair();
    let client = pair.association(Client);
    assert_eq!(client.add_address(at("10.1.1.2")), Err(AddressError::InUse));
    assert_eq!(client.remove_address(at("10.1.2.2")), Err(AddressError::NoSuchAddress));
    assert_eq!(client.set_peer_primary(at("10.1.2.2")), Err(AddressError::NoSuchAddress));
    assert_eq!(client.remove_address(at("10.1.1.2")), Err(AddressError::Last));
    for multicast in ["224.0.0.1", "255.255.255.255"] {
        assert_eq!(client.add_address(at(multicast)), Err(AddressError::InUse));
        assert_eq!(client.remove_address(at(multicast)), Err(AddressError::NoSuchAddress));
    }
    assert_eq!(client.add_address("[2001:db8::1]:9899".parse().unwrap()), Err(AddressError::NoPath));
    for host in 10..25 {
        client.add_address(at(&format!("10.1.4.{host}"))).unwrap();
    }
    assert_eq!(client.add_address(at("10.1.4.25")), Err(AddressError::TooMany));
    for _ in 15..32 {
        client.set_peer_primary(at("10.1.1.2")).unwrap();
    }
    assert_eq!(client.set_peer_primary(at("10.1.1.2")), Err(AddressError::TooMany));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.association(Client).add_address(at("10.1.2.2")), Err(AddressError::NotUp));
    for (client, server) in [(config(), modern()), (modern(), config()), (modern(), modern())] {
        let mut pair = pair_of(client, server);
        assert_eq!(pair.association(Client).add_address(at("10.1.2.2")), Err(AddressError::NotSupported));
    }
}

//= specs/rfc5061.txt#section-4.2.7
//= type=test
//# An implementation supporting this
//# extension MUST list the ASCONF,the ASCONF-ACK, and the AUTH chunks in
//# its INIT and INIT-ACK parameters.
//= specs/rfc5061.txt#section-4.2.7
//= type=test
//# The sender MUST support both the sending and the receiving of any
//# chunk types listed within the Supported Extensions Parameter.
//= specs/rfc5061.txt#section-4.2.7
//= type=test
//# Note: The length MUST NOT include any padding.
//= specs/rfc5061.txt#section-4.2.7
//= type=test
//# The sender MUST NOT include multiple Supported Extensions Parameter
//# within any chunk.
//= specs/rfc5061.txt#section-4.2.7
//= type=test
//# This parameter MUST NOT appear in any other chunk.
#[test]
fn asconf_brings_authentication_with_it() {
    let mut pair = Pair::new(config().with(|c| c.sack.compact_sack = false));
    pair.run(Duration::from_secs(1));
    for side in [Client, Server] {
        let (Chunk::Init(init) | Chunk::InitAck(init)) = &pair.packets(side)[0][0] else { panic!() };
        let listed = Parameter::SupportedExtensions(Bytes::from_static(&[0xc1, 0x80, 0x0f]));
        assert!(init.parameters.contains(&listed), "{init:?}");
        let required = Parameter::ChunkList(Bytes::from_static(&[0x80, 0xc1]));
        assert!(init.parameters.contains(&required), "{init:?}");
        let lists = init.parameters.iter().filter(|it| matches!(it, Parameter::SupportedExtensions(_)));
        assert_eq!((lists.count(), listed.encoded_len()), (1, 7), "once, and its padding is not counted");
    }
}

//= specs/rfc5061.txt#section-6
//= type=test
//# If an SCTP endpoint that supports this extension receives an INIT
//# that indicates that the peer supports the ASCONF extension but does
//# NOT support the [RFC4895] extension, the receiver of such an INIT
//# MUST send an ABORT in response.
//= specs/rfc5061.txt#section-6
//= type=test
//# Instead, the implementation MUST discard the INIT-ACK and report to
//# the upper- layer user that an association cannot be established
//# destroying the Transmission Control Block (TCB).
#[test]
fn asconf_without_authentication_makes_no_association() {
    let mut pair = Pair::up(config());
    let listed = Parameter::SupportedExtensions(Bytes::from_static(&[0xc1, 0x80]));
    let init = Init { parameters: vec![listed.clone()], ..pair.association(Client).init() };
    let init = Init { initiate_tag: crate::ids::VerificationTag(77), ..init };
    let last = pair.last_header.unwrap();
    pair.last_header = Some(Header { source_port: 99, tag: crate::ids::VerificationTag(0), ..last });
    pair.forge(&[Chunk::Init(init)]);
    let said: Vec<_> = pair.packets(Server).into_iter().flatten().collect();
    assert!(matches!(&said[..], [Chunk::Abort { .. }]), "{said:?}");

    //= specs/rfc5061.txt#section-6
    //= type=test
    //# An implementation that receives an INIT-ACK that indicates that the
    //# peer does not support the [RFC4895] extension MUST NOT send the
    //# COOKIE-ECHO to establish the association.
    let mut pair = Pair::new(config());
    pair.drain(Client);
    let tag = pair.association(Client).tag;
    let header = Header { source_port: PORT, destination_port: pair.association(Client).ports().0, tag };
    let mut builder = PacketBuilder::new();
    builder.begin(header, 1_452);
    let ack = Init { initiate_tag: crate::ids::VerificationTag(5), ..pair.association(Client).init() };
    let parameters = vec![listed, Parameter::StateCookie(Bytes::from_static(b"cookie"))];
    builder.push(&Chunk::InitAck(Init { parameters, ..ack }));
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    let (from, to) = (server_address(), client_address());
    pair.client.handle(pair.now, Datagram { from, to, ecn: Ecn::NotEct, payload });
    pair.clear_log();
    pair.drain(Client);
    assert_eq!(pair.closed(Client), Some(&Reason::PeerViolation(Violation::AsconfWithoutAuth)));
    assert!(pair.log.is_empty());
}

#[test]
fn the_key_for_data_also_authenticates_asconf() {
    let keyed = |secret: &'static str| {
        let key = crate::config::SharedKey { id: 3, secret: Bytes::from_static(secret.as_bytes()) };
        let auth = AuthConfig { keys: vec![key], active_key: 3, ..AuthConfig::default() };
        config().with(|c| c.security.auth = Some(auth))
    };
    for (client, added) in [("secret", true), ("guess", false)] {
        let mut pair = pair_of(keyed(client), keyed("secret"));
        pair.association(Client).add_address(at("10.1.2.2")).unwrap();
        pair.run(Duration::from_secs(1));
        assert_eq!(!peer_events(&pair, Server).is_empty(), added);
    }
}

//= specs/rfc5061.txt#section-3
//= type=test
//# Since the space is finite, all arithmetic dealing with ASCONF
//# Sequence Numbers MUST be performed modulo 2**32.
//= specs/rfc5061.txt#section-3
//= type=test
//# That is, the next ASCONF Sequence Number an ASCONF chunk MUST use
//# after transmitting an ASCONF Sequence Number = 2**32 - 1 is 0.
//= specs/rfc5061.txt#section-3
//= type=test
//# Comparisons and arithmetic on ASCONF sequence numbers in this
//# document SHOULD use Serial Number Arithmetic as defined in [RFC1982]
//# where SERIAL_BITS = 32.
#[test]
fn serial_numbers_begin_with_the_initial_tsns_and_wrap() {
    let addresses = Addresses::new(Tsn(7), Tsn(0));
    assert!(!addresses.is_outstanding());
    let mut pair = pair();
    if let State::Up(up) = &mut pair.association(Server).state {
        up.addresses = Addresses::new(Tsn(0), Tsn(u32::MAX));
    }
    for serial in [Tsn(u32::MAX), Tsn(0), Tsn(1)] {
        tell_signed(&mut pair, at("10.1.1.2"), &[asking(serial, "10.1.1.2", vec![])]);
        assert_eq!(answers(&mut pair)[0].1.serial, serial);
    }
    // The same for requests of this side.
    let mut pair = self::pair();
    for (side, own, peers) in [(Client, Tsn(u32::MAX), Tsn(0)), (Server, Tsn(0), Tsn(u32::MAX))] {
        if let State::Up(up) = &mut pair.association(side).state {
            up.addresses = Addresses::new(own, peers);
        }
    }
    for address in ["10.1.2.2", "10.1.3.2"] {
        pair.association(Client).add_address(at(address)).unwrap();
        pair.run(Duration::from_millis(100));
    }
    let sent = pair.packets(Client).into_iter().flatten();
    let serials = sent.filter_map(|chunk| if let Chunk::Asconf(it) = chunk { Some(it.serial) } else { None });
    assert_eq!(serials.collect::<Vec<_>>(), [Tsn(u32::MAX), Tsn(0)]);
}

//= specs/rfc5061.txt#section-4.1.2
//= type=test
//# This chunk MUST be sent in an authenticated way by using the
//# mechanism defined in [RFC4895].
//= specs/rfc5061.txt#section-4.1.2
//= type=test
//# If this chunk is received unauthenticated it MUST be silently
//# discarded as described in [RFC4895].
//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# This chunk MUST be sent in an authenticated way by using the
//# mechanism defined in [RFC4895].
#[test]
fn asconf_and_asconf_ack_are_sent_and_accepted_only_after_an_auth_chunk() {
    let mut pair = pair();
    pair.drop = Some(Box::new(|side, _, packet| side == Server && has(packet, AsconfAck::KIND)));
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_secs(2));
    let mut seen = BTreeSet::new();
    for (_, _, packet) in &pair.log {
        let kinds: Vec<_> = chunks(packet).iter().map(Chunk::kind).collect();
        if let [first, kind @ (Asconf::KIND | AsconfAck::KIND), ..] = kinds[..] {
            assert_eq!(first, Auth::KIND, "{packet}");
            seen.insert(kind);
        }
        assert!(
            kinds.iter().all(|kind| ![Asconf::KIND, AsconfAck::KIND].contains(kind))
                || kinds[0] == Auth::KIND
        );
    }
    assert_eq!(seen.len(), 2);
    // An answer without a cause code has none.
    let serial = pair.association(Client).initial_tsn;
    let header = Header {
        source_port: PORT,
        destination_port: pair.association(Client).ports().0,
        tag: pair.association(Client).tag,
    };
    let mut builder = PacketBuilder::new();
    builder.begin(header, 1_452);
    builder.push(&Chunk::AsconfAck(AsconfAck { serial, responses: vec![] }));
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    let datagram = Datagram { from: at("10.1.1.1"), to: at("10.1.1.2"), ecn: Ecn::NotEct, payload };
    pair.client.handle(pair.now, datagram);
    pair.drain(Client);
    assert!(local_events(&pair, Client).is_empty());
    pair.drop = None;
    pair.run(Duration::from_secs(10));
    assert_eq!(local_events(&pair, Client), [("10.1.2.2".to_owned(), AddressChange::Added)]);
}

//= specs/rfc5061.txt#section-5.1.1
//= type=test
//# C4)  Both ASCONF and ASCONF-ACK Chunks MUST NOT be sent in any SCTP
//# state except ESTABLISHED, SHUTDOWN-PENDING, SHUTDOWN-RECEIVED, and
//# SHUTDOWN-SENT.
#[test]
fn re_config_is_sent_only_while_the_association_is_up() {
    let mut pair = Pair::new(config());
    assert_eq!(pair.association(Client).add_address(at("10.1.2.2")), Err(AddressError::NotUp));
    let mut pair = self::pair();
    let serial = next_serial(&mut pair);
    // The server sends SHUTDOWN ACK and waits for SHUTDOWN COMPLETE, which is lost.
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Chunk::SHUTDOWN_COMPLETE)));
    let signer = pair.association(Client).auth.signer(0, HmacId::Sha256).unwrap().clone();
    pair.association(Client).shutdown();
    pair.run(Duration::from_millis(15));
    assert_eq!(pair.association(Server).phase(), Phase::ShutdownAckSent);
    assert_eq!(pair.association(Server).add_address(at("10.1.2.1")), Err(AddressError::NotUp));
    pair.clear_log();
    let ask = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    let mut builder = PacketBuilder::new();
    builder.authenticate(Authentic { signer, chunks: [Asconf::KIND].into_iter().collect() });
    tell(&mut pair, at("10.1.1.2"), builder, &[ask]);
    assert!(answers(&mut pair).is_empty() && pair.association(Server).paths().count() == 1);
}

/// HEARTBEATs stop with SHUTDOWN (RFC 9260 §8.3). If the last confirmed path is deleted then, another one must be confirmed
/// nevertheless.
#[test]
fn a_shutdown_continues_although_its_only_confirmed_path_is_deleted() {
    let mut pair = pair();
    pair.drop = Some(Box::new(|side, _, packet| {
        side == Client && (has(packet, Chunk::HEARTBEAT) || has(packet, Chunk::SHUTDOWN))
    }));
    pair.association(Server).add_address(at("10.1.2.1")).unwrap();
    pair.run(Duration::from_secs(1));
    pair.association(Client).shutdown();
    pair.run(Duration::from_millis(100));
    pair.association(Server).remove_address(at("10.1.1.1")).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.association(Client).stats().phase, Phase::ShutdownSent);
    let left = way("10.1.1.2", "10.1.2.1", PathState::Unconfirmed);
    assert!(ways(&mut pair, Client).contains(&left));
    pair.drop = None;
    assert!(pair.run_until_within(Duration::from_secs(60), |pair| pair.closed(Server).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
}
