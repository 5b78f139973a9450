//! Out-of-the-blue packets (RFC 9260 §8.4): valid packets of no association. The rate of responses is
//! limited, so that an endpoint cannot be used as a reflector.

use std::time::Duration;

use braidftp_base::Time;

use super::Endpoint;
use super::answers::Answer;
use crate::route::{Route, is_unicast};
use crate::wire::{Cause, Chunk, Header, Kinds, Packet};

/// A limit on responses per second.
#[derive(Debug)]
pub(super) struct Budget {
    a_second: u32,
    second: Time,
    spent: u32,
}

impl Budget {
    pub(super) fn new(a_second: u32) -> Self {
        Self { a_second, second: Time::ZERO, spent: 0 }
    }

    /// Whether another response may be sent at `now`; if so, it is counted.
    pub(super) fn take(&mut self, now: Time) -> bool {
        if now.since(self.second) >= Duration::from_secs(1) {
            self.second = now;
            self.spent = 0;
        }
        let left = self.spent < self.a_second;
        self.spent += u32::from(left);
        left
    }
}

impl Endpoint {
    pub(super) fn on_out_of_the_blue(
        &mut self,
        now: Time,
        route: Route,
        header: &Header,
        kinds: Kinds,
        packet: &Packet,
    ) {
        self.counters.out_of_the_blue += 1;
        if kinds.has_dtls()
            && let Some((header, chunk)) = self.final_chunks.of(now, header.tag)
        {
            return self
                .answer_within_budget(now, Answer { route, header, chunks: vec![Chunk::Dtls(chunk)] });
        }
        //= specs/rfc9260.txt#section-8.4
        //# 1)  If the OOTB packet is to or from a non-unicast address, a
        //# receiver SHOULD silently discard the packet.  Otherwise,
        if !is_unicast(route.peer.ip()) || !is_unicast(route.local.ip()) {
            return;
        }
        //= specs/rfc9260.txt#section-8.4
        //# 2)  If the OOTB packet contains an ABORT chunk, the receiver MUST
        //# silently discard the OOTB packet and take no further action.
        //# Otherwise,
        // A packet without a complete chunk is dropped like the chunk (§6.10).
        if kinds.contains(Chunk::ABORT) || kinds.is_empty() {
            return;
        }
        // 3) and 4), INIT without a tag and COOKIE ECHO as the first chunk, are not passed to this
        // function.
        let answer = if kinds.contains(Chunk::SHUTDOWN_ACK) {
            //= specs/rfc9260.txt#section-8.4
            //# When sending the SHUTDOWN COMPLETE chunk, the receiver of
            //# the OOTB packet MUST fill in the Verification Tag field of the
            //# outbound packet with the Verification Tag received in the
            //# SHUTDOWN ACK chunk and set the T bit in the Chunk Flags to
            //# indicate that the Verification Tag is reflected.  Otherwise,
            //= specs/rfc9260.txt#section-3.1
            //# A packet containing a SHUTDOWN COMPLETE chunk with the T bit set MUST
            //# have the Verification Tag copied from the packet with the SHUTDOWN ACK
            //# chunk.
            //= specs/rfc9260.txt#section-8.4
            //# If the packet contains a SHUTDOWN ACK chunk, the receiver SHOULD
            //# respond to the sender of the OOTB packet with a SHUTDOWN COMPLETE
            //# chunk.
            //= specs/rfc9260.txt#section-8.5.1
            //# Only where no TCB exists SHOULD the sender use the Verification Tag
            //# from the SHUTDOWN ACK chunk and MUST set the T bit.
            Chunk::ShutdownComplete { reflected: true }
        //= specs/rfc9260.txt#section-8.4
        //# If the packet contains a SHUTDOWN COMPLETE chunk, the receiver SHOULD
        //# silently discard the packet and take no further action.
        } else if kinds.contains(Chunk::SHUTDOWN_COMPLETE) || kinds.contains(Chunk::COOKIE_ACK) {
            // 6) and half of 7).
            return;
        } else if kinds.contains(Chunk::ERROR) && reports_stale_cookie(packet) {
            //= specs/rfc9260.txt#section-8.4
            //# 7)  If the packet contains an ERROR chunk with the "Stale Cookie"
            //# error cause or a COOKIE ACK chunk, the SCTP packet SHOULD be
            //# silently discarded.  Otherwise,
            return;
        } else {
            //= specs/rfc9260.txt#section-8.4
            //# When sending the ABORT chunk, the receiver of
            //# the OOTB packet MUST fill in the Verification Tag field of the
            //# outbound packet with the value found in the Verification Tag
            //# field of the OOTB packet and set the T bit in the Chunk Flags to
            //# indicate that the Verification Tag is reflected.
            //= specs/rfc9260.txt#section-6
            //# A DATA chunk received in CLOSED is out of the blue and SHOULD be
            //# handled per Section 8.4.
            //= specs/rfc9260.txt#section-6
            //# A SACK chunk in the CLOSED state is out of the blue and SHOULD be
            //# processed according to the rules in Section 8.4.
            //= specs/rfc9260.txt#section-8.4
            //# The receiver SHOULD respond to the sender of the OOTB packet with an
            //# ABORT chunk.
            //= specs/rfc9260.txt#section-8.5.1
            //# If the ABORT chunk is sent in response to an OOTB packet, the endpoint
            //# MUST follow the procedure described in Section 8.4.
            Chunk::Abort { reflected: true, causes: Vec::new() }
        };
        let header = Header {
            source_port: header.destination_port,
            destination_port: header.source_port,
            tag: header.tag,
        };
        //= specs/rfc9260.txt#section-8.4
        //# After sending this ABORT chunk, the receiver of the OOTB packet MUST
        //# discard the OOTB packet and MUST NOT take any further action.
        self.answer_within_budget(now, Answer { route, header, chunks: vec![answer] });
    }

    /// Responds to a packet without an association, whose source may be forged.
    pub(super) fn answer_within_budget(&mut self, now: Time, answer: Answer) {
        if self.budget.take(now) {
            self.answer(answer);
        } else {
            self.counters.answers_dropped += 1;
        }
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        if self.answers.push(answer).is_err() {
            self.counters.answers_dropped += 1;
        }
    }
}

fn reports_stale_cookie(packet: &Packet) -> bool {
    packet.chunks().flatten().any(|chunk| match chunk {
        Chunk::Error(causes) => causes.iter().any(|cause| matches!(cause, Cause::StaleCookie(_))),
        _ => false,
    })
}
