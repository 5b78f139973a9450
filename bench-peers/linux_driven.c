/* The Linux kernel's SCTP, doing what it is told line by line: the peer of crates/net/tests/linux_*.rs. It runs in a
 * user-mode Linux as the last step of init, and needs no library but libc.
 * Build: cc -O2 linux_driven.c -lpthread
 *
 *   linux_driven modules FILE...     loads them, in this order; those that cannot be loaded are told
 *   linux_driven serve               reads lines from the console; powers off at their end
 *
 * Lines to serve, each answered by "ok ..." or "error ...":
 *   sh COMMAND                       runs it
 *   run listen|connect [OPTION=VALUE]...    one socket, until the line "end", which is answered once no association is
 *                                    left; answered by "listening" or, with INIT out, "connecting"
 *
 * Options: port (SCTP, 5001), from (own SCTP port if it connects, any), local and peer (addresses with commas between),
 * style (one, many: SOCK_STREAM or SOCK_SEQPACKET), also_listen (0: 1 listens too, if it connects), udp (own UDP port; 0:
 * IP itself), peer_udp (the peer's), buffer (4194304 bytes, both directions), streams (64), rto_min (1000 ms), heartbeat
 * (30000 ms), path_max (5), interleave (0 to 2), idata (0), pr, asconf, auth, reconfig, ecn (what is offered; each 0),
 * data_auth (0: 1 wants DATA with AUTH), key (text of the shared key 1, if any), scheduler (0 FCFS, 1 priority, 2 round
 * robin), sack_delay (ms), sack_freq, autoclose (s), probe (PLPMTUD's interval in ms), maxseg, adaptation, and NAME
 * with a dot before it: /proc/sys/net/sctp/NAME.
 *
 * Commands to a socket, answered likewise:
 *   send STREAM BYTES MESSAGE [unordered] [now] [rtx N | ttl MS | prio N]   BYTES in messages of MESSAGE
 *   expect BYTES         waits until so many came in all
 *   messages COUNT       waits until so many messages came in all
 *   lengths              the lengths of the last messages that came
 *   reading on|off       whether what comes is read
 *   reset out|in|both STREAM  reset tsn        streams OUT IN (adds)
 *   add ADDR  del ADDR  primary ADDR  peer-primary ADDR  heartbeat ADDR
 *   status  paths  stats
 *   shutdown  abort [REASON] (of a socket for many)  linger (closes with SO_LINGER 0)  close  wait (until it is over)  sh COMMAND  end
 * What happens is told in between: "event ...". Byte o of stream s is (o * 7 + o / 251 + s * 13) mod 256; what is sent
 * with `rtx`, `ttl` or `prio` has PPID 8, and is only counted where it is received.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sctp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_STREAMS 65536
#define MAX_MESSAGE (8 << 20)
#define MAX_ADDRESSES 8
#define MAX_WORDS 64
#define LENGTHS 64

static int words;
static char *word[MAX_WORDS];
static int so = -1;
static sctp_assoc_t id;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t received, messages, message_length;
static uint64_t lengths[LENGTHS];
static int is_up, is_over, is_reading = 1;
static char why_over[64] = "gone";
static uint64_t sent_offset[MAX_STREAMS], received_offset[MAX_STREAMS];
static uint32_t numbered;

static const char *text(const char *name, const char *otherwise)
{
	size_t length = strlen(name);
	for (int i = 2; i < words; i++)
		if (strncmp(word[i], name, length) == 0 && word[i][length] == '=')
			return word[i] + length + 1;
	return otherwise;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *value = text(name, NULL);
	return value ? strtoull(value, NULL, 10) : otherwise;
}

static void say(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	flockfile(stdout);
	vprintf(format, list);
	putchar('\n');
	fflush(stdout);
	funlockfile(stdout);
	va_end(list);
}

static void die(const char *what)
{
	say("error %s: %s", what, strerror(errno));
	_exit(1);
}

static void answer(int result)
{
	if (result < 0)
		say("error %s", strerror(errno));
	else
		say("ok");
}

/* Into `to`, with the port; the length of the socket address. */
static socklen_t address(struct sockaddr_storage *to, const char *from, size_t length, uint16_t port)
{
	char buffer[64];
	memset(to, 0, sizeof *to);
	if (length >= sizeof buffer)
		return 0;
	memcpy(buffer, from, length);
	buffer[length] = 0;
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
	if (inet_pton(AF_INET, buffer, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		return sizeof *v4;
	}
	if (inet_pton(AF_INET6, buffer, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		return sizeof *v6;
	}
	return 0;
}

/* A list with commas, packed as bindx and connectx want it; its length. */
static socklen_t list(unsigned char *to, const char *from, uint16_t port)
{
	socklen_t length = 0;
	for (int count = 0; *from && count < MAX_ADDRESSES; count++) {
		size_t one = strcspn(from, ",");
		struct sockaddr_storage it;
		socklen_t size = address(&it, from, one, port);
		if (size == 0) {
			errno = EINVAL;
			die("an address");
		}
		memcpy(to + length, &it, size);
		length += size;
		from += one + (from[one] == ',');
	}
	return length;
}

static const char *shown(const struct sockaddr_storage *of)
{
	static char buffer[64];
	if (of->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)of)->sin_addr, buffer, sizeof buffer);
	else
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)of)->sin6_addr, buffer, sizeof buffer);
	return buffer;
}

