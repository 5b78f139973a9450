//! braid: framed transfers on several data streams of one association (specs/ftp-over-sctp.md §6).
//!
//! One task a stream and direction. Whichever stream a download comes on, its number finds its sink; whichever stream
//! is free takes the next upload.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braidftp_ftp::client::Tag;
use braidftp_ftp::mapping::frame::{BYTES_MAX, Credit, FrameError, Header, Trailer};
use braidftp_ftp::mapping::pool::CreditPool;
use braidftp_ftp::mapping::receiver::{End, Incoming, Lengths, Piece, Receiver};
use braidftp_ftp::mapping::sender::{Sender, freest};
use braidftp_ftp::mapping::{TransferNumber, ppid};
use braidftp_net::{Association, Message, Ppid, StreamId};
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use super::Note;
use super::messages::{Out, endless, joined, violation};
use crate::client::DISCARDED_BYTES_MAX;
use crate::client::body::{Body, DataEnd, Pump, Sink, Source, timestamp};
use crate::client::errors::lost;
use crate::exit::{Error, Exit, Result};
use crate::store::fs::Change;

/// The status of a trailer that ends a transfer in order.
const COMPLETE: u16 = 226;
/// This side was told to stop.
const STOPPED: u16 = 426;
/// This side's file cannot be read on.
const UNREADABLE: u16 = 451;

/// Room in the receive buffer for the control stream, beside the credit of the data streams
/// (specs/ftp-over-sctp.md §6.6).
pub(super) const CONTROL_BUFFER_BYTES: usize = 128 << 10;

/// What the data streams may let lie unread.
fn data_buffer_bytes(association: &Association) -> u64 {
    association.receive_buffer_bytes().saturating_sub(CONTROL_BUFFER_BYTES) as u64
}

/// The data streams.
#[derive(Debug)]
pub(super) struct Framed {
    downloads: Downloads,
    uploads: Option<mpsc::UnboundedSender<Upload>>,
    cancels: BTreeMap<Tag, Arc<AtomicBool>>,
    senders: Senders,
    notes: mpsc::Sender<Note>,
}

/// Downloads whose frames have not come, by number.
#[derive(Debug, Clone, Default)]
struct Downloads(Arc<DownloadTable>);

#[derive(Debug, Default)]
struct DownloadTable {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    sinks: BTreeMap<TransferNumber, (Tag, Sink)>,
    /// Given up by the session: frames that come are thrown away.
    given_up: BTreeMap<TransferNumber, ()>,
    numbers: BTreeMap<Tag, TransferNumber>,
    /// The highest number that was asked for.
    last: u32,
}

impl Downloads {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Upload {
    tag: Tag,
    number: TransferNumber,
    source: Box<Source>,
    cancelled: Arc<AtomicBool>,
}

/// The sending ends of the data streams, and who waits for their credit.
#[derive(Debug, Clone)]
pub(super) struct Senders(Arc<Vec<(Mutex<Sender>, Notify)>>);

impl Senders {
    fn of(&self, stream: u16) -> Option<(MutexGuard<'_, Sender>, &Notify)> {
        let (sender, credited) = self.0.get(usize::from(stream.checked_sub(1)?))?;
        Some((sender.lock().unwrap_or_else(PoisonError::into_inner), credited))
    }

