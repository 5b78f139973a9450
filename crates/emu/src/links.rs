//! The links between two TUN devices, run by the wall clock on a thread of their own. `tun` and `named`
//! create the devices and the namespaces.
//!
//! At a low packet rate the engine wakes up for each packet. Where packets come and go more often than every
//! [`NAP`], it polls both devices and both links at that interval, as network drivers do: wake-ups cost most,
//! and a packet is late by at most one interval.

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

/// The most packets read from one device before the links are polled.
const READS_IN_A_ROW: usize = 64;
/// The sleep of an engine that polls: a small part of the 0.3 ms by which packets may be late.
const NAP: Duration = Duration::from_micros(60);
/// The largest age of the published counters while polling.
const PUBLISHED_EACH: Duration = Duration::from_millis(10);

/// The configuration of the two links between the hosts.
#[derive(Debug, Clone)]
pub struct TunConfig {
    /// The link from the client to the server. The configured overhead is ignored, because these packets
    /// include their IP headers.
    pub forward: LinkConfig,
    /// The link from the server to the client.
    pub back: LinkConfig,
    /// The seed of the links' random draws.
    pub seed: u64,
    /// The number of the path: paths with one seed have independent draws. Default: 0.
    pub number: u32,
    /// The MTU of both devices, in bytes. Default: 1500.
    pub mtu: u16,
    /// A pcapng file for the packets that the client sends and receives.
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

/// Why the net is not available here, and what to try.
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

/// The counters so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// From the client to the server.
    pub forward: link::Counters,
    /// From the server to the client.
    pub back: link::Counters,
    /// Packets that left a link and that the device did not accept.
    pub unsent: u64,
    /// How late packets were sent.
    pub late: Lateness,
    /// Why the capture file is incomplete.
    pub pcap_error: Option<String>,
}

/// Running links. Dropping them stops them and removes both devices.
#[derive(Debug)]
pub struct Links {
    running: Running<Counters>,
}

impl Links {
    /// Starts the links between two TUN devices.
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

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.running.counters()
    }

    /// Stops the links and removes the devices.
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
    /// The capture at the client's device.
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
            let in_a_rush = pace.should_poll(began, moved);
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

    /// Passes packets from the devices to the links. Returns their number.
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

    /// Passes packets from the links to the devices. Returns their number and when more are due.
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

/// Decides whether the engine polls.
#[derive(Debug, Default)]
struct Pace {
    /// The last round that moved packets.
    last: Option<Time>,
    /// Whether the previous round polled.
    polling: bool,
}

impl Pace {
    /// Whether the next round may wait for a [`NAP`], after a round that began at `began` and moved `moved`
    /// packets. Polling begins with two rounds with packets close to each other and lasts as long as rounds
    /// find packets.
    fn should_poll(&mut self, began: Time, moved: usize) -> bool {
        if moved == 0 {
            self.polling = false;
            return false;
        }
        let close = self.last.is_some_and(|last| began.since(last) < NAP);
        self.last = Some(began);
        self.polling |= close;
        self.polling
    }
}

/// The next IPv4 packet, if any. The link does not look at addresses.
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

/// Writes a packet; returns whether the device accepted it.
fn write(device: &OwnedFd, packet: &Datagram) -> bool {
    rustix::io::write(device, &packet.payload).is_ok_and(|length| length == packet.payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decisions for rounds that begin at these microseconds and move so many packets.
    fn polls(rounds: &[(u64, usize)]) -> Vec<bool> {
        let mut pace = Pace::default();
        let at = |microseconds| Time::ZERO + Duration::from_micros(microseconds);
        rounds.iter().map(|(began, moved)| pace.should_poll(at(*began), *moved)).collect()
    }

    #[test]
    fn at_a_low_rate_the_engine_waits_for_each_packet() {
        // At 3 Mbit/s a packet takes 4 ms, at 100 Mbit/s 120 µs.
        assert_eq!(polls(&[(0, 1), (4_000, 1), (8_000, 1)]), [false; 3]);
        assert_eq!(polls(&[(0, 1), (120, 1), (240, 1)]), [false; 3]);
        assert_eq!(polls(&[(0, 0), (20, 0), (40, 1)]), [false; 3], "rounds without packets do not count");
    }

    #[test]
    fn polling_lasts_as_long_as_each_round_finds_packets() {
        // At 500 Mbit/s a packet takes 24 µs.
        let rounds = [(0, 1), (24, 1), (84, 2), (144, 3), (204, 0), (1_000, 1), (1_024, 1)];
        assert_eq!(polls(&rounds), [false, true, true, true, false, false, true]);
    }
}
