//! How changes get to the writer thread, and their results back.

use super::StateStore;
use super::change::{StateChange, Written};
use super::error::StateError;
use super::writer::{WAITING, WriteRequest, WriterMessage, WrittenDone};
use nameward_base::worker::PushError;
use std::sync::mpsc::sync_channel;

/// Makes changes durable. A simulation injects faults between the commits and their store.
pub trait Durable: Send + Sync {
    /// Writes changes, all or none, and calls `done` from the writer thread when they are on disk or failed, in the
    /// order of submission. Does not wait.
    fn submit(&self, changes: Vec<StateChange>, done: WrittenDone);

    /// Returns the store that they can be read from.
    fn store(&self) -> &StateStore;
}

impl Durable for StateStore {
    fn submit(&self, changes: Vec<StateChange>, done: WrittenDone) {
        let request = WriterMessage::Write(WriteRequest { changes, done });
        match self.inner.writer.requests.try_push(request) {
            Err(PushError::Full(WriterMessage::Write(request))) => {
                (request.done)(Err(StateError::Busy(WAITING)));
            }
            Err(PushError::Closed(WriterMessage::Write(request))) => {
                (request.done)(Err(StateError::Closed));
            }
            _ => {}
        }
    }

    fn store(&self) -> &StateStore {
        self
    }
}

impl StateStore {
    /// Writes changes, all or none, and waits until they are on disk.
    pub fn write(&self, changes: Vec<StateChange>) -> Result<Written, StateError> {
        let (sender, receiver) = sync_channel(1);
        let done = move |result| {
            let _ = sender.send(result);
        };
        self.submit(changes, Box::new(done));
        receiver.recv().unwrap_or(Err(StateError::Closed))
    }
}
