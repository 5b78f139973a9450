//! Multihoming: which addresses are announced and used, and what happens when a path fails (RFC 9260
//! §5.1.2, §5.4, §6.4, §8; RFC 7829).

use super::*;
use crate::association::SendError;
use crate::config::AllowedPath;
use crate::ids::PathId;
use crate::stats::{PathState, PathStats};
use crate::wire::Parameter;

const MESSAGE: usize = 5_000;

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}

/// The client's addresses, whose encapsulation ports differ, and the server's: two networks.
pub(super) fn addresses() -> [Vec<SocketAddr>; 2] {
    [vec![at("10.0.1.1", 9_001), at("10.0.2.1", 9_003)], vec![at("10.0.1.2", 9_002), at("10.0.2.2", 9_002)]]
}

fn pair(config: Config) -> Pair {
    let mut pair = Pair::between(addresses(), config.clone(), config);
    pair.latency = Duration::from_millis(25);
    pair
}

/// Both sides are established, and all paths are confirmed.
pub(super) fn confirmed(config: Config) -> Pair {
    let mut pair = pair(config);
    pair.run(Duration::from_secs(3));
    for side in [Client, Server] {
        assert_eq!(states(&mut pair, side), [PathState::Active; 2], "{side:?}");
    }
    pair.clear_log();
    pair
}

pub(super) fn paths(pair: &mut Pair, side: Side) -> Vec<PathStats> {
    pair.association(side).stats().paths
}

pub(super) fn states(pair: &mut Pair, side: Side) -> Vec<PathState> {
    paths(pair, side).iter().map(|path| path.state).collect()
}

/// Cuts one of the two networks.
pub(super) fn cut(pair: &mut Pair, network: usize) {
    pair.cut.insert(addresses()[0][network].ip());
}

fn numbered(number: u32) -> Vec<u8> {
    let mut message = pattern(MESSAGE);
    message[..4].copy_from_slice(&number.to_be_bytes());
    message
}

