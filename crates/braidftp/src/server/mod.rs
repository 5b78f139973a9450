//! The server: executes the jobs of `ftp::server::Session` over each transport.
//!
//! ```no_run
//! use braidftp::server::{Listen, Server};
//! use braidftp::store::fs::Root;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder(Root::open("/srv/ftp")?)
//!     .listen(Listen::Tcp("127.0.0.1:2121".parse()?))
//!     .listen(Listen::SctpUdp(vec!["127.0.0.1:9899".parse()?]))
//!     .bind()?;
//! let handle = server.handle();
//! tokio::spawn(server.run());
//! handle.stop();
//! # Ok(()) }
//! ```
//!
//! [`Builder::bind`] makes the sockets in the calling thread, and so in its network namespace. An error of one session ends
//! that session alone. A transfer that ends early leaves no incomplete file under a final name.

mod activity;
mod admission;
mod args;
pub mod audit;
mod body;
mod braid;
mod check;
pub mod command;
mod config;
pub mod confine;
mod control;
pub mod ctl;
mod error;
mod events;
pub mod hooks;
mod hosts;
mod limits;
mod listen;
mod live;
pub mod log;
mod log_file;
mod logins;
mod memory;
mod metrics;
pub(crate) mod metrics_http;
mod open;
mod page;
mod parts;
mod plan;
mod protection;
mod roster;
mod sctp;
mod session;
mod sink;
mod store;
mod systemd;
mod tcp;
mod transfers;
mod umask;
mod xferlog;

use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_ftp::Mode;
use braidftp_ftp::mapping::{DATA_PRIORITY, DATA_STREAMS_MAX};
use braidftp_ftp::server as machine;
use braidftp_net::sctp::{Config, Profile};
use braidftp_net::{Association, Carrier, Endpoint, Limits as SctpLimits, Listener, StreamId};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::default_multipath;
use crate::store::Tree;
use crate::store::fs::{Durability, Pool};
use crate::users::Users;
use activity::Activity;
pub(crate) use admission::ADMISSIONS_WAITING_MAX;
use admission::Admission;
pub use audit::Audit;
pub(crate) use control::{HELD_ALL_BYTES, HELD_BYTES};
use events::post;
pub use hosts::Host;
use hosts::Site;
use limits::Limits;
pub(crate) use limits::{ANSWER_TIMEOUT, MAY_CLOSE_AFTER, WAITING_MAX};
pub use listen::Listen;
use live::Live;
pub use log_file::LogFile;
pub use open::{Builder, Opened, StartError};
pub(crate) use open::{SEND_QUEUE_BYTES, handshake_time, sctp_limits};
pub(crate) use parts::PARTS_MAX;
pub(crate) use plan::DISK_THREADS_MAX;
pub use protection::{Plain, Protection};
pub use roster::Roster;
pub(crate) use session::OUT_BYTES;
use session::{Accepted, Data, Driver};
pub(crate) use tcp::ENDING_MAX;
pub(crate) use transfers::TRANSFERS_MAX;
use transfers::Transfers;
pub use umask::Umask;

use crate::tls::Wire;
pub use crate::tls::server::Resumption;
use crate::tls::server::{Binding, Offer};

/// Time limit for an SCTP handshake.
const UP: Duration = Duration::from_secs(15);
/// Receive window of an association before its login, in bytes: only the control stream is read.
pub(crate) const BEFORE_LOGIN_BYTES: usize = 32 << 10;
/// Time limit for the client to acknowledge half of the last replies, and then to end its association.
pub(crate) const CLOSING: Duration = Duration::from_secs(15);
/// Maximum of the free disk space that the server reserves where [`Settings::disk_reserve`] is `None`. 1 GiB.
pub const DISK_RESERVE_MAX: u64 = 1 << 30;
/// Maximum number of files that are read at once for HASH and similar commands, in all sessions.
pub const DIGESTS_MAX: usize = 4;
/// The same limit for one session.
pub const DIGESTS_OF_SESSION: usize = 2;
/// Reply to new sessions while the server drains.
const ABOUT_TO_STOP: &str = "The server is about to stop; try again in a minute";
/// Time for sessions to send a last reply once the server has stopped.
const GRACE: Duration = Duration::from_secs(3);

