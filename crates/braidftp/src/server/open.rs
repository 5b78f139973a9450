//! Opens the sockets of a server that an operator configured: [`Builder`], [`Opened`], [`Server`], and errors at the start.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use braidftp_ftp::mapping::{CONTROL_PORT, DATA_STREAMS_MAX};
use braidftp_ftp::server as machine;
use braidftp_net::sctp::Config;
use braidftp_net::{Bind, BindError, Carrier, Endpoint};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::admission::Admission;
use super::hosts::{Host, Site, show_certificates, virtual_hosts};
use super::limits::Limits;
use super::live::Live;
use super::systemd::Passed;
use super::{
    BEFORE_LOGIN_BYTES, Begins, Bound, CLOSING, DIGESTS_MAX, Listen, Phase, Server, Settings, Shared, tcp,
};
use crate::store::Tree;
use crate::tls::server::Offer;
use crate::users::{Access, Users};

/// Configures a server before it opens its sockets.
#[derive(Debug)]
pub struct Builder {
    root: Tree,
    listen: Vec<Listen>,
    users: Option<Users>,
    access: Access,
    settings: Settings,
    hosts: Vec<Host>,
    passed: Passed,
}

impl Builder {
    /// Begins to configure a server of the tree beneath `root`.
    pub(super) fn new(root: Tree) -> Self {
        Self {
            root,
            listen: Vec::new(),
            users: None,
            access: Access::ReadOnly,
            settings: Settings::default(),
            hosts: Vec::new(),
            passed: Passed::default(),
        }
    }

    /// Adds an address to listen at.
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen.push(listen);
        self
    }

    /// Sets the permitted users. Default: everybody, as `anonymous`.
    #[must_use]
    pub fn users(mut self, users: Users) -> Self {
        self.users = Some(users);
        self
    }

    /// Sets whether `anonymous` may write. Default: read-only.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Adds a virtual host (RFC 7151).
    #[must_use]
    pub fn host(mut self, host: Host) -> Self {
        self.hosts.push(host);
        self
    }

    /// Sets everything else.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets sockets that are open already (systemd); they replace those of the same addresses.
    pub(super) fn passed(mut self, passed: Passed) -> Self {
        self.passed = passed;
        self
    }

    /// Opens the sockets and starts their tasks. Clients can connect from now on; [`Server::run`] serves them. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`]; nothing stays open.
    pub fn bind(self) -> Result<Server, StartError> {
        self.open()?.start()
    }

    /// Opens the sockets, without a runtime, so that the caller can drop privileges and start threads before [`Opened::start`].
    /// Clients can connect from now on, and wait.
    ///
    /// # Errors
    /// [`StartError`]; nothing stays open.
    pub fn open(self) -> Result<Opened, StartError> {
        let Self { root, listen, users, access, mut settings, mut hosts, mut passed } = self;
        if listen.is_empty() {
            return Err(StartError::Nowhere);
        }
        let session = Arc::make_mut(&mut settings.session);
        session.unprotected = settings.protection.unprotected();
        session.hosts = virtual_hosts(&hosts, &session.greeting);
        if let Some(identity) = &settings.protection.identity {
            show_certificates(identity, &hosts, &session.hosts);
        }
        // A list of users may get keys while the server runs.
        let has_lists = users.is_some() || !hosts.is_empty();
        if let Some(identity) = settings.protection.identity.as_ref().filter(|_| has_lists) {
            identity.ask_clients();
        }
        let users = users.unwrap_or_else(|| Users::anonymous(access));
        hosts.iter_mut().for_each(|host| host.users.count_with(&users));
        let mut places = Vec::new();
        for place in listen {
            places.push(match place {
                Listen::Tcp(address) => {
                    let listener = tcp::take_or_open(passed.tcp(address), address);
                    let listener = listener.map_err(|error| StartError::Tcp { address, error })?;
                    OpenedAt::Tcp(listener, Begins::Clear)
                }
                Listen::Tls(address) => {
                    if settings.protection.identity.is_none() {
                        return Err(StartError::NoKey(address));
                    }
                    let listener = tcp::take_or_open(passed.tcp(address), address);
                    let listener = listener.map_err(|error| StartError::Tcp { address, error })?;
                    OpenedAt::Tcp(listener, Begins::WithTls)
                }
                Listen::SctpUdp(addresses) => {
                    let mut bind = Bind::to(addresses);
                    bind.sockets = passed.udp(&bind.addrs);
                    open_sctp(bind, CONTROL_PORT, &settings)?
                }
                Listen::SctpIp(addresses, port) => {
                    let mut bind = Bind::to(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)));
                    bind.carrier = Carrier::Ip;
                    open_sctp(bind, port, &settings)?
                }
            });
        }
        if let Some(unused) = passed.unused() {
            return Err(StartError::Unused(unused));
        }
        Ok(Opened { root, users, settings, hosts, places })
    }
}

