//! `braidlab compare`: runs cells of P2's Figures 6 to 8 in the simulator and live, and compares them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use braidftp_emu::tun::enter_user_namespace;
use braidftp_lab::bench::Reporter;
use braidftp_lab::compare::judge::{Judged, Median, TARGET, judge, overall, table};
use braidftp_lab::compare::live::{Bench, Scratch};
use braidftp_lab::compare::programs::{self, Programs};
use braidftp_lab::compare::rows::{self, Growing, Row, World};
use braidftp_lab::compare::{Carrier, Cell, FILES, FULL, QUICK, Selection, Way, select};
use braidftp_lab::store::csv::Head;
use clap::{Args as ClapArgs, ValueEnum};

use super::link::Signals;
use super::{Progress, command, print};
use crate::Failure;

/// Both differences were found in packet captures.
const TCP_DIFFERS: &str = "kernel TCP is reported and not judged: vsftpd says 226 when the client has closed the data connection too, \
                           and its replies wait for the client's delayed acknowledgements: up to a round trip a file that the \
                           simulated server does not take";

/// The default numbers of simulated and live runs of a cell; deterministic cells are run once and twice.
const QUICK_RUNS: (u32, u32) = (40, 8);
const FULL_RUNS: (u32, u32) = (100, 10);
/// Concurrent live runs per core; a run mostly waits.
const RUNS_PER_CORE: usize = 12;

/// Run cells of P2's Figures 6 to 8 in the simulator and live, and compare them: braidftp over SCTP, and
/// lftp with vsftpd over kernel TCP, through the same emulated links.
///
/// Needs root, or a user namespace and an accessible /dev/net/tun. As root, lftp and vsftpd are installed
/// by apt-get.
///
/// Example: sudo braidlab compare --quick; braidlab compare --cells 'lan/10k/*/ms,wan/50k/3/*' --runs 20
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Run a few cells a few times, in two to four minutes
    #[arg(long)]
    quick: bool,
    /// The cells, as PATH/SIZE/LOSS/WAY with * for any, separated by commas: lan, wan, sat; 10k, 50k, 200k,
    /// 500k, 1000k; 0, 1, 3, 6, 10 (%); naive, ms, ms-cp, braid, tcp, tcp-sack
    #[arg(long, value_delimiter = ',')]
    cells: Vec<Selection>,
    /// The number of live runs of each cell [default: 10, with --quick 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: Option<u32>,
    /// The folder of results: DIR/compare.csv, with --quick DIR/compare-quick.csv
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Leave out cells whose simulated runs take longer than this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    longest: u32,
    /// Concurrent live runs [default: 12 per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// The lower layer of SCTP: UDP, or IP (needs root)
    #[arg(long, value_enum, default_value_t = CarrierName::Udp)]
    carrier: CarrierName,
    /// The base of all seeds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program braidftp [default: the one beside this program, which `cargo run` builds]
    #[arg(long, value_name = "FILE")]
    braidftp: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CarrierName {
    Udp,
    Ip,
}

impl From<CarrierName> for Carrier {
    fn from(name: CarrierName) -> Self {
        match name {
            CarrierName::Udp => Self::Udp,
            CarrierName::Ip => Self::Ip,
        }
    }
}

/// A planned run.
#[derive(Debug, Clone, Copy)]
struct Job {
    cell: Cell,
    world: World,
    run: u32,
    seed: u64,
    /// The expected duration.
    usual: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Must happen before a second thread exists.
    let namespace = enter_user_namespace();
    let mut cells = chosen(args)?;
    let some = |which: fn(Way) -> bool| cells.iter().any(|cell| which(cell.way));
    let braidftp = if some(Way::is_sctp) { Some(programs::braidftp(args.braidftp.as_deref())) } else { None };
    let ftp = if some(|way| !way.is_sctp()) { programs::ftp() } else { Err(String::new()) };
    let mut notes: Vec<String> = namespace.err().into_iter().map(|error| error.to_string()).collect();
    if let Err(why) = &ftp
        && some(|way| !way.is_sctp())
    {
        notes.push(format!("left out kernel TCP: {why}"));
        cells.retain(|cell| cell.way.is_sctp());
    }
    let braidftp = braidftp.transpose().map_err(Failure::Usage)?.unwrap_or_default();
    if cells.is_empty() {
        return Err(Failure::Usage(notes.join("; ")));
    }
    let scratch = Scratch::new().map_err(|error| Failure::File(format!("cannot make a folder: {error}")))?;
    let folder = scratch.folder().to_owned();
    let bench =
        Arc::new(Bench { programs: Programs { braidftp, ftp }, carrier: args.carrier.into(), scratch });
    end_on_signal(folder)?;

