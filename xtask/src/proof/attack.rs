//! Attacks on a live server over loopback: those of `sim::attack`. Measures the server's resident memory and
//! the service an honest client gets meanwhile.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::actors::{Link, LinkOptions, Running, Server};
use super::crash::PART;
use super::{Bench, megabytes, passwords, remove};
use crate::tree::{Kind, Shape, make};

/// The attack that is not in the attacker's table.
const PASSWORDS: &str = "passwords";
/// The attacks on servers that protect their sessions, of which one is over TCP.
const HELLOS: &str = "hellos";
const OVER_TCP: &str = "-tcp";
/// The limit of the server's resident memory.
const MOST_BYTES: u64 = 256_000_000;
/// The limit of the memory kept [`GIVES_BACK`] after the attack, above that before.
const KEPT_BYTES: u64 = 48_000_000;
/// The time in which the server must return memory.
const GIVES_BACK: Duration = Duration::from_secs(30);
/// The time limit for an honest client to log in and list a folder.
const LOGIN: Duration = Duration::from_secs(1);
/// The minimum share of its goodput that an honest client keeps.
const KEPT_GOODPUT: f64 = 0.8;
/// The size of the file that an honest client fetches.
const FILE_BYTES: u64 = 40_000_000;
/// The folder of this file, and the folder that attackers list.
const HONEST: &str = "honest";
const LISTED: &str = "listed";
/// Entries of the folder that attackers list, and the length of their names.
const ENTRIES: usize = 5_000;
const NAME_BYTES: usize = 200;
/// The time from the start of an attack to the honest client.
const LEAD: Duration = Duration::from_secs(4);
/// The duration of an attack.
const LASTS: Duration = Duration::from_secs(14);
/// The time limit of an honest client.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the honest client's sessions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    Plain,
    Protected,
}

/// Runs all attacks.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    let honest = tree.join(HONEST);
    make(&honest, &Shape { files: 0, seed: 1, big: FILE_BYTES, kind: Kind::Plain { size: 0 } })?;
    let file = format!("{HONEST}/{}", only_file(&honest)?);
    make_listed(&tree.join(LISTED))?;
    let attacker = bench.programs.example("attack");
    let listed = Command::new(&attacker).arg("--list").output();
    let listed = listed.with_context(|| format!("cannot run {}", attacker.display()))?;
    let listed = String::from_utf8(listed.stdout)?;
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    if names.is_empty() {
        bail!("{} --list names no attack", attacker.display());
    }
    let asked = bench.options.attacks.clone();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    if let Some(unknown) = asked.iter().find(|asked| *asked != PASSWORDS && !names.contains(&asked.as_str()))
    {
        bail!("there is no attack `{unknown}`");
    }
    let names: Vec<&str> = names.into_iter().filter(|name| wanted(name)).collect();
    // Besides, two fetches, and what starts and ends.
    let each = LASTS + GIVES_BACK + Duration::from_secs(10);
    let minutes = (each * names.len() as u32).as_secs().div_ceil(60);
    println!("proof: attack: {} attacks, about {minutes} min; then {PASSWORDS}, about 3 min", names.len());
    for name in names {
        // Other load on this machine takes from both sides, and from goodput most of all.
        println!(
            "proof: {name}: load {}",
            std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim()
        );
        attack(bench, &attacker, &tree, &file, name)?;
    }
    if wanted(PASSWORDS) { passwords::run(bench) } else { Ok(()) }
}