/// A server with open sockets, not started.
#[derive(Debug)]
pub struct Opened {
    root: Tree,
    users: Users,
    pub(super) settings: Settings,
    hosts: Vec<Host>,
    places: Vec<OpenedAt>,
}

/// An open socket, or several of one endpoint.
#[derive(Debug)]
enum OpenedAt {
    Tcp(std::net::TcpListener, Begins),
    Sctp(Box<braidftp_net::Opened>, u16 /* SCTP port */),
}

impl Opened {
    /// Returns the addresses at which the server will listen, with the ports that the system chose.
    pub fn local_addrs(&self) -> Vec<Listen> {
        let addr = |place: &OpenedAt| match place {
            OpenedAt::Tcp(listener, begins) => begins.at(local_addr(listener)),
            OpenedAt::Sctp(opened, port) => match opened.carrier() {
                Carrier::Udp | Carrier::InProcess => Listen::SctpUdp(opened.local_addrs()),
                Carrier::Ip => {
                    let addresses = opened.local_addrs().iter().map(SocketAddr::ip).collect();
                    Listen::SctpIp(addresses, *port)
                }
            },
        };
        self.places.iter().map(addr).collect()
    }

    /// Starts the tasks of the sockets. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`]; nothing stays open.
    pub fn start(self) -> Result<Server, StartError> {
        let Self { root, users, mut settings, hosts, places } = self;
        let tls =
            settings.protection.identity.as_ref().map(Offer::new).transpose().map_err(StartError::Tls)?;
        if tls.is_some() {
            Arc::make_mut(&mut settings.session).tls = machine::Tls::Offered;
        }
        let mut bound = Vec::new();
        for place in places {
            bound.push(match place {
                OpenedAt::Tcp(listener, begins) => {
                    let address = local_addr(&listener);
                    let listener = TcpListener::from_std(listener);
                    Bound::Tcp(listener.map_err(|error| StartError::Tcp { address, error })?, begins)
                }
                OpenedAt::Sctp(opened, port) => start_sctp(*opened, port, &settings)?,
            });
        }
        let limits = Limits::new(settings.max_sessions, settings.max_sessions_per_address);
        let admission = Arc::new(Admission::new(settings.tcp_connections));
        let settings = Arc::new(Live::new(settings));
        let (activity, all_held, blocks, transfers) = Default::default();
        let own = Arc::new(Site::new(root, PathBuf::new(), users, &settings));
        let host = |host: Host| Arc::new(Site::new(host.root, host.folder, host.users, &settings));
        let hosts = hosts.into_iter().map(host).collect();
        let digests = Arc::new(Semaphore::new(DIGESTS_MAX));
        let shared = Arc::new(Shared {
            own,
            hosts,
            settings,
            limits,
            activity,
            all_held,
            blocks,
            transfers,
            tls,
            admission,
            digests,
        });
        Ok(Server { bound, shared, phase: Arc::new(watch::Sender::new(Phase::Serving)) })
    }
}

