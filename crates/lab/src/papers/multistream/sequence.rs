//! A run as a sequence diagram: time runs down, each packet is an arrow from one side to the other.
//!
//! Figures 3 to 5 are sequence diagrams of the same files over the same path, to the same scale.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_sim::apps::ftp::{End, Outcome, Over, Pdu, Purpose, Session, Variant, Watch};

use crate::figure::{Figure, Kind, Scene};
use crate::papers::ftp;
use crate::plot::svg::{Anchor, INK, MARGIN, SOFT, Svg, Text};
use crate::plot::wrapped;

const FAINT: &str = "#c9cfda";
const BOX: &str = "#f4f7fc";
const DATA: &str = "#1f5fa8";
const SETUP: &str = "#e08a1e";
const LOST: &str = "#c8324a";

const COMMANDS: &str = "commands and replies";
const SETTING_UP: &str = "opening and closing it";
const ACKS: &str = "acknowledgements";

/// Units per millisecond.
const SCALE: f64 = 1.25;
const WIDTH: f64 = 860.0;
const CLIENT_X: f64 = 310.0;
const SERVER_X: f64 = 560.0;
const TOP: f64 = 150.0;
/// The minimum distance of two texts on one side.
const LEADING: f64 = 12.5;

/// The parameters of one of these figures.
pub(super) struct Sequence {
    /// The id, for the heading.
    pub(super) id: &'static str,
    /// The heading.
    pub(super) shows: &'static str,
    /// The caption.
    pub(super) caption: &'static str,
    /// The transfer variant.
    pub(super) variant: Variant,
    /// The text in the box.
    pub(super) boxed: &'static str,
    /// The files that the box surrounds.
    pub(super) around: Around,
}

/// The files that the box surrounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// The part that is repeated for each file, once.
    First,
    /// All files.
    All,
}

/// The fixed settings.
fn settings() -> Vec<String> {
    vec![
        "path, each way: rate=1mbit,delay=35ms,queue=500kB, no loss".to_owned(),
        "workload: 2 files of 4 KB; time from the client's first packet after mget".to_owned(),
        "naive, ms, ms-cp: profile rfc2960-kame; braid: profile modern with an MTU of 1480".to_owned(),
    ]
}

impl Sequence {
    /// The figure, whose run is [`Self::scene`].
    pub(super) const fn figure(&self, scene: fn(u64) -> Scene) -> Figure {
        let Self { id, shows, caption, .. } = *self;
        Figure { id, shows, caption, settings: &settings, kind: Kind::Scene(scene) }
    }

    /// Runs and draws the diagram.
    pub(super) fn scene(&self, seed: u64) -> Scene {
        let link: braidftp_sim::LinkConfig =
            "rate=1mbit,delay=35ms,queue=500kB,overhead=20".parse().expect("a link");
        let session = ftp::session(self.variant.name(), vec![4_000; 2], vec![[link.clone(), link]], seed);
        let outcome = Session { watch: Watch { packets: true, ..Watch::default() }, ..session }.run();
        assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
        let pdus = outcome.transcript();
        let begin = pdus.first().expect("something was said").sent;
        Scene {
            columns: vec!["sent_ms", "arrived_ms", "from", "over", "purpose", "says"],
            rows: pdus.iter().map(|pdu| row(pdu, begin)).collect(),
            svg: self.draw(&outcome, &pdus, begin),
        }
    }

