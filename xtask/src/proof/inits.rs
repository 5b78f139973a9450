//! A flood of INITs, each from a different address and port.
//!
//! A server keeps no state before a valid COOKIE ECHO (RFC 9260 §5.1.3), so its memory must stay constant,
//! and clients during and after the flood must be served.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result};

use super::actors::{Running, Server, mirror};
use super::compare::{Times, differences};
use super::{Bench, megabytes, remove};
use crate::tree::{Kind, Rng, Shape, make};

const INITS: u32 = 100_000;

/// One sender in this number waits for the INIT ACK, which shows that the flood is answered.
const LISTENERS_EVERY: u32 = 1_000;

/// The limit of the growth of the server's memory.
const MOST_GROWTH_BYTES: u64 = 4_000_000;

/// Sends the flood while a client mirrors a small tree.
pub(super) fn flood(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    make(&tree, &Shape { files: 300, seed: 1, big: 0, kind: Kind::Nasty })?;
    let server = Server::start(&bench.programs, &tree, &bench.dir, &[])?;
    // A client before the flood, so that the cost of a first client is not counted.
    client(bench, &server, "before")?;
    let before = server.running.memory().context("the server is gone")?;

    let url = server.url("braid", None);
    let mut during = mirror(&bench.programs, &url, &bench.dir.join("during"), "braid");
    let mut during = Running::start(&mut during, &bench.dir, "client-during")?;
    let mut rng = Rng(1);
    let mut answered = 0;
    let mut asked = 0;
    for number in 0..INITS {
        // The loopback network has sixteen million addresses.
        let address = Ipv4Addr::from(0x7f01_0000 + number / 250);
        let socket =
            UdpSocket::bind((address, 0)).with_context(|| format!("cannot bind a port of {address}"))?;
        socket.send_to(&init(&mut rng), server.udp)?;
        if number % LISTENERS_EVERY == 0 {
            asked += 1;
            answered += u32::from(is_init_ack(&socket, server.udp));
        }
    }
    let peak = server.running.peak_memory().context("the server is gone")?;
    let after = server.running.memory().context("the server is gone")?;
    bench.verdict(
        answered * 2 > asked,
        &format!("{INITS} INITs from as many ports; of {asked} that waited, {answered} got an INIT ACK"),
    );
    bench.verdict(
        after < before + MOST_GROWTH_BYTES,
        &format!(
            "the server had {} resident before and {} after ({} at most), may grow by {}",
            megabytes(before),
            megabytes(after),
            megabytes(peak),
            megabytes(MOST_GROWTH_BYTES)
        ),
    );
    let finished = during.finish(Duration::from_secs(60))?;
    let found = differences(&tree, &bench.dir.join("during"), Times::Compared)?;
    bench.verdict(
        finished.code() == 0 && found.is_empty(),
        &format!("a client during the flood: exit code {}, {} differences", finished.code(), found.len()),
    );
    client(bench, &server, "after")
}

/// Mirrors once and reports the result.
fn client(bench: &mut Bench, server: &Server, when: &str) -> Result<()> {
    let copy = bench.dir.join(format!("copy-{when}"));
    let mut command = mirror(&bench.programs, &server.url("braid", None), &copy, "braid");
    let finished = Running::start(&mut command, &bench.dir, "client")?.finish(Duration::from_secs(60))?;
    let found = differences(&bench.dir.join("tree"), &copy, Times::Compared)?;
    bench.verdict(
        finished.code() == 0 && found.is_empty(),
        &format!("a client {when} the flood: exit code {}, {} differences", finished.code(), found.len()),
    );
    remove(&copy)
}

/// A packet with an INIT (RFC 9260 §3.3.2), with pseudo-random port and tag.
fn init(rng: &mut Rng) -> Vec<u8> {
    let mut packet = Vec::with_capacity(32);
    packet.extend_from_slice(&(1_024 + rng.below(60_000) as u16).to_be_bytes());
    packet.extend_from_slice(&21u16.to_be_bytes());
    // The tag of a packet with an INIT is 0; the checksum is written below.
    packet.extend_from_slice(&[0; 8]);
    packet.extend_from_slice(&[1, 0, 0, 20]);
    packet.extend_from_slice(&(rng.next() as u32 | 1).to_be_bytes());
    packet.extend_from_slice(&131_072u32.to_be_bytes());
    packet.extend_from_slice(&5u16.to_be_bytes());
    packet.extend_from_slice(&5u16.to_be_bytes());
    packet.extend_from_slice(&(rng.next() as u32).to_be_bytes());
    let checksum = crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

/// Whether the server answers with an INIT ACK soon.
fn is_init_ack(socket: &UdpSocket, server: SocketAddr) -> bool {
    let mut answer = [0; 2_048];
    let ready = socket.set_read_timeout(Some(Duration::from_secs(1)));
    match ready.and_then(|()| socket.recv_from(&mut answer)) {
        Ok((length, from)) => from == server && length > 12 && answer[12] == 2,
        Err(_) => false,
    }
}

/// CRC32c (RFC 9260 appendix A), bit by bit: a hundred thousand short packets need no table.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
