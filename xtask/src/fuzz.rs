//! `cargo xtask fuzz TARGET [--minutes N]`: one fuzz target for a while, by cargo-fuzz. No part of CI.

use anyhow::{Context, Result, bail};

use crate::shell::{check, on_path};

/// Run the fuzz target that `args` names.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (target, minutes) = match words[..] {
        [target] => (target, 1),
        [target, "--minutes", minutes] => {
            (target, minutes.parse().with_context(|| format!("`{minutes}` is not a number of minutes"))?)
        }
        _ => bail!("usage: cargo xtask fuzz TARGET [--minutes N]; the targets are {}", targets()),
    };
    let minutes: u64 = minutes;
    if !std::path::Path::new("fuzz/fuzz_targets").join(target).with_extension("rs").exists() {
        bail!("there is no fuzz target `{target}`; the targets are {}", targets());
    }
    if !on_path("cargo-fuzz") {
        bail!(
            "cargo-fuzz is not installed: try `cargo install cargo-fuzz` and `rustup toolchain install nightly`"
        );
    }
    // By the name `cargo`, so that rustup's proxy reads `+nightly`.
    check(
        std::process::Command::new("cargo")
            .args(["+nightly", "fuzz", "run", target, "--"])
            .arg(format!("-max_total_time={}", minutes * 60)),
    )
}

/// The names of the targets, for messages.
fn targets() -> String {
    let mut names: Vec<String> = std::fs::read_dir("fuzz/fuzz_targets")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    if names.is_empty() { "none yet".to_owned() } else { names.join(", ") }
}
