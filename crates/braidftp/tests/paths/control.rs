//! Several paths at once, one of which is disabled and enabled while a job runs: two wires between two
//! network namespaces. And messages about unusable paths.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::path_support::{LIMIT, PROGRAM, Running, serve};
use braidftp_emu::wires::{End, Wire, Wires};
use tempfile::TempDir;

const FILES: usize = 300;
const FILE_BYTES: usize = 100_000;
/// With this rate the job takes 6 s over both wires.
const RATE: &str = "20mbit";

/// Parses the output of `braidftp path`: the state of each path, and the bytes received on it.
fn list(output: &Output) -> Vec<(String, u64)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let state = line.split(' ').nth(1)?.to_owned();
        let received = line.split(", ").nth(1)?.strip_suffix(" in")?.parse().ok()?;
        Some((state, received))
    };
    text.lines().filter(|text| !text.is_empty()).map(|text| line(text).expect(text)).collect()
}

fn say(socket: &Path, words: &[&str]) -> Output {
    Command::new(PROGRAM).arg("path").arg(socket).args(words).output().unwrap()
}

/// Repeats the query until the answer satisfies `is`.
fn until(socket: &Path, what: &str, mut is: impl FnMut(&[(String, u64)]) -> bool) -> Vec<(String, u64)> {
    let start = Instant::now();
    loop {
        let output = say(socket, &[]);
        let paths = if output.status.success() { list(&output) } else { Vec::new() };
        if is(&paths) {
            return paths;
        }
        assert!(start.elapsed() < LIMIT, "{what}: {paths:?} {output:?}");
        sleep(Duration::from_millis(20));
    }
}

/// A served tree and a running mirror of it, with two wires between them.
struct Job {
    net: Wires,
    url: String,
    folder: TempDir,
    server: Running,
    client: Running,
}

