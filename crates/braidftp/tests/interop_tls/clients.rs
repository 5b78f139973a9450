//! Third-party clients with our server.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::filezilla::filezilla;
use super::{
    BIG, Fault, LOOPBACKS, Outcome, PATIENCE, Room, Running, Table, Version, Way, at, is_installed,
    our_program, python, run, text,
};

/// Known faults of third-party clients, with the sentences that they violate.
const FAULTS: &[Fault] = &[];

/// Each with AUTH and with implicit TLS, in both versions.
const WAYS: [Way; 5] = [
    Way::Plain,
    Way::Explicit(Version::Tls12),
    Way::Explicit(Version::Tls13),
    Way::Implicit(Version::Tls12),
    Way::Implicit(Version::Tls13),
];

/// Our server, on all loopback addresses.
pub(super) struct Ours {
    pub(super) room: Room,
    places: Vec<(String, SocketAddr)>,
    _running: Running,
}

impl Ours {
    /// Starts it with this line in its configuration file.
    pub(super) fn new(setting: &str) -> Self {
        let room = Room::new();
        let config = room.path("serve.toml");
        fs::write(&config, format!("{setting}\ndurability = 'none'\n")).unwrap();
        let mut said = tempfile::NamedTempFile::new().unwrap();
        let mut command = our_program(room.dir.path());
        command.arg("serve").arg(room.path("tree")).args(["--writable", "--config"]).arg(&config);
        for place in ["ftp://127.0.0.1:0", "ftps://127.0.0.1:0", "ftp://[::1]:0", "ftps://[::1]:0"] {
            command.args(["--listen", place]);
        }
        let stderr = Stdio::from(said.reopen().unwrap());
        let mut running = Running(command.stdin(Stdio::null()).stderr(stderr).spawn().unwrap());
        let begin = Instant::now();
        let places = loop {
            let lines = text(said.as_file_mut());
            let urls: Vec<_> = lines.lines().filter_map(|line| line.strip_prefix("listening ")).collect();
            if urls.len() == 4 {
                let parts = urls.iter().map(|url| url.split_once("://").unwrap());
                break parts.map(|(scheme, place)| (scheme.to_owned(), place.parse().unwrap())).collect();
            }
            assert!(running.ended().is_none() && begin.elapsed() < PATIENCE, "our server: {lines}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        Self { room, places, _running: running }
    }

    pub(super) fn address(&self, way: Way, ip: IpAddr) -> SocketAddr {
        let scheme = if matches!(way, Way::Implicit(_)) { "ftps" } else { "ftp" };
        self.places.iter().find(|(has, place)| has == scheme && place.ip() == ip).unwrap().1
    }

    /// Checks that the fetched, resumed and sent files are complete, and removes them.
    fn check(&self) -> Outcome {
        let room = &self.room;
        let done = room
            .is_whole("here/got")
            .and_then(|()| room.is_whole("here/resumed"))
            .and_then(|()| room.is_whole("tree/in/up"));
        for name in ["here/got", "here/resumed", "tree/in/up"] {
            let _ = fs::remove_file(room.path(name));
        }
        room.partial("here/resumed");
        done
    }
}

type Client = fn(&Ours, Way, SocketAddr) -> Outcome;

#[test]
fn other_peoples_clients_and_our_server() {
    const STRICT: &str = "";
    // Python's FTP_TLS resumes no sessions by itself.
    const LENIENT: &str = "tls-resumption = 'optional'";
    let clients: [(&str, bool, &str, Client); 6] = [
        ("curl", is_installed("curl"), STRICT, curl),
        ("lftp", is_installed("lftp"), STRICT, lftp),
        ("rclone", is_installed("rclone"), STRICT, rclone),
        ("ftplib", python("ftplib").is_some(), LENIENT, ftplib_as_it_is),
        ("ftplib, taught", python("ftplib").is_some(), STRICT, ftplib_that_resumes),
        ("FileZilla's", true, STRICT, filezilla_sequence),
    ];
    let table = Table::of_rows(clients.map(|(name, is_there, setting, client)| {
        move || {
            let mut row = Table::default();
            if !is_there {
                row.leave_out(name);
                return row;
            }
            // A server for each row, with its own files.
            let server = Ours::new(setting);
            for (way, ip) in WAYS.into_iter().flat_map(|way| LOOPBACKS.map(|ip| (way, ip))) {
                let _ = server.check();
                let outcome = client(&server, way, server.address(way, ip)).and_then(|()| server.check());
                row.add(name, way, ip, outcome);
            }
            row
        }
    }));
    table.judge("other people's clients and our server", FAULTS);
}

fn lists(listing: &str) -> Outcome {
    match listing.contains("one") && listing.contains("folder") {
        true => Ok(()),
        false => Err(format!("the listing is {listing}")),
    }
}

fn curl(ours: &Ours, way: Way, address: SocketAddr) -> Outcome {
    let room = &ours.room;
    let scheme = if matches!(way, Way::Implicit(_)) { "ftps" } else { "ftp" };
    let url = format!("{scheme}://{}/", at(address));
    let curl = || {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-g", "--max-time", "60"]);
        match way.version() {
            None => {}
            Some(version) => {
                curl.args(["-k", "--ssl-reqd"]);
                match version {
                    Version::Tls12 => curl.args(["--tls-max", "1.2"]),
                    Version::Tls13 => curl.arg("--tlsv1.3"),
                    Version::Any => &mut curl,
                };
            }
        }
        curl
    };
    lists(&run(curl().arg(&url))?)?;
    // Several files in one session: each data connection resumes the TLS session.
    run(curl()
        .arg("-o")
        .arg(room.path("here/got"))
        .arg(format!("{url}{BIG}"))
        .arg("-o")
        .arg(room.path("here/one"))
        .arg(format!("{url}one")))?;
    run(curl().args(["-C", "-", "-o"]).arg(room.path("here/resumed")).arg(format!("{url}{BIG}")))?;
    run(curl().arg("-T").arg(room.path("here/up")).arg(format!("{url}in/up"))).map(drop)
}

fn lftp(ours: &Ours, way: Way, address: SocketAddr) -> Outcome {
    let room = &ours.room;
    let priority = match way.version() {
        Some(Version::Tls12) => "NORMAL:-VERS-ALL:+VERS-TLS1.2",
        Some(Version::Tls13) => "NORMAL:-VERS-ALL:+VERS-TLS1.3",
        Some(Version::Any) | None => "NORMAL",
    };
    let tls = match way {
        Way::Plain => "set ftp:ssl-allow no",
        Way::Explicit(_) | Way::Implicit(_) => "set ftp:ssl-force yes; set ftp:ssl-protect-data yes",
    };
    let scheme = if matches!(way, Way::Implicit(_)) { "ftps" } else { "ftp" };
    let script = format!(
        "set cmd:fail-exit yes; set net:max-retries 1; set net:timeout 30; set ssl:verify-certificate no; \
         set ssl:priority \"{priority}\"; {tls}; open {scheme}://{}; cls -1; get {BIG} -o {}; get -c {BIG} -o {}; put {} -o in/up; bye",
        at(address),
        room.path("here/got").display(),
        room.path("here/resumed").display(),
        room.path("here/up").display(),
    );
    lists(&run(Command::new("lftp").env("HOME", room.path("here")).args(["-c", &script]))?)
}

fn rclone(ours: &Ours, way: Way, address: SocketAddr) -> Outcome {
    let room = &ours.room;
    let rclone = |what: &str| {
        let mut rclone = Command::new("rclone");
        rclone.env("HOME", room.path("here")).args(["--config", "", "--retries", "1", what]);
        let host = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
        rclone.args([
            "--ftp-user",
            "anonymous",
            "--ftp-host",
            &host,
            "--ftp-port",
            &address.port().to_string(),
        ]);
        // `x`, as obscured by rclone.
        rclone.args(["--ftp-pass", "fYo8WUpCJ4x6bDpkYFJzYNs", "--ftp-no-check-certificate"]);
        match way {
            Way::Plain => &mut rclone,
            Way::Explicit(_) => rclone.arg("--ftp-explicit-tls"),
            Way::Implicit(_) => rclone.arg("--ftp-tls"),
        };
        if way.version() == Some(Version::Tls12) {
            rclone.arg("--ftp-disable-tls13");
        }
        rclone
    };
    lists(&run(rclone("lsf").arg(":ftp:"))?)?;
    run(rclone("copyto").arg(format!(":ftp:{BIG}")).arg(room.path("here/got")))?;
    // It cannot resume, and starts again.
    run(rclone("copyto").arg(format!(":ftp:{BIG}")).arg(room.path("here/resumed")))?;
    run(rclone("copyto").arg(room.path("here/up")).arg(":ftp:in/up")).map(drop)
}

const FTPLIB: &str = r#"
import ftplib, os, socket, ssl, sys
host, port, way, resumes, here = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == 'resumes', sys.argv[5]

class Taught(ftplib.FTP_TLS):
    def ntransfercmd(self, cmd, rest=None):
        conn, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        if self._prot_p:
            session = self.sock.session if resumes else None
            conn = self.context.wrap_socket(conn, server_hostname=self.host, session=session)
        return conn, size

class Implicit(Taught):
    def connect(self, host, port, timeout=60):
        self.host, self.port, self.timeout = host, port, timeout
        raw = socket.create_connection((host, port), timeout)
        self.af = raw.family
        self.sock = self.context.wrap_socket(raw, server_hostname=host)
        self.file = self.sock.makefile('r', encoding=self.encoding)
        self.welcome = self.getresp()
        return self.welcome

if way == 'plain':
    ftp = ftplib.FTP()
else:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    version = ssl.TLSVersion.TLSv1_2 if way.endswith('1.2') else ssl.TLSVersion.TLSv1_3
    context.minimum_version = context.maximum_version = version
    kind = Implicit if way.startswith('implicit') else (Taught if resumes else ftplib.FTP_TLS)
    ftp = kind(context=context)
ftp.connect(host, port, timeout=60)
ftp.login('anonymous', 'x@')
if way != 'plain':
    ftp.prot_p()
ftp.retrlines('LIST')
with open(here + '/got', 'wb') as to:
    ftp.retrbinary('RETR folder/big', to.write)
with open(here + '/resumed', 'ab') as to:
    ftp.retrbinary('RETR folder/big', to.write, rest=to.tell())
with open(here + '/up', 'rb') as file:
    ftp.storbinary('STOR in/up', file)
ftp.quit()
"#;

fn ftplib(ours: &Ours, way: Way, address: SocketAddr, resumes: &str) -> Outcome {
    let mut python = python("ftplib").ok_or("it is gone")?;
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    python.args(["-c", FTPLIB, &host, &port, &way.to_string(), resumes]).arg(ours.room.path("here"));
    lists(&run(&mut python)?)
}

fn ftplib_as_it_is(ours: &Ours, way: Way, address: SocketAddr) -> Outcome {
    ftplib(ours, way, address, "as it is")
}

fn ftplib_that_resumes(ours: &Ours, way: Way, address: SocketAddr) -> Outcome {
    ftplib(ours, way, address, "resumes")
}

fn filezilla_sequence(ours: &Ours, way: Way, address: SocketAddr) -> Outcome {
    lists(&filezilla(&ours.room, way, address)?)
}
