//! The page of `--dashboard`: sessions, transfers, and for each network path the rate, RTT, congestion window
//! and loss of the last minutes.
//!
//! `GET /` is a self-contained HTML file; `GET /events` are server-sent events: `all` with the samples so
//! far, then `now` each second. A sample is taken each second whether or not there is a reader, for a bounded
//! number of sessions, transfers and paths. A slow reader misses samples. Each connection is closed after
//! [`WITHIN`], and a browser reconnects.
//!
//! Everybody who can reach the address can read names of users and files, so it must be an address of this
//! machine unless the operator permits others ([`DashboardArgs::dashboard_anywhere`]). A page of another site
//! cannot read the dashboard through a browser: a request must name the host by an address or as `localhost`,
//! which protects against DNS rebinding, and must not come from another site.

mod history;
mod now;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::http::{self, Content, Rules, words};
use history::{History, Which};

pub(crate) use history::{SESSIONS_MAX, TRANSFERS_MAX};
pub(crate) use now::{Now, Path, Session, Totals, Transfer};

/// The maximum duration of a connection.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);
/// The maximum number of concurrent connections.
pub(crate) const READERS_MAX: usize = 8;
/// The sampling interval.
const EVERY: Duration = Duration::from_secs(1);

const PAGE: &str = include_str!("page.html");

/// The options of the page.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DashboardArgs {
    /// Show sessions, transfers and network paths at http://ADDRESS:PORT/, which must be an address of this
    /// machine, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub dashboard: Option<SocketAddr>,
    /// Permit --dashboard at an address that other machines can reach: they can read names of users and files
    /// without a password
    #[arg(long, requires = "dashboard")]
    pub dashboard_anywhere: bool,
}

/// Opens the address of the page.
///
/// # Errors
///
/// It is unavailable, or other machines could read the page and `--dashboard-anywhere` was not given.
pub(crate) fn open(args: &DashboardArgs) -> Result<Option<std::net::TcpListener>, String> {
    let Some(address) = args.dashboard else { return Ok(None) };
    if !address.ip().to_canonical().is_loopback() && !args.dashboard_anywhere {
        return Err(format!(
            "the dashboard at {address}: others could read names of users and files there; choose an address of this machine, such \
             as 127.0.0.1:{port}, and reach it through `ssh -L {port}:127.0.0.1:{port} HOST`, or say --dashboard-anywhere",
            port = address.port()
        ));
    }
    let opened = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    opened.map(Some).map_err(|error| {
        format!("cannot show the dashboard at {address}: {error}; choose another address by --dashboard")
    })
}

/// The message with the address of the page.
pub(crate) fn told(listener: &std::net::TcpListener) -> String {
    listener.local_addr().map(|address| format!("dashboard http://{address}/")).unwrap_or_default()
}

/// Serves the page for ever. `title` is its heading; `look` returns the current state.
pub(crate) async fn serve(
    listener: TcpListener,
    title: &'static str,
    look: impl Fn() -> Now + Send + Sync + 'static,
) {
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let (publish, news) = watch::channel(Bytes::new());
    let history = Arc::new(Mutex::new(History::default()));
    let kept = history.clone();
    let sample = async move {
        let mut last = Instant::now();
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let at = tick.tick().await;
            let now = look();
            let mut history = lock(&kept);
            history.sample(now, at.saturating_duration_since(last));
            last = at;
            publish.send_replace(event("now", &history.frame(Which::Last)));
        }
    };
    let page = Page { title, is_local, history, news };
    let rules = Rules { places: READERS_MAX, within: WITHIN, client: "a reader of the dashboard" };
    tokio::join!(sample, http::serve(listener, rules, move |request| page.answer(request)));
}

fn lock(history: &Mutex<History>) -> std::sync::MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server-sent event. JSON contains no line end.
fn event(name: &str, json: &str) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}

/// What requests are answered from.
struct Page {
    title: &'static str,
    is_local: bool,
    history: Arc<Mutex<History>>,
    news: watch::Receiver<Bytes>,
}