impl Job {
    /// `None` if network namespaces are not available.
    fn begin() -> Option<Self> {
        let between = [Wire::v4(1), Wire::v4(2)];
        let net = Wires::up(&between, Some(RATE)).map_err(|error| eprintln!("LEFT OUT: {error}")).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for file in 0..FILES {
            std::fs::write(tree.join(file.to_string()), vec![file as u8; FILE_BYTES]).unwrap();
        }
        let url = format!("ftp+sctp://{}/?addr={}", between[0].server, between[1].server);
        let (server, key) = serve(&net, &tree, &url);
        let mut mirror = net.command(End::Client, PROGRAM);
        mirror.args(["mirror", &url]).arg(folder.path().join("copy")).args([
            "--json",
            "--pin",
            &key,
            "--control",
        ]);
        mirror.arg(folder.path().join("control")).stdout(Stdio::piped());
        for wire in between {
            mirror.args(["--path", &format!("{}={}", wire.client, wire.server)]);
        }
        let client = Running::start(&mut mirror);
        Some(Self { net, url, folder, server, client })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// Kills the server and starts it again.
    fn restart_server(&mut self) {
        self.server.0.kill().unwrap();
        self.server.0.wait().unwrap();
        (self.server, _) = serve(&self.net, &self.folder.path().join("tree"), &self.url);
    }

    /// Checks that the mirror succeeds and is complete; returns its events.
    fn ends(mut self) -> Vec<serde_json::Value> {
        let socket = self.socket();
        let status = self.client.ended(|| format!("{:?}", say(&socket, &[])));
        assert!(status.success(), "{status}");
        for file in 0..FILES {
            let copy = self.folder.path().join("copy").join(file.to_string());
            assert!(std::fs::read(copy).unwrap() == vec![file as u8; FILE_BYTES]);
        }
        assert!(!socket.exists(), "the socket goes with the job");
        let lines = BufReader::new(self.client.0.stdout.take().unwrap()).lines();
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }
}

#[test]
fn a_disabled_path_stays_disabled_after_a_reconnect() {
    let Some(mut job) = Job::begin() else { return };
    let socket = job.socket();
    let enough = 300_000;
    until(&socket, "both", |paths| paths.len() == 2 && paths.iter().all(|(_, bytes)| *bytes > enough));
    assert!(say(&socket, &["off", "2"]).status.success());
    let before = until(&socket, "one", |paths| paths.len() == 2 && paths[0].1 > 3 * enough)[0].1;
    job.restart_server();
    until(&socket, "a new association", |paths| paths.len() == 2 && paths[0].1 < before);
    until(&socket, "one again", |paths| paths.len() == 2 && paths[1].0 == "set-aside" && paths[0].1 > enough);
    job.ends();
}

#[test]
fn all_paths_carry_data_except_a_disabled_one_until_it_is_enabled() {
    let Some(job) = Job::begin() else { return };
    let socket = job.socket();
    // Both carry data.
    let enough = 300_000;
    until(&socket, "both", |paths| paths.len() == 2 && paths.iter().all(|(_, bytes)| *bytes > enough));
    // One stops carrying data.
    let output = say(&socket, &["off", "2"]);
    assert!(output.status.success(), "{output:?}");
    let out = list(&output);
    assert_eq!(out[1].0, "set-aside");
    let last = say(&socket, &["off", "1"]);
    assert!(!last.status.success());
    assert!(String::from_utf8_lossy(&last.stderr).contains("last path"), "{last:?}");
    let later = until(&socket, "one", |paths| paths.len() == 2 && paths[0].1 > out[0].1 + enough);
    assert_eq!(later[1].1, out[1].1);
    // And carries data again.
    assert!(say(&socket, &["on", "2"]).status.success());
    until(&socket, "both again", |paths| paths.len() == 2 && paths[1].1 > out[1].1 + enough);

    let events = job.ends();
    let summary = events.last().unwrap();
    assert_eq!(summary["event"], "summary");
    assert_eq!(summary["paths"].as_array().unwrap().len(), 2);
    let progress = events.iter().filter(|event| event["event"] == "progress");
    let states: Vec<_> = progress.map(|event| event["paths"][1]["state"].clone()).collect();
    assert!(states.iter().any(|state| state == "active"), "{states:?}");
}

/// The output and the exit code of a mirror with these arguments.
fn refused(words: &[&str]) -> (i32, String) {
    let output = Command::new(PROGRAM).args(["mirror"]).args(words).arg("nowhere").output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_unusable_path_is_reported_with_reason_and_hint() {
    let url = "ftp+sctp://127.0.0.1:1/";
    for (words, code, says) in [
        (&[url, "--path", "127.0.0.1", "--path", "127.0.0.1"][..], 1, "given twice"),
        (&["ftp+sctp://127.0.0.1/?addr=127.0.0.1"], 1, "given twice"),
        (&["ftp+sctp://127.0.0.1/?addr=127.0.0.2&addr=127.0.0.2"], 1, "given twice"),
        (&[url, "--path", "192.0.2.77"], 1, "no address of this machine"),
        (&[url, "--path", "127.0.0.1=127.0.0.9"], 1, "leads to any address of the server"),
        (&[url, "--path", "127.0.0.1", "--path", "::1"], 1, "has no IPv6 address"),
        (&["ftp+sctp://192.0.2.1:1/", "--path", "127.0.0.1"], 2, "nothing leads from 127.0.0.1 to 192.0.2.1"),
        (&[url, "--multipath", "scheduler=best"], 1, "round-robin, lrtf, blest, ecf"),
        (&[url, "--multipath", "yes"], 1, "or off"),
        (&[url, "--control", "/no/such/folder/socket"], 1, "control socket"),
        (&["ftp://127.0.0.1:1/", "--multipath", "off"], 1, "it is for SCTP"),
    ] {
        let (exit, stderr) = refused(words);
        assert_eq!(exit, code, "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
    }
}
