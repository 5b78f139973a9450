//! The actions of a run at a point, and a check that the run ends.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_sim::Probability;
use braidftp_sim::apps::bulk::Protocol;
use braidftp_sim::link::{Bandwidth, Down, LinkConfig, Loss, Management};
use braidftp_tcp as tcp;

use super::files::Files;
use super::network::Network;
use super::tree::Wrong;
use super::view::View;
use super::workloads::{self, Does, Workload};

/// The maximum duration of a run, in virtual time.
pub(super) const LASTS_MAX: Duration = Duration::from_secs(30 * 86_400);

/// The maximum number of samples of a run.
const SAMPLES_MAX: u128 = 10_000_000;
/// The approximate maximum number of packets of a bulk workload.
const PACKETS_MAX: f64 = 1e10;

/// The plan of a run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The network.
    pub network: Network,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The end of the run; `None`: with the FTP session or the last answer.
    pub lasts: Option<Duration>,
    /// The beginning of the measurement of goodput, queues, windows and round trips.
    pub from: Duration,
    /// The sampling interval.
    pub every: Duration,
}

impl Plan {
    /// Reads the file at a point.
    ///
    /// # Errors
    ///
    /// Values that contradict each other, a file that cannot be read, or a run that cannot end.
    pub(super) fn read(root: View<'_>, files: &Files) -> Result<Self, Wrong> {
        let network = Network::read(root, files)?;
        let workloads = workloads::read(root, &network, files)?;
        let lasts = root.time("lasts");
        if lasts.is_some_and(|lasts| lasts.is_zero() || lasts > LASTS_MAX) {
            return Err(root.wrong("lasts", "a run lasts more than 0 s and 30 days at most"));
        }
        let from = root.time("measure-from").unwrap_or_default();
        let every = root.time("sample-every").unwrap_or(Duration::from_millis(20));
        if every < Duration::from_micros(10) {
            return Err(root.wrong("sample-every", "`sample-every` is 10 us at least"));
        }
        let mut plan = Self { network, workloads, lasts, from, every };
        plan.check_end(root)?;
        plan.check_times(root)?;
        Ok(plan)
    }

    /// Whether runs depend on the seed.
    pub(super) fn is_random(&self) -> bool {
        let used = self.workloads.iter().flat_map(|workload| &workload.paths);
        let mut links = used.flat_map(|path| &self.network.paths[*path].via);
        self.workloads.iter().any(Workload::is_random)
            || links.any(|link| self.network.links[*link].ways.iter().any(is_random))
            || self.network.events.iter().flat_map(|event| event.ways.iter().flatten()).any(is_random)
    }

    fn check_end(&mut self, root: View<'_>) -> Result<(), Wrong> {
        if self.lasts.is_none() {
            let bulk_ends = |workload: &Workload| match workload.does {
                Does::Bulk { ends, .. } => ends,
                _ => None,
            };
            if self.workloads.iter().all(|workload| matches!(workload.does, Does::Bulk { .. })) {
                let ends: Option<Vec<Duration>> = self.workloads.iter().map(bulk_ends).collect();
                let Some(last) = ends.and_then(|ends| ends.into_iter().max()) else {
                    return Err(root.wrong("lasts", "a run of this scenario cannot end: give `lasts`, as in \"60 s\", or `ends` to each bulk workload"));
                };
                self.lasts = Some(last.max(Duration::from_nanos(1)));
            }
        }
        if self.lasts.is_some_and(|lasts| self.from >= lasts) {
            return Err(root.wrong("measure-from", "nothing is measured: the run ends before"));
        }
        for (workload, node) in self.workloads.iter().zip(root.list("workload")) {
            let waits = workload.about_waits();
            if self.lasts.is_none() && waits > LASTS_MAX.as_secs_f64() {
                let (begins, remedy) = match workload.does {
                    Does::Bulk { .. } => ("it would begin", "an earlier time"),
                    _ => ("its last request would begin", "fewer or shorter pauses"),
                };
                let what = format!(
                    "{begins} after about {:.0} days, and a run lasts 30 at most: give `lasts`, or {remedy}",
                    waits / 86_400.0
                );
                return Err(Wrong::at(node, what));
            }
            let paths = workload.paths_used();
            let blocked: Option<Vec<String>> =
                paths.iter().map(|path| self.blocked(*path, workload)).collect();
            if let Some(reason) = blocked.and_then(|all| all.into_iter().next()) {
                let what = match self.lasts {
                    None => "a run of this scenario cannot end",
                    Some(_) => "no packet of this workload arrives",
                };
                return Err(Wrong::at(node, format!("{what}: {reason}")));
            }
            let Some(bytes) = workload.about_bytes() else {
                self.check_bulk(root.of(node), workload, paths)?;
                continue;
            };
            let rate: f64 = paths.iter().map(|path| self.slowest(*path)).sum();
            let seconds = bytes * 8.0 / rate;
            if seconds > LASTS_MAX.as_secs_f64() {
                let what = format!(
                    "this would take {:.0} days at the rate of its links, and a run lasts 30 at most",
                    seconds / 86_400.0
                );
                return Err(Wrong::at(node, what));
            }
        }
        Ok(())
    }

