//! Addresses that come and go between two endpoints, and what forgers and odd peers get (RFC 5061).

use super::*;
use crate::association::asconf::Addresses;
use crate::association::state::State;
use crate::association::{AddressChange, AddressError, Violation};
use crate::config::AuthConfig;
use crate::ids::{PathId, Tsn};
use crate::stats::{PathState, Phase};
use crate::wire::{
    Asconf, AsconfAck, Auth, Authentic, Cause, Change, HmacId, Init, Outcome, Parameter, Request, Response,
};

fn at(text: &str) -> SocketAddr {
    format!("{text}:9899").parse().unwrap()
}

fn config() -> Config {
    Config { asconf: true, ..modern() }
}

/// An association of one address each, and more that may come.
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

/// Tells the server a packet of the client's from `from`, signed as the client would.
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

/// The serial number that the server expects next of the client.
fn next_serial(pair: &mut Pair) -> Tsn {
    // The client has asked for nothing yet.
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

/// What the server answered, and where to.
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
#[test]
fn nothing_but_questions_goes_to_an_address_before_it_answered() {
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
    // A number is used again.
    pair.association(Client).add_address(at("10.1.3.2")).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(ways(&mut pair, Client)[0], way("10.1.3.2", "10.1.1.1", PathState::Active));
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

/// Whatever the link does, and whoever moves: all arrives once and in order.
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
                // Some of these make no sense just then, and are refused.
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

#[test]
fn what_cannot_be_asked_for_is_refused_at_once() {
    let mut pair = pair();
    let client = pair.association(Client);
    assert_eq!(client.add_address(at("10.1.1.2")), Err(AddressError::InUse));
    assert_eq!(client.remove_address(at("10.1.2.2")), Err(AddressError::NoSuchAddress));
    assert_eq!(client.set_peer_primary(at("10.1.2.2")), Err(AddressError::NoSuchAddress));
    assert_eq!(client.remove_address(at("10.1.1.2")), Err(AddressError::Last));
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

//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# If this chunk is received unauthenticated it
//# MUST be silently discarded as described in [RFC4895].
//= specs/rfc5061.txt#section-5.2
//= type=test
//# If either authentication fails, or the AUTH chunk is missing,
//# the receiver MUST silently discard this chunk and the rest of
//# the packet.
#[test]
fn an_asconf_that_nobody_vouches_for_does_nothing() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let add = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    let beat = Chunk::Heartbeat(Bytes::from_static(b"1"));
    let auth = Chunk::Auth(Auth { key_id: 0, hmac_id: 3, hmac: vec![0; 32].into() });
    for (from, before) in
        [(at("10.1.1.2"), vec![]), (at("10.1.1.2"), vec![auth.clone()]), (at("10.1.2.2"), vec![auth])]
    {
        let packet = [&before[..], &[add.clone(), beat.clone()]].concat();
        tell(&mut pair, from, PacketBuilder::new(), &packet);
        assert!(pair.log.is_empty() && pair.association(Server).paths().count() == 1, "{from}");
    }
    tell_signed(&mut pair, at("10.1.1.2"), &[add]);
    assert_eq!(answers(&mut pair).len(), 1);
    assert_eq!(pair.association(Server).paths().count(), 2);
}

#[test]
fn an_asconf_where_none_was_agreed_on_is_unknown_and_reported() {
    let mut pair = pair_of(modern(), modern());
    let serial = next_serial(&mut pair);
    let add = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    tell(&mut pair, at("10.1.1.2"), PacketBuilder::new(), std::slice::from_ref(&add));
    let said: Vec<_> = pair.packets(Server).into_iter().flatten().collect();
    assert_eq!(said, [Chunk::Error(vec![Cause::UnrecognizedChunkType(add.quoted())])]);
    pair.clear_log();
    tell(
        &mut pair,
        at("10.1.1.2"),
        PacketBuilder::new(),
        &[Chunk::AsconfAck(AsconfAck { serial, responses: vec![] })],
    );
    assert!(pair.log.is_empty(), "the high bits of ASCONF-ACK are 10");
    tell(&mut pair, at("10.1.2.2"), PacketBuilder::new(), &[add]);
    assert!(pair.log.is_empty(), "from a stranger it is nothing");
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# F7)  If a request is received to delete the last remaining IP address
//# of a peer endpoint, the receiver MUST send an Error Cause TLV
//# with the Error Cause set to the new error code 'Request to
//# Delete Last Remaining IP Address'.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# F8)  If a request is received to delete an IP address that is also
//# the source address of the IP packet that contained the ASCONF
//# chunk, the receiver MUST reject this request.
#[test]
fn the_last_address_and_the_source_are_not_deleted() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let delete = |serial, ip: &str| asking(serial, "10.1.1.2", vec![Change::Delete(self::ip(ip))]);
    let quoted = |chunk: &Chunk| match chunk {
        Chunk::Asconf(asconf) => asconf.requests[0].quoted(),
        other => panic!("{other}"),
    };
    let last = delete(serial, "10.1.1.2");
    tell_signed(&mut pair, at("10.1.1.2"), std::slice::from_ref(&last));
    assert_eq!(refusal(&mut pair), Cause::DeleteLastAddress(quoted(&last)));
    let add = asking(serial.plus(1), "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    tell_signed(&mut pair, at("10.1.1.2"), &[add]);
    answers(&mut pair);
    let source = delete(serial.plus(2), "10.1.1.2");
    tell_signed(&mut pair, at("10.1.1.2"), std::slice::from_ref(&source));
    assert_eq!(refusal(&mut pair), Cause::DeleteSourceAddress(quoted(&source)));
    assert_eq!(pair.association(Server).paths().count(), 2);
    // One that is not there is gone already.
    tell_signed(&mut pair, at("10.1.1.2"), &[delete(serial.plus(3), "10.9.9.9")]);
    assert_eq!(answers(&mut pair)[0].1.responses, []);
    tell_signed(&mut pair, at("10.1.2.2"), &[delete(serial.plus(4), "10.1.1.2")]);
    assert_eq!(
        answers(&mut pair),
        [(at("10.1.2.2"), AsconfAck { serial: serial.plus(4), responses: vec![] })]
    );
    assert_eq!(ways(&mut pair, Server), [way("10.1.1.1", "10.1.2.2", PathState::Unconfirmed)]);
}

//= specs/rfc5061.txt#section-4.2.1
//= type=test
//# If the address 0.0.0.0 or
//# ::0 is provided, the source address of the packet MUST be added.
//= specs/rfc5061.txt#section-4.2.2
//= type=test
//# If the address 0.0.0.0
//# or ::0 is provided, all addresses of the peer except the source
//# address of the packet MUST be deleted.
#[test]
fn behind_a_nat_the_source_is_added_and_all_else_deleted() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let from: SocketAddr = "203.0.113.7:40007".parse().unwrap();
    let any = Change::Add(ip("0.0.0.0"));
    let all =
        asking(serial, "0.0.0.0", vec![any, Change::SetPrimary(ip("::")), Change::Delete(ip("0.0.0.0"))]);
    tell_signed(&mut pair, from, &[all]);
    assert_eq!(answers(&mut pair), [(from, AsconfAck { serial, responses: vec![] })]);
    let paths: Vec<_> = pair.association(Server).paths().map(|path| path.peer).collect();
    assert_eq!(paths, [from], "with the port that the NAT gave");
    // From an address that it does not have, a host deletes no others.
    let stranger = at("10.7.7.7");
    tell_signed(&mut pair, stranger, &[asking(serial.plus(1), "0.0.0.0", vec![Change::Delete(ip("::"))])]);
    assert!(matches!(refusal(&mut pair), Cause::DeleteLastAddress(_)));
}

#[test]
fn addresses_that_no_host_can_have_are_not_added_and_others_up_to_a_limit() {
    let mut pair = pair();
    let mut serial = next_serial(&mut pair);
    let mut ask = |pair: &mut Pair, changes: Vec<Change>| {
        let from = at("10.1.1.2");
        tell_signed(pair, from, &[asking(serial, "10.1.1.2", changes)]);
        serial = serial.next();
    };
    for odd in ["255.255.255.255", "224.0.0.1", "127.0.0.1", "169.254.1.1", "ff02::1"] {
        ask(&mut pair, vec![Change::Add(ip(odd))]);
        assert!(matches!(refusal(&mut pair), Cause::NoAuthorization(_)), "{odd}");
    }
    ask(&mut pair, vec![Change::Add(ip("2001:db8::1"))]);
    assert!(matches!(refusal(&mut pair), Cause::ResourceShortage(_)), "there is nothing to reach it from");
    ask(&mut pair, vec![Change::Other { kind: Change::ADD, value: Bytes::from_static(&[0, 5, 0, 8, 1, 2]) }]);
    assert_eq!(refusal(&mut pair), Cause::InvalidMandatoryParameter);
    for host in 1..=15 {
        ask(&mut pair, vec![Change::Add(ip(&format!("10.2.0.{host}")))]);
        assert_eq!(answers(&mut pair)[0].1.responses, []);
    }
    //= specs/rfc5061.txt#section-5.3
    //= type=test
    //# The
    //# receiver MUST NOT reject an ADD and then accept a subsequent
    //# DELETE of an IP address in the same ASCONF Chunk.
    ask(
        &mut pair,
        vec![
            Change::Add(ip("10.2.0.16")),
            Change::Delete(ip("10.2.0.1")),
            Change::SetPrimary(ip("10.1.1.2")),
        ],
    );
    let said = answers(&mut pair).remove(0).1.responses;
    assert!(
        matches!(&said[..], [
            Response { correlation: 100, outcome: Outcome::Error(add) },
            Response { correlation: 101, outcome: Outcome::Error(delete) },
            Response { correlation: 102, outcome: Outcome::Success },
        ] if matches!((&add[0], &delete[0]), (Cause::ResourceShortage(_), Cause::ResourceShortage(_)))),
        "{said:?}"
    );
    assert_eq!(pair.association(Server).paths().count(), 16);
}

#[test]
fn an_asconf_that_comes_again_gets_the_same_answer_and_an_odd_number_none() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let add = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    tell_signed(&mut pair, at("10.1.1.2"), std::slice::from_ref(&add));
    let first = answers(&mut pair);
    let delete = asking(serial.plus(1), "10.1.1.2", vec![Change::Delete(ip("10.1.2.2"))]);
    for again in 0..3 {
        // From elsewhere, too: the answer goes where it is waited for.
        let from = if again == 2 { at("10.1.2.2") } else { at("10.1.1.2") };
        tell_signed(&mut pair, from, std::slice::from_ref(&add));
        assert_eq!(answers(&mut pair), [(from, first[0].1.clone())]);
    }
    assert_eq!(pair.association(Server).paths().count(), 2);
    for odd in [serial.minus(1), serial.plus(2), serial.plus(1 << 31)] {
        tell_signed(
            &mut pair,
            at("10.1.1.2"),
            &[asking(odd, "10.1.1.2", vec![Change::Delete(ip("10.1.2.2"))])],
        );
        assert!(answers(&mut pair).is_empty(), "{odd}");
    }
    // Several in one packet, the first of them for the second time.
    tell_signed(&mut pair, at("10.1.1.2"), &[add.clone(), delete]);
    let both = answers(&mut pair);
    assert_eq!(both.iter().map(|(_, ack)| ack.serial).collect::<Vec<_>>(), [serial, serial.plus(1)]);
    assert_eq!(pair.association(Server).paths().count(), 1);
    assert_eq!(
        peer_events(&pair, Server).iter().filter(|(_, change)| *change == AddressChange::Added).count(),
        1
    );
}

//= specs/rfc5061.txt#section-5.2
//= type=test
//# V2)  In processing the chunk, the receiver should build a
//# response message with the appropriate error TLVs, as
//# specified in the Parameter type bits, for any ASCONF
//# Parameter it does not understand.
#[test]
fn unknown_requests_are_skipped_and_reported_by_their_high_bits() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let other = |kind| Change::Other { kind, value: Bytes::from_static(b"what") };
    let add = Change::Add(ip("10.1.2.2"));
    tell_signed(
        &mut pair,
        at("10.1.1.2"),
        &[asking(serial, "10.1.1.2", vec![other(0x8123), other(0xc123), add.clone()])],
    );
    let said = answers(&mut pair).remove(0).1.responses;
    assert!(
        matches!(&said[..], [
        Response { correlation: 101, outcome: Outcome::Error(causes) },
        Response { correlation: 102, outcome: Outcome::Success },
    ] if matches!(&causes[0], Cause::UnrecognizedParameters(_))),
        "{said:?}"
    );
    let delete = Change::Delete(ip("10.1.2.2"));
    tell_signed(
        &mut pair,
        at("10.1.1.2"),
        &[asking(serial.plus(1), "10.1.1.2", vec![other(0x0123), delete.clone()])],
    );
    assert!(answers(&mut pair)[0].1.responses.is_empty(), "00: it ends there");
    assert_eq!(pair.association(Server).paths().count(), 2);
    let many = vec![other(0xc123); 80];
    tell_signed(&mut pair, at("10.1.1.2"), &[asking(serial.plus(2), "10.1.1.2", many)]);
    let said = answers(&mut pair);
    assert_eq!(said[0].1.responses.len(), 80, "the quotations end, the answers do not");
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# F0)  If an endpoint receives an ASCONF-ACK that is greater than or
//# equal to the next Sequence Number to be used but no ASCONF Chunk
//# is outstanding, the endpoint MUST ABORT the association.
#[test]
fn an_answer_to_nothing_ends_it_and_an_old_one_does_not() {
    for (ahead, ends) in
        [(0_u32, true), (5, true), ((1 << 31) - 1, true), (u32::MAX, false), (1 << 31, false)]
    {
        let mut pair = pair();
        let serial = pair.association(Server).initial_tsn.plus(ahead);
        tell_signed(&mut pair, at("10.1.1.2"), &[Chunk::AsconfAck(AsconfAck { serial, responses: vec![] })]);
        let said: Vec<_> = pair.packets(Server).into_iter().flatten().collect();
        if ends {
            assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(Violation::AsconfAckOfNothing)));
            assert_eq!(said, [Chunk::Abort { reflected: false, causes: vec![Cause::IllegalAsconfAck] }]);
        } else {
            assert!(said.is_empty() && pair.closed(Server).is_none(), "{ahead}");
        }
    }
}

