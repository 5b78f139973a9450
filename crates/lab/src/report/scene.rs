//! Embeds the picture of a scene in a page, element by element. Scripts, styles and references are dropped,
//! whatever the origin of the file.

use std::fmt::Write;

use resvg::usvg::roxmltree::{Document, Node};

use super::html::text;

/// The permitted elements.
const ELEMENTS: &[&str] =
    &["g", "rect", "line", "polyline", "polygon", "circle", "ellipse", "path", "text", "tspan", "title"];

/// The permitted attributes.
const ATTRIBUTES: &[&str] = &[
    "x",
    "y",
    "x1",
    "y1",
    "x2",
    "y2",
    "cx",
    "cy",
    "r",
    "rx",
    "ry",
    "width",
    "height",
    "points",
    "d",
    "dx",
    "dy",
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-linejoin",
    "stroke-linecap",
    "stroke-dasharray",
    "opacity",
    "transform",
    "font-size",
    "font-weight",
    "text-anchor",
    "data-series",
    "data-frame",
    "data-x",
    "data-y",
    "data-x-range",
    "data-y-range",
];

/// Returns the picture for a page with its own heading and caption; the label is for screen readers.
pub(super) fn embed(svg: &str, label: &str) -> Result<String, String> {
    let document = Document::parse(svg).map_err(|error| format!("the picture is not SVG: {error}"))?;
    let root = document.root_element();
    if root.tag_name().name() != "svg" {
        return Err("the picture is not SVG".to_owned());
    }
    let numbers = |name: &str| -> Option<[f64; 4]> {
        let numbers: Result<Vec<f64>, _> = root.attribute(name)?.split_whitespace().map(str::parse).collect();
        numbers.ok()?.try_into().ok()
    };
    let view = numbers("data-inner").or_else(|| numbers("viewBox")).ok_or("the picture has no size")?;
    let [left, top, width, height] = view;
    let mut html = format!(
        "<svg class=\"scene\" viewBox=\"{left} {top} {width} {height}\" style=\"--w:{width}px\" tabindex=\"0\" role=\"img\" \
         aria-label=\"{}\">\n",
        text(label)
    );
    for node in root.children() {
        element(&mut html, node);
    }
    html.push_str("</svg>");
    Ok(html)
}

fn element(html: &mut String, node: Node<'_, '_>) {
    if node.is_text() {
        let _ = write!(html, "{}", text(node.text().unwrap_or("")));
    }
    let name = node.tag_name().name();
    if !node.is_element() || !ELEMENTS.contains(&name) {
        return;
    }
    let _ = write!(html, "<{name}");
    for attribute in node.attributes() {
        let is_known = attribute.namespace().is_none() && ATTRIBUTES.contains(&attribute.name());
        // `url(…)` is the only way in which permitted attributes can refer to something else.
        if is_known && !attribute.value().is_empty() && !attribute.value().contains("url(") {
            let _ = write!(html, " {}=\"{}\"", attribute.name(), text(attribute.value()));
        }
    }
    html.push('>');
    for child in node.children() {
        element(html, child);
    }
    let _ = write!(html, "</{name}>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drawn_elements_of_a_picture_are_embedded() {
        let svg = r##"<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
            viewBox="0 0 9 9" data-inner="0 2 9 5" onload="alert(1)">
            <script>alert(2)</script><style>@import "http://x/"</style><image xlink:href="http://x/y"/>
            <g data-series="a&quot;b" onclick="alert(3)"><title>&lt;b></title><rect x="1" fill="url(http://z)" width="2"/></g>
            <foreignObject><text>no</text></foreignObject></svg>"##;
        let html = embed(svg, "a \"label\"").unwrap();
        for gone in ["alert", "http", "script", "style>", "image", "foreign", "no<"] {
            assert!(!html.contains(gone), "{gone}: {html}");
        }
        assert!(html.contains("viewBox=\"0 2 9 5\"") && html.contains("a &quot;label&quot;"));
        assert!(html.contains(
            "<g data-series=\"a&quot;b\"><title>&lt;b&gt;</title><rect x=\"1\" width=\"2\"></rect></g>"
        ));
    }

    #[test]
    fn an_invalid_picture_is_refused() {
        for svg in ["", "<svg", "<html/>", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"] {
            assert!(embed(svg, "").is_err(), "{svg}");
        }
    }
}
