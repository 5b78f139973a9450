//! Tests against usrsctp over UDP: negotiable extensions (I-DATA, PR-SCTP, RE-CONFIG, AUTH), each side as client and as server;
//! a lossy link; every way to end an association. `cargo xtask test interop` runs the heavy ones.

mod common;
mod usrsctp_support;

use std::net::SocketAddr;
use std::time::Duration;

use braidftp_emu::{LinkConfig, Relay, RelayConfig, RelayHandle};
use braidftp_net::sctp::{
    AuthConfig, Direction, Outcome, PeerMay, Reliability, SharedKey, StreamReset, Streams,
};
use braidftp_net::{Config, Event, Message, Order, Ppid, Profile, Reason, StreamId};
use common::{content, receive_all, send_all};
use usrsctp_support::{Ends, Load, Role, Session, block_on, here, open};

const SOON: Duration = common::PATIENCE;
const LIGHT: Load = Load { each_way: 4_000_000, streams: 4, message: 20_000, patience: SOON };
const BOTH: [Role; 2] = [Role::WeConnect, Role::TheyConnect];

fn free() -> SocketAddr {
    ([127, 0, 0, 1], common::free_port()).into()
}

fn modern() -> Config {
    Profile::Modern.config()
}

/// Opens an association over loopback, as `role`.
async fn loopback(role: Role, config: Config, options: &[&str]) -> Option<Session> {
    let ends = Ends::udp(free(), free());
    open(&ends, role, config, options, here).await
}

/// The same through a link with loss and delay.
async fn lossy(role: Role, config: Config, options: &[&str], link: &str) -> Option<(Session, RelayHandle)> {
    let mut bad = LinkConfig::default();
    bad.apply(link).unwrap();
    let (ours, theirs) = (free(), free());
    let to = if role == Role::WeConnect { theirs } else { ours };
    let config_of_relay = RelayConfig {
        forward: bad.clone(),
        back: bad,
        ..RelayConfig::new("127.0.0.1:0".parse().unwrap(), to)
    };
    let relay = Relay::spawn(config_of_relay).unwrap();
    let ends = match role {
        Role::WeConnect => Ends { by: Some(relay.local_addr()), ..Ends::udp(ours, theirs) },
        Role::TheyConnect => Ends { their_way: Some(relay.local_addr()), ..Ends::udp(ours, theirs) },
    };
    Some((open(&ends, role, config, options, here).await?, relay))
}

async fn ends_well(mut session: Session) {
    let end = tokio::time::timeout(SOON, session.association.shutdown()).await;
    assert_eq!(end, Ok(Reason::Shutdown));
    assert_eq!(session.peer.tell("wait", SOON).await, "shutdown");
}

#[test]
fn either_side_may_shut_down_or_abort() {
    block_on(async {
        for role in BOTH {
            let Some(mut session) = loopback(role, modern(), &[]).await else { return };
            session.exchange(LIGHT).await;
            ends_well(session).await;

            let mut session = loopback(role, modern(), &[]).await.unwrap();
            session.exchange(LIGHT).await;
            session.peer.tell("shutdown", SOON).await;
            assert_eq!(tokio::time::timeout(SOON, session.association.recv_any()).await.unwrap(), Ok(None));
            assert_eq!(tokio::time::timeout(SOON, session.association.closed()).await, Ok(Reason::Shutdown));
            assert_eq!(session.peer.tell("wait", SOON).await, "shutdown");

            let mut session = loopback(role, modern(), &[]).await.unwrap();
            session.association.abort("enough");
            assert_eq!(session.peer.tell("wait", SOON).await, "lost");

            let mut session = loopback(role, modern(), &[]).await.unwrap();
            session.peer.event("event up", SOON).await;
            session.peer.tell("abort", SOON).await;
            let end = tokio::time::timeout(SOON, session.association.closed()).await.unwrap();
            assert!(matches!(end, Reason::PeerAborted(_)), "{end:?}");
        }
    });
}

/// Messages of several packets on several streams, which interleave on the wire.
#[test]
fn interleaved_messages_both_ways() {
    block_on(async {
        for role in BOTH {
            let config = modern().with(|c| c.messages.interleaving = true);
            let Some(mut session) = loopback(role, config, &["idata=1"]).await else { return };
            let up = session.peer.event("event up", SOON).await;
            assert!(up.contains(" idata"), "{up}");
            session.exchange(Load { message: 100_000, ..LIGHT }).await;
            ends_well(session).await;
        }
    });
}

