//! The links between two TUN devices, run by the wall clock on a thread of their own. Whose devices they are, in which
//! namespaces, is told by `tun` and `named`.
//!
//! At a low rate the engine wakes for each packet. Where packets come and go faster than every [`NAP`] it looks after
//! both devices and both links once in so long, as network drivers do: waking is what costs most, and a packet is late by
//! no more than that.

use std::io::{self, PipeReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_pcap::Direction;
use braidftp_sim::{Link, LinkConfig, link};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags};

use crate::clock::{Capture, Clock, Lateness, wake_on_time};
use crate::running::{Running, Shown};

/// Packets read from one device before the links get their turn.
const READS_IN_A_ROW: usize = 64;
/// How long an engine in a rush sleeps, whatever comes. Of the 0.3 ms by which packets may be late it is a small part.
const NAP: Duration = Duration::from_micros(60);
/// How old the counters that others see may be, in a rush.
const PUBLISHED_EACH: Duration = Duration::from_millis(10);

/// What lies between the two hosts.
#[derive(Debug, Clone)]
pub struct TunConfig {
    /// The link from the client to the server. What is configured as overhead does not count: IP headers are there.
    pub forward: LinkConfig,
    /// The link from the server to the client.
    pub back: LinkConfig,
    /// What steers the links' chances.
    pub seed: u64,
    /// Which of several paths this is: each has chances of its own under the same seed. 0.
    pub number: u32,
    /// The MTU of both devices, in bytes. 1500.
    pub mtu: u16,
    /// Writes what the client sends and gets to this file, as pcapng.
    pub pcap: Option<PathBuf>,
}

impl Default for TunConfig {
    fn default() -> Self {
        Self {
            forward: LinkConfig::default(),
            back: LinkConfig::default(),
            seed: 0,
            number: 0,
            mtu: 1_500,
            pcap: None,
        }
    }
}

/// Why there can be no such net here, and what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TunUnavailable(pub String);

impl TunUnavailable {
    pub(crate) fn new(what: &str, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "; run as root, or where user namespaces are allowed and /dev/net/tun may be opened by all"
            }
            io::ErrorKind::NotFound => {
                "; load the driver (`modprobe tun` as root), or give the container the device (`--device /dev/net/tun`)"
            }
            _ => "",
        };
        Self(format!("{what}: {error}{hint}"))
    }
}

/// What happened so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// From the client to the server.
    pub forward: link::Counters,
    /// From the server to the client.
    pub back: link::Counters,
    /// Packets that came out of a link and that the device did not take.
    pub unsent: u64,
    /// How late packets left.
    pub late: Lateness,
    /// Why the capture file is not whole.
    pub pcap_error: Option<String>,
}

/// The links at work. Dropping them stops them, and both devices are gone.
#[derive(Debug)]
pub struct Links {
    running: Running<Counters>,
}

impl Links {
    /// Starts them between two TUN devices.
    pub fn start(client: OwnedFd, server: OwnedFd, config: &TunConfig) -> Result<Self, TunUnavailable> {
        let clock = Clock::start();
        let capture = match &config.pcap {
            Some(path) => Capture::create(path, &clock).map_err(|error| {
                TunUnavailable::new(&format!("cannot write the capture file {}", path.display()), &error)
            })?,
            None => Capture::none(),
        };
        let link = |config: &LinkConfig, seed, id| {
            Link::new(LinkConfig { overhead_bytes: 0, ..config.clone() }, seed, id)
        };
        let engine = Engine {
            clock,
            client,
            server,
            forward: link(&config.forward, config.seed, 2 * config.number),
            back: link(&config.back, config.seed, 2 * config.number + 1),
            counters: Counters::default(),
            capture,
        };
        let running = Running::start("tun links", move |stopped, shown| engine.run(&stopped, &shown))
            .map_err(|error| TunUnavailable::new("cannot start the links", &error))?;
        Ok(Self { running })
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.running.counters()
    }

    /// Stops them. What still uses the devices finds its network gone.
    pub fn stop(self) -> Counters {
        self.running.stop()
    }
}

#[derive(Debug)]
struct Engine {
    clock: Clock,
    client: OwnedFd,
    server: OwnedFd,
    forward: Link,
    back: Link,
    counters: Counters,
    /// What the client's device sees.
    capture: Capture,
}

impl Engine {
    fn run(mut self, stopped: &PipeReader, shown: &Shown<Counters>) {
        wake_on_time();
        let mut buffer = vec![0; 65_536];
        let mut pace = Pace::default();
        let mut published = Time::ZERO;
        let mut ready = [true; 2];
        loop {
            let began = self.clock.now();
            let mut moved = self.take_in(&mut buffer, ready);
            let (sent, deadline) = self.drain();
            moved += sent;
            let in_a_rush = pace.is_a_rush(began, moved);
            if !in_a_rush || began.since(published) >= PUBLISHED_EACH {
                self.publish(shown);
                published = began;
            }
            let mut fds = [
                PollFd::new(stopped, PollFlags::IN),
                PollFd::new(&self.client, PollFlags::IN),
                PollFd::new(&self.server, PollFlags::IN),
            ];
            let waited = if in_a_rush {
                self.clock.wait(&mut fds[..1], Some(began + NAP))
            } else {
                self.clock.wait(&mut fds, deadline)
            };
            let [stop, client, server] = fds.map(|fd| !fd.revents().is_empty());
            if let Err(error) = waited {
                eprintln!("tun links: waiting for packets failed: {error}");
                break;
            }
            if stop {
                break;
            }
            let now = self.clock.now();
            if let Some(deadline) = deadline
                && deadline <= now
            {
                self.counters.late.add(now.since(deadline));
            }
            ready = if in_a_rush { [true; 2] } else { [client, server] };
        }
        self.capture.finish();
        self.publish(shown);
    }

