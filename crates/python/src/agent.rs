//! A controller whose window and pacing rate a program sets; counts events for the program.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braidftp_base::Rate;
use braidftp_cc as cc;

/// The counters of a run's controllers, and the values that the program set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// The window that the program set, in bytes; 0: the initial one.
    pub(crate) window: usize,
    /// The pacing rate that the program set.
    pub(crate) rate: Option<Rate>,
    pub(crate) sent_bytes: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) acks: u64,
    pub(crate) rtt_sum: Duration,
    pub(crate) rtts: u32,
    pub(crate) rtt_min: Option<Duration>,
    pub(crate) losses: u64,
    pub(crate) timeouts: u64,
    pub(crate) marks: u64,
    pub(crate) flight_bytes: usize,
    pub(crate) mtu: usize,
}

/// What the program and the controllers of a run share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agent(Arc<Mutex<Counts>>);

impl Agent {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The controller that scenarios name: all paths of a run have the window that the program sets.
    pub(crate) fn external(&self, name: &str) -> cc::External {
        let agent = self.clone();
        let build = move |options: cc::Options, mtu: usize| {
            let agent = agent.clone();
            cc::guarded(mtu, |mtu| Controlled { agent, initial: options.initial_window.bytes(mtu), mtu })
        };
        cc::External { name: Box::leak(name.to_owned().into_boxed_str()), build: Box::leak(Box::new(build)) }
    }
}

/// A controller with an externally set window.
#[derive(Debug, Clone)]
struct Controlled {
    agent: Agent,
    initial: usize,
    mtu: usize,
}

impl cc::Controller for Controlled {
    fn window(&self) -> usize {
        match self.agent.lock().window {
            0 => self.initial,
            window => window.max(self.mtu),
        }
    }

    fn ssthresh(&self) -> usize {
        u32::MAX as usize
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.agent.lock().rate
    }

    /// Losses change nothing here, so nothing is restored.
    fn counts_arrivals(&self) -> bool {
        true
    }

    fn on_sent(&mut self, sent: cc::Sent) {
        let mut counts = self.agent.lock();
        counts.sent_bytes += sent.bytes as u64;
        counts.flight_bytes = sent.flight_before + sent.bytes;
    }

    fn on_lost(&mut self, lost: cc::Lost) {
        let mut counts = self.agent.lock();
        counts.lost_bytes += lost.bytes as u64;
        counts.flight_bytes = lost.flight_bytes;
    }

    fn on_ack(&mut self, ack: cc::Ack<'_>) {
        let mut counts = self.agent.lock();
        counts.acked_bytes += ack.bytes as u64;
        counts.acks += 1;
        counts.flight_bytes = ack.flight_before.saturating_sub(ack.bytes);
        counts.mtu = ack.mtu;
        if let Some(rtt) = ack.rtt {
            counts.rtt_sum += rtt;
            counts.rtts += 1;
            counts.rtt_min = Some(counts.rtt_min.map_or(rtt, |least| least.min(rtt)));
        }
    }

    fn on_congestion(&mut self, congestion: cc::Congestion) {
        let mut counts = self.agent.lock();
        match congestion.cause {
            cc::Cause::Loss => counts.losses += 1,
            cc::Cause::Timeout => counts.timeouts += 1,
            cc::Cause::Ecn => counts.marks += 1,
        }
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }
}
