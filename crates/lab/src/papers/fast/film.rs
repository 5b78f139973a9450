//! Figures 2 to 5: the state of a bottleneck and its flows over 1000 s, with both readings of the paper's
//! delay side by side.

use braidftp_base::Time;
use braidftp_sim::apps::bulk::Span;

use super::run::{Sample, Setup, Stack, Trace};
use super::{Protocol, READINGS, setup, shrunk};
use crate::figure::{Figure, Quick, Scene};
use crate::plot::svg::{Anchor, GRID, INK, Line, MARGIN, SOFT, Svg, Text, text_width};
use crate::plot::{linear_ticks, tick_text, wrapped};

/// One of the four figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Film {
    /// The figure.
    pub(super) figure: &'static Figure,
    /// The protocol of the flows.
    pub(super) protocol: Protocol,
    /// The start and end times of the flows.
    pub(super) flows: fn() -> Vec<Span>,
}

/// The flows' colours.
const COLOURS: [&str; 4] = ["#1f5fa8", "#e08a1e", "#2a9d8f", "#c8324a"];
/// The colour of quantities common to all flows.
const ALL: &str = "#3b4252";
/// The colour of expected values.
const EXPECTED: &str = "#8e5bb5";

const LEFT: f64 = 66.0;
const WIDTH: f64 = 470.0;
const HEIGHT: f64 = 138.0;
const STEP: f64 = 196.0;
const GAP: f64 = 36.0;
const TOP: f64 = 172.0;

impl Film {
    /// Runs the figure.
    pub(super) fn scene(&self, seed: u64, quick: Quick) -> Scene {
        let setups =
            READINGS.map(|(_, one_way, _)| shrunk(setup(self.protocol, (self.flows)(), one_way), quick));
        // A run takes minutes, so both runs are concurrent.
        let traces = std::thread::scope(|scope| {
            let threads = setups.each_ref().map(|setup| scope.spawn(move || setup.run(seed)));
            threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let flows = setups[0].flows.len();
        let mut columns = vec![
            "delay",
            "seconds",
            "throughput_mbps",
            "queue_packets",
            "drops",
            "timeouts",
            "resent",
            "twice",
        ];
        columns.extend(&CWND[..flows]);
        columns.extend(&GOODPUT[..flows]);
        let mut rows = Vec::new();
        for ((name, ..), trace) in READINGS.iter().zip(&traces) {
            rows.extend(trace.samples.iter().map(|sample| row(name, sample)));
        }
        Scene { columns, rows, svg: self.draw(&setups, &traces, quick) }
    }

    fn draw(&self, setups: &[Setup; 2], traces: &[Trace; 2], quick: Quick) -> String {
        let across = 2.0 * (LEFT + WIDTH) + GAP;
        let caption = wrapped(self.figure.caption, across, 12.5);
        let bottom = TOP + 4.0 * STEP;
        let mut svg = Svg::new(2.0 * MARGIN + across, bottom + 20.0 + caption.len() as f64 * 17.0);
        let which = format!("{} · {}", self.figure.id, described(&setups[0], quick));
        svg.heading(self.figure.shows, &which, 84.0);
        legend(&mut svg, &setups[0]);
        let rows: [Panel<'_>; 4] = [
            Panel::of("bottleneck, Mbit/s", |sample| sample.throughput / 1e6)
                .beside("what it carries", |setup, _| setup.rate as f64 / 1e6),
            Panel::of("queue, packets", |sample| sample.queue).beside(expectation(setups), expected_queue),
            Panel { what: "cwnd, packets", of_all: None, expected: None },
            Panel::of("dropped, packets in all", |sample| sample.drops as f64),
        ];
        for (number, panel) in rows.iter().enumerate() {
            let highest = |(setup, trace): (&Setup, &Trace)| panel.highest(setup, trace);
            let highest = setups.iter().zip(traces).map(highest).fold(1.0, f64::max);
            for (column, (setup, trace)) in setups.iter().zip(traces).enumerate() {
                let left = MARGIN + LEFT + column as f64 * (LEFT + WIDTH + GAP);
                let top = TOP + number as f64 * STEP;
                if number == 0 {
                    let how = Text { x: left, y: top - 34.0, size: 15.5, ..text(INK, Anchor::Start) };
                    svg.text(how, READINGS[column].2);
                }
                panel.draw(&mut svg, (left, top), setup, trace, highest);
            }
        }
        svg.caption(&caption, bottom + 10.0);
        svg.finish()
    }
}

/// The column names of the windows, by flow.
const CWND: [&str; 4] = ["cwnd_1", "cwnd_2", "cwnd_3", "cwnd_4"];
const GOODPUT: [&str; 4] = ["goodput_1", "goodput_2", "goodput_3", "goodput_4"];

fn row(reading: &str, sample: &Sample) -> Vec<String> {
    let flows = || sample.flows.iter();
    let mut row = vec![
        reading.to_owned(),
        format!("{}", rounded(sample.at)),
        format!("{}", rounded(sample.throughput / 1e6)),
        format!("{}", sample.queue),
        sample.drops.to_string(),
        flows().map(|flow| flow.timeouts).sum::<u64>().to_string(),
        flows().map(|flow| flow.resent).sum::<u64>().to_string(),
        flows().map(|flow| flow.twice).sum::<u64>().to_string(),
    ];
    row.extend(flows().map(|flow| format!("{}", rounded(flow.cwnd))));
    row.extend(flows().map(|flow| format!("{}", rounded(flow.goodput / 1e6))));
    row
}

/// A value with two decimals, enough for a window or a rate.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn described(setup: &Setup, quick: Quick) -> String {
    let small = if quick == Quick::Yes { "--quick: small and short, " } else { "" };
    format!("{small}{} flows, one run with each reading of the delay", setup.flows.len())
}

fn text(colour: &str, anchor: Anchor) -> Text<'_> {
    Text { x: 0.0, y: 0.0, size: 11.5, colour, anchor, turned: 0.0 }
}

