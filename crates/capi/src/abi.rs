//! The constants and structures of the C API: names and layouts of RFC 6458, RFC 6525 and usrsctp, so that programs compile
//! unchanged. cbindgen writes `include/braidsctp.h` from this file.
#![allow(
    missing_docs,
    reason = "fields and constants have the names of RFC 6458; each structure names its section"
)]
#![allow(non_camel_case_types, reason = "the names are those of C")]

use std::ffi::{c_int, c_uint, c_void};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};

/// The number of an association within the program (RFC 6458 §7.2).
pub type sctp_assoc_t = u32;

// The address family of [`sockaddr_conn`]: packets pass through functions of the program.
pub const AF_CONN: c_int = 123;

// The flag of a received notification.
pub const MSG_NOTIFICATION: c_int = 0x2000;

// Values of `assoc_id` in options (RFC 6458 §7.2).
pub const SCTP_FUTURE_ASSOC: u32 = 0;
pub const SCTP_CURRENT_ASSOC: u32 = 1;
pub const SCTP_ALL_ASSOC: u32 = 2;

// What `usrsctp_get_events` returns.
pub const SCTP_EVENT_READ: c_int = 1;
pub const SCTP_EVENT_WRITE: c_int = 2;
pub const SCTP_EVENT_ERROR: c_int = 4;

// The kinds of `info` of `usrsctp_recvv` (RFC 6458 §9.13).
pub const SCTP_RECVV_NOINFO: c_uint = 0;
pub const SCTP_RECVV_RCVINFO: c_uint = 1;
pub const SCTP_RECVV_NXTINFO: c_uint = 2;
pub const SCTP_RECVV_RN: c_uint = 3;

// The kinds of `info` of `usrsctp_sendv` (RFC 6458 §9.12).
pub const SCTP_SENDV_NOINFO: c_uint = 0;
pub const SCTP_SENDV_SNDINFO: c_uint = 1;
pub const SCTP_SENDV_PRINFO: c_uint = 2;
pub const SCTP_SENDV_AUTHINFO: c_uint = 3;
pub const SCTP_SENDV_SPA: c_uint = 4;

// Which parts of [`sctp_sendv_spa`] are valid.
pub const SCTP_SEND_SNDINFO_VALID: u32 = 1;
pub const SCTP_SEND_PRINFO_VALID: u32 = 2;
pub const SCTP_SEND_AUTHINFO_VALID: u32 = 4;

// Types of notifications (RFC 6458 §6.1).
pub const SCTP_ASSOC_CHANGE: u16 = 0x1;
pub const SCTP_PEER_ADDR_CHANGE: u16 = 0x2;
pub const SCTP_REMOTE_ERROR: u16 = 0x3;
pub const SCTP_SEND_FAILED: u16 = 0x4;
pub const SCTP_SHUTDOWN_EVENT: u16 = 0x5;
pub const SCTP_ADAPTATION_INDICATION: u16 = 0x6;
pub const SCTP_PARTIAL_DELIVERY_EVENT: u16 = 0x7;
pub const SCTP_AUTHENTICATION_EVENT: u16 = 0x8;
pub const SCTP_STREAM_RESET_EVENT: u16 = 0x9;
pub const SCTP_SENDER_DRY_EVENT: u16 = 0xa;
pub const SCTP_NOTIFICATIONS_STOPPED_EVENT: u16 = 0xb;
pub const SCTP_ASSOC_RESET_EVENT: u16 = 0xc;
pub const SCTP_STREAM_CHANGE_EVENT: u16 = 0xd;
pub const SCTP_SEND_FAILED_EVENT: u16 = 0xe;

// Values of `sac_state` (RFC 6458 §6.1.1).
pub const SCTP_COMM_UP: u16 = 1;
pub const SCTP_COMM_LOST: u16 = 2;
pub const SCTP_RESTART: u16 = 3;
pub const SCTP_SHUTDOWN_COMP: u16 = 4;
pub const SCTP_CANT_STR_ASSOC: u16 = 5;

