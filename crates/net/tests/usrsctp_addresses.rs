//! Tests against usrsctp: authenticated chunks (RFC 4895) over UDP on this host; on separate hosts, added and deleted addresses
//! (RFC 5061) over IP, requested by either side, and an answer from another address than the destination.

mod common;
mod usrsctp_support;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braidftp_emu::wires::{Cut, End, Wire};
use braidftp_net::sctp::{AuthConfig, HmacId, SharedKey};
use braidftp_net::{Carrier, Config, PathState, PathStats, Profile, Reason};
use usrsctp_support::{Ends, Load, Role, Session, block_on, here, inside, on_server, open, wires};

const SOON: Duration = common::PATIENCE;
const LIGHT: Load = Load { each_way: 1_000_000, streams: 2, message: 20_000, patience: SOON };
const HEAVY: Load = Load { each_way: 20_000_000, streams: 2, message: 20_000, patience: SOON };
const BOTH: [Role; 2] = [Role::WeConnect, Role::TheyConnect];

/// The chunk types to authenticate: DATA, SACK, HEARTBEAT, COOKIE ECHO and COOKIE ACK.
const WANTED: [u8; 5] = [0, 3, 4, 10, 11];

fn free() -> SocketAddr {
    ([127, 0, 0, 1], common::free_port()).into()
}

fn auth(keys: Vec<SharedKey>, hmacs: Vec<HmacId>) -> Config {
    let active_key = keys.first().map_or(0, |key| key.id);
    let auth = AuthConfig { chunks: WANTED.to_vec(), hmacs, keys, active_key };
    Profile::Modern.config().with(|c| c.security.auth = Some(auth))
}

/// usrsctp supports SHA-1, and SHA-256 depending on its build.
#[test]
fn chunks_listed_by_either_side_are_authenticated_with_the_same_keys() {
    let secret = || vec![SharedKey { id: 1, secret: "a secret of both".into() }];
    for role in BOTH {
        for (keys, options) in [
            (vec![], &["auth=1", "data_auth=1"][..]),
            (secret(), &["auth=1", "data_auth=1", "key=a secret of both"]),
        ] {
            for hmacs in [HmacId::ALL.to_vec(), vec![HmacId::Sha1]] {
                let ends = Ends::udp(free(), free());
                block_on(async {
                    let opened = open(&ends, role, auth(keys.clone(), hmacs), options, here).await;
                    let Some(mut session) = opened else { return };
                    session.exchange(LIGHT).await;
                    let end = tokio::time::timeout(SOON, session.association.shutdown()).await;
                    assert_eq!(end, Ok(Reason::Shutdown), "{role:?} {options:?}");
                });
            }
        }
    }
}

/// Over UDP the packets of usrsctp leave from the address that routing picks, whichever of its own was asked.
#[test]
fn an_answer_from_another_address_than_was_asked() {
    let [one, two] = [Wire::v4(1), Wire::v4(2)];
    let Some(net) = wires(&[one, two], None) else { return };
    // We have the first wire alone, and the server's other address is behind it.
    net.cut(1, Cut::Down(End::Client)).unwrap();
    let (there, gate) = (two.server.to_string(), one.server.to_string());
    let routed = net.command(End::Client, "ip").args(["route", "add", &there, "via", &gate]).status();
    assert!(routed.unwrap().success());
    let at = |ip| SocketAddr::new(ip, 9_899);
    let ends = Ends {
        carrier: Carrier::Udp,
        ours: vec![at(one.client)],
        theirs: vec![at(one.server), at(two.server)],
        by: Some(at(two.server)),
        their_way: None,
    };
    inside(&net.path(End::Client), async {
        let opened = open(&ends, Role::WeConnect, Profile::Modern.config(), &[], on_server(&net)).await;
        let Some(mut session) = opened else { return };
        let asked = session.association.peer_addr();
        session.exchange(LIGHT).await;
        assert_eq!(asked, Some(at(two.server)));
        settle(&session, &[(one.client, one.server), (one.client, two.server)]).await;
        let end = tokio::time::timeout(SOON, session.association.shutdown()).await;
        assert_eq!(end, Ok(Reason::Shutdown));
    });
}

/// Waits until exactly these paths exist and are active.
async fn settle(session: &Session, expected: &[(IpAddr, IpAddr)]) {
    let settled = settled(session, expected, SOON).await;
    assert!(settled.is_ok(), "{} and not {expected:?}; {:?}", settled.unwrap_err(), session.peer.events);
}

