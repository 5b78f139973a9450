/* SCTP for C programs. Written by cbindgen from the sources of the crate braidftp-capi: do not edit. */

#ifndef BRAIDSCTP_H
#define BRAIDSCTP_H

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* A socket: an opaque handle. One that was closed is refused with EBADF. */
struct socket;

/* usrsctp_sysctl_*: the defaults of new sockets. Times are in milliseconds. Returns 0, or -1 (EINVAL). */
#define USRSCTP_SYSCTL_DECL(field) \
    int usrsctp_sysctl_set_ ## field(uint32_t value); \
    uint32_t usrsctp_sysctl_get_ ## field(void);
#ifdef __cplusplus
extern "C" {
#endif
USRSCTP_SYSCTL_DECL(sctp_sendspace)
USRSCTP_SYSCTL_DECL(sctp_recvspace)
USRSCTP_SYSCTL_DECL(sctp_ecn_enable)
USRSCTP_SYSCTL_DECL(sctp_pr_enable)
USRSCTP_SYSCTL_DECL(sctp_reconfig_enable)
USRSCTP_SYSCTL_DECL(sctp_nrsack_enable)
USRSCTP_SYSCTL_DECL(sctp_max_burst_default)
USRSCTP_SYSCTL_DECL(sctp_delayed_sack_time_default)
USRSCTP_SYSCTL_DECL(sctp_sack_freq_default)
USRSCTP_SYSCTL_DECL(sctp_heartbeat_interval_default)
USRSCTP_SYSCTL_DECL(sctp_rto_max_default)
USRSCTP_SYSCTL_DECL(sctp_rto_min_default)
USRSCTP_SYSCTL_DECL(sctp_rto_initial_default)
USRSCTP_SYSCTL_DECL(sctp_valid_cookie_life_default)
USRSCTP_SYSCTL_DECL(sctp_init_rtx_max_default)
USRSCTP_SYSCTL_DECL(sctp_assoc_rtx_max_default)
USRSCTP_SYSCTL_DECL(sctp_path_rtx_max_default)
USRSCTP_SYSCTL_DECL(sctp_nr_incoming_streams_default)
USRSCTP_SYSCTL_DECL(sctp_nr_outgoing_streams_default)
USRSCTP_SYSCTL_DECL(sctp_blackhole)
USRSCTP_SYSCTL_DECL(sctp_no_csum_on_loopback)
USRSCTP_SYSCTL_DECL(sctp_enable_sack_immediately)
USRSCTP_SYSCTL_DECL(sctp_debug_on)
#undef USRSCTP_SYSCTL_DECL
#ifdef __cplusplus
}
#endif


#define AF_CONN 123

#define MSG_NOTIFICATION 8192

#define SCTP_FUTURE_ASSOC 0

#define SCTP_CURRENT_ASSOC 1

#define SCTP_ALL_ASSOC 2

#define SCTP_EVENT_READ 1

#define SCTP_EVENT_WRITE 2

#define SCTP_EVENT_ERROR 4

#define SCTP_RECVV_NOINFO 0

#define SCTP_RECVV_RCVINFO 1

#define SCTP_RECVV_NXTINFO 2

#define SCTP_RECVV_RN 3

#define SCTP_SENDV_NOINFO 0

#define SCTP_SENDV_SNDINFO 1

#define SCTP_SENDV_PRINFO 2

#define SCTP_SENDV_AUTHINFO 3

#define SCTP_SENDV_SPA 4

#define SCTP_SEND_SNDINFO_VALID 1

#define SCTP_SEND_PRINFO_VALID 2

#define SCTP_SEND_AUTHINFO_VALID 4

#define SCTP_ASSOC_CHANGE 1

#define SCTP_PEER_ADDR_CHANGE 2

#define SCTP_REMOTE_ERROR 3

#define SCTP_SEND_FAILED 4

#define SCTP_SHUTDOWN_EVENT 5

#define SCTP_ADAPTATION_INDICATION 6

#define SCTP_PARTIAL_DELIVERY_EVENT 7

#define SCTP_AUTHENTICATION_EVENT 8

#define SCTP_STREAM_RESET_EVENT 9

#define SCTP_SENDER_DRY_EVENT 10

#define SCTP_NOTIFICATIONS_STOPPED_EVENT 11

#define SCTP_ASSOC_RESET_EVENT 12

#define SCTP_STREAM_CHANGE_EVENT 13

#define SCTP_SEND_FAILED_EVENT 14

#define SCTP_COMM_UP 1

#define SCTP_COMM_LOST 2

#define SCTP_RESTART 3

