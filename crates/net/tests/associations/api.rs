//! What programs embed the crate for: events, settings of a living association, streams as values, threads.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{PORT, Pair, content, endpoint, soon, to};
use braidftp_net::sctp::{AuthConfig, PeerMay};
use braidftp_net::{
    Association, Bind, Config, Connect, Endpoint, Event, Message, PathName, PathParams, PathState, PathUse,
    Piece, Ppid, Profile, Reason, SendError, SharedKey, StreamId, StreamReset, Streams, TryRecvError,
    TrySendError, blocking,
};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

fn modern() -> Config {
    Profile::Modern.config()
}

fn hello(text: &str) -> Message {
    Message::new(Ppid(1), text.to_owned())
}

/// Events until one matches.
async fn event(association: &Association, is_it: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = soon(association.event()).await.expect("the association lives");
        if is_it(&event) {
            return event;
        }
    }
}

#[tokio::test]
async fn events_tell_the_life_of_an_association_in_order() {
    let pair = Pair::new(modern().with(|c| c.handshake.adaptation = Some(7))).await;
    let Event::Up(up) = soon(pair.client.event()).await.unwrap() else { panic!("it is up first") };
    assert_eq!((Ok(up), up.adaptation), (pair.client.up().await, Some(7)));
    soon(pair.server.shutdown()).await;
    event(&pair.client, |event| *event == Event::PeerShutdown).await;
    let end = soon(async {
        loop {
            if let Err(reason) = pair.client.event().await {
                return reason;
            }
        }
    });
    assert_eq!(end.await, Reason::Shutdown);
    assert_eq!(pair.client.try_event(), None);
}

#[tokio::test]
async fn a_disabled_and_enabled_path_is_reported_with_its_addresses() {
    let bind = || Endpoint::bind(Bind::to(["127.0.21.1:0", "127.0.21.2:0"].map(|it| it.parse().unwrap())));
    let (client_end, server_end) = (bind().unwrap(), bind().unwrap());
    let config = Arc::new(modern());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    let _server = soon(listener.accept()).await.unwrap();
    let (local, peer) = (client_end.local_addrs()[1], server_end.local_addrs()[1]);
    let path = PathName { local, peer };
    let is_of = |state| move |event: &Event| *event == Event::Path { path, state };
    event(&client, is_of(PathState::Active)).await;
    assert_eq!(client.paths()[1], path);
    client.set_primary(path).unwrap();
    assert_eq!(client.primary(), Some(path));
    client.demand_heartbeat(path).unwrap();
    client.set_path_use(path, PathUse::SetAside).unwrap();
    client.set_path_use(path, PathUse::InUse).unwrap();
    event(&client, is_of(PathState::SetAside)).await;
    event(&client, is_of(PathState::Active)).await;
    client.remove_address(local).unwrap_err();
}

#[tokio::test]
async fn settings_of_a_living_association_are_read_back() {
    let auth = |c: &mut Config| c.security.auth = Some(AuthConfig::default());
    let pair = Pair::new(modern().with(auth)).await;
    let params = PathParams { heartbeat_interval: Some(Duration::from_secs(7)), path_max_retrans: 3 };
    let path = pair.client.paths()[0];
    pair.client.set_path_params(path, params).unwrap();
    assert_eq!(pair.client.path_params(path), Ok(params));
    let nowhere = PathName { peer: "192.0.2.1:9".parse().unwrap(), ..path };
    pair.client.path_params(nowhere).unwrap_err();
    pair.client.set_max_burst(Some(3));
    pair.client.set_association_max_retrans(4);
    let config = pair.client.config();
    assert_eq!(config.congestion.max_burst, Some(3));
    assert_eq!(config.failover.association_max_retrans, 4);
    pair.client.set_stream_value(StreamId(0), 2).unwrap();
    pair.client.set_stream_value(StreamId(60_000), 2).unwrap_err();
    assert_eq!(pair.client.primary(), Some(path));

    for side in [&pair.client, &pair.server] {
        side.set_key(SharedKey { id: 5, secret: "a secret of both".into() }).unwrap();
    }
    pair.client.activate_key(5).unwrap();
    pair.client.delete_key(5).unwrap_err();
    pair.client.send(StreamId(0), hello("signed with key 5")).await.unwrap();
    assert_eq!(text(soon(pair.server.recv(StreamId(0))).await.unwrap()), "signed with key 5");
}

fn text(piece: Option<Piece>) -> String {
    String::from_utf8(piece.expect("it has not ended").payload.concat()).unwrap()
}

