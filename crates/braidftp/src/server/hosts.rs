//! Virtual hosts (RFC 7151): the data of each, from the tables `[[host]]` of the settings to its sessions.
//!
//! A session selects a host by HOST, over every transport, or by the server name in TLS (SNI) over TCP. All
//! other sessions use the default host, with the server's own folder and users. Wrong passwords are counted
//! for all hosts together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use braidftp_ftp::server::{HostId, VirtualHost, find_host};
use braidftp_net::keys::rustls::pki_types::CertificateDer;
use bytes::Bytes;
use rustls::Connection;

use super::Shared;
use super::config::HostEntry;
use super::confine::{Place, Rights};
use super::error::ServeError;
use super::live::Live;
use super::logins::Logins;
use super::roster::Roster;
use crate::identity::{Files, Fingerprint, ServerIdentity, folder_of};
use crate::store::Tree;
use crate::users::{Access, Users};

/// The configuration of a virtual host.
#[derive(Debug)]
pub struct Host {
    /// Its names, in any case.
    pub names: Vec<String>,
    /// The text of the reply to HOST; by default the server's greeting.
    pub greeting: Option<String>,
    /// Its root.
    pub root: Tree,
    /// The path of the root, for hooks.
    pub folder: PathBuf,
    /// Its users.
    pub users: Users,
    /// Its key and certificate, if it has its own.
    pub identity: Option<Arc<ServerIdentity>>,
}

/// The data of one host, or of the default host.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) root: Tree,
    /// The path of the root, for a virtual host.
    folder: PathBuf,
    pub(super) users: Arc<Roster>,
    /// The order of the sessions of each user.
    pub(super) logins: Logins,
}

impl Site {
    /// `folder` is the path of the root, or empty for that of the server.
    pub(super) fn new(root: Tree, folder: PathBuf, users: Users, settings: &Arc<Live>) -> Self {
        let users = Arc::new(Roster::new(users, root.clone(), settings.clone()));
        Self { root, folder, users, logins: Logins::default() }
    }

    /// The home folder of a user: relative to the folder of the server, or absolute.
    pub(super) fn folder_of(&self, home: &Path) -> PathBuf {
        self.folder.join(home)
    }

    /// The users with this key.
    fn of_key(&self, key: Fingerprint) -> Vec<Bytes> {
        let lists = self.users.now();
        lists.users.of_key(key).map(|name| Bytes::copy_from_slice(name.as_bytes())).collect()
    }
}

impl Shared {
    /// The data of a host; `None`: the default host.
    pub(super) fn site(&self, host: Option<HostId>) -> Arc<Site> {
        host.and_then(|HostId(number)| self.hosts.get(number)).unwrap_or(&self.own).clone()
    }

    /// All hosts, with their numbers.
    pub(super) fn sites(&self) -> impl Iterator<Item = (Option<HostId>, &Arc<Site>)> {
        let hosts = self.hosts.iter().enumerate().map(|(number, site)| (Some(HostId(number)), site));
        std::iter::once((None, &self.own)).chain(hosts)
    }

