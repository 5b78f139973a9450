//! Packet patterns: a script's packet as the bytes to inject, or as a pattern to compare a sent packet with.
//!
//! Names and fields are packetdrill's. AUTH, ASCONF and their parameters, which packetdrill knows by number
//! only, are named as in the core's log. Any chunk can be given by its bytes, as `CHUNK[type=…, flgs=…,
//! len=…, val=[…]]`.

mod fields;
mod tlv;

use self::fields::{Fields, Range};
use self::tlv::{Found, Tlv};
use crate::script::{Direction, Item, ScriptError, Value};

type Result<T> = std::result::Result<T, ScriptError>;

/// The length of a chunk header in bytes: type, flags and length.
const HEADER_LEN: usize = 4;

/// The chunks with names.
const CHUNKS: &[(&str, u8)] = &[
    ("DATA", 0),
    ("INIT", 1),
    ("INIT_ACK", 2),
    ("SACK", 3),
    ("HEARTBEAT", 4),
    ("HEARTBEAT_ACK", 5),
    ("ABORT", 6),
    ("SHUTDOWN", 7),
    ("SHUTDOWN_ACK", 8),
    ("ERROR", 9),
    ("COOKIE_ECHO", 10),
    ("COOKIE_ACK", 11),
    ("ECNE", 12),
    ("CWR", 13),
    ("SHUTDOWN_COMPLETE", 14),
    ("AUTH", 15),
    ("NR_SACK", 16),
    ("I_DATA", 64),
    ("ASCONF_ACK", 0x80),
    ("RECONFIG", 130),
    ("PAD", 132),
    ("FORWARD_TSN", 192),
    ("ASCONF", 0xc1),
    ("I_FORWARD_TSN", 194),
];

/// How exactly a packet must match the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    /// In every byte that is not a wildcard.
    Exact,
    /// In meaning. The parameters of INIT and INIT ACK may have any order, since the RFC prescribes none,
    /// and one that only states the default may be present or absent. Extensions and streams in lists may
    /// have any order, and so may a SACK among control chunks.
    Meaning,
}

/// Moves SACKs before the other control chunks, since no RFC prescribes their order. Chunks that must come
/// first stay first, and DATA stays last.
pub(crate) fn sacks_first<T>(chunks: &mut [T], kind: impl Fn(&T) -> Option<u8>) {
    let is_first = |chunk: &T| matches!(kind(chunk), Some(10 | 11 | 15));
    let is_control = |chunk: &T| !matches!(kind(chunk), None | Some(0 | 15 | 64));
    let from = chunks.iter().take_while(|chunk| is_first(chunk)).count();
    let len = chunks[from..].iter().take_while(|chunk| is_control(chunk)).count();
    chunks[from..from + len].sort_by_key(|chunk| !matches!(kind(chunk), Some(3 | 16)));
}

/// The length of FreeBSD's HEARTBEAT in bytes.
const FREEBSD_HEARTBEAT_LEN: usize = 44;

/// A chunk of a script; `None` is `...`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    kind: Option<u8>,
    flags: Option<u8>,
    /// The length field, if the script gives it.
    len: Option<u16>,
    fixed: Vec<Fixed>,
    rest: Rest,
}

/// A number at a fixed offset after the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fixed {
    name: &'static str,
    bytes: usize,
    value: Option<u64>,
}

/// What follows the fixed numbers.
#[derive(Debug, Clone, PartialEq)]
enum Rest {
    Nothing,
    /// Zeros up to the length, or anything.
    Any,
    /// These bytes, and zeros up to the length.
    Bytes(Vec<u8>),
    /// A state cookie, or in a COOKIE ECHO a copy of the received one.
    Cookie,
    /// A copy of the received information: HEARTBEAT ACK.
    Heartbeat,
    Parameters(Vec<Tlv>),
    Causes(Vec<Tlv>),
    /// The lists of SACK, and of NR-SACK, which has one more.
    Blocks {
        gaps: Option<Vec<(u16, u16)>>,
        nr_gaps: Option<Option<Vec<(u16, u16)>>>,
        dups: Option<Vec<u32>>,
    },
    /// The streams of FORWARD TSN and I-FORWARD-TSN, each as bytes.
    Streams {
        ids: Option<Vec<Vec<u8>>>,
        len: usize,
    },
}

