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

/// The least receive window that INIT and INIT ACK may offer (RFC 9260 §3.3.2, §3.3.3).
pub(crate) const A_RWND_MIN: u32 = 1_500;
/// RFC 9260 §6.2: the SACK delay is never more than this.
pub(crate) const SACK_DELAY_MAX: Duration = Duration::from_millis(500);

/// The settings of an association. An endpoint keeps one for each port it listens on, a caller gives one to `connect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The largest SCTP packet to send, in bytes: the path's MTU less IP (and UDP) headers. 1,452 fits Ethernet over
    /// IPv6 and UDP. A multiple of 4.
    //= specs/rfc6951.txt#section-5.6
    //# If an SCTP endpoint starts to encapsulate the packets of a path, it
    //# MUST decrease the Path MTU of that path by the size of the UDP header.
    //= specs/rfc6951.txt#section-5.6
    //# If it stops encapsulating them, the Path MTU SHOULD be increased by
    //# the size of the UDP header.
    pub mtu: usize,
    /// Whether packets become smaller where [`Config::mtu`] proves too large, and larger where there is room: path MTU
    /// discovery (RFC 8899). Each path then starts from `mtu`. None: `mtu` is what it is.
    pub path_mtu_discovery: Option<MtuDiscovery>,
    /// Outbound streams wanted (OS, RFC 9260 §3.3.2), at least 1. 10.
    pub outbound_streams: u16,
    /// Inbound streams allowed (MIS, RFC 9260 §3.3.2), at least 1. 2,048, as RFC 9260's implementations allow.
    pub inbound_streams: u16,

    /// The congestion control of each path. RFC 9260 §7.2.
    pub congestion_control: cc::Kind,
    /// The first window and how fast it may grow. RFC 9260 §7.2.1.
    pub congestion_options: cc::Options,
    /// Max.Burst (RFC 9260 §6.1 D): packets with new data in answer to one event. 4. `None`: the window alone limits.
    pub max_burst: Option<u32>,
    /// How Max.Burst is kept to. By counting packets.
    pub burst_rule: BurstRule,
    /// How a missing TSN is found to be lost. RFC 9260 §7.2.4.
    pub loss_detection: LossDetection,
    /// With [`LossDetection::MissingReports`]: so many of them make a TSN lost. 3 (RFC 9260 §7.2.4); RFC 2960 §7.2.4 has 4.
    pub missing_reports: NonZeroU8,
    /// Whether data leaves by all active paths at once (concurrent multipath transfer), and how, if there are several. None.
    pub multipath: Option<Multipath>,
    /// With which peers data takes several paths at once, and SACKs wait although there are gaps and say how many packets they
    /// answer (delayed acknowledgement for CMT). Anyone.
    pub multipath_with: MultipathWith,
    /// By which path a lost chunk leaves again, if there are several and one at a time is used. RFC 9260 §6.4.
    pub retransmit_to: RetransmitTo,
    /// What a loss lets out, and what ends fast recovery. RFC 9260 §7.2.4.
    pub loss_recovery: LossRecovery,
    /// Whether a probe is sent when the tail of what is in flight stays unanswered for two round trips, so that its
    /// loss shows without a time-out. RFC 9260 knows none.
    pub tail_loss_probe: bool,

    /// Whether the round trip of an INIT that was answered at once is measured (RFC 9260 §6.3.1 leaves it open). On.
    pub measure_handshake: bool,
    /// What "once per round trip" (RFC 9260 §6.3.1) means for measuring it. By the smoothed one.
    pub measure_each: MeasureEach,
    /// RTO.Initial, RTO.Min, RTO.Max and the clock's granularity (RFC 9260 §16). 1 s, 1 s, 60 s.
    pub rto: cc::rtt::Bounds,
    /// Max.Init.Retransmits (RFC 9260 §16). 8.
    pub max_init_retransmits: u32,
    /// How long an INIT waits for its INIT ACK before it is sent again, to the peer's next address if there are several:
    /// the Connection Attempt Delay of RFC 8305 §5. After four such intervals, each wait is a quarter of the time since the
    /// first INIT, and at most RTO.Initial for the first 20 INITs. `None`: T1-init follows the RTO (RFC 9260 §5.1.6). None.
    pub init_interval: Option<Duration>,
    /// Whether losses around the handshake and after time-outs are repaired early. DATA or SACK in COOKIE-ECHOED stands for
    /// COOKIE ACK (RFC 9260 §6: SHOULD be discarded). A repeated COOKIE ECHO makes the server retransmit its first flight. The
    /// handshake gives both sides a first RTT. Any acknowledgement, HEARTBEAT ACK or path MTU probe's answer ends the back-off
    /// of RTO. A HEARTBEAT is sent with the first retransmissions of T3-rtx. No path MTU probe is sent while a path recovers
    /// from a time-out. Off.
    pub early_repair: bool,
    /// Association.Max.Retrans (RFC 9260 §16): so many time-outs in a row, plus one, end the association. 10.
    pub association_max_retrans: u32,
    /// Path.Max.Retrans (RFC 9260 §16): so many time-outs in a row, plus one, make a path inactive. 5.
    pub path_max_retrans: u32,
    /// PotentiallyFailed.Max.Retrans (RFC 7829 §3.2): so many time-outs in a row, plus one, make data leave by another
    /// path if there is one. `None`: only [`Config::path_max_retrans`] counts, and what timed out is repeated elsewhere
    /// (RFC 9260 §6.4.1). None.
    pub potentially_failed_max_retrans: Option<u32>,
    /// Primary.Switchover.Max.Retrans (RFC 7829 §5): so many time-outs of the primary path in a row, plus one, and the
    /// path that carries data in its place stays the primary one when it works again. Never less than what makes data
    /// leave by another path. `None`: data returns. None.
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
    /// The paths that an association which this side begins may use; none named: all there are.
    pub allowed_paths: Vec<AllowedPath>,
    /// HB.interval (RFC 9260 §16): how long an idle path waits for its next HEARTBEAT, plus an RTO. 30 s. `None`: none
    /// are sent.
    pub heartbeat_interval: Option<Duration>,
    /// Valid.Cookie.Life (RFC 9260 §16). 60 s.
    pub valid_cookie_life: Duration,
    /// T5-shutdown-guard (RFC 9260 §9.2): how long a shutdown may take from SHUTDOWN on, and how long half of what is still to be
    /// acknowledged before it may take. Then the association is aborted. 5 RTO.Max = 300 s.
    pub shutdown_guard: Duration,

    /// Whether a recovery lets out what is in proportion to what arrives (RFC 9937) and not what the window has room for. Not
    /// with a controller that counts arrivals, nor with `multipath` and [`LossDetection::MissingReports`]. Off.
    pub proportional_reduction: bool,
    /// Whether a loss or a time-out that duplicate TSNs prove to be none is undone (RFC 3708). Off.
    pub undo_spurious: bool,
    /// With `multipath` and several paths: once in so many chunks, or in 128 windows if that is more, a TSN is passed over, and
    /// leaves when a SACK has spoken of a later one. A peer that acknowledges it before says that it has what it cannot
    /// have, as one does that hides losses on a path or runs ahead of what has come, to be sent more; the association is
    /// aborted (skipped segments: Sherwood, Bhattacharjee, Braud: "Misbehaving TCP Receivers Can Cause Internet-Wide Congestion
    /// Collapse", CCS 2005). To an honest peer it is one packet lost, but for the window. `None`: never; `modern` has 4,096.
    pub pass_over_every: Option<NonZeroU16>,

    /// SACK.Delay (RFC 9260 §16): how long a SACK may wait. 200 ms; never more than 500 ms.
    pub sack_delay: Duration,
    /// SACK.Frequency: how many packets with DATA one SACK may answer (RFC 9260 §6.2). 2.
    pub sack_frequency: u32,
    /// Whether a packet that fills the last gap is answered at once, as RFC 5681 §4.2 has it for TCP. If not, it may wait for
    /// another like any packet without a gap: "until the hole is filled" (RFC 9260 §7.2.4) can be read so. On.
    pub sack_at_once_when_filled: bool,
    /// Whether the last chunk before the sender falls silent asks for its SACK at once (I bit, RFC 7053). RFC 9260
    /// §6.1 leaves it to the sender. Off.
    pub immediate_at_end: bool,
    /// Whether a message is cut to fill what room a packet has left. If not, only what is longer than a packet is cut, into
    /// packets: fewer chunks, more packets, and what other stacks do. RFC 9260 §6.9 has both. Off.
    pub fill_packets: bool,

    /// Which stream sends next (RFC 8260 §3). Round robin.
    pub scheduler: Scheduler,
    /// Whether messages of different streams may mix, if the peer agrees (I-DATA, RFC 8260 §2), so that a long one does
    /// not hold up others. It makes an INIT longer, and some stacks answer none that has parameters. Off.
    pub interleaving: bool,
    /// Whether messages may be given up once they left, if the peer agrees (PR-SCTP, RFC 3758): what
    /// [`Message::reliability`](crate::Message::reliability) asks for. It makes an INIT longer. RFC 3758 §4.2 recommends
    /// that it is asked for. Off.
    pub partial_reliability: bool,
    /// Whether a peer that knows NR-SACK (draft-natarajan-tsvwg-sctp-nrsack) is told that what arrived will never be
    /// dropped, so that neither side keeps what the other has. It makes an INIT longer. Off.
    pub nr_sack: bool,
    /// Whether a peer that knows COMPACT-SACK (`specs/compact-sack.md`) is told by it of more gaps than a SACK has room for, as
    /// a fast path that loses packets has them. It makes an INIT longer. Off.
    pub compact_sack: bool,

    /// Which chunks are taken from the peer only behind an AUTH chunk, and with which keys (RFC 4895). An association
    /// without it authenticates nothing. It makes an INIT longer, and some stacks answer none that has parameters. None.
    pub auth: Option<AuthConfig>,
    /// Whether addresses may come and go while an association lives, if the peer agrees (RFC 5061). It brings
    /// authentication with it: if [`Config::auth`] asks for none, with the null key. Off.
    pub asconf: bool,
    /// The adaptation code point that the peer's user is told (RFC 5061 §4.2.6). None.
    pub adaptation: Option<u32>,
    /// Whether the network may mark packets instead of dropping them, if the peer agrees (ECN, RFC 4960 Appendix A, RFC
    /// 3168). It makes an INIT longer, and is of use only where queues mark. Off.
    pub ecn: bool,
    /// What guards packets below SCTP, so that they need no checksum: such packets are taken from the peer, and sent to
    /// one that takes them (RFC 9653). Over plain UDP or IP there is no such thing, and a corrupt packet would not be
    /// seen. None.
    pub zero_checksum: Option<ErrorDetection>,
    /// Whether streams may be reset and added, if the peer agrees (RE-CONFIG, RFC 6525). It makes an INIT longer. Off.
    pub reconfiguration: bool,
    /// Whether packets are protected with keys that the user agrees on with its peer (draft-ietf-tsvwg-sctp-dtls-chunk). It goes
    /// without [`Config::auth`], which is not asked for then, and makes an INIT longer. None.
    pub dtls: Option<DtlsConfig>,
    /// Which re-configurations the peer may ask for (RFC 6525 §6.3.1). None.
    pub peer_may: PeerMay,
    /// To how many outbound streams the peer may have them brought (RFC 6525 §5.2.6); inbound ones, to
    /// [`Config::inbound_streams`]. 2,048.
    pub outbound_streams_max: u16,

    /// The receive buffer, in bytes: what `a_rwnd` starts from. Chunk overhead is charged to it. Where messages
    /// are interleaved, up to twice as much is held of what has to wait for another. At least 1,500. 1 MiB.
    pub receive_buffer_bytes: usize,
    /// Up to how many bytes the receive buffer grows by itself, to twice what arrives and is read in a round trip of the
    /// slowest path. What it grows by is used only where a sender is that fast and a reader as well. `None`: it is what
    /// it is. None.
    pub receive_buffer_max_bytes: Option<usize>,
    /// The receive buffer, in bytes, of an association that a peer opened, until its user calls
    /// [`Association::admit`](crate::Association::admit): so long it is half-open, does not grow, and counts towards
    /// [`Limits::half_open`](crate::Limits::half_open). At least 1,500. `None`: it is admitted from the start. None.
    pub unadmitted_receive_buffer_bytes: Option<usize>,
    /// What a chunk that is held costs of the receive buffer besides its bytes: many tiny ones have a limit too. At least
    /// 16, its header. 64.
    pub chunk_overhead_bytes: usize,
    /// Which receive window the peer is told of. RFC 9260 §6.2.
    pub window_updates: WindowUpdates,
    /// The send buffer, in bytes: messages queued or not yet acknowledged. 1 MiB.
    pub send_buffer_bytes: usize,
    /// Up to how many bytes the send buffer grows by itself, by what is under way: as much as before may then wait behind
    /// it. `None`: it is what it is. None.
    pub send_buffer_max_bytes: Option<usize>,
    /// The longest message to send, in bytes. Beyond the send buffer only an empty buffer takes it. 16 MiB.
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
    /// The same; but what RFC 9260 does not allow is the nearest that it does.
    pub(crate) fn within_bounds(self: Arc<Self>) -> Arc<Self> {
        // No record holds more.
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
            // A peer without DTLS chunks would refuse an INIT that lists ASCONF and offers no authentication (RFC 5061 §6).
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

    /// The receive buffer that a peer which opens an association is told of.
    pub(crate) fn passive_receive_buffer_bytes(&self) -> usize {
        let unadmitted = self.unadmitted_receive_buffer_bytes.unwrap_or(usize::MAX);
        self.receive_buffer_bytes.min(unadmitted)
    }

    /// Whether packets may go between these addresses.
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

/// Which re-configurations a peer may ask for (RFC 6525 §6.3.1, SCTP_ENABLE_STREAM_RESET). The others are denied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PeerMay {
    /// Whether streams of either direction may be reset.
    pub reset_streams: bool,
    /// Whether all SSNs and TSNs may be reset.
    pub reset_association: bool,
    /// Whether streams of either direction may be added.
    pub add_streams: bool,
}

