//! The effect of ICMP messages (RFC 9260 §10), row by row.

use proptest::prelude::*;

use super::super::icmp::Meaning;
use super::*;
use crate::wire::Sack;
use crate::{Message, MtuDiscovery, Reason};

const HERE: &str = "192.0.2.1:0";
const THERE: &str = "192.0.2.2:0";
const HERE_V6: &str = "[2001:db8::1]:0";
const THERE_V6: &str = "[2001:db8::2]:0";
const PORTS: (u16, u16) = (40_000, 21);
/// The server's UDP port, with encapsulation.
const UDP_PORT: u16 = 9899;
/// The number of refused HEARTBEATs after which a path is inactive.
const REFUSED: usize = 3;

/// Type and code of the equivalent messages of IPv4 and IPv6.
const NO_SUCH_PROTOCOL: [(u8, u8); 2] = [(3, 2), (4, 1)];
const TOO_BIG: [(u8, u8); 2] = [(3, 4), (2, 0)];
const NO_SUCH_PORT: [(u8, u8); 2] = [(3, 3), (1, 4)];
const NO_SUCH_HOST: [(u8, u8); 2] = [(3, 1), (1, 3)];

/// A client with an association, or in the handshake; the test acts as its server.
struct Client {
    now: Time,
    endpoint: Endpoint,
    id: AssociationId,
    route: Route,
    /// The last sent packet.
    sent: Bytes,
    /// The client's tag, if known.
    tag: VerificationTag,
}

impl Client {
    fn waiting(family: usize) -> Self {
        let path_mtu_discovery = Some(MtuDiscovery::default());
        Self::waiting_at(family, 0, config().with(|c| c.path_mtu.discovery = path_mtu_discovery))
    }

    fn waiting_at(family: usize, udp_port: u16, config: Config) -> Self {
        let (local, peer) = [(HERE, THERE), (HERE_V6, THERE_V6)][family];
        let mut route: Route = Route { local: local.parse().unwrap(), peer: peer.parse().unwrap() };
        route.peer.set_port(udp_port);
        let mut endpoint = Endpoint::new([3; 32]);
        let connect = Connect {
            local: vec![route.local],
            peer: vec![route.peer],
            source_port: Some(PORTS.0),
            destination_port: PORTS.1,
            config: Arc::new(config),
        };
        let id = endpoint.connect(Time::ZERO, connect).unwrap();
        let tag = VerificationTag(0);
        let mut it = Self { now: Time::ZERO, endpoint, id, route, sent: Bytes::new(), tag };
        it.drain();
        it
    }

    /// In state COOKIE-ECHOED or later.
    fn with_peer(family: usize, phase: Phase) -> Self {
        let mut it = Self::waiting(family);
        let Some(Ok(Chunk::Init(init))) = Packet::decode(it.sent.clone()).unwrap().chunks().next() else {
            panic!("no INIT")
        };
        let mut answer = super::init();
        answer.parameters.push(Parameter::StateCookie(Bytes::from_static(b"cookie")));
        it.hear(init.initiate_tag, &Chunk::InitAck(answer));
        if phase == Phase::Established {
            it.hear(init.initiate_tag, &Chunk::CookieAck);
        }
        assert_eq!(it.phase(), phase);
        it
    }

    fn hear(&mut self, tag: VerificationTag, chunk: &Chunk) {
        let header = Header { source_port: PORTS.1, destination_port: PORTS.0, tag };
        let datagram = datagram(self.route.peer, header, std::slice::from_ref(chunk));
        self.endpoint.handle(self.now, Datagram { to: self.route.local, ..datagram });
        self.drain();
    }

    /// Polls until the client waits; returns the number of packets, and the events.
    fn drain(&mut self) -> (usize, Vec<Event>) {
        let (mut packets, mut events) = (0, Vec::new());
        loop {
            match self.endpoint.poll(self.now) {
                Output::Send(transmit) => {
                    packets += 1;
                    self.sent = transmit.payload;
                }
                Output::Event((_, event)) => events.push(event),
                Output::Wait(_) => return (packets, events),
            }
        }
    }

