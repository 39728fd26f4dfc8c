//! Owns what the allocator is asked beyond allocating.

#![allow(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

unsafe extern "C" {
    /// Of mimalloc, which is linked in as the allocator.
    fn mi_collect(force: bool);
}

/// Gives back to the system what a load needed only while it ran. The allocator does so by itself
/// when it is asked for memory, but a server that answers from memory never asks.
pub fn give_back() {
    // SAFETY: it takes no pointers and may be called from any thread at any time.
    unsafe { mi_collect(true) }
}
