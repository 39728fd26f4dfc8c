//! A ring in memory that this process and the kernel share.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::mapping::Mapping;

/// A ring of entries that one side adds and the other removes.
pub(super) struct SharedRing<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
    /// Our index; only this process changes it.
    local: u32,
    /// The kernel's index, as last read.
    kernel: u32,
    kind: std::marker::PhantomData<T>,
}

// SAFETY: the ring is used by its owner alone; its synchronisation with the kernel is through the indexes.
unsafe impl<T> Send for SharedRing<T> {}

impl<T: Copy> SharedRing<T> {
    /// Maps a ring of `size` entries, a power of two.
    pub(super) fn map(
        socket: &OwnedFd,
        offsets: &libc::xdp_ring_offset,
        size: u32,
        page_offset: libc::off_t,
    ) -> io::Result<Self> {
        let entries = offsets.desc as usize;
        let len = entries + size as usize * size_of::<T>();
        Ok(Self {
            memory: Mapping::shared(socket, len, page_offset)?,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            flags: offsets.flags as usize,
            entries,
            mask: size - 1,
            local: 0,
            kernel: 0,
            kind: std::marker::PhantomData,
        })
    }

    fn entry(&self, index: u32) -> *mut T {
        let at = self.entries + (index & self.mask) as usize * size_of::<T>();
        debug_assert!(at + size_of::<T>() <= self.memory.len());
        // SAFETY: the masked index is below the number of entries, which the region has room for.
        unsafe { self.memory.start().add(at).cast() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.memory.number(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.memory.number(self.consumer)
    }

    /// Checks whether the kernel waits to be woken.
    pub(super) fn needs_wakeup(&self) -> bool {
        let flags = self.memory.number(self.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Returns the entry `ahead` positions after the first that was not removed, if the kernel has added it.
    pub(super) fn peek(&mut self, ahead: u32) -> Option<T> {
        if self.kernel.wrapping_sub(self.local) <= ahead {
            self.kernel = self.producer().load(Ordering::Acquire);
            if self.kernel.wrapping_sub(self.local) <= ahead {
                return None;
            }
        }
        // SAFETY: the kernel wrote the entry before it advanced its index past it, and does not reuse it before ours
        // has passed it.
        Some(unsafe { self.entry(self.local.wrapping_add(ahead)).read() })
    }

    /// Removes the first entries.
    pub(super) fn remove(&mut self, count: u32) {
        self.local = self.local.wrapping_add(count);
        self.consumer().store(self.local, Ordering::Release);
    }

    /// Writes an entry that the kernel sees with the next [`SharedRing::publish`]; false if the ring is full.
    pub(super) fn add(&mut self, entry: T) -> bool {
        let size = self.mask + 1;
        if self.local.wrapping_sub(self.kernel) >= size {
            self.kernel = self.consumer().load(Ordering::Acquire);
            if self.local.wrapping_sub(self.kernel) >= size {
                return false;
            }
        }
        // SAFETY: the kernel's index has passed the entry, so it is ours until our index passes it.
        unsafe { self.entry(self.local).write(entry) };
        self.local = self.local.wrapping_add(1);
        true
    }

    pub(super) fn publish(&self) {
        self.producer().store(self.local, Ordering::Release);
    }
}
