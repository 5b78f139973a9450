//! The round trips of a job from start to exit, without loss: one small file and 100, over TCP and over SCTP.

use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sim::apps::ftp::{Asks, End, Ends, Outcome, Pdu, Purpose, Session, Variant, Watch};
use braidftp_sim::link::{Bandwidth, LinkConfig};

use super::draw::{LEFT, text};
use super::{CARRIER_BYTES, Files, config};
use crate::figure::{Figure, Kind, Scene};
use crate::plot::svg::{Anchor, GRID, INK, MARGIN, SOFT, Svg, text_width};
use crate::plot::wrapped;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "early/start",
    shows: "Which round trips a job takes",
    caption: "A path of 1 Gbit/s and 50 ms each way, without loss, so that what takes time is round trips. Each line is a packet, from who sends it to who \
              gets it: the client below, the server above. The job ends when QUIT is answered and, over SCTP, the association shut down. Over TCP: \
              a command at a time, a data connection for each file, opened by the server.",
    settings: &settings,
    kind: Kind::Scene(scene),
};

const MEGABITS: u64 = 1_000;
const DELAY: Duration = Duration::from_millis(50);

/// The drawn variants: the name in tables, the variant, and the label.
const VARIANTS: [(&str, Variant, &str); 2] =
    [("tcp", Variant::Tcp, "FTP over TCP"), ("braid", Variant::Braid, "braid over SCTP")];

/// The purposes of packets, with labels and colours.
const PURPOSES: [(Purpose, &str, &str, &str); 4] = [
    (Purpose::Setup, "setup", "opening and closing", "#e08a1e"),
    (Purpose::Control, "control", "commands and replies", "#3b4252"),
    (Purpose::Data, "data", "files and names", "#1f5fa8"),
    (Purpose::Ack, "ack", "acknowledgements", "#c9cfda"),
];

/// The number of round trips drawn.
const DRAWN: f64 = 14.0;

fn settings() -> Vec<String> {
    vec![
        format!("path, each way: {}", link()),
        "job: files of 10 KB, from the client's first packet to the end of the session".to_owned(),
        "tcp: profile modern, FTP a command at a time, active mode; sctp: profile modern, mode braid"
            .to_owned(),
    ]
}

fn link() -> LinkConfig {
    LinkConfig {
        rate: Bandwidth::Fixed(Rate::from_bits_per_second(MEGABITS * 1_000_000)),
        delay: DELAY,
        overhead_bytes: CARRIER_BYTES,
        ..LinkConfig::default()
    }
}

/// A job, and its packets.
struct Told {
    variant: (&'static str, Variant, &'static str),
    files: Files,
    outcome: Outcome,
    packets: Vec<Pdu>,
}

impl Told {
    fn run(variant: (&'static str, Variant, &'static str), files: Files, seed: u64) -> Self {
        let session = Session {
            variant: variant.1,
            files: files.sizes(),
            sctp: config(1),
            tcp: braidftp_tcp::Profile::Modern.config(),
            paths: vec![[link(), link()]],
            asks: Asks::AtOnce,
            ends: Ends::WithQuit,
            watch: Watch { packets: true, ..Watch::default() },
            seed,
            ..Session::default()
        };
        let outcome = session.run();
        assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
        let exit = Time::ZERO + outcome.until_exit.expect("it quits");
        // Later acknowledgements delay nothing.
        let packets = outcome.transcript().into_iter().filter(|pdu| pdu.sent < exit).collect();
        Self { variant, files, outcome, packets }
    }

    /// The times of the milestones in round trips, with labels.
    fn milestones(&self) -> Vec<(&'static str, f64)> {
        let at = |time: Option<Time>| time.map(|time| trips(time.since(Time::ZERO)));
        let files = || self.outcome.files.iter();
        let first_data =
            self.packets.iter().find(|pdu| pdu.purpose == Purpose::Data).and_then(|pdu| pdu.arrived);
        let all = [
            ("names", at(first_data)),
            ("first byte of a file", at(files().filter_map(|file| file.first_byte).min())),
            ("last file and its 226", Some(trips(self.outcome.since_started))),
            ("exit", self.outcome.until_exit.map(trips)),
        ];
        all.into_iter().filter_map(|(name, at)| at.map(|at| (name, at))).collect()
    }
}

fn trips(time: Duration) -> f64 {
    time.as_secs_f64() / (2.0 * DELAY.as_secs_f64())
}

