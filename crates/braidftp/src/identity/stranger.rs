//! A server that is unknown, and the question about it.

use std::fmt;
use std::io::{BufRead, IsTerminal, Write};
use std::net::IpAddr;

use super::fingerprint::Fingerprint;

/// A server, as in `known_hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    host: String,
    port: u16,
}

impl Peer {
    /// The server at this port of a host, which is a name or an IP address.
    pub fn new(host: &str, port: u16) -> Self {
        let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let host = if bare.contains(':') { format!("[{bare}]") } else { bare.to_ascii_lowercase() };
        Self { host, port }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Whether the name denotes this machine: only this machine defines `localhost`.
    pub(super) fn is_here(&self) -> bool {
        let address = self.host.trim_matches(['[', ']']).parse::<IpAddr>();
        address.map_or(self.host == "localhost", |address| address.to_canonical().is_loopback())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A server that was refused because it is unknown, and about which the user may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// The server.
    pub peer: Peer,
    /// The key that it has.
    pub key: Fingerprint,
    /// A sentence about entries of `known_hosts` for other ports of the host; empty if there are none.
    pub note: String,
}

/// Asks the user at the terminal whether the key is the server's. Returns false if there is no terminal: a
/// script is not asked.
///
/// Blocks until there is an answer.
pub fn ask(Stranger { peer, key, note }: &Stranger) -> bool {
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return false;
    }
    let mut stderr = stderr.lock();
    let note = if note.is_empty() { String::new() } else { format!("{note}.\n") };
    let _ = write!(
        stderr,
        "The server {peer} was never seen here, and no authority that this system trusts vouches for it.\n\
         Its key is {key}; `braidftp serve` prints it when it starts.\n{note}\
         Trust it from now on? Write yes, or the fingerprint: "
    );
    let _ = stderr.flush();
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).is_ok() && is_yes(&answer, *key)
}

/// Whether an answer confirms this key.
fn is_yes(answer: &str, key: Fingerprint) -> bool {
    answer.trim().eq_ignore_ascii_case("yes") || answer.parse() == Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_spellings_of_a_server_are_equal() {
        for (host, name) in [
            ("Files.Example.org.", "files.example.org:21"),
            ("::1", "[::1]:21"),
            ("[::1]", "[::1]:21"),
            ("127.0.0.1", "127.0.0.1:21"),
        ] {
            assert_eq!(Peer::new(host, 21).to_string(), name);
        }
    }

    #[test]
    fn only_yes_or_the_key_itself_confirms() {
        let key: Fingerprint = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU".parse().unwrap();
        assert!(is_yes(" YES\n", key) && is_yes(&format!("{key}\n"), key));
        assert!(!is_yes("y", key) && !is_yes("", key) && !is_yes("no", key));
        assert!(!is_yes("SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", key));
    }
}
