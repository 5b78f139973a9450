//! Settings and bookmarks: `$XDG_CONFIG_HOME/braidftp/config.toml`, and `BRAIDFTP_…` in the environment.
//!
//! A setting is the default of the option of the same name. The command line takes precedence over the
//! environment, the environment over the bookmark, the bookmark over the file, and the file over the built-in
//! defaults. A setting is ignored for commands and URLs that it does not apply to (congestion control over
//! TCP, sessions over SCTP).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::args::Cli;
use crate::exit::{Error, Result, escape};
use crate::mistakes::{Mistakes, nearest};

/// The maximum size of the file in bytes; real files are far smaller.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The settings; each is the name of an option.
const KEYS: [&str; 18] = [
    "accept-new",
    "ca",
    "cc",
    "known-hosts",
    "limit",
    "max-depth",
    "max-entries",
    "max-size",
    "mode",
    "multipath",
    "parallel",
    "path",
    "pin",
    "plain",
    "profile",
    "protect",
    "retries",
    "timeout",
];
/// Environment variables that are not settings of a client: the login, the server of `ctl`, the data of
/// hooks, and variables of the project's tests.
const VARIABLES: [&str; 15] = [
    "BRAIDFTP_USER",
    "BRAIDFTP_PASSWORD",
    "BRAIDFTP_CONTROL",
    "BRAIDFTP_HOOK_EVENT",
    "BRAIDFTP_HOOK_FILE",
    "BRAIDFTP_HOOK_PATH",
    "BRAIDFTP_HOOK_USER",
    "BRAIDFTP_BUDGET",
    "BRAIDFTP_COMMIT",
    "BRAIDFTP_FINGERPRINTS",
    "BRAIDFTP_MOTO",
    "BRAIDFTP_PEERS",
    "BRAIDFTP_REQUIRE_PEERS",
    "BRAIDFTP_ROWS",
    "BRAIDFTP_TEST_PCAP",
];
/// Settings that are true or false.
const FLAGS: [&str; 3] = ["accept-new", "plain", "protect"];
/// Settings for SCTP only.
const SCTP: [&str; 4] = ["cc", "profile", "multipath", "mode"];

/// The origin of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Environment(String),
    Bookmark(String),
    File(usize),
}

/// The settings, in order of increasing precedence of their origins.
#[derive(Debug, Default)]
pub(super) struct Settings {
    path: Option<PathBuf>,
    values: Vec<(Origin, &'static str, Vec<String>)>,
    bookmarks: BTreeMap<String, Bookmark>,
}

#[derive(Debug, Default)]
struct Bookmark {
    url: String,
    values: Vec<(&'static str, Vec<String>)>,
}

impl Settings {
    /// The path of the file, whether it exists or not.
    pub(super) fn file() -> Option<PathBuf> {
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let place = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
        Some(place.join("braidftp/config.toml"))
    }

    /// Warnings about environment variables that look like settings but are not.
    pub(super) fn unknown_variables() -> Vec<String> {
        let name_of = |key: &str| format!("BRAIDFTP_{}", key.to_uppercase().replace('-', "_"));
        let known: Vec<String> = KEYS.into_iter().map(name_of).chain(VARIABLES.map(String::from)).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let given = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let mut unknown: Vec<String> =
            given.filter(|name| name.starts_with("BRAIDFTP_") && !known.contains(&name.as_str())).collect();
        unknown.sort();
        let sentence = |name: String| {
            let name = escape(name.as_bytes());
            match nearest(&name, &known) {
                Some(meant) => {
                    format!("the environment variable {name} is not a setting: did you mean {meant}?")
                }
                None => format!(
                    "{name} of the environment is no setting; braidftp config show --origin lists them"
                ),
            }
        };
        unknown.into_iter().map(sentence).collect()
    }

