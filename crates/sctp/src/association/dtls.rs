//! Protected packets of an association (draft-ietf-tsvwg-sctp-dtls-chunk): what was negotiated, the keys
//! that the user sets, and the discard of unprotected packets. `crate::dtls` implements records;
//! `PacketBuilder` seals packets, and the endpoint opens them.

use std::fmt;

use bytes::{Bytes, BytesMut};
use rand_core::Rng;

use crate::association::state::State;
use crate::association::{Association, Event, Message, Piece, Reason};
use crate::dtls::{
    Agreement, Disagreement, DtlsConfig, FIRST_EPOCH, KEY_MANAGEMENT_PPID, Keys, KeysId, Mode, OpenError,
    PACKET_OVERHEAD, Purpose, ReceiveContext, SendContext, Sending, UNPADDED_LEN, agree, key_management,
    offer,
};
use crate::ids::{PathId, Ppid, StreamId};
use crate::packet_builder::PacketBuilder;
use crate::wire::{Cause, Chunk, Init, KeyManagement, Kinds, Packet, Parameter, Record};

/// The stream of key management messages (draft-porfiri-tsvwg-sctp-dtls-handshake §4).
const KEY_MANAGEMENT_STREAM: StreamId = StreamId(0);
/// The maximum number of primary epochs: records carry the two low bits of the epoch.
const EPOCHS_MAX: usize = 4;
/// The maximum number of restart epochs: the newest one, and the previous one until the newest is
/// stored.
const RESTART_EPOCHS_MAX: usize = 2;

/// Events of the keys that protect packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DtlsEvent {
    /// Both sides can protect packets and agreed on a key management method
    /// ([`Association::dtls_agreement`]). Messages sent in response are bundled with COOKIE ECHO or
    /// COOKIE ACK.
    Agreed,
    /// A key management message arrived and can be read with [`Association::recv_key_management`].
    Message,
    /// The keys of this epoch are nearly used up and must be replaced. If they are used up, the
    /// association ends.
    KeysWanted {
        /// The epoch of the keys that are nearly used up.
        epoch: u64,
    },
    /// The peer sends with these keys: the first record protected with them was opened.
    PeerUses(KeysId),
}

/// Why keys were not set or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DtlsError {
    /// Protection, or protection of restarts, was not negotiated.
    NotAgreed,
    /// The association is not established, or has ended.
    NotUp,
    /// Wrong epoch: the first primary keys have epoch 3, and each later epoch is one higher.
    Epoch {
        /// The required epoch.
        expected: u64,
    },
    /// Restart keys may only be set after the first primary keys.
    PrimaryFirst,
    /// Records with other stored keys would be indistinguishable from records with these: delete the
    /// others first.
    Ambiguous,
    /// The keys do not exist.
    NoSuchKeys,
    /// The keys are the only ones for sending.
    InUse,
}

impl fmt::Display for DtlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAgreed => "the peer has not agreed to this; set Config.security.dtls on both sides",
            Self::NotUp => "the association is not up; set primary keys once it is",
            Self::Epoch { expected } => return write!(f, "these keys must be of epoch {expected}"),
            Self::PrimaryFirst => "set primary keys before restart keys",
            Self::Ambiguous => "there are keys of an epoch with the same two lowest bits; delete them first",
            Self::NoSuchKeys => "there are no such keys",
            Self::InUse => "these keys are the only ones to send with",
        })
    }
}

impl std::error::Error for DtlsError {}

/// Counters of packet protection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DtlsStats {
    /// Packets discarded because they, or their DTLS chunk's content, were not protected as required.
    pub dropped_unprotected: u64,
    /// Records opened.
    pub opened: u64,
    /// Records whose authentication failed.
    pub forged: u64,
    /// Records that were replayed, or too old for the replay window.
    pub replayed: u64,
    /// Malformed records, or records without keys.
    pub unreadable: u64,
    /// Records sealed.
    pub sealed: u64,
}

/// Counters of one set of keys (draft-ietf-tsvwg-sctp-dtls-chunk §7.10 to §7.12).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeysStats {
    /// Records sealed with the sending keys.
    pub sealed: u64,
    /// Records opened with the receiving keys.
    pub opened: u64,
    /// Records whose authentication with the receiving keys failed.
    pub forged: u64,
}

