//! The lock of a state directory: held by one server or one command at a time, and the file says
//! which.

use super::error::{StateError, StoreUser};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Maximum number of octets read from the lock file.
const TEXT_MAX: u64 = 64;

impl StoreUser {
    fn word(self) -> &'static str {
        match self {
            StoreUser::Server => "server",
            StoreUser::Command => "command",
        }
    }
}

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(super) struct StoreLock(File);

impl Drop for StoreLock {
    fn drop(&mut self) {
        // Closing the file does not release the lock while a process that was just forked still has a copy of the
        // descriptor, until it runs its program.
        let _ = self.0.unlock();
    }
}

/// Takes the lock. The error names its holder; for a moment after a change of holders, the previous
/// one.
pub(super) fn lock(path: &Path, user: StoreUser) -> Result<StoreLock, StateError> {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path);
    let of_io = |error: std::io::Error| StateError::from_io(path, &error);
    let mut file = file.map_err(of_io)?;
    if !file.metadata().map_err(of_io)?.is_file() {
        return Err(StateError::NotAFile(path.into()));
    }
    match file.try_lock() {
        Ok(()) => {
            // For processes that find it locked; a full disk must not prevent use of the store.
            let _ = write_user(&mut file, user);
            Ok(StoreLock(file))
        }
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(StateError::InUse(path.into(), read_user(&mut file)))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(of_io(error)),
    }
}

fn write_user(file: &mut File, user: StoreUser) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{} {}", user.word(), std::process::id())
}

fn read_user(file: &mut File) -> StoreUser {
    let mut text = String::new();
    let read = file.take(TEXT_MAX).read_to_string(&mut text);
    if read.is_ok() && text.starts_with(StoreUser::Command.word()) {
        StoreUser::Command
    } else {
        StoreUser::Server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_free_once_dropped_although_a_forked_process_has_the_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.lock");
        let held = lock(&path, StoreUser::Command).unwrap();
        let in_use = lock(&path, StoreUser::Server).unwrap_err();
        assert!(
            matches!(in_use, StateError::InUse(_, StoreUser::Command)),
            "{in_use:?}"
        );
        // A forked process has such a copy of every descriptor.
        let inherited = held.0.try_clone().unwrap();
        drop(held);
        let taken = lock(&path, StoreUser::Server);
        assert!(taken.is_ok(), "{taken:?}");
        drop(inherited);
    }
}
