//! Decodes a written file with tshark. The test prints SKIPPED where tshark is not installed.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use braidftp_base::{Ecn, Time};
use braidftp_pcap::{Carrier, Direction, Packet, Writer};

/// A SHUTDOWN ACK with its CRC32c.
const SHUTDOWN_ACK: [u8; 16] = [0, 21, 0, 21, 0, 0, 0, 1, 0x2b, 0xe5, 0xc2, 0xef, 8, 0, 0, 4];

#[test]
fn tshark_decodes_sctp_over_udp_and_over_ip() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED: tshark is not installed (apt-get install tshark)");
        return;
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::new(Vec::new(), Duration::ZERO).unwrap();
    for (carrier, from, to) in [
        (Carrier::Udp, "10.0.0.1:9899", "10.0.0.2:40000"),
        (Carrier::Sctp, "10.0.0.1:0", "10.0.0.2:0"),
        (Carrier::Udp, "[2001:db8::1]:9899", "[2001:db8::2]:40000"),
    ] {
        let packet = Packet {
            at: Time::from_millis(1_500),
            direction: Direction::In,
            carrier,
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            ecn: Ecn::Ect0,
            payload: &SHUTDOWN_ACK,
            segment_size: None,
            comment: "dropped",
        };
        writer.write(packet).unwrap();
    }
    file.write_all(&writer.into_inner()).unwrap();
    let output = Command::new("tshark")
        .args([
            "-o",
            "udp.check_checksum:TRUE",
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "sctp.checksum:CRC 32c",
        ])
        .args(["-T", "fields", "-E", "separator=,", "-r"])
        .arg(file.path())
        .args("-e frame.time_relative -e sctp.chunk_type -e sctp.verification_tag".split(' '))
        .args("-e sctp.checksum.status -e udp.checksum.status -e frame.comment".split(' '))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> =
        text.lines().map(|line| line.split(',').skip(1).collect::<Vec<_>>().join(",")).collect();
    assert_eq!(
        lines,
        ["8,0x00000001,1,1,dropped", "8,0x00000001,1,,dropped", "8,0x00000001,1,1,dropped"],
        "{output:?}"
    );
}
