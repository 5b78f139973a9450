//! TLS over TCP (RFC 4217): connections that become protected, and the sessions that tie data connections to their control
//! connection.
//!
//! A [`Wire`] is a TCP connection that several tasks may use at once. It is plain until [`Wire::begin`] puts TLS on it; whoever
//! reads it drives the handshake, and gets [`Got::Secured`] once when the handshake is over. [`server`] and [`client`] make the
//! configurations.
//!
//! ```text
//! wire.read(&mut buffer)  ->  Got::Bytes              plain
//! wire.begin(connection)                              TLS from here on
//! wire.read(&mut buffer)  ->  Got::Secured, Got::Bytes, …, Got::End (close_notify) or Got::Cut (without)
//! ```

pub(crate) mod client;
pub(crate) mod server;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, IoSlice, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Buf, BytesMut};
use rustls::{Connection, HandshakeKind};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// The protocol of the control connection, as ALPN names it (IANA's registry of RFC 7301).
pub(crate) const ALPN_CONTROL: &[u8] = b"ftp";
/// What some clients call the protocol of data connections.
pub(crate) const ALPN_DATA: &[u8] = b"ftp-data";

/// The first byte of a TLS record that holds a handshake message (RFC 8446 §5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// Bytes of the largest handshake message that TLS takes: rustls's own limit. It holds that much of one that is not whole.
pub(crate) const MESSAGE_BYTES: usize = 0xffff;
/// Bytes that TLS holds of what was written and is not sent, at most.
pub(crate) const UNSENT_BYTES: usize = 64 << 10;
/// Bytes that are read at one go from a control connection.
const CONTROL_READ_BYTES: usize = 4 << 10;
/// The same from a data connection.
const DATA_READ_BYTES: usize = 64 << 10;

/// A TCP connection that may be protected.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    read_bytes: usize,
    tls: Mutex<Option<Box<Tls>>>,
}

/// TLS on a connection.
#[derive(Debug)]
struct Tls {
    connection: Connection,
    /// Whether [`Got::Secured`] was given.
    told: bool,
    /// The first byte that came after TLS began.
    first: Option<u8>,
    /// What has come and was not given to `connection` yet, which takes 4 KiB at a time.
    raw: BytesMut,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Got {
    /// Bytes, one at least.
    Bytes,
    /// The handshake is over.
    Secured,
    /// The other side sends no more: without TLS the end of the connection, with TLS its close_notify.
    End,
    /// TLS: the connection ended without close_notify. Anybody on the way can end it like that.
    Cut,
}

impl Wire {
    /// A control connection, without TLS.
    pub(crate) fn control(stream: TcpStream) -> Self {
        Self { stream, read_bytes: CONTROL_READ_BYTES, tls: Mutex::new(None) }
    }

    /// A data connection, without TLS.
    pub(crate) fn data(stream: TcpStream) -> Self {
        Self { read_bytes: DATA_READ_BYTES, ..Self::control(stream) }
    }

    /// The connection beneath.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Tls>>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts TLS on the connection: what is read and written from now on is protected. A client's first message is sent.
    ///
    /// # Errors
    /// The connection is broken.
    //= specs/rfc4217.txt#section-14
    //# The client MUST send all data, including Telnet commands, across the TLS session.
    pub(crate) fn begin(&self, mut connection: Connection) -> io::Result<()> {
        connection.set_buffer_limit(Some(UNSENT_BYTES));
        let mut tls = Box::new(Tls { connection, told: false, first: None, raw: BytesMut::new() });
        // Under the lock: a reader that was faster than this would take an answer for plain bytes.
        let mut now = self.lock();
        let flushed = tls.flush(&self.stream);
        *now = Some(tls);
        flushed
    }

    /// Throws away what has come and was not read, [`UNSENT_BYTES`] at most.
    pub(crate) fn discard_unread(&self) {
        let mut nowhere = [0; CONTROL_READ_BYTES];
        for _ in 0..UNSENT_BYTES / nowhere.len() {
            if !matches!(self.stream.try_read(&mut nowhere), Ok(1..)) {
                return;
            }
        }
    }

    /// Whether TLS has begun.
    pub(crate) fn has_tls(&self) -> bool {
        self.lock().is_some()
    }

    /// Whether TLS has begun and [`Got::Secured`] is still to come.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.lock().as_ref().is_some_and(|tls| !tls.told)
    }

