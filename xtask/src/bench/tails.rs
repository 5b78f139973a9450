//! `cargo xtask bench tails`: the tail of transfer times of short jobs over lossy links, for braid, `curl
//! --parallel` over HTTP/2 (nginx) and rsync's daemon, the latter two over the kernel's BBR.
//!
//! Each run has its own net (`braidlab net`: network namespaces and emulated links; root). In a cell the
//! links of all programs have the same seed in the same run. HTTP/2 runs over TLS 1.3, which costs a round
//! trip that braid and rsync do not have, because `curl --parallel` of Debian 12 (7.88.1) fails in clear text
//! (h2c, exit code 16). Slow links run many at a time, fast ones few, so that the machine stays idle enough to be
//! no part of the times, and files are in memory; all cells with 60 seeds take about an hour. A time is that from the
//! client's start to its exit, divided by `payload × 1480/1424 / (rate (1 − loss)) + 1 RTT`. A failed run counts as
//! infinitely long in the quantiles.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::in_memory;
use crate::peers::{Proof, install};
use crate::shell::{capture, root};
use crate::tree::{Kind, Shape, make};

const USAGE: &str = "usage: cargo xtask bench tails [--seeds N] [--seed FIRST] [--cells TEXT,...] [--jobs N] [--programs DIR]\n\
    a cell is called like `10kB 10% 3mbit`; TEXT picks those whose name contains it\n\
    --jobs: the most runs at once; without it, as many as a cell's links allow\n\
    --seed: the first seed, which is drawn anew without it";

const FILES: usize = 100;
const SEEDS: u64 = 60;
/// The least and the most concurrent runs.
const JOBS: (usize, usize) = (4, 64);
/// The most bits per second of all concurrent links: a few percent of a core.
const CONCURRENT_BITS_PER_SECOND: f64 = 24e6;
/// The most runs that start per second: each makes network namespaces and starts several programs.
const STARTS_PER_SECOND: f64 = 1.5;
/// The shortest time limit of a run.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time limit of a longer run, as a multiple of its minimum time.
const PATIENCE_FACTOR: f64 = 4.0;
/// The time limit for a server to listen.
const START: Duration = Duration::from_secs(20);
/// The polling interval of a client: the resolution of the times.
const POLL: Duration = Duration::from_millis(2);