/// The client's request is answered so by hand, by a server that never saw it.
fn answered(responses: impl Fn(&Asconf) -> Vec<Response>) -> Pair {
    let mut pair = pair();
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Asconf::KIND)));
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
    pair.association(Client).add_address(at("10.1.3.2")).unwrap();
    pair.drain(Client);
    let asconf = pair.packets(Client).into_iter().flatten().find_map(|chunk| match chunk {
        Chunk::Asconf(asconf) => Some(asconf),
        _ => None,
    });
    let asconf = asconf.expect("it was sent");
    let ack = Chunk::AsconfAck(AsconfAck { serial: asconf.serial, responses: responses(&asconf) });
    let signer = pair.association(Server).auth.signer(0, HmacId::Sha256).unwrap().clone();
    let mut builder = PacketBuilder::new();
    builder.authenticate(Authentic { signer, chunks: [AsconfAck::KIND].into_iter().collect() });
    let (source_port, destination_port) = (PORT, pair.association(Client).ports().0);
    let tag = pair.association(Client).tag;
    builder.begin(Header { source_port, destination_port, tag }, 1_452);
    builder.push(&ack);
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    let datagram = Datagram { from: at("10.1.1.1"), to: at("10.1.2.2"), ecn: Ecn::NotEct, payload };
    pair.client.handle(pair.now, datagram);
    pair.drain(Client);
    pair
}

