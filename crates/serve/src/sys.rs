//! System calls that std and socket2 do not offer. All unsafe code of this crate is here and in the modules below.
//!
//! Every function is safe to call: the pointers passed to the kernel come from references or from the batch's own
//! allocation, and lengths are those of the pointed-to objects.

#![allow(unsafe_code)]

mod address;
pub(crate) mod batch;
pub(crate) mod bpf;
mod control;
pub mod descriptors;
pub(crate) mod interface;
pub(crate) mod mapping;
pub(crate) mod outbox;
pub(crate) mod xsk;

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Nice value of low-priority threads: about a third of the default weight.
const NICENESS: c_int = 5;

/// Returns the time in seconds since 1970. Reads the vDSO, without a system call.
#[inline]
pub fn seconds_since_1970() -> u32 {
    // SAFETY: with a null pointer the result is only returned, not stored.
    let seconds = unsafe { libc::time(std::ptr::null_mut()) };
    // RFC 4034 section 3.1.5: signature times wrap around like serials.
    seconds as u32
}

/// Returns a monotonic time in steps of a few milliseconds. Reads the vDSO, without a system call.
#[inline]
pub(crate) fn coarse_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that the call fills in.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that the call fills in.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    match result {
        0 => Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
        _ => Duration::ZERO,
    }
}

/// Lowers the priority of the calling thread, so that others run first when the CPU is busy.
pub fn give_way() {
    // On Linux this affects the calling thread alone (setpriority(2), "C library/kernel differences").
    // SAFETY: no pointers are passed.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

/// Sets a socket option whose value is an `int`.
pub(crate) fn set_option(
    socket: &impl AsRawFd,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    // SAFETY: the value pointer and length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The descriptors a worker waits on, allocated once.
pub(crate) struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    pub(crate) fn new(descriptors: impl Iterator<Item = RawFd>) -> PollSet {
        PollSet(
            descriptors
                .map(|fd| libc::pollfd {
                    fd,
                    events: libc::POLLIN,
                    revents: 0,
                })
                .collect(),
        )
    }

    /// Waits until a descriptor is readable or the timeout expires. Returns how many are ready.
    pub(crate) fn wait(&mut self, timeout: Duration) -> usize {
        for entry in &mut self.0 {
            entry.revents = 0;
        }
        poll(&mut self.0, timeout)
    }

    /// Checks whether descriptor `index` was ready, or in error, which reading then reports.
    pub(crate) fn ready(&self, index: usize) -> bool {
        self.0[index].revents != 0
    }
}

fn poll(entries: &mut [libc::pollfd], timeout: Duration) -> usize {
    let timeout_ms = timeout.as_millis().min(60_000) as c_int;
    // SAFETY: pointer and count describe the slice, which is borrowed mutably for the call.
    let ready = unsafe {
        libc::poll(
            entries.as_mut_ptr(),
            entries.len() as libc::nfds_t,
            timeout_ms,
        )
    };
    // An interrupted wait ends early; the caller polls again anyway.
    usize::try_from(ready).unwrap_or(0)
}

/// Raises the soft limit on open files to the hard limit, and the hard limit to `requested` if the process may do that.
/// Returns the resulting soft limit.
pub fn raise_descriptor_limit(requested: u64) -> io::Result<u64> {
    let now = descriptor_limits()?;
    if now.rlim_max < requested {
        let raised = libc::rlimit {
            rlim_cur: requested,
            rlim_max: requested,
        };
        if set_descriptor_limits(&raised).is_ok() {
            return Ok(requested);
        }
    }
    if now.rlim_cur < now.rlim_max {
        let raised = libc::rlimit {
            rlim_cur: now.rlim_max,
            rlim_max: now.rlim_max,
        };
        set_descriptor_limits(&raised)?;
    }
    Ok(now.rlim_max)
}

/// Returns the soft limit on open files.
pub(crate) fn descriptor_limit() -> io::Result<u64> {
    Ok(descriptor_limits()?.rlim_cur)
}

fn descriptor_limits() -> io::Result<libc::rlimit> {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limits` is a valid rlimit that the call fills in.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits) } {
        0 => Ok(limits),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_descriptor_limits(limits: &libc::rlimit) -> io::Result<()> {
    // SAFETY: `limits` is a valid rlimit that the call only reads.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limits) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
