//! A live run: two hosts of the emulator's, a real server on one, a real client on the other, and the time that the files
//! took.
//!
//! The hosts are network namespaces without a name, and every program is bound to the thread that starts it: whatever ends
//! this process ends them. What can be left behind are files; the next run removes them.

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

/// How long a server may take until it listens.
const UP: Duration = Duration::from_secs(20);
/// No emulated link is silent for so long without a reason.
const SILENT_SECONDS: u32 = 600;
/// Lines of what a program said, for when it fails.
const WORDS: usize = 6;
/// In memory, where there is such a place: no disk is part of what is measured.
const MEMORY: &str = "/dev/shm";
/// What folders of runs are called, before the number of their process.
const SCRATCH: &str = "braidlab-compare-";

/// Where live runs keep their files; removed with it.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    runs: AtomicU32,
    /// Held by who writes the files of a size, which is done once.
    writing: Mutex<()>,
}

impl Scratch {
    /// Makes one, and removes those of processes that are no more.
    pub fn new() -> io::Result<Self> {
        let memory = Path::new(MEMORY);
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        for entry in fs::read_dir(&place)?.flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(SCRATCH));
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // Another may be doing the same.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = place.join(format!("{SCRATCH}{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        Ok(Self { folder, runs: AtomicU32::new(0), writing: Mutex::new(()) })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A folder with the files of a size; anybody may read them.
    pub fn files(&self, size: u64) -> io::Result<PathBuf> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.folder.join(format!("files-{size}"));
        if folder.is_dir() {
            return Ok(folder);
        }
        let growing = self.folder.join(format!("growing-{size}"));
        fs::create_dir_all(&growing)?;
        for number in 0..FILES {
            let mut content = vec![0; size as usize];
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

    /// A folder of a run's own.
    fn run(&self) -> io::Result<Folder> {
        let folder = self.folder.join(format!("run-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next one removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A folder that is removed with this.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As long as the names in the simulator.
fn name(number: usize) -> String {
    format!("f{number:04}")
}

/// What live runs have in common.
#[derive(Debug)]
pub struct Bench {
    /// With what.
    pub programs: Programs,
    /// What carries SCTP.
    pub carrier: Carrier,
    /// Where files are.
    pub scratch: Scratch,
}

impl Bench {
    /// One run, in seconds.
    pub fn run(&self, cell: &Cell, seed: u64, patience: Duration) -> Result<f64, String> {
        let folder = self.scratch.run().map_err(|error| format!("cannot make a folder: {error}"))?;
        let files =
            self.scratch.files(cell.size).map_err(|error| format!("cannot write the files: {error}"))?;
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
            // SCTP's packets are as long as the papers', whatever is around them.
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
        let serving = net.server().spawn(move || serve(server, way, &ready, &stopped));
        is_ready.recv().unwrap_or_else(|_| Err("the server's thread ended early".to_owned()))?;
        let time = net.client().run(move || fetch(client, patience));
        drop(stop);
        serving.join();
        let time = time?;
        for number in 0..FILES {
            let read = |folder: &Path| {
                fs::read(folder.join(name(number))).map_err(|error| format!("{}: {error}", name(number)))
            };
            if read(&files)? != read(&folder.0)? {
                return Err(format!("{} is not what it was", name(number)));
            }
        }
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
    // `daemon` is on every Debian, with a home that exists.
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

/// In active mode and a command at a time, as the papers' client; nothing is asked for but the files.
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

/// The kernel's TCP on a host, as near to the simulated profile as it can be told to be.
fn tune(host: &Host, way: Way, address: Ipv4Addr) -> Result<(), String> {
    // What the kernel remembers of a destination is more than either profile does.
    let mut settings = vec![("tcp_no_metrics_save", "1")];
    // By the route, for by `tcp_congestion_control` a namespace may have only what the host allows to all.
    let route: &[&str] = if way == Way::Tcp {
        settings.extend([
            ("tcp_sack", "0"),
            ("tcp_dsack", "0"),
            ("tcp_recovery", "0"),
            ("tcp_early_retrans", "0"),
            ("tcp_frto", "0"),
        ]);
        // The profile's first window, least time-out and receive window.
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

/// Runs a server until it is told to stop. Says when it listens.
fn serve(command: Command, way: Way, ready: &Sender<Result<(), String>>, stopped: &Receiver<()>) {
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
        let listens = match way.is_sctp() {
            true => words.iter().any(|line| line.starts_with("listening ")),
            false => listens_on_ftp(),
        };
        if listens {
            break Ok(());
        }
        if line == Err(RecvTimeoutError::Disconnected) || started.elapsed() > UP {
            break Err(format!("the server does not listen: {}", last(&words)));
        }
    };
    // Whoever does not wait for it is gone.
    let _ = ready.send(up);
    let _ = stopped.recv();
}

/// Whether there is a TCP socket that listens on port 21 in this thread's namespace.
fn listens_on_ftp() -> bool {
    let sockets = fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
    sockets.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(":0015")) && fields.nth(1) == Some("0A")
    })
}

/// Runs a client to its end. Gives how long the files took.
fn fetch(command: Command, patience: Duration) -> Result<Duration, String> {
    let (mut child, lines) = spawn(command)?;
    let deadline = Instant::now() + patience;
    let (mut watch, mut words) = (Stopwatch::default(), Vec::new());
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
    watch.time().ok_or_else(|| format!("the client did not fetch all files: {}", last(&words)))
}

fn last(words: &[String]) -> String {
    words[words.len().saturating_sub(WORDS)..].join(" | ")
}

/// A program that does not outlive this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program. Gives what it says, line by line, with the time at which each came. Both of its outputs are one pipe: of two,
/// which came first would be a matter of which thread is woken first.
fn spawn(mut command: Command) -> Result<(Running, Receiver<(Instant, String)>), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = || {
        let (output, input) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        let child = Running(command.spawn()?);
        // It holds ends of the pipe, which is over when the program is.
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
    fn what_a_program_says_on_both_outputs_comes_in_the_order_in_which_it_was_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "for n in $(seq 50); do echo out $n; echo error $n >&2; done"]);
        let (_program, lines) = spawn(command).unwrap();
        let said: Vec<String> = lines.iter().map(|(_, line)| line).collect();
        let want: Vec<String> = (1..=50).flat_map(|n| [format!("out {n}"), format!("error {n}")]).collect();
        assert_eq!(said, want);
    }

    #[test]
    fn a_folder_of_a_process_that_is_gone_is_removed_and_ours_goes_with_us() {
        let Ok(scratch) = Scratch::new() else { return };
        // No process has a number that large.
        let left = scratch.folder().with_file_name(format!("{SCRATCH}{}", 1 << 30 | std::process::id()));
        fs::create_dir_all(left.join("run-0")).unwrap();
        let folder = scratch.folder().to_owned();
        let files = scratch.files(10).unwrap();
        assert_eq!(fs::read_dir(&files).unwrap().count(), FILES);
        assert_eq!(fs::read(files.join(name(7))).unwrap().len(), 10);
        drop(scratch);
        assert!(!folder.exists());
        let again = Scratch::new().unwrap();
        assert!(!left.exists());
        drop(again);
    }

    #[test]
    fn a_client_that_fails_is_told_by_its_last_words() {
        let run = |script: &str, patience| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            fetch(command, Duration::from_secs(patience))
        };
        assert!(run("echo no route >&2; exit 2", 60).unwrap_err().contains("no route"));
        assert!(run("echo fine", 60).unwrap_err().contains("did not fetch all files: fine"));
        assert!(run("exec sleep 1000", 0).unwrap_err().contains("not done after 0 s"));
        let all = format!("echo '> RETR f'; for i in $(seq {FILES}); do echo '{{\"event\":\"file\"}}'; done");
        assert!(run(&all, 60).is_ok());
    }
}
