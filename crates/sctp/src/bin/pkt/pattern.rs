//! What a packet of a script means: the bytes to inject, or what the bytes of a packet sent must be.
//!
//! The names and their fields are packetdrill's. Chunks of extensions that the core does not speak are told as not
//! supported; any chunk can be given by its bytes, as `CHUNK[type=…, flgs=…, len=…, val=[…]]`.

mod fields;
mod tlv;

use self::fields::{Fields, Range};
use self::tlv::{Found, Tlv};
use crate::script::{Direction, Item, ScriptError, Value};

type Result<T> = std::result::Result<T, ScriptError>;

/// Bytes of a chunk's type, flags and length.
const HEADER_LEN: usize = 4;

/// Chunks that packetdrill knows by name: type, and what the core lacks to speak them.
const CHUNKS: &[(&str, u8, Option<&str>)] = &[
    ("DATA", 0, None),
    ("INIT", 1, None),
    ("INIT_ACK", 2, None),
    ("SACK", 3, None),
    ("HEARTBEAT", 4, None),
    ("HEARTBEAT_ACK", 5, None),
    ("ABORT", 6, None),
    ("SHUTDOWN", 7, None),
    ("SHUTDOWN_ACK", 8, None),
    ("ERROR", 9, None),
    ("COOKIE_ECHO", 10, None),
    ("COOKIE_ACK", 11, None),
    ("ECNE", 12, Some("ECN")),
    ("CWR", 13, Some("ECN")),
    ("SHUTDOWN_COMPLETE", 14, None),
    ("AUTH", 15, Some("RFC 4895")),
    ("NR_SACK", 16, Some("NR-SACK")),
    ("I_DATA", 64, Some("RFC 8260")),
    ("ASCONF_ACK", 0x80, Some("RFC 5061")),
    ("RECONFIG", 130, Some("RFC 6525")),
    ("PAD", 132, Some("RFC 4820")),
    ("FORWARD_TSN", 192, Some("RFC 3758")),
    ("ASCONF", 0xc1, Some("RFC 5061")),
    ("I_FORWARD_TSN", 194, Some("RFC 8260")),
];

/// A chunk of a script; `None` is `...`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    kind: Option<u8>,
    flags: Option<u8>,
    /// Where the script says it.
    len: Option<u16>,
    fixed: Vec<Fixed>,
    rest: Rest,
}

/// A number at its place behind the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fixed {
    name: &'static str,
    bytes: usize,
    value: Option<u64>,
}

/// What stands behind the numbers.
#[derive(Debug, Clone, PartialEq)]
enum Rest {
    Nothing,
    /// Zeros up to the length, or anything.
    Any,
    /// These bytes, and zeros up to the length.
    Bytes(Vec<u8>),
    /// A state cookie, or a copy of the one that came: COOKIE ECHO.
    Cookie,
    /// A copy of what came: HEARTBEAT ACK.
    Heartbeat,
    Parameters(Vec<Tlv>),
    Causes(Vec<Tlv>),
    Blocks {
        gaps: Option<Vec<(u16, u16)>>,
        dups: Option<Vec<u32>>,
    },
}

/// What the stack gave away that an injected packet may have to give back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prepared {
    /// The state cookie of its last INIT ACK.
    pub(crate) cookie: Option<Vec<u8>>,
    /// What its last HEARTBEAT held, its parameter's header included.
    pub(crate) heartbeat: Option<Vec<u8>>,
}

impl Pattern {
    /// The chunk that `item` is.
    pub(crate) fn new(item: &Item, direction: Direction) -> Result<Self> {
        let pattern = Self::read(item)?;
        if direction == Direction::In {
            pattern.check_complete(item)?;
        }
        Ok(pattern)
    }

