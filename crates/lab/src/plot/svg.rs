//! Shapes and texts of a picture, and how it becomes dots.

use std::fmt::{self, Write};
use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// What texts are written in where the reader has no font of the name: the one that [`png`] uses is carried along, so
/// that pictures are the same on every machine.
const FONTS: &str = "Ubuntu, 'Helvetica Neue', 'Segoe UI', Arial, sans-serif";

/// The colour of what is read first.
pub const INK: &str = "#1d2433";
/// Of what is read next: numbers beside axes, captions.
pub const SOFT: &str = "#6b7385";
/// Of lines that guide the eye.
pub const GRID: &str = "#e6e9ef";
/// Around a picture.
pub const MARGIN: f64 = 34.0;

/// A picture at work.
#[derive(Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    /// Where what is between heading and caption begins and ends.
    inner: (f64, f64),
    body: String,
}

/// A line over a quantity, for those who ask it for its values.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// What it is called, as in a legend.
    pub name: &'a str,
    /// Its colour.
    pub colour: &'a str,
    /// How thick it is.
    pub width: f64,
    /// How it is dashed.
    pub dashes: &'a str,
    /// The rectangle that it is in: left, top, width and height.
    pub frame: [f64; 4],
    /// What runs from left to right, with its unit, and its values at both sides of the frame.
    pub x: (&'a str, f64, f64),
    /// What goes up, with its unit, and its values at the bottom and the top of the frame.
    pub y: (&'a str, f64, f64),
}

/// On which side of its place a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is around it.
    Middle,
    /// It ends there.
    End,
}

/// How a text is written.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// Its place, of the base line.
    pub x: f64,
    /// From the top.
    pub y: f64,
    /// The height of its letters.
    pub size: f64,
    /// Its colour.
    pub colour: &'a str,
    /// On which side of its place it is.
    pub anchor: Anchor,
    /// Turned so many degrees clockwise.
    pub turned: f64,
}

impl Svg {
    /// An empty one, white.
    pub fn new(width: f64, height: f64) -> Self {
        let mut svg = Self { width, height, inner: (0.0, height), body: String::new() };
        svg.rect([0.0, 0.0, width, height], "#ffffff", 0.0);
        svg
    }

