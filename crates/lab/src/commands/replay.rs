//! `braidlab replay`: repeats one run of the study of early losses, packet by packet.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use braidftp_lab::papers::early::{self, Files, Job};
use braidftp_lab::stats;
use braidftp_sim::apps::ftp::{End, Outcome, Watch};
use braidftp_sim::record::{self, Capture, Ports, write_qlog};
use braidftp_sim::world::Sight;
use clap::{Args as ClapArgs, ValueEnum};

use super::print;
use crate::Failure;

/// Repeat one run of the figures early/… and print each packet.
///
/// Rows of early/tails contain the seed; rows of early/single and early/pairs name the lost packets.
///
/// Each line is a packet: the time it was sent, its sender, its number on that side from 0, the time it
/// arrived or LOST, and its chunks.
///
/// With --seeds N, N runs are made and the slowest ones printed.
///
/// Example: braidlab replay --path lan --loss 0.1 --seed 4711; braidlab replay --path sat --lose
/// server:1,client:3
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// lan (3 Mbit/s, 1 ms), wan (1 Mbit/s, 35 ms), sat (256 kbit/s, 125 ms) or geo (50 Mbit/s, 300 ms)
    #[arg(long, value_parser = early::PATHS)]
    path: String,
    /// The loss ratio, in each direction
    #[arg(long, default_value_t = 0.0, value_parser = part)]
    loss: f64,
    /// The distribution of losses, as on the axis of early/tails
    #[arg(long, value_enum, default_value_t = Losses::Independent)]
    losses: Losses,
    /// Lose exactly these packets: SIDE:NUMBER, numbered from 0
    #[arg(long, value_delimiter = ',', conflicts_with = "loss", value_parser = packet)]
    lose: Vec<(End, u64)>,
    /// The files to fetch
    #[arg(long, value_enum, default_value_t = Job100::Hundred)]
    files: Job100,
    /// The seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write the packets to this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Also write the client's packets and the state of its paths to this file, as qlog
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
    /// Run this many seeds from --seed on, and print their durations and the slowest ones instead of
    /// packets
    #[arg(long, value_name = "N", conflicts_with_all = ["pcap", "qlog"], value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Losses {
    /// Independent losses
    Independent,
    /// Bursts of 3
    Bursts,
    /// Independent losses on two such paths
    TwoPaths,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Job100 {
    /// 100 files of 10 KB
    Hundred,
    /// 100 files of 50 KB
    Hundred50,
    /// One file of 10 KB
    One,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..0.5).contains(&part) => Ok(part),
        _ => Err("write a part from 0 to less than 0.5, as in 0.1".to_owned()),
    }
}

