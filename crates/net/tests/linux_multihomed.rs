//! Tests against the SCTP of the Linux kernel (see `linux_kernel.rs`) with two addresses on each side: a path that fails and is
//! restored, and addresses added and deleted by either side.

mod common;
mod linux_support;
mod usrsctp_support;

use std::net::IpAddr;
use std::time::Duration;

use braidftp_emu::wires::Wire;
use braidftp_net::{Carrier, PathState, Profile};
use linux_support::{BOTH, LIGHT, SOON, Taps, they_shut_down, we_shut_down, with_kernel};
use usrsctp_support::{Ends, Load, Role, Session};

fn pairs() -> [[Wire; 2]; 3] {
    [[Wire::v4(1), Wire::v4(2)], [Wire::v6(1), Wire::v6(2)], [Wire::v4(1), Wire::v6(2)]]
}

/// Uses all of these wires; over UDP each side has one port.
fn ends(carrier: Carrier, between: &[Wire]) -> Ends {
    let each: Vec<Ends> = between.iter().map(|wire| linux_support::ends(carrier, *wire)).collect();
    let mut all = each[0].clone();
    for one in &each[1..] {
        all.ours.extend(
            one.ours
                .iter()
                .map(|addr| (addr.ip(), all.ours[0].port()).into())
                .collect::<Vec<std::net::SocketAddr>>(),
        );
        all.theirs.extend(&one.theirs);
    }
    all
}

/// Waits until exactly these paths exist and are active.
async fn settle(session: &Session, expected: &[(IpAddr, IpAddr)]) {
    let there = || {
        let mut there = session.paths();
        there.retain(|path| path.2 != PathState::Removed);
        there.sort_by_key(|(ours, theirs, _)| (*ours, *theirs));
        there
    };
    let expected: Vec<_> =
        expected.iter().map(|(ours, theirs)| (*ours, *theirs, PathState::Active)).collect();
    let settled = async {
        while !expected.iter().all(|path| there().contains(path)) || there().len() < expected.len() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, settled).await;
    assert!(in_time.is_ok(), "{:?} and not {expected:?}; {:?}", there(), session.peer.events);
}

