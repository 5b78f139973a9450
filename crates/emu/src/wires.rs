//! Two hosts on one machine, joined by several wires that can be cut: named network namespaces and veth
//! pairs, made with `ip` and `tc` of Linux's iproute2. [`Wires::command`] runs programs in them.
//!
//! Requires root. The names contain the process id, so that several instances can exist at a time. Everything
//! is removed with the [`Wires`], or, where the process was killed, by the next instance. A wire has a rate
//! and a queue only; for loss and delay see `tun.rs`.
//!
//! This file uses the standard library only, so that `xtask`, which imports no crate of this workspace, can
//! include it.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// A wire: an address at either end, of one family and in a network of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// The client's address on it.
    pub client: IpAddr,
    /// The server's address on it.
    pub server: IpAddr,
}

impl Wire {
    /// The `n`th wire, over IPv4: 10.1.`n`.2 is the client, 10.1.`n`.1 the server.
    pub fn v4(n: u8) -> Self {
        Self { client: [10, 1, n, 2].into(), server: [10, 1, n, 1].into() }
    }

    /// The `n`th wire, over IPv6: fd00:1:`n`::2 is the client, fd00:1:`n`::1 the server.
    pub fn v6(n: u8) -> Self {
        let end = |host| IpAddr::from([0xfd00, 1, n.into(), 0, 0, 0, 0, host]);
        Self { client: end(2), server: end(1) }
    }
}

/// The prefix of host names, before the process id.
pub const LEADING: &str = "bw";

/// One of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// How a wire is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// An interface goes down: that host is notified, and the other loses the carrier.
    Down(End),
    /// Packets are dropped silently.
    Silent,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down(End::Client) => "the client's interface goes down",
            Self::Down(End::Server) => "the server's interface goes down",
            Self::Silent => "packets vanish silently",
        })
    }
}

/// Why the hosts cannot be created here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoWires(String);

impl fmt::Display for NoWires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; network namespaces require root and the programs `ip` and `tc` (Debian: iproute2)",
            self.0
        )
    }
}

impl std::error::Error for NoWires {}

/// Two hosts and the wires between them.
#[derive(Debug)]
pub struct Wires {
    name: String,
    wires: Vec<Wire>,
}

impl Wires {
    /// Creates both hosts. `rate`, if any, is the rate of each wire and direction in the notation of `tc`:
    /// `40mbit`.
    pub fn up(wires: &[Wire], rate: Option<&str>) -> Result<Self, NoWires> {
        sweep();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // From here on dropping the value removes what was created.
        let it = Self { name: format!("{LEADING}{}-{count}", std::process::id()), wires: wires.to_vec() };
        for end in [End::Client, End::Server] {
            ip(&["netns", "add", &it.namespace(end)])?;
            it.ip(end, &["link", "set", "lo", "up"])?;
        }
        for n in 0..it.wires.len() {
            let (client, server) = (it.namespace(End::Client), it.namespace(End::Server));
            let device = device(n);
            ip(&[
                "link", "add", &device, "netns", &client, "type", "veth", "peer", "name", &device, "netns",
                &server,
            ])?;
            for end in [End::Client, End::Server] {
                it.ip(end, &["link", "set", &device, "address", &mac(n, end)])?;
                it.raise(n, end)?;
                if let Some(rate) = rate {
                    let words = [
                        "qdisc", "add", "dev", &device, "root", "tbf", "rate", rate, "burst", "32kb",
                        "limit", "200kb",
                    ];
                    run(it.command(end, "tc").args(words))?;
                }
            }
        }
        Ok(it)
    }

    /// The file of a host's namespace, for entering it.
    pub fn path(&self, end: End) -> PathBuf {
        PathBuf::from("/run/netns").join(self.namespace(end))
    }

