//! Misbehaving peers: each violation has a defined reaction, and affects at most its association.

use super::*;
use crate::association::Violation;
use crate::ids::{Ssn, Tsn, VerificationTag};
use crate::stats::Phase;
use crate::wire::{Cause, Init, Parameter};

/// An association whose server has received the client's first message, and the next TSN.
fn bench() -> (Pair, Tsn) {
    let mut pair = Pair::up(rfc());
    pair.send(Client, 0, "first");
    pair.run(Duration::from_secs(1));
    let next = pair.data(Client)[0].tsn.next();
    pair.log.clear();
    (pair, next)
}

fn data(tsn: Tsn, stream: u16, ssn: u16, payload: &'static [u8]) -> Data {
    Data { stream: StreamId(stream), ssn: Ssn(ssn), ..Data::whole(tsn, payload) }
}

/// The server's answer to the last packet.
fn said(pair: &Pair) -> Vec<Chunk> {
    pair.packets(Server).into_iter().flatten().collect()
}

fn violation(pair: &Pair) -> Option<Violation> {
    match pair.closed(Server) {
        Some(Reason::PeerViolation(violation)) => Some(*violation),
        _ => None,
    }
}

#[test]
fn data_without_user_data_is_aborted_with_its_tsn() {
    let (mut pair, next) = bench();
    // The encoder makes no such chunk: one byte of a valid one is removed.
    let mut builder = PacketBuilder::new();
    builder.begin(pair.last_header.unwrap(), 1_452);
    builder.push(&Chunk::Unknown { kind: 0, raw: empty_data(next) });
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    pair.forge_bytes(payload);
    assert_eq!(violation(&pair), Some(Violation::NoUserData(next)));
    assert!(
        matches!(&said(&pair)[..], [Chunk::Abort { causes, .. }] if *causes == [Cause::NoUserData(next)])
    );
}

fn empty_data(tsn: Tsn) -> Bytes {
    let mut raw = vec![0, 3, 0, 16];
    raw.extend_from_slice(&tsn.0.to_be_bytes());
    raw.extend_from_slice(&[0; 8]);
    raw.into()
}

#[test]
fn data_for_a_stream_that_does_not_exist_is_acknowledged_reported_and_dropped() {
    let (mut pair, next) = bench();
    // The client has not sent the acknowledged chunk.
    pair.drop = Some(Box::new(|side, _, _| side == Server));
    pair.forge(&[Chunk::Data(data(next, 10, 0, b"nowhere"))]);
    pair.run(Duration::from_millis(300));
    let cause = Cause::InvalidStreamIdentifier(StreamId(10));
    assert!(said(&pair).contains(&Chunk::Error(vec![cause])));
    assert_eq!(pair.sacks(Server).last().unwrap().1.cum_tsn_ack, next);
    assert!(pair.association(Server).is_up());
    assert_eq!(pair.association(Server).stats().unread_bytes, 0);
}

#[test]
fn an_acknowledgement_of_an_unsent_tsn_is_aborted() {
    //= specs/rfc9260.txt#section-12.4
    //= type=test
    //# An SCTP implementation MUST abort the association if it receives a
    //# SACK chunk acknowledging a TSN that has not been sent.
    fn sack(cum_tsn_ack: Tsn, gaps: Vec<(u16, u16)>) -> Chunk {
        Chunk::Sack(Sack { flags: 0, cum_tsn_ack, a_rwnd: 9_000, gaps, dups: vec![] })
    }
    let chunks: [fn(Tsn) -> Chunk; 4] = [
        |next| Chunk::Shutdown { cum_tsn_ack: next },
        |next| sack(next, vec![]),
        |next| sack(next.minus(1), vec![(1, 1)]),
        |next| sack(next.minus(1), vec![(5, 65_535)]),
    ];
    for chunk in chunks {
        let (mut pair, _) = bench();
        let next = pair.association(Server).initial_tsn;
        pair.forge(&[chunk(next)]);
        assert_eq!(violation(&pair), Some(Violation::AckOfNothing));
    }
}