    /// Delivers an ICMP message. It must never be answered.
    fn icmp(&mut self, (kind, code): (u8, u8), size: usize, quoted: &[u8]) {
        let Route { local, peer } = self.route;
        self.endpoint.handle_icmp(self.now, Icmp { local, peer, kind, code, size, quoted });
    }

    /// Established with a server over UDP, with profile `modern`.
    fn in_udp(family: usize) -> Self {
        let config = crate::Profile::Modern.config().with(|c| c.path_mtu.discovery = None);
        let mut it = Self::waiting_at(family, UDP_PORT, config);
        let Some(Ok(Chunk::Init(init))) = Packet::decode(it.sent.clone()).unwrap().chunks().next() else {
            panic!("no INIT")
        };
        let mut answer = super::init();
        answer.parameters.push(Parameter::StateCookie(Bytes::from_static(b"cookie")));
        it.hear(init.initiate_tag, &Chunk::InitAck(answer));
        it.hear(init.initiate_tag, &Chunk::CookieAck);
        it.tag = init.initiate_tag;
        it.now += Duration::from_millis(50);
        it.drain();
        assert_eq!(it.phase(), Phase::Established);
        it
    }

    /// Advances to the next deadline, and polls.
    fn wait(&mut self) {
        let before = self.now;
        if let Output::Wait(Some(until)) = self.endpoint.poll(before) {
            self.now = until.max(before);
        }
        self.drain();
    }

    fn answer_heartbeat(&mut self) {
        for chunk in Packet::decode(self.sent.clone()).unwrap().chunks() {
            if let Ok(Chunk::Heartbeat(info)) = chunk {
                self.hear(self.tag, &Chunk::HeartbeatAck(info));
                return;
            }
        }
        panic!("no HEARTBEAT");
    }

    fn phase(&self) -> Phase {
        self.endpoint.association(self.id).unwrap().phase()
    }

    fn mtu(&self) -> usize {
        self.endpoint.association(self.id).unwrap().stats().paths[0].mtu
    }
}

fn quote(tag: u32, rest: &[u8]) -> Vec<u8> {
    let header = [&PORTS.0.to_be_bytes()[..], &PORTS.1.to_be_bytes(), &tag.to_be_bytes(), &[0; 4]];
    [&header.concat()[..], rest].concat()
}

//= specs/rfc9260.txt#section-10
//= type=test
//# ICMP8)  If the ICMP code is "Unrecognized Next Header Type
//# Encountered" or "Protocol Unreachable", an implementation
//# MUST treat this message as an abort with the T bit set if it
//# does not contain an INIT chunk.  If it does contain an INIT
//# chunk and the association is in the COOKIE-WAIT state, handle
//# the ICMP message like an ABORT chunk.
//= specs/rfc9260.txt#section-12.4
//= type=test
//# To provide a non-SCTP-capable host with the same level of protection
//# against attacks as for SCTP-capable ones, all SCTP implementations
//# MUST implement the ICMP handling described in Section 10.
//= specs/rfc9260.txt#section-10
//= type=test
//# Whenever an ICMP message is received by an SCTP endpoint, the
//# following procedures MUST be followed to ensure proper utilization of
//# the information being provided by layer 3.
#[test]
fn protocol_unreachable_ends_the_association() {
    for (family, says) in NO_SUCH_PROTOCOL.into_iter().enumerate() {
        let mut client = Client::waiting(family);
        let init = client.sent.slice(..20);
        client.icmp(says, 0, &init);
        let (packets, events) = client.drain();
        assert!(matches!(&events[..], [Event::Closed(Reason::PeerAborted(causes))] if causes.is_empty()));
        assert_eq!(packets, 0, "no answer");
        assert_eq!(client.endpoint.footprint().places, 0);
        for phase in [Phase::CookieEchoed, Phase::Established] {
            let mut client = Client::with_peer(family, phase);
            client.icmp(says, 0, &init);
            assert_eq!(client.phase(), phase, "the INIT was answered");
            client.icmp(says, 0, &quote(PEER_TAG.0, &[])[..8]);
            assert_eq!(client.phase(), Phase::Closed);
            assert_eq!(client.drain().0, 0, "no answer");
        }
    }
}

