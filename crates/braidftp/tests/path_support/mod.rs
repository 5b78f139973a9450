//! What the tests of several paths share: the program as server and as client, between two network namespaces.

#![allow(unreachable_pub, reason = "each test binary uses it")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use braidftp_emu::wires::{End, Wires};

/// The program that is tested.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_braidftp");
/// Far longer than anything takes.
pub const LIMIT: Duration = Duration::from_secs(200);

/// A process that ends with the test.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// How it ended, once it has; until then it `is` somewhere.
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

/// A server of this tree that listens.
pub fn serve(net: &Wires, tree: &Path, url: &str) -> Running {
    let mut serve = net.command(End::Server, PROGRAM);
    serve.arg("serve").arg(tree).args(["--listen", url]).stderr(Stdio::piped());
    let mut server = Running::start(&mut serve);
    let mut said = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("listening"), "{said}");
    server
}
