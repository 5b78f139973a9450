//! Two hosts on one machine: a client and a server, each a network namespace of this process with a TUN device, and
//! the links between the two devices. What runs in them uses the kernel's own TCP over the very links that other
//! traffic is measured on.
//!
//! Nothing appears in the host's own namespace, and everything vanishes with the [`Net`]. It needs root, or a user
//! namespace in which this process is root ([`enter_user_namespace`]), and `/dev/net/tun`. IPv4 only: the chatter by
//! which IPv6 configures itself would make no two runs alike.

use std::any::Any;
use std::io::{self, PipeReader, PipeWriter};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_pcap::Direction;
use braidftp_sim::{Link, LinkConfig, link};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags};

use crate::clock::{Capture, Clock, Lateness, wake_on_time};
use crate::sys;

/// The name of the device in either namespace.
const DEVICE: &str = "braid0";
/// Both addresses are within it.
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 252);
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
    /// The MTU of both devices, in bytes. 1500.
    pub mtu: u16,
    /// Writes what the client sends and gets to this file, as pcapng.
    pub pcap: Option<PathBuf>,
}

impl Default for TunConfig {
    fn default() -> Self {
        Self { forward: LinkConfig::default(), back: LinkConfig::default(), seed: 0, mtu: 1_500, pcap: None }
    }
}

/// Why there can be no such net here, and what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TunUnavailable(pub String);

impl TunUnavailable {
    fn new(what: &str, error: &io::Error) -> Self {
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

/// A client host, a server host, and the links between them. Dropping it takes them down.
#[derive(Debug)]
pub struct Net {
    client: Host,
    server: Host,
    counters: Arc<Mutex<Counters>>,
    running: Option<(PipeWriter, JoinHandle<()>)>,
}

impl Net {
    /// The client's address, in its own namespace.
    pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 1);
    /// The server's address, in its own namespace.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 2);

    /// Makes both hosts and starts the links.
    pub fn up(config: TunConfig) -> Result<Self, TunUnavailable> {
        let cannot = |error: io::Error| TunUnavailable::new("cannot start the links", &error);
        let (client, client_device) = Host::new("client", Self::CLIENT, config.mtu)?;
        let (server, server_device) = Host::new("server", Self::SERVER, config.mtu)?;
        let clock = Clock::start();
        let capture = match &config.pcap {
            Some(path) => Capture::create(path, &clock).map_err(|error| {
                TunUnavailable::new(&format!("cannot write the capture file {}", path.display()), &error)
            })?,
            None => Capture::none(),
        };
        let (stopped, stop) = io::pipe().map_err(cannot)?;
        let counters = Arc::new(Mutex::new(Counters::default()));
        let link =
            |config: LinkConfig, seed, id| Link::new(LinkConfig { overhead_bytes: 0, ..config }, seed, id);
        let engine = Engine {
            clock,
            client: client_device,
            server: server_device,
            forward: link(config.forward, config.seed, 0),
            back: link(config.back, config.seed, 1),
            counters: Counters::default(),
            shared: counters.clone(),
            capture,
        };
        let engine = std::thread::Builder::new().name("tun links".into()).spawn(move || engine.run(stopped));
        Ok(Self { client, server, counters, running: Some((stop, engine.map_err(cannot)?)) })
    }

    /// The host from which the forward link leads.
    pub fn client(&self) -> &Host {
        &self.client
    }

    /// The host to which the forward link leads.
    pub fn server(&self) -> &Host {
        &self.server
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the net down. What still runs in it finds its network gone.
    pub fn down(mut self) -> Counters {
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

impl Drop for Net {
    fn drop(&mut self) {
        self.end();
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace of this process, in which threads can run.
#[derive(Debug)]
pub struct Host {
    /// To the thread that lives in the namespace and starts others there.
    jobs: Sender<Job>,
}

impl Host {
    fn new(name: &str, address: Ipv4Addr, mtu: u16) -> Result<(Self, OwnedFd), TunUnavailable> {
        let (jobs, todo) = channel::<Job>();
        let (ready, made) = channel();
        let live = move || {
            let device = set_up(address, mtu);
            let is_up = device.is_ok();
            if ready.send(device).is_err() || !is_up {
                return;
            }
            for job in todo {
                // A thread started here is in the namespace too. Should none start, dropping the job tells.
                let _ = std::thread::Builder::new().spawn(job);
            }
        };
        std::thread::Builder::new()
            .name(name.into())
            .spawn(live)
            .map_err(|error| TunUnavailable::new("cannot start a thread", &error))?;
        let device = made.recv().map_err(|_| TunUnavailable("a namespace's thread ended early".into()))??;
        Ok((Self { jobs }, device))
    }

    /// Starts something on a thread of its own in this namespace. All sockets that it, and the threads that it starts,
    /// open are in the namespace.
    pub fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Running<T> {
        let (done, result) = channel();
        let job = Box::new(move || {
            // Whoever does not join does not want to know.
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        });
        // The thread lives as long as `jobs`.
        let _ = self.jobs.send(job);
        Running { result }
    }

    /// Does something on a thread of its own in this namespace and waits for it. A panic there is a panic here.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(work).join()
    }
}

/// Something that runs in a [`Host`].
#[derive(Debug)]
pub struct Running<T> {
    result: Receiver<Result<T, Box<dyn Any + Send>>>,
}

impl<T> Running<T> {
    /// Waits for it. A panic there is a panic here.
    pub fn join(self) -> T {
        match self.result.recv() {
            Ok(Ok(value)) => value,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => panic!("the kernel gives no more threads"),
        }
    }
}

/// In a fresh thread: makes the namespace and its device.
fn set_up(address: Ipv4Addr, mtu: u16) -> Result<OwnedFd, TunUnavailable> {
    let failed = |what: &'static str| move |error: io::Error| TunUnavailable::new(what, &error);
    sys::leave_network().map_err(failed("cannot make a network namespace"))?;
    sys::bring_up("lo").map_err(failed("cannot bring up the loopback of a network namespace"))?;
    let device = sys::open_tun(DEVICE).map_err(failed("cannot make a TUN device through /dev/net/tun"))?;
    sys::configure(DEVICE, address, NETMASK, mtu).map_err(failed("cannot give a TUN device its address"))?;
    Ok(device)
}

/// Makes this process root in a user namespace of its own, so that it can have a [`Net`] without being root outside.
/// Files belong to the same user as before. It must be called before any thread is started, and does nothing where
/// namespaces can be made already.
pub fn enter_user_namespace() -> Result<(), TunUnavailable> {
    use rustix::thread::{CapabilitySet, capabilities};
    let wanted = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    if capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted)) {
        return Ok(());
    }
    let failed = |error: io::Error| TunUnavailable::new("cannot make a user namespace", &error);
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    sys::leave_users().map_err(failed)?;
    std::fs::write("/proc/self/setgroups", "deny").map_err(failed)?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(failed)?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(failed)
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
