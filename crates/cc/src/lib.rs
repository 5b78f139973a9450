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
pub mod fast;
mod frame;
mod guard;
pub mod highspeed;
pub mod hybla;
pub mod hystart;
mod kind;
pub mod pacer;
pub mod reno;
pub mod rtt;
pub mod scalable;
pub mod sctp;

use std::fmt;
use std::num::NonZeroU8;
use std::time::Duration;

use braidftp_base::{Rate, Time};

pub use self::kind::{Choice, ChoiceError, Kind, ParameterError, UnknownKind, help};

/// A congestion control algorithm at work on one path. A method that is added here is passed on in `guard.rs`.
pub trait Controller: fmt::Debug + Send {
    /// The congestion window (cwnd), in bytes.
    fn window(&self) -> usize;

    /// The slow-start threshold (ssthresh), in bytes.
    fn ssthresh(&self) -> usize;

    /// The rate at which to pace, if this controller paces: transports keep to it with a [`pacer::Pacer`].
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Whether acknowledgements are to be told by what has newly arrived, in whatever order, and so are losses repaired.
    /// SCTP does that with all controllers; TCP tells others of nothing but what is cumulatively acknowledged.
    fn counts_arrivals(&self) -> bool {
        false
    }

    /// A packet with new or retransmitted data left.
    fn on_sent(&mut self, _sent: Sent) {}

    /// Data was taken for lost: told each time the transport marks some, within a recovery too, after the acknowledgement
    /// that told of it and before the congestion that it is.
    fn on_lost(&mut self, _lost: Lost) {}

    /// There was room in the window and nothing to send, with so many bytes in flight: what is measured until they are
    /// acknowledged is the application's rate, not the path's.
    fn on_app_limited(&mut self, _now: Time, _flight_bytes: usize) {}

    /// An acknowledgement newly covers data on this path.
    fn on_ack(&mut self, ack: Ack<'_>);

    /// The transport saw congestion: at most one `Loss` a recovery, each `Timeout`, each ECN echo a window.
    fn on_congestion(&mut self, congestion: Congestion);

    /// What the last congestion was taken from had arrived: nothing was lost (RFC 3708). A controller that does not count
    /// arrivals is put back as it was before that congestion, and need do nothing.
    fn on_spurious(&mut self, _spurious: Spurious) {}

    /// The path was idle for an RTO or more (RFC 9260 §7.2.1), told before data is sent again.
    fn on_idle(&mut self, _idle: Idle) {}

    /// A recovery from losses ended: all that was in flight when it began is acknowledged.
    fn on_recovered(&mut self, _recovered: Recovered) {}

    /// The path's MTU changed (RFC 9260 §7.2.1 item 2, §7.3).
    fn on_mtu(&mut self, _mtu: usize) {}

    /// The window is not to be larger than this for now, in bytes: Max.Burst by lowering the window (RFC 4960 §6.1 D), or so that
    /// it is seen whose queue becomes shorter. It may grow again at once.
    fn limit_window(&mut self, _at_most: usize) {}

    /// A path that was in doubt is used again: its window begins with this, in bytes.
    fn begin_again(&mut self, _window: usize) {}
}

/// Data that just left on a path.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// Bytes of user data in the packet.
    pub bytes: usize,
    /// Bytes in flight on the path before this packet.
    pub flight_before: usize,
}

/// Data that the transport takes for lost.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    /// When it was found.
    pub now: Time,
    /// Bytes of it.
    pub bytes: usize,
    /// When it had left, the latest of it.
    pub sent_at: Time,
    /// Bytes in flight on the path, without it.
    pub flight_bytes: usize,
    /// The path's MTU.
    pub mtu: usize,
}

