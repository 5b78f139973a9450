//! LIST: the output of `ls -l` in the forms that servers send. Clients prefer MLSD, then LIST, then NLST.
//!
//! Dates in these lines have no time zone. They are taken as UTC, which the caller can correct with one
//! MDTM.

use bytes::Bytes;

use super::{Entry, Listed, ListingError, Parsed};
use crate::command::parse_number;
use crate::path::{SafeName, SafePath};
use crate::stamp::{Civil, Timestamp};
use crate::store::{FileKind, Metadata};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Half a year in seconds, after which `ls` prints the year instead of the time.
const HALF_A_YEAR_SECONDS: i64 = 182 * 86_400;

/// Encodes a line like `ls -l`, with its end. `now` decides whether the time or the year is shown.
pub fn encode_unix(metadata: &Metadata, name: &SafePath, now: Timestamp) -> Vec<u8> {
    let (letter, usual) = match metadata.kind {
        FileKind::File => ('-', 0o644),
        FileKind::Directory => ('d', 0o755),
        FileKind::Symlink => ('l', 0o777),
        FileKind::Other => ('s', 0o600),
    };
    let mode = metadata.unix_mode.unwrap_or(usual);
    let mut line = String::from(letter);
    for at in (0..9).rev() {
        line.push(if mode >> at & 1 == 1 { ['x', 'w', 'r'][at % 3] } else { '-' });
    }
    let modified = metadata.modified.unwrap_or(Timestamp::from_seconds(0));
    let Civil { year, month, day, hour, minute, .. } = modified.civil();
    let month = usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"Jan");
    let recent = (now.seconds - HALF_A_YEAR_SECONDS..=now.seconds + 86_400).contains(&modified.seconds);
    let when = if recent { format!("{hour:02}:{minute:02}") } else { format!(" {year:04}") };
    line += &format!(" 1 ftp ftp {:>12} {month} {day:>2} {when} ", metadata.size);
    let mut line = line.into_bytes();
    line.extend_from_slice(if name.is_root() { b"." } else { name.as_bytes() });
    // A target with a line end would make two lines.
    if let Some(target) =
        metadata.target.as_ref().filter(|target| !target.iter().any(|byte| b"\r\n".contains(byte)))
    {
        line.extend_from_slice(b" -> ");
        line.extend_from_slice(target);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Parses a line of LIST without its end: Unix in many variants, NetWare, DOS, EPLF. `now` completes dates
/// without a year.
pub fn parse_list(line: &[u8], now: Timestamp) -> Result<Parsed, ListingError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.trim_ascii().is_empty() || is_total(line) {
        return Ok(Parsed::Nothing);
    }
    let (name, metadata) = match line[0] {
        b'+' => eplf(line),
        b'0'..=b'9' => dos(line),
        _ => unix(line, now),
    }
    .ok_or(ListingError::Form)?;
    if name == b"." || name == b".." {
        return Ok(Parsed::Nothing);
    }
    let path = SafePath::from(SafeName::new(name.to_vec())?);
    Ok(Parsed::Entry(Entry { path, metadata, listed: Listed::Whole }))
}

/// `total 12` in any language: one word and a number.
fn is_total(line: &[u8]) -> bool {
    let words = words(line);
    let [first, second] = words[..] else { return false };
    let [first, second] = [first.of(line), second.of(line)];
    // `-rw` would be a truncated entry, not a total.
    first.iter().all(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80) && parse_number(second).is_some()
}

/// The position of a word in a line.
#[derive(Clone, Copy)]
struct Word {
    start: usize,
    end: usize,
}

impl Word {
    fn of(self, line: &[u8]) -> &[u8] {
        &line[self.start..self.end]
    }
}

fn words(line: &[u8]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, byte) in line.iter().chain(b" ").enumerate() {
        match (byte, start) {
            (b' ', Some(begun)) => {
                words.push(Word { start: begun, end: at });
                start = None;
            }
            (b' ', None) | (_, Some(_)) => {}
            (_, None) => start = Some(at),
        }
    }
    words
}

