//! Two endpoints over real sockets: messages arrive, a full buffer blocks the sender, ends are reported, ports become free.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{PORT, Pair, content, endpoint, has_ipv6_loopback, receive_all, send_all, soon, to};
use braidftp_net::{
    Bind, BindError, Config, ConnectError, Endpoint, Message, Ppid, Profile, Reason, SendError, StreamId,
};
use tokio::net::UdpSocket;

fn modern() -> Config {
    Profile::Modern.config()
}

/// Receives one complete message.
async fn message(association: &braidftp_net::Association, stream: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let piece = soon(association.recv(StreamId(stream))).await.unwrap().expect("a message comes");
        piece.payload.iter().for_each(|part| bytes.extend_from_slice(part));
        if piece.end {
            return bytes;
        }
    }
}

#[tokio::test]
async fn an_echo_comes_back_and_both_sides_end_in_peace() {
    let pair = Pair::new(modern()).await;
    pair.client.send(StreamId(3), Message::new(Ppid(1), "hello")).await.unwrap();
    let heard = message(&pair.server, 3).await;
    pair.server.send(StreamId(3), Message::new(Ppid(1), heard)).await.unwrap();
    assert_eq!(message(&pair.client, 3).await, b"hello");
    assert_eq!(soon(pair.client.shutdown()).await, Reason::Shutdown);
    assert_eq!(soon(pair.server.closed()).await, Reason::Shutdown);
    assert_eq!(soon(pair.server.recv_any()).await, Ok(None));
    let late = pair.client.send(StreamId(3), Message::new(Ppid(1), "late")).await;
    assert!(matches!(late, Err(SendError::Closed(Reason::Shutdown) | SendError::ShuttingDown)), "{late:?}");
}

#[tokio::test]
async fn messages_sent_during_the_handshake_arrive_first() {
    let (client_end, server_end) = (endpoint(), endpoint());
    let config = Arc::new(modern());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    client.send(StreamId(0), Message::new(Ppid(1), "first")).await.unwrap();
    let server = soon(listener.accept()).await.unwrap();
    assert_eq!(message(&server, 0).await, b"first");
    let up = soon(server.up()).await.unwrap();
    assert!(up.outbound_streams > 0 && up.inbound_streams > 0);
    assert_eq!(server.peer_addr().unwrap(), client_end.local_addrs()[0]);
    assert_eq!(server.ports().0, PORT);
}

