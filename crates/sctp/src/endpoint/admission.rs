//! Rate limit for INIT processing. An INIT ACK costs an HMAC and a packet; a flood of INITs must not slow down established
//! associations.
//!
//! There is a limit on the total rate, and half of it for each of a fixed number of groups of networks, so
//! that a flood from one source leaves room for others. Where floods from several networks use up the total
//! rate, each group still has a small rate of its own: the part of the total that it would have if all groups
//! asked. Half of it is given by a second assignment of networks to groups, so that a network that shares a
//! group with a flood keeps the other half. Both assignments are secret. An INIT above the limits is treated as lost: the peer
//! retransmits it (RFC 9260 §5.1). Memory is constant.

use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;

use braidftp_base::Time;

/// The number of groups of networks.
const GROUPS: usize = 256;
/// The number of assignments of networks to groups.
const ASSIGNMENTS: usize = 2;
/// After a pause, the permits of this period may be used at once.
const BURST: Duration = Duration::from_secs(1);
/// The same for the guaranteed rate of each group, which is small.
const OWN_BURST: Duration = Duration::from_secs(8);

/// Rate limits and their current use.
#[derive(Debug)]
pub(super) struct Admission {
    a_second: u32,
    /// By group, and for all groups at the end: the time until which the used permits suffice.
    given_until: Vec<Time>,
    /// By assignment and group: the same for the guaranteed rate.
    own_given_until: Vec<Time>,
    secret: [u8; 8],
}

impl Admission {
    /// Limits to this rate per second.
    pub(super) fn new(a_second: u32, secret: [u8; 8]) -> Self {
        let given_until = vec![Time::ZERO; GROUPS + 1];
        Self { a_second, given_until, own_given_until: vec![Time::ZERO; ASSIGNMENTS * GROUPS], secret }
    }

    /// Whether an INIT from this address at `now` is processed; if so, it is counted.
    pub(super) fn admits(&mut self, now: Time, from: IpAddr) -> bool {
        let groups = self.groups(from);
        let group = groups[0];
        let shares = [(group, self.a_second / 2), (GROUPS, self.a_second)];
        let mut next = [now; 2];
        for (next, (index, rate)) in next.iter_mut().zip(shares) {
            let Some(nanos) = 1_000_000_000_u64.checked_div(rate.into()) else { return false };
            *next = self.given_until[index].max(now) + Duration::from_nanos(nanos);
            if *next > now + BURST {
                // The group's half or the total rate is used up.
                return index == GROUPS && self.admits_guaranteed(now, groups);
            }
        }
        for (next, (index, _)) in next.into_iter().zip(shares) {
            self.given_until[index] = next;
        }
        true
    }

    /// Whether one of a network's groups has permits of its guaranteed rate left.
    fn admits_guaranteed(&mut self, now: Time, groups: [usize; ASSIGNMENTS]) -> bool {
        let nanos = 1_000_000_000 * (ASSIGNMENTS * GROUPS) as u64 / u64::from(self.a_second);
        groups.into_iter().enumerate().any(|(assignment, group)| {
            let given_until = &mut self.own_given_until[assignment * GROUPS + group];
            let next = (*given_until).max(now) + Duration::from_nanos(nanos);
            let admits = next <= now + OWN_BURST;
            if admits {
                *given_until = next;
            }
            admits
        })
    }

    /// Returns the number of the smallest network around this address that one party controls: an IPv4 /24 or
    /// an IPv6 /56. An IPv4 address that is written as an IPv6 one (`::ffff:192.0.2.1`) is in its IPv4 network.
    pub(super) fn network(from: IpAddr) -> u64 {
        match from.to_canonical() {
            IpAddr::V4(ip) => u64::from(ip.to_bits() >> 8),
            IpAddr::V6(ip) => (ip.to_bits() >> 72) as u64,
        }
    }

