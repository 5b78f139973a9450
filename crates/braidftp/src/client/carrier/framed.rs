//! braid: framed transfers on several data streams of one association (specs/ftp-over-sctp.md §6).
//!
//! There is one task per stream and direction. The number in the frames of a download identifies its sink,
//! whichever stream carries it; the next upload takes any free stream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braidftp_ftp::client::Tag;
use braidftp_ftp::mapping::TransferNumber;
use braidftp_ftp::mapping::frame::{BYTES_MAX, Credit, FrameError, Header, truncated};
use braidftp_ftp::mapping::pool::CreditPool;
use braidftp_ftp::mapping::receiver::{End, Incoming, Piece, Receiver};
use braidftp_ftp::mapping::sender::{Frame, Sender, Then, freest};
use braidftp_net::{Association, Message, Ppid, StreamId};
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::Note;
use super::messages::{Lines, Out, endless, violation};
use crate::client::DISCARDED_BYTES_MAX;
use crate::client::body::{Body, DataEnd, Pump, Sink, Source, timestamp};
use crate::client::errors::lost;
use crate::exit::{Error, Exit, Result};
use crate::store::fs::Change;

/// Status of BREAK: this side was stopped.
const STOPPED: u16 = 426;
/// Status of BREAK: the local file became unreadable.
const UNREADABLE: u16 = 451;

/// The number of uploads from which on those that have ended are forgotten: more than can be under way.
const CANCELS_KEPT: usize = 1024;

/// The space in the receive buffer for the control stream, in addition to the credit of the data streams
/// (specs/ftp-over-sctp.md §6.6).
pub(super) const CONTROL_BUFFER_BYTES: usize = 128 << 10;

/// The size of the receive buffer for the data streams.
fn data_buffer_bytes(association: &Association) -> u64 {
    association.receive_buffer_bytes().saturating_sub(CONTROL_BUFFER_BYTES) as u64
}

/// The data streams.
#[derive(Debug)]
pub(super) struct Framed {
    downloads: Downloads,
    uploads: Option<mpsc::UnboundedSender<Upload>>,
    lines: Arc<Lines>,
    cancels: BTreeMap<Tag, Arc<AtomicBool>>,
    senders: Senders,
    notes: mpsc::Sender<Note>,
}

/// Downloads whose frames have not arrived, by number.
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
    /// Cancelled downloads: their frames are discarded.
    given_up: BTreeMap<TransferNumber, ()>,
    numbers: BTreeMap<Tag, TransferNumber>,
    /// The highest number requested so far.
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
    /// The blocks of lines up to that of its command.
    behind: u64,
}

/// The senders of the data streams, and notifications for tasks that wait for credit.
#[derive(Debug, Clone)]
pub(super) struct Senders(Arc<Vec<(Mutex<Sender>, Notify)>>);

impl Senders {
    fn of(&self, stream: u16) -> Option<(MutexGuard<'_, Sender>, &Notify)> {
        let (sender, credited) = self.0.get(usize::from(stream.checked_sub(1)?))?;
        Some((sender.lock().unwrap_or_else(PoisonError::into_inner), credited))
    }

    /// Processes a CREDIT.
    pub(super) fn on_credit(&self, payload: &[u8]) -> Result<(), FrameError> {
        let credit = Credit::decode(payload)?;
        let (mut sender, credited) = self.of(credit.stream).ok_or(FrameError::Field)?;
        sender.on_credit(credit)?;
        credited.notify_one();
        Ok(())
    }
}

