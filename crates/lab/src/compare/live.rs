//! A live run: two emulated hosts, a real server on one, a real client on the other. Measures the time that
//! the files take.
//!
//! The hosts are anonymous network namespaces, and every program ends with the thread that started it, so
//! the end of this process ends them all. Only files can be left over; the next run removes them.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use braidftp_emu::tun::{Host, Net, TunConfig};

use super::clock::Stopwatch;
use super::programs::{Ftp, Programs, bound, bound_with_children};
use super::{Carrier, Cell, FILES, Way};

/// The time limit for a server to listen.
const UP: Duration = Duration::from_secs(20);
/// The time-out of clients, longer than any silence of an emulated link.
const SILENT_SECONDS: u32 = 600;
/// The number of a program's last lines that are reported when it fails.
const WORDS: usize = 6;
/// Files are kept in memory if possible, so that no disk is part of the measurement.
const MEMORY: &str = "/dev/shm";
/// The name prefix of the folders of runs, followed by the process id.
const SCRATCH: &str = "braidlab-compare-";

/// The folder for the files of live runs; removed on drop.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    runs: AtomicU32,
    /// Held while the files of a size are written, which happens once.
    writing: Mutex<()>,
}

impl Scratch {
    /// Creates the folder, and removes those of processes that have ended.
    pub fn new() -> io::Result<Self> {
        let memory = Path::new(MEMORY);
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        for entry in fs::read_dir(&place)?.flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(SCRATCH));
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // Another process may be removing it as well.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = place.join(format!("{SCRATCH}{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        Ok(Self { folder, runs: AtomicU32::new(0), writing: Mutex::new(()) })
    }

    /// The path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a world-readable folder with files of these sizes.
    pub fn files(&self, sizes: &[u64]) -> io::Result<PathBuf> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
        let digest = &blake3::hash(&bytes).to_hex()[..16];
        let folder = self.folder.join(format!("files-{digest}"));
        if folder.is_dir() {
            return Ok(folder);
        }
        let growing = self.folder.join(format!("growing-{digest}"));
        fs::create_dir_all(&growing)?;
        for (number, size) in sizes.iter().enumerate() {
            let mut content = vec![0; *size as usize];
            let mut hasher = blake3::Hasher::new();
            hasher.update(&(number as u64).to_le_bytes());
            hasher.finalize_xof().fill(&mut content);
            let file = growing.join(name(number));
            fs::write(&file, &content)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        }
        fs::set_permissions(&growing, fs::Permissions::from_mode(0o755))?;
        fs::rename(growing, &folder)?;
        Ok(folder)
    }

    /// Creates a folder for a run.
    pub(crate) fn run(&self) -> io::Result<Folder> {
        let folder = self.folder.join(format!("run-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next process removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A folder that is removed on drop.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A name of the same length as in the simulator.
pub(crate) fn name(number: usize) -> String {
    format!("f{number:04}")
}

/// What all live runs share.
#[derive(Debug)]
pub struct Bench {
    /// The programs.
    pub programs: Programs,
    /// The lower layer of SCTP.
    pub carrier: Carrier,
    /// The folder for files.
    pub scratch: Scratch,
}

impl Bench {
    /// Runs a cell; returns seconds.
    pub fn run(&self, cell: &Cell, seed: u64, patience: Duration) -> Result<f64, String> {
        let folder = self.scratch.run().map_err(|error| format!("cannot make a folder: {error}"))?;
        let files = self
            .scratch
            .files(&[cell.size; FILES])
            .map_err(|error| format!("cannot write the files: {error}"))?;
        let (server, client) = if cell.way.is_sctp() {
            (self.braidftp_server(cell.way, &files), self.braidftp_client(cell.way, &folder.0))
        } else {
            let ftp = self.programs.ftp.as_ref().map_err(String::clone)?;
            let server = vsftpd(ftp, &folder.0, &files).map_err(|error| format!("vsftpd: {error}"))?;
            (server, lftp(ftp, &folder.0))
        };
        let overhead = if cell.way.is_sctp() { self.carrier.overhead_bytes() } else { 20 };
        let config = TunConfig {
            forward: cell.link(),
            back: cell.link(),
            seed,
            // SCTP packets are as long as in the papers, whatever the encapsulation.
            mtu: 1_480 + overhead as u16,
            ..TunConfig::default()
        };
        let net = Net::up(config).map_err(|error| error.to_string())?;
        if !cell.way.is_sctp() {
            tune(net.server(), cell.way, Net::SERVER)?;
            tune(net.client(), cell.way, Net::CLIENT)?;
        }
        let (ready, is_ready) = channel();
        let (stop, stopped) = channel::<()>();
        let way = cell.way;
        let is_up = if way.is_sctp() { IsUp::Says } else { IsUp::Listens(21) };
        let serving = net.server().spawn(move || serve(server, is_up, &ready, &stopped));
        is_ready.recv().unwrap_or_else(|_| Err("the server's thread ended unexpectedly".to_owned()))?;
        let time = net.client().run(move || timed(client, patience));
        drop(stop);
        serving.join();
        let time = time?;
        same_files(FILES, &files, &folder.0)?;
        Ok(time.as_secs_f64())
    }

    fn braidftp_server(&self, way: Way, files: &Path) -> Command {
        let url = self.url(Net::SERVER);
        let mut command = bound(&self.programs.braidftp);
        command.arg("serve").arg(files).args(["--plain", "--listen", &url, "--profile", way.sctp().name()]);
        command
    }

    fn braidftp_client(&self, way: Way, to: &Path) -> Command {
        let mut command = bound(&self.programs.braidftp);
        command.args([
            "get",
            "--plain",
            "--json",
            "-vv",
            "--mode",
            way.name(),
            "--profile",
            way.sctp().name(),
        ]);
        command.args(["--timeout", &SILENT_SECONDS.to_string(), "--output"]).arg(to);
        command.arg(format!("{}/*", self.url(Net::SERVER)));
        command
    }

    fn url(&self, address: Ipv4Addr) -> String {
        match self.carrier {
            Carrier::Udp => format!("ftp+sctp://{address}:9899"),
            Carrier::Ip => format!("ftp+sctp-ip://{address}:21"),
        }
    }
}

fn vsftpd(ftp: &Ftp, folder: &Path, files: &Path) -> io::Result<Command> {
    let empty = folder.join("empty");
    fs::create_dir(&empty)?;
    let config = folder.join("vsftpd.conf");
    // Every Debian system has a user `daemon` with a home folder.
    let mut text = format!(
        "listen=YES\nlisten_address={}\nlisten_port=21\nbackground=NO\nanonymous_enable=YES\nno_anon_password=YES\n\
         ftp_username=daemon\nnopriv_user=daemon\nanon_root={}\nsecure_chroot_dir={}\nconnect_from_port_20=YES\n\
         seccomp_sandbox=NO\nisolate=NO\nisolate_network=NO\nxferlog_enable=NO\nvsftpd_log_file=/dev/null\n",
        Net::SERVER,
        files.display(),
        empty.display()
    );
    for timeout in ["idle_session", "data_connection", "accept", "connect"] {
        let _ = writeln!(text, "{timeout}_timeout={SILENT_SECONDS}");
    }
    fs::write(&config, text)?;
    let mut command = bound_with_children(&ftp.vsftpd);
    command.arg(config);
    if let Some(libraries) = &ftp.libraries {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    Ok(command)
}

/// Active mode, one command at a time, and no queries besides the files, like the papers' client.
fn lftp(ftp: &Ftp, to: &Path) -> Command {
    let mut script = String::from(
        "debug 5; set ftp:ssl-allow no; set ftp:passive-mode off; set ftp:use-feat no; set ftp:use-size no; \
         set ftp:use-mdtm no; set ftp:sync-mode on; set cmd:interactive no; ",
    );
    let _ = write!(script, "set net:timeout {SILENT_SECONDS}; open -u anonymous,x ftp://{}; ", Net::SERVER);
    let _ = write!(script, "get -O {}", to.display());
    for number in 0..FILES {
        let _ = write!(script, " {}", name(number));
    }
    let mut command = bound(&ftp.lftp);
    command.env("HOME", to).args(["--norc", "-c", &script]);
    command
}

/// Configures kernel TCP on a host as closely to the simulated profile as possible.
fn tune(host: &Host, way: Way, address: Ipv4Addr) -> Result<(), String> {
    // The kernel's cached metrics of a destination are not part of either profile.
    let mut settings = vec![("tcp_no_metrics_save", "1")];
    // Set in the route: through `tcp_congestion_control` a namespace may only use what the host allows to
    // everyone.
    let route: &[&str] = if way == Way::Tcp {
        settings.extend([
            ("tcp_sack", "0"),
            ("tcp_dsack", "0"),
            ("tcp_recovery", "0"),
            ("tcp_early_retrans", "0"),
            ("tcp_frto", "0"),
        ]);
        // The profile's initial window, minimum RTO and receive window.
        &["congctl", "reno", "initcwnd", "4", "rto_min", "1s", "window", "57344"]
    } else {
        settings.push(("tcp_sack", "1"));
        &["congctl", "cubic"]
    };
    host.run(move || {
        for (name, value) in settings {
            let file = Path::new("/proc/sys/net/ipv4").join(name);
            fs::write(&file, value)
                .map_err(|error| format!("cannot write {value} to {}: {error}", file.display()))?;
        }
        let mut command = Command::new("ip");
        command.args(["route", "replace", Net::NETWORK, "dev", Net::DEVICE, "scope", "link"]);
        command.args(["src", &address.to_string()]).args(route);
        match command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!("ip route: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("cannot run `ip` (Debian: iproute2): {error}")),
        }
    })
}

/// Whether so many files of both folders are equal; if not, which one differs.
pub(crate) fn same_files(count: usize, sent: &Path, received: &Path) -> Result<(), String> {
    for number in 0..count {
        let read = |folder: &Path| {
            fs::read(folder.join(name(number))).map_err(|error| format!("{}: {error}", name(number)))
        };
        if read(sent)? != read(received)? {
            return Err(format!("{} was changed by the transfer", name(number)));
        }
    }
    Ok(())
}

/// How a server shows that clients may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IsUp {
    /// By a line that begins with `listening`.
    Says,
    /// By a socket on this port of TCP.
    Listens(u16),
    /// Not at all: nobody connects to it.
    AtOnce,
}

/// Runs a server until it is stopped. Reports when it listens.
pub(crate) fn serve(
    command: Command,
    is_up: IsUp,
    ready: &Sender<Result<(), String>>,
    stopped: &Receiver<()>,
) {
    let (_child, lines) = match spawn(command) {
        Ok(running) => running,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let started = Instant::now();
    let mut words = Vec::new();
    let up = loop {
        let line = lines.recv_timeout(Duration::from_millis(5));
        if let Ok((_, line)) = &line {
            words.push(line.clone());
        }
        let listens = match is_up {
            IsUp::Says => words.iter().any(|line| line.starts_with("listening ")),
            IsUp::Listens(port) => listens_on(port),
            IsUp::AtOnce => true,
        };
        if listens {
            break Ok(());
        }
        if line == Err(RecvTimeoutError::Disconnected) || started.elapsed() > UP {
            break Err(format!("the server did not start to listen: {}", last(&words)));
        }
    };
    // The receiver may have ended.
    let _ = ready.send(up);
    let _ = stopped.recv();
}

/// Whether a TCP socket listens on a port in this thread's namespace.
fn listens_on(port: u16) -> bool {
    let port = format!(":{port:04X}");
    let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
    tables.map(|table| fs::read_to_string(table).unwrap_or_default()).iter().flat_map(|it| it.lines()).any(
        |line| {
            let mut fields = line.split_ascii_whitespace();
            fields.nth(1).is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some("0A")
        },
    )
}

/// Runs a client until it ends. Returns how long the files took.
fn timed(command: Command, patience: Duration) -> Result<Duration, String> {
    let (watch, words) = fetch(command, FILES, patience)?;
    watch.time().ok_or_else(|| format!("the client did not fetch all files: {}", last(&words)))
}

/// Runs a client until it ends. Returns the times of its files, and its output.
pub(crate) fn fetch(
    command: Command,
    files: usize,
    patience: Duration,
) -> Result<(Stopwatch, Vec<String>), String> {
    let (mut child, lines) = spawn(command)?;
    let deadline = Instant::now() + patience;
    let (mut watch, mut words) = (Stopwatch::new(files), Vec::new());
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((at, line)) => {
                watch.on_line(at, &line);
                words.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("not done after {} s: {}", patience.as_secs(), last(&words)));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.0.wait().map_err(|error| format!("cannot wait for the client: {error}"))?;
    if !status.success() {
        return Err(format!("the client failed ({status}): {}", last(&words)));
    }
    Ok((watch, words))
}

pub(crate) fn last(words: &[String]) -> String {
    words[words.len().saturating_sub(WORDS)..].join(" | ")
}

/// A program that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program. Returns its output line by line, with arrival times. Both outputs share one pipe,
/// since the order of lines from two pipes would depend on thread scheduling.
fn spawn(mut command: Command) -> Result<(Running, Receiver<(Instant, String)>), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = || {
        let (output, input) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        let child = Running(command.spawn()?);
        // The command holds ends of the pipe, which must be closed when the program ends.
        drop(command);
        io::Result::Ok((child, output))
    };
    let (child, output) = started().map_err(|error| format!("cannot run {name}: {error}"))?;
    let (said, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if said.send((Instant::now(), line)).is_err() {
                break;
            }
        }
    });
    Ok((child, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_outputs_arrive_in_order() {
        let mut command = Command::new("sh");
        command.args(["-c", "for n in $(seq 50); do echo out $n; echo error $n >&2; done"]);
        let (_program, lines) = spawn(command).unwrap();
        let said: Vec<String> = lines.iter().map(|(_, line)| line).collect();
        let want: Vec<String> = (1..=50).flat_map(|n| [format!("out {n}"), format!("error {n}")]).collect();
        assert_eq!(said, want);
    }

    #[test]
    fn folders_of_ended_processes_are_removed_and_ours_is_removed_on_drop() {
        let Ok(scratch) = Scratch::new() else { return };
        // No process has such a large id.
        let left = scratch.folder().with_file_name(format!("{SCRATCH}{}", 1 << 30 | std::process::id()));
        fs::create_dir_all(left.join("run-0")).unwrap();
        let folder = scratch.folder().to_owned();
        let files = scratch.files(&[10; FILES]).unwrap();
        assert_eq!(fs::read_dir(&files).unwrap().count(), FILES);
        assert_eq!(fs::read(files.join(name(7))).unwrap().len(), 10);
        drop(scratch);
        assert!(!folder.exists());
        let again = Scratch::new().unwrap();
        assert!(!left.exists());
        drop(again);
    }

    #[test]
    fn a_failed_client_is_reported_with_its_last_lines() {
        let run = |script: &str, patience| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            timed(command, Duration::from_secs(patience))
        };
        assert!(run("echo no route >&2; exit 2", 60).unwrap_err().contains("no route"));
        assert!(run("echo fine", 60).unwrap_err().contains("did not fetch all files: fine"));
        assert!(run("exec sleep 1000", 0).unwrap_err().contains("not done after 0 s"));
        let all = format!("echo '> RETR f'; for i in $(seq {FILES}); do echo '{{\"event\":\"file\"}}'; done");
        assert!(run(&all, 60).is_ok());
    }
}
