//! What a confined process can do: attempts by a process that confines itself, and by the same process
//! without confinement.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use braidftp::server::confine::{Confinement, Level, Network, Place, Report, Rights, confine};
use rustix::process::{Pid, Resource, Signal};

/// The prefix of a child's result.
const ANSWER: &str = "answer: ";
/// The result of a successful attempt.
const DONE: &str = "done";

/// Attempts something; returns the result.
type Attempt = fn(&World) -> std::io::Result<()>;

/// The attempts, and their results in confinement. Without it, all but the last few succeed.
const ATTEMPTS: &[(&str, Attempt, Outcome)] = &[
    ("read a file that is served", |world| read(&world.served("file")), Outcome::Done),
    ("list the folder that is served", |world| list(&world.served("")), Outcome::Done),
    ("write where files are only read", |world| write(&world.served("new")), Outcome::Refused),
    ("write where files are written", |world| write(&world.writable("new")), Outcome::Done),
    (
        "make a folder where files are written",
        |world| std::fs::create_dir(world.writable("d")),
        Outcome::Done,
    ),
    ("rename where files are written", rename, Outcome::Done),
    ("append to a log", |world| append(&world.logs("log")), Outcome::Done),
    ("read a log", |world| read(&world.logs("old")), Outcome::Refused),
    ("empty a log", |world| write(&world.logs("old")), Outcome::Refused),
    ("read a key", |world| read(&world.keys("key")), Outcome::Done),
    ("list the keys", |world| list(&world.keys("")), Outcome::Refused),
    ("read a file outside", |world| read(&world.outside("file")), Outcome::Refused),
    ("read a file outside by a thread", |world| by_thread(world.outside("file")), Outcome::Refused),
    ("read a file outside through a link", |world| read(&world.served("link")), Outcome::Refused),
    ("write a file outside", |world| write(&world.outside("new")), Outcome::Refused),
    ("read what the system knows", |_| read(Path::new("/etc/passwd")), Outcome::Refused),
    ("start a program", |_| Command::new("/bin/true").status().map(drop), Outcome::Refused),
    ("become a program", |_| Err(Command::new("/bin/true").exec()), Outcome::Killed),
    ("connect", |world| TcpStream::connect(("127.0.0.1", world.port)).map(drop), Outcome::Refused),
    ("listen at a port of the range", |world| listen(world.free), Outcome::Done),
    ("listen at another port", |world| listen(world.other), Outcome::Refused),
    ("open a UDP socket", |_| UdpSocket::bind("127.0.0.1:0").map(drop), Outcome::Refused),
    ("make memory executable", |_| executable(), Outcome::Refused),
    ("signal another process", |world| signal(world.parent), Outcome::Refused),
    (
        "start a thread",
        |_| std::thread::Builder::new().spawn(|| ())?.join().map_err(|_| panicked()),
        Outcome::Done,
    ),
    ("dump core", |_| may_dump(), Outcome::Refused),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused,
    /// The kernel ends the process.
    Killed,
}

/// The environment of an attempt.
struct World {
    folder: PathBuf,
    /// The port on which the parent listens.
    port: u16,
    /// A free port in the permitted range.
    free: u16,
    /// A free port outside the range.
    other: u16,
    parent: i32,
}

impl World {
    fn served(&self, name: &str) -> PathBuf {
        self.folder.join("served").join(name)
    }

    fn writable(&self, name: &str) -> PathBuf {
        self.folder.join("writable").join(name)
    }

    fn keys(&self, name: &str) -> PathBuf {
        self.folder.join("keys").join(name)
    }

    fn logs(&self, name: &str) -> PathBuf {
        self.folder.join("logs").join(name)
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.folder.join("outside").join(name)
    }

    fn confinement(&self, level: Level) -> Confinement {
        let place = |path, rights| Place { path, rights };
        Confinement {
            level,
            run_as: None,
            places: vec![
                place(self.served(""), Rights::Read),
                place(self.writable(""), Rights::ReadWrite),
                place(self.keys(""), Rights::ReadFiles),
                place(self.logs(""), Rights::Append),
            ],
            network: Network::Listen(Some(self.free..=self.free)),
        }
    }

    /// Encodes the environment as arguments of a child.
    fn arguments(&self) -> [String; 5] {
        let Self { folder, port, free, other, parent } = self;
        let folder = folder.to_str().unwrap().to_owned();
        [folder, port.to_string(), free.to_string(), other.to_string(), parent.to_string()]
    }

    fn of(arguments: &[String]) -> Self {
        let number = |at: usize| arguments[at].parse::<i32>().unwrap();
        let port = |at: usize| u16::try_from(number(at)).unwrap();
        Self {
            folder: PathBuf::from(&arguments[0]),
            port: port(1),
            free: port(2),
            other: port(3),
            parent: number(4),
        }
    }
}

fn read(path: &Path) -> std::io::Result<()> {
    std::fs::read(path).map(drop)
}

