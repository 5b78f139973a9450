//! Protection of a server's sessions: the same settings for TLS over TCP and for protected SCTP.

use std::path::PathBuf;
use std::sync::Arc;

use braidftp_ftp::server::Unprotected;
use braidftp_net::keys;
use braidftp_net::sctp::dtls::Mode;

use crate::exit::{Error, Result};
use crate::identity::{Files, OWN_NAMES, ServerIdentity};

/// The protection of sessions, over TCP and SCTP alike.
#[derive(Debug, Clone, Default)]
pub struct Protection {
    /// The key and certificate. Without one there is no protection (`--plain`): associations are plain, and
    /// TLS is not offered.
    pub identity: Option<Arc<ServerIdentity>>,
    /// SCTP with an identity: whether associations of clients that request no protection are accepted, as in
    /// the modes of the papers. A client that requires protection gets it either way, or ends the
    /// association.
    pub plain_associations: Plain,
    /// Whether unprotected passwords are accepted. `anonymous` needs none.
    pub plain_passwords: Plain,
}

/// Whether unprotected associations or passwords are accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Plain {
    /// They are refused.
    #[default]
    Refused,
    /// They are accepted.
    Allowed,
}

impl Protection {
    /// The users who are permitted to log in without protection.
    pub(super) const fn unprotected(&self) -> Unprotected {
        match self.plain_passwords {
            Plain::Refused => Unprotected::Anonymous,
            Plain::Allowed => Unprotected::Everybody,
        }
    }

    /// The key management of associations; `None` without protection.
    pub(super) fn keys(&self) -> Result<Option<keys::Settings>> {
        let Some(identity) = &self.identity else { return Ok(None) };
        let settings = keys::Settings::server(Arc::new(identity.config_tls13(&[])?));
        let mode = match self.plain_associations {
            Plain::Refused => Mode::Strict,
            Plain::Allowed => Mode::Loose,
        };
        Ok(Some(keys::Settings { mode, ..settings }))
    }
}

impl Protection {
    /// The lines about its key that a server prints when it starts.
    pub(super) fn told(&self, origin: Origin) -> String {
        let Some(identity) = &self.identity else { return String::new() };
        let made = if origin == Origin::Made { ", made now" } else { "" };
        let mut told =
            format!("key {} of {}{made}\n", identity.fingerprint(), identity.files().key.display());
        told.extend(self.complaint().map(|complaint| complaint + "\n"));
        told
    }

    /// Why clients that rely on authorities will reject the certificate.
    pub(super) fn complaint(&self) -> Option<String> {
        let complaint = self.identity.as_ref()?.complaint()?;
        Some(format!("the certificate {complaint}: clients that do not know the key refuse it"))
    }
}

/// Options for protection of `braidftp serve`; the file of settings has the same names.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Protection")]
pub struct ProtectionArgs {
    /// Protect nothing: no TLS, and only plain associations
    #[arg(long, conflicts_with_all = ["allow_plain", "tls_cert", "identity"])]
    pub plain: bool,
    /// Also accept associations without protection, from clients that request them: those of --mode naive, ms
    /// and ms-cp, and --plain
    #[arg(long)]
    pub allow_plain: bool,
    /// Accept unprotected passwords, which can be read on the network
    #[arg(long)]
    pub allow_plain_passwords: bool,
    /// The certificate for clients, followed by the chain to its authority (PEM); read again when the file
    /// changes
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM, mode 600) [default: in the file of --tls-cert]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The folder of the key that the server generates on its first start [default: ~/.local/share/braidftp;
    /// for root /etc/braidftp]
    #[arg(long, value_name = "DIR", conflicts_with = "tls_cert")]
    pub identity: Option<PathBuf>,
}

/// The result of the options.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The location of the key; `None` without protection.
    key: Option<Key>,
    plain_associations: Plain,
    pub(super) plain_passwords: Plain,
}

#[derive(Debug, Clone)]
enum Key {
    /// Given files.
    Given(Files),
    /// A file that is generated if it does not exist.
    Own(Files),
}

/// The origin of a server's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It existed.
    Found,
    /// It was generated now.
    Made,
}

impl ProtectionArgs {
    /// These options, completed by those of a file of settings.
    pub(super) fn or(self, file: Self) -> Self {
        // A key given here replaces all key settings of the file, and its `plain`.
        let names_key = self.tls_cert.is_some() || self.identity.is_some();
        let file_keys = if self.plain || names_key { Self::default() } else { file.clone() };
        Self {
            plain: self.plain || (file_keys.plain && !self.allow_plain),
            allow_plain: self.allow_plain || file.allow_plain,
            allow_plain_passwords: self.allow_plain_passwords || file.allow_plain_passwords,
            tls_cert: self.tls_cert.or(file_keys.tls_cert),
            tls_key: self.tls_key.or(file_keys.tls_key),
            identity: self.identity.or(file_keys.identity),
        }
    }

    /// Evaluates the options.
    ///
    /// # Errors
    ///
    /// They contradict each other, or there is no location for a key.
    pub(super) fn wanted(self) -> Result<Wanted> {
        let plain = |allowed| if allowed { Plain::Allowed } else { Plain::Refused };
        let key = match (self.plain, self.tls_cert, self.tls_key, self.identity) {
            (true, None, None, None) => None,
            (true, ..) => {
                return Err(Error::usage("protect sessions", "`plain` is set, and so is a key")
                    .hint("leave out `plain`, or tls-cert, tls-key and identity"));
            }
            (false, Some(certificate), key, None) => {
                let key = key.unwrap_or_else(|| certificate.clone());
                Some(Key::Given(Files { certificate, key }))
            }
            (false, Some(_), _, Some(_)) => {
                return Err(Error::usage("choose the server's key", "tls-cert and identity are both set")
                    .hint("leave out one of them"));
            }
            (false, None, Some(_), _) => {
                return Err(Error::usage("use tls-key", "there is no tls-cert")
                    .hint("name the certificate of that key, too"));
            }
            (false, None, None, Some(folder)) => Some(Key::Own(Files::one(folder.join(Files::NAME)))),
            (false, None, None, None) => Some(Key::Own(Files::usual()?)),
        };
        Ok(Wanted {
            key,
            plain_associations: plain(self.allow_plain),
            plain_passwords: plain(self.allow_plain_passwords),
        })
    }
}

