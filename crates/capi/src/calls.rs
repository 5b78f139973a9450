//! The calls that start and stop the stack, and that make, bind, connect, change and close sockets.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use libc::{sockaddr, socklen_t};

use crate::abi::{SCTP_BINDX_ADD_ADDR, sctp_assoc_t, sctpstat, socket};
use crate::address::{self, Address, Domain};
use crate::errno::{Errno, INVALID, NOT_OFFERED, guard};
use crate::memory::{self, Place};
use crate::socket::{Kind, ReceiveCallback, Socket, Style, Upcall};
use crate::stack::{self, ConnOutput, DebugPrintf, socket_of, stack};
use crate::{checksum, dump, options};

/// Called when the send buffer has room. Not offered.
pub type SendCallback =
    Option<unsafe extern "C" fn(so: *mut socket, sb_free: u32, ulp_info: *mut c_void) -> c_int>;

/// Starts the stack. `port` is the local UDP port of SCTP in UDP (RFC 6951); 0: no UDP. `conn_output` sends the packets of
/// AF_CONN sockets, from a thread of the stack, which it must not block. Nothing happens if the stack runs already.
///
/// # Safety
///
/// The functions are callable from any thread until `usrsctp_finish` has returned 0.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_init(port: u16, conn_output: ConnOutput, debug_printf: DebugPrintf) {
    guard((), || stack::start(port, conn_output, debug_printf));
}

/// Stops the stack: 0, or -1 (EBUSY) while there are sockets, or associations that shut down.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_finish() -> c_int {
    guard(-1, || stack::finish().map(|()| 0))
}

/// Creates a socket: AF_INET, AF_INET6 (for IPv4 too) or AF_CONN; SOCK_STREAM (one association) or SOCK_SEQPACKET. With
/// `receive`, a thread of the stack calls it with each message. `send` is not offered (EOPNOTSUPP). Returns null on failure.
///
/// # Safety
///
/// The callback is callable from another thread, with `ulp_info`, until the socket is closed.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_socket(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    receive: ReceiveCallback,
    send: SendCallback,
    _sb_threshold: u32,
    ulp_info: *mut c_void,
) -> *mut socket {
    guard(std::ptr::null_mut(), || {
        if protocol != libc::IPPROTO_SCTP {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        if send.is_some() {
            return Err(NOT_OFFERED);
        }
        let domain = match domain {
            libc::AF_INET => Domain::Inet,
            libc::AF_INET6 => Domain::Inet6,
            crate::abi::AF_CONN => Domain::Conn,
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        let style = match kind {
            libc::SOCK_STREAM => Style::OneToOne,
            libc::SOCK_SEQPACKET => Style::OneToMany,
            _ => return Err(Errno(libc::EPROTOTYPE)),
        };
        let ulp_info = ulp_info.expose_provenance();
        let (stack, kind) = (stack()?, Kind { domain, style, receive });
        let callbacks = stack.callbacks.clone();
        Ok(stack.add(|id| Socket::new(id, kind, callbacks, ulp_info)).handle())
    })
}

/// Closes a socket. Its associations shut down after all messages are sent, or are aborted if SO_LINGER says so.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_close(so: *mut socket) {
    guard((), || {
        let (stack, socket) = socket_of(so)?;
        let closed = socket.close();
        closed.ids.into_iter().for_each(|id| stack.remove(id));
        stack.end(closed.listeners);
        Ok(())
    });
}

/// Binds a socket to an address and an SCTP port.
///
/// # Safety
///
/// `namelen` bytes can be read at `name`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_bind(so: *mut socket, name: *const sockaddr, namelen: socklen_t) -> c_int {
    guard(-1, || {
        let (stack, socket) = socket_of(so)?;
        // SAFETY: passed on.
        socket.bind(&stack, &[unsafe { address::one(name, namelen as usize) }?])?;
        Ok(0)
    })
}

/// Binds a socket to more addresses (SCTP_BINDX_ADD_ADDR), before it listens or connects. SCTP_BINDX_REM_ADDR is not offered.
///
/// # Safety
///
/// `addrcnt` addresses can be read at `addrs`, one behind the other.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_bindx(
    so: *mut socket,
    addrs: *const sockaddr,
    addrcnt: c_int,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        let (stack, socket) = socket_of(so)?;
        if flags != SCTP_BINDX_ADD_ADDR {
            return Err(NOT_OFFERED);
        }
        // SAFETY: passed on.
        socket.bind(&stack, &unsafe { address::list(addrs, addrcnt) }?)?;
        Ok(0)
    })
}

