//! Rate limit with a queue: each client takes a turn; those above the rate wait, and networks are served in turn
//! ([`FairQueue`]).
//!
//! For work that a client can make this side do once its address is proven, such as the handshakes of protected
//! associations ([`Limits::handshakes`](super::Limits::handshakes)). A network of which nobody waits takes its turn at once,
//! ahead of the queue, and so does a host of which nobody waits. Up to a quarter of the rate each is reserved for them. When
//! clients from many networks have used up the reserve, a flood delays a client of another network by two turns. The number of
//! waiters is bounded.

use std::net::IpAddr;
use std::time::Duration;

use braidftp_base::Time;

use super::fair_queue::{FairQueue, Newcomer};

/// After a pause, the turns of this period may be taken at once.
const BURST: Duration = Duration::from_secs(1);

/// The part of the rate that new networks may take ahead of those who wait is one in this many; so is that of new hosts.
const RESERVE: u32 = 4;

/// A rate of turns, and those who wait for one.
#[derive(Debug)]
pub struct Turns<T> {
    all: Meter,
    /// Of these, turns taken ahead of the queue by new networks, and by new hosts of networks that wait.
    networks: Meter,
    hosts: Meter,
    waiting: FairQueue<T>,
}

impl<T> Turns<T> {
    /// Gives this many turns in a second, and lets this many wait.
    pub fn new(a_second: u32, waiting_max: usize) -> Self {
        let interval = Duration::from_secs(1).checked_div(a_second);
        let all = Meter { interval, given_until: Time::ZERO };
        let reserve = Meter { interval: interval.map(|interval| interval * RESERVE), ..all };
        Self { all, networks: reserve, hosts: reserve, waiting: FairQueue::new(waiting_max) }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a turn for a client at this address: if there is one now and nobody waits for it, or from the reserve.
    pub fn take(&mut self, now: Time, from: IpAddr) -> bool {
        if self.waiting.is_empty() {
            return self.all.take(now);
        }
        let reserve = match self.waiting.newcomer(from) {
            Some(Newcomer::Network) => &mut self.networks,
            Some(Newcomer::Host) => &mut self.hosts,
            None => return false,
        };
        let takes = reserve.take(now);
        if takes {
            self.all.count(now);
        }
        takes
    }

    /// Lets a client at this address wait. Returns the waiter that has no room, if there is one: this or another.
    pub fn wait(&mut self, from: IpAddr, waiter: T) -> Option<T> {
        self.waiting.push(from, waiter)
    }

    /// Returns the waiter whose turn it is, if there is a turn now. Waiters that do not satisfy `wants` any more are
    /// removed and take none.
    pub fn next(&mut self, now: Time, mut wants: impl FnMut(&T) -> bool) -> Option<T> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        while let Some(waiter) = self.waiting.pop() {
            if wants(&waiter) {
                self.all.count(now);
                return Some(waiter);
            }
        }
        None
    }

    /// Returns when the next turn is due, if somebody waits for it.
    pub fn due(&self) -> Option<Time> {
        if self.waiting.is_empty() { None } else { self.all.due() }
    }
}

/// The turns that were given at a rate.
#[derive(Debug, Clone, Copy)]
struct Meter {
    /// The time between two turns, unless there are none.
    interval: Option<Duration>,
    /// Until when the turns that were given suffice at that rate.
    given_until: Time,
}

impl Meter {
    /// When the next turn may be taken.
    fn due(&self) -> Option<Time> {
        Some(self.given_until + self.interval? - BURST)
    }

    /// Counts a turn, if the rate allows one now.
    fn take(&mut self, now: Time) -> bool {
        let is_due = self.due().is_some_and(|due| due <= now);
        if is_due {
            self.count(now);
        }
        is_due
    }

