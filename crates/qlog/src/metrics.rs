//! Events that report changes of an association's statistics.

use std::time::Duration;

use braidftp_sctp::{PathState, PathStats, Phase, Stall, Stats};
use serde_json::{Map, Value};

use crate::path_name;

/// An event's name and data.
type Event = (&'static str, Map<String, Value>);

/// The values in the last events of an association.
#[derive(Debug, Default)]
pub(crate) struct Last {
    state: Option<(Phase, Option<Stall>)>,
    paths: Vec<LastOfPath>,
}

#[derive(Debug, Default)]
struct LastOfPath {
    name: String,
    state: Option<PathState>,
    metrics: Map<String, Value>,
}

impl Last {
    /// Returns the events that lead from the last statistics to these.
    pub(crate) fn events(&mut self, association: u64, stats: &Stats) -> Vec<Event> {
        let mut events = Vec::new();
        let state = (stats.phase, stats.stall);
        if self.state != Some(state) {
            let mut data = of(association);
            if let Some((old, _)) = self.state {
                data.insert("old".to_owned(), format!("{old:?}").into());
            }
            data.insert("new".to_owned(), format!("{:?}", stats.phase).into());
            if let Some(stall) = stats.stall {
                data.insert("stall".to_owned(), stall.to_string().into());
            }
            self.state = Some(state);
            events.push(("sctp:association_state_updated", data));
        }
        self.paths.resize_with(stats.paths.len().max(self.paths.len()), LastOfPath::default);
        for (last, path) in self.paths.iter_mut().zip(&stats.paths) {
            last.events(association, path, &mut events);
        }
        events
    }
}

impl LastOfPath {
    fn events(&mut self, association: u64, path: &PathStats, events: &mut Vec<Event>) {
        let name = path_name(path.local, path.peer);
        if self.name != name {
            // The number was given to another path.
            *self = Self { name, ..Self::default() };
        }
        let about = || {
            let mut data = of(association);
            data.insert("path".to_owned(), self.name.clone().into());
            data
        };
        if self.state != Some(path.state) {
            let mut data = about();
            if let Some(old) = self.state {
                data.insert("old".to_owned(), format!("{old:?}").into());
            }
            data.insert("new".to_owned(), format!("{:?}", path.state).into());
            events.push(("sctp:path_state_updated", data));
        }
        let metrics = metrics(path);
        let mut changed = about();
        let known = changed.len();
        changed.extend(
            metrics
                .iter()
                .filter(|(key, value)| self.metrics.get(*key) != Some(value))
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        if changed.len() > known {
            events.push(("sctp:metrics_updated", changed));
        }
        self.state = Some(path.state);
        self.metrics = metrics;
    }
}

fn of(association: u64) -> Map<String, Value> {
    Map::from_iter([("association".to_owned(), association.into())])
}

fn metrics(path: &PathStats) -> Map<String, Value> {
    let millis = |time: Duration| (time.as_micros() as f64 / 1_000.0).into();
    let mut metrics = Map::new();
    if let Some(srtt) = path.srtt {
        metrics.insert("smoothed_rtt".to_owned(), millis(srtt));
    }
    metrics.insert("rto".to_owned(), millis(path.rto));
    let numbers: [(&str, Value); 8] = [
        ("congestion_window", path.cwnd.into()),
        ("ssthresh", path.ssthresh.into()),
        ("bytes_in_flight", path.flight_bytes.into()),
        ("mtu", path.mtu.into()),
        ("packets_sent", path.packets_sent.into()),
        ("retransmitted_chunks", path.retransmitted_chunks.into()),
        ("fast_retransmits", path.fast_retransmits.into()),
        ("timeouts", path.timeouts.into()),
    ];
    metrics.extend(numbers.map(|(key, value)| (key.to_owned(), value)));
    metrics
}
