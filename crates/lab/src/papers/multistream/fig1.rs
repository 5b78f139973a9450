//! Figure 1: the congestion window over three files (P2 §2.1.2 B).
//!
//! Published: a sketch of three saw-teeth with gaps, for FTP over TCP. Ours are runs of TCP, and of an
//! association for all files, without and with pipelining. Without pipelining, the window is reduced to
//! Max.Burst packets when nothing is in flight (§4.2, equation 1); with pipelining, it is preserved from file
//! to file.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_sim::LinkConfig;
use braidftp_sim::apps::ftp::{Outcome, Session, Variant, Watch, WindowPoint};

use crate::figure::{Figure, Kind, Scene};
use crate::papers::ftp;
use crate::plot::svg::{Anchor, GRID, INK, Line, MARGIN, SOFT, Svg, Text};
use crate::plot::{linear_ticks, tick_text, wrapped};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/fig1",
    shows: "Congestion window of the server over three files",
    caption: CAPTION,
    settings: &settings,
    kind: Kind::Scene(scene),
};

const CAPTION: &str = "Figure 1: with a TCP connection for each file the server probes anew each time, and between two files \
                       (shaded) nothing flows. SCTP-MS keeps the association, but while SIZE and RETR go back and forth \
                       nothing is in flight, and its window falls to what Max.Burst allows; with commands pipelined \
                       (SCTP-MS-CP) there are no gaps and the window lives on, and so with braid. 3 files of 500 KB, 1 Mbit/s, 35 ms, 1 % of \
                       packets lost each way, with one seed.";

const VARIANTS: [(Variant, &str, &str); 4] = [
    (Variant::Tcp, "TCP New-Reno: a connection for each file", "#3b4252"),
    (Variant::Ms, "SCTP-MS: one association", "#4aa3df"),
    (Variant::MsCp, "SCTP-MS-CP: one association, commands pipelined", "#1f5fa8"),
    (Variant::Braid, "braid: one association of today's SCTP, files side by side", "#c8324a"),
];

const SHADE: &str = "#f7e6cf";
/// The maximum bytes in flight when only commands and replies are in flight.
const LINES_BYTES: usize = 400;
const LEFT: f64 = 58.0;
const PANEL_WIDTH: f64 = 800.0;
const PANEL_HEIGHT: f64 = 170.0;
const STEP: f64 = 236.0;
const TOP: f64 = 112.0;

fn settings() -> Vec<String> {
    vec![
        "path, each way: rate=1mbit,delay=35ms,queue=500kB,loss=0.01".to_owned(),
        "workload: 3 files of 500 KB; time from the client's first packet after mget".to_owned(),
        "tcp: profile newreno-bsd46; sctp: profile rfc2960-kame with a receive buffer of 57344 bytes"
            .to_owned(),
        "braid: profile modern with an MTU of 1480, 4 data streams".to_owned(),
    ]
}

fn scene(seed: u64) -> Scene {
    let link: LinkConfig = "rate=1mbit,delay=35ms,queue=500kB,loss=0.01,overhead=20".parse().expect("a link");
    let runs = VARIANTS.map(|(variant, ..)| {
        let paths = vec![[link.clone(), link.clone()]];
        let session = ftp::session(variant.name(), vec![500_000; 3], paths, seed);
        let outcome = Session { watch: Watch { windows: true, ..Watch::default() }, ..session }.run();
        assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
        outcome
    });
    let mut rows = Vec::new();
    for ((variant, ..), outcome) in VARIANTS.iter().zip(&runs) {
        let begin = begin(outcome);
        for point in points(outcome) {
            rows.push(vec![
                variant.to_string(),
                format!("{}", point.at.since(begin).as_secs_f64()),
                point.connection.to_string(),
                point.cwnd_bytes.to_string(),
                point.ssthresh_bytes.to_string(),
                point.flight_bytes.to_string(),
            ]);
        }
    }
    Scene {
        columns: vec!["variant", "seconds", "connection", "cwnd_bytes", "ssthresh_bytes", "flight_bytes"],
        rows,
        svg: draw(&runs),
    }
}

/// The time of the first request for a file.
fn begin(outcome: &Outcome) -> Time {
    let done = outcome.files.iter().filter_map(|file| file.done).max().unwrap_or(Time::ZERO);
    Time::ZERO + done.since(Time::ZERO).saturating_sub(outcome.since_asked)
}

fn points(outcome: &Outcome) -> impl Iterator<Item = &WindowPoint> {
    let (begin, end) = (begin(outcome), begin(outcome) + outcome.since_asked);
    outcome.windows.iter().filter(move |point| point.at >= begin && point.at <= end)
}

