//! A queue that serves networks in turn, and in each network its hosts, as FQ-CoDel serves flows (RFC 8290 §4.1), so that
//! many waiters of one network, or of one host, delay those of another little.
//!
//! Networks that have just begun to wait, and networks that have had a turn, take turns: a network that has just begun is served
//! after one other at most, and so are the others, however many networks begin. The same holds for the hosts of a network in the
//! turns of that network. The number of waiters is bounded. When there is
//! no room, the newest waiter of the network that has the most of them is removed, and in that network of the host that has the
//! most.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use super::admission::Admission;
use super::table::network_of;

/// Waiters, by network and host.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// The maximum number of waiters.
    max: usize,
    networks: Rings<u64, Rings<IpAddr, VecDeque<T>>>,
}

/// A client of whose network or host nobody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newcomer {
    /// Nobody of its network waits.
    Network,
    /// Others of its network wait, and nobody of its host.
    Host,
}

/// The network and the host of an address. An IPv6 host has a /64.
fn network_and_host(from: IpAddr) -> (u64, IpAddr) {
    (Admission::network(from), network_of(from))
}

impl<T> FairQueue<T> {
    /// An empty queue in which so many may wait.
    pub(super) fn new(max: usize) -> Self {
        Self { max, networks: Rings::default() }
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.networks.length == 0
    }

    /// Whether a client at this address is the first of its network or host, of those who wait or have just had a turn.
    pub(super) fn newcomer(&self, from: IpAddr) -> Option<Newcomer> {
        let (network, host) = network_and_host(from);
        match self.networks.queues.get(&network) {
            None => Some(Newcomer::Network),
            Some(hosts) if !hosts.queues.contains_key(&host) => Some(Newcomer::Host),
            Some(_) => None,
        }
    }

    /// Appends a waiter at this address. Returns the waiter that has no room: a newest one of the network and host that have the
    /// most, or this one if its network and host have as many.
    pub(super) fn push(&mut self, from: IpAddr, waiter: T) -> Option<T> {
        let (network, host) = network_and_host(from);
        let mut removed = None;
        if self.networks.length >= self.max {
            removed = self.networks.remove_for(&network).or_else(|| {
                let hosts = self.networks.queues.get_mut(&network)?;
                let removed = hosts.remove_for(&host)?;
                self.networks.length -= 1;
                Some(removed)
            });
            if removed.is_none() {
                return Some(waiter);
            }
        }
        self.networks.append(network, |hosts| hosts.append(host, |waiters| waiters.push_back(waiter)));
        removed
    }

    /// Removes the waiter whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.networks.pop()
    }
}

/// A queue of waiters, or of queues.
trait Queue {
    type Waiter;

    /// The number of waiters.
    fn length(&self) -> usize;

    /// Removes the waiter whose turn it is.
    fn pop(&mut self) -> Option<Self::Waiter>;

    /// Removes the newest waiter of those who have the most.
    fn pop_newest(&mut self) -> Option<Self::Waiter>;
}

impl<T> Queue for VecDeque<T> {
    type Waiter = T;

    fn length(&self) -> usize {
        self.len()
    }

    fn pop(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn pop_newest(&mut self) -> Option<T> {
        self.pop_back()
    }
}

/// Queues that are served in turn.
#[derive(Debug)]
struct Rings<K, Q> {
    /// The number of waiters in all queues.
    length: usize,
    /// The queue of each key. A key is in one of the two rings, once, as long as it has an entry here; its queue may be empty
    /// after its turn.
    queues: BTreeMap<K, Q>,
    /// Keys that have had no turn since they began to wait.
    new: VecDeque<K>,
    /// The others, those whose last turn is the longest ago first.
    old: VecDeque<K>,
    /// Which ring is looked at first for the next turn.
    first: Ring,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ring {
    New,
    Old,
}

impl<K, Q> Default for Rings<K, Q> {
    fn default() -> Self {
        let (queues, new, old) = Default::default();
        Self { length: 0, queues, new, old, first: Ring::New }
    }
}

impl<K: Ord + Copy, Q: Queue + Default> Rings<K, Q> {
    /// Appends a waiter to the queue of a key.
    fn append(&mut self, key: K, append: impl FnOnce(&mut Q)) {
        let queue = self.queues.entry(key).or_insert_with(|| {
            self.new.push_back(key);
            Q::default()
        });
        append(queue);
        self.length += 1;
    }