/// Sends as many numbered messages as the send buffer accepts.
fn feed(pair: &mut Pair, next: &mut u32, end: u32) {
    while *next < end {
        match pair.association(Client).send(StreamId(0), Message::new(Ppid(0), numbered(*next))) {
            Ok(()) => *next += 1,
            Err(SendError::Full) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn read_so_far(pair: &Pair) -> usize {
    pair.server_read.get(&0).map_or(0, Vec::len)
}

/// Checks that all messages arrived once and in order.
fn check_all(pair: &Pair, count: u32) {
    let read = pair.read(Server, 0);
    assert_eq!(read.len(), count as usize);
    for (number, message) in read.iter().enumerate() {
        assert!(*message == numbered(number as u32), "message {number}");
    }
}

fn first_init(pair: &Pair, side: Side) -> Vec<IpAddr> {
    let chunks = pair.packets(side).into_iter().flatten();
    let mut inits = chunks.filter_map(|chunk| match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) => Some(init.addresses().collect()),
        _ => None,
    });
    inits.next().expect("there was an INIT or INIT ACK")
}

#[test]
fn one_address_is_not_listed_and_of_several_all_are() {
    //= specs/rfc6951.txt#section-3.2
    //= type=test
    //# For single-homed associations, IP addresses MUST NOT be listed in the
    //# INIT and INIT-ACK chunks.
    let mut pair = Pair::new(modern());
    pair.run(Duration::from_secs(1));
    assert!(first_init(&pair, Client).is_empty() && first_init(&pair, Server).is_empty());
    let mut pair = self::pair(modern());
    pair.run(Duration::from_secs(1));
    let ips = addresses().map(|side| side.iter().map(SocketAddr::ip).collect::<Vec<_>>());
    assert_eq!([first_init(&pair, Client), first_init(&pair, Server)], ips);
}

#[test]
fn init_contains_no_duplicate_parameter_and_no_host_name() {
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# Unless otherwise noted, each parameter MUST only be included once in
    //# the INIT chunk.
    //= specs/rfc9260.txt#section-3.3.2.1.4
    //= type=test
    //# The sender of an INIT chunk or INIT ACK chunk MUST NOT include this
    //# parameter.
    let mut pair = self::pair(modern().with(|c| c.messages.interleaving = true));
    pair.run(Duration::from_secs(1));
    let chunks = [Client, Server].map(|side| pair.packets(side)[0][0].clone());
    let [Chunk::Init(init), Chunk::InitAck(init_ack)] = chunks else { panic!("{chunks:?}") };
    for mut kinds in
        [init, init_ack].map(|init| init.parameters.iter().map(Parameter::kind).collect::<Vec<_>>())
    {
        assert!(kinds.len() > 2, "{kinds:?}");
        // An address is recorded separately.
        kinds.retain(|kind| ![Parameter::IPV4_ADDRESS, Parameter::IPV6_ADDRESS].contains(kind));
        let different: BTreeSet<_> = kinds.iter().collect();
        assert_eq!(different.len(), kinds.len(), "{kinds:?}");
        //= specs/rfc9260.txt#section-3.3.2
        //= type=test
        //# An INIT chunk MUST NOT contain the Host Name Address parameter.
        //= specs/rfc9260.txt#section-3.3.3
        //= type=test
        //# An INIT ACK chunk MUST NOT contain the Host Name Address
        //# parameter.
        //= specs/rfc9260.txt#section-3.3.3.1
        //= type=test
        //# The Host Name Address parameter is described in Section 3.3.2.1.4
        //# and MUST NOT be included in an INIT ACK chunk.
        assert!(!kinds.contains(&Parameter::HOST_NAME));
    }
}

#[test]
fn a_client_with_one_address_learns_those_of_the_server() {
    //= specs/rfc9260.txt#section-5.1.2
    //= type=test
    //# If there are only IPv4/IPv6 addresses present in the received INIT or
    //# INIT ACK chunk, the receiver MUST derive and record all the transport
    //# addresses from the received chunk AND the source IP address that sent
    //# the INIT or INIT ACK chunk.
    //= specs/rfc9260.txt#section-1.3
    //= type=test
    //# All transport addresses used by an SCTP endpoint MUST use the same
    //# port number but can use multiple IP addresses.
    let [client, server] = addresses();
    let mut pair = Pair::between([client[..1].to_vec(), server], modern(), modern());
    pair.run(Duration::from_secs(3));
    assert!(first_init(&pair, Client).is_empty());
    for side in [Client, Server] {
        assert_eq!(states(&mut pair, side), [PathState::Active; 2], "{side:?}");
    }
}

#[test]
fn with_to_multihomed_addresses_are_listed_only_to_peers_that_list_theirs() {
    let [client, server] = addresses();
    for (client, expected) in [(client[..1].to_vec(), 0), (client, 2)] {
        let mut pair = Pair::between([client, server.clone()], modern(), modern());
        pair.server.set_addresses(server.clone(), Announce::ToMultihomed);
        pair.run(Duration::from_secs(3));
        assert_eq!(first_init(&pair, Server).len(), expected);
        for side in [Client, Server] {
            assert_eq!(states(&mut pair, side), vec![PathState::Active; expected.max(1)], "{side:?}");
        }
    }
}

//= specs/rfc9260.txt#section-5.1.2
//= type=test
//# If there are no address parameters present in the received INIT
//# or INIT ACK chunk, the endpoint MUST take the source IP address
//# from which the chunk arrives and record it, in combination with
//# the SCTP Source Port Number, as the only destination transport
//# address for this peer.
#[test]
fn a_server_that_lists_nothing_has_one_address() {
    //= specs/rfc9260.txt#section-5.1.2
    //= type=test
    //# The receiver SHOULD use only these transport addresses as destination
    //# transport addresses when sending subsequent packets to its peer.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# If the INIT ACK chunk does not contain any IP Address parameters, the
    //# receiver of the INIT ACK chunk MUST use the source address associated
    //# with the received IP datagram as its sole destination address for the
    //# association.
    let mut pair = pair(modern());
    pair.server.set_addresses(Vec::new(), Announce::Always);
    pair.run(Duration::from_secs(3));
    let peers: Vec<_> = paths(&mut pair, Client).iter().map(|path| path.peer).collect();
    assert_eq!(peers, [addresses()[1][0]; 2], "from both of its own to the one of the server");
}

//= specs/rfc9260.txt#section-5.1.2
//= type=test
//# D)  An INIT or INIT ACK chunk MUST be treated as belonging to an
//# already established association (or one in the process of being
//# established) if the use of any of the valid address parameters
//# contained within the chunk would identify an existing TCB.
#[test]
fn a_server_may_answer_from_another_address_than_was_asked_if_it_lists_both() {
    let [client, server] = addresses();
    for listed in [&server[..], &server[1..]] {
        let mut pair = Pair::between([client.clone(), server[1..].to_vec()], rfc(), rfc());
        pair.server.set_addresses(listed.to_vec(), Announce::Always);
        pair.disguise[Server as usize] = Some(server[0]);
        let mut next = 0;
        feed(&mut pair, &mut next, 20);
        pair.run(Duration::from_secs(100));
        if listed.len() == 2 {
            check_all(&pair, 20);
            let peers: BTreeSet<_> = paths(&mut pair, Client).iter().map(|path| path.peer).collect();
            assert_eq!(peers, server.iter().copied().collect());
        } else {
            assert_eq!(pair.closed(Client), Some(&Reason::NoAnswer), "anybody may say so");
        }
    }
}

//= specs/rfc9260.txt#section-5.4
//= type=test
//# An endpoint MUST NOT send any chunks to an UNCONFIRMED address, with
//# the following exceptions:
//= specs/rfc9260.txt#section-5.4
//= type=test
//# For the receiver of the COOKIE ECHO chunk, the only CONFIRMED
//# address is the address to which the packet containing the INIT
//# ACK chunk was sent.
#[test]
fn a_path_is_verified_before_use_and_never_used_if_unanswered() {
    //= specs/rfc9260.txt#section-6.4
    //= type=test
    //# An endpoint SHOULD transmit reply chunks (e.g., INIT ACK, COOKIE ACK,
    //# and HEARTBEAT ACK) in response to control chunks to the same
    //# destination transport address from which it received the control chunk
    //# to which it is replying.
    let mut pair = pair(rfc());
    cut(&mut pair, 1);
    let mut next = 0;
    feed(&mut pair, &mut next, 40);
    pair.run(Duration::from_secs(200));
    check_all(&pair, 40);
    assert_eq!(states(&mut pair, Client), [PathState::Active, PathState::Unconfirmed]);
    assert_eq!(states(&mut pair, Server), [PathState::Active, PathState::Unconfirmed]);
    // The first path fails too: even then only HEARTBEATs are sent on the other.
    cut(&mut pair, 0);
    pair.send(Client, 0, numbered(40));
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    let second: BTreeSet<_> = addresses().iter().map(|side| side[1].ip()).collect();
    let mut heartbeats = 0;
    for ((_, side, packet), (from, to)) in pair.log.iter().zip(&pair.routes) {
        if second.contains(&from.ip()) || second.contains(&to.ip()) {
            assert!(second.contains(&from.ip()) && second.contains(&to.ip()), "addresses do not mix");
            assert!(chunks(packet).iter().all(|chunk| matches!(chunk, Chunk::Heartbeat(_))), "{packet:?}");
            heartbeats += usize::from(*side == Client);
        }
    }
    assert!((6..40).contains(&heartbeats), "{heartbeats}");
}

#[test]
fn unanswered_probes_of_an_unconfirmed_path_do_not_end_the_association() {
    let mut pair = pair(modern().with(|c| c.failover.association_max_retrans = 2));
    cut(&mut pair, 1);
    pair.run(Duration::from_secs(600));
    assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
    pair.cut.clear();
    pair.run(Duration::from_secs(200));
    assert_eq!(states(&mut pair, Client), [PathState::Active; 2], "it was asked again, now and then");
}

//= specs/rfc6951.txt#section-5.4
//= type=test
//# After finding the SCTP association (which
//# includes checking the verification tag), the UDP source port MUST be
//# stored as the encapsulation port for the destination address the SCTP
//# packet is received from (see Section 5.1).
#[test]
fn each_address_has_its_own_encapsulation_port() {
    //= specs/rfc6951.txt#section-5.1
    //= type=test
    //# An SCTP implementation supporting UDP encapsulation MUST maintain a
    //# remote UDP encapsulation port number per destination address for each
    //# SCTP association.
    let mut pair = confirmed(modern());
    let peers: Vec<_> = paths(&mut pair, Server).iter().map(|path| path.peer).collect();
    assert_eq!(peers, addresses()[0], "listed without ports, and learned from what came");
}

//= specs/rfc9260.txt#section-5.1
//= type=test
//# Retransmissions of INIT chunks and
//# COOKIE ECHO chunks SHOULD use all addresses of the peer similar to
//# retransmissions of DATA chunks.
#[test]
fn the_handshake_uses_the_working_path() {
    //= specs/rfc9260.txt#section-5.4
    //= type=test
    //# A COOKIE ACK chunk MAY be sent to an UNCONFIRMED address, but it MUST
    //# be bundled with a HEARTBEAT chunk including a nonce.
    //= specs/rfc9260.txt#section-5.4
    //= type=test
    //# A COOKIE ECHO chunk MAY be sent to an UNCONFIRMED address, but it MUST
    //# be bundled with a HEARTBEAT chunk including a nonce, and the size of
    //# the SCTP packet MUST NOT exceed the PMTU.
    let mut dead = pair(rfc());
    cut(&mut dead, 0);
    dead.send(Client, 0, numbered(0));
    dead.run(Duration::from_secs(10));
    assert!(dead.association(Client).is_up() && dead.association(Server).is_up());
    check_all(&dead, 1);
    assert_eq!(paths(&mut dead, Client)[0].local, addresses()[0][1], "the path that worked is the first");

    // The path fails between INIT ACK and COOKIE ECHO, which is sent on the other path with a HEARTBEAT and without data.
    let mut dying = pair(rfc());
    dying.duplication = 1_000;
    dying.send(Client, 0, numbered(0));
    assert!(dying.run_until(|pair| !pair.packets(Server).is_empty()));
    // The INIT ACK is in flight.
    cut(&mut dying, 0);
    dying.run(Duration::from_secs(30));
    assert!(dying.association(Client).is_up() && dying.association(Server).is_up());
    check_all(&dying, 1);
    let packets = dying.packets(Client);
    let repeated =
        packets.iter().find(|chunks| matches!(chunks[..], [Chunk::CookieEcho(_), Chunk::Heartbeat(_)]));
    assert!(repeated.is_some(), "{packets:?}");
    // Each COOKIE ACK is sent to the source of its COOKIE ECHO, which is an unconfirmed address for the server.
    let packets = dying.packets(Server);
    let answers: Vec<_> = packets.iter().filter(|chunks| chunks[0] == Chunk::CookieAck).collect();
    assert!(answers.len() > 1);
    let heartbeats = |chunks: &&Vec<_>| chunks.iter().any(|chunk| matches!(chunk, Chunk::Heartbeat(_)));
    assert!(answers.iter().all(heartbeats), "{answers:?}");
}

//= specs/rfc9260.txt#section-5.1
//= type=test
//# If the
//# application provided multiple IP addresses of the peer, there
//# SHOULD be a T1-init and T1-cookie timer for each address of the
//# peer.
#[test]
fn init_backs_off_separately_for_each_address() {
    let mut pair = pair(rfc());
    pair.loss = 1_000;
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    let times: Vec<_> = pair.log.iter().map(|entry| entry.0.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [0, 1, 2, 4, 6, 10, 14, 22, 30], "twice after 1 s, twice after 2 s, ...");
    let first = pair.routes.iter().map(|route| route.0 == addresses()[0][0]);
    assert_eq!(first.collect::<Vec<_>>(), [true, false, true, false, true, false, true, false, true]);
    assert_eq!(pair.now, Time::from_millis(46_000));
}

//= specs/rfc7829.txt#section-3.2
//= type=test
//# When the value in
//# the destination address error counter exceeds PFMR, the endpoint
//# MUST mark the destination address as in the PF state.
//= specs/rfc9260.txt#section-6.4.1
//= type=test
//# When there is outbound data to send and the primary path becomes
//# inactive (e.g., due to failures) or where the SCTP user explicitly
//# requests to send data to an inactive destination transport address
//# before reporting an error to its ULP, the SCTP endpoint SHOULD try to
//# send the data to an alternate active destination transport address if
//# one exists.
#[test]
fn a_second_after_a_path_fails_the_other_carries_its_full_rate() {
    const RATE: u64 = 20_000_000;
    const COUNT: u32 = 6_000;
    let mut pair = confirmed(modern());
    pair.rate = Some(Rate::from_bits_per_second(RATE));
    pair.queue = Duration::from_millis(50);
    let mut next = 0;
    let mut run = |pair: &mut Pair, until: Time| {
        pair.run_until_within(until.since(pair.now), |pair| {
            feed(pair, &mut next, COUNT);
            false
        });
        read_so_far(pair)
    };
    let start = pair.now;
    run(&mut pair, start + Duration::from_secs(3));
    cut(&mut pair, 0);
    let one_later = run(&mut pair, start + Duration::from_secs(4));
    let two_later = run(&mut pair, start + Duration::from_secs(5));
    let goodput = ((two_later - one_later) * MESSAGE * 8) as u64;
    assert!(goodput > RATE * 9 / 10, "{goodput} bit/s");
    assert!(pair.events(Client).contains(&Event::Path(PathId(0), PathState::PotentiallyFailed)));
    run(&mut pair, start + Duration::from_secs(60));
    assert_eq!(states(&mut pair, Client)[0], PathState::Inactive);

    // The path is restored: a HEARTBEAT is acknowledged, and data returns to it.
    pair.cut.clear();
    assert!(pair.run_until(|pair| {
        let event = Event::Path(PathId(0), PathState::Active);
        pair.client_events.iter().rev().take(1).any(|last| *last == event)
    }));
    pair.clear_log();
    for number in COUNT..COUNT + 100 {
        pair.send(Client, 0, numbered(number));
    }
    pair.run(Duration::from_secs(5));
    check_all(&pair, COUNT + 100);
    let data = pair.log.iter().zip(&pair.routes).filter(|((_, side, packet), _)| {
        *side == Client && chunks(packet).iter().any(|chunk| matches!(chunk, Chunk::Data(_)))
    });
    assert!(data.map(|(_, route)| route.0).all(|from| from == addresses()[0][0]), "the primary path again");
}

//= specs/rfc9260.txt#section-6.4
//= type=test
//# Furthermore, when its peer is multi-homed, an endpoint SHOULD try to
//# retransmit a chunk that timed out to an active destination transport
//# address that is different from the last destination address to which
//# the chunk was sent.
#[test]
fn with_rfc_9260_timed_out_data_uses_the_other_path_until_the_first_is_inactive() {
    //= specs/rfc9260.txt#section-7.2
    //= type=test
    //# Unlike TCP, an SCTP sender MUST keep a set of the control variables
    //# cwnd, ssthresh, and partial_bytes_acked for EACH destination address
    //# of its peer (when its peer is multi-homed).
    let mut pair = confirmed(rfc());
    cut(&mut pair, 0);
    let start = pair.now;
    pair.send(Client, 0, numbered(0));
    assert!(pair.run_until(|pair| read_so_far(pair) == 1));
    assert!(pair.now.since(start) < Duration::from_secs(2), "one RTO");
    assert_eq!(states(&mut pair, Client), [PathState::Active; 2], "one time-out does not make it inactive");
    let windows: Vec<_> = paths(&mut pair, Client).iter().map(|path| path.cwnd).collect();
    assert_eq!((windows[0], windows[1] >= 4_404), (1_440, true), "each has a window of its own");
    let mut next = 1;
    assert!(pair.run_until(|pair| {
        feed(pair, &mut next, 300);
        read_so_far(pair) == 300
    }));
    check_all(&pair, 300);
    assert!(pair.events(Client).contains(&Event::Path(PathId(0), PathState::Inactive)));
    assert!(pair.association(Client).is_up());
}

#[test]
fn either_side_fails_over_whichever_profile_and_the_shutdown_as_well() {
    for config in [rfc(), modern()] {
        for network in [0, 1] {
            let mut pair = confirmed(config.clone());
            pair.association(Client).set_primary(PathId(network as u8)).unwrap();
            let mut next = 0;
            feed(&mut pair, &mut next, 100);
            for number in 0..100u32 {
                pair.send(Server, 0, numbered(number));
            }
            pair.run(Duration::from_millis(80));
            cut(&mut pair, network);
            pair.association(Client).shutdown();
            assert!(pair.run_until(|pair| pair.closed(Client).is_some() && pair.closed(Server).is_some()));
            assert_eq!([pair.closed(Client), pair.closed(Server)], [Some(&Reason::Shutdown); 2]);
            check_all(&pair, 100);
            assert_eq!(pair.read(Client, 0).len(), 100);
        }
    }
}

#[test]
fn a_shutdown_is_retransmitted_on_a_failed_path_if_the_other_does_not_answer() {
    for config in [rfc(), modern()] {
        let mut pair = confirmed(config);
        cut(&mut pair, 0);
        let mut next = 0;
        assert!(pair.run_until(|pair| {
            feed(pair, &mut next, 2_000);
            states(pair, Client)[0] == PathState::Inactive && read_so_far(pair) == next as usize
        }));
        pair.cut.clear();
        cut(&mut pair, 1);
        pair.association(Client).shutdown();
        pair.run(Duration::from_secs(5));
        assert_eq!([pair.closed(Client), pair.closed(Server)], [Some(&Reason::Shutdown); 2]);
    }
}

#[test]
fn a_shutdown_is_retransmitted_although_heartbeats_arrive() {
    let mut chatty = rfc().with(|c| c.timers.heartbeat_interval = Some(Duration::from_millis(100)));
    chatty.timers.rto.min = Duration::from_millis(10);
    let third = [vec![at("10.0.3.1", 9_005)], vec![at("10.0.3.2", 9_002)]];
    let hosts = std::array::from_fn(|side| [&addresses()[side][..], &third[side]].concat());
    let mut pair = Pair::between(hosts, rfc(), chatty);
    pair.run(Duration::from_secs(3));
    assert_eq!(states(&mut pair, Client), [PathState::Active; 3]);
    cut(&mut pair, 0);
    cut(&mut pair, 1);
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(10));
    assert_eq!([pair.closed(Client), pair.closed(Server)], [Some(&Reason::Shutdown); 2]);
}

