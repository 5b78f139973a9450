//! Mirrors a tree with every congestion controller, through a relay that needs no root and over a net of two
//! hosts that does: the copies must be identical. `braidlab run utilisation` measures their speed.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::actors::{Link, LinkOptions, Running, Server, mirror};
use super::compare::{Times, differences};
use super::{Bench, remove};
use crate::shell::capture;
use crate::tree::{Kind, Made, Shape, make};

/// A tree that takes some seconds at the links' rate, so that the windows open and close.
const FILES: usize = 100;
const BIG: u64 = 2_000_000;
/// The time limit of one mirror.
const LIMIT: Duration = Duration::from_secs(300);
/// The links, both ways.
const RATE: &str = "20mbit";
const DELAY: &str = "10ms";
const LOSS: f64 = 0.01;
const QUEUE: &str = "100kB";
/// The name of the net while it is up, and its server's address.
const NET: &str = "proof";
const SERVER: &str = "10.1.1.1";

/// Through `braidlab link`.
pub(super) fn link(bench: &mut Bench) -> Result<()> {
    let options =
        LinkOptions { rate: RATE, delay: DELAY, loss: LOSS, queue: QUEUE, more: Vec::new(), seed: 7 };
    each(bench, |bench, tree, name| {
        let server = Server::start(&bench.programs, tree, &bench.dir, &["--cc", name])?;
        let link = Link::start(&bench.programs, server.udp, &options, &bench.dir)?;
        let url = server.url("braid", Some(&link));
        let command = mirror(&bench.programs, &url, &bench.dir.join("copy"), "braid");
        let seconds = run(bench, command, name)?;
        link.counters()?;
        Ok(seconds)
    })
}

/// Through `braidlab net`.
pub(super) fn net(bench: &mut Bench) -> Result<()> {
    let user = capture(Command::new("id").arg("-u"))?;
    if user.trim_ascii() != b"0" {
        println!("proof: LEFT OUT: a net of two hosts needs root");
        return Ok(());
    }
    let _net = Net::up(bench)?;
    each(bench, |bench, tree, name| {
        let url = format!("ftp+sctp://{SERVER}/");
        let mut serve = on(bench, "server");
        serve.arg("serve").arg(tree).args(["--listen", &url, "--cc", name, "--plain"]);
        let server = Running::start(&mut serve, &bench.dir, "server")?;
        let start = Instant::now();
        while !server.has_printed("listening")? {
            if start.elapsed() > LIMIT {
                bail!("the server does not listen: {}", server.stderr_tail()?);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut command = on(bench, "client");
        command
            .args(["mirror", &url])
            .arg(bench.dir.join("copy"))
            .args(["--mode", "braid", "--json", "--plain"]);
        run(bench, command, name)
    })
}

/// Mirrors the tree with each controller by `job`, and reports the time.
fn each(bench: &mut Bench, job: impl Fn(&Bench, &Path, &str) -> Result<f64>) -> Result<()> {
    let tree = bench.dir.join("tree");
    let Made { files, bytes } = make(&tree, &Shape { files: FILES, seed: 1, big: BIG, kind: Kind::Nasty })?;
    for name in names(bench)? {
        let outcome = job(bench, &tree, &name);
        let copy = bench.dir.join("copy");
        let (seconds, mut found) = match outcome {
            Ok(seconds) => (seconds, Vec::new()),
            Err(error) => (f64::NAN, vec![format!("{error:#}")]),
        };
        found.extend(differences(&tree, &copy, Times::Compared)?);
        let what = if found.is_empty() { "identical".to_owned() } else { found.join("; ") };
        bench.verdict(
            found.is_empty(),
            &format!("{name}: {files} files, {bytes} bytes in {seconds:.1} s: {what}"),
        );
        remove(&copy)?;
    }
    Ok(())
}

/// Runs a mirror with a controller; returns the seconds.
fn run(bench: &Bench, mut command: Command, name: &str) -> Result<f64> {
    let start = Instant::now();
    let mut client = Running::start(command.args(["--cc", name]), &bench.dir, &format!("client-{name}"))?;
    let finished = client.finish(LIMIT)?;
    match finished.code() {
        0 => Ok(start.elapsed().as_secs_f64()),
        code => bail!("exit code {code}: {}", finished.stderr),
    }
}

/// The names of all controllers, taken from the program's error for an unknown one.
fn names(bench: &Bench) -> Result<Vec<String>> {
    let url = "ftp+sctp://127.0.0.1:9/";
    let output =
        mirror(&bench.programs, url, &bench.dir.join("none"), "braid").args(["--cc", "none"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let (_, listed) = said.split_once("there are ").with_context(|| format!("no names in `{said}`"))?;
    let listed = listed.lines().next().unwrap_or_default();
    Ok(listed.split(", ").map(|name| name.trim().to_owned()).collect())
}

/// `braidftp` on a host of the net.
fn on(bench: &Bench, host: &str) -> Command {
    let mut command = bench.programs.braidlab();
    command.args(["net", "exec", NET, host]).arg(bench.programs.path());
    command
}

/// The net; dropping it removes the net.
struct Net {
    down: Command,
}

impl Net {
    fn up(bench: &Bench) -> Result<Self> {
        let mut down = bench.programs.braidlab();
        down.args(["net", "down", NET]);
        let path = format!("rate={RATE},delay={DELAY},loss={LOSS},queue={QUEUE}");
        let up = bench.programs.braidlab().args(["net", "up", NET, "--path", &path]).output()?;
        if !up.status.success() {
            bail!("the net does not come up: {}", String::from_utf8_lossy(&up.stderr));
        }
        Ok(Self { down })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // The counters are not used.
        let _ = self.down.output();
    }
}
