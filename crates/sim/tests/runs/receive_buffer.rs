//! Automatic receive-buffer growth: as fast as a large buffer over one path and over two dissimilar ones,
//! bounded by its limit, and still limiting the sender to a slow reader's rate.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{
    AllowedPath, Announce, AssociationId, Config, Connect, Endpoint, Event, Message, Multipath, Ppid,
    Profile, Stats, StreamId,
};
use braidftp_sim::link::LinkConfig;
use braidftp_sim::topology::{self, Both};
use braidftp_sim::{App, Endpoints, Host, World};
use bytes::Bytes;

const PORT: u16 = 21;
const MESSAGE: usize = 16 << 10;
/// The reading interval of a slow reader.
const SIP_EVERY: Duration = Duration::from_millis(100);

/// Sends without end, or reads: everything available at once, or a number of bytes each tenth of a second.
#[derive(Debug, Default)]
struct Side {
    sends: bool,
    sips_bytes: Option<usize>,
    next_read: Option<Time>,
    id: Option<AssociationId>,
    read_bytes: u64,
    most_held: usize,
}

impl Side {
    fn read(&mut self, endpoint: &mut Endpoint, most: usize) {
        let Some(association) = self.id.and_then(|id| endpoint.association_mut(id)) else { return };
        self.most_held = self.most_held.max(association.stats().unread_bytes);
        let mut left = most;
        while left > 0
            && let Some(piece) = association.recv(StreamId(0))
        {
            self.read_bytes += piece.len() as u64;
            left = left.saturating_sub(piece.len());
        }
    }
}

impl App for Side {
    fn on_event(&mut self, _now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        self.id = Some(id);
        match event {
            Event::Up { .. } | Event::Writable if self.sends => {
                let Some(association) = endpoints.sctp.association_mut(id) else { return };
                let message = || Message::new(Ppid(0), Bytes::from_static(&[0x5a; MESSAGE]));
                while association.send(StreamId(0), message()).is_ok() {}
            }
            Event::Readable(_) if self.sips_bytes.is_none() => self.read(&mut endpoints.sctp, usize::MAX),
            _ => {}
        }
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        let sip = self.sips_bytes?;
        let due = *self.next_read.get_or_insert(now);
        if due <= now {
            self.read(&mut endpoints.sctp, sip);
            self.next_read = Some(now + SIP_EVERY);
        }
        self.next_read
    }
}

struct Outcome {
    /// The goodput from the fifth second on, in bits per second.
    goodput: f64,
    receiver: Stats,
    most_held: usize,
}

fn run(config: &Config, paths: &[&str], sips_bytes: Option<usize>) -> Outcome {
    let config = config.clone().with(|c| {
        c.paths.allowed = (0..paths.len() as u8)
            .map(|net| AllowedPath {
                local: topology::address(net, 1),
                peer: Some(topology::address(net, 2)),
            })
            .collect()
    });
    let config = Arc::new(config);
    let ends =
        [1, 2].map(|host| (0..paths.len() as u8).map(|net| topology::address(net, host)).collect::<Vec<_>>());
    let sockets = |ips: &[IpAddr]| ips.iter().map(|ip| SocketAddr::new(*ip, 0)).collect::<Vec<_>>();
    let mut server = Endpoint::new([2; 32]);
    server.set_addresses(sockets(&ends[1]), Announce::Always);
    let listening = Config::clone(&config).with(|c| c.paths.allowed = Vec::new());
    server.listen(PORT, Arc::new(listening)).expect("a fresh endpoint listens nowhere");
    let mut client = Endpoint::new([1; 32]);
    let connect = Connect {
        local: sockets(&ends[0]),
        peer: sockets(&ends[1]),
        source_port: None,
        destination_port: PORT,
        config,
    };
    client.connect(Time::ZERO, connect).expect("there are free ports");
    let mut world = World::new(1);
    let links: Vec<Both<LinkConfig>> =
        paths.iter().map(|text| [0; 2].map(|_| text.parse().expect("a link"))).collect();
    topology::paths(&mut world, &ends[0], &ends[1], &links);
    world.add_host(Host::new(client, Side { sends: true, ..Side::default() }), ends[0].clone());
    let reader = Side { sips_bytes, ..Side::default() };
    let reader = world.add_host(Host::new(server, reader), ends[1].clone());
    let read_by = |second, world: &mut World<_>| {
        world.run_until(Time::ZERO + Duration::from_secs(second));
        let host: &Host<Side> = world.host(reader);
        host.app().read_bytes
    };
    let (early, late) = (read_by(5, &mut world), read_by(15, &mut world));
    let host = world.host(reader);
    let id = host.app().id.expect("the association came about");
    Outcome {
        goodput: (late - early) as f64 * 8.0 / 10.0,
        receiver: host.endpoint().association(id).expect("nothing removes it").stats(),
        most_held: host.app().most_held,
    }
}

