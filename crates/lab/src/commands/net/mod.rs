//! `braidlab net`: a client host and a server host on this machine, joined by emulated links, for any
//! program.
//!
//! `up` creates two network namespaces and starts a process that runs the links until `down`. The state of
//! a net is stored in its folder below /run/braidlab.

mod check;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use braidftp_emu::LinkConfig;
use braidftp_emu::named::{self, End, Name, PATHS_MAX};
use braidftp_emu::tun::TunConfig;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::link::{Direction, Signals, direction};
use super::print;
use crate::Failure;

/// Where the state of nets is stored.
const RUN: &str = "/run/braidlab";
/// The time limit for the link process to start and to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which counters are written.
const TICK: Duration = Duration::from_millis(500);

/// Two hosts on this machine joined by emulated links, for any program: network namespaces and TUN devices;
/// needs root.
///
/// Example:
///   sudo braidlab net up t1 --path rate=1mbit,delay=35ms,loss=0.03,queue=500kB
///   sudo braidlab net exec t1 server vsftpd &
///   sudo braidlab net exec t1 client ping 10.1.1.1
///   sudo braidlab net down t1
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create both hosts and the links between them
    Up(Up),
    /// Run a program on one of the hosts
    Exec(Exec),
    /// Print the nets that are up, or one net with its counters as JSON
    Show {
        /// The name of the net
        name: Option<Name>,
    },
    /// End all programs on both hosts, remove the net, and print the counters as JSON
    Down {
        /// The name of the net
        name: Name,
    },
    /// Measure delay (within 0.3 ms) and rate of nets with ping and iperf3, from 3 Mbit/s to 500 Mbit/s
    Check,
    /// Run the links of a net that `up` created
    #[command(hide = true)]
    Hold(Up),
}

