//! The columns of a scenario's results.

use super::network::Network;
use super::tree::nearest;
use super::workloads::{Does, Workload};
use crate::papers::ftp;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Measure {
    /// Its name.
    pub name: String,
    /// Its unit, or what is counted.
    pub unit: &'static str,
    /// The measured value.
    pub what: What,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A count of an FTP session: a column of the papers' figures.
    Ftp(usize),
    /// A value of workload and flows: `goodput` and others.
    Of(usize, Of),
    /// Jain's index of the goodputs of all bulk flows.
    Fairness,
    /// A value of a link, in the forward (0) or the return direction (1).
    Link(usize, usize, OfLink),
}

/// A measured value of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Bits of user data a second.
    Goodput,
    /// Chunks or segments retransmitted.
    Retransmissions,
    /// Retransmission time-outs.
    Timeouts,
    /// The congestion window.
    Cwnd,
    /// The smoothed round-trip time.
    Rtt,
    /// Completed files or answers.
    Completed,
    /// Failed files or answers.
    Failed,
    /// The mean completion time.
    Mean,
    /// A quantile of the completion times, in per cent.
    Quantile(u8),
}

/// A measured value of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfLink {
    /// The mean queue.
    Queue,
    /// The 99 % quantile of the queue over time.
    QueueTail,
    /// The maximum queue.
    QueuePeak,
    /// Packets dropped by the queue.
    Dropped,
    /// Packets lost by the loss model.
    Lost,
    /// Packets marked.
    Marked,
    /// The throughput in bits per second.
    Throughput,
}

const OF_WORKLOAD: &[(&str, Of, &str)] = &[
    ("goodput", Of::Goodput, "bit/s of user data, all flows"),
    ("retransmissions", Of::Retransmissions, "chunks or segments sent again"),
    ("timeouts", Of::Timeouts, "retransmission time-outs"),
    ("cwnd", Of::Cwnd, "B, mean over time and flows, of the sender's path or paths together"),
    ("rtt", Of::Rtt, "s, smoothed, mean over time and flows, of the sender's first path"),
    ("completed", Of::Completed, "files or answers that arrived whole"),
    ("failed", Of::Failed, "files or answers that did not"),
    ("mean", Of::Mean, "s, completion time of a file or an answer"),
    ("p50", Of::Quantile(50), "s, completion time of a file or an answer, median"),
    ("p90", Of::Quantile(90), "s, completion time of a file or an answer, 90 % quantile"),
    ("p95", Of::Quantile(95), "s, completion time of a file or an answer, 95 % quantile"),
    ("p99", Of::Quantile(99), "s, completion time of a file or an answer, 99 % quantile"),
    ("worst", Of::Quantile(100), "s, completion time of a file or an answer, worst"),
];

const OF_LINK: &[(&str, OfLink, &str)] = &[
    ("queue", OfLink::Queue, "B, mean over time"),
    ("queue-p99", OfLink::QueueTail, "B, 99 % quantile over time"),
    ("queue-peak", OfLink::QueuePeak, "B"),
    ("dropped", OfLink::Dropped, "packets dropped by the queue"),
    ("lost", OfLink::Lost, "packets lost by the loss model or while it was down"),
    ("marked", OfLink::Marked, "packets marked with congestion experienced"),
    ("throughput", OfLink::Throughput, "bit/s, headers included"),
];

/// The statistics that each kind of workload has, for the reference: names and units.
pub(super) fn listed() -> [Vec<(&'static str, &'static str)>; 3] {
    [
        ftp::COLUMNS.iter().map(|column| (column.name, column.unit)).collect(),
        OF_WORKLOAD.iter().map(|(name, _, unit)| (*name, *unit)).collect(),
        OF_LINK.iter().map(|(name, _, unit)| (*name, *unit)).collect(),
    ]
}

impl Of {
    fn is_of(self, does: &Does) -> bool {
        let counts_pieces = matches!(self, Self::Completed | Self::Failed | Self::Mean | Self::Quantile(_));
        match does {
            Does::Ftp { .. } => self == Self::Goodput || (counts_pieces && self != Self::Failed),
            Does::Bulk { .. } => !counts_pieces,
            Does::Transfers { .. } => self == Self::Goodput || counts_pieces,
        }
    }
}

