//! Measures what a flood of forged packets costs an established association: goodput with and without the flood, in alternating
//! rounds, the endpoint's answers, and its memory.
//!
//! ```text
//! flood [OPTION=VALUE]...
//! ```
//! Options: `kind` (`init`; `cookie`: COOKIE ECHO chunks that were never sealed; `data`: DATA of no association), `count`
//! (1000000, over all rounds with a flood), `rate` (50000 a second), `rounds` (5), `direction` (`in`: the flooded side
//! receives the data; `out`: it sends them), `offered` (Mbit/s that the association has to send, 1000; 0: as much as it
//! can), `profile` (modern), `port` (UDP, 29899).
//!
//! Each round has three parts of equal length: the association alone; the same packets sent to a socket without a reader,
//! because sending the flood costs CPU time too; and the flood. The result is the median of the third part divided by the
//! median of the second. With `offered=0` the CPU is the bottleneck, and the result is the share of it that is left.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use braidftp_net::{Association, Bind, Connect, Endpoint, Message, Ppid, Profile, StreamId};
use bytes::Bytes;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The listening SCTP port.
const PORT: u16 = 21;
/// The number of sockets of the flood, each with its own address.
const SOURCES: u32 = 64;
/// The size of the association's messages.
const MESSAGE_BYTES: usize = 65_536;
/// Packets sent between two reads of the clock.
const BURST: u64 = 16;

/// The results of one part of a round.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Received bytes per second.
    goodput: f64,
    /// Forged packets sent per second.
    flood: f64,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let kind = option(&args, "kind", "init".to_owned())?;
    let count: u64 = option(&args, "count", 1_000_000)?;
    let rate: u64 = option(&args, "rate", 50_000)?;
    let rounds: u64 = option(&args, "rounds", 5)?;
    let direction = option(&args, "direction", "in".to_owned())?;
    let offered: u64 = option(&args, "offered", 1_000)?;
    let profile: Profile = option(&args, "profile", "modern".to_owned())?.parse()?;
    let port: u16 = option(&args, "port", 29_899)?;
    if !["init", "cookie", "data"].contains(&kind.as_str()) || !["in", "out"].contains(&direction.as_str()) {
        return Err("kind is init, cookie or data; direction is in or out".into());
    }
    let target = SocketAddr::from(([127, 0, 0, 1], port));
    let config = Arc::new(profile.config());
    let arrived = Arc::new(AtomicU64::new(0));
    let pace =
        (offered > 0).then(|| Duration::from_secs_f64((MESSAGE_BYTES * 8) as f64 / (offered as f64 * 1e6)));

    let (ready, when_ready) = std::sync::mpsc::channel();
    let server = {
        let (config, arrived, receives) = (Arc::clone(&config), Arc::clone(&arrived), direction == "in");
        on_a_thread(move || async move {
            let endpoint = Endpoint::bind(Bind::to([target]))?;
            let listener = endpoint.listen(PORT, config)?;
            ready.send(endpoint.clone())?;
            let association = listener.accept().await.ok_or("the endpoint is gone")?;
            if receives { receive(association, &arrived).await } else { send(association, pace).await }
        })
    };
    let flooded = when_ready.recv()?;
    let client = {
        let (arrived, sends) = (Arc::clone(&arrived), direction == "in");
        on_a_thread(move || async move {
            let endpoint = Endpoint::bind(Bind::to([([127, 0, 0, 1], 0).into()]))?;
            let connect = Connect {
                local: vec![],
                peer: vec![target],
                source_port: None,
                destination_port: PORT,
                config,
            };
            let association = endpoint.connect(connect)?;
            association.up().await?;
            if sends { send(association, pace).await } else { receive(association, &arrived).await }
        })
    };
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    let sources: Vec<UdpSocket> = (0..SOURCES)
        .map(|n| UdpSocket::bind((Ipv4Addr::from(0x7f01_0101 + n), 0)))
        .collect::<std::io::Result<_>>()?;
    let mut forger = Forger { sources, kind, rng: 1 };

    // Let the transfer reach its rate.
    std::thread::sleep(Duration::from_secs(1));
    let part_count = count / rounds.max(1);
    let length = Duration::from_secs_f64(part_count as f64 / rate as f64);
    let (before, counters_before) = (resident_bytes(), flooded.counters());
    println!(
        "{:>5} {:>15} {:>15} {:>15} {:>12} {:>12}",
        "round", "quiet MB/s", "aside MB/s", "flooded MB/s", "forged/s", "resident kB"
    );
    let (mut aside, mut attacked, mut quiet) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut part = |to: Option<SocketAddr>| -> Result<Part> {
            let (began, at_first) = (Instant::now(), arrived.load(Ordering::Relaxed));
            let sent = match to {
                None => {
                    std::thread::sleep(length);
                    0
                }
                Some(to) => forger.flood(to, part_count, rate)?,
            };
            let seconds = began.elapsed().as_secs_f64();
            let bytes = arrived.load(Ordering::Relaxed) - at_first;
            Ok(Part { goodput: bytes as f64 / seconds / 1e6, flood: sent as f64 / seconds })
        };
        let parts = [part(None)?, part(Some(sink.local_addr()?))?, part(Some(target))?];
        println!(
            "{round:>5} {:>15.1} {:>15.1} {:>15.1} {:>12.0} {:>12}",
            parts[0].goodput,
            parts[1].goodput,
            parts[2].goodput,
            parts[2].flood,
            resident_bytes() / 1_000
        );
        std::io::stdout().flush()?;
        quiet.push(parts[0].goodput);
        aside.push(parts[1].goodput);
        attacked.push(parts[2].goodput);
    }
    let (after, counters) = (resident_bytes(), flooded.counters());
    let (quiet, aside, attacked) = (median(quiet), median(aside), median(attacked));
    println!(
        "median: {quiet:.1} MB/s quiet, {aside:.1} with the flood aside, {attacked:.1} flooded: {:.1} % of aside, {:.1} % of quiet",
        attacked / aside * 100.0,
        attacked / quiet * 100.0
    );
    println!(
        "forged {}; of INITs {} came, of cookies {}, out of the blue {}, answers dropped {}; resident {} kB before, {} after",
        part_count * rounds,
        counters.inits - counters_before.inits,
        counters.forged_cookies - counters_before.forged_cookies,
        counters.out_of_the_blue - counters_before.out_of_the_blue,
        counters.answers_dropped - counters_before.answers_dropped,
        before / 1_000,
        after / 1_000
    );
    drop((server, client));
    Ok(())
}

