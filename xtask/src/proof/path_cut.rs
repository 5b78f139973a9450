//! Path failures during a job: one path is cut and restored, then the other is cut, over UDP and over IP
//! itself, with IPv4, IPv6 and a mix, by interfaces that go down and by silent loss. Then one of the paths
//! flaps, compared with what the steady path carries alone.
//!
//! Both paths carry data at once. The cost of a cut is the time that the remaining path needs, at nine tenths
//! of its goodput alone, to transfer what is missing two seconds after the cut.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Bench;
use super::actors::{Finished, Running};
use super::compare::{Times, differences};
use crate::tree::{Kind, Shape, make};
use crate::wires::{Cut, End, Wire, Wires};

/// The rate of each wire and direction. Over both the job takes 8 s, over one 16 s.
const RATE: &str = "40mbit";
/// Files of this size, so that the disk shows the progress.
const FILE_BYTES: u64 = 100_000;
const FILES: usize = 800;
/// The schedule: the first wire is cut and restored, then the second is cut for good.
const CUT_FIRST: Duration = Duration::from_millis(1_500);
const MEND_FIRST: Duration = Duration::from_millis(3_500);
const CUT_SECOND: Duration = Duration::from_millis(5_500);
/// The longest allowed time without progress. With an RTT of at most 40 ms (a full queue) and `modern`
/// defaults an RTO is some 150 ms; data leaves a path at its first time-out, and a HEARTBEAT finds a restored
/// path.
const STALL_MAX: Duration = Duration::from_secs(2);
/// The largest allowed cost of a cut, at this share of the other path's goodput alone.
const COST_MAX: Duration = Duration::from_secs(1);
const SHARE: f64 = 0.9;
/// The time after a cut at which its cost is computed.
const AFTER: Duration = Duration::from_secs(2);
/// The flapping, and the required share of the steady path's goodput alone.
const FLAP_UP: Duration = Duration::from_secs(2);
const FLAP_DOWN: Duration = Duration::from_secs(1);
const FLAP_SHARE: f64 = 0.95;
/// The time limit of the job.
const LIMIT: Duration = Duration::from_secs(60);
/// The polling interval of the received files.
const LOOK: Duration = Duration::from_millis(20);

/// `ftp+sctp` and `ftp+sctp-ip`, over two wires each.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    let made = make(&tree, &Shape { files: FILES, seed: 1, big: 0, kind: Kind::Plain { size: FILE_BYTES } })?;
    // The same programs measure one path alone, so that headers, framing, disk and polling are included.
    let steady =
        Job { tree: &tree, scheme: "ftp+sctp", wires: &[Wire::v4(1), Wire::v4(2)], cut: Cut::Silent };
    let alone = steady.run(bench, &[0], &mut Vec::new()).context("one path alone")?;
    super::remove(&bench.dir.join("copy"))?;
    let alone = made.bytes as f64 / alone.took.as_secs_f64();
    println!("proof: path-cut: one path alone: {:.1} Mbit/s", alone * 8.0 / 1e6);
    flap(bench, &steady, made.bytes as f64, alone)?;
    for scheme in ["ftp+sctp", "ftp+sctp-ip"] {
        for (family, wires) in [
            ("IPv4", [Wire::v4(1), Wire::v4(2)]),
            ("IPv6", [Wire::v6(1), Wire::v6(2)]),
            ("IPv4 and IPv6", [Wire::v4(1), Wire::v6(2)]),
        ] {
            for cut in [Cut::Silent, Cut::Down(End::Server), Cut::Down(End::Client)] {
                let name = format!("{scheme}, {family}, {cut}");
                let job = Job { tree: &tree, scheme, wires: &wires, cut };
                let mut deeds = vec![
                    (CUT_SECOND, Wires::cut as Deed, 1),
                    (MEND_FIRST, Wires::mend as Deed, 0),
                    (CUT_FIRST, Wires::cut as Deed, 0),
                ];
                let outcome = job.run(bench, &[0, 1], &mut deeds).with_context(|| name.clone())?;
                if !deeds.is_empty() {
                    bail!("{name}: the job was over before all cuts: {}", outcome.finished.stderr);
                }
                let mut found = differences(&tree, &bench.dir.join("copy"), Times::Compared)?;
                if outcome.finished.code() != 0 {
                    found.push(format!("exit code {}: {}", outcome.finished.code(), outcome.finished.stderr));
                }
                let stall = outcome.longest_stall;
                if stall > STALL_MAX {
                    found.push("no progress for too long".into());
                }
                let costs = [CUT_FIRST, CUT_SECOND].map(|at| outcome.cost(at, alone));
                if costs.iter().any(|cost| *cost > COST_MAX.as_secs_f64()) {
                    found.push("a cut cost too much".into());
                }
                let what = if found.is_empty() { "identical".to_owned() } else { found.join("; ") };
                bench.verdict(
                    found.is_empty(),
                    &format!(
                        "{name}: {} bytes in {:.1} s, never without progress for more than {:.2} s (at {:.1} s), the cuts cost {:.2} s and {:.2} s: {what}",
                        made.bytes,
                        outcome.took.as_secs_f64(),
                        stall.as_secs_f64(),
                        outcome.stalled_at.as_secs_f64(),
                        costs[0],
                        costs[1],
                    ),
                );
                super::remove(&bench.dir.join("copy"))?;
            }
        }
    }
    Ok(())
}

