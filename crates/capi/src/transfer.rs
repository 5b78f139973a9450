//! Sending and receiving: `usrsctp_sendv` (RFC 6458 §9.12) and `usrsctp_recvv` (§9.13).

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::time::Duration;

use braidftp_net::sctp::Reliability;
use braidftp_net::{Association, Message, Order, Ppid, StreamId, TrySendError};
use bytes::Bytes;
use libc::{sockaddr, socklen_t, ssize_t};

use crate::abi::*;
use crate::address;
use crate::errno::{Errno, INVALID, NOT_OFFERED, guard};
use crate::memory::{self, Place, read};
use crate::socket::{Options, Socket, Style};
use crate::stack::{Stack, socket_of};
use crate::sync::in_runtime;

/// The flags of a message that mean something here. SCTP_SACK_IMMEDIATELY is a hint, and every message ends its record.
const FLAGS: u16 = SCTP_EOF | SCTP_ABORT | SCTP_UNORDERED | SCTP_EOR | SCTP_SACK_IMMEDIATELY;

/// Sends a message; with SCTP_EOF shuts the association down after it, with SCTP_ABORT ends the association with the data as
/// reason. A SOCK_SEQPACKET socket opens an association with `to` if it has none. Returns `len`, or -1.
///
/// # Safety
///
/// `len` bytes can be read at `data`, `addrcnt` addresses at `to`, `infolen` bytes at `info`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_sendv(
    so: *mut socket,
    data: *const c_void,
    len: usize,
    to: *const sockaddr,
    addrcnt: c_int,
    info: *const c_void,
    infolen: socklen_t,
    infotype: c_uint,
    flags: c_int,
) -> ssize_t {
    guard(-1, || {
        let (stack, socket) = socket_of(so)?;
        // SAFETY: passed on.
        let data = unsafe { memory::bytes(data, len) }?;
        // SAFETY: passed on.
        let info = unsafe { memory::bytes(info, infolen as usize) }?;
        let to = if to.is_null() {
            Vec::new()
        } else {
            // SAFETY: passed on. A program may leave the number of one address away.
            unsafe { address::list(to, addrcnt.max(1)) }?
        };
        let (options, how) = {
            let state = socket.lock();
            (state.options.clone(), How::parse(&state.options, info, infotype)?)
        };
        let association = match socket.association(how.info.snd_assoc_id, &to) {
            Err(Errno(libc::ENOENT)) if !to.is_empty() => {
                let id = socket.connect(&stack, &to)?;
                socket.association(id, &[])?
            }
            found => found?,
        };
        let waits = options.is_blocking && flags & libc::MSG_DONTWAIT == 0 && !in_runtime();
        how.send(&stack, &socket, &association, data, waits)?;
        Ok(len as ssize_t)
    })
}

/// How a message is sent.
struct How {
    info: sctp_sndinfo,
    reliability: Reliability,
}

impl How {
    fn parse(options: &Options, info: &[u8], infotype: c_uint) -> Result<Self, Errno> {
        let default = (options.prinfo.pr_policy, options.prinfo.pr_value);
        let (info, (policy, value)) = match infotype {
            SCTP_SENDV_NOINFO if info.is_empty() => (options.sndinfo, default),
            SCTP_SENDV_SNDINFO => (read(info)?, default),
            SCTP_SENDV_PRINFO => {
                let prinfo: sctp_prinfo = read(info)?;
                (options.sndinfo, (prinfo.pr_policy, prinfo.pr_value))
            }
            SCTP_SENDV_SPA => {
                let spa: sctp_sendv_spa = read(info)?;
                if spa.sendv_flags & SCTP_SEND_AUTHINFO_VALID != 0 {
                    return Err(NOT_OFFERED);
                }
                let has = |flag: u32| spa.sendv_flags & flag != 0;
                let pr = (spa.sendv_prinfo.pr_policy, spa.sendv_prinfo.pr_value);
                let sndinfo = if has(SCTP_SEND_SNDINFO_VALID) { spa.sendv_sndinfo } else { options.sndinfo };
                (sndinfo, if has(SCTP_SEND_PRINFO_VALID) { pr } else { default })
            }
            SCTP_SENDV_AUTHINFO => return Err(NOT_OFFERED),
            _ => return Err(INVALID),
        };
        let reliability = match policy {
            SCTP_PR_SCTP_NONE => Reliability::Full,
            SCTP_PR_SCTP_TTL => Reliability::Lifetime(Duration::from_millis(value.into())),
            SCTP_PR_SCTP_RTX => Reliability::Retransmissions(value),
            SCTP_PR_SCTP_BUF => Reliability::Priority(value),
            _ => return Err(INVALID),
        };
        if info.snd_flags & (SCTP_ADDR_OVER | SCTP_SENDALL) != 0 {
            return Err(NOT_OFFERED);
        }
        // The lower bits were set by the stack, in information that was received with a message.
        if info.snd_flags & 0xfff0 & !FLAGS != 0 {
            return Err(INVALID);
        }
        Ok(Self { info, reliability })
    }