/// `-rw-r--r--  1 owner group  1234 Nov 20 11:09 name`, where owner and group may be several words; or
/// NetWare's `d [RWCEAFMS] owner 512 Nov 20 11:09 name`.
fn unix(line: &[u8], now: Timestamp) -> Option<(&[u8], Metadata)> {
    let words = words(line);
    let rights = words.first()?.of(line);
    let kind = match rights.first()? {
        b'-' => FileKind::File,
        b'd' => FileKind::Directory,
        b'l' => FileKind::Symlink,
        b'b' | b'c' | b'p' | b's' | b'D' => FileKind::Other,
        _ => return None,
    };
    let is_netware = rights.len() == 1 && words.get(1)?.of(line).starts_with(b"[");
    if !is_netware && rights.len() < 10 {
        return None;
    }
    // The first number followed by a date is the size, whatever precedes it.
    for at in 1..words.len() {
        let Some(size) = parse_number(words[at].of(line)) else { continue };
        let Some((modified, used)) = date(line, &words[at + 1..], now) else { continue };
        let last = words[at + used];
        // One space; further ones belong to the name.
        let mut name = line.get(last.end + 1..)?;
        let mut metadata = Metadata::new(kind, if kind == FileKind::File { size } else { 0 });
        metadata.modified = modified;
        metadata.unix_mode = rights.get(1..10).and_then(mode_bits);
        if kind == FileKind::Symlink
            && let Some(arrow) = name.windows(4).position(|window| window == b" -> ")
        {
            metadata.target =
                Some(Bytes::copy_from_slice(&name[arrow + 4..])).filter(|target| !target.is_empty());
            name = &name[..arrow];
        }
        return Some((name, metadata));
    }
    None
}

/// Parses `rwxr-sr-t` as mode bits.
fn mode_bits(rights: &[u8]) -> Option<u32> {
    let mut mode = 0;
    for (at, letter) in rights.iter().enumerate() {
        let shift = 8 - at;
        let special = 1 << (11 - at / 3);
        mode |= match (at % 3, letter) {
            (0, b'r') | (1, b'w') | (2, b'x') => 1 << shift,
            (2, b's' | b't') => 1 << shift | special,
            (2, b'S' | b'T') => special,
            (_, b'-') => 0,
            _ => return None,
        };
    }
    Some(mode)
}

/// Parses a date at the start of `words`; returns it and the number of words. `Some((None, _))` is a date
/// in an unknown language.
fn date(line: &[u8], words: &[Word], now: Timestamp) -> Option<(Option<Timestamp>, usize)> {
    let word = |at: usize| words.get(at).map(|word| word.of(line));
    // 2026-11-20 11:09, optionally with seconds and zone.
    if let Some([year, month, day]) = numbers(word(0)?, b'-') {
        let time = word(1)?;
        let (hour, minute, second) = time_of_day(time)?;
        let civil = Civil { year, month, day, hour, minute, second };
        let zone = word(2).filter(|zone| time.contains(&b'.') && zone.len() == 5 && b"+-".contains(&zone[0]));
        let offset = zone.and_then(|zone| {
            let minutes = parse_number(&zone[1..]).and_then(|number| i64::try_from(number).ok())?;
            Some((minutes / 100 * 60 + minutes % 100) * if zone[0] == b'-' { -60 } else { 60 })
        });
        let seconds = civil.to_seconds()? - offset.unwrap_or(0);
        return Some((Some(Timestamp::from_seconds(seconds)), 2 + usize::from(offset.is_some())));
    }
    // Nov 20, 20 Nov, 20. Nov; then 11:09 or 2026.
    let (first, second, when) = (word(0)?, word(1)?, word(2)?);
    let day_of = |word: &[u8]| {
        let digits = word.strip_suffix(b".").unwrap_or(word);
        let day = parse_number(digits).and_then(|day| i64::try_from(day).ok());
        day.filter(|day| (1..=31).contains(day))
    };
    let (month, day) = match (day_of(first), day_of(second)) {
        (None, Some(day)) => (month_of(first), day),
        (Some(day), None) => (month_of(second), day),
        _ => return None,
    };
    let year = |word: &[u8]| {
        parse_number(word)
            .and_then(|year| i64::try_from(year).ok())
            .filter(|year| word.len() == 4 && *year >= 1900)
    };
    let civil = match (year(when), time_of_day(when)) {
        (Some(year), _) => Civil { year, month: month?.0, day, hour: 0, minute: 0, second: 0 },
        (None, Some((hour, minute, second))) => {
            let civil =
                |year| Civil { year, month: month.map_or(1, |month| month.0), day, hour, minute, second };
            let this_year = civil(now.civil().year);
            // The most recent such day; one day in the future is accepted for clocks and zones.
            let ahead = this_year.to_seconds().is_none_or(|seconds| seconds > now.seconds + 86_400);
            if ahead { civil(now.civil().year - 1) } else { this_year }
        }
        (None, None) => return None,
    };
    let known = month?.0 != 0;
    Some((civil.to_seconds().filter(|_| known).map(Timestamp::from_seconds), 3))
}

/// A month, 1 to 12; 0 for a word that may be one in another language.
#[derive(Clone, Copy)]
struct Month(i64);