static void over(const char *why)
{
	pthread_mutex_lock(&lock);
	if (!is_over)
		snprintf(why_over, sizeof why_over, "%s", why);
	is_over = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void on_event(const union sctp_notification *it, size_t length)
{
	switch (it->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE: {
		const struct sctp_assoc_change *change = &it->sn_assoc_change;
		switch (change->sac_state) {
		case SCTP_COMM_UP:
			pthread_mutex_lock(&lock);
			id = change->sac_assoc_id;
			is_up = 1;
			pthread_cond_broadcast(&changed);
			pthread_mutex_unlock(&lock);
			say("event up %u %u", change->sac_outbound_streams, change->sac_inbound_streams);
			break;
		case SCTP_RESTART: say("event restart"); break;
		case SCTP_COMM_LOST: say("event lost %u", ntohs(change->sac_error)); over("lost"); break;
		case SCTP_SHUTDOWN_COMP: say("event shutdown-complete"); over("shutdown"); break;
		case SCTP_CANT_STR_ASSOC: say("event cannot-start"); over("cannot-start"); break;
		}
		break;
	}
	case SCTP_PEER_ADDR_CHANGE: {
		static const char *const names[] = { "available", "unreachable", "removed", "added", "primary", "confirmed", "pf" };
		const struct sctp_paddr_change *change = &it->sn_paddr_change;
		struct sockaddr_storage copy;
		memcpy(&copy, &change->spc_aaddr, sizeof copy);
		say("event address %s %s", shown(&copy), change->spc_state < 7 ? names[change->spc_state] : "?");
		break;
	}
	case SCTP_SHUTDOWN_EVENT: say("event peer-shutdown"); break;
	case SCTP_REMOTE_ERROR: say("event remote-error %u", ntohs(it->sn_remote_error.sre_error)); break;
	case SCTP_SEND_FAILED_EVENT: say("event send-failed"); break;
	case SCTP_PARTIAL_DELIVERY_EVENT: say("event partial-delivery-aborted %u", it->sn_pdapi_event.pdapi_stream); break;
	case SCTP_ADAPTATION_INDICATION: say("event adaptation %u", it->sn_adaptation_event.sai_adaptation_ind); break;
	case SCTP_AUTHENTICATION_EVENT: say("event auth %u", it->sn_authkey_event.auth_indication); break;
	case SCTP_STREAM_RESET_EVENT: {
		const struct sctp_stream_reset_event *reset = &it->sn_strreset_event;
		size_t count = (reset->strreset_length - sizeof *reset) / sizeof(uint16_t);
		char streams[256] = "";
		for (size_t i = 0; i < count && i < 20; i++) {
			snprintf(streams + strlen(streams), 8, " %u", reset->strreset_stream_list[i]);
			if (reset->strreset_flags & SCTP_STREAM_RESET_INCOMING_SSN &&
			    !(reset->strreset_flags & (SCTP_STREAM_RESET_DENIED | SCTP_STREAM_RESET_FAILED)))
				received_offset[reset->strreset_stream_list[i]] = 0;
		}
		say("event reset%s%s%s%s%s", reset->strreset_flags & SCTP_STREAM_RESET_INCOMING_SSN ? " in" : "",
		    reset->strreset_flags & SCTP_STREAM_RESET_OUTGOING_SSN ? " out" : "",
		    reset->strreset_flags & SCTP_STREAM_RESET_DENIED ? " denied" : "",
		    reset->strreset_flags & SCTP_STREAM_RESET_FAILED ? " failed" : "", streams);
		break;
	}
	case SCTP_ASSOC_RESET_EVENT:
		say("event tsn-reset%s%s", it->sn_assocreset_event.assocreset_flags & SCTP_ASSOC_RESET_DENIED ? " denied" : "",
		    it->sn_assocreset_event.assocreset_flags & SCTP_ASSOC_RESET_FAILED ? " failed" : "");
		break;
	case SCTP_STREAM_CHANGE_EVENT:
		say("event streams %u %u%s", it->sn_strchange_event.strchange_outstrms, it->sn_strchange_event.strchange_instrms,
		    it->sn_strchange_event.strchange_flags ? " denied-or-failed" : "");
		break;
	default: say("event type %x, %zu bytes", it->sn_header.sn_type, length); break;
	}
}

static void *reads(void *unused)
{
	static unsigned char data[1 << 20];
	for (;;) {
		pthread_mutex_lock(&lock);
		while (!is_reading)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		char control[256];
		struct iovec part = { data, sizeof data };
		struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
		/* A call that waits holds the socket: what another thread closes would go on until something came. */
		struct pollfd ready = { so, POLLIN, 0 };
		if (poll(&ready, 1, 50) == 0)
			continue;
		ssize_t got = recvmsg(so, &header, MSG_DONTWAIT);
		if (got < 0 && errno == EAGAIN)
			continue;
		if (got <= 0) {
			/* The event that says why came before. */
			if (got < 0)
				say("event read %s", strerror(errno));
			over(got == 0 ? "shutdown" : "lost");
			return unused;
		}
		if (header.msg_flags & MSG_NOTIFICATION) {
			on_event((union sctp_notification *)data, (size_t)got);
			continue;
		}
		struct sctp_rcvinfo info = { 0 };
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c))
			if (c->cmsg_level == IPPROTO_SCTP && c->cmsg_type == SCTP_RCVINFO)
				memcpy(&info, CMSG_DATA(c), sizeof info);
		if (ntohl(info.rcv_ppid) != 8) {
			uint64_t at = received_offset[info.rcv_sid];
			for (ssize_t i = 0; i < got; i++, at++)
				if (data[i] != (unsigned char)(at * 7 + at / 251 + info.rcv_sid * 13)) {
					say("error stream %u: other bytes at %llu", info.rcv_sid, (unsigned long long)at);
					_exit(1);
				}
			received_offset[info.rcv_sid] = at;
		}
		pthread_mutex_lock(&lock);
		received += (uint64_t)got;
		message_length += (uint64_t)got;
		if (header.msg_flags & MSG_EOR) {
			lengths[messages++ % LENGTHS] = message_length;
			message_length = 0;
		}
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
}

