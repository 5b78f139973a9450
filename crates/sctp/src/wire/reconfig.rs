//! The RE-CONFIG chunk (RFC 6525 §3, §4): requests to reset and add streams, and their responses.
//! `association` validates combinations and meaning.

use bytes::{Bytes, BytesMut};

use super::unrecognized::Unrecognized;
use super::{Tlv, WireError, padded, param, put_padding, put_tlv_header, u16_at, u32_at};
use crate::ids::{RequestNumber, StreamId, Tsn};

/// The chunk type of RE-CONFIG.
pub(super) const KIND: u8 = 130;

/// A parameter of a RE-CONFIG chunk (RFC 6525 §4), or an unknown one as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconfig {
    /// §4.1: resets outgoing streams of the sender; all of them if none is listed.
    OutgoingReset {
        /// The request's number.
        request: RequestNumber,
        /// The number of the Incoming SSN Reset Request that this one answers, or of the last request
        /// received.
        response: RequestNumber,
        /// The last TSN that the sender assigned.
        last_tsn: Tsn,
        /// The streams.
        streams: Vec<StreamId>,
    },
    /// §4.2: asks the receiver to reset its outgoing streams; all of them if none is listed.
    IncomingReset {
        /// The request's number.
        request: RequestNumber,
        /// The streams.
        streams: Vec<StreamId>,
    },
    /// §4.3: resets all SSNs and TSNs.
    AssociationReset {
        /// The request's number.
        request: RequestNumber,
    },
    /// §4.4
    Response {
        /// The number of the request that it answers.
        response: RequestNumber,
        /// The result.
        result: ReconfigResult,
        /// In response to an SSN/TSN Reset Request: the next TSNs.
        next_tsns: Option<NextTsns>,
    },
    /// §4.5: adds outgoing streams of the sender.
    AddOutgoing {
        /// The request's number.
        request: RequestNumber,
        /// The number of streams to add.
        count: u16,
    },
    /// §4.6: asks the receiver to add outgoing streams.
    AddIncoming {
        /// The request's number.
        request: RequestNumber,
        /// The number of streams to add.
        count: u16,
    },
    /// Any other parameter, including its header; its high bits determine its treatment (RFC 9260
    /// §3.2.1).
    Unknown {
        /// The parameter type.
        kind: u16,
        /// The complete parameter as received.
        raw: Bytes,
    },
}

/// The optional fields of a Re-configuration Response (RFC 6525 §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextTsns {
    /// The TSN that the sender of the response uses next.
    pub sender: Tsn,
    /// The TSN that the receiver of the response must use next.
    pub receiver: Tsn,
}

/// The results of RFC 6525 §4.4, Table 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconfigResult {
    /// 0: successful.
    NothingToDo,
    /// 1
    Performed,
    /// 2
    Denied,
    /// 3
    WrongSsn,
    /// 4
    RequestInProgress,
    /// 5
    BadSequenceNumber,
    /// 6: will be performed; repeat the request.
    InProgress,
    /// Any other result.
    Unknown(u32),
}

impl ReconfigResult {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        match self {
            Self::NothingToDo => 0,
            Self::Performed => 1,
            Self::Denied => 2,
            Self::WrongSsn => 3,
            Self::RequestInProgress => 4,
            Self::BadSequenceNumber => 5,
            Self::InProgress => 6,
            Self::Unknown(code) => code,
        }
    }

    pub(super) fn from_code(code: u32) -> Self {
        match code {
            0 => Self::NothingToDo,
            1 => Self::Performed,
            2 => Self::Denied,
            3 => Self::WrongSsn,
            4 => Self::RequestInProgress,
            5 => Self::BadSequenceNumber,
            6 => Self::InProgress,
            code => Self::Unknown(code),
        }
    }
}

impl Reconfig {
    const OUTGOING_RESET: u16 = 13;
    const INCOMING_RESET: u16 = 14;
    const ASSOCIATION_RESET: u16 = 15;
    const RESPONSE: u16 = 16;
    const ADD_OUTGOING: u16 = 17;
    const ADD_INCOMING: u16 = 18;