    let mut progress = Progress::new();
    for note in &notes {
        progress.on_note(note);
    }
    let failed =
        |error: std::io::Error| Failure::File(format!("cannot write into {}: {error}", args.out.display()));
    let mut growing =
        Growing::begin(rows::path(&args.out, args.quick), &head(args, bench.carrier)).map_err(failed)?;
    let (simulated_runs, live_runs) = if args.quick { QUICK_RUNS } else { FULL_RUNS };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);

    // Simulated first: the results show which live runs would take too long.
    let jobs = jobs(&cells, World::Simulated, simulated_runs, 1, args.seed, |_| 0.0);
    let mut rows = work(&bench, jobs, cores, &mut growing, &mut progress, &mut notes)?;
    let median = |cell: &Cell| {
        let seconds: Vec<f64> = rows.iter().filter(|row| row.cell == *cell).map(|row| row.seconds).collect();
        Median::of(&seconds).value
    };
    let (live, long): (Vec<Cell>, Vec<Cell>) =
        cells.iter().partition(|cell| median(cell) <= f64::from(args.longest));
    if !long.is_empty() {
        let names: Vec<String> = long.iter().map(Cell::to_string).collect();
        notes.push(format!(
            "not run live, because they take more than {} s: {}",
            args.longest,
            names.join(" ")
        ));
    }
    let jobs = self::jobs(&live, World::Live, args.runs.unwrap_or(live_runs), 2, args.seed, median);
    let at_a_time = args.jobs.map_or(RUNS_PER_CORE * cores, usize::from);
    rows.extend(work(&bench, jobs, at_a_time, &mut growing, &mut progress, &mut notes)?);
    drop(progress);

    let path = growing.finish().map_err(failed)?;
    let judged = judge(&rows);
    if judged.iter().any(|it| !it.cell.way.is_sctp()) {
        notes.push(TCP_DIFFERS.to_owned());
    }
    let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
    print(&format!("{}\n{notes}{}\n", table(&judged), path.display()))?;
    verdict(&judged)
}

fn chosen(args: &Args) -> Result<Vec<Cell>, Failure> {
    let named = if args.quick { QUICK } else { FULL };
    let named: Vec<Selection> =
        named.iter().map(|name| name.parse().expect("they are names of cells, a test says so")).collect();
    Ok(select(if args.cells.is_empty() { &named } else { &args.cells }))
}

/// Returns every run of the cells in one world, the longest first.
fn jobs(
    cells: &[Cell],
    world: World,
    runs: u32,
    runs_if_fixed: u32,
    base: u64,
    usual: impl Fn(&Cell) -> f64,
) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for cell in cells {
        let runs = if cell.is_random() { runs } else { runs.min(runs_if_fixed) };
        let usual = usual(cell);
        jobs.extend((0..runs).map(|run| Job { cell: *cell, world, run, seed: cell.seed(run, base), usual }));
    }
    jobs.sort_by(|a, b| b.usual.total_cmp(&a.usual));
    jobs
}

