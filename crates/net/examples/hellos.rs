//! A flood of TLS handshakes against a server of protected associations on this host: each association shows a ClientHello, makes
//! the server sign, trusts nobody, and is aborted.
//!
//! ```text
//! hellos SERVER:PORT COUNT [NETWORKS [AT_ONCE]]
//! ```
//! COUNT handshakes are begun from NETWORKS networks of 127/8 (default 8), AT_ONCE of each at a time (default 8). Prints how many
//! the server answered and how many it refused, and the rate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use braidftp_net::keys::rustls::pki_types::ServerName;
use braidftp_net::keys::rustls::{ClientConfig, RootCertStore};
use braidftp_net::keys::{Settings, provider};
use braidftp_net::{Bind, Connect, Endpoint, Profile, Reason};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The SCTP port of an FTP server.
const PORT: u16 = 21;
/// How long a handshake may take before it counts as unanswered.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [server, count, more @ ..] = &args[..] else {
        return Err("usage: hellos SERVER:PORT COUNT [NETWORKS [AT_ONCE]]".into());
    };
    let (server, count): (SocketAddr, u64) = (server.parse()?, count.parse()?);
    let number = |at: usize| more.get(at).map_or(Ok(8), |text| text.parse::<u8>());
    let (networks, at_once) = (number(0)?, number(1)?);
    let tls = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let settings = Arc::new(Settings::client(Arc::new(tls), ServerName::try_from("server.example")?));
    let (counts, start) = (Arc::new(Counts::default()), Instant::now());
    let mut tasks = tokio::task::JoinSet::new();
    for network in 1..=networks {
        let endpoint = Arc::new(Endpoint::bind(Bind::to([SocketAddr::from(([127, 3, network, 1], 0))]))?);
        for _ in 0..at_once {
            let (endpoint, settings, counts) = (endpoint.clone(), settings.clone(), counts.clone());
            tasks.spawn(async move {
                while counts.begun.fetch_add(1, Ordering::Relaxed) < count {
                    handshake(&endpoint, server, &settings, &counts).await;
                }
            });
        }
    }
    while tasks.join_next().await.is_some() {}
    let seconds = start.elapsed().as_secs_f64();
    let (answered, refused) =
        (counts.answered.load(Ordering::Relaxed), counts.refused.load(Ordering::Relaxed));
    println!(
        "{count} handshakes from {networks} networks in {seconds:.1} s: {answered} answered ({:.0} a second), {refused} refused, {} \
         unanswered",
        answered as f64 / seconds,
        count.saturating_sub(answered + refused)
    );
    Ok(())
}

async fn handshake(endpoint: &Endpoint, server: SocketAddr, settings: &Arc<Settings>, counts: &Counts) {
    let mut connect = Connect::to([server], PORT);
    connect.config = Arc::new(Profile::Modern.config());
    let Ok(association) = endpoint.connect_protected(connect, settings.clone()) else { return };
    match tokio::time::timeout(PATIENCE, association.up()).await {
        // This side trusts nobody, once the server has answered.
        Ok(Err(Reason::PeerAborted(_))) => _ = counts.refused.fetch_add(1, Ordering::Relaxed),
        Ok(_) => _ = counts.answered.fetch_add(1, Ordering::Relaxed),
        Err(_) => association.abort("it takes too long"),
    }
}
