//! Random link faults and re-configurations: every message is delivered once and in order, and the shutdown
//! completes.

use proptest::prelude::*;

use super::*;
use crate::association::Order;

#[derive(Debug, Clone)]
enum Step {
    Send { client: bool, stream: u16, len: usize, unordered: bool },
    ResetStreams { client: bool, outgoing: Option<Vec<u16>>, incoming: Option<Vec<u16>> },
    ResetAssociation { client: bool },
    Add { client: bool, outgoing: u16, incoming: u16 },
    Wait(u64),
}

#[derive(Debug, Clone)]
struct Plan {
    seed: u64,
    modern: bool,
    interleaving: bool,
    small_buffers: bool,
    loss: u64,
    duplication: u64,
    reordering: u64,
    steps: Vec<Step>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let len = prop_oneof![4 => 1usize..200, 3 => 200usize..5_000, 1 => 5_000usize..40_000];
    let streams = || proptest::option::of(prop::collection::vec(0u16..5, 0..4));
    let step = prop_oneof![
        8 => (any::<bool>(), 0u16..7, len, prop::bool::weighted(0.1))
            .prop_map(|(client, stream, len, unordered)| Step::Send { client, stream, len, unordered }),
        3 => (any::<bool>(), streams(), streams())
            .prop_map(|(client, outgoing, incoming)| Step::ResetStreams { client, outgoing, incoming }),
        1 => any::<bool>().prop_map(|client| Step::ResetAssociation { client }),
        1 => (any::<bool>(), 0u16..3, 0u16..3)
            .prop_map(|(client, outgoing, incoming)| Step::Add { client, outgoing, incoming }),
        3 => (1u64..2_000).prop_map(Step::Wait),
        1 => (2_000u64..40_000).prop_map(Step::Wait),
    ];
    (
        any::<u64>(),
        any::<[bool; 3]>(),
        prop_oneof![Just(0), 0u64..50, 0u64..250],
        0u64..100,
        0u64..300,
        prop::collection::vec(step, 1..60),
    )
        .prop_map(
            |(seed, [modern, interleaving, small_buffers], loss, duplication, reordering, steps)| Plan {
                seed,
                modern,
                interleaving,
                small_buffers,
                loss,
                duplication,
                reordering,
                steps,
            },
        )
}

/// A list as proptest draws it: empty for all.
fn drawn(list: &Option<Vec<u16>>) -> Option<Streams> {
    list.as_ref().map(|list| if list.is_empty() { Streams::All } else { listed(list) })
}

fn run(plan: &Plan) {
    let mut config = patient(if plan.modern { modern() } else { rfc() });
    config.streams.reconfiguration = true;
    config.streams.peer_may = ALL;
    config.messages.interleaving = plan.interleaving;
    config.streams.outbound = 5;
    if plan.small_buffers {
        config.memory.receive_buffer_bytes = 8_000;
    }
    let mut pair = Pair::new(config).seeded(plan.seed);
    pair.loss = plan.loss;
    pair.duplication = plan.duplication;
    pair.reordering = plan.reordering;
    assert!(pair.run_until(|pair| pair.server_id.is_some() && pair.association(Client).is_up()));
    let of = |client: bool| if client { Client } else { Server };
    let mut taken: Vec<(bool, u16, usize, bool)> = Vec::new();
    for step in &plan.steps {
        match step {
            Step::Send { client, stream, len, unordered } => {
                let mut payload = pattern(*len);
                payload[0] = taken.len() as u8;
                let order = if *unordered { Order::Unordered } else { Order::Ordered };
                let message = Message { order, ..Message::new(Ppid(1), payload) };
                if pair.association(of(*client)).send(StreamId(*stream), message).is_ok() {
                    taken.push((*client, *stream, *len, *unordered));
                }
            }
            Step::ResetStreams { client, outgoing, incoming } => {
                let streams = StreamReset { outgoing: drawn(outgoing), incoming: drawn(incoming) };
                let _ = pair.association(of(*client)).reset_streams(streams);
            }
            Step::ResetAssociation { client } => {
                let now = pair.now;
                let _ = pair.association(of(*client)).reset_association(now);
            }
            Step::Add { client, outgoing, incoming } => {
                let _ = pair.association(of(*client)).add_streams(*outgoing, *incoming);
            }
            Step::Wait(millis) => pair.run(Duration::from_millis(*millis)),
        }
    }
    let total = taken.len();
    let arrived = pair.run_until(|pair| {
        let read = |read: &BTreeMap<u16, Vec<Vec<u8>>>| read.values().map(Vec::len).sum::<usize>();
        read(&pair.client_read) + read(&pair.server_read) == total
    });
    if !arrived {
        let (client, server) = (pair.association(Client).stats(), pair.association(Server).stats());
        panic!("{:?} {client:?}\n{:?} {server:?}", pair.closed(Client), pair.closed(Server));
    }
    pair.association(Client).shutdown();
    assert!(pair.run_until(|pair| pair.closed(Client).is_some() && pair.closed(Server).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown));
    for (side, from_client) in [(Server, true), (Client, false)] {
        for stream in 0..7 {
            let mut ordered = taken
                .iter()
                .enumerate()
                .filter(|(_, m)| m.0 == from_client && m.1 == stream && !m.3)
                .map(|(number, _)| number);
            let mut seen = BTreeSet::new();
            for message in pair.read(side, stream) {
                let number = usize::from(message[0]);
                assert!(seen.insert(number), "message {number} came twice");
                let mut expected = pattern(taken[number].2);
                expected[0] = number as u8;
                assert!(message == expected, "message {number} came as it was sent");
                if !taken[number].3 {
                    assert_eq!(Some(number), ordered.next(), "stream {stream} is in order");
                }
            }
            assert_eq!(ordered.next(), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn messages_arrive_once_and_in_order_during_reconfigurations(plan in plan()) {
        run(&plan);
    }
}