/// Accepts associations from now on, as many as `backlog` waiting; with 0 no longer.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_listen(so: *mut socket, backlog: c_int) -> c_int {
    guard(-1, || {
        let (stack, socket) = socket_of(so)?;
        socket.listen(&stack, backlog)?;
        Ok(0)
    })
}

/// Returns the next association that a peer opened, as a socket with the listening one's options and callbacks; null on failure.
///
/// # Safety
///
/// `aname` and `anamelen` are null, or as long an address can be written there.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_accept(
    so: *mut socket,
    aname: *mut sockaddr,
    anamelen: *mut socklen_t,
) -> *mut socket {
    guard(std::ptr::null_mut(), || {
        let (_, socket) = socket_of(so)?;
        let accepted = socket.accept()?;
        // SAFETY: passed on.
        let place = unsafe { Place::new(aname.cast(), memory::length(anamelen)) };
        if let Some(peer) = accepted.peers().first() {
            let bytes = peer.to_bytes(accepted.lock().options.maps_v4);
            place.fill(&bytes);
            // SAFETY: passed on.
            unsafe { memory::put(anamelen, bytes.len() as socklen_t) };
        }
        Ok(accepted.handle())
    })
}

/// Opens an association. A blocking SOCK_STREAM socket waits until it is established; a non-blocking one fails with
/// EINPROGRESS.
///
/// # Safety
///
/// `namelen` bytes can be read at `name`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_connect(
    so: *mut socket,
    name: *const sockaddr,
    namelen: socklen_t,
) -> c_int {
    guard(-1, || {
        let (stack, socket) = socket_of(so)?;
        // SAFETY: passed on.
        socket.connect(&stack, &[unsafe { address::one(name, namelen as usize) }?])?;
        Ok(0)
    })
}

/// Opens an association with a peer that has several addresses of one port; `id`, if not null, receives its number.
///
/// # Safety
///
/// `addrcnt` addresses can be read at `addrs`, one behind the other; `id` is null or can be written.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_connectx(
    so: *mut socket,
    addrs: *const sockaddr,
    addrcnt: c_int,
    id: *mut sctp_assoc_t,
) -> c_int {
    guard(-1, || {
        let (stack, socket) = socket_of(so)?;
        // SAFETY: passed on.
        let number = socket.connect(&stack, &unsafe { address::list(addrs, addrcnt) }?)?;
        // SAFETY: passed on.
        unsafe { memory::put(id, number) };
        Ok(0)
    })
}

/// Shuts down the association of a SOCK_STREAM socket: SHUT_WR or SHUT_RDWR. SCTP has no half-closed state: the peer can send no
/// new messages either. SHUT_RD is not offered.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_shutdown(so: *mut socket, how: c_int) -> c_int {
    guard(-1, || {
        let (_, socket) = socket_of(so)?;
        match how {
            libc::SHUT_WR | libc::SHUT_RDWR if socket.style == Style::OneToOne => {}
            libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR => return Err(NOT_OFFERED),
            _ => return Err(INVALID),
        }
        socket.lock().member(Style::OneToOne, 0)?.association.start_shutdown();
        Ok(0)
    })
}

/// Sets an option.
///
/// # Safety
///
/// `option_len` bytes can be read at `option_value`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_setsockopt(
    so: *mut socket,
    level: c_int,
    option_name: c_int,
    option_value: *const c_void,
    option_len: socklen_t,
) -> c_int {
    guard(-1, || {
        let (_, socket) = socket_of(so)?;
        // SAFETY: passed on.
        let value = unsafe { memory::bytes(option_value, option_len as usize) }?;
        options::set(&socket, level, option_name, value)?;
        Ok(0)
    })
}

/// Reads an option. Where it depends on an association or a path, `option_value` holds the question.
///
/// # Safety
///
/// As many bytes as `option_len` says can be read and written at `option_value`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_getsockopt(
    so: *mut socket,
    level: c_int,
    option_name: c_int,
    option_value: *mut c_void,
    option_len: *mut socklen_t,
) -> c_int {
    guard(-1, || {
        let (_, socket) = socket_of(so)?;
        if option_value.is_null() || option_len.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: passed on.
        let place = unsafe { Place::new(option_value, memory::length(option_len)) };
        let len = options::get(&socket, level, option_name, place)?;
        // SAFETY: passed on.
        unsafe { memory::put(option_len, len as socklen_t) };
        Ok(0)
    })
}

