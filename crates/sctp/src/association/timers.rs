//! The timers of an association: one table of deadlines.
//!
//! The table contains only deadlines; retry counts belong to the states that retry. A timer whose state has
//! ended has no effect. If several timers are due, the order of [`Timer`] decides.

use braidftp_base::Time;

use crate::ids::PathId;

/// The timers of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// T1-init or T1-cookie, depending on the state (RFC 9260 §5.1).
    T1,
    /// T2-shutdown (RFC 9260 §9.2).
    T2Shutdown,
    /// T5-shutdown-guard (RFC 9260 §9.2).
    T5Guard,
    /// The delay of a SACK (RFC 9260 §6.2).
    DelayedSack,
    /// The Re-configuration Timer of an outstanding request (RFC 6525 §5.1.1).
    Reconfig,
    /// The peer's window has been closed for an RTO: a window probe is due (RFC 9260 §6.1 A).
    ZeroWindow,
    /// T4 of an outstanding ASCONF (RFC 5061 §5.1).
    T4Asconf,
    /// T3-rtx of a path (RFC 9260 §6.3).
    T3Rtx(PathId),
    /// Chunks sent before an acknowledged packet become overdue: see `loss`.
    Overdue(PathId),
    /// The tail loss probe: see `loss`.
    TailProbe(PathId),
    /// The HEARTBEAT of an idle path (RFC 9260 §8.3).
    Heartbeat(PathId),
    /// PROBE_TIMER or PMTU_RAISE_TIMER, depending on the path's discovery (RFC 8899 §5.1.1).
    Pmtu(PathId),
    /// The pacing clock permits the next packet: see `pacing`.
    Pacing(PathId),
}

const SHARED: usize = 7;
const PER_PATH: usize = 6;

impl Timer {
    fn slot(self) -> usize {
        let of_path = |path: PathId, nth: usize| SHARED + usize::from(path.0) * PER_PATH + nth;
        match self {
            Self::T1 => 0,
            Self::T2Shutdown => 1,
            Self::T5Guard => 2,
            Self::DelayedSack => 3,
            Self::Reconfig => 4,
            Self::ZeroWindow => 5,
            Self::T4Asconf => 6,
            Self::T3Rtx(path) => of_path(path, 0),
            Self::Overdue(path) => of_path(path, 1),
            Self::TailProbe(path) => of_path(path, 2),
            Self::Heartbeat(path) => of_path(path, 3),
            Self::Pmtu(path) => of_path(path, 4),
            Self::Pacing(path) => of_path(path, 5),
        }
    }

    fn in_slot(slot: usize) -> Self {
        match slot {
            0 => Self::T1,
            1 => Self::T2Shutdown,
            2 => Self::T5Guard,
            3 => Self::DelayedSack,
            4 => Self::Reconfig,
            5 => Self::ZeroWindow,
            6 => Self::T4Asconf,
            _ => {
                let path = PathId(((slot - SHARED) / PER_PATH) as u8);
                match (slot - SHARED) % PER_PATH {
                    0 => Self::T3Rtx(path),
                    1 => Self::Overdue(path),
                    2 => Self::TailProbe(path),
                    3 => Self::Heartbeat(path),
                    4 => Self::Pmtu(path),
                    _ => Self::Pacing(path),
                }
            }
        }
    }
}

/// The deadlines of one association.
#[derive(Debug)]
pub(super) struct Timers {
    deadlines: Vec<Option<Time>>,
}

impl Timers {
    /// Creates timers that do not run.
    pub(super) fn new(paths: usize) -> Self {
        Self { deadlines: vec![None; SHARED + paths * PER_PATH] }
    }

    /// Starts `timer`, or restarts it.
    pub(super) fn arm(&mut self, timer: Timer, deadline: Time) {
        self.deadlines[timer.slot()] = Some(deadline);
    }

    /// Starts `timer` unless it is running.
    pub(super) fn arm_if_idle(&mut self, timer: Timer, deadline: Time) {
        self.deadlines[timer.slot()].get_or_insert(deadline);
    }

    /// Moves `timer` to an earlier deadline, if it is running.
    pub(super) fn advance(&mut self, timer: Timer, deadline: Time) {
        if let Some(at) = &mut self.deadlines[timer.slot()] {
            *at = deadline.min(*at);
        }
    }

    /// Stops `timer`.
    pub(super) fn stop(&mut self, timer: Timer) {
        self.deadlines[timer.slot()] = None;
    }

    /// Sets the number of paths.
    pub(super) fn grow(&mut self, paths: usize) {
        self.deadlines.resize(SHARED + paths * PER_PATH, None);
    }

    /// Stops the timers of a path.
    pub(super) fn stop_path(&mut self, path: PathId) {
        let first = SHARED + usize::from(path.0) * PER_PATH;
        self.deadlines[first..first + PER_PATH].fill(None);
    }

    /// Stops all timers.
    pub(super) fn stop_all(&mut self) {
        self.deadlines.fill(None);
    }

    /// Whether `timer` is running.
    pub(super) fn is_armed(&self, timer: Timer) -> bool {
        self.deadlines[timer.slot()].is_some()
    }

    /// Returns an expired timer, which is stopped.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Timer> {
        let slot = self.deadlines.iter().position(|deadline| deadline.is_some_and(|at| at <= now))?;
        self.deadlines[slot] = None;
        Some(Timer::in_slot(slot))
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Time> {
        self.deadlines.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_and_its_timer_name_each_other() {
        for slot in 0..SHARED + 3 * PER_PATH {
            assert_eq!(Timer::in_slot(slot).slot(), slot);
        }
    }

    #[test]
    fn timers_due_together_come_in_the_order_of_the_enum() {
        let mut timers = Timers::new(2);
        let at = Time::from_millis(5);
        timers.arm(Timer::T3Rtx(PathId(1)), at);
        timers.arm(Timer::T3Rtx(PathId(0)), at);
        timers.arm(Timer::DelayedSack, at);
        timers.arm(Timer::T1, Time::from_millis(6));
        assert_eq!(timers.next(), Some(at));
        let due: Vec<_> = std::iter::from_fn(|| timers.take_due(at)).collect();
        assert_eq!(due, [Timer::DelayedSack, Timer::T3Rtx(PathId(0)), Timer::T3Rtx(PathId(1))]);
        assert!(timers.is_armed(Timer::T1));
    }

    #[test]
    fn a_running_timer_is_restarted_only_by_arm() {
        let mut timers = Timers::new(1);
        timers.arm(Timer::T1, Time::from_millis(6));
        timers.arm_if_idle(Timer::T1, Time::from_millis(9));
        assert_eq!(timers.next(), Some(Time::from_millis(6)));
        timers.arm(Timer::T1, Time::from_millis(9));
        assert_eq!(timers.next(), Some(Time::from_millis(9)));
        timers.stop(Timer::T1);
        assert_eq!(timers.next(), None);
    }
}
