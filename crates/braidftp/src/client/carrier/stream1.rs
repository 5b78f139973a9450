//! ms and ms-cp: all data on stream 1 of the control association, one transfer after another, ended by count or by
//! message (specs/ftp-over-sctp.md §4).

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braidftp_ftp::client::{Data, Tag};
use braidftp_ftp::mapping::frame::BYTES_MAX;
use braidftp_ftp::mapping::{DATA_STREAM, LISTING_MESSAGE_MAX, ppid};
use braidftp_net::{Association, Message, Ppid, StreamId};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::Note;
use super::messages::endless;
use crate::client::DISCARDED_BYTES_MAX;
use crate::client::body::{Body, DataEnd, Pump, Sink, Source};
use crate::client::errors::lost;
use crate::exit::{Error, Exit, Result};

/// The two directions of stream 1.
#[derive(Debug)]
pub(super) struct Stream1 {
    receive: Option<mpsc::UnboundedSender<(Tag, Data, Sink)>>,
    send: Option<mpsc::UnboundedSender<(Tag, u64, Box<Source>)>>,
    cancelled: Cancelled,
    notes: mpsc::Sender<Note>,
}

#[derive(Debug, Clone, Default)]
struct Cancelled(Arc<Mutex<BTreeSet<Tag>>>);

impl Cancelled {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Tag>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream1 {
    pub(super) fn new(association: &Association, pump: &Pump, notes: &mpsc::Sender<Note>) -> Self {
        let (receive, to_receive) = mpsc::unbounded_channel();
        let (send, to_send) = mpsc::unbounded_channel();
        let cancelled = Cancelled::default();
        let receiver = Receiving {
            association: association.clone(),
            pump: pump.clone(),
            over: VecDeque::new(),
            at_end: false,
        };
        tokio::spawn(receive_all(receiver, to_receive, notes.clone()));
        tokio::spawn(send_all(association.clone(), pump.clone(), to_send, cancelled.clone(), notes.clone()));
        Self { receive: Some(receive), send: Some(send), cancelled, notes: notes.clone() }
    }

    pub(super) fn pump_data(&mut self, tag: Tag, data: Data, body: Body) {
        let refused = match (body, data) {
            (Body::Sink(sink), data) => match &self.receive {
                Some(queue) => match queue.send((tag, data, sink)) {
                    Ok(()) => return,
                    Err(mpsc::error::SendError((_, _, sink))) => Body::Sink(sink),
                },
                None => Body::Sink(sink),
            },
            (Body::Source(source), Data::Counted(length)) => match &self.send {
                Some(queue) => match queue.send((tag, length, source)) {
                    Ok(()) => return,
                    Err(mpsc::error::SendError((_, _, source))) => Body::Source(source),
                },
                None => Body::Source(source),
            },
            (body, _) => body,
        };
        let notes = self.notes.clone();
        tokio::spawn(async move {
            let end = DataEnd { error: Some(lost("stopped")), ..DataEnd::default() };
            let _ = notes.send(Note::DataDone(tag, refused, end)).await;
        });
    }

    pub(super) fn cancel(&mut self, tag: Tag) {
        self.cancelled.lock().insert(tag);
    }

    pub(super) fn stop(&mut self) {
        self.receive = None;
        self.send = None;
    }
}

/// Reads bytes from stream 1, in order.
struct Receiving {
    association: Association,
    pump: Pump,
    /// Bytes of the last piece that belong to the next transfer.
    over: VecDeque<Bytes>,
    /// Whether a message ended at the beginning of `over`.
    at_end: bool,
}

impl Receiving {
    /// Returns the next bytes, at most `most`.
    async fn next(&mut self, most: u64) -> Result<Bytes> {
        while self.over.is_empty() {
            let piece = self.association.recv(StreamId(DATA_STREAM)).await;
            let piece = piece.map_err(|reason| lost(format_args!("the association ended: {reason}")))?;
            let piece = piece.ok_or_else(|| lost("the server ended the association"))?;
            self.at_end = piece.end;
            self.over.extend(piece.payload.into_iter().filter(|part| !part.is_empty()));
            if self.over.is_empty() && self.at_end {
                return Ok(Bytes::new());
            }
        }
        let mut first = self.over.pop_front().unwrap_or_default();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if first.len() > most {
            let rest = first.split_off(most);
            self.over.push_front(rest);
        }
        Ok(first)
    }