/// Data that an acknowledgement newly covers.
#[derive(Debug, Clone, Copy)]
pub struct Ack<'a> {
    /// When the acknowledgement came.
    pub now: Time,
    /// Bytes newly acknowledged on this path, cumulatively or by gap blocks.
    pub bytes: usize,
    /// Those of them that gap blocks acknowledge. TCP: 0.
    pub gap_bytes: usize,
    /// Those of them that a gap block names once more, after a SACK that was overtaken took them back: no news to
    /// partial_bytes_acked. TCP: 0.
    pub regained_bytes: usize,
    /// Bytes in flight on this path before the acknowledgement.
    pub flight_before: usize,
    /// The path's MTU.
    pub mtu: usize,
    /// A round-trip sample, if this acknowledgement gave one.
    pub rtt: Option<Duration>,
    /// Where it took another path's way back, and is no round trip of this path (`rtt`, then, is one that was measured since the
    /// acknowledgement before): how long ago the last of these bytes to leave had left. At which rate data arrives shows in that
    /// as well, and how soon there is room for more.
    pub by_another_way: Option<Duration>,
    /// The smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// Whether the cumulative acknowledgement point moved.
    pub cum_advanced: bool,
    /// Whether the path is in fast recovery.
    pub in_recovery: bool,
    /// The other active paths of the association whose congestion control is coupled with this one's.
    pub siblings: &'a [PathView],
}

/// What a coupled controller may know of another path.
#[derive(Debug, Clone, Copy)]
pub struct PathView {
    /// The congestion window, in bytes.
    pub window: usize,
    /// The slow-start threshold, in bytes.
    pub ssthresh: usize,
    /// The smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// Bytes that arrived since the last loss, or between that and the one before, whichever is more.
    pub between_losses: u64,
}

/// What a transport takes for congestion.
#[derive(Debug, Clone, Copy)]
pub struct Congestion {
    /// How it showed.
    pub cause: Cause,
    /// When.
    pub now: Time,
    /// Bytes in flight on the path when it showed.
    pub flight_bytes: usize,
    /// The path's MTU.
    pub mtu: usize,
}

/// How congestion showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Reports of missing data: fast retransmit.
    Loss,
    /// The retransmission timer ran out.
    Timeout,
    /// An ECN echo.
    Ecn,
}

/// Congestion that was none.
#[derive(Debug, Clone, Copy)]
pub struct Spurious {
    /// When that was proven.
    pub now: Time,
    /// Bytes in flight then.
    pub flight_bytes: usize,
    /// The path's MTU.
    pub mtu: usize,
}

/// The end of a recovery.
#[derive(Debug, Clone, Copy)]
pub struct Recovered {
    /// When.
    pub now: Time,
    /// Bytes still in flight.
    pub flight_bytes: usize,
    /// The path's MTU.
    pub mtu: usize,
}

/// A path on which nothing was sent for a while.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// When.
    pub now: Time,
    /// How long nothing was sent.
    pub idle_for: Duration,
    /// The path's retransmission time-out.
    pub rto: Duration,
    /// The path's MTU.
    pub mtu: usize,
    /// The slow-start threshold does not fall below this, in bytes. 0, but for a path that is idle because it stands
    /// by for another: when its turn comes, nothing is known against its slow start.
    pub ssthresh_min: usize,
}

