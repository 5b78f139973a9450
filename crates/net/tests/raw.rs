//! SCTP over IP itself: associations between raw sockets of one host, which see each other's packets.

mod common;
mod usrsctp_support;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_emu::wires::End;
use braidftp_net::{Bind, Carrier, Connect, Endpoint, PathState, Profile, Reason};
use common::{PORT, has_ipv6_loopback, receive_all, send_all, soon};
use usrsctp_support::{inside, wires};

const TOTAL: usize = 3_000_000;

/// Runs a test in a network namespace of its own. Raw sockets receive the packets of every other stack at their addresses, and
/// usrsctp, which other test programs run meanwhile, answers packets of associations that it does not know with ABORT.
fn alone(test: impl Future<Output = ()> + Send) {
    let Some(host) = wires(&[], None) else { return };
    inside(&host.path(End::Client), test);
}

fn addresses(addrs: &[&str]) -> Vec<SocketAddr> {
    addrs.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect()
}

fn raw(addrs: &[&str]) -> Endpoint {
    Endpoint::bind(Bind { carrier: Carrier::Ip, ..Bind::to(addresses(addrs)) }).unwrap()
}

fn connect(peers: &[&str], port: u16, profile: Profile) -> Connect {
    let config = Arc::new(profile.config());
    Connect { local: vec![], peer: addresses(peers), source_port: None, destination_port: port, config }
}

async fn both_ways(client_at: &[&str], server_at: &[&str], port: u16, profile: Profile) {
    let (client_end, server_end) = (raw(client_at), raw(server_at));
    let listener = server_end.listen(port, Arc::new(profile.config())).unwrap();
    let reachable = |&at| match at {
        "0.0.0.0" => "127.0.0.99",
        "::" => "::1",
        bound => bound,
    };
    let known: Vec<&str> = server_at.iter().map(reachable).collect();
    let client = client_end.connect(connect(&known, port, profile)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    let sends = [&client, &server].map(|end| tokio::spawn(send_all(end.clone(), 1, TOTAL, 50_000)));
    let receives = [&server, &client].map(|end| tokio::spawn(receive_all(end.clone(), 1, TOTAL)));
    for task in sends.into_iter().chain(receives) {
        soon(task).await.unwrap();
    }
    let path = client.stats().paths[0].clone();
    assert_eq!(path.peer, SocketAddr::new(known[0].parse().unwrap(), 0));
    // A batch with another source address would be lost as a whole, and its chunks sent again one by one.
    assert!(path.retransmitted_chunks < path.packets_sent / 4, "{path:?}");
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
    assert_eq!(soon(server.closed()).await, Reason::Shutdown);
}

#[test]
fn over_ipv4_both_ways() {
    alone(both_ways(&["127.0.0.1"], &["127.0.0.2"], PORT, Profile::Modern));
}

#[test]
fn over_ipv6_both_ways() {
    alone(async {
        if has_ipv6_loopback() {
            both_ways(&["::1"], &["::1"], PORT, Profile::Modern).await;
        }
    });
}

#[test]
fn stacks_sharing_an_address_do_not_end_each_others_associations() {
    alone(async {
        let (one, other, both) = (["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]);
        tokio::join!(
            both_ways(&one, &one, PORT + 1, Profile::Modern),
            both_ways(&one, &both, PORT + 2, Profile::Rfc9260),
            both_ways(&other, &one, PORT + 3, Profile::Modern),
        );
    });
}

#[test]
fn a_wildcard_sends_from_the_address_that_was_asked() {
    alone(async {
        both_ways(&["127.0.0.1"], &["0.0.0.0"], PORT, Profile::Modern).await;
        both_ways(&["0.0.0.0"], &["127.0.0.1"], PORT, Profile::Modern).await;
        if has_ipv6_loopback() {
            both_ways(&["::1"], &["::"], PORT, Profile::Modern).await;
            both_ways(&["::"], &["::1"], PORT, Profile::Modern).await;
        }
    });
}

#[test]
fn with_other_stacks_a_port_without_a_listener_is_not_answered() {
    alone(async {
        let (client_end, _server_end) = (raw(&["127.0.0.1"]), raw(&["127.0.0.2"]));
        let client = client_end.connect(connect(&["127.0.0.2"], PORT, Profile::Modern)).unwrap();
        let up = tokio::time::timeout(Duration::from_millis(300), client.up()).await;
        assert!(up.is_err(), "no ABORT: {up:?}");
    });
}

#[test]
fn ipv4_and_ipv6_addresses_mix() {
    alone(async {
        if !has_ipv6_loopback() {
            return;
        }
        let (client_end, server_end) = (raw(&["127.0.0.1", "::1"]), raw(&["127.0.0.2", "::1"]));
        let listener = server_end.listen(PORT, Arc::new(Profile::Modern.config())).unwrap();
        let client = client_end.connect(connect(&["127.0.0.2", "::1"], PORT, Profile::Modern)).unwrap();
        let server = soon(listener.accept()).await.unwrap();
        let sender = tokio::spawn(send_all(client.clone(), 0, TOTAL, 50_000));
        soon(receive_all(server.clone(), 0, TOTAL)).await;
        sender.await.unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let paths: Vec<_> =
            client.stats().paths.iter().map(|path| (path.local.ip(), path.peer.ip(), path.state)).collect();
        let expected = [
            (ip("127.0.0.1"), ip("127.0.0.2"), PathState::Active),
            (ip("::1"), ip("::1"), PathState::Active),
        ];
        assert_eq!(paths, expected);
    });
}

#[test]
fn an_address_that_is_not_local_is_reported() {
    alone(async {
        let bind = Bind { carrier: Carrier::Ip, ..Bind::to(["192.0.2.1:0".parse().unwrap()]) };
        let error = Endpoint::bind(bind).unwrap_err().to_string();
        assert!(error.contains("192.0.2.1") && error.contains("ip addr"), "{error}");
    });
}