fn attack(bench: &mut Bench, attacker: &Path, tree: &Path, file: &str, name: &str) -> Result<()> {
    // All clients may write: uploads make the server hold the most.
    let start = if name.starts_with(HELLOS) { Server::start_protected } else { Server::start };
    let server = start(&bench.programs, tree, &bench.dir, &["--writable"])?;
    let session = if name.starts_with(HELLOS) { Session::Protected } else { Session::Plain };
    let address = if name.ends_with(OVER_TCP) { server.tcp } else { server.udp };
    let options =
        LinkOptions { rate: "100mbit", delay: "2ms", loss: 0.0, queue: "500kB", more: Vec::new(), seed: 1 };
    let link = Link::start(&bench.programs, server.udp, &options, &bench.dir)?;
    let quiet = fetch(bench, &server, &link, session)?.context("the client failed without an attack")?;
    let before = server.running.memory().context("the server is gone")?;
    let mut command = Command::new(attacker);
    command.args([name, &address.to_string(), &LASTS.as_secs().to_string(), file, LISTED]);
    let mut attack = Running::start(&mut command, &bench.dir, "attack")?;
    sleep(LEAD);
    let login = list(bench, &server, &link, session)?;
    let during = fetch(bench, &server, &link, session)?;
    let told = attack.finish(PATIENCE)?;
    if told.code() != 0 {
        bail!("attack {name}: {}", told.stderr);
    }
    let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let peak = server.running.peak_memory().context("the server is gone")?;
    sleep(GIVES_BACK);
    let after = server.running.memory().context("the server is gone")?;
    remove_unfinished(tree)?;
    println!("proof: {told}");
    bench.verdict(
        peak <= MOST_BYTES && after <= before + KEPT_BYTES,
        &format!(
            "{name}: {} resident before, at most {} (may be {}), {} {} s after (may be {} more than before)",
            megabytes(before),
            megabytes(peak),
            megabytes(MOST_BYTES),
            megabytes(after),
            GIVES_BACK.as_secs(),
            megabytes(KEPT_BYTES),
        ),
    );
    bench.verdict(
        login.is_some_and(|took| took <= LOGIN),
        &format!("{name}: an honest client lists in {}", seconds(login)),
    );
    bench.verdict(
        during.is_some_and(|took| quiet.as_secs_f64() >= KEPT_GOODPUT * took.as_secs_f64()),
        &format!(
            "{name}: an honest client fetches {} in {}, without the attack in {}",
            megabytes(FILE_BYTES),
            seconds(during),
            seconds(Some(quiet))
        ),
    );
    Ok(())
}

fn seconds(took: Option<Duration>) -> String {
    took.map_or_else(|| "vain".to_owned(), |took| format!("{:.2} s", took.as_secs_f64()))
}

/// The folder of an honest client, through the link.
fn honest_url(server: &Server, link: &Link) -> String {
    format!("{}{HONEST}/", server.url("braid", Some(link)))
}

/// Creates the folder that attackers list: empty files with long names.
fn make_listed(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for nth in 0..ENTRIES {
        std::fs::File::create(folder.join(format!("{nth:0>NAME_BYTES$}")))?;
    }
    Ok(())
}

/// The time in which an honest client fetches its folder, if it succeeds.
fn fetch(bench: &Bench, server: &Server, link: &Link, session: Session) -> Result<Option<Duration>> {
    let copy = bench.dir.join("copy");
    remove(&copy)?;
    let mut command = bench.programs.braidftp();
    let url = honest_url(server, link);
    command.args(["mirror", &url]).arg(&copy).args(["--mode", "braid", "--json"]);
    timed(bench, &mut command, session)
}

/// The time in which an honest client lists the folder.
fn list(bench: &Bench, server: &Server, link: &Link, session: Session) -> Result<Option<Duration>> {
    let mut command = bench.programs.braidftp();
    command.args(["ls", &honest_url(server, link)]);
    timed(bench, &mut command, session)
}

/// The time that a client's command takes, if it succeeds.
pub(super) fn timed(bench: &Bench, command: &mut Command, session: Session) -> Result<Option<Duration>> {
    match session {
        Session::Plain => command.arg("--plain"),
        Session::Protected => {
            command.arg("--accept-new").arg("--known-hosts").arg(bench.dir.join("known_hosts"))
        }
    };
    let start = Instant::now();
    let finished = Running::start(command, &bench.dir, "client")?.finish(PATIENCE)?;
    Ok((finished.code() == 0).then(|| start.elapsed()))
}

/// Removes the remains of interrupted uploads.
fn remove_unfinished(tree: &Path) -> Result<()> {
    for entry in std::fs::read_dir(tree)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(PART) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The name of the tree's only file.
fn only_file(tree: &Path) -> Result<String> {
    let mut files = std::fs::read_dir(tree)?.collect::<std::io::Result<Vec<_>>>()?;
    match (files.pop(), files.is_empty()) {
        (Some(file), true) => file.file_name().into_string().ok().context("the file's name is not UTF-8"),
        _ => bail!("{} does not hold one file", tree.display()),
    }
}