fn list(path: &Path) -> std::io::Result<()> {
    std::fs::read_dir(path).map(drop)
}

fn write(path: &Path) -> std::io::Result<()> {
    std::fs::write(path, "new")
}

fn rename(world: &World) -> std::io::Result<()> {
    write(&world.writable("a"))?;
    std::fs::create_dir_all(world.writable("below"))?;
    std::fs::rename(world.writable("a"), world.writable("below/b"))
}

fn append(path: &Path) -> std::io::Result<()> {
    std::fs::OpenOptions::new().append(true).create(true).open(path).map(drop)
}

fn by_thread(path: PathBuf) -> std::io::Result<()> {
    std::thread::spawn(move || read(&path)).join().map_err(|_| panicked())?
}

fn panicked() -> std::io::Error {
    std::io::Error::other("the thread panicked")
}

fn listen(port: u16) -> std::io::Result<()> {
    TcpListener::bind(("127.0.0.1", port)).map(drop)
}

fn executable() -> std::io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags};
    // SAFETY: the kernel chooses the address of the new memory, so nothing else is affected.
    let mapped = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            4096,
            ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC,
            MapFlags::PRIVATE,
        )
    };
    mapped.map(drop).map_err(Into::into)
}

fn signal(process: i32) -> std::io::Result<()> {
    let process = Pid::from_raw(process).ok_or(ErrorKind::NotFound)?;
    rustix::process::kill_process(process, Signal::CONT).map_err(Into::into)
}

fn may_dump() -> std::io::Result<()> {
    match rustix::process::getrlimit(Resource::Core).maximum {
        Some(0) => Err(ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    }
}

/// The process that makes an attempt, confined according to `level`.
fn child(arguments: &[String]) -> ExitCode {
    let level: Level = arguments[0].parse().unwrap();
    let attempt = ATTEMPTS[arguments[1].parse::<usize>().unwrap()].1;
    let world = World::of(&arguments[2..]);
    match confine(&world.confinement(level)) {
        Ok(_) => {}
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    }
    match attempt(&world) {
        Ok(()) => println!("{ANSWER}{DONE}"),
        Err(error) => println!("{ANSWER}{error}"),
    }
    ExitCode::SUCCESS
}

fn try_it(world: &World, level: Level, attempt: usize) -> (Outcome, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", &level.to_string(), &attempt.to_string()]).args(world.arguments());
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    if output.status.signal() == Some(Signal::SYS.as_raw()) {
        return (Outcome::Killed, "killed".into());
    }
    // A program that replaced the child prints nothing.
    let answer = said.lines().find_map(|line| line.strip_prefix(ANSWER)).unwrap_or(DONE);
    assert!(output.status.success(), "{said}");
    let outcome = if answer == DONE { Outcome::Done } else { Outcome::Refused };
    (outcome, answer.to_owned())
}

fn fresh(folder: &Path) {
    for name in ["served", "writable", "keys", "logs", "outside"] {
        let _ = std::fs::remove_dir_all(folder.join(name));
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    for name in ["served/file", "keys/key", "outside/file", "logs/old"] {
        std::fs::write(folder.join(name), "secret").unwrap();
    }
    std::os::unix::fs::symlink(folder.join("outside/file"), folder.join("served/link")).unwrap();
}

/// Two ports that are free.
fn free_ports() -> (u16, u16) {
    let both: Vec<TcpListener> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let port = |at: usize| both[at].local_addr().unwrap().port();
    (port(0), port(1))
}

/// Reports what this kernel lacks.
fn probe() -> ExitCode {
    let report: Report =
        confine(&Confinement { network: Network::Listen(None), ..Confinement::default() }).unwrap();
    report.missing.iter().for_each(|missing| println!("{missing}"));
    if report.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("child") => return child(&arguments[1..]),
        Some("probe") => return probe(),
        // Names of tests, or options of the usual test harness.
        _ => {}
    }
    let lacks = Command::new(std::env::current_exe().unwrap()).arg("probe").output().unwrap();
    if !lacks.status.success() {
        eprintln!(
            "SKIPPED, ALL OF IT: this kernel cannot confine: {}",
            String::from_utf8_lossy(&lacks.stdout)
        );
        return ExitCode::SUCCESS;
    }
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (free, other) = free_ports();
    let world = World {
        folder: folder.path().to_owned(),
        port: listener.local_addr().unwrap().port(),
        free,
        other,
        parent: i32::try_from(std::process::id()).unwrap(),
    };
    let mut wrong = 0;
    for (number, (what, _, expected)) in ATTEMPTS.iter().enumerate() {
        for (level, expected) in [(Level::Required, *expected), (Level::Off, Outcome::Done)] {
            fresh(folder.path());
            let (outcome, answer) = try_it(&world, level, number);
            let verdict = if outcome == expected { "ok" } else { "FAILED" };
            println!("test {what}, confinement {level}: {answer} ... {verdict}");
            wrong += u32::from(outcome != expected);
        }
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
