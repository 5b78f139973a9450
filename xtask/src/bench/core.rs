//! `cargo xtask bench core`: the cost of a byte at ten message sizes, at both ends of one flow over a veth pair (root): CPU
//! time, and system calls, which strace counts in a separate run. Contestants are this stack over UDP, with filled packets and
//! with even fragments, and over protocol 132 (without segmentation offload); usrsctp; and quinn, which writes pieces of these
//! sizes to one stream.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::flow::{self, Outcome};
use super::link::{End, Link};
use super::median;
use crate::peers::{Proof, install};

const USAGE: &str = "usage: cargo xtask bench core [--rounds N] [--quick] [--only TEXT,...]";

/// Bytes of a message.
const SIZES: [usize; 10] = [64, 128, 300, 600, 1_200, 1_300, 1_416, 4_096, 16_384, 65_536];

/// The largest share of the best size's CPU time a byte that another size of this stack may take.
const FLATNESS: f64 = 1.5;

/// Bytes of the run in which system calls are counted.
const COUNTED_BYTES: u64 = 20_000_000;

/// A program at both ends, and its options.
struct Contestant {
    name: &'static str,
    program: PathBuf,
    options: Vec<String>,
    /// Bytes of a run: enough for the resolution of the CPU clock, a hundredth of a second.
    bytes: u64,
    /// Whether its cost is compared with [`FLATNESS`].
    ours: bool,
}

/// The cost of a byte at one end.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_seconds_per_gigabyte: f64,
    calls_per_megabyte: f64,
}

/// Runs the benchmark and prints a table for each contestant.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (mut rounds, mut quick, mut only) = (3, false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().context(USAGE);
        match arg.as_str() {
            "--rounds" => rounds = value()?.parse().context("--rounds takes a number")?,
            "--quick" => quick = true,
            "--only" => only = Some(value()?.clone()),
            _ => bail!("{USAGE}"),
        }
    }
    if quick {
        rounds = 1;
    }
    if rounds == 0 {
        bail!("--rounds takes a number from 1 on");
    }
    let mut contestants = contestants(quick)?;
    if let Some(only) = &only {
        contestants.retain(|contestant| only.split(',').any(|text| contestant.name.contains(text)));
    }
    install(&[(Proof::Program("strace"), "strace")])?;
    let link = Link::veth()?;
    println!("One flow over {link}; CPU time is the median of {rounds} round(s)");
    let mut missed = Vec::new();
    for contestant in &contestants {
        missed.extend(measure(contestant, &link, rounds)?);
    }
    if !missed.is_empty() && !quick {
        bail!("more than {FLATNESS} times the best size: {}", missed.join("; "));
    }
    Ok(())
}

fn contestants(quick: bool) -> Result<Vec<Contestant>> {
    let ours = flow::ours()?;
    let bytes = if quick { 50_000_000 } else { 500_000_000 };
    let this = |name, options: &[&str]| Contestant {
        name,
        program: ours.clone(),
        options: options.iter().map(|&option| option.to_owned()).collect(),
        bytes,
        ours: true,
    };
    let peer = |name, program, bytes| Contestant { name, program, options: Vec::new(), bytes, ours: false };
    let mut contestants = vec![
        this("ours, UDP", &["fragments=filling"]),
        this("ours, UDP, even fragments", &["fragments=even"]),
        this("ours, protocol 132", &["fragments=filling", "carrier=ip"]),
    ];
    contestants.extend(flow::quinn()?.map(|program| peer("quinn", program, bytes)));
    contestants.extend(flow::usrsctp()?.map(|program| peer("usrsctp", program, bytes / 10)));
    Ok(contestants)
}