    /// A CREDIT came.
    pub(super) fn on_credit(&self, payload: &[u8]) -> Result<(), FrameError> {
        let credit = Credit::decode(payload)?;
        let (mut sender, credited) = self.of(credit.stream).ok_or(FrameError::Field)?;
        sender.on_credit(credit)?;
        credited.notify_one();
        Ok(())
    }
}

impl Framed {
    pub(super) fn new(
        association: &Association,
        pump: &Pump,
        notes: &mpsc::Sender<Note>,
        control: &mpsc::UnboundedSender<Out>,
        streams: u16,
    ) -> Self {
        let pool = CreditPool::new(streams, data_buffer_bytes(association));
        let pool = Arc::new(Mutex::new(pool));
        let downloads = Downloads::default();
        let senders =
            Senders(Arc::new((1..=streams).map(|s| (Mutex::new(Sender::new(s)), Notify::new())).collect()));
        let (uploads, queue) = mpsc::unbounded_channel();
        let queue = Arc::new(tokio::sync::Mutex::new(queue));
        let free = Arc::new(Mutex::new((1..=streams).collect::<Vec<_>>()));
        for stream in 1..=streams {
            let inbound = Inbound {
                association: association.clone(),
                stream,
                pump: pump.clone(),
                notes: notes.clone(),
                control: control.clone(),
                downloads: downloads.clone(),
                receiver: Receiver::new(stream),
                pool: pool.clone(),
            };
            tokio::spawn(inbound.run());
            let outbound = Outbound {
                association: association.clone(),
                stream,
                free: free.clone(),
                pump: pump.clone(),
                notes: notes.clone(),
                queue: queue.clone(),
                senders: senders.clone(),
            };
            tokio::spawn(outbound.run());
        }
        Self { downloads, uploads: Some(uploads), cancels: BTreeMap::new(), senders, notes: notes.clone() }
    }

    pub(super) fn senders(&self) -> Senders {
        self.senders.clone()
    }

    pub(super) fn pump_data(&mut self, tag: Tag, number: TransferNumber, body: Body) {
        match body {
            Body::Sink(sink) => {
                let mut waiting = self.downloads.lock();
                waiting.sinks.insert(number, (tag, sink));
                waiting.numbers.insert(tag, number);
                waiting.last = waiting.last.max(number.0);
                drop(waiting);
                self.downloads.0.arrived.notify_waiters();
            }
            Body::Source(source) => {
                {
                    let mut waiting = self.downloads.lock();
                    waiting.last = waiting.last.max(number.0);
                }
                let cancelled = Arc::new(AtomicBool::new(false));
                self.cancels.retain(|_, cancelled| Arc::strong_count(cancelled) > 1);
                self.cancels.insert(tag, cancelled.clone());
                let upload = Upload { tag, number, source, cancelled };
                let upload = match &self.uploads {
                    Some(queue) => match queue.send(upload) {
                        Ok(()) => return,
                        Err(mpsc::error::SendError(upload)) => upload,
                    },
                    None => upload,
                };
                self.tell(upload.tag, Body::Source(upload.source), lost("stopped"));
            }
        }
    }

    fn tell(&self, tag: Tag, body: Body, error: Error) {
        let notes = self.notes.clone();
        tokio::spawn(async move {
            let end = DataEnd { error: Some(error), ..DataEnd::default() };
            let _ = notes.send(Note::DataDone(tag, body, end)).await;
        });
    }

    /// The session has a final reply that says no: frames that still come are thrown away, an upload breaks off.
    pub(super) fn cancel(&mut self, tag: Tag) {
        if let Some(cancelled) = self.cancels.remove(&tag) {
            cancelled.store(true, Ordering::Relaxed);
            // Whoever waits for credit looks again.
            for (_, credited) in self.senders.0.iter() {
                credited.notify_one();
            }
            return;
        }
        let mut waiting = self.downloads.lock();
        let Some(number) = waiting.numbers.remove(&tag) else { return };
        if let Some((tag, sink)) = waiting.sinks.remove(&number) {
            waiting.given_up.insert(number, ());
            drop(waiting);
            self.tell(tag, Body::Sink(sink), lost("given up"));
        }
    }

    pub(super) fn stop(&mut self) {
        self.uploads = None;
        let mut waiting = self.downloads.lock();
        waiting.numbers.clear();
        let sinks = std::mem::take(&mut waiting.sinks);
        drop(waiting);
        for (tag, sink) in sinks.into_values() {
            self.tell(tag, Body::Sink(sink), lost("stopped"));
        }
    }
}

/// Takes what one data stream brings.
struct Inbound {
    association: Association,
    stream: u16,
    pump: Pump,
    notes: mpsc::Sender<Note>,
    control: mpsc::UnboundedSender<Out>,
    downloads: Downloads,
    receiver: Receiver,
    /// The credit of all data streams.
    pool: Arc<Mutex<CreditPool>>,
}

/// The download whose frames come.
struct Current {
    /// None: nobody wants it any more.
    to: Option<(Tag, Sink)>,
    end: DataEnd,
    /// Bytes that were thrown away.
    discarded: u64,
}

impl Inbound {
    async fn run(mut self) {
        let mut current = None;
        let mut stop = self.pump.stop.clone();
        let result = tokio::select! {
            result = self.receive(&mut current) => result,
            _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
        };
        let Err(error) = result else { return };
        let given_up = current.as_ref().is_some_and(|current| current.discarded > DISCARDED_BYTES_MAX);
        if let Some(Current { to: Some((tag, sink)), mut end, .. }) = current {
            end.error.get_or_insert(error.clone());
            let _ = self.notes.send(Note::DataDone(tag, Body::Sink(sink), end)).await;
        }
        if error.exit == Exit::Protocol || given_up {
            let _ = self.notes.send(Note::Fatal(error)).await;
        }
    }

