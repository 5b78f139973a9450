//! Whatever the link does: exactly once, in order, all of it, both ways, and the shutdown completes.

use proptest::prelude::*;

use super::*;
use crate::association::scheduler::tests::ALL as SCHEDULERS;
use crate::association::{Order, Scheduler, SendError};

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
    /// Side, stream, length, unordered.
    messages: Vec<(bool, u16, usize, bool)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let len = prop_oneof![4 => 1usize..200, 3 => 200usize..5_000, 1 => 5_000usize..60_000];
    let message = (any::<bool>(), 0u16..5, len, prop::bool::weighted(0.1));
    (
        any::<u64>(),
        any::<bool>(),
        prop_oneof![Just(0), 0u64..50, 0u64..250],
        0u64..100,
        0u64..300,
        any::<bool>(),
        (prop::sample::select(&SCHEDULERS[..]), any::<bool>()),
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
                (scheduler, interleaving),
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
                    messages,
                }
            },
        )
}

fn run(plan: &Plan) {
    let mut config = if plan.modern { modern() } else { rfc() };
    // The link is bad enough for a peer to be given up, which is not what this is about.
    config.max_init_retransmits = 1_000;
    config.association_max_retrans = 1_000;
    config.shutdown_guard = Duration::from_secs(100_000);
    config.rto.max = Duration::from_secs(5);
    if plan.small_buffers {
        config.receive_buffer_bytes = 8_000;
        config.send_buffer_bytes = 20_000;
    }
    config.scheduler = plan.scheduler;
    config.interleaving = plan.interleaving;
    let mut pair = Pair::new(config).seeded(plan.seed);
    for stream in 0..5 {
        pair.association(Client).set_stream_value(StreamId(stream), stream % 3).unwrap();
    }
    pair.loss = plan.loss;
    pair.duplication = plan.duplication;
    pair.reordering = plan.reordering;
    let mut queues: [Vec<_>; 2] = [Vec::new(), Vec::new()];
    for (number, (from_client, stream, len, unordered)) in plan.messages.iter().enumerate() {
        let mut payload = pattern(*len);
        payload[0] = number as u8;
        let order = if *unordered { Order::Unordered } else { Order::Ordered };
        let message = Message { order, ..Message::new(Ppid(1), payload) };
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
        let read = |read: &BTreeMap<u16, Vec<Vec<u8>>>| read.values().map(Vec::len).sum::<usize>();
        read(&pair.client_read) + read(&pair.server_read) == total
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
                if !unordered.contains(&number) {
                    assert_eq!(Some(number), ordered.next(), "stream {stream} is in order");
                }
            }
            assert_eq!(ordered.next(), None);
            assert!(unordered.iter().all(|number| seen.contains(number)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_link_does_every_message_arrives_once_and_in_order(plan in plan()) {
        run(&plan);
    }
}
