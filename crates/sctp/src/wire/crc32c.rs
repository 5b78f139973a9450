//! The checksum of RFC 9260 §6.8 and Appendix A: CRC32c, little-endian in the common header.

use crc_fast::{CrcAlgorithm, Digest};

/// The offset of the checksum in the common header.
pub(crate) const AT: std::ops::Range<usize> = 8..12;

/// The checksum of a packet whose checksum field is zero.
pub(crate) fn of_zeroed(packet: &[u8]) -> u32 {
    debug_assert_eq!(packet[AT], [0; 4]);
    crc_fast::crc32_iscsi(packet)
}

/// The correct checksum of `packet`, ignoring its checksum field.
pub(super) fn expected(packet: &[u8]) -> u32 {
    // The datagram is shared and must not change, so the header is copied.
    let mut header = [0; AT.end];
    header[..AT.start].copy_from_slice(&packet[..AT.start]);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&header);
    digest.update(&packet[AT.end..]);
    digest.finalize() as u32
}

/// The contents of the checksum field.
pub(super) fn found(packet: &[u8]) -> u32 {
    u32::from_le_bytes([packet[8], packet[9], packet[10], packet[11]])
}
