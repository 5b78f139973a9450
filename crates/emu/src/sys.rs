//! The few calls that have no safe wrapper: leaving a namespace, setting up a TUN device, going before others, and giving free
//! memory back.
#![allow(
    unsafe_code,
    reason = "unshare, scheduling and the ioctls of TUN devices and interfaces have no safe wrapper"
)]

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::UnshareFlags;

/// Gives memory that the allocator keeps for later back to the system, where the allocator is glibc's. Elsewhere nothing
/// happens. It takes some milliseconds.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes a number and touches memory that is free alone; it may be called from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The device through which TUN interfaces are made.
pub(crate) const TUN_DEVICE: &str = "/dev/net/tun";

/// Packets that a TUN device keeps while nobody reads: at 500 Mbit/s, those of 50 ms. It is empty but for a machine that
/// stalls.
const QUEUE_PACKETS: u16 = 2_000;

/// Moves this thread, and those that it will start, into a network namespace of its own.
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: CLONE_NEWNET changes which network this thread's new sockets belong to. Unlike CLONE_FILES and CLONE_FS,
    // of which the function warns, it takes nothing away that other code relies on: open sockets stay as they are.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves this process into a user namespace of its own, in which it may do all. It must have one thread only.
pub(crate) fn leave_users() -> io::Result<()> {
    // SAFETY: as above; the kernel refuses it to a process with several threads.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?)
}

/// Makes a TUN interface in this thread's namespace. It lives as long as the descriptor, which does not block and reads
/// and writes whole IP packets.
pub(crate) fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let fd = rustix::fs::open(TUN_DEVICE, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    ioctl(fd.as_fd(), libc::TUNSETIFF, &mut request)?;
    Ok(fd)
}

/// Gives an interface of this thread's namespace an address, a netmask and an MTU, and brings it up.
pub(crate) fn configure(name: &str, address: Ipv4Addr, netmask: Ipv4Addr, mtu: u16) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let change = |kind, value| {
        let mut request = request(name);
        request.ifr_ifru = value;
        ioctl(socket.as_fd(), kind, &mut request)
    };
    change(libc::SIOCSIFADDR, libc::__c_anonymous_ifr_ifru { ifru_addr: socket_address(address) })?;
    change(libc::SIOCSIFNETMASK, libc::__c_anonymous_ifr_ifru { ifru_netmask: socket_address(netmask) })?;
    change(libc::SIOCSIFMTU, libc::__c_anonymous_ifr_ifru { ifru_mtu: mtu.into() })?;
    set_queue(name, QUEUE_PACKETS)?;
    bring_up(name)
}

/// Gives an interface of this thread's namespace room for so many packets that its reader did not take yet.
fn set_queue(name: &str, packets: u16) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = request(name);
    // `ifr_qlen`, which is as the metric an integer.
    request.ifr_ifru.ifru_metric = packets.into();
    ioctl(socket.as_fd(), libc::SIOCSIFTXQLEN, &mut request)
}

/// Lets this thread run before all that share the machine's time, whenever it has something to do. The threads that it
/// starts are as others.
pub(crate) fn go_before_others() -> io::Result<()> {
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: a `sched_param` is plain bytes, of which some systems have more than the priority; it is read and not kept.
    let done = unsafe {
        let mut how: libc::sched_param = std::mem::zeroed();
        how.sched_priority = 1;
        libc::sched_setscheduler(0, policy, &how)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings an interface of this thread's namespace up.
pub(crate) fn bring_up(name: &str) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    ioctl(socket.as_fd(), libc::SIOCSIFFLAGS, &mut request)
}

fn ioctl(fd: BorrowedFd<'_>, kind: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all requests used in this file (TUNSETIFF, SIOCSIF*) take a pointer to one `ifreq`, which they read and
    // perhaps write within its bounds, and keep nothing.
    match unsafe { libc::ioctl(fd.as_raw_fd(), kind, std::ptr::from_mut(request)) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: an `ifreq` is plain bytes; all zero is an empty name and a zero union.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(name.len() < request.ifr_name.len(), "the names are ours, and short");
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}
