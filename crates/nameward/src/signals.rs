//! Owns the time before the server hears signals: SIGHUP, which would end a process that does not know it yet, waits.
//!
//! A service manager, or a script that writes the configuration, may send it as soon as there is a process. It is held
//! back for the first thread, and so for all that are started from it, until a handler is set; then it is a reload. Unsafe
//! code is needed because the standard library has no signals.

#![allow(unsafe_code)]

/// Holds SIGHUP back. To be called before anything else.
pub fn hold_hangup() {
    set_hangup(libc::SIG_BLOCK);
}

/// Lets SIGHUP through to this thread, the one that came meanwhile as well.
pub fn release_hangup() {
    set_hangup(libc::SIG_UNBLOCK);
}

fn set_hangup(how: libc::c_int) {
    // SAFETY: a set of signals is plain memory, and both calls write to it before it is used. They fail only where a
    // number is wrong, and these are constants.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGHUP);
        libc::pthread_sigmask(how, &raw const signals, std::ptr::null_mut());
    }
}
