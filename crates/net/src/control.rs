//! Requests and settings of a living association (RFC 6458 §8). Each calls the method of the same name of
//! [`braidftp_sctp::Association`].

use braidftp_base::Time;
use braidftp_cc::rtt::Bounds;
use braidftp_sctp::{
    self as sctp, Config, KeyError, NoSuchPath, NoSuchStream, PathId, PathParams, PathUse, PathUseError,
    PeerMay, ReconfigError, SackTiming, SharedKey, StreamId, StreamReset,
};

use crate::association::Association;
use crate::path_name::PathName;

/// Paths.
impl Association {
    /// Returns the paths that were not removed.
    pub fn paths(&self) -> Vec<PathName> {
        self.with(|association, _| association.paths().map(|path| PathName::of_view(&path)).collect())
    }

    /// Returns the path that carries data while it is active, once the association is established.
    pub fn primary(&self) -> Option<PathName> {
        self.with(|association, _| {
            association.path(association.primary()?).map(|path| PathName::of_view(&path))
        })
    }

    /// Makes a path the primary one, which carries data whenever it is active. Only once the association
    /// is established.
    pub fn set_primary(&self, path: PathName) -> Result<(), NoSuchPath> {
        self.on_path(path, |association, _, id| association.set_primary(id)).unwrap_or(Err(NoSuchPath))
    }

    /// Takes a path out of use, or puts it back: see
    /// [`set_path_use`](braidftp_sctp::Association::set_path_use).
    pub fn set_path_use(&self, path: PathName, path_use: PathUse) -> Result<(), PathUseError> {
        self.on_path(path, |association, now, id| association.set_path_use(now, id, path_use))
            .unwrap_or(Err(PathUseError::NoSuchPath))
    }

    /// Sends a HEARTBEAT on a path at once, unless one is outstanding (SPP_HB_DEMAND, RFC 6458 §8.1.12).
    pub fn demand_heartbeat(&self, path: PathName) -> Result<(), NoSuchPath> {
        self.on_path(path, |association, _, id| association.demand_heartbeat(id)).unwrap_or(Err(NoSuchPath))
    }

    /// Sends a HEARTBEAT on each path, unless one is outstanding there.
    pub fn demand_heartbeats(&self) {
        for path in self.paths() {
            // An association that is not established sends none.
            let _ = self.demand_heartbeat(path);
        }
    }

    /// Sends a HEARTBEAT at once, unless one is outstanding: see
    /// [`probe_peer`](braidftp_sctp::Association::probe_peer).
    pub fn probe_peer(&self) {
        self.with(|association, _| association.probe_peer());
    }

    /// Returns HB.interval and Path.Max.Retrans of a path (SCTP_PEER_ADDR_PARAMS, RFC 6458 §8.1.12).
    pub fn path_params(&self, path: PathName) -> Result<PathParams, NoSuchPath> {
        self.on_path(path, |association, _, id| association.path_params(id)).unwrap_or(Err(NoSuchPath))
    }

    /// Sets HB.interval and Path.Max.Retrans of a path.
    pub fn set_path_params(&self, path: PathName, params: PathParams) -> Result<(), NoSuchPath> {
        let set = |association: &mut sctp::Association, _, id| association.set_path_params(id, params);
        self.on_path(path, set).unwrap_or(Err(NoSuchPath))
    }

    /// Calls the association with the number of a path; `None` if it has no such path.
    fn on_path<T>(
        &self,
        path: PathName,
        call: impl FnOnce(&mut sctp::Association, Time, PathId) -> T,
    ) -> Option<T> {
        self.with(|association, now| {
            let id = association.paths().find(|view| PathName::of_view(view) == path)?.id;
            Some(call(association, now, id))
        })
    }
}

/// Timers and limits.
impl Association {
    /// Returns the configuration, including later changes.
    pub fn config(&self) -> Config {
        self.with(|association, _| association.config().clone())
    }

    /// Sets the bounds of the RTO of every path (SCTP_RTOINFO, RFC 6458 §8.1.1).
    pub fn set_rto(&self, bounds: Bounds) {
        self.with(|association, _| association.set_rto(bounds));
    }

    /// Sets Association.Max.Retrans (SCTP_ASSOCINFO, RFC 6458 §8.1.2).
    pub fn set_association_max_retrans(&self, max: u32) {
        self.with(|association, _| association.set_association_max_retrans(max));
    }