    fn read(item: &Item) -> Result<Self> {
        let mut fields = Fields::new(item);
        if item.name == "CHUNK" {
            return Self::generic(fields);
        }
        let Some((_, kind, lacks)) = CHUNKS.iter().find(|(name, ..)| *name == item.name) else {
            return Err(ScriptError::new(item.line, format!("there is no chunk `{}`", item.name)));
        };
        if let Some(lacks) = lacks {
            return Err(ScriptError::unsupported(item.line, format!("the chunk {} ({lacks})", item.name)));
        }
        let letters = match item.name.as_str() {
            "DATA" => "EBUI",
            "ABORT" | "SHUTDOWN_COMPLETE" => "T",
            _ => "",
        };
        let flags = fields.flags(letters)?;
        let mut pattern =
            Self { kind: Some(*kind), flags, len: None, fixed: Vec::new(), rest: Rest::Nothing };
        let mut number = |fields: &mut Fields<'_>, name: &'static str, bytes: usize| {
            let value = fields.number(name, Range::of_bytes(bytes))?;
            pattern.fixed.push(Fixed { name, bytes, value });
            Ok(())
        };
        match item.name.as_str() {
            "DATA" => {
                let len = fields.number("len", Range { min: 16, max: 65_535 })?;
                for (name, bytes) in [("tsn", 4), ("sid", 2), ("ssn", 2), ("ppid", 4)] {
                    number(&mut fields, name, bytes)?;
                }
                pattern.len = len.map(|len| len as u16);
                pattern.rest = Rest::Any;
            }
            "INIT" | "INIT_ACK" => {
                for (name, bytes) in [("tag", 4), ("a_rwnd", 4), ("os", 2), ("is", 2), ("tsn", 4)] {
                    number(&mut fields, name, bytes)?;
                }
                pattern.rest = match fields.items()? {
                    Some(items) => Rest::Parameters(tlv::parameters(&items)?),
                    None => Rest::Any,
                };
            }
            "SACK" => {
                number(&mut fields, "cum_tsn", 4)?;
                number(&mut fields, "a_rwnd", 4)?;
                pattern.rest = Rest::Blocks { gaps: fields.gaps("gaps")?, dups: fields.numbers("dups")? };
            }
            "HEARTBEAT" | "HEARTBEAT_ACK" => {
                let items = fields.items()?.unwrap_or_default();
                let [info] = &items[..] else {
                    return Err(ScriptError::new(
                        item.line,
                        "one HEARTBEAT_INFORMATION stands in a HEARTBEAT",
                    ));
                };
                let info = tlv::heartbeat_information(info)?;
                let copies = item.name == "HEARTBEAT_ACK" && info.is_open();
                pattern.rest = if copies { Rest::Heartbeat } else { Rest::Parameters(vec![info]) };
            }
            "ABORT" | "ERROR" => {
                pattern.rest = match fields.items()? {
                    Some(items) => Rest::Causes(tlv::causes(&items)?),
                    None => Rest::Any,
                };
            }
            "SHUTDOWN" => number(&mut fields, "cum_tsn", 4)?,
            "COOKIE_ECHO" => {
                let len = fields.number("len", Range { min: 4, max: 65_535 })?;
                pattern.rest = match fields.bytes("val")? {
                    Some(bytes) => {
                        fields.expect_len("val", len, HEADER_LEN + bytes.len())?;
                        Rest::Bytes(bytes)
                    }
                    None => Rest::Cookie,
                };
                pattern.len = len.map(|len| len as u16);
            }
            _ => {}
        }
        fields.end()?;
        Ok(pattern)
    }

    fn generic(mut fields: Fields<'_>) -> Result<Self> {
        let kind = fields.chunk_type(CHUNKS)?;
        let flags = fields.flags("")?;
        let len = fields.number("len", Range { min: 4, max: 65_535 })?;
        let rest = match fields.bytes("val")? {
            Some(bytes) => {
                fields.expect_room("val", len, HEADER_LEN + bytes.len())?;
                Rest::Bytes(bytes)
            }
            None => Rest::Any,
        };
        fields.end()?;
        Ok(Self { kind, flags, len: len.map(|len| len as u16), fixed: Vec::new(), rest })
    }

