//! Attacks over SCTP, with and without an association.

use super::*;

/// A peer whose INIT lists too many addresses.
pub(super) fn many_addresses(row: Row) {
    let most = limit(row, &quick()) as u8;
    let config = Arc::new(Profile::Modern.config());
    let mut server = sctp::Endpoint::new([7; 32]);
    server.listen(CONTROL_PORT, config).unwrap();
    let to = SocketAddr::from(([10, 0, 0, 1], 9_899));
    let from = SocketAddr::from(([10, 0, 7, 0], 9_899));
    let mut say = |tag: VerificationTag, chunk: Chunk| {
        let payload = packed(Header { source_port: 1_024, destination_port: CONTROL_PORT, tag }, &chunk);
        server.handle(Time::from_millis(1), Datagram { from, to, ecn: Ecn::NotEct, payload });
        let mut accepted = None;
        let answer = loop {
            match server.poll(Time::from_millis(1)) {
                Output::Send(transmit) => break Packet::decode(transmit.payload).unwrap(),
                Output::Event((id, _)) => accepted = Some(id),
                Output::Wait(_) => panic!("no answer to {chunk}"),
            }
        };
        let paths = accepted.and_then(|id| Some(server.association(id)?.stats().paths.len()));
        (answer, paths)
    };
    let addresses = (1..=most + 5).map(|last| Parameter::Address(IpAddr::from([10, 0, 7, last])));
    let init = sctp::wire::Init {
        initiate_tag: VerificationTag(7),
        a_rwnd: 100_000,
        outbound_streams: 2,
        inbound_streams: 2,
        initial_tsn: Tsn(1),
        parameters: addresses.collect(),
    };
    let (answer, _) = say(VerificationTag(0), Chunk::Init(init));
    let Some(Ok(Chunk::InitAck(ack))) = answer.chunks().next() else { panic!("no INIT ACK: {answer:?}") };
    let cookie = ack.parameters.iter().find_map(|parameter| match parameter {
        Parameter::StateCookie(cookie) => Some(cookie.clone()),
        _ => None,
    });
    let (_, paths) = say(ack.initiate_tag, Chunk::CookieEcho(cookie.unwrap()));
    assert_eq!(
        paths,
        Some(1 + usize::from(most)),
        "the address that it came from, and as many as it may list"
    );
}

fn packed(header: Header, chunk: &Chunk) -> Bytes {
    let mut builder = PacketBuilder::new();
    builder.begin(header, PacketBuilder::MAX_BYTES);
    builder.push(chunk);
    builder.seal();
    builder.finish().unwrap().payload
}

pub(super) fn full_endpoint(_: Row) {
    in_tokio(async {
        let mut bind = Bind::to([SocketAddr::from(([127, 0, 0, 1], 0))]);
        bind.limits.associations = 4;
        let server = Endpoint::bind(bind).unwrap();
        let _listener = server.listen(CONTROL_PORT, Arc::new(Profile::Modern.config())).unwrap();
        let clients: Vec<_> = (0..7).map(|_| connect(server.local_addrs()[0], streams(2))).collect();
        let mut up = 0;
        for (_, association) in &clients {
            up += usize::from(association.up().await.is_ok());
        }
        assert_eq!((up, server.associations()), (4, 4));
    });
}

pub(super) fn silent_associations(_: Row) {
    in_tokio(async {
        let settings = Settings { max_sessions: 8, max_sessions_per_address: 40, ..quick() };
        let half_open = limit(Row::SctpHalfOpen, &settings);
        let served = sctp_server(settings, |_| {});
        let mut clients = Vec::new();
        for _ in 0..3 * half_open {
            let client = connect(served.address, streams(3));
            let _ = client.1.up().await;
            clients.push(client);
            assert!(served.endpoint.half_open() <= half_open, "{} half-open", served.endpoint.half_open());
        }
        // Of the logged-in ones, each address may have this many.
        let settings = Settings { max_sessions: 40, max_sessions_per_address: 4, ..quick() };
        let most = limit(Row::SctpAssociationsPerAddress, &settings);
        let served = sctp_server(settings, |_| {});
        for _ in 0..3 * most {
            let client = connect(served.address, streams(3));
            if client.1.up().await.is_ok() {
                let lines = Message::new(Ppid(ppid::LINES), LOG_IN);
                let _ = client.1.send(StreamId(0), lines).await;
            }
            clients.push(client);
            assert!(
                served.endpoint.associations() <= most,
                "{} associations",
                served.endpoint.associations()
            );
        }
    });
}

