/* A sender and a receiver over usrsctp (UDP encapsulation, RFC 6951): the peer of the interoperation tests of
 * crates/net and of `cargo xtask bench loopback`. Build: cc -O2 usrsctp_peer.c -lusrsctp -lpthread
 *
 *   usrsctp_peer recv LOCAL_UDP          [OPTION=VALUE]...    waits for one association, reads, says what came
 *   usrsctp_peer send LOCAL_UDP PEER_UDP [OPTION=VALUE]...    connects, sends
 *
 * LOCAL_UDP and PEER_UDP are ports of 127.0.0.1, or IPv4 addresses with a port (ADDRESS:PORT).
 * Options: port (SCTP, 5001), bytes (0), message (1400 bytes), streams (1), check (0: 1 compares the content),
 * end (send: self | peer shuts down; recv: peer | self, after `bytes`), buffer (4194304 bytes, both directions).
 * Byte o of stream s is (o * 7 + o / 251 + s * 13) mod 256. At the end one line of JSON. Exit 0 if all went well.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define MAX_STREAMS 64
#define MAX_MESSAGE (1 << 20)

static uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise)
{
	size_t length = strlen(name);
	for (int i = 3; i < argc; i++)
		if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
			return strtoull(argv[i] + length + 1, NULL, 10);
	return otherwise;
}

static int says(int argc, char **argv, const char *words)
{
	for (int i = 3; i < argc; i++)
		if (strcmp(argv[i], words) == 0)
			return 1;
	return 0;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* The address of PORT or ADDRESS:PORT; *udp becomes the port. */
static struct in_addr address(const char *text, uint16_t *udp)
{
	struct in_addr host = { .s_addr = htonl(INADDR_LOOPBACK) };
	const char *colon = strrchr(text, ':');
	char name[64];
	*udp = (uint16_t)atoi(colon ? colon + 1 : text);
	if (colon) {
		snprintf(name, sizeof name, "%.*s", (int)(colon - text), text);
		if (inet_pton(AF_INET, name, &host) != 1) {
			fprintf(stderr, "%s is no address\n", name);
			exit(2);
		}
	}
	return host;
}

static void fill(unsigned char *to, uint64_t offset, int stream, size_t length)
{
	for (size_t i = 0; i < length; i++, offset++)
		to[i] = (unsigned char)(offset * 7 + offset / 251 + stream * 13);
}

static int differs(const unsigned char *got, uint64_t offset, int stream, size_t length)
{
	for (size_t i = 0; i < length; i++, offset++)
		if (got[i] != (unsigned char)(offset * 7 + offset / 251 + stream * 13))
			return 1;
	return 0;
}

