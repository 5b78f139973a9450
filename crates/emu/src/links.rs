//! The links between two TUN devices, run by the wall clock on a thread of their own. Whose devices they are, in which
//! namespaces, is told by `tun` and `named`.

use std::io::{self, PipeReader, PipeWriter};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_pcap::Direction;
use braidftp_sim::{Link, LinkConfig, link};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags};

use crate::clock::{Capture, Clock, Lateness, wake_on_time};

/// Packets read from one device before the links get their turn.
const READS_IN_A_ROW: usize = 64;

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
    counters: Arc<Mutex<Counters>>,
    running: Option<(PipeWriter, JoinHandle<()>)>,
}

impl Links {
    /// Starts them between two TUN devices.
    pub fn start(client: OwnedFd, server: OwnedFd, config: &TunConfig) -> Result<Self, TunUnavailable> {
        let cannot = |error: io::Error| TunUnavailable::new("cannot start the links", &error);
        let clock = Clock::start();
        let capture = match &config.pcap {
            Some(path) => Capture::create(path, &clock).map_err(|error| {
                TunUnavailable::new(&format!("cannot write the capture file {}", path.display()), &error)
            })?,
            None => Capture::none(),
        };
        let (stopped, stop) = io::pipe().map_err(cannot)?;
        let counters = Arc::new(Mutex::new(Counters::default()));
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
            shared: counters.clone(),
            capture,
        };
        let engine = std::thread::Builder::new().name("tun links".into()).spawn(move || engine.run(stopped));
        Ok(Self { counters, running: Some((stop, engine.map_err(cannot)?)) })
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops them. What still uses the devices finds its network gone.
    pub fn stop(mut self) -> Counters {
        self.end();
        self.counters()
    }

    fn end(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            // A panic there was printed there.
            let _ = thread.join();
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.end();
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
    shared: Arc<Mutex<Counters>>,
    /// What the client's device sees.
    capture: Capture,
}

impl Engine {
    fn run(mut self, stopped: PipeReader) {
        wake_on_time();
        let mut buffer = vec![0; 65_536];
        loop {
            let deadline = self.drain();
            self.publish();
            let mut fds = [
                PollFd::new(&stopped, PollFlags::IN),
                PollFd::new(&self.client, PollFlags::IN),
                PollFd::new(&self.server, PollFlags::IN),
            ];
            let late = self.clock.wait(&mut fds, deadline);
            let [stop, client, server] = fds.map(|fd| !fd.revents().is_empty());
            match late {
                Ok(Some(late)) => self.counters.late.add(late),
                Ok(None) => {}
                Err(error) => {
                    eprintln!("tun links: waiting for packets failed: {error}");
                    break;
                }
            }
            if stop {
                break;
            }
            for _ in 0..if client { READS_IN_A_ROW } else { 0 } {
                let Some(packet) = read(&self.client, &mut buffer) else { break };
                let now = self.clock.now();
                self.capture.write(|writer| writer.write_ip(now, Direction::Out, &packet.payload, ""));
                self.forward.handle(now, packet);
            }
            for _ in 0..if server { READS_IN_A_ROW } else { 0 } {
                let Some(packet) = read(&self.server, &mut buffer) else { break };
                self.back.handle(self.clock.now(), packet);
            }
        }
        self.capture.finish();
        self.publish();
    }

    fn drain(&mut self) -> Option<Time> {
        let now = self.clock.now();
        let forward = loop {
            match self.forward.poll(now) {
                Output::Send(packet) => self.counters.unsent += u64::from(!write(&self.server, &packet)),
                Output::Event(never) => match never {},
                Output::Wait(next) => break next,
            }
        };
        let back = loop {
            match self.back.poll(now) {
                Output::Send(packet) => {
                    self.counters.unsent += u64::from(!write(&self.client, &packet));
                    self.capture.write(|writer| writer.write_ip(now, Direction::In, &packet.payload, ""));
                }
                Output::Event(never) => match never {},
                Output::Wait(next) => break next,
            }
        };
        forward.into_iter().chain(back).min()
    }

    fn publish(&mut self) {
        self.counters.forward = self.forward.counters();
        self.counters.back = self.back.counters();
        self.counters.pcap_error.clone_from(&self.capture.error);
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.counters);
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
