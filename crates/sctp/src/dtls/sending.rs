//! Selection of the keys for sending (draft-ietf-tsvwg-sctp-dtls-chunk §5.2, §5.4).

use bytes::BytesMut;

use super::context::{Keys, KeysId, Purpose, SendContext};

/// The maximum number of restart keys: the newest, and the previous ones until the peer is known to have
/// stored the newest.
const RESTART_MAX: usize = 2;

/// The keys for sending.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    primary: Option<SendContext>,
    /// The newest is last.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
    //# This key context MUST be maintained in a well-defined
    //# state such that both endpoints have a consistent view of the DTLS sequence
    //# numbers and replay window (i.e., initialized but never used).
    restart: Vec<SendContext>,
    /// The epoch of the restart keys in use, if the association was restarted with them.
    restarted_with: Option<u64>,
    /// The number of records sealed with deleted keys.
    before: u64,
    /// Bytes of the trailer that the last chunk can have: [`UNPADDED_LEN`](super::UNPADDED_LEN) if the peer
    /// accepts it without its padding, otherwise 0.
    pub(crate) unpadded: usize,
}

impl Sending {
    /// Returns the keys for the next packet.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
    //# The cipher suite from the Primary DTLS Key Context is used, if configured.
    //# Otherwise, the cipher suite from the Restart DTLS Key Context is used.
    pub(crate) fn in_use(&self) -> Option<&SendContext> {
        self.primary.as_ref().or_else(|| self.restart.get(self.restart_index()?))
    }

    fn restart_index(&self) -> Option<usize> {
        let by_epoch = |epoch| self.restart.iter().position(|context| context.id.epoch == epoch);
        self.restarted_with.and_then(by_epoch).or(self.restart.len().checked_sub(1))
    }

    /// Seals the packet at the end of `buffer`.
    pub(crate) fn seal(&mut self, buffer: &mut BytesMut, at: usize) {
        let restart = self.restart_index();
        let context = match (&mut self.primary, restart) {
            (Some(primary), _) => primary,
            (None, Some(index)) => &mut self.restart[index],
            (None, None) => unreachable!("a record is begun with keys alone"),
        };
        context.seal(buffer, at);
    }

    /// Returns these keys, if they exist.
    pub(crate) fn get(&self, id: KeysId) -> Option<&SendContext> {
        self.primary.iter().chain(&self.restart).find(|context| context.id == id)
    }

    /// Returns the primary keys, if they exist.
    pub(crate) fn primary(&self) -> Option<&SendContext> {
        self.primary.as_ref()
    }

    /// Sets the number of records sealed with the primary keys.
    #[cfg(test)]
    pub(crate) fn set_used_records(&mut self, records: u64) {
        self.primary.as_mut().expect("there are primary keys").set_used_records(records);
    }

    /// Adds keys, for use from now on or after a restart.
    pub(crate) fn set(&mut self, id: KeysId, keys: Keys) {
        let context = SendContext::new(id, keys);
        match id.purpose {
            Purpose::Primary => {
                if let Some(old) = self.primary.replace(context) {
                    self.before += old.used();
                }
            }
            Purpose::Restart => {
                while self.restart.len() >= RESTART_MAX {
                    self.before += self.restart.remove(0).used();
                }
                self.restart.push(context);
            }
        }
    }

    /// Deletes restart keys. Primary keys are replaced, never deleted, so that nothing is sent
    /// unprotected.
    pub(crate) fn delete_restart(&mut self, epoch: u64) -> bool {
        let gone = self.restart.iter().position(|context| context.id.epoch == epoch);
        gone.map(|index| self.before += self.restart.remove(index).used()).is_some()
    }

    /// The peer restarted with the restart keys of this epoch: uses them until there are primary keys.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
    //# A restarted SCTP association MUST continue to use the restart DTLS key context
    //# and MUST remove all primary DTLS key contexts.
    pub(crate) fn restart_with(&mut self, epoch: u64) {
        self.before += self.primary.take().map_or(0, |old| old.used());
        self.restarted_with = Some(epoch);
    }

    /// The total number of records sealed.
    pub(crate) fn sealed(&self) -> u64 {
        let now: u64 = self.primary.iter().chain(&self.restart).map(SendContext::used).sum();
        self.before + now
    }
}
