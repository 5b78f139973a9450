//! Path MTU discovery between two endpoints (RFC 8899 §6.2), over links that drop large packets silently.

use super::*;
use crate::Icmp;
use crate::association::Split;
use crate::config::MtuDiscovery;
use crate::ids::PathId;
use crate::stats::PathStats;

fn discovering(mtu: usize, discovery: MtuDiscovery) -> Config {
    modern().with(|c| {
        c.path_mtu.packet_bytes = mtu;
        c.path_mtu.discovery = Some(discovery);
    })
}

/// An established association whose sides both support it.
fn pair(config: Config, carries: usize) -> Pair {
    let mut pair = Pair::up(config);
    pair.carries = Some(carries);
    pair
}

fn path(pair: &mut Pair) -> PathStats {
    pair.association(Client).stats().paths[0].clone()
}

/// The sizes of the client's packets with a PAD chunk.
fn probes(pair: &Pair) -> Vec<usize> {
    let padded = |entry: &&(Time, Side, Packet)| entry.1 == Client && has(&entry.2, Chunk::PAD);
    pair.log.iter().filter(padded).map(|entry| entry.2.len()).collect()
}

fn jumbo() -> MtuDiscovery {
    MtuDiscovery { max: 8_952, ..MtuDiscovery::default() }
}

//= specs/rfc8899.txt#section-6.2
//= type=test
//# The PAD chunk defined in [RFC4820] SHOULD be attached
//# to a minimum-length HEARTBEAT (HB) chunk to build a probe packet.
//= specs/rfc8899.txt#section-6.2.1.2
//= type=test
//# Probe packets consist of an SCTP common header followed by a
//# HEARTBEAT chunk and a PAD chunk.
//= specs/rfc8899.txt#section-3
//= type=test
//# Loss of a probe packet SHOULD NOT be treated as an
//# indication of congestion and SHOULD NOT trigger a congestion
//# control reaction [RFC4821]
//= specs/rfc8899.txt#section-3
//= type=test
//# An update to the
//# PLPMTU (or MPS) MUST NOT increase the congestion window measured
//# in bytes [RFC4821].
//= specs/rfc8899.txt#section-3
//= type=test
//# Probe loss recovery: It is RECOMMENDED to use probe packets that do
//# not carry any user data that would require retransmission if lost.
//= specs/rfc8899.txt#section-6.2
//= type=test
//# The RECOMMENDED method for generating probes is to add a chunk
//# consisting only of padding to an SCTP message.
//= specs/rfc8899.txt#section-5.2
//= type=test
//# When used with an acknowledged PL (e.g., SCTP), DPLPMTUD SHOULD NOT
//# continue to generate PLPMTU probes in this state.
//= specs/rfc8899.txt#section-4.4
//= type=test
//# To determine the largest data block that can be sent, a PL SHOULD
//# provide applications with a primitive that returns the MPS, derived
//# from the current PLPMTU.
//= specs/rfc8899.txt#section-3
//= type=test
//# To assist applications in choosing a suitable data block size, the PL
//# is RECOMMENDED to provide a primitive that returns the MPS derived
//# from the PLPMTU to the higher layer using the PL.
#[test]
fn the_size_is_found_and_costs_the_window_nothing() {
    let mut pair = Pair::new(discovering(1_200, jumbo()));
    pair.carries = Some(4_324);
    pair.run(Duration::from_millis(30));
    let before = path(&mut pair);
    pair.run(Duration::from_secs(20));
    let after = path(&mut pair);
    assert_eq!(after.mtu, 4_324);
    assert_eq!((after.cwnd, after.ssthresh, after.timeouts), (before.cwnd, before.ssthresh, 0));
    let sizes = probes(&pair);
    assert_eq!(
        sizes,
        [1_252, 1_352, 1_372, 1_392, 1_412, 1_432, 1_452, 1_464, 1_472, 4_324, 8_952, 8_952, 8_952]
    );
    for (_, _, packet) in
        pair.log.iter().filter(|(_, side, packet)| *side == Client && has(packet, Chunk::PAD))
    {
        assert!(matches!(chunks(packet)[..], [Chunk::Heartbeat(_), Chunk::Pad(_)]));
    }
    // Data now fills packets of this size, and no probe is repeated before its time.
    pair.clear_log();
    pair.send(Client, 0, pattern(100_000));
    pair.run(Duration::from_secs(500));
    assert_eq!(pair.read(Server, 0), [pattern(100_000)]);
    assert_eq!(pair.log.iter().map(|entry| entry.2.len()).max(), Some(4_324));
    assert!(probes(&pair).is_empty());
    pair.carries = None;
    pair.run(Duration::from_secs(200));
    assert_eq!(path(&mut pair).mtu, 8_952, "tried again after PMTU_RAISE_TIMER");
}

