//! Abandoned chunks among the outstanding ones, and the Advanced Peer Ack Point (RFC 3758 §3.5). `partial`
//! decides which messages are abandoned.

use std::collections::{BTreeMap, BTreeSet};

use braidftp_base::Time;

use super::{Before, Sent, Slot, SlotState};
use crate::association::partial::policy::{Policy, Terms};
use crate::association::send_queue::Fragment;
use crate::ids::{PathId, StreamId, Tsn};
use crate::wire::{Chunk, Data, ForwardTsn, IForwardTsn, SkippedMid};

/// A message with a priority that is not completely acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::association) struct Prioritized {
    pub(in crate::association) priority: u32,
    /// One of its unacknowledged chunks.
    pub(in crate::association) tsn: Tsn,
    /// The send buffer that abandoning it would free.
    pub(in crate::association) bytes: usize,
}

/// Identifies the chunks of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    stream: StreamId,
    unordered: bool,
    /// The MID, if fragments of messages are interleaved; otherwise the chunks of a message are
    /// consecutive.
    mid: Option<u32>,
}

impl Key {
    fn of(data: &Data) -> Self {
        let mid = data.interleaved.map(|place| place.mid);
        Self { stream: data.stream, unordered: data.unordered, mid }
    }
}

impl Sent {
    /// Abandons the sent part of this chunk's message. Calls `left_flight` with the bytes that were in
    /// flight, by path. Returns whether the whole message was sent.
    //= specs/rfc3758.txt#section-3.5
    //# A3) When a TSN is "abandoned", if it is part of a fragmented message,
    //# all other TSN's within that fragmented message MUST be abandoned
    //# at the same time.
    pub(in crate::association) fn abandon(
        &mut self,
        tsn: Tsn,
        mut left_flight: impl FnMut(PathId, usize),
    ) -> bool {
        let at = tsn.distance_from(self.base) as usize;
        let key = Key::of(&self.slots[at].data);
        for index in (0..=at).rev() {
            if Key::of(&self.slots[index].data) == key {
                self.abandon_slot(index, &mut left_flight);
                if self.slots[index].data.begin {
                    break;
                }
            }
        }
        let mut is_whole = self.slots[at].data.end;
        let mut index = at + 1;
        while !is_whole && index < self.slots.len() {
            if Key::of(&self.slots[index].data) == key {
                self.abandon_slot(index, &mut left_flight);
                is_whole = self.slots[index].data.end;
            }
            index += 1;
        }
        self.advance_forward();
        is_whole
    }

    fn abandon_slot(&mut self, index: usize, left_flight: &mut impl FnMut(PathId, usize)) {
        let slot = &mut self.slots[index];
        //= specs/rfc3758.txt#section-3.5
        //# When a data chunk is "abandoned", the sender MUST treat the data
        //# chunk as being finally acked and no longer outstanding.
        //= specs/rfc3758.txt#section-3.5
        //# The sender MUST NOT credit an "abandoned" data chunk to the
        //# partial_bytes_acked as defined in Section 7.2.2 of RFC 2960 [2],
        //# and MUST NOT advance the cwnd based on this "abandoned" data
        //# chunk.
        // No report mentions the chunk. A chunk is abandoned for its lifetime or retransmissions only
        // after it was marked lost, which has adjusted the window.
        //= specs/rfc3758.txt#section-3.5
        //# F5) If the decision to "abandon" a chunk is made, no matter how such
        //# a decision is made, the appropriate congestion adjustment MUST be
        //# made as specified in RFC 2960 if the chunk would have been marked
        //# for retransmission later (e.g., either by T3-Timeout or by Fast
        //# Retransmit).
        // A chunk is given up for being late or repeated only once it is marked lost, which adjusted the window.
        self.skipped_tsn.take_if(|tsn| *tsn == slot.data.tsn);
        match std::mem::replace(&mut slot.state, SlotState::Abandoned) {
            SlotState::InFlight => {
                self.flight_bytes -= slot.bytes;
                self.outstanding_bytes -= slot.bytes;
                left_flight(slot.path, slot.bytes);
            }
            SlotState::Lost | SlotState::Unreported => self.outstanding_bytes -= slot.bytes,
            SlotState::Acked => self.gap_acked_bytes[usize::from(slot.path.0)] -= slot.bytes,
            SlotState::Abandoned => {}
        }
        self.retained_bytes -= slot.data.payload.len();
        slot.data.payload = Default::default();
        self.prioritized -= usize::from(slot.terms.is_prioritized());
        slot.terms = Terms::default();
    }

