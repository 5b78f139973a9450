//! A small HTTP/1.1 server for local programs and users: the address of `--metrics` and the page of
//! `--dashboard`.
//!
//! A client must send its request within [`HEAD_WITHIN`]; a connection is closed after [`Rules::within`]. At
//! most [`Rules::places`] connections are served concurrently, and others wait in the kernel's queue. Each
//! connection has one response.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// The time limit for a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// The maximum size of a request's head in bytes.
const HEAD_BYTES: usize = 8 << 10;
/// The kernel's send buffer for a client, in bytes.
const SEND_BYTES: usize = 64 << 10;

/// The limits for the clients of an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The number of concurrent connections.
    pub(crate) places: usize,
    /// The maximum duration of a connection.
    pub(crate) within: Duration,
    /// The name of a client in log lines.
    pub(crate) client: &'static str,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Content {
    /// Complete.
    Whole(Bytes),
    /// Parts as they become available, until the sender is dropped.
    Live(mpsc::Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Live(parts) => parts.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Live(_) => SizeHint::default(),
        }
    }
}

/// A response with this text.
pub(crate) fn words(status: StatusCode, words: &'static str) -> Response<Content> {
    let mut response = Response::new(Content::Whole(Bytes::from_static(words.as_bytes())));
    *response.status_mut() = status;
    response
}

/// Serves clients for ever.
pub(crate) async fn serve(
    listener: TcpListener,
    rules: Rules,
    answer: impl Fn(&Request<Incoming>) -> Response<Content> + Send + Sync + 'static,
) {
    let (places, answer) = (Arc::new(Semaphore::new(rules.places)), Arc::new(answer));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept {}", rules.client);
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BYTES);
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(&request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
            http.keep_alive(false).max_buf_size(HEAD_BYTES);
            let served = timeout(rules.within, http.serve_connection(TokioIo::new(stream), service)).await;
            if served.is_err() || served.is_ok_and(|served| served.is_err_and(|error| error.is_timeout())) {
                tracing::info!("{} took too long; cut off", rules.client);
            }
            drop(place);
        });
    }
}
