//! The users file: names, argon2 hashes, home folders; and the delay after wrong passwords.
//!
//! Without a list of users everybody is `anonymous`. A wrong name costs the same work as a wrong password,
//! one password is checked at a time (argon2 takes memory), and every failure from an address delays the next
//! answer to it.
//!
//! Each check is counted against the address and the user before it is made. A success takes back only its
//! own count, so that a login to one account does not permit guesses at another. Nothing here knows FTP.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::identity::Fingerprint;
pub use crate::user_limits::Access;
use crate::user_limits::{Limits, Rights, Share};
use crate::users_file::{self, Entry};

/// The maximum number of addresses, and of unknown names, whose failures are remembered; beyond that the one
/// with the oldest failure is forgotten. A hash of the default cost takes more than 10 ms and one is checked
/// at a time, so that no peer can fill the table within [`REMEMBERED`].
pub(crate) const MAX_REMEMBERED: usize = 65_536;
/// How long a failure is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// The number of failed checks within [`REMEMBERED`] from one address (IPv6: one /64) after which it is
/// refused without a check.
pub(crate) const MAX_ADDRESS_FAILURES: usize = 20;
/// The number of failed checks within [`REMEMBERED`] against one user from all addresses. Beyond it, checks
/// are made only for addresses from which that user has logged in before, and which have no failures.
pub(crate) const MAX_USER_FAILURES: usize = 100;
/// The number of addresses of successful logins remembered for each user.
const MAX_KNOWN_ADDRESSES: usize = 64;
/// The maximum length of an unknown name that is counted, in bytes.
const MAX_COUNTED_NAME_BYTES: usize = 64;
/// The delay of the answer after the first failure; doubled with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// The maximum delay of an answer.
const LONGEST_DELAY: Duration = Duration::from_secs(8);
/// The maximum length of a password that is hashed, in bytes.
pub(crate) const MAX_PASSWORD_BYTES: usize = 1024;

/// The rights of a logged-in user.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The name, for the log.
    pub name: String,
    /// The home folder, relative to the root of the server; empty for the whole root.
    pub home: PathBuf,
    /// The rights.
    pub rights: Rights,
    /// State shared by all sessions of the user.
    pub share: Arc<Share>,
    /// The place of the session, if the number is limited; released with the last clone.
    pub place: Option<Arc<OwnedSemaphorePermit>>,
}

impl PartialEq for Grant {
    /// Compares what is granted.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.home, self.rights) == (&other.name, &other.home, other.rights)
    }
}

/// Why a login was refused. The peer receives the same reply for a wrong name and a wrong password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginError {
    /// Name or password is wrong.
    Refused,
    /// Too many failures from this address.
    TooMany,
    /// The user has the maximum number of sessions.
    Busy,
}

/// What too many failed checks have blocked temporarily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ban {
    /// The address (IPv6: its /64), for every name.
    Address,
    /// The name, except for addresses from which it has logged in.
    User,
}

/// A user who may log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account<'a> {
    /// The name.
    pub name: &'a str,
    /// The home folder, relative to the root of the server; empty for the whole root.
    pub home: &'a Path,
    /// The rights.
    pub rights: Rights,
    /// The limits over all sessions.
    pub limits: Limits,
    /// The keys that permit a login.
    pub keys: &'a [Fingerprint],
    /// What is weak about the password hash.
    pub weakness: Option<&'a str>,
}

/// All users.
#[derive(Debug)]
pub struct Users {
    known: BTreeMap<String, User>,
    /// The hash against which unknown names are checked.
    decoy: String,
    /// One password at a time: a hash takes tens of megabytes.
    turn: Arc<Semaphore>,
    failures: Arc<Mutex<Failures>>,
}

#[derive(Debug)]
struct User {
    proof: Proof,
    /// Keys, each of which permits a login without a password.
    keys: Vec<Fingerprint>,
    home: PathBuf,
    rights: Rights,
    share: Arc<Share>,
    /// What is weak about the hash.
    weakness: Option<String>,
}

/// The required proof.
#[derive(Debug)]
enum Proof {
    /// None: any password is accepted.
    Anything,
    /// The password with this hash.
    Password(String),
    /// A key; no password is accepted.
    Key,
}