    async fn receive(&mut self, current: &mut Option<Current>) -> Result<()> {
        loop {
            let piece = self.association.recv(StreamId(self.stream)).await;
            let piece = piece.map_err(|reason| lost(format_args!("the association ended: {reason}")))?;
            // After the goodbye nothing comes any more; before it, the control stream tells.
            let Some(piece) = piece else { return Ok(()) };
            self.pump.activity.heard();
            let bytes = piece.ppid.0 == ppid::BYTES;
            let whole = if bytes { Bytes::new() } else { joined(&piece) };
            let end = if piece.end { End::Last } else { End::More };
            if bytes {
                for part in piece.payload {
                    self.take(Piece { ppid: ppid::BYTES, payload: &part, end }, current).await?;
                    self.bytes(part, current).await?;
                }
            } else {
                self.take(Piece { ppid: piece.ppid.0, payload: &whole, end }, current).await?;
            }
        }
    }

    async fn take(&mut self, piece: Piece<'_>, current: &mut Option<Current>) -> Result<()> {
        let incoming = self.receiver.on_piece(piece).map_err(|error| violation(&self.association, &error))?;
        if matches!(incoming, Incoming::Trailer(..)) {
            self.grant();
        }
        match incoming {
            Incoming::Nothing | Incoming::Bytes => {}
            Incoming::Header(header) => {
                let mut begun = self.begin(&header).await?;
                begun.end.header = Some(header);
                if let Some((_, sink)) = &mut begun.to
                    && let Err(error) = sink.begin(&header)
                {
                    begun.end.error = Some(error);
                }
                *current = Some(begun);
            }
            Incoming::Trailer(trailer, lengths) => {
                let Some(Current { to: Some((tag, sink)), mut end, .. }) = current.take() else {
                    return Ok(());
                };
                end.trailer = Some(trailer);
                if end.error.is_none() {
                    end.error = judge(&trailer, lengths, &sink).err();
                }
                let _ = self.notes.send(Note::DataDone(tag, Body::Sink(sink), end)).await;
            }
        }
        Ok(())
    }

    async fn bytes(&mut self, part: Bytes, current: &mut Option<Current>) -> Result<()> {
        let length = part.len() as u64;
        if let Some(Current { to, end, discarded }) = current {
            end.bytes += length;
            // What cannot be kept is thrown away to the trailer: the next file lies behind it.
            match (to, &end.error) {
                (Some((_, sink)), None) => end.error = sink.write(&self.pump, part).await.err(),
                (to, first) => {
                    *discarded += length;
                    if *discarded > DISCARDED_BYTES_MAX {
                        let over = to.as_ref().is_none_or(|(_, sink)| sink.is_over());
                        return Err(endless(over, first.as_ref()));
                    }
                }
            }
        }
        self.receiver.consume(length);
        self.grant();
        Ok(())
    }

    /// Sends the credit that is due.
    fn grant(&mut self) {
        // The credit grows with the buffer, which never shrinks.
        let bytes = data_buffer_bytes(&self.association);
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.set_bytes(bytes);
        if let Some(credit) = pool.grant(&mut self.receiver) {
            // Without a control stream there is no one to send on.
            let _ = self.control.send(Out::Credit(credit));
        }
    }

