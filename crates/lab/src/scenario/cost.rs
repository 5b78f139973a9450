//! How long the runs of a scenario take: its packets, and the speed at which this machine simulates packets.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use braidftp_sim::apps::bulk::Protocol;

use super::decide;
use super::figure::Document;
use super::plan::{LASTS_MAX, Plan};
use super::workloads::{Does, Workload};
use crate::figure::{Figure, Point, Runs};
use crate::sweep::Shard;
use crate::{stats, text};

/// Packets of a file or of a request beyond its bytes: commands, replies, connections.
const PACKETS_OF_A_TRANSFER: f64 = 6.0;
/// Packets for one with data: each second one is acknowledged.
const PACKETS_OF_DATA: f64 = 1.5;
/// Samples of queues and windows that take as long as a packet.
const SAMPLES_OF_A_PACKET: f64 = 4.0;
/// How much longer a session may take beside other workloads.
const SLOWED: f64 = 2.0;
/// How long a live run takes beyond its transfers: namespaces and programs are started.
const START_OF_A_LIVE_RUN: f64 = 1.0;

/// A sweep that takes longer is warned of.
const LONG: Duration = Duration::from_secs(10 * 60);
/// A sweep that takes longer is refused.
const ABSURD: Duration = Duration::from_secs(30 * 86_400);

/// The shortest measurement of the simulator's speed.
const MEASURED_FOR: Duration = Duration::from_millis(30);
/// What is simulated meanwhile.
const MEASURED: &str = r#"
title = "The speed of the simulator"
lasts = "1 s"
measure = ["goodput"]
[links.l]
rate = "20 Mbit/s"
delay = "10 ms"
[transports.s]
protocol = "sctp"
[[workload]]
kind = "bulk"
transport = "s"
"#;

/// What is to be run of a sweep.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Whether only the points of `--quick` are run.
    pub is_quick: bool,
    /// Only a shard of the points.
    pub shard: Option<Shard>,
    /// How often each point is run.
    pub runs: Runs,
    /// The number of threads.
    pub threads: usize,
}

/// An estimate for the runs of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    id: &'static str,
    /// The minimum and the maximum number of runs.
    pub runs: [u64; 2],
    /// How long they take.
    pub lasts: [Duration; 2],
    threads: usize,
    /// The point whose runs have the most packets, their number, and the time of one run.
    longest: (String, f64, Duration),
}

/// Estimates how long a part of a scenario takes, simulated.
pub(super) fn simulated(document: &Document, figure: &Figure, part: &Part) -> Cost {
    cost(document, figure, part, &|_, plan| {
        let seconds = simulated_seconds(plan);
        [seconds / part.threads.max(1) as f64, seconds]
    })
}

/// Estimates how many seconds a simulated run of each point takes on one thread.
pub(super) fn seconds_of_runs(document: &Document, figure: &Figure) -> Vec<f64> {
    let sweep = figure.sweep().expect("a scenario is a sweep");
    sweep.points().iter().map(|point| simulated_seconds(&document.plan(point))).collect()
}

/// How many seconds a simulated run takes on one thread.
fn simulated_seconds(plan: &Plan) -> f64 {
    about_packets(plan) / packets_of_a_second()
}

/// Estimates how long a part of a scenario takes in both worlds, with so many live runs of a plan at once.
pub(super) fn in_both_worlds(
    document: &Document,
    figure: &Figure,
    part: &Part,
    live_at_once: &dyn Fn(&Plan) -> usize,
    is_live: fn(&Point) -> bool,
) -> Cost {
    cost(document, figure, part, &|point, plan| {
        let (seconds, at_once) = match is_live(point) {
            true => (about_seconds(plan) + START_OF_A_LIVE_RUN, live_at_once(plan)),
            false => (simulated_seconds(plan), part.threads),
        };
        [seconds / at_once.max(1) as f64, seconds]
    })
}

