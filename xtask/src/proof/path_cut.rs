//! A path is cut in the middle of a job, comes back, and then the other is cut: over UDP and over IP itself, IPv4, IPv6
//! and a mix, by interfaces that go down and by packets that vanish silently.

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

/// Of each wire each way. The job takes 8 s then, unless it stops.
const RATE: &str = "40mbit";
/// Of this many bytes, so that what is on the disk shows progress.
const FILE_BYTES: u64 = 100_000;
const FILES: usize = 400;
/// What happens to which wire, and when: the first is cut, mended, and then the second is cut, for good.
const CUT_FIRST: Duration = Duration::from_millis(1_500);
const MEND_FIRST: Duration = Duration::from_millis(3_500);
const CUT_SECOND: Duration = Duration::from_millis(5_500);
/// The longest that nothing may arrive. With an RTT of at most the 40 ms of a full queue and `modern` defaults, an RTO
/// is some 150 ms; a path is left at its first, and a path that returns shows at a HEARTBEAT.
const STALL_MAX: Duration = Duration::from_secs(2);
/// Longest that the job may take in all.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at what arrived.
const LOOK: Duration = Duration::from_millis(20);

/// `ftp+sctp` and `ftp+sctp-ip`, over two wires each.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    let made = make(&tree, &Shape { files: FILES, seed: 1, big: 0, kind: Kind::Plain { size: FILE_BYTES } })?;
    for scheme in ["ftp+sctp", "ftp+sctp-ip"] {
        for (family, wires) in [
            ("IPv4", [Wire::v4(1), Wire::v4(2)]),
            ("IPv6", [Wire::v6(1), Wire::v6(2)]),
            ("IPv4 and IPv6", [Wire::v4(1), Wire::v6(2)]),
        ] {
            for cut in [Cut::Silent, Cut::Down(End::Server), Cut::Down(End::Client)] {
                let name = format!("{scheme}, {family}, {cut}");
                let job = Job { tree: &tree, scheme, wires: &wires, cut };
                let outcome = job.run(bench).with_context(|| name.clone())?;
                let mut found = differences(&tree, &bench.dir.join("copy"), Times::Compared)?;
                if outcome.finished.code() != 0 {
                    found.push(format!("exit code {}: {}", outcome.finished.code(), outcome.finished.stderr));
                }
                let stall = outcome.longest_stall;
                if stall > STALL_MAX {
                    found.push("it stood still for too long".into());
                }
                let what = if found.is_empty() { "identical".to_owned() } else { found.join("; ") };
                bench.verdict(
                    found.is_empty(),
                    &format!(
                        "{name}: {} bytes in {:.1} s, never without progress for more than {:.2} s (at {:.1} s): {what}",
                        made.bytes,
                        outcome.took.as_secs_f64(),
                        stall.as_secs_f64(),
                        outcome.stalled_at.as_secs_f64(),
                    ),
                );
                super::remove(&bench.dir.join("copy"))?;
            }
        }
    }
    Ok(())
}

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
    /// When the longest stall began, since the job did.
    stalled_at: Duration,
}

impl Job<'_> {
    fn run(&self, bench: &Bench) -> Result<Outcome> {
        let net = Wires::up(self.wires, Some(RATE))?;
        let [one, other] = self.wires;
        let url = format!("{}://{}/?addr={}", self.scheme, host(one), other.server);
        let mut serve = net.command(End::Server, bench.programs.path());
        serve.arg("serve").arg(self.tree).args(["--listen", &url]);
        let server = Running::start(&mut serve, &bench.dir, "server")?;
        let copy = bench.dir.join("copy");
        let mut mirror = net.command(End::Client, bench.programs.path());
        mirror.args(["mirror", &url]).arg(&copy).arg("--json");
        for wire in self.wires {
            mirror.args(["--path", &wire.client.to_string()]);
        }
        let start = Instant::now();
        while !server.has_said("listening")? {
            if start.elapsed() > LIMIT {
                bail!("the server does not listen: {}", server.words()?);
            }
            sleep(LOOK);
        }

        let start = Instant::now();
        let mut client = Running::start(&mut mirror, &bench.dir, "client")?;
        let mut deeds = [
            (CUT_FIRST, Wires::cut as fn(&Wires, usize, Cut) -> _, 0),
            (MEND_FIRST, Wires::mend, 0),
            (CUT_SECOND, Wires::cut, 1),
        ]
        .into_iter()
        .peekable();
        let (mut arrived, mut since) = (0, Duration::ZERO);
        let (mut longest_stall, mut stalled_at) = (Duration::ZERO, Duration::ZERO);
        while client.ended()?.is_none() {
            let now = start.elapsed();
            if let Some((_, deed, wire)) = deeds.next_if(|(when, ..)| now >= *when) {
                deed(&net, wire, self.cut)?;
            }
            let bytes = bytes_below(&copy);
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
        if deeds.next().is_some() {
            bail!("the job was over in {:.1} s, before all cuts: {}", took.as_secs_f64(), finished.stderr);
        }
        Ok(Outcome { finished, took, longest_stall, stalled_at })
    }
}

/// The server's address as a URL has it.
fn host(wire: &Wire) -> String {
    if wire.server.is_ipv6() { format!("[{}]", wire.server) } else { wire.server.to_string() }
}

/// Bytes in all files below a folder, those that are not whole yet among them. What vanishes meanwhile does not count.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
