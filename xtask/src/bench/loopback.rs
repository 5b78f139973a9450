//! `cargo xtask bench loopback`: one flow between two processes, for this stack unprotected and protected,
//! quinn, usrsctp, and the kernel's TCP with TLS (nginx and curl).
//!
//! The processes are in two network namespaces, joined by a veth pair with an MTU of 1,500 bytes (root); with
//! `--link loopback` both use 127.0.0.1, without TCP. Each round runs all of them one after another, every other
//! round in reverse, so that other load on the machine affects all alike. Each end runs on its own half of the
//! processors (`link`). Ratios are taken within a round, and medians over the rounds. Rounds with those that a
//! target compares follow until the interval of each median excludes its target, and at most `--rounds`. The interval
//! is that of the sign test, looked at after [`LOOKS`] rounds only: a look after every round would sooner or later
//! exclude a target by chance. All looks together err with a probability of at most 1 %.
//!
//! usrsctp has several threads, which share the processors of their end.
//!
//! This stack and quinn write 64 KiB at a time, usrsctp 1,400 bytes (its packets hold one message); this
//! stack is also run with messages of 1,400 bytes. usrsctp has checksums on and buffers of 4 MB, as its tsctp
//! is run. quinn, nginx with curl, and the protected association use TLS 1.3 with the cipher suite that each
//! prefers: AES-256-GCM, and the protected association AES-128-GCM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::flow::{self, Outcome, Running, left_out};
use super::link::{End, Link};
use super::{median, median_interval};
use crate::peers::{Proof, install};
use crate::shell::capture;

const USAGE: &str =
    "usage: cargo xtask bench loopback [--rounds N] [--quick] [--link veth|loopback] [--only TEXT,...]";

/// The number of rounds of those that no target compares.
const ROUNDS_OF_ALL: usize = 3;
/// The numbers of rounds after which the intervals are looked at. Of fewer than ten rounds, a median has no interval of
/// [`LOOK_CONFIDENCE`].
const LOOKS: [usize; 4] = [10, 20, 40, 60];
/// The probability that all of these intervals contain their median, at least.
const CONFIDENCE: f64 = 0.99;
/// The confidence of the interval of a median at one look (Bonferroni).
const LOOK_CONFIDENCE: f64 = 1.0 - (1.0 - CONFIDENCE) / LOOKS.len() as f64;

/// The required multiple of usrsctp's goodput, unprotected over loopback.
const USRSCTP_TARGET: f64 = 4.0;
/// The required multiple of quinn's goodput, protected.
const QUINN_TARGET: f64 = 1.0;
/// The required fraction of the unprotected goodput, protected.
const PLAIN_TARGET: f64 = 0.6;

const PLAIN: &str = "ours";
const PROTECTED: &str = "ours, protected";
const USRSCTP: &str = "usrsctp";
const QUINN: &str = "quinn";

/// The packages needed for TCP with TLS.
const TLS_PACKAGES: &[(Proof, &str)] = &[
    (Proof::File("/usr/sbin/nginx"), "nginx-light"),
    (Proof::Program("curl"), "curl"),
    (Proof::Program("openssl"), "openssl"),
];

/// A sender and a receiver under test.
#[derive(Debug)]
struct Contestant {
    name: &'static str,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A program that is both, and its arguments.
    Peer { program: PathBuf, options: Vec<String> },
    /// nginx and curl; the folder with the server's file, certificate and configuration.
    Tls { home: PathBuf },
}

struct Options {
    rounds: usize,
    bytes: u64,
    quick: bool,
    over_loopback: bool,
    only: Option<String>,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let mut options = Self {
            rounds: LOOKS[LOOKS.len() - 1],
            bytes: 500_000_000,
            quick: false,
            over_loopback: false,
            only: None,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().context(USAGE);
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse().context("--rounds takes a number")?,
                "--quick" => options.quick = true,
                "--only" => options.only = Some(value()?.clone()),
                "--link" => {
                    options.over_loopback = match value()?.as_str() {
                        "veth" => false,
                        "loopback" => true,
                        other => bail!("there is no link `{other}`\n{USAGE}"),
                    }
                }
                _ => bail!("{USAGE}"),
            }
        }
        if options.quick {
            (options.rounds, options.bytes) = (1, 100_000_000);
        }
        if options.rounds == 0 {
            bail!("--rounds takes a number from 1 on");
        }
        Ok(options)
    }
}

