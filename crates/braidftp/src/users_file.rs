//! The parser of the users file (TOML): each mistake is reported by a sentence with line and column.
//!
//! No sentence contains a hash or the text of its line, which may hold a password in place of the hash.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use argon2::password_hash::phc::PasswordHash;
use braidftp_base::Rate;
use toml::Spanned;
use toml::de::DeValue;

use crate::identity::Fingerprint;
use crate::mistakes::Mistakes;
use crate::size::Size;
use crate::store::fs;
use crate::user_limits::{Access, Limits, Rights};

/// The keys of a user.
const KEYS: &[&str] = &["name", "hash", "keys", "home", "writable", "rights", "quota", "rate", "sessions"];
/// The maximum memory of a hash, in KiB: a mistyped cost must not exhaust the machine.
pub(crate) const MAX_HASH_KIB: u32 = 256 * 1024;
/// The memory of a hash below which it is reported as weak, in KiB: the minimum of OWASP's Password Storage
/// Cheat Sheet for argon2id.
const MIN_HASH_KIB: u32 = 7_168;
/// The memory times passes of a hash below which it is reported as weak, in KiB; from the same source.
const MIN_HASH_WORK_KIB: u32 = 35_840;

/// A user of the file.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) hash: Option<String>,
    /// What is weak about the hash.
    pub(crate) weakness: Option<String>,
    pub(crate) keys: Vec<Fingerprint>,
    pub(crate) home: PathBuf,
    pub(crate) rights: Rights,
    pub(crate) limits: Limits,
}

impl Entry {
    /// Whether the user may log in without a hash and without keys.
    fn is_anonymous(&self) -> bool {
        self.name == "anonymous" || self.name == "ftp"
    }

    fn set(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let wrong = |why: &str| Wrong::Value(why.to_owned());
        match key {
            "name" => text(value)?.clone_into(&mut self.name),
            "hash" => {
                let hash = text(value)?;
                self.weakness = check_hash(hash)?;
                self.hash = Some(hash.to_owned());
            }
            "keys" => {
                let keys = texts(value)?.into_iter().map(str::parse).collect::<Result<_, _>>();
                self.keys = keys.map_err(|_| {
                    wrong("one of its keys is not a fingerprint as printed by `braidftp key`: `SHA256:…`")
                })?;
            }
            "home" => {
                let home = fs::relative(text(value)?.as_bytes());
                self.home = home.map_err(|_| wrong("its home is not a folder within the root"))?;
            }
            "writable" => {
                self.rights = match value.get_ref() {
                    DeValue::Boolean(true) => Access::Writable.into(),
                    DeValue::Boolean(false) => Access::ReadOnly.into(),
                    _ => return Err(Wrong::Kind("true or false")),
                };
            }
            "rights" => self.rights = Rights::parse(texts(value)?).map_err(Wrong::Value)?,
            "quota" => {
                let size = text(value)?.parse().map_err(|why| Wrong::Value(format!("quota: {why}")));
                self.limits.quota = size.map(|Size(bytes)| Some(bytes))?;
            }
            "rate" => {
                let rate = text(value)?.parse::<Rate>();
                self.limits.rate = Some(rate.map_err(|why| Wrong::Value(format!("rate: {why}")))?);
            }
            "sessions" => self.limits.sessions = Some(sessions(value)?),
            _ => return Err(Wrong::Key),
        }
        Ok(())
    }
}

/// Parses the text of a users file.
///
/// # Errors
///
/// All mistakes, one sentence each.
pub(crate) fn parse(path: &Path, text: &str, access: Access) -> Result<Vec<Entry>, Vec<String>> {
    let (table, mut mistakes) = Mistakes::parse(path, text);
    let (mut entries, mut names) = (Vec::new(), BTreeSet::new());
    for (key, value) in table.get_ref().iter() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("user", DeValue::Array(users)) => {
                for user in users.iter() {
                    let Some(entry) = entry(user, access, &mut mistakes) else { continue };
                    if !names.insert(entry.name.clone()) {
                        let name = entry.name.escape_debug();
                        mistakes.add(user.span().start, format_args!("user `{name}`: it is there twice"));
                    }
                    entries.push(entry);
                }
            }
            ("user", _) => mistakes.mismatch(value, "user", "tables as in [[user]]"),
            (other, _) => mistakes.unknown(key.span().start, other, &["user"]),
        }
    }
    if mistakes.count() == 0 { Ok(entries) } else { Err(mistakes.sentences()) }
}

