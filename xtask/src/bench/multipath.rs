//! `cargo xtask bench multipath`: mirrors a tree over two and three real paths at once and over each alone,
//! with the released programs. For comparison the kernel's MPTCP transfers as many bytes in one flow.
//!
//! The paths are those of `braidlab net`: network namespaces, TUN devices and links run by the wall clock; so
//! the benchmark requires root. Each round runs all of them one after another, and ratios are taken within a
//! round: to the sum of what the paths carry alone, and to the best path alone. Medians are over the rounds.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::median;
use crate::shell::{capture, check, quietly, root};
use crate::tree::{Kind, Shape, make};

const USAGE: &str =
    "usage: cargo xtask bench multipath [--rounds N] [--quick] [--only TEXT] [--programs DIR]";

/// The name of the hosts.
const NET: &str = "xtask-mp";
const MPTCP_PORT: &str = "5001";
/// The duration of the longest run at the sum of the rates, in seconds.
const SECONDS: u64 = 12;
const FILE_BYTES: u64 = 200_000;

/// A set of paths: their links, and the sum of their rates in Mbit/s.
struct Scenario {
    name: &'static str,
    paths: &'static [&'static str],
    mbit: u64,
    /// The required ratio of all paths at once to the sum of each alone.
    target: f64,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "two alike",
        paths: &["rate=10mbit,delay=20ms,queue=100kB", "rate=10mbit,delay=20ms,queue=100kB"],
        mbit: 20,
        target: 0.95,
    },
    Scenario {
        name: "20 Mbit/s, 10 ms and 5 Mbit/s, 150 ms",
        paths: &["rate=20mbit,delay=10ms,queue=100kB", "rate=5mbit,delay=150ms,queue=200kB"],
        mbit: 25,
        target: 0.90,
    },
    Scenario {
        name: "50 Mbit/s, 300 ms and 20 Mbit/s, 30 ms, 1 % lost",
        paths: &["rate=50mbit,delay=300ms,queue=1MB", "rate=20mbit,delay=30ms,loss=0.01,queue=100kB"],
        mbit: 70,
        target: 0.90,
    },
    Scenario {
        name: "three alike",
        paths: &[
            "rate=8mbit,delay=20ms,queue=100kB",
            "rate=8mbit,delay=20ms,queue=100kB",
            "rate=8mbit,delay=20ms,queue=100kB",
        ],
        mbit: 24,
        target: 0.93,
    },
];

/// Runs the benchmark and prints a table.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (mut rounds, mut quick, mut only, mut programs) = (3, false, String::new(), None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = args.next().context(USAGE)?.parse().context("--rounds takes a number")?,
            "--quick" => quick = true,
            "--only" => only = args.next().context(USAGE)?.clone(),
            "--programs" => programs = Some(PathBuf::from(args.next().context(USAGE)?)),
            _ => bail!("{USAGE}"),
        }
    }
    let rounds = if quick { 1 } else { rounds };
    let bench = Bench::new(programs, if quick { SECONDS / 3 } else { SECONDS })?;
    println!("| paths | who | Mbit/s | of the sum | of the better alone | must be |");
    println!("|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&only)) {
        let mut outcomes = Vec::new();
        for round in 1..=rounds {
            let outcome =
                bench.round(scenario).with_context(|| format!("{}, round {round}", scenario.name))?;
            eprintln!("round {round}: {}: {outcome:.2?}", scenario.name);
            outcomes.push(outcome);
        }
        let middle = |value: &dyn Fn(&Round) -> f64| median(outcomes.iter().map(value).collect());
        for path in 0..scenario.paths.len() {
            println!(
                "| {} | path {} alone | {:.2} | | | |",
                scenario.name,
                path + 1,
                middle(&|o| o.alone[path])
            );
        }
        let ratio = middle(&|outcome| outcome.all / outcome.sum());
        println!(
            "| {} | all at once | {:.2} | {ratio:.3} | {:.3} | {:.2} |",
            scenario.name,
            middle(&|outcome| outcome.all),
            middle(&|outcome| outcome.all / outcome.better()),
            scenario.target,
        );
        if ratio < scenario.target {
            missed.push(format!("{}: {ratio:.3} of the sum, must be {}", scenario.name, scenario.target));
        }
        let mptcp: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.mptcp).collect();
        if mptcp.len() == outcomes.len() {
            println!(
                "| {} | kernel MPTCP | {:.2} | {:.3} | {:.3} | |",
                scenario.name,
                median(mptcp),
                middle(&|outcome| outcome.mptcp.unwrap_or(f64::NAN) / outcome.sum()),
                middle(&|outcome| outcome.mptcp.unwrap_or(f64::NAN) / outcome.better()),
            );
        }
    }
    if !missed.is_empty() && !quick {
        bail!("{}", missed.join("; "));
    }
    Ok(())
}

