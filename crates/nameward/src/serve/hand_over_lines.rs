//! The lines that an old and a new process exchange during an upgrade.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
};

use serde::{Deserialize, Serialize};

/// Maximum length of a line of the conversation.
const LINE_MAX: usize = 4096;

/// The first line of the conversation.
#[derive(Serialize, Deserialize)]
pub(super) struct HandOverOffer {
    pub(super) descriptors: usize,
    /// The keys of QUIC connections.
    pub(super) quic: String,
}

/// Lines of the new process, and the answers to them.
pub(super) const LOAD: &str = "load";
pub(super) const SERVE: &str = "serve";
pub(super) const PAUSED: &str = "paused";
pub(super) const SERVING: &str = "serving";

pub(super) fn send_line(mut stream: &UnixStream, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Reads a line, which must be `wanted`.
pub(super) fn expect(stream: &UnixStream, wanted: &str) -> io::Result<()> {
    match read_line(stream)? {
        line if line == wanted => Ok(()),
        line => Err(io::Error::other(line)),
    }
}

/// Reads a line octet by octet: descriptors may follow, which a read beyond the line would lose.
pub(super) fn read_line(mut stream: &UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    let mut octet = [0];
    while line.len() < LINE_MAX {
        if stream.read(&mut octet)? == 0 {
            return Err(io::Error::other(
                "it has ended; its error is in the output of `nameward upgrade`",
            ));
        }
        if octet == *b"\n" {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        line.extend(octet);
    }
    Err(io::ErrorKind::InvalidData.into())
}
