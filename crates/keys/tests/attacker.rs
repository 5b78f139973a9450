//! Somebody on the way who does what can be done without keys, by chance: loses, replays and reorders packets, flips bits, puts in
//! those of another association, edits offers, and says INIT, ABORT, SHUTDOWN, SACK, ERROR, COOKIE ECHO and DATA with the right
//! tags. Once both sides are protected, all that comes of it is loss; before, there may be no association, and nothing is
//! said to anybody.
//!
//! `ATTACKER_SEEDS=100000 cargo test --release -p braidftp-keys --test attacker` takes so many seeds; one that fails is named.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{CLIENT, Identity, Pair, SERVER, config, pattern, with_checksum};

const SECOND: Duration = Duration::from_secs(1);
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const MESSAGES: u64 = 6;

/// Numbers that look random and are the same each time.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03);
        for _ in 0..4 {
            dice.roll(2);
        }
        dice
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.max(1);
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn falls(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }
}

/// A chunk that says something that matters.
fn forged_chunk(dice: &mut Dice) -> Vec<u8> {
    let tsn = (dice.roll(1 << 32) as u32).to_be_bytes();
    let with_tsn = |head: &[u8], tail: &[u8]| [head, &tsn, tail].concat();
    match dice.roll(9) {
        0 => b"\x06\x00\x00\x04".to_vec(),                     // ABORT
        1 => b"\x06\x00\x00\x0c\x00\x0c\x00\x08bye!".to_vec(), // ABORT, with a cause
        2 => with_tsn(b"\x07\x00\x00\x08", b""),               // SHUTDOWN
        3 => b"\x08\x00\x00\x04".to_vec(),                     // SHUTDOWN ACK
        4 => b"\x0e\x00\x00\x04".to_vec(),                     // SHUTDOWN COMPLETE
        5 => with_tsn(b"\x03\x00\x00\x10", b"\xff\xff\xff\xff\x00\x00\x00\x00"), // SACK
        6 => b"\x09\x00\x00\x0c\x00\x03\x00\x08\x00\x00\x00\x01".to_vec(), // ERROR, stale cookie
        7 => b"\x0a\x00\x00\x08cook".to_vec(),                 // COOKIE ECHO
        _ => with_tsn(b"\x00\x03\x00\x14", b"\x00\x01\x00\x00\x00\x00\x00\x00evil"), // DATA
    }
}

/// An INIT in the name of who sent this packet.
fn forged_init(packet: &[u8]) -> Vec<u8> {
    let chunk = b"\x01\x00\x00\x14\x00\x00\x00\x01\x00\x01\x00\x00\x00\x0a\x00\x0a\x00\x00\x00\x01";
    [&packet[..4], &[0; 8], &chunk[..]].concat()
}

/// What the attacker says beside a packet, or in its name.
fn injected(dice: &mut Dice, packet: &[u8], seen: &[Vec<u8>], of_others: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    if dice.falls(10) {
        said.push([&packet[..12], &forged_chunk(dice)].concat());
    }
    if dice.falls(3) {
        said.push(forged_init(packet));
    }
    if dice.falls(10) && !seen.is_empty() {
        said.push(seen[dice.roll(seen.len())].clone());
    }
    if dice.falls(5) && !of_others.is_empty() {
        // Chunks of another association, with this one's ports and tag.
        let other = &of_others[dice.roll(of_others.len())];
        said.push([&packet[..12], &other[12..]].concat());
    }
    if dice.falls(10) {
        let mut flipped = packet.to_vec();
        let bit = dice.roll((flipped.len() - 12) * 8);
        flipped[12 + bit / 8] ^= 1 << (bit % 8);
        said.push(flipped);
    }
    said.into_iter().map(with_checksum).collect()
}

fn messages(seed: u64) -> Vec<Bytes> {
    (0..MESSAGES).map(|number| pattern(seed + number, 500 + 3_000 * number as usize)).collect()
}

fn read(pair: &Pair, node: usize) -> Vec<Vec<u8>> {
    pair.read(node, 1)
}

/// No user data ever left as it is.
fn assert_secret(pair: &Pair, seed: u64) {
    for (_, _, packet) in &pair.log {
        for message in messages(seed).iter().chain(&messages(seed + 100)) {
            assert!(!packet.windows(64).any(|window| window == &message[..64]), "seed {seed}");
        }
    }
}

/// What another association with the same server looks like.
fn of_others(identity: &Identity) -> Vec<Vec<u8>> {
    let mut pair = Pair::new(identity.settings().map(Some), &config(), 77);
    pair.send(CLIENT, 1, pattern(9, 20_000));
    pair.send(SERVER, 1, pattern(9, 20_000));
    pair.run(SECOND);
    pair.log.into_iter().map(|(_, _, packet)| packet).collect()
}

