//! The transport of a session: its control connection and its data connections.
//!
//! The engine owns a [`Carrier`] and never waits for it: everything that takes time happens in tasks that
//! report with [`Note`]s. A task that receives a body always returns it.

mod framed;
mod messages;
mod sctp;
mod stream1;
mod tcp;
mod tls;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braidftp_ftp::Reply;
use braidftp_ftp::client::{Data, Protection, Tag};
use braidftp_ftp::mapping::Mode;
use braidftp_net::{Association, PathName, PathState, PathStats, PathUse, PathUseError};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::Options;
use super::body::{Body, DataEnd, Pump};
use crate::client::Login;
use crate::exit::{Error, Exit, Result};
use crate::identity::Fingerprint;
use crate::progress::Limit;
use crate::report::{PathSummary, path_state};
use crate::tls::Wire;
use crate::url::Url;

/// Reports of a carrier's tasks to the engine.
#[allow(clippy::large_enum_variant, reason = "there is one for each transfer, and it moves a few times")]
#[derive(Debug)]
pub(crate) enum Note {
    /// Bytes of the control connection.
    Control(Bytes),
    /// The control connection was lost, or the server closed it.
    Closed,
    /// TCP: the control connection uses TLS with a trusted server, which has this key.
    Secured(Fingerprint),
    /// TCP: the data connection is open.
    Connected(Tag, Wire),
    /// The data path could not be opened.
    DataFailed(Tag, Error),
    /// braid: the content of this download is not wanted.
    Unwanted(Tag),
    /// The data path returns the body.
    DataDone(Tag, Body, DataEnd),
    /// The peer violated the protocol on a data path, or a local task cannot continue.
    Fatal(Error),
}

/// The transport of one session.
#[derive(Debug)]
pub(crate) enum Carrier {
    Tcp(Box<tcp::Tcp>),
    Sctp(Box<sctp::Sctp>),
}

/// Opens the transport to the server of `url`.
pub(crate) async fn connect(
    url: &Url,
    login: &Login,
    options: &Options,
    pump: Pump,
    notes: mpsc::Sender<Note>,
    gauge: Gauge,
) -> Result<Carrier> {
    match options.mode {
        Mode::Tcp => {
            let protection = tls::Plan::of(url, login, options)?;
            let tcp = tcp::Tcp::connect(url, protection, options, pump, notes, gauge).await?;
            Ok(Carrier::Tcp(Box::new(tcp)))
        }
        Mode::Naive | Mode::Ms | Mode::MsCp | Mode::Braid => {
            let sctp = sctp::Sctp::connect(url, options, pump, notes, gauge).await?;
            Ok(Carrier::Sctp(Box::new(sctp)))
        }
    }
}

impl Carrier {
    pub(crate) fn pump(&self) -> &Pump {
        match self {
            Self::Tcp(tcp) => &tcp.pump,
            Self::Sctp(sctp) => &sctp.pump,
        }
    }

    /// How TLS protects the session.
    pub(crate) fn protection(&self) -> Protection {
        match self {
            Self::Tcp(tcp) => tcp.protection(),
            Self::Sctp(_) => Protection::None,
        }
    }

    /// TCP: starts TLS on the control connection, after everything sent before.
    pub(crate) fn start_tls(&self) {
        if let Self::Tcp(tcp) = self {
            // See `send_control`.
            let _ = tcp.control.send(tcp::Out::StartTls);
        }
    }

    /// TCP: data connections begin with TLS from now on, with a server that has this key.
    pub(crate) fn secured(&mut self, key: Fingerprint) {
        if let Self::Tcp(tcp) = self {
            tcp.secured(key);
        }
    }

    /// Sends bytes on the control connection, after everything sent before.
    pub(crate) fn send_control(&self, bytes: Bytes) {
        // The writer ends when the connection ends, which the reader reports.
        let _sent = match self {
            Self::Tcp(tcp) => tcp.control.send(tcp::Out::Lines(bytes)).is_ok(),
            Self::Sctp(sctp) => {
                sctp.lines.queue();
                sctp.control.send(messages::Out::Lines(bytes)).is_ok()
            }
        };
    }

