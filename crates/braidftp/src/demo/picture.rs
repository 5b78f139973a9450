//! `demo.svg`: the duration of each mode, and the number of complete files over time. Drawn without a
//! library, so that it looks the same everywhere and needs only the fonts of a browser.

use std::fmt::Write;

/// The contents of the picture.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The headline: the tree and the link.
    pub title: String,
    /// The line below it.
    pub subtitle: String,
    /// The time that the link itself needs for the bytes, in seconds.
    pub limit_seconds: f64,
    /// The number of files.
    pub files: usize,
    /// The modes, in the order of the bars.
    pub modes: Vec<Bar>,
}

/// One mode.
#[derive(Debug, Clone)]
pub struct Bar {
    /// The name of the mode.
    pub name: String,
    /// The duration in seconds, or the reason why there is none.
    pub seconds: Result<f64, String>,
    /// The completion time of each file in seconds after the start, ascending.
    pub done: Vec<f64>,
}

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 40.0;
const LABELS: f64 = 84.0;
const PLOT_LEFT: f64 = MARGIN + LABELS;
const PLOT_RIGHT: f64 = WIDTH - MARGIN - 84.0;
const BARS_TOP: f64 = 118.0;
const BAR_PITCH: f64 = 38.0;
const BAR_HEIGHT: f64 = 24.0;
const CURVES_HEIGHT: f64 = 220.0;
const INK: &str = "#1b2733";
const FAINT: &str = "#66788a";
const GRID: &str = "#e3e9ef";
const LIMIT: &str = "#c2410c";

/// Colours by position: muted ones for the compared modes, a strong one for the last.
const COLOURS: [&str; 5] = ["#9aa7b4", "#c3a76c", "#7fa8c9", "#4f86b8", "#0f8a5f"];

impl Picture {
    /// The picture, as the text of an SVG file.
    pub fn svg(&self) -> String {
        let place = Place::of(self);
        let mut svg = Canvas(String::new());
        self.draw_head(&mut svg, place.height);
        self.draw_bars(&mut svg, &place);
        self.draw_curves(&mut svg, &place);
        svg.add(format_args!("</svg>"));
        svg.0
    }

