//! `braidlab view`: a self-contained page for a qlog file of a simulated run, and for one of the program braidftp; in a
//! browser, if one is installed, it counts and draws what the file has.

#[path = "browser/mod.rs"]
mod browser;
#[path = "../../braidftp/tests/browser_support/mod.rs"]
mod browser_support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};

use self::browser_support::Browser;

/// What the page shows of a file.
#[derive(Debug, Deserialize)]
struct Shown {
    /// JavaScript errors.
    errors: Vec<String>,
    /// The line with the numbers.
    summary: String,
    /// The number of points or bars of each chart.
    points: Vec<usize>,
    /// Whether each canvas has a coloured pixel.
    drawn: Vec<bool>,
    /// The rows of the tables: paths, and streams that waited.
    paths: Vec<Vec<String>>,
    waits: Vec<Vec<String>>,
}

const PROBE: &str = "<script>const rows = (id) => [...document.querySelectorAll(`#${id} tr`)].slice(1).map((row) => [...row.children].map((cell) => cell.textContent));
const result = document.createElement('pre'); result.id = 'probe';
result.textContent = JSON.stringify({ errors: window.errors, summary: document.getElementById('summary').textContent,
points: page ? page.charts.map((chart) => chart.points.length) : [],
drawn: [...document.querySelectorAll('canvas')].map((its) => its.getContext('2d').getImageData(0, 0, its.width, its.height).data.some((part) => part > 0)),
paths: rows('paths'), waits: rows('waits') });
document.body.append(result);</script></body>";

fn lab(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braidlab")).args(words).current_dir(folder).output().unwrap()
}

/// The page of run.qlog.
fn page(folder: &Path) -> String {
    let output = lab(folder, &["view", "run.qlog", "-o", "page.html"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("page.html: "));
    std::fs::read_to_string(folder.join("page.html")).unwrap()
}

/// What a browser shows of a page.
fn shown(folder: &Path, page: &str) -> Option<Shown> {
    let errors = "<script>window.errors = []; addEventListener('error', (event) => errors.push(String(event.message)));</script><script>";
    let html = page.replacen("<script>", errors, 1).replacen("</body>", PROBE, 1);
    std::fs::write(folder.join("probe.html"), html).unwrap();
    let dom = browser::browse(folder, 1_200, &format!("file://{}", folder.join("probe.html").display()))?;
    Some(browser::probed(&dom))
}

/// The numbers of a qlog file, as the page must show them.
struct Counts {
    events: usize,
    paths: BTreeSet<String>,
    /// For each direction, the TSNs of all DATA chunks.
    sent: Vec<u64>,
    received: Vec<u64>,
}

fn counts(qlog: &str) -> Counts {
    let records = qlog.split('\u{1e}').filter(|record| !record.is_empty()).skip(1);
    let events: Vec<Value> = records.map(|record| serde_json::from_str(record).unwrap()).collect();
    let data = |name: &str| -> Vec<u64> {
        let its = events.iter().filter(|event| event["name"] == name);
        let chunks = its.flat_map(|event| event["data"]["chunks"].as_array().cloned().unwrap_or_default());
        let is_data =
            |chunk: &Value| ["data", "i_data"].contains(&chunk["chunk_type"].as_str().unwrap_or(""));
        chunks.filter(is_data).map(|chunk| chunk["tsn"].as_u64().unwrap()).collect()
    };
    Counts {
        events: events.len(),
        paths: events.iter().filter_map(|event| Some(event["data"]["path"].as_str()?.to_owned())).collect(),
        sent: data("sctp:packet_sent"),
        received: data("sctp:packet_received"),
    }
}

/// Compares what is shown with the file.
fn is_as_file(shown: &Shown, qlog: &str) {
    let Counts { events, paths, sent, received } = counts(qlog);
    assert_eq!(shown.errors, [""; 0]);
    let again = |tsns: &[u64]| tsns.len() - tsns.iter().collect::<BTreeSet<_>>().len();
    let chunks = sent.len() + received.len();
    for part in [
        format!("{events} events"),
        format!("{} path{}", paths.len(), if paths.len() == 1 { " ·" } else { "s ·" }),
        format!("{chunks} DATA chunks, {} of them again", again(&sent) + again(&received)),
    ] {
        assert!(shown.summary.contains(&part), "{part}: {}", shown.summary);
    }
    assert!(!shown.summary.contains("incomplete"), "{}", shown.summary);
    assert!(!shown.summary.contains("unknown"), "{}", shown.summary);
    assert_eq!(shown.drawn, [true; 4]);
    // The diagram has a point for each chunk of the direction with more of them, and for each acknowledgement.
    assert!(shown.points[0] > sent.len().max(received.len()), "{:?}", shown.points);
    assert!(shown.points[1] > 2 && shown.points[2] > 2, "{:?}", shown.points);
    let names: BTreeSet<String> = shown.paths.iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, paths);
}

#[test]
fn a_simulated_run_is_drawn_with_what_the_file_has() {
    let folder = tempfile::tempdir().unwrap();
    let replay = [
        "replay",
        "--path",
        "wan",
        "--losses",
        "two-paths",
        "--loss",
        "0.1",
        "--seed",
        "7",
        "--qlog",
        "run.qlog",
    ];
    assert!(lab(folder.path(), &replay).status.success());
    let qlog = std::fs::read_to_string(folder.path().join("run.qlog")).unwrap();
    let html = page(folder.path());
    assert_eq!(page(folder.path()), html, "the same file gives the same page");
    for word in ["url(", "@import", "http:", "https:", "fetch(", "XMLHttpRequest", "import(", "src="] {
        assert!(!html.contains(word), "{word}");
    }
    let Some(shown) = shown(folder.path(), &html) else { return };
    is_as_file(&shown, &qlog);
    // Of the lost chunks others of their stream waited for a while.
    assert!(shown.summary.contains(" 2 paths"), "{}", shown.summary);
    let waited = |row: &&Vec<String>| {
        row[2].parse::<usize>().unwrap() > 0 && row[3].ends_with(" ms") && !row[5].is_empty()
    };
    assert!(shown.waits.iter().filter(waited).count() > 0, "{:?}", shown.waits);
}

