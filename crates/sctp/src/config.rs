//! Configuration of an association: every protocol parameter of RFC 9260 §16 and every limit, as plain
//! values.
//!
//! The default follows RFC 9260 strictly; [`Profile`](crate::Profile) names other sets of values. The core
//! reads these values and never a profile.

use std::fmt;
use std::net::IpAddr;
use std::num::{NonZeroU8, NonZeroU16};
use std::sync::Arc;
use std::time::Duration;

use braidftp_cc as cc;
use bytes::Bytes;

use crate::association::{CHUNK_OVERHEAD_BYTES, Multipath, Scheduler};
use crate::dtls::{CONTENT_MAX, DtlsConfig, Mode, PACKET_OVERHEAD};
use crate::wire::{Header, HmacId};

/// The minimum receive window that INIT and INIT ACK may offer (RFC 9260 §3.3.2, §3.3.3).
pub(crate) const A_RWND_MIN: u32 = 1_500;
/// The maximum SACK delay (RFC 9260 §6.2).
pub(crate) const SACK_DELAY_MAX: Duration = Duration::from_millis(500);

/// The settings of an association. An endpoint has one for each listening port; a caller passes one to
/// `connect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The largest SCTP packet to send, in bytes: the path's MTU less IP (and UDP) headers. A multiple of
    /// 4. Default 1,452, which fits Ethernet over IPv6 and UDP.
    //= specs/rfc6951.txt#section-5.6
    //# If an SCTP endpoint starts to encapsulate the packets of a path, it
    //# MUST decrease the Path MTU of that path by the size of the UDP header.
    //= specs/rfc6951.txt#section-5.6
    //# If it stops encapsulating them, the Path MTU SHOULD be increased by
    //# the size of the UDP header.
    pub mtu: usize,
    /// Path MTU discovery (RFC 8899): packets become smaller if [`Config::mtu`] is too large, and larger if
    /// possible. Each path starts from `mtu`. `None`, the default: `mtu` is fixed.
    pub path_mtu_discovery: Option<MtuDiscovery>,
    /// Outbound streams requested (OS, RFC 9260 §3.3.2), at least 1. Default 10.
    pub outbound_streams: u16,
    /// Inbound streams permitted (MIS, RFC 9260 §3.3.2), at least 1. Default 2,048, as in implementations
    /// of RFC 9260.
    pub inbound_streams: u16,

    /// The congestion control of each path. Default RFC 9260 §7.2.
    pub congestion_control: cc::Kind,
    /// Initial window and growth. Default RFC 9260 §7.2.1.
    pub congestion_options: cc::Options,
    /// Max.Burst (RFC 9260 §6.1 D): the maximum number of packets with new data in response to one event.
    /// Default 4. `None`: only the window limits.
    pub max_burst: Option<u32>,
    /// How Max.Burst is applied. Default: by counting packets.
    pub burst_rule: BurstRule,
    /// How lost TSNs are detected. Default RFC 9260 §7.2.4.
    pub loss_detection: LossDetection,
    /// With [`LossDetection::MissingReports`]: the number of miss indications that marks a TSN lost.
    /// Default 3 (RFC 9260 §7.2.4); 4 in RFC 2960 §7.2.4.
    pub missing_reports: NonZeroU8,
    /// Whether and how data is sent on all active paths at once (concurrent multipath transfer). Default
    /// `None`.
    pub multipath: Option<Multipath>,
    /// With which peers concurrent multipath transfer is used, and SACKs are delayed in spite of gaps and
    /// carry the number of packets they acknowledge (delayed acknowledgement for CMT). Default: all.
    pub multipath_with: MultipathWith,
    /// The path of retransmissions when one of several paths is used at a time. Default RFC 9260 §6.4.
    pub retransmit_to: RetransmitTo,
    /// What is retransmitted immediately after a loss, and when fast recovery ends. Default RFC 9260
    /// §7.2.4.
    pub loss_recovery: LossRecovery,
    /// Whether a tail loss probe is sent when the end of the flight is not acknowledged for two RTTs, so
    /// that its loss is detected without a time-out. Not in RFC 9260. Default off.
    pub tail_loss_probe: bool,

    /// Whether the RTT of an INIT that was answered without retransmission is measured (optional in RFC
    /// 9260 §6.3.1). Default on.
    pub measure_handshake: bool,
    /// What "once per round trip" (RFC 9260 §6.3.1) means for RTT samples. Default: per smoothed RTT.
    pub measure_each: MeasureEach,
    /// RTO.Initial, RTO.Min, RTO.Max and the clock granularity (RFC 9260 §16). Default 1 s, 1 s, 60 s.
    pub rto: cc::rtt::Bounds,
    /// Max.Init.Retransmits (RFC 9260 §16). Default 8.
    pub max_init_retransmits: u32,
    /// The time until an unanswered INIT is retransmitted, to the peer's next address if there are several:
    /// the Connection Attempt Delay of RFC 8305 §5. After four such intervals, each wait is a quarter of
    /// the time since the first INIT, and at most RTO.Initial for the first 20 INITs. `None`, the default:
    /// T1-init follows the RTO (RFC 9260 §5.1.6).
    pub init_interval: Option<Duration>,
    /// Whether losses around the handshake and after time-outs are repaired early. DATA or SACK in
    /// COOKIE-ECHOED stands for COOKIE ACK (RFC 9260 §6: SHOULD be discarded). A repeated COOKIE ECHO makes
    /// the server retransmit its first flight. The handshake gives both sides a first RTT. Any
    /// acknowledgement, HEARTBEAT ACK or acknowledged path MTU probe ends the back-off of the RTO. A
    /// HEARTBEAT is sent with the first retransmissions after T3-rtx. No path MTU probe is sent while a
    /// path recovers from a time-out. Default off.
    pub early_repair: bool,
    /// Association.Max.Retrans (RFC 9260 §16): one more consecutive time-out ends the association. Default
    /// 10.
    pub association_max_retrans: u32,
    /// Path.Max.Retrans (RFC 9260 §16): one more consecutive time-out makes a path inactive. Default 5.
    pub path_max_retrans: u32,
    /// PotentiallyFailed.Max.Retrans (RFC 7829 §3.2): one more consecutive time-out makes a path
    /// potentially failed, and data moves to another path. `None`, the default: only
    /// [`Config::path_max_retrans`] counts, and timed-out data is retransmitted on another path (RFC 9260
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
    /// The paths that an association opened by this side may use; empty: all.
    pub allowed_paths: Vec<AllowedPath>,
    /// HB.interval (RFC 9260 §16): the time between HEARTBEATs of an idle path, plus an RTO. Default 30 s.
    /// `None`: no HEARTBEATs.
    pub heartbeat_interval: Option<Duration>,
    /// Valid.Cookie.Life (RFC 9260 §16). Default 60 s.
    pub valid_cookie_life: Duration,
    /// T5-shutdown-guard (RFC 9260 §9.2): the maximum duration of a shutdown from SHUTDOWN on; before it,
    /// the maximum time until half of the outstanding data is acknowledged. On expiry the association is
    /// aborted. Default 5 RTO.Max = 300 s.
    pub shutdown_guard: Duration,

    /// Whether a recovery sends in proportion to what is delivered (RFC 9937) instead of by the room in the
    /// window. Not used with a controller that measures deliveries, nor with `multipath` and
    /// [`LossDetection::MissingReports`]. Default off.
    pub proportional_reduction: bool,
    /// Whether a loss or time-out that duplicate TSNs prove spurious is undone (RFC 3708). Default off.
    pub undo_spurious: bool,
    /// With `multipath` and several paths: how many chunks, but at least 128 windows, are sent per skipped
    /// TSN, which is sent only after a SACK has acknowledged a later one. A peer that acknowledges it
    /// earlier acknowledges data that it cannot have, in order to hide losses or to receive more, and the
    /// association is aborted (skipped segments: Sherwood, Bhattacharjee, Braud: "Misbehaving TCP Receivers
    /// Can Cause Internet-Wide Congestion Collapse", CCS 2005). To an honest peer it looks like one lost
    /// packet, without effect on the window. `None`, the default: never; `modern` has 4,096.
    pub pass_over_every: Option<NonZeroU16>,

    /// SACK.Delay (RFC 9260 §16): the maximum delay of a SACK. Default 200 ms; never more than 500 ms.
    pub sack_delay: Duration,
    /// SACK.Frequency: the number of packets with DATA per SACK (RFC 9260 §6.2). Default 2.
    pub sack_frequency: u32,
    /// Whether a packet that fills the last gap is acknowledged immediately, as in RFC 5681 §4.2 for TCP.
    /// If not, its SACK may be delayed, which "until the hole is filled" (RFC 9260 §7.2.4) permits. Default
    /// on.
    pub sack_at_once_when_filled: bool,
    /// Whether the last chunk before a pause requests an immediate SACK (I bit, RFC 7053), which RFC 9260
    /// §6.1 leaves to the sender. Default off.
    pub immediate_at_end: bool,
    /// Whether a message is fragmented to fill the room in a packet. If not, only messages longer than a
    /// packet are fragmented, into full packets: fewer chunks, more packets, and common in other stacks.
    /// RFC 9260 §6.9 permits both. Default off.
    pub fill_packets: bool,

    /// The stream scheduler (RFC 8260 §3). Default round robin.
    pub scheduler: Scheduler,
    /// Whether messages of different streams are interleaved, if the peer supports it (I-DATA, RFC 8260
    /// §2), so that a long message does not delay others. Lengthens INIT; some stacks do not answer an INIT
    /// with parameters. Default off.
    pub interleaving: bool,
    /// Whether messages may be abandoned after they were sent, if the peer supports it (PR-SCTP, RFC 3758),
    /// as requested in [`Message::reliability`](crate::Message::reliability). Lengthens INIT. RFC 3758 §4.2
    /// recommends to offer it. Default off.
    pub partial_reliability: bool,
    /// Whether NR-SACK (draft-natarajan-tsvwg-sctp-nrsack) is used with a peer that supports it: it tells
    /// that received data will not be revoked, so that the sender need not keep it. Lengthens INIT. Default
    /// off.
    pub nr_sack: bool,
    /// Whether COMPACT-SACK (`specs/compact-sack.md`) is used with a peer that supports it, to report more
    /// gaps than fit in a SACK, as on fast lossy paths. Lengthens INIT. Default off.
    pub compact_sack: bool,

    /// Which chunks of the peer must be authenticated by an AUTH chunk, and the keys (RFC 4895). Lengthens
    /// INIT; some stacks do not answer an INIT with parameters. `None`, the default: no authentication.
    pub auth: Option<AuthConfig>,
    /// Whether addresses may change during an association, if the peer supports it (RFC 5061). Implies
    /// authentication, with the null key unless [`Config::auth`] is set. Default off.
    pub asconf: bool,
    /// The adaptation code point reported to the peer's user (RFC 5061 §4.2.6). Default `None`.
    pub adaptation: Option<u32>,
    /// Explicit congestion notification, if the peer supports it (RFC 4960 Appendix A, RFC 3168). Lengthens
    /// INIT, and is useful only where queues mark packets. Default off.
    pub ecn: bool,
    /// The error detection of the lower layer that makes the checksum unnecessary: packets without a
    /// checksum are accepted, and sent to a peer that accepts them (RFC 9653). Plain UDP and IP have none,
    /// so that corrupt packets would not be detected. Default `None`.
    pub zero_checksum: Option<ErrorDetection>,
    /// Stream re-configuration, if the peer supports it (RE-CONFIG, RFC 6525). Lengthens INIT. Default off.
    pub reconfiguration: bool,
    /// Whether packets are protected with keys that the user agrees on with its peer
    /// (draft-ietf-tsvwg-sctp-dtls-chunk). Excludes [`Config::auth`], which is then not offered. Lengthens
    /// INIT. Default `None`.
    pub dtls: Option<DtlsConfig>,
    /// The re-configurations that the peer may request (RFC 6525 §6.3.1). Default none.
    pub peer_may: PeerMay,
    /// The maximum number of outbound streams that the peer may request (RFC 6525 §5.2.6); for inbound
    /// streams, see [`Config::inbound_streams`]. Default 2,048.
    pub outbound_streams_max: u16,

    /// The receive buffer in bytes, from which `a_rwnd` is computed. Includes chunk overhead. With
    /// interleaving, up to twice as much is held of messages that wait for others. At least 1,500. Default
    /// 1 MiB.
    pub receive_buffer_bytes: usize,
    /// The size in bytes up to which the receive buffer grows automatically, to twice what arrives and is
    /// read in one RTT of the slowest path. The additional memory is used only if both the sender and the
    /// reader are that fast. `None`, the default: the size is fixed.
    pub receive_buffer_max_bytes: Option<usize>,
    /// The receive buffer in bytes of an association opened by a peer, until its user calls
    /// [`Association::admit`](crate::Association::admit). Until then the association is half-open, its
    /// buffer does not grow, and it counts towards [`Limits::half_open`](crate::Limits::half_open). At
    /// least 1,500. `None`, the default: admitted from the start.
    pub unadmitted_receive_buffer_bytes: Option<usize>,
    /// The overhead in bytes charged to the receive buffer for each chunk besides its data, which limits
    /// the number of tiny chunks. At least 16, the length of its header. Default 64.
    pub chunk_overhead_bytes: usize,
    /// Which receive window is advertised. Default RFC 9260 §6.2.
    pub window_updates: WindowUpdates,
    /// The send buffer in bytes: messages queued or not yet acknowledged. Default 1 MiB.
    pub send_buffer_bytes: usize,
    /// The size in bytes up to which the send buffer grows automatically, by the bytes in flight, so that
    /// as much data as before can be queued behind them. `None`, the default: the size is fixed.
    pub send_buffer_max_bytes: Option<usize>,
    /// The longest message that can be sent, in bytes. One longer than the send buffer is only accepted by
    /// an empty buffer. Default 16 MiB.
    pub max_message_bytes: usize,
}

