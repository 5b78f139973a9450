//! The paths that begun commands read and write, to find an earlier command that a later one must wait for
//! (specs/ftp-over-sctp.md §6.4).
//!
//! Two commands conflict if one of them writes a path, and the other one uses this path, a folder that contains it, or
//! something below it. The paths are sorted, so that each of many concurrent uploads is compared with a few others.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::begun::Touches;
use crate::path::SafePath;

/// How a command uses a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Writes,
}

/// The paths of commands, each with the number of the command.
#[derive(Debug, Default)]
pub(super) struct Paths {
    used: BTreeMap<(Bytes, u64), Access>,
    /// How many of them are written.
    written: usize,
}

fn of(touches: &Touches) -> impl Iterator<Item = (&SafePath, Access)> {
    let written = touches.writes.iter().map(|path| (path, Access::Writes));
    touches.reads.iter().map(|path| (path, Access::Reads)).chain(written)
}

impl Paths {
    pub(super) fn add(&mut self, command: u64, touches: &Touches) {
        for (path, access) in of(touches) {
            let before = self.used.insert((path.to_bytes(), command), access);
            self.written += usize::from(access == Access::Writes);
            self.written -= usize::from(before == Some(Access::Writes));
        }
    }

    pub(super) fn remove(&mut self, command: u64, touches: &Touches) {
        for (path, _) in of(touches) {
            let before = self.used.remove(&(path.to_bytes(), command));
            self.written -= usize::from(before == Some(Access::Writes));
        }
    }

    /// The last command before `command` that conflicts with it, among those that are open.
    pub(super) fn conflict(
        &self,
        command: u64,
        touches: &Touches,
        is_open: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        if touches.writes.is_empty() && self.written == 0 {
            return None;
        }
        let conflicts = |access: Access, other: u64, also: Access| {
            other < command && (access == Access::Writes || also == Access::Writes) && is_open(other)
        };
        let mut last = None;
        for (path, access) in of(touches) {
            let path = path.to_bytes();
            let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            // The root is above every path but itself.
            let above = [0].into_iter().chain(slashes).filter(|end| *end < path.len());
            let here = above.map(|end| path.slice(..end)).chain([path.clone()]);
            let at = here.flat_map(|path| self.used.range((path.clone(), 0)..=(path, u64::MAX)));
            let prefix: Bytes = match path.is_empty() {
                true => Bytes::new(),
                false => [&path[..], b"/"].concat().into(),
            };
            let below = self.used.range((prefix.clone(), 0)..);
            let below = below.take_while(|((path, _), _)| path.starts_with(&prefix));
            let found = at.chain(below).filter(|((_, other), also)| conflicts(access, *other, **also));
            last = last.max(found.map(|((_, other), _)| *other).max());
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, path by path.
    fn meet(one: &Touches, other: &Touches) -> bool {
        of(one).any(|(path, access)| {
            of(other).any(|(also, access_also)| {
                (access == Access::Writes || access_also == Access::Writes)
                    && (path.contains(also) || also.contains(path))
            })
        })
    }

    fn any_path() -> impl Strategy<Value = SafePath> {
        let names = proptest::sample::select(vec!["a", "a.b", "a-", "b", "ab"]);
        proptest::collection::vec(names, 0..4)
            .prop_map(|names| SafePath::ROOT.resolve(names.join("/").as_bytes()).unwrap())
    }

    fn any_touches() -> impl Strategy<Value = Touches> {
        let paths = (proptest::option::of(any_path()), proptest::collection::vec(any_path(), 0..3));
        paths.prop_map(|(reads, writes)| Touches { reads, writes, ..Touches::default() })
    }

    proptest! {
        #[test]
        fn the_last_open_command_that_conflicts_is_found(
            commands in proptest::collection::vec((any_touches(), any::<bool>(), any::<bool>()), 1..12),
        ) {
            let mut paths = Paths::default();
            for (number, (touches, ..)) in commands.iter().enumerate() {
                paths.add(number as u64, touches);
            }
            let there = |number: usize| !commands[number].1;
            for number in (0..commands.len()).filter(|number| !there(*number)) {
                paths.remove(number as u64, &commands[number].0);
            }
            for (number, (touches, ..)) in commands.iter().enumerate() {
                let expected = (0..number)
                    .filter(|other| there(*other) && commands[*other].2 && meet(touches, &commands[*other].0))
                    .max();
                let found = paths.conflict(number as u64, touches, |other| commands[other as usize].2);
                prop_assert_eq!(found, expected.map(|other| other as u64));
            }
            for number in (0..commands.len()).filter(|number| there(*number)) {
                paths.remove(number as u64, &commands[number].0);
            }
            prop_assert!(paths.used.is_empty());
            prop_assert_eq!(paths.written, 0);
        }
    }
}