/// Reads an option of the association `id`: every structure of such an option begins with that number, or with an address
/// before it.
///
/// # Safety
///
/// As for `usrsctp_getsockopt`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_opt_info(
    so: *mut socket,
    id: sctp_assoc_t,
    opt: c_int,
    arg: *mut c_void,
    size: *mut socklen_t,
) -> c_int {
    use crate::abi::{SCTP_GET_PEER_ADDR_INFO, SCTP_PEER_ADDR_PARAMS};
    let at = match opt {
        SCTP_GET_PEER_ADDR_INFO | SCTP_PEER_ADDR_PARAMS => size_of::<libc::sockaddr_storage>(),
        _ => 0,
    };
    // SAFETY: passed on.
    let len = unsafe { memory::length(size) };
    if !arg.is_null() && len >= at + size_of_val(&id) {
        // SAFETY: the place is that long.
        unsafe { memory::put(arg.wrapping_byte_add(at).cast(), id) };
    }
    // SAFETY: passed on.
    unsafe { usrsctp_getsockopt(so, libc::IPPROTO_SCTP, opt, arg, size) }
}

/// Returns the number of the local addresses of an association, or of the addresses to which the socket is bound, and where they
/// are; `usrsctp_freeladdrs` frees them.
///
/// # Safety
///
/// `raddrs` can be written.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_getladdrs(
    so: *mut socket,
    id: sctp_assoc_t,
    raddrs: *mut *mut sockaddr,
) -> c_int {
    // SAFETY: passed on.
    unsafe { addresses(so, raddrs, |socket| Ok(socket.locals(id))) }
}

/// Returns the number of the peer's addresses, and where they are; `usrsctp_freepaddrs` frees them.
///
/// # Safety
///
/// `raddrs` can be written.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_getpaddrs(
    so: *mut socket,
    id: sctp_assoc_t,
    raddrs: *mut *mut sockaddr,
) -> c_int {
    // SAFETY: passed on.
    unsafe { addresses(so, raddrs, |socket| socket.peers_of(id)) }
}

/// # Safety
///
/// `into` is null or can be written.
unsafe fn addresses(
    so: *mut socket,
    into: *mut *mut sockaddr,
    of: impl FnOnce(&Arc<Socket>) -> Result<Vec<Address>, Errno>,
) -> c_int {
    guard(-1, || {
        let (_, socket) = socket_of(so)?;
        if into.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let addresses = of(&socket)?;
        let mapped = socket.lock().options.maps_v4;
        let bytes: Vec<u8> = addresses.iter().flat_map(|address| address.to_bytes(mapped)).collect();
        let at = if bytes.is_empty() { std::ptr::null_mut() } else { memory::allocate(&bytes)? };
        // SAFETY: not null, and the caller of the API vouches for it.
        unsafe { memory::put(into, at.cast()) };
        Ok(addresses.len() as c_int)
    })
}

/// Frees what `usrsctp_getladdrs` returned.
///
/// # Safety
///
/// `addrs` is null or comes from `usrsctp_getladdrs`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_freeladdrs(addrs: *mut sockaddr) {
    // SAFETY: from `malloc`, or null.
    unsafe { libc::free(addrs.cast()) };
}

/// Frees what `usrsctp_getpaddrs` returned.
///
/// # Safety
///
/// `addrs` is null or comes from `usrsctp_getpaddrs`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_freepaddrs(addrs: *mut sockaddr) {
    // SAFETY: from `malloc`, or null.
    unsafe { libc::free(addrs.cast()) };
}

/// Sets whether calls on the socket fail with EWOULDBLOCK instead of waiting.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_set_non_blocking(so: *mut socket, onoff: c_int) -> c_int {
    guard(-1, || {
        socket_of(so)?.1.lock().options.is_blocking = onoff == 0;
        Ok(0)
    })
}

/// Returns 1 if the socket does not block, 0 if it does.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_get_non_blocking(so: *mut socket) -> c_int {
    guard(-1, || Ok((!socket_of(so)?.1.lock().options.is_blocking).into()))
}

/// Has `upcall` called by a thread of the stack when something happened to the socket; null: no longer.
///
/// # Safety
///
/// The function is callable from another thread, with `arg`, until the socket is closed.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_set_upcall(so: *mut socket, upcall: Upcall, arg: *mut c_void) -> c_int {
    guard(-1, || {
        let (_, socket) = socket_of(so)?;
        socket.set_upcall((upcall, arg.expose_provenance()));
        Ok(0)
    })
}

