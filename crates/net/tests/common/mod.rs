//! Shared by the tests on loopback.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use braidftp_net::{Association, Bind, Config, Connect, Endpoint, Listener, Message, Ppid, StreamId};

/// The SCTP port that tests listen on.
pub(crate) const PORT: u16 = 5001;

/// Far longer than any test takes on a busy machine, so that a hang becomes a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(150);

/// Returns a UDP port for a program that cannot bind port 0. It is outside the range from which the system chooses, and no two
/// calls of this process return the same.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let start = (std::process::id() % 400) as u16 * 50;
        let port = 10_000 + (start + nth) % 20_000;
        if std::net::UdpSocket::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// An endpoint on a loopback port that the system chose.
pub(crate) fn endpoint() -> Endpoint {
    Endpoint::bind(Bind::to(["127.0.0.1:0".parse().unwrap()])).unwrap()
}

/// How to reach `PORT` of `peer`.
pub(crate) fn to(peer: &Endpoint, config: &Arc<Config>) -> Connect {
    Connect {
        local: vec![],
        peer: peer.local_addrs().to_vec(),
        source_port: None,
        destination_port: PORT,
        config: config.clone(),
    }
}

/// Both ends of an association, and their endpoints.
pub(crate) struct Pair {
    pub(crate) client: Association,
    pub(crate) server: Association,
    pub(crate) client_endpoint: Endpoint,
    pub(crate) server_endpoint: Endpoint,
    pub(crate) listener: Listener,
}

impl Pair {
    pub(crate) async fn new(config: Config) -> Self {
        let (client_endpoint, server_endpoint) = (endpoint(), endpoint());
        let config = Arc::new(config);
        let listener = server_endpoint.listen(PORT, config.clone()).unwrap();
        let client = client_endpoint.connect(to(&server_endpoint, &config)).unwrap();
        let server = soon(listener.accept()).await.unwrap();
        soon(client.up()).await.unwrap();
        Self { client, server, client_endpoint, server_endpoint, listener }
    }
}

/// Whether this host has the IPv6 loopback address; prints a notice if not.
pub(crate) fn has_ipv6_loopback() -> bool {
    let there = std::net::UdpSocket::bind("[::1]:0").is_ok();
    if !there {
        eprintln!("LEFT OUT: this host has no IPv6 loopback");
    }
    there
}

/// Waits for `future`, at most [`PATIENCE`].
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes far too long")
}

/// Returns the bytes `from..from + len` of the pattern that every test sends on `stream`.
pub(crate) fn content(stream: u16, from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at * 7 + at / 251 + usize::from(stream) * 13) as u8).collect()
}

/// Sends `total` bytes of [`content`] on `stream`, in messages of `size`.
pub(crate) async fn send_all(association: Association, stream: u16, total: usize, size: usize) {
    let mut at = 0;
    while at < total {
        let len = size.min(total - at);
        let message = Message::new(Ppid(7), content(stream, at, len));
        association.send(StreamId(stream), message).await.unwrap();
        at += len;
    }
}

/// Receives `total` bytes on `stream` and compares each.
pub(crate) async fn receive_all(association: Association, stream: u16, total: usize) {
    let mut at = 0;
    while at < total {
        let piece = association.recv(StreamId(stream)).await.unwrap().expect("the peer is not done");
        assert_eq!(piece.ppid, Ppid(7));
        for bytes in piece.payload {
            assert!(bytes == content(stream, at, bytes.len()), "stream {stream}: other bytes near {at}");
            at += bytes.len();
        }
    }
    assert_eq!(at, total);
}