/// The protection state of an association.
#[derive(Debug)]
pub(super) struct Dtls {
    mode: Mode,
    window: usize,
    /// See [`DtlsConfig::unpadded_with`].
    unpadded_with: Option<u8>,
    /// See [`DtlsConfig::unchecked_with`].
    unchecked_with: Option<u8>,
    /// The key management parameter of this side's INIT.
    offer: KeyManagement,
    agreement: Option<Agreement>,
    /// The receiving keys; the sending keys are in the packet builder.
    receive: Vec<ReceiveContext>,
    /// The epochs of the newest primary keys for sending and receiving.
    last_epochs: [Option<u64>; 2],
    /// The keys that opened the last record.
    opened_with: Option<KeysId>,
    /// Whether unprotected packets are discarded.
    is_required: bool,
    /// The epoch for which the user was last asked to rekey.
    asked_for: Option<u64>,
    stats: DtlsStats,
}

/// Indexes into `last_epochs`.
const SENT: usize = 0;
const RECEIVED: usize = 1;

impl Dtls {
    /// Creates the state before negotiation.
    pub(super) fn new(config: &DtlsConfig) -> Self {
        Self {
            mode: config.mode,
            window: config.replay_window,
            unpadded_with: config.unpadded_with,
            unchecked_with: config.unchecked_with,
            offer: offer(config, 0),
            agreement: None,
            receive: Vec::new(),
            last_epochs: [None; 2],
            opened_with: None,
            is_required: false,
            asked_for: None,
            stats: DtlsStats::default(),
        }
    }

    /// Checks the epoch of new primary keys for one direction.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.1
    //# The first DTLS key context established for any SCTP association MUST
    //# use epoch 3.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
    //# After restart, the next primary DTLS key context MUST use epoch 3,
    //# i.e. the epoch value is reset.
    fn check_epoch(&self, direction: usize, epoch: u64) -> Result<(), DtlsError> {
        let expected = self.last_epochs[direction].map_or(FIRST_EPOCH, |last| last + 1);
        if epoch == expected { Ok(()) } else { Err(DtlsError::Epoch { expected }) }
    }
}

impl Association {
    /// Returns the negotiated key management, if both sides support protection
    /// (draft-ietf-tsvwg-sctp-dtls-chunk §7.2).
    pub fn dtls_agreement(&self) -> Option<&Agreement> {
        self.dtls.as_ref()?.agreement.as_ref()
    }

    /// Protects sent packets with these keys from now on; restart keys are used after the peer
    /// restarted. To restart an association with a peer that has them, set restart keys right after
    /// [`Endpoint::connect`](crate::Endpoint::connect).
    pub fn set_send_keys(&mut self, id: KeysId, keys: Keys) -> Result<(), DtlsError> {
        let is_restarting = self.may_set(id)?;
        let has_primary = self.builder.sending().is_some_and(|sending| sending.primary().is_some());
        let dtls = self.dtls.as_mut().ok_or(DtlsError::NotAgreed)?;
        match id.purpose {
            Purpose::Primary => {
                dtls.check_epoch(SENT, id.epoch)?;
                dtls.last_epochs[SENT] = Some(id.epoch);
            }
            Purpose::Restart if !has_primary && !is_restarting => return Err(DtlsError::PrimaryFirst),
            Purpose::Restart => {}
        }
        let unpadded = self.paths[0].unpadded;
        let sending = self.builder.sending_mut().get_or_insert_default();
        sending.unpadded = unpadded;
        sending.set(id, keys);
        self.has_input = true;
        if !has_primary {
            self.probe_unconfirmed_again();
        }
        Ok(())
    }

