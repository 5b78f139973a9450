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

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The maximum number of bytes in flight, as in `braidftp`'s profile `modern`.
const WINDOW_BYTES: u32 = 8 << 20;

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
            let key = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
            let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
            let mut tls = rustls::ServerConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(vec![key.cert.into()], private.into())?;
            tls.alpn_protocols = vec![b"blast".to_vec()];
            let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
            config.transport_config(transport());
            let endpoint = quinn::Endpoint::server(config, address(local)?)?;
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
            let mut tls = rustls::ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone))
                .with_no_client_auth();
            tls.alpn_protocols = vec![b"blast".to_vec()];
            let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
            config.transport_config(transport());
            let mut endpoint = quinn::Endpoint::client(address(local)?)?;
            endpoint.set_default_client_config(config);
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

fn transport() -> Arc<quinn::TransportConfig> {
    let mut transport = quinn::TransportConfig::default();
    transport
        .send_window(WINDOW_BYTES.into())
        .receive_window(WINDOW_BYTES.into())
        .stream_receive_window(WINDOW_BYTES.into());
    Arc::new(transport)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts any certificate.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
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
