//! The SVG of a film: a lane for each direction of each link, with its queue and its packets; below, queues and windows as
//! curves that appear as time goes on.

use std::fmt::Write;
use std::time::Duration;

use braidftp_sim::windows::SendWindows;

use super::{End, Packet, Recorder, Sample};
use crate::plot::svg::{Escaped, GRID, INK, SOFT};
use crate::plot::{linear_ticks, on_black, tick_text};

const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 34.0;
const RIGHT: f64 = 966.0;
/// The wires of links, between the queues of both directions.
const WIRE: (f64, f64) = (250.0, 866.0);
/// The largest width of a queue.
const QUEUE: f64 = 84.0;
/// The height of a link.
const LINK: f64 = 62.0;
const TOP: f64 = 92.0;
/// The plot area of curves, and the height of a chart with its labels.
const PLOT: (f64, f64) = (110.0, 966.0);
const CHART: f64 = 152.0;
const PLOT_HEIGHT: f64 = 100.0;
/// The place of what is not shown.
const AWAY: f64 = -99.0;
/// The number of texts of the clock.
const CLOCK: usize = 100;
/// How long a dropped packet is shown, as a part of the film.
const DROPPED: f64 = 0.012;
/// Bytes from which a packet is drawn as one of data.
const DATA_BYTES: usize = 400;

/// The colours: class, on white.
const COLOURS: [(&str, &str); 7] = [
    ("ink", INK),
    ("soft", SOFT),
    ("grid", GRID),
    ("cwnd", "#1f5fa8"),
    ("flight", "#e08a1e"),
    ("peer", "#8e5bb5"),
    ("drop", "#c8324a"),
];

/// The texts above a film.
#[derive(Debug, Clone, Copy)]
pub struct Titles<'a> {
    /// The title of the scenario.
    pub title: &'a str,
    /// The point and the seed.
    pub which: &'a str,
}

/// Draws a film that lasts so long on the screen.
pub fn draw(recorder: &Recorder, titles: &Titles<'_>, lasts: Duration) -> String {
    let (from, to) = recorder.span();
    let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
    Film { recorder, from, to, lasts, still: None, body: String::new() }.finish(titles)
}

/// Draws a film at one time, a part of it from 0 to 1, without animation and in light colours.
pub fn draw_still(recorder: &Recorder, titles: &Titles<'_>, part: f64) -> String {
    let (from, to) = recorder.span();
    let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
    Film { recorder, from, to, lasts: Duration::ZERO, still: Some(part), body: String::new() }.finish(titles)
}

struct Film<'a> {
    recorder: &'a Recorder,
    /// The simulated time at the beginning and at the end, in seconds.
    from: f64,
    to: f64,
    lasts: Duration,
    /// Whether one time of the film is drawn, and which part of it.
    still: Option<f64>,
    body: String,
}

/// A chart: its name, and its curves by class.
struct Chart {
    name: String,
    curves: Vec<(&'static str, &'static str, Vec<f64>)>,
}

