//! The client side of the control socket: one request, and the reply up to its final line.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream as BlockingStream,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{CLIENT_TIMEOUT, plain};
use crate::operations::{
    ControlRequest, ErrorKind, ListedItem, OperationError, OperationResult, ReplyLine,
};

/// Timeout for the next line of a reply: a reload reads every changed zone.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long a client waits for the server to exit after `stop`.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a reply line in octets.
const LINE_MAX: u64 = 16 << 20;

/// Why a request got no result.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No server answers.
    #[error("cannot connect to the control socket {}: {}", .0.display(), plain(.1))]
    NotRunning(PathBuf, #[source] io::Error),
    /// The connection failed, or the reply is invalid.
    #[error("no response from the server: {}", plain(.0))]
    Broken(#[source] io::Error),
    /// The connection ended before the final line.
    #[error("incomplete response: the server closed the connection")]
    Cut,
    /// The server is stopping but did not exit in time.
    #[error("the server is stopping, but has not exited within {} s", STOP_TIMEOUT.as_secs())]
    StillStopping,
    /// The server returned an error.
    #[error("{0}")]
    Failed(OperationError),
}

impl ControlError {
    /// The kind of the error, as the server would report it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ControlError::NotRunning(..) => ErrorKind::NotRunning,
            ControlError::Failed(error) => error.kind,
            ControlError::Broken(_) | ControlError::Cut | ControlError::StillStopping => {
                ErrorKind::Internal
            }
        }
    }
}

/// Sends a request to the server whose control socket is `path`, passes on the items of a listing as they arrive, and
/// returns the result.
pub fn send_request(
    path: &Path,
    request: &ControlRequest,
    each: &mut dyn FnMut(ListedItem),
) -> Result<OperationResult, ControlError> {
    let mut stream = BlockingStream::connect(path)
        .map_err(|error| ControlError::NotRunning(path.to_path_buf(), error))?;
    send(&mut stream, request).map_err(ControlError::Broken)?;
    let mut reader = BufReader::new(stream);
    loop {
        match read_line(&mut reader)? {
            ReplyLine::Item(item) => each(item),
            ReplyLine::Failed(error) => return Err(ControlError::Failed(error)),
            ReplyLine::Done(OperationResult::Stopping) => {
                return wait_for_exit(reader.into_inner()).map(|()| OperationResult::Stopping);
            }
            ReplyLine::Done(result) => return Ok(result),
        }
    }
}

fn send(stream: &mut BlockingStream, request: &ControlRequest) -> io::Result<()> {
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn read_line(reader: &mut BufReader<BlockingStream>) -> Result<ReplyLine, ControlError> {
    let mut line = Vec::new();
    reader
        .by_ref()
        .take(LINE_MAX)
        .read_until(b'\n', &mut line)
        .map_err(ControlError::Broken)?;
    if !line.ends_with(b"\n") {
        return Err(ControlError::Cut);
    }
    serde_json::from_slice(&line).map_err(|error| ControlError::Broken(error.into()))
}

/// Waits until the server has exited, which closes the connection.
fn wait_for_exit(mut stream: BlockingStream) -> Result<(), ControlError> {
    stream
        .set_read_timeout(Some(STOP_TIMEOUT))
        .map_err(ControlError::Broken)?;
    match stream.read(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(ControlError::StillStopping),
        _ => Ok(()),
    }
}
