//! Shared by the tests of the client: a tree of awkward names, servers in this process, and the program
//! itself.
#![allow(dead_code, reason = "each test program uses part of it")]

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime};

use braidftp::identity::{Files, ServerIdentity};
use braidftp::server::{Handle, Listen, Plain, Protection, Server, Settings};
use braidftp::store::fs::Root;
use braidftp::users::Access;
use braidftp_emu::{LinkConfig, Relay, RelayConfig, RelayHandle};
use tempfile::TempDir;

pub(crate) const MODES: [&str; 5] = ["tcp", "naive", "ms", "ms-cp", "braid"];

/// The folder with the servers' key, in which the programs find the key of their user's own server.
const KEYS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/client-keys");

/// A server in this process, on free loopback ports. It protects sessions on request.
pub(crate) struct Served {
    pub(crate) tcp: SocketAddr,
    pub(crate) udp: SocketAddr,
    handle: Handle,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Served {
    pub(crate) fn new(dir: &Path) -> Self {
        Self::at(dir, Access::ReadOnly, "127.0.0.1:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap())
    }

    pub(crate) fn writable(dir: &Path) -> Self {
        Self::at(dir, Access::Writable, "127.0.0.1:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap())
    }

    /// Starts at these addresses, as soon as they are free.
    pub(crate) fn at(dir: &Path, access: Access, tcp: SocketAddr, udp: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let start = Instant::now();
        let files = Files::one(Path::new(KEYS).join("braidftp").join(Files::NAME));
        let identity = Some(ServerIdentity::load_or_make(files, &[]).unwrap());
        let plain_associations = Plain::Allowed;
        let protection = Protection { identity, plain_associations, ..Protection::default() };
        let settings = Settings { protection, disk_reserve: Some(0), ..Settings::default() };
        let server = runtime.block_on(async {
            loop {
                let builder = Server::builder(Root::open(dir).unwrap()).access(access);
                let builder = builder.settings(settings.clone());
                match builder.listen(Listen::Tcp(tcp)).listen(Listen::SctpUdp(vec![udp])).bind() {
                    Ok(server) => break server,
                    Err(error) => assert!(start.elapsed() < Duration::from_secs(150), "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let (mut tcp, mut udp) = (tcp, udp);
        for place in server.local_addrs() {
            match place {
                Listen::Tcp(addr) => tcp = addr,
                Listen::SctpUdp(addrs) => udp = addrs[0],
                Listen::Tls(_) | Listen::SctpIp(..) => {}
            }
        }
        let handle = server.handle();
        runtime.spawn(server.run());
        Self { tcp, udp, handle, runtime: Some(runtime) }
    }

    pub(crate) fn url(&self, mode: &str) -> String {
        match mode {
            "tcp" => format!("ftp://{}/", self.tcp),
            _ => format!("ftp+sctp://{}/", self.udp),
        }
    }

    /// Lets the server end once its transfers are over, as SIGTERM does.
    pub(crate) fn drain(&self) {
        self.handle.stop();
    }

    /// Closes the sockets without any message.
    pub(crate) fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Creates a lossy link to the SCTP port.
    pub(crate) fn link(&self, properties: &str) -> RelayHandle {
        self.link_at("127.0.0.1:0".parse().unwrap(), properties)
    }

    /// The same, at this address.
    pub(crate) fn link_at(&self, address: SocketAddr, properties: &str) -> RelayHandle {
        let mut link = LinkConfig::default();
        link.apply(properties).unwrap();
        Relay::spawn(RelayConfig {
            forward: link.clone(),
            back: link,
            seed: 5,
            ..RelayConfig::new(address, self.udp)
        })
        .unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.abort();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The program with its own home folder; it knows the servers of these tests.
pub(crate) fn braidftp(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidftp"));
    command.env("HOME", home).env_remove("NETRC").env_remove("BRAIDFTP_USER").env_remove("BRAIDFTP_PASSWORD");
    command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME").env_remove("STATE_DIRECTORY");
    command.env("XDG_DATA_HOME", KEYS);
    command
}

/// Runs the program; returns exit code, standard output and standard error.
pub(crate) fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (
        status.code().unwrap_or(-1),
        String::from_utf8_lossy(&stdout).into(),
        String::from_utf8_lossy(&stderr).into(),
    )
}

/// `braidftp ARGS`.
pub(crate) fn cli(home: &Path, args: &[&str]) -> (i32, String, String) {
    run(braidftp(home).args(args))
}

/// A folder with `tree` and room for copies.
pub(crate) struct Room {
    dir: TempDir,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An existing, empty folder.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder("home")
    }
}

/// Awkward names, empty files, a deep folder, old times, links inside. `outside` has a link that leads out.
pub(crate) fn awkward_tree(root: &Path) {
    let write = |name: &[u8], content: &[u8]| {
        let path = root.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 + content.len() as u64, 123_456_789);
        fs::File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
    };
    write(b"empty", b"");
    write(b"one byte", b"1");
    write(" leading space".as_bytes(), b"x");
    write("trailing space ".as_bytes(), b"xy");
    write("größe/日本語.txt".as_bytes(), "ü".as_bytes());
    write(b"latin-\xe9/\xff\xfe", b"bytes");
    write(b"-rf", b"dash");
    write(b"a;b=c; d", b"facts");
    write(b"100% [x] {y} 'q' \"z\"", b"shell");
    write(b"tab\there", b"control");
    let deep = (1..=12).map(|n| format!("level {n}")).collect::<Vec<_>>().join("/");
    write(format!("{deep}/deepest").as_bytes(), b"down here");
    write(b"several packets", &pattern(70_000));
    write(b"several blocks", &pattern(900_001));
    for n in 0..30 {
        write(format!("many/{n:02}").as_bytes(), &pattern(n * 37));
    }
    fs::create_dir_all(root.join("empty folder")).unwrap();
    symlink("empty", root.join("link to a file")).unwrap();
    symlink("../many", root.join("empty folder/link to a folder")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
}

/// Bytes without short periods.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let mut state = length as u32 ^ 0x9e37_79b9;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

/// Fails if the trees differ.
pub(crate) fn assert_same(left: &Path, right: &Path) {
    let found = braidftp::demo::tree::differences(left, right, 10).unwrap();
    assert!(found.is_empty(), "{found:#?}");
}

/// The sorted names in a folder, including temporary files.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
