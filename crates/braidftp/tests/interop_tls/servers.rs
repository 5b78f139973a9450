//! Our client with third-party servers.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use braidftp::identity::{Files, ServerIdentity};

use super::{
    BIG, Fault, LOOPBACKS, Outcome, PATIENCE, Room, Running, Table, Version, Way, at, our_program, python,
    run, text,
};

/// Known faults of third-party servers, with the sentences that they violate.
const FAULTS: &[Fault] = &[];

/// Starts a server in a room, at an address, with this protection.
pub(super) type Start = fn(&Room, Way, SocketAddr) -> Option<Command>;

/// The user name.
pub(super) const ANONYMOUS: &str = "anonymous";
pub(super) const JOE: &str = "joe";

#[test]
fn our_client_and_other_peoples_servers() {
    let any = [Way::Plain, Way::Explicit(Version::Any), Way::Implicit(Version::Any)];
    let both = [
        Way::Plain,
        Way::Explicit(Version::Tls12),
        Way::Explicit(Version::Tls13),
        Way::Implicit(Version::Tls12),
        Way::Implicit(Version::Tls13),
    ];
    let servers: [(&str, &str, &[Way], Start); 4] = [
        ("vsftpd", ANONYMOUS, &any, vsftpd),
        ("ProFTPD", JOE, &both, proftpd),
        ("Pure-FTPd", JOE, &any[..2], pure_ftpd),
        ("pyftpdlib", JOE, &both[..3], pyftpdlib),
    ];
    let table = Table::of_rows(servers.map(|(name, user, ways, start)| {
        move || {
            let mut row = Table::default();
            for (&way, ip) in ways.iter().flat_map(|way| LOOPBACKS.map(|ip| (way, ip))) {
                let room = Room::new();
                let files = Files::one(room.path("key.pem"));
                ServerIdentity::load_or_make(files, &["localhost".into()]).unwrap();
                let address = free(ip);
                let Some(mut command) = start(&room, way, address) else {
                    row.leave_out(name);
                    break;
                };
                let outcome =
                    served(&mut command, address).and_then(|_running| ours(&room, user, way, address));
                row.add(name, way, ip, outcome);
            }
            row
        }
    }));
    table.judge("our client and other people's servers", FAULTS);
}

/// An address for a server that cannot say which port the system chose.
pub(super) fn free(ip: IpAddr) -> SocketAddr {
    TcpListener::bind(SocketAddr::new(ip, 0)).unwrap().local_addr().unwrap()
}

