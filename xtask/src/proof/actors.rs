//! The programs that a proof runs (server, link, client) and what they cost.

use std::fs::{self, File};
use std::io::BufRead;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell::{cargo, check, target};

/// The polling interval of a process, and so the resolution of its time: the shortest runs take 10 ms.
const LOOK: Duration = Duration::from_millis(1);

/// The time limit for a program to start, or to end when asked to.
const PATIENCE: Duration = Duration::from_secs(20);

/// The two released programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    braidftp: PathBuf,
    braidlab: PathBuf,
    examples: PathBuf,
}

impl Programs {
    /// Programs built before, in this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            braidftp: folder.join("braidftp"),
            braidlab: folder.join("braidlab"),
            examples: folder.join("examples"),
        }
    }

    /// Builds the programs.
    pub(crate) fn build() -> Result<Self> {
        check(cargo().args(["build", "--release", "--package", "braidftp", "--package", "braidftp-lab"]))?;
        check(cargo().args(["build", "--release", "--package", "braidftp-sim", "--example", "attack"]))?;
        check(cargo().args(["build", "--release", "--package", "braidftp-net", "--example", "hellos"]))?;
        Ok(Self::in_folder(&target().join("release")))
    }

    /// The `braidftp` program.
    pub(crate) fn path(&self) -> &Path {
        &self.braidftp
    }

    /// An example built with them.
    pub(crate) fn example(&self, name: &str) -> PathBuf {
        self.examples.join(name)
    }

    /// A `braidlab` command.
    pub(crate) fn braidlab(&self) -> Command {
        Command::new(&self.braidlab)
    }

    /// A `braidftp` command.
    pub(crate) fn braidftp(&self) -> Command {
        Command::new(&self.braidftp)
    }
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// The file of its standard output.
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts a program whose output goes to `NAME.out` and `NAME.err` in a folder.
    pub(crate) fn start(command: &mut Command, dir: &Path, name: &str) -> Result<Self> {
        let (stdout, stderr) = (dir.join(format!("{name}.out")), dir.join(format!("{name}.err")));
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, stdout, stderr })
    }

    /// The peak resident memory in bytes (VmHWM); `None` if the process has ended.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        self.status_bytes("VmHWM:")
    }

    /// The resident memory in bytes (VmRSS); `None` if the process has ended.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.status_bytes("VmRSS:")
    }

    fn status_bytes(&self, field: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }

    /// The number of open files; `None` if the process has ended.
    pub(crate) fn open_files(&self) -> Option<usize> {
        Some(fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok()?.count())
    }

    /// The process name known to the kernel; `None` if the process has ended.
    pub(crate) fn program_name(&self) -> Option<String> {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.child.id())).ok()?;
        Some(name.trim().to_owned())
    }

    /// The exit status, if the process has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) -> Result<()> {
        check(Command::new("kill").args(["-INT", &self.child.id().to_string()]))
    }

    /// Kills the process (SIGKILL).
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until the process ends, at most for `limit`. Returns its output and peak memory.
    pub(crate) fn finish(&mut self, limit: Duration) -> Result<Finished> {
        let start = Instant::now();
        let mut peak = None;
        let status = loop {
            peak = self.peak_memory().max(peak);
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if start.elapsed() > limit {
                self.kill()?;
                bail!(
                    "it did not end in {} s and was killed; the end of its stderr: {}",
                    limit.as_secs(),
                    self.stderr_tail()?
                );
            }
            sleep(LOOK);
        };
        let stdout = fs::read(&self.stdout)?;
        Ok(Finished { status, stdout, stderr: self.stderr_tail()?, peak_memory: peak.unwrap_or(0) })
    }

    /// Whether a line of its stdout or stderr begins with `beginning`.
    pub(crate) fn has_printed(&self, beginning: &str) -> Result<bool> {
        let text = [fs::read(&self.stdout)?, fs::read(&self.stderr)?].concat();
        Ok(String::from_utf8_lossy(&text).lines().any(|line| line.starts_with(beginning)))
    }

    /// The last lines of its stderr.
    pub(crate) fn stderr_tail(&self) -> Result<String> {
        let text = fs::read(&self.stderr)?;
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(8)..].join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of a finished program.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Its exit status.
    pub(crate) status: ExitStatus,
    /// Its complete standard output.
    pub(crate) stdout: Vec<u8>,
    /// The end of its stderr.
    pub(crate) stderr: String,
    /// The peak memory, in bytes.
    pub(crate) peak_memory: u64,
}

impl Finished {
    /// The exit code; -1 if a signal ended the program.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// The last line of the output of `--json`.
    pub(crate) fn summary(&self) -> Result<Value> {
        let last = self.stdout.lines().map_while(Result::ok).last().unwrap_or_default();
        let value: Value = serde_json::from_str(&last)
            .with_context(|| format!("the last line is not JSON: `{last}`; on stderr: {}", self.stderr))?;
        if value["event"] != "summary" {
            bail!("the last line is not the summary: {last}");
        }
        Ok(value)
    }
}

/// `braidftp serve` with one listener for each transport.
#[derive(Debug)]
pub(crate) struct Server {
    /// The process.
    pub(crate) running: Running,
    /// The address of FTP over TCP.
    pub(crate) tcp: SocketAddr,
    /// The address of SCTP in UDP.
    pub(crate) udp: SocketAddr,
}

