//! The Debian programs that tests talk to: clients, a browser and libraries by `apt-get install`, FTP servers unpacked into
//! `target/peers`, since their packages exclude each other.
//!
//! Without Debian, without root or without a network the suite still runs; what is left out is said aloud.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{check, on_path};

/// Installed for the whole system: what proves that it is there, and the package.
const INSTALLED: &[(Proof, &str)] = &[
    (Proof::Program("lftp"), "lftp"),
    (Proof::Program("curl"), "curl"),
    (Proof::Program("tnftp"), "tnftp"),
    (Proof::Program("python3"), "python3"),
    (Proof::Program("ip"), "iproute2"),
    (Proof::Program("tshark"), "tshark"),
    (Proof::Program("gcc"), "gcc"),
    (Proof::File("/usr/include/usrsctp.h"), "libusrsctp-dev"),
    (Proof::File("/usr/bin/linux.uml"), "user-mode-linux"),
    (Proof::Program("chromium"), "chromium"),
];

/// Unpacked into `target/peers`: the program inside, and the packages it needs from there.
const UNPACKED: &[(&str, &[&str])] = &[
    ("usr/sbin/vsftpd", &["vsftpd", "libwrap0"]),
    (
        "usr/sbin/proftpd",
        &[
            "proftpd-core",
            "libhashkit2",
            "libhiredis0.14",
            "libidn2-0",
            "libmemcached11",
            "libmemcachedutil2",
            "libpcre2-posix3",
        ],
    ),
    ("usr/bin/pure-pw", &["pure-ftpd", "pure-ftpd-common", "libsodium23"]),
];

/// What shows that a package is there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Proof {
    /// A program on the PATH.
    Program(&'static str),
    /// A file.
    File(&'static str),
}

impl Proof {
    fn holds(self) -> bool {
        match self {
            Self::Program(name) => on_path(name),
            Self::File(path) => Path::new(path).exists(),
        }
    }
}

/// Which peers there are.
#[derive(Debug)]
pub(crate) struct Peers {
    /// The folder with the unpacked servers, laid out like `/`.
    pub(crate) root: PathBuf,
    /// What is not there, and why.
    pub(crate) missing: Vec<String>,
}

impl Peers {
    /// Say aloud what is left out.
    pub(crate) fn tell(&self) {
        if self.missing.is_empty() {
            return;
        }
        eprintln!("=================================== NOTICE ===================================");
        eprintln!("Tests against these programs are LEFT OUT, because the programs are not there:");
        for peer in &self.missing {
            eprintln!("  {peer}");
        }
        eprintln!("On Debian, as root, with a network, `cargo xtask test` installs them by itself.");
        eprintln!("==============================================================================");
    }
}

/// Install and unpack what is not there yet.
pub(crate) fn ensure() -> Result<Peers> {
    let root = crate::shell::root().join("target/peers");
    std::fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
    let unpacked = |program: &str| root.join(program).exists() && finds_its_libraries(&root, program);
    let unpack: Vec<_> = UNPACKED.iter().filter(|(program, _)| !unpacked(program)).collect();
    let mut why = String::new();
    if let Err(error) = install(INSTALLED) {
        why = format!("{error:#}");
    }
    if !unpack.is_empty() && on_path("apt-get") {
        // Downloading and unpacking work without root if the lists are there; only installing does not.
        if let Err(error) = check(apt().arg("update").arg("-qq")) {
            why = format!("{error:#}");
        }
        for (program, packages) in unpack {
            if let Err(error) = unpack_into(&root, packages) {
                why = format!("{program}: {error:#}");
            }
        }
    }
    let mut missing: Vec<String> = Vec::new();
    for (proof, package) in INSTALLED {
        if !proof.holds() {
            missing.push(format!("{package} ({why})"));
        }
    }
    for (program, packages) in UNPACKED {
        if !unpacked(program) {
            missing.push(format!("{} ({why})", packages[0]));
        }
    }
    let peers = Peers { root, missing };
    peers.tell();
    Ok(peers)
}

/// Install those of these packages that are not there yet.
///
/// # Errors
/// There is no apt-get, or it fails: without root, without a network.
pub(crate) fn install(packages: &[(Proof, &str)]) -> Result<()> {
    let wanted: Vec<&str> =
        packages.iter().filter(|(proof, _)| !proof.holds()).map(|&(_, package)| package).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if !on_path("apt-get") {
        bail!("no apt-get here");
    }
    let updated = check(apt().arg("update").arg("-qq"));
    // With old lists, too, packages are found: it counts whether they could be installed.
    check(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(&wanted))
        .or_else(|error| updated.and(Err(error)))
}

/// Fetch packages and unpack them side by side, without running their scripts.
fn unpack_into(root: &Path, packages: &[&str]) -> Result<()> {
    let archives = root.join("archives");
    std::fs::create_dir_all(&archives)?;
    check(apt().arg("download").arg("-qq").args(packages).current_dir(&archives))?;
    for entry in std::fs::read_dir(&archives)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            check(Command::new("dpkg").arg("-x").arg(&path).arg(root))?;
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Where the unpacked libraries lie: what a test puts into `LD_LIBRARY_PATH` of an unpacked server.
fn libraries(root: &Path) -> PathBuf {
    root.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
}

/// Whether an unpacked program would start.
fn finds_its_libraries(root: &Path, program: &str) -> bool {
    let ldd = Command::new("ldd").arg(root.join(program)).env("LD_LIBRARY_PATH", libraries(root)).output();
    ldd.is_ok_and(|ldd| ldd.status.success() && !String::from_utf8_lossy(&ldd.stdout).contains("not found"))
}

/// apt-get that never asks; as `_apt` cannot write into the repository, downloads run unsandboxed.
fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "APT::Sandbox::User=root"]);
    command
}
