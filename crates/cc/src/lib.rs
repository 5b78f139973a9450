//! Congestion control for SCTP paths and simulated TCP connections: one trait, its implementations, and their parts.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod adalr;
pub mod auto;
pub mod bbr;
pub mod coupled;
pub mod cubic;
pub mod delivery;
mod external;
pub mod fast;
mod frame;
mod guard;
pub mod highspeed;
pub mod hybla;
pub mod hystart;
mod kind;
pub mod linux_cubic;
mod notation;
pub mod pacer;
pub mod reno;
pub mod rtt;
pub mod scalable;
pub mod sctp;

use std::fmt;
use std::num::NonZeroU8;
use std::time::Duration;

use braidftp_base::{Rate, Time};

pub use self::external::{Build, External, guarded};
pub use self::kind::{Choice, ChoiceError, Kind, ParameterError, UnknownKind, help};

/// A congestion control algorithm for one path. `guard.rs` must forward every method of this trait.
pub trait Controller: fmt::Debug + Send {
    /// The congestion window (cwnd), in bytes.
    fn window(&self) -> usize;

    /// The slow-start threshold (ssthresh), in bytes.
    fn ssthresh(&self) -> usize;

    /// The pacing rate, if this controller paces; transports apply it with a [`pacer::Pacer`].
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Whether acknowledgements must be reported by newly delivered data in any order, and losses be repaired
    /// likewise. SCTP does both with every controller; TCP reports only cumulatively acknowledged data to the
    /// others.
    fn counts_arrivals(&self) -> bool {
        false
    }

    /// A packet with new or retransmitted data was sent.
    fn on_sent(&mut self, _sent: Sent) {}

    /// Data was declared lost. Called each time the transport marks data, during a recovery too, after the
    /// acknowledgement that revealed the loss and before the resulting `on_congestion`.
    fn on_lost(&mut self, _lost: Lost) {}

    /// There was room in the window but nothing to send, with `flight_bytes` in flight. Until these are
    /// acknowledged the measured rate is the application's, not the path's.
    fn on_app_limited(&mut self, _now: Time, _flight_bytes: usize) {}

    /// An acknowledgement newly covers data on this path.
    fn on_ack(&mut self, ack: Ack<'_>);

    /// The transport detected congestion: at most one `Loss` per recovery, each `Timeout`, each ECN echo per
    /// window.
    fn on_congestion(&mut self, congestion: Congestion);

    /// The last congestion was spurious: the data taken for lost had arrived (RFC 3708). A controller that
    /// does not count arrivals is restored to its state before that congestion and need not act.
    fn on_spurious(&mut self, _spurious: Spurious) {}

    /// The path was idle for an RTO or more (RFC 9260 §7.2.1). Called before data is sent again.
    fn on_idle(&mut self, _idle: Idle) {}

    /// Nothing is in flight, and the path has been idle for long: frees what only a path in use needs. Changes no decision.
    fn trim(&mut self) {}

    /// A recovery ended: all data in flight at its begin is acknowledged.
    fn on_recovered(&mut self, _recovered: Recovered) {}

    /// The path's MTU changed (RFC 9260 §7.2.1 item 2, §7.3).
    fn on_mtu(&mut self, _mtu: usize) {}

    /// Limits the window to `at_most` bytes for now, without a bound on later growth. Used for Max.Burst by
    /// lowering the window (RFC 4960 §6.1 D), and to see whose queue becomes shorter.
    fn limit_window(&mut self, _at_most: usize) {}

    /// A potentially failed path is used again: the window restarts at `window` bytes.
    fn restart_window(&mut self, _window: usize) {}
}

/// Data that was sent on a path.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The send time.
    pub now: Time,
    /// Bytes of user data in the packet.
    pub bytes: usize,
    /// Bytes in flight on the path before this packet.
    pub flight_before: usize,
}

/// Data that was declared lost.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    /// When the loss was detected.
    pub now: Time,
    /// Bytes lost.
    pub bytes: usize,
    /// The latest send time of the lost data.
    pub sent_at: Time,
    /// Bytes in flight on the path, without the lost data.
    pub flight_bytes: usize,
    /// The path's MTU.
    pub mtu: usize,
}

