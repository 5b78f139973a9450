//! Random link faults: everything is delivered exactly once and in order in both directions, except for
//! messages that the sender reported as abandoned, and the shutdown completes.

use crate::config::Scheduler;
use proptest::prelude::*;

use super::*;
use crate::association::scheduler::tests::ALL as SCHEDULERS;
use crate::association::{Order, Reliability, SendError};

#[derive(Debug, Clone)]
struct Plan {
    seed: u64,
    modern: bool,
    loss: u64,
    duplication: u64,
    reordering: u64,
    small_buffers: bool,
    scheduler: Scheduler,
    interleaving: bool,
    /// Whether sent messages may be abandoned.
    partial: bool,
    nr_sack: bool,
    /// Side, stream, length, unordered.
    messages: Vec<(bool, u16, usize, bool, Reliability)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let len = prop_oneof![4 => 1usize..200, 3 => 200usize..5_000, 1 => 5_000usize..60_000];
    let reliability = prop_oneof![
        2 => Just(Reliability::Full),
        1 => (0u64..300).prop_map(|millis| Reliability::Lifetime(Duration::from_millis(millis))),
        1 => (0u32..3).prop_map(Reliability::Retransmissions),
        1 => (0u32..4).prop_map(Reliability::Priority),
    ];
    let message = (any::<bool>(), 0u16..5, len, prop::bool::weighted(0.1), reliability);
    (
        any::<u64>(),
        any::<bool>(),
        prop_oneof![Just(0), 0u64..50, 0u64..250],
        0u64..100,
        0u64..300,
        any::<bool>(),
        (prop::sample::select(&SCHEDULERS[..]), any::<bool>(), prop::bool::weighted(0.7), any::<bool>()),
        prop::collection::vec(message, 1..40),
    )
        .prop_map(
            |(
                seed,
                modern,
                loss,
                duplication,
                reordering,
                small_buffers,
                (scheduler, interleaving, partial, nr_sack),
                messages,
            )| {
                Plan {
                    seed,
                    modern,
                    loss,
                    duplication,
                    reordering,
                    small_buffers,
                    scheduler,
                    interleaving,
                    partial,
                    nr_sack,
                    messages,
                }
            },
        )
}

/// The messages that a side abandoned, and whether they had been sent.
fn abandoned(pair: &Pair, side: Side) -> BTreeSet<(u32, bool)> {
    let events = pair.events(side).iter();
    events
        .filter_map(|event| match event {
            Event::Abandoned(abandoned) => Some((abandoned.context, abandoned.was_sent)),
            _ => None,
        })
        .collect()
}

fn run(plan: &Plan) {
    let mut config = patient(if plan.modern { modern() } else { rfc() });
    if plan.small_buffers {
        config.memory.receive_buffer_bytes = 8_000;
        config.memory.send_buffer_bytes = 20_000;
    }
    config.messages.scheduler = plan.scheduler;
    config.messages.interleaving = plan.interleaving;
    config.messages.partial_reliability = plan.partial;
    config.sack.nr_sack = plan.nr_sack;
    let mut pair = Pair::new(config).seeded(plan.seed);
    for stream in 0..5 {
        pair.association(Client).set_stream_value(StreamId(stream), stream % 3).unwrap();
    }
    pair.loss = plan.loss;
    pair.duplication = plan.duplication;
    pair.reordering = plan.reordering;
    let mut queues: [Vec<_>; 2] = [Vec::new(), Vec::new()];
    for (number, (from_client, stream, len, unordered, reliability)) in plan.messages.iter().enumerate() {
        let mut payload = pattern(*len);
        payload[0] = number as u8;
        let order = if *unordered { Order::Unordered } else { Order::Ordered };
        let message = Message { order, ..Message::new(Ppid(1), payload) };
        let message = Message { reliability: *reliability, context: number as u32, ..message };
        queues[usize::from(!from_client)].push((*stream, message));
    }
    for queue in &mut queues {
        queue.reverse();
    }
    let total = plan.messages.len();
    let arrived = pair.run_until(|pair| {
        for (side, queue) in [Client, Server].into_iter().zip(&mut queues) {
            if side == Server && pair.server_id.is_none() {
                continue;
            }
            while let Some((stream, message)) = queue.last() {
                match pair.association(side).send(StreamId(*stream), message.clone()) {
                    Ok(()) => queue.pop(),
                    Err(SendError::Full) => break,
                    Err(error) => panic!("{error}"),
                };
            }
        }
        let read = pair.client_read.values().chain(pair.server_read.values()).flatten();
        let mut done: BTreeSet<_> = read.map(|message| u32::from(message[0])).collect();
        done.extend(
            [Client, Server].into_iter().flat_map(|side| abandoned(pair, side)).map(|message| message.0),
        );
        done.len() == total
    });
    if !arrived {
        let (client, server) = (pair.association(Client).stats(), pair.association(Server).stats());
        panic!("{:?} {client:?}\n{:?} {server:?}", pair.closed(Client), pair.closed(Server));
    }
    pair.association(Client).shutdown();
    assert!(
        pair.run_until(|pair| pair.closed(Client).is_some() && pair.closed(Server).is_some()),
        "{:?} {:?}",
        pair.association(Client).stats(),
        pair.association(Server).stats()
    );
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown));
    for (side, from_client) in [(Server, true), (Client, false)] {
        let gone = abandoned(&pair, if from_client { Client } else { Server });
        if !plan.partial {
            assert!(gone.iter().all(|(_, was_sent)| !was_sent), "what has left is reliable");
        }
        assert_eq!(pair.association(side).inbound.charged_bytes(), 0);
        for stream in 0..5 {
            let read = pair.read(side, stream);
            let sent = |unordered| {
                let numbered = plan.messages.iter().enumerate();
                numbered.filter(move |(_, m)| m.0 == from_client && m.1 == stream && m.3 == unordered)
            };
            let unordered: std::collections::BTreeSet<_> = sent(true).map(|(number, _)| number).collect();
            let mut ordered = sent(false).map(|(number, _)| number);
            let mut seen = std::collections::BTreeSet::new();
            for message in &read {
                let number = usize::from(message[0]);
                assert!(seen.insert(number), "message {number} came twice");
                let mut expected = pattern(plan.messages[number].2);
                expected[0] = number as u8;
                assert!(*message == expected, "message {number} came as it was sent");
                assert!(!gone.contains(&(number as u32, false)), "message {number} has never left");
                if !unordered.contains(&number) {
                    let skipped = |next: &usize| *next != number && gone.contains(&(*next as u32, true));
                    let next = ordered.find(|next| !skipped(next) && !gone.contains(&(*next as u32, false)));
                    assert_eq!(Some(number), next, "stream {stream} is in order");
                }
            }
            let missing = ordered.chain(unordered).find(|number| {
                let number = *number as u32;
                !seen.contains(&(number as usize)) && !gone.iter().any(|(gone, _)| *gone == number)
            });
            assert_eq!(missing, None, "what did not come was given up, and said to be");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn every_message_arrives_once_and_in_order_over_any_link(plan in plan()) {
        run(&plan);
    }
}