    /// Draws the background and both lines of the title.
    fn draw_head(&self, svg: &mut Canvas, height: f64) {
        svg.add(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif" role="img">"#
        ));
        svg.add(format_args!("<title>{}</title>", text(&self.title)));
        svg.add(format_args!(r##"<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>"##));
        svg.add(format_args!(
            r#"<text x="{MARGIN}" y="46" font-size="21" font-weight="600" fill="{INK}">{}</text>"#,
            text(&self.title)
        ));
        svg.add(format_args!(
            r#"<text x="{MARGIN}" y="70" font-size="14" fill="{FAINT}">{}</text>"#,
            text(&self.subtitle)
        ));
    }

    /// Draws a bar for each mode, and the link's limit.
    fn draw_bars(&self, svg: &mut Canvas, place: &Place) {
        let bottom = place.bars_bottom;
        for tick in place.axis.ticks() {
            svg.add(format_args!(
                r#"<line x1="{0:.1}" x2="{0:.1}" y1="{1}" y2="{2}" stroke="{GRID}"/><text x="{0:.1}" y="{3}" font-size="12" fill="{FAINT}" text-anchor="middle">{4}</text>"#,
                place.x(tick),
                BARS_TOP - 6.0,
                bottom,
                bottom + 18.0,
                place.axis.label(tick),
            ));
        }
        for (at, mode) in self.modes.iter().enumerate() {
            self.draw_bar(svg, place, at, mode);
        }
        let limit = place.x(self.limit_seconds);
        svg.add(format_args!(
            r#"<line x1="{limit:.1}" x2="{limit:.1}" y1="{}" y2="{}" stroke="{LIMIT}" stroke-width="1.8" stroke-dasharray="5 4"/>"#,
            BARS_TOP - 10.0,
            bottom
        ));
        svg.add(format_args!(
            r#"<text x="{:.1}" y="{}" font-size="13" fill="{LIMIT}">the link’s limit: {:.1} s</text>"#,
            limit.max(PLOT_LEFT) - 4.0,
            BARS_TOP - 16.0,
            self.limit_seconds
        ));
        svg.add(format_args!(
            r#"<text x="{PLOT_RIGHT}" y="{}" font-size="12" fill="{FAINT}" text-anchor="end">seconds to move everything, and how many times the link’s limit that is</text>"#,
            bottom + 36.0
        ));
    }

    /// Draws the bar of one mode, with its name and its duration, or the reason why it has none.
    fn draw_bar(&self, svg: &mut Canvas, place: &Place, at: usize, mode: &Bar) {
        let top = BARS_TOP + BAR_PITCH * at as f64 + (BAR_PITCH - BAR_HEIGHT) / 2.0;
        let middle = top + BAR_HEIGHT / 2.0 + 5.0;
        let colour = self.colour(at);
        let weight = if at + 1 == self.modes.len() { "700" } else { "500" };
        svg.add(format_args!(
            r#"<text x="{}" y="{middle}" font-size="15" font-weight="{weight}" fill="{INK}" text-anchor="end">{}</text>"#,
            PLOT_LEFT - 14.0,
            text(&mode.name)
        ));
        match &mode.seconds {
            Ok(seconds) => {
                let end = place.x(*seconds);
                svg.add(format_args!(
                    r#"<rect x="{PLOT_LEFT}" y="{top}" width="{:.1}" height="{BAR_HEIGHT}" rx="3" fill="{colour}"/>"#,
                    (end - PLOT_LEFT).max(1.5)
                ));
                svg.add(format_args!(
                    r##"<text x="{:.1}" y="{middle}" font-size="14" font-weight="{weight}" fill="{INK}" stroke="#ffffff" stroke-width="4" paint-order="stroke">{seconds:.1} s<tspan fill="{FAINT}" font-weight="400" dx="8">{:.1} ×</tspan></text>"##,
                    end + 8.0,
                    seconds / self.limit_seconds
                ));
            }
            Err(why) => svg.add(format_args!(
                r#"<text x="{}" y="{middle}" font-size="13" font-style="italic" fill="{FAINT}">not run: {}</text>"#,
                PLOT_LEFT + 6.0,
                text(why)
            )),
        }
    }

    /// Draws the number of complete files over time: a curve for each mode.
    fn draw_curves(&self, svg: &mut Canvas, place: &Place) {
        let (top, bottom) = (place.curves_top, place.curves_bottom);
        svg.add(format_args!(
            r#"<text x="{MARGIN}" y="{}" font-size="15" font-weight="600" fill="{INK}">Files that were whole, over time</text>"#,
            top - 40.0
        ));
        let counts = Axis::new(self.files.max(1) as f64);
        for tick in counts.ticks().filter(|tick| *tick <= self.files as f64) {
            svg.add(format_args!(
                r#"<line x1="{PLOT_LEFT}" x2="{PLOT_RIGHT}" y1="{0:.1}" y2="{0:.1}" stroke="{GRID}"/><text x="{1}" y="{2:.1}" font-size="12" fill="{FAINT}" text-anchor="end">{3}</text>"#,
                place.y(tick as usize),
                PLOT_LEFT - 14.0,
                place.y(tick as usize) + 4.0,
                counts.label(tick),
            ));
        }
        for tick in place.axis.ticks() {
            svg.add(format_args!(
                r#"<text x="{:.1}" y="{}" font-size="12" fill="{FAINT}" text-anchor="middle">{}{}</text>"#,
                place.x(tick),
                bottom + 20.0,
                place.axis.label(tick),
                if tick == 0.0 { " s" } else { "" },
            ));
        }
        let limit = place.x(self.limit_seconds);
        svg.add(format_args!(
            r#"<line x1="{limit:.1}" x2="{limit:.1}" y1="{top}" y2="{bottom}" stroke="{LIMIT}" stroke-width="1.8" stroke-dasharray="5 4"/>"#
        ));
        for (at, mode) in self.modes.iter().enumerate() {
            let Ok(_) = mode.seconds else { continue };
            let mut path = format!("M{:.1} {:.1}", place.x(0.0), place.y(0));
            for (done, seconds) in mode.done.iter().enumerate() {
                let _ = write!(path, "H{:.1}V{:.1}", place.x(*seconds), place.y(done + 1));
            }
            let width = if at + 1 == self.modes.len() { 3.0 } else { 2.0 };
            svg.add(format_args!(
                r#"<path d="{path}" fill="none" stroke="{}" stroke-width="{width}" stroke-linejoin="round"/>"#,
                self.colour(at)
            ));
        }
        self.draw_names(svg, place);
    }

    /// Draws the names of the modes above the ends of their curves; a name that would cover another is moved
    /// up.
    fn draw_names(&self, svg: &mut Canvas, place: &Place) {
        let ends = self.modes.iter().enumerate().filter(|(_, mode)| mode.seconds.is_ok());
        let mut labels: Vec<(f64, f64, &str, &str)> = ends
            .filter_map(|(at, mode)| {
                let last = mode.done.last()?;
                Some((place.x(*last), place.y(mode.done.len()), self.colour(at), mode.name.as_str()))
            })
            .collect();
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut taken: Vec<(f64, f64, f64)> = Vec::new();
        for (end, top, colour, name) in labels {
            let half = name.len() as f64 * 4.2 + 4.0;
            let mut row = top - 9.0;
            while taken
                .iter()
                .any(|(left, right, at)| end - half < *right && end + half > *left && (row - at).abs() < 14.0)
            {
                row -= 15.0;
            }
            taken.push((end - half, end + half, row));
            svg.add(format_args!(
                r##"<circle cx="{end:.1}" cy="{top:.1}" r="4" fill="{colour}" stroke="#ffffff" stroke-width="1.5"/><text x="{end:.1}" y="{row:.1}" font-size="13" font-weight="600" fill="{colour}" text-anchor="middle">{}</text>"##,
                text(name)
            ));
        }
    }

    fn colour(&self, at: usize) -> &'static str {
        let from_the_end = self.modes.len() - 1 - at;
        COLOURS[COLOURS.len() - 1 - from_the_end.min(COLOURS.len() - 1)]
    }
}

