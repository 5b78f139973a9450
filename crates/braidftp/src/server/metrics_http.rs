//! The address of `--metrics`: serves `GET /metrics` over HTTP/1.1 with the text of [`super::metrics`].
//!
//! A scraper that sends nothing, or stops reading, is disconnected after [`WITHIN`]; at most [`SCRAPERS_MAX`]
//! are served concurrently, and others wait in the kernel's queue.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;

use crate::http::{self, Content, Rules, words};

/// The maximum duration of a connection.
pub(crate) const WITHIN: Duration = Duration::from_secs(10);
/// The maximum number of concurrent connections.
pub(crate) const SCRAPERS_MAX: usize = 8;

const TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Serves scrapers, for ever.
pub(super) async fn serve(listener: TcpListener, text: impl Fn() -> String + Send + Sync + 'static) {
    let rules = Rules { places: SCRAPERS_MAX, within: WITHIN, client: "a scraper of metrics" };
    http::serve(listener, rules, move |request| answer(request, &text)).await;
}

fn answer(request: &Request<Incoming>, text: &impl Fn() -> String) -> Response<Content> {
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut response = Response::new(Content::Whole(text().into()));
            response.headers_mut().insert(CONTENT_TYPE, TYPE);
            response
        }
        (_, "/metrics") => words(StatusCode::METHOD_NOT_ALLOWED, "GET /metrics\n"),
        _ => words(StatusCode::NOT_FOUND, "GET /metrics\n"),
    }
}