    /// The parameter type.
    pub fn kind(&self) -> u16 {
        match self {
            Self::OutgoingReset { .. } => Self::OUTGOING_RESET,
            Self::IncomingReset { .. } => Self::INCOMING_RESET,
            Self::AssociationReset { .. } => Self::ASSOCIATION_RESET,
            Self::Response { .. } => Self::RESPONSE,
            Self::AddOutgoing { .. } => Self::ADD_OUTGOING,
            Self::AddIncoming { .. } => Self::ADD_INCOMING,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The length of the parameter without padding.
    pub fn encoded_len(&self) -> usize {
        match self {
            //= specs/rfc6525.txt#section-4.1
            //# This field holds the length in bytes of the parameter; the value
            //# MUST be 16 + 2 * N, where N is the number of stream numbers
            //# listed.
            Self::OutgoingReset { streams, .. } => 16 + 2 * streams.len(),
            //= specs/rfc6525.txt#section-4.2
            //# This field holds the length in bytes of the parameter; the value
            //# MUST be 8 + 2 * N.
            Self::IncomingReset { streams, .. } => 8 + 2 * streams.len(),
            //= specs/rfc6525.txt#section-4.3
            //# This field holds the length in bytes of the parameter; the value
            //# MUST be 8.
            Self::AssociationReset { .. } => 8,
            //= specs/rfc6525.txt#section-4.4
            //# This field holds the length in bytes of the parameter; the value
            //# MUST be 12 if the optional fields are not present and 20
            //# otherwise.
            Self::Response { next_tsns: None, .. } => 12,
            Self::Response { next_tsns: Some(_), .. } => 20,
            //= specs/rfc6525.txt#section-4.5
            //# This field holds the length in bytes of the parameter; the value
            //# MUST be 12.
            //= specs/rfc6525.txt#section-4.6
            //# This field holds the length in bytes of the parameter; the value
            //# MUST be 12.
            Self::AddOutgoing { .. } | Self::AddIncoming { .. } => 12,
            Self::Unknown { raw, .. } => raw.len(),
        }
    }

    /// The treatment of an unknown parameter by the high bits of its type; `None` if it is known.
    pub fn unrecognized(&self) -> Option<Unrecognized> {
        match self {
            Self::Unknown { kind, .. } => Some(Unrecognized::of_parameter(*kind)),
            _ => None,
        }
    }

    /// Appends the parameter without padding.
    fn encode(&self, out: &mut BytesMut) {
        if let Self::Unknown { raw, .. } = self {
            return out.extend_from_slice(raw);
        }
        put_tlv_header(out, self.kind(), self.encoded_len());
        let number = |out: &mut BytesMut, number: u32| out.extend_from_slice(&number.to_be_bytes());
        let list = |out: &mut BytesMut, streams: &[StreamId]| {
            streams.iter().for_each(|stream| out.extend_from_slice(&stream.0.to_be_bytes()));
        };
        match self {
            Self::OutgoingReset { request, response, last_tsn, streams } => {
                number(out, request.0);
                number(out, response.0);
                number(out, last_tsn.0);
                list(out, streams);
            }
            Self::IncomingReset { request, streams } => {
                number(out, request.0);
                list(out, streams);
            }
            Self::AssociationReset { request } => number(out, request.0),
            Self::Response { response, result, next_tsns } => {
                number(out, response.0);
                number(out, result.code());
                //= specs/rfc6525.txt#section-4.4
                //# Either both optional fields (Sender's Next TSN and Receiver's Next
                //# TSN) MUST be present, or no field.
                if let Some(NextTsns { sender, receiver }) = next_tsns {
                    number(out, sender.0);
                    number(out, receiver.0);
                }
            }
            Self::AddOutgoing { request, count } | Self::AddIncoming { request, count } => {
                number(out, request.0);
                //= specs/rfc6525.txt#section-4.5
                //# It SHOULD be set to 0 by the sender and
                //# ignored by the receiver.
                //= specs/rfc6525.txt#section-4.6
                //# It SHOULD be set to 0 by the sender and
                //# ignored by the receiver.
                number(out, u32::from(*count) << 16);
            }
            Self::Unknown { .. } => {}
        }
    }
}

/// Decodes the parameters of a chunk in order, up to and including an unknown one that ends the
/// processing of its chunk.
pub(super) fn decode(datagram: &Bytes, rest: &[u8]) -> Result<Vec<Reconfig>, WireError> {
    param::decode_list(rest, |tlv| decode_one(datagram, tlv), Reconfig::unrecognized)
}

fn decode_one(datagram: &Bytes, tlv: &Tlv<'_>) -> Result<Reconfig, WireError> {
    let value = tlv.value();
    let wrong = WireError::ParameterLength { kind: tlv.kind, len: tlv.raw.len() };
    let request = |at| RequestNumber(u32_at(value, at));
    let list = |from: usize| value[from..].chunks_exact(2).map(|id| StreamId(u16_at(id, 0))).collect();
    Ok(match (tlv.kind, value.len()) {
        (Reconfig::OUTGOING_RESET, len @ 12..) if len % 2 == 0 => Reconfig::OutgoingReset {
            request: request(0),
            response: request(4),
            last_tsn: Tsn(u32_at(value, 8)),
            streams: list(12),
        },
        (Reconfig::INCOMING_RESET, len @ 4..) if len % 2 == 0 => {
            Reconfig::IncomingReset { request: request(0), streams: list(4) }
        }
        (Reconfig::ASSOCIATION_RESET, 4) => Reconfig::AssociationReset { request: request(0) },
        (Reconfig::RESPONSE, len @ (8 | 16)) => Reconfig::Response {
            response: request(0),
            result: ReconfigResult::from_code(u32_at(value, 4)),
            next_tsns: (len == 16)
                .then(|| NextTsns { sender: Tsn(u32_at(value, 8)), receiver: Tsn(u32_at(value, 12)) }),
        },
        (Reconfig::ADD_OUTGOING, 8) => Reconfig::AddOutgoing { request: request(0), count: u16_at(value, 4) },
        (Reconfig::ADD_INCOMING, 8) => Reconfig::AddIncoming { request: request(0), count: u16_at(value, 4) },
        (Reconfig::OUTGOING_RESET..=Reconfig::ADD_INCOMING, _) => return Err(wrong),
        (kind, _) => Reconfig::Unknown { kind, raw: datagram.slice_ref(tlv.raw) },
    })
}

/// The length of `parameters` in a chunk: all padded except the last (RFC 9260 §3.2).
pub(super) fn encoded_len(parameters: &[Reconfig]) -> usize {
    match parameters.split_last() {
        None => 0,
        Some((last, others)) => {
            others.iter().map(|p| padded(p.encoded_len())).sum::<usize>() + last.encoded_len()
        }
    }
}

pub(super) fn encode(parameters: &[Reconfig], out: &mut BytesMut) {
    for parameter in parameters {
        let start = out.len();
        parameter.encode(out);
        put_padding(out, start);
    }
}
