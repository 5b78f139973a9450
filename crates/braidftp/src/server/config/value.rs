//! Values of a file of settings, parsed individually, so that each mistake is reported with its place.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::super::confine::Level;
use super::super::hooks::On;
use super::super::listen::Listen;
use super::super::log::Format;
use super::super::{Resumption, umask::Umask};
use crate::client::MultipathChoice;
use crate::mistakes::{Mistakes, nearest};
use crate::size::Size;
use crate::store::fs::Durability;
use braidftp_ftp::server::is_host_name;
use braidftp_net::cc;
use braidftp_net::sctp::Profile;

/// A value in a file of settings.
pub(in super::super) trait Value: Sized {
    /// Parses it; mistakes are added to `mistakes` with their places.
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self>;
}

/// Reports that another type of value is expected.
pub(super) fn mismatch<T>(
    value: &Spanned<DeValue<'_>>,
    key: &str,
    wanted: &str,
    mistakes: &mut Mistakes<'_>,
) -> Option<T> {
    mistakes.mismatch(value, key, wanted);
    None
}

fn text<'a>(
    value: &'a Spanned<DeValue<'_>>,
    key: &str,
    wanted: &str,
    mistakes: &mut Mistakes<'_>,
) -> Option<&'a str> {
    match value.get_ref() {
        DeValue::String(text) => Some(text),
        _ => mismatch(value, key, wanted, mistakes),
    }
}

/// Parses a text with `parse`, whose error completes a sentence that begins with the key.
fn parsed<T>(
    value: &Spanned<DeValue<'_>>,
    key: &str,
    mistakes: &mut Mistakes<'_>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let text = text(value, key, "a text", mistakes)?;
    match parse(text) {
        Ok(parsed) => Some(parsed),
        Err(why) => {
            mistakes.add(value.span().start, why);
            None
        }
    }
}

/// Parses one of a few words.
pub(super) fn word<T: Copy>(
    value: &Spanned<DeValue<'_>>,
    key: &str,
    words: &[(&str, T)],
    mistakes: &mut Mistakes<'_>,
) -> Option<T> {
    let text = text(value, key, "a text", mistakes)?;
    let found = words.iter().find(|(word, _)| *word == text);
    if found.is_none() {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let meant = nearest(text, &names);
        let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        let told = format!("{key} is one of {}, not `{}`{meant}", names.join(", "), text.escape_debug());
        mistakes.add(value.span().start, told);
    }
    found.map(|(_, found)| *found)
}

impl Value for String {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        text(value, key, "a text", mistakes).map(str::to_owned)
    }
}

impl Value for PathBuf {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        text(value, key, "a path", mistakes).map(Self::from)
    }
}

impl Value for bool {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        match value.get_ref() {
            DeValue::Boolean(value) => Some(*value),
            _ => mismatch(value, key, "true or false", mistakes),
        }
    }
}

impl Value for u64 {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        let DeValue::Integer(number) = value.get_ref() else {
            return mismatch(value, key, "a whole number", mistakes);
        };
        match i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .and_then(|number| number.try_into().ok())
        {
            Some(number) => Some(number),
            None => {
                let told = format!("{key} is a whole number from 0, not {}", number.as_str());
                mistakes.add(value.span().start, told);
                None
            }
        }
    }
}

/// A smaller integer type.
macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Value for $number {
            fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
                let number = u64::read(value, key, mistakes)?;
                let small = Self::try_from(number).ok();
                if small.is_none() {
                    let told = format!("{key} is {} at most, not {number}", <$number>::MAX);
                    mistakes.add(value.span().start, told);
                }
                small
            }
        }
    )*};
}

numbers! { u8 u32 usize }

/// A duration in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Seconds(pub(in super::super) Duration);

impl Value for Seconds {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        u32::read(value, key, mistakes).map(|seconds| Self(Duration::from_secs(seconds.into())))
    }
}

impl<T: Value> Value for Vec<T> {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        let DeValue::Array(items) = value.get_ref() else {
            return mismatch(value, key, "a list", mistakes);
        };
        let read: Vec<Option<T>> = items.iter().map(|item| T::read(item, key, mistakes)).collect();
        read.into_iter().collect()
    }
}

/// Values parsed by `FromStr`; the sentence of an error begins with the key.
macro_rules! texts {
    ($($kind:ty)*) => {$(
        impl Value for $kind {
            fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
                parsed(value, key, mistakes, |text| {
                    Self::from_str(text).map_err(|why| format!("{key}: {why}"))
                })
            }
        }
    )*};
}

texts! { cc::Choice MultipathChoice Size SocketAddr Umask }

impl Value for IpAddr {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        parsed(value, key, mistakes, |text| {
            text.parse().map_err(|_| format!("{key} is an IP address such as \"192.0.2.1\", not \"{text}\""))
        })
    }
}

impl Value for Listen {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        parsed(value, key, mistakes, Listen::parse)
    }
}

/// The names of a virtual host: a list, or a single one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct HostNames(pub(in super::super) Vec<String>);

impl Value for HostNames {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        let names = match value.get_ref() {
            DeValue::Array(names) if !names.is_empty() => names.iter().collect(),
            DeValue::Array(_) => return mismatch(value, key, "a list of at least one name", mistakes),
            _ => vec![value],
        };
        let name = |value: &Spanned<DeValue<'_>>| {
            parsed(value, key, mistakes, |name| match is_host_name(name.as_bytes()) {
                true => Ok(name.to_owned()),
                false => Err(format!(
                    "{key}: a name such as ftp.example.org, or an address, without a port, not `{}`",
                    name.escape_debug()
                )),
            })
        };
        let read: Vec<Option<String>> = names.into_iter().map(name).collect();
        read.into_iter().collect::<Option<Vec<String>>>().map(Self)
    }
}

/// A range of ports, as in `50000-50100`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Ports(pub(in super::super) RangeInclusive<u16>);

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a range such as \"50000-50100\", not \"{text}\"");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong);
        let (first, last) = (port(first)?, port(last)?);
        if first <= last { Ok(Self(first..=last)) } else { Err(wrong()) }
    }
}

texts! { Ports }

/// Values that are one of a few words.
macro_rules! words {
    ($($kind:ty: $($word:literal $value:expr),*;)*) => {$(
        impl Value for $kind {
            fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
                word(value, key, &[$(($word, $value)),*], mistakes)
            }
        }
    )*};
}

words! {
    Durability: "full" Self::Full, "bytes" Self::Bytes, "none" Self::None;
    Resumption: "required" Self::Required, "optional" Self::Optional;
    Level: "required" Self::Required, "best-effort" Self::BestEffort, "off" Self::Off;
    Profile: "modern" Self::Modern, "rfc9260" Self::Rfc9260;
    On: "upload" Self::Upload, "download" Self::Download, "login" Self::Login;
    Format: "text" Self::Text, "json" Self::Json;
}
