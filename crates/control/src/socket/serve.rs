//! Owns the server's side of the control socket: who is heard, in which order, and how replies are sent.
//!
//! Commands are read as they come, and only then wait for their turn. At most [`RUNNING_MAX`] ordinary commands run and
//! [`WAITING_MAX`] wait; more are refused at once, so that they never hold all connections. Reloads have seats of
//! their own, and what takes a moment (`status`, `stop`, `stats`) needs none. When all connections are taken, the one that has been
//! without a whole request for longest makes room, so clients that say nothing keep no command waiting.

use nameward_base::sync::{Mutex, MutexGuard};
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

use super::{CLIENT_PATIENCE, ControlSocket};
use crate::operations::{
    ControlRequest, ErrorKind, ItemSink, OperationError, OperationRequest, OperationResult,
    ReplyLine, Urgency,
};

/// Octets of the longest request line: a batch of some hundred thousand records. Only the owner of the server is heard.
pub const REQUEST_MAX: u64 = 16 << 20;
/// Connections open at one time. More than all that may run and wait.
pub(super) const CONNECTIONS_MAX: usize = 128;
/// A connection without a whole request is not closed for another one before it is this old: a client sends its request at once.
const REQUEST_GRACE: Duration = Duration::from_millis(100);
/// Commands of one urgency that run at one time.
pub(super) const RUNNING_MAX: usize = 16;
/// Commands of one urgency that wait for their turn.
pub(super) const WAITING_MAX: usize = 24;
/// Octets of a reply that are collected before they are sent.
const BUFFER: usize = 64 << 10;

/// Who asks over the control socket, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlPeer {
    /// The user.
    pub uid: u32,
}

/// Does the operations that clients ask for. Called on a thread that may block.
pub trait Commands: Send + Sync + 'static {
    /// Does an operation that `peer` asks for; the items of a listing go to `items`.
    fn run(
        &self,
        request: &ControlRequest,
        peer: ControlPeer,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError>;

    /// Hands the server over to the process at the other end of the connection. Returns when that process serves, or has
    /// given up.
    fn hand_over(
        &self,
        _request: &ControlRequest,
        _stream: &BlockingStream,
    ) -> Result<(), OperationError> {
        Err(OperationError::refused("this server cannot be taken over"))
    }
}

/// The seats for commands of one urgency.
struct Seats {
    /// Commands that run or wait.
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Default for Seats {
    fn default() -> Self {
        Seats {
            admitted: Arc::new(Semaphore::new(RUNNING_MAX + WAITING_MAX)),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
        }
    }
}

impl Seats {
    /// Waits for a turn; `None` if too many wait already.
    async fn take(&self) -> Option<[OwnedSemaphorePermit; 2]> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().ok()?;
        let running = Arc::clone(&self.running).acquire_owned().await.ok()?;
        Some([admitted, running])
    }
}

/// Connections without a whole request, the oldest first.
#[derive(Default)]
struct SilentConnections(Mutex<BTreeMap<u64, SilentConnection>>);

struct SilentConnection {
    since: Instant,
    task: AbortHandle,
}

impl SilentConnections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, SilentConnection>> {
        self.0.lock()
    }

    /// Notes that a connection has sent its request; false if it was closed for another one.
    fn remove(&self, id: u64) -> bool {
        self.lock().remove(&id).is_some()
    }

    /// Closes the oldest one; `None` if there is none, or the time until it may be closed.
    fn close_oldest(&self, now: Instant) -> Option<Duration> {
        let mut all = self.lock();
        let oldest = all.first_entry()?;
        let age = now.saturating_duration_since(oldest.get().since);
        if age < REQUEST_GRACE {
            return Some(REQUEST_GRACE - age);
        }
        oldest.remove().task.abort();
        Some(Duration::ZERO)
    }
}

/// The parts that all conversations share.
struct ControlServer {
    commands: Arc<dyn Commands>,
    ordinary: Seats,
    reloads: Seats,
    silent: SilentConnections,
}

