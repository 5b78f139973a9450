//! The data streams of braid (specs/ftp-over-sctp.md §6): a download is sent on any free stream, and a task
//! for each stream reads uploads.
//!
//! Data in the transport is limited by its send buffer and by credit; unread data of a stream is limited by
//! the granted credit. A stream that waits for its upload's command, or for the disk, does not block others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braidftp_ftp::mapping::frame::{BYTES_MAX, Credit, Digest, FrameError, Header, truncated};
use braidftp_ftp::mapping::pool::CreditPool;
use braidftp_ftp::mapping::receiver::{End, Incoming, Piece, Receiver};
use braidftp_ftp::mapping::sender::{Frame, Sender, Then, freest};
use braidftp_ftp::mapping::{CONTROL_STREAM, TransferNumber, ppid};
use braidftp_ftp::server::{Failure, Outcome};
use braidftp_net::{Association, Message, Order, Ppid, StreamId};
use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::body::{Body, MESSAGE_BYTES};
use super::events::{Ask, Event, Post, Upload};
use super::sink::Ending;
use crate::store::fs::Durability;

/// The maximum number of unread bytes of uploads over all streams, unless their initial credit is larger.
const WINDOW_BYTES: u64 = 4 << 20;

/// The maximum size in bytes of an upload whose file is opened only when all of it has arrived.
const OPENED_LATE_BYTES: u64 = 64 << 10;

/// The data streams of one association.
pub(super) struct Lanes {
    association: Association,
    lanes: Vec<Lane>,
    /// Streams without a download.
    free: Mutex<Vec<u16>>,
    freed: Notify,
    /// The credit of uploads.
    uploads: Mutex<CreditPool>,
    /// Accepted uploads whose first frame has not arrived.
    awaited: Mutex<BTreeMap<TransferNumber, Upload>>,
    /// The number of turns that have passed without a gap.
    passed: watch::Sender<u64>,
    turns: Mutex<Turns>,
    /// When the last piece of an upload arrived.
    heard_at: Mutex<Instant>,
    stall: Duration,
    durability: Durability,
}

#[derive(Debug)]
struct Lane {
    sender: Mutex<Sender>,
    credit: Notify,
}

#[derive(Debug, Default)]
struct Turns {
    next: u64,
    /// Turns that passed out of order.
    early: std::collections::BTreeSet<u64>,
}

/// A download's turn to send its first frame: first frames are sent in the order in which the downloads were
/// begun.
pub(super) struct Turn {
    number: u64,
    lanes: Arc<Lanes>,
}

/// A stream in use; released on drop.
struct Hold<'a> {
    lanes: &'a Lanes,
    lane: &'a Lane,
    stream: u16,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        // A stream in the middle of a transfer belongs to an association that has ended.
        if self.lane.lock().transfer().is_none() {
            self.lanes.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.stream);
            self.lanes.freed.notify_one();
        }
    }
}

impl Lanes {
    /// The data streams 1 to `data_streams` of `association`.
    pub(super) fn new(
        association: Association,
        data_streams: u16,
        stall: Duration,
        durability: Durability,
    ) -> Arc<Self> {
        let lane = |stream| Lane { sender: Mutex::new(Sender::new(stream)), credit: Notify::new() };
        Arc::new(Self {
            association,
            lanes: (1..=data_streams).map(lane).collect(),
            free: Mutex::new((1..=data_streams).collect()),
            freed: Notify::new(),
            uploads: Mutex::new(CreditPool::new(data_streams, WINDOW_BYTES)),
            awaited: Mutex::default(),
            passed: watch::Sender::new(0),
            turns: Mutex::default(),
            heard_at: Mutex::new(Instant::now()),
            stall,
            durability,
        })
    }

    /// The association of the streams.
    pub(super) fn association(&self) -> &Association {
        &self.association
    }