    /// Accepts packets that the peer protects with these keys.
    pub fn add_receive_keys(&mut self, id: KeysId, keys: Keys) -> Result<(), DtlsError> {
        let is_restarting = self.may_set(id)?;
        let dtls = self.dtls.as_mut().ok_or(DtlsError::NotAgreed)?;
        if id.purpose == Purpose::Primary {
            dtls.check_epoch(RECEIVED, id.epoch)?;
        }
        let alike = |context: &&ReceiveContext| context.id.purpose == id.purpose;
        let most = if id.purpose == Purpose::Primary { EPOCHS_MAX } else { RESTART_EPOCHS_MAX };
        let clashes =
            dtls.receive.iter().filter(alike).any(|context| context.has_bits(id.epoch as u8 & 0b11));
        if clashes || dtls.receive.iter().filter(alike).count() >= most {
            return Err(DtlsError::Ambiguous);
        }
        if id.purpose == Purpose::Primary {
            dtls.last_epochs[RECEIVED] = Some(id.epoch);
        }
        // A side that restarts with keys never communicates unprotected.
        dtls.is_required |= is_restarting;
        dtls.receive.push(ReceiveContext::new(id, keys, dtls.window));
        Ok(())
    }

    /// Deletes receiving keys: packets that the peer still protects with them are discarded. The newest
    /// primary keys may be replaced by keys of the same epoch if no record was opened with them.
    pub fn delete_receive_keys(&mut self, id: KeysId) -> Result<(), DtlsError> {
        let dtls = self.dtls.as_mut().ok_or(DtlsError::NotAgreed)?;
        let index = dtls.receive.iter().position(|context| context.id == id).ok_or(DtlsError::NoSuchKeys)?;
        let gone = dtls.receive.remove(index);
        // Unused keys may be replaced: those of a failed key exchange.
        if id.purpose == Purpose::Primary
            && dtls.last_epochs[RECEIVED] == Some(id.epoch)
            && gone.opened() == 0
        {
            dtls.last_epochs[RECEIVED] = id.epoch.checked_sub(1).filter(|last| *last >= FIRST_EPOCH);
        }
        Ok(())
    }

    /// Deletes restart keys for sending. Primary keys are replaced, never deleted.
    pub fn delete_restart_send_keys(&mut self, epoch: u64) -> Result<(), DtlsError> {
        let id = KeysId { purpose: Purpose::Restart, epoch };
        let sending = self.builder.sending_mut().as_mut().ok_or(DtlsError::NoSuchKeys)?;
        if sending.in_use().is_some_and(|context| context.id == id) {
            return Err(DtlsError::InUse);
        }
        if sending.delete_restart(epoch) { Ok(()) } else { Err(DtlsError::NoSuchKeys) }
    }

    /// Discards unprotected packets from now on, except for those that begin a restart. The first opened
    /// record has the same effect, since its sender has keys and sends nothing unprotected any more.
    pub fn require_protection(&mut self) -> Result<(), DtlsError> {
        let is_up = self.is_up();
        let dtls = self.dtls.as_mut().filter(|dtls| dtls.agreement.is_some()).ok_or(DtlsError::NotAgreed)?;
        if !is_up {
            return Err(DtlsError::NotUp);
        }
        dtls.is_required = true;
        Ok(())
    }

    /// Whether unprotected packets are discarded.
    pub fn requires_protection(&self) -> bool {
        self.dtls.as_ref().is_some_and(|dtls| dtls.is_required)
    }

    /// Returns the counters of packet protection.
    pub fn dtls_stats(&self) -> DtlsStats {
        let sealed = self.builder.sending().map_or(0, Sending::sealed);
        self.dtls.as_ref().map_or_else(DtlsStats::default, |dtls| DtlsStats { sealed, ..dtls.stats })
    }

    /// Returns the counters of these keys while they exist.
    pub fn keys_stats(&self, id: KeysId) -> KeysStats {
        let sealed = self.builder.sending().and_then(|sending| sending.get(id)).map_or(0, SendContext::used);
        let receive = self.dtls.iter().flat_map(|dtls| &dtls.receive).find(|context| context.id == id);
        let (opened, forged) = receive.map_or((0, 0), |context| (context.opened(), context.forged()));
        KeysStats { sealed, opened, forged }
    }