    /// A filled rectangle: its left, top, width and height, with round corners.
    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str, radius: f64) {
        self.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{:.2}\" rx=\"{radius}\" fill=\"{fill}\"/>",
            width.max(0.0),
            height.max(0.0)
        ));
    }

    /// A straight line, with its dashes (SVG's `stroke-dasharray`; empty for none).
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64, dashes: &str) {
        self.put(format_args!(
            "<line x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-linecap=\"round\" stroke-dasharray=\"{dashes}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Lines from point to point.
    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: &str, width: f64, dashes: &str) {
        let points = coordinates(points.iter().copied());
        self.put(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\" stroke-dasharray=\"{dashes}\"/>"
        ));
    }

    /// What is above a picture: what it shows, and in small letters which it is. Pages that say this themselves leave it out,
    /// and what is above `end`.
    pub fn heading(&mut self, shows: &str, which: &str, end: f64) {
        let how = Text { x: MARGIN, y: 44.0, size: 22.0, colour: INK, anchor: Anchor::Start, turned: 0.0 };
        self.text(how, shows);
        self.text(Text { y: 65.0, size: 12.5, colour: SOFT, ..how }, which);
        self.inner.0 = end;
    }

    /// What is below a picture, in lines from `top` on. Pages that say this themselves leave it out.
    pub fn caption(&mut self, lines: &[String], top: f64) {
        for (index, line) in lines.iter().enumerate() {
            let y = top + index as f64 * 17.0;
            let how = Text { x: MARGIN, y, size: 12.5, colour: SOFT, anchor: Anchor::Start, turned: 0.0 };
            self.text(how, line);
        }
        self.inner.1 = top - 14.0;
    }

    /// What is drawn until [`Svg::close`] belongs to something that a legend may hide, and says this when pointed at.
    pub fn open(&mut self, series: &str, says: &str) {
        self.put(format_args!("<g data-series=\"{}\"><title>{}</title>", Escaped(series), Escaped(says)));
    }

    /// The end of what [`Svg::open`] began.
    pub fn close(&mut self) {
        self.put(format_args!("</g>"));
    }

    /// A line over a quantity, whose points are in dots.
    pub fn series(&mut self, line: &Line<'_>, points: &[(f64, f64)]) {
        let Line { name, colour, width, dashes, frame: [left, top, wide, high], x, y } = line;
        let points = coordinates(points.iter().copied());
        self.put(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\" \
             stroke-dasharray=\"{dashes}\" data-series=\"{}\" data-frame=\"{left} {top} {wide} {high}\" \
             data-x=\"{}\" data-x-range=\"{} {}\" data-y=\"{}\" data-y-range=\"{} {}\"/>",
            Escaped(name),
            Escaped(x.0),
            x.1,
            x.2,
            Escaped(y.0),
            y.1,
            y.2
        ));
    }

    /// A filled shape.
    pub fn polygon(&mut self, points: &[(f64, f64)], fill: &str, opacity: f64) {
        let points = coordinates(points.iter().copied());
        self.put(format_args!("<polygon points=\"{points}\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>"));
    }

    /// A mark of one of several shapes around a place.
    pub fn mark(&mut self, shape: usize, (x, y): (f64, f64), size: f64, fill: &str) {
        let edge = "stroke=\"#ffffff\" stroke-width=\"1.2\"";
        let corners = |corners: &[(f64, f64)]| {
            coordinates(corners.iter().map(|(dx, dy)| (x + dx * size, y + dy * size)))
        };
        let polygon = |corners: String| format!("<polygon points=\"{corners}\" fill=\"{fill}\" {edge}/>");
        let text = match shape % 5 {
            0 => format!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{size:.2}\" fill=\"{fill}\" {edge}/>"),
            1 => polygon(corners(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)])),
            2 => polygon(corners(&[(0.0, -1.25), (1.15, 0.85), (-1.15, 0.85)])),
            3 => polygon(corners(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)])),
            _ => polygon(corners(&[(0.0, 1.25), (1.15, -0.85), (-1.15, -0.85)])),
        };
        self.put(format_args!("{text}"));
    }

    /// A text.
    pub fn text(&mut self, how: Text<'_>, text: &str) {
        let Text { x, y, size, colour, anchor, turned } = how;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turn = if turned == 0.0 {
            String::new()
        } else {
            format!(" transform=\"rotate({turned} {x:.2} {y:.2})\"")
        };
        self.put(format_args!(
            "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"{anchor}\"{turn}>{}</text>",
            Escaped(text)
        ));
    }

    /// The file.
    pub fn finish(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             data-inner=\"0 {top} {w} {inner}\" font-family=\"{FONTS}\">\n{body}</svg>\n",
            w = self.width,
            h = self.height,
            top = self.inner.0,
            inner = self.inner.1 - self.inner.0,
            body = self.body
        )
    }

    fn put(&mut self, what: fmt::Arguments<'_>) {
        writeln!(self.body, "{what}").expect("a string takes everything");
    }
}

fn coordinates(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (x, y) in points {
        write!(text, "{x:.2},{y:.2} ").expect("a string takes everything");
    }
    text.truncate(text.trim_end().len());
    text
}

/// A text as XML has it.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A picture as PNG, with this many dots to a unit of its width.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, String> {
    static FONT: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
        let family =
            fonts.faces().next().and_then(|face| face.families.first().map(|(name, _)| name.clone()));
        fonts.set_sans_serif_family(family.expect("the font that is carried along has a name"));
        Arc::new(fonts)
    });
    let options = Options { fontdb: FONT.clone(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size().to_int_size().scale_by(scale).ok_or("the picture has no size")?;
    let mut dots = Pixmap::new(size.width(), size.height()).ok_or("the picture is too large")?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut dots.as_mut());
    dots.encode_png().map_err(|error| error.to_string())
}

/// How wide a text is, about, in units of its size.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.53
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_becomes_dots_with_its_texts() {
        let mut svg = Svg::new(40.0, 20.0);
        svg.text(
            Text { x: 20.0, y: 16.0, size: 16.0, colour: "#000000", anchor: Anchor::Middle, turned: 0.0 },
            "a<b&",
        );
        let svg = svg.finish();
        assert!(svg.contains("a&lt;b&amp;"));
        let bytes = png(&svg, 2.0).unwrap();
        let dots = Pixmap::decode_png(&bytes).unwrap();
        assert_eq!((dots.width(), dots.height()), (80, 40));
        assert!(dots.pixels().iter().any(|dot| dot.red() < 128), "no letter left ink");
    }
}