/// The second path flaps.
fn flap(bench: &mut Bench, job: &Job<'_>, bytes: f64, alone: f64) -> Result<()> {
    let mut deeds = Vec::new();
    let mut at = Duration::ZERO;
    while at < LIMIT {
        at += FLAP_UP;
        deeds.push((at, Wires::cut as Deed, 1));
        at += FLAP_DOWN;
        deeds.push((at, Wires::mend as Deed, 1));
    }
    deeds.reverse();
    let outcome = job.run(bench, &[0, 1], &mut deeds).context("a path that flaps")?;
    let found = differences(job.tree, &bench.dir.join("copy"), Times::Compared)?;
    super::remove(&bench.dir.join("copy"))?;
    let ratio = bytes / outcome.took.as_secs_f64() / alone;
    bench.verdict(
        ratio >= FLAP_SHARE && found.is_empty() && outcome.finished.code() == 0,
        &format!(
            "a path that is up for {} s and down for {} s beside a steady one: {ratio:.2} of what that carries alone, must be \
             {FLAP_SHARE}; {}",
            FLAP_UP.as_secs(),
            FLAP_DOWN.as_secs(),
            if found.is_empty() { "identical".into() } else { found.join("; ") },
        ),
    );
    Ok(())
}

/// An action on a wire.
type Deed = fn(&Wires, usize, Cut) -> std::result::Result<(), crate::wires::NoWires>;

struct Job<'a> {
    tree: &'a Path,
    scheme: &'a str,
    wires: &'a [Wire; 2],
    cut: Cut,
}

struct Outcome {
    finished: Finished,
    took: Duration,
    longest_stall: Duration,
    /// The begin of the longest stall, since the start of the job.
    stalled_at: Duration,
    /// The bytes received, by time.
    seen: Vec<(Duration, u64)>,
}

impl Outcome {
    /// The cost of a cut at `at`, in seconds; see the module documentation.
    fn cost(&self, at: Duration, alone: f64) -> f64 {
        let by = |when: Duration| {
            let before = self.seen.iter().take_while(|(seen, _)| *seen <= when).last();
            before.map_or(0.0, |(_, bytes)| *bytes as f64)
        };
        let end = (at + AFTER).min(self.took);
        let rate = SHARE * alone;
        ((end - at).as_secs_f64() - (by(end) - by(at)) / rate).max(0.0)
    }
}

impl Job<'_> {
    /// Mirrors over these wires and performs the scheduled actions meanwhile; the next action is last in the
    /// list.
    fn run(&self, bench: &Bench, by: &[usize], deeds: &mut Vec<(Duration, Deed, usize)>) -> Result<Outcome> {
        let net = Wires::up(self.wires, Some(RATE))?;
        let [one, other] = self.wires;
        let url = format!("{}://{}/?addr={}", self.scheme, host(one), other.server);
        let mut serve = net.command(End::Server, bench.programs.path());
        serve.arg("serve").arg(self.tree).args(["--listen", &url, "--plain"]);
        let server = Running::start(&mut serve, &bench.dir, "server")?;
        let copy = bench.dir.join("copy");
        let mut mirror = net.command(End::Client, bench.programs.path());
        mirror.args(["mirror", &url]).arg(&copy).args(["--json", "--plain"]);
        for wire in by {
            mirror.args(["--path", &self.wires[*wire].client.to_string()]);
        }
        let start = Instant::now();
        while !server.has_printed("listening")? {
            if start.elapsed() > LIMIT {
                bail!("the server does not listen: {}", server.stderr_tail()?);
            }
            sleep(LOOK);
        }

        let start = Instant::now();
        let mut client = Running::start(&mut mirror, &bench.dir, "client")?;
        let (mut arrived, mut since) = (0, Duration::ZERO);
        let (mut longest_stall, mut stalled_at) = (Duration::ZERO, Duration::ZERO);
        let mut seen = Vec::new();
        while client.ended()?.is_none() {
            let now = start.elapsed();
            if let Some((_, deed, wire)) = deeds.pop_if(|(when, ..)| now >= *when) {
                deed(&net, wire, self.cut)?;
            }
            let bytes = bytes_below(&copy);
            seen.push((now, bytes));
            if bytes > arrived {
                (arrived, since) = (bytes, now);
            } else if now - since > longest_stall {
                (longest_stall, stalled_at) = (now - since, since);
            }
            if now > LIMIT {
                break;
            }
            sleep(LOOK);
        }
        let took = start.elapsed();
        let finished = client.finish(Duration::ZERO)?;
        Ok(Outcome { finished, took, longest_stall, stalled_at, seen })
    }
}

/// The server's address in the notation of URLs.
fn host(wire: &Wire) -> String {
    if wire.server.is_ipv6() { format!("[{}]", wire.server) } else { wire.server.to_string() }
}

/// The bytes of all files in a folder, unfinished ones included. Files that vanish meanwhile are not counted.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
