//! Runs scenarios, each from a seed, and prints how to replay those that fail.
//!
//! This binary may read the time of day; the scenarios may not.
#![allow(clippy::disallowed_types, reason = "a soak of so many seconds needs a clock; no scenario sees it")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use braidftp_pcap::{Carrier, Direction, Packet, Writer};
use braidftp_sctp::wire;
use braidftp_sim::protection::Identity;
use braidftp_sim::scenario::Scenario;
use braidftp_sim::world::{Seen, Sight};
use braidftp_sim::{on_path, record};

const HELP: &str = "\
soak [OPTIONS]    order, exactly-once delivery and an end, under faults drawn from a seed

  --seeds N       run N seeds [default: 1000]
  --seconds N     run seeds for N seconds instead
  --from SEED     the first seed; the others follow it [default: taken from the time of day]
  --jobs N        so many at a time [default: one a processor]
  --attacker      protected associations, and an attacker on the path (braidftp_sim::on_path)
  --seed SEED     run this one and tell what it is
  --pcap FILE     with --seed: write what the hosts send and get, as pcapng
  --log           with --seed: print the same in packetdrill's notation
  --samples DIR   with --seed: write a packet of each kind that the hosts send, a file each
";
/// The number of failures after which the run ends.
const FAILURES_MAX: usize = 10;
/// The number of samples written per kind of packet.
const SAMPLES_OF_A_KIND: usize = 2;

#[derive(Debug, Default)]
struct Args {
    seeds: Option<u64>,
    seconds: Option<u64>,
    from: Option<u64>,
    jobs: Option<u64>,
    subject: Subject,
    replay: Replay,
}

/// What is run for each seed.
#[derive(Debug, Default, Clone)]
enum Subject {
    /// Faults of networks and hosts.
    #[default]
    Faults,
    /// An attacker on the path of protected associations.
    Attacker(Box<Identity>),
}

/// The result of a run.
#[derive(Debug, Default, Clone, Copy)]
struct Outcome {
    packets: u64,
    took: Duration,
    attacks: u64,
}

impl From<braidftp_sim::scenario::Outcome> for Outcome {
    fn from(outcome: braidftp_sim::scenario::Outcome) -> Self {
        Self { packets: outcome.packets, took: outcome.took, attacks: 0 }
    }
}

impl From<on_path::Outcome> for Outcome {
    fn from(outcome: on_path::Outcome) -> Self {
        Self { packets: outcome.packets, took: outcome.took, attacks: outcome.attacks }
    }
}

impl Subject {
    fn run(&self, seed: u64) -> Result<Outcome, String> {
        match self {
            Self::Faults => Scenario::from_seed(seed).run().map(Outcome::from),
            Self::Attacker(identity) => on_path::Trial::from_seed(seed).run(identity).map(Outcome::from),
        }
    }

    fn watch(&self, seed: u64, see: impl FnMut(Seen)) -> Result<Outcome, String> {
        match self {
            Self::Faults => Scenario::from_seed(seed).watch(see).map(Outcome::from),
            Self::Attacker(identity) => {
                on_path::Trial::from_seed(seed).watch(identity, see).map(Outcome::from)
            }
        }
    }

    /// What the run of a seed is.
    fn describe(&self, seed: u64) -> String {
        match self {
            Self::Faults => Scenario::from_seed(seed).to_string(),
            Self::Attacker(_) => on_path::Trial::from_seed(seed).to_string(),
        }
    }

    /// The option that replays need.
    fn option(&self) -> &'static str {
        match self {
            Self::Faults => "",
            Self::Attacker(_) => " --attacker",
        }
    }
}

/// The replay of one seed, and what to record of it.
#[derive(Debug, Default)]
struct Replay {
    seed: Option<u64>,
    pcap: Option<String>,
    samples: Option<String>,
    log: Log,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Log {
    #[default]
    No,
    Packets,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprint!("soak: {error}\n\n{HELP}");
            return ExitCode::FAILURE;
        }
    };
    match args.replay.seed {
        Some(seed) => match replay(seed, &args) {
            Ok(code) => code,
            Err(error) => {
                eprintln!("soak: cannot write the record: {error}");
                ExitCode::FAILURE
            }
        },
        None => soak(&args),
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let mut args = Args::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| {
            text.parse::<u64>().map_err(|_| format!("`{}` is not a number", text.escape_debug()))
        };
        match word.as_str() {
            "--seeds" => args.seeds = Some(number(value()?)?),
            "--seconds" => args.seconds = Some(number(value()?)?),
            "--from" => args.from = Some(number(value()?)?),
            "--jobs" => args.jobs = Some(number(value()?)?),
            "--seed" => args.replay.seed = Some(number(value()?)?),
            "--pcap" => args.replay.pcap = Some(value()?),
            "--samples" => args.replay.samples = Some(value()?),
            "--log" => args.replay.log = Log::Packets,
            "--attacker" => args.subject = Subject::Attacker(Box::new(Identity::new())),
            "-h" | "--help" => return Ok(None),
            _ => return Err(format!("there is no option `{}`", word.escape_debug())),
        }
    }
    let Replay { seed, pcap, samples, log } = &args.replay;
    if seed.is_none() && (pcap.is_some() || samples.is_some() || *log == Log::Packets) {
        return Err("--pcap, --log and --samples need --seed".into());
    }
    Ok(Some(args))
}

