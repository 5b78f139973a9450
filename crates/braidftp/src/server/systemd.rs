//! Interface to systemd: passed sockets (sd_listen_fds(3)), and notifications (sd_notify(3)).
//!
//! The socket for notifications is connected before the process is confined, which makes no sockets later; crates for sd_notify
//! make one for each message.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use listenfd::ListenFd;

use super::listen::{Listen, TLS_PORT};

/// Sockets opened for this process by systemd, or by a program with the same interface.
#[derive(Debug, Default)]
pub(super) struct Passed {
    tcp: Vec<TcpListener>,
    udp: Vec<Arc<UdpSocket>>,
}

impl Passed {
    /// The sockets named by the environment (LISTEN_FDS). Must be called once.
    ///
    /// # Errors
    ///
    /// One is of another kind: a sentence.
    pub(super) fn take() -> Result<Self, String> {
        let mut given = ListenFd::from_env();
        let mut passed = Self::default();
        for index in 0..given.len() {
            if let Ok(Some(listener)) = given.take_tcp_listener(index) {
                passed.tcp.push(listener);
            } else if let Ok(Some(socket)) = given.take_udp_socket(index) {
                passed.udp.push(Arc::new(socket));
            } else {
                return Err(format!(
                    "socket {} of LISTEN_FDS is neither a TCP socket that listens nor a UDP socket: in the socket unit, \
                     ListenStream= and ListenDatagram= take ADDRESS:PORT here",
                    index + 3
                ));
            }
        }
        Ok(passed)
    }

    /// Their addresses: served if no others are configured. UDP sockets belong to one endpoint.
    pub(super) fn places(&self) -> Vec<Listen> {
        let at = |address: SocketAddr| match address.port() {
            TLS_PORT => Listen::Tls(address),
            _ => Listen::Tcp(address),
        };
        let mut places: Vec<Listen> =
            self.tcp.iter().filter_map(|listener| listener.local_addr().ok()).map(at).collect();
        let udp: Vec<SocketAddr> = self.udp.iter().filter_map(|socket| socket.local_addr().ok()).collect();
        if !udp.is_empty() {
            places.push(Listen::SctpUdp(udp));
        }
        places
    }

    /// The listener at this address, if it was passed.
    pub(super) fn tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let index =
            self.tcp.iter().position(|listener| listener.local_addr().is_ok_and(|at| at == address))?;
        Some(self.tcp.swap_remove(index))
    }

    /// The sockets at these addresses.
    pub(super) fn udp(&mut self, addresses: &[SocketAddr]) -> Vec<Arc<UdpSocket>> {
        let is_there = |socket: &Arc<UdpSocket>| socket.local_addr().is_ok_and(|at| addresses.contains(&at));
        let (taken, left) = std::mem::take(&mut self.udp).into_iter().partition(is_there);
        self.udp = left;
        taken
    }

    /// Describes sockets that are not used.
    pub(super) fn unused(&self) -> Option<String> {
        let places: Vec<String> = self.places().iter().map(Listen::to_string).collect();
        (!places.is_empty()).then(|| {
            format!(
                "systemd has passed a socket for {}, which `listen` does not name: name it, or leave `listen` out",
                places.join(" and ")
            )
        })
    }
}

/// Notifies systemd of the state of the service. Does nothing without NOTIFY_SOCKET.
#[derive(Debug, Default)]
pub(super) struct Notify {
    socket: Option<UnixDatagram>,
    /// The interval of watchdog notifications.
    watchdog: Option<Duration>,
}

impl Notify {
    /// Configured by the environment.
    ///
    /// # Errors
    ///
    /// The named socket does not exist: a sentence.
    pub(super) fn from_env() -> Result<Self, String> {
        let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(Self::default()) };
        let cannot = |error| format!("cannot reach NOTIFY_SOCKET {}: {error}", path.display());
        let socket = UnixDatagram::unbound().map_err(cannot)?;
        let connected = match path.as_encoded_bytes() {
            [b'@', name @ ..] => {
                UnixAddr::from_abstract_name(name).and_then(|address| socket.connect_addr(&address))
            }
            _ => socket.connect(&path),
        };
        connected.and_then(|()| socket.set_nonblocking(true)).map_err(cannot)?;
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let within = number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0);
        // Twice per interval, as sd_watchdog_enabled(3) recommends.
        Ok(Self { socket: Some(socket), watchdog: within.map(|micros| Duration::from_micros(micros) / 2) })
    }

    /// The interval at which [`Notify::alive`] must be called, if required.
    pub(super) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    fn tell(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // A service manager that does not listen is no reason to stop serving.
            let _ = socket.send(state.as_bytes());
        }
    }

    /// The service is ready.
    pub(super) fn ready(&self) {
        self.tell("READY=1");
    }

    /// The service reads its settings again; [`Notify::ready`] follows.
    pub(super) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000);
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// The service is stopping, within this time.
    pub(super) fn stopping(&self, within: Duration) {
        self.tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", within.as_micros()));
    }

    /// The text in `systemctl status`.
    pub(super) fn status(&self, status: &str) {
        self.tell(&format!("STATUS={status}"));
    }

    /// It is alive.
    pub(super) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }
}