impl Framed {
    /// Starts the tasks of the data streams. `readers` gets those that receive: they end when all data that arrived before the
    /// end of the association was read.
    pub(super) fn new(
        association: &Association,
        pump: &Pump,
        notes: &mpsc::Sender<Note>,
        (control, lines): (&mpsc::UnboundedSender<Out>, &Arc<Lines>),
        readers: &mut JoinSet<()>,
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
            readers.spawn(inbound.run());
            let outbound = Outbound {
                association: association.clone(),
                stream,
                free: free.clone(),
                pump: pump.clone(),
                notes: notes.clone(),
                queue: queue.clone(),
                senders: senders.clone(),
                lines: lines.clone(),
            };
            tokio::spawn(outbound.run());
        }
        let lines = lines.clone();
        Self {
            downloads,
            uploads: Some(uploads),
            lines,
            cancels: BTreeMap::new(),
            senders,
            notes: notes.clone(),
        }
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
                if self.cancels.len() >= CANCELS_KEPT {
                    self.cancels.retain(|_, cancelled| Arc::strong_count(cancelled) > 1);
                }
                self.cancels.insert(tag, cancelled.clone());
                let upload = Upload { tag, number, source, cancelled, behind: self.lines.queued() };
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

    /// Cancels a transfer after an error reply: further frames of a download are discarded, and an upload is
    /// aborted.
    pub(super) fn cancel(&mut self, tag: Tag) {
        if let Some(cancelled) = self.cancels.remove(&tag) {
            cancelled.store(true, Ordering::Relaxed);
            // Tasks that wait for credit check again.
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

/// Receives the frames of one data stream.
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

/// The download whose frames are being received.
struct Current {
    /// `None`: the download was cancelled.
    to: Option<(Tag, Sink)>,
    end: DataEnd,
    /// The number of discarded bytes.
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
            // After the end of the session nothing is expected; before it, the control stream reports the
            // loss.
            let Some(piece) = piece else { return Ok(()) };
            self.pump.activity.heard();
            let count = piece.payload.len();
            for (at, payload) in piece.payload.into_iter().enumerate() {
                let end = if piece.end && at + 1 == count { End::Last } else { End::More };
                let mut handled = self.receiver.handle(Piece { ppid: piece.ppid.0, payload, end });
                while let Some(incoming) = handled
                    .and_then(|()| self.receiver.poll())
                    .map_err(|error| violation(&self.association, &error))?
                {
                    self.take(incoming, current).await?;
                    handled = Ok(());
                }
            }
        }
    }

    async fn take(&mut self, incoming: Incoming, current: &mut Option<Current>) -> Result<()> {
        let result = match incoming {
            Incoming::Bytes(part) => return self.bytes(part, current).await,
            Incoming::Header(header) => {
                let begun = current.insert(self.begin(&header).await?);
                begun.end.header = Some(header);
                if let Some((tag, sink)) = &mut begun.to
                    && let Err(error) = sink.begin(&header).await
                {
                    begun.end.error = Some(error);
                    if sink.is_unnamed() {
                        let _ = self.notes.send(Note::Unwanted(*tag)).await;
                    }
                }
                return Ok(());
            }
            Incoming::Complete(digest) => Ok(digest),
            Incoming::Broken(status) => Err(broken(status)),
        };
        self.grant();
        let Some(Current { to: Some((tag, sink)), mut end, .. }) = current.take() else { return Ok(()) };
        end.digest = result.as_ref().ok().copied();
        if end.error.is_none() {
            end.error = result.and_then(|digest| sink.check(&digest)).err();
        }
        let _ = self.notes.send(Note::DataDone(tag, Body::Sink(sink), end)).await;
        Ok(())
    }

    async fn bytes(&mut self, part: Bytes, current: &mut Option<Current>) -> Result<()> {
        let length = part.len() as u64;
        if let Some(Current { to, end, discarded }) = current {
            end.bytes += length;
            // Content that cannot be stored is discarded to its end, because the next file follows on the
            // stream.
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

    /// Sends credit that is due.
    fn grant(&mut self) {
        // The credit grows with the buffer, which never shrinks.
        let bytes = data_buffer_bytes(&self.association);
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.set_bytes(bytes);
        if let Some(credit) = pool.grant(&mut self.receiver) {
            // Without a control stream no CREDIT can be sent.
            let _ = self.control.send(Out::Credit(credit));
        }
    }

    /// Finds the download of a header. Its command was sent earlier, so the entry exists or is about to be
    /// added.
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
                    let why = format!("frames of transfer {}, which does not exist or has ended", number.0);
                    return Err(violation(&self.association, &why));
                }
            }
            if tokio::time::timeout(std::time::Duration::from_secs(1), arrived).await.is_err() {
                let why = format!("frames of transfer {}, which was not requested", number.0);
                return Err(violation(&self.association, &why));
            }
        }
    }
}

