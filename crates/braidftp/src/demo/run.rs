//! Runs one mode of the demo: server, link, client, comparison.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use braidftp_emu::tun::{Net, TunConfig};
use braidftp_emu::{LinkConfig, Relay, RelayConfig};
use braidftp_ftp::Mode;

use super::tree;
use crate::client::Login;
use crate::client::{Options, Protection, default_profile};
use crate::exit::{Error, Exit, Result};
use crate::identity::{Files, KnownHosts, ServerIdentity, Trust};
use crate::job::{Caller, Delete, Job, Mirror, MirrorDown, Record, mirror_down};
use crate::progress::{Reporter, Style};
use crate::server::{self, Handle, Listen, Server, Settings};
use crate::store::fs::{Durability, Root};
use crate::url::Url;

/// The port of the TCP server, in a namespace without other programs.
const TCP_PORT: u16 = 2121;
/// The silence that ends a mode.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of listed differences.
const DIFFERENCES: usize = 5;

/// The outcome of a mode.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It ran.
    Ran(Ran),
    /// The system does not permit it here; the reason.
    LeftOut(String),
}

/// A mode that ran.
#[derive(Debug)]
pub(super) struct Ran {
    /// The time from the first packet to the last file.
    pub(super) seconds: Duration,
    /// The completion time of each file.
    pub(super) finished: Vec<Duration>,
    /// Packets that entered the link, both directions together.
    pub(super) packets: u64,
    /// Chunks or segments retransmitted by both sides, if known.
    pub(super) retransmitted: Option<u64>,
    /// Connections or associations opened.
    pub(super) opened: u64,
    /// The differences between the copy and the tree.
    pub(super) differences: Vec<String>,
}

/// Runs one mode.
pub(super) fn mode(
    mode: Mode,
    source: &Path,
    copy: &Path,
    link: &LinkConfig,
    seed: u64,
    runtime: &tokio::runtime::Runtime,
) -> Result<Outcome> {
    let mut ran = match mode {
        Mode::Tcp => match tcp(source, copy, link, seed)? {
            Outcome::Ran(ran) => ran,
            left_out => return Ok(left_out),
        },
        _ => runtime.block_on(sctp(mode, source, copy, link, seed))?,
    };
    ran.differences = tree::differences(source, copy, DIFFERENCES)
        .map_err(|e| Error::local(format_args!("compare with {}", copy.display()), &e))?;
    Ok(Outcome::Ran(ran))
}

async fn sctp(mode: Mode, source: &Path, copy: &Path, link: &LinkConfig, seed: u64) -> Result<Ran> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    // The papers' modes are not protected, as in the papers.
    let identity = if mode == Mode::Braid { Some(identity()?) } else { None };
    let protection = identity.as_ref().map_or(Protection::Plain, |identity| pinned(identity));
    let server = serve(source, Listen::SctpUdp(vec![any]), mode, identity)?;
    let Some(Listen::SctpUdp(addresses)) = server.local_addrs().into_iter().next() else {
        return Err(Error::new(Exit::Local, "start the server", "it has no address"));
    };
    let Some(to) = addresses.first().copied() else {
        return Err(Error::new(Exit::Local, "start the server", "it has no address"));
    };
    let endpoints = server.endpoints();
    let handle = server.handle();
    let serving = tokio::spawn(server.run());
    let relay = Relay::spawn(RelayConfig {
        forward: link.clone(),
        back: link.clone(),
        seed,
        ..RelayConfig::new(any, to)
    })
    .map_err(|error| Error::new(Exit::Local, "start the link", error))?;
    let url = format!("ftp+sctp://{}/", relay.local_addr()).parse()?;
    let result = transfer(url, mode, protection, copy.to_owned()).await;
    let counters = relay.stop();
    let retransmitted: u64 = endpoints.iter().map(|endpoint| endpoint.totals().retransmitted_chunks).sum();
    drop(endpoints);
    handle.abort();
    let _ = serving.await;
    let moved = result?;
    Ok(Ran {
        packets: counters.forward.packets_in + counters.back.packets_in,
        retransmitted: Some(retransmitted + moved.retransmitted),
        ..moved.ran
    })
}

