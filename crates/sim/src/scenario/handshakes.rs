//! Checks that the scenarios reach the states of a handshake with lost, repeated and delayed packets.

use std::collections::{BTreeMap, BTreeSet};

use braidftp_base::Time;
use braidftp_sctp::VerificationTag;
use braidftp_sctp::wire::{Cause, Chunk, Init, Packet, Parameter};

use super::{PORT, Planned, Scenario};
use crate::apps::messages::Side;
use crate::world::{Seen, Sight};

/// The type of the parameter that numbers a repeated INIT, as bytes.
const INIT_NUMBER: [u8; 2] = [0xFF, 0xA5];
/// Scenarios that transfer more are skipped.
const BYTES_MAX: usize = 50_000;

/// The states to be reached.
const STATES: [&str; 11] = [
    "an INIT ACK reports the number of its INIT",
    "an INIT ACK comes in COOKIE-ECHOED",
    "an INIT goes to another address than the first",
    "DATA or SACK stands for COOKIE ACK",
    "the same, with a buffer that holds a few packets",
    "a repeated COOKIE ECHO makes the server retransmit its first flight",
    "a cookie is found stale, and renewed",
    "the client restarts in COOKIE-ECHOED",
    "both sides echo cookies",
    "an association is shut down as soon as it is up",
    "a HEARTBEAT leaves with DATA",
];

/// The observed state of the associations of one client port.
#[derive(Default)]
struct Handshake {
    /// The client's tag by its last INIT.
    tag: VerificationTag,
    /// The first destination of an INIT.
    asked: Option<std::net::IpAddr>,
    has_echoed: bool,
    is_acknowledged: bool,
    /// When the client became ESTABLISHED.
    up_at: Option<Time>,
    /// Whether the server has accepted the cookie.
    is_accepted: bool,
    /// When a COOKIE ECHO was repeated.
    repeated_at: Option<Time>,
    server_tsns: BTreeSet<u32>,
}

impl Handshake {
    /// The client sent an INIT to this address.
    fn on_init(&mut self, init: &Init, to: std::net::IpAddr, mut reach: impl FnMut(usize)) {
        let is_handshaking = self.has_echoed && !self.is_acknowledged;
        if is_handshaking && init.initiate_tag != self.tag {
            reach(7);
        }
        if *self.asked.get_or_insert(to) != to {
            reach(2);
        }
        if init.initiate_tag != self.tag {
            *self = Self { tag: init.initiate_tag, asked: self.asked, ..Self::default() };
        }
        self.has_echoed = false;
    }
}

struct Observer<'a> {
    scenario: &'a Scenario,
    by_port: BTreeMap<u16, Handshake>,
    reached: BTreeSet<&'static str>,
}

impl Observer<'_> {
    fn see(&mut self, seen: Seen) {
        let Ok(packet) = Packet::decode_observed(seen.datagram.payload.clone()) else { return };
        let header = packet.header;
        let port = if header.source_port == PORT { header.destination_port } else { header.source_port };
        let of_client = header.destination_port == PORT;
        let chunks: Vec<Chunk> = packet.chunks().flatten().collect();
        let repairs = self.scenario.configs.each_ref().map(|config| config.recovery.early_repair);
        let small = self.scenario.configs[Side::Client as usize].memory.receive_buffer_bytes <= 6_000;
        let handshake = self.by_port.entry(port).or_default();
        let mut reach = |nth: usize| {
            self.reached.insert(STATES[nth]);
        };
        let has = |what: fn(&Chunk) -> bool| chunks.iter().any(what);
        if seen.what == Sight::Sent
            && repairs[usize::from(!of_client)]
            && has(|chunk| matches!(chunk, Chunk::Heartbeat(_)))
            && has(|chunk| matches!(chunk, Chunk::Data(_)))
        {
            reach(10);
        }
        for chunk in &chunks {
            match (seen.what, of_client, chunk) {
                (Sight::Sent, true, Chunk::Init(init)) => {
                    handshake.on_init(init, seen.datagram.to.ip(), &mut reach);
                }
                (Sight::Arrived, false, Chunk::InitAck(init_ack)) if header.tag == handshake.tag => {
                    if reports_number(init_ack) {
                        reach(0);
                    }
                    if handshake.has_echoed && !handshake.is_acknowledged {
                        reach(1);
                    }
                }
                (Sight::Sent, true, Chunk::CookieEcho(_)) => handshake.has_echoed = true,
                (Sight::Sent, false, Chunk::CookieEcho(_)) if handshake.has_echoed => reach(8),
                (Sight::Arrived, true, Chunk::CookieEcho(_)) if handshake.is_accepted => {
                    handshake.repeated_at = Some(seen.at);
                }
                (Sight::Sent, false, Chunk::CookieAck) => handshake.is_accepted = true,
                (Sight::Arrived, false, Chunk::CookieAck) if header.tag == handshake.tag => {
                    handshake.is_acknowledged = true;
                    handshake.up_at.get_or_insert(seen.at);
                }
                (Sight::Arrived, false, Chunk::Data(_) | Chunk::Sack(_) | Chunk::NrSack(_))
                    if header.tag == handshake.tag && handshake.has_echoed && !handshake.is_acknowledged =>
                {
                    if repairs[Side::Client as usize] {
                        reach(3);
                        if small {
                            reach(4);
                        }
                    }
                    handshake.is_acknowledged = true;
                    handshake.up_at.get_or_insert(seen.at);
                }
                (Sight::Sent, false, Chunk::Data(data)) => {
                    let is_new = handshake.server_tsns.insert(data.tsn.0);
                    if !is_new && handshake.repeated_at == Some(seen.at) && repairs[Side::Server as usize] {
                        reach(5);
                    }
                }
                (Sight::Arrived, false, Chunk::Error(causes))
                    if header.tag == handshake.tag
                        && causes.iter().any(|cause| matches!(cause, Cause::StaleCookie(_))) =>
                {
                    reach(6);
                }
                (Sight::Sent, true, Chunk::Shutdown { .. }) if handshake.up_at == Some(seen.at) => reach(9),
                _ => {}
            }
        }
    }
}

fn reports_number(init_ack: &Init) -> bool {
    let is_number =
        |parameter: &Parameter| matches!(parameter, Parameter::Unrecognized(raw) if raw[..2] == INIT_NUMBER);
    init_ack.parameters.iter().any(is_number)
}

#[test]
fn scenarios_reach_the_states_of_a_handshake_that_loses_packets() {
    let bytes = |sends: &[Planned]| sends.iter().map(|message| message.bytes).sum::<usize>();
    let mut reached = BTreeSet::new();
    for seed in 0..600 {
        let scenario = Scenario::from_seed(seed);
        let moved: usize = scenario
            .plans
            .iter()
            .map(|(_, plan)| bytes(&plan.client_sends) + bytes(&plan.server_sends))
            .sum();
        if moved > BYTES_MAX || !scenario.configs.iter().any(|config| config.recovery.early_repair) {
            continue;
        }
        let mut observer =
            Observer { scenario: &scenario, by_port: BTreeMap::new(), reached: std::mem::take(&mut reached) };
        scenario.watch(|seen| observer.see(seen)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        reached = observer.reached;
        if reached.len() == STATES.len() {
            return;
        }
    }
    let missing: Vec<_> = STATES.iter().filter(|state| !reached.contains(**state)).collect();
    panic!("not reached: {missing:#?}");
}
