//! The log message ring, which web request lines share with all other messages.
//!
//! The page refreshes itself and each refresh is logged, so request lines are kept separately: in a full ring they use
//! the room that other messages leave, but at least a tenth of it. A request therefore never displaces an error that is
//! among the newest nine tenths of the other messages.

use std::sync::Arc;

use crate::message_notes::{MessageNote, MessageNotes};
use crate::ring_part::{Chunk, Part, RingBatch, merge_newest};
use crate::text::write_message;

/// The kind of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// The line of a web request.
    Request,
    /// Any other message.
    Other,
}

/// Both kinds of log messages.
pub(crate) struct Messages {
    capacity: usize,
    others: Part,
    requests: Part,
    /// Separate, because each request has its own line.
    notes_of_others: MessageNotes,
    notes_of_requests: MessageNotes,
}

/// The log messages that a reader sees.
#[derive(Clone, Default)]
pub(crate) struct SharedMessages {
    pub(crate) others: Vec<Arc<Chunk>>,
    pub(crate) requests: Vec<Arc<Chunk>>,
}

impl Messages {
    pub(crate) fn new(capacity: usize) -> Self {
        Messages {
            capacity,
            others: Part::new(capacity),
            requests: Part::new(capacity),
            notes_of_others: MessageNotes::default(),
            notes_of_requests: MessageNotes::default(),
        }
    }

    /// Records level and time of a message that was pushed.
    pub(crate) fn note(&mut self, kind: MessageKind, text: &str, note: MessageNote) {
        let mut shown = String::new();
        write_message(text.as_bytes(), &mut shown);
        let notes = match kind {
            MessageKind::Request => &mut self.notes_of_requests,
            MessageKind::Other => &mut self.notes_of_others,
        };
        notes.note(&shown, note, self.capacity);
    }

    /// Returns the last occurrence of a message, given its text as shown.
    pub(crate) fn note_of(&self, shown: &str) -> Option<MessageNote> {
        let other = self.notes_of_others.get(shown);
        other.or_else(|| self.notes_of_requests.get(shown))
    }

    pub(crate) fn push(&mut self, kind: MessageKind, batch: &RingBatch<'_>) {
        match kind {
            MessageKind::Request => self.requests.push(batch),
            MessageKind::Other => self.others.push(batch),
        }
    }

    pub(crate) fn share(&self) -> SharedMessages {
        let mut shared = SharedMessages::default();
        self.others.share(&mut shared.others);
        self.requests.share(&mut shared.requests);
        shared
    }

    /// Changes the capacity; the newest messages of both kinds are kept, and dropped ones do not reappear.
    pub(crate) fn resize(&mut self, capacity: usize) {
        let kept = self.capacity.min(capacity);
        let shared = self.share();
        let (others, requests) = shares(kept, entries(&shared.others), entries(&shared.requests));
        *self = Messages {
            notes_of_others: std::mem::take(&mut self.notes_of_others),
            notes_of_requests: std::mem::take(&mut self.notes_of_requests),
            ..Messages::new(capacity)
        };
        for batch in newest(&shared.others, others) {
            self.others.push(&batch);
        }
        for batch in newest(&shared.requests, requests) {
            self.requests.push(&batch);
        }
    }
}

/// Returns how many of the other messages and of the requests fit into a ring.
pub(crate) fn shares(capacity: usize, others: usize, requests: usize) -> (usize, usize) {
    let reserved = capacity.div_ceil(10).min(requests);
    let others = others.min(capacity - reserved);
    (others, requests.min(capacity - others))
}

pub(crate) fn entries(chunks: &[Arc<Chunk>]) -> usize {
    chunks.iter().map(|chunk| chunk.entries()).sum()
}

pub(crate) fn newest(chunks: &[Arc<Chunk>], limit: usize) -> Vec<RingBatch<'_>> {
    merge_newest(chunks.iter().map(Arc::as_ref), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_the_room_that_others_leave_and_at_least_a_tenth() {
        for (capacity, others, requests, expected) in [
            (1000, 0, 0, (0, 0)),
            (1000, 5, 2000, (5, 995)),
            (1000, 2000, 5, (995, 5)),
            (1000, 2000, 2000, (900, 100)),
            (1000, 600, 399, (600, 399)),
            (10, 20, 20, (9, 1)),
            (1, 1, 0, (1, 0)),
            (1, 1, 1, (0, 1)),
        ] {
            assert_eq!(shares(capacity, others, requests), expected);
        }
    }
}