/// The intervals in which only commands and replies were in flight, between the first byte of the first file
/// and the end of the last.
fn idle(outcome: &Outcome) -> Vec<(Time, Time)> {
    let begin = outcome.files.iter().filter_map(|file| file.first_byte).min().unwrap_or(Time::ZERO);
    let mut spans: Vec<(Time, Time)> = Vec::new();
    let mut since: Option<Time> = None;
    for point in points(outcome).filter(|point| point.at >= begin) {
        match (since, point.flight_bytes <= LINES_BYTES) {
            (None, true) => since = Some(point.at),
            (Some(from), false) => {
                spans.push((from, point.at));
                since = None;
            }
            _ => {}
        }
    }
    spans
}

fn draw(runs: &[Outcome; 4]) -> String {
    let longest = runs.iter().map(|outcome| outcome.since_asked).max().unwrap_or(Duration::ZERO);
    let (_, last, ticks) = linear_ticks(longest.as_secs_f64());
    let largest = runs.iter().flat_map(points).map(|point| point.cwnd_bytes).max().unwrap_or(1);
    let (_, high, levels) = linear_ticks(largest as f64 / 1e3);
    let caption = wrapped(CAPTION, LEFT + PANEL_WIDTH, 12.5);
    let bottom = TOP + STEP * runs.len() as f64;
    let width = 2.0 * MARGIN + LEFT + PANEL_WIDTH;
    let mut svg = Svg::new(width, bottom + 26.0 + caption.len() as f64 * 17.0);
    let text = |x, y, size, colour, anchor| Text { x, y, size, colour, anchor, turned: 0.0 };
    svg.heading(FIGURE.shows, "multistream/fig1 · one run each", 80.0);
    let left = MARGIN + LEFT;
    for (index, ((_, name, colour), outcome)) in VARIANTS.iter().zip(runs).enumerate() {
        let top = TOP + STEP * index as f64;
        let floor = top + PANEL_HEIGHT;
        let begin = begin(outcome);
        let across = |at: Time| left + at.since(begin).as_secs_f64() / last * PANEL_WIDTH;
        let up = |bytes: usize| floor - bytes as f64 / 1e3 / high * PANEL_HEIGHT;
        svg.text(text(left, top - 10.0, 14.5, INK, Anchor::Start), name);
        for (from, to) in idle(outcome) {
            svg.rect([across(from), top, across(to) - across(from), PANEL_HEIGHT], SHADE, 0.0);
        }
        for level in &levels {
            let y = floor - level / high * PANEL_HEIGHT;
            svg.line((left, y), (left + PANEL_WIDTH, y), GRID, 1.0, "");
            svg.text(text(left - 8.0, y + 4.0, 11.5, SOFT, Anchor::End), &tick_text(*level));
        }
        for tick in &ticks {
            let x = left + tick / last * PANEL_WIDTH;
            svg.line((x, floor), (x, floor + 4.0), SOFT, 1.0, "");
            svg.text(text(x, floor + 18.0, 11.5, SOFT, Anchor::Middle), &tick_text(*tick));
        }
        let turned = Text {
            turned: -90.0,
            ..text(MARGIN + 10.0, top + PANEL_HEIGHT / 2.0, 12.0, SOFT, Anchor::Middle)
        };
        svg.text(turned, "cwnd, KB");
        let connections = points(outcome).map(|point| point.connection).max().unwrap_or(0);
        for connection in 0..=connections {
            // The window is constant until the next point.
            let mut line: Vec<(f64, f64)> = Vec::new();
            for point in points(outcome).filter(|point| point.connection == connection) {
                let (x, y) = (across(point.at), up(point.cwnd_bytes));
                line.extend(line.last().map(|(_, before)| (x, *before)));
                line.push((x, y));
            }
            let frame = [left, top, PANEL_WIDTH, PANEL_HEIGHT];
            let (x, y) = (("seconds", 0.0, last), ("KB", 0.0, high));
            svg.series(&Line { name, colour, width: 1.8, dashes: "", frame, x, y }, &line);
        }
        let spans =
            outcome.files.iter().filter_map(|file| Some((across(file.first_byte?), across(file.done?))));
        let spans: Vec<_> = spans.collect();
        let side_by_side = spans.windows(2).any(|pair| pair[1].0 < (pair[0].0 + pair[0].1) / 2.0);
        if let (true, Some(first)) = (side_by_side, spans.first()) {
            let x = (first.0 + first.1) / 2.0;
            let name = format!("files 1 to {}, side by side", spans.len());
            svg.text(text(x, floor + 34.0, 12.0, INK, Anchor::Middle), &name);
        } else {
            for (file, (first, done)) in spans.iter().enumerate() {
                let x = (first + done) / 2.0;
                svg.text(text(x, floor + 34.0, 12.0, INK, Anchor::Middle), &format!("file {}", file + 1));
            }
        }
    }
    svg.text(text(left + PANEL_WIDTH, bottom - 30.0, 12.0, SOFT, Anchor::End), "seconds");
    svg.caption(&caption, bottom + 16.0);
    svg.finish()
}