    fn groups(&self, from: IpAddr) -> [usize; ASSIGNMENTS] {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        hasher.write(&self.secret);
        hasher.write(&Self::network(from).to_be_bytes());
        hasher.write(&self.secret);
        let hash = hasher.finish();
        [hash, hash >> 8].map(|hash| ((hash ^ hash >> 32 ^ hash >> 16) as usize) % GROUPS)
    }
}

/// FNV-1a: knowing the group of another network is of little use.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(nth: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0001 + (nth << 8)).into()
    }

    fn admitted(admission: &mut Admission, now: Time, count: u32, from: impl Fn(u32) -> IpAddr) -> u32 {
        (0..count).map(|nth| u32::from(admission.admits(now, from(nth)))).sum()
    }

    #[test]
    fn a_rate_for_all_and_half_of_it_for_one_network() {
        let mut admission = Admission::new(1_000, [3; 8]);
        let now = Time::from_millis(5_000);
        assert_eq!(admitted(&mut admission, now, 9_999, |_| network(1)), 500);
        assert_eq!(admitted(&mut admission, now, 9_999, |_| network(2)), 500, "the rest is for others");
        assert_eq!(admitted(&mut admission, now, 9_999, |_| network(1)), 0);
        let later = now + Duration::from_millis(100);
        assert_eq!(admitted(&mut admission, later, 9_999, |_| network(1)), 50);
        assert_eq!(admitted(&mut admission, later, 9_999, |_| network(2)), 50);
    }

    #[test]
    fn floods_from_many_places_leave_each_network_a_rate_of_its_own() {
        let mut admission = Admission::new(1_000, [3; 8]);
        let now = Time::from_millis(5_000);
        let floods = |nth: u32| network(1 + nth % 8);
        assert!(admitted(&mut admission, now, 99_999, floods) > 1_000);
        // A 256th of the rate, for eight seconds.
        assert_eq!(admitted(&mut admission, now, 9_999, |_| network(77)), 30);
        let later = now + Duration::from_millis(1_024);
        admitted(&mut admission, later, 99_999, floods);
        assert_eq!(admitted(&mut admission, later, 9_999, |_| network(77)), 4);
        // At most twice the rate, whatever the sources are.
        let hour = Time::from_millis(3_600_000);
        let mut all = 0;
        for ms in 0..20_000 {
            all += admitted(&mut admission, hour + Duration::from_millis(ms), 500, |nth| network(nth * 7));
        }
        let most = 1_000 * (20 + 1) + 1_000 * (20 + 8);
        assert!(all <= most, "{all}");
    }

    #[test]
    fn a_network_that_shares_a_group_with_a_flood_keeps_half_of_its_own_rate() {
        let starved = (0..1_000_u64).filter(|secret| {
            let mut admission = Admission::new(1_000, secret.to_be_bytes());
            let now = Time::from_millis(5_000);
            admitted(&mut admission, now, 9_999, |nth| network(1 + nth % 8));
            admitted(&mut admission, now, 99, |_| network(77)) < 15
        });
        // It shares one with a flood by one secret of sixteen, and both by one of a thousand.
        let starved = starved.count();
        assert!(starved <= 4, "by {starved} secrets of 1,000");
    }

    #[test]
    fn unused_permits_last_for_a_second() {
        let mut admission = Admission::new(1_000, [3; 8]);
        let now = Time::from_millis(3_600_000);
        assert_eq!(admitted(&mut admission, now, 9_999, |nth| network(1 + nth % 2)), 1_000);
    }

    #[test]
    fn a_flood_from_one_place_leaves_room_for_others() {
        let mut admission = Admission::new(1_000, [3; 8]);
        let mut others = 0;
        for ms in 0..10_000 {
            let now = Time::from_millis(ms);
            admitted(&mut admission, now, 50, |_| network(1));
            // A packet from another network now and then.
            if ms % 100 == 0 {
                others += u32::from(admission.admits(now, network(2 + ms as u32)));
            }
        }
        assert!(others >= 99, "{others} of 100");
    }

    #[test]
    fn none_is_a_rate_too() {
        assert!(!Admission::new(0, [3; 8]).admits(Time::ZERO, network(1)));
    }
}