/// Time for the parts of unfinished uploads to be removed from an object store once the sessions have ended.
const PARTS_GRACE: Duration = Duration::from_secs(10);

/// The server's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration of the FTP sessions.
    pub session: Arc<machine::Config>,
    /// Maximum number of sessions. 200.
    pub max_sessions: usize,
    /// Maximum number of sessions from one address. 50.
    pub max_sessions_per_address: usize,
    /// Ports for passive data connections; `None`: the system chooses.
    pub passive_ports: Option<RangeInclusive<u16>>,
    /// The IPv4 address in replies to PASV, behind a NAT; `None`: the socket's own.
    pub passive_address: Option<IpAddr>,
    /// Time limit for opening a TCP data connection. 15 s. Associations of mode naive have a limit of their own.
    pub data_open: Duration,
    /// Time limit for a transfer without progress, and for replies that the client does not read. 5 min.
    pub stall: Duration,
    /// Mode braid: time limit for the first frame of an accepted upload, while no other upload of the session makes progress.
    /// 60 s.
    pub awaited: Duration,
    /// Time for transfers to finish after [`Handle::stop`]; new sessions are refused meanwhile. 30 s.
    pub drain: Duration,
    /// SCTP: time without any packet from a client, HEARTBEATs unanswered, after which its session ends while a transfer is
    /// under way or data is unacknowledged. 30 s.
    pub silence: Duration,
    /// How long an unfinished upload is kept for resumption; `None`: for ever. 7 days. On a read-only server nothing is
    /// removed.
    pub parts_kept: Option<Duration>,
    /// Maximum bytes of unfinished uploads in one home, besides those under way. The oldest are removed first; the newest is
    /// kept at any length. `None`: a tenth of the disk.
    pub parts_quota: Option<u64>,
    /// Bytes of the disk that uploads leave free. `None`: 1 % of it, at most [`DISK_RESERVE_MAX`].
    pub disk_reserve: Option<u64>,
    /// What must be on the disk before the server confirms an upload.
    pub durability: Durability,
    /// The SCTP configuration.
    pub sctp: Config,
    /// Protection of sessions. [`Listen::Tls`] needs a key; over plain TCP the key is offered with AUTH TLS.
    pub protection: Protection,
    /// The log of logins, refusals and changes.
    pub audit: Arc<Audit>,
    /// The transfer log, one line a file, in wu-ftpd's format.
    pub xferlog: Option<Arc<LogFile>>,
    /// The events for hooks.
    pub hooks: Option<Arc<hooks::Queue>>,
    /// TCP: whether a protected data connection must resume a TLS session of its control connection.
    pub tls_resumption: Resumption,
    /// TCP: control connections that the server begins to serve in one second, each of which may start a TLS handshake. Others
    /// wait; networks (an IPv4 /24, an IPv6 /56) are served in turn. As [`SctpLimits::handshakes`].
    pub tcp_connections: u32,
    /// A pcap file for all SCTP packets.
    pub pcap: Option<PathBuf>,
    /// A text file for all SCTP packets.
    pub packet_log: Option<PathBuf>,
    /// A qlog file for SCTP packets and paths.
    pub qlog: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            session: Arc::default(),
            max_sessions: 200,
            max_sessions_per_address: 50,
            passive_ports: None,
            passive_address: None,
            data_open: Duration::from_secs(15),
            stall: Duration::from_secs(300),
            awaited: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            parts_kept: Some(Duration::from_secs(7 * 86_400)),
            parts_quota: None,
            disk_reserve: None,
            durability: Durability::Full,
            sctp: {
                let mut config = Profile::Modern.config();
                default_multipath(Mode::Braid).apply(&mut config);
                config
            },
            protection: Protection::default(),
            audit: Arc::default(),
            xferlog: None,
            hooks: None,
            tls_resumption: Resumption::Required,
            tcp_connections: SctpLimits::default().handshakes,
            pcap: None,
            packet_log: None,
            qlog: None,
        }
    }
}