/// Values that the stack sent and that an injected packet may have to return.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prepared {
    /// The state cookie of its most recent INIT ACK.
    pub(crate) cookie: Option<Vec<u8>>,
    /// The parameter in its most recent HEARTBEAT, with header.
    pub(crate) heartbeat: Option<Vec<u8>>,
}

impl Pattern {
    /// Builds the pattern of the chunk `item`.
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
        let Some((_, kind)) = CHUNKS.iter().find(|(name, _)| *name == item.name) else {
            return Err(ScriptError::new(item.line, format!("unknown chunk `{}`", item.name)));
        };
        let letters = match item.name.as_str() {
            "DATA" | "I_DATA" => "EBUI",
            "ABORT" | "SHUTDOWN_COMPLETE" => "T",
            _ => "",
        };
        let flags = match item.name.as_str() {
            // In packetdrill's notation these have no flags field.
            "FORWARD_TSN" | "I_FORWARD_TSN" if !fields.is("flgs") => Some(0),
            _ => fields.flags(letters)?,
        };
        let mut pattern =
            Self { kind: Some(*kind), flags, len: None, fixed: Vec::new(), rest: Rest::Nothing };
        pattern.read_transfer(&mut fields, item)?;
        pattern.read_control(&mut fields, item)?;
        pattern.read_extension(&mut fields, item)?;
        fields.end()?;
        Ok(pattern)
    }

    /// The fields of chunks that carry data or acknowledge TSNs.
    fn read_transfer(&mut self, fields: &mut Fields<'_>, item: &Item) -> Result<()> {
        match item.name.as_str() {
            "DATA" => {
                let len = fields.number("len", Range { min: 16, max: 65_535 })?;
                for (field, bytes) in [("tsn", 4), ("sid", 2), ("ssn", 2), ("ppid", 4)] {
                    self.read_number(fields, field, bytes)?;
                }
                self.len = len.map(|len| len as u16);
                self.rest = Rest::Any;
            }
            "I_DATA" => {
                let len = fields.number("len", Range { min: 20, max: 65_535 })?;
                for (field, bytes) in [("tsn", 4), ("sid", 2)] {
                    self.read_number(fields, field, bytes)?;
                }
                let mid = fields.number("mid", Range::of_bytes(4))?;
                let last = if fields.is("fsn") { "fsn" } else { "ppid" };
                let value = fields.number(last, Range::of_bytes(4))?;
                self.fixed.extend([
                    Fixed { name: "reserved", bytes: 2, value: Some(0) },
                    Fixed { name: "mid", bytes: 4, value: mid },
                    Fixed { name: last, bytes: 4, value },
                ]);
                self.len = len.map(|len| len as u16);
                self.rest = Rest::Any;
            }
            "SACK" | "NR_SACK" => {
                self.read_number(fields, "cum_tsn", 4)?;
                self.read_number(fields, "a_rwnd", 4)?;
                let gaps = fields.gaps("gaps")?;
                let nr_gaps = if item.name == "NR_SACK" { Some(fields.gaps("nr_gaps")?) } else { None };
                self.rest = Rest::Blocks { gaps, nr_gaps, dups: fields.numbers("dups")? };
            }
            "FORWARD_TSN" | "I_FORWARD_TSN" => {
                self.read_number(fields, "cum_tsn", 4)?;
                let sizes: &[usize] = if item.name == "FORWARD_TSN" { &[2, 2] } else { &[2, 2, 4] };
                self.rest = Rest::Streams { ids: fields.tuples("ids", sizes)?, len: sizes.iter().sum() };
            }
            "ECNE" | "CWR" => self.read_number(fields, "tsn", 4)?,
            "SHUTDOWN" => self.read_number(fields, "cum_tsn", 4)?,
            _ => {}
        }
        Ok(())
    }

    /// The fields of chunks that begin, probe and end an association.
    fn read_control(&mut self, fields: &mut Fields<'_>, item: &Item) -> Result<()> {
        match item.name.as_str() {
            "INIT" | "INIT_ACK" => {
                for (field, bytes) in [("tag", 4), ("a_rwnd", 4), ("os", 2), ("is", 2), ("tsn", 4)] {
                    self.read_number(fields, field, bytes)?;
                }
                self.rest = match fields.items()? {
                    Some(items) => Rest::Parameters(tlv::parameters(&items)?),
                    None => Rest::Any,
                };
            }
            "COOKIE_ECHO" => {
                let len = fields.number("len", Range { min: 4, max: 65_535 })?;
                self.rest = match fields.bytes("val")? {
                    Some(bytes) => {
                        fields.expect_len("val", len, HEADER_LEN + bytes.len())?;
                        Rest::Bytes(bytes)
                    }
                    None => Rest::Cookie,
                };
                self.len = len.map(|len| len as u16);
            }
            "HEARTBEAT" | "HEARTBEAT_ACK" => {
                let items = fields.items()?.unwrap_or_default();
                let [info] = &items[..] else {
                    return Err(ScriptError::new(item.line, "a HEARTBEAT holds one HEARTBEAT_INFORMATION"));
                };
                let info = tlv::heartbeat_information(info)?;
                let copies = item.name == "HEARTBEAT_ACK" && info.is_open();
                self.rest = if copies { Rest::Heartbeat } else { Rest::Parameters(vec![info]) };
            }
            "ABORT" | "ERROR" => {
                self.rest = match fields.items()? {
                    Some(items) => Rest::Causes(tlv::causes(&items)?),
                    None => Rest::Any,
                };
            }
            _ => {}
        }
        Ok(())
    }

    /// The fields of extensions: RECONFIG, ASCONF, AUTH and PAD.
    fn read_extension(&mut self, fields: &mut Fields<'_>, item: &Item) -> Result<()> {
        match item.name.as_str() {
            "RECONFIG" => {
                self.rest = match fields.items()? {
                    Some(items) => Rest::Parameters(tlv::parameters(&items)?),
                    None => Rest::Any,
                };
            }
            "ASCONF" | "ASCONF_ACK" => {
                self.read_number(fields, "serial", 4)?;
                self.rest = match fields.items()? {
                    Some(items) => Rest::Parameters(tlv::parameters(&items)?),
                    None => Rest::Any,
                };
            }
            "AUTH" => {
                let len = fields.number("len", Range { min: 8, max: 65_535 })?;
                self.read_number(fields, "shk_id", 2)?;
                self.read_number(fields, "hmac_id", 2)?;
                self.rest = fields.bytes("hmac")?.map_or(Rest::Any, Rest::Bytes);
                self.len = len.map(|len| len as u16);
            }
            "PAD" => {
                let len = fields.number("len", Range { min: 4, max: 65_535 })?;
                self.rest = fields.bytes("val")?.map_or(Rest::Any, Rest::Bytes);
                self.len = len.map(|len| len as u16);
            }
            _ => {}
        }
        Ok(())
    }

    /// A number of `bytes` bytes at the next fixed offset.
    fn read_number(&mut self, fields: &mut Fields<'_>, name: &'static str, bytes: usize) -> Result<()> {
        let value = fields.number(name, Range::of_bytes(bytes))?;
        self.fixed.push(Fixed { name, bytes, value });
        Ok(())
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

    /// Checks that the script gives every field that an injected chunk needs.
    fn check_complete(&self, item: &Item) -> Result<()> {
        let missing = |what: &str| {
            let what = format!("{what} must be given in a packet to inject ({})", item.name);
            Err(ScriptError::new(item.line, what))
        };
        if self.kind.is_none() {
            return missing("type");
        }
        let generic = matches!(item.name.as_str(), "CHUNK" | "DATA" | "I_DATA" | "PAD" | "AUTH");
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
            Rest::Blocks { nr_gaps: Some(None), .. } => missing("nr_gaps"),
            Rest::Blocks { dups: None, .. } => missing("dups"),
            Rest::Streams { ids: None, .. } => missing("ids"),
            Rest::Any
                if matches!(
                    item.name.as_str(),
                    "INIT" | "INIT_ACK" | "RECONFIG" | "ASCONF" | "ASCONF_ACK"
                ) =>
            {
                missing("the parameters")
            }
            Rest::Any if matches!(item.name.as_str(), "ABORT" | "ERROR") => missing("the causes"),
            Rest::Parameters(tlvs) | Rest::Causes(tlvs) => match tlvs.iter().find(|tlv| !tlv.can_be_sent()) {
                Some(tlv) => missing(&format!("all of {}", tlv.name)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whether this is an AUTH chunk whose HMAC is left open.
    pub(crate) fn is_open_auth(&self) -> bool {
        self.kind == Some(15) && matches!(self.rest, Rest::Any)
    }

    /// Whether this is a HEARTBEAT whose contents are left open.
    pub(crate) fn is_open_heartbeat(&self) -> bool {
        self.kind == Some(4) && matches!(&self.rest, Rest::Parameters(tlvs) if tlvs.iter().all(Tlv::is_open))
    }

    /// The pattern after an open HEARTBEAT of `len` bytes. The length of a PAD is adjusted so that the
    /// packet is as long as with FreeBSD's HEARTBEAT.
    pub(crate) fn beside_heartbeat(&self, len: usize) -> Self {
        let beside = |pad: u16| usize::from(pad) + FREEBSD_HEARTBEAT_LEN - len.next_multiple_of(4);
        let is_pad = self.kind == Some(132);
        Self { len: self.len.map(|pad| if is_pad { beside(pad) as u16 } else { pad }), ..self.clone() }
    }

    /// The chunk type; `None` for `...`.
    pub(crate) fn kind(&self) -> Option<u8> {
        self.kind
    }

    /// A number of the chunk; `None` for `...`.
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
            Rest::Streams { ids, .. } => {
                ids.iter().flatten().for_each(|id| out.extend_from_slice(id));
            }
            Rest::Blocks { gaps, nr_gaps, dups } => {
                let (gaps, dups) = (gaps.as_deref().unwrap_or_default(), dups.as_deref().unwrap_or_default());
                let nr = nr_gaps.iter().flatten().flatten().copied().collect::<Vec<_>>();
                out.extend_from_slice(&(gaps.len() as u16).to_be_bytes());
                if nr_gaps.is_some() {
                    out.extend_from_slice(&(nr.len() as u16).to_be_bytes());
                }
                out.extend_from_slice(&(dups.len() as u16).to_be_bytes());
                if nr_gaps.is_some() {
                    out.extend_from_slice(&[0; 2]);
                }
                for (from, to) in gaps.iter().chain(&nr) {
                    out.extend_from_slice(&from.to_be_bytes());
                    out.extend_from_slice(&to.to_be_bytes());
                }
                dups.iter().for_each(|tsn| out.extend_from_slice(&tsn.to_be_bytes()));
            }
        }
        let copied = matches!(self.rest, Rest::Cookie);
        let len = match self.len {
            // A returned value has its original length.
            Some(len) if !copied => usize::from(len),
            _ => out.len() - start,
        };
        // A length shorter than the contents is a deliberate violation.
        let end = (start + len).max(out.len());
        out.resize(end, 0);
        out[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
        while !(out.len() - start).is_multiple_of(4) {
            out.push(0);
        }
    }

    /// Compares with `chunk`, the bytes of a chunk without padding; returns the difference.
    pub(crate) fn differs(&self, chunk: &[u8], exactness: Exactness) -> Option<String> {
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
                return Some(format!("{}: the chunk is too short", fixed.name));
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
            // INIT and INIT ACK.
            Rest::Parameters(tlvs) if exactness == Exactness::Meaning && matches!(chunk[0], 1 | 2) => {
                tlv::differ_in_meaning(tlvs, rest)
            }
            Rest::Parameters(tlvs) => tlv::differ(tlvs, rest, Found::Parameter),
            Rest::Causes(tlvs) => tlv::differ(tlvs, rest, Found::Cause),
            Rest::Blocks { gaps, nr_gaps, dups } => {
                blocks_differ(gaps.as_deref(), nr_gaps.as_ref().map(Option::as_deref), dups.as_deref(), rest)
            }
            Rest::Streams { ids, len } => {
                let mut found: Vec<_> = rest.chunks(*len).map(<[u8]>::to_vec).collect();
                let mut ids = ids.clone()?;
                if exactness == Exactness::Meaning {
                    for list in [&mut found, &mut ids] {
                        list.sort();
                        list.dedup();
                    }
                }
                (ids != found).then(|| format!("ids: expected {}, got {}", ids_text(&ids), ids_text(&found)))
            }
        }
    }
}

/// The name of a chunk type.
pub(crate) fn name_of(kind: u8) -> String {
    match CHUNKS.iter().find(|(_, known)| *known == kind) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("CHUNK[type={kind:#04x}]"),
    }
}

