//! What the fuzz targets share: packets made of bytes, and the man in the middle.

pub mod adversary;

use std::net::SocketAddr;

use braidftp_base::{Datagram, Ecn};
use bytes::Bytes;

/// Bytes of the common header.
pub const HEADER_LEN: usize = 12;

/// Puts the right checksum into a packet.
pub fn fix_checksum(packet: &mut [u8]) {
    packet[8..HEADER_LEN].fill(0);
    let checksum = crc_fast::crc32_iscsi(packet);
    packet[8..HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
}

/// A packet with these ports, this tag and these chunks.
pub fn sealed(ports: [u16; 2], tag: u32, chunks: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEADER_LEN + chunks.len());
    packet.extend_from_slice(&ports[0].to_be_bytes());
    packet.extend_from_slice(&ports[1].to_be_bytes());
    packet.extend_from_slice(&tag.to_be_bytes());
    packet.extend_from_slice(&[0; 4]);
    packet.extend_from_slice(chunks);
    fix_checksum(&mut packet);
    packet
}

/// As it comes from a carrier.
pub fn datagram(from: SocketAddr, to: SocketAddr, payload: impl Into<Bytes>) -> Datagram {
    Datagram { from, to, ecn: Ecn::NotEct, payload: payload.into() }
}
