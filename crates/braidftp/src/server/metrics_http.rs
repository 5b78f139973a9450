//! The address of `--metrics`: answers `GET /metrics`, over HTTP/1.1, with what [`super::metrics`] has.
//!
//! A scraper that says nothing, or stops reading, is cut off after [`WITHIN`]; no more than [`SCRAPERS_MAX`] are answered at once,
//! and the others wait in the kernel's queue.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long a connection may last.
pub(crate) const WITHIN: Duration = Duration::from_secs(10);
/// Connections at once.
pub(crate) const SCRAPERS_MAX: usize = 8;
/// Bytes of a request's head.
const HEAD_BYTES: usize = 8 << 10;

const TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Answers scrapers, for ever.
pub(super) async fn serve(listener: TcpListener, text: impl Fn() -> String + Send + Sync + 'static) {
    let (places, text) = (Arc::new(Semaphore::new(SCRAPERS_MAX)), Arc::new(text));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a scraper");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let text = text.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(&request, &*text);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut http = http1::Builder::new();
            http.keep_alive(false).max_buf_size(HEAD_BYTES);
            let served = timeout(WITHIN, http.serve_connection(TokioIo::new(stream), service)).await;
            if served.is_err() {
                tracing::info!("a scraper of metrics took too long; cut off");
            }
            drop(place);
        });
    }
}

fn answer(request: &Request<Incoming>, text: &impl Fn() -> String) -> Response<Full<Bytes>> {
    let told = |status: StatusCode, words: &'static str| {
        let mut response = Response::new(Full::from(words));
        *response.status_mut() = status;
        response
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut response = Response::new(Full::from(text()));
            response.headers_mut().insert(CONTENT_TYPE, TYPE);
            response
        }
        (_, "/metrics") => told(StatusCode::METHOD_NOT_ALLOWED, "GET /metrics\n"),
        _ => told(StatusCode::NOT_FOUND, "GET /metrics\n"),
    }
}
