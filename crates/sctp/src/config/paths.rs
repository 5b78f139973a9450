//! Settings of paths: packet sizes, failover, and which paths are used.

use std::net::IpAddr;
use std::time::Duration;

use super::multipath::Multipath;

/// Packet sizes (RFC 9260 §7.3, RFC 8899).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `packet_bytes` | 1480 B | 1452 B | 1452 B | 1480 B |
/// | `discovery` | none | none | up to 1452 B | none |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMtu {
    /// The largest SCTP packet to send, in bytes: the path's MTU less IP (and UDP) headers. A multiple of
    /// 4. Default 1,452, which fits Ethernet over IPv6 and UDP.
    //= specs/rfc6951.txt#section-5.6
    //# If an SCTP endpoint starts to encapsulate the packets of a path, it
    //# MUST decrease the Path MTU of that path by the size of the UDP header.
    //= specs/rfc6951.txt#section-5.6
    //# If it stops encapsulating them, the Path MTU SHOULD be increased by
    //# the size of the UDP header.
    pub packet_bytes: usize,
    /// Path MTU discovery (RFC 8899): packets become smaller if [`PathMtu::packet_bytes`] is too large, and larger if
    /// possible. Each path starts from `packet_bytes`. `None`, the default: the size is fixed.
    pub discovery: Option<MtuDiscovery>,
}

impl Default for PathMtu {
    fn default() -> Self {
        Self { packet_bytes: 1_452, discovery: None }
    }
}

/// Thresholds of consecutive time-outs (RFC 9260 §8.1, §8.2, RFC 7829).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `association_max_retrans` | 10 | 10 | 10 | 10 |
/// | `path_max_retrans` | 5 | 5 | 5 | 5 |
/// | `potentially_failed_max_retrans` | none | none | 0 | none |
/// | `primary_switchover_max_retrans` | none | none | none | 5 |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failover {
    /// Association.Max.Retrans (RFC 9260 §16): one more consecutive time-out ends the association. Default
    /// 10.
    pub association_max_retrans: u32,
    /// Path.Max.Retrans (RFC 9260 §16): one more consecutive time-out makes a path inactive. Default 5.
    pub path_max_retrans: u32,
    /// PotentiallyFailed.Max.Retrans (RFC 7829 §3.2): one more consecutive time-out makes a path
    /// potentially failed, and data moves to another path. `None`, the default: only
    /// [`Failover::path_max_retrans`] counts, and timed-out data is retransmitted on another path (RFC 9260
    /// §6.4.1).
    pub potentially_failed_max_retrans: Option<u32>,
    /// Primary.Switchover.Max.Retrans (RFC 7829 §5): after one more consecutive time-out of the primary
    /// path, the path in use becomes the primary one permanently. Never less than the threshold of
    /// failover. `None`, the default: data returns to the primary path.
    //= specs/rfc7829.txt#section-5
    //# An SCTP-PF implementation of Primary Path Switchover
    //# MUST support the setting of PSMR = PFMR.
    //= specs/rfc7829.txt#section-5
    //# A
    //# standard SCTP implementation of Primary Path Switchover MUST
    //# support the setting of PSMR = PMR.
    //= specs/rfc7829.txt#section-5
    //# It MUST be possible to disable the Primary Path Switchover
    //# operation and obtain the standard switchback operation of
    //# [RFC4960].
    pub primary_switchover_max_retrans: Option<u32>,
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            association_max_retrans: 10,
            path_max_retrans: 5,
            potentially_failed_max_retrans: None,
            primary_switchover_max_retrans: None,
        }
    }
}

/// Which paths are used, and how many at a time (RFC 9260 §6.4, RFC 5061).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Whether and how data is sent on all active paths at once (concurrent multipath transfer). Default
    /// `None`.
    pub multipath: Option<Multipath>,
    /// With which peers concurrent multipath transfer is used, and SACKs are delayed in spite of gaps and
    /// carry the number of packets they acknowledge (delayed acknowledgement for CMT). Default: all.
    pub multipath_with: MultipathWith,
    /// The paths that an association opened by this side may use; empty: all.
    pub allowed: Vec<AllowedPath>,
    /// Whether addresses may change during an association, if the peer supports it (RFC 5061). Implies
    /// authentication, with the null key unless [`security.auth`](super::Config::security) is set. Default off.
    pub asconf: bool,
}

impl Default for Paths {
    fn default() -> Self {
        Self { multipath: None, multipath_with: MultipathWith::Anyone, allowed: Vec::new(), asconf: false }
    }
}

/// The constants of RFC 8899 §5.1, as sizes of SCTP packets: a link's MTU less the headers of IP and UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuDiscovery {
    /// MIN_PLPMTU: the minimum size. Default 512; over IPv6 never less than 1,232, which IPv6 guarantees.
    pub min: usize,
    /// BASE_PLPMTU: a size that most paths support; a path falls back to it when its MTU decreases. Default
    /// 1,200.
    //= specs/rfc8899.txt#section-5.1.2
    //# When using IPv4, there is no currently equivalent size specified, and a
    //# default BASE_PLPMTU of 1200 bytes is RECOMMENDED.
    pub base: usize,
    /// MAX_PLPMTU: the maximum size. Default 1,452, or [`PathMtu::packet_bytes`] if that is larger.
    pub max: usize,
    /// PMTU_RAISE_TIMER: the time until larger sizes are probed again. Default 600 s.
    pub raise_after: Duration,
    /// The sizes probed before MAX_PLPMTU, ascending, in bytes of IP packets over UDP. Default: common link
    /// MTUs.
    pub link_mtus: &'static [usize],
}

//= specs/rfc8899.txt#section-5.3.2
//# Implementations SHOULD select the set of probe packet sizes to maximize
//# the gain in PLPMTU from each search step.
/// Common link MTUs, in bytes of IP packets.
const LINK_MTUS: &[usize] =
    &[1_280, 1_380, 1_400, 1_420, 1_440, 1_460, 1_480, 1_492, 1_500, 4_352, 9_000, 16_384];

impl Default for MtuDiscovery {
    fn default() -> Self {
        Self {
            min: 512,
            base: 1_200,
            max: 1_452,
            raise_after: Duration::from_secs(600),
            link_mtus: LINK_MTUS,
        }
    }
}

/// A permitted path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedPath {
    /// The local address.
    pub local: IpAddr,
    /// The peer's address; `None`: any.
    pub peer: Option<IpAddr>,
}

/// The peers with which concurrent multipath transfer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultipathWith {
    /// All: the sender's rules do not need the peer's help. But a peer that sends on one path at a time
    /// waits longer for its miss indications.
    Anyone,
    /// Those that list NR-SACK, which is part of the same draft (draft-tuexen-tsvwg-sctp-multipath); for
    /// the rest the draft defines no parameter. NR-SACK is then listed, independently of
    /// [`sack.nr_sack`](super::Config::sack), in an INIT with several paths, and in the answer to one that lists it; any
    /// other INIT and INIT ACK is unchanged.
    WhereAgreed,
}