const PACKAGES: &[(Proof, &str)] = &[
    (Proof::File("/usr/sbin/nginx"), "nginx-light"),
    (Proof::Program("curl"), "curl"),
    (Proof::Program("openssl"), "openssl"),
    (Proof::Program("rsync"), "rsync"),
    (Proof::Program("ip"), "iproute2"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Braid,
    Curl,
    Rsync,
}

impl Program {
    const ALL: [Self; 3] = [Self::Braid, Self::Curl, Self::Rsync];

    fn name(self) -> &'static str {
        match self {
            Self::Braid => "braid",
            Self::Curl => "curl, HTTP/2, BBR",
            Self::Rsync => "rsync, BBR",
        }
    }

    /// The server's port, and the table of /proc/net that shows that it listens.
    fn port(self) -> (u16, &'static str) {
        match self {
            Self::Braid => (9899, "udp"),
            Self::Curl => (8080, "tcp"),
            Self::Rsync => (8730, "tcp"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Link {
    name: &'static str,
    bits_per_second: f64,
    delay_ms: u32,
}

const LINKS: [Link; 3] = [
    Link { name: "3mbit", bits_per_second: 3e6, delay_ms: 1 },
    Link { name: "1mbit", bits_per_second: 1e6, delay_ms: 35 },
    Link { name: "256kbit", bits_per_second: 256e3, delay_ms: 125 },
];

#[derive(Debug, Clone, Copy)]
struct Cell {
    link: Link,
    file_bytes: u64,
    loss_percent: u32,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for link in LINKS {
            for file_bytes in [10_000, 50_000] {
                for loss_percent in [3, 10] {
                    cells.push(Self { link, file_bytes, loss_percent });
                }
            }
        }
        cells
    }

    fn name(&self) -> String {
        format!("{}kB {}% {}", self.file_bytes / 1000, self.loss_percent, self.link.name)
    }

    fn path(&self, loss_percent: u32) -> String {
        let Link { name, delay_ms, .. } = self.link;
        format!("rate={name},delay={delay_ms}ms,loss={},queue=500kB", f64::from(loss_percent) / 100.0)
    }

    /// The minimum time of a job at this loss rate, in seconds.
    fn limit(&self, loss_percent: u32) -> f64 {
        let payload = (FILES as u64 * self.file_bytes * 8) as f64;
        let rate = self.link.bits_per_second * (1.0 - f64::from(loss_percent) / 100.0);
        payload * 1480.0 / 1424.0 / rate + 2.0 * f64::from(self.link.delay_ms) / 1000.0
    }

    /// The number of concurrent runs.
    fn jobs(&self, most: usize) -> usize {
        let by_rate = CONCURRENT_BITS_PER_SECOND / self.link.bits_per_second;
        let by_starts = STARTS_PER_SECOND * self.limit(self.loss_percent);
        (by_rate.min(by_starts) as usize).max(JOBS.0).min(most)
    }

    /// The time that a cell takes, in seconds: its runs in rounds of as many as run at once, each 15 % longer than its
    /// limit, and the runs without loss.
    fn expected(&self, seeds: u64, most: usize) -> f64 {
        let rounds = (seeds * Program::ALL.len() as u64).div_ceil(self.jobs(most) as u64);
        1.15 * (self.limit(self.loss_percent) * rounds as f64 + self.limit(0))
    }

    fn patience(&self) -> Duration {
        PATIENCE.max(Duration::from_secs_f64(PATIENCE_FACTOR * self.limit(self.loss_percent)))
    }
}

struct Options {
    seeds: u64,
    first: u64,
    cells: Vec<Cell>,
    jobs: usize,
    programs: Option<PathBuf>,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let drawn = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 % 1_000_000_000;
        let mut options =
            Self { seeds: SEEDS, first: drawn, cells: Cell::all(), jobs: JOBS.1, programs: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().context(USAGE);
            match arg.as_str() {
                "--seeds" => options.seeds = value()?.parse().context("--seeds takes a number")?,
                "--seed" => options.first = value()?.parse().context("--seed takes a number")?,
                "--jobs" => options.jobs = value()?.parse().context("--jobs takes a number")?,
                "--programs" => options.programs = Some(std::path::absolute(value()?)?),
                "--cells" => {
                    let wanted = value()?;
                    options.cells.retain(|cell| wanted.split(',').any(|text| cell.name().contains(text)));
                }
                _ => bail!("{USAGE}"),
            }
        }
        if options.cells.is_empty() || options.seeds == 0 || options.jobs == 0 {
            bail!("no cell, no seed or no job is left\n{USAGE}");
        }
        Ok(options)
    }
}

/// Runs all cells and prints a table and a verdict for each.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::read(args)?;
    install(PACKAGES).context(
        "nginx, curl, rsync and ip are needed: as root, `apt-get install nginx-light curl rsync iproute2`",
    )?;
    let bench = Bench::new(&options)?;
    bench.versions()?;
    let minutes = |cells: &[Cell]| {
        cells.iter().map(|cell| cell.expected(options.seeds, options.jobs)).sum::<f64>() / 60.0
    };
    println!(
        "first seed {}, {} seeds, HTTP/2 over TLS 1.3; {} cells, expected to take about {:.0} minutes in all (--cells TEXT \
         runs some of them)",
        options.first,
        options.seeds,
        options.cells.len(),
        minutes(&options.cells)
    );
    let mut missed = Vec::new();
    for cell in &options.cells {
        if let Some(verdict) = bench.cell(cell, &options)? {
            missed.push(format!("{}: {verdict}", cell.name()));
        }
    }
    if !missed.is_empty() {
        bail!("braid is slower than the better peer: {}", missed.join("; "));
    }
    Ok(())
}

/// The result of a run: its time as a multiple of the limit, or why it failed.
type Outcome = std::result::Result<f64, String>;

struct Bench {
    braidftp: PathBuf,
    braidlab: PathBuf,
    dir: PathBuf,
    nets: Vec<String>,
    _guard: Guard,
}

/// A shell that removes the nets and the files as soon as its standard input is closed: when this program
/// ends, by Ctrl-C or a kill too. It has its own process group, which Ctrl-C does not reach.
struct Guard(Child, Option<ChildStdin>);

impl Guard {
    fn new(braidlab: &Path, dir: &Path, nets: &[String]) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        // A `net up` interrupted by Ctrl-C ends within a second.
        let script = "trap '' INT TERM HUP; lab=$1; dir=$2; shift 2; cat >/dev/null; sleep 1; \
            for net; do \"$lab\" net down \"$net\"; done; rm -rf \"$dir\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(braidlab).arg(dir).args(nets).process_group(0);
        let mut shell = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run sh")?;
        let input = shell.stdin.take();
        Ok(Self(shell, input))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.1 = None;
        let _ = self.0.wait();
    }
}

