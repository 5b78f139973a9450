//! How many sessions there may be: in all, and from one address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts sessions.
#[derive(Debug)]
pub(super) struct Limits {
    max_sessions: usize,
    max_sessions_per_address: usize,
    now: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    all: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// The right to one session; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    limits: Arc<Limits>,
    address: IpAddr,
}

impl Limits {
    pub(super) fn new(max_sessions: usize, max_sessions_per_address: usize) -> Arc<Self> {
        Arc::new(Self { max_sessions, max_sessions_per_address, now: Mutex::default() })
    }

    /// A place for one more session from `address`, if there is one.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let here = now.by_address.get(&address).copied().unwrap_or(0);
        if now.all >= self.max_sessions || here >= self.max_sessions_per_address {
            return None;
        }
        now.all += 1;
        now.by_address.insert(address, here + 1);
        Some(Place { limits: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut now = self.limits.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.all -= 1;
        match now.by_address.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                now.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_address_and_in_all_and_given_back() {
        let limits = Limits::new(3, 2);
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = limits.enter(a).unwrap();
        let _second = limits.enter("::ffff:10.0.0.1".parse().unwrap()).unwrap();
        assert!(limits.enter(a).is_none(), "two from one address");
        let _third = limits.enter(b).unwrap();
        assert!(limits.enter(b).is_none(), "three in all");
        drop(first);
        assert!(limits.enter(b).is_some());
        drop(_second);
        assert!(!limits.now.lock().unwrap().by_address.contains_key(&a), "the table shrinks again");
    }
}