// Values of `sac_info` (RFC 6458 §6.1.1).
pub const SCTP_ASSOC_SUPPORTS_PR: u8 = 1;
pub const SCTP_ASSOC_SUPPORTS_AUTH: u8 = 2;
pub const SCTP_ASSOC_SUPPORTS_ASCONF: u8 = 3;
pub const SCTP_ASSOC_SUPPORTS_MULTIBUF: u8 = 4;
pub const SCTP_ASSOC_SUPPORTS_RE_CONFIG: u8 = 5;
pub const SCTP_ASSOC_SUPPORTS_INTERLEAVING: u8 = 6;
pub const SCTP_ASSOC_SUPPORTS_MAX: u8 = 6;

// Values of `spc_state` (RFC 6458 §6.1.2).
pub const SCTP_ADDR_AVAILABLE: u32 = 1;
pub const SCTP_ADDR_UNREACHABLE: u32 = 2;
pub const SCTP_ADDR_REMOVED: u32 = 3;
pub const SCTP_ADDR_ADDED: u32 = 4;
pub const SCTP_ADDR_MADE_PRIM: u32 = 5;
pub const SCTP_ADDR_CONFIRMED: u32 = 6;

// Values of `pdapi_indication` (RFC 6458 §6.1.7).
pub const SCTP_PARTIAL_DELIVERY_ABORTED: u32 = 1;

// Values of `auth_indication` (RFC 6458 §6.1.8).
pub const SCTP_AUTH_NEW_KEY: u32 = 1;
pub const SCTP_AUTH_NO_AUTH: u32 = 2;
pub const SCTP_AUTH_FREE_KEY: u32 = 3;

// Flags of `strreset_flags` (RFC 6525 §6.1.1).
pub const SCTP_STREAM_RESET_INCOMING_SSN: u16 = 1;
pub const SCTP_STREAM_RESET_OUTGOING_SSN: u16 = 2;
pub const SCTP_STREAM_RESET_DENIED: u16 = 4;
pub const SCTP_STREAM_RESET_FAILED: u16 = 8;
pub const SCTP_STREAM_CHANGED_DENIED: u16 = 0x10;

// Flags of `srs_flags` (RFC 6525 §6.3.2).
pub const SCTP_STREAM_RESET_INCOMING: u16 = 1;
pub const SCTP_STREAM_RESET_OUTGOING: u16 = 2;

// Flags of `assocreset_flags` and `strchange_flags` (RFC 6525 §6.1.2, §6.1.3).
pub const SCTP_ASSOC_RESET_DENIED: u16 = 4;
pub const SCTP_ASSOC_RESET_FAILED: u16 = 8;
pub const SCTP_STREAM_CHANGE_DENIED: u16 = 4;
pub const SCTP_STREAM_CHANGE_FAILED: u16 = 8;

// Flags of `ssfe_flags` (RFC 6458 §6.1.11).
pub const SCTP_DATA_UNSENT: u16 = 1;
pub const SCTP_DATA_SENT: u16 = 2;

// Flags of `snd_flags` and `rcv_flags` (RFC 6458 §5.3.4).
pub const SCTP_EOF: u16 = 0x0100;
pub const SCTP_ABORT: u16 = 0x0200;
pub const SCTP_UNORDERED: u16 = 0x0400;
pub const SCTP_ADDR_OVER: u16 = 0x0800;
pub const SCTP_SENDALL: u16 = 0x1000;
pub const SCTP_EOR: u16 = 0x2000;
pub const SCTP_SACK_IMMEDIATELY: u16 = 0x4000;

// Policies of partial reliability (RFC 3758, RFC 7496).
pub const SCTP_PR_SCTP_NONE: u16 = 0;
pub const SCTP_PR_SCTP_TTL: u16 = 1;
pub const SCTP_PR_SCTP_BUF: u16 = 2;
pub const SCTP_PR_SCTP_RTX: u16 = 3;