#[tokio::test]
async fn a_reset_of_streams_is_an_event_on_both_sides() {
    let may_reset = PeerMay { reset_streams: true, ..PeerMay::default() };
    let reset = |c: &mut Config| (c.streams.reconfiguration, c.streams.peer_may) = (true, may_reset);
    let pair = Pair::new(modern().with(reset)).await;
    pair.client.send(StreamId(1), hello("before")).await.unwrap();
    soon(pair.server.recv(StreamId(1))).await.unwrap();
    let outgoing = Some(Streams::These(vec![StreamId(1)]));
    pair.client.reset_streams(StreamReset { outgoing, incoming: None }).unwrap();
    for side in [&pair.client, &pair.server] {
        let is_reset = |event: &Event| matches!(event, Event::StreamReset { .. });
        let Event::StreamReset { streams, .. } = event(side, is_reset).await else { unreachable!() };
        assert_eq!(streams, Streams::These(vec![StreamId(1)]));
    }
}

#[tokio::test]
async fn nothing_waits_in_try_send_and_try_recv() {
    let pair = Pair::new(modern().with(|c| c.memory.send_buffer_bytes = 10_000)).await;
    assert_eq!(pair.server.try_recv(StreamId(0)), Err(TryRecvError::Empty));
    let message = Message::new(Ppid(1), vec![1; 4_000]);
    let full = loop {
        match pair.client.try_send(StreamId(0), message.clone()) {
            Ok(()) => {}
            Err(TrySendError::Full(message)) => break message,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(full, message);
    let refused = pair.client.try_send(StreamId(60_000), message);
    assert_eq!(refused, Err(TrySendError::Refused(SendError::NoSuchStream)));
    soon(pair.server.recv(StreamId(0))).await.unwrap();
    soon(pair.client.shutdown()).await;
    soon(async { while !matches!(pair.server.try_recv(StreamId(0)), Ok(None)) {} }).await;
}

#[tokio::test]
async fn many_small_messages_are_received_at_once() {
    let pair = Pair::new(modern()).await;
    for number in 0..50 {
        pair.client.send(StreamId(number % 3), hello(&number.to_string())).await.unwrap();
    }
    pair.client.start_shutdown();
    let mut pieces = Vec::new();
    assert_eq!(soon(pair.server.recv_many(&mut pieces, 0)).await, Ok(0));
    while soon(pair.server.recv_many(&mut pieces, 20)).await.unwrap() > 0 {
        assert!(pieces.len() <= 50);
    }
    let mut numbers: Vec<u16> =
        pieces.into_iter().map(|(_, piece)| text(Some(piece)).parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_copied_through_a_stream_as_through_a_pipe() {
    const LEN: usize = 3_000_000;
    let pair = Pair::new(modern()).await;
    let (mut send, _) = pair.client.stream(StreamId(2), Ppid(9));
    let (_, mut recv) = pair.server.stream(StreamId(2), Ppid(9));
    let writer = tokio::spawn(async move {
        send.write_all(&content(2, 0, LEN)).await.unwrap();
        send.shutdown().await.unwrap();
        assert_eq!(pair.client.shutdown().await, Reason::Shutdown);
        assert_eq!(send.write_all(b"late").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    });
    let mut received = Vec::new();
    soon(recv.read_to_end(&mut received)).await.unwrap();
    assert!(received == content(2, 0, LEN), "{} bytes", received.len());
    soon(writer).await.unwrap();
}

#[tokio::test]
async fn a_stream_is_a_sink_and_a_stream_of_messages() {
    const COUNT: usize = 300;
    let pair = Pair::new(modern().with(|c| c.memory.send_buffer_bytes = 10_000)).await;
    let (send, _) = pair.client.stream(StreamId(0), Ppid(0));
    let (_, recv) = pair.server.stream(StreamId(0), Ppid(0));
    let messages =
        futures_util::stream::iter((0..COUNT).map(|at| Ok(Message::new(Ppid(3), content(0, at, 500)))));
    let sending = tokio::spawn(messages.forward(send));
    let received: Vec<_> = soon(StreamExt::take(recv, COUNT).collect()).await;
    for (at, piece) in received.into_iter().enumerate() {
        let piece: Piece = piece.unwrap();
        assert_eq!((piece.ppid, piece.payload.concat()), (Ppid(3), content(0, at, 500)));
    }
    soon(sending).await.unwrap().unwrap();
    let (mut send, mut recv) = pair.client.stream(StreamId(0), Ppid(0));
    pair.server.abort("enough");
    assert!(matches!(soon(recv.next()).await, Some(Err(Reason::PeerAborted(_)))));
    assert!(matches!(soon(send.send(hello("late"))).await, Err(SendError::Closed(_))));
}

/// Passes packets between `server` and one client of a moment; those of other clients are lost.
async fn relay(server: SocketAddr) -> (SocketAddr, Arc<Mutex<SocketAddr>>) {
    let (near, far) =
        (UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let (address, client) = (near.local_addr().unwrap(), Arc::new(Mutex::new(server)));
    let current = client.clone();
    tokio::spawn(async move {
        let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
        loop {
            tokio::select! {
                received = near.recv_from(&mut there) => {
                    let (len, from) = received.unwrap();
                    if from == *current.lock().unwrap() {
                        far.send_to(&there[..len], server).await.unwrap();
                    }
                }
                received = far.recv_from(&mut back) => {
                    let to = *current.lock().unwrap();
                    near.send_to(&back[..received.unwrap().0], to).await.unwrap();
                }
            }
        }
    });
    (address, client)
}

/// A client that loses its state and connects again from the same address and port; its second association and the server's.
async fn restarted(accept: bool) -> (Association, Association) {
    let server_end = endpoint();
    let config = Arc::new(modern());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let (peer, client) = relay(server_end.local_addrs()[0]).await;
    let connect = Connect { peer: vec![peer], source_port: Some(4_000), ..to(&server_end, &config) };
    let connect = |end: &Endpoint| {
        *client.lock().unwrap() = end.local_addrs()[0];
        end.connect(connect.clone()).unwrap()
    };
    let before = connect(&endpoint());
    let server = soon(listener.accept()).await.unwrap();
    server.accept_restarts(accept);
    before.send(StreamId(0), hello("before")).await.unwrap();
    assert_eq!(text(soon(server.recv(StreamId(0))).await.unwrap()), "before");
    let after = connect(&endpoint());
    after.send(StreamId(0), hello("after")).await.unwrap();
    (after, server)
}

#[tokio::test]
async fn an_association_goes_on_when_its_peer_restarts_if_its_user_accepts_that() {
    let (client, server) = restarted(true).await;
    event(&server, |event| *event == Event::Restarted).await;
    assert_eq!(text(soon(server.recv(StreamId(0))).await.unwrap()), "after");
    server.send(StreamId(0), hello("welcome back")).await.unwrap();
    assert_eq!(text(soon(client.recv(StreamId(0))).await.unwrap()), "welcome back");
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
}

#[tokio::test]
async fn an_association_ends_when_its_peer_restarts_unless_its_user_accepts_that() {
    let (_client, server) = restarted(false).await;
    assert!(matches!(soon(server.closed()).await, Reason::Aborted(_)));
}

#[test]
fn threads_need_no_runtime() {
    let bind = || blocking::Endpoint::bind(Bind::to(["127.0.0.1:0".parse().unwrap()])).unwrap();
    let (client_end, server_end) = (bind(), bind());
    let config = Arc::new(modern());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let server = thread::spawn(move || {
        let association = listener.accept().unwrap();
        let waits = association.recv_timeout(StreamId(1), Duration::from_millis(1));
        assert_eq!(waits, None);
        while let Some(piece) = association.recv(StreamId(0)).unwrap() {
            association.send(StreamId(0), Message::new(piece.ppid, piece.payload.concat())).unwrap();
        }
        association.closed()
    });
    let client = client_end.connect(to(server_end.get_ref(), &config)).unwrap();
    client.send(StreamId(0), hello("from a thread")).unwrap();
    client.up().unwrap();
    assert!(matches!(client.event(), Ok(Event::Up(_))));
    assert_eq!(text(client.recv(StreamId(0)).unwrap()), "from a thread");
    assert_eq!(client.shutdown(), Reason::Shutdown);
    assert_eq!(server.join().unwrap(), Reason::Shutdown);
    // What is queued still arrives when the last handle goes.
    let listener = server_end.listen(PORT + 1, config.clone()).unwrap();
    let connect = Connect { destination_port: PORT + 1, ..to(server_end.get_ref(), &config) };
    client_end.connect(connect).unwrap().send(StreamId(0), hello("last words")).unwrap();
    drop(client_end);
    let association = listener.accept().unwrap();
    assert_eq!(text(association.recv(StreamId(0)).unwrap()), "last words");
    assert_eq!(association.recv(StreamId(0)), Ok(None));
}