/// The goodputs of a round, in Mbit/s.
#[derive(Debug)]
struct Round {
    alone: Vec<f64>,
    all: f64,
    mptcp: Option<f64>,
}

impl Round {
    fn sum(&self) -> f64 {
        self.alone.iter().sum()
    }

    fn better(&self) -> f64 {
        self.alone.iter().copied().fold(0.0, f64::max)
    }
}

struct Bench {
    braidftp: PathBuf,
    braidlab: PathBuf,
    dir: PathBuf,
    seconds: u64,
}

/// The two hosts; dropping this removes them.
struct Net<'a>(&'a Bench);

impl Drop for Net<'_> {
    fn drop(&mut self) {
        // Errors were reported when the net was created.
        let _ = Command::new(&self.0.braidlab).args(["net", "down", NET]).output();
    }
}

/// A server; dropping this ends it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bench {
    fn new(programs: Option<PathBuf>, seconds: u64) -> Result<Self> {
        let folder = super::released(programs)?;
        let dir = root().join("target/bench-multipath");
        std::fs::create_dir_all(&dir)?;
        Ok(Self { braidftp: folder.join("braidftp"), braidlab: folder.join("braidlab"), dir, seconds })
    }

    fn round(&self, scenario: &Scenario) -> Result<Round> {
        let mut up = Command::new(&self.braidlab);
        up.args(["net", "up", NET]);
        scenario.paths.iter().for_each(|path| {
            up.args(["--path", path]);
        });
        // Removes the net of an interrupted run.
        let _ = Command::new(&self.braidlab).args(["net", "down", NET]).output();
        check(up.stdout(Stdio::null())).context("this requires root and network namespaces")?;
        let net = Net(self);
        let paths: Vec<usize> = (1..=scenario.paths.len()).collect();
        let alone = paths.iter().map(|path| net.mirror(scenario, &[*path])).collect::<Result<_>>()?;
        let all = net.mirror(scenario, &paths)?;
        let mptcp = match net.mptcp(scenario) {
            Ok(mbit) => Some(mbit),
            Err(error) => {
                eprintln!("=================================== NOTICE ===================================");
                eprintln!("The kernel's MPTCP is LEFT OUT: {error:#}");
                eprintln!("==============================================================================");
                None
            }
        };
        Ok(Round { alone, all, mptcp })
    }
}