/// Sums up the runs of all points. `of` returns the seconds that a run adds to the whole, and its own.
fn cost(document: &Document, figure: &Figure, part: &Part, of: &dyn Fn(&Point, &Plan) -> [f64; 2]) -> Cost {
    let sweep = figure.sweep().expect("a scenario is a sweep");
    let runs = part.runs;
    let mut cost = Cost {
        id: figure.id,
        runs: [0; 2],
        lasts: [Duration::ZERO; 2],
        threads: part.threads.max(1),
        longest: (String::new(), 0.0, Duration::ZERO),
    };
    let (mut seconds, mut longest) = ([0.0; 2], -1.0);
    for (at, point) in sweep.points().iter().enumerate() {
        let is_chosen = !part.is_quick || (sweep.quick)(point);
        if !is_chosen || part.shard.is_some_and(|shard| !shard.has(at)) {
            continue;
        }
        let plan = document.plan(point);
        let [share, alone] = of(point, &plan);
        let counts = match (sweep.fixed)(point) && !runs.is_counted() {
            true => [runs.min.min(2); 2],
            false => [runs.min, runs.max],
        };
        for (at, count) in counts.into_iter().enumerate() {
            cost.runs[at] += u64::from(count);
            seconds[at] += f64::from(count) * share;
        }
        if alone > longest {
            longest = alone;
            let place = decide::place(point.places(), &document.scope.axes);
            cost.longest = (place, about_packets(&plan), duration(alone));
        }
    }
    // A run is not divided among threads.
    cost.lasts = seconds.map(|seconds| duration(seconds).max(cost.longest.2));
    cost
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

impl Cost {
    /// What is said before the runs begin.
    ///
    /// # Errors
    ///
    /// They would take more than 30 days.
    pub fn says(&self) -> Result<Vec<String>, String> {
        let (place, packets, run) = &self.longest;
        let place = match place.as_str() {
            "" => String::new(),
            place => format!(" at {place}"),
        };
        let longest = format!(
            "a run{place} carries about {} packets and takes {}",
            rounded(*packets),
            text::time(*run)
        );
        let less = "smaller or fewer `files`, a lower `rate`, a shorter `lasts`, fewer points, --runs or --quick take less, \
                    and --shard divides the points among machines";
        if self.lasts[0] > ABSURD {
            return Err(format!("{self}, and 30 days are possible: {longest}; {less}"));
        }
        let mut lines = vec![self.to_string()];
        if self.lasts[0] > LONG {
            lines.push(format!(
                "{}: {longest}; {less}; finished points are kept when it is interrupted",
                self.id
            ));
        }
        Ok(lines)
    }
}

/// A number with two significant digits, in words.
fn rounded(number: f64) -> String {
    let (unit, size) = match number {
        number if number >= 1e9 => (" thousand million", 1e9),
        number if number >= 1e6 => (" million", 1e6),
        number if number >= 1e3 => (" thousand", 1e3),
        _ => ("", 1.0),
    };
    let digits = usize::from(number / size < 10.0 && size > 1.0);
    format!("{:.digits$}{unit}", number / size)
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, runs: [least, most], lasts, threads, .. } = self;
        let threads = stats::count(*threads, "thread");
        let [short, long] = lasts.map(text::time);
        let time = if short == long { short } else { format!("{short} to {long}") };
        match least == most {
            true => write!(f, "{id}: {}, about {time} on {threads}", stats::count(*least as usize, "run")),
            false => write!(f, "{id}: {least} to {most} runs, about {time} on {threads}"),
        }
    }
}

/// The approximate number of packets of a run, and what takes as long.
fn about_packets(plan: &Plan) -> f64 {
    let packets: f64 = plan.workloads.iter().map(|workload| packets_of(plan, workload)).sum();
    let lasts = plan.lasts.map_or(0.0, |lasts| lasts.as_secs_f64());
    packets + lasts / plan.every.as_secs_f64() / SAMPLES_OF_A_PACKET
}

