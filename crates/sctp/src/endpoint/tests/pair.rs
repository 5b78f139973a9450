//! Two endpoints on a lossless link with a delay of one millisecond.

use std::collections::VecDeque;

use super::*;
use crate::Message;

const DELAY: Duration = Duration::from_millis(1);

struct Pair {
    now: Time,
    ends: [Endpoint; 2],
    addresses: [SocketAddr; 2],
    wire: VecDeque<(Time, Datagram)>,
    events: [Vec<(AssociationId, Event)>; 2],
    log: Vec<String>,
}

impl Pair {
    fn new() -> Self {
        Self {
            now: Time::ZERO,
            ends: [Endpoint::new([1; 32]), Endpoint::new([2; 32])],
            addresses: ["192.0.2.1:9899".parse().unwrap(), "192.0.2.2:9899".parse().unwrap()],
            wire: VecDeque::new(),
            events: [Vec::new(), Vec::new()],
            log: Vec::new(),
        }
    }

    fn connect(&mut self, end: usize, source_port: Option<u16>, destination_port: u16) -> AssociationId {
        let connect = Connect {
            local: vec![self.addresses[end]],
            peer: vec![self.addresses[1 - end]],
            source_port,
            destination_port,
            config: Arc::new(config()),
        };
        self.ends[end].connect(self.now, connect).unwrap()
    }

    fn drain(&mut self, end: usize) {
        loop {
            match self.ends[end].poll(self.now) {
                Output::Send(sent) => {
                    for datagram in sent.into_datagrams() {
                        self.log.push(Packet::decode(datagram.payload.clone()).unwrap().to_string());
                        self.wire.push_back((self.now + DELAY, datagram));
                    }
                }
                Output::Event(event) => self.events[end].push(event),
                Output::Wait(_) => return,
            }
        }
    }

    /// Lets all packets under way arrive, and those they bring about.
    fn settle(&mut self) {
        (0..2).for_each(|end| self.drain(end));
        while let Some((at, datagram)) = self.wire.pop_front() {
            self.now = at;
            let end = self.addresses.iter().position(|address| *address == datagram.to).unwrap();
            self.ends[end].handle(self.now, datagram);
            self.drain(end);
        }
    }

    fn is_up(&self, end: usize, id: AssociationId) -> bool {
        self.ends[end].association(id).is_some_and(|association| association.is_up())
    }
}

#[test]
fn a_client_and_a_server_meet() {
    let mut pair = Pair::new();
    pair.ends[1].listen(21, Arc::new(config())).unwrap();
    let id = pair.connect(0, None, 21);
    let message = Message::new(Ppid(7), Bytes::from_static(b"USER anonymous\r\n"));
    pair.ends[0].association_mut(id).unwrap().send(StreamId(0), message).unwrap();
    pair.settle();
    assert!(pair.is_up(0, id), "{:#?}", pair.log);
    let (there, _) = pair.events[1][0];
    assert!(pair.is_up(1, there));
    assert!(pair.log[2].contains("COOKIE_ECHO") && pair.log[2].contains("DATA["), "{:#?}", pair.log);
    let piece = pair.ends[1].association_mut(there).unwrap().recv(StreamId(0)).unwrap();
    assert_eq!(piece.payload.concat(), b"USER anonymous\r\n");
    pair.ends[0].association_mut(id).unwrap().shutdown();
    pair.settle();
    for end in 0..2 {
        let closed = pair.events[end].iter().any(|(_, event)| matches!(event, Event::Closed(_)));
        assert!(closed, "{:?} {:#?}", pair.events[end], pair.log);
    }
    pair.ends[0].remove(id);
    pair.ends[1].remove(there);
    pair.settle();
    assert!(pair.ends.iter().all(Endpoint::is_empty));
}

#[test]
fn two_sides_that_connect_simultaneously_share_one_association() {
    let mut pair = Pair::new();
    let ids = [pair.connect(0, Some(500), 500), pair.connect(1, Some(500), 500)];
    pair.settle();
    for (end, id) in ids.into_iter().enumerate() {
        assert!(pair.is_up(end, id), "{:#?}", pair.log);
        assert_eq!(pair.ends[end].len(), 1);
    }
    let message = Message::new(Ppid(7), Bytes::from_static(b"there"));
    pair.ends[0].association_mut(ids[0]).unwrap().send(StreamId(0), message).unwrap();
    pair.settle();
    assert!(pair.ends[1].association_mut(ids[1]).unwrap().recv(StreamId(0)).is_some(), "{:#?}", pair.log);
}

#[test]
fn associations_take_turns() {
    let mut pair = Pair::new();
    pair.ends[1].listen(21, Arc::new(config())).unwrap();
    let ids = [pair.connect(0, None, 21), pair.connect(0, None, 21), pair.connect(0, None, 21)];
    pair.settle();
    let message = Message::new(Ppid(7), Bytes::from(vec![0; 50_000]));
    for id in ids {
        pair.ends[0].association_mut(id).unwrap().send(StreamId(0), message.clone()).unwrap();
    }
    let mut first = Vec::new();
    while first.len() < 3 {
        match pair.ends[0].poll(pair.now) {
            Output::Send(sent) => first.push(
                Packet::decode(sent.payload.slice(..sent.segment_size.unwrap_or(sent.payload.len())))
                    .unwrap()
                    .header
                    .tag
                    .0,
            ),
            Output::Event(_) => {}
            Output::Wait(_) => panic!("nothing to send"),
        }
    }
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 3, "each one sent before any sent twice");
}

#[test]
fn a_port_without_a_listener_refuses_at_once() {
    let mut pair = Pair::new();
    let id = pair.connect(0, None, 21);
    pair.settle();
    let closed = |(_, event): &(_, Event)| matches!(event, Event::Closed(crate::Reason::PeerAborted(_)));
    assert!(pair.events[0].iter().any(closed), "{:?}", pair.events[0]);
    assert!(pair.ends[0].association(id).is_some(), "readable until it is removed");
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    let run = || {
        let mut pair = Pair::new();
        pair.ends[1].listen(21, Arc::new(config())).unwrap();
        pair.connect(0, None, 21);
        pair.settle();
        pair.log
    };
    assert_eq!(run(), run());
}

#[test]
fn an_association_is_woken_at_the_very_time_it_asked_for() {
    let mut bench = Bench::new();
    bench.connect();
    let Output::Wait(Some(when)) = bench.endpoint.poll(bench.now) else { panic!("an INIT is out") };
    assert_eq!(when, Time::from_millis(1_000), "RTO.Initial, and no tick to wait for");
    bench.now = Time::from_nanos(when.as_nanos() - 1);
    assert!(bench.drain().is_empty());
    bench.now = when;
    assert!(bench.drain()[0].text().starts_with("INIT["));
}
