//! `braidlab link`: relays UDP packets through an emulated link. Needs no root.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use braidftp_emu::link::Counters;
use braidftp_emu::{LinkConfig, Relay, RelayConfig, RelayError, RelayHandle};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::Failure;

/// Relay UDP packets over an emulated link until Ctrl-C; then print counters as JSON.
///
/// Packets that clients send to --listen are forwarded to --to after loss, queue, rate and delay, in this
/// order. Answers return through a separate link with the same properties. The same seed treats the same
/// packets in the same way.
///
/// Example: braidlab link --listen 127.0.0.1:7000 --to 127.0.0.1:9899 --rate 3mbit --delay 1ms --loss 0.03
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment, allow_negative_numbers = true)]
pub(crate) struct Args {
    /// The address that clients send to, as HOST:PORT; port 0 binds any free port
    #[arg(long, value_name = "UDP")]
    listen: String,
    /// The destination of their packets, as HOST:PORT
    #[arg(long, value_name = "UDP")]
    to: String,
    /// Bits per second: 256kbit, 3mbit, 1.5gbit, or bytes: 20MB. With changes over time:
    /// 3mbit:1mbit@10s:5mbit@20s [default: unlimited]
    #[arg(long, value_name = "RATE[:RATE@TIME...]")]
    rate: Option<String>,
    /// A recorded link: a file with the millisecond of each opportunity to send 1,504 bytes, one per line
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    trace: Option<String>,
    /// One-way delay: 1ms, 35ms, 0.5s, 200us [default: 0ms]
    #[arg(long)]
    delay: Option<String>,
    /// The maximum additional delay, without reordering [default: 0ms]
    #[arg(long, value_name = "DURATION")]
    jitter: Option<String>,
    /// The probability that a packet is lost: 0.03 or 3% [default: 0]
    #[arg(long, value_name = "P", conflicts_with = "burst_loss")]
    loss: Option<String>,
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of a usage text")]
    /// Loss in bursts (Gilbert-Elliott): the probabilities that the link becomes bad, that it becomes good
    /// again, and that a packet passes in the good [1] and in the bad state [0]
    #[arg(long, value_name = "P,R[,K,H]")]
    burst_loss: Option<String>,
    /// The queue limit, beyond which packets are dropped: bytes (500kB), packets (100p), or packets besides
    /// the one being sent (99w) [default: 500kB]
    #[arg(long)]
    queue: Option<String>,
    /// The queue length from which ECN-capable packets are marked: 30kB, 20p
    #[arg(long, value_name = "QUEUE")]
    ecn: Option<String>,
    /// Random early detection, as in 5p:15p:0.1:0.002:gentle:mark
    #[arg(long, value_name = "MIN:MAX[:P[:W]][:gentle][:mark]", conflicts_with = "codel")]
    red: Option<String>,
    /// CoDel, as in 5ms:100ms:mark, or `default` for 5ms:100ms
    #[arg(long, value_name = "TARGET:INTERVAL[:mark]")]
    codel: Option<String>,
    /// Outages of the link after the start, as in 10s-12s:20s-25s
    #[arg(long, value_name = "FROM-TO[:FROM-TO...]", conflicts_with = "flap")]
    down: Option<String>,
    /// Periodic outages: the link is down at the end of each period, as in 10s:500ms
    #[arg(long, value_name = "PERIOD:DOWN")]
    flap: Option<String>,
    /// The probability that a packet is delayed so that later ones overtake it, and the delay [default: 0,
    /// 10ms]
    #[arg(long, value_name = "P[,EXTRA]")]
    reorder: Option<String>,
    /// The probability that a packet is duplicated [default: 0]
    #[arg(long, value_name = "P")]
    duplicate: Option<String>,
    /// The probability that one bit of a packet is flipped [default: 0]
    #[arg(long, value_name = "P")]
    corrupt: Option<String>,
    /// Bytes that a packet takes on the wire beyond its UDP payload [default: 28, or 48 if --to is IPv6]
    #[arg(long, value_name = "BYTES")]
    overhead: Option<String>,
    /// The maximum packet length on the wire in bytes, at least 68; longer packets are dropped silently
    /// [default: unlimited]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<String>,
    /// Properties of the direction from clients to --to only, as in loss=0.1,lose=0:7 (packets number 0 and
    /// 7)
    #[arg(long, value_name = "KEY=VALUE,...")]
    forward: Option<String>,
    /// Properties of the return direction only, as in rate=256kbit,delay=10ms
    #[arg(long, value_name = "KEY=VALUE,...")]
    back: Option<String>,
    /// The seed of all random decisions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write incoming and outgoing packets to this file (pcapng)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Stop after this many seconds
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<f64>,
}