    /// Checks that a bulk workload does not send without limit.
    fn check_bulk(&self, view: View<'_>, workload: &Workload, paths: &[usize]) -> Result<(), Wrong> {
        let (Does::Bulk { protocol, flows, .. }, Some(lasts)) = (&workload.does, self.lasts) else {
            return Ok(());
        };
        let buffer_bytes = match protocol {
            Protocol::Sctp(config) => config.memory.receive_buffer_bytes,
            Protocol::Tcp(config) => config.receive_buffer_bytes,
        } as f64;
        let mut bytes = 0.0;
        for path in paths {
            let path = &self.network.paths[*path];
            let ways = || path.via.iter().flat_map(|link| &self.network.links[*link].ways);
            let changes = self.network.events.iter().any(|event| path.via.contains(&event.link));
            let round_trip: Duration = ways().map(|way| way.delay).sum();
            let is_unlimited = ways().all(|way| matches!(way.rate, Bandwidth::Unlimited));
            if is_unlimited && round_trip.is_zero() && !changes {
                let what = format!(
                    "a run of this scenario cannot end: packets of bulk flows take no time over path `{}`: give a link a `rate` or a `delay`",
                    path.name
                );
                return Err(view.wrong("paths", what));
            }
            // A receive buffer a round trip, if there is no rate.
            let rate = match is_unlimited {
                true => *flows as f64 * buffer_bytes * 8.0 / round_trip.as_secs_f64().max(1e-6),
                false => self.slowest_of(&path.via),
            };
            bytes += lasts.as_secs_f64() * rate / 8.0;
        }
        let packets = bytes / 1_500.0;
        if packets > PACKETS_MAX {
            let what = format!(
                "this would be about {:.0} million packets, and {:.0} million are possible: give a shorter `lasts` or a lower `rate`",
                packets / 1e6,
                PACKETS_MAX / 1e6
            );
            return Err(view.wrong("kind", what));
        }
        Ok(())
    }

    /// Checks that every workload begins, and that the samples are not too many.
    fn check_times(&self, root: View<'_>) -> Result<(), Wrong> {
        let ends = self.lasts.unwrap_or(LASTS_MAX);
        let end = match self.lasts {
            Some(lasts) => format!("the run ends at {} s", lasts.as_secs_f64()),
            None => "a run lasts 30 days at most".to_owned(),
        };
        for (workload, node) in self.workloads.iter().zip(root.list("workload")) {
            if workload.begins() >= ends {
                let view = root.of(node);
                let key = ["starts", "list", "file"].into_iter().find(|key| view.get(key).is_some());
                return Err(view.wrong(key.unwrap_or("kind"), format!("this workload never begins: {end}")));
            }
        }
        if root.get("sample-every").is_some()
            && self.lasts.is_some_and(|lasts| self.from + self.every >= lasts)
        {
            return Err(root.wrong("sample-every", format!("nothing is sampled after the first time: {end}")));
        }
        if self.lasts.is_some_and(|lasts| lasts.as_nanos() / self.every.as_nanos() > SAMPLES_MAX) {
            let what = format!("there are {SAMPLES_MAX} samples at most: give a longer `sample-every`");
            return Err(root.wrong("sample-every", what));
        }
        Ok(())
    }

    /// The reason why no packet can pass a path, if there is one.
    fn blocked(&self, path: usize, workload: &Workload) -> Option<String> {
        let packets = packets(workload);
        self.network.paths[path].via.iter().find_map(|link| {
            (0..2).find_map(|way| {
                // The link as it is at the beginning and after each change.
                let events = self.network.events.iter().filter(|event| event.link == *link);
                let changed = events.filter_map(|event| event.ways[way].as_ref());
                let mut reasons = [&self.network.links[*link].ways[way]]
                    .into_iter()
                    .chain(changed)
                    .map(|config| blocks(config, &packets, &self.network.links[*link].name));
                let first = reasons.next().flatten();
                first.filter(|_| reasons.all(|reason| reason.is_some()))
            })
        })
    }

    /// The lowest rate of a path, in bits per second.
    fn slowest(&self, path: usize) -> f64 {
        self.slowest_of(&self.network.paths[path].via)
    }

