//! `pkt FILE...`: packet scripts in packetdrill's notation against the SCTP core, on a virtual clock.
//!
//! For each script it prints PASS, FAIL with the line and what differs, or UNSUPPORTED with what it lacks. It succeeds if
//! all pass. See [`run`] for how a script is played, [`calls`] for the sockets.

mod calls;
mod lexer;
mod live;
mod parser;
mod pattern;
mod run;
mod script;

use std::process::ExitCode;

use self::run::{Leftovers, Verdict};

const HELP: &str = "\
pkt [--strict] FILE...    run packet scripts (packetdrill's notation) against the SCTP core

  --strict    a packet that is sent and that the script does not ask for is a failure at its end, too
";

fn main() -> ExitCode {
    let mut leftovers = Leftovers::Ignored;
    let mut files = Vec::new();
    for word in std::env::args_os().skip(1) {
        match word.to_str() {
            Some("--strict") => leftovers = Leftovers::Forbidden,
            Some("--help" | "-h") => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            Some(option) if option.starts_with('-') => {
                eprint!("pkt: there is no option `{}`\n\n{HELP}", option.escape_debug());
                return ExitCode::FAILURE;
            }
            _ => files.push(std::path::PathBuf::from(word)),
        }
    }
    if files.is_empty() {
        eprint!("pkt: no script is given\n\n{HELP}");
        return ExitCode::FAILURE;
    }
    let mut passed = 0;
    for file in &files {
        let name = file.display();
        let verdict = match std::fs::read_to_string(file) {
            Ok(text) => run::run(&text, leftovers),
            Err(error) => {
                println!("FAIL        {name}: cannot be read: {error}");
                continue;
            }
        };
        match verdict {
            Verdict::Pass => {
                passed += 1;
                println!("PASS        {name}");
            }
            Verdict::Unsupported { line, what } => println!("UNSUPPORTED {name}:{line}: {what}"),
            Verdict::Fail { line, what, expected, got } => {
                println!("FAIL        {name}:{line}: {what}");
                for (label, text) in [("expected", expected), ("got", got)] {
                    if let Some(text) = text {
                        println!("            {label:<8}  {text}");
                    }
                }
            }
        }
    }
    println!("{passed} of {} passed", files.len());
    if passed == files.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