/// usrsctp does so over raw sockets.
#[test]
fn a_peer_that_sends_from_a_dead_address_gets_its_sacks_on_another_path() {
    for profile in Profile::ALL {
        let mut pair = confirmed(profile.config());
        // Packets of the client to the first network have its source address in the second, which is cut: SACKs to that address
        // are lost.
        pair.disguise[Client as usize] = Some(addresses()[0][1]);
        pair.cut.insert(addresses()[1][1].ip());
        let (mut next, count) = (0, 400);
        let mut took = Duration::ZERO;
        while read_so_far(&pair) < count as usize && took < Duration::from_secs(60) {
            feed(&mut pair, &mut next, count);
            pair.run(Duration::from_millis(50));
            took += Duration::from_millis(50);
        }
        check_all(&pair, count);
        let limit = Duration::from_secs(if *profile == Profile::Modern { 4 } else { 45 });
        assert!(took < limit, "{profile}: {took:?}");
    }
}

/// The same peer without data: from its HEARTBEATs the server learns that the other address is reachable.
#[test]
fn a_heartbeat_from_a_dead_address_is_acknowledged_on_another_path() {
    for profile in Profile::ALL {
        let mut pair = confirmed(profile.config());
        pair.disguise[Client as usize] = Some(addresses()[0][1]);
        pair.cut.insert(addresses()[1][1].ip());
        pair.run(Duration::from_secs(600));
        assert_eq!(states(&mut pair, Server), [PathState::Active, PathState::Inactive], "{profile}");
        assert_eq!(states(&mut pair, Client), [PathState::Active, PathState::Inactive], "{profile}");
        assert_eq!([pair.closed(Client), pair.closed(Server)], [None; 2], "{profile}");
        pair.send(Client, 0, numbered(0));
        pair.run(Duration::from_secs(5));
        check_all(&pair, 1);
        assert_eq!(paths(&mut pair, Client)[0].flight_bytes, 0, "{profile}");
    }
}