#[test]
fn an_invalid_gap_block_is_skipped() {
    let (mut pair, _) = bench();
    let cum_tsn_ack = pair.association(Server).initial_tsn.minus(1);
    pair.forge(&[Chunk::Sack(Sack {
        flags: 0,
        cum_tsn_ack,
        a_rwnd: 9_000,
        gaps: vec![(5, 4)],
        dups: vec![],
    })]);
    assert!(pair.association(Server).is_up());
    assert_eq!(said(&pair), []);
}

#[test]
fn fragments_that_contradict_each_other_are_aborted() {
    let (mut pair, next) = bench();
    let begun = Data { end: false, ..data(next, 0, 1, b"begun") };
    pair.forge(&[Chunk::Data(begun), Chunk::Data(data(next.next(), 0, 1, b"another"))]);
    assert_eq!(violation(&pair), Some(Violation::MessageInterrupted));
    assert!(matches!(&said(&pair)[..], [Chunk::Abort { causes, .. }]
        if matches!(causes[..], [Cause::ProtocolViolation(_)])));
}

#[test]
fn an_unknown_chunk_is_treated_as_its_high_bits_say() {
    for (kind, reported, read_on) in
        [(0x3f, false, false), (0x7f, true, false), (0xbf, false, true), (0xff, true, true)]
    {
        let (mut pair, next) = bench();
        let raw = Bytes::from(vec![kind, 0, 0, 8, 1, 2, 3, 4]);
        let unknown = Chunk::Unknown { kind, raw: raw.clone() };
        pair.forge(&[unknown, Chunk::Data(data(next, 0, 1, b"behind"))]);
        pair.run(Duration::from_millis(300));
        let report = Chunk::Error(vec![Cause::UnrecognizedChunkType(raw)]);
        assert_eq!(said(&pair).contains(&report), reported, "{kind:#x}");
        assert_eq!(pair.read(Server, 0).len(), 1 + usize::from(read_on), "{kind:#x}");
    }
}

#[test]
fn a_late_sack_after_shutdown_began_is_discarded() {
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# A SACK chunk received in any other state SHOULD be discarded.
    let (mut pair, _) = bench();
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.association(Server).shutdown();
    pair.drain(Server);
    assert_eq!(pair.association(Server).phase(), Phase::ShutdownSent);
    pair.clear_log();
    let cum_tsn_ack = pair.association(Server).initial_tsn;
    pair.forge(&[Chunk::Sack(Sack { cum_tsn_ack, ..Sack::default() })]);
    assert_eq!((said(&pair), pair.association(Server).phase()), (vec![], Phase::ShutdownSent));
}

#[test]
fn a_shutdown_is_bundled_with_a_sack_while_there_are_gaps() {
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# Therefore, the endpoint SHOULD use a SACK chunk instead of the
    //# SHUTDOWN chunk to acknowledge DATA chunks received out of order.
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# If a SHUTDOWN chunk by itself cannot
    //# acknowledge all of the received DATA chunks (i.e., there are TSNs
    //# that can be acknowledged that are larger than the cumulative TSN and
    //# thus gaps exist in the TSN sequence) or if duplicate TSNs have been
    //# received, then a SACK chunk MUST also be sent.
    let (mut pair, next) = bench();
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.forge(&[Chunk::Data(data(next.plus(1), 0, 2, b"beyond a gap"))]);
    pair.clear_log();
    pair.association(Server).shutdown();
    pair.run(Duration::from_millis(1_500));
    let all = pair.packets(Server);
    assert_eq!(all.len(), 2, "{all:?}");
    for packet in all {
        let [Chunk::Sack(sack), Chunk::Shutdown { cum_tsn_ack }] = &packet[..] else { panic!("{packet:?}") };
        assert_eq!(
            (&sack.gaps[..], sack.cum_tsn_ack, *cum_tsn_ack),
            (&[(2, 2)][..], next.minus(1), next.minus(1))
        );
    }
    // A duplicate is reported with the SHUTDOWN that its packet triggers.
    pair.clear_log();
    pair.forge(&[Chunk::Data(data(next.plus(1), 0, 2, b"beyond a gap"))]);
    let [packet] = &pair.packets(Server)[..] else { panic!("{:?}", pair.packets(Server)) };
    let [Chunk::Sack(sack), Chunk::Shutdown { .. }] = &packet[..] else { panic!("{packet:?}") };
    assert_eq!(sack.dups, [next.plus(1)]);
}

