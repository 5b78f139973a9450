//! `cargo xtask bench idle`: the memory of a server with many idle sessions and some that transfer files, and
//! its response time.
//!
//! Sessions are unprotected FTP over TCP, over 127.0.0.1, with anonymous logins. The active sessions fetch a
//! large file repeatedly. NOOP is sent on one idle session after another, a few hundred times per second; the
//! time is measured from the last byte of the line to that of the reply. The server is a separate process,
//! and its memory is VmRSS of /proc. The active clients are threads of this process, so that they use as much
//! of the processors as the server does.
//!
//! With `--associations N` it measures the SCTP stack alone: a process that has accepted N associations of another one
//! (`crates/net/examples/idle.rs`), which send HEARTBEATs and nothing else.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::in_memory;
use crate::shell::{cargo, check, root, target};

const USAGE: &str = "usage: cargo xtask bench idle [--idle N] [--active N] [--seconds N] [--program FILE] [--quick]\n\
       or: cargo xtask bench idle --associations N [--seconds N]";

/// The limits of the server's memory, and of the time of a NOOP.
const MEMORY_TARGET_MB: u64 = 200;
const NOOP_TARGET_MS: f64 = 50.0;
/// The limits of an idle association's memory, and of the processor's share that all of them take.
const ASSOCIATION_TARGET_KB: f64 = 8.0;
const ASSOCIATIONS_TARGET_PERCENT: f64 = 1.0;
/// The seconds in which each association sends at least one HEARTBEAT.
const HEARTBEATS_SECONDS: u64 = 60;
/// The size in bytes of the file that the active sessions fetch.
const FILE_BYTES: usize = 64 << 20;
/// The pause between two NOOPs.
const PAUSE: Duration = Duration::from_millis(3);

struct Options {
    idle: usize,
    active: usize,
    seconds: u64,
    program: Option<PathBuf>,
    /// Measures this number of associations instead.
    associations: Option<usize>,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let mut options = Self { idle: 1_000, active: 100, seconds: 30, program: None, associations: None };
        let mut seconds = None;
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().context(USAGE);
            match arg.as_str() {
                "--idle" => options.idle = value()?.parse().context("--idle takes a number")?,
                "--active" => options.active = value()?.parse().context("--active takes a number")?,
                "--seconds" => seconds = Some(value()?.parse().context("--seconds takes a number")?),
                "--associations" => {
                    options.associations = Some(value()?.parse().context("--associations takes a number")?);
                    options.seconds = HEARTBEATS_SECONDS;
                }
                "--program" => options.program = Some(value()?.into()),
                "--quick" => (options.idle, options.active, options.seconds) = (100, 10, 5),
                _ => bail!("{USAGE}"),
            }
        }
        options.seconds = seconds.unwrap_or(options.seconds);
        if options.idle == 0 || options.seconds == 0 || options.associations == Some(0) {
            bail!("--idle, --seconds and --associations take a number from 1 on");
        }
        Ok(options)
    }
}

/// A server that is killed when this value is dropped, and its folder.
struct Served {
    server: Child,
    folder: PathBuf,
    port: u16,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Served {
    fn start(options: &Options) -> Result<Self> {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => {
                check(cargo().current_dir(root()).args(["build", "--release", "-p", "braidftp"]))?;
                target().join("release/braidftp")
            }
        };
        let place = in_memory().unwrap_or_else(std::env::temp_dir);
        let folder = place.join(format!("braidftp-idle-{}", std::process::id()));
        fs::create_dir_all(folder.join("served"))?;
        fs::write(folder.join("served/large"), vec![7; FILE_BYTES])?;
        let sessions = options.idle + options.active + 10;
        let config = folder.join("braidftp.toml");
        fs::write(
            &config,
            format!(
                "max-sessions = {sessions}\nmax-sessions-per-address = {sessions}\nidle-seconds = 3600\n"
            ),
        )?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Command::new(program)
            .arg("serve")
            .arg(folder.join("served"))
            .args(["--plain", "--listen", &format!("ftp://127.0.0.1:{port}"), "--config"])
            .arg(&config)
            .env("HOME", &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start braidftp serve")?;
        let served = Self { server, folder, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > Duration::from_secs(60) {
                bail!("nobody listens at port {port} after a minute");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(served)
    }

    fn rss_kb(&self) -> Result<u64> {
        rss_kb(&self.server)
    }

    fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(&self.server)
    }
}

/// The current memory of a process in kB.
fn rss_kb(process: &Child) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    line.split_whitespace().nth(1).context("no number")?.parse().context("VmRSS")
}

/// The CPU time that a process has used so far, in seconds.
fn cpu_seconds(process: &Child) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id()))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).context("stat");
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures a process that has accepted idle associations of another one.
fn associations(count: usize, seconds: u64) -> Result<()> {
    check(cargo().args(["build", "--release", "--package", "braidftp-net", "--example", "idle"]))?;
    let program = target().join("release/examples/idle");
    let start = |args: &[&str]| -> Result<(Running, BufReader<ChildStdout>)> {
        let mut command = Command::new(&program);
        let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().context("no output")?;
        Ok((Running(child), BufReader::new(said)))
    };
    let line = |said: &mut BufReader<ChildStdout>| -> Result<String> {
        let mut line = String::new();
        said.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    };
    let (server, mut said) = start(&["serve"])?;
    let address = line(&mut said)?;
    let before = rss_kb(&server.0)?;
    let begun = Instant::now();
    let (_client, mut said) = start(&["connect", &address, &count.to_string()])?;
    if line(&mut said)? != "up" {
        bail!("not all associations are up");
    }
    let opened = begun.elapsed().as_secs_f64();
    let with = rss_kb(&server.0)?;
    let (begun, cpu) = (Instant::now(), cpu_seconds(&server.0)?);
    std::thread::sleep(Duration::from_secs(seconds));
    let share = (cpu_seconds(&server.0)? - cpu) / begun.elapsed().as_secs_f64() * 100.0;
    let each = rss_kb(&server.0)?.max(with).saturating_sub(before) as f64 / count as f64;
    println!(
        "{count} idle associations, opened in {opened:.1} s, for {seconds} s:\n\
         memory of the server {:.1} MB at the start, {:.1} MB with them ({each:.2} kB each), its processor time {share:.2} %",
        before as f64 / 1e3,
        with as f64 / 1e3,
    );
    if each > ASSOCIATION_TARGET_KB || share > ASSOCIATIONS_TARGET_PERCENT {
        bail!("a target was missed: {ASSOCIATION_TARGET_KB} kB each, {ASSOCIATIONS_TARGET_PERCENT} %");
    }
    Ok(())
}