impl User {
    fn grant(&self, name: &str) -> Result<Grant, LoginError> {
        let place = self.share.enter().map_err(|()| LoginError::Busy)?;
        Ok(Grant {
            name: name.to_owned(),
            home: self.home.clone(),
            rights: self.rights,
            share: self.share.clone(),
            place: place.map(Arc::new),
        })
    }
}

/// Checks that failed or are in progress.
#[derive(Debug, Default)]
struct Failures {
    by_address: BTreeMap<IpAddr, Recent>,
    by_user: BTreeMap<String, Recent>,
    /// Unknown names, which are treated like users.
    by_unknown: BTreeMap<String, Recent>,
    /// The addresses from which each user has logged in, the latest last.
    logged_in_from: BTreeMap<String, VecDeque<IpAddr>>,
}

/// The times of failed checks, the oldest first. Never empty in a table.
#[derive(Debug, Default)]
struct Recent(VecDeque<Instant>);

/// What a check is counted against.
#[derive(Debug, Clone)]
struct Guess {
    peer: IpAddr,
    name: String,
    is_user: bool,
}

impl Recent {
    fn count(&self, now: Instant) -> usize {
        self.0.iter().filter(|at| now.duration_since(**at) < REMEMBERED).count()
    }

    fn add(&mut self, now: Instant) {
        self.0.retain(|at| now.duration_since(*at) < REMEMBERED);
        self.0.push_back(now);
    }
}

impl Failures {
    fn count<K: Ord>(table: &BTreeMap<K, Recent>, key: &K, now: Instant) -> usize {
        table.get(key).map_or(0, |recent| recent.count(now))
    }

    fn of_address(&self, peer: IpAddr) -> usize {
        Self::count(&self.by_address, &peer, Instant::now())
    }

    fn may_check(&self, guess: &Guess) -> bool {
        let now = Instant::now();
        let from_address = Self::count(&self.by_address, &guess.peer, now);
        let names = if guess.is_user { &self.by_user } else { &self.by_unknown };
        let logged_in_from_there =
            || self.logged_in_from.get(&guess.name).is_some_and(|known| known.contains(&guess.peer));
        from_address < MAX_ADDRESS_FAILURES
            && (Self::count(names, &guess.name, now) < MAX_USER_FAILURES
                || (from_address == 0 && logged_in_from_there()))
    }

    /// Counts a check that is about to be made, if the limits permit it.
    fn charge(&mut self, guess: &Guess) -> Option<Instant> {
        if !self.may_check(guess) {
            return None;
        }
        let now = Instant::now();
        Self::add(&mut self.by_address, guess.peer, now);
        if guess.is_user {
            // The number of users is limited, and entries are not forgotten early.
            self.by_user.entry(guess.name.clone()).or_default().add(now);
        } else if guess.name.len() <= MAX_COUNTED_NAME_BYTES {
            Self::add(&mut self.by_unknown, guess.name.clone(), now);
        }
        Some(now)
    }

    fn add<K: Ord + Clone>(table: &mut BTreeMap<K, Recent>, key: K, now: Instant) {
        if table.len() >= MAX_REMEMBERED && !table.contains_key(&key) {
            table.retain(|_, recent| recent.count(now) > 0);
        }
        if table.len() >= MAX_REMEMBERED && !table.contains_key(&key) {
            let oldest = table.iter().min_by_key(|(_, recent)| recent.0.back().copied()).map(|(key, _)| key);
            if let Some(oldest) = oldest.cloned() {
                table.remove(&oldest);
            }
        }
        table.entry(key).or_default().add(now);
    }

    /// The check charged at that time succeeded: takes back only its own count.
    fn succeeded(&mut self, guess: &Guess, charged: Instant) {
        Self::take_back(&mut self.by_address, &guess.peer, charged);
        Self::take_back(&mut self.by_user, &guess.name, charged);
        let known = self.logged_in_from.entry(guess.name.clone()).or_default();
        known.retain(|address| *address != guess.peer);
        known.push_back(guess.peer);
        if known.len() > MAX_KNOWN_ADDRESSES {
            known.pop_front();
        }
    }

