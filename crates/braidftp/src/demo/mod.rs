//! The demo: a real tree over an emulated lossy link, in every mode, on this machine alone; a table and a picture.
//!
//! Each mode runs by itself: a server of its own, a link of its own from the same seed, the client's own job. The SCTP
//! modes go through a UDP relay; classic FTP goes by the kernel's TCP through two network namespaces of this process,
//! where the system lets it make them. Every copy is compared with the tree byte for byte.

pub mod picture;
mod run;
pub mod tree;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use braidftp_emu::LinkConfig;
use braidftp_emu::link::{Bandwidth, Loss};
use braidftp_ftp::Mode;
use serde::Serialize;

use crate::exit::{Error, Exit, Result};
use picture::{Bar, Picture};
use run::Outcome;
use tree::{Cut, Taken};

/// How long the link itself may need for the tree, unless `--bytes` says otherwise: what the slowest mode then needs
/// is a minute or so.
const LIMIT_SECONDS: f64 = 1.6;
/// Files that are taken of a tree.
const FILES: usize = 48;

/// What may be written after `braidftp demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The tree to move, or part of it [default: the sources of this project]
    dir: Option<PathBuf>,
    /// The link's rate
    #[arg(long, default_value = "3mbit")]
    rate: String,
    /// The link's delay, each way
    #[arg(long, default_value = "1ms")]
    delay: String,
    /// The share of packets that the link loses, each way
    #[arg(long, default_value = "0.03")]
    loss: String,
    /// What may wait at the link
    #[arg(long, default_value = "500kB")]
    queue: String,
    /// What the link's chances come from: the same seed, the same chances
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Modes to run, in this order
    #[arg(long, value_delimiter = ',', default_value = "tcp,naive,ms,ms-cp,braid")]
    modes: Vec<Mode>,
    /// Files to take from the tree, at most
    #[arg(long, default_value_t = FILES)]
    files: usize,
    /// Bytes to take from the tree, at most [default: what the link carries in 1.6 s]
    #[arg(long)]
    bytes: Option<u64>,
    /// Where to draw the picture
    #[arg(short, long, value_name = "FILE", default_value = "demo.svg")]
    output: PathBuf,
    /// One JSON event a mode on standard output, the last a summary
    #[arg(long)]
    json: bool,
}

/// A mode's line of `--json`.
#[derive(Debug, Serialize)]
struct Row<'a> {
    event: &'static str,
    mode: String,
    seconds: Option<f64>,
    ratio: Option<f64>,
    packets: Option<u64>,
    retransmitted: Option<u64>,
    opened: Option<u64>,
    identical: bool,
    left_out: Option<&'a str>,
    differences: &'a [String],
}

/// The last line of `--json`.
#[derive(Debug, Serialize)]
struct Closing<'a> {
    event: &'static str,
    files: usize,
    bytes: u64,
    rate_bits_a_second: u64,
    loss: f64,
    limit_seconds: f64,
    seed: u64,
    identical: bool,
    picture: String,
    link: &'a str,
}

