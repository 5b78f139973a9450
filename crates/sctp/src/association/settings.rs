//! Settings that a user may change on an existing association: the options of RFC 6458 §8.1 that the
//! handshake does not fix. The rest of its [`Config`] does not change.

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;

use crate::association::timers::Timer;
use crate::association::{Association, Event, NoSuchPath};
use crate::config::{Config, SACK_DELAY_MAX};
use crate::extensions::Extensions;
use crate::ids::{PathId, Tsn};
use crate::stats::PathState;

/// The heartbeat and error parameters of one path (SCTP_PEER_ADDR_PARAMS, RFC 6458 §8.1.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathParams {
    /// HB.interval (RFC 9260 §16) of this path; `None`: no HEARTBEATs while idle.
    pub heartbeat_interval: Option<Duration>,
    /// Path.Max.Retrans (RFC 9260 §16) of this path.
    pub path_max_retrans: u32,
}

/// Whether a path is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathUse {
    /// Used according to its state.
    InUse,
    /// Not used, although it may work.
    SetAside,
}

/// Why the use of a path was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathUseError {
    /// The association is not established, or has no such path.
    NoSuchPath,
    /// No other path has ever worked.
    TheLast,
}

impl std::fmt::Display for PathUseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchPath => NoSuchPath.fmt(f),
            Self::TheLast => f.write_str("it is the last path there is; put another one back first"),
        }
    }
}

impl std::error::Error for PathUseError {}

/// When SACKs are sent (SCTP_DELAYED_SACK, RFC 6458 §8.1.19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackTiming {
    /// As [`sack.delay`](crate::Config::sack).
    pub delay: Duration,
    /// As [`sack.frequency`](crate::Config::sack).
    pub frequency: u32,
}

impl Association {
    /// Returns the configuration, including later changes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the extensions that both sides use, once the peer is known.
    //= specs/rfc3758.txt#section-3.3.3
    //# When an SCTP endpoint that desires to use the FORWARD TSN chunk
    //# feature for partially reliable data transfer receives an operational
    //# error from the remote endpoint (either bundled with the COOKIE or as
    //# an unrecognized parameter in the INIT-ACK), indicating that the
    //# remote endpoint does not recognize the Forward-TSN-Supported
    //# parameter, the local endpoint SHOULD inform its upper layer of the
    //# remote endpoint's inability to support partially reliable data
    //# transfer.
    //= specs/rfc3758.txt#section-3.3.2
    //# o  SHOULD inform the upper layer if the upper layer has requested
    //# such notification.
    pub fn extensions(&self) -> Option<Extensions> {
        self.state.up().map(|up| up.extensions)
    }

    /// Returns the cumulative TSN of the received data, once the peer is known.
    pub fn cum_tsn(&self) -> Option<Tsn> {
        self.state.up().map(|up| up.received.cum_tsn())
    }

    /// Returns the path that carries data while it is active, once the peer is known.
    pub fn primary(&self) -> Option<PathId> {
        self.state.up().map(|up| up.primary)
    }

    /// Sets the bounds of the RTO of every path (SCTP_RTOINFO, RFC 6458 §8.1.1).
    pub fn set_rto(&mut self, bounds: cc::rtt::Bounds) {
        Arc::make_mut(&mut self.config).timers.rto = bounds;
        self.paths.iter_mut().for_each(|path| path.rtt.set_bounds(bounds));
    }

    /// Sets Association.Max.Retrans (SCTP_ASSOCINFO, RFC 6458 §8.1.2).
    pub fn set_association_max_retrans(&mut self, max: u32) {
        Arc::make_mut(&mut self.config).failover.association_max_retrans = max;
    }

    /// Sets Max.Burst (SCTP_MAX_BURST, RFC 6458 §8.1.24); `None`: no limit besides the window.
    pub fn set_max_burst(&mut self, max: Option<u32>) {
        Arc::make_mut(&mut self.config).congestion.max_burst = max;
    }