/// Starts a server, and waits until it listens.
pub(super) fn served(command: &mut Command, address: SocketAddr) -> Result<Running, String> {
    let mut said = tempfile::tempfile().unwrap();
    let output = || Stdio::from(said.try_clone().unwrap());
    let child = command.stdin(Stdio::null()).stdout(output()).stderr(output()).spawn();
    let mut running = Running(child.map_err(|error| error.to_string())?);
    let begin = Instant::now();
    loop {
        if let Ok(mut stream) = TcpStream::connect(address) {
            // QUIT, so that the server does not keep the session for long.
            let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
            let _ = stream.read(&mut [0; 256]);
            let _ = stream.write_all(b"QUIT\r\n");
            return Ok(running);
        }
        if running.ended().is_some() || begin.elapsed() > PATIENCE {
            return Err(format!("the server does not serve: {}", text(&mut said)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lists, fetches, sends, and resumes an interrupted transfer with our client.
fn ours(room: &Room, user: &str, way: Way, address: SocketAddr) -> Outcome {
    let scheme = match way {
        Way::Plain => "ftp",
        Way::Explicit(_) => "ftpes",
        Way::Implicit(_) => "ftps",
    };
    let url = format!("{scheme}://{}/", at(address));
    let braidftp = |command: &str| {
        let mut braidftp = our_program(room.dir.path());
        braidftp.env("BRAIDFTP_USER", user).env("BRAIDFTP_PASSWORD", "secret").arg(command);
        match way {
            Way::Plain => braidftp.arg("--plain"),
            _ => braidftp.arg("--accept-new"),
        };
        braidftp
    };
    let listing = run(braidftp("ls").arg(&url))?;
    if !(listing.contains("one") && listing.contains("folder")) {
        return Err(format!("the listing is {listing}"));
    }
    let here = room.path("here");
    run(braidftp("get").args([format!("{url}{BIG}"), format!("{url}one")]).arg("-o").arg(&here))?;
    room.is_whole("here/big")?;
    run(braidftp("put").arg(room.path("here/up")).arg(format!("{url}in/")))?;
    room.is_whole("tree/in/up")?;
    // Interrupted in the middle, and repeated.
    let resumed = room.path("here/again");
    let mut slow = braidftp("get");
    slow.arg(format!("{url}{BIG}")).arg("-o").arg(&resumed).args(["--limit", "1MB", "-q"]);
    let mut running =
        Running(slow.stdin(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?);
    let begin = Instant::now();
    while has_bytes(&resumed) == 0 && running.ended().is_none() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Ctrl-C, which stores the received bytes for resuming.
    if let Some(pid) = rustix::process::Pid::from_raw(running.0.id() as i32) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
    while running.ended().is_none() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    let summary = run(braidftp("get").arg(format!("{url}{BIG}")).arg("-o").arg(&resumed).arg("--json"))?;
    room.is_whole("here/again/big")?;
    match summary.contains(r#""resumed":"#) {
        true => Ok(()),
        false => Err(format!("it was not resumed: {summary}")),
    }
}

/// The bytes of all files in a folder.
fn has_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The folder of the unpacked servers.
fn peers() -> PathBuf {
    std::env::var_os("BRAIDFTP_PEERS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"), PathBuf::from)
}

/// An unpacked program with its libraries, if it exists and we are root, which servers that change users
/// require.
fn unpacked(program: &str) -> Option<Command> {
    let path = peers().join(program);
    if !path.exists() || !rustix::process::geteuid().is_root() {
        return None;
    }
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", peers().join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH)));
    Some(command)
}

pub(super) fn vsftpd(room: &Room, way: Way, address: SocketAddr) -> Option<Command> {
    let mut vsftpd = unpacked("usr/sbin/vsftpd")?;
    let (tree, key) = (room.path("tree"), room.path("key.pem"));
    let empty = room.path("empty");
    fs::create_dir_all(&empty).unwrap();
    let listen = match address.ip() {
        IpAddr::V4(ip) => format!("listen=YES\nlisten_address={ip}\n"),
        IpAddr::V6(ip) => format!("listen=NO\nlisten_ipv6=YES\nlisten_address6={ip}\n"),
    };
    let tls = match way {
        Way::Plain => String::new(),
        _ => format!(
            "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_data_ssl=YES\nforce_anon_logins_ssl=YES\nrsa_cert_file={key}\n\
             ssl_ciphers=HIGH\nimplicit_ssl={}\n",
            if matches!(way, Way::Implicit(_)) { "YES" } else { "NO" },
            key = key.display(),
        ),
    };
    // `daemon` is on every Debian, with a home that exists. Every login is anonymous.
    let text = format!(
        "{listen}listen_port={}\nbackground=NO\nanonymous_enable=YES\nno_anon_password=YES\nanon_root={}\nsecure_chroot_dir={}\n\
         xferlog_enable=NO\nseccomp_sandbox=NO\nftp_username=daemon\nvsftpd_log_file=/dev/null\nwrite_enable=YES\n\
         anon_upload_enable=YES\nanon_other_write_enable=YES\nanon_mkdir_write_enable=YES\nanon_umask=022\n\
         anon_world_readable_only=NO\nallow_writeable_chroot=YES\n{tls}",
        address.port(),
        tree.display(),
        empty.display(),
    );
    let config = room.path("vsftpd.conf");
    fs::write(&config, text).unwrap();
    vsftpd.arg(&config);
    Some(vsftpd)
}

pub(super) fn proftpd(room: &Room, way: Way, address: SocketAddr) -> Option<Command> {
    let mut proftpd = unpacked("usr/sbin/proftpd")?;
    let modules = peers().join("usr/lib/proftpd");
    let here = room.dir.path().display();
    let tls = match way.version() {
        None => String::new(),
        Some(version) => format!(
            "LoadModule mod_tls.c\nTLSEngine on\nTLSRequired on\nTLSProtocol {}\nTLSECCertificateFile {here}/key.pem\n\
             TLSECCertificateKeyFile {here}/key.pem\n{}TLSLog {here}/tls.log\n",
            if version == Version::Tls12 { "TLSv1.2" } else { "TLSv1.3" },
            if matches!(way, Way::Implicit(_)) { "TLSOptions UseImplicitSSL\n" } else { "" },
        ),
    };
    let text = format!(
        "ServerType standalone\nServerName peer\nUseIPv6 on\nSocketBindTight on\nDefaultAddress {}\nPort {}\nUser nobody\nGroup nogroup\n\
         ScoreboardFile {here}/score\nPidFile {here}/pid\nDelayTable none\nWtmpLog off\nUseReverseDNS off\nUseFtpUsers off\n\
         AuthOrder mod_auth_unix.c\nModulePath {}\nAllowOverwrite on\nAllowStoreRestart on\nUmask 022\n{tls}\
         <Anonymous {here}/tree>\nUser nobody\nGroup nogroup\nUserAlias joe nobody\nRequireValidShell off\n\
         AnonRequirePassword off\n</Anonymous>\n",
        address.ip(),
        address.port(),
        modules.display(),
    );
    let config = room.path("proftpd.conf");
    fs::write(&config, text).unwrap();
    proftpd.args(["-n", "-c"]).arg(&config);
    Some(proftpd)
}

pub(super) fn pure_ftpd(room: &Room, way: Way, address: SocketAddr) -> Option<Command> {
    let (mut pure_ftpd, mut pure_pw) = (unpacked("usr/sbin/pure-ftpd")?, unpacked("usr/bin/pure-pw")?);
    let (users, db) = (room.path("users"), room.path("users.db"));
    pure_pw.args(["useradd", "joe", "-u", "nobody", "-g", "nogroup", "-d"]).arg(room.path("tree"));
    let mut child =
        pure_pw.arg("-f").arg(&users).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"secret\nsecret\n").unwrap();
    assert!(child.wait().unwrap().success());
    let mut pure_pw = unpacked("usr/bin/pure-pw")?;
    assert!(pure_pw.arg("mkdb").arg(&db).arg("-f").arg(&users).status().unwrap().success());
    pure_ftpd.args(["-S", &format!("{},{}", address.ip(), address.port()), "-E", "-H", "-u", "1"]);
    pure_ftpd.args(["-l", &format!("puredb:{}", db.display()), "-g"]).arg(room.path("pid"));
    if way != Way::Plain {
        // 3: the data connections as well.
        pure_ftpd.args(["-Y", "3", "-2"]).arg(room.path("key.pem"));
    }
    Some(pure_ftpd)
}

const PYFTPDLIB: &str = r#"
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
tree, host, port, way, key = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
handler = FTPHandler
if way != 'plain':
    from OpenSSL import SSL
    from pyftpdlib.handlers import TLS_FTPHandler as handler
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate_chain_file(key)
    context.use_privatekey_file(key)
    version = SSL.TLS1_2_VERSION if way.endswith('1.2') else SSL.TLS1_3_VERSION
    context.set_min_proto_version(version)
    context.set_max_proto_version(version)
    handler.certfile = key
    handler.ssl_context = context
    handler.tls_control_required = handler.tls_data_required = True
handler.authorizer = DummyAuthorizer()
handler.authorizer.add_user('joe', 'secret', tree, perm='elradfmwMT')
FTPServer((host, port), handler).serve_forever()
"#;

pub(super) fn pyftpdlib(room: &Room, way: Way, address: SocketAddr) -> Option<Command> {
    let mut python = python("pyftpdlib, OpenSSL")?;
    python.args(["-W", "ignore", "-c", PYFTPDLIB]).arg(room.path("tree"));
    python
        .args([address.ip().to_string(), address.port().to_string(), way.to_string()])
        .arg(room.path("key.pem"));
    Some(python)
}
