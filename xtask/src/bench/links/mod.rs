//! `cargo xtask bench links`: transfers over emulated links like today's (`cells.rs`), braid beside HTTP/2, HTTP/3, rsync,
//! rclone and qcp on BBR and CUBIC, with the queueing delay that each causes.
//!
//! Each run has its own net (`braidlab net`; root). The links of a cell have the same seed, and the same generated trace, for
//! all programs of a round; `--seed` replays them. A cell runs alone; its programs run at once as far as the sum of the
//! rates stays below a limit, so that the machine is no part of the times. A time is that from the client's start to its exit, divided by
//! `payload × 1480/1424 / (rate (1 − loss)) + 1 RTT`, the rate of a trace being its mean. A failed run is infinitely
//! long in the quantiles. The queueing delay is the round-trip time of a ping every 50 ms beside the transfer, minus
//! twice the link's delay; lost pings do not count.
//!
//! braid runs twice: protected, to compare with HTTP/2 over TLS 1.3, HTTP/3 and qcp, and with `--plain`, to compare with
//! rsync and rclone in clear text. The HTTP/3 client and server are `bench-peers/src/http3_peer.rs`, because Debian
//! 12 has no nginx or curl with HTTP/3.

mod cells;
mod ping;
mod report;
mod traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::emulated::Lab;
use super::quantiles::Outcome;
use super::servers::{PACKAGES, Program, Programs, Transfer};
use super::{flow, released};
use crate::peers::{Proof, install};
use crate::shell::{capture, on_path, root};
use crate::tools::QCP;
use crate::tree::{Kind, Shape, make};
use cells::{Cell, Work};
use ping::Ping;
use report::Row;

const USAGE: &str = "usage: cargo xtask bench links [--cells TEXT,...] [--peers TEXT,...] [--rounds N] [--seed SEED] [--quick] \
    [--jobs N] [--programs DIR]\n\
    a cell is called like `geo bulk`; TEXT picks those whose name contains it\n\
    --peers: the peers whose names contain TEXT, beside braid\n\
    --seed: the seed of the first round, which is drawn anew without it\n\
    --quick: one round of one cell for each link, peers on BBR only\n\
    --jobs: the most runs at once; without it, as many as a cell's rate allows";

const ROUNDS: u64 = 3;
/// The most bits per second of all concurrent links.
const CONCURRENT_BITS_PER_SECOND: f64 = 200e6;
/// The shortest time limit of a run.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time limit of a longer run, as a multiple of its minimum time.
const PATIENCE_FACTOR: f64 = 5.0;
/// The seconds of a run beside its transfer: the net, a server, the comparison.
const SET_UP_SECONDS: f64 = 1.5;
/// When a transfer starts after its link, if the link changes with time: all programs then see the same changes.
const VARYING_START: Duration = Duration::from_millis(2_500);

const SSH_PACKAGES: &[(Proof, &str)] =
    &[(Proof::File("/usr/sbin/sshd"), "openssh-server"), (Proof::Program("ssh"), "openssh-client")];

/// A program with its congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contestant {
    program: Program,
    /// Of the kernel, or of a transport of the program's own; braid has its own default.
    controller: Option<&'static str>,
}

impl Contestant {
    /// braid, protected and plain, and all peers, each on BBR and on CUBIC.
    fn all() -> Vec<Self> {
        let peers = [Program::Http2, Program::Http3, Program::Qcp, Program::Rsync, Program::Rclone];
        let ours = [Program::Braid, Program::BraidPlain].map(|program| Self { program, controller: None });
        let both = |program| ["bbr", "cubic"].map(|name| Self { program, controller: Some(name) });
        ours.into_iter().chain(peers.into_iter().flat_map(both)).collect()
    }

    fn is_braid(self) -> bool {
        self.controller.is_none()
    }

    fn name(self) -> String {
        match self.controller {
            Some(name) => format!("{} {}", self.program.name(), name.to_uppercase()),
            None => self.program.name().to_owned(),
        }
    }
}