#define SCTP_SHUTDOWN_COMP 4

#define SCTP_CANT_STR_ASSOC 5

#define SCTP_ASSOC_SUPPORTS_PR 1

#define SCTP_ASSOC_SUPPORTS_AUTH 2

#define SCTP_ASSOC_SUPPORTS_ASCONF 3

#define SCTP_ASSOC_SUPPORTS_MULTIBUF 4

#define SCTP_ASSOC_SUPPORTS_RE_CONFIG 5

#define SCTP_ASSOC_SUPPORTS_INTERLEAVING 6

#define SCTP_ASSOC_SUPPORTS_MAX 6

#define SCTP_ADDR_AVAILABLE 1

#define SCTP_ADDR_UNREACHABLE 2

#define SCTP_ADDR_REMOVED 3

#define SCTP_ADDR_ADDED 4

#define SCTP_ADDR_MADE_PRIM 5

#define SCTP_ADDR_CONFIRMED 6

#define SCTP_PARTIAL_DELIVERY_ABORTED 1

#define SCTP_AUTH_NEW_KEY 1

#define SCTP_AUTH_NO_AUTH 2

#define SCTP_AUTH_FREE_KEY 3

#define SCTP_STREAM_RESET_INCOMING_SSN 1

#define SCTP_STREAM_RESET_OUTGOING_SSN 2

#define SCTP_STREAM_RESET_DENIED 4

#define SCTP_STREAM_RESET_FAILED 8

#define SCTP_STREAM_CHANGED_DENIED 16

#define SCTP_STREAM_RESET_INCOMING 1

#define SCTP_STREAM_RESET_OUTGOING 2

#define SCTP_ASSOC_RESET_DENIED 4

#define SCTP_ASSOC_RESET_FAILED 8

#define SCTP_STREAM_CHANGE_DENIED 4

#define SCTP_STREAM_CHANGE_FAILED 8

#define SCTP_DATA_UNSENT 1

#define SCTP_DATA_SENT 2

#define SCTP_EOF 256

#define SCTP_ABORT 512

#define SCTP_UNORDERED 1024

#define SCTP_ADDR_OVER 2048

#define SCTP_SENDALL 4096

#define SCTP_EOR 8192

#define SCTP_SACK_IMMEDIATELY 16384

#define SCTP_PR_SCTP_NONE 0

#define SCTP_PR_SCTP_TTL 1

#define SCTP_PR_SCTP_BUF 2

#define SCTP_PR_SCTP_RTX 3

#define SCTP_RTOINFO 1

#define SCTP_ASSOCINFO 2

#define SCTP_INITMSG 3

#define SCTP_NODELAY 4

#define SCTP_AUTOCLOSE 5

#define SCTP_SET_PEER_PRIMARY_ADDR 6

#define SCTP_PRIMARY_ADDR 7

#define SCTP_ADAPTATION_LAYER 8

#define SCTP_DISABLE_FRAGMENTS 9

#define SCTP_PEER_ADDR_PARAMS 10

#define SCTP_I_WANT_MAPPED_V4_ADDR 13

#define SCTP_MAXSEG 14

#define SCTP_DELAYED_SACK 15

#define SCTP_FRAGMENT_INTERLEAVE 16

#define SCTP_PARTIAL_DELIVERY_POINT 17

#define SCTP_AUTH_CHUNK 18

#define SCTP_AUTH_KEY 19

#define SCTP_HMAC_IDENT 20

#define SCTP_AUTH_ACTIVE_KEY 21

#define SCTP_AUTH_DELETE_KEY 22

#define SCTP_AUTO_ASCONF 24

#define SCTP_MAX_BURST 25

#define SCTP_CONTEXT 26

#define SCTP_EXPLICIT_EOR 27

#define SCTP_REUSE_PORT 28

#define SCTP_AUTH_DEACTIVATE_KEY 29

#define SCTP_EVENT 30

#define SCTP_RECVRCVINFO 31

#define SCTP_RECVNXTINFO 32

#define SCTP_DEFAULT_SNDINFO 33

#define SCTP_DEFAULT_PRINFO 34

#define SCTP_REMOTE_UDP_ENCAPS_PORT 36

#define SCTP_ECN_SUPPORTED 37

#define SCTP_PR_SUPPORTED 38

#define SCTP_AUTH_SUPPORTED 39

#define SCTP_ASCONF_SUPPORTED 40

#define SCTP_RECONFIG_SUPPORTED 41

#define SCTP_NRSACK_SUPPORTED 48

#define SCTP_PKTDROP_SUPPORTED 49

#define SCTP_MAX_CWND 50

