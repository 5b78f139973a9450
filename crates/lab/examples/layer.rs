//! Measures what the scenario layer costs: one bulk flow over a dumbbell, as a scenario file describes it and as Rust code
//! builds it (`crates/sim/src/bin/dumbbell.rs`). Both are the same simulation: they deliver the same bytes.
//!
//! `layer [turns=800] [seconds=2]` runs both in turn, the first of a turn being the second of the next, and prints one line of JSON:
//! the number of packet events of a run, and the CPU seconds that each run took. `cargo xtask bench sim` runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_lab::scenario;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Protocol};
use braidftp_sim::topology::{self, Dumbbell};
use braidftp_sim::{LinkConfig, World};
use rustix::time::{ClockId, clock_gettime};

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
    let (mut turns, mut seconds) = (800, 2);
    for arg in std::env::args().skip(1) {
        let number = |value: &str| value.parse().map_err(|_| format!("`{arg}` has no whole number"));
        match arg.split_once('=') {
            Some(("turns", value)) => turns = number(value)?,
            Some(("seconds", value)) => seconds = number(value)?,
            _ => return Err(format!("`{arg}` is not known: turns=, seconds=")),
        }
    }
    let Alternation { events, by_file, by_hand } = alternate(turns, seconds)?;
    println!("{{\"events\":{events},\"by_file\":{by_file:?},\"by_hand\":{by_hand:?}}}");
    Ok(())
}

/// The runs of both.
struct Alternation {
    /// The packet events of a run.
    events: u64,
    /// The CPU seconds of each run that the file describes.
    by_file: Vec<f64>,
    /// The CPU seconds of each run in Rust.
    by_hand: Vec<f64>,
}

/// Runs both in each turn. It is an error if they deliver different numbers of bytes.
fn alternate(turns: u64, seconds: u64) -> Result<Alternation, String> {
    let text = format!("lasts = \"{seconds} s\"\n{SCENARIO}");
    let scenario = scenario::parse("layer", &text).map_err(|error| error.to_string())?;
    let sweep = scenario.figure.sweep().ok_or("a scenario is a sweep")?;
    let point = sweep.points().swap_remove(0);
    let mut runs = Alternation { events: 0, by_file: Vec::new(), by_hand: Vec::new() };
    let from_file = || timed(|| Ok((sweep.run)(&point, 1).0[0]));
    let from_code = || timed(|| by_hand(seconds));
    for turn in 0..turns {
        let (file, code) = if turn % 2 == 0 {
            let file = from_file()?;
            (file, from_code()?)
        } else {
            let code = from_code()?;
            (from_file()?, code)
        };
        let (goodput, (bytes, events)) = (file.0, code.0);
        let expected = bytes as f64 * 8.0 / seconds as f64;
        if goodput != expected {
            return Err(format!("the simulations differ: {goodput} and {expected} bit/s"));
        }
        runs.events = events;
        runs.by_file.push(file.1);
        runs.by_hand.push(code.1);
    }
    Ok(runs)
}

/// Runs this; returns its result and the CPU seconds that it took.
fn timed<T>(run: impl FnOnce() -> Result<T, String>) -> Result<(T, f64), String> {
    let began = on_core();
    let result = run()?;
    Ok((result, on_core() - began))
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
fn on_core() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_scenario_file_and_the_same_code_deliver_the_same_bytes() {
        super::alternate(2, 2).unwrap();
    }
}