#[derive(Debug)]
struct Options {
    rounds: u64,
    first: u64,
    cells: Vec<Cell>,
    contestants: Vec<Contestant>,
    quick: bool,
    jobs: usize,
    programs: Option<PathBuf>,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let drawn = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 % 1_000_000_000;
        let (mut rounds, mut cells, mut peers) = (None, None, None);
        let mut options = Self {
            rounds: ROUNDS,
            first: drawn,
            cells: Cell::all(),
            contestants: Contestant::all(),
            quick: false,
            jobs: usize::MAX,
            programs: None,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().context(USAGE);
            match arg.as_str() {
                "--rounds" => rounds = Some(value()?.parse().context("--rounds takes a number")?),
                "--seed" => options.first = value()?.parse().context("--seed takes a number")?,
                "--jobs" => options.jobs = value()?.parse().context("--jobs takes a number")?,
                "--programs" => options.programs = Some(std::path::absolute(value()?)?),
                "--cells" => cells = Some(value()?.clone()),
                "--peers" => peers = Some(value()?.clone()),
                "--quick" => options.quick = true,
                _ => bail!("{USAGE}"),
            }
        }
        if options.quick {
            options.contestants.retain(|contestant| contestant.controller != Some("cubic"));
            if cells.is_none() {
                options.cells.retain(|cell| cell.is_quick);
            }
        }
        options.rounds = rounds.unwrap_or(if options.quick { 1 } else { ROUNDS });
        if let Some(wanted) = cells {
            options.cells = picked(options.cells, &wanted, "cell", Cell::name)?;
        }
        if let Some(wanted) = peers {
            let (ours, peers) = options.contestants.into_iter().partition(|it| it.is_braid());
            let peers = picked(peers, &wanted, "peer", |contestant: &Contestant| contestant.name())?;
            options.contestants = [ours, peers].concat();
        }
        if options.rounds == 0 || options.jobs == 0 {
            bail!("--rounds and --jobs take a number from 1 on");
        }
        Ok(options)
    }

    /// The programs that run in a cell.
    fn contestants(&self, cell: &Cell) -> impl Iterator<Item = &Contestant> {
        self.contestants.iter().filter(|it| it.program != Program::Qcp || cell.work.has_few_files())
    }

    /// The seconds that a cell takes: CUBIC takes several times the limit where packets are lost at random, and qcp for
    /// many files.
    fn expected(&self, cell: &Cell) -> f64 {
        let is_slow = |it: &Contestant| {
            it.controller == Some("cubic") && cell.link.loses()
                || it.program == Program::Qcp && !cell.work.is_one_file()
        };
        let seconds: f64 = self.contestants(cell).map(|it| cell.expected(is_slow(it)) + SET_UP_SECONDS).sum();
        self.rounds as f64 * seconds / self.jobs(cell) as f64
    }

    /// The runs of a cell at once.
    fn jobs(&self, cell: &Cell) -> usize {
        let by_rate = (CONCURRENT_BITS_PER_SECOND / cell.link.bits_per_second()) as usize;
        by_rate.clamp(1, self.contestants.len()).min(self.jobs)
    }
}

/// Those of `all` whose name contains one of the words of `wanted`; each word must be in a name.
fn picked<T>(all: Vec<T>, wanted: &str, what: &str, name: impl Fn(&T) -> String) -> Result<Vec<T>> {
    for text in wanted.split(',') {
        if !all.iter().any(|one| name(one).contains(text)) {
            let names: Vec<_> = all.iter().map(name).collect();
            bail!("no {what} has `{text}` in its name; there are: {}", names.join(", "));
        }
    }
    Ok(all.into_iter().filter(|one| wanted.split(',').any(|text| name(one).contains(text))).collect())
}

/// Runs all cells and prints a table for each, and at the end where braid is behind.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut options = Options::read(args)?;
    install(PACKAGES)
        .and_then(|()| install(&[(Proof::Program("ping"), "iputils-ping")]))
        .context("as root: `apt-get install nginx-light curl openssl rsync iproute2 iputils-ping`")?;
    let folder = released(options.programs.clone())?;
    let (programs, left_out) = available(&mut options, folder.join("braidftp"))?;
    let mut debian = vec![("/usr/sbin/nginx", "-v"), ("curl", "--version"), ("rsync", "--version")];
    debian.extend(on_path("rclone").then_some(("rclone", "--version")));
    debian.push(("uname", "-sr"));
    programs.print_versions(&debian)?;
    let seconds: f64 = options.cells.iter().map(|cell| options.expected(cell)).sum();
    println!(
        "{} cells, {} programs, {} rounds, expected to take about {:.0} minutes (--cells TEXT runs some of them); \
         replay with --seed {}",
        options.cells.len(),
        options.contestants.len(),
        options.rounds,
        (seconds / 60.0).ceil(),
        options.first
    );
    if let Some(notice) = busy(&fs::read_to_string("/proc/loadavg")?) {
        println!("NOTICE: {notice}");
    }
    let jobs = options.cells.iter().map(|cell| options.jobs(cell)).max().unwrap_or(0);
    let bench = Bench { programs, lab: Lab::new("links", folder.join("braidlab"), jobs)?, options };
    let (mut behind, mut queueing) = (Vec::new(), Vec::new());
    for cell in &bench.options.cells {
        let rows = bench.cell(cell)?;
        print!("{}", report::table(&rows));
        if rows.len() < bench.options.contestants.len() {
            println!(
                "qcp is not run here: it transfers one file after another, each in more than a round trip"
            );
        }
        behind.extend(report::behind(&rows).into_iter().map(|text| format!("{}: {text}", cell.name())));
        queueing.extend(report::more_queueing(&rows).map(|text| format!("{}: {text}", cell.name())));
    }
    print!("{}", report::list("braid is more than 2 % behind the best peer", &behind));
    print!("{}", report::list("braid causes more queueing delay than HTTP/2 on BBR", &queueing));
    for program in &left_out {
        println!("LEFT OUT: {program}");
    }
    if !behind.is_empty() && !bench.options.quick {
        bail!("braid is behind in {} of the comparisons above", behind.len());
    }
    Ok(())
}

