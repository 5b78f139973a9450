//! What of a scenario can run live: braidftp and other programs between network namespaces. What exists only in the
//! simulator is reported with its position and an alternative, before anything runs.

use std::time::Duration;

use braidftp_sim::apps::ftp::Variant;
use braidftp_sim::apps::transfers::Connections;
use braidftp_sim::link::LinkConfig;

use super::super::measure::{Measure, Of, OfLink, What};
use super::super::plan::Plan;
use super::super::tree::{Entry, Wrong};
use super::super::view::View;
use super::super::workloads::{self, Clock, Does, Workload};
use super::commands::{IP_BYTES, is_over_udp};

/// The MTU of Ethernet, and of live links without `mtu`.
pub(super) const MTU: usize = 1_500;
/// The highest rate at which the emulator forwards packets on time, in bits per second.
const RATE_MAX: u64 = 500_000_000;
/// The most pairs of hosts of a live run.
const FLOWS_MAX: usize = 32;
/// The longest live run.
pub(super) const LASTS_MAX: Duration = Duration::from_secs(1_800);

/// The most transfers with a connection of their own: the kernel keeps the ports of closed ones for a minute.
const CONNECTIONS_MAX: f64 = 20_000.0;

/// The keys of a transport that programs can be given.
const SCTP_KEYS: [&str; 5] = ["protocol", "profile", "controller", "multipath", "protected"];
const TCP_KEYS: [&str; 4] = ["protocol", "profile", "controller", "program"];
/// The profiles of TCP that model the kernel's.
const KERNEL_PROFILES: [&str; 2] = ["modern", "linux"];
/// The keys of an ftp workload that braidftp has no option for.
const FTP_KEYS: [&str; 3] = ["data-streams", "message", "attempts"];

/// Checks that a plan can run live, at the point of a view.
///
/// # Errors
///
/// The first thing that only the simulator has, with what would work.
pub(in super::super) fn check(root: View<'_>, plan: &Plan) -> Result<(), Wrong> {
    for (entry, link) in root.get("links").map_or(&[][..], |it| it.entries()).iter().zip(&plan.network.links)
    {
        check_link(root.of(&entry.node), &link.ways)?;
    }
    for (event, its) in root.list("event").into_iter().zip(&plan.network.events) {
        let ways: Vec<LinkConfig> = its.ways.iter().flatten().cloned().collect();
        check_link(root.of(event).table("set").unwrap_or(root), &ways)?;
    }
    for (node, workload) in root.list("workload").into_iter().zip(&plan.workloads) {
        let view = root.of(node);
        check_transport(workloads::transport(root, view)?, workload)?;
        let path = &plan.network.paths[workload.paths[0]];
        let mut ways = path.via.iter().flat_map(|link| &plan.network.links[*link].ways);
        if workload.is_tcp() && ways.any(|way| is_over_udp(way.overhead_bytes)) {
            let what = "TCP has no UDP header: with --live its links have an `overhead` of 20 B, not of 28 B";
            return Err(view.wrong("transport", what));
        }
        check_workload(view, workload)?;
    }
    if plan.workloads.iter().map(Workload::flows).sum::<usize>() > FLOWS_MAX {
        return Err(
            root.wrong("workload", format!("a live run has {FLOWS_MAX} flows at most: use fewer `flows`"))
        );
    }
    if plan.lasts.is_some_and(|lasts| lasts > LASTS_MAX) {
        return Err(root.wrong("lasts", too_long("a live run")));
    }
    Ok(())
}

fn too_long(what: &str) -> String {
    format!("{what} takes {} minutes at most: shorten it, or run it without --live", LASTS_MAX.as_secs() / 60)
}

/// An error about the first of these keys that a table has.
fn without(view: View<'_>, says: &str, is_wrong: impl Fn(&Entry) -> bool) -> Result<(), Wrong> {
    match view.node.entries().iter().find(|entry| is_wrong(entry)) {
        Some(entry) => Err(Wrong { span: entry.span.clone(), what: format!("`{}` {says}", entry.key) }),
        None => Ok(()),
    }
}

fn check_link(view: View<'_>, ways: &[LinkConfig]) -> Result<(), Wrong> {
    let marks = "exists only simulated, because live links do not mark packets: remove it, and packets are dropped instead";
    without(view, marks, |entry| entry.key == "ecn")?;
    for management in ["red", "codel"].into_iter().filter_map(|key| view.table(key)) {
        without(management, marks, |entry| entry.key == "mark" && management.flag("mark") == Some(true))?;
    }
    if ways.iter().any(|way| way.overhead_bytes < IP_BYTES) {
        let what =
            format!("live packets have an IPv4 header: `overhead` is {IP_BYTES} B at least with --live");
        return Err(view.wrong("overhead", what));
    }
    let is_fast = |way: &LinkConfig| way.rate.slowest().is_some_and(|rate| rate.bits_per_second() > RATE_MAX);
    if ways.iter().any(is_fast) {
        let what = format!("the emulator forwards {} Mbit/s at most on time", RATE_MAX / 1_000_000);
        return Err(view.wrong("rate", what));
    }
    match view.table("back") {
        Some(back) => check_link(back, &[]),
        None => Ok(()),
    }
}

