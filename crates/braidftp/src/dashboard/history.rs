//! The history of each path: one sample per second, for [`SAMPLES_MAX`] seconds and at most [`PATHS_MAX`]
//! paths.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::now::{Now, Path, Totals};

/// The number of samples kept for a path: three minutes.
pub(crate) const SAMPLES_MAX: usize = 180;
/// The number of listed sessions; the others are counted.
pub(crate) const SESSIONS_MAX: usize = 50;
/// The number of listed transfers; the others are counted.
pub(crate) const TRANSFERS_MAX: usize = 100;
/// The number of listed paths with a history; the others are counted.
pub(crate) const PATHS_MAX: usize = 64;
/// The number of displayed characters of a name.
const NAME_CHARS_MAX: usize = 160;

/// The samples so far.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The number of samples so far.
    tick: u64,
    lines: BTreeMap<Key, Line>,
    /// For each listed session the bytes at the last sample, and the rate.
    sessions: BTreeMap<u64, (u64, u64)>,
    now: Now,
    more: More,
}

/// Session, local address, peer's address.
type Key = (u64, String, String);

/// The numbers of unlisted items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct More {
    sessions: usize,
    transfers: usize,
    paths: usize,
}

#[derive(Debug)]
struct Line {
    /// The counters at the last sample.
    last: Path,
    samples: VecDeque<Sample>,
}

/// One second of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    tick: u64,
    /// Bits per second, both directions together.
    rate: u64,
    rtt_ms: Option<f64>,
    cwnd: Option<u64>,
    /// Retransmitted chunks in per cent of the packets sent.
    loss: Option<f64>,
}

impl Sample {
    fn of(tick: u64, path: &Path, last: &Path, since: Duration) -> Self {
        let moved = path.sent_bytes.saturating_sub(last.sent_bytes)
            + path.received_bytes.saturating_sub(last.received_bytes);
        let grown = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        let packets = grown(path.sent_packets, last.sent_packets);
        let loss = grown(path.retransmitted, last.retransmitted)
            .zip(packets.filter(|packets| *packets > 0))
            .map(|(again, packets)| two_digits((again as f64 * 100.0 / packets as f64).min(100.0)));
        Self {
            tick,
            rate: bits_a_second(moved, since),
            rtt_ms: path.rtt_ms.map(two_digits),
            cwnd: path.cwnd,
            loss,
        }
    }

    fn json(self) -> Value {
        json!([self.tick, self.rate, self.rtt_ms, self.cwnd, self.loss])
    }
}

fn bits_a_second(bytes: u64, since: Duration) -> u64 {
    (bytes as f64 * 8.0 / since.as_secs_f64().max(1e-3)) as u64
}

fn two_digits(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// A name shortened to [`NAME_CHARS_MAX`] characters.
fn short(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX - 1) {
        Some((at, last)) if at + last.len_utf8() < name.len() => format!("{}…", &name[..at]),
        _ => name.to_owned(),
    }
}

/// Truncates a list; returns the number of removed and of previously counted items.
fn cut<T>(list: &mut Vec<T>, max: usize, before: usize) -> usize {
    let all = list.len().max(before);
    list.truncate(max);
    all - list.len()
}

impl History {
    /// Records the state after this time since the last sample.
    pub(super) fn sample(&mut self, mut now: Now, since: Duration) {
        self.tick += 1;
        self.more = More {
            sessions: cut(&mut now.sessions, SESSIONS_MAX, now.totals.sessions),
            transfers: cut(&mut now.transfers, TRANSFERS_MAX, now.totals.transfers),
            paths: cut(&mut now.paths, PATHS_MAX, 0),
        };
        now.transfers.iter_mut().for_each(|transfer| transfer.path = short(&transfer.path));
        for session in &mut now.sessions {
            session.peer = short(&session.peer);
            session.user = session.user.as_deref().map(short);
        }
        // All counts of a new session belong to this sample; those of an older session that was not listed
        // before do not.
        let new = now.sessions.iter().filter(|session| session.seconds <= since.as_secs());
        let new: BTreeSet<u64> = new.map(|session| session.id).collect();
        let is_new = |session: u64| new.contains(&session);
        let mut lines = BTreeMap::new();
        for path in &now.paths {
            let key = (path.session, path.local.clone(), path.peer.clone());
            let line = self.lines.remove(&key);
            let mut line = line.unwrap_or_else(|| {
                let last = if is_new(path.session) { Path::default() } else { path.clone() };
                Line { last, samples: VecDeque::new() }
            });
            if line.samples.len() == SAMPLES_MAX {
                line.samples.pop_front();
            }
            line.samples.push_back(Sample::of(self.tick, path, &line.last, since));
            line.last = path.clone();
            lines.insert(key, line);
        }
        self.lines = lines;
        let sessions = now.sessions.iter().map(|session| {
            let moved = session.sent_bytes + session.received_bytes;
            let new = if is_new(session.id) { 0 } else { moved };
            let before = self.sessions.get(&session.id).map_or(new, |(before, _)| *before);
            (session.id, (moved, bits_a_second(moved.saturating_sub(before), since)))
        });
        self.sessions = sessions.collect();
        self.now = now;
    }

