//! Configuration of an association: every protocol parameter of RFC 9260 §16 and every limit, as plain
//! values.
//!
//! The default follows RFC 9260 strictly; [`Profile`](crate::Profile) names other sets of values. The core
//! reads these values and never a profile.

mod control;
mod data;
mod legacy;
mod multipath;
mod paths;
mod security;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use self::control::{Congestion, Handshake, LossDetection, Recovery, Sack, Timers};
pub use self::data::{Fragments, Memory, Messages, PeerMay, Scheduler, Streams};
pub use self::legacy::{BurstRule, Legacy, LossRecovery, MeasureEach, RetransmitTo, WindowUpdates};
pub use self::multipath::{
    Multipath, MultipathConstants, MultipathError, PathScheduler, Remedy, RetransmitBy, UnknownPathScheduler,
    UnknownRemedy, UnknownRetransmitBy,
};
pub use self::paths::{AllowedPath, Failover, MtuDiscovery, MultipathWith, PathMtu, Paths};
pub use self::security::{AuthConfig, ErrorDetection, Security, SharedKey};

use crate::dtls::{CONTENT_MAX, Mode, PACKET_OVERHEAD};
use crate::wire::Header;

/// The overhead in bytes that each chunk is charged in the receive buffer: what holding it takes of memory.
pub(crate) const CHUNK_OVERHEAD_BYTES: usize = 64;
/// The minimum receive window that INIT and INIT ACK may offer (RFC 9260 §3.3.2, §3.3.3).
pub(crate) const A_RWND_MIN: u32 = 1_500;
/// The maximum SACK delay (RFC 9260 §6.2).
pub(crate) const SACK_DELAY_MAX: Duration = Duration::from_millis(500);

/// The settings of an association, grouped by concern. An endpoint has one for each listening port; a
/// caller passes one to `connect`.
///
/// ```
/// use braidftp_sctp::{Config, Profile};
///
/// let config: Config = Profile::Modern.config().with(|c| {
///     c.streams.outbound = 64;
///     c.messages.interleaving = true;
/// });
/// assert_eq!(config.streams.outbound, 64);
/// ```
//= specs/rfc9260.txt#section-16
//# The following protocol parameters are RECOMMENDED:
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Packet sizes (RFC 9260 §7.3, RFC 8899).
    pub path_mtu: PathMtu,
    /// Streams and their re-configuration (RFC 9260 §3.3.2, RFC 6525).
    pub streams: Streams,
    /// How messages are cut into chunks, scheduled and abandoned (RFC 9260 §6.9, RFC 8260, RFC 3758).
    pub messages: Messages,
    /// The handshake (RFC 9260 §5).
    pub handshake: Handshake,
    /// Timers of an association that is up (RFC 9260 §6.3, §8.3, §9.2, §16).
    pub timers: Timers,
    /// Acknowledgements (RFC 9260 §6.2, RFC 7053).
    pub sack: Sack,
    /// Congestion control of each path (RFC 9260 §7.2, §6.1 D).
    pub congestion: Congestion,
    /// Loss detection and its repair beyond RFC 9260 §7.2.4: RFC 9002 §6.1, RFC 8985 §7, RFC 3708.
    pub recovery: Recovery,
    /// Thresholds of consecutive time-outs (RFC 9260 §8.1, §8.2, RFC 7829).
    pub failover: Failover,
    /// Which paths are used, and how many at a time (RFC 9260 §6.4, RFC 5061).
    pub paths: Paths,
    /// Buffers (RFC 9260 §3.3.2, §6.2).
    pub memory: Memory,
    /// Authentication and protection against peers and attackers (RFC 4895, RFC 9653, draft-ietf-tsvwg-sctp-dtls-chunk).
    pub security: Security,
    /// What only the reconstruction of an older stack sets, as the profiles `rfc2960-kame` and `ns2` do.
    pub legacy: Legacy,
}

