//! Tests against the SCTP of the Linux kernel, which a user-mode Linux runs at the other end of TAP devices: each side as
//! client and as server, over IP and over UDP, data in both directions, the events of an association, and every way to end one.
//! They need root, and seconds to boot, so only `cargo xtask test interop` runs them.

mod common;
mod linux_support;
mod usrsctp_support;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_emu::wires::Wire;
use braidftp_net::{
    Association, Carrier, Config, Connect, Message, Order, Ppid, Profile, Reason, SendError, Stats, StreamId,
};
use common::{PORT, content, receive_all, send_all};
use linux_support::{BOTH, LIGHT, SOON, ends, they_shut_down, we_shut_down, with_kernel, with_kernel_behind};
use usrsctp_support::{Load, Role, Session};

const ONE: Wire =
    Wire { client: IpAddr::V4(Ipv4Addr::new(10, 1, 1, 2)), server: IpAddr::V4(Ipv4Addr::new(10, 1, 1, 1)) };

fn modern() -> Config {
    Profile::Modern.config()
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn each_carrier_and_family_with_each_profile_both_ways() {
    for wire in [Wire::v4(1), Wire::v6(1)] {
        with_kernel(&[wire], async |_, machine| {
            for carrier in [Carrier::Udp, Carrier::Ip] {
                for role in BOTH {
                    for profile in [Profile::Modern, Profile::Rfc9260] {
                        for style in ["style=one", "style=many"] {
                            eprintln!("{wire:?} {carrier:?} {role:?} {profile:?} {style}");
                            let mut session =
                                machine.over(carrier, wire, role, profile.config(), &[style]).await;
                            session.exchange(LIGHT).await;
                            match profile {
                                Profile::Modern => we_shut_down(&mut session).await,
                                _ => they_shut_down(&mut session).await,
                            }
                            machine.end(session).await;
                        }
                    }
                }
            }
        });
    }
}

/// Waits until the statistics of this side satisfy `is_so`.
async fn until(association: &Association, is_so: impl Fn(&Stats) -> bool) {
    let so = async {
        while !is_so(&association.stats()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, so).await.unwrap_or_else(|_| panic!("{:?}", association.stats()));
}

/// Returns why the association ended on this side.
async fn end_of(association: &Association) -> Reason {
    tokio::time::timeout(SOON, association.closed()).await.expect("it does not end")
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn every_kind_of_end() {
    with_kernel(&[ONE], async |_, machine| {
        for (carrier, role) in BOTH.into_iter().flat_map(|role| [(Carrier::Ip, role), (Carrier::Udp, role)]) {
            // An ABORT of this side, and one of the kernel with a reason.
            let mut session = machine.over(carrier, ONE, role, modern(), &[]).await;
            session.exchange(LIGHT).await;
            session.association.abort("enough");
            assert_eq!(session.peer.tell("wait", SOON).await, "lost");
            // User-Initiated Abort.
            session.peer.event("lost 12", SOON).await;
            machine.end(session).await;

            let mut session = machine.over(carrier, ONE, role, modern(), &["style=many"]).await;
            session.peer.event("event up", SOON).await;
            session.peer.tell("abort it is late", SOON).await;
            let end = end_of(&session.association).await;
            assert_eq!(end.peer_abort_reason().map(|words| &words[..]), Some(&b"it is late"[..]), "{end:?}");
            machine.end(session).await;

            // SO_LINGER of 0 seconds aborts without a reason.
            let mut session = machine.over(carrier, ONE, role, modern(), &[]).await;
            session.peer.event("event up", SOON).await;
            session.peer.tell("linger", SOON).await;
            let end = end_of(&session.association).await;
            assert!(matches!(end, Reason::PeerAborted(_)), "{end:?}");
            machine.end(session).await;

            // Data in flight when one side shuts down still arrives; later data is refused.
            let total = 1_000_000;
            let mut session = machine.over(carrier, ONE, role, modern(), &[]).await;
            session.peer.event("event up", SOON).await;
            let sending = tokio::spawn(send_all(session.association.clone(), 3, total, 50_000));
            session.peer.tell(&format!("send 2 {total} 50000"), SOON).await;
            session.peer.tell("shutdown", SOON).await;
            let received = receive_all(session.association.clone(), 2, total);
            tokio::time::timeout(SOON, received).await.unwrap();
            let _ = sending.await;
            assert_eq!(end_of(&session.association).await, Reason::Shutdown);
            assert_eq!(session.peer.tell("wait", SOON).await, "shutdown");
            machine.end(session).await;

            let mut session = machine.over(carrier, ONE, role, modern(), &[]).await;
            session.peer.event("event up", SOON).await;
            send_all(session.association.clone(), 3, total, 50_000).await;
            session.association.start_shutdown();
            let late = Message::new(Ppid(7), vec![0; 100]);
            let refused = session.association.send(StreamId(3), late).await;
            assert!(matches!(refused, Err(SendError::ShuttingDown | SendError::Closed(_))), "{refused:?}");
            assert_eq!(session.peer.tell(&format!("expect {total}"), SOON).await, total.to_string());
            assert_eq!(session.peer.tell("wait", SOON).await, "shutdown");
            assert_eq!(end_of(&session.association).await, Reason::Shutdown);
            machine.end(session).await;
        }
        // The kernel closes an idle association.
        let options = ["style=many", "autoclose=1"];
        for role in BOTH {
            let mut session = machine.over(Carrier::Ip, ONE, role, modern(), &options).await;
            session.exchange(LIGHT).await;
            assert_eq!(end_of(&session.association).await, Reason::Shutdown);
            assert_eq!(session.peer.tell("wait", SOON).await, "shutdown");
            machine.end(session).await;
        }
    });
}

/// Nobody listens on the port: an ABORT, or an ICMP message, reports it at once.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn a_port_where_nobody_listens() {
    with_kernel(&[ONE], async |_, machine| {
        for (udp, carrier) in [("0", Carrier::Ip), ("9899", Carrier::Udp)] {
            let ends = ends(carrier, ONE);
            let options = [format!("local={}", ONE.server), format!("udp={udp}"), format!("peer_udp={udp}")];
            let peer = machine.begin("listen", &options).await;
            let endpoint = ends.bind();
            let connect = Connect {
                local: vec![],
                peer: ends.theirs.clone(),
                source_port: None,
                destination_port: PORT + 1,
                config: Arc::new(modern()),
            };
            let nobody = endpoint.connect(connect.clone()).unwrap();
            let up = tokio::time::timeout(SOON, nobody.up()).await.unwrap();
            assert!(matches!(up, Err(Reason::PeerAborted(_))), "{up:?}");
            // It waits for a client.
            let somebody = endpoint.connect(Connect { destination_port: PORT, ..connect }).unwrap();
            tokio::time::timeout(SOON, somebody.up()).await.unwrap().unwrap();
            somebody.abort("enough");
            machine.back(peer).await;
        }
    });
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn messages_keep_their_boundaries_whatever_their_length() {
    const LENGTHS: [usize; 13] =
        [1, 3, 4, 500, 1_403, 1_404, 1_408, 1_436, 1_452, 1_500, 20_001, 65_536, 300_000];
    with_kernel(&[ONE], async |_, machine| {
        for (carrier, role) in BOTH.into_iter().flat_map(|role| [(Carrier::Ip, role), (Carrier::Udp, role)]) {
            for config in [modern(), Config::default()] {
                let mut session = machine.over(carrier, ONE, role, config, &[]).await;
                session.peer.event("event up", SOON).await;
                let mut at = 0;
                for (n, len) in LENGTHS.into_iter().enumerate() {
                    let order = if n % 3 == 2 { Order::Unordered } else { Order::Ordered };
                    let bytes = content(1, at, len);
                    // Bytes of an unordered message may be overtaken: they are only counted.
                    let message = Message { order, ..Message::new(Ppid(8), bytes) };
                    session.association.send(StreamId(1), message).await.unwrap();
                    session.peer.tell(&format!("messages {}", n + 1), SOON).await;
                    at += len;
                }
                let told = session.peer.tell("lengths", SOON).await;
                assert_eq!(told, LENGTHS.map(|len| len.to_string()).join(" "));

                let mut at = 0;
                for (n, len) in LENGTHS.into_iter().enumerate() {
                    let order = if n % 3 == 2 { "unordered" } else { "" };
                    session.peer.tell(&format!("send 1 {len} {len} {order}"), SOON).await;
                    let (mut got, mut is_whole) = (0, false);
                    while !is_whole {
                        let piece = session.association.recv(StreamId(1));
                        let piece = tokio::time::timeout(SOON, piece).await.unwrap().unwrap().unwrap();
                        assert_eq!(piece.begin, got == 0);
                        assert_eq!(piece.order == Order::Unordered, !order.is_empty());
                        is_whole = piece.end;
                        for bytes in piece.payload {
                            assert!(bytes == content(1, at + got, bytes.len()), "other bytes near {at}");
                            got += bytes.len();
                        }
                    }
                    assert_eq!(got, len);
                    at += len;
                }
                we_shut_down(&mut session).await;
                machine.end(session).await;
            }
        }
    });
}

/// More streams than fit in a small table, and messages longer than either receive buffer.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn many_streams_and_messages_beyond_the_buffers() {
    with_kernel(&[ONE], async |_, machine| {
        for role in BOTH {
            let config = modern().with(|c| {
                c.streams.outbound = 1_000;
                c.streams.inbound = 1_000;
            });
            let mut session = machine.over(Carrier::Ip, ONE, role, config, &["streams=1000"]).await;
            session.exchange(Load { streams: 900, message: 700, ..LIGHT }).await;
            we_shut_down(&mut session).await;
            machine.end(session).await;

            let config = modern().with(|c| c.memory.receive_buffer_bytes = 100_000);
            let mut session = machine.over(Carrier::Ip, ONE, role, config, &["buffer=200000"]).await;
            // The kernel accepts no message longer than its send buffer.
            let theirs = 150_000 * 8;
            let ours = tokio::spawn(receive_all(session.association.clone(), 1, theirs));
            session.peer.tell(&format!("send 1 {theirs} 150000"), SOON).await;
            tokio::time::timeout(SOON, ours).await.unwrap().unwrap();
            tokio::time::timeout(SOON, send_all(session.association.clone(), 1, 5_000_000, 2_500_000))
                .await
                .unwrap();
            session.peer.tell("expect 5000000", SOON).await;
            they_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}

/// Each side stops reading until the other's window is closed, then continues.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn a_window_shuts_and_opens() {
    const TOTAL: usize = 3_000_000;
    with_kernel(&[ONE], async |_, machine| {
        for (role, message) in [(Role::WeConnect, 1_000), (Role::TheyConnect, 30_000), (Role::WeConnect, 10)]
        {
            let total = TOTAL.min(message * 5_000);
            let config = modern().with(|c| c.memory.receive_buffer_bytes = 60_000);
            let mut session = machine.over(Carrier::Ip, ONE, role, config, &["buffer=60000"]).await;
            session.peer.event("event up", SOON).await;
            session.peer.tell("reading off", SOON).await;
            let sending = tokio::spawn(send_all(session.association.clone(), 1, total, message));
            until(&session.association, |stats| stats.peer_rwnd < 3_000).await;
            session.peer.tell("reading on", SOON).await;
            session.peer.tell(&format!("expect {total}"), SOON).await;
            tokio::time::timeout(SOON, sending).await.unwrap().unwrap();

            let association = session.association.clone();
            let late = tokio::spawn(async move {
                until(&association, |stats| stats.a_rwnd < 3_000).await;
                receive_all(association, 1, total).await;
            });
            session.peer.tell(&format!("send 1 {total} {message}"), SOON).await;
            tokio::time::timeout(SOON, late).await.unwrap().unwrap();
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn acknowledgements_early_and_late() {
    with_kernel(&[ONE], async |_, machine| {
        let settings = [
            ["sack_delay=0", "sack_freq=1"],
            ["sack_delay=500", "sack_freq=2"],
            // Max.Burst permits four packets: more for each SACK would wait for the whole delay each time.
            ["sack_delay=500", "sack_freq=4"],
        ];
        for (options, config) in settings.iter().flat_map(|it| [(it, modern()), (it, Config::default())]) {
            let mut session = machine.over(Carrier::Ip, ONE, Role::WeConnect, config, options).await;
            session.exchange(LIGHT).await;
            let paths = session.association.stats().paths;
            eprintln!("{options:?}: {} retransmissions", paths[0].retransmitted_chunks);
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
        for (sack_delay, sack_frequency) in [(0, 1), (400, 20)] {
            let config = modern().with(|c| {
                c.sack.delay = Duration::from_millis(sack_delay);
                c.sack.frequency = sack_frequency;
            });
            let mut session = machine.over(Carrier::Ip, ONE, Role::TheyConnect, config, &[]).await;
            session.exchange(LIGHT).await;
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}

/// Both sides connect at once, each from the port to which the other connects: one association, not two.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn both_sides_begin_at_once() {
    with_kernel(&[ONE], async |net, machine| {
        for carrier in [Carrier::Ip, Carrier::Udp] {
            for _ in 0..5 {
                let ends = ends(carrier, ONE);
                let config = Arc::new(modern());
                let endpoint = ends.bind();
                let listener = endpoint.listen(PORT, config.clone()).unwrap();
                // First both INITs are lost, so that each side has one outstanding.
                let options = ends.options(&["style=many", "also_listen=1", "from=5001"]);
                net.cut(0);
                let mut peer = machine.begin("connect", &options).await;
                let connect = Connect {
                    local: vec![],
                    peer: ends.theirs.clone(),
                    source_port: Some(PORT),
                    destination_port: PORT,
                    config,
                };
                let association = endpoint.connect(connect).unwrap();
                until(&association, |stats| stats.paths[0].packets_sent > 0).await;
                net.mend(0);
                tokio::time::timeout(SOON, association.up()).await.unwrap().unwrap();
                peer.event("event up", SOON).await;
                peer.tell("send 1 200000 10000", SOON).await;
                let all = receive_all(association.clone(), 1, 200_000);
                tokio::time::timeout(SOON, all).await.unwrap();
                send_all(association.clone(), 1, 200_000, 10_000).await;
                peer.tell("expect 200000", SOON).await;
                let more = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
                assert!(more.is_err(), "another association");
                assert_eq!(tokio::time::timeout(SOON, association.shutdown()).await, Ok(Reason::Shutdown));
                machine.back(peer).await;
            }
        }
    });
}

/// One side loses its state and connects again from the same port.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn either_side_restarts() {
    with_kernel(&[ONE], async |net, machine| {
        for carrier in [Carrier::Ip, Carrier::Udp] {
            let ends = ends(carrier, ONE);
            let options = ["from=6000", "rto_min=200"];
            let mut session = machine.open(&ends, Role::TheyConnect, modern(), &options).await;
            let listener = session.endpoint.listen(PORT, Arc::new(modern())).unwrap();
            session.exchange(LIGHT).await;
            net.cut(0);
            session.peer.tell("linger", SOON).await;
            let Session { association, endpoint, peer, .. } = session;
            machine.back(peer).await;
            net.mend(0);
            let up = machine.try_connect(&ends.options(&options)).await;
            let end = tokio::time::timeout(SOON, association.closed()).await.unwrap();
            let mut peer = match (up, end) {
                // This side has an association with the previous instance: the association ends, and the next attempt is a new
                // one.
                (None, Reason::Aborted(_)) => {
                    let mut peer = machine.begin("connect", &ends.options(&options)).await;
                    peer.event("event up", SOON).await;
                    peer
                }
                // A HEARTBEAT of this side arrived before the INIT and was answered as out of the blue.
                (Some(peer), Reason::PeerAborted(_)) => peer,
                (up, end) => panic!("{end:?}, and it is up: {}", up.is_some()),
            };
            let anew = tokio::time::timeout(SOON, listener.accept()).await.unwrap().unwrap();
            peer.tell("send 1 200000 10000", SOON).await;
            let all = receive_all(anew.clone(), 1, 200_000);
            tokio::time::timeout(SOON, all).await.unwrap();
            send_all(anew.clone(), 1, 200_000, 10_000).await;
            peer.tell("expect 200000", SOON).await;
            assert_eq!(tokio::time::timeout(SOON, anew.shutdown()).await, Ok(Reason::Shutdown));
            machine.back(peer).await;
            drop((association, anew, listener, endpoint));
        }
        // This side restarts.
        let ends = ends(Carrier::Ip, ONE);
        let mut peer = machine.begin("listen", &ends.options(&[])).await;
        let connect = Connect {
            local: vec![],
            peer: ends.theirs.clone(),
            source_port: Some(7_000),
            destination_port: PORT,
            config: Arc::new(modern()),
        };
        let first = ends.bind();
        let before = first.connect(connect.clone()).unwrap();
        tokio::time::timeout(SOON, before.up()).await.unwrap().unwrap();
        peer.event("event up", SOON).await;
        send_all(before.clone(), 1, 200_000, 10_000).await;
        peer.tell("expect 200000", SOON).await;
        net.cut(0);
        before.abort("nobody hears it");
        tokio::time::timeout(SOON, first.close()).await.unwrap();
        drop((before, first));
        net.mend(0);
        let second = ends.bind();
        let after = second.connect(connect).unwrap();
        tokio::time::timeout(SOON, after.up()).await.unwrap().unwrap();
        peer.event("event restart", SOON).await;
        peer.tell("send 2 200000 10000", SOON).await;
        let all = receive_all(after.clone(), 2, 200_000);
        tokio::time::timeout(SOON, all).await.unwrap();
        assert_eq!(tokio::time::timeout(SOON, after.shutdown()).await, Ok(Reason::Shutdown));
        machine.back(peer).await;
    });
}

/// The cookie is stale when it arrives: the kernel reports by how much, and this side requests a longer lifetime.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn a_cookie_that_becomes_stale_in_transit() {
    with_kernel_behind("delay=150ms", async |ends, machine| {
        let options = [".valid_cookie_life=200"];
        let mut session = machine.open(ends, Role::WeConnect, modern(), &options).await;
        session.exchange(Load { each_way: 200_000, ..LIGHT }).await;
        we_shut_down(&mut session).await;
        machine.end(session).await;

        let config = modern().with(|c| c.handshake.valid_cookie_life = Duration::from_millis(200));
        let mut session = machine.open(ends, Role::TheyConnect, config, &[]).await;
        session.exchange(Load { each_way: 200_000, ..LIGHT }).await;
        we_shut_down(&mut session).await;
        machine.end(session).await;
    });
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn heartbeats_of_both_sides_keep_an_idle_path() {
    with_kernel(&[Wire::v6(1)], async |_, machine| {
        for carrier in [Carrier::Ip, Carrier::Udp] {
            let config = modern().with(|c| c.timers.heartbeat_interval = Some(Duration::from_millis(200)));
            let wire = Wire::v6(1);
            let mut session = machine.over(carrier, wire, Role::WeConnect, config, &["heartbeat=300"]).await;
            let before = session.association.stats().paths[0].packets_received;
            until(&session.association, |stats| stats.paths[0].packets_received >= before + 10).await;
            session.peer.tell(&format!("heartbeat {}", wire.client), SOON).await;
            let path = session.association.stats().paths.swap_remove(0);
            assert_eq!(path.timeouts, 0, "{path:?}");
            assert!(session.peer.tell("paths", SOON).await.contains("=active"));
            session.exchange(LIGHT).await;
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn a_lossy_link() {
    with_kernel_behind("loss=0.05,delay=1ms", async |ends, machine| {
        for role in BOTH {
            for profile in [Profile::Modern, Profile::Rfc9260] {
                let mut session = machine.open(ends, role, profile.config(), &["rto_min=200"]).await;
                session.exchange(Load { each_way: 1_000_000, ..LIGHT }).await;
                we_shut_down(&mut session).await;
                machine.end(session).await;
            }
        }
    });
}

#[test]
#[ignore = "heavy: 50 MB; cargo xtask test interop runs it"]
fn fifty_megabytes_each_way_at_five_percent_loss() {
    with_kernel_behind("loss=0.05,delay=1ms", async |ends, machine| {
        let load = Load { each_way: 50_000_000, patience: Duration::from_secs(900), ..LIGHT };
        for role in BOTH {
            let mut session = machine.open(ends, role, modern(), &["rto_min=200"]).await;
            session.exchange(load).await;
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}

#[test]
#[ignore = "heavy: 100 MB; cargo xtask test interop runs it"]
fn a_hundred_megabytes_each_way() {
    with_kernel(&[ONE], async |_, machine| {
        let load = Load { each_way: 100_000_000, patience: Duration::from_secs(600), ..LIGHT };
        for (carrier, role) in [(Carrier::Ip, Role::WeConnect), (Carrier::Udp, Role::TheyConnect)] {
            let mut session = machine.over(carrier, ONE, role, modern(), &[]).await;
            session.exchange(load).await;
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}
