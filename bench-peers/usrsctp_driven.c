/* One association over usrsctp that does what it is told line by line: the peer of crates/net/tests/usrsctp_*.rs.
 * Build: cc -O2 usrsctp_driven.c -lusrsctp -lpthread
 *
 *   usrsctp_driven listen|connect [OPTION=VALUE]...
 *
 * Options: port (SCTP, 5001), local and peer (addresses with commas between; 127.0.0.1), udp (own UDP port; 0: IP
 * itself), peer_udp (the peer's UDP port; 0: IP itself), buffer (4194304 bytes, both directions), streams (64), and
 * rto_min (1000 ms), heartbeat (30000 ms), path_max (5), idata (0: 1 offers I-DATA, and reads messages of several streams
 * as they mix), pr, asconf, auth, reconfig (what is offered; each 0), data_auth (0: 1 wants DATA with AUTH), key (text of the
 * shared key 1, if any), blackhole (0: 2 answers nothing that is out of the blue), interleave (0 to 2).
 *
 * Commands on stdin, each answered by one line on stdout, "ok ..." or "error ...":
 *   send STREAM BYTES MESSAGE [unordered] [rtx N | ttl MS]   BYTES in messages of MESSAGE; all are taken when it answers
 *   expect BYTES         waits until so many came in all
 *   messages COUNT       waits until so many messages came in all
 *   reset out|in STREAM  reset both STREAM  reset tsn        streams OUT IN (adds)
 *   add ADDR  del ADDR  primary ADDR  peer-primary ADDR
 *   shutdown  abort      wait (until it is over)
 * What happens is told in between: "event ...". Byte o of stream s is (o * 7 + o / 251 + s * 13) mod 256; with `rtx`
 * and `ttl` each message is whole and begins with its number, and what is received of such, told by PPID 8, is only
 * counted. It ends when stdin does. Exit 0 unless something received was wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <usrsctp.h>

#ifndef SCTP_INTERLEAVING_SUPPORTED
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206
#endif
#define MAX_STREAMS 65536
#define MAX_MESSAGE (1 << 20)
#define MAX_ADDRESSES 8

static int words;
static char **word;
static struct socket *so;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t received, messages;
static int is_over;
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

static void die(const char *what)
{
	perror(what);
	_exit(1);
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
	fprintf(stderr, "%s is no address\n", buffer);
	return 0;
}

/* A list with commas, packed as bindx and connectx want it; how many. */
static int list(unsigned char *to, const char *from, uint16_t port)
{
	int count = 0;
	while (*from && count < MAX_ADDRESSES) {
		size_t length = strcspn(from, ",");
		struct sockaddr_storage one;
		socklen_t size = address(&one, from, length, port);
		if (size == 0)
			exit(2);
		memcpy(to, &one, size);
		to += size;
		from += length + (from[length] == ',');
		count++;
	}
	return count;
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
		char features[64] = "";
		static const char *const names[] = { "", "pr", "auth", "asconf", "multibuf", "reconfig", "idata" };
		for (size_t i = 0; i + sizeof *change < length && i < 8; i++)
			if (change->sac_info[i] < 7 && change->sac_state == SCTP_COMM_UP) {
				strcat(features, " ");
				strcat(features, names[change->sac_info[i]]);
			}
		switch (change->sac_state) {
		case SCTP_COMM_UP:
			say("event up %u %u%s", change->sac_outbound_streams, change->sac_inbound_streams, features);
			break;
		case SCTP_RESTART: say("event restart"); break;
		case SCTP_COMM_LOST: say("event lost"); over("lost"); break;
		case SCTP_SHUTDOWN_COMP: say("event shutdown-complete"); over("shutdown"); break;
		case SCTP_CANT_STR_ASSOC: say("event cannot-start"); over("cannot-start"); break;
		}
		break;
	}
	case SCTP_PEER_ADDR_CHANGE: {
		static const char *const names[] = { "?", "available", "unreachable", "removed", "added", "primary", "confirmed" };
		const struct sctp_paddr_change *change = &it->sn_paddr_change;
		say("event address %s %s", shown(&change->spc_aaddr), change->spc_state < 7 ? names[change->spc_state] : "?");
		break;
	}
	case SCTP_SHUTDOWN_EVENT: say("event peer-shutdown"); break;
	case SCTP_REMOTE_ERROR: say("event remote-error %u", ntohs(it->sn_remote_error.sre_error)); break;
	case SCTP_SEND_FAILED_EVENT: say("event send-failed"); break;
	case SCTP_PARTIAL_DELIVERY_EVENT: say("event partial-delivery-aborted %u", it->sn_pdapi_event.pdapi_stream); break;
	case SCTP_AUTHENTICATION_EVENT: say("event auth %u", it->sn_auth_event.auth_indication); break;
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
	}
}