    /// Finds the download that a header is for. Its command was sent before, so that it is there, or is being put
    /// there this very moment.
    async fn begin(&self, header: &Header) -> Result<Current> {
        let number = header.transfer;
        loop {
            let arrived = self.downloads.0.arrived.notified();
            {
                let mut waiting = self.downloads.lock();
                if let Some((tag, sink)) = waiting.sinks.remove(&number) {
                    waiting.numbers.remove(&tag);
                    return Ok(Current { to: Some((tag, sink)), end: DataEnd::default(), discarded: 0 });
                }
                if waiting.given_up.remove(&number).is_some() {
                    return Ok(Current { to: None, end: DataEnd::default(), discarded: 0 });
                }
                if number.0 <= waiting.last {
                    let why = format!("frames of transfer {}, which is none or has had its frames", number.0);
                    return Err(violation(&self.association, &why));
                }
            }
            if tokio::time::timeout(std::time::Duration::from_secs(1), arrived).await.is_err() {
                let why = format!("frames of transfer {}, which nobody has asked for", number.0);
                return Err(violation(&self.association, &why));
            }
        }
    }
}

/// Whether a download is all there, as far as its trailer says (specs/ftp-over-sctp.md §6.3).
fn judge(trailer: &Trailer, lengths: Lengths, sink: &Sink) -> Result<()> {
    if !trailer.is_complete() {
        let why = match trailer.status {
            UNREADABLE => "the file was cut, or could not be read on, while it was sent".to_owned(),
            STOPPED => "the server gave the transfer up".to_owned(),
            other => format!("the server broke the transfer off with {other}"),
        };
        return Err(Error::new(Exit::Refused, "fetch the file", why).hint("the same command again"));
    }
    if lengths == Lengths::Differ {
        return Err(Error::new(
            Exit::Verify,
            "fetch the file",
            "the number of bytes that came is not the one that the server says it sent",
        ));
    }
    sink.check(trailer)
}

/// Sends uploads, each on a data stream that is free.
struct Outbound {
    association: Association,
    /// The stream of the upload under way.
    stream: u16,
    /// The streams without an upload.
    free: Arc<Mutex<Vec<u16>>>,
    pump: Pump,
    notes: mpsc::Sender<Note>,
    queue: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Upload>>>,
    senders: Senders,
}

impl Outbound {
    async fn run(mut self) {
        //= specs/ftp-over-sctp.md#section-7.5
        //# uploads SHOULD wait until the association is up.
        if self.association.up().await.is_err() {
            // Whoever takes the last look at the queue hands back what is in it.
            self.hand_back_all().await;
            return;
        }
        let mut stop = self.pump.stop.clone();
        loop {
            // The queue is held until the HEADER is out: headers go in ascending order over all streams (§6.3).
            let mut queue = self.queue.lock().await;
            let upload = tokio::select! {
                upload = queue.recv() => upload,
                _ = stop.wait_for(|stop| *stop) => None,
            };
            let Some(mut upload) = upload else { break };
            self.stream = self.take_free();
            let mut end = DataEnd::default();
            let begun = tokio::select! {
                begun = self.begin(&mut upload) => begun,
                _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
            };
            drop(queue);
            let result = match begun {
                Err(error) => Err(error),
                Ok(opened) => tokio::select! {
                    result = self.send(&mut upload, opened, &mut end.bytes) => result,
                    _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
                },
            };
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.stream);
            upload.source.close();
            end.error = result.err();
            let done = Note::DataDone(upload.tag, Body::Source(upload.source), end);
            if self.notes.send(done).await.is_err() {
                return;
            }
        }
        self.hand_back_all().await;
    }

    /// Takes the free stream with the most credit. There is one, because there are as many streams as tasks.
    fn take_free(&self) -> u16 {
        let room = |stream: u16| self.senders.of(stream).map_or(0, |(sender, _)| sender.room());
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = freest(free.iter().map(|stream| (*stream, room(*stream)))).unwrap_or(self.stream);
        free.retain(|other| *other != stream);
        stream
    }

    async fn hand_back_all(&self) {
        let mut queue = self.queue.lock().await;
        while let Ok(upload) = queue.try_recv() {
            let end = DataEnd { error: Some(lost("stopped")), ..DataEnd::default() };
            let _ = self.notes.send(Note::DataDone(upload.tag, Body::Source(upload.source), end)).await;
        }
    }