/// The client has no running T3, as usrsctp sometimes.
#[test]
fn after_a_path_failure_the_last_sack_is_repeated_once() {
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# An SCTP receiver MUST NOT generate more than one SACK chunk for every
    //# incoming packet, other than to update the offered window as the
    //# receiving application consumes new data.
    let for_ever = Duration::from_secs(10_000);
    let mut patient = rfc();
    [patient.timers.rto.initial, patient.timers.rto.min, patient.timers.rto.max] = [for_ever; 3];
    let mut pair = Pair::between(addresses(), patient, modern());
    pair.run(Duration::from_secs(3));
    assert_eq!(states(&mut pair, Server), [PathState::Active; 2]);
    pair.drop = Some(Box::new(|side, _, packet| {
        side == Server && packet.chunks().any(|chunk| matches!(chunk, Ok(Chunk::Sack(_))))
    }));
    pair.send(Client, 0, numbered(0));
    pair.run(Duration::from_secs(1));
    assert!(paths(&mut pair, Client)[0].flight_bytes > 0, "nothing of it is acknowledged");
    cut(&mut pair, 0);
    pair.drop = None;
    pair.clear_log();
    pair.server_events.clear();
    for number in 0..20 {
        pair.send(Server, 0, numbered(number));
        pair.run(Duration::from_millis(500));
    }
    assert_eq!(paths(&mut pair, Client)[0].flight_bytes, 0, "it is now");
    let changes = pair.events(Server).iter().filter(|event| matches!(event, Event::Path(..))).count();
    assert_eq!(pair.sacks(Server).len(), changes, "nothing else came that asks for one");
}