#[test]
fn interleaved_messages_through_a_lossy_link() {
    block_on(async {
        for role in BOTH {
            let config = modern().with(|c| c.messages.interleaving = true);
            let options = ["idata=1", "rto_min=100"];
            let opened = lossy(role, config, &options, "loss=0.02,delay=2ms").await;
            let Some((mut session, _relay)) = opened else { return };
            session.exchange(Load { each_way: 1_000_000, message: 50_000, ..LIGHT }).await;
            ends_well(session).await;
        }
    });
}

/// Messages without retransmission: some are lost, the next ones arrive, and the association shuts down, which proves that no
/// TSN is missing.
fn messages_may_be_given_up(interleaving: bool) {
    const COUNT: usize = 1_000;
    const LEN: usize = 500;
    block_on(async {
        for role in BOTH {
            let config = modern().with(|c| {
                c.messages.partial_reliability = true;
                c.messages.interleaving = interleaving;
            });
            let idata = if interleaving { "idata=1" } else { "idata=0" };
            let options = ["pr=1", "rto_min=100", idata];
            let opened = lossy(role, config, &options, "loss=0.1,delay=2ms").await;
            let Some((mut session, _relay)) = opened else { return };
            let up = session.peer.event("event up", SOON).await;
            assert!(up.contains(" pr"), "{up}");
            for n in 0..COUNT {
                let order = if n % 2 == 0 { Order::Ordered } else { Order::Unordered };
                let reliability = Reliability::Retransmissions(0);
                let message = Message { order, reliability, ..Message::new(Ppid(8), vec![0; LEN]) };
                session.association.send(StreamId(1), message).await.unwrap();
            }
            let whole = send_all(session.association.clone(), 1, 100_000, 10_000);
            tokio::time::timeout(SOON, whole).await.unwrap();

            session.peer.tell(&format!("send 2 {} {LEN} rtx 0", COUNT * LEN), SOON).await;
            session.peer.tell("send 2 100000 10000", SOON).await;
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
            assert!(given < COUNT * LEN && given > COUNT * LEN / 2, "{given} of {}", COUNT * LEN);
            ends_well(session).await;
        }
    });
}

#[test]
fn messages_may_be_abandoned_in_data_chunks() {
    messages_may_be_given_up(false);
}

#[test]
fn messages_may_be_abandoned_in_i_data_chunks() {
    messages_may_be_given_up(true);
}