    /// TCP: connects to this port of the control peer. TLS of the connection begins immediately if the server
    /// permits that, otherwise with the transfer.
    pub(crate) fn connect(&mut self, tag: Tag, port: u16, begins_at_once: bool) {
        match self {
            Self::Tcp(tcp) => tcp.open(tag, port, begins_at_once),
            Self::Sctp(sctp) => sctp.refuse(tag),
        }
    }

    /// TCP: the requested connection is open.
    pub(crate) fn connected(&mut self, tag: Tag, wire: Wire) {
        if let Self::Tcp(tcp) = self {
            tcp.connected(tag, wire);
        }
    }

    /// naive: listens for the data association.
    pub(crate) fn listen(&mut self, tag: Tag) -> Result<SocketAddr> {
        match self {
            Self::Tcp(tcp) => tcp.listen(),
            Self::Sctp(sctp) => sctp.listen(tag),
        }
    }

    /// Transfers the data of a transfer.
    pub(crate) fn pump_data(&mut self, tag: Tag, data: Data, body: Body) {
        match self {
            Self::Tcp(tcp) => tcp.pump_data(tag, body),
            Self::Sctp(sctp) => sctp.pump_data(tag, data, body),
        }
    }

    /// Cancels the data of a transfer; its body is returned by [`Note::DataDone`].
    pub(crate) fn cancel(&mut self, tag: Tag) {
        match self {
            Self::Tcp(tcp) => tcp.cancel(tag),
            Self::Sctp(sctp) => sctp.cancel(tag),
        }
    }

    /// The session has ended: bodies that wait for a data path are returned.
    pub(crate) fn stop_data(&mut self) {
        if let Self::Sctp(sctp) = self {
            sctp.stop_data();
        }
    }

    /// The error of a server that has never answered.
    pub(crate) fn never_answered(&self, silent: std::time::Duration) -> Option<Error> {
        match self {
            Self::Sctp(sctp) if !sctp.was_up() => Some(sctp.never_answered(silent)),
            _ => None,
        }
    }

    /// Asks a silent server for an answer, if the transport has a way to do so.
    pub(crate) fn probe_peer(&self) {
        if let Self::Sctp(sctp) = self {
            sctp.probe_peer();
        }
    }

    /// The reason for the loss of the control connection.
    pub(crate) fn why_lost(&self) -> Error {
        match self {
            Self::Tcp(_) => super::errors::lost("the server closed the connection"),
            Self::Sctp(sctp) => sctp.why_lost(),
        }
    }

    /// The error of a server that refuses TLS with this reply.
    pub(crate) fn unprotected(&self, verb: &str, reply: &Reply) -> Error {
        let needed = match self {
            Self::Tcp(tcp) => tcp.why_needed(),
            Self::Sctp(_) => "",
        };
        let why = format!("the server refused {verb} ({reply}){needed}");
        Error::new(Exit::Trust, "protect the session by TLS", why).hint(
            "the server must offer FTP over TLS (RFC 4217); --plain does without: all can be read on the way",
        )
    }

    /// Closes the transport gracefully after the end of the session.
    pub(crate) async fn close(self) {
        match self {
            Self::Tcp(tcp) => tcp.close().await,
            Self::Sctp(sctp) => sctp.close().await,
        }
    }

    /// Closes the transport immediately.
    pub(crate) async fn stop(self) {
        if let Self::Sctp(sctp) = self {
            sctp.stop().await;
        }
    }
}

/// Totals over all connections of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections or associations opened, for control and data.
    pub opened: u64,
    /// SCTP packets sent by this side; 0 if unknown.
    pub packets_sent: u64,
    /// SCTP packets received by this side.
    pub packets_received: u64,
    /// Chunks retransmitted by this side.
    pub retransmitted: u64,
}

/// The addresses of a path, independent of the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    local: IpAddr,
    peer: IpAddr,
}

