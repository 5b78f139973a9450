//! Settings of the handshake, of timers, acknowledgements, congestion control and loss recovery.

use std::time::Duration;

use braidftp_cc as cc;

/// The handshake (RFC 9260 §5).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `max_init_retransmits` | 8 | 8 | 26 | 8 |
/// | `copy_after` | none | none | 0.01 s | none |
/// | `init_interval` | none | none | 0.25 s | none |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// Max.Init.Retransmits (RFC 9260 §16). Default 8.
    pub max_init_retransmits: u32,
    /// The time after which an INIT that is not answered yet is sent a second time, to the same address, and so is a COOKIE ECHO whose
    /// first flight is one packet: on a path with a longer RTT, one loss in the handshake costs this much in place of a time-out. The
    /// copies are two small packets each way (Vulimiri et al., CoNEXT 2013), and at least 10 ms apart (RFC 8305 §8), so that a burst of
    /// losses seldom takes both. `None`, the default: nothing is sent before T1 expires (RFC 9260 §5.1).
    pub copy_after: Option<Duration>,
    /// The time until an unanswered INIT is retransmitted, to the peer's next address if there are several:
    /// the Connection Attempt Delay of RFC 8305 §5. After four such intervals, each wait is a quarter of
    /// the time since the first INIT, and at most RTO.Initial for the first 20 INITs. `None`, the default:
    /// T1-init follows the RTO (RFC 9260 §5.1.6).
    pub init_interval: Option<Duration>,
    /// The number of INITs to each of the peer's addresses that an ICMP message "port unreachable" must report
    /// (RFC 6951 §5.5) to end an association in COOKIE-WAIT. `None`, the default: T1-init alone ends it, so that
    /// a server may start while a client tries to reach it.
    pub refused_inits: Option<u32>,
    /// Valid.Cookie.Life (RFC 9260 §16). Default 60 s.
    pub valid_cookie_life: Duration,
    /// The adaptation code point reported to the peer's user (RFC 5061 §4.2.6). Default `None`.
    pub adaptation: Option<u32>,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            max_init_retransmits: 8,
            copy_after: None,
            init_interval: None,
            refused_inits: None,
            valid_cookie_life: Duration::from_secs(60),
            adaptation: None,
        }
    }
}

/// Timers of an association that is up (RFC 9260 §6.3, §8.3, §9.2, §16).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `rto.initial` | 3 s | 1 s | 1 s | 3 s |
/// | `rto.min` | 1 s | 1 s | 0.1 s | 1 s |
/// | `rto.max` | 60 s | 60 s | 60 s | 60 s |
/// | `heartbeat_interval` | 30 s | 30 s | 30 s | 30 s |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timers {
    /// RTO.Initial, RTO.Min, RTO.Max and the clock granularity (RFC 9260 §16). Default 1 s, 1 s, 60 s.
    pub rto: cc::rtt::Bounds,
    /// HB.interval (RFC 9260 §16): the time between HEARTBEATs of an idle path, plus an RTO. Default 30 s.
    /// `None`: no HEARTBEATs.
    pub heartbeat_interval: Option<Duration>,
    /// T5-shutdown-guard (RFC 9260 §9.2): the maximum duration of a shutdown from SHUTDOWN on; before it,
    /// the maximum time until half of the outstanding data is acknowledged. On expiry the association is
    /// aborted. Default 5 RTO.Max = 300 s.
    pub shutdown_guard: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            rto: cc::rtt::Bounds::default(),
            heartbeat_interval: Some(Duration::from_secs(30)),
            //= specs/rfc9260.txt#section-9.2
            //# If the T5-shutdown-guard timer is used, it SHOULD be set to the
            //# RECOMMENDED value of 5 times 'RTO.Max'.
            shutdown_guard: Duration::from_secs(300),
        }
    }
}

/// Acknowledgements (RFC 9260 §6.2, RFC 7053).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `delay` | 0.2 s | 0.2 s | 0.02 s | 0.2 s |
/// | `frequency` | 2 | 2 | 2 | 2 |
/// | `immediate_at_end` | off | off | on | off |
/// | `compact_sack` | off | off | on | off |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sack {
    /// SACK.Delay (RFC 9260 §16): the maximum delay of a SACK. Default 200 ms; never more than 500 ms.
    pub delay: Duration,
    /// SACK.Frequency: the number of packets with DATA per SACK (RFC 9260 §6.2). Default 2.
    pub frequency: u32,
    /// Whether the last chunk before a pause requests an immediate SACK (I bit, RFC 7053), which RFC 9260
    /// §6.1 leaves to the sender. Default off.
    pub immediate_at_end: bool,
    /// Whether NR-SACK (draft-natarajan-tsvwg-sctp-nrsack) is used with a peer that supports it: it tells
    /// that received data will not be revoked, so that the sender need not keep it. Lengthens INIT. Default
    /// off.
    pub nr_sack: bool,
    /// Whether COMPACT-SACK (`specs/compact-sack.md`) is used with a peer that supports it, to report more
    /// gaps than fit in a SACK, as on fast lossy paths. Lengthens INIT. Default off.
    pub compact_sack: bool,
}

