//! A socket: its options, its associations, and what it has received.
//!
//! For each association a task (`pump.rs`) takes messages and events and puts them into the socket's inbox, as long as there is
//! room; the program's threads take them out, or the thread of the callbacks does.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use braidftp_net::{Association, Config, PathName, Reason};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};

use crate::abi::{
    MSG_NOTIFICATION, SCTP_EVENT_ERROR, SCTP_EVENT_READ, SCTP_EVENT_WRITE, sctp_assoc_t, sctp_default_prinfo,
    sctp_rcvinfo, sctp_sndinfo, sctp_sockstore, socket,
};
use crate::address::{Address, Domain};
use crate::callbacks::{CallBack, Callbacks};
use crate::errno::Errno;
use crate::memory;
use crate::sync::{in_runtime, lock};
use crate::sysctl;

/// The number of bytes in the inbox above which nothing is taken from the associations, whose windows then close.
const INBOX_BYTES: usize = 64 << 10;

/// Called with each message or notification (`data` is freed by the callee), and without data at the end. Returns 1.
pub type ReceiveCallback = Option<
    unsafe extern "C" fn(
        so: *mut socket,
        addr: sctp_sockstore,
        data: *mut c_void,
        datalen: usize,
        info: sctp_rcvinfo,
        flags: c_int,
        ulp_info: *mut c_void,
    ) -> c_int,
>;

/// Called when something happened to a socket: see `usrsctp_get_events`.
pub type Upcall = Option<unsafe extern "C" fn(so: *mut socket, arg: *mut c_void, flags: c_int)>;

/// The style of a socket (RFC 6458 §3, §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// SOCK_STREAM: one association.
    OneToOne,
    /// SOCK_SEQPACKET: any number of associations.
    OneToMany,
}

/// The options of a socket, which accepted sockets inherit.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) config: Config,
    /// A bit for each subscribed type of notification.
    pub(crate) events: u32,
    pub(crate) rcvinfo: bool,
    pub(crate) is_blocking: bool,
    pub(crate) maps_v4: bool,
    pub(crate) context: u32,
    /// The peer's UDP port; 0: IP protocol 132.
    pub(crate) udp_port: u16,
    pub(crate) sndinfo: sctp_sndinfo,
    pub(crate) prinfo: sctp_default_prinfo,
    /// Whether `usrsctp_close` aborts associations.
    pub(crate) aborts: bool,
}

impl Options {
    fn new() -> Self {
        let sndinfo = sctp_sndinfo { snd_sid: 0, snd_flags: 0, snd_ppid: 0, snd_context: 0, snd_assoc_id: 0 };
        Self {
            config: sysctl::config(),
            events: 0,
            rcvinfo: false,
            is_blocking: true,
            maps_v4: false,
            context: 0,
            udp_port: 0,
            sndinfo,
            prinfo: sctp_default_prinfo { pr_policy: 0, pr_value: 0, pr_assoc_id: 0 },
            aborts: false,
        }
    }

    /// Whether the program wants notifications of this type.
    pub(crate) fn wants(&self, kind: u16) -> bool {
        self.events & 1 << kind != 0
    }
}

/// The addresses and port to which a socket is bound.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) conn: Option<usize>,
    /// The SCTP port; 0: any.
    pub(crate) port: u16,
    /// Whether the port belongs to a socket that listens or listened.
    pub(crate) is_inherited: bool,
}

/// An association of a socket.
pub(crate) struct Member {
    pub(crate) association: Association,
    pub(crate) is_up: bool,
    pub(crate) pump: AbortHandle,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// A message, a part of one, or a notification.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) payload: Bytes,
    pub(crate) from: Address,
    pub(crate) info: sctp_rcvinfo,
    /// MSG_EOR, MSG_NOTIFICATION.
    pub(crate) flags: c_int,
}

/// The kind of socket that the program requests.
pub(crate) struct Kind {
    pub(crate) domain: Domain,
    pub(crate) style: Style,
    pub(crate) receive: ReceiveCallback,
}

/// The rest of closing a socket, for the caller of `Socket::close`.
pub(crate) struct Closed {
    /// The closed sockets: this one, and those that were waiting to be accepted.
    pub(crate) ids: Vec<usize>,
    /// The tasks that accept associations.
    pub(crate) listeners: Vec<JoinHandle<()>>,
}