/// State that all sessions share.
#[derive(Debug)]
struct Shared {
    /// The default host: clients that name none.
    own: Arc<Site>,
    /// Virtual hosts, by number.
    hosts: Vec<Arc<Site>>,
    settings: Arc<Live>,
    limits: Arc<Limits>,
    activity: Arc<Activity>,
    all_held: Arc<control::AllHeld>,
    /// Memory for blocks of files, shared by all transfers.
    blocks: Arc<Pool>,
    /// The number of transfers under way.
    transfers: Arc<Transfers>,
    /// The TLS configuration of control connections over TCP.
    tls: Option<Offer>,
    /// Limits how fast sessions over TCP begin.
    admission: Arc<Admission>,
    /// Limits how many files are read at once for digests.
    digests: Arc<Semaphore>,
}

impl Shared {
    /// Returns the TLS state of one control connection over TCP; `None` without a key.
    fn binding(&self) -> Option<Binding> {
        Some(self.tls.as_ref()?.bind(self.settings.now().tls_resumption))
    }
}

enum Bound {
    Tcp(TcpListener, Begins),
    Sctp(Endpoint, Listener),
}

/// A server with open sockets.
pub struct Server {
    bound: Vec<Bound>,
    shared: Arc<Shared>,
    phase: Arc<watch::Sender<Phase>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.local_addrs().iter().map(Listen::to_string)).finish()
    }
}

/// The states of a server that stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// New sessions are refused; present ones finish their transfers.
    Draining,
    Stopped,
}

/// Stops a server.
#[derive(Debug, Clone)]
pub struct Handle {
    phase: Arc<watch::Sender<Phase>>,
}

impl Handle {
    /// Stops the server: new sessions are refused with 421, present ones may finish their transfers for [`Settings::drain`];
    /// then all sessions end and [`Server::run`] returns.
    pub fn stop(&self) {
        self.phase.send_if_modified(|phase| {
            let serving = *phase == Phase::Serving;
            if serving {
                *phase = Phase::Draining;
            }
            serving
        });
    }

    /// Ends all sessions now.
    pub fn abort(&self) {
        self.phase.send_replace(Phase::Stopped);
    }
}

/// Observes and controls a running server, for operators.
#[derive(Debug, Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
    handle: Handle,
}

impl Monitor {
    /// Returns the numbers of sessions and transfers as a phrase, such as `2 sessions, 1 transfer`.
    pub fn status(&self) -> String {
        let totals = self.shared.activity.totals();
        let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!("{}, {}", many(totals.sessions, "session"), many(totals.transfers, "transfer"))
    }

    /// Returns the current metrics in OpenMetrics' text format.
    pub fn metrics(&self) -> String {
        self.shared.activity.metrics_text()
    }
}

/// Replaces settings and users of a running server.
#[derive(Debug, Clone)]
pub struct Reloader {
    shared: Arc<Shared>,
}

impl Reloader {
    /// Returns the time for transfers to finish after [`Handle::stop`].
    pub(crate) fn drain(&self) -> Duration {
        self.shared.settings.now().drain
    }

    /// Replaces settings and users. Present sessions keep theirs. Settings that are fixed once sockets are open and the process
    /// is confined do not change: transports, protection, passive ports, active mode, log files and hosts. `of_hosts` holds the
    /// users of the hosts, in the order of the hosts.
    ///
    /// # Errors
    /// The users need something that the running server lacks, described in a sentence. Then nothing changes.
    pub fn reload(&self, settings: Settings, users: Users, of_hosts: Vec<Users>) -> Result<(), String> {
        let (max, per_address) = (settings.max_sessions, settings.max_sessions_per_address);
        let all: Vec<(&Arc<Site>, Users)> =
            self.shared.sites().map(|(_, site)| site).zip(std::iter::once(users).chain(of_hosts)).collect();
        for (site, users) in &all {
            site.users.may_replace(users)?;
        }
        self.shared.settings.replace(settings);
        for (site, users) in all {
            site.users.replace(users)?;
        }
        self.shared.limits.set(max, per_address);
        Ok(())
    }
}

