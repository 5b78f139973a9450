//! The program itself: `braidftp serve` as a separate process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::eventually;

/// The program with these arguments, the keys of this test binary, and pipes for its output.
pub fn braidftp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidftp"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The server's key is stored there, and clients find the key of their user's own server there.
    let keys = concat!(env!("CARGO_TARGET_TMPDIR"), "/keys-of-", env!("CARGO_CRATE_NAME"));
    command.env("XDG_DATA_HOME", keys).env_remove("STATE_DIRECTORY");
    command
}

/// A server that was started and has printed its addresses. It is killed when this value is dropped.
pub struct Running {
    pub child: Child,
    /// Its addresses, as URLs without a path.
    pub places: Vec<String>,
    /// The output before.
    pub before: Vec<String>,
    pub stderr: BufReader<ChildStderr>,
}

impl Running {
    /// Starts it; it will print `places` addresses.
    pub fn start(mut command: Command, places: usize) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut running = Self { child, places: Vec::new(), before: Vec::new(), stderr };
        while running.places.len() < places {
            let line = running.told("");
            match line.strip_prefix("listening ") {
                Some(place) => running.places.push(place.trim_end().to_owned()),
                None => running.before.push(line),
            }
        }
        running
    }

    /// The next line that contains these words.
    pub fn told(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            let length = self.stderr.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "it does not say {words:?}, but {:?}", self.before);
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The first address, which is of TCP.
    pub fn tcp(&self) -> SocketAddr {
        self.places[0].strip_prefix("ftp://").unwrap().parse().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