static void *reads(void *unused)
{
	unsigned char *data = malloc(MAX_MESSAGE);
	for (;;) {
		struct sctp_rcvinfo info;
		memset(&info, 0, sizeof info);
		socklen_t length = sizeof info;
		unsigned int type = 0;
		int flags = 0;
		ssize_t got = usrsctp_recvv(so, data, MAX_MESSAGE, NULL, NULL, &info, &length, &type, &flags);
		if (got <= 0) {
			/* The event that says why came before. */
			over(got == 0 ? "shutdown" : "lost");
			return unused;
		}
		if (flags & MSG_NOTIFICATION) {
			on_event((union sctp_notification *)data, (size_t)got);
			continue;
		}
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
		messages += (flags & MSG_EOR) != 0;
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

static void on_send(char *rest)
{
	unsigned long long stream, bytes, message, limit = 0;
	char kind[3][16] = { "", "", "" };
	static unsigned char data[MAX_MESSAGE];
	if (sscanf(rest, "%llu %llu %llu %15s %15s %15s", &stream, &bytes, &message, kind[0], kind[1], kind[2]) < 3 ||
	    message == 0 || message > MAX_MESSAGE || stream >= MAX_STREAMS) {
		say("error what to send?");
		return;
	}
	struct sctp_sendv_spa info;
	memset(&info, 0, sizeof info);
	info.sendv_flags = SCTP_SEND_SNDINFO_VALID;
	info.sendv_sndinfo.snd_sid = (uint16_t)stream;
	info.sendv_sndinfo.snd_ppid = htonl(7);
	for (int i = 0; i < 3; i++) {
		if (strcmp(kind[i], "unordered") == 0)
			info.sendv_sndinfo.snd_flags |= SCTP_UNORDERED;
		if ((strcmp(kind[i], "rtx") == 0 || strcmp(kind[i], "ttl") == 0) && i < 2) {
			info.sendv_flags |= SCTP_SEND_PRINFO_VALID;
			info.sendv_prinfo.pr_policy = kind[i][0] == 'r' ? SCTP_PR_SCTP_RTX : SCTP_PR_SCTP_TTL;
			limit = strtoull(kind[i + 1], NULL, 10);
			info.sendv_prinfo.pr_value = (uint32_t)limit;
			info.sendv_sndinfo.snd_ppid = htonl(8);
		}
	}
	for (unsigned long long done = 0; done < bytes;) {
		size_t length = bytes - done < message ? (size_t)(bytes - done) : (size_t)message;
		if (ntohl(info.sendv_sndinfo.snd_ppid) == 8) {
			memset(data, 0, length);
			uint32_t n = htonl(numbered++);
			memcpy(data, &n, length < 4 ? length : 4);
		} else {
			uint64_t at = sent_offset[stream];
			for (size_t i = 0; i < length; i++, at++)
				data[i] = (unsigned char)(at * 7 + at / 251 + stream * 13);
			sent_offset[stream] = at;
		}
		if (usrsctp_sendv(so, data, length, NULL, 0, &info, sizeof info, SCTP_SENDV_SPA, 0) < 0) {
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
		sctp_assoc_t id = 0;
		answer(usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_RESET_ASSOC, &id, sizeof id));
		return;
	}
	unsigned char room[sizeof(struct sctp_reset_streams) + sizeof(uint16_t)];
	struct sctp_reset_streams *reset = (struct sctp_reset_streams *)room;
	memset(room, 0, sizeof room);
	if (strcmp(how, "in") != 0) {
		reset->srs_flags |= SCTP_STREAM_RESET_OUTGOING;
		sent_offset[stream] = 0;
	}
	if (strcmp(how, "out") != 0)
		reset->srs_flags |= SCTP_STREAM_RESET_INCOMING;
	reset->srs_number_streams = 1;
	reset->srs_stream_list[0] = (uint16_t)stream;
	answer(usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_RESET_STREAMS, reset, sizeof room));
}

static void on_address(const char *command, const char *ip, uint16_t port)
{
	struct sockaddr_storage it;
	int own = strcmp(command, "add") == 0 || strcmp(command, "del") == 0;
	/* Own addresses have the port that the socket is bound to, whichever it is. */
	if (address(&it, ip, strlen(ip), own ? 0 : port) == 0) {
		say("error no address");
	} else if (own) {
		int how = command[0] == 'a' ? SCTP_BINDX_ADD_ADDR : SCTP_BINDX_REM_ADDR;
		answer(usrsctp_bindx(so, (struct sockaddr *)&it, 1, how));
	} else {
		struct sctp_setprim primary;
		memset(&primary, 0, sizeof primary);
		primary.ssp_addr = it;
		int what = strcmp(command, "primary") == 0 ? SCTP_PRIMARY_ADDR : SCTP_SET_PEER_PRIMARY_ADDR;
		answer(usrsctp_setsockopt(so, IPPROTO_SCTP, what, &primary, sizeof primary));
	}
}

static void set(int level, int name, const void *value, socklen_t length, const char *what)
{
	if (usrsctp_setsockopt(so, level, name, value, length) < 0)
		die(what);
}

int main(int argc, char **argv)
{
	if (argc < 2 || (strcmp(argv[1], "listen") != 0 && strcmp(argv[1], "connect") != 0)) {
		fprintf(stderr, "usage: usrsctp_driven listen|connect [OPTION=VALUE]...\n");
		return 2;
	}
	words = argc;
	word = argv;
	int connects = strcmp(argv[1], "connect") == 0;
	uint16_t port = (uint16_t)number("port", 5001);
	const char *local = text("local", "127.0.0.1"), *peer = text("peer", "127.0.0.1");
	uint16_t udp = (uint16_t)number("udp", 0), peer_udp = (uint16_t)number("peer_udp", 0);

	usrsctp_init(udp, NULL, NULL);
	usrsctp_sysctl_set_sctp_blackhole((uint32_t)number("blackhole", 0));
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
	usrsctp_sysctl_set_sctp_pr_enable((uint32_t)number("pr", 0));
	usrsctp_sysctl_set_sctp_asconf_enable(0);
	usrsctp_sysctl_set_sctp_auth_enable((uint32_t)(number("auth", 0) || number("asconf", 0)));
	usrsctp_sysctl_set_sctp_asconf_enable((uint32_t)number("asconf", 0));
	usrsctp_sysctl_set_sctp_auto_asconf(0);
	usrsctp_sysctl_set_sctp_reconfig_enable((uint32_t)number("reconfig", 0));
	usrsctp_sysctl_set_sctp_nrsack_enable((uint32_t)number("nrsack", 0));
	usrsctp_sysctl_set_sctp_pktdrop_enable(0);
	usrsctp_sysctl_set_sctp_ecn_enable((uint32_t)number("ecn", 0));
	uint32_t rto_min = (uint32_t)number("rto_min", 1000);
	usrsctp_sysctl_set_sctp_rto_min_default(rto_min);
	usrsctp_sysctl_set_sctp_rto_initial_default(rto_min);
	usrsctp_sysctl_set_sctp_heartbeat_interval_default((uint32_t)number("heartbeat", 30000));
	usrsctp_sysctl_set_sctp_path_rtx_max_default((uint32_t)number("path_max", 5));

	/* A socket of IPv6 has both families. */
	int family = strchr(local, ':') || strchr(peer, ':') ? AF_INET6 : AF_INET;
	so = usrsctp_socket(family, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (so == NULL)
		die("usrsctp_socket");
	int on = 1, off = 0, buffer = (int)number("buffer", 4 << 20);
	if (family == AF_INET6)
		set(IPPROTO_SCTP, SCTP_I_WANT_MAPPED_V4_ADDR, &off, sizeof off, "SCTP_I_WANT_MAPPED_V4_ADDR");
	struct sctp_initmsg init = { 0 };
	init.sinit_num_ostreams = init.sinit_max_instreams = (uint16_t)number("streams", 64);
	set(IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init, "SCTP_INITMSG");
	set(SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer, "SO_RCVBUF");
	set(SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer, "SO_SNDBUF");
	set(IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on, "SCTP_RECVRCVINFO");
	set(IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on, "SCTP_NODELAY");
	/* An abort by close is by SO_LINGER 0. */
	static const uint16_t events[] = { SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_REMOTE_ERROR, SCTP_SHUTDOWN_EVENT,
		SCTP_PARTIAL_DELIVERY_EVENT, SCTP_AUTHENTICATION_EVENT, SCTP_STREAM_RESET_EVENT, SCTP_ASSOC_RESET_EVENT,
		SCTP_STREAM_CHANGE_EVENT, SCTP_SEND_FAILED_EVENT };
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event event = { 0 };
		event.se_type = events[i];
		event.se_on = 1;
		set(IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event, "SCTP_EVENT");
	}
	struct sctp_assoc_value value = { 0 };
	int interleave = (int)number("interleave", number("idata", 0) ? 2 : 0);
	if (interleave)
		set(IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &interleave, sizeof interleave, "SCTP_FRAGMENT_INTERLEAVE");
	if (number("idata", 0)) {
		value.assoc_value = 1;
		set(IPPROTO_SCTP, SCTP_INTERLEAVING_SUPPORTED, &value, sizeof value, "SCTP_INTERLEAVING_SUPPORTED");
	}
	if (number("reconfig", 0)) {
		value.assoc_value = SCTP_ENABLE_VALUE_MASK;
		set(IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &value, sizeof value, "SCTP_ENABLE_STREAM_RESET");
	}
	if (number("data_auth", 0)) {
		struct sctp_authchunk chunk = { 0 };
		set(IPPROTO_SCTP, SCTP_AUTH_CHUNK, &chunk, sizeof chunk, "SCTP_AUTH_CHUNK");
	}
	const char *key = text("key", NULL);
	if (key != NULL) {
		unsigned char room[sizeof(struct sctp_authkey) + 256] = { 0 };
		struct sctp_authkey *it = (struct sctp_authkey *)room;
		it->sca_keynumber = 1;
		it->sca_keylength = (uint16_t)strlen(key);
		memcpy(it->sca_key, key, strlen(key));
		set(IPPROTO_SCTP, SCTP_AUTH_KEY, it, (socklen_t)(sizeof *it + strlen(key)), "SCTP_AUTH_KEY");
		struct sctp_authkeyid active = { 0 };
		active.scact_keynumber = 1;
		set(IPPROTO_SCTP, SCTP_AUTH_ACTIVE_KEY, &active, sizeof active, "SCTP_AUTH_ACTIVE_KEY");
	}

	unsigned char addresses[MAX_ADDRESSES * sizeof(struct sockaddr_in6)];
	int count = list(addresses, local, connects ? 0 : port);
	if (usrsctp_bindx(so, (struct sockaddr *)addresses, count, SCTP_BINDX_ADD_ADDR) < 0)
		die("usrsctp_bindx");
	if (peer_udp != 0) {
		struct sctp_udpencaps encaps = { 0 };
		encaps.sue_address.ss_family = (sa_family_t)family;
		encaps.sue_port = htons(peer_udp);
		set(IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps, "SCTP_REMOTE_UDP_ENCAPS_PORT");
	}
	if (connects) {
		sctp_assoc_t id = 0;
		count = list(addresses, peer, port);
		say("connecting");
		if (usrsctp_connectx(so, (struct sockaddr *)addresses, count, &id) < 0)
			die("usrsctp_connectx");
	} else {
		if (usrsctp_listen(so, 1) < 0)
			die("usrsctp_listen");
		say("listening");
		struct socket *listener = so;
		so = usrsctp_accept(listener, NULL, NULL);
		if (so == NULL)
			die("usrsctp_accept");
		usrsctp_close(listener);
	}
	pthread_t reader;
	if (pthread_create(&reader, NULL, reads, NULL) != 0)
		die("pthread_create");

	char line[256];
	while (fgets(line, sizeof line, stdin)) {
		char command[32] = "", one[64] = "";
		unsigned a = 0, b = 0;
		int used = 0;
		sscanf(line, "%31s%n", command, &used);
		if (strcmp(command, "send") == 0) {
			on_send(line + used);
		} else if (strcmp(command, "expect") == 0) {
			await(&received, strtoull(line + used, NULL, 10));
		} else if (strcmp(command, "messages") == 0) {
			await(&messages, strtoull(line + used, NULL, 10));
		} else if (strcmp(command, "reset") == 0 && sscanf(line + used, "%63s %u", one, &a) >= 1) {
			on_reset(one, a);
		} else if (strcmp(command, "streams") == 0 && sscanf(line + used, "%u %u", &a, &b) == 2) {
			struct sctp_add_streams add = { 0 };
			add.sas_outstrms = (uint16_t)a;
			add.sas_instrms = (uint16_t)b;
			answer(usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_ADD_STREAMS, &add, sizeof add));
		} else if (sscanf(line + used, "%63s", one) == 1) {
			on_address(command, one, port);
		} else if (strcmp(command, "shutdown") == 0) {
			answer(usrsctp_shutdown(so, SHUT_WR));
		} else if (strcmp(command, "abort") == 0) {
			struct sctp_sendv_spa info;
			memset(&info, 0, sizeof info);
			info.sendv_flags = SCTP_SEND_SNDINFO_VALID;
			info.sendv_sndinfo.snd_flags = SCTP_ABORT;
			answer((int)usrsctp_sendv(so, "enough", 6, NULL, 0, &info, sizeof info, SCTP_SENDV_SPA, 0));
		} else if (strcmp(command, "wait") == 0) {
			pthread_mutex_lock(&lock);
			while (!is_over)
				pthread_cond_wait(&changed, &lock);
			pthread_mutex_unlock(&lock);
			say("ok %s", why_over);
		} else {
			say("error what is %s", command);
		}
	}
	/* What the threads of usrsctp still do, they need not. */
	fflush(stdout);
	_exit(0);
}
