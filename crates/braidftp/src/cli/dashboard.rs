//! The page of `--dashboard` of a client: the state of the running job from [`Reporter::look`].

use std::sync::{Arc, Mutex, PoisonError};

use crate::dashboard::{self, DashboardArgs, Now, Path, Session, Totals, Transfer};
use crate::exit::{Error, Result, escape};
use crate::job::Job;
use crate::progress::{Look, Reporter};
use crate::stderr;

/// The page, if requested. It exists as long as the command runs, and shows the last of several jobs.
#[derive(Debug, Clone)]
pub(super) struct Page {
    shown: Arc<Mutex<Option<Shown>>>,
    direction: &'static str,
}

/// The job on the page.
#[derive(Debug, Clone)]
struct Shown {
    peer: String,
    user: String,
    reporter: Reporter,
}

impl Page {
    /// Opens the page of a command with this direction of transfers, and prints its address.
    ///
    /// # Errors
    ///
    /// Its address is unavailable, or not a local one.
    pub(super) fn open(args: &DashboardArgs, title: &'static str, direction: &'static str) -> Result<Self> {
        let page = Self { shown: Arc::default(), direction };
        let failed = |why: &dyn std::fmt::Display| Error::usage("show the dashboard", why);
        let Some(listener) = dashboard::open(args).map_err(|why| failed(&why))? else { return Ok(page) };
        stderr::line(dashboard::told(&listener));
        let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| failed(&error))?;
        let watched = page.clone();
        tokio::spawn(dashboard::serve(listener, title, move || watched.now()));
        Ok(page)
    }

    /// Shows this job from now on.
    pub(super) fn show(&self, job: &Job) {
        let shown = Shown {
            peer: job.url.to_string(),
            user: escape(&job.login.user),
            reporter: job.reporter.clone(),
        };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
    }

    fn now(&self) -> Now {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        shown.map(|shown| now(&shown, self.direction)).unwrap_or_default()
    }
}

/// The job as a single session.
fn now(shown: &Shown, direction: &'static str) -> Now {
    let Look { mode, seconds, files, failed, bytes, expected, under_way, transfers, paths } =
        shown.reporter.look();
    let sum = |of: fn(&crate::report::PathSummary) -> Option<u64>| paths.iter().filter_map(of).sum();
    let session = Session {
        id: 1,
        peer: shown.peer.clone(),
        user: Some(shown.user.clone()),
        mode,
        seconds,
        sent_bytes: sum(|path| path.bytes_sent),
        received_bytes: sum(|path| path.bytes_received),
    };
    let transfers = transfers.into_iter().map(|transfer| Transfer {
        session: 1,
        direction,
        path: transfer.path,
        bytes: transfer.bytes,
        size: transfer.size,
        seconds: transfer.seconds,
    });
    Now {
        totals: Totals {
            seconds,
            sessions: 1,
            transfers: under_way,
            files: Some(files),
            failed: Some(failed),
            moved_bytes: Some(bytes),
            expected_bytes: Some(expected),
            ..Totals::default()
        },
        sessions: vec![session],
        transfers: transfers.collect(),
        paths: paths
            .iter()
            .map(|path| Path {
                session: 1,
                local: path.local.clone(),
                peer: path.peer.clone(),
                state: path.state.unwrap_or("active").to_owned(),
                rtt_ms: path.srtt_ms,
                cwnd: path.cwnd,
                sent_bytes: path.bytes_sent.unwrap_or(0),
                received_bytes: path.bytes_received.unwrap_or(0),
                sent_packets: path.packets_sent,
                retransmitted: path.retransmitted,
            })
            .collect(),
    }
}