//= specs/rfc9260.txt#section-16
//# The following protocol parameters are RECOMMENDED:
impl Default for Config {
    fn default() -> Self {
        Self {
            mtu: 1_452,
            path_mtu_discovery: None,
            outbound_streams: 10,
            inbound_streams: 2_048,
            congestion_control: cc::Kind::Sctp,
            congestion_options: cc::Options::default(),
            max_burst: Some(4),
            burst_rule: BurstRule::Packets,
            loss_detection: LossDetection::MissingReports,
            missing_reports: NonZeroU8::new(3).expect("3 is not 0"),
            multipath: None,
            multipath_with: MultipathWith::Anyone,
            retransmit_to: RetransmitTo::ByCause,
            loss_recovery: LossRecovery::Rfc9260,
            measure_handshake: true,
            measure_each: MeasureEach::SmoothedRoundTrip,
            tail_loss_probe: false,
            rto: cc::rtt::Bounds::default(),
            max_init_retransmits: 8,
            init_interval: None,
            early_repair: false,
            association_max_retrans: 10,
            path_max_retrans: 5,
            potentially_failed_max_retrans: None,
            primary_switchover_max_retrans: None,
            allowed_paths: Vec::new(),
            heartbeat_interval: Some(Duration::from_secs(30)),
            valid_cookie_life: Duration::from_secs(60),
            //= specs/rfc9260.txt#section-9.2
            //# If the T5-shutdown-guard timer is used, it SHOULD be set to the
            //# RECOMMENDED value of 5 times 'RTO.Max'.
            shutdown_guard: Duration::from_secs(300),
            proportional_reduction: false,
            undo_spurious: false,
            pass_over_every: None,
            sack_delay: Duration::from_millis(200),
            sack_frequency: 2,
            sack_at_once_when_filled: true,
            immediate_at_end: false,
            fill_packets: false,
            scheduler: Scheduler::RoundRobin,
            //= specs/rfc8260.txt#section-2.2.1
            //# An endpoint implementing the socket API specified in [RFC6458] MUST
            //# NOT indicate user message interleaving support unless the user has
            //# requested its use (e.g., via the socket API; see Section 4.3).
            //= specs/rfc8260.txt#section-2.2.1
            //# This is not the default choice within the socket API (see the
            //# SCTP_FRAGMENT_INTERLEAVE socket option in Section 8.1.20 of
            //# [RFC6458]); thus, the user MUST indicate to the SCTP implementation
            //# its support for receiving completely interleaved messages.
            //= specs/rfc8260.txt#section-2.2.1
            //# The crucial point is that the SCTP stack MUST know that the
            //# application can handle interleaved messages before indicating the
            //# I-DATA support.
            interleaving: false,
            partial_reliability: false,
            nr_sack: false,
            compact_sack: false,
            auth: None,
            asconf: false,
            adaptation: None,
            ecn: false,
            zero_checksum: None,
            reconfiguration: false,
            dtls: None,
            peer_may: PeerMay::default(),
            outbound_streams_max: 2_048,
            receive_buffer_bytes: 1 << 20,
            receive_buffer_max_bytes: None,
            unadmitted_receive_buffer_bytes: None,
            chunk_overhead_bytes: CHUNK_OVERHEAD_BYTES,
            window_updates: WindowUpdates::AvoidSilly,
            send_buffer_bytes: 1 << 20,
            send_buffer_max_bytes: None,
            max_message_bytes: 16 << 20,
        }
    }
}