    /// Opens the file and sends the HEADER. The inner result is of the file: a transfer that cannot be read still
    /// needs its frames, because its number is counted.
    async fn begin(&self, upload: &mut Upload) -> Result<Result<()>> {
        let mut header =
            Header { transfer: upload.number, offset: upload.source.offset(), size: None, modified: None };
        let opened = match upload.source.open().await {
            Ok(metadata) => {
                header.size = Some(metadata.size);
                header.modified = Some(timestamp(metadata.modified));
                Ok(())
            }
            Err(error) => Err(error),
        };
        let payload = match self.senders.of(self.stream) {
            Some((mut sender, _)) => sender.begin(&header),
            None => return Err(lost("no such stream")),
        };
        self.put(ppid::HEADER, payload).await?;
        Ok(opened)
    }

    async fn send(&self, upload: &mut Upload, opened: Result<()>, moved: &mut u64) -> Result<()> {
        let (status, digest, result) = match opened {
            Err(error) => (UNREADABLE, *blake3::hash(b"").as_bytes(), Err(error)),
            Ok(()) => self.send_bytes(upload, moved).await?,
        };
        let payload = match self.senders.of(self.stream) {
            Some((mut sender, _)) => sender.finish(status, digest),
            None => return Err(lost("no such stream")),
        };
        self.put(ppid::TRAILER, payload).await?;
        result
    }

    /// Sends the bytes; says how the trailer must end it.
    async fn send_bytes(&self, upload: &mut Upload, moved: &mut u64) -> Result<(u16, [u8; 32], Result<()>)> {
        let mut sent = blake3::Hasher::new();
        loop {
            let mut block = match upload.source.next(&self.pump).await {
                Ok(Some(block)) => block,
                Ok(None) => break,
                Err(error) => return Ok((UNREADABLE, *sent.finalize().as_bytes(), Err(error))),
            };
            while !block.is_empty() {
                let room = tokio::select! {
                    room = self.room() => room,
                    () = self.is_cancelled(upload) => 0,
                };
                if room == 0 || upload.cancelled.load(Ordering::Relaxed) {
                    return Ok((
                        STOPPED,
                        *sent.finalize().as_bytes(),
                        Err(lost("the server refused the file")),
                    ));
                }
                let room = usize::try_from(room).unwrap_or(usize::MAX);
                let part = block.split_to(block.len().min(BYTES_MAX).min(room));
                let bytes = part.len() as u64;
                sent.update(&part);
                if let Some((mut sender, _)) = self.senders.of(self.stream) {
                    sender.on_sent(bytes);
                }
                self.put(ppid::BYTES, part).await?;
                *moved += bytes;
                upload.source.sent(&self.pump, bytes);
            }
        }
        let digest = *sent.finalize().as_bytes();
        match upload.source.summary() {
            Some(summary) if summary.change == Change::Written => {
                let error = Error::new(Exit::Local, "send the file", "it was written to while it was sent")
                    .hint("the same command again, when nobody writes to it");
                Ok((UNREADABLE, digest, Err(error)))
            }
            _ => Ok((COMPLETE, digest, Ok(()))),
        }
    }

    async fn is_cancelled(&self, upload: &Upload) {
        while !upload.cancelled.load(Ordering::Relaxed) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Waits for credit.
    async fn room(&self) -> u64 {
        loop {
            let Some((_, credited)) = self.senders.0.get(usize::from(self.stream - 1)) else { return 0 };
            let mut looked = std::pin::pin!(credited.notified());
            looked.as_mut().enable();
            if let Some((sender, _)) = self.senders.of(self.stream)
                && sender.room() > 0
            {
                return sender.room();
            }
            looked.await;
        }
    }

    async fn put(&self, kind: u32, payload: Bytes) -> Result<()> {
        let sent = self.association.send(StreamId(self.stream), Message::new(Ppid(kind), payload)).await;
        sent.map_err(|error| lost(format_args!("the association: {error}")))?;
        self.pump.activity.heard();
        Ok(())
    }
}
