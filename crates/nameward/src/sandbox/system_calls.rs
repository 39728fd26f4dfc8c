//! Restricts system calls by seccomp.
//!
//! A call that is not listed fails with EPERM rather than ending the process: a library that tries a newer call has a
//! fallback for its failure, and a name server that is down is worse. The kernel logs such calls (`SECCOMP` records
//! of the audit log). Running a program and tracing or writing to a process end the server at once: nothing here
//! does so, thus a call means that the process is no longer executing our code.

#![allow(unsafe_code)]

use std::{collections::BTreeMap, io};

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Why system calls are not restricted.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    #[error("not supported on this processor architecture")]
    Architecture,
    #[error("{0}")]
    Build(#[from] seccompiler::BackendError),
    #[error("this kernel has no seccomp filters: {0}")]
    Refused(#[from] io::Error),
}

/// The conditions of a system call; empty for all arguments.
type Rules = Vec<SeccompRule>;

/// Lets this process make the system calls of a running server only.
pub fn restrict() -> Result<(), FilterError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH);
    let architecture = architecture.map_err(|_| FilterError::Architecture)?;
    let build = |rules, matched, other| -> Result<BpfProgram, FilterError> {
        let filter = SeccompFilter::new(rules, other, matched, architecture)?;
        Ok(BpfProgram::try_from(filter)?)
    };
    let any = |calls: &[c_long]| calls.iter().map(|call| (*call, Rules::new())).collect();
    let (allow, errno) = (SeccompAction::Allow, |code: i32| {
        SeccompAction::Errno(code.unsigned_abs())
    });
    // The strictest answer of all filters counts. The last one forbids to install more.
    let fatal = build(any(&FATAL), SeccompAction::KillProcess, allow.clone())?;
    install(&fatal, 0)?;
    let unknown = build(any(&UNKNOWN), errno(libc::ENOSYS), allow.clone())?;
    install(&unknown, 0)?;
    let listed = build(allowed()?, allow, errno(libc::EPERM))?;
    install(&listed, libc::SECCOMP_FILTER_FLAG_LOG)?;
    Ok(())
}

fn install(program: &BpfProgram, flags: libc::c_ulong) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    let flags = flags | libc::SECCOMP_FILTER_FLAG_TSYNC;
    // SAFETY: the program is an array of `sock_filter` of that length, which lives through the call and is copied by it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    match result {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!(
            "thread {thread} has other filters"
        ))),
    }
}

/// Returns the allowed calls with their conditions.
fn allowed() -> Result<BTreeMap<c_long, Rules>, FilterError> {
    let mut calls: BTreeMap<_, _> = ALLOWED.iter().map(|call| (*call, Rules::new())).collect();
    #[cfg(target_arch = "x86_64")]
    calls.extend(OLDER.iter().map(|call| (*call, Rules::new())));
    let number = |value: i32| u64::from(value.unsigned_abs());
    let mut sockets = Rules::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            let (family, kind) = (equal(0, number(family))?, masked(1, 0xF, number(kind))?);
            sockets.push(SeccompRule::new(vec![family, kind])?);
        }
    }
    for family in [libc::AF_UNIX, libc::AF_NETLINK] {
        sockets.push(SeccompRule::new(vec![equal(0, number(family))?])?);
    }
    calls.insert(libc::SYS_socket, sockets);
    // Threads, and no processes and name spaces.
    let spaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    let thread = number(libc::CLONE_THREAD);
    let only_threads = masked(0, number(spaces) | thread, thread)?;
    calls.insert(libc::SYS_clone, vec![SeccompRule::new(vec![only_threads])?]);
    // Memory is writable or executable, never both.
    let (write, execute) = (number(libc::PROT_WRITE), number(libc::PROT_EXEC));
    let not_written = SeccompRule::new(vec![masked(2, write, 0)?])?;
    let not_executed = SeccompRule::new(vec![masked(2, execute, 0)?])?;
    calls.insert(libc::SYS_mmap, vec![not_written, not_executed.clone()]);
    calls.insert(libc::SYS_mprotect, vec![not_executed]);
    // Core dumps stay forbidden.
    let option = |option| condition(0, SeccompCmpOp::Ne, number(option));
    let options = SeccompRule::new(vec![option(libc::PR_SET_DUMPABLE)?])?;
    calls.insert(libc::SYS_prctl, vec![options]);
    let mut requests = Rules::new();
    for request in [
        libc::FIONBIO,
        libc::FIONREAD,
        libc::FIOCLEX,
        libc::TCGETS,
        libc::TIOCGWINSZ,
    ] {
        // u64 with glibc, i32 with musl.
        #[allow(clippy::unnecessary_cast)]
        let request = request as u64;
        requests.push(SeccompRule::new(vec![equal(1, request)?])?);
    }
    calls.insert(libc::SYS_ioctl, requests);
    Ok(calls)
}