impl Config {
    /// The same settings, with values that RFC 9260 does not permit replaced by the nearest permitted ones.
    pub(crate) fn within_bounds(self: Arc<Self>) -> Arc<Self> {
        // The maximum content of a record.
        let protected_max = Header::LEN + PACKET_OVERHEAD + CONTENT_MAX;
        let packet_max = if self.dtls.is_some() { protected_max } else { usize::MAX };
        let bounded = Self {
            //= specs/rfc5061.txt#section-4.2.7
            //# An implementation supporting this
            //# extension MUST list the ASCONF,the ASCONF-ACK, and the AUTH chunks in
            //# its INIT and INIT-ACK parameters.
            //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
            //# Therefore, its support MUST NOT
            //# be negotiated in combination with the support of the DTLS chunk.
            auth: match self.dtls {
                None => self.auth.clone().or_else(|| self.asconf.then(AuthConfig::default)),
                Some(_) => None,
            },
            // A peer without DTLS chunks would refuse an INIT that lists ASCONF and offers no
            // authentication (RFC 5061 §6).
            asconf: self.asconf && self.dtls.as_ref().is_none_or(|dtls| dtls.mode == Mode::Strict),
            mtu: self.mtu.min(packet_max),
            path_mtu_discovery: self
                .path_mtu_discovery
                .map(|discovery| MtuDiscovery { max: discovery.max.min(packet_max), ..discovery }),
            //= specs/rfc9260.txt#section-3.3.2
            //# The value of 0 MUST NOT be used.
            outbound_streams: self.outbound_streams.max(1),
            //= specs/rfc9260.txt#section-3.3.2
            //# The value 0 MUST NOT be used.
            //= specs/rfc9260.txt#section-3.3.3
            //# The value 0 MUST NOT be used.
            inbound_streams: self.inbound_streams.max(1),
            //= specs/rfc9260.txt#section-3.3.2
            //# The Advertised Receiver Window Credit MUST NOT be smaller than
            //# 1500.
            //= specs/rfc9260.txt#section-3.3.3
            //# The Advertised Receiver Window Credit MUST NOT be smaller than 1500.
            receive_buffer_bytes: self.receive_buffer_bytes.max(A_RWND_MIN as usize),
            unadmitted_receive_buffer_bytes: self
                .unadmitted_receive_buffer_bytes
                .map(|bytes| bytes.max(A_RWND_MIN as usize)),
            chunk_overhead_bytes: self.chunk_overhead_bytes.clamp(16, CHUNK_OVERHEAD_BYTES),
            //= specs/rfc9260.txt#section-6.2
            //# An implementation MUST NOT allow the maximum delay (protocol
            //# parameter 'SACK.Delay') to be configured to be more than 500 ms.
            //= specs/rfc9260.txt#section-6.2
            //# In other words, an implementation MAY lower the value of 'SACK.Delay'
            //# below 500 ms but MUST NOT raise it above 500 ms.
            sack_delay: self.sack_delay.min(SACK_DELAY_MAX),
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
            primary_switchover_max_retrans: self
                .primary_switchover_max_retrans
                .map(|max| max.max(self.potentially_failed_max_retrans.unwrap_or(self.path_max_retrans))),
            ..Self::clone(&self)
        };
        if bounded == *self { self } else { Arc::new(bounded) }
    }