/// The constants of RFC 8899 §5.1, as sizes of SCTP packets: a link's MTU less the headers of IP, and of UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuDiscovery {
    /// MIN_PLPMTU: less is not tried. 512; over IPv6 never less than 1,232, which IPv6 guarantees.
    pub min: usize,
    /// BASE_PLPMTU: what most paths carry, to which a path falls that carries less than it did. 1,200.
    //= specs/rfc8899.txt#section-5.1.2
    //# When using IPv4, there is no currently equivalent size specified, and a
    //# default BASE_PLPMTU of 1200 bytes is RECOMMENDED.
    pub base: usize,
    /// MAX_PLPMTU: more is not tried. 1,452, if [`Config::mtu`] is not more.
    pub max: usize,
    /// PMTU_RAISE_TIMER: how long until larger sizes are tried again. 600 s.
    pub raise_after: Duration,
    /// The sizes that a search tries before MAX_PLPMTU, ascending, in bytes of IP packets over UDP. What links carry.
    pub link_mtus: &'static [usize],
}

//= specs/rfc8899.txt#section-5.3.2
//# Implementations SHOULD select the set of probe packet sizes to maximize
//# the gain in PLPMTU from each search step.
/// What links carry, in bytes of IP packets.
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

/// A path that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedPath {
    /// From this local address.
    pub local: IpAddr,
    /// To this address of the peer; `None`: to any.
    pub peer: Option<IpAddr>,
}

