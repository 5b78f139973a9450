//! Third-party clients against this server over TCP, and the demo.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Bench;
use super::actors::{Running, Server};
use super::compare::{Times, differences};
use crate::shell::on_path;
use crate::tree::{Kind, Shape, make};

const LIMIT: Duration = Duration::from_secs(600);

/// The time limit of the demo, with its source tree and a link of 3 Mbit/s.
const DEMO_LIMIT: Duration = Duration::from_secs(900);

/// lftp and curl download and upload a plain tree.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    let made =
        make(&tree, &Shape { files: 2_000, seed: 1, big: 200_000_000, kind: Kind::Plain { size: 3_000 } })?;
    fs::write(tree.join("a name with spaces, \u{fc}ml\u{e4}uts & 100%"), "x")?;
    println!("proof: {} files, {} bytes", made.files + 1, made.bytes + 1);
    let server = Server::start(&bench.programs, &tree, &bench.dir, &[])?;
    let url = format!("ftp://{}", server.tcp);

    let copy = bench.dir.join("copy-lftp");
    let script = format!("set cmd:fail-exit yes; open {url}; mirror --parallel=4 . {}", copy.display());
    one(bench, "lftp mirror", Command::new("lftp").args(["--norc", "-c", &script]), Some((&tree, &copy)))?;

    let copy = bench.dir.join("copy-curl");
    fs::create_dir_all(&copy)?;
    let big = format!("{url}/big");
    one(bench, "curl RETR", Command::new("curl").args(["-sS", &big, "-o"]).arg(copy.join("big")), None)?;
    let half = fs::File::options().write(true).open(copy.join("big"));
    half.and_then(|file| file.set_len(77_777_777))?;
    one(
        bench,
        "curl resume",
        Command::new("curl").args(["-sS", "-C", "-", &big, "-o"]).arg(copy.join("big")),
        None,
    )?;
    let same = fs::read(tree.join("big"))? == fs::read(copy.join("big"))?;
    bench.verdict(same, "curl: the resumed file is the file");

    let room = bench.dir.join("room");
    fs::create_dir_all(&room)?;
    let writable = Server::start(&bench.programs, &room, &bench.dir, &["--writable"])?;
    let url = format!("ftp://{}", writable.tcp);
    let script = format!("set cmd:fail-exit yes; open {url}; mirror -R --parallel=4 {} up", tree.display());
    one(
        bench,
        "lftp mirror -R",
        Command::new("lftp").args(["--norc", "-c", &script]),
        Some((&tree, &room.join("up"))),
    )?;
    let target = format!("{url}/big-by-curl");
    one(bench, "curl STOR", Command::new("curl").arg("-sST").arg(tree.join("big")).arg(&target), None)?;
    let same = fs::read(tree.join("big"))? == fs::read(room.join("big-by-curl"))?;
    bench.verdict(same, "curl: the uploaded file is the file");
    Ok(())
}

/// Runs a command of theirs: requires exit code 0, and optionally equal trees.
fn one(bench: &mut Bench, what: &str, command: &mut Command, trees: Option<(&Path, &Path)>) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    if !on_path(&program) {
        bench.verdict(false, &format!("{what}: {program} is not installed; cargo xtask test installs it"));
        return Ok(());
    }
    let start = Instant::now();
    let finished = Running::start(command, &bench.dir, &program)?.finish(LIMIT)?;
    let seconds = start.elapsed().as_secs_f64();
    let found = match trees {
        Some((tree, copy)) => differences(tree, copy, Times::Ignored)?,
        None => Vec::new(),
    };
    bench.verdict(
        finished.code() == 0 && found.is_empty(),
        &format!(
            "{what}: exit code {} after {seconds:.1} s; {} {}",
            finished.code(),
            found.join("; "),
            finished.stderr
        ),
    );
    Ok(())
}

/// Runs the demo on the sources of this project.
pub(super) fn demo(bench: &mut Bench) -> Result<()> {
    let mut command = bench.programs.braidftp();
    command.arg("demo").current_dir(&bench.dir);
    let start = Instant::now();
    let finished = Running::start(&mut command, &bench.dir, "demo")?.finish(DEMO_LIMIT)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{}", String::from_utf8_lossy(&finished.stdout));
    bench.verdict(
        finished.code() == 0,
        &format!("exit code {} after {seconds:.1} s {}", finished.code(), finished.stderr),
    );
    let picture = fs::read_to_string(bench.dir.join("demo.svg")).unwrap_or_default();
    bench.verdict(picture.contains("<svg"), &format!("demo.svg has {} bytes", picture.len()));
    for mode in ["tcp", "naive", "ms", "ms-cp", "braid"] {
        let table = String::from_utf8_lossy(&finished.stdout);
        let named = table.lines().any(|line| line.split_whitespace().any(|word| word == mode));
        bench.verdict(named, &format!("the table has a line for {mode}"));
    }
    Ok(())
}
