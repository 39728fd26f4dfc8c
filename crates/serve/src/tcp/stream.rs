//! The byte stream below a connection: TCP itself, or a layer on top of it.

use std::io::{self, Read as _};
use std::sync::Arc;

use socket2::SockRef;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;

use crate::request::TlsPeer;

/// A bidirectional byte stream as a connection uses it: wait until the stream is ready, then read or write without
/// blocking. A layered stream (TLS) may do its handshake and buffer its records in these calls, and also reports
/// ready when it only has to continue with them.
pub trait ByteStream: Send + 'static {
    /// Prepares the stream for messages: the handshake of a layered stream.
    fn establish(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        async { Ok(()) }
    }

    /// Returns the client of an encrypted stream, once it is established.
    fn tls_peer(&self) -> Option<&Arc<TlsPeer>> {
        None
    }

    /// Waits until reading may make progress: octets, the end, or an error.
    fn readable(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Waits until writing may make progress.
    fn writable(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Reads available octets: 0 at the end of the stream, `WouldBlock` if there are none yet.
    fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as fits, `WouldBlock` if nothing does.
    fn try_write(&mut self, octets: &[u8]) -> io::Result<usize>;

    /// Returns how many accepted octets a layered stream has not yet written to the socket; an empty write flushes
    /// them.
    fn unsent(&self) -> usize {
        0
    }

    /// Closes our side of the stream. Octets already written are still delivered.
    fn shutdown(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// Reads available octets: 0 at the end of the stream, `WouldBlock` if there are none yet.
///
/// A read that does not fill its buffer has emptied the socket. The runtime is informed in the same step, as tokio's
/// `poll_read` does; otherwise each wait would start with a read that finds nothing. Octets that arrive in between
/// are a new event, which this does not cancel.
pub(crate) fn read_available(tcp: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    let mut last = None;
    let read = tcp.try_io(Interest::READABLE, || {
        let read = (&*SockRef::from(tcp)).read(into)?;
        if read == 0 || read == into.len() {
            return Ok(read);
        }
        last = Some(read);
        Err(io::ErrorKind::WouldBlock.into())
    });
    last.map_or(read, Ok)
}

impl ByteStream for TcpStream {
    async fn readable(&mut self) -> io::Result<()> {
        TcpStream::readable(self).await
    }

    async fn writable(&mut self) -> io::Result<()> {
        TcpStream::writable(self).await
    }

    fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read_available(self, into)
    }

    fn try_write(&mut self, octets: &[u8]) -> io::Result<usize> {
        TcpStream::try_write(self, octets)
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        AsyncWriteExt::shutdown(self).await
    }
}
