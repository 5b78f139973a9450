//! The calls from Rust, with arguments right and wrong. The stack is the process's own, so one test runs at a time.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard};

use braidsctp::abi::*;
use braidsctp::calls::*;
use braidsctp::transfer::*;
use libc::{IPPROTO_SCTP, SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET, socklen_t};
use proptest::prelude::*;

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().expect("another test failed, and its sockets are open")
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// A call that failed with this error.
fn fails(returned: c_int, with: c_int) {
    assert_eq!((returned, errno()), (-1, with));
}

fn start() {
    // SAFETY: without functions.
    unsafe { usrsctp_init(0, Some(carry), None) };
}

fn finish() {
    while usrsctp_finish() != 0 {
        assert_eq!(errno(), libc::EBUSY);
        std::thread::yield_now();
    }
}

fn open(kind: c_int) -> *mut socket {
    // SAFETY: without callbacks.
    unsafe { usrsctp_socket(AF_CONN, kind, IPPROTO_SCTP, None, None, 0, null_mut()) }
}

fn set<T>(so: *mut socket, name: c_int, value: &T) -> c_int {
    let (at, len) = ((&raw const *value).cast(), size_of::<T>() as socklen_t);
    // SAFETY: the value is there.
    unsafe { usrsctp_setsockopt(so, IPPROTO_SCTP, name, at, len) }
}

fn get<T: Copy>(so: *mut socket, name: c_int, question: T) -> T {
    let (mut value, mut len) = (question, size_of::<T>() as socklen_t);
    // SAFETY: the value is there.
    let returned =
        unsafe { usrsctp_getsockopt(so, IPPROTO_SCTP, name, (&raw mut value).cast(), &raw mut len) };
    assert_eq!((returned, len as usize), (0, size_of::<T>()));
    value
}

/// The AF_CONN addresses of the two ends, which are not pointers to anything.
const ENDS: [usize; 2] = [0x1000, 0x2000];

/// What one end sends the other receives.
unsafe extern "C" fn carry(addr: *mut c_void, buffer: *mut c_void, length: usize, _: u8, _: u8) -> c_int {
    let other = if addr.addr() == ENDS[0] { ENDS[1] } else { ENDS[0] };
    // SAFETY: the packet is there.
    unsafe { usrsctp_conninput(std::ptr::without_provenance_mut(other), buffer, length, 0) };
    0
}

fn name(at: usize) -> sockaddr_conn {
    let sconn_addr = std::ptr::without_provenance_mut(at);
    sockaddr_conn { sconn_family: AF_CONN as u16, sconn_port: 5001u16.to_be(), sconn_addr }
}

fn bind(so: *mut socket, at: usize) {
    let (name, len) = (name(at), size_of::<sockaddr_conn>() as socklen_t);
    // SAFETY: the address is there.
    assert_eq!(unsafe { usrsctp_bind(so, (&raw const name).cast(), len) }, 0);
}

/// Receives into `buffer`; the length, and the flags.
fn receive(so: *mut socket, buffer: &mut [u8]) -> (isize, c_int, sctp_rcvinfo) {
    let mut info = sctp_rcvinfo::default();
    let (mut kind, mut flags, mut len) = (0, 0, size_of_val(&info) as socklen_t);
    // SAFETY: all places are there, or null.
    let received = unsafe {
        usrsctp_recvv(
            so,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            null_mut(),
            null_mut(),
            (&raw mut info).cast(),
            &raw mut len,
            &raw mut kind,
            &raw mut flags,
        )
    };
    (received, flags, info)
}

fn send(so: *mut socket, data: &[u8], info: &sctp_sndinfo) -> isize {
    let (at, len) = ((&raw const *info).cast(), size_of_val(info) as socklen_t);
    // SAFETY: data and information are there.
    unsafe { usrsctp_sendv(so, data.as_ptr().cast(), data.len(), null(), 0, at, len, SCTP_SENDV_SNDINFO, 0) }
}