#[test]
fn queued_heartbeat_acks_are_limited() {
    let (mut pair, _) = bench();
    let heartbeats: Vec<_> = (0..100u8).map(|n| Chunk::Heartbeat(Bytes::from(vec![n; 4]))).collect();
    pair.forge(&heartbeats);
    let acks = said(&pair).iter().filter(|chunk| matches!(chunk, Chunk::HeartbeatAck(_))).count();
    assert_eq!(acks, 16);
}

#[test]
fn one_packet_is_answered_by_one_packet() {
    //= specs/rfc9260.txt#section-12.4
    //= type=test
    //# When an SCTP implementation receives a packet containing multiple
    //# control or DATA chunks and the processing of the packet would result
    //# in sending multiple chunks in response, the sender of the response
    //# chunk(s) MUST NOT send more than one packet containing chunks other
    //# than DATA chunks.
    let (mut pair, _) = bench();
    let mut builder = PacketBuilder::new();
    builder.begin(pair.last_header.unwrap(), 9_000);
    for n in 0..16u8 {
        builder.push(&Chunk::Heartbeat(Bytes::from(vec![n; 200])));
        builder
            .push(&Chunk::Unknown { kind: 0xff, raw: [&[0xff, 0, 0, 204][..], &[n; 200]].concat().into() });
    }
    builder.seal();
    pair.forge_bytes(builder.finish().unwrap().payload);
    let packets = pair.packets(Server);
    assert_eq!(packets.len(), 1, "{packets:?}");
    assert!(packets[0].iter().filter(|chunk| matches!(chunk, Chunk::HeartbeatAck(_))).count() > 5);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.packets(Server).len(), 1, "and the rest is forgotten");
}

#[test]
fn data_that_comes_after_the_peers_shutdown_is_discarded() {
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# A DATA chunk received in any other state SHOULD be discarded.
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# DATA chunks MUST only be received according to the rules below in
    //# ESTABLISHED, SHUTDOWN-PENDING, and SHUTDOWN-SENT states.
    for busy in [true, false] {
        let (mut pair, next) = bench();
        pair.drop = Some(Box::new(|_, _, _| true));
        if busy {
            pair.send(Server, 0, "not acknowledged yet");
            pair.drain(Server);
        }
        let cum_tsn_ack = pair.association(Server).initial_tsn.minus(1);
        pair.forge(&[Chunk::Shutdown { cum_tsn_ack }]);
        let phase = if busy { Phase::ShutdownReceived } else { Phase::ShutdownAckSent };
        assert_eq!(pair.association(Server).phase(), phase);
        pair.clear_log();
        pair.reads = false;
        pair.forge(&[Chunk::Data(data(next, 0, 1, b"too late"))]);
        assert_eq!((said(&pair), pair.association(Server).stats().unread_bytes), (vec![], 0));
        //= specs/rfc9260.txt#section-4
        //= type=test
        //# In the SHUTDOWN-RECEIVED state, the endpoint MUST NOT accept any
        //# new send requests from its SCTP user.
        //= specs/rfc9260.txt#section-4
        //= type=test
        //# In the SHUTDOWN-ACK-SENT state, the endpoint MUST NOT accept any
        //# new send requests from its SCTP user.
        let refused = pair.association(Server).send(StreamId(0), Message::new(Ppid(0), "too late as well"));
        assert_eq!(refused, Err(crate::association::SendError::ShuttingDown));
        //= specs/rfc9260.txt#section-9.2
        //= type=test
        //# Once an endpoint has reached the SHUTDOWN-RECEIVED state, it MUST
        //# ignore ULP shutdown requests but MUST continue responding to SHUTDOWN
        //# chunks from its peer.
        pair.association(Server).shutdown();
        assert_eq!(pair.association(Server).phase(), phase);
        pair.forge(&[Chunk::Shutdown { cum_tsn_ack: cum_tsn_ack.plus(u32::from(busy)) }]);
        assert_eq!(pair.association(Server).phase(), Phase::ShutdownAckSent);
    }
}