/// The progress of all threads.
#[derive(Debug, Default)]
struct Progress {
    runs: u64,
    packets: u64,
    attacks: u64,
    virtual_time: Duration,
    failures: Vec<u64>,
}

fn soak(args: &Args) -> ExitCode {
    let started = Instant::now();
    let time_of_day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Short enough to type.
    let first = args.from.unwrap_or((time_of_day.as_nanos() as u64 >> 10) % 1_000_000_000);
    let seconds = args.seconds.map(Duration::from_secs);
    let seeds = args.seeds.unwrap_or(if seconds.is_some() { u64::MAX } else { 1_000 });
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let progress = Mutex::new(Progress::default());
    let next = || {
        let mut progress = progress.lock().expect("no thread panics while it counts");
        let goes_on = progress.runs < seeds
            && seconds.is_none_or(|limit| started.elapsed() < limit)
            && progress.failures.len() < FAILURES_MAX;
        goes_on.then(|| {
            progress.runs += 1;
            first.wrapping_add(progress.runs - 1)
        })
    };
    let work = || {
        while let Some(seed) = next() {
            let result = run(|| args.subject.run(seed));
            let mut progress = progress.lock().expect("no thread panics while it counts");
            match result {
                Ok(outcome) => {
                    progress.packets += outcome.packets;
                    progress.attacks += outcome.attacks;
                    progress.virtual_time += outcome.took;
                }
                Err(error) => {
                    println!("seed {seed} failed: {error}");
                    let option = args.subject.option();
                    println!(
                        "  replay: cargo run --release -p braidftp-sim --bin soak -- --seed {seed}{option}"
                    );
                    progress.failures.push(seed);
                }
            }
        }
    };
    // A failure is printed once, with its seed.
    let words = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.unwrap_or(processors).max(1) {
            scope.spawn(work);
        }
    });
    std::panic::set_hook(words);
    let Progress { runs, packets, attacks, virtual_time, failures } =
        progress.into_inner().expect("no thread panics while it counts");
    println!(
        "soak: {runs} seeds from {first}, {} failed; {packets} packets, {:.0} virtual seconds in {:.1}",
        failures.len(),
        virtual_time.as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
    if attacks > 0 {
        println!("soak: the attacker acted {attacks} times");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, args: &Args) -> std::io::Result<ExitCode> {
    let how = &args.replay;
    print!("{}", args.subject.describe(seed));
    let create =
        |path: &String| File::create(path).and_then(|file| Writer::new(BufWriter::new(file), Duration::ZERO));
    let mut writer = how.pcap.as_ref().map(create).transpose()?;
    let mut samples = how.samples.as_deref().map(Samples::new).transpose()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut trouble = None;
    let mut see = |seen: Seen| -> std::io::Result<()> {
        if let Some(writer) = &mut writer {
            writer.write(packet(&seen))?;
        }
        if how.log == Log::Packets {
            writeln!(out, "{}", record::line(&seen))?;
        }
        if let Some(samples) = samples.as_mut().filter(|_| seen.what == Sight::Sent) {
            samples.take(&seen.datagram.payload)?;
        }
        Ok(())
    };
    let result = run(|| args.subject.watch(seed, |seen| trouble = see(seen).err().or(trouble.take())));
    out.flush()?;
    drop(out);
    if let Some(writer) = &mut writer {
        writer.flush()?;
    }
    if let Some(error) = trouble {
        return Err(error);
    }
    Ok(match result {
        Ok(outcome) => {
            println!("ended well: {outcome:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Packets as a fuzzing corpus: some of each sequence of chunk types.
struct Samples<'a> {
    folder: &'a Path,
    written: BTreeMap<Vec<u8>, usize>,
}

impl<'a> Samples<'a> {
    fn new(folder: &'a str) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: Path::new(folder), written: BTreeMap::new() })
    }

    fn take(&mut self, packet: &bytes::Bytes) -> std::io::Result<()> {
        let Ok(decoded) = wire::Packet::decode_observed(packet.clone()) else { return Ok(()) };
        let mut kinds: Vec<u8> = decoded.chunks().flatten().map(|chunk| chunk.kind()).collect();
        kinds.dedup();
        // Long packets add nothing over short ones.
        if packet.len() > 512 {
            return Ok(());
        }
        let written = self.written.entry(kinds.clone()).or_default();
        if *written >= SAMPLES_OF_A_KIND {
            return Ok(());
        }
        *written += 1;
        let name: Vec<String> = kinds.iter().map(u8::to_string).collect();
        std::fs::write(self.folder.join(format!("{}-{written}", name.join("-"))), packet)
    }
}

fn run(scenario: impl FnOnce() -> Result<Outcome, String>) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(scenario)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
        Err(format!("panic: {}", words.unwrap_or_default()))
    })
}

fn packet(seen: &Seen) -> Packet<'_> {
    Packet {
        at: seen.at,
        direction: match seen.what {
            Sight::Sent => Direction::Out,
            Sight::Arrived => Direction::In,
        },
        carrier: Carrier::Udp,
        from: seen.datagram.from,
        to: seen.datagram.to,
        ecn: seen.datagram.ecn,
        payload: &seen.datagram.payload,
        segment_size: None,
        comment: "",
    }
}