//= specs/rfc5061.txt#section-5.1
//= type=test
//# A7)  If an error response is received for a TLV parameter, all TLVs
//# with no response before the failed TLV are considered successful
//# if not reported.  All TLVs after the failed response are
//# considered unsuccessful unless a specific success indication is
//# present for the parameter.
#[test]
fn what_comes_behind_a_refusal_failed_unless_it_says_otherwise() {
    let error = |correlation, cause: Cause| Response { correlation, outcome: Outcome::Error(vec![cause]) };
    let refused = |cause: Option<Cause>| AddressChange::Refused(cause);
    let shortage = Cause::ResourceShortage(Bytes::new());
    let named = |changes: Vec<AddressChange>| -> Vec<_> {
        ["10.1.2.2", "10.1.1.2", "10.1.3.2"].map(str::to_owned).into_iter().zip(changes).collect()
    };
    let pair = answered(|_| vec![]);
    assert_eq!(
        local_events(&pair, Client),
        named(vec![AddressChange::Added, AddressChange::Removed, AddressChange::Added])
    );
    let mut pair = answered(|it| vec![error(it.requests[1].correlation, shortage.clone())]);
    assert_eq!(
        local_events(&pair, Client),
        named(vec![AddressChange::Added, refused(Some(shortage.clone())), refused(None)])
    );
    assert_eq!(pair.association(Client).local_addresses(), [at("10.1.1.2"), at("10.1.2.2")]);
    let locals: BTreeSet<_> = ways(&mut pair, Client).into_iter().map(|way| way.0).collect();
    assert_eq!(locals, ["10.1.1.2", "10.1.2.2"].map(str::to_owned).into());
    let mut pair = answered(|it| {
        let success = Response { correlation: it.requests[2].correlation, outcome: Outcome::Success };
        vec![error(it.requests[0].correlation, shortage.clone()), success]
    });
    assert_eq!(
        local_events(&pair, Client),
        named(vec![refused(Some(shortage.clone())), refused(None), AddressChange::Added])
    );
    assert_eq!(pair.association(Client).local_addresses(), [at("10.1.1.2"), at("10.1.3.2")]);
    pair.drop = None;
    pair.send(Client, 0, "still there");
    assert!(pair.run_until_within(Duration::from_secs(60), |pair| !pair.read(Server, 0).is_empty()));
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# F3a) If an endpoint receives an Error Cause TLV indicating that the
//# IP address Add or IP address Deletion parameters was not
//# understood, the endpoint MUST consider the operation failed and
//# MUST NOT attempt to send any subsequent Add or Delete requests
//# to the peer.
#[test]
fn a_peer_that_does_not_know_how_is_not_asked_again() {
    let unknown = Cause::UnrecognizedParameters(Bytes::new());
    let mut pair = answered(|it| {
        vec![Response {
            correlation: it.requests[0].correlation,
            outcome: Outcome::Error(vec![unknown.clone()]),
        }]
    });
    let client = pair.association(Client);
    assert_eq!(client.add_address(at("10.1.2.2")), Err(AddressError::NotSupported));
    client.set_peer_primary(at("10.1.1.2")).unwrap();
}

//= specs/rfc5061.txt#section-5.1
//= type=test
//# A9)  If the peer responds to an ASCONF with an ERROR Chunk reporting
//# that it did not recognize the ASCONF Chunk Type, the sender of
//# the ASCONF MUST NOT send any further ASCONF Chunks and MUST stop
//# its T-4 timer.
#[test]
fn a_peer_that_reports_asconf_unknown_hears_no_more_of_it() {
    let mut pair = pair();
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Asconf::KIND)));
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.drain(Client);
    pair.association(Client).add_address(at("10.1.3.2")).unwrap();
    let raw = pair.packets(Client)[0][1].quoted();
    if let State::Up(up) = &mut pair.association(Server).state {
        up.control.add_error(Cause::UnrecognizedChunkType(raw));
    }
    pair.association(Server).stirred = true;
    pair.run(Duration::from_millis(50));
    pair.clear_log();
    pair.run(Duration::from_secs(60));
    assert!(!pair.log.iter().any(|entry| has(&entry.2, Asconf::KIND)));
    let refused = AddressChange::Refused(None);
    let expected = ["10.1.2.2", "10.1.3.2"].map(|ip| (ip.to_owned(), refused.clone()));
    assert_eq!(local_events(&pair, Client), expected);
    assert_eq!(pair.association(Client).set_peer_primary(at("10.1.1.2")), Err(AddressError::NotSupported));
    assert_eq!(pair.association(Client).paths().count(), 1);
}