// Options (RFC 6458 §8, RFC 6525 §6.3, RFC 6951 §6.1). `README.md` lists those that are offered; all others fail with EOPNOTSUPP.
pub const SCTP_RTOINFO: c_int = 0x1;
pub const SCTP_ASSOCINFO: c_int = 0x2;
pub const SCTP_INITMSG: c_int = 0x3;
pub const SCTP_NODELAY: c_int = 0x4;
pub const SCTP_AUTOCLOSE: c_int = 0x5;
pub const SCTP_SET_PEER_PRIMARY_ADDR: c_int = 0x6;
pub const SCTP_PRIMARY_ADDR: c_int = 0x7;
pub const SCTP_ADAPTATION_LAYER: c_int = 0x8;
pub const SCTP_DISABLE_FRAGMENTS: c_int = 0x9;
pub const SCTP_PEER_ADDR_PARAMS: c_int = 0xa;
pub const SCTP_I_WANT_MAPPED_V4_ADDR: c_int = 0xd;
pub const SCTP_MAXSEG: c_int = 0xe;
pub const SCTP_DELAYED_SACK: c_int = 0xf;
pub const SCTP_FRAGMENT_INTERLEAVE: c_int = 0x10;
pub const SCTP_PARTIAL_DELIVERY_POINT: c_int = 0x11;
pub const SCTP_AUTH_CHUNK: c_int = 0x12;
pub const SCTP_AUTH_KEY: c_int = 0x13;
pub const SCTP_HMAC_IDENT: c_int = 0x14;
pub const SCTP_AUTH_ACTIVE_KEY: c_int = 0x15;
pub const SCTP_AUTH_DELETE_KEY: c_int = 0x16;
pub const SCTP_AUTO_ASCONF: c_int = 0x18;
pub const SCTP_MAX_BURST: c_int = 0x19;
pub const SCTP_CONTEXT: c_int = 0x1a;
pub const SCTP_EXPLICIT_EOR: c_int = 0x1b;
pub const SCTP_REUSE_PORT: c_int = 0x1c;
pub const SCTP_AUTH_DEACTIVATE_KEY: c_int = 0x1d;
pub const SCTP_EVENT: c_int = 0x1e;
pub const SCTP_RECVRCVINFO: c_int = 0x1f;
pub const SCTP_RECVNXTINFO: c_int = 0x20;
pub const SCTP_DEFAULT_SNDINFO: c_int = 0x21;
pub const SCTP_DEFAULT_PRINFO: c_int = 0x22;
pub const SCTP_REMOTE_UDP_ENCAPS_PORT: c_int = 0x24;
pub const SCTP_ECN_SUPPORTED: c_int = 0x25;
pub const SCTP_PR_SUPPORTED: c_int = 0x26;
pub const SCTP_AUTH_SUPPORTED: c_int = 0x27;
pub const SCTP_ASCONF_SUPPORTED: c_int = 0x28;
pub const SCTP_RECONFIG_SUPPORTED: c_int = 0x29;
pub const SCTP_NRSACK_SUPPORTED: c_int = 0x30;
pub const SCTP_PKTDROP_SUPPORTED: c_int = 0x31;
pub const SCTP_MAX_CWND: c_int = 0x32;
pub const SCTP_STATUS: c_int = 0x100;
pub const SCTP_GET_PEER_ADDR_INFO: c_int = 0x101;
pub const SCTP_PEER_AUTH_CHUNKS: c_int = 0x102;
pub const SCTP_LOCAL_AUTH_CHUNKS: c_int = 0x103;
pub const SCTP_GET_ASSOC_NUMBER: c_int = 0x104;
pub const SCTP_GET_ASSOC_ID_LIST: c_int = 0x105;
pub const SCTP_TIMEOUTS: c_int = 0x106;
pub const SCTP_PR_STREAM_STATUS: c_int = 0x107;
pub const SCTP_PR_ASSOC_STATUS: c_int = 0x108;
pub const SCTP_ENABLE_STREAM_RESET: c_int = 0x900;
pub const SCTP_RESET_STREAMS: c_int = 0x901;
pub const SCTP_RESET_ASSOC: c_int = 0x902;
pub const SCTP_ADD_STREAMS: c_int = 0x903;
pub const SCTP_PLUGGABLE_SS: c_int = 0x1203;
pub const SCTP_SS_VALUE: c_int = 0x1204;