/// A logged-in session.
struct Session(BufReader<TcpStream>);

impl Session {
    fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut session = Self(BufReader::with_capacity(512, stream));
        session.reply()?;
        for line in ["USER anonymous", "PASS bench@", "TYPE I"] {
            session.say(line)?;
        }
        Ok(session)
    }

    fn say(&mut self, line: &str) -> Result<String> {
        self.0.get_ref().write_all(format!("{line}\r\n").as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> Result<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                bail!("the server ended a session");
            }
            if line.as_bytes().get(3) == Some(&b' ') {
                break;
            }
        }
        match line.as_bytes().first() {
            Some(b'1'..=b'3') => Ok(line),
            _ => bail!("the server refuses: {line}"),
        }
    }

    /// Fetches the large file until stopped.
    fn fetch(mut self, moved: &AtomicU64, stop: &AtomicBool) -> Result<()> {
        let mut buffer = vec![0; 64 << 10];
        while !stop.load(Ordering::Relaxed) {
            let passive = self.say("EPSV")?;
            let port = passive.rsplit("|||").next().and_then(|rest| rest.split('|').next());
            let port: u16 = port.context("no port")?.parse().context("the port of EPSV")?;
            let mut data = TcpStream::connect(("127.0.0.1", port))?;
            self.say("RETR large")?;
            loop {
                let read = data.read(&mut buffer)?;
                moved.fetch_add(read as u64, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if read == 0 {
                    break;
                }
            }
            self.reply()?;
        }
        Ok(())
    }
}

/// Runs the benchmark and prints the results.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::read(args)?;
    if let Some(count) = options.associations {
        return associations(count, options.seconds);
    }
    let served = Served::start(&options)?;
    let before = served.rss_kb()?;
    let mut idle = Vec::with_capacity(options.idle);
    for _ in 0..options.idle {
        idle.push(Session::open(served.port)?);
    }
    let with_idle = served.rss_kb()?;
    let (begun, cpu) = (Instant::now(), served.cpu_seconds()?);
    std::thread::sleep(Duration::from_secs(options.seconds.min(10)));
    let idle_cpu = (served.cpu_seconds()? - cpu) / begun.elapsed().as_secs_f64();
    let (moved, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut active = Vec::new();
    for _ in 0..options.active {
        let (session, moved, stop) = (Session::open(served.port)?, moved.clone(), stop.clone());
        active.push(std::thread::spawn(move || session.fetch(&moved, &stop)));
    }
    let (begun, mut times, mut most) = (Instant::now(), Vec::new(), 0);
    while begun.elapsed() < Duration::from_secs(options.seconds) {
        for session in &mut idle {
            let asked = Instant::now();
            session.say("NOOP")?;
            times.push(asked.elapsed().as_secs_f64() * 1e3);
            std::thread::sleep(PAUSE);
            if times.len() % 100 == 0 {
                most = most.max(served.rss_kb()?);
            }
            if begun.elapsed() >= Duration::from_secs(options.seconds) {
                break;
            }
        }
    }
    most = most.max(served.rss_kb()?);
    let rate = moved.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64() / 1e6;
    stop.store(true, Ordering::Relaxed);
    for thread in active {
        let _ = thread.join();
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{} idle sessions, {} that fetch, for {} s:\n\
         memory {:.1} MB at the start, {:.1} MB with the idle ones ({:.1} kB each), {:.1} MB at most\n\
         processor of the server while all are idle: {:.2} %\n\
         fetched {rate:.0} MB/s in all; NOOP, {} times: median {:.2} ms, p99 {:.2} ms, worst {:.2} ms",
        options.idle,
        options.active,
        options.seconds,
        before as f64 / 1e3,
        with_idle as f64 / 1e3,
        with_idle.saturating_sub(before) as f64 / options.idle as f64,
        most as f64 / 1e3,
        idle_cpu * 100.0,
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0),
    );
    if most / 1_000 > MEMORY_TARGET_MB || at(0.99) > NOOP_TARGET_MS {
        bail!("a target was missed: {MEMORY_TARGET_MB} MB, p99 {NOOP_TARGET_MS} ms");
    }
    Ok(())
}
