//! The workloads of a scenario at a point.

use std::sync::Arc;
use std::time::Duration;

use braidftp_sim::Random;
use braidftp_sim::apps::bulk::Protocol;
use braidftp_sim::apps::ftp::{Asks, Session, Variant};
use braidftp_sim::apps::transfers::{Connections, Due, Transfer};

use super::distribution::Distribution;
use super::files::{Arrival, Files};
use super::network::Network;
use super::traced::{Traceable, TracedEnd};
use super::transports::{self, Given};
use super::tree::{Node, Value, Wrong};
use super::view::View;

/// The random stream of sizes and times; each workload has its own.
const RANDOM_STREAM: u64 = 1 << 46;
/// The maximum number of transfers of a workload.
const TRANSFERS_MAX: usize = 100_000;
/// The maximum number of bytes of all files in a run, limited by the simulator.
const BYTES_MAX: f64 = 1e13;

/// A workload.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    /// Its name.
    pub name: String,
    /// The indices of its paths.
    pub paths: Vec<usize>,
    /// Whether it begins at the second host of its paths.
    pub is_reversed: bool,
    /// Its transport as the file names it.
    pub given: Given,
    /// Its actions.
    pub does: Does,
}

/// The actions of a workload.
#[derive(Debug, Clone)]
pub(super) enum Does {
    /// A multiple get by FTP.
    Ftp {
        /// Everything except files and paths.
        session: Box<Session>,
        /// Its files.
        files: Sizes,
        /// When its measured time begins.
        clock: Clock,
    },
    /// Flows without a size limit.
    Bulk {
        /// Their transport.
        protocol: Protocol,
        /// Their number.
        flows: usize,
        /// The interval in which each begins.
        starts: [Duration; 2],
        /// The time of the last write.
        ends: Option<Duration>,
        /// The number of bytes of one write.
        write_bytes: usize,
    },
    /// Requests and answers.
    Transfers {
        /// Their transport.
        protocol: Protocol,
        /// The requests.
        source: Source,
        /// The interval in which the first begins.
        starts: [Duration; 2],
        /// How they share connections.
        connections: Connections,
    },
}

/// The sizes of files.
#[derive(Debug, Clone)]
pub(super) enum Sizes {
    /// Given sizes.
    Listed(Vec<u64>),
    /// This many random sizes.
    Drawn(usize, Distribution),
}

/// When the measured time of an FTP session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// With the client's first packet.
    Started,
    /// With the client's first packet about the files.
    Asked,
    /// With the 150 to NLST.
    Opened,
}

/// The requests of a workload.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// Each after the answer to the previous one.
    Requests {
        /// The number of requests.
        count: usize,
        /// Bytes of a request.
        request: Distribution,
        /// Bytes of an answer.
        answer: Distribution,
        /// The time between an answer and the next request.
        pause: Distribution,
    },
    /// At random times.
    Web {
        /// The time between requests.
        every: Distribution,
        /// Bytes of an answer.
        size: Distribution,
        /// Bytes of a request.
        request_bytes: u64,
        /// The time after which no request begins.
        ends: Duration,
    },
    /// At recorded times.
    Arrivals {
        /// The times and sizes.
        list: Arc<[Arrival]>,
        /// Bytes of a request.
        request_bytes: u64,
    },
}

/// Reads all workloads.
///
/// # Errors
///
/// Values that contradict each other, or a file that cannot be read.
pub(super) fn read(root: View<'_>, network: &Network, files: &Files) -> Result<Vec<Workload>, Wrong> {
    let mut workloads: Vec<Workload> = Vec::new();
    for node in root.list("workload") {
        let view = root.of(node);
        let transport = transport(root, view)?;
        let (does, given) = (does(view, transport, files)?, transports::given(transport)?);
        let (paths, is_reversed) = route(view, network)?;
        let name = view.text("name").or(view.text("kind")).unwrap_or("").to_owned();
        if name.contains(['.', ',']) || ["link", "fairness", ""].contains(&name.as_str()) {
            return Err(view.wrong("name", format!("`{name}` cannot be the name of a workload")));
        }
        if workloads.iter().any(|other| other.name == name) {
            return Err(view.wrong("name", format!("there is another workload `{name}`: give each a `name`")));
        }
        let is_ftp = |does: &Does| matches!(does, Does::Ftp { .. });
        if is_ftp(&does) && workloads.iter().any(|other| is_ftp(&other.does)) {
            return Err(
                view.wrong("kind", "there is one ftp workload at most; others can be requests, web or bulk")
            );
        }
        workloads.push(Workload { name, paths, is_reversed, given, does });
    }
    if workloads.is_empty() {
        return Err(root.wrong("workload", "there is no [[workload]]"));
    }
    if workloads.iter().map(Workload::flows).sum::<usize>() > 250 {
        return Err(root.wrong("workload", "there are more than 250 flows"));
    }
    Ok(workloads)
}

