//! The control socket: a Unix socket on which the server receives commands such as `nameward reload`.
//!
//! A request is one line of JSON; the reply is one line for each item of a listing and a final one with the result or
//! the error ([`ReplyLine`](crate::operations::ReplyLine)); then the connection ends. A reply without its final line
//! is incomplete. Invariants: only the owner can open the socket file, and only root and the user who created it are
//! served; a socket that another server answers is never taken over; symbolic links are never followed
//! (CVE-2020-28935 was such a case); line length, connections and waiting are limited; commands that wait for a
//! database never delay `status`, `stop` or `reload`.

mod client;
mod serve;

pub use client::{ControlError, send_request};
pub use serve::{Commands, ControlPeer, REQUEST_MAX};

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
            net::UnixStream as BlockingStream,
        },
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Timeout for receiving a client's request, and for each write of the reply.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no control socket; one line with the path.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another server uses it.
    #[error("control socket {}: another server is using it", .0.display())]
    Taken(PathBuf),
    /// The path exists and is not a socket.
    #[error("control socket {}: the path exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The directory belongs to another user, who could replace the socket.
    #[error("control socket: directory {} is writable by other users", .0.display())]
    ForeignDirectory(PathBuf),
    /// The system call failed.
    #[error("control socket {}: {}", path.display(), plain(source))]
    System {
        /// The socket's path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

fn system_error(path: &Path) -> impl Fn(io::Error) -> SocketError + Copy {
    move |source| SocketError::System {
        path: path.to_path_buf(),
        source,
    }
}

/// The text of an I/O error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().into()
}

/// A bound control socket. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    listener: std::os::unix::net::UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    owner: u32,
    /// Set when another process has taken over the socket, so that its file is kept.
    is_handed_over: Arc<AtomicBool>,
}

impl ControlSocket {
    /// Binds `path`, replacing a socket without a server.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let system = system_error(path);
        ensure_free(path)?;
        // Bound under another name and renamed when its mode is set, so that the name never belongs to a socket that
        // others may open. Renaming replaces a link and does not follow it.
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(new);
        let listener = match std::os::unix::net::UnixListener::bind(&new) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                // Left by a process with the same ID that was killed at this point.
                fs::remove_file(&new).map_err(system)?;
                std::os::unix::net::UnixListener::bind(&new)
            }
            other => other,
        }
        .map_err(system)?;
        let finish = || {
            fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            let metadata = fs::symlink_metadata(&new)?;
            fs::rename(&new, path)?;
            Ok(metadata)
        };
        let metadata = finish().map_err(|error| {
            let _ = fs::remove_file(&new);
            system(error)
        })?;
        Ok(Self::new(listener, path, &metadata))
    }

    /// Continues with a socket that another process has bound at `path`.
    pub fn inherit(
        listener: std::os::unix::net::UnixListener,
        path: &Path,
    ) -> Result<Self, SocketError> {
        let metadata = fs::symlink_metadata(path).map_err(system_error(path))?;
        Ok(Self::new(listener, path, &metadata))
    }

    fn new(
        listener: std::os::unix::net::UnixListener,
        path: &Path,
        metadata: &fs::Metadata,
    ) -> Self {
        Self {
            listener,
            path: path.to_path_buf(),
            identity: (metadata.dev(), metadata.ino()),
            owner: metadata.uid(),
            is_handed_over: Arc::default(),
        }
    }

    /// Returns a copy of the descriptor, for a successor.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }

    /// Returns the flag that keeps the file when this process ends.
    pub fn handed_over_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_handed_over)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Only if the file is still ours; after a change of user this may not be permitted.
        if !self.is_handed_over.load(Ordering::Acquire)
            && let Ok(metadata) = fs::symlink_metadata(&self.path)
            && (metadata.dev(), metadata.ino()) == self.identity
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Checks that `path` is free: it does not exist, or is a socket without a server.
fn ensure_free(path: &Path) -> Result<(), SocketError> {
    let system = system_error(path);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(system(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err(SocketError::NotASocket(path.to_path_buf()))
        }
        Ok(_) => match BlockingStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Ok(_) => Err(SocketError::Taken(path.to_path_buf())),
            Err(error) => Err(system(error)),
        },
    }
}

/// Creates a directory for a control socket that only its owner can write to, or checks an existing one.
///
/// In a world-writable directory, another user may have created it first.
pub fn make_private_directory(path: &Path) -> Result<(), SocketError> {
    let system = system_error(path);
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(system(error)),
    }
    let metadata = fs::symlink_metadata(path).map_err(system)?;
    let own_uid = fs::metadata("/proc/self").map_err(system)?.uid();
    let private = metadata.is_dir() && metadata.uid() == own_uid && metadata.mode() & 0o022 == 0;
    if private {
        Ok(())
    } else {
        Err(SocketError::ForeignDirectory(path.to_path_buf()))
    }
}

#[cfg(test)]
mod tests;
