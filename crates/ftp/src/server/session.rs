//! The machine.
use std::sync::Arc;

use braidftp_base::{Output, Time};
use bytes::Bytes;

use super::{Carrier, Config, Do, Input, Upload};
use crate::mapping::TransferNumber;

/// One FTP session, server side.
#[derive(Debug)]
pub struct Session {
    config: Arc<Config>,
    carrier: Carrier,
}

impl Session {
    /// A session on a control connection that was just accepted; the greeting is the first thing polled.
    pub fn new(config: Arc<Config>, carrier: Carrier, now: Time) -> Self {
        let _ = now;
        Self { config, carrier }
    }

    /// Tells it something. Drain with [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        let _ = (now, input, &self.config, self.carrier);
    }

    /// What comes next: bytes for the control connection (whole reply lines; over SCTP one message of stream 0), or a [`Do`].
    pub fn poll(&mut self, now: Time) -> Output<Bytes, Do> {
        let _ = now;
        Output::Wait(None)
    }

    /// Whether more of the control connection may be read now. While not, leave it in the transport.
    pub fn wants_input(&self) -> bool {
        true
    }

    /// Where the upload of that number stands. May change after each `handle` and `poll`.
    pub fn upload(&self, transfer: TransferNumber) -> Upload {
        let _ = transfer;
        Upload::Undecided
    }
}
