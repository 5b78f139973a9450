//! Who may log in: names, argon2 hashes, home folders; and how long a guess takes.
//!
//! Without a list of users everybody is `anonymous`. A wrong name costs the same work as a wrong password, one
//! password is checked at a time (argon2 takes memory), and every failure from an address makes its next answer
//! later. Nothing here knows FTP.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::store::fs;

/// Addresses whose failures are remembered at once; beyond that the oldest is forgotten.
const MAX_REMEMBERED: usize = 4096;
/// How long a failure is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Failures of one address after which it is turned away until they are forgotten.
const MAX_FAILURES: u32 = 20;
/// What the answer waits after the first failure; doubled with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// What an answer waits at most.
const LONGEST_DELAY: Duration = Duration::from_secs(8);
/// Longest password that is hashed at all, in bytes.
const MAX_PASSWORD_BYTES: usize = 1024;
/// Most memory a hash of the users file may ask for, in KiB: a mistyped cost must not take the machine down.
const MAX_HASH_KIB: u32 = 256 * 1024;

/// Whether files may be changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// They may be read.
    #[default]
    ReadOnly,
    /// They may be read and changed.
    Writable,
}

/// What somebody who logged in may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who it is, for the log.
    pub name: String,
    /// Their folder, relative to the root of the server; empty for all of it.
    pub home: PathBuf,
    /// Whether they may change anything.
    pub access: Access,
}

/// Why somebody was not let in. The peer is told the same for a wrong name and a wrong password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginError {
    /// Name or password is wrong.
    Refused,
    /// Too many failures from there.
    TooMany,
}

/// Everybody who may log in.
#[derive(Debug)]
pub struct Users {
    known: BTreeMap<String, User>,
    /// What an unknown name is checked against.
    decoy: String,
    /// One password at a time: a hash takes tens of megabytes.
    turn: Arc<Semaphore>,
    failures: Mutex<BTreeMap<IpAddr, Failures>>,
}

#[derive(Debug)]
struct User {
    /// `None`: any password will do.
    hash: Option<String>,
    home: PathBuf,
    access: Access,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    user: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    hash: Option<String>,
    #[serde(default)]
    home: String,
    writable: Option<bool>,
}

/// What is wrong with a file of users.
#[derive(Debug)]
pub struct UsersError(String);

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsersError {}

impl Users {
    /// Nobody has a name: `anonymous` (or `ftp`) with any password sees all of the root.
    pub fn anonymous(access: Access) -> Self {
        let user = || User { hash: None, home: PathBuf::new(), access };
        let known = [("anonymous".to_owned(), user()), ("ftp".to_owned(), user())].into();
        Self::new(known)
    }

