//! Opens protected packets at the endpoint (draft-ietf-tsvwg-sctp-dtls-chunk §5.2), before anything else is
//! read from them. Their content is then processed like any packet.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::Time;
use bytes::{Bytes, BytesMut};

use super::Endpoint;
use crate::cookie::Contents;
use crate::dtls::OpenError;
use crate::ids::{AssociationId, VerificationTag};
use crate::route::Route;
use crate::wire::{Dtls, Header, Kinds, Packet, Record};

/// The size of a block in bytes.
const BLOCK_BYTES: usize = 1 << 16;
/// The maximum number of blocks: 2 MiB, however long their contents are held.
const BLOCKS_MAX: usize = 32;

/// Memory for opened packets, reused when nothing of a block is held any more. If all blocks are held, a
/// packet gets its own memory, so that few held packets never keep the memory of many.
#[derive(Debug, Default)]
pub(super) struct Pool {
    blocks: Vec<BytesMut>,
    /// The block being filled.
    current: usize,
    own: BytesMut,
}

impl Pool {
    /// Returns an empty buffer with room for this many bytes.
    pub(super) fn room(&mut self, bytes: usize) -> &mut BytesMut {
        let next = if self.current + 1 < self.blocks.len() { self.current + 1 } else { 0 };
        // The first block before the next one: the fewer blocks take turns, the more of them are in the cache.
        for nth in [self.current, 0, next] {
            self.current = nth;
            if let Some(block) = self.blocks.get_mut(nth)
                && (block.capacity() >= bytes || block.try_reclaim(bytes))
            {
                return &mut self.blocks[nth];
            }
        }
        if self.blocks.len() < BLOCKS_MAX && bytes <= BLOCK_BYTES {
            self.current = self.blocks.len();
            self.blocks.push(BytesMut::with_capacity(BLOCK_BYTES));
            return &mut self.blocks[self.current];
        }
        self.own = BytesMut::with_capacity(bytes);
        &mut self.own
    }
}

/// The maximum number of final chunks kept.
const FINAL_CHUNKS_MAX: usize = 256;
/// How long a final chunk is kept: several retransmissions of SHUTDOWN ACK by a peer that did not
/// receive it.
const FINAL_CHUNK_LIFE: Duration = Duration::from_secs(60);

/// The protected SHUTDOWN COMPLETEs of closed associations. A peer that missed it retransmits SHUTDOWN
/// ACK and accepts protected responses only. The keys are gone, but the same record can be sent again,
/// and no peer accepts it twice.
#[derive(Debug, Default)]
pub(super) struct FinalChunks(VecDeque<FinalChunk>);

#[derive(Debug)]
struct FinalChunk {
    until: Time,
    /// The tag in the peer's packets.
    tag: VerificationTag,
    header: Header,
    chunk: Dtls,
}

impl FinalChunks {
    /// Keeps the final packet of the association with this local tag.
    pub(super) fn keep(&mut self, now: Time, tag: VerificationTag, packet: &Bytes) {
        let Ok(packet) = Packet::decode(packet.clone()) else { return };
        let Some(Record { is_restart, bytes }) = packet.dtls() else { return };
        // A copy, so that the packet buffer is not kept.
        let chunk = Dtls { is_restart, record: Bytes::copy_from_slice(bytes) };
        if self.0.len() >= FINAL_CHUNKS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(FinalChunk { until: now + FINAL_CHUNK_LIFE, tag, header: packet.header, chunk });
    }

    /// Returns the final chunk of the association with this tag.
    pub(super) fn of(&mut self, now: Time, tag: VerificationTag) -> Option<(Header, Dtls)> {
        while self.0.front().is_some_and(|word| word.until <= now) {
            self.0.pop_front();
        }
        let word = self.0.iter().find(|word| word.tag == tag)?;
        Some((word.header, word.chunk.clone()))
    }
}

impl Endpoint {
    /// Returns the contents of a packet with a DTLS chunk; the packet itself if its association is not
    /// protected; `None` if it must be discarded.
    pub(super) fn unprotect(&mut self, route: Route, packet: Packet, kinds: Kinds) -> Option<Packet> {
        let Some(id) = self.protector(route, &packet) else { return Some(packet) };
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
        //# Upon receipt of an SCTP packet in which a DTLS chunk is bundled with any
        //# other chunk, the entire packet MUST be silently discarded.
        if !kinds.is_dtls_alone() {
            return None;
        }
        let record = packet.dtls()?;
        let slot = self.table.get_mut(id)?;
        let out = self.opened.room(Header::LEN + record.bytes.len());
        out.extend_from_slice(&[0; Header::LEN]);
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
        //# If the Chunk Protection Operator experiences a non-critical error,
        //# it MUST NOT abort the association.
        let opened = slot.association.unprotect(record, out);
        // Discards the rest of a packet that was not opened.
        let datagram: Bytes = out.split().freeze();
        // The association may need new keys, or have exceeded the limit of forged records.
        self.table.ready(id);
        if opened.is_err_and(|error| error != OpenError::Replayed) {
            self.counters.unopened_records += 1;
        }
        opened.ok()?;
        packet.opened(datagram)
    }