#define SCTP_STATUS 256

#define SCTP_GET_PEER_ADDR_INFO 257

#define SCTP_PEER_AUTH_CHUNKS 258

#define SCTP_LOCAL_AUTH_CHUNKS 259

#define SCTP_GET_ASSOC_NUMBER 260

#define SCTP_GET_ASSOC_ID_LIST 261

#define SCTP_TIMEOUTS 262

#define SCTP_PR_STREAM_STATUS 263

#define SCTP_PR_ASSOC_STATUS 264

#define SCTP_ENABLE_STREAM_RESET 2304

#define SCTP_RESET_STREAMS 2305

#define SCTP_RESET_ASSOC 2306

#define SCTP_ADD_STREAMS 2307

#define SCTP_PLUGGABLE_SS 4611

#define SCTP_SS_VALUE 4612

#define SPP_HB_ENABLE 1

#define SPP_HB_DISABLE 2

#define SPP_HB_DEMAND 4

#define SPP_PMTUD_ENABLE 8

#define SPP_PMTUD_DISABLE 16

#define SPP_HB_TIME_IS_ZERO 128

#define SPP_IPV6_FLOWLABEL 256

#define SPP_DSCP 512

#define SCTP_ENABLE_RESET_STREAM_REQ 1

#define SCTP_ENABLE_RESET_ASSOC_REQ 2

#define SCTP_ENABLE_CHANGE_ASSOC_REQ 4

#define SCTP_ENABLE_VALUE_MASK 7

#define SCTP_CLOSED 0

#define SCTP_BOUND 4096

#define SCTP_LISTEN 8192

#define SCTP_COOKIE_WAIT 2

#define SCTP_COOKIE_ECHOED 4

#define SCTP_ESTABLISHED 8

#define SCTP_SHUTDOWN_SENT 16

#define SCTP_SHUTDOWN_RECEIVED 32

#define SCTP_SHUTDOWN_ACK_SENT 64

#define SCTP_SHUTDOWN_PENDING 128

#define SCTP_ACTIVE 1

#define SCTP_INACTIVE 2

#define SCTP_UNCONFIRMED 512

#define SCTP_BINDX_ADD_ADDR 32769

#define SCTP_BINDX_REM_ADDR 32770

#define SCTP_DUMP_OUTBOUND 1

#define SCTP_DUMP_INBOUND 0

#define SCTP_DEBUG_NONE 0

#define SCTP_DEBUG_ALL 4294967295

/**
 * Sends a packet of an AF_CONN address: the address, the packet, its length, the type of service, and whether IP must not
 * fragment the packet. Returns 0, or an error.
 */
typedef int (*braidsctp_conn_output)(void *addr,
                                     void *buffer,
                                     size_t length,
                                     uint8_t tos,
                                     uint8_t set_df);

/**
 * Prints a line of the stack's log.
 */
typedef void (*braidsctp_debug_printf)(const char *format, ...);

/**
 * An address that the program gives a meaning.
 */
struct sockaddr_conn {
  uint16_t sconn_family;
  uint16_t sconn_port;
  void *sconn_addr;
};

/**
 * An address of any family.
 */
union sctp_sockstore {
  struct sockaddr_in sin;
  struct sockaddr_in6 sin6;
  struct sockaddr_conn sconn;
  struct sockaddr sa;
};

/**
 * The number of an association within the program (RFC 6458 §7.2).
 */
typedef uint32_t sctp_assoc_t;

/**
 * How a message was received (RFC 6458 §5.3.5). The PPID is in network byte order.
 */
struct sctp_rcvinfo {
  uint16_t rcv_sid;
  uint16_t rcv_ssn;
  uint16_t rcv_flags;
  uint32_t rcv_ppid;
  uint32_t rcv_tsn;
  uint32_t rcv_cumtsn;
  uint32_t rcv_context;
  sctp_assoc_t rcv_assoc_id;
};

/**
 * Called with each message or notification (`data` is freed by the callee), and without data at the end. Returns 1.
 */
typedef int (*braidsctp_receive_callback)(struct socket *so,
                                          union sctp_sockstore addr,
                                          void *data,
                                          size_t datalen,
                                          struct sctp_rcvinfo info,
                                          int flags,
                                          void *ulp_info);

/**
 * Called when the send buffer has room. Not offered.
 */
typedef int (*braidsctp_send_callback)(struct socket *so, uint32_t sb_free, void *ulp_info);

/**
 * Called when something happened to a socket: see `usrsctp_get_events`.
 */
typedef void (*braidsctp_upcall)(struct socket *so, void *arg, int flags);

