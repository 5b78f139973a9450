//! A host of a [`World`](crate::World): an SCTP endpoint and what uses it, through the very API that the driver for
//! real sockets uses.

use std::collections::VecDeque;
use std::convert::Infallible;

use braidftp_base::{Datagram, Output, Time};
use braidftp_sctp::{AssociationId, Endpoint, Event, Transmit};

use crate::world::Actor;

/// What uses a host's endpoint.
pub trait App {
    /// Something happened in an association.
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event);

    /// The endpoint has nothing more to say for now: a time to do what is due. Gives when the next thing will be; asked
    /// again at the same time, it finds nothing left to do.
    fn wake(&mut self, now: Time, endpoint: &mut Endpoint) -> Option<Time>;
}

/// An endpoint and its user.
#[derive(Debug)]
pub struct Host<A> {
    endpoint: Endpoint,
    app: A,
    /// Packets of a batch that were not handed out yet.
    outgoing: VecDeque<Datagram>,
}

impl<A: App> Host<A> {
    /// A host with this user.
    pub fn new(endpoint: Endpoint, app: A) -> Self {
        Self { endpoint, app, outgoing: VecDeque::new() }
    }

    /// Its user.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// Its endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Both, to do something outside of the events.
    pub fn parts_mut(&mut self) -> (&mut Endpoint, &mut A) {
        (&mut self.endpoint, &mut self.app)
    }
}

impl<A: App> Actor for Host<A> {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        self.endpoint.handle(now, datagram);
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        // When the user, who found the endpoint waiting, wants to be woken.
        let mut woken = None;
        loop {
            if let Some(datagram) = self.outgoing.pop_front() {
                return Output::Send(datagram);
            }
            match self.endpoint.poll(now) {
                Output::Send(transmit) => {
                    woken = None;
                    self.outgoing.extend(packets(transmit));
                }
                Output::Event((id, event)) => {
                    woken = None;
                    self.app.on_event(now, &mut self.endpoint, id, event);
                }
                Output::Wait(at) => match woken {
                    Some(next) => return Output::Wait(at.into_iter().chain(next).min()),
                    // What the user does now may give the endpoint something to say.
                    None => woken = Some(self.app.wake(now, &mut self.endpoint)),
                },
            }
        }
    }
}

/// What goes out for a batch: one datagram a packet.
fn packets(transmit: Transmit) -> impl Iterator<Item = Datagram> {
    let Transmit { from, to, ecn, mut payload, segment_size, .. } = transmit;
    let size = segment_size.unwrap_or(payload.len()).max(1);
    std::iter::from_fn(move || {
        let length = payload.len().min(size);
        (length > 0).then(|| Datagram { from, to, ecn, payload: payload.split_to(length) })
    })
}

#[cfg(test)]
mod tests {
    use braidftp_base::Ecn;
    use braidftp_sctp::Split;
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_batch_goes_out_packet_by_packet() {
        let transmit = |payload: &'static [u8], segment_size| Transmit {
            from: "10.0.0.1:1".parse().unwrap(),
            to: "10.0.0.2:2".parse().unwrap(),
            ecn: Ecn::Ect0,
            payload: Bytes::from_static(payload),
            segment_size,
            split: Split::Unspecified,
        };
        let payloads =
            |transmit| packets(transmit).map(|datagram| datagram.payload.to_vec()).collect::<Vec<_>>();
        assert_eq!(payloads(transmit(b"abcdefgh", Some(3))), [&b"abc"[..], b"def", b"gh"]);
        assert_eq!(payloads(transmit(b"abc", None)), [b"abc"]);
    }
}