#[test]
fn both_sides_of_a_simultaneous_shutdown_may_send_shutdown_ack() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# If an endpoint is in the SHUTDOWN-ACK-SENT state and receives a
    //# SHUTDOWN ACK, it MUST stop the T2-shutdown timer, send a SHUTDOWN
    //# COMPLETE chunk to its peer, and remove all record of the association.
    let (mut pair, _) = bench();
    pair.drop = Some(Box::new(|_, _, _| true));
    let cum_tsn_ack = pair.association(Server).initial_tsn.minus(1);
    pair.forge(&[Chunk::Shutdown { cum_tsn_ack }]);
    pair.clear_log();
    pair.forge(&[Chunk::ShutdownAck]);
    assert_eq!(said(&pair), [Chunk::ShutdownComplete { reflected: false }]);
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown));
}

#[test]
fn growth_comes_before_the_reduction_of_the_same_sack() {
    //= specs/rfc9260.txt#section-7.2.4
    //= type=test
    //# if the received SACK chunk also
    //# acknowledges new DATA chunks and advances the Cumulative TSN Ack
    //# Point, the cwnd adjustment rules defined in Sections 7.2.1 and 7.2.2
    //# MUST be applied first.
    let mut options = rfc().congestion.options;
    options.initial_window = braidftp_cc::InitialWindow::Mtus(20.try_into().unwrap());
    let mut pair = Pair::up(rfc().with(|c| {
        c.congestion.options = options;
        c.congestion.max_burst = None;
    }));
    pair.send(Client, 0, "so that there is a packet to forge from");
    pair.run(Duration::from_secs(1));
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.send(Server, 0, pattern(1_424 * 80));
    pair.drain(Server);
    let first = pair.association(Server).initial_tsn;
    let mut sack = |cum: u32, gaps: &[(u16, u16)]| {
        let cum_tsn_ack = first.plus(cum).minus(1);
        pair.forge(&[Chunk::Sack(Sack {
            flags: 0,
            cum_tsn_ack,
            a_rwnd: 1 << 20,
            gaps: gaps.to_vec(),
            dups: vec![],
        })]);
        pair.association(Server).stats().paths[0].clone()
    };
    // The fifth and the ninth are missing; the fifth was only delayed.
    sack(4, &[(2, 4), (6, 6)]);
    let before = sack(4, &[(2, 4), (6, 7)]);
    assert!(before.flight_bytes >= before.cwnd, "{before:?}");
    let after = sack(8, &[(2, 4)]);
    assert_eq!(after.fast_retransmits, 1);
    assert_eq!(after.ssthresh, (before.cwnd + 1_440) / 2, "{before:?} {after:?}");
}

#[test]
fn unknown_chunks_without_end_are_reported_up_to_a_limit() {
    let (mut pair, _) = bench();
    let unknown = Chunk::Unknown { kind: 0xff, raw: Bytes::from_static(&[0xff, 0, 0, 4]) };
    pair.forge(&vec![unknown; 100]);
    let [Chunk::Error(causes)] = &said(&pair)[..] else { panic!("{:?}", said(&pair)) };
    assert_eq!(causes.len(), 8);
}

