//! The control connection of a session: a TCP connection, or stream 0 of an association.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use braidftp_ftp::mapping::frame::Credit;
use braidftp_ftp::mapping::{CONTROL_STREAM, ppid};
use braidftp_net::sctp::{self, wire::Cause};
use braidftp_net::{Association, Message, Ppid, Reason, StreamId};
use bytes::{Bytes, BytesMut};

use crate::tls::{self, Got, Wire};

/// The maximum number of bytes of replies in a message of braid.
const COALESCE_BYTES: usize = 16 << 10;
/// How long replies wait before the transport is checked again for earlier ones.
const LOOKS_AGAIN: Duration = Duration::from_millis(2);
/// The maximum number of bytes of lines read ahead of the session's window in braid. CREDIT arrives on the
/// stream of the lines, and a sender that waits for credit must not wait for commands that wait for the
/// sender.
pub(crate) const HELD_BYTES: usize = 1 << 20;
/// The same for all sessions together, in addition to [`HELD_ALWAYS_BYTES`] of each.
pub(crate) const HELD_ALL_BYTES: usize = 32 << 20;
/// The bytes that each session may always read ahead.
const HELD_ALWAYS_BYTES: usize = 64 << 10;
/// The number of bytes of held lines in one allocation.
const HELD_PIECE_BYTES: usize = 16 << 10;

/// The beginning of a TLS record with a ClientHello: handshake, and the version of TLS 1.0 or later.
const TLS_HELLO: &[u8] = &[22, 3];
/// The time limit for the peer to close its end of a TCP control connection.
const GOODBYE: Duration = Duration::from_secs(1);

/// Input of a control connection.
#[derive(Debug)]
pub(super) enum Arrived {
    /// Bytes of lines.
    Lines(Bytes),
    /// braid: the peer grants credit.
    Credit(Credit),
    /// TCP: TLS is active; further input is protected.
    Secured,
    /// The peer sends no more.
    End,
}