/// Authentication of chunks (RFC 4895, RFC 6458 §8.3).
///
/// The default authenticates with the null key, which keeps out all who did not see the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// The chunk types that the peer is to authenticate; without them they are discarded, also if the peer has no
    /// authentication at all. INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH cannot be: they are left out. None.
    pub chunks: Vec<u8>,
    /// The hash functions that the peer may use, the one to prefer first. SHA-1 is added at the end if it is missing
    /// (RFC 4895 §6.1). SHA-256, SHA-1.
    pub hmacs: Vec<HmacId>,
    /// The endpoint pair shared keys; none: the null key, 0. If there are any, the null key is not taken (RFC 4895 §9).
    /// Those beyond [`AuthConfig::MAX_KEYS`] are left out.
    pub keys: Vec<SharedKey>,
    /// The key to send with, once both sides are known to authenticate. 0.
    pub active_key: u16,
}

impl AuthConfig {
    /// The most keys that an association holds.
    pub const MAX_KEYS: usize = 16;

    /// The longest key, in bytes.
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
    /// The key; [`AuthConfig::MAX_KEY_BYTES`] at most, the rest is left out.
    pub secret: Bytes,
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey({}, ..)", self.id)
    }
}

/// How a TSN that the peer misses is found to be lost before its timer runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossDetection {
    /// Three miss indications, once for each TSN (RFC 9260 §7.2.4).
    MissingReports,
    /// A packet sent three packets or a quarter of a round trip later has arrived; a retransmission can be found lost
    /// in the same way, again and again.
    SendOrder,
}