    /// The users of each host whose key a client has proved with these certificates, its own first, in a
    /// completed handshake: for [`braidftp_ftp::server::Session::vouch`].
    pub(super) fn vouched(
        &self,
        certificates: Option<&[CertificateDer<'_>]>,
    ) -> Vec<(Option<HostId>, Bytes)> {
        let shown = certificates.and_then(<[_]>::first).and_then(|first| Fingerprint::of(first).ok());
        let Some(key) = shown else { return Vec::new() };
        let of_site = |(host, site): (Option<HostId>, &Arc<Site>)| {
            site.of_key(key).into_iter().map(move |name| (host, name)).collect::<Vec<_>>()
        };
        self.sites().flat_map(of_site).collect()
    }
}

/// The server name that a client sent in TLS.
pub(super) fn server_name(tls: &Connection) -> Option<String> {
    match tls {
        Connection::Server(server) => server.server_name().map(|name| name.to_string()),
        Connection::Client(_) => None,
    }
}

/// The hosts in the form of sessions.
pub(super) fn virtual_hosts(hosts: &[Host], greeting: &str) -> Vec<VirtualHost> {
    let host = |host: &Host| VirtualHost {
        names: host.names.clone(),
        greeting: host.greeting.clone().unwrap_or_else(|| greeting.to_owned()),
    };
    hosts.iter().map(host).collect()
}

/// Lets the server present the certificates of hosts that have their own, to clients that send their names.
pub(super) fn show_certificates(server: &ServerIdentity, hosts: &[Host], words: &[VirtualHost]) {
    let own: Vec<Option<Arc<ServerIdentity>>> = hosts.iter().map(|host| host.identity.clone()).collect();
    let words = words.to_vec();
    server.also(Box::new(move |name| own.get(find_host(&words, name.as_bytes())?.0)?.clone()));
}

/// Returns what a tree needs of this machine: a folder itself, where the homes are, including those created later; an object
/// store the files by which its name is resolved and its certificate verified.
pub(super) fn served(dir: &Path, rights: Rights) -> Vec<Place> {
    if !Tree::is_address(dir) {
        return vec![Place { path: dir.to_owned(), rights }];
    }
    let paths =
        ["/etc", "/run/systemd/resolve", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates"];
    paths.map(|path| Place { path: path.into(), rights: Rights::Read }).into()
}

/// A table `[[host]]`, combined with the settings of the server.
#[derive(Debug)]
pub(super) struct HostPlan {
    pub(super) names: Vec<String>,
    pub(super) dir: PathBuf,
    pub(super) greeting: Option<String>,
    pub(super) users_file: Option<PathBuf>,
    pub(super) users: Users,
    key: Option<Files>,
    anonymous: bool,
}

impl HostPlan {
    /// Reads the users of a host. `access` is the default access.
    ///
    /// # Errors
    ///
    /// Nobody could log in, or a file cannot be read: a sentence.
    pub(super) fn of(entry: HostEntry, access: Access) -> Result<Self, String> {
        let names = entry.names.map(|names| names.0).unwrap_or_default();
        let wrong = |why: &str| format!("host {}: {why}", names.join(", "));
        let anonymous = entry.anonymous.unwrap_or(entry.users.is_none());
        let mut users = match &entry.users {
            Some(file) => Users::load(file, access).map_err(|error| wrong(&error.to_string()))?,
            None => Users::anonymous(access),
        };
        users.have_anonymous(anonymous.then_some(access));
        if users.accounts().next().is_none() {
            return Err(wrong("nobody could log in: name a file of `users`, or set `anonymous = true`"));
        }
        let key = match (entry.tls_cert, entry.tls_key) {
            (Some(certificate), key) => {
                Some(Files { key: key.unwrap_or_else(|| certificate.clone()), certificate })
            }
            (None, Some(_)) => {
                return Err(wrong("tls-key is set, and tls-cert is not: name the certificate, too"));
            }
            (None, None) => None,
        };
        let dir = entry.dir.unwrap_or_default();
        Ok(Self { names, dir, greeting: entry.greeting, users_file: entry.users, users, key, anonymous })
    }

    /// Whether it has its own certificate.
    pub(super) fn has_certificate(&self) -> bool {
        self.key.is_some()
    }

    /// The settings that cannot be changed while the server runs.
    pub(super) fn fixed(&self) -> String {
        let Self { names, dir, greeting, users_file, key, anonymous, .. } = self;
        format!("{:?}", (names, dir, greeting, users_file, key, anonymous))
    }

    /// The folders that must remain accessible.
    pub(super) fn places(&self) -> Vec<Place> {
        let rights = if self.users.any_may_write() { Rights::ReadWrite } else { Rights::Read };
        let files =
            self.key.iter().flat_map(|files| [&files.certificate, &files.key]).chain(&self.users_file);
        let real = files.flat_map(|file| [Some(file.clone()), file.canonicalize().ok()]).flatten();
        let mut places = served(&self.dir, rights);
        places.extend(real.map(|file| Place { path: folder_of(&file), rights: Rights::ReadFiles }));
        places
    }

    /// Opens its folder and reads its key.
    ///
    /// # Errors
    ///
    /// One of them cannot be read.
    pub(super) fn open(self) -> Result<Host, ServeError> {
        let Self { names, dir, greeting, users, key, .. } = self;
        let root = Tree::open(&dir).map_err(ServeError::Folder)?;
        let identity = key.map(ServerIdentity::load).transpose().map_err(ServeError::Key)?;
        let folder = Tree::shown(&dir);
        Ok(Host { names, greeting, root, folder, users, identity })
    }

    /// Whether it serves a folder of this machine.
    pub(super) fn is_folder(&self) -> bool {
        !Tree::is_address(&self.dir)
    }

    /// The line that `--check` prints.
    pub(super) fn describe(&self) -> String {
        let certificate = match &self.key {
            Some(files) => format!("certificate {}", files.certificate.display()),
            None => "the server's certificate".into(),
        };
        let users = match &self.users_file {
            Some(file) => format!("users of {}", file.display()),
            None => "no file of users".into(),
        };
        let anonymous = if self.anonymous { "anonymous yes" } else { "anonymous no" };
        let names: Vec<String> =
            self.users.accounts().map(|account| account.name.escape_debug().to_string()).collect();
        format!(
            "host {}: folder {}; {users} ({}); {anonymous}; {certificate}{}\n",
            self.names.join(", "),
            Tree::shown(&self.dir).display(),
            names.join(", "),
            self.greeting.as_ref().map(|greeting| format!("; greeting {greeting:?}")).unwrap_or_default()
        )
    }

    /// The homes of its users that cannot be opened, one sentence each.
    pub(super) fn missing_homes(&self) -> Vec<String> {
        let tree = match Tree::open(&self.dir) {
            Ok(tree) => tree,
            Err(error) => return vec![format!("host {}: {error}", self.names.join(", "))],
        };
        // Homes in a bucket need not exist.
        let Some(root) = tree.folder() else { return Vec::new() };
        let homes = self.users.accounts().filter(|account| account.home != Path::new(""));
        let failed = |account: crate::users::Account<'_>| {
            let error = root.beneath(account.home).err()?;
            let name = account.name.escape_debug();
            Some(format!(
                "the home of user {name} of host {} cannot be opened: {error}",
                self.names.join(", ")
            ))
        };
        homes.filter_map(failed).collect()
    }
}
