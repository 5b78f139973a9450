//! A flood of TLS handshakes against an FTP server on this host, over SCTP or TCP: each connection sends a ClientHello, which makes
//! the server sign, and nothing more.
//!
//! ```text
//! hellos sctp|tcp SERVER:PORT COUNT [NETWORKS [AT_ONCE]]
//! ```
//! COUNT handshakes are begun from NETWORKS networks of 127/8 (default 8), AT_ONCE of each at a time (default 8). The last ones of
//! each stay open; earlier ones the server has to end. Over TCP they begin with AUTH TLS. Prints how many ClientHellos were sent, how
//! many connections the server refused, and the rate.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use braidftp_net::keys::Method;
use braidftp_net::sctp::DtlsConfig;
use braidftp_net::sctp::dtls::{FIRST_EPOCH, KEY_MANAGEMENT_PPID, Roles};
use braidftp_net::{Association, Bind, Config, Connect, Endpoint, Message, Ppid, Profile, StreamId};
use braidftp_sim::attack::hello::client_hello;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The SCTP port of an FTP server.
const PORT: u16 = 21;
/// Time limit for a connection to send its ClientHello.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that each task leaves open; those of all tasks together exceed the server's limit.
const LEFT_OPEN: usize = 12;

#[derive(Debug, Clone, Copy)]
enum Transport {
    Sctp,
    Tcp,
}

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: hellos sctp|tcp SERVER:PORT COUNT [NETWORKS [AT_ONCE]]";
    let [transport, server, count, more @ ..] = &args[..] else { return Err(usage.into()) };
    let transport = match transport.as_str() {
        "sctp" => Transport::Sctp,
        "tcp" => Transport::Tcp,
        _ => return Err(usage.into()),
    };
    let (server, count): (SocketAddr, u64) = (server.parse()?, count.parse()?);
    let number = |at: usize| more.get(at).map_or(Ok(8), |text| text.parse::<u8>());
    let (networks, at_once) = (number(0)?, number(1)?);
    let (counts, start) = (Arc::new(Counts::default()), Instant::now());
    let mut tasks = tokio::task::JoinSet::new();
    for network in 1..=networks {
        let from = SocketAddr::from(([127, 3, network, 1], 0));
        let endpoint = Arc::new(Endpoint::bind(Bind::to([from]))?);
        for _ in 0..at_once {
            let (endpoint, counts) = (endpoint.clone(), counts.clone());
            tasks.spawn(async move {
                let (mut associations, mut streams) = (VecDeque::new(), VecDeque::new());
                while counts.begun.fetch_add(1, Ordering::Relaxed) < count {
                    let sent = match transport {
                        Transport::Sctp => {
                            let begun = timeout(PATIENCE, over_sctp(&endpoint, server)).await;
                            leave_open(&mut associations, begun.ok().flatten())
                        }
                        Transport::Tcp => {
                            let begun = timeout(PATIENCE, over_tcp(from, server)).await;
                            leave_open(&mut streams, begun.ok().and_then(std::io::Result::ok))
                        }
                    };
                    let counter = if sent { &counts.sent } else { &counts.refused };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
    while tasks.join_next().await.is_some() {}
    let seconds = start.elapsed().as_secs_f64();
    let (sent, refused) = (counts.sent.load(Ordering::Relaxed), counts.refused.load(Ordering::Relaxed));
    println!(
        "{count} handshakes from {networks} networks in {seconds:.1} s: {sent} ClientHellos sent ({:.0} a second), {refused} connections \
         refused before",
        sent as f64 / seconds,
    );
    Ok(())
}

/// Keeps a connection open for a while. Returns whether the argument is one.
fn leave_open<T>(open: &mut VecDeque<T>, begun: Option<T>) -> bool {
    let is_begun = begun.is_some();
    open.extend(begun);
    if open.len() > LEFT_OPEN {
        open.pop_front();
    }
    is_begun
}

async fn over_sctp(endpoint: &Endpoint, server: SocketAddr) -> Option<Association> {
    let methods = Method::ALL.map(Method::identifier).to_vec();
    let dtls = DtlsConfig { roles: Roles::Client, methods, ..DtlsConfig::default() };
    let config: Config = Profile::Modern.config().with(|c| c.security.dtls = Some(dtls));
    let connect = Connect { config: Arc::new(config), ..Connect::to([server], PORT) };
    // Nobody drives its keys.
    let association = endpoint.connect(connect).ok()?;
    association.up().await.ok()?;
    let hello = [&[FIRST_EPOCH as u8][..], &client_hello()].concat();
    association.send(StreamId(0), Message::new(Ppid(KEY_MANAGEMENT_PPID), hello)).await.ok()?;
    Some(association)
}

async fn over_tcp(from: SocketAddr, server: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(from)?;
    let mut stream = socket.connect(server).await?;
    expect(&mut stream, b"220").await?;
    stream.write_all(b"AUTH TLS\r\n").await?;
    expect(&mut stream, b"234").await?;
    stream.write_all(&client_hello()).await?;
    Ok(stream)
}

/// Reads a reply of one line with this code.
async fn expect(stream: &mut TcpStream, code: &[u8]) -> std::io::Result<()> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.push(stream.read_u8().await?);
    }
    if line.starts_with(code) { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}
