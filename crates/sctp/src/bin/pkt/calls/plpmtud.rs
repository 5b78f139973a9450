//! FreeBSD's settings of path MTU discovery without ICMP (`net.inet.sctp.plpmtud_*`), as values of [`MtuDiscovery`].

use std::net::IpAddr;
use std::time::Duration;

use braidftp_sctp::{Config, MtuDiscovery};

use crate::run::Settings;

/// The least that IPv6 links carry, in bytes of IP packets (RFC 8200 §5): BASE_PLPMTU there.
const IPV6_MTU_MIN: usize = 1_280;
/// BASE_PLPMTU over IPv4 (RFC 8899 §5.1.2), in bytes of IP packets.
const IPV4_BASE: usize = 1_200;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;
/// What the core has for MAX_PROBES, and for the least value of PROBE_TIMER in milliseconds.
const MAX_PROBES: u32 = 3;
const PROBE_TIMER_MIN_MS: u32 = 1_000;

/// What `sysctl` set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plpmtud {
    enabled: bool,
    /// MIN_PLPMTU in bytes of IP packets, over IPv4 and IPv6; 0: the core's.
    min_mtu: [usize; 2],
    raise_after: Option<Duration>,
    /// Whether messages that a packet was too big are used.
    pub(super) use_ptb: bool,
}

impl Default for Plpmtud {
    fn default() -> Self {
        Self { enabled: false, min_mtu: [0; 2], raise_after: None, use_ptb: true }
    }
}

impl Plpmtud {
    /// Sets what `name` stands for; `None` if there is no such setting, or if the core cannot have this value.
    pub(super) fn set(&mut self, name: &str, value: u32) -> Option<()> {
        match name {
            "plpmtud_enable" => self.enabled = value != 0,
            "plpmtud_ipv4_min_mtu" => self.min_mtu[0] = value as usize,
            "plpmtud_ipv6_min_mtu" => self.min_mtu[1] = value as usize,
            // 1: each multiple of 4, 2: the sizes that links have. The core tries those sizes, whatever it is.
            "plpmtud_search_algorithm" => {}
            "plpmtud_use_ptb" => self.use_ptb = value != 0,
            "plpmtud_raise_time" => self.raise_after = Some(Duration::from_millis(value.into())),
            "pmtu_raise_time" => self.raise_after = Some(Duration::from_secs(value.into())),
            "plpmtud_max_probes" => return (value == MAX_PROBES).then_some(()),
            "plpmtud_min_probe_rtx_time" => return (value == PROBE_TIMER_MIN_MS).then_some(()),
            _ => return None,
        }
        Some(())
    }

    /// Where it is on, a path begins with BASE_PLPMTU, or with MIN_PLPMTU if that is more, and searches up to the script's
    /// MTU.
    pub(super) fn apply(&self, config: &mut Config, settings: &Settings, is_encapsulated: bool) {
        if !self.enabled {
            return;
        }
        let (ip_len, base, min_mtu) = match settings.local {
            IpAddr::V4(_) => (20, IPV4_BASE, self.min_mtu[0]),
            IpAddr::V6(_) => (40, IPV6_MTU_MIN, self.min_mtu[1]),
        };
        let overhead = ip_len + if is_encapsulated { UDP_LEN } else { 0 };
        let sctp = |mtu: usize| mtu.clamp(overhead, settings.mtu).saturating_sub(overhead) & !3;
        let defaults = MtuDiscovery::default();
        config.mtu = sctp(base.max(min_mtu));
        config.path_mtu_discovery = Some(MtuDiscovery {
            min: if min_mtu == 0 { defaults.min } else { sctp(min_mtu) },
            base: config.mtu,
            max: sctp(settings.mtu),
            raise_after: self.raise_after.unwrap_or(defaults.raise_after),
        });
    }
}
