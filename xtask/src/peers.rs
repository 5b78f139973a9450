//! `cargo xtask peers`: the programs that tests run against. Clients, a browser and libraries of Debian are installed with `apt-get
//! install`; FTP servers, whose packages conflict with each other, are unpacked into `target/peers`; an S3 server comes from PyPI.
//!
//! Without Debian, root or a network the suite still runs, and prints which tests are left out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::s3;
use crate::shell::{check, on_path};

/// Packages installed system-wide, each with a proof that it is installed.
const INSTALLED: &[(Proof, &str)] = &[
    (Proof::Program("lftp"), "lftp"),
    (Proof::Program("curl"), "curl"),
    (Proof::Program("tnftp"), "tnftp"),
    (Proof::Program("wget"), "wget"),
    (Proof::Program("ncftpget"), "ncftp"),
    (Proof::Program("aria2c"), "aria2"),
    (Proof::Program("rclone"), "rclone"),
    (Proof::Program("python3"), "python3"),
    (Proof::File("/usr/lib/python3/dist-packages/pyftpdlib"), "python3-pyftpdlib"),
    (Proof::File("/usr/lib/python3/dist-packages/OpenSSL"), "python3-openssl"),
    (Proof::Program("ip"), "iproute2"),
    (Proof::Program("tshark"), "tshark"),
    (Proof::Program("gcc"), "gcc"),
    (Proof::File("/usr/include/usrsctp.h"), "libusrsctp-dev"),
    (Proof::File("/usr/bin/linux.uml"), "user-mode-linux"),
    (Proof::Program("chromium"), "chromium"),
];

/// Packages unpacked into `target/peers`: the program, and the packages it needs.
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
    ("usr/lib/proftpd/mod_tls.so", &["proftpd-mod-crypto"]),
    ("usr/bin/pure-pw", &["pure-ftpd", "pure-ftpd-common", "libsodium23"]),
];

/// A proof that a package is installed.
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

/// The available peers.
#[derive(Debug)]
pub(crate) struct Peers {
    /// The folder with the unpacked servers, with the layout of `/`.
    pub(crate) root: PathBuf,
    /// The S3 server.
    moto: Option<PathBuf>,
    /// The missing programs, with reasons.
    pub(crate) missing: Vec<String>,
}

impl Peers {
    /// The variables that tell the tests where the programs are, and whether a missing one is a failure.
    pub(crate) fn environment(&self) -> Vec<(&'static str, &Path)> {
        let mut environment = vec![("BRAIDFTP_PEERS", self.root.as_path())];
        environment.extend(self.moto.as_deref().map(|moto| (s3::VARIABLE, moto)));
        if self.missing.is_empty() {
            environment.push(("BRAIDFTP_REQUIRE_PEERS", Path::new("1")));
        }
        environment
    }

    /// Prints which tests are left out.
    pub(crate) fn tell(&self) {
        if self.missing.is_empty() {
            return;
        }
        eprintln!("=================================== NOTICE ===================================");
        eprintln!("Tests against these programs are LEFT OUT, because the programs are not installed:");
        for peer in &self.missing {
            eprintln!("  {peer}");
        }
        eprintln!("On Debian, as root, with a network, `cargo xtask test` installs them by itself.");
        eprintln!("==============================================================================");
    }
}

/// Installs and unpacks what is missing, and does nothing else.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("peers takes no arguments, and got `{arg}`");
    }
    ensure().map(drop)
}

/// Installs and unpacks what is missing.
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
        // Downloading and unpacking work without root if the package lists exist; only installing does not.
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
    let moto = s3::moto().inspect_err(|error| missing.push(format!("{error:#}"))).ok();
    let peers = Peers { root, moto, missing };
    peers.tell();
    Ok(peers)
}

/// Installs those of these packages that are missing.
///
/// # Errors
///
/// apt-get is missing, or it fails: without root, without a network.
pub(crate) fn install(packages: &[(Proof, &str)]) -> Result<()> {
    let wanted: Vec<&str> =
        packages.iter().filter(|(proof, _)| !proof.holds()).map(|&(_, package)| package).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if !on_path("apt-get") {
        bail!("apt-get is not installed");
    }
    let updated = check(apt().arg("update").arg("-qq"));
    // Old package lists may suffice, so only the result of the installation counts.
    check(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(&wanted))
        .or_else(|error| updated.and(Err(error)))
}

/// Downloads packages and unpacks them into one folder, without running their scripts.
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

/// The folder of the unpacked libraries: the `LD_LIBRARY_PATH` of an unpacked server.
fn libraries(root: &Path) -> PathBuf {
    root.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
}

/// Whether an unpacked program would start.
fn finds_its_libraries(root: &Path, program: &str) -> bool {
    let ldd = Command::new("ldd").arg(root.join(program)).env("LD_LIBRARY_PATH", libraries(root)).output();
    ldd.is_ok_and(|ldd| ldd.status.success() && !String::from_utf8_lossy(&ldd.stdout).contains("not found"))
}

/// apt-get without questions; because `_apt` cannot write into the repository, downloads run unsandboxed.
fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "APT::Sandbox::User=root"]);
    command
}
