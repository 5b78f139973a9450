//! SCTP of live flows: endpoints of `braidftp-net` on both hosts of a pair, with the configuration of the simulated flow.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use braidftp_net::{Association, Bind, Carrier, Connect, Endpoint, Listener};
use braidftp_sctp::{AllowedPath, Config};

use super::commands::is_over_udp;

/// The SCTP port of servers.
const PORT: u16 = 5_001;
/// The UDP port of both endpoints (RFC 6951).
const UDP_PORT: u16 = 9_899;

/// How the endpoints of a pair of hosts reach each other.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    carrier: Carrier,
    /// The addresses of both hosts on each path.
    paths: Vec<[Ipv4Addr; 2]>,
    config: Arc<Config>,
}

impl Ends {
    /// Creates it for packets with headers of so many bytes around SCTP's.
    pub(super) fn new(overhead_bytes: usize, paths: Vec<[Ipv4Addr; 2]>, config: Arc<Config>) -> Self {
        let carrier = if is_over_udp(overhead_bytes) { Carrier::Udp } else { Carrier::Ip };
        Self { carrier, paths, config }
    }

    fn addresses(&self, host: usize) -> impl Iterator<Item = SocketAddr> + '_ {
        self.paths.iter().map(move |path| SocketAddr::new(IpAddr::V4(path[host]), UDP_PORT))
    }

    /// Binds the endpoint of a host, within a runtime.
    pub(super) fn bind(&self, host: usize) -> Result<Endpoint, String> {
        let bind = Bind { carrier: self.carrier, ..Bind::to(self.addresses(host)) };
        Endpoint::bind(bind).map_err(|error| error.to_string())
    }

    /// Listens on the second host.
    pub(super) fn listen(&self, endpoint: &Endpoint) -> Result<Listener, String> {
        endpoint.listen(PORT, self.config.clone()).map_err(|error| error.to_string())
    }

    /// Opens an association from the first host. Its paths are those of the scenario.
    pub(super) fn connect(&self, endpoint: &Endpoint) -> Result<Association, String> {
        let mut config = Config::clone(&self.config);
        if self.paths.len() > 1 {
            let allowed = |[from, to]: &[Ipv4Addr; 2]| AllowedPath {
                local: IpAddr::V4(*from),
                peer: Some(IpAddr::V4(*to)),
            };
            config.paths.allowed = self.paths.iter().map(allowed).collect();
        }
        let connect = Connect { config: Arc::new(config), ..Connect::to(self.addresses(1), PORT) };
        endpoint.connect(connect).map_err(|error| error.to_string())
    }
}

/// Runs work on a runtime of this thread alone, so that its sockets are in the thread's namespace.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}