/// Measures all sizes and prints the table. Returns the sizes and ends that cost too much.
fn measure(contestant: &Contestant, link: &Link, rounds: usize) -> Result<Vec<String>> {
    let mut rows: BTreeMap<usize, (f64, [Cost; 2])> = BTreeMap::new();
    for size in SIZES {
        let mut options = contestant.options.clone();
        options.push(format!("message={size}"));
        let what = || format!("{}, messages of {size} bytes", contestant.name);
        let outcomes = (0..rounds)
            .map(|_| flow::run(link, &contestant.program, &options, contestant.bytes))
            .collect::<Result<Vec<Outcome>>>()
            .with_context(what)?;
        let calls = system_calls(link, &contestant.program, &options).with_context(what)?;
        let middle = |value: fn(&Outcome) -> f64| median(outcomes.iter().map(value).collect());
        let cost = |cpu_seconds_per_gigabyte, calls: u64| Cost {
            cpu_seconds_per_gigabyte,
            calls_per_megabyte: calls as f64 / (COUNTED_BYTES as f64 / 1e6),
        };
        let costs = [
            cost(middle(|outcome| outcome.sender_cpu_seconds_per_gigabyte), calls.sender),
            cost(middle(|outcome| outcome.receiver_cpu_seconds_per_gigabyte), calls.receiver),
        ];
        rows.insert(size, (middle(|outcome| outcome.mbit_per_second), costs));
    }
    let best = [0, 1].map(|end| {
        let all = rows.values().map(|(_, costs)| costs[end].cpu_seconds_per_gigabyte);
        all.fold(f64::INFINITY, f64::min)
    });
    println!("\n{}\n", contestant.name);
    println!(
        "| message, bytes | Mbit/s | sender CPU s/GB (of the best) | receiver CPU s/GB (of the best) | system calls/MB |"
    );
    println!("|---|---|---|---|---|");
    let mut missed = Vec::new();
    for (size, (rate, [sender, receiver])) in &rows {
        let ratios = [sender.cpu_seconds_per_gigabyte / best[0], receiver.cpu_seconds_per_gigabyte / best[1]];
        println!(
            "| {size} | {rate:.0} | {:.2} ({:.2}) | {:.2} ({:.2}) | {:.0} / {:.0} |",
            sender.cpu_seconds_per_gigabyte,
            ratios[0],
            receiver.cpu_seconds_per_gigabyte,
            ratios[1],
            sender.calls_per_megabyte,
            receiver.calls_per_megabyte
        );
        if contestant.ours && ratios.iter().any(|ratio| *ratio > FLATNESS) {
            missed.push(format!("{} at {size}", contestant.name));
        }
    }
    Ok(missed)
}

/// The number of system calls of a run.
struct Calls {
    sender: u64,
    receiver: u64,
}

/// Runs both ends under strace, which counts the calls.
fn system_calls(link: &Link, program: &Path, options: &[String]) -> Result<Calls> {
    let file = |end: &str| Ok::<_, anyhow::Error>(flow::peers_folder()?.join(format!("calls-{end}")));
    let files = [file("sender")?, file("receiver")?];
    flow::run_under(link, program, options, COUNTED_BYTES, &|end| {
        let file = &files[usize::from(end == End::Receiver)];
        let mut strace: Vec<String> = ["strace", "-f", "-qq", "-c", "-o"].map(str::to_owned).into();
        strace.push(file.display().to_string());
        strace
    })?;
    let [sender, receiver] = files.map(|file| -> Result<u64> {
        let text = std::fs::read_to_string(file)?;
        total_calls(&text).with_context(|| format!("strace counted nothing:\n{text}"))
    });
    Ok(Calls { sender: sender?, receiver: receiver? })
}

/// The number of calls in the last line of `strace -c`: `100.00    0.009939           6      1592         1 total`.
fn total_calls(text: &str) -> Option<u64> {
    let line = text.lines().rfind(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_are_the_fourth_column() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.009939           6      1592         1 total\n";
        assert_eq!(total_calls(text), Some(1_592));
        assert_eq!(total_calls("% time\n"), None);
    }
}