    /// The users of a TOML file:
    /// ```toml
    /// [[user]]
    /// name = "anna"
    /// hash = "$argon2id$v=19$m=19456,t=2,p=1$…"   # as `braidftp serve --hash-password` prints it
    /// home = "anna"                               # a folder in the root; all of it without this line
    /// writable = true                             # else what `--writable` says
    ///
    /// [[user]]
    /// name = "anonymous"                          # without a hash any password will do; for this name alone
    /// ```
    ///
    /// # Errors
    /// It cannot be read, is not such a file, names somebody twice, or has a hash that is none.
    pub fn load(path: &Path, access: Access) -> Result<Self, UsersError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| UsersError(format!("cannot read the users file `{}`: {e}", path.display())))?;
        Self::parse(&text, access).map_err(|UsersError(why)| {
            UsersError(format!("the users file `{}` cannot be used: {why}", path.display()))
        })
    }

    /// The users of such a text.
    ///
    /// # Errors
    /// As [`Users::load`].
    pub fn parse(text: &str, access: Access) -> Result<Self, UsersError> {
        let file: File = toml::from_str(text).map_err(|e| UsersError(e.to_string()))?;
        let mut known = BTreeMap::new();
        for entry in file.user {
            let wrong = |why: &str| Err(UsersError(format!("user `{}`: {why}", entry.name.escape_debug())));
            match &entry.hash {
                None if entry.name != "anonymous" && entry.name != "ftp" => {
                    return wrong("no hash; make one with `braidftp serve --hash-password`");
                }
                None => {}
                Some(hash) => match PasswordHash::new(hash).map(|hash| argon2::Params::try_from(&hash)) {
                    Ok(Ok(params)) if params.m_cost() <= MAX_HASH_KIB => {}
                    Ok(Ok(_)) => return wrong("its hash asks for more than 256 MiB of memory"),
                    _ => return wrong("its hash is not one of argon2 (`$argon2id$…`)"),
                },
            }
            let Ok(home) = fs::relative(entry.home.as_bytes()) else {
                return wrong("its home is not a folder within the root");
            };
            let access = match entry.writable {
                Some(true) => Access::Writable,
                Some(false) => Access::ReadOnly,
                None => access,
            };
            let user = User { hash: entry.hash.clone(), home, access };
            if known.insert(entry.name.clone(), user).is_some() {
                return wrong("it is there twice");
            }
        }
        Ok(Self::new(known))
    }

    fn new(known: BTreeMap<String, User>) -> Self {
        // The first hash there is, so that an unknown name takes as long as that one does.
        let decoy = known.values().find_map(|user| user.hash.clone()).unwrap_or_default();
        Self { known, decoy, turn: Arc::new(Semaphore::new(1)), failures: Mutex::default() }
    }

    /// The hash of a password, for a file of users.
    ///
    /// # Errors
    /// The system has no randomness for the salt.
    pub fn hash(password: &[u8]) -> Result<String, UsersError> {
        match Argon2::default().hash_password(password) {
            Ok(hash) => Ok(hash.to_string()),
            Err(e) => Err(UsersError(format!("cannot hash the password: {e}"))),
        }
    }

    /// Checks who this is. The answer comes late if `peer` has guessed before.
    ///
    /// # Errors
    /// [`LoginError`].
    ///
    /// # Cancel safety
    /// Safe; a failure may then not be counted.
    pub async fn log_in(&self, user: &[u8], password: &[u8], peer: IpAddr) -> Result<Grant, LoginError> {
        let peer = subnet(peer);
        let count = self.failures_of(peer);
        if count >= MAX_FAILURES {
            return Err(LoginError::TooMany);
        }
        if count > 0 {
            tokio::time::sleep(delay_after(count)).await;
        }
        let name = std::str::from_utf8(user).unwrap_or("\u{fffd}");
        let known = self.known.get(name);
        let hash = match known {
            Some(User { hash: None, .. }) => None,
            Some(User { hash: Some(hash), .. }) => Some(hash.clone()),
            None => Some(self.decoy.clone()),
        };
        let right = match hash {
            None => true,
            Some(hash) => self.check(hash, password).await,
        };
        match known {
            Some(known) if right => {
                self.lock().remove(&peer);
                Ok(Grant { name: name.to_owned(), home: known.home.clone(), access: known.access })
            }
            _ => {
                self.failed(peer);
                Err(LoginError::Refused)
            }
        }
    }

    async fn check(&self, hash: String, password: &[u8]) -> bool {
        if password.len() > MAX_PASSWORD_BYTES {
            return false;
        }
        let Ok(turn) = self.turn.clone().acquire_owned().await else { return false };
        let password = password.to_vec();
        let work = move || {
            // Held to the end of the work, not of the waiting: a session that goes away does not free the memory.
            let _turn = turn;
            PasswordHash::new(&hash)
                .is_ok_and(|hash| Argon2::default().verify_password(&password, &hash).is_ok())
        };
        tokio::task::spawn_blocking(work).await.unwrap_or(false)
    }

    fn failures_of(&self, peer: IpAddr) -> u32 {
        match self.lock().get(&peer) {
            Some(failures) if failures.last.elapsed() < REMEMBERED => failures.count,
            _ => 0,
        }
    }

    fn failed(&self, peer: IpAddr) {
        let now = Instant::now();
        let mut table = self.lock();
        if table.len() >= MAX_REMEMBERED && !table.contains_key(&peer) {
            let oldest = table.iter().min_by_key(|(_, failures)| failures.last).map(|(peer, _)| *peer);
            if let Some(oldest) = oldest {
                table.remove(&oldest);
            }
        }
        let failures = table.entry(peer).or_insert(Failures { count: 0, last: now });
        if failures.last.elapsed() >= REMEMBERED {
            failures.count = 0;
        }
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<IpAddr, Failures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn delay_after(failures: u32) -> Duration {
    FIRST_DELAY.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_DELAY)
}