/// A socket.
pub(crate) struct Socket {
    pub(crate) id: usize,
    pub(crate) domain: Domain,
    pub(crate) style: Style,
    receive: ReceiveCallback,
    callbacks: Arc<Callbacks>,
    state: Mutex<State>,
    changed: Condvar,
    /// Signals that the inbox has space.
    room: Notify,
    /// Signals that the socket is being closed.
    closing: Notify,
}

/// The state of a socket.
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) bound: Option<Bound>,
    pub(crate) members: BTreeMap<sctp_assoc_t, Member>,
    /// The maximum number of associations that may wait to be accepted, if the socket listens.
    pub(crate) backlog_max: Option<usize>,
    pub(crate) backlog: VecDeque<Arc<Socket>>,
    pub(crate) listeners: Vec<JoinHandle<()>>,
    pub(crate) inbox: VecDeque<Item>,
    inbox_bytes: usize,
    /// Why the association of a one-to-one socket ended.
    pub(crate) ended: Option<Reason>,
    /// Whether the program was informed of the end.
    end_is_told: bool,
    upcall: (Upcall, usize),
    /// The program's pointer, which callbacks receive.
    pub(crate) ulp_info: usize,
    pub(crate) is_closed: bool,
}

impl State {
    fn new(options: Options, bound: Option<Bound>, ulp_info: usize) -> Self {
        Self {
            options,
            bound,
            members: BTreeMap::new(),
            backlog_max: None,
            backlog: VecDeque::new(),
            listeners: Vec::new(),
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            ended: None,
            end_is_told: false,
            upcall: (None, 0),
            ulp_info,
            is_closed: false,
        }
    }

    /// Returns the association of a one-to-one socket, or the one with this number.
    pub(crate) fn member(&self, style: Style, id: sctp_assoc_t) -> Result<&Member, Errno> {
        match style {
            Style::OneToOne => self.members.values().next().ok_or(Errno(libc::ENOTCONN)),
            Style::OneToMany => self.members.get(&id).ok_or(Errno(libc::ENOENT)),
        }
    }

    /// Whether all data was received and nothing more can arrive.
    fn is_at_end(&self) -> bool {
        self.ended.is_some() && self.inbox.is_empty()
    }

    fn take(&mut self) -> Option<Item> {
        let item = self.inbox.pop_front()?;
        self.inbox_bytes -= item.payload.len();
        Some(item)
    }
}

impl Socket {
    pub(crate) fn new(id: usize, kind: Kind, callbacks: Arc<Callbacks>, ulp_info: usize) -> Self {
        Self::with(id, kind, callbacks, State::new(Options::new(), None, ulp_info))
    }

    fn with(id: usize, kind: Kind, callbacks: Arc<Callbacks>, state: State) -> Self {
        let Kind { domain, style, receive } = kind;
        let (changed, room, closing) = (Condvar::new(), Notify::new(), Notify::new());
        Self { id, domain, style, receive, callbacks, state: Mutex::new(state), changed, room, closing }
    }

    /// Creates a socket for an association that a peer opened.
    pub(crate) fn child(&self, id: usize, state: &State) -> Self {
        let kind = Kind { domain: self.domain, style: self.style, receive: self.receive };
        let bound = state.bound.clone().map(|bound| Bound { is_inherited: true, ..bound });
        let inherited = State::new(state.options.clone(), bound, state.ulp_info);
        Self::with(id, kind, self.callbacks.clone(), inherited)
    }

    /// Returns the handle that the program uses.
    pub(crate) fn handle(&self) -> *mut socket {
        std::ptr::without_provenance_mut(self.id)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for a change. Callbacks on the thread of the endpoints must not wait.
    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, Errno> {
        if in_runtime() {
            return Err(Errno(libc::EDEADLK));
        }
        Ok(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner))
    }

    /// Wakes the program's threads, and triggers callbacks.
    pub(crate) fn wake(self: &Arc<Self>, state: &State) {
        self.changed.notify_all();
        if self.receive.is_some() || state.upcall.0.is_some() {
            self.callbacks.add(self.clone());
        }
    }
}

/// Closing.
impl Socket {
    /// Closes the socket: its associations shut down, or are aborted if the option SO_LINGER says so.
    pub(crate) fn close(&self) -> Closed {
        let mut state = self.lock();
        state.is_closed = true;
        let listeners = std::mem::take(&mut state.listeners);
        state.inbox.clear();
        let (members, backlog) = (std::mem::take(&mut state.members), std::mem::take(&mut state.backlog));
        if state.options.aborts {
            members.values().for_each(|member| member.association.abort("the socket was closed"));
        }
        self.changed.notify_all();
        self.closing.notify_waiters();
        self.room.notify_waiters();
        drop(state);
        let children = backlog.iter().flat_map(|child| child.close().ids);
        Closed { ids: std::iter::once(self.id).chain(children).collect(), listeners }
    }