    /// The receive buffer advertised to a peer that opens an association.
    pub(crate) fn passive_receive_buffer_bytes(&self) -> usize {
        let unadmitted = self.unadmitted_receive_buffer_bytes.unwrap_or(usize::MAX);
        self.receive_buffer_bytes.min(unadmitted)
    }

    /// Whether packets may be sent between these addresses.
    pub(crate) fn allows(&self, local: IpAddr, peer: IpAddr) -> bool {
        let covers = |path: &AllowedPath| path.local == local && path.peer.is_none_or(|its| its == peer);
        self.allowed_paths.is_empty() || self.allowed_paths.iter().any(covers)
    }
}

/// A method by which the layer below SCTP detects errors (RFC 9653 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorDetection {
    /// SCTP over DTLS (RFC 8261): every packet is authenticated.
    Dtls,
}

impl ErrorDetection {
    /// The Error Detection Method Identifier.
    pub fn edmid(self) -> u32 {
        match self {
            Self::Dtls => 1,
        }
    }
}

/// The re-configurations that a peer may request (RFC 6525 §6.3.1, SCTP_ENABLE_STREAM_RESET). Others are
/// denied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PeerMay {
    /// Whether streams of either direction may be reset.
    pub reset_streams: bool,
    /// Whether all SSNs and TSNs may be reset.
    pub reset_association: bool,
    /// Whether streams of either direction may be added.
    pub add_streams: bool,
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
    /// MAX_PLPMTU: the maximum size. Default 1,452, or [`Config::mtu`] if that is larger.
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