    /// Inserts the end of a message that was abandoned partly sent. The chunk gets a TSN and is never
    /// sent: the skipped TSNs then end where a message ends, and the peer cannot mistake what follows
    /// for the rest of this message.
    pub(in crate::association) fn insert_abandoned_end(&mut self, rest: Fragment) {
        let data = Data {
            begin: false,
            end: true,
            unordered: rest.unordered,
            immediate: false,
            tsn: self.next_tsn(),
            stream: rest.stream,
            ssn: rest.ssn,
            interleaved: rest.interleaved,
            ppid: rest.ppid,
            payload: Default::default(),
        };
        self.slots.push_back(Slot {
            data,
            bytes: 0,
            path: PathId(0),
            before: Before::Never,
            doubled: false,
            credited: false,
            state: SlotState::Abandoned,
            released: false,
            terms: Terms::default(),
            missing: 0,
            timed_out: false,
            fast_retransmitted: false,
            transmissions: 0,
            retransmissions: 0,
            sent_at: Time::ZERO,
            packet_bytes: 0,
            order: 0,
        });
        self.advance_forward();
    }

    /// Returns the last sent chunk of a message with an unsent rest.
    pub(in crate::association) fn last_of(&self, rest: &Fragment) -> Option<Tsn> {
        let mid = rest.interleaved.map(|place| place.mid);
        let key = Key { stream: rest.stream, unordered: rest.unordered, mid };
        let mut slots = self.slots.iter().rev();
        let last = match mid {
            None => slots.next().filter(|slot| Key::of(&slot.data) == key && !slot.data.end),
            Some(_) => slots.find(|slot| Key::of(&slot.data) == key),
        };
        last.map(|slot| slot.data.tsn)
    }

    //= specs/rfc3758.txt#section-3.5
    //# C2) Try to further advance the "Advanced.Peer.Ack.Point" locally,
    //# that is, to move "Advanced.Peer.Ack.Point" up as long as the
    //# chunk next in the out-queue space is marked as "abandoned",
    //# as shown in the following example:
    pub(in crate::association) fn advance_forward(&mut self) {
        let abandoned = |slot: &&Slot| slot.state == SlotState::Abandoned;
        self.forward += self.slots.range(self.forward..).take_while(abandoned).count();
    }

    /// Advanced.Peer.Ack.Point (RFC 3758 §3.5 A1), if it is beyond the cumulative TSN ack point.
    pub(in crate::association) fn advanced_peer_ack_point(&self) -> Option<Tsn> {
        (self.forward > 0).then(|| self.cum_tsn_ack_point().plus(self.forward as u32))
    }

