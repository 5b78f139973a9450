//! A server with TLS over TCP, and a client of it for manual commands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use braidftp::identity::{Authorities, Files, KnownHosts, OnUnknown, Peer, ServerIdentity, Trust};
use braidftp::server::{Builder, Listen, Settings};
use braidftp::users::Access;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tempfile::TempDir;

use super::{Control, Folder, PATIENCE, Served, quick, serve_with};

pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A folder that is served over TCP, with TLS by AUTH and, at another port, with implicit TLS.
pub struct Bench {
    pub folder: Folder,
    pub served: Served,
    keys: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::build(change, |builder| builder)
    }

    pub fn build(
        change: impl FnOnce(&mut Settings),
        build: impl FnOnce(Builder) -> Builder + Send + 'static,
    ) -> Self {
        let (folder, keys) = (Folder::new(), tempfile::tempdir().unwrap());
        let identity = ServerIdentity::load_or_make(Files::one(keys.path().join("key.pem")), &[]).unwrap();
        let mut settings = quick();
        settings.protection.identity = Some(identity);
        change(&mut settings);
        let served = serve_with(folder.root(), move |builder| {
            let builder = builder.settings(settings).access(Access::Writable);
            build(builder.listen(Listen::Tls(SocketAddr::from(([127, 0, 0, 1], 0)))))
        });
        Self { folder, served, keys }
    }

    pub fn implicit(&self) -> SocketAddr {
        let tls = |place: &Listen| if let Listen::Tls(address) = place { Some(*address) } else { None };
        self.served.places.iter().find_map(tls).unwrap()
    }

    /// A client that accepts any key, for the protocols of `alpn`, with its own sessions.
    pub fn client(&self, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        let trust = Trust {
            on_unknown: OnUnknown::Accept,
            authorities: Authorities::these(rustls::RootCertStore::empty()),
            ..Trust::new(KnownHosts::at(self.keys.path().join("known_hosts")))
        };
        let verifier = Arc::new(trust).verifier(Peer::new("localhost", 21), alpn).unwrap();
        Arc::new(verifier.config())
    }
}

/// A control connection inside TLS.
pub struct Session {
    pub tls: BufReader<Tls>,
    pub config: Arc<ClientConfig>,
    server: SocketAddr,
}

pub fn tls(config: &Arc<ClientConfig>, stream: TcpStream) -> Tls {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let connection = ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, stream)
}

impl Session {
    /// Starts TLS by AUTH, with a client that may have sessions.
    pub fn open(bench: &Bench) -> Self {
        Self::open_from(bench, Ipv4Addr::LOCALHOST)
    }

    /// The same from another loopback address.
    pub fn open_from(bench: &Bench, from: Ipv4Addr) -> Self {
        let mut control = Control::open_from(&bench.served, Some(IpAddr::V4(from)));
        control.command("AUTH TLS", "234");
        Self::inside(bench.client(&[b"ftp"]), control.stream.try_clone().unwrap())
    }

    pub fn inside(config: Arc<ClientConfig>, stream: TcpStream) -> Self {
        let server = stream.peer_addr().unwrap();
        Self { tls: BufReader::new(tls(&config, stream)), config, server }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.tls.read_line(&mut line).unwrap();
        line
    }

    pub fn command(&mut self, line: &str, code: &str) -> String {
        self.tls.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        self.expect(code)
    }

    pub fn expect(&mut self, code: &str) -> String {
        let reply = self.line();
        assert!(reply.starts_with(code), "expected {code}, got {reply}");
        reply
    }

    pub fn log_in(mut self) -> Self {
        self.command("USER anonymous", "331");
        self.command("PASS x@", "230");
        self.command("TYPE I", "200");
        self.command("PBSZ 0", "200");
        self.command("PROT P", "200");
        self
    }

    pub fn passive(&mut self) -> TcpStream {
        let reply = self.command("EPSV", "229");
        let port = reply.split("(|||").nth(1).unwrap().split('|').next().unwrap().parse().unwrap();
        TcpStream::connect(SocketAddr::new(self.server.ip(), port)).unwrap()
    }

    /// Sends RETR and uses a data connection of this client; returns the bytes and the final reply.
    pub fn fetch(&mut self, name: &str, config: &Arc<ClientConfig>) -> (Vec<u8>, String) {
        let mut data = tls(config, self.passive());
        self.command(&format!("RETR {name}"), "150");
        let mut bytes = Vec::new();
        let _ = data.read_to_end(&mut bytes);
        (bytes, self.line())
    }

    /// Sends STOR, ends the data with `end`; returns the final reply.
    pub fn store(&mut self, name: &str, bytes: &[u8], end: impl FnOnce(&mut Tls)) -> String {
        let mut data = tls(&self.config.clone(), self.passive());
        self.command(&format!("STOR {name}"), "150");
        data.write_all(bytes).unwrap();
        data.flush().unwrap();
        end(&mut data);
        self.line()
    }
}
