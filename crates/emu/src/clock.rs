//! The wall clock as a [`Time`], precise sleep, and the counters and captures that both engines share.

use std::fs::File;
use std::io::{self, BufWriter};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use braidftp_base::Time;
use braidftp_pcap::Writer;
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

use crate::sys;

/// Time since this clock was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    /// The origin, as time since 1970.
    pub(crate) epoch: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { origin: Instant::now(), epoch }
    }

    /// When the clock was started.
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// Converts a kernel timestamp, given as time since 1970.
    pub(crate) fn at(&self, since_1970: Duration) -> Time {
        Time::ZERO + since_1970.saturating_sub(self.epoch)
    }

    /// Sleeps until a descriptor is readable or the deadline passes. Returns the lateness if the deadline
    /// ended the sleep.
    pub(crate) fn wait(
        &self,
        fds: &mut [PollFd<'_>],
        deadline: Option<Time>,
    ) -> io::Result<Option<Duration>> {
        let timeout = deadline.map(|deadline| {
            let left = deadline.since(self.now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(fds, timeout.as_ref()) {
            Ok(0) => Ok(deadline.map(|deadline| self.now().since(deadline))),
            Ok(_) | Err(Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The nice value of an engine's thread that may not use real-time scheduling.
const NICE: i32 = -15;

/// Asks the kernel to wake this thread without the timer slack of 50 µs and before other threads, where
/// permitted: a link must not wait for the programs that use it.
pub(crate) fn wake_on_time() {
    // Without these permissions the sleep is only slightly longer.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    if sys::use_realtime_scheduling().is_err() {
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    }
}

/// How late the engine woke up for due packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The number of sleeps that a deadline ended.
    pub wakes: u64,
    /// The sum of all lateness.
    pub total: Duration,
    /// The largest lateness.
    pub max: Duration,
}

impl Lateness {
    pub(crate) fn add(&mut self, late: Duration) {
        self.wakes += 1;
        self.total += late;
        self.max = self.max.max(late);
    }

    /// The mean lateness.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.total.as_nanos().checked_div(self.wakes.into()).unwrap_or(0) as u64)
    }
}

/// A pcapng file being written; writing stops at the first error.
#[derive(Debug)]
pub(crate) struct Capture {
    writer: Option<Writer<BufWriter<File>>>,
    /// Why the file is incomplete.
    pub(crate) error: Option<String>,
}

impl Capture {
    pub(crate) fn none() -> Self {
        Self { writer: None, error: None }
    }

    pub(crate) fn create(path: &Path, clock: &Clock) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        Ok(Self { writer: Some(Writer::new(file, clock.epoch)?), error: None })
    }

    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Writer<BufWriter<File>>) -> io::Result<()>) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = write(writer)
        {
            self.error = Some(error.to_string());
            self.writer = None;
        }
    }

    pub(crate) fn finish(&mut self) {
        self.write(Writer::flush);
        self.writer = None;
    }
}