#[test]
fn a_heartbeat_is_answered_with_its_info_unchanged() {
    //= specs/rfc9260.txt#section-3.3.6
    //= type=test
    //# An endpoint MUST send this chunk to its peer endpoint as a response to
    //# a HEARTBEAT chunk (see Section 8.3).
    //= specs/rfc9260.txt#section-3.3.6
    //= type=test
    //# Heartbeat Information: variable length This field MUST contain the
    //# Heartbeat Info parameter (as defined in Section 3.3.5) of the
    //# Heartbeat Request to which this Heartbeat Acknowledgement is
    //# responding.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# A receiver of a HEARTBEAT chunk MUST respond to a HEARTBEAT chunk with
    //# a HEARTBEAT ACK chunk after entering the COOKIE-ECHOED state (sender
    //# of the INIT chunk) or the ESTABLISHED state (receiver of the INIT
    //# chunk),
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# The receiver of the HEARTBEAT chunk SHOULD immediately respond with a
    //# HEARTBEAT ACK chunk that contains the Heartbeat Information TLV,
    //# together with any other received TLVs, copied unchanged from the
    //# received HEARTBEAT chunk.
    let (mut pair, _) = bench();
    let info = Bytes::from_static(b"whatever the peer put there");
    pair.forge(&[Chunk::Heartbeat(info.clone())]);
    assert_eq!(said(&pair), [Chunk::HeartbeatAck(info)]);
    pair.clear_log();
    let heartbeat = |kind: u8| {
        let raw = Bytes::from([&[kind], &b"\0\0\x14\0\x01\0\x05A\0\0\0\0\x07\0\x08more"[..]].concat());
        Chunk::Unknown { kind, raw }
    };
    pair.forge(&[heartbeat(Chunk::HEARTBEAT)]);
    assert_eq!(said(&pair), [heartbeat(Chunk::HEARTBEAT_ACK)]);
}

#[test]
fn an_unsolicited_heartbeat_ack_gives_no_rtt_sample() {
    //= specs/rfc9260.txt#section-3.3.5
    //= type=test
    //# When a HEARTBEAT chunk is being used for path verification purposes,
    //# it MUST include a random nonce of length 64 bits or longer ([RFC4086]
    //# provides some information on randomness guidelines).
    let (mut pair, _) = bench();
    let before = pair.association(Server).stats();
    pair.forge(&[Chunk::HeartbeatAck(Bytes::from_static(&[0; 9]))]);
    pair.forge(&[Chunk::HeartbeatAck(Bytes::from_static(&[200; 9]))]);
    pair.forge(&[Chunk::HeartbeatAck(Bytes::new())]);
    assert_eq!(pair.association(Server).stats().paths[0].srtt, before.paths[0].srtt);
    // A HEARTBEAT is in flight; the forger does not know its nonce.
    pair.drop = Some(Box::new(|_, _, _| true));
    assert!(pair.run_until(|pair| pair.association(Server).paths[0].heartbeat.is_some()));
    pair.forge(&[Chunk::HeartbeatAck(Bytes::from_static(&[0, 1, 2, 3, 4, 5, 6, 7, 8]))]);
    assert!(pair.association(Server).paths[0].heartbeat.is_some());
    assert_eq!(pair.association(Server).stats().paths[0].srtt, before.paths[0].srtt);
}

#[test]
fn data_beyond_the_window_is_not_accepted() {
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# In addition, the endpoint SHOULD take into account the dropped data
    //# when calculating its a_rwnd.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# The dropped DATA chunk(s) MUST NOT be included in the SACK chunk, as
    //# they were not accepted.
    let (mut pair, next) = bench();
    pair.reads = false;
    let chunk = |n: u32| Chunk::Data(data(next.plus(n), 0, 1 + n as u16, &[7; 1_400]));
    for n in 0..2_000 {
        pair.forge(&[chunk(n)]);
    }
    let stats = pair.association(Server).stats();
    assert!(stats.unread_bytes <= 1 << 20, "{}", stats.unread_bytes);
    assert!(stats.overruns > 1_000, "{}", stats.overruns);
    assert_eq!(stats.a_rwnd, 0);
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# In either case, if such a DATA chunk is
    //# dropped, the receiver MUST immediately send back a SACK chunk with
    //# the current receive window showing only DATA chunks received and
    //# accepted so far.
    //= specs/rfc9260.txt#section-6.2
    //= type=test
    //# If a data receiver drops DATA chunks, it MUST NOT include them in Gap
    //# Ack Blocks in subsequent SACK chunks until they are received again
    //# via retransmission.
    pair.clear_log();
    pair.forge(&[chunk(2_000)]);
    let [(at, sack)] = &pair.sacks(Server)[..] else { panic!("{:?}", pair.sacks(Server)) };
    let accepted = stats.unread_bytes as u32 / 1_400;
    assert_eq!((*at, sack.a_rwnd, sack.cum_tsn_ack), (pair.now, 0, next.plus(accepted).minus(1)));
    assert_eq!(sack.gaps, []);
}