/**
 * Statistics of the stack: packets of all associations. Further counters of usrsctp are not kept.
 */
struct sctpstat {
  uint32_t sctps_outpackets;
  uint32_t sctps_inpackets;
  uint32_t sctps_sendpackets;
  uint32_t sctps_recvpackets;
  uint32_t sctps_sendretransdata;
};

/**
 * The common header of a packet (RFC 9260 §3.1), in network byte order.
 */
struct __attribute__((packed)) sctp_common_header {
  uint16_t source_port;
  uint16_t destination_port;
  uint32_t verification_tag;
  uint32_t crc32c;
};

/**
 * About the next message (RFC 6458 §5.3.6). Not offered.
 */
struct sctp_nxtinfo {
  uint16_t nxt_sid;
  uint16_t nxt_flags;
  uint32_t nxt_ppid;
  uint32_t nxt_length;
  sctp_assoc_t nxt_assoc_id;
};

/**
 * Both kinds of information (RFC 6458 §9.13). Not offered.
 */
struct sctp_recvv_rn {
  struct sctp_rcvinfo recvv_rcvinfo;
  struct sctp_nxtinfo recvv_nxtinfo;
};

/**
 * How a message is sent (RFC 6458 §5.3.4). The PPID is in network byte order.
 */
struct sctp_sndinfo {
  uint16_t snd_sid;
  uint16_t snd_flags;
  uint32_t snd_ppid;
  uint32_t snd_context;
  sctp_assoc_t snd_assoc_id;
};

/**
 * Partial reliability of a message (RFC 6458 §5.3.7): a policy, and milliseconds, retransmissions or a priority.
 */
struct sctp_prinfo {
  uint16_t pr_policy;
  uint32_t pr_value;
};

/**
 * The key of a message (RFC 6458 §5.3.8). Not offered.
 */
struct sctp_authinfo {
  uint16_t auth_keynumber;
};

/**
 * All information about a message to send (RFC 6458 §9.12).
 */
struct sctp_sendv_spa {
  uint32_t sendv_flags;
  struct sctp_sndinfo sendv_sndinfo;
  struct sctp_prinfo sendv_prinfo;
  struct sctp_authinfo sendv_authinfo;
};

/**
 * The peer's UDP encapsulation port (RFC 6951 §6.1), in network byte order.
 */
struct sctp_udpencaps {
  struct sockaddr_storage sue_address;
  uint32_t sue_assoc_id;
  uint16_t sue_port;
};

/**
 * SCTP_ASSOC_CHANGE (RFC 6458 §6.1.1).
 */
struct sctp_assoc_change {
  uint16_t sac_type;
  uint16_t sac_flags;
  uint32_t sac_length;
  uint16_t sac_state;
  uint16_t sac_error;
  uint16_t sac_outbound_streams;
  uint16_t sac_inbound_streams;
  sctp_assoc_t sac_assoc_id;
  uint8_t sac_info[0];
};

/**
 * SCTP_PEER_ADDR_CHANGE (RFC 6458 §6.1.2).
 */
struct sctp_paddr_change {
  uint16_t spc_type;
  uint16_t spc_flags;
  uint32_t spc_length;
  struct sockaddr_storage spc_aaddr;
  uint32_t spc_state;
  uint32_t spc_error;
  sctp_assoc_t spc_assoc_id;
  uint8_t spc_padding[4];
};

/**
 * SCTP_REMOTE_ERROR (RFC 6458 §6.1.3).
 */
struct sctp_remote_error {
  uint16_t sre_type;
  uint16_t sre_flags;
  uint32_t sre_length;
  uint16_t sre_error;
  sctp_assoc_t sre_assoc_id;
  uint8_t sre_data[0];
};

/**
 * SCTP_SHUTDOWN_EVENT (RFC 6458 §6.1.5).
 */
struct sctp_shutdown_event {
  uint16_t sse_type;
  uint16_t sse_flags;
  uint32_t sse_length;
  sctp_assoc_t sse_assoc_id;
};

/**
 * SCTP_ADAPTATION_INDICATION (RFC 6458 §6.1.6).
 */
struct sctp_adaptation_event {
  uint16_t sai_type;
  uint16_t sai_flags;
  uint32_t sai_length;
  uint32_t sai_adaptation_ind;
  sctp_assoc_t sai_assoc_id;
};

/**
 * SCTP_PARTIAL_DELIVERY_EVENT (RFC 6458 §6.1.7).
 */
struct sctp_pdapi_event {
  uint16_t pdapi_type;
  uint16_t pdapi_flags;
  uint32_t pdapi_length;
  uint32_t pdapi_indication;
  uint32_t pdapi_stream;
  uint32_t pdapi_seq;
  sctp_assoc_t pdapi_assoc_id;
};