/// A warning if the machine has other work: `load` is the content of /proc/loadavg.
fn busy(load: &str) -> Option<String> {
    let load: f64 = load.split(' ').next()?.parse().ok()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (load > cores as f64 / 2.0).then(|| {
        format!(
            "the load is {load} on {cores} cores: programs in user space (braid, QUIC) are slowed more than the kernel's TCP; \
             repeat what matters on an idle machine, or with --jobs 1"
        )
    })
}

/// Builds and installs what Debian lacks; takes programs that are not available out of the run, and returns them.
fn available(options: &mut Options, braidftp: PathBuf) -> Result<(Programs, Vec<&'static str>)> {
    let wants = |program| options.contestants.iter().any(|it| it.program == program);
    let mut programs = Programs { braidftp, http3: None, qcp: None };
    let mut left_out = Vec::new();
    if wants(Program::Http3) {
        programs.http3 = flow::rust_peer("http3_peer", "HTTP/3")?;
    }
    if wants(Program::Qcp) {
        match install(SSH_PACKAGES).and_then(|()| QCP.ensure()) {
            Ok(path) => programs.qcp = Some(path),
            Err(error) => flow::left_out(
                "qcp",
                &error,
                "as root: `apt-get install openssh-server`; let cargo reach crates.io",
            ),
        }
    }
    let mut has_rclone = true;
    if wants(Program::Rclone)
        && let Err(error) = install(&[(Proof::Program("rclone"), "rclone")])
    {
        flow::left_out("rclone", &error, "as root: `apt-get install rclone`");
        has_rclone = false;
    }
    let is_there = |program| match program {
        Program::Http3 => programs.http3.is_some(),
        Program::Qcp => programs.qcp.is_some(),
        Program::Rclone => has_rclone,
        _ => true,
    };
    for contestant in &options.contestants {
        if !is_there(contestant.program) && !left_out.contains(&contestant.program.name()) {
            left_out.push(contestant.program.name());
        }
    }
    options.contestants.retain(|contestant| is_there(contestant.program));
    Ok((programs, left_out))
}

struct Bench {
    programs: Programs,
    lab: Lab,
    options: Options,
}

/// One run.
#[derive(Debug, Clone, Copy)]
struct Task {
    contestant: Contestant,
    seed: u64,
}

/// The result of one run: its time, and the queueing delays in milliseconds.
type Run = (Outcome, Vec<f64>);

impl Bench {
    /// Runs one cell.
    fn cell(&self, cell: &Cell) -> Result<Vec<Row>> {
        let tree = self.lab.dir.join("tree");
        let _ = fs::remove_dir_all(&tree);
        let bytes = plant(&tree, cell.work)?;
        let jobs = self.options.jobs(cell);
        println!("\n## {}: {}", cell.name(), cell.link.what);
        println!(
            "{}, {:.1} MB; {}; {jobs} runs at once, about {:.0} s; the limit is {:.2} s\n",
            cell.work,
            bytes as f64 / 1e6,
            cell.link.path(Path::new("TRACE")),
            self.options.expected(cell),
            cell.link.limit(bytes)
        );
        let seeds = (0..self.options.rounds).map(|round| self.options.first.wrapping_add(round));
        let mut tasks = Vec::new();
        for seed in seeds {
            if let Some(kind) = cell.link.trace {
                fs::write(self.trace(seed), traces::text(kind, seed))?;
            }
            tasks.extend(
                self.options.contestants(cell).map(|contestant| Task { contestant: *contestant, seed }),
            );
        }
        let runs = self.lab.all(&tasks, jobs, |task, net| self.one(cell, &tree, bytes, task, net))?;
        let rows = self.options.contestants(cell).map(|contestant| {
            let own = tasks.iter().zip(&runs).filter(|(task, _)| task.contestant == *contestant);
            Row::new(*contestant, cell.link.limit(bytes), own.map(|(task, run)| (task.seed, run)))
        });
        Ok(rows.collect())
    }

