//! Pairing of local and peer addresses to paths (RFC 9260 §5.1.2, §6.4).
//!
//! Every address is in a path if the other side has an address of the same family, with as few paths as
//! possible: two addresses on each side give two paths, not four. Addresses of the same network are paired,
//! and both sides arrive at the same pairs, since they compare common prefix lengths. Pairing does not tell
//! whether an address is reachable: a path is not used before a HEARTBEAT has been acknowledged on it
//! (§5.4).

use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};

use crate::config::Config;
use crate::cookie::MAX_ADDRESSES;
use crate::route::{Route, is_unicast};

/// The maximum number of paths of an association. Further addresses of either side are not used.
pub(crate) const PATHS_MAX: usize = MAX_ADDRESSES + 1;

/// Pairs these addresses to paths. An existing path stays, as the first one.
pub(crate) fn pair_up(
    local: &[SocketAddr],
    peer: &[SocketAddr],
    first: Option<Route>,
    config: &Config,
) -> Vec<Route> {
    let (local, peer) = (&local[..local.len().min(PATHS_MAX)], &peer[..peer.len().min(PATHS_MAX)]);
    let mut pairs = Vec::new();
    for (l, &own) in local.iter().enumerate() {
        for (p, &its) in peer.iter().enumerate() {
            let twice = local[..l].contains(&own) || peer[..p].contains(&its);
            //= specs/rfc9260.txt#section-5.1.2
            //# If an SCTP endpoint that only supports either IPv4 or IPv6 receives
            //# IPv4 and IPv6 addresses in an INIT or INIT ACK chunk from its peer, it
            //# MUST use all the addresses belonging to the supported address family.
            //= specs/rfc9260.txt#section-5.1.2
            //# The endpoint SHOULD NOT respond with any kind of error indication.
            if !twice && own.is_ipv4() == its.is_ipv4() && config.allows(own.ip(), its.ip()) {
                pairs.push((Reverse(bits_in_common(own.ip(), its.ip())), l.max(p), l, p));
            }
        }
    }
    pairs.sort_unstable();
    // Some stacks choose a source address regardless of the destination. If the handshake went between
    // two networks, paths within one network are still included: packets take the same link in both
    // directions there.
    let likeness = first.map(|it| Reverse(bits_in_common(it.local.ip(), it.peer.ip())));
    let suits_best = |at: &dyn Fn(usize, usize) -> bool| {
        pairs.iter().find(|&&(_, _, l, p)| at(l, p)).is_none_or(|&(best, ..)| likeness <= Some(best))
    };
    let used = |l: &usize| first.is_some_and(|it| it.local == local[*l]) && suits_best(&|own, _| own == *l);
    let mut own_used: Vec<bool> = (0..local.len()).map(|l| used(&l)).collect();
    let used =
        |p: &usize| first.is_some_and(|it| it.peer.ip() == peer[*p].ip()) && suits_best(&|_, its| its == *p);
    let mut its_used: Vec<bool> = (0..peer.len()).map(|p| used(&p)).collect();
    let mut chosen = Vec::new();
    // First the pairs that match best, then each remaining address with its best match.
    for leftover in [false, true] {
        for &(_, _, l, p) in &pairs {
            let unused = if leftover { !own_used[l] || !its_used[p] } else { !own_used[l] && !its_used[p] };
            if unused {
                own_used[l] = true;
                its_used[p] = true;
                chosen.push((p, l));
            }
        }
    }
    chosen.sort_unstable();
    let others = chosen.into_iter().map(|(p, l)| Route { local: local[l], peer: peer[p] });
    let others = others
        .filter(|it| first.is_none_or(|first| (first.local, first.peer.ip()) != (it.local, it.peer.ip())));
    first.into_iter().chain(others).take(PATHS_MAX).collect()
}

/// Returns the address among `others` that matches `one` best, if one of its family is allowed.
pub(crate) fn best_partner(
    one: SocketAddr,
    others: &[SocketAddr],
    allowed: impl Fn(SocketAddr) -> bool,
) -> Option<SocketAddr> {
    let fits = |other: &SocketAddr| other.is_ipv4() == one.is_ipv4() && allowed(*other);
    // The first one of equals, as in `pair_up`.
    let fitting = others.iter().copied().filter(fits).rev();
    fitting.max_by_key(|other| bits_in_common(one.ip(), other.ip()))
}