/// Authentication of chunks (RFC 4895, RFC 6458 §8.3).
///
/// The default authenticates with the null key, which excludes attackers who did not see the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// The chunk types that the peer must authenticate; unauthenticated ones are discarded, even if the
    /// peer does not support authentication. INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH are ignored here,
    /// since they cannot be authenticated. Default none.
    pub chunks: Vec<u8>,
    /// The hash functions that the peer may use, in order of preference. SHA-1 is appended if missing (RFC
    /// 4895 §6.1). Default SHA-256, SHA-1.
    pub hmacs: Vec<HmacId>,
    /// The endpoint pair shared keys. Empty: the null key, 0; otherwise the null key is not accepted (RFC
    /// 4895 §9). At most [`AuthConfig::MAX_KEYS`] are used.
    pub keys: Vec<SharedKey>,
    /// The key used for sending, once both sides are known to authenticate. Default 0.
    pub active_key: u16,
}

impl AuthConfig {
    /// The maximum number of keys of an association.
    pub const MAX_KEYS: usize = 16;

    /// The maximum length of a key in bytes.
    pub const MAX_KEY_BYTES: usize = 1_024;
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self { chunks: Vec::new(), hmacs: HmacId::ALL.to_vec(), keys: Vec::new(), active_key: 0 }
    }
}