//= specs/rfc8899.txt#section-3
//= type=test
//# Flow control SHOULD NOT apply to DPLPMTU when probe packets use a design
//# that does not carry user data to the remote application.
#[test]
fn a_peer_whose_window_is_shut_still_answers_probes() {
    let config = discovering(1_200, MtuDiscovery::default()).with(|c| c.memory.receive_buffer_bytes = 8_000);
    let mut pair = Pair::new(config);
    pair.reads = false;
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Chunk::PAD)));
    for _ in 0..20 {
        pair.send(Client, 0, pattern(1_000));
    }
    pair.run(Duration::from_secs(2));
    assert!(pair.sacks(Server).last().is_some_and(|(_, sack)| sack.a_rwnd < 1_200), "it is shut");
    let before = pair.association(Client).stats().paths[0].bytes_sent;
    pair.drop = None;
    pair.run(Duration::from_secs(20));
    assert!(pair.association(Client).stats().paths[0].bytes_sent > before);
    assert_eq!(path(&mut pair).mtu, 1_452);
}

//= specs/rfc8899.txt#section-6.2.1.3
//= type=test
//# Since SCTP provides an acknowledged PL, a sender MUST NOT implement
//# the CONFIRMATION_TIMER while in the SEARCH_COMPLETE state.
//= specs/rfc8899.txt#section-5.1.1
//= type=test
//# When an acknowledged PL is used, this timer MUST NOT be used.
#[test]
fn a_path_that_starts_at_the_maximum_is_never_probed() {
    let mut pair = Pair::new(discovering(1_452, MtuDiscovery::default()));
    pair.send(Client, 0, pattern(50_000));
    pair.run(Duration::from_secs(2_000));
    assert_eq!(pair.read(Server, 0), [pattern(50_000)]);
    assert!(probes(&pair).is_empty());
}

//= specs/rfc8899.txt#section-4.3
//= type=test
//# A DPLPMTUD method MUST NOT rely solely on this method.
//= specs/rfc9260.txt#section-6.9
//= type=test
//# Instead, if
//# the PMTU has been reduced, then IP fragmentation MUST be used.
//= specs/rfc8899.txt#section-3
//= type=test
//# A PL MUST NOT send a datagram (other than a probe
//# packet) with a size at the PL that is larger than the current
//# PLPMTU.
#[test]
fn a_black_hole_is_detected_and_chunks_that_became_too_large_are_fragmented_by_ip() {
    //= specs/rfc6951.txt#section-5.6
    //= type=test
    //# When performing Path MTU discovery as described in [RFC4820] and
    //# [RFC4821], it MUST be taken into account that one cannot rely on the
    //# feedback provided by ICMP or ICMPv6 due to the limitation laid out in
    //# Section 5.5.
    for config in [modern(), rfc()] {
        let config = config.with(|c| c.path_mtu.discovery = Some(MtuDiscovery::default()));
        let mut pair = pair(config, usize::MAX);
        pair.send(Client, 0, pattern(60_000));
        pair.run(Duration::from_millis(15));
        pair.carries = Some(1_392);
        let start = pair.now;
        assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
        assert!(pair.now.since(start) < Duration::from_secs(60), "{:?}", pair.now.since(start));
        assert!(pair.whole_only > 0 && pair.cut_by_ip > 0, "some were dropped, then some were cut");
        pair.run(Duration::from_secs(20));
        assert_eq!(path(&mut pair).mtu, 1_392);
        pair.clear_log();
        pair.send(Client, 0, pattern(60_000));
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.read(Server, 0).len(), 2);
        assert!(pair.log.iter().all(|entry| entry.2.len() <= 1_392));
    }
}

