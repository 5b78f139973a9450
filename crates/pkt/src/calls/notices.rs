//! The association events that produce notifications (RFC 6458 §6).

use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::packet_builder::PacketBuilder;
use braidftp_sctp::wire::{Cause, Chunk, Header};
use braidftp_sctp::{
    Abandoned, AddressChange, AssociationId, AuthEvent, Direction, Endpoint, Event, Extensions, Outcome,
    PathState, Reason, Streams, VerificationTag,
};

use super::notice::{Kind, Notice};
use super::socket::{Member, Socket, Style};
use super::values::{self};
use super::{Kernel, errno_of};
use crate::script::Expr;

/// The features of an association, as SCTP_COMM_UP lists them.
fn features(extensions: Option<Extensions>) -> Vec<Expr> {
    let mut features = Vec::new();
    if let Some(extensions) = extensions {
        features.extend(super::features_of(extensions));
    }
    // Several messages at once are accepted, whatever the peer supports.
    let multibuf = Expr::Word("SCTP_ASSOC_SUPPORTS_MULTIBUF".to_owned());
    let reconfig = features.iter().position(|feature| values::flag(feature, "SCTP_ASSOC_SUPPORTS_RE_CONFIG"));
    features.insert(reconfig.unwrap_or(features.len()), multibuf);
    features
}

/// A chunk as bytes, without padding.
fn bytes_of(chunk: &Chunk) -> Vec<Expr> {
    let mut builder = PacketBuilder::new();
    builder.begin(Header { source_port: 0, destination_port: 0, tag: VerificationTag(0) }, 65_535);
    builder.push(chunk);
    builder.seal();
    let payload = builder.finish().map(|batch| batch.payload).unwrap_or_default();
    let chunk_len = chunk.encoded_len();
    payload.iter().skip(12).take(chunk_len).map(|byte| Expr::Int((*byte).into())).collect()
}

impl Kernel {
    /// The socket of an association, and the association's id there.
    fn holder(&mut self, id: AssociationId) -> Option<(&mut Socket, i64)> {
        let number_in = |socket: &Socket| {
            socket.members.iter().find(|(_, member)| member.id == id).map(|(number, _)| *number)
        };
        for socket in self.sockets.values_mut() {
            if let Some(number) = number_in(socket) {
                return Some((socket, number));
            }
            if let Some(index) = socket.waiting.iter().position(|waiting| number_in(waiting).is_some()) {
                let waiting = &mut socket.waiting[index];
                let number = number_in(waiting)?;
                return Some((waiting, number));
            }
        }
        None
    }

    /// A peer opened an association.
    fn accepted(&mut self, endpoint: &Endpoint, now: Time, id: AssociationId) {
        let port = endpoint.association(id).map(|association| association.ports().0);
        let listens = |socket: &&mut Socket| socket.listening && socket.port == port;
        let Some(socket) = self.sockets.values_mut().find(listens) else {
            self.orphans.push(id);
            return;
        };
        let member = Member::new(id, now);
        match socket.style {
            Style::OneToMany => {
                socket.add_member(member);
            }
            Style::OneToOne => {
                let mut child = socket.child();
                child.add_member(member);
                socket.waiting.push_back(child);
            }
        }
    }