    fn take_back<K: Ord>(table: &mut BTreeMap<K, Recent>, key: &K, charged: Instant) {
        let Some(recent) = table.get_mut(key) else { return };
        if let Some(at) = recent.0.iter().rposition(|at| *at == charged) {
            recent.0.remove(at);
        }
        if recent.0.is_empty() {
            table.remove(key);
        }
    }
}

/// The mistakes in a users file, one sentence each.
#[derive(Debug)]
pub struct UsersError(pub(crate) Vec<String>);

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for UsersError {}

impl Users {
    /// Whether any user may change files.
    pub(crate) fn any_may_write(&self) -> bool {
        self.known.values().any(|user| user.rights.may_change())
    }

    /// Whether any user has a secret password.
    pub(crate) fn any_has_password(&self) -> bool {
        self.known.values().any(|user| matches!(user.proof, Proof::Password(_)))
    }

    /// The users with this key.
    pub fn of_key(&self, key: Fingerprint) -> impl Iterator<Item = &str> {
        self.known.iter().filter(move |(_, user)| user.keys.contains(&key)).map(|(name, _)| name.as_str())
    }

    /// Logs in a user who has proved possession of a key ([`Users::of_key`]).
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    pub fn admit(&self, user: &[u8]) -> Result<Grant, LoginError> {
        let name = std::str::from_utf8(user).unwrap_or("\u{fffd}");
        self.known.get(name).ok_or(LoginError::Refused)?.grant(name)
    }

    /// No named users: `anonymous` (or `ftp`) with any password has access to the whole root.
    pub fn anonymous(access: Access) -> Self {
        let user = || User {
            proof: Proof::Anything,
            keys: Vec::new(),
            home: PathBuf::new(),
            rights: access.into(),
            share: Arc::default(),
            weakness: None,
        };
        let known = [("anonymous".to_owned(), user()), ("ftp".to_owned(), user())].into();
        Self::new(known)
    }

