//! write, send, sendmsg, sctp_sendmsg, sctp_send, sctp_sendx, sctp_sendv: messages, their ancillary data
//! and their destinations (RFC 6458 §3.1.4, §5.3, §9.7, §9.9 to §9.12).

use braidftp_sctp::{Message, Order, Ppid, SendError, StreamId};
use bytes::Bytes;

use super::outgoing::{Outgoing, Policy};
use super::socket::{Socket, Style};
use super::values::{self, int};
use super::{Ctx, Kernel, MESSAGE_BYTES_MAX, Outcome, Result, done, fails};
use crate::script::{Expr, ScriptError};

impl Outgoing {
    /// The message that a sending call describes.
    fn of(socket: &Socket, ctx: &Ctx<'_>) -> Result<Self> {
        let (arguments, line) = (&ctx.call.arguments, ctx.line);
        let mut outgoing = Self { len: 0, to: Vec::new(), ..socket.defaults.clone() };
        match ctx.call.name.as_str() {
            "write" | "send" => outgoing.len = int(&arguments[2], line)?,
            "writev" => outgoing.len = values::iovecs_len(&arguments[1], line)?,
            "sendto" => {
                outgoing.len = int(&arguments[2], line)?;
                outgoing.to = Kernel::destination(&arguments[4], line)?;
            }
            "sctp_send" => {
                outgoing.len = int(&arguments[2], line)?;
                outgoing.info(&arguments[3], "sinfo_stream", "sinfo", line)?;
            }
            "sctp_sendx" => {
                outgoing.len = int(&arguments[2], line)?;
                outgoing.to = Kernel::destination(&arguments[3], line)?;
                outgoing.info(&arguments[5], "sinfo_stream", "sinfo", line)?;
            }
            "sctp_sendmsg" => {
                outgoing.len = int(&arguments[2], line)?;
                outgoing.to = Kernel::destination(&arguments[3], line)?;
                outgoing.ppid = int(&arguments[5], line)? as u32;
                outgoing.flags = int(&arguments[6], line)?;
                outgoing.sid = int(&arguments[7], line)? as u16;
                outgoing.policy = match int(&arguments[8], line)? {
                    0 => Policy::Reliable,
                    millis => Policy::Ttl(millis as u32),
                };
                outgoing.context = int(&arguments[9], line)? as u32;
            }
            "sctp_sendv" => {
                outgoing.len = values::iovecs_len(&arguments[1], line)?;
                outgoing.to = Kernel::destination(&arguments[3], line)?;
                let info = &arguments[5];
                match int(&arguments[7], line)? {
                    0 => {}
                    1 => outgoing.info(info, "snd_sid", "snd", line)?,
                    2 => outgoing.reliability(info, line)?,
                    3 => outgoing.keyed(info, line)?,
                    _ => {
                        let flags = info.member("sendv_flags").unwrap_or(&Expr::Any);
                        let flags = if matches!(flags, Expr::Any) { 0 } else { int(flags, line)? };
                        let part = |name: &str| info.member(name).unwrap_or(&Expr::Any);
                        if flags & 1 != 0 {
                            outgoing.info(part("sendv_sndinfo"), "snd_sid", "snd", line)?;
                        }
                        if flags & 2 != 0 {
                            outgoing.reliability(part("sendv_prinfo"), line)?;
                        }
                        if flags & 4 != 0 {
                            outgoing.keyed(part("sendv_authinfo"), line)?;
                        }
                    }
                }
            }
            _ => outgoing.sendmsg(&arguments[1], line)?,
        }
        if !(0..=MESSAGE_BYTES_MAX).contains(&outgoing.len) {
            return Err(ScriptError::new(line, format!("a message of {} bytes", outgoing.len)));
        }
        Ok(outgoing)
    }