#[test]
fn small_messages_in_shared_packets_cause_no_stall() {
    let config = discovering(1_452, MtuDiscovery::default());
    let mut pair = pair(config, 1_300);
    for _ in 0..300 {
        pair.send(Client, 0, pattern(100));
    }
    assert!(pair.run_until_within(Duration::from_secs(60), |pair| pair.read(Server, 0).len() == 300));
    pair.run(Duration::from_secs(10));
    assert_eq!(path(&mut pair).mtu, 1_252);
}

//= specs/rfc8899.txt#section-3
//= type=test
//# The PL is REQUIRED to be robust in the case where probe packets are lost
//# due to other reasons (including link transmission error, congestion).
//= specs/rfc8899.txt#section-3
//= type=test
//# Datagram reordering: A method is REQUIRED to be robust to the
//# possibility that a flow encounters reordering or that the traffic
//# (including probe packets) is divided over more than one network path.
#[test]
fn losses_unrelated_to_size_do_not_reduce_the_packet_size() {
    let mut pair = Pair::up(discovering(1_452, MtuDiscovery::default())).seeded(3);
    pair.loss = 100;
    let mut least = usize::MAX;
    for _ in 0..40 {
        pair.send(Client, 0, pattern(50_000));
        pair.run(Duration::from_secs(2));
        least = least.min(path(&mut pair).mtu);
    }
    pair.loss = 0;
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.read(Server, 0).len(), 40);
    assert_eq!(path(&mut pair).mtu, 1_452, "at worst it was {least} for a while");
}

#[test]
fn repeated_losses_among_equally_large_packets_do_not_reduce_the_size() {
    let mut config = modern().with(|c| {
        c.path_mtu.packet_bytes = 1_452;
        c.path_mtu.discovery = Some(MtuDiscovery::default());
    });
    // A controller whose window stays large under loss, so that other packets are in flight.
    config.congestion.control = braidftp_cc::Kind::Bbr;
    config.congestion.options.bbr.version = braidftp_cc::bbr::Version::V1;
    for seed in [1, 14] {
        let mut pair = Pair::up(config.clone()).seeded(seed);
        pair.rate = Some(Rate::from_bits_per_second(20_000_000));
        pair.latency = Duration::from_millis(50);
        pair.loss = 100;
        pair.send(Client, 0, pattern(4_000_000));
        let mut least = usize::MAX;
        assert!(pair.run_until(|pair| {
            least = least.min(path(pair).mtu);
            !pair.read(Server, 0).is_empty()
        }));
        assert_eq!(least, 1_452, "seed {seed}");
    }
}

