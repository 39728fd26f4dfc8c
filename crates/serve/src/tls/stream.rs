//! TLS as a layer over the streams of `tcp`: connections, limits, late replies and transfers are those of TCP.
//!
//! rustls implements the protocol, and this module moves octets. An idle connection holds no buffer of its own:
//! rustls frees its buffers when they are empty, and no record is started before the socket has accepted the previous
//! ones.

use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::ServerConnection;

use super::budget::HandshakeBudget;
use super::client_certificate::identify;
use super::{LoadedTls, ServerTls, TlsPurpose};
use crate::request::TlsPeer;
use crate::tcp::{ByteStream, read_available};

/// Largest plaintext of a record (RFC 8446 section 5.1), which also bounds what is buffered for a client that does
/// not read.
const RECORD_MAX: usize = 16 * 1024;

/// Octets per read for HTTP, as many as rustls reads from the socket: a larger buffer would be zeroed for nothing.
const POLLED_READ: usize = 4096;

/// The state that all connections of a listener share.
pub struct TlsLayer {
    tls: Arc<ServerTls>,
    purpose: TlsPurpose,
    budget: Arc<HandshakeBudget>,
    /// Identifies all clients without a certificate.
    unknown_peer: Arc<TlsPeer>,
}

impl TlsLayer {
    /// Creates the layer with these certificates and this budget for handshakes.
    pub fn new(
        tls: Arc<ServerTls>,
        purpose: TlsPurpose,
        budget: Arc<HandshakeBudget>,
    ) -> Arc<Self> {
        Arc::new(TlsLayer {
            tls,
            purpose,
            budget,
            unknown_peer: Arc::default(),
        })
    }

    /// Wraps an accepted connection in TLS; its handshake starts with [`ByteStream::establish`].
    pub fn over(self: &Arc<Self>, tcp: TcpStream) -> TlsByteStream {
        TlsByteStream {
            tcp,
            state: TlsStreamState::Accepted,
            layer: Arc::clone(self),
            has_more: false,
            peer: None,
        }
    }
}

enum TlsStreamState {
    /// The handshake has not started.
    Accepted,
    Running(Box<ServerConnection>),
}

/// A TLS connection.
pub struct TlsByteStream {
    tcp: TcpStream,
    state: TlsStreamState,
    layer: Arc<TlsLayer>,
    /// The last read filled its buffer, so more data may be available without an event from the socket.
    has_more: bool,
    peer: Option<Arc<TlsPeer>>,
}

/// The socket, as read and written by rustls.
struct Socket<'s>(&'s TcpStream);

impl io::Read for Socket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read_available(self.0, into)
    }
}

impl io::Write for Socket<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.try_write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes records to the socket until it takes no more; returns whether all are written.
fn send(tls: &mut ServerConnection, tcp: &TcpStream) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut Socket(tcp)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn not_established() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl TlsByteStream {
    async fn shake_hands(&mut self, loaded: &LoadedTls) -> io::Result<()> {
        let config = Arc::clone(loaded.config(self.layer.purpose));
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        self.state = TlsStreamState::Running(Box::new(tls));
        let TlsStreamState::Running(tls) = &mut self.state else {
            return Err(not_established());
        };
        while tls.is_handshaking() {
            while !send(tls, &self.tcp)? {
                self.tcp.writable().await?;
            }
            self.tcp.readable().await?;
            match tls.read_tls(&mut Socket(&self.tcp)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let step = self.layer.budget.run(|| tls.process_new_packets());
            let processed = step.await;
            if let Err(error) = processed {
                // The alert gives the reason; a client that does not read it is not waited for.
                let _ = send(tls, &self.tcp);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        self.peer = Some(match tls.peer_certificates() {
            None => Arc::clone(&self.layer.unknown_peer),
            Some(chain) => Arc::new(identify(chain, loaded.client_authorities())),
        });
        // A query may have arrived with the end of the handshake.
        self.has_more = true;
        Ok(())
    }
}

impl ByteStream for TlsByteStream {
    async fn establish(&mut self) -> io::Result<()> {
        let layer = Arc::clone(&self.layer);
        let loaded = layer.tls.current();
        let shaking = self.shake_hands(&loaded);
        match timeout(layer.tls.handshake_timeout(), shaking).await {
            Ok(result) => result,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn tls_peer(&self) -> Option<&Arc<TlsPeer>> {
        self.peer.as_ref()
    }

    async fn readable(&mut self) -> io::Result<()> {
        if self.has_more {
            return Ok(());
        }
        self.tcp.readable().await
    }

    async fn writable(&mut self) -> io::Result<()> {
        self.tcp.writable().await
    }

    fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let TlsStreamState::Running(tls) = &mut self.state else {
            return Err(not_established());
        };
        self.has_more = false;
        loop {
            match tls.reader().read(into) {
                Ok(read) => {
                    self.has_more = read > 0 && read == into.len();
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The client closed the connection without close_notify: the framing of DNS shows whether a message
                // is incomplete.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            if tls.read_tls(&mut Socket(&self.tcp))? == 0 {
                return Ok(0);
            }
            if let Err(error) = tls.process_new_packets() {
                let _ = send(tls, &self.tcp);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }

    fn try_write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let TlsStreamState::Running(tls) = &mut self.state else {
            return Err(not_established());
        };
        if !send(tls, &self.tcp)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let octets = &octets[..octets.len().min(RECORD_MAX)];
        if octets.is_empty() {
            return Ok(0);
        }
        let taken = tls.writer().write(octets)?;
        send(tls, &self.tcp)?;
        Ok(taken)
    }

    fn unsent(&self) -> usize {
        match &self.state {
            TlsStreamState::Running(tls) if tls.wants_write() => RECORD_MAX,
            _ => 0,
        }
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        if let TlsStreamState::Running(tls) = &mut self.state {
            tls.send_close_notify();
            // A client that does not read misses the alert.
            send(tls, &self.tcp)?;
        }
        AsyncWriteExt::shutdown(&mut self.tcp).await
    }
}

impl AsyncRead for TlsByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let room = buffer.remaining().min(POLLED_READ);
            match self.try_read(buffer.initialize_unfilled_to(room)) {
                Ok(read) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_read_ready(context))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for TlsByteStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.try_write(octets) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_write_ready(context))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write(context, &[]).map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let TlsStreamState::Running(tls) = &mut self.state {
            tls.send_close_notify();
        }
        ready!(self.as_mut().poll_flush(context))?;
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

impl Drop for TlsByteStream {
    /// Sends close_notify (RFC 8446 section 6.1), so that the client can rule out a truncation attack.
    fn drop(&mut self) {
        if let TlsStreamState::Running(tls) = &mut self.state
            && !tls.is_handshaking()
            && !tls.wants_write()
        {
            tls.send_close_notify();
            let _ = send(tls, &self.tcp);
        }
    }
}