    /// Takes a message and its control messages (RFC 6458 §5.3).
    fn sendmsg(&mut self, message: &Expr, line: usize) -> Result<()> {
        self.len = values::iovecs_len(message.member("msg_iov").unwrap_or(&Expr::Any), line)?;
        let Some(Expr::List(cmsgs)) = message.member("msg_control") else { return Ok(()) };
        for cmsg in cmsgs {
            let data = cmsg.member("cmsg_data").unwrap_or(&Expr::Any);
            let kind = cmsg.member("cmsg_type").map(values::text).unwrap_or_default();
            match kind.as_str() {
                "SCTP_INIT" => self.init = Some(data.clone()),
                "SCTP_SNDINFO" => self.info(data, "snd_sid", "snd", line)?,
                "SCTP_SNDRCV" => self.info(data, "sinfo_stream", "sinfo", line)?,
                "SCTP_PRINFO" => self.reliability(data, line)?,
                "SCTP_AUTHINFO" => self.keyed(data, line)?,
                "SCTP_DSTADDRV4" | "SCTP_DSTADDRV6" => self.to.extend(values::address(data, line)?),
                other => return Err(ScriptError::unsupported(line, format!("sendmsg with {other}"))),
            }
        }
        Ok(())
    }
}

impl Kernel {
    pub(super) fn send(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let mut outgoing = Outgoing::of(socket, ctx)?;
        if let Some(errno) = socket.error.take() {
            return fails(errno);
        }
        if outgoing.flags & values::SCTP_SENDALL != 0 {
            return self.send_to_all(ctx, fd, &outgoing);
        }
        let to = outgoing.to.first().copied();
        let by_address = |socket: &Socket, ctx: &Ctx<'_>| {
            let (ip, port) = to?;
            let is_peer = |member: &&super::socket::Member| {
                ctx.endpoint.association(member.id).is_some_and(|association| {
                    association.ports().1 == port && association.paths().any(|path| path.peer.ip() == ip)
                })
            };
            socket
                .members
                .iter()
                .find(|(_, member)| !member.ended && is_peer(member))
                .map(|(number, _)| *number)
        };
        let named = outgoing.member.filter(|number| *number > 0 && socket.style == Style::OneToMany);
        let number = match (socket.style, named, to) {
            (_, Some(number), _) => match socket.members.get(&number) {
                Some(member) if !member.ended => Some(number),
                _ => return fails("ENOENT"),
            },
            (Style::OneToMany, None, Some(_)) => by_address(socket, ctx),
            _ => socket
                .only()
                .filter(|(_, member)| !member.ended || socket.style == Style::OneToOne)
                .map(|(number, _)| number),
        };
        let number = match number {
            Some(number) => number,
            None => {
                // A message to a new peer opens an association (RFC 6458 §3.1.6). A call without an address
                // does not (§4.1.8).
                let says_no_address =
                    matches!(ctx.call.name.as_str(), "write" | "writev" | "send" | "sctp_send");
                if socket.listening && socket.style == Style::OneToOne {
                    return fails("ENOTCONN");
                }
                if says_no_address && to.is_none() {
                    return fails("ENOTCONN");
                }
                if let Some(init) = outgoing.init.take() {
                    self.set_init(fd, &init, ctx.line)?;
                }
                match self.begin(ctx, fd, &outgoing.to)? {
                    Ok(number) => number,
                    Err(errno) => return fails(errno),
                }
            }
        };
        let outcome = self.send_on(ctx, fd, number, &outgoing)?;
        Ok(outcome)
    }

    /// SCTP_SENDALL: sends to every association of a one-to-many socket.
    fn send_to_all(&mut self, ctx: &mut Ctx<'_>, fd: i64, outgoing: &Outgoing) -> Result<Outcome> {
        let socket = &self.sockets[&fd];
        if socket.style == Style::OneToOne {
            return fails("EINVAL");
        }
        let existing = socket.members.iter().filter(|(_, member)| !member.ended);
        let numbers: Vec<_> = existing.map(|(number, _)| *number).collect();
        for number in numbers {
            self.send_on(ctx, fd, number, outgoing)?;
        }
        done(outgoing.len)
    }

    fn send_on(&mut self, ctx: &mut Ctx<'_>, fd: i64, number: i64, outgoing: &Outgoing) -> Result<Outcome> {
        let line = ctx.line;
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let known = values::SCTP_UNORDERED
            | values::SCTP_ABORT
            | values::SCTP_EOF
            | values::SCTP_EOR
            | values::SCTP_ADDR_OVER
            | values::SCTP_SENDALL
            | values::SCTP_SACK_IMMEDIATELY;
        if outgoing.flags & !known != 0 {
            return fails("EINVAL");
        }
        let id = socket.members[&number].id;
        let explicit =
            socket.stored.get("SCTP_EXPLICIT_EOR").is_some_and(|on| int(on, line).is_ok_and(|on| on != 0));
        let fragments = !socket
            .stored
            .get("SCTP_DISABLE_FRAGMENTS")
            .is_some_and(|on| int(on, line).is_ok_and(|on| on != 0));
        let Some(association) = ctx.endpoint.association_mut(id) else { return fails("ENOTCONN") };
        if outgoing.flags & values::SCTP_ABORT != 0 {
            association.abort(Bytes::from(vec![0; outgoing.len as usize]));
            return done(outgoing.len);
        }
        // Without authentication the key has no effect.
        if outgoing.key.is_some() && association.extensions().is_some_and(|agreed| agreed.auth) {
            return Err(ScriptError::unsupported(line, "a key for a message (RFC 4895)"));
        }
        if outgoing.flags & values::SCTP_ADDR_OVER != 0 && association.paths().count() > 1 {
            return Err(ScriptError::unsupported(
                line,
                "a message on a path other than the primary (SCTP_ADDR_OVER)",
            ));
        }
        if !fragments {
            let room = association.stats().paths.iter().map(|path| path.mtu).min().unwrap_or(usize::MAX);
            if outgoing.len > room.saturating_sub(28) as i64 {
                return fails("EMSGSIZE");
            }
        }
        if explicit && outgoing.flags & values::SCTP_EOR == 0 && outgoing.len > 0 {
            socket.unfinished += outgoing.len;
            return done(outgoing.len);
        }
        let len = outgoing.len + if explicit { socket.unfinished } else { 0 };
        if len == 0 && outgoing.flags & values::SCTP_EOF == 0 {
            return fails("EINVAL");
        }
        if len > 0 {
            let payload = Bytes::from(vec![0; len as usize]);
            let member = socket.members.get_mut(&number).expect("it exists");
            // The number under which the core reports the message; the script's own need not be unique.
            let context = member.sent_messages.len() as u32;
            let message = Message { context, ..Self::message(line, outgoing, payload)? };
            match association.send(StreamId(outgoing.sid), message) {
                Ok(()) => {
                    member.sent_messages.push(Outgoing { len, ..outgoing.clone() });
                    socket.unfinished = 0;
                }
                Err(SendError::Full) => return Self::blocked(socket, ctx),
                Err(SendError::ShuttingDown | SendError::Closed) => return fails("EPIPE"),
                Err(SendError::TooLong) => return fails("EMSGSIZE"),
                Err(_) => return fails("EINVAL"),
            }
        }
        if let Some(member) = socket.members.get_mut(&number) {
            (member.dry, member.active_at) = (len == 0, ctx.now);
        }
        let association = ctx.endpoint.association_mut(id).expect("it exists");
        if outgoing.flags & values::SCTP_EOF != 0 {
            association.shutdown();
        }
        done(outgoing.len)
    }

    /// The message as the core takes it.
    fn message(line: usize, outgoing: &Outgoing, payload: Bytes) -> Result<Message> {
        let unsupported = |what: &str| Err(ScriptError::unsupported(line, what.to_owned()));
        let unordered = outgoing.flags & values::SCTP_UNORDERED != 0;
        let order = if unordered { Order::Unordered } else { Order::Ordered };
        if outgoing.flags & values::SCTP_SACK_IMMEDIATELY != 0 {
            return unsupported("a message that requests an immediate SACK (RFC 7053)");
        }
        let (reliability, context) = (outgoing.policy.into(), outgoing.context);
        Ok(Message { order, reliability, context, ..Message::new(Ppid(outgoing.ppid), payload) })
    }
}
