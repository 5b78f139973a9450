//! Limits over all associations of an endpoint: their memory, their number per source, and their lifetime.

use super::*;
use crate::association::{ASSOCIATION_BYTES_MIN, Message, Piece, Reason};
use crate::ids::Ssn;
use crate::wire::Sack;

/// Several peers of one endpoint, each with its own port.
struct Crowd {
    bench: Bench,
    peers: Vec<Member>,
}

/// A peer.
struct Member {
    from: SocketAddr,
    header: Header,
    id: AssociationId,
    next: Tsn,
    ssn: Ssn,
}

impl Crowd {
    fn new(limits: Limits, config: Config) -> Self {
        let mut endpoint = Endpoint::with_limits([1; 32], limits);
        endpoint.listen(LOCAL_PORT, Arc::new(config)).unwrap();
        Self { bench: Bench { now: Time::ZERO, endpoint, events: Vec::new() }, peers: Vec::new() }
    }

    /// Sends an INIT from `from` and returns the answer.
    fn init(&mut self, from: SocketAddr, port: u16) -> Chunk {
        self.bench.drain();
        let header = Header { source_port: port, ..to_bench(VerificationTag(0)) };
        let mut sent = self.bench.tell_raw(datagram(from, header, &[Chunk::Init(init())]));
        sent.pop().expect("an answer").chunks.remove(0)
    }

    /// Adds a peer at `from`; `None` if it is refused.
    fn join(&mut self, from: SocketAddr) -> Option<usize> {
        let port = PEER_PORT + self.peers.len() as u16;
        let Chunk::InitAck(ack) = self.init(from, port) else { return None };
        let header = Header { source_port: port, ..to_bench(ack.initiate_tag) };
        self.bench.events.clear();
        self.bench.tell_raw(datagram(from, header, &[echo(&ack)]));
        let accepted = self.bench.events.iter().find(|(_, event)| *event == Event::Accepted)?;
        self.peers.push(Member { from, header, id: accepted.0, next: PEER_TSN, ssn: Ssn(0) });
        Some(self.peers.len() - 1)
    }

    /// A peer sends a message on stream 1 in a datagram padded to `datagram_bytes`.
    fn send(&mut self, who: usize, payload_bytes: usize, datagram_bytes: usize) -> Vec<Sent> {
        let member = &mut self.peers[who];
        let payload = Bytes::from(vec![7; payload_bytes]);
        let data =
            Data { stream: StreamId(1), ssn: member.ssn, payload, ..Data::whole(member.next, b"data") };
        member.next = member.next.next();
        member.ssn = member.ssn.next();
        let mut chunks = vec![Chunk::Data(data)];
        let bytes = Header::LEN + chunks[0].padded_len() + Chunk::HEADER_LEN;
        if let Some(pad) = datagram_bytes.checked_sub(bytes) {
            chunks.push(Chunk::Pad(pad as u16));
        }
        let datagram = datagram(member.from, member.header, &chunks);
        self.bench.tell_raw(datagram)
    }

    fn association(&mut self, who: usize) -> &mut Association {
        self.bench.endpoint.association_mut(self.peers[who].id).expect("nobody removed it")
    }

    fn held(&self) -> usize {
        self.bench.endpoint.memory_bytes()
    }

    fn reason(&self, who: usize) -> Option<&Reason> {
        self.bench.endpoint.association(self.peers[who].id).and_then(Association::closed)
    }

    /// Lets time pass, and polls the endpoint at its deadlines.
    fn pass(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.bench.now + time;
        let mut sent = Vec::new();
        loop {
            sent.extend(self.bench.drain());
            let Output::Wait(next) = self.bench.endpoint.poll(self.bench.now) else { continue };
            match next.filter(|next| *next <= end) {
                Some(next) => self.bench.now = next.max(self.bench.now),
                None => break,
            }
        }
        self.bench.now = end;
        sent.extend(self.bench.drain());
        sent
    }
}

fn host(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 5_000))
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

