//! The same test body in the simulator and over real sockets. The protocol code is the same; only the driver differs, so any
//! difference is an error of a driver or of the simulator.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PATIENCE, PORT, Pair, content, soon};
use braidftp_net::sctp::{self, AssociationId, Event};
use braidftp_net::{Association, Config, Connect, Message, Order, Ppid, Profile, Reason, Stats, StreamId};
use braidftp_sim::{App, Endpoints, Host, HostId, LinkConfig, World};

use Side::{Client, Server};

/// An end of the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// An association with access to both ends. Every method waits until it is complete.
trait Bench {
    /// Opens the association.
    fn new(config: Config) -> Self;
    /// Sends a message; returns the reason if that is impossible.
    fn send(&mut self, side: Side, stream: u16, message: Message) -> Result<(), String>;
    /// Returns the next complete message of a stream; `None` if no more will arrive.
    fn receive(&mut self, side: Side, stream: u16) -> Option<Vec<u8>>;
    /// Starts a shutdown.
    fn shutdown(&mut self, side: Side);
    /// Aborts.
    fn abort(&mut self, side: Side, words: &'static str);
    /// Returns why the association ended.
    fn closed(&mut self, side: Side) -> Reason;
    /// Returns the statistics.
    fn stats(&mut self, side: Side) -> Stats;
}

macro_rules! in_both_worlds {
    ($($body:ident)*) => {
        mod in_the_simulator {
            $(#[test] fn $body() { super::$body::<super::Simulated>(); })*
        }
        mod over_loopback {
            $(#[test] fn $body() { super::$body::<super::Real>(); })*
        }
    };
}

in_both_worlds! {
    an_echo_comes_back_and_both_ends_part_in_peace
    messages_of_every_size_keep_their_bytes_and_their_order
    a_message_larger_than_the_receive_buffer_arrives_whole
    unordered_messages_arrive_each_once
    what_was_queued_before_the_shutdown_arrives
    an_abort_says_why
    the_callers_mistakes_are_told_and_change_nothing
}

fn modern() -> Config {
    Profile::Modern.config()
}

fn message(bytes: impl Into<Vec<u8>>) -> Message {
    Message::new(Ppid(7), bytes.into())
}

fn an_echo_comes_back_and_both_ends_part_in_peace<B: Bench>() {
    let mut bench = B::new(modern());
    bench.send(Client, 1, message("hello")).unwrap();
    let heard = bench.receive(Server, 1).unwrap();
    bench.send(Server, 1, message(heard)).unwrap();
    assert_eq!(bench.receive(Client, 1).unwrap(), b"hello");
    bench.shutdown(Client);
    assert_eq!(bench.receive(Server, 1), None);
    assert_eq!(bench.closed(Client), Reason::Shutdown);
    assert_eq!(bench.closed(Server), Reason::Shutdown);
}

fn messages_of_every_size_keep_their_bytes_and_their_order<B: Bench>() {
    const SIZES: [usize; 10] = [1, 2, 3, 255, 1_424, 1_425, 1_453, 2_881, 65_536, 300_001];
    let mut bench = B::new(modern());
    for (from, to) in [(Client, Server), (Server, Client)] {
        for stream in 0..4 {
            for (number, size) in SIZES.into_iter().enumerate() {
                bench.send(from, stream, message(content(stream, number, size))).unwrap();
            }
        }
        // The last stream first: no stream waits for another.
        for stream in (0..4).rev() {
            for (number, size) in SIZES.into_iter().enumerate() {
                assert!(
                    bench.receive(to, stream).unwrap() == content(stream, number, size),
                    "{stream} {size}"
                );
            }
        }
    }
    let stats = bench.stats(Client);
    assert_eq!((stats.messages_sent, stats.messages_received, stats.unread_bytes), (40, 40, 0));
}

fn a_message_larger_than_the_receive_buffer_arrives_whole<B: Bench>() {
    let mut config = modern();
    config.memory.receive_buffer_bytes = 60_000;
    let mut bench = B::new(config);
    bench.send(Client, 0, message(content(0, 0, 700_000))).unwrap();
    bench.send(Client, 0, message("after")).unwrap();
    assert!(bench.receive(Server, 0).unwrap() == content(0, 0, 700_000));
    assert_eq!(bench.receive(Server, 0).unwrap(), b"after");
}

fn unordered_messages_arrive_each_once<B: Bench>() {
    let mut bench = B::new(modern());
    for number in 0..100u8 {
        let message = Message { order: Order::Unordered, ..message(vec![number; 5_000]) };
        bench.send(Server, 2, message).unwrap();
    }
    let mut numbers: Vec<u8> = (0..100).map(|_| bench.receive(Client, 2).unwrap()[0]).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..100));
}

fn what_was_queued_before_the_shutdown_arrives<B: Bench>() {
    let mut bench = B::new(modern());
    for number in 0..20 {
        bench.send(Client, 0, message(content(0, number, 50_000))).unwrap();
    }
    bench.shutdown(Client);
    assert!(bench.send(Client, 0, message("late")).unwrap_err().contains("shutting down"));
    for number in 0..20 {
        assert!(bench.receive(Server, 0).unwrap() == content(0, number, 50_000));
    }
    assert_eq!(bench.receive(Server, 0), None);
    assert_eq!(bench.closed(Client), Reason::Shutdown);
    assert_eq!(bench.closed(Server), Reason::Shutdown);
}

fn an_abort_says_why<B: Bench>() {
    let mut bench = B::new(modern());
    bench.abort(Server, "out of ink");
    assert_eq!(bench.closed(Server), Reason::Aborted("out of ink".into()));
    assert_eq!(bench.closed(Client).peer_abort_reason().map(|words| &words[..]), Some(&b"out of ink"[..]));
}

fn the_callers_mistakes_are_told_and_change_nothing<B: Bench>() {
    let mut config = modern();
    config.messages.max_bytes = 1_000;
    let mut bench = B::new(config);
    let streams = bench.stats(Client).outbound_streams;
    let mut refused = |stream, bytes| bench.send(Client, stream, message(vec![0; bytes])).unwrap_err();
    assert!(refused(streams, 1).contains("no such outbound stream"));
    assert!(refused(0, 0).contains("at least one byte"));
    assert!(refused(0, 1_001).contains("longer"));
    bench.send(Client, streams - 1, message("fine")).unwrap();
    assert_eq!(bench.receive(Server, streams - 1).unwrap(), b"fine");
}

/// Over loopback, with the tokio driver.
struct Real {
    runtime: tokio::runtime::Runtime,
    pair: Pair,
}

impl Real {
    fn end(&self, side: Side) -> Association {
        if side == Client { self.pair.client.clone() } else { self.pair.server.clone() }
    }
}

impl Bench for Real {
    fn new(config: Config) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pair = runtime.block_on(Pair::new(config));
        Self { runtime, pair }
    }