    fn draw(&self, outcome: &Outcome, pdus: &[Pdu], begin: Time) -> String {
        // Late acknowledgements of the last packets are left out.
        let told = pdus.iter().filter(|pdu| pdu.purpose < Purpose::Ack);
        let end =
            told.map(|pdu| pdu.arrived.unwrap_or(pdu.sent)).max().expect("something was said").since(begin);
        let pdus: Vec<&Pdu> = pdus.iter().filter(|pdu| pdu.sent.since(begin) <= end).collect();
        let down = |at: Time| TOP + millis(at.since(begin)) * SCALE;
        let bottom = TOP + millis(end) * SCALE + 40.0;
        let caption = wrapped(self.caption, WIDTH - 2.0 * MARGIN, 12.5);
        let mut svg = Svg::new(WIDTH, bottom + 30.0 + caption.len() as f64 * 17.0 + MARGIN / 2.0);
        let text = |x, y, size, colour, anchor| Text { x, y, size, colour, anchor, turned: 0.0 };
        svg.heading(self.shows, &format!("{} · one run, to scale", self.id), TOP - 48.0);
        self.legend(&mut svg);

        if let Some((from, to)) = self.extent(outcome, &pdus) {
            // Next to the first line of naive are the packets that close the association before it.
            let (above, below) = if self.variant == Variant::Naive { (5.8, 5.8) } else { (-9.0, 8.0) };
            let (top, height) = (down(from) + above, down(to) - down(from) + below - above);
            let (left, width) = (MARGIN + 46.0, WIDTH - 2.0 * MARGIN - 46.0);
            svg.rect([left, top, width, height], BOX, 6.0);
            for (a, b) in [
                ((left, top), (left + width, top)),
                ((left, top + height), (left + width, top + height)),
                ((left, top), (left, top + height)),
                ((left + width, top), (left + width, top + height)),
            ] {
                svg.line(a, b, SOFT, 1.0, "5 4");
            }
            svg.text(text(left + width - 10.0, top + height - 9.0, 12.5, SOFT, Anchor::End), self.boxed);
        }
        for (x, name) in [(CLIENT_X, "client"), (SERVER_X, "server")] {
            svg.line((x, TOP - 18.0), (x, bottom), INK, 1.6, "");
            svg.text(text(x, TOP - 26.0, 14.5, INK, Anchor::Middle), name);
        }
        let mut tick = 0.0;
        while tick <= millis(end) {
            let y = TOP + tick * SCALE;
            svg.line((MARGIN + 36.0, y), (MARGIN + 42.0, y), SOFT, 1.0, "");
            svg.text(text(MARGIN + 32.0, y + 4.0, 11.0, SOFT, Anchor::End), &format!("{tick}"));
            tick += 100.0;
        }
        svg.text(text(MARGIN + 32.0, TOP - 18.0, 11.0, SOFT, Anchor::End), "ms");

        // The position of the last text on either side.
        let mut texts = [f64::NEG_INFINITY; 2];
        // Elements in the background are drawn first.
        for pdu in pdus.iter().filter(|pdu| pdu.purpose >= Purpose::Ack) {
            svg.open(self.kind(pdu), &in_words(pdu, begin));
            arrow(&mut svg, pdu, &down);
            svg.close();
        }
        for pdu in pdus.iter().filter(|pdu| pdu.purpose < Purpose::Ack) {
            svg.open(self.kind(pdu), &in_words(pdu, begin));
            arrow(&mut svg, pdu, &down);
            let (side, x, anchor) = match pdu.from {
                End::Client => (0, CLIENT_X - 9.0, Anchor::End),
                End::Server => (1, SERVER_X + 9.0, Anchor::Start),
            };
            let y = (down(pdu.sent) + 4.0).max(texts[side] + LEADING);
            texts[side] = y;
            svg.text(text(x, y, 11.0, colour(pdu), anchor), &shortened(&pdu.says));
            svg.close();
        }
        svg.caption(&caption, bottom + 36.0);
        svg.finish()
    }

    fn legend(&self, svg: &mut Svg) {
        let mut entries = vec![(COMMANDS, INK, ""), (self.data(), DATA, "6 3")];
        if self.variant == Variant::Naive {
            entries.push((SETTING_UP, SETUP, "6 3"));
        }
        entries.push((ACKS, FAINT, ""));
        let mut x = MARGIN;
        for (name, colour, dashes) in entries {
            svg.line((x, 88.0), (x + 28.0, 88.0), colour, 2.0, dashes);
            let how =
                Text { x: x + 36.0, y: 92.5, size: 13.0, colour: INK, anchor: Anchor::Start, turned: 0.0 };
            svg.text(how, name);
            x += 60.0 + crate::plot::svg::text_width(name, 13.0);
        }
    }

    /// The label of data.
    fn data(&self) -> &'static str {
        match self.variant {
            Variant::Naive => "an association of its own",
            Variant::Braid => "data on streams 1 to 4",
            _ => "data on stream 1",
        }
    }

    /// The entry of the legend for a packet.
    fn kind(&self, pdu: &Pdu) -> &'static str {
        match pdu.purpose {
            Purpose::Control => COMMANDS,
            Purpose::Data => self.data(),
            Purpose::Setup => SETTING_UP,
            Purpose::Ack | Purpose::Other => ACKS,
        }
    }

    /// When the contents of the box begin and end.
    fn extent(&self, outcome: &Outcome, pdus: &[&Pdu]) -> Option<(Time, Time)> {
        let names = pdus.iter().position(|pdu| pdu.says.contains("NLST"))?;
        let asks = |pdu: &&&Pdu| ["SIZE", "EPRT", "RETR"].iter().any(|verb| pdu.says.contains(verb));
        let begin = pdus[names + 1..].iter().find(asks)?.sent;
        let end = match self.around {
            Around::First => outcome.files.first()?.done?,
            Around::All => outcome.files.last()?.done?,
        };
        Some((begin, end))
    }
}

