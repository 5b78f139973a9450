//! A host of a [`World`](crate::World): an SCTP and a TCP endpoint and the application that uses them,
//! through the same API as the driver for real sockets.
//!
//! A datagram to port 0 is SCTP over IP (protocol 132), one to the host's UDP encapsulation port is SCTP over
//! UDP; any other port belongs to TCP, and the payload is a TCP segment.

use std::collections::VecDeque;
use std::convert::Infallible;

use braidftp_base::{Datagram, Output, Time};
use braidftp_keys::{KeyManager, Settings};
use braidftp_sctp::{AssociationId, Endpoint, Event, Split};
use braidftp_tcp as tcp;

use crate::protection::Protection;
use crate::world::Actor;

/// The default UDP port of SCTP (RFC 6951 §6).
pub const UDP_ENCAPSULATION_PORT: u16 = 9_899;

/// The endpoints of a host.
#[derive(Debug)]
pub struct Endpoints {
    /// All its associations.
    pub sctp: Endpoint,
    /// All its TCP connections.
    pub tcp: tcp::Endpoint,
}

/// A host that speaks SCTP; its TCP has seed 0.
impl From<Endpoint> for Endpoints {
    fn from(sctp: Endpoint) -> Self {
        Self { sctp, tcp: tcp::Endpoint::new(0) }
    }
}

/// A host that speaks TCP; its SCTP has a seed of zeros.
impl From<tcp::Endpoint> for Endpoints {
    fn from(tcp: tcp::Endpoint) -> Self {
        Self { sctp: Endpoint::new([0; 32]), tcp }
    }
}

/// An application on a host.
pub trait App {
    /// Handles an event of an association.
    fn on_event(&mut self, _now: Time, _endpoints: &mut Endpoints, _id: AssociationId, _event: Event) {}

    /// Handles an event of a TCP connection.
    fn on_tcp_event(
        &mut self,
        _now: Time,
        _endpoints: &mut Endpoints,
        _id: tcp::ConnectionId,
        _event: tcp::Event,
    ) {
    }

    /// Called when the endpoints have no more output for now: does what is due. Returns when to call again; a
    /// second call at the same time must find nothing to do.
    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time>;
}

/// Endpoints and their user.
#[derive(Debug)]
pub struct Host<A> {
    endpoints: Endpoints,
    app: A,
    udp_encapsulation: Option<u16>,
    /// Packets of a batch that were not returned yet.
    outgoing: VecDeque<Datagram>,
    /// Whether IP may fragment the packets of the last batch.
    may_be_fragmented: bool,
    /// The keys of its associations, if they are protected.
    protection: Option<Protection>,
    /// Events that the application may see now.
    events: VecDeque<(AssociationId, Event)>,
}

impl<A: App> Host<A> {
    /// A host with this application. Its SCTP over UDP uses [`UDP_ENCAPSULATION_PORT`].
    pub fn new(endpoints: impl Into<Endpoints>, app: A) -> Self {
        Self {
            endpoints: endpoints.into(),
            app,
            udp_encapsulation: Some(UDP_ENCAPSULATION_PORT),
            outgoing: VecDeque::new(),
            may_be_fragmented: false,
            protection: None,
            events: VecDeque::new(),
        }
    }

    /// The same host, with protected associations where their [`security.dtls`](braidftp_sctp::Config::security) says so. The
    /// application sees no event of such an association before it is protected.
    #[must_use]
    pub fn protected(self, settings: Settings) -> Self {
        Self { protection: Some(Protection::new(settings)), ..self }
    }

    /// The key management of an association; none if it is not protected.
    pub fn keys(&self, id: AssociationId) -> Option<&KeyManager> {
        self.protection.as_ref()?.manager(id)
    }

    /// The same host, with SCTP over UDP on another port or on none.
    #[must_use]
    pub fn with_udp_encapsulation(self, port: Option<u16>) -> Self {
        Self { udp_encapsulation: port, ..self }
    }

    /// The application.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// Its SCTP endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoints.sctp
    }

    /// Its TCP endpoint.
    pub fn tcp(&self) -> &tcp::Endpoint {
        &self.endpoints.tcp
    }

    /// Both endpoints.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Endpoints and application, for actions outside of events.
    pub fn parts_mut(&mut self) -> (&mut Endpoints, &mut A) {
        (&mut self.endpoints, &mut self.app)
    }
}

impl<A: App> Actor for Host<A> {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        let port = datagram.to.port();
        match port == 0 || self.udp_encapsulation == Some(port) {
            true => self.endpoints.sctp.handle(now, datagram),
            false => self.endpoints.tcp.handle(now, datagram),
        }
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        // When the application, which found the endpoints waiting, wants to be called.
        let mut woken = None;
        loop {
            if let Some(datagram) = self.outgoing.pop_front() {
                return Output::Send(datagram);
            }
            if let Some((id, event)) = self.events.pop_front() {
                self.app.on_event(now, &mut self.endpoints, id, event);
                continue;
            }
            let sctp_waits = match self.endpoints.sctp.poll(now) {
                Output::Send(transmit) => {
                    woken = None;
                    self.may_be_fragmented = transmit.split == Split::Allowed;
                    self.outgoing.extend(transmit.into_datagrams());
                    continue;
                }
                Output::Event((id, event)) => {
                    woken = None;
                    match &mut self.protection {
                        None => self.app.on_event(now, &mut self.endpoints, id, event),
                        Some(protection) => {
                            let events = protection.handle(now, &mut self.endpoints.sctp, id, event);
                            self.events.extend(events.into_iter().map(|event| (id, event)));
                        }
                    }
                    continue;
                }
                Output::Wait(at) => at,
            };
            let keys_wait = match &mut self.protection {
                None => None,
                Some(protection) => match protection.wake(now, &mut self.endpoints.sctp) {
                    true => {
                        woken = None;
                        continue;
                    }
                    false => protection.next_wake(),
                },
            };
            let tcp_waits = match self.endpoints.tcp.poll(now) {
                Output::Send(datagram) => {
                    self.may_be_fragmented = false;
                    return Output::Send(datagram);
                }
                Output::Event((id, event)) => {
                    woken = None;
                    self.app.on_tcp_event(now, &mut self.endpoints, id, event);
                    continue;
                }
                Output::Wait(at) => at,
            };
            match woken {
                Some(next) => {
                    return Output::Wait(
                        sctp_waits.into_iter().chain(tcp_waits).chain(keys_wait).chain(next).min(),
                    );
                }
                // The application may give an endpoint new output.
                None => woken = Some(self.app.wake(now, &mut self.endpoints)),
            }
        }
    }

    fn may_be_fragmented(&self) -> bool {
        self.may_be_fragmented
    }
}