impl Net<'_> {
    fn on(&self, host: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(&self.0.braidlab);
        command.args(["net", "exec", NET, host]).arg(program);
        command
    }

    /// Starts a server and waits until it reports that it listens.
    fn serve(&self, command: &mut Command) -> Result<Server> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let server = Server(child);
        let (said, heard) = std::sync::mpsc::channel();
        let streams: [Option<Box<dyn std::io::Read + Send>>; 2] =
            [out.map(|it| Box::new(it) as _), err.map(|it| Box::new(it) as _)];
        for stream in streams.into_iter().flatten() {
            let said = said.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = said.send(line);
                }
            });
        }
        drop(said);
        let mut words = String::new();
        while let Ok(line) = heard.recv_timeout(std::time::Duration::from_secs(20)) {
            if line.starts_with("listening") {
                return Ok(server);
            }
            words.push_str(&line);
        }
        bail!("the server does not listen: {words}")
    }

    /// The goodput of mirroring files over these paths, in Mbit/s.
    fn mirror(&self, scenario: &Scenario, paths: &[usize]) -> Result<f64> {
        let (tree, copy) = (self.0.tree(scenario, paths)?, self.0.dir.join("copy"));
        let _ = std::fs::remove_dir_all(&copy);
        let more: Vec<_> = paths[1..].iter().map(|path| format!("addr=10.1.{path}.1")).collect();
        let url = format!("ftp+sctp://10.1.{}.1:9899/?{}", paths[0], more.join("&"));
        let mut serve = self.on("server", &self.0.braidftp);
        let server = self.serve(serve.arg("serve").arg(&tree).args([
            "--plain",
            "--listen",
            url.trim_end_matches('?'),
        ]))?;
        let mut mirror = self.on("client", &self.0.braidftp);
        mirror.args(["mirror", url.trim_end_matches('?')]).arg(&copy).args(["--json", "--plain"]);
        for path in paths {
            mirror.args(["--path", &format!("10.1.{path}.2=10.1.{path}.1")]);
        }
        let said = String::from_utf8(capture(&mut mirror)?)?;
        drop(server);
        let summary: Value = serde_json::from_str(said.lines().last().unwrap_or_default())?;
        let number =
            |name: &str| summary[name].as_f64().with_context(|| format!("`{summary}` has no {name}"));
        Ok(number("bytes")? * 8.0 / 1e6 / number("seconds")?)
    }

    /// The goodput of one flow of the kernel's MPTCP over all paths, in Mbit/s.
    fn mptcp(&self, scenario: &Scenario) -> Result<f64> {
        let count = scenario.paths.len().to_string();
        for host in ["client", "server"] {
            let mut limits = self.on(host, "ip");
            quietly(limits.args(["mptcp", "limits", "set", "subflow", &count, "add_addr_accepted", &count]))?;
        }
        for path in 2..=scenario.paths.len() {
            let address = format!("10.1.{path}.1");
            let _ = quietly(self.on("server", "ip").args(["mptcp", "endpoint", "add", &address, "signal"]));
        }
        let program = root().join("bench-peers/mptcp_flow.py");
        let bytes = (scenario.mbit * 1_000_000 / 8 * self.0.seconds).to_string();
        let mut serve = self.on("server", "python3");
        // The server listens on any address, so that subflows to announced addresses find a listener.
        let server = self.serve(serve.arg(&program).args(["serve", "0.0.0.0", MPTCP_PORT, &bytes]))?;
        let mut fetch = self.on("client", "python3");
        let said = capture(fetch.arg(&program).args(["fetch", "10.1.1.1", MPTCP_PORT]))?;
        drop(server);
        let report: Value = serde_json::from_slice(&said)?;
        if report["subflows"].as_u64() != Some(scenario.paths.len() as u64) {
            bail!("it used {} of {} paths", report["subflows"], scenario.paths.len());
        }
        let number = |name: &str| report[name].as_f64().with_context(|| format!("`{report}` has no {name}"));
        Ok(number("bytes")? * 8.0 / 1e6 / number("seconds")?)
    }
}

impl Bench {
    /// A tree whose transfer over these paths takes as long as that of the whole tree over all paths.
    fn tree(&self, scenario: &Scenario, paths: &[usize]) -> Result<PathBuf> {
        let tree = self.dir.join("tree");
        let _ = std::fs::remove_dir_all(&tree);
        let share = paths.len() as u64 * scenario.mbit / scenario.paths.len() as u64;
        let bytes = share * 1_000_000 / 8 * self.seconds;
        let files = usize::try_from(bytes / FILE_BYTES)?.max(8);
        make(&tree, &Shape { files, seed: 1, big: 0, kind: Kind::Plain { size: FILE_BYTES } })?;
        Ok(Path::new(&tree).to_owned())
    }
}