    /// When the last piece of an upload arrived, on any stream.
    pub(super) fn heard_at(&self) -> Instant {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepted uploads whose first frame has not arrived. The reader of a stream takes one when its first frame arrives.
    pub(super) fn awaited(&self) -> MutexGuard<'_, BTreeMap<TransferNumber, Upload>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes a CREDIT.
    pub(super) fn credit(&self, credit: Credit) -> Result<(), FrameError> {
        let lane = usize::from(credit.stream).checked_sub(1).and_then(|at| self.lanes.get(at));
        let lane = lane.ok_or(FrameError::Field)?;
        lane.lock().on_credit(credit)?;
        lane.credit.notify_one();
        Ok(())
    }

    /// Takes the next turn.
    pub(super) fn turn(self: &Arc<Self>) -> Turn {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let number = turns.next;
        turns.next += 1;
        Turn { number, lanes: self.clone() }
    }

    /// Sends one download on one stream. If it is refused, nothing is sent.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the stream would stay in the middle of a transfer. Use `stop`.
    pub(super) async fn send(
        &self,
        turn: Turn,
        transfer: TransferNumber,
        open: impl Future<Output = Result<Body, Failure>>,
        mut stop: oneshot::Receiver<()>,
    ) -> Result<Outcome, Failure> {
        // On the heap: there may be very many stalled transfers.
        let prepare = Box::pin(async {
            let mut body = open.await?;
            // Read before the turn: a slow disk access for one download must not delay others.
            let first = body.next().await?;
            //= specs/ftp-over-sctp.md#section-6.3
            //# A sender MUST send the headers of its transfers in ascending order of their numbers
            turn.comes().await;
            let hold = self.free_lane(body.length).await;
            Ok((body, first, hold))
        });
        let (mut body, first, hold) = tokio::select! {
            prepared = prepare => prepared?,
            Ok(()) = &mut stop => return Err(Failure::Cancelled),
        };
        let header = Header { transfer, offset: body.offset, size: body.size, modified: body.modified };
        hold.lane.lock().begin(header);
        let mut out = Out { lanes: self, hold: &hold, turn: Some(turn), hasher: None, bytes: 0 };
        let sent = tokio::select! {
            sent = out.pump(&mut body, first) => sent,
            Ok(()) = &mut stop => Err(Failure::Cancelled),
        };
        let Err(failure) = sent else { return Ok(Outcome::Sent { bytes: out.bytes }) };
        let end = hold.lane.lock().break_off(failure.code().number());
        if let Some(end) = end {
            out.push(end).await?;
        }
        Err(failure)
    }

    /// Waits for a free stream. Only the download whose turn it is waits.
    async fn free_lane(&self, bytes: Option<u64>) -> Hold<'_> {
        loop {
            if let Some(stream) = self.take_free(bytes) {
                return Hold { lanes: self, lane: &self.lanes[usize::from(stream) - 1], stream };
            }
            self.freed.notified().await;
        }
    }

    fn take_free(&self, bytes: Option<u64>) -> Option<u16> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = freest(
            free.iter().filter_map(|stream| self.lanes[usize::from(*stream) - 1].lock().free()),
            bytes,
        )?;
        free.retain(|other| *other != stream);
        Some(stream)
    }

    /// The tasks that read the data streams, each until the association ends.
    pub(super) fn readers(self: &Arc<Self>, post: &Post) -> Vec<impl Future<Output = ()> + Send + 'static> {
        let read = |at: usize| {
            let reader = Reader {
                lanes: self.clone(),
                stream: u16::try_from(at + 1).unwrap_or(u16::MAX),
                post: post.clone(),
                target: Target::None,
            };
            reader.run()
        };
        (0..self.lanes.len()).map(read).collect()
    }
}

impl Lane {
    fn lock(&self) -> std::sync::MutexGuard<'_, Sender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until bytes may be sent, and returns their number.
    async fn room(&self) -> u64 {
        loop {
            let room = self.lock().room();
            if room > 0 {
                return room;
            }
            // Only one task waits, and a notification before the wait is kept.
            self.credit.notified().await;
        }
    }
}

/// The longest time that the one message of a short file may take on the path: lines on stream 0 wait for it.
const MESSAGE_TIME: Duration = Duration::from_millis(250);

