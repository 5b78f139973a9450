//! The data of the dashboard of a server, from the getters of [`Activity`](super::activity::Activity).

use super::Monitor;
use super::activity::SessionLine;
use crate::dashboard::{Now, Path, SESSIONS_MAX, Session, Totals, Transfer};

impl Monitor {
    /// The current sessions, transfers and paths: at most as many sessions as the page lists, those with
    /// transfers first.
    pub(super) fn now(&self) -> Now {
        let (activity, totals) = (&self.shared.activity, self.shared.activity.totals());
        let mut now = Now {
            totals: Totals {
                seconds: totals.uptime_seconds,
                sessions: totals.sessions,
                transfers: totals.transfers,
                sent_bytes: Some(totals.sent_bytes),
                received_bytes: Some(totals.received_bytes),
                ..Totals::default()
            },
            ..Now::default()
        };
        for line in activity.busiest(SESSIONS_MAX) {
            add(&mut now, line);
        }
        now
    }
}

fn add(now: &mut Now, line: SessionLine) {
    let SessionLine { id, peer, user, mode, seconds, sent_bytes, received_bytes, transfers, paths } = line;
    now.sessions.push(Session { id, peer, user, mode, seconds, sent_bytes, received_bytes });
    now.transfers.extend(transfers.into_iter().map(|transfer| Transfer {
        session: id,
        direction: transfer.direction,
        path: transfer.path,
        bytes: transfer.bytes,
        size: None,
        seconds: transfer.seconds,
    }));
    now.paths.extend(paths.into_iter().map(|path| Path {
        session: id,
        local: path.local,
        peer: path.peer,
        state: path.state.to_owned(),
        rtt_ms: path.srtt_ms,
        cwnd: Some(path.cwnd as u64),
        sent_bytes: path.sent_bytes,
        received_bytes: path.received_bytes,
        sent_packets: Some(path.sent_packets),
        retransmitted: Some(path.retransmitted_chunks),
    }));
}