    /// Gives the links what the devices have. Says how many packets that were.
    fn take_in(&mut self, buffer: &mut [u8], [client, server]: [bool; 2]) -> usize {
        let mut packets = 0;
        for _ in 0..if client { READS_IN_A_ROW } else { 0 } {
            let Some(packet) = read(&self.client, buffer) else { break };
            let now = self.clock.now();
            self.capture.write(|writer| writer.write_ip(now, Direction::Out, &packet.payload, ""));
            self.forward.handle(now, packet);
            packets += 1;
        }
        for _ in 0..if server { READS_IN_A_ROW } else { 0 } {
            let Some(packet) = read(&self.server, buffer) else { break };
            self.back.handle(self.clock.now(), packet);
            packets += 1;
        }
        packets
    }

    /// Gives the devices what comes out of the links. Says how many packets that were, and when more come out.
    fn drain(&mut self) -> (usize, Option<Time>) {
        let now = self.clock.now();
        let mut packets = 0;
        let forward = loop {
            match self.forward.poll(now) {
                Output::Send(packet) => {
                    packets += 1;
                    self.counters.unsent += u64::from(!write(&self.server, &packet));
                }
                Output::Event(never) => match never {},
                Output::Wait(next) => break next,
            }
        };
        let back = loop {
            match self.back.poll(now) {
                Output::Send(packet) => {
                    packets += 1;
                    self.counters.unsent += u64::from(!write(&self.client, &packet));
                    self.capture.write(|writer| writer.write_ip(now, Direction::In, &packet.payload, ""));
                }
                Output::Event(never) => match never {},
                Output::Wait(next) => break next,
            }
        };
        (packets, forward.into_iter().chain(back).min())
    }

    fn publish(&mut self, shown: &Shown<Counters>) {
        self.counters.forward = self.forward.counters();
        self.counters.back = self.back.counters();
        self.counters.pcap_error.clone_from(&self.capture.error);
        shown.show(&self.counters);
    }
}

/// How fast packets come and go.
#[derive(Debug, Default)]
struct Pace {
    /// When a round began in which some did.
    last: Option<Time>,
    /// Whether the round before was in a rush.
    rushing: bool,
}

impl Pace {
    /// Whether the next round can wait for a [`NAP`], after one that began then and moved so many packets: a round in a
    /// rush moves some, and one begins with two rounds that do so close to each other.
    fn is_a_rush(&mut self, began: Time, moved: usize) -> bool {
        if moved == 0 {
            self.rushing = false;
            return false;
        }
        let close = self.last.is_some_and(|last| began.since(last) < NAP);
        self.last = Some(began);
        self.rushing |= close;
        self.rushing
    }
}

/// The next IPv4 packet, if one is there. The link does not look at addresses.
fn read(device: &OwnedFd, buffer: &mut [u8]) -> Option<Datagram> {
    loop {
        let length = rustix::io::read(device, &mut *buffer).ok()?;
        let packet = &buffer[..length];
        if packet.first().is_some_and(|byte| byte >> 4 == 4) {
            let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            let payload = Bytes::copy_from_slice(packet);
            return Some(Datagram { from: nowhere, to: nowhere, ecn: Ecn::NotEct, payload });
        }
    }
}

/// Whether the device took it.
fn write(device: &OwnedFd, packet: &Datagram) -> bool {
    rustix::io::write(device, &packet.payload).is_ok_and(|length| length == packet.payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of rounds that begin at these microseconds and move so many packets.
    fn rushes(rounds: &[(u64, usize)]) -> Vec<bool> {
        let mut pace = Pace::default();
        let at = |microseconds| Time::ZERO + Duration::from_micros(microseconds);
        rounds.iter().map(|(began, moved)| pace.is_a_rush(at(*began), *moved)).collect()
    }

    #[test]
    fn packets_far_apart_are_waited_for_one_by_one() {
        // 3 Mbit/s is a packet in 4 ms, 100 Mbit/s one in 120 µs.
        assert_eq!(rushes(&[(0, 1), (4_000, 1), (8_000, 1)]), [false; 3]);
        assert_eq!(rushes(&[(0, 1), (120, 1), (240, 1)]), [false; 3]);
        assert_eq!(rushes(&[(0, 0), (20, 0), (40, 1)]), [false; 3], "rounds without a packet are none");
    }

    #[test]
    fn a_rush_lasts_as_long_as_each_nap_finds_packets() {
        // 500 Mbit/s is a packet in 24 µs.
        let rounds = [(0, 1), (24, 1), (84, 2), (144, 3), (204, 0), (1_000, 1), (1_024, 1)];
        assert_eq!(rushes(&rounds), [false, true, true, true, false, false, true]);
    }
}
