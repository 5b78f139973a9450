//! `pkt FILE...`: runs packet scripts in packetdrill's notation against the SCTP core, on a virtual clock.
//!
#![doc = include_str!("../README.md")]

mod auth;
mod calls;
mod files;
mod icmp;
mod lexer;
mod parser;
mod pattern;
mod run;
mod script;
mod settings;
mod translation;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::pattern::Exactness;
use self::run::{Leftovers, Options, Verdict};
use self::script::ScriptOption;

const HELP: &str = "\
pkt [OPTION...] FILE...    run packet scripts (packetdrill's notation) against the SCTP core

A FILE may be a folder, whose *.pkt files are run, or a pattern with *, ** and ?.

  -D NAME        define NAME for #ifdef; default: FreeBSD, for which the public suites are written
  --strict       require the script's order of parameters in INIT and INIT ACK and of a SACK among other chunks,
                 and fail if the stack sends a packet that the script does not expect
  -v             also print what was ignored: kernel settings without effect here
  -q             print only scripts that do not pass, and the counts
  --NAME=VALUE   an option of packetdrill, which overrides the script's: --ip_version=ipv6, --mtu=1500,
                 --tolerance_usecs=4000, --local_ip=, --remote_ip=, --bind_port=, --connect_port=
";

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verbosity {
    Quiet,
    Normal,
    Notes,
}

/// What the command line asks for.
struct Arguments {
    options: Options,
    verbosity: Verbosity,
    /// Files, folders and patterns.
    names: Vec<OsString>,
}

/// Why the program ends before it runs a script.
enum End {
    Help,
    /// A mistake on the command line.
    Usage(String),
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, End> {
        let mut options = Options {
            leftovers: Leftovers::Ignored,
            exactness: Exactness::Meaning,
            defined: BTreeSet::new(),
            overrides: Vec::new(),
        };
        let mut verbosity = Verbosity::Normal;
        let mut names = Vec::new();
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("--strict") => {
                    options.leftovers = Leftovers::Forbidden;
                    options.exactness = Exactness::Exact;
                }
                Some("-v" | "--verbose") => verbosity = Verbosity::Notes,
                Some("-q" | "--quiet") => verbosity = Verbosity::Quiet,
                Some("--help" | "-h") => return Err(End::Help),
                Some("-D") => match words.next().and_then(|name| name.into_string().ok()) {
                    Some(name) => {
                        options.defined.insert(name);
                    }
                    None => return Err(End::Usage("-D needs a name, as in `-D Linux`".to_owned())),
                },
                Some(option) if option.starts_with("-D") => {
                    options.defined.insert(option[2..].to_owned());
                }
                Some(option) if option.starts_with("--") && option.contains('=') => {
                    let (name, value) = option[2..].split_once('=').expect("checked above");
                    let (name, value) = (name.to_owned(), Some(value.to_owned()));
                    options.overrides.push(ScriptOption { line: 0, name, value });
                }
                Some(option) if option.starts_with('-') => {
                    return Err(End::Usage(format!("unknown option `{}`", option.escape_debug())));
                }
                _ => names.push(word),
            }
        }
        if options.defined.is_empty() {
            options.defined.insert("FreeBSD".to_owned());
        }
        if names.is_empty() {
            return Err(End::Usage("no script named; give a file, a folder or a pattern".to_owned()));
        }
        Ok(Self { options, verbosity, names })
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(arguments) => arguments,
        Err(End::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(End::Usage(what)) => {
            eprint!("pkt: {what}\n\n{HELP}");
            return ExitCode::FAILURE;
        }
    };
    let mut scripts = Vec::new();
    for name in &arguments.names {
        match files::scripts(Path::new(name)) {
            Ok(found) => scripts.extend(found),
            Err(error) => {
                eprintln!("pkt: {}: {error}", name.to_string_lossy());
                return ExitCode::FAILURE;
            }
        }
    }
    if run_all(&scripts, &arguments) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the scripts and prints their verdicts; returns whether all pass.
fn run_all(scripts: &[PathBuf], Arguments { options, verbosity, .. }: &Arguments) -> bool {
    let mut counts = [0; 3];
    for path in scripts {
        let (verdict, notes) = match std::fs::read(path) {
            // Bytes that are not UTF-8 only occur in comments.
            Ok(text) => run::run(&String::from_utf8_lossy(&text), options),
            Err(error) => {
                let what = format!("cannot be read: {error}");
                (Verdict::Fail { line: 0, what, expected: None, got: None }, Vec::new())
            }
        };
        let count = match &verdict {
            Verdict::Pass => &mut counts[0],
            Verdict::Fail { .. } => &mut counts[1],
            Verdict::Unsupported { .. } => &mut counts[2],
        };
        *count += 1;
        if verdict != Verdict::Pass || *verbosity != Verbosity::Quiet {
            print_verdict(path, &verdict);
        }
        if *verbosity == Verbosity::Notes {
            notes.iter().for_each(|note| println!("    note: {note}"));
        }
    }
    let [passed, failed, unsupported] = counts;
    if scripts.len() > 1 {
        println!("{} scripts: {passed} pass, {failed} fail, {unsupported} not supported", scripts.len());
    }
    passed == scripts.len()
}

fn print_verdict(path: &Path, verdict: &Verdict) {
    let name = path.display();
    match verdict {
        Verdict::Pass => println!("{name}: pass"),
        Verdict::Unsupported { line, what } => println!("{name}:{line}: not supported: {what}"),
        Verdict::Fail { line, what, expected, got } => {
            println!("{name}:{line}: fail: {what}");
            for (label, text) in [("expected", expected), ("got", got)] {
                if let Some(text) = text {
                    println!("    {label:<8}  {text}");
                }
            }
        }
    }
}
