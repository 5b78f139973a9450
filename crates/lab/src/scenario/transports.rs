//! The transports of a scenario: a profile with changes.

use std::sync::Arc;
use std::time::Duration;

use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::Protocol;
use braidftp_tcp as tcp;

use super::tree::{Wrong, nearest};
use super::view::View;

/// The words for values in the command lines of programs.
const PLACEHOLDERS: [&str; 6] = ["address", "port", "folder", "to", "file", "seconds"];

/// The minimum of the initial and of the largest RTO.
const RTO_MIN: Duration = Duration::from_millis(1);

/// A transport as the file names it, for programs that are given the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// The profile.
    pub profile: Option<String>,
    /// The congestion controller.
    pub controller: Option<String>,
    /// The multipath transfer.
    pub multipath: Option<String>,
    /// Whether SCTP is protected.
    pub is_protected: bool,
    /// The server and the client.
    pub program: Option<[Vec<String>; 2]>,
}

/// Reads the names that a transport gives.
///
/// # Errors
///
/// A command line without words, or with an unknown placeholder.
pub(super) fn given(view: View<'_>) -> Result<Given, Wrong> {
    let text = |key: &str| view.text(key).map(str::to_owned);
    let program = match view.table("program") {
        None => None,
        Some(table) => Some([words(table, "server")?, words(table, "client")?]),
    };
    Ok(Given {
        profile: text("profile"),
        controller: text("controller"),
        multipath: text("multipath"),
        is_protected: view.flag("protected") == Some(true),
        program,
    })
}

fn words(view: View<'_>, key: &str) -> Result<Vec<String>, Wrong> {
    let nodes = view.list(key);
    for node in &nodes {
        for part in node.text().unwrap_or("").split('{').skip(1) {
            let name = part.split_once('}').map_or(part, |(name, _)| name);
            if part == name || !PLACEHOLDERS.contains(&name) {
                let what = format!(
                    "`{{{}}}` stands for nothing here; {}",
                    name.escape_debug(),
                    nearest(name, PLACEHOLDERS)
                );
                return Err(Wrong::at(node, what));
            }
        }
    }
    match nodes.is_empty() {
        true => Err(view.wrong(key, format!("`{key}` names a program at least"))),
        false => Ok(nodes.into_iter().filter_map(|node| node.text()).map(str::to_owned).collect()),
    }
}

/// Reads a transport.
///
/// # Errors
///
/// Values that contradict each other.
pub(super) fn read(view: View<'_>) -> Result<Protocol, Wrong> {
    match view.text("protocol") {
        Some("tcp") => over_tcp(view).map(|config| Protocol::Tcp(Arc::new(config))),
        _ => over_sctp(view).map(|config| Protocol::Sctp(Arc::new(config))),
    }
}

fn over_sctp(view: View<'_>) -> Result<sctp::Config, Wrong> {
    let profile: sctp::Profile =
        view.text("profile").and_then(|name| name.parse().ok()).unwrap_or(sctp::Profile::Modern);
    let mut config = profile.config();
    if let Some(choice) = controller(view) {
        choice.apply(&mut config.congestion.control, &mut config.congestion.options);
    }
    match view.text("multipath") {
        None => {}
        Some("off") => config.paths.multipath = None,
        Some(text) => config.paths.multipath = text.parse().ok(),
    }
    if view.flag("protected") == Some(true) {
        config.security.dtls = Some(sctp::DtlsConfig::default());
    }
    if let Some(bytes) = bytes(view, "receive-buffer", 1_500..=4 << 30)? {
        config.memory.receive_buffer_bytes = bytes;
    }
    if let Some(bytes) = bytes(view, "send-buffer", 1_500..=4 << 30)? {
        config.memory.send_buffer_bytes = bytes;
    }
    if let Some(bytes) = bytes(view, "packet", 512..=65_515)? {
        config.path_mtu.packet_bytes = bytes;
        config.path_mtu.discovery = None;
    }
    config.congestion.ecn = view.flag("ecn").unwrap_or(config.congestion.ecn);
    let rto = &mut config.timers.rto;
    rto.initial = view.time("rto-initial").unwrap_or(rto.initial);
    rto.min = view.time("rto-min").unwrap_or(rto.min);
    rto.max = view.time("rto-max").unwrap_or(rto.max);
    if rto.initial.min(rto.max) < RTO_MIN {
        return Err(view.wrong("rto-initial", "`rto-initial` and `rto-max` are 1 ms at least"));
    }
    if rto.min > rto.max || rto.initial > rto.max {
        return Err(view.wrong("rto-max", "the RTO's maximum is below its minimum or its initial value"));
    }
    config.sack.delay = view.time("sack-delay").unwrap_or(config.sack.delay);
    if let Some(interval) = view.time("heartbeat") {
        config.timers.heartbeat_interval = Some(interval);
    }
    if let Some(count) = view.count("association-retransmissions") {
        config.failover.association_max_retrans = count as u32;
    }
    if let Some(count) = view.count("path-retransmissions") {
        config.failover.path_max_retrans = count as u32;
    }
    Ok(config)
}

fn over_tcp(view: View<'_>) -> Result<tcp::Config, Wrong> {
    let profile: tcp::Profile =
        view.text("profile").and_then(|name| name.parse().ok()).unwrap_or(tcp::Profile::Modern);
    let mut config = profile.config();
    if let Some(choice) = controller(view) {
        choice.apply(&mut config.congestion_control, &mut config.congestion_options);
    }
    if let Some(bytes) = bytes(view, "receive-buffer", 1_500..=1 << 30)? {
        config.receive_buffer_bytes = bytes;
    }
    if let Some(bytes) = bytes(view, "send-buffer", 1_500..=1 << 30)? {
        config.send_buffer_bytes = bytes;
    }
    if let Some(bytes) = bytes(view, "mss", 88..=65_495)? {
        config.mss = bytes as u16;
    }
    config.sack = view.flag("sack").unwrap_or(config.sack);
    config.nagle = view.flag("nagle").unwrap_or(config.nagle);
    let rto = &mut config.rto;
    rto.initial = view.time("rto-initial").unwrap_or(rto.initial);
    rto.min = view.time("rto-min").unwrap_or(rto.min);
    rto.max = view.time("rto-max").unwrap_or(rto.max);
    if rto.initial.min(rto.max) < RTO_MIN {
        return Err(view.wrong("rto-initial", "`rto-initial` and `rto-max` are 1 ms at least"));
    }
    if rto.min > rto.max || rto.initial > rto.max {
        return Err(view.wrong("rto-max", "the RTO's maximum is below its minimum or its initial value"));
    }
    config.ack_delay = view.time("ack-delay").unwrap_or(config.ack_delay);
    if let Some(count) = view.count("data-retransmissions") {
        config.data_retries = count as u8;
    }
    Ok(config)
}

fn controller(view: View<'_>) -> Option<cc::Choice> {
    view.text("controller").and_then(|text| view.scope().controller(text).ok())
}

fn bytes(view: View<'_>, key: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<usize>, Wrong> {
    match view.bytes(key) {
        Some(bytes) if !range.contains(&bytes) => {
            Err(view
                .wrong(key, format!("`{key}` is {} to {} bytes, not {bytes}", range.start(), range.end())))
        }
        bytes => Ok(bytes.map(|bytes| bytes as usize)),
    }
}