/// Runs the benchmark and prints the table.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::read(args)?;
    let mut contestants = contestants(&options)?;
    if let Some(only) = &options.only {
        contestants.retain(|contestant| only.split(',').any(|text| contestant.name.contains(text)));
    }
    if contestants.is_empty() {
        bail!("no contestant's name contains what --only says");
    }
    let link = if options.over_loopback { Link::Loopback } else { Link::veth()? };
    let comparisons = comparisons(&contestants, options.over_loopback);
    let is_compared = |nth: usize| comparisons.iter().any(|it| nth == it.ours || nth == it.theirs);
    let mut results: Vec<Vec<Outcome>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds {
        let is_open = comparisons.iter().any(|it| it.verdict(&results) == Verdict::Open);
        let mut order: Vec<usize> = (0..contestants.len())
            .filter(|nth| round <= ROUNDS_OF_ALL || (is_open && is_compared(*nth)))
            .collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for nth in order {
            let name = contestants[nth].name;
            let outcome = contestants[nth]
                .run(&link, options.bytes)
                .with_context(|| format!("{name}, round {round}"))?;
            eprintln!("round {round}: {name:<24} {:>7.0} Mbit/s", outcome.mbit_per_second);
            results[nth].push(outcome);
        }
    }
    println!("\nOne flow over {link}, {} MB, two processes; medians\n", options.bytes / 1_000_000);
    print_table(&contestants, &results);
    let mut missed = Vec::new();
    for comparison in &comparisons {
        let text = comparison.text(&contestants, &results);
        println!("{text}");
        if comparison.verdict(&results) != Verdict::Reached {
            missed.push(text);
        }
    }
    if !missed.is_empty() && !options.quick {
        bail!("not shown to be reached: {}", missed.join("; "));
    }
    Ok(())
}

/// A target: the goodput of one contestant as a multiple of another's.
#[derive(Debug)]
struct Comparison {
    ours: usize,
    theirs: usize,
    target: f64,
}

/// Whether a target is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reached,
    Missed,
    /// The interval of the median contains the target, or there were too few rounds for one.
    Open,
}

/// The targets whose contestants both take part.
fn comparisons(contestants: &[Contestant], over_loopback: bool) -> Vec<Comparison> {
    let mut targets = vec![(PROTECTED, QUINN, QUINN_TARGET), (PROTECTED, PLAIN, PLAIN_TARGET)];
    if over_loopback {
        targets.push((PLAIN, USRSCTP, USRSCTP_TARGET));
    }
    let of = |name: &str| contestants.iter().position(|contestant| contestant.name == name);
    let comparison =
        |(ours, theirs, target)| Some(Comparison { ours: of(ours)?, theirs: of(theirs)?, target });
    targets.into_iter().filter_map(comparison).collect()
}

impl Comparison {
    fn ratios(&self, results: &[Vec<Outcome>]) -> Vec<f64> {
        ratios(&results[self.ours], &results[self.theirs])
    }

    /// The first look whose interval excludes the target, or else the last one: its number of rounds and the interval.
    /// `None` if there were too few rounds for any.
    fn decisive_look(&self, results: &[Vec<Outcome>]) -> Option<(usize, [f64; 2])> {
        let ratios = self.ratios(results);
        let mut last = None;
        for look in LOOKS.into_iter().filter(|look| *look <= ratios.len()) {
            let interval = median_interval(ratios[..look].to_vec(), LOOK_CONFIDENCE)?;
            last = Some((look, interval));
            if self.judge(interval) != Verdict::Open {
                break;
            }
        }
        last
    }

    fn judge(&self, [least, most]: [f64; 2]) -> Verdict {
        match () {
            () if least >= self.target => Verdict::Reached,
            () if most < self.target => Verdict::Missed,
            () => Verdict::Open,
        }
    }

    fn verdict(&self, results: &[Vec<Outcome>]) -> Verdict {
        self.decisive_look(results).map_or(Verdict::Open, |(_, interval)| self.judge(interval))
    }

