//! The task of one association: moves its messages and events into the socket's inbox, in an order that RFC 6458 permits:
//! events before messages received later, the peer's shutdown after everything that the peer sent, and the end last.

use std::sync::Arc;

use braidftp_net::{Association, Event, Order, Piece, Reason, StreamId};
use bytes::Bytes;

use crate::abi::{SCTP_UNORDERED, sctp_assoc_t, sctp_rcvinfo};
use crate::notices::Notices;
use crate::socket::{Item, Socket};

/// What the association did.
enum Next {
    Event(Result<Event, Reason>),
    Piece(Result<Option<(StreamId, Piece)>, Reason>),
}

/// Runs until the association has ended or the socket is closed.
pub(crate) async fn pump(socket: Arc<Socket>, id: sctp_assoc_t, association: Association) {
    let notices = Notices { socket: &socket, association: &association, id };
    let mut state = Progress::default();
    let reason = loop {
        let next = tokio::select! {
            biased;
            event = association.event(), if state.ended.is_none() => Next::Event(event),
            piece = next_piece(&association, state.within), if !state.is_drained => Next::Piece(piece),
            else => break state.ended.unwrap_or(Reason::Shutdown),
        };
        match next {
            Next::Event(Ok(event @ Event::PeerShutdown)) if !state.is_drained => state.held = Some(event),
            Next::Event(Ok(event)) => {
                if matches!(event, Event::Up(_)) {
                    state.was_up = true;
                }
                let is_up = matches!(event, Event::Up(_));
                tell(&socket, &notices, &event).await;
                if is_up {
                    socket.on_up(id);
                }
            }
            Next::Event(Err(reason)) => state.ended = Some(reason),
            Next::Piece(Ok(Some((stream, piece)))) => {
                state.within = Some(stream).filter(|_| !piece.end);
                if piece.aborted
                    && let Some(aborted) = notices.partial_delivery_aborted(stream, &piece)
                {
                    socket.push(aborted).await;
                }
                if let Some(item) = message(&socket, &association, id, stream, piece) {
                    socket.push(item).await;
                }
            }
            Next::Piece(Ok(None) | Err(_)) => {
                state.is_drained = true;
                if let Some(event) = state.held.take() {
                    tell(&socket, &notices, &event).await;
                }
            }
        }
    };
    if let Some(end) = notices.end(&reason, state.was_up) {
        socket.push(end).await;
    }
    socket.on_end(id, reason);
}

/// The state of the task.
#[derive(Default)]
struct Progress {
    /// The stream of a message of which a part was delivered: the rest comes before any other message.
    within: Option<StreamId>,
    was_up: bool,
    /// Whether everything that the peer sent was delivered.
    is_drained: bool,
    /// The peer's shutdown, reported after that.
    held: Option<Event>,
    ended: Option<Reason>,
}

async fn next_piece(
    association: &Association,
    within: Option<StreamId>,
) -> Result<Option<(StreamId, Piece)>, Reason> {
    match within {
        Some(stream) => Ok(association.recv(stream).await?.map(|piece| (stream, piece))),
        None => association.recv_any().await,
    }
}

async fn tell(socket: &Arc<Socket>, notices: &Notices<'_>, event: &Event) {
    for item in notices.of(event) {
        socket.push(item).await;
    }
}

/// A message, or part of one; `None` for the empty end of an abandoned one.
fn message(
    socket: &Socket,
    association: &Association,
    id: sctp_assoc_t,
    stream: StreamId,
    piece: Piece,
) -> Option<Item> {
    if piece.is_empty() {
        return None;
    }
    let info = sctp_rcvinfo {
        rcv_sid: stream.0,
        // The lower half of a MID, with I-DATA.
        rcv_ssn: piece.number as u16,
        rcv_flags: if piece.order == Order::Unordered { SCTP_UNORDERED } else { 0 },
        rcv_ppid: piece.ppid.0.to_be(),
        rcv_tsn: piece.tsn.0,
        rcv_cumtsn: piece.tsn.0,
        rcv_context: socket.lock().options.context,
        rcv_assoc_id: id,
    };
    let flags = if piece.end && !piece.aborted { libc::MSG_EOR } else { 0 };
    let payload = match <[Bytes; 1]>::try_from(piece.payload) {
        Ok([whole]) => whole,
        Err(slices) => slices.concat().into(),
    };
    Some(Item { payload, from: socket.peer_of(association), info, flags })
}