#[test]
fn small_payloads_keep_few_datagrams_allocated_and_none_before_admission() {
    let unadmitted = config().with(|c| c.memory.unadmitted_receive_buffer_bytes = Some(64 * KIB));
    for (config, payload_bytes, datagram_bytes, kept) in [
        (config(), 1, 1_400, None),
        (config(), 700, 1_400, None),
        (config(), 1, 16_000, None),
        (config(), 1_400, 0, Some(200)),
        (unadmitted, 1, 1_400, Some(0)),
    ] {
        let mut crowd = Crowd::new(Limits::default(), config);
        let one = crowd.join(host(1)).unwrap();
        let idle = crowd.held();
        // Twice: after everything was read, as much is accepted again.
        for _ in 0..2 {
            let mut datagrams = Vec::new();
            for _ in 0..200 {
                let member = &mut crowd.peers[one];
                let data = Data {
                    stream: StreamId(1),
                    ssn: member.ssn,
                    payload: vec![7; payload_bytes].into(),
                    ..Data::whole(member.next, b"data")
                };
                let pad = Chunk::Pad(datagram_bytes.max(payload_bytes) as u16 - payload_bytes as u16);
                (member.next, member.ssn) = (member.next.next(), member.ssn.next());
                let sent = datagram(member.from, member.header, &[Chunk::Data(data), pad]);
                datagrams.push(sent.payload.clone());
                crowd.bench.tell_raw(sent);
            }
            let kept = kept.unwrap_or(256 * KIB / datagrams[0].len());
            let counted = crowd.held() - idle;
            assert!(counted >= kept * datagram_bytes, "{counted} are counted");
            let pieces = std::iter::from_fn(|| crowd.association(one).recv(StreamId(1)));
            let places: Vec<_> = pieces.map(|piece| piece.payload[0].as_ptr()).collect();
            assert!(places.len() >= 100 && places.len() >= kept, "{} came", places.len());
            let within = |(datagram, place): (&Bytes, &*const u8)| datagram.as_ptr_range().contains(place);
            let found = datagrams.iter().zip(&places).filter(|pair| within(*pair)).count();
            assert_eq!(found, kept, "of {payload_bytes} in {datagram_bytes}");
        }
    }
}

#[test]
fn tiny_chunks_take_no_more_memory_than_four_receive_buffers() {
    for missing in [0, 1] {
        let config = config().with(|c| c.memory.receive_buffer_bytes = 64 * KIB);
        let mut crowd = Crowd::new(Limits::default(), config);
        let one = crowd.join(host(1)).unwrap();
        let idle = crowd.held();
        crowd.peers[one].next = PEER_TSN.plus(missing);
        for _ in 0..20_000 {
            crowd.send(one, 1, 0);
        }
        let held = crowd.held() - idle;
        assert!((64 * KIB..4 * 64 * KIB + 8 * KIB).contains(&held), "{held} with {missing} missing");
        assert_eq!(crowd.association(one).stats().a_rwnd, 0);
        while crowd.association(one).recv(StreamId(1)).is_some() {}
        if missing == 0 {
            // A queue keeps its capacity for later messages.
            let spare = 1_024 * size_of::<Piece>();
            assert!(crowd.held() < idle + KIB + spare, "{} after it was read", crowd.held());
        }
    }
}

#[test]
fn all_associations_together_stay_within_the_bound_and_one_below_its_share_is_served() {
    let limits = Limits { memory_bytes: MIB, ..Limits::default() };
    let mut crowd = Crowd::new(limits, config());
    let greedy: Vec<_> = (1..=5).map(|last| crowd.join(host(last)).unwrap()).collect();
    for _ in 0..1_000 {
        for &who in &greedy {
            crowd.send(who, 1_400, 0);
            assert!(crowd.held() <= MIB, "{}", crowd.held());
        }
    }
    assert!(crowd.held() > MIB / 2, "what is free may be used: {}", crowd.held());
    let modest = crowd.join(host(9)).unwrap();
    let share = MIB / 7;
    for _ in 0..3 * share / 1_400 {
        crowd.send(modest, 1_400, 0);
        let piece = crowd.association(modest).recv(StreamId(1));
        assert!(piece.is_some_and(|piece| piece.len() == 1_400), "it is served at once");
    }
    assert_eq!(crowd.reason(modest), None);
}