#[test]
fn a_page_without_a_file_waits_for_one_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(folder.path(), &["view", "-o", "page.html"]);
    assert!(output.status.success());
    let html = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    if let Some(shown) = shown(folder.path(), &html) {
        assert_eq!((shown.errors.len(), shown.points.len()), (0, 0));
        assert!(shown.summary.starts_with("Drop a qlog file"), "{}", shown.summary);
    }
    let evil = "\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"title\":\"</script><img src=x>\"}\n\u{1e}{\"name\":\"</script>";
    std::fs::write(folder.path().join("run.qlog"), evil).unwrap();
    let html = page(folder.path());
    assert!(!html.contains("<img") && html.matches("</script>").count() == 3, "{html}");
    if let Some(shown) = shown(folder.path(), &html) {
        assert_eq!(shown.errors, [""; 0]);
        assert!(shown.summary.contains("1 incomplete records left out"), "{}", shown.summary);
    }
    for wrong in ["", "{}", "\u{1e}{}", "\u{1e}not JSON"] {
        std::fs::write(folder.path().join("run.qlog"), wrong).unwrap();
        let output = lab(folder.path(), &["view", "run.qlog"]);
        assert_eq!(output.status.code(), Some(1), "{wrong}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no qlog file of the form JSON-SEQ"));
    }
    let output = lab(folder.path(), &["view", "nothing.qlog"]);
    assert_eq!(output.status.code(), Some(6));
}

/// Drops a file on the page as a file manager does.
fn drop_on(browser: &mut Browser, file: &Path) {
    for kind in ["dragEnter", "dragOver", "drop"] {
        let data = json!({ "items": [], "files": [file], "dragOperationsMask": 1 });
        browser.call("Input.dispatchDragEvent", json!({ "type": kind, "x": 300, "y": 300, "data": data }));
        let is_over = kind == "dragOver";
        if kind != "dragEnter" {
            browser.wait_for(&format!("document.body.classList.contains('drop') === {is_over}"));
        }
    }
}

#[test]
fn a_file_that_is_dropped_on_the_page_is_drawn_until_another_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert!(lab(folder.path(), &["view", "-o", "page.html"]).status.success());
    let Some(mut browser) = Browser::start(folder.path()) else { return };
    browser.open(&format!("file://{}", at("page.html").display()), 1_200, 900);
    browser.wait_for("document.readyState === 'complete' && document.getElementById('summary')");
    let says = |part: &str| format!("document.getElementById('summary').textContent.includes({part:?})");
    for (loss, seed) in [("0", "7"), ("0.1", "8")] {
        let replay = ["replay", "--path", "lan", "--loss", loss, "--seed", seed, "--qlog", "run.qlog"];
        assert!(lab(folder.path(), &replay).status.success());
        let Counts { events, .. } = counts(&std::fs::read_to_string(at("run.qlog")).unwrap());
        drop_on(&mut browser, &at("run.qlog"));
        browser.wait_for(&says(&format!("{events} events")));
        assert_eq!(browser.value("document.querySelectorAll('canvas').length"), 4);
        assert_eq!(browser.value("document.getElementById('view').hidden"), false);
    }
    std::fs::write(at("other.txt"), "a text").unwrap();
    drop_on(&mut browser, &at("other.txt"));
    browser.wait_for(&says("no qlog file"));
    assert_eq!(browser.value("document.getElementById('view').hidden"), true);
    assert_eq!(browser.complaints, [""; 0]);
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program braidftp beside braidlab, with the settings of nobody.
fn braidftp(folder: &Path) -> Option<Command> {
    let program: PathBuf = Path::new(env!("CARGO_BIN_EXE_braidlab")).with_file_name("braidftp");
    if !program.exists() {
        eprintln!("LEFT OUT: no program braidftp beside braidlab: cargo build -p braidftp");
        return None;
    }
    let mut command = Command::new(program);
    command
        .env("HOME", folder)
        .env("XDG_CONFIG_HOME", folder)
        .env("XDG_DATA_HOME", folder)
        .stdin(Stdio::null());
    Some(command)
}

#[test]
fn a_transfer_of_the_program_is_drawn_with_what_the_file_has() {
    let folder = tempfile::tempdir().unwrap();
    let served = folder.path().join("served");
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("file"), vec![7; 300_000]).unwrap();
    let Some(mut serve) = braidftp(folder.path()) else { return };
    serve.args(["serve", "--plain", "--listen", "ftp+sctp://127.0.0.1:0/"]).arg(&served);
    let mut server = Server(serve.stderr(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
    let port = lines.map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("127.0.0.1:")?;
        port.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u16>().ok()
    });
    let port = port.expect("the server says where it listens");
    let mut get = braidftp(folder.path()).unwrap();
    get.args(["get", "--plain", "--qlog", "run.qlog"]).arg(format!("ftp+sctp://127.0.0.1:{port}/file"));
    let got = get.current_dir(folder.path()).output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    let qlog = std::fs::read_to_string(folder.path().join("run.qlog")).unwrap();
    let html = page(folder.path());
    let Some(shown) = shown(folder.path(), &html) else { return };
    is_as_file(&shown, &qlog);
    assert!(counts(&qlog).received.len() > 4, "a file of 300 kB came");
}
