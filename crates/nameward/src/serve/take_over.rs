//! The new server's side of `nameward upgrade`: takes the sockets and the state store of the running one
//! ([`super::hand_over`]). Also takes sockets from the service manager (socket activation).

#![allow(unsafe_code)]

use std::{
    env,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nameward_control::operations::{ControlRequest, OperationRequest, ReplyLine};
use nameward_serve::{descriptors, inherited::InheritedSockets, quic::QuicIdentity};

use super::hand_over_lines::{HandOverOffer, LOAD, PAUSED, SERVE, SERVING, read_line, send_line};

/// The control socket of the server to take over from; set by `nameward upgrade`.
pub const VARIABLE: &str = "NAMEWARD_TAKE_OVER";
/// Timeout for the running server's answer: it finishes pending writes first.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why the sockets of the running server cannot be taken over.
#[derive(Debug, thiserror::Error)]
#[error("cannot take over from the running server: {0}")]
pub struct TakeOverError(#[from] io::Error);

/// A running server that this process takes over from.
pub struct TakeOver {
    stream: UnixStream,
    /// Its control socket.
    path: PathBuf,
    stdout: Option<OwnedFd>,
    stderr: OwnedFd,
    pid_file: Option<File>,
    /// The keys of its QUIC connections.
    quic: String,
}

/// Requests the sockets of the running server, if this process was started to take over; otherwise returns those of
/// the service manager.
pub fn begin() -> Result<(Option<TakeOver>, InheritedSockets), TakeOverError> {
    let mut sockets = InheritedSockets::default();
    let Some(path) = env::var_os(VARIABLE) else {
        activated().into_iter().for_each(|one| sockets.add(one));
        return Ok((None, sockets));
    };
    let path = PathBuf::from(path);
    let stream = UnixStream::connect(&path)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = ControlRequest {
        config: None,
        message: None,
        request: OperationRequest::TakeOver,
    };
    send_line(
        &stream,
        &serde_json::to_string(&request).map_err(io::Error::from)?,
    )?;
    let line = read_line(&stream)?;
    let Ok(offer) = serde_json::from_str::<HandOverOffer>(&line) else {
        return Err(refusal(&line).into());
    };
    let mut received = descriptors::receive(&stream, offer.descriptors)?.into_iter();
    let (Some(stdout), Some(stderr)) = (received.next(), received.next()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidData).into());
    };
    received.for_each(|one| sockets.add(one));
    let take_over = TakeOver {
        stream,
        path,
        stdout: Some(stdout),
        stderr,
        pid_file: None,
        quic: offer.quic,
    };
    Ok((Some(take_over), sockets))
}

/// Returns why the running server refuses, from its reply.
fn refusal(line: &str) -> io::Error {
    match serde_json::from_str(line) {
        Ok(ReplyLine::Failed(error)) => io::Error::other(error.message),
        _ => io::Error::other("it uses another version of the protocol: restart it"),
    }
}

/// Returns the descriptors of systemd's socket activation.
fn activated() -> Vec<OwnedFd> {
    let number = |name: &str| env::var(name).ok()?.parse::<usize>().ok();
    match (number("LISTEN_PID"), number("LISTEN_FDS")) {
        (Some(process), Some(count)) if process == std::process::id() as usize => {
            // SAFETY: the service manager opened them for this process, and this is called once.
            unsafe { descriptors::passed_by_service_manager(count) }
        }
        _ => Vec::new(),
    }
}

impl TakeOver {
    /// Returns the path of the control socket to take over.
    pub fn control_socket(&self) -> &Path {
        &self.path
    }

    /// Opens the process ID file, which is written when this process serves; false if there is none.
    pub fn keep_pid_file(&mut self, path: &Path) -> bool {
        let mut options = OpenOptions::new();
        let opened = options
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path);
        self.pid_file = opened.ok();
        self.pid_file.is_some()
    }

    /// Lets the running server release the state store. It continues to answer from memory.
    pub fn take_store(&self) -> Result<(), TakeOverError> {
        send_line(&self.stream, LOAD)?;
        match read_line(&self.stream) {
            Ok(line) if line == PAUSED => Ok(()),
            Ok(line) => Err(refusal(&line).into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let seconds = TIMEOUT.as_secs();
                let text = format!("it has not released the state store within {seconds} s");
                Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the keys of QUIC connections of the server before.
    pub fn quic_identity(&self) -> Option<QuicIdentity> {
        QuicIdentity::from_predecessor(&self.quic)
    }

    /// Lets the server before stop, and continues its log. Fails if that one has given this process up and continues.
    pub fn finish(&mut self) -> Result<(), TakeOverError> {
        match send_line(&self.stream, SERVE).and_then(|()| read_line(&self.stream)) {
            Ok(line) if line == SERVING => {}
            Ok(line) => return Err(refusal(&line).into()),
            Err(error) => tracing::warn!("upgrade: the server before has ended: {error}"),
        }
        if let Some(file) = &mut self.pid_file {
            let id = std::process::id();
            let written = file.set_len(0).and_then(|()| writeln!(file, "{id}"));
            if let Err(error) = written {
                tracing::warn!("cannot write the process ID file: {error}");
            }
        }
        let _ = descriptors::replace(libc::STDERR_FILENO, &self.stderr);
        Ok(())
    }

    /// Continues the standard output of the server before.
    pub fn finish_output(&mut self) {
        if let Some(stdout) = self.stdout.take() {
            let _ = descriptors::replace(libc::STDOUT_FILENO, &stdout);
        }
    }
}
