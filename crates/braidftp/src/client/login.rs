//! Selection of user and password: from the URL, the environment, `.netrc`, or anonymous, in this order.

use std::env;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::exit::Error;
use crate::url::Url;

/// The environment variable for the user name.
pub const USER_VARIABLE: &str = "BRAIDFTP_USER";
/// The environment variable for the password.
pub const PASSWORD_VARIABLE: &str = "BRAIDFTP_PASSWORD";
/// The maximum size of `.netrc` in bytes.
const MAX_NETRC_BYTES: u64 = 1 << 20;

/// A user's name and password, as bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name for USER.
    pub user: Vec<u8>,
    /// The password for PASS.
    pub password: Vec<u8>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login {{ user: {:?}, password: … }}", crate::exit::escape(&self.user))
    }
}

impl Login {
    /// Whether the password is not secret: that of `anonymous`, or none.
    pub fn is_anonymous(&self) -> bool {
        let anonymous = |name: &[u8]| self.user.eq_ignore_ascii_case(name);
        anonymous(b"anonymous") || anonymous(b"ftp") || self.password.is_empty()
    }

    /// The anonymous login (RFC 1635).
    pub fn anonymous() -> Self {
        Self { user: b"anonymous".to_vec(), password: b"braidftp@".to_vec() }
    }

    /// The login for `url`, and a warning if there is one.
    ///
    /// # Errors
    ///
    /// `.netrc` cannot be read, or it contains the required password and other users can read it.
    pub fn find(url: &Url) -> Result<(Self, Option<String>), Error> {
        let warning = url.password.as_ref().filter(|_| url.user.as_deref() != Some(b"anonymous")).map(|_| {
            format!(
                "a password on the command line can be seen by everyone on this machine (ps); put it in \
                 {PASSWORD_VARIABLE} or in ~/.netrc"
            )
        });
        let user = url.user.clone().or_else(|| env::var_os(USER_VARIABLE).map(OsStringExt::into_vec));
        if let (Some(user), Some(password)) = (&user, &url.password) {
            return Ok((Self { user: user.clone(), password: password.clone() }, warning));
        }
        let from_env = env::var_os(PASSWORD_VARIABLE).map(OsStringExt::into_vec);
        if let (Some(user), Some(password)) = (&user, from_env) {
            return Ok((Self { user: user.clone(), password }, None));
        }
        let host = url.host.to_string();
        if let Some(login) = from_netrc(host.trim_matches(['[', ']']), user.as_deref())? {
            return Ok((login, None));
        }
        match user {
            None => Ok((Self::anonymous(), None)),
            Some(user) if user == b"anonymous" || user == b"ftp" => {
                Ok((Self { user, ..Self::anonymous() }, None))
            }
            // Some users have no password: the server decides.
            Some(user) => Ok((Self { user, password: Vec::new() }, None)),
        }
    }
}

fn from_netrc(host: &str, user: Option<&[u8]>) -> Result<Option<Login>, Error> {
    let named = env::var_os("NETRC").map(PathBuf::from);
    let Some(path) = named.clone().or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".netrc")))
    else {
        return Ok(None);
    };
    let what = format!("read {}", path.display());
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => return Ok(None),
        Err(error) => return Err(Error::local(what, &error)),
    };
    if metadata.len() > MAX_NETRC_BYTES {
        return Err(Error::usage(what, format_args!("it is larger than {MAX_NETRC_BYTES} bytes")));
    }
    let text = fs::read(&path).map_err(|error| Error::local(&what, &error))?;
    let Some(login) = find_machine(&text, host, user) else { return Ok(None) };
    check_private(&path, &metadata)?;
    Ok(Some(login))
}

/// Refuses a file with a password that other users can read, as ftp(1) does: it is no longer secret.
fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    match metadata.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(Error::usage(
            format_args!("use the password in {}", path.display()),
            format_args!("others may read the file (mode {:03o})", metadata.mode() & 0o777),
        )
        .hint(format_args!("chmod 600 {}", path.display()))),
    }
}

