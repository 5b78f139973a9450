//! The server's key and certificates, which are read again when their files change.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

use super::client::AskForKey;
use super::files::{For, Loaded};
use super::{Files, Fingerprint, provider};
use crate::exit::{Error, Exit, Result};

/// Names in a generated certificate. Clients identify the server by its key.
pub(crate) const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The minimum interval between checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The identity of this server. rustls requests a certificate from it in each handshake.
#[derive(Debug)]
pub struct ServerIdentity {
    files: Files,
    now: Mutex<Now>,
    /// Whether clients are asked for a key.
    asks_clients: AtomicBool,
    /// Finds other identities by the name that a client requests.
    others: OnceLock<Others>,
}

/// Finds the identity of a server name (SNI, RFC 6066 §3).
pub(crate) type Find = Box<dyn Fn(&str) -> Option<Arc<ServerIdentity>> + Send + Sync>;

struct Others(Find);

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Others")
    }
}

#[derive(Debug)]
struct Now {
    loaded: Loaded,
    stamps: [Stamp; 2],
    looked: Instant,
}

/// The properties that change with a file: device, inode, size, and the time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(Option<(u64, u64, u64, i64, i64)>);

impl Stamp {
    fn of(path: &std::path::Path) -> Self {
        Self(fs::metadata(path).ok().map(|m| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec())))
    }
}

impl ServerIdentity {
    /// Creates a key and a certificate in one new file (mode 600) for a server.
    ///
    /// # Errors
    ///
    /// The file exists already, or cannot be written.
    pub fn make(files: Files) -> Result<Arc<Self>> {
        if !files.make(For::Servers, &OWN_NAMES.map(String::from))? {
            let what = format!("make the server's key {}", files.key.display());
            return Err(Error::usage(what, "there is one already").hint(
                "name another file; move it into the place of the old one when clients know its fingerprint",
            ));
        }
        Self::load(files)
    }

    /// Loads the key of `files`, which is generated if they are one file that does not exist (mode 600, in a
    /// folder of mode 700). `names` go into a new certificate.
    ///
    /// # Errors
    ///
    /// A file cannot be created or read, is damaged, can be read by others, or the two do not belong
    /// together.
    pub fn load_or_make(files: Files, names: &[String]) -> Result<Arc<Self>> {
        if files.certificate == files.key {
            files.make(For::Servers, names)?;
        }
        Self::load(files)
    }

    /// Loads the key of `files`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, is damaged, can be read by others, or the two do not belong together.
    pub fn load(files: Files) -> Result<Arc<Self>> {
        let stamps = files.stamps();
        let loaded = files.load()?;
        let now = Now { loaded, stamps, looked: Instant::now() };
        Ok(Arc::new(Self {
            files,
            now: Mutex::new(now),
            asks_clients: AtomicBool::new(false),
            others: OnceLock::new(),
        }))
    }

    /// The files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The fingerprint of the key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.lock().loaded.fingerprint
    }

    /// Why clients that rely on authorities will reject the certificate: it has expired, is not valid yet, or
    /// is not for servers.
    pub fn complaint(&self) -> Option<String> {
        self.lock().loaded.complaint.clone()
    }

    /// Configurations created from now on ask clients for a key, and accept any or none.
    pub fn ask_clients(&self) {
        self.asks_clients.store(true, Ordering::Relaxed);
    }

    /// Presents the certificate of the identity that `find` returns for the requested name, if there is one.
    /// May be set once.
    pub(crate) fn also(&self, find: Find) {
        let _ = self.others.set(Others(find));
    }

    /// A configuration for TLS 1.3 and 1.2 with the protocols of `alpn`. A client that offers only other
    /// protocols is refused (RFC 7301 §3.2); a client that offers none is not.
    ///
    /// # Errors
    ///
    /// The cryptography provider lacks what TLS needs.
    pub fn config(self: &Arc<Self>, alpn: &[&[u8]]) -> Result<ServerConfig> {
        self.config_for(alpn, &[&version::TLS13, &version::TLS12])
    }

    /// The same for TLS 1.3 alone.
    ///
    /// # Errors
    ///
    /// The cryptography provider lacks what TLS needs.
    pub fn config_tls13(self: &Arc<Self>, alpn: &[&[u8]]) -> Result<ServerConfig> {
        self.config_for(alpn, &[&version::TLS13])
    }

    fn config_for(
        self: &Arc<Self>,
        alpn: &[&[u8]],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Result<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .map_err(|error| Error::new(Exit::Trust, "set up TLS", error))?;
        let builder = match self.asks_clients.load(Ordering::Relaxed) {
            true => builder.with_client_cert_verifier(Arc::new(AskForKey)),
            false => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.clone());
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current key: that of the files, or the previous one if the files are invalid.
    fn current(&self, now: Instant) -> Arc<CertifiedKey> {
        let mut current = self.lock();
        if now.saturating_duration_since(current.looked) >= LOOK_EVERY {
            current.looked = now;
            let stamps = self.files.stamps();
            if stamps != current.stamps {
                current.stamps = stamps;
                match self.files.load() {
                    Ok(loaded) => {
                        tracing::info!(
                            was = %current.loaded.fingerprint, is = %loaded.fingerprint,
                            "the certificate was changed and read again"
                        );
                        if let Some(complaint) = &loaded.complaint {
                            tracing::warn!("the certificate {complaint}");
                        }
                        current.loaded = loaded;
                    }
                    Err(error) => {
                        tracing::error!(%error, "the certificate was changed and is not good; the one before is used");
                    }
                }
            }
        }
        current.loaded.certified.clone()
    }
}

impl Files {
    fn stamps(&self) -> [Stamp; 2] {
        [Stamp::of(&self.certificate), Stamp::of(&self.key)]
    }
}

impl ResolvesServerCert for ServerIdentity {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = || self.others.get()?.0(hello.server_name()?);
        Some(match named() {
            Some(other) => other.current(Instant::now()),
            None => self.current(Instant::now()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_read_again_and_invalid_ones_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::one(folder.path().join("server.pem"));
        let identity = ServerIdentity::load_or_make(files.clone(), &[]).unwrap();
        let first = identity.fingerprint();
        let later = |steps: u32| Instant::now() + LOOK_EVERY * steps;

        fs::write(&files.key, "nothing good").unwrap();
        identity.current(later(2));
        assert_eq!(identity.fingerprint(), first, "the bad file was used");

        let other = Files::one(folder.path().join("other.pem"));
        let second = ServerIdentity::load_or_make(other.clone(), &[]).unwrap().fingerprint();
        fs::rename(&other.key, &files.key).unwrap();
        identity.current(later(2));
        assert_eq!(identity.fingerprint(), first, "within the second nothing is looked at");
        identity.current(later(4));
        assert_eq!(identity.fingerprint(), second);
    }
}