impl Ends {
    fn of(path: &PathStats) -> Self {
        Self { local: path.local.ip(), peer: path.peer.ip() }
    }

    /// Applies to an association that has such a path.
    fn set_use(self, association: &Association, path_use: PathUse) -> std::result::Result<(), PathUseError> {
        let is_it = |path: &PathName| (path.local.ip(), path.peer.ip()) == (self.local, self.peer);
        match association.paths().into_iter().find(is_it) {
            Some(path) => association.set_path_use(path, path_use),
            None => Ok(()),
        }
    }
}

/// Observes the connections of a session. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauge(Arc<Mutex<Meters>>);

#[derive(Debug, Default)]
struct Meters {
    /// Open associations, the control association first.
    live: Vec<Association>,
    /// Sums over the closed ones.
    closed: Vec<PathSummary>,
    totals: Totals,
    /// For TCP only the transferred bytes are known.
    tcp: Option<PathSummary>,
}

impl Gauge {
    fn lock(&self) -> MutexGuard<'_, Meters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self, association: &Association) {
        let mut meters = self.lock();
        meters.totals.opened += 1;
        meters.live.push(association.clone());
    }

    /// Records the numbers of an association that has ended or is not needed, and releases its handle.
    fn closed(&self, association: &Association) {
        let mut meters = self.lock();
        let Some(at) = meters.live.iter().position(|live| live.id() == association.id()) else { return };
        let gone = meters.live.remove(at);
        let (paths, totals) = numbers(&gone);
        for path in paths {
            add(&mut meters.closed, path);
        }
        meters.totals += totals;
    }

    fn tcp_opened(&self, local: SocketAddr, peer: SocketAddr) {
        let mut meters = self.lock();
        meters.totals.opened += 1;
        meters.tcp.get_or_insert_with(|| PathSummary {
            local: local.ip().to_string(),
            peer: peer.to_string(),
            bytes_sent: Some(0),
            bytes_received: Some(0),
            packets_sent: None,
            retransmitted: None,
            timeouts: None,
            srtt_ms: None,
            min_rtt_ms: None,
            mtu: None,
            cwnd: None,
            state: None,
        });
    }

    fn tcp_moved(&self, sent: u64, received: u64) {
        if let Some(tcp) = &mut self.lock().tcp {
            tcp.bytes_sent = tcp.bytes_sent.map(|n| n + sent);
            tcp.bytes_received = tcp.bytes_received.map(|n| n + received);
        }
    }

    pub(crate) fn paths(&self) -> Vec<PathSummary> {
        let meters = self.lock();
        let mut all = meters.closed.clone();
        for association in &meters.live {
            for path in numbers(association).0 {
                add(&mut all, path);
            }
        }
        all.extend(meters.tcp.clone());
        all
    }

    /// Takes the path with this number out of use, counted from 1 as in [`Self::control_paths`], or puts it
    /// back; also the path between the same addresses in open data associations. Returns the addresses.
    ///
    /// # Errors
    ///
    /// The reason as text.
    pub(crate) fn set_path_use(&self, number: usize, path_use: PathUse) -> std::result::Result<Ends, String> {
        let meters = self.lock();
        let Some(control) = meters.live.first() else {
            return Err("there is no association: paths are SCTP's, and it may have ended".into());
        };
        let paths = control.stats().paths;
        let Some(meant) = number.checked_sub(1).and_then(|index| paths.get(index)).map(Ends::of) else {
            return Err(format!("there is no path {number}; there are 1 to {}", paths.len()));
        };
        for association in &meters.live {
            meant.set_use(association, path_use).map_err(|error| error.to_string())?;
        }
        Ok(meant)
    }

    /// Takes paths between these addresses out of use in associations that were opened later, if they have
    /// another working path.
    pub(crate) fn keep_aside(&self, aside: &[Ends]) {
        for association in &self.lock().live {
            for ends in aside {
                // The last path stays in use. An association that is not established yet is checked again.
                let _ = ends.set_use(association, PathUse::SetAside);
            }
        }
    }

    /// The paths of the control association, in the order of their numbers.
    pub(crate) fn control_paths(&self) -> Vec<PathSummary> {
        self.lock().live.first().map(|control| numbers(control).0).unwrap_or_default()
    }

    /// Requests HEARTBEATs to test whether the server is alive.
    pub(crate) fn demand_heartbeats(&self) {
        self.lock().live.iter().for_each(Association::demand_heartbeats);
    }

    pub(crate) fn totals(&self) -> Totals {
        let meters = self.lock();
        let mut totals = meters.totals;
        for association in &meters.live {
            totals += numbers(association).1;
        }
        totals
    }

    /// What limits the data that this side sends, or the path if this side mostly receives.
    pub(crate) fn limit(&self) -> Option<Limit> {
        let meters = self.lock();
        let Some(association) = meters.live.last() else { return meters.tcp.as_ref().map(|_| Limit::Path) };
        let stats = association.stats();
        if stats.queued_bytes + stats.outstanding_bytes == 0 {
            return Some(Limit::Path);
        }
        let in_use = || stats.paths.iter().filter(|path| path.state == PathState::Active);
        let path = in_use().next().or(stats.paths.first())?;
        Some(if in_use().all(|path| path.flight_bytes + path.mtu > path.cwnd) {
            Limit::Cwnd
        } else if stats.peer_rwnd < path.mtu {
            Limit::Rwnd
        } else if stats.queued_bytes == 0 {
            Limit::Application
        } else {
            Limit::Path
        })
    }
}

