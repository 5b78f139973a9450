//! ASCONF and ASCONF-ACK (RFC 5061 §4.1, §4.2): requests to change an endpoint's addresses, and their
//! results. `association` decides whether a change is permitted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{BufMut, Bytes, BytesMut};

use super::cause::{self, Cause};
use super::{Parameter, Tlv, WireError, next_tlv, padded, param, put_padding, put_tlv_header, u32_at};
use crate::ids::Tsn;

/// Bytes of a request or response before its contents.
const HEADER_LEN: usize = Tlv::HEADER_LEN + 4;

/// An ASCONF chunk (RFC 5061 §4.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asconf {
    /// Its serial number.
    pub serial: Tsn,
    /// An address by which the receiver knows the sender; unspecified if the sender does not know one.
    /// `None`: a host name, which is ignored.
    pub address: Option<IpAddr>,
    /// The requested changes in order.
    pub requests: Vec<Request>,
}

/// A requested change (RFC 5061 §4.2.1, §4.2.2, §4.2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The correlation ID.
    pub correlation: u32,
    /// The change.
    pub change: Change,
}

/// A change. An unspecified address stands for the source of the packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// 0xC001: add this address of the sender.
    Add(IpAddr),
    /// 0xC002: delete this address; unspecified: all except the source of the packet.
    Delete(IpAddr),
    /// 0xC004: use this address as primary.
    SetPrimary(IpAddr),
    /// One of these without an address, or another parameter.
    Other {
        /// The parameter type.
        kind: u16,
        /// The value after the correlation ID.
        value: Bytes,
    },
}

/// An ASCONF-ACK chunk (RFC 5061 §4.1.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsconfAck {
    /// The serial number of the acknowledged ASCONF.
    pub serial: Tsn,
    /// The results of requests; may be omitted if all were successful.
    pub responses: Vec<Response>,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The request's correlation ID.
    pub correlation: u32,
    /// The result.
    pub outcome: Outcome,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// 0xC005: successful.
    Success,
    /// 0xC003: failed with these causes.
    Error(Vec<Cause>),
    /// Any other parameter.
    Other {
        /// The parameter type.
        kind: u16,
        /// The value after the correlation ID.
        value: Bytes,
    },
}

impl Change {
    /// Add IP Address.
    pub const ADD: u16 = 0xc001;
    /// Delete IP Address.
    pub const DELETE: u16 = 0xc002;
    /// Set Primary IP Address.
    pub const SET_PRIMARY: u16 = 0xc004;

    /// The parameter type.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Add(_) => Self::ADD,
            Self::Delete(_) => Self::DELETE,
            Self::SetPrimary(_) => Self::SET_PRIMARY,
            Self::Other { kind, .. } => *kind,
        }
    }
}

impl Request {
    /// The length of the parameter without padding.
    pub fn encoded_len(&self) -> usize {
        HEADER_LEN
            + match &self.change {
                Change::Add(ip) | Change::Delete(ip) | Change::SetPrimary(ip) => address_len(*ip),
                Change::Other { value, .. } => value.len(),
            }
    }

    /// The encoded parameter without padding, for quotation in an error cause.
    pub(crate) fn quoted(&self) -> Bytes {
        let mut raw = BytesMut::new();
        self.encode(&mut raw);
        raw.truncate(self.encoded_len());
        raw.freeze()
    }

    fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        put_tlv_header(out, self.change.kind(), self.encoded_len());
        out.put_u32(self.correlation);
        match &self.change {
            Change::Add(ip) | Change::Delete(ip) | Change::SetPrimary(ip) => {
                Parameter::Address(*ip).encode(out);
            }
            Change::Other { value, .. } => out.put_slice(value),
        }
        put_padding(out, start);
    }
}

impl Asconf {
    /// The chunk type.
    pub const KIND: u8 = 0xc1;

    /// The length of the chunk without padding.
    pub fn encoded_len(&self) -> usize {
        HEADER_LEN
            + self.address.map_or(Tlv::HEADER_LEN, address_len)
            + unpadded_at_end(self.requests.iter().map(Request::encoded_len))
    }

    /// A chunk with an inconsistent length is dropped completely (compare CVE-2022-46871).
    pub(super) fn decode(datagram: &Bytes, raw: &[u8]) -> Result<Self, WireError> {
        let wrong = WireError::ChunkLength { kind: Self::KIND, len: raw.len() };
        let body = raw.get(HEADER_LEN..).ok_or(wrong)?;
        let tlv_error = |(kind, len)| WireError::ParameterLength { kind, len };
        let (first, mut rest) = next_tlv(body).ok_or(wrong)?.map_err(tlv_error)?;
        let address = match (first.kind, param::decode(datagram, &first)?) {
            (_, Parameter::Address(ip)) => Some(ip),
            //= specs/rfc5061.txt#section-4.1.1
            //# Note: The host name address MUST NOT be sent and MUST be ignored if
            //# received in any ASCONF message.
            (Parameter::HOST_NAME, _) if first.raw.len() == Tlv::HEADER_LEN => None,
            //= specs/rfc5061.txt#section-4.1.1
            //# This parameter MUST be present in every ASCONF message, i.e.
            //# it is a mandatory TLV parameter.
            (kind, _) => return Err(WireError::ParameterLength { kind, len: first.raw.len() }),
        };
        let mut requests = Vec::new();
        while let Some(next) = next_tlv(rest) {
            let (tlv, behind) = next.map_err(tlv_error)?;
            let (correlation, value) = split(&tlv)?;
            let change = match (tlv.kind, address_in(value)) {
                (Change::ADD, Some(ip)) => Change::Add(ip),
                (Change::DELETE, Some(ip)) => Change::Delete(ip),
                (Change::SET_PRIMARY, Some(ip)) => Change::SetPrimary(ip),
                (kind, _) => Change::Other { kind, value: datagram.slice_ref(value) },
            };
            requests.push(Request { correlation, change });
            rest = behind;
        }
        Ok(Self { serial: Tsn(u32_at(raw, 4)), address, requests })
    }

