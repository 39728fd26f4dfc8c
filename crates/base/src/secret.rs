//! Secrets in memory: never printed, and overwritten when they are dropped.
//!
//! A core dump, a swapped page or a read beyond a buffer then shows secrets in use, not those of the past. Overwriting covers
//! one place: whatever grows or moves a buffer leaves a copy behind. So a secret is on the heap, where a move copies a
//! pointer, and its buffer is made with its final capacity.

use std::fmt;

pub use zeroize::Zeroize;

/// A secret on the heap, such as a `String` or a `Vec<u8>`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes a value, which must be the only copy.
    pub fn new(value: T) -> Self {
        Secret(value)
    }

    /// Returns the value itself.
    pub fn reveal(&self) -> &T {
        &self.0
    }

    /// Returns the value itself, to be filled within its capacity.
    pub fn reveal_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Zeroize> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Secret::new(value)
    }
}

impl From<&str> for Secret<String> {
    fn from(text: &str) -> Self {
        Secret::new(text.to_owned())
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn a_secret_is_overwritten_when_it_is_dropped() {
        struct Watched<'a>(&'a AtomicU8);
        impl Zeroize for Watched<'_> {
            fn zeroize(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }
        let octet = AtomicU8::new(7);
        let secret = Secret::new(Watched(&octet));
        assert_eq!(secret.reveal().0.load(Ordering::Relaxed), 7);
        drop(secret);
        assert_eq!(octet.load(Ordering::Relaxed), 0);
    }
}
