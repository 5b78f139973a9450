//! The number of concurrent test binaries: one per processor, and more while processors are idle.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::time::Duration;

/// How long the processors are observed before another binary starts.
const WATCHED: Duration = Duration::from_secs(1);

/// The idle fraction of a processor that is required for another binary to start.
const IDLE: f64 = 0.5;

/// The maximum number of concurrent binaries per processor.
const EACH_MAX: usize = 4;

/// Jobs in order.
pub(super) struct Schedule<J> {
    waiting: VecDeque<J>,
    processors: usize,
    /// Returns the average number of idle processors since the last call.
    idle: Box<dyn FnMut() -> f64>,
}

impl<J: Send> Schedule<J> {
    /// A schedule for this machine.
    pub(super) fn of(jobs: Vec<J>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut before = ticks();
        let idle = Box::new(move || {
            let now = ticks();
            let (all, idle) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            before = now;
            // Without tick counts the load is unknown, and one binary per processor is right.
            if all == 0 { 0.0 } else { idle as f64 / all as f64 * processors as f64 }
        });
        Self { waiting: jobs.into(), processors, idle }
    }

    /// Runs all jobs, each on its own thread, and returns their results in the order in which they ended.
    pub(super) fn run<R: Send>(mut self, job: impl Fn(J) -> R + Sync) -> Vec<R> {
        let mut results = Vec::new();
        let mut running = 0;
        let (ended, end) = mpsc::channel();
        std::thread::scope(|scope| {
            loop {
                while self.may_start(running) {
                    let Some(next) = self.waiting.pop_front() else { break };
                    let (ended, job) = (ended.clone(), &job);
                    scope.spawn(move || ended.send(catch_unwind(AssertUnwindSafe(|| job(next)))));
                    running += 1;
                }
                if running == 0 {
                    return;
                }
                if let Ok(result) = end.recv_timeout(WATCHED) {
                    results.push(result.unwrap_or_else(|panic| resume_unwind(panic)));
                    running -= 1;
                }
            }
        });
        results
    }

    /// Whether another job may start while `running` jobs run.
    fn may_start(&mut self, running: usize) -> bool {
        running < self.processors || (running < EACH_MAX * self.processors && (self.idle)() >= IDLE)
    }
}

/// The ticks of all processors since the machine started, and the idle ones (proc_stat(5)). What runs with a lower priority
/// than this process, as the soak does, would let a test run: its ticks count as idle.
fn ticks() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).take(8).collect();
    // User time with a lower priority, idle, waiting for a disk.
    let fields: &[usize] = if niceness() == Some(0) { &[1, 3, 4] } else { &[3, 4] };
    let idle = fields.iter().filter_map(|field| ticks.get(*field)).sum();
    (ticks.iter().sum(), idle)
}

/// The nice value of this process (proc_pid_stat(5)).
fn niceness() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(idle: f64) -> Schedule<u32> {
        Schedule { waiting: (0..20).collect(), processors: 2, idle: Box::new(move || idle) }
    }

    #[test]
    fn further_jobs_start_only_while_processors_idle() {
        assert!(schedule(0.0).may_start(1) && !schedule(0.0).may_start(2));
        assert!(schedule(1.0).may_start(2) && schedule(1.0).may_start(7) && !schedule(1.0).may_start(8));
    }

    #[test]
    fn every_job_runs_once() {
        let mut results = schedule(0.0).run(|job| job);
        results.sort();
        assert!(results.into_iter().eq(0..20));
    }

    #[test]
    fn processors_have_ticks() {
        let (all, idle) = ticks();
        assert!(all > 0 && idle <= all, "{idle} of {all}");
        assert!(niceness().is_some_and(|nice| (-20..20).contains(&nice)));
    }
}