/// Data that an acknowledgement newly covers.
#[derive(Debug, Clone, Copy)]
pub struct Ack<'a> {
    /// When the acknowledgement arrived.
    pub now: Time,
    /// Bytes newly acknowledged on this path, cumulatively or by gap blocks.
    pub bytes: usize,
    /// Those of `bytes` acknowledged by gap blocks. TCP: 0.
    pub gap_bytes: usize,
    /// Those of `bytes` that a gap block acknowledges once more, after an overtaken SACK revoked them;
    /// partial_bytes_acked does not count them again. TCP: 0.
    pub regained_bytes: usize,
    /// Bytes in flight on this path before the acknowledgement.
    pub flight_before: usize,
    /// The path's MTU.
    pub mtu: usize,
    /// A round-trip sample, if this acknowledgement gave one.
    pub rtt: Option<Duration>,
    /// The age of the most recently sent of these bytes, if the acknowledgement returned on another path and
    /// so gave no RTT of this path (`rtt` is then a sample measured since the previous acknowledgement). The
    /// age serves to measure the delivery rate and the delay after which the window has room again.
    pub cross_path_age: Option<Duration>,
    /// The smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Whether the cumulative acknowledgement point advanced.
    pub cum_advanced: bool,
    /// Whether the path is in fast recovery.
    pub in_recovery: bool,
    /// The other active paths of the association whose congestion control is coupled with this one's.
    pub siblings: &'a [PathView],
}

/// What a coupled controller may know of a sibling path.
#[derive(Debug, Clone, Copy)]
pub struct PathView {
    /// The congestion window, in bytes.
    pub window: usize,
    /// The slow-start threshold, in bytes.
    pub ssthresh: usize,
    /// The smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Bytes delivered since the last loss, or between the two last losses, whichever is more.
    pub between_losses: u64,
}

/// A congestion event.
#[derive(Debug, Clone, Copy)]
pub struct Congestion {
    /// How the transport detected it.
    pub cause: Cause,
    /// When it was detected.
    pub now: Time,
    /// Bytes in flight on the path at that time.
    pub flight_bytes: usize,
    /// The path's MTU.
    pub mtu: usize,
}

/// How congestion was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Missing reports: fast retransmit.
    Loss,
    /// The retransmission timer expired.
    Timeout,
    /// An ECN echo.
    Ecn,
}

/// A congestion event that was spurious.
#[derive(Debug, Clone, Copy)]
pub struct Spurious {
    /// When that was detected.
    pub now: Time,
    /// Bytes in flight at that time.
    pub flight_bytes: usize,
    /// The path's MTU.
    pub mtu: usize,
}

/// The end of a recovery.
#[derive(Debug, Clone, Copy)]
pub struct Recovered {
    /// When the recovery ended.
    pub now: Time,
    /// Bytes still in flight.
    pub flight_bytes: usize,
    /// The path's MTU.
    pub mtu: usize,
}

/// A path on which nothing was sent for some time.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// The current time.
    pub now: Time,
    /// The idle time.
    pub idle_for: Duration,
    /// The path's retransmission time-out.
    pub rto: Duration,
    /// The path's MTU.
    pub mtu: usize,
    /// The lower bound of ssthresh, in bytes. 0, except for a path that is idle because it is a backup: its
    /// slow start has seen no loss.
    pub ssthresh_min: usize,
}

/// The options of controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The initial window. Default: RFC 9260 §7.2.1 for IPv4.
    pub initial_window: InitialWindow,
    /// L of RFC 9260 §7.2.1 and RFC 3465: the largest growth by one acknowledgement in slow start, in MTUs.
    /// Default: 1. The value 2 compensates delayed acknowledgements.
    pub byte_counting_limit: NonZeroU8,
    /// How slow start ends. Default: at the first loss.
    pub slow_start: SlowStart,
    /// What the window growth counts. Default: bytes; SCTP always counts bytes.
    pub counting: Counting,
    /// When acknowledgements grow the window. Default: when it was full, as SCTP always does.
    pub growth: Growth,
    /// Whether slow start may step over ssthresh. Default: it may, as SCTP always does.
    pub slow_start_end: SlowStartEnd,
    /// The initial ssthresh in bytes; cubic and fast ignore it. `None`: arbitrarily high (RFC 9260 §7.2.1,
    /// RFC 5681 §3.1).
    pub initial_ssthresh: Option<u32>,
    /// The minimum ssthresh of an SCTP path in MTUs, after losses, time-outs and idle time. Default: 4 (RFC
    /// 9260 §7.2.3); RFC 2960 §7.2.3 has 2.
    pub floor_mtus: NonZeroU8,
    /// Which acknowledgements grow the window of an SCTP path. Default: all (RFC 9260 §7.2.1).
    pub grows_on: GrowsOn,
    /// What counts towards partial_bytes_acked of an SCTP path. Default: all (RFC 9260 §7.2.2).
    pub partial_bytes: PartialBytes,
    /// The effect of idle time on an SCTP path. Default: RFC 9260's.
    pub idle_rule: IdleRule,
    /// Whose CUBIC. Default: RFC 9438's.
    pub cubic: cubic::Version,
    /// The parameters of BBR. Default: the draft's.
    pub bbr: bbr::Params,
    /// The parameters of FAST. Default: those of its ns-2 module.
    pub fast: fast::Params,
    /// The parameters of Hybla. Default: the paper's.
    pub hybla: hybla::Params,
    /// The parameters of ADaLR-R. Default: those of the reconstruction.
    pub adalr: adalr::Params,
    /// The constants of `auto`.
    pub auto: &'static auto::Constants,
}

