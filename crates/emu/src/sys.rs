//! System calls without a safe wrapper: leaving a namespace, setting up a TUN device, real-time scheduling, the state of a
//! TCP connection, and returning free memory.
#![allow(
    unsafe_code,
    reason = "unshare, scheduling, TCP_INFO, mallctl and the ioctls of TUN devices and interfaces have no safe wrapper"
)]

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::UnshareFlags;

/// Returns the free memory that jemalloc keeps to the system. Takes some milliseconds. In programs with another
/// allocator this function does nothing.
pub fn release_free_memory() {
    // All arenas: MALLCTL_ARENAS_ALL is 4096.
    let purge = c"arena.4096.purge".as_ptr();
    let (nothing, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name is a string of C, the command reads and writes no value, and any thread may give it. It only changes
    // memory that is free.
    unsafe {
        tikv_jemalloc_sys::mallctl(purge, nothing, none, nothing, 0);
    }
}

/// The device that creates TUN interfaces.
pub(crate) const TUN_DEVICE: &str = "/dev/net/tun";

/// The queue of a TUN device in packets: 50 ms at 500 Mbit/s. It is empty unless the machine stalls.
const QUEUE_PACKETS: u16 = 2_000;

/// Moves this thread, and those that it will start, into a new network namespace.
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: CLONE_NEWNET changes the network of this thread's new sockets. Unlike CLONE_FILES and CLONE_FS, against which the
    // function's documentation warns, it invalidates nothing that other code relies on: open sockets are unchanged.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves this process into a new user namespace in which it has all capabilities. The process must have a
/// single thread.
pub(crate) fn leave_users() -> io::Result<()> {
    // SAFETY: as above; the kernel refuses it to a process with several threads.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?)
}

/// Creates a TUN interface in this thread's namespace. The interface exists as long as the descriptor, which
/// is non-blocking and reads and writes whole IP packets.
pub(crate) fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let fd = rustix::fs::open(TUN_DEVICE, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    ioctl(fd.as_fd(), libc::TUNSETIFF, &mut request)?;
    Ok(fd)
}

/// Sets the address, netmask and MTU of an interface in this thread's namespace, and brings the interface up.
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

/// Sets the queue length of an interface in this thread's namespace, in packets.
fn set_queue(name: &str, packets: u16) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = request(name);
    // The field `ifr_qlen` is an integer like the metric.
    request.ifr_ifru.ifru_metric = packets.into();
    ioctl(socket.as_fd(), libc::SIOCSIFTXQLEN, &mut request)
}

/// Gives this thread real-time priority. Threads that it starts have normal priority.
pub(crate) fn use_realtime_scheduling() -> io::Result<()> {
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: a `sched_param` is plain bytes, of which some systems have more than the priority; it is read and not kept.
    let done = unsafe {
        let mut how: libc::sched_param = std::mem::zeroed();
        how.sched_priority = 1;
        libc::sched_setscheduler(0, policy, &how)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel knows of a TCP connection that sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The congestion window in bytes.
    pub cwnd_bytes: u64,
    /// The smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Segments that were sent again.
    pub retransmissions: u64,
}

/// Returns the state of a TCP connection (TCP_INFO).
///
/// # Errors
///
/// The kernel refuses the option.
pub fn tcp_info(stream: &TcpStream) -> io::Result<TcpInfo> {
    // SAFETY: a `tcp_info` is plain numbers. The kernel writes at most `length` bytes into it, fewer if it knows fewer
    // fields, and keeps no pointer.
    let (done, info) = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        let place = std::ptr::from_mut(&mut info).cast();
        let fd = stream.as_raw_fd();
        (libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut length), info)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TcpInfo {
        cwnd_bytes: u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
        srtt: Duration::from_micros(info.tcpi_rtt.into()),
        retransmissions: info.tcpi_total_retrans.into(),
    })
}

/// Brings an interface of this thread's namespace up.
pub(crate) fn bring_up(name: &str) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    ioctl(socket.as_fd(), libc::SIOCSIFFLAGS, &mut request)
}

fn ioctl(fd: BorrowedFd<'_>, kind: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all requests used in this file (TUNSETIFF, SIOCSIF*) take a pointer to one `ifreq`, which they
    // read and may write within its bounds, and do not keep.
    match unsafe { libc::ioctl(fd.as_raw_fd(), kind, std::ptr::from_mut(request)) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: an `ifreq` is plain bytes; all zero is an empty name and a zero union.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(name.len() < request.ifr_name.len(), "interface names of this crate are short");
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_kernel_reports_the_window_and_the_round_trip_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        sender.write_all(&[1; 10_000]).unwrap();
        reader.read_exact(&mut [0; 10_000]).unwrap();
        let info = tcp_info(&sender).unwrap();
        // Ten segments (RFC 6928) of what loopback carries, and some microseconds.
        assert!((5_000..10_000_000).contains(&info.cwnd_bytes), "{info:?}");
        assert!(info.srtt > Duration::ZERO && info.srtt < Duration::from_secs(5), "{info:?}");
    }
}