/// Compares the blocks of a SACK, or of an NR-SACK, which has `nr_gaps`; returns the difference.
fn blocks_differ(
    gaps: Option<&[(u16, u16)]>,
    nr_gaps: Option<Option<&[(u16, u16)]>>,
    dups: Option<&[u32]>,
    rest: &[u8],
) -> Option<String> {
    let counts_len = if nr_gaps.is_some() { 8 } else { 4 };
    let Some((counts, blocks)) = rest.split_at_checked(counts_len) else {
        return Some("gaps: the chunk is too short".to_owned());
    };
    let count = |index: usize| usize::from(u16::from_be_bytes([counts[2 * index], counts[2 * index + 1]]));
    let (gap_count, nr_count, dup_count) =
        if nr_gaps.is_some() { (count(0), count(1), count(2)) } else { (count(0), 0, count(1)) };
    if blocks.len() != 4 * (gap_count + nr_count + dup_count) {
        return Some("gaps: their count does not match the length of the chunk".to_owned());
    }
    let mut words =
        blocks.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    for (name, expected, count) in
        [("gaps", gaps, gap_count), ("nr_gaps", nr_gaps.unwrap_or_default(), nr_count)]
    {
        let found: Vec<_> =
            words.by_ref().take(count).map(|word| ((word >> 16) as u16, word as u16)).collect();
        if let Some(expected) = expected
            && expected != found
        {
            return Some(format!("{name}: expected {}, got {}", gaps_text(expected), gaps_text(&found)));
        }
    }
    let found: Vec<_> = words.collect();
    dups.filter(|dups| *dups != found).map(|dups| format!("dups: expected {dups:?}, got {found:?}"))
}

/// Streams with their numbers, in the script's notation.
fn ids_text(ids: &[Vec<u8>]) -> String {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let text = |id: &Vec<u8>| {
        let (head, tail) = id.split_at(id.len().min(4));
        let parts = head.chunks(2).chain((!tail.is_empty()).then_some(tail));
        format!("{{{}}}", parts.map(|part| number(part).to_string()).collect::<Vec<_>>().join(","))
    };
    format!("[{}]", ids.iter().map(text).collect::<Vec<_>>().join(", "))
}

fn gaps_text(gaps: &[(u16, u16)]) -> String {
    let gaps: Vec<_> = gaps.iter().map(|(from, to)| format!("{from}:{to}")).collect();
    format!("[{}]", gaps.join(","))
}

/// The chunks after a common header, without padding; the rest if it is not a chunk.
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

/// The value of a list field; `None` for `...`.
fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::List(values) if values[..] != [Value::Any] => Some(values),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
