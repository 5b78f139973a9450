//! The link between the two processes of a benchmark: loopback, or a veth pair between two network namespaces.

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

    /// A command that runs a program at an end.
    pub(super) fn command(&self, end: End, program: &Path) -> Command {
        match self {
            Self::Loopback => Command::new(program),
            Self::Veth(names) => {
                let name = if end == End::Sender { &names.sender } else { &names.receiver };
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(program);
                command
            }
        }
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
