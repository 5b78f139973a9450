//! The link between the two processes of a benchmark: loopback, or a veth pair between two network namespaces.
//!
//! Each end is pinned to its own half of the processors. Otherwise the scheduler of a machine with two processors puts both
//! ends on one of them for a part of a run. There they share the cache, so that less CPU time is needed, but also the
//! processor: the goodput of the same program then varies by a factor of two between runs.

use std::ffi::OsStr;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::capture;

/// A side of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Sender,
    Receiver,
}

/// The link between two processes.
#[derive(Debug)]
pub(super) enum Link {
    /// Both use 127.0.0.1; its MTU is that of `lo`.
    Loopback,
    /// Each process is in its own namespace.
    Veth(Namespaces),
}

/// Two network namespaces, deleted when dropped, with a veth pair between them.
#[derive(Debug)]
pub(super) struct Namespaces {
    sender: String,
    receiver: String,
}

/// The MTU of the veth pair: Ethernet's.
const MTU: usize = 1_500;

impl Link {
    /// The address of the sender's end of a veth pair.
    pub(super) const VETH_SENDER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    /// The address of the receiver's.
    const VETH_RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

    /// Creates two namespaces and a veth pair.
    pub(super) fn veth() -> Result<Self> {
        let process = std::process::id();
        let names =
            Namespaces { sender: format!("bench-s-{process}"), receiver: format!("bench-r-{process}") };
        let ip = |words: &str| capture(Command::new("ip").args(words.split(' '))).map(drop);
        let (one, other) = (&names.sender, &names.receiver);
        let set_up = || -> Result<()> {
            ip(&format!("netns add {one}"))?;
            ip(&format!("netns add {other}"))?;
            ip(&format!(
                "link add veth0 netns {one} mtu {MTU} type veth peer name veth0 netns {other} mtu {MTU}"
            ))?;
            for (name, address) in [(one, Self::VETH_SENDER), (other, Self::VETH_RECEIVER)] {
                ip(&format!("-n {name} address add {address}/24 dev veth0"))?;
                ip(&format!("-n {name} link set veth0 up"))?;
                ip(&format!("-n {name} link set lo up"))?;
            }
            Ok(())
        };
        set_up().context("a veth pair needs root and iproute2; `--link loopback` needs neither")?;
        Ok(Self::Veth(names))
    }

    /// A command that runs a program at an end, on the processors of that end.
    pub(super) fn command(&self, end: End, program: &Path) -> Command {
        let mut words: Vec<&OsStr> = Vec::new();
        if let Self::Veth(names) = self {
            let name = if end == End::Sender { &names.sender } else { &names.receiver };
            words.extend(["ip", "netns", "exec", name].map(OsStr::new));
        }
        let processors = processors(end);
        if let Some(processors) = &processors {
            words.extend(["taskset", "--cpu-list", processors].map(OsStr::new));
        }
        words.push(program.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    }

    /// An address and a port of an end that no socket is bound to.
    pub(super) fn udp(&self, end: End) -> Result<SocketAddr> {
        Ok(match (self, end) {
            (Self::Loopback, _) => std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?,
            (Self::Veth(_), End::Sender) => (Self::VETH_SENDER, 9_001).into(),
            (Self::Veth(_), End::Receiver) => (Self::VETH_RECEIVER, 9_002).into(),
        })
    }
}

/// The processors of an end, as a list for taskset(1); `None` if this process may use one only, or the system does not say.
fn processors(end: End) -> Option<String> {
    half(&std::fs::read_to_string("/proc/self/status").ok()?, end)
}

/// The half of an end of the processors in a `/proc/self/status`, such as `Cpus_allowed_list: 0-2,5`. With an odd number the
/// receiver's half is one larger.
fn half(status: &str, end: End) -> Option<String> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    let mut all: Vec<usize> = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    let (senders, receivers) = all.split_at(all.len() / 2);
    let own = if end == End::Sender { senders } else { receivers };
    let words: Vec<String> = own.iter().map(usize::to_string).collect();
    (all.len() > 1).then(|| words.join(","))
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("loopback"),
            Self::Veth(_) => write!(f, "a veth pair of {MTU} bytes MTU between two namespaces"),
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.sender, &self.receiver] {
            // One of them may not have been created.
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_own_half_of_the_processors() {
        let halves = |list: &str| {
            let status = format!("Name:\txtask\nCpus_allowed:\tff\nCpus_allowed_list:\t{list}\n");
            [End::Sender, End::Receiver].map(|end| half(&status, end))
        };
        let some = |list: &str| Some(list.to_owned());
        assert_eq!(halves("0-1"), [some("0"), some("1")]);
        assert_eq!(halves("0-2,5,8-9"), [some("0,1,2"), some("5,8,9")]);
        assert_eq!(halves("3,7-8"), [some("3"), some("7,8")]);
        assert_eq!(halves("4"), [None, None]);
        assert_eq!(halves("all"), [None, None]);
        assert_eq!(half("Name:\txtask\n", End::Sender), None);
    }
}
