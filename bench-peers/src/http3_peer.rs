//! Files over HTTP/3, by h3 and quinn: the server and the client of `cargo xtask bench links`.
//!
//! ```text
//! http3_peer serve ADDRESS:PORT FOLDER    [cc=cubic|bbr]    answers GET with the files of a folder
//! http3_peer fetch ADDRESS:PORT LIST COPY [cc=cubic|bbr]    fetches the files named in LIST, one a line, into COPY
//! ```
//! The client has one connection and as many requests at once as `curl --parallel-max 100`. Both ends have no cache
//! and no ranges. The certificate is made up and not verified: this measures a transport.

mod quic;

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::{Request, Response, StatusCode};
use quic::{Congestion, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

/// The protocol that both ends name (RFC 9114 §3.1).
const ALPN: &[u8] = b"h3";
/// The most requests at once.
const REQUESTS: usize = 100;
/// The bytes that are read from a file at a time.
const BLOCK_BYTES: usize = 64 << 10;

type Requests = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;
type Answer = h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let congestion = match args.iter().find_map(|arg| arg.strip_prefix("cc=")) {
        Some(name) => name.parse()?,
        None => Congestion::Cubic,
    };
    let words: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.contains('=')).collect();
    match *words.as_slice() {
        ["serve", local, folder] => serve(local.parse()?, folder.into(), congestion).await,
        ["fetch", peer, list, copy] => {
            let list = std::fs::read_to_string(list)?;
            fetch(peer.parse()?, list.lines(), copy.into(), congestion).await
        }
        _ => Err("usage: http3_peer serve ADDRESS:PORT FOLDER | fetch ADDRESS:PORT LIST COPY [cc=cubic|bbr]"
            .into()),
    }
}

async fn serve(local: SocketAddr, folder: PathBuf, congestion: Congestion) -> Result<()> {
    let endpoint = quic::server(local, ALPN, congestion)?;
    let folder = Arc::new(folder);
    while let Some(incoming) = endpoint.accept().await {
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            // A connection that fails is reported; the server goes on.
            if let Err(error) = connection(incoming, folder).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

async fn connection(incoming: quinn::Incoming, folder: Arc<PathBuf>) -> Result<()> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let mut connection = h3::server::Connection::<_, Bytes>::new(connection).await?;
    while let Some(resolver) = connection.accept().await? {
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            let answered = async {
                let (request, stream) = resolver.resolve_request().await?;
                answer(&request, stream, &folder).await
            };
            if let Err(error) = answered.await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

/// Sends the file that a request names, or 404.
async fn answer(request: &Request<()>, mut stream: Answer, folder: &Path) -> Result<()> {
    let name = Path::new(request.uri().path().trim_start_matches('/'));
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    let file = if plain { tokio::fs::File::open(folder.join(name)).await.ok() } else { None };
    let Some(mut file) = file else {
        stream.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?;
        return Ok(stream.finish().await?);
    };
    let length = file.metadata().await?.len();
    stream.send_response(Response::builder().header("content-length", length).body(())?).await?;
    loop {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        if file.read_buf(&mut block).await? == 0 {
            return Ok(stream.finish().await?);
        }
        stream.send_data(block.into()).await?;
    }
}

async fn fetch<'a>(
    peer: SocketAddr,
    names: impl Iterator<Item = &'a str>,
    copy: PathBuf,
    congestion: Congestion,
) -> Result<()> {
    let endpoint = quic::client(SocketAddr::from(([0, 0, 0, 0], 0)), ALPN, congestion)?;
    let connection = endpoint.connect(peer, "localhost")?.await?;
    let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let driver = tokio::spawn(async move { driver.wait_idle().await });
    let slots = Arc::new(Semaphore::new(REQUESTS));
    let mut fetches = Vec::new();
    for name in names {
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let (name, path, requests) = (name.to_owned(), copy.join(name), requests.clone());
        fetches.push(tokio::spawn(async move {
            let fetched = fetch_one(peer, &name, &path, requests).await;
            drop(slot);
            fetched.map_err(|error| format!("{name}: {error}"))
        }));
    }
    for fetch in fetches {
        fetch.await??;
    }
    // Exits at once, as curl does: the closing period of QUIC (RFC 9000 §10.2) is no part of the transfer.
    driver.abort();
    Ok(())
}

async fn fetch_one(peer: SocketAddr, name: &str, path: &Path, mut requests: Requests) -> Result<()> {
    let request = Request::get(format!("https://{peer}/{name}")).body(())?;
    let mut stream = requests.send_request(request).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status()).into());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = tokio::fs::File::create(path).await?;
    while let Some(mut data) = stream.recv_data().await? {
        while data.has_remaining() {
            let bytes = data.chunk();
            file.write_all(bytes).await?;
            let written = bytes.len();
            data.advance(written);
        }
    }
    file.flush().await?;
    Ok(())
}
