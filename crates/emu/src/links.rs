//! The links between TUN devices, run by the wall clock on a thread of their own. `tun`, `named` and `mesh`
//! create the devices and the namespaces. A packet passes the links of its device's [`Route`], one after another.
//!
//! At a low packet rate the engine wakes up for each packet. Where packets come and go more often than every
//! [`NAP`], it polls both devices and both links at that interval, as network drivers do: wake-ups cost most,
//! and a packet is late by at most one interval.

use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_pcap::Direction;
use braidftp_sim::LinkConfig;
use braidftp_sim::link::{self, HasDatagram, LinkOf};
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
    running: Running<Passed>,
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
            IpLink::new(LinkConfig { overhead_bytes: 0, ..config.clone() }, seed, id)
        };
        let engine = Engine {
            clock,
            devices: vec![client, server],
            routes: vec![Route { via: vec![0], to: 1 }, Route { via: vec![1], to: 0 }],
            links: vec![
                link(&config.forward, config.seed, 2 * config.number),
                link(&config.back, config.seed, 2 * config.number + 1),
            ],
            changes: VecDeque::new(),
            passed: Passed::default(),
            capture,
        };
        Ok(Self { running: engine.start()? })
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        Counters::of(self.running.counters())
    }

    /// Stops the links and removes the devices.
    pub fn stop(self) -> Counters {
        Counters::of(self.running.stop())
    }
}

impl Counters {
    fn of(passed: Passed) -> Self {
        let [forward, back] = [0, 1].map(|link| passed.links.get(link).copied().unwrap_or_default());
        let Passed { unsent, late, pcap_error, .. } = passed;
        Self { forward, back, unsent, late, pcap_error }
    }
}

/// The links that the packets of a device pass, in order, and the device that they reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The indices of the links; one at least.
    pub(crate) via: Vec<usize>,
    /// The index of the device.
    pub(crate) to: usize,
}

/// What passed all links and devices so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    /// The counters of each link.
    pub links: Vec<link::Counters>,
    /// The packets of each device.
    pub devices: Vec<Device>,
    /// Packets that left their last link and that the device did not accept.
    pub unsent: u64,
    /// How late packets were sent.
    pub late: Lateness,
    /// Why the capture file is incomplete.
    pub pcap_error: Option<String>,
}

/// The packets of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Device {
    /// When the host sent its first packet.
    pub first_sent: Option<Duration>,
    /// When the host received its last segment of TCP with data.
    pub last_data: Option<Duration>,
    /// Bytes of user data in the segments of TCP that the host received, repeated ones included.
    pub data_bytes: u64,
}

/// A change of a link while packets pass.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, after the start.
    pub at: Duration,
    /// The index of the link.
    pub link: usize,
    /// Its new properties.
    pub config: LinkConfig,
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) clock: Clock,
    pub(crate) devices: Vec<OwnedFd>,
    /// The route of each device's packets.
    pub(crate) routes: Vec<Route>,
    pub(crate) links: Vec<IpLink>,
    /// The changes that are due, in order of time.
    pub(crate) changes: VecDeque<Change>,
    pub(crate) passed: Passed,
    /// The capture at the first device.
    pub(crate) capture: Capture,
}

impl Engine {
    /// Runs it on a thread of its own.
    pub(crate) fn start(self) -> Result<Running<Passed>, TunUnavailable> {
        Running::start("tun links", move |stopped, shown| self.run(&stopped, &shown))
            .map_err(|error| TunUnavailable::new("cannot start the links", &error))
    }

    fn run(mut self, stopped: &PipeReader, shown: &Shown<Passed>) {
        wake_on_time();
        self.passed.devices = vec![Device::default(); self.devices.len()];
        let mut buffer = vec![0; 65_536];
        let mut pace = Pace::default();
        let mut published = Time::ZERO;
        let mut ready = vec![true; self.devices.len()];
        loop {
            let began = self.clock.now();
            self.change(began);
            let mut moved = self.take_in(&mut buffer, &ready);
            let (sent, deadline) = self.drain();
            moved += sent;
            let in_a_rush = pace.should_poll(began, moved);
            if !in_a_rush || began.since(published) >= PUBLISHED_EACH {
                self.publish(shown);
                published = began;
            }
            let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
            if !in_a_rush {
                fds.extend(self.devices.iter().map(|device| PollFd::new(device, PollFlags::IN)));
            }
            let waited = self.clock.wait(&mut fds, if in_a_rush { Some(began + NAP) } else { deadline });
            let has_ended = !fds[0].revents().is_empty();
            for (device, ready) in ready.iter_mut().enumerate() {
                *ready = fds.get(device + 1).is_none_or(|fd| !fd.revents().is_empty());
            }
            if let Err(error) = waited {
                eprintln!("tun links: waiting for packets failed: {error}");
                break;
            }
            if has_ended {
                break;
            }
            let now = self.clock.now();
            if let Some(deadline) = deadline
                && deadline <= now
            {
                self.passed.late.add(now.since(deadline));
            }
        }
        self.capture.finish();
        self.publish(shown);
    }

    /// Applies the changes that are due.
    fn change(&mut self, now: Time) {
        while self.changes.front().is_some_and(|change| Time::ZERO + change.at <= now) {
            let Some(Change { link, config, .. }) = self.changes.pop_front() else { break };
            self.links[link].set_config(now, config);
        }
    }

