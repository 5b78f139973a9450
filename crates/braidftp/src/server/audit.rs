//! The audit log: a line for each login, refusal and change.
//!
//! ```text
//! 2026-11-24T08:56:52.991192Z session=17 peer=192.0.2.1 user="anna" event=rename path="/a" to="/b" result=ok
//! ```
//!
//! Text chosen by a peer is quoted and escaped, so that no name can forge a line or a field. Lines go to the
//! file of `--audit`, or with `--verbose` to the ordinary log. Completed changes are always written. Logins
//! and refusals cost a peer nothing, so their lines have the limits of the ordinary log ([`super::log`]), and
//! lines left out are counted.
//!
//! The file is opened again when it was moved away ([`LogFile`]), and on SIGHUP. If a line cannot be written
//! to it, the ordinary log gets the line as an error.

use std::fmt::{self, Write as _};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use braidftp_ftp::SafePath;
use braidftp_ftp::server::{Change, Failure, Outcome};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::log::{AUDIT, Counts};
use super::log_file::LogFile;
use crate::users::{Ban, subnet};

/// The destination of audit lines.
#[derive(Debug, Default)]
pub struct Audit {
    /// `None`: the ordinary log.
    file: Option<LogFile>,
    sessions: AtomicU64,
    /// Counts of lines that cost a peer nothing.
    counts: Mutex<Counts<Kind>>,
    left_out: AtomicU64,
}

/// A kind of line, counted by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Login,
    Ban,
    Refused,
}

impl Audit {
    /// Writes to this file, which is opened by [`Audit::reopen`] or by the first line.
    pub fn to_file(path: impl Into<PathBuf>) -> Self {
        Self { file: Some(LogFile::new(path)), ..Self::default() }
    }

    /// Opens the file, or opens it again under its name.
    ///
    /// # Errors
    ///
    /// It cannot be opened or created.
    pub fn reopen(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), LogFile::reopen)
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        self.file.as_ref().map(LogFile::path)
    }

    /// The audit subject of a session from this address.
    pub(super) fn session(self: &Arc<Self>, peer: IpAddr) -> Subject {
        let session = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        Subject { audit: self.clone(), session, peer, user: None }
    }

    /// Whether a line that costs its peer nothing may be written.
    fn admits(&self, kind: Kind, peer: IpAddr) -> bool {
        let may = lock(&self.counts).admits(Instant::now(), &(kind, Some(subnet(peer))));
        if !may {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// Whether lines go anywhere. To format one costs more than many a small file.
    fn is_read(&self) -> bool {
        self.file.is_some() || tracing::enabled!(target: AUDIT, tracing::Level::INFO)
    }

    fn write(&self, line: &str) {
        let Some(file) = &self.file else {
            tracing::info!(target: AUDIT, "{line}");
            return;
        };
        let mut stamped = String::with_capacity(line.len() + 32);
        // Writing to a string does not fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut stamped));
        let _ = writeln!(stamped, " {line}");
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let at = stamped.split(' ').next().unwrap_or_default().to_owned();
            stamped.insert_str(0, &format!("{at} event=left-out lines={left_out}\n"));
        }
        if let Err(error) = file.append(&stamped) {
            tracing::error!(target: AUDIT, path = %file.path().display(), %error, "cannot write the audit log: {line}");
        }
    }
}

/// A panic while a line was being written affects only that line.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The subject of lines: a session, and its user.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    audit: Arc<Audit>,
    session: u64,
    peer: IpAddr,
    user: Option<Arc<str>>,
}

impl Subject {
    /// The number of the session.
    pub(super) fn session(&self) -> u64 {
        self.session
    }

    /// The same session, of this user.
    pub(super) fn of_user(&self, user: &str) -> Self {
        Self { user: Some(user.into()), ..self.clone() }
    }