    /// Reads the file, if it exists, and the environment.
    ///
    /// # Errors
    ///
    /// The file cannot be read; every invalid line is reported.
    pub(super) fn load() -> Result<Self> {
        let mut settings = Self { path: Self::file(), ..Self::default() };
        if let Some(path) = settings.path.clone() {
            let what = format!("read the settings {}", path.display());
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                    let why =
                        format_args!("it has {} bytes, too many for a file of settings", metadata.len());
                    return Err(Error::usage(what, why));
                }
                Ok(_) => {
                    let text = std::fs::read_to_string(&path).map_err(|error| Error::local(what, &error))?;
                    settings.read(&path, &text)?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::local(what, &error)),
            }
        }
        for key in KEYS {
            let name = format!("BRAIDFTP_{}", key.to_uppercase().replace('-', "_"));
            let Some(value) = std::env::var_os(&name) else { continue };
            let wrong = |why: &str| Error::usage(format_args!("use {name} of the environment"), why);
            let value = value.into_string().map_err(|_| wrong("it is not UTF-8"))?;
            check(key, &value).map_err(|why| wrong(&why))?;
            settings.values.push((Origin::Environment(name), key, vec![value]));
        }
        Ok(settings)
    }

    fn read(&mut self, path: &Path, text: &str) -> Result<()> {
        let (table, mut mistakes) = Mistakes::parse(path, text);
        let known: Vec<&str> = KEYS.into_iter().chain(["bookmark"]).collect();
        for (key, value) in table.get_ref().iter() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("bookmark", DeValue::Table(all)) => {
                    for (name, bookmark) in all.iter() {
                        let DeValue::Table(table) = bookmark.get_ref() else {
                            mistakes.mismatch(bookmark, name.get_ref(), "a table with a url");
                            continue;
                        };
                        let read = read_bookmark(table, name.span().start, &mut mistakes);
                        self.bookmarks.insert(name.get_ref().to_string(), read);
                    }
                }
                ("bookmark", _) => mistakes.mismatch(value, "bookmark", "a table, as in [bookmark.site]"),
                (name, _) => {
                    if let Some((key, values)) =
                        read_setting(name, key.span().start, value, &known, &mut mistakes)
                    {
                        let line = mistakes.line(value.span().start);
                        self.values.push((Origin::File(line), key, values));
                    }
                }
            }
        }
        mistakes
            .check("`braidftp config show --origin` prints the effective settings; the guide lists the keys")
    }

    /// Replaces `@NAME` and `@NAME/PATH` by a bookmark's URL, and adds the bookmark's settings, which take
    /// precedence over those of the file.
    ///
    /// # Errors
    ///
    /// There is no such bookmark.
    pub(super) fn resolve(&mut self, words: Vec<OsString>) -> Result<Vec<OsString>> {
        let mut out = Vec::with_capacity(words.len());
        for (at, word) in words.into_iter().enumerate() {
            let name = word.to_str().and_then(|word| word.strip_prefix('@')).filter(|_| at > 1);
            let Some(name) = name else {
                out.push(word);
                continue;
            };
            let (name, path) = name.split_once('/').map_or((name, None), |(name, path)| (name, Some(path)));
            let Some(bookmark) = self.bookmarks.get(name) else {
                let names: Vec<&str> = self.bookmarks.keys().map(String::as_str).collect();
                let meant =
                    nearest(name, &names).map(|meant| format!("did you mean @{meant}? ")).unwrap_or_default();
                return Err(Error::usage(format_args!("use @{name}"), "there is no such bookmark").hint(format_args!(
                    "{meant}[bookmark.NAME] with a url in config.toml makes one; a file of that name is ./@{}",
                    escape(name.as_bytes())
                )));
            };
            let url = match path {
                Some(path) => format!("{}/{path}", bookmark.url.trim_end_matches('/')),
                None => bookmark.url.clone(),
            };
            let values = bookmark.values.clone();
            let first = self.values.iter().position(|(origin, ..)| matches!(origin, Origin::Environment(_)));
            let first = first.unwrap_or(self.values.len());
            let values =
                values.into_iter().map(|(key, value)| (Origin::Bookmark(name.to_owned()), key, value));
            self.values.splice(first..first, values);
            out.push(url.into());
        }
        Ok(out)
    }

    /// The effective value of a key, and its origin.
    fn of(&self, key: &str) -> Option<&(Origin, &'static str, Vec<String>)> {
        self.values.iter().rev().find(|(_, name, _)| *name == key)
    }

    /// Parses the command line, completed by settings.
    ///
    /// # Errors
    ///
    /// A setting contradicts the others or the command line.
    pub(super) fn parse(&self, words: Vec<OsString>) -> Result<Cli, clap::Error> {
        let command = Cli::command();
        let matches = command.clone().try_get_matches_from(&words)?;
        let Some((name, given)) = matches.subcommand() else { return Cli::from_arg_matches(&matches) };
        let Some(sub) = command.find_subcommand(name) else { return Cli::from_arg_matches(&matches) };
        // The server and the tools have unrelated options of the same names.
        if !sub.get_arguments().any(|arg| arg.get_long() == Some("max-entries")) {
            return Cli::from_arg_matches(&matches);
        }
        let starts = |schemes: &[&str]| {
            words
                .iter()
                .filter_map(|word| word.to_str())
                .any(|word| schemes.iter().any(|s| word.starts_with(s)))
        };
        let (is_tcp, is_sctp) = (starts(&["ftp://", "ftps://", "ftpes://"]), starts(&["ftp+sctp"]));
        let mut added: Vec<OsString> = Vec::new();
        for key in KEYS {
            let Some((_, _, values)) = self.of(key) else { continue };
            let Some(arg) = sub.get_arguments().find(|arg| arg.get_long() == Some(key)) else { continue };
            let is_given = given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
            if is_given || (is_tcp && SCTP.contains(&key)) || (is_sctp && key == "parallel") {
                continue;
            }
            for value in values {
                match (FLAGS.contains(&key), value.as_str()) {
                    (true, "true") => added.push(format!("--{key}").into()),
                    (true, _) => {}
                    (false, value) => added.push(format!("--{key}={value}").into()),
                }
            }
        }
        if added.is_empty() {
            return Cli::from_arg_matches(&matches);
        }
        let mut words = words;
        words.splice(2..2, added);
        <Cli as clap::Parser>::try_parse_from(words)
    }

    /// The lines of `config show`.
    pub(super) fn show(&self, with_origin: bool) -> Vec<String> {
        let command = Cli::command();
        let list = command.find_subcommand("mirror");
        let mut lines: Vec<String> = KEYS
            .iter()
            .map(|key| {
                let default = || {
                    let arg = list?.get_arguments().find(|arg| arg.get_long() == Some(key))?;
                    let values = arg.get_default_values().first()?;
                    Some(values.to_string_lossy().into_owned())
                };
                let (value, origin) = match self.of(key) {
                    Some((origin, _, values)) => (values.join(", "), self.says(origin)),
                    None => (default().unwrap_or_else(|| "-".into()), "default".into()),
                };
                match with_origin {
                    true => format!("{key:<12} {:<24} {origin}", escape(value.as_bytes())),
                    false => format!("{key:<12} {}", escape(value.as_bytes())),
                }
            })
            .collect();
        lines.extend(self.bookmarks.iter().map(|(name, bookmark)| format!("@{name:<11} {}", bookmark.url)));
        lines
    }

    fn says(&self, origin: &Origin) -> String {
        let file = self.path.as_deref().unwrap_or(Path::new("")).display();
        match origin {
            Origin::Environment(name) => format!("environment, {name}"),
            Origin::Bookmark(name) => format!("bookmark {name}"),
            Origin::File(line) => format!("{file}:{line}"),
        }
    }
}