    fn send(&mut self, side: Side, stream: u16, message: Message) -> Result<(), String> {
        let end = self.end(side);
        let sent = self.runtime.block_on(soon(end.send(StreamId(stream), message)));
        sent.map_err(|error| error.to_string())
    }

    fn receive(&mut self, side: Side, stream: u16) -> Option<Vec<u8>> {
        let end = self.end(side);
        self.runtime.block_on(soon(async {
            let mut whole = Vec::new();
            while let Some(piece) = end.recv(StreamId(stream)).await.unwrap() {
                piece.payload.iter().for_each(|part| whole.extend_from_slice(part));
                if piece.end {
                    return Some(whole);
                }
            }
            None
        }))
    }

    fn shutdown(&mut self, side: Side) {
        self.end(side).start_shutdown();
    }

    fn abort(&mut self, side: Side, words: &'static str) {
        self.end(side).abort(words);
    }

    fn closed(&mut self, side: Side) -> Reason {
        let end = self.end(side);
        self.runtime.block_on(soon(end.closed()))
    }

    fn stats(&mut self, side: Side) -> Stats {
        self.end(side).stats()
    }
}

/// In the simulator, with its loop.
struct Simulated {
    world: World<Host<Mailbox>>,
    hosts: [HostId; 2],
}

/// The events of a host's only association.
#[derive(Debug, Default)]
struct Mailbox {
    id: Option<AssociationId>,
    is_up: bool,
    peer_is_done: bool,
    closed: Option<Reason>,
}

