//! Third-party clients with our server, and our client with third-party servers: plain and with TLS (RFC
//! 4217), over IPv4 and IPv6.
//!
//! `operations.rs` tries each operation without TLS. Each cell of the other tables lists, fetches, sends and resumes. A cell that fails is our error, unless `FAULTS`
//! of its side contains it with the sentence that the other program violates. `cargo xtask test interop-tls`
//! installs the programs and prints the tables. The row of a missing program is skipped with a message; with
//! `BRAIDFTP_REQUIRE_PEERS` that is an error.

mod clients;
mod filezilla;
mod operations;
mod servers;

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit of a program for one action; long, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// The file that is fetched, sent and resumed.
const BIG: &str = "folder/big";
const BIG_BYTES: usize = 3_000_000;

/// How a session is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    /// AUTH TLS.
    Explicit(Version),
    /// Implicit TLS.
    Implicit(Version),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Tls12,
    Tls13,
    /// Whichever version both sides agree on.
    Any,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version) = match self {
            Self::Plain => return f.pad("plain"),
            Self::Explicit(version) => ("explicit", version),
            Self::Implicit(version) => ("implicit", version),
        };
        let version = match version {
            Version::Tls12 => " 1.2",
            Version::Tls13 => " 1.3",
            Version::Any => "",
        };
        f.pad(&format!("{name}{version}"))
    }
}

impl Way {
    fn version(self) -> Option<Version> {
        match self {
            Self::Plain => None,
            Self::Explicit(version) | Self::Implicit(version) => Some(version),
        }
    }
}

/// The result of a cell: nothing, or the error.
type Outcome = Result<(), String>;

/// A fault of a third party: the program, the cells, and the violated sentence.
type Fault = (&'static str, fn(Way, IpAddr) -> bool, &'static str);

/// The cells of one side.
#[derive(Debug, Default)]
struct Table {
    cells: Vec<(String, Way, IpAddr, Outcome)>,
    left_out: Vec<String>,
}

const LOOPBACKS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

impl Table {
    fn add(&mut self, peer: &str, way: Way, ip: IpAddr, outcome: Outcome) {
        if let Err(why) = &outcome {
            println!("{peer} {way} {ip}: {why}");
        }
        self.cells.push((peer.to_owned(), way, ip, outcome));
    }

    fn leave_out(&mut self, peer: &str) {
        assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "{peer} is not there");
        self.left_out.push(peer.to_owned());
    }

    /// Adds the rows of another table.
    fn append(&mut self, other: Self) {
        self.cells.extend(other.cells);
        self.left_out.extend(other.left_out);
    }

    /// Runs the functions that make rows, one thread each, and keeps their order.
    fn of_rows<R: FnOnce() -> Self + Send>(rows: impl IntoIterator<Item = R>) -> Self {
        let mut table = Self::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = rows.into_iter().map(|row| scope.spawn(row)).collect();
            for thread in threads {
                table.append(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
        table
    }

    /// Prints the table; fails if a cell fails without a known fault, or a cell with a known fault succeeds.
    fn judge(self, title: &str, faults: &[Fault]) {
        println!("\n{title}");
        let mut wrong = Vec::new();
        let mut explained = Vec::new();
        let mut last = String::new();
        for (peer, way, ip, outcome) in &self.cells {
            let fault = faults.iter().find(|(whose, at, _)| whose == peer && at(*way, *ip));
            let shown = match (outcome, fault) {
                (Ok(()), None) => "good".into(),
                (Err(_), Some((_, _, sentence))) => {
                    if !explained.contains(sentence) {
                        explained.push(sentence);
                    }
                    format!("theirs: {sentence}")
                }
                (Ok(()), Some(_)) => {
                    wrong.push(format!("{peer} {way} {ip} holds, and stands among the faults"));
                    "good, and a fault".into()
                }
                (Err(why), None) => {
                    wrong.push(format!("{peer} {way} {ip}: {why}"));
                    "WRONG".into()
                }
            };
            let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            let name = if *peer == last { "" } else { peer };
            println!("  {name:<16} {way:<13} {family}  {shown}");
            last.clone_from(peer);
        }
        for peer in &self.left_out {
            println!("  {peer:<16} LEFT OUT: it is not there; cargo xtask test interop-tls installs it");
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// A folder that programs of other users may enter and write to, and a tree in it.
struct Room {
    dir: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let room = Self { dir };
        for folder in ["", "tree", "tree/folder", "tree/in", "here"] {
            let path = room.path(folder);
            fs::create_dir_all(&path).unwrap();
            // Servers refuse a folder that everybody may change.
            let mode = if folder == "tree/in" { 0o777 } else { 0o755 };
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        fs::write(room.path("tree/one"), "1").unwrap();
        fs::write(room.path("tree").join(BIG), pattern()).unwrap();
        fs::write(room.path("here/up"), pattern()).unwrap();
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the first bytes of the big file, like an interrupted transfer.
    fn partial(&self, name: &str) {
        fs::write(self.path(name), &pattern()[..BIG_BYTES / 3]).unwrap();
    }

    /// Checks that this file has all bytes of the big one.
    fn is_whole(&self, name: &str) -> Outcome {
        match fs::read(self.path(name)) {
            Ok(bytes) if bytes == pattern() => Ok(()),
            Ok(bytes) => Err(format!("{name} has {} other bytes", bytes.len())),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }
}

fn pattern() -> &'static [u8] {
    static PATTERN: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..BIG_BYTES).map(|place| (place * 31 + place / 256) as u8).collect());
    &PATTERN
}

/// Runs a program to its end; returns its standard output.
fn run(command: &mut Command) -> Result<String, String> {
    let mut said = tempfile::tempfile().unwrap();
    let mut errors = tempfile::tempfile().unwrap();
    let to = |file: &File| Stdio::from(file.try_clone().unwrap());
    let child = command.stdin(Stdio::null()).stdout(to(&said)).stderr(to(&errors)).spawn();
    let mut running =
        Running(child.map_err(|error| format!("{}: {error}", command.get_program().display()))?);
    let begin = Instant::now();
    let status = loop {
        match running.0.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                return Err(format!("no end; it said {}", text(&mut errors)));
            }
            None => sleep(Duration::from_millis(10)),
        }
    };
    match status.success() {
        true => Ok(text(&mut said)),
        false => Err(format!("{status}: {} {}", text(&mut said), text(&mut errors))),
    }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn our_program(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidftp"));
    command
        .env("HOME", home)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_DATA_HOME")
        .env_remove("STATE_DIRECTORY");
    command
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }
}

/// Whether a program is installed.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// The system's Python with these modules; another Python on the PATH may lack them.
fn python(modules: &str) -> Option<Command> {
    let mut command = Command::new("/usr/bin/python3");
    let has = command.args(["-c", &format!("import {modules}")]).output();
    has.is_ok_and(|output| output.status.success()).then(|| Command::new("/usr/bin/python3"))
}

/// An address in the notation of URLs.
fn at(address: SocketAddr) -> String {
    address.to_string()
}