fn check_transport(view: View<'_>, workload: &Workload) -> Result<(), Wrong> {
    let has = |keys: &[&str], entry: &Entry| keys.contains(&entry.key.as_str());
    if !workload.is_tcp() && !matches!(workload.does, Does::Ftp { .. }) {
        return match workload.given.is_protected {
            true => Err(view.wrong(
                "protected",
                "protected flows without FTP exist only simulated, because live ones have no certificates: remove it, or \
                 use kind = \"ftp\"",
            )),
            false => Ok(()),
        };
    }
    if !workload.is_tcp() {
        let says = "cannot be given to braidftp: remove it, or run the scenario without --live";
        return without(view, says, |entry| !has(&SCTP_KEYS, entry));
    }
    let says =
        "cannot be set in the kernel's TCP by a scenario: remove it, or run the scenario without --live";
    without(view, says, |entry| !has(&TCP_KEYS, entry))?;
    if view.text("profile").is_some_and(|profile| !KERNEL_PROFILES.contains(&profile)) {
        let what = "the kernel's TCP is that of profile \"linux\" or, less closely, \"modern\": use one of them with --live";
        return Err(view.wrong("profile", what));
    }
    match kernel_controller(workload) {
        Some(_) => Ok(()),
        None => Err(view.wrong(
            "controller",
            "the kernel's TCP has no such controller: with --live it is \"reno\", \"cubic\" or \"bbr\"",
        )),
    }
}

/// The kernel's name of the controller of a workload over TCP.
pub(in super::super) fn kernel_controller(workload: &Workload) -> Option<&'static str> {
    match workload.given.controller.as_deref() {
        None | Some("cubic") => Some("cubic"),
        Some("reno") => Some("reno"),
        Some("bbr" | "bbr:version=1") => Some("bbr"),
        Some(_) => None,
    }
}

fn check_workload(view: View<'_>, workload: &Workload) -> Result<(), Wrong> {
    match &workload.does {
        Does::Ftp { session, clock, .. } => {
            let modes = [Variant::Tcp, Variant::Naive, Variant::Ms, Variant::MsCp, Variant::Braid];
            if !modes.contains(&session.variant) {
                let what =
                    "this mode exists only simulated: with --live it is tcp, naive, ms, ms-cp or braid";
                return Err(view.wrong("mode", what));
            }
            if *clock == Clock::Opened {
                let what = "live runs do not see the 150 in all modes: use \"started\" or \"asked\"";
                return Err(view.wrong("clock", what));
            }
            without(
                view,
                "cannot be given to braidftp: remove it, or run the scenario without --live",
                |entry| FTP_KEYS.contains(&entry.key.as_str()),
            )
        }
        Does::Bulk { .. } => Ok(()),
        Does::Transfers { .. } if workload.given.program.is_some() => Err(view.wrong(
            "transport",
            "live requests are sent by braidlab itself, because programs do not report their times: use a transport without \
             `program`",
        )),
        Does::Transfers { connections: Connections::OneEach, .. }
            if workload.transfers().is_some_and(|about| about > CONNECTIONS_MAX) =>
        {
            let what = format!(
                "a live run opens {CONNECTIONS_MAX} connections at most: use fewer transfers, or `one-connection = true`"
            );
            Err(view.wrong("kind", what))
        }
        Does::Transfers { .. } => Ok(()),
    }
}

/// Whether a column can be measured live; if not, what can.
pub(in super::super) fn check_measure(measure: &Measure, workloads: &[Workload]) -> Result<(), String> {
    let does = |workload: usize| &workloads[workload].does;
    let known = match measure.what {
        What::Ftp(0) | What::Of(_, Of::Goodput) | What::Fairness => return Ok(()),
        What::Ftp(_) => "`seconds`, `goodput` and `completed`",
        What::Of(workload, of) => match does(workload) {
            Does::Ftp { .. } if of == Of::Completed => return Ok(()),
            Does::Ftp { .. } => "`seconds`, `goodput` and `completed`",
            Does::Transfers { .. } => return Ok(()),
            Does::Bulk { .. } if workloads[workload].given.program.is_some() => "`goodput` and `fairness`",
            Does::Bulk { .. } if of != Of::Timeouts || !workloads[workload].is_tcp() => return Ok(()),
            Does::Bulk { .. } => "`goodput`, `fairness`, `cwnd`, `rtt` and `retransmissions`",
        },
        What::Link(_, _, OfLink::Dropped | OfLink::Lost | OfLink::QueuePeak | OfLink::Throughput) => {
            return Ok(());
        }
        What::Link(..) => "`dropped`, `lost`, `queue-peak` and `throughput`",
    };
    Err(format!("`{}` exists only simulated; a live run measures {known} there", measure.name))
}