/// An endpoint pair shared key (RFC 4895 §6.1).
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey {
    /// Its shared key identifier.
    pub id: u16,
    /// The key; bytes beyond [`AuthConfig::MAX_KEY_BYTES`] are ignored.
    pub secret: Bytes,
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey({}, ..)", self.id)
    }
}

/// How a missing TSN is detected as lost before its timer expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossDetection {
    /// Three miss indications, once for each TSN (RFC 9260 §7.2.4).
    MissingReports,
    /// A packet sent three packets or a quarter of an RTT later was acknowledged; lost retransmissions are
    /// detected in the same way.
    SendOrder,
}

/// How Max.Burst is applied (RFC 9260 §6.1 D permits both).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BurstRule {
    /// At most this many packets with new data are sent in response to one event, whatever the window.
    Packets,
    /// Before new data is sent, the window is reduced to Max.Burst packets above the flight, permanently:
    /// `if ((flightsize + Max.Burst*MTU) < cwnd) cwnd = flightsize + Max.Burst*MTU`, as RFC 4960 §6.1 D
    /// permits and P2 §4.2 reports of KAME. RFC 9260 does not want a permanent change.
    LowerWindow,
}

/// How often the RTT is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureEach {
    /// When the smoothed RTT has passed since the last sample, so that a growing queue is noticed soon; or
    /// twice the current RTT, so that its end is noticed soon.
    SmoothedRoundTrip,
    /// On a chunk sent after the last sample: one chunk is timed at a time, as in implementations without a
    /// time for each chunk.
    RoundTrip,
}