    /// Records a login attempt.
    pub(super) fn login(&self, name: &[u8], result: Result<(), &str>) {
        if self.audit.admits(Kind::Login, self.peer) {
            let result = result.err().map_or("ok".to_owned(), |why| Quoted(why.as_bytes()).to_string());
            self.note(format_args!("name={} event=login result={result}", Quoted(name)));
        }
    }

    /// Records that an address or a user is blocked from now on.
    pub(super) fn banned(&self, name: &[u8], ban: Ban) {
        if self.audit.admits(Kind::Ban, self.peer) {
            let what = match ban {
                Ban::Address => "address",
                Ban::User => "name",
            };
            self.note(format_args!("name={} event=ban of={what}", Quoted(name)));
        }
    }

    /// Records a change, or a failed attempt.
    pub(super) fn changed(&self, change: &Change, outcome: &Result<Outcome, Failure>) {
        if !self.audit.is_read() {
            return;
        }
        let what = match change {
            Change::MakeDirectory(path) => format!("event=mkdir path={}", Path_(path)),
            Change::RemoveDirectory(path) => format!("event=rmdir path={}", Path_(path)),
            Change::Remove(path) => format!("event=delete path={}", Path_(path)),
            Change::Rename { from, to } => format!("event=rename path={} to={}", Path_(from), Path_(to)),
            Change::SetModified(path, stamp) => {
                format!("event=set-time path={} seconds={}", Path_(path), stamp.seconds)
            }
            Change::SetUnixMode(path, mode) => format!("event=set-mode path={} mode={mode:03o}", Path_(path)),
            Change::Symlink { path, target } => {
                format!("event=symlink path={} target={}", Path_(path), Quoted(target))
            }
            Change::HardLink { existing, path } => {
                format!("event=link path={} to={}", Path_(path), Path_(existing))
            }
            Change::RemoveParts(path) => format!("event=delete-parts path={}", Path_(path)),
        };
        self.change(&what, outcome.as_ref().err());
    }

    /// Records the end of an upload.
    pub(super) fn uploaded(&self, path: &SafePath, bytes: u64, failure: Option<&Failure>) {
        if !self.audit.is_read() {
            return;
        }
        self.change(&format!("event=upload path={} bytes={bytes}", Path_(path)), failure);
    }

    fn change(&self, what: &str, failure: Option<&Failure>) {
        match failure {
            None => self.note(format_args!("{what} result=ok")),
            Some(why) if self.audit.admits(Kind::Refused, self.peer) => {
                self.note(format_args!("{what} result={}", Quoted(why.to_string().as_bytes())));
            }
            Some(_) => {}
        }
    }

    fn note(&self, what: fmt::Arguments<'_>) {
        let Self { audit, session, peer, user } = self;
        let mut line = format!("session={session} peer={peer} ");
        if let Some(user) = user {
            let _ = write!(line, "user={} ", Quoted(user.as_bytes()));
        }
        let _ = write!(line, "{what}");
        audit.write(&line);
    }
}

/// A path relative to the root of its user.
struct Path_<'a>(&'a SafePath);

impl fmt::Display for Path_<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = b"/".to_vec();
        bytes.extend_from_slice(self.0.as_bytes());
        Quoted(&bytes).fmt(f)
    }
}

