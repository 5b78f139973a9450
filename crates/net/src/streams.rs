//! The two directions of a stream as values of their own, with the traits of `futures` and tokio.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use braidftp_sctp::{Message, Piece, Ppid, Reason, StreamId};
use bytes::{Buf, Bytes};
use futures_core::Stream;
use futures_sink::Sink;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::association::{Association, SendError, TryRecvError, TrySendError};

/// The maximum length in bytes of a message that `AsyncWrite` sends.
const WRITE_MAX: usize = 16 * 1024;

type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Sends on one stream.
///
/// A [`Sink`] of messages, and an [`AsyncWrite`] for those to whom messages do not matter: it sends what is
/// written in messages of at most 16 KiB, with the [`Ppid`] of [`Association::stream`]. Flushing waits until
/// the send buffer has taken everything. A stream of SCTP has no end of its own: closing flushes, and the
/// peer reads the end once the association is shut down.
pub struct SendStream {
    association: Association,
    id: StreamId,
    ppid: Ppid,
    write_max: usize,
    /// A message that waits for room.
    sending: Option<Pending<Result<(), SendError>>>,
}

/// Receives from one stream.
///
/// A [`Stream`] of pieces, and an [`AsyncRead`] of their bytes, without the boundaries of messages. It ends
/// once the peer has shut down.
pub struct RecvStream {
    association: Association,
    id: StreamId,
    receiving: Option<Pending<Result<Option<Piece>, Reason>>>,
    /// Bytes of a piece that were not read yet.
    rest: VecDeque<Bytes>,
}

impl Association {
    /// Returns the two directions of a stream, which may move to different tasks. `ppid` is that of messages
    /// which [`AsyncWrite`] sends. SCTP opens no streams: both exist as long as the association lives, as
    /// far as its number of streams reaches.
    pub fn stream(&self, id: StreamId, ppid: Ppid) -> (SendStream, RecvStream) {
        let write_max = self.look(|association| association.config().messages.max_bytes).unwrap_or(WRITE_MAX);
        let association = self.clone();
        let send = SendStream { association, id, ppid, write_max: write_max.min(WRITE_MAX), sending: None };
        let recv = RecvStream { association: self.clone(), id, receiving: None, rest: VecDeque::new() };
        (send, recv)
    }
}

impl SendStream {
    /// The stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Polls the message that waits for room.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let Some(sending) = &mut self.sending else { return Poll::Ready(Ok(())) };
        let sent = ready!(sending.as_mut().poll(cx));
        self.sending = None;
        Poll::Ready(sent)
    }

    /// Sends a message now, or keeps it until there is room.
    fn start(&mut self, message: Message) -> Result<(), SendError> {
        match self.association.try_send(self.id, message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Refused(error)) => Err(error),
            Err(TrySendError::Full(message)) => {
                let (association, id) = (self.association.clone(), self.id);
                self.sending = Some(Box::pin(async move { association.send(id, message).await }));
                Ok(())
            }
        }
    }
}

impl Sink<Message> for SendStream {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_sent(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), SendError> {
        self.get_mut().start(message)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_sent(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_sent(cx)
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_sent(cx)).map_err(to_io)?;
        let len = bytes.len().min(this.write_max);
        if len > 0 {
            this.start(Message::new(this.ppid, Bytes::copy_from_slice(&bytes[..len]))).map_err(to_io)?;
        }
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_sent(cx).map_err(to_io)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_sent(cx).map_err(to_io)
    }
}

impl RecvStream {
    /// The stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Piece>, Reason>> {
        if self.receiving.is_none() {
            match self.association.try_recv(self.id) {
                Ok(piece) => return Poll::Ready(Ok(piece)),
                Err(TryRecvError::Closed(reason)) => return Poll::Ready(Err(reason)),
                Err(TryRecvError::Empty) => {}
            }
        }
        let (association, id) = (&self.association, self.id);
        let receiving = self.receiving.get_or_insert_with(|| {
            let association = association.clone();
            Box::pin(async move { association.recv(id).await })
        });
        let received = ready!(receiving.as_mut().poll(cx));
        self.receiving = None;
        Poll::Ready(received)
    }
}

impl Stream for RecvStream {
    type Item = Result<Piece, Reason>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_piece(cx).map(Result::transpose)
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.rest.is_empty() {
            match ready!(this.poll_piece(cx)) {
                Ok(Some(piece)) => {
                    this.rest.extend(piece.payload.into_iter().filter(|part| !part.is_empty()))
                }
                Ok(None) => return Poll::Ready(Ok(())),
                Err(reason) => return Poll::Ready(Err(to_io(SendError::Closed(reason)))),
            }
        }
        while let Some(first) = this.rest.front_mut()
            && into.remaining() > 0
        {
            let len = first.len().min(into.remaining());
            into.put_slice(&first[..len]);
            first.advance(len);
            if first.is_empty() {
                this.rest.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn to_io(error: SendError) -> io::Error {
    let kind = match error {
        SendError::ShuttingDown | SendError::Closed(Reason::Shutdown) => io::ErrorKind::BrokenPipe,
        SendError::Closed(_) => io::ErrorKind::ConnectionAborted,
        SendError::NotProtected => io::ErrorKind::NotConnected,
        SendError::TooLong | SendError::Empty | SendError::NoSuchStream => io::ErrorKind::InvalidInput,
    };
    io::Error::new(kind, error)
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("association", &self.association).field("id", &self.id).finish()
    }
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStream").field("association", &self.association).field("id", &self.id).finish()
    }
}