#[test]
fn associations_that_hold_the_most_for_the_longest_are_aborted_first() {
    let limits = Limits { memory_bytes: MIB, ..Limits::default() };
    let mut crowd = Crowd::new(limits, config());
    // A single association may take three quarters.
    let hoarder = crowd.join(host(1)).unwrap();
    for _ in 0..1_000 {
        crowd.send(hoarder, 1_400, 0);
    }
    assert!((MIB / 2..=MIB * 3 / 4).contains(&crowd.held()), "{}", crowd.held());
    crowd.bench.pass(Duration::from_secs(1));
    // Five others fill their shares; four shares do not fit beside the first association.
    for last in 2..=6 {
        let who = crowd.join(host(last)).unwrap();
        for _ in 0..90 {
            crowd.send(who, 1_400, 0);
        }
        assert!(crowd.held() <= MIB, "{}", crowd.held());
    }
    assert_eq!(crowd.reason(hoarder), Some(&Reason::OutOfMemory));
    assert_eq!(crowd.bench.endpoint.counters().out_of_memory, 1);
    assert!((1..6).all(|who| crowd.reason(who).is_none()), "those within their share stay");
    let left = crowd.association(hoarder).recv(StreamId(1));
    assert_eq!(left, None, "what it held is gone");
}

#[test]
fn a_newcomer_takes_the_room_of_an_association_above_its_share() {
    let limits = Limits { memory_bytes: MIB, ..Limits::default() };
    let mut crowd = Crowd::new(limits, config());
    let hoarder = crowd.join(host(1)).unwrap();
    for _ in 0..1_000 {
        crowd.send(hoarder, 1_400, 0);
    }
    crowd.bench.pass(Duration::from_secs(1));
    // It stays below its share of a third, and leaves no space for another.
    let modest = crowd.join(host(2)).unwrap();
    while crowd.held() + ASSOCIATION_BYTES_MIN <= MIB {
        crowd.send(modest, 1_400, 0);
    }
    assert!(matches!(crowd.init(host(9), PEER_PORT), Chunk::InitAck(_)));
    assert_eq!(crowd.reason(hoarder), None, "an INIT may come from anybody");
    crowd.join(host(9)).expect("there is room for a newcomer");
    assert_eq!(crowd.reason(hoarder), Some(&Reason::OutOfMemory));
    assert_eq!(crowd.reason(modest), None);
}

#[test]
fn queued_messages_count_as_well() {
    let limits = Limits { memory_bytes: MIB, ..Limits::default() };
    let config = config().with(|c| c.memory.send_buffer_bytes = 16 * MIB);
    let mut crowd = Crowd::new(limits, config);
    let joined: Vec<_> = (1..=4).map(|last| crowd.join(host(last)).unwrap()).collect();
    for _ in 0..2_000 {
        for &who in &joined {
            // Repeated, whether or not the buffer is full.
            let _ = crowd.association(who).send(StreamId(0), Message::new(Ppid(0), vec![1; 1_000]));
        }
        crowd.bench.drain();
    }
    assert!(crowd.held() <= MIB, "{}", crowd.held());
    let full = crowd.association(joined[0]).send(StreamId(0), Message::new(Ppid(0), vec![1; 1_000]));
    assert_eq!(full, Err(crate::association::SendError::Full));
}

#[test]
fn memory_is_given_back_with_the_association() {
    let limits = Limits { memory_bytes: MIB, ..Limits::default() };
    let mut crowd = Crowd::new(limits, config());
    for round in 0..20 {
        let who = crowd.join(host(1)).expect("there is room again");
        for _ in 0..1_000 {
            crowd.send(who, 1_400, 0);
        }
        assert!(crowd.held() > MIB / 2, "round {round}: {}", crowd.held());
        let id = crowd.peers[who].id;
        crowd.bench.endpoint.remove(id);
        crowd.bench.drain();
        assert_eq!((crowd.held(), crowd.bench.endpoint.associations_of(host(1).ip())), (0, 0));
    }
}

