//! One association, as fast as it goes: the sender and the receiver of `cargo xtask bench loopback` and `bench core`.
//!
//! ```text
//! blast recv LOCAL_UDP          [OPTION=VALUE]...    waits for one association, reads, says what came
//! blast send LOCAL_UDP PEER_UDP [OPTION=VALUE]...    connects, sends
//! ```
//! LOCAL_UDP and PEER_UDP are ports of 127.0.0.1, or addresses with a port.
//!
//! Options: `carrier` (udp; ip: protocol 132, with the right to raw sockets), `port` (SCTP, 5001), `bytes` (0), `message` (65536
//! bytes), `fragments` (filling; or even, full), `mtu` (1452), `profile` (modern), `cc` (the
//! profile's; as in `bbr:version=1`), `threads` (0: one thread for all; else the workers of the runtime), `buffer` (bytes, both
//! directions; the profile's), `stats` (0; 1 prints the association's numbers to stderr), `pcap` (a file), `pause` (ms before
//! the receiver reads), `trust` (a file: the association is protected; the receiver writes its certificate there, and the sender
//! trusts it). At the end one line of JSON.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braidftp_cc::Choice;
use braidftp_net::keys::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use braidftp_net::keys::rustls::{ClientConfig, RootCertStore, ServerConfig};
use braidftp_net::keys::{Settings, provider};
use braidftp_net::sctp::Fragments;
use braidftp_net::{Bind, Carrier, Config, Connect, Endpoint, Message, Ppid, Profile, StreamId};
use bytes::Bytes;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The maximum number of pieces of messages that are read at once.
const PIECES: usize = 64;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let threads: usize = option(&args, "threads", 0)?;
    let mut runtime = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 0 {
        runtime.worker_threads(threads);
    }
    let runtime = runtime.enable_all().build()?;
    // As a task of the runtime, beside the endpoint's, not on the thread of `block_on`.
    let outcome = runtime.block_on(async move {
        tokio::spawn(async move { run(&args).await.map_err(|error| error.to_string()) }).await
    });
    outcome?.map_err(Into::into)
}

async fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.contains('=')).collect();
    let profile: Profile = option(args, "profile", "modern".to_owned())?.parse()?;
    let mut config: Config = profile.config();
    if args.iter().any(|arg| arg.starts_with("cc=")) {
        let choice: Choice =
            option(args, "cc", String::new())?.parse().map_err(|error| format!("{error}"))?;
        choice.apply(&mut config.congestion.control, &mut config.congestion.options);
    }
    config.messages.fragments = match option(args, "fragments", "filling".to_owned())?.as_str() {
        "full" => Fragments::Full,
        "even" => Fragments::Even,
        "filling" => Fragments::Filling,
        other => return Err(format!("fragments={other}: full, even or filling").into()),
    };
    config.path_mtu.packet_bytes = option(args, "mtu", config.path_mtu.packet_bytes)?;
    config.memory.receive_buffer_bytes = option(args, "buffer", config.memory.receive_buffer_bytes)?;
    config.memory.send_buffer_bytes = option(args, "buffer", config.memory.send_buffer_bytes)?;
    let config = Arc::new(config);
    let port = option(args, "port", 5001)?;
    match *words.as_slice() {
        ["recv", local] => {
            let endpoint = bind(args, local)?;
            let trust = option(args, "trust", String::new())?;
            let listener = match trust.as_str() {
                "" => endpoint.listen(port, config)?,
                file => endpoint.listen_protected(port, config, Arc::new(server(file)?))?,
            };
            println!("listening");
            let association = listener.accept().await.ok_or("the endpoint is gone")?;
            let pause = Duration::from_millis(option(args, "pause", 0)?);
            tokio::time::sleep(pause).await;
            let (mut bytes, mut began, mut ended) = (0, None, None);
            let mut pieces = Vec::new();
            while association.recv_many(&mut pieces, PIECES).await? > 0 {
                bytes += pieces.drain(..).map(|(_, piece)| piece.len()).sum::<usize>();
                began.get_or_insert_with(Instant::now);
                ended = Some(Instant::now());
            }
            let stats = association.stats();
            let reason = association.shutdown().await;
            endpoint.close().await;
            report(args, &stats, bytes, began.zip(ended))?;
            if reason == braidftp_net::Reason::Shutdown { Ok(()) } else { Err(reason.to_string().into()) }
        }
        ["send", local, peer] => {
            let endpoint = bind(args, local)?;
            let peer = vec![address(peer)?];
            let connect = Connect { local: vec![], peer, source_port: None, destination_port: port, config };
            let trust = option(args, "trust", String::new())?;
            let association = match trust.as_str() {
                "" => endpoint.connect(connect)?,
                file => endpoint.connect_protected(connect, Arc::new(client(file)?))?,
            };
            let bytes: usize = option(args, "bytes", 0)?;
            let size = option(args, "message", 65_536)?;
            let payload = Bytes::from((0..size).map(|at| (at * 7 + at / 251) as u8).collect::<Vec<u8>>());
            association.up().await?;
            let began = Instant::now();
            let mut left = bytes;
            while left > 0 {
                let payload = payload.slice(..size.min(left));
                left -= payload.len();
                association.send(StreamId(0), Message::new(Ppid(0), payload)).await?;
            }
            let ended = Instant::now();
            association.start_shutdown();
            let reason = association.closed().await;
            let stats = association.stats();
            drop(association);
            endpoint.close().await;
            report(args, &stats, bytes, Some((began, ended)))?;
            if reason == braidftp_net::Reason::Shutdown { Ok(()) } else { Err(reason.to_string().into()) }
        }
        _ => Err("usage: blast recv LOCAL_UDP | send LOCAL_UDP PEER_UDP [OPTION=VALUE]...".into()),
    }
}

/// Creates a self-signed certificate, writes it to a file, and returns the server's settings.
fn server(file: &str) -> Result<Settings> {
    let made = rcgen::generate_simple_self_signed(vec!["blast.example".into()])?;
    let certificate = made.cert.der().clone();
    std::fs::write(file, &certificate)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let tls = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(Settings::server(Arc::new(tls)))
}

/// Returns the settings of a client that trusts the certificate in a file.
fn client(file: &str) -> Result<Settings> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(file)?))?;
    let tls = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Settings::client(Arc::new(tls), ServerName::try_from("blast.example")?))
}

/// An address with a port, or a port of 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr> {
    let port = || Ok(SocketAddr::from(([127, 0, 0, 1], text.parse()?)));
    text.parse().or_else(|_| port())
}

fn bind(args: &[String], local: &str) -> Result<Endpoint> {
    let carrier = match option(args, "carrier", "udp".to_owned())?.as_str() {
        "udp" => Carrier::Udp,
        "ip" => Carrier::Ip,
        other => return Err(format!("carrier: `{other}` is neither udp nor ip").into()),
    };
    let mut bind = Bind { carrier, ..Bind::to([address(local)?]) };
    let pcap = option(args, "pcap", String::new())?;
    bind.pcap = (!pcap.is_empty()).then(|| pcap.into());
    Ok(Endpoint::bind(bind)?)
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

fn report(
    args: &[String],
    stats: &braidftp_net::Stats,
    bytes: usize,
    span: Option<(Instant, Instant)>,
) -> Result<()> {
    if option(args, "stats", 0)? == 1 {
        eprintln!("{stats:#?}");
    }
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