static void await(const uint64_t *what, uint64_t least)
{
	pthread_mutex_lock(&lock);
	while (*what < least && !is_over)
		pthread_cond_wait(&changed, &lock);
	uint64_t got = *what;
	pthread_mutex_unlock(&lock);
	if (got < least)
		say("error only %llu came, and it is over: %s", (unsigned long long)got, why_over);
	else
		say("ok %llu", (unsigned long long)got);
}

static void on_lengths(void)
{
	char all[LENGTHS * 12] = "";
	pthread_mutex_lock(&lock);
	for (uint64_t i = messages > LENGTHS ? messages - LENGTHS : 0; i < messages; i++)
		snprintf(all + strlen(all), 12, " %llu", (unsigned long long)lengths[i % LENGTHS]);
	pthread_mutex_unlock(&lock);
	say("ok%s", all);
}

/* A socket for many has no association before it is told so. */
static void until_up(void)
{
	pthread_mutex_lock(&lock);
	while (!is_up && !is_over && strcmp(text("style", "one"), "many") == 0)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static int put(const void *data, size_t length, struct sctp_sndinfo info, const struct sctp_prinfo *reliability)
{
	char control[CMSG_SPACE(sizeof info) + CMSG_SPACE(sizeof *reliability)] = { 0 };
	struct iovec part = { (void *)data, length };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
	until_up();
	info.snd_assoc_id = id;
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);
	c->cmsg_level = IPPROTO_SCTP;
	c->cmsg_type = SCTP_SNDINFO;
	c->cmsg_len = CMSG_LEN(sizeof info);
	memcpy(CMSG_DATA(c), &info, sizeof info);
	if (reliability) {
		c = CMSG_NXTHDR(&header, c);
		c->cmsg_level = IPPROTO_SCTP;
		c->cmsg_type = SCTP_PRINFO;
		c->cmsg_len = CMSG_LEN(sizeof *reliability);
		memcpy(CMSG_DATA(c), reliability, sizeof *reliability);
	} else {
		header.msg_controllen = CMSG_SPACE(sizeof info);
	}
	return (int)sendmsg(so, &header, MSG_NOSIGNAL);
}