//= specs/rfc9260.txt#section-10
//= type=test
//# ICMP6)  An implementation MUST validate that the Verification Tag
//# contained in the ICMP message matches the Verification Tag of
//# the peer.  If the Verification Tag is not 0 and does not
//# match, discard the ICMP message.  If it is 0 and the ICMP
//# message contains enough bytes to verify that the chunk type
//# is an INIT chunk and that the Initiate Tag matches the tag of
//# the peer, continue with ICMP7.  If the ICMP message is too
//# short or the chunk type or the Initiate Tag does not match,
//# silently discard the packet.
//= specs/rfc6951.txt#section-5.5
//= type=test
//# If a
//# received ICMP or ICMPv6 packet cannot be related to a specific SCTP
//# association or the verification tag cannot be verified, it MUST be
//# discarded silently.
#[test]
fn icmp_that_quotes_no_sent_packet_is_ignored() {
    for (family, says) in NO_SUCH_PROTOCOL.into_iter().enumerate() {
        let mut client = Client::waiting(family);
        let init = client.sent.clone();
        let changed = |at: usize| {
            let mut changed = init.to_vec();
            changed[at] ^= 1;
            changed
        };
        for quoted in
            [&init[..19], &init[..8], &init[..3], &[], &changed(12), &changed(19), &changed(7), &changed(1)]
        {
            client.icmp(says, 0, quoted);
            assert_eq!(client.phase(), Phase::CookieWait, "{quoted:?}");
        }
        let mut client = Client::with_peer(family, Phase::Established);
        for quoted in
            [&quote(PEER_TAG.0 ^ 1, &[])[..], &quote(PEER_TAG.0, &[])[..7], &quote(0, &[2, 0, 0, 20])]
        {
            client.icmp(says, 0, quoted);
            assert_eq!(client.phase(), Phase::Established, "{quoted:?}");
        }
        assert_eq!(client.drain(), (0, Vec::new()));
    }
}

//= specs/rfc9260.txt#section-10
//= type=test
//# ICMP5)  An implementation MUST use the payload of the ICMP message
//# (v4 or v6) to locate the association that sent the message to
//# which ICMP is responding.  If the association cannot be
//# found, an implementation SHOULD ignore the ICMP message.
#[test]
fn icmp_about_other_packets_is_ignored() {
    for (family, (kind, code)) in NO_SUCH_PROTOCOL.into_iter().enumerate() {
        let mut client = Client::with_peer(family, Phase::Established);
        let Route { local, mut peer } = client.route;
        peer.set_port(1);
        let quoted = quote(PEER_TAG.0, &[]);
        client.endpoint.handle_icmp(client.now, Icmp { local, peer, kind, code, size: 0, quoted: &quoted });
        let mut swapped = quoted;
        swapped.swap(0, 2);
        swapped.swap(1, 3);
        client.icmp((kind, code), 0, &swapped);
        assert_eq!(client.phase(), Phase::Established);
    }
}

//= specs/rfc9260.txt#section-10
//= type=test
//# ICMP3)  An implementation SHOULD ignore any ICMP messages where the
//# code indicates "Port Unreachable".
#[test]
fn irrelevant_icmp_messages_change_nothing() {
    for family in 0..2 {
        for (kind, code) in (0..=255).flat_map(|kind| (0..=255).map(move |code| (kind, code))) {
            let acts = (kind, code) == NO_SUCH_PROTOCOL[family]
                || (kind, code) == TOO_BIG[family]
                || (family == 1 && kind == TOO_BIG[1].0);
            assert_eq!(
                says(family, (kind, code)) != Meaning::Nothing,
                acts,
                "IPv{} type {kind} code {code}",
                [4, 6][family]
            );
        }
        let mut client = Client::with_peer(family, Phase::Established);
        for said in [NO_SUCH_PORT[family], NO_SUCH_HOST[family]] {
            client.icmp(said, 1_252, &quote(PEER_TAG.0, &[]));
            assert_eq!((client.phase(), client.mtu()), (Phase::Established, 1_452));
        }
        assert_eq!(client.drain(), (0, Vec::new()));
    }
}

