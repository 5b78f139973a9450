//! The page of `--dashboard`, of the server and of a client: over HTTP, and in a headless Chromium if one is
//! installed.

mod browser_support;
mod server_support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;

use browser_support::Browser;
use serde_json::Value;
use server_support::program::{Running, braidftp};
use server_support::{Control, Folder, PATIENCE, connect_from, pattern};

/// A name that would execute if it were inserted into a page as markup.
const HOSTILE: &str = "<img src=x onerror=document.title=1>&\u{202e}";

/// A server with a dashboard, and its address.
fn serve(folder: &Folder, more: &[&str]) -> (Running, SocketAddr) {
    let here = folder.path("");
    let mut arguments = vec!["serve", here.to_str().unwrap(), "--plain", "--listen", "ftp://127.0.0.1:0"];
    arguments.extend(["--listen", "ftp+sctp://127.0.0.1:0", "--dashboard", "127.0.0.1:0"]);
    arguments.extend(more);
    let server = Running::start(braidftp(&arguments), 2);
    let page = server.before.iter().find_map(|line| page_of(line)).expect("a line says where the page is");
    (server, page)
}

fn page_of(line: &str) -> Option<SocketAddr> {
    line.trim_end().strip_prefix("dashboard http://")?.strip_suffix('/')?.parse().ok()
}

/// Sends a request; returns the head and the body of the response.
fn ask(page: SocketAddr, request: &str) -> (String, String) {
    let mut stream = connect_from(page, None);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn get(page: SocketAddr, path: &str, host: &str) -> (String, String) {
    ask(page, &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"))
}

/// The events of a page, as received by a browser.
struct Events(BufReader<TcpStream>);

impl Events {
    fn of(page: SocketAddr) -> Self {
        let mut stream = connect_from(page, None);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("GET /events HTTP/1.1\r\nhost: {page}\r\n\r\n").as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    /// The next event: its name and its data.
    fn next(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "no more events");
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).unwrap());
            }
        }
    }

    /// The next event for which `holds` is true.
    fn next_with(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (_, data) = self.next();
            if holds(&data) {
                return data;
            }
        }
    }
}

#[test]
fn the_page_is_one_file_with_a_policy_and_its_events_have_sessions_and_transfers() {
    let folder = Folder::new();
    folder.put(HOSTILE, pattern(30_000_000));
    let (server, page) = serve(&folder, &[]);
    let (head, body) = get(page, "/", &page.to_string());
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    for line in [
        "content-type: text/html; charset=utf-8",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "content-security-policy: default-src 'none'; script-src 'sha256-",
    ] {
        assert!(head.contains(line), "{line} is not in\n{head}");
    }
    assert!(body.contains("<h1>braidftp serve</h1>") && body.ends_with("</html>\n"));
    let mut session = Control::at(server.tcp(), None).log_in();
    let data = session.begin(&format!("RETR {HOSTILE}"));
    let mut events = Events::of(page);
    assert_eq!(events.next().0, "all");
    let now = events.next_with(|now| now["transfers"][0]["bytes"].as_u64() > Some(0));
    assert_eq!(now["transfers"][0]["path"], format!("/{HOSTILE}"), "{now}");
    assert_eq!(now["transfers"][0]["direction"], "download");
    assert_eq!(now["sessions"][0]["user"], "anonymous");
    assert_eq!(now["totals"]["sessions"], 1);
    drop((session, data));
    events.next_with(|now| now["sessions"].as_array().unwrap().is_empty());
}

#[test]
fn paths_of_sctp_have_their_rate_rtt_window_and_loss() {
    let folder = Folder::new();
    folder.put("f", pattern(60_000_000));
    let (server, page) = serve(&folder, &[]);
    let copy = folder.outer.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let url = format!("{}/f", server.places[1]);
    let mut client =
        braidftp(&["get", "--plain", "-q", "--limit", "40mbit", &url, "-o", copy.to_str().unwrap()]);
    let mut client = Killed(client.spawn().unwrap());
    let mut events = Events::of(page);
    let now = events.next_with(|now| now["paths"][0]["samples"][0][1].as_u64() > Some(100_000));
    let path = &now["paths"][0];
    assert_eq!((&path["state"], &path["session"]), (&"active".into(), &now["sessions"][0]["id"]));
    let sample = &path["samples"][0];
    assert!(sample[2].as_f64() > Some(0.0) && sample[3].as_u64() > Some(1000), "{now}");
    assert_eq!(now["sessions"][0]["mode"], "braid");
    // A reader that connects later receives the earlier samples.
    events.next_with(|now| now["tick"].as_u64() >= Some(4));
    let (name, all) = Events::of(page).next();
    assert_eq!(name, "all");
    assert!(all["paths"][0]["samples"].as_array().unwrap().len() >= 2, "{all}");
    assert!(client.0.try_wait().unwrap().is_none(), "the transfer goes on");
}

