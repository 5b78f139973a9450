//! A key and its certificate in files: generates, writes, reads and checks them.
//!
//! A generated key and its certificate are in one file, so that no crash leaves a key without its
//! certificate.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    date_time_ymd,
};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore};
use zeroize::Zeroizing;

use super::{CHAIN_BYTES_MAX, Fingerprint, provider};
use crate::exit::{Error, Exit, Result};

/// The maximum size of a file of keys or certificates in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The mode bits that a key file must not have. Its group may read it: Debian uses a group for programs that
/// need keys.
const OTHERS: u32 = 0o027;

/// The files of a key and its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate in PEM, followed by the chain to an authority.
    pub certificate: PathBuf,
    /// The private key in PEM; may be the same file.
    pub key: PathBuf,
}

/// The kind of owner of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Servers,
    Clients,
}

/// A key, its certificate, and facts about both.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) fingerprint: Fingerprint,
    /// Why clients that rely on authorities will reject it: it has expired, or is not for servers.
    pub(super) complaint: Option<String>,
}

impl Files {
    /// The name of the file that a server creates.
    pub const NAME: &str = "server.pem";

    /// One file for both.
    pub fn one(path: impl Into<PathBuf>) -> Self {
        let certificate: PathBuf = path.into();
        Self { key: certificate.clone(), certificate }
    }

    /// The default location of a generated file, with the name of `server`: in `$STATE_DIRECTORY` (systemd),
    /// else `$XDG_DATA_HOME/braidftp`, else, for root, `/etc/braidftp`, else `~/.local/share/braidftp`.
    ///
    /// # Errors
    ///
    /// There is no home directory.
    pub fn usual() -> Result<Self> {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let place = folder("STATE_DIRECTORY")
            .or_else(|| folder("XDG_DATA_HOME").map(|home| home.join("braidftp")))
            .or_else(|| rustix::process::geteuid().is_root().then(|| PathBuf::from("/etc/braidftp")))
            .or_else(|| folder("HOME").map(|home| home.join(".local/share/braidftp")));
        let place = place.ok_or_else(|| {
            Error::usage("find a place for the server's key", "$HOME is not set")
                .hint("set XDG_DATA_HOME to a folder, or name files with --tls-cert and --tls-key")
        })?;
        Ok(Self::one(place.join(Self::NAME)))
    }

    /// Creates a key and a certificate for `names` if the file does not exist. Returns whether it was
    /// created.
    ///
    /// # Errors
    ///
    /// The folder or the file cannot be written. No partial file remains.
    pub(super) fn make(&self, whom: For, names: &[String]) -> Result<bool> {
        if self.key.try_exists().unwrap_or(true) {
            return Ok(false);
        }
        let what = match whom {
            For::Servers => format!("make the server's key {}", self.key.display()),
            For::Clients => format!("make the key {}", self.key.display()),
        };
        let made = new_pem(whom, names).map_err(|error| Error::new(Exit::Trust, &what, error))?;
        let made = Zeroizing::new(made);
        match write_new(&self.key, made.as_bytes()) {
            Ok(()) => Ok(true),
            // Another server created one concurrently, which is used.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) if whom == For::Servers => {
                Err(Error::local(what, &error).hint("name files with --tls-cert and --tls-key"))
            }
            Err(error) => Err(Error::local(what, &error)),
        }
    }

    /// Reads both and checks that they belong together.
    ///
    /// # Errors
    ///
    /// The file, the problem, and what to do.
    pub(super) fn load(&self) -> Result<Loaded> {
        let key = self.read_key()?;
        let chain = self.read_chain()?;
        let fingerprint = chain.first().map(Fingerprint::of).transpose();
        let what = format!("use the certificate {}", self.certificate.display());
        let Ok(Some(fingerprint)) = fingerprint else {
            return Err(Error::usage(what, "it is not an X.509 certificate of version 3")
                .hint("`openssl x509 -text -noout -in FILE` shows what it is"));
        };
        let complaint = complaint(&chain);
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| {
            let what = format!("use the key {}", self.key.display());
            match error {
                rustls::Error::InconsistentKeys(_) => Error::usage(
                    what,
                    format_args!("it is not the key of the certificate {}", self.certificate.display()),
                )
                .hint("give the pair that was made together"),
                other => {
                    Error::usage(what, other).hint("keys may be RSA, ECDSA (P-256, P-384, P-521) or Ed25519")
                }
            }
        })?;
        Ok(Loaded { certified: Arc::new(certified), fingerprint, complaint })
    }

    /// The key in a single file that only this user, or root, may change and nobody else may read; `None` for
    /// any other file.
    pub(super) fn own_key(&self) -> Option<Fingerprint> {
        let metadata = fs::metadata(&self.key).ok()?;
        let (owner, me) = (metadata.uid(), rustix::process::geteuid().as_raw());
        let is_own = (owner == me || owner == 0) && metadata.mode() & 0o077 == 0;
        is_own.then(|| self.load().ok()).flatten().map(|loaded| loaded.fingerprint)
    }

    fn read_chain(&self) -> Result<Vec<CertificateDer<'static>>> {
        let what = format!("read the certificate {}", self.certificate.display());
        let chain = read_certificates(&self.certificate)?;
        let bytes: usize = chain.iter().map(|certificate| certificate.len()).sum();
        if bytes > CHAIN_BYTES_MAX {
            return Err(Error::usage(
                what,
                format_args!("its certificates have {bytes} bytes; clients take {CHAIN_BYTES_MAX} at most"),
            )
            .hint("leave out certificates that do not lead to the authority"));
        }
        Ok(chain)
    }

    fn read_key(&self) -> Result<PrivateKeyDer<'static>> {
        let what = format!("read the key {}", self.key.display());
        let (text, mode) = read(&self.key, &what)?;
        if mode & OTHERS != 0 {
            return Err(Error::usage(
                what,
                format_args!("others than its owner may read or change it (mode {mode:03o})"),
            )
            .hint(format_args!(
                "chmod 600 {}; and make a new key if others may have read it",
                self.key.display()
            )));
        }
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            _ if contains(&text, b"ENCRYPTED") => Error::usage(what, "it is encrypted with a passphrase")
                .hint("openssl pkey -in ENCRYPTED -out KEY, and chmod 600 KEY"),
            rustls::pki_types::pem::Error::NoItemsFound => {
                Error::usage(what, "there is no private key in it")
                    .hint("it must be PEM, and hold -----BEGIN PRIVATE KEY-----")
            }
            error => Error::usage(what, format_args!("it is damaged: {}", damage(&error))).hint(
                "restore it from a copy; a key that the server made itself may be moved away: the next start makes a new one, of \
                 which clients have to be told",
            ),
        })
    }
}

