//! Layouts of the small control chunks: HEARTBEAT and HEARTBEAT ACK (RFC 9260 §3.3.5, §3.3.6) and SHUTDOWN
//! (§3.3.8).

use bytes::{Bytes, BytesMut};

use super::{Chunk, Tlv, WireError, next_tlv, put_tlv_header};

/// The length of a SHUTDOWN chunk.
pub(super) const SHUTDOWN_LEN: usize = Chunk::HEADER_LEN + 4;

/// The type of the Heartbeat Info parameter.
const HEARTBEAT_INFO: u16 = 1;

/// The length of a HEARTBEAT with `info`, without padding.
pub(super) fn heartbeat_len(info: &Bytes) -> usize {
    Chunk::HEADER_LEN + Tlv::HEADER_LEN + info.len()
}

/// The value of the Heartbeat Info parameter, which is the only content of a HEARTBEAT; `None` if anything
/// follows.
pub(super) fn decode_heartbeat(datagram: &Bytes, raw: &[u8]) -> Result<Option<Bytes>, WireError> {
    let mut rest = &raw[Chunk::HEADER_LEN..];
    let mut info = None;
    let mut others = 0;
    while let Some(next) = next_tlv(rest) {
        let (tlv, behind) = next.map_err(|(kind, len)| WireError::ParameterLength { kind, len })?;
        if info.is_some() {
            others += 1;
        } else if tlv.kind == HEARTBEAT_INFO {
            info = Some(datagram.slice_ref(tlv.value()));
        } else {
            break;
        }
        rest = behind;
    }
    match info {
        Some(info) => Ok(Some(info).filter(|_| others == 0)),
        None => Err(WireError::ChunkLength { kind: raw[0], len: raw.len() }),
    }
}

//= specs/rfc9260.txt#section-3.3.6
//# Heartbeat Information: variable length This field MUST contain the
//# Heartbeat Info parameter (as defined in Section 3.3.5) of the
//# Heartbeat Request to which this Heartbeat Acknowledgement is
//# responding.
pub(super) fn encode_heartbeat_info(info: &Bytes, out: &mut BytesMut) {
    put_tlv_header(out, HEARTBEAT_INFO, Tlv::HEADER_LEN + info.len());
    out.extend_from_slice(info);
}
