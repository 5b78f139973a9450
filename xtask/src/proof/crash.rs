//! Crash rounds: at a random moment of a mirror down or up the client is killed, the server is killed, or the
//! receiving host loses power. Afterwards no file of the source may have wrong contents, and the same command
//! must complete the job at once.
//!
//! A server that is killed alone is killed no sooner than the client's first session has begun: a client that
//! has never reached a server gives up at once, by design, and does not wait for one.
//!
//! The killed processes are those that do the work: both programs are started without a wrapper. A loss of
//! power is simulated by a copy of the receiver's tree taken while the job runs. After both programs are
//! killed the tree is restored to this copy, and unfinished files lose a part of their tail, as on file
//! systems that order data before metadata.
//!
//! The kinds `s3-client`, `s3-server` and `s3-server-alone`, which run only if they are named, are in `crash/s3.rs`.

mod s3;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::actors::{Finished, Running, Server, free_tcp_port};
use super::compare::{Times, differences};
use super::{Bench, remove};
use crate::tree::{Kind as Files, Rng, Shape, make};

/// The allowed duration of the run after a crash, as a multiple of a clean run.
const SLOWER: f64 = 1.5;
/// Clean runs before the first round of a cell, and the number of rounds between two further ones.
const CLEAN_RUNS: usize = 5;
const CLEAN_EVERY: u64 = 15;
/// Clean runs made at once if a run after a crash was slow, so that both see the same load.
const CLEAN_AGAIN: usize = 3;
/// The time limit of all rounds of one kind of crash.
const KIND_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How many seconds a round takes on a machine of two quiet processors.
const ROUND_SECS: u64 = 4;
/// The time limit of one run.
const RUN_LIMIT: Duration = Duration::from_secs(120);
/// The number of attempts until a crash comes before the end of the job.
const TRIES: u64 = 3;
/// How often a server is started again at a port that is in use.
const PORT_TRIES: u32 = 30;
/// The pause between two looks at the server's sessions.
const LOOK: Duration = Duration::from_millis(1);
/// The suffix of unfinished files.
pub(super) const PART: &str = ".braidftp-part";
/// The modification time of the older files at the receiver.
const OLD: i64 = 1_000_000_000;

/// The kinds of crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    Client,
    /// Both programs are killed, the server first, and the server starts again.
    Server,
    /// The server is killed and restarted; the client keeps running.
    ServerAlone,
    Power,
}

const CRASHES: [(&str, Crash); 4] = [
    ("client", Crash::Client),
    ("server", Crash::Server),
    ("server-alone", Crash::ServerAlone),
    ("power", Crash::Power),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Down,
    Up,
}

/// A mode and a direction, with the results of their rounds.
#[derive(Debug)]
struct Cell {
    mode: &'static str,
    direction: Direction,
    clean: Vec<f64>,
    reruns: Vec<f64>,
    rounds: u64,
    too_late: u64,
    wrong: Vec<String>,
    failed: Vec<String>,
    /// Reruns that took too long; `None` if their time is not judged.
    slow: Option<Vec<String>>,
    again: Vec<String>,
}

/// What all rounds share.
struct Ground {
    /// The served folder.
    served: PathBuf,
    /// The source tree in it.
    tree: PathBuf,
    /// The folder of downloads and of the programs' output.
    dir: PathBuf,
    /// The address of the server's metrics.
    metrics: SocketAddr,
    seed: u64,
}

/// The moment of a crash, drawn for a round.
struct Moment {
    /// As a part of a clean run.
    part: f64,
    /// The round, as failures name it.
    told: String,
    /// Draws what else is random in the round.
    random: Rng,
}

/// The parameters of a run.
struct Run {
    url: String,
    from: Option<PathBuf>,
    to: Option<PathBuf>,
    /// The receiver's tree.
    copy: PathBuf,
}