impl Workload {
    /// The number of pairs of hosts that it needs.
    pub(super) fn flows(&self) -> usize {
        match self.does {
            Does::Bulk { flows, .. } => flows,
            Does::Ftp { .. } | Does::Transfers { .. } => 1,
        }
    }

    /// What can be traced of it.
    pub(super) fn traceable(&self) -> Traceable {
        let sends = match self.does {
            Does::Bulk { .. } => TracedEnd::Client,
            Does::Ftp { .. } | Does::Transfers { .. } => TracedEnd::Server,
        };
        Traceable { name: self.name.clone(), is_tcp: self.is_tcp(), flows: self.flows(), sends }
    }

    /// Whether runs depend on the seed.
    pub(super) fn is_random(&self) -> bool {
        match &self.does {
            Does::Ftp { files, .. } => matches!(files, Sizes::Drawn(_, size) if !size.is_fixed()),
            Does::Bulk { starts, .. } => starts[0] != starts[1],
            Does::Transfers { source, starts, .. } => starts[0] != starts[1] || source.is_random(),
        }
    }

    /// The approximate number of bytes; `None`: unlimited.
    pub(super) fn about_bytes(&self) -> Option<f64> {
        match &self.does {
            Does::Ftp { files: Sizes::Listed(sizes), .. } => {
                Some(sizes.iter().map(|bytes| *bytes as f64).sum())
            }
            Does::Ftp { files: Sizes::Drawn(count, size), .. } => Some(*count as f64 * size.about()),
            Does::Bulk { .. } => None,
            Does::Transfers { source: Source::Requests { count, request, answer, .. }, .. } => {
                Some(*count as f64 * (request.about() + answer.about()))
            }
            Does::Transfers { source: Source::Web { every, size, ends, .. }, .. } => {
                Some(ends.as_secs_f64() / every.about() * size.about())
            }
            Does::Transfers { source: Source::Arrivals { list, .. }, .. } => {
                Some(list.iter().map(|arrival| arrival.bytes as f64).sum())
            }
        }
    }

    /// The approximate time in which it waits by itself, whatever the network: until its last request, or with all pauses.
    pub(super) fn about_waits(&self) -> f64 {
        let starts = |starts: &[Duration; 2]| starts[1].as_secs_f64();
        match &self.does {
            Does::Ftp { .. } => 0.0,
            Does::Bulk { starts: at, .. } => starts(at),
            Does::Transfers { source, starts: at, .. } => {
                starts(at)
                    + match source {
                        Source::Requests { count, pause, .. } => *count as f64 * pause.about(),
                        Source::Web { ends, .. } => ends.as_secs_f64(),
                        Source::Arrivals { list, .. } => {
                            list.iter().map(|arrival| arrival.at.as_secs_f64()).fold(0.0, f64::max)
                        }
                    }
            }
        }
    }

    /// The earliest time at which it begins.
    pub(super) fn begins(&self) -> Duration {
        match &self.does {
            Does::Ftp { .. } => Duration::ZERO,
            Does::Bulk { starts, .. } => starts[0],
            Does::Transfers { source, starts, .. } => {
                let first = match source {
                    Source::Arrivals { list, .. } => {
                        list.first().map_or(Duration::ZERO, |arrival| arrival.at)
                    }
                    Source::Requests { .. } | Source::Web { .. } => Duration::ZERO,
                };
                starts[0] + first
            }
        }
    }

    /// The approximate number of requests; `None`: it has none.
    pub(super) fn transfers(&self) -> Option<f64> {
        match &self.does {
            Does::Ftp { .. } | Does::Bulk { .. } => None,
            Does::Transfers { source, .. } => Some(match source {
                Source::Requests { count, .. } => *count as f64,
                Source::Web { every, ends, .. } => ends.as_secs_f64() / every.about(),
                Source::Arrivals { list, .. } => list.len() as f64,
            }),
        }
    }