    /// Returns a command that runs a program on a host.
    pub fn command(&self, end: End, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(end)]).arg(program);
        command
    }

    /// Cuts the `n`th wire.
    pub fn cut(&self, n: usize, how: Cut) -> Result<(), NoWires> {
        match how {
            Cut::Down(end) => self.ip(end, &["link", "set", &device(n), "down"]),
            Cut::Silent => {
                // To a MAC address that does not exist: the device drops the packets.
                self.point(n, End::Client, "02:00:00:00:00:99")?;
                self.point(n, End::Server, "02:00:00:00:00:99")
            }
        }
    }

    /// Undoes [`Wires::cut`].
    pub fn mend(&self, n: usize, how: Cut) -> Result<(), NoWires> {
        match how {
            Cut::Down(end) => self.raise(n, end),
            Cut::Silent => {
                self.point(n, End::Client, &mac(n, End::Server))?;
                self.point(n, End::Server, &mac(n, End::Client))
            }
        }
    }

    /// Brings an interface up with its address and the neighbour entry, which going down removes.
    fn raise(&self, n: usize, end: End) -> Result<(), NoWires> {
        let (own, prefix) = match self.wires[n] {
            Wire { client, .. } if end == End::Client => (client, if client.is_ipv4() { 24 } else { 64 }),
            Wire { server, .. } => (server, if server.is_ipv4() { 24 } else { 64 }),
        };
        let device = device(n);
        self.ip(end, &["link", "set", &device, "up"])?;
        let own = format!("{own}/{prefix}");
        if own.contains(':') {
            self.ip(end, &["address", "replace", &own, "dev", &device, "nodad"])?;
        } else {
            self.ip(end, &["address", "replace", &own, "dev", &device])?;
        }
        self.point(n, end, &mac(n, if end == End::Client { End::Server } else { End::Client }))
    }

    /// Sets the MAC address to which packets for the other end of a wire are sent.
    fn point(&self, n: usize, end: End, station: &str) -> Result<(), NoWires> {
        let Wire { client, server } = self.wires[n];
        let other = if end == End::Client { server } else { client }.to_string();
        self.ip(end, &["neigh", "replace", &other, "lladdr", station, "nud", "permanent", "dev", &device(n)])
    }

    fn ip(&self, end: End, words: &[&str]) -> Result<(), NoWires> {
        let name = self.namespace(end);
        let mut all = vec!["-n", &name];
        all.extend(words);
        ip(&all)
    }

    fn namespace(&self, end: End) -> String {
        format!("{}-{}", self.name, if end == End::Client { "client" } else { "server" })
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        for end in [End::Client, End::Server] {
            // This fails only if the namespace does not exist.
            let _ = ip(&["netns", "del", &self.namespace(end)]);
        }
    }
}

/// Removes hosts left behind by processes that were killed, and ends the programs on them: those named
/// [`LEADING`], the id of a process that no longer exists, and a dash. Only the first call in a process does
/// so, before it creates its own hosts.
pub fn sweep() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        let own = std::process::id();
        for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let owner = name.strip_prefix(LEADING).and_then(|rest| rest.split_once('-'));
            let Some(owner) = owner.and_then(|(owner, _)| owner.parse::<u32>().ok()) else { continue };
            // A host with our own process id belongs to an earlier process.
            if owner != own && Path::new("/proc").join(owner.to_string()).exists() {
                continue;
            }
            if let Ok(running) = Command::new("ip").args(["netns", "pids", &name]).output() {
                let ids = String::from_utf8_lossy(&running.stdout);
                let _ = run(Command::new("kill").arg("-KILL").args(ids.split_whitespace()));
            }
            let _ = ip(&["netns", "del", &name]);
        }
    });
}

fn device(n: usize) -> String {
    format!("wire{n}")
}

fn mac(n: usize, end: End) -> String {
    format!("02:00:00:00:{n:02x}:0{}", if end == End::Client { 2 } else { 1 })
}

fn ip(words: &[&str]) -> Result<(), NoWires> {
    run(Command::new("ip").args(words))
}

fn run(command: &mut Command) -> Result<(), NoWires> {
    let said = match command.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    Err(NoWires(format!("`{}` failed: {said}", words.join(" "))))
}
