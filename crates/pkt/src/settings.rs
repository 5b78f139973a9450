//! The options at the start of a script, over packetdrill's defaults.

use std::net::IpAddr;
use std::time::Duration;

use crate::script::{ScriptError, ScriptOption};

/// The tolerance of times, unless the script sets another; packetdrill's default.
const TOLERANCE: Duration = Duration::from_micros(4_000);

/// The options at the start of a script.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) tolerance: Duration,
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// The prefix length of `remote` that the peer's addresses share.
    remote_prefix: u32,
    pub(crate) bind_port: u16,
    pub(crate) connect_port: u16,
    /// The largest IP packet in bytes.
    pub(crate) mtu: usize,
}

impl Settings {
    pub(crate) fn new<'a>(options: impl Iterator<Item = &'a ScriptOption>) -> Result<Self, ScriptError> {
        let mut settings = Self {
            tolerance: TOLERANCE,
            local: "192.168.0.1".parse().expect("an address"),
            remote: "192.0.2.1".parse().expect("an address"),
            remote_prefix: 24,
            bind_port: 8_080,
            connect_port: 8_080,
            mtu: 1_500,
        };
        for option in options {
            let wrong = || {
                ScriptError::new(option.line, format!("--{}: invalid value {:?}", option.name, option.value))
            };
            let value = option.value.as_deref();
            let number = |max: u64| {
                value
                    .and_then(|value| value.parse::<u64>().ok())
                    .filter(|number| *number <= max)
                    .ok_or_else(wrong)
            };
            match option.name.as_str() {
                "tolerance_usecs" => settings.tolerance = Duration::from_micros(number(1 << 40)?),
                "bind_port" => settings.bind_port = number(65_535)? as u16,
                "connect_port" => settings.connect_port = number(65_535)? as u16,
                "mtu" => settings.mtu = number(65_535)?.max(576) as usize,
                "local_ip" => {
                    settings.local = value.and_then(|value| value.parse().ok()).ok_or_else(wrong)?
                }
                "remote_ip" => {
                    let (address, prefix) = match value.and_then(|value| value.split_once('/')) {
                        Some((address, prefix)) => (Some(address), Some(prefix)),
                        None => (value, None),
                    };
                    settings.remote = address.and_then(|value| value.parse().ok()).ok_or_else(wrong)?;
                    settings.remote_prefix = match (prefix, settings.remote) {
                        (Some(prefix), _) => prefix.parse().map_err(|_| wrong())?,
                        (None, IpAddr::V4(_)) => 24,
                        (None, IpAddr::V6(_)) => 32,
                    };
                }
                // Options without meaning here: there is no network delay, gateway, TCP or code.
                "gateway_ip" | "netmask_ip" | "speed" | "verbose" | "tcp_ts_tick_usecs" | "code_command"
                | "code_format" | "code_sockopt" | "send_omit_free" | "resolution_usecs" | "define"
                | "tolerance_percent" => {}
                "ip_version" => match value {
                    // Packets are IPv4 in both cases.
                    Some("ipv4" | "ipv4-mapped-ipv6") => {}
                    Some("ipv6") => {
                        settings.local = "fd3d:fa7b:d17d::1".parse().expect("an address");
                        settings.remote = "2001:db8::1".parse().expect("an address");
                        settings.remote_prefix = 32;
                    }
                    _ => {
                        let what = format!("--ip_version={}", value.unwrap_or_default());
                        return Err(ScriptError::unsupported(option.line, what));
                    }
                },
                name => return Err(ScriptError::unsupported(option.line, format!("the option --{name}"))),
            }
        }
        Ok(settings)
    }

    /// Whether the script's peer has this address. As in packetdrill, only the remote network is routed to
    /// the peer.
    pub(crate) fn is_remote(&self, address: IpAddr) -> bool {
        let shared = match (self.remote, address) {
            (IpAddr::V4(remote), IpAddr::V4(address)) => {
                (u32::from(remote) ^ u32::from(address)).leading_zeros()
            }
            (IpAddr::V6(remote), IpAddr::V6(address)) => {
                (u128::from(remote) ^ u128::from(address)).leading_zeros()
            }
            _ => return false,
        };
        shared >= self.remote_prefix
    }

    /// The largest SCTP packet in bytes.
    pub(crate) fn sctp_mtu(&self) -> usize {
        (self.mtu - if self.local.is_ipv4() { 20 } else { 40 }) / 4 * 4
    }
}