    /// The indices of the paths on which it sends: TCP uses the first.
    pub(super) fn paths_used(&self) -> &[usize] {
        if self.is_tcp() { &self.paths[..1] } else { &self.paths }
    }

    /// Whether the transport is TCP.
    pub(super) fn is_tcp(&self) -> bool {
        match &self.does {
            Does::Ftp { session, .. } => is_tcp(session.variant),
            Does::Bulk { protocol, .. } | Does::Transfers { protocol, .. } => {
                matches!(protocol, Protocol::Tcp(_))
            }
        }
    }
}

impl Source {
    fn is_random(&self) -> bool {
        match self {
            Self::Requests { request, answer, pause, .. } => {
                ![request, answer, pause].iter().all(|it| it.is_fixed())
            }
            Self::Web { every, size, .. } => !every.is_fixed() || !size.is_fixed(),
            Self::Arrivals { .. } => false,
        }
    }

    /// The transfers of a run, of which the first begins at `starts`.
    pub(super) fn plan(&self, starts: Duration, random: &mut Random) -> Vec<Transfer> {
        match self {
            Self::Requests { count, request, answer, pause } => {
                let transfer = |nth| Transfer {
                    due: Due::After(if nth == 0 { starts } else { pause.time(random) }),
                    request_bytes: request.bytes(random),
                    answer_bytes: answer.bytes(random),
                };
                (0..*count).map(transfer).collect()
            }
            Self::Web { every, size, request_bytes, ends } => {
                let mut transfers = Vec::new();
                let mut at = starts;
                while at <= *ends && transfers.len() < TRANSFERS_MAX {
                    let answer_bytes = size.bytes(random);
                    transfers.push(Transfer {
                        due: Due::At(at),
                        request_bytes: *request_bytes,
                        answer_bytes,
                    });
                    at += every.time(random).max(Duration::from_micros(1));
                }
                transfers
            }
            Self::Arrivals { list, request_bytes } => list
                .iter()
                .map(|Arrival { at, bytes }| Transfer {
                    due: Due::At(*at + starts),
                    request_bytes: *request_bytes,
                    answer_bytes: *bytes,
                })
                .collect(),
        }
    }
}

/// The random generator of a workload.
pub(super) fn random(seed: u64, number: usize) -> Random {
    Random::new(seed, RANDOM_STREAM | number as u64)
}

/// A random time in an interval, in whole microseconds.
pub(super) fn between([from, to]: [Duration; 2], random: &mut Random) -> Duration {
    let micros = (to.saturating_sub(from)).as_micros() as u64;
    if micros == 0 { from } else { from + Duration::from_micros(random.below(micros)) }
}

impl Sizes {
    /// The number of files.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Listed(sizes) => sizes.len(),
            Self::Drawn(count, _) => *count,
        }
    }

    /// The file sizes of a run.
    pub(super) fn draw(&self, random: &mut Random) -> Vec<u64> {
        match self {
            Self::Listed(sizes) => sizes.clone(),
            Self::Drawn(count, size) => (0..*count).map(|_| size.bytes(random)).collect(),
        }
    }
}

fn is_tcp(variant: Variant) -> bool {
    variant.name().starts_with("tcp")
}

/// The paths of a workload, and whether it begins at their second host.
fn route(view: View<'_>, network: &Network) -> Result<(Vec<usize>, bool), Wrong> {
    let named = view.texts("paths");
    let all = || (0..network.paths.len()).collect();
    let paths: Vec<usize> = if view.get("paths").is_none() {
        all()
    } else {
        named.iter().filter_map(|name| network.paths.iter().position(|path| path.name == *name)).collect()
    };
    let Some(first) = paths.first().map(|path| &network.paths[*path]) else {
        return Err(view.wrong("paths", "a workload has a path at least"));
    };
    if let Some(other) =
        paths.iter().map(|path| &network.paths[*path]).find(|path| path.between != first.between)
    {
        let ([a, b], [c, d]) = (&first.between, &other.between);
        let what = format!(
            "the paths `{}` ({a} to {b}) and `{}` ({c} to {d}) are between different hosts: name the `paths` of this workload",
            first.name, other.name
        );
        return Err(view.wrong("paths", what));
    }
    if paths.len() > 8 || paths.iter().enumerate().any(|(at, path)| paths[..at].contains(path)) {
        return Err(view.wrong("paths", "a workload has eight paths at most, each once"));
    }
    let is_reversed = match view.text("from") {
        None => false,
        Some(from) if from == first.between[0] => false,
        Some(from) if from == first.between[1] => true,
        Some(from) => {
            return Err(view.wrong("from", format!("`{from}` is at neither end of path `{}`", first.name)));
        }
    };
    Ok((paths, is_reversed))
}