/// The argument is equal to `value`, in its lower 32 bits.
fn equal(argument: u8, value: u64) -> Result<SeccompCondition, FilterError> {
    condition(argument, SeccompCmpOp::Eq, value)
}

/// The bits of the argument in `mask` are `value`.
fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, FilterError> {
    condition(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, FilterError> {
    // All these arguments are `int` in the kernel, which ignores the upper half.
    let length = SeccompCmpArgLen::Dword;
    Ok(SeccompCondition::new(argument, length, operator, value)?)
}

/// Calls that end the process.
const FATAL: [c_long; 5] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
];

/// Calls that fail as on an older kernel, so that the C library uses the ones before: a filter cannot see the flags of
/// `clone3`, which are in memory.
const UNKNOWN: [c_long; 1] = [libc::SYS_clone3];

/// Calls of the server, its libraries (C library, tokio, SQLite, allocator) and name resolution.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Files.
    libc::SYS_close, libc::SYS_close_range, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64, libc::SYS_fallocate, libc::SYS_fchmod,
    libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_fcntl, libc::SYS_fdatasync, libc::SYS_flock,
    libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate, libc::SYS_getcwd, libc::SYS_getdents64,
    libc::SYS_inotify_add_watch, libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch, libc::SYS_linkat,
    libc::SYS_lseek, libc::SYS_mkdirat, libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_pipe2, libc::SYS_pread64,
    libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_read,
    libc::SYS_readlinkat, libc::SYS_readv, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_sendfile,
    libc::SYS_splice, libc::SYS_statfs, libc::SYS_statx, libc::SYS_sync_file_range, libc::SYS_truncate,
    libc::SYS_umask, libc::SYS_unlinkat, libc::SYS_utimensat, libc::SYS_write, libc::SYS_writev,
    // Sockets; `socket` has conditions.
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_connect, libc::SYS_getpeername,
    libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_listen, libc::SYS_recvfrom, libc::SYS_recvmmsg,
    libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_sendmsg, libc::SYS_sendto, libc::SYS_setsockopt,
    libc::SYS_shutdown, libc::SYS_socketpair,
    // Waiting and time.
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_futex,
    libc::SYS_futex_waitv, libc::SYS_gettimeofday, libc::SYS_nanosleep, libc::SYS_ppoll, libc::SYS_pselect6,
    libc::SYS_restart_syscall, libc::SYS_timerfd_create, libc::SYS_timerfd_gettime, libc::SYS_timerfd_settime,
    libc::SYS_times,
    // Memory; `mmap` and `mprotect` have conditions.
    libc::SYS_brk, libc::SYS_madvise, libc::SYS_membarrier, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_mremap,
    libc::SYS_msync, libc::SYS_munlock, libc::SYS_munmap,
    // Threads, signals and the process itself; `clone` and `prctl` have conditions.
    libc::SYS_capget, libc::SYS_clone3, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_get_robust_list,
    libc::SYS_getcpu, libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getgroups, libc::SYS_getpid,
    libc::SYS_getppid, libc::SYS_getpriority, libc::SYS_getrandom, libc::SYS_getresgid, libc::SYS_getresuid,
    libc::SYS_getrusage, libc::SYS_gettid, libc::SYS_getuid, libc::SYS_prlimit64, libc::SYS_rseq,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait, libc::SYS_sched_getaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity, libc::SYS_sched_yield, libc::SYS_set_robust_list, libc::SYS_set_tid_address,
    libc::SYS_setpriority, libc::SYS_sigaltstack, libc::SYS_sysinfo, libc::SYS_tgkill, libc::SYS_uname,
];

/// Older forms of the calls above, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[c_long] = &[
    libc::SYS_access, libc::SYS_arch_prctl, libc::SYS_chmod, libc::SYS_chown, libc::SYS_dup2, libc::SYS_epoll_create,
    libc::SYS_epoll_wait, libc::SYS_getdents, libc::SYS_getpgrp, libc::SYS_getrlimit, libc::SYS_link, libc::SYS_lstat,
    libc::SYS_mkdir, libc::SYS_open, libc::SYS_pause, libc::SYS_pipe, libc::SYS_poll, libc::SYS_readlink,
    libc::SYS_rename, libc::SYS_rmdir, libc::SYS_select, libc::SYS_stat, libc::SYS_time, libc::SYS_unlink,
];