    /// Whether these keys may be set now; if so, whether they are keys for a restart by this side.
    fn may_set(&self, id: KeysId) -> Result<bool, DtlsError> {
        let dtls = self.dtls.as_ref().ok_or(DtlsError::NotAgreed)?;
        match (&self.state, id.purpose) {
            (State::CookieWait { .. }, Purpose::Restart) if self.config_restarts() => Ok(true),
            (State::Up(_), Purpose::Primary) if dtls.agreement.is_some() => Ok(false),
            (State::Up(_), Purpose::Restart) if dtls.agreement.as_ref().is_some_and(|it| it.restart) => {
                Ok(false)
            }
            (State::Up(_), _) | (State::CookieWait { .. }, Purpose::Restart) => Err(DtlsError::NotAgreed),
            _ => Err(DtlsError::NotUp),
        }
    }

    fn config_restarts(&self) -> bool {
        self.config.security.dtls.as_ref().is_some_and(|dtls| dtls.restart)
    }

    /// Draws the tie breaker of the INIT.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
    //# The
    //# endpoints MUST include the DTLS Key Management Parameter in the INIT
    //# and INIT ACK, using the same method list, but with a new random Tie Breaker.
    pub(super) fn offer_keys(&mut self) {
        if let Some(dtls) = &mut self.dtls {
            dtls.offer.tie_breaker = self.rng.next_u32();
        }
    }

    /// Returns the key management parameter of this side's INIT.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
    //# To initiate an SCTP association, an SCTP endpoint wanting to use the DTLS chunk
    //# MUST send an SCTP packet with an INIT chunk containing the DTLS Key Management
    //# Parameter (see {{protectedassoc-parameter}}).
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
    //# The DTLS Key Management Parameter MAY be included in the INIT and INIT ACK chunk
    //# and MUST NOT be included in any other chunk.
    pub(super) fn key_management(&self) -> Option<Parameter> {
        self.dtls.as_ref().map(|dtls| Parameter::KeyManagement(dtls.offer.clone()))
    }

    /// Returns the key management parameter for an INIT ACK to a peer that sent an INIT at the same
    /// time.
    pub(crate) fn keys_offered(&self) -> Option<(Mode, KeyManagement)> {
        self.dtls.as_ref().map(|dtls| (dtls.mode, dtls.offer.clone()))
    }

    /// Returns the agreement between this side's INIT and the INIT ACK.
    pub(super) fn agree_with(&self, init_ack: &Init) -> Result<Option<Agreement>, Disagreement> {
        match &self.dtls {
            Some(dtls) => agree(dtls.mode, &dtls.offer, key_management(init_ack)),
            None => Ok(None),
        }
    }

    /// Returns the agreement between both sides' parameters in a cookie.
    pub(super) fn agree_on_keys(&mut self, parameters: Option<&[Bytes; 2]>) {
        let mode = self.dtls.as_ref().map_or(Mode::Strict, |dtls| dtls.mode);
        let agreement = parameters.and_then(|[local, peer]| {
            let (local, peer) = (KeyManagement::of_raw(local)?, KeyManagement::of_raw(peer)?);
            agree(mode, &local, Some(&peer)).ok().flatten()
        });
        self.begin_protection(agreement);
    }

    /// Applies the result of the negotiation. From now on packets leave room for protection.
    pub(super) fn begin_protection(&mut self, agreement: Option<Agreement>) {
        let Some(dtls) = &mut self.dtls else { return };
        if let Some(agreement) = &agreement {
            let is_unpadded = dtls.unpadded_with == Some(agreement.method);
            for path in &mut self.paths {
                path.auth_len = PACKET_OVERHEAD;
                path.unpadded = if is_unpadded { UNPADDED_LEN } else { 0 };
            }
            self.events.push_back(Event::Dtls(DtlsEvent::Agreed));
        }
        dtls.agreement = agreement;
    }

    /// Returns the protection state of the association after a restart; with restart keys if the peer
    /// restarted with them.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
    //# A restarted SCTP association MUST continue to use the restart DTLS key context
    //# and MUST remove all primary DTLS key contexts.
    pub(super) fn restart_protection(&mut self) -> (Option<Box<Dtls>>, Option<Box<Sending>>) {
        let Some(mut dtls) = self.dtls.take_if(|dtls| dtls.is_required) else { return (None, None) };
        dtls.receive.retain(|context| context.id.purpose == Purpose::Restart);
        dtls.last_epochs = [None; 2];
        dtls.asked_for = None;
        let mut sending = self.builder.sending_mut().take();
        if let (Some(sending), Some(id)) = (&mut sending, dtls.opened_with) {
            sending.restart_with(id.epoch);
        }
        (Some(dtls), sending)
    }