static void on_send(char *rest)
{
	unsigned long long stream, bytes, message;
	char kind[4][16] = { "", "", "", "" };
	static unsigned char data[MAX_MESSAGE];
	if (sscanf(rest, "%llu %llu %llu %15s %15s %15s %15s", &stream, &bytes, &message, kind[0], kind[1], kind[2], kind[3]) < 3 ||
	    message == 0 || message > MAX_MESSAGE || stream >= MAX_STREAMS) {
		say("error what to send?");
		return;
	}
	struct sctp_sndinfo info = { .snd_sid = (uint16_t)stream, .snd_ppid = htonl(7) };
	struct sctp_prinfo reliability = { 0 };
	int is_partial = 0;
	for (int i = 0; i < 4; i++) {
		if (strcmp(kind[i], "unordered") == 0)
			info.snd_flags |= SCTP_UNORDERED;
		if (strcmp(kind[i], "now") == 0)
			info.snd_flags |= SCTP_SACK_IMMEDIATELY;
		int is_rtx = strcmp(kind[i], "rtx") == 0, is_ttl = strcmp(kind[i], "ttl") == 0;
		if ((is_rtx || is_ttl || strcmp(kind[i], "prio") == 0) && i < 3) {
			is_partial = 1;
			reliability.pr_policy = is_rtx ? SCTP_PR_SCTP_RTX : is_ttl ? SCTP_PR_SCTP_TTL : SCTP_PR_SCTP_PRIO;
			reliability.pr_value = (uint32_t)strtoul(kind[i + 1], NULL, 10);
			info.snd_ppid = htonl(8);
		}
	}
	for (unsigned long long done = 0; done < bytes;) {
		size_t length = bytes - done < message ? (size_t)(bytes - done) : (size_t)message;
		if (is_partial) {
			memset(data, 0, length);
			uint32_t n = htonl(numbered++);
			memcpy(data, &n, length < 4 ? length : 4);
		} else {
			uint64_t at = sent_offset[stream];
			for (size_t i = 0; i < length; i++, at++)
				data[i] = (unsigned char)(at * 7 + at / 251 + stream * 13);
			sent_offset[stream] = at;
		}
		if (put(data, length, info, is_partial ? &reliability : NULL) < 0) {
			say("error %s after %llu bytes", strerror(errno), done);
			return;
		}
		done += length;
	}
	say("ok");
}

static void on_reset(const char *how, unsigned stream)
{
	if (strcmp(how, "tsn") == 0) {
		answer(setsockopt(so, IPPROTO_SCTP, SCTP_RESET_ASSOC, &id, sizeof id));
		return;
	}
	unsigned char room[sizeof(struct sctp_reset_streams) + sizeof(uint16_t)];
	struct sctp_reset_streams *reset = (struct sctp_reset_streams *)room;
	memset(room, 0, sizeof room);
	reset->srs_assoc_id = id;
	if (strcmp(how, "in") != 0) {
		reset->srs_flags |= SCTP_STREAM_RESET_OUTGOING;
		sent_offset[stream] = 0;
	}
	if (strcmp(how, "out") != 0)
		reset->srs_flags |= SCTP_STREAM_RESET_INCOMING;
	reset->srs_number_streams = 1;
	reset->srs_stream_list[0] = (uint16_t)stream;
	answer(setsockopt(so, IPPROTO_SCTP, SCTP_RESET_STREAMS, reset, sizeof room));
}

/* The SCTP port of the peer. */
static uint16_t peer_port(void)
{
	struct sctp_status status = { .sstat_assoc_id = id };
	socklen_t length = sizeof status;
	struct sockaddr_in primary = { 0 };
	until_up();
	status.sstat_assoc_id = id;
	if (getsockopt(so, IPPROTO_SCTP, SCTP_STATUS, &status, &length) == 0)
		memcpy(&primary, &status.sstat_primary.spinfo_address, sizeof primary);
	return ntohs(primary.sin_port);
}

static void on_address(const char *command, const char *ip)
{
	uint16_t port = peer_port();
	struct sockaddr_storage it;
	int is_own = strcmp(command, "add") == 0 || strcmp(command, "del") == 0;
	int is_local = is_own || strcmp(command, "peer-primary") == 0;
	struct sockaddr_in6 bound;
	socklen_t length = sizeof bound;
	if (is_local && getsockname(so, (struct sockaddr *)&bound, &length) == 0)
		port = ntohs(bound.sin6_port);
	if ((length = address(&it, ip, strlen(ip), port)) == 0) {
		say("error no address");
	} else if (is_own) {
		int how = command[0] == 'a' ? SCTP_SOCKOPT_BINDX_ADD : SCTP_SOCKOPT_BINDX_REM;
		answer(setsockopt(so, IPPROTO_SCTP, how, &it, length));
	} else if (strcmp(command, "heartbeat") == 0) {
		struct sctp_paddrparams path = { .spp_assoc_id = id, .spp_flags = SPP_HB_DEMAND };
		memcpy(&path.spp_address, &it, sizeof it);
		answer(setsockopt(so, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &path, sizeof path));
	} else {
		struct sctp_prim primary = { .ssp_assoc_id = id };
		memcpy(&primary.ssp_addr, &it, sizeof it);
		int what = strcmp(command, "primary") == 0 ? SCTP_PRIMARY_ADDR : SCTP_SET_PEER_PRIMARY_ADDR;
		answer(setsockopt(so, IPPROTO_SCTP, what, &primary, sizeof primary));
	}
}