/// Handshakes of one network that all begin at once, at an endpoint with low limits.
pub(super) fn handshakes(_: Row) {
    let limits = Limits { handshakes: 40, waiting_handshakes: 15, ..Limits::default() };
    let settings = quick();
    let effective = Effective { limits, ..Effective::of(&settings) };
    let dtls = Some(sctp::DtlsConfig::default());
    let config = Arc::new(Profile::Modern.config().with(|c| c.security.dtls = dtls));
    let [mut client, mut server] = [[7; 32], [8; 32]].map(|seed| sctp::Endpoint::with_limits(seed, limits));
    server.listen(CONTROL_PORT, config.clone()).unwrap();
    let [from, to] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 9_899)));
    let now = Time::from_millis(100_000);
    for _ in 0..100 {
        let connect =
            Connect { local: vec![from], config: config.clone(), ..Connect::to([to], CONTROL_PORT) };
        client.connect(now, connect).unwrap();
    }
    // Passes on all packets until there are no more.
    let mut settle = |now| loop {
        let mut is_over = true;
        for is_client in [true, false] {
            let (end, other) =
                if is_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
            loop {
                match end.poll(now) {
                    Output::Send(transmit) => {
                        transmit.into_datagrams().for_each(|datagram| other.handle(now, datagram));
                        is_over = false;
                    }
                    Output::Event(_) => {}
                    Output::Wait(_) => break,
                }
            }
        }
        if is_over {
            break server.len() as u64;
        }
    };
    let begun = settle(now);
    assert_eq!(Amount::Rate(begun), Row::SctpHandshakes.limit(&effective));
    let waited = settle(now + Duration::from_millis(900)) - begun;
    assert_eq!(Amount::Count(waited), Row::SctpHandshakesWaiting.limit(&effective));
}

/// A peer that agrees to protection and never sends key messages.
pub(super) fn silent_handshake(row: Row) {
    in_tokio(async {
        let (_keys, settings) = protected(session(|config| config.login_within = Duration::from_secs(1)));
        assert_eq!(limit(row, &settings), 1_000);
        let served = sctp_server(settings, |_| {});
        let dtls = Some(braidftp_net::keys::Settings::default().dtls());
        let (_endpoint, association) = connect(served.address, streams(3).with(|c| c.security.dtls = dtls));
        association.up().await.unwrap();
        // Shorter than the time limit for a login.
        let usual = Duration::from_millis(limit(row, &quick()) as u64);
        let ended = tokio::time::timeout(usual / 2, association.closed()).await;
        assert!(matches!(ended, Ok(braidftp_net::Reason::PeerAborted(_))), "{ended:?}");
    });
}

pub(super) fn window_before_login(row: Row) {
    in_tokio(async {
        let served = sctp_server(quick(), |_| {});
        let (_endpoint, association) = connect(served.address, streams(3));
        association.up().await.unwrap();
        let window = association.stats().peer_rwnd;
        assert!(window <= limit(row, &quick()), "{window} bytes");
    });
}