    /// Removes a waiter of the longest queue, if that stays longer than the queue of this key without it.
    fn remove_for(&mut self, key: &K) -> Option<Q::Waiter> {
        let here = self.queues.get(key).map_or(0, Q::length);
        let longest = self.queues.values().map(Q::length).max()?;
        if longest <= here + 1 { None } else { self.pop_newest() }
    }

    /// Removes the waiter whose turn it is from one ring. Forgets the keys before it whose queues are empty.
    fn pop_of(&mut self, ring: Ring) -> Option<Q::Waiter> {
        loop {
            let key = match ring {
                Ring::New => self.new.pop_front(),
                Ring::Old => self.old.pop_front(),
            }?;
            if let Some(waiter) = self.queues.get_mut(&key).and_then(Q::pop) {
                self.old.push_back(key);
                self.length -= 1;
                return Some(waiter);
            }
            self.queues.remove(&key);
        }
    }
}

impl<K: Ord + Copy, Q: Queue + Default> Queue for Rings<K, Q> {
    type Waiter = Q::Waiter;

    fn length(&self) -> usize {
        self.length
    }

    fn pop(&mut self) -> Option<Q::Waiter> {
        let (first, second) = match self.first {
            Ring::New => (Ring::New, Ring::Old),
            Ring::Old => (Ring::Old, Ring::New),
        };
        self.first = second;
        self.pop_of(first).or_else(|| self.pop_of(second))
    }

    fn pop_newest(&mut self) -> Option<Q::Waiter> {
        let waiter = self.queues.values_mut().max_by_key(|queue| queue.length())?.pop_newest()?;
        self.length -= 1;
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A host of a network.
    fn at(network: u8, host: u8) -> IpAddr {
        IpAddr::from([192, 0, network, host])
    }

    #[test]
    fn a_network_that_begins_to_wait_is_served_after_one_other_at_most() {
        let mut queue = FairQueue::new(100);
        for nth in 0..80 {
            assert_eq!(queue.push(at(nth % 8, 1), nth), None);
        }
        for _ in 0..16 {
            queue.pop().unwrap();
        }
        for nth in 100..110 {
            queue.push(at(77, 1), nth);
            assert!([queue.pop(), queue.pop()].contains(&Some(nth)), "{nth}");
            // The network has had a turn and waits no more: it is forgotten when all others have had one.
            for _ in 0..8 {
                queue.push(at(nth % 8, 1), nth);
                queue.pop();
            }
        }
    }

    #[test]
    fn a_host_that_begins_to_wait_is_served_after_one_other_of_its_network_at_most() {
        let mut queue = FairQueue::new(200);
        for nth in 0..160 {
            assert_eq!(queue.push(at(nth % 8, nth / 8 % 2), nth), None);
        }
        for _ in 0..64 {
            queue.pop().unwrap();
        }
        queue.push(at(5, 200), 200);
        // Each of the eight networks has two turns.
        let served: Vec<_> = (0..16).filter_map(|_| queue.pop()).collect();
        assert!(served.contains(&200), "{served:?}");
    }

    #[test]
    fn networks_that_begin_all_the_time_leave_every_second_turn_to_the_others() {
        let mut queue = FairQueue::new(100);
        for nth in 0..10 {
            queue.push(at(1, 1), nth);
        }
        queue.pop();
        let mut served = 0;
        for network in 100..118 {
            queue.push(at(network, 1), 99);
            served += u32::from(queue.pop() != Some(99));
            assert!(queue.networks.queues.len() <= 20, "networks without waiters are forgotten");
        }
        assert_eq!(served, 9);
    }

    #[test]
    fn the_newest_of_the_network_that_has_the_most_makes_room() {
        let mut queue = FairQueue::new(4);
        for nth in 0..4 {
            assert_eq!(queue.push(at(1, 1), nth), None);
        }
        assert_eq!(queue.push(at(1, 1), 4), Some(4), "the network has them all");
        assert_eq!(queue.push(at(2, 1), 5), Some(3));
        assert_eq!(queue.push(at(2, 1), 6), Some(2));
        assert_eq!(queue.push(at(2, 1), 7), Some(7), "it has as many as the other");
        assert_eq!(queue.push(at(3, 1), 8), Some(6), "one of two that have two each");
        let mut all: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 5, 8]);
        assert_eq!(FairQueue::new(0).push(at(1, 1), 9), Some(9));
    }