    /// Whether it says all that an injected chunk needs said.
    fn check_complete(&self, item: &Item) -> Result<()> {
        let missing = |what: &str| {
            let what = format!("{what} must be given in a packet to inject ({})", item.name);
            Err(ScriptError::new(item.line, what))
        };
        if self.kind.is_none() {
            return missing("type");
        }
        let generic = item.name == "CHUNK" || item.name == "DATA";
        if generic && self.flags.is_none() {
            return missing("flgs");
        }
        if generic && self.len.is_none() {
            return missing("len");
        }
        if let Some(open) = self.fixed.iter().find(|fixed| fixed.value.is_none()) {
            return missing(open.name);
        }
        match &self.rest {
            Rest::Blocks { gaps: None, .. } => missing("gaps"),
            Rest::Blocks { dups: None, .. } => missing("dups"),
            Rest::Any if matches!(item.name.as_str(), "INIT" | "INIT_ACK") => {
                missing("what parameters there are,")
            }
            Rest::Any if matches!(item.name.as_str(), "ABORT" | "ERROR") => missing("what causes there are,"),
            Rest::Parameters(tlvs) | Rest::Causes(tlvs) => match tlvs.iter().find(|tlv| !tlv.can_be_sent()) {
                Some(tlv) => missing(&format!("all of {},", tlv.name)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The chunk type, unless it is `...`.
    pub(crate) fn kind(&self) -> Option<u8> {
        self.kind
    }

    /// A number of the chunk, unless it is `...`.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.fixed.iter().find(|fixed| fixed.name == name).and_then(|fixed| fixed.value)
    }

    /// Appends the chunk as bytes, with padding.
    pub(crate) fn encode(&self, prepared: &Prepared, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[self.kind.unwrap_or(0), self.flags.unwrap_or(0), 0, 0]);
        for fixed in &self.fixed {
            let value = fixed.value.unwrap_or(0).to_be_bytes();
            out.extend_from_slice(&value[8 - fixed.bytes..]);
        }
        match &self.rest {
            Rest::Nothing | Rest::Any => {}
            Rest::Bytes(bytes) => out.extend_from_slice(bytes),
            Rest::Cookie => out.extend_from_slice(prepared.cookie.as_deref().unwrap_or_default()),
            Rest::Heartbeat => out.extend_from_slice(prepared.heartbeat.as_deref().unwrap_or(&[0, 1, 0, 4])),
            Rest::Parameters(tlvs) | Rest::Causes(tlvs) => tlv::encode(tlvs, out),
            Rest::Blocks { gaps, dups } => {
                let (gaps, dups) = (gaps.as_deref().unwrap_or_default(), dups.as_deref().unwrap_or_default());
                out.extend_from_slice(&(gaps.len() as u16).to_be_bytes());
                out.extend_from_slice(&(dups.len() as u16).to_be_bytes());
                for (from, to) in gaps {
                    out.extend_from_slice(&from.to_be_bytes());
                    out.extend_from_slice(&to.to_be_bytes());
                }
                dups.iter().for_each(|tsn| out.extend_from_slice(&tsn.to_be_bytes()));
            }
        }
        let copied = matches!(self.rest, Rest::Cookie);
        let len = match self.len {
            // What was given back has the length it had.
            Some(len) if !copied => usize::from(len),
            _ => out.len() - start,
        };
        // A length that is less than what is there is a lie that the script wants told.
        let end = (start + len).max(out.len());
        out.resize(end, 0);
        out[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
        while !(out.len() - start).is_multiple_of(4) {
            out.push(0);
        }
    }

    /// What differs in `chunk`, the bytes of a whole chunk without padding.
    pub(crate) fn differs(&self, chunk: &[u8]) -> Option<String> {
        let differs = |name: &str, expected: u64, got: u64| {
            (expected != got).then(|| format!("{name}: expected {expected}, got {got}"))
        };
        if let Some(kind) = self.kind
            && kind != chunk[0]
        {
            return Some(format!("chunk: expected {}, got {}", name_of(kind), name_of(chunk[0])));
        }
        if let Some(flags) = self.flags
            && let Some(difference) = differs("flgs", flags.into(), chunk[1].into())
        {
            return Some(difference);
        }
        let mut at = HEADER_LEN;
        for fixed in &self.fixed {
            let Some(bytes) = chunk.get(at..at + fixed.bytes) else {
                return Some(format!("{}: the chunk is too short for it", fixed.name));
            };
            let got = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            if let Some(difference) = fixed.value.and_then(|value| differs(fixed.name, value, got)) {
                return Some(difference);
            }
            at += fixed.bytes;
        }
        let rest = &chunk[at..];
        if let Some(len) = self.len
            && let Some(difference) = differs("len", len.into(), chunk.len() as u64)
        {
            return Some(difference);
        }
        match &self.rest {
            Rest::Any | Rest::Cookie | Rest::Heartbeat => None,
            Rest::Nothing => differs("len", at as u64, chunk.len() as u64),
            Rest::Bytes(bytes) => {
                let same = rest.starts_with(bytes) && rest[bytes.len()..].iter().all(|byte| *byte == 0);
                (!same).then(|| format!("val: expected {bytes:02x?}, got {rest:02x?}"))
            }
            Rest::Parameters(tlvs) => tlv::differ(tlvs, rest, Found::Parameter),
            Rest::Causes(tlvs) => tlv::differ(tlvs, rest, Found::Cause),
            Rest::Blocks { gaps, dups } => blocks_differ(gaps.as_deref(), dups.as_deref(), rest),
        }
    }
}

/// The name of a chunk type.
pub(crate) fn name_of(kind: u8) -> String {
    match CHUNKS.iter().find(|(_, known, _)| *known == kind) {
        Some((name, ..)) => (*name).to_owned(),
        None => format!("CHUNK[type={kind:#04x}]"),
    }
}

fn blocks_differ(gaps: Option<&[(u16, u16)]>, dups: Option<&[u32]>, rest: &[u8]) -> Option<String> {
    let [g0, g1, d0, d1, blocks @ ..] = rest else {
        return Some("gaps: the chunk is too short for them".to_owned());
    };
    let gap_count = usize::from(u16::from_be_bytes([*g0, *g1]));
    let dup_count = usize::from(u16::from_be_bytes([*d0, *d1]));
    if blocks.len() != 4 * (gap_count + dup_count) {
        return Some("gaps: their count does not fit the chunk".to_owned());
    }
    let mut words =
        blocks.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    let found: Vec<_> =
        words.by_ref().take(gap_count).map(|word| ((word >> 16) as u16, word as u16)).collect();
    if let Some(gaps) = gaps
        && gaps != found
    {
        return Some(format!("gaps: expected {}, got {}", gaps_text(gaps), gaps_text(&found)));
    }
    let found: Vec<_> = words.collect();
    dups.filter(|dups| *dups != found).map(|dups| format!("dups: expected {dups:?}, got {found:?}"))
}

fn gaps_text(gaps: &[(u16, u16)]) -> String {
    let gaps: Vec<_> = gaps.iter().map(|(from, to)| format!("{from}:{to}")).collect();
    format!("[{}]", gaps.join(","))
}

/// The whole chunks in the bytes behind a common header, without padding; what is left over if it is none.
pub(crate) fn chunks(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]));
        if len < HEADER_LEN || len > rest.len() {
            return None;
        }
        let chunk = &rest[..len];
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(chunk)
    })
}

/// The value of a field that is a list, or `...`.
fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::List(values) if values[..] != [Value::Any] => Some(values),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
