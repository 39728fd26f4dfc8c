//! The running server's side of `nameward upgrade`: hands its sockets and the state store to a new process.
//!
//! ```text
//! new                          old
//! take_over            ->      closes the queues of interfaces (XDP)
//!                      <-      {"descriptors": N}, then the descriptors: stdout, stderr, all listening sockets
//! (checks, binds what is new, enters its sandbox)
//! load                 ->      pauses the state store: changes wait, queries are answered from memory
//!                      <-      paused
//! (opens the store, loads all zones)
//! serve                ->      stops reading UDP, tells the service manager who serves
//!                      <-      serving
//!                              finishes connections and transfers, ends
//! (reads the sockets)
//! ```
//!
//! If the connection ends before `serve`, the new process has failed: the store is resumed and nothing has changed.
//! This process runs no program, so that its sandbox can forbid it.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nameward_base::sync::Mutex;
use nameward_control::operations::{ErrorKind, OperationError, Outcome};
use nameward_serve::{descriptors, udp::WorkerSwitch, xdp::XdpClosing};
use nameward_state::StateStore;
use tokio::sync::watch;

use super::{
    hand_over_lines::{HandOverOffer, LOAD, PAUSED, SERVE, SERVING, expect, send_line},
    opening::Gates,
    ports::Ports,
};
use crate::notify;

/// How long a new process may take to check its configuration, and to load its zones.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);
const LOAD_TIMEOUT: Duration = Duration::from_secs(900);

/// The descriptors for a new process, and the news that it serves.
pub struct HandOver {
    /// Held during a hand-over: there is one at a time.
    descriptors: Mutex<Vec<OwnedFd>>,
    /// Keeps the file of the control socket.
    keeps_control_socket: Option<Arc<AtomicBool>>,
    store: Option<StateStore>,
    /// The threads that read UDP.
    workers: Arc<WorkerSwitch>,
    /// Closes the queues of interfaces.
    xdp: XdpClosing,
    /// The keys of QUIC connections, for the new process.
    quic: String,
    is_done: watch::Sender<bool>,
}

impl HandOver {
    /// Copies the descriptors of all ports.
    pub fn new(ports: &Ports, gates: &Gates, store: Option<&StateStore>) -> io::Result<Arc<Self>> {
        let descriptors = ports.descriptors()?;
        let control = ports.control.as_ref();
        Ok(Arc::new(Self {
            descriptors: Mutex::new(descriptors),
            keeps_control_socket: control.map(|control| control.handed_over_flag()),
            store: store.cloned(),
            workers: Arc::clone(&gates.workers),
            xdp: gates.xdp.clone(),
            quic: ports.encrypted.identity.to_successor(),
            is_done: watch::Sender::new(false),
        }))
    }

    /// Returns a receiver of true when another process serves.
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.is_done.subscribe()
    }

    /// Checks whether another process serves.
    pub fn is_done(&self) -> bool {
        *self.is_done.borrow()
    }

    /// Closes the copies of the descriptors, so that the ports are closed when their listeners end.
    pub fn close(&self) {
        if let Some(mut descriptors) = self.descriptors.try_lock() {
            descriptors.clear();
        }
    }

    /// Hands over to the process at the other end.
    pub fn run(&self, stream: &UnixStream) -> Outcome<()> {
        let Some(mut descriptors) = self.descriptors.try_lock() else {
            return Err(OperationError::conflict("an upgrade is already running"));
        };
        if self.is_done() {
            return Err(OperationError::conflict("the server is stopping"));
        }
        let broken = |error: io::Error| {
            tracing::warn!("upgrade: the new process has failed: {error}; this one continues");
            OperationError::new(ErrorKind::Internal, error.to_string())
        };
        tracing::info!("upgrade: handing over to a new process");
        // The kernel lets only one process open a queue. Until the new process reads them, datagrams reach the
        // ordinary sockets.
        self.xdp.close();
        self.offer(stream, &descriptors).map_err(broken)?;
        stream
            .set_read_timeout(Some(CHECK_TIMEOUT))
            .map_err(broken)?;
        expect(stream, LOAD).map_err(broken)?;
        let paused = self.store.as_ref().map(StateStore::pause).transpose();
        let paused =
            paused.map_err(|error| OperationError::new(ErrorKind::Internal, error.to_string()))?;
        let taken = send_line(stream, PAUSED)
            .and_then(|()| stream.set_read_timeout(Some(LOAD_TIMEOUT)))
            .and_then(|()| expect(stream, SERVE))
            .and_then(|()| self.leave_to(stream));
        if let Err(error) = taken {
            self.workers.read();
            if let Some(Err(error)) = paused.map(|paused| paused.resume()) {
                tracing::error!(
                    "upgrade: cannot use the state store again: {error}; restart the server"
                );
            }
            return Err(broken(error));
        }
        if let Some(keeps) = &self.keeps_control_socket {
            keeps.store(true, Ordering::Release);
        }
        descriptors.clear();
        tracing::info!("upgrade: the new process serves; finishing connections");
        self.is_done.send_replace(true);
        Ok(())
    }

    /// Leaves the sockets to the new process. A datagram that this one read later could be an UPDATE, which only the new one
    /// can carry out; until that reads, datagrams wait in the sockets.
    fn leave_to(&self, stream: &UnixStream) -> io::Result<()> {
        if !self.workers.pause() {
            tracing::warn!("upgrade: a UDP worker does not stop reading");
        }
        notify::successor(descriptors::peer_process(stream)?);
        send_line(stream, SERVING)
    }

    fn offer(&self, stream: &UnixStream, ports: &[OwnedFd]) -> io::Result<()> {
        // With their current descriptors: this process may have taken them over itself.
        let output = [
            io::stdout().as_fd().try_clone_to_owned()?,
            io::stderr().as_fd().try_clone_to_owned()?,
        ];
        let offer = HandOverOffer {
            descriptors: output.len() + ports.len(),
            quic: self.quic.clone(),
        };
        send_line(stream, &serde_json::to_string(&offer)?)?;
        descriptors::send(stream, &output)?;
        descriptors::send(stream, ports)
    }
}