//= specs/rfc9260.txt#section-7.3
//= type=test
//# An endpoint SHOULD apply these techniques and SHOULD do so on a per-
//# destination-address basis.
//= specs/rfc9260.txt#section-7.3
//= type=test
//# 2)  The sender SHOULD track an AMDCS that will be the smallest PMDCS
//# discovered for all of the peer's destination addresses.
//= specs/rfc9260.txt#section-7.3
//= type=test
//# An endpoint MUST
//# maintain separate PMTU estimates for each destination address of
//# its peer.
//= specs/rfc9260.txt#section-7.3
//= type=test
//# When
//# fragmenting messages into multiple parts, this AMDCS SHOULD be
//# used to calculate the size of each DATA chunk.
//= specs/rfc8899.txt#section-5
//= type=test
//# A PL MUST adjust the MPS indicated by DPLPMTUD to account for any
//# additional overhead introduced by the PL.
#[test]
fn each_path_has_its_size_and_chunks_fit_all_of_them() {
    let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 9_001);
    let addresses = [vec![at("10.0.1.1"), at("10.0.2.1")], vec![at("10.0.1.2"), at("10.0.2.2")]];
    let config = discovering(1_200, jumbo());
    let mut pair = Pair::between(addresses.clone(), config.clone(), config);
    pair.carries = Some(4_324);
    pair.narrow.insert(addresses[0][1].ip(), 1_392);
    pair.run(Duration::from_secs(20));
    let mtus: Vec<_> = pair.association(Client).stats().paths.iter().map(|path| path.mtu).collect();
    assert_eq!(mtus, [4_324, 1_392]);
    pair.clear_log();
    pair.send(Client, 0, pattern(30_000));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 0), [pattern(30_000)]);
    let longest = pair.data(Client).iter().map(|data| data.payload.len()).max().unwrap();
    assert_eq!(longest, 1_392 - Header::LEN - Data::HEADER_LEN);
    let packet = pair.log.iter().map(|entry| entry.2.len()).max().unwrap();
    assert!(packet > 4_000, "of which several share a packet: {packet}");
}

/// A router's message about a packet from `local` to `peer`.
fn too_big(local: SocketAddr, peer: SocketAddr, quoted: &[u8], size: usize) -> Icmp<'_> {
    Icmp { local, peer, kind: 3, code: 4, size, quoted }
}

//= specs/rfc8899.txt#section-3
//= type=test
//# Any received PTB message MUST be validated before it is used to update
//# the PLPMTU discovery information [RFC8201].
//= specs/rfc8899.txt#section-4.6.1
//= type=test
//# A PL that supports PTB messages MUST validate these messages before they
//# are further processed.
//= specs/rfc8899.txt#section-4.6.1
//= type=test
//# The PL MUST check the protocol information in the quoted packet carried
//# in an ICMP PTB message payload to validate the message originated from
//# the sending node.
//= specs/rfc8899.txt#section-6.2.1.4
//= type=test
//# Normal ICMP validation MUST be performed as specified in Appendix C of
//# [RFC4960].
//= specs/rfc8899.txt#section-6.2.2.4
//= type=test
//# ICMP validation MUST be performed for PTB messages as specified in
//# Appendix C of [RFC4960].
//= specs/rfc8899.txt#section-8
//= type=test
//# A node supporting DPLPMTUD MUST therefore appropriately validate the
//# payload of PTB messages to ensure these are received in response to
//# transmitted traffic (i.e., a reported error condition that corresponds
//# to a datagram actually sent by the path layer, see Section 4.6.1).
//= specs/rfc9260.txt#section-10
//= type=test
//# ICMP6)  An implementation MUST validate that the Verification Tag
//# contained in the ICMP message matches the Verification Tag of
//# the peer.
//= specs/rfc9260.txt#section-10
//= type=test
//# ICMP5)  An implementation MUST use the payload of the ICMP message
//# (v4 or v6) to locate the association that sent the message to
//# which ICMP is responding.  If the association cannot be
//# found, an implementation SHOULD ignore the ICMP message.
//= specs/rfc8899.txt#section-4.6.1
//= type=test
//# A PTB message
//# that does not complete the validation MUST NOT be further utilized by
//# the DPLPMTUD method
//= specs/rfc8899.txt#section-4.6.1
//= type=test
//# The validation SHOULD utilize information that is not simple for an
//# off-path attacker to determine [BCP145].
//= specs/rfc8899.txt#section-8
//= type=test
//# This processing SHOULD be limited to avoid a denial-of-service attack
//# when arbitrary headers are included.
#[test]
fn packet_too_big_counts_if_it_quotes_a_sent_packet() {
    let mut pair = pair(discovering(1_452, MtuDiscovery::default()), usize::MAX);
    pair.send(Client, 0, pattern(10));
    pair.run(Duration::from_secs(1));
    let header = pair.last_header.unwrap();
    let quote = |source: u16, destination: u16, tag: u32| {
        [&source.to_be_bytes()[..], &destination.to_be_bytes(), &tag.to_be_bytes()].concat()
    };
    let (source, destination, tag) = (header.source_port, header.destination_port, header.tag.0);
    let right = quote(source, destination, tag);
    let (here, there) = (client_address(), server_address());
    let other = "127.0.0.9:9002".parse().unwrap();
    for (local, peer, quoted) in [
        (here, there, &right[..7]),
        (here, there, &quote(source, destination, tag ^ 1)[..]),
        (here, there, &quote(source, destination, 0)[..]),
        (here, there, &quote(source, destination + 1, tag)[..]),
        (here, there, &quote(source + 1, destination, tag)[..]),
        (here, other, &right[..]),
        (other, there, &right[..]),
    ] {
        pair.client.handle_icmp(pair.now, too_big(local, peer, quoted, 1_252));
        pair.run(Duration::from_millis(100));
        assert_eq!(path(&mut pair).mtu, 1_452, "{local} {peer} {quoted:?}");
    }
    pair.client.handle_icmp(pair.now, too_big(here, there, &right, 1_252));
    pair.run(Duration::from_millis(5));
    assert_eq!(path(&mut pair).mtu, 1_200, "the base, while what it said is tried");
    pair.run(Duration::from_millis(25));
    assert_eq!(path(&mut pair).mtu, 1_252);
}