    /// Passes packets from the devices to the links. Returns their number.
    fn take_in(&mut self, buffer: &mut [u8], ready: &[bool]) -> usize {
        let mut packets = 0;
        for (number, device) in self.devices.iter().enumerate().filter(|(number, _)| ready[*number]) {
            for _ in 0..READS_IN_A_ROW {
                let Some(mut packet) = read(device, buffer) else { break };
                let now = self.clock.now();
                if number == 0 {
                    self.capture.write(|writer| writer.write_ip(now, Direction::Out, &packet.0.payload, ""));
                }
                self.passed.devices[number].first_sent.get_or_insert(now.since(Time::ZERO));
                packet.0.to = place(number, 0);
                self.links[self.routes[number].via[0]].handle(now, packet);
                packets += 1;
            }
        }
        packets
    }

    /// Passes packets from the links to the next ones, or to the devices. Returns their number and when more are due.
    fn drain(&mut self) -> (usize, Option<Time>) {
        let now = self.clock.now();
        let mut packets = 0;
        loop {
            let (mut forwarded, mut next) = (0, self.changes.front().map(|change| Time::ZERO + change.at));
            for link in 0..self.links.len() {
                loop {
                    match self.links[link].poll(now) {
                        Output::Send(packet) => forwarded += usize::from(self.forward(now, packet)),
                        Output::Event(never) => match never {},
                        Output::Wait(due) => {
                            next = next.into_iter().chain(due).min();
                            break;
                        }
                    }
                    packets += 1;
                }
            }
            if forwarded == 0 {
                return (packets, next);
            }
        }
    }

    /// Passes a packet to the next link of its route, or to its device. Returns whether there was a next link.
    fn forward(&mut self, now: Time, mut packet: IpPacket) -> bool {
        let (from, hop) = at(packet.0.to);
        let route = &self.routes[from];
        if let Some(next) = route.via.get(hop + 1) {
            packet.0.to = place(from, hop + 1);
            self.links[*next].handle(now, packet);
            return true;
        }
        let to = route.to;
        if write(&self.devices[to], &packet) {
            let data = tcp_data(&packet.0.payload);
            let device = &mut self.passed.devices[to];
            device.data_bytes += data as u64;
            if data > 0 {
                device.last_data = Some(now.since(Time::ZERO));
            }
        } else {
            self.passed.unsent += 1;
        }
        if to == 0 {
            self.capture.write(|writer| writer.write_ip(now, Direction::In, &packet.0.payload, ""));
        }
        false
    }

    fn publish(&mut self, shown: &Shown<Passed>) {
        self.passed.links.clear();
        self.passed.links.extend(self.links.iter().map(IpLink::counters));
        self.passed.pcap_error.clone_from(&self.capture.error);
        shown.show(&self.passed);
    }
}

/// A packet's device and link, in place of an address, at which links do not look.
fn place(device: usize, hop: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(hop as u32)), device as u16)
}

/// The device and the link of a packet.
fn at(place: SocketAddr) -> (usize, usize) {
    match place.ip() {
        IpAddr::V4(hop) => (place.port().into(), hop.to_bits() as usize),
        IpAddr::V6(_) => unreachable!("`place` makes addresses of IPv4"),
    }
}

/// The bytes of user data in a packet of IPv4 if it is a segment of TCP (RFC 791 section 3.1, RFC 9293 section 3.1).
fn tcp_data(packet: &[u8]) -> usize {
    const TCP: u8 = 6;
    let header = usize::from(packet.first().unwrap_or(&0) & 0x0f) * 4;
    match (packet.get(9), packet.get(2..4), packet.get(header + 12)) {
        (Some(&TCP), Some(&[high, low]), Some(offset)) => {
            usize::from(u16::from_be_bytes([high, low])).saturating_sub(header + usize::from(offset >> 4) * 4)
        }
        _ => 0,
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

/// An IPv4 packet, as the payload of a datagram.
#[derive(Debug, Clone)]
pub(crate) struct IpPacket(Datagram);

/// A link for IPv4 packets.
pub(crate) type IpLink = LinkOf<IpPacket>;

impl HasDatagram for IpPacket {
    fn datagram(&self) -> &Datagram {
        &self.0
    }

    fn datagram_mut(&mut self) -> &mut Datagram {
        &mut self.0
    }

    /// The flag Don't Fragment of the IPv4 header is not set (RFC 791 §3.1).
    fn may_be_fragmented(&self) -> bool {
        self.0.payload.get(6).is_some_and(|flags| flags & 0x40 == 0)
    }
}

/// The next IPv4 packet, if any. The link does not look at addresses.
fn read(device: &OwnedFd, buffer: &mut [u8]) -> Option<IpPacket> {
    loop {
        let length = rustix::io::read(device, &mut *buffer).ok()?;
        let packet = &buffer[..length];
        if packet.first().is_some_and(|byte| byte >> 4 == 4) {
            let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            let payload = Bytes::copy_from_slice(packet);
            return Some(IpPacket(Datagram { from: nowhere, to: nowhere, ecn: Ecn::NotEct, payload }));
        }
    }
}

/// Writes a packet; returns whether the device accepted it.
fn write(device: &OwnedFd, IpPacket(packet): &IpPacket) -> bool {
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
    fn a_packet_without_dont_fragment_passes_a_small_mtu() {
        for (flags, passes) in [(0x40, false), (0, true)] {
            let mut payload = vec![0x45; 1_500];
            payload[6] = flags;
            let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            let datagram = Datagram { from: nowhere, to: nowhere, ecn: Ecn::NotEct, payload: payload.into() };
            let config = LinkConfig { mtu: Some(1_000), overhead_bytes: 0, ..LinkConfig::default() };
            let mut link = IpLink::new(config, 1, 0);
            link.handle(Time::ZERO, IpPacket(datagram));
            assert_eq!(matches!(link.poll(Time::ZERO), Output::Send(_)), passes, "{flags:#x}");
        }
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