    /// Whether a COOKIE ECHO may be processed: if protection is required it must be protected, with
    /// restart keys unless the cookie belongs to this association.
    pub(crate) fn admits_cookie_echo(&self, packet: &Packet, is_same: bool) -> bool {
        let Some(dtls) = self.dtls.as_ref().filter(|dtls| dtls.is_required) else { return true };
        let by_restart_keys = dtls.opened_with.is_some_and(|id| id.purpose == Purpose::Restart);
        packet.is_protected() && (is_same || by_restart_keys)
    }

    /// Whether DTLS chunks are processed.
    pub(crate) fn opens_records(&self) -> bool {
        self.dtls.as_ref().is_some_and(|dtls| dtls.agreement.is_some() || !dtls.receive.is_empty())
    }

    /// Whether both sides accept records in packets without a checksum.
    fn records_are_unchecked(&self) -> bool {
        let Some(dtls) = &self.dtls else { return false };
        dtls.unchecked_with.is_some() && dtls.unchecked_with == dtls.agreement.as_ref().map(|it| it.method)
    }

    /// Whether the open packet needs no checksum on this path, because it is a record. Restart keys are for peers that may not
    /// have the association.
    pub(super) fn omits_checksum(&self, path: PathId) -> bool {
        let is_encapsulated = self.paths[usize::from(path.0)].peer.port() != 0;
        let is_primary = self.builder.sending().is_some_and(|sending| sending.primary().is_some());
        is_encapsulated && is_primary && self.builder.is_protected() && self.records_are_unchecked()
    }

    /// Whether a packet with these chunks is accepted without a checksum: every one, as announced in this side's INIT or INIT
    /// ACK, or a record.
    pub(crate) fn takes_zero_checksum(&self, kinds: Kinds) -> bool {
        self.config.security.zero_checksum.is_some() || kinds.is_dtls_alone() && self.records_are_unchecked()
    }

    /// Appends the chunks inside a DTLS chunk to `out`.
    pub(crate) fn unprotect(&mut self, record: Record<'_>, out: &mut BytesMut) -> Result<(), OpenError> {
        let Some(dtls) = &mut self.dtls else { return Err(OpenError::NoKeys) };
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
        //# If the Chunk Protection Operator experiences a non-critical error,
        //# it MUST NOT abort the association.
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.2
        //# Upon receiving such a record, implementations SHOULD discard it silently, without
        //# sending an alert, updating handshake state, ACK state, retransmission state, or
        //# replay windows.
        //= specs/draft-ietf-tls-rfc9147bis.md#section-11
        //# Unlike TLS implementations, DTLS implementations SHOULD NOT respond to invalid
        //# records by terminating the connection.
        let opened = open(&mut dtls.receive, record, out);
        self.has_input |= opened.is_err();
        match opened {
            Ok(id) => {
                dtls.stats.opened += 1;
                dtls.is_required = true;
                let is_first = dtls.receive.iter().any(|context| context.id == id && context.opened() == 1);
                dtls.opened_with = Some(id);
                if is_first {
                    self.events.push_back(Event::Dtls(DtlsEvent::PeerUses(id)));
                }
            }
            Err(OpenError::Forged) => dtls.stats.forged += 1,
            Err(OpenError::Replayed) => dtls.stats.replayed += 1,
            Err(OpenError::NotARecord | OpenError::NoKeys | OpenError::NoContent) => {
                dtls.stats.unreadable += 1;
            }
        }
        opened.map(|_| ())
    }

    /// Whether a packet is discarded because it is not protected.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
    //# After the application or key managment method has restricted the SCTP packet handling to protected
    //# SCTP packets only, an SCTP packet not containing a DTLS chunk MUST be
    //# silently discarded unless they contain an INIT or INIT-ACK chunk.
    pub(super) fn refuses(&mut self, packet: &Packet) -> bool {
        let Some(dtls) = &mut self.dtls else { return false };
        // An INIT is processed by the endpoint.
        let refuses = dtls.is_required && !packet.is_protected() && !packet.kinds().is_only(Init::ACK_KIND);
        dtls.stats.dropped_unprotected += u64::from(refuses);
        refuses
    }

