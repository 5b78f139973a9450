//! `braidlab net check`: is a net as fast and as slow as it says? Measured by programs that know nothing of it: `ping`
//! for the time, `iperf3` for the rate.

use std::fmt::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use braidftp_emu::named::{self, End, Name};

use super::{Up, clean, make};
use crate::Failure;
use crate::commands::print;

/// What is tried: from the slowest of the papers' LANs to what one core still carries.
const LINKS: [&str; 4] = [
    "rate=3mbit,delay=1ms,queue=100p",
    "rate=20mbit,delay=35ms,queue=500p",
    "rate=100mbit,delay=10ms,queue=1000p",
    "rate=500mbit,delay=5ms,queue=2000p",
];
/// How far the median of the round trips may be from what link and packet say.
const TIMING_MS: f64 = 0.3;
/// How far the rate may be from what is left of it for payload.
const RATE: f64 = 0.03;
/// An IP packet of `ping`, in bytes: 56 of its own, ICMP and IP headers.
const PING_BYTES: f64 = 84.0;
const PINGS: usize = 100;
/// Of an IP packet of 1,500 bytes, UDP carries so many.
const UDP_PAYLOAD: f64 = 1_472.0;

/// Tries nets of several rates; every one must keep its promise.
pub(super) fn run() -> Result<(), Failure> {
    let name: Name = format!("check-{}", std::process::id()).parse().map_err(Failure::Usage)?;
    let mut table = String::from(
        "link                                     round trip, median of ping   goodput of iperf3 (UDP)\n",
    );
    let mut kept = true;
    for link in LINKS {
        let measured = measure(&name, link);
        clean(&name)?;
        let Measured { round_trip_ms, expected_ms, rate, expected_rate } = measured?;
        let on_time = (round_trip_ms - expected_ms).abs() <= TIMING_MS;
        let on_rate = (rate / expected_rate - 1.0).abs() <= RATE;
        kept &= on_time && on_rate;
        let word = |good| if good { "ok" } else { "NO" };
        let _ = writeln!(
            table,
            "{link:40} {round_trip_ms:8.3} ms, is {expected_ms:8.3} {}   {:8.2} Mbit/s, is {:8.2} {}",
            word(on_time),
            rate / 1e6,
            expected_rate / 1e6,
            word(on_rate)
        );
    }
    print(&table)?;
    if kept {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "not within {TIMING_MS} ms and {} %: is something else busy on this machine?",
        RATE * 100.0
    )))
}

struct Measured {
    round_trip_ms: f64,
    expected_ms: f64,
    /// Bits of UDP payload a second.
    rate: f64,
    expected_rate: f64,
}

fn measure(name: &Name, link: &str) -> Result<Measured, Failure> {
    let up = Up { name: name.clone(), paths: vec![link.to_owned()], seed: 1, mtu: 1_500, pcap: None };
    make(&up)?;
    let config: braidftp_emu::LinkConfig =
        link.parse().map_err(|error| Failure::Usage(format!("{link}: {error}")))?;
    let braidftp_emu::link::Bandwidth::Fixed(rate) = config.rate else {
        return Err(Failure::Usage(format!("{link} has no rate")));
    };
    let bits = rate.bits_per_second() as f64;
    let server = named::address(0, End::Server).to_string();

    let mut ping = name.command(End::Client, "ping");
    ping.args(["-n", "-i", "0.02", "-c", &PINGS.to_string(), &server]);
    let mut trips = round_trips(&String::from_utf8_lossy(&output(&mut ping, "ping", "iputils-ping")?.stdout));
    if trips.len() < PINGS / 2 {
        return Err(Failure::Connect(format!("of {PINGS} pings over {link} only {} came back", trips.len())));
    }
    trips.sort_by(f64::total_cmp);

    let listening = Listening(
        name.command(End::Server, "iperf3")
            .args(["--server", "--one-off"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Failure::Usage(format!("cannot run iperf3: {error}")))?,
    );
    let mut iperf = name.command(End::Client, "iperf3");
    // A tenth more than the link carries, so that it is never without a packet.
    iperf.args([
        "--client",
        &server,
        "--json",
        "--udp",
        "--length",
        "1472",
        "--time",
        "3",
        "--omit",
        "1",
        "--bitrate",
    ]);
    iperf.arg(format!("{:.0}", bits * 1.1));
    let started = Instant::now();
    let said = loop {
        match output(&mut iperf, "iperf3", "iperf3") {
            Ok(said) => break said,
            // The other one may not listen yet.
            Err(_) if started.elapsed() < Duration::from_secs(2) => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => return Err(error),
        }
    };
    drop(listening);
    let rate = received_rate(&said.stdout)
        .ok_or_else(|| Failure::Connect("iperf3 did not say at what rate packets came".into()))?;
    Ok(Measured {
        round_trip_ms: trips[trips.len() / 2],
        expected_ms: 2.0 * (config.delay.as_secs_f64() + PING_BYTES * 8.0 / bits) * 1e3,
        rate,
        expected_rate: bits * UDP_PAYLOAD / 1_500.0,
    })
}

/// The times, in ms, of `64 bytes from 10.1.1.1: icmp_seq=1 ttl=64 time=2.57 ms`.
fn round_trips(said: &str) -> Vec<f64> {
    let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse().ok();
    said.lines().filter_map(time).collect()
}

/// What arrived, in bits a second, by iperf3's JSON.
fn received_rate(json: &[u8]) -> Option<f64> {
    let said: serde_json::Value = serde_json::from_slice(json).ok()?;
    let sum = &said["end"]["sum_received"];
    let rate = sum["bits_per_second"].as_f64()?;
    (rate > 0.0).then_some(rate)
}

fn output(command: &mut Command, program: &str, package: &str) -> Result<Output, Failure> {
    let said = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::Usage(format!("cannot run {program}: {error}")))?;
    if said.status.success() {
        return Ok(said);
    }
    let words = String::from_utf8_lossy(&said.stderr).trim().to_owned();
    Err(Failure::Usage(if words.contains("No such file") {
        format!("the program `{program}` is not here; it is in Debian's package {package}")
    } else {
        format!("`{program}` failed: {words}")
    }))
}

/// A program that is not to outlive this one.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ping_and_iperf3_say_is_read() {
        let said = "PING 10.1.1.1\n64 bytes from 10.1.1.1: icmp_seq=1 ttl=64 time=2.57 ms\nrtt min/avg\n";
        assert_eq!(round_trips(said), [2.57]);
        let said = br#"{"end":{"sum_received":{"bits_per_second":2874000.5}}}"#;
        assert_eq!(received_rate(said), Some(2_874_000.5));
        assert_eq!(received_rate(b"{}"), None);
    }
}