fn sndinfo() -> sctp_sndinfo {
    sctp_sndinfo { snd_sid: 3, snd_flags: 0, snd_ppid: 39u32.to_be(), snd_context: 7, snd_assoc_id: 0 }
}

#[test]
fn wrong_handles_null_pointers_and_short_lengths_are_refused() {
    let _alone = alone();
    // Another test may have started the stack.
    finish();
    assert!(open(SOCK_STREAM).is_null());
    assert_eq!(errno(), libc::ENETDOWN);
    start();
    let so = open(SOCK_STREAM);
    assert!(!so.is_null());
    fails(usrsctp_finish(), libc::EBUSY);
    for wrong in [null_mut(), std::ptr::without_provenance_mut(12_345)] {
        fails(usrsctp_listen(wrong, 1), libc::EBADF);
        assert_eq!(set(wrong, SCTP_NODELAY, &1), -1);
        assert_eq!(errno(), libc::EBADF);
    }
    // SAFETY: null is refused.
    unsafe {
        fails(usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_EVENT, null(), 12), libc::EFAULT);
        fails(usrsctp_getsockopt(so, IPPROTO_SCTP, SCTP_EVENT, null_mut(), null_mut()), libc::EFAULT);
        fails(usrsctp_bind(so, null(), 16), libc::EFAULT);
        fails(usrsctp_connect(so, null(), 16), libc::EFAULT);
        fails(usrsctp_getpaddrs(so, 0, null_mut()), libc::EFAULT);
        let all = usrsctp_sendv(so, null(), 3, null(), 0, null(), 0, SCTP_SENDV_NOINFO, 0);
        assert_eq!((all, errno()), (-1, libc::EFAULT));
        usrsctp_conninput(null_mut(), null(), 40, 0);
        assert!(usrsctp_dumppacket(null(), 3, 0).is_null());
        usrsctp_freedumpbuffer(null_mut());
        usrsctp_freepaddrs(null_mut());
    }
    fails(set(so, SCTP_EVENT, &1u8), libc::EINVAL);
    fails(set(so, 0x7777, &1u32), libc::EOPNOTSUPP);
    fails(set(so, SCTP_NODELAY, &0), libc::EOPNOTSUPP);
    let dry = sctp_event { se_assoc_id: 0, se_type: SCTP_SENDER_DRY_EVENT, se_on: 1 };
    fails(set(so, SCTP_EVENT, &dry), libc::EOPNOTSUPP);
    fails(usrsctp_listen(so, 1), libc::EINVAL);
    fails(usrsctp_shutdown(so, libc::SHUT_WR), libc::ENOTCONN);
    assert_eq!((receive(so, &mut [0; 9]).0, errno()), (-1, libc::ENOTCONN));
    assert_eq!((send(so, b"x", &sndinfo()), errno()), (-1, libc::ENOTCONN));
    assert_eq!((receive(so, &mut []).0, errno()), (-1, libc::EINVAL));
    usrsctp_close(so);
    fails(usrsctp_listen(so, 1), libc::EBADF);
    usrsctp_close(so);
    finish();
}

