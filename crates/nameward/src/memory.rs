//! The allocator, and the call that returns unused memory to the system.

#![allow(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

unsafe extern "C" {
    /// From mimalloc, which is linked in as the allocator.
    fn mi_collect(force: bool);
}

/// Returns memory to the system that a load needed only while it ran. The allocator does so by
/// itself on allocation, but a server that answers from memory never allocates.
pub fn give_back() {
    // SAFETY: it takes no pointers and may be called from any thread at any time.
    unsafe { mi_collect(true) }
}
