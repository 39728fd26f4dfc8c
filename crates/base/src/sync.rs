//! Locks that outlive a panic.
//!
//! A thread that panics while it holds a lock must not take down every thread that needs the same lock: the server keeps
//! answering, and the panic guard of the thread reports the bug. The standard library marks such a lock as poisoned; these
//! types ignore the mark. Code that changes data under a lock therefore leaves it consistent at every point that can panic.

use std::fmt;
pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// [`std::sync::Mutex`] without poisoning.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until no other thread holds the lock, then locks it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks it unless another thread holds the lock.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the value; the borrow proves that no thread holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// [`std::sync::RwLock`] without poisoning.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        RwLock(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no other thread writes.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread reads or writes.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// [`std::sync::Condvar`] without poisoning.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Creates a condition without waiters.
    pub const fn new() -> Self {
        Condvar(std::sync::Condvar::new())
    }

    /// Waits for a notification; wakes spuriously too.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while a condition holds.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_while(guard, condition);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a notification, for so long at most; also returns whether the time is over.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout(guard, timeout);
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }

    /// Waits while a condition holds, for so long at most.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout_while(guard, timeout, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_under_a_lock_does_not_lock_out_others() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(2));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut value = mutex.lock();
            let _shared = shared.write();
            *value = 3;
            panic!("a bug under two locks");
        }));
        assert!(panicked.is_err());
        assert_eq!((*mutex.lock(), *shared.read()), (3, 2));
        *shared.write() = 4;
        let woken = Condvar::new();
        let value = woken.wait_timeout_while(mutex.lock(), Duration::ZERO, |_| true);
        assert_eq!((*value, *shared.read()), (3, 4));
        drop(value);
        assert_eq!(mutex.into_inner(), 3);
    }
}