/// Runs a future on a thread with its own runtime.
fn on_a_thread<F: Future<Output = Result<()>>>(
    body: impl FnOnce() -> F + Send + 'static,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Err(error) = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(body())) {
            eprintln!("flood: {error}");
            std::process::exit(1);
        }
    })
}

/// Sends a message every `pace`; without a pace, whenever the send buffer has room.
async fn send(association: Association, pace: Option<Duration>) -> Result<()> {
    let payload = Bytes::from(vec![7; MESSAGE_BYTES]);
    let mut ticks = pace.map(tokio::time::interval);
    loop {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        association.send(StreamId(0), Message::new(Ppid(0), payload.clone())).await?;
    }
}

async fn receive(association: Association, arrived: &AtomicU64) -> Result<()> {
    while let Some((_, piece)) = association.recv_any().await? {
        arrived.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Builds forged packets.
struct Forger {
    sources: Vec<UdpSocket>,
    kind: String,
    rng: u64,
}

impl Forger {
    /// Sends `count` packets at `rate` per second. Returns the number that the kernel accepted.
    fn flood(&mut self, to: SocketAddr, count: u64, rate: u64) -> Result<u64> {
        let began = Instant::now();
        let mut sent = 0;
        for number in 0..count {
            let packet = self.packet();
            let socket = &self.sources[(number % self.sources.len() as u64) as usize];
            sent += u64::from(socket.send_to(&packet, to).is_ok());
            if number % BURST == 0 {
                let due = Duration::from_secs_f64(number as f64 / rate as f64);
                if let Some(early) = due.checked_sub(began.elapsed()) {
                    std::thread::sleep(early);
                }
            }
        }
        Ok(sent)
    }

    fn next(&mut self) -> u32 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        (self.rng >> 16) as u32
    }

    fn packet(&mut self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(160);
        packet.extend_from_slice(&(1_024 + self.next() as u16 % 60_000).to_be_bytes());
        packet.extend_from_slice(&PORT.to_be_bytes());
        // The tag of a packet with INIT is 0; the checksum is filled in below.
        let tag = if self.kind == "init" { 0 } else { self.next() | 1 };
        packet.extend_from_slice(&tag.to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        match self.kind.as_str() {
            "init" => {
                packet.extend_from_slice(&[1, 0, 0, 20]);
                packet.extend_from_slice(&(self.next() | 1).to_be_bytes());
                packet.extend_from_slice(&131_072_u32.to_be_bytes());
                packet.extend_from_slice(&[0, 5, 0, 5]);
                packet.extend_from_slice(&self.next().to_be_bytes());
            }
            "cookie" => {
                packet.extend_from_slice(&[10, 0, 0, 100]);
                (0..24).for_each(|_| packet.extend_from_slice(&self.next().to_be_bytes()));
            }
            _ => {
                packet.extend_from_slice(&[0, 3, 0, 20]);
                packet.extend_from_slice(&self.next().to_be_bytes());
                packet.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0]);
                packet.extend_from_slice(&self.next().to_be_bytes());
            }
        }
        let checksum = crc32c(&packet);
        packet[8..12].copy_from_slice(&checksum.to_le_bytes());
        packet
    }
}

/// CRC32c (RFC 9260 appendix A), bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() * 1_000
}

fn option<T: std::str::FromStr>(args: &[String], name: &str, otherwise: T) -> Result<T>
where
    T::Err: std::error::Error + 'static,
{
    let value = args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
    value.map_or(Ok(otherwise), |value| {
        value.parse().map_err(|error: T::Err| format!("{name}: {error}").into())
    })
}
