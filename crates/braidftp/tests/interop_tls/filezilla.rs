//! The commands of FileZilla 3, in the order of its log.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use braidftp::identity::{KnownHosts, OnUnknown, Peer, Trust};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::{BIG, BIG_BYTES, PATIENCE, Room, Version, Way};

/// A connection, with TLS or without.
enum Line {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

struct Control {
    line: BufReader<Line>,
    tls: Arc<ClientConfig>,
    server: SocketAddr,
    way: Way,
}

type Said = Result<String, String>;

impl Control {
    fn protect(&self, stream: TcpStream) -> Result<Line, String> {
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        if self.way == Way::Plain {
            return Ok(Line::Plain(stream));
        }
        let name = "localhost".try_into().map_err(|_| "no name")?;
        let connection = ClientConnection::new(self.tls.clone(), name).map_err(|error| error.to_string())?;
        Ok(Line::Tls(Box::new(StreamOwned::new(connection, stream))))
    }

    /// The next complete reply.
    fn reply(&mut self) -> Said {
        let mut all = String::new();
        loop {
            let begin = all.len();
            self.line.read_line(&mut all).map_err(|error| error.to_string())?;
            let line = &all[begin..];
            let is_last = line.as_bytes().get(3) == Some(&b' ') && line.as_bytes()[0].is_ascii_digit();
            if is_last || line.is_empty() {
                return Ok(all);
            }
        }
    }

    fn expect(&mut self, code: &str, what: &str) -> Said {
        let reply = self.reply()?;
        match reply.starts_with(code) {
            true => Ok(reply),
            false => Err(format!("{what}: {reply}")),
        }
    }

    fn command(&mut self, line: &str, code: &str) -> Said {
        self.line.get_mut().write_all(format!("{line}\r\n").as_bytes()).map_err(|error| error.to_string())?;
        self.expect(code, line)
    }

    fn data(&mut self) -> Result<TcpStream, String> {
        let reply = self.command("EPSV", "229")?;
        let port = reply.split("|||").nth(1).and_then(|rest| rest.split('|').next()?.parse().ok());
        let address = SocketAddr::new(self.server.ip(), port.ok_or(reply)?);
        TcpStream::connect(address).map_err(|error| error.to_string())
    }

    fn receive(&mut self, line: &str) -> Result<Vec<u8>, String> {
        let stream = self.data()?;
        self.command(line, "150")?;
        let mut bytes = Vec::new();
        self.protect(stream)?.read_to_end(&mut bytes).map_err(|error| format!("{line}: {error}"))?;
        self.expect("226", line)?;
        Ok(bytes)
    }

    fn send(&mut self, line: &str, bytes: &[u8]) -> Result<(), String> {
        let stream = self.data()?;
        self.command(line, "150")?;
        let mut data = self.protect(stream)?;
        let sent = data.write_all(bytes).and_then(|()| match &mut data {
            Line::Plain(stream) => stream.shutdown(Shutdown::Write),
            Line::Tls(tls) => {
                tls.conn.send_close_notify();
                tls.flush()?;
                tls.sock.shutdown(Shutdown::Write)
            }
        });
        sent.map_err(|error| format!("{line}: {error}"))?;
        // The further replies of the server.
        let _ = data.read_to_end(&mut Vec::new());
        self.expect("226", line).map(drop)
    }
}

/// Lists, fetches, resumes and sends; returns the listing.
pub(super) fn filezilla(room: &Room, way: Way, server: SocketAddr) -> Said {
    let trust =
        Trust { on_unknown: OnUnknown::Accept, ..Trust::new(KnownHosts::at(room.path("here/known"))) };
    let (trust, peer, alpn) =
        (Arc::new(trust), Peer::new("localhost", server.port()), [&b"x-filezilla-ftp"[..], b"ftp"]);
    let verifier = match way.version() {
        Some(Version::Tls12) => trust.verifier_tls12(peer, &alpn),
        Some(Version::Tls13) => trust.verifier_tls13(peer, &alpn),
        Some(Version::Any) | None => trust.verifier(peer, &alpn),
    };
    let tls = Arc::new(verifier.map_err(|error| error.to_string())?.config());
    let stream = TcpStream::connect(server).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let plain = |stream: &TcpStream| stream.try_clone().map(Line::Plain).map_err(|error| error.to_string());
    let mut control = Control { line: BufReader::new(plain(&stream)?), tls, server, way };
    if matches!(way, Way::Implicit(_)) {
        control.line = BufReader::new(control.protect(stream)?);
        control.expect("220", "greeting")?;
    } else {
        control.expect("220", "greeting")?;
        if matches!(way, Way::Explicit(_)) {
            control.command("AUTH TLS", "234")?;
            control.line = BufReader::new(control.protect(stream)?);
        }
    }
    control.command("USER anonymous", "331")?;
    control.command("PASS anonymous@example.com", "230")?;
    control.command("SYST", "215")?;
    control.command("FEAT", "211")?;
    control.command("OPTS UTF8 ON", "200")?;
    if way != Way::Plain {
        control.command("PBSZ 0", "200")?;
        control.command("PROT P", "200")?;
    }
    control.command("PWD", "257")?;
    control.command("TYPE I", "200")?;
    let listing = control.receive("MLSD")?;
    let write =
        |name: &str, bytes: &[u8]| fs::write(room.path(name), bytes).map_err(|error| error.to_string());
    control.command("CWD folder", "250")?;
    control.command("PWD", "257")?;
    let name = BIG.rsplit('/').next().unwrap_or(BIG);
    let got = control.receive(&format!("RETR {name}"))?;
    write("here/got", &got)?;
    let had = fs::read(room.path("here/resumed")).map_err(|error| error.to_string())?;
    control.command(&format!("REST {}", had.len()), "350")?;
    let rest = control.receive(&format!("RETR {name}"))?;
    if had.len() + rest.len() != BIG_BYTES {
        return Err(format!("REST {} brought {} bytes", had.len(), rest.len()));
    }
    write("here/resumed", &[had, rest].concat())?;
    control.command("CWD /", "250")?;
    control.send("STOR in/up", super::pattern())?;
    control.command("MFMT 20200102030405 in/up", "213")?;
    Ok(String::from_utf8_lossy(&listing).into_owned())
}