#[test]
fn without_discovery_the_size_is_fixed_and_df_is_unspecified() {
    let mut pair = pair(rfc(), usize::MAX);
    pair.association(Client).set_primary(PathId(0)).unwrap();
    pair.send(Client, 0, pattern(10_000));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.splits, BTreeSet::from([Split::Unspecified as u8]));
    let header = pair.last_header.unwrap();
    let quoted = [
        &header.source_port.to_be_bytes()[..],
        &header.destination_port.to_be_bytes(),
        &header.tag.0.to_be_bytes(),
    ];
    let quoted = quoted.concat();
    pair.client.handle_icmp(pair.now, too_big(client_address(), server_address(), &quoted, 1_200));
    pair.run(Duration::from_secs(1));
    assert_eq!(path(&mut pair).mtu, 1_452);
}

#[test]
fn data_that_waits_for_the_handshake_does_not_keep_it_from_a_path_with_a_small_mtu() {
    let config = discovering(1_452, MtuDiscovery::default());
    let copied = config.clone().with(|c| c.handshake.copy_after = Some(Duration::from_millis(10)));
    let config = config.with(|c| c.handshake.copy_after = None);
    for (config, whole) in [(config, 1), (copied, 2)] {
        let mut pair = Pair::new(config);
        pair.carries = Some(512);
        pair.send(Client, 0, pattern(200_000));
        pair.run(Duration::from_millis(1_200));
        let cookies = pair.log.iter().filter(|(_, _, packet)| has(packet, Chunk::COOKIE_ECHO));
        let sizes: Vec<usize> = cookies.map(|(_, _, packet)| packet.len()).collect();
        assert!(pair.log.iter().any(|(_, _, packet)| has(packet, Chunk::COOKIE_ACK)), "{sizes:?}");
        assert_eq!(sizes[..whole], [1_452; 2][..whole], "{sizes:?}");
        assert!(sizes.len() == whole + 1 && sizes[whole] <= 512, "{sizes:?}");
        pair.run(Duration::from_secs(60));
        assert_eq!(pair.read(Server, 0), [pattern(200_000)]);
    }
}