/// Runs the demo.
///
/// # Errors
/// The tree cannot be taken, a mode could not run, or a copy differs.
pub fn run(args: &Args, runtime: &tokio::runtime::Runtime) -> Result<()> {
    let link = Link::of(args)?;
    if args.files == 0 || args.modes.is_empty() {
        return Err(Error::usage("run the demo", "there is nothing to run").hint("--files 48, --modes braid"));
    }
    let room = tempfile::tempdir().map_err(|e| Error::local("make a temporary folder", &e))?;
    let source = room.path().join("tree");
    let bytes = args.bytes.unwrap_or((link.goodput() * LIMIT_SECONDS) as u64);
    let taken = take(args.dir.as_deref(), &source, Cut { files: args.files, bytes })?;
    let limit_seconds = taken.bytes as f64 / link.goodput();
    if !args.json {
        print_heading(&taken, &link, limit_seconds);
    }
    let mut bars = Vec::new();
    let mut identical = true;
    for mode in &args.modes {
        let copy = room.path().join(format!("copy-{mode}"));
        let ran = run::mode(*mode, &source, &copy, &link.config, args.seed, runtime);
        let ran = match ran {
            Err(error) if error.exit == Exit::Sigint => return Err(error),
            ran => ran,
        };
        identical &= show(args, *mode, &ran, limit_seconds)?;
        bars.push(bar(*mode, &ran));
    }
    let picture = Picture {
        title: format!(
            "{} files, {} over a link that loses {} % of its packets",
            taken.files,
            size(taken.bytes),
            percent(link.loss)
        ),
        subtitle: format!(
            "{}, {} one way, queue {}, seed {}; every copy compared byte for byte",
            args.rate, args.delay, args.queue, args.seed
        ),
        limit_seconds,
        files: taken.files,
        modes: bars,
    };
    std::fs::write(&args.output, picture.svg())
        .map_err(|e| Error::local(format_args!("write {}", args.output.display()), &e))?;
    let shown = args.output.display().to_string();
    if args.json {
        event(&Closing {
            event: "summary",
            files: taken.files,
            bytes: taken.bytes,
            rate_bits_a_second: link.bits_a_second,
            loss: link.loss,
            limit_seconds,
            seed: args.seed,
            identical,
            picture: shown,
            link: &link.described,
        });
    } else {
        print_legend(limit_seconds, &shown);
    }
    match identical {
        true => Ok(()),
        false => {
            Err(Error::new(Exit::Verify, "finish the demo", "not every copy is like the tree; see above"))
        }
    }
}

/// The link that every mode runs over.
struct Link {
    config: LinkConfig,
    bits_a_second: u64,
    /// Part of the packets that are lost, each way.
    loss: f64,
    /// The link in words.
    described: String,
}

impl Link {
    /// The link that the options describe.
    ///
    /// # Errors
    /// A value is none of a link, there is no rate, or more than half of the packets are lost.
    fn of(args: &Args) -> Result<Self> {
        let mut config = LinkConfig::default();
        for (key, value) in
            [("rate", &args.rate), ("delay", &args.delay), ("loss", &args.loss), ("queue", &args.queue)]
        {
            config
                .set(key, value)
                .map_err(|error| Error::usage(format_args!("use --{key} {value}"), error))?;
        }
        let Bandwidth::Fixed(rate) = config.rate else {
            return Err(Error::usage("run the demo", "the link needs a rate").hint("--rate 3mbit"));
        };
        let loss = match config.loss {
            Loss::Bernoulli(p) => p.as_f64(),
            _ => 0.0,
        };
        if loss > 0.5 {
            return Err(Error::usage(
                "run the demo",
                "a link that loses more than half needs more patience than a demo",
            ));
        }
        let described =
            format!("{}, {} one way, {} % loss, queue {}", args.rate, args.delay, percent(loss), args.queue);
        Ok(Self { config, bits_a_second: rate.bits_per_second(), loss, described })
    }

    /// Bytes a second that arrive at best.
    fn goodput(&self) -> f64 {
        self.bits_a_second as f64 / 8.0 * (1.0 - self.loss)
    }
}

/// Prints what is moved over which link, and the head of the table.
fn print_heading(taken: &Taken, link: &Link, limit_seconds: f64) {
    println!(
        "{} files, {} (of {} files), over a link of {}; the link itself needs {limit_seconds:.1} s\n",
        taken.files,
        indicatif::HumanBytes(taken.bytes),
        taken.of_files,
        link.described,
    );
    println!(
        "{:<8}{:>9}{:>9}{:>10}{:>14}{:>8}  copy",
        "mode", "seconds", "ratio", "packets", "sent again", "opened"
    );
}

/// Prints what the columns of the table mean, and where the picture is.
fn print_legend(limit_seconds: f64, picture: &str) {
    println!("\nratio: how many times the link's limit, bytes / (rate × (1 − loss)) = {limit_seconds:.2} s");
    println!("packets, sent again: of both sides; opened: connections or associations");
    println!(
        "tcp: as this kernel has it; naive, ms, ms-cp: SCTP with the values of RFC 9260; braid: with profile modern, protected"
    );
    println!("picture: {picture}");
}