fn packets_of(plan: &Plan, workload: &Workload) -> f64 {
    let (packet, buffer) = match &workload.does {
        Does::Ftp { session, .. } if workload.is_tcp() => of_tcp(&session.tcp),
        Does::Ftp { session, .. } => of_sctp(&session.sctp),
        Does::Bulk { protocol, .. } | Does::Transfers { protocol, .. } => match protocol {
            Protocol::Sctp(config) => of_sctp(config),
            Protocol::Tcp(config) => of_tcp(config),
        },
    };
    let [begins, ends] = match &workload.does {
        Does::Bulk { starts, ends, .. } => [starts[0], ends.unwrap_or(LASTS_MAX)],
        _ => [workload.begins(), LASTS_MAX],
    };
    let ends = ends.min(about_end(plan));
    // At most a receive buffer in each round trip.
    let rate = plan.fastest(workload, workload.flows() as f64 * buffer * 8.0);
    let possible = ends.saturating_sub(begins).as_secs_f64() * rate / 8.0;
    let bytes = workload.about_bytes().map_or(possible, |bytes| bytes.min(possible));
    let transfers = match &workload.does {
        Does::Ftp { files, .. } => files.count() as f64,
        _ => workload.transfers().unwrap_or(workload.flows() as f64),
    };
    bytes / packet * PACKETS_OF_DATA + transfers * PACKETS_OF_A_TRANSFER
}

/// The bytes of user data of a full packet, and of the receive buffer.
fn of_sctp(config: &braidftp_sctp::Config) -> (f64, f64) {
    (config.path_mtu.packet_bytes as f64 - 28.0, config.memory.receive_buffer_bytes as f64)
}

fn of_tcp(config: &braidftp_tcp::Config) -> (f64, f64) {
    (f64::from(config.mss), config.receive_buffer_bytes as f64)
}

/// The approximate simulated time of a run in seconds, if its workloads have the rates of their links.
fn about_seconds(plan: &Plan) -> f64 {
    let is_session = |workload: &&Workload| matches!(workload.does, Does::Ftp { .. });
    let its = |workload: &Workload| {
        let bytes = workload.about_bytes().unwrap_or(0.0);
        workload.about_waits() + bytes * 8.0 / plan.fastest(workload, f64::INFINITY)
    };
    let lasts = plan.lasts.map(|lasts| lasts.as_secs_f64());
    match (plan.workloads.iter().find(is_session), lasts) {
        (Some(session), lasts) => its(session).min(lasts.unwrap_or(f64::INFINITY)),
        (None, Some(lasts)) => lasts,
        (None, None) => plan.workloads.iter().map(its).fold(0.0, f64::max),
    }
}

/// When a run ends at the latest, approximately: workloads beside a session may slow it down.
fn about_end(plan: &Plan) -> Duration {
    let slowed = duration(about_seconds(plan) * SLOWED + 1.0);
    slowed.min(plan.lasts.unwrap_or(LASTS_MAX))
}

/// The number of packets that this machine simulates in a second, measured once.
fn packets_of_a_second() -> f64 {
    static SPEED: OnceLock<f64> = OnceLock::new();
    *SPEED.get_or_init(|| {
        let scenario = super::parse("speed", MEASURED).unwrap_or_else(|error| panic!("{error}"));
        let sweep = scenario.figure.sweep().expect("a scenario is a sweep");
        let point = &sweep.points()[0];
        let packets = about_packets(&scenario.document.plan(point));
        let began = Instant::now();
        let mut fastest = Duration::MAX;
        for seed in 0.. {
            let run = Instant::now();
            (sweep.run)(point, seed);
            fastest = fastest.min(run.elapsed());
            if began.elapsed() >= MEASURED_FOR {
                break;
            }
        }
        packets / fastest.as_secs_f64().max(1e-9)
    })
}