//= specs/rfc5061.txt#section-5.1
//= type=test
//# An endpoint MUST NOT add new parameters to this
//# chunk; it MUST be the same (including its Sequence Number) as
//# the last ASCONF sent.
//= specs/rfc5061.txt#section-5.1
//= type=test
//# B3)  Backoff the destination address RTO value to which the ASCONF
//# chunk was sent by doubling the RTO timer value.
#[test]
fn an_asconf_is_repeated_as_it_was_ever_later_until_the_peer_is_given_up() {
    let rfc = Config { asconf: true, heartbeat_interval: None, ..rfc() };
    let mut pair = pair_of(rfc.clone(), rfc);
    pair.drop = Some(Box::new(|side, _, _| side == Client));
    pair.association(Client).set_peer_primary(at("10.1.1.2")).unwrap();
    pair.drain(Client);
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerUnreachable));
    let sent = pair.log.iter().filter(|(_, side, packet)| *side == Client && has(packet, Asconf::KIND));
    let sent: Vec<_> = sent.map(|(at, _, packet)| (*at, chunks(packet))).collect();
    assert_eq!(sent.len(), 11, "Association.Max.Retrans and once more");
    assert!(sent.iter().all(|(_, chunks)| *chunks == sent[0].1));
    let waits: Vec<_> = sent.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_secs()).collect();
    assert_eq!(waits[..6], [1, 2, 4, 8, 16, 32]);
}

