//! `cargo xtask bench loopback`: one flow between two processes over loopback, for this stack, usrsctp and
//! quinn.
//!
//! Each round runs all of them one after another, so that other load on the machine affects all alike. Ratios
//! are taken within a round, and medians over the rounds. This stack and quinn write 64 KiB at a time,
//! usrsctp 1,400 bytes (its packets hold one message); this stack is also run with messages of 1,400 bytes.
//! usrsctp has checksums on and buffers of 4 MB, as its tsctp is run; quinn encrypts.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::median;
use crate::peers::{Proof, install};
use crate::shell::{cargo, check, root};

const USAGE: &str = "usage: cargo xtask bench loopback [--rounds N] [--quick]";

/// The required multiple of usrsctp's goodput.
const TARGET: f64 = 4.0;

/// The packages needed to build usrsctp's program.
const USRSCTP_PACKAGES: &[(Proof, &str)] =
    &[(Proof::Program("cc"), "gcc"), (Proof::File("/usr/include/usrsctp.h"), "libusrsctp-dev")];

/// The time limit of one run, for the slowest acceptable rate.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program under test and its arguments.
#[derive(Debug)]
struct Contestant {
    name: &'static str,
    program: PathBuf,
    options: &'static [&'static str],
}

/// The result of one run.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    mbit_per_second: f64,
    sender_cpu_seconds_per_gigabyte: f64,
    receiver_cpu_seconds_per_gigabyte: f64,
    sender_peak_mib: f64,
    receiver_peak_mib: f64,
}

/// Runs the benchmark and prints the table.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (mut rounds, mut quick) = (3, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => {
                rounds = args.next().context(USAGE)?.parse().context("--rounds takes a number")?;
            }
            "--quick" => quick = true,
            _ => bail!("{USAGE}"),
        }
    }
    if quick {
        rounds = 1;
    }
    let bytes: u64 = if quick { 100_000_000 } else { 1_000_000_000 };
    let contestants = contestants()?;
    let mut results: Vec<Vec<Outcome>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (contestant, results) in contestants.iter().zip(&mut results) {
            let outcome =
                contestant.run(bytes).with_context(|| format!("{}, round {round}", contestant.name))?;
            eprintln!("round {round}: {:<24} {:>7.0} Mbit/s", contestant.name, outcome.mbit_per_second);
            results.push(outcome);
        }
    }
    print_table(&contestants, &results, bytes, rounds);
    let usrsctp = contestants.iter().position(|contestant| contestant.name.starts_with("usrsctp"));
    let Some(usrsctp) = usrsctp.filter(|_| !quick) else { return Ok(()) };
    let ratio = median(ratios(&results[0], &results[usrsctp]));
    println!("ours is {ratio:.2} times usrsctp; the target is {TARGET}");
    if ratio < TARGET {
        bail!("the target is missed");
    }
    Ok(())
}

/// Builds the contestants; those that cannot be built here are left out with a notice.
fn contestants() -> Result<Vec<Contestant>> {
    let target = root().join("target");
    check(cargo().args(["build", "--release", "--package", "braidftp-net", "--example", "blast"]))?;
    let blast = target.join("release/examples/blast");
    let mut contestants = vec![
        Contestant { name: "ours", program: blast.clone(), options: &[] },
        Contestant { name: "ours, 1,400 B messages", program: blast, options: &["message=1400"] },
    ];
    let peers = target.join("bench-peers");
    std::fs::create_dir_all(&peers).with_context(|| format!("cannot create {}", peers.display()))?;
    if let Err(error) = install(USRSCTP_PACKAGES) {
        eprintln!("usrsctp cannot be installed: {error:#}");
    }
    let usrsctp = peers.join("usrsctp_peer");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"]).arg(&usrsctp).args(["bench-peers/usrsctp_peer.c", "-lusrsctp", "-lpthread"]);
    match check(&mut cc) {
        Ok(()) => {
            contestants.push(Contestant { name: "usrsctp", program: usrsctp, options: &["message=1400"] })
        }
        Err(error) => left_out("usrsctp", &error, "apt install gcc libusrsctp-dev"),
    }
    let mut quinn = cargo();
    quinn.args([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        "bench-peers/Cargo.toml",
        "--target-dir",
    ]);
    match check(quinn.arg(&peers)) {
        Ok(()) => {
            let program = peers.join("release/quinn_peer");
            contestants.push(Contestant { name: "quinn", program, options: &[] });
        }
        Err(error) => left_out("quinn", &error, "let cargo reach its registry"),
    }
    Ok(contestants)
}

fn left_out(who: &str, error: &anyhow::Error, remedy: &str) {
    eprintln!("LEFT OUT: {who} cannot be built here: {error:#}; {remedy}");
}

impl Contestant {
    fn run(&self, bytes: u64) -> Result<Outcome> {
        let (local, peer) = (free_port()?, free_port()?);
        let mut receiver = self.spawn(&["recv".to_owned(), peer.to_string()])?;
        let mut lines = BufReader::new(receiver.0.stdout.take().context("a pipe was asked for")?);
        let mut first = String::new();
        lines.read_line(&mut first)?;
        if first.trim() != "listening" {
            bail!("the receiver said `{}` instead of `listening`", first.trim());
        }
        let words = ["send".to_owned(), local.to_string(), peer.to_string(), format!("bytes={bytes}")];
        let mut sender = self.spawn(&words)?;
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

    fn spawn(&self, words: &[String]) -> Result<Running> {
        let mut command = Command::new(&self.program);
        command.args(words).args(self.options).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot run {}", self.program.display()))?;
        Ok(Running(child))
    }
}

/// A running program; killed when dropped.
struct Running(Child);

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

fn free_port() -> Result<u16> {
    Ok(std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn print_table(contestants: &[Contestant], results: &[Vec<Outcome>], bytes: u64, rounds: usize) {
    println!();
    println!("One flow over loopback, {} MB, two processes; median of {rounds} round(s)", bytes / 1_000_000);
    println!();
    println!(
        "| who | Mbit/s | sender CPU s/GB | receiver CPU s/GB | peak MiB, sender / receiver | ours is |"
    );
    println!("|---|---|---|---|---|---|");
    for (contestant, outcomes) in contestants.iter().zip(results) {
        let middle = |value: fn(&Outcome) -> f64| median(outcomes.iter().map(value).collect());
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.0} / {:.0} | {:.2} × |",
            contestant.name,
            middle(|outcome| outcome.mbit_per_second),
            middle(|outcome| outcome.sender_cpu_seconds_per_gigabyte),
            middle(|outcome| outcome.receiver_cpu_seconds_per_gigabyte),
            middle(|outcome| outcome.sender_peak_mib),
            middle(|outcome| outcome.receiver_peak_mib),
            median(ratios(&results[0], outcomes)),
        );
    }
    println!();
}

/// Our values divided by theirs, round by round.
fn ratios(ours: &[Outcome], theirs: &[Outcome]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours.mbit_per_second / theirs.mbit_per_second).collect()
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
