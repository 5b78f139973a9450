//! The checksum of RFC 9260 §6.8 and Appendix A: CRC32c, little-endian in the common header.

use crc_fast::{CrcAlgorithm, Digest};

/// Where the checksum stands in the common header.
pub(super) const AT: std::ops::Range<usize> = 8..12;

/// The checksum of a packet whose checksum field is zero.
pub(super) fn of_zeroed(packet: &[u8]) -> u32 {
    debug_assert_eq!(packet[AT], [0; 4]);
    crc_fast::crc32_iscsi(packet)
}

/// The checksum that `packet` should have, whatever stands in its checksum field.
pub(super) fn expected(packet: &[u8]) -> u32 {
    // The datagram is shared and stays as it is, so the header is copied to be zeroed.
    let mut header = [0; AT.end];
    header[..AT.start].copy_from_slice(&packet[..AT.start]);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&header);
    digest.update(&packet[AT.end..]);
    digest.finalize() as u32
}

/// The checksum that stands in `packet`.
pub(super) fn found(packet: &[u8]) -> u32 {
    u32::from_le_bytes([packet[8], packet[9], packet[10], packet[11]])
}
