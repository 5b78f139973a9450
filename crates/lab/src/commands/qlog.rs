//! `braidlab qlog`: one run of a scenario as a qlog file.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::time::Duration;

use braidftp_lab::scenario::{Look, Traceable, Traced, TracedEnd, Watcher};
use braidftp_sim::record::{HostEvent, Qlog, Vantage};
use clap::{Args as ClapArgs, ValueEnum};

use super::one_run::{OneRun, seconds};
use super::print;
use crate::Failure;

/// How often recorded events are written, in simulated time. It decides only how many are held.
const EVERY: Duration = Duration::from_millis(100);

/// Write one run of a scenario as qlog: the packets of one host, and how the state of its paths changes.
///
/// The same point and seed give the same bytes, and the run is the one of the table: recording changes nothing. A
/// workload over SCTP is recorded at the end that sends most of the data, unless --side names the other one.
/// braidlab view draws the file.
///
/// Example: braidlab qlog my.toml --at loss=0.03 -o run.qlog; braidlab view run.qlog -o page.html
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    which: OneRun,
    /// The workload [default: the first one over SCTP]
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// The flow of the workload, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    flow: u16,
    /// The recorded end [default: the one that sends most of the data]
    #[arg(long, value_enum)]
    side: Option<Side>,
    /// Where the file begins, in simulated seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    from: Duration,
    /// The simulated seconds of the file [default: to the end of the run]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lasts: Option<Duration>,
    /// The file
    #[arg(short, long, value_name = "FILE", default_value = "run.qlog")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Side {
    /// The end that opens the association
    Client,
    /// The end that accepts it
    Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (scenario, point) = args.which.find()?;
    let workloads = scenario.traceable(&point);
    let at = workload(&workloads, args.workload.as_deref()).map_err(Failure::Usage)?;
    let its = &workloads[at];
    let flow = usize::from(args.flow);
    if flow > its.flows {
        return Err(Failure::Usage(format!(
            "workload `{}` has {} flows; --flow is {flow}",
            its.name, its.flows
        )));
    }
    let end = match args.side {
        Some(Side::Client) => TracedEnd::Client,
        Some(Side::Server) => TracedEnd::Server,
        None => its.sends,
    };
    let (vantage, side) = match end {
        TracedEnd::Client => (Vantage::Client, "client"),
        TracedEnd::Server => (Vantage::Server, "server"),
    };
    let cannot = |error: io::Error| Failure::File(format!("cannot write {}: {error}", args.output.display()));
    let title = format!("{} · {point} · seed {} · {} {side}", scenario.figure.id, args.which.seed, its.name);
    let file = File::create(&args.output).map_err(cannot)?;
    let mut writer = Writer {
        traced: Traced { workload: at, flow: flow - 1, end },
        from: args.from,
        to: args.from.saturating_add(args.lasts.unwrap_or(Duration::MAX)),
        file: Qlog::new(BufWriter::new(file), &title, vantage).map_err(cannot)?,
        failed: None,
        packets: 0,
        ended: Duration::ZERO,
    };
    args.which.watch(&scenario, &point, &mut writer);
    let Writer { file, failed, packets, ended, .. } = writer;
    failed.map_or(Ok(()), Err).and_then(|()| file.finish()).map_err(cannot)?;
    if packets == 0 {
        return Err(Failure::Usage(format!(
            "{} has no packets: the last one of this host is at {:.3} s; --from and --lasts choose others",
            args.output.display(),
            ended.as_secs_f64()
        )));
    }
    print(&format!(
        "{}: {point}: {} {side}, {packets} packets; braidlab view draws it\n",
        args.output.display(),
        its.name
    ))
}

/// The index of a workload over SCTP.
fn workload(workloads: &[Traceable], name: Option<&str>) -> Result<usize, String> {
    let known = || {
        let names: Vec<&str> =
            workloads.iter().filter(|its| !its.is_tcp).map(|its| its.name.as_str()).collect();
        match &names[..] {
            [] => "no workload of this point does".to_owned(),
            _ => format!("those that do: {}", names.join(", ")),
        }
    };
    match name {
        None => workloads.iter().position(|its| !its.is_tcp).ok_or_else(|| {
            "the events of this qlog are SCTP's, and no workload of this point runs over SCTP".to_owned()
        }),
        Some(name) => match workloads.iter().position(|its| its.name == name) {
            Some(at) if workloads[at].is_tcp => Err(format!(
                "workload `{name}` does not run over SCTP, whose events this qlog has; {}",
                known()
            )),
            Some(at) => Ok(at),
            None => {
                let names: Vec<&str> = workloads.iter().map(|its| its.name.as_str()).collect();
                Err(format!("no workload `{}`; there are {}", name.escape_debug(), names.join(", ")))
            }
        },
    }
}

/// Writes the events of a host as they happen.
struct Writer {
    traced: Traced,
    from: Duration,
    to: Duration,
    file: Qlog<BufWriter<File>>,
    /// The first error.
    failed: Option<io::Error>,
    packets: u64,
    /// The time of the last event.
    ended: Duration,
}

impl Watcher for Writer {
    fn every(&self) -> Duration {
        EVERY
    }

    fn look(&mut self, _: &Look) {}

    fn traces(&self) -> Option<Traced> {
        Some(self.traced)
    }

    fn trace(&mut self, events: Vec<HostEvent>) {
        for event in events {
            let (at, is_packet) = match &event {
                HostEvent::Packet(seen) => (seen.at, true),
                HostEvent::Stats(point) => (point.at, false),
            };
            let at = Duration::from_nanos(at.as_nanos());
            self.ended = at;
            if at < self.from || at >= self.to || self.failed.is_some() {
                continue;
            }
            self.packets += u64::from(is_packet);
            self.failed = self.file.event(&event).err();
        }
    }
}
