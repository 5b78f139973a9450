//! One flow between two processes of one program, a sender and a receiver that report what they moved and took.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::link::{End, Link};
use crate::peers::{Proof, install};
use crate::shell::{cargo, check, target};

/// The time limit of one run, for the slowest acceptable rate.
const PATIENCE: Duration = Duration::from_secs(120);

/// The packages needed to build usrsctp's program.
const USRSCTP_PACKAGES: &[(Proof, &str)] =
    &[(Proof::Program("cc"), "gcc"), (Proof::File("/usr/include/usrsctp.h"), "libusrsctp-dev")];

/// The result of one run. A peak that was not measured is NaN.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) mbit_per_second: f64,
    pub(super) sender_cpu_seconds_per_gigabyte: f64,
    pub(super) receiver_cpu_seconds_per_gigabyte: f64,
    pub(super) sender_peak_mib: f64,
    pub(super) receiver_peak_mib: f64,
}

/// Builds this stack's program.
pub(super) fn ours() -> Result<PathBuf> {
    check(cargo().args(["build", "--release", "--package", "braidftp-net", "--example", "blast"]))?;
    Ok(target().join("release/examples/blast"))
}

/// Builds quinn's program; `None`, with a notice, if it cannot be built here.
pub(super) fn quinn() -> Result<Option<PathBuf>> {
    rust_peer("quinn_peer", "quinn")
}

/// Builds a Rust program of bench-peers; `None`, with a notice about `who`, if it cannot be built here.
pub(super) fn rust_peer(program: &str, who: &str) -> Result<Option<PathBuf>> {
    let peers = peers_folder()?;
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--manifest-path", "bench-peers/Cargo.toml"]);
    match check(build.args(["--bin", program, "--target-dir"]).arg(&peers)) {
        Ok(()) => Ok(Some(peers.join("release").join(program))),
        Err(error) => {
            left_out(who, &error, "let cargo reach its registry");
            Ok(None)
        }
    }
}

/// Builds usrsctp's program, likewise.
pub(super) fn usrsctp() -> Result<Option<PathBuf>> {
    if let Err(error) = install(USRSCTP_PACKAGES) {
        eprintln!("usrsctp cannot be installed: {error:#}");
    }
    let usrsctp = peers_folder()?.join("usrsctp_peer");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"]).arg(&usrsctp).args(["bench-peers/usrsctp_peer.c", "-lusrsctp", "-lpthread"]);
    match check(&mut cc) {
        Ok(()) => Ok(Some(usrsctp)),
        Err(error) => {
            left_out("usrsctp", &error, "apt install gcc libusrsctp-dev");
            Ok(None)
        }
    }
}

/// The folder of the peers' programs and files.
pub(super) fn peers_folder() -> Result<PathBuf> {
    let peers = target().join("bench-peers");
    fs::create_dir_all(&peers).with_context(|| format!("cannot create {}", peers.display()))?;
    Ok(peers)
}

/// Prints that a peer is left out, and how to install it.
pub(super) fn left_out(who: &str, error: &anyhow::Error, remedy: &str) {
    eprintln!("LEFT OUT: {who} is not available here: {error:#}; {remedy}");
}

/// Runs the program at both ends with `options`; the sender sends `bytes`.
pub(super) fn run(link: &Link, program: &Path, options: &[String], bytes: u64) -> Result<Outcome> {
    run_under(link, program, options, bytes, &|_| Vec::new())
}

/// The same with another program around each end; `under` returns its command line.
pub(super) fn run_under(
    link: &Link,
    program: &Path,
    options: &[String],
    bytes: u64,
    under: &dyn Fn(End) -> Vec<String>,
) -> Result<Outcome> {
    let spawn = |end: End, words: &[String]| -> Result<Running> {
        let mut all = under(end);
        all.push(program.display().to_string());
        let mut command = link.command(end, Path::new(&all[0]));
        command.args(&all[1..]).args(words).args(options).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        Ok(Running(child))
    };
    let (local, peer) = (link.udp(End::Sender)?, link.udp(End::Receiver)?);
    let mut receiver = spawn(End::Receiver, &["recv".to_owned(), peer.to_string()])?;
    let mut lines = BufReader::new(receiver.0.stdout.take().context("a pipe was asked for")?);
    let mut first = String::new();
    lines.read_line(&mut first)?;
    if first.trim() != "listening" {
        bail!("the receiver said `{}` instead of `listening`", first.trim());
    }
    let words = ["send".to_owned(), local.to_string(), peer.to_string(), format!("bytes={bytes}")];
    let mut sender = spawn(End::Sender, &words)?;
    sender.finish()?;
    receiver.finish()?;
    let sent = Report::read(&mut sender.0.stdout.take().context("a pipe was asked for")?)?;
    let received = Report::read(&mut lines)?;
    if received.bytes != bytes {
        bail!("{} bytes arrived instead of {bytes}", received.bytes);
    }
    let gigabytes = bytes as f64 / 1e9;
    Ok(Outcome {
        mbit_per_second: bytes as f64 * 8.0 / 1e6 / received.seconds,
        sender_cpu_seconds_per_gigabyte: sent.cpu_seconds / gigabytes,
        receiver_cpu_seconds_per_gigabyte: received.cpu_seconds / gigabytes,
        sender_peak_mib: sent.peak_kib / 1024.0,
        receiver_peak_mib: received.peak_kib / 1024.0,
    })
}

/// A running program; killed when dropped.
pub(super) struct Running(pub(super) Child);

impl Running {
    fn finish(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                bail!("it failed ({status})");
            }
            if began.elapsed() > PATIENCE {
                bail!("it took longer than {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls do nothing if the program has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The last line that a sender or receiver prints.
#[derive(Debug)]
struct Report {
    bytes: u64,
    seconds: f64,
    cpu_seconds: f64,
    peak_kib: f64,
}

impl Report {
    fn read(from: &mut impl Read) -> Result<Self> {
        let mut text = String::new();
        from.read_to_string(&mut text)?;
        let line = text.lines().last().unwrap_or_default();
        let json: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("`{line}` is not a report"))?;
        let number = |name: &str| json[name].as_f64().with_context(|| format!("`{line}` has no {name}"));
        Ok(Self {
            bytes: json["bytes"].as_u64().with_context(|| format!("`{line}` has no bytes"))?,
            seconds: number("seconds")?,
            cpu_seconds: number("cpu_seconds")?,
            peak_kib: number("peak_kib")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_the_last_line() {
        let mut text =
            "noise\n{\"bytes\":5,\"seconds\":0.5,\"cpu_seconds\":1,\"peak_kib\":2048}\n".as_bytes();
        let report = Report::read(&mut text).unwrap();
        assert_eq!((report.bytes, report.seconds, report.peak_kib), (5, 0.5, 2048.0));
        assert!(Report::read(&mut "listening\n".as_bytes()).is_err());
    }
}
