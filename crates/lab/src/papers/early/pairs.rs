//! The cost of losing two packets: each pair among the first 40 that either side sends, in a separate run.

use braidftp_sim::apps::ftp::End;

use super::cost::Cost;
use super::draw::{LEFT, Sheet};
use super::single::Plain;
use super::{Files, PATHS, settings, spoken_path};
use crate::figure::{Figure, Kind, Quick, Scene};
use crate::plot::tail::{Curve, Panel};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "early/pairs",
    shows: "What the loss of two early packets costs",
    caption: "100 files of 10 KB. Each pair among the first 40 packets of either side was lost in a run of its own, pairs across both sides too: the \
              part of these runs that cost more than so many seconds beyond the run without loss. Dashed: what it may cost, 1 s and four round \
              trips. Numbers are those of the packets as a side sends them, so that the second one may be another than in the run without loss.",
    settings: &settings,
    kind: Kind::Film(scene),
};

/// The number of packets of each side of which each pair is lost.
const PACKETS: usize = 40;

/// Columns of the numbers.
const COLUMNS: [&str; 14] = [
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
    "of_allowed",
    "silent_seconds",
    "silent_allowed",
    "timeouts",
];

/// A smaller cost counts as none, in seconds.
const FLOOR: f64 = 0.001;

fn scene(seed: u64, quick: Quick) -> Scene {
    let (paths, packets) = match quick {
        Quick::Yes => (&PATHS[..1], 6),
        Quick::No => (&PATHS[..], PACKETS),
    };
    let mut costs = Vec::new();
    for path in paths {
        let plain = Plain::run(path, Files::Hundred, [packets, 0], seed);
        for (index, one) in plain.packets.iter().enumerate() {
            costs.extend(plain.packets[index + 1..].iter().map(|other| plain.without(&[one, other])));
        }
    }
    Scene { columns: COLUMNS.to_vec(), rows: costs.iter().map(row).collect(), svg: drawn(paths, &costs) }
}

/// The permitted cost of losing two packets, in seconds.
fn allowed(cost: &Cost) -> f64 {
    1.0 + 4.0 * cost.job.round_trip().as_secs_f64()
}

fn row(cost: &Cost) -> Vec<String> {
    let mut row = vec![cost.job.path.to_owned()];
    for lost in &cost.lost {
        row.extend([lost.side().to_owned(), lost.number.to_string(), lost.says.clone()]);
    }
    row.extend([
        format!("{:.4}", cost.seconds),
        format!("{:.3}", cost.seconds / cost.job.round_trip().as_secs_f64()),
        format!("{:.4}", allowed(cost)),
        format!("{:.3}", cost.seconds / allowed(cost)),
        format!("{:.4}", cost.silent),
        format!("{:.4}", cost.job.silence_allowed().as_secs_f64()),
        cost.timeouts.to_string(),
    ]);
    row
}

/// The sides that lost a packet, with the colour of such pairs.
const SIDES: [(&str, [End; 2], &str); 3] = [
    ("both of the client", [End::Client, End::Client], "#e08a1e"),
    ("one of either side", [End::Client, End::Server], "#c8324a"),
    ("both of the server", [End::Server, End::Server], "#1f5fa8"),
];

fn drawn(paths: &[&str], costs: &[Cost]) -> String {
    const WIDTH: f64 = 460.0;
    let mut sheet = Sheet::new(&FIGURE, paths.len().div_ceil(2), 2.0 * (LEFT + WIDTH) + 20.0);
    sheet.legend(SIDES.iter().map(|(name, _, colour)| (*name, *colour, 0)));
    for (index, path) in paths.iter().enumerate() {
        let (place, height) = sheet.place(index / 2, (index % 2) as f64 * (WIDTH + LEFT + 10.0));
        sheet.name(place, spoken_path(path));
        let its: Vec<&Cost> = costs.iter().filter(|cost| cost.job.path == *path).collect();
        let curves: Vec<Curve> = SIDES
            .iter()
            .map(|(name, sides, colour)| {
                let of = its.iter().filter(|cost| cost.lost.iter().map(|lost| lost.from).eq(*sides));
                Curve {
                    name: (*name).to_owned(),
                    colour,
                    values: of.map(|cost| cost.seconds.max(FLOOR)).collect(),
                }
            })
            .collect();
        let size = (WIDTH, height);
        let limit = its.first().map(|cost| allowed(cost));
        Panel { place, size, x_label: "s that the two losses cost", floor: FLOOR, limit }
            .draw(&mut sheet.svg, &curves);
    }
    sheet.finish()
}
