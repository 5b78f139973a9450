//! The demo: a real tree over an emulated lossy link, in every mode, on this machine; a table and a picture.
//!
//! Each mode runs separately, with its own server, a link with the same seed, and the client's usual job. The
//! SCTP modes use a UDP relay; classic FTP uses kernel TCP through two network namespaces of this process, if
//! the system permits them. Every copy is compared with the tree byte for byte.

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
use crate::stderr;
use picture::{Bar, Picture};
use run::Outcome;
use tree::{Cut, Taken};

/// The time that the link needs for the tree, unless `--bytes` is given: the slowest mode then takes about a
/// minute.
const LIMIT_SECONDS: f64 = 1.6;
/// The number of files taken from a tree.
const FILES: usize = 48;

/// Options of `braidftp demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The tree to move, or part of it [default: the sources of this project]
    dir: Option<PathBuf>,
    /// The rate of the link
    #[arg(long, default_value = "3mbit")]
    rate: String,
    /// The one-way delay of the link
    #[arg(long, default_value = "1ms")]
    delay: String,
    /// The fraction of packets that the link loses, in each direction
    #[arg(long, default_value = "0.03")]
    loss: String,
    /// The queue limit of the link
    #[arg(long, default_value = "500kB")]
    queue: String,
    /// The seed of the link's random decisions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The modes to run, in this order
    #[arg(long, value_delimiter = ',', default_value = "tcp,naive,ms,ms-cp,braid")]
    modes: Vec<Mode>,
    /// The maximum number of files to take from the tree
    #[arg(long, default_value_t = FILES)]
    files: usize,
    /// The maximum number of bytes to take from the tree [default: what the link carries in 1.6 s]
    #[arg(long)]
    bytes: Option<u64>,
    /// The file for the picture
    #[arg(short, long, value_name = "FILE", default_value = "demo.svg")]
    output: PathBuf,
    /// Print one JSON event per mode to standard output; the last one is a summary
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
///
/// The tree cannot be copied, a mode could not run, or a copy differs.
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

/// The link of every mode.
struct Link {
    config: LinkConfig,
    bits_a_second: u64,
    /// The loss ratio of each direction.
    loss: f64,
    /// The link as text.
    described: String,
}

impl Link {
    /// The link of these options.
    ///
    /// # Errors
    ///
    /// A value is invalid, there is no rate, or the loss exceeds one half.
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

    /// The maximum goodput in bytes per second.
    fn goodput(&self) -> f64 {
        self.bits_a_second as f64 / 8.0 * (1.0 - self.loss)
    }
}

/// Prints the tree, the link, and the head of the table.
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

/// Prints the meaning of the columns, and the location of the picture.
fn print_legend(limit_seconds: f64, picture: &str) {
    println!("\nratio: how many times the link's limit, bytes / (rate × (1 − loss)) = {limit_seconds:.2} s");
    println!("packets, sent again: of both sides; opened: connections or associations");
    println!(
        "tcp: as this kernel has it; naive, ms, ms-cp: SCTP with the values of RFC 9260; braid: with profile modern, protected"
    );
    println!("picture: {picture}");
}

/// The bar of a mode, and the times when its files were complete.
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

/// Copies the tree: of `dir`, of the project's sources if this program was built from a clone, or a synthetic
/// one.
fn take(dir: Option<&Path>, to: &Path, cut: Cut) -> Result<Taken> {
    let local = |e: std::io::Error| Error::local(format_args!("make {}", to.display()), &e);
    std::fs::create_dir_all(to).map_err(local)?;
    if let Some(dir) = dir {
        return tree::cut(dir, to, cut);
    }
    // Only the crates: the rest of the clone contains thousands of fuzzing inputs of a few bytes.
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if sources.join("../Cargo.toml").is_file() {
        return tree::cut(&sources, to, cut);
    }
    let made = tempfile::tempdir().map_err(|e| Error::local("make a temporary folder", &e))?;
    tree::synthesize(made.path(), 200)?;
    tree::cut(made.path(), to, cut)
}

/// Prints a line of the table; returns whether the mode succeeded.
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
            stderr::line(format_args!("braidftp: {mode}: {error}"));
            if !args.json {
                println!("{name:<8}failed: {}", error.why);
            }
        }
    }
    if args.json {
        event(&row);
    }
    // The table is printed line by line.
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
    fn shares_and_sizes_are_printed_with_units() {
        assert_eq!((percent(0.03), percent(0.005), percent(0.1)), ("3".into(), "0.5".into(), "10".into()));
        assert_eq!((size(581_000), size(1_250_000)), ("581 kB".into(), "1.2 MB".into()));
    }

    #[test]
    fn without_a_folder_the_sources_are_copied() {
        let dir = tempfile::tempdir().unwrap();
        let taken = take(None, &dir.path().join("t"), Cut { files: 20, bytes: 200_000 }).unwrap();
        assert!(taken.files > 3 && taken.bytes <= 200_000, "{taken:?}");
    }
}