/// The same within a time; else the error is what exists.
async fn settled(session: &Session, expected: &[(IpAddr, IpAddr)], within: Duration) -> Result<(), String> {
    let there = || {
        let mut there = session.paths();
        there.retain(|path| path.2 != PathState::Removed);
        there.sort_by_key(|(ours, theirs, _)| (*ours, *theirs));
        there
    };
    let expected: Vec<_> =
        expected.iter().map(|(ours, theirs)| (*ours, *theirs, PathState::Active)).collect();
    let settled = async {
        while there() != expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(within, settled).await.map_err(|_| format!("{:?}", there()))
}

/// One address is added and the other deleted while data flows in both directions; no data is lost.
#[test]
fn our_addresses_come_and_go() {
    let between = [Wire::v4(1), Wire::v4(2)];
    let [one, two] = between;
    for role in BOTH {
        let Some(net) = wires(&between, None) else { return };
        let mut ends = Ends::raw(&between);
        let second = ends.ours.pop().unwrap();
        inside(&net.path(End::Client), async {
            let config = Profile::Modern.config().with(|c| c.paths.asconf = true);
            let opened = open(&ends, role, config, &["asconf=1"], on_server(&net)).await;
            let Some(mut session) = opened else { return };
            let (endpoint, association) = (session.endpoint.clone(), session.association.clone());
            let until = async |so: &(dyn Fn(&PathStats) -> bool + Sync)| {
                while !association.stats().paths.iter().any(so) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let changes = async {
                until(&|path| path.bytes_received > 1_000_000).await;
                endpoint.add_address(second).unwrap();
                until(&|path| path.local.ip() == second.ip() && path.state == PathState::Active).await;
                endpoint.remove_address(ends.ours[0]).unwrap();
            };
            let changes = async { tokio::time::timeout(SOON, changes).await.expect("it is never active") };
            tokio::join!(session.exchange(HEAVY), changes);
            settle(&session, &[(two.client, one.server), (two.client, two.server)]).await;
            let end = tokio::time::timeout(SOON, session.association.shutdown()).await;
            assert_eq!(end, Ok(Reason::Shutdown), "{role:?}");
        });
    }
}

/// The same by usrsctp, as the passive side: as the active side it is bound to a port that the test cannot name.
#[test]
fn addresses_of_usrsctp_come_and_go() {
    let between = [Wire::v4(1), Wire::v4(2)];
    let [one, two] = between;
    let Some(net) = wires(&between, None) else { return };
    let ends = Ends::raw(&between);
    let theirs = Ends { theirs: ends.theirs[..1].to_vec(), ..ends.clone() };
    inside(&net.path(End::Client), async {
        let config = Profile::Modern.config().with(|c| c.paths.asconf = true);
        let all = [(one.client, one.server), (two.client, one.server), (two.client, two.server)];
        let mut tries = 0;
        let mut session = loop {
            let opened = open(&theirs, Role::WeConnect, config.clone(), &["asconf=1"], on_server(&net)).await;
            let Some(mut session) = opened else { return };
            session.peer.tell(&format!("add {}", two.server), SOON).await;
            // Twice, in full test runs, usrsctp confirmed the command and no address arrived; why is not known.
            let Err(there) = settled(&session, &all, SOON / 10).await else { break session };
            tries += 1;
            assert!(tries < 5, "{there} and not {all:?}; {:?}", session.peer.events);
            println!("usrsctp's address did not arrive: tried again");
            session.association.abort("no address arrives");
        };
        session.peer.tell(&format!("peer-primary {}", two.server), SOON).await;
        session.exchange(LIGHT).await;
        let stats = session.association.stats().paths;
        let sent: u64 = stats.iter().filter(|it| it.peer.ip() == two.server).map(|it| it.bytes_sent).sum();
        assert!(sent > LIGHT.each_way as u64, "{sent} bytes by the path that it prefers");
        session.peer.tell(&format!("del {}", one.server), SOON).await;
        settle(&session, &[(one.client, two.server), (two.client, two.server)]).await;
        let end = tokio::time::timeout(SOON, session.association.shutdown()).await;
        assert_eq!(end, Ok(Reason::Shutdown));
    });
}
