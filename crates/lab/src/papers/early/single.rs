//! The cost of losing one packet: each of the first 60 that either side sends, and of the last 10, in a
//! separate run.

use std::time::Duration;

use braidftp_sim::apps::ftp::{End, Pdu, Watch};

use super::cost::{Cost, Kind, Lost};
use super::draw::{self, LEFT, Sheet};
use super::{Files, Job, PATHS, script, seconds, settings, silent, spoken_path};
use crate::figure::{Figure, Kind as FigureKind, Quick, Scene};
use crate::plot::tail::{Curve, Panel};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "early/single",
    shows: "What the loss of one packet costs",
    caption: "Each mark is a run in which one packet was lost and no other: each of the first 60 of either side, and of the last 10; circles are \
              the client's, squares the server's. Up is by how much later the job was done than without loss, through what that may be (dashed: 1): \
              300 ms and a round trip for INIT and INIT ACK, 100 ms and two round trips for any other. On the right the part of these runs that \
              cost more.",
    settings: &settings,
    kind: FigureKind::Film(scene),
};

/// The packets of each side that are lost, one per run: this many from the beginning, and this many before
/// the end.
const FIRST: usize = 60;
const LAST: usize = 10;

/// Columns of the numbers.
const COLUMNS: [&str; 15] = [
    "path",
    "files",
    "from",
    "packet",
    "place",
    "kind",
    "says",
    "cost_seconds",
    "cost_rtt",
    "allowed_seconds",
    "of_allowed",
    "found_seconds",
    "silent_seconds",
    "silent_allowed",
    "timeouts",
];

impl Cost {
    /// The permitted cost of losing one packet, in seconds.
    fn allowed(&self) -> f64 {
        let round_trip = self.job.round_trip().as_secs_f64();
        match self.lost[0].kind() {
            Kind::Init => 0.3 + round_trip,
            _ => 0.1 + 2.0 * round_trip,
        }
    }

    /// The cost if the loss is detected after 1.25 of the packet's own round trip. That round trip includes
    /// the queue in front of the packet, which is empty when the packet is retransmitted.
    fn found(&self) -> f64 {
        let (took, back) = (self.lost[0].took, self.job.delay());
        ((took + back).mul_f64(1.25) + self.job.round_trip() - back).saturating_sub(took).as_secs_f64()
    }

    /// The cost divided by its limit.
    pub(super) fn of_allowed(&self) -> f64 {
        self.seconds / self.allowed()
    }
}

/// The run without loss: its duration, and some of its packets.
pub(super) struct Plain {
    pub(super) job: Job,
    seconds: f64,
    pub(super) packets: Vec<Lost>,
}

impl Plain {
    /// Runs a job without loss; records this many packets of each side at the beginning and before the end.
    pub(super) fn run(path: &'static str, files: Files, [first, last]: [usize; 2], seed: u64) -> Self {
        let job = Job { path, paths: 1, files, losses: script(&[], &[]), seed };
        let outcome = job.session(Watch { packets: true, ..Watch::default() }).run();
        let transcript: Vec<Pdu> = outcome.transcript();
        // Packets sent after the job is complete, such as the last acknowledgements, cannot delay it.
        let done = outcome.files.iter().filter_map(|file| file.done).max();
        let side = |from: End| {
            let its: Vec<&Pdu> = transcript
                .iter()
                .filter(|pdu| pdu.from == from && done.is_none_or(|done| pdu.sent < done))
                .collect();
            let count = its.len();
            let lost = |(number, pdu): (usize, &&Pdu)| Lost {
                from,
                number: number as u64,
                is_early: number < first,
                says: pdu.says.clone(),
                took: pdu.arrived.map_or(Duration::ZERO, |arrived| arrived.since(pdu.sent)),
            };
            let chosen =
                its.iter().enumerate().filter(|(number, _)| *number < first || *number + last >= count);
            chosen.map(lost).collect::<Vec<_>>()
        };
        let packets = [End::Client, End::Server].into_iter().flat_map(side).collect();
        Self { seconds: seconds(&outcome), job, packets }
    }

