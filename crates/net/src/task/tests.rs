//! The task step by step, without a runtime: which handle may use the endpoint between which two packets,
//! and what the peer receives.

use std::pin::pin;
use std::task::{Context, Waker};

use braidftp_base::Ecn;
use braidftp_sctp::{self as sctp, AssociationId, Connect, Event, Message, Ppid, Profile, StreamId};

use super::*;
use crate::association::Association;
use crate::carrier::Carrier;
use crate::core::Backlog;
use crate::endpoint::Listener;

const PORT: u16 = 5001;
const HERE: &str = "192.0.2.1:9899";
const THERE: &str = "192.0.2.2:9899";

/// A task whose packets are carried by hand, and the machine of its peer.
struct Bench {
    task: Task,
    listener: Listener,
    peer: sctp::Endpoint,
    heard: Vec<(AssociationId, Event)>,
}

impl Bench {
    fn new() -> Self {
        let config = Arc::new(Profile::Modern.config());
        let machine = sctp::Endpoint::new([1; 32]);
        let shared = Arc::new(Shared::new(machine, Carrier::Udp, vec![HERE.parse().unwrap()]));
        {
            let mut core = shared.lock();
            core.machine.listen(PORT, config).unwrap();
            core.backlogs.insert(PORT, Backlog::default());
        }
        let listener = Listener { shared: shared.clone(), port: PORT };
        let task = Task::new(shared, Sockets::new(Vec::new()), Logs::default(), Duration::from_secs(1));
        Self { task, listener, peer: sctp::Endpoint::new([2; 32]), heard: Vec::new() }
    }

    fn connect(&mut self) -> AssociationId {
        let connect = Connect {
            local: vec![THERE.parse().unwrap()],
            peer: vec![HERE.parse().unwrap()],
            source_port: None,
            destination_port: PORT,
            config: Arc::new(Profile::Modern.config()),
        };
        self.peer.connect(self.now(), connect).unwrap()
    }

    fn now(&self) -> Time {
        self.task.shared.clock.now()
    }

    /// The peer hears this, and what it says is in the task's inbox.
    fn carry(&mut self, transmit: Option<Transmit>) {
        let now = self.now();
        for datagram in transmit.into_iter().flat_map(datagrams) {
            self.peer.handle(now, datagram);
        }
        loop {
            match self.peer.poll(now) {
                Output::Send(transmit) => self.task.inbox.extend(datagrams(transmit)),
                Output::Event(event) => self.heard.push(event),
                Output::Wait(_) => return,
            }
        }
    }

    /// One step of the task; says whether anything left.
    fn step(&mut self) -> bool {
        match self.task.step() {
            Next::Send(transmit) => {
                self.carry(Some(transmit));
                true
            }
            Next::Wait(_) => !self.task.inbox.is_empty(),
            Next::End => panic!("the listener is held"),
        }
    }

    /// What a task that is waiting in `accept` would have got by now.
    fn accept(&self) -> Option<Association> {
        match pin!(self.listener.accept()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(association) => Some(association.expect("the endpoint is open")),
            Poll::Pending => None,
        }
    }
}

fn datagrams(transmit: Transmit) -> Vec<Datagram> {
    transmit.into_datagrams().map(|datagram| Datagram { ecn: Ecn::NotEct, ..datagram }).collect()
}

#[test]
fn aborting_an_accepted_association_reaches_an_established_peer() {
    let mut bench = Bench::new();
    bench.connect();
    bench.carry(None);
    while bench.step() {}
    let busy = bench.accept().expect("the first association is up");

    let second = bench.connect();
    bench.carry(None);
    // INIT ACK; the answer to it, COOKIE ECHO, waits in the inbox.
    assert!(bench.step());
    // Another association has much to send, by which the task gives up the lock again and again.
    for stream in 0..3 {
        let message = Message::new(Ppid(7), vec![0; 10_000]);
        busy.told(|core, id| {
            core.machine.association_mut(id).unwrap().send(StreamId(stream), message).unwrap()
        });
    }
    bench.heard.clear();
    let mut steps = 0;
    let accepted = loop {
        assert!(bench.step(), "it is never accepted");
        steps += 1;
        if let Some(accepted) = bench.accept() {
            break accepted;
        }
    };
    assert!(steps > 1, "nothing left between the COOKIE ECHO and its answer: this proves nothing");
    accepted.abort("no more");
    while bench.step() {}
    let heard: Vec<&Event> =
        bench.heard.iter().filter(|(id, _)| *id == second).map(|(_, event)| event).collect();
    assert!(matches!(heard[..], [Event::Up { .. }, Event::Closed(Reason::PeerAborted(_))]), "{heard:?}");
}

#[test]
fn a_task_that_panics_is_known_to_have_failed_and_one_that_ends_is_not() {
    for (panics, expected) in [(true, Phase::Failed), (false, Phase::Ended)] {
        let Bench { task, listener, .. } = Bench::new();
        let shared = task.shared.clone();
        let run = std::panic::AssertUnwindSafe(move || {
            let _task = task;
            if panics {
                panic!("a fault of the task, on purpose");
            }
        });
        assert_eq!(std::panic::catch_unwind(run).is_err(), panics);
        assert_eq!(shared.lock().phase, expected);
        // Who waits for associations waits no more.
        let accepted = pin!(listener.accept()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(accepted, std::task::Poll::Ready(None)));
    }
}