/// What is retransmitted immediately after a loss, and when fast recovery ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossRecovery {
    /// The first packet of a fast recovery is sent whatever the window, the others as soon as the window
    /// permits (RFC 9260 §6.3.3, §7.2.4). A time-out ends fast recovery.
    Rfc9260,
    /// Each time-out and each fast retransmission, also during fast recovery, sends one packet; the others
    /// follow with the next SACK: "normally, when a SACK chunk arrives" (RFC 4960 §6.3.3, §7.2.4). Only its
    /// exit point ends fast recovery, and no window grows until then; the SACK that ends it lets the window
    /// grow, as in BSD and Linux.
    Rfc4960,
}

/// The peers with which concurrent multipath transfer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultipathWith {
    /// All: the sender's rules do not need the peer's help. But a peer that sends on one path at a time
    /// waits longer for its miss indications.
    Anyone,
    /// Those that list NR-SACK, which is part of the same draft (draft-tuexen-tsvwg-sctp-multipath); for
    /// the rest the draft defines no parameter. NR-SACK is then listed, independently of
    /// [`Config::nr_sack`], in an INIT with several paths, and in the answer to one that lists it; any
    /// other INIT and INIT ACK is unchanged.
    WhereAgreed,
}

/// The path of retransmissions when one of several paths is used at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetransmitTo {
    /// The same path after miss indications, another one after a time-out (RFC 9260 §6.4).
    ByCause,
    /// The same path, unless it is inactive.
    Same,
    /// Another path, also after miss indications (RFC 2960 §6.4: an active address different from the
    /// last).
    Another,
}

/// Which receive window is advertised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowUpdates {
    /// Only large increases, and immediately when a small window opens wide (RFC 9260 §6.2, RFC 1122
    /// §4.2.3.3).
    AvoidSilly,
    /// The free space in each SACK, without additional SACKs for window updates: for receivers that read
    /// immediately.
    AsItIs,
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
            (config.rto.initial, config.rto.min, config.rto.max),
            (seconds(1), seconds(1), seconds(60))
        );
        assert_eq!((config.max_burst, config.valid_cookie_life), (Some(4), seconds(60)));
        assert_eq!((config.association_max_retrans, config.path_max_retrans), (10, 5));
        assert_eq!((config.max_init_retransmits, config.heartbeat_interval), (8, Some(seconds(30))));
        assert_eq!(config.sack_delay, Duration::from_millis(200));
        assert_eq!(config.shutdown_guard, 5 * config.rto.max);
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
        let bad = Config {
            outbound_streams: 0,
            inbound_streams: 0,
            receive_buffer_bytes: 0,
            sack_delay: Duration::from_millis(501),
            ..Config::default()
        };
        let nearest = Config {
            outbound_streams: 1,
            inbound_streams: 1,
            receive_buffer_bytes: 1_500,
            sack_delay: Duration::from_millis(500),
            ..Config::default()
        };
        assert_eq!(*Arc::new(bad).within_bounds(), nearest);
    }
}
