//! The commands that check, measure and maintain this repository: `cargo xtask COMMAND`.
//!
#![doc = include_str!("../README.md")]

mod bench;
// A headless browser: a file of the tests that needs only serde_json.
#[path = "../../crates/braidftp/tests/browser_support/mod.rs"]
mod browser;
mod ci;
mod cites;
mod daily;
mod deny;
mod diagram;
mod fuzz;
mod guide;
mod map;
mod package;
mod peers;
mod picture;
mod proof;
mod python;
mod rules;
mod s3;
mod sandbox;
mod shell;
mod suite;
mod tidy;
mod tools;
mod tree;
mod typos;
// Two hosts and wires between them that can be cut: a file of `emu` that needs only the standard library.
#[allow(dead_code, unreachable_pub, reason = "it is a library there")]
#[path = "../../crates/emu/src/wires.rs"]
mod wires;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask COMMAND

  check                    format, rules, lints and tests of the crates that differ from the upstream branch
  ci [STEP...]             everything that must hold before a change lands; what .ci/run runs
  test [FILTER]            the whole suite, with the Debian programs it talks to, and the guide; FILTER: a crate (sctp, capi), or
                           interop, interop-ftp, interop-tls, or part of a test's name; python, notebooks: the Python
                           package, from a wheel in an environment of its own (needs PyPI); store-s3: servers before an S3
                           server (needs PyPI); deb, static (root), publish: packages; guide [PAGE] (root): every command
                           of docs/guide; crash [-- --rounds N]: the proof of that name, client and server killed at
                           random moments
  peers                    install the Debian programs that tests talk to (root), which ci and test also do
  tidy                     import rules, purity of the pure crates, heads of files, links, no paths of one machine
  typos [PATH]             spelling of everything but specifications; exceptions are in typos.toml
  map                      list every crate and file, each with one line of explanation
  diagram                  draw docs/crates.svg from the import rules
  deny [CHECK]             licences, sources and bans of third-party crates, by cargo-deny
  guide                    the guide as a book: target/guide/index.html
  package [deb] [static] [sbom] [--debug]
                           Debian packages, a static program and the contents of a container image, a bill of
                           materials: target/package
  sbom                     the bills of materials alone
  cites [--sections|--missing] [SPEC]
                           every quotation of a specification, word for word; what is cited, tested, excepted
  fuzz TARGET [--minutes N]
                           run one fuzz target (needs cargo-fuzz and a nightly toolchain)
  bench NAME               measurements against peers: core, links, loopback, multipath, tails, worlds (root); files, idle, sim
  picture                  take docs/dashboard.png, the picture of the dashboard, in a headless Chromium (two minutes)
  proof [--list] [--only NAME,...]
                           what the main job must reach, end to end, with figures (minutes to hours)
  tree DIR [--files N] [--seed N] [--big SIZE] [--plain SIZE]
                           make a tree to move: nasty names, deep folders, links; or plain files
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    std::env::set_current_dir(shell::root())?;
    let Some((command, rest)) = args.split_first() else {
        print!("{HELP}");
        bail!("no command was given");
    };
    match command.as_str() {
        "check" => daily::run(rest),
        "ci" => ci::run(rest),
        "test" => suite::run(rest),
        "tidy" => tidy::run(rest),
        "map" => map::run(rest),
        "diagram" => diagram::run(rest),
        "deny" => deny::run(rest),
        "guide" => guide::run(rest),
        "package" => package::run(rest),
        "sbom" => package::run(&["sbom".to_owned()]),
        "cites" => cites::run(rest),
        "fuzz" => fuzz::run(rest),
        "bench" => bench::run(rest),
        "peers" => peers::run(rest),
        "picture" => picture::run(rest),
        "proof" => proof::run(rest),
        "tree" => tree::run(rest),
        "typos" => typos::run(rest),
        "help" | "-h" | "--help" => {
            print!("{HELP}");
            Ok(())
        }
        other => {
            print!("{HELP}");
            bail!("there is no command `{other}`");
        }
    }
}