    /// Turns an event of an association into notifications.
    pub(crate) fn on_event(&mut self, endpoint: &Endpoint, now: Time, id: AssociationId, event: Event) {
        if event == Event::Accepted {
            return self.accepted(endpoint, now, id);
        }
        let association = endpoint.association(id);
        let extensions = association.and_then(braidftp_sctp::Association::extensions);
        // The core reports this itself if it was configured to authenticate and the peer was not.
        let authenticates =
            association.is_some_and(|association| association.config().security.auth.is_some());
        let ports = association.map_or((0, 0), braidftp_sctp::Association::ports);
        let peers: Vec<_> = association.map(|association| association.paths().collect()).unwrap_or_default();
        let Some((socket, number)) = self.holder(id) else { return };
        let member = socket.members.get_mut(&number).expect("just looked up");
        let streams = member.streams.unwrap_or_default();
        match event {
            Event::Up { outbound_streams, inbound_streams, adaptation } => {
                let streams = (outbound_streams, inbound_streams);
                member.streams = Some(streams);
                member.active_at = now;
                socket.notify(Notice::change(number, "SCTP_COMM_UP", 0, streams, features(extensions)));
                if !authenticates {
                    socket.notify(Notice::authentication(number, AuthEvent::NoAuth));
                }
                if let Some(code) = adaptation {
                    let code = ("sai_adaptation_ind", Expr::Int(code.into()));
                    socket.notify(Notice::new(Kind::Adaptation, number, 16, "sai", &[code]));
                }
            }
            Event::Authentication(event) => socket.notify(Notice::authentication(number, event)),
            Event::Restarted => {
                socket.notify(Notice::change(number, "SCTP_RESTART", 0, streams, features(extensions)));
            }
            Event::Readable(_) => member.active_at = now,
            Event::Path(path, state) => {
                let was_unreachable = member.unreachable.contains(&path.0);
                let state = match state {
                    PathState::Active if was_unreachable => "SCTP_ADDR_AVAILABLE",
                    PathState::Active => "SCTP_ADDR_CONFIRMED",
                    PathState::Inactive => "SCTP_ADDR_UNREACHABLE",
                    // `Event::PeerAddress` reports the state of an address.
                    PathState::PotentiallyFailed
                    | PathState::Unconfirmed
                    | PathState::SetAside
                    | PathState::Removed => return,
                };
                if state == "SCTP_ADDR_UNREACHABLE" {
                    member.unreachable.insert(path.0);
                } else {
                    member.unreachable.remove(&path.0);
                }
                let address = peers.iter().find(|view| view.id == path);
                let address = address.map_or(Expr::Any, |view| values::sockaddr(view.peer.ip(), ports.1));
                socket.notify(Notice::address(number, address, state));
            }
            Event::PeerAddress(peer, change) => {
                let state = match change {
                    AddressChange::Added => "SCTP_ADDR_ADDED",
                    AddressChange::Removed => "SCTP_ADDR_REMOVED",
                    AddressChange::MadePrimary => "SCTP_ADDR_MADE_PRIM",
                    AddressChange::Refused(_) => return,
                };
                let address = values::sockaddr(peer.ip(), ports.1);
                socket.notify(Notice::address(number, address, state));
            }
            Event::PeerError(causes) => {
                let code = causes.first().map_or(0, Cause::code);
                let data = bytes_of(&Chunk::Error(causes));
                socket.notify(Notice::new(
                    Kind::RemoteError,
                    number,
                    20 + data.len() as i64,
                    "sre",
                    &[("sre_error", Expr::Int(code.into())), ("sre_data", Expr::List(data))],
                ));
            }
            Event::PeerShutdown => {
                socket.notify(Notice::new(Kind::Shutdown, number, 12, "sse", &[]).at_last());
            }
            Event::Closed(reason) => Self::closed(socket, number, &reason),
            _ => Self::on_extension_event(socket, number, event),
        }
    }

    /// An association has ended.
    fn closed(socket: &mut Socket, number: i64, reason: &Reason) {
        let member = socket.members.get_mut(&number).expect("just looked up");
        member.ended = true;
        let partial = member.partial.take();
        let was_up = member.streams.is_some();
        let streams = member.streams.unwrap_or_default();
        if let Some((stream, sequence)) = partial {
            socket.notify(Notice::new(
                Kind::PartialDelivery,
                number,
                24,
                "pdapi",
                &[
                    ("pdapi_indication", Expr::Word("SCTP_PARTIAL_DELIVERY_ABORTED".to_owned())),
                    ("pdapi_stream", Expr::Int(stream.into())),
                    ("pdapi_seq", Expr::Int(sequence.into())),
                ],
            ));
        }
        let (state, error, info) = match reason {
            Reason::Shutdown => ("SCTP_SHUTDOWN_COMP", 0, Vec::new()),
            Reason::PeerAborted(causes) => {
                let chunk = Chunk::Abort { reflected: false, causes: causes.clone() };
                let state = if was_up { "SCTP_COMM_LOST" } else { "SCTP_CANT_STR_ASSOC" };
                (state, causes.first().map_or(0, Cause::code), bytes_of(&chunk))
            }
            _ if was_up => ("SCTP_COMM_LOST", 0, Vec::new()),
            _ => ("SCTP_CANT_STR_ASSOC", 0, Vec::new()),
        };
        socket.notify(Notice::change(number, state, error, streams, info).at_last());
        if socket.style == Style::OneToOne {
            socket.error = errno_of(reason, was_up);
        }
    }