    /// Whether TLS has begun, and nothing that could be TLS has come since.
    pub(crate) fn heard_no_tls(&self) -> bool {
        self.lock().as_ref().is_some_and(|tls| tls.first != Some(HANDSHAKE_RECORD))
    }

    /// Looks at the TLS of the connection, if it has begun.
    pub(crate) fn with_tls<T>(&self, look: impl FnOnce(&Connection) -> T) -> Option<T> {
        self.lock().as_ref().map(|tls| look(&tls.connection))
    }

    /// Appends what comes next to `buffer`.
    ///
    /// # Errors
    /// The connection is broken, or the other side broke TLS: then [`tls_error`] says how.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub(crate) async fn read(&self, buffer: &mut BytesMut) -> io::Result<Got> {
        self.step(|tls| match tls {
            Some(tls) => tls.read(&self.stream, self.read_bytes, buffer),
            None => {
                buffer.reserve(self.read_bytes);
                let count = would_block(self.stream.try_read_buf(buffer))?;
                Ok(count.map(|count| if count == 0 { Got::End } else { Got::Bytes }))
            }
        })
        .await
    }

    /// Waits until it is known whether the session is resumed, which the first message of each side decides.
    ///
    /// # Errors
    /// As [`Wire::read`]; [`io::ErrorKind::UnexpectedEof`] if the other side leaves before.
    pub(crate) async fn known(&self) -> io::Result<HandshakeKind> {
        self.handshake_until(|connection| match connection.handshake_kind() {
            // The client's second message may still show a session.
            Some(HandshakeKind::FullWithHelloRetryRequest) if connection.is_handshaking() => None,
            kind => kind,
        })
        .await
    }

    /// Waits until the handshake is over; no read says so then.
    ///
    /// # Errors
    /// As [`Wire::known`].
    pub(crate) async fn secured(&self) -> io::Result<()> {
        self.handshake_until(|connection| (!connection.is_handshaking()).then_some(())).await?;
        if let Some(tls) = &mut *self.lock() {
            tls.told = true;
        }
        Ok(())
    }

    async fn handshake_until<T>(&self, done: impl Fn(&Connection) -> Option<T>) -> io::Result<T> {
        self.step(|tls| {
            let Some(tls) = tls else { return Err(io::Error::other("TLS has not begun")) };
            loop {
                if let Some(done) = done(&tls.connection) {
                    return tls.flush(&self.stream).map(|()| Some(done));
                }
                match tls.fill(&self.stream, self.read_bytes)? {
                    Filled::Some => {}
                    Filled::Nothing => return Ok(None),
                    Filled::End => return Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
        })
        .await
    }

    /// Does `work` each time when there is something to read, until it has a result; sends meanwhile what TLS has to send.
    async fn step<T>(
        &self,
        mut work: impl FnMut(Option<&mut Tls>) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        loop {
            let interest = {
                let mut tls = self.lock();
                if let Some(done) = work(tls.as_deref_mut())? {
                    return Ok(done);
                }
                match &*tls {
                    Some(tls) if tls.connection.wants_write() => Interest::READABLE | Interest::WRITABLE,
                    _ => Interest::READABLE,
                }
            };
            self.stream.ready(interest).await?;
            if interest.is_writable()
                && let Some(tls) = &mut *self.lock()
            {
                tls.flush(&self.stream)?;
            }
        }
    }

    /// Sends some of `bytes`; how many. Under TLS some may be held, to leave with the next write or [`Wire::flush`].
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// # Cancel safety
    /// Safe: none of the bytes was taken.
    pub(crate) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = match &mut *self.lock() {
                None => would_block(self.stream.try_write(bytes))?,
                Some(tls) => tls.write(&self.stream, bytes)?,
            };
            if let Some(written) = written {
                return Ok(written);
            }
            self.stream.writable().await?;
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.write(bytes).await?;
            bytes = &bytes[written..];
        }
        self.flush().await
    }

    /// Whether TLS holds something that was written and not sent.
    pub(crate) fn holds_some(&self) -> bool {
        self.lock().as_ref().is_some_and(|tls| tls.connection.wants_write())
    }

    /// Waits until nothing of what was written is held.
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// # Cancel safety
    /// Safe: what is held stays.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        loop {
            match &mut *self.lock() {
                None => return Ok(()),
                Some(tls) => {
                    tls.flush(&self.stream)?;
                    if !tls.connection.wants_write() {
                        return Ok(());
                    }
                }
            }
            self.stream.writable().await?;
        }
    }

    /// Says that nothing more will be sent: close_notify under TLS, and the end of this half of the connection.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn finish(&self) -> io::Result<()> {
        if let Some(tls) = &mut *self.lock() {
            tls.connection.send_close_notify();
        }
        self.flush().await?;
        self.end_half()
    }

    /// Ends this half of the connection, and says nothing before.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn end_half(&self) -> io::Result<()> {
        SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)
    }

    /// Reads and throws away all that still comes, to the end. A connection that is closed with bytes unread is reset, which takes
    /// with it what the other side has not read yet.
    pub(crate) async fn read_out(&self) {
        let mut nowhere = [0; CONTROL_READ_BYTES];
        while self.stream.readable().await.is_ok() {
            match would_block(self.stream.try_read(&mut nowhere)) {
                Ok(Some(1..) | None) => {}
                Ok(Some(0)) | Err(_) => return,
            }
        }
    }

    /// Sends a line without TLS, as far as the system takes it at once: to somebody who speaks none.
    pub(crate) fn say_plain(&self, line: &str) {
        // Whoever does not take it is not told.
        let _ = self.stream.try_write(line.as_bytes());
    }
}

