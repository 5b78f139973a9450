//! FreeBSD's settings of path MTU discovery without ICMP (`net.inet.sctp.plpmtud_*`), mapped to
//! [`MtuDiscovery`].

use std::net::IpAddr;
use std::time::Duration;

use braidftp_sctp::{Config, MtuDiscovery};

use crate::settings::Settings;

/// The minimum MTU of IPv6 links, in bytes of an IP packet (RFC 8200 §5): BASE_PLPMTU for IPv6.
const IPV6_MTU_MIN: usize = 1_280;
/// BASE_PLPMTU for IPv4 (RFC 8899 §5.1.2), in bytes of an IP packet.
const IPV4_BASE: usize = 1_200;
/// The length of a UDP header in bytes.
const UDP_LEN: usize = 8;
/// The core's MAX_PROBES and its minimum PROBE_TIMER in milliseconds.
const MAX_PROBES: u32 = 3;
const PROBE_TIMER_MIN_MS: u32 = 1_000;

/// The step in bytes of a search by steps.
const STEP: usize = 4;
/// The sizes of a search by steps, in bytes of an IP packet, up to Ethernet's jumbo frames.
const EACH_STEP: &[usize] = &{
    let mut sizes = [0; 9_000 / STEP];
    let mut index = 0;
    while index < sizes.len() {
        sizes[index] = (index + 1) * STEP;
        index += 1;
    }
    sizes
};

/// Which sizes are probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// The core's default: common link MTUs, from the base on, which is not probed.
    Links,
    /// The base, and then all multiples of [`STEP`].
    Steps,
    /// The base, and then the largest size.
    Largest,
}

/// The values set by `sysctl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plpmtud {
    enabled: bool,
    /// MIN_PLPMTU in bytes of an IP packet, for IPv4 and IPv6; 0: the core's default.
    min_mtu: [usize; 2],
    raise_after: Option<Duration>,
    search: Search,
    /// Whether ICMP messages "packet too big" are used.
    pub(super) use_ptb: bool,
}

impl Default for Plpmtud {
    fn default() -> Self {
        Self { enabled: false, min_mtu: [0; 2], raise_after: None, search: Search::Links, use_ptb: true }
    }
}

impl Plpmtud {
    /// Sets the parameter `name`; `None` if there is no such parameter or the core does not support the
    /// value.
    pub(super) fn set(&mut self, name: &str, value: u32) -> Option<()> {
        match name {
            "plpmtud_enable" => self.enabled = value != 0,
            "plpmtud_ipv4_min_mtu" => self.min_mtu[0] = value as usize,
            "plpmtud_ipv6_min_mtu" => self.min_mtu[1] = value as usize,
            "plpmtud_search_algorithm" if value == 1 => self.search = Search::Steps,
            // If the largest size is lost, FreeBSD bisects, and the core ends its search.
            "plpmtud_search_algorithm" => self.search = Search::Largest,
            "plpmtud_use_ptb" => self.use_ptb = value != 0,
            "plpmtud_raise_time" => self.raise_after = Some(Duration::from_millis(value.into())),
            "pmtu_raise_time" => self.raise_after = Some(Duration::from_secs(value.into())),
            "plpmtud_max_probes" => return (value == MAX_PROBES).then_some(()),
            "plpmtud_min_probe_rtx_time" => return (value == PROBE_TIMER_MIN_MS).then_some(()),
            _ => return None,
        }
        Some(())
    }

    /// When discovery is on, a path begins with BASE_PLPMTU, or with MIN_PLPMTU if that is larger, and
    /// searches up to the script's MTU. With one of FreeBSD's algorithms, it probes that first size, too.
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
        let base = sctp(base.max(min_mtu));
        // A start below the base makes the search probe the base first.
        config.path_mtu.packet_bytes = if self.search == Search::Links { base } else { base - STEP };
        config.path_mtu.discovery = Some(MtuDiscovery {
            min: if min_mtu == 0 { defaults.min } else { sctp(min_mtu) },
            base,
            max: sctp(settings.mtu),
            raise_after: self.raise_after.unwrap_or(defaults.raise_after),
            link_mtus: match self.search {
                Search::Links => defaults.link_mtus,
                Search::Steps => EACH_STEP,
                Search::Largest => &[],
            },
        });
    }
}