#[test]
fn tsns_far_ahead_cost_no_memory() {
    let (mut pair, next) = bench();
    pair.reads = false;
    for ahead in [65_534, 65_535, 100_000, 1 << 30] {
        pair.forge(&[Chunk::Data(data(next.plus(ahead), 0, 1, b"far"))]);
    }
    let stats = pair.association(Server).stats();
    assert_eq!((stats.unread_bytes, stats.overruns), (3, 3), "65,535 beyond the cumulative TSN is the last");
}

#[test]
fn unexpected_cookie_ack_init_ack_and_shutdown_complete_are_ignored() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# Upon reception of the SHUTDOWN COMPLETE chunk, the endpoint verifies
    //# that it is in the SHUTDOWN-ACK-SENT state; if it is not, the chunk
    //# SHOULD be discarded.
    //= specs/rfc9260.txt#section-8.5.1
    //= type=test
    //# An endpoint MUST ignore the SHUTDOWN COMPLETE chunk if it is not in
    //# the SHUTDOWN-ACK-SENT state.
    //= specs/rfc9260.txt#section-5.2.5
    //= type=test
    //# At any state other than COOKIE-ECHOED, an endpoint SHOULD silently
    //# discard a received COOKIE ACK chunk.
    let (mut pair, _) = bench();
    pair.forge(&[Chunk::CookieAck, Chunk::ShutdownComplete { reflected: false }, Chunk::ShutdownAck]);
    assert!(pair.association(Server).is_up());
    assert_eq!(said(&pair), []);
}

#[test]
fn a_modern_sender_does_not_time_out_on_a_peer_that_delays_its_sacks() {
    // open5gs #895: RTO.Min below the peer's delay.
    let mut pair = Pair::with(modern(), rfc());
    pair.run(Duration::from_millis(100));
    for _ in 0..50 {
        pair.send(Client, 0, pattern(100));
        pair.run(Duration::from_millis(500));
    }
    let path = pair.association(Client).stats().paths[0].clone();
    assert_eq!((path.timeouts, path.probes, path.retransmitted_chunks), (0, 0, 0));
}

/// A client in COOKIE-WAIT receives this INIT ACK; returns its answers, by tag.
fn after_init_ack(change: impl FnOnce(&mut Init)) -> (Pair, Vec<(VerificationTag, Vec<Chunk>)>) {
    let mut pair = Pair::new(rfc());
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.drain(Client);
    let (_, _, packet) = pair.log.pop().unwrap();
    let Chunk::Init(init) = &chunks(&packet)[0] else { panic!("the first chunk is INIT") };
    let mut init_ack = Init {
        initiate_tag: VerificationTag(77),
        a_rwnd: 10_000,
        outbound_streams: 5,
        inbound_streams: 5,
        initial_tsn: Tsn(1),
        parameters: vec![Parameter::StateCookie(Bytes::from_static(b"cookie"))],
    };
    change(&mut init_ack);
    let header = Header {
        source_port: packet.header.destination_port,
        destination_port: packet.header.source_port,
        tag: init.initiate_tag,
    };
    let mut builder = PacketBuilder::new();
    builder.begin(header, 4_000);
    builder.push(&Chunk::InitAck(init_ack));
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    pair.now += LATENCY;
    let (from, to) = (server_address(), client_address());
    pair.client.handle(pair.now, Datagram { from, to, ecn: Ecn::NotEct, payload });
    pair.drain(Client);
    let said = pair.log.iter().map(|entry| (entry.2.header.tag, chunks(&entry.2))).collect();
    (pair, said)
}