#[test]
fn options_are_read_as_they_were_set() {
    let _alone = alone();
    start();
    let so = open(SOCK_SEQPACKET);
    let init = sctp_initmsg {
        sinit_num_ostreams: 77,
        sinit_max_instreams: 88,
        sinit_max_attempts: 4,
        sinit_max_init_timeo: 0,
    };
    assert_eq!(set(so, SCTP_INITMSG, &init), 0);
    let read = get(so, SCTP_INITMSG, init);
    assert_eq!((read.sinit_num_ostreams, read.sinit_max_instreams, read.sinit_max_attempts), (77, 88, 4));
    let rto = sctp_rtoinfo { srto_assoc_id: 0, srto_initial: 500, srto_max: 9_000, srto_min: 200 };
    assert_eq!(set(so, SCTP_RTOINFO, &rto), 0);
    assert_eq!(set(so, SCTP_RTOINFO, &sctp_rtoinfo { srto_initial: 0, srto_max: 0, srto_min: 0, ..rto }), 0);
    let read = get(so, SCTP_RTOINFO, sctp_rtoinfo { srto_initial: 0, srto_max: 0, srto_min: 0, ..rto });
    assert_eq!((read.srto_initial, read.srto_max, read.srto_min), (500, 9_000, 200));
    fails(set(so, SCTP_RTOINFO, &sctp_rtoinfo { srto_min: 10_000, ..rto }), libc::EINVAL);
    fails(set(so, SCTP_RTOINFO, &sctp_rtoinfo { srto_assoc_id: 99, ..rto }), libc::ENOENT);
    let sack = sctp_sack_info { sack_assoc_id: 0, sack_delay: 100, sack_freq: 1 };
    assert_eq!(set(so, SCTP_DELAYED_SACK, &sack), 0);
    assert_eq!(get(so, SCTP_DELAYED_SACK, sctp_sack_info { sack_delay: 0, ..sack }).sack_delay, 100);
    fails(set(so, SCTP_DELAYED_SACK, &sctp_sack_info { sack_delay: 501, ..sack }), libc::EINVAL);
    let event = sctp_event { se_assoc_id: SCTP_ALL_ASSOC, se_type: SCTP_ASSOC_CHANGE, se_on: 1 };
    assert_eq!(get(so, SCTP_EVENT, event).se_on, 0);
    assert_eq!(set(so, SCTP_EVENT, &event), 0);
    assert_eq!(get(so, SCTP_EVENT, event).se_on, 1);
    let value = sctp_assoc_value { assoc_id: 0, assoc_value: 0 };
    assert_eq!(get(so, SCTP_PR_SUPPORTED, value).assoc_value, 1);
    assert_eq!(set(so, SCTP_PR_SUPPORTED, &value), 0);
    assert_eq!(get(so, SCTP_PR_SUPPORTED, value).assoc_value, 0);
    usrsctp_close(so);
    finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_option_makes_the_library_panic(
        name in prop_oneof![0..0x40, 0x100..0x10a, 0x900..0x904, any::<c_int>()],
        level in prop_oneof![Just(IPPROTO_SCTP), Just(SOL_SOCKET), any::<c_int>()],
        mut bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), any::<u8>()], 0..250),
        kind in prop_oneof![Just(SOCK_STREAM), Just(SOCK_SEQPACKET)],
    ) {
        let _alone = alone();
        start();
        let so = open(kind);
        let mut len = bytes.len() as socklen_t;
        // SAFETY: the bytes are there.
        let returned = unsafe {
            let set = usrsctp_setsockopt(so, level, name, bytes.as_ptr().cast(), len);
            prop_assert!(set == 0 || errno() != libc::EIO, "{}", errno());
            usrsctp_getsockopt(so, level, name, bytes.as_mut_ptr().cast(), &raw mut len)
        };
        prop_assert!(returned == 0 || errno() != libc::EIO, "{}", errno());
        prop_assert!(len as usize <= bytes.len());
        usrsctp_close(so);
    }
}

