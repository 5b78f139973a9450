//! seccomp: the system calls that the server makes.
//!
//! An unlisted call fails with ENOSYS, as on a kernel without it: libraries then fall back to an older call,
//! so that an update of the C library does not end the server. Calls that no server needs but an intruder
//! would use ([`FORBIDDEN`]) end the process, and the kernel logs them (`type=SECCOMP` in the audit log, or
//! dmesg).

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::{Network, Step};

/// Calls that are allowed with any arguments.
const ALLOWED: &[c_long] = &[
    // Memory, threads and signals of this process.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Time, identity, and randomness.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_nanosleep,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    // Open files.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readv,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_write,
    libc::SYS_writev,
    // Files by name, as far as Landlock permits.
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fchmodat,
    libc::SYS_getcwd,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    // Open sockets.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// The same, for calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[c_long] = &[];

/// Calls that end the process.
const FORBIDDEN: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// The requests of ioctl(2) that the standard library and tokio make.
const IOCTLS: [u64; 4] = [libc::FIONBIO, libc::FIONREAD, libc::FIOCLEX, libc::TCGETS];

/// Restricts this process to these system calls.
pub(super) fn restrict(network: &Network) -> Step {
    let missing = |why: String| {
        format!("system calls: {why}; an attacker who takes over the server could make any system call")
    };
    let filters = filters(network).map_err(|error| missing(error.to_string()))?;
    for filter in &filters {
        seccompiler::apply_filter_all_threads(filter)
            .map_err(|error| missing(format!("the kernel has no seccomp filters: {error}")))?;
    }
    let conditional = conditional(network).map_err(|error| missing(error.to_string()))?.len();
    Ok(format!(
        "system calls by seccomp: {} allowed, {} more as far as their arguments are; {} end the process, all others fail",
        ALLOWED.len() + ALLOWED_HERE.len(),
        conditional,
        FORBIDDEN.len()
    ))
}

/// Of two filters, the stricter result applies.
fn filters(network: &Network) -> Result<[BpfProgram; 2], BackendError> {
    let here = TargetArch::try_from(std::env::consts::ARCH)?;
    let always = |calls: &[c_long]| -> BTreeMap<c_long, Vec<SeccompRule>> {
        calls.iter().map(|call| (*call, Vec::new())).collect()
    };
    let forbidden =
        SeccompFilter::new(always(FORBIDDEN), SeccompAction::Allow, SeccompAction::KillProcess, here)?;
    let mut allowed = always(ALLOWED);
    allowed.extend(always(ALLOWED_HERE));
    allowed.extend(conditional(network)?);
    let allowed =
        SeccompFilter::new(allowed, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow, here)?;
    Ok([forbidden.try_into()?, allowed.try_into()?])
}

/// Calls that are allowed if one of their rules matches.
fn conditional(network: &Network) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let argument = |index: u8, is: SeccompCmpOp, value: u64| {
        SeccompCondition::new(index, SeccompCmpArgLen::Qword, is, value)
    };
    // The kernel reads 32 bits of these.
    let word = |index: u8, is: SeccompCmpOp, value: u64| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, is, value)
    };
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions);
    let not_executable = || -> Result<_, BackendError> {
        let executable = libc::PROT_EXEC as u64;
        Ok(vec![rule(vec![word(2, MaskedEq(executable), 0)?])?])
    };
    let thread = libc::CLONE_THREAD as u64;
    let mut calls = BTreeMap::from([
        // Written memory is never executable.
        (libc::SYS_mmap, not_executable()?),
        (libc::SYS_mprotect, not_executable()?),
        // A thread, not a process. Filters cannot see the flags of clone3: the C library falls back to this
        // call.
        (libc::SYS_clone, vec![rule(vec![argument(0, MaskedEq(thread), thread)?])?]),
        // Signals to this process, as by abort(3).
        (libc::SYS_tgkill, vec![rule(vec![word(0, Eq, u64::from(std::process::id()))?])?]),
        (libc::SYS_prctl, vec![rule(vec![word(0, Eq, libc::PR_SET_NAME as u64)?])?]),
        // Limits are read, not set.
        (libc::SYS_prlimit64, vec![rule(vec![argument(2, Eq, 0)?])?]),
        // Used by the runtime to wake itself.
        (libc::SYS_socketpair, vec![rule(vec![word(0, Eq, libc::AF_UNIX as u64)?])?]),
    ]);
    let requests: Result<Vec<_>, BackendError> =
        IOCTLS.iter().map(|request| rule(vec![word(1, Eq, *request)?])).collect();
    calls.insert(libc::SYS_ioctl, requests?);
    if *network != Network::Nothing {
        // Above these four bits are flags.
        let tcp = |family: i32| -> Result<_, BackendError> {
            rule(vec![word(0, Eq, family as u64)?, word(1, MaskedEq(0xf), libc::SOCK_STREAM as u64)?])
        };
        let mut rules = vec![tcp(libc::AF_INET)?, tcp(libc::AF_INET6)?];
        if matches!(network, Network::Everywhere(_)) {
            let udp = |family: i32| -> Result<_, BackendError> {
                rule(vec![word(0, Eq, family as u64)?, word(1, MaskedEq(0xf), libc::SOCK_DGRAM as u64)?])
            };
            rules.extend([udp(libc::AF_INET)?, udp(libc::AF_INET6)?]);
        }
        calls.insert(libc::SYS_socket, rules);
    }
    if matches!(network, Network::ListenAndConnect(_) | Network::Everywhere(_)) {
        calls.insert(libc::SYS_connect, Vec::new());
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_in_two_lists_and_the_filters_fit() {
        let conditional = conditional(&Network::ListenAndConnect(None)).unwrap();
        let mut all: Vec<c_long> = [ALLOWED, ALLOWED_HERE, FORBIDDEN].concat();
        all.extend(conditional.keys());
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(filters(&Network::Nothing).is_ok());
    }
}