/// Returns what the socket is ready for: SCTP_EVENT_READ, SCTP_EVENT_WRITE, SCTP_EVENT_ERROR.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_get_events(so: *mut socket) -> c_int {
    guard(-1, || Ok(socket_of(so)?.1.events()))
}

/// Sets the pointer that callbacks of the socket receive.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_set_ulpinfo(so: *mut socket, ulp_info: *mut c_void) -> c_int {
    guard(-1, || {
        socket_of(so)?.1.lock().ulp_info = ulp_info.expose_provenance();
        Ok(0)
    })
}

/// Returns the pointer that callbacks of the socket receive.
///
/// # Safety
///
/// `pulp_info` is null or can be written.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_get_ulpinfo(so: *mut socket, pulp_info: *mut *mut c_void) -> c_int {
    guard(-1, || {
        let ulp_info = socket_of(so)?.1.lock().ulp_info;
        // SAFETY: passed on.
        unsafe { memory::put(pulp_info, std::ptr::with_exposed_provenance_mut(ulp_info)) };
        Ok(0)
    })
}

/// Returns the number of the association with this peer; 0 if there is none.
///
/// # Safety
///
/// `name` is null or an address of its family.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_getassocid(so: *mut socket, name: *const sockaddr) -> sctp_assoc_t {
    guard(0, || {
        let (_, socket) = socket_of(so)?;
        // SAFETY: passed on.
        let peer = *unsafe { address::list(name, 1) }?.first().ok_or(INVALID)?;
        socket.association_with(&peer).ok_or(Errno(libc::ENOENT))
    })
}

/// Not offered: returns null with EOPNOTSUPP.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_peeloff(_so: *mut socket, _id: sctp_assoc_t) -> *mut socket {
    guard(std::ptr::null_mut(), || Err(NOT_OFFERED))
}

/// Nothing need be registered: an AF_CONN address is known from the first socket that uses it.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_register_address(_addr: *mut c_void) {}

/// The AF_CONN address is no longer used: what the stack keeps for it is freed when its associations have ended.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_deregister_address(addr: *mut c_void) {
    guard((), || {
        stack()?.deregister(addr.addr());
        Ok(())
    });
}

/// Takes in a packet of an AF_CONN address.
///
/// # Safety
///
/// `length` bytes can be read at `buffer`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_conninput(
    addr: *mut c_void,
    buffer: *const c_void,
    length: usize,
    _ecn_bits: u8,
) {
    guard((), || {
        // SAFETY: passed on.
        stack()?.input(addr.expose_provenance(), unsafe { memory::bytes(buffer, length) }?);
        Ok(())
    });
}

/// The program computes and verifies the checksums of AF_CONN packets from now on.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_enable_crc32c_offload() {
    checksum::set_offloaded(true);
}

/// The stack computes and verifies the checksums of AF_CONN packets from now on.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn usrsctp_disable_crc32c_offload() {
    checksum::set_offloaded(false);
}

/// Returns the CRC32c of a packet whose checksum field is 0, as it stands in that field; 0 for a null pointer.
///
/// # Safety
///
/// `length` bytes can be read at `buffer`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_crc32c(buffer: *mut c_void, length: usize) -> u32 {
    // SAFETY: passed on.
    guard(0, || Ok(checksum::crc32c(unsafe { memory::bytes(buffer, length) }?)))
}

/// Returns a packet as text that text2pcap reads; `usrsctp_freedumpbuffer` frees it. Null on failure.
///
/// # Safety
///
/// `length` bytes can be read at `buffer`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_dumppacket(
    buffer: *const c_void,
    length: usize,
    outbound: c_int,
) -> *mut c_char {
    guard(std::ptr::null_mut(), || {
        // SAFETY: passed on.
        let packet = unsafe { memory::bytes(buffer, length) }?;
        Ok(memory::allocate(&dump::text(packet, outbound != 0))?.cast())
    })
}

/// Frees what `usrsctp_dumppacket` returned.
///
/// # Safety
///
/// `buffer` is null or comes from `usrsctp_dumppacket`.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_freedumpbuffer(buffer: *mut c_char) {
    // SAFETY: from `malloc`, or null.
    unsafe { libc::free(buffer.cast()) };
}

/// Writes the statistics of the stack.
///
/// # Safety
///
/// `stat` is null or can be written.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usrsctp_get_stat(stat: *mut sctpstat) {
    guard((), || {
        // SAFETY: passed on.
        unsafe { memory::put(stat, stack()?.statistics()) };
        Ok(())
    });
}