    /// Waits until the socket is closed.
    pub(crate) async fn closed(&self) {
        let mut closing = std::pin::pin!(self.closing.notified());
        closing.as_mut().enable();
        if !self.lock().is_closed {
            closing.await;
        }
    }
}

/// Receiving.
impl Socket {
    /// Puts an item into the inbox, once it has space.
    pub(crate) async fn push(self: &Arc<Self>, item: Item) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            {
                let mut state = self.lock();
                if state.is_closed {
                    return;
                }
                if state.inbox_bytes < INBOX_BYTES {
                    state.inbox_bytes += item.payload.len();
                    state.inbox.push_back(item);
                    self.wake(&state);
                    return;
                }
            }
            room.await;
        }
    }

    /// Records that an association is established.
    pub(crate) fn on_up(self: &Arc<Self>, id: sctp_assoc_t) {
        let mut state = self.lock();
        if let Some(member) = state.members.get_mut(&id) {
            member.is_up = true;
        }
        self.wake(&state);
    }

    /// Records that an association has ended, after its last item was put into the inbox.
    pub(crate) fn on_end(self: &Arc<Self>, id: sctp_assoc_t, reason: Reason) {
        let mut state = self.lock();
        // Called by the association's task, which must not be aborted before this returns.
        let member = state.members.remove(&id);
        if self.style == Style::OneToOne {
            state.ended = Some(reason);
        }
        self.wake(&state);
        drop(state);
        drop(member);
    }

    /// Takes the next message, part of one, or notification, at most `max` bytes; `None` at the end of the association.
    pub(crate) fn receive(&self, max: usize, waits: bool) -> Result<Option<Item>, Errno> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return Err(Errno(libc::EBADF));
            }
            if let Some(mut item) = state.take() {
                if item.payload.len() > max {
                    let (payload, from) = (item.payload.split_off(max), item.from);
                    let rest = Item { payload, from, info: item.info, flags: item.flags };
                    item.flags &= !libc::MSG_EOR;
                    state.inbox_bytes += rest.payload.len();
                    state.inbox.push_front(rest);
                }
                self.room.notify_waiters();
                return Ok(Some(item));
            }
            if let Some(reason) = &state.ended {
                let errno = Errno::from(reason);
                let is_failure = *reason != Reason::Shutdown && !state.end_is_told;
                state.end_is_told = true;
                return if is_failure { Err(errno) } else { Ok(None) };
            }
            let is_idle = state.members.is_empty() && state.bound.is_none();
            if self.style == Style::OneToOne && (is_idle || state.backlog_max.is_some()) {
                return Err(Errno(libc::ENOTCONN));
            }
            if !waits || !state.options.is_blocking {
                return Err(Errno(libc::EWOULDBLOCK));
            }
            state = self.wait(state)?;
        }
    }

    /// Returns the readiness of the socket: SCTP_EVENT_READ, SCTP_EVENT_WRITE, SCTP_EVENT_ERROR.
    pub(crate) fn events(&self) -> c_int {
        let state = self.lock();
        let mut events = 0;
        if !state.inbox.is_empty() || !state.backlog.is_empty() || state.ended.is_some() {
            events |= SCTP_EVENT_READ;
        }
        let has_room = |member: &Member| member.is_up && member.association.send_room() > 0;
        if state.ended.is_some() || state.members.values().any(has_room) {
            events |= SCTP_EVENT_WRITE;
        }
        if state.ended.as_ref().is_some_and(|reason| *reason != Reason::Shutdown) {
            events |= SCTP_EVENT_ERROR;
        }
        events
    }

    /// Sets the function to be called when something happens.
    pub(crate) fn set_upcall(self: &Arc<Self>, upcall: (Upcall, usize)) {
        let mut state = self.lock();
        state.upcall = upcall;
        self.wake(&state);
    }

    /// Records that messages can be sent again.
    pub(crate) fn on_room(self: &Arc<Self>) {
        self.wake(&self.lock());
    }
}