/// Waits until the kernel has confirmed both addresses of this side.
async fn confirmed(session: &mut Session) {
    for _ in 0..600 {
        let theirs = session.peer.tell("paths", SOON).await;
        if theirs.matches("=active").count() == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the kernel does not confirm an address");
}

fn both(between: &[Wire; 2]) -> [(IpAddr, IpAddr); 2] {
    between.map(|wire| (wire.client, wire.server))
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn two_addresses_make_two_paths_that_both_sides_confirm() {
    for between in pairs() {
        with_kernel(&between, async |_, machine| {
            for carrier in [Carrier::Ip, Carrier::Udp] {
                for role in BOTH {
                    for profile in [Profile::Modern, Profile::Rfc9260] {
                        eprintln!("{between:?} {carrier:?} {role:?} {profile:?}");
                        let ends = ends(carrier, &between);
                        let mut session = machine.open(&ends, role, profile.config(), &[]).await;
                        session.exchange(LIGHT).await;
                        settle(&session, &both(&between)).await;
                        confirmed(&mut session).await;
                        if role == Role::WeConnect {
                            we_shut_down(&mut session).await;
                        } else {
                            they_shut_down(&mut session).await;
                        }
                        machine.end(session).await;
                    }
                }
            }
        });
    }
}

/// Each path in turn is cut while data flows in both directions, once the other is active.
async fn survives(net: &Taps, session: &mut Session, between: &[Wire; 2], each_way: usize) {
    let load = Load { each_way, streams: 4, message: 20_000, patience: Duration::from_secs(300) };
    let association = session.association.clone();
    for n in [0, 1] {
        settle(session, &both(between)).await;
        confirmed(session).await;
        // At a number of bytes, not at a time.
        let before = association.stats().messages_received;
        let part = async |part: usize| {
            let enough = before + (each_way / 20_000 * part / 3) as u64;
            while association.stats().messages_received < enough {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let deeds = async {
            part(1).await;
            net.cut(n);
            part(2).await;
        };
        tokio::join!(session.exchange(load), deeds);
        if n == 0 {
            net.mend(n);
        }
    }
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn a_path_failure_and_recovery_loses_no_byte() {
    for between in [pairs()[0], pairs()[2]] {
        for (role, carrier) in BOTH.into_iter().flat_map(|role| [(role, Carrier::Ip), (role, Carrier::Udp)]) {
            with_kernel(&between, async |net, machine| {
                let mut config = Profile::Modern.config();
                config.timers.heartbeat_interval = Some(Duration::from_millis(500));
                let options = ["heartbeat=500", "rto_min=200", "path_max=2"];
                eprintln!("{role:?} {carrier:?} {between:?}");
                let ends = ends(carrier, &between);
                let mut session = machine.open(&ends, role, config, &options).await;
                survives(net, &mut session, &between, 20_000_000).await;
                we_shut_down(&mut session).await;
                machine.end(session).await;
            });
        }
    }
}

/// One address is added and the other deleted while data flows in both directions; no data is lost.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn our_addresses_come_and_go() {
    for between in [pairs()[0], pairs()[1]] {
        let [one, two] = between;
        with_kernel(&between, async |_, machine| {
            for role in BOTH {
                let mut ends = ends(Carrier::Ip, &between);
                let second = ends.ours.pop().unwrap();
                let config = Profile::Modern.config().with(|c| c.paths.asconf = true);
                let mut session = machine.open(&ends, role, config, &["asconf=1", "auth=1"]).await;
                let endpoint = session.endpoint.clone();
                let association = session.association.clone();
                let load = Load { each_way: 10_000_000, ..LIGHT };
                let changes = async {
                    // At a number of bytes, not at a time.
                    let part = async |part: usize| {
                        let enough = (load.each_way / load.message * part / 3) as u64;
                        while association.stats().messages_received < enough {
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                    };
                    part(1).await;
                    endpoint.add_address(second).unwrap();
                    let added = async {
                        let is_it = |it: &braidftp_net::PathStats| {
                            it.local.ip() == two.client && it.state == PathState::Active
                        };
                        while !association.stats().paths.iter().any(is_it) {
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    };
                    tokio::time::timeout(SOON, added).await.expect("the address is not taken");
                    association.set_peer_primary(second).unwrap();
                    part(2).await;
                    endpoint.remove_address(ends.ours[0]).unwrap();
                };
                tokio::join!(session.exchange(load), changes);
                settle(&session, &[(two.client, two.server)]).await;
                let gone = async {
                    while session
                        .paths()
                        .iter()
                        .any(|(ours, _, state)| *ours == one.client && *state != PathState::Removed)
                    {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                tokio::time::timeout(SOON, gone).await.expect("the address is still there");
                we_shut_down(&mut session).await;
                machine.end(session).await;
            }
        });
    }
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn addresses_of_the_kernel_come_and_go() {
    for between in [pairs()[0], pairs()[1]] {
        let [one, two] = between;
        with_kernel(&between, async |_, machine| {
            for role in BOTH {
                let ends = ends(Carrier::Ip, &between);
                let theirs = Ends { theirs: ends.theirs[..1].to_vec(), ..ends.clone() };
                let config = Profile::Modern.config().with(|c| {
                    c.paths.asconf = true;
                    c.streams.outbound = 64;
                });
                let mut session = machine.open(&theirs, role, config, &["asconf=1", "auth=1"]).await;
                session.exchange(LIGHT).await;
                session.peer.tell(&format!("add {}", two.server), SOON).await;
                settle(&session, &[(two.client, two.server)]).await;
                session.peer.tell(&format!("peer-primary {}", two.server), SOON).await;
                // Until the kernel has sent the request and received the answer.
                tokio::time::sleep(Duration::from_secs(1)).await;
                session.exchange(LIGHT).await;
                let stats = session.association.stats().paths;
                let sent: u64 =
                    stats.iter().filter(|it| it.peer.ip() == two.server).map(|it| it.bytes_sent).sum();
                assert!(sent > LIGHT.each_way as u64, "{sent} bytes by the path that it prefers");
                session.peer.tell(&format!("del {}", one.server), SOON).await;
                let gone = async {
                    while session
                        .paths()
                        .iter()
                        .any(|(_, theirs, state)| *theirs == one.server && *state != PathState::Removed)
                    {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                tokio::time::timeout(SOON, gone).await.expect("the address is still there");
                session.exchange(LIGHT).await;
                we_shut_down(&mut session).await;
                machine.end(session).await;
            }
        });
    }
}