/// A running net; dropping it also ends its programs.
struct Net<'a> {
    bench: &'a Bench,
    name: &'a str,
}

impl Drop for Net<'_> {
    fn drop(&mut self) {
        let _ = Command::new(&self.bench.braidlab).args(["net", "down", self.name]).output();
    }
}

/// A process that is killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run: a program and a seed.
#[derive(Debug, Clone, Copy)]
struct Task {
    program: Program,
    seed: u64,
    loss_percent: u32,
}

impl Bench {
    fn new(options: &Options) -> Result<Self> {
        let folder = super::released(options.programs.clone())?;
        let (braidftp, braidlab) = (folder.join("braidftp"), folder.join("braidlab"));
        let process = std::process::id();
        // braid syncs files, its peers do not.
        let dir = in_memory().unwrap_or_else(|| root().join("target")).join(format!("bench-tails-{process}"));
        let jobs = options.cells.iter().map(|cell| cell.jobs(options.jobs)).max().unwrap_or(0);
        let nets: Vec<_> = (0..jobs).map(|job| format!("t{process}-{job}")).collect();
        let guard = Guard::new(&braidlab, &dir, &nets)?;
        fs::create_dir_all(&dir)?;
        // The module may be built in, or modprobe may be missing; setting the controller shows whether it is
        // available.
        let _ = Command::new("modprobe").arg("tcp_bbr").output();
        Ok(Self { braidftp, braidlab, dir, nets, _guard: guard })
    }

    fn versions(&self) -> Result<()> {
        let first = |program: &Path, option: &str| -> Result<String> {
            let said = Command::new(program)
                .arg(option)
                .output()
                .with_context(|| format!("cannot run {}", program.display()))?;
            let said = [said.stdout, said.stderr].concat();
            Ok(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned())
        };
        println!("{}", first(&self.braidftp, "--version")?);
        println!("{}", first(Path::new("/usr/sbin/nginx"), "-v")?);
        println!("{}", first(Path::new("curl"), "--version")?);
        println!("{}", first(Path::new("rsync"), "--version")?);
        println!("{}", first(Path::new("uname"), "-sr")?);
        Ok(())
    }

    /// Runs one cell. Returns the quantiles at which braid is slower.
    fn cell(&self, cell: &Cell, options: &Options) -> Result<Option<String>> {
        let tree = self.dir.join("tree");
        let _ = fs::remove_dir_all(&tree);
        make(&tree, &Shape { files: FILES, seed: 1, big: 0, kind: Kind::Plain { size: cell.file_bytes } })?;
        let task = |program, seed, loss_percent| Task { program, seed, loss_percent };
        let clean = Program::ALL.map(|program| task(program, options.first, 0));
        println!(
            "\n{}: {FILES} files, {} each way; {} runs at once, about {:.0} minutes",
            cell.name(),
            cell.path(cell.loss_percent),
            cell.jobs(options.jobs),
            (cell.expected(options.seeds, options.jobs) / 60.0).max(1.0)
        );
        let outcomes = self.all(cell, &tree, &clean, options.jobs)?;
        for (task, outcome) in clean.iter().zip(&outcomes) {
            match outcome {
                Ok(ratio) => println!("without loss: {} {ratio:.3} of the limit", task.program.name()),
                Err(why) => bail!("{} fails even without loss: {why}", task.program.name()),
            }
        }
        let mut tasks = Vec::new();
        for seed in 0..options.seeds {
            let seed = options.first.wrapping_add(seed);
            tasks.extend(Program::ALL.map(|program| task(program, seed, cell.loss_percent)));
        }
        let outcomes = self.all(cell, &tree, &tasks, options.jobs)?;
        println!("| program | median | p90 | p95 | p99 | worst | its seed | failures |");
        println!("|---|---|---|---|---|---|---|---|");
        let tails: Vec<_> = Program::ALL
            .iter()
            .map(|program| {
                let own = tasks.iter().zip(&outcomes).filter(|(task, _)| task.program == *program);
                let tail = Tail::of(own.map(|(task, outcome)| (task.seed, outcome)));
                println!("| {} | {tail} |", program.name());
                tail
            })
            .collect();
        let missed = missed(&tails[0], &tails[1..]);
        println!("verdict: {}", missed.as_deref().unwrap_or("braid is no slower than the better peer"));
        Ok(missed)
    }