/// The counters printed at the end.
#[derive(Serialize)]
struct Report<'a> {
    listen: SocketAddr,
    to: SocketAddr,
    seed: u64,
    seconds: f64,
    clients: u64,
    refused: u64,
    unsent: u64,
    late_mean_us: f64,
    late_max_us: f64,
    forward: Direction,
    back: Direction,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcap: Option<&'a PathBuf>,
}

#[derive(Serialize)]
pub(crate) struct Direction {
    config: String,
    #[serde(rename = "in")]
    packets_in: u64,
    #[serde(rename = "out")]
    packets_out: u64,
    dropped_loss: u64,
    dropped_down: u64,
    dropped_queue: u64,
    dropped_early: u64,
    dropped_mtu: u64,
    marked: u64,
    duplicated: u64,
    corrupted: u64,
    reordered: u64,
    queued: u64,
    queue_peak_bytes: u64,
    bytes_in: u64,
    bytes_out: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = relay_config(args)?;
    let time_limit = args.seconds.map(time_limit).transpose()?;
    let mut signals = Signals::new()?;
    let relay = Relay::spawn(config.clone()).map_err(|error| match error {
        RelayError::Pcap { .. } => Failure::File(error.to_string()),
        _ => Failure::Connect(error.to_string()),
    })?;
    eprintln!(
        "braidlab: link listens on {}, to {}; forward {}; back {}; seed {}; Ctrl-C ends it",
        relay.local_addr(),
        config.to,
        config.forward,
        config.back,
        config.seed
    );
    let started = Instant::now();
    signals.wait(time_limit);
    report(args, &config, relay, started.elapsed())
}

fn report(args: &Args, config: &RelayConfig, relay: RelayHandle, ran: Duration) -> Result<(), Failure> {
    let listen = relay.local_addr();
    let counters = relay.stop();
    let report = Report {
        listen,
        to: config.to,
        seed: config.seed,
        seconds: ran.as_secs_f64(),
        clients: counters.clients,
        refused: counters.refused,
        unsent: counters.unsent,
        late_mean_us: counters.late.mean().as_nanos() as f64 / 1e3,
        late_max_us: counters.late.max.as_nanos() as f64 / 1e3,
        forward: direction(&config.forward, counters.forward),
        back: direction(&config.back, counters.back),
        pcap: args.pcap.as_ref(),
    };
    let line = serde_json::to_string(&report).map_err(|error| Failure::File(error.to_string()))?;
    writeln!(std::io::stdout(), "{line}")
        .map_err(|error| Failure::File(format!("cannot write the counters to standard output: {error}")))?;
    match counters.pcap_error {
        None => Ok(()),
        Some(error) => Err(Failure::File(format!("the capture file is incomplete: {error}"))),
    }
}

pub(crate) fn direction(config: &LinkConfig, counters: Counters) -> Direction {
    Direction {
        config: config.to_string(),
        packets_in: counters.packets_in,
        packets_out: counters.packets_out,
        dropped_loss: counters.dropped_loss,
        dropped_down: counters.dropped_down,
        dropped_queue: counters.dropped_queue,
        dropped_early: counters.dropped_early,
        dropped_mtu: counters.dropped_mtu,
        marked: counters.marked,
        duplicated: counters.duplicated,
        corrupted: counters.corrupted,
        reordered: counters.reordered,
        queued: counters.queued,
        queue_peak_bytes: counters.queue_peak_bytes,
        bytes_in: counters.bytes_in,
        bytes_out: counters.bytes_out,
    }
}