fn read_bookmark(table: &DeTable<'_>, at: usize, mistakes: &mut Mistakes<'_>) -> Bookmark {
    let mut bookmark = Bookmark::default();
    let known: Vec<&str> = KEYS.into_iter().chain(["url"]).collect();
    for (key, value) in table.iter() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("url", DeValue::String(text)) => match text.parse::<crate::url::Url>() {
                Ok(_) => bookmark.url = text.to_string(),
                Err(error) => mistakes.add(value.span().start, format_args!("url: {}", error.why)),
            },
            ("url", _) => mistakes.mismatch(value, "url", "a text"),
            (name, _) => {
                bookmark.values.extend(read_setting(name, key.span().start, value, &known, mistakes))
            }
        }
    }
    if !table.contains_key("url") {
        mistakes.add(at, "the bookmark lacks a `url`, as in url = \"ftp+sctp://HOST/\"");
    }
    bookmark
}

/// Reads one setting, whose value may be a text, a number, a boolean or a list.
fn read_setting(
    name: &str,
    at: usize,
    value: &Spanned<DeValue<'_>>,
    known: &[&str],
    mistakes: &mut Mistakes<'_>,
) -> Option<(&'static str, Vec<String>)> {
    let Some(key) = KEYS.into_iter().find(|key| *key == name) else {
        mistakes.unknown(at, name, known);
        return None;
    };
    let mut texts = Vec::new();
    let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    for item in items {
        let text = match item.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(value) => value.to_string(),
            _ => {
                mistakes.mismatch(item, key, "a text, a number, or true or false");
                return None;
            }
        };
        if let Err(why) = check(key, &text) {
            mistakes.add(item.span().start, why);
            return None;
        }
        texts.push(text);
    }
    Some((key, texts))
}