/// Attacks of raw peers, in the simulator.
pub(super) fn raw_peers(_: Row) {
    const MEMORY: usize = 24 << 20;
    for name in ["hoard", "fragments", "zero-window", "outlive"] {
        let attack = ATTACKS.iter().find(|attack| attack.name == name).copied().unwrap();
        let attack = Attack { associations: attack.associations.min(40), packets_a_second: 2_000, ..attack };
        let mut trial = Trial::of(Some(attack), MEMORY);
        trial.lasts = Duration::from_secs(2);
        let outcome = trial.run();
        assert!(outcome.memory_most <= MEMORY + (1 << 20), "{name}: {outcome:?}");
        assert!(outcome.login.is_some(), "{name}: {outcome:?}");
        if name == "outlive" {
            // Closing associations end when T5-shutdown-guard has expired.
            assert!(outcome.associations_after <= 1, "{name}: {outcome:?}");
        }
    }
}

/// Packets without an association, at an endpoint that receives all of them at once.
pub(super) fn strangers(_: Row) {
    let now = Time::from_millis(100_000);
    let from = |nth: u32| SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0001 + (nth << 8)), 9_899));
    let to = SocketAddr::from(([10, 255, 0, 1], 9_899));
    let packet = |nth: u32, tag: u32, chunk: Chunk| {
        let source_port = 1_024 + (nth % 60_000) as u16;
        packed(Header { source_port, destination_port: CONTROL_PORT, tag: VerificationTag(tag) }, &chunk)
    };
    let limits = Limits { init_acks: 100, out_of_the_blue: 20, answers: 50, ..Limits::default() };
    let settings = quick();
    let effective = Effective { limits, ..Effective::of(&settings) };
    let endpoint = || {
        let mut endpoint = sctp::Endpoint::with_limits([7; 32], limits);
        endpoint.listen(CONTROL_PORT, Arc::new(Profile::Modern.config())).unwrap();
        endpoint
    };
    let answers = |endpoint: &mut sctp::Endpoint| {
        let mut answers = 0_u64;
        while let Output::Send(transmit) = endpoint.poll(now) {
            answers += 1;
            drop(transmit);
        }
        answers
    };
    let init = |nth: u32| {
        let init = sctp::wire::Init {
            initiate_tag: VerificationTag(nth + 1),
            a_rwnd: 100_000,
            outbound_streams: 2,
            inbound_streams: 2,
            initial_tsn: Tsn(nth),
            parameters: Vec::new(),
        };
        packet(nth, 0, Chunk::Init(init))
    };
    let data = |nth: u32| {
        let data = Data {
            begin: true,
            end: true,
            unordered: false,
            immediate: false,
            tsn: Tsn(nth),
            stream: StreamId(0),
            ssn: Ssn(0),
            interleaved: None,
            ppid: Ppid(0),
            payload: Bytes::from_static(b"x"),
        };
        packet(nth, 7, Chunk::Data(data))
    };
    // From two networks: each has half of the rate. From many networks, each would have a share beyond it.
    let datagram = |nth: u32, payload| Datagram { from: from(nth % 2), to, ecn: Ecn::NotEct, payload };
    // All at once: as many wait as permitted.
    let mut flooded = endpoint();
    (0..1_000).for_each(|nth| flooded.handle(now, datagram(nth, init(nth))));
    let at_once = answers(&mut flooded);
    assert_eq!(Amount::Count(at_once), Row::SctpAnswers.limit(&effective));
    // One after another: as many per second as permitted.
    let mut flooded = endpoint();
    let one_by_one = |endpoint: &mut sctp::Endpoint, make: &dyn Fn(u32) -> Bytes| {
        let each = (0..1_000).map(|nth| {
            endpoint.handle(now, datagram(nth, make(nth)));
            answers(endpoint)
        });
        each.sum::<u64>()
    };
    let inits = one_by_one(&mut flooded, &init);
    assert_eq!(Amount::Rate(inits), Row::SctpInitAcks.limit(&effective));
    let strays = one_by_one(&mut flooded, &data);
    assert!(
        strays > 0 && Amount::Rate(strays) == Row::SctpOutOfTheBlue.limit(&effective),
        "{strays} answers"
    );
    assert_eq!(flooded.len(), 0, "nothing is kept of them");
    assert!(flooded.counters().answers_dropped > 0);
    let _ = Packet::decode(init(1)).unwrap();
}