    /// The ratio, its interval, the target and the verdict.
    fn text(&self, contestants: &[Contestant], results: &[Vec<Outcome>]) -> String {
        let look = self.decisive_look(results);
        let mut ratios = self.ratios(results);
        ratios.truncate(look.map_or(ratios.len(), |(rounds, _)| rounds));
        let (count, ratio) = (ratios.len(), median(ratios));
        let between = match look {
            Some((_, [least, most])) => format!("{least:.2} to {most:.2} with {CONFIDENCE} confidence"),
            None => "too few for an interval".to_owned(),
        };
        format!(
            "`{}` is {ratio:.2} times `{}` in {count} round(s) ({between}); the target is {}: {:?}",
            contestants[self.ours].name,
            contestants[self.theirs].name,
            self.target,
            self.verdict(results)
        )
    }
}

/// Builds the contestants; those that cannot be built here are left out with a notice.
fn contestants(options: &Options) -> Result<Vec<Contestant>> {
    let (ours, peers) = (flow::ours()?, flow::peers_folder()?);
    let peer = |name, program: &Path, options: &[String]| Contestant {
        name,
        what: What::Peer { program: program.to_owned(), options: options.to_vec() },
    };
    let trust = format!("trust={}", peers.join("blast.der").display());
    let short = "message=1400".to_owned();
    let mut contestants = vec![
        peer(PLAIN, &ours, &[]),
        peer("ours, 1,400 B messages", &ours, std::slice::from_ref(&short)),
        peer(PROTECTED, &ours, &[trust]),
    ];
    if !options.over_loopback {
        // Raw sockets at one address would receive each other's packets.
        contestants.push(peer("ours, protocol 132", &ours, &["carrier=ip".to_owned()]));
    }
    contestants.extend(flow::quinn()?.map(|program| peer(QUINN, &program, &[])));
    contestants.extend(flow::usrsctp()?.map(|program| peer(USRSCTP, &program, &[short])));
    if !options.over_loopback {
        match install(TLS_PACKAGES).and_then(|()| tls_home(&peers, options.bytes)) {
            Ok(home) => {
                contestants.push(Contestant { name: "TCP, TLS (nginx, curl)", what: What::Tls { home } })
            }
            Err(error) => left_out("TCP with TLS", &error, "apt install nginx-light curl openssl"),
        }
    }
    Ok(contestants)
}

/// The port of nginx.
const TLS_PORT: u16 = 8443;

/// Creates the folder for nginx: a sparse file of this many bytes, a certificate, and the configuration.
fn tls_home(peers: &Path, bytes: u64) -> Result<PathBuf> {
    let dir = peers.join("nginx");
    fs::create_dir_all(dir.join("files"))?;
    fs::File::create(dir.join("files/file"))?.set_len(bytes)?;
    let home = dir.display();
    let address = Link::VETH_SENDER;
    let text = format!(
        "daemon off; master_process off; pid {home}/pid; error_log {home}/error.log;\n\
         events {{}}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; client_body_temp_path {home}/body;\n\
         proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi;\n\
         scgi_temp_path {home}/scgi;\n\
         server {{ listen {address}:{TLS_PORT} ssl; ssl_protocols TLSv1.3; ssl_certificate {home}/cert.pem;\n\
         ssl_certificate_key {home}/key.pem; root {home}/files; }} }}\n"
    );
    fs::write(dir.join("nginx.conf"), text)?;
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    make.args(["-days", "2", "-subj", "/CN=bench", "-keyout"]).arg(dir.join("key.pem"));
    capture(make.arg("-out").arg(dir.join("cert.pem"))).context("making a certificate for nginx")?;
    Ok(dir)
}

impl Contestant {
    fn run(&self, link: &Link, bytes: u64) -> Result<Outcome> {
        match &self.what {
            What::Peer { program, options } => flow::run(link, program, options, bytes),
            What::Tls { home } => run_tls(link, home, bytes),
        }
    }
}