static void on_status(void)
{
	struct sctp_status status = { .sstat_assoc_id = id };
	socklen_t length = sizeof status;
	if (getsockopt(so, IPPROTO_SCTP, SCTP_STATUS, &status, &length) < 0) {
		answer(-1);
		return;
	}
	struct sockaddr_storage primary;
	memcpy(&primary, &status.sstat_primary.spinfo_address, sizeof primary);
	say("ok state=%d rwnd=%u unacked=%u pending=%u in=%u out=%u primary=%s mtu=%u srtt=%u rto=%u", status.sstat_state,
	    status.sstat_rwnd, status.sstat_unackdata, status.sstat_penddata, status.sstat_instrms, status.sstat_outstrms,
	    shown(&primary), status.sstat_primary.spinfo_mtu, status.sstat_primary.spinfo_srtt, status.sstat_primary.spinfo_rto);
}

static void on_stats(void)
{
	struct sctp_assoc_stats it = { .sas_assoc_id = id };
	socklen_t length = sizeof it;
	if (getsockopt(so, IPPROTO_SCTP, SCTP_GET_ASSOC_STATS, &it, &length) < 0) {
		answer(-1);
		return;
	}
	say("ok isacks=%llu osacks=%llu opackets=%llu ipackets=%llu rtx=%llu dups=%llu gaps=%llu", it.sas_isacks, it.sas_osacks,
	    it.sas_opackets, it.sas_ipackets, it.sas_rtxchunks, it.sas_idupchunks, it.sas_gapcnt);
}

/* The peer's addresses as this side sees them. */
static void on_paths(const char *peers)
{
	uint16_t port = peer_port();
	char all[1024] = "";
	static const char *const names[] = { "inactive", "pf", "active", "unconfirmed" };
	while (*peers) {
		size_t one = strcspn(peers, ",");
		struct sctp_paddrinfo info = { .spinfo_assoc_id = id };
		struct sockaddr_storage it;
		socklen_t length = sizeof info;
		address(&it, peers, one, port);
		memcpy(&info.spinfo_address, &it, sizeof it);
		if (getsockopt(so, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &info, &length) < 0)
			snprintf(all + strlen(all), 128, " %s=none", shown(&it));
		else
			snprintf(all + strlen(all), 128, " %s=%s,mtu=%u", shown(&it),
			         info.spinfo_state >= 0 && info.spinfo_state < 4 ? names[info.spinfo_state] : "?", info.spinfo_mtu);
		peers += one + (peers[one] == ',');
	}
	say("ok%s", all);
}

static void set(int level, int name, const void *value, socklen_t length, const char *what)
{
	if (setsockopt(so, level, name, value, length) < 0)
		die(what);
}
#define SET(name, value) set(IPPROTO_SCTP, name, &(value), sizeof(value), #name)

static void set_value(int name, uint32_t to, const char *what)
{
	struct sctp_assoc_value value = { .assoc_value = to };
	set(IPPROTO_SCTP, name, &value, sizeof value, what);
}

/* What a socket is told before it is bound, and once more after it was accepted. */
static void prepare(int family)
{
	int on = 1, off = 0, buffer = (int)number("buffer", 4 << 20);
	if (family == AF_INET6)
		SET(SCTP_I_WANT_MAPPED_V4_ADDR, off);
	set(SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer, "SO_RCVBUF");
	set(SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer, "SO_SNDBUF");
	SET(SCTP_RECVRCVINFO, on);
	SET(SCTP_NODELAY, on);
	/* Where the last SHUTDOWN COMPLETE was lost, the association before still ends. */
	set(SOL_SOCKET, SO_REUSEADDR, &on, sizeof on, "SO_REUSEADDR");
	static const uint16_t events[] = { SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_REMOTE_ERROR, SCTP_SHUTDOWN_EVENT,
		SCTP_PARTIAL_DELIVERY_EVENT, SCTP_ADAPTATION_INDICATION, SCTP_AUTHENTICATION_EVENT, SCTP_STREAM_RESET_EVENT,
		SCTP_ASSOC_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT, SCTP_SEND_FAILED_EVENT };
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event event = { .se_type = events[i], .se_on = 1 };
		SET(SCTP_EVENT, event);
	}
}

