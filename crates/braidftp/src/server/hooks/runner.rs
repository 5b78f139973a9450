//! The process that runs hooks, next to a confined server.
//!
//! A thread for each hook processes the hook's oldest event that is due. A failed attempt is repeated after 1
//! s, 2 s, 4 s, up to 5 min, and after the maximum number of attempts the event is dropped with an error in
//! the log. An attempt that takes too long is killed with its child processes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::super::confine::RunAs;
use super::{Action, Hook, Start, names};

/// The polling interval of a running program.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The longest pause between attempts.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Whether the server exists, and whether there are new events.
#[derive(Debug, Default)]
struct Bell {
    state: Mutex<(u64, bool)>,
    rung: Condvar,
}

impl Bell {
    fn state(&self) -> (u64, bool) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, is_over: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = (state.0 + 1, is_over);
        self.rung.notify_all();
    }

    /// Waits for a ring after `after`, at most this long.
    fn wait(&self, after: u64, most: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.rung.wait_timeout_while(state, most, |(rings, over)| *rings == after && !*over));
    }
}

/// Runs hooks until standard input ends.
///
/// # Errors
///
/// The process was not started by a server: a sentence.
pub fn run() -> Result<(), String> {
    let mut stdin = std::io::stdin().lock();
    let mut line = String::new();
    stdin.read_line(&mut line).map_err(|error| error.to_string())?;
    let start: Start = serde_json::from_str(&line)
        .map_err(|_| "run-hooks is started by `braidftp serve`, which has hooks in its file of settings")?;
    if let Some(run_as) = &start.run_as {
        run_as.parse::<RunAs>()?.become_user().map_err(|error| error.to_string())?;
    }
    rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string())?;
    let _alone = alone(&start)?;
    let (start, bell) = (Arc::new(start), Arc::new(Bell::default()));
    let threads: Vec<_> = (0..start.hooks.len())
        .map(|at| {
            let (start, bell) = (start.clone(), bell.clone());
            std::thread::spawn(move || attend(&start, &start.hooks[at], &bell))
        })
        .collect();
    let mut some = [0; 512];
    while stdin.read(&mut some).is_ok_and(|count| count > 0) {
        bell.ring(false);
    }
    bell.ring(true);
    threads.into_iter().for_each(|thread| {
        let _ = thread.join();
    });
    Ok(())
}

/// Waits until no other process runs the hooks of this queue: that of the previous server may still be
/// running.
fn alone(start: &Start) -> Result<File, String> {
    let path = start.folder.join(".lock");
    let cannot = |error| format!("hooks: cannot lock {}: {error}", path.display());
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(cannot)?;
    if file.try_lock().is_err() {
        tell(start, &format!("hooks: another process uses {}; waiting for its end", start.folder.display()));
        file.lock().map_err(cannot)?;
    }
    Ok(file)
}

/// Processes the events of one hook.
fn attend(start: &Start, hook: &Hook, bell: &Bell) {
    let mine = format!("-{}{}", hook.name, super::SUFFIX);
    let mut failed: BTreeMap<String, (u32, Instant)> = BTreeMap::new();
    loop {
        let (rings, is_over) = bell.state();
        if is_over {
            return;
        }
        let now = Instant::now();
        // After time and number, so that no name is a suffix of another.
        let waiting: Vec<String> =
            names(&start.folder).into_iter().filter(|name| name.get(31..) == Some(&mine)).collect();
        failed.retain(|name, _| waiting.contains(name));
        let due = waiting.iter().find(|name| failed.get(*name).is_none_or(|(_, at)| *at <= now));
        let Some(name) = due else {
            let next = failed.values().map(|(_, at)| at.saturating_duration_since(now)).min();
            bell.wait(rings, next.unwrap_or(PAUSE_MAX));
            continue;
        };
        let file = start.folder.join(name);
        let Err(why) = carry_out(hook, &file, bell) else {
            let _ = std::fs::remove_file(&file);
            failed.remove(name);
            continue;
        };
        if bell.state().1 {
            // The event is kept for the next start.
            return;
        }
        let attempts = failed.get(name).map_or(0, |(attempts, _)| *attempts) + 1;
        if attempts >= hook.attempts {
            tell(
                start,
                &format!("hook {}: {why}; dropped after {attempts} attempts: {}", hook.name, shown(&file)),
            );
            let _ = std::fs::remove_file(&file);
            failed.remove(name);
            continue;
        }
        let pause = Duration::from_secs(1 << (attempts - 1).min(9)).min(PAUSE_MAX);
        tell(start, &format!("hook {}: {why}; again in {} s", hook.name, pause.as_secs()));
        failed.insert(name.clone(), (attempts, Instant::now() + pause));
    }
}

fn shown(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Writes a log line in the server's format.
fn tell(start: &Start, message: &str) {
    let line = match start.json {
        true => serde_json::json!({ "level": "WARN", "message": message }).to_string(),
        false => format!("WARN {message}"),
    };
    // The reader may be gone.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn carry_out(hook: &Hook, file: &Path, bell: &Bell) -> Result<(), String> {
    let event = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let within = Duration::from_secs(hook.timeout_seconds);
    match &hook.action {
        Action::Run(words) => execute(words, &event, within, bell),
        Action::Post(url) => post(url, &event, within),
    }
}

/// A program and its child processes: killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

fn execute(words: &[String], event: &[u8], within: Duration, bell: &Bell) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Err("no program".into()) };
    let read: Value = serde_json::from_slice(event).map_err(|error| format!("a damaged event: {error}"))?;
    let text = |key: &str| read[key].as_str().unwrap_or_default().to_owned();
    let child = Command::new(program)
        .args(arguments)
        .env("BRAIDFTP_HOOK_EVENT", text("event"))
        .env("BRAIDFTP_HOOK_USER", text("user"))
        .env("BRAIDFTP_HOOK_PATH", text("path"))
        .env("BRAIDFTP_HOOK_FILE", text("file"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn();
    let mut running = Running(child.map_err(|error| format!("cannot run {program}: {error}"))?);
    if let Some(mut stdin) = running.0.stdin.take() {
        // An event is smaller than a pipe, so this does not block. A program need not read it.
        let _ = stdin.write_all(event);
    }
    let end = Instant::now() + within;
    loop {
        match running.0.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{program} ended with {status}")),
            Ok(None) if bell.state().1 => return Err("the server ends".into()),
            Ok(None) if Instant::now() >= end => {
                return Err(format!("{program} took more than {} s and was killed", within.as_secs()));
            }
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(error) => return Err(format!("cannot wait for {program}: {error}")),
        }
    }
}

fn post(url: &str, event: &[u8], within: Duration) -> Result<(), String> {
    let mut tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    if url.starts_with("https:") {
        let found = rustls_native_certs::load_native_certs();
        let roots: Vec<Certificate<'static>> =
            found.certs.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
        tls = tls.root_certs(RootCerts::new_with_certs(&roots));
    }
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(within))
        .max_redirects(0)
        .tls_config(tls.build())
        .build()
        .new_agent();
    let answer = agent.post(url).header("content-type", "application/json").send(event);
    match answer {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(format!("{url} answered {}", answer.status())),
        Err(error) => Err(format!("{url}: {error}")),
    }
}