impl Config {
    /// Returns these settings with changes.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The same settings, with values that RFC 9260 does not permit replaced by the nearest permitted ones.
    pub(crate) fn within_bounds(self: Arc<Self>) -> Arc<Self> {
        let mut bounded = Self::clone(&self);
        let Self { path_mtu, streams, sack, failover, paths, memory, security, legacy, .. } = &mut bounded;
        if let Some(dtls) = &security.dtls {
            // The maximum content of a record.
            let packet_max = Header::LEN + PACKET_OVERHEAD + CONTENT_MAX;
            path_mtu.packet_bytes = path_mtu.packet_bytes.min(packet_max);
            if let Some(discovery) = &mut path_mtu.discovery {
                discovery.max = discovery.max.min(packet_max);
            }
            // A peer without DTLS chunks would refuse an INIT that lists ASCONF and offers no
            // authentication (RFC 5061 §6).
            paths.asconf &= dtls.mode == Mode::Strict;
            //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
            //# Therefore, its support MUST NOT
            //# be negotiated in combination with the support of the DTLS chunk.
            security.auth = None;
        } else if paths.asconf {
            //= specs/rfc5061.txt#section-4.2.7
            //# An implementation supporting this
            //# extension MUST list the ASCONF,the ASCONF-ACK, and the AUTH chunks in
            //# its INIT and INIT-ACK parameters.
            security.auth.get_or_insert_default();
        }
        //= specs/rfc9260.txt#section-3.3.2
        //# The value of 0 MUST NOT be used.
        streams.outbound = streams.outbound.max(1);
        //= specs/rfc9260.txt#section-3.3.2
        //# The value 0 MUST NOT be used.
        //= specs/rfc9260.txt#section-3.3.3
        //# The value 0 MUST NOT be used.
        streams.inbound = streams.inbound.max(1);
        //= specs/rfc9260.txt#section-3.3.2
        //# The Advertised Receiver Window Credit MUST NOT be smaller than
        //# 1500.
        //= specs/rfc9260.txt#section-3.3.3
        //# The Advertised Receiver Window Credit MUST NOT be smaller than 1500.
        memory.receive_buffer_bytes = memory.receive_buffer_bytes.max(A_RWND_MIN as usize);
        if let Some(bytes) = &mut memory.unadmitted_receive_buffer_bytes {
            *bytes = (*bytes).max(A_RWND_MIN as usize);
        }
        legacy.chunk_overhead_bytes = legacy.chunk_overhead_bytes.clamp(16, CHUNK_OVERHEAD_BYTES);
        //= specs/rfc9260.txt#section-6.2
        //# An implementation MUST NOT allow the maximum delay (protocol
        //# parameter 'SACK.Delay') to be configured to be more than 500 ms.
        //= specs/rfc9260.txt#section-6.2
        //# In other words, an implementation MAY lower the value of 'SACK.Delay'
        //# below 500 ms but MUST NOT raise it above 500 ms.
        sack.delay = sack.delay.min(SACK_DELAY_MAX);
        //= specs/rfc7829.txt#section-5
        //# For SCTP-PF
        //# implementations, the PSMR MUST be set greater than or equal to
        //# the PFMR value.
        //= specs/rfc7829.txt#section-5
        //# For implementations of [RFC4960], the PSMR MUST
        //# be set greater than or equal to the PMR value.
        //= specs/rfc7829.txt#section-5
        //# Implementations
        //# MUST reject any other values of PSMR.
        if let Some(max) = &mut failover.primary_switchover_max_retrans {
            let threshold = failover.potentially_failed_max_retrans.unwrap_or(failover.path_max_retrans);
            *max = (*max).max(threshold);
        }
        if bounded == *self { self } else { Arc::new(bounded) }
    }

    /// The receive buffer advertised to a peer that opens an association.
    pub(crate) fn passive_receive_buffer_bytes(&self) -> usize {
        let unadmitted = self.memory.unadmitted_receive_buffer_bytes.unwrap_or(usize::MAX);
        self.memory.receive_buffer_bytes.min(unadmitted)
    }

    /// Whether packets may be sent between these addresses.
    pub(crate) fn allows(&self, local: IpAddr, peer: IpAddr) -> bool {
        let covers = |path: &AllowedPath| path.local == local && path.peer.is_none_or(|its| its == peer);
        self.paths.allowed.is_empty() || self.paths.allowed.iter().any(covers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_section_16() {
        //= specs/rfc9260.txt#section-9.2
        //= type=test
        //# If the T5-shutdown-guard timer is used, it SHOULD be set to the
        //# RECOMMENDED value of 5 times 'RTO.Max'.
        //= specs/rfc9260.txt#section-16
        //= type=test
        //# The following protocol parameters are RECOMMENDED:
        //= specs/rfc9260.txt#section-16
        //= type=test
        //# 'RTO.Min' SHOULD be set as described above in this section.
        let config = Config::default();
        let seconds = Duration::from_secs;
        assert_eq!(
            (config.timers.rto.initial, config.timers.rto.min, config.timers.rto.max),
            (seconds(1), seconds(1), seconds(60))
        );
        assert_eq!((config.congestion.max_burst, config.handshake.valid_cookie_life), (Some(4), seconds(60)));
        assert_eq!((config.failover.association_max_retrans, config.failover.path_max_retrans), (10, 5));
        assert_eq!(
            (config.handshake.max_init_retransmits, config.timers.heartbeat_interval),
            (8, Some(seconds(30)))
        );
        assert_eq!(config.sack.delay, Duration::from_millis(200));
        assert_eq!(config.timers.shutdown_guard, 5 * config.timers.rto.max);
    }

    #[test]
    fn values_outside_the_rfc_are_replaced_by_the_nearest_permitted() {
        //= specs/rfc9260.txt#section-3.3.2
        //= type=test
        //# The Advertised Receiver Window Credit MUST NOT be smaller than 1500.
        //= specs/rfc9260.txt#section-3.3.2
        //= type=test
        //# The value of 0 MUST NOT be used.
        //= specs/rfc9260.txt#section-3.3.2
        //= type=test
        //# The value 0 MUST NOT be used.
        //= specs/rfc9260.txt#section-3.3.3
        //= type=test
        //# The Advertised Receiver Window Credit MUST NOT be smaller than 1500.
        //= specs/rfc9260.txt#section-3.3.3
        //= type=test
        //# The value 0 MUST NOT be used.
        //= specs/rfc9260.txt#section-6.2
        //= type=test
        //# In other words, an implementation MAY lower the value of 'SACK.Delay'
        //# below 500 ms but MUST NOT raise it above 500 ms.
        //= specs/rfc9260.txt#section-6.2
        //= type=test
        //# An implementation MUST NOT allow the maximum delay (protocol
        //# parameter 'SACK.Delay') to be configured to be more than 500 ms.
        let good = Arc::new(Config::default());
        assert!(Arc::ptr_eq(&good, &Arc::clone(&good).within_bounds()));
        let bad = Config::default().with(|c| {
            c.streams.outbound = 0;
            c.streams.inbound = 0;
            c.memory.receive_buffer_bytes = 0;
            c.sack.delay = Duration::from_millis(501);
        });
        let nearest = Config::default().with(|c| {
            c.streams.outbound = 1;
            c.streams.inbound = 1;
            c.memory.receive_buffer_bytes = 1_500;
            c.sack.delay = Duration::from_millis(500);
        });
        assert_eq!(*Arc::new(bad).within_bounds(), nearest);
    }
}