impl Wanted {
    /// Whether anything is protected.
    pub(super) fn protects(&self) -> bool {
        self.key.is_some()
    }

    /// Reads the key, or generates it.
    ///
    /// # Errors
    ///
    /// A file of it cannot be created or read, is damaged, or can be read by others.
    pub(super) fn load(&self) -> Result<(Protection, Origin)> {
        let mut origin = Origin::Found;
        let identity = match &self.key {
            None => None,
            Some(Key::Given(files)) => Some(ServerIdentity::load(files.clone())?),
            Some(Key::Own(files)) => {
                if !files.key.exists() {
                    origin = Origin::Made;
                }
                Some(ServerIdentity::load_or_make(files.clone(), &OWN_NAMES.map(String::from))?)
            }
        };
        Ok((self.with(identity), origin))
    }

    /// Reads the key if it exists, and generates none.
    ///
    /// # Errors
    ///
    /// A file of it cannot be read, is damaged, or can be read by others.
    pub(super) fn load_only(&self) -> Result<Protection> {
        let identity = match &self.key {
            None => None,
            Some(Key::Own(files)) if !files.key.exists() => None,
            Some(Key::Given(files) | Key::Own(files)) => Some(ServerIdentity::load(files.clone())?),
        };
        Ok(self.with(identity))
    }

    fn with(&self, identity: Option<Arc<ServerIdentity>>) -> Protection {
        Protection {
            identity,
            plain_associations: self.plain_associations,
            plain_passwords: self.plain_passwords,
        }
    }

    /// The lines that `--check` prints.
    pub(super) fn describe(&self, loaded: &Protection) -> String {
        let passwords = match self.plain_passwords {
            Plain::Refused => "passwords only inside protection",
            Plain::Allowed => "passwords are taken in the clear, too",
        };
        let Some(Key::Given(files) | Key::Own(files)) = &self.key else {
            return format!("protection: none; {passwords}\n");
        };
        let key = match &loaded.identity {
            Some(identity) => format!("key {} of {}", identity.fingerprint(), files.key.display()),
            None => format!("a key that the first start makes, {}", files.key.display()),
        };
        let associations = match self.plain_associations {
            Plain::Refused => "SCTP protected alone",
            Plain::Allowed => "SCTP protected, and plain to clients that ask for it",
        };
        format!("protection: {key}; {associations}; {passwords}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(folder: &str) -> ProtectionArgs {
        ProtectionArgs { identity: Some(folder.into()), ..ProtectionArgs::default() }
    }

    fn given(file: &str) -> ProtectionArgs {
        ProtectionArgs { tls_cert: Some(file.into()), ..ProtectionArgs::default() }
    }

    const PLAIN: fn() -> ProtectionArgs = || ProtectionArgs { plain: true, ..ProtectionArgs::default() };

    #[test]
    fn the_command_line_takes_precedence_over_the_file_of_settings() {
        let key = |args: ProtectionArgs, file: ProtectionArgs| match args.or(file).wanted().unwrap().key {
            None => "none".into(),
            Some(Key::Given(files)) => format!("given {}", files.key.display()),
            Some(Key::Own(files)) => format!("own {}", files.key.display()),
        };
        assert_eq!(key(own("a"), given("b")), "own a/server.pem");
        assert_eq!(key(given("b"), own("a")), "given b");
        assert_eq!(key(given("b"), PLAIN()), "given b");
        assert_eq!(key(PLAIN(), given("b")), "none");
        assert_eq!(key(ProtectionArgs::default(), own("a")), "own a/server.pem");
        assert_eq!(key(ProtectionArgs::default(), PLAIN()), "none");
    }

    #[test]
    fn contradictions_are_reported() {
        let error = |file: ProtectionArgs| file.wanted().unwrap_err().to_string();
        assert!(error(ProtectionArgs { plain: true, ..own("a") }).contains("`plain` is set"));
        assert!(error(ProtectionArgs { tls_cert: Some("b".into()), ..own("a") }).contains("both set"));
        let key = ProtectionArgs { tls_key: Some("k".into()), ..ProtectionArgs::default() };
        assert!(error(key).contains("there is no tls-cert"));
    }

    #[test]
    fn a_check_makes_no_key_and_a_start_makes_one() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = own(folder.path().join("keys").to_str().unwrap()).wanted().unwrap();
        let only = wanted.load_only().unwrap();
        assert!(wanted.describe(&only).contains("a key that the first start makes"));
        assert!(only.identity.is_none() && std::fs::read_dir(folder.path()).unwrap().next().is_none());
        let (made, origin) = wanted.load().unwrap();
        let (found, again) = wanted.load().unwrap();
        assert_eq!((origin, again), (Origin::Made, Origin::Found));
        let fingerprint = made.identity.unwrap().fingerprint();
        assert_eq!(found.identity.as_ref().unwrap().fingerprint(), fingerprint);
        assert!(wanted.describe(&found).contains(&fingerprint.to_string()));
    }
}