/**
 * SCTP_AUTHENTICATION_EVENT (RFC 6458 §6.1.8). Not offered.
 */
struct sctp_authkey_event {
  uint16_t auth_type;
  uint16_t auth_flags;
  uint32_t auth_length;
  uint16_t auth_keynumber;
  uint32_t auth_indication;
  sctp_assoc_t auth_assoc_id;
};

/**
 * SCTP_SENDER_DRY_EVENT (RFC 6458 §6.1.9). Not offered.
 */
struct sctp_sender_dry_event {
  uint16_t sender_dry_type;
  uint16_t sender_dry_flags;
  uint32_t sender_dry_length;
  sctp_assoc_t sender_dry_assoc_id;
};

/**
 * SCTP_STREAM_RESET_EVENT (RFC 6525 §6.1.1).
 */
struct sctp_stream_reset_event {
  uint16_t strreset_type;
  uint16_t strreset_flags;
  uint32_t strreset_length;
  sctp_assoc_t strreset_assoc_id;
  uint16_t strreset_stream_list[0];
};

/**
 * SCTP_ASSOC_RESET_EVENT (RFC 6525 §6.1.2).
 */
struct sctp_assoc_reset_event {
  uint16_t assocreset_type;
  uint16_t assocreset_flags;
  uint32_t assocreset_length;
  sctp_assoc_t assocreset_assoc_id;
  uint32_t assocreset_local_tsn;
  uint32_t assocreset_remote_tsn;
};

/**
 * SCTP_STREAM_CHANGE_EVENT (RFC 6525 §6.1.3).
 */
struct sctp_stream_change_event {
  uint16_t strchange_type;
  uint16_t strchange_flags;
  uint32_t strchange_length;
  sctp_assoc_t strchange_assoc_id;
  uint16_t strchange_instrms;
  uint16_t strchange_outstrms;
};

/**
 * SCTP_SEND_FAILED_EVENT (RFC 6458 §6.1.11), without the data.
 */
struct sctp_send_failed_event {
  uint16_t ssfe_type;
  uint16_t ssfe_flags;
  uint32_t ssfe_length;
  uint32_t ssfe_error;
  struct sctp_sndinfo ssfe_info;
  sctp_assoc_t ssfe_assoc_id;
  uint8_t ssfe_data[0];
};

/**
 * What all notifications begin with.
 */
struct sctp_tlv {
  uint16_t sn_type;
  uint16_t sn_flags;
  uint32_t sn_length;
};

/**
 * SCTP_EVENT (RFC 6458 §6.2.2).
 */
struct sctp_event {
  sctp_assoc_t se_assoc_id;
  uint16_t se_type;
  uint8_t se_on;
};

/**
 * SCTP_INITMSG (RFC 6458 §8.1.3).
 */
struct sctp_initmsg {
  uint16_t sinit_num_ostreams;
  uint16_t sinit_max_instreams;
  uint16_t sinit_max_attempts;
  uint16_t sinit_max_init_timeo;
};

/**
 * SCTP_RTOINFO (RFC 6458 §8.1.1), in milliseconds.
 */
struct sctp_rtoinfo {
  sctp_assoc_t srto_assoc_id;
  uint32_t srto_initial;
  uint32_t srto_max;
  uint32_t srto_min;
};

/**
 * SCTP_ASSOCINFO (RFC 6458 §8.1.2).
 */
struct sctp_assocparams {
  sctp_assoc_t sasoc_assoc_id;
  uint32_t sasoc_peer_rwnd;
  uint32_t sasoc_local_rwnd;
  uint32_t sasoc_cookie_life;
  uint16_t sasoc_asocmaxrxt;
  uint16_t sasoc_number_peer_destinations;
};

/**
 * SCTP_PRIMARY_ADDR (RFC 6458 §8.1.9).
 */
struct sctp_setprim {
  struct sockaddr_storage ssp_addr;
  sctp_assoc_t ssp_assoc_id;
  uint8_t ssp_padding[4];
};

/**
 * SCTP_ADAPTATION_LAYER (RFC 6458 §8.1.10).
 */
struct sctp_setadaptation {
  uint32_t ssb_adaptation_ind;
};

/**
 * SCTP_PEER_ADDR_PARAMS (RFC 6458 §8.1.12).
 */