fn scene(seed: u64) -> Scene {
    let told: Vec<Told> = Files::ALL
        .into_iter()
        .rev()
        .flat_map(|files| VARIANTS.map(|variant| Told::run(variant, files, seed)))
        .collect();
    let mut rows = Vec::new();
    for told in &told {
        let name =
            |what: &str| vec![told.variant.0.to_owned(), told.files.name().to_owned(), what.to_owned()];
        for (what, at) in told.milestones() {
            let mut row = name("milestone");
            row.extend([String::new(), String::new(), format!("{at:.3}"), String::new(), what.to_owned()]);
            rows.push(row);
        }
        for pdu in &told.packets {
            let purpose =
                PURPOSES.iter().find(|known| known.0 == pdu.purpose).map_or("other", |known| known.1);
            let from = if pdu.from == End::Client { "client" } else { "server" };
            let mut row = name("packet");
            row.extend([
                from.to_owned(),
                format!("{:.3}", trips(pdu.sent.since(Time::ZERO))),
                pdu.arrived.map_or(String::new(), |at| format!("{:.3}", trips(at.since(Time::ZERO)))),
                purpose.to_owned(),
                pdu.says.clone(),
            ]);
            rows.push(row);
        }
    }
    let columns = vec!["variant", "files", "what", "from", "sent_rtt", "at_rtt", "purpose", "says"];
    Scene { columns, rows, svg: drawn(&told) }
}

fn drawn(told: &[Told]) -> String {
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 96.0;
    const STEP: f64 = 186.0;
    const TOP: f64 = 150.0;
    let caption = wrapped(FIGURE.caption, WIDTH + LEFT, 12.5);
    let bottom = TOP + STEP * told.len() as f64;
    let mut svg = Svg::new(2.0 * MARGIN + LEFT + WIDTH, bottom + 20.0 + caption.len() as f64 * 17.0);
    svg.heading(FIGURE.shows, FIGURE.id, 80.0);
    let mut x = MARGIN;
    for (_, _, name, colour) in PURPOSES {
        svg.line((x, 94.0), (x + 16.0, 94.0), colour, 2.4, "");
        svg.text(text(x + 24.0, 98.5, 13.0, INK, Anchor::Start), name);
        x += 50.0 + text_width(name, 13.0);
    }
    let left = MARGIN + LEFT;
    let along = |trips: f64| left + trips / DRAWN * WIDTH;
    for (index, told) in told.iter().enumerate() {
        let top = TOP + STEP * index as f64;
        let (server, client) = (top, top + HEIGHT);
        let name = format!("{}, {}", told.variant.2, told.files.spoken());
        let milestones: Vec<String> =
            told.milestones().iter().map(|(what, at)| format!("{what} {at:.1}")).collect();
        svg.text(text(left, top - 14.0, 14.0, INK, Anchor::Start), &name);
        let after = left + text_width(&name, 14.0) + 16.0;
        svg.text(
            text(after, top - 14.0, 12.5, SOFT, Anchor::Start),
            &format!("round trips: {}", milestones.join(", ")),
        );
        for trip in 0..=DRAWN as usize {
            let x = along(trip as f64);
            svg.line((x, server), (x, client), GRID, 1.0, "");
            svg.text(text(x, client + 18.0, 11.5, SOFT, Anchor::Middle), &trip.to_string());
        }
        for (y, who) in [(server, "server"), (client, "client")] {
            svg.line((left, y), (left + WIDTH, y), SOFT, 1.2, "");
            svg.text(text(left - 8.0, y + 4.0, 11.5, SOFT, Anchor::End), who);
        }
        svg.text(
            text(left + WIDTH / 2.0, client + 36.0, 12.0, SOFT, Anchor::Middle),
            "round trips since the start",
        );
        for pdu in &told.packets {
            let sent = trips(pdu.sent.since(Time::ZERO));
            let Some(arrived) = pdu.arrived.map(|at| trips(at.since(Time::ZERO))) else { continue };
            if arrived > DRAWN {
                continue;
            }
            let (from, to) = if pdu.from == End::Client { (client, server) } else { (server, client) };
            let colour = PURPOSES.iter().find(|known| known.0 == pdu.purpose).map_or(SOFT, |known| known.3);
            svg.line((along(sent), from), (along(arrived), to), colour, 1.4, "");
        }
        if let Some(exit) = told.outcome.until_exit.map(trips).filter(|exit| *exit <= DRAWN) {
            svg.line((along(exit), server - 4.0), (along(exit), client + 4.0), INK, 1.6, "4 3");
        }
    }
    svg.caption(&caption, bottom + 4.0);
    svg.finish()
}