#[test]
fn a_silent_peer_is_aborted_when_memory_is_scarce() {
    let limits = Limits { memory_bytes: MIB, ..Limits::default() };
    let mut crowd = Crowd::new(limits, config());
    let gone = crowd.join(host(1)).unwrap();
    let alive = crowd.join(host(2)).unwrap();
    for who in [gone, alive] {
        for _ in 0..150 {
            crowd.send(who, 1_400, 0);
        }
    }
    for _ in 0..6 {
        for sent in crowd.pass(Duration::from_secs(5)) {
            // One of the probed peers answers.
            for chunk in sent.chunks {
                if let Chunk::Heartbeat(info) = chunk
                    && sent.to == host(2)
                {
                    let member = &crowd.peers[alive];
                    let ack = datagram(member.from, member.header, &[Chunk::HeartbeatAck(info)]);
                    crowd.bench.tell_raw(ack);
                }
            }
        }
    }
    assert_eq!(crowd.reason(gone), Some(&Reason::OutOfMemory));
    assert_eq!(crowd.reason(alive), None);
}

#[test]
fn before_it_is_admitted_a_peer_has_a_small_window_that_does_not_grow() {
    let config = config().with(|c| {
        c.memory.receive_buffer_bytes = MIB;
        c.memory.receive_buffer_max_bytes = Some(4 * MIB);
        c.memory.unadmitted_receive_buffer_bytes = Some(16 * KIB);
    });
    let mut crowd = Crowd::new(Limits::default(), config);
    let Chunk::InitAck(ack) = crowd.init(host(1), PEER_PORT) else { panic!("not answered") };
    assert_eq!(ack.a_rwnd as usize, 16 * KIB);
    let one = crowd.join(host(1)).unwrap();
    assert_eq!(crowd.bench.endpoint.half_open(), 1);
    let idle = crowd.held();
    for _ in 0..100 {
        crowd.send(one, 1_400, 0);
    }
    assert!(crowd.held() - idle <= 2 * 16 * KIB, "{}", crowd.held() - idle);
    crowd.association(one).admit();
    assert!(crowd.association(one).is_admitted());
    let sent = crowd.bench.drain();
    let window = sent.iter().flat_map(|sent| &sent.chunks).find_map(|chunk| match chunk {
        Chunk::Sack(Sack { a_rwnd, .. }) => Some(*a_rwnd as usize),
        _ => None,
    });
    assert!(window.is_some_and(|window| window > MIB / 2), "the peer is told at once: {window:?}");
    assert_eq!(crowd.bench.endpoint.half_open(), 0);
}

#[test]
fn the_longest_silent_half_open_association_is_aborted() {
    let limits = Limits { half_open: 3, ..Limits::default() };
    let config = config().with(|c| c.memory.unadmitted_receive_buffer_bytes = Some(16 * KIB));
    let mut crowd = Crowd::new(limits, config);
    let joined: Vec<_> = (1..=3)
        .map(|last| {
            crowd.bench.pass(Duration::from_secs(1));
            crowd.join(host(last)).unwrap()
        })
        .collect();
    // The first is admitted, and the second has been heard again.
    crowd.association(joined[0]).admit();
    crowd.join(host(4)).unwrap();
    crowd.bench.pass(Duration::from_secs(1));
    crowd.send(joined[1], 10, 0);
    crowd.join(host(5)).unwrap();
    let over: Vec<bool> = (0..5).map(|who| crowd.reason(who).is_some()).collect();
    assert_eq!(over, [false, false, true, false, false]);
    assert_eq!(crowd.bench.endpoint.counters().half_open_aborted, 1);
}

#[test]
fn associations_per_address_or_ipv6_network_are_limited() {
    let limits = Limits { associations_per_address: 2, ..Limits::default() };
    let v6 = |text: &str| SocketAddr::new(text.parse().unwrap(), 5_000);
    for [one, same, other] in [
        [host(1), SocketAddr::new(host(1).ip(), 6_000), host(2)],
        [v6("2001:db8::1"), v6("2001:db8::ffff:1"), v6("2001:db8:0:1::1")],
    ] {
        let mut crowd = Crowd::new(limits, config());
        crowd.join(one).unwrap();
        crowd.join(same).unwrap();
        assert_eq!(crowd.init(one, 7).to_string(), "ABORT[flgs=0, OUT_OF_RESOURCE[]]");
        assert_eq!(crowd.join(same), None);
        assert!(crowd.join(other).is_some(), "others have room");
        // An association that shuts down or has ended counts until it is removed.
        crowd.association(0).abort(Bytes::new());
        crowd.bench.drain();
        assert_eq!(crowd.join(one), None);
        let id = crowd.peers[0].id;
        crowd.bench.endpoint.remove(id);
        crowd.bench.drain();
        assert!(crowd.join(one).is_some());
        assert_eq!(crowd.bench.endpoint.counters().refused_by_address, 3);
    }
}