    /// Counts a turn, whether the rate allows it or not.
    fn count(&mut self, now: Time) {
        self.given_until = self.given_until.max(now) + self.interval.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 1));
    const NOW: Time = Time::from_millis(5_000);

    /// A rate of which nothing is left at [`NOW`].
    fn used_up(a_second: u32, waiting_max: usize) -> Turns<u32> {
        let mut turns = Turns::new(a_second, waiting_max);
        while turns.take(NOW, crowd(1)) {}
        turns
    }

    fn crowd(network: u8) -> IpAddr {
        IpAddr::from([192, 0, network, 1])
    }

    /// Gives all turns until `until`, each when it is due. Returns the waiters with their times.
    fn given(turns: &mut Turns<u32>, until: Time) -> Vec<(Time, u32)> {
        let due = |turns: &mut Turns<u32>| turns.due().filter(|due| *due <= until);
        let next = |turns: &mut Turns<u32>| {
            let due = due(turns)?;
            turns.next(due, |_| true).map(|waiter| (due, waiter))
        };
        std::iter::from_fn(|| next(turns)).collect()
    }

    #[test]
    fn turns_are_given_at_the_rate() {
        let mut turns = Turns::new(10, 100);
        let taken =
            (0..30).filter(|nth| !turns.take(NOW, crowd(1)) && turns.wait(crowd(1), *nth).is_none()).count();
        assert_eq!(taken, 20, "ten were saved up");
        let given = given(&mut turns, NOW + Duration::from_secs(60));
        assert_eq!(given.first().map(|(at, _)| *at), Some(NOW + Duration::from_millis(100)));
        assert_eq!(given.last().map(|(at, _)| *at), Some(NOW + Duration::from_millis(2_000)));
        assert!(turns.is_empty() && turns.due().is_none());
        assert!(!turns.take(NOW + Duration::from_millis(2_099), crowd(1)));
        assert!(turns.take(NOW + Duration::from_millis(2_100), crowd(1)));
    }

    #[test]
    fn a_turn_is_not_taken_from_those_who_wait() {
        let mut turns = used_up(10, 100);
        assert!(turns.wait(crowd(1), 7).is_none());
        let later = NOW + Duration::from_secs(1);
        assert!(!turns.take(later, crowd(1)));
        assert_eq!(turns.next(later, |_| true), Some(7));
        assert!(turns.take(later, crowd(1)));
    }

    #[test]
    fn a_crowd_of_several_networks_delays_another_by_two_turns() {
        let mut turns = used_up(10, 128);
        for nth in 0..120 {
            assert!(turns.wait(crowd((nth % 8) as u8), nth).is_none());
        }
        // Each of the networks has a turn.
        let mut now = NOW + Duration::from_secs(2);
        given(&mut turns, now);
        for _ in 0..5 {
            assert!(turns.wait(OTHER, 777).is_none());
            let later = now + Duration::from_secs(1);
            let given = given(&mut turns, later);
            let at = given.iter().find(|(_, waiter)| *waiter == 777).expect("it has a turn").0;
            assert!(at <= now + Duration::from_millis(200), "{at:?}, {now:?}");
            now = later;
        }
    }

    #[test]
    fn a_newcomer_takes_its_turn_at_once() {
        let mut turns = used_up(400, 128);
        for nth in 0..64 {
            assert!(turns.wait(crowd((nth % 8) as u8), nth).is_none());
        }
        let due = turns.due().expect("somebody waits");
        assert!(!turns.take(NOW, crowd(3)), "it waits already");
        assert!(turns.take(NOW, OTHER));
        assert!(turns.take(NOW, IpAddr::from([192, 0, 3, 2])), "a host of a network that waits");
        assert_eq!(turns.due(), Some(due + Duration::from_millis(5)), "two turns later");
    }

    #[test]
    fn newcomers_leave_half_of_the_rate_to_those_who_wait() {
        let mut turns = used_up(400, 128);
        let (mut ahead, mut waited) = ([0, 0], 0);
        for ms in 0..10_000 {
            let now = NOW + Duration::from_millis(ms);
            let _ = turns.wait(crowd(1), 1);
            let network = IpAddr::from([10, (ms >> 8) as u8, ms as u8, 1]);
            let host = IpAddr::from([192, 0, 1, 2 + (ms % 200) as u8]);
            ahead[0] += u32::from(turns.take(now, network));
            ahead[1] += u32::from(turns.take(now, host));
            while turns.next(now, |_| true).is_some() {
                waited += 1;
            }
        }
        // A quarter of the rate each for ten seconds, and what a second gives.
        assert_eq!((ahead, waited), ([1_099, 1_099], 1_801));
    }

    #[test]
    fn one_that_gave_up_takes_no_turn() {
        let mut turns = used_up(10, 100);
        for nth in 0..50 {
            assert!(turns.wait(crowd(1), nth).is_none());
        }
        let due = turns.due().expect("somebody waits");
        assert_eq!(turns.next(due, |nth| *nth == 49), Some(49));
        assert_eq!(turns.next(due, |_| true), None);
        assert!(turns.is_empty() && !turns.take(due, crowd(1)));
    }

    #[test]
    fn none_is_a_rate_too() {
        let mut turns = Turns::new(0, 100);
        assert!(!turns.take(Time::ZERO, crowd(1)));
        assert!(turns.wait(crowd(1), 1).is_none());
        assert!(turns.due().is_none() && turns.next(Time::from_millis(1 << 40), |_| true).is_none());
    }
}