    /// Runs all tasks, as many at once as the cell allows, and at most `most`.
    fn all(&self, cell: &Cell, tree: &Path, tasks: &[Task], most: usize) -> Result<Vec<Outcome>> {
        let next = AtomicUsize::new(0);
        let done: Mutex<BTreeMap<usize, Result<Outcome>>> = Mutex::default();
        std::thread::scope(|scope| {
            for net in &self.nets[..cell.jobs(most)] {
                let (next, done) = (&next, &done);
                scope.spawn(move || {
                    while let Some((n, task)) =
                        Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, tasks.get(n)?)))
                    {
                        let outcome = self.one(cell, tree, task, net);
                        let failed = outcome.is_err();
                        let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        done.insert(n, outcome);
                        if done.len() % 30 == 0 {
                            eprintln!("{}: {} of {} runs", cell.name(), done.len(), tasks.len());
                        }
                        if failed {
                            next.store(tasks.len(), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
    }

    fn one(&self, cell: &Cell, tree: &Path, task: &Task, name: &str) -> Result<Outcome> {
        let path = cell.path(task.loss_percent);
        let seed = task.seed.to_string();
        let mut up = Command::new(&self.braidlab);
        capture(up.args(["net", "up", name, "--seed", &seed, "--path", &path]))
            .context("this requires root and network namespaces")?;
        let net = Net { bench: self, name };
        for host in ["client", "server"] {
            let bbr = "echo bbr > /proc/sys/net/ipv4/tcp_congestion_control";
            capture(net.on(host, "sh").args(["-c", bbr]))
                .context("the kernel has no BBR; `modprobe tcp_bbr` loads it where there is one")?;
        }
        let dir = self.dir.join(name);
        let _ = fs::remove_dir_all(&dir);
        let copy = dir.join("copy");
        fs::create_dir_all(&copy)?;
        let server = net.serve(task.program, tree, &dir)?;
        let mut client = net.client(task.program, tree, &dir)?;
        let log = fs::File::create(dir.join("client.log"))?;
        client.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let began = Instant::now();
        let mut client = Process(client.spawn()?);
        let status = loop {
            if let Some(status) = client.0.try_wait()? {
                break status;
            }
            if began.elapsed() > cell.patience() {
                return Ok(Err(format!("over {:.0} s", cell.patience().as_secs_f64())));
            }
            std::thread::sleep(POLL);
        };
        let seconds = began.elapsed().as_secs_f64();
        drop(server);
        Ok(match status.code() {
            Some(0) if same(tree, &copy)? => Ok(seconds / cell.limit(task.loss_percent)),
            Some(0) => Err("exit code 0, but the copy differs".to_owned()),
            Some(code) => Err(format!("exit code {code}")),
            None => Err(status.to_string()),
        })
    }
}

impl Net<'_> {
    fn on(&self, host: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(&self.bench.braidlab);
        command.args(["net", "exec", self.name, host]).arg(program);
        command
    }

    /// Starts a server and waits until it listens.
    fn serve(&self, program: Program, tree: &Path, dir: &Path) -> Result<Process> {
        let (port, table) = program.port();
        let config = dir.join("server.conf");
        let (tree, home) = (tree.display(), dir.display());
        let mut command = match program {
            Program::Braid => {
                let mut command = self.on("server", &self.bench.braidftp);
                command.arg("serve").arg(tree.to_string());
                command.args(["--plain", "--listen", &format!("ftp+sctp://10.1.1.1:{port}/")]);
                command
            }
            Program::Curl => {
                let text = format!(
                    "daemon off; master_process off; pid {home}/pid; error_log {home}/error.log;\n\
                     events {{}}\n\
                     http {{ access_log off; sendfile on; tcp_nopush on; send_timeout 1h; keepalive_timeout 1h;\n\
                     client_body_temp_path {home}/body;\n\
                     proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi;\n\
                     scgi_temp_path {home}/scgi;\n\
                     server {{ listen 10.1.1.1:{port} ssl http2; ssl_protocols TLSv1.3; ssl_certificate {home}/cert.pem;\n\
                     ssl_certificate_key {home}/key.pem; root {tree}; }} }}\n"
                );
                fs::write(&config, text)?;
                let [key, cert] = ["key.pem", "cert.pem"].map(|name| dir.join(name));
                let mut make = Command::new("openssl");
                make.args([
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:prime256v1",
                    "-nodes",
                ]);
                make.args(["-days", "2", "-subj", "/CN=bench", "-keyout"]).arg(key).arg("-out").arg(cert);
                capture(&mut make).context("making a certificate for nginx")?;
                let mut command = self.on("server", "/usr/sbin/nginx");
                command.arg("-p").arg(dir).arg("-c").arg(&config);
                command
            }
            Program::Rsync => {
                let text = format!(
                    "pid file = {home}/pid\nlog file = {home}/rsync.log\nuse chroot = no\nuid = 0\ngid = 0\n\
                     [tree]\npath = {tree}\nread only = yes\n"
                );
                fs::write(&config, text)?;
                let mut command = self.on("server", "rsync");
                command.args(["--daemon", "--no-detach", "--address=10.1.1.1"]);
                command.arg(format!("--port={port}")).arg(format!("--config={}", config.display()));
                command
            }
        };
        let log = fs::File::create(dir.join("server.log"))?;
        let mut server = Process(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?);
        let began = Instant::now();
        loop {
            let sockets =
                String::from_utf8(capture(self.on("server", "cat").arg(format!("/proc/net/{table}")))?)?;
            if listens(&sockets, port) {
                return Ok(server);
            }
            if server.0.try_wait()?.is_some() || began.elapsed() > START {
                let said = fs::read_to_string(dir.join("server.log")).unwrap_or_default();
                bail!("the server of {} does not listen: {}", program.name(), said.trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn client(&self, program: Program, tree: &Path, dir: &Path) -> Result<Command> {
        let (port, _) = program.port();
        let copy = dir.join("copy");
        Ok(match program {
            Program::Braid => {
                let mut command = self.on("client", &self.bench.braidftp);
                command.args(["mirror", "--plain", &format!("ftp+sctp://10.1.1.1:{port}/")]).arg(copy);
                command
            }
            Program::Curl => {
                let mut text = String::new();
                for file in files(tree)? {
                    let output = copy.join(&file);
                    text += &format!(
                        "url = \"https://10.1.1.1:{port}/{file}\"\noutput = \"{}\"\n",
                        output.display()
                    );
                }
                let config = dir.join("urls");
                fs::write(&config, text)?;
                let mut command = self.on("client", "curl");
                command.args(["--parallel", "--parallel-max", &FILES.to_string(), "--http2", "--insecure"]);
                command.args(["--silent", "--show-error", "--fail", "--create-dirs", "--config"]).arg(config);
                command
            }
            Program::Rsync => {
                let mut command = self.on("client", "rsync");
                command.args(["-a", &format!("rsync://10.1.1.1:{port}/tree/")]).arg(copy);
                command
            }
        })
    }
}

/// Whether a table of /proc/net has a socket bound to this port (TCP: listening).
fn listens(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    table.lines().any(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&port)))
}

/// The names of all files in a folder, relative to it.
fn files(folder: &Path) -> Result<Vec<String>> {
    let (mut names, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                names.push(
                    path.strip_prefix(folder)?.to_str().context("a plain tree has plain names")?.to_owned(),
                );
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Whether both folders hold the same files.
fn same(tree: &Path, copy: &Path) -> Result<bool> {
    for file in files(tree)? {
        let there = fs::read(copy.join(&file)).ok();
        if there != Some(fs::read(tree.join(&file))?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The distribution of a program's times in a cell.
#[derive(Debug, PartialEq)]
struct Tail {
    /// In ascending order; a failed run is infinite.
    sorted: Vec<(f64, u64)>,
    /// The causes of failed runs, with their numbers.
    failures: BTreeMap<String, usize>,
}

impl Tail {
    fn of<'a>(outcomes: impl Iterator<Item = (u64, &'a Outcome)>) -> Self {
        let (mut sorted, mut failures) = (Vec::new(), BTreeMap::new());
        for (seed, outcome) in outcomes {
            if let Err(why) = outcome {
                *failures.entry(why.clone()).or_default() += 1;
            }
            sorted.push((*outcome.as_ref().unwrap_or(&f64::INFINITY), seed));
        }
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { sorted, failures }
    }

    /// The value at this quantile, by nearest rank.
    fn at(&self, percent: usize) -> f64 {
        self.sorted[(percent * self.sorted.len()).div_ceil(100).max(1) - 1].0
    }
}

impl std::fmt::Display for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for percent in [50, 90, 95, 99, 100] {
            write!(f, "{:.3} | ", self.at(percent))?;
        }
        let seed = self.sorted.last().map_or(0, |worst| worst.1);
        let failures: Vec<_> = self.failures.iter().map(|(why, count)| format!("{count} × {why}")).collect();
        write!(f, "{seed} | {}", if failures.is_empty() { "0".to_owned() } else { failures.join(", ") })
    }
}

/// The quantiles at which braid is slower than the better peer.
fn missed(braid: &Tail, peers: &[Tail]) -> Option<String> {
    let mut missed = Vec::new();
    for (name, percent) in [("median", 50), ("p90", 90), ("p95", 95), ("worst", 100)] {
        let better = peers.iter().map(|peer| peer.at(percent)).fold(f64::INFINITY, f64::min);
        if braid.at(percent) > better {
            missed.push(format!("{name} {:.3}, the better peer's {better:.3}", braid.at(percent)));
        }
    }
    (!missed.is_empty()).then(|| missed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(values: &[Outcome]) -> Tail {
        Tail::of((0..).zip(values))
    }

    #[test]
    fn quantiles_are_by_nearest_rank_and_failures_are_infinite() {
        let mut values: Vec<Outcome> = (1..=59).map(|n| Ok(f64::from(n))).collect();
        values.insert(3, Err("exit code 8".to_owned()));
        let tail = tail(&values);
        assert_eq!([50, 90, 95].map(|percent| tail.at(percent)), [30.0, 54.0, 57.0]);
        assert_eq!(tail.at(100), f64::INFINITY);
        assert!(tail.to_string().ends_with("| 3 | 1 × exit code 8"), "{tail}");
    }

    #[test]
    fn each_quantile_is_compared_with_the_better_peer() {
        let (one, two) = (tail(&[Ok(1.0), Ok(3.0)]), tail(&[Ok(2.0), Ok(2.0)]));
        assert_eq!(missed(&tail(&[Ok(1.0), Ok(2.0)]), &[one, two]), None);
        let (one, two) = (tail(&[Ok(1.0), Ok(3.0)]), tail(&[Ok(2.0), Ok(2.0)]));
        let said = missed(&tail(&[Ok(1.0), Ok(2.5)]), &[one, two]).unwrap();
        assert!(said.contains("worst 2.500") && !said.contains("median"), "{said}");
    }

    #[test]
    fn the_limit_is_payload_over_rate_plus_a_round_trip() {
        let cell = Cell { link: LINKS[0], file_bytes: 10_000, loss_percent: 10 };
        assert!((cell.limit(10) - 3.0815).abs() < 0.001, "{}", cell.limit(10));
        assert_eq!(cell.name(), "10kB 10% 3mbit");
    }

    #[test]
    fn slow_links_run_many_at_a_time_and_all_cells_take_about_an_hour() {
        let cell = |link: usize, file_bytes| Cell { link: LINKS[link], file_bytes, loss_percent: 10 };
        assert_eq!([0, 1, 2].map(|link| cell(link, 50_000).jobs(JOBS.1)), [8, 24, 64]);
        assert_eq!(cell(0, 10_000).jobs(JOBS.1), 4, "runs of three seconds: few start at once");
        assert_eq!(cell(2, 50_000).jobs(2), 2, "--jobs bounds them");
        let minutes = Cell::all().iter().map(|cell| cell.expected(SEEDS, JOBS.1)).sum::<f64>() / 60.0;
        assert!((50.0..75.0).contains(&minutes), "{minutes}");
    }

    #[test]
    fn a_bound_port_is_found_in_its_own_column() {
        let table = "  sl  local_address rem_address   st\n   0: 0101010A:26AB 00000000:0000 07\n";
        assert!(listens(table, 9899) && !listens(table, 0) && !listens(table, 8080));
    }
}