impl Server {
    /// Starts a plain server on free ports and waits until it answers. Its output goes to `dir`.
    pub(crate) fn start(programs: &Programs, served: &Path, dir: &Path, more: &[&str]) -> Result<Self> {
        Self::start_at(programs, served, dir, more, None)
    }

    /// Starts a server that protects all its sessions, with a key that it makes in `dir`, on free ports.
    pub(crate) fn start_protected(
        programs: &Programs,
        served: &Path,
        dir: &Path,
        more: &[&str],
    ) -> Result<Self> {
        let mut command = programs.braidftp();
        command.arg("serve").arg(served).arg("--identity").arg(dir.join("keys")).args(more);
        Self::listen(command, dir, (free_tcp_port()?, free_udp_port()?))
    }

    /// Starts a server on these ports of TCP and UDP.
    pub(crate) fn start_at(
        programs: &Programs,
        served: &Path,
        dir: &Path,
        more: &[&str],
        ports: Option<(SocketAddr, SocketAddr)>,
    ) -> Result<Self> {
        let (tcp, udp) = match ports {
            Some(ports) => ports,
            None => (free_tcp_port()?, free_udp_port()?),
        };
        let mut command = programs.braidftp();
        command.arg("serve").arg(served).arg("--plain").args(more);
        Self::listen(command, dir, (tcp, udp))
    }

    /// Starts it with a listener for each transport.
    fn listen(mut command: Command, dir: &Path, (tcp, udp): (SocketAddr, SocketAddr)) -> Result<Self> {
        command.args(["--listen", &format!("ftp://{tcp}"), "--listen", &format!("ftp+sctp://{udp}")]);
        let mut running = Running::start(&mut command, dir, "server")?;
        let start = Instant::now();
        while TcpStream::connect(tcp).is_err() {
            if let Some(status) = running.ended()? {
                bail!("the server ended at once ({status}): {}", running.stderr_tail()?);
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "the server does not listen on {tcp} after {} s: {}",
                    PATIENCE.as_secs(),
                    running.stderr_tail()?
                );
            }
            sleep(LOOK);
        }
        Ok(Self { running, tcp, udp })
    }

    /// The URL of the server in a mode, optionally through a link.
    pub(crate) fn url(&self, mode: &str, link: Option<&Link>) -> String {
        match (mode, link) {
            ("tcp", None) => format!("ftp://{}/", self.tcp),
            ("tcp", Some(_)) => unreachable!("the link carries UDP, and callers leave tcp out"),
            (_, link) => format!("ftp+sctp://{}/", link.map_or(self.udp, |link| link.listen)),
        }
    }
}

/// The options of `braidlab link`.
#[derive(Debug, Clone)]
pub(crate) struct LinkOptions {
    /// `3mbit`.
    pub(crate) rate: &'static str,
    /// `1ms`, one way.
    pub(crate) delay: &'static str,
    /// The fraction of packets lost each way.
    pub(crate) loss: f64,
    /// The queue of the link.
    pub(crate) queue: &'static str,
    /// Further options as on the command line.
    pub(crate) more: Vec<&'static str>,
    /// The seed of the losses.
    pub(crate) seed: u64,
}

/// A `braidlab link` in front of a server.
#[derive(Debug)]
pub(crate) struct Link {
    running: Running,
    /// The address that clients send to.
    pub(crate) listen: SocketAddr,
}

impl Link {
    /// Starts a link. Its output goes to `dir`.
    pub(crate) fn start(
        programs: &Programs,
        to: SocketAddr,
        options: &LinkOptions,
        dir: &Path,
    ) -> Result<Self> {
        let listen = free_udp_port()?;
        let mut command = programs.braidlab();
        command.args(["link", "--listen", &listen.to_string(), "--to", &to.to_string()]);
        command.args(["--rate", options.rate, "--delay", options.delay, "--queue", options.queue]);
        command
            .args(["--loss", &options.loss.to_string(), "--seed", &options.seed.to_string()])
            .args(&options.more);
        let mut running = Running::start(&mut command, dir, "link")?;
        // UDP does not show listeners; the port is in use once the link is up.
        let start = Instant::now();
        while UdpSocket::bind(listen).is_ok() {
            if let Some(status) = running.ended()? {
                bail!("the link ended at once ({status}): {}", running.stderr_tail()?);
            }
            if start.elapsed() > PATIENCE {
                bail!("the link does not listen on {listen} after {} s", PATIENCE.as_secs());
            }
            sleep(LOOK);
        }
        Ok(Self { running, listen })
    }

    /// Stops the link and returns the counters that it prints.
    pub(crate) fn counters(mut self) -> Result<Value> {
        self.running.interrupt()?;
        let finished = self.running.finish(PATIENCE)?;
        let text = String::from_utf8_lossy(&finished.stdout).into_owned();
        serde_json::from_str(text.trim())
            .with_context(|| format!("the link's counters are not JSON: `{text}`"))
    }

    /// Kills the link: every path through it is dead.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.running.kill()
    }
}

/// `braidftp mirror URL DIR --plain --mode MODE --json`.
pub(crate) fn mirror(programs: &Programs, url: &str, copy: &Path, mode: &str) -> Command {
    let mut command = programs.braidftp();
    command.args(["mirror", url]).arg(copy).args(["--plain", "--mode", mode, "--json"]);
    command
}

/// A TCP port of this machine that is free at the moment.
pub(super) fn free_tcp_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A UDP port of this machine that is free at the moment.
fn free_udp_port() -> Result<SocketAddr> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?)
}