/// The tag and causes of the only ABORT that was sent.
fn the_abort(said: &[(VerificationTag, Vec<Chunk>)]) -> (u32, bool, Vec<Cause>) {
    let [(tag, chunks)] = said else { panic!("{said:?}") };
    let [Chunk::Abort { reflected, causes }] = &chunks[..] else { panic!("{chunks:?}") };
    (tag.0, *reflected, causes.clone())
}

#[test]
fn a_good_init_ack_is_answered_with_its_cookie() {
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# If an INIT ACK chunk is received with all mandatory parameters that
    //# are specified for the INIT ACK chunk, then the receiver SHOULD process
    //# the INIT ACK chunk and send back a COOKIE ECHO chunk.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# This value MUST be placed into the Verification Tag field of every
    //# SCTP packet that the receiver of the INIT ACK chunk transmits within
    //# this association.
    //= specs/rfc9260.txt#section-3.3.11
    //= type=test
    //# Cookie: variable size This field MUST contain the exact cookie
    //# received in the State Cookie parameter from the previous INIT ACK
    //# chunk.
    //= specs/rfc9260.txt#section-5.1.4
    //= type=test
    //# When an endpoint (in the COOKIE-WAIT state) receives an INIT ACK chunk
    //# with a State Cookie parameter, it MUST immediately send a COOKIE ECHO
    //# chunk to its peer with the received State Cookie.
    //= specs/rfc9260.txt#section-8.5.1
    //= type=test
    //# Rules for packets carrying a COOKIE ECHO chunk: * When sending a
    //# COOKIE ECHO chunk, the endpoint MUST use the value of the Initiate Tag
    //# received in the INIT ACK chunk.
    let (mut pair, said) = after_init_ack(|_| {});
    assert_eq!(said, [(VerificationTag(77), vec![Chunk::CookieEcho(Bytes::from_static(b"cookie"))])]);
    assert_eq!(pair.association(Client).stats().outbound_streams, 5);
}

#[test]
fn an_init_ack_without_a_cookie_is_aborted() {
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# invalid parameter values, or lack of local resources, it SHOULD
    //# respond with an ABORT chunk.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# It SHOULD also specify the cause of abort, such as the type of the
    //# missing mandatory parameters, etc., by including an error cause in the
    //# ABORT chunk.
    let (pair, said) = after_init_ack(|init_ack| init_ack.parameters.clear());
    assert_eq!(the_abort(&said), (77, false, vec![Cause::MissingMandatoryParameter(vec![7])]));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerViolation(Violation::InitAckWithoutCookie)));
}

#[test]
fn an_init_ack_without_streams_is_aborted() {
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# If an endpoint in the COOKIE-WAIT state receives an INIT ACK chunk
    //# with the OS value set to 0, it MUST destroy the TCB and SHOULD send an
    //# ABORT chunk.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# If an endpoint in the COOKIE-WAIT state receives an INIT ACK chunk
    //# with the MIS value set to 0, it MUST destroy the TCB and SHOULD send
    //# an ABORT chunk.
    for change in [|init: &mut Init| init.outbound_streams = 0, |init: &mut Init| init.inbound_streams = 0] {
        let (pair, said) = after_init_ack(change);
        assert_eq!(the_abort(&said), (77, false, vec![Cause::InvalidMandatoryParameter]));
        assert_eq!(pair.closed(Client), Some(&Reason::PeerViolation(Violation::InitAckInvalid)));
    }
}

