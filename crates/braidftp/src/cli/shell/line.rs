//! One line of the shell: words, aliases, and the resulting command of `braidftp`.

use braidftp_ftp::SafePath;
use clap::CommandFactory;

use crate::cli::args::Cli;
use crate::exit::{Error, Result};
use crate::mistakes::nearest;

/// Commands of the shell itself.
pub(super) const OWN: [&str; 15] = [
    "bye", "cd", "close", "exit", "help", "history", "jobs", "kill", "lcd", "lpwd", "open", "pwd", "quit",
    "source", "wait",
];
/// Commands of the program whose paths are on the current server.
pub(super) const REMOTE: [&str; 12] =
    ["cat", "du", "find", "get", "ls", "mirror", "mkdir", "mv", "put", "rm", "tree", "verify"];
/// The names of these commands in lftp and ftp.
const ALIASES: [(&str, &[&str]); 13] = [
    ("cls", &["ls"]),
    ("dir", &["ls", "-l"]),
    ("mget", &["get"]),
    ("more", &["cat"]),
    ("mput", &["put"]),
    ("mrm", &["rm"]),
    ("nlist", &["ls"]),
    ("pget", &["get"]),
    ("reget", &["get"]),
    ("rels", &["ls"]),
    ("rename", &["mv"]),
    ("reput", &["put"]),
    ("rmdir", &["rm", "-r"]),
];

/// The current server and folder.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The URL up to the path: scheme, login, host, port.
    pub(super) server: String,
    /// `?addr=…`, if there are further addresses.
    pub(super) query: String,
    /// The folder, in the server's bytes; absolute with a leading slash.
    pub(super) folder: Vec<u8>,
}

impl Place {
    /// The place of a URL.
    pub(super) fn of(url: &str) -> Result<Self> {
        let parsed: crate::url::Url = url.parse()?;
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let query = rest.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
        Ok(Self { server: format!("{scheme}://{}", &rest[..end]), query, folder: parsed.path })
    }

    /// The URL of a path, absolute or relative to this folder.
    pub(super) fn url(&self, path: &str) -> String {
        let mut bytes = self.join(path);
        let absolute = bytes.starts_with(b"/");
        if absolute {
            bytes.remove(0);
        }
        let mut url = format!("{}/{}", self.server, if absolute { "%2F" } else { "" });
        for byte in bytes {
            match byte {
                b'/' | b'*' | b'[' | b']' | b'-' | b'.' | b'_' | b'~' | b'+' | b',' | b'@' | b'=' => {
                    url.push(char::from(byte))
                }
                byte if byte.is_ascii_alphanumeric() => url.push(char::from(byte)),
                // A glob for `get`.
                b'?' => url.push_str("%3F"),
                byte => url.push_str(&format!("%{byte:02X}")),
            }
        }
        url + &self.query
    }

    /// Appends a path to this folder; `..` removes the last component, if there is one.
    pub(super) fn join(&self, path: &str) -> Vec<u8> {
        let from = if path.starts_with('/') { &b"/"[..] } else { &self.folder };
        let absolute = from.starts_with(b"/");
        let base = SafePath::ROOT.resolve(from.strip_prefix(b"/").unwrap_or(from)).unwrap_or_default();
        let joined = base.resolve(path.trim_start_matches('/').as_bytes()).unwrap_or(base);
        let mut bytes = if absolute { b"/".to_vec() } else { Vec::new() };
        bytes.extend_from_slice(joined.as_bytes());
        if path.ends_with('/') && !bytes.is_empty() && !bytes.ends_with(b"/") {
            bytes.push(b'/');
        }
        bytes
    }
}

/// Splits a line into words at white space. Quotes and backslashes protect characters, and `#` begins a
/// comment.
///
/// # Errors
///
/// A quote is not closed.
pub(super) fn words(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(Error::usage("read the line", format_args!("the quote {open} has no end")));
    }
    words.extend(word);
    Ok(words)
}

/// Replaces the names of lftp and ftp in a line.
///
/// # Errors
///
/// There is no such command.
pub(super) fn expand(words: Vec<String>) -> Result<Vec<String>> {
    let Some(first) = words.first() else { return Ok(words) };
    if let Some((_, meant)) = ALIASES.iter().find(|(alias, _)| alias == first) {
        let meant = meant.iter().map(|word| (*word).to_owned());
        return Ok(meant.chain(words.into_iter().skip(1)).collect());
    }
    let known = || OWN.into_iter().chain(REMOTE).chain(["config", "doctor", "key", "path"]);
    if known().any(|name| name == first) {
        return Ok(words);
    }
    let names: Vec<&str> = known().chain(ALIASES.iter().map(|(alias, _)| *alias)).collect();
    let meant = nearest(first, &names).map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
    Err(Error::usage(format_args!("do {first}"), "there is no such command")
        .hint(format_args!("{meant}help lists them")))
}

