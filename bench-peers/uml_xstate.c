/* For user-mode Linux on a CPU with more state than it knows of, by LD_PRELOAD.
 * Build: cc -O2 -shared -fPIC uml_xstate.c
 *
 * User-mode Linux 6.1 keeps 2,696 bytes of a process's extended state (AVX-512 and no more), gets that many with
 * PTRACE_GETREGSET and sets as many with PTRACE_SETREGSET. Where the CPU has more (AMX), the host takes all of it or
 * nothing (EFAULT), and the kernel dies with its first process. Here what it does not know of stays as it is.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define NT_X86_XSTATE 0x202

long ptrace(enum __ptrace_request request, ...)
{
	static _Thread_local unsigned char state[1 << 16];
	va_list list;
	va_start(list, request);
	pid_t pid = va_arg(list, pid_t);
	void *address = va_arg(list, void *), *data = va_arg(list, void *);
	va_end(list);
	struct iovec all = { state, sizeof state };
	if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
		const struct iovec *known = data;
		if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &all) == 0 && known->iov_len < all.iov_len) {
			memcpy(state, known->iov_base, known->iov_len);
			data = &all;
		}
	}
	/* The system call writes what was peeked, where the library returns it. */
	long peeked = 0;
	int peeks = request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER;
	long result = syscall(SYS_ptrace, request, pid, address, peeks ? &peeked : data);
	if (peeks && result >= 0) {
		errno = 0;
		return peeked;
	}
	return result;
}