/// Returns the local addresses that the other side, at `peer`, may know and reach.
pub(crate) fn in_scope(addresses: impl IntoIterator<Item = SocketAddr>, peer: IpAddr) -> Vec<SocketAddr> {
    let mut kept: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if reaches(address.ip(), peer) && kept.iter().all(|other| other.ip() != address.ip()) {
            kept.push(address);
        }
    }
    kept.truncate(PATHS_MAX);
    kept.shrink_to_fit();
    kept
}

/// Returns the local addresses to list in INIT or INIT ACK: none if there is only the source address.
//= specs/rfc6951.txt#section-3.2
//# For single-homed associations, IP addresses MUST NOT be listed in the
//# INIT and INIT-ACK chunks.
pub(crate) fn to_list(local: &[SocketAddr], peer: IpAddr) -> Vec<IpAddr> {
    let addresses = in_scope(local.iter().copied(), peer);
    //= specs/rfc9260.txt#section-3.3.2.1.2
    //# A sender MUST NOT use an IPv4-mapped IPv6 address [RFC4291] but
    //# SHOULD instead use an IPv4 Address parameter for an IPv4 address.
    let listed = addresses.iter().map(|address| address.ip().to_canonical());
    if addresses.len() < 2 { Vec::new() } else { listed.collect() }
}

/// Whether an address that goes with `other` can belong to the same host as seen from another one: a
/// loopback address is only valid on the host itself, and a link-local one needs its interface.
pub(crate) fn reaches(address: IpAddr, other: IpAddr) -> bool {
    let link_local = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    is_unicast(address) && address.is_loopback() == other.is_loopback() && !link_local(address)
}