#[test]
fn an_association_ends_when_all_paths_failed() {
    for config in [rfc(), modern()] {
        for busy in [true, false] {
            let mut pair = confirmed(config.clone());
            cut(&mut pair, 0);
            cut(&mut pair, 1);
            if busy {
                pair.send(Client, 0, numbered(0));
            }
            assert!(pair.run_until(|pair| pair.closed(Client).is_some()), "busy: {busy}");
            assert_eq!(pair.closed(Client), Some(&Reason::PeerUnreachable));
        }
    }
}

#[test]
fn nothing_is_sent_on_a_path_that_is_not_allowed() {
    let [client, server] = addresses();
    let allowed = AllowedPath { local: client[1].ip(), peer: Some(server[1].ip()) };
    let config = modern().with(|c| c.paths.allowed = vec![allowed]);
    let mut pair = Pair::between(addresses(), config, modern());
    pair.send(Client, 0, numbered(0));
    pair.run(Duration::from_secs(100));
    check_all(&pair, 1);
    assert!(first_init(&pair, Client).is_empty(), "the server is not told of the other address");
    let by_client = pair.log.iter().zip(&pair.routes).filter(|((_, side, _), _)| *side == Client);
    assert!(by_client.map(|(_, route)| *route).all(|route| route == (client[1], server[1])));
}