/// What a controller may be told when it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The first window. RFC 9260 §7.2.1 for IPv4.
    pub initial_window: InitialWindow,
    /// L in RFC 9260 §7.2.1 and RFC 3465: by how many MTUs one acknowledgement may open the window in slow start. 1;
    /// 2 makes up for delayed acknowledgements.
    pub byte_counting_limit: NonZeroU8,
    /// How slow start ends. At the first loss.
    pub slow_start: SlowStart,
    /// What opens the window. Bytes; SCTP knows nothing else.
    pub counting: Counting,
    /// When acknowledgements open it. When it was full; SCTP knows nothing else.
    pub growth: Growth,
    /// What of ssthresh slow start makes its last step at. It steps over; SCTP knows nothing else.
    pub slow_start_end: SlowStartEnd,
    /// Where slow start ends if nothing is lost before: ssthresh, in bytes; cubic and fast do not ask. `None`: arbitrarily
    /// high (RFC 9260 §7.2.1, RFC 5681 §3.1).
    pub initial_ssthresh: Option<u32>,
    /// No loss, time-out or idleness makes ssthresh of an SCTP path smaller than so many MTUs. 4 (RFC 9260 §7.2.3); 2 in
    /// RFC 2960 §7.2.3.
    pub floor_mtus: NonZeroU8,
    /// Which acknowledgements let the window of an SCTP path grow. All (RFC 9260 §7.2.1).
    pub grows_on: GrowsOn,
    /// What counts towards partial_bytes_acked of an SCTP path. All (RFC 9260 §7.2.2).
    pub partial_bytes: PartialBytes,
    /// What idleness does to an SCTP path. RFC 9260's.
    pub idle_rule: IdleRule,
    /// BBR's own. The draft's.
    pub bbr: bbr::Params,
    /// FAST's own. Those of its ns-2 module.
    pub fast: fast::Params,
    /// Hybla's own. The paper's.
    pub hybla: hybla::Params,
    /// ADaLR-R's own. Those of the reconstruction.
    pub adalr: adalr::Params,
}

/// Which acknowledgements let the window of an SCTP path grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowsOn {
    /// All that cover new data, as in RFC 9260 §7.2.1 and §7.2.2.
    AnyAck,
    /// Those alone that move the cumulative point, as in RFC 2960 and RFC 4960, §7.2.1 and §7.2.2 of both.
    CumAdvance,
}

/// What counts towards partial_bytes_acked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialBytes {
    /// All that is newly acknowledged, but no more than a window of it while the window is not used (RFC 9260 §7.2.2).
    All,
    /// What gap blocks acknowledge, and what the cumulative point does while the window is used: ns-2's module.
    WhileUsed,
}

/// What idleness does to an SCTP path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleRule {
    /// The window becomes smaller, and ssthresh is the window before, so that slow start leads back there (RFC 9260 §7.2.1).
    Rfc9260,
    /// The window alone becomes smaller (RFC 2960 and RFC 4960, §7.2.1 of both). What leaves in the instant in which an RTO is
    /// over leaves in time: in ns-2's module that is what a T3-rtx of the same age sends, and T3-rtx comes first.
    Rfc4960,
}

/// What opens the window of a TCP controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Each acknowledgement, whatever it covers (RFC 2581 §3.1).
    Acks,
    /// The bytes that it covers (RFC 3465), L segments at most.
    Bytes,
}

/// When acknowledgements open the window of a TCP controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Whenever they come (RFC 5681 knows no other rule).
    Always,
    /// When what was in flight filled the window (RFC 7661, RFC 9438 §5.8).
    WhenFull,
}

/// How the last step of a TCP controller's slow start is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowStartEnd {
    /// By a whole step, perhaps beyond ssthresh.
    StepOver,
    /// By no more than leads to ssthresh.
    Clamp,
}

/// How slow start ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowStart {
    /// With a loss, as in RFC 9260 §7.2.1: by then up to half of what is in flight is too much.
    UntilLoss,
    /// When the round-trip time rises: HyStart++ (RFC 9406).
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
            bbr: bbr::Params::default(),
            fast: fast::Params::default(),
            hybla: hybla::Params::default(),
            adalr: adalr::Params::default(),
        }
    }
}

impl InitialWindow {
    /// In bytes, for a path of this MTU.
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

/// How much may be sent before anything was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialWindow {
    /// RFC 9260 §7.2.1, the peer has an IPv4 address.
    Ipv4,
    /// RFC 9260 §7.2.1, the peer has an IPv6 address.
    Ipv6,
    /// RFC 3390 §1 for TCP, RFC 4960 §7.2.1 for SCTP: min(4·MSS, max(2·MSS, 4380)).
    Tcp,
    /// So many MTUs, as RFC 6928 has it for TCP.
    Mtus(NonZeroU8),
}