    #[test]
    fn the_newest_of_the_host_that_has_the_most_makes_room_for_another_of_its_network() {
        let mut queue = FairQueue::new(4);
        for nth in 0..4 {
            assert_eq!(queue.push(at(1, 1), nth), None);
        }
        assert_eq!(queue.push(at(1, 2), 5), Some(3));
        assert_eq!(queue.push(at(1, 2), 6), Some(2));
        assert_eq!(queue.push(at(1, 2), 7), Some(7), "it has as many as the other");
        assert_eq!(queue.networks.length, 4);
        // One IPv6 host has a /64.
        let mut queue = FairQueue::new(2);
        let [here, too, other] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|ip| ip.parse().unwrap());
        assert_eq!((queue.push(here, 1), queue.push(too, 2), queue.push(here, 3)), (None, None, Some(3)));
        assert_eq!(queue.push(other, 4), Some(2));
    }

    #[test]
    fn the_first_of_its_network_or_host_is_a_newcomer() {
        let mut queue = FairQueue::new(9);
        assert_eq!(queue.newcomer(at(1, 1)), Some(Newcomer::Network));
        queue.push(at(1, 1), 1);
        queue.push(at(2, 1), 2);
        assert_eq!(queue.newcomer(at(1, 1)), None);
        assert_eq!(queue.newcomer(at(1, 2)), Some(Newcomer::Host));
        assert_eq!(queue.newcomer(at(3, 1)), Some(Newcomer::Network));
        queue.pop();
        assert_eq!(queue.newcomer(at(1, 1)), None, "it has just had a turn");
    }

    #[test]
    fn an_ipv4_address_is_in_the_same_network_when_it_is_written_as_an_ipv6_one() {
        let mut queue = FairQueue::new(2);
        queue.push(at(2, 6), 1);
        queue.push("::ffff:192.0.2.7".parse().unwrap(), 2);
        assert_eq!(queue.networks.queues.len(), 1);
    }

    proptest! {
        /// Of what was pushed, everything is given back once; a host's waiters in their order; no more wait than may; and what
        /// is remembered is bounded.
        #[test]
        fn waiters_are_given_back_once_and_in_the_order_of_their_host(
            steps in proptest::collection::vec(proptest::option::weighted(0.6, (0..6_u8, 0..3_u8)), 0..200),
            max in 0..12_usize,
        ) {
            let mut queue = FairQueue::new(max);
            let mut there = std::collections::BTreeSet::new();
            let mut last = BTreeMap::new();
            for (nth, step) in steps.into_iter().enumerate() {
                match step {
                    Some((network, host)) => {
                        let from = at(network, host);
                        there.insert((from, nth));
                        if let Some(removed) = queue.push(from, (from, nth)) {
                            prop_assert!(there.remove(&removed));
                        }
                    }
                    None => {
                        let popped = queue.pop();
                        prop_assert_eq!(popped.is_none(), there.is_empty());
                        if let Some((from, nth)) = popped {
                            prop_assert!(there.remove(&(from, nth)));
                            prop_assert!(last.insert(from, nth).is_none_or(|last| last < nth));
                        }
                    }
                }
                let networks = &queue.networks;
                prop_assert!(there.len() <= max && networks.length == there.len());
                prop_assert_eq!(queue.is_empty(), there.is_empty());
                prop_assert_eq!(networks.new.len() + networks.old.len(), networks.queues.len());
                prop_assert!(networks.queues.len() <= 3 * max + 3);
                prop_assert_eq!(networks.queues.values().map(Queue::length).sum::<usize>(), networks.length);
                for hosts in networks.queues.values() {
                    prop_assert_eq!(hosts.new.len() + hosts.old.len(), hosts.queues.len());
                    prop_assert_eq!(hosts.queues.values().map(Queue::length).sum::<usize>(), hosts.length);
                    prop_assert!(hosts.queues.len() <= 3 * max + 3);
                }
            }
        }
    }
}