/// With NR-SACKs in both directions everything arrives despite losses, and few chunks are kept by the sender.
#[test]
fn chunks_beyond_a_gap_are_reported_as_non_renegable() {
    block_on(async {
        for role in BOTH {
            for interleaving in [false, true] {
                let config = modern().with(|c| {
                    c.sack.nr_sack = true;
                    c.messages.interleaving = interleaving;
                });
                let idata = if interleaving { "idata=1" } else { "idata=0" };
                let options = ["nrsack=1", "rto_min=100", idata];
                let opened = lossy(role, config, &options, "loss=0.03,delay=2ms").await;
                let Some((mut session, _relay)) = opened else { return };
                session.exchange(Load { each_way: 1_000_000, message: 20_000, ..LIGHT }).await;
                assert!(session.association.stats().extensions.is_some_and(|both| both.nr_sack));
                ends_well(session).await;
            }
        }
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
fn streams_are_reset_and_added_at_either_sides_request() {
    block_on(async {
        for role in BOTH {
            let config = modern().with(|c| {
                c.streams.reconfiguration = true;
                c.streams.peer_may =
                    PeerMay { reset_streams: true, reset_association: true, add_streams: true };
            });
            let Some(mut session) = loopback(role, config, &["reconfig=1"]).await else { return };
            let up = session.peer.event("event up", SOON).await;
            assert!(up.contains(" reconfig"), "{up}");
            session.exchange(LIGHT).await;
            let one = Streams::These(vec![StreamId(1)]);

            // This side resets its outgoing stream: the byte pattern and the SSN start again.
            let outgoing = StreamReset { outgoing: Some(one.clone()), incoming: None };
            session.association.reset_streams(outgoing).unwrap();
            let done = Event::StreamReset {
                direction: Direction::Outgoing,
                streams: one.clone(),
                outcome: Outcome::Done,
            };
            assert_eq!(told(&session).await, done);
            session.peer.event("reset in 1", SOON).await;
            send_all(session.association.clone(), 1, 50_000, 10_000).await;
            session.peer.tell("expect 4050000", SOON).await;

            // The peer resets its outgoing stream.
            session.peer.tell("reset out 1", SOON).await;
            let done = Event::StreamReset {
                direction: Direction::Incoming,
                streams: one.clone(),
                outcome: Outcome::Done,
            };
            assert_eq!(told(&session).await, done);
            session.peer.event("reset out 1", SOON).await;
            session.peer.tell("send 1 50000 10000", SOON).await;
            let again = receive_all(session.association.clone(), 1, 50_000);
            tokio::time::timeout(SOON, again).await.unwrap();

            // All streams and TSNs, by this side and by the peer.
            session.association.reset_association().unwrap();
            let event = told(&session).await;
            assert!(matches!(event, Event::AssociationReset { outcome: Outcome::Done, .. }), "{event:?}");
            session.peer.event("tsn-reset", SOON).await;

            // Additional streams in each direction.
            let before = session.association.stats();
            session.association.add_streams(3, 0).unwrap();
            let event = told(&session).await;
            assert!(matches!(event, Event::StreamChange { outcome: Outcome::Done, .. }), "{event:?}");
            session.peer.tell("streams 2 0", SOON).await;
            let event = told(&session).await;
            assert!(matches!(event, Event::StreamChange { outcome: Outcome::Done, .. }), "{event:?}");
            let after = session.association.stats();
            assert_eq!(after.outbound_streams, before.outbound_streams + 3);
            assert_eq!(after.inbound_streams, before.inbound_streams + 2);
            ends_well(session).await;
        }
    });
}

#[test]
fn data_is_authenticated_by_a_shared_key() {
    authenticated(false);
}

#[test]
fn interleaved_data_is_authenticated_by_a_shared_key() {
    authenticated(true);
}

fn authenticated(interleaving: bool) {
    block_on(async {
        for role in BOTH {
            let key = SharedKey { id: 1, secret: "a shared secret".into() };
            let auth =
                AuthConfig { chunks: vec![0], keys: vec![key], active_key: 1, ..AuthConfig::default() };
            let config = modern().with(|c| {
                c.security.auth = Some(auth);
                c.messages.interleaving = interleaving;
            });
            let idata = if interleaving { "idata=1" } else { "idata=0" };
            let options = ["auth=1", "data_auth=1", "key=a shared secret", idata];
            let Some(mut session) = loopback(role, config, &options).await else { return };
            let up = session.peer.event("event up", SOON).await;
            assert!(up.contains(" auth"), "{up}");
            session.exchange(LIGHT).await;
            ends_well(session).await;
        }
    });
}

#[test]
#[ignore = "heavy: 100 MB; cargo xtask test interop runs it"]
fn a_hundred_megabytes_each_way() {
    let load = Load { each_way: 100_000_000, patience: Duration::from_secs(300), ..LIGHT };
    block_on(async {
        for role in BOTH {
            let Some(mut session) = loopback(role, modern(), &[]).await else { return };
            session.exchange(load).await;
            ends_well(session).await;
            let config = modern().with(|c| c.messages.interleaving = true);
            let mut session = loopback(role, config, &["idata=1"]).await.unwrap();
            session.exchange(Load { message: 100_000, ..load }).await;
            ends_well(session).await;
        }
    });
}

#[test]
#[ignore = "heavy: 100 MB; cargo xtask test interop runs it"]
fn a_hundred_megabytes_each_way_at_five_percent_loss() {
    let load = Load { each_way: 100_000_000, patience: Duration::from_secs(900), ..LIGHT };
    block_on(async {
        for role in BOTH {
            let opened = lossy(role, modern(), &["rto_min=100"], "loss=0.05,delay=1ms").await;
            let Some((mut session, _relay)) = opened else { return };
            session.exchange(load).await;
            ends_well(session).await;
        }
    });
}