/// Whom an address stands for: itself, or its /64 in IPv6, of which a guesser has as many as they like.
fn subnet(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            IpAddr::from([segments[0], segments[1], segments[2], segments[3], 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// argon2id of "right" at the lowest cost there is.
    fn cheap_hash() -> String {
        let params = argon2::Params::new(8, 1, 1, None).unwrap();
        Argon2::from(params).hash_password(b"right").unwrap().to_string()
    }

    fn users() -> Users {
        let text = format!(
            "[[user]]\nname = 'anna'\nhash = '{}'\nhome = '/anna/'\nwritable = true\n[[user]]\nname = 'anonymous'",
            cheap_hash()
        );
        Users::parse(&text, Access::ReadOnly).unwrap()
    }

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test(start_paused = true)]
    async fn a_right_password_opens_the_home_and_a_wrong_one_does_not() {
        let users = users();
        let grant = users.log_in(b"anna", b"right", HERE).await.unwrap();
        let home = PathBuf::from("anna");
        assert_eq!(grant, Grant { name: "anna".into(), home, access: Access::Writable });
        for (name, password) in [
            (&b"anna"[..], &b"wrong"[..]),
            (b"anna", b""),
            (b"bert", b"right"),
            (b"\xff", b"right"),
            (b"ftp", b""),
        ] {
            assert_eq!(users.log_in(name, password, HERE).await, Err(LoginError::Refused), "{name:?}");
        }
        let long = vec![b'a'; MAX_PASSWORD_BYTES + 1];
        assert_eq!(users.log_in(b"anna", &long, HERE).await, Err(LoginError::Refused));
        assert_eq!(users.log_in(b"anonymous", b"a@b", HERE).await.unwrap().access, Access::ReadOnly);
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_makes_the_next_answer_later_until_the_address_is_turned_away() {
        let users = users();
        let elsewhere = IpAddr::from([10, 0, 0, 1]);
        let mut waited = Vec::new();
        for _ in 0..MAX_FAILURES {
            let begin = Instant::now();
            assert_eq!(users.log_in(b"anna", b"wrong", HERE).await, Err(LoginError::Refused));
            waited.push(begin.elapsed().as_millis());
        }
        assert_eq!(waited[..8], [0, 250, 500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!(users.log_in(b"anna", b"right", HERE).await, Err(LoginError::TooMany));
        assert!(users.log_in(b"anna", b"right", elsewhere).await.is_ok(), "others are not held up");
        tokio::time::advance(REMEMBERED).await;
        assert!(users.log_in(b"anna", b"right", HERE).await.is_ok(), "it is forgotten in time");
    }

    #[test]
    fn a_guesser_has_one_ipv6_network_and_the_table_has_an_end() {
        let users = users();
        users.failed(subnet("2001:db8::1".parse().unwrap()));
        assert_eq!(users.failures_of(subnet("2001:db8::2".parse().unwrap())), 1);
        assert_eq!(subnet("::ffff:10.0.0.1".parse().unwrap()), IpAddr::from([10, 0, 0, 1]));
        for i in 0..MAX_REMEMBERED as u32 + 10 {
            users.failed(IpAddr::from(i.to_be_bytes()));
        }
        assert_eq!(users.lock().len(), MAX_REMEMBERED);
    }

    #[test]
    fn a_file_that_cannot_be_meant_is_refused_with_its_reason() {
        let hash = cheap_hash();
        for (text, why) in [
            ("[[user]]\nname = 'a'", "no hash"),
            ("[[user]]\nname = 'a'\nhash = 'secret'", "not one of argon2"),
            (
                "[[user]]\nname = 'a'\nhash = '$argon2id$v=19$m=4294967295,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0'",
                "memory",
            ),
            ("[[user]]\nname = 'ftp'\nhome = '../up'", "home"),
            ("[[user]]\nname = 'ftp'\n[[user]]\nname = 'ftp'", "twice"),
            ("[[user]]\nname = 'ftp'\nhoem = 'x'", "hoem"),
            ("[[user]\nname", "expected"),
        ] {
            let error = Users::parse(text, Access::ReadOnly).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Users::parse(&format!("[[user]]\nname='a'\nhash='{hash}'"), Access::ReadOnly).is_ok());
        assert!(Users::load(Path::new("/nowhere"), Access::ReadOnly).is_err());
    }

    #[test]
    fn what_hash_makes_opens() {
        let hash = Users::hash(b"pass word").unwrap();
        let parsed = PasswordHash::new(&hash).unwrap();
        assert!(Argon2::default().verify_password(b"pass word", &parsed).is_ok());
    }
}
