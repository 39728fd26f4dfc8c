//! The allocator, and the call that returns unused memory to the system.

#![allow(unsafe_code)]

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// mimalloc, called without an alignment where every block has it.
///
/// `MiMalloc` always passes one. Version 3 then takes a block of the next larger size for each size that is not a power of two, and
/// not the short path: a million zones took 16 MB more.
struct Allocator;

/// The alignment of all blocks that are at least as large (`MI_MAX_ALIGN_SIZE`, that of `max_align_t`).
const ALIGNMENT: usize = 16;

fn is_usual(layout: &Layout) -> bool {
    layout.align() <= ALIGNMENT && layout.align() <= layout.size()
}

// SAFETY: each call is passed on to mimalloc as it came. Blocks from calls with and without an alignment are of one kind: `mi_free`
// and `mi_realloc` take both.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised to this function.
        unsafe {
            if is_usual(&layout) {
                mi_malloc(layout.size()).cast()
            } else {
                MiMalloc.alloc(layout)
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised to this function.
        unsafe {
            if is_usual(&layout) {
                mi_zalloc(layout.size()).cast()
            } else {
                MiMalloc.alloc_zeroed(layout)
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as promised to this function.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as promised to this function.
        unsafe {
            if layout.align() <= ALIGNMENT && layout.align() <= size {
                mi_realloc(block.cast(), size).cast()
            } else {
                MiMalloc.realloc(block, layout, size)
            }
        }
    }
}

unsafe extern "C" {
    // From mimalloc, which is linked in.
    fn mi_malloc(size: usize) -> *mut c_void;
    fn mi_zalloc(size: usize) -> *mut c_void;
    fn mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn mi_collect(force: bool);
}

/// Returns memory to the system that a load needed only while it ran. The allocator does so by
/// itself on allocation, but a server that answers from memory never allocates.
pub fn give_back() {
    // SAFETY: it takes no pointers and may be called from any thread at any time.
    unsafe { mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_keep_their_contents_when_they_grow() {
        for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
            for size in (1..300).chain([1000, 5000, 70_000]) {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: sizes are not 0, and each block is written within its size and freed once, with its layout.
                unsafe {
                    let block = ALLOCATOR.alloc(layout);
                    let zeroed = ALLOCATOR.alloc_zeroed(layout);
                    assert!(block.addr().is_multiple_of(align), "{layout:?}");
                    assert!(zeroed.addr().is_multiple_of(align), "{layout:?}");
                    assert!(
                        std::slice::from_raw_parts(zeroed, size)
                            .iter()
                            .all(|octet| *octet == 0)
                    );
                    block.write_bytes(7, size);
                    let grown = ALLOCATOR.realloc(block, layout, size * 3);
                    assert!(grown.addr().is_multiple_of(align), "{layout:?}");
                    assert!(
                        std::slice::from_raw_parts(grown, size)
                            .iter()
                            .all(|octet| *octet == 7)
                    );
                    ALLOCATOR.dealloc(grown, Layout::from_size_align(size * 3, align).unwrap());
                    ALLOCATOR.dealloc(zeroed, layout);
                }
            }
        }
    }
}
