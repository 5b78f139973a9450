//! A carrier of the caller, without sockets: a function sends packets, and received packets wait here for the endpoint's task.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braidftp_base::Datagram;
use braidftp_sctp::Transmit;

/// Sends one packet. The task that drives the endpoint calls it, so it must not block; a packet that it drops counts as lost.
pub type PacketOutput = Box<dyn FnMut(Datagram) + Send + Sync>;

/// The maximum number of bytes of received packets that wait for the task; newer packets are dropped, as a router would.
const MAX_WAITING_BYTES: usize = 2 << 20;

/// Packets that the task has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    packets: VecDeque<Datagram>,
    bytes: usize,
}

/// The task's end.
pub(crate) struct InProcess {
    output: PacketOutput,
    waiting: Arc<Mutex<Waiting>>,
}

impl Waiting {
    /// Adds a packet, if there is room.
    pub(crate) fn push(&mut self, packet: Datagram) {
        if self.bytes + packet.payload.len() <= MAX_WAITING_BYTES {
            self.bytes += packet.payload.len();
            self.packets.push_back(packet);
        }
    }
}

impl InProcess {
    /// Creates the task's end, and the packets that both ends share.
    pub(crate) fn new(output: PacketOutput) -> (Self, Arc<Mutex<Waiting>>) {
        let waiting = Arc::<Mutex<Waiting>>::default();
        (Self { output, waiting: waiting.clone() }, waiting)
    }

    pub(crate) fn send(&mut self, transmit: Transmit) {
        transmit.into_datagrams().for_each(&mut self.output);
    }

    /// Takes the packets that were received.
    pub(crate) fn receive(&mut self, into: &mut Vec<Datagram>) {
        let mut waiting = lock(&self.waiting);
        waiting.bytes = 0;
        into.extend(waiting.packets.drain(..));
    }
}

pub(crate) fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcess").field(&lock(&self.waiting).bytes).finish()
    }
}