/// Which acknowledgements grow the window of an SCTP path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowsOn {
    /// All that cover new data, as in RFC 9260 §7.2.1 and §7.2.2.
    AnyAck,
    /// Only those that advance the cumulative point, as in RFC 2960 and RFC 4960, §7.2.1 and §7.2.2 of both.
    CumAdvance,
}

/// What counts towards partial_bytes_acked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialBytes {
    /// All newly acknowledged bytes, limited to one window while the window is not full (RFC 9260 §7.2.2).
    All,
    /// Bytes that gap blocks acknowledge, and cumulatively acknowledged bytes while the window is full:
    /// ns-2's module.
    WhileUsed,
}

/// The effect of idle time on an SCTP path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleRule {
    /// The window is reduced, and ssthresh is set to the former window, so that slow start leads back to it
    /// (RFC 9260 §7.2.1).
    Rfc9260,
    /// Only the window is reduced (RFC 2960 and RFC 4960, §7.2.1 of both). Data sent at the instant at which
    /// one RTO has elapsed is not idle: in ns-2's module a T3-rtx of the same age precedes it.
    Rfc4960,
}

/// What the window growth of a TCP controller counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Acknowledgements, whatever they cover (RFC 2581 §3.1).
    Acks,
    /// The acknowledged bytes (RFC 3465), at most L segments per acknowledgement.
    Bytes,
}

/// When acknowledgements grow the window of a TCP controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Always (RFC 5681 has no other rule).
    Always,
    /// When the flight filled the window (RFC 7661, RFC 9438 §5.8).
    WhenFull,
}

/// The last step of a TCP controller's slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowStartEnd {
    /// A whole step, perhaps beyond ssthresh.
    StepOver,
    /// Limited to ssthresh.
    Clamp,
}

/// How slow start ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowStart {
    /// At the first loss (RFC 9260 §7.2.1); by then up to half of the flight is excess.
    UntilLoss,
    /// When the RTT rises: HyStart++ (RFC 9406).
    HyStart,
}

impl Default for Options {
    fn default() -> Self {
        //= specs/rfc9260.txt#section-7.2.1
        //# The positive integer L SHOULD be 1 and MAY be larger than 1.
        Self {
            initial_window: InitialWindow::Ipv4,
            byte_counting_limit: NonZeroU8::MIN,
            slow_start: SlowStart::UntilLoss,
            counting: Counting::Bytes,
            growth: Growth::WhenFull,
            slow_start_end: SlowStartEnd::StepOver,
            initial_ssthresh: None,
            floor_mtus: NonZeroU8::new(4).expect("4 is not 0"),
            grows_on: GrowsOn::AnyAck,
            partial_bytes: PartialBytes::All,
            idle_rule: IdleRule::Rfc9260,
            cubic: cubic::Version::Rfc9438,
            bbr: bbr::Params::default(),
            fast: fast::Params::default(),
            hybla: hybla::Params::default(),
            adalr: adalr::Params::default(),
            auto: &auto::Constants::DEFAULT,
        }
    }
}

impl InitialWindow {
    /// The window in bytes, for a path with this MTU.
    pub fn bytes(self, mtu: usize) -> usize {
        let rfc = |limit: usize| mtu.saturating_mul(4).min(mtu.saturating_mul(2).max(limit));
        match self {
            Self::Ipv4 => rfc(4404),
            Self::Ipv6 => rfc(4344),
            Self::Tcp => rfc(4380),
            Self::Mtus(count) => usize::from(count.get()).saturating_mul(mtu),
        }
    }
}

/// The window before the first acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialWindow {
    /// RFC 9260 §7.2.1 for an IPv4 peer.
    Ipv4,
    /// RFC 9260 §7.2.1 for an IPv6 peer.
    Ipv6,
    /// RFC 3390 §1 for TCP, RFC 4960 §7.2.1 for SCTP: min(4·MSS, max(2·MSS, 4380)).
    Tcp,
    /// A number of MTUs, as in RFC 6928 for TCP.
    Mtus(NonZeroU8),
}
