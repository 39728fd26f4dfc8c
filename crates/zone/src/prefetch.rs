//! Prefetching of memory that will be read soon.
//!
//! A batch of queries is answered in steps (find the zones, find the slots, find the nodes, then write the answers),
//! and each step prefetches what the next one reads, so the cache misses of a batch overlap.

/// Starts loading the cache line of `value`.
#[inline(always)]
#[allow(unsafe_code, reason = "the prefetch instruction has no safe form")]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint. It reads nothing architecturally and cannot fault.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast::<i8>());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