fn legend(svg: &mut Svg, setup: &Setup) {
    let mut x = MARGIN;
    let mut entry = |colour: &str, dashes: &str, name: &str| {
        svg.line((x, 96.0), (x + 24.0, 96.0), colour, 2.2, dashes);
        svg.text(Text { x: x + 31.0, y: 100.5, size: 13.0, ..text(INK, Anchor::Start) }, name);
        x += 56.0 + text_width(name, 13.0);
    };
    for (number, (colour, span)) in COLOURS.iter().zip(&setup.flows).enumerate() {
        let when = match (span.begins == Time::ZERO, span.ends) {
            (true, None) => String::new(),
            (_, ends) => {
                let ends = ends.map_or(setup.lasts.as_secs_f64(), Time::as_secs_f64);
                format!(", {} to {ends} s", span.begins.as_secs_f64())
            }
        };
        entry(colour, "", &format!("flow {}{when}", number + 1));
    }
    entry(EXPECTED, "5 4", "what is expected");
}

/// The expected queue as text.
fn expectation(setups: &[Setup; 2]) -> &'static str {
    match setups[0].stack {
        Stack::Fast(_) => "α a flow",
        Stack::Sctp { .. } => "what it holds",
    }
}

/// The expected queue: for FAST the sum of α over the active flows; for the others the limit of the queue.
fn expected_queue(setup: &Setup, at: f64) -> f64 {
    match setup.stack {
        Stack::Fast(params) => {
            let there = |span: &&Span| {
                let ends = span.ends.map_or(f64::INFINITY, Time::as_secs_f64);
                (span.begins.as_secs_f64()..ends).contains(&at)
            };
            setup.flows.iter().filter(there).count() as f64 * f64::from(params.alpha_packets)
        }
        Stack::Sctp { .. } => setup.queue as f64,
    }
}

/// A quantity over time.
struct Panel<'a> {
    what: &'a str,
    /// A quantity common to all flows; `None`: the windows of the flows.
    of_all: Option<fn(&Sample) -> f64>,
    /// The expected value, and its name.
    expected: Option<(&'a str, Expected)>,
}

/// The expected value of a run at a time.
type Expected = fn(&Setup, f64) -> f64;

impl<'a> Panel<'a> {
    fn of(what: &'a str, value: fn(&Sample) -> f64) -> Self {
        Self { what, of_all: Some(value), expected: None }
    }

    fn beside(self, name: &'a str, expected: Expected) -> Self {
        Self { expected: Some((name, expected)), ..self }
    }

    /// The lines of the panel: a name, a colour, and a value at each sample.
    fn lines(&self, trace: &Trace) -> Vec<(String, &'static str, Vec<f64>)> {
        match self.of_all {
            Some(value) => vec![(self.what.to_owned(), ALL, trace.samples.iter().map(value).collect())],
            None => {
                let count = trace.samples.first().map_or(0, |sample| sample.flows.len());
                let line = |flow: usize| {
                    let values = trace.samples.iter().map(|sample| sample.flows[flow].cwnd);
                    (format!("flow {}", flow + 1), COLOURS[flow], values.collect())
                };
                (0..count).map(line).collect()
            }
        }
    }

