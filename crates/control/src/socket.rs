//! Owns the control socket: a Unix socket where `nameward reload` and the like reach the server.
//!
//! One request is one line, one reply is a line `ok` or `error` followed by text; then the
//! connection ends. Invariants: the socket file is readable by its owner only, and besides that
//! only root and the user who made it are heard; a socket that somebody answers is never taken
//! over; symbolic links are never followed (CVE-2020-28935 was one that was); line length,
//! connections and waiting are bounded.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
        net::UnixStream as BlockingStream,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{Semaphore, watch},
    time::timeout,
};

/// Octets of the longest request line: an RRset as large as an answer can hold, in text.
pub const REQUEST_MAX: u64 = 512 << 10;
/// Connections served at one time; others wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;
/// How long a client may take to send its line, and to take the reply.
const CLIENT_PATIENCE: Duration = Duration::from_secs(5);
/// How long a client waits for the work itself: a reload reads every changed zone.
const WORK_PATIENCE: Duration = Duration::from_secs(3600);
/// Octets of the longest reply a client takes.
const REPLY_MAX: u64 = 16 << 20;

/// Does what a request asks. Called on a thread that may block.
pub trait Commands: Send + Sync + 'static {
    /// The reply to a request line, or what was wrong.
    fn run(&self, request: &str) -> Result<String, String>;
}

/// Why there is no control socket; one line with the path.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another server answers there.
    #[error("control socket {}: another server answers there", .0.display())]
    Taken(PathBuf),
    /// Something that is not a socket has the name.
    #[error("control socket {}: something that is not a socket is in its place", .0.display())]
    NotASocket(PathBuf),
    /// The directory belongs to somebody else, who could replace the socket.
    #[error("control socket: the directory {} is not only ours", .0.display())]
    ForeignDirectory(PathBuf),
    /// The system refused.
    #[error("control socket {}: {}", path.display(), plain(source))]
    System {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
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
        Ok(Self {
            listener,
            path: path.to_path_buf(),
            identity: (metadata.dev(), metadata.ino()),
            owner: metadata.uid(),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers requests until `shutdown` says true.
    pub async fn serve(
        self,
        commands: Arc<dyn Commands>,
        mut shutdown: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => return Ok(()),
                accepted = accept(&listener, &seats) => accepted,
            };
            let Some((stream, seat)) = accepted else {
                // Short of descriptors: waiting is all that helps.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // The file mode says the same; this also holds where somebody changed it.
            let peer = stream.peer_cred().map(|peer| peer.uid());
            if !peer.is_ok_and(|uid| uid == 0 || uid == self.owner) {
                continue;
            }
            let commands = Arc::clone(&commands);
            tokio::spawn(async move {
                converse(stream, commands).await;
                drop(seat);
            });
        }
    }
}

async fn accept(
    listener: &UnixListener,
    seats: &Arc<Semaphore>,
) -> Option<(UnixStream, tokio::sync::OwnedSemaphorePermit)> {
    let seat = Arc::clone(seats).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, seat))
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Only if the name is still ours; after a change of user this may not be permitted.
        if let Ok(metadata) = fs::symlink_metadata(&self.path)
            && (metadata.dev(), metadata.ino()) == self.identity
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Reads one request and answers it.
async fn converse(stream: UnixStream, commands: Arc<dyn Commands>) {
    let (reader, mut writer) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = BufReader::new(reader.take(REQUEST_MAX));
    let read = timeout(CLIENT_PATIENCE, reader.read_until(b'\n', &mut line)).await;
    let reply = match read {
        Ok(Ok(_)) if line.ends_with(b"\n") => match String::from_utf8(line) {
            Ok(line) => tokio::task::spawn_blocking(move || commands.run(line.trim()))
                .await
                .unwrap_or_else(|_| Err("the request failed; see the log".into())),
            Err(_) => Err("the request is not text".into()),
        },
        Ok(Ok(0)) => return,
        Ok(Ok(_)) => Err("expected one line".into()),
        _ => return,
    };
    let reply = match reply {
        Ok(text) => format!("ok\n{text}"),
        Err(text) => format!("error\n{text}\n"),
    };
    let _ = timeout(CLIENT_PATIENCE, writer.write_all(reply.as_bytes())).await;
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
/// In a directory everybody may write to, somebody else may have made it first.
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

/// Why a request got no good reply.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody answers there.
    #[error("no server answers at the control socket {}: {}", .0.display(), plain(.1))]
    Unreachable(PathBuf, #[source] io::Error),
    /// The connection broke.
    #[error("the server did not reply: {}", plain(.0))]
    Broken(#[source] io::Error),
    /// The server says no.
    #[error("{0}")]
    Refused(String),
}

/// Sends one request line to the server whose control socket is `path` and returns its reply.
pub fn ask(path: &Path, request: &str) -> Result<String, AskError> {
    let mut stream = BlockingStream::connect(path)
        .map_err(|error| AskError::Unreachable(path.to_path_buf(), error))?;
    let mut talk = || {
        stream.set_write_timeout(Some(CLIENT_PATIENCE))?;
        stream.set_read_timeout(Some(WORK_PATIENCE))?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut reply = String::new();
        Read::by_ref(&mut stream)
            .take(REPLY_MAX)
            .read_to_string(&mut reply)?;
        Ok(reply)
    };
    let reply = talk().map_err(AskError::Broken)?;
    match reply.split_once('\n') {
        Some(("ok", text)) => Ok(text.to_string()),
        Some(("error", text)) => Err(AskError::Refused(text.trim_end().to_string())),
        _ => Err(AskError::Broken(io::Error::other(
            "the connection was closed",
        ))),
    }
}

#[cfg(test)]
mod tests;