    /// Returns the association whose keys open a packet. The source address does not matter: the peer is
    /// whoever has the keys. A restarted peer has a tag that no association has yet.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
    //# * The lookup address MUST NOT be used.
    fn protector(&self, route: Route, packet: &Packet) -> Option<AssociationId> {
        let header = &packet.header;
        let by_tag = self.table.by_tag(header);
        let is_restart = || packet.dtls().is_some_and(|record| record.is_restart);
        let by_address = || {
            let slot = self.table.by_address(header.destination_port, header.source_port, route.peer)?;
            is_restart().then_some(slot)
        };
        by_tag.or_else(by_address).filter(|slot| slot.association.opens_records()).map(|slot| slot.id)
    }

    /// Whether a COOKIE ECHO may affect the association of its cookie.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
    //# A DTLS chunk using the restart DTLS key context is identified by
    //# having the R bit (Restart Indicator) set in the DTLS chunk (see
    //# {{sctp-DTLS-chunk-newchunk-crypt-struct}}).
    pub(super) fn is_admissible(&self, route: Route, contents: &Contents, packet: &Packet) -> bool {
        let Some(slot) = self.holder(route, contents) else { return true };
        let is_same = contents.local_tag == slot.known.tag
            && slot.association.peer_tag().is_none_or(|tag| tag == contents.peer_tag);
        slot.association.admits_cookie_echo(packet, is_same)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::packet_builder::PacketBuilder;
    use crate::wire::Chunk;

    #[test]
    fn final_chunks_are_kept_for_a_limited_time_and_number() {
        let mut builder = PacketBuilder::new();
        let header = Header { source_port: 1, destination_port: 2, tag: VerificationTag(3) };
        builder.begin(header, 1_000);
        let record = Bytes::from_static(b"a record");
        builder.push(&Chunk::Dtls(Dtls { is_restart: false, record: record.clone() }));
        builder.seal();
        let packet = builder.finish().unwrap().payload;
        let mut words = FinalChunks::default();
        let (start, end) = (Time::ZERO, Time::ZERO + FINAL_CHUNK_LIFE);
        words.keep(start, VerificationTag(9), &packet);
        words.keep(start, VerificationTag(8), &Bytes::from_static(b"no packet"));
        let just_before = Time::from_nanos(end.as_nanos() - 1);
        let (said_in, said) = words.of(just_before, VerificationTag(9)).unwrap();
        assert_eq!((said_in, said.record), (header, record));
        assert!(words.of(start, VerificationTag(8)).is_none());
        assert!(words.of(end, VerificationTag(9)).is_none());
        for tag in 0..=FINAL_CHUNKS_MAX as u32 {
            words.keep(start, VerificationTag(tag), &packet);
        }
        assert!(
            words.of(start, VerificationTag(0)).is_none() && words.of(start, VerificationTag(1)).is_some()
        );
    }

    fn fill(pool: &mut Pool, bytes: usize) -> Bytes {
        let room = pool.room(bytes);
        assert!(room.is_empty() && room.capacity() >= bytes);
        room.resize(bytes, 1);
        room.split().freeze()
    }

    #[test]
    fn memory_is_reused_once_it_is_released() {
        let mut pool = Pool::default();
        let first = fill(&mut pool, 1_500).as_ptr();
        for _ in 0..1_000 {
            fill(&mut pool, 1_500);
        }
        assert_eq!(pool.blocks.len(), 1);
        let again = (0..100).any(|_| fill(&mut pool, 1_500).as_ptr() == first);
        assert!(again, "the block begins anew");
    }

    #[test]
    fn after_a_burst_no_more_blocks_take_turns_than_hold_something() {
        let mut pool = Pool::default();
        let mut held: VecDeque<_> = (0..1_000).map(|_| fill(&mut pool, 1_500)).collect();
        assert!(pool.blocks.len() > 20);
        held.drain(60..);
        let used: BTreeSet<_> = (0..1_000)
            .map(|_| {
                held.pop_front();
                held.push_back(fill(&mut pool, 1_500));
                pool.current
            })
            .collect();
        assert!(used.len() < 8, "{used:?}");
    }

    #[test]
    fn held_packets_keep_at_most_the_blocks() {
        let mut pool = Pool::default();
        // One small packet of each block is kept.
        let held: Vec<_> = (0..200)
            .map(|_| {
                let kept = fill(&mut pool, 100);
                (0..40).for_each(|_| drop(fill(&mut pool, 1_500)));
                kept
            })
            .collect();
        assert_eq!((held.len(), pool.blocks.len()), (200, BLOCKS_MAX));
    }
}
