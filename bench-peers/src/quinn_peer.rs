//! One QUIC stream, as fast as it goes: quinn beside ours in `cargo xtask bench loopback`.
//!
//! ```text
//! quinn_peer recv LOCAL_UDP          [OPTION=VALUE]...    waits for one connection, reads one stream
//! quinn_peer send LOCAL_UDP PEER_UDP [OPTION=VALUE]...    connects, sends
//! ```
//! LOCAL_UDP and PEER_UDP are ports of 127.0.0.1, or addresses with a port.
//!
//! Options: `bytes` (0), `message` (65536 bytes a write). At the end one line of JSON. The certificate is made up and
//! not verified: this measures a transport.

mod quic;

use std::net::SocketAddr;
use std::time::Instant;

use quic::{Congestion, Result};

/// The protocol that both ends name.
const ALPN: &[u8] = b"blast";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move { tokio::spawn(async move { run(&args).await }).await? })
}

async fn run(args: &[String]) -> Result<()> {
    let option = |name: &str, otherwise: usize| {
        let value = args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        value.map_or(Ok(otherwise), str::parse)
    };
    let words: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.contains('=')).collect();
    match *words.as_slice() {
        ["recv", local] => {
            let endpoint = quic::server(address(local)?, ALPN, Congestion::Cubic)?;
            println!("listening");
            let connection = endpoint.accept().await.ok_or("the endpoint is gone")?.await?;
            let mut stream = connection.accept_uni().await?;
            let (mut bytes, mut began, mut ended) = (0, None, None);
            while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
                bytes += chunk.bytes.len();
                began.get_or_insert_with(Instant::now);
                ended = Some(Instant::now());
            }
            connection.close(0u32.into(), b"done");
            endpoint.wait_idle().await;
            report(bytes, began.zip(ended))
        }
        ["send", local, peer] => {
            let endpoint = quic::client(address(local)?, ALPN, Congestion::Cubic)?;
            let connection = endpoint.connect(address(peer)?, "localhost")?.await?;
            let bytes = option("bytes", 0)?;
            let payload = vec![7; option("message", 65_536)?];
            let began = Instant::now();
            let mut stream = connection.open_uni().await?;
            let mut left = bytes;
            while left > 0 {
                let len = payload.len().min(left);
                stream.write_all(&payload[..len]).await?;
                left -= len;
            }
            stream.finish()?;
            connection.closed().await;
            let ended = Instant::now();
            endpoint.wait_idle().await;
            report(bytes, Some((began, ended)))
        }
        _ => Err("usage: quinn_peer recv LOCAL_UDP | send LOCAL_UDP PEER_UDP [OPTION=VALUE]...".into()),
    }
}

/// An address with a port, or a port of 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr> {
    let port = || Ok(SocketAddr::from(([127, 0, 0, 1], text.parse()?)));
    text.parse().or_else(|_| port())
}

fn report(bytes: usize, span: Option<(Instant, Instant)>) -> Result<()> {
    let seconds = span.map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
    println!(
        "{{\"bytes\":{bytes},\"seconds\":{seconds:.6},\"cpu_seconds\":{:.3},\"peak_kib\":{}}}",
        cpu_seconds()?,
        peak_kib()?
    );
    Ok(())
}

/// User and system time of this process (proc(5): fields 14 and 15, in hundredths of a second).
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}

fn peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0))
}