struct sctp_paddrparams {
  struct sockaddr_storage spp_address;
  sctp_assoc_t spp_assoc_id;
  uint32_t spp_hbinterval;
  uint32_t spp_pathmtu;
  uint32_t spp_flags;
  uint32_t spp_ipv6_flowlabel;
  uint16_t spp_pathmaxrxt;
  uint8_t spp_dscp;
};

/**
 * A value for an association.
 */
struct sctp_assoc_value {
  sctp_assoc_t assoc_id;
  uint32_t assoc_value;
};

/**
 * SCTP_RESET_STREAMS (RFC 6525 §6.3.2).
 */
struct sctp_reset_streams {
  sctp_assoc_t srs_assoc_id;
  uint16_t srs_flags;
  uint16_t srs_number_streams;
  uint16_t srs_stream_list[0];
};

/**
 * SCTP_ADD_STREAMS (RFC 6525 §6.3.4).
 */
struct sctp_add_streams {
  sctp_assoc_t sas_assoc_id;
  uint16_t sas_instrms;
  uint16_t sas_outstrms;
};

/**
 * SCTP_DELAYED_SACK (RFC 6458 §8.1.19): milliseconds, and packets.
 */
struct sctp_sack_info {
  sctp_assoc_t sack_assoc_id;
  uint32_t sack_delay;
  uint32_t sack_freq;
};

/**
 * SCTP_DEFAULT_PRINFO (RFC 6458 §8.1.32).
 */
struct sctp_default_prinfo {
  uint16_t pr_policy;
  uint32_t pr_value;
  sctp_assoc_t pr_assoc_id;
};

/**
 * SCTP_GET_PEER_ADDR_INFO (RFC 6458 §8.2.2): bytes and milliseconds.
 */
struct sctp_paddrinfo {
  struct sockaddr_storage spinfo_address;
  sctp_assoc_t spinfo_assoc_id;
  int32_t spinfo_state;
  uint32_t spinfo_cwnd;
  uint32_t spinfo_srtt;
  uint32_t spinfo_rto;
  uint32_t spinfo_mtu;
};

/**
 * SCTP_STATUS (RFC 6458 §8.2.1). Unacknowledged and waiting data are counted in bytes, at most 65,535.
 */
struct sctp_status {
  sctp_assoc_t sstat_assoc_id;
  int32_t sstat_state;
  uint32_t sstat_rwnd;
  uint16_t sstat_unackdata;
  uint16_t sstat_penddata;
  uint16_t sstat_instrms;
  uint16_t sstat_outstrms;
  uint32_t sstat_fragmentation_point;
  struct sctp_paddrinfo sstat_primary;
};

/**
 * A notification.
 */