impl CallBack for Socket {
    fn call_back(&self) {
        while let Some(receive) = self.receive {
            let mut state = self.lock();
            let ulp_info = std::ptr::with_exposed_provenance_mut(state.ulp_info);
            if state.is_closed {
                return;
            }
            if let Some(item) = state.take() {
                self.room.notify_waiters();
                drop(state);
                let Ok(data) = memory::allocate(&item.payload) else { return };
                let (from, len) = (item.from.to_sockstore(), item.payload.len());
                // SAFETY: the function that the program passed to `usrsctp_socket`, which frees `data`.
                unsafe { receive(self.handle(), from, data, len, item.info, item.flags, ulp_info) };
            } else if state.is_at_end() && !state.end_is_told {
                state.end_is_told = true;
                drop(state);
                let nobody = Address::Conn { at: 0, port: 0 }.to_sockstore();
                let (data, info) = (std::ptr::null_mut(), sctp_rcvinfo::default());
                // SAFETY: as above; without data, the association has ended.
                unsafe { receive(self.handle(), nobody, data, 0, info, 0, ulp_info) };
            } else {
                break;
            }
        }
        let (upcall, arg) = self.lock().upcall;
        if let Some(upcall) = upcall {
            let arg = std::ptr::with_exposed_provenance_mut(arg);
            // SAFETY: the function that the program passed to `usrsctp_set_upcall`, with its argument.
            unsafe { upcall(self.handle(), arg, libc::MSG_DONTWAIT) };
        }
    }
}

/// Addresses.
impl Socket {
    /// Whether the socket is bound to this port itself, and not inherited it from a listening socket.
    pub(crate) fn is_bound_to(&self, port: u16, conn: Option<usize>) -> bool {
        let is_same = |bound: &Bound| !bound.is_inherited && bound.port == port && bound.conn == conn;
        self.lock().bound.as_ref().is_some_and(is_same)
    }

    /// The peer's address on the first path.
    pub(crate) fn peer_of(&self, association: &Association) -> Address {
        let port = association.ports().1;
        match association.peer_addr() {
            Some(addr) => Address::of_carrier(self.domain, addr, port),
            None => Address::Conn { at: 0, port },
        }
    }

    /// The local addresses of an association, or those to which the socket is bound.
    pub(crate) fn locals(&self, id: sctp_assoc_t) -> Vec<Address> {
        let state = self.lock();
        if let Ok(member) = state.member(self.style, id) {
            return self.ends(&member.association, |path| path.local, member.association.ports().0);
        }
        let Some(bound) = &state.bound else { return Vec::new() };
        let conn = bound.conn.map(|at| Address::Conn { at, port: bound.port });
        let ips = bound.ips.iter().map(|ip| Address::Ip(SocketAddr::new(*ip, bound.port)));
        ips.chain(conn).filter(|address| self.domain.takes(address)).collect()
    }

    /// The addresses of the peer of an association.
    pub(crate) fn peers_of(&self, id: sctp_assoc_t) -> Result<Vec<Address>, Errno> {
        let state = self.lock();
        let association = &state.member(self.style, id)?.association;
        Ok(self.ends(association, |path| path.peer, association.ports().1))
    }

    /// The addresses of the peer of a one-to-one socket; none if it is not connected.
    pub(crate) fn peers(&self) -> Vec<Address> {
        self.peers_of(0).unwrap_or_default()
    }

    /// The number of the association with this peer.
    pub(crate) fn association_with(&self, peer: &Address) -> Option<sctp_assoc_t> {
        let ids: Vec<sctp_assoc_t> = self.lock().members.keys().copied().collect();
        ids.into_iter().find(|id| self.peers_of(*id).is_ok_and(|peers| peers.contains(peer)))
    }

    /// One end of every path, each address once.
    fn ends(
        &self,
        association: &Association,
        end: impl Fn(&PathName) -> SocketAddr,
        port: u16,
    ) -> Vec<Address> {
        let mut ends = Vec::new();
        for path in association.paths() {
            let address = Address::of_carrier(self.domain, end(&path), port);
            if !ends.contains(&address) {
                ends.push(address);
            }
        }
        ends
    }
}

impl Item {
    /// A notification about an association.
    pub(crate) fn notification(bytes: Vec<u8>, from: Address) -> Self {
        let flags = MSG_NOTIFICATION | libc::MSG_EOR;
        Self { payload: bytes.into(), from, info: sctp_rcvinfo::default(), flags }
    }
}