    /// Sets when SACKs are sent: after 500 ms at the latest. A SACK that is already delayed keeps its
    /// deadline.
    pub fn set_delayed_sack(&mut self, timing: SackTiming) {
        let config = Arc::make_mut(&mut self.config);
        (config.sack.delay, config.sack.frequency) = (timing.delay.min(SACK_DELAY_MAX), timing.frequency);
    }

    /// Returns the parameters of a path.
    pub fn path_params(&self, path: PathId) -> Result<PathParams, NoSuchPath> {
        self.paths.get(usize::from(path.0)).map(|path| path.params).ok_or(NoSuchPath)
    }

    /// Sets the parameters of a path.
    pub fn set_path_params(&mut self, path: PathId, params: PathParams) -> Result<(), NoSuchPath> {
        let path = self.paths.get_mut(usize::from(path.0)).ok_or(NoSuchPath)?;
        path.heartbeat_moved |= path.params.heartbeat_interval != params.heartbeat_interval;
        path.params = params;
        self.has_input = true;
        Ok(())
    }

    /// Takes a path out of use, or puts it back.
    ///
    /// Outstanding chunks of a path that is taken out are retransmitted on others. The peer is not told,
    /// since no RFC defines a message for it except for deleting the address (RFC 5061): packets that
    /// arrive on the path are discarded, and the peer reacts as to a path failure. A path that is put
    /// back carries data once a HEARTBEAT was acknowledged on it.
    pub fn set_path_use(&mut self, now: Time, id: PathId, path_use: PathUse) -> Result<(), PathUseError> {
        let is_up = self.is_up();
        let path = self.paths.get(usize::from(id.0)).filter(|path| is_up && path.is_present());
        let state = path.ok_or(PathUseError::NoSuchPath)?.state;
        match path_use {
            PathUse::SetAside if state == PathState::SetAside => {}
            PathUse::SetAside => {
                let mut others =
                    self.paths.iter().enumerate().filter(|(index, _)| *index != usize::from(id.0));
                if !others.any(|(_, path)| path.is_usable() && path.is_present()) {
                    return Err(PathUseError::TheLast);
                }
                self.leave_paths(now, &[id], PathState::SetAside);
            }
            PathUse::InUse => self.put_back(id),
        }
        Ok(())
    }

    /// Probes a path that was set aside.
    pub(super) fn put_back(&mut self, id: PathId) {
        let path = &mut self.paths[usize::from(id.0)];
        if path.state == PathState::SetAside {
            path.state = PathState::PotentiallyFailed;
            (path.errors, path.timeouts_unanswered) = (0, 0);
            path.heartbeat_due = true;
            self.events.push_back(Event::Path(id, PathState::PotentiallyFailed));
            self.has_input = true;
        }
    }

    /// Sends a HEARTBEAT on a path at once (SPP_HB_DEMAND, RFC 6458 §8.1.12), unless one is outstanding.
    pub fn demand_heartbeat(&mut self, path: PathId) -> Result<(), NoSuchPath> {
        let up = self.is_up();
        let path = self.paths.get_mut(usize::from(path.0)).filter(|_| up).ok_or(NoSuchPath)?;
        path.heartbeat_due |= path.heartbeat.is_none();
        self.has_input = true;
        Ok(())
    }

    /// Restarts the heartbeat timer of each path whose interval was changed.
    pub(super) fn settle_heartbeats(&mut self, now: Time) {
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            let path = &mut self.paths[index];
            let moved = std::mem::take(&mut path.heartbeat_moved);
            // An outstanding HEARTBEAT keeps its timer, and so does the first one of an unconfirmed
            // path.
            if !moved || path.heartbeat.is_some() || path.state == PathState::Unconfirmed || !self.is_up() {
                continue;
            }
            self.timers.stop(Timer::Heartbeat(id));
            self.arm_heartbeat(now, id);
        }
    }
}