static void report(uint64_t bytes, double seconds)
{
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	printf("{\"bytes\":%llu,\"seconds\":%.6f,\"cpu_seconds\":%.3f,\"peak_kib\":%ld}\n", (unsigned long long)bytes,
	       seconds,
	       use.ru_utime.tv_sec + use.ru_stime.tv_sec + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6,
	       use.ru_maxrss);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 3 || (strcmp(argv[1], "send") == 0 && argc < 4)) {
		fprintf(stderr, "usage: usrsctp_peer recv LOCAL_UDP | send LOCAL_UDP PEER_UDP [OPTION=VALUE]...\n");
		return 2;
	}
	int sends = strcmp(argv[1], "send") == 0;
	uint16_t local_udp, peer_udp = 0;
	struct in_addr local_host = address(argv[2], &local_udp), peer_host = local_host;
	if (sends)
		peer_host = address(argv[3], &peer_udp);
	uint16_t port = (uint16_t)option(argc, argv, "port", 5001);
	uint64_t bytes = option(argc, argv, "bytes", 0);
	size_t message = option(argc, argv, "message", 1400);
	int streams = (int)option(argc, argv, "streams", 1);
	int check = (int)option(argc, argv, "check", 0);
	int buffer = (int)option(argc, argv, "buffer", 4 << 20);
	int peer_ends = says(argc, argv, "end=peer"), self_ends = says(argc, argv, "end=self");
	if (message == 0 || message > MAX_MESSAGE || streams < 1 || streams > MAX_STREAMS)
		return 2;

	usrsctp_init(local_udp, NULL, NULL);
	/* As tsctp has them: checksums are real, nobody is answered out of the blue. */
	usrsctp_sysctl_set_sctp_blackhole(2);
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
	usrsctp_sysctl_set_sctp_enable_sack_immediately(1);

	struct socket *so = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (so == NULL)
		die("usrsctp_socket");
	struct sctp_initmsg init;
	memset(&init, 0, sizeof init);
	init.sinit_num_ostreams = MAX_STREAMS;
	init.sinit_max_instreams = MAX_STREAMS;
	if (usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init) < 0)
		die("SCTP_INITMSG");
	int on = 1;
	if (usrsctp_setsockopt(so, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) < 0 ||
	    usrsctp_setsockopt(so, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) < 0 ||
	    usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) < 0 ||
	    usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) < 0)
		die("usrsctp_setsockopt");

	struct sockaddr_in local, peer;
	memset(&local, 0, sizeof local);
	local.sin_family = AF_INET;
	local.sin_addr = local_host;
	local.sin_port = htons(sends ? 0 : port);
	if (usrsctp_bind(so, (struct sockaddr *)&local, sizeof local) < 0)
		die("usrsctp_bind");

	uint64_t offsets[MAX_STREAMS] = { 0 };
	unsigned char *data = malloc(MAX_MESSAGE);
	uint64_t moved = 0;
	double began = 0, ended = 0;

	if (sends) {
		struct sctp_udpencaps encaps;
		memset(&encaps, 0, sizeof encaps);
		encaps.sue_address.ss_family = AF_INET;
		encaps.sue_port = htons(peer_udp);
		if (usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) < 0)
			die("SCTP_REMOTE_UDP_ENCAPS_PORT");
		peer = local;
		peer.sin_addr = peer_host;
		peer.sin_port = htons(port);
		if (usrsctp_connect(so, (struct sockaddr *)&peer, sizeof peer) < 0)
			die("usrsctp_connect");
		began = now();
		fill(data, 0, 0, message);
		for (int stream = 0; moved < bytes; stream = (stream + 1) % streams) {
			size_t length = bytes - moved < message ? (size_t)(bytes - moved) : message;
			if (check)
				fill(data, offsets[stream], stream, length);
			struct sctp_sndinfo info;
			memset(&info, 0, sizeof info);
			info.snd_sid = (uint16_t)stream;
			info.snd_ppid = htonl(7);
			if (usrsctp_sendv(so, data, length, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) < 0)
				die("usrsctp_sendv");
			offsets[stream] += length;
			moved += length;
		}
		ended = now();
		if (!peer_ends && usrsctp_shutdown(so, SHUT_WR) < 0)
			die("usrsctp_shutdown");
	} else {
		if (usrsctp_listen(so, 1) < 0)
			die("usrsctp_listen");
		printf("listening\n");
		fflush(stdout);
		struct socket *listener = so;
		so = usrsctp_accept(listener, NULL, NULL);
		if (so == NULL)
			die("usrsctp_accept");
		usrsctp_close(listener);
	}

	/* Reads until the peer has shut down; a sender, until the shutdown that it began is complete. */
	for (int asked = 0;;) {
		struct sctp_rcvinfo info;
		memset(&info, 0, sizeof info);
		socklen_t info_length = sizeof info;
		unsigned int info_type = 0;
		int flags = 0;
		ssize_t got = usrsctp_recvv(so, data, MAX_MESSAGE, NULL, NULL, &info, &info_length, &info_type, &flags);
		if (got == 0)
			break;
		if (got < 0)
			die("usrsctp_recvv");
		if (sends)
			continue;
		if (began == 0)
			began = now();
		ended = now();
		if (info.rcv_sid >= MAX_STREAMS) {
			fprintf(stderr, "stream %u: out of range\n", info.rcv_sid);
			return 1;
		}
		if (check && differs(data, offsets[info.rcv_sid], info.rcv_sid, (size_t)got)) {
			fprintf(stderr, "stream %u: other bytes near %llu\n", info.rcv_sid,
				(unsigned long long)offsets[info.rcv_sid]);
			return 1;
		}
		offsets[info.rcv_sid] += (uint64_t)got;
		moved += (uint64_t)got;
		if (self_ends && !asked && moved >= bytes) {
			asked = 1;
			if (usrsctp_shutdown(so, SHUT_WR) < 0)
				die("usrsctp_shutdown");
		}
	}
	usrsctp_close(so);
	report(moved, ended - began);
	if (bytes != 0 && moved != bytes) {
		fprintf(stderr, "%llu bytes moved instead of %llu\n", (unsigned long long)moved, (unsigned long long)bytes);
		return 1;
	}
	for (int tries = 0; usrsctp_finish() != 0 && tries < 50; tries++)
		usleep(20000);
	return 0;
}