    /// Whether a chunk of an unprotected packet is skipped before protection is required: every chunk
    /// that does not serve key management. Otherwise forged chunks would affect the later protected
    /// association.
    pub(super) fn refuses_in_clear(&mut self, chunk: &Chunk) -> bool {
        let Some(dtls) = self.dtls.as_mut().filter(|dtls| dtls.agreement.is_some()) else { return false };
        let refuses = match chunk {
            Chunk::Data(data) => !is_key_management(data.stream, data.begin.then_some(data.ppid.0)),
            Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_) | Chunk::Reconfig(_) => true,
            _ => false,
        };
        dtls.stats.dropped_unprotected += u64::from(refuses);
        refuses
    }

    /// Whether a message belongs to key management.
    pub(super) fn is_of_key_management(&self, stream: StreamId, message: &Message) -> bool {
        self.dtls_agreement().is_some() && is_key_management(stream, Some(message.ppid.0))
    }

    /// Returns the next key management message or piece of one: those on stream 0 with
    /// [`KEY_MANAGEMENT_PPID`]. If protection was negotiated, [`Association::recv`] does not return such
    /// messages.
    pub fn recv_key_management(&mut self) -> Option<Piece> {
        self.take(|inbound| inbound.recv_aside())
    }

    /// Separates key management messages from other messages from now on.
    pub(super) fn keep_key_management_aside(&mut self) {
        if self.dtls_agreement().is_some() {
            self.inbound.keep_aside(KEY_MANAGEMENT_STREAM, Ppid(KEY_MANAGEMENT_PPID));
        }
    }

    /// Whether a message may be sent before packets are protected.
    pub(super) fn may_send_in_clear(&self, stream: StreamId, message: &Message) -> bool {
        let Some(dtls) = &self.dtls else { return true };
        let is_protected = self.builder.sending().is_some_and(|sending| sending.in_use().is_some());
        let is_agreed_on_none = self.is_up() && dtls.agreement.is_none();
        is_protected || is_agreed_on_none || is_key_management(stream, Some(message.ppid.0))
    }

    /// Whether both directions are protected and unprotected packets are discarded.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-1.1
    //# Specifically, the lookup address feature of {{RFC5061}} MUST NOT be used,
    //# and the dynamic address reconfiguration extension MUST NOT be used unless
    //# DTLS chunk handling is enabled in both directions.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
    //# The dynamic address reconfiguration extension MUST NOT be used unless
    //# DTLS chunk handling is enabled in both directions.
    pub(super) fn is_protected_both_ways(&self) -> bool {
        self.requires_protection() && self.builder.sending().is_some_and(|sending| sending.in_use().is_some())
    }

    /// Asks the user to rekey when keys are nearly used up, and ends the association when they are used
    /// up.
    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
    //# Implementations SHOULD initiate a key update before reaching this limit.
    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.2.1
    //# Implementations MUST either abandon an association or rekey prior to
    //# allowing the sequence number to wrap.
    pub(super) fn check_key_limits(&mut self) {
        let Some(dtls) = &mut self.dtls else { return };
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        let sending = self.builder.sending().and_then(Sending::in_use);
        let sent = sending.map(|it| (it.id.epoch, it.used(), it.limit()));
        let newest =
            dtls.receive.iter().filter(|it| it.id.purpose == Purpose::Primary).map(|it| it.id.epoch).max();
        let forged = |it: &ReceiveContext| (it.id.epoch, it.forged(), it.forged_limit());
        let of_newest =
            |it: &&ReceiveContext| Some(it.id.epoch) == newest && it.id.purpose == Purpose::Primary;
        let tried = dtls.receive.iter().find(of_newest).map(forged);
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
        //# Implementations SHOULD initiate a key update with update_requested before reaching
        //# this limit.
        for (epoch, done, limit) in sent.into_iter().chain(tried) {
            if done >= limit / 4 * 3 && dtls.asked_for.is_none_or(|asked| asked < epoch) {
                dtls.asked_for = Some(epoch);
                self.events.push_back(Event::Dtls(DtlsEvent::KeysWanted { epoch }));
            }
        }
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
        //# If the number of packets that fail
        //# authentication exceeds a limit that is specific to the AEAD in use, an implementation SHOULD
        //# immediately close the connection.
        let forged_out = tried.is_some_and(|(_, done, limit)| done > limit);
        // Old keys with too many forged records are deleted: few records still in flight need them.
        dtls.receive.retain(|it| it.forged() <= it.forged_limit() || Some(it.id.epoch) == newest);
        // Up to a batch is built between two checks, and the ABORT needs a record too.
        let margin = 2 * PacketBuilder::MAX_PACKETS as u64;
        if forged_out || sent.is_some_and(|(_, done, limit)| done + margin >= limit) {
            let words = Bytes::from_static(b"the keys are used up");
            self.abort_with(Cause::UserInitiatedAbort(words.clone()), Reason::Aborted(words));
        }
    }

    /// Whether the association ended after protection was negotiated, so that its last packet must be
    /// protected.
    pub(crate) fn has_shut_down_protected(&self) -> bool {
        let is_over = matches!(self.state, State::Closed(Reason::Shutdown));
        is_over && self.builder.sending().is_some_and(|sending| sending.in_use().is_some())
    }

    /// Sets the number of records that the primary sending keys have sealed.
    #[cfg(test)]
    pub(super) fn set_sealed_records(&mut self, records: u64) {
        let sending = self.builder.sending_mut().as_mut().expect("there are keys");
        sending.set_used_records(records);
    }

    /// Sets the numbers of records that receiving keys have opened and rejected.
    #[cfg(test)]
    pub(super) fn set_opened_records(&mut self, id: KeysId, records: u64, forged: u64) {
        let dtls = self.dtls.as_mut().expect("packets are protected");
        let context = dtls.receive.iter_mut().find(|context| context.id == id);
        context.expect("there are such keys").set_used_records(records, forged);
    }

    /// The memory of keys and their state in bytes.
    pub(super) fn keys_bytes(&self) -> usize {
        self.dtls.as_ref().map_or(0, |dtls| {
            size_of::<Dtls>() + dtls.receive.iter().map(ReceiveContext::memory_bytes).sum::<usize>()
        })
    }
}

