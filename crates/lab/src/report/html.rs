//! HTML building blocks: escaped texts, numbers with intervals, JSON inside a page.

use std::fmt::Write;

use serde::Serialize;

use crate::plot::svg::Escaped;
use crate::stats::{Estimate, short};

/// A text escaped for an element or an attribute.
pub(super) fn text(text: &str) -> Escaped<'_> {
    Escaped(text)
}

/// A command that the reader may copy.
pub(super) fn command(command: &str) -> String {
    format!("<code class=\"command\">{}</code>", text(command))
}

/// A number with its interval and unit.
pub(super) fn estimate(value: &Estimate, unit: &str) -> String {
    let mut html = format!("<b>{}</b>", number(value.mean));
    if value.low != value.high {
        let _ =
            write!(html, " <span class=\"interval\">[{}, {}]</span>", number(value.low), number(value.high));
    }
    match unit {
        "" => {}
        "x" => html.push_str(" ×"),
        unit => {
            let _ = write!(html, " {}", text(unit));
        }
    }
    html
}

/// A number with a typographic minus sign.
pub(super) fn number(value: f64) -> String {
    short(value).replace('-', "\u{2212}")
}

/// A count with a noun, in the plural unless the count is one.
pub(super) fn count(count: usize, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

/// A value as JSON that may be embedded in a page: it cannot close a script element.
pub(super) fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("numbers and texts");
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A number for JSON, with six significant digits.
pub(super) fn rounded(value: f64) -> f64 {
    if value.is_finite() { format!("{value:.5e}").parse().unwrap_or(value) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_json_cannot_close_a_script() {
        let json = json(&["</script><b>", "a & b", "<!--"]);
        assert!(!json.contains(['<', '>', '&']), "{json}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), ["</script><b>", "a & b", "<!--"]);
    }

    #[test]
    fn numbers_keep_six_significant_digits() {
        assert_eq!(rounded(1.0 / 3.0), 0.333_333);
        assert_eq!(rounded(12_345_678.9), 12_345_700.0);
        assert_eq!(number(-0.5), "\u{2212}0.500");
        assert_eq!(estimate(&Estimate::exact(2.0, 3), "x"), "<b>2.00</b> ×");
        assert_eq!(count(1, "run") + " " + &count(0, "claim"), "1 run 0 claims");
    }
}