/// The text of an SVG file, one element per line.
struct Canvas(String);

impl Canvas {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(element);
        self.0.push('\n');
    }
}

/// The layout of a part of the picture, in its units.
struct Place {
    bars_bottom: f64,
    curves_top: f64,
    curves_bottom: f64,
    height: f64,
    /// The axis of seconds, from left to right.
    axis: Axis,
    files: usize,
}

impl Place {
    fn of(picture: &Picture) -> Self {
        let bars_bottom = BARS_TOP + BAR_PITCH * picture.modes.len() as f64;
        let curves_top = bars_bottom + 116.0;
        let curves_bottom = curves_top + CURVES_HEIGHT;
        let seconds = picture.modes.iter().filter_map(|mode| mode.seconds.as_ref().ok());
        let longest = seconds.fold(picture.limit_seconds, |a, b| a.max(*b));
        Self {
            bars_bottom,
            curves_top,
            curves_bottom,
            height: curves_bottom + 62.0,
            axis: Axis::new(longest * 1.02),
            files: picture.files,
        }
    }

    /// The horizontal position of a time.
    fn x(&self, seconds: f64) -> f64 {
        PLOT_LEFT + (PLOT_RIGHT - PLOT_LEFT) * seconds / self.axis.max
    }

    /// The vertical position of a number of files.
    fn y(&self, done: usize) -> f64 {
        self.curves_bottom - CURVES_HEIGHT * done as f64 / self.files.max(1) as f64
    }
}

/// An axis from 0 with round steps.
struct Axis {
    max: f64,
    step: f64,
}

impl Axis {
    fn new(max: f64) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let rough = max / 8.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(rough);
        Self { max, step }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let step = self.step;
        (0..=(self.max / step) as usize).map(move |n| n as f64 * step)
    }

    fn label(&self, tick: f64) -> String {
        if self.step < 1.0 { format!("{tick:.1}") } else { format!("{tick:.0}") }
    }
}

fn text(raw: &str) -> String {
    raw.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        let bar = |name: &str, seconds: f64| Bar {
            name: name.into(),
            seconds: Ok(seconds),
            done: (1..=40).map(|n| seconds * f64::from(n) / 40.0).collect(),
        };
        Picture {
            title: "40 files & <more>".into(),
            subtitle: "over a link".into(),
            limit_seconds: 2.0,
            files: 40,
            modes: vec![
                Bar { name: "tcp".into(), seconds: Err("needs root".into()), done: vec![] },
                bar("naive", 20.0),
                bar("ms", 11.0),
                bar("ms-cp", 3.0),
                bar("braid", 2.2),
            ],
        }
    }

    #[test]
    fn the_picture_has_every_mode_and_is_valid_xml() {
        let svg = picture().svg();
        for says in ["naive", "ms-cp", "braid", "not run: needs root", "40 files &amp; &lt;more&gt;", "2.2 s"]
        {
            assert!(svg.contains(says), "{says}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn an_empty_picture_is_valid() {
        let svg = Picture { limit_seconds: 0.0, files: 0, modes: vec![], ..picture() }.svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn steps_are_round() {
        let ticks = |max: f64| Axis::new(max).ticks().collect::<Vec<_>>();
        assert_eq!(ticks(11.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(60.0).len(), 7);
    }
}