impl Default for Sack {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(200),
            frequency: 2,
            immediate_at_end: false,
            nr_sack: false,
            compact_sack: false,
        }
    }
}

/// Congestion control of each path (RFC 9260 §7.2, §6.1 D).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `control` | sctp | sctp | auto | sctp |
/// | `options.initial_window` | Mtus(2) | Ipv4 | Mtus(10) | Tcp |
/// | `options.initial_ssthresh` | none | none | none | 65536 B |
/// | `options.floor_mtus` | 2 | 4 | 4 | 4 |
/// | `options.byte_counting_limit` | 1 | 1 | 2 | 1 |
/// | `options.grows_on` | CumAdvance | AnyAck | AnyAck | CumAdvance |
/// | `options.partial_bytes` | All | All | All | WhileUsed |
/// | `options.idle_rule` | Rfc9260 | Rfc9260 | Rfc9260 | Rfc4960 |
/// | `options.slow_start` | UntilLoss | UntilLoss | HyStart | UntilLoss |
/// | `max_burst` | 4 | 4 | none | 4 |
/// | `proportional_reduction` | off | off | on | off |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Congestion {
    /// The congestion control of each path. Default RFC 9260 §7.2.
    pub control: cc::Kind,
    /// Initial window and growth. Default RFC 9260 §7.2.1.
    pub options: cc::Options,
    /// Max.Burst (RFC 9260 §6.1 D): the maximum number of packets with new data in response to one event.
    /// Default 4. `None`: only the window limits.
    pub max_burst: Option<u32>,
    /// Whether a recovery sends in proportion to what is delivered (RFC 9937) instead of by the room in the
    /// window. Not used with a controller that measures deliveries, nor with `multipath` and
    /// [`LossDetection::MissingReports`]. Default off.
    pub proportional_reduction: bool,
    /// Explicit congestion notification, if the peer supports it (RFC 4960 Appendix A, RFC 3168). Lengthens
    /// INIT, and is useful only where queues mark packets. Default off.
    pub ecn: bool,
}

impl Default for Congestion {
    fn default() -> Self {
        Self {
            control: cc::Kind::Sctp,
            options: cc::Options::default(),
            max_burst: Some(4),
            proportional_reduction: false,
            ecn: false,
        }
    }
}

/// Loss detection and its repair beyond RFC 9260 §7.2.4: RFC 9002 §6.1, RFC 8985 §7, RFC 3708.
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `loss_detection` | MissingReports | MissingReports | SendOrder | MissingReports |
/// | `tail_loss_probe` | off | off | on | off |
/// | `undo_spurious` | off | off | on | off |
/// | `early_repair` | off | off | on | off |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// How lost TSNs are detected. Default RFC 9260 §7.2.4.
    pub loss_detection: LossDetection,
    /// Whether a tail loss probe is sent when the end of the flight is not acknowledged for two RTTs, so
    /// that its loss is detected without a time-out. Not in RFC 9260. Default off.
    pub tail_loss_probe: bool,
    /// Whether a loss or time-out that duplicate TSNs prove spurious is undone (RFC 3708). Default off.
    pub undo_spurious: bool,
    /// Whether losses around the handshake and after time-outs are repaired early. DATA or SACK in
    /// COOKIE-ECHOED stands for COOKIE ACK (RFC 9260 §6: SHOULD be discarded). A repeated COOKIE ECHO makes
    /// the server retransmit its first flight. The handshake gives both sides a first RTT. Any
    /// acknowledgement, HEARTBEAT ACK or acknowledged path MTU probe ends the back-off of the RTO. A
    /// HEARTBEAT is sent with the first retransmissions after T3-rtx. No path MTU probe is sent while a
    /// path recovers from a time-out. Default off.
    pub early_repair: bool,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            loss_detection: LossDetection::MissingReports,
            tail_loss_probe: false,
            undo_spurious: false,
            early_repair: false,
        }
    }
}

/// How a missing TSN is detected as lost before its timer expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossDetection {
    /// Three miss indications, once for each TSN (RFC 9260 §7.2.4).
    MissingReports,
    /// A packet sent three packets or an eighth of an RTT later was acknowledged (RFC 9002 §6.1), or later
    /// by as much as the path was seen to delay single packets (RFC 8985 §6.2). Lost retransmissions are
    /// detected in the same way.
    SendOrder,
}