impl Film<'_> {
    fn finish(mut self, titles: &Titles<'_>) -> String {
        let ways = self.recorder.ways.len();
        let charts = self.charts();
        let below = TOP + (ways / 2) as f64 * LINK + 34.0;
        let height = below + charts.len() as f64 * CHART + 34.0;
        self.heading(titles);
        for way in 0..ways {
            self.way(way, TOP + (way / 2) as f64 * LINK);
        }
        for (number, chart) in charts.iter().enumerate() {
            self.chart(chart, below + number as f64 * CHART);
        }
        self.cursor(below, height);
        let begins = below - 12.0;
        let wide = PLOT.1 - PLOT.0;
        let (past, shows) = match self.still {
            Some(part) => (part * wide, String::new()),
            None => (wide, format!("<animate attributeName=\"width\" values=\"0;{wide}\" {}/>", self.dur())),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             font-family=\"Ubuntu, 'Helvetica Neue', 'Segoe UI', Arial, sans-serif\" font-size=\"12\">\n\
             <title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n\
             <defs><clipPath id=\"past\"><rect x=\"{left}\" y=\"{begins:.0}\" width=\"{past}\" height=\"{height:.0}\">\
             {shows}</rect></clipPath></defs>\n\
             <rect class=\"sheet\" width=\"{WIDTH}\" height=\"{sheet:.0}\"/>\n{}</svg>\n",
            Escaped(titles.title),
            Escaped(titles.which),
            if self.still.is_some() { style_of_stills() } else { style() },
            self.body,
            left = PLOT.0,
            // The last row of a still's pixels may be beyond the height.
            sheet = if self.still.is_some() { height + 4.0 } else { height },
        )
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{what}").expect("writing to a string cannot fail");
    }

    /// The duration of every animation.
    fn dur(&self) -> String {
        format!("dur=\"{}s\" repeatCount=\"indefinite\"", self.lasts.as_secs_f64())
    }

    /// A simulated time as a part of the film.
    fn part(&self, at: f64) -> f64 {
        if self.to > self.from { ((at - self.from) / (self.to - self.from)).clamp(0.0, 1.0) } else { 0.0 }
    }

    fn heading(&mut self, titles: &Titles<'_>) {
        self.put(format_args!(
            "<text class=\"ink\" x=\"{LEFT}\" y=\"42\" font-size=\"22\">{}</text>\n<text class=\"soft\" x=\"{LEFT}\" y=\"63\">{}</text>",
            Escaped(titles.title),
            Escaped(titles.which)
        ));
        self.clock();
        let mut x = LEFT;
        for (class, name) in [
            ("ink", "packet"),
            ("drop", "dropped packet"),
            ("cwnd", "congestion window"),
            ("flight", "bytes in flight"),
            ("peer", "peer's receive window"),
        ] {
            self.put(format_args!(
                "<rect class=\"{class}\" x=\"{x}\" y=\"75\" width=\"10\" height=\"6\"/><text class=\"soft\" x=\"{}\" y=\"82\">{name}</text>",
                x + 15.0
            ));
            x += 38.0 + name.len() as f64 * 6.4;
        }
    }

    /// The simulated time.
    fn clock(&mut self) {
        if let Some(part) = self.still {
            let now = seconds(self.from + part * (self.to - self.from), self.to - self.from);
            self.put(format_args!(
                "<text class=\"ink\" x=\"{RIGHT}\" y=\"42\" font-size=\"22\" text-anchor=\"end\">{now}</text>"
            ));
            return;
        }
        let dur = self.dur();
        for number in 0..CLOCK {
            let part = number as f64 / CLOCK as f64;
            let at = self.from + part * (self.to - self.from);
            let (first, visible) = if number == 0 { ("visible", "visible") } else { ("hidden", "hidden") };
            let next = (number + 1) as f64 / CLOCK as f64;
            let values = format!("{first};visible;hidden");
            self.put(format_args!(
                "<text class=\"ink\" x=\"{RIGHT}\" y=\"42\" font-size=\"22\" text-anchor=\"end\" visibility=\"{visible}\">{}\
                 <animate attributeName=\"visibility\" calcMode=\"discrete\" values=\"{values}\" keyTimes=\"0;{};{}\" {dur}/></text>",
                seconds(at, self.to - self.from),
                time(part),
                time(next.min(0.999_99))
            ));
        }
    }

    /// A direction of a link: its queue, and its packets from left to right, or on the way back.
    fn way(&mut self, number: usize, top: f64) {
        let way = &self.recorder.ways[number];
        let is_return = way.is_return;
        let lane = top + if is_return { 46.0 } else { 28.0 };
        let name = Escaped(&way.name).to_string();
        if !is_return {
            self.put(format_args!("<text class=\"ink\" x=\"{LEFT}\" y=\"{:.0}\">{name}</text>", lane + 13.0));
        }
        let direction = if is_return { "return" } else { "forward" };
        self.put(format_args!("<g data-link=\"{name}\" data-way=\"{direction}\">"));
        self.put(format_args!(
            "<line class=\"wire\" x1=\"{}\" x2=\"{}\" y1=\"{lane}\" y2=\"{lane}\"/>",
            WIRE.0, WIRE.1
        ));
        self.queue(number, lane, is_return);
        let packets: Vec<Packet> =
            self.recorder.shown().filter(|packet| packet.way == number).copied().collect();
        for packet in packets {
            self.packet(&packet, lane, is_return);
        }
        self.put(format_args!("</g>"));
    }

    fn queue(&mut self, number: usize, lane: f64, is_return: bool) {
        // Both directions of all links have one scale.
        let most = self.recorder.samples.iter().flat_map(|sample| &sample.queues).copied().max().unwrap_or(0);
        let mut keys: Vec<(f64, f64)> = Vec::new();
        for sample in &self.recorder.samples {
            let width = sample.queues[number] as f64 / most.max(1) as f64 * QUEUE;
            let width = (width * 10.0).round() / 10.0;
            if keys.last().is_none_or(|(_, last)| *last != width) {
                keys.push((self.part(sample.at.as_secs_f64()), width));
            }
        }
        if let Some(first) = keys.first_mut() {
            first.0 = 0.0;
        }
        let place = if is_return {
            format!("translate({:.0} 0)", WIRE.1 + 8.0)
        } else {
            format!("translate({:.0} 0) scale(-1 1)", WIRE.0 - 8.0)
        };
        let y = lane - 7.0;
        let (width, animation) = match self.still {
            Some(part) => {
                (keys.iter().rfind(|(at, _)| *at <= part).map_or(0.0, |(_, width)| *width), String::new())
            }
            None => (0.0, discrete("width", &keys, &self.dur())),
        };
        self.put(format_args!(
            "<g transform=\"{place}\"><rect class=\"room\" y=\"{y}\" width=\"{QUEUE}\" height=\"14\"/>\
             <rect class=\"queue\" y=\"{y}\" width=\"{width}\" height=\"14\">{animation}</rect></g>"
        ));
    }

    fn packet(&mut self, packet: &Packet, lane: f64, is_return: bool) {
        let (enters, leaves) = if is_return { (WIRE.1, WIRE.0) } else { WIRE };
        let dur = self.dur();
        match packet.fate {
            End::Dropped(at) => {
                let at = self.part(at.as_secs_f64());
                let ends = (at + DROPPED).min(1.0);
                if let Some(part) = self.still {
                    if (at..ends).contains(&part) {
                        self.put(format_args!(
                            "<circle class=\"drop\" cx=\"{enters}\" cy=\"{:.0}\" r=\"4\"/>",
                            lane + 7.0
                        ));
                    }
                    return;
                }
                let keys = [(0.0, AWAY), (at, enters), (ends, AWAY)];
                let animation = discrete("cx", if at > 0.0 { &keys } else { &keys[1..] }, &dur);
                self.put(format_args!(
                    "<circle class=\"drop\" cx=\"{AWAY}\" cy=\"{:.0}\" r=\"4\">{animation}</circle>",
                    lane + 7.0
                ));
            }
            End::Carried { from, to } => {
                let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
                let place = |at: f64| {
                    let part = if to > from { (at - from) / (to - from) } else { 1.0 };
                    enters + part * (leaves - enters)
                };
                // The part of the way that lies within the film.
                let (first, last) = (from.max(self.from), to.min(self.to));
                let wide = if packet.bytes >= DATA_BYTES { 9.0 } else { 4.0 };
                if let Some(part) = self.still {
                    let now = self.from + part * (self.to - self.from);
                    if (first..last).contains(&now) {
                        self.put(format_args!(
                            "<rect class=\"ink\" x=\"{:.1}\" y=\"{:.0}\" width=\"{wide}\" height=\"6\"/>",
                            place(now) - wide / 2.0,
                            lane - 3.0
                        ));
                    }
                    return;
                }
                let (a, b) = (time(self.part(first)), time(self.part(last)));
                self.put(format_args!(
                    "<rect class=\"ink\" x=\"{AWAY}\" y=\"{:.0}\" width=\"{wide}\" height=\"6\"><animate attributeName=\"x\" \
                     values=\"{AWAY};{AWAY};{:.1};{:.1};{AWAY};{AWAY}\" keyTimes=\"0;{a};{a};{b};{b};1\" {dur}/></rect>",
                    lane - 3.0,
                    place(first) - wide / 2.0,
                    place(last) - wide / 2.0
                ));
            }
        }
    }

    fn charts(&self) -> Vec<Chart> {
        let samples = &self.recorder.samples;
        let mut charts = Vec::new();
        for (link, ways) in self.recorder.ways.chunks(2).enumerate() {
            let queue = |way: usize| samples.iter().map(|sample| sample.queues[way] as f64).collect();
            charts.push(Chart {
                name: format!("queue of {}, bytes", ways[0].name),
                curves: vec![("ink", "forward", queue(2 * link)), ("soft", "return", queue(2 * link + 1))],
            });
        }
        for (sender, name) in self.recorder.senders.iter().enumerate() {
            let its = |sample: &Sample| sample.windows.get(sender).map_or(0, Vec::len);
            let paths = samples.iter().map(its).max().unwrap_or(0);
            for path in 0..paths {
                let curve = |of: fn(&SendWindows) -> usize| -> Vec<f64> {
                    let at = |sample: &Sample| {
                        sample
                            .windows
                            .get(sender)
                            .and_then(|paths| paths.get(path))
                            .map_or(0.0, |windows| of(windows) as f64)
                    };
                    samples.iter().map(at).collect()
                };
                let which = if paths > 1 { format!(", path {}", path + 1) } else { String::new() };
                charts.push(Chart {
                    name: format!("windows of {name}{which}, bytes"),
                    curves: vec![
                        ("peer", "peer's receive window", curve(|windows| windows.peer_window_bytes)),
                        ("flight", "bytes in flight", curve(|windows| windows.flight_bytes)),
                        ("cwnd", "congestion window", curve(|windows| windows.cwnd_bytes)),
                    ],
                });
            }
        }
        charts
    }

    fn chart(&mut self, chart: &Chart, top: f64) {
        let most = |class: &str| {
            let curves = chart.curves.iter().filter(|(its, ..)| (*its == "peer") == (class == "peer"));
            curves.flat_map(|(.., values)| values).copied().fold(0.0, f64::max)
        };
        // A receive window that is far larger than the others would flatten them; its curve then leaves the chart.
        let highest = most("others").max(most("peer").min(2.0 * most("others"))).max(1.0);
        let (_, high, levels) = linear_ticks(highest);
        let beyond = match most("peer") {
            peer if peer > high => {
                format!("; the peer's receive window, up to {}, is beyond", tick_text(peer))
            }
            _ => String::new(),
        };
        let floor = top + 14.0 + PLOT_HEIGHT;
        self.put(format_args!(
            "<text class=\"ink\" x=\"{}\" y=\"{:.0}\">{}</text>",
            PLOT.0,
            top + 6.0,
            Escaped(&(chart.name.clone() + &beyond))
        ));
        for level in levels {
            let y = floor - level / high * PLOT_HEIGHT;
            self.put(format_args!(
                "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"soft\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"11\">{}</text>",
                PLOT.0,
                PLOT.1,
                PLOT.0 - 8.0,
                y + 4.0,
                tick_text(level)
            ));
        }
        let lasts = self.to - self.from;
        for tick in linear_ticks(lasts.max(1e-9)).2.into_iter().filter(|tick| *tick <= lasts) {
            let x = PLOT.0 + tick / lasts.max(1e-9) * (PLOT.1 - PLOT.0);
            self.put(format_args!(
                "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
                floor + 15.0,
                seconds(self.from + tick, lasts)
            ));
        }
        for (class, name, values) in &chart.curves {
            let mut points = String::new();
            for (sample, value) in self.recorder.samples.iter().zip(values) {
                let x = PLOT.0 + self.part(sample.at.as_secs_f64()) * (PLOT.1 - PLOT.0);
                let y = floor - (value / high).min(1.03) * PLOT_HEIGHT;
                let _ = write!(points, "{x:.1},{y:.1} ");
            }
            self.put(format_args!(
                "<polyline class=\"curve {class}\" clip-path=\"url(#past)\" points=\"{}\"><title>{name}</title></polyline>",
                points.trim_end()
            ));
        }
    }

    /// The line at the present time.
    fn cursor(&mut self, top: f64, bottom: f64) {
        let (x, animation) = match self.still {
            Some(part) => (PLOT.0 + part * (PLOT.1 - PLOT.0), String::new()),
            None => (
                PLOT.0,
                format!("<animate attributeName=\"x\" values=\"{};{}\" {}/>", PLOT.0, PLOT.1, self.dur()),
            ),
        };
        self.put(format_args!(
            "<rect class=\"soft\" x=\"{x}\" y=\"{top:.0}\" width=\"1\" height=\"{:.0}\">{animation}</rect>",
            bottom - top - 34.0
        ));
    }
}