/// Whether a message (or fragment, if there is no `ppid`) can belong to key management.
fn is_key_management(stream: StreamId, ppid: Option<u32>) -> bool {
    stream == KEY_MANAGEMENT_STREAM && ppid.is_none_or(|ppid| ppid == KEY_MANAGEMENT_PPID)
}

/// Appends the chunks of a DTLS chunk to `out`; returns the keys that opened it.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4.2.2
//# After the
//# handshake is complete, if the epoch bits do not match those from the
//# current epoch, implementations SHOULD use the most recent past epoch
//# which has matching bits, and then reconstruct the sequence number for
//# that epoch as described above.
fn open(receive: &mut [ReceiveContext], record: Record<'_>, out: &mut BytesMut) -> Result<KeysId, OpenError> {
    let purpose = if record.is_restart { Purpose::Restart } else { Purpose::Primary };
    let sealed = crate::dtls::Sealed::parse(record.bytes)?;
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
    //# An SCTP endpoint supporting only legacy SCTP restart and involved in
    //# an SCTP association using DTLS chunks, when receiving what is expected
    //# to be an COOKIE ECHO chunk protected by DTLS chunk as described above,
    //# in other words if it receives a SCTP packet with a DTLS chunk having
    //# the R bit (Restart Indicator) set in the DTLS chunk (see
    //# {{sctp-DTLS-chunk-newchunk-crypt-struct}}), MUST silently discard it.
    //= specs/draft-ietf-tls-rfc9147bis.md#section-6.1
    //# Implementations that receive a record with an epoch value for which no corresponding
    //# cipher state can be determined SHOULD handle it as a record which fails deprotection.
    // No two contexts have the same epoch bits.
    let context = receive
        .iter_mut()
        .find(|context| context.id.purpose == purpose && context.has_bits(sealed.epoch_bits))
        .ok_or(OpenError::NoKeys)?;
    context.open(&sealed, out).map(|()| context.id)
}
