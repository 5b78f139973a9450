//! What the loss of one packet costs, of each of the first 60 that either side sends.

use braidftp_sim::apps::ftp::{End, Pdu, Watch};

use super::{Files, Job, PATHS, script, seconds, settings, silent};
use crate::figure::{Figure, Kind, Quick, Scene};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "early/single",
    shows: "What the loss of one early packet costs",
    caption: "Each mark is a run in which one packet was lost and no other.",
    settings,
    kind: Kind::Film(scene),
};

/// Packets of each side that are lost, one in each run.
const PACKETS: usize = 60;

/// A run in which these packets were lost, and what that cost.
#[derive(Debug, Clone)]
pub(super) struct Cost {
    pub(super) path: &'static str,
    pub(super) files: Files,
    /// What was lost: whose packet, its number from 0, what it says in the run without loss.
    pub(super) lost: Vec<Lost>,
    pub(super) seconds: f64,
    pub(super) round_trips: f64,
    pub(super) silent: f64,
    pub(super) silent_allowed: f64,
    pub(super) timeouts: u64,
}

/// A packet that is lost.
#[derive(Debug, Clone)]
pub(super) struct Lost {
    pub(super) from: End,
    pub(super) number: u64,
    pub(super) says: String,
}

/// The run without loss: what it took, and its packets, side by side.
pub(super) struct Plain {
    pub(super) job: Job,
    pub(super) seconds: f64,
    pub(super) packets: Vec<Lost>,
}

impl Plain {
    /// A job without loss, and the first packets of each side of it.
    pub(super) fn run(path: &'static str, files: Files, packets: usize, seed: u64) -> Self {
        let job = Job { path, paths: 1, files, losses: script(&[], &[]), seed };
        let outcome = job.session(Watch { packets: true, ..Watch::default() }).run();
        let transcript: Vec<Pdu> = outcome.transcript();
        let side = |from: End| {
            let its = transcript.iter().filter(move |pdu| pdu.from == from).take(packets);
            its.enumerate().map(move |(number, pdu)| Lost {
                from,
                number: number as u64,
                says: pdu.says.clone(),
            })
        };
        let seconds = seconds(&outcome);
        let packets = side(End::Client).chain(side(End::Server)).collect();
        Self { job, seconds, packets }
    }

    /// What it costs to lose these.
    pub(super) fn without(&self, lost: &[&Lost]) -> Cost {
        let of = |from: End| -> Vec<u64> {
            lost.iter().filter(|lost| lost.from == from).map(|lost| lost.number).collect()
        };
        let job = Job { losses: script(&of(End::Client), &of(End::Server)), ..self.job.clone() };
        let outcome = job.run();
        let cost = seconds(&outcome) - self.seconds;
        Cost {
            path: job.path,
            files: job.files,
            lost: lost.iter().map(|lost| (*lost).clone()).collect(),
            seconds: cost,
            round_trips: cost / job.round_trip().as_secs_f64(),
            silent: silent(&outcome),
            silent_allowed: job.silence_allowed().as_secs_f64(),
            timeouts: outcome.timeouts,
        }
    }
}

/// Whose packet, in a word.
pub(super) fn side(from: End) -> &'static str {
    match from {
        End::Client => "client",
        End::Server => "server",
    }
}

fn scene(seed: u64, quick: Quick) -> Scene {
    let mut costs = Vec::new();
    let (paths, packets) = match quick {
        Quick::Yes => (&PATHS[..1], 12),
        Quick::No => (&PATHS[..], PACKETS),
    };
    for path in paths {
        for files in [Files::Hundred, Files::One] {
            let plain = Plain::run(path, files, packets, seed);
            costs.extend(plain.packets.iter().map(|lost| plain.without(&[lost])));
        }
    }
    let rows = costs.iter().map(|cost| {
        let [lost] = &cost.lost[..] else { panic!("one packet is lost in a run") };
        vec![
            cost.path.to_owned(),
            cost.files.name().to_owned(),
            side(lost.from).to_owned(),
            lost.number.to_string(),
            lost.says.clone(),
            format!("{:.4}", cost.seconds),
            format!("{:.2}", cost.round_trips),
            format!("{:.4}", allowed(cost)),
            format!("{:.4}", cost.silent),
            format!("{:.4}", cost.silent_allowed),
            cost.timeouts.to_string(),
        ]
    });
    Scene {
        columns: vec![
            "path",
            "files",
            "from",
            "packet",
            "says",
            "cost_seconds",
            "cost_rtt",
            "allowed_seconds",
            "silent_seconds",
            "silent_allowed",
            "timeouts",
        ],
        rows: rows.collect(),
        svg: String::from("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"10\"/>"),
    }
}

/// What the loss of one packet may cost, in seconds.
fn allowed(cost: &Cost) -> f64 {
    let round_trip = Job { path: cost.path, paths: 1, files: cost.files, losses: script(&[], &[]), seed: 1 }
        .round_trip()
        .as_secs_f64();
    match cost.lost[0].says.as_str() {
        "INIT" | "INIT ACK" => 0.3 + round_trip,
        _ => 0.1 + 2.0 * round_trip,
    }
}
