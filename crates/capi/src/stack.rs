//! The stack of the process: its settings, endpoints and sockets, from `usrsctp_init` to `usrsctp_finish`.
//!
//! A socket's handle is a number and not an address, so that a wrong or closed handle is detected (EBADF). Endpoints are
//! shared: one for each carrier and set of local addresses, bound when a socket first needs it and kept until `usrsctp_finish`.
//! They run on one thread, and callbacks of the program on another.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use braidftp_net::{Bind, Carrier, Datagram, Endpoint, PacketInput};
use bytes::Bytes;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::abi::{sctp_assoc_t, sctpstat, socket};
use crate::address::{conn_local, conn_peer};
use crate::callbacks::Callbacks;
use crate::errno::Errno;
use crate::socket::Socket;
use crate::sync::{in_runtime, lock};
use crate::{checksum, sysctl};

/// Sends a packet of an AF_CONN address: the address, the packet, its length, the type of service, and whether IP must not
/// fragment the packet. Returns 0, or an error.
pub type ConnOutput = Option<
    unsafe extern "C" fn(addr: *mut c_void, buffer: *mut c_void, length: usize, tos: u8, set_df: u8) -> c_int,
>;

/// Prints a line of the stack's log.
pub type DebugPrintf = Option<unsafe extern "C" fn(format: *const c_char, ...)>;

/// The first number of an association: smaller ones have special meanings (RFC 6458 §7.2).
const FIRST_ASSOCIATION: sctp_assoc_t = 3;

/// The stack, while it is started.
static STACK: Mutex<Option<Arc<Stack>>> = Mutex::new(None);

/// Where an endpoint is: its carrier and local addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Home {
    /// UDP (RFC 6951), at the port of `usrsctp_init`.
    Udp(Vec<IpAddr>),
    /// IP protocol 132.
    Ip(Vec<IpAddr>),
    /// Functions of the program, for this AF_CONN address.
    Conn(usize),
}

/// The stack of the process.
pub(crate) struct Stack {
    pub(crate) runtime: Handle,
    pub(crate) callbacks: Arc<Callbacks>,
    /// The UDP port of `usrsctp_init`; 0: no UDP.
    pub(crate) udp_port: u16,
    conn_output: ConnOutput,
    debug_printf: DebugPrintf,
    state: Mutex<State>,
}

struct State {
    /// Dropped last.
    owner: Option<Runtime>,
    sockets: BTreeMap<usize, Arc<Socket>>,
    next_socket: usize,
    next_association: sctp_assoc_t,
    endpoints: BTreeMap<Home, Endpoint>,
    /// The inputs for packets of AF_CONN addresses.
    inputs: BTreeMap<usize, PacketInput>,
    /// AF_CONN addresses that the program no longer uses; their endpoints may have associations.
    retired: BTreeSet<usize>,
}

/// Starts the stack, unless it is started.
pub(crate) fn start(udp_port: u16, conn_output: ConnOutput, debug_printf: DebugPrintf) -> Result<(), Errno> {
    let mut stack = lock(&STACK);
    if stack.is_some() {
        return Ok(());
    }
    let mut builder = Builder::new_multi_thread();
    let owner = builder.worker_threads(1).thread_name("sctp").enable_all().build();
    let owner = owner.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
    sysctl::reset();
    let runtime = owner.handle().clone();
    let state = State {
        owner: Some(owner),
        sockets: BTreeMap::new(),
        next_socket: 1,
        next_association: FIRST_ASSOCIATION,
        endpoints: BTreeMap::new(),
        inputs: BTreeMap::new(),
        retired: BTreeSet::new(),
    };
    let (callbacks, state) = (Callbacks::start()?, Mutex::new(state));
    *stack = Some(Arc::new(Stack { runtime, callbacks, udp_port, conn_output, debug_printf, state }));
    Ok(())
}