/// The certificates of a PEM file.
///
/// # Errors
///
/// It cannot be read, or contains none.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let what = format!("read the certificate {}", path.display());
    let (text, _) = read(path, &what)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| {
        Error::usage(&what, format_args!("it is damaged: {}", damage(&error)))
            .hint("`openssl x509 -text -noout -in FILE` shows the first certificate of a file that is not")
    })?;
    if chain.is_empty() {
        return Err(Error::usage(what, "there is no certificate in it")
            .hint("it must be PEM, and begin with -----BEGIN CERTIFICATE-----"));
    }
    Ok(chain)
}

/// Describes what is wrong with a PEM text.
fn damage(error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error as E;
    match error {
        E::MissingSectionEnd { .. } => {
            "a line -----END …----- is missing, as if the file were cut off".into()
        }
        E::IllegalSectionStart { .. } => "a line -----BEGIN …----- is not whole".into(),
        E::Base64Decode(_) => "the text between BEGIN and END is not base64".into(),
        other => other.to_string(),
    }
}

/// The content of a file, and its mode at that time.
fn read(path: &Path, what: &str) -> Result<(Zeroizing<Vec<u8>>, u32)> {
    let local = |error: io::Error| Error::local(what, &error);
    let file = File::open(path).map_err(local)?;
    let metadata = file.metadata().map_err(local)?;
    if !metadata.is_file() {
        return Err(Error::usage(what, "it is not a regular file"));
    }
    // Allocated for the whole file, so that reallocation leaves no copy of the key in memory.
    let room = metadata.len().min(FILE_BYTES_MAX) as usize + 64;
    let mut text = Zeroizing::new(Vec::with_capacity(room));
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(local)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::usage(what, format_args!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok((text, metadata.mode() & 0o777))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Writes a new file that only its owner may read, completely or not at all. A missing folder is created for
/// its owner only.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    // Mode 600, as for every file of `tempfile`.
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// The folder that a file is in: `.` for a name alone.
pub(crate) fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// A P-256 key and a self-signed certificate. Some FTP clients do not support Ed25519.
fn new_pem(whom: For, names: &[String]) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "braidftp");
    // Clients identify the key and ignore the dates.
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![match whom {
        For::Servers => ExtendedKeyUsagePurpose::ServerAuth,
        For::Clients => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    let certificate = params.self_signed(&key)?;
    Ok(key.serialize_pem() + &certificate.pem())
}

/// Why a client that trusts the last certificate of the chain would reject the first.
fn complaint(chain: &[CertificateDer<'static>]) -> Option<String> {
    let (first, last) = (chain.first()?, chain.last()?);
    let mut roots = RootCertStore::empty();
    roots.add(last.clone()).ok()?;
    let parsed = ParsedCertificate::try_from(first).ok()?;
    let algorithms = provider().signature_verification_algorithms.all;
    let verdict =
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &chain[1..], UnixTime::now(), algorithms);
    match verdict {
        // Excludes the authority's own certificate, which has the same subject as the issuer of the first.
        Err(rustls::Error::InvalidCertificate(CertificateError::BadSignature)) if chain.len() == 1 => None,
        Err(rustls::Error::InvalidCertificate(error)) => super::certificate_error::in_words(&error),
        _ => None,
    }
}