enum Filled {
    Some,
    Nothing,
    End,
}

impl Tls {
    fn read(
        &mut self,
        stream: &TcpStream,
        read_bytes: usize,
        buffer: &mut BytesMut,
    ) -> io::Result<Option<Got>> {
        loop {
            if !self.told && !self.connection.is_handshaking() {
                self.told = true;
                return Ok(Some(Got::Secured));
            }
            let mut reader = self.connection.reader();
            match reader.fill_buf() {
                Ok([]) => return Ok(Some(Got::End)),
                Ok(chunk) => {
                    let count = chunk.len();
                    buffer.extend_from_slice(chunk);
                    reader.consume(count);
                    return Ok(Some(Got::Bytes));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {}
                    io::ErrorKind::UnexpectedEof => return Ok(Some(Got::Cut)),
                    _ => return Err(error),
                },
            }
            match self.fill(stream, read_bytes)? {
                Filled::Some => {}
                Filled::Nothing => return Ok(None),
                Filled::End if self.connection.is_handshaking() => return Ok(Some(Got::Cut)),
                // The next look at the reader says how it ended.
                Filled::End => {}
            }
        }
    }

    /// Gives TLS some of what has come, and sends what it answers.
    fn fill(&mut self, stream: &TcpStream, read_bytes: usize) -> io::Result<Filled> {
        let mut filled = Filled::Some;
        if self.raw.is_empty() {
            self.raw.reserve(read_bytes);
            match would_block(stream.try_read_buf(&mut self.raw))? {
                None => return Ok(Filled::Nothing),
                Some(0) => filled = Filled::End,
                Some(_) => {
                    self.first.get_or_insert(self.raw[0]);
                }
            }
        }
        let taken = self.connection.read_tls(&mut &self.raw[..])?;
        self.raw.advance(taken);
        let processed = self.connection.process_new_packets();
        // Somebody who speaks no TLS is told no alert, and may be told in words.
        if self.first == Some(HANDSHAKE_RECORD) {
            // What cannot be sent any more does not make unread what came before: the next read says how the connection ends.
            let _ = self.flush(stream);
        }
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(filled)
    }

    /// Takes some of `bytes`; how many, or `None` if it has to send first.
    fn write(&mut self, stream: &TcpStream, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.flush(stream)?;
        if self.connection.wants_write() {
            return Ok(None);
        }
        // During a handshake TLS keeps what is written until it may be sent; there is room for replies.
        let written = self.connection.writer().write(bytes)?;
        self.flush(stream)?;
        match written {
            0 if !bytes.is_empty() => Err(io::Error::other("too much was written before TLS was agreed on")),
            written => Ok(Some(written)),
        }
    }

    /// Sends what TLS has to send, as far as the system takes it.
    fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            if would_block(self.connection.write_tls(&mut Unwaiting(stream)))?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes to a connection without waiting.
struct Unwaiting<'a>(&'a TcpStream);

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How TLS was broken, if that is what this error is about.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