    fn send(
        self,
        stack: &Arc<Stack>,
        socket: &Arc<Socket>,
        association: &Association,
        data: &[u8],
        waits: bool,
    ) -> Result<(), Errno> {
        let has = |flag: u16| self.info.snd_flags & flag != 0;
        if has(SCTP_ABORT) {
            association.abort(Bytes::copy_from_slice(data));
            return Ok(());
        }
        if data.is_empty() && !has(SCTP_EOF) {
            return Err(INVALID);
        }
        if !data.is_empty() {
            let message = Message {
                order: if has(SCTP_UNORDERED) { Order::Unordered } else { Order::Ordered },
                reliability: self.reliability,
                context: self.info.snd_context,
                ..Message::new(Ppid(u32::from_be(self.info.snd_ppid)), Bytes::copy_from_slice(data))
            };
            send(stack, socket, association, StreamId(self.info.snd_sid), message, waits)?;
        }
        if has(SCTP_EOF) {
            association.start_shutdown();
        }
        Ok(())
    }
}

/// Sends a message, and waits for room if it may.
fn send(
    stack: &Arc<Stack>,
    socket: &Arc<Socket>,
    association: &Association,
    stream: StreamId,
    message: Message,
    waits: bool,
) -> Result<(), Errno> {
    let message = match association.try_send(stream, message) {
        Ok(()) => return Ok(()),
        Err(TrySendError::Refused(error)) => return Err(error.into()),
        Err(TrySendError::Full(message)) => message,
    };
    if waits {
        return stack.runtime.block_on(async {
            tokio::select! {
                sent = association.send(stream, message) => Ok(sent?),
                () = socket.closed() => Err(Errno(libc::EBADF)),
            }
        });
    }
    // An upcall tells when there is room.
    let (stack, socket, association) = (stack.clone(), socket.clone(), association.clone());
    let runtime = stack.runtime.clone();
    runtime.spawn(async move {
        tokio::select! {
            () = association.wait_for_room(message.payload.len()) => socket.on_room(),
            () = socket.closed() => {}
        }
    });
    Err(Errno(libc::EWOULDBLOCK))
}

/// Receives a message, the next part of one (without MSG_EOR in `msg_flags`), or a notification (MSG_NOTIFICATION). Returns its
/// length, 0 at the end of the association, or -1.
///
/// # Safety
///
/// As many bytes as `len`, `fromlen` and `infolen` say can be written at `dbuf`, `from` and `info`; `infotype` and `msg_flags`
/// can be written.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_recvv(
    so: *mut socket,
    dbuf: *mut c_void,
    len: usize,
    from: *mut sockaddr,
    fromlen: *mut socklen_t,
    info: *mut c_void,
    infolen: *mut socklen_t,
    infotype: *mut c_uint,
    msg_flags: *mut c_int,
) -> ssize_t {
    guard(-1, || {
        let (_, socket) = socket_of(so)?;
        if dbuf.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        if len == 0 {
            return Err(INVALID);
        }
        // SAFETY: passed on.
        let asked = unsafe { msg_flags.as_ref() }.copied().unwrap_or(0);
        if asked & (libc::MSG_PEEK | libc::MSG_WAITALL | libc::MSG_OOB) != 0 {
            return Err(NOT_OFFERED);
        }
        // SAFETY: passed on.
        let (data, from_place, info_place) = unsafe {
            let from = Place::new(from.cast(), memory::length(fromlen));
            (Place::new(dbuf, len), from, Place::new(info, memory::length(infolen)))
        };
        let item = socket.receive(len, asked & libc::MSG_DONTWAIT == 0)?;
        let (mut kind, mut info_len, mut from_len, mut flags, mut received) = (SCTP_RECVV_NOINFO, 0, 0, 0, 0);
        if let Some(item) = item {
            let (maps_v4, wants_info) = {
                let state = socket.lock();
                (state.options.maps_v4, state.options.rcvinfo)
            };
            received = data.fill(&item.payload);
            flags = item.flags;
            let address = item.from.to_bytes(maps_v4);
            from_place.fill(&address);
            from_len = address.len();
            if wants_info && flags & MSG_NOTIFICATION == 0 && info_place.len() >= size_of_val(&item.info) {
                info_len = info_place.put(item.info)?;
                kind = SCTP_RECVV_RCVINFO;
            }
        }
        // SAFETY: passed on.
        unsafe {
            memory::put(fromlen, from_len as socklen_t);
            memory::put(infolen, info_len as socklen_t);
            memory::put(infotype, kind);
            memory::put(msg_flags, flags);
        }
        Ok(received as ssize_t)
    })
}

impl Socket {
    /// The association to send on: by its number, or by an address of the peer.
    fn association(&self, id: sctp_assoc_t, to: &[address::Address]) -> Result<Association, Errno> {
        if self.style == Style::OneToMany
            && let Some(to) = to.first()
        {
            let id = self.association_with(to).ok_or(Errno(libc::ENOENT))?;
            return Ok(self.lock().member(self.style, id)?.association.clone());
        }
        let state = self.lock();
        match (&state.ended, self.style) {
            (Some(reason), Style::OneToOne) => Err(reason.into()),
            _ => Ok(state.member(self.style, id)?.association.clone()),
        }
    }
}