// Flags of `spp_flags` (RFC 6458 §8.1.12).
pub const SPP_HB_ENABLE: u32 = 1;
pub const SPP_HB_DISABLE: u32 = 2;
pub const SPP_HB_DEMAND: u32 = 4;
pub const SPP_PMTUD_ENABLE: u32 = 8;
pub const SPP_PMTUD_DISABLE: u32 = 0x10;
pub const SPP_HB_TIME_IS_ZERO: u32 = 0x80;
pub const SPP_IPV6_FLOWLABEL: u32 = 0x100;
pub const SPP_DSCP: u32 = 0x200;

// Flags of SCTP_ENABLE_STREAM_RESET (RFC 6525 §6.3.1).
pub const SCTP_ENABLE_RESET_STREAM_REQ: u32 = 1;
pub const SCTP_ENABLE_RESET_ASSOC_REQ: u32 = 2;
pub const SCTP_ENABLE_CHANGE_ASSOC_REQ: u32 = 4;
pub const SCTP_ENABLE_VALUE_MASK: u32 = 7;

// Values of `sstat_state`.
pub const SCTP_CLOSED: i32 = 0;
pub const SCTP_BOUND: i32 = 0x1000;
pub const SCTP_LISTEN: i32 = 0x2000;
pub const SCTP_COOKIE_WAIT: i32 = 2;
pub const SCTP_COOKIE_ECHOED: i32 = 4;
pub const SCTP_ESTABLISHED: i32 = 8;
pub const SCTP_SHUTDOWN_SENT: i32 = 0x10;
pub const SCTP_SHUTDOWN_RECEIVED: i32 = 0x20;
pub const SCTP_SHUTDOWN_ACK_SENT: i32 = 0x40;
pub const SCTP_SHUTDOWN_PENDING: i32 = 0x80;

// Values of `spinfo_state`.
pub const SCTP_ACTIVE: i32 = 1;
pub const SCTP_INACTIVE: i32 = 2;
pub const SCTP_UNCONFIRMED: i32 = 0x200;

// Flags of `usrsctp_bindx`.
pub const SCTP_BINDX_ADD_ADDR: c_int = 0x8001;
pub const SCTP_BINDX_REM_ADDR: c_int = 0x8002;

// Directions of `usrsctp_dumppacket`.
pub const SCTP_DUMP_OUTBOUND: c_int = 1;
pub const SCTP_DUMP_INBOUND: c_int = 0;

// Values of `usrsctp_sysctl_set_sctp_debug_on`.
pub const SCTP_DEBUG_NONE: u32 = 0;
pub const SCTP_DEBUG_ALL: u32 = 0xffffffff;

/// A socket: an opaque handle, not an address. A handle that was closed is refused with EBADF.
///
/// cbindgen:no-export
#[repr(C)]
#[derive(Debug)]
pub struct socket {
    _opaque: [u8; 0],
}

/// The common header of a packet (RFC 9260 §3.1), in network byte order.
#[repr(C, packed)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_common_header {
    pub source_port: u16,
    pub destination_port: u16,
    pub verification_tag: u32,
    pub crc32c: u32,
}

/// An address that the program gives a meaning.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sockaddr_conn {
    pub sconn_family: u16,
    pub sconn_port: u16,
    pub sconn_addr: *mut c_void,
}

/// How a message was received (RFC 6458 §5.3.5). The PPID is in network byte order.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct sctp_rcvinfo {
    pub rcv_sid: u16,
    pub rcv_ssn: u16,
    pub rcv_flags: u16,
    pub rcv_ppid: u32,
    pub rcv_tsn: u32,
    pub rcv_cumtsn: u32,
    pub rcv_context: u32,
    pub rcv_assoc_id: sctp_assoc_t,
}