impl Page {
    fn answer(&self, request: &Request<Incoming>) -> Response<Content> {
        let mut response = match (refusal(request.headers(), self.is_local), request.uri().path()) {
            (Some(response), _) => response,
            (None, "/" | "/events") if !matches!(*request.method(), Method::GET | Method::HEAD) => {
                words(StatusCode::METHOD_NOT_ALLOWED, "GET /\n")
            }
            (None, "/") => {
                let mut response = Response::new(Content::Whole(PAGE.replace("{title}", self.title).into()));
                let kind = HeaderValue::from_static("text/html; charset=utf-8");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
            (None, "/events") => {
                let mut response = Response::new(Content::Live(self.subscribe()));
                let kind = HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
            _ => words(StatusCode::NOT_FOUND, "GET /\n"),
        };
        for (name, value) in [
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (header::CONTENT_SECURITY_POLICY, POLICY.clone()),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        ] {
            response.headers_mut().insert(name, value);
        }
        response
    }

    /// The events for one reader; at most one waits to be read.
    fn subscribe(&self) -> mpsc::Receiver<Bytes> {
        let (tell, told) = mpsc::channel(1);
        let (mut news, history) = (self.news.clone(), self.history.clone());
        tokio::spawn(async move {
            news.mark_unchanged();
            let all = event("all", &lock(&history).frame(Which::All));
            let mut next = [Bytes::from_static(b"retry: 1000\n\n"), all].concat().into();
            while tell.send(next).await.is_ok() {
                tokio::select! {
                    changed = news.changed() => if changed.is_err() { return },
                    () = tell.closed() => return,
                }
                next = news.borrow_and_update().clone();
            }
        });
        told
    }
}

/// The reason why a request is refused, if it does not come from a person or program that opened this
/// address.
fn refusal(headers: &HeaderMap, is_local: bool) -> Option<Response<Content>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let named = text("host").and_then(|host| host.parse::<Authority>().ok());
    if !named.is_some_and(|named| is_address(named.host(), is_local)) {
        let why = "open the dashboard by the address that --dashboard names, as in http://127.0.0.1:8080/\n";
        return Some(words(StatusCode::MISDIRECTED_REQUEST, why));
    }
    match text("sec-fetch-site") {
        None | Some("same-origin" | "none") => None,
        Some(_) => Some(words(StatusCode::FORBIDDEN, "this page is for no other site\n")),
    }
}

/// Whether a browser used an address, or the one name that DNS does not resolve.
fn is_address(host: &str, is_local: bool) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => !is_local || address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// The content security policy: the page's own script and style, by their hashes, and its events.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |tag: &str| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let inner = PAGE.split_once(&open).and_then(|(_, rest)| rest.split_once(&close));
        BASE64_STANDARD.encode(Sha256::digest(inner.map_or("", |(inner, _)| inner)))
    };
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style")
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_or_localhost() {
        for (host, here, anywhere) in [
            ("127.0.0.1", true, true),
            ("127.9.9.9", true, true),
            ("[::1]", true, true),
            ("localhost", true, true),
            ("LOCALHOST", true, true),
            ("[::ffff:127.0.0.1]", true, true),
            ("192.0.2.1", false, true),
            ("[2001:db8::1]", false, true),
            ("evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("localhost.evil.example", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_address(host, true), is_address(host, false)), (here, anywhere), "{host}");
        }
    }

    #[test]
    fn a_public_dashboard_address_requires_dashboard_anywhere() {
        let args = |address: &str, dashboard_anywhere| DashboardArgs {
            dashboard: Some(address.parse().unwrap()),
            dashboard_anywhere,
        };
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let why = open(&args(address, false)).unwrap_err();
            assert!(why.contains("others could read") && why.contains("--dashboard-anywhere"), "{why}");
        }
        assert!(open(&args("0.0.0.0:0", true)).unwrap().is_some());
        assert!(open(&args("127.0.0.1:0", false)).unwrap().is_some());
        assert!(open(&args("[::ffff:127.0.0.1]:0", false)).is_ok_and(|opened| opened.is_some()));
        assert!(open(&DashboardArgs::default()).unwrap().is_none());
    }

    #[test]
    fn the_page_is_self_contained_and_inserts_only_text() {
        for tag in ["<script", "<style"] {
            assert_eq!(PAGE.matches(tag).count(), 1, "{tag}");
        }
        let script = PAGE.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
        assert!(!script.contains("{title}") && script.len() > 1000);
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "import(",
            "@import",
            "style=",
            "onclick=",
            "onload=",
            "https:",
            "url(",
        ] {
            assert!(!PAGE.contains(word), "{word}");
        }
        assert!(!PAGE.replace("http://www.w3.org/2000/svg", "").contains("http:"));
        let policy = POLICY.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-") && !policy.contains("unsafe"));
    }
}
