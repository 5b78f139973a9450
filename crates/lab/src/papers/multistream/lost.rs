//! Beyond the paper: the cost of a single lost packet. The paper argues why losses of commands (P2-C02),
//! early in a file (P2-C06), in handshakes (P2-C20) and of acknowledgements (P1-C15) matter or not; here each
//! packet of a run is lost in a separate run.
//!
//! Published: arguments. Ours: a lost command or reply costs a time-out of a second, a packet of a handshake
//! three seconds, one of the last three packets of a file a second with TCP and SCTP alike, an
//! acknowledgement mostly nothing. The first packet of a file costs a second if it is the whole initial
//! window, and nothing if three packets follow it. With braid no packet costs more than 0.13 s.

use std::num::NonZeroU8;

use braidftp_base::Time;
use braidftp_cc::InitialWindow;
use braidftp_sim::apps::ftp::{End, Outcome, Purpose, Session, Variant, Watch};
use braidftp_sim::link::Loss;

use super::QUEUE;
use crate::figure::{Figure, Kind, Scene};
use crate::papers::ftp::{self, LAN};
use crate::plot::svg::{Anchor, GRID, INK, MARGIN, SOFT, Svg, Text, text_width};
use crate::plot::{linear_ticks, tick_text, wrapped};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/lost",
    shows: "What the loss of one packet costs, LAN",
    caption: CAPTION,
    settings: &settings,
    kind: Kind::Scene(scene),
};

const CAPTION: &str = "2 files of 50 KB over the LAN of Figure 6. Each mark is a run in which one packet was lost and no other: the one that \
                       leaves at that place of the run without loss; up is by how much later the last file was there.";

/// The drawn variants: the name in tables, the variant, and the label.
const VARIANTS: [(&str, Variant, &str); 6] = [
    ("tcp", Variant::Tcp, "TCP New-Reno, first window of 4 packets"),
    ("tcp-1", Variant::Tcp, "TCP New-Reno, first window of 1"),
    ("naive", Variant::Naive, "SCTP-naive"),
    ("ms", Variant::Ms, "SCTP-MS"),
    ("ms-cp", Variant::MsCp, "SCTP-MS-CP"),
    ("braid", Variant::Braid, "braid"),
];

/// The purposes of packets: the name in tables, the label, the mark and the colour.
const PURPOSES: [(Purpose, &str, &str, usize, &str); 4] = [
    (Purpose::Control, "control", "commands and replies", 0, "#3b4252"),
    (Purpose::Setup, "setup", "opening and closing connections", 1, "#e08a1e"),
    (Purpose::Data, "data", "data", 2, "#1f5fa8"),
    (Purpose::Ack, "ack", "acknowledgements alone", 3, "#9aa3b2"),
];

const LEFT: f64 = 58.0;
const PANEL_WIDTH: f64 = 800.0;
const PANEL_HEIGHT: f64 = 120.0;
const STEP: f64 = 176.0;
const TOP: f64 = 138.0;

fn settings() -> Vec<String> {
    let mut settings = super::settings(LAN);
    settings[1] =
        "workload: 2 files of 50 KB, from the client's first packet after mget to the last 226".to_owned();
    settings
}

/// A packet, and the cost of its loss.
struct Cost {
    number: usize,
    from: End,
    purpose: Purpose,
    seconds: f64,
    /// Retransmission time-outs of both sides, without those of the set-up.
    timeouts: u64,
    says: String,
}

fn scene(seed: u64) -> Scene {
    let all = VARIANTS.map(|(name, variant, _)| costs(name, variant, seed));
    let mut rows = Vec::new();
    for ((variant, ..), costs) in VARIANTS.iter().zip(&all) {
        for cost in costs {
            let from = if cost.from == End::Client { "client" } else { "server" };
            let purpose = PURPOSES.iter().find(|known| known.0 == cost.purpose);
            rows.push(vec![
                (*variant).to_owned(),
                cost.number.to_string(),
                from.to_owned(),
                purpose.map_or("other", |known| known.1).to_owned(),
                format!("{}", cost.seconds),
                cost.timeouts.to_string(),
                cost.says.clone(),
            ]);
        }
    }
    Scene {
        columns: vec!["variant", "packet", "from", "purpose", "costs_seconds", "timeouts", "says"],
        rows,
        svg: draw(&all),
    }
}

