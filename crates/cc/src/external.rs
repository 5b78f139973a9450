//! Controllers that are written outside this crate.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::guard::Guard;
use crate::{Controller, Options};

/// Builds the controller of a path with this MTU in bytes.
pub type Build = dyn Fn(Options, usize) -> Box<dyn Controller> + Send + Sync;

/// A controller that is written outside this crate: a name, and a function that builds one for a path. Controllers are compared
/// by name, so a program must give each of its controllers a different one.
#[derive(Clone, Copy)]
pub struct External {
    /// Its name.
    pub name: &'static str,
    /// Builds one; [`guarded`] adds the checks of inputs that the controllers of this crate have.
    pub build: &'static Build,
}

/// Wraps a controller so that it is passed valid inputs alone, as every controller of this crate is, and is restored to a
/// clone from before the last congestion if that was spurious and it does not count arrivals.
pub fn guarded<C: Controller + Clone + 'static>(
    mtu: usize,
    make: impl FnOnce(usize) -> C,
) -> Box<dyn Controller> {
    Box::new(Guard::new(mtu, make))
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for External {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for External {}

impl PartialOrd for External {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for External {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}

impl Hash for External {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Congestion, Kind, reno};

    #[test]
    fn an_external_controller_is_built_by_its_kind() {
        let build = |options, mtu| guarded(mtu, |mtu| reno::Reno::new(options, mtu));
        let kind = Kind::External(External { name: "mine", build: Box::leak(Box::new(build)) });
        assert_eq!(kind.to_string(), "mine");
        let mut controller = kind.build(1_000);
        assert_eq!(controller.window(), Kind::Reno.build(1_000).window());
        let (now, mtu) = (braidftp_base::Time::from_millis(1), usize::MAX);
        controller.on_congestion(Congestion { cause: crate::Cause::Loss, now, flight_bytes: 0, mtu });
        assert!(controller.window() <= 4 * 65_535, "the guard bounds the MTU: {}", controller.window());
        assert!("mine".parse::<Kind>().is_err(), "it is known to those alone who were given it");
    }
}
