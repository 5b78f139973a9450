//! The order of each stream scheduler, their common invariants, and their effect on a link.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::Profile;
use crate::association::Message;
use crate::association::send_queue::{Fragment, SendQueue};
use crate::ids::Ppid;

pub(in crate::association) const ALL: [Scheduler; 6] = [
    Scheduler::FirstComeFirstServed,
    Scheduler::RoundRobin,
    Scheduler::RoundRobinByPacket,
    Scheduler::Priority,
    Scheduler::FairCapacity,
    Scheduler::WeightedFairQueueing,
];

fn push(queue: &mut SendQueue, stream: u16, len: usize) {
    let payload = Bytes::from(vec![stream as u8; len]);
    queue.push(StreamId(stream), Message::new(Ppid(0), payload));
}

fn queue(scheduler: Scheduler, messages: &[(u16, usize)]) -> SendQueue {
    let mut queue = SendQueue::new(scheduler);
    messages.iter().for_each(|&(stream, len)| push(&mut queue, stream, len));
    queue
}

/// The streams and lengths of all chunks, each in a packet of its own.
fn drain(queue: &mut SendQueue, max: usize) -> Vec<(u16, usize)> {
    std::iter::from_fn(|| {
        queue.begin_packet();
        queue.next(max)
    })
    .map(|fragment| (fragment.stream.0, fragment.payload.len()))
    .collect()
}

#[test]
fn first_come_first_served_is_the_order_of_send() {
    let messages = [(2, 10), (0, 11), (2, 12), (2, 13), (1, 14), (0, 15)];
    let mut queue = queue(Scheduler::FirstComeFirstServed, &messages);
    assert_eq!(drain(&mut queue, 100), messages);
}

#[test]
fn round_robin_by_packet_fills_a_packet_from_one_stream() {
    let messages = [(0, 10), (0, 11), (0, 12), (1, 20), (1, 21)];
    let mut queue = queue(Scheduler::RoundRobinByPacket, &messages);
    let mut packets = Vec::new();
    while !queue.is_empty() {
        queue.begin_packet();
        // Two chunks fit.
        let chunks = [queue.next(100), queue.next(100)].into_iter().flatten();
        packets.push(chunks.map(|chunk| (chunk.stream.0, chunk.payload.len())).collect::<Vec<_>>());
    }
    // The last packet is not filled from other streams, though it has space.
    assert_eq!(packets, [vec![(0, 10), (0, 11)], vec![(1, 20), (1, 21)], vec![(0, 12)]]);
}

#[test]
fn round_robin_by_packet_goes_on_with_a_message_that_has_begun() {
    let mut queue = queue(Scheduler::RoundRobinByPacket, &[(0, 250), (1, 10)]);
    assert_eq!(drain(&mut queue, 100), [(0, 100), (0, 100), (0, 50), (1, 10)]);
}

#[test]
fn a_packet_without_new_chunks_does_not_advance_the_scheduler() {
    let mut queue = queue(Scheduler::RoundRobinByPacket, &[(0, 10), (0, 11), (1, 20)]);
    for _ in 0..3 {
        queue.begin_packet();
    }
    assert_eq!(drain(&mut queue, 100), [(0, 10), (1, 20), (0, 11)]);
}

#[test]
fn the_lowest_priority_value_goes_first_and_equals_in_turn() {
    let mut queue = queue(Scheduler::Priority, &[(0, 10), (0, 11), (1, 20), (1, 21), (2, 30)]);
    queue.set_value(StreamId(0), 7);
    queue.set_value(StreamId(1), 7);
    assert_eq!(drain(&mut queue, 100), [(2, 30), (0, 10), (1, 20), (0, 11), (1, 21)]);
}

#[test]
fn a_priority_counts_from_the_next_message_on() {
    let mut queue = queue(Scheduler::Priority, &[(1, 250), (1, 10)]);
    queue.set_value(StreamId(1), 9);
    assert_eq!(queue.next(100).unwrap().stream, StreamId(1));
    push(&mut queue, 0, 20);
    // DATA chunks of two messages cannot mix.
    assert_eq!(drain(&mut queue, 100), [(1, 100), (1, 50), (0, 20), (1, 10)]);
}

/// The bytes of each of the first three streams among the first `total` sent bytes, while all of them have data queued.
fn shares(scheduler: Scheduler, values: [u16; 3], lens: [usize; 3], total: usize) -> [usize; 3] {
    let mut queue = SendQueue::new(scheduler);
    for (stream, value) in values.into_iter().enumerate() {
        queue.set_value(StreamId(stream as u16), value);
        for _ in 0..total / lens[stream] + 1 {
            push(&mut queue, stream as u16, lens[stream]);
        }
    }
    let mut sent = [0; 3];
    while sent.iter().sum::<usize>() < total {
        let fragment = queue.next(1_400).unwrap();
        sent[usize::from(fragment.stream.0)] += fragment.payload.len();
    }
    sent
}

#[test]
fn fair_capacity_gives_each_stream_as_many_bytes_whatever_its_messages() {
    // This scheduler ignores the values.
    let sent = shares(Scheduler::FairCapacity, [1, 50, 9], [100, 1_000, 7_000], 3_000_000);
    assert!(sent.iter().all(|sent| sent.abs_diff(1_000_000) <= 7_000), "{sent:?}");
}