/// The longest message of a short file over paths with these windows and round-trip times: what the fastest one sends within
/// [`MESSAGE_TIME`], and at least [`MESSAGE_BYTES`].
fn longest_message(paths: impl Iterator<Item = (usize, Option<Duration>)>) -> u64 {
    let rates = paths.filter_map(|(cwnd, srtt)| Some(cwnd as f64 / srtt?.as_secs_f64()));
    let bytes = rates.fold(0.0, f64::max) * MESSAGE_TIME.as_secs_f64();
    (bytes as u64).clamp(MESSAGE_BYTES as u64, BYTES_MAX as u64)
}

/// A download in progress.
struct Out<'a> {
    lanes: &'a Lanes,
    hold: &'a Hold<'a>,
    /// Held until the first frame is sent.
    turn: Option<Turn>,
    /// Made with the first bytes of several messages.
    hasher: Option<Box<blake3::Hasher>>,
    /// The number of content bytes passed to the transport.
    bytes: u64,
}

impl Out<'_> {
    /// Sends the whole `body`, whose first block was read.
    ///
    /// # Cancel safety
    ///
    /// Safe for the stream: bytes passed to the transport were counted.
    async fn pump(&mut self, body: &mut Body, first: Option<Bytes>) -> Result<(), Failure> {
        let mut next = self.joined(body, first).await?;
        while let Some(mut block) = next {
            let ends = body.is_at_end();
            while !block.is_empty() {
                let room = timeout(self.lanes.stall, self.hold.lane.room()).await;
                let room = room.map_err(|_| Failure::DataLost)?;
                let size = usize::try_from(room).unwrap_or(usize::MAX).min(BYTES_MAX).min(block.len());
                let is_whole = ends && size == block.len();
                let part = block.split_to(size);
                let ending = if is_whole && self.hasher.is_none() {
                    Then::Complete(truncated(blake3::hash(&part).as_bytes()))
                } else {
                    self.hasher.get_or_insert_default().update(&part);
                    if ends && block.is_empty() { self.complete() } else { Then::More }
                };
                self.frame(part, ending).await?;
            }
            if ends {
                return Ok(());
            }
            next = body.next().await?;
        }
        let ending = self.complete();
        self.frame(Bytes::new(), ending).await
    }

    /// Returns all of a file that fits in the credit and in one message, else its first block: each message less saves the
    /// header of a chunk. Blocks are joined here because only now the credit is known: a long block that is sent in parts would be
    /// held until the last of them has arrived.
    async fn joined(&self, body: &mut Body, first: Option<Bytes>) -> Result<Option<Bytes>, Failure> {
        let Some(block) = first.as_ref().filter(|_| !body.is_at_end()) else { return Ok(first) };
        let short = body.length.filter(|length| *length <= BYTES_MAX as u64);
        let Some(length) = short.filter(|length| *length <= self.hold.lane.lock().room()) else {
            return Ok(first);
        };
        let paths = self.lanes.association.stats().paths;
        if length > longest_message(paths.iter().map(|path| (path.cwnd, path.srtt))) {
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(usize::try_from(length).unwrap_or(0));
        whole.extend_from_slice(block);
        drop(first);
        while !body.is_at_end() {
            let Some(block) = body.next().await? else { break };
            whole.extend_from_slice(&block);
        }
        Ok(Some(whole.freeze()))
    }

    fn complete(&self) -> Then {
        let digest = self.hasher.as_ref().map_or_else(|| blake3::hash(&[]), |hasher| hasher.finalize());
        Then::Complete(truncated(digest.as_bytes()))
    }

    async fn frame(&mut self, content: Bytes, ending: Then) -> Result<(), Failure> {
        // The frame is the content, or a copy of it, which replaces it: a client that reads nothing makes the server hold one.
        let frame = self.hold.lane.lock().frame(content, ending);
        match frame {
            Some(frame) => self.push(frame).await,
            None => Ok(()),
        }
    }

    async fn push(&mut self, frame: Frame) -> Result<(), Failure> {
        let message = Message::new(Ppid(frame.ppid), frame.payload.clone());
        let sent = self.lanes.association.send(StreamId(self.hold.stream), message).await;
        sent.map_err(|_| Failure::DataLost)?;
        self.hold.lane.lock().on_sent(&frame);
        self.bytes += frame.content_bytes;
        self.turn = None;
        Ok(())
    }
}

