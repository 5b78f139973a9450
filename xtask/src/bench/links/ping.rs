//! Round-trip times of a ping beside a transfer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::bench::emulated::{Net, Process};

/// The seconds between two pings.
const INTERVAL: &str = "0.05";

/// A running ping from the client to the server. It writes each line at once, so it may be killed.
pub(super) struct Ping {
    process: Process,
    log: PathBuf,
}

impl Ping {
    pub(super) fn start(net: &Net<'_>, dir: &Path) -> Result<Self> {
        let log = dir.join("ping.log");
        let mut command = net.on("client", "ping");
        command.args(["-n", "-i", INTERVAL, "10.1.1.1"]).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(fs::File::create(&log)?).stderr(Stdio::null());
        Ok(Self { process: Process(command.spawn().context("cannot run ping")?), log })
    }

    /// Ends the ping and returns the round-trip times, in milliseconds.
    pub(super) fn stop(self) -> Result<Vec<f64>> {
        drop(self.process);
        Ok(times(&fs::read_to_string(self.log)?))
    }
}

/// The round-trip times in the output of ping, in milliseconds. A line cut short by the end of ping is ignored, and so
/// is a duplicate.
fn times(text: &str) -> Vec<f64> {
    text.lines().filter_map(|line| line.split_once("time=")?.1.strip_suffix(" ms")?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_the_output_of_ping() {
        let text = "PING 10.1.1.1 (10.1.1.1) 56(84) bytes of data.\n\
            64 bytes from 10.1.1.1: icmp_seq=1 ttl=64 time=20.3 ms\n\
            64 bytes from 10.1.1.1: icmp_seq=3 ttl=64 time=301 ms\n\
            64 bytes from 10.1.1.1: icmp_seq=3 ttl=64 time=302 ms (DUP!)\n\
            64 bytes from 10.1.1.1: icmp_seq=4 ttl=64 time=3";
        assert_eq!(times(text), [20.3, 301.0]);
        for end in 0..text.len() {
            // Cut before its last word, the line of the duplicate is that of an answer.
            assert!([20.3, 301.0, 302.0].starts_with(&times(&text[..end])), "cut after {end} bytes");
        }
    }
}
