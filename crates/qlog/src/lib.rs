//! Writes what happens to SCTP associations as qlog (draft-ietf-quic-qlog-main-schema, JSON-SEQ).
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod chunk;
mod metrics;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;

use braidftp_base::{Ecn, Time};
use braidftp_sctp::Stats;
use braidftp_sctp::wire::Packet as SctpPacket;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::metrics::Last;

/// The record separator before each record (RFC 7464 §2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

/// The event schema of these files.
const EVENT_SCHEMA: &str = "urn:braidftp:qlog:sctp";

/// Which end of the associations a trace describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vantage {
    /// The end that opens associations.
    Client,
    /// The end that accepts associations.
    Server,
    /// An end that may do both.
    Unknown,
}

/// The direction of a packet at the described end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It was sent.
    Sent,
    /// It was received.
    Received,
}

/// A packet that passed the described end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// When.
    pub at: Time,
    /// In which direction.
    pub direction: Direction,
    /// Its source address.
    pub from: SocketAddr,
    /// Its destination address.
    pub to: SocketAddr,
    /// Its ECN field.
    pub ecn: Ecn,
    /// The SCTP packet, from its common header on.
    pub payload: Bytes,
}

/// Writes a trace to `out`, which should be buffered.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The values in the last events of each association.
    last: BTreeMap<u64, Last>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    ///
    /// Errors of `out`, here as in every method.
    pub fn new(out: W, title: &str, vantage: Vantage) -> io::Result<Self> {
        let vantage = match vantage {
            Vantage::Client => "client",
            Vantage::Server => "server",
            Vantage::Unknown => "unknown",
        };
        let mut writer = Self { out, last: BTreeMap::new() };
        writer.record(&json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": title,
            "trace": {
                "common_fields": { "time_format": "relative_to_epoch", "reference_time": { "clock_type": "monotonic", "epoch": "unknown" } },
                "event_schemas": [EVENT_SCHEMA],
                "vantage_point": { "type": vantage },
            },
        }))?;
        Ok(writer)
    }

    /// Writes the event of a packet.
    pub fn packet(&mut self, packet: &Packet) -> io::Result<()> {
        let (name, local, peer) = match packet.direction {
            Direction::Sent => ("sctp:packet_sent", packet.from, packet.to),
            Direction::Received => ("sctp:packet_received", packet.to, packet.from),
        };
        let mut data = Map::new();
        data.insert("path".to_owned(), path_name(local, peer).into());
        data.insert("length".to_owned(), packet.payload.len().into());
        let ecn = match packet.ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some("ect0"),
            Ecn::Ect1 => Some("ect1"),
            Ecn::Ce => Some("ce"),
        };
        if let Some(ecn) = ecn {
            data.insert("ecn".to_owned(), ecn.into());
        }
        match SctpPacket::decode_observed(packet.payload.clone()) {
            Ok(decoded) => data.insert("chunks".to_owned(), chunk::list(&decoded)),
            Err(wrong) => data.insert("raw".to_owned(), json!({ "error": wrong.to_string() })),
        };
        self.event(packet.at, name, data)
    }

    /// Writes events with the changes of an association's statistics since the last call.
    pub fn stats(&mut self, at: Time, association: u64, stats: &Stats) -> io::Result<()> {
        let events = self.last.entry(association).or_default().events(association, stats);
        events.into_iter().try_for_each(|(name, data)| self.event(at, name, data))
    }

    /// The association was removed: nothing more is written of it.
    pub fn forget(&mut self, association: u64) {
        self.last.remove(&association);
    }

    /// Flushes `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns `out`.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn event(&mut self, at: Time, name: &str, data: Map<String, Value>) -> io::Result<()> {
        // Whole microseconds: qlog's times are milliseconds as floating-point numbers.
        let time = (at.as_nanos() / 1_000) as f64 / 1_000.0;
        self.record(&json!({ "time": time, "name": name, "data": data }))
    }

    fn record(&mut self, record: &Value) -> io::Result<()> {
        self.out.write_all(&[RECORD_SEPARATOR])?;
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")
    }
}

/// The name of a path in all events.
fn path_name(local: SocketAddr, peer: SocketAddr) -> String {
    format!("{local}>{peer}")
}

#[cfg(test)]
mod tests;
