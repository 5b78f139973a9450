//! `braidlab net check`: measures delay and rate of a net with independent programs: delay with `ping`,
//! rate with `iperf3` and the kernel's receive counters.

use std::fmt::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use braidftp_emu::named::{self, End, Name};
use braidftp_lab::stats::quantile;

use super::{Up, clean, make};
use crate::Failure;
use crate::commands::print;

/// The tested links: from the slowest LAN of the papers to the fastest that one core handles.
const LINKS: [&str; 4] = [
    "rate=3mbit,delay=1ms,queue=100p",
    "rate=20mbit,delay=35ms,queue=500p",
    "rate=100mbit,delay=10ms,queue=1000p",
    "rate=500mbit,delay=5ms,queue=2000p",
];
/// The maximum difference between the median RTT and its expected value, in ms.
const TIMING_MS: f64 = 0.3;
/// The maximum relative difference of the rate.
const RATE: f64 = 0.03;
/// An IP packet of `ping`, in bytes: 56 bytes of data, ICMP and IP headers.
const PING_BYTES: f64 = 84.0;
/// A sender below this share of the link's rate does not saturate the link.
const SATURATED: f64 = 0.9;
const PINGS: usize = 100;
/// The UDP payload of an IP packet of 1,500 bytes.
const UDP_PAYLOAD: &str = "1472";
/// The number of windows. The rate is the median over them, and so is the expected rate: the link's, or the
/// sender's if other programs slowed the sender down.
const WINDOWS: usize = 7;
const WINDOW: Duration = Duration::from_millis(400);
/// More bytes than iperf3 exchanges before the test begins.
const BEGUN_BYTES: u64 = 20_000;
/// The time limit for the beginning.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tests nets of several rates; all must pass.
pub(super) fn run() -> Result<(), Failure> {
    let name: Name = format!("check-{}", std::process::id()).parse().map_err(Failure::Usage)?;
    let mut table = String::from(
        "link                                     round trip, median of ping   received rate (iperf3, UDP)\n",
    );
    let mut kept = true;
    for link in LINKS {
        let measured = measure(&name, link);
        clean(&name)?;
        let Measured { round_trip_ms, expected_ms, rate, expected_rate, full_rate } = measured?;
        let on_time = (round_trip_ms - expected_ms).abs() <= TIMING_MS;
        let on_rate = (rate / expected_rate - 1.0).abs() <= RATE && expected_rate >= full_rate * SATURATED;
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
        "not within {TIMING_MS} ms and {} %: check for other load on this machine",
        RATE * 100.0
    )))
}

struct Measured {
    round_trip_ms: f64,
    expected_ms: f64,
    /// Bits of IP packets per second.
    rate: f64,
    expected_rate: f64,
    /// The link's rate.
    full_rate: f64,
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

    let mut ping = program(name, End::Client, "ping");
    ping.args(["-n", "-i", "0.02", "-c", &PINGS.to_string(), &server]);
    let trips = round_trips(&String::from_utf8_lossy(&output(&mut ping, "ping", "iputils-ping")?.stdout));
    if trips.len() < PINGS / 2 {
        return Err(Failure::Connect(format!(
            "only {} of {PINGS} pings over {link} were answered",
            trips.len()
        )));
    }

    let busy = |end, words: &[&str]| {
        let mut command = program(name, end, "iperf3");
        let child = command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().map_err(|error| Failure::Usage(format!("cannot run iperf3: {error}")))?;
        Ok::<Busy, Failure>(Busy(child))
    };
    let receiver = busy(End::Server, &["--server"])?;
    // Ten per cent more than the link's rate, to keep the queue filled.
    let rate = format!("{:.0}", bits * 1.1);
    let words = ["--client", &server, "--udp", "--length", UDP_PAYLOAD, "--time", "60", "--bitrate", &rate];
    let started = Instant::now();
    let mut sender = busy(End::Client, &words)?;
    // The client may have started before the server listened.
    while arrived(&receiver).is_none_or(|bytes| bytes < BEGUN_BYTES) {
        if started.elapsed() > PATIENCE {
            return Err(Failure::Connect(
                "iperf3 sends nothing; is Debian's package iperf3 installed?".into(),
            ));
        }
        std::thread::sleep(Duration::from_millis(100));
        if !matches!(sender.0.try_wait(), Ok(None)) {
            sender = busy(End::Client, &words)?;
        }
    }
    // The queue fills, and the first packets arrive.
    std::thread::sleep(Duration::from_millis(500));
    let count = || Some((Instant::now(), left(&sender)?, arrived(&receiver)?));
    let (mut rates, mut expected) = (Vec::new(), Vec::new());
    let mut last = count();
    for _ in 0..WINDOWS {
        std::thread::sleep(WINDOW);
        let next = count();
        if let (Some((from, left_before, arrived_before)), Some((to, left, arrived))) = (last, next) {
            let rate = |bytes: u64| bytes as f64 * 8.0 / (to - from).as_secs_f64();
            rates.push(rate(arrived - arrived_before));
            expected.push(rate(left - left_before).min(bits));
        }
        last = next;
    }
    if rates.is_empty() {
        return Err(Failure::Connect("iperf3 ended early".into()));
    }
    Ok(Measured {
        round_trip_ms: quantile(&trips, 0.5),
        expected_ms: 2.0 * (config.delay.as_secs_f64() + PING_BYTES * 8.0 / bits) * 1e3,
        rate: quantile(&rates, 0.5),
        expected_rate: quantile(&expected, 0.5),
        full_rate: bits,
    })
}

/// Bytes received by a program's host on its first path, by its kernel's counters. A program may be too
/// slow to read and its socket overflow; the device counter is not affected.
fn arrived(program: &Busy) -> Option<u64> {
    device_bytes(&device_table(program)?, 0)
}

/// Bytes sent by a program's host on its first path.
fn left(program: &Busy) -> Option<u64> {
    device_bytes(&device_table(program)?, 8)
}

fn device_table(program: &Busy) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/net/dev", program.0.id())).ok()
}

/// A column of the kernel's device table.
fn device_bytes(table: &str, column: usize) -> Option<u64> {
    let title = format!("{}:", named::device(0));
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&title))?;
    line.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// A program on a host, with priority over other programs, because the links are measured.
fn program(name: &Name, end: End, program: &str) -> Command {
    let mut command = name.command(end, "nice");
    command.args(["-n", "-15", program]);
    command
}

/// Extracts the times in ms from lines like `64 bytes from 10.1.1.1: icmp_seq=1 ttl=64 time=2.57 ms`.
fn round_trips(said: &str) -> Vec<f64> {
    let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse().ok();
    said.lines().filter_map(time).collect()
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
        format!("the program `{program}` is not installed; it is in Debian's package {package}")
    } else {
        format!("`{program}` failed: {words}")
    }))
}

/// A program that is killed when this value is dropped.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_ping_and_the_kernel_is_parsed() {
        let said = "PING 10.1.1.1\n64 bytes from 10.1.1.1: icmp_seq=1 ttl=64 time=2.57 ms\nrtt min/avg\n";
        assert_eq!(round_trips(said), [2.57]);
        let table = "Inter-|   Receive\n face |bytes    packets\n    lo:     100      1\n path10: 5 1\n path1:245539241  163707 0 0 0 0 0 0 1449 20\n";
        assert_eq!(device_bytes(table, 0), Some(245_539_241));
        assert_eq!(device_bytes(table, 8), Some(1_449));
        assert_eq!(device_bytes("    lo: 100 1\n", 0), None);
    }
}