/// Stops the stack; EBUSY while it has sockets or associations.
pub(crate) fn finish() -> Result<(), Errno> {
    let mut held = lock(&STACK);
    let Some(stack) = held.clone() else { return Ok(()) };
    let mut state = lock(&stack.state);
    let open: usize = state.endpoints.values().map(Endpoint::associations).sum();
    if !state.sockets.is_empty() || open > 0 || stack.callbacks.is_this_thread() || in_runtime() {
        return Err(Errno(libc::EBUSY));
    }
    let (owner, endpoints) = (state.owner.take(), std::mem::take(&mut state.endpoints));
    state.inputs.clear();
    drop(state);
    // A function of the program that sends a last packet may call the API: it must not wait for this.
    *held = None;
    drop(held);
    for endpoint in endpoints.into_values() {
        stack.runtime.block_on(endpoint.close());
    }
    stack.callbacks.stop();
    drop(owner);
    Ok(())
}

/// The stack; ENETDOWN before `usrsctp_init`.
pub(crate) fn stack() -> Result<Arc<Stack>, Errno> {
    lock(&STACK).clone().ok_or(Errno(libc::ENETDOWN))
}

/// The socket of a handle, with its stack; EBADF if there is none.
pub(crate) fn socket_of(handle: *mut socket) -> Result<(Arc<Stack>, Arc<Socket>), Errno> {
    let stack = stack()?;
    let socket = lock(&stack.state).sockets.get(&handle.addr()).cloned().ok_or(Errno(libc::EBADF))?;
    Ok((stack, socket))
}

impl Stack {
    /// Adds a socket, which `make` creates with its handle's number.
    pub(crate) fn add(&self, make: impl FnOnce(usize) -> Socket) -> Arc<Socket> {
        let mut state = lock(&self.state);
        let id = state.next_socket;
        state.next_socket += 1;
        let socket = Arc::new(make(id));
        state.sockets.insert(id, socket.clone());
        socket
    }

    /// Removes a socket.
    pub(crate) fn remove(&self, id: usize) {
        lock(&self.state).sockets.remove(&id);
    }

    /// Ends tasks that accept, so that their ports are free, unless this is the thread on which they run.
    pub(crate) fn end(&self, tasks: Vec<JoinHandle<()>>) {
        for task in tasks {
            task.abort();
            if !in_runtime() {
                // That it was aborted is no news.
                let _ = self.runtime.block_on(task);
            }
        }
    }

    /// Whether another socket than `id` is bound to `port` on the addresses of `home`, whichever the carrier.
    pub(crate) fn is_taken(&self, id: usize, port: u16, conn: Option<usize>) -> bool {
        let sockets: Vec<Arc<Socket>> = lock(&self.state).sockets.values().cloned().collect();
        sockets.iter().any(|other| other.id != id && other.is_bound_to(port, conn))
    }

    /// A number for a new association.
    pub(crate) fn next_association(&self) -> sctp_assoc_t {
        let mut state = lock(&self.state);
        let id = state.next_association;
        state.next_association = id.checked_add(1).unwrap_or(FIRST_ASSOCIATION);
        id
    }

    /// The endpoint at `home`, bound now if need be.
    pub(crate) fn endpoint(self: &Arc<Self>, home: &Home) -> Result<Endpoint, Errno> {
        let mut state = lock(&self.state);
        if let Home::Conn(at) = home {
            state.retired.remove(at);
        }
        if let Some(endpoint) = state.endpoints.get(home) {
            return Ok(endpoint.clone());
        }
        state.sweep();
        let _within = self.runtime.enter();
        let endpoint = match home {
            Home::Udp(ips) => bind(Carrier::Udp, ips, self.udp_port)?,
            Home::Ip(ips) => bind(Carrier::Ip, ips, 0)?,
            Home::Conn(at) => {
                let (endpoint, input) = self.over(*at)?;
                state.inputs.insert(*at, input);
                endpoint
            }
        };
        state.endpoints.insert(home.clone(), endpoint.clone());
        Ok(endpoint)
    }

