//! read, recv, recvmsg, sctp_recvmsg, sctp_recvv: messages and notifications, with their ancillary data
//! (RFC 6458 §3.1.4, §5.3, §9.8, §9.13).

use braidftp_sctp::{Endpoint, Order};

use super::notice::Notice;
use super::reading::Reading;
use super::socket::{Socket, Style};
use super::values::{self, int, member_int, number, structure};
use super::{Ctx, Done, Kernel, Outcome, Result, done, fails};
use crate::script::Expr;

/// The length of a control message's header in bytes.
const CMSG_HEADER_LEN: i64 = 12;

/// The result of reading.
enum ReadResult {
    Data { reading: Reading, taken: i64, ends: bool, next: Option<Reading> },
    Notice { notice: Notice, taken: i64, ends: bool },
}

impl ReadResult {
    fn taken(&self) -> i64 {
        match self {
            Self::Data { taken, .. } | Self::Notice { taken, .. } => *taken,
        }
    }

    fn flags(&self) -> Expr {
        let (ends, notice) = match self {
            Self::Data { ends, .. } => (*ends, false),
            Self::Notice { ends, .. } => (*ends, true),
        };
        let flag = |set: bool, flag: i64| if set { flag } else { 0 };
        Expr::Int(flag(ends, values::MSG_EOR) | flag(notice, values::MSG_NOTIFICATION))
    }

    /// The contents in as many buffers as the caller provides.
    fn buffers(&self, count: usize) -> Expr {
        let base = |index: usize| match self {
            Self::Data { .. } => Expr::Text("user data".to_owned()),
            Self::Notice { notice, .. } if index == 0 => notice.value.clone(),
            Self::Notice { .. } => Expr::Any,
        };
        Expr::List(
            (0..count).map(|index| structure(&[("iov_base", base(index)), ("iov_len", Expr::Any)])).collect(),
        )
    }
}

impl Kernel {
    /// The next message, taken from the core.
    fn next_message(endpoint: &mut Endpoint, socket: &mut Socket) -> Option<Reading> {
        if let Some(reading) = socket.peeked.pop_front() {
            return Some(reading);
        }
        for (number, member) in &mut socket.members {
            let Some(association) = endpoint.association_mut(member.id) else { continue };
            let Some(stream) = association.readable() else { continue };
            let Some(piece) = association.recv(stream) else { continue };
            member.partial = (!piece.end).then_some((stream.0, piece.number));
            return Some(Reading {
                member: *number,
                stream: stream.0,
                ppid: piece.ppid.0,
                tsn: piece.tsn.0,
                sequence: piece.number,
                order: piece.order,
                left: piece.len() as i64,
                end: piece.end,
            });
        }
        None
    }

    pub(super) fn has_something_to_read(&self, endpoint: &Endpoint, socket: &Socket) -> bool {
        let readable = |id| {
            endpoint
                .association(id)
                .is_none_or(|association| association.readable().is_some() || association.closed().is_some())
        };
        socket.reading.is_some()
            || !socket.peeked.is_empty()
            || !socket.notices.is_empty()
            || !socket.waiting.is_empty()
            || socket.members.values().any(|member| readable(member.id))
    }