    pub(super) fn encode_body(&self, out: &mut BytesMut) {
        out.put_u32(self.serial.0);
        match self.address {
            Some(ip) => Parameter::Address(ip).encode(out),
            None => Parameter::HostName(Bytes::new()).encode(out),
        }
        self.requests.iter().for_each(|request| request.encode(out));
    }
}

impl AsconfAck {
    /// The chunk type.
    pub const KIND: u8 = 0x80;

    const ERROR: u16 = 0xc003;
    const SUCCESS: u16 = 0xc005;

    /// The length of the chunk without padding.
    pub fn encoded_len(&self) -> usize {
        HEADER_LEN + unpadded_at_end(self.responses.iter().map(Response::encoded_len))
    }

    pub(super) fn decode(datagram: &Bytes, raw: &[u8]) -> Result<Self, WireError> {
        let wrong = WireError::ChunkLength { kind: Self::KIND, len: raw.len() };
        let mut rest = raw.get(HEADER_LEN..).ok_or(wrong)?;
        let mut responses = Vec::new();
        while let Some(next) = next_tlv(rest) {
            let (tlv, behind) = next.map_err(|(kind, len)| WireError::ParameterLength { kind, len })?;
            let (correlation, value) = split(&tlv)?;
            let outcome = match tlv.kind {
                Self::SUCCESS if value.is_empty() => Outcome::Success,
                // A malformed error is still a refusal.
                Self::ERROR => Outcome::Error(cause::decode_all(datagram, value).unwrap_or_default()),
                kind => Outcome::Other { kind, value: datagram.slice_ref(value) },
            };
            responses.push(Response { correlation, outcome });
            rest = behind;
        }
        Ok(Self { serial: Tsn(u32_at(raw, 4)), responses })
    }

    pub(super) fn encode_body(&self, out: &mut BytesMut) {
        out.put_u32(self.serial.0);
        self.responses.iter().for_each(|response| response.encode(out));
    }
}

impl Response {
    /// The length of the parameter without padding.
    pub fn encoded_len(&self) -> usize {
        HEADER_LEN
            + match &self.outcome {
                Outcome::Success => 0,
                Outcome::Error(causes) => cause::encoded_len(causes),
                Outcome::Other { value, .. } => value.len(),
            }
    }

    fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        let kind = match &self.outcome {
            Outcome::Success => AsconfAck::SUCCESS,
            Outcome::Error(_) => AsconfAck::ERROR,
            Outcome::Other { kind, .. } => *kind,
        };
        put_tlv_header(out, kind, self.encoded_len());
        out.put_u32(self.correlation);
        match &self.outcome {
            Outcome::Success => {}
            Outcome::Error(causes) => causes.iter().for_each(|cause| cause.encode(out)),
            Outcome::Other { value, .. } => out.put_slice(value),
        }
        put_padding(out, start);
    }
}

fn address_len(ip: IpAddr) -> usize {
    Parameter::Address(ip).encoded_len()
}

/// The length of parameters in a chunk: all padded except the last (RFC 9260 §3.2).
fn unpadded_at_end(lens: impl Iterator<Item = usize>) -> usize {
    let (before, last) = lens.fold((0, 0), |(before, last), len| (before + padded(last), len));
    before + last
}

/// Splits a request or response into the correlation ID and the rest.
fn split<'a>(tlv: &Tlv<'a>) -> Result<(u32, &'a [u8]), WireError> {
    if tlv.raw.len() < HEADER_LEN {
        return Err(WireError::ParameterLength { kind: tlv.kind, len: tlv.raw.len() });
    }
    Ok((u32_at(tlv.raw, Tlv::HEADER_LEN), &tlv.raw[HEADER_LEN..]))
}

/// Returns the address parameter, if there is nothing else.
fn address_in(value: &[u8]) -> Option<IpAddr> {
    let Some(Ok((tlv, rest))) = next_tlv(value) else { return None };
    match (tlv.kind, rest) {
        (Parameter::IPV4_ADDRESS, []) => {
            Some(Ipv4Addr::from(<[u8; 4]>::try_from(&tlv.raw[Tlv::HEADER_LEN..]).ok()?).into())
        }
        (Parameter::IPV6_ADDRESS, []) => {
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(&tlv.raw[Tlv::HEADER_LEN..]).ok()?).into())
        }
        _ => None,
    }
}