    /// An endpoint whose packets the program carries.
    fn over(&self, at: usize) -> Result<(Endpoint, PacketInput), Errno> {
        let send = self.conn_output.ok_or(Errno(libc::ENETUNREACH))?;
        let output = move |packet: Datagram| {
            let mut bytes = packet.payload.to_vec();
            checksum::on_output(&mut bytes);
            let at = std::ptr::with_exposed_provenance_mut(at);
            // SAFETY: the function that the program passed to `usrsctp_init`, with the address that the program registered or
            // bound and a packet of this length, which the function may change.
            let _lost = unsafe { send(at, bytes.as_mut_ptr().cast(), bytes.len(), 0, 0) };
        };
        Ok(Endpoint::over(Bind::to([conn_local(at)]), Box::new(output))?)
    }

    /// A packet of the AF_CONN address `at` arrived.
    pub(crate) fn input(&self, at: usize, packet: &[u8]) {
        let Some(input) = lock(&self.state).inputs.get(&at).cloned() else { return };
        input.receive(conn_peer(at), conn_local(at), Bytes::from(checksum::on_input(packet)));
    }

    /// The program no longer uses the AF_CONN address `at`. Its endpoint ends once its last association has ended and another
    /// endpoint is bound.
    pub(crate) fn deregister(&self, at: usize) {
        lock(&self.state).retired.insert(at);
    }

    /// The statistics of all endpoints.
    pub(crate) fn statistics(&self) -> sctpstat {
        let totals = lock(&self.state).endpoints.values().map(Endpoint::totals).fold(
            (0u64, 0u64, 0u64),
            |(sent, received, again), totals| {
                let again = again + totals.retransmitted_chunks;
                (sent + totals.packets_sent, received + totals.packets_received, again)
            },
        );
        // Counters of 32 bits wrap.
        let (sent, received, again) = (totals.0 as u32, totals.1 as u32, totals.2 as u32);
        sctpstat {
            sctps_outpackets: sent,
            sctps_inpackets: received,
            sctps_sendpackets: sent,
            sctps_recvpackets: received,
            sctps_sendretransdata: again,
        }
    }

    /// Prints a line, if the program has requested debug output.
    pub(crate) fn print(&self, line: &str) {
        let Some(print) = self.debug_printf.filter(|_| sysctl::debug()) else { return };
        let Ok(line) = std::ffi::CString::new(format!("{line}\n")) else { return };
        // SAFETY: the function that the program passed to `usrsctp_init`, with a format and the one string that it names.
        unsafe { print(c"%s".as_ptr(), line.as_ptr()) };
    }
}

impl State {
    /// Ends the endpoints of AF_CONN addresses that are not used any more.
    fn sweep(&mut self) {
        let Self { endpoints, inputs, retired, .. } = self;
        retired.retain(|at| {
            let home = Home::Conn(*at);
            if endpoints.get(&home).is_some_and(|endpoint| endpoint.associations() > 0) {
                return true;
            }
            endpoints.remove(&home);
            inputs.remove(at);
            false
        });
    }
}

/// Binds an endpoint at these addresses. A host without IPv6 does without the wildcard of IPv6.
fn bind(carrier: Carrier, ips: &[IpAddr], port: u16) -> Result<Endpoint, Errno> {
    let at = |ips: &[IpAddr]| {
        let addrs = ips.iter().map(|ip| SocketAddr::new(*ip, port));
        Endpoint::bind(Bind { carrier, ..Bind::to(addrs) })
    };
    match at(ips) {
        Err(_) if ips == everywhere() => Ok(at(&[Ipv4Addr::UNSPECIFIED.into()])?),
        bound => Ok(bound?),
    }
}

/// All addresses of the host.
pub(crate) fn everywhere() -> Vec<IpAddr> {
    vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
}