    /// The users of a TOML file:
    /// ```toml
    /// [[user]]
    /// name = "anna"
    /// hash = "$argon2id$v=19$m=19456,t=2,p=1$…"   # as `braidftp serve --hash-password` prints it; not needed with keys
    /// keys = ["SHA256:…"]                         # as `braidftp key` prints it: no password is needed with this key
    /// home = "anna"                               # a folder in the root; all of it without this line
    /// writable = true                             # else what `--writable` says; or, one by one:
    /// rights = ["read", "list", "write", "delete"]
    /// quota = "10GiB"                             # of all files in the home
    /// rate = "3MB"                                # bytes of files a second, all sessions together
    /// sessions = 4                                # at once
    ///
    /// [[user]]
    /// name = "anonymous"                          # without a hash any password will do; for this name alone
    /// ```
    ///
    /// # Errors
    /// The file cannot be read, is not a file of users, names a user twice, or has an invalid hash.
    pub fn load(path: &Path, access: Access) -> Result<Self, UsersError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| UsersError(vec![format!("cannot read the users file `{}`: {e}", path.display())]))?;
        Self::read(path, &text, access)
    }

    /// Parses a users file.
    ///
    /// # Errors
    ///
    /// As [`Users::load`].
    pub fn parse(text: &str, access: Access) -> Result<Self, UsersError> {
        Self::read(Path::new("users.toml"), text, access)
    }

    fn read(path: &Path, text: &str, access: Access) -> Result<Self, UsersError> {
        let known = users_file::parse(path, text, access).map_err(UsersError)?.into_iter().map(|entry| {
            let Entry { name, hash, weakness, keys, home, rights, limits } = entry;
            let proof = match (hash, keys.is_empty()) {
                (Some(hash), _) => Proof::Password(hash),
                (None, false) => Proof::Key,
                (None, true) => Proof::Anything,
            };
            (name, User { proof, keys, home, rights, share: Arc::new(Share::new(limits)), weakness })
        });
        Ok(Self::new(known.collect()))
    }

    fn new(known: BTreeMap<String, User>) -> Self {
        // The first hash of the file, so that an unknown name takes as long as that user.
        let hash = |user: &User| match &user.proof {
            Proof::Password(hash) => Some(hash.clone()),
            Proof::Anything | Proof::Key => None,
        };
        let decoy = known.values().find_map(hash).unwrap_or_default();
        Self { known, decoy, turn: Arc::new(Semaphore::new(1)), failures: Arc::default() }
    }

    /// Replaces these users: failed checks stay counted, one password is checked at a time, and users with
    /// the same limits share them with their earlier sessions.
    pub(crate) fn follow(&mut self, before: &Self) {
        self.count_with(before);
        for (name, user) in &mut self.known {
            if let Some(before) = before.known.get(name)
                && (&before.home, before.share.limits()) == (&user.home, user.share.limits())
            {
                user.share = before.share.clone();
            }
        }
    }

    /// Counts failed checks together with those of these users, and checks one password of both at a time.
    pub(crate) fn count_with(&mut self, others: &Self) {
        (self.turn, self.failures) = (others.turn.clone(), others.failures.clone());
    }

    /// Permits `anonymous` and `ftp` to log in without a password, with this access, unless the file defines
    /// them; or permits no login without a password or key.
    pub(crate) fn have_anonymous(&mut self, access: Option<Access>) {
        match access {
            Some(access) => {
                for (name, user) in Self::anonymous(access).known {
                    self.known.entry(name).or_insert(user);
                }
            }
            None => self.known.retain(|_, user| !matches!(user.proof, Proof::Anything)),
        }
    }

    /// All users, by name.
    pub fn accounts(&self) -> impl Iterator<Item = Account<'_>> {
        self.known.iter().map(|(name, user)| Account {
            name,
            home: &user.home,
            rights: user.rights,
            limits: user.share.limits(),
            keys: &user.keys,
            weakness: user.weakness.as_deref(),
        })
    }

    /// A sentence for each user whose hash is weak.
    pub fn weaknesses(&self) -> impl Iterator<Item = String> {
        let told = |account: Account<'_>| {
            Some(format!("user {}: {}", account.name.escape_debug(), account.weakness?))
        };
        self.accounts().filter_map(told)
    }

    /// The number of addresses whose failed checks are remembered.
    pub fn remembered_addresses(&self) -> usize {
        lock(&self.failures).by_address.len()
    }

    /// The hash of a password, for a file of users.
    ///
    /// # Errors
    /// The system has no randomness for the salt.
    pub fn hash(password: &[u8]) -> Result<String, UsersError> {
        match Argon2::default().hash_password(password) {
            Ok(hash) => Ok(hash.to_string()),
            Err(e) => Err(UsersError(vec![format!("cannot hash the password: {e}")])),
        }
    }

    /// Checks a name and a password. The answer is delayed if earlier checks from `peer` have failed.
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    ///
    /// # Cancel safety
    ///
    /// Safe; a check that has begun is completed and counted.
    pub async fn log_in(&self, user: &[u8], password: &[u8], peer: IpAddr) -> Result<Grant, LoginError> {
        let name = std::str::from_utf8(user).unwrap_or("\u{fffd}");
        let known = self.known.get(name);
        let hash = match known.map(|user| &user.proof) {
            Some(Proof::Anything) => None,
            Some(Proof::Password(hash)) => Some(hash.clone()),
            // The check takes as long, and no password is accepted.
            Some(Proof::Key) | None => Some(self.decoy.clone()),
        };
        let has_password = matches!(known, Some(User { proof: Proof::Password(_), .. }));
        if let Some(hash) = hash {
            let guess = Guess { peer: subnet(peer), name: name.to_owned(), is_user: known.is_some() };
            self.check(guess, hash, password, has_password).await?;
        }
        known.ok_or(LoginError::Refused)?.grant(name)
    }

    /// Whether this peer, or this name, is blocked now.
    pub fn ban(&self, user: &[u8], peer: IpAddr) -> Option<Ban> {
        let (now, failures) = (Instant::now(), lock(&self.failures));
        if Failures::count(&failures.by_address, &subnet(peer), now) >= MAX_ADDRESS_FAILURES {
            return Some(Ban::Address);
        }
        let name = std::str::from_utf8(user).unwrap_or("\u{fffd}").to_owned();
        let names = if self.known.contains_key(&name) { &failures.by_user } else { &failures.by_unknown };
        (Failures::count(names, &name, now) >= MAX_USER_FAILURES).then_some(Ban::User)
    }

    /// Checks a password; for a user without a password none is accepted.
    async fn check(
        &self,
        guess: Guess,
        hash: String,
        password: &[u8],
        has_password: bool,
    ) -> Result<(), LoginError> {
        let failures_before = {
            let failures = lock(&self.failures);
            if !failures.may_check(&guess) {
                return Err(LoginError::TooMany);
            }
            failures.of_address(guess.peer)
        };
        if failures_before > 0 {
            tokio::time::sleep(delay_after(failures_before)).await;
        }
        let Ok(turn) = self.turn.clone().acquire_owned().await else { return Err(LoginError::Refused) };
        let password = Zeroizing::new(password.to_vec());
        let failures = self.failures.clone();
        // Counted only now, when no other check is in progress: concurrent sessions with the right password
        // do not use up each other's count, and concurrent guesses do.
        let charged = lock(&failures).charge(&guess).ok_or(LoginError::TooMany)?;
        let work = move || {
            // Held until the work ends, not the waiting: a session that ends does not free the memory.
            let _turn = turn;
            let right = password.len() <= MAX_PASSWORD_BYTES
                && PasswordHash::new(&hash)
                    .is_ok_and(|hash| Argon2::default().verify_password(&password, &hash).is_ok());
            // An unknown name is checked against a user's hash, and may even match it.
            let right = right && has_password;
            if right {
                lock(&failures).succeeded(&guess, charged);
            }
            right
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(LoginError::Refused),
        }
    }
}