/// Loses each packet in a separate run.
fn costs(name: &str, variant: Variant, seed: u64) -> Vec<Cost> {
    let session = |losses: [Loss; 2]| {
        let links = losses.map(|loss| LAN.link(QUEUE, loss));
        let mut session = ftp::session(variant.name(), vec![50_000; 2], vec![links], seed);
        if name == "tcp-1" {
            session.tcp.congestion_options.initial_window = InitialWindow::Mtus(NonZeroU8::MIN);
        }
        session
    };
    let run = |session: &Session| {
        let outcome = session.run();
        assert!(outcome.failed.is_none(), "{}", outcome.failed.as_deref().unwrap_or_default());
        outcome
    };
    let plain = session([Loss::None, Loss::None]);
    let whole = run(&Session { watch: Watch { packets: true, ..Watch::default() }, ..plain });
    let ended = end(&whole);
    let mut seen = [0, 0];
    let mut costs = Vec::new();
    for (number, pdu) in whole.transcript().into_iter().enumerate() {
        if pdu.sent > ended {
            break;
        }
        let way = usize::from(pdu.from == End::Server);
        let script = Loss::Script(vec![whole.packets_before[way] + seen[way]]);
        seen[way] += 1;
        let losses = if way == 0 { [script, Loss::None] } else { [Loss::None, script] };
        let without = run(&session(losses));
        let seconds = without.since_asked.as_secs_f64() - whole.since_asked.as_secs_f64();
        let timeouts = without.timeouts;
        costs.push(Cost { number, from: pdu.from, purpose: pdu.purpose, seconds, timeouts, says: pdu.says });
    }
    costs
}

/// The time of arrival of the last file.
fn end(outcome: &Outcome) -> Time {
    outcome.files.iter().filter_map(|file| file.done).max().unwrap_or(Time::ZERO)
}

fn draw(all: &[Vec<Cost>; 6]) -> String {
    let costs = || all.iter().flatten();
    let (_, high, levels) = linear_ticks(costs().map(|cost| cost.seconds).fold(0.0, f64::max));
    let longest = all.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let (_, last, ticks) = linear_ticks(longest);
    let caption = wrapped(CAPTION, LEFT + PANEL_WIDTH, 12.5);
    let bottom = TOP + STEP * all.len() as f64;
    let mut svg = Svg::new(2.0 * MARGIN + LEFT + PANEL_WIDTH, bottom + 26.0 + caption.len() as f64 * 17.0);
    let text = |x, y, size, colour, anchor| Text { x, y, size, colour, anchor, turned: 0.0 };
    svg.text(text(MARGIN, 44.0, 22.0, INK, Anchor::Start), FIGURE.shows);
    svg.text(text(MARGIN, 65.0, 12.5, SOFT, Anchor::Start), "multistream/lost · a run for each packet");
    let mut x = MARGIN;
    for (_, _, name, shape, colour) in PURPOSES {
        svg.mark(shape, (x + 6.0, 90.0), 4.0, colour);
        svg.text(text(x + 18.0, 94.5, 13.0, INK, Anchor::Start), name);
        x += 44.0 + text_width(name, 13.0);
    }
    let left = MARGIN + LEFT;
    for (index, ((_, _, name), costs)) in VARIANTS.iter().zip(all).enumerate() {
        let top = TOP + STEP * index as f64;
        let floor = top + PANEL_HEIGHT;
        let up = |seconds: f64| floor - seconds.max(0.0) / high * PANEL_HEIGHT;
        svg.text(text(left, top - 10.0, 14.5, INK, Anchor::Start), name);
        for level in &levels {
            svg.line((left, up(*level)), (left + PANEL_WIDTH, up(*level)), GRID, 1.0, "");
            svg.text(text(left - 8.0, up(*level) + 4.0, 11.5, SOFT, Anchor::End), &tick_text(*level));
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
        svg.text(turned, "seconds");
        for cost in costs {
            let x = left + (cost.number as f64 + 0.5) / last * PANEL_WIDTH;
            let known = PURPOSES.iter().find(|known| known.0 == cost.purpose);
            let (shape, colour) = known.map_or((0, SOFT), |known| (known.3, known.4));
            svg.mark(shape, (x, up(cost.seconds)), 3.6, colour);
        }
    }
    svg.text(
        text(left + PANEL_WIDTH, bottom - 18.0, 12.0, SOFT, Anchor::End),
        "number of the packet, in the order of leaving",
    );
    for (index, line) in caption.iter().enumerate() {
        svg.text(text(MARGIN, bottom + 16.0 + index as f64 * 17.0, 12.5, SOFT, Anchor::Start), line);
    }
    svg.finish()
}