/// nginx sends a file, and curl discards it.
fn run_tls(link: &Link, home: &Path, bytes: u64) -> Result<Outcome> {
    let mut nginx = link.command(End::Sender, Path::new("/usr/sbin/nginx"));
    nginx.arg("-p").arg(home).arg("-c").arg(home.join("nginx.conf")).stdin(Stdio::null());
    let server = Running(nginx.spawn().context("cannot run nginx")?);
    let url = format!("https://{}:{TLS_PORT}/file", Link::VETH_SENDER);
    let mut curl = link.command(End::Receiver, Path::new("sh"));
    // `times` prints the CPU time of the shell, and that of its children in the next line.
    let script = "curl -s -S -k --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null \
                  -w '%{size_download} %{time_starttransfer} %{time_total}\n' \"$0\" && times";
    let said = capture(curl.args(["-c", script, &url]).stdin(Stdio::null()))?;
    let said = String::from_utf8(said)?;
    let mut lines = said.lines();
    let numbers: Vec<f64> =
        lines.next().unwrap_or_default().split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let [size, began, ended] = numbers[..] else { bail!("curl said `{said}`") };
    if size != bytes as f64 {
        bail!("{size} bytes arrived instead of {bytes}");
    }
    let gigabytes = bytes as f64 / 1e9;
    let received = lines.nth(1).and_then(of_times).with_context(|| format!("`times` said `{said}`"))?;
    Ok(Outcome {
        mbit_per_second: bytes as f64 * 8.0 / 1e6 / (ended - began),
        sender_cpu_seconds_per_gigabyte: cpu_seconds(server.0.id())? / gigabytes,
        receiver_cpu_seconds_per_gigabyte: received / gigabytes,
        sender_peak_mib: f64::NAN,
        receiver_peak_mib: f64::NAN,
    })
}

/// The user and system time in a line of the shell's `times`, as in `0m1.250000s 0m0.750000s`, in seconds.
fn of_times(line: &str) -> Option<f64> {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    line.split_whitespace().map(seconds).sum()
}

/// User and system time of a process (proc(5): fields 14 and 15, in hundredths of a second).
fn cpu_seconds(process: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}

fn print_table(contestants: &[Contestant], results: &[Vec<Outcome>]) {
    println!(
        "| who | Mbit/s | sender CPU s/GB | receiver CPU s/GB | peak MiB, sender / receiver | {} is |",
        contestants[0].name
    );
    println!("|---|---|---|---|---|---|");
    for (contestant, outcomes) in contestants.iter().zip(results) {
        let middle = |value: fn(&Outcome) -> f64| median(outcomes.iter().map(value).collect());
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.0} / {:.0} | {:.2} × |",
            contestant.name,
            middle(|outcome| outcome.mbit_per_second),
            middle(|outcome| outcome.sender_cpu_seconds_per_gigabyte),
            middle(|outcome| outcome.receiver_cpu_seconds_per_gigabyte),
            middle(|outcome| outcome.sender_peak_mib),
            middle(|outcome| outcome.receiver_peak_mib),
            median(ratios(&results[0], outcomes)),
        );
    }
    println!();
}

/// Our values divided by theirs, round by round.
fn ratios(ours: &[Outcome], theirs: &[Outcome]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours.mbit_per_second / theirs.mbit_per_second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_open_until_the_interval_of_a_look_excludes_the_target() {
        let outcome = |mbit_per_second: &f64| Outcome {
            mbit_per_second: *mbit_per_second,
            sender_cpu_seconds_per_gigabyte: 0.0,
            receiver_cpu_seconds_per_gigabyte: 0.0,
            sender_peak_mib: 0.0,
            receiver_peak_mib: 0.0,
        };
        let look = |ratios: &[f64]| {
            let results =
                [ratios.iter().map(outcome).collect(), ratios.iter().map(|_| outcome(&1.0)).collect()];
            let comparison = Comparison { ours: 0, theirs: 1, target: 0.6 };
            let rounds = comparison.decisive_look(&results).map(|(rounds, _)| rounds);
            (comparison.verdict(&results), rounds)
        };
        assert_eq!(look(&[0.7; 9]), (Verdict::Open, None));
        assert_eq!(look(&[0.7; 10]), (Verdict::Reached, Some(10)));
        assert_eq!(look(&[0.6; 19]), (Verdict::Reached, Some(10)));
        assert_eq!(look(&[0.5; 10]), (Verdict::Missed, Some(10)));
        // The first round is below the target: ten rounds do not exclude it, and no look follows before the 20th.
        let mut ratios = [0.7; 40];
        ratios[0] = 0.5;
        assert_eq!(look(&ratios[..19]), (Verdict::Open, Some(10)));
        assert_eq!(look(&ratios[..20]), (Verdict::Reached, Some(20)));
        // Later rounds do not change a verdict.
        ratios[20..].fill(0.1);
        assert_eq!(look(&ratios), (Verdict::Reached, Some(20)));
    }

    #[test]
    fn the_times_of_a_shell_are_added() {
        assert_eq!(of_times("0m1.250000s 1m0.750000s"), Some(62.0));
        assert_eq!(of_times("nothing"), None);
    }
}