/// The attacker comes once both sides are protected.
fn attack_protected(identity: &Identity, others: &[Vec<u8>], seed: u64) {
    let mut pair = Pair::new(identity.settings().map(Some), &config(), seed);
    pair.run(SECOND);
    assert!(pair.nodes.iter().all(|node| node.protected_at().is_some()), "seed {seed}");
    let mut dice = Dice::new(seed);
    (pair.loss, pair.reordering) = (dice.roll(100) as u64, dice.roll(300) as u64);
    let (others, mut seen) = (others.to_vec(), Vec::new());
    let mut injecting = dice.clone();
    pair.inject = Some(Box::new(move |_, packet| {
        let said = injected(&mut injecting, packet, &seen, &others);
        seen.push(packet.to_vec());
        said
    }));
    pair.edit = Some(Box::new(move |_, _, mut packet| {
        if dice.falls(5) {
            let bit = dice.roll((packet.len() - 12) * 8);
            packet[12 + bit / 8] ^= 1 << (bit % 8);
        }
        Some(with_checksum(packet))
    }));
    for (node, offset) in [(CLIENT, 0), (SERVER, 100)] {
        messages(seed + offset).into_iter().for_each(|message| pair.send(node, 1, message));
    }
    // In the middle of it new keys.
    pair.run(SECOND / 4);
    if seed.is_multiple_of(2) {
        let now = pair.now;
        pair.nodes[CLIENT].want_keys(now);
    }
    pair.run(20 * SECOND);
    (pair.edit, pair.inject, pair.loss) = (None, None, 0);
    pair.run(30 * SECOND);
    for (node, offset) in [(SERVER, 0), (CLIENT, 100)] {
        assert!(pair.nodes[node].closed().is_none(), "seed {seed}: {:?}", pair.nodes[node].closed());
        assert_eq!(read(&pair, node), messages(seed + offset), "seed {seed}");
    }
    assert_secret(&pair, seed);
}

/// The attacker is there from the first packet on. Whether data arrived nevertheless.
fn attack_handshake(identity: &Identity, others: &[Vec<u8>], seed: u64) -> bool {
    let mut pair = Pair::new(identity.settings().map(Some), &config(), seed);
    let mut dice = Dice::new(seed ^ 0x5555);
    pair.loss = dice.roll(50) as u64;
    let edits_offers = dice.falls(50);
    let (others, mut seen) = (others.to_vec(), Vec::new());
    let mut injecting = dice.clone();
    pair.inject = Some(Box::new(move |_, packet| {
        let said =
            if injecting.falls(30) { injected(&mut injecting, packet, &seen, &others) } else { Vec::new() };
        seen.push(packet.to_vec());
        said
    }));
    pair.edit = Some(Box::new(move |_, _, mut packet| {
        let is_offer = [INIT, INIT_ACK].contains(&packet[12]);
        if is_offer && edits_offers {
            if let Some(at) = packet.windows(4).position(|it| it == b"\x80\x06\x00\x0b") {
                match dice.roll(3) {
                    // Taken out, changed, or called something else.
                    0 => {
                        packet.drain(at..(at + 12).min(packet.len()));
                        let len = (packet.len() - 12) as u16;
                        packet[14..16].copy_from_slice(&len.to_be_bytes());
                    }
                    1 => packet[at + 4 + dice.roll(7)] ^= 1 << dice.roll(8),
                    _ => packet[at + 1] = 0x07,
                }
            }
        } else if dice.falls(3) {
            let bit = dice.roll((packet.len() - 12) * 8);
            packet[12 + bit / 8] ^= 1 << (bit % 8);
        }
        Some(with_checksum(packet))
    }));
    for (node, offset) in [(CLIENT, 0), (SERVER, 100)] {
        messages(seed + offset).into_iter().for_each(|message| pair.send(node, 1, message));
    }
    pair.run(40 * SECOND);
    assert_secret(&pair, seed);
    for (node, offset) in [(SERVER, 0), (CLIENT, 100)] {
        let (read, sent) = (read(&pair, node), messages(seed + offset));
        assert!(
            read.len() <= sent.len() && read.iter().zip(&sent).all(|(read, sent)| read == sent),
            "seed {seed}"
        );
        assert!(!edits_offers || read.is_empty(), "seed {seed}: an offer was changed, and nobody noticed");
    }
    !read(&pair, SERVER).is_empty()
}

#[test]
fn nothing_that_is_forged_is_delivered_or_ends_an_association() {
    let seeds =
        std::env::var("ATTACKER_SEEDS").map_or(150, |seeds| seeds.parse().expect("a number of seeds"));
    let identity = Identity::new();
    let others = of_others(&identity);
    for seed in 0..seeds {
        attack_protected(&identity, &others, seed);
    }
}

#[test]
fn a_handshake_that_is_attacked_leaves_protection_or_nothing() {
    let seeds =
        std::env::var("ATTACKER_SEEDS").map_or(150, |seeds| seeds.parse().expect("a number of seeds"));
    let identity = Identity::new();
    let others = of_others(&identity);
    let arrived = (0..seeds).filter(|seed| attack_handshake(&identity, &others, *seed)).count() as u64;
    // Most of those attacks do not succeed at all.
    assert!(arrived > seeds / 5, "{arrived} of {seeds}");
}
