//! The system calls of Linux inotify; all unsafe code of this crate is here.
//!
//! Three calls of the C library, which is already a dependency, are less than a crate for them would add.

#![allow(unsafe_code)]

use std::{
    ffi::{CString, OsStr},
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    time::Duration,
};

/// The directory events that are reported: whatever may change a file in it, or the directory itself.
const INTEREST: u32 = libc::IN_CREATE
    | libc::IN_MODIFY
    | libc::IN_CLOSE_WRITE
    | libc::IN_ATTRIB
    | libc::IN_MOVED_FROM
    | libc::IN_MOVED_TO
    | libc::IN_DELETE
    | libc::IN_DELETE_SELF
    | libc::IN_MOVE_SELF
    | libc::IN_EXCL_UNLINK
    | libc::IN_ONLYDIR;

/// Bytes read at a time: some hundred events.
const BUFFER: usize = 16 * 1024;

#[derive(Debug, Clone, Copy)]
pub(super) struct InotifyEvent<'b> {
    /// The directory; -1 if events were lost.
    pub watch: i32,
    mask: u32,
    /// The file in it; empty for the directory itself.
    pub name: &'b OsStr,
}

impl InotifyEvent<'_> {
    fn has(self, bits: u32) -> bool {
        self.mask & bits != 0
    }

    /// Checks whether events were lost because too many arrived at once.
    pub(super) fn is_overflow(self) -> bool {
        self.has(libc::IN_Q_OVERFLOW)
    }

    /// Checks whether the kernel no longer watches the directory.
    pub(super) fn is_ignored(self) -> bool {
        self.has(libc::IN_IGNORED)
    }

    /// Checks whether the event concerns a directory.
    pub(super) fn is_directory(self) -> bool {
        self.has(libc::IN_ISDIR | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_UNMOUNT)
    }

    /// Checks whether the file is being written, so that a close event will follow.
    pub(super) fn is_unfinished(self) -> bool {
        self.has(libc::IN_MODIFY | libc::IN_CREATE)
            && !self.has(libc::IN_CLOSE_WRITE | libc::IN_MOVED_TO)
    }
}

/// The event queue.
pub(super) struct Inotify(File);

impl Inotify {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// Watches a directory; one that is already watched keeps its number.
    pub(super) fn add(&self, directory: &Path) -> io::Result<i32> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: the path ends with a NUL octet and outlives the call.
        let watch = unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), INTEREST) };
        match watch {
            ..0 => Err(io::Error::last_os_error()),
            watch => Ok(watch),
        }
    }

    /// Stops watching a directory.
    pub(super) fn remove(&self, watch: i32) {
        // SAFETY: no pointers are passed. It fails if the directory no longer exists, which is fine.
        unsafe { libc::inotify_rm_watch(self.0.as_raw_fd(), watch) };
    }

    /// Waits until there are events or the timeout expires.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the pointer is to one entry, as the count says, and it outlives the call.
        match unsafe { libc::poll(&raw mut poll, 1, millis) } {
            ..0 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
            ready => Ok(ready > 0),
        }
    }

    /// Reads the available events; returns whether there may be more.
    pub(super) fn read(&self, mut take: impl FnMut(InotifyEvent<'_>)) -> io::Result<bool> {
        let mut buffer = [0; BUFFER];
        let length = match (&self.0).read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..length];
        while let Some((event, after)) = parse(rest) {
            take(event);
            rest = after;
        }
        Ok(length > 0)
    }
}

/// Splits off the first event of a buffer. `struct inotify_event`: watch, mask, cookie and the length of the name in
/// 32 bits each, then the name padded with NUL octets.
fn parse(bytes: &[u8]) -> Option<(InotifyEvent<'_>, &[u8])> {
    let (watch, bytes) = bytes.split_first_chunk()?;
    let (mask, bytes) = bytes.split_first_chunk()?;
    let (_cookie, bytes) = bytes.split_first_chunk::<4>()?;
    let (length, bytes) = bytes.split_first_chunk()?;
    let length = u32::from_ne_bytes(*length) as usize;
    let (name, rest) = bytes.split_at_checked(length)?;
    let end = name.iter().position(|byte| *byte == 0);
    let event = InotifyEvent {
        watch: i32::from_ne_bytes(*watch),
        mask: u32::from_ne_bytes(*mask),
        name: OsStr::from_bytes(&name[..end.unwrap_or(length)]),
    };
    Some((event, rest))
}