/// Runs kernel TCP in namespaces of this process.
fn tcp(source: &Path, copy: &Path, link: &LinkConfig, seed: u64) -> Result<Outcome> {
    let config = TunConfig { forward: link.clone(), back: link.clone(), seed, ..TunConfig::default() };
    let net = match Net::up(config) {
        Ok(net) => net,
        Err(why) => return Ok(Outcome::LeftOut(why.to_string())),
    };
    let (started, start) = std::sync::mpsc::channel::<Result<Handle>>();
    let tree = source.to_owned();
    let serving = net.server().spawn(move || {
        let served = alone().and_then(|runtime| {
            runtime.block_on(async {
                let listen = Listen::Tcp(SocketAddr::from((Net::SERVER, TCP_PORT)));
                let server = serve(&tree, listen, Mode::Tcp, None)?;
                // The receiver of the handle still exists.
                let _ = started.send(Ok(server.handle()));
                server.run().await;
                Ok(())
            })
        });
        if let Err(error) = served {
            let _ = started.send(Err(error));
        }
        resent()
    });
    let gone = |_| Error::new(Exit::Local, "start the server", "its thread has ended");
    let handle = start.recv().map_err(gone)??;
    let to = copy.to_owned();
    let (result, resent_by_client) = net.client().run(move || {
        let result = alone().and_then(|runtime| {
            let url: Url = format!("ftp://{}:{TCP_PORT}/", Net::SERVER).parse()?;
            runtime.block_on(transfer(url, Mode::Tcp, Protection::Plain, to))
        });
        (result, resent())
    });
    handle.abort();
    let resent_by_server = serving.join();
    let counters = net.down();
    let moved = result?;
    Ok(Outcome::Ran(Ran {
        packets: counters.forward.packets_in + counters.back.packets_in,
        retransmitted: resent_by_client.zip(resent_by_server).map(|(client, server)| client + server),
        ..moved.ran
    }))
}

/// A runtime whose threads are all in this thread's namespace.
fn alone() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::local("start a runtime", &error))
}

/// The segments that the kernel retransmitted in this thread's namespace (`RetransSegs` of RFC 4022).
fn resent() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let at = lines.next()?.split(' ').position(|name| name == "RetransSegs")?;
    lines.next()?.split(' ').nth(at)?.parse().ok()
}

/// A key for a single server.
fn identity() -> Result<Arc<ServerIdentity>> {
    let folder = tempfile::tempdir().map_err(|e| Error::local("make a temporary folder", &e))?;
    ServerIdentity::load_or_make(Files::one(folder.path().join(Files::NAME)), &[])
}

/// A client that trusts only this server.
fn pinned(server: &ServerIdentity) -> Protection {
    let known_hosts = KnownHosts::at("/dev/null");
    Protection::Required(Arc::new(Trust { pins: vec![server.fingerprint()], ..Trust::new(known_hosts) }))
}

fn serve(tree: &Path, listen: Listen, mode: Mode, identity: Option<Arc<ServerIdentity>>) -> Result<Server> {
    let root = Root::open(tree).map_err(|error| Error::store(&error))?;
    let settings = Settings {
        sctp: default_profile(mode).config(),
        durability: Durability::None,
        protection: server::Protection { identity, ..server::Protection::default() },
        ..Settings::default()
    };
    Server::builder(root)
        .listen(listen)
        .settings(settings)
        .bind()
        .map_err(|error| Error::new(Exit::Local, "start the server", error))
}

struct Moved {
    ran: Ran,
    /// Chunks retransmitted by the client.
    retransmitted: u64,
}

async fn transfer(url: Url, mode: Mode, protection: Protection, to: PathBuf) -> Result<Moved> {
    let reporter = Reporter::new(Style::Quiet, mode);
    reporter.remember_finished();
    let job = Job {
        url,
        login: Login::anonymous(),
        options: Options { timeout: TIMEOUT, protection, ..Options::new(mode) },
        retries: 3,
        retry_for: None,
        reporter: reporter.clone(),
        record: Record::default(),
        caller: Caller::Command,
    };
    let mirror = Mirror::all(Delete::No)?;
    let down = MirrorDown { mirror, to };
    let (summary, result) = job.run("demo", |client| mirror_down(client, job.clone(), down.clone())).await;
    result?;
    let totals = job.record.totals();
    Ok(Moved {
        ran: Ran {
            seconds: summary.seconds,
            finished: reporter.finished(),
            packets: 0,
            retransmitted: None,
            opened: totals.opened,
            differences: Vec::new(),
        },
        retransmitted: totals.retransmitted,
    })
}
