//! Encoding of packets into batches for segmentation offload: bundling (RFC 9260 §6.10), authentication (RFC 4895),
//! protection (draft-ietf-tsvwg-sctp-dtls-chunk) and the checksum (RFC 9260 §6.8).

use bytes::{BufMut, Bytes, BytesMut};

use crate::dtls::{CONTENT_MAX, HEAD_LEN, Sending, TRAILER_LEN, UNPADDED_LEN};
use crate::wire::{Authentic, Chunk, Data, Header, crc32c, padded};

/// The contents of a packet's checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum (RFC 9260 §6.8).
    Crc32c,
    /// Zero: the peer accepts it because the lower layer detects errors (RFC 9653 §5.2).
    Zero,
}

/// Packets to send, of one size except for the last, which may be shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The concatenated packets.
    pub payload: Bytes,
    /// The length of each packet, if there are several.
    pub segment_size: Option<usize>,
}

/// Encodes packets into one buffer, which is reused once all of its packets have been released.
///
/// Call `begin`, then `push` while there is `room`, then `seal`; repeat for each packet of the batch; then
/// `finish`. [`PacketBuilder::is_full`] ends the batch after a packet of another length than the first. A
/// shorter packet is the last of the batch; a longer one is carried over: it begins the next batch
/// ([`PacketBuilder::resume`]).
#[derive(Debug, Default)]
pub struct PacketBuilder {
    buffer: BytesMut,
    /// The offset of the open packet, if there is one.
    open: Option<usize>,
    /// The maximum end of the open packet.
    limit: usize,
    /// Which chunks must follow an AUTH chunk, if that was negotiated.
    authentic: Option<Box<Authentic>>,
    /// The offset of the open packet's AUTH chunk, if it has one.
    auth_at: Option<usize>,
    /// The keys that protect packets, if packets can be protected.
    sending: Option<Box<Sending>>,
    /// The offset of the open packet's DTLS chunk, if it has one.
    dtls_at: Option<usize>,
    /// The length of the first packet, once sealed.
    segment_size: Option<usize>,
    /// Whether a packet of another length than the first was sealed, after which none may follow.
    ended: bool,
    /// A sealed packet that is longer than those of its batch; empty if there is none.
    carried: Vec<u8>,
    packets: usize,
    /// The length of the previous batch, for which the buffer is allocated at once.
    before: usize,
    /// The number of consecutive batches far smaller than the buffer, which is freed after
    /// [`Self::PATIENCE`] of them.
    small: u32,
    /// The maximum reserved in the buffer.
    reserved: usize,
}

impl PacketBuilder {
    /// The number of consecutive small batches after which a large buffer is freed.
    const PATIENCE: u32 = 64;

    /// Reserved for the first packet, which often has control chunks only; the buffer grows with larger ones.
    const SMALL_PACKET_BYTES: usize = 128;

    /// The maximum number of packets in a batch, as in a GSO send of Linux.
    pub const MAX_PACKETS: usize = 64;

    /// The maximum length of a batch: the payload of a UDP datagram over IPv4, in which a GSO send must
    /// fit.
    pub const MAX_BYTES: usize = 65_507;

    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a packet of at most `max` bytes.
    ///
    /// # Panics
    /// If a packet is open, or the batch is full.
    pub fn begin(&mut self, header: Header, max: usize) {
        self.begin_plain(header, max);
        self.open_dtls();
    }