fn lock(failures: &Mutex<Failures>) -> std::sync::MutexGuard<'_, Failures> {
    failures.lock().unwrap_or_else(PoisonError::into_inner)
}

fn delay_after(failures: usize) -> Duration {
    FIRST_DELAY.saturating_mul(1_u32 << failures.saturating_sub(1).min(10)).min(LONGEST_DELAY)
}

/// The unit of addresses that is counted: the address itself, or its /64 in IPv6, because one host can use
/// any address of a /64.
pub(crate) fn subnet(peer: IpAddr) -> IpAddr {
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

    /// The argon2id hash of "right" at the minimum cost.
    fn cheap_hash() -> String {
        let params = argon2::Params::new(8, 1, 1, None).unwrap();
        Argon2::from(params).hash_password(b"right").unwrap().to_string()
    }

    fn text() -> String {
        let hash = cheap_hash();
        format!(
            "[[user]]\nname = 'anna'\nhash = '{hash}'\nhome = '/anna/'\nwritable = true\n[[user]]\nname = 'anonymous'"
        )
    }

    fn users() -> Users {
        Users::parse(&text(), Access::ReadOnly).unwrap()
    }

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test(start_paused = true)]
    async fn a_login_needs_the_right_password() {
        let users = users();
        let grant = users.log_in(b"anna", b"right", HERE).await.unwrap();
        let home = PathBuf::from("anna");
        assert_eq!((grant.name.as_str(), grant.home, grant.rights), ("anna", home, Access::Writable.into()));
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
        assert_eq!(users.log_in(b"anonymous", b"a@b", HERE).await.unwrap().rights, Access::ReadOnly.into());
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_delays_the_next_answer_until_the_address_is_blocked() {
        let users = users();
        let elsewhere = IpAddr::from([10, 0, 0, 1]);
        let mut waited = Vec::new();
        for _ in 0..MAX_ADDRESS_FAILURES {
            let begin = Instant::now();
            assert_eq!(users.log_in(b"anna", b"wrong", HERE).await, Err(LoginError::Refused));
            waited.push(begin.elapsed().as_millis());
            assert_eq!(users.ban(b"anna", HERE).is_some(), waited.len() == MAX_ADDRESS_FAILURES);
        }
        assert_eq!(waited[..8], [0, 250, 500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!(users.log_in(b"anna", b"right", HERE).await, Err(LoginError::TooMany));
        assert_eq!((users.ban(b"anna", HERE), users.ban(b"anna", elsewhere)), (Some(Ban::Address), None));
        assert!(users.log_in(b"anna", b"right", elsewhere).await.is_ok(), "others are not held up");
        tokio::time::advance(REMEMBERED).await;
        assert!(users.log_in(b"anna", b"right", HERE).await.is_ok(), "it is forgotten in time");
    }

    /// The number of checks of "wrong" as `anna`, out of `tries`, before the address or the user was refused.
    async fn guesses(users: &Users, tries: usize, peer: IpAddr) -> usize {
        let mut checked = 0;
        for _ in 0..tries {
            checked += usize::from(users.log_in(b"anna", b"wrong", peer).await == Err(LoginError::Refused));
        }
        checked
    }

    #[tokio::test(start_paused = true)]
    async fn logins_to_other_accounts_do_not_permit_more_guesses() {
        let text = format!("{}\n[[user]]\nname = 'mine'\nhash = '{}'", text(), cheap_hash());
        let users = Users::parse(&text, Access::ReadOnly).unwrap();
        let mut checked = 0;
        for _ in 0..60 {
            checked += guesses(&users, 1, HERE).await;
            assert!(users.log_in(b"anonymous", b"", HERE).await.is_ok());
            let _ = users.log_in(b"mine", b"right", HERE).await;
        }
        assert!(checked <= MAX_ADDRESS_FAILURES, "{checked} guesses");
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_guesses_do_not_exceed_the_limit_and_concurrent_logins_succeed() {
        let users = Arc::new(users());
        let at_once = |password: &'static [u8]| {
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..49 {
                let users = users.clone();
                tasks.spawn(async move { users.log_in(b"anna", password, HERE).await });
            }
            tasks.join_all()
        };
        assert!(at_once(b"right").await.iter().all(Result::is_ok));
        let answers = at_once(b"wrong").await;
        let checked = answers.iter().filter(|answer| **answer == Err(LoginError::Refused)).count();
        assert_eq!(checked, MAX_ADDRESS_FAILURES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_guesses_block_a_user_except_at_known_addresses() {
        for name in [&b"anna"[..], b"nobody"] {
            let users = users();
            let home = IpAddr::from([192, 0, 2, 1]);
            assert!(users.log_in(b"anna", b"right", home).await.is_ok());
            let mut checked = 0;
            for i in 0..150_u8 {
                let peer = IpAddr::from([10, 0, 0, i]);
                checked += usize::from(users.log_in(name, b"wrong", peer).await == Err(LoginError::Refused));
            }
            assert_eq!(checked, MAX_USER_FAILURES, "{name:?}");
            assert_eq!(users.ban(name, home), Some(Ban::User));
            assert!(users.log_in(b"anna", b"right", home).await.is_ok(), "they logged in from there before");
            assert_eq!(guesses(&users, 3, home).await, if name == b"anna" { 1 } else { 3 });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_permits_a_login_and_without_a_hash_no_password_does() {
        let key = |letter: char| format!("SHA256:{}A", String::from(letter).repeat(42));
        let (mine, other) = (key('B'), key('C'));
        let hash = cheap_hash();
        let text = format!(
            "[[user]]\nname = 'anna'\nkeys = ['{other}', '{mine}']\n[[user]]\nname = 'bert'\nhash = '{hash}'\nkeys = ['{mine}']\n"
        );
        let users = Users::parse(&text, Access::Writable).unwrap();
        let of = |key: &str| users.of_key(key.parse().unwrap()).collect::<Vec<_>>();
        assert_eq!((of(&mine), of(&other), of(&key('D'))), (vec!["anna", "bert"], vec!["anna"], vec![]));
        assert_eq!(users.admit(b"anna").unwrap().rights, Access::Writable.into());
        assert_eq!(users.admit(b"carl"), Err(LoginError::Refused));
        assert!(users.log_in(b"bert", b"right", HERE).await.is_ok());
        // The hash that is checked in place of hers is bert's.
        for password in [&b"right"[..], b""] {
            assert_eq!(users.log_in(b"anna", password, HERE).await, Err(LoginError::Refused));
        }
        assert!(users.any_has_password());
    }

    #[test]
    fn ipv6_addresses_are_counted_by_network_and_tables_are_limited() {
        let guess = |peer| Guess { peer: subnet(peer), name: "ghost".into(), is_user: false };
        let mut failures = Failures::default();
        failures.charge(&guess("2001:db8::1".parse().unwrap())).unwrap();
        assert_eq!(failures.of_address(subnet("2001:db8::2".parse().unwrap())), 1);
        assert_eq!(subnet("::ffff:10.0.0.1".parse().unwrap()), IpAddr::from([10, 0, 0, 1]));
        for i in 0..MAX_REMEMBERED as u32 + 10 {
            let guess = Guess { name: i.to_string(), ..guess(IpAddr::from(i.to_be_bytes())) };
            failures.charge(&guess).unwrap();
        }
        assert_eq!((failures.by_address.len(), failures.by_unknown.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
        let anna = Guess { name: "anna".into(), is_user: true, peer: HERE };
        for i in 0..2 * MAX_KNOWN_ADDRESSES as u32 {
            let anna = Guess { peer: IpAddr::from(i.to_be_bytes()), ..anna.clone() };
            failures.succeeded(&anna, Instant::now());
        }
        assert_eq!(failures.logged_in_from["anna"].len(), MAX_KNOWN_ADDRESSES);
    }

    #[test]
    fn contradictory_users_files_are_refused_with_the_reason() {
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
            ("[[user]]\nname = 'a'\nkeys = ['SHA256:short']", "not a fingerprint"),
            ("[[user]]\nname = 'ftp'\nrights = ['red']", "read, list, write, delete"),
            ("[[user]]\nname = 'ftp'\nrights = ['read']\nwritable = true", "leave `writable` out"),
            ("[[user]]\nname = 'ftp'\nquota = 'much'", "quota"),
            ("[[user]]\nname = 'ftp'\nrate = 'fast'", "rate"),
            ("[[user]]\nname = 'ftp'\nsessions = 0", "could never log in"),
            ("# a comment\n[[user]]\nname = 'ftp'\n\n[[user]]\nname = 'a'", "users.toml:5:1: user `a`"),
            ("[[user]]\nname = 'ftp'\nhoem = 'x'", "users.toml:3:1"),
            ("[[user]\nname", "expected"),
        ] {
            let error = Users::parse(text, Access::ReadOnly).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Users::parse(&format!("[[user]]\nname='a'\nhash='{hash}'"), Access::ReadOnly).is_ok());
        assert!(Users::load(Path::new("/nowhere"), Access::ReadOnly).is_err());
    }

    #[test]
    fn a_weak_hash_is_reported_and_a_generated_one_is_not_weak() {
        let text = |hash: &str| format!("[[user]]\nname = 'anna'\nhash = '{hash}'");
        let weak = |hash: &str| {
            let users = Users::parse(&text(hash), Access::ReadOnly).unwrap();
            users.weaknesses().collect::<Vec<_>>().concat()
        };
        assert!(weak(&cheap_hash()).contains("user anna: the hash is weak (m=8, t=1)"));
        let salt_and_digest = "c2FsdHNhbHQ$c2FsdHNhbHRzYWx0";
        for (params, is_weak) in [
            ("m=7168,t=5,p=1", false),
            ("m=7168,t=4,p=1", true),
            ("m=7167,t=9,p=1", true),
            ("m=19456,t=2,p=1", false),
        ] {
            assert_eq!(
                !weak(&format!("$argon2id$v=19${params}${salt_and_digest}")).is_empty(),
                is_weak,
                "{params}"
            );
        }
        assert_eq!(weak(&Users::hash(b"x").unwrap()), "");
    }

    #[test]
    fn a_generated_hash_permits_the_login() {
        let hash = Users::hash(b"pass word").unwrap();
        let parsed = PasswordHash::new(&hash).unwrap();
        assert!(Argon2::default().verify_password(b"pass word", &parsed).is_ok());
    }
}