#[test]
fn a_half_open_association_of_the_same_address_is_aborted_for_a_new_one() {
    let limits = Limits { associations_per_address: 2, ..Limits::default() };
    let config = config().with(|c| c.memory.unadmitted_receive_buffer_bytes = Some(16 * KIB));
    let mut crowd = Crowd::new(limits, config);
    let first = crowd.join(host(1)).unwrap();
    crowd.association(first).admit();
    crowd.join(host(1)).unwrap();
    assert!(crowd.join(host(1)).is_some());
    let over: Vec<bool> = (0..3).map(|who| crowd.reason(who).is_some()).collect();
    assert_eq!(over, [false, true, false]);
}

#[test]
fn a_peer_that_never_opens_its_window_does_not_outlast_the_shutdown_guard() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# At the expiration of this timer, the sender SHOULD abort
    //# the association by sending an ABORT chunk.
    let config = config().with(|c| c.timers.shutdown_guard = Duration::from_secs(10));
    for opens in [false, true] {
        let mut crowd = Crowd::new(Limits::default(), config.clone());
        let one = crowd.join(host(1)).unwrap();
        for _ in 0..20 {
            crowd.association(one).send(StreamId(0), Message::new(Ppid(0), vec![1; 1_000])).unwrap();
        }
        crowd.association(one).shutdown();
        let mut acked: Option<Tsn> = None;
        let mut aborted_after = None;
        for second in 1..=100 {
            for sent in crowd.pass(Duration::from_secs(1)) {
                let tsns = sent.chunks.iter().filter_map(|chunk| match chunk {
                    Chunk::Data(data) => Some(data.tsn),
                    _ => None,
                });
                let tsns: Vec<Tsn> = tsns.collect();
                let Some(&first) = tsns.first() else { continue };
                // It acknowledges without reading, or sends a packet every two seconds.
                let before = *acked.get_or_insert(first.minus(1));
                if opens && second % 2 == 0 && first == before.next() {
                    acked = Some(first);
                }
                let sack = Sack { cum_tsn_ack: acked.unwrap(), a_rwnd: 0, ..Sack::default() };
                let member = &crowd.peers[one];
                let sack = datagram(member.from, member.header, &[Chunk::Sack(sack)]);
                crowd.bench.tell_raw(sack);
            }
            if crowd.reason(one).is_some() && aborted_after.is_none() {
                aborted_after = Some(second);
            }
        }
        assert_eq!(crowd.reason(one), Some(&Reason::ShutdownTimeout));
        if opens {
            assert!(aborted_after.is_some_and(|after| (10..=30).contains(&after)), "{aborted_after:?}");
        } else {
            assert_eq!(aborted_after, Some(10), "nothing of it went");
        }
        assert_eq!(crowd.association(one).stats().buffered_bytes, 0, "its send buffer is given back");
    }
}

#[test]
fn half_open_associations_of_the_busiest_network_are_aborted_first() {
    let limits = Limits { half_open: 20, ..Limits::default() };
    let config = config().with(|c| c.memory.unadmitted_receive_buffer_bytes = Some(16 * KIB));
    let mut crowd = Crowd::new(limits, config);
    let alone = crowd.join(host(1)).unwrap();
    // One round trip passes while others arrive, each heard later than the one before.
    for nth in 0..60 {
        crowd.bench.pass(Duration::from_millis(5));
        crowd.join(SocketAddr::new(host(2).ip(), 6_000 + nth)).unwrap();
    }
    assert_eq!(crowd.reason(alone), None);
    assert_eq!(crowd.bench.endpoint.half_open(), 20);
    // After a much longer silence than theirs, it is removed.
    crowd.bench.pass(Duration::from_secs(30));
    for nth in 60..100 {
        crowd.join(SocketAddr::new(host(2).ip(), 6_000 + nth)).unwrap();
        crowd.bench.pass(Duration::from_millis(1));
    }
    assert!(crowd.reason(alone).is_some());
}
