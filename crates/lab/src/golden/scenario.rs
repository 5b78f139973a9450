//! The contents of `scenarios.toml`: links, drops, parameters and expected results of golden scenarios.
//! Fields are documented in `golden/ns2/README.md`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// All scenarios, with the module's defaults.
#[derive(Debug, Deserialize)]
pub(crate) struct Scenarios {
    pub(crate) defaults: BTreeMap<String, f64>,
    #[serde(rename = "scenario")]
    pub(crate) scenarios: Vec<Scenario>,
}

/// One scenario.
#[derive(Debug, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) class: Class,
    pub(crate) end_time: f64,
    pub(crate) router: Option<u8>,
    pub(crate) links: Vec<Wire>,
    #[serde(default)]
    pub(crate) drops: Vec<Drops>,
    pub(crate) events: Vec<Happening>,
    pub(crate) sender: Node,
    pub(crate) receiver: Node,
    /// The rules needed to replay the trace, each with the time from which it applies.
    #[serde(default)]
    pub(crate) rules: Vec<String>,
    pub(crate) plain_profile: Option<Columns>,
    pub(crate) golden: Golden,
}

/// Which of the module's two classes both sides use.
#[derive(Debug, Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    /// One path at a time.
    Sctp,
    /// All paths at once.
    Cmt,
}

/// A link, in both directions.
#[derive(Debug, Deserialize)]
pub(crate) struct Wire {
    pub(crate) a: u8,
    pub(crate) b: u8,
    pub(crate) rate_bps: u64,
    pub(crate) delay_s: f64,
    pub(crate) queue_ab: usize,
    pub(crate) queue_ba: usize,
}

/// Packets to drop where they enter a link, counted from 0.
#[derive(Debug, Deserialize)]
pub(crate) struct Drops {
    pub(crate) from: u8,
    pub(crate) to: u8,
    pub(crate) packets: Vec<u64>,
}

/// A timed event.
#[derive(Debug, Deserialize, Clone, Copy)]
pub(crate) struct Happening {
    pub(crate) time: f64,
    #[serde(flatten)]
    pub(crate) what: What,
}

#[derive(Debug, Deserialize, Clone, Copy)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum What {
    Start,
    Send { bytes: usize },
    Stop,
    SetPrimary { node: u8 },
    LinkDown { a: u8, b: u8 },
}

/// A host.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) interfaces: Vec<u8>,
    pub(crate) primary: Option<u8>,
    #[serde(default)]
    pub(crate) params: BTreeMap<String, f64>,
}

/// The results of the suite's own run, and of the same run without non-standard behaviour.
#[derive(Debug, Deserialize)]
pub(crate) struct Columns {
    pub(crate) chunks_received_equal_window: [u64; 2],
    pub(crate) retransmitted: [u64; 2],
    pub(crate) elapsed_s: Option<[f64; 2]>,
}

/// The contents of the trace.
#[derive(Debug, Deserialize)]
pub(crate) struct Golden {
    pub(crate) first_data_us: u64,
    pub(crate) data_chunks_received: u64,
    #[serde(default)]
    pub(crate) duplicate_chunks_received: u64,
    pub(crate) data_chunks_retransmitted: u64,
    pub(crate) transfer_complete_us: Option<u64>,
    #[serde(default)]
    pub(crate) dropped: String,
}

/// A dropped packet, as in `golden.dropped`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) from: u8,
    pub(crate) to: u8,
    /// The packet's index among those that enter the link.
    pub(crate) position: u64,
    pub(crate) what: Victim,
}

/// The contents of a dropped packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Victim {
    /// Any packet at this position.
    Any,
    /// The nth transmission of the chunk with this TSN, counted from 1.
    Data { tsn: u32, nth: u32 },
    /// The first control chunk with this letter from the position on.
    Control(char),
}

impl Scenario {
    /// The dropped packets: by chunk if the trace names it, else by position.
    pub(crate) fn dropped(&self) -> Result<Vec<Dropped>, String> {
        if !self.golden.dropped.is_empty() {
            let bad = |entry: &str| format!("{}: `{entry}` is not a dropped packet", self.name);
            let entries = self.golden.dropped.split_whitespace();
            return entries.map(|entry| parse_dropped(entry).ok_or_else(|| bad(entry))).collect();
        }
        let each = |drops: &Drops| {
            let (from, to) = (drops.from, drops.to);
            drops
                .packets
                .iter()
                .map(move |&position| Dropped { from, to, position, what: Victim::Any })
                .collect::<Vec<_>>()
        };
        Ok(self.drops.iter().flat_map(each).collect())
    }

    /// The results of the suite's run and of the plain run: chunks received, retransmissions, duration of
    /// the transfer in seconds.
    pub(crate) fn columns(&self) -> [Outcome; 2] {
        let golden = &self.golden;
        let elapsed = golden.transfer_complete_us.map(|at| (at - golden.first_data_us) as f64 / 1e6);
        let own = Outcome {
            chunks: golden.data_chunks_received - golden.duplicate_chunks_received,
            retransmissions: golden.data_chunks_retransmitted,
            elapsed,
        };
        match &self.plain_profile {
            None => [own, own],
            Some(columns) => [0, 1].map(|index| Outcome {
                chunks: columns.chunks_received_equal_window[index],
                retransmissions: columns.retransmitted[index],
                elapsed: columns.elapsed_s.map(|both| both[index]),
            }),
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    /// Distinct chunks that reached the receiver within the time window.
    pub(crate) chunks: u64,
    /// Retransmitted chunks.
    pub(crate) retransmissions: u64,
    /// Seconds from the first DATA to the arrival of the whole transfer, if there is one.
    pub(crate) elapsed: Option<f64>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.elapsed {
            Some(elapsed) => write!(f, "{elapsed:.6} s"),
            None => write!(f, "{} chunks", self.chunks),
        }
    }
}

fn parse_dropped(entry: &str) -> Option<Dropped> {
    let mut parts = entry.split(':');
    let (from, to) = parts.next()?.split_once('-')?;
    let position = parts.next()?.strip_prefix('#')?.parse().ok()?;
    let what = parts.next()?;
    let what = match what.strip_prefix('D') {
        Some(tsns) => {
            Victim::Data { tsn: tsns.split('+').next()?.parse().ok()?, nth: parts.next()?.parse().ok()? }
        }
        None => Victim::Control(what.chars().next()?),
    };
    Some(Dropped { from: from.parse().ok()?, to: to.parse().ok()?, position, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_packets_are_parsed_in_the_notation_of_the_trace() {
        let dropped = |from, to, position, what| Some(Dropped { from, to, position, what });
        assert_eq!(parse_dropped("0-1:#12:D19+20:2"), dropped(0, 1, 12, Victim::Data { tsn: 19, nth: 2 }));
        assert_eq!(parse_dropped("1-4:#33:H"), dropped(1, 4, 33, Victim::Control('H')));
        assert_eq!(parse_dropped("1-4:33:H"), None);
        assert_eq!(parse_dropped("1-4:#3:D"), None);
    }
}
