//! SCTP over IP itself: associations between raw sockets of one host, which see each other's packets; and what is said
//! where the privilege is missing.

mod common;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_net::{Bind, BindError, Carrier, Connect, Endpoint, PathState, Profile, Reason};
use common::{receive_all, send_all, soon};

const TOTAL: usize = 3_000_000;

/// The `n`th loopback address of this test run: two servers at one address and port would both answer, and other runs
/// of these tests may be under way.
fn at(n: u8) -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{high}.{low}.{n}")
}

/// An SCTP port of this test run, for IPv6 has one loopback address.
fn port(n: u16) -> u16 {
    10_000 + (std::process::id() % 3_000) as u16 * 10 + n
}

/// An endpoint at these addresses; `None` without the right to raw sockets, which is said aloud.
fn raw(addrs: &[String]) -> Option<Endpoint> {
    if addrs.iter().any(|ip| ip == "::1") && std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("LEFT OUT: this host has no IPv6 loopback");
        return None;
    }
    let addrs = addrs.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0));
    match Endpoint::bind(Bind { carrier: Carrier::Ip, ..Bind::to(addrs) }) {
        Ok(endpoint) => Some(endpoint),
        Err(error @ BindError::Address { .. }) if error.to_string().contains("CAP_NET_RAW") => {
            eprintln!("LEFT OUT: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn connect(peers: &[String], port: u16, profile: Profile) -> Connect {
    let peer = peers.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
    let config = Arc::new(profile.config());
    Connect { local: vec![], peer, source_port: None, destination_port: port, config }
}

async fn both_ways(client_at: &[String], server_at: &[String], port: u16, profile: Profile) {
    let (Some(client_end), Some(server_end)) = (raw(client_at), raw(server_at)) else { return };
    let listener = server_end.listen(port, Arc::new(profile.config())).unwrap();
    let known: Vec<String> =
        server_at.iter().map(|it| if it == "0.0.0.0" { at(99) } else { it.clone() }).collect();
    let client = client_end.connect(connect(&known, port, profile)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    let sends = [&client, &server].map(|end| tokio::spawn(send_all(end.clone(), 1, TOTAL, 50_000)));
    let receives = [&server, &client].map(|end| tokio::spawn(receive_all(end.clone(), 1, TOTAL)));
    for task in sends.into_iter().chain(receives) {
        soon(task).await.unwrap();
    }
    let path = client.stats().paths[0].clone();
    assert_eq!(path.peer, SocketAddr::new(known[0].parse().unwrap(), 0));
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
    assert_eq!(soon(server.closed()).await, Reason::Shutdown);
}

#[tokio::test]
async fn over_ipv4_both_ways() {
    both_ways(&[at(1)], &[at(2)], port(0), Profile::Modern).await;
}

#[tokio::test]
async fn over_ipv6_both_ways() {
    both_ways(&["::1".into()], &["::1".into()], port(0), Profile::Modern).await;
}

#[tokio::test]
async fn stacks_sharing_an_address_do_not_end_each_others_associations() {
    let (one, other, both) = ([at(3)], [at(4)], [at(4), at(5)]);
    tokio::join!(
        both_ways(&one, &one, port(1), Profile::Modern),
        both_ways(&one, &both, port(2), Profile::Rfc9260),
        both_ways(&other, &one, port(3), Profile::Modern),
    );
}

#[tokio::test]
async fn a_wildcard_sends_from_the_address_that_was_asked() {
    both_ways(&[at(6)], &["0.0.0.0".into()], port(4), Profile::Modern).await;
    both_ways(&["0.0.0.0".into()], &[at(7)], port(4), Profile::Modern).await;
}

#[tokio::test]
async fn with_other_stacks_a_port_without_a_listener_is_not_answered() {
    let (Some(client_end), Some(_server_end)) = (raw(&[at(10)]), raw(&[at(11)])) else { return };
    let client = client_end.connect(connect(&[at(11)], port(6), Profile::Modern)).unwrap();
    let up = tokio::time::timeout(Duration::from_millis(300), client.up()).await;
    assert!(up.is_err(), "no ABORT: {up:?}");
}

#[tokio::test]
async fn ipv4_and_ipv6_addresses_mix() {
    let (Some(client_end), Some(server_end)) = (raw(&[at(12), "::1".into()]), raw(&[at(13), "::1".into()]))
    else {
        return;
    };
    let listener = server_end.listen(port(7), Arc::new(Profile::Modern.config())).unwrap();
    let client = client_end.connect(connect(&[at(13), "::1".into()], port(7), Profile::Modern)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    let sender = tokio::spawn(send_all(client.clone(), 0, TOTAL, 50_000));
    soon(receive_all(server.clone(), 0, TOTAL)).await;
    sender.await.unwrap();
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let paths: Vec<_> =
        client.stats().paths.iter().map(|path| (path.local.ip(), path.peer.ip(), path.state)).collect();
    let expected = [(ip(&at(12)), ip(&at(13)), PathState::Active), (ip("::1"), ip("::1"), PathState::Active)];
    assert_eq!(paths, expected);
}

#[tokio::test]
async fn an_address_that_is_not_local_is_reported() {
    let Some(_) = raw(&[at(14)]) else { return };
    let bind = Bind { carrier: Carrier::Ip, ..Bind::to(["192.0.2.1:0".parse().unwrap()]) };
    let error = Endpoint::bind(bind).unwrap_err().to_string();
    assert!(error.contains("192.0.2.1") && error.contains("ip addr"), "{error}");
}