/// The arguments of `braidftp` for a command whose paths are relative to the place.
///
/// # Errors
///
/// No server is open, or required paths are missing.
pub(super) fn command(words: &[String], place: Option<&Place>) -> Result<Vec<String>> {
    let [verb, rest @ ..] = words else { return Ok(Vec::new()) };
    if !REMOTE.contains(&verb.as_str()) {
        return Ok(words.to_vec());
    }
    let (options, mut paths) = divide(verb, rest);
    let is_url = |path: &String| path.contains("://") || path.starts_with('@');
    let place = match place {
        Some(place) => place,
        None if paths.iter().any(is_url) => {
            return Ok([verb.clone()].into_iter().chain(rest.iter().cloned()).collect());
        }
        None => return Err(Error::usage(verb, "no server is open").hint("open URL, or open @BOOKMARK")),
    };
    let remote = |path: &String| if is_url(path) { path.clone() } else { place.url(path) };
    let missing =
        |what: &str| Error::usage(verb, format_args!("{what} is missing")).hint(format_args!("help {verb}"));
    let here = || ".".to_owned();
    match verb.as_str() {
        "put" => {
            if paths.is_empty() {
                return Err(missing("a file"));
            }
            paths.push(place.url("./"));
        }
        "mv" if paths.len() == 2 => paths = paths.iter().map(remote).collect(),
        "mv" => return Err(missing("a name")),
        "mirror" | "verify" => {
            let is_up = options.iter().any(|option| option == "-R" || option == "--reverse");
            paths = match (is_up, paths.as_slice()) {
                (false, []) => vec![place.url(""), here()],
                (false, [from]) => {
                    let name = from.trim_end_matches('/').rsplit('/').next().unwrap_or(from).to_owned();
                    vec![remote(from), if verb == "verify" { here() } else { name }]
                }
                (false, [from, to, ..]) => vec![remote(from), to.clone()],
                (true, []) => vec![here(), place.url("")],
                (true, [from]) => {
                    let name = from.trim_end_matches('/').rsplit('/').next().unwrap_or(from);
                    vec![from.clone(), place.url(if name == "." { "" } else { name })]
                }
                (true, [from, to, ..]) => vec![from.clone(), remote(to)],
            };
        }
        "ls" | "du" | "find" | "tree" if paths.is_empty() => paths = vec![place.url("")],
        _ if paths.is_empty() => return Err(missing("a path")),
        _ => paths = paths.iter().map(remote).collect(),
    }
    Ok([verb.clone()].into_iter().chain(options).chain(["--".to_owned()]).chain(paths).collect())
}

/// Splits words into options with their values, and paths.
fn divide(verb: &str, words: &[String]) -> (Vec<String>, Vec<String>) {
    let command = Cli::command();
    let takes_value = |word: &str| {
        let sub = command.find_subcommand(verb);
        let arg = sub.and_then(|sub| {
            sub.get_arguments().find(|arg| match word.strip_prefix("--") {
                Some(long) => arg.get_long() == Some(long),
                None => {
                    arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(&short.to_string()))
                }
            })
        });
        arg.is_some_and(|arg| arg.get_action().takes_values())
    };
    let (mut options, mut paths) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            paths.extend(words.by_ref().cloned());
        } else if word.len() > 1 && word.starts_with('-') {
            options.push(word.clone());
            if takes_value(word) {
                options.extend(words.next().cloned());
            }
        } else {
            paths.push(word.clone());
        }
    }
    (options, paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place::of("ftp+sctp://anna@h/pub/a b?addr=192.0.2.1").unwrap()
    }

    fn run(line: &str) -> String {
        command(&expand(words(line).unwrap()).unwrap(), Some(&place())).unwrap().join(" ")
    }

    #[test]
    fn words_are_split_at_spaces_outside_quotes() {
        let split = |line| words(line).unwrap().join("|");
        assert_eq!(split(r#"get "a b" 'c "d' e\ f  "" # not"#), r#"get|a b|c "d|e f|"#);
        assert_eq!(split("a#b"), "a#b");
        assert!(words("get 'a").is_err());
    }

    #[test]
    fn paths_are_relative_to_the_current_folder() {
        let at = "ftp+sctp://anna@h/pub/a%20b";
        let query = "?addr=192.0.2.1";
        assert_eq!(run("ls"), format!("ls -- {at}{query}"));
        assert_eq!(run("dir ../x"), format!("ls -l -- ftp+sctp://anna@h/pub/x{query}"));
        assert_eq!(
            run("get -o out '*.c' /etc/x"),
            format!("get -o out -- {at}/*.c{query} ftp+sctp://anna@h/%2Fetc/x{query}")
        );
        assert_eq!(run("put a b"), format!("put -- a b {at}/{query}"));
        assert_eq!(
            run("mirror --limit 3mbit tree"),
            format!("mirror --limit 3mbit -- {at}/tree{query} tree")
        );
        assert_eq!(run("mirror -R ./tree"), format!("mirror -R -- ./tree {at}/tree{query}"));
        assert_eq!(run("mv a 'b c'"), format!("mv -- {at}/a{query} {at}/b%20c{query}"));
        assert_eq!(run("cat ftp://other/x"), "cat -- ftp://other/x");
        assert_eq!(run("config show"), "config show");
        assert!(command(&words("get").unwrap(), Some(&place())).is_err());
        assert!(
            command(&words("ls x").unwrap(), None).unwrap_err().to_string().contains("no server is open")
        );
    }

    #[test]
    fn an_unknown_command_is_reported_with_the_nearest_known_one() {
        let error = expand(words("mirrror a").unwrap()).unwrap_err().to_string();
        assert!(error.contains("did you mean mirror?"), "{error}");
    }

    #[test]
    fn joined_folders_do_not_leave_the_root() {
        let mut at = place();
        assert_eq!(at.join("../c/"), b"pub/c/");
        assert_eq!(at.join("/x"), b"/x");
        assert_eq!(at.join("../../../.."), b"");
        at.folder = b"/a".to_vec();
        assert_eq!(at.join("b"), b"/a/b");
    }
}