/// As in FTP: each file is a message on one of four streams, and has a short reply on stream 0. In turn by messages, stream 0 would
/// send one reply for every four files.
#[test]
fn in_modern_replies_keep_up_with_files_of_lower_priority() {
    let mut queue = SendQueue::new(Profile::Modern.config().messages.scheduler);
    (1..=4).for_each(|stream| queue.set_value(StreamId(stream), 1));
    for number in 0..400 {
        push(&mut queue, 1 + number % 4, 4_000);
    }
    let (mut files, mut replies) = (0, 0);
    while let Some(fragment) = queue.next(1_400) {
        match fragment.stream.0 {
            0 => replies += 1,
            _ if fragment.end => {
                files += 1;
                push(&mut queue, 0, 8);
            }
            _ => {}
        }
        assert!(files - replies <= 1, "{replies} replies for {files} files");
    }
    assert_eq!((files, replies), (400, 400));
}

#[test]
fn weighted_fair_queueing_gives_bytes_by_weight() {
    let sent = shares(Scheduler::WeightedFairQueueing, [1, 2, 5], [3_000, 100, 1_000], 800_000);
    for (sent, share) in sent.into_iter().zip([100_000, 200_000, 500_000_usize]) {
        assert!(sent.abs_diff(share) <= 15_000, "{sent} of {share}");
    }
}

#[test]
fn a_weight_of_0_counts_as_1() {
    let sent = shares(Scheduler::WeightedFairQueueing, [0, 1, u16::MAX], [500, 500, 500], 100_000);
    assert!(sent[0] <= 1_000 && sent[1] <= 1_000, "{sent:?}");
}

#[test]
fn an_idle_stream_accumulates_no_credit() {
    let mut queue = queue(Scheduler::FairCapacity, &[(1, 100)]);
    for _ in 0..100 {
        push(&mut queue, 0, 1_000);
    }
    for _ in 0..51 {
        queue.next(1_000).unwrap();
    }
    for _ in 0..20 {
        push(&mut queue, 1, 1_000);
    }
    let next: Vec<_> = (0..20).map(|_| queue.next(1_000).unwrap().stream.0).collect();
    assert_eq!(next.iter().filter(|stream| **stream == 1).count(), 10, "{next:?}");
}

#[test]
fn stream_values_persist_after_the_queue_empties() {
    let mut old = queue(Scheduler::Priority, &[(0, 10)]);
    old.set_value(StreamId(0), 1);
    let mut queue = old.emptied();
    assert!(queue.is_empty());
    push(&mut queue, 0, 10);
    push(&mut queue, 1, 20);
    assert_eq!(drain(&mut queue, 100), [(1, 20), (0, 10)]);
}

#[derive(Debug, Clone)]
enum Step {
    Push(u16, usize),
    SetValue(u16, u16),
    BeginPacket,
    Next(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u16..6, 1usize..400).prop_map(|(stream, len)| Step::Push(stream, len)),
        1 => (0u16..6, 0u16..9).prop_map(|(stream, value)| Step::SetValue(stream, value)),
        2 => Just(Step::BeginPacket),
        4 => (1usize..200).prop_map(Step::Next),
    ]
}

proptest! {
    /// Nothing is lost, duplicated, mixed or reordered within a stream, and no stream starves once no more data is queued.
    #[test]
    fn every_scheduler_sends_each_stream_completely_and_in_order(
        scheduler in prop::sample::select(&ALL[..]),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut queue = SendQueue::new(scheduler);
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); 6];
        let mut open: Option<(u16, usize)> = None;
        let mut packet = None;
        let mut left = |fragment: Fragment, waiting: &mut Vec<Vec<usize>>| {
            let stream = fragment.stream.0;
            let so_far = match open.take() {
                Some((begun, len)) => {
                    assert!(begun == stream && !fragment.begin, "a message is not interrupted");
                    len
                }
                None => {
                    assert!(fragment.begin);
                    0
                }
            };
            if fragment.end {
                assert_eq!(so_far + fragment.payload.len(), waiting[usize::from(stream)].remove(0));
            } else {
                open = Some((stream, so_far + fragment.payload.len()));
            }
        };
        for step in steps {
            match step {
                Step::Push(stream, len) => {
                    push(&mut queue, stream, len);
                    waiting[usize::from(stream)].push(len);
                }
                Step::SetValue(stream, value) => queue.set_value(StreamId(stream), value),
                Step::BeginPacket => {
                    queue.begin_packet();
                    packet = None;
                }
                Step::Next(max) => {
                    let Some(fragment) = queue.next(max) else { continue };
                    let only = *packet.get_or_insert(fragment.stream);
                    prop_assert!(scheduler != Scheduler::RoundRobinByPacket || only == fragment.stream);
                    left(fragment, &mut waiting);
                }
            }
        }
        while !queue.is_empty() {
            queue.begin_packet();
            left(queue.next(150).expect("a queue with messages has a turn"), &mut waiting);
        }
        prop_assert!(waiting.iter().all(Vec::is_empty));
        prop_assert_eq!((queue.queued_bytes(), queue.charged_bytes()), (0, 0));
    }
}
