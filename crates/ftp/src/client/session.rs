//! The machine.

use braidftp_base::{Output, Time};
use bytes::Bytes;

use super::{Config, Event, Input, Tag, Transfer};
use crate::command::{Command, Secret};

/// One FTP session, client side.
#[derive(Debug)]
pub struct Session {
    config: Config,
}

impl Session {
    /// A session on a control connection that was just opened (or, in braid, is being opened: the first commands may ride
    /// with COOKIE ECHO, so poll at once).
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// USER and PASS. One tag for both: [`Event::Reply`] with the reply that decides (230, or a refusal).
    pub fn login(&mut self, user: &[u8], password: Secret) -> Tag {
        let _ = (user, password);
        Tag(0)
    }

    /// Any command that is no transfer and opens no data connection. Its final reply comes as [`Event::Reply`].
    pub fn command(&mut self, command: Command) -> Tag {
        let _ = command;
        Tag(0)
    }

    /// A transfer. It ends with [`Event::Finished`].
    pub fn transfer(&mut self, transfer: Transfer) -> Tag {
        let _ = transfer;
        Tag(0)
    }

    /// Gives a transfer up: not sent yet, it vanishes; under way, ABOR. It ends with [`Event::Finished`] all the same. In ms
    /// and ms-cp this ends the session.
    pub fn cancel(&mut self, tag: Tag) {
        let _ = tag;
    }

    /// Tells it something. Drain with [`Self::poll`] afterwards.
    pub fn handle(&mut self, input: Input) {
        let _ = input;
    }

    /// What comes next: bytes for the control connection (whole lines; over SCTP one message of stream 0), or an event.
    pub fn poll(&mut self, now: Time) -> Output<Bytes, Event> {
        let _ = (now, &self.config);
        Output::Wait(None)
    }

    /// Commands and transfers that wait to be sent or for their end. A caller with a million files keeps this near its window.
    pub fn outstanding(&self) -> usize {
        0
    }
}