//= specs/rfc6951.txt#section-5.5
//= type=test
//# ICMP messages with type 'Destination Unreachable' and code 'Port
//# Unreachable' SHOULD be treated as ICMP messages with type
//# 'Destination Unreachable' and code 'Protocol Unreachable'.
#[test]
fn refused_inits_end_a_handshake_if_configured() {
    for (family, says) in NO_SUCH_PORT.into_iter().enumerate() {
        for refused_inits in [None, Some(2)] {
            let mut config = config();
            config.handshake.refused_inits = refused_inits;
            let mut client = Client::waiting_at(family, UDP_PORT, config);
            let init = client.sent.clone();
            let mut forged = init.to_vec();
            forged[16] ^= 1;
            for _ in 0..5 {
                client.icmp(says, 0, &forged);
            }
            client.icmp(says, 0, &init);
            assert_eq!(
                client.phase(),
                Phase::CookieWait,
                "one may be of a server that starts; others are forged"
            );
            client.icmp(says, 0, &init);
            let phase = if refused_inits.is_some() { Phase::Closed } else { Phase::CookieWait };
            assert_eq!(client.phase(), phase);
            let is_told = client.drain().1.contains(&Event::Closed(Reason::Refused));
            assert_eq!(is_told, refused_inits.is_some());
        }
    }
}

/// UDP encapsulation: ICMP errors of the client's packets when the server's port is closed.
#[test]
fn a_closed_port_ends_an_association_after_exactly_three_refused_heartbeats() {
    for (family, says) in NO_SUCH_PORT.into_iter().enumerate() {
        // Repeated refusals and silence: ends within seconds, where HEARTBEATs alone take minutes.
        let mut client = Client::in_udp(family);
        let quoted = quote(PEER_TAG.0, &[]);
        let begun = client.now;
        client.icmp(says, 0, &quoted);
        assert_eq!(client.drain().0, 1, "a HEARTBEAT at once");
        for _ in 0..REFUSED - 1 {
            client.icmp(says, 0, &quoted);
            assert_eq!((client.phase(), client.drain().0), (Phase::Established, 0));
            client.wait();
        }
        client.icmp(says, 0, &quoted);
        client.wait();
        assert_eq!(client.phase(), Phase::Closed);
        assert!(client.now.since(begun) < Duration::from_secs(10), "{:?}", client.now.since(begun));

        // A single forged message causes one HEARTBEAT, whether or not it is acknowledged.
        let mut client = Client::in_udp(family);
        client.icmp(says, 0, &quoted);
        for _ in 0..4 {
            client.wait();
            assert_eq!(client.phase(), Phase::Established);
        }
        // Many do not end the association either, while packets of the peer arrive.
        let mut client = Client::in_udp(family);
        for _ in 0..20 {
            client.icmp(says, 0, &quoted);
            client.drain();
            client.icmp(says, 0, &quoted);
            client.answer_heartbeat();
            client.wait();
            assert_eq!(client.phase(), Phase::Established);
        }
        // Without the tag it is ignored.
        client.icmp(says, 0, &quote(PEER_TAG.0 ^ 1, &[]));
        assert_eq!(client.drain().0, 0);
    }
}

/// The same while data is outstanding: T3-rtx expires as often as HEARTBEATs are sent.
#[test]
fn a_closed_port_ends_an_association_equally_fast_while_data_is_outstanding() {
    for (family, says) in NO_SUCH_PORT.into_iter().enumerate() {
        for is_heard in [false, true] {
            let mut client = Client::in_udp(family);
            let begun = client.now;
            let association = client.endpoint.association_mut(client.id).unwrap();
            for _ in 0..20 {
                association.send(StreamId(0), Message::new(Ppid(0), vec![0; 1_000])).unwrap();
            }
            client.drain();
            let quoted = quote(PEER_TAG.0, &[]);
            // By then T3-rtx has expired; each retransmission is accompanied by a HEARTBEAT.
            while client.endpoint.association(client.id).unwrap().stats().paths[0].timeouts == 0 {
                client.wait();
            }
            while client.phase() == Phase::Established && client.now.since(begun) < Duration::from_secs(20) {
                // Every packet is refused.
                client.icmp(says, 0, &quoted);
                client.drain();
                client.icmp(says, 0, &quoted);
                if is_heard {
                    client.hear(client.tag, &Chunk::Heartbeat(Bytes::from_static(b"here")));
                }
                client.wait();
            }
            let took = client.now.since(begun);
            let is_open = client.phase() == Phase::Established;
            assert_eq!(is_open, is_heard, "{took:?}, heard: {is_heard}");
            assert!(is_heard || took < Duration::from_secs(10), "{took:?}");
        }
    }
}

