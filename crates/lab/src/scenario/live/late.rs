//! How late the threads of live runs wake up. On a busy machine live runs measure the machine and not only the network.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::stats;

/// A wake-up that is late by less is usual on an idle machine.
const USUAL: Duration = Duration::from_millis(1);
/// The part of the time from which the medians of live runs are doubtful.
const LATE_MAX: f64 = 0.02;

/// For each live run, the part of its time that a thread which sleeps for a tick overslept. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Late(Arc<Mutex<Vec<f64>>>);

impl Late {
    /// Adds a run of this duration.
    pub(super) fn add(&self, overslept: Duration, lasted: Duration) {
        let part = overslept.as_secs_f64() / lasted.as_secs_f64().max(1e-9);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    /// Says the median of all runs in a line, and what it means; nothing if there was no run.
    pub fn said(&self) -> Option<String> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.is_empty() {
            return None;
        }
        let part = stats::quantile(&parts, 0.5);
        let advice = match part > LATE_MAX {
            true => {
                ": this machine is too busy, and delays transfers; run again while it is idle, or with fewer --threads"
            }
            false => "",
        };
        Some(format!("live runs were late for {:.1} % of the time (median){advice}\n", part * 100.0))
    }
}

/// By how much a sleep exceeded what was asked; 0 if by no more than usual.
pub(super) fn beyond(slept: Duration, asked: Duration) -> Duration {
    Some(slept.saturating_sub(asked)).filter(|over| *over > USUAL).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_run_decides_whether_the_machine_is_busy() {
        let ms = Duration::from_millis;
        assert_eq!((beyond(ms(3), ms(2)), beyond(ms(7), ms(2)), beyond(ms(1), ms(2))), (ms(0), ms(5), ms(0)));
        let late = Late::default();
        assert_eq!(late.said(), None);
        late.clone().add(ms(1), ms(1_000));
        assert_eq!(late.said().unwrap(), "live runs were late for 0.1 % of the time (median)\n");
        late.add(ms(100), ms(1_000));
        late.add(ms(50), ms(1_000));
        assert!(
            late.said()
                .unwrap()
                .starts_with("live runs were late for 5.0 % of the time (median): this machine is too busy")
        );
    }
}