#[test]
fn messages_and_notifications_arrive_in_order_over_functions_of_the_program() {
    let _alone = alone();
    start();
    let (client, listener) = (open(SOCK_STREAM), open(SOCK_STREAM));
    for so in [client, listener] {
        assert_eq!(set(so, SCTP_RECVRCVINFO, &1), 0);
        for se_type in [SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT, SCTP_STREAM_RESET_EVENT] {
            assert_eq!(set(so, SCTP_EVENT, &sctp_event { se_assoc_id: 0, se_type, se_on: 1 }), 0);
        }
        let may = sctp_assoc_value { assoc_id: SCTP_ALL_ASSOC, assoc_value: SCTP_ENABLE_RESET_STREAM_REQ };
        assert_eq!(set(so, SCTP_ENABLE_STREAM_RESET, &may), 0);
    }
    bind(listener, ENDS[1]);
    assert_eq!(usrsctp_listen(listener, 1), 0);
    bind(client, ENDS[0]);
    let (peer, len) = (name(ENDS[0]), size_of::<sockaddr_conn>() as socklen_t);
    // SAFETY: the address is valid; no address is requested.
    let server = unsafe {
        assert_eq!(usrsctp_connect(client, (&raw const peer).cast(), len), 0);
        usrsctp_accept(listener, null_mut(), null_mut())
    };
    assert!(!server.is_null());
    let notification = |so: *mut socket, kind: u16, size: usize| {
        let mut buffer = [0u8; 300];
        let (len, flags, _) = receive(so, &mut buffer);
        assert_eq!(flags, MSG_NOTIFICATION | libc::MSG_EOR, "{len} {buffer:?}");
        assert_eq!(u16::from_ne_bytes([buffer[0], buffer[1]]), kind);
        assert_eq!(u32::from_ne_bytes(buffer[4..8].try_into().unwrap()) as isize, len);
        assert!(len as usize >= size, "{len} of {size}");
        buffer
    };
    for so in [client, server] {
        let up = notification(so, SCTP_ASSOC_CHANGE, size_of::<sctp_assoc_change>());
        assert_eq!(u16::from_ne_bytes([up[8], up[9]]), SCTP_COMM_UP);
    }
    assert_eq!(send(client, b"hello", &sndinfo()), 5);
    let (mut first, mut rest) = ([0; 3], [0; 9]);
    let (len, flags, info) = receive(server, &mut first);
    assert_eq!((len, flags, &first), (3, 0, b"hel"));
    assert_eq!((info.rcv_sid, info.rcv_ppid, info.rcv_flags), (3, 39u32.to_be(), 0));
    let (len, flags, _) = receive(server, &mut rest);
    assert_eq!((len, flags, &rest[..2]), (2, libc::MSG_EOR, &b"lo"[..]));
    let reset = [0u32.to_ne_bytes(), [2, 0, 1, 0], [3, 0, 0, 0]].concat();
    let (at, len) = (reset.as_ptr().cast(), reset.len() as socklen_t);
    // SAFETY: the list is there.
    assert_eq!(unsafe { usrsctp_setsockopt(client, IPPROTO_SCTP, SCTP_RESET_STREAMS, at, len) }, 0);
    let event = notification(server, SCTP_STREAM_RESET_EVENT, size_of::<sctp_stream_reset_event>() + 2);
    assert_eq!((event[2], event[12]), (SCTP_STREAM_RESET_INCOMING_SSN as u8, 3));
    let event = notification(client, SCTP_STREAM_RESET_EVENT, size_of::<sctp_stream_reset_event>() + 2);
    assert_eq!((event[2], event[12]), (SCTP_STREAM_RESET_OUTGOING_SSN as u8, 3));
    assert_eq!(send(client, b"last", &sctp_sndinfo { snd_flags: SCTP_UNORDERED | SCTP_EOF, ..sndinfo() }), 4);
    let (len, _, info) = receive(server, &mut rest);
    assert_eq!((len, info.rcv_flags), (4, SCTP_UNORDERED));
    notification(server, SCTP_SHUTDOWN_EVENT, size_of::<sctp_shutdown_event>());
    for so in [client, server] {
        let end = notification(so, SCTP_ASSOC_CHANGE, size_of::<sctp_assoc_change>());
        assert_eq!(u16::from_ne_bytes([end[8], end[9]]), SCTP_SHUTDOWN_COMP);
        assert_eq!(receive(so, &mut rest).0, 0, "the end of the association");
    }
    // The port belongs to the listening socket, not to those that it accepted.
    usrsctp_close(listener);
    let again = open(SOCK_STREAM);
    bind(again, ENDS[1]);
    assert_eq!(usrsctp_listen(again, 1), 0);
    [client, server, again].into_iter().for_each(|so| usrsctp_close(so));
    finish();
}
