//! CRC32c (RFC 9260 §6.8) of packets that the program carries, which may compute it itself.

use std::sync::atomic::{AtomicBool, Ordering};

/// The checksum's place in a packet.
const AT: std::ops::Range<usize> = 8..12;

/// Whether the program computes and verifies the checksums of AF_CONN packets.
static OFFLOADED: AtomicBool = AtomicBool::new(false);

/// Sets whether the program computes and verifies checksums.
pub(crate) fn set_offloaded(offloaded: bool) {
    OFFLOADED.store(offloaded, Ordering::Relaxed);
}

/// The CRC32c of these bytes, in the byte order of the packet.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes(crc_fast::crc32_iscsi(bytes).to_le_bytes())
}

/// Prepares a packet for a program that computes the checksum: its field is zero.
pub(crate) fn on_output(packet: &mut [u8]) {
    if OFFLOADED.load(Ordering::Relaxed)
        && let Some(field) = packet.get_mut(AT)
    {
        field.fill(0);
    }
}

/// Returns the packet for the stack, which verifies every checksum: with the correct one if the program has verified it.
pub(crate) fn on_input(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if OFFLOADED.load(Ordering::Relaxed) && packet.len() >= AT.end {
        packet[AT].fill(0);
        let checksum = crc32c(&packet).to_ne_bytes();
        packet[AT].copy_from_slice(&checksum);
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_3720() {
        // RFC 3720 Appendix B.4: 32 bytes of zeros, 0xaa 0x36 0x91 0x8a on the wire.
        assert_eq!(crc32c(&[0; 32]).to_ne_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
    }

    #[test]
    fn with_offloading_the_field_goes_out_empty_and_comes_in_correct() {
        let mut packet: Vec<u8> = (0..40).collect();
        on_output(&mut packet);
        assert_eq!(packet[AT], [8, 9, 10, 11]);
        set_offloaded(true);
        on_output(&mut packet);
        assert_eq!(packet[AT], [0; 4]);
        let came = on_input(&packet);
        assert_eq!(came[AT], crc32c(&packet).to_ne_bytes());
        assert_eq!(on_input(&[1, 2, 3]), [1, 2, 3]);
        set_offloaded(false);
    }
}
