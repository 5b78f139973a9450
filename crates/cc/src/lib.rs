//! Congestion control: one trait told of events in bytes, knowing no sequence numbers, and its controllers.
//!
//! Loss *detection* stays in each transport; a [`Controller`] hears the verdict. One controller serves one SCTP
//! path or one simulated TCP connection. It is built from a [`Kind`], which parses from its name.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

use braidftp_base::{Rate, Time};

/// A congestion control algorithm at work on one path.
pub trait Controller: fmt::Debug + Send {
    /// The congestion window (cwnd), in bytes.
    fn window(&self) -> usize;

    /// The slow-start threshold (ssthresh), in bytes.
    fn ssthresh(&self) -> usize;

    /// The rate at which to pace, if this controller paces.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// A packet with new or retransmitted data left.
    fn on_sent(&mut self, _sent: Sent) {}

    /// An acknowledgement newly covers data on this path.
    fn on_ack(&mut self, ack: Ack<'_>);

    /// The transport saw congestion: at most one `Loss` a recovery, each `Timeout`, each ECN echo a window.
    fn on_congestion(&mut self, congestion: Congestion);

    /// The path was idle for an RTO or more (RFC 9260 §7.2.1), told before data is sent again.
    fn on_idle(&mut self, _idle: Idle) {}

    /// The path's MTU changed (RFC 9260 §7.2.1 item 2, §7.3).
    fn on_mtu(&mut self, _mtu: usize) {}
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

/// Data that an acknowledgement newly covers.
#[derive(Debug, Clone, Copy)]
pub struct Ack<'a> {
    /// When the acknowledgement came.
    pub now: Time,
    /// Bytes newly acknowledged on this path, cumulatively or by gap blocks.
    pub bytes: usize,
    /// Bytes in flight on this path before the acknowledgement.
    pub flight_before: usize,
    /// The path's MTU.
    pub mtu: usize,
    /// A round-trip sample, if this acknowledgement gave one.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// Whether the cumulative acknowledgement point moved.
    pub cum_advanced: bool,
    /// Whether the path is in fast recovery.
    pub in_recovery: bool,
    /// The other active paths of the association, for coupled controllers.
    pub siblings: &'a [PathView],
}

/// What a coupled controller may know of another path.
#[derive(Debug, Clone, Copy)]
pub struct PathView {
    /// The congestion window, in bytes.
    pub window: usize,
    /// The smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
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
}