fn local_addr(listener: &std::net::TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

fn open_sctp(mut bind: Bind, port: u16, settings: &Settings) -> Result<OpenedAt, StartError> {
    bind.pcap = settings.pcap.clone();
    bind.packet_log = settings.packet_log.clone();
    bind.qlog = settings.qlog.clone();
    bind.limits = sctp_limits(settings);
    Ok(OpenedAt::Sctp(Box::new(Endpoint::open(bind).map_err(StartError::Sctp)?), port))
}

fn start_sctp(opened: braidftp_net::Opened, port: u16, settings: &Settings) -> Result<Bound, StartError> {
    let config = Arc::new(listening(&settings.sctp));
    let keys = settings.protection.keys().map_err(StartError::Tls)?;
    // Clients may have connected already: none is to find an endpoint that does not listen yet.
    let listen = |endpoint: &Endpoint| match keys {
        None => endpoint.listen(port, config),
        Some(keys) => {
            let keys = braidftp_net::keys::Settings { handshake_timeout: handshake_time(settings), ..keys };
            endpoint.listen_protected(port, config, Arc::new(keys))
        }
    };
    let (endpoint, listener) = opened.start_with(listen).map_err(StartError::Sctp)?;
    let listener = listener.map_err(|error| StartError::SctpPort(error.to_string()))?;
    Ok(Bound::Sctp(endpoint, listener))
}

/// The time limit of the TLS handshake over SCTP, which precedes the login.
pub(crate) fn handshake_time(settings: &Settings) -> Duration {
    braidftp_net::keys::Settings::default().handshake_timeout.min(settings.session.login_within)
}

/// Limits on what clients can make an SCTP endpoint of this server hold.
pub(crate) fn sctp_limits(settings: &Settings) -> braidftp_net::Limits {
    braidftp_net::Limits {
        // More than sessions: an association counts until its shutdown is over, and an association that waits until silent
        // clients were probed has no session yet.
        associations_per_address: settings
            .max_sessions_per_address
            .saturating_add((settings.max_sessions_per_address / 4).max(4)),
        // Half of the sessions: clients that send nothing never occupy all places.
        half_open: (settings.max_sessions / 2).max(1),
        ..Bind::to([]).limits
    }
}

/// Send buffer of an association, in bytes, besides the data in flight and as much again. Limits what a client that reads
/// nothing makes the server hold. Several milliseconds at 1 Gbit/s, for the tasks that refill it.
pub(crate) const SEND_QUEUE_BYTES: usize = 1 << 20;

/// The SCTP configuration of accepted associations: the most streams that any mode uses, and a receive buffer for the credit of
/// all of them.
fn listening(config: &Config) -> Config {
    //= specs/ftp-over-sctp.md#section-2.2
    //# A server MUST accept at least 65 inbound streams and MUST open as many outbound ones as the client accepts.
    let streams = 1 + DATA_STREAMS_MAX;
    //= specs/ftp-over-sctp.md#section-6.6
    //# A receiver MUST offer an a_rwnd of at least N times 262,144 bytes plus 131,072
    let credit = usize::from(DATA_STREAMS_MAX) * (256 << 10) + (128 << 10);
    config.clone().with(|c| {
        c.streams.outbound = streams;
        c.streams.inbound = streams;
        c.memory.receive_buffer_bytes = config.memory.receive_buffer_bytes.max(credit);
        c.memory.send_buffer_bytes = config.memory.send_buffer_bytes.min(SEND_QUEUE_BYTES);
        c.memory.unadmitted_receive_buffer_bytes = Some(BEFORE_LOGIN_BYTES);
        c.timers.shutdown_guard = CLOSING;
    })
}

/// An error at the start of the server.
#[derive(Debug)]
pub enum StartError {
    /// No address to listen at is configured.
    Nowhere,
    /// A TCP address cannot be bound.
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
    /// A UDP address cannot be bound.
    Sctp(BindError),
    /// The raw SCTP socket cannot be opened.
    SctpPort(String),
    /// An address begins with TLS, and there is no key.
    NoKey(SocketAddr),
    /// TLS cannot be set up.
    Tls(crate::exit::Error),
    /// systemd passed a socket that no configured address uses: a sentence.
    Unused(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("nowhere to listen: give --listen ftp://ADDRESS:PORT"),
            Self::Tcp { address, error } => {
                write!(f, "cannot listen at ftp://{address}: {error}")?;
                match error.kind() {
                    std::io::ErrorKind::AddrInUse => write!(
                        f,
                        "; another program has TCP port {}: stop it (`ss -ltnp` shows it) or choose another port",
                        address.port()
                    ),
                    std::io::ErrorKind::AddrNotAvailable => {
                        f.write_str("; this host has no such address: see `ip addr`, or use 0.0.0.0 or [::]")
                    }
                    std::io::ErrorKind::PermissionDenied => {
                        f.write_str("; ports below 1024 need privileges: choose a higher one, such as 2121")
                    }
                    _ => Ok(()),
                }
            }
            Self::Sctp(error) => error.fmt(f),
            Self::NoKey(address) => {
                write!(
                    f,
                    "cannot listen at ftps://{address}: there is no key; give one by --tls-cert and --tls-key"
                )
            }
            Self::Tls(error) => error.fmt(f),
            Self::Unused(why) => f.write_str(why),
            Self::SctpPort(why) => write!(f, "cannot listen on the SCTP port: {why}"),
        }
    }
}

impl std::error::Error for StartError {}
