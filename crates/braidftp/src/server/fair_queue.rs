//! A queue that serves networks in turn, as FQ-CoDel serves flows (RFC 8290 §4.1), so that many waiters of one network delay
//! those of another little.
//!
//! Networks that have just begun to wait, and networks that have had a turn, take turns: a network that has just begun is served
//! after one other at most, and so are the others, however many networks begin. The number of waiters is bounded. When there is
//! no room, the newest waiter of the network that has the most of them is removed.

use std::collections::{BTreeMap, VecDeque};

/// A network: [`braidftp_net::sctp::Admission::network`].
type Network = u64;

/// Waiters, by network.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// How many may wait.
    max: usize,
    /// How many wait.
    length: usize,
    /// The waiters of each network, the oldest first. A network is in one of the two rings, once, as long as it has an entry
    /// here; its entry may be empty after its turn.
    waiting: BTreeMap<Network, VecDeque<T>>,
    /// Networks that have had no turn since they began to wait.
    new: VecDeque<Network>,
    /// The others, those whose last turn is the longest ago first.
    old: VecDeque<Network>,
    /// Which ring is looked at first for the next turn.
    first: Ring,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ring {
    New,
    Old,
}

impl<T> FairQueue<T> {
    /// An empty queue in which so many may wait.
    pub(super) fn new(max: usize) -> Self {
        let (waiting, new, old) = Default::default();
        Self { max, length: 0, waiting, new, old, first: Ring::New }
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a waiter of a network. Returns the waiter that has no room: a newest one of the network that has the most, or this
    /// one if its network has as many.
    pub(super) fn push(&mut self, network: Network, waiter: T) -> Option<T> {
        let mut removed = None;
        if self.length >= self.max {
            let here = self.waiting.get(&network).map_or(0, VecDeque::len);
            let Some(most) = self.waiting.values_mut().max_by_key(|waiters| waiters.len()) else {
                return Some(waiter);
            };
            if most.len() <= here + 1 {
                return Some(waiter);
            }
            removed = most.pop_back();
            self.length -= 1;
        }
        let waiters = self.waiting.entry(network).or_insert_with(|| {
            self.new.push_back(network);
            VecDeque::new()
        });
        waiters.push_back(waiter);
        self.length += 1;
        removed
    }

    /// Removes the waiter whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (first, second) = match self.first {
            Ring::New => (Ring::New, Ring::Old),
            Ring::Old => (Ring::Old, Ring::New),
        };
        self.first = second;
        self.pop_of(first).or_else(|| self.pop_of(second))
    }

    /// The same from one ring. Forgets the networks before it that have nobody waiting.
    fn pop_of(&mut self, ring: Ring) -> Option<T> {
        loop {
            let network = match ring {
                Ring::New => self.new.pop_front(),
                Ring::Old => self.old.pop_front(),
            }?;
            if let Some(waiter) = self.waiting.get_mut(&network).and_then(VecDeque::pop_front) {
                self.old.push_back(network);
                self.length -= 1;
                return Some(waiter);
            }
            self.waiting.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_network_that_begins_to_wait_is_served_after_one_other_at_most() {
        let mut queue = FairQueue::new(100);
        for nth in 0..80 {
            assert_eq!(queue.push(nth % 8, nth), None);
        }
        for _ in 0..16 {
            queue.pop().unwrap();
        }
        for nth in 100..110 {
            queue.push(77, nth);
            assert!([queue.pop(), queue.pop()].contains(&Some(nth)), "{nth}");
            // The network has had a turn and waits no more: it is forgotten when all others have had one.
            for _ in 0..8 {
                queue.push(nth % 8, nth);
                queue.pop();
            }
        }
    }

    #[test]
    fn networks_that_begin_all_the_time_leave_every_second_turn_to_the_others() {
        let mut queue = FairQueue::new(100);
        for nth in 0..10 {
            queue.push(1, nth);
        }
        queue.pop();
        let mut served = 0;
        for network in 100..118 {
            queue.push(network, 99);
            served += u32::from(queue.pop() != Some(99));
            assert!(queue.waiting.len() <= 20, "networks without waiters are forgotten");
        }
        assert_eq!(served, 9);
    }

    #[test]
    fn the_newest_of_the_network_that_has_the_most_makes_room() {
        let mut queue = FairQueue::new(4);
        for nth in 0..4 {
            assert_eq!(queue.push(1, nth), None);
        }
        assert_eq!(queue.push(1, 4), Some(4), "the network has them all");
        assert_eq!(queue.push(2, 5), Some(3));
        assert_eq!(queue.push(2, 6), Some(2));
        assert_eq!(queue.push(2, 7), Some(7), "it has as many as the other");
        assert_eq!(queue.push(3, 8), Some(6), "one of two that have two each");
        let mut all: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 5, 8]);
        assert_eq!(FairQueue::new(0).push(1, 9), Some(9));
    }

    proptest! {
        /// Of what was pushed, everything is given back once; a network's waiters in their order; no more wait than may; and what
        /// is remembered is bounded.
        #[test]
        fn waiters_are_given_back_once_and_in_the_order_of_their_network(
            steps in proptest::collection::vec(proptest::option::weighted(0.6, 0..6_u64), 0..200),
            max in 0..12_usize,
        ) {
            let mut queue = FairQueue::new(max);
            let mut there = std::collections::BTreeSet::new();
            let mut last = BTreeMap::new();
            for (nth, step) in steps.into_iter().enumerate() {
                match step {
                    Some(network) => {
                        there.insert((network, nth));
                        if let Some(removed) = queue.push(network, (network, nth)) {
                            prop_assert!(there.remove(&removed));
                        }
                    }
                    None => {
                        let popped = queue.pop();
                        prop_assert_eq!(popped.is_none(), there.is_empty());
                        if let Some((network, nth)) = popped {
                            prop_assert!(there.remove(&(network, nth)));
                            prop_assert!(last.insert(network, nth).is_none_or(|last| last < nth));
                        }
                    }
                }
                prop_assert!(there.len() <= max && queue.length == there.len());
                prop_assert_eq!(queue.is_empty(), there.is_empty());
                prop_assert_eq!(queue.new.len() + queue.old.len(), queue.waiting.len());
                prop_assert!(queue.waiting.len() <= 3 * max + 3);
            }
        }
    }
}
