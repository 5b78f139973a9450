//! Several addresses on real sockets: one socket each, paths found automatically, and data on the selected path.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PORT, soon, to};
use braidftp_net::{
    AddressError, AllowedPath, Association, Bind, Endpoint, Message, NoSuchAddress, NoSuchPath, PathName,
    PathState, Ppid, Profile, StreamId,
};

const MESSAGE: usize = 100_000;

fn bind(addrs: &[&str]) -> Endpoint {
    Endpoint::bind(Bind::to(addrs.iter().map(|addr| addr.parse().unwrap()))).unwrap()
}

/// Returns the local and peer address of each path, once all are active.
async fn paths(association: &Association) -> Vec<(String, String)> {
    let active = async {
        while association.stats().paths.iter().any(|path| path.state != PathState::Active) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(active).await;
    let ip = |addr: SocketAddr| addr.ip().to_string();
    association.stats().paths.iter().map(|path| (ip(path.local), ip(path.peer))).collect()
}

fn bytes_sent(association: &Association) -> Vec<u64> {
    association.stats().paths.iter().map(|path| path.bytes_sent).collect()
}

async fn carry(from: &Association, to: &Association) {
    from.send(StreamId(0), Message::new(Ppid(0), vec![7; MESSAGE])).await.unwrap();
    let mut len = 0;
    while len < MESSAGE {
        len += soon(to.recv(StreamId(0))).await.unwrap().expect("it is not over").len();
    }
}

#[tokio::test]
async fn two_addresses_on_each_side_make_two_paths_and_data_takes_the_primary() {
    // Addresses that no other test uses, so that a port that is free at one is free at the other.
    let all = ["127.0.12.1:0", "127.0.12.2:0"];
    let (client_end, server_end) = (bind(&all), bind(&all));
    let ports: Vec<u16> = client_end.local_addrs().iter().map(SocketAddr::port).collect();
    assert_eq!(ports[0], ports[1], "one port for all, unless another has it");
    // A short stall of the machine must not look like a loss, after which data would use the other path.
    let mut config = Profile::Modern.config();
    config.timers.rto.min = Duration::from_secs(30);
    config.timers.rto.initial = Duration::from_secs(30);
    let config = Arc::new(config);
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    assert_eq!(client.set_primary(client.paths()[0]), Err(NoSuchPath), "it is not up");
    let server = soon(listener.accept()).await.unwrap();
    let expected = ["127.0.12.1", "127.0.12.2"].map(|ip| (ip.to_owned(), ip.to_owned()));
    assert_eq!([paths(&client).await, paths(&server).await], [expected.clone(), expected]);
    for primary in [0, 1, 0] {
        client.set_primary(client.paths()[primary]).unwrap();
        let before = [bytes_sent(&client), bytes_sent(&server)];
        carry(&client, &server).await;
        let after = [bytes_sent(&client), bytes_sent(&server)];
        let (used, other) = (primary, 1 - primary);
        assert!(after[0][used] >= before[0][used] + MESSAGE as u64);
        assert!(after[0][other] < before[0][other] + 500, "but for HEARTBEATs");
        assert!(after[1][used] > before[1][used], "SACKs come by the path of the data");
    }
    let nowhere = PathName { peer: "127.0.12.3:9".parse().unwrap(), ..client.paths()[0] };
    assert_eq!(client.set_primary(nowhere), Err(NoSuchPath));
}

#[tokio::test]
async fn one_server_address_is_enough_to_learn_the_others() {
    let (client_end, server_end) = (bind(&["127.0.0.1:0"]), bind(&["127.0.0.2:0", "127.0.0.3:0"]));
    let config = Arc::new(Profile::Modern.config());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let mut connect = to(&server_end, &config);
    connect.peer.truncate(1);
    let client = client_end.connect(connect).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    let expected = [("127.0.0.1", "127.0.0.2"), ("127.0.0.1", "127.0.0.3")]
        .map(|(local, peer)| (local.to_owned(), peer.to_owned()));
    assert_eq!(paths(&client).await, expected);
    assert_eq!(paths(&server).await.len(), 2);
}

#[tokio::test]
async fn only_paths_that_are_allowed_are_used() {
    let (client_end, server_end) =
        (bind(&["127.0.0.1:0", "127.0.0.2:0"]), bind(&["127.0.0.1:0", "127.0.0.2:0"]));
    let allowed =
        AllowedPath { local: [127, 0, 0, 2].into(), peer: Some(std::net::IpAddr::from([127, 0, 0, 1])) };
    let mut config = Profile::Modern.config();
    let listener = server_end.listen(PORT, Arc::new(config.clone())).unwrap();
    config.paths.allowed = vec![allowed];
    let client = client_end.connect(to(&server_end, &Arc::new(config))).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    soon(client.up()).await.unwrap();
    assert_eq!(paths(&client).await, [("127.0.0.2".to_owned(), "127.0.0.1".to_owned())]);
    carry(&client, &server).await;
}

/// Returns the paths, once there are this many and all are active.
async fn ways(association: &Association, count: usize) -> Vec<(String, String)> {
    let there = || {
        let paths = association.stats().paths;
        let mut there = paths.into_iter().filter(|path| path.state != PathState::Removed).collect::<Vec<_>>();
        there.sort_by_key(|path| (path.local, path.peer));
        there
    };
    let settled = async {
        while there().len() != count || there().iter().any(|path| path.state != PathState::Active) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(settled).await;
    there().iter().map(|path| (path.local.ip().to_string(), path.peer.ip().to_string())).collect()
}

#[tokio::test]
async fn an_endpoint_gains_an_address_and_loses_another_while_it_talks() {
    // No other test uses the second address: its port is free.
    let (client_end, server_end) = (bind(&["127.0.0.1:0"]), bind(&["127.0.0.1:0"]));
    let config = Arc::new(Profile::Modern.config().with(|c| c.paths.asconf = true));
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    soon(client.up()).await.unwrap();
    let first = client_end.local_addrs()[0];
    assert_eq!(client_end.remove_address(first), Err(NoSuchAddress), "it has no other");
    let added = client_end.add_address("127.0.13.2:0".parse().unwrap()).unwrap();
    assert_eq!((added.port(), client_end.local_addrs()), (first.port(), vec![first, added]));
    let both = ["127.0.0.1", "127.0.13.2"].map(|ip| (ip.to_owned(), "127.0.0.1".to_owned()));
    assert_eq!(ways(&client, 2).await, both);
    carry(&client, &server).await;
    client_end.remove_address(first).unwrap();
    assert_eq!(ways(&client, 1).await, [both[1].clone()]);
    assert_eq!(ways(&server, 1).await, [("127.0.0.1".to_owned(), "127.0.13.2".to_owned())]);
    carry(&client, &server).await;
    carry(&server, &client).await;
    // Its port is free again.
    let freed = async {
        while std::net::UdpSocket::bind(first).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(freed).await;
    client.set_peer_primary(added).unwrap();
    assert_eq!(client.add_address(added), Err(AddressError::InUse));
    assert_eq!(soon(client.shutdown()).await, braidftp_net::Reason::Shutdown);
}