/// The error of a download that the server aborted.
fn broken(status: u16) -> Error {
    let why = match status {
        UNREADABLE => "the file was cut, or could not be read on, while it was sent".to_owned(),
        STOPPED => "the server gave the transfer up".to_owned(),
        other => format!("the server broke the transfer off with {other}"),
    };
    Error::new(Exit::Refused, "fetch the file", why).hint("the same command again")
}

/// Sends uploads, each on a free data stream.
struct Outbound {
    association: Association,
    /// The stream of the current upload.
    stream: u16,
    /// The streams without an upload.
    free: Arc<Mutex<Vec<u16>>>,
    pump: Pump,
    notes: mpsc::Sender<Note>,
    queue: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Upload>>>,
    senders: Senders,
    lines: Arc<Lines>,
}

/// The state of an upload.
struct Moving {
    /// Held until the first frame is sent: no other upload may begin before that. Kept after a short upload.
    turn: Option<tokio::sync::OwnedMutexGuard<mpsc::UnboundedReceiver<Upload>>>,
    /// The stream of the upload.
    stream: Option<u16>,
    /// The number of content bytes passed to the transport.
    bytes: u64,
}

impl Outbound {
    async fn run(mut self) {
        //= specs/ftp-over-sctp.md#section-7.5
        //# uploads SHOULD wait until the association is up.
        if self.association.up().await.is_err() {
            // The last task that leaves the queue returns the remaining entries.
            self.hand_back_all().await;
            return;
        }
        let mut stop = self.pump.stop.clone();
        let mut turn = None;
        loop {
            // The queue is locked until the first frame is sent: headers must be sent in ascending order over
            // all streams (§6.3). After an upload of one frame this task takes the next one: passed from task to task, each small
            // file would be a packet and a system call of its own.
            let mut queue = match turn.take() {
                Some(queue) => queue,
                None => self.queue.clone().lock_owned().await,
            };
            let upload = tokio::select! {
                upload = queue.recv() => upload,
                _ = stop.wait_for(|stop| *stop) => None,
            };
            let Some(mut upload) = upload else { break };
            let mut moving = Moving { turn: Some(queue), stream: None, bytes: 0 };
            let result = tokio::select! {
                result = self.send(&mut upload, &mut moving) => result,
                _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
            };
            let mut end = DataEnd { bytes: moving.bytes, ..DataEnd::default() };
            self.free.lock().unwrap_or_else(PoisonError::into_inner).extend(moving.stream);
            turn = moving.turn;
            upload.source.close();
            end.error = result.err();
            let done = Note::DataDone(upload.tag, Body::Source(upload.source), end);
            if self.notes.send(done).await.is_err() {
                return;
            }
        }
        self.hand_back_all().await;
    }

    /// Takes a free stream for a transfer of this many bytes. There always is one, because there are as many
    /// streams as tasks.
    fn take_free(&self, bytes: Option<u64>) -> u16 {
        let mut streams = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = streams.iter().filter_map(|stream| self.senders.of(*stream)?.0.free());
        let stream = freest(free, bytes).unwrap_or(self.stream);
        streams.retain(|other| *other != stream);
        stream
    }

    async fn hand_back_all(&self) {
        let mut queue = self.queue.lock().await;
        while let Ok(upload) = queue.try_recv() {
            let end = DataEnd { error: Some(lost("stopped")), ..DataEnd::default() };
            let _ = self.notes.send(Note::DataDone(upload.tag, Body::Source(upload.source), end)).await;
        }
    }