    /// Reads up to `len` bytes of one message or notification.
    fn take(
        &mut self,
        ctx: &mut Ctx<'_>,
        fd: i64,
        len: i64,
        flags: i64,
    ) -> Result<std::result::Result<ReadResult, Outcome>> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let refuse = |outcome: Result<Outcome>| outcome.map(Err);
        if socket.style == Style::OneToOne && socket.members.is_empty() {
            return refuse(fails("ENOTCONN"));
        }
        if socket.read_shut_down {
            return refuse(done(0));
        }
        let peeks = flags & values::MSG_PEEK != 0;
        // The end of an association is reported after all data has been read.
        let unread = socket.reading.is_some()
            || !socket.peeked.is_empty()
            || socket.members.values().any(|member| {
                ctx.endpoint
                    .association(member.id)
                    .is_some_and(|association| association.readable().is_some())
            });
        let begun = socket.notices.front().is_some_and(|notice| notice.taken > 0);
        let told = socket.notices.front().is_some_and(|notice| !notice.last || !unread);
        if begun || (told && socket.reading.is_none()) {
            let notice = socket.notices.front_mut().expect("there is one");
            let taken = len.min(notice.len - notice.taken);
            let ends = notice.taken + taken == notice.len;
            let got = notice.clone();
            if !peeks {
                notice.taken += taken;
                if ends {
                    socket.notices.pop_front();
                }
            }
            return Ok(Ok(ReadResult::Notice { notice: got, taken, ends }));
        }
        let reading = match socket.reading.take() {
            Some(reading) => Some(reading),
            None => Self::next_message(ctx.endpoint, socket),
        };
        let Some(reading) = reading else { return refuse(Self::nothing_to_read(ctx, socket, flags)) };
        if (socket.wants.nxtinfo || socket.wants.extended) && socket.peeked.is_empty() && reading.end {
            let next = Self::next_message(ctx.endpoint, socket);
            socket.peeked.extend(next);
        }
        let taken = len.min(reading.left);
        let left = reading.left - taken;
        let ends = left == 0 && reading.end;
        if peeks {
            socket.reading = Some(reading.clone());
        } else if left > 0 {
            socket.reading = Some(Reading { left, ..reading.clone() });
        }
        Ok(Ok(ReadResult::Data { taken, ends, next: socket.peeked.front().cloned(), reading }))
    }

    fn nothing_to_read(ctx: &mut Ctx<'_>, socket: &mut Socket, flags: i64) -> Result<Outcome> {
        if let Some(errno) = socket.error.take() {
            return fails(errno);
        }
        let finished = |id| {
            use braidftp_sctp::stats::Phase;
            ctx.endpoint.association(id).is_none_or(|association| {
                !matches!(
                    association.phase(),
                    Phase::CookieWait | Phase::CookieEchoed | Phase::Established | Phase::ShutdownPending
                )
            })
        };
        if socket.style == Style::OneToOne && socket.members.values().all(|member| finished(member.id)) {
            return done(0);
        }
        if flags & values::MSG_DONTWAIT != 0 {
            return fails("EAGAIN");
        }
        Self::blocked(socket, ctx)
    }

    pub(super) fn receive(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let (call, line) = (ctx.call, ctx.line);
        let arguments = &call.arguments;
        // The positions of the length and the flags among the arguments.
        let (len, flags) = match call.name.as_str() {
            "read" => (int(&arguments[2], line)?, 0),
            "readv" => (values::iovecs_len(&arguments[1], line)?, 0),
            "recv" | "recvfrom" => (int(&arguments[2], line)?, int(&arguments[3], line)?),
            "recvmsg" => {
                let iov = arguments[1].member("msg_iov").unwrap_or(&Expr::Any);
                (values::iovecs_len(iov, line)?, int(&arguments[2], line)?)
            }
            "sctp_recvmsg" => (int(&arguments[2], line)?, 0),
            _ => (values::iovecs_len(&arguments[1], line)?, 0),
        };
        let got = match self.take(ctx, fd, len.max(0), flags)? {
            Ok(got) => got,
            Err(outcome) => return Ok(outcome),
        };
        let socket = &self.sockets[&fd];
        let out = match call.name.as_str() {
            "recvmsg" => {
                let iov = arguments[1].member("msg_iov").unwrap_or(&Expr::Any);
                let count = values::iovecs(iov, line)?.len();
                let control = Self::control(ctx.endpoint, socket, &got);
                vec![(
                    1,
                    structure(&[
                        ("msg_iov", got.buffers(count)),
                        ("msg_control", Expr::List(control)),
                        ("msg_flags", got.flags()),
                    ]),
                )]
            }
            "sctp_recvmsg" => {
                let buffer = match &got {
                    ReadResult::Notice { notice, .. } => notice.value.clone(),
                    ReadResult::Data { .. } => Expr::Text("user data".to_owned()),
                };
                let mut out = vec![(1, buffer), (6, got.flags())];
                if let ReadResult::Data { reading, .. } = &got {
                    out.push((5, Self::sndrcvinfo(ctx.endpoint, socket, reading)));
                }
                out
            }
            "sctp_recvv" => {
                let count = values::iovecs(&arguments[1], line)?.len();
                let mut out = vec![(1, got.buffers(count)), (8, values::list(got.flags()))];
                let (kind, len, info) = Self::recvv_info(ctx.endpoint, socket, &got, &arguments[5]);
                out.push((7, values::list(Expr::Word(kind.to_owned()))));
                out.push((6, values::list(Expr::Int(len))));
                out.extend(info.map(|info| (5, info)));
                out
            }
            _ => Vec::new(),
        };
        Ok(Outcome::Done(Done { result: Ok(got.taken()), out }))
    }

    /// The ancillary data of sctp_recvv: its type, its length, and the structure (RFC 6458 §9.13).
    fn recvv_info(
        endpoint: &Endpoint,
        socket: &Socket,
        got: &ReadResult,
        into: &Expr,
    ) -> (&'static str, i64, Option<Expr>) {
        let ReadResult::Data { reading, next, .. } = got else { return ("SCTP_RECVV_NOINFO", 0, None) };
        if values::is_null(into) {
            return ("SCTP_RECVV_NOINFO", 0, None);
        }
        let rcvinfo = || Self::rcvinfo(endpoint, socket, reading);
        let next = next.as_ref().filter(|_| socket.wants.nxtinfo);
        match (socket.wants.rcvinfo, next) {
            (true, Some(next)) => {
                let both = [("recvv_rcvinfo", rcvinfo()), ("recvv_nxtinfo", Self::nxtinfo(next))];
                ("SCTP_RECVV_RN", 44, Some(structure(&both)))
            }
            (true, None) => ("SCTP_RECVV_RCVINFO", 28, Some(rcvinfo())),
            (false, Some(next)) => ("SCTP_RECVV_NXTINFO", 16, Some(Self::nxtinfo(next))),
            (false, None) => ("SCTP_RECVV_NOINFO", 0, None),
        }
    }

    /// The control messages of recvmsg (RFC 6458 §5.3).
    fn control(endpoint: &Endpoint, socket: &Socket, got: &ReadResult) -> Vec<Expr> {
        let ReadResult::Data { reading, next, .. } = got else { return Vec::new() };
        let cmsg = |kind: &str, len: i64, data: Expr| {
            structure(&[
                ("cmsg_len", Expr::Int(CMSG_HEADER_LEN + len)),
                ("cmsg_level", Expr::Word("IPPROTO_SCTP".to_owned())),
                ("cmsg_type", Expr::Text(kind.to_owned())),
                ("cmsg_data", data),
            ])
        };
        let mut control = Vec::new();
        if socket.wants.rcvinfo {
            control.push(cmsg("SCTP_RCVINFO", 28, Self::rcvinfo(endpoint, socket, reading)));
        }
        if let Some(next) = next.as_ref().filter(|_| socket.wants.nxtinfo) {
            control.push(cmsg("SCTP_NXTINFO", 16, Self::nxtinfo(next)));
        }
        if socket.wants.sndrcv {
            let kind = if socket.wants.extended { "SCTP_EXTRCV" } else { "SCTP_SNDRCV" };
            let mut info = Self::sndrcvinfo(endpoint, socket, reading);
            if socket.wants.extended {
                info = Self::extended(info, next.as_ref());
            }
            control.push(cmsg(kind, 128, info));
        }
        control
    }

    fn flags_of(reading: &Reading) -> i64 {
        if reading.order == Order::Unordered { values::SCTP_UNORDERED } else { 0 }
    }

    fn context_of(socket: &Socket, reading: &Reading) -> Expr {
        let stored = socket.members.get(&reading.member).and_then(|member| member.stored.get("SCTP_CONTEXT"));
        let context = stored.or(socket.stored.get("SCTP_CONTEXT"));
        let value = context.and_then(|value| member_int(value, "assoc_value", 0).ok().flatten());
        Expr::Int(value.unwrap_or(0))
    }

    fn cum_tsn(endpoint: &Endpoint, socket: &Socket, reading: &Reading) -> Expr {
        let member = socket.members.get(&reading.member);
        let association = member.and_then(|member| endpoint.association(member.id));
        association.and_then(|association| association.cum_tsn()).map_or(Expr::Any, |tsn| number(tsn.0))
    }

    fn sndrcvinfo(endpoint: &Endpoint, socket: &Socket, reading: &Reading) -> Expr {
        structure(&[
            ("sinfo_stream", number(reading.stream)),
            ("sinfo_ssn", number(reading.sequence as u16)),
            ("sinfo_flags", Expr::Int(Self::flags_of(reading))),
            ("sinfo_ppid", number(reading.ppid)),
            ("sinfo_context", Self::context_of(socket, reading)),
            ("sinfo_timetolive", Expr::Int(0)),
            ("sinfo_tsn", number(reading.tsn)),
            ("sinfo_cumtsn", Self::cum_tsn(endpoint, socket, reading)),
            ("sinfo_assoc_id", number(reading.member)),
        ])
    }

    fn rcvinfo(endpoint: &Endpoint, socket: &Socket, reading: &Reading) -> Expr {
        structure(&[
            ("rcv_sid", number(reading.stream)),
            ("rcv_ssn", number(reading.sequence as u16)),
            ("rcv_flags", Expr::Int(Self::flags_of(reading))),
            ("rcv_ppid", number(reading.ppid)),
            ("rcv_tsn", number(reading.tsn)),
            ("rcv_cumtsn", Self::cum_tsn(endpoint, socket, reading)),
            ("rcv_context", Self::context_of(socket, reading)),
            ("rcv_assoc_id", number(reading.member)),
        ])
    }

    fn nxtinfo(next: &Reading) -> Expr {
        let complete = if next.end { values::SCTP_COMPLETE } else { 0 };
        structure(&[
            ("nxt_sid", number(next.stream)),
            ("nxt_flags", Expr::Int(Self::flags_of(next) | complete)),
            ("nxt_ppid", number(next.ppid)),
            ("nxt_length", Expr::Int(next.left)),
            ("nxt_assoc_id", number(next.member)),
        ])
    }

    /// The older structure that announces the next message (RFC 6458 §5.3.3).
    fn extended(info: Expr, next: Option<&Reading>) -> Expr {
        let Expr::Struct(mut members) = info else { return info };
        members.retain(|member| member.key.as_deref() != Some("sinfo_timetolive"));
        let flags = next.map_or(0, |next| {
            1 | if next.end { 2 } else { 0 } | if next.order == Order::Unordered { 4 } else { 0 }
        });
        let Expr::Struct(more) = structure(&[
            ("sinfo_pr_value", Expr::Int(0)),
            ("serinfo_next_flags", Expr::Int(flags)),
            ("serinfo_next_stream", next.map_or(Expr::Int(0), |next| number(next.stream))),
            ("serinfo_next_aid", next.map_or(Expr::Int(0), |next| number(next.member))),
            ("serinfo_next_length", next.map_or(Expr::Int(0), |next| Expr::Int(next.left))),
            ("serinfo_next_ppid", next.map_or(Expr::Int(0), |next| number(next.ppid))),
        ]) else {
            unreachable!("the caller passes a structure")
        };
        members.extend(more);
        Expr::Struct(members)
    }
}
