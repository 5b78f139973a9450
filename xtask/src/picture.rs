//! `cargo xtask picture`: the picture of the dashboard in the README, `docs/dashboard.png`.
//!
//! Three clients download from a server over emulated links of `braidlab link` with different rates, delays
//! and losses; after a while a headless Chromium opens the server's page and takes the picture.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::browser::Browser;
use crate::shell::{cargo, check, target};

/// The maximum size of the picture in bytes.
const PICTURE_BYTES: usize = 150 << 10;
/// The duration of the transfers before the picture is taken.
const RUN: Duration = Duration::from_secs(100);
/// The addresses of the server's page and of the server.
const PAGE: &str = "127.0.0.1:8080";
const SERVER: &str = "127.0.0.1:19899";
/// The address and the properties of the link of each download.
const LINKS: [(&str, &str, &[&str]); 3] = [
    (
        "127.0.0.1:17001",
        "satellite-2026-11.tar",
        &["--rate", "12mbit:6mbit@40s:12mbit@70s", "--delay", "150ms", "--loss", "0.2%"],
    ),
    ("127.0.0.1:17002", "maps/europe.osm.pbf", &["--rate", "30mbit", "--delay", "18ms", "--loss", "1%"]),
    ("127.0.0.1:17003", "film.mkv", &["--rate", "8mbit", "--delay", "35ms", "--jitter", "6ms"]),
];

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("cannot start {:?}", command.get_program()))?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask picture");
    }
    check(cargo().args(["build", "-p", "braidftp", "-p", "braidftp-lab"]))?;
    let program = |name: &str| Command::new(target().join("debug").join(name));
    let folder = std::env::temp_dir().join(format!("braidftp-picture-{}", std::process::id()));
    let result = take(&folder, program);
    let _ = fs::remove_dir_all(&folder);
    let picture = result?;
    if picture.len() > PICTURE_BYTES {
        bail!("the picture has {} bytes, more than {PICTURE_BYTES}", picture.len());
    }
    fs::write("docs/dashboard.png", &picture).context("cannot write docs/dashboard.png")?;
    println!("docs/dashboard.png: {} bytes", picture.len());
    Ok(())
}

fn take(folder: &Path, program: impl Fn(&str) -> Command) -> Result<Vec<u8>> {
    let served = folder.join("served");
    for (_, name, _) in LINKS {
        let file = served.join(name);
        fs::create_dir_all(file.parent().unwrap_or(&served))?;
        // A sparse file.
        fs::File::create(file)?.set_len(1 << 30)?;
    }
    let mut serve = program("braidftp");
    serve.arg("serve").arg(&served).args(["--plain", "--listen", &format!("ftp+sctp://{SERVER}")]);
    let mut running = vec![Running::start(serve.args(["--dashboard", PAGE]))?];
    for (number, (address, name, link)) in LINKS.iter().enumerate() {
        let listen = ["link", "--listen", *address, "--to", SERVER];
        running.push(Running::start(program("braidlab").args(listen).args(*link))?);
        std::thread::sleep(Duration::from_secs(2));
        let mut get = program("braidftp");
        get.args(["get", "--plain", "-q", &format!("ftp+sctp://{address}/{name}"), "-o"]);
        running.push(Running::start(get.arg(folder.join(number.to_string())))?);
    }
    std::thread::sleep(RUN);
    let Some(mut browser) = Browser::start(folder) else {
        bail!("there is no Chromium: apt install chromium")
    };
    browser.prefer(&[("prefers-color-scheme", "light"), ("prefers-reduced-motion", "reduce")]);
    browser.open(&format!("http://{PAGE}/"), 1180, 860);
    browser.wait_for("document.querySelectorAll('#paths tbody tr').length === 3");
    let answer = browser.call("Page.captureScreenshot", json!({ "format": "png" }));
    let text = answer["data"].as_str().context("the browser gives no picture")?;
    decode(text).context("the browser's picture is not in base64")
}

/// Decodes base64 (RFC 4648 §4).
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let mut bits = 0;
        let mut given = 0;
        for byte in four.iter().filter(|byte| **byte != b'=') {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
            given += 1;
        }
        let whole = (bits << (6 * (4 - given))).to_be_bytes();
        out.extend_from_slice(&whole[1..given]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_and_without_padding() {
        for (text, bytes) in [("", &b""[..]), ("Zg==", b"f"), ("Zm8=", b"fo"), ("Zm9v+/8A", b"foo\xfb\xff\0")]
        {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(decode("Z!=="), None);
    }
}