/// About the next message (RFC 6458 §5.3.6). Not offered.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_nxtinfo {
    pub nxt_sid: u16,
    pub nxt_flags: u16,
    pub nxt_ppid: u32,
    pub nxt_length: u32,
    pub nxt_assoc_id: sctp_assoc_t,
}

/// Both kinds of information (RFC 6458 §9.13). Not offered.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_recvv_rn {
    pub recvv_rcvinfo: sctp_rcvinfo,
    pub recvv_nxtinfo: sctp_nxtinfo,
}

/// How a message is sent (RFC 6458 §5.3.4). The PPID is in network byte order.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_sndinfo {
    pub snd_sid: u16,
    pub snd_flags: u16,
    pub snd_ppid: u32,
    pub snd_context: u32,
    pub snd_assoc_id: sctp_assoc_t,
}

/// Partial reliability of a message (RFC 6458 §5.3.7): a policy, and milliseconds, retransmissions or a priority.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_prinfo {
    pub pr_policy: u16,
    pub pr_value: u32,
}

/// The key of a message (RFC 6458 §5.3.8). Not offered.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_authinfo {
    pub auth_keynumber: u16,
}

/// All information about a message to send (RFC 6458 §9.12).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_sendv_spa {
    pub sendv_flags: u32,
    pub sendv_sndinfo: sctp_sndinfo,
    pub sendv_prinfo: sctp_prinfo,
    pub sendv_authinfo: sctp_authinfo,
}

/// The peer's UDP encapsulation port (RFC 6951 §6.1), in network byte order.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_udpencaps {
    pub sue_address: sockaddr_storage,
    pub sue_assoc_id: u32,
    pub sue_port: u16,
}

/// SCTP_ASSOC_CHANGE (RFC 6458 §6.1.1).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_assoc_change {
    pub sac_type: u16,
    pub sac_flags: u16,
    pub sac_length: u32,
    pub sac_state: u16,
    pub sac_error: u16,
    pub sac_outbound_streams: u16,
    pub sac_inbound_streams: u16,
    pub sac_assoc_id: sctp_assoc_t,
    pub sac_info: [u8; 0],
}

/// SCTP_PEER_ADDR_CHANGE (RFC 6458 §6.1.2).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_paddr_change {
    pub spc_type: u16,
    pub spc_flags: u16,
    pub spc_length: u32,
    pub spc_aaddr: sockaddr_storage,
    pub spc_state: u32,
    pub spc_error: u32,
    pub spc_assoc_id: sctp_assoc_t,
    pub spc_padding: [u8; 4],
}

/// SCTP_REMOTE_ERROR (RFC 6458 §6.1.3).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_remote_error {
    pub sre_type: u16,
    pub sre_flags: u16,
    pub sre_length: u32,
    pub sre_error: u16,
    pub sre_assoc_id: sctp_assoc_t,
    pub sre_data: [u8; 0],
}

/// SCTP_SHUTDOWN_EVENT (RFC 6458 §6.1.5).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_shutdown_event {
    pub sse_type: u16,
    pub sse_flags: u16,
    pub sse_length: u32,
    pub sse_assoc_id: sctp_assoc_t,
}

/// SCTP_ADAPTATION_INDICATION (RFC 6458 §6.1.6).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_adaptation_event {
    pub sai_type: u16,
    pub sai_flags: u16,
    pub sai_length: u32,
    pub sai_adaptation_ind: u32,
    pub sai_assoc_id: sctp_assoc_t,
}

/// SCTP_PARTIAL_DELIVERY_EVENT (RFC 6458 §6.1.7).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_pdapi_event {
    pub pdapi_type: u16,
    pub pdapi_flags: u16,
    pub pdapi_length: u32,
    pub pdapi_indication: u32,
    pub pdapi_stream: u32,
    pub pdapi_seq: u32,
    pub pdapi_assoc_id: sctp_assoc_t,
}

