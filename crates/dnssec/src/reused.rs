//! Per-thread reusable buffers: an answer with signatures from the cache needs some temporarily, and a warmed-up worker
//! must not allocate.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Maximum number of buffers that a thread keeps.
const KEPT: usize = 16;
/// Octets of the largest buffer that is kept: more than the records of a message have.
const OCTETS_MAX: usize = 128 << 10;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that returns to the pool of the thread that drops it.
#[derive(Debug, PartialEq, Eq)]
pub struct ReusableBytes(Vec<u8>);

impl ReusableBytes {
    /// Takes an empty buffer.
    pub fn take() -> Self {
        // A terminating thread has none.
        let free = FREE.try_with(|free| free.borrow_mut().pop());
        ReusableBytes(free.ok().flatten().unwrap_or_default())
    }
}

impl Deref for ReusableBytes {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for ReusableBytes {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for ReusableBytes {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0);
        if !(1..=OCTETS_MAX).contains(&bytes.capacity()) {
            return;
        }
        bytes.clear();
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(bytes);
            }
        });
    }
}
