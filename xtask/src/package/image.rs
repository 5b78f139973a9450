//! The static program, and the contents of the container image of `packaging/Containerfile`.
//!
//! It is linked with the C library of this machine (`+crt-static`): the standard library for musl would have
//! to be downloaded, which machines with access to package registries only cannot do. glibc has had DNS and
//! the files of /etc in its static library since 2.34; other sources of names and users (LDAP, mDNS) need the
//! program of the Debian package. The program needs /dev/urandom, which containers have.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Profile, empty, programs, strip};
use crate::shell::root;

/// Creates the folder `target/package/image`, with the layout of `/`.
pub(super) fn build(profile: Profile) -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = programs(&["braidftp"], profile, Some(&target))?;
    let image = empty("image")?;
    strip(&folder.join("braidftp"), &image.join("usr/bin/braidftp"))?;
    for (path, text) in [
        ("etc/passwd", "braidftp:x:65532:65532::/var/lib/braidftp:/nonexistent\n"),
        ("etc/group", "braidftp:x:65532:\n"),
    ] {
        let path = image.join(path);
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        std::fs::write(path, text)?;
    }
    for folder in ["etc/braidftp", "srv/ftp", "var/lib/braidftp"] {
        std::fs::create_dir_all(image.join(folder))?;
    }
    std::fs::copy(root().join("packaging/container.toml"), image.join("etc/braidftp/braidftp.toml"))?;
    println!("package: {}", image.join("usr/bin/braidftp").display());
    Ok(image)
}