#[tokio::test]
async fn a_hundred_associations_share_two_sockets() {
    const COUNT: usize = 100;
    let (client_end, server_end) = (endpoint(), endpoint());
    let config = Arc::new(modern());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let server = tokio::spawn(async move {
        let mut tasks = Vec::new();
        for _ in 0..COUNT {
            let association = listener.accept().await.unwrap();
            tasks.push(tokio::spawn(async move {
                while let Some((stream, piece)) = association.recv_any().await.unwrap() {
                    for part in piece.payload {
                        association.send(stream, Message::new(piece.ppid, part)).await.unwrap();
                    }
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    let clients = (0..COUNT).map(|number| {
        let association = client_end.connect(to(&server_end, &config)).unwrap();
        tokio::spawn(async move {
            let words = format!("number {number}");
            association.send(StreamId(0), Message::new(Ppid(1), words.clone())).await.unwrap();
            assert_eq!(message(&association, 0).await, words.into_bytes());
            assert_eq!(association.shutdown().await, Reason::Shutdown);
        })
    });
    for client in clients.collect::<Vec<_>>() {
        soon(client).await.unwrap();
    }
    soon(server).await.unwrap();
    soon(client_end.wait_idle()).await;
    soon(server_end.wait_idle()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_megabytes_go_each_way_over_eight_streams() {
    const EACH: usize = 10_000_000 / 8;
    let pair = Pair::new(modern()).await;
    let mut tasks = Vec::new();
    for stream in 0..8 {
        let size = [100_000, 1, 65_536, 3_000, 1_400, 17, 250_000, 9_999][usize::from(stream)];
        let total = if size < 100 { 100_000 } else { EACH };
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            tasks.push(tokio::spawn(send_all(from.clone(), stream, total, size)));
            tasks.push(tokio::spawn(receive_all(to.clone(), stream, total)));
        }
    }
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(soon(pair.server.shutdown()).await, Reason::Shutdown);
    assert_eq!(soon(pair.client.closed()).await, Reason::Shutdown);
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_the_sender() {
    const TOTAL: usize = 4_000_000;
    let mut config = modern();
    config.memory.receive_buffer_bytes = 200_000;
    config.memory.send_buffer_bytes = 200_000;
    let pair = Pair::new(config).await;
    let sender = tokio::spawn(send_all(pair.client.clone(), 2, TOTAL, 10_000));
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = pair.client.stats().messages_sent;
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    let stats = pair.server.stats();
    assert!(before * 10_000 <= 400_000, "{before} messages were taken though nobody read");
    assert!(stats.unread_bytes <= 200_000, "{stats:?}");
    assert!(!sender.is_finished());
    soon(receive_all(pair.server.clone(), 2, TOTAL)).await;
    soon(sender).await.unwrap();
}

#[tokio::test]
async fn a_cancelled_call_changes_nothing() {
    const TOTAL: usize = 2_000_000;
    let mut config = modern();
    config.memory.send_buffer_bytes = 100_000;
    config.memory.receive_buffer_bytes = 100_000;
    let pair = Pair::new(config).await;
    let receiver = pair.server.clone();
    // Each call is cancelled at its first wait, repeatedly, until a call completes without waiting.
    let reader = tokio::spawn(async move {
        let mut at = 0;
        while at < TOTAL {
            tokio::select! {
                biased;
                got = receiver.recv(StreamId(1)) => {
                    for part in got.unwrap().unwrap().payload {
                        assert!(part == content(1, at, part.len()), "near {at}");
                        at += part.len();
                    }
                }
                () = tokio::task::yield_now() => {}
            }
        }
    });
    let mut at = 0;
    while at < TOTAL {
        let len = 8_000.min(TOTAL - at);
        tokio::select! {
            biased;
            sent = pair.client.send(StreamId(1), Message::new(Ppid(7), content(1, at, len))) => {
                sent.unwrap();
                at += len;
            }
            () = tokio::task::yield_now() => {}
        }
    }
    soon(reader).await.unwrap();
}

/// Forwards datagrams between one client and a server, as a NAT does.
struct Relay {
    addr: std::net::SocketAddr,
    task: tokio::task::JoinHandle<()>,
    /// Makes the relay send to the server from another port, like a NAT that lost its mapping.
    change_port: Arc<tokio::sync::Notify>,
}

impl Relay {
    async fn to(server: std::net::SocketAddr) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let addr = front.local_addr().unwrap();
        let change_port = Arc::new(tokio::sync::Notify::new());
        let change = change_port.clone();
        let task = tokio::spawn(async move {
            let (mut one, mut other, mut client) = (vec![0; 65_536], vec![0; 65_536], None);
            loop {
                tokio::select! {
                    Ok((len, from)) = front.recv_from(&mut one) => {
                        client = Some(from);
                        back.send_to(&one[..len], server).await.unwrap();
                    }
                    Ok(len) = back.recv(&mut other), if client.is_some() => {
                        front.send_to(&other[..len], client.unwrap()).await.unwrap();
                    }
                    () = change.notified() => back = UdpSocket::bind("127.0.0.1:0").await.unwrap(),
                }
            }
        });
        Self { addr, task, change_port }
    }
}

fn impatient() -> Config {
    let mut config = modern();
    config.timers.rto.initial = Duration::from_millis(100);
    config.timers.rto.min = Duration::from_millis(100);
    config.timers.rto.max = Duration::from_millis(300);
    config.failover.association_max_retrans = 4;
    config.failover.path_max_retrans = 2;
    config
}

#[tokio::test]
async fn a_vanished_peer_ends_the_association_with_a_reason() {
    let (client_end, server_end) = (endpoint(), endpoint());
    let config = Arc::new(impatient());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let relay = Relay::to(server_end.local_addrs()[0]).await;
    let mut connect = to(&server_end, &config);
    connect.peer = vec![relay.addr];
    let client = client_end.connect(connect).unwrap();
    soon(client.up()).await.unwrap();
    client.send(StreamId(0), Message::new(Ppid(1), "there?")).await.unwrap();
    let server = soon(listener.accept()).await.unwrap();
    assert_eq!(message(&server, 0).await, b"there?");
    relay.task.abort();
    client.send(StreamId(0), Message::new(Ppid(1), "still there?")).await.unwrap();
    // Five time-outs of at most 300 ms each: with the defaults they take minutes.
    assert_eq!(soon(client.closed()).await, Reason::PeerUnreachable);
    assert_eq!(client.recv(StreamId(0)).await, Err(Reason::PeerUnreachable));
    let late = client.send(StreamId(0), Message::new(Ppid(1), "?")).await;
    assert_eq!(late, Err(SendError::Closed(Reason::PeerUnreachable)));
}

//= specs/rfc6951.txt#section-5.4
//= type=test
//# After finding the SCTP association (which
//# includes checking the verification tag), the UDP source port MUST be
//# stored as the encapsulation port for the destination address the SCTP
//# packet is received from (see Section 5.1).
#[tokio::test]
async fn a_changed_encapsulation_port_of_the_peer_is_followed() {
    const TOTAL: usize = 3_000_000;
    let (client_end, server_end) = (endpoint(), endpoint());
    let config = Arc::new(impatient().with(|c| c.failover.association_max_retrans = 20));
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let relay = Relay::to(server_end.local_addrs()[0]).await;
    let mut connect = to(&server_end, &config);
    connect.peer = vec![relay.addr];
    let client = client_end.connect(connect).unwrap();
    soon(client.up()).await.unwrap();
    let server = soon(listener.accept()).await.unwrap();
    let before = server.peer_addr().unwrap();
    for round in 0..3u16 {
        relay.change_port.notify_one();
        let up = tokio::spawn(send_all(client.clone(), round, TOTAL / 3, 20_000));
        soon(receive_all(server.clone(), round, TOTAL / 3)).await;
        soon(up).await.unwrap();
        let down = tokio::spawn(send_all(server.clone(), round, TOTAL / 3, 20_000));
        soon(receive_all(client.clone(), round, TOTAL / 3)).await;
        soon(down).await.unwrap();
    }
    let after = server.peer_addr().unwrap();
    assert!(after.ip() == before.ip() && after.port() != before.port(), "{before} {after}");
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
}

#[tokio::test]
async fn a_connect_without_a_listener_fails_within_the_bound() {
    let nobody = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let client_end = endpoint();
    let config = impatient().with(|c| c.handshake.max_init_retransmits = 3);
    let mut connect = to(&client_end, &Arc::new(config));
    connect.peer = vec![nobody.local_addr().unwrap()];
    let client = client_end.connect(connect).unwrap();
    // With the defaults it takes minutes.
    assert_eq!(soon(client.up()).await, Err(Reason::NoAnswer));
    assert_eq!(client.stats().paths[0].packets_sent, 5, "INIT, its copy and three retransmissions");
}

#[tokio::test]
async fn an_abort_reaches_the_peer_with_its_reason() {
    let pair = Pair::new(modern()).await;
    pair.client.abort("enough");
    let reason = soon(pair.server.closed()).await;
    assert_eq!(reason.peer_abort_reason().map(|words| &words[..]), Some(&b"enough"[..]), "{reason:?}");
    assert!(soon(pair.server.recv(StreamId(0))).await.is_err());
}

#[tokio::test]
async fn a_port_in_use_is_reported() {
    let one = endpoint();
    let taken = one.local_addrs()[0];
    let error = Endpoint::bind(Bind::to([taken])).unwrap_err();
    assert!(matches!(error, BindError::Address { addr, .. } if addr == taken));
    let words = error.to_string();
    assert!(words.contains(&taken.to_string()) && words.contains("choose another port"), "{words}");
    assert!(matches!(Endpoint::bind(Bind::to([])), Err(BindError::NoAddress)));
    let elsewhere = Endpoint::bind(Bind::to(["192.0.2.1:0".parse().unwrap()])).unwrap_err().to_string();
    assert!(elsewhere.contains("192.0.2.1"), "{elsewhere}");
}

#[tokio::test]
async fn a_peer_of_a_family_without_a_socket_is_refused_clearly() {
    let client_end = endpoint();
    let mut connect = to(&client_end, &Arc::new(modern()));
    connect.peer = vec!["[::1]:9899".parse().unwrap()];
    assert!(matches!(client_end.connect(connect), Err(ConnectError::NoLocalAddress)));
}

#[tokio::test]
async fn dropping_every_handle_delivers_what_was_sent_and_frees_the_port() {
    const TOTAL: usize = 1_000_000;
    let pair = Pair::new(modern()).await;
    let client_addr = pair.client_endpoint.local_addrs()[0];
    let reader = tokio::spawn(receive_all(pair.server.clone(), 0, TOTAL));
    send_all(pair.client.clone(), 0, TOTAL, 50_000).await;
    drop((pair.client, pair.client_endpoint));
    soon(reader).await.unwrap();
    assert_eq!(soon(pair.server.recv_any()).await, Ok(None));
    assert_eq!(soon(pair.server.closed()).await, Reason::Shutdown);
    bind_again(client_addr).await;
}

#[tokio::test]
async fn closing_waits_for_the_peers_and_frees_the_ports() {
    let pair = Pair::new(modern()).await;
    let addr = pair.server_endpoint.local_addrs()[0];
    soon(pair.server_endpoint.close()).await;
    assert_eq!(soon(pair.client.closed()).await, Reason::Shutdown);
    assert!(pair.listener.accept().await.is_none());
    assert!(matches!(
        pair.server_endpoint.connect(to(&pair.client_endpoint, &Arc::new(modern()))),
        Err(ConnectError::Closed)
    ));
    bind_again(addr).await;
}

/// Binds an address that was just released. Retries, because another program may have been given the port.
async fn bind_again(addr: std::net::SocketAddr) {
    soon(async {
        while let Err(error) = Endpoint::bind(Bind::to([addr])) {
            assert!(error.to_string().contains("in use"), "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_opened_with_its_endpoint_refuses_no_peer() {
    let opened = Endpoint::open(Bind::to(["127.0.0.1:0".parse().unwrap()])).unwrap();
    let client_end = endpoint();
    let config = Arc::new(modern());
    let mut connect = to(&client_end, &config);
    connect.peer = opened.local_addrs();
    let client = client_end.connect(connect).unwrap();
    // Its INIT waits at the socket.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (_server_end, listener) = opened
        .start_with(|server_end| {
            std::thread::sleep(Duration::from_millis(50));
            server_end.listen(PORT, config)
        })
        .unwrap();
    soon(listener.unwrap().accept()).await.unwrap();
    soon(client.up()).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_without_a_listener_refuses_in_words() {
    let (client_end, server_end) = (endpoint(), endpoint());
    let client = client_end.connect(to(&server_end, &Arc::new(modern()))).unwrap();
    let reason = soon(client.closed()).await;
    assert_eq!(reason.to_string(), "aborted by the peer, which gave no reason");
}

#[tokio::test]
async fn closing_gives_up_on_a_silent_peer_after_linger() {
    let nobody = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut bind = Bind::to(["127.0.0.1:0".parse().unwrap()]);
    bind.linger = Duration::from_millis(100);
    let client_end = Endpoint::bind(bind).unwrap();
    let mut connect = to(&client_end, &Arc::new(modern()));
    connect.peer = vec![nobody.local_addr().unwrap()];
    let client = client_end.connect(connect).unwrap();
    // Its INITs alone would take minutes.
    soon(client_end.close()).await;
    assert!(client.reason().is_some());
}

#[tokio::test]
async fn without_any_handle_a_silent_peer_holds_the_port_no_longer_than_linger() {
    let nobody = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut bind = Bind::to(["127.0.0.1:0".parse().unwrap()]);
    bind.linger = Duration::from_millis(100);
    let client_end = Endpoint::bind(bind).unwrap();
    let addr = client_end.local_addrs()[0];
    let mut connect = to(&client_end, &Arc::new(modern()));
    connect.peer = vec![nobody.local_addr().unwrap()];
    drop((client_end.connect(connect).unwrap(), client_end));
    // Its INITs alone take minutes.
    bind_again(addr).await;
}

#[tokio::test]
async fn waiting_calls_are_woken_when_the_runtime_is_dropped() {
    let (to_us, from_there) = std::sync::mpsc::channel();
    let there = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let pair = Pair::new(modern()).await;
            to_us.send(pair.client.clone()).unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
    });
    let client = from_there.recv().unwrap();
    assert!(soon(client.recv(StreamId(0))).await.is_err());
    there.join().unwrap();
}

#[tokio::test]
async fn unaccepted_associations_are_aborted_when_the_listener_is_dropped() {
    let (client_end, server_end) = (endpoint(), endpoint());
    let config = Arc::new(modern());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    soon(client.up()).await.unwrap();
    drop(listener);
    soon(client.closed()).await;
    soon(server_end.wait_idle()).await;
    let again = client_end.connect(to(&server_end, &config)).unwrap();
    assert!(soon(again.up()).await.is_err(), "nobody listens any more");
}

#[test]
fn no_call_waits_for_a_dropped_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(async { Pair::new(modern()).await.client });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        soon(client.closed()).await;
        assert!(soon(client.recv(StreamId(0))).await.is_err());
        assert!(soon(client.send(StreamId(0), Message::new(Ppid(1), "x"))).await.is_err());
    });
}

#[tokio::test]
async fn a_wildcard_socket_answers_from_the_address_it_was_asked_at() {
    let server_end = Endpoint::bind(Bind::to(["0.0.0.0:0".parse().unwrap()])).unwrap();
    let client_end = Endpoint::bind(Bind::to(["0.0.0.0:0".parse().unwrap()])).unwrap();
    let config = Arc::new(modern());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let mut connect = to(&server_end, &config);
    // Not the address from which the system would answer by default.
    connect.peer = vec![format!("127.0.0.2:{}", server_end.local_addrs()[0].port()).parse().unwrap()];
    let client = client_end.connect(connect).unwrap();
    soon(client.up()).await.unwrap();
    let server = soon(listener.accept()).await.unwrap();
    assert_eq!(server.stats().paths[0].local.ip().to_string(), "127.0.0.2");
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
}

#[tokio::test]
async fn it_works_over_ipv6_too() {
    if !has_ipv6_loopback() {
        return;
    }
    let bind = || Endpoint::bind(Bind::to(["[::1]:0".parse().unwrap()])).unwrap();
    let (client_end, server_end) = (bind(), bind());
    let config = Arc::new(modern());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    client.send(StreamId(0), Message::new(Ppid(1), "six")).await.unwrap();
    let server = soon(listener.accept()).await.unwrap();
    assert_eq!(message(&server, 0).await, b"six");
}