    async fn file(&mut self, length: u64, sink: &mut Sink, end: &mut DataEnd) -> Result<()> {
        while end.bytes < length {
            let bytes = self.next(length - end.bytes).await?;
            end.bytes += bytes.len() as u64;
            // Content that cannot be stored is still read from the stream, because the next file follows.
            if end.error.is_none()
                && let Err(error) = sink.write(&self.pump, bytes).await
            {
                if length - end.bytes > DISCARDED_BYTES_MAX {
                    let end_of_all = endless(sink.is_over(), Some(&error));
                    end.error = Some(error);
                    return Err(end_of_all);
                }
                end.error = Some(error);
            }
        }
        Ok(())
    }

    async fn message(&mut self, sink: &mut Sink, end: &mut DataEnd) -> Result<()> {
        loop {
            let bytes = self.next(u64::MAX).await?;
            end.bytes += bytes.len() as u64;
            if end.bytes > LISTING_MESSAGE_MAX as u64 {
                return Err(Error::new(Exit::Protocol, "read the listing", "it is longer than 16 MiB")
                    .hint("--mode braid has no such limit"));
            }
            let over = self.over.is_empty() && self.at_end;
            if end.error.is_none()
                && let Err(error) = sink.write(&self.pump, bytes).await
            {
                end.error = Some(error);
            }
            if over {
                return Ok(());
            }
        }
    }
}

async fn receive_all(
    mut receiving: Receiving,
    mut queue: mpsc::UnboundedReceiver<(Tag, Data, Sink)>,
    notes: mpsc::Sender<Note>,
) {
    let mut stop = receiving.pump.stop.clone();
    let mut broken: Option<Error> = None;
    while let Some((tag, data, mut sink)) = queue.recv().await {
        let mut end = DataEnd::default();
        let result = match &broken {
            Some(error) => Err(error.clone()),
            None => tokio::select! {
                result = async {
                    match data {
                        Data::Counted(length) => receiving.file(length, &mut sink, &mut end).await,
                        _ => receiving.message(&mut sink, &mut end).await,
                    }
                } => result,
                _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
            },
        };
        let mut fatal = None;
        if let Err(error) = result {
            // The next transfer follows bytes that nobody reads.
            fatal = broken.is_none().then(|| Note::Fatal(error.clone()));
            broken = Some(error.clone());
            end.error.get_or_insert(error);
        }
        if notes.send(Note::DataDone(tag, Body::Sink(sink), end)).await.is_err() {
            return;
        }
        if let Some(fatal) = fatal {
            let _ = notes.send(fatal).await;
        }
    }
}

async fn send_all(
    association: Association,
    pump: Pump,
    mut queue: mpsc::UnboundedReceiver<(Tag, u64, Box<Source>)>,
    cancelled: Cancelled,
    notes: mpsc::Sender<Note>,
) {
    let mut stop = pump.stop.clone();
    let mut broken: Option<Error> = None;
    while let Some((tag, length, mut source)) = queue.recv().await {
        let mut end = DataEnd::default();
        let result = match (&broken, cancelled.lock().remove(&tag)) {
            (Some(error), _) => Err(error.clone()),
            (None, true) => Err(lost("given up")),
            (None, false) => Ok(()),
        };
        let result = match result {
            Err(error) => Err(error),
            Ok(()) => {
                let result = tokio::select! {
                    result = send_file(&association, &mut source, length, &pump, &mut end.bytes) => result,
                    _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
                };
                if let Err(error) = &result {
                    //= specs/ftp-over-sctp.md#section-5.2
                    //# A client that cannot send all the bytes it announced MUST abort the association; the server keeps no file from it.
                    association.abort("cannot send all bytes that were announced");
                    broken = Some(error.clone());
                }
                result
            }
        };
        source.close();
        end.error = result.err();
        if notes.send(Note::DataDone(tag, Body::Source(source), end)).await.is_err() {
            return;
        }
    }
}

async fn send_file(
    association: &Association,
    source: &mut Source,
    length: u64,
    pump: &Pump,
    moved: &mut u64,
) -> Result<()> {
    source.open().await?;
    while *moved < length {
        let Some(mut block) = source.next(pump).await? else {
            return Err(lost(format_args!("the file is shorter than it was: {moved} bytes of {length}")));
        };
        while !block.is_empty() && *moved < length {
            let room = usize::try_from(length - *moved).unwrap_or(usize::MAX);
            let part = block.split_to(block.len().min(BYTES_MAX).min(room));
            let bytes = part.len() as u64;
            let sent = association.send(StreamId(DATA_STREAM), Message::new(Ppid(ppid::PLAIN), part)).await;
            sent.map_err(|error| lost(format_args!("the association: {error}")))?;
            *moved += bytes;
            source.sent(pump, bytes);
        }
    }
    Ok(())
}
