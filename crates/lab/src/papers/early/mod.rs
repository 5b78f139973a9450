//! Beyond the papers: the cost of early losses, short jobs and small windows, in the tail of the distribution
//! rather than in the mean.
//!
//! ```text
//! client ---- loss, queue, rate, delay (the same both ways) ---- server: a job of 100 files of 10 KB in mode `braid`
//! ```
//! A job begins with the client's INIT and ends when the last file and its 226 have arrived; the time
//! includes association, login, listing and files. A job is one attempt: a client that receives nothing for
//! 60 s ends it, as `braidftp` does (exit code 8).
//!
//! Times are divided by the limit `payload × wire overhead / (rate·(1−loss)) + 1 RTT`. The payload is the
//! bytes of the files; the wire overhead is 1480/1424, the length of a full packet of the profile `modern` on
//! the wire (IPv4, UDP, SCTP and DATA headers) divided by its user data; the rate is the sum over all paths;
//! the round trip is twice the delay plus the transmission time of a packet of 1,480 bytes. The limit does
//! not include handshake, login, listing, and packets that are not full.

mod claims;
mod cost;
mod draw;
mod pairs;
mod single;
mod start;
mod tails;

use std::time::Duration;

use braidftp_sctp as sctp;
use braidftp_sim::apps::ftp::{Asks, Outcome, Session, Variant, Watch};
use braidftp_sim::link::{LinkConfig, Loss};

use super::{ftp, utilisation};
use crate::claim::Paper;
use crate::figure::Figure;

/// Not a paper, but handled as one.
pub static PAPER: Paper = Paper {
    name: "early",
    key: "E",
    citation: "Beyond the papers: early losses, short jobs and small windows",
    figures: || FIGURES,
    claims: &[claims::CLAIMS],
    printed: &[],
    threats: &[],
};

static FIGURES: &[Figure] = &[single::FIGURE, pairs::FIGURE, tails::FIGURE, start::FIGURE];

/// The paths, by their names in `utilisation`: the three of the papers, and GEO.
pub const PATHS: [&str; 4] = ["lan", "wan", "sat", "geo"];

/// The length of a full packet of `modern` on the wire, including IPv4 and UDP headers.
const PACKET_BYTES: f64 = 1_480.0;
/// The user data in a full packet, in bytes.
const PACKET_DATA_BYTES: f64 = 1_424.0;
/// The headers below SCTP: IPv4 and UDP.
const CARRIER_BYTES: usize = 28;

/// How long the client receives nothing before it ends the job: the default of `braidftp --timeout`.
const PATIENCE: Duration = Duration::from_secs(60);

/// The files of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// 100 of 10 KB.
    Hundred,
    /// 100 of 50 KB.
    Hundred50,
    /// One of 10 KB.
    One,
}

impl Files {
    /// The files of the figures.
    pub const ALL: [Self; 2] = [Self::Hundred, Self::One];

    fn spoken(self) -> &'static str {
        match self {
            Self::Hundred => "100 files of 10 KB",
            Self::Hundred50 => "100 files of 50 KB",
            Self::One => "1 file of 10 KB",
        }
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hundred => "hundred",
            Self::Hundred50 => "hundred50",
            Self::One => "one",
        }
    }

    /// The sizes.
    pub fn sizes(self) -> Vec<u64> {
        match self {
            Self::Hundred => vec![10_000; 100],
            Self::Hundred50 => vec![50_000; 100],
            Self::One => vec![10_000],
        }
    }
}

/// A job over one path, or over several equal paths.
#[derive(Debug, Clone)]
pub struct Job {
    /// The path, one of [`PATHS`].
    pub path: &'static str,
    /// The number of paths, used concurrently.
    pub paths: usize,
    /// The files to fetch.
    pub files: Files,
    /// The losses towards the server and towards the client, on each path.
    pub losses: [Loss; 2],
    /// The seed of all random decisions.
    pub seed: u64,
}

impl Job {
    fn wire(&self) -> &'static utilisation::Path {
        utilisation::Path::named(self.path)
    }

    /// One direction of the path.
    fn link(&self, loss: Loss) -> LinkConfig {
        LinkConfig { loss, overhead_bytes: CARRIER_BYTES, ..self.wire().link(0.0) }
    }

    /// The one-way delay of the path.
    pub fn delay(&self) -> Duration {
        self.wire().delay
    }

    /// The RTT of a full packet through empty queues.
    pub fn round_trip(&self) -> Duration {
        2 * self.wire().delay
            + Duration::from_secs_f64(PACKET_BYTES * 8.0 / self.wire().bits_per_second as f64)
    }

    /// The lower bound of the duration at this loss ratio in each direction, in seconds.
    pub fn limit(&self, loss: f64) -> f64 {
        let payload: u64 = self.files.sizes().iter().sum();
        let rate = self.wire().bits_per_second as f64 * self.paths as f64 * (1.0 - loss);
        payload as f64 * 8.0 * PACKET_BYTES / PACKET_DATA_BYTES / rate + self.round_trip().as_secs_f64()
    }

    /// The session to run.
    pub fn session(&self, watch: Watch) -> Session {
        let links = self.losses.clone().map(|loss| self.link(loss));
        Session {
            variant: Variant::Braid,
            files: self.files.sizes(),
            sctp: config(self.paths),
            paths: vec![links; self.paths],
            asks: Asks::AtOnce,
            attempts: 1,
            patience: PATIENCE,
            watch,
            seed: self.seed,
            ..Session::default()
        }
    }

    /// Runs the job; the silences of each side are measured.
    pub fn run(&self) -> Outcome {
        self.session(Watch { silence: true, ..Watch::default() }).run()
    }

    /// The longest permitted silence of a side with data to send: four round trips and a second.
    pub fn silence_allowed(&self) -> Duration {
        4 * self.round_trip() + Duration::from_secs(1)
    }
}

