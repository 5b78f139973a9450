//! Partial reliability (RFC 3758, and RFC 8260 §2.3.1 where messages are interleaved): what either side gives up.
//!
//! The receiver of FORWARD TSN or I-FORWARD-TSN takes what is missing as received. It asks for no policy: that is the
//! sender's own.

use crate::association::receive::{Then, sack_by};
use crate::association::received::SPAN_MAX;
use crate::association::state::{Shutdown, State};
use crate::association::{Association, Violation};
use crate::extensions::Extensions;
use crate::ids::{PathId, StreamId};
use crate::wire::Chunk;

impl Association {
    /// FORWARD TSN or I-FORWARD-TSN came.
    pub(super) fn on_forward(&mut self, path: PathId, chunk: Chunk) -> Then {
        let State::Up(up) = &self.state else { return Then::Next };
        let extensions = up.extensions;
        // With I-DATA configured the chunks of both forms are known; without, the new one is not.
        let knows = matches!(chunk, Chunk::ForwardTsn(_)) || Extensions::of(&self.config).i_forward_tsn;
        //= specs/rfc3758.txt#section-3.3.1
        //# Note that if the endpoint chooses NOT to include the parameter, then
        //# at no time during the life of the association can it send or process
        //# a FORWARD TSN.  It MUST instead act as if it does NOT support the
        //# FORWARD TSN chunk, returning an ERROR to the peer upon receipt of any
        //# FORWARD TSN.
        //= specs/rfc3758.txt#section-3.3.2
        //# Note that if the endpoint chooses NOT to include the parameter, then
        //# at no time during the life of the association can it send or process
        //# a FORWARD TSN.  It MUST instead act as if it does NOT support the
        //# FORWARD TSN chunk, returning an ERROR to the peer upon receipt of any
        //# FORWARD TSN.
        // A peer that did not include it sends none, either.
        if !extensions.partial_reliability() || !knows {
            return self.on_unknown(chunk.kind(), &chunk.to_bytes());
        }
        //= specs/rfc8260.txt#section-2.3.1
        //# The FORWARD-TSN chunk MUST be used in combination with the DATA chunk
        //# and MUST NOT be used in combination with the I-DATA chunk.  The
        //# I-FORWARD-TSN chunk MUST be used in combination with the I-DATA chunk
        //# and MUST NOT be used in combination with the DATA chunk.
        if extensions.interleaving != matches!(chunk, Chunk::IForwardTsn(_)) {
            self.on_violation(Violation::WrongForwardTsn);
            return Then::Stop;
        }
        // As with DATA (RFC 9260 §6).
        if matches!(self.shutdown, Shutdown::Received | Shutdown::AckSent { .. }) {
            return Then::Next;
        }
        self.skip(path, chunk);
        Then::Next
    }

    fn skip(&mut self, path: PathId, chunk: Chunk) {
        let ahead_max = self.forward_max();
        let State::Up(up) = &mut self.state else { return };
        let new_cum_tsn = match &chunk {
            Chunk::ForwardTsn(forward) => forward.new_cum_tsn,
            Chunk::IForwardTsn(forward) => forward.new_cum_tsn,
            _ => return,
        };
        let before = up.received.cum_tsn();
        if new_cum_tsn.after(before) && new_cum_tsn.distance_from(before) > ahead_max {
            return self.on_violation(Violation::ForwardTsnTooFar(new_cum_tsn));
        }
        sack_by(up, &self.paths, path);
        if !up.received.forward(new_cum_tsn) {
            return;
        }
        let cum_tsn = up.received.cum_tsn();
        // Streams that do not exist have nothing to skip.
        let exists = |stream: StreamId| stream.0 < self.inbound_streams;
        let forwarded = match chunk {
            Chunk::ForwardTsn(forward) => {
                let streams = forward.streams.into_iter().filter(|(stream, _)| exists(*stream));
                self.inbound.forward(new_cum_tsn, cum_tsn, streams)
            }
            Chunk::IForwardTsn(forward) => {
                let streams = forward.streams.into_iter().filter(|skipped| exists(skipped.stream));
                self.inbound.forward_interleaved(streams);
                Ok(())
            }
            _ => Ok(()),
        };
        match forwarded {
            Ok(()) => self.report_readable(),
            Err(violation) => self.on_violation(violation),
        }
    }

    /// How far ahead a FORWARD TSN may go: every TSN takes a byte of the window that was offered, or more.
    fn forward_max(&self) -> u32 {
        let window = u32::try_from(self.config.receive_buffer_bytes).unwrap_or(u32::MAX);
        window.clamp(SPAN_MAX, i32::MAX as u32)
    }
}