const AMPLE: usize = 32 << 20;

fn fixed(bytes: usize) -> Config {
    Profile::Modern.config().with(|c| {
        c.memory.receive_buffer_bytes = bytes;
        c.memory.receive_buffer_max_bytes = None;
        c.memory.send_buffer_bytes = AMPLE;
        c.memory.send_buffer_max_bytes = None;
    })
}

/// Growing from 64 KiB; the send buffer beyond the flight likewise.
fn tuned(max: usize) -> Config {
    Profile::Modern.config().with(|c| {
        c.memory.receive_buffer_bytes = 64 << 10;
        c.memory.receive_buffer_max_bytes = Some(max);
        c.memory.send_buffer_bytes = 256 << 10;
        c.memory.send_buffer_max_bytes = Some(AMPLE);
    })
}

#[test]
fn a_growing_buffer_is_as_fast_as_a_large_one_over_a_long_path() {
    let path = ["rate=10mbit,delay=150ms,queue=200kB"];
    let ample = run(&fixed(AMPLE), &path, None);
    let grown = run(&tuned(AMPLE), &path, None);
    let small = run(&fixed(64 << 10), &path, None);
    assert!(grown.goodput >= 0.98 * ample.goodput, "{} of {}", grown.goodput, ample.goodput);
    assert!(small.goodput < 0.2 * ample.goodput, "{} of {}", small.goodput, ample.goodput);
    // Twice 10 Mbit/s over 300 ms is 750 kB, plus the queue and the overshoot of slow start.
    assert!(grown.receiver.receive_buffer_bytes < 4 << 20, "{}", grown.receiver.receive_buffer_bytes);
}

#[test]
fn a_growing_buffer_is_as_fast_as_a_large_one_over_dissimilar_paths() {
    let paths = ["rate=10mbit,delay=150ms,queue=200kB", "rate=4mbit,delay=15ms,queue=40kB"];
    let both = |config: Config| config.with(|c| c.paths.multipath = Some(Multipath::default()));
    let ample = run(&both(fixed(AMPLE)), &paths, None);
    let grown = run(&both(tuned(AMPLE)), &paths, None);
    assert!(grown.goodput >= 0.97 * ample.goodput, "{} of {}", grown.goodput, ample.goodput);
    assert!(grown.receiver.receive_buffer_bytes < 5 << 20, "{}", grown.receiver.receive_buffer_bytes);
}

#[test]
fn a_growing_buffer_stays_below_its_limit() {
    let path = ["rate=20mbit,delay=150ms,queue=1MB"];
    let max = 256 << 10;
    let grown = run(&tuned(max), &path, None);
    assert_eq!(grown.receiver.receive_buffer_bytes, max);
    assert!(grown.most_held <= max, "{} held", grown.most_held);
}

#[test]
fn a_slow_reader_limits_the_sender() {
    // 800 kbit/s of 10 Mbit/s.
    let slow = run(&tuned(AMPLE), &["rate=10mbit,delay=20ms,queue=1MB"], Some(10_000));
    assert!((600_000.0..1_600_000.0).contains(&slow.goodput), "{}", slow.goodput);
    assert!(slow.receiver.receive_buffer_bytes <= 256 << 10, "{}", slow.receiver.receive_buffer_bytes);
    assert!(slow.most_held <= 256 << 10, "{} held", slow.most_held);
}
