//! The timer of an endpoint's task.
//!
//! tokio's timers count whole milliseconds and round up, and so does its wait for events: a timer fires up to two
//! milliseconds late, and two quanta of a paced flow ([`braidftp_cc::pacer`]), each of a millisecond, leave together. On
//! Linux a timer is a file descriptor with the resolution of the clock (timerfd_create(2)); elsewhere, and where none can be
//! created, it is tokio's.

use std::pin::Pin;
use std::task::{Context, Poll};

use braidftp_base::Time;
use tokio::time::{Sleep, sleep_until};

use crate::core::Clock;

/// A timer that is only moved to earlier times: an early wake-up costs one poll of the endpoint.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    timer: Timer,
    armed: Option<Time>,
    wanted: bool,
}

#[derive(Debug)]
enum Timer {
    #[cfg(target_os = "linux")]
    Descriptor(descriptor::Descriptor),
    Tokio(Pin<Box<Sleep>>),
}

impl Alarm {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, timer: Timer::new(clock), armed: None, wanted: false }
    }

    /// Wakes at this time, or earlier.
    pub(crate) fn set(&mut self, deadline: Option<Time>) {
        self.wanted = deadline.is_some();
        let Some(deadline) = deadline else { return };
        if self.armed.is_none_or(|armed| deadline < armed) {
            self.timer.set(self.clock, deadline);
            self.armed = Some(deadline);
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.wanted {
            return Poll::Pending;
        }
        let poll = self.timer.poll(cx);
        if poll.is_ready() {
            self.armed = None;
        }
        poll
    }
}

impl Timer {
    fn new(clock: Clock) -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(descriptor) = descriptor::Descriptor::new() {
            return Self::Descriptor(descriptor);
        }
        Self::Tokio(Box::pin(sleep_until(clock.instant(Time::ZERO))))
    }

    fn set(&mut self, clock: Clock, deadline: Time) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor(descriptor) => descriptor.set(deadline.since(clock.now())),
            Self::Tokio(sleep) => sleep.as_mut().reset(clock.instant(deadline)),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor(descriptor) => descriptor.poll(cx),
            Self::Tokio(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

#[cfg(target_os = "linux")]
mod descriptor {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A timer that is a file descriptor.
    #[derive(Debug)]
    pub(super) struct Descriptor(AsyncFd<OwnedFd>);

    impl Descriptor {
        pub(super) fn new() -> io::Result<Self> {
            let fd =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            #[expect(
                deprecated,
                reason = "its successor is unsafe, for descriptors that may be closed meanwhile: this one is owned"
            )]
            let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
            Ok(Self(fd))
        }

        /// Fires after this time, and not at the time set before.
        pub(super) fn set(&self, after: Duration) {
            // Zero would stop the timer.
            let after = after.max(Duration::from_nanos(1));
            let it_value = Timespec {
                tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: after.subsec_nanos().into(),
            };
            let it = Itimerspec { it_interval: Timespec::default(), it_value };
            // It fails only for times that are none (timerfd_settime(2)).
            let set = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &it);
            debug_assert!(set.is_ok(), "{set:?}");
        }

        pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
            loop {
                // An error is the end of the runtime, whose task is polled no more.
                let Ok(mut ready) = ready!(self.0.poll_read_ready(cx)) else { return Poll::Pending };
                let mut fired = [0; 8];
                // `WouldBlock` clears the readiness: the timer was set again after it had fired.
                if ready.try_io(|fd| Ok(rustix::io::read(fd, &mut fired)?)).is_ok() {
                    return Poll::Ready(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    async fn wait(alarm: &mut Alarm) -> Time {
        poll_fn(|cx| alarm.poll(cx)).await;
        alarm.clock.now()
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_timer_of_a_part_of_a_millisecond_fires_within_it() {
        let mut alarm = Alarm::new(Clock::start());
        // A busy machine adds to the delay of the timer itself.
        let mut least = Duration::MAX;
        for _ in 0..100 {
            let deadline = alarm.clock.now() + Duration::from_micros(300);
            alarm.set(Some(deadline));
            let now = wait(&mut alarm).await;
            assert!(now >= deadline, "early by {:?}", deadline.since(now));
            least = least.min(now.since(deadline));
        }
        assert!(least < Duration::from_micros(500), "{least:?}");
    }

    #[tokio::test]
    async fn a_timer_is_moved_to_earlier_times_only_and_fires_again() {
        let mut alarm = Alarm::new(Clock::start());
        let at = |millis| Some(Time::from_millis(millis));
        alarm.set(at(3_600_000));
        alarm.set(at(20));
        alarm.set(at(3_600_000));
        let first = wait(&mut alarm).await;
        assert!(first >= Time::from_millis(20) && first < Time::from_millis(3_000), "{first:?}");
        // What has passed is now.
        alarm.set(at(1));
        wait(&mut alarm).await;
        alarm.set(None);
        assert!(poll_fn(|cx| Poll::Ready(alarm.poll(cx))).await.is_pending());
        alarm.set(Some(alarm.clock.now() + Duration::from_millis(20)));
        let before = alarm.clock.now();
        let second = wait(&mut alarm).await;
        assert!(second >= before + Duration::from_millis(19), "{:?}", second.since(before));
    }
}