/// SCTP_AUTHENTICATION_EVENT (RFC 6458 §6.1.8). Not offered.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_authkey_event {
    pub auth_type: u16,
    pub auth_flags: u16,
    pub auth_length: u32,
    pub auth_keynumber: u16,
    pub auth_indication: u32,
    pub auth_assoc_id: sctp_assoc_t,
}

/// SCTP_SENDER_DRY_EVENT (RFC 6458 §6.1.9). Not offered.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_sender_dry_event {
    pub sender_dry_type: u16,
    pub sender_dry_flags: u16,
    pub sender_dry_length: u32,
    pub sender_dry_assoc_id: sctp_assoc_t,
}

/// SCTP_STREAM_RESET_EVENT (RFC 6525 §6.1.1).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_stream_reset_event {
    pub strreset_type: u16,
    pub strreset_flags: u16,
    pub strreset_length: u32,
    pub strreset_assoc_id: sctp_assoc_t,
    pub strreset_stream_list: [u16; 0],
}

/// SCTP_ASSOC_RESET_EVENT (RFC 6525 §6.1.2).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_assoc_reset_event {
    pub assocreset_type: u16,
    pub assocreset_flags: u16,
    pub assocreset_length: u32,
    pub assocreset_assoc_id: sctp_assoc_t,
    pub assocreset_local_tsn: u32,
    pub assocreset_remote_tsn: u32,
}

/// SCTP_STREAM_CHANGE_EVENT (RFC 6525 §6.1.3).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_stream_change_event {
    pub strchange_type: u16,
    pub strchange_flags: u16,
    pub strchange_length: u32,
    pub strchange_assoc_id: sctp_assoc_t,
    pub strchange_instrms: u16,
    pub strchange_outstrms: u16,
}

/// SCTP_SEND_FAILED_EVENT (RFC 6458 §6.1.11), without the data.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_send_failed_event {
    pub ssfe_type: u16,
    pub ssfe_flags: u16,
    pub ssfe_length: u32,
    pub ssfe_error: u32,
    pub ssfe_info: sctp_sndinfo,
    pub ssfe_assoc_id: sctp_assoc_t,
    pub ssfe_data: [u8; 0],
}

/// What all notifications begin with.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_tlv {
    pub sn_type: u16,
    pub sn_flags: u16,
    pub sn_length: u32,
}

/// SCTP_EVENT (RFC 6458 §6.2.2).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_event {
    pub se_assoc_id: sctp_assoc_t,
    pub se_type: u16,
    pub se_on: u8,
}

/// SCTP_INITMSG (RFC 6458 §8.1.3).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_initmsg {
    pub sinit_num_ostreams: u16,
    pub sinit_max_instreams: u16,
    pub sinit_max_attempts: u16,
    pub sinit_max_init_timeo: u16,
}

/// SCTP_RTOINFO (RFC 6458 §8.1.1), in milliseconds.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_rtoinfo {
    pub srto_assoc_id: sctp_assoc_t,
    pub srto_initial: u32,
    pub srto_max: u32,
    pub srto_min: u32,
}

/// SCTP_ASSOCINFO (RFC 6458 §8.1.2).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_assocparams {
    pub sasoc_assoc_id: sctp_assoc_t,
    pub sasoc_peer_rwnd: u32,
    pub sasoc_local_rwnd: u32,
    pub sasoc_cookie_life: u32,
    pub sasoc_asocmaxrxt: u16,
    pub sasoc_number_peer_destinations: u16,
}

/// SCTP_PRIMARY_ADDR (RFC 6458 §8.1.9).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_setprim {
    pub ssp_addr: sockaddr_storage,
    pub ssp_assoc_id: sctp_assoc_t,
    pub ssp_padding: [u8; 4],
}

/// SCTP_ADAPTATION_LAYER (RFC 6458 §8.1.10).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_setadaptation {
    pub ssb_adaptation_ind: u32,
}

/// SCTP_PEER_ADDR_PARAMS (RFC 6458 §8.1.12).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_paddrparams {
    pub spp_address: sockaddr_storage,
    pub spp_assoc_id: sctp_assoc_t,
    pub spp_hbinterval: u32,
    pub spp_pathmtu: u32,
    pub spp_flags: u32,
    pub spp_ipv6_flowlabel: u32,
    pub spp_pathmaxrxt: u16,
    pub spp_dscp: u8,
}