impl ControlSocket {
    /// Answers requests until `shutdown` says true, and then ends when those that run have ended.
    pub async fn serve(
        self,
        commands: Arc<dyn Commands>,
        mut shutdown: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let server = Arc::new(ControlServer {
            commands,
            ordinary: Seats::default(),
            reloads: Seats::default(),
            silent: SilentConnections::default(),
        });
        let mut id = 0u64;
        loop {
            let accepted = tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => break,
                accepted = accept(&listener, &connections, &server.silent) => accepted,
            };
            let Some((stream, connection)) = accepted else {
                // Short of descriptors: waiting is all that helps.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // The file mode says the same; this also holds where the mode was changed.
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
            // The lock is held until the task is listed, so it cannot leave the list before it is in.
            let mut silent = server.silent.lock();
            let task = tokio::spawn(async move {
                shared.converse((stream, peer), id, &mut shutdown).await;
                drop(connection);
            });
            let silence = SilentConnection {
                since: Instant::now(),
                task: task.abort_handle(),
            };
            silent.insert(id, silence);
        }
        // Not heard any more, and then whoever has a turn gets its reply.
        drop(listener);
        let _ = connections.acquire_many(CONNECTIONS_MAX as u32).await;
        Ok(())
    }
}

/// Accepts a connection, and makes room for it where all are taken.
async fn accept(
    listener: &UnixListener,
    connections: &Arc<Semaphore>,
    silent: &SilentConnections,
) -> Option<(UnixStream, OwnedSemaphorePermit)> {
    let (stream, _) = listener.accept().await.ok()?;
    loop {
        if let Ok(connection) = Arc::clone(connections).try_acquire_owned() {
            return Some((stream, connection));
        }
        let free = Arc::clone(connections).acquire_owned();
        let free = match silent.close_oldest(Instant::now()) {
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
    async fn converse(
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
        let is_open = self.silent.remove(id);
        let Some(request) = request.filter(|_| is_open) else {
            return;
        };
        let (request, turn) = match request {
            Ok(request) => {
                let turn = tokio::select! {
                    turn = self.turn(&request) => turn,
                    _ = shutdown.wait_for(|stop| *stop) => {
                        Err(OperationError::refused("the server is stopping"))
                    }
                };
                (Some(request), turn)
            }
            Err(error) => (None, Err(error)),
        };
        // From here on the thread that does the work sends the reply, and waits where the client is slow.
        let Ok(stream) = blocking(stream) else {
            return;
        };
        let commands = Arc::clone(&self.commands);
        let work = move || match (request, turn) {
            (Some(request), Ok(_)) if matches!(request.request, OperationRequest::TakeOver) => {
                if let Err(error) = commands.hand_over(&request, &stream) {
                    drop(send(stream, &ReplyLine::Failed(error)));
                }
            }
            (Some(request), Ok(_turn)) => answer(stream, &*commands, (&request, peer)),
            (_, Err(error)) => drop(send(stream, &ReplyLine::Failed(error))),
            (None, Ok(_)) => {}
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }

    /// Waits until a command may run.
    async fn turn(
        &self,
        request: &ControlRequest,
    ) -> Result<Option<[OwnedSemaphorePermit; 2]>, OperationError> {
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

/// Reads one request line; `None` if none comes.
async fn read_request(stream: &mut UnixStream) -> Option<Result<ControlRequest, OperationError>> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(REQUEST_MAX));
    match timeout(CLIENT_PATIENCE, reader.read_until(b'\n', &mut line)).await {
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
    stream.set_write_timeout(Some(CLIENT_PATIENCE))?;
    Ok(stream)
}

/// Does an operation and sends its items as they come, then its result.
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
    // A fault in one command must not take its reply away, nor its seat.
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
        // Left open: the end of the process closes it, by which the client sees that the server has ended.
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