    fn highest(&self, setup: &Setup, trace: &Trace) -> f64 {
        let lines = self.lines(trace);
        let seen = lines.iter().flat_map(|(.., values)| values.iter().copied()).fold(0.0, f64::max);
        let expected = self.expected.map(|(_, expected)| {
            trace.samples.iter().map(|sample| expected(setup, sample.at)).fold(0.0, f64::max)
        });
        seen.max(expected.unwrap_or(0.0))
    }

    fn draw(&self, svg: &mut Svg, (left, top): (f64, f64), setup: &Setup, trace: &Trace, highest: f64) {
        let floor = top + HEIGHT;
        let lasts = setup.lasts.as_secs_f64();
        let (_, high, levels) = linear_ticks(highest);
        let (_, _, ticks) = linear_ticks(lasts);
        let place = |at: f64, value: f64| (left + at / lasts * WIDTH, floor - value / high * HEIGHT);
        svg.text(Text { x: left, y: top - 10.0, size: 12.5, ..text(SOFT, Anchor::Start) }, self.what);
        for level in &levels {
            let (_, y) = place(0.0, *level);
            svg.line((left, y), (left + WIDTH, y), GRID, 1.0, "");
            svg.text(Text { x: left - 8.0, y: y + 4.0, ..text(SOFT, Anchor::End) }, &tick_text(*level));
        }
        for tick in ticks.iter().filter(|tick| **tick <= lasts) {
            let (x, _) = place(*tick, 0.0);
            svg.line((x, floor), (x, floor + 4.0), SOFT, 1.0, "");
            svg.text(Text { x, y: floor + 18.0, ..text(SOFT, Anchor::Middle) }, &tick_text(*tick));
        }
        let end = Text { x: left + WIDTH, y: floor + 33.0, ..text(SOFT, Anchor::End) };
        svg.text(end, "seconds");
        let frame = [left, top, WIDTH, HEIGHT];
        let (x, y) = (("seconds", 0.0, lasts), (self.what, 0.0, high));
        let mut put = |name: &str, colour: &str, width: f64, dashes: &str, points: &[(f64, f64)]| {
            let points: Vec<_> = points.iter().map(|(at, value)| place(*at, *value)).collect();
            svg.series(&Line { name, colour, width, dashes, frame, x, y }, &points);
        };
        for (name, colour, values) in self.lines(trace) {
            let points: Vec<_> = trace.samples.iter().map(|sample| sample.at).zip(values).collect();
            put(&name, colour, 1.3, "", &thinned(&points, lasts));
        }
        if let Some((name, expected)) = self.expected {
            let all: Vec<_> =
                trace.samples.iter().map(|sample| (sample.at, expected(setup, sample.at))).collect();
            put(name, EXPECTED, 1.3, "5 4", &thinned(&all, lasts));
        }
    }
}

/// Thins points to the resolution of the picture: of the points within the width of a dot, the first, lowest,
/// highest and last remain in order of time, so that no peak is lost.
fn thinned(points: &[(f64, f64)], lasts: f64) -> Vec<(f64, f64)> {
    let dot = |at: f64| (at / lasts * WIDTH) as usize;
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for shared in points.chunk_by(|one, other| dot(one.0) == dot(other.0)) {
        let by_value = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let lowest = shared.iter().min_by(by_value);
        let highest = shared.iter().max_by(by_value);
        let mut some: Vec<_> =
            [shared.first(), lowest, highest, shared.last()].into_iter().flatten().copied().collect();
        some.sort_by(|one, other| one.0.total_cmp(&other.0));
        some.dedup();
        kept.extend(some);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_points_keep_every_peak() {
        let mut points: Vec<(f64, f64)> = (0..5_000).map(|at| (f64::from(at) / 5.0, 1.0)).collect();
        points[1_234].1 = 9.0;
        points[4_321].1 = 0.0;
        let kept = thinned(&points, 1_000.0);
        assert!(kept.len() < 1_500, "{}", kept.len());
        assert!(kept.contains(&points[1_234]) && kept.contains(&points[4_321]));
        assert!(kept.is_sorted_by(|one, other| one.0 <= other.0));
    }
}
