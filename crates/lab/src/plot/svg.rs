//! Shapes and texts of a picture as SVG, and its rendering as PNG.

use std::fmt::{self, Write};
use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// The fonts of texts, for readers without the first one. The font that [`png`] uses is embedded, so that
/// pictures are the same on every machine.
const FONTS: &str = "Ubuntu, 'Helvetica Neue', 'Segoe UI', Arial, sans-serif";

/// The colour of primary text.
pub const INK: &str = "#1d2433";
/// The colour of secondary text: axis numbers, captions.
pub const SOFT: &str = "#6b7385";
/// The colour of grid lines.
pub const GRID: &str = "#e6e9ef";
/// The margin of a picture.
pub const MARGIN: f64 = 34.0;

/// A picture under construction.
#[derive(Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    /// Top and bottom of the part between heading and caption.
    inner: (f64, f64),
    body: String,
}

/// A line over a quantity, with the metadata from which readers can query its values.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Its colour.
    pub colour: &'a str,
    /// Its width.
    pub width: f64,
    /// Its dash pattern.
    pub dashes: &'a str,
    /// The rectangle of the plot area: left, top, width and height.
    pub frame: [f64; 4],
    /// The label of the horizontal axis with unit, and its values at the left and right of the frame.
    pub x: (&'a str, f64, f64),
    /// The label of the vertical axis with unit, and its values at the bottom and top of the frame.
    pub y: (&'a str, f64, f64),
}

/// The alignment of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Begins at its position.
    Start,
    /// Centred at its position.
    Middle,
    /// Ends at its position.
    End,
}

/// The layout of a text.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position of the baseline, from the top.
    pub y: f64,
    /// Font size.
    pub size: f64,
    /// Colour.
    pub colour: &'a str,
    /// Alignment.
    pub anchor: Anchor,
    /// Rotation in degrees, clockwise.
    pub turned: f64,
}

impl Svg {
    /// Creates an empty white picture.
    pub fn new(width: f64, height: f64) -> Self {
        let mut svg = Self { width, height, inner: (0.0, height), body: String::new() };
        svg.rect([0.0, 0.0, width, height], "#ffffff", 0.0);
        svg
    }

    /// A filled rectangle: left, top, width and height, with rounded corners.
    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str, radius: f64) {
        self.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{:.2}\" rx=\"{radius}\" fill=\"{fill}\"/>",
            width.max(0.0),
            height.max(0.0)
        ));
    }

    /// A straight line with a dash pattern (SVG's `stroke-dasharray`; empty for none).
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64, dashes: &str) {
        self.put(format_args!(
            "<line x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-linecap=\"round\" stroke-dasharray=\"{dashes}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Line segments from point to point.
    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: &str, width: f64, dashes: &str) {
        let points = coordinates(points.iter().copied());
        self.put(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\" stroke-dasharray=\"{dashes}\"/>"
        ));
    }

    /// The heading of a picture: its title, and its id in small letters. Pages with their own headings omit
    /// it, with everything above `end`.
    pub fn heading(&mut self, shows: &str, which: &str, end: f64) {
        let how = Text { x: MARGIN, y: 44.0, size: 22.0, colour: INK, anchor: Anchor::Start, turned: 0.0 };
        self.text(how, shows);
        self.text(Text { y: 65.0, size: 12.5, colour: SOFT, ..how }, which);
        self.inner.0 = end;
    }

    /// The caption of a picture, in lines from `top` on. Pages with their own captions omit it.
    pub fn caption(&mut self, lines: &[String], top: f64) {
        for (index, line) in lines.iter().enumerate() {
            let y = top + index as f64 * 17.0;
            let how = Text { x: MARGIN, y, size: 12.5, colour: SOFT, anchor: Anchor::Start, turned: 0.0 };
            self.text(how, line);
        }
        self.inner.1 = top - 14.0;
    }

    /// Opens a group that belongs to a series: a legend may hide it, and it shows `says` as its tooltip.
    /// Closed by [`Svg::close`].
    pub fn open(&mut self, series: &str, says: &str) {
        self.put(format_args!("<g data-series=\"{}\"><title>{}</title>", Escaped(series), Escaped(says)));
    }

    /// Closes the group that [`Svg::open`] opened.
    pub fn close(&mut self) {
        self.put(format_args!("</g>"));
    }

    /// A line over a quantity, with points in picture coordinates.
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

    /// A filled polygon.
    pub fn polygon(&mut self, points: &[(f64, f64)], fill: &str, opacity: f64) {
        let points = coordinates(points.iter().copied());
        self.put(format_args!("<polygon points=\"{points}\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>"));
    }

    /// A mark of one of several shapes.
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

    /// Returns the file.
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
        writeln!(self.body, "{what}").expect("writing to a string cannot fail");
    }
}

fn coordinates(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (x, y) in points {
        write!(text, "{x:.2},{y:.2} ").expect("writing to a string cannot fail");
    }
    text.truncate(text.trim_end().len());
    text
}

/// A text escaped for XML.
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

/// A rendered picture.
pub use resvg::tiny_skia::Pixmap as Dots;

/// Renders a picture as PNG at this scale.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, String> {
    pixels(svg, scale)?.encode_png().map_err(|error| error.to_string())
}

/// Renders a picture at this scale.
pub fn pixels(svg: &str, scale: f32) -> Result<Dots, String> {
    static FONT: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
        let family =
            fonts.faces().next().and_then(|face| face.families.first().map(|(name, _)| name.clone()));
        fonts.set_sans_serif_family(family.expect("the embedded font has a name"));
        Arc::new(fonts)
    });
    let options = Options { fontdb: FONT.clone(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size().to_int_size().scale_by(scale).ok_or("the picture has no size")?;
    let mut dots = Pixmap::new(size.width(), size.height()).ok_or("the picture is too large")?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut dots.as_mut());
    Ok(dots)
}

/// The approximate width of a text, in units of its font size.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.53
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_rendered_with_its_texts() {
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
        assert!(dots.pixels().iter().any(|dot| dot.red() < 128), "no text was drawn");
    }
}