/// How Max.Burst is kept to (RFC 9260 §6.1 D has both ways).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BurstRule {
    /// So many packets with new data leave in answer to one event, whatever the window.
    Packets,
    /// Before new data leaves, the window becomes Max.Burst packets above what is in flight, if it is larger, and stays so:
    /// `if ((flightsize + Max.Burst*MTU) < cwnd) cwnd = flightsize + Max.Burst*MTU`, as RFC 4960 §6.1 D allows and P2 §4.2
    /// says of KAME. RFC 9260 does not want the window changed for good.
    LowerWindow,
}

/// How often the round trip is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureEach {
    /// Once the smoothed round-trip time has passed since the last measurement, so that a queue that builds up shows soon; or
    /// twice the time of this round trip, so that it shows soon that the queue is gone.
    SmoothedRoundTrip,
    /// By what left after the last measurement was made: one chunk at a time is timed, as implementations without a time for
    /// each chunk do.
    RoundTrip,
}

/// What a loss lets out, and what ends fast recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossRecovery {
    /// The first packet of a fast recovery leaves whatever the window, the others as soon as the window allows it (RFC 9260
    /// §6.3.3, §7.2.4); a time-out is the end of fast recovery.
    Rfc9260,
    /// Each time-out and each fast retransmission, also during fast recovery, lets one packet out; the others leave once the
    /// next SACK comes: "normally, when a SACK chunk arrives" (RFC 4960 §6.3.3, §7.2.4). Fast recovery ends with its exit
    /// point and by nothing else, so that until then no window grows; the SACK that ends it lets it grow, as BSD and Linux
    /// have it.
    Rfc4960,
}