/// The association of `braidftp` in mode `braid`, with this number of paths.
fn config(paths: usize) -> sctp::Config {
    let modern = sctp::Profile::Modern.config();
    let ask_every = if paths > 1 { Some(Duration::from_secs(5)) } else { modern.timers.heartbeat_interval };
    modern.with(|c| {
        c.paths.multipath = Some(sctp::Multipath::default());
        c.paths.multipath_with = sctp::MultipathWith::WhereAgreed;
        c.timers.heartbeat_interval = ask_every;
    })
}

/// The longest permitted silence on a path, in seconds.
fn silence_allowed(path: &'static str) -> f64 {
    let job = Job { path, paths: 1, files: Files::Hundred, losses: script(&[], &[]), seed: 1 };
    job.silence_allowed().as_secs_f64()
}

/// The duration of a run in seconds; infinite if it failed.
pub fn seconds(outcome: &Outcome) -> f64 {
    let is_whole = outcome.failed.is_none() && outcome.files.iter().all(|file| file.whole);
    if is_whole { outcome.since_started.as_secs_f64() } else { f64::INFINITY }
}

/// The longest silence of either side, in seconds.
fn silent(outcome: &Outcome) -> f64 {
    outcome.silent.into_iter().max().unwrap_or_default().as_secs_f64()
}

/// A rounded value, which keeps tables of many runs small.
fn rounded(value: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (value * unit).round() / unit
}

/// The fixed settings.
fn settings() -> Vec<String> {
    let line = |path: &&'static str| {
        let job = Job { path, paths: 1, files: Files::Hundred, losses: [Loss::None, Loss::None], seed: 1 };
        format!(
            "{path}: {}; round trip {:.1} ms; limit without loss {:.4} s",
            job.link(Loss::None),
            job.round_trip().as_secs_f64() * 1e3,
            job.limit(0.0)
        )
    };
    let mut lines = vec![
        "job: 100 files of 10 KB by braid, from INIT to the last 226; one attempt, given up after 60 s of silence".to_owned(),
        "sctp: profile modern as it comes, both sides; multipath where there are two paths".to_owned(),
        "limit: payload 1480/1424 / (rate (1-loss)) + 1 RTT".to_owned(),
    ];
    lines.extend(PATHS.iter().map(line));
    lines
}

/// The path as text.
fn spoken_path(name: &str) -> &'static str {
    match name {
        "lan" => "3 Mbit/s, 1 ms",
        "wan" => "1 Mbit/s, 35 ms",
        "sat" => "256 kbit/s, 125 ms",
        _ => "50 Mbit/s, 300 ms",
    }
}

/// Scripted losses: packets of the client and of the server, numbered from 0.
pub fn script(client: &[u64], server: &[u64]) -> [Loss; 2] {
    [client, server].map(|numbers| {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        if numbers.is_empty() { Loss::None } else { Loss::Script(numbers) }
    })
}

/// The losses of a named distribution with this mean.
pub fn losses(kind: &str, loss: f64) -> [Loss; 2] {
    let one = || if kind == "bursts" { ftp::bursts(loss, 3.0) } else { ftp::bernoulli(loss) };
    [one(), one()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(path: &'static str, paths: usize) -> Job {
        Job { path, paths, files: Files::Hundred, losses: script(&[], &[]), seed: 1 }
    }

    #[test]
    fn the_limit_is_the_payload_in_full_packets_and_a_round_trip() {
        // 1 MB, times 1480/1424, at 2.7 Mbit/s, plus 2 ms and the 3.947 ms of a packet.
        assert!(
            (job("lan", 1).limit(0.1) - (3.079_483 + 0.005_947)).abs() < 1e-5,
            "{}",
            job("lan", 1).limit(0.1)
        );
        // Two paths have twice the rate, and the RTT of one.
        let (one, two) = (job("sat", 1).limit(0.0), job("sat", 2).limit(0.0));
        let round_trip = job("sat", 1).round_trip().as_secs_f64();
        assert!(((one - round_trip) / 2.0 + round_trip - two).abs() < 1e-9);
        assert!((round_trip - 0.296_25).abs() < 1e-9);
    }

    #[test]
    fn each_path_matches_its_description() {
        for path in PATHS {
            let wire = job(path, 1).wire();
            let rate = match wire.bits_per_second {
                rate if rate >= 1_000_000 => format!("{} Mbit/s", rate / 1_000_000),
                rate => format!("{} kbit/s", rate / 1_000),
            };
            assert_eq!(spoken_path(path), format!("{rate}, {} ms", wire.delay.as_millis()));
        }
    }

    #[test]
    fn packets_of_a_script_may_be_named_in_any_order() {
        assert_eq!(script(&[7, 2], &[]), [Loss::Script(vec![2, 7]), Loss::None]);
    }

    #[test]
    fn a_loss_costs_time_and_the_same_seed_the_same_time() {
        let with = |losses: [Loss; 2]| Job { files: Files::One, losses, ..job("wan", 1) }.run();
        let plain = with(script(&[], &[]));
        let (lossy, again) = (with(script(&[0, 1], &[])), with(script(&[0, 1], &[])));
        assert!(seconds(&lossy) > seconds(&plain), "INIT and its copy were lost");
        assert_eq!(lossy.fingerprint, again.fingerprint);
        assert!(silent(&lossy) > 0.1 && silent(&lossy) <= seconds(&lossy));
        // A job that was ended early has no duration.
        let dead = with([Loss::None, ftp::bernoulli(1.0)]);
        assert!(dead.failed.is_some() && seconds(&dead).is_infinite());
    }
}
