//! Responses of an endpoint to packets without an association. A response that finds the queue full is
//! dropped like a lost packet.

use std::collections::VecDeque;

use braidftp_base::Ecn;

use crate::association::{Split, Transmit};
use crate::packet_builder::PacketBuilder;
use crate::route::Route;
use crate::wire::{Chunk, Header};

/// The maximum length of a response: an INIT ACK with reports of unknown parameters is truncated there,
/// to limit amplification. Fits the smallest packet that IPv6 carries unfragmented, including the UDP
/// header.
//= specs/rfc9260.txt#section-12.4
//# An SCTP implementation SHOULD attempt to make the INIT ACK chunk as
//# small as possible to reduce the possibility of byte amplification
//# attacks.
pub(super) const MAX_ANSWER_LEN: usize = 1_232;

/// A packet to be built.
#[derive(Debug)]
pub(super) struct Answer {
    /// The route of the packet that it answers.
    pub(super) route: Route,
    pub(super) header: Header,
    pub(super) chunks: Vec<Chunk>,
}

/// Responses for the next drain.
#[derive(Debug)]
pub(super) struct Answers {
    queue: VecDeque<Answer>,
    limit: usize,
    builder: PacketBuilder,
}

impl Answers {
    pub(super) fn new(limit: usize) -> Self {
        Self { queue: VecDeque::new(), limit, builder: PacketBuilder::new() }
    }

    /// Queues a response, if there is room.
    pub(super) fn push(&mut self, answer: Answer) -> Result<(), Dropped> {
        if self.queue.len() >= self.limit {
            return Err(Dropped);
        }
        self.queue.push_back(answer);
        Ok(())
    }

    /// Builds the next response.
    pub(super) fn next(&mut self) -> Option<Transmit> {
        let Answer { route, header, chunks } = self.queue.pop_front()?;
        let len: usize = chunks.iter().map(Chunk::padded_len).sum();
        self.builder.begin(header, Header::LEN + len);
        chunks.iter().for_each(|chunk| self.builder.push(chunk));
        self.builder.seal();
        let batch = self.builder.finish()?;
        Some(Transmit {
            from: route.local,
            to: route.peer,
            ecn: Ecn::NotEct,
            payload: batch.payload,
            segment_size: None,
            split: Split::Unspecified,
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// The queue was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dropped;
