//! TLS over TCP (RFC 4217): connections that switch to TLS, and the TLS sessions that bind data connections to their control
//! connection.
//!
//! A [`Wire`] is a TCP connection that several tasks may use at once. It is in the clear until [`Wire::begin`] starts TLS; the
//! reading task then drives the handshake, and receives [`Got::Secured`] once when it is complete. [`server`] and [`client`]
//! build the configurations.
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

/// The ALPN name of the control connection (IANA's registry of RFC 7301).
pub(crate) const ALPN_CONTROL: &[u8] = b"ftp";
/// The ALPN name that some clients use for data connections.
pub(crate) const ALPN_DATA: &[u8] = b"ftp-data";

/// The first byte of a TLS record that holds a handshake message (RFC 8446 §5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// Size of the largest handshake message that rustls accepts, in bytes; rustls buffers an incomplete one up to this size.
pub(crate) const MESSAGE_BYTES: usize = 0xffff;
/// Maximum number of bytes that TLS buffers for sending.
pub(crate) const UNSENT_BYTES: usize = 64 << 10;
/// Bytes of one read from a control connection.
const CONTROL_READ_BYTES: usize = 4 << 10;
/// Bytes of one read from a data connection.
const DATA_READ_BYTES: usize = 64 << 10;

/// A TCP connection, in the clear or with TLS.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    read_bytes: usize,
    tls: Mutex<Option<Box<Tls>>>,
}

/// The TLS state of a connection.
#[derive(Debug)]
struct Tls {
    connection: Connection,
    /// Whether [`Got::Secured`] was returned.
    told: bool,
    /// The first byte received after TLS began.
    first: Option<u8>,
    /// Received bytes that `connection`, which takes 4 KiB at a time, has not taken yet.
    raw: BytesMut,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Got {
    /// At least one byte was appended.
    Bytes,
    /// The handshake is complete.
    Secured,
    /// The peer sends no more: the end of the connection in the clear, close_notify with TLS.
    End,
    /// TLS: the connection ended without close_notify. An attacker on the path can cause this.
    Cut,
}

impl Wire {
    /// A control connection in the clear.
    pub(crate) fn control(stream: TcpStream) -> Self {
        Self { stream, read_bytes: CONTROL_READ_BYTES, tls: Mutex::new(None) }
    }

    /// A data connection in the clear.
    pub(crate) fn data(stream: TcpStream) -> Self {
        Self { read_bytes: DATA_READ_BYTES, ..Self::control(stream) }
    }

    /// Returns the TCP connection.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Tls>>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts TLS: from now on reads and writes are protected. A client sends its ClientHello.
    ///
    /// # Errors
    /// The connection is broken.
    //= specs/rfc4217.txt#section-14
    //# The client MUST send all data, including Telnet commands, across the TLS session.
    pub(crate) fn begin(&self, mut connection: Connection) -> io::Result<()> {
        connection.set_buffer_limit(Some(UNSENT_BYTES));
        let mut tls = Box::new(Tls { connection, told: false, first: None, raw: BytesMut::new() });
        // Under the lock: a concurrent reader would take the peer's answer for bytes in the clear.
        let mut now = self.lock();
        let flushed = tls.flush(&self.stream);
        *now = Some(tls);
        flushed
    }

    /// Discards received bytes that were not read, at most [`UNSENT_BYTES`].
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

    /// Whether TLS has begun and [`Got::Secured`] was not returned yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.lock().as_ref().is_some_and(|tls| !tls.told)
    }

    /// Whether TLS has begun and the peer has sent nothing that could be TLS.
    pub(crate) fn received_no_tls(&self) -> bool {
        self.lock().as_ref().is_some_and(|tls| tls.first != Some(HANDSHAKE_RECORD))
    }

    /// Calls `look` with the TLS state, if TLS has begun.
    pub(crate) fn with_tls<T>(&self, look: impl FnOnce(&Connection) -> T) -> Option<T> {
        self.lock().as_ref().map(|tls| look(&tls.connection))
    }