#[test]
fn a_primary_path_can_be_chosen_among_those_there_are() {
    //= specs/rfc9260.txt#section-6.4
    //= type=test
    //# By default, an endpoint SHOULD always transmit to the primary path,
    //# unless the SCTP user explicitly specifies the destination transport
    //# address (and possibly source transport address) to use.
    //= specs/rfc9260.txt#section-6.4
    //= type=test
    //# However, an endpoint SHOULD NOT vary the destination transport address
    //# of a SACK chunk when it receives DATA chunks coming from the same
    //# source address.
    //= specs/rfc9260.txt#section-6.7
    //= type=test
    //# When its peer is multi-homed, the SCTP endpoint SHOULD always try to
    //# send the SACK chunk to the same destination address from which the
    //# last DATA chunk was received.
    let mut pair = confirmed(modern());
    assert!(pair.association(Client).set_primary(PathId(2)).is_err());
    pair.association(Client).set_primary(PathId(1)).unwrap();
    pair.send(Client, 0, numbered(0));
    pair.run(Duration::from_secs(1));
    check_all(&pair, 1);
    let from: BTreeSet<_> = pair.log.iter().zip(&pair.routes).map(|(_, route)| route.0).collect();
    assert_eq!(from, BTreeSet::from([addresses()[0][1], addresses()[1][1]]), "and the answers come by it");
}