    /// Opens the file and sends it. Frames are also sent for an unreadable file, because its number is
    /// counted.
    async fn send(&mut self, upload: &mut Upload, moving: &mut Moving) -> Result<()> {
        let opened = upload.source.open().await;
        self.lines.wait_for(upload.behind).await;
        let found = opened.as_ref().ok();
        let offset = upload.source.offset();
        let header = Header {
            transfer: upload.number,
            offset,
            size: found.map(|found| found.size),
            modified: found.map(|found| timestamp(found.modified)),
        };
        self.stream = self.take_free(found.map(|found| found.size.saturating_sub(offset)));
        moving.stream = Some(self.stream);
        match self.senders.of(self.stream) {
            Some((mut sender, _)) if sender.transfer().is_none() => sender.begin(header),
            // A stream in the middle of a transfer belongs to an association that has ended.
            _ => return Err(lost("the association ended")),
        }
        let stopped = match opened {
            Err(error) => Err((UNREADABLE, error)),
            Ok(_) => self.send_bytes(upload, moving).await?,
        };
        let Err((status, error)) = stopped else { return Ok(()) };
        // An upload that the server refused need not begin.
        if moving.turn.is_some() && status != STOPPED {
            self.put_content(Bytes::new(), Then::More, moving).await?;
        }
        let end = self.senders.of(self.stream).and_then(|(mut sender, _)| sender.break_off(status));
        if let Some(end) = end {
            self.put(end, moving).await?;
        }
        Err(error)
    }

    /// Sends the content. The inner error is that of the file: the status for BREAK, and the reason.
    async fn send_bytes(
        &self,
        upload: &mut Upload,
        moving: &mut Moving,
    ) -> Result<std::result::Result<(), (u16, Error)>> {
        let mut hasher = blake3::Hasher::new();
        loop {
            let block = match upload.source.next(&self.pump).await {
                Ok(block) => block,
                Err(error) => return Ok(Err((UNREADABLE, error))),
            };
            let ends = block.is_none() || upload.source.is_at_end();
            if ends && upload.source.summary().is_some_and(|summary| summary.change == Change::Written) {
                let error = Error::new(Exit::Local, "send the file", "it was written to while it was sent")
                    .hint("run the same command again when no program writes to it");
                return Ok(Err((UNREADABLE, error)));
            }
            let mut block = block.unwrap_or_default();
            loop {
                let room = tokio::select! {
                    room = self.room(), if !block.is_empty() => room,
                    () = self.is_cancelled(upload), if !block.is_empty() => 0,
                    else => 0,
                };
                if upload.cancelled.load(Ordering::Relaxed) || room == 0 && !block.is_empty() {
                    return Ok(Err((STOPPED, lost("the server refused the file"))));
                }
                let room = usize::try_from(room).unwrap_or(usize::MAX);
                let part = block.split_to(block.len().min(BYTES_MAX).min(room));
                hasher.update(&part);
                let bytes = part.len() as u64;
                let is_last = ends && block.is_empty();
                let ending = match is_last {
                    true => Then::Complete(truncated(hasher.finalize().as_bytes())),
                    false => Then::More,
                };
                self.put_content(part, ending, moving).await?;
                upload.source.sent(&self.pump, bytes);
                if is_last {
                    return Ok(Ok(()));
                }
                if block.is_empty() {
                    break;
                }
            }
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

    async fn put_content(&self, content: Bytes, ending: Then, moving: &mut Moving) -> Result<()> {
        let frame = self.senders.of(self.stream).and_then(|(sender, _)| sender.frame(content, ending));
        match frame {
            Some(frame) => self.put(frame, moving).await,
            None => Ok(()),
        }
    }

    async fn put(&self, frame: Frame, moving: &mut Moving) -> Result<()> {
        let message = Message::new(Ppid(frame.ppid), frame.payload.clone());
        let sent = self.association.send(StreamId(self.stream), message).await;
        sent.map_err(|error| lost(format_args!("the association: {error}")))?;
        if let Some((mut sender, _)) = self.senders.of(self.stream) {
            sender.on_sent(&frame);
        }
        moving.bytes += frame.content_bytes;
        if !frame.is_last() {
            moving.turn = None;
        }
        self.pump.activity.heard();
        Ok(())
    }
}