/// The first entry for `host` (and `user`, if given), or `default`. `macdef` is skipped to its empty line.
fn find_machine(text: &[u8], host: &str, user: Option<&[u8]>) -> Option<Login> {
    let mut words = Words { rest: text };
    /// The login and password read so far.
    type Read = Option<(Option<Vec<u8>>, Option<Vec<u8>>)>;
    let mut entry: Read = None;
    let finish = |entry: Read| match entry {
        Some((Some(login), Some(password))) if user.is_none_or(|user| user == login) => {
            Some(Login { user: login, password })
        }
        Some((None, Some(password))) => user.map(|user| Login { user: user.to_vec(), password }),
        _ => None,
    };
    while let Some(word) = words.next() {
        match word.as_slice() {
            b"machine" | b"default" => {
                if let Some(login) = finish(entry.take()) {
                    return Some(login);
                }
                let ours = word == b"default"
                    || words.next().is_some_and(|name| name.eq_ignore_ascii_case(host.as_bytes()));
                entry = ours.then_some((None, None));
            }
            b"login" => {
                let value = words.next();
                if let Some((login, _)) = &mut entry {
                    *login = value;
                }
            }
            b"password" => {
                let value = words.next();
                if let Some((_, password)) = &mut entry {
                    *password = value;
                }
            }
            b"account" => {
                words.next();
            }
            b"macdef" => words.skip_macro(),
            _ => {}
        }
    }
    finish(entry)
}

/// Words separated by white space. `"…"` may contain white space; `#` at the beginning of a word begins a
/// comment.
struct Words<'a> {
    rest: &'a [u8],
}

impl Words<'_> {
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let start = self.rest.iter().position(|b| !b.is_ascii_whitespace())?;
            self.rest = &self.rest[start..];
            if self.rest[0] != b'#' {
                break;
            }
            self.rest = &self.rest[self.rest.iter().position(|b| *b == b'\n')?..];
        }
        let quoted = self.rest[0] == b'"';
        let mut word = Vec::new();
        let mut at = usize::from(quoted);
        while let Some(&byte) = self.rest.get(at) {
            match byte {
                b'"' if quoted => {
                    at += 1;
                    break;
                }
                b'\\' if quoted && at + 1 < self.rest.len() => {
                    word.push(self.rest[at + 1]);
                    at += 1;
                }
                byte if !quoted && byte.is_ascii_whitespace() => break,
                byte => word.push(byte),
            }
            at += 1;
        }
        self.rest = &self.rest[at..];
        Some(word)
    }

    fn skip_macro(&mut self) {
        let end = self.rest.windows(2).position(|pair| pair == b"\n\n").map_or(self.rest.len(), |at| at + 2);
        self.rest = &self.rest[end..];
    }
}

/// A path of the command line, for messages.
pub fn shown(path: &Path) -> String {
    crate::exit::escape(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETRC: &[u8] = b"# mine\nmachine a.example login alice password \"p w\\\"\"\n\
        macdef init\nmachine b.example login evil password x\n\nmachine b.example\n  login bob\n  password secret\n\
        machine b.example login carol password other account z default login anonymous password me@";

    #[test]
    fn netrc_is_searched_by_machine_and_login() {
        let found = |host: &str, user: Option<&str>| {
            find_machine(NETRC, host, user.map(str::as_bytes))
                .map(|l| (String::from_utf8(l.user).unwrap(), String::from_utf8(l.password).unwrap()))
        };
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(found("a.example", None), pair("alice", "p w\""));
        assert_eq!(found("B.EXAMPLE", None), pair("bob", "secret"));
        assert_eq!(found("b.example", Some("carol")), pair("carol", "other"));
        assert_eq!(found("c.example", None), pair("anonymous", "me@"));
        assert_eq!(found("c.example", Some("dave")), None);
    }

    #[test]
    fn an_invalid_netrc_gives_no_login() {
        for text in
            ["machine", "machine h login", "machine h password", "\"", "#", "machine h login a password \""]
        {
            assert!(find_machine(text.as_bytes(), "h", None).is_none_or(|l| l.password.is_empty()), "{text}");
        }
    }
}
