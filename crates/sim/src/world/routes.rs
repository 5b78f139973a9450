//! The routes between addresses: a hash table looked up whenever a host sends to another address than before.

use std::net::IpAddr;

/// Identifies a route of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RouteId(u32);

/// A route through the network.
#[derive(Debug)]
pub(super) struct Route {
    /// The links in turn; at least one.
    pub(super) links: Box<[u32]>,
    /// The host at its end, once known.
    pub(super) end: Option<usize>,
}

/// All routes, by their end addresses.
#[derive(Debug)]
pub(super) struct Routes {
    routes: Vec<Route>,
    /// Open addressing, at most half full; the length is a power of two.
    slots: Vec<Option<(IpAddr, IpAddr, RouteId)>>,
    taken: usize,
}

impl Routes {
    pub(super) fn new() -> Self {
        Self { routes: Vec::new(), slots: vec![None; 8], taken: 0 }
    }

    pub(super) fn get(&self, id: RouteId) -> &Route {
        &self.routes[id.0 as usize]
    }

    /// Stores the end of a route.
    pub(super) fn set_end(&mut self, id: RouteId, host: usize) {
        self.routes[id.0 as usize].end = Some(host);
    }

    pub(super) fn find(&self, from: IpAddr, to: IpAddr) -> Option<RouteId> {
        self.slots[self.slot(from, to)].map(|(_, _, id)| id)
    }

    /// Sets the route between two addresses.
    pub(super) fn insert(&mut self, from: IpAddr, to: IpAddr, route: Route) {
        let id = RouteId(self.routes.len() as u32);
        self.routes.push(route);
        if self.taken * 2 >= self.slots.len() {
            let twice = vec![None; self.slots.len() * 2];
            for (from, to, id) in std::mem::replace(&mut self.slots, twice).into_iter().flatten() {
                let slot = self.slot(from, to);
                self.slots[slot] = Some((from, to, id));
            }
        }
        let slot = self.slot(from, to);
        self.taken += usize::from(self.slots[slot].is_none());
        self.slots[slot] = Some((from, to, id));
    }

    #[cfg(test)]
    pub(super) fn clear(&mut self) {
        self.slots.fill(None);
        self.taken = 0;
    }

    /// The slot of a route, or where it would be.
    fn slot(&self, from: IpAddr, to: IpAddr) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (mixed(mixed(0, from), to) >> 32) as usize & mask;
        while self.slots[at].is_some_and(|(f, t, _)| (f, t) != (from, to)) {
            at = (at + 1) & mask;
        }
        at
    }
}

fn mixed(seed: u64, address: IpAddr) -> u64 {
    let bits = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let folded = seed ^ bits as u64 ^ (bits >> 64) as u64;
    folded.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_of_many_routes_is_found_and_the_last_one_between_two_addresses_counts() {
        let mut routes = Routes::new();
        let address = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number));
        let route = |link: u32| Route { links: [link].into(), end: None };
        for number in 0..1_000 {
            routes.insert(address(number), address(number / 2), route(0));
            routes.insert(address(number), address(number / 2), route(number));
        }
        for number in 0..1_000 {
            let id = routes.find(address(number), address(number / 2)).unwrap();
            assert_eq!(routes.get(id).links[..], [number]);
        }
        assert_eq!(routes.find(address(5), address(5)), None);
    }
}
