//! Notifications (RFC 6458 §6): their kinds, members and lengths.
//!
//! Lengths are those of FreeBSD's structures with padding, which the public suites check.

use braidftp_sctp::AuthEvent;

use super::values::structure;
use crate::script::Expr;

/// Kinds of notifications that a user can subscribe to (RFC 6458 §6.2.2), numbered like the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    AssocChange = 1,
    PeerAddrChange = 2,
    RemoteError = 3,
    SendFailed = 4,
    Shutdown = 5,
    Adaptation = 6,
    PartialDelivery = 7,
    Authentication = 8,
    StreamReset = 9,
    SenderDry = 10,
    Stopped = 11,
    AssocReset = 12,
    StreamChange = 13,
    SendFailedEvent = 14,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::AssocChange,
        Self::PeerAddrChange,
        Self::RemoteError,
        Self::SendFailed,
        Self::Shutdown,
        Self::Adaptation,
        Self::PartialDelivery,
        Self::Authentication,
        Self::StreamReset,
        Self::SenderDry,
        Self::Stopped,
        Self::AssocReset,
        Self::StreamChange,
        Self::SendFailedEvent,
    ];

    /// The kind with this number.
    pub(super) fn of(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i64 == number)
    }

    /// The members of the older structure of SCTP_EVENTS (RFC 6458 §6.2.1), each with its kind. The one
    /// without a kind subscribes to the information on each message.
    pub(super) const SUBSCRIPTIONS: &'static [(&'static str, Option<Self>)] = &[
        ("sctp_data_io_event", None),
        ("sctp_association_event", Some(Self::AssocChange)),
        ("sctp_address_event", Some(Self::PeerAddrChange)),
        ("sctp_send_failure_event", Some(Self::SendFailed)),
        ("sctp_peer_error_event", Some(Self::RemoteError)),
        ("sctp_shutdown_event", Some(Self::Shutdown)),
        ("sctp_partial_delivery_event", Some(Self::PartialDelivery)),
        ("sctp_adaptation_layer_event", Some(Self::Adaptation)),
        ("sctp_authentication_event", Some(Self::Authentication)),
        ("sctp_sender_dry_event", Some(Self::SenderDry)),
        ("sctp_stream_reset_event", Some(Self::StreamReset)),
    ];
}

/// A notification to be read.
#[derive(Debug, Clone)]
pub(super) struct Notice {
    pub(super) kind: Kind,
    /// The id of its association.
    pub(super) number: i64,
    pub(super) len: i64,
    pub(super) value: Expr,
    /// The number of bytes read so far.
    pub(super) taken: i64,
    /// Whether it follows all messages.
    pub(super) last: bool,
}

impl Notice {
    pub(super) fn new(kind: Kind, member: i64, len: i64, prefix: &str, fields: &[(&str, Expr)]) -> Self {
        let key = |name: &str| format!("{prefix}_{name}");
        let (kind_key, flags_key, length_key, id_key) =
            (key("type"), key("flags"), key("length"), key("assoc_id"));
        let mut members = vec![
            (kind_key.as_str(), Expr::Int(kind as i64)),
            (flags_key.as_str(), Expr::Int(0)),
            (length_key.as_str(), Expr::Int(len)),
            (id_key.as_str(), Expr::Int(member)),
        ];
        members.retain(|(name, _)| !fields.iter().any(|(other, _)| other == name));
        members.extend(fields.iter().cloned());
        Self { kind, number: member, len, value: structure(&members), taken: 0, last: false }
    }

    pub(super) fn at_last(self) -> Self {
        Self { last: true, ..self }
    }

    /// The notification that an association began or ended.
    pub(super) fn change(member: i64, state: &str, error: u16, streams: (u16, u16), info: Vec<Expr>) -> Self {
        Self::new(
            Kind::AssocChange,
            member,
            20 + info.len() as i64,
            "sac",
            &[
                ("sac_state", Expr::Word(state.to_owned())),
                ("sac_error", Expr::Int(error.into())),
                ("sac_outbound_streams", Expr::Int(streams.0.into())),
                ("sac_inbound_streams", Expr::Int(streams.1.into())),
                ("sac_info", Expr::List(info)),
            ],
        )
    }

    pub(super) fn authentication(member: i64, event: AuthEvent) -> Self {
        let (key, indication) = match event {
            AuthEvent::NewKey(key) => (key, "SCTP_AUTH_NEW_KEY"),
            AuthEvent::FreeKey(key) => (key, "SCTP_AUTH_FREE_KEY"),
            AuthEvent::NoAuth => (0, "SCTP_AUTH_NO_AUTH"),
        };
        Self::new(
            Kind::Authentication,
            member,
            20,
            "auth",
            &[
                ("auth_keynumber", Expr::Int(key.into())),
                ("auth_indication", Expr::Word(indication.to_owned())),
            ],
        )
    }

    /// The notification about an address of the peer (RFC 6458 §6.1.2).
    pub(super) fn address(member: i64, address: Expr, state: &str) -> Self {
        let state = Expr::Word(state.to_owned());
        let fields = [("spc_aaddr", address), ("spc_state", state), ("spc_error", Expr::Int(0))];
        Self::new(Kind::PeerAddrChange, member, 152, "spc", &fields)
    }

    pub(super) fn dry(member: i64) -> Self {
        Self::new(Kind::SenderDry, member, 12, "sender_dry", &[])
    }
}