/// A value for an association.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_assoc_value {
    pub assoc_id: sctp_assoc_t,
    pub assoc_value: u32,
}

/// SCTP_RESET_STREAMS (RFC 6525 §6.3.2).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_reset_streams {
    pub srs_assoc_id: sctp_assoc_t,
    pub srs_flags: u16,
    pub srs_number_streams: u16,
    pub srs_stream_list: [u16; 0],
}

/// SCTP_ADD_STREAMS (RFC 6525 §6.3.4).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_add_streams {
    pub sas_assoc_id: sctp_assoc_t,
    pub sas_instrms: u16,
    pub sas_outstrms: u16,
}

/// SCTP_DELAYED_SACK (RFC 6458 §8.1.19): milliseconds, and packets.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_sack_info {
    pub sack_assoc_id: sctp_assoc_t,
    pub sack_delay: u32,
    pub sack_freq: u32,
}

/// SCTP_DEFAULT_PRINFO (RFC 6458 §8.1.32).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_default_prinfo {
    pub pr_policy: u16,
    pub pr_value: u32,
    pub pr_assoc_id: sctp_assoc_t,
}

/// SCTP_GET_PEER_ADDR_INFO (RFC 6458 §8.2.2): bytes and milliseconds.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_paddrinfo {
    pub spinfo_address: sockaddr_storage,
    pub spinfo_assoc_id: sctp_assoc_t,
    pub spinfo_state: i32,
    pub spinfo_cwnd: u32,
    pub spinfo_srtt: u32,
    pub spinfo_rto: u32,
    pub spinfo_mtu: u32,
}

/// SCTP_STATUS (RFC 6458 §8.2.1). Unacknowledged and waiting data are counted in bytes, at most 65,535.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctp_status {
    pub sstat_assoc_id: sctp_assoc_t,
    pub sstat_state: i32,
    pub sstat_rwnd: u32,
    pub sstat_unackdata: u16,
    pub sstat_penddata: u16,
    pub sstat_instrms: u16,
    pub sstat_outstrms: u16,
    pub sstat_fragmentation_point: u32,
    pub sstat_primary: sctp_paddrinfo,
}

/// Statistics of the stack: packets of all associations. Further counters of usrsctp are not kept.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sctpstat {
    pub sctps_outpackets: u32,
    pub sctps_inpackets: u32,
    pub sctps_sendpackets: u32,
    pub sctps_recvpackets: u32,
    pub sctps_sendretransdata: u32,
}

/// An address of any family.
#[repr(C)]
#[derive(Clone, Copy)]
pub union sctp_sockstore {
    pub sin: sockaddr_in,
    pub sin6: sockaddr_in6,
    pub sconn: sockaddr_conn,
    pub sa: sockaddr,
}

impl std::fmt::Debug for sctp_sockstore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sctp_sockstore")
    }
}

/// A notification.
#[repr(C)]
#[derive(Clone, Copy)]
pub union sctp_notification {
    pub sn_header: sctp_tlv,
    pub sn_assoc_change: sctp_assoc_change,
    pub sn_paddr_change: sctp_paddr_change,
    pub sn_remote_error: sctp_remote_error,
    pub sn_shutdown_event: sctp_shutdown_event,
    pub sn_adaptation_event: sctp_adaptation_event,
    pub sn_pdapi_event: sctp_pdapi_event,
    pub sn_auth_event: sctp_authkey_event,
    pub sn_sender_dry_event: sctp_sender_dry_event,
    pub sn_send_failed_event: sctp_send_failed_event,
    pub sn_strreset_event: sctp_stream_reset_event,
    pub sn_assocreset_event: sctp_assoc_reset_event,
    pub sn_strchange_event: sctp_stream_change_event,
}

impl std::fmt::Debug for sctp_notification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sctp_notification")
    }
}