/// With which peers data takes several paths at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultipathWith {
    /// With all: a sender's rules do not need the peer's help. But a peer that sends by one path at a time waits longer for
    /// its missing reports.
    Anyone,
    /// With those that list NR-SACK, which is of the same draft (draft-tuexen-tsvwg-sctp-multipath): for the rest of it, it
    /// names no parameter. NR-SACK is listed for that, beyond [`Config::nr_sack`], in an INIT that leaves with several paths in
    /// view, and in the answer to one that lists it; any other INIT and INIT ACK is the same byte for byte.
    WhereAgreed,
}

/// By which path a lost chunk leaves again, if there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetransmitTo {
    /// After missing reports by the same, after a time-out by another (RFC 9260 §6.4).
    ByCause,
    /// By the same, unless that is inactive.
    Same,
    /// By another, after missing reports too (RFC 2960 §6.4: an active address different from the last).
    Another,
}

/// Which receive window the peer is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowUpdates {
    /// One that opens in large steps only, and at once when a narrow one opens wide (RFC 9260 §6.2, RFC 1122 §4.2.3.3).
    AvoidSilly,
    /// In each SACK what is free, and no SACK for the window's sake: for receivers that read what comes at once.
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
    fn what_the_rfc_does_not_allow_is_the_nearest_that_it_does() {
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
