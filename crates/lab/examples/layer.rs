//! Measures what the scenario layer costs: one bulk flow over a dumbbell, as a scenario file describes it and as Rust code
//! builds it (`crates/sim/src/bin/dumbbell.rs`). Both are the same simulation: they deliver the same bytes.
//!
//! `layer [rounds=5] [seconds=40]` alternates both and prints one line of JSON: the median of the ratios of their speeds. Time
//! is the CPU time of this process, which excludes other load on the machine. `cargo xtask bench sim` runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_lab::scenario;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Protocol};
use braidftp_sim::topology::{self, Dumbbell};
use braidftp_sim::{LinkConfig, World};

/// Both buffers of the flow, in bytes: larger than the bottleneck with its queue.
const BUFFER: usize = 2 << 20;

/// The scenario, without its duration.
const SCENARIO: &str = r#"
title = "A dumbbell"
measure = ["goodput"]
[links]
left = { rate = "1 Gbit/s", delay = "1 ms", queue = "1000 packets" }
core = { rate = "100 Mbit/s", delay = "10 ms", queue = "100 packets" }
right = { rate = "1 Gbit/s", delay = "1 ms", queue = "1000 packets" }
[[path]]
via = ["left", "core", "right"]
[transports]
t = { protocol = "sctp", profile = "rfc9260", send-buffer = "2 MiB", receive-buffer = "2 MiB" }
[[workload]]
kind = "bulk"
transport = "t"
"#;

fn main() -> Result<(), String> {
    let (mut rounds, mut seconds) = (5, 40);
    for arg in std::env::args().skip(1) {
        let number = |value: &str| value.parse().map_err(|_| format!("`{arg}` has no whole number"));
        match arg.split_once('=') {
            Some(("rounds", value)) => rounds = number(value)?,
            Some(("seconds", value)) => seconds = number(value)?,
            _ => return Err(format!("`{arg}` is not known: rounds=, seconds=")),
        }
    }
    let (mut ratios, mut speeds) = alternate(rounds, seconds)?;
    println!(
        "{{\"ratio\":{:.4},\"least\":{:.4},\"most\":{:.4},\"events_per_second\":{:.0}}}",
        median(&mut ratios),
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(0.0, f64::max),
        median(&mut speeds)
    );
    Ok(())
}

/// Runs both in each round; returns the ratios of their speeds, and the scenario's events per second. It is an error if they deliver
/// different numbers of bytes.
fn alternate(rounds: u64, seconds: u64) -> Result<(Vec<f64>, Vec<f64>), String> {
    let text = format!("lasts = \"{seconds} s\"\n{SCENARIO}");
    let scenario = scenario::parse("layer", &text).map_err(|error| error.to_string())?;
    let sweep = scenario.figure.sweep().ok_or("a scenario is a sweep")?;
    let point = sweep.points().swap_remove(0);
    let (mut ratios, mut speeds) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = on_core()?;
        let row = (sweep.run)(&point, 1);
        let between = on_core()?;
        let (bytes, events) = by_hand(seconds)?;
        let ended = on_core()?;
        let goodput = bytes as f64 * 8.0 / seconds as f64;
        if row.0[0] != goodput {
            return Err(format!("the simulations differ: {} and {goodput} bit/s", row.0[0]));
        }
        let [by_file, by_hand] = [between - began, ended - between].map(|took| events as f64 / took);
        ratios.push(by_file / by_hand);
        speeds.push(by_file);
    }
    Ok((ratios, speeds))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the bytes that arrive, and the number of packet events.
fn by_hand(seconds: u64) -> Result<(u64, u64), String> {
    let config = sctp::Profile::Rfc9260.config().with(|c| {
        c.memory.send_buffer_bytes = BUFFER;
        c.memory.receive_buffer_bytes = BUFFER;
    });
    let mut world = World::new(1);
    let [left, right] = topology::dumbbell_addresses(1);
    let access = link("rate=1gbit,delay=1ms,queue=1000p")?;
    let bottleneck = link("rate=100mbit,delay=10ms,queue=100p")?;
    topology::dumbbell(&mut world, &left, &right, &Dumbbell::of(1, &access, &bottleneck));
    let [from, to] = [left[0], right[0]].map(|ip| SocketAddr::new(ip, 0));
    let [sender, reader] = bulk::flow(&Protocol::Sctp(Arc::new(config)), from, to, 0);
    world.add_host(sender, [left[0]]);
    let reader = world.add_host(reader, [right[0]]);
    world.run_until(Time::ZERO + Duration::from_secs(seconds));
    let host = world.host(reader);
    Ok((host.app().bytes_arrived(host.endpoint()), world.packet_events()))
}

fn link(text: &str) -> Result<LinkConfig, String> {
    let mut config = LinkConfig { overhead_bytes: 20, ..LinkConfig::default() };
    config.apply(text).map_err(|error| error.to_string())?;
    Ok(config)
}

/// The CPU time of this single-threaded process in seconds.
fn on_core() -> Result<f64, String> {
    let file = "/proc/self/schedstat";
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let nanos = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    nanos.map(|nanos| nanos as f64 / 1e9).ok_or_else(|| format!("{file} is not as Linux has it"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_scenario_file_and_the_same_code_deliver_the_same_bytes() {
        super::alternate(1, 2).unwrap();
    }
}
