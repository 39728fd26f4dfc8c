//! The byte stream below a connection: TCP itself, or what is laid over it.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// A stream of octets in both directions, as a connection uses it: it waits until the stream is ready and then reads
/// or writes without waiting. A stream over another one (TLS) may do its handshake and keep its records in these calls,
/// and says ready also where it only has to go on with them.
pub trait ByteStream: Send + 'static {
    /// Waits until reading may bring something: octets, the end, or an error.
    fn readable(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Waits until writing may take something.
    fn writable(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Reads what is there: 0 octets at the end, `WouldBlock` where nothing is there yet.
    fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Writes what there is room for, `WouldBlock` where there is none.
    fn try_write(&mut self, octets: &[u8]) -> io::Result<usize>;

    /// Ends our side of the stream. What was written before is still delivered.
    fn shutdown(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

impl ByteStream for TcpStream {
    async fn readable(&mut self) -> io::Result<()> {
        TcpStream::readable(self).await
    }

    async fn writable(&mut self) -> io::Result<()> {
        TcpStream::writable(self).await
    }

    fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        TcpStream::try_read(self, into)
    }

    fn try_write(&mut self, octets: &[u8]) -> io::Result<usize> {
        TcpStream::try_write(self, octets)
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        AsyncWriteExt::shutdown(self).await
    }
}