/// The bar of a mode, and when each of its files was whole.
fn bar(mode: Mode, ran: &Result<Outcome>) -> Bar {
    Bar {
        name: mode.to_string(),
        seconds: match ran {
            Ok(Outcome::Ran(ran)) => Ok(ran.seconds.as_secs_f64()),
            Ok(Outcome::LeftOut(_)) => Err("it needs root and /dev/net/tun".into()),
            Err(error) => Err(error.why.clone()),
        },
        done: match ran {
            Ok(Outcome::Ran(ran)) => ran.finished.iter().map(Duration::as_secs_f64).collect(),
            _ => Vec::new(),
        },
    }
}

/// The tree: of `dir`, of the project's sources if this program was built from a clone, or made up.
fn take(dir: Option<&Path>, to: &Path, cut: Cut) -> Result<Taken> {
    let local = |e: std::io::Error| Error::local(format_args!("make {}", to.display()), &e);
    std::fs::create_dir_all(to).map_err(local)?;
    if let Some(dir) = dir {
        return tree::cut(dir, to, cut);
    }
    // The crates alone: beside them lie the fuzzers' corpora, thousands of files of a few bytes.
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if sources.join("../Cargo.toml").is_file() {
        return tree::cut(&sources, to, cut);
    }
    let made = tempfile::tempdir().map_err(|e| Error::local("make a temporary folder", &e))?;
    tree::synthesize(made.path(), 200)?;
    tree::cut(made.path(), to, cut)
}

/// A line of the table; whether all is well with it.
fn show(args: &Args, mode: Mode, outcome: &Result<Outcome>, limit_seconds: f64) -> Result<bool> {
    let mut row = Row {
        event: "mode",
        mode: mode.to_string(),
        seconds: None,
        ratio: None,
        packets: None,
        retransmitted: None,
        opened: None,
        identical: true,
        left_out: None,
        differences: &[],
    };
    let name = mode.to_string();
    match outcome {
        Ok(Outcome::Ran(ran)) => {
            let seconds = ran.seconds.as_secs_f64();
            row.seconds = Some((seconds * 1e3).round() / 1e3);
            row.ratio = Some((seconds / limit_seconds * 1e3).round() / 1e3);
            row.packets = Some(ran.packets);
            row.retransmitted = ran.retransmitted;
            row.opened = Some(ran.opened);
            row.identical = ran.differences.is_empty();
            row.differences = &ran.differences;
            if !args.json {
                let again = ran.retransmitted.map_or_else(|| "?".to_owned(), |n| n.to_string());
                let copy = if row.identical { "identical" } else { "DIFFERS" };
                println!(
                    "{name:<8}{seconds:>9.2}{:>8.2}×{:>10}{again:>14}{:>8}  {copy}",
                    seconds / limit_seconds,
                    ran.packets,
                    ran.opened
                );
                for difference in &ran.differences {
                    println!("        {difference}");
                }
            }
        }
        Ok(Outcome::LeftOut(why)) => {
            row.left_out = Some(why);
            if !args.json {
                println!("{name:<8}left out: {why}");
            }
        }
        Err(error) => {
            row.identical = false;
            eprintln!("braidftp: {mode}: {error}");
            if !args.json {
                println!("{name:<8}failed: {}", error.why);
            }
        }
    }
    if args.json {
        event(&row);
    }
    // A table that grows line by line is worth more than one that comes at once.
    let _ = std::io::stdout().flush();
    Ok(row.identical)
}

fn event(event: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(event) {
        println!("{line}");
    }
}

fn percent(loss: f64) -> String {
    let text = format!("{:.2}", loss * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 10_000_000 => format!("{:.0} MB", b as f64 / 1e6),
        b if b >= 1_000_000 => format!("{:.1} MB", b as f64 / 1e6),
        b => format!("{:.0} kB", b as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_sizes_read_plainly() {
        assert_eq!((percent(0.03), percent(0.005), percent(0.1)), ("3".into(), "0.5".into(), "10".into()));
        assert_eq!((size(581_000), size(1_250_000)), ("581 kB".into(), "1.2 MB".into()));
    }

    #[test]
    fn without_a_folder_the_sources_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let taken = take(None, &dir.path().join("t"), Cut { files: 20, bytes: 200_000 }).unwrap();
        assert!(taken.files > 3 && taken.bytes <= 200_000, "{taken:?}");
    }
}