impl Server {
    /// Begins to configure a server of the tree beneath `root`.
    pub fn builder(root: impl Into<Tree>) -> Builder {
        Builder::new(root.into())
    }

    /// Returns the addresses at which the server listens, with the ports that the system chose.
    pub fn local_addrs(&self) -> Vec<Listen> {
        let tcp = |listener: &TcpListener| {
            listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
        };
        let addr = |bound: &Bound| match bound {
            Bound::Tcp(listener, begins) => begins.at(tcp(listener)),
            Bound::Sctp(endpoint, listener) => match endpoint.carrier() {
                Carrier::Udp | Carrier::InProcess => Listen::SctpUdp(endpoint.local_addrs()),
                Carrier::Ip => {
                    let addresses = endpoint.local_addrs().iter().map(SocketAddr::ip).collect();
                    Listen::SctpIp(addresses, listener.port())
                }
            },
        };
        self.bound.iter().map(addr).collect()
    }

    /// Returns the SCTP endpoints, for observation.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let sctp = |bound: &Bound| match bound {
            Bound::Tcp(..) => None,
            Bound::Sctp(endpoint, _) => Some(endpoint.clone()),
        };
        self.bound.iter().filter_map(sctp).collect()
    }

    /// Returns a handle that observes and controls the server.
    pub fn monitor(&self) -> Monitor {
        Monitor { shared: self.shared.clone(), handle: self.handle() }
    }

    /// Returns a handle that replaces settings and users.
    pub fn reloader(&self) -> Reloader {
        Reloader { shared: self.shared.clone() }
    }

    /// Returns a handle that stops the server.
    pub fn handle(&self) -> Handle {
        Handle { phase: self.phase.clone() }
    }

    /// Serves until [`Handle::stop`], then until all sessions are over or [`Settings::drain`] has passed.
    ///
    /// # Cancel safety
    /// Dropping it ends all sessions at once.
    pub async fn run(self) {
        let Self { bound, shared, phase } = self;
        let mut tasks = JoinSet::new();
        let mut endpoints = Vec::new();
        // Carries no messages: each session holds a sender, and the channel closes when the last session ends.
        let (there, mut over) = mpsc::channel::<Infallible>(1);
        for bound in bound {
            match bound {
                Bound::Tcp(listener, begins) => {
                    let serving = Serving { there: Some(there.clone()), phase: phase.subscribe() };
                    tasks.spawn(serve_tcp(shared.clone(), listener, begins, serving));
                }
                Bound::Sctp(endpoint, listener) => {
                    endpoints.push(endpoint.clone());
                    let serving = Serving { there: Some(there.clone()), phase: phase.subscribe() };
                    tasks.spawn(serve_sctp(shared.clone(), endpoint, listener, serving));
                }
            }
        }
        drop(there);
        let mut stop = phase.subscribe();
        tokio::select! {
            () = no_longer_serving(&mut stop) => {}
            () = memory::give_back(endpoints.clone(), shared.blocks.clone()) => {}
            () = parts::look_after_all(shared.clone()) => {}
        }
        let drain = shared.settings.now().drain;
        tokio::select! {
            _ = over.recv() => {}
            () = tokio::time::sleep(drain) => {
                tracing::warn!(seconds = drain.as_secs(), "the time for transfers to finish is over; those under way are aborted");
            }
            () = stopped(&mut stop) => {}
        }
        phase.send_replace(Phase::Stopped);
        // Sessions see the change of phase, send a last reply, and end.
        let _ = timeout(GRACE, async { while tasks.join_next().await.is_some() {} }).await;
        for endpoint in endpoints {
            let _ = timeout(GRACE, endpoint.close()).await;
        }
        // What was aborted leaves no parts in an object store.
        for (_, site) in shared.sites() {
            if let Tree::Bucket(bucket) = &site.root
                && timeout(PARTS_GRACE, bucket.uploads_ended()).await.is_err()
            {
                let place = bucket.shown();
                tracing::warn!(
                    place,
                    "parts of unfinished uploads remain in the object store, until they are too old"
                );
            }
        }
    }
}

