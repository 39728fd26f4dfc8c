//! Owns the control socket: a Unix socket where `nameward reload` and the like reach the server.
//!
//! A request is one line of JSON, the reply is one line for each item of a listing and a last one with the
//! result or the error ([`ReplyLine`](crate::operations::ReplyLine)); then the connection ends. A reply without its
//! last line is not whole. Invariants: the socket file is readable by its owner only, and besides that
//! only root and the user who made it are heard; a socket that another server answers is never taken
//! over; symbolic links are never followed (CVE-2020-28935 was one that was); line length,
//! connections and waiting are bounded; commands that wait for a database never keep `status`, `stop` or
//! `reload` from being heard.

mod ask;
mod serve;

pub use ask::{ControlError, ask};
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

/// How long a client may take to send its line, and to take any part of the reply.
const CLIENT_PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no control socket; one line with the path.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another server answers there.
    #[error("control socket {}: another server is using it", .0.display())]
    Taken(PathBuf),
    /// Something that is not a socket has the name.
    #[error("control socket {}: the path exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The directory belongs to another user, who could replace the socket.
    #[error("control socket: directory {} is writable by other users", .0.display())]
    ForeignDirectory(PathBuf),
    /// The system refused.
    #[error("control socket {}: {}", path.display(), plain(source))]
    System {
        /// The socket's path.
        path: PathBuf,
        /// The answer of the system.
        source: io::Error,
    },
}

/// The text of an I/O error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().into()
}

/// A bound control socket. Its file goes away when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    listener: std::os::unix::net::UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    owner: u32,
    /// Set when another process answers at it, so that the file stays.
    is_handed_over: Arc<AtomicBool>,
}

impl ControlSocket {
    /// Binds `path`, replacing a socket that nobody answers.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let system = |source| SocketError::System {
            path: path.to_path_buf(),
            source,
        };
        ensure_free(path)?;
        // Bound under another name and renamed when its mode is right, so that the name never
        // belongs to a socket others may open. Renaming replaces a link, it does not follow it.
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(new);
        let listener = match std::os::unix::net::UnixListener::bind(&new) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                // Left by a process of the same number that was killed in the midst of this.
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
        let metadata = fs::symlink_metadata(path).map_err(|source| SocketError::System {
            path: path.to_path_buf(),
            source,
        })?;
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

    /// Returns a copy of the descriptor, for a server that takes over.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }

    /// Returns the flag that keeps the file when this process ends.
    pub fn handed_over_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_handed_over)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Only if the name is still ours; after a change of user this may not be permitted.
        if !self.is_handed_over.load(Ordering::Acquire)
            && let Ok(metadata) = fs::symlink_metadata(&self.path)
            && (metadata.dev(), metadata.ino()) == self.identity
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether `path` can be taken: nothing there, or a socket nobody answers.
fn ensure_free(path: &Path) -> Result<(), SocketError> {
    let system = |source| SocketError::System {
        path: path.to_path_buf(),
        source,
    };
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

/// Makes a directory for a control socket, for nobody else to write to, or checks the one there is.
///
/// In a directory everybody may write to, another user may have made it first.
pub fn make_private_directory(path: &Path) -> Result<(), SocketError> {
    let system = |source| SocketError::System {
        path: path.to_path_buf(),
        source,
    };
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(system(error)),
    }
    let metadata = fs::symlink_metadata(path).map_err(system)?;
    let ours = fs::metadata("/proc/self").map_err(system)?.uid();
    let private = metadata.is_dir() && metadata.uid() == ours && metadata.mode() & 0o022 == 0;
    if private {
        Ok(())
    } else {
        Err(SocketError::ForeignDirectory(path.to_path_buf()))
    }
}

#[cfg(test)]
mod tests;