#[test]
fn a_peer_that_lists_too_many_addresses_gets_so_many_paths() {
    let [client, server] = addresses();
    let many: Vec<_> = (0..200).map(|host| at(&format!("10.0.3.{host}"), 9_001)).collect();
    let mut pair = Pair::between([[client, many].concat(), server], modern(), modern());
    pair.run(Duration::from_secs(3));
    for side in [Client, Server] {
        assert_eq!(paths(&mut pair, side).len(), crate::association::pairing::PATHS_MAX, "{side:?}");
    }
}

//= specs/rfc7829.txt#section-5
//= type=test
//# When the path error counter on a set primary path exceeds PSMR,
//# the SCTP implementation MUST autonomously select and set a new
//# primary path.
//= specs/rfc7829.txt#section-5
//= type=test
//# The primary path selected by the SCTP implementation MUST be the
//# path that, at the given time, would be chosen for data transfer.
//= specs/rfc7829.txt#section-5
//= type=test
//# An SCTP-PF implementation of Primary Path Switchover
//# MUST support the setting of PSMR = PFMR.
//= specs/rfc7829.txt#section-5
//= type=test
//# A
//# standard SCTP implementation of Primary Path Switchover MUST
//# support the setting of PSMR = PMR.
//= specs/rfc7829.txt#section-5
//= type=test
//# It MUST be possible to disable the Primary Path Switchover
//# operation and obtain the standard switchback operation of
//# [RFC4960].
//= specs/rfc7829.txt#section-5
//= type=test
//# For SCTP-PF
//# implementations, the PSMR MUST be set greater than or equal to
//# the PFMR value.
//= specs/rfc7829.txt#section-5
//= type=test
//# For implementations of [RFC4960], the PSMR MUST
//# be set greater than or equal to the PMR value.
//= specs/rfc7829.txt#section-5
//= type=test
//# Implementations
//# MUST reject any other values of PSMR.
#[test]
fn the_alternate_path_may_become_the_primary_permanently() {
    for config in [rfc(), modern()] {
        for switchover in [None, Some(0)] {
            // 0 is raised to PFMR, or to PMR: until then data stays on the path.
            let config = config.clone().with(|c| c.failover.primary_switchover_max_retrans = switchover);
            let mut pair = confirmed(config);
            cut(&mut pair, 0);
            let mut next = 0;
            assert!(pair.run_until(|pair| {
                feed(pair, &mut next, 300);
                read_so_far(pair) == 300
            }));
            pair.run(Duration::from_secs(300));
            assert_eq!(states(&mut pair, Client)[0], PathState::Inactive);
            pair.cut.clear();
            pair.run(Duration::from_secs(300));
            assert_eq!(states(&mut pair, Client), [PathState::Active; 2]);
            pair.clear_log();
            for number in 300..320 {
                pair.send(Client, 0, numbered(number));
            }
            pair.run(Duration::from_secs(20));
            check_all(&pair, 320);
            let sent = pair.log.iter().zip(&pair.routes).filter(|((_, side, packet), _)| {
                *side == Client && chunks(packet).iter().any(|chunk| matches!(chunk, Chunk::Data(_)))
            });
            let from: BTreeSet<_> = sent.map(|(_, route)| route.0).collect();
            assert_eq!(from, BTreeSet::from([addresses()[0][usize::from(switchover.is_some())]]));
        }
    }
}