/* What only a socket without association takes. */
static void configure(void)
{
	struct sctp_initmsg init = { 0 };
	init.sinit_num_ostreams = init.sinit_max_instreams = (uint16_t)number("streams", 64);
	SET(SCTP_INITMSG, init);
	uint32_t rto_min = (uint32_t)number("rto_min", 1000);
	struct sctp_rtoinfo rto = { .srto_initial = rto_min, .srto_min = rto_min, .srto_max = 60000 };
	SET(SCTP_RTOINFO, rto);
	struct sctp_paddrparams path = { .spp_hbinterval = (uint32_t)number("heartbeat", 30000), .spp_flags = SPP_HB_ENABLE };
	path.spp_pathmaxrxt = (uint16_t)number("path_max", 5);
	path.spp_address.ss_family = AF_INET;
	SET(SCTP_PEER_ADDR_PARAMS, path);
	int interleave = (int)number("interleave", number("idata", 0) ? 2 : 0);
	SET(SCTP_FRAGMENT_INTERLEAVE, interleave);
	if (number("idata", 0))
		set_value(SCTP_INTERLEAVING_SUPPORTED, 1, "SCTP_INTERLEAVING_SUPPORTED");
	set_value(SCTP_PR_SUPPORTED, (uint32_t)number("pr", 0), "SCTP_PR_SUPPORTED");
	set_value(SCTP_RECONFIG_SUPPORTED, (uint32_t)number("reconfig", 0), "SCTP_RECONFIG_SUPPORTED");
	set_value(SCTP_ECN_SUPPORTED, (uint32_t)number("ecn", 0), "SCTP_ECN_SUPPORTED");
	if (number("reconfig", 0))
		set_value(SCTP_ENABLE_STREAM_RESET, SCTP_ENABLE_STRRESET_MASK, "SCTP_ENABLE_STREAM_RESET");
	if (number("auth", 0))
		set_value(SCTP_AUTH_SUPPORTED, 1, "SCTP_AUTH_SUPPORTED");
	if (number("asconf", 0))
		set_value(SCTP_ASCONF_SUPPORTED, 1, "SCTP_ASCONF_SUPPORTED");
	if (number("data_auth", 0)) {
		struct sctp_authchunk chunk = { 0 };
		SET(SCTP_AUTH_CHUNK, chunk);
	}
	const char *key = text("key", NULL);
	if (key != NULL) {
		unsigned char room[sizeof(struct sctp_authkey) + 256] = { 0 };
		struct sctp_authkey *it = (struct sctp_authkey *)room;
		it->sca_keynumber = 1;
		it->sca_keylength = (uint16_t)strlen(key);
		memcpy(it->sca_key, key, strlen(key));
		set(IPPROTO_SCTP, SCTP_AUTH_KEY, it, (socklen_t)(sizeof *it + strlen(key)), "SCTP_AUTH_KEY");
		struct sctp_authkeyid active = { .scact_keynumber = 1 };
		SET(SCTP_AUTH_ACTIVE_KEY, active);
	}
	if (text("scheduler", NULL))
		set_value(SCTP_STREAM_SCHEDULER, (uint32_t)number("scheduler", 0), "SCTP_STREAM_SCHEDULER");
	if (text("sack_delay", NULL) || text("sack_freq", NULL)) {
		struct sctp_sack_info sack = { 0, (uint32_t)number("sack_delay", 200), (uint32_t)number("sack_freq", 2) };
		SET(SCTP_DELAYED_SACK, sack);
	}
	if (text("autoclose", NULL)) {
		int seconds = (int)number("autoclose", 0);
		SET(SCTP_AUTOCLOSE, seconds);
	}
	if (text("maxseg", NULL))
		set_value(SCTP_MAXSEG, (uint32_t)number("maxseg", 0), "SCTP_MAXSEG");
	if (text("adaptation", NULL)) {
		struct sctp_setadaptation adaptation = { (uint32_t)number("adaptation", 0) };
		SET(SCTP_ADAPTATION_LAYER, adaptation);
	}
	if (text("probe", NULL)) {
		struct sctp_probeinterval probe = { .spi_interval = (uint32_t)number("probe", 0) };
		probe.spi_address.ss_family = AF_INET;
		SET(SCTP_PLPMTUD_PROBE_INTERVAL, probe);
	}
}

