//! The server: executes what `ftp::server::Session` asks for, over each transport.
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
//! Sockets are made by [`Builder::bind`], in the thread that calls it, and belong to its network namespace. A session
//! that misbehaves costs itself; one that ends early leaves no half file under a final name.

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
mod fair_queue;
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
use braidftp_ftp::mapping::DATA_STREAMS_MAX;
use braidftp_ftp::server as machine;
use braidftp_net::sctp::{Config, Profile};
use braidftp_net::{Association, Carrier, Endpoint, HANDSHAKES_A_SECOND, Listener};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::default_multipath;
use crate::store::fs::{Durability, Pool, Root};
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
pub(crate) use limits::{ANSWERS_WITHIN, IDLE_MAKES_ROOM, WAITING_MAX};
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

/// How long a new association may take to come up, or its first look at its streams.
const UP: Duration = Duration::from_secs(15);
/// The receive window of an association before its login: the control stream alone is read.
pub(crate) const BEFORE_LOGIN_BYTES: usize = 32 << 10;
/// How long a client may take to acknowledge half of the last replies, and then to end its association.
pub(crate) const CLOSING: Duration = Duration::from_secs(15);
/// What of the disk stays free at most where [`Settings::disk_reserve`] says nothing. 1 GiB.
pub const DISK_RESERVE_MAX: u64 = 1 << 30;
/// Files that are read at once for HASH and its like, for all sessions.
pub const DIGESTS_MAX: usize = 4;
/// Of these, for one session.
pub const DIGESTS_OF_SESSION: usize = 2;
/// What new sessions are told while the server drains.
const ABOUT_TO_STOP: &str = "The server is about to stop; try again in a minute";
/// How long sessions may take to say so to the other side once the server has stopped.
const GRACE: Duration = Duration::from_secs(3);

/// What an operator may choose.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the FTP session goes by.
    pub session: Arc<machine::Config>,
    /// Sessions at once. 200.
    pub max_sessions: usize,
    /// Sessions at once from one address. 50.
    pub max_sessions_per_address: usize,
    /// Ports for passive data connections; `None`: whichever the system gives.
    pub passive_ports: Option<RangeInclusive<u16>>,
    /// The address that PASV tells, where it is not the socket's own (NAT). IPv4.
    pub passive_address: Option<IpAddr>,
    /// How long a TCP data connection may take to open. 15 s; naive's associations have a time of their own.
    pub data_open: Duration,
    /// How long a transfer may stand still, or replies may wait to be taken. 5 min.
    pub stall: Duration,
    /// How long an upload that was accepted in braid may wait for its first frame while no upload of its session gets
    /// any. 60 s.
    pub awaited: Duration,
    /// How long transfers may go on after [`Handle::stop`], while new sessions are refused. 30 s.
    pub drain: Duration,
    /// How long a client may be silent over SCTP, HEARTBEATs unanswered, while it has a transfer under way or something of one has
    /// not arrived, until its session ends. 30 s.
    pub silence: Duration,
    /// How long an unfinished upload is kept that nobody goes on with; `None`: for ever. 7 days. Where nobody may change
    /// anything, nothing is removed.
    pub parts_kept: Option<Duration>,
    /// Bytes of unfinished uploads that the users of a home keep, besides those under way; the oldest make room, and the newest
    /// stays however long it is. `None`: a tenth of the disk.
    pub parts_quota: Option<u64>,
    /// Bytes of the disk that no upload takes. `None`: 1 % of it, [`DISK_RESERVE_MAX`] at most.
    pub disk_reserve: Option<u64>,
    /// What must be on the disk before an upload is called complete.
    pub durability: Durability,
    /// The transport, of SCTP.
    pub sctp: Config,
    /// How sessions are protected. [`Listen::Tls`] needs a key; over TCP a key is offered by AUTH.
    pub protection: Protection,
    /// Where logins, refusals and changes are written to.
    pub audit: Arc<Audit>,
    /// Where a line for each file that was sent or received is written to, in wu-ftpd's format.
    pub xferlog: Option<Arc<LogFile>>,
    /// Events that hooks are told.
    pub hooks: Option<Arc<hooks::Queue>>,
    /// TCP: whether a protected data connection must resume a TLS session of its control connection.
    pub tls_resumption: Resumption,
    /// TCP: control connections whose sessions begin in a second, each of which may begin TLS; others wait, and networks (an IPv4
    /// /24, an IPv6 /56) are served in turn. [`HANDSHAKES_A_SECOND`].
    pub tcp_connections: u32,
    /// A file to write all SCTP packets to.
    pub pcap: Option<PathBuf>,
    /// A file to write all SCTP packets to as text.
    pub packet_log: Option<PathBuf>,
    /// A qlog of the SCTP packets and paths.
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
            tcp_connections: HANDSHAKES_A_SECOND,
            pcap: None,
            packet_log: None,
            qlog: None,
        }
    }
}

/// What all sessions share.
#[derive(Debug)]
struct Shared {
    /// The host without a table.
    own: Arc<Site>,
    /// Virtual hosts, by their numbers.
    hosts: Vec<Arc<Site>>,
    settings: Arc<Live>,
    limits: Arc<Limits>,
    activity: Arc<Activity>,
    all_held: Arc<control::AllHeld>,
    /// What all transfers hold of files.
    blocks: Arc<Pool>,
    /// How many are under way.
    transfers: Arc<Transfers>,
    /// What control connections over TCP begin TLS with.
    tls: Option<Offer>,
    /// When sessions over TCP begin.
    admission: Arc<Admission>,
    /// Turns to read a file for its digest.
    digests: Arc<Semaphore>,
}

