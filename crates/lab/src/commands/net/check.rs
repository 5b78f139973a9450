//! `braidlab net check`: is a net as fast and as slow as it says? Measured by programs that know nothing of it: `ping`
//! for the time, `iperf3` and the kernel's count of what arrives for the rate.

use std::fmt::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use braidftp_emu::named::{self, End, Name};
use braidftp_lab::stats::quantile;

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
/// With less than this part of its rate nothing is known of a link's.
const SATURATED: f64 = 0.9;
const PINGS: usize = 100;
/// Of an IP packet of 1,500 bytes, UDP carries so many.
const UDP_PAYLOAD: &str = "1472";
/// The rate is the median of those of so many times as long as this, as is what may be expected: the link's, or what the
/// sender came to send beside other programs, if that was less.
const WINDOWS: usize = 7;
const WINDOW: Duration = Duration::from_millis(400);
/// More than iperf3 says before it begins.
const BEGUN_BYTES: u64 = 20_000;
/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tries nets of several rates; every one must keep its promise.
pub(super) fn run() -> Result<(), Failure> {
    let name: Name = format!("check-{}", std::process::id()).parse().map_err(Failure::Usage)?;
    let mut table = String::from(
        "link                                     round trip, median of ping   rate of what arrives (iperf3, UDP)\n",
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
        "not within {TIMING_MS} ms and {} %: is something else busy on this machine?",
        RATE * 100.0
    )))
}

struct Measured {
    round_trip_ms: f64,
    expected_ms: f64,
    /// Bits of IP packets a second.
    rate: f64,
    expected_rate: f64,
    /// What the link is to carry.
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
        return Err(Failure::Connect(format!("of {PINGS} pings over {link} only {} came back", trips.len())));
    }

    let busy = |end, words: &[&str]| {
        let mut command = program(name, end, "iperf3");
        let child = command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().map_err(|error| Failure::Usage(format!("cannot run iperf3: {error}")))?;
        Ok::<Busy, Failure>(Busy(child))
    };
    let receiver = busy(End::Server, &["--server"])?;
    // A tenth more than the link carries, so that it is never without a packet.
    let rate = format!("{:.0}", bits * 1.1);
    let words = ["--client", &server, "--udp", "--length", UDP_PAYLOAD, "--time", "60", "--bitrate", &rate];
    let started = Instant::now();
    let mut sender = busy(End::Client, &words)?;
    // The one may not have listened yet when the other began.
    while arrived(&receiver).is_none_or(|bytes| bytes < BEGUN_BYTES) {
        if started.elapsed() > PATIENCE {
            return Err(Failure::Connect("iperf3 sends nothing: is Debian's package iperf3 here?".into()));
        }
        std::thread::sleep(Duration::from_millis(100));
        if !matches!(sender.0.try_wait(), Ok(None)) {
            sender = busy(End::Client, &words)?;
        }
    }
    // The queue fills, and the first packets are through.
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

/// Bytes that came to the host of a program by its first path, as its kernel counted them. A program may be kept from
/// reading by others, and its socket overflow; the device does not.
fn arrived(program: &Busy) -> Option<u64> {
    device_bytes(&device_table(program)?, 0)
}

/// Bytes that left the host of a program by its first path.
fn left(program: &Busy) -> Option<u64> {
    device_bytes(&device_table(program)?, 8)
}

fn device_table(program: &Busy) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/net/dev", program.0.id())).ok()
}

/// A column of the kernel's table of devices.
fn device_bytes(table: &str, column: usize) -> Option<u64> {
    let title = format!("{}:", named::device(0));
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&title))?;
    line.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// A program on a host. It goes before other programs of a busy machine: the links are what is measured.
fn program(name: &Name, end: End, program: &str) -> Command {
    let mut command = name.command(end, "nice");
    command.args(["-n", "-15", program]);
    command
}

/// The times, in ms, of `64 bytes from 10.1.1.1: icmp_seq=1 ttl=64 time=2.57 ms`.
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
        format!("the program `{program}` is not here; it is in Debian's package {package}")
    } else {
        format!("`{program}` failed: {words}")
    }))
}

/// A program that is not to outlive this one.
struct Busy(Child);

impl Drop for Busy {
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
    fn what_ping_and_the_kernel_say_is_read() {
        let said = "PING 10.1.1.1\n64 bytes from 10.1.1.1: icmp_seq=1 ttl=64 time=2.57 ms\nrtt min/avg\n";
        assert_eq!(round_trips(said), [2.57]);
        let table = "Inter-|   Receive\n face |bytes    packets\n    lo:     100      1\n path10: 5 1\n path1:245539241  163707 0 0 0 0 0 0 1449 20\n";
        assert_eq!(device_bytes(table, 0), Some(245_539_241));
        assert_eq!(device_bytes(table, 8), Some(1_449));
        assert_eq!(device_bytes("    lo: 100 1\n", 0), None);
    }
}