/// The columns if the file names none.
pub(super) fn defaults(workloads: &[Workload]) -> Vec<String> {
    if let Some(session) = workloads.iter().find(|workload| matches!(workload.does, Does::Ftp { .. })) {
        // Workloads beside it may have a column of the same name.
        let is_shared = |name: &str| {
            let has =
                |its: &Workload| OF_WORKLOAD.iter().any(|(stat, of, _)| *stat == name && of.is_of(&its.does));
            workloads.iter().any(has)
        };
        let full = |name: &str| match is_shared(name) {
            true => format!("{}.{name}", session.name),
            false => name.to_owned(),
        };
        return ftp::COLUMNS.iter().map(|column| full(column.name)).collect();
    }
    let of = |workload: &Workload| -> Vec<String> {
        let names: &[&str] = match workload.does {
            Does::Bulk { .. } => &["goodput"],
            _ => &["mean", "p50", "p95", "p99", "completed", "failed"],
        };
        let prefix = if workloads.len() == 1 { String::new() } else { format!("{}.", workload.name) };
        names.iter().map(|name| format!("{prefix}{name}")).collect()
    };
    let mut names: Vec<String> = workloads.iter().flat_map(of).collect();
    let bulk: usize =
        workloads.iter().filter(|it| matches!(it.does, Does::Bulk { .. })).map(Workload::flows).sum();
    if bulk > 1 {
        names.push("fairness".to_owned());
    }
    names
}

/// Finds a column by its name.
///
/// # Errors
///
/// A sentence with the nearest name.
pub(super) fn find(name: &str, workloads: &[Workload], network: &Network) -> Result<Measure, String> {
    let measure = |unit, what| Ok(Measure { name: name.to_owned(), unit, what });
    if name == "fairness" {
        return match workloads.iter().any(|it| matches!(it.does, Does::Bulk { .. })) {
            true => measure("Jain's index of the goodputs of bulk flows: 1 is equal", What::Fairness),
            false => Err("`fairness` is of bulk flows, and there are none".to_owned()),
        };
    }
    if let Some(rest) = name.strip_prefix("link.") {
        return of_link(name, rest, network);
    }
    let (chosen, stat): (Vec<usize>, &str) = match name.split_once('.') {
        Some((of, stat)) => {
            let known = || workloads.iter().map(|workload| workload.name.as_str()).chain(["link"]);
            let at = workloads.iter().position(|workload| workload.name == of);
            let at =
                at.ok_or_else(|| format!("no workload `{}`; {}", of.escape_debug(), nearest(of, known())))?;
            (vec![at], stat)
        }
        None => ((0..workloads.len()).collect(), name),
    };
    let mut found = Vec::new();
    for at in &chosen {
        if matches!(workloads[*at].does, Does::Ftp { .. })
            && let Some(column) = ftp::COLUMNS.iter().position(|column| column.name == stat)
        {
            found.push((ftp::COLUMNS[column].unit, What::Ftp(column)));
            continue;
        }
        let fits = |(its, of, _): &&(&str, Of, &str)| *its == stat && of.is_of(&workloads[*at].does);
        if let Some((_, of, unit)) = OF_WORKLOAD.iter().find(fits) {
            found.push((unit, What::Of(*at, *of)));
        }
    }
    match found[..] {
        [(unit, what)] => measure(unit, what),
        [] => {
            let mut known: Vec<&str> = Vec::new();
            for at in chosen {
                let does = &workloads[at].does;
                if matches!(does, Does::Ftp { .. }) {
                    known.extend(ftp::COLUMNS.iter().map(|column| column.name));
                }
                known.extend(OF_WORKLOAD.iter().filter(|(_, of, _)| of.is_of(does)).map(|(its, ..)| *its));
            }
            known.dedup();
            if let Some((workload, _)) = name.split_once('.') {
                let (workload, shown) = (workload.escape_debug(), stat.escape_debug());
                return Err(format!("workload `{workload}` has no `{shown}`; {}", nearest(stat, known)));
            }
            known.extend(["fairness", "link.NAME.queue"]);
            Err(format!("nothing is called `{}`; {}", name.escape_debug(), nearest(stat, known)))
        }
        _ => Err(format!(
            "several workloads have `{stat}`: write the name of one before it, as in {}.{stat}",
            workloads[0].name
        )),
    }
}

fn of_link(name: &str, rest: &str, network: &Network) -> Result<Measure, String> {
    let parts: Vec<&str> = rest.split('.').collect();
    let (link, way, stat) = match parts[..] {
        [link, stat] => (link, 0, stat),
        [link, "there", stat] => (link, 0, stat),
        [link, "back", stat] => (link, 1, stat),
        _ => {
            return Err(format!(
                "`{}` is not as link.NAME.queue or link.NAME.back.queue",
                name.escape_debug()
            ));
        }
    };
    let at = network.links.iter().position(|its| its.name == link);
    let known = network.links.iter().map(|link| link.name.as_str());
    let at = at.ok_or_else(|| format!("no link `{}`; {}", link.escape_debug(), nearest(link, known)))?;
    let found = OF_LINK.iter().find(|(its, ..)| *its == stat);
    let known = OF_LINK.iter().map(|(its, ..)| *its);
    let (_, of, unit) =
        found.ok_or_else(|| format!("a link has no `{}`; {}", stat.escape_debug(), nearest(stat, known)))?;
    Ok(Measure { name: name.to_owned(), unit, what: What::Link(at, way, *of) })
}
