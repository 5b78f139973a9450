//! Tests against the SCTP of the Linux kernel (see `linux_kernel.rs`): all negotiable extensions, one by one and together, each
//! side as client and as server.
//!
//! Not covered: I-DATA messages of several fragments. Linux 6.1 numbers the second fragment 0 where RFC 8260 §2.1 has 1, and
//! expects the same.

mod common;
mod linux_support;
mod usrsctp_support;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use braidftp_emu::wires::Wire;
use braidftp_net::sctp::{
    AuthConfig, Direction, Fragments, Outcome, PeerMay, Reliability, SharedKey, StreamReset, Streams,
};
use braidftp_net::{Carrier, Config, Event, Message, Order, Ppid, Profile, StreamId};
use common::{content, receive_all, send_all};
use linux_support::{BOTH, LIGHT, SOON, we_shut_down, with_kernel, with_kernel_behind};
use usrsctp_support::{Load, Session};

const ONE: Wire =
    Wire { client: IpAddr::V4(Ipv4Addr::new(10, 1, 1, 2)), server: IpAddr::V4(Ipv4Addr::new(10, 1, 1, 1)) };

fn modern() -> Config {
    Profile::Modern.config()
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn messages_of_one_i_data_chunk() {
    with_kernel(&[ONE], async |_, machine| {
        for role in BOTH {
            let config = modern().with(|c| {
                c.messages.interleaving = true;
                c.messages.fragments = Fragments::Full;
            });
            let options = [".intl_enable=1", "idata=1"];
            let mut session = machine.over(Carrier::Ip, ONE, role, config, &options).await;
            session.peer.event("event up", SOON).await;
            assert!(session.association.stats().extensions.is_some_and(|both| both.interleaving));
            session.exchange(Load { message: 1_000, ..LIGHT }).await;
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}

/// Messages without retransmission: some are lost, later ones arrive, and the association shuts down, which proves that no TSN
/// is missing.
fn messages_may_be_given_up(interleaving: bool) {
    const COUNT: usize = 1_000;
    const LEN: usize = 500;
    with_kernel_behind("loss=0.1,delay=2ms", async move |ends, machine| {
        for role in BOTH {
            for (ours, theirs) in [
                (Reliability::Retransmissions(0), "rtx 0"),
                (Reliability::Lifetime(Duration::from_millis(5)), "ttl 5"),
            ] {
                let config = modern().with(|c| {
                    c.messages.partial_reliability = true;
                    c.messages.interleaving = interleaving;
                    c.messages.fragments = Fragments::Full;
                });
                let idata = if interleaving { "idata=1" } else { "idata=0" };
                let intl = if interleaving { ".intl_enable=1" } else { ".intl_enable=0" };
                let options = ["pr=1", "rto_min=200", intl, idata];
                let mut session = machine.open(ends, role, config, &options).await;
                session.peer.event("event up", SOON).await;
                let both = session.association.stats().extensions.unwrap();
                // Linux 6.1 uses I-FORWARD-TSN without listing it, which RFC 8260 §2.3.1 requires.
                assert!(both.forward_tsn && both.interleaving == interleaving, "{both:?}");
                for n in 0..COUNT {
                    let order = if n % 2 == 0 { Order::Ordered } else { Order::Unordered };
                    let message = Message { order, reliability: ours, ..Message::new(Ppid(8), vec![0; LEN]) };
                    session.association.send(StreamId(1), message).await.unwrap();
                }
                let message = if interleaving { 1_000 } else { 10_000 };
                let whole = send_all(session.association.clone(), 1, 100_000, message);
                tokio::time::timeout(SOON, whole).await.unwrap();

                session.peer.tell(&format!("send 2 {} {LEN} {theirs}", COUNT * LEN), SOON).await;
                session.peer.tell(&format!("send 2 {} {LEN} unordered {theirs}", COUNT * LEN), SOON).await;
                session.peer.tell(&format!("send 2 100000 {message}"), SOON).await;
                let (mut given, mut at) = (0, 0);
                while at < 100_000 {
                    let piece = session.association.recv(StreamId(2));
                    let piece = tokio::time::timeout(SOON, piece).await.unwrap().unwrap().unwrap();
                    if piece.ppid == Ppid(8) {
                        given += piece.len();
                        continue;
                    }
                    for bytes in piece.payload {
                        assert!(bytes == content(2, at, bytes.len()), "other bytes near {at}");
                        at += bytes.len();
                    }
                }
                eprintln!("{role:?} {theirs}: {given} of {}", 2 * COUNT * LEN);
                assert!(given < 2 * COUNT * LEN);
                we_shut_down(&mut session).await;
                machine.end(session).await;
            }
        }
    });
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn messages_may_be_abandoned_in_data_chunks() {
    messages_may_be_given_up(false);
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn messages_may_be_abandoned_in_i_data_chunks() {
    messages_may_be_given_up(true);
}

/// If the send buffer is full, messages of lower priority are abandoned.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn less_important_messages_are_abandoned_for_more_important_ones() {
    with_kernel(&[ONE], async |_, machine| {
        let config = modern().with(|c| {
            c.messages.partial_reliability = true;
            c.memory.send_buffer_bytes = 100_000;
        });
        let mut session = machine.over(Carrier::Ip, ONE, BOTH[0], config, &["pr=1", "buffer=100000"]).await;
        session.peer.event("event up", SOON).await;
        for n in 0..2_000 {
            let reliability = Reliability::Priority(if n % 4 == 0 { 1 } else { 1_000 });
            let message = Message { reliability, ..Message::new(Ppid(8), vec![0; 1_000]) };
            session.association.send(StreamId(1), message).await.unwrap();
        }
        send_all(session.association.clone(), 1, 50_000, 1_000).await;
        session.peer.tell("send 2 1000000 1000 prio 1000", SOON).await;
        session.peer.tell("send 2 1000000 1000 prio 1", SOON).await;
        session.peer.tell("send 2 50000 1000", SOON).await;
        let mut at = 0;
        while at < 50_000 {
            let piece = session.association.recv(StreamId(2));
            let piece = tokio::time::timeout(SOON, piece).await.unwrap().unwrap().unwrap();
            if piece.ppid == Ppid(7) {
                at += piece.len();
            }
        }
        we_shut_down(&mut session).await;
        machine.end(session).await;
    });
}

/// Returns the next event about streams.
async fn told(session: &Session) -> Event {
    loop {
        let event =
            tokio::time::timeout(SOON, session.association.event()).await.expect("nothing is told").unwrap();
        if let Event::StreamReset { .. } | Event::AssociationReset { .. } | Event::StreamChange { .. } = event
        {
            return event;
        }
    }
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn streams_are_reset_and_added_at_either_sides_request() {
    with_kernel(&[ONE], async |_, machine| {
        for (role, carrier) in BOTH.into_iter().flat_map(|role| [(role, Carrier::Ip), (role, Carrier::Udp)]) {
            let config = modern().with(|c| {
                c.streams.reconfiguration = true;
                c.streams.peer_may =
                    PeerMay { reset_streams: true, reset_association: true, add_streams: true };
            });
            let mut session = machine.over(carrier, ONE, role, config, &["reconfig=1"]).await;
            session.peer.event("event up", SOON).await;
            assert!(session.association.stats().extensions.is_some_and(|both| both.reconfiguration));
            session.exchange(LIGHT).await;
            let one = Streams::These(vec![StreamId(1)]);
            let done = |direction| Event::StreamReset {
                direction,
                streams: Streams::These(vec![StreamId(1)]),
                outcome: Outcome::Done,
            };
            let sum = LIGHT.each_way;

            // This side resets its outgoing stream: the byte pattern and the SSN start again.
            let outgoing = StreamReset { outgoing: Some(one.clone()), incoming: None };
            session.association.reset_streams(outgoing).unwrap();
            assert_eq!(told(&session).await, done(Direction::Outgoing));
            session.peer.event("reset in 1", SOON).await;
            send_all(session.association.clone(), 1, 50_000, 10_000).await;
            session.peer.tell(&format!("expect {}", sum + 50_000), SOON).await;

            // The kernel resets its outgoing stream.
            session.peer.tell("reset out 1", SOON).await;
            assert_eq!(told(&session).await, done(Direction::Incoming));
            session.peer.event("reset out 1", SOON).await;
            session.peer.tell("send 1 50000 10000", SOON).await;
            let again = receive_all(session.association.clone(), 1, 50_000);
            tokio::time::timeout(SOON, again).await.unwrap();

            // Each side requests a reset of its incoming stream.
            let incoming = StreamReset { outgoing: None, incoming: Some(one.clone()) };
            session.association.reset_streams(incoming).unwrap();
            let events = [told(&session).await];
            eprintln!("{events:?}");
            session.peer.event("reset out 1", SOON).await;
            session.peer.tell("reset in 1", SOON).await;
            session.peer.event("reset in 1", SOON).await;
            send_all(session.association.clone(), 1, 50_000, 10_000).await;
            session.peer.tell(&format!("expect {}", sum + 100_000), SOON).await;
            session.peer.tell("status", SOON).await;

            // Additional streams in each direction.
            let before = session.association.stats();
            session.association.add_streams(3, 0).unwrap();
            until(&session, |event| matches!(event, Event::StreamChange { outcome: Outcome::Done, .. }))
                .await;
            session.peer.tell("streams 2 0", SOON).await;
            until(&session, |event| matches!(event, Event::StreamChange { outcome: Outcome::Done, .. }))
                .await;
            let after = session.association.stats();
            assert_eq!(after.outbound_streams, before.outbound_streams + 3);
            assert_eq!(after.inbound_streams, before.inbound_streams + 2);

            // All streams and TSNs, by this side and by the kernel.
            session.association.reset_association().unwrap();
            until(&session, |event| matches!(event, Event::AssociationReset { outcome: Outcome::Done, .. }))
                .await;
            session.peer.event("tsn-reset", SOON).await;
            session.exchange(LIGHT).await;
            // The kernel refuses while data is unacknowledged.
            while !session.peer.tell("status", SOON).await.contains("unacked=0 pending=0") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            session.peer.tell("reset tsn", SOON).await;
            until(&session, |event| matches!(event, Event::AssociationReset { outcome: Outcome::Done, .. }))
                .await;
            session.peer.event("tsn-reset", SOON).await;
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}

/// Waits for an event.
async fn until(session: &Session, is_it: impl Fn(&Event) -> bool) {
    loop {
        let event = told(session).await;
        if is_it(&event) {
            return;
        }
        eprintln!("{event:?}");
    }
}

#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn data_is_authenticated() {
    with_kernel(&[ONE], async |_, machine| {
        let shared = || vec![SharedKey { id: 1, secret: "a+shared+secret".into() }];
        for (role, carrier) in BOTH.into_iter().flat_map(|role| [(role, Carrier::Ip), (role, Carrier::Udp)]) {
            for (keys, key) in [(shared(), "key=a+shared+secret"), (vec![], "nokey=1")] {
                let active_key = u16::from(!keys.is_empty());
                let auth = AuthConfig { chunks: vec![0], keys, active_key, ..AuthConfig::default() };
                let config = modern().with(|c| c.security.auth = Some(auth));
                let options = ["auth=1", "data_auth=1", key];
                let mut session = machine.over(carrier, ONE, role, config, &options).await;
                assert!(session.association.stats().extensions.is_some_and(|both| both.auth));
                session.exchange(LIGHT).await;
                we_shut_down(&mut session).await;
                machine.end(session).await;
            }
        }
    });
}

/// The kernel's own queue marks packets instead of dropping them, in both directions.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn congestion_marks_are_received() {
    with_kernel(&[ONE], async |_, machine| {
        machine.sh("tc qdisc add dev vec0 root netem loss 3% ecn limit 10000").await;
        machine.sh("ip link set ifb0 up").await;
        machine.sh("tc qdisc add dev vec0 ingress").await;
        machine
            .sh("tc filter add dev vec0 parent ffff: matchall action mirred egress redirect dev ifb0")
            .await;
        machine.sh("tc qdisc add dev ifb0 root netem loss 3% ecn limit 10000").await;
        for (role, carrier) in BOTH.into_iter().flat_map(|role| [(role, Carrier::Ip), (role, Carrier::Udp)]) {
            let config = modern().with(|c| c.congestion.ecn = true);
            let mut session = machine.over(carrier, ONE, role, config, &["ecn=1"]).await;
            session.peer.event("event up", SOON).await;
            assert!(session.association.stats().extensions.is_some_and(|both| both.ecn));
            session.exchange(LIGHT).await;
            let path = session.association.stats().paths.swap_remove(0);
            eprintln!("{role:?} {carrier:?}: {} marks, {} reductions", path.ce_received, path.ecn_reductions);
            assert!(path.ce_received > 0, "{path:?}");
            assert!(path.ecn_reductions > 0, "{path:?}");
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}

/// Each side probes the path MTU.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn both_sides_probe_the_path() {
    for wire in [Wire::v4(1), Wire::v6(1)] {
        with_kernel(&[wire], async |_, machine| {
            for (role, carrier) in
                BOTH.into_iter().flat_map(|role| [(role, Carrier::Ip), (role, Carrier::Udp)])
            {
                let config = modern().with(|c| c.path_mtu.packet_bytes = 1_200);
                let options = [".plpmtud_probe_interval=5000"];
                let mut session = machine.over(carrier, wire, role, config, &options).await;
                session.exchange(LIGHT).await;
                let probed = async {
                    loop {
                        let ours = session.association.stats().paths.swap_remove(0);
                        let theirs = session.peer.tell("status", SOON).await;
                        if ours.mtu > 1_400 && theirs.contains("mtu=15") {
                            return;
                        }
                        eprintln!("{}; {theirs}", ours.mtu);
                        tokio::time::sleep(Duration::from_millis(2000)).await;
                    }
                };
                tokio::time::timeout(SOON, probed).await.expect("less is found than there is");
                session.exchange(LIGHT).await;
                we_shut_down(&mut session).await;
                machine.end(session).await;
            }
        });
    }
}

/// All extensions of both sides, in one INIT.
#[test]
#[ignore = "boots a kernel; cargo xtask test interop runs it"]
fn everything_at_once() {
    with_kernel(&[Wire::v6(1)], async |_, machine| {
        for (role, carrier) in BOTH.into_iter().flat_map(|role| [(role, Carrier::Ip), (role, Carrier::Udp)]) {
            let config = modern().with(|c| {
                c.messages.interleaving = true;
                c.messages.fragments = Fragments::Full;
                c.messages.partial_reliability = true;
                c.sack.nr_sack = true;
                c.streams.reconfiguration = true;
                c.paths.asconf = true;
                c.congestion.ecn = true;
                c.handshake.adaptation = Some(4_711);
                c.security.auth = Some(AuthConfig { chunks: vec![0, 64], ..AuthConfig::default() });
            });
            let options = [
                ".intl_enable=1",
                "idata=1",
                "pr=1",
                "reconfig=1",
                "asconf=1",
                "auth=1",
                "ecn=1",
                "data_auth=1",
                "adaptation=815",
                "scheduler=2",
                ".plpmtud_probe_interval=5000",
            ];
            let mut session = machine.over(carrier, Wire::v6(1), role, config, &options).await;
            session.peer.event("adaptation 4711", SOON).await;
            let both = session.association.stats().extensions.unwrap();
            assert!(
                both.interleaving
                    && both.forward_tsn
                    && both.reconfiguration
                    && both.asconf
                    && both.auth
                    && both.ecn,
                "{both:?}"
            );
            session.exchange(Load { message: 1_000, ..LIGHT }).await;
            we_shut_down(&mut session).await;
            machine.end(session).await;
        }
    });
}
