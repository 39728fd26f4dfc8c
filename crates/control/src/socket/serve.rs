//! The server side of the control socket: which clients are served, in which order, and how replies are sent.
//!
//! Requests are read at once and then queued. At most [`RUNNING_MAX`] ordinary commands run and [`WAITING_MAX`] wait;
//! others are refused at once, so that they never occupy all connections. Reloads have their own slots, and short
//! commands (`status`, `stop`, `stats`) need none. When all connections are taken, the one that has been without a
//! complete request for longest is closed, so silent clients never delay commands.

use nameward_base::sync::Mutex;
use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
    os::{fd::IntoRawFd, unix::net::UnixStream as BlockingStream},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::AbortHandle,
    time::timeout,
};

use super::{CLIENT_TIMEOUT, ControlSocket};
use crate::operations::{
    ControlRequest, ErrorKind, ItemSink, OperationError, OperationRequest, OperationResult,
    Outcome, ReplyLine, Urgency,
};

/// Maximum length of a request line in octets: a batch of some hundred thousand records. Only the owner of the server
/// can send one.
pub const REQUEST_MAX: u64 = 16 << 20;
/// Maximum number of open connections: more than all that may run and wait.
pub(super) const CONNECTIONS_MAX: usize = 128;
/// Minimum age at which a connection without a complete request may be closed for another one: a client sends its
/// request at once.
const REQUEST_GRACE: Duration = Duration::from_millis(100);
/// Maximum number of running commands per urgency.
pub(super) const RUNNING_MAX: usize = 16;
/// Maximum number of waiting commands per urgency.
pub(super) const WAITING_MAX: usize = 24;
/// Octets of a reply that are collected before they are sent.
const BUFFER: usize = 64 << 10;

/// The client of a control connection, as reported by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlPeer {
    /// The user.
    pub uid: u32,
}

/// Runs the operations that clients request. Called on a thread that may block.
pub trait Commands: Send + Sync + 'static {
    /// Runs an operation requested by `peer`; the items of a listing are passed to `items`.
    fn run(&self, request: &ControlRequest, peer: ControlPeer, items: ItemSink<'_>) -> Outcome;

    /// Hands the server over to the process at the other end of the connection. Returns when that process serves, or
    /// has given up.
    fn hand_over(&self, _request: &ControlRequest, _stream: &BlockingStream) -> Outcome<()> {
        Err(OperationError::refused("this server cannot be taken over"))
    }
}

/// The slots for commands of one urgency.
struct CommandSlots {
    /// Commands that run or wait.
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Default for CommandSlots {
    fn default() -> Self {
        CommandSlots {
            admitted: Arc::new(Semaphore::new(RUNNING_MAX + WAITING_MAX)),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
        }
    }
}

impl CommandSlots {
    /// Waits for a slot; `None` if too many commands are waiting.
    async fn take(&self) -> Option<[OwnedSemaphorePermit; 2]> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().ok()?;
        let running = Arc::clone(&self.running).acquire_owned().await.ok()?;
        Some([admitted, running])
    }
}

/// Connections without a complete request, oldest first.
#[derive(Default)]
struct PendingConnections(Mutex<BTreeMap<u64, PendingConnection>>);

struct PendingConnection {
    since: Instant,
    task: AbortHandle,
}

impl PendingConnections {
    /// Removes a connection that has sent its request; false if it was already closed for another one.
    fn remove(&self, id: u64) -> bool {
        self.0.lock().remove(&id).is_some()
    }

    /// Closes the oldest one; returns the remaining time if it is too young, or `None` if there is none.
    fn close_oldest(&self, now: Instant) -> Option<Duration> {
        let mut all = self.0.lock();
        let oldest = all.first_entry()?;
        let age = now.saturating_duration_since(oldest.get().since);
        if age < REQUEST_GRACE {
            return Some(REQUEST_GRACE - age);
        }
        oldest.remove().task.abort();
        Some(Duration::ZERO)
    }
}

/// The state that all connections share.
struct ControlServer {
    commands: Arc<dyn Commands>,
    ordinary: CommandSlots,
    reloads: CommandSlots,
    pending: PendingConnections,
}

impl ControlSocket {
    /// Answers requests until `shutdown` is true, and returns when running commands have finished.
    pub async fn serve(
        self,
        commands: Arc<dyn Commands>,
        mut shutdown: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let server = Arc::new(ControlServer {
            commands,
            ordinary: CommandSlots::default(),
            reloads: CommandSlots::default(),
            pending: PendingConnections::default(),
        });
        let mut id = 0u64;
        loop {
            let accepted = tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => break,
                accepted = accept(&listener, &connections, &server.pending) => accepted,
            };
            let Some((stream, connection)) = accepted else {
                // Out of descriptors: only waiting helps.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // The file mode restricts this as well; the check also holds if the mode was changed.
            let peer = stream.peer_cred().map(|peer| peer.uid());
            let Ok(uid) = peer else {
                continue;
            };
            if uid != 0 && uid != self.owner {
                continue;
            }
            let peer = ControlPeer { uid };
            id += 1;
            let (shared, mut shutdown) = (Arc::clone(&server), shutdown.clone());
            // The lock is held until the task is in the list, so it cannot be removed before it is added.
            let mut pending = server.pending.0.lock();
            let task = tokio::spawn(async move {
                shared
                    .handle_connection((stream, peer), id, &mut shutdown)
                    .await;
                drop(connection);
            });
            let silence = PendingConnection {
                since: Instant::now(),
                task: task.abort_handle(),
            };
            pending.insert(id, silence);
        }
        // No further requests are accepted; running commands still send their replies.
        drop(listener);
        let _ = connections.acquire_many(CONNECTIONS_MAX as u32).await;
        Ok(())
    }
}