    /// Like [`Self::begin`], for a packet that cannot be protected: one with an INIT.
    ///
    /// # Panics
    /// Like [`Self::begin`].
    pub fn begin_plain(&mut self, header: Header, max: usize) {
        assert!(self.open.is_none(), "the previous packet must be sealed first");
        assert!(!self.is_full(), "a full batch must be finished first");
        let start = self.buffer.len();
        let max = max.min(Self::MAX_BYTES);
        if start == 0 {
            self.make_room(Self::SMALL_PACKET_BYTES);
        }
        self.buffer.extend_from_slice(&header.source_port.to_be_bytes());
        self.buffer.extend_from_slice(&header.destination_port.to_be_bytes());
        self.buffer.extend_from_slice(&header.tag.0.to_be_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        self.open = Some(start);
        self.auth_at = None;
        self.dtls_at = None;
        self.limit = start + max;
    }

    /// Begins a DTLS chunk that will contain all chunks of the packet, if there are keys.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
    //# Once the part of the DTLS key context responsible for sending DTLS chunks
    //# has been configured by the application, all SCTP packets SHALL be sent using a DTLS chunk.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
    //# The DTLS chunk MUST NOT be bundled with any other chunk.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
    //# Specifically,
    //# it MUST appear as the first and only chunk in the packet.
    fn open_dtls(&mut self) {
        if self.sending.as_ref().is_some_and(|sending| sending.in_use().is_some()) {
            let at = self.buffer.len();
            self.dtls_at = Some(at);
            self.buffer.put_bytes(0, HEAD_LEN);
            self.limit = self.limit.min(at + HEAD_LEN + CONTENT_MAX + TRAILER_LEN);
        }
    }

    /// Whether the open packet is protected.
    pub(crate) fn is_protected(&self) -> bool {
        self.dtls_at.is_some()
    }

    /// How much shorter the open packet is than the others of its batch, which it would end.
    pub(crate) fn missing(&self) -> usize {
        match self.segment_size {
            Some(segment_size) if !self.is_empty() => {
                segment_size.saturating_sub(self.len()).min(self.room())
            }
            _ => 0,
        }
    }

    /// The keys that protect packets, if packets can be protected.
    pub(crate) fn sending(&self) -> Option<&Sending> {
        self.sending.as_deref()
    }

    /// The same, mutable.
    pub(crate) fn sending_mut(&mut self) -> &mut Option<Box<Sending>> {
        &mut self.sending
    }

    /// Bytes reserved after the chunks of the open packet.
    fn trailer_len(&self) -> usize {
        if self.dtls_at.is_some() { TRAILER_LEN } else { 0 }
    }

    /// Inserts an AUTH chunk before the first chunk of each packet that needs one.
    pub(crate) fn authenticate(&mut self, authentic: Authentic) {
        self.authentic = Some(Box::new(authentic));
    }

    /// The room left in the open packet, for chunks of any type with padding; 0 if none is open.
    //= specs/rfc9260.txt#section-6.10
    //# The total size of the resultant SCTP packet MUST be less that or equal
    //# to the current PMTU.
    pub fn room(&self) -> usize {
        self.room_behind(self.authentic.as_deref().filter(|authentic| !authentic.chunks.is_empty()), 0)
    }

    /// The room left in the open packet for chunks of one type: more than for any type, if those need no
    /// AUTH chunk, or their padding may be left out at the end of a record.
    pub fn room_for(&self, kind: u8) -> usize {
        let authentic = self.authentic.as_deref().filter(|authentic| authentic.chunks.contains(kind));
        let unpadded = if matches!(kind, Data::KIND | Data::INTERLEAVED_KIND) { self.unpadded() } else { 0 };
        self.room_behind(authentic, unpadded)
    }

    /// Bytes of the trailer that a DATA chunk at the end of the open packet can have.
    fn unpadded(&self) -> usize {
        self.sending.as_ref().filter(|_| self.dtls_at.is_some()).map_or(0, |sending| sending.unpadded)
    }

    fn room_behind(&self, authentic: Option<&Authentic>, unpadded: usize) -> usize {
        if self.open.is_none() {
            return 0;
        }
        let auth = authentic.filter(|_| self.auth_at.is_none());
        let auth_len = auth.map_or(0, |authentic| authentic.signer.chunk_len());
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
        //# When the DTLS chunk is used, the endpoint MUST consider the DTLS chunk header
        //# and the overhead of DTLS to ensure that the final SCTP packet does not exceed
        //# the PMTU.
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.3
        //# Each DTLS record MUST fit within a single datagram.
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.3
        //# In order to avoid IP fragmentation, clients of the DTLS record layer SHOULD attempt
        //# to size records so that they fit within any Path MTU (PMTU) estimates obtained from
        //# the record layer.
        (self.limit & !3).saturating_sub(self.buffer.len() + auth_len + self.trailer_len() - unpadded)
    }

    /// Inserts the AUTH chunk, if this type needs one and it is missing.
    //= specs/rfc4895.txt#section-6.2
    //# To send chunks in an authenticated way, the sender MUST include these
    //# chunks after an AUTH chunk.
    //= specs/rfc4895.txt#section-6.2
    //# This means that a sender MUST bundle
    //# chunks in order to authenticate them.
    fn open_auth(&mut self, kind: u8) {
        if let Some(authentic) = &self.authentic
            && self.auth_at.is_none()
            && authentic.chunks.contains(kind)
        {
            self.auth_at = Some(self.buffer.len());
            authentic.signer.put_blank(&mut self.buffer);
        }
    }

    /// Whether the open packet contains no chunk yet.
    pub fn is_empty(&self) -> bool {
        let head_len = if self.dtls_at.is_some() { HEAD_LEN } else { 0 };
        self.open.is_none_or(|start| self.buffer.len() == start + Header::LEN + head_len)
    }

    /// The current length of the open packet.
    pub fn len(&self) -> usize {
        // The padding behind a record is what is missing to four bytes.
        let behind = self.trailer_len().saturating_sub(UNPADDED_LEN);
        self.open.map_or(0, |start| (self.buffer.len() - start + behind).next_multiple_of(4))
    }

    /// Appends `chunk`.
    ///
    /// # Panics
    /// If no packet is open or the chunk does not fit: ask for [`Self::room`] first.
    pub fn push(&mut self, chunk: &Chunk) {
        //= specs/rfc9260.txt#section-6.10
        //# Partial chunks MUST NOT be placed in an SCTP packet.
        let room = self.room_for(chunk.kind());
        assert!(room >= chunk.padded_len(), "{} bytes into {room}", chunk.padded_len());
        self.open_auth(chunk.kind());
        chunk.encode(&mut self.buffer);
    }

    /// Appends a DATA chunk without taking it, as it is kept for retransmission.
    ///
    /// # Panics
    /// Like [`Self::push`].
    pub fn push_data(&mut self, data: &Data) {
        let (room, unpadded) = (self.room_for(data.kind()), self.unpadded());
        let len = if unpadded > 0 { data.encoded_len() } else { padded(data.encoded_len()) };
        assert!(room >= len, "{} bytes into {room}", data.encoded_len());
        self.open_auth(data.kind());
        data.encode(&mut self.buffer);
        if unpadded > 0 {
            // Padding that reaches into the trailer is left out.
            self.buffer.truncate((self.limit & !3) - (self.trailer_len() - unpadded));
        }
    }

    /// Completes the open packet with its checksum; returns its bytes.
    ///
    /// # Panics
    /// If no packet is open.
    //= specs/rfc6951.txt#section-5.3
    //# The SCTP checksum MUST be computed for IPv4 and IPv6, and the UDP
    //# checksum SHOULD be computed for IPv4 and IPv6.
    pub fn seal(&mut self) -> usize {
        self.seal_with(Checksum::Crc32c)
    }

    /// Like [`Self::seal`], with or without a checksum.
    pub fn seal_with(&mut self, checksum: Checksum) -> usize {
        let start = self.open.take().expect("a packet was begun");
        if let (Some(at), Some(authentic)) = (self.auth_at.take(), &self.authentic) {
            authentic.signer.sign(&mut self.buffer[at..]);
        }
        if let (Some(at), Some(sending)) = (self.dtls_at.take(), &mut self.sending) {
            sending.seal(&mut self.buffer, at);
        }
        let packet = &mut self.buffer[start..];
        //= specs/rfc9260.txt#section-6.8
        //# When sending an SCTP packet, the endpoint MUST strengthen the data
        //# integrity of the transmission by including the CRC32c checksum value
        //# calculated on the packet, as described below.
        if checksum == Checksum::Crc32c {
            let checksum = crc32c::of_zeroed(packet);
            //= specs/rfc9260.txt#section-6.8
            //# After the packet is constructed (containing the SCTP common header and
            //# one or more control or DATA chunks), the transmitter MUST:
            packet[crc32c::AT].copy_from_slice(&checksum.to_le_bytes());
        }
        let len = packet.len();
        let segment_size = *self.segment_size.get_or_insert(len);
        self.ended = len != segment_size;
        if len > segment_size {
            self.carried.extend_from_slice(packet);
            self.buffer.truncate(start);
        } else {
            self.packets += 1;
        }
        len
    }

    /// Whether the last sealed packet was too long for its batch and begins the next one.
    pub fn is_carrying(&self) -> bool {
        !self.carried.is_empty()
    }

    /// Begins a batch with the packet that was too long for the previous one, if there is one.
    ///
    /// # Panics
    /// If the previous batch was not finished.
    pub fn resume(&mut self) {
        if self.carried.is_empty() {
            return;
        }
        assert!(self.buffer.is_empty(), "the previous batch must be finished first");
        let carried = std::mem::take(&mut self.carried);
        self.make_room(carried.len());
        self.buffer.extend_from_slice(&carried);
        self.segment_size = Some(carried.len());
        self.packets = 1;
        self.carried = carried;
        self.carried.clear();
    }

    /// Discards the open packet.
    pub fn cancel(&mut self) {
        if let Some(start) = self.open.take() {
            self.buffer.truncate(start);
        }
    }

    /// The number of sealed packets in the batch.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Whether no further packet may join the batch: one of another length than the first was sealed, or one
    /// more of the first's length would exceed a limit.
    pub fn is_full(&self) -> bool {
        self.ended
            || self.packets == Self::MAX_PACKETS
            || self.segment_size.is_some_and(|size| self.buffer.len() + size > Self::MAX_BYTES)
    }

    /// Reserves room for a batch like the previous one, in the same memory if its packets have been
    /// released.
    fn make_room(&mut self, max: usize) {
        let wanted = self.before.max(max);
        self.small = if wanted < self.reserved / 4 { self.small + 1 } else { 0 };
        if self.small >= Self::PATIENCE {
            self.free();
        }
        self.reserved = self.reserved.max(wanted);
        self.buffer.reserve(wanted);
    }

    /// Frees the buffer. Between batches.
    pub(crate) fn free(&mut self) {
        debug_assert!(self.buffer.is_empty() && self.carried.is_empty());
        let (authentic, sending) = (self.authentic.take(), self.sending.take());
        *self = Self { authentic, sending, ..Self::new() };
    }

    /// Returns the sealed packets, if any, and resets the builder. An open packet is discarded.
    pub fn finish(&mut self) -> Option<Batch> {
        self.cancel();
        let segment_size = self.segment_size.take();
        let packets = std::mem::take(&mut self.packets);
        self.ended = false;
        self.before = self.buffer.len();
        (packets > 0).then(|| Batch {
            payload: self.buffer.split().freeze(),
            segment_size: segment_size.filter(|_| packets > 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VerificationTag;

    fn batch(builder: &mut PacketBuilder, packets: usize) -> Batch {
        for _ in 0..packets {
            builder.begin(Header { source_port: 1, destination_port: 2, tag: VerificationTag(3) }, 1_000);
            builder.push(&Chunk::Heartbeat(Bytes::from_static(&[0; 900])));
            builder.seal();
        }
        builder.finish().expect("packets were sealed")
    }

    #[test]
    fn a_batch_reuses_the_memory_of_the_previous_one() {
        let mut builder = PacketBuilder::new();
        batch(&mut builder, 60);
        let place = batch(&mut builder, 60).payload.as_ptr();
        assert_eq!(batch(&mut builder, 60).payload.as_ptr(), place);
    }

    #[test]
    fn a_large_buffer_is_freed_after_many_small_batches() {
        let mut builder = PacketBuilder::new();
        batch(&mut builder, 60);
        batch(&mut builder, 60);
        for _ in 0..=PacketBuilder::PATIENCE {
            assert!(builder.reserved > 50_000);
            batch(&mut builder, 1);
        }
        assert!(builder.reserved < 2_000, "{}", builder.reserved);
    }
}