    /// The current state with all samples or with the last sample of each path, as JSON.
    pub(super) fn frame(&self, which: Which) -> String {
        #[derive(Serialize)]
        struct Frame<'a> {
            tick: u64,
            totals: &'a Totals,
            sessions: Vec<Value>,
            transfers: &'a [super::now::Transfer],
            paths: Vec<Value>,
            more: More,
        }
        let session = |session: &super::now::Session| {
            let mut value = serde_json::to_value(session).unwrap_or_default();
            value["rate"] = self.sessions.get(&session.id).map_or(0, |(_, rate)| *rate).into();
            value
        };
        let path = |(key, line): (&Key, &Line)| {
            let skip = match which {
                Which::All => 0,
                Which::Last => line.samples.len().saturating_sub(1),
            };
            let samples: Vec<Value> = line.samples.iter().skip(skip).map(|sample| sample.json()).collect();
            let (session, local, peer) = key;
            json!({ "session": session, "local": local, "peer": peer, "state": line.last.state, "samples": samples })
        };
        let frame = Frame {
            tick: self.tick,
            totals: &self.now.totals,
            sessions: self.now.sessions.iter().map(session).collect(),
            transfers: &self.now.transfers,
            paths: self.lines.iter().map(path).collect(),
            more: self.more,
        };
        serde_json::to_string(&frame).unwrap_or_default()
    }
}

/// Which samples a frame contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    Last,
}

#[cfg(test)]
mod tests {
    use super::super::now::{Session, Transfer};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn path(session: u64, sent: u64) -> Path {
        Path {
            session,
            local: "10.0.0.1:1".into(),
            peer: "10.0.0.2:2".into(),
            state: "active".into(),
            rtt_ms: Some(12.345),
            cwnd: Some(20_000),
            sent_bytes: sent,
            sent_packets: Some(sent / 1000),
            retransmitted: Some(sent / 50_000),
            ..Path::default()
        }
    }

    fn frame(history: &History, which: Which) -> Value {
        serde_json::from_str(&history.frame(which)).unwrap()
    }

    #[test]
    fn a_sample_has_the_rate_and_loss_since_the_previous_one() {
        let mut history = History::default();
        for sent in [1_000_000, 1_500_000, 1_500_000] {
            history.sample(Now { paths: vec![path(1, sent)], ..Now::default() }, 2 * SECOND);
        }
        let all = frame(&history, Which::All);
        let none = Value::Null;
        let wanted = json!([
            [1, 0, 12.35, 20_000, none],
            [2, 2_000_000, 12.35, 20_000, 2.0],
            [3, 0, 12.35, 20_000, none]
        ]);
        assert_eq!(all["paths"][0]["samples"], wanted);
        assert_eq!(frame(&history, Which::Last)["paths"][0]["samples"], json!([wanted[2]]));
    }

    #[test]
    fn the_bytes_of_a_sessions_first_second_are_counted() {
        let session = Session {
            id: 1,
            peer: "x".into(),
            user: None,
            mode: "braid".into(),
            seconds: 0,
            sent_bytes: 1_000_000,
            received_bytes: 0,
        };
        let mut history = History::default();
        history.sample(
            Now {
                sessions: vec![session],
                paths: vec![path(1, 1_000_000), path(2, 1_000_000)],
                ..Now::default()
            },
            SECOND,
        );
        let all = frame(&history, Which::All);
        assert_eq!(all["sessions"][0]["rate"], 8_000_000);
        assert_eq!(all["paths"][0]["samples"][0][1], 8_000_000);
        assert_eq!(all["paths"][1]["samples"][0][1], 0, "it was there before it was listed");
    }

    #[test]
    fn the_history_of_a_closed_path_is_removed_and_that_of_others_kept() {
        let mut history = History::default();
        for tick in 0..SAMPLES_MAX as u64 + 5 {
            let paths = if tick == 3 { vec![path(1, 0), path(2, 0)] } else { vec![path(1, tick * 100)] };
            history.sample(Now { paths, ..Now::default() }, SECOND);
        }
        let all = frame(&history, Which::All);
        assert_eq!(all["paths"].as_array().unwrap().len(), 1);
        let samples = all["paths"][0]["samples"].as_array().unwrap();
        assert_eq!((samples.len(), &samples[0][0]), (SAMPLES_MAX, &json!(6)));
    }

    #[test]
    fn listed_items_are_limited_and_the_others_counted() {
        let session = |id: u64| Session {
            id,
            peer: "x".into(),
            user: Some("u".repeat(NAME_CHARS_MAX + 1)),
            mode: "braid".into(),
            seconds: 0,
            sent_bytes: 1,
            received_bytes: 2,
        };
        let transfer = |id: u64| Transfer {
            session: id,
            direction: "download",
            path: "é".repeat(5000),
            bytes: 0,
            size: None,
            seconds: 0,
        };
        let many = |count: usize| 0..count as u64 + 7;
        let now = Now {
            totals: Totals { sessions: 1000, ..Totals::default() },
            sessions: many(SESSIONS_MAX).map(session).collect(),
            transfers: many(TRANSFERS_MAX).map(transfer).collect(),
            paths: many(PATHS_MAX).map(|id| path(id, 0)).collect(),
        };
        let mut history = History::default();
        history.sample(now, SECOND);
        let all = frame(&history, Which::All);
        let count = |what: &str| all[what].as_array().unwrap().len();
        assert_eq!(
            (count("sessions"), count("transfers"), count("paths")),
            (SESSIONS_MAX, TRANSFERS_MAX, PATHS_MAX)
        );
        assert_eq!(all["more"], json!({ "sessions": 1000 - SESSIONS_MAX, "transfers": 7, "paths": 7 }));
        let name = all["transfers"][0]["path"].as_str().unwrap();
        assert_eq!((name.chars().count(), name.ends_with("é…")), (NAME_CHARS_MAX, true));
        assert_eq!(all["sessions"][0]["user"].as_str().unwrap().chars().count(), NAME_CHARS_MAX);
    }
}
