//! `braidlab compare` with a script in place of braidftp, so that tests are fast. Skipped with a message
//! without root and /dev/net/tun.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use braidftp_lab::compare::rows::{self, World};

/// A generous time limit for busy machines.
const PATIENCE: Duration = Duration::from_secs(120);

/// A script that serves and fetches like braidftp, by copying; with a file `hang` beside it the client
/// never ends.
fn stand_in(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("braidftp");
    let script = format!(
        "#!/bin/sh\n\
         cd {}\n\
         echo $$ >> processes\n\
         case $1 in\n\
         serve) echo $2 > served.$$; mv served.$$ served; echo 'listening here' >&2; exec sleep 1000;;\n\
         get) while [ $1 != --output ]; do shift; done\n\
         if [ -e hang ]; then touch hangs; exec sleep 1000; fi\n\
         echo '> RETR f0000' >&2\n\
         cp $(cat served)/* $2\n\
         for file in $2/*; do echo '{{\"event\":\"file\"}}'; done;;\n\
         esac\n",
        folder.display()
    );
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn compare(folder: &Path, cells: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidlab"));
    command.args(["compare", "--cells", cells, "--runs", "2", "--out"]).arg(folder.join("out"));
    command.arg("--braidftp").arg(stand_in(folder));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether the command reports that nets are impossible here.
fn is_skipped(said: &str) -> bool {
    let skipped = said.contains("/dev/net/tun") || said.contains("namespace");
    if skipped {
        eprintln!("SKIPPED: {said}");
    }
    skipped
}

#[test]
fn cells_are_run_in_both_worlds_and_stored() {
    let folder = tempfile::tempdir().unwrap();
    let output = compare(folder.path(), "lan/10k/0/ms,lan/10k/0/braid").output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() != Some(0) && is_skipped(&said) {
        return;
    }
    assert!(said.contains("SCTP: median of the ratios of 2 cells"), "{said}");
    let (head, rows) = rows::read(&folder.path().join("out/compare.csv")).unwrap();
    assert!(head.get("command").unwrap().starts_with("braidlab compare --cells"));
    let count = |world| rows.iter().filter(|row| row.world == world).count();
    assert_eq!((count(World::Simulated), count(World::Live)), (2, 4));
    assert!(!folder.path().join("out/compare.csv.part").exists());
}

/// Starts a comparison whose client never ends, and waits until it runs.
fn hanging(folder: &Path) -> Option<Child> {
    fs::write(folder.join("hang"), "").unwrap();
    let mut child = compare(folder, "lan/10k/0/ms").spawn().unwrap();
    let started = Instant::now();
    while !folder.join("hangs").exists() {
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(is_skipped(&said), "{said}");
            return None;
        }
        assert!(started.elapsed() < PATIENCE, "no client was started");
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(child)
}

/// Ends it with a signal, and waits for all the processes it started. Returns its exit code and its folder
/// of files.
fn ended_by(signal: &str, folder: &Path, mut child: Child) -> (Option<i32>, std::path::PathBuf) {
    let files = fs::read_to_string(folder.join("served")).unwrap();
    let files = Path::new(files.trim()).parent().unwrap().to_owned();
    assert!(files.is_dir());
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    let started = Instant::now();
    let processes = fs::read_to_string(folder.join("processes")).unwrap();
    assert!(processes.lines().count() >= 2, "a server and a client");
    // A zombie has an empty command line.
    let lives = |process: &str| {
        fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| words.starts_with(b"sleep"))
    };
    while processes.lines().any(lives) {
        assert!(started.elapsed() < PATIENCE, "programs outlived the command");
        std::thread::sleep(Duration::from_millis(5));
    }
    (status.code(), files)
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let Some(child) = hanging(folder.path()) else { return };
    let (code, files) = ended_by("-INT", folder.path(), child);
    assert_eq!(code, Some(130));
    assert!(!files.exists());
    assert!(folder.path().join("out/compare.csv.part").exists(), "rows before the interrupt");
}

#[test]
fn files_left_by_a_kill_are_removed_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let Some(child) = hanging(folder.path()) else { return };
    let (code, files) = ended_by("-KILL", folder.path(), child);
    assert_eq!(code, None);
    fs::remove_file(folder.path().join("hang")).unwrap();
    compare(folder.path(), "lan/10k/0/ms").output().unwrap();
    assert!(!files.exists());
}

#[test]
fn errors_are_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let said = |words: &[&str]| {
        let output = compare(folder.path(), "lan/10k/0/ms").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&["--cells", "lan/10k/0"]).contains("PATH/SIZE/LOSS/WAY"));
    assert!(said(&["--cells", "lan/10k/2/ms"]).contains("0, 1, 3, 6, 10"));
    assert!(said(&["--carrier", "dccp"]).contains("udp, ip"));
    let missing = Command::new(env!("CARGO_BIN_EXE_braidlab"))
        .args(["compare", "--cells", "lan/10k/0/ms", "--braidftp", "/nonexistent/braidftp"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no program /nonexistent/braidftp"));
}
