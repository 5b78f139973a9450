//! A packet log of an endpoint: one line per packet in packetdrill's notation, which `pkt` (crate
//! `braidftp-pkt`) reads.
//!
//! ```text
//! 0.051200 < [ect0] 10.0.0.2>10.0.0.1 21>40000 sctp(tag=7)/udp(9899>9899): DATA[flgs=BE, len=20, tsn=1, sid=0, ssn=0, ppid=0]
//! ```
//! `<` was received, `>` was sent; times are in seconds since the endpoint was bound.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use braidftp_base::{Datagram, Ecn, Time};
use braidftp_sctp::Transmit;
use braidftp_sctp::packet_builder::Checksum;
use braidftp_sctp::wire::Packet;
use bytes::Bytes;
use tracing::warn;

use crate::carrier::Carrier;

/// An open log. After a write error the log ends and the endpoint continues.
#[derive(Debug)]
pub(crate) struct PacketLog {
    path: PathBuf,
    carrier: Carrier,
    writer: Option<BufWriter<File>>,
    line: String,
}

/// The direction and addresses of a packet.
struct Passage {
    at: Time,
    sign: char,
    ecn: Ecn,
    from: SocketAddr,
    to: SocketAddr,
}

impl PacketLog {
    /// Creates or truncates `path`.
    pub(crate) fn create(path: &Path, carrier: Carrier) -> io::Result<Self> {
        let writer = Some(BufWriter::new(File::create(path)?));
        Ok(Self { path: path.to_owned(), carrier, writer, line: String::new() })
    }

    /// A datagram was received.
    pub(crate) fn received(&mut self, at: Time, datagram: &Datagram) {
        let Datagram { from, to, ecn, .. } = *datagram;
        self.write(&Passage { at, sign: '<', ecn, from, to }, datagram.payload.clone());
    }

    /// A datagram, or several of the same size, were sent.
    pub(crate) fn sent(&mut self, at: Time, transmit: &Transmit) {
        for Datagram { from, to, ecn, payload } in transmit.clone().into_datagrams() {
            self.write(&Passage { at, sign: '>', ecn, from, to }, payload);
        }
    }

    /// Flushes buffered data, so that readers see complete lines.
    pub(crate) fn flush(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let outcome = writer.flush();
        self.keep(outcome);
    }

    fn write(&mut self, passage: &Passage, payload: Bytes) {
        let Some(writer) = &mut self.writer else { return };
        self.line.clear();
        put_line(&mut self.line, self.carrier, passage, payload);
        let outcome = writer.write_all(self.line.as_bytes());
        self.keep(outcome);
    }

    fn keep(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            warn!(path = %self.path.display(), %error, "the packet log ends here: its file cannot be written");
            self.writer = None;
        }
    }
}

fn put_line(line: &mut String, carrier: Carrier, passage: &Passage, payload: Bytes) {
    let Passage { at, sign, ecn, from, to } = passage;
    let (seconds, micros) = (at.as_nanos() / 1_000_000_000, at.as_nanos() / 1_000 % 1_000_000);
    let len = payload.len();
    let checksum = if Packet::has_zero_checksum(&payload) { Checksum::Zero } else { Checksum::Crc32c };
    // Writing to a string does not fail.
    let _ = match Packet::decode_observed(payload) {
        Err(wrong) => writeln!(line, "// {seconds}.{micros:06} {sign} {from}>{to}: {len} bytes: {wrong}"),
        Ok(packet) => {
            let header = packet.header;
            let _ = write!(line, "{seconds}.{micros:06} {sign} ");
            line.push_str(match ecn {
                Ecn::NotEct => "",
                Ecn::Ect0 => "[ect0] ",
                Ecn::Ect1 => "[ect1] ",
                Ecn::Ce => "[ce] ",
            });
            let (source, destination) = (header.source_port, header.destination_port);
            let _ =
                write!(line, "{}>{} {source}>{destination} sctp(tag={}", from.ip(), to.ip(), header.tag.0);
            line.push_str(if checksum == Checksum::Zero { ", crc32c=zero)" } else { ")" });
            if carrier == Carrier::Udp {
                let _ = write!(line, "/udp({}>{})", from.port(), to.port());
            }
            for (index, chunk) in packet.chunks().enumerate() {
                line.push_str(if index == 0 { ": " } else { "; " });
                let _ = match chunk {
                    Ok(chunk) => write!(line, "{chunk}"),
                    Err(wrong) => write!(line, "... // {wrong}"),
                };
            }
            line.push('\n');
            Ok(())
        }
    };
}

#[cfg(test)]
mod tests {
    use braidftp_sctp::VerificationTag;
    use braidftp_sctp::packet_builder::PacketBuilder;
    use braidftp_sctp::wire::{Chunk, Header};

    use super::*;

    fn line(carrier: Carrier, ecn: Ecn, payload: Bytes) -> String {
        let mut line = String::new();
        let (from, to) = ("10.0.0.2:9899".parse().unwrap(), "10.0.0.1:9900".parse().unwrap());
        let at = Time::from_millis(1_051);
        put_line(&mut line, carrier, &Passage { at, sign: '<', ecn, from, to }, payload);
        line
    }

    fn packet(checksum: Checksum) -> Bytes {
        let mut builder = PacketBuilder::new();
        builder.begin(Header { source_port: 21, destination_port: 40_000, tag: VerificationTag(7) }, 100);
        builder.push(&Chunk::CookieAck);
        builder.push(&Chunk::ShutdownAck);
        builder.seal_with(checksum);
        builder.finish().unwrap().payload
    }

    #[test]
    fn a_packet_is_a_line_of_a_script() {
        assert_eq!(
            line(Carrier::Udp, Ecn::Ce, packet(Checksum::Crc32c)),
            "1.051000 < [ce] 10.0.0.2>10.0.0.1 21>40000 sctp(tag=7)/udp(9899>9900): COOKIE_ACK[flgs=0]; \
             SHUTDOWN_ACK[flgs=0]\n"
        );
        assert_eq!(
            line(Carrier::Ip, Ecn::NotEct, packet(Checksum::Zero)),
            "1.051000 < 10.0.0.2>10.0.0.1 21>40000 sctp(tag=7, crc32c=zero): COOKIE_ACK[flgs=0]; \
             SHUTDOWN_ACK[flgs=0]\n"
        );
    }

    #[test]
    fn other_lines_are_comments() {
        let said = line(Carrier::Udp, Ecn::NotEct, Bytes::from_static(b"hello"));
        assert_eq!(
            said,
            "// 1.051000 < 10.0.0.2:9899>10.0.0.1:9900: 5 bytes: 5 bytes are too few for an SCTP packet\n"
        );
        let mut bytes = packet(Checksum::Crc32c).to_vec();
        bytes[12] ^= 1;
        assert!(line(Carrier::Udp, Ecn::NotEct, bytes.into()).contains("the checksum is"));
    }
}
