//! The parameters and error causes of a script.

use std::net::IpAddr;

use super::fields::{Fields, Range, chunk_type};
use super::{CHUNKS, Exactness, Pattern, list};
use crate::script::{Item, ScriptError, Value};

type Result<T> = std::result::Result<T, ScriptError>;

/// The length of a header in bytes: a type or code, and a length.
const HEADER_LEN: usize = 4;
const SUPPORTED_ADDRESS_TYPES: u16 = 12;
const SUPPORTED_EXTENSIONS: u16 = 0x8008;

/// The pattern of a parameter or a cause; `None` is `...`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tlv {
    pub(super) name: String,
    kind: Option<u16>,
    /// The length field, if the script or the bytes give it.
    len: Option<u16>,
    value: TlvValue,
}

#[derive(Debug, Clone, PartialEq)]
enum TlvValue {
    Any,
    /// These bytes, and zeros up to the length.
    Bytes(Vec<u8>),
    Parameters(Vec<Tlv>),
    Chunk(Box<Pattern>),
    /// Numbers with their sizes in bytes, and nothing else.
    Numbers(Vec<(usize, Option<u64>)>),
    /// A correlation id, then parameters or causes (RFC 5061 §4.2); `None` matches any.
    Request {
        request: Option<u64>,
        found: Found,
        inner: Option<Vec<Tlv>>,
    },
}

/// What is compared, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Parameter,
    Cause,
}

impl Tlv {
    fn new(item: &Item, kind: u16, value: Option<TlvValue>) -> Self {
        let value = value.unwrap_or(TlvValue::Any);
        let len = match &value {
            TlvValue::Bytes(bytes) => Some((HEADER_LEN + bytes.len()) as u16),
            _ => None,
        };
        Self { name: item.name.clone(), kind: Some(kind), len, value }
    }

    /// Whether neither length nor value is given.
    pub(super) fn is_open(&self) -> bool {
        self.len.is_none() && self.value == TlvValue::Any
    }

