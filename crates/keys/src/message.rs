//! The user messages of key management (draft-porfiri-tsvwg-sctp-dtls-handshake §4): a type byte, and TLS
//! records or a control word.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

/// The maximum length of a message in bytes. A TLS flight is one message, most of which is the
/// certificate chain.
pub(crate) const MESSAGE_MAX: usize = 1 << 16;

/// The bit of control messages.
const CONTROL: u8 = 0x80;
/// The bits of the epoch.
const EPOCH: u8 = 0x7f;

/// The contents of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// TLS records.
    Records(&'a [u8]),
    /// The server has all keys, and only accepts protected packets.
    ProtectionEstablished,
    /// The server asks for a handshake for new keys. Only with
    /// [`Method::AtOnce`](crate::Method::AtOnce).
    KeysWanted,
    /// An unknown control word.
    Unknown,
}

/// A key management message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// The seven low bits of the epoch of its keys.
    pub(crate) epoch_bits: u8,
    pub(crate) body: Body<'a>,
}

/// Why a message is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageError {
    /// The message is too short.
    Truncated,
    /// The message is longer than the limit of a TLS flight.
    TooLong,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a message about keys ends before it says anything"),
            Self::TooLong => write!(f, "a message about keys is longer than {MESSAGE_MAX} bytes"),
        }
    }
}

impl<'a> Message<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        if bytes.len() > MESSAGE_MAX {
            return Err(MessageError::TooLong);
        }
        let (first, payload) = bytes.split_first().ok_or(MessageError::Truncated)?;
        let body = match (first & CONTROL, payload.first()) {
            (_, None) => return Err(MessageError::Truncated),
            (0, Some(_)) => Body::Records(payload),
            (_, Some(0x01)) => Body::ProtectionEstablished,
            (_, Some(0xf0)) => Body::KeysWanted,
            (_, Some(_)) => Body::Unknown,
        };
        Ok(Self { epoch_bits: first & EPOCH, body })
    }

    pub(crate) fn encode(epoch: u64, body: Body<'_>) -> Bytes {
        let epoch_bits = epoch as u8 & EPOCH;
        let mut out = BytesMut::new();
        match body {
            Body::Records(records) => {
                out.put_u8(epoch_bits);
                out.put_slice(records);
            }
            Body::ProtectionEstablished => out.put_slice(&[CONTROL | epoch_bits, 0x01]),
            Body::KeysWanted => out.put_slice(&[CONTROL | epoch_bits, 0xf0]),
            Body::Unknown => unreachable!("an unknown message is never sent"),
        }
        out.freeze()
    }

    /// Whether the message is about the keys of this epoch.
    pub(crate) fn is_of(&self, epoch: u64) -> bool {
        epoch as u8 & EPOCH == self.epoch_bits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_laid_out_as_the_draft_has_them() {
        assert_eq!(Message::encode(3, Body::Records(b"\x16\x03"))[..], *b"\x03\x16\x03");
        assert_eq!(Message::encode(131, Body::ProtectionEstablished)[..], *b"\x83\x01");
        assert_eq!(Message::encode(4, Body::KeysWanted)[..], *b"\x84\xf0");
        let unknown = Message::parse(b"\xff\x7fmore").unwrap();
        assert_eq!(unknown, Message { epoch_bits: 127, body: Body::Unknown });
        assert!(unknown.is_of(255) && !unknown.is_of(126));
    }

    #[test]
    fn empty_and_oversized_parameters_are_rejected() {
        for empty in [&b""[..], b"\x03", b"\x83"] {
            assert_eq!(Message::parse(empty), Err(MessageError::Truncated));
        }
        let mut long = vec![3; MESSAGE_MAX];
        assert!(Message::parse(&long).is_ok());
        long.push(0);
        assert_eq!(Message::parse(&long), Err(MessageError::TooLong));
    }

    proptest! {
        #[test]
        fn decode_is_the_inverse_of_encode(epoch: u64, records in proptest::collection::vec(any::<u8>(), 1..300)) {
            for body in [Body::Records(&records), Body::ProtectionEstablished, Body::KeysWanted] {
                let bytes = Message::encode(epoch, body);
                let read = Message::parse(&bytes).unwrap();
                prop_assert_eq!(read.body, body);
                prop_assert!(read.is_of(epoch));
            }
        }
    }
}
