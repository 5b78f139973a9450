//! Two hosts on one machine: a client and a server, each a network namespace of this process with a TUN
//! device, and the links between the devices. Programs in them use the kernel's TCP over the same links that
//! other traffic is measured on.
//!
//! Nothing appears in the host's namespace, and everything is removed with the [`Net`]. Requires
//! `/dev/net/tun`, and root or a user namespace in which this process is root ([`enter_user_namespace`]).
//! IPv4 only: IPv6 autoconfiguration would make runs differ.

use std::any::Any;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};

pub use crate::links::{Counters, Links, TunConfig, TunUnavailable};
use crate::sys;

/// The netmask of both addresses.
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 252);

/// A client host, a server host, and the links between them. Dropping the value removes all of them.
#[derive(Debug)]
pub struct Net {
    client: Host,
    server: Host,
    links: Links,
}

impl Net {
    /// The client's address, in its own namespace.
    pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 1);
    /// The server's address, in its own namespace.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 2);
    /// The network that both are in.
    pub const NETWORK: &str = "10.199.0.0/30";
    /// The name of the device in either namespace.
    pub const DEVICE: &str = "braid0";

    /// Creates both hosts and starts the links.
    pub fn up(config: TunConfig) -> Result<Self, TunUnavailable> {
        let (client, client_device) = Host::new("client", &[(Self::DEVICE, Self::CLIENT)], config.mtu)?;
        let (server, server_device) = Host::new("server", &[(Self::DEVICE, Self::SERVER)], config.mtu)?;
        let [client_device, server_device] =
            [client_device, server_device].map(|mut made| made.pop().expect("each host has a device"));
        Ok(Self { client, server, links: Links::start(client_device, server_device, &config)? })
    }

    /// The host at the begin of the forward link.
    pub fn client(&self) -> &Host {
        &self.client
    }

    /// The host at the end of the forward link.
    pub fn server(&self) -> &Host {
        &self.server
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.links.counters()
    }

    /// Removes the net.
    pub fn down(self) -> Counters {
        self.links.stop()
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace of this process in which threads can run.
#[derive(Debug)]
pub struct Host {
    /// The channel to the thread that lives in the namespace and starts others there.
    jobs: Sender<Job>,
}

impl Host {
    /// Creates a host with these devices: names and addresses.
    pub(crate) fn new(
        name: &str,
        devices: &[(&str, Ipv4Addr)],
        mtu: u16,
    ) -> Result<(Self, Vec<OwnedFd>), TunUnavailable> {
        let devices: Vec<(String, Ipv4Addr)> =
            devices.iter().map(|(name, address)| ((*name).to_owned(), *address)).collect();
        let (jobs, todo) = channel::<Job>();
        let (ready, made) = channel();
        let live = move || {
            let made = set_up(&devices, mtu);
            let is_up = made.is_ok();
            if ready.send(made).is_err() || !is_up {
                return;
            }
            for job in todo {
                // A thread started here is in the namespace too. If none starts, dropping the job reports it.
                let _ = std::thread::Builder::new().spawn(job);
            }
        };
        std::thread::Builder::new()
            .name(name.into())
            .spawn(live)
            .map_err(|error| TunUnavailable::new("cannot start a thread", &error))?;
        let made = made.recv().map_err(|_| TunUnavailable("a namespace's thread ended early".into()))??;
        Ok((Self { jobs }, made))
    }

    /// Runs `work` on a new thread in this namespace. Sockets opened by that thread and the threads it starts
    /// belong to the namespace.
    pub fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Running<T> {
        let (done, result) = channel();
        let job = Box::new(move || {
            // The receiver is gone if nobody joins.
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        });
        // The thread lives as long as `jobs`.
        let _ = self.jobs.send(job);
        Running { result }
    }

    /// Runs `work` on a new thread in this namespace and waits for it. A panic there is passed on.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(work).join()
    }
}

/// Work that runs in a [`Host`].
#[derive(Debug)]
pub struct Running<T> {
    result: Receiver<Result<T, Box<dyn Any + Send>>>,
}

impl<T> Running<T> {
    /// Waits for the work. A panic there is passed on.
    pub fn join(self) -> T {
        match self.result.recv() {
            Ok(Ok(value)) => value,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => panic!("the kernel refuses to start a thread"),
        }
    }
}

/// Creates the namespace and its devices; must run in a new thread.
fn set_up(devices: &[(String, Ipv4Addr)], mtu: u16) -> Result<Vec<OwnedFd>, TunUnavailable> {
    let failed = |what: &'static str| move |error: io::Error| TunUnavailable::new(what, &error);
    sys::leave_network().map_err(failed("cannot make a network namespace"))?;
    sys::bring_up("lo").map_err(failed("cannot bring up the loopback of a network namespace"))?;
    let device = |(name, address): &(String, Ipv4Addr)| {
        let device = sys::open_tun(name).map_err(failed("cannot make a TUN device through /dev/net/tun"))?;
        sys::configure(name, *address, NETMASK, mtu)
            .map_err(failed("cannot give a TUN device its address"))?;
        Ok(device)
    };
    devices.iter().map(device).collect()
}

/// Makes this process root in a new user namespace, so that it can create a [`Net`] without being root
/// outside. File ownership is unchanged. Must be called before any thread is started; does nothing where
/// namespaces can already be created.
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