fn bits_in_common(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AllowedPath;

    fn addresses(ips: &[&str]) -> Vec<SocketAddr> {
        ips.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 9_899)).collect()
    }

    fn paths(local: &[&str], peer: &[&str]) -> Vec<(String, String)> {
        paths_with(local, peer, &Config::default())
    }

    fn paths_with(local: &[&str], peer: &[&str], config: &Config) -> Vec<(String, String)> {
        let routes = pair_up(&addresses(local), &addresses(peer), None, config);
        routes.iter().map(|route| (route.local.ip().to_string(), route.peer.ip().to_string())).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(local, peer)| ((*local).to_owned(), (*peer).to_owned())).collect()
    }

    #[test]
    fn addresses_of_one_network_go_together_in_whatever_order_they_are_given() {
        let expected = pairs(&[("10.1.1.2", "10.1.1.1"), ("10.1.2.2", "10.1.2.1")]);
        assert_eq!(paths(&["10.1.1.2", "10.1.2.2"], &["10.1.1.1", "10.1.2.1"]), expected);
        assert_eq!(paths(&["10.1.2.2", "10.1.1.2"], &["10.1.1.1", "10.1.2.1"]), expected);
    }

    #[test]
    fn each_address_of_either_side_is_in_a_path() {
        assert_eq!(
            paths(&["10.0.0.1"], &["192.0.2.1", "198.51.100.1"]),
            pairs(&[("10.0.0.1", "192.0.2.1"), ("10.0.0.1", "198.51.100.1")])
        );
        assert_eq!(
            paths(&["192.0.2.1", "198.51.100.1"], &["10.0.0.1"]),
            pairs(&[("192.0.2.1", "10.0.0.1"), ("198.51.100.1", "10.0.0.1")])
        );
    }

    #[test]
    fn a_handshake_between_two_networks_omits_no_path_within_one() {
        let (local, peer) =
            (addresses(&["10.1.1.2", "10.1.2.2"]), addresses(&["10.1.1.1", "10.1.2.1", "10.1.3.1"]));
        let paths = |l: usize, p: usize| {
            let first = Route { local: local[l], peer: peer[p] };
            let paths = pair_up(&local, &peer, Some(first), &Config::default());
            let place = |route: &Route| {
                let at = |all: &[SocketAddr], one| all.iter().position(|it| *it == one).unwrap();
                (at(&local, route.local), at(&peer, route.peer))
            };
            paths.iter().map(place).collect::<Vec<_>>()
        };
        assert_eq!(paths(0, 0), [(0, 0), (1, 1), (1, 2)]);
        assert_eq!(paths(1, 1), [(1, 1), (0, 0), (1, 2)]);
        assert_eq!(paths(0, 1), [(0, 1), (0, 0), (1, 1), (1, 2)]);
        assert_eq!(paths(1, 0), [(1, 0), (0, 0), (1, 1), (1, 2)]);
    }

    //= specs/rfc9260.txt#section-5.1.2
    //= type=test
    //# If an SCTP endpoint that only supports either IPv4 or IPv6 receives
    //# IPv4 and IPv6 addresses in an INIT or INIT ACK chunk from its peer,
    //# it MUST use all the addresses belonging to the supported address
    //# family.  The other addresses MAY be ignored.
    #[test]
    fn families_do_not_mix() {
        //= specs/rfc9260.txt#section-5.1.2
        //= type=test
        //# The endpoint SHOULD NOT respond with any kind of error indication.
        assert_eq!(
            paths(&["192.0.2.1", "2001:db8::1"], &["2001:db8::2", "192.0.2.2"]),
            pairs(&[("2001:db8::1", "2001:db8::2"), ("192.0.2.1", "192.0.2.2")])
        );
        assert_eq!(
            paths(&["192.0.2.1"], &["2001:db8::2", "192.0.2.2", "192.0.2.3"]),
            pairs(&[("192.0.2.1", "192.0.2.2"), ("192.0.2.1", "192.0.2.3")])
        );
        assert!(paths(&["192.0.2.1"], &["2001:db8::2"]).is_empty());
    }

    #[test]
    fn a_path_that_is_not_allowed_is_not_created() {
        let rule = |local: &str, peer: Option<&str>| AllowedPath {
            local: local.parse().unwrap(),
            peer: peer.map(|peer| peer.parse().unwrap()),
        };
        let (local, peer) = (["10.1.1.2", "10.1.2.2"], ["10.1.1.1", "10.1.2.1"]);
        let only = |rules: Vec<AllowedPath>| {
            paths_with(&local, &peer, &Config::default().with(|c| c.paths.allowed = rules))
        };
        assert_eq!(only(vec![rule("10.1.2.2", Some("10.1.1.1"))]), pairs(&[("10.1.2.2", "10.1.1.1")]));
        assert_eq!(
            only(vec![rule("10.1.2.2", None)]),
            pairs(&[("10.1.2.2", "10.1.1.1"), ("10.1.2.2", "10.1.2.1")])
        );
        assert_eq!(
            only(vec![rule("10.1.1.2", Some("10.1.2.1")), rule("10.1.2.2", Some("10.1.1.1"))]),
            pairs(&[("10.1.2.2", "10.1.1.1"), ("10.1.1.2", "10.1.2.1")])
        );
        assert!(only(vec![rule("10.9.9.9", None)]).is_empty());
    }

    #[test]
    fn an_address_given_twice_is_one() {
        assert_eq!(
            paths(&["10.0.0.1", "10.0.0.1"], &["10.0.0.2", "10.0.0.2"]),
            pairs(&[("10.0.0.1", "10.0.0.2")])
        );
    }

    #[test]
    fn the_number_of_paths_is_limited() {
        let many: Vec<SocketAddr> = (0..100).map(|host| SocketAddr::from(([192, 0, 2, host], 1))).collect();
        let one = addresses(&["10.0.0.1"]);
        let config = Config::default();
        assert_eq!(pair_up(&one, &many, None, &config).len(), PATHS_MAX);
        let first = Route { local: one[0], peer: addresses(&["203.0.113.1"])[0] };
        let paths = pair_up(&one, &many, Some(first), &config);
        assert_eq!((paths.len(), paths[0]), (PATHS_MAX, first));
    }

    #[test]
    fn one_address_is_not_listed_and_of_several_those_that_make_sense_elsewhere() {
        //= specs/rfc9260.txt#section-3.3.2.1.2
        //= type=test
        //# A sender MUST NOT use an IPv4-mapped IPv6 address [RFC4291] but SHOULD
        //# instead use an IPv4 Address parameter for an IPv4 address.
        let listed = |local: &[&str], peer: &str| {
            let listed = to_list(&addresses(local), peer.parse().unwrap());
            listed.iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert!(listed(&["192.0.2.1"], "192.0.2.9").is_empty());
        assert!(listed(&["192.0.2.1", "127.0.0.1", "fe80::1", "0.0.0.0"], "192.0.2.9").is_empty());
        assert!(listed(&["192.0.2.1", "192.0.2.1"], "192.0.2.9").is_empty());
        assert_eq!(listed(&["192.0.2.1", "2001:db8::1"], "192.0.2.9"), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(listed(&["127.0.0.1", "127.0.0.2", "192.0.2.1"], "127.0.0.1"), ["127.0.0.1", "127.0.0.2"]);
        assert_eq!(listed(&["::ffff:192.0.2.1", "2001:db8::1"], "192.0.2.9"), ["192.0.2.1", "2001:db8::1"]);
    }
}