impl Turn {
    async fn comes(&self) {
        if *self.lanes.passed.borrow() >= self.number {
            return;
        }
        let mut passed = self.lanes.passed.subscribe();
        // The sender lives as long as `self`.
        let _ = passed.wait_for(|passed| *passed >= self.number).await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = self.lanes.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.early.insert(self.number);
        self.lanes.passed.send_modify(|passed| {
            while turns.early.remove(passed) {
                *passed += 1;
            }
        });
    }
}

/// Reads one data stream.
struct Reader {
    lanes: Arc<Lanes>,
    stream: u16,
    post: Post,
    target: Target,
}

/// The destination of frames.
enum Target {
    /// No transfer is open.
    None,
    /// Discarded, to the end of the transfer.
    Nowhere,
    Upload(Box<Open>),
}

struct Open {
    upload: Upload,
    header: Header,
    hasher: blake3::Hasher,
}

impl Reader {
    async fn run(mut self) {
        let mut receiver = Receiver::new(self.stream);
        let association = self.lanes.association.clone();
        // If there is no piece, the association has ended, or the client sends no more.
        while let Ok(Some(piece)) = association.recv(StreamId(self.stream)).await {
            // On the heap: a session has up to 64 such streams, and idle ones should not hold the memory of a
            // transfer.
            if !Box::pin(self.transfer(&association, &mut receiver, piece)).await {
                return;
            }
        }
    }

    /// Processes a piece and the following ones to the end of the transfer; returns whether the stream
    /// continues.
    async fn transfer(
        &mut self,
        association: &Association,
        receiver: &mut Receiver,
        first: braidftp_net::Piece,
    ) -> bool {
        let mut next = Ok(Ok(Some(first)));
        loop {
            match next {
                Ok(Ok(Some(piece))) => {
                    if !self.take(receiver, piece).await {
                        return false;
                    }
                }
                Ok(Ok(None) | Err(_)) => {
                    self.give_up(Failure::DataLost).await;
                    return false;
                }
                // The rest of the transfer is discarded.
                Err(failure) => self.give_up(failure).await,
            }
            let coming = association.recv(StreamId(self.stream));
            next = match &mut self.target {
                Target::Upload(open) => tokio::select! {
                    piece = coming => Ok(piece),
                    Ok(()) = &mut open.upload.stop => Err(Failure::Cancelled),
                    () = tokio::time::sleep(self.lanes.stall) => Err(Failure::DataLost),
                },
                Target::Nowhere => Ok(coming.await),
                Target::None => return true,
            };
        }
    }

    /// Processes a piece; returns whether the stream continues.
    async fn take(&mut self, receiver: &mut Receiver, piece: braidftp_net::Piece) -> bool {
        *self.lanes.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let count = piece.payload.len();
        for (at, payload) in piece.payload.into_iter().enumerate() {
            let end = if piece.end && at + 1 == count { End::Last } else { End::More };
            let mut handled = receiver.handle(Piece { ppid: piece.ppid.0, payload, end });
            loop {
                match handled.and_then(|()| receiver.poll()) {
                    //= specs/ftp-over-sctp.md#section-6.7
                    //# An endpoint MUST abort the association on: a frame or CREDIT that is shorter or longer than its fields
                    Err(error) => {
                        self.post.send(Event::Broken(error.to_string()));
                        return false;
                    }
                    Ok(None) => break,
                    Ok(Some(incoming)) => {
                        if !self.take_incoming(receiver, incoming).await {
                            return false;
                        }
                    }
                }
                handled = Ok(());
            }
        }
        true
    }

    async fn take_incoming(&mut self, receiver: &mut Receiver, incoming: Incoming) -> bool {
        match incoming {
            Incoming::Header(header) => {
                self.begin(header).await;
                return true;
            }
            Incoming::Bytes(bytes) => {
                let length = bytes.len() as u64;
                self.write(bytes).await;
                receiver.consume(length);
            }
            Incoming::Complete(digest) => self.finish(Some(digest)).await,
            Incoming::Broken(_) => self.finish(None).await,
        }
        let credit = self.lanes.uploads.lock().unwrap_or_else(PoisonError::into_inner).grant(receiver);
        let Some(credit) = credit else { return true };
        let mut message = Message::new(Ppid(ppid::CREDIT), credit.encode());
        message.order = Order::Unordered;
        self.lanes.association.send(StreamId(CONTROL_STREAM), message).await.is_ok()
    }