#[test]
fn pages_of_other_sites_and_other_host_names_are_refused() {
    let folder = Folder::new();
    let (_server, page) = serve(&folder, &[]);
    for host in ["evil.example", "127.0.0.1.evil.example:8080", "192.0.2.1", "[2001:db8::1]:80", ""] {
        for path in ["/", "/events"] {
            let (head, body) = get(page, path, host);
            assert!(head.starts_with("HTTP/1.1 421 "), "{host}: {head}");
            assert!(body.starts_with("open the dashboard by the address"), "{body}");
        }
    }
    for host in ["localhost:8080", "127.0.0.1", "[::1]:8080"] {
        assert!(get(page, "/", host).0.starts_with("HTTP/1.1 200 "), "{host}");
    }
    let (head, _) = ask(page, "GET / HTTP/1.0\r\n\r\n");
    assert!(head.contains(" 421 "), "{head}");
    let from = |site: &str| {
        ask(page, &format!("GET / HTTP/1.1\r\nhost: {page}\r\nsec-fetch-site: {site}\r\n\r\n")).0
    };
    assert!(from("cross-site").starts_with("HTTP/1.1 403 "));
    assert!(from("same-site").starts_with("HTTP/1.1 403 "));
    assert!(from("none").starts_with("HTTP/1.1 200 "));
    assert!(ask(page, &format!("POST / HTTP/1.1\r\nhost: {page}\r\n\r\n")).0.starts_with("HTTP/1.1 405 "));
    assert!(get(page, "/etc/passwd", &page.to_string()).0.starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_public_address_must_be_permitted_and_an_invalid_one_is_reported() {
    let folder = Folder::new();
    let here = folder.path("");
    let refused = |arguments: &[&str]| {
        let output = braidftp(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let serve = ["serve", here.to_str().unwrap(), "--plain", "--listen", "ftp://127.0.0.1:0", "--dashboard"];
    let (code, why) = refused(&[&serve[..], &["0.0.0.0:0"]].concat());
    assert!(code == Some(1) && why.contains("--dashboard-anywhere"), "{why}");
    let get = ["get", "ftp://127.0.0.1:1/f", "-o", here.to_str().unwrap(), "--dashboard", "0.0.0.0:0"];
    let (code, why) = refused(&get);
    assert!(code == Some(1) && why.contains("--dashboard-anywhere"), "{why}");
    let settings = folder.outer.path().join("s.toml");
    std::fs::write(&settings, "plain = true\ndashboard = 'here'\n").unwrap();
    let (code, why) = refused(&["serve", here.to_str().unwrap(), "--config", settings.to_str().unwrap()]);
    assert!(code == Some(1) && why.contains("s.toml:2:13: dashboard"), "{why}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, why) = refused(&[&serve[..], &[&taken.local_addr().unwrap().to_string()]].concat());
    assert!(code == Some(1) && why.contains("choose another address by --dashboard"), "{why}");
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_shows_its_job_while_it_runs() {
    let folder = Folder::new();
    folder.put("f", pattern(4_000_000));
    let (server, _) = serve(&folder, &[]);
    let copy = folder.outer.path().join("copy");
    let mut command = braidftp(&["mirror", &server.places[1], copy.to_str().unwrap()]);
    command.args(["--plain", "-q", "--limit", "1mbit", "--dashboard", "127.0.0.1:0"]);
    let mut client = Killed(command.spawn().unwrap());
    let mut line = String::new();
    let mut stderr = BufReader::new(client.0.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let page = page_of(&line).expect(&line);
    assert!(get(page, "/", &page.to_string()).1.contains("<h1>braidftp mirror</h1>"));
    let now = Events::of(page).next_with(|now| now["transfers"][0]["bytes"].as_u64() > Some(0));
    let transfer = &now["transfers"][0];
    assert_eq!((&transfer["path"], &transfer["size"]), (&"f".into(), &4_000_000.into()), "{now}");
    assert_eq!(transfer["direction"], "download");
    assert_eq!(now["totals"]["expected_bytes"], 4_000_000, "{now}");
    assert_eq!(now["paths"].as_array().unwrap().len(), 1, "{now}");
}

#[test]
fn in_a_browser_rows_update_and_keyboard_and_both_colour_schemes_work() {
    let folder = Folder::new();
    folder.put(HOSTILE, pattern(30_000_000));
    let (server, page) = serve(&folder, &[]);
    let Some(mut browser) = Browser::start(folder.outer.path()) else { return };
    let copy = folder.outer.path().join("copy");
    let arguments =
        ["mirror", "--plain", "-q", "--limit", "2mbit", &server.places[1], copy.to_str().unwrap()];
    let _client = Killed(braidftp(&arguments).spawn().unwrap());
    browser.open(&format!("http://{page}/"), 1200, 900);
    for table in ["paths", "transfers", "sessions"] {
        browser.wait_for(&format!("document.querySelector('#{table} tbody tr')"));
    }
    browser.wait_for("document.getElementById('state').textContent === 'Live'");
    // Names are inserted as text.
    let name = browser.value("document.querySelector('#transfers tbody th').textContent");
    assert_eq!(name, format!("/{HOSTILE}"));
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.value("document.title"), "braidftp serve");
    // A line grows, and the row remains the same element.
    browser.value("window.kept = document.querySelector('#paths tbody tr'); 0");
    let points = "document.querySelector('#paths .rate polyline').getAttribute('points')";
    browser.wait_for(&format!("({points}).split(' ').length >= 4"));
    browser.wait_for("document.querySelector('#paths tbody tr') === window.kept");
    browser.wait_for("document.querySelector('#paths .rtt svg').getAttribute('aria-label').startsWith('RTT, last three minutes: from ')");
    // The keyboard reaches every control and every table.
    let mut reached = Vec::new();
    for _ in 0..6 {
        browser.press("Tab", 9);
        let at = "(document.activeElement.id || document.activeElement.getAttribute('aria-labelledby') || document.activeElement.className)";
        reached.push(browser.value(at).as_str().unwrap_or_default().to_owned());
        let ring = browser.value("getComputedStyle(document.activeElement).outlineStyle");
        assert_eq!(ring, "solid", "{reached:?}");
    }
    assert_eq!(reached, ["skip", "pause", "say", "paths-title", "transfers-title", "sessions-title"]);
    // Both colour schemes have enough contrast; motion stops on request.
    let colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]";
    browser.prefer(&[("prefers-color-scheme", "light"), ("prefers-reduced-motion", "no-preference")]);
    let moves = "getComputedStyle(document.getElementById('state'), '::before').animationName";
    assert_eq!(
        (browser.value(colours)[0].take(), browser.value(moves)),
        ("rgb(255, 255, 255)".into(), "beat".into())
    );
    browser.prefer(&[("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")]);
    assert_eq!(
        (browser.value(colours)[0].take(), browser.value(moves)),
        ("rgb(13, 17, 23)".into(), "none".into())
    );
    for scheme in ["light", "dark"] {
        browser.prefer(&[("prefers-color-scheme", scheme)]);
        let least = browser.value(CONTRAST);
        assert!(least.as_f64() >= Some(4.5), "{scheme}: {least}");
    }
    // For screen readers: names of tables, row headers, and few live regions.
    let tree = browser.call("Accessibility.getFullAXTree", serde_json::json!({}));
    let count = |role: &str| {
        let nodes = tree["nodes"].as_array().unwrap().iter();
        nodes.filter(|node| node["role"]["value"] == role && node["ignored"] != true).count()
    };
    assert_eq!((count("table"), count("status"), count("heading")), (3, 2, 4));
    assert!(
        count("rowheader") >= 3 && count("columnheader") == 21 && count("image") >= 4,
        "{}",
        count("columnheader")
    );
    // While paused, nothing is updated; the summary is announced on request.
    browser.value("document.getElementById('pause').click()");
    assert_eq!(browser.value("document.getElementById('pause').getAttribute('aria-pressed')"), "true");
    browser.value("window.changes = 0; new MutationObserver((all) => { changes += all.length; }).observe(document.querySelector('main'), { subtree: true, childList: true, characterData: true, attributes: true }); window.before = frame.tick; 0");
    browser.wait_for("frame.tick >= before + 2");
    assert_eq!(browser.value("changes"), 0);
    browser.value("document.getElementById('say').click()");
    browser.wait_for("document.getElementById('said').textContent.startsWith('Sessions: 1. Transfers: 1. ')");
    assert_eq!(browser.complaints, [""; 0]);
    // At the width of a telephone only the tables scroll sideways.
    browser.open(&format!("http://{page}/"), 360, 800);
    browser.wait_for("document.querySelector('#paths tbody tr')");
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 360);
    // The program has ended: the page reports this, and keeps the last data.
    drop(server);
    browser.wait_for("document.getElementById('state').textContent.startsWith('No connection')");
    assert_eq!(browser.value("document.querySelectorAll('#paths tbody tr').length"), 1);
}

/// The minimum contrast of a text with the page, by WCAG 2.
const CONTRAST: &str = "(() => {
  const light = (colour) => colour.match(/\\d+/g).slice(0, 3)
    .map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const back = light(getComputedStyle(document.body).backgroundColor);
  let least = 21;
  for (const node of document.querySelectorAll('h1, h2, p, dt, dd, th, td, caption, button, svg')) {
    const front = light(getComputedStyle(node).color);
    least = Math.min(least, (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05));
  }
  return least;
})()";
