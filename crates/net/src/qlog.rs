//! A qlog of an endpoint: its packets, and how the statistics of its associations change.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use braidftp_base::{Datagram, Time};
use braidftp_qlog::{Direction, Packet, Vantage, Writer};
use braidftp_sctp::Transmit;
use tracing::warn;

use crate::core::Core;

/// An open log. After a write error the log ends and the endpoint continues.
#[derive(Debug)]
pub(crate) struct Qlog {
    path: PathBuf,
    writer: Option<Writer<BufWriter<File>>>,
}

impl Qlog {
    /// Creates or truncates `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let out = BufWriter::new(File::create(path)?);
        let title = concat!("braidftp ", env!("CARGO_PKG_VERSION"));
        let writer = Writer::new(out, title, Vantage::Unknown)?;
        Ok(Self { path: path.to_owned(), writer: Some(writer) })
    }

    /// A datagram was received.
    pub(crate) fn received(&mut self, at: Time, datagram: &Datagram) {
        let Datagram { from, to, ecn, payload } = datagram.clone();
        let packet = Packet { at, direction: Direction::Received, from, to, ecn, payload };
        self.write(|writer| writer.packet(&packet));
    }

    /// A datagram, or several of the same size, were sent.
    pub(crate) fn sent(&mut self, at: Time, transmit: &Transmit) {
        for Datagram { from, to, ecn, payload } in transmit.clone().into_datagrams() {
            let packet = Packet { at, direction: Direction::Sent, from, to, ecn, payload };
            self.write(|writer| writer.packet(&packet));
        }
    }

    /// Input was processed: writes how the associations changed.
    pub(crate) fn stats(&mut self, at: Time, core: &Core) {
        for id in core.seats.keys() {
            if let Some(association) = core.machine.association(*id) {
                self.write(|writer| writer.stats(at, id.0, &association.stats()));
            }
        }
    }

    /// Flushes buffered data, so that readers see complete records.
    pub(crate) fn flush(&mut self) {
        self.write(Writer::flush);
    }

    fn write(&mut self, write: impl FnOnce(&mut Writer<BufWriter<File>>) -> io::Result<()>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = write(writer) {
            warn!(path = %self.path.display(), %error, "the qlog ends here: its file cannot be written");
            self.writer = None;
        }
    }
}