impl Shared {
    /// TLS for one control connection over TCP, if there is a key for it.
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

/// How far the server is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// No more sessions; those there are finish what they do.
    Draining,
    Stopped,
}

/// Stops a server.
#[derive(Debug, Clone)]
pub struct Handle {
    phase: Arc<watch::Sender<Phase>>,
}

impl Handle {
    /// No more sessions: new ones are told 421. Those there are may finish the transfers they are in, for [`Settings::drain`];
    /// then all is over, and [`Server::run`] returns.
    pub fn stop(&self) {
        self.phase.send_if_modified(|phase| {
            let serving = *phase == Phase::Serving;
            if serving {
                *phase = Phase::Draining;
            }
            serving
        });
    }

    /// Ends everything now.
    pub fn abort(&self) {
        self.phase.send_replace(Phase::Stopped);
    }
}

/// What an operator sees of a running server, and does to it.
#[derive(Debug, Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
    handle: Handle,
}

impl Monitor {
    /// Sessions and transfers now, in a sentence.
    pub fn status(&self) -> String {
        let totals = self.shared.activity.totals();
        let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!("{}, {}", many(totals.sessions, "session"), many(totals.transfers, "transfer"))
    }

    /// Metrics now, in OpenMetrics' text format.
    pub fn metrics(&self) -> String {
        self.shared.activity.metrics_text()
    }
}

/// Gives a running server other settings and users.
#[derive(Debug, Clone)]
pub struct Reloader {
    shared: Arc<Shared>,
}

impl Reloader {
    /// How long transfers may go on after [`Handle::stop`].
    pub(crate) fn drain(&self) -> Duration {
        self.shared.settings.now().drain
    }

    /// Puts these in the place of those before. Sessions that are there keep what they began with. What is fixed when sockets
    /// are opened and the process is confined stays: transports, protection, passive ports, active mode, log files and hosts, but for
    /// the users of hosts, which come in the order of the hosts.
    ///
    /// # Errors
    /// The users need what the running server has not: a sentence. Nothing is changed then.
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
    /// A server of the tree beneath `root`.
    pub fn builder(root: Root) -> Builder {
        Builder::new(root)
    }

    /// Where it listens, with the ports that the system chose.
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

    /// The SCTP endpoints, to watch them.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let sctp = |bound: &Bound| match bound {
            Bound::Tcp(..) => None,
            Bound::Sctp(endpoint, _) => Some(endpoint.clone()),
        };
        self.bound.iter().filter_map(sctp).collect()
    }

    /// What shows what it does.
    pub fn monitor(&self) -> Monitor {
        Monitor { shared: self.shared.clone(), handle: self.handle() }
    }

    /// What gives it other settings and users while it runs.
    pub fn reloader(&self) -> Reloader {
        Reloader { shared: self.shared.clone() }
    }

    /// What stops it.
    pub fn handle(&self) -> Handle {
        Handle { phase: self.phase.clone() }
    }

    /// Serves until [`Handle::stop`], and on until the sessions are over or [`Settings::drain`] has passed.
    ///
    /// # Cancel safety
    /// Dropping it ends all sessions at once.
    pub async fn run(self) {
        let Self { bound, shared, phase } = self;
        let mut tasks = JoinSet::new();
        let mut endpoints = Vec::new();
        // Nothing is sent: a session is there as long as its sender is.
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
                tracing::warn!(seconds = drain.as_secs(), "the time to finish transfers is over; those that run are broken off");
            }
            () = stopped(&mut stop) => {}
        }
        phase.send_replace(Phase::Stopped);
        // Sessions hear of it, say so to the other side, and end.
        let _ = timeout(GRACE, async { while tasks.join_next().await.is_some() {} }).await;
        for endpoint in endpoints {
            let _ = timeout(GRACE, endpoint.close()).await;
        }
    }
}

/// What each place to listen knows of the server.
struct Serving {
    /// Held by each session; `None` once there are no more.
    there: Option<mpsc::Sender<Infallible>>,
    phase: watch::Receiver<Phase>,
}

async fn no_longer_serving(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
}

async fn stopped(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase == Phase::Stopped).await;
}

/// How a control connection over TCP begins.
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

/// Accepts until the server stops, and refuses while it drains; then waits for its sessions.
async fn serve_tcp(shared: Arc<Shared>, listener: TcpListener, begins: Begins, serving: Serving) {
    let Serving { mut there, phase } = serving;
    let (mut drain, mut stop) = (phase.clone(), phase.clone());
    let mut sessions = JoinSet::new();
    loop {
        // Those that made room for others end as soon as they run: until then further ones wait in the kernel.
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
                    // Out of file descriptors, most likely: they come back when sessions end.
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
    // Replies are small and each is waited for.
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
        return association.abort("it did not come up");
    };
    let Some(peer) = association.peer_addr() else { return };
    let Some(place) = shared.limits.enter(peer.ip()).await else {
        tracing::info!(%peer, "too many sessions; refused");
        shared.activity.metrics.session_refused();
        return association.abort("421 Too many sessions now; try again later");
    };
    place.is_carried_by(&association);
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

/// A number nobody can foresee, from the keys that the standard library draws for its hash tables.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
