//! `cargo xtask fuzz TARGET [--minutes N]`: runs one fuzz target with cargo-fuzz, starting from its corpus. Not part of CI.
//!
//! The corpus of a target is one archive, `fuzz/corpus/TARGET.tar.gz`. It is unpacked to `target/fuzz-corpus/TARGET`, where a run
//! also puts the inputs that it finds; `shrink` packs it again. If missing, the nightly compiler and cargo-fuzz are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{capture, check, on_path};

const USAGE: &str = "\
usage: cargo xtask fuzz TARGET [--minutes N]   fuzz for so many minutes [default: 1]
       cargo xtask fuzz seeds                  add packets of simulated hosts to the corpora, to begin with
       cargo xtask fuzz shrink [TARGET]        keep the inputs that coverage needs, of all corpora or of one, and pack them";

/// Seeds of the soak whose packets together have every chunk type.
const SEEDS: &[&str] = &["3", "17", "29", "31", "43", "57", "77", "90", "101", "116", "169"];
/// The folder of the archives.
const ARCHIVES: &str = "fuzz/corpus";
/// The corpora that consist of packets.
const OF_PACKETS: &[&str] = &["decode", "roundtrip"];

/// Runs the command in `args`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["seeds"] => seeds(),
        ["shrink"] => targets().iter().try_for_each(|target| shrink(target)),
        ["shrink", target] => shrink(target),
        [target] => fuzz(target, 1),
        [target, "--minutes", minutes] => {
            fuzz(target, minutes.parse().with_context(|| format!("`{minutes}` is not a number of minutes"))?)
        }
        _ => bail!("{USAGE}\nthe targets are {}", targets().join(", ")),
    }
}

fn fuzz(target: &str, minutes: u64) -> Result<()> {
    if !targets().iter().any(|known| known == target) {
        bail!("there is no fuzz target `{target}`; the targets are {}", targets().join(", "));
    }
    // Without sanitizer: these crates have no unsafe code, and several times as many inputs are tried. Debug
    // assertions and overflow checks are on. libFuzzer measures the time of an input by the wall clock: on a
    // busy machine inputs with a tenth of a second of work have taken 24 s.
    let limit = format!("-max_total_time={}", minutes * 60);
    let corpus = unpack(target)?;
    cargo_fuzz(&[
        "run",
        "--sanitizer",
        "none",
        target,
        &corpus.to_string_lossy(),
        "--",
        &limit,
        "-max_len=4096",
        "-timeout=300",
        "-rss_limit_mb=2048",
    ])
}

fn seeds() -> Result<()> {
    for target in OF_PACKETS {
        let corpus = unpack(target)?;
        for seed in SEEDS {
            check(
                crate::shell::cargo()
                    .args(["run", "--release", "--package", "braidftp-sim", "--bin", "soak", "--"])
                    .args(["--seed", seed, "--samples"])
                    .arg(&corpus)
                    .stdout(std::process::Stdio::null()),
            )?;
        }
        pack(target)?;
    }
    Ok(())
}

/// Removes the inputs of a corpus that add no coverage, and packs the rest.
fn shrink(target: &str) -> Result<()> {
    let corpus = unpack(target)?;
    cargo_fuzz(&["cmin", "--sanitizer", "none", target, &corpus.to_string_lossy()])?;
    pack(target)
}

fn archive(target: &str) -> PathBuf {
    crate::shell::root().join(ARCHIVES).join(format!("{target}.tar.gz"))
}

fn corpus(target: &str) -> PathBuf {
    crate::shell::root().join("target/fuzz-corpus").join(target)
}

/// Unpacks the corpus of a target into its folder, which may contain other inputs, and returns the folder. A
/// target without an archive has an empty corpus.
fn unpack(target: &str) -> Result<PathBuf> {
    let (archive, folder) = (archive(target), corpus(target));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if archive.exists() {
        check(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder))?;
    }
    Ok(folder)
}

/// Packs the corpus of a target: the same inputs make the same archive.
fn pack(target: &str) -> Result<()> {
    check(&mut packing(&archive(target), &corpus(target)))
}

fn packing(archive: &Path, folder: &Path) -> Command {
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=u=rwX,go=rX",
        "--mtime=@0",
    ]);
    tar.args(["-I", "gzip -n9", "-cf"]).arg(archive).arg("-C").arg(folder).args(["--transform=s,^./,,", "."]);
    tar
}

fn cargo_fuzz(args: &[&str]) -> Result<()> {
    install()?;
    // By the name `cargo`, so that rustup's proxy interprets `+nightly`.
    check(Command::new("cargo").args(["+nightly", "fuzz"]).args(args))
}

fn install() -> Result<()> {
    if capture(Command::new("cargo").args(["+nightly", "--version"])).is_err() {
        check(Command::new("rustup").args(["toolchain", "install", "nightly", "--profile", "minimal"]))
            .context(
                "the nightly compiler is missing, and rustup could not install it: see https://rustup.rs",
            )?;
    }
    if !on_path("cargo-fuzz") {
        check(Command::new("cargo").args(["install", "--locked", "cargo-fuzz"])).context(
            "cargo-fuzz is missing, and could not be installed: it needs a C++ compiler and crates.io",
        )?;
    }
    Ok(())
}

/// The names of the targets.
fn targets() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir("fuzz/fuzz_targets")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_corpus_is_the_same_when_it_is_unpacked() {
        let room = std::env::temp_dir().join(format!("braidftp-corpus-{}", std::process::id()));
        let (from, to, archive) = (room.join("from"), room.join("to"), room.join("x.tar.gz"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        for name in ["b", "a"] {
            std::fs::write(from.join(name), [0, 255, name.as_bytes()[0]]).unwrap();
        }
        let packed = || {
            assert!(packing(&archive, &from).status().unwrap().success());
            std::fs::read(&archive).unwrap()
        };
        let before = packed();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(100);
        std::fs::File::options().append(true).open(from.join("a")).unwrap().set_modified(later).unwrap();
        assert_eq!(packed(), before, "times are not packed");
        assert!(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&to).status().unwrap().success());
        assert_eq!(std::fs::read(to.join("a")).unwrap(), [0, 255, b'a']);
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 2);
        std::fs::remove_dir_all(&room).unwrap();
    }
}
