//! The program `braidlab`, which reproduces figures, checks claims and emulates links. Each command is a
//! module of `commands`.
#![forbid(unsafe_code)]

mod commands;

use std::fmt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{
    check, compare, film, link, list, merge, net, new, profiles, qlog, replay, report, run, schema, view,
};

/// A run allocates tens of thousands of packets. glibc caches no blocks of that size and coalesces each
/// freed block with its neighbours, which takes more than a tenth of the run time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reproduces figures, checks claims, and emulates links for braidftp.
#[derive(Debug, Parser)]
#[command(name = "braidlab", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Run(run::Args),
    Check(check::Args),
    Compare(compare::Args),
    New(new::Args),
    Film(film::Args),
    Qlog(qlog::Args),
    View(view::Args),
    Schema(schema::Args),
    Merge(merge::Args),
    Replay(replay::Args),
    Report(report::Args),
    Profiles(profiles::Args),
    Link(Box<link::Args>),
    Net(net::Args),
}

/// An error that ends a command, with its documented exit code.
#[derive(Debug)]
enum Failure {
    /// 1: an invalid command line or configuration.
    Usage(String),
    /// 2: an address cannot be bound or reached.
    Connect(String),
    /// 6: an error with a local file.
    File(String),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 1,
            Self::Connect(_) => 2,
            Self::File(_) => 6,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Connect(text) | Self::File(text)) = self;
        f.write_str(text)
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // clap uses exit code 2 for usage errors; here 2 means an unreachable address.
            return if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::List(args) => list::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::New(args) => new::run(&args),
        Command::Film(args) => film::run(&args),
        Command::Qlog(args) => qlog::run(&args),
        Command::View(args) => view::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Profiles(args) => profiles::run(&args),
        Command::Link(args) => link::run(&args),
        Command::Net(args) => net::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("braidlab: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