#[derive(Debug, Clone, ClapArgs)]
struct Up {
    /// The name of the net
    name: Name,
    /// A path, as in rate=3mbit,delay=1ms,loss=0.03,queue=500kB; properties of the direction to the client
    /// follow a `/`, as in rate=8mbit,delay=20ms/rate=1mbit. On path N the server is 10.1.N.1, the client
    /// 10.1.N.2
    #[arg(long = "path", value_name = "LINK", required = true)]
    paths: Vec<String>,
    /// The seed of all random decisions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The MTU of all devices, in bytes
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    /// Write the packets at the client to pathN.pcapng in this folder
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
struct Exec {
    /// The name of the net
    name: Name,
    /// The host
    host: Side,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Side {
    Client,
    Server,
}

impl From<Side> for End {
    fn from(side: Side) -> Self {
        match side {
            Side::Client => Self::Client,
            Side::Server => Self::Server,
        }
    }
}

/// The stored state of a net.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// The process that runs its links.
    process: u32,
    paths: Vec<Path>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Path {
    client: String,
    server: String,
    device: String,
    forward: String,
    back: String,
}

#[derive(Serialize)]
struct Report {
    path: String,
    unsent: u64,
    late_mean_us: f64,
    late_max_us: f64,
    forward: Direction,
    back: Direction,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcap_error: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Verb::Up(up) => bring_up(up),
        Verb::Exec(exec) => execute(exec),
        Verb::Show { name: Some(name) } => show(name),
        Verb::Show { name: None } => print(&nets().into_iter().map(|name| name + "\n").collect::<String>()),
        Verb::Down { name } => take_down(name),
        Verb::Check => check::run(),
        Verb::Hold(up) => hold(up),
    }
}

fn bring_up(up: &Up) -> Result<(), Failure> {
    configs(up)?;
    if up.name.is_taken() || folder(&up.name).exists() {
        let what =
            if keeper(&up.name).is_some() { "already exists" } else { "is left over from a crashed run" };
        return Err(Failure::Usage(format!(
            "the net {0} {what}; use another name, or run `braidlab net down {0}` first",
            up.name
        )));
    }
    let made = make(up);
    if made.is_err() {
        // The first error is the one to report.
        let _ = clean(&up.name);
    }
    let state = made?;
    let line = |(n, path): (usize, &Path)| {
        format!(
            "path {}: client {} ({}), server {} ({})\n",
            n + 1,
            path.client,
            path.forward,
            path.server,
            path.back
        )
    };
    print(&state.paths.iter().enumerate().map(line).collect::<String>())
}

/// Creates both hosts and the link process.
fn make(up: &Up) -> Result<State, Failure> {
    named::create(&up.name).map_err(|error| Failure::Usage(error.to_string()))?;
    let file = |what: &str, error: std::io::Error| {
        Failure::File(format!("cannot {what} {}: {error}", folder(&up.name).display()))
    };
    fs::create_dir_all(folder(&up.name)).map_err(|error| file("make", error))?;
    let log = fs::File::create(folder(&up.name).join("log")).map_err(|error| file("write into", error))?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::File(format!("cannot find this program itself: {error}")))?;
    let mut keeper = Command::new(program)
        .args([
            "net",
            "hold",
            &up.name.to_string(),
            "--seed",
            &up.seed.to_string(),
            "--mtu",
            &up.mtu.to_string(),
        ])
        .args(up.paths.iter().flat_map(|path| ["--path", path]))
        .args(up.pcap.iter().flat_map(|folder| ["--pcap".as_ref(), folder.as_os_str()]))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::Usage(format!("cannot start the process that runs the links: {error}")))?;
    let started = Instant::now();
    loop {
        if let Some(state) = state(&up.name) {
            return Ok(state);
        }
        let ended = keeper.try_wait().ok().flatten().is_some();
        if ended || started.elapsed() > PATIENCE {
            let _ = keeper.kill();
            let said = fs::read_to_string(folder(&up.name).join("log")).unwrap_or_default();
            let said = said.trim().trim_start_matches("braidlab: ");
            let said = if said.is_empty() { "the links did not start" } else { said };
            return Err(Failure::Usage(said.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs the links until a signal.
fn hold(up: &Up) -> Result<(), Failure> {
    let configs = configs(up)?;
    let signals = Signals::new()?;
    let links = named::join(&up.name, &configs).map_err(|error| Failure::Usage(error.to_string()))?;
    let path = |(n, config): (usize, &TunConfig)| Path {
        client: named::address(n, End::Client).to_string(),
        server: named::address(n, End::Server).to_string(),
        device: named::device(n),
        forward: config.forward.to_string(),
        back: config.back.to_string(),
    };
    let paths = configs.iter().enumerate().map(path).collect();
    let count = || {
        let report = |((n, links), config): ((usize, &_), &TunConfig)| {
            let counters = braidftp_emu::tun::Links::counters(links);
            Report {
                path: named::device(n),
                unsent: counters.unsent,
                late_mean_us: counters.late.mean().as_nanos() as f64 / 1e3,
                late_max_us: counters.late.max.as_nanos() as f64 / 1e3,
                forward: direction(&config.forward, counters.forward),
                back: direction(&config.back, counters.back),
                pcap_error: counters.pcap_error,
            }
        };
        let reports: Vec<_> = links.iter().enumerate().zip(&configs).map(report).collect();
        write(&up.name, "counters", &reports)
    };
    count()?;
    write(&up.name, "state", &State { process: std::process::id(), paths })?;
    let mut signals = signals;
    while !signals.wait(Some(TICK)) {
        count()?;
    }
    count()
}

fn execute(exec: &Exec) -> Result<(), Failure> {
    require(&exec.name)?;
    let error = exec.name.command(exec.host.into(), &exec.command[0]).args(&exec.command[1..]).exec();
    Err(Failure::Usage(format!("cannot run `ip netns exec`: {error}")))
}

fn show(name: &Name) -> Result<(), Failure> {
    require(name)?;
    print(&fs::read_to_string(folder(name).join("counters")).unwrap_or_default())
}

fn take_down(name: &Name) -> Result<(), Failure> {
    if !name.is_taken() && !folder(name).exists() {
        return Err(unknown(name));
    }
    let counters = clean(name)?;
    print(&counters)
}

/// Ends the links and all programs, and removes the net. Returns the last counters.
fn clean(name: &Name) -> Result<String, Failure> {
    if let Some(process) = keeper(name) {
        signal(process, "-TERM");
        let started = Instant::now();
        while keeper(name).is_some() {
            if started.elapsed() > PATIENCE {
                signal(process, "-KILL");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    named::remove(name).map_err(|error| Failure::Usage(error.to_string()))?;
    let counters = fs::read_to_string(folder(name).join("counters")).unwrap_or_default();
    match fs::remove_dir_all(folder(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::File(format!("cannot remove {}: {error}", folder(name).display())))
        }
        _ => Ok(counters),
    }
}

fn configs(up: &Up) -> Result<Vec<TunConfig>, Failure> {
    if up.paths.len() > PATHS_MAX {
        return Err(Failure::Usage(format!("at most {PATHS_MAX} paths are possible")));
    }
    let config = |(n, text): (usize, &String)| {
        let (forward, differs) = text.split_once('/').unwrap_or((text, ""));
        let read = |link: &mut LinkConfig, text: &str| {
            link.apply_reading(text, &braidftp_emu::read_trace)
                .map_err(|error| Failure::Usage(format!("--path: {error}")))
        };
        let mut forward_link = LinkConfig::default();
        read(&mut forward_link, forward)?;
        let mut back = forward_link.clone();
        read(&mut back, differs)?;
        Ok(TunConfig {
            forward: forward_link,
            back,
            seed: up.seed,
            number: n as u32,
            mtu: up.mtu,
            pcap: up.pcap.as_ref().map(|folder| folder.join(format!("{}.pcapng", named::device(n)))),
        })
    };
    up.paths.iter().enumerate().map(config).collect()
}

fn folder(name: &Name) -> PathBuf {
    PathBuf::from(RUN).join(name.to_string())
}

fn state(name: &Name) -> Option<State> {
    serde_json::from_slice(&fs::read(folder(name).join("state")).ok()?).ok()
}

/// The process that runs the links of a net, if it exists.
fn keeper(name: &Name) -> Option<u32> {
    let process = state(name)?.process;
    let words = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let mut words = words.split(|byte| *byte == 0);
    // The process id may have been reused.
    (words.any(|word| word == b"hold") && words.any(|word| word == name.to_string().as_bytes()))
        .then_some(process)
}

fn signal(process: u32, signal: &str) {
    // This fails only if the process has ended.
    let _ = Command::new("kill").args([signal, &process.to_string()]).stderr(Stdio::null()).status();
}

fn nets() -> Vec<String> {
    let entries = fs::read_dir(RUN).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn require(name: &Name) -> Result<(), Failure> {
    if keeper(name).is_some() { Ok(()) } else { Err(unknown(name)) }
}

fn unknown(name: &Name) -> Failure {
    let up = nets();
    let up = if up.is_empty() { "no net is up".to_owned() } else { format!("up: {}", up.join(", ")) };
    Failure::Usage(format!("no net {name} is up ({up}); create it with `braidlab net up {name} --path ...`"))
}

/// Writes to a temporary file and renames it, so that readers never see a partial file.
fn write(name: &Name, what: &str, content: &impl Serialize) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::File(format!("cannot write into {}: {error}", folder(name).display()))
    };
    let mut text = serde_json::to_string(content).map_err(|error| Failure::File(error.to_string()))?;
    text.push('\n');
    let beside = folder(name).join(format!("{what}.new"));
    fs::write(&beside, text).map_err(failed)?;
    fs::rename(&beside, folder(name).join(what)).map_err(failed)
}
