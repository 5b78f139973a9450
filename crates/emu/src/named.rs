//! Two hosts with names, for any program: the network namespaces `NAME-client` and `NAME-server`, a TUN device a path in
//! each, and links between them. Unlike those of `tun`, they are seen by `ip netns` and outlive the process that made
//! them, until [`remove`].
//!
//! It needs root, `/dev/net/tun` and the program `ip` (Debian: iproute2). IPv4 only, as in `tun`.

use std::fmt;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::links::{Links, TunConfig, TunUnavailable};
use crate::sys;
pub use crate::wires::End;

/// More paths between two hosts are not of use.
pub const PATHS_MAX: usize = 8;
/// With `-client` behind it a name is still short enough to be seen whole.
const NAME_MAX: usize = 20;
/// Each path is a network of its own.
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
/// How long programs in a net have to end when it goes down.
const PATIENCE: Duration = Duration::from_secs(2);

/// The name of a net: small letters, digits and `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > NAME_MAX || text.starts_with('-') || !text.chars().all(good) {
            return Err(format!(
                "`{}` is not a name for a net: write up to {NAME_MAX} of a to z, 0 to 9 and -",
                text.escape_debug()
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Name {
    /// What `ip netns` calls a host of this net.
    pub fn namespace(&self, end: End) -> String {
        format!("{self}-{}", if end == End::Client { "client" } else { "server" })
    }

    fn file(&self, end: End) -> PathBuf {
        PathBuf::from("/run/netns").join(self.namespace(end))
    }

    /// Whether there is a host of this name, from a net that is up or from one that crashed.
    pub fn is_taken(&self) -> bool {
        [End::Client, End::Server].iter().any(|end| self.file(*end).exists())
    }

    /// A command that runs a program on a host.
    pub fn command(&self, end: End, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(end)]).arg(program);
        command
    }
}

/// The address of a host on a path, counted from 0: 10.1.1.1 is the server's on the first, 10.1.1.2 the client's.
pub fn address(path: usize, end: End) -> Ipv4Addr {
    let network = u8::try_from(path + 1).expect("there are not that many paths");
    Ipv4Addr::new(10, 1, network, if end == End::Client { 2 } else { 1 })
}

/// The device of a path in either host.
pub fn device(path: usize) -> String {
    format!("path{}", path + 1)
}

/// Makes both hosts, without a path between them.
pub fn create(name: &Name) -> Result<(), TunUnavailable> {
    if !rustix::process::geteuid().is_root() {
        return Err(TunUnavailable("network namespaces with names take root: say it again with sudo".into()));
    }
    for end in [End::Client, End::Server] {
        ip(&["netns", "add", &name.namespace(end)])?;
        ip(&["-n", &name.namespace(end), "link", "set", "lo", "up"])?;
    }
    Ok(())
}

/// Joins both hosts by links, the `n`th configuration being the `n`th path. They live as long as what is given back.
pub fn join(name: &Name, paths: &[TunConfig]) -> Result<Vec<Links>, TunUnavailable> {
    let link = |(n, config): (usize, &TunConfig)| {
        let client = attach(name, End::Client, n, config.mtu)?;
        let server = attach(name, End::Server, n, config.mtu)?;
        Links::start(client, server, config)
    };
    paths.iter().enumerate().map(link).collect()
}

/// Ends what runs on both hosts and takes them away. What is not there is no error.
pub fn remove(name: &Name) -> Result<(), TunUnavailable> {
    for end in [End::Client, End::Server].into_iter().filter(|end| name.file(*end).exists()) {
        let started = Instant::now();
        loop {
            let running = running(name, end)?;
            if running.is_empty() {
                break;
            }
            let signal = if started.elapsed() < PATIENCE { Signal::TERM } else { Signal::KILL };
            for process in running {
                // It fails only if the process is gone.
                let _ = kill_process(process, signal);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        ip(&["netns", "del", &name.namespace(end)])?;
    }
    Ok(())
}

/// The processes on a host.
fn running(name: &Name, end: End) -> Result<Vec<Pid>, TunUnavailable> {
    let said = ip(&["netns", "pids", &name.namespace(end)])?;
    Ok(said.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect())
}

/// Makes the device of a path on a host. A thread of its own goes there, so that nothing else of this process does.
fn attach(name: &Name, end: End, path: usize, mtu: u16) -> Result<OwnedFd, TunUnavailable> {
    let (file, host) = (name.file(end), name.namespace(end));
    let make = move || -> io::Result<OwnedFd> {
        let namespace = fs::File::open(file)?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        let tun = sys::open_tun(&device(path))?;
        sys::configure(&device(path), address(path, end), NETMASK, mtu)?;
        Ok(tun)
    };
    let made = std::thread::spawn(make).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    made.map_err(|error| {
        TunUnavailable::new(&format!("cannot make the TUN device {} on {host}", device(path)), &error)
    })
}

fn ip(words: &[&str]) -> Result<String, TunUnavailable> {
    let said = match Command::new("ip").args(words).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            "the program `ip` is not here; it is in Debian's package iproute2".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(TunUnavailable(format!("`ip {}` failed: {said}", words.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["t1", "satellite-2", "0"] {
            assert_eq!(name.parse::<Name>().unwrap().to_string(), name);
        }
        for name in ["", "-x", "T1", "a/b", "..", "a b", "012345678901234567890"] {
            assert!(name.parse::<Name>().unwrap_err().contains("a to z"), "{name}");
        }
    }

    #[test]
    fn each_path_is_a_network_of_its_own() {
        assert_eq!(address(0, End::Server), Ipv4Addr::new(10, 1, 1, 1));
        assert_eq!(address(0, End::Client), Ipv4Addr::new(10, 1, 1, 2));
        assert_eq!(address(PATHS_MAX - 1, End::Client), Ipv4Addr::new(10, 1, 8, 2));
        assert_eq!(device(1), "path2");
    }
}
