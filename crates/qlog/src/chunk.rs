//! The chunks of a packet.

use braidftp_sctp::Tsn;
use braidftp_sctp::wire::{Chunk, Data, Packet};
use serde_json::{Value, json};

/// All chunks of a packet; one that cannot be decoded is the last.
pub(crate) fn list(packet: &Packet) -> Value {
    packet
        .chunks()
        .map(|chunk| match chunk {
            Ok(chunk) => value(&chunk),
            Err(wrong) => json!({ "chunk_type": "malformed", "error": wrong.to_string() }),
        })
        .collect()
}

fn value(chunk: &Chunk) -> Value {
    match chunk {
        Chunk::Data(data) => data_value(data),
        Chunk::Sack(it) => sack_value("sack", it.cum_tsn_ack, it.a_rwnd, &[&it.gaps], &it.dups),
        Chunk::NrSack(it) => {
            sack_value("nr_sack", it.cum_tsn_ack, it.a_rwnd, &[&it.nr_gaps, &it.gaps], &it.dups)
        }
        Chunk::CompactSack(it) => {
            sack_value("compact_sack", it.cum_tsn_ack, it.a_rwnd, &[&it.gaps], &it.dups)
        }
        Chunk::Init(_) => named("init", chunk),
        Chunk::InitAck(_) => named("init_ack", chunk),
        Chunk::Heartbeat(_) => named("heartbeat", chunk),
        Chunk::HeartbeatAck(_) => named("heartbeat_ack", chunk),
        Chunk::Abort { .. } => named("abort", chunk),
        Chunk::Shutdown { cum_tsn_ack } => {
            json!({ "chunk_type": "shutdown", "cumulative_tsn_ack": cum_tsn_ack.0 })
        }
        Chunk::ShutdownAck => named("shutdown_ack", chunk),
        Chunk::Error(_) => named("error", chunk),
        Chunk::CookieEcho(_) => named("cookie_echo", chunk),
        Chunk::CookieAck => named("cookie_ack", chunk),
        Chunk::ShutdownComplete { .. } => named("shutdown_complete", chunk),
        Chunk::Reconfig(_) => named("re_config", chunk),
        Chunk::ForwardTsn(_) => named("forward_tsn", chunk),
        Chunk::Ecne { .. } => named("ecne", chunk),
        Chunk::Cwr { .. } => named("cwr", chunk),
        Chunk::IForwardTsn(_) => named("i_forward_tsn", chunk),
        Chunk::Auth(_) => named("auth", chunk),
        Chunk::Asconf(_) => named("asconf", chunk),
        Chunk::AsconfAck(_) => named("asconf_ack", chunk),
        Chunk::Dtls(_) => named("dtls", chunk),
        Chunk::Pad(_) => named("pad", chunk),
        Chunk::Unknown { .. } => named("unknown", chunk),
    }
}

/// A chunk of which no diagram is drawn.
fn named(chunk_type: &str, chunk: &Chunk) -> Value {
    json!({ "chunk_type": chunk_type, "length": chunk.padded_len() })
}

fn data_value(data: &Data) -> Value {
    let mut value = json!({
        "chunk_type": "data",
        "tsn": data.tsn.0,
        "stream_id": data.stream.0,
        "length": data.payload.len(),
        "begin": data.begin,
        "end": data.end,
        "unordered": data.unordered,
    });
    match data.interleaved {
        Some(interleaved) => {
            value["chunk_type"] = "i_data".into();
            value["mid"] = interleaved.mid.into();
            value["fsn"] = interleaved.fsn.into();
        }
        None => value["ssn"] = data.ssn.0.into(),
    }
    value
}

/// `gaps`: lists of first and last offsets from the cumulative TSN.
fn sack_value(
    chunk_type: &str,
    cum_tsn: Tsn,
    a_rwnd: u32,
    gaps: &[&[(u16, u16)]],
    duplicates: &[Tsn],
) -> Value {
    let tsn = |offset: u16| cum_tsn.0.wrapping_add(offset.into());
    let blocks: Vec<_> = gaps.concat().into_iter().map(|(first, last)| [tsn(first), tsn(last)]).collect();
    json!({
        "chunk_type": chunk_type,
        "cumulative_tsn_ack": cum_tsn.0,
        "a_rwnd": a_rwnd,
        "gap_ack_blocks": blocks,
        "duplicates": duplicates.len(),
    })
}