fn month_of(word: &[u8]) -> Option<Month> {
    let short = word.get(..3).unwrap_or(word);
    if let Some(at) = MONTHS.iter().position(|month| month.as_bytes().eq_ignore_ascii_case(short)) {
        return Some(Month(at as i64 + 1));
    }
    // `11月`: a number with a suffix.
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if let Some(month) = parse_number(&word[..digits]).and_then(|month| i64::try_from(month).ok())
        && digits < word.len()
        && !word[digits].is_ascii()
        && (1..=12).contains(&month)
    {
        return Some(Month(month));
    }
    let is_word = word.iter().all(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80 || *byte == b'.');
    (is_word && (2..=15).contains(&word.len())).then_some(Month(0))
}

/// `11:09` or `11:09:30[.25]`.
fn time_of_day(word: &[u8]) -> Option<(i64, i64, i64)> {
    let whole = word.split(|byte| *byte == b'.').next()?;
    let mut parts = whole.split(|byte| *byte == b':').map(|part| {
        parse_number(part).filter(|_| part.len() <= 2).and_then(|number| i64::try_from(number).ok())
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    (parts.next().is_none() && hour < 24 && minute < 60 && second <= 60).then_some((hour, minute, second))
}

/// Three numbers with a separator between.
fn numbers(word: &[u8], separator: u8) -> Option<[i64; 3]> {
    let mut found = [0; 3];
    let mut parts = word.split(|byte| *byte == separator);
    for number in &mut found {
        *number = i64::try_from(parse_number(parts.next()?)?).ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// `11-20-26  11:09AM  <DIR>  name`, with a year of two or four digits, and 12 or 24 hours.
fn dos(line: &[u8]) -> Option<(&[u8], Metadata)> {
    let words = words(line);
    let date = words.first()?.of(line);
    let numbers = numbers(date, b'-').or_else(|| numbers(date, b'/'))?;
    let [month, day, year] = match numbers {
        [year, month, day] if year > 31 => [month, day, year],
        american => american,
    };
    let year = match year {
        0..=69 => 2000 + year,
        70..=99 => 1900 + year,
        year => year,
    };
    let time = words.get(1)?.of(line).to_ascii_uppercase();
    let (hour, minute, second) = match (time.strip_suffix(b"AM"), time.strip_suffix(b"PM")) {
        (Some(time), _) => time_of_day(time).map(|(hour, minute, second)| (hour % 12, minute, second)),
        (_, Some(time)) => time_of_day(time).map(|(hour, minute, second)| (hour % 12 + 12, minute, second)),
        (None, None) => time_of_day(&time),
    }?;
    let seconds = Civil { year, month, day, hour, minute, second }.to_seconds()?;
    let third = *words.get(2)?;
    let mut metadata = match third.of(line) {
        b"<DIR>" => Metadata::new(FileKind::Directory, 0),
        b"<JUNCTION>" | b"<SYMLINK>" | b"<SYMLINKD>" => Metadata::new(FileKind::Symlink, 0),
        size => {
            let digits: Vec<u8> = size.iter().copied().filter(|byte| *byte != b',').collect();
            Metadata::new(FileKind::File, parse_number(&digits)?)
        }
    };
    metadata.modified = Some(Timestamp::from_seconds(seconds));
    // `<DIR>` is padded to the width of sizes; a name follows one space after a size.
    let name = match metadata.kind {
        FileKind::File => line.get(third.end + 1..)?,
        _ => line.get(third.end..)?.trim_ascii_start(),
    };
    (!name.is_empty()).then_some((name, metadata))
}

/// `+i8388621.29609,m824255902,/,\tname` (EPLF).
fn eplf(line: &[u8]) -> Option<(&[u8], Metadata)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let mut metadata = Metadata::new(FileKind::Other, 0);
    for fact in line[1..tab].split(|byte| *byte == b',') {
        match fact {
            b"/" => metadata.kind = FileKind::Directory,
            b"r" => metadata.kind = FileKind::File,
            [b's', size @ ..] => metadata.size = parse_number(size)?,
            [b'm', seconds @ ..] => {
                let seconds = parse_number(seconds).and_then(|seconds| i64::try_from(seconds).ok())?;
                metadata.modified = Some(Timestamp::from_seconds(seconds));
            }
            [b'u', b'p', mode @ ..]
                if !mode.is_empty() && mode.iter().all(|digit| (b'0'..=b'7').contains(digit)) =>
            {
                metadata.unix_mode =
                    Some(mode.iter().fold(0, |sum, digit| (sum * 8 + u32::from(digit - b'0')) & 0o7777));
            }
            _ => {}
        }
    }
    Some((&line[tab + 1..], metadata))
}
