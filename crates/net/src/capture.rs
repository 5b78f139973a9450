//! Writes every datagram of an endpoint to a pcapng file.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use braidftp_base::{Datagram, Time};
use braidftp_pcap::{Direction, Packet, Writer};
use braidftp_sctp::Transmit;
use tracing::warn;

use crate::carrier::Carrier;

/// An open capture file. After a write error the capture ends and the endpoint continues.
#[derive(Debug)]
pub(crate) struct Capture {
    path: PathBuf,
    carrier: braidftp_pcap::Carrier,
    writer: Option<Writer<BufWriter<File>>>,
}

impl Capture {
    /// Creates or truncates `path`. The endpoint's clock must start now.
    pub(crate) fn create(path: &Path, carrier: Carrier) -> io::Result<Self> {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let writer = Writer::new(BufWriter::new(File::create(path)?), epoch)?;
        let carrier = match carrier {
            Carrier::Udp => braidftp_pcap::Carrier::Udp,
            // Such files know no other carrier.
            Carrier::Ip | Carrier::InProcess => braidftp_pcap::Carrier::Sctp,
        };
        Ok(Self { path: path.to_owned(), carrier, writer: Some(writer) })
    }

    /// A datagram was received.
    pub(crate) fn received(&mut self, at: Time, datagram: &Datagram) {
        self.write(Packet {
            at,
            direction: Direction::In,
            carrier: self.carrier,
            from: datagram.from,
            to: datagram.to,
            ecn: datagram.ecn,
            payload: &datagram.payload,
            segment_size: None,
            comment: "",
        });
    }

    /// A datagram, or several of the same size, were sent.
    pub(crate) fn sent(&mut self, at: Time, transmit: &Transmit) {
        self.write(Packet {
            at,
            direction: Direction::Out,
            carrier: self.carrier,
            from: transmit.from,
            to: transmit.to,
            ecn: transmit.ecn,
            payload: &transmit.payload,
            segment_size: transmit.segment_size,
            comment: "",
        });
    }

    /// Flushes buffered data, so that readers see complete packets.
    pub(crate) fn flush(&mut self) {
        self.keep(Writer::flush);
    }

    fn write(&mut self, packet: Packet<'_>) {
        self.keep(|writer| writer.write(packet));
    }

    fn keep(&mut self, act: impl FnOnce(&mut Writer<BufWriter<File>>) -> io::Result<()>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = act(writer) {
            warn!(path = %self.path.display(), %error, "the capture ends here: its file cannot be written");
            self.writer = None;
        }
    }
}