    /// Whether everything needed to inject it is given.
    pub(super) fn can_be_sent(&self) -> bool {
        // packetdrill injects a cookie or HEARTBEAT information given as `...` as zeros; here RANDOM
        // likewise.
        let opaque =
            matches!(self.name.as_str(), "STATE_COOKIE" | "HEARTBEAT_INFORMATION" | "PAD" | "RANDOM");
        self.kind.is_some()
            && (opaque
                || match &self.value {
                    TlvValue::Any => false,
                    TlvValue::Bytes(_) | TlvValue::Chunk(_) => true,
                    TlvValue::Parameters(tlvs) => tlvs.iter().all(Self::can_be_sent),
                    TlvValue::Numbers(numbers) => numbers.iter().all(|(_, number)| number.is_some()),
                    TlvValue::Request { request, inner, .. } => {
                        request.is_some()
                            && inner.as_ref().is_some_and(|inner| inner.iter().all(Self::can_be_sent))
                    }
                })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.kind.unwrap_or(0).to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        match &self.value {
            TlvValue::Any => {}
            TlvValue::Bytes(bytes) => out.extend_from_slice(bytes),
            TlvValue::Parameters(tlvs) => encode(tlvs, out),
            TlvValue::Chunk(chunk) => chunk.encode(&Default::default(), out),
            TlvValue::Numbers(numbers) => {
                for (bytes, number) in numbers {
                    out.extend_from_slice(&number.unwrap_or(0).to_be_bytes()[8 - bytes..]);
                }
            }
            TlvValue::Request { request, inner, .. } => {
                out.extend_from_slice(&(request.unwrap_or(0) as u32).to_be_bytes());
                encode(inner.as_deref().unwrap_or_default(), out);
            }
        }
        let len = self.len.map_or(out.len() - start, usize::from);
        let end = (start + len).max(out.len());
        out.resize(end, 0);
        out[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
    }

    /// Like `differs`, but extensions may be listed in any order.
    fn differs_in_meaning(&self, tlv: &[u8]) -> Option<String> {
        let mut found = tlv.to_vec();
        let mut expected = self.clone();
        if self.kind == Some(SUPPORTED_EXTENSIONS) && tlv[..2] == SUPPORTED_EXTENSIONS.to_be_bytes() {
            found[HEADER_LEN..].sort_unstable();
            if let TlvValue::Bytes(kinds) = &mut expected.value {
                kinds.sort_unstable();
            }
        }
        expected.differs(&found, Found::Parameter)
    }

    /// Compares with `tlv`, the bytes without padding; returns the difference.
    fn differs(&self, tlv: &[u8], found: Found) -> Option<String> {
        let kind = u16::from_be_bytes([tlv[0], tlv[1]]);
        if let Some(expected) = self.kind
            && expected != kind
        {
            return Some(match found {
                Found::Parameter => {
                    format!("parameter: expected {} ({expected:#06x}), got {kind:#06x}", self.name)
                }
                Found::Cause => format!("cause: expected {} ({expected}), got {kind}", self.name),
            });
        }
        let value = &tlv[HEADER_LEN..];
        if let Some(len) = self.len
            && usize::from(len) != tlv.len()
        {
            return Some(format!("len of {}: expected {len}, got {}", self.name, tlv.len()));
        }
        match &self.value {
            TlvValue::Any => None,
            TlvValue::Bytes(bytes) => {
                let same = value.starts_with(bytes) && value[bytes.len()..].iter().all(|byte| *byte == 0);
                (!same).then(|| format!("value of {}: expected {bytes:02x?}, got {value:02x?}", self.name))
            }
            TlvValue::Parameters(tlvs) => {
                differ(tlvs, value, Found::Parameter).map(|difference| format!("{}: {difference}", self.name))
            }
            TlvValue::Numbers(numbers) => {
                let wanted: usize = numbers.iter().map(|(bytes, _)| bytes).sum();
                if wanted != value.len() {
                    return Some(format!(
                        "len of {}: expected {}, got {}",
                        self.name,
                        wanted + HEADER_LEN,
                        tlv.len()
                    ));
                }
                let mut at = 0;
                for (bytes, expected) in numbers {
                    let got =
                        value[at..at + bytes].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
                    at += bytes;
                    if let Some(expected) = expected.filter(|expected| *expected != got) {
                        return Some(format!("a number of {}: expected {expected}, got {got}", self.name));
                    }
                }
                None
            }
            TlvValue::Request { request, found, inner } => {
                let Some((id, rest)) = value.split_first_chunk::<4>() else {
                    return Some(format!("correlation_id of {}: missing", self.name));
                };
                let id = u64::from(u32::from_be_bytes(*id));
                if let Some(expected) = request.filter(|expected| *expected != id) {
                    return Some(format!("correlation_id of {}: expected {expected}, got {id}", self.name));
                }
                let difference = differ(inner.as_deref()?, rest, *found)?;
                Some(format!("{}: {difference}", self.name))
            }
            TlvValue::Chunk(chunk) => match super::chunks(value).next() {
                Some(found) => chunk
                    .differs(found, Exactness::Exact)
                    .map(|difference| format!("{}: {difference}", self.name)),
                None => Some(format!("{}: it contains no chunk", self.name)),
            },
        }
    }
}

/// Appends them, each padded except the last.
pub(super) fn encode(tlvs: &[Tlv], out: &mut Vec<u8>) {
    let start = out.len();
    for tlv in tlvs {
        while !(out.len() - start).is_multiple_of(4) {
            out.push(0);
        }
        tlv.encode(out);
    }
}

/// Compares with the parameters or causes in `rest`; returns the difference.
pub(super) fn differ(tlvs: &[Tlv], mut rest: &[u8], found: Found) -> Option<String> {
    let what = match found {
        Found::Parameter => "parameter",
        Found::Cause => "cause",
    };
    for tlv in tlvs {
        if rest.len() < HEADER_LEN {
            return Some(format!("{what}: expected {}, got the end of the chunk", tlv.name));
        }
        let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        if len < HEADER_LEN || len > rest.len() {
            return Some(format!("{what}: its length {len} exceeds the chunk"));
        }
        if let Some(difference) = tlv.differs(&rest[..len], found) {
            return Some(difference);
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    match rest {
        [] => None,
        [high, low, ..] => Some(format!(
            "{what}: expected the end of the chunk, got {:#06x}",
            u16::from_be_bytes([*high, *low])
        )),
        _ => Some(format!("{what}: expected the end of the chunk, got {rest:02x?}")),
    }
}

/// Like `differ`, but in any order, and with or without SUPPORTED_ADDRESS_TYPES, whose absence means all
/// types (RFC 9260 §3.3.2.1.5). Extensions may be listed in any order.
pub(super) fn differ_in_meaning(tlvs: &[Tlv], rest: &[u8]) -> Option<String> {
    let mut found = Vec::new();
    let mut left = rest;
    while left.len() >= HEADER_LEN {
        let len = usize::from(u16::from_be_bytes([left[2], left[3]]));
        if len < HEADER_LEN || len > left.len() {
            return Some(format!("parameter: its length {len} exceeds the chunk"));
        }
        found.push(&left[..len]);
        left = left.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    let kind_of = |found: &[u8]| u16::from_be_bytes([found[0], found[1]]);
    for tlv in tlvs {
        let near = |found: &&[u8]| tlv.kind.is_none_or(|kind| kind == kind_of(found));
        let same = found.iter().position(|found| tlv.differs_in_meaning(found).is_none());
        match same {
            Some(index) => {
                found.remove(index);
            }
            None if tlv.kind == Some(SUPPORTED_ADDRESS_TYPES) => {}
            None => {
                return Some(match found.iter().copied().find(|found| near(found)) {
                    Some(found) => tlv.differs_in_meaning(found).unwrap_or_default(),
                    None => format!("parameter: expected {}, got none", tlv.name),
                });
            }
        }
    }
    found.retain(|found| kind_of(found) != SUPPORTED_ADDRESS_TYPES);
    let first = found.first()?;
    Some(format!("parameter: expected the end of the chunk, got {:#06x}", kind_of(first)))
}

pub(super) fn parameters(items: &[&Item]) -> Result<Vec<Tlv>> {
    items.iter().map(|item| parameter(item)).collect()
}

pub(super) fn causes(items: &[&Item]) -> Result<Vec<Tlv>> {
    items.iter().map(|item| cause(item)).collect()
}

/// The contents of a HEARTBEAT.
pub(super) fn heartbeat_information(item: &Item) -> Result<Tlv> {
    match item.name.as_str() {
        "HEARTBEAT_INFORMATION" => parameter(item),
        _ => Err(ScriptError::new(item.line, "expected HEARTBEAT_INFORMATION")),
    }
}

fn parameter(item: &Item) -> Result<Tlv> {
    let mut fields = Fields::new(item);
    if let Some(kind) = opaque_kind(&item.name).filter(|_| fields.is_any()) {
        return Ok(Tlv::new(item, kind, None));
    }
    for group in [handshake_parameter, reconfig_parameter, auth_or_asconf_parameter] {
        if let Some(tlv) = group(item, &mut fields)? {
            fields.end()?;
            return Ok(tlv);
        }
    }
    Err(ScriptError::new(item.line, format!("unknown parameter `{}`", item.name)))
}

/// The type of a parameter that has only a length and bytes.
fn opaque_kind(name: &str) -> Option<u16> {
    Some(match name {
        "HEARTBEAT_INFORMATION" => 1,
        "STATE_COOKIE" => 7,
        "PAD" => 0x8005,
        _ => return None,
    })
}

/// The parameters of INIT, INIT ACK and HEARTBEAT, and `PARAMETER`, by its number. `None` for another name.
fn handshake_parameter(item: &Item, fields: &mut Fields<'_>) -> Result<Option<Tlv>> {
    Ok(Some(match item.name.as_str() {
        "PARAMETER" => {
            let kind = fields.number("type", Range::of_bytes(2))?;
            let (len, value) = opaque(fields, "val")?;
            Tlv { name: item.name.clone(), kind: kind.map(|kind| kind as u16), len, value }
        }
        "HEARTBEAT_INFORMATION" | "STATE_COOKIE" | "PAD" => {
            let (len, value) = opaque(fields, "val")?;
            Tlv { name: item.name.clone(), kind: opaque_kind(&item.name), len, value }
        }
        "IPV4_ADDRESS" | "IPV6_ADDRESS" => {
            let kind = if item.name == "IPV4_ADDRESS" { 5 } else { 6 };
            let bytes = match (kind, fields.value("addr")?) {
                (_, Value::Any) => None,
                (5, Value::Address(IpAddr::V4(address))) => Some(address.octets().to_vec()),
                (6, Value::Address(IpAddr::V6(address))) => Some(address.octets().to_vec()),
                _ => return fields.error("addr must be an address of this family, or ..."),
            };
            Tlv::new(item, kind, bytes.map(TlvValue::Bytes))
        }
        "UNRECOGNIZED_PARAMETER" => Tlv::new(item, 8, nested(fields, "params")?),
        "COOKIE_PRESERVATIVE" => Tlv::new(item, 9, number(fields, "incr")?),
        "HOSTNAME_ADDRESS" => {
            let bytes = text(fields, "addr")?.map(|mut name| {
                name.push(0);
                TlvValue::Bytes(name)
            });
            Tlv::new(item, 11, bytes)
        }
        "SUPPORTED_ADDRESS_TYPES" => {
            let kind = |value: &Value| match value {
                Value::Number(number) => u16::try_from(*number).ok(),
                Value::Word(word) => match word.as_str() {
                    "IPv4" => Some(5),
                    "IPv6" => Some(6),
                    "HOSTNAME" => Some(11),
                    _ => None,
                },
                _ => None,
            };
            let types = fields.list_of("types", "address types", kind)?;
            Tlv::new(
                item,
                12,
                types
                    .map(|types| TlvValue::Bytes(types.iter().flat_map(|kind| kind.to_be_bytes()).collect())),
            )
        }
        "ECN_CAPABLE" => Tlv::new(item, 0x8000, Some(TlvValue::Bytes(Vec::new()))),
        "FORWARD_TSN_SUPPORTED" => Tlv::new(item, 0xc000, Some(TlvValue::Bytes(Vec::new()))),
        "SUPPORTED_EXTENSIONS" => {
            let types = fields.list_of("types", "chunk types", |value| chunk_type(value, CHUNKS))?;
            Tlv::new(item, 0x8008, types.map(TlvValue::Bytes))
        }
        "ADAPTATION_INDICATION" => Tlv::new(item, 0xc006, number(fields, "adaptation_code_point")?),
        "ZERO_CHECKSUM_ACCEPTABLE" => Tlv::new(item, 0x8001, number(fields, "edmid")?),
        _ => return Ok(None),
    }))
}

/// The parameters of RE-CONFIG (RFC 6525). `None` for another name.
fn reconfig_parameter(item: &Item, fields: &mut Fields<'_>) -> Result<Option<Tlv>> {
    Ok(Some(match item.name.as_str() {
        "OUTGOING_SSN_RESET" => {
            let mut numbers = Vec::new();
            for key in ["req_sn", "resp_sn", "last_tsn"] {
                numbers.push((4, fields.number(key, Range::of_bytes(4))?));
            }
            numbers_and_streams(item, fields, 13, numbers)?
        }
        "INCOMING_SSN_RESET" => {
            let request = fields.number("req_sn", Range::of_bytes(4))?;
            numbers_and_streams(item, fields, 14, vec![(4, request)])?
        }
        "SSN_TSN_RESET" => {
            let request = fields.number("req_sn", Range::of_bytes(4))?;
            Tlv::new(item, 15, Some(TlvValue::Numbers(vec![(4, request)])))
        }
        "RECONFIG_RESPONSE" => {
            let mut numbers = Vec::new();
            for key in ["resp_sn", "result", "sender_next_tsn", "receiver_next_tsn"] {
                if numbers.len() < 2 || fields.is(key) {
                    numbers.push((4, fields.number(key, Range::of_bytes(4))?));
                }
            }
            Tlv::new(item, 16, Some(TlvValue::Numbers(numbers)))
        }
        "ADD_OUTGOING_STREAMS" | "ADD_INCOMING_STREAMS" => {
            let kind = if item.name == "ADD_OUTGOING_STREAMS" { 17 } else { 18 };
            let request = fields.number("req_sn", Range::of_bytes(4))?;
            let count = fields.number("number_of_new_streams", Range::of_bytes(2))?;
            Tlv::new(item, kind, Some(TlvValue::Numbers(vec![(4, request), (2, count), (2, Some(0))])))
        }
        "RECONFIG_REQUEST_GENERIC" => {
            let kind = fields.number("type", Range::of_bytes(2))?;
            let len = fields.number("len", Range { min: HEADER_LEN as u64, max: 65_535 })?;
            let request = fields.number("req_sn", Range::of_bytes(4))?;
            let value = match (request, fields.bytes("val")?) {
                (Some(request), Some(bytes)) => {
                    TlvValue::Bytes([&(request as u32).to_be_bytes()[..], &bytes].concat())
                }
                _ => TlvValue::Any,
            };
            let (kind, len) = (kind.map(|kind| kind as u16), len.map(|len| len as u16));
            Tlv { name: item.name.clone(), kind, len, value }
        }
        _ => return Ok(None),
    }))
}

/// The parameters of RFC 4895 and RFC 5061, which packetdrill knows by number only: named as in the log. `None` for another name.
fn auth_or_asconf_parameter(item: &Item, fields: &mut Fields<'_>) -> Result<Option<Tlv>> {
    Ok(Some(match item.name.as_str() {
        "RANDOM" => {
            let (len, value) = opaque(fields, "val")?;
            Tlv { name: item.name.clone(), kind: Some(0x8002), len, value }
        }
        "CHUNKS" => {
            let types = fields.list_of("types", "chunk types", |value| chunk_type(value, CHUNKS))?;
            Tlv::new(item, 0x8003, types.map(TlvValue::Bytes))
        }
        "HMAC_ALGO" => {
            let ids = fields.numbers("ids")?;
            let bytes = |ids: Vec<u32>| ids.iter().flat_map(|id| (*id as u16).to_be_bytes()).collect();
            Tlv::new(item, 0x8004, ids.map(|ids| TlvValue::Bytes(bytes(ids))))
        }
        "ADD_IP_ADDRESS"
        | "DELETE_IP_ADDRESS"
        | "SET_PRIMARY_ADDRESS"
        | "ERROR_CAUSE_INDICATION"
        | "SUCCESS_INDICATION" => {
            let kind = match item.name.as_str() {
                "ADD_IP_ADDRESS" => 0xc001,
                "DELETE_IP_ADDRESS" => 0xc002,
                "ERROR_CAUSE_INDICATION" => 0xc003,
                "SET_PRIMARY_ADDRESS" => 0xc004,
                _ => 0xc005,
            };
            let request = fields.number("correlation_id", Range::of_bytes(4))?;
            let inner = match fields.items()? {
                None => None,
                Some(items) if kind == 0xc003 => Some(causes(&items)?),
                Some(items) => Some(parameters(&items)?),
            };
            let value = TlvValue::Request { request, found: found_in(kind), inner };
            Tlv::new(item, kind, Some(value))
        }
        _ => return Ok(None),
    }))
}

fn cause(item: &Item) -> Result<Tlv> {
    let mut fields = Fields::new(item);
    let nothing = || Some(TlvValue::Bytes(Vec::new()));
    let tlv = match item.name.as_str() {
        "CAUSE" => {
            let kind = fields.number("code", Range::of_bytes(2))?;
            let (len, value) = opaque(&mut fields, "info")?;
            Tlv { name: item.name.clone(), kind: kind.map(|kind| kind as u16), len, value }
        }
        "INVALID_STREAM_IDENTIFIER" => {
            let sid = fields.number("sid", Range::of_bytes(2))?;
            let bytes = sid.map(|sid| TlvValue::Bytes([(sid as u16).to_be_bytes(), [0; 2]].concat()));
            Tlv { len: Some(8), ..Tlv::new(item, 1, bytes) }
        }
        "MISSING_MANDATORY_PARAMETER" => {
            let types = fields.list_of("types", "parameter types", |value| match value {
                Value::Number(number) => u16::try_from(*number).ok(),
                // The notation of this project's own log.
                Value::Word(word) if word == "STATE_COOKIE" => Some(7),
                _ => None,
            })?;
            let bytes = types.map(|types| {
                let count = (types.len() as u32).to_be_bytes();
                TlvValue::Bytes(
                    count.into_iter().chain(types.iter().flat_map(|kind| kind.to_be_bytes())).collect(),
                )
            });
            Tlv::new(item, 2, bytes)
        }
        "STALE_COOKIE_ERROR" => Tlv { len: Some(8), ..Tlv::new(item, 3, number(&mut fields, "staleness")?) },
        "OUT_OF_RESOURCE" | "OUT_OF_RESOURCES" => Tlv::new(item, 4, nothing()),
        "UNRESOLVABLE_ADDRESS" => {
            let value = match fields.value("param")? {
                Value::Any => None,
                Value::Item(inner) => Some(TlvValue::Parameters(vec![parameter(inner)?])),
                _ => return fields.error("param must be a parameter, or ..."),
            };
            Tlv::new(item, 5, value)
        }
        "UNRECOGNIZED_CHUNK_TYPE" | "UNRECOGNIZED_CHUNK" => {
            let value = match fields.value("chk")? {
                Value::Any => None,
                Value::Item(inner) => Some(TlvValue::Chunk(Box::new(Pattern::read(inner)?))),
                _ => return fields.error("chk must be a chunk, or ..."),
            };
            Tlv::new(item, 6, value)
        }
        "INVALID_MANDATORY_PARAMETER" => Tlv::new(item, 7, nothing()),
        "UNRECOGNIZED_PARAMETERS" => Tlv::new(item, 8, nested(&mut fields, "params")?),
        "NO_USER_DATA" => Tlv { len: Some(8), ..Tlv::new(item, 9, number(&mut fields, "tsn")?) },
        "COOKIE_RECEIVED_WHILE_SHUTDOWN" => Tlv::new(item, 10, nothing()),
        "RESTART_WITH_NEW_ADDRESSES" => Tlv::new(item, 11, nested(&mut fields, "params")?),
        "USER_INITIATED_ABORT" => Tlv::new(item, 12, text(&mut fields, "info")?.map(TlvValue::Bytes)),
        "UNSUPPORTED_HMAC_ID" => {
            let id = fields.number("hmac_id", Range::of_bytes(2))?;
            Tlv::new(item, 0x105, Some(TlvValue::Numbers(vec![(2, id)])))
        }
        "PROTOCOL_VIOLATION" => Tlv::new(item, 13, text(&mut fields, "info")?.map(TlvValue::Bytes)),
        _ => return Err(ScriptError::new(item.line, format!("unknown cause `{}`", item.name))),
    };
    fields.end()?;
    Ok(tlv)
}

/// What follows the correlation id.
fn found_in(kind: u16) -> Found {
    if kind == 0xc003 { Found::Cause } else { Found::Parameter }
}

/// Numbers, and then an optional `sids=[…]`.
fn numbers_and_streams(
    item: &Item,
    fields: &mut Fields<'_>,
    kind: u16,
    mut numbers: Vec<(usize, Option<u64>)>,
) -> Result<Tlv> {
    if fields.is("sids") {
        let Some(sids) = fields.numbers("sids")? else {
            return Ok(Tlv::new(item, kind, None));
        };
        numbers.extend(sids.iter().map(|sid| (2, Some(u64::from(*sid)))));
    }
    Ok(Tlv::new(item, kind, Some(TlvValue::Numbers(numbers))))
}

/// `len=…, val=…`
fn opaque(fields: &mut Fields<'_>, key: &str) -> Result<(Option<u16>, TlvValue)> {
    let len = fields.number("len", Range { min: HEADER_LEN as u64, max: 65_535 })?;
    let value = match fields.bytes(key)? {
        Some(bytes) => {
            fields.expect_room(key, len, HEADER_LEN + bytes.len())?;
            TlvValue::Bytes(bytes)
        }
        None => TlvValue::Any,
    };
    Ok((len.map(|len| len as u16), value))
}

fn number(fields: &mut Fields<'_>, key: &str) -> Result<Option<TlvValue>> {
    let number = fields.number(key, Range::of_bytes(4))?;
    Ok(number.map(|number| TlvValue::Bytes((number as u32).to_be_bytes().to_vec())))
}

fn text(fields: &mut Fields<'_>, key: &str) -> Result<Option<Vec<u8>>> {
    match fields.value(key)? {
        Value::Any => Ok(None),
        Value::Text(text) => Ok(Some(text.clone().into_bytes())),
        _ => fields.error(format_args!("{key} must be a text or ...")),
    }
}

/// Parameters within a parameter or cause.
fn nested(fields: &mut Fields<'_>, key: &str) -> Result<Option<TlvValue>> {
    let value = fields.value(key)?;
    let Some(values) = list(value) else {
        return match value {
            Value::Any | Value::List(_) => Ok(None),
            _ => fields.error(format_args!("{key} must be a list of parameters, or ...")),
        };
    };
    let mut tlvs = Vec::new();
    for value in values {
        let Value::Item(item) = value else {
            return fields.error(format_args!("{key} must be a list of parameters, or ..."));
        };
        tlvs.push(parameter(item)?);
    }
    Ok(Some(TlvValue::Parameters(tlvs)))
}