#[test]
fn an_init_ack_without_a_tag_is_aborted_with_our_own_reflected() {
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# If an endpoint in the COOKIE-WAIT state receives an INIT ACK chunk
    //# with the Initiate Tag set to 0, it MUST destroy the TCB and SHOULD
    //# send an ABORT chunk with the T bit set.
    let (mut pair, said) = after_init_ack(|init_ack| init_ack.initiate_tag = VerificationTag(0));
    let own = pair.association(Client).tag;
    assert_eq!(the_abort(&said), (own.0, true, vec![Cause::InvalidMandatoryParameter]));
    assert!(pair.closed(Client).is_some());
}

#[test]
fn an_init_ack_with_a_tiny_window_is_aborted_and_the_association_keeps_waiting() {
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# A receiver of an INIT ACK chunk with the a_rwnd value set to a
    //# value smaller than 1500 MUST discard the packet, SHOULD send a
    //# packet in response containing an ABORT chunk and using the
    //# Initiate Tag as the Verification Tag, and MUST NOT change the
    //# state of any existing association.
    let (mut pair, said) = after_init_ack(|init_ack| init_ack.a_rwnd = 1_499);
    assert_eq!(the_abort(&said), (77, false, vec![Cause::InvalidMandatoryParameter]));
    assert_eq!(pair.association(Client).phase(), Phase::CookieWait);
    let (_, said) = after_init_ack(|init_ack| init_ack.a_rwnd = 1_500);
    assert!(matches!(said[0].1[0], Chunk::CookieEcho(_)));
}

#[test]
fn an_init_ack_with_a_host_name_is_aborted() {
    //= specs/rfc9260.txt#section-5.1.2
    //= type=test
    //# The ABORT chunk SHOULD be sent to the source IP address from which the
    //# last peer packet was received.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# The receiver of INIT ACK chunks containing a Host Name Address
    //# parameter MUST send an ABORT chunk and MAY include an "Unresolvable
    //# Address" error cause.
    let name = Parameter::HostName(Bytes::from_static(b"example.org\0"));
    let (pair, _) = after_init_ack(|init_ack| init_ack.parameters.push(name));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerViolation(Violation::HostName)));
}

#[test]
fn a_cookie_that_no_packet_can_carry_is_aborted() {
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# Implementation Note: An implementation MUST be prepared to receive an
    //# INIT ACK chunk that is quite large (more than 1500 bytes) due to the
    //# variable size of the State Cookie and the variable address list.
    let cookie = |len: usize| vec![Parameter::StateCookie(Bytes::from(vec![1; len]))];
    let (_, said) = after_init_ack(|init_ack| {
        let raw = [&[0x80, 0x77, 0x02, 0x04][..], &[1; 512]].concat().into();
        init_ack.parameters = [cookie(1_436), vec![Parameter::Unknown { kind: 0x8077, raw }]].concat();
    });
    assert!(matches!(said[0].1[0], Chunk::CookieEcho(_)));
    let (pair, _) = after_init_ack(|init_ack| init_ack.parameters = cookie(1_437));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerViolation(Violation::CookieTooLong)));
}

#[test]
fn unknown_parameters_of_an_init_ack_are_reported_with_the_cookie() {
    //= specs/rfc9260.txt#section-3.2.2
    //= type=test
    //# INIT ACK) detects unrecognized parameters and has to report them
    //# according to Section 3.2.1, it SHOULD bundle the ERROR chunk
    //# containing the "Unrecognized Parameters" error cause with the chunk
    //# sent in response (e.g., COOKIE ECHO).
    let raw = Bytes::from_static(&[0xc0, 0x77, 0, 8, 1, 2, 3, 4]);
    let unknown = Parameter::Unknown { kind: 0xc077, raw: raw.clone() };
    let (_, said) = after_init_ack(|init_ack| init_ack.parameters.push(unknown));
    let report = Chunk::Error(vec![Cause::UnrecognizedParameters(raw)]);
    assert_eq!(said[0].1, [Chunk::CookieEcho(Bytes::from_static(b"cookie")), report]);
}
