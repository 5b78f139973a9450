//! Known servers: a file with a line for each server that the user has accepted.
//!
//! ```text
//! files.example.org:2121 SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU
//! ```
//!
//! A server is identified by host and port. The same key at another port of a known host is the same server,
//! so that the user is asked once for TCP and SCTP. An invalid line is an error, so that a damaged file never
//! makes a known server unknown.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{Fingerprint, Peer, folder_of};
use crate::exit::{Error, Exit, Result};

/// The maximum size of the file in bytes: about 50,000 servers.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHosts {
    path: PathBuf,
}

/// The entry of a server in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// None.
    No,
    /// None; but a server at another port of the host has another key, on this line.
    Neighbour { key: Fingerprint, line: usize },
    /// The server has this key; or a server at another port of the host has it.
    Yes,
    /// The server has another key, on this line.
    Other { key: Fingerprint, line: usize },
}

impl KnownHosts {
    /// Uses the file at this path, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The user's file: `$XDG_CONFIG_HOME/braidftp/known_hosts`, or `~/.config/braidftp/known_hosts`.
    ///
    /// # Errors
    ///
    /// There is no home directory.
    pub fn usual() -> Result<Self> {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let place = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
        let place = place.ok_or_else(|| {
            Error::usage("find the known_hosts file", "$HOME is not set")
                .hint("set XDG_CONFIG_HOME to a folder, or give --pin FINGERPRINT")
        })?;
        Ok(Self::at(place.join("braidftp/known_hosts")))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks up a server that presents this key.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has an invalid line.
    pub(super) fn look_up(&self, peer: &Peer, key: Fingerprint) -> Result<Known> {
        let text = self.read()?;
        let mut found = Known::No;
        for line in self.lines(&text) {
            let (line, name, known) = line?;
            let same_server = name == peer.to_string();
            let same_host = || name.rsplit_once(':').map(|(host, _)| host) == Some(peer.host());
            match (known == key, same_server) {
                (true, _) if same_server || same_host() => return Ok(Known::Yes),
                (false, true) => found = Known::Other { key: known, line },
                (false, false) if found == Known::No && same_host() => {
                    found = Known::Neighbour { key: known, line };
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Whether the file has a server of this host, at any port.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has an invalid line.
    pub fn knows(&self, peer: &Peer) -> Result<bool> {
        let text = self.read()?;
        for line in self.lines(&text) {
            let (_, name, _) = line?;
            if name.rsplit_once(':').map(|(host, _)| host) == Some(peer.host()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a server. The file is written to a temporary file and renamed, so that a full disk loses nothing.
    ///
    /// # Errors
    ///
    /// The file cannot be written, and is unchanged.
    pub(super) fn add(&self, peer: &Peer, key: Fingerprint) -> Result<()> {
        self.replace(&format!("{peer} {key}\n")).map_err(|error| {
            let what = format!("write {} (it is unchanged)", self.path.display());
            Error::local(what, &error)
                .hint("free some space or mend its permissions, or give --pin FINGERPRINT")
        })
    }

    fn replace(&self, line: &str) -> io::Result<()> {
        // A symbolic link to the file is preserved.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let folder = folder_of(&path);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // Concurrent additions must not lose lines.
        let lock = File::open(&folder)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
        let mut text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        if text.last().is_some_and(|last| *last != b'\n') {
            text.push(b'\n');
        }
        text.extend_from_slice(line.as_bytes());
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        lock.sync_all()
    }

    /// The servers of `text`, each with the number of its line.
    fn lines<'a>(&self, text: &'a str) -> impl Iterator<Item = Result<(usize, &'a str, Fingerprint)>> {
        let numbered = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(number, line)| {
            let (name, key) = parse(line).map_err(|why| {
                Error::usage(format_args!("read {} line {number}", self.path.display()), why)
                    .hint("mend or delete the line; it should be HOST:PORT SHA256:…")
            })?;
            Ok((number, name, key))
        })
    }

    fn read(&self) -> Result<String> {
        let what = || format!("read {}", self.path.display());
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(Error::local(what(), &error)),
        };
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| Error::local(what(), &error))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(Error::new(
                Exit::Local,
                what(),
                format_args!("it is larger than {FILE_BYTES_MAX} bytes"),
            )
            .hint("delete lines of servers that you no longer use"));
        }
        String::from_utf8(text).map_err(|_| Error::new(Exit::Local, what(), "it is not text (UTF-8)"))
    }
}

/// Parses `HOST:PORT FINGERPRINT`, followed by anything.
fn parse(line: &str) -> Result<(&str, Fingerprint), String> {
    let mut words = line.split_ascii_whitespace();
    let (Some(name), Some(key)) = (words.next(), words.next()) else {
        return Err("it does not consist of two words".into());
    };
    Ok((name, key.parse().map_err(|error| format!("`{key}` is no fingerprint: {error}"))?))
}