/// An animation that jumps from value to value.
fn discrete(attribute: &str, keys: &[(f64, f64)], dur: &str) -> String {
    let join = |one: &dyn Fn(&(f64, f64)) -> String| keys.iter().map(one).collect::<Vec<_>>().join(";");
    let (values, times) = (join(&|key| key.1.to_string()), join(&|key| time(key.0)));
    format!(
        "<animate attributeName=\"{attribute}\" calcMode=\"discrete\" values=\"{values}\" keyTimes=\"{times}\" {dur}/>"
    )
}

/// A part of the film, as a key time.
fn time(part: f64) -> String {
    let rounded = format!("{part:.5}");
    rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A simulated time, as precise as a film of this length needs.
fn seconds(at: f64, lasts: f64) -> String {
    match lasts {
        lasts if lasts < 0.5 => format!("{:.1} ms", at * 1_000.0),
        lasts if lasts < 20.0 => format!("{at:.2} s"),
        _ => format!("{at:.1} s"),
    }
}

fn style() -> String {
    let mut light = String::from(":root { --sheet: #ffffff; --room: #c9cfda; ");
    let mut dark = format!(":root {{ --sheet: {}; --room: {}; ", on_black("#ffffff"), on_black("#c9cfda"));
    let mut rules = String::from(
        ".sheet { fill: var(--sheet); }\n.room { fill: none; stroke: var(--room); }\n.wire { stroke: var(--room); }\n\
         .grid { stroke: var(--grid); }\n.queue { fill: var(--cwnd); }\n.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; }\n",
    );
    for (class, colour) in COLOURS {
        let _ = write!(light, "--{class}: {colour}; ");
        let _ = write!(dark, "--{class}: {}; ", on_black(colour));
        let _ = writeln!(
            rules,
            ".{class}:not(.curve):not(line) {{ fill: var(--{class}); }}\n.curve.{class} {{ stroke: var(--{class}); }}"
        );
    }
    format!("{light}}}\n@media (prefers-color-scheme: dark) {{ {dark}}} }}\n{rules}")
}

/// The style of a still: renderers of pictures know neither variables nor `:not`.
fn style_of_stills() -> String {
    let mut rules = String::from(".sheet { fill: #ffffff; }\n");
    for (class, colour) in COLOURS {
        let _ = writeln!(rules, ".{class} {{ fill: {colour}; }}\n.curve.{class} {{ stroke: {colour}; }}");
    }
    rules
        + ".curve { stroke-width: 1.6; stroke-linejoin: round; }\npolyline { fill: none !important; }\n.room { fill: none; stroke: #c9cfda; }\n.wire { stroke: #c9cfda; }\n"
        + &format!(".grid {{ stroke: {GRID}; }}\n.queue {{ fill: {}; }}\n", COLOURS[3].1)
}
