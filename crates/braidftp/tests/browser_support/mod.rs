//! A headless Chromium, controlled by its DevTools protocol over a pipe, without a web driver.
//!
//! `xtask` uses it for the picture of the README, so it needs only the standard library and serde_json.

#![allow(dead_code, unreachable_pub, reason = "each program uses its part")]

use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// A generous time limit for busy machines.
const PATIENCE: Duration = Duration::from_secs(150);

/// A browser with one page, which ends when this value is dropped.
pub struct Browser {
    child: Child,
    to: PipeWriter,
    from: Receiver<Value>,
    next: u64,
    session: Value,
    /// Errors and warnings of the page's console, and violations of its policy.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts the browser with a profile in this folder; `None`, with a message, if none is installed or it
    /// cannot display a page.
    pub fn start(folder: &Path) -> Option<Self> {
        let programs = ["chromium", "chromium-browser", "google-chrome"];
        let runs = |program: &&str| {
            let version = Command::new(program).arg("--version").env("HOME", folder).output();
            version.is_ok_and(|output| output.status.success())
        };
        let Some(program) = programs.into_iter().find(runs) else {
            let must = std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_some();
            assert!(!must, "Chromium is not there");
            eprintln!("LEFT OUT: no Chromium here (Debian: apt install chromium)");
            return None;
        };
        // It uses descriptors 3 and 4, which the shell creates from 0 and 1.
        let (its_end, to) = std::io::pipe().unwrap();
        let (ours, its_other) = std::io::pipe().unwrap();
        let child = Command::new("sh")
            .args(["-c", "exec 3<&0 4>&1 </dev/null >/dev/null; exec \"$@\"", "sh", program])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .env("HOME", folder)
            .stdin(its_end)
            .stdout(its_other)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (tell, from) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(ours).split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice::<Value>(&message) else { continue };
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { child, to, from, next: 0, session: Value::Null, complaints: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session = browser.call("Target.attachToTarget", attach)["sessionId"].take();
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut answer = self
                .from
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|error| panic!("the browser does not answer {method}: {error}"));
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            let level = match answer["method"].as_str() {
                Some("Log.entryAdded") => &answer["params"]["entry"]["level"],
                Some("Runtime.consoleAPICalled") => &answer["params"]["type"],
                Some("Runtime.exceptionThrown") => &answer["method"],
                _ => continue,
            };
            if level != "verbose" && level != "info" && level != "log" {
                self.complaints.push(answer["params"].to_string());
            }
        }
    }

    /// The value of an expression of the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// Opens an address, in a window of this size.
    pub fn open(&mut self, url: &str, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// Emulates a media feature, as in `("prefers-color-scheme", "dark")`.
    pub fn prefer(&mut self, features: &[(&str, &str)]) {
        let features: Vec<Value> =
            features.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Waits until an expression of the page is true.
    pub fn wait_for(&mut self, expression: &str) {
        let start = std::time::Instant::now();
        while self.value(&format!("Boolean({expression})")) != true {
            if start.elapsed() > PATIENCE {
                let text = self.value("document.body ? document.body.innerText : 'nothing'");
                panic!("{expression} does not come true; the page shows {text}, {:?}", self.complaints);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Presses a key, as in `("Tab", 9)`.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let params = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", params);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