/// The transport of a workload.
pub(super) fn transport<'a>(root: View<'a>, view: View<'a>) -> Result<View<'a>, Wrong> {
    let named = view.text("transport").unwrap_or("");
    let node = root.node.get("transports").and_then(|transports| transports.get(named));
    node.map(|node| view.of(node)).ok_or_else(|| view.wrong("transport", format!("no transport `{named}`")))
}

fn does(view: View<'_>, transport: View<'_>, files: &Files) -> Result<Does, Wrong> {
    let protocol = transports::read(transport)?;
    match view.text("kind") {
        Some("ftp") => ftp(view, protocol),
        Some("bulk") => bulk(view, protocol),
        kind => {
            let shared = view.flag("one-connection").unwrap_or(kind == Some("requests"));
            Ok(Does::Transfers {
                protocol,
                source: source(view, kind.unwrap_or(""), files)?,
                starts: starts(view)?,
                connections: if shared { Connections::Shared } else { Connections::OneEach },
            })
        }
    }
}

fn ftp(view: View<'_>, protocol: Protocol) -> Result<Does, Wrong> {
    let variant: Variant = view.text("mode").and_then(|mode| mode.parse().ok()).unwrap_or(Variant::Braid);
    let mut session = Session { variant, ..Session::default() };
    match protocol {
        Protocol::Tcp(config) if is_tcp(variant) => session.tcp = (*config).clone(),
        Protocol::Sctp(config) if !is_tcp(variant) => session.sctp = (*config).clone(),
        Protocol::Tcp(_) => {
            return Err(
                view.wrong("transport", format!("mode {variant} is carried by SCTP, and this is TCP"))
            );
        }
        Protocol::Sctp(_) => {
            return Err(
                view.wrong("transport", format!("mode {variant} is carried by TCP, and this is SCTP"))
            );
        }
    }
    session.data_streams = view.count("data-streams").map_or(session.data_streams, |count| count as u16);
    session.attempts = view.count("attempts").map_or(session.attempts, |count| count as u32);
    if view.flag("asks-at-once") == Some(true) {
        session.asks = Asks::AtOnce;
    }
    if let Some(bytes) = view.bytes("message") {
        if !(1..=1 << 20).contains(&bytes) {
            return Err(view.wrong("message", "`message` is 1 B to 1 MiB"));
        }
        session.message_bytes = bytes as usize;
    }
    let files = sizes(view)?;
    let clock = match view.text("clock") {
        Some("started") => Clock::Started,
        Some("opened") => Clock::Opened,
        _ => Clock::Asked,
    };
    Ok(Does::Ftp { session: Box::new(session), files, clock })
}

fn sizes(view: View<'_>) -> Result<Sizes, Wrong> {
    let Some(node) = view.get("files") else { return Err(view.wrong("files", "there are no files")) };
    let (sizes, total, most) = match &node.value {
        Value::List(list) => {
            let bytes =
                |node| super::view::of(view.resolve(node), super::quantity::Dimension::Bytes).unwrap_or(0.0);
            let sizes: Vec<f64> = list.iter().map(bytes).collect();
            let most = sizes.iter().copied().fold(0.0, f64::max);
            (Sizes::Listed(sizes.iter().map(|bytes| *bytes as u64).collect()), sizes.iter().sum(), most)
        }
        _ => {
            let files = view.of(node);
            let count = files.count("count").unwrap_or(1) as usize;
            let size = files.get("size").ok_or_else(|| files.wrong("size", "there is no size"))?;
            let size = Distribution::read(files, size)?;
            (Sizes::Drawn(count, size), count as f64 * size.most(), size.most())
        }
    };
    if total == 0.0 || total > BYTES_MAX || most > u32::MAX as f64 * 1e3 {
        return Err(view.wrong("files", "there is a file at least, and all of them are up to 10 TB"));
    }
    Ok(sizes)
}