union sctp_notification {
  struct sctp_tlv sn_header;
  struct sctp_assoc_change sn_assoc_change;
  struct sctp_paddr_change sn_paddr_change;
  struct sctp_remote_error sn_remote_error;
  struct sctp_shutdown_event sn_shutdown_event;
  struct sctp_adaptation_event sn_adaptation_event;
  struct sctp_pdapi_event sn_pdapi_event;
  struct sctp_authkey_event sn_auth_event;
  struct sctp_sender_dry_event sn_sender_dry_event;
  struct sctp_send_failed_event sn_send_failed_event;
  struct sctp_stream_reset_event sn_strreset_event;
  struct sctp_assoc_reset_event sn_assocreset_event;
  struct sctp_stream_change_event sn_strchange_event;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Starts the stack. `port` is the local UDP port of SCTP in UDP (RFC 6951); 0: no UDP. `conn_output` sends the packets of
 * AF_CONN sockets, from a thread of the stack, which it must not block. Nothing happens if the stack runs already.
 *
 * # Safety
 *
 * The functions are callable from any thread until `usrsctp_finish` has returned 0.
 */
void usrsctp_init(uint16_t port,
                  braidsctp_conn_output conn_output,
                  braidsctp_debug_printf debug_printf);

/**
 * Stops the stack: 0, or -1 (EBUSY) while there are sockets, or associations that shut down.
 */
int usrsctp_finish(void);

/**
 * Creates a socket: AF_INET, AF_INET6 (for IPv4 too) or AF_CONN; SOCK_STREAM (one association) or SOCK_SEQPACKET. With
 * `receive`, a thread of the stack calls it with each message. `send` is not offered (EOPNOTSUPP). Returns null on failure.
 *
 * # Safety
 *
 * The callback is callable from another thread, with `ulp_info`, until the socket is closed.
 */
struct socket *usrsctp_socket(int domain,
                              int kind,
                              int protocol,
                              braidsctp_receive_callback receive,
                              braidsctp_send_callback send,
                              uint32_t _sb_threshold,
                              void *ulp_info);

/**
 * Closes a socket. Its associations shut down after all messages are sent, or are aborted if SO_LINGER says so.
 */
void usrsctp_close(struct socket *so);

/**
 * Binds a socket to an address and an SCTP port.
 *
 * # Safety
 *
 * `namelen` bytes can be read at `name`.
 */
int usrsctp_bind(struct socket *so, const struct sockaddr *name, socklen_t namelen);

/**
 * Binds a socket to more addresses (SCTP_BINDX_ADD_ADDR), before it listens or connects. SCTP_BINDX_REM_ADDR is not offered.
 *
 * # Safety
 *
 * `addrcnt` addresses can be read at `addrs`, one behind the other.
 */
int usrsctp_bindx(struct socket *so,
                  const struct sockaddr *addrs,
                  int addrcnt,
                  int flags);

/**
 * Accepts associations from now on, as many as `backlog` waiting; with 0 no longer.
 */
int usrsctp_listen(struct socket *so, int backlog);

/**
 * Returns the next association that a peer opened, as a socket with the listening one's options and callbacks; null on failure.
 *
 * # Safety
 *
 * `aname` and `anamelen` are null, or as long an address can be written there.
 */
struct socket *usrsctp_accept(struct socket *so,
                              struct sockaddr *aname,
                              socklen_t *anamelen);

/**
 * Opens an association. A blocking SOCK_STREAM socket waits until it is established; a non-blocking one fails with
 * EINPROGRESS.
 *
 * # Safety
 *
 * `namelen` bytes can be read at `name`.
 */
int usrsctp_connect(struct socket *so,
                    const struct sockaddr *name,
                    socklen_t namelen);

/**
 * Opens an association with a peer that has several addresses of one port; `id`, if not null, receives its number.
 *
 * # Safety
 *
 * `addrcnt` addresses can be read at `addrs`, one behind the other; `id` is null or can be written.
 */
int usrsctp_connectx(struct socket *so,
                     const struct sockaddr *addrs,
                     int addrcnt,
                     sctp_assoc_t *id);

/**
 * Shuts down the association of a SOCK_STREAM socket: SHUT_WR or SHUT_RDWR. SCTP has no half-closed state: the peer can send no
 * new messages either. SHUT_RD is not offered.
 */
int usrsctp_shutdown(struct socket *so,
                     int how);

/**
 * Sets an option.
 *
 * # Safety
 *
 * `option_len` bytes can be read at `option_value`.
 */
int usrsctp_setsockopt(struct socket *so,
                       int level,
                       int option_name,
                       const void *option_value,
                       socklen_t option_len);

/**
 * Reads an option. Where it depends on an association or a path, `option_value` holds the question.
 *
 * # Safety
 *
 * As many bytes as `option_len` says can be read and written at `option_value`.
 */
int usrsctp_getsockopt(struct socket *so,
                       int level,
                       int option_name,
                       void *option_value,
                       socklen_t *option_len);

/**
 * Reads an option of the association `id`: every structure of such an option begins with that number, or with an address
 * before it.
 *
 * # Safety
 *
 * As for `usrsctp_getsockopt`.
 */
int usrsctp_opt_info(struct socket *so,
                     sctp_assoc_t id,
                     int opt,
                     void *arg,
                     socklen_t *size);

/**
 * Returns the number of the local addresses of an association, or of the addresses to which the socket is bound, and where they
 * are; `usrsctp_freeladdrs` frees them.
 *
 * # Safety
 *
 * `raddrs` can be written.
 */
int usrsctp_getladdrs(struct socket *so,
                      sctp_assoc_t id,
                      struct sockaddr **raddrs);

/**
 * Returns the number of the peer's addresses, and where they are; `usrsctp_freepaddrs` frees them.
 *
 * # Safety
 *
 * `raddrs` can be written.
 */
int usrsctp_getpaddrs(struct socket *so, sctp_assoc_t id, struct sockaddr **raddrs);

/**
 * Frees what `usrsctp_getladdrs` returned.
 *
 * # Safety
 *
 * `addrs` is null or comes from `usrsctp_getladdrs`.
 */
void usrsctp_freeladdrs(struct sockaddr *addrs);

/**
 * Frees what `usrsctp_getpaddrs` returned.
 *
 * # Safety
 *
 * `addrs` is null or comes from `usrsctp_getpaddrs`.
 */
void usrsctp_freepaddrs(struct sockaddr *addrs);

/**
 * Sets whether calls on the socket fail with EWOULDBLOCK instead of waiting.
 */
int usrsctp_set_non_blocking(struct socket *so, int onoff);

/**
 * Returns 1 if the socket does not block, 0 if it does.
 */
int usrsctp_get_non_blocking(struct socket *so);

/**
 * Has `upcall` called by a thread of the stack when something happened to the socket; null: no longer.
 *
 * # Safety
 *
 * The function is callable from another thread, with `arg`, until the socket is closed.
 */
int usrsctp_set_upcall(struct socket *so,
                       braidsctp_upcall upcall,
                       void *arg);

/**
 * Returns what the socket is ready for: SCTP_EVENT_READ, SCTP_EVENT_WRITE, SCTP_EVENT_ERROR.
 */
int usrsctp_get_events(struct socket *so);

/**
 * Sets the pointer that callbacks of the socket receive.
 */
int usrsctp_set_ulpinfo(struct socket *so, void *ulp_info);

/**
 * Returns the pointer that callbacks of the socket receive.
 *
 * # Safety
 *
 * `pulp_info` is null or can be written.
 */
int usrsctp_get_ulpinfo(struct socket *so, void **pulp_info);

/**
 * Returns the number of the association with this peer; 0 if there is none.
 *
 * # Safety
 *
 * `name` is null or an address of its family.
 */
sctp_assoc_t usrsctp_getassocid(struct socket *so, const struct sockaddr *name);

/**
 * Not offered: returns null with EOPNOTSUPP.
 */
struct socket *usrsctp_peeloff(struct socket *_so, sctp_assoc_t _id);

/**
 * Nothing need be registered: an AF_CONN address is known from the first socket that uses it.
 */
void usrsctp_register_address(void *_addr);

/**
 * The AF_CONN address is no longer used: what the stack keeps for it is freed when its associations have ended.
 */
void usrsctp_deregister_address(void *addr);

/**
 * Takes in a packet of an AF_CONN address.
 *
 * # Safety
 *
 * `length` bytes can be read at `buffer`.
 */
void usrsctp_conninput(void *addr, const void *buffer, size_t length, uint8_t _ecn_bits);

/**
 * The program computes and verifies the checksums of AF_CONN packets from now on.
 */
void usrsctp_enable_crc32c_offload(void);

/**
 * The stack computes and verifies the checksums of AF_CONN packets from now on.
 */
void usrsctp_disable_crc32c_offload(void);

/**
 * Returns the CRC32c of a packet whose checksum field is 0, as it stands in that field; 0 for a null pointer.
 *
 * # Safety
 *
 * `length` bytes can be read at `buffer`.
 */
uint32_t usrsctp_crc32c(void *buffer,
                        size_t length);

/**
 * Returns a packet as text that text2pcap reads; `usrsctp_freedumpbuffer` frees it. Null on failure.
 *
 * # Safety
 *
 * `length` bytes can be read at `buffer`.
 */
char *usrsctp_dumppacket(const void *buffer,
                         size_t length,
                         int outbound);

/**
 * Frees what `usrsctp_dumppacket` returned.
 *
 * # Safety
 *
 * `buffer` is null or comes from `usrsctp_dumppacket`.
 */
void usrsctp_freedumpbuffer(char *buffer);

/**
 * Writes the statistics of the stack.
 *
 * # Safety
 *
 * `stat` is null or can be written.
 */
void usrsctp_get_stat(struct sctpstat *stat);

/**
 * Sends a message; with SCTP_EOF shuts the association down after it, with SCTP_ABORT ends the association with the data as
 * reason. A SOCK_SEQPACKET socket opens an association with `to` if it has none. Returns `len`, or -1.
 *
 * # Safety
 *
 * `len` bytes can be read at `data`, `addrcnt` addresses at `to`, `infolen` bytes at `info`.
 */
ssize_t usrsctp_sendv(struct socket *so,
                      const void *data,
                      size_t len,
                      const struct sockaddr *to,
                      int addrcnt,
                      const void *info,
                      socklen_t infolen,
                      unsigned int infotype,
                      int flags);

/**
 * Receives a message, the next part of one (without MSG_EOR in `msg_flags`), or a notification (MSG_NOTIFICATION). Returns its
 * length, 0 at the end of the association, or -1.
 *
 * # Safety
 *
 * As many bytes as `len`, `fromlen` and `infolen` say can be written at `dbuf`, `from` and `info`; `infotype` and `msg_flags`
 * can be written.
 */
ssize_t usrsctp_recvv(struct socket *so,
                      void *dbuf,
                      size_t len,
                      struct sockaddr *from,
                      socklen_t *fromlen,
                      void *info,
                      socklen_t *infolen,
                      unsigned int *infotype,
                      int *msg_flags);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BRAIDSCTP_H */
