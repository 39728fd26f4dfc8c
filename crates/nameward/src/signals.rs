//! Blocks SIGHUP until the server handles signals: it would end a process without a handler.
//!
//! A service manager, or a script that writes the configuration, may send it as soon as there is a process. It is
//! blocked in the first thread, and so in all threads started from it, until a handler is set; then it triggers a
//! reload. Unsafe code is needed because the standard library has no signals.

#![allow(unsafe_code)]

/// Blocks SIGHUP. Must be called before anything else.
pub fn hold_hangup() {
    set_hangup(libc::SIG_BLOCK);
}

/// Unblocks SIGHUP in this thread, including one that is pending.
pub fn release_hangup() {
    set_hangup(libc::SIG_UNBLOCK);
}

fn set_hangup(how: libc::c_int) {
    // SAFETY: a signal set is plain memory, and both calls write to it before it is used. They only fail for an
    // invalid number, and these are constants.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGHUP);
        libc::pthread_sigmask(how, &raw const signals, std::ptr::null_mut());
    }
}