/// The same with a closed window and a backed-off RTO.
#[test]
fn a_closed_port_ends_an_association_equally_fast_while_the_window_is_closed() {
    for (family, says) in NO_SUCH_PORT.into_iter().enumerate() {
        let mut client = Client::in_udp(family);
        let association = client.endpoint.association_mut(client.id).unwrap();
        association.send(StreamId(0), Message::new(Ppid(0), vec![0; 1_000])).unwrap();
        client.drain();
        let sent = Packet::decode(client.sent.clone()).unwrap();
        let Some(Ok(Chunk::Data(first))) = sent.chunks().next() else { panic!("no DATA") };
        // The server drops data, and acknowledges.
        let closed = Chunk::Sack(Sack { cum_tsn_ack: first.tsn.minus(1), a_rwnd: 0, ..Sack::default() });
        let rto = |client: &Client| client.endpoint.association(client.id).unwrap().stats().paths[0].rto;
        while rto(&client) < Duration::from_secs(10) {
            client.hear(client.tag, &closed);
            client.wait();
            assert_eq!(client.phase(), Phase::Established, "{:?}", rto(&client));
        }
        let begun = client.now;
        while client.phase() == Phase::Established && client.now.since(begun) < Duration::from_secs(20) {
            client.icmp(says, 0, &quote(PEER_TAG.0, &[]));
            client.drain();
            client.icmp(says, 0, &quote(PEER_TAG.0, &[]));
            client.wait();
        }
        assert_eq!(client.phase(), Phase::Closed);
    }
}

fn says(family: usize, (kind, code): (u8, u8)) -> Meaning {
    let it: SocketAddr = [HERE, HERE_V6][family].parse().unwrap();
    Icmp { local: it, peer: it, kind, code, size: 0, quoted: &[] }.meaning()
}

//= specs/rfc9260.txt#section-10
//= type=test
//# ICMP7)  If the ICMP message is either an ICMPv6 message of type
//# "Packet Too Big" or an ICMPv4 message of type "Destination
//# Unreachable" and code "Fragmentation Needed", an
//# implementation SHOULD process this information as defined for
//# PMTU discovery.
#[test]
fn packet_too_big_reduces_the_packet_size() {
    for (family, says) in TOO_BIG.into_iter().enumerate() {
        let mut client = Client::with_peer(family, Phase::Established);
        let before = client.mtu();
        client.icmp(says, 1_252, &quote(PEER_TAG.0 ^ 1, &[]));
        assert_eq!(client.mtu(), before);
        for size in [0, 100, before + 4, usize::MAX] {
            client.icmp(says, size, &quote(PEER_TAG.0, &[]));
            assert_eq!(client.mtu(), before, "{size}");
        }
        client.icmp(says, 1_252, &quote(PEER_TAG.0, &[]));
        assert!(client.mtu() <= 1_252, "{}", client.mtu());
        assert_eq!(client.phase(), Phase::Established);
    }
}

proptest! {
    /// Packets without a valid tag change nothing, whatever they contain.
    #[test]
    fn packets_without_a_valid_tag_change_nothing(
        family in 0..2_usize,
        established in any::<bool>(),
        messages in proptest::collection::vec(
            (any::<u8>(), 0..8_u8, any::<bool>(), any::<usize>(), proptest::collection::vec(any::<u8>(), 0..80)),
            1..40,
        ),
    ) {
        let mut client = if established {
            Client::with_peer(family, Phase::Established)
        } else {
            Client::waiting(family)
        };
        client.drain();
        let before = format!("{:?}", client.endpoint);
        for (kind, code, ports, size, mut quoted) in messages {
            if ports && quoted.len() >= 4 {
                quoted[..2].copy_from_slice(&PORTS.0.to_be_bytes());
                quoted[2..4].copy_from_slice(&PORTS.1.to_be_bytes());
            }
            client.icmp((kind % 5, code), size, &quoted);
        }
        prop_assert_eq!(client.drain(), (0, Vec::new()));
        prop_assert_eq!(format!("{:?}", client.endpoint), before);
    }
}
