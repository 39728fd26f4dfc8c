//! Gives up privileges: capabilities, those a new program could gain, and core dumps.
//!
//! Unsafe code is needed because the standard library has none of these calls.

#![allow(unsafe_code)]

use std::io;

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h: two words per set.
const VERSION_3: u32 = 0x2008_0522;
/// Larger than the number of any capability; those that the kernel does not know are an error without effect.
const CAPABILITIES: libc::c_ulong = 64;

/// `struct __user_cap_header_struct` of capset(2).
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct` of capset(2).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER of linux/capability.h: file modes and owners do not matter.
const FILES_OF_OTHERS: u32 = 1 << 0 | 1 << 1 | 1 << 3;

/// The privileges that a server keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeptPrivileges {
    /// None.
    None,
    /// The capabilities by which root uses files of other users.
    FilesOfOthers,
}

/// Empties the bounding set, as far as this process may: only root can, and for others it has no effect.
pub fn shrink_bounding_set() {
    for capability in 0..CAPABILITIES {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
}

/// Empties the ambient, effective, permitted and inheritable sets of this thread, except for `kept`, and makes sure that
/// no program run by it gains privileges.
pub fn give_up(kept: KeptPrivileges) -> io::Result<()> {
    // SAFETY: plain numbers. Kernels before 4.3 have no ambient set.
    unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        )
    };
    let header = CapabilityHeader {
        version: VERSION_3,
        pid: 0,
    };
    let mut words = [CapabilityWords::default(); 2];
    if kept == KeptPrivileges::FilesOfOthers {
        words[0].effective = FILES_OF_OTHERS;
        words[0].permitted = FILES_OF_OTHERS;
    }
    // SAFETY: both structures are those of capset(2), version 3, and live through the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, words.as_ptr()) };
    if result != 0 {
        let error = io::Error::last_os_error();
        // A service manager may forbid the call to a service that has no capability.
        if !has_none(&header)? {
            return Err(error);
        }
    }
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Checks whether this thread has no capability in any set.
fn has_none(header: &CapabilityHeader) -> io::Result<bool> {
    let mut words = [CapabilityWords::default(); 2];
    // SAFETY: both structures are those of capget(2), version 3, and live through the call.
    let result = unsafe { libc::syscall(libc::SYS_capget, header, words.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let held = words.map(|set| set.effective | set.permitted | set.inheritable);
    Ok(held == [0, 0])
}

/// Keeps the memory of this process, which has secrets, out of core dumps and from debuggers of the same user.
pub fn forbid_core_dumps() -> io::Result<()> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure lives through the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