/// Whether an option accepts this value; if not, the reason.
fn check(key: &str, value: &str) -> Result<(), String> {
    if FLAGS.contains(&key) {
        return match value {
            "true" | "false" => Ok(()),
            _ => Err(format!("{key} is true or false, not `{}`", value.escape_debug())),
        };
    }
    if key == "cc"
        && let Err(why) = value.parse::<braidftp_net::cc::Choice>()
    {
        return Err(format!("cc: {why}"));
    }
    let words = ["braidftp".to_owned(), "ls".into(), format!("--{key}={value}"), "ftp+sctp://h/".into()];
    match <Cli as clap::Parser>::try_parse_from(words) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings> {
        let mut settings = Settings { path: Some("c.toml".into()), ..Settings::default() };
        settings.read(Path::new("c.toml"), text)?;
        Ok(settings)
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_command_line_precedes_the_bookmark_and_the_bookmark_precedes_the_file() {
        let file = "timeout = 7\nretries = 9\nparallel = 2\ncc = \"cubic\"\n[bookmark.site]\nurl = \"ftp://anna@h/a\"\nretries = 5\n";
        let common = |line: &str| {
            let mut settings = read(file).unwrap();
            let words = settings.resolve(words(line)).unwrap();
            match settings.parse(words).unwrap().command {
                super::super::args::Command::Ls(ls) => (ls.urls[0].to_string(), ls.common),
                other => panic!("{other:?}"),
            }
        };
        let (url, site) = common("braidftp ls @site/b");
        assert_eq!(url, "ftp://h:21/a/b");
        assert_eq!((site.timeout.0.as_secs(), site.retries, site.parallel), (7, 5, Some(2)));
        assert_eq!(site.cc, None, "it is for SCTP");
        assert_eq!(common("braidftp ls @site --retries 1").1.retries, 1);
        let (_, sctp) = common("braidftp ls ftp+sctp://h/");
        assert_eq!((sctp.retries, sctp.parallel, sctp.cc.as_deref()), (9, None, Some("cubic")));
        let mut settings = read(file).unwrap();
        let error = settings.resolve(words("braidftp ls @siet")).unwrap_err().to_string();
        assert!(error.contains("did you mean @site?") && error.contains("./@siet"), "{error}");
        let shown = settings.show(true);
        assert!(
            shown.iter().any(|line| line.starts_with("timeout") && line.ends_with("c.toml:1")),
            "{shown:#?}"
        );
        assert!(
            shown.iter().any(|line| line.starts_with("limit") && line.ends_with("default")),
            "{shown:#?}"
        );
    }

    #[test]
    fn every_mistake_is_reported_with_its_line_and_the_nearest_known_word() {
        let text = "timeouts = 5\nlimit = \"fast\"\nplain = 3\nretries = [\n  {},\n]\n[bookmark.a]\nurll = \"x\"\n[bookmark.b]\nurl = \"http://x/\"\n";
        let error = read(text).unwrap_err().to_string();
        for part in [
            "c.toml:1:1: there is no key `timeouts` here; did you mean `timeout`?",
            "c.toml:2:9: invalid value 'fast' for '--limit <RATE>'",
            "c.toml:3:9: plain is true or false, not `3`",
            "c.toml:5:3: retries is a text, a number, or true or false, not a table",
            "c.toml:7:11: the bookmark lacks a `url`",
            "c.toml:8:1: there is no key `urll` here; did you mean `url`?",
            "c.toml:10:7: url: `http` is not a scheme",
        ] {
            assert!(error.contains(part), "{part}\nis not in {error}");
        }
    }
}