    /// The highest rate of a workload over all its paths, in bits per second: on each path that of the slowest link, in the
    /// faster direction, and so many bits in each round trip at most.
    pub(super) fn fastest(&self, workload: &Workload, bits_in_a_round_trip: f64) -> f64 {
        let of_path = |path: &usize| {
            let via = &self.network.paths[*path].via;
            let along = |way: usize| {
                let rates = via.iter().filter_map(|link| self.network.links[*link].ways[way].rate.slowest());
                rates.map(|rate| rate.bits_per_second() as f64).fold(f64::INFINITY, f64::min)
            };
            let ways = via.iter().flat_map(|link| &self.network.links[*link].ways);
            let round_trip: Duration = ways.map(|way| way.delay).sum();
            let rate = along(0).max(along(1));
            rate.min(bits_in_a_round_trip / round_trip.as_secs_f64().max(1e-6))
        };
        workload.paths_used().iter().map(of_path).sum()
    }

    fn slowest_of(&self, via: &[usize]) -> f64 {
        let links = via.iter().flat_map(|link| &self.network.links[*link].ways);
        links
            .filter_map(|way| way.rate.slowest())
            .map(|rate| rate.bits_per_second() as f64)
            .fold(f64::INFINITY, f64::min)
    }
}

/// The sizes of a transport's packets, without the headers of a link.
struct Packets {
    /// The longest packets that it sends, if no packets of that size arrive.
    bytes: usize,
    /// The notation of their size.
    shown: &'static str,
    remedy: &'static str,
}

/// The longest packets that a workload sends. With path MTU discovery they become smaller, down to MIN_PLPMTU (RFC 8899).
fn packets(workload: &Workload) -> Packets {
    let of_sctp = |config: &sctp::Config| match &config.path_mtu.discovery {
        Some(discovery) => Packets {
            bytes: discovery.min.min(config.path_mtu.packet_bytes) & !3,
            shown: "those of this transport become no shorter than",
            remedy: "give a larger `mtu`",
        },
        None => Packets {
            bytes: config.path_mtu.packet_bytes,
            shown: "those of this transport are up to",
            remedy: "give a larger `mtu`, or the transport a smaller `packet`",
        },
    };
    let of_tcp = |config: &tcp::Config| Packets {
        bytes: usize::from(config.mss) + 20,
        shown: "those of this transport are up to",
        remedy: "give a larger `mtu`, or the transport a smaller `mss`",
    };
    match &workload.does {
        Does::Ftp { session, .. } if workload.is_tcp() => of_tcp(&session.tcp),
        Does::Ftp { session, .. } => of_sctp(&session.sctp),
        Does::Bulk { protocol, .. } | Does::Transfers { protocol, .. } => match protocol {
            Protocol::Sctp(config) => of_sctp(config),
            Protocol::Tcp(config) => of_tcp(config),
        },
    }
}

/// The reason why one direction of a link passes none of these packets, if there is one.
fn blocks(way: &LinkConfig, packets: &Packets, link: &str) -> Option<String> {
    if loses_all(&way.loss) {
        return Some(format!("link `{link}` loses every packet"));
    }
    if stays_bad(&way.loss) {
        return Some(format!(
            "link `{link}` loses every packet in its bad state, and never leaves that state"
        ));
    }
    if is_always_down(&way.down) {
        return Some(format!("link `{link}` is cut from the beginning to the end"));
    }
    if way.corrupt == Probability::ALWAYS {
        return Some(format!("link `{link}` corrupts every packet"));
    }
    let longest = packets.bytes + way.overhead_bytes;
    if way.mtu.is_some_and(|mtu| mtu < longest) {
        let Packets { shown, remedy, .. } = packets;
        return Some(format!(
            "link `{link}` drops packets that are longer than its `mtu`, and {shown} {longest} bytes with the link's `overhead`: {remedy}"
        ));
    }
    None
}

fn loses_all(loss: &Loss) -> bool {
    match loss {
        Loss::Bernoulli(probability) => *probability == Probability::ALWAYS,
        Loss::GilbertElliott(model) => {
            model.pass_good == Probability::NEVER && model.pass_bad == Probability::NEVER
        }
        Loss::None | Loss::Script(_) => false,
    }
}

/// Whether a link that turned bad loses every packet from then on.
fn stays_bad(loss: &Loss) -> bool {
    match loss {
        Loss::GilbertElliott(model) => {
            let [never, bad] = [Probability::NEVER, model.pass_bad];
            model.to_bad > never && model.to_good == never && bad == never
        }
        Loss::None | Loss::Bernoulli(_) | Loss::Script(_) => false,
    }
}

fn is_always_down(down: &Down) -> bool {
    let Down::Between(cuts) = down else { return false };
    cuts.first().is_some_and(|(from, to)| *from == Time::ZERO && to.since(*from) >= LASTS_MAX)
}

fn is_random(link: &LinkConfig) -> bool {
    !matches!(link.loss, Loss::None | Loss::Script(_))
        || !link.jitter.is_zero()
        || link.reorder.is_some()
        || link.duplicate > Probability::NEVER
        || link.corrupt > Probability::NEVER
        || matches!(link.management, Management::Red(_))
}
