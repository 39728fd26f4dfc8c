//! Memory that is shared with the kernel: rings, packet buffers and values of maps.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// A region of shared memory, unmapped when it is dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the region is owned by this value; users of `start` decide what is accessed when.
unsafe impl Send for Mapping {}
// SAFETY: shared references only give access to atomic numbers.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Allocates zeroed pages.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::map(len, flags, (-1, 0))
    }

    /// Maps the object that a descriptor refers to.
    pub(super) fn shared(
        descriptor: &impl AsRawFd,
        len: usize,
        offset: libc::off_t,
    ) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::map(len, flags, (descriptor.as_raw_fd(), offset))
    }

    fn map(
        len: usize,
        flags: libc::c_int,
        (descriptor, offset): (RawFd, libc::off_t),
    ) -> io::Result<Self> {
        // SAFETY: a new region is requested, which overlaps no other.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                descriptor,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number at an offset, which must be a multiple of four within the region.
    pub(super) fn number(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len);
        // SAFETY: within the region and aligned; the kernel and this process access it as an atomic number only.
        unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU32>() }
    }

    /// Sets the first number of the region.
    pub(crate) fn set(&self, value: u32) {
        self.number(0).store(value, Ordering::Release);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the region was mapped with this length, and no reference into it outlives its owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