/// What an accepting task shares with the server.
struct Serving {
    /// Cloned into each session; `None` once no more sessions are accepted.
    there: Option<mpsc::Sender<Infallible>>,
    phase: watch::Receiver<Phase>,
}

async fn no_longer_serving(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
}

async fn stopped(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase == Phase::Stopped).await;
}

/// How a control connection over TCP begins: in the clear, or with TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    Clear,
    WithTls,
}

impl Begins {
    fn at(self, address: SocketAddr) -> Listen {
        match self {
            Self::Clear => Listen::Tcp(address),
            Self::WithTls => Listen::Tls(address),
        }
    }
}

/// Accepts connections until the server stops, refuses them while it drains, then waits for its sessions.
async fn serve_tcp(shared: Arc<Shared>, listener: TcpListener, begins: Begins, serving: Serving) {
    let Serving { mut there, phase } = serving;
    let (mut drain, mut stop) = (phase.clone(), phase.clone());
    let mut sessions = JoinSet::new();
    loop {
        // Sessions that are ended to make room need time to do so: until then, further connections wait in the kernel.
        let most =
            shared.settings.now().max_sessions.saturating_mul(2).saturating_add(ADMISSIONS_WAITING_MAX);
        tokio::select! {
            accepted = listener.accept(), if sessions.len() < most => match (accepted, &there) {
                (Ok((stream, peer)), Some(there)) => {
                    let session = tcp_session(shared.clone(), stream, peer, begins, phase.clone());
                    let there = there.clone();
                    sessions.spawn(async move {
                        session.await;
                        drop(there);
                    });
                }
                (Ok((stream, _)), None) => {
                    let _ = stream.try_write(format!("421 {ABOUT_TO_STOP}\r\n").as_bytes());
                }
                (Err(error), _) => {
                    // Most likely out of file descriptors, which sessions free when they end.
                    tracing::warn!(%error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = sessions.join_next() => {}
            () = no_longer_serving(&mut drain), if there.is_some() => there = None,
            () = stopped(&mut stop) => break,
        }
    }
    drop(listener);
    while sessions.join_next().await.is_some() {}
}

async fn tcp_session(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    begins: Begins,
    mut phase: watch::Receiver<Phase>,
) {
    let say = |why: &str| drop(stream.try_write(format!("421 {why}\r\n").as_bytes()));
    let within = shared.settings.now().session.idle_before_login;
    tokio::select! {
        turn = timeout(within, shared.admission.turn(peer.ip())) => if turn != Ok(Ok(())) {
            tracing::info!(%peer, "too many connections at once; refused");
            shared.activity.metrics.session_refused();
            return say("Too many connections at once; try again later");
        },
        () = no_longer_serving(&mut phase) => return say(ABOUT_TO_STOP),
    }
    let Some(place) = shared.limits.enter(peer.ip()).await else {
        tracing::info!(%peer, "too many sessions; refused");
        shared.activity.metrics.session_refused();
        return say("Too many sessions now; try again later");
    };
    let Ok(local) = stream.local_addr() else { return };
    // Replies are small and clients wait for each: no Nagle.
    let _ = stream.set_nodelay(true);
    tcp::keep_alive(&stream);
    let wire = Arc::new(Wire::control(stream));
    let mut data = tcp::Data::new(wire.clone(), local, peer, shared.admission.clone());
    let (config, carrier) = (shared.settings.now().session.clone(), machine::Carrier::Tcp { local, peer });
    let session = match begins {
        Begins::Clear => machine::Session::new(config, carrier, Time::ZERO),
        Begins::WithTls => {
            let Some(binding) = shared.binding() else { return };
            if data.begin_tls(binding).is_err() {
                return;
            }
            machine::Session::secured(config, carrier, Time::ZERO)
        }
    };
    let (post, events) = post();
    let accepted = Accepted {
        peer: peer.ip(),
        place,
        mode: Mode::Tcp,
        session,
        rx: control::Rx::tcp(wire.clone(), shared.all_held.clone()),
        tx: control::Tx::Tcp(wire),
        data: Data::Tcp(data),
        events,
        post,
    };
    match begins {
        Begins::Clear => Driver::new(shared, accepted).run("session over TCP", phase).await,
        Begins::WithTls => Driver::new(shared, accepted).run("session over TCP with TLS", phase).await,
    }
}

async fn serve_sctp(shared: Arc<Shared>, endpoint: Endpoint, listener: Listener, serving: Serving) {
    let Serving { mut there, phase } = serving;
    let (mut drain, mut stop) = (phase.clone(), phase.clone());
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match (accepted, &there) {
                (Some(association), Some(there)) => {
                    let session = sctp_session(shared.clone(), endpoint.clone(), association, phase.clone());
                    let there = there.clone();
                    sessions.spawn(async move {
                        session.await;
                        drop(there);
                    });
                }
                (Some(association), None) => association.abort(format!("421 {ABOUT_TO_STOP}")),
                (None, _) => break,
            },
            Some(_) = sessions.join_next() => {}
            () = no_longer_serving(&mut drain), if there.is_some() => there = None,
            () = stopped(&mut stop) => break,
        }
    }
    drop(listener);
    while sessions.join_next().await.is_some() {}
}

async fn sctp_session(
    shared: Arc<Shared>,
    endpoint: Endpoint,
    association: Association,
    phase: watch::Receiver<Phase>,
) {
    let Ok(Ok(up)) = timeout(UP, association.up()).await else {
        return association.abort("the handshake was not completed in time");
    };
    let Some(peer) = association.peer_addr() else { return };
    let Some(place) = shared.limits.enter(peer.ip()).await else {
        tracing::info!(%peer, "too many sessions; refused");
        shared.activity.metrics.session_refused();
        return association.abort("421 Too many sessions now; try again later");
    };
    place.set_association(&association);
    let settings = shared.settings.now();
    let (is_protected, certificates) = (association.is_protected(), association.peer_certificates());
    let mode = Mode::of_streams(up.inbound_streams);
    let (post, events) = post();
    let (carrier, rx, tx, data) = match mode {
        Mode::Braid => {
            let data_streams = up.inbound_streams.min(up.outbound_streams) - 1;
            if !(1..=DATA_STREAMS_MAX).contains(&data_streams) {
                return association.abort("braid needs 3 to 65 streams each way");
            }
            for stream in 1..=data_streams {
                let _ = association.set_stream_value(StreamId(stream), DATA_PRIORITY);
            }
            let lanes =
                braid::Lanes::new(association.clone(), data_streams, settings.stall, settings.durability);
            (
                machine::Carrier::Braid { data_streams },
                control::Rx::braid(association.clone(), shared.all_held.clone()),
                control::Tx::Braid(association),
                Data::Braid(lanes),
            )
        }
        Mode::Tcp | Mode::Naive | Mode::Ms | Mode::MsCp => {
            let carrier = if mode == Mode::Naive { machine::Carrier::Naive } else { machine::Carrier::Ms };
            let paths = association.stats().paths;
            let data = sctp::Data {
                endpoint,
                control: association.clone(),
                local: paths.iter().map(|path| path.local).collect(),
                peer: paths.iter().map(|path| path.peer).collect(),
                config: Arc::new(settings.sctp.clone().with(|c| {
                    c.streams.outbound = 1;
                    c.streams.inbound = 1;
                })),
                early: Arc::default(),
            };
            (
                carrier,
                control::Rx::sctp(association.clone(), shared.all_held.clone()),
                control::Tx::Sctp(association),
                Data::Sctp(data),
            )
        }
    };
    let config = settings.session.clone();
    let session = match is_protected {
        true => {
            let mut session = machine::Session::over_protection(config, carrier, Time::ZERO);
            session.vouch(shared.vouched(certificates.as_deref()));
            session
        }
        false => machine::Session::new(config, carrier, Time::ZERO),
    };
    let accepted = Accepted { peer: peer.ip(), place, mode, session, rx, tx, data, events, post };
    Driver::new(shared, accepted).run(&format!("session over SCTP, mode {mode}"), phase).await;
}

/// Returns an unpredictable number, from the keys that the standard library draws for its hash tables.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
