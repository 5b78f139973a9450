//! What the loss of two packets costs, of each pair among the first 40 that either side sends.

use super::single::{Plain, side};
use super::{Files, PATHS, settings};
use crate::figure::{Figure, Kind, Quick, Scene};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "early/pairs",
    shows: "What the loss of two early packets costs",
    caption: "Each pair of packets was lost in a run of its own.",
    settings,
    kind: Kind::Film(scene),
};

/// Packets of each side, of which each pair is lost.
const PACKETS: usize = 40;

fn scene(seed: u64, quick: Quick) -> Scene {
    let (paths, packets) = match quick {
        Quick::Yes => (&PATHS[..1], 6),
        Quick::No => (&PATHS[..], PACKETS),
    };
    let mut rows = Vec::new();
    for path in paths {
        let plain = Plain::run(path, Files::Hundred, packets, seed);
        let allowed = 1.0 + 4.0 * plain.job.round_trip().as_secs_f64();
        for (index, one) in plain.packets.iter().enumerate() {
            for other in &plain.packets[index + 1..] {
                let cost = plain.without(&[one, other]);
                rows.push(vec![
                    (*path).to_owned(),
                    side(one.from).to_owned(),
                    one.number.to_string(),
                    one.says.clone(),
                    side(other.from).to_owned(),
                    other.number.to_string(),
                    other.says.clone(),
                    format!("{:.4}", cost.seconds),
                    format!("{:.2}", cost.round_trips),
                    format!("{allowed:.4}"),
                    format!("{:.4}", cost.silent),
                    format!("{:.4}", cost.silent_allowed),
                    cost.timeouts.to_string(),
                ]);
            }
        }
    }
    Scene {
        columns: vec![
            "path",
            "from",
            "packet",
            "says",
            "from_2",
            "packet_2",
            "says_2",
            "cost_seconds",
            "cost_rtt",
            "allowed_seconds",
            "silent_seconds",
            "silent_allowed",
            "timeouts",
        ],
        rows,
        svg: String::from("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"10\"/>"),
    }
}
