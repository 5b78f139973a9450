//! Runs scenario after scenario, each from a seed, and says how to replay those that fail.
//!
//! It is the one program of this crate, so it may know the time of day; the scenarios may not.
#![allow(clippy::disallowed_types, reason = "a soak of so many seconds needs a clock; no scenario sees it")]

use std::fs::File;
use std::io::BufWriter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use braidftp_pcap::{Carrier, Direction, Packet, Writer};
use braidftp_sim::scenario::{Outcome, Scenario};
use braidftp_sim::world::{Seen, Sight};

const HELP: &str = "\
soak [OPTIONS]    order, exactly-once delivery and an end, under faults drawn from a seed

  --seeds N       run N seeds [default: 1000]
  --seconds N     run seeds for N seconds instead
  --from SEED     the first seed; the others follow it [default: taken from the time of day]
  --seed SEED     run this one and tell what it is
  --pcap FILE     with --seed: write what the hosts send and get, as pcapng
";
/// So many failures are enough to look at.
const FAILURES_MAX: usize = 10;

#[derive(Debug, Default)]
struct Args {
    seeds: Option<u64>,
    seconds: Option<u64>,
    from: Option<u64>,
    seed: Option<u64>,
    pcap: Option<String>,
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
    match args.seed {
        Some(seed) => replay(seed, args.pcap.as_deref()),
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
            "--seed" => args.seed = Some(number(value()?)?),
            "--pcap" => args.pcap = Some(value()?),
            "-h" | "--help" => return Ok(None),
            _ => return Err(format!("there is no option `{}`", word.escape_debug())),
        }
    }
    if args.pcap.is_some() && args.seed.is_none() {
        return Err("--pcap needs --seed".into());
    }
    Ok(Some(args))
}

fn soak(args: &Args) -> ExitCode {
    let started = Instant::now();
    let time_of_day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Short enough to type.
    let first = args.from.unwrap_or((time_of_day.as_nanos() as u64 >> 10) % 1_000_000_000);
    let seconds = args.seconds.map(Duration::from_secs);
    let seeds = args.seeds.unwrap_or(if seconds.is_some() { u64::MAX } else { 1_000 });
    let (mut runs, mut packets, mut virtual_time) = (0_u64, 0, Duration::ZERO);
    let mut failures = Vec::new();
    // A failure is told once, with its seed.
    let words = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    while runs < seeds
        && seconds.is_none_or(|limit| started.elapsed() < limit)
        && failures.len() < FAILURES_MAX
    {
        let seed = first.wrapping_add(runs);
        runs += 1;
        match run(|| Scenario::from_seed(seed).run()) {
            Ok(outcome) => {
                packets += outcome.packets;
                virtual_time += outcome.took;
            }
            Err(error) => {
                println!("seed {seed} failed: {error}");
                println!("  replay: cargo run --release -p braidftp-sim --bin soak -- --seed {seed}");
                failures.push(seed);
            }
        }
    }
    std::panic::set_hook(words);
    println!(
        "soak: {runs} seeds from {first}, {} failed; {packets} packets, {:.0} virtual seconds in {:.1}",
        failures.len(),
        virtual_time.as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, pcap: Option<&str>) -> ExitCode {
    print!("{}", Scenario::from_seed(seed));
    let mut writer = match pcap
        .map(|path| File::create(path).and_then(|file| Writer::new(BufWriter::new(file), Duration::ZERO)))
    {
        None => None,
        Some(Ok(writer)) => Some(writer),
        Some(Err(error)) => {
            eprintln!("soak: cannot write the capture file: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trouble = None;
    let result = run(|| {
        let scenario = Scenario::from_seed(seed);
        let Some(writer) = &mut writer else { return scenario.run() };
        scenario.watch(|seen| trouble = writer.write(packet(&seen)).err().or(trouble.take()))
    });
    if let Some(writer) = &mut writer {
        trouble = writer.flush().err().or(trouble);
    }
    if let Some(error) = trouble {
        eprintln!("soak: cannot write the capture file: {error}");
    }
    match result {
        Ok(outcome) => {
            println!("ended well: {outcome:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
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