/// Why a control connection was lost.
#[derive(Debug)]
pub(super) struct Lost(pub String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reading half.
pub(super) struct Rx {
    from: From,
    held: VecDeque<BytesMut>,
    held_bytes: usize,
    all_held: Arc<AllHeld>,
}

/// The bytes of lines held by all sessions.
#[derive(Debug, Default)]
pub(super) struct AllHeld(AtomicUsize);

enum From {
    Tcp(Arc<Wire>),
    Sctp(Association),
    Braid(Association),
}

impl Rx {
    pub(super) fn tcp(wire: Arc<Wire>, all_held: Arc<AllHeld>) -> Self {
        Self::of(From::Tcp(wire), all_held)
    }

    /// Stream 0 of naive, ms and ms-cp.
    pub(super) fn sctp(association: Association, all_held: Arc<AllHeld>) -> Self {
        Self::of(From::Sctp(association), all_held)
    }

    /// Stream 0 of braid.
    pub(super) fn braid(association: Association, all_held: Arc<AllHeld>) -> Self {
        Self::of(From::Braid(association), all_held)
    }

    fn of(from: From, all_held: Arc<AllHeld>) -> Self {
        Self { from, held: VecDeque::new(), held_bytes: 0, all_held }
    }

    /// Returns the next input.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is lost.
    pub(super) async fn recv(&mut self) -> Result<Arrived, Lost> {
        match &self.from {
            From::Tcp(wire) => {
                let mut buffer = BytesMut::new();
                match wire.read(&mut buffer).await {
                    // No command begins like this. The rest would be parsed as many invalid lines.
                    Ok(Got::Bytes) if buffer.starts_with(TLS_HELLO) && !wire.has_tls() => {
                        wire.write_in_clear("421 this port begins in the clear: AUTH TLS first, or another port for ftps://\r\n");
                        Err(Lost("the client began with TLS where the connection begins in the clear".into()))
                    }
                    Ok(Got::Bytes) => Ok(Arrived::Lines(buffer.freeze())),
                    Ok(Got::Secured) => Ok(Arrived::Secured),
                    Ok(Got::Cut) if wire.is_handshaking() => {
                        Err(Lost("the client closed the connection during the TLS handshake".into()))
                    }
                    Ok(Got::End | Got::Cut) => Ok(Arrived::End),
                    Err(error) => Err(Lost(tls::server::failed(&error))),
                }
            }
            From::Sctp(association) | From::Braid(association) => {
                let piece = match association.recv(StreamId(CONTROL_STREAM)).await {
                    Ok(Some(piece)) => piece,
                    Ok(None) => return Ok(Arrived::End),
                    Err(reason) if is_goodbye(&reason) => return Ok(Arrived::End),
                    Err(reason) => return Err(Lost(reason.to_string())),
                };
                let is_braid = matches!(self.from, From::Braid(_));
                match piece.ppid.0 {
                    ppid::CREDIT if is_braid => match Credit::decode(&joined(piece.payload)) {
                        Ok(credit) => Ok(Arrived::Credit(credit)),
                        Err(error) => self.violated(&error.to_string()),
                    },
                    ppid::LINES => Ok(Arrived::Lines(joined(piece.payload))),
                    _ if !is_braid => Ok(Arrived::Lines(joined(piece.payload))),
                    other => self.violated(&format!("payload protocol {other:#x} has no place on stream 0")),
                }
            }
        }
    }

    fn violated(&self, why: &str) -> Result<Arrived, Lost> {
        if let From::Braid(association) = &self.from {
            association.abort(why.to_owned());
        }
        Err(Lost(why.to_owned()))
    }

    /// Whether reading further is useful while the session wants no lines.
    pub(super) fn may_hold(&self) -> bool {
        let all = self.all_held.0.load(Ordering::Relaxed);
        matches!(self.from, From::Braid(_))
            && (self.held_bytes < HELD_ALWAYS_BYTES || self.held_bytes < HELD_BYTES && all < HELD_ALL_BYTES)
    }

    /// Whether lines are held for the session.
    pub(super) fn holds_some(&self) -> bool {
        !self.held.is_empty()
    }

    /// Holds lines until the session wants them. They are copied, because each message may contain a single
    /// byte.
    pub(super) fn hold(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        match self.held.back_mut() {
            Some(last) if last.len() + bytes.len() <= HELD_PIECE_BYTES => last.extend_from_slice(bytes),
            _ => self.held.push_back(bytes.into()),
        }
    }

    /// Returns the next held lines.
    pub(super) fn take_held(&mut self) -> Option<Bytes> {
        let bytes = self.held.pop_front()?;
        self.held_bytes -= bytes.len();
        self.all_held.0.fetch_sub(bytes.len(), Ordering::Relaxed);
        Some(bytes.freeze())
    }

    /// Discards the held lines.
    pub(super) fn drop_held(&mut self) {
        while self.take_held().is_some() {}
    }

    /// Returns bytes that could not be used now.
    pub(super) fn put_back(&mut self, bytes: Bytes) {
        self.count(bytes.len());
        self.held.push_front(bytes.into());
    }

    fn count(&mut self, bytes: usize) {
        self.held_bytes += bytes;
        self.all_held.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Rx {
    fn drop(&mut self) {
        self.all_held.0.fetch_sub(self.held_bytes, Ordering::Relaxed);
    }
}

/// Whether a client ended its association with [`Association::leave`].
fn is_goodbye(reason: &Reason) -> bool {
    let is_word =
        |cause: &Cause| matches!(cause, Cause::UserInitiatedAbort(words) if words[..] == *sctp::GOODBYE);
    matches!(reason, Reason::PeerAborted(causes) if causes.iter().any(is_word))
}

fn joined(mut payload: Vec<Bytes>) -> Bytes {
    if payload.len() == 1 {
        return payload.remove(0);
    }
    payload.concat().into()
}

/// Whether further replies will follow without further commands: transfers are in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Comes,
    None,
}

/// The writing half.
pub(super) enum Tx {
    Tcp(Arc<Wire>),
    Sctp(Association),
    Braid(Association),
}

impl Tx {
    /// A user is logged in: the client may use the whole receive window.
    pub(super) fn admit(&self) {
        match self {
            Self::Tcp(_) => {}
            Self::Sctp(association) | Self::Braid(association) => association.admit(),
        }
    }

    /// Appends a reply to the queue. In braid waiting replies share a message of whole lines
    /// (specs/ftp-over-sctp.md §2.3).
    pub(super) fn queue(&self, out: &mut VecDeque<Bytes>, reply: Bytes) {
        match (self, out.back_mut()) {
            (Self::Tcp(_) | Self::Braid(_), Some(last)) if last.len() + reply.len() <= COALESCE_BYTES => {
                *last = [&last[..], &reply[..]].concat().into();
            }
            _ => out.push_back(reply),
        }
    }

    /// Sends a part of `out` and removes it; returns the number of bytes. In braid, if `more` replies follow,
    /// first waits until the earlier ones have left the transport's queue, so that replies that arrive
    /// meanwhile share a message.
    ///
    /// # Cancel safety
    ///
    /// Safe: sent bytes were removed.
    pub(super) async fn send(&self, out: &mut VecDeque<Bytes>, more: More) -> Result<usize, Lost> {
        let Some(first) = out.front_mut() else {
            if let Self::Tcp(wire) = self {
                wire.flush().await.map_err(|e| Lost(e.to_string()))?;
            }
            return Ok(0);
        };
        match self {
            Self::Tcp(wire) => {
                let count = wire.write(first).await.map_err(|e| Lost(e.to_string()))?;
                let _ = first.split_to(count);
                if first.is_empty() {
                    out.pop_front();
                }
                Ok(count)
            }
            Self::Sctp(association) | Self::Braid(association) => {
                let kind = if matches!(self, Self::Braid(_)) { ppid::LINES } else { ppid::PLAIN };
                while kind == ppid::LINES
                    && more == More::Comes
                    && first.len() < COALESCE_BYTES / 2
                    && association.queued_bytes(StreamId(CONTROL_STREAM)) > 0
                    && association.reason().is_none()
                {
                    tokio::time::sleep(LOOKS_AGAIN).await;
                }
                let message = Message::new(Ppid(kind), first.clone());
                association.send(StreamId(CONTROL_STREAM), message).await.map_err(|e| Lost(e.to_string()))?;
                Ok(out.pop_front().map_or(0, |sent| sent.len()))
            }
        }
    }

    /// Whether sent data is still in the transport's queue.
    pub(super) fn holds_some(&self) -> bool {
        matches!(self, Self::Tcp(wire) if wire.holds_some())
    }

    /// Whether TLS has begun and its handshake is in progress.
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tcp(wire) if wire.is_handshaking())
    }

    /// Replies in the clear to a client that must begin with TLS and did not. A client that has begun TLS gets no reply.
    //= specs/rfc4217.txt#section-10.1
    //# In this case, the control connection should still be in an unprotected mode and the server SHOULD issue an
    //# unprotected '421' reply to end the session.
    //= specs/rfc4217.txt#section-10.1
    //# In this case, the control connection is in an unknown state and the server SHOULD simply drop the control connection.
    pub(super) fn reply_tls_required(&self) {
        if let Self::Tcp(wire) = self
            && wire.is_handshaking()
            && wire.received_no_tls()
        {
            wire.write_in_clear(
                "421 the TLS handshake had to come and did not; ports of ftps:// begin with it\r\n",
            );
        }
    }

    /// Ends the connection gracefully.
    pub(super) async fn close(&mut self) {
        self.reply_tls_required();
        match self {
            Self::Tcp(wire) => {
                // Closes one half first: a complete close with unread input causes a reset, which would
                // discard the last reply.
                let close = async {
                    let ended = match wire.is_handshaking() {
                        true => wire.end_half(),
                        false => wire.finish().await,
                    };
                    if ended.is_ok() {
                        wire.read_out().await;
                    }
                };
                let _ = tokio::time::timeout(GOODBYE, close).await;
            }
            Self::Sctp(association) | Self::Braid(association) => association.start_shutdown(),
        }
    }

    /// Ends the connection immediately, with this last reply if the transport accepts it at once.
    pub(super) fn refuse(&self, reply: &str) {
        if let Self::Tcp(wire) = self
            && !wire.is_handshaking()
        {
            let line = format!("{reply}\r\n");
            let write = std::pin::pin!(wire.write(line.as_bytes()));
            // If the transport does not accept the reply at once, it is dropped.
            let _ = write.poll(&mut Context::from_waker(Waker::noop()));
        }
        self.abort(reply);
    }

    /// Ends the connection immediately.
    pub(super) fn abort(&self, why: &str) {
        match self {
            Self::Tcp(wire) => {
                let _ = socket2::SockRef::from(wire.stream()).shutdown(std::net::Shutdown::Both);
            }
            Self::Sctp(association) | Self::Braid(association) => association.abort(why.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_leaves_says_goodbye_and_one_that_breaks_off_does_not() {
        let aborted =
            |words: &'static [u8]| Reason::PeerAborted(vec![Cause::UserInitiatedAbort(words.into())]);
        assert!(is_goodbye(&aborted(sctp::GOODBYE)));
        assert!(!is_goodbye(&aborted(b"the client stops")));
        assert!(!is_goodbye(&Reason::PeerAborted(vec![])) && !is_goodbye(&Reason::PeerUnreachable));
    }
}