fn relay_config(args: &Args) -> Result<RelayConfig, Failure> {
    let to = address("--to", &args.to)?;
    if to.port() == 0 {
        return Err(Failure::Usage("--to needs a port other than 0".into()));
    }
    let mut both = LinkConfig::default();
    if to.is_ipv6() {
        both.overhead_bytes = 48;
    }
    for (key, value) in [
        ("rate", &args.rate),
        ("trace", &args.trace),
        ("delay", &args.delay),
        ("jitter", &args.jitter),
        ("loss", &args.loss),
        ("burst-loss", &args.burst_loss),
        ("queue", &args.queue),
        ("ecn", &args.ecn),
        ("red", &args.red),
        ("codel", &args.codel),
        ("down", &args.down),
        ("flap", &args.flap),
        ("reorder", &args.reorder),
        ("duplicate", &args.duplicate),
        ("corrupt", &args.corrupt),
        ("overhead", &args.overhead),
        ("mtu", &args.mtu),
    ] {
        if let Some(value) = value {
            both.set_reading(key, value, &braidftp_emu::read_trace)
                .map_err(|error| Failure::Usage(format!("--{key}: {error}")))?;
        }
    }
    let (mut forward, mut back) = (both.clone(), both);
    for (option, link, text) in
        [("--forward", &mut forward, &args.forward), ("--back", &mut back, &args.back)]
    {
        if let Some(text) = text {
            link.apply_reading(text, &braidftp_emu::read_trace)
                .map_err(|error| Failure::Usage(format!("{option}: {error}")))?;
        }
    }
    let listen = address("--listen", &args.listen)?;
    Ok(RelayConfig {
        forward,
        back,
        seed: args.seed,
        pcap: args.pcap.clone(),
        ..RelayConfig::new(listen, to)
    })
}

fn address(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    let mut found = text.to_socket_addrs().map_err(|error| {
        let what = format!("{option}: `{}` is not an address: {error}", text.escape_debug());
        match error.kind() {
            std::io::ErrorKind::InvalidInput => {
                Failure::Usage(format!("{what}; write HOST:PORT, as in 127.0.0.1:7000 or [::1]:7000"))
            }
            _ => Failure::Connect(what),
        }
    })?;
    found
        .next()
        .ok_or_else(|| Failure::Connect(format!("{option}: `{}` has no address", text.escape_debug())))
}

fn time_limit(seconds: f64) -> Result<Duration, Failure> {
    let limit =
        Duration::try_from_secs_f64(seconds).ok().filter(|limit| *limit <= Duration::from_secs(31_536_000));
    limit.ok_or_else(|| {
        Failure::Usage(format!("--for: {seconds} is not a number of seconds from 0 to a year"))
    })
}

/// SIGINT and SIGTERM, handled from here on, so that neither kills the program before it prints its report.
pub(crate) struct Signals {
    runtime: tokio::runtime::Runtime,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let cannot = |error: std::io::Error| Failure::Connect(format!("cannot wait for signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let guard = runtime.enter();
        let interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        let terminate = signal(SignalKind::terminate()).map_err(cannot)?;
        drop(guard);
        Ok(Self { runtime, interrupt, terminate })
    }

    /// Waits for a signal or the time limit. Returns whether a signal arrived.
    pub(crate) fn wait(&mut self, time_limit: Option<Duration>) -> bool {
        self.runtime.block_on(async {
            let over = async {
                match time_limit {
                    Some(limit) => tokio::time::sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => true,
                _ = self.terminate.recv() => true,
                () = over => false,
            }
        })
    }
}