//= specs/rfc5061.txt#section-5.1.1
//= type=test
//# C1)  One and only one SCTP packet-holding ASCONF Chunk(s) MAY be in
//# transit and unacknowledged at any one time.
#[test]
fn one_asconf_is_under_way_and_the_next_has_all_that_came_meanwhile() {
    let mut pair = pair();
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.drain(Client);
    pair.association(Client).add_address(at("10.1.3.2")).unwrap();
    pair.association(Client).set_peer_primary(at("10.1.3.2")).unwrap();
    pair.run(Duration::from_millis(15));
    let sent = |pair: &Pair| -> Vec<Asconf> {
        let all = pair.packets(Client).into_iter().flatten();
        all.filter_map(|chunk| if let Chunk::Asconf(asconf) = chunk { Some(asconf) } else { None }).collect()
    };
    assert_eq!(sent(&pair).len(), 1);
    pair.run(Duration::from_secs(1));
    let sent = sent(&pair);
    assert_eq!(sent.iter().map(|asconf| asconf.requests.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(sent[0].serial, pair.association(Client).initial_tsn);
    assert_eq!(sent[1].serial, sent[0].serial.next());
    assert_eq!(pair.association(Client).local_addresses().len(), 3);
}

//= specs/rfc5061.txt#section-4.2.7
//= type=test
//# An implementation supporting this
//# extension MUST list the ASCONF,the ASCONF-ACK, and the AUTH chunks in
//# its INIT and INIT-ACK parameters.
#[test]
fn asconf_brings_authentication_with_it() {
    let mut pair = Pair::new(config());
    pair.run(Duration::from_secs(1));
    for side in [Client, Server] {
        let (Chunk::Init(init) | Chunk::InitAck(init)) = &pair.packets(side)[0][0] else { panic!() };
        let listed = Parameter::SupportedExtensions(Bytes::from_static(&[0xc1, 0x80, 0x0f]));
        assert!(init.parameters.contains(&listed), "{init:?}");
        let required = Parameter::ChunkList(Bytes::from_static(&[0x80, 0xc1]));
        assert!(init.parameters.contains(&required), "{init:?}");
    }
}

//= specs/rfc5061.txt#section-6
//= type=test
//# If an SCTP endpoint that supports this extension receives an INIT
//# that indicates that the peer supports the ASCONF extension but does
//# NOT support the [RFC4895] extension, the receiver of such an INIT
//# MUST send an ABORT in response.
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
fn out_of_the_blue_an_asconf_with_a_wrong_tag_ends_nothing() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let counters = pair.server.counters();
    let last = pair.last_header.unwrap();
    pair.last_header = Some(Header { tag: crate::ids::VerificationTag(last.tag.0 ^ 1), ..last });
    // By its address parameter it is that association's, and its tag is wrong: silence.
    tell_signed(&mut pair, at("10.1.2.2"), &[asking(serial, "10.1.1.2", vec![])]);
    assert!(pair.log.is_empty());
    assert_eq!(pair.server.counters().discarded, counters.discarded + 1);
    // It names nobody: an ABORT that reflects its tag.
    tell_signed(&mut pair, at("10.1.2.2"), &[asking(serial, "10.9.9.9", vec![])]);
    assert!(matches!(&pair.packets(Server)[0][..], [Chunk::Abort { reflected: true, .. }]));
    assert_eq!(pair.association(Server).phase(), Phase::Established);
}

//= specs/rfc5061.txt#section-5.3.1
//= type=test
//# For this case, during the deletion of an IP address, an Abort MUST be
//# ignored if the destination address of the Abort message is that of a
//# destination being deleted.
#[test]
fn an_abort_to_an_address_that_is_going_is_ignored() {
    let mut pair = pair();
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_secs(1));
    pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
    pair.drain(Client);
    let header = Header {
        source_port: PORT,
        destination_port: pair.association(Client).ports().0,
        tag: pair.association(Client).tag,
    };
    for (to, ends) in [(at("10.1.1.2"), false), (at("10.1.2.2"), true)] {
        let mut builder = PacketBuilder::new();
        builder.begin(header, 1_452);
        builder.push(&Chunk::Abort { reflected: false, causes: vec![] });
        builder.seal();
        let payload = builder.finish().unwrap().payload;
        pair.client.handle(pair.now, Datagram { from: at("10.1.1.1"), to, ecn: Ecn::NotEct, payload });
        pair.drain(Client);
        assert_eq!(pair.closed(Client).is_some(), ends, "{to}");
    }
}

#[test]
fn a_key_that_is_needed_for_chunks_is_the_one_of_asconf_too() {
    let keyed = |secret: &'static str| {
        let key = crate::config::SharedKey { id: 3, secret: Bytes::from_static(secret.as_bytes()) };
        let auth = AuthConfig { keys: vec![key], active_key: 3, ..AuthConfig::default() };
        Config { auth: Some(auth), ..config() }
    };
    for (client, added) in [("secret", true), ("guess", false)] {
        let mut pair = pair_of(keyed(client), keyed("secret"));
        pair.association(Client).add_address(at("10.1.2.2")).unwrap();
        pair.run(Duration::from_secs(1));
        assert_eq!(!peer_events(&pair, Server).is_empty(), added);
    }
}

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
}