/// Parses one user; `None` after a mistake in it.
fn entry(user: &Spanned<DeValue<'_>>, access: Access, mistakes: &mut Mistakes<'_>) -> Option<Entry> {
    let DeValue::Table(table) = user.get_ref() else {
        mistakes.mismatch(user, "user", "tables as in [[user]]");
        return None;
    };
    let before = mistakes.count();
    let mut entry = Entry { rights: access.into(), ..Entry::default() };
    for (key, value) in table.iter() {
        let name = key.get_ref().as_ref();
        match entry.set(name, value) {
            Ok(()) => {}
            Err(Wrong::Key) => mistakes.unknown(key.span().start, name, KEYS),
            Err(Wrong::Kind(wanted)) => mistakes.mismatch(value, name, wanted),
            Err(Wrong::Value(why)) => mistakes.add(value.span().start, why),
        }
    }
    if mistakes.count() > before {
        return None;
    }
    let name = entry.name.escape_debug();
    let why = if !table.contains_key("name") {
        "the user lacks `name`".to_owned()
    } else if table.contains_key("rights") && table.contains_key("writable") {
        format!("user `{name}`: it has `rights` and `writable`: leave `writable` out")
    } else if entry.hash.is_none() && entry.keys.is_empty() && !entry.is_anonymous() {
        format!(
            "user `{name}`: no hash and no keys; make a hash with `braidftp serve --hash-password`, or have `braidftp key new` \
             print a key's fingerprint"
        )
    } else {
        return Some(entry);
    };
    mistakes.add(user.span().start, why);
    None
}

/// What is wrong with a key and its value.
enum Wrong {
    /// There is no such key.
    Key,
    /// The value is of another type than this one.
    Kind(&'static str),
    /// The sentence for the value.
    Value(String),
}

fn text<'a>(value: &'a Spanned<DeValue<'_>>) -> Result<&'a str, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => Err(Wrong::Kind("a text between quotes")),
    }
}

fn texts<'a>(value: &'a Spanned<DeValue<'_>>) -> Result<Vec<&'a str>, Wrong> {
    let wrong = || Wrong::Kind("a list of texts");
    let DeValue::Array(items) = value.get_ref() else { return Err(wrong()) };
    items.iter().map(|item| text(item).map_err(|_| wrong())).collect()
}

fn sessions(value: &Spanned<DeValue<'_>>) -> Result<usize, Wrong> {
    let DeValue::Integer(number) = value.get_ref() else { return Err(Wrong::Kind("a whole number")) };
    let parsed = i64::from_str_radix(number.as_str(), number.radix()).ok();
    match parsed.and_then(|number| usize::try_from(number).ok()) {
        Some(0) => Err(Wrong::Value("sessions is 0: they could never log in; leave the user out".into())),
        Some(sessions) => Ok(sessions),
        None => Err(Wrong::Value(format!("sessions is a whole number from 1, not {}", number.as_str()))),
    }
}

/// What is weak about a hash, if anything.
fn check_hash(hash: &str) -> Result<Option<String>, Wrong> {
    match PasswordHash::new(hash).map(|hash| argon2::Params::try_from(&hash)) {
        Ok(Ok(params)) if params.m_cost() > MAX_HASH_KIB => {
            Err(Wrong::Value("its hash asks for more than 256 MiB of memory".into()))
        }
        Ok(Ok(params)) => {
            let (memory, passes) = (params.m_cost(), params.t_cost());
            let is_weak = memory < MIN_HASH_KIB || memory.saturating_mul(passes) < MIN_HASH_WORK_KIB;
            Ok(is_weak.then(|| {
                format!(
                    "the hash is weak (m={memory}, t={passes}): who reads it guesses fast; `braidftp serve --hash-password` \
                     makes a strong one"
                )
            }))
        }
        _ => Err(Wrong::Value("its hash is not one of argon2 (`$argon2id$…`)".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_reported_with_its_place_and_the_nearest_word() {
        let text = "[[user]]\nname = 'ftp'\nhoem = 'x'\nquota = 5\nsessions = 'many'\nwritable = 'yes'\n\
                    [[user]]\nname = 3\nhash = 'secret'\n[[user]]\nname = 'b'\nkeys = 'SHA256:x'\nrate = 'fast'\n\
                    sessions = -1\n[[user]]\nname = 'c'\nkeys = []\n[usr]\n";
        let told = parse(Path::new("u.toml"), text, Access::ReadOnly).unwrap_err();
        let wanted = [
            "u.toml:3:1: there is no key `hoem` here; did you mean `home`?",
            "u.toml:4:9: quota is a text between quotes, not a whole number",
            "u.toml:5:12: sessions is a whole number, not a text",
            "u.toml:6:12: writable is true or false, not a text",
            "u.toml:8:8: name is a text between quotes, not a whole number",
            "u.toml:9:8: its hash is not one of argon2",
            "u.toml:12:8: keys is a list of texts, not a text",
            "u.toml:13:8: rate: `fast` is not a rate",
            "u.toml:14:12: sessions is a whole number from 1, not -1",
            "u.toml:15:1: user `c`: no hash and no keys",
            "u.toml:18:2: there is no key `usr` here; did you mean `user`?",
        ];
        assert_eq!(told.len(), wanted.len(), "{told:#?}");
        for (told, wanted) in told.iter().zip(wanted) {
            assert!(told.starts_with(wanted) && !told.contains("secret"), "{told}\nis not\n{wanted}");
        }
    }
}
