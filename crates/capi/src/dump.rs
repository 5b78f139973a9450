//! A packet as text, as `text2pcap -n -l 248 -D -t '%H:%M:%S.'` reads it.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// The text of a packet, with the zero that ends a string of C. The time of day is UTC.
pub(crate) fn text(packet: &[u8], outbound: bool) -> Vec<u8> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, micros) = (since.as_secs() % 86_400, since.subsec_micros());
    let direction = if outbound { 'O' } else { 'I' };
    let mut text = String::with_capacity(64 + 3 * packet.len());
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    // Writing to a string does not fail.
    let _ = write!(text, "\n{direction} {hours:02}:{minutes:02}:{seconds:02}.{micros:06} 0000");
    for byte in packet {
        let _ = write!(text, " {byte:02x}");
    }
    text.push_str(" # SCTP_PACKET\n\0");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_one_line_of_hexadecimal_bytes() {
        let text = String::from_utf8(text(&[0x00, 0x1f, 0xff], true)).unwrap();
        assert!(text.starts_with("\nO ") && text.ends_with(" 0000 00 1f ff # SCTP_PACKET\n\0"), "{text:?}");
    }
}