impl App for Mailbox {
    fn on_event(&mut self, _now: braidftp_base::Time, _: &mut Endpoints, id: AssociationId, event: Event) {
        self.id = Some(id);
        match event {
            Event::Up { .. } => self.is_up = true,
            Event::PeerShutdown => self.peer_is_done = true,
            Event::Closed(reason) => self.closed = Some(reason),
            _ => {}
        }
    }

    fn wake(&mut self, _now: braidftp_base::Time, _: &mut Endpoints) -> Option<braidftp_base::Time> {
        None
    }
}

impl Simulated {
    /// Repeats a call until it has a result; advances the time in between.
    fn wait<T>(
        &mut self,
        side: Side,
        mut attempt: impl FnMut(&mut sctp::Association, &Mailbox) -> Option<T>,
    ) -> T {
        let until = self.world.now() + PATIENCE;
        let mut goes_on = true;
        loop {
            let (endpoints, mailbox) = self.world.host_mut(self.hosts[side as usize]).parts_mut();
            let id = mailbox.id.expect("the association is there");
            if let Some(done) =
                attempt(endpoints.sctp.association_mut(id).expect("it is never removed"), mailbox)
            {
                return done;
            }
            assert!(goes_on, "nothing more happens, or it takes far too long");
            // One step would be enough; all events of the same instant are processed together.
            let before = self.world.now();
            while goes_on && self.world.now() == before {
                goes_on = self.world.step(until);
            }
        }
    }
}

impl Bench for Simulated {
    fn new(config: Config) -> Self {
        let config = Arc::new(config);
        let [client, server]: [SocketAddr; 2] =
            ["10.0.0.1:9899", "10.0.0.2:9899"].map(|a| a.parse().unwrap());
        let mut world = World::new(1);
        let mut listening = sctp::Endpoint::new([2; 32]);
        listening.listen(PORT, config.clone()).unwrap();
        let mut connecting = sctp::Endpoint::new([1; 32]);
        let connect = Connect {
            local: vec![client],
            peer: vec![server],
            source_port: None,
            destination_port: PORT,
            config,
        };
        let id = connecting.connect(world.now(), connect).unwrap();
        let mailbox = Mailbox { id: Some(id), ..Mailbox::default() };
        let hosts = [
            world.add_host(Host::new(connecting, mailbox), [client.ip()]),
            world.add_host(Host::new(listening, Mailbox::default()), [server.ip()]),
        ];
        for (from, to) in [(client, server), (server, client)] {
            let link =
                world.add_link(LinkConfig { delay: Duration::from_millis(1), ..LinkConfig::default() });
            world.route(from.ip(), to.ip(), link);
        }
        let up = world.run_while(PATIENCE, |world| hosts.iter().any(|host| !world.host(*host).app().is_up));
        assert!(up, "no handshake");
        Self { world, hosts }
    }

    fn send(&mut self, side: Side, stream: u16, message: Message) -> Result<(), String> {
        self.wait(side, |association, _| match association.send(StreamId(stream), message.clone()) {
            Err(sctp::SendError::Full) => None,
            outcome => Some(outcome.map_err(|error| error.to_string())),
        })
    }

    fn receive(&mut self, side: Side, stream: u16) -> Option<Vec<u8>> {
        let mut whole = Vec::new();
        self.wait(side, |association, mailbox| {
            while let Some(piece) = association.recv(StreamId(stream)) {
                piece.payload.iter().for_each(|part| whole.extend_from_slice(part));
                if piece.end {
                    return Some(Some(std::mem::take(&mut whole)));
                }
            }
            (mailbox.peer_is_done || mailbox.closed.is_some()).then_some(None)
        })
    }

    fn shutdown(&mut self, side: Side) {
        self.wait(side, |association, _| {
            association.shutdown();
            Some(())
        });
    }

    fn abort(&mut self, side: Side, words: &'static str) {
        self.wait(side, |association, _| {
            association.abort(words.into());
            Some(())
        });
    }

    fn closed(&mut self, side: Side) -> Reason {
        self.wait(side, |_, mailbox| mailbox.closed.clone())
    }

    fn stats(&mut self, side: Side) -> Stats {
        self.wait(side, |association, _| Some(association.stats()))
    }
}