    async fn begin(&mut self, header: Header) {
        let ready = self.lanes.awaited().remove(&header.transfer);
        let upload = match ready {
            Some(upload) => Some(upload),
            None => {
                let (reply, decided) = oneshot::channel();
                self.post.send(Event::Ask(Ask { transfer: header.transfer, reply }));
                decided.await.ok().flatten()
            }
        };
        self.target = Target::Nowhere;
        let Some(mut upload) = upload else { return };
        upload.intake.expect(header.size, header.modified);
        let opened = match header.size {
            _ if upload.offset != header.offset => Err(Failure::Damaged),
            // Opened when it is complete.
            Some(size) if size <= OPENED_LATE_BYTES => Ok(()),
            _ => upload.intake.open().await,
        };
        match opened {
            Ok(()) => {
                let hasher = blake3::Hasher::new();
                self.target = Target::Upload(Box::new(Open { upload, header, hasher }));
            }
            Err(failure) => {
                let Upload { job, intake, post, .. } = upload;
                if failure == Failure::Damaged {
                    intake.give_up(Failure::SenderGaveUp).await;
                }
                post.done(job, Err(failure));
            }
        }
    }

    async fn write(&mut self, bytes: Bytes) {
        let Target::Upload(open) = &mut self.target else { return };
        open.hasher.update(&bytes);
        if let Err(failure) = open.upload.intake.write(bytes).await {
            self.give_up(failure).await;
        }
    }

    /// Ends the open upload: complete with this digest, or aborted.
    async fn finish(&mut self, digest: Option<Digest>) {
        let Target::Upload(open) = std::mem::replace(&mut self.target, Target::None) else { return };
        let Open { upload: Upload { job, intake, post, .. }, header, hasher } = *open;
        let is_right = digest.map(|digest| digest == truncated(hasher.finalize().as_bytes()));
        let ending = Ending { modified: header.modified, durability: self.lanes.durability };
        if is_right == Some(true) && intake.is_small() {
            return intake.finish_then(ending, move |outcome| post.done(job, outcome)).await;
        }
        // A separate task: the next upload on this stream does not wait for the disk, and the end of the
        // session does not interrupt a rename.
        tokio::spawn(async move {
            let outcome = match is_right {
                Some(true) => intake.finish(ending).await,
                Some(false) => {
                    intake.give_up(Failure::Damaged).await;
                    Err(Failure::Damaged)
                }
                None => {
                    intake.give_up(Failure::SenderGaveUp).await;
                    Err(Failure::SenderGaveUp)
                }
            };
            post.done(job, outcome);
        });
    }

    /// Aborts the open upload, if there is one; its further frames are discarded.
    async fn give_up(&mut self, why: Failure) {
        if !matches!(self.target, Target::Upload(_)) {
            return;
        }
        if let Target::Upload(open) = std::mem::replace(&mut self.target, Target::Nowhere) {
            let Upload { job, intake, post, .. } = open.upload;
            intake.give_up(why).await;
            post.done(job, Err(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_no_longer_than_250_ms_on_the_fastest_path() {
        let path = |cwnd, ms| (cwnd, Some(Duration::from_millis(ms)));
        assert_eq!(longest_message([(14_520, None)].into_iter()), 16_384, "nothing is measured");
        assert_eq!(longest_message([path(14_520, 250)].into_iter()), 16_384, "464 kbit/s");
        assert_eq!(longest_message([path(8_000, 250), path(16_000, 100)].into_iter()), 40_000, "1.28 Mbit/s");
        assert_eq!(longest_message([path(37_500, 100)].into_iter()), 65_536, "3 Mbit/s");
        assert_eq!(longest_message([path(14_520, 0)].into_iter()), 65_536, "no time at all");
    }
}