/// Quotes bytes chosen by a peer: characters other than plain text become `\u{…}`, or `\xNN` if they are not
/// UTF-8.
pub(super) struct Quoted<'a>(pub(super) &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\'' => f.write_char(c)?,
                    _ => write!(f, "{}", c.escape_debug())?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::{ADDRESS_LINES_A_SECOND, BURST};
    use std::path::Path;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn path(text: &[u8]) -> SafePath {
        SafePath::ROOT.resolve(text).unwrap()
    }

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_has_time_user_address_file_and_result() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit");
        let audit = Arc::new(Audit::to_file(&file));
        audit.session(PEER);
        let second = audit.session(PEER);
        second.login(b"bert", Err("name or password is wrong"));
        second.banned(b"bert", Ban::Address);
        let anna = second.of_user("anna");
        anna.login(b"anna", Ok(()));
        anna.uploaded(&path(b"/a"), 7, None);
        anna.changed(&Change::Rename { from: path(b"/a"), to: path(b"/b/c") }, &Ok(Outcome::Changed));
        anna.changed(&Change::Remove(path(b"/a")), &Err(Failure::DataLost));
        let lines = lines(&file);
        let (time, first) = lines[0].split_once(' ').unwrap();
        assert!(time.len() == 27 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
        assert_eq!(
            first,
            "session=2 peer=192.0.2.1 name=\"bert\" event=login result=\"name or password is wrong\""
        );
        let rest: Vec<&str> = lines[1..].iter().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(
            rest,
            [
                "session=2 peer=192.0.2.1 name=\"bert\" event=ban of=address",
                "session=2 peer=192.0.2.1 user=\"anna\" name=\"anna\" event=login result=ok",
                "session=2 peer=192.0.2.1 user=\"anna\" event=upload path=\"/a\" bytes=7 result=ok",
                "session=2 peer=192.0.2.1 user=\"anna\" event=rename path=\"/a\" to=\"/b/c\" result=ok",
                "session=2 peer=192.0.2.1 user=\"anna\" event=delete path=\"/a\" result=\"data connection lost\"",
            ]
        );
    }

    #[test]
    fn no_name_forges_a_line_or_a_field() {
        for (bytes, shown) in [
            (&b"a\" result=ok\n2026"[..], r#""a\" result=ok\n2026""#),
            (b"\\x41\x1b[2J\xff", r#""\\x41\u{1b}[2J\xff""#),
            ("\u{202e}\u{fc}'".as_bytes(), "\"\\u{202e}\u{fc}'\""),
        ] {
            assert_eq!(Quoted(bytes).to_string(), shown);
        }
    }

    #[test]
    fn changes_are_always_logged_and_cheap_events_have_a_rate() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit");
        let audit = Arc::new(Audit::to_file(&file));
        let most = BURST.as_secs() as usize * ADDRESS_LINES_A_SECOND as usize;
        let session = audit.session(PEER);
        for _ in 0..2 * most {
            session.login(b"x", Err("no"));
            session.changed(&Change::Remove(path(b"/a")), &Err(Failure::DataLost));
        }
        for _ in 0..10 * most {
            session.changed(&Change::MakeDirectory(path(b"/a")), &Ok(Outcome::Changed));
        }
        let lines = lines(&file);
        let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        // A few more if the machine is so slow that time passes.
        assert!((most..most + 20).contains(&count("event=login")), "{}", count("event=login"));
        assert!((most..most + 20).contains(&count("event=delete")), "{}", count("event=delete"));
        assert_eq!(count("event=mkdir"), 10 * most);
        assert!(count("event=left-out") > 0);
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        let (file, old) = (folder.path().join("audit"), folder.path().join("audit.1"));
        let audit = Arc::new(Audit::to_file(&file));
        let session = audit.session(PEER);
        let made = |name: &[u8]| session.changed(&Change::MakeDirectory(path(name)), &Ok(Outcome::Changed));
        made(b"/1");
        std::fs::rename(&file, &old).unwrap();
        made(b"/2");
        assert_eq!(lines(&old).len(), 2, "within the second nothing is looked at");
        audit.reopen().unwrap();
        made(b"/3");
        assert_eq!((lines(&old).len(), lines(&file).len()), (2, 1));
        std::fs::rename(&file, &old).unwrap();
        if let Some(file) = &audit.file {
            file.look_now();
        }
        made(b"/4");
        assert_eq!((lines(&old).len(), lines(&file).len()), (1, 1));
        // The disk or the log rotation is at fault: the next line tries again.
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert!(audit.reopen().is_err());
        std::fs::create_dir(folder.path()).unwrap();
        made(b"/5");
        assert_eq!(lines(&file).len(), 1);
    }
}