/// A packet as text.
fn in_words(pdu: &Pdu, begin: Time) -> String {
    let way = match pdu.from {
        End::Client => "client to server",
        End::Server => "server to client",
    };
    let sent = millis(pdu.sent.since(begin));
    let arrived = pdu.arrived.map_or_else(
        || "lost".to_owned(),
        |arrived| format!("arrived at {:.1} ms", millis(arrived.since(begin))),
    );
    format!("{way}, sent at {sent:.1} ms, {arrived}: {}", pdu.says)
}

fn arrow(svg: &mut Svg, pdu: &Pdu, down: &impl Fn(Time) -> f64) {
    let (from, to) = match pdu.from {
        End::Client => (CLIENT_X, SERVER_X),
        End::Server => (SERVER_X, CLIENT_X),
    };
    let begin = (from, down(pdu.sent));
    let Some(arrived) = pdu.arrived else {
        let middle = ((from + to) / 2.0, begin.1 + 22.0);
        svg.line(begin, middle, LOST, 1.2, dashes(pdu));
        return svg.mark(3, middle, 4.0, LOST);
    };
    let end = (to, down(arrived));
    let (colour, width) = (colour(pdu), if pdu.purpose >= Purpose::Ack { 0.9 } else { 1.5 });
    svg.line(begin, end, colour, width, dashes(pdu));
    let (dx, dy) = (end.0 - begin.0, end.1 - begin.1);
    let length = dx.hypot(dy);
    let (ux, uy) = (dx / length, dy / length);
    let corner = |side: f64| (end.0 - 8.0 * ux - side * 3.2 * uy, end.1 - 8.0 * uy + side * 3.2 * ux);
    svg.polygon(&[end, corner(1.0), corner(-1.0)], colour, 1.0);
}

fn colour(pdu: &Pdu) -> &'static str {
    match pdu.purpose {
        Purpose::Data => DATA,
        Purpose::Control => INK,
        Purpose::Setup => SETUP,
        Purpose::Ack | Purpose::Other => FAINT,
    }
}

fn dashes(pdu: &Pdu) -> &'static str {
    let solid = pdu.over == Over::Session && pdu.purpose != Purpose::Data;
    if solid || pdu.purpose >= Purpose::Ack { "" } else { "6 3" }
}

/// A description without details: without a bundled acknowledgement, and without the text of a reply.
fn shortened(says: &str) -> String {
    let parts = says.split(" + ").filter(|part| *part != "SACK" || says == "SACK");
    let parts: Vec<String> = parts
        .map(|part| {
            let part = part.strip_prefix("DATA 0: ").or(part.strip_prefix("DATA 1: ")).unwrap_or(part);
            let lines = part.split(" / ").filter(|line| !line.starts_with('('));
            let lines = lines.map(|line| match line.split_once(' ') {
                Some((code, _)) if code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit()) => code,
                Some(("EPRT", _)) => "EPRT (PORT)",
                _ => line,
            });
            lines.collect::<Vec<_>>().join(", ")
        })
        .collect();
    parts.join(" + ")
}

fn row(pdu: &Pdu, begin: Time) -> Vec<String> {
    let at = |time: Time| format!("{}", millis(time.since(begin)));
    let from = match pdu.from {
        End::Client => "client",
        End::Server => "server",
    };
    let over = match pdu.over {
        Over::Session => "session",
        Over::Transfer => "transfer",
    };
    let purpose = match pdu.purpose {
        Purpose::Data => "data",
        Purpose::Control => "control",
        Purpose::Setup => "setup",
        Purpose::Ack => "ack",
        Purpose::Other => "other",
    };
    let arrived = pdu.arrived.map_or_else(|| "lost".to_owned(), at);
    vec![at(pdu.sent), arrived, from.into(), over.into(), purpose.into(), pdu.says.clone()]
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_packets_are_shortened() {
        for (says, short) in [
            ("SACK", "SACK"),
            ("SACK + DATA 0: 150 opening data connection for / (14 bytes)", "150"),
            ("DATA 1: 14 bytes + DATA 0: 226 transfer complete", "14 bytes + 226"),
            ("DATA 0: SIZE f0000 / SIZE f0001", "SIZE f0000, SIZE f0001"),
            ("DATA 0: EPRT |1|10.0.0.1|40000|", "EPRT (PORT)"),
            ("COOKIE ECHO", "COOKIE ECHO"),
        ] {
            assert_eq!(shortened(says), short);
        }
    }
}
