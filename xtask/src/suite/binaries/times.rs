//! The duration of each test binary in the last run, stored in `target/test-times.json`.
//!
//! In a fresh clone there is none. There those start first that are known to be long ([`LONG`]).

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Binary, Ended};
use crate::shell::root;

/// The binaries that take longest on two processors, in order.
const LONG: &[&str] = &[
    "documentation",
    "braidftp interop_tls",
    "braidftp budget",
    "braidftp client_faults",
    "braidftp server_sctp",
    "net usrsctp_multihomed",
    "braidftp server",
    "braidftp client",
    "braidftp braidftp",
    "sim multipath",
    "sim braidftp_sim",
];

/// The duration of each binary in seconds, by its name.
#[derive(Debug, Default)]
pub(super) struct Times(BTreeMap<String, f64>);

impl Times {
    /// Reads the durations of the last run; none if there is no file.
    pub(super) fn load() -> Self {
        let text = std::fs::read(path()).unwrap_or_default();
        Self(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Sorts the binaries, the longest first. A binary without a known duration may be long, and comes first.
    pub(super) fn sort(&self, binaries: &mut [Binary]) {
        let seconds = |binary: &Binary| self.0.get(&binary.name).copied().unwrap_or(f64::INFINITY);
        let rank = |binary: &Binary| LONG.iter().position(|name| *name == binary.name).unwrap_or(LONG.len());
        binaries.sort_by(|one, other| {
            seconds(other).total_cmp(&seconds(one)).then_with(|| rank(one).cmp(&rank(other)))
        });
    }

    /// Stores the durations of those that passed, and keeps those of the others. The file is only an
    /// optimisation: if it cannot be written, the next run has another order.
    pub(super) fn keep(&mut self, ended: &[Ended]) {
        let passed = ended.iter().filter(|binary| binary.passed);
        self.0.extend(passed.map(|binary| (binary.name.clone(), binary.time.as_secs_f64())));
        if let Ok(text) = serde_json::to_vec_pretty(&self.0) {
            let _ = std::fs::write(path(), text);
        }
    }
}

fn path() -> PathBuf {
    root().join("target/test-times.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_binary_and_one_without_a_time_start_first() {
        let binary = |name: &str| Binary { name: name.to_owned(), ..Binary::default() };
        let times = Times([("short", 1.0), ("long", 9.0)].map(|(name, s)| (name.to_owned(), s)).into());
        let mut binaries = ["short", "long", "new"].map(binary);
        times.sort(&mut binaries);
        assert_eq!(binaries.map(|binary| binary.name), ["new", "long", "short"]);
        let mut binaries = ["new", LONG[1], LONG[0]].map(binary);
        Times::default().sort(&mut binaries);
        assert_eq!(binaries.map(|binary| binary.name), [LONG[0], LONG[1], "new"]);
    }
}
