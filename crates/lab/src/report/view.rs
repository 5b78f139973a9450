//! The viewer of qlog files: one self-contained page that draws a file which it embeds, or which is dropped on it.

use super::html::{json, text};

const STYLE: &str = include_str!("page.css");
const OWN_STYLE: &str = include_str!("view.css");
const HEAD: &str = include_str!("head.js");
const SCRIPT: &str = include_str!("view.js");

/// The first byte of a record (RFC 7464 §2.2).
const RECORD_SEPARATOR: char = '\u{1e}';
/// The maximum length of an embedded file in bytes.
pub const BYTES_MAX: u64 = 64 << 20;

/// The page, with a qlog file or without one.
///
/// # Errors
///
/// The text does not begin as a qlog file does that is a JSON text sequence.
pub fn viewer(qlog: Option<&str>) -> Result<String, String> {
    let title = match qlog {
        Some(qlog) => format!("qlog: {}", title(qlog)?),
        None => "qlog viewer".to_owned(),
    };
    let embedded = qlog.map_or_else(|| "null".to_owned(), |qlog| json(&qlog));
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{}</title>\n<script>\n{HEAD}</script>\n<style>\n{STYLE}{OWN_STYLE}</style>\n</head>\n<body class=\"viewer\">\n\
         <main>\n<header><p class=\"kicker\">braidlab view</p>\n<h1 id=\"title\">qlog viewer</h1>\n\
         <p class=\"lead\" id=\"summary\">Drop a qlog file on this page, or choose one.</p>\n\
         <p class=\"choices\"><label>File <input type=\"file\" id=\"file\"/></label></p></header>\n\
         <noscript><p class=\"notice\">The page draws by its own script, and shows nothing without it.</p></noscript>\n\
         <div id=\"view\" hidden=\"hidden\"></div>\n</main>\n<div id=\"tip\" hidden=\"hidden\"></div>\n\
         <script type=\"application/json\" id=\"qlog\">{embedded}</script>\n<script>\n'use strict';\n{SCRIPT}</script>\n</body>\n</html>\n",
        text(&title)
    ))
}

/// The title of a qlog file.
fn title(qlog: &str) -> Result<String, String> {
    let first = qlog.strip_prefix(RECORD_SEPARATOR).and_then(|rest| rest.split(RECORD_SEPARATOR).next());
    let head = first.and_then(|first| serde_json::from_str::<serde_json::Value>(first).ok());
    let is_qlog = |head: &serde_json::Value| {
        head["file_schema"]
            .as_str()
            .is_some_and(|schema| schema.starts_with("urn:ietf:params:qlog:file:sequential"))
    };
    let head = head.filter(is_qlog).ok_or(
        "it is no qlog file of the form JSON-SEQ, as `braidlab qlog` and `braidftp --qlog` write it",
    )?;
    Ok(head["title"].as_str().unwrap_or("without a title").to_owned())
}