fn packet(text: &str) -> Result<(End, u64), String> {
    let parsed = text.split_once(':').and_then(|(side, number)| {
        let side = match side {
            "client" => End::Client,
            "server" => End::Server,
            _ => return None,
        };
        Some((side, number.parse().ok()?))
    });
    parsed.ok_or_else(|| "write client:N or server:N, as in server:1".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let path = early::PATHS.into_iter().find(|path| *path == args.path).expect("clap knows the paths");
    let files = match args.files {
        Job100::Hundred => Files::Hundred,
        Job100::Hundred50 => Files::Hundred50,
        Job100::One => Files::One,
    };
    let (paths, kind) = match args.losses {
        Losses::Independent => (1, "independent"),
        Losses::Bursts => (1, "bursts"),
        Losses::TwoPaths => (2, "two-paths"),
    };
    let of = |end: End| -> Vec<u64> {
        args.lose.iter().filter(|(side, _)| *side == end).map(|(_, number)| *number).collect()
    };
    let losses = if args.lose.is_empty() {
        early::losses(kind, args.loss)
    } else {
        early::script(&of(End::Client), &of(End::Server))
    };
    let job = Job { path, paths, files, losses, seed: args.seed };
    if let Some(seeds) = args.seeds {
        return print(&several(&job, args.loss, seeds));
    }
    let outcome = job
        .session(Watch { packets: true, silence: true, stats: args.qlog.is_some(), ..Watch::default() })
        .run();
    if let Some(path) = &args.pcap {
        write_pcap(path, &outcome)
            .map_err(|error| Failure::File(format!("cannot write {}: {error}", path.display())))?;
    }
    if let Some(path) = &args.qlog {
        let title = format!("braidlab replay, seed {}", job.seed);
        File::create(path)
            .and_then(|file| write_qlog(BufWriter::new(file), &title, &outcome.packets, &outcome.stats))
            .map_err(|error| Failure::File(format!("cannot write {}: {error}", path.display())))?;
    }
    let mut text = log(&outcome);
    let limit = job.limit(args.loss);
    let _ = writeln!(
        text,
        "{}: {:.4} s, {:.3} of the limit of {limit:.4} s; silent for {:.3} s (client) and {:.3} s (server), {:.3} s allowed; {} time-outs",
        outcome.failed.as_deref().unwrap_or("whole"),
        outcome.since_started.as_secs_f64(),
        outcome.since_started.as_secs_f64() / limit,
        outcome.silent[0].as_secs_f64(),
        outcome.silent[1].as_secs_f64(),
        job.silence_allowed().as_secs_f64(),
        outcome.timeouts,
    );
    print(&text)
}

/// The number of slowest runs printed.
const NAMED: usize = 8;

/// The durations of several runs, and the slowest ones.
fn several(job: &Job, loss: f64, seeds: u64) -> String {
    let run = |seed: u64| {
        let outcome = Job { seed, ..job.clone() }.run();
        let silent = outcome.silent.into_iter().max().unwrap_or_default().as_secs_f64();
        (early::seconds(&outcome) / job.limit(loss), silent, seed)
    };
    let mut runs: Vec<(f64, f64, u64)> = (job.seed..).take(seeds as usize).map(run).collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let times: Vec<f64> = runs.iter().map(|run| run.0).collect();
    let mut text = format!("{}, through the limit:", stats::count(runs.len(), "run"));
    for part in [0.5, 0.75, 0.9, 0.95, 0.99, 0.999] {
        let _ = write!(text, " p{} {:.3}", part * 100.0, stats::reached_by(&times, part));
    }
    let failed = times.iter().filter(|time| !time.is_finite()).count();
    let allowed = job.silence_allowed().as_secs_f64();
    let too_silent = runs.iter().filter(|run| run.1 > allowed).count();
    let _ = writeln!(text, "; {failed} failed; {too_silent} silent for more than {allowed:.3} s");
    let worst = runs.iter().rev().take(NAMED);
    let silent = runs.iter().filter(|run| run.1 > allowed).rev().take(NAMED);
    for (what, its) in [("slowest", worst.collect::<Vec<_>>()), ("too silent", silent.collect())] {
        for (time, silent, seed) in its {
            let _ = writeln!(text, "{what}: {time:.3} of the limit, silent for {silent:.3} s: --seed {seed}");
        }
    }
    text
}

/// A line for each packet sent.
fn log(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut sent = [0_u64; 2];
    let seen = outcome.packets.iter().filter(|seen| seen.what == Sight::Sent);
    for (pdu, seen) in outcome.transcript().iter().zip(seen) {
        let (side, who) = match pdu.from {
            End::Client => (0, "C"),
            End::Server => (1, "    S"),
        };
        let fate = match pdu.arrived {
            Some(arrived) => format!("arrives {:.6}", arrived.as_secs_f64()),
            None => "LOST".to_owned(),
        };
        let _ = writeln!(
            text,
            "{:10.6} {who}{} {fate} {}",
            pdu.sent.as_secs_f64(),
            sent[side],
            record::chunks(&seen.datagram)
        );
        sent[side] += 1;
    }
    text
}

fn write_pcap(path: &std::path::Path, outcome: &Outcome) -> std::io::Result<()> {
    let mut capture = Capture::new(BufWriter::new(File::create(path)?), Ports::default())?;
    capture.hosts(&outcome.packets)?;
    capture.finish().map(drop)
}
