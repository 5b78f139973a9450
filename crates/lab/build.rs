//! Stores the current commit and the compiler in the program, for the head of every table.

use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=BRAIDFTP_COMMIT={commit}");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().ok().filter(|output| output.status.success());
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.as_deref().unwrap_or("unknown").trim().trim_start_matches("rustc ");
    println!("cargo::rustc-env=BRAIDFTP_RUSTC={version}");
    println!("cargo::rerun-if-changed=build.rs");
    // Both files change with a checkout or a commit.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