    /// The cost of losing these packets.
    pub(super) fn without(&self, lost: &[&Lost]) -> Cost {
        let of = |from: End| -> Vec<u64> {
            lost.iter().filter(|lost| lost.from == from).map(|lost| lost.number).collect()
        };
        let job = Job { losses: script(&of(End::Client), &of(End::Server)), ..self.job.clone() };
        let outcome = job.run();
        Cost {
            lost: lost.iter().map(|lost| (*lost).clone()).collect(),
            seconds: seconds(&outcome) - self.seconds,
            silent: silent(&outcome),
            timeouts: outcome.timeouts,
            job,
        }
    }
}

fn scene(seed: u64, quick: Quick) -> Scene {
    let (paths, packets) = match quick {
        Quick::Yes => (&PATHS[..1], [12, 4]),
        Quick::No => (&PATHS[..], [FIRST, LAST]),
    };
    let mut costs = Vec::new();
    for path in paths {
        for files in Files::ALL {
            let plain = Plain::run(path, files, packets, seed);
            costs.extend(plain.packets.iter().map(|lost| plain.without(&[lost])));
        }
    }
    Scene { columns: COLUMNS.to_vec(), rows: costs.iter().map(row).collect(), svg: drawn(paths, &costs) }
}

fn row(cost: &Cost) -> Vec<String> {
    let lost = &cost.lost[0];
    vec![
        cost.job.path.to_owned(),
        cost.job.files.name().to_owned(),
        lost.side().to_owned(),
        lost.number.to_string(),
        if lost.is_early { "first" } else { "last" }.to_owned(),
        lost.kind().name().to_owned(),
        lost.says.clone(),
        format!("{:.4}", cost.seconds),
        format!("{:.3}", cost.seconds / cost.job.round_trip().as_secs_f64()),
        format!("{:.4}", cost.allowed()),
        format!("{:.3}", cost.of_allowed()),
        format!("{:.4}", cost.found()),
        format!("{:.4}", cost.silent),
        format!("{:.4}", cost.job.silence_allowed().as_secs_f64()),
        cost.timeouts.to_string(),
    ]
}

fn drawn(paths: &[&str], costs: &[Cost]) -> String {
    const WIDTHS: [f64; 3] = [420.0, 260.0, 320.0];
    let wide = 3.0 * LEFT + WIDTHS.iter().sum::<f64>() + 20.0;
    let mut sheet = Sheet::new(&FIGURE, paths.len(), wide);
    sheet.legend(draw::kinds());
    for (row, path) in paths.iter().enumerate() {
        let its = |files: Files| -> Vec<&Cost> {
            costs.iter().filter(|cost| cost.job.path == *path && cost.job.files == files).collect()
        };
        let mut left = 0.0;
        for (files, width) in Files::ALL.into_iter().zip(WIDTHS) {
            let (place, height) = sheet.place(row, left);
            sheet.name(place, &format!("{} · {}, the first", spoken_path(path), files.spoken()));
            let early: Vec<&Cost> = its(files).into_iter().filter(|cost| cost.lost[0].is_early).collect();
            draw::marks(&mut sheet, place, (width, height), &early);
            left += width + LEFT + 10.0;
        }
        let (place, height) = sheet.place(row, left);
        sheet.name(place, "part of these runs that cost more");
        let curves: Vec<Curve> = Files::ALL
            .into_iter()
            .zip(["#1f5fa8", "#c8324a"])
            .map(|(files, colour)| Curve {
                name: files.spoken().to_owned(),
                colour,
                values: its(files).iter().map(|cost| cost.of_allowed().max(FLOOR)).collect(),
            })
            .collect();
        let size = (WIDTHS[2], height);
        let panel = Panel {
            place,
            size,
            x_label: "cost / limit (blue: 100 files; red: 1)",
            floor: FLOOR,
            limit: Some(1.0),
        };
        panel.draw(&mut sheet.svg, &curves);
    }
    sheet.finish()
}

/// A smaller fraction of the limit is drawn as this one.
const FLOOR: f64 = 0.01;
