//! Pages in a headless browser.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

/// What a probe left in the element `probe` of a page, as JSON.
pub(crate) fn probed<T: DeserializeOwned>(dom: &str) -> T {
    let (_, after) = dom.split_once("<pre id=\"probe\">").expect("the probe ran to its end");
    let json = after.split_once("</pre>").expect("it is closed").0;
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ").replace("&amp;", "&");
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// The page after its scripts have run. `None`, with a message, if there is no browser.
pub(crate) fn browse(folder: &Path, width: u32, url: &str) -> Option<String> {
    let programs = ["chromium", "chromium-browser", "google-chrome"];
    let runs = |program: &&str| {
        let version = Command::new(program).arg("--version").env("HOME", folder).output();
        version.is_ok_and(|output| output.status.success())
    };
    let Some(program) = programs.into_iter().find(|program| runs(program)) else {
        eprintln!("LEFT OUT: no Chromium here (Debian: apt install chromium)");
        return None;
    };
    let (out, said) = (folder.join("dom.html"), folder.join("said"));
    let mut child = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--window-size={width},1000"))
        .arg("--virtual-time-budget=5000")
        .arg(url)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    // A busy machine must not fail the test.
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(300) {
            let _ = child.kill();
            let _ = child.wait();
            eprintln!("LEFT OUT: {program} did not come to its end within 300 s");
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let dom = String::from_utf8_lossy(&fs::read(&out).unwrap()).into_owned();
    if !dom.contains("<main>") {
        let said = fs::read_to_string(&said).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it says nothing");
        eprintln!("LEFT OUT: {program} does not show a page here: {last}");
        return None;
    }
    Some(dom)
}