    /// Reads and appends the bytes to `buffer`.
    ///
    /// # Errors
    /// The connection is broken, or the peer violated TLS; [`tls_error`] returns the violation.
    ///
    /// # Cancel safety
    /// Safe: no data is lost.
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

    /// Waits until both sides' first messages have decided whether the session is resumed.
    ///
    /// # Errors
    /// As [`Wire::read`]; [`io::ErrorKind::UnexpectedEof`] if the peer closes before.
    pub(crate) async fn known(&self) -> io::Result<HandshakeKind> {
        self.handshake_until(|connection| match connection.handshake_kind() {
            // After a HelloRetryRequest, the second ClientHello may still resume a session.
            Some(HandshakeKind::FullWithHelloRetryRequest) if connection.is_handshaking() => None,
            kind => kind,
        })
        .await
    }

    /// Waits until the handshake is complete. No read returns [`Got::Secured`] afterwards.
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

    /// Repeats `work` whenever there is input, until it returns a result; sends TLS output meanwhile.
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

    /// Writes some of `bytes` and returns the number. With TLS, bytes may stay buffered until the next write or
    /// [`Wire::flush`].
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// # Cancel safety
    /// Safe: if cancelled, no bytes were taken.
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

    /// Writes all of `bytes`.
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

    /// Whether TLS holds bytes that were written and not sent.
    pub(crate) fn holds_some(&self) -> bool {
        self.lock().as_ref().is_some_and(|tls| tls.connection.wants_write())
    }

    /// Waits until all written bytes are with the system.
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// # Cancel safety
    /// Safe: unsent bytes stay buffered.
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

    /// Ends the sending direction: close_notify with TLS, then FIN.
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

    /// Ends the sending direction with FIN, without close_notify.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn end_half(&self) -> io::Result<()> {
        SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)
    }

    /// Reads and discards everything up to the end. Closing a connection with unread bytes would reset it, and the peer would
    /// lose what it has not read yet.
    pub(crate) async fn read_out(&self) {
        let mut nowhere = [0; CONTROL_READ_BYTES];
        while self.stream.readable().await.is_ok() {
            match would_block(self.stream.try_read(&mut nowhere)) {
                Ok(Some(1..) | None) => {}
                Ok(Some(0)) | Err(_) => return,
            }
        }
    }

    /// Sends a line in the clear, to a peer that does not speak TLS, if the system takes it at once.
    pub(crate) fn write_in_clear(&self, line: &str) {
        // Best effort.
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
                // The next read reports how the connection ended.
                Filled::End => {}
            }
        }
    }

    /// Reads and passes received bytes to TLS, and sends its answer.
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
        // A peer that does not speak TLS gets no alert; it may get a line in the clear.
        if self.first == Some(HANDSHAKE_RECORD) {
            // A failed flush must not hide input that arrived before: the next read reports the end.
            let _ = self.flush(stream);
        }
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(filled)
    }

    /// Writes some of `bytes` and returns the number; `None` if buffered bytes must be sent first.
    fn write(&mut self, stream: &TcpStream, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.flush(stream)?;
        if self.connection.wants_write() {
            return Ok(None);
        }
        // During a handshake TLS buffers what is written; the buffer has space for replies.
        let written = self.connection.writer().write(bytes)?;
        self.flush(stream)?;
        match written {
            0 if !bytes.is_empty() => Err(io::Error::other("too much was written before TLS was agreed on")),
            written => Ok(Some(written)),
        }
    }

    /// Sends buffered TLS output, as much as the system takes at once.
    fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            if would_block(self.connection.write_tls(&mut NonBlocking(stream)))?.is_none() {
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

/// A writer that never waits.
struct NonBlocking<'a>(&'a TcpStream);

impl Write for NonBlocking<'_> {
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

/// Returns the TLS violation in `error`, if it is one.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
