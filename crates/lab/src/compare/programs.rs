//! The programs of live runs: `braidftp`; lftp and vsftpd for kernel TCP, installed by apt-get if possible;
//! and setpriv, nice and unshare, so that no program outlives its run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The available programs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `braidftp`.
    pub braidftp: PathBuf,
    /// The programs for TCP, or why they are missing and what to do.
    pub ftp: Result<Ftp, String>,
}

/// Third-party FTP programs over TCP.
#[derive(Debug, Clone)]
pub struct Ftp {
    /// The client.
    pub lftp: PathBuf,
    /// The server.
    pub vsftpd: PathBuf,
    /// The folder of the server's libraries, if it was unpacked and not installed.
    pub libraries: Option<PathBuf>,
}

/// Finds `braidftp`: the named one; else the one that cargo builds, if cargo runs this program; else the
/// one beside this program; else one on the PATH.
pub fn braidftp(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return if named.is_file() {
            Ok(named.to_owned())
        } else {
            Err(format!("no program {}", named.display()))
        };
    }
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("braidftp")));
    if let (Some(cargo), Some(_)) = (env::var_os("CARGO"), env::var_os("CARGO_MANIFEST_DIR")) {
        build(&cargo)?;
    }
    let found = beside.filter(|path| path.is_file()).or_else(|| on_path("braidftp"));
    found.ok_or_else(|| {
        "the program braidftp is neither beside this one nor on the PATH: `cargo build --release -p braidftp` makes it, \
         --braidftp FILE names it"
            .to_owned()
    })
}

/// Builds it with the profile of this program.
fn build(cargo: &std::ffi::OsStr) -> Result<(), String> {
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "braidftp", "--bin", "braidftp"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("cargo could not build braidftp; name an existing one with --braidftp FILE".to_owned()),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

/// Finds lftp and vsftpd; as root, installs missing ones with apt-get.
pub fn ftp() -> Result<Ftp, String> {
    const WHAT_TO_DO: &str =
        "`sudo apt-get install lftp vsftpd` installs it, `cargo xtask test` unpacks a vsftpd of its own";
    let mut tried = String::new();
    if on_path("lftp").is_none() {
        tried = apt(&["install", "-y", "-qq", "--no-install-recommends", "lftp"], None);
    }
    let lftp = on_path("lftp").ok_or_else(|| format!("lftp is not installed{tried}; {WHAT_TO_DO}"))?;
    if let Some(vsftpd) = on_path("vsftpd") {
        return Ok(Ftp { lftp, vsftpd, libraries: None });
    }
    // Installing it would start it, and conflict with other servers.
    let Some(peers) = peers() else { return Err(format!("vsftpd is not installed; {WHAT_TO_DO}")) };
    let vsftpd = peers.join("usr/sbin/vsftpd");
    if !vsftpd.is_file() {
        tried = unpack(&peers);
    }
    if !vsftpd.is_file() {
        return Err(format!("vsftpd is not installed{tried}; {WHAT_TO_DO}"));
    }
    let libraries = peers.join("usr/lib").join(format!("{}-linux-gnu", env::consts::ARCH));
    Ok(Ftp { lftp, vsftpd, libraries: Some(libraries) })
}

/// The folder in which `cargo xtask test` unpacks servers, if this program is in cargo's target folder.
fn peers() -> Option<PathBuf> {
    let exe = env::current_exe().ok()?;
    let target = exe.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "target"))?;
    Some(target.join("peers"))
}

fn unpack(peers: &Path) -> String {
    let archives = peers.join("archives");
    if let Err(error) = std::fs::create_dir_all(&archives) {
        return format!(" (cannot make {}: {error})", archives.display());
    }
    let tried = apt(&["download", "-qq", "vsftpd", "libwrap0"], Some(&archives));
    for entry in std::fs::read_dir(&archives).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "deb") {
            // The caller detects what could not be unpacked.
            let _ = Command::new("dpkg").arg("-x").arg(entry.path()).arg(peers).status();
            let _ = std::fs::remove_file(entry.path());
        }
    }
    tried
}

/// Runs apt-get; returns a description of a failure to append to a message.
fn apt(words: &[&str], folder: Option<&Path>) -> String {
    if on_path("apt-get").is_none() {
        return String::new();
    }
    eprintln!("braidlab: apt-get {}", words.join(" "));
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "APT::Sandbox::User=root"]).args(words);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    match command.stdin(Stdio::null()).stdout(Stdio::null()).output() {
        Ok(output) if output.status.success() => String::new(),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            format!(" (apt-get: {})", said.lines().last().unwrap_or("it failed").trim())
        }
        Err(error) => format!(" (apt-get: {error})"),
    }
}

/// Finds a program by its file, or by its name on the PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') { Some(PathBuf::from(name)).filter(|file| file.is_file()) } else { on_path(name) }
}

/// Finds a program by name, also in folders that only root's PATH contains.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A command that ends when the thread that starts it ends, for whatever reason, and that has priority over
/// other programs if permitted.
pub fn bound(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "nice", "-n", "-10"]).arg(program);
    command
}

/// Such a command, including all its child processes.
pub fn bound_with_children(program: &Path) -> Command {
    let mut command = bound(Path::new("unshare"));
    command.args(["--pid", "--fork", "--kill-child=KILL"]).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_named_program_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("braidftp");
        assert!(braidftp(Some(&file)).unwrap_err().contains("no program"));
        std::fs::write(&file, "").unwrap();
        assert_eq!(braidftp(Some(&file)).unwrap(), file);
    }

    #[test]
    fn a_bound_program_ends_with_its_thread() {
        let thread = std::thread::spawn(|| {
            let mut command = bound(Path::new("sh"));
            let mut child =
                command.args(["-c", "echo up; exec sleep 1000"]).stdout(Stdio::piped()).spawn().unwrap();
            let mut up = [0; 2];
            child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
            child
        });
        let mut child = thread.join().unwrap();
        assert!(!child.wait().unwrap().success(), "it waits for nothing, or for 1000 s");
    }
}