    /// Returns the FORWARD TSN or I-FORWARD-TSN that fits in `room` bytes, and its new cumulative TSN.
    pub(in crate::association) fn forward_chunk(&self, room: usize) -> Option<(Chunk, Tsn)> {
        //= specs/rfc8260.txt#section-2.3.1
        //# When the SCTP extension defined in [RFC3758] is used in combination
        //# with the user message interleaving extension, the new I-FORWARD-TSN
        //# chunk MUST be used instead of the FORWARD-TSN chunk.
        let is_interleaved = self.slots.front()?.data.interleaved.is_some();
        let entry_len = if is_interleaved { IForwardTsn::ENTRY_LEN } else { ForwardTsn::ENTRY_LEN };
        let entries_max = room.checked_sub(ForwardTsn::HEADER_LEN)? / entry_len;
        // In the order of their first chunks; the last message of each.
        let mut entries: Vec<&Data> = Vec::new();
        let mut places = BTreeMap::new();
        let mut new_cum_tsn = None;
        for slot in self.slots.iter().take(self.forward) {
            let data = &slot.data;
            //= specs/rfc3758.txt#section-3.5
            //# C4) For each "abandoned" TSN, the sender of the FORWARD TSN MUST
            //# determine if the chunk has a valid stream and sequence number
            //# (i.e., it was ordered).  If the chunk has a valid stream and
            //# sequence number, the sender MUST include the stream and
            //# sequence number in the FORWARD TSN.
            //= specs/rfc3758.txt#section-3.2
            //# This field MUST NOT report TSN's corresponding
            //# to DATA chunks that are marked as unordered.  For ordered DATA
            //# chunks this field MUST be filled in.
            if is_interleaved || !data.unordered {
                let place = *places.entry((data.stream, data.unordered)).or_insert(entries.len());
                //= specs/rfc3758.txt#section-3.5
                //# Each stream SHOULD only be
                //# reported once; this means that if multiple abandoned messages
                //# occur in the same stream, then only the highest abandoned
                //# stream sequence number is reported.  If the total size of the
                //# FORWARD TSN does NOT fit in a single MTU, then the sender of
                //# the FORWARD TSN SHOULD lower the Advanced.Peer.Ack.Point to
                //# the last TSN that will fit in a single MTU.
                // A chunk that needs an entry of its own begins a message: the chunk before it ends one.
                if place == entries_max {
                    break;
                }
                match entries.get_mut(place) {
                    Some(entry) => *entry = data,
                    None => entries.push(data),
                }
            }
            new_cum_tsn = Some(data.tsn);
        }
        let new_cum_tsn = new_cum_tsn?;
        let chunk = if is_interleaved {
            let skipped = |data: &Data| SkippedMid {
                stream: data.stream,
                unordered: data.unordered,
                mid: data.interleaved.unwrap_or_default().mid,
            };
            let streams = entries.into_iter().map(skipped).collect();
            Chunk::IForwardTsn(IForwardTsn { new_cum_tsn, streams })
        } else {
            let streams = entries.into_iter().map(|data| (data.stream, data.ssn)).collect();
            Chunk::ForwardTsn(ForwardTsn { new_cum_tsn, streams })
        };
        Some((chunk, new_cum_tsn))
    }

    /// Returns the last chunk of each completely sent message that may not be delivered at the peer.
    pub(in crate::association) fn undelivered(&self) -> Vec<Tsn> {
        let (mut open, mut ends) = (BTreeSet::new(), Vec::new());
        for slot in &self.slots {
            let key = Key::of(&slot.data);
            if slot.state != SlotState::Abandoned && !slot.released {
                open.insert(key);
            }
            if slot.data.end && open.remove(&key) {
                ends.push(slot.data.tsn);
            }
        }
        ends
    }

    /// Returns the partial reliability of the message of this chunk.
    pub(in crate::association) fn terms(&self, tsn: Tsn) -> Terms {
        self.get(tsn).map_or(Terms::default(), |slot| slot.terms)
    }

    /// Returns the partly or completely sent messages with a priority number above `least` that are not
    /// acknowledged, oldest first.
    pub(in crate::association) fn prioritized(&self, least: u32) -> Vec<Prioritized> {
        if self.prioritized == 0 {
            return Vec::new();
        }
        let mut found: Vec<(Key, Prioritized, bool)> = Vec::new();
        let mut open = BTreeMap::new();
        for slot in &self.slots {
            let Policy::Priority(priority) = slot.terms.policy else { continue };
            if priority <= least {
                continue;
            }
            let (tsn, bytes) = (slot.data.tsn, slot.data.payload.len());
            let key = Key::of(&slot.data);
            let id = (key.stream, key.unordered, key.mid);
            let index = *open.entry(id).or_insert(found.len());
            if index == found.len() {
                found.push((key, Prioritized { priority, tsn, bytes: 0 }, false));
            }
            let (_, message, has_open) = &mut found[index];
            message.bytes += bytes;
            if slot.state != SlotState::Acked {
                message.tsn = tsn;
                *has_open = true;
            }
            if slot.data.end {
                open.remove(&id);
            }
        }
        found.into_iter().filter(|(.., has_open)| *has_open).map(|(_, message, _)| message).collect()
    }
}
