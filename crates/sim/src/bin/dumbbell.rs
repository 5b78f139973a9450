//! Measures the speed of the simulator: bulk flows over a dumbbell, and packet events per second and core.
//!
//! `dumbbell [tcp|sctp] [seconds=60] [pairs=1] [rate=100mbit] [delay=10ms] [queue=100p]` prints one line of
//! JSON. A packet event is one of: a packet is passed to a link; its last bit is sent; it leaves the link.
//! Each pair has access links of 1 Gbit/s and 1 ms. `cargo xtask bench sim` runs this program and an ns-3
//! program with the same setup.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Protocol};
use braidftp_sim::topology::{self, Dumbbell};
use braidftp_sim::{LinkConfig, World};
use braidftp_tcp as tcp;

/// Both buffers of a flow, in bytes: larger than the bottleneck with its queue.
const BUFFER: usize = 2 << 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dumbbell: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let (mut name, mut seconds, mut pairs) = ("tcp".to_owned(), 60_u64, 1_usize);
    let mut bottleneck = link("rate=100mbit,delay=10ms,queue=100p")?;
    for arg in std::env::args().skip(1) {
        let number = |value: &str| value.parse().map_err(|_| format!("`{arg}` has no whole number"));
        match arg.split_once('=') {
            None if arg == "tcp" || arg == "sctp" => name = arg,
            Some(("seconds", value)) => seconds = number(value)?,
            Some(("pairs", value)) => pairs = number(value)? as usize,
            Some((key @ ("rate" | "delay" | "queue"), value)) => {
                bottleneck.set(key, value).map_err(|error| error.to_string())?;
            }
            _ => {
                return Err(format!(
                    "`{arg}` is not known: tcp or sctp, seconds=, pairs=, rate=, delay=, queue="
                ));
            }
        }
    }
    if !(1..=1_000).contains(&pairs) {
        return Err("there are 1 to 1000 pairs".to_owned());
    }
    let protocol = protocol(&name);
    let mut world = World::new(1);
    let [left, right] = topology::dumbbell_addresses(pairs);
    let access = link("rate=1gbit,delay=1ms,queue=1000p")?;
    topology::dumbbell(&mut world, &left, &right, &Dumbbell::of(pairs, &access, &bottleneck));
    let mut readers = Vec::new();
    for (number, (left, right)) in left.into_iter().zip(right).enumerate() {
        let [from, to] = [left, right].map(|ip| SocketAddr::new(ip, 0));
        let [sender, reader] = bulk::flow(&protocol, from, to, number as u64);
        world.add_host(sender, [left]);
        readers.push(world.add_host(reader, [right]));
    }
    let began = on_core()?;
    world.run_until(Time::ZERO + Duration::from_secs(seconds));
    let took = on_core()? - began;
    let read: u64 = readers.iter().map(|host| world.host(*host).app().bytes_read()).sum();
    let events = world.packet_events();
    let dropped: u64 = world.links().map(|link| link.counters().dropped()).sum();
    println!(
        "{{\"protocol\":\"{name}\",\"virtual_seconds\":{seconds},\"pairs\":{pairs},\"bytes\":{read},\"dropped\":{dropped},\
         \"events\":{events},\"seconds\":{took:.6},\"fingerprint\":{}}}",
        world.fingerprint()
    );
    Ok(())
}

/// The CPU time of this single-threaded process in seconds, which excludes other load on the machine.
fn on_core() -> Result<f64, String> {
    let file = "/proc/self/schedstat";
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {file}, which Linux has: {error}"))?;
    let nanos: u64 = text
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or("schedstat is not as Linux has it")?;
    Ok(nanos as f64 / 1e9)
}

fn link(text: &str) -> Result<LinkConfig, String> {
    let mut config = LinkConfig { overhead_bytes: 20, ..LinkConfig::default() };
    config.apply(text).map_err(|error| error.to_string())?;
    Ok(config)
}

fn protocol(name: &str) -> Protocol {
    if name == "sctp" {
        let buffers = sctp::Profile::Rfc9260.config().with(|c| {
            c.memory.send_buffer_bytes = BUFFER;
            c.memory.receive_buffer_bytes = BUFFER;
        });
        return Protocol::Sctp(Arc::new(buffers));
    }
    // As in ns-3: segments of 1,448 bytes with timestamps, SACK, an acknowledgement for every second segment.
    let config = tcp::Config {
        send_buffer_bytes: BUFFER,
        receive_buffer_bytes: BUFFER,
        window_scaling: true,
        timestamps: true,
        ..tcp::Profile::SackLtAbc.config()
    };
    Protocol::Tcp(Arc::new(config))
}