    /// Sets Max.Burst (SCTP_MAX_BURST, RFC 6458 §8.1.24); `None`: no limit besides the window.
    pub fn set_max_burst(&self, max: Option<u32>) {
        self.with(|association, _| association.set_max_burst(max));
    }

    /// Sets when SACKs are sent (SCTP_DELAYED_SACK, RFC 6458 §8.1.19): after 500 ms at the latest.
    pub fn set_delayed_sack(&self, timing: SackTiming) {
        self.with(|association, _| association.set_delayed_sack(timing));
    }

    /// Permits the peer to use the whole receive buffer: see [`admit`](braidftp_sctp::Association::admit).
    pub fn admit(&self) {
        self.with(|association, _| association.admit());
    }

    /// Sets whether the association goes on if the peer lost its state and connects again (RFC 9260
    /// §5.2.4 A), with [`Event::Restarted`](crate::Event::Restarted). By default it is aborted, since its
    /// users would take the messages of the new peer for those of the old one. A protected association is
    /// always aborted.
    pub fn accept_restarts(&self, accept: bool) {
        self.told(|core, id| {
            if let Some(seat) = core.seats.get_mut(&id) {
                seat.accepts_restarts = accept;
            }
        });
    }
}

/// Streams.
impl Association {
    /// Sets the priority or weight of an outbound stream for the scheduler of the configuration: see
    /// [`set_stream_value`](braidftp_sctp::Association::set_stream_value) (SCTP_STREAM_SCHEDULER_VALUE, RFC
    /// 8260 §4.3.2).
    pub fn set_stream_value(&self, stream: StreamId, value: u16) -> Result<(), NoSuchStream> {
        self.with(|association, _| association.set_stream_value(stream, value))
    }

    /// Resets streams (RFC 6525): see [`reset_streams`](braidftp_sctp::Association::reset_streams). The
    /// result is an [`Event::StreamReset`](crate::Event::StreamReset).
    pub fn reset_streams(&self, streams: StreamReset) -> Result<(), ReconfigError> {
        self.with(|association, _| association.reset_streams(streams))
    }

    /// Resets all streams and TSNs (RFC 6525): see
    /// [`reset_association`](braidftp_sctp::Association::reset_association). The result is an
    /// [`Event::AssociationReset`](crate::Event::AssociationReset).
    pub fn reset_association(&self) -> Result<(), ReconfigError> {
        self.with(|association, now| association.reset_association(now))
    }

    /// Adds outbound and inbound streams (RFC 6525): see
    /// [`add_streams`](braidftp_sctp::Association::add_streams). The result is an
    /// [`Event::StreamChange`](crate::Event::StreamChange).
    pub fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ReconfigError> {
        self.with(|association, _| association.add_streams(outgoing, incoming))
    }

    /// Sets the re-configurations that the peer may request (RFC 6525 §6.3.1).
    pub fn set_peer_may(&self, may: PeerMay) -> Result<(), ReconfigError> {
        self.with(|association, _| association.set_peer_may(may))
    }
}

/// Keys of authenticated chunks (RFC 4895).
impl Association {
    /// Adds a shared key, or replaces the one of the same number (SCTP_AUTH_KEY, RFC 6458 §8.3.2).
    pub fn set_key(&self, key: SharedKey) -> Result<(), KeyError> {
        self.with(|association, _| association.set_key(key))
    }

    /// Authenticates with this key from now on (SCTP_AUTH_ACTIVE_KEY, RFC 6458 §8.1.8).
    pub fn activate_key(&self, key: u16) -> Result<(), KeyError> {
        self.with(|association, _| association.activate_key(key))
    }

    /// Stops using a key that is not the active one (SCTP_AUTH_DEACTIVATE_KEY, RFC 6458 §8.3.4): an
    /// [`Event::Authentication`](crate::Event::Authentication) tells when no packet needs it any more.
    pub fn deactivate_key(&self, key: u16) -> Result<(), KeyError> {
        self.with(|association, _| association.deactivate_key(key))
    }

    /// Deletes a key that is not the active one (SCTP_AUTH_DELETE_KEY, RFC 6458 §8.3.5).
    pub fn delete_key(&self, key: u16) -> Result<(), KeyError> {
        self.with(|association, _| association.delete_key(key))
    }
}