fn numbers(association: &Association) -> (Vec<PathSummary>, Totals) {
    let stats = association.stats();
    let mut totals = Totals::default();
    let mut paths = Vec::with_capacity(stats.paths.len());
    for path in &stats.paths {
        totals.packets_sent += path.packets_sent;
        totals.packets_received += path.packets_received;
        totals.retransmitted += path.retransmitted_chunks;
        paths.push(PathSummary {
            local: path.local.to_string(),
            peer: path.peer.to_string(),
            bytes_sent: Some(path.bytes_sent),
            bytes_received: Some(path.bytes_received),
            packets_sent: Some(path.packets_sent),
            retransmitted: Some(path.retransmitted_chunks),
            timeouts: Some(path.timeouts),
            srtt_ms: path.srtt.map(in_ms),
            min_rtt_ms: path.min_rtt.map(in_ms),
            mtu: Some(path.mtu as u64),
            cwnd: Some(path.cwnd as u64),
            state: Some(path_state(path.state)),
        });
    }
    (paths, totals)
}

/// Milliseconds, to the microsecond.
fn in_ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Adds the numbers of a path to those of the path with the same addresses. States, which cannot be summed,
/// are taken from the newer path.
fn add(all: &mut Vec<PathSummary>, path: PathSummary) {
    match all.iter_mut().find(|old| old.local == path.local && old.peer == path.peer) {
        None => all.push(path),
        Some(old) => {
            let sum = |a: Option<u64>, b: Option<u64>| Some(a.unwrap_or(0) + b.unwrap_or(0));
            old.bytes_sent = sum(old.bytes_sent, path.bytes_sent);
            old.bytes_received = sum(old.bytes_received, path.bytes_received);
            old.packets_sent = sum(old.packets_sent, path.packets_sent);
            old.retransmitted = sum(old.retransmitted, path.retransmitted);
            old.timeouts = sum(old.timeouts, path.timeouts);
            old.srtt_ms = path.srtt_ms.or(old.srtt_ms);
            old.min_rtt_ms = match (path.min_rtt_ms, old.min_rtt_ms) {
                (Some(new), Some(old)) => Some(new.min(old)),
                (new, old) => new.or(old),
            };
            old.mtu = path.mtu.or(old.mtu);
            old.cwnd = path.cwnd.or(old.cwnd);
            old.state = path.state.or(old.state);
        }
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, more: Self) {
        self.opened += more.opened;
        self.packets_sent += more.packets_sent;
        self.packets_received += more.packets_received;
        self.retransmitted += more.retransmitted;
    }
}
