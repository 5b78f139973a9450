//! The task that drives an endpoint: receive a batch, pass it to the endpoint, poll it, send a batch, wait.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use braidftp_base::{Datagram, Output, Time};
use braidftp_sctp::{Reason, Transmit};
use bytes::Bytes;

use crate::alarm::Alarm;
use crate::capture::Capture;
use crate::core::{Core, Phase, Shared};
use crate::icmp::Notice;
use crate::packet_log::PacketLog;
use crate::qlog::Qlog;
use crate::sockets::Sockets;

/// The maximum number of batches sent before the task receives again and yields. Each batch is passed to
/// the kernel at once: its memory is then free for the next one, and still in the processor's cache.
const SENDS_A_TURN: usize = 8;

/// The task of an endpoint, to be spawned.
#[derive(Debug)]
pub(crate) struct Task {
    shared: Arc<Shared>,
    sockets: Sockets,
    logs: Logs,
    /// How long associations without handles may take to finish.
    linger: Duration,
    inbox: Vec<Datagram>,
    notices: Vec<Notice>,
}

/// The files of packets that an endpoint writes.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub(crate) capture: Option<Capture>,
    pub(crate) packets: Option<PacketLog>,
    pub(crate) qlog: Option<Qlog>,
}

impl Logs {
    fn received(&mut self, now: Time, datagram: &Datagram) {
        self.capture.iter_mut().for_each(|log| log.received(now, datagram));
        self.packets.iter_mut().for_each(|log| log.received(now, datagram));
        self.qlog.iter_mut().for_each(|log| log.received(now, datagram));
    }

    fn sent(&mut self, now: Time, transmit: &Transmit) {
        self.capture.iter_mut().for_each(|log| log.sent(now, transmit));
        self.packets.iter_mut().for_each(|log| log.sent(now, transmit));
        self.qlog.iter_mut().for_each(|log| log.sent(now, transmit));
    }

    /// Input was processed and everything sent.
    fn settled(&mut self, now: Time, core: &Core) {
        self.qlog.iter_mut().for_each(|log| log.stats(now, core));
    }

    fn flush(&mut self) {
        self.capture.iter_mut().for_each(Capture::flush);
        self.packets.iter_mut().for_each(PacketLog::flush);
        self.qlog.iter_mut().for_each(Qlog::flush);
    }
}

/// The result of a step of the task.
enum Next {
    /// Send this; there may be more.
    Send(Transmit),
    /// Wait until this time at the latest, or for input.
    Wait(Option<Time>),
    /// No handle is left.
    End,
}

impl Task {
    pub(crate) fn new(shared: Arc<Shared>, sockets: Sockets, logs: Logs, linger: Duration) -> Self {
        Self { shared, sockets, logs, linger, inbox: Vec::new(), notices: Vec::new() }
    }

    pub(crate) async fn run(mut self) {
        let mut alarm = Alarm::new(self.shared.clock);
        loop {
            // Packets that the kernel did not accept before are sent first, so that `step` knows whether
            // it is still blocked.
            self.sockets.flush();
            let more = self.sockets.receive(&mut self.inbox);
            self.sockets.notices(&mut self.notices);
            let mut next = self.step();
            for _ in 0..SENDS_A_TURN {
                let Next::Send(transmit) = next else { break };
                self.sockets.send(transmit);
                next = self.step();
            }
            match next {
                Next::Send(transmit) => {
                    self.sockets.send(transmit);
                    self.sockets.flush();
                    yield_once().await;
                }
                Next::Wait(deadline) => {
                    self.sockets.flush();
                    if more {
                        yield_once().await;
                    } else {
                        self.wait(&mut alarm, deadline).await;
                    }
                }
                // Dropping the task sends the rest.
                Next::End => return,
            }
        }
    }

    /// Passes received packets to the endpoint and polls it, up to the next batch to send.
    fn step(&mut self) -> Next {
        let now = self.shared.clock.now();
        let mut core = self.shared.lock();
        for datagram in self.inbox.drain(..) {
            self.logs.received(now, &datagram);
            core.machine.handle(now, datagram);
        }
        for notice in self.notices.drain(..) {
            core.machine.handle_icmp(now, notice.message());
        }
        core.drive_keys(now);
        let freed = core.settle(now, &mut self.sockets);
        let end = self.mind_the_end(&mut core, now);
        if self.sockets.all_blocked() {
            // The kernel's buffers are full: packets built now would only wait here.
            return Next::Wait([end, freed, core.wakes.next()].into_iter().flatten().min());
        }
        let open_before = core.open;
        let next = loop {
            match core.machine.poll(now) {
                Output::Send(transmit) => {
                    self.logs.sent(now, &transmit);
                    break Next::Send(transmit);
                }
                Output::Event((id, event)) => core.on_event(now, id, event),
                Output::Wait(wait) => {
                    self.logs.settled(now, &core);
                    let wakes = [wait, end, freed, core.wakes.next()];
                    break Next::Wait(wakes.into_iter().flatten().min());
                }
            }
        };
        core.accept_answered();
        if core.open < open_before {
            self.shared.ends.notify_waiters();
        }
        let over = core.phase != Phase::Open && core.open == 0;
        match next {
            Next::Wait(_) if over || (core.has_no_handles() && core.seats.is_empty()) => Next::End,
            next => next,
        }
    }

    /// Enforces the time limit of a closing endpoint or one without handles.
    fn mind_the_end(&self, core: &mut Core, now: Time) -> Option<Time> {
        if core.phase == Phase::Open && core.has_no_handles() {
            core.close(now + self.linger);
        }
        match core.phase {
            Phase::Closing { until } if until <= now => {
                core.abort_all(b"closing took too long");
                None
            }
            Phase::Closing { until } => Some(until),
            Phase::Open | Phase::Ended | Phase::Failed => None,
        }
    }

    /// Waits until a socket is ready, a handle made a call, or `deadline`.
    async fn wait(&mut self, alarm: &mut Alarm, deadline: Option<Time>) {
        self.logs.flush();
        alarm.set(deadline);
        let mut spoken = pin!(self.shared.task.notified());
        let mut error = pin!(self.sockets.error());
        poll_fn(|cx| {
            if self.sockets.poll_ready(cx).is_ready()
                || error.as_mut().poll(cx).is_ready()
                || spoken.as_mut().poll(cx).is_ready()
                || alarm.poll(cx).is_ready()
            {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Task {
    /// However the task ends (its runtime may just have ended), no caller keeps waiting, and the ports
    /// are free.
    fn drop(&mut self) {
        let why = b"the task that drives this endpoint is gone";
        if !std::thread::panicking() {
            // Sends ABORTs to the peers, best effort.
            self.shared.lock().abort_all(why);
            while let Next::Send(transmit) = self.step() {
                self.sockets.send(transmit);
            }
            self.sockets.flush();
        }
        self.sockets.close();
        self.shared.lock().end(&Reason::Aborted(Bytes::from_static(why)));
        self.shared.ends.notify_waiters();
    }
}

/// Yields to other tasks of this thread.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
