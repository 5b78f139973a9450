//! Decodes simulated hosts' packets and links' captures with tshark: no packet may be malformed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_pcap::{Carrier, Direction, Packet, Writer};
use braidftp_sctp::wire;
use braidftp_sim::apps::bulk::{self, Protocol};
use braidftp_sim::link::Fate;
use braidftp_sim::record::{Capture, Ports};
use braidftp_sim::scenario::Scenario;
use braidftp_sim::world::{Seen, Sight};
use braidftp_sim::{LinkConfig, World, topology};

/// Scenarios whose packets together have every chunk type.
const SEEDS: std::ops::Range<u64> = 0..40;
/// The required chunk types: all of RFC 9260 except those that report errors; I-DATA, RE-CONFIG, FORWARD-TSN
/// and I-FORWARD-TSN, ECNE and CWR, AUTH, ASCONF and ASCONF-ACK, PAD, NR-SACK.
const KINDS: &[u8] =
    &[0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 64, 128, 130, 132, 192, 193, 194];

/// Packets with a sequence of chunk types not seen before.
#[derive(Default)]
struct Samples {
    seen: BTreeSet<Vec<u8>>,
    packets: Vec<Seen>,
}

impl Samples {
    fn take(&mut self, seen: Seen) {
        let packet = wire::Packet::decode(seen.datagram.payload.clone());
        let Some(packet) = packet.ok().filter(|_| seen.what == Sight::Sent) else { return };
        let mut kinds: Vec<u8> = packet.chunks().flatten().map(|chunk| chunk.kind()).collect();
        kinds.dedup();
        if self.seen.insert(kinds) {
            self.packets.push(seen);
        }
    }
}

#[test]
fn tshark_finds_no_packet_malformed_whatever_chunks_it_holds() {
    let mut samples = Samples::default();
    for seed in SEEDS {
        Scenario::from_seed(seed).watch(|seen| samples.take(seen)).expect("a scenario ends well");
    }
    let file = std::env::temp_dir().join(format!("braidftp-tshark-{}.pcapng", std::process::id()));
    let mut writer = Writer::new(std::fs::File::create(&file).unwrap(), Duration::ZERO).unwrap();
    samples.packets.sort_by_key(|seen| seen.at);
    for seen in &samples.packets {
        let (from, to) = (seen.datagram.from, seen.datagram.to);
        let packet = Packet {
            at: seen.at,
            direction: Direction::Out,
            carrier: Carrier::Udp,
            from,
            to,
            ecn: seen.datagram.ecn,
            payload: &seen.datagram.payload,
            segment_size: None,
            comment: "",
        };
        writer.write(packet).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let mut tshark = Command::new("tshark");
    tshark
        .args(["-d", "udp.port==9899,sctp", "-o", "sctp.checksum:CRC 32c"])
        // The payloads are not of the protocols that their PPIDs name.
        .args(["-d", "sctp.ppi==0-1000,data"])
        .args(["-e", "_ws.malformed", "-e", "sctp.checksum.status", "-e", "sctp.chunk_type"]);
    let Some(text) = fields(tshark, &file) else { return };
    let mut kinds = BTreeSet::new();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), samples.packets.len(), "a line for each packet");
    for (line, seen) in lines.into_iter().zip(&samples.packets) {
        let fields: Vec<&str> = line.split('\t').collect();
        let packet = wire::Packet::decode(seen.datagram.payload.clone()).unwrap();
        assert_eq!(fields[..2], ["", "1"], "{packet}");
        kinds.extend(fields[2].split(',').filter_map(|kind| kind.parse::<u8>().ok()));
    }
    let missing: Vec<_> = KINDS.iter().filter(|kind| !kinds.contains(kind)).collect();
    assert!(missing.is_empty(), "chunk types {missing:?} are not among {kinds:?}");
}

/// Decodes a capture file and removes it; one line per packet. `None` if tshark is not installed.
fn fields(mut tshark: Command, capture: &std::path::Path) -> Option<String> {
    let output = tshark.arg("-r").arg(capture).args(["-T", "fields"]).output();
    std::fs::remove_file(capture).unwrap();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "tshark: {error}");
            eprintln!("LEFT OUT: no tshark here (Debian: apt install tshark): {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The capture file of the lossy link of a flow.
fn link_capture(protocol: &Protocol, file: &std::path::Path) -> usize {
    let mut world = World::new(1);
    let ends = [1, 2].map(|host| SocketAddr::new(topology::address(0, host), 0));
    let link: LinkConfig = "rate=3mbit,delay=10ms,queue=10p,loss=0.02,overhead=20".parse().unwrap();
    let [there, back] = topology::path(&mut world, ends[0].ip(), ends[1].ip(), &[link.clone(), link]);
    let [sender, reader] = bulk::flow(protocol, ends[0], ends[1], 1);
    world.add_host(sender, [ends[0].ip()]);
    world.add_host(reader, [ends[1].ip()]);
    world.record_link(there);
    world.record_link(back);
    world.run_until(Time::from_millis(3_000));
    let mut capture = Capture::new(std::fs::File::create(file).unwrap(), Ports::default()).unwrap();
    let (there, back) = (world.take_link_record(there), world.take_link_record(back));
    capture.link_arrivals(&there).unwrap();
    capture.link(&back).unwrap();
    capture.finish().unwrap();
    let arrivals = there.iter().filter(|seen| seen.what == Fate::Arrives).count();
    arrivals + back.iter().filter(|seen| seen.what != Fate::Leaves).count()
}

#[test]
fn tshark_reads_the_packets_of_a_link_over_sctp_and_tcp() {
    let sctp = Protocol::Sctp(Arc::new(braidftp_sctp::Config::default()));
    let tcp = Protocol::Tcp(Arc::new(braidftp_tcp::Profile::Modern.config()));
    for (protocol, name) in [(sctp, "sctp"), (tcp, "tcp")] {
        let file = std::env::temp_dir().join(format!("braidftp-link-{name}-{}", std::process::id()));
        let packets = link_capture(&protocol, &file);
        let mut tshark = Command::new("tshark");
        tshark
            .args(["-o", "sctp.checksum:CRC 32c", "-o", "tcp.check_checksum:TRUE"])
            .args(["-d", "sctp.ppi==0,data", "-d", "tcp.port==5001,data", "-d", "sctp.port==5001,data"])
            .args(["-e", "_ws.malformed", "-e", "frame.protocols"])
            .args(["-e", "sctp.checksum.status", "-e", "tcp.checksum.status"]);
        let Some(text) = fields(tshark, &file) else { return };
        assert_eq!(text.lines().count(), packets, "a line for each packet");
        assert!(packets > 500, "{packets}");
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields[0], "", "{line}");
            assert!(fields[1].split(':').any(|protocol| protocol == name), "{line}");
            let status = if name == "sctp" { fields[2] } else { fields[3] };
            assert_eq!(status, "1", "a bad checksum: {line}");
        }
    }
}