fn bulk(view: View<'_>, protocol: Protocol) -> Result<Does, Wrong> {
    let (starts, ends) = (starts(view)?, view.time("ends"));
    if ends.is_some_and(|ends| ends < starts[1]) {
        return Err(view.wrong("ends", "it ends before it begins"));
    }
    let write_bytes = view.bytes("write").unwrap_or(64 << 10);
    if !(1..=1 << 20).contains(&write_bytes) {
        return Err(view.wrong("write", "`write` is 1 B to 1 MiB"));
    }
    let flows = view.count("flows").unwrap_or(1) as usize;
    Ok(Does::Bulk { protocol, flows, starts, ends, write_bytes: write_bytes as usize })
}

fn source(view: View<'_>, kind: &str, files: &Files) -> Result<Source, Wrong> {
    let drawn = |key: &str, default: Distribution| match view.get(key) {
        Some(node) => Distribution::read(view, node),
        None => Ok(default),
    };
    let request_bytes = view.bytes("request").unwrap_or(300);
    match kind {
        "requests" => Ok(Source::Requests {
            count: view.count("count").unwrap_or(1) as usize,
            request: drawn("request", Distribution::Fixed(100.0))?,
            answer: drawn("answer", Distribution::Fixed(1_000.0))?,
            pause: drawn("pause", Distribution::Fixed(0.0))?,
        }),
        "web" => {
            web(view, request_bytes, drawn("size", Distribution::Pareto { min: 4e3, shape: 1.2, max: 4e6 })?)
        }
        _ => {
            let list: Arc<[Arrival]> = match (view.text("file"), view.get("list")) {
                (Some(name), None) => files.arrivals(name).map_err(|error| view.wrong("file", error))?,
                (None, Some(_)) => arrivals(view)?,
                _ => return Err(view.wrong("list", "arrivals are in a `file` or in a `list`")),
            };
            Ok(Source::Arrivals { list, request_bytes })
        }
    }
}

fn web(view: View<'_>, request_bytes: u64, size: Distribution) -> Result<Source, Wrong> {
    let every =
        view.get("every").map_or(Ok(Distribution::Fixed(0.0)), |node| Distribution::read(view, node))?;
    let every = match every {
        Distribution::Fixed(mean) => Distribution::Exponential { mean, max: mean * 1e3 },
        other => other,
    };
    if every.about() <= 0.0 {
        return Err(view.wrong("every", "`every` is a time above 0"));
    }
    let ends = view.time("ends").unwrap_or_default();
    if ends < starts(view)?[1] {
        return Err(view.wrong("ends", "it ends before it begins"));
    }
    let about = ends.as_secs_f64() / every.about();
    if !about.is_finite() || about > TRANSFERS_MAX as f64 / 2.0 {
        return Err(view.wrong(
            "every",
            format!("up to {} downloads are possible; these are about {about:.0}", TRANSFERS_MAX / 2),
        ));
    }
    Ok(Source::Web { every, size, request_bytes, ends })
}

fn arrivals(view: View<'_>) -> Result<Arc<[Arrival]>, Wrong> {
    let mut list: Vec<Arrival> = Vec::new();
    for node in view.list("list") {
        let item: View<'_> = view.of(node);
        let arrival =
            Arrival { at: item.time("at").unwrap_or_default(), bytes: item.bytes("size").unwrap_or(0) };
        if list.last().is_some_and(|last| last.at > arrival.at) {
            return Err(item.wrong("at", "arrivals are in order of time"));
        }
        list.push(arrival);
    }
    let empty: Option<&Node> = view.get("list").filter(|_| list.is_empty());
    empty.map_or(Ok(list.into()), |node| Err(Wrong::at(node, "there is an arrival at least")))
}

fn starts(view: View<'_>) -> Result<[Duration; 2], Wrong> {
    let Some(node) = view.get("starts") else { return Ok([Duration::ZERO; 2]) };
    let time = |node| super::view::time(view.resolve(node)).unwrap_or_default();
    match node.list() {
        [from, to] if time(from) > time(to) => Err(Wrong::at(node, "the second time is the later one")),
        [from, to] => Ok([time(from), time(to)]),
        _ => Ok([time(node); 2]),
    }
}