/// Runs all rounds.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let rounds = bench.options.rounds;
    let seed = bench.options.seed.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(1, |since| since.as_secs())
    });
    println!("proof: crash: --seed {seed} --rounds {rounds} runs the same rounds again");
    let served = bench.dir.join("served");
    let tree = served.join("tree");
    make(&tree, &Shape { files: 300, seed: 1, big: 100_000_000, kind: Files::Plain { size: 20_000 } })?;
    let middle = Shape { files: 25, seed: 2, big: 0, kind: Files::Plain { size: 2_000_000 } };
    make(&tree.join("middle"), &middle)?;
    let ground = Ground { served, tree, dir: bench.dir.clone(), metrics: free_tcp_port()?, seed };
    let wanted = &bench.options.crashes;
    let known: Vec<&str> =
        CRASHES.iter().map(|(name, _)| *name).chain(s3::CRASHES.iter().map(|(name, _)| *name)).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| !known.contains(&wanted.as_str())) {
        bail!("there is no kind of crash `{unknown}`: there are {}", known.join(", "));
    }
    let before_buckets: Vec<_> =
        s3::CRASHES.into_iter().filter(|(name, _)| wanted.iter().any(|wanted| wanted == name)).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let crashes: Vec<_> = CRASHES.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    println!(
        "proof: crash: {} kinds of crash before a folder, about {} min each, at most {} min; {} before a bucket",
        crashes.len(),
        (rounds * ROUND_SECS).div_ceil(60),
        KIND_LIMIT.as_secs() / 60,
        before_buckets.len(),
    );
    for (name, crash) in crashes {
        let start = Instant::now();
        let mut cells = Vec::new();
        for mode in bench.modes(&["braid", "tcp"]) {
            for direction in [Direction::Down, Direction::Up] {
                cells.push(Cell::new(mode, direction));
            }
        }
        let count = cells.len() as u64;
        for (at, cell) in cells.iter_mut().enumerate() {
            // Divides the rounds evenly among the cells, so that no cell takes the time of others.
            let share = (rounds + count - 1 - at as u64) / count;
            let until = start + KIND_LIMIT * (at as u32 + 1) / count as u32;
            rounds_of(bench, &ground, crash, cell, share, until).with_context(|| format!("{name} {cell}"))?;
            cell.tell(bench, name, share);
        }
        println!("proof: crash: {name}: {:.0} s", start.elapsed().as_secs_f64());
    }
    for (name, crash) in before_buckets {
        let start = Instant::now();
        s3::run(bench, name, crash, rounds, seed).with_context(|| name.to_owned())?;
        println!("proof: crash: {name}: {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn rounds_of(
    bench: &Bench,
    ground: &Ground,
    crash: Crash,
    cell: &mut Cell,
    share: u64,
    until: Instant,
) -> Result<()> {
    let mut server = ground.serve(bench, None)?;
    for number in 0..CLEAN_RUNS {
        ground.clean_run(bench, &server, cell, number)?;
    }
    for number in 0..share * TRIES {
        if cell.rounds >= share || Instant::now() > until {
            break;
        }
        if number % CLEAN_EVERY == CLEAN_EVERY - 1 {
            ground.clean_run(bench, &server, cell, 0)?;
        }
        ground.round(bench, &mut server, crash, cell, number)?;
    }
    Ok(())
}

impl Ground {
    /// Starts the server, on the ports of the previous one.
    fn serve(&self, bench: &Bench, before: Option<&Server>) -> Result<Server> {
        let ports = before.map(|server| (server.tcp, server.udp));
        let metrics = self.metrics.to_string();
        let more = ["--writable", "--metrics", &metrics];
        let start = || Server::start_at(&bench.programs, &self.served, &self.dir, &more, ports);
        let mut started = start();
        // Another program's connection may have taken a port for a moment.
        for _ in 0..PORT_TRIES {
            match started {
                Err(error) if format!("{error:#}").contains("in use") => sleep(Duration::from_secs(1)),
                started => return started,
            }
            started = start();
        }
        started
    }

    /// Creates a receiver's tree with older versions of some files.
    fn prepare(&self, server: &Server, cell: &Cell, name: &str) -> Result<Run> {
        let run = match cell.direction {
            Direction::Down => Run {
                url: format!("{}tree", server.url(cell.mode, None)),
                from: None,
                to: Some(self.dir.join(name)),
                copy: self.dir.join(name),
            },
            Direction::Up => Run {
                url: format!("{}{name}", server.url(cell.mode, None)),
                from: Some(self.tree.clone()),
                to: None,
                copy: self.served.join(name),
            },
        };
        remove(&run.copy)?;
        fs::create_dir_all(&run.copy)?;
        for (at, entry) in sorted(&self.tree)?.into_iter().enumerate() {
            if at % 4 == 0 && self.tree.join(&entry).is_file() {
                let path = run.copy.join(&entry);
                fs::write(&path, old_content(&entry))?;
                let changed = std::time::UNIX_EPOCH + Duration::from_secs(OLD as u64);
                File::options().write(true).open(&path)?.set_modified(changed)?;
            }
        }
        Ok(run)
    }

    fn start(&self, bench: &Bench, cell: &Cell, run: &Run, name: &str) -> Result<Running> {
        let mut command: Command = bench.programs.braidftp();
        command.env("XDG_STATE_HOME", self.dir.join("state"));
        command.arg("mirror");
        match (&run.from, &run.to) {
            (Some(from), _) => command.arg("-R").arg(from).arg(&run.url),
            (None, Some(to)) => command.arg(&run.url).arg(to),
            (None, None) => bail!("a run goes somewhere"),
        };
        command.args(["--plain", "--mode", cell.mode, "--json"]);
        Running::start(&mut command, &self.dir, name)
    }

    fn clean_run(&self, bench: &Bench, server: &Server, cell: &mut Cell, number: usize) -> Result<()> {
        let run = self.prepare(server, cell, &format!("clean-{number}"))?;
        let start = Instant::now();
        let finished = self.start(bench, cell, &run, "client")?.finish(RUN_LIMIT)?;
        let seconds = start.elapsed().as_secs_f64();
        cell.clean(seconds, &finished, &differences(&self.tree, &run.copy, Times::Compared)?)?;
        remove(&run.copy)
    }

    fn round(
        &self,
        bench: &Bench,
        server: &mut Server,
        crash: Crash,
        cell: &mut Cell,
        number: u64,
    ) -> Result<()> {
        let Moment { part, told, mut random } =
            Moment::draw(self.seed, crash as u64, cell.direction, number, 0.0);
        let run = self.prepare(server, cell, &format!("round-{number}"))?;
        let sessions_before = self.sessions_begun(cell.mode)?;
        let mut client = self.start(bench, cell, &run, "client")?;
        let start = Instant::now();
        if crash == Crash::ServerAlone {
            self.await_session(cell.mode, sessions_before, &mut client)?;
        }
        sleep(Duration::from_secs_f64(cell.clean_median() * part).saturating_sub(start.elapsed()));
        if client.ended()?.is_some() {
            cell.too_late += 1;
            return remove(&run.copy);
        }
        cell.rounds += 1;
        let went_on = self.crash(bench, server, crash, &mut client, &run, &mut random)?;
        // Hard links are quick to create, and files under final names are never rewritten: they can be
        // examined later.
        let frozen = self.dir.join("frozen");
        remove(&frozen)?;
        link_tree(&run.copy, &frozen)?;
        let whole = self.whole(&frozen)?;
        let (finished, seconds) = match went_on {
            Some(went_on) => went_on,
            None => {
                let start = Instant::now();
                let finished = self.start(bench, cell, &run, "client-again")?.finish(RUN_LIMIT);
                match finished {
                    Ok(finished) => (finished, start.elapsed().as_secs_f64()),
                    Err(error) => {
                        cell.failed.push(format!("{told}: {error:#}"));
                        return Ok(());
                    }
                }
            }
        };
        for wrong in self.wrong(&frozen)? {
            cell.wrong.push(format!("{told}: {wrong}"));
        }
        let found = differences(&self.tree, &run.copy, Times::Compared)?;
        cell.judge(&told, &finished, &found);
        if crash != Crash::ServerAlone {
            self.judge_rerun(bench, server, cell, &told, seconds)?;
            cell.judge_sent(&told, &finished, &whole);
        }
        cell.reruns.push(seconds);
        remove(&frozen)?;
        if found.is_empty() { remove(&run.copy) } else { Ok(()) }
    }

    /// Waits until a session of the client has begun, or the client has ended.
    fn await_session(&self, mode: &str, sessions_before: u64, client: &mut Running) -> Result<()> {
        let start = Instant::now();
        while self.sessions_begun(mode)? == sessions_before && client.ended()?.is_none() {
            if start.elapsed() > RUN_LIMIT {
                bail!(
                    "no session of the client began in {} s: {}",
                    RUN_LIMIT.as_secs(),
                    client.stderr_tail()?
                );
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// The number of sessions in a mode that the server has begun, by its metrics.
    fn sessions_begun(&self, mode: &str) -> Result<u64> {
        let mut stream = TcpStream::connect(self.metrics).context("the server's metrics")?;
        stream.set_read_timeout(Some(RUN_LIMIT))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page).context("the server's metrics")?;
        sessions_in(&page, mode).with_context(|| format!("no metrics of the server: {page}"))
    }

    /// Crashes a side, or both, and starts what the rerun needs. Returns how the client ended and its seconds, if it went on.
    fn crash(
        &self,
        bench: &Bench,
        server: &mut Server,
        crash: Crash,
        client: &mut Running,
        run: &Run,
        random: &mut Rng,
    ) -> Result<Option<(Finished, f64)>> {
        match crash {
            Crash::Client => {
                does_the_work(client)?;
                client.kill()?;
            }
            Crash::Server => {
                does_the_work(&server.running)?;
                server.running.kill()?;
                client.kill()?;
                *server = self.serve(bench, Some(server))?;
            }
            Crash::ServerAlone => {
                server.running.kill()?;
                *server = self.serve(bench, Some(server))?;
                let start = Instant::now();
                let finished = client.finish(RUN_LIMIT)?;
                return Ok(Some((finished, start.elapsed().as_secs_f64())));
            }
            Crash::Power => {
                let after = self.dir.join("after-the-power-loss");
                remove(&after)?;
                copy_tree(&run.copy, &after)?;
                client.kill()?;
                server.running.kill()?;
                self.forget_finished(&after)?;
                lose_tails(&after, random)?;
                remove(&run.copy)?;
                fs::rename(&after, &run.copy)?;
                *server = self.serve(bench, Some(server))?;
            }
        }
        Ok(None)
    }

    /// Whether a rerun took no longer than it may beside clean runs, which are run again if it seems so.
    fn judge_rerun(
        &self,
        bench: &Bench,
        server: &mut Server,
        cell: &mut Cell,
        told: &str,
        seconds: f64,
    ) -> Result<()> {
        for _ in 0..CLEAN_AGAIN {
            // The machine may be busier than before.
            if seconds > SLOWER * cell.clean_longest() {
                self.clean_run(bench, server, cell, 0)?;
            }
        }
        let limit = SLOWER * cell.clean_longest();
        if seconds > limit {
            cell.slow.get_or_insert_default().push(format!("{told}: {seconds:.2} s, of {limit:.2} s"));
        }
        Ok(())
    }

    /// Files with their final contents by size and time, as a mirror compares them.
    fn whole(&self, copy: &Path) -> Result<BTreeSet<String>> {
        let mut whole = BTreeSet::new();
        each_file(&self.tree, &mut |path| {
            let inner = path.strip_prefix(&self.tree)?;
            let (here, there) = (fs::metadata(path)?, fs::metadata(copy.join(inner)));
            if there.is_ok_and(|there| there.len() == here.len() && there.mtime() == here.mtime()) {
                whole.insert(inner.to_string_lossy().into_owned());
            }
            Ok(())
        })?;
        Ok(whole)
    }

    /// Removes unfinished files whose complete file was copied too: the file was renamed during the copy, and
    /// no disk has both.
    fn forget_finished(&self, copy: &Path) -> Result<()> {
        for name in self.whole(copy)? {
            let path = copy.join(name);
            let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match fs::remove_file(path.with_file_name(format!(".{own}{PART}"))) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The names in the source tree whose contents are neither the source's nor the former ones.
    fn wrong(&self, copy: &Path) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        each_file(&self.tree, &mut |path| {
            let inner = path.strip_prefix(&self.tree)?;
            let Ok(there) = fs::read(copy.join(inner)) else { return Ok(()) };
            let name = inner.file_name().unwrap_or_default();
            if there != fs::read(path)? && there != old_content(name).into_bytes() {
                wrong.push(format!("{} has {} wrong bytes", inner.display(), there.len()));
            }
            Ok(())
        })?;
        Ok(wrong)
    }
}

impl Moment {
    /// Draws a moment from `earliest` on, a part of a clean run.
    fn draw(seed: u64, crash: u64, direction: Direction, number: u64, earliest: f64) -> Self {
        let mut random = Rng(seed ^ (number << 8) ^ (crash << 4) ^ (direction as u64));
        let part = (random.below(1_000_000) as f64) / 1e6;
        // Half of the crashes come late in the job.
        let part = if random.below(2) == 0 { part } else { 0.6 + 0.4 * part };
        let part = earliest + (1.0 - earliest) * part;
        Self { part, told: format!("round {number} at {part:.3} of a clean run"), random }
    }
}

impl Cell {
    fn new(mode: &'static str, direction: Direction) -> Self {
        Self {
            mode,
            direction,
            clean: Vec::new(),
            reruns: Vec::new(),
            rounds: 0,
            too_late: 0,
            wrong: Vec::new(),
            failed: Vec::new(),
            slow: Some(Vec::new()),
            again: Vec::new(),
        }
    }

    /// Records a clean run, or tells why it is none.
    fn clean(&mut self, seconds: f64, finished: &Finished, differ: &[String]) -> Result<()> {
        if finished.code() != 0 || !differ.is_empty() {
            let (code, stderr) = (finished.code(), &finished.stderr);
            bail!("a clean run failed: exit code {code}, {stderr}, {}", differ.join("; "));
        }
        self.clean.push(seconds);
        Ok(())
    }

    /// Records a run after a crash that failed, or left other files than the source's.
    fn judge(&mut self, told: &str, finished: &Finished, differ: &[String]) {
        if finished.code() != 0 || !differ.is_empty() {
            let (code, stderr) = (finished.code(), &finished.stderr);
            self.failed.push(format!("{told}: exit code {code}: {stderr}; {}", differ.join("; ")));
        }
    }

    /// Records the files that a run sent although they were whole before.
    fn judge_sent(&mut self, told: &str, finished: &Finished, whole: &BTreeSet<String>) {
        for (name, bytes) in sent(finished) {
            if whole.contains(name.trim_start_matches('/')) {
                self.again.push(format!("{told}: {name}, {bytes} bytes"));
            }
        }
    }

    fn clean_median(&self) -> f64 {
        super::median(self.clean.clone())
    }

    fn clean_longest(&self) -> f64 {
        self.clean.iter().copied().fold(0.0, f64::max)
    }

    fn tell(&self, bench: &mut Bench, name: &str, share: u64) {
        let what = format!("{name} {self}");
        println!(
            "proof: crash: {what}: {} rounds, {} more came too late; clean {:.2} s (longest {:.2} s), after a crash \
             {:.2} s (longest {:.2} s)",
            self.rounds,
            self.too_late,
            self.clean_median(),
            self.clean_longest(),
            super::median(self.reruns.clone()),
            self.reruns.iter().copied().fold(0.0, f64::max),
        );
        bench.verdict(self.rounds >= share, &format!("{what}: {} rounds of {share} in time", self.rounds));
        let judged = [
            (Some(&self.wrong), "wrong files"),
            (Some(&self.failed), "failed reruns"),
            (self.slow.as_ref(), "reruns slower than 1.5 times the longest clean run"),
            (Some(&self.again), "finished files sent again"),
        ];
        for (found, of_what) in judged.into_iter().filter_map(|(found, of_what)| Some((found?, of_what))) {
            let first = found.iter().take(5).cloned().collect::<Vec<_>>().join("\n  ");
            bench.verdict(found.is_empty(), &format!("{what}: {} {of_what} {first}", found.len()));
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let direction = match self.direction {
            Direction::Down => "down",
            Direction::Up => "up",
        };
        write!(f, "{} {direction}", self.mode)
    }
}

fn old_content(name: &std::ffi::OsStr) -> String {
    format!("the older {}\n", name.to_string_lossy())
}

/// Checks that the process to be killed is the program itself, not a wrapper.
fn does_the_work(running: &Running) -> Result<()> {
    match running.program_name().as_deref() {
        Some("braidftp") | None => Ok(()),
        Some(other) => bail!("the process to be killed is `{other}`, not braidftp"),
    }
}

/// The number of sessions in a mode that began, on a page of metrics; `None` if the page is none.
fn sessions_in(page: &str, mode: &str) -> Option<u64> {
    let sample = format!("braidftp_sessions_opened_total{{mode=\"{mode}\"}} ");
    let count = page.lines().find_map(|line| line.strip_prefix(&sample));
    match count {
        Some(count) => count.trim().parse().ok(),
        // A mode has no line before its first session.
        None => page.ends_with("# EOF\n").then_some(0),
    }
}

/// The files that a run transferred, with the bytes transferred.
fn sent(finished: &Finished) -> Vec<(String, u64)> {
    let text = String::from_utf8_lossy(&finished.stdout);
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let moved = events.filter(|event| event["action"] == "sent" || event["action"] == "received");
    let moved = moved.map(|event| {
        (event["path"].as_str().unwrap_or_default().to_owned(), event["bytes"].as_u64().unwrap_or(0))
    });
    moved.collect()
}

fn sorted(dir: &Path) -> Result<Vec<OsString>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn each_file(dir: &Path, look: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for name in sorted(dir)? {
        let path = dir.join(name);
        if path.is_dir() { each_file(&path, look)? } else { look(&path)? }
    }
    Ok(())
}

/// Copies what a disk would hold if the power failed now. Files appear and disappear meanwhile.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for name in sorted(from)? {
        let (here, there) = (from.join(&name), to.join(&name));
        if here.is_dir() {
            copy_tree(&here, &there)?;
        } else if let Ok(mut file) = File::open(&here) {
            let changed = file.metadata()?.modified()?;
            let mut copy = File::create(&there)?;
            std::io::copy(&mut file, &mut copy)?;
            copy.set_modified(changed)?;
        }
    }
    Ok(())
}

/// Unfinished files are not synced: some of their bytes have not reached the disk.
fn lose_tails(dir: &Path, random: &mut Rng) -> Result<()> {
    each_file(dir, &mut |path| {
        if path.to_string_lossy().ends_with(PART) {
            let file = File::options().write(true).open(path)?;
            let (length, changed) = (file.metadata()?.len(), file.metadata()?.modified()?);
            file.set_len(random.below(length + 1))?;
            file.set_modified(changed)?;
        }
        Ok(())
    })
}

/// Links the files under their final names.
fn link_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for name in sorted(from)? {
        let (here, there) = (from.join(&name), to.join(&name));
        if here.is_dir() {
            link_tree(&here, &there)?;
        } else if !name.to_string_lossy().ends_with(PART) {
            match fs::hard_link(&here, &there) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_by_mode_and_a_page_without_metrics_is_no_zero() {
        let page = "HTTP/1.0 200 OK\r\n\r\n# TYPE braidftp_sessions_opened counter\n\
                    braidftp_sessions_opened_total{mode=\"braid\"} 12\n# EOF\n";
        assert_eq!(sessions_in(page, "braid"), Some(12));
        assert_eq!(sessions_in(page, "tcp"), Some(0));
        assert_eq!(sessions_in("HTTP/1.0 404 Not Found\r\n\r\n", "tcp"), None);
        assert_eq!(sessions_in(&page.replace("12", "x"), "braid"), None);
    }
}