    fn trace(&self, seed: u64) -> PathBuf {
        self.lab.dir.join(format!("trace-{seed}"))
    }

    fn one(&self, cell: &Cell, tree: &Path, bytes: u64, task: &Task, name: &str) -> Result<Run> {
        let net = self.lab.up(name, task.seed, &cell.link.path(&self.trace(task.seed)))?;
        let up = Instant::now();
        let controller = task.contestant.controller.unwrap_or("cubic");
        net.set_congestion(controller)?;
        let dir = &self.lab.clean_dir(name)?;
        let transfer = Transfer { program: task.contestant.program, controller, tree, dir };
        let _server = self.programs.serve(&net, &transfer)?;
        let limit = cell.link.limit(bytes);
        let patience = PATIENCE.max(Duration::from_secs_f64(PATIENCE_FACTOR * limit));
        if cell.link.varies() {
            std::thread::sleep(VARYING_START.saturating_sub(up.elapsed()));
        }
        let ping = Ping::start(&net, dir)?;
        let outcome = self.programs.fetch(&net, &transfer, patience)?;
        let delays = ping.stop()?.into_iter().map(|ms| ms - 2.0 * cell.link.delay_ms).collect();
        if let Err(why) = &outcome {
            let said = fs::read_to_string(dir.join("client.log")).unwrap_or_default();
            let said = said.lines().last().unwrap_or_default();
            eprintln!("{}, seed {}: {} failed: {why} {said}", cell.name(), task.seed, task.contestant.name());
        }
        Ok((outcome.map(|seconds| seconds / limit), delays))
    }
}

/// Makes the files of a work; returns their bytes.
fn plant(tree: &Path, work: Work) -> Result<u64> {
    let (files, size) = match work {
        Work::Files { files, bytes } => (files, bytes),
        Work::Source => return plant_source(tree),
    };
    Ok(make(tree, &Shape { files, seed: 1, big: 0, kind: Kind::Plain { size } })?.bytes)
}

/// Copies the files below crates/ that this commit has; returns their bytes.
fn plant_source(tree: &Path) -> Result<u64> {
    let listed = capture(Command::new("git").current_dir(root()).args(["ls-files", "-z", "crates"]));
    let listed = listed.context("the source tree is that of this repository: run this in its checkout")?;
    let mut bytes = 0;
    for name in String::from_utf8(listed)?.split_terminator('\0') {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        bytes += fs::copy(root().join(name), &path).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &str) -> Result<Options> {
        Options::read(&args.split_whitespace().map(|word| word.replace('_', " ")).collect::<Vec<_>>())
    }

    #[test]
    fn a_wrong_cell_or_peer_is_an_error_that_lists_all() {
        let error = read("--cells geo,moon").unwrap_err().to_string();
        assert!(error.contains("`moon`") && error.contains("geo bulk, "), "{error}");
        let error = read("--peers scp").unwrap_err().to_string();
        assert!(error.contains("`scp`") && error.contains("rsync BBR, "), "{error}");
        assert!(read("--rounds 0").is_err() && read("--what").is_err());
    }

    #[test]
    fn cells_and_peers_are_picked_by_parts_of_their_names() {
        let options = read("--cells geo_bulk --peers rsync --rounds 2 --seed 7").unwrap();
        assert_eq!(options.cells.iter().map(Cell::name).collect::<Vec<_>>(), ["geo bulk"]);
        let names: Vec<_> = options.contestants.iter().map(|it| it.name()).collect();
        assert_eq!(names, ["braid", "braid --plain", "rsync BBR", "rsync CUBIC"]);
        assert_eq!((options.rounds, options.first), (2, 7));
    }

    #[test]
    fn the_default_takes_about_an_hour_and_quick_some_minutes() {
        let minutes = |args| {
            let options = read(args).unwrap();
            options.cells.iter().map(|cell| options.expected(cell)).sum::<f64>() / 60.0
        };
        assert!((45.0..70.0).contains(&minutes("")), "{}", minutes(""));
        assert!((3.0..7.0).contains(&minutes("--quick")), "{}", minutes("--quick"));
    }

    #[test]
    fn a_busy_machine_is_reported() {
        assert!(busy("1000.10 8.00 7.00 3/200 1234\n").unwrap().starts_with("the load is 1000.1 on "));
        assert_eq!(busy("0.02 8.00 7.00 3/200 1234\n"), None);
    }

    #[test]
    fn fast_links_run_few_at_a_time() {
        let options = read("").unwrap();
        let jobs = |name: &str| {
            let cell = options.cells.iter().find(|cell| cell.name() == name).unwrap();
            options.jobs(cell)
        };
        assert_eq!((jobs("geo bulk"), jobs("radio bulk")), (4, 12));
    }
}