    /// Reacts to the current state of associations: notifies users when all data is sent, and ends idle
    /// associations. Returns whether one was ended.
    pub(crate) fn act_on_state(&mut self, endpoint: &mut Endpoint, now: Time) -> bool {
        let mut closed = false;
        for socket in self.sockets.values_mut() {
            let autoclose = socket.autoclose;
            let mut dry = Vec::new();
            for (number, member) in &mut socket.members {
                let Some(association) = endpoint.association_mut(member.id) else { continue };
                if member.ended || !association.is_up() {
                    continue;
                }
                let stats = association.stats();
                if stats.queued_bytes + stats.outstanding_bytes > 0 {
                    (member.dry, member.active_at) = (false, now);
                } else if !std::mem::replace(&mut member.dry, true) {
                    dry.push(*number);
                }
                let idles = autoclose.is_some_and(|patience| now.since(member.active_at) >= patience);
                if idles && !std::mem::replace(&mut member.closing, true) {
                    association.shutdown();
                    closed = true;
                }
            }
            for number in dry {
                socket.notify(Notice::dry(number));
            }
        }
        closed
    }

    /// The time of the next action without input.
    pub(crate) fn wake(&self) -> Option<Time> {
        let ends = |socket: &Socket| {
            let patience: Option<Duration> = socket.autoclose;
            let existing = |member: &&Member| !member.ended && !member.closing && member.streams.is_some();
            let active = socket.members.values().filter(existing);
            let active = active.map(|member| member.active_at).min();
            Some(active? + patience?)
        };
        self.sockets.values().filter_map(ends).min()
    }

    /// The notification for a message that will not be delivered (RFC 6458 §6.1.4, §6.1.11).
    fn failed(socket: &mut Socket, member: i64, abandoned: Abandoned) {
        let sent_messages = socket.members.get(&member).map(|it| &it.sent_messages);
        let Some(info) =
            sent_messages.and_then(|sent_messages| sent_messages.get(abandoned.context as usize))
        else {
            return;
        };
        let (info, len, sent) = (info.clone(), info.len, abandoned.was_sent);
        let flags = Expr::Word(if sent { "SCTP_DATA_SENT" } else { "SCTP_DATA_UNSENT" }.to_owned());
        socket.notify(Notice::new(
            Kind::SendFailedEvent,
            member,
            32 + len,
            "ssfe",
            &[
                ("ssfe_flags", flags.clone()),
                ("ssfe_error", Expr::Int(0)),
                ("ssfe_info", info.sndinfo(member)),
                ("ssfe_data", Expr::Any),
            ],
        ));
        socket.notify(Notice::new(
            Kind::SendFailed,
            member,
            144 + len,
            "ssf",
            &[
                ("ssf_flags", flags),
                ("ssf_error", Expr::Int(0)),
                ("ssf_info", info.sndrcvinfo(member)),
                ("ssf_data", Expr::Any),
            ],
        ));
    }

    /// Turns events of extensions into notifications.
    fn on_extension_event(socket: &mut Socket, number: i64, event: Event) {
        let flags = |of: i64, outcome: Outcome| {
            of | match outcome {
                Outcome::Done => 0,
                Outcome::Denied => 4,
                Outcome::Failed => 8,
            }
        };
        match event {
            Event::Abandoned(abandoned) => Self::failed(socket, number, abandoned),
            Event::StreamReset { direction, streams, outcome } => {
                let of = if direction == Direction::Incoming { 1 } else { 2 };
                let list = match streams {
                    Streams::All => Vec::new(),
                    Streams::These(list) => list.iter().map(|id| Expr::Int(id.0.into())).collect(),
                };
                let fields = [
                    ("strreset_flags", Expr::Int(flags(of, outcome))),
                    ("strreset_stream_list", Expr::List(list)),
                ];
                let len = 12 + if let Expr::List(list) = &fields[1].1 { 2 * list.len() as i64 } else { 0 };
                socket.notify(Notice::new(Kind::StreamReset, number, len, "strreset", &fields));
            }
            Event::AssociationReset { outcome, local_tsn, peer_tsn } => {
                let fields = [
                    ("assocreset_flags", Expr::Int(flags(0, outcome))),
                    ("assocreset_local_tsn", Expr::Int(local_tsn.0.into())),
                    ("assocreset_remote_tsn", Expr::Int(peer_tsn.0.into())),
                ];
                socket.notify(Notice::new(Kind::AssocReset, number, 20, "assocreset", &fields));
            }
            Event::StreamChange { outbound_streams, inbound_streams, outcome } => {
                let fields = [
                    ("strchange_flags", Expr::Int(flags(0, outcome))),
                    ("strchange_instrms", Expr::Int(inbound_streams.into())),
                    ("strchange_outstrms", Expr::Int(outbound_streams.into())),
                ];
                socket.notify(Notice::new(Kind::StreamChange, number, 16, "strchange", &fields));
            }
            _ => {}
        }
    }
}
