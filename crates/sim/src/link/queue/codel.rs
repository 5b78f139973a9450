//! Controlled delay (RFC 8289 §5): packets are dropped at the head of the queue, once the minimum sojourn
//! time has stayed above a target for an interval, and more often the longer this lasts.
//!
//! The names are those of the RFC's pseudocode. The square root is computed in integers, so that every
//! machine gets the same result.

use std::fmt;
use std::time::Duration;

use braidftp_base::Time;

use super::super::config_error::ConfigError;
use super::super::text::{Text, duration};
use super::Signal;

/// The parameters of CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDel {
    /// TARGET: the acceptable standing delay. Default: 5 ms (RFC 8289 §4.4).
    pub target: Duration,
    /// INTERVAL: how long the delay may exceed the target; about a round trip. Default: 100 ms (RFC 8289
    /// §4.3).
    pub interval: Duration,
    /// What is done with selected packets.
    pub signal: Signal,
}

impl Default for CoDel {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), signal: Signal::Drop }
    }
}

/// The state of CoDel.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct State {
    /// When the delay will have exceeded the target for an interval, if it does now.
    first_above_time: Option<Time>,
    drop_next: Time,
    count: u64,
    last_count: u64,
    dropping: bool,
}

/// The queue from which CoDel takes packets.
pub(in super::super) trait Source {
    type Packet;

    /// Takes the first packet; also returns its sojourn time and the bytes that remain.
    fn pop(&mut self) -> Option<(Self::Packet, Duration, usize)>;

    /// Drops or marks the packet; returns it if it was marked.
    fn pick(&mut self, packet: Self::Packet) -> Option<Self::Packet>;

    /// The largest packet so far, in bytes: a queue of one packet is no standing queue.
    fn largest_bytes(&self) -> usize;
}

impl State {
    /// Returns the next packet for the wire.
    pub(in super::super) fn deque<S: Source>(
        &mut self,
        codel: &CoDel,
        now: Time,
        source: &mut S,
    ) -> Option<S::Packet> {
        let (mut head, mut ok_to_drop) = self.do_deque(codel, now, source);
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                let marked = head.and_then(|packet| source.pick(packet));
                if marked.is_some() {
                    self.drop_next = control_law(codel, self.drop_next, self.count);
                    return marked;
                }
                (head, ok_to_drop) = self.do_deque(codel, now, source);
                self.dropping = ok_to_drop;
                if ok_to_drop {
                    self.drop_next = control_law(codel, self.drop_next, self.count);
                }
            }
        } else if ok_to_drop {
            head = match head.and_then(|packet| source.pick(packet)) {
                Some(marked) => Some(marked),
                None => self.do_deque(codel, now, source).0,
            };
            self.dropping = true;
            // After a short pause CoDel resumes at about the former drop rate.
            let delta = self.count - self.last_count;
            let recent = now < self.drop_next + codel.interval * 16;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = control_law(codel, now, self.count);
            self.last_count = self.count;
        }
        head
    }

    /// The first packet, and whether it may be dropped.
    fn do_deque<S: Source>(&mut self, codel: &CoDel, now: Time, source: &mut S) -> (Option<S::Packet>, bool) {
        let Some((packet, sojourn, behind)) = source.pop() else {
            self.first_above_time = None;
            return (None, false);
        };
        if sojourn < codel.target || behind <= source.largest_bytes() {
            self.first_above_time = None;
            return (Some(packet), false);
        }
        let ok_to_drop = match self.first_above_time {
            None => {
                self.first_above_time = Some(now + codel.interval);
                false
            }
            Some(at) => now >= at,
        };
        (Some(packet), ok_to_drop)
    }
}

/// `t + INTERVAL / sqrt(count)`.
fn control_law(codel: &CoDel, t: Time, count: u64) -> Time {
    let interval = codel.interval.as_nanos();
    let nanos = (interval * interval / u128::from(count)).isqrt();
    t + Duration::from_nanos(nanos as u64)
}

/// In the notation of `CoDel::parse`.
impl fmt::Display for CoDel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Text(self.target), Text(self.interval))?;
        if self.signal == Signal::Mark {
            write!(f, ":mark")?;
        }
        Ok(())
    }
}

impl CoDel {
    /// Parses `target:interval[:mark]`, as in `5ms:100ms`, or `default[:mark]`.
    pub(in super::super) fn parse(parts: &[&str]) -> Result<Self, ConfigError> {
        let (parts, signal) = match parts {
            [parts @ .., "mark"] => (parts, Signal::Mark),
            parts => (parts, Signal::Drop),
        };
        let codel = match parts {
            ["default"] => Self::default(),
            [target, interval] => Self { target: duration(target)?, interval: duration(interval)?, signal },
            _ => {
                return Err(ConfigError::new(format!(
                    "`{}` is not CoDel: write its target and interval, and mark if wanted, as in 5ms:100ms:mark; \
                     `default` is 5ms:100ms",
                    parts.join(":").escape_debug()
                )));
            }
        };
        if codel.interval.is_zero() {
            return Err(ConfigError::new(
                "CoDel's interval must be longer than 0, as in 5ms:100ms".to_owned(),
            ));
        }
        Ok(Self { signal, ..codel })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endless queue with a constant sojourn time.
    struct Standing {
        sojourn: Duration,
        behind: usize,
        marks: bool,
        picked: Vec<Time>,
        now: Time,
    }

    impl Source for Standing {
        type Packet = ();

        fn pop(&mut self) -> Option<((), Duration, usize)> {
            Some(((), self.sojourn, self.behind))
        }

        fn pick(&mut self, (): ()) -> Option<()> {
            self.picked.push(self.now);
            self.marks.then_some(())
        }

        fn largest_bytes(&self) -> usize {
            1_500
        }
    }

    fn picked(sojourn_ms: u64, behind: usize, marks: bool) -> Vec<u64> {
        let (codel, mut state) = (CoDel::default(), State::default());
        let sojourn = Duration::from_millis(sojourn_ms);
        let mut queue = Standing { sojourn, behind, marks, picked: Vec::new(), now: Time::ZERO };
        for ms in 0..1_000 {
            queue.now = Time::from_millis(ms);
            assert!(state.deque(&codel, queue.now, &mut queue).is_some());
        }
        queue.picked.iter().map(|at| at.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn a_standing_queue_is_dropped_from_after_an_interval_and_then_by_the_control_law() {
        // The first after 100 ms; then after 100/sqrt(1), 100/sqrt(2), 100/sqrt(3), … ms, each rounded up to
        // whole ms.
        let times = [100, 200, 271, 329, 379, 424, 464, 502, 538, 571];
        assert_eq!(picked(6, 10_000, false)[..10], times);
        assert_eq!(picked(6, 10_000, true)[..10], times, "a mark counts as a drop");
    }

    #[test]
    fn packets_below_the_target_or_alone_in_the_queue_are_kept() {
        assert!(picked(4, 10_000, false).is_empty());
        assert!(picked(50, 1_500, false).is_empty());
    }
}
