//! braidlab: the bench that proves braidftp's claims. Each command is told by its own file.
#![forbid(unsafe_code)]

mod commands;

use std::fmt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{check, compare, link, list, merge, net, profiles, replay, report, run};

/// Packets are under way by the ten thousand. glibc keeps no memory of their size at hand, and joins each that is given back with
/// its neighbours: a tenth of a run's time and more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The bench that proves braidftp's claims: figures, claims, emulated links.
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
    Merge(merge::Args),
    Replay(replay::Args),
    Report(report::Args),
    Profiles(profiles::Args),
    Link(Box<link::Args>),
    Net(net::Args),
}

/// What ends a command, with the exit code that the product promises for it.
#[derive(Debug)]
enum Failure {
    /// 1: the command line or a configuration is wrong.
    Usage(String),
    /// 2: an address cannot be had or reached.
    Connect(String),
    /// 6: a local file.
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
            // clap's own code for usage is 2, which here means that something cannot be reached.
            return if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::List(args) => list::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Compare(args) => compare::run(&args),
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