/* One socket, in a process of its own. */
static void run(void)
{
	int is_client = strcmp(word[1], "connect") == 0;
	uint16_t port = (uint16_t)number("port", 5001);
	const char *local = text("local", "127.0.0.1"), *peer = text("peer", "127.0.0.1");
	int is_many = strcmp(text("style", "one"), "many") == 0;
	/* A socket of IPv6 has both families. */
	int family = strchr(local, ':') || strchr(peer, ':') ? AF_INET6 : AF_INET;
	so = socket(family, is_many ? SOCK_SEQPACKET : SOCK_STREAM, IPPROTO_SCTP);
	if (so < 0)
		die("socket");
	prepare(family);
	configure();
	unsigned char addresses[MAX_ADDRESSES * sizeof(struct sockaddr_in6)];
	socklen_t length = list(addresses, local, is_client ? (uint16_t)number("from", 0) : port);
	/* All of them have the port that the first got. */
	socklen_t first = ((struct sockaddr *)addresses)->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (bind(so, (struct sockaddr *)addresses, first) < 0)
		die("bind");
	struct sockaddr_in6 bound;
	socklen_t bound_length = sizeof bound;
	getsockname(so, (struct sockaddr *)&bound, &bound_length);
	for (socklen_t at = first; at < length;) {
		struct sockaddr *it = (struct sockaddr *)(addresses + at);
		((struct sockaddr_in *)it)->sin_port = bound.sin6_port;
		socklen_t one = it->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
		set(IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, it, one, "SCTP_SOCKOPT_BINDX_ADD");
		at += one;
	}
	if (number("peer_udp", 0)) {
		struct sctp_udpencaps encaps = { .sue_port = htons((uint16_t)number("peer_udp", 0)) };
		encaps.sue_address.ss_family = (sa_family_t)family;
		SET(SCTP_REMOTE_UDP_ENCAPS_PORT, encaps);
	}
	if ((!is_client || number("also_listen", 0)) && listen(so, 4) < 0)
		die("listen");
	pthread_t reader;
	if (is_client) {
		length = list(addresses, peer, port);
		fcntl(so, F_SETFL, O_NONBLOCK);
		int result = setsockopt(so, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, addresses, length);
		if (result < 0 && errno != EINPROGRESS)
			die("connect");
		say("connecting");
		fcntl(so, F_SETFL, 0);
	} else {
		say("listening");
		if (!is_many) {
			int listener = so;
			so = accept(listener, NULL, NULL);
			if (so < 0)
				die("accept");
			close(listener);
			prepare(family);
		}
	}
	if (is_client && !is_many) {
		struct pollfd up = { so, POLLOUT, 0 };
		int error = 0;
		socklen_t size = sizeof error;
		poll(&up, 1, -1);
		getsockopt(so, SOL_SOCKET, SO_ERROR, &error, &size);
		errno = error;
		if (error != 0)
			die("connect");
	}
	if (pthread_create(&reader, NULL, reads, NULL) != 0)
		die("pthread_create");
	if (is_client && is_many) {
		until_up();
		if (!is_up) {
			errno = ENOTCONN;
			die("connect");
		}
	}
}

