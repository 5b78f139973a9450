//! Shared by the tests of several paths: the program as server and as client, between two network namespaces.

#![allow(unreachable_pub, reason = "each test binary uses it")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use braidftp_emu::wires::{End, Wires};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_braidftp");
/// A generous time limit.
pub const LIMIT: Duration = Duration::from_secs(200);

/// A process that is killed when this value is dropped.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// The exit status, once the process has ended; `is` describes its state until then.
    pub fn ended(&mut self, is: impl Fn() -> String) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < LIMIT, "it does not end: {}", is());
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server of this tree; returns the fingerprint of its key.
pub fn serve(net: &Wires, tree: &Path, url: &str) -> (Running, String) {
    let mut serve = net.command(End::Server, PROGRAM);
    serve.arg("serve").arg(tree).args(["--listen", url, "--identity"]);
    serve.arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/path-keys")).stderr(Stdio::piped());
    let mut server = Running::start(&mut serve);
    let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let key = lines.next().unwrap();
    let fingerprint = key.split(' ').nth(1).filter(|_| key.starts_with("key ")).expect(&key);
    let said = lines.next().unwrap();
    assert!(said.starts_with("listening"), "{said}");
    (server, fingerprint.to_owned())
}
