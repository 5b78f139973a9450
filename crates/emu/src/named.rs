//! Two named hosts for any program: the network namespaces `NAME-client` and `NAME-server`, with a TUN device
//! per path in each and links between them. Unlike those of `tun`, the namespaces are visible to `ip netns`
//! and remain until [`remove`], even if the process that made them ends.
//!
//! Requires root, `/dev/net/tun` and the program `ip` (Debian: iproute2). IPv4 only, as in `tun`.

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

/// The maximum number of paths.
pub const PATHS_MAX: usize = 8;
/// The longest name; with `-client` appended tools still show it in full.
const NAME_MAX: usize = 20;
/// Each path is a separate network.
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
/// The time that programs in a net have to end when it is removed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The name of a net: lower-case letters, digits and `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > NAME_MAX || text.starts_with('-') || !text.chars().all(good) {
            return Err(format!(
                "`{}` is not a name for a net: use up to {NAME_MAX} characters of a to z, 0 to 9 and -",
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
    /// The namespace of a host of this net.
    pub fn namespace(&self, end: End) -> String {
        format!("{self}-{}", if end == End::Client { "client" } else { "server" })
    }

    fn file(&self, end: End) -> PathBuf {
        PathBuf::from("/run/netns").join(self.namespace(end))
    }

    /// Whether the namespace of a host exists, of a running net or of one that crashed.
    pub fn is_taken(&self) -> bool {
        [End::Client, End::Server].iter().any(|end| self.file(*end).exists())
    }

    /// Returns a command that runs a program on a host.
    pub fn command(&self, end: End, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(end)]).arg(program);
        command
    }
}

/// The address of a host on a path, counted from 0: on the first path the server has 10.1.1.1 and the client
/// 10.1.1.2.
pub fn address(path: usize, end: End) -> Ipv4Addr {
    let network = u8::try_from(path + 1).expect("there are not that many paths");
    Ipv4Addr::new(10, 1, network, if end == End::Client { 2 } else { 1 })
}

/// The name of a path's device, the same on both hosts.
pub fn device(path: usize) -> String {
    format!("path{}", path + 1)
}

/// Creates both hosts, without a path.
pub fn create(name: &Name) -> Result<(), TunUnavailable> {
    if !rustix::process::geteuid().is_root() {
        return Err(TunUnavailable(
            "named network namespaces require root: run the command with sudo".into(),
        ));
    }
    for end in [End::Client, End::Server] {
        ip(&["netns", "add", &name.namespace(end)])?;
        ip(&["-n", &name.namespace(end), "link", "set", "lo", "up"])?;
    }
    Ok(())
}

/// Joins the hosts by links; the `n`th configuration is the `n`th path. The links exist until the returned
/// values are dropped.
pub fn join(name: &Name, paths: &[TunConfig]) -> Result<Vec<Links>, TunUnavailable> {
    let link = |(n, config): (usize, &TunConfig)| {
        let client = attach(name, End::Client, n, config.mtu)?;
        let server = attach(name, End::Server, n, config.mtu)?;
        Links::start(client, server, config)
    };
    paths.iter().enumerate().map(link).collect()
}

/// Ends the programs on both hosts and removes the hosts. Missing hosts are no error.
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
                // This fails only if the process has ended.
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

/// Creates the device of a path on a host. A thread of its own enters the namespace, so that the rest of the
/// process stays outside.
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
            "the program `ip` is not installed; it is in Debian's package iproute2".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(TunUnavailable(format!("`ip {}` failed: {said}", words.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_of_plain_characters() {
        for name in ["t1", "satellite-2", "0"] {
            assert_eq!(name.parse::<Name>().unwrap().to_string(), name);
        }
        for name in ["", "-x", "T1", "a/b", "..", "a b", "012345678901234567890"] {
            assert!(name.parse::<Name>().unwrap_err().contains("a to z"), "{name}");
        }
    }

    #[test]
    fn each_path_is_a_separate_network() {
        assert_eq!(address(0, End::Server), Ipv4Addr::new(10, 1, 1, 1));
        assert_eq!(address(0, End::Client), Ipv4Addr::new(10, 1, 1, 2));
        assert_eq!(address(PATHS_MAX - 1, End::Client), Ipv4Addr::new(10, 1, 8, 2));
        assert_eq!(device(1), "path2");
    }
}