/// Runs jobs, a limited number at a time. Failed runs are noted and give no row.
fn work(
    bench: &Arc<Bench>,
    jobs: Vec<Job>,
    at_a_time: usize,
    growing: &mut Growing,
    progress: &mut Progress,
    notes: &mut Vec<String>,
) -> Result<Vec<Row>, Failure> {
    let planned = jobs.len();
    let waiting = Arc::new(Mutex::new(VecDeque::from(jobs)));
    let (done, results) = channel();
    let workers: Vec<_> = (0..at_a_time.min(planned))
        .map(|_| {
            let (bench, waiting, done) = (bench.clone(), waiting.clone(), done.clone());
            std::thread::spawn(move || worker(&bench, &waiting, &done))
        })
        .collect();
    drop(done);
    let mut rows = Vec::new();
    for (at, (job, result)) in results.iter().enumerate() {
        match result {
            Ok(seconds) => {
                let row = Row { cell: job.cell, world: job.world, run: job.run, seed: job.seed, seconds };
                growing.add(&row).map_err(|error| {
                    Failure::File(format!("cannot write to {}: {error}", growing.part().display()))
                })?;
                rows.push(row);
            }
            Err(why) => {
                let note = format!("{} {}, seed {}, failed: {why}", job.cell, job.world, job.seed);
                progress.on_note(&note);
                notes.push(note);
            }
        }
        progress.on_run(at as u64 + 1, planned as u64);
    }
    for worker in workers {
        if let Err(panic) = worker.join() {
            std::panic::resume_unwind(panic);
        }
    }
    // If no run succeeded, they all failed for the same reason.
    match rows.is_empty() {
        true => Err(Failure::Usage(notes.pop().unwrap_or_else(|| "no cell to run".to_owned()))),
        false => Ok(rows),
    }
}

fn worker(bench: &Bench, waiting: &Mutex<VecDeque<Job>>, done: &Sender<(Job, Result<f64, String>)>) {
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    while let Some(job) = next() {
        let result = match job.world {
            World::Simulated => job.cell.simulate(job.seed, bench.carrier),
            World::Live => bench.run(&job.cell, job.seed, Cell::patience(job.usual)),
        };
        if done.send((job, result)).is_err() {
            return;
        }
    }
}

/// A signal ends the program at once: the programs in its nets end with it, and the nets belong to it.
pub(super) fn end_on_signal(folder: PathBuf) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    std::thread::spawn(move || {
        signals.wait(None);
        let _ = std::fs::remove_dir_all(folder);
        std::process::exit(130);
    });
    Ok(())
}

/// The provenance of the rows.
fn head(args: &Args, carrier: Carrier) -> Head {
    let mut head = Head::of_program(&command());
    head.push("seeds", format!("from {}, the same for all ways and in both worlds", args.seed));
    head.push(
        "setting",
        format!(
            "{FILES} files, from the first command for the first to the end of the last; drop-tail 500 kB"
        ),
    );
    let of =
        |carrier: Carrier| format!("{} bytes of headers around SCTP's packets", carrier.overhead_bytes());
    head.push("setting", format!("naive, ms, ms-cp: braidftp, profile rfc2960-kame; {}", of(carrier)));
    head.push("setting", format!("braid: braidftp, profile modern; {}", of(carrier)));
    head.push(
        "setting",
        "tcp: lftp and vsftpd, the kernel's Reno without SACK, RACK, TLP and F-RTO, initcwnd 4, rto_min 1 s, window 57344; \
         simulated: newreno-bsd46",
    );
    head.push(
        "setting",
        "tcp-sack: lftp and vsftpd, the kernel's CUBIC with SACK as it comes; simulated: modern",
    );
    head
}

fn verdict(judged: &[Judged]) -> Result<(), Failure> {
    match overall(judged, Way::is_sctp) {
        Some(median) if !TARGET.contains(&median.value) => Err(Failure::Usage(format!(
            "the median ratio over SCTP is not within {} to {}: {median}",
            TARGET.start(),
            TARGET.end()
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_runs_come_first_and_deterministic_cells_run_only_twice() {
        let cells = select(&["lan/10k/*/ms".parse().unwrap()]);
        let jobs = jobs(&cells, World::Live, 5, 2, 1, |cell| f64::from(cell.loss));
        let losses: Vec<u32> = jobs.iter().map(|job| job.cell.loss).collect();
        assert_eq!(losses, [vec![10; 5], vec![6; 5], vec![3; 5], vec![1; 5], vec![0; 2]].concat());
        assert_eq!(jobs[0].seed, cells[4].seed(0, 1));
    }

    #[test]
    fn a_median_beyond_the_target_is_a_failure() {
        let cell = select(&["lan/10k/1/ms".parse().unwrap()])[0];
        let judged = |ratio: f64| {
            let row = |world, seconds| Row { cell, world, run: 0, seed: 0, seconds };
            judge(&[row(World::Simulated, 10.0), row(World::Live, 10.0 * ratio)])
        };
        assert!(verdict(&judged(1.09)).is_ok());
        assert!(verdict(&judged(0.89)).is_err());
        assert!(verdict(&[]).is_ok());
    }
}