/// Accepts a connection, closing another one if all are taken.
async fn accept(
    listener: &UnixListener,
    connections: &Arc<Semaphore>,
    pending: &PendingConnections,
) -> Option<(UnixStream, OwnedSemaphorePermit)> {
    let (stream, _) = listener.accept().await.ok()?;
    loop {
        if let Ok(connection) = Arc::clone(connections).try_acquire_owned() {
            return Some((stream, connection));
        }
        let free = Arc::clone(connections).acquire_owned();
        let free = match pending.close_oldest(Instant::now()) {
            Some(Duration::ZERO) | None => free.await,
            Some(too_young) => match timeout(too_young, free).await {
                Ok(free) => free,
                Err(_) => continue,
            },
        };
        return Some((stream, free.ok()?));
    }
}

impl ControlServer {
    /// Reads one request and answers it.
    async fn handle_connection(
        &self,
        (mut stream, peer): (UnixStream, ControlPeer),
        id: u64,
        shutdown: &mut watch::Receiver<bool>,
    ) {
        let request = tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => None,
            request = read_request(&mut stream) => request,
        };
        let is_open = self.pending.remove(id);
        let Some(request) = request.filter(|_| is_open) else {
            return;
        };
        let (request, slot) = match request {
            Ok(request) => {
                let slot = tokio::select! {
                    slot = self.wait_for_slot(&request) => slot,
                    _ = shutdown.wait_for(|stop| *stop) => {
                        Err(OperationError::refused("the server is stopping"))
                    }
                };
                (Some(request), slot)
            }
            Err(error) => (None, Err(error)),
        };
        // From here on, the thread that runs the command sends the reply, and waits for slow clients.
        let Ok(stream) = blocking(stream) else {
            return;
        };
        let commands = Arc::clone(&self.commands);
        let work = move || match (request, slot) {
            (Some(request), Ok(_)) if matches!(request.request, OperationRequest::TakeOver) => {
                if let Err(error) = commands.hand_over(&request, &stream) {
                    drop(send(stream, &ReplyLine::Failed(error)));
                }
            }
            (Some(request), Ok(_slot)) => answer(stream, &*commands, (&request, peer)),
            (_, Err(error)) => drop(send(stream, &ReplyLine::Failed(error))),
            (None, Ok(_)) => {}
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }

    /// Waits until a command may run.
    async fn wait_for_slot(
        &self,
        request: &ControlRequest,
    ) -> Outcome<Option<[OwnedSemaphorePermit; 2]>> {
        let (seats, what) = match request.request.urgency() {
            Urgency::Immediate => return Ok(None),
            Urgency::Reload => (
                &self.reloads,
                "reloads are already waiting; one of them will load the current state",
            ),
            Urgency::Ordinary => (
                &self.ordinary,
                "commands are already running or waiting; try again later",
            ),
        };
        let refused = || {
            let number = RUNNING_MAX + WAITING_MAX;
            OperationError::refused(format!("{number} {what}"))
        };
        seats.take().await.map(Some).ok_or_else(refused)
    }
}

/// Reads one request line; `None` if none arrives.
async fn read_request(stream: &mut UnixStream) -> Option<Outcome<ControlRequest>> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(REQUEST_MAX));
    match timeout(CLIENT_TIMEOUT, reader.read_until(b'\n', &mut line)).await {
        Ok(Ok(0)) | Ok(Err(_)) | Err(_) => None,
        Ok(Ok(_)) if !line.ends_with(b"\n") => Some(Err(OperationError::invalid(format!(
            "expected one line of at most {REQUEST_MAX} octets"
        )))),
        Ok(Ok(_)) => Some(
            serde_json::from_slice(&line)
                .map_err(|error| OperationError::invalid(format!("invalid request: {error}"))),
        ),
    }
}

fn blocking(stream: UnixStream) -> io::Result<BlockingStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    Ok(stream)
}

/// Runs an operation and sends its items as they are produced, then its result.
fn answer(
    stream: BlockingStream,
    commands: &dyn Commands,
    (request, peer): (&ControlRequest, ControlPeer),
) {
    let mut writer = BufWriter::with_capacity(BUFFER, stream);
    let mut is_open = true;
    let mut items = |item| {
        is_open = is_open && write_line(&mut writer, &ReplyLine::Item(item)).is_ok();
        is_open
    };
    // A panic in a command must lose neither its reply nor its slot.
    let result = catch_unwind(AssertUnwindSafe(|| commands.run(request, peer, &mut items)));
    let last = match result {
        Ok(Ok(result)) => ReplyLine::Done(result),
        Ok(Err(error)) => ReplyLine::Failed(error),
        Err(_) => ReplyLine::Failed(OperationError::new(
            ErrorKind::Internal,
            "internal error; see the server log",
        )),
    };
    let is_stopping = matches!(last, ReplyLine::Done(OperationResult::Stopping));
    let is_sent = is_open && write_line(&mut writer, &last).is_ok() && writer.flush().is_ok();
    if let Ok(stream) = writer.into_inner()
        && is_stopping
        && is_sent
    {
        // Left open: the exit of the process closes it, which tells the client that the server has stopped.
        let _ = stream.into_raw_fd();
    }
}

fn send(mut stream: BlockingStream, line: &ReplyLine) -> io::Result<()> {
    write_line(&mut stream, line)
}

fn write_line(writer: &mut impl Write, line: &ReplyLine) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    writer.write_all(&text)
}