static int command(char *line)
{
	char it[32] = "", one[64] = "";
	unsigned a = 0, b = 0;
	int used = 0;
	sscanf(line, "%31s%n", it, &used);
	char *rest = line + used + (line[used] == ' ');
	if (strcmp(it, "end") == 0) {
		return 0;
	} else if (strcmp(it, "sh") == 0) {
		answer(system(rest) == 0 ? 0 : -1);
	} else if (strcmp(it, "send") == 0) {
		on_send(rest);
	} else if (strcmp(it, "expect") == 0) {
		await(&received, strtoull(rest, NULL, 10));
	} else if (strcmp(it, "messages") == 0) {
		await(&messages, strtoull(rest, NULL, 10));
	} else if (strcmp(it, "lengths") == 0) {
		on_lengths();
	} else if (strcmp(it, "reading") == 0) {
		pthread_mutex_lock(&lock);
		is_reading = strcmp(rest, "on") == 0;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		say("ok");
	} else if (strcmp(it, "reset") == 0 && sscanf(rest, "%63s %u", one, &a) >= 1) {
		on_reset(one, a);
	} else if (strcmp(it, "streams") == 0 && sscanf(rest, "%u %u", &a, &b) == 2) {
		struct sctp_add_streams add = { .sas_assoc_id = id, .sas_outstrms = (uint16_t)a, .sas_instrms = (uint16_t)b };
		answer(setsockopt(so, IPPROTO_SCTP, SCTP_ADD_STREAMS, &add, sizeof add));
	} else if (strcmp(it, "status") == 0) {
		on_status();
	} else if (strcmp(it, "stats") == 0) {
		on_stats();
	} else if (strcmp(it, "paths") == 0) {
		on_paths(rest[0] ? rest : text("peer", ""));
	} else if (strcmp(it, "shutdown") == 0) {
		if (strcmp(text("style", "one"), "many") == 0)
			answer(put("", 0, (struct sctp_sndinfo){ .snd_flags = SCTP_EOF }, NULL));
		else
			answer(shutdown(so, SHUT_WR));
	} else if (strcmp(it, "abort") == 0) {
		answer(put(rest, strlen(rest), (struct sctp_sndinfo){ .snd_flags = SCTP_ABORT }, NULL));
	} else if (strcmp(it, "linger") == 0) {
		struct linger hard = { 1, 0 };
		setsockopt(so, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
		answer(close(so));
	} else if (strcmp(it, "close") == 0) {
		answer(close(so));
	} else if (strcmp(it, "wait") == 0) {
		pthread_mutex_lock(&lock);
		while (!is_over)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		say("ok %s", why_over);
	} else if (sscanf(rest, "%63s", one) == 1) {
		on_address(it, one);
	} else {
		say("error what is %s", it);
	}
	return 1;
}

/* Without the end of the line; NULL at the end of all. It reads byte by byte, as processes take turns at the console. */
static char *next_line(char *into, size_t room)
{
	size_t length = 0;
	for (;;) {
		char c;
		ssize_t got = read(STDIN_FILENO, &c, 1);
		if (got <= 0)
			return NULL;
		if (c == '\n') {
			into[length] = 0;
			return into;
		}
		if (length + 1 < room)
			into[length++] = c;
	}
}

/* Writes a value, and gives back what was there. */
static void sysctl(const char *name, const char *value, char *before, size_t room)
{
	char path[128];
	snprintf(path, sizeof path, "/proc/sys/net/sctp/%s", name);
	int fd = open(path, O_RDWR);
	if (fd < 0)
		die(path);
	if (before) {
		ssize_t got = read(fd, before, room - 1);
		before[got < 0 ? 0 : got] = 0;
		lseek(fd, 0, SEEK_SET);
	}
	if (write(fd, value, strlen(value)) < 0)
		die(path);
	close(fd);
}

/* Whether an association is left, which the end of its process did not wait for. */
static int is_any_left(void)
{
	FILE *file = fopen("/proc/net/sctp/assocs", "r");
	if (!file)
		die("/proc/net/sctp/assocs");
	static char line[1024];
	int lines = 0;
	while (fgets(line, sizeof line, file))
		lines++;
	fclose(file);
	return lines > 1;
}

struct Changed {
	char name[64], before[64];
};

static void serve(void)
{
	struct termios raw;
	if (tcgetattr(STDIN_FILENO, &raw) == 0) {
		cfmakeraw(&raw);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	say("ready");
	static char line[4096];
	while (next_line(line, sizeof line)) {
		if (strncmp(line, "sh ", 3) == 0) {
			answer(system(line + 3) == 0 ? 0 : -1);
			continue;
		}
		if (strncmp(line, "run ", 4) != 0) {
			say("error nothing runs");
			continue;
		}
		words = 0;
		/* A space within an option is written as `+`. */
		for (char *it = strtok(line, " "); it && words < MAX_WORDS; it = strtok(NULL, " "))
			word[words++] = it;
		struct Changed changed_ones[MAX_WORDS + 4];
		int count = 0;
		const char *pairs[][2] = { { "encap_port", text("peer_udp", "0") }, { "udp_port", text("udp", "0") },
			{ "auth_enable", number("auth", 0) || number("asconf", 0) ? "1" : "0" },
			{ "addip_enable", number("asconf", 0) ? "1" : "0" } };
		for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++, count++) {
			snprintf(changed_ones[count].name, 64, "%s", pairs[i][0]);
			sysctl(pairs[i][0], pairs[i][1], changed_ones[count].before, 64);
		}
		for (int i = 2; i < words; i++) {
			char *equals = strchr(word[i], '=');
			if (word[i][0] != '.' || !equals)
				continue;
			snprintf(changed_ones[count].name, 64, "%.*s", (int)(equals - word[i] - 1), word[i] + 1);
			sysctl(changed_ones[count].name, equals + 1, changed_ones[count].before, 64);
			count++;
		}
		pid_t child = fork();
		if (child == 0) {
			run();
			static char next[4096];
			while (next_line(next, sizeof next) && command(next))
				;
			fflush(stdout);
			_exit(0);
		}
		int status = 0, left = 1;
		waitpid(child, &status, 0);
		/* What is still to come for it needs the UDP port, and the next may want its address. */
		for (int waits = 0; waits < 3000 && (left = is_any_left()); waits++)
			usleep(10000);
		while (count-- > 0)
			sysctl(changed_ones[count].name, changed_ones[count].before, NULL, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			say("error it ended with %x", status);
		else
			say(left ? "error an association is left" : "ok ended");
	}
	sync();
	reboot(RB_POWER_OFF);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "modules") == 0) {
		for (int i = 2; i < argc; i++) {
			int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
			if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
				say("event %s: %s", argv[i], strerror(errno));
			close(fd);
		}
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "serve") == 0) {
		serve();
		return 1;
	}
	fprintf(stderr, "usage: linux_driven modules FILE... | linux_driven serve\n");
	return 2;
}
